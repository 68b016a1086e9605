#!/usr/bin/env python3
"""Asks the registries of packages for the newest versions of what docs/comparison.md compares, by npm, pip and cargo.

Fails where a newer version exists and the page was last looked at more than 60 days ago, or a package cannot be found.
"""

import datetime
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/comparison.md"
PATIENCE = datetime.timedelta(days=60)
# The newest version in what each tool prints.
TOOLS = {
    "npm": (["npm", "view", "{}", "version"], r"^(\d\S*)$"),
    "pip": ([sys.executable, "-m", "pip", "index", "versions", "{}"], r"^\S+ \((\S+)\)$"),
    "cargo": (["cargo", "info", "{}"], r"^version: (?:.*\(latest (\S+)\)|(\S+))"),
}
# A row of the list: `| name | 1.2.3, … | … | npm `package` |`.
ROW = re.compile(r"^\| (?P<name>[^|]+) \| (?P<seen>[^|]*) \| [^|]* \| (?P<tool>npm|pip|cargo) `(?P<package>[^`]+)` \|$", re.M)


def newest(tool, package):
    words, pattern = TOOLS[tool]
    done = subprocess.run([word.format(package) for word in words], capture_output=True, text=True, timeout=120, cwd="/")
    found = re.search(pattern, done.stdout, re.M)
    if not found:
        raise SystemExit(f"{tool} {package}: no version in {done.stdout!r} {done.stderr[-300:]!r}")
    return next(group for group in found.groups() if group)


def main():
    text = PAGE.read_text()
    looked = re.search(r"Looked at on (\d+ \w+ \d+)", text)
    looked = datetime.datetime.strptime(looked[1], "%d %B %Y").date()
    age = datetime.date.today() - looked
    rows = list(ROW.finditer(text))
    if not rows:
        raise SystemExit(f"{PAGE}: no row names a package")
    behind = 0
    for row in rows:
        now = newest(row["tool"], row["package"])
        is_seen = re.search(rf"(?<![\d.]){re.escape(now)}(?![\d.]*\d)", row["seen"])
        behind += not is_seen
        print(f"{row['name'].strip():16} {row['tool']:5} {row['package']:34} {now:10} {'as seen' if is_seen else 'NEWER than ' + row['seen'].strip()}")
    print(f"looked at {age.days} days ago, {behind} newer")
    sys.exit(behind > 0 and age > PATIENCE)


if __name__ == "__main__":
    main()
