#!/usr/bin/env python3
"""Stops edits outside of the project, which it finds by its own place."""

import json
import pathlib
import sys

root = pathlib.Path(__file__).resolve().parents[1]
path = pathlib.Path(json.load(sys.stdin)["tool_input"].get("file_path", ".")).resolve()
if not path.is_relative_to(root):
    print(f"{path} is outside of {root}", file=sys.stderr)
    sys.exit(2)
