#!/usr/bin/env node
// Refuses sudo.
const event = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
const command = event.tool_input?.command ?? "";
if (/(^|[;&|]\s*)(sudo|doas|su)\b/.test(command)) {
  console.error("no other user");
  process.exit(2);
}
