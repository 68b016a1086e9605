// The npm packages, installed as users have them.
import assert from "node:assert/strict";
import { type SpawnOptions, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, suite, test } from "node:test";

import { Place, sleeps, until } from "./daemon.ts";

const installed = process.env["HOOKJAIL_INSTALLED"] ?? "";
const lacking = process.env["HOOKJAIL_LACKING"] ?? "";
assert(installed && lacking, "check.sh installs the packages");

suite("the packages", () => {
  const place = new Place();
  after(() => place.remove());
  // The program of the package, not the one that the other tests have, with a home of its own.
  const { HOOKJAIL: _, ...rest } = process.env;
  const env = { ...rest, HOME: join(place.root, "home"), XDG_STATE_HOME: join(place.root, "state"), XDG_RUNTIME_DIR: "" };
  const launcher = (name: string, from = installed) => join(from, "node_modules/.bin", name);
  /** A Node.js that cannot become another program, as before 22.15. */
  const older = { ...env, NODE_OPTIONS: "--import data:text/javascript,delete%20process.execve" };
  const run = ["--config", place.config, "run", "--private", "--mirror", "--profile", "pipeline", "--"];

  for (const [way, environment] of Object.entries({ "becomes the program": env, "passes all on to the program": older })) {
    suite(`the launcher ${way}`, () => {
      const options = { env: environment, encoding: "utf8" } as const;

      test("with words, input, output and exit code", () => {
        const { status, stdout, stderr } = spawnSync(launcher("hookjail"), [...run, "/bin/sh", "-c", 'cat; echo "$1" >&2; exit 3', "sh", "two words"], { ...options, input: '{"a": 1}' });
        assert.deepEqual({ status, stdout, stderr }, { status: 3, stdout: '{"a": 1}', stderr: "two words\n" });
      });

      test("with signals", async () => {
        const child = spawn(launcher("hookjail"), [...run, "/bin/sleep", "1205.5"], { env: environment, stdio: ["ignore", "inherit", "inherit"] });
        await until("the hook runs", () => sleeps("1205.5"));
        child.kill("SIGTERM");
        assert.deepEqual(await once(child, "exit"), [143, null]);
        await until("the hook has ended", () => !sleeps("1205.5"));
      });

      test("of its death by a signal", async () => {
        // The daemon does not handle this signal, and so does not end in order.
        const child = spawn(launcher("hookjail"), ["--config", place.config, "serve"], { env: environment, stdio: ["ignore", "ignore", "pipe"] } satisfies SpawnOptions);
        await once(child.stderr!, "data");
        child.kill("SIGUSR2");
        assert.deepEqual(await once(child, "exit"), [null, "SIGUSR2"]);
      });

      test("also hookjail-run", () => {
        const words = ["--config", place.config, "--as", "claude-code", "--connect", "/nonexistent.sock", "--", "/bin/true"];
        const { status, stdout, stderr } = spawnSync(launcher("hookjail-run"), words, { ...options, input: '{"hook_event_name": "PreToolUse"}' });
        assert.deepEqual([status, stdout], [2, ""]);
        assert.match(stderr, /cannot reach the daemon at `.nonexistent.sock`/);
      });
    });
  }

  test("have their licences", () => {
    for (const name of ["hookjail", `@hookjail/${process.platform}-${process.arch}`]) {
      for (const licence of ["LICENSE-APACHE", "LICENSE-MIT"]) assert(existsSync(join(installed, "node_modules", name, licence)));
    }
  });

  test("npx finds it", () => {
    const { status, stdout, stderr } = spawnSync("npx", ["hookjail", "run", "--private", "--mirror", "--", "/bin/echo", "hi"], { cwd: installed, env, encoding: "utf8", input: "" });
    assert.deepEqual([status, stdout], [0, "hi\n"], stderr);
  });

  test("without the package of the platform that is said, and nothing passes", () => {
    for (const name of ["hookjail", "hookjail-run"]) {
      const { status, stdout, stderr } = spawnSync(launcher(name, lacking), ["--version"], { env, encoding: "utf8" });
      assert.deepEqual([status, stdout], [2, ""]);
      assert.match(stderr, new RegExp(`^${name}: the package @hookjail/linux-.* is not installed, .*npm install @hookjail/linux-`));
    }
    const script = 'import { Client } from "hookjail"; await Client.private().catch((error) => console.log(String(error)))';
    const { stdout } = spawnSync(process.execPath, ["--input-type=module", "--eval", script], { cwd: lacking, env: { ...env, PATH: "/nonexistent" }, encoding: "utf8" });
    assert.match(stdout, /^NotStarted: hookjail is not on the PATH, and the package @hookjail\/linux-.* is not installed/);
  });

  test("the README's lines do what it prints", () => {
    const readme = readFileSync(join(installed, "node_modules/hookjail/README.md"), "utf8");
    const [, lines, printed] = /```js\n(.*?)```\n+```text\n(.*?)```/s.exec(readme) ?? [];
    assert(lines && printed);
    writeFileSync(join(installed, "readme.mjs"), lines);
    const { stdout, stderr } = spawnSync(process.execPath, ["readme.mjs"], { cwd: installed, env, encoding: "utf8" });
    assert.equal(stdout, printed, stderr);
  });
});
