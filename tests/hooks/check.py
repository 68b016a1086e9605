#!/usr/bin/env python3
"""Hooks of the kinds that people publish, bare, under a shipped profile, and under one that is learnt, judged by their effect.

Needs root: everything runs in a network namespace with nothing but the loopback, as an ordinary user with nothing in its
environment. `expected.md` says what each must do; it fails where that is not so, where a hook does not even work bare, and where one that
works does not under the profile that `hookjail learn` proposes for it.
"""

import argparse
import contextlib
import http.server
import json
import os
import pathlib
import re
import socket
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "testenv"))

from home import Home, loopback, remove

HERE = pathlib.Path(__file__).resolve().parent
# How long one hook may take, seconds.
MOST = 60
KEPT = ("node_modules", ".venv")
UNTIDY = "const  a = {b:1}\nexport default   a\n"
SESSION = "0b7c2f4e-0000-4000-8000-000000000001"
HOOKS = []


def hook(kind, point, line, runtime="claude-code", env=None, settings=None):
    """Registers what tries a hook: it says whether the hook did its work."""

    def register(tried):
        HOOKS.append({
            "kind": kind, "point": point, "line": line, "runtime": runtime, "env": env or {}, "settings": settings, "tried": tried,
        })
        return tried

    return register


class Learnt(Exception):
    """The profile that `hookjail learn` proposes."""


class Box(Home):
    """The home. What was installed there stays; everything else is made anew for each hook."""

    def __init__(self, options):
        super().__init__(options.work, options.user, options.hookjail)
        self.current, self.line = None, ""
        self.learns = False
        self.last = None
        self.posted = []
        box = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                box.posted.append(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 8377), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def fresh(self, current):
        self.end_all()
        self.current, self.posted = current, []
        for path in self.home.iterdir():
            if path not in (self.project, self.home / ".nvm", self.home / ".local"):
                remove(path)
        remove(self.home / ".local/state")
        for path in self.project.iterdir():
            if path.name not in KEPT:
                remove(path)
        self.make_places()
        self.write(self.home / ".gitconfig", "[user]\n\tname = A Developer\n\temail = dev@example.org\n")
        said = {"role": "assistant", "message": {"content": [{"type": "text", "text": "Still at it."}]}}
        self.write(self.home / ".claude/projects/p/session.jsonl", json.dumps(said, separators=(",", ":")) + "\n")
        self.write(self.project / ".gitignore", "node_modules\n.venv\nlogs\n.hooks\n")
        self.write(self.project / "README.md", "A project.\n")
        for path in (HERE / "hooks").rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                below = path.relative_to(HERE / "hooks")
                places = {"plugins": self.home / ".claude" / below, "home": self.home / ".claude/hooks" / below.name}
                place = places.get(below.parts[0], self.project / ".hooks" / below)
                self.write(place, path.read_text())
                place.chmod(0o755)
        self.start(["git", "init", "--quiet", "--initial-branch", "main", "."])
        self.start(["git", "add", "-A"])
        self.start(["git", "commit", "--quiet", "-m", "first"])

    def source(self, name, text):
        self.write(self.project / name, text)
        return str(self.project / name)

    def start(self, command, told=b""):
        node = sorted(self.home.glob(".nvm/versions/node/*/bin"))
        path = [*node, self.home / ".local/bin", "/usr/local/bin", "/usr/bin", "/bin"]
        own = {name: value.replace("~", str(self.home)) for name, value in self.current["env"].items()}
        self.last = self.run(command, path, {"CLAUDE_PROJECT_DIR": str(self.project), **own}, told)
        return self.last

    def fire(self, **members):
        """Runs the hook as its runtime does; where it is learnt, has hookjail look what it needs for that."""
        current = self.current
        event = {
            "session_id": SESSION,
            "transcript_path": str(self.home / ".claude/projects/p/session.jsonl"),
            "cwd": str(self.project),
            "hook_event_name": current["point"],
            **members,
        }
        if current["runtime"] == "copilot":
            event = {"sessionId": SESSION, "timestamp": 1760000000000, "cwd": str(self.project), **members}
        ended = self.start(["/bin/sh", "-c", self.line], json.dumps(event).encode())
        if self.learns:
            # 1 says that the hook ended otherwise the second time, as one does that commits.
            if ended[0] not in (0, 1):
                raise AssertionError(f"learn: {ended}")
            raise Learnt((self.home / "tmp/learnt.toml").read_text())
        return ended

    def bash(self, command):
        return self.fire(tool_name="Bash", tool_input={"command": command})

    def edited(self, path, new=""):
        return self.fire(tool_name="Edit", tool_input={"file_path": path, "old_string": "", "new_string": new})

    def configure(self, profile):
        """Writes settings with this one hook; with a profile, has hookjail change them. Takes the line from there."""
        current = self.current
        if current["runtime"] == "copilot":
            name = ".github/hooks/hook.json"
            entry = {"type": "command", "bash": current["line"], "timeoutSec": 40, "env": current["env"]}
            document = {"version": 1, "hooks": {current["point"]: [entry]}}
        else:
            name = current["settings"] or ".claude/settings.json"
            entry = {"type": "command", "command": current["line"], "timeout": 40}
            document = {"hooks": {current["point"]: [{"hooks": [entry]}]}}
        path = self.home / name if name.startswith(".claude/plugins") else self.project / name
        self.write(path, json.dumps(document))
        if profile:
            words = ["install", f"--{current['runtime']}", "--settings", str(path), "--profile", profile, "--yes"]
            code, out, err = self.start([str(self.hookjail), *words, "--no-rehearsal"])
            if code != 0:
                raise AssertionError(f"install: {out}{err}")
            document = json.loads(path.read_text())
        group = document["hooks"][current["point"]][0]
        self.line = group["bash"] if current["runtime"] == "copilot" else group["hooks"][0]["command"]

    def learn(self, current, widest):
        """Returns the smallest profile that hookjail proposes from the first event of the hook's."""
        self.fresh(current)
        self.configure(widest)
        options = f"learn --name learnt --output {self.home}/tmp/learnt.toml "
        self.line = re.sub(r"hookjail(-run| run) ", f"hookjail {options}", self.line, count=1)
        self.line = self.line.replace(" --start -- ", " -- ", 1)
        self.learns = True
        try:
            current["tried"](self)
        except Learnt as learnt:
            return str(learnt)
        finally:
            self.learns = False
        raise AssertionError("learn: the hook was never fired")

    def works(self, current, profile, text=None):
        self.fresh(current)
        if text:
            settings = self.home / ".config/hookjail"
            self.write(settings / f"profiles/{profile}.toml", text)
            self.write(settings / "hookjail.toml", f'[profiles]\ndirs = ["{settings}/profiles"]\n')
        self.configure(profile)
        self.last = (0, "", "")
        return bool(current["tried"](self))


# The 25 kinds.


@hook("prettier after an edit", "PostToolUse", "jq -r '.tool_input.file_path' | xargs npx prettier --write")
def prettier(box):
    name = box.source("src/a.js", UNTIDY)
    box.edited(name)
    return "const a = { b: 1 };" in pathlib.Path(name).read_text()


@hook("eslint --fix after an edit", "PostToolUse", "npx eslint --fix src")
def eslint(box):
    box.source("eslint.config.mjs", 'export default [{ rules: { "prefer-const": "error" } }];\n')
    name = box.source("src/a.js", "let a = 1;\nexport default a;\n")
    code, _, _ = box.edited(name)
    return code == 0 and pathlib.Path(name).read_text().startswith("const a")


@hook("tsc --noEmit after an edit", "PostToolUse", "npx tsc --noEmit -p . >&2 || exit 2")
def tsc(box):
    box.source("tsconfig.json", '{"include": ["src"], "compilerOptions": {"strict": true, "types": []}}\n')
    name = box.source("src/a.ts", 'export const a: number = "x";\n')
    wrong = box.edited(name)
    box.source("src/a.ts", "export const a: number = 1;\n")
    return wrong[0] == 2 and "TS2322" in wrong[2] and box.edited(name)[0] == 0


@hook("ruff of the project's .venv", "PostToolUse", "jq -r '.tool_input.file_path' | xargs .venv/bin/ruff check --fix --quiet")
def ruff(box):
    name = box.source("src/a.py", "import os\nprint(1)\n")
    return box.edited(name)[0] == 0 and "import os" not in pathlib.Path(name).read_text()


@hook("black of the project's .venv", "PostToolUse", "jq -r '.tool_input.file_path' | xargs .venv/bin/black --quiet")
def black(box):
    name = box.source("src/a.py", "a = {'b':1}\n")
    box.edited(name)
    return pathlib.Path(name).read_text() == 'a = {"b": 1}\n'


@hook("npm test before stopping", "Stop", "npm test --silent >&2 || exit 2")
def npm_test(box):
    box.source("package.json", '{"name": "p", "scripts": {"test": "node --test"}}\n')
    test = "const test = require('node:test'); test('sum', () => { require('node:assert').equal(1 + 1, %d); });\n"
    box.source("test/a.test.js", test % 3)
    wrong = box.fire()
    box.source("test/a.test.js", test % 2)
    return wrong[0] == 2 and "fail 1" in wrong[2] and box.fire()[0] == 0


@hook("pytest of .venv before stopping", "Stop", ".venv/bin/pytest -q >&2 || exit 2")
def pytest(box):
    box.source("test_a.py", "def test_sum():\n    assert 1 + 1 == 3\n")
    wrong = box.fire()
    box.source("test_a.py", "def test_sum():\n    assert 2 + 2 == 4\n")
    return wrong[0] == 2 and "1 failed" in wrong[2] and box.fire()[0] == 0


@hook("log of commands in ~/.claude", "PreToolUse", "jq -r '.tool_input.command' >> ~/.claude/commands.log")
def command_log(box):
    box.bash("make all")
    log = box.home / ".claude/commands.log"
    return log.exists() and "make all" in log.read_text()


@hook(
    "protected files by python3 -c", "PreToolUse",
    "python3 -c \"import json, sys; p = json.load(sys.stdin).get('tool_input', {}).get('file_path', ''); "
    "sys.exit(2 if any(n in p for n in ['.env', 'package-lock.json', '.git/']) else 0)\"",
)
def protected(box):
    return box.edited(str(box.project / ".env"))[0] == 2 and box.edited(str(box.project / "a.py"))[0] == 0


@hook("rules for commands, a script", "PreToolUse", '"$CLAUDE_PROJECT_DIR"/.hooks/command_rules.py')
def command_rules(box):
    code, _, err = box.bash("grep -r x .")
    return code == 2 and "use rg" in err and box.bash("ls")[0] == 0


RULES = {"settings": ".claude/plugins/rules/hooks/hooks.json", "env": {"CLAUDE_PLUGIN_ROOT": "~/.claude/plugins/rules"}}


@hook("a plugin with rules of the project", "PreToolUse", 'python3 "${CLAUDE_PLUGIN_ROOT}"/hooks/before_tool.py', **RULES)
def rules(box):
    box.source(".claude/rules.push.local.md", "---\nname: push\nword: --force\naction: block\n---\n\nNever push by force.\n")
    _, out, _ = box.bash("git push --force")
    return "Never push by force." in out and box.bash("git push")[:2] == (0, "")


REMINDERS = {"settings": ".claude/plugins/reminders/hooks.json", "env": {"CLAUDE_PLUGIN_ROOT": "~/.claude/plugins/reminders"}}


@hook("a plugin that warns once a session", "PreToolUse", 'python3 "${CLAUDE_PLUGIN_ROOT}"/remind.py', **REMINDERS)
def remind(box):
    name = box.source("src/a.js", "")
    first, second = box.edited(name, "eval(x)"), box.edited(name, "eval(x)")
    return first[0] == 2 and "eval runs" in first[2] and second[0] == 0


LOOP = {"settings": ".claude/plugins/loop/hooks.json", "env": {"CLAUDE_PLUGIN_ROOT": "~/.claude/plugins/loop"}}


@hook("a plugin's loop at the stop", "Stop", "${CLAUDE_PLUGIN_ROOT}/stop.sh", **LOOP)
def loop(box):
    state = box.source(".claude/loop.local.md", "---\nround: 1\nmost: 3\n---\n\nMake the tests pass.\n")
    _, out, _ = box.fire()
    return '"block"' in out and "Make the tests pass." in out and "round: 2" in pathlib.Path(state).read_text()


STYLE = {"settings": ".claude/plugins/style/hooks.json", "env": {"CLAUDE_PLUGIN_ROOT": "~/.claude/plugins/style"}}


@hook("a plugin's context at the start", "SessionStart", "${CLAUDE_PLUGIN_ROOT}/start.sh", **STYLE)
def style(box):
    return "Explain each choice" in box.fire(source="startup")[1]


@hook("a guard by uv run", "PreToolUse", "uv run .hooks/uv_before_tool.py")
def uv_guard(box):
    code, _, err = box.bash("rm -rf /")
    return code == 2 and "removes everything" in err and box.bash("ls")[0] == 0 and (box.project / "logs/before_tool.json").exists()


@hook("the conversation kept at the stop by uv run", "Stop", "uv run .hooks/uv_stop.py --chat")
def uv_stop(box):
    box.fire()
    chat = box.project / "logs/chat.json"
    return chat.exists() and "Still at it." in chat.read_text()


@hook("git context at the start", "SessionStart", ".hooks/git_context.sh")
def git_context(box):
    box.source("new.txt", "")
    out = box.fire(source="startup")[1]
    return "branch: main" in out and "?? new.txt" in out and "first" in out


@hook("git commit at the stop", "Stop", 'git add -A && git commit -q -m "work of the agent"')
def git_commit(box):
    box.source("new.txt", "x\n")
    box.fire()
    return "work of the agent A Developer" in box.start(["git", "log", "-1", "--format=%s %an"])[1]


@hook("commit at the end, and a push where it works", "sessionEnd", ".hooks/auto_commit.sh", runtime="copilot")
def auto_commit(box):
    box.source("new.txt", "x\n")
    out = box.fire(reason="complete")[1]
    return "not pushed" in out and "auto-commit" in box.start(["git", "log", "-1", "--format=%s"])[1]


@hook("log of sessions in the project", "sessionStart", ".hooks/session_log.sh", runtime="copilot")
def session_log(box):
    box.fire(source="new")
    return (box.project / "logs/copilot/session.log").exists()


BLOCKING = {"runtime": "copilot", "env": {"GUARD_MODE": "block", "SCAN_MODE": "block"}}


@hook("guard of tools, its mode in the entry's env", "preToolUse", ".hooks/tool_guard.sh", **BLOCKING)
def tool_guard(box):
    stopped = box.fire(toolName="bash", toolArgs=json.dumps({"command": "git push --force"}))
    passed = box.fire(toolName="bash", toolArgs=json.dumps({"command": "git push"}))
    log = box.project / "logs/copilot/guard/guard.log"
    return '"deny"' in stopped[1] and passed[:2] == (0, "") and log.exists()


@hook("scan for secrets, its mode in the entry's env", "sessionEnd", ".hooks/secret_scan.sh", **BLOCKING)
def secret_scan(box):
    box.source("key.pem", "-----BEGIN RSA PRIVATE KEY-----\n")
    wrong = box.fire(reason="complete")
    remove(box.project / "key.pem")
    return wrong[0] == 1 and "a key in key.pem" in wrong[2] and box.fire(reason="complete")[0] == 0


WEBHOOK = "curl -s -m 5 -X POST -H 'Content-Type: application/json' --data-binary @- http://127.0.0.1:8377/hook"


@hook("webhook by curl", "Stop", WEBHOOK)
def webhook(box):
    box.fire()
    return any(b'"Stop"' in body for body in box.posted)


WORKER = (
    "node -e \"let s = ''; process.stdin.on('data', d => s += d).on('end', () => "
    "fetch('http://127.0.0.1:8377/api', { method: 'POST', body: s }).catch(() => process.exit(1)))\""
)


@hook("worker on the loopback", "PostToolUse", WORKER)
def worker(box):
    box.bash("ls")
    return any(b'"PostToolUse"' in body for body in box.posted)


@hook("notification over D-Bus", "Notification", ".hooks/bus_notify.py")
def notification(box):
    with socket.socket(socket.AF_UNIX) as bus:
        bus.bind(str(box.home / "run/bus"))
        os.chown(box.home / "run/bus", box.user.pw_uid, box.user.pw_gid)
        bus.listen()
        bus.settimeout(0.5)
        box.fire(message="waiting")
        with contextlib.suppress(TimeoutError):
            return bus.accept()[0].recv(100) == b"the agent waits"
    return False


# Others.


@hook("no commits to the main branch", "PreToolUse", '"$CLAUDE_PROJECT_DIR"/.hooks/branch_guard.sh')
def branch_guard(box):
    return box.bash("git commit -m x")[0] == 2 and box.bash("git status")[0] == 0


@hook("variables by CLAUDE_ENV_FILE", "SessionStart", ".hooks/session_env.sh", env={"CLAUDE_ENV_FILE": "~/.claude/session-env"})
def session_env(box):
    box.write(box.home / ".claude/session-env", "")
    box.fire(source="startup")
    return "BUILD_TARGET" in (box.home / ".claude/session-env").read_text()


@hook("transcript kept before it is compacted", "PreCompact", ".hooks/backup_transcript.py")
def backup(box):
    box.fire(trigger="auto")
    return (box.project / ".claude/backups/transcript.jsonl").exists()


@hook("tests of the changed file by node --test", "PostToolUse", "node --test >&2 || exit 2")
def node_test(box):
    box.source("a.test.js", "require('node:test')('sum', () => { throw new Error('no'); });\n")
    return box.edited(str(box.project / "a.test.js"))[0] == 2


@hook("formatter of the home", "PostToolUse", "~/.local/bin/ruff format --quiet .")
def home_ruff(box):
    name = box.source("src/a.py", "a = {'b':1}\n")
    box.edited(name)
    return pathlib.Path(name).read_text() == 'a = {"b": 1}\n'


@hook("the project's notes at each prompt", "UserPromptSubmit", 'cat "$CLAUDE_PROJECT_DIR"/NOTES.md; git diff --stat')
def notes(box):
    box.source("NOTES.md", "Tabs, not spaces.\n")
    box.source("README.md", "Another project.\n")
    out = box.fire(prompt="go on")[1]
    return "Tabs, not spaces." in out and "README.md" in out


@hook("a guard in the home, with what lies beside it", "PreToolUse", "~/.claude/hooks/guard.sh")
def home_guard(box):
    box.write(box.home / ".claude/hooks/words.txt", "shutdown\n")
    return box.bash("shutdown now")[0] == 2 and box.bash("ls")[0] == 0


@hook("stash before each call", "PreToolUse", "git stash create >> .git/agent-stashes")
def stash(box):
    box.source("README.md", "Another project.\n")
    box.bash("ls")
    kept = box.project / ".git/agent-stashes"
    return kept.exists() and re.fullmatch(r"[0-9a-f]{40}\n", kept.read_text()) is not None


def table():
    """Returns what is expected: the profile and whether it works there, by kind."""
    rows = {}
    for line in (HERE / "expected.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and cells[2] in ("works", "refused"):
            rows[cells[0]] = (cells[1].strip("`"), cells[2])
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hookjail", type=pathlib.Path, required=True)
    parser.add_argument("--user", required=True, help="who runs them")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="where the home is, with what is installed")
    parser.add_argument("--hook", action="append", help="this one alone")
    parser.add_argument("--keep", action="store_true", help="leave the home as the last hook left it")
    options = parser.parse_args()
    loopback()
    box = Box(options)
    expected, lines, counts = table(), [], {"passed": 0, "failed": 0}
    unknown = set(expected) ^ {one["kind"] for one in HOOKS}
    if unknown:
        sys.exit(f"in one of the table and this file alone: {sorted(unknown)}")
    for current in HOOKS:
        if options.hook and current["kind"] not in options.hook:
            continue
        profile, must = expected[current["kind"]]
        bare = box.works(current, None)
        found = why = ""
        learnt = "-"
        try:
            found = "works" if box.works(current, profile) else "refused"
            if found == "works":
                text = box.learn(current, profile)
                learnt = "works" if box.works(current, "learnt", text) else text
        except AssertionError as error:
            found, why = (found, str(error)) if found else ("refused", str(error))
        if not bare:
            verdict = "DOES NOT WORK BARE"
        elif found != must:
            verdict = f"NOT AS EXPECTED: {must}"
        elif found == "works" and learnt != "works":
            verdict, why = "DOES NOT WORK AS LEARNT", f"{learnt}\n  {why or box.last}"
        else:
            verdict = "ok"
        counts["passed" if verdict == "ok" else "failed"] += 1
        lines.append(f"{current['kind']:46} {profile:8} {found:8} {learnt.splitlines()[0]:8} {verdict}")
        print(lines[-1], flush=True)
        if verdict != "ok" or options.keep:
            print(f"  {why or box.last}", flush=True)
    if not options.keep:
        box.end_all()
    if not options.hook:
        print(f"of the first 25 {sum(' works ' in line for line in lines[:25])} work, also as learnt")
    print(f"test result: {counts['passed']} passed; {counts['failed']} failed;")
    sys.exit(counts["failed"] > 0)


if __name__ == "__main__":
    main()
