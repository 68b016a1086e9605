#!/usr/bin/env python3
"""Stops the first edit of a session that has a dangerous word in it, and keeps the words of its earlier messages in the home."""

import json
import os
import sys

DANGEROUS = {"eval(": "eval runs what it is given", "innerHTML": "innerHTML lets scripts in"}

event = json.load(sys.stdin)
state = os.path.expanduser(f"~/.claude/reminders_{event.get('session_id', 'none')}.json")
try:
    with open(state, encoding="utf-8") as file:
        said = json.load(file)
except (OSError, ValueError):
    said = []
for word, advice in DANGEROUS.items():
    if word in event.get("tool_input", {}).get("new_string", "") and word not in said:
        os.makedirs(os.path.dirname(state), exist_ok=True)
        with open(state, "w", encoding="utf-8") as file:
            json.dump([*said, word], file)
        print(advice, file=sys.stderr)
        sys.exit(2)
