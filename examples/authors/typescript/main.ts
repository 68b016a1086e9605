// Runs one hook of a runtime before a tool call: main.ts EVENT HOOK. Exit code 0: the call may go on. 2: the call must not.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";

import { Client, Refused } from "hookjail";

const PROFILE = "workspace-ro";

interface Needs {
  confinement: { profile: string };
  files: { path: string; sha256: string }[];
  grants: { access: string; path?: string }[];
  network: string;
}

function deny(why: string): never {
  console.log(`denied: ${why}`);
  process.exit(2);
}

/** Shows what the hook could do, and the bytes that a trust is about. Nothing of the hook runs. */
function showNeeds(event: string, hook: string): void {
  const options = ["--contract", "claude-code", "--point", "PreToolUse", "--profile", PROFILE, "--event", event];
  const command = ["run", "--private", "--dry-run", "--json", ...options, "--", hook];
  const needs = JSON.parse(execFileSync("hookjail", command, { encoding: "utf8", timeout: 30_000 })) as Needs;
  const written = needs.grants.filter((grant) => grant.access === "write" && grant.path).map((grant) => grant.path);
  console.log(`${hook} runs under the profile ${needs.confinement.profile}`);
  console.log(`  network  ${needs.network}`);
  console.log(`  writes   ${written.join(", ") || "a directory of its own, gone afterwards"}`);
  for (const file of needs.files) console.log(`  sha256   ${file.sha256}  ${file.path}`);
}

async function run(event: string, hook: string) {
  showNeeds(event, hook);
  await using client = await Client.connect();
  return await client.execute({
    argv: [hook],
    contract: "claude_code",
    event: readFileSync(event),
    point: "PreToolUse",
    profile: PROFILE,
    timeout: 10_000,
    workspace: process.cwd(),
  });
}

const [event = "", hook = ""] = process.argv.slice(2);
const result = await run(event, resolve(hook)).catch((error: Error) => {
  if (error instanceof Refused) deny(`hookjail refuses the hook: ${error.reason}`);
  deny(`hookjail is not there: ${error.name}`);
});
if (!result.confirmed || result.stops) deny(result.reason || "the hook's end is not known");
console.log("allowed");
