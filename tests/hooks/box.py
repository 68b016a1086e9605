"""The home that hooks are tried in, and the table of what tries each of them."""

import http.server
import json
import os
import pathlib
import re
import shlex
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "testenv"))

from home import Home, remove

HERE = pathlib.Path(__file__).resolve().parent
# Entries that stay in each directory of the home: installed ones, and those that may be mounts.
KEPT = {
    ".": (".cache", ".local", ".nvm", "p", "run", "tmp"),
    ".cache": ("uv",),
    ".local": ("bin", "state"),
    ".local/state": (),
    "p": ("node_modules", ".venv"),
    "run": (),
    "tmp": (),
}
SESSION = "0b7c2f4e-0000-4000-8000-000000000001"
SAID = {"role": "assistant", "message": {"content": [{"type": "text", "text": "Still at it."}], "usage": {"output_tokens": 300}}}
SETTINGS = {
    "claude-code": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "copilot": ".github/hooks/hook.json",
    "gemini-cli": ".gemini/settings.json",
}
# Where in the home a directory of `hooks` goes. All else goes to the project.
PLACES = {"bin": "bin", "home": ".claude", "plugins": ".claude/plugins"}
# The profile that `install` takes where none is named.
CHOSEN = "chosen"
# The one that `install` names where no namespace can be made.
WITHOUT_NAMESPACES = "develop-open-git"
# How often the grants that `learn` names are given to it in another try.
TRIES = 3
HOOKS = []


def hook(kind, point, line, runtime="claude-code", env=None, plugin=None, needs=()):
    """Registers the test of a hook, which returns whether the hook did its work. A plugin has its settings in a file of its own."""

    def register(tried):
        HOOKS.append({
            "kind": kind, "point": point, "line": line, "runtime": runtime, "env": env or {}, "plugin": plugin, "needs": needs, "tried": tried,
        })
        return tried

    return register


class Learnt(Exception):
    """`hookjail learn` proposed a profile, or named what was refused: its exit code and what it wrote."""


class Box(Home):
    """The home. Installed tools stay; everything else is made anew for each hook."""

    def __init__(self, options):
        super().__init__(options.work, options.user, options.hookjail)
        self.current, self.line, self.profile = None, "", None
        self.learns = False
        self.chosen = [f"--profile={WITHOUT_NAMESPACES}"] if options.without_namespaces else []
        self.last = None
        self.installed = ""
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
        for directory, kept in KEPT.items():
            for path in (self.home / directory).glob("*"):
                if path.name not in kept:
                    remove(path)
        self.make_places()
        for name in (".config/some.conf", ".local/share/some.txt"):
            self.write(self.home / name, "")
        self.write(self.home / ".gitconfig", "[user]\n\tname = A Developer\n\temail = dev@example.org\n")
        self.write(self.home / ".claude/projects/p/session.jsonl", json.dumps(SAID, separators=(",", ":")) + "\n")
        self.write(self.project / ".gitignore", "node_modules\n.venv\nlogs\n.hooks\n")
        self.write(self.project / "README.md", "A project.\n")
        for path in (HERE / "hooks").rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                below = path.relative_to(HERE / "hooks")
                top, *rest = below.parts
                place = self.home.joinpath(PLACES[top], *rest) if top in PLACES else self.project / ".hooks" / below
                self.write(place, path.read_text())
                place.chmod(0o755)
        self.start(["git", "init", "--quiet", "--initial-branch", "main", "."])
        self.start(["git", "add", "-A"])
        self.start(["git", "commit", "--quiet", "-m", "first"])

    def source(self, name, text):
        self.write(self.project / name, text)
        return str(self.project / name)

    def kept(self, name):
        """Returns where a hook's file of the home is: bare in the home, confined among the files that last."""
        if not self.profile:
            return self.home / name
        code, out, err = self.start([str(self.hookjail), "state", "path"])
        if code != 0:
            raise AssertionError(f"state path: {out}{err}")
        found = [path for root in out.split() for path in pathlib.Path(root).rglob(pathlib.Path(name).name)]
        return found[0] if found else self.home / name

    def text(self, path):
        """Returns what is in a file; nothing where there is none."""
        return path.read_text() if path.is_file() else ""

    def environment(self, current):
        """Returns the variables that the runtime gives the hook."""
        root = {"CLAUDE_PLUGIN_ROOT": f"~/.claude/plugins/{current['plugin']}"} if current["plugin"] else {}
        given = {**root, **current["env"]}
        return {name: value.replace("~", str(self.home)) for name, value in given.items()}

    def start(self, command, given=b""):
        node = sorted(self.home.glob(".nvm/versions/node/*/bin"))
        path = [*node, self.home / ".local/bin", self.home / "bin", "/usr/local/bin", "/usr/bin", "/bin"]
        self.last = self.run(command, path, {"CLAUDE_PROJECT_DIR": str(self.project), **self.environment(self.current)}, given)
        return self.last

    def fire(self, **members):
        """Runs the hook as its runtime does, or `learn` in its place."""
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
        # Of a run that fails by itself nothing is proposed: the next event may do.
        if self.learns and (self.proposal.exists() or self.named(ended[2])):
            raise Learnt(ended)
        return ended

    def bash(self, command):
        return self.fire(tool_name="Bash", tool_input={"command": command})

    def edited(self, path, new=""):
        return self.fire(tool_name="Edit", tool_input={"file_path": path, "old_string": "", "new_string": new})

    def configure(self, profile):
        """Writes settings with this one hook, has hookjail change them if it is to be confined, and takes the line from there.

        No profile is named where `install` is to choose it.
        """
        current = self.current
        if current["runtime"] == "copilot":
            entry = {"type": "command", "bash": current["line"], "timeoutSec": 40, "env": current["env"]}
            document = {"version": 1, "hooks": {current["point"]: [entry]}}
        else:
            timeout = 40000 if current["runtime"] == "gemini-cli" else 40
            entry = {"type": "command", "command": current["line"], "timeout": timeout}
            document = {"hooks": {current["point"]: [{"hooks": [entry]}]}}
        path = self.project / SETTINGS[current["runtime"]]
        if current["plugin"]:
            path = self.home / f".claude/plugins/{current['plugin']}/hooks/hooks.json"
        self.write(path, json.dumps(document))
        self.profile = profile
        if profile:
            words = ["install", f"--{current['runtime']}", "--settings", str(path), "--yes", "--no-rehearsal"]
            words += ["--profile", profile] if profile != CHOSEN else self.chosen
            code, out, err = self.start([str(self.hookjail), *words])
            # The row may make what a learnt profile grants after this.
            if code != 0 and "GRANT_MISSING" not in out:
                raise AssertionError(f"install: {out}{err}")
            self.installed = out + err
            document = json.loads(path.read_text())
        group = document["hooks"][current["point"]][0]
        self.line = group["bash"] if current["runtime"] == "copilot" else group["hooks"][0]["command"]
        if profile and "hookjail" not in self.line:
            raise AssertionError(f"install: the line is bare: {self.line}")

    @property
    def proposal(self):
        return self.home / "tmp/learnt.toml"

    def named(self, err):
        """Returns the options by which `learn` would allow the refusals that it found."""
        words = re.findall(r"to allow it: hookjail learn (.*?) -- ", err)
        return {word for line in words for word in shlex.split(line) if re.match("--(egress|grant)=", word)}

    def learn(self, current, line):
        """Yields hookjail's proposals from an event of the hook, whose line is as installed. Each try has the options of the earlier."""
        options = []
        self.profile = CHOSEN
        for _ in range(TRIES):
            self.fresh(current)
            words = shlex.join(["learn", "--name", "learnt", "--output", str(self.proposal), *options])
            self.line, number = re.subn(r"hookjail(-run| run) ", f"hookjail {words} ", line, count=1)
            if number != 1:
                raise AssertionError(f"learn: this runs no hookjail: {line}")
            self.line = self.line.replace(" --start -- ", " -- ", 1)
            self.learns = True
            try:
                current["tried"](self)
            except Learnt as learnt:
                code, _, err = learnt.args[0]
            except (LookupError, OSError, ValueError) as error:
                raise AssertionError(f"learn: it proposed nothing: {self.last[2]}") from error
            else:
                raise AssertionError(f"learn: it proposed nothing: {self.last[2]}")
            finally:
                self.learns = False
            # Code 1: the hook ended otherwise the second time, as a hook that commits does.
            if code not in (0, 1):
                raise AssertionError(f"learn: {code} {err}")
            if self.proposal.exists():
                yield self.proposal.read_text()
            if self.named(err) <= set(options):
                return
            options = sorted({*options, *self.named(err)})

    def works(self, current, profile, text=None):
        self.fresh(current)
        if text:
            settings = self.home / ".config/hookjail"
            self.write(settings / f"profiles/{profile}.toml", text)
            self.write(settings / "hookjail.toml", f'[profiles]\ndirs = ["{settings}/profiles"]\n')
        self.configure(profile)
        self.last = (0, "", "")
        try:
            return bool(current["tried"](self))
        except (LookupError, OSError, ValueError):
            # Missing, or no JSON: the hook did not leave the expected result.
            return False
