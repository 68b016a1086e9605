#!/usr/bin/env python3
"""Has each module have a test before it is edited."""

import json
import os
import pathlib
import sys

event = json.load(sys.stdin)
root = pathlib.Path(os.environ.get("CLAUDE_PROJECT_DIR") or event["cwd"])
path = pathlib.Path(event["tool_input"].get("file_path", ""))
if path.suffix == ".py" and path.is_relative_to(root / "src"):
    test = root / "tests" / f"test_{path.name}"
    if not test.exists():
        print(f"write tests/{test.name} first", file=sys.stderr)
        sys.exit(2)
