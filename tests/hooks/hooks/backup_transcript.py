#!/usr/bin/env python3
"""Keeps the transcript in the project before it is made shorter."""

import json
import os
import shutil
import sys

event = json.load(sys.stdin)
os.makedirs(".claude/backups", exist_ok=True)
shutil.copy(event["transcript_path"], ".claude/backups/transcript.jsonl")
