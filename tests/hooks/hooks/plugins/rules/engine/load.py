"""Reads the rules that a project keeps."""

import glob


def rules():
    """Returns the words that each `.claude/rules.*.local.md` forbids, with its text."""
    found = []
    for name in sorted(glob.glob(".claude/rules.*.local.md")):
        with open(name, encoding="utf-8") as file:
            _, head, text = file.read().split("---\n", 2)
        keys = dict(line.split(": ", 1) for line in head.splitlines())
        if keys.get("action") == "block":
            found.append((keys["word"], text.strip()))
    return found
