#!/usr/bin/env python3
"""Compares the versions in docs/comparison.md with the newest: of packages by npm, pip and cargo, of repositories by their tags on GitHub.

Usage: peers.py [--offline]. Fails where a newer version exists and the page was last looked at more than 60 days ago, or a version cannot be
found. With --offline it prints what the page has, and looks nothing up.
"""

import datetime
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/comparison.md"
PATIENCE = datetime.timedelta(days=60)
# The newest version is the first, or of tags the highest, that the pattern finds in what the tool prints.
TOOLS = {
    "npm": (["npm", "view", "{}", "version"], r"^(\d\S*)$"),
    "pip": ([sys.executable, "-m", "pip", "index", "versions", "{}"], r"^\S+ \((\S+)\)$"),
    "cargo": (["cargo", "info", "{}"], r"^version: (?:.*\(latest (\S+)\)|(\S+))"),
    "tags": (["git", "ls-remote", "--tags", "--refs", "https://github.com/{}"], r"refs/tags/v?(\d+(?:\.\d+)+)$"),
}
# A row of the list: `| name | 1.2.3, … | … | npm `package` |`.
ROW = re.compile(rf"^\| (?P<name>[^|]+) \| (?P<seen>[^|]*) \| [^|]* \| (?P<tool>{'|'.join(TOOLS)}) `(?P<package>[^`]+)` \|$", re.M)
VERSION = re.compile(r"(?<![\w.-])\d+(?:\.\d+)+(?![\w-])")


def newest(tool, package):
    words, pattern = TOOLS[tool]
    done = subprocess.run([word.format(package) for word in words], capture_output=True, text=True, timeout=120, cwd="/")
    found = [next(group for group in match.groups() if group) for match in re.finditer(pattern, done.stdout, re.M)]
    if tool == "tags" and not done.returncode:
        return max(found, key=lambda version: [int(part) for part in version.split(".")], default="no version")
    if not found:
        raise LookupError(" ".join((done.stderr or done.stdout).split())[-120:] or "no version")
    return found[0]


def main():
    offline = sys.argv[1:] == ["--offline"]
    if sys.argv[1:] and not offline:
        raise SystemExit(__doc__)
    text = PAGE.read_text()
    looked = re.search(r"Looked at on (\d+ \w+ \d+)", text)
    looked = datetime.datetime.strptime(looked[1], "%d %B %Y").date()
    age = datetime.date.today() - looked
    rows = list(ROW.finditer(text))
    if not rows:
        raise SystemExit(f"{PAGE}: no row names a source")
    behind = missing = 0
    for row in rows:
        seen = VERSION.findall(row["seen"])
        line = f"{row['name'].strip():16} {row['tool']:5} {row['package']:34}"
        if offline:
            print(f"{line} {', '.join(seen) or row['seen'].strip()}")
            continue
        try:
            now = newest(row["tool"], row["package"])
        except (LookupError, OSError, subprocess.TimeoutExpired) as error:
            missing += 1
            print(f"{line} NOT FOUND: {error}")
            continue
        # A row with a commit alone cannot be behind.
        is_newer = bool(seen) and now != "no version" and now not in seen
        behind += is_newer
        print(f"{line} {now:10} {'NEWER than' if is_newer else 'seen as'} {', '.join(seen) or row['seen'].strip()}")
    print(f"looked at on {looked}, {age.days} days ago" + ("" if offline else f", {behind} newer, {missing} not found"))
    sys.exit(missing > 0 or behind > 0 and age > PATIENCE)


if __name__ == "__main__":
    main()
