#!/usr/bin/env python3
"""Real runtimes with hooks of theirs, bare and run by hookjail, against a model that is played.

Needs root: everything runs in a network namespace with nothing but the loopback, each runtime as an ordinary user with nothing in
its environment. The table at the end has a line for each runtime. Above the table are the expected and the actual results of
failures, and the reason of each `-`, a case that does not apply to a runtime.
"""

import argparse
import contextlib
import json
import pathlib
import re
import shlex
import sys
import time

from model import Model

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "testenv"))

import day
from home import Home, loopback, remove

HERE = pathlib.Path(__file__).resolve().parent
# How long one turn may take, seconds.
TURN = 120
ALLOWED, BY_CODE, BY_JSON = "touch ran-allowed", "touch ran-deny-sh", "touch ran-deny-json"
KEY = "the-key-of-the-user"
CONTEXT = "tabs, not spaces"
PUSHED = "pushed by a hook"


class Runtime:
    """Common parts of most runtimes."""

    name = flag = package = binary = settings = ""
    # Where its programs are, below its own directory.
    programs = "node_modules/.bin"
    before, after, prompt, stop = "PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop"
    # In what unit a hook's time is written.
    seconds = 1
    # The user's settings, below the home, and the directory of hooks, as a line of the project's names it.
    user_settings, hooks_here = "", "./hooks"
    # Whether its output has the sentence for the user, and whether it names its lines the project.
    shows_user, shares = True, True
    # Whether the model reads the stderr of a hook that ends with 2.
    tells_stderr = True

    def environment(self, _address):
        return {}

    def command(self, prompt):
        raise NotImplementedError

    def prepare(self, box):
        """Writes the files that the runtime needs beside its hooks."""

    def entry(self, command, timeout):
        return {"hooks": [{"type": "command", "command": command, "timeout": timeout * self.seconds}]}

    def document(self, hooks):
        """Returns the text of its settings with these entries, which are sorted by their points."""
        return json.dumps({"hooks": hooks}, indent=2)

    def install(self, box, profile, options):
        """Has its hooks run confined."""
        where = ["--settings", str(box.project / self.settings), "--profile", profile]
        return box.hookjail_says("install", f"--{self.flag}", *where, "--yes", *options)

    def told(self, _prompt):
        """Returns the event that its hook gets on stdin."""
        return b""

    def usual(self, hooks):
        """Returns the hooks of the ordinary cases."""
        return [
            (self.before, f"{hooks}/guard.sh"),
            (self.before, f"{hooks}/guard.py {self.name}"),
            (self.before, f"{hooks}/log.sh before.log"),
            (self.after, f"{hooks}/log.sh after.log"),
            (self.prompt, f"{hooks}/context.py {self.name} {self.prompt}"),
            (self.stop, f"{hooks}/log.sh stop.log"),
        ]

    def expected(self):
        """Returns what a turn with these does."""
        return {
            "the harmless call ran": True,
            "the call denied by exit code ran": False,
            "the call denied by JSON ran": False,
            "the model was told why (exit code)": self.tells_stderr,
            "the model was told why (JSON)": True,
            "the model got the context": True,
            "asked": 4,
            "logged stop": 1,
        }

    def cases(self):
        """Returns the cases by name, in this order; a text gives the reason why a case is left out."""
        return {
            "baseline": case_baseline,
            "jailed": case_jailed,
            "attack": case_attack,
            "no daemon": case_no_daemon,
            "late": case_late,
            "stop": case_stop,
            "changed": case_changed,
            "day": case_day,
            "own": "nothing of its own is tried",
        }


class ClaudeCode(Runtime):
    name = flag = "claude-code"
    binary = "claude"
    settings = ".claude/settings.json"
    user_settings = ".claude/settings.json"
    hooks_here = '"$CLAUDE_PROJECT_DIR"/hooks'

    def environment(self, address):
        return {
            "ANTHROPIC_BASE_URL": address,
            "ANTHROPIC_API_KEY": "fake",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
        }

    def command(self, prompt):
        return ["-p", "--permission-mode", "bypassPermissions", "--output-format", "stream-json", "--verbose", prompt]

    def cases(self):
        return {**super().cases(), "own": case_local}


class Codex(Runtime):
    name = flag = "codex"
    binary = "codex"
    settings = ".codex/hooks.json"
    # Its `exec` prints no message of a hook's; its screen does.
    shows_user, shares = False, False
    user_settings = ".codex/hooks.json"

    def environment(self, _address):
        return {"PLAYED_KEY": "fake"}

    def prepare(self, box):
        box.write(box.home / ".codex/config.toml", f"""
model = "gpt-5"
model_provider = "played"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[model_providers.played]
name = "played"
base_url = "{box.model.address}/v1"
env_key = "PLAYED_KEY"
wire_api = "responses"
[analytics]
enabled = false
""" + "".join(f'[projects."{place}"]\ntrust_level = "trusted"\n' for place in box.trusted()))

    def command(self, prompt):
        return ["exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust", prompt]


class Copilot(Runtime):
    name = flag = "copilot"
    binary = "copilot"
    settings = ".github/hooks/hooks.json"
    user_settings = ".copilot/hooks/hooks.json"
    before, after, prompt, stop = "preToolUse", "postToolUse", "sessionStart", "agentStop"
    # Copilot shows its user no text of a hook that stops a call.
    shows_user = False
    tells_stderr = False

    def environment(self, address):
        return {
            "COPILOT_AUTO_UPDATE": "false",
            "COPILOT_MODEL": "gpt-5",
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_API_KEY": "fake",
            "COPILOT_PROVIDER_BASE_URL": f"{address}/v1",
        }

    def command(self, prompt):
        return [
            "--allow-all-tools", "--allow-all-paths", "--trust-folder", "--no-auto-update", "--disable-client-telemetry",
            "--output-format", "json", "-p", prompt,
        ]

    def entry(self, command, timeout):
        return {"type": "command", "bash": command, "timeoutSec": timeout}

    def document(self, hooks):
        return json.dumps({"version": 1, "hooks": hooks}, indent=2)


class GeminiCli(Runtime):
    name = flag = "gemini-cli"
    binary = "gemini"
    settings = ".gemini/settings.json"
    user_settings = ".gemini/settings.json"
    hooks_here = '"$GEMINI_PROJECT_DIR"/hooks'
    before, after, prompt, stop = "BeforeTool", "AfterTool", "BeforeAgent", "AfterAgent"
    seconds = 1000

    def environment(self, address):
        return {"GEMINI_API_KEY": "fake", "GOOGLE_GEMINI_BASE_URL": address}

    def prepare(self, box):
        common = {
            "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "telemetry": {"enabled": False},
        }
        box.write(box.home / ".gemini/settings.json", json.dumps(common))
        box.write(box.home / ".gemini/trustedFolders.json", json.dumps({str(place): "TRUST_FOLDER" for place in box.trusted()}))

    def command(self, prompt):
        return ["-m", "gemini-2.5-pro", "--approval-mode", "yolo", "-o", "stream-json", "-p", prompt]


class QwenCode(Runtime):
    name = flag = "qwen-code"
    binary = "qwen"
    settings = ".qwen/settings.json"
    user_settings = ".qwen/settings.json"
    hooks_here = '"$QWEN_PROJECT_DIR"/hooks'
    # Qwen Code shows a hook's message at `Stop` alone, on its screen and in `-o text`.
    shows_user = False

    def environment(self, address):
        return {"OPENAI_API_KEY": "fake", "OPENAI_BASE_URL": f"{address}/v1", "OPENAI_MODEL": "qwen"}

    def prepare(self, box):
        common = {
            "general": {"enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
            "security": {"auth": {"selectedType": "openai"}},
            "telemetry": {"enabled": False},
        }
        box.write(box.home / ".qwen/settings.json", json.dumps(common))
        box.write(box.home / ".qwen/trustedFolders.json", json.dumps({str(place): "TRUST_FOLDER" for place in box.trusted()}))

    def command(self, prompt):
        return ["--approval-mode", "yolo", "-o", "stream-json", "-p", prompt]


class Loom(Runtime):
    name = flag = "loom"
    programs = "bin"
    binary = "loom.mjs"
    settings = "agent.json"
    before, after, prompt, stop = "onToolCall", "onToolEnd", "onStart", "onComplete"

    def environment(self, address):
        return {"ANTHROPIC_API_KEY": "fake", "ANTHROPIC_BASE_URL": address, "OWNWARE_ALLOW_COMMAND_HOOKS": "1"}

    def command(self, prompt):
        return [prompt]

    def entry(self, command, _timeout):
        return {"action": "command", "command": command}

    def document(self, hooks):
        return json.dumps({"name": "played", "model": "anthropic:claude-sonnet-4-5", "hooks": hooks}, indent=2)

    def cases(self):
        return {
            **super().cases(),
            "late": case_late_at_five_seconds,
            "changed": "a changed guard is tried with runtimes whose settings `hookjail allow` reads",
            "day": "the day is tried with runtimes whose settings `hookjail allow` reads",
            "own": case_crash,
        }


class Reyn(Runtime):
    name = flag = "reyn"
    programs = "bin"
    binary = "reyn"
    settings = "reyn.yaml"
    before, after, stop = "turn_start", None, "turn_end"

    def __init__(self):
        # Of an entry, and of all: the rights of hooks in reyn's own sandbox. That sandbox is off where hookjail's is tested.
        self.keys, self.sandbox = {}, {"backend": "noop"}

    def environment(self, _address):
        return {"OPENAI_API_KEY": "fake", "REYN_ACCEPT_HOOKS": "1"}

    def prepare(self, box):
        self.keys, self.sandbox, self.address = {}, {"backend": "noop"}, box.model.address

    def command(self, _prompt):
        return ["run-once"]

    def told(self, prompt):
        return prompt.encode()

    def entry(self, command, _timeout):
        scheme = "exec_capture" if "/push.py" in command else "exec"
        return {scheme: shlex.split(command), **self.keys}

    def document(self, hooks):
        models = {name: {"model": "openai/gpt-4o"} for name in ("light", "standard", "strong")}
        lines = [
            f"llm: {json.dumps({'model': 'standard', 'api_base': f'{self.address}/v1', 'models': models})}",
            f"permissions: {json.dumps({'exec': 'allow'})}",
            f"sandbox: {json.dumps(self.sandbox)}",
            "hooks:",
        ]
        for point, entries in hooks.items():
            for entry in entries:
                lines.append(f'  - "on": {point}')
                lines.extend(f"    {key}: {json.dumps(value)}" for key, value in entry.items())
        return "\n".join(lines) + "\n"

    def install(self, box, profile, _options):
        # `hookjail install` changes no YAML, and prints the lines for it.
        for _, command, _ in box.configured:
            box.hookjail_says("allow", "--profile", profile, "--", *shlex.split(command))
        confined = f"{box.hookjail} run --as reyn --profile {profile} --start --"
        box.write_settings([(point, f"{confined} {command}", timeout) for point, command, timeout in box.configured])
        return ""

    def usual(self, hooks):
        return [
            (self.before, f"{hooks}/log.sh before.log"),
            (self.stop, f"{hooks}/push.py '{PUSHED}'"),
            (self.stop, f"{hooks}/log.sh stop.log"),
        ]

    def expected(self):
        # Once for the turn of the prompt, once for that of the push.
        return {
            "the harmless call ran": True,
            "the model got what was pushed": True,
            "asked": 5,
            "logged before": 2,
            "logged stop": 2,
        }

    def cases(self):
        return {
            **super().cases(),
            "no daemon": case_no_daemon_no_push,
            "late": "no point can be stopped: a hook that is late lets nothing through that it would have stopped",
            "changed": "a changed guard is tried with runtimes whose settings `hookjail allow` reads",
            "day": "the day is tried with runtimes whose settings `hookjail allow` reads",
            "own": case_inside_reyn,
        }


RUNTIMES = [ClaudeCode(), Codex(), Copilot(), GeminiCli(), QwenCode(), Loom(), Reyn()]


class Box(Home):
    """The home, anew for each turn at the same place, with a runtime and the model that it asks."""

    def __init__(self, options, model):
        super().__init__(options.work, options.user, options.hookjail)
        self.tools, self.logs, self.model = options.tools, options.work / "logs", model
        self.hooks = self.project / "hooks"
        self.runtime = None
        self.configured = []
        self.turns = 0

    def fresh(self, runtime):
        self.clear()
        self.runtime = runtime
        self.make_places()
        self.write(self.home / ".ssh/id_ed25519", KEY + "\n")
        self.write(self.home / ".bashrc", "# the user's\n")
        for hook in (HERE / "hooks").iterdir():
            self.write(self.hooks / hook.name, hook.read_text())
            (self.hooks / hook.name).chmod(0o755)
        runtime.prepare(self)
        self.start(["git", "init", "--quiet", "."])

    def trusted(self):
        """The directories that the user trusts a runtime with."""
        return [self.project, *(self.home / name for name in ("worktree", "clone", "moved", "shared", "")), pathlib.Path("/tmp"), pathlib.Path("/srv")]

    def clear(self):
        self.end_all()
        if self.home.exists():
            remove(self.home)

    def start(self, command, told=b""):
        own = [self.tools / "node/node_modules/node/bin", self.tools / self.runtime.name / self.runtime.programs]
        return self.run(command, [*own, "/usr/bin", "/bin"], self.runtime.environment(self.model.address), told, TURN)

    def configure(self, hooks):
        """Writes the runtime's settings: pairs of a point and a command, or triples with the seconds that it has."""
        self.configured = [(*hook, 60)[:3] for hook in hooks]
        self.write_settings(self.configured)

    def write_settings(self, hooks):
        found = {}
        for point, command, timeout in hooks:
            found.setdefault(point, []).append(self.runtime.entry(command, timeout))
        self.write(self.project / self.runtime.settings, self.runtime.document(found))

    def turn(self, *commands, may_refuse=False):
        """Has the runtime ask the model, which asks for the commands. Returns what it prints."""
        self.model.forget()
        prompt = "Please run these: " + " ".join(f"[[{command}]]" for command in commands)
        code, out, err = self.start([self.runtime.binary, *self.runtime.command(prompt)], self.runtime.told(prompt))
        self.turns += 1
        self.write(self.logs / f"{self.runtime.name}-{self.turns}.log", out + err)
        if not (self.asked() or may_refuse):
            raise Unusable(f"the model was never asked; exit code {code}: {(out + err)[-600:]}")
        return out + err

    def install(self, profile="develop", *options):
        """Changes the settings as a user would, by `hookjail install`. Returns its output."""
        return self.runtime.install(self, profile, options)

    def hookjail_says(self, *words):
        code, out, err = self.start([str(self.hookjail), *words])
        if code != 0:
            raise AssertionError(f"hookjail {' '.join(words)} ended with {code}: {out}{err}")
        return out

    def ran(self, command):
        return (self.project / command.removeprefix("touch ")).exists()

    def confined_runs(self):
        """How many runs the journal has that were confirmed to be confined."""
        journal = self.home / ".local/state/hookjail/audit/journal.jsonl"
        return journal.read_text().count('"confirmed":true') if journal.exists() else 0

    def asked(self):
        """How often the model was asked to go on with the turn."""
        return sum(1 for asked in self.model.asked if asked["is_turn"])

    def seen(self):
        """The texts that the model got, without the parts that differ from turn to turn."""
        return [[(role, normal(text)) for role, text in asked["messages"]] for asked in self.model.asked if asked["is_turn"]]

    def sleepers(self, seconds):
        """The user's processes that sleep for this duration, confined or not."""
        words = [b"sleep", str(seconds).encode(), b""]
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                is_users = process.stat().st_uid == self.user.pw_uid
                if is_users and (process / "cmdline").read_bytes().split(b"\0") == words:
                    yield int(process.name)


class Unusable(Exception):
    """A runtime that does not do its part here."""


def normal(text):
    """Takes out what differs from turn to turn, and the words by which a hook is run confined."""
    text = re.sub(r"[^\s\[]*/hookjail(?:-run| run) --as \S+ .*? -- ", "", text)
    text = re.sub(r"PGID: \d+", "PGID: N", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "ID", text)
    text = re.sub(r"\b\d+(\.\d+)?( ?ms| ?s\b| ?seconds)", "TIME", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z?", "TIME", text)
    return re.sub(r"\b[0-9a-f]{6,64}\b", "HEX", text)


def expect(facts):
    """Checks facts, each a pair of the actual and the required value."""
    wrong = [f"{name}: {is_!r}, not {must!r}" for name, (is_, must) in facts.items() if is_ != must]
    if wrong:
        raise AssertionError("; ".join(wrong))


def outcome(box):
    """Returns what a turn with the usual hooks did."""
    told = "\n".join(text for asked in box.model.asked for _, text in asked["messages"])
    logs = {name: box.project / f"{name}.log" for name in ("before", "after", "stop")}
    return {
        "the harmless call ran": box.ran(ALLOWED),
        "the call denied by exit code ran": box.ran(BY_CODE),
        "the call denied by JSON ran": box.ran(BY_JSON),
        "the model was told why (exit code)": "guard.sh: not that one" in told,
        "the model was told why (JSON)": "guard.py: not that one" in told,
        "the model got the context": CONTEXT in told,
        "the model got what was pushed": PUSHED in told,
        "asked": box.asked(),
        **{f"logged {name}": path.read_text().count("\n---\n") if path.exists() else 0 for name, path in logs.items()},
    }


def case_baseline(box, memory):
    """Bare hooks do what they are there for: without that, no other case would show anything."""
    box.configure(box.runtime.usual(box.hooks))
    box.turn(ALLOWED, BY_CODE, BY_JSON)
    memory["usual"], memory["seen"] = outcome(box), box.seen()
    expect({name: (memory["usual"][name], value) for name, value in box.runtime.expected().items()})


def case_jailed(box, memory):
    """After `hookjail install` the hooks get the same events and have the same effects, and the model sees the same."""
    box.configure(box.runtime.usual(box.hooks))
    said = box.install()
    # Guards were rehearsed, and so was what logs beside them.
    for name in ("before", "after", "stop"):
        (box.project / f"{name}.log").unlink(missing_ok=True)
    box.turn(ALLOWED, BY_CODE, BY_JSON)
    now = outcome(box)
    expect({
        "hooks that install left as they were": (said.count("NOT changed"), 0),
        **{name: (now[name], value) for name, value in memory["usual"].items()},
        "runs in the journal": (box.confined_runs() > 0, True),
    })
    # As often was it asked before.
    for number, (bare, jailed) in enumerate(zip(memory["seen"], box.seen(), strict=True)):
        expect({f"messages of request {number}": (len(jailed), len(bare))})
        for one, other in zip(bare, jailed, strict=True):
            expect({f"a message of request {number}": (other, one)})


def case_local(box, memory):
    """The project's private settings confine its hooks, for any shared settings, and these stay byte for byte."""
    box.configure(box.runtime.usual(box.hooks))
    settings = box.project / box.runtime.settings
    shared = json.loads(settings.read_text())
    shared["env"] = {"CLAUDE_CODE_SHELL_PREFIX": ""}
    box.write(settings, json.dumps(shared))
    before = settings.read_bytes()
    box.hookjail_says("install", f"--{box.runtime.flag}", "--local", "--yes")
    for name in ("before", "after", "stop"):
        (box.project / f"{name}.log").unlink(missing_ok=True)
    box.turn(ALLOWED, BY_CODE, BY_JSON)
    now, began = outcome(box), box.confined_runs()
    box.hookjail_says("uninstall", "--all", "--yes")
    box.turn(ALLOWED)
    expect({
        **{name: (now[name], value) for name, value in memory["usual"].items()},
        "runs in the journal": (began > 0, True),
        "runs in the journal once it is put back": (box.confined_runs(), began),
        "the shared settings": (settings.read_bytes(), before),
        "the private settings are there": (settings.with_name("settings.local.json").exists(), False),
    })


def attacked(box, install):
    """Returns what an attack by a hook reached."""
    hook = f"{box.hooks}/attack.sh {box.home} {box.project} {box.model.port}"
    box.configure([(box.runtime.before, hook)])
    if install:
        box.install(install, "--no-rehearsal")
    box.turn(ALLOWED)
    stolen = box.project / "stolen"
    reached = {
        "read a key": stolen.exists() and KEY in stolen.read_text(),
        "sent it": KEY.encode() in b"".join(box.model.sent),
        "changed .bashrc": "taken" in (box.home / ".bashrc").read_text(),
        "changed .git/hooks": (box.project / ".git/hooks/post-commit").exists(),
        "left a process": bool(list(box.sleepers(3602))),
    }
    return sorted(name for name, value in reached.items() if value)


def case_attack(box, _memory):
    """An attack that works bare is contained; so are programs that git runs later, in a writable workspace."""
    everything = ["changed .bashrc", "changed .git/hooks", "left a process", "read a key", "sent it"]
    expect({"reached bare": (attacked(box, None), everything)})
    box.fresh(box.runtime)
    expect({"reached under workspace-ro": (attacked(box, "workspace-ro"), [])})
    box.fresh(box.runtime)
    expect({"reached under develop": (attacked(box, "develop"), [])})


def without_daemon(box):
    """Takes the daemon away, and what would start another."""
    path = box.project / box.runtime.settings
    text, start = path.read_text(), r'( |, ")--start("?)(?=[ ,])'
    if not re.search(start, text):
        raise AssertionError("the settings start no daemon")
    path.write_text(re.sub(start, "", text))
    box.end_all()
    if (box.home / "run/hookjail").exists():
        remove(box.home / "run/hookjail")


def case_no_daemon(box, _memory):
    """Without a daemon nothing is let through that a guard has to see, and the turn ends as soon as it would."""
    hooks = [(box.runtime.before, f"{box.hooks}/guard.sh"), (box.runtime.stop, f"{box.hooks}/log.sh stop.log")]
    box.configure(hooks)
    box.turn(ALLOWED)
    expect({"ran bare": (box.ran(ALLOWED), True)})
    asked = box.asked()
    box.fresh(box.runtime)
    box.configure(hooks)
    box.install()
    without_daemon(box)
    box.turn(ALLOWED)
    expect({"ran without a daemon": (box.ran(ALLOWED), False), "asked without a daemon": (box.asked(), asked)})


def case_late(box, _memory):
    """A guard that is late denies, before the runtime's own timer lets the call through, and nothing of it is left."""
    hooks = [(box.runtime.before, f"{box.hooks}/late.sh", 5)]
    box.configure(hooks)
    box.turn(ALLOWED)
    expect({"ran bare": (box.ran(ALLOWED), True)})
    box.fresh(box.runtime)
    box.configure(hooks)
    box.install("develop", "--no-rehearsal")
    box.turn(ALLOWED)
    expect({"ran jailed": (box.ran(ALLOWED), False), "left": (list(box.sleepers(3601)), [])})


def case_stop(box, _memory):
    """A logger that cannot log does not keep the agent from its stop."""
    log = box.home / "agent.log"
    hooks = [(box.runtime.stop, f"{box.hooks}/log.sh {log}")]
    box.configure(hooks)
    box.turn(ALLOWED)
    expect({"logged bare": (log.exists(), True)})
    asked = box.asked()
    for profile, is_alive in [("develop", True), ("workspace-ro", True), ("develop", False)]:
        box.fresh(box.runtime)
        box.configure(hooks)
        box.install(profile)
        if not is_alive:
            without_daemon(box)
        box.turn(ALLOWED)
        where = f"under {profile}" if is_alive else "without a daemon"
        expect({f"logged {where}": (log.exists(), False), f"asked {where}": (box.asked(), asked)})


def case_late_at_five_seconds(box, _memory):
    """Loom's own timer denies after five seconds and kills the shell alone; hookjail leaves nothing of the hook."""
    hooks = [(box.runtime.before, f"{box.hooks}/late.sh; true")]
    box.configure(hooks)
    box.turn(ALLOWED)
    expect({"ran bare": (box.ran(ALLOWED), False), "left bare": (bool(list(box.sleepers(3601))), True)})
    box.fresh(box.runtime)
    box.configure(hooks)
    box.install("develop", "--no-rehearsal")
    box.turn(ALLOWED)
    expect({"ran jailed": (box.ran(ALLOWED), False), "left": (list(box.sleepers(3601)), [])})


def case_changed(box, _memory):
    """A guard that changed since its consent denies. The fix is one command, which the model does not get."""
    box.configure([(box.runtime.before, f"{box.hooks}/guard.sh")])
    box.install("develop", "--no-rehearsal")
    box.turn(ALLOWED)
    expect({"ran as it was allowed": (box.ran(ALLOWED), True)})
    (box.project / ALLOWED.removeprefix("touch ")).unlink()
    with (box.hooks / "guard.sh").open("a") as guard:
        guard.write("# changed\n")
    box.turn(ALLOWED)
    told = "\n".join(text for asked in box.model.asked for _, text in asked["messages"])
    expect({"ran changed": (box.ran(ALLOWED), False), "the model was told the command": ("hookjail allow" in told, False)})
    box.hookjail_says("allow", "--yes")
    box.turn(ALLOWED)
    expect({"ran once it was allowed again": (box.ran(ALLOWED), True)})


def case_day(box, _memory):
    """A project with twelve hooks is adopted and changes; nothing of it runs unconfined or unapproved, and one command is enough."""
    day.live(box, expect)


def case_crash(box, _memory):
    """A guard that breaks after an object that lets the call pass: the call passes bare, and is denied under hookjail."""
    hooks = [(box.runtime.before, f"{box.hooks}/crash.sh")]
    box.configure(hooks)
    box.turn(ALLOWED)
    expect({"ran bare": (box.ran(ALLOWED), True)})
    box.fresh(box.runtime)
    box.configure(hooks)
    box.install("develop", "--no-rehearsal")
    box.turn(ALLOWED)
    expect({"ran jailed": (box.ran(ALLOWED), False)})


def case_no_daemon_no_push(box, _memory):
    """Without a daemon nothing is pushed, and the turn ends as ever."""
    hooks = [(box.runtime.stop, f"{box.hooks}/push.py '{PUSHED}'")]
    box.configure(hooks)
    box.turn(ALLOWED)
    expect({"pushed bare": (outcome(box)["the model got what was pushed"], True)})
    box.fresh(box.runtime)
    box.configure(hooks)
    box.install()
    without_daemon(box)
    box.turn(ALLOWED)
    now = outcome(box)
    expect({
        "pushed without a daemon": (now["the model got what was pushed"], False),
        "the call ran": (now["the harmless call ran"], True),
        "asked": (now["asked"], 2),
    })


def case_inside_reyn(box, _memory):
    """In a sandbox of reyn's own a hook is run confined where its entry lets it reach the daemon, and nowhere else."""
    runtime = box.runtime
    hooks = [
        (runtime.before, f"{box.hooks}/log.sh before.log"),
        (runtime.stop, f"{box.hooks}/push.py '{PUSHED}'"),
    ]
    inside = {"backend": "landlock", "on_unsupported": "error"}
    runtime.sandbox = inside
    box.configure(hooks)
    box.turn(ALLOWED)
    # The sandbox is active: the first hook cannot write, and the second is not hindered.
    now = outcome(box)
    expect({"logged bare": (now["logged before"], 0), "pushed bare": (now["the model got what was pushed"], True)})
    network = {"network": True}
    for keys, has_daemon, works in [(network, True, True), (network, False, False), ({}, True, False)]:
        box.fresh(runtime)
        runtime.sandbox, runtime.keys = inside, keys
        box.configure(hooks)
        box.install()
        if has_daemon:
            # This command has no consent: its refusal shows that a daemon listens.
            _, _, err = box.start([str(box.hookjail), "run", "--as", "reyn", "--start", "--", "/bin/true"])
            expect({"a daemon answers": ("CONSENT_REQUIRED" in err, True)})
        began = box.confined_runs()
        box.turn(ALLOWED)
        now = outcome(box)
        where = f"with {keys}{'' if has_daemon else ' and no daemon'}"
        expect({
            f"pushed {where}": (now["the model got what was pushed"], works),
            # The daemon starts it, so that its profile counts and not reyn's sandbox.
            f"logged {where}": (now["logged before"], 2 if works else 0),
            f"run confined {where}": (box.confined_runs() > began, works),
        })


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hookjail", type=pathlib.Path, required=True)
    parser.add_argument("--tools", type=pathlib.Path, required=True, help="where each runtime is installed, by name")
    parser.add_argument("--user", required=True, help="who runs them")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="a directory for the user's home")
    parser.add_argument("--runtime", action="append", help="this one alone")
    parser.add_argument("--case", action="append", help="this one alone")
    parser.add_argument("--absent", action="append", default=[], help="NAME=WHY: why a runtime is not installed")
    parser.add_argument("--keep", action="store_true", help="leave the last home as it is")
    options = parser.parse_args()
    options.absent = dict(why.split("=", 1) for why in options.absent)
    loopback()
    model = Model()
    box = Box(options, model)
    table, skipped = {}, []
    for runtime in RUNTIMES:
        if options.runtime and runtime.name not in options.runtime:
            continue
        table[runtime.name] = cells = {}
        if not (options.tools / runtime.name / runtime.programs / runtime.binary).exists():
            skipped.append(options.absent.get(runtime.name, f"{runtime.name} is not installed"))
            continue
        memory = {}
        for name, case in runtime.cases().items():
            if isinstance(case, str):
                cells[name] = "-"
                print(f"{runtime.name}, {name}: does not apply: {case}")
                continue
            if options.case and name not in [*options.case, "baseline"]:
                continue
            began = time.monotonic()
            try:
                box.fresh(runtime)
                case(box, memory)
                cells[name] = "ok"
            except Unusable as error:
                if name == "baseline":
                    skipped.append(f"{runtime.name} does not work here: {error}")
                    break
                cells[name] = "FAILED"
                print(f"{runtime.name}, {name}: {error}")
            except AssertionError as error:
                cells[name] = "FAILED"
                print(f"{runtime.name}, {name}: {error}")
            print(f"{runtime.name}, {name}: {cells[name]} ({time.monotonic() - began:.1f} s)", flush=True)
    if not options.keep:
        box.clear()
    names = list(Runtime().cases())
    print(f"{'':14}" + "".join(f"{name:>12}" for name in names))
    for runtime, cells in table.items():
        print(f"{runtime:14}" + "".join(f"{cells.get(name, 'SKIPPED'):>12}" for name in names))
    every = [cell for cells in table.values() for cell in cells.values()]
    missing = sum(name not in cells for cells in table.values() for name in names)
    print(f"test result: {every.count('ok')} passed; {every.count('FAILED')} failed; {missing} ignored;")
    # One line, because the last table shows one.
    if skipped:
        print(f"PART SKIPPED: {'; '.join(skipped)}")
    if not {"ok", "FAILED"} & set(every):
        print("SKIP: no runtime could be started")
        sys.exit(77)
    sys.exit("FAILED" in every)


if __name__ == "__main__":
    main()
