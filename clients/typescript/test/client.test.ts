// A client and a daemon that serves more than this process.
import assert from "node:assert/strict";
import { chmodSync, chownSync, existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";

import { create } from "@bufbuild/protobuf";
import { CallFailed, Client, HookjailError, Refused, Unreachable } from "hookjail";
import { ExecuteRequestSchema, HookService, SandboxService } from "hookjail/proto";

import { allow, Daemon, Place, sleeps, until } from "./daemon.ts";

suite("a client of a daemon", () => {
  const place = new Place(`
[[hook]]
name = "no-force"
contract = "loom"
point = "tool.pre"
matcher = "shell"
command = "grep -q -e --force && echo 'no force' >&2 && exit 1; echo looked"
profile = "pipeline"
[backends.profiles]
network = ["container"]
[container]
runtime = "/nonexistent/crun"
`);
  const sh = (script: string) => ["/bin/sh", "-c", script];
  const secret = join(place.workspace, "secret");
  let daemon: Daemon;
  let client: Client;

  /** Runs a line of sh that is allowed under `pipeline`, or the given profile. */
  async function run(script: string, options: Omit<Parameters<Client["execute"]>[0], "argv"> = {}) {
    const profile = options.profile ?? "pipeline";
    await allow(client, sh(script), profile);
    return client.execute({ argv: sh(script), profile, ...options });
  }

  before(async () => {
    writeFileSync(secret, "only in the workspace\n");
    daemon = await Daemon.start(place);
    client = await Client.connect({ address: place.socket });
  });
  after(async () => {
    await client.close();
    await daemon.end();
    place.remove();
  });

  test("a hook reads its event and ends with 0", async () => {
    const event = { tool: "shell", text: "ä\ud800" };
    const it = await run("cat; echo seen >&2", { event, point: "any", requestId: "one" });
    assert.deepEqual([it.outcome, it.exitCode, it.signal, it.decision, it.stops], ["EXITED", 0, undefined, "NONE", false]);
    assert.deepEqual(JSON.parse(it.stdout.toString()), event);
    assert.equal(it.stderr.toString(), "seen\n");
    assert.deepEqual([it.backend, it.profile, it.confirmed, it.requestId], ["landlock", "pipeline", true, "one"]);
    assert.match(it.runId, /^[0-9a-f-]{36}$/);
    assert(it.duration > 0 && it.duration < 30_000, `${it.duration}`);
    assert.equal(it.message.confinement?.axes.length, 14);
  });

  test("a hook ends with another code, or by a signal", async () => {
    assert.equal((await run("exit 3")).exitCode, 3);
    const killed = await run("kill -TERM $$");
    assert.deepEqual([killed.outcome, killed.exitCode, killed.signal], ["SIGNALED", undefined, 15]);
  });

  test("a guard stops, and a failed one where failures do", async () => {
    const guard = await run("echo 'not that' >&2; exit 1", { contract: "loom", point: "tool.pre", event: { event: "tool.pre", toolName: "shell" } });
    assert.deepEqual([guard.decision, guard.stops, guard.reason], ["DENY", true, "not that"]);
    const event = { tool_name: "Bash", tool_input: {} };
    const options = { contract: "claude_code", point: "PreToolUse", event } as const;
    assert.equal((await run("exit 7", options)).stops, false);
    assert.equal((await run("exit 7", { ...options, onFailure: "closed" })).stops, true);
  });

  test("a hook that is late ends on time, with its processes", async () => {
    const late = await run("sleep 1201.5 & sleep 1201.25", { timeout: 700 });
    assert.deepEqual([late.outcome, late.exitCode], ["TIMED_OUT", undefined]);
    assert(late.duration >= 400 && late.duration < 20_000, `${late.duration}`);
    assert(!sleeps("1201.5") && !sleeps("1201.25"));
  });

  test("what nobody allowed is refused, typed", async () => {
    const error = await client.execute({ argv: ["/bin/echo", "never allowed"] }).catch((error: unknown) => error);
    assert(error instanceof Refused && error instanceof HookjailError, String(error));
    assert.deepEqual([error.name, error.reason, error.code], ["Refused", "CONSENT_REQUIRED", "PERMISSION_DENIED"]);
    assert.match(error.message, /no consent allows this command/);
    assert.match(error.fix ?? "", /hookjail allow .*never allowed/);
    assert.equal(error.requestId, error.metadata["request_id"]);
    assert(error.requestId);
  });

  test("a backend that is not there is refused with what repairs it", async () => {
    const argv = ["/bin/echo", "in a container"];
    await allow(client, argv, "network");
    const error = await client.execute({ argv, profile: "network" }).catch((error: unknown) => error);
    assert(error instanceof Refused, String(error));
    assert.deepEqual([error.reason, error.metadata["backend"]], ["BACKEND_UNCONFIRMED", "container"]);
    assert.match(error.fix ?? "", /install `crun`/);
  });

  test("an invalid request is refused, and an unknown contract is not sent", async () => {
    await assert.rejects(client.execute({ argv: ["relative/path"] }), { name: "Refused", reason: "INVALID_REQUEST", code: "INVALID_ARGUMENT" });
    await assert.rejects(client.execute({ argv: ["/bin/true"], profile: "nope" }), { name: "Refused", reason: "PROFILE_UNKNOWN" });
    await assert.rejects(client.execute({ argv: ["/bin/true"], contract: "lome" as "loom" }), /unknown name `lome`; use one of .*loom/);
  });

  test("a misspelt option is a TypeError that names it, and nothing runs", async () => {
    const argv = sh(`echo new > ${place.workspace}/made`);
    // Root's hooks run as other users.
    chmodSync(place.workspace, 0o777);
    await allow(client, argv, "workspace-rw");
    const options = { argv, workspace: place.workspace, timeout: 20_000 };
    const right = { profile: "workspace-rw", requestId: "misspelt" };
    const wrongs = { profil: "profile", timout: "timeout", workspce: "workspace", request_id: "requestId", onfailure: "onFailure" };
    for (const [wrong, meant] of Object.entries(wrongs)) {
      const error = { name: "TypeError", message: `unknown option \`${wrong}\`; did you mean \`${meant}\`?` };
      await assert.rejects(client.execute({ ...options, ...right, [wrong]: "strict" }), error);
      await assert.rejects(client.dispatch({ point: "tool.pre", contract: "loom", [wrong]: "strict" }), error);
    }
    assert(!existsSync(join(place.workspace, "made")));
    const run = await client.execute({ ...options, ...right });
    assert.deepEqual([run.exitCode, run.profile, existsSync(join(place.workspace, "made"))], [0, "workspace-rw", true]);
  });

  test("what is no option of a call, or like none, is a TypeError with those that are", async () => {
    const argv = ["/bin/true"];
    const none = (name: string, message: RegExp) => ({ name: "TypeError", message: new RegExp(`^unknown option \`${name}\`; ${message.source}`) });
    await assert.rejects(client.execute({ argv, ...{ xyz: undefined } }), none("xyz", /use one of argv, cwd, env, /));
    await assert.rejects(client.execute(argv as never), none("0", /use one of argv, /));
    await assert.rejects(client.dispatch({ point: "Stop", ...{ mode: "command" } }), none("mode", /use one of contract, /));
    const hooks = [{ argv, ...{ profil: "strict" } }];
    await assert.rejects(client.dispatch({ point: "tool.pre", contract: "loom", hooks }), none("profil", /did you mean `profile`\?$/));
    const tool = { name: "shell", ...{ inputs: {} } };
    await assert.rejects(client.dispatch({ point: "tool.pre", contract: "loom", tool }), none("inputs", /did you mean `input`\?$/));
    await assert.rejects(Client.connect({ adress: place.socket } as object), none("adress", /did you mean `address`\?$/));
    await assert.rejects(Client.private({ confg: place.config } as object), none("confg", /did you mean `config`\?$/));
  });

  test("a misspelt field of a message is a TypeError, in the generated clients too", async () => {
    const wrong = (name: string, meant: string) => ({ name: "TypeError", message: `unknown field \`${name}\`; did you mean \`${meant}\`?` });
    const argv = ["/bin/true"];
    await allow(client, argv);
    await assert.rejects(client.execute({ argv, narrow: { withoutNetwrok: true } as object }), wrong("withoutNetwrok", "withoutNetwork"));
    await assert.rejects(client.execute({ argv, message: { requireConfirmd: true } as object }), wrong("requireConfirmd", "requireConfirmed"));
    const inlineHooks = [{ hook: { argv }, ...{ profil: "strict" } }];
    await assert.rejects(client.dispatch({ point: "tool.pre", contract: "loom", message: { inlineHooks } }), wrong("profil", "profile"));
    const service = client.service(HookService);
    await assert.rejects(service.execute({ hook: { argv }, ...{ profil: "strict" } }), wrong("profil", "profile"));
    await assert.rejects(service.execute({ hook: { argv, ...{ workspce: "/" } } }), wrong("workspce", "workspace"));
    const streamed = service.executeStream({ request: { hook: { argv }, ...{ profil: "strict" } } })[Symbol.asyncIterator]().next();
    await assert.rejects(streamed, /unknown field `profil`; did you mean `profile`\?/);
    // The control: a whole message, as generated code makes it, is taken.
    const request = create(ExecuteRequestSchema, { hook: { argv, env: { LANG: "C" } }, narrow: { withoutNetwork: true } });
    assert.equal((await service.execute(request)).outcome?.exitCode, 0);
  });

  test("a hook reads the workspace that it is given and, without it, does not", async () => {
    const read = `cat ${secret}`;
    const given = await run(read, { profile: "workspace-ro", workspace: place.workspace });
    assert.deepEqual([given.exitCode, given.stdout.toString()], [0, "only in the workspace\n"]);
    const without = await run(read, { profile: "pipeline" });
    assert.deepEqual([without.exitCode, without.stdout.toString()], [1, ""]);
    assert.match(without.stderr.toString(), /Permission denied/);
  });

  test("a profile is narrowed", async () => {
    assert.equal((await run("/bin/true; exit 0")).exitCode, 0);
    const narrowed = await run("/bin/true; exit 0", { narrow: { withoutSpawn: true } });
    assert.notEqual(narrowed.exitCode, 0);
    assert.equal(narrowed.verdict?.sandboxDenied, true);
  });

  test("fields without an option go along", async () => {
    const answer = await run("yes | head -c 300000", { message: { maxReplyBytes: 20_000n } });
    assert.deepEqual([answer.message.stdoutTotalBytes, answer.message.cutForReply], [300_000n, true]);
  });

  test("the depth of this process goes along", async () => {
    process.env["HOOKJAIL_DEPTH"] = "4";
    try {
      await assert.rejects(client.execute({ argv: ["/bin/true"] }), { reason: "RECURSION_LIMIT" });
    } finally {
      delete process.env["HOOKJAIL_DEPTH"];
    }
  });

  test("the hooks of a point are dispatched: configured ones and those of the request", async () => {
    const tool = { name: "shell", input: { command: "git push" } };
    const hooks = [{ name: "context", shell: `echo '{"additionalContext": "be brief"}'`, profile: "pipeline" }];
    const script = "grep -q -e --force && echo 'no force' >&2 && exit 1; echo looked";
    for (const line of [script, hooks[0]!.shell]) await allow(client, ["/bin/sh", "-c", line], "pipeline");
    const dispatch = (command: string) =>
      client.dispatch({ contract: "loom", point: "tool.pre", event: { toolName: "shell", toolInput: { command } }, tool, hooks });
    const passes = await dispatch("git push");
    assert.deepEqual([passes.decision, passes.stops, passes.blockedBy], ["ALLOW", false, ""]);
    assert.deepEqual(passes.hooks.map(({ name, end }) => [name, end.case]), [["no-force", "ran"], ["context", "ran"]]);
    assert.deepEqual(passes.reminders.map(({ kind, text }) => [kind, text]), [["success", "looked"], ["context", "be brief"]]);
    const stopped = await dispatch("git push --force");
    assert.deepEqual([stopped.decision, stopped.stops, stopped.blockedBy, stopped.reason], ["DENY", true, "no-force", "no force"]);
  });

  test("a refused hook of a dispatch stops under a contract that is closed", async () => {
    const hooks = [{ name: "unknown", shell: "echo nobody allowed this", profile: "pipeline" }];
    const answer = await client.dispatch({ contract: "loom", point: "tool.pre", event: {}, hooks });
    assert.equal(answer.stops, true);
    const end = answer.hooks.find(({ name }) => name === "unknown")?.end;
    assert.equal(end?.case === "refused" && end.value.reason, "CONSENT_REQUIRED");
  });

  test("an abort cancels the call and ends the hook", async () => {
    const abort = new AbortController();
    const call = run("sleep 1202.5", { signal: abort.signal });
    await until("the hook runs", () => sleeps("1202.5"));
    abort.abort(new Error("the user has left"));
    await assert.rejects(call, /the user has left/);
    await until("the hook has ended", () => !sleeps("1202.5"));
    await assert.rejects(client.execute({ argv: ["/bin/true"], signal: AbortSignal.abort() }), { name: "AbortError" });
  });

  test("fifty calls at once have fifty answers", async () => {
    await allow(client, ["/bin/cat"], "pipeline");
    const calls = Array.from({ length: 50 }, (_, number) => client.execute({ argv: ["/bin/cat"], profile: "pipeline", event: { number } }));
    const seen = (await Promise.all(calls)).map((it) => JSON.parse(it.stdout.toString()).number);
    assert.deepEqual(seen, [...seen.keys()]);
  });

  test("other services are called by their generated clients", async () => {
    const { profiles } = await client.service(SandboxService).listProfiles({});
    assert(profiles.some(({ name }) => name === "strict"));
    const argv = sh("echo streamed");
    await allow(client, argv, "pipeline");
    const parts = [];
    for await (const { part } of client.service(HookService).executeStream({ request: { hook: { argv }, profile: "pipeline" } })) parts.push(part.case);
    assert.deepEqual(parts, ["stdout", "response"]);
  });

  test("where none listens, that is said with what to do", async () => {
    const nowhere = join(place.root, "nowhere.sock");
    const error = await Client.connect({ address: `unix://${nowhere}` }).catch((error: unknown) => error);
    assert(error instanceof Unreachable && error instanceof CallFailed, String(error));
    assert.equal(error.code, "UNAVAILABLE");
    assert(error.message.includes(nowhere) && error.message.includes("hookjail serve"), error.message);
  });

  test("$HOOKJAIL_ADDR names the daemon", async () => {
    process.env["HOOKJAIL_ADDR"] = `unix:${place.socket}`;
    try {
      const named = await Client.connect();
      assert.equal(named.address, place.socket);
      await named.close();
    } finally {
      delete process.env["HOOKJAIL_ADDR"];
    }
  });

  test("the socket of another user is not believed", { skip: process.geteuid?.() !== 0 && "only root can give a socket away" }, async () => {
    chownSync(place.socket, 1, 1);
    try {
      await assert.rejects(Client.connect({ address: place.socket }), { name: "Unreachable", message: /is of uid 1\b/ });
    } finally {
      chownSync(place.socket, 0, 0);
    }
    await (await Client.connect({ address: place.socket })).close();
  });

  test("a connection that broke fails its calls, and the next one is made anew", async () => {
    const call = assert.rejects(run("sleep 1203.5"), { name: "CallFailed", code: "UNAVAILABLE", message: /the connection to the daemon at .*run.hookjail.sock broke/ });
    await until("the hook runs", () => sleeps("1203.5"));
    await daemon.end("SIGKILL");
    await call;
    await assert.rejects(client.execute({ argv: ["/bin/true"] }), { name: "Unreachable", message: /hookjail serve/ });
    daemon = await Daemon.start(place);
    assert.equal((await run("exit 0")).exitCode, 0);
  });
});
