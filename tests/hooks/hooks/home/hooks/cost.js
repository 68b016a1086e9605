// Adds up what a session has used, and keeps it in the home.
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

const event = JSON.parse(fs.readFileSync(0, "utf8"));
let tokens = 0;
try {
  for (const line of fs.readFileSync(event.transcript_path, "utf8").trim().split("\n")) {
    tokens += JSON.parse(line).message?.usage?.output_tokens ?? 0;
  }
  const metrics = path.join(os.homedir(), ".claude", "metrics");
  fs.mkdirSync(metrics, { recursive: true });
  fs.appendFileSync(path.join(metrics, "costs.jsonl"), JSON.stringify({ session: event.session_id, tokens }) + "\n");
} catch {
  // A hook that keeps accounts is in nobody's way.
}
