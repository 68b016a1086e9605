#!/usr/bin/env python3
"""Differences of newer runtimes from the pinned ones that bear on hooks, for a maintainer to read.

Two parts for each runtime with another version: words around those of hooks that only one of both has (events, members, tools), and
ends of hooks that they read differently. The second takes a parser in `differential.py`.

Needs root, and a network namespace with nothing but the loopback: runtimes are run as an ordinary user.
"""

import argparse
import collections
import copy
import pathlib
import random
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "testenv"))

from differential import RUNTIMES, SEED, fresh_home
from ends import Generator
from home import loopback, remove
from whole import Missing

# Words that only code about hooks has.
ANCHORS = re.compile(
    rb"hookSpecificOutput|hook_event_name|hookEventName|permissionDecision|[pP]reToolUse|BeforeTool\b|postToolUse|PostToolUse|permissionRequest"
)
# How far around an anchor a word is looked at, bytes.
AROUND = 400
QUOTED = re.compile(rb"[\"'`]([A-Za-z][A-Za-z0-9_.-]{3,47})[\"'`]")
MEMBER = re.compile(rb"[{,.]\s*([A-Za-z][A-Za-z0-9_]{5,47})\s*[:=]")
# The most words of a kind that are printed.
SHOWN = 40
TEXTS = {".cjs", ".js", ".json", ".mjs", ".ts"}


def files(package):
    """Yields the content of a package's scripts, and of its programs, which have their schemas in them."""
    for path in sorted(package.rglob("*")):
        if not path.is_file() or path.is_symlink():
            continue
        is_large = path.stat().st_size > 1 << 20
        if path.suffix in TEXTS or is_large and path.open("rb").read(4) == b"\x7fELF":
            yield path.read_bytes()


def words(package):
    """Returns the words around those of hooks in a package, and all that it has."""
    found, whole = set(), []
    for content in files(package):
        whole.append(content)
        for anchor in ANCHORS.finditer(content):
            near = content[max(0, anchor.start() - AROUND) : anchor.end() + AROUND]
            found.update(QUOTED.findall(near))
            found.update(MEMBER.findall(near))
    return found, whole


def only_in(one, whole):
    """Returns the words of one version that the other has nowhere."""
    absent = [word for word in one if not any(word in content for content in whole)]
    return sorted(word.decode() for word in absent)


def print_words(title, some):
    if some:
        more = f", and {len(some) - SHOWN} more" if len(some) > SHOWN else ""
        print(f"  {title}: {', '.join(some[:SHOWN])}{more}")


def readings(runtime, options, tools, ends):
    """Returns what a version of a runtime makes of each end."""
    runtime, options = copy.copy(runtime), copy.copy(options)
    options.tools = tools
    home = fresh_home(runtime, options)
    try:
        runtime.prepare(options, home)
        runtime.until = float("inf")
        return dict(runtime.read(ends))
    finally:
        home.end_all()
        remove(home.home)


def compare_ends(runtime, options):
    """Prints which ends two versions read differently. Returns how many both read."""
    generator = Generator(random.Random(f"{options.seed} {runtime.name}"), runtime.contract, runtime.points)
    ends = [generator.end() for _ in range(options.ends)]
    pinned, newest = (readings(runtime, options, tools, ends) for tools in (options.pinned, options.newest))
    changes = collections.defaultdict(list)
    for end in ends:
        before, after = pinned.get(end.id), newest.get(end.id)
        if (before is None) != (after is None):
            changes[f"{end.point}: read by one of both alone"].append(end)
        elif before is not None:
            for name in ("kind", "context", "rewrite", "reason"):
                was, new = getattr(before, name), getattr(after, name)
                if was != new:
                    what = f"{was} is {new}" if name == "kind" else f"another {name}"
                    changes[f"{end.point}: {what}"].append(end)
    for name, some in sorted(changes.items()):
        example = min(some, key=lambda end: len(end.shown()))
        print(f"  {name}: {len(some)} ends, such as {example.shown()}")
    both = len(pinned.keys() & newest.keys())
    print(f"  {both} ends read by both, {sum(map(len, changes.values()))} differences")
    return both


def version(directory):
    """Returns the package and the version in a directory of tools."""
    text = (directory / "pinned").read_text().strip() if (directory / "pinned").exists() else ""
    return text.rpartition("@")[0], text.rpartition("@")[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hookjail", type=pathlib.Path, required=True)
    parser.add_argument("--pinned", type=pathlib.Path, required=True, help="where each pinned runtime is installed, by name")
    parser.add_argument("--newest", type=pathlib.Path, required=True, help="where each newest one is")
    parser.add_argument("--user", required=True, help="the ordinary user that runs them")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="a directory for the user's home")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--ends", type=int, default=600, help="how many both versions of a runtime read")
    parser.add_argument("names", nargs="+", help="the runtimes")
    options = parser.parse_args()
    loopback()
    sys.stdout.reconfigure(errors="backslashreplace")
    parsers = {runtime.name: runtime for runtime in RUNTIMES}
    for name in options.names:
        package, pinned = version(options.pinned / name)
        _, newest = version(options.newest / name)
        if pinned == newest:
            print(f"{name}: {package} {pinned} is the newest")
            continue
        print(f"{name}: {package} {pinned} is pinned, {newest} is the newest")
        before, whole_before = words(options.pinned / name)
        after, whole_after = words(options.newest / name)
        if not before or not after:
            raise SystemExit(f"{name}: no word of hooks is found in {'its pinned' if not before else 'the newest'} package")
        print_words("new words near those of hooks", only_in(after, whole_before))
        print_words("words that are gone", only_in(before, whole_after))
        if name not in parsers:
            print("  its ends are not compared: no parser of its can be called")
            continue
        try:
            compare_ends(parsers[name], options)
        except Missing as why:
            print(f"  its ends are not compared: {why}")


if __name__ == "__main__":
    main()
