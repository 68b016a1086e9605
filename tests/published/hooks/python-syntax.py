#!/usr/bin/env python3
# Refuses Python that cannot be parsed.
import ast, json, sys

path = json.load(sys.stdin)["tool_input"]["file_path"]
try:
    if path.endswith(".py"):
        ast.parse(open(path).read(), path)
except SyntaxError as error:
    print(f"{path}:{error.lineno}: {error.msg}", file=sys.stderr)
    sys.exit(2)
