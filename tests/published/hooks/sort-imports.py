#!/usr/bin/env python3
# Sorts the imports of Python files.
import json, pathlib, sys

path = pathlib.Path(json.load(sys.stdin)["tool_input"]["file_path"])
if path.suffix == ".py":
    lines = path.read_text().splitlines()
    count = next((i for i, line in enumerate(lines) if not line.startswith("import ")), len(lines))
    path.write_text("\n".join(sorted(lines[:count]) + lines[count:]) + "\n")
    print(f"sorted {count} imports", file=sys.stderr)
