#!/usr/bin/env python3
# Refuses prompts with a password.
import json, re, sys

prompt = json.load(sys.stdin).get("prompt", "")
if re.search(r"password\s*[:=]", prompt, re.I):
    print(json.dumps({"decision": "block", "reason": "the prompt has a password"}))
