#!/usr/bin/env node
// Rewrites npm into a quiet call.
const { tool_input } = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
if (/^npm (ci|test)$/.test(tool_input?.command ?? "")) {
  const updatedInput = { ...tool_input, command: `${tool_input.command} --silent` };
  console.log(JSON.stringify({ hookSpecificOutput: { hookEventName: "PreToolUse", permissionDecision: "allow", updatedInput } }));
}
