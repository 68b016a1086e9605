#!/usr/bin/env python3
# Adds the name of the system to each prompt.
import json, platform, sys

json.load(sys.stdin)
answer = {"hookEventName": "UserPromptSubmit", "additionalContext": f"The system is {platform.system()}."}
print(json.dumps({"hookSpecificOutput": answer}))
