#!/usr/bin/env -S uv run --script
# /// script
# requires-python = ">=3.8"
# ///
"""Stops what removes everything, and keeps every call in the project's logs."""

import json
import pathlib
import re
import sys

event = json.load(sys.stdin)
log = pathlib.Path.cwd() / "logs" / "before_tool.json"
log.parent.mkdir(parents=True, exist_ok=True)
log.write_text(json.dumps([*(json.loads(log.read_text()) if log.exists() else []), event]))
if re.search(r"\brm\s+.*-[a-z]*r[a-z]*f", event.get("tool_input", {}).get("command", "")):
    print("blocked: removes everything", file=sys.stderr)
    sys.exit(2)
