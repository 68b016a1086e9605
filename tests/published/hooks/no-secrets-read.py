#!/usr/bin/env python3
# Refuses to read files with secrets.
import json, re, sys

event = json.load(sys.stdin)
command = event.get("tool_input", {}).get("command", "")
if re.search(r"(^|[\s/])(\.env|id_rsa|\.netrc)(\s|$)", command):
    print("that file has secrets", file=sys.stderr)
    sys.exit(2)
