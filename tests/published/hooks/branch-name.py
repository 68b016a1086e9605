#!/usr/bin/env python3
# Refuses branches whose name has no known prefix.
import json, re, sys

command = json.load(sys.stdin).get("tool_input", {}).get("command", "")
made = re.search(r"git (?:checkout -b|switch -c) (\S+)", command)
if made and not re.fullmatch(r"(feat|fix|docs)/[a-z0-9-]+", made[1]):
    print(f"name the branch feat/…, fix/… or docs/…, not {made[1]}", file=sys.stderr)
    sys.exit(2)
