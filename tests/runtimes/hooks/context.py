#!/usr/bin/python3
"""Adds a sentence to what the model reads, in the form of a runtime, at a point."""

import json
import sys

sys.stdin.read()
runtime, point = sys.argv[1:3]
context = {"additionalContext": "context of a hook: tabs, not spaces"}
if runtime not in ("copilot", "loom"):
    context = {"hookSpecificOutput": {"hookEventName": point, **context}}
print(json.dumps(context))
