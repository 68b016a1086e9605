// A server of this process alone.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { after, suite, test } from "node:test";

import { CallFailed, Client } from "hookjail";

import { allow, isAlive, Place, program, sleeps, until } from "./daemon.ts";

suite("a private server", () => {
  const place = new Place();
  const options = { config: place.config };
  after(() => place.remove());

  /** Runs a script in a process of its own. */
  function node(script: string) {
    const text = `import { Client } from "hookjail";
      const client = await Client.private(${JSON.stringify(options)});
      console.log(client.pid);
      ${script}`;
    return spawn(process.execPath, ["--input-type=module", "--eval", text], { stdio: ["ignore", "pipe", "inherit"], cwd: import.meta.dirname });
  }

  test("serves until it is closed, and leaves nothing", async () => {
    const client = await Client.private(options);
    const directory = dirname(client.address);
    assert.equal(statSync(directory).mode & 0o777, 0o700);
    assert(client.pid && isAlive(client.pid));
    await allow(client, ["/bin/echo", "hi"]);
    const run = await client.execute({ argv: ["/bin/echo", "hi"] });
    assert.deepEqual([run.exitCode, run.stdout.toString(), run.confirmed], [0, "hi\n", true]);
    await client.close();
    assert(!isAlive(client.pid) && !existsSync(directory));
    await assert.rejects(client.execute({ argv: ["/bin/echo", "hi"] }), CallFailed);
    await client.close();
  });

  test("refuses what nobody allowed, too", async (t) => {
    const client = await Client.private(options);
    t.after(() => client.close());
    await assert.rejects(client.execute({ argv: ["/bin/echo", "never"] }), { name: "Refused", reason: "CONSENT_REQUIRED" });
  });

  test("runs what its parent vouches for, and remembers it", async () => {
    const argv = ["/bin/echo", "vouched"];
    for (const more of [{ acceptHooks: true }, {}]) {
      const client = await Client.private({ ...options, ...more });
      assert.equal((await client.execute({ argv })).stdout.toString(), "vouched\n");
      await client.close();
    }
  });

  test("ends with what it runs when its parent is killed", async (t) => {
    const client = await Client.private(options);
    t.after(() => client[Symbol.asyncDispose]());
    await allow(client, ["/bin/sleep", "1204.5"], "pipeline");
    const parent = node(`await client.execute({ argv: ["/bin/sleep", "1204.5"], profile: "pipeline" })`);
    const [line] = await once(parent.stdout, "data");
    const pid = Number(String(line));
    await until("the hook runs", () => sleeps("1204.5"));
    assert(isAlive(pid));
    parent.kill("SIGKILL");
    await until("server and hook have ended", () => !isAlive(pid) && !sleeps("1204.5"));
  });

  test("does not keep its parent from its end", async (t) => {
    const parent = node(`try { await client.execute({ argv: ["/bin/echo", "not allowed"] }) } catch (error) { console.log(error.reason) }`);
    let printed = "";
    parent.stdout.setEncoding("utf8").on("data", (text: string) => (printed += text));
    // Without its end this test is out of time, and so is the process.
    t.signal.addEventListener("abort", () => parent.kill("SIGKILL"));
    assert.deepEqual(await once(parent, "close"), [0, null], printed);
    const [pid, reason] = printed.split("\n");
    assert.equal(reason, "CONSENT_REQUIRED");
    await until("the server has ended", () => !isAlive(Number(pid)));
  });

  test("that answers no more fails its calls at their deadline", async () => {
    const client = await Client.private(options);
    await allow(client, ["/bin/echo", "slow"]);
    process.kill(client.pid as number, "SIGSTOP");
    try {
      const error = await client.execute({ argv: ["/bin/echo", "slow"], deadline: 500 }).catch((error: unknown) => error);
      assert(error instanceof CallFailed, String(error));
      assert.equal(error.code, "DEADLINE_EXCEEDED");
    } finally {
      process.kill(client.pid as number, "SIGCONT");
    }
    assert.equal((await client.execute({ argv: ["/bin/echo", "slow"] })).exitCode, 0);
    await client.close();
  });

  test("that is killed fails its calls", async () => {
    const client = await Client.private(options);
    process.kill(client.pid as number, "SIGKILL");
    await until("it has ended", () => !isAlive(client.pid as number));
    await assert.rejects(client.execute({ argv: ["/bin/echo", "hi"] }), CallFailed);
    assert(existsSync(dirname(client.address)));
    await client.close();
    assert(!existsSync(dirname(client.address)));
  });

  test("that cannot serve says why", async () => {
    const broken = join(place.root, "broken.toml");
    writeFileSync(broken, "[server]\nsoket = 1\n", { mode: 0o600 });
    await assert.rejects(Client.private({ config: broken }), { name: "NotStarted", message: /soket/ });
    await assert.rejects(Client.private({ program: "/nonexistent/hookjail" }), { name: "NotStarted", message: /\/nonexistent\/hookjail.*ENOENT/ });
  });

  test("is there for CommonJS, and logs to who asks", async () => {
    const required = createRequire(import.meta.url)("hookjail") as typeof import("hookjail");
    let log = "";
    const client = await required.Client.private({ ...options, program, log: (text) => (log += text) });
    await assert.rejects(client.execute({ argv: ["/bin/echo", "logged"] }), required.Refused);
    await client.close();
    assert.match(log, /CONSENT_REQUIRED/);
  });
});
