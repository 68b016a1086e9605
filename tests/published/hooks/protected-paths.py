#!/usr/bin/env python3
# Refuses edits of protected files.
import fnmatch, json, os, sys

PROTECTED = [".env", "*.lock", "package-lock.json", "vendor/*"]
path = json.load(sys.stdin).get("tool_input", {}).get("file_path", "")
path = os.path.relpath(path) if path else ""
if any(fnmatch.fnmatch(path, pattern) for pattern in PROTECTED):
    print(f"{path} is protected", file=sys.stderr)
    sys.exit(2)
