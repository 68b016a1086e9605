"""Formatters, linters, compilers and tests, after an edit or before stopping."""

import pathlib

from box import hook

UNTIDY = "const  a = {b:1}\nexport default   a\n"
EDITED = "jq -r '.tool_input.file_path'"


def stops_and_passes(box, fire, wrong, right, word):
    """Fires with a wrong file and with a right one: a pair of a name and a text each. Stops at the first, with this word."""
    box.source(*wrong)
    stopped = fire()
    box.source(*right)
    return stopped[0] == 2 and word in stopped[2] and fire()[0] == 0


def after_an_edit(box, name, before, after):
    """Edits a file of this text: returns whether the hook left the other one."""
    name = box.source(name, before)
    box.edited(name)
    return pathlib.Path(name).read_text() == after


@hook("prettier after an edit", "PostToolUse", EDITED + " | xargs npx prettier --write")
def prettier(box):
    return after_an_edit(box, "src/a.js", UNTIDY, "const a = { b: 1 };\nexport default a;\n")


@hook("eslint --fix after an edit", "PostToolUse", "npx eslint --fix src")
def eslint(box):
    box.source("eslint.config.mjs", 'export default [{ rules: { "prefer-const": "error" } }];\n')
    return after_an_edit(box, "src/a.js", "let a = 1;\nexport default a;\n", "const a = 1;\nexport default a;\n") and box.last[0] == 0


@hook("tsc --noEmit after an edit", "PostToolUse", "npx tsc --noEmit -p . >&2 || exit 2")
def tsc(box):
    box.source("tsconfig.json", '{"include": ["src"], "compilerOptions": {"strict": true, "types": []}}\n')
    wrong, right = (("src/a.ts", f"export const a: number = {value};\n") for value in ('"x"', "1"))
    return stops_and_passes(box, lambda: box.edited(str(box.project / "src/a.ts")), wrong, right, "TS2322")


@hook("biome after an edit", "PostToolUse", EDITED + " | xargs npx biome format --write")
def biome(box):
    return after_an_edit(box, "src/a.js", UNTIDY, "const a = { b: 1 };\nexport default a;\n")


@hook("ruff of the project's .venv", "PostToolUse", EDITED + " | xargs .venv/bin/ruff check --fix --quiet")
def ruff(box):
    return after_an_edit(box, "src/a.py", "import os\nprint(1)\n", "print(1)\n")


@hook("black of the project's .venv", "PostToolUse", EDITED + " | xargs .venv/bin/black --quiet")
def black(box):
    return after_an_edit(box, "src/a.py", "a = {'b':1}\n", 'a = {"b": 1}\n')


@hook("formatter of the home", "PostToolUse", "~/.local/bin/ruff format --quiet .")
def home_ruff(box):
    return after_an_edit(box, "src/a.py", "a = {'b':1}\n", 'a = {"b": 1}\n')


@hook("gofmt and go vet after an edit", "PostToolUse", ".hooks/go_check.sh", needs=("go", "gofmt"))
def go_check(box):
    box.source("go.mod", "module example.org/p\n\ngo 1.19\n")
    body = 'package main\nimport "fmt"\nfunc main() { fmt.Printf("%%d\\n", %s) }\n'
    wrong, right = (("main.go", body % value) for value in ('"x"', "1"))
    name = str(box.project / "main.go")
    stops = stops_and_passes(box, lambda: box.edited(name), wrong, right, "Printf")
    return stops and '\n\nimport "fmt"\n\nfunc main()' in pathlib.Path(name).read_text()


@hook("php -l after an edit", "PostToolUse", EDITED + " | xargs -n 1 php -l >&2 || exit 2", needs=("php",))
def php(box):
    wrong, right = ("src/a.php", "<?php echo 1 1;\n"), ("src/a.php", "<?php echo 1;\n")
    return stops_and_passes(box, lambda: box.edited(str(box.project / "src/a.php")), wrong, right, "syntax error")


@hook("syntax of an edited script or table", "PostToolUse", ".hooks/syntax.sh")
def syntax(box):
    named = ("a.sh", "if true; then\n", "true\n", "unexpected end"), ("a.json", '{"a": }\n', '{"a": 1}\n', "parse error")
    return all(
        stops_and_passes(box, lambda: box.edited(str(box.project / name)), (name, wrong), (name, right), word)
        for name, wrong, right, word in named
    )


@hook("blanks at line ends removed", "PostToolUse", EDITED + " | xargs sed -i 's/[[:blank:]]*$//'")
def blanks(box):
    return after_an_edit(box, "src/a.txt", "one  \ntwo\t\n", "one\ntwo\n")


@hook("checks of many files by a pool of processes", "PostToolUse", ".hooks/pool_check.py")
def pool(box):
    for number in range(20):
        box.source(f"src/a{number}.py", "print(1)\n")
    wrong, right = ("src/a7.py", "breakpoint()\n"), ("src/a7.py", "print(1)\n")
    return stops_and_passes(box, lambda: box.edited(str(box.project / "src/a7.py")), wrong, right, "a7.py: breakpoint")


@hook("several tools of the project by Node.js", "PostToolUse", "node .hooks/quality.js")
def quality(box):
    name = box.source("src/a.js", UNTIDY)
    stopped = box.edited(name)
    formatted = pathlib.Path(name).read_text() == "const a = { b: 1 };\nexport default a;\n"
    box.source("src/a.js", "console.log(1);\n")
    return stopped[0] == 0 and formatted and "console.log stays" in box.edited(name)[2]


@hook("npm test before stopping", "Stop", "npm test --silent >&2 || exit 2")
def npm_test(box):
    box.source("package.json", '{"name": "p", "scripts": {"test": "node --test"}}\n')
    test = "const test = require('node:test'); test('sum', () => { require('node:assert').equal(1 + 1, %d); });\n"
    return stops_and_passes(box, box.fire, ("test/a.test.js", test % 3), ("test/a.test.js", test % 2), "fail 1")


@hook("pytest of .venv before stopping", "Stop", ".venv/bin/pytest -q >&2 || exit 2")
def pytest(box):
    test = "def test_sum():\n    assert 1 + 1 == %d\n"
    # Of another length: Python goes by the second and the length of what it has compiled.
    return stops_and_passes(box, box.fire, ("test_a.py", test % 3), ("test_a.py", "\n" + test % 2), "1 failed")


@hook("go test before stopping", "Stop", "go test ./... >&2 || exit 2", needs=("go",))
def go_test(box):
    box.source("go.mod", "module example.org/p\n\ngo 1.19\n")
    test = 'package p\n\nimport "testing"\n\nfunc TestSum(t *testing.T) {\n\tif 1+1 != %d {\n\t\tt.Fatal("no sum")\n\t}\n}\n'
    return stops_and_passes(box, box.fire, ("a_test.go", test % 3), ("a_test.go", test % 2), "no sum")


@hook("make lint before stopping", "Stop", "make -s lint >&2 || exit 2", needs=("make",))
def make(box):
    box.source("Makefile", "lint:\n\t@! grep -n FIXME src/*.txt\n\t@echo clean\n")
    return stops_and_passes(box, box.fire, ("src/a.txt", "FIXME\n"), ("src/a.txt", "done\n"), "FIXME") and "clean" in box.last[2]


@hook("tests of the changed file by node --test", "PostToolUse", "node --test >&2 || exit 2")
def node_test(box):
    body = "require('node:test')('sum', () => { if (%s) throw new Error('no sum'); });\n"
    wrong, right = (("a.test.js", body % value) for value in ("true", "false"))
    return stops_and_passes(box, lambda: box.edited(str(box.project / "a.test.js")), wrong, right, "no sum")


@hook("commit, checked by the project's own git hooks", "Stop", "git commit -q -a -m 'work of the agent' >&2 || exit 2")
def husky(box):
    box.start(["git", "config", "core.hooksPath", ".husky"])
    pathlib.Path(box.source(".husky/pre-commit", "#!/bin/sh\nnpx prettier --check README.md\n")).chmod(0o755)
    checked = stops_and_passes(box, box.fire, ("README.md", "#   A\n"), ("README.md", "# A project\n"), "README.md")
    return checked and "work of the agent" in box.start(["git", "log", "-1", "--format=%s"])[1]
