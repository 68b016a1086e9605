#!/usr/bin/env python3
"""Copies a file before it is edited, with its mode and times."""

import json
import os
import pathlib
import shutil
import sys

path = pathlib.Path(json.load(sys.stdin)["tool_input"]["file_path"])
root = pathlib.Path(os.environ["CLAUDE_PROJECT_DIR"])
if path.is_file():
    copy = root / ".claude/copies" / path.relative_to(root)
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, copy)
