// A daemon for the tests, with files of its own.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { Client } from "hookjail";
import { ConsentService } from "hookjail/proto";

export const program = process.env["HOOKJAIL"] ?? "";
assert(program, "HOOKJAIL names the program");
// The tests name their own values.
delete process.env["HOOKJAIL_ADDR"];
delete process.env["HOOKJAIL_DEPTH"];

/** Directories with a configuration: sockets, state, and a workspace. */
export class Place {
  readonly root = mkdtempSync(join(tmpdir(), "hookjail-ts-"));
  readonly config = join(this.root, "hookjail.toml");
  readonly socket = join(this.root, "run/hookjail.sock");
  readonly workspace = join(this.root, "workspaces/one");

  constructor(more = "") {
    // Root's hooks run as other users.
    chmodSync(this.root, 0o755);
    mkdirSync(this.workspace, { recursive: true });
    const text = `
[server]
socket = "${this.socket}"
[paths]
state = "${this.root}/state"
runtime = "${this.root}/run"
[hooks]
workspace_roots = ["${this.root}/workspaces"]
${more}`;
    writeFileSync(this.config, text, { mode: 0o600 });
  }

  remove(): void {
    rmSync(this.root, { recursive: true, force: true });
  }
}

/** `hookjail serve` at a place. */
export class Daemon {
  readonly #child: ChildProcess;
  #log = "";

  private constructor(place: Place) {
    this.#child = spawn(program, ["--config", place.config, "serve"], { stdio: ["ignore", "ignore", "pipe"] });
    this.#child.stderr?.setEncoding("utf8").on("data", (text: string) => (this.#log += text));
  }

  static async start(place: Place): Promise<Daemon> {
    const daemon = new Daemon(place);
    await until("the daemon listens", async () => {
      assert.equal(daemon.#child.exitCode, null, daemon.#log);
      return Client.connect({ address: place.socket }).then(
        (client) => client.close().then(() => true),
        () => false,
      );
    });
    return daemon;
  }

  async end(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    const ended = once(this.#child, "exit");
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    this.#child.kill(signal);
    await ended;
  }
}

/** Allows a command, as its operator. */
export async function allow(client: Client, argv: readonly string[], profile = ""): Promise<void> {
  await client.service(ConsentService).allow({ argv: [...argv], profile });
}

/** Waits for what another process does. */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 30_000; Date.now() < end; await sleep(50)) if (await holds()) return;
  assert.fail(`in 30 s not: ${what}`);
}

/** Returns whether a `sleep` of this number of seconds runs. */
export function sleeps(seconds: string): boolean {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.some((pid) => {
    try {
      return new RegExp(`^(/bin/)?sleep\0${seconds}\0$`).test(readFileSync(`/proc/${pid}/cmdline`, "utf8"));
    } catch (error) {
      // The process has ended.
      assert.match(String(error), /ENOENT|ESRCH/);
      return false;
    }
  });
}

/** Returns whether a process is there, and no zombie. */
export function isAlive(pid: number): boolean {
  try {
    return !/^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}
