// Sessions of the real Loom whose hooks run in hookjail, with a model that is played: it asks for one shell call and then ends.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import * as loom from "@ownware/loom";
import { Client } from "hookjail";

import { jailed } from "./jailed.mjs";

const { HookRegistry, HookRuntime, Session, createDefaultConfig, defineTool, mergeConfig } = loom;
const program = process.env.HOOKJAIL;
const place = mkdtempSync(join(tmpdir(), "hookjail-loom-"));
const configuration = join(place, "hookjail.toml");
let client;

before(async () => {
  // Root's hooks run as other users.
  chmodSync(place, 0o755);
  writeFileSync(configuration, `[paths]\nstate = "${place}/state"\nruntime = "${place}/run"\n[hooks]\nworkspace_roots = ["${place}"]\n`, { mode: 0o600 });
  client = await Client.private({ config: configuration, program });
});
after(async () => {
  await client.close();
  rmSync(place, { recursive: true });
});

/** A hook that the operator has allowed. */
function allowed(hook) {
  const consent = ["--config", configuration, "allow", "--profile", hook.profile, "--", "/bin/sh", "-c", hook.command];
  const { status, stderr } = spawnSync(program, consent, { cwd: hook.workspace, encoding: "utf8" });
  assert.equal(status, 0, stderr);
  return hook;
}

/** Plays a model, and has the session run what it asks for. Returns what was run, and what the model was told of it. */
async function turn(command, hooks) {
  const told = [];
  const ran = [];
  const usage = { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheCreationTokens: 0 };
  const provider = {
    name: "played",
    async *stream({ messages }) {
      told.push(JSON.stringify(messages));
      const isFirst = told.length === 1;
      const content = isFirst ? [{ type: "tool_use", id: "call", name: "shell", input: { command } }] : [{ type: "text", text: "done" }];
      yield { type: "message_complete", content, stopReason: isFirst ? "tool_use" : "end_turn", usage };
    },
    countTokens: async () => 1,
    supportsFeature: (feature) => feature === "tool_use",
    formatTools: (tools) => tools,
    getModelPricing: () => null,
  };
  const shell = defineTool({
    name: "shell",
    description: "runs a line",
    inputSchema: { type: "object", properties: { command: { type: "string" } }, required: ["command"] },
    async execute(input) {
      ran.push(input.command);
      return { content: "ran it", isError: false };
    },
  });
  const registry = new HookRegistry();
  for (const [event, hook] of hooks) registry.register(event, hook);
  const config = mergeConfig(createDefaultConfig("played:model"), { workspacePath: place });
  const session = new Session({ config, provider, tools: [shell], permissionMode: "auto", hooks: new HookRuntime({ registry }) });
  const events = [];
  for await (const event of session.submitMessage("go")) events.push(event);
  assert.equal(told.length, 2, JSON.stringify(events));
  return { ran, told: told[1] };
}

const guard = { name: "no-force", command: "grep -q -e --force && echo 'no force here' >&2 && exit 1; exit 0", profile: "pipeline" };

test("a guard stops the call that it is about, and no other", async () => {
  const hook = jailed(client, allowed(guard));
  const passes = await turn("git push", [["tool.pre", hook]]);
  assert.deepEqual(passes.ran, ["git push"]);
  const stopped = await turn("git push --force", [["tool.pre", hook]]);
  assert.deepEqual(stopped.ran, []);
  assert.match(stopped.told, /no force here/);
});

test("a guard of the project is a script there, with the README's options", async () => {
  const workspace = join(place, "project");
  mkdirSync(workspace);
  writeFileSync(join(workspace, "guard.sh"), `#!/bin/sh\n${guard.command}\n`, { mode: 0o755 });
  const hook = jailed(client, allowed({ name: "guard", command: "./guard.sh", profile: "workspace-ro", workspace }));
  assert.deepEqual((await turn("git push", [["tool.pre", hook]])).ran, ["git push"]);
  const stopped = await turn("git push --force", [["tool.pre", hook]]);
  assert.deepEqual(stopped.ran, []);
  assert.match(stopped.told, /no force here/);
});

test("what nobody allowed stops, and the model does not learn how to allow it", async () => {
  const { ran, told } = await turn("git push", [["tool.pre", jailed(client, { ...guard, command: "exit 0 # unknown" })]]);
  assert.deepEqual(ran, []);
  assert.match(told, /no consent allows this command/);
  assert.doesNotMatch(told, /hookjail allow/);
});

test("a hook reads what Loom gives its own, at each point", async () => {
  const bare = join(place, "bare");
  const seen = [];
  const recorder = jailed(client, allowed({ name: "recorder", command: "printf 'read '; cat", profile: "pipeline" }));
  const recording = { ...recorder, fn: async (event) => { const result = await recorder.fn(event); seen.push(result.output); return result; } };
  const own = { type: "command", name: "bare", command: `cat >>'${bare}'; echo >>'${bare}'` };
  const points = ["session.start", "model.pre", "model.post", "tool.pre", "tool.post", "session.end"];
  await turn("git push", points.flatMap((point) => [[point, recording], [point, own]]));
  const lines = readFileSync(bare, "utf8").trimEnd().split("\n");
  assert.deepEqual(seen.map((text) => JSON.parse(text.replace(/^read /, ""))), lines.map((line) => JSON.parse(line)));
  assert.deepEqual(new Set(lines.map((line) => JSON.parse(line).event)), new Set(points));
});

test("a hook cannot do what its profile does not grant, and could bare", async () => {
  const written = join(place, "written");
  const command = `{ echo stolen >'${written}'; } 2>/dev/null; exit 0`;
  const confined = await turn("git push", [["tool.pre", jailed(client, allowed({ name: "thief", command, profile: "pipeline" }))]]);
  assert.deepEqual(confined.ran, ["git push"], confined.told);
  assert(!existsSync(written));
  await turn("git push", [["tool.pre", { type: "command", name: "thief", command }]]);
  assert.equal(readFileSync(written, "utf8"), "stolen\n");
});

test("a late hook stops, and none of its processes is left", async () => {
  const late = allowed({ name: "late", command: "sleep 1206.5 & sleep 1206.5", profile: "pipeline", timeoutMs: 1_000 });
  const { ran, told } = await turn("git push", [["tool.pre", jailed(client, late)]]);
  assert.deepEqual(ran, []);
  assert.match(told, /timed out/);
  assert.deepEqual(sleeping(), []);
  // Loom ends the shell alone.
  await turn("git push", [["tool.pre", { ...late, type: "command" }]]);
  const left = sleeping();
  assert.notDeepEqual(left, []);
  for (const pid of left) process.kill(pid);
});

/** Returns the hook's processes. */
function sleeping() {
  const isHooks = (pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8") === "sleep\0" + "1206.5\0";
    } catch {
      return false;
    }
  };
  return readdirSync("/proc").filter((name) => /^\d+$/.test(name)).filter(isHooks).map(Number);
}
