import { durationMs } from "@bufbuild/protobuf/wkt";

import {
  type Contract,
  Decision,
  type DispatchedHook,
  type DispatchResponse,
  type ExecuteResponse,
  OutcomeKind,
  type Reminder,
  type Verdict,
} from "./proto.js";

/** The name of a contract, such as `claude_code`. */
export type ContractName = Lowercase<Exclude<keyof typeof Contract, "UNSPECIFIED">>;

/** A decision. `UNSPECIFIED` is one unknown to this client. */
export type DecisionName = keyof typeof Decision;

/** How a hook ended. `UNSPECIFIED` is an end unknown to this client. */
export type OutcomeName = keyof typeof OutcomeKind;

/** The decisions that stop nothing. A decision that only a later daemon has does not pass as consent. */
const PASSES: readonly DecisionName[] = ["NONE", "ALLOW", "ASK"];

/** The end of a hook, and its meaning. */
export class Run {
  /** The whole answer. */
  readonly message: ExecuteResponse;

  constructor(message: ExecuteResponse) {
    this.message = message;
  }

  get outcome(): OutcomeName {
    return named(OutcomeKind, this.message.outcome?.kind);
  }

  /** The exit code, of a hook that exited. */
  get exitCode(): number | undefined {
    return this.message.outcome?.exitCode;
  }

  /** The signal that ended the hook. */
  get signal(): number | undefined {
    return this.message.outcome?.signal;
  }

  /** The kept beginning of stdout: `message.stdoutTruncated` is true if there was more. */
  get stdout(): Buffer {
    return buffer(this.message.stdout);
  }

  get stderr(): Buffer {
    return buffer(this.message.stderr);
  }

  /** Meaning of the end under the contract. */
  get verdict(): Verdict | undefined {
    return this.message.verdict;
  }

  get decision(): DecisionName {
    return named(Decision, this.message.verdict?.decision);
  }

  /** Whether the agent's action must not happen. */
  get stops(): boolean {
    return !PASSES.includes(this.decision);
  }

  /** Why it stops, in the hook's words. */
  get reason(): string {
    return this.message.verdict?.reason ?? "";
  }

  get backend(): string {
    return this.message.confinement?.backend ?? "";
  }

  get profile(): string {
    return this.message.confinement?.profile ?? "";
  }

  /** Whether confinement was proved on this host and in this run. */
  get confirmed(): boolean {
    return this.message.confinement?.confirmed ?? false;
  }

  /** From the request's arrival to the end of all processes, in milliseconds. */
  get duration(): number {
    const wall = this.message.usage?.wall;
    return wall ? durationMs(wall) : 0;
  }

  /** The run's id in the journal. */
  get runId(): string {
    return this.message.audit?.runId ?? "";
  }

  get requestId(): string {
    return this.message.requestId;
  }
}

/** The folded answer of the hooks of a lifecycle point. */
export class Dispatched {
  /** The whole answer. */
  readonly message: DispatchResponse;

  constructor(message: DispatchResponse) {
    this.message = message;
  }

  get verdict(): Verdict | undefined {
    return this.message.answer;
  }

  get decision(): DecisionName {
    return named(Decision, this.message.answer?.decision);
  }

  /** Whether the agent's action must not happen. */
  get stops(): boolean {
    return !PASSES.includes(this.decision);
  }

  /** Why it stops, in the hook's words. */
  get reason(): string {
    return this.message.answer?.reason ?? "";
  }

  /** The name of the hook that stopped; empty if none did. */
  get blockedBy(): string {
    return this.message.blockedByHook;
  }

  /** The hooks that were reached, each with its run, or why there was none. */
  get hooks(): readonly DispatchedHook[] {
    return this.message.hooks;
  }

  /** Texts to pass to the model later. */
  get reminders(): readonly Reminder[] {
    return this.message.reminders;
  }

  get requestId(): string {
    return this.message.requestId;
  }
}

function named<T extends Record<string, string | number>>(names: T, value = 0): keyof T & string {
  return String(names[value] ?? names[0]) as keyof T & string;
}

function buffer({ buffer, byteLength, byteOffset }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
