#!/usr/bin/env python3
# Refuses edits outside of the project.
import json, os, sys

path = json.load(sys.stdin).get("tool_input", {}).get("file_path", "")
root = os.environ.get("CLAUDE_PROJECT_DIR") or os.getcwd()
if path and os.path.commonpath([root, os.path.abspath(path)]) != root:
    print(f"{path} lies outside of the project", file=sys.stderr)
    sys.exit(2)
