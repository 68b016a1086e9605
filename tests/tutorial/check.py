#!/usr/bin/env python3
"""Runs a document's `sh` blocks, one after another in one shell with a home of its own, and compares what they print with the `text`
block behind each. HOOKJAIL names the program; `hookjail-run` stands beside it. Usage: check.py DOCUMENT [SCRIPT]

SCRIPT, in the same shell, makes everything that the document requires.

`…` in a line of the document stands for any text, as a line by itself for any lines. Places, times, ids and hashes only have to be
of the same kind. A block must end with status 0: one that is to fail prints its exit code.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HOOKJAIL = pathlib.Path(os.environ.get("HOOKJAIL") or sys.exit("HOOKJAIL names no program")).absolute()
END = "the-end-of-a-block"
VARYING = [
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID"),
    (r"\b[0-9a-f]{64}\b", "HASH"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r"^ +\d+ TIME", "N TIME"),
    (r"^\d\d:\d\d:\d\d  ", "CLOCK  "),
    (r"Landlock ABI \d+", "Landlock ABI N"),
    (r"records 1 to \d+", "records 1 to N"),
]


def blocks(text):
    """Each `sh` block with the `text` block that follows it before the next, or None."""
    found = []
    for language, body in re.findall(r"^```(sh|text)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if language == "sh":
            found.append([body, None])
        elif found:
            found[-1][1] = body
    return found


def plain(text):
    lines = []
    for line in text.splitlines():
        for pattern, name in VARYING:
            line = re.sub(pattern, name, line)
        lines.append(line.rstrip() + "\n")
    return "".join(lines)


def matches(wanted, printed):
    """Returns whether the printed lines are the required ones, in order, and no others but where `…` stands."""
    pattern = re.escape(plain(wanted)).replace("…\\\n", "…\n")
    pattern = re.sub("^…\n", "(?:.*\\\\n)*", pattern, flags=re.MULTILINE).replace("…", ".*")
    return re.fullmatch(pattern, plain(printed))


def run(scripts, home):
    """Returns the output of each script, and its status."""
    program = "".join(f"{script}printf '%s %s\\n' {END} \"$?\"\n" for script in scripts)
    environment = {"HOME": home, "USER": "you", "LANG": "C.UTF-8", "PATH": f"{HOOKJAIL.parent}:/usr/bin:/bin"}
    shell = subprocess.run(["bash", "-c", program], cwd=home, env=environment, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    return re.findall(rf"(.*?)^{END} (\d+)\n", shell.stdout, re.MULTILINE | re.DOTALL)


def main():
    document = pathlib.Path(sys.argv[1])
    expected = [[pathlib.Path(script).read_text(), None] for script in sys.argv[2:]]
    expected += blocks(document.read_text())
    # Below /tmp, because the path of a socket is short.
    with tempfile.TemporaryDirectory(prefix="hj-", dir="/tmp") as home:
        try:
            seen = run([script for script, _ in expected], home)
        finally:
            # A daemon that the document started and, where it failed, did not end.
            subprocess.run([HOOKJAIL, "drain"], env={"HOME": home}, capture_output=True, timeout=60)
    failed = 0 if len(seen) == len(expected) > 0 else 1
    for (script, wanted), (printed, status) in zip(expected, seen):
        printed = printed.replace(home, "/home/you").replace(str(HOOKJAIL.parent), "/home/you/.cargo/bin")
        if status != "0" or (wanted is not None and not matches(wanted, printed)):
            failed += 1
            print(f"--- this\n{script}--- is to print\n{wanted or ''}--- and prints, with status {status}\n{printed}---")
    compared = sum(wanted is not None for _, wanted in expected)
    print(f"{document}: {len(seen)} of {len(expected)} blocks run, {compared} outputs compared, {failed} not as written")
    sys.exit(bool(failed))


main()
