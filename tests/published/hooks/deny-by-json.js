#!/usr/bin/env node
// Denies in the form of a JSON decision.
let text = "";
process.stdin.on("data", (chunk) => (text += chunk)).on("end", () => {
  const command = JSON.parse(text).tool_input?.command ?? "";
  if (!command.includes("terraform destroy")) return;
  const answer = { hookEventName: "PreToolUse", permissionDecision: "deny", permissionDecisionReason: "nothing is destroyed here" };
  console.log(JSON.stringify({ hookSpecificOutput: answer }));
});
