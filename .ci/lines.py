#!/usr/bin/env python3
"""Counts what each crate consists of, as a table in Markdown: lines of code, lines of tests, unsafe blocks, direct dependencies.

A line counts that is neither blank nor a comment. Tests are files and folders named `tests` and `mod tests` in a file.
Generated code is a row of its own. `.ci/lines.py [DIRECTORY-OF-A-CLONE]`.
"""
import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
ROOT = ROOT if ROOT.is_dir() else ROOT.parents[1]
GENERATED = re.compile(r"hookjail\.v1\.rs$")
TESTS = re.compile(r"(^|/)(tests|testing)(\.rs|/)")


def code(text: str) -> int:
    """Returns how many lines are neither blank nor a comment."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return sum(1 for line in map(str.strip, text.splitlines()) if line and not line.startswith("//"))


def count(package: pathlib.Path) -> tuple[int, int, int, int]:
    """Returns the lines of code, of tests and generated, and the unsafe blocks below a package's `src`."""
    product = tests = generated = unsafe = 0
    for path in sorted((package / "src").rglob("*.rs")):
        text = path.read_text()
        below = path.relative_to(package / "src").as_posix()
        if GENERATED.search(below):
            generated += code(text)
        elif TESTS.search(below):
            tests += code(text)
        else:
            inner = re.split(r"(?m)^#\[cfg\((?:all\()?test\b.*\]\n(?:#\[.*\]\n)*(?:pub(?:\([^)]*\))? )?mod \w+ \{$", text)
            product += code(inner[0])
            tests += sum(map(code, inner[1:]))
            unsafe += len(re.findall(r"\bunsafe \{", text))
    return product, tests, generated, unsafe


rows = []
for manifest in [ROOT / "Cargo.toml", *sorted(ROOT.glob("crates/*/Cargo.toml"))]:
    declared = tomllib.loads(manifest.read_text())
    names = set(declared.get("dependencies", {}))
    for target in declared.get("target", {}).values():
        names |= set(target.get("dependencies", {}))
    rows.append((declared["package"]["name"], *count(manifest.parent), len(names)))
rows.append(("sum", *(sum(column) for column in list(zip(*rows))[1:5]), ""))
print("| crate | code | tests | generated | unsafe blocks | direct dependencies |\n|---|---|---|---|---|---|")
for name, *cells in rows:
    print(f"| {name} | " + " | ".join(f"{cell:,}" if isinstance(cell, int) else cell for cell in cells) + " |")
