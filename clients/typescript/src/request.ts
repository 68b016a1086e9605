import type { DescMessage, Message, MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";

import { mustBeFields, mustBeOptions, type Names } from "./options.js";
import {
  Contract,
  DispatchRequestSchema,
  ExecuteRequestSchema,
  type HookSchema,
  type NarrowSchema,
  OnFailure,
} from "./proto.js";
import type { ContractName } from "./result.js";

/** The fields of a message as a literal. */
type Fields<T extends DescMessage> = Exclude<MessageInitShape<T>, Message>;
type ExecuteRequest = Fields<typeof ExecuteRequestSchema>;
type DispatchRequest = Fields<typeof DispatchRequestSchema>;

/** The longest wall time that a shipped profile allows, and so the maximum of a hook without one. */
const LONGEST = 30 * 60_000;

/** The time of a call beyond the hook's wall time: a question to the operator (a minute by default), and the journal. */
const MARGIN = 90_000;

/** A hook's command. One of `argv` and `shell` is needed. */
export interface Command {
  /** Program and arguments. */
  argv?: readonly string[];
  /** A line for the contract's shell. */
  shell?: string;
  /** A name for logs and the journal. */
  name?: string;
  /** Variables; the profile must admit them. */
  env?: Readonly<Record<string, string>>;
  /** The working directory; absolute, inside a grant. */
  cwd?: string;
  /** The directory that the profile grants as workspace; absolute. */
  workspace?: string;
}

/** Options of every call. */
export interface CallOptions {
  /** Cancels the call, and with it the hook; the call is rejected with the signal's reason. */
  signal?: AbortSignal;
  /** The limit of the whole call in milliseconds. Default: the wall time of the hook and 90 s. */
  deadline?: number;
}

interface Common extends CallOptions {
  /** The contract by which event, exit code and output are read. Default: `observe`. */
  contract?: ContractName;
  /** The lifecycle point, in the contract's spelling. */
  point?: string;
  /** The event: a value that becomes JSON, or JSON as text or bytes. */
  event?: object | string | Uint8Array;
  /** The profile. Default: the contract's. */
  profile?: string;
  /** The wall time in milliseconds. */
  timeout?: number;
  /** The session, for the journal and contracts with sessions. */
  sessionId?: string;
  /** The caller's id: a repeated id returns the same answer and runs nothing. */
  requestId?: string;
  /** `closed`: a failed hook stops, also where its contract would let it pass. */
  onFailure?: "contract" | "closed";
}

/** A hook to run. */
export interface ExecuteOptions extends Command, Common {
  /** The contract's mode. */
  mode?: string;
  /** Narrows the profile. */
  narrow?: Fields<typeof NarrowSchema>;
  /** Fields of the request without an option. */
  message?: ExecuteRequest;
}

/** A hook of one dispatch. */
export interface InlineHook extends Command {
  /** Matcher for tools; default: all. */
  matcher?: string;
  /** The contract's mode. */
  mode?: string;
  /** The profile. Default: the dispatch's. */
  profile?: string;
  /** The rest of its entry, in the contract's spelling. */
  config?: object;
}

/** A lifecycle point whose hooks are to run. */
export interface DispatchOptions extends Common {
  /** Selects the hooks. */
  point: string;
  /** The tool call, for matchers and contracts. */
  tool?: { name: string; useId?: string; input?: unknown };
  /** Hooks besides the configured ones. */
  hooks?: readonly InlineHook[];
  /** The agent's name. */
  agent?: string;
  /** The runtime's working directory. */
  cwd?: string;
  /** The directory that profiles grant as workspace; absolute. */
  workspace?: string;
  /** Fields of the request without an option. */
  message?: DispatchRequest;
}

const COMMAND: Names<Command> = { argv: true, cwd: true, env: true, name: true, shell: true, workspace: true };
const COMMON: Names<Common> = {
  contract: true,
  deadline: true,
  event: true,
  onFailure: true,
  point: true,
  profile: true,
  requestId: true,
  sessionId: true,
  signal: true,
  timeout: true,
};
const EXECUTE: Names<ExecuteOptions> = { ...COMMAND, ...COMMON, message: true, mode: true, narrow: true };
const INLINE_HOOK: Names<InlineHook> = { ...COMMAND, config: true, matcher: true, mode: true, profile: true };
const TOOL: Names<NonNullable<DispatchOptions["tool"]>> = { input: true, name: true, useId: true };
const DISPATCH: Names<DispatchOptions> = { ...COMMON, agent: true, cwd: true, hooks: true, message: true, tool: true, workspace: true };

export function executeRequest(options: ExecuteOptions): ExecuteRequest {
  mustBeOptions(options, EXECUTE);
  const { mode, narrow } = options;
  const request = { ...common(options), ...defined({ mode, narrow }), hook: hook(options), ...options.message };
  mustBeFields(ExecuteRequestSchema, request);
  return request;
}

export function dispatchRequest(options: DispatchOptions): DispatchRequest {
  mustBeOptions(options, DISPATCH);
  const { agent, cwd, tool, workspace } = options;
  const inlineHooks = options.hooks?.map((inline) => {
    mustBeOptions(inline, INLINE_HOOK);
    const { config, matcher, mode, profile } = inline;
    return { ...defined({ matcher, mode, profile, configJson: config && JSON.stringify(config) }), hook: hook(inline) };
  });
  if (tool) mustBeOptions(tool, TOOL);
  const request = {
    ...common(options),
    ...defined({ agent, cwd, inlineHooks, workspace }),
    ...(tool && { tool: defined({ name: tool.name, useId: tool.useId, inputJson: JSON.stringify(tool.input) }) }),
    ...options.message,
  };
  mustBeFields(DispatchRequestSchema, request);
  return request;
}

/** Returns the limits of a call for a transport. Every call has a deadline. */
export function limits({ deadline, signal, timeout = LONGEST }: Common): { signal?: AbortSignal; timeoutMs: number } {
  return { timeoutMs: deadline ?? timeout + MARGIN, ...defined({ signal }) };
}

function common({ contract, event, onFailure, point, profile, requestId, sessionId, timeout }: Common) {
  return {
    ...defined({ profile, requestId, sessionId }),
    ...(contract && { contract: numbered(Contract, contract) }),
    ...(onFailure && { onFailure: numbered(OnFailure, onFailure) }),
    ...(timeout !== undefined && { timeout: durationFromMs(timeout) }),
    event: defined({ point, json: event === undefined ? event : json(event) }),
    depth: depth(process.env["HOOKJAIL_DEPTH"]),
  };
}

function hook({ argv, cwd, env, name, shell, workspace }: Command): Fields<typeof HookSchema> {
  return defined({
    argv: argv && [...argv],
    env: env && { ...env },
    name,
    shell: shell === undefined ? shell : { script: shell },
    workingDir: cwd,
    workspace,
  });
}

/** Returns the value of a name in any case of letters. An unknown name is an error, as it would otherwise mean no contract. */
function numbered<T extends Record<string, string | number>>(names: T, name: string): T[keyof T] {
  const value = names[name.toUpperCase()];
  if (typeof value === "number") return value as T[keyof T];
  const known = Object.values(names).filter((one) => typeof one === "string");
  throw new TypeError(`unknown name \`${name}\`; use one of ${known.join(", ").toLowerCase()}`);
}

function json(event: object | string | Uint8Array): Uint8Array {
  if (event instanceof Uint8Array) return event;
  return Buffer.from(typeof event === "string" ? event : JSON.stringify(event));
}

/** Returns the nesting depth of hooks; the largest number where the variable cannot be read, which is refused. */
function depth(variable: string | undefined): number {
  if (!variable) return 0;
  return /^\d{1,9}$/.test(variable) ? Number(variable) : 0xffff_ffff;
}

/** Leaves out undefined fields, which generated messages do not take. */
function defined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}
