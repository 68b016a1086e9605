#!/usr/bin/env python3
"""Hooks of the kinds that people publish, bare, as `hookjail install` has them, and under a learnt profile, judged by their effect.
With `--without-namespaces` as `install` has them where none can be made, under the profile that it goes on with there.

Needs root: everything runs in a network namespace with nothing but the loopback, as an ordinary user with nothing in its
environment. `expected.md` has the expected result of each. A row fails with another result, and where the hook does not even work bare.
"""

import argparse
import pathlib
import shutil
import sys

from box import CHOSEN, HERE, HOOKS, Box
from home import loopback
from rows import context, guards, records, services, tools  # noqa: F401

INSTALLED = ("works", "refused", "unserved")
LEARNT = ("works", "refused")


def table():
    """Returns what is expected by kind: as installed, as learnt, and as installed where no namespace can be made."""
    rows = {}
    for line in (HERE / "expected.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 5 and cells[1] in INSTALLED and cells[2] in LEARNT and cells[3] in INSTALLED:
            rows[cells[0]] = tuple(cells[1:4])
    return rows


def installed(box, current):
    """Returns what becomes of a hook as `install` has it, and the reason of a failure; `unserved` where it named that itself."""
    box.installed = ""
    why = None
    try:
        works = box.works(current, CHOSEN)
    except AssertionError as error:
        works, why = False, str(error)
    is_named = "not served: " in box.installed
    is_hinted = "takes a network once: " in box.installed
    if works:
        return ("works, but named as not served" if is_named else "works"), why
    return ("unserved" if is_named or is_hinted else "refused"), why or box.last


def learnt(box, current, line):
    """Returns what becomes of a hook under what `learn` proposes, and the reason of a failure."""
    why = None
    try:
        for text in box.learn(current, line):
            if box.works(current, "learnt", text):
                return "works", None
            why = f"{text}\n  {box.last}"
    except AssertionError as error:
        why = str(error)
    return "refused", why


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hookjail", type=pathlib.Path, required=True)
    parser.add_argument("--user", required=True, help="who runs them")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="where the home is, with what is installed")
    parser.add_argument("--hook", action="append", help="this one alone")
    parser.add_argument("--keep", action="store_true", help="leave the home as the last hook left it")
    parser.add_argument("--without-namespaces", action="store_true", help="this host makes none")
    options = parser.parse_args()
    loopback()
    box = Box(options)
    expected, counts = table(), {"passed": 0, "failed": 0, "ignored": 0}
    work = {"bare": 0, "as installed": 0, "as learnt": 0}
    unknown = set(expected) ^ {one["kind"] for one in HOOKS}
    if unknown:
        sys.exit(f"in one of the table and the rows alone: {sorted(unknown)}")
    for current in HOOKS:
        kind = current["kind"]
        if options.hook and kind not in options.hook:
            continue
        missing = [program for program in current["needs"] if not shutil.which(program, path="/usr/local/bin:/usr/bin:/bin")]
        if missing:
            counts["ignored"] += 1
            print(f"{kind:56} skipped: no {', '.join(missing)}", flush=True)
            continue
        bare = box.works(current, None)
        why = None if bare else box.last
        found, first = installed(box, current)
        as_installed, as_learnt, without = expected[kind]
        if options.without_namespaces:
            after, second, wanted = "", None, (without, "")
        else:
            after, second = learnt(box, current, box.line)
            wanted = (as_installed, as_learnt)
        for name, worked in zip(work, (bare, found == "works", after == "works")):
            work[name] += worked
        if not bare:
            verdict = "DOES NOT WORK BARE"
        elif (found, after) != wanted:
            verdict = f"NOT AS EXPECTED: {', '.join(wanted)}"
        else:
            verdict = "ok"
        counts["passed" if verdict == "ok" else "failed"] += 1
        print(f"{kind:56} {found:8} {after:8} {verdict}", flush=True)
        if verdict != "ok" or options.keep:
            for name, reason in (("bare", why), ("as installed", first), ("as learnt", second)):
                if reason:
                    print(f"  {name}: {reason}", flush=True)
    if not options.keep:
        box.end_all()
    print("work: " + ", ".join(f"{number} {name}" for name, number in work.items()))
    print(f"test result: {counts['passed']} passed; {counts['failed']} failed; {counts['ignored']} ignored;")
    sys.exit(counts["failed"] > 0)


if __name__ == "__main__":
    main()
