#!/usr/bin/env python3
"""Has the main branch be pushed by reviews alone, also where a push does not name it."""

import json
import re
import subprocess
import sys

event = json.load(sys.stdin)
command = event.get("tool_input", {}).get("command", "")
if event.get("tool_name") != "Bash" or not re.search(r"\bgit\s+push\b", command):
    sys.exit(0)
branches = re.findall(r"\bgit\s+push\s+\S+\s+(\S+)", command)
if not branches:
    asked = subprocess.run(["git", "rev-parse", "--abbrev-ref", "HEAD"], capture_output=True, text=True, check=False)
    branches = [asked.stdout.strip()]
if "main" in branches:
    print("main is pushed by reviews", file=sys.stderr)
    sys.exit(2)
