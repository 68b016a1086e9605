#!/bin/bash
# Has pnpm do what npm was asked for.
event=$(cat)
command=$(jq -r '.tool_input.command // empty' <<<"$event")
[[ $command =~ ^npm\  ]] || exit 0
jq -c --arg command "p$command" \
  '{hookSpecificOutput: {hookEventName: "PreToolUse", permissionDecision: "allow", updatedInput: (.tool_input + {command: $command})}}' <<<"$event"
