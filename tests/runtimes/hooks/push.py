#!/usr/bin/python3
"""Pushes a message that opens a turn, at the end of a turn whose text names commands."""

import json
import sys

event = json.load(sys.stdin)
print(json.dumps({"message": sys.argv[1], "wake": True, "push_when": "[[" in event["user_text"]}))
