#!/usr/bin/env node
// Stops commands that cannot be taken back, and keeps in the home which it stopped.
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

const RULES = [
  ["root", /\brm\s+-[a-z]*r[a-z]*\s+(\/|~)(\s|$)/, "removes a home or a machine"],
  ["piped", /\b(curl|wget)\b[^|]*\|\s*(ba)?sh\b/, "runs what it fetches"],
  ["disk", /\bdd\b.*\bof=\/dev\//, "writes over a disk"],
];

let text = "";
process.stdin.on("data", (part) => (text += part));
process.stdin.on("end", () => {
  const event = JSON.parse(text);
  const command = event.tool_input?.command ?? "";
  const found = RULES.find(([, pattern]) => pattern.test(command));
  if (!found) return;
  const logs = path.join(os.homedir(), ".claude", "hooks-logs");
  try {
    fs.mkdirSync(logs, { recursive: true });
    fs.appendFileSync(path.join(logs, "guard.jsonl"), JSON.stringify({ rule: found[0], command, session: event.session_id }) + "\n");
  } catch {}
  console.error(`stopped: ${found[2]}`);
  process.exitCode = 2;
});
