#!/usr/bin/env python3
"""Looks for what debuggers leave behind, in all files at once."""

import concurrent.futures
import json
import pathlib
import sys


def check(path):
    """Returns what is wrong in a file."""
    return [f"{path.name}: breakpoint" for line in path.read_text().splitlines() if line.strip() == "breakpoint()"]


if __name__ == "__main__":
    root = pathlib.Path(json.load(sys.stdin)["cwd"])
    with concurrent.futures.ProcessPoolExecutor(4) as pool:
        found = [one for several in pool.map(check, sorted(root.glob("src/**/*.py"))) for one in several]
    if found:
        print("\n".join(found), file=sys.stderr)
        sys.exit(2)
