#!/usr/bin/env python3
# Rewrites `git clean` into a dry run.
import json, sys

tool_input = json.load(sys.stdin).get("tool_input", {})
command = tool_input.get("command", "")
if command.startswith("git clean") and "-n" not in command:
    answer = {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": {**tool_input, "command": command + " -n"}}
    print(json.dumps({"hookSpecificOutput": answer}))
