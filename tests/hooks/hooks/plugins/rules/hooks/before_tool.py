#!/usr/bin/env python3
"""Blocks what the project's rules forbid. Without its engine it lets everything pass, as plugins do that must not be in the way."""

import json
import os
import sys

root = os.environ.get("CLAUDE_PLUGIN_ROOT")
if root:
    sys.path.insert(0, root)
try:
    from engine.load import rules
except ImportError as error:
    print(json.dumps({"systemMessage": f"rules: {error}"}))
    sys.exit(0)
event = json.load(sys.stdin)
text = json.dumps(event.get("tool_input", {}))
said = [message for word, message in rules() if word in text]
if said:
    deny = {"hookEventName": event["hook_event_name"], "permissionDecision": "deny", "permissionDecisionReason": "; ".join(said)}
    print(json.dumps({"hookSpecificOutput": deny}))
