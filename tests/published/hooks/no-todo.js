#!/usr/bin/env node
// Refuses edits that leave a TODO.
const { tool_input } = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
const left = (tool_input?.content ?? "").split("\n").filter((line) => line.includes("TODO"));
if (left.length > 0) {
  console.error(`done is better: ${left[0].trim()}`);
  process.exit(2);
}
