"""Runtimes that are run whole, against a model that is played: many ends in one process, each read from the runtime's doings."""

import contextlib
import dataclasses
import json
import queue
import re
import subprocess
import threading
import time

from model import FINAL, Model, reply

# Seconds that a runtime has for one batch.
BATCH = 60
# Seconds that a runtime has to act on a hook's end.
SETTLED = 0.3


class Missing(Exception):
    """A runtime that is not there, and why."""


@dataclasses.dataclass
class Reading:
    """The meaning of an end: `stop`, `ask`, `allow` or `none`, and more. The runtime shows nothing of members that are `None`."""

    kind: str
    context: bool | None = False
    rewrite: bool | None = None
    reason: str | None = ""

    def shown(self):
        return json.dumps({name: value for name, value in dataclasses.asdict(self).items() if value}, ensure_ascii=False)


# Plain answers.
BLOCK = '{"decision": "block", "reason": "r"}'
PERMISSION = '{"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "%s"}}}'
# Stands before the number of an end in events for a hook of Claude Code.
MARK = "slot-number-"

# Prints and ends as the files of a slot have it. Stdin has to be read: a runtime may fail at a hook that leaves some.
HOOK = """#!/bin/sh
read -r event || :
{choose}
cat "$slot.out"
cat "$slot.err" >&2
read -r code <"$slot.code"
[ -z "$2" ] || rm -f "$slot.code"
[ "$code" = signal ] && kill -KILL $$
exit "$code"
"""


class Planned(Model):
    """Makes the calls of its plan, all in one message, and then ends the turn."""

    def __init__(self):
        super().__init__()
        self.plan, self.final = {}, FINAL

    def answer(self, handler, dialect):
        tool = "Bash" if "Bash" in dialect.tools() else None
        with self.lock:
            self.asked.append({"is_turn": tool is not None, "messages": dialect.messages()})
            plan = self.plan if tool else {}
            if plan:
                self.plan = {}
        kind, content = dialect.calls(tool, plan) if plan else dialect.text(self.final)
        return reply(handler, 200, kind, content)


class Whole:
    """A process that speaks JSON lines, as an ordinary user, and slots of which its hooks read how they end."""

    choose = 'slot=$1'

    def __init__(self):
        self.process = None
        self.until = float("inf")

    def set_up(self, options, home, model):
        self.options, self.home, self.model = options, home, model
        self.slots = home.home / "slots"
        home.write(self.slots / ".keep", "")
        home.write(home.home / "hook.sh", HOOK.format(choose=self.choose.format(slots=self.slots)))
        (home.home / "hook.sh").chmod(0o755)

    def fill(self, slot, end=None):
        """Has the hooks of a slot end so, or with nothing at all."""
        code = "0" if end is None else "signal" if end.exit_code is None else str(end.exit_code)
        for name, data in [("out", end.stdout if end else b""), ("err", end.stderr if end else b""), ("code", code.encode() + b"\n")]:
            path = self.slots / f"{slot}.{name}"
            path.write_bytes(data)
            path.chmod(0o644)

    def start(self, command, more, directory):
        self.stop()
        programs = self.options.tools / "node/node_modules/node/bin"
        self.lines = queue.Queue()
        self.process = subprocess.Popen(
            [str(word) for word in command],
            cwd=directory,
            env={
                "HOME": str(self.home.home),
                "LANG": "C.UTF-8",
                "PATH": f"{programs}:/usr/bin:/bin",
                "SHELL": "/bin/sh",
                "TMPDIR": str(self.home.home / "tmp"),
                **more,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            user=self.home.user.pw_uid,
            group=self.home.user.pw_gid,
            extra_groups=[],
        )
        threading.Thread(target=self.collect, args=(self.process, self.lines), daemon=True).start()

    @staticmethod
    def collect(process, lines):
        for line in process.stdout:
            with contextlib.suppress(ValueError):
                lines.put(json.loads(line))
        lines.put(None)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def next(self, end):
        """Returns the next line, or nothing if there is none by then."""
        try:
            return self.lines.get(timeout=max(0.01, end - time.monotonic()))
        except queue.Empty:
            return None

    def batches(self, ends):
        """Yields each point with some of its ends, as long as there is time."""
        points = {}
        for end in ends:
            points.setdefault(end.point, []).append(end)
        for point, some in points.items():
            for start in range(0, len(some), self.width):
                if time.monotonic() > self.until:
                    return
                yield point, some[start : start + self.width]

    def absent_points(self):
        return self.unread_points


class Codex(Whole):
    """The server reports each hook's run by itself, so that very many run at once."""

    name = contract = "codex"
    points = [
        "SessionStart", "UserPromptSubmit", "UserPromptSubmit", "PreToolUse", "PreToolUse", "PreToolUse", "PermissionRequest",
        "PermissionRequest", "PostToolUse", "PostToolUse", "Stop", "PreCompact", "PostCompact", "Interrupt",
    ]
    unread_points = ["SubagentStart", "SubagentStop", "SessionEnd", "PreModelRequest", "PostModelRequest", "StopFailure"]
    anchors = [
        *((point, 0, BLOCK, "stop") for point in ("UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop")),
        *((point, 0, '{"continue": false}', "stop") for point in ("SessionStart", "PreCompact", "PostCompact")),
        ("PermissionRequest", 0, PERMISSION % "deny", "stop"),
        ("PermissionRequest", 0, PERMISSION % "allow", "allow"),
        ("PermissionRequest", 0, "", "none"),
    ]
    width = 40

    def prepare(self, options, home):
        found = sorted((options.tools / self.name).glob("node_modules/@openai/codex-*/vendor/*/bin/codex"))
        if not found:
            raise Missing("its program is not installed")
        self.set_up(options, home, Model())
        self.places = {point: home.home / "projects" / point for point in dict.fromkeys(self.points)}
        for point, place in self.places.items():
            commands = [f"exec {home.home}/hook.sh {self.slots}/{slot}" for slot in range(self.width)]
            hooks = [{"type": "command", "command": command, "timeout": BATCH} for command in commands]
            home.write(place / ".codex/hooks.json", json.dumps({"hooks": {point: [{"hooks": hooks}]}}))
        home.write(home.home / ".codex/config.toml", f"""
model = "gpt-5"
model_provider = "played"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[model_providers.played]
name = "played"
base_url = "{self.model.address}/v1"
env_key = "PLAYED_KEY"
wire_api = "responses"
[analytics]
enabled = false
""" + "".join(f'[projects."{place}"]\ntrust_level = "trusted"\n' for place in self.places.values()))
        self.asked = 0
        self.start([found[-1], "app-server"], {"PLAYED_KEY": "fake"}, home.project)
        self.ask("initialize", {"clientInfo": {"name": "differential", "version": "1"}})
        self.send({"method": "initialized"})
        listed = self.ask("hooks/list", {"cwds": [str(place) for place in self.places.values()]})["data"]
        trust = {hook["key"]: {"trusted_hash": hook["currentHash"]} for place in listed for hook in place["hooks"]}
        if len(trust) != len(self.places) * self.width:
            raise AssertionError(f"it lists {len(trust)} hooks")
        self.ask("config/batchWrite", {"edits": [{"keyPath": "hooks.state", "mergeStrategy": "upsert", "value": trust}]})

    def ask(self, method, params):
        """Makes a request, and returns its answer."""
        self.asked += 1
        number = self.asked
        self.send({"id": number, "method": method, "params": params})
        end = time.monotonic() + BATCH
        while message := self.next(end):
            if message.get("id") == number and "method" not in message:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                return message["result"]
        raise AssertionError(f"{method} is not answered")

    def read(self, ends):
        for point, some in self.batches(ends):
            yield from self.batch(point, some)

    def batch(self, point, ends):
        for slot in range(self.width):
            self.fill(slot, ends[slot] if slot < len(ends) else None)
        runs, _ = self.thread(point)
        if len(runs) < self.width:
            # Once more: the machine may have been slow.
            runs, _ = self.thread(point)
        if len(runs) < self.width:
            raise AssertionError(f"{point}: {len(runs)} of {self.width} hooks ran")
        for slot, end in enumerate(ends):
            if reading := self.reading(runs[slot], end):
                yield end.id, reading

    def reading(self, run, end):
        def texts(kind):
            return "\n".join(entry["text"] for entry in run["entries"] if entry["kind"] == kind)

        more = {"context": texts("context").strip() != "", "reason": texts("stop") or texts("feedback")}
        if run["status"] in ("blocked", "stopped"):
            return Reading("stop", **more)
        if run["status"] == "failed" or end.point not in ("PreToolUse", "PermissionRequest") or b"allow" not in end.stdout:
            return Reading("none", **more)
        # An approval is only seen where nothing else decides.
        for slot in range(self.width):
            self.fill(slot, end if slot == 0 else None)
        _, seen = self.thread(end.point)
        if end.point == "PreToolUse" and not seen["asked"] and seen["command"] is None:
            # The call failed at its input: whether a human would have been asked cannot be seen.
            return None
        is_rewritten = seen["command"] is not None and COMMAND not in seen["command"]
        return Reading("none" if seen["asked"] else "allow", rewrite=is_rewritten, **more)

    def interrupt(self, name, turn):
        self.send({"id": f"interrupt {name}", "method": "turn/interrupt", "params": {"threadId": name, "turnId": turn}})

    def thread(self, point):
        """Has the hooks of a point run, and returns their runs by slot, and the fate of the call."""
        self.model.forget()
        policy = {"approvalPolicy": "untrusted"} if point in ("PreToolUse", "PermissionRequest") else {}
        name = self.ask("thread/start", {"cwd": str(self.places[point]), **policy})["thread"]["id"]
        command = "sleep 50" if point == "Interrupt" else COMMAND
        prompt = f"Please run [[{command}]]"
        self.ask("turn/start", {"threadId": name, "input": [{"type": "text", "text": prompt}]})
        runs, seen, is_interrupted = {}, {"asked": False, "command": None}, False
        end = time.monotonic() + BATCH
        while message := self.next(end):
            method, params = message.get("method", ""), message.get("params", {})
            if params.get("threadId") != name:
                continue
            if method == "hook/completed" and params["run"]["eventName"].lower() == point.lower():
                runs.setdefault(params["run"]["displayOrder"], params["run"])
                if point == "Stop" and len(runs) == self.width:
                    # After a stop the turn goes on, and on.
                    self.interrupt(name, params["turnId"])
            elif method == "item/started" and params["item"]["type"] == "commandExecution":
                seen["command"] = params["item"]["command"]
                if point == "Interrupt" and not is_interrupted:
                    is_interrupted = True
                    self.interrupt(name, params["turnId"])
            elif method.endswith("/requestApproval"):
                seen["asked"] = True
                self.send({"id": message["id"], "result": {"decision": "decline"}})
            elif method == "turn/completed":
                if point in ("PreCompact", "PostCompact") and not is_interrupted:
                    is_interrupted = True
                    self.send({"id": f"compact {name}", "method": "thread/compact/start", "params": {"threadId": name}})
                else:
                    break
        self.ask("thread/unsubscribe", {"threadId": name})
        return runs, seen


COMMAND = "touch was-asked-for"


class ClaudeCode(Whole):
    """In print mode, with its questions on stdout: these show whether a hook asks."""

    name = "claude-code"
    contract = "claude_code"
    points = [*["PreToolUse"] * 7, "PermissionRequest", "UserPromptSubmit", "UserPromptSubmit", "PostToolUse", "Stop"]
    unread_points = ["other points"]
    choose = """slot=${{event#*slot-number-}}
slot={slots}/${{slot%%[!0-9]*}}
[ -e "$slot.code" ] || exit 0"""
    anchors = [
        ("PreToolUse", 2, "", "stop"),
        ("PreToolUse", 0, BLOCK, "stop"),
        ("PreToolUse", 0, '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask"}}', "ask"),
        ("PreToolUse", 0, '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}', "allow"),
        ("PreToolUse", 0, "", "none"),
        ("PermissionRequest", 0, PERMISSION % "deny", "stop"),
        ("PermissionRequest", 0, PERMISSION % "allow", "allow"),
        ("PermissionRequest", 0, "", "none"),
        *((point, 0, BLOCK, "stop") for point in ("UserPromptSubmit", "PostToolUse", "Stop")),
        *((point, 0, "{}", "none") for point in ("UserPromptSubmit", "PostToolUse", "Stop")),
    ]
    # Ends that one process reads, as requests grow with each, and calls in one message.
    width, calls = 120, 30

    def prepare(self, options, home):
        self.program = options.tools / self.name / "node_modules/.bin/claude"
        if not self.program.exists():
            raise Missing("its program is not installed")
        self.set_up(options, home, Planned())
        self.places = {point: home.home / "projects" / point for point in dict.fromkeys(self.points)}
        for point, place in self.places.items():
            # After a block the turn goes on, to another end, at which the hook has to be silent.
            command = f"exec {home.home}/hook.sh - {'once' if point == 'Stop' else ''}"
            hook = {"type": "command", "command": command, "timeout": BATCH}
            home.write(place / ".claude/settings.json", json.dumps({"hooks": {point: [{"hooks": [hook]}]}}))

    def read(self, ends):
        for point, some in self.batches(ends):
            yield from self.session(point, some)
        self.stop()

    def session(self, point, ends):
        """Reads ends in one process, or in another where one ends."""
        for path in self.slots.glob("*.*"):
            path.unlink()
        for end in ends:
            self.fill(end.id, end)
        self.stop()
        left = list(ends)
        while left:
            if self.process is None:
                self.begin(point)
            width = self.calls if point in ("PreToolUse", "PermissionRequest") else 1
            read = self.turn(point, left[:width])
            if not read:
                # Once more: the machine may have been slow.
                self.stop()
                self.begin(point)
                read = self.turn(point, left[:1])
            if not read:
                raise AssertionError(f"nothing comes of {left[0].shown()}")
            yield from ((number, reading) for number, reading in read.items() if reading)
            left = [end for end in left if end.id not in read]

    def begin(self, point):
        lines = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
        words = ["-p", *lines, "--permission-prompt-tool", "stdio"]
        more = {
            "ANTHROPIC_API_KEY": "fake",
            "ANTHROPIC_BASE_URL": self.model.address,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
        }
        if point == "PermissionRequest":
            words.append("--include-hook-events")
        self.start([self.program, *words], more, self.places[point])

    def turn(self, point, ends):
        """Has the hooks of some ends run, and returns the readings of those that ran."""
        is_call = point not in ("UserPromptSubmit", "Stop")
        self.model.forget()
        self.model.plan = {str(end.id): {"command": self.line(end.id), "description": "Do it"} for end in ends} if is_call else {}
        self.model.final = f"{MARK}{ends[0].id}"
        text = "Please go on" if is_call or point == "Stop" else f"{MARK}{ends[0].id}"
        self.send({"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": text}]}})
        read, outcome, held = {}, {}, None
        limit = time.monotonic() + BATCH
        while True:
            message = self.next(min(limit, held[1] if held else limit))
            if message is None:
                if not held or held[1] > time.monotonic():
                    self.stop()
                    break
                # The hook has ended and decided nothing.
                self.respond(held[0], {"behavior": "deny", "message": "no"})
                held = None
                continue
            kind = message.get("type")
            if kind == "control_request" and message["request"]["subtype"] == "can_use_tool":
                number, asked = int(message["request"]["tool_use_id"].rpartition("_")[2]), message["request"]
                is_asked = asked.get("decision_reason_type") == "hook"
                is_rewritten = asked["input"].get("command") != self.line(number)
                reason = asked.get("decision_reason") if is_asked else ""
                read[number] = Reading("ask" if is_asked else "none", None, is_rewritten, reason)
                if point == "PermissionRequest":
                    # Asked beside the hook, which may still decide.
                    held = message["request_id"], limit, number
                elif point == "PostToolUse":
                    read.clear()
                    self.respond(message["request_id"], {"behavior": "allow", "updatedInput": asked["input"]})
                else:
                    self.respond(message["request_id"], {"behavior": "deny", "message": "no"})
            elif kind == "control_cancel_request" and held:
                del read[held[2]]
                held = None
            elif message.get("subtype") == "hook_response" and held:
                held = held[0], time.monotonic() + SETTLED, held[2]
            elif kind == "user" and point in ("PreToolUse", "PermissionRequest"):
                self.results(message, read)
            elif message.get("prompt_submit_outcome"):
                outcome = message["prompt_submit_outcome"]
            elif kind == "result":
                if message.get("stop_reason") == "tool_deferred":
                    number = next(end.id for end in ends if end.id not in read)
                    read[number] = Reading("ask", None, None, "")
                    self.stop()
                # A denial with `interrupt` ends the run, and no result of the call is left.
                if point == "PermissionRequest" and len(ends) == 1 and not read:
                    read[ends[0].id] = Reading("stop", None, None, None)
                    self.stop()
                break
        if not is_call or point == "PostToolUse":
            read[ends[0].id] = self.followed(point, outcome)
        return read

    def respond(self, request, answer):
        self.send({"type": "control_response", "response": {"subtype": "success", "request_id": request, "response": answer}})

    def results(self, message, read):
        """Reads the results of calls about which nothing was asked."""
        decisions = {one["id"]: one.get("permission_decision", {}) for one in message.get("tool_result_meta", [])}
        for part in message["message"]["content"]:
            if not isinstance(part, dict) or part.get("type") != "tool_result":
                continue
            number, decision = int(part["tool_use_id"].rpartition("_")[2]), decisions.get(part["tool_use_id"], {})
            content = part["content"] if isinstance(part["content"], str) else json.dumps(part["content"])
            if number in read:
                continue
            if decision.get("decision") == "accept":
                read[number] = Reading("allow", None, content != f"{MARK}{number}", "")
            elif "updatedInput that failed schema validation" in content:
                # Whether the call would have been made cannot be seen.
                read[number] = None
            elif decision.get("source") == "hook":
                read[number] = Reading("stop", None, None, without_frame(content))

    def followed(self, point, outcome):
        """Reads the model's requests after the hook."""
        turns = [asked["messages"] for asked in self.model.asked if asked["is_turn"]]
        if point == "UserPromptSubmit":
            if not turns:
                return Reading("stop", reason=without_frame(outcome.get("reason") or ""))
            prompt = max(number for number, (role, text) in enumerate(turns[0]) if role == "user" and MARK in text)
            return Reading("none", count(turns[0][prompt:])["context"] > 0)
        # Texts of all hooks are put together in one message: new ones are there more often than before.
        first, last = count(turns[0]), count(turns[-1])
        is_blocked, is_told = (last[name] > first[name] for name in ("block", "context"))
        if point == "Stop":
            return Reading("stop" if is_blocked else "none", None, None, None)
        return Reading("stop" if is_blocked or len(turns) < 2 else "none", is_told, None, None)

    @staticmethod
    def line(number):
        return f"touch made; echo {MARK}{number}"


def count(messages):
    """Counts the texts of hooks in a request."""
    text = "\n".join(text for _, text in messages)
    patterns = {
        "block": r"hook blocking error from command: |Stop hook feedback:",
        "context": r"hook (?:additional context|success): \s*\S",
    }
    return {name: len(re.findall(pattern, text)) for name, pattern in patterns.items()}


def without_frame(text):
    """Takes Claude Code's frame from a reason."""
    text = re.sub(r"^(PreToolUse|PermissionRequest):\w+ hook error: ", "", text)
    return re.sub(r"^\[exec [^\]]*\]: ", "", text)
