// Shared by drivers of runtimes in JavaScript: a runtime's modules with further names exported, a child process that ends as asked,
// and a loop that reads ends as JSON lines and answers each with a reading.

import child_process from "node:child_process";
import { EventEmitter } from "node:events";
import fs from "node:fs";
import { registerHooks, syncBuiltinESMExports } from "node:module";
import path from "node:path";
import readline from "node:readline";
import { pathToFileURL } from "node:url";

/**
 * Imports the module below a directory that declares all of the names, with these exported. Where several do, the one that the
 * entry imports is meant.
 */
export async function importWith(directory, names, entry) {
  const patterns = names.map((name) => new RegExp(`^(?:var ${name} = class |(?:async )?function ${name}\\()`, "m"));
  const entryText = entry ? fs.readFileSync(path.join(directory, entry), "utf8") : "";
  const found = [];
  for (const file of fs.readdirSync(directory).filter((file) => file.endsWith(".js")).sort()) {
    const text = fs.readFileSync(path.join(directory, file), "utf8");
    if (patterns.every((pattern) => pattern.test(text))) {
      found.push(file);
    }
  }
  if (found.length === 0) {
    throw new Error(`no module of ${directory} declares ${names.join(", ")}`);
  }
  const chosen = found.find((file) => entryText.includes(file)) ?? found[0];
  const url = pathToFileURL(fs.realpathSync(path.join(directory, chosen))).href;
  const exported = names.map((name) => `${name} as played_${name}`).join(", ");
  registerHooks({
    load(asked, context, next) {
      const loaded = next(asked, context);
      return asked === url ? { ...loaded, source: `${loaded.source}\nexport { ${exported} };\n` } : loaded;
    },
  });
  const module = await import(url);
  return Object.fromEntries(names.map((name) => [name, module[`played_${name}`]]));
}

// The standard output is for readings alone.
for (const name of ["log", "info", "debug", "warn", "error"]) {
  console[name] = () => {};
}
process.stdout.write = () => true;

/** The end that the next child process has. */
let current;

class Child extends EventEmitter {
  constructor(options) {
    super();
    const streams = options?.stdio ?? [];
    this.stdin = Object.assign(new EventEmitter(), { write() {}, end() {}, destroy() {} });
    this.stdout = new EventEmitter();
    this.stderr = new EventEmitter();
    this.stdio = [this.stdin, this.stdout, this.stderr];
    this.exitCode = this.signalCode = null;
    const end = current;
    setImmediate(() => {
      for (const [number, name] of [[1, "stdout"], [2, "stderr"]]) {
        const bytes = Buffer.from(end[name], "base64");
        if (streams[number] !== "ignore" && bytes.length > 0) {
          this[name].emit("data", bytes);
        }
      }
      this.emit("close", end.exit_code ?? null, end.signal ? "SIGKILL" : null);
    });
  }

  kill() {}
  ref() {}
  unref() {}
}

/** Has every process that is started from now on end as the current end says. */
export function playChildren() {
  child_process.spawn = (_program, _words, options) => new Child(options);
  syncBuiltinESMExports();
}

/** An object that has every method, which answer nothing unless they are given. */
export function anything(given) {
  return new Proxy(given, {
    get: (target, name) => (name in target ? target[name] : name === "then" ? undefined : () => undefined),
  });
}

/** Answers each end with its `id` and the reading that `read` makes. */
export async function serve(read) {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    current = JSON.parse(line);
    const reading = await read(current);
    fs.writeSync(1, `${JSON.stringify({ id: current.id, ...reading })}\n`);
  }
  process.exit(0);
}

/** A reading; members that are not given are empty. */
export function reading(kind, { context = undefined, rewrite = undefined, reason = undefined } = {}) {
  return {
    kind,
    context: typeof context === "string" && context.trim() !== "",
    rewrite: rewrite !== undefined && rewrite !== null,
    reason: typeof reason === "string" ? reason : reason === undefined ? "" : JSON.stringify(reason),
  };
}
