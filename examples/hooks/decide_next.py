#!/usr/bin/env python3
"""The same `shell_push` hook as decide-next.sh, in Python; it runs under `strict`."""
import json
import sys

event = json.load(sys.stdin)
if "tests" in event.get("user_text", ""):
    push = {"message": "The turn was about tests: run them once more before you stop.", "wake": True, "push_when": True}
else:
    push = {"message": "Nothing to add.", "wake": False, "push_when": False}
print(json.dumps(push))
