#!/usr/bin/env python3
# Refuses files of more than 1000 characters.
import json, sys

content = json.load(sys.stdin).get("tool_input", {}).get("content", "")
if len(content) > 1000:
    print(f"{len(content)} characters are too many", file=sys.stderr)
    sys.exit(2)
