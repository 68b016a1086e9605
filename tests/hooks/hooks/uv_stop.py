#!/usr/bin/env -S uv run --script
# /// script
# requires-python = ">=3.8"
# ///
"""Keeps the stops in the project's logs, and with `--chat` the conversation, from the transcript."""

import json
import pathlib
import sys

event = json.load(sys.stdin)
logs = pathlib.Path("logs")
logs.mkdir(exist_ok=True)
(logs / "stop.json").write_text(json.dumps([event]))
transcript = pathlib.Path(event["transcript_path"])
if "--chat" in sys.argv and transcript.exists():
    lines = transcript.read_text().splitlines()
    (logs / "chat.json").write_text(json.dumps([json.loads(line) for line in lines if line]))
