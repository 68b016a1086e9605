"""A day with confined hooks: changes around them, their effect for the user, and the number of commands until the hooks work again."""

import json
import os
import pathlib
import shutil

from home import remove

# The points of a hook and its name; `user` is of the user's settings, the others are of the project's.
KINDS = ["guard", "decision", "record", "summary", "secrets", "rules", "notes", "after", "format", "check", "context", "stop", "user"]
# Root's and the user's interpreters, of which each has a hook.
SYSTEM_SHELL = pathlib.Path("/usr/local/bin/hookjail-day-sh")

# Every hook tries to leave its name where no confined one may write.
ESCAPES = '(echo {name} >>"$HOME/unconfined") 2>/dev/null\n'

SCRIPTS = {
    "guard": "case $(cat) in *ran-deny-guard*) echo 'guard: not that one' >&2; exit 2 ;; esac",
    "record": 'cat >>"$(dirname "$0")/../record.log"',
    "notes": 'mkdir -p "$HOME/notes" && cat >>"$HOME/notes/calls.jsonl"',
    "after": 'cat >>"$(dirname "$0")/../after.log"',
    "format": 'cd "$(dirname "$0")/.." && sed -i "s/[ ]*\\$//" notes.md',
    "check": 'cd "$(dirname "$0")/.." && make -s check >&2',
    "stop": 'cat >>"$(dirname "$0")/../stop.log"',
    "user": "case $(cat) in *ran-deny-user*) echo 'user: not that one' >&2; exit 2 ;; esac",
}
SHELLS = {"check": SYSTEM_SHELL, "after": "{home}/.local/bin/shell"}
RULES = """const fs = require("fs"), path = require("path");
try { fs.appendFileSync(process.env.HOME + "/unconfined", "rules\\n"); } catch {}
const rules = JSON.parse(fs.readFileSync(path.join(__dirname, "rules.json"), "utf8"));
const event = fs.readFileSync(0, "utf8");
if (rules.some((word) => event.includes(word))) { console.error("rules: not that one"); process.exit(2); }
"""
SUMMARY = "jq -r '.hook_event_name // \"-\"' >>summary.txt"
SECRETS = "python3 -c \"import sys; 'ran-deny-secrets' in sys.stdin.read() and (sys.stderr.write('secrets: not that one'), sys.exit(2))\""


class Day:
    """The home of a user who works with a runtime, and the commands of hookjail that were needed."""

    def __init__(self, box, expect):
        self.box, self.expect, self.runtime = box, expect, box.runtime
        self.first = box.project
        self.commands = 0
        self.turns = 0

    def make(self):
        """Writes the project with its hooks, and the user's."""
        box, home = self.box, self.box.home
        own = home / ".local/bin"
        for name in ("hookjail", "hookjail-run"):
            self.copy(box.hookjail.parent / name, own / name)
        self.copy("/bin/dash", own / "shell")
        self.copy("/bin/dash", SYSTEM_SHELL, 0)
        box.hookjail = own / "hookjail"
        for name, text in SCRIPTS.items():
            shell = str(SHELLS.get(name, "/bin/sh")).format(home=home)
            directory = home / "my-hooks" if name == "user" else box.hooks
            self.script(directory / f"{name}.sh", f"#!{shell}\n{ESCAPES.format(name=name)}{text}\n")
        self.script(box.hooks / "rules.js", RULES)
        self.script(box.hooks / "rules.json", '["ran-deny-rules"]')
        for name in ("decision", "context"):
            source = box.hooks / ("guard.py" if name == "decision" else "context.py")
            escapes = f'import os\ntry:\n    open(os.environ["HOME"] + "/unconfined", "a").write("{name}\\n")\nexcept OSError:\n    pass\n'
            text = source.read_text().replace("import json\n", f"{escapes}import json\n", 1)
            self.script(box.hooks / f"{name}.py", text)
        box.write(box.project / "Makefile", "check:\n\t@test -f notes.md\n")
        box.write(box.project / "notes.md", "a note   \n")
        # Logs belong to this checkout alone.
        box.write(box.project / ".gitignore", "*.log\nsummary.txt\n")
        box.configure(self.hooks())
        path = home / self.runtime.user_settings
        hooks = {self.runtime.before: [self.runtime.entry(f'"$HOME"/my-hooks/user.sh', 60)]}
        old = json.loads(path.read_text()) if path.exists() else {}
        box.write(path, json.dumps({**old, **json.loads(self.runtime.document(hooks))}, indent=2))
        self.git("config", "--global", "user.name", "You")
        self.git("config", "--global", "user.email", "you@example.com")
        self.commit("the project")

    def hooks(self):
        """Returns the project's hooks with their points."""
        runtime, hooks = self.runtime, self.runtime.hooks_here
        script = lambda name: f"{hooks}/{name}.sh"
        inline = lambda name, text: ESCAPES.format(name=name).rstrip() + "; " + text
        return [
            (runtime.before, script("guard")),
            (runtime.before, f"{hooks}/decision.py {runtime.name}"),
            (runtime.before, script("record")),
            (runtime.before, inline("summary", SUMMARY)),
            (runtime.before, inline("secrets", SECRETS)),
            (runtime.before, f"node {hooks}/rules.js"),
            (runtime.before, script("notes")),
            (runtime.after, script("after")),
            (runtime.after, script("format")),
            (runtime.after, script("check")),
            (runtime.prompt, f"{hooks}/context.py {runtime.name} {runtime.prompt}"),
            (runtime.stop, script("stop")),
        ]

    def script(self, path, text):
        self.box.write(path, text)
        path.chmod(0o755)

    def copy(self, source, path, uid=None):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        shutil.copy(source, path)
        uid = self.box.user.pw_uid if uid is None else uid
        for made in [path, *([path.parent, path.parent.parent] if uid else [])]:
            os.chown(made, uid, -1)

    def git(self, *words):
        code, out, err = self.box.start(["git", *words])
        self.expect({f"git {' '.join(words)}": (code, 0), "": ("", "")} if code == 0 else {f"git {err}": (code, 0)})
        return out

    def commit(self, message):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)

    def command(self, *words):
        """Runs a command of hookjail's that the user has to type. Returns its exit code and output."""
        self.commands += 1
        code, out, err = self.box.start([str(self.box.hookjail), *words])
        return code, out + err

    def turn(self, *denied, may_refuse=False):
        """Has the runtime do a harmless call, and one for each guard that is named. Returns what it did, and what the user saw."""
        self.turns += 1
        names = [f"{self.box.home}/ran-{kind}{self.turns}" for kind in ("ok", *(f"deny-{name}-" for name in denied))]
        seen = self.box.turn(*(f"touch {name}" for name in names), may_refuse=may_refuse)
        told = "\n".join(text for asked in self.box.model.asked for _, text in asked["messages"])
        self.expect({"the model was told the command that lifts a refusal": ("hookjail allow" in told or "hookjail learn" in told, False)})
        return [pathlib.Path(name).exists() for name in names], seen

    def unconfined(self):
        """Returns the hooks that ran unconfined since this was asked last."""
        path = self.box.home / "unconfined"
        names = path.read_text().split() if path.exists() else []
        path.unlink(missing_ok=True)
        return sorted(set(names))

    def change(self, path):
        """Has a hook leave a mark in its project as it runs. Returns its name."""
        mark = f"changed-{self.turns}.log"
        lines = path.read_text().splitlines()
        by_shell, by_python = f': >"$(dirname "$0")/../{mark}"', f'open(os.path.dirname(__file__) + "/../{mark}", "w")'
        lines.insert(lines.index("import os") + 1 if path.suffix == ".py" else 1, by_python if path.suffix == ".py" else by_shell)
        self.script(path, "\n".join(lines) + "\n")
        return mark

    def ran(self, mark):
        return (self.box.project / mark).exists()

    def works(self, step, commands):
        """Expects that all guards guard, that nothing runs unconfined, and how many commands that took."""
        guards = ["guard", "secrets", "rules", "user"]
        done, _ = self.turn(*guards)
        self.expect({
            f"{step}: calls that ran": (done, [True, *[False] * len(guards)]),
            f"{step}: commands until the hooks work": (self.commands, commands),
            f"{step}: ran unconfined": (self.unconfined(), []),
        })
        print(f"{self.runtime.name}, day: {step}: works after {self.commands} commands")
        self.commands = 0

    def refuses(self, step, mark=None):
        """Expects that a call is refused, and the user shown the command; that nothing unapproved or unconfined ran."""
        done, seen = self.turn(may_refuse=True)
        _, status, _ = self.box.start([str(self.box.hookjail), "status"])
        self.expect({
            f"{step}: the call ran unapproved": (done, [False]),
            f"{step}: the changed hook ran": (bool(mark and self.ran(mark)), False),
            f"{step}: the user was shown the command": ("hookjail allow" in seen, self.runtime.shows_user),
            # The user of a runtime that shows nothing finds it there.
            f"{step}: `status` names the command": ("hookjail allow" in status, True),
            f"{step}: ran unconfined": (self.unconfined(), []),
        })

    def settings(self):
        """Returns the files of settings, as they are."""
        files = [self.first / self.runtime.settings, self.box.home / self.runtime.user_settings]
        return {str(path): path.read_bytes() for path in files}

    def live(self):
        box, home = self.box, self.box.home
        self.make()
        done, _ = self.turn("guard", "secrets", "rules", "user")
        self.expect({"bare: calls that ran": (done, [True, False, False, False, False]), "bare: ran unconfined": (self.unconfined(), sorted(KINDS))})
        (box.project / "notes.md").write_text("a note   \n")
        # Once the runtime has read them: some write what they read in a newer form.
        before = self.settings()

        # Adoption: the logger that would break is named and left.
        code, said = self.command("install", self.runtime.name, "--yes")
        self.expect({"install ends with 1, as one hook is left": (code, 1), "install names it": ("notes/calls.jsonl" in said, True)})
        done, _ = self.turn("guard", "secrets", "rules", "user")
        self.expect({"adopted: calls that ran": (done, [True, False, False, False, False]), "adopted: ran unconfined": (self.unconfined(), ["notes"])})
        notes = home / "notes/calls.jsonl"
        size = notes.stat().st_size
        code, said = self.command("learn", "--yes", "--as", self.runtime.name, "--", str(box.hooks / "notes.sh"))
        self.expect({f"learn: {said}": (code, 0)})
        self.works("adopted, and a logger learnt", 2)
        self.expect({
            "the logger logs": (notes.stat().st_size > size, True),
            "the formatter formats": ((box.project / "notes.md").read_text(), "a note\n"),
            "logged": (all((box.project / f"{name}.log").stat().st_size for name in ("record", "after", "stop")), True),
        })
        self.commit("confined")

        mark = self.change(box.hooks / "guard.sh")
        self.refuses("a hook is edited", mark)
        self.command("allow", "--yes")
        self.works("a hook is edited", 1)
        self.expect({"the edited hook runs": (self.ran(mark), True)})
        self.commit("edited")

        for place in ("worktree", "clone", "moved"):
            path = home / place
            if place == "worktree":
                self.git("worktree", "add", "--quiet", "-b", "feature", str(path))
                box.project = path
                self.works("a worktree", 0)
            else:
                box.project = self.first
                if place == "clone":
                    self.git("clone", "--quiet", str(self.first), str(path))
                else:
                    (home / "clone").rename(path)
                box.project = path
                self.refuses(f"a {place} project")
                self.command("allow", "--yes")
                self.works(f"a {place} project", 1)

        # A colleague's change comes by a pull.
        theirs = self.box.project
        box.project = self.first
        mark = self.change(box.project / "hooks/decision.py")
        self.commit("by a colleague")
        box.project = theirs
        self.git("pull", "--quiet")
        self.refuses("a colleague's change is pulled", mark)
        self.command("allow", "--yes")
        self.works("a colleague's change is pulled", 1)
        box.project = self.first
        self.command("allow", "--yes")
        self.commands = 0

        # An upgrade of the machine's interpreter, and of one that the user could change.
        for path, uid, commands in [(SYSTEM_SHELL, 0, 0), (home / ".local/bin/shell", None, 1)]:
            with open("/bin/dash", "rb") as shell:
                text = shell.read() + b"\nnewer"
            path.with_suffix(".new").write_bytes(text)
            self.copy(path.with_suffix(".new"), path, uid)
            path.chmod(0o755)
            path.with_suffix(".new").unlink()
            if commands:
                self.command("allow", "--yes")
            self.works(f"{path.name} is upgraded", commands)

        # A version whose profile allows more.
        _, profile, _ = box.start([str(box.hookjail), "profile", "show", "develop"])
        wider = profile.replace('maximum = "30m"', 'maximum = "3h"')
        box.write(home / ".config/hookjail/profiles/develop.toml", wider)
        box.end_all()
        self.refuses("`develop` allows more")
        self.command("allow", "--yes", "--all")
        self.works("`develop` allows more", 1)
        remove(home / ".config/hookjail/profiles/develop.toml")
        box.end_all()
        self.works("`develop` allows less", 0)

        # The user's hooks, where no project is.
        for place in (home, pathlib.Path("/tmp"), pathlib.Path("/srv")):
            box.project = place
            done, _ = self.turn("user")
            self.expect({f"in {place}": (done, [True, False]), f"in {place}: ran unconfined": (self.unconfined(), [])})
        box.project = self.first

        # A hook begins to write where it may not.
        with (box.hooks / "after.sh").open("a") as script:
            script.write('date >>"$HOME/notes/after.txt" || true\n')
        self.command("allow", "--yes")
        _, seen = self.turn()
        self.expect({"the user is shown how a denied hook gets what it needs": ("hookjail learn --last" in seen, self.runtime.shows_user)})
        code, said = self.command("learn", "--last", "--yes")
        self.expect({f"learn --last: {said}": (code, 0)})
        self.works("a hook writes elsewhere, and that is learnt", 2)
        self.expect({"it writes there": ((home / "notes/after.txt").exists(), True)})
        self.commit("learnt")

        code, said = self.command("uninstall", "--all", "--yes")
        self.expect({f"uninstall: {said}": (code, 0), "settings are as they were": (self.settings(), before)})
        done, _ = self.turn("guard", "secrets", "rules", "user")
        self.expect({"bare again": (done, [True, False, False, False, False]), "bare again: ran unconfined": (self.unconfined(), sorted(KINDS))})
        if self.runtime.shares:
            self.share()

    def share(self):
        """Has a team's lines find each one's hookjail: without one its hooks deny."""
        self.command("install", self.runtime.name, "--shared", "--yes")
        done, _ = self.turn("guard")
        self.expect({"shared": (done, [True, False]), "shared: ran unconfined": (self.unconfined(), ["notes"])})
        program = self.box.home / ".local/bin/hookjail-run"
        away = program.with_name("away")
        program.rename(away)
        done, _ = self.turn(may_refuse=True)
        self.expect({"without hookjail the call ran": (done, [False])})
        away.rename(program)


def live(box, expect):
    """Lives through it, and takes back what it put outside of the home."""
    hookjail, project = box.hookjail, box.project
    try:
        Day(box, expect).live()
    finally:
        box.hookjail, box.project = hookjail, project
        SYSTEM_SHELL.unlink(missing_ok=True)
