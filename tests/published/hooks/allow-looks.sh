#!/bin/sh
# Allows commands that only look, without a question.
command=$(jq -r '.tool_input.command // ""')
case $command in
  ls | 'ls '* | 'git status' | 'git diff'*) jq -n '{hookSpecificOutput: {hookEventName: "PreToolUse", permissionDecision: "allow", permissionDecisionReason: "a look"}}' ;;
esac
