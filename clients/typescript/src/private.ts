import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { dirname } from "node:path";

import { socketOf } from "./address.js";
import { NotStarted } from "./errors.js";
import { mustBeOptions } from "./options.js";
import { find, missing } from "./program.js";

/** The time that a server may take to listen: first comes the self-test of its profiles. */
const START_MS = 60_000;

/** The time that a server has to end its runs before it is killed. */
const END_MS = 10_000;

/** The part of the server's log that an error quotes, characters. */
const QUOTED = 4_000;

/** Options of a private server. */
export interface PrivateOptions {
  /** The program. Default: $HOOKJAIL, that of the npm package, `hookjail` on the PATH. */
  program?: string;
  /** A configuration of hookjail's. */
  config?: string;
  /** Vouch for every command: commands without a consent are added to the user's allowlist and run. Changed files stay refused. */
  acceptHooks?: boolean;
  /** Takes the server's log, in pieces of text. The log names commands that allow hooks, and is not for a model. */
  log?: (text: string) => void;
}

/** `hookjail serve --private`, which serves until its stdin ends, however this process ends. */
export class PrivateServer {
  readonly socket: string;
  readonly pid: number | undefined;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, socket: string) {
    this.#child = child;
    this.pid = child.pid;
    this.socket = socket;
  }

  static async start(options: PrivateOptions): Promise<PrivateServer> {
    mustBeOptions(options, { acceptHooks: true, config: true, log: true, program: true });
    const { acceptHooks, config, log, program } = options;
    const found = find(program);
    if (!found) throw new NotStarted(`hookjail is not on the PATH, and ${missing()}`);
    // The address is that of daemons that this process may call.
    const { HOOKJAIL_ADDR: _, ...env } = process.env;
    const child = spawn(found, [...(config ? ["--config", config] : []), "serve", "--private"], {
      // In a session of its own: this process alone handles signals of its terminal.
      detached: true,
      env: { ...env, ...(acceptHooks && { HOOKJAIL_ACCEPT_HOOKS: "1" }) },
    });
    let logged = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      logged = (logged + text).slice(-QUOTED);
      log?.(text);
    });
    // Nothing is written; if the server is gone already, closing its stdin may fail.
    child.stdin.on("error", () => {});
    try {
      const { address } = JSON.parse(await firstLine(child)) as { address: string };
      // None of these keeps this process running: its end ends the server.
      for (const one of [child, child.stdin, child.stdout, child.stderr]) (one as { unref?: () => void }).unref?.();
      return new PrivateServer(child, socketOf(address, {}, 0));
    } catch (error) {
      child.kill("SIGKILL");
      const why = error instanceof Error ? error.message : String(error);
      throw new NotStarted(`${found} serve --private does not serve: ${why}${logged && `\n${logged.trim()}`}`, { cause: error });
    }
  }

  /** Ends the server and waits for its end. */
  async close(): Promise<void> {
    const child = this.#child;
    if (child.exitCode === null && child.signalCode === null) {
      child.ref();
      child.stdin?.end();
      const timer = setTimeout(() => child.kill("SIGKILL"), END_MS);
      await once(child, "exit");
      clearTimeout(timer);
    }
    // A killed server could not remove its directory.
    if (child.exitCode !== 0) rmSync(dirname(this.socket), { recursive: true, force: true });
  }
}

/** Waits for the line with the server's address. */
function firstLine(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    const timer = setTimeout(() => reject(new Error(`no listener after ${START_MS / 1000} s`)), START_MS);
    const settle = (end: () => void) => {
      clearTimeout(timer);
      end();
    };
    child.once("error", (error) => settle(() => reject(error)));
    // Not `exit`, which may come before the end of the log.
    child.once("close", (code, signal) => settle(() => reject(new Error(`ended with ${signal ?? `exit code ${code}`}`))));
    child.stdout?.setEncoding("utf8").on("data", (piece: string) => {
      text += piece;
      const [line, rest] = text.split("\n", 2);
      if (rest !== undefined) settle(() => resolve(line as string));
    });
  });
}
