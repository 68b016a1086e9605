#!/usr/bin/python3
"""Stops one command by what it prints, as the runtime that is named has it."""

import json
import sys

REASON = "guard.py: not that one"
if "ran-deny-json" in sys.stdin.read():
    deny = {"permissionDecision": "deny", "permissionDecisionReason": REASON}
    if sys.argv[1] == "gemini-cli":
        deny = {"decision": "deny", "reason": REASON}
    elif sys.argv[1] == "loom":
        deny = {"continue": False, "reason": REASON}
    elif sys.argv[1] != "copilot":
        deny = {"hookSpecificOutput": {"hookEventName": "PreToolUse", **deny}}
    print(json.dumps(deny))
