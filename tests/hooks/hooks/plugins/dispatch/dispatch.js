// Runs each check of this plugin on a command.
const { readFileSync, readdirSync } = require("node:fs");
const { join } = require("node:path");

const event = JSON.parse(readFileSync(0, "utf8"));
const checks = readdirSync(join(__dirname, "checks")).sort().map((name) => require(join(__dirname, "checks", name)));
const advice = checks.map((check) => check(event.tool_input?.command ?? "")).find(Boolean);
if (advice) {
  console.error(advice);
  process.exit(2);
}
