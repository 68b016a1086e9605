#!/usr/bin/env python3
"""Interpreters and tools that hooks call, each bare and under `develop`: stdout and exit code must be the same, but for those in `DIFFERENT`.

Needs root: everything runs in a network namespace with nothing but the loopback, as an ordinary user. A row also fails where the bare
line lacks the output in `rows.py`. Missing programs are skipped.
"""

import argparse
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "testenv"))

from home import Home, loopback, remove
from rows import DIFFERENT, ROWS

# Where programs are looked for.
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/games"
FILES = {
    "Main.java": 'class Main { public static void main(String[] a) throws Exception { System.out.println(java.security.MessageDigest.getInstance("SHA-256").digest().length); } }\n',
    "Makefile": "all: one\n\t@$(MAKE) -s two\none:\n\t@echo one\ntwo:\n\t@echo two\n",
    "a.go": 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("made") }\n',
    "a.txt": "one 1\ntwo 2\nthree 3\n",
    "a_test.go": 'package main\n\nimport "testing"\n\nfunc TestSum(t *testing.T) {\n\tif 1+1 != 2 {\n\t\tt.Fatal("no sum")\n\t}\n}\n',
    "c/a.c": '#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n',
    "go.mod": "module example.org/p\n\ngo 1.18\n",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hookjail", type=pathlib.Path, required=True)
    parser.add_argument("--user", required=True, help="who runs them")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="where the home is")
    parser.add_argument("--line", action="append", help="the rows whose line has this alone")
    options = parser.parse_args()
    loopback()
    box = Home(options.work, options.user, options.hookjail)
    confined = [str(options.hookjail), "run", "--private", "--mirror", "--profile", "develop", "--"]
    counts = {"passed": 0, "failed": 0, "ignored": 0}
    for program, line, printed in ROWS:
        if options.line and not any(word in line for word in options.line):
            continue
        if not shutil.which(program, path=PATH):
            counts["ignored"] += 1
            print(f"skipped: no {program}", flush=True)
            continue
        ends = []
        for before in ([], confined):
            if box.home.exists():
                remove(box.home)
            box.make_places()
            for name, text in FILES.items():
                box.write(box.project / name, text)
            ends.append(box.run([*before, "/bin/sh", "-c", line], [PATH], {}))
        bare, inside = ends
        if bare[0] != 0 or printed not in bare[1]:
            verdict = f"DOES NOT WORK BARE: {bare}"
        elif (inside[:2] == bare[:2]) == (program in DIFFERENT):
            verdict = f"NOT AS EXPECTED: bare {bare}\n  confined {inside}"
        else:
            verdict = f"ok, {DIFFERENT.get(program, 'the same')}"
        counts["passed" if verdict.startswith("ok") else "failed"] += 1
        print(f"{line[:70]:70} {verdict}", flush=True)
    box.end_all()
    print("test result: " + " ".join(f"{number} {name};" for name, number in counts.items()))
    sys.exit(counts["failed"] > 0)


if __name__ == "__main__":
    main()
