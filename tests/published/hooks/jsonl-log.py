#!/usr/bin/env python3
# Logs calls as lines of JSON.
import json, pathlib, sys, time

event = json.load(sys.stdin)
line = {"time": time.time(), "tool": event.get("tool_name"), "input": event.get("tool_input")}
with pathlib.Path("tools.jsonl").open("a") as log:
    log.write(json.dumps(line) + "\n")
