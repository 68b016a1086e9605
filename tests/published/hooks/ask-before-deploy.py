#!/usr/bin/env python3
# Asks before a deployment.
import json, sys

command = json.load(sys.stdin).get("tool_input", {}).get("command", "")
if "deploy" in command:
    answer = {"hookEventName": "PreToolUse", "permissionDecision": "ask", "permissionDecisionReason": "a deployment"}
    print(json.dumps({"hookSpecificOutput": answer}))
