#!/usr/bin/env python3
import json, platform, sys

json.load(sys.stdin)
answer = {"hookEventName": "UserPromptSubmit", "additionalContext": f"The system is {platform.system()}."}
print(json.dumps({"hookSpecificOutput": answer}))
