#!/usr/bin/env python3
# Ends text files with a newline.
import json, pathlib, sys

path = pathlib.Path(json.load(sys.stdin)["tool_input"]["file_path"])
if path.suffix == ".txt":
    text = path.read_text()
    if not text.endswith("\n"):
        path.write_text(text + "\n")
