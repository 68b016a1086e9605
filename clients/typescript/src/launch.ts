import { spawn } from "node:child_process";

import { bundled, missing } from "./program.js";

/** Signals that Node.js can take and pass on. */
const SIGNALS = ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR2"] as const;

/** Becomes a program of the package. */
export function launch(name: "hookjail" | "hookjail-run"): void {
  const program = bundled(name);
  if (!program) {
    console.error(`${name}: ${missing()}`);
    // To most runtimes this code is a denial: a guard that cannot be started must let nothing pass.
    process.exit(2);
  }
  const args = process.argv.slice(2);
  // Node.js 22.15 and newer. Its warning about an experimental function is no output of the program.
  process.removeAllListeners("warning");
  process.execve?.(program, [program, ...args], process.env);
  const child = spawn(program, args, { stdio: "inherit" });
  for (const signal of SIGNALS) process.on(signal, () => child.kill(signal));
  child.on("error", (error) => {
    console.error(`${name}: ${error.message}`);
    process.exit(2);
  });
  child.on("exit", (code, signal) => {
    if (!signal) process.exit(code ?? 2);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}
