#!/usr/bin/env python3
"""Random ends of hooks, read by the parsers of real runtimes and by `hookjail interpret`.

A seed makes the ends. No reading of hookjail's may be weaker than the runtime's: a stop there is a stop for hookjail, a question a
question or a stop, and hookjail approves nothing alone. Where hookjail is stricter or reports more, a rule of the table below gives
the reason; a difference without a rule fails as well.

Needs root, and a network namespace with nothing but the loopback: runtimes are run as an ordinary user.
"""

import argparse
import base64
import collections
import dataclasses
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "testenv"))

from ends import End, Generator
from home import Home, loopback, remove
from whole import ClaudeCode, Codex, Missing, Reading

HERE = pathlib.Path(__file__).resolve().parent
SEED = 20261129
KINDS = {"DENY": "stop", "BLOCK": "stop", "ASK": "ask", "ALLOW": "allow", "NONE": "none"}
STRENGTH = {"stop": 2, "ask": 1, "allow": 0, "none": 0}
UNSAFE_SHOWN = 20


class Scripted:
    """A runtime whose modules are called; only the hook's process is played."""

    unread_points = []

    def __init__(self, name, package, points):
        self.name, self.contract = name, name.replace("-", "_")
        self.package, self.points = package, points

    def prepare(self, options, home):
        self.node = options.tools / "node/node_modules/node/bin/node"
        self.place = options.tools / self.name / "node_modules" / self.package
        for path in (self.node, self.place):
            if not path.exists():
                raise Missing(f"{path.name} is not installed")
        self.home = home

    def absent_points(self):
        return self.unread_points

    def read(self, ends):
        """Yields a reading for each end."""
        driver = HERE / "parsers" / f"{self.name}.mjs"
        process = subprocess.run(
            [self.node, driver, self.place],
            input="".join(json.dumps(end.driven()) + "\n" for end in ends),
            capture_output=True,
            text=True,
            cwd=self.home.home,
            env={"HOME": str(self.home.home), "PATH": "/usr/bin:/bin"},
            user=self.home.user.pw_uid,
            group=self.home.user.pw_gid,
            extra_groups=[],
        )
        lines = process.stdout.split("\n")[:-1]
        if process.returncode != 0 or len(lines) != len(ends):
            raise AssertionError(f"its driver read {len(lines)} of {len(ends)} ends: {process.stderr[-800:]}")
        for line in lines:
            members = json.loads(line)
            yield members.pop("id"), Reading(**members)


GEMINI_POINTS = [
    "BeforeTool", "BeforeTool", "BeforeTool", "AfterTool", "BeforeAgent", "AfterAgent", "BeforeModel", "AfterModel",
    "BeforeToolSelection", "SessionStart", "SessionEnd", "PreCompress", "Notification",
]
QWEN_POINTS = [
    "PreToolUse", "PreToolUse", "PreToolUse", "PermissionRequest", "PermissionRequest", "PostToolUse", "PostToolUseFailure",
    "PostToolBatch", "Notification", "UserPromptSubmit", "UserPromptExpansion", "SessionStart", "Stop", "SubagentStart", "SubagentStop",
    "PreCompact", "PostCompact", "SessionEnd", "PermissionDenied", "TodoCreated", "TodoCompleted", "InstructionsLoaded",
]
RUNTIMES = [
    Scripted("gemini-cli", "@google/gemini-cli", GEMINI_POINTS),
    Scripted("qwen-code", "@qwen-code/qwen-code", QWEN_POINTS),
    Codex(),
    ClaudeCode(),
]

# Plain answers and their kinds: a driver that reads these wrongly reads nothing.
ANCHORS = {
    "gemini-cli": [
        *((point, 0, '{"decision": "deny", "reason": "r"}', "stop") for point in GEMINI_POINTS[2:8]),
        ("BeforeTool", 0, '{"decision": "ask"}', "ask"),
        ("BeforeTool", 0, "", "none"),
    ],
    "qwen-code": [
        *((point, 0, '{"decision": "block", "continue": false, "reason": "r"}', "stop") for point in (
            "PreToolUse", "PostToolUse", "PostToolBatch", "UserPromptSubmit", "UserPromptExpansion", "Stop", "SubagentStop",
            "TodoCreated", "TodoCompleted",
        )),
        ("PermissionRequest", 0, '{"hookSpecificOutput": {"decision": {"behavior": "deny", "message": "r"}}}', "stop"),
        ("PermissionRequest", 0, '{"hookSpecificOutput": {"decision": {"behavior": "allow"}}}', "allow"),
        ("PreToolUse", 0, '{"decision": "ask"}', "ask"),
        ("PreToolUse", 0, "", "none"),
    ],
    "codex": Codex.anchors,
    "claude-code": ClaudeCode.anchors,
}


@dataclasses.dataclass
class Case:
    """An end with both readings."""

    end: End
    real: Reading
    ours: Reading
    verdict: dict

    def differences(self):
        """Returns the names of the differences, an unsafe one alone."""
        real, ours = self.real, self.ours
        if STRENGTH[real.kind] > STRENGTH[ours.kind] or (ours.kind == "allow" and real.kind != "allow"):
            return [f"UNSAFE: the runtime has {real.kind}, hookjail {ours.kind}"]
        names = []
        if STRENGTH[real.kind] < STRENGTH[ours.kind]:
            return ["stops" if ours.kind == "stop" else "asks"]
        if ours.kind != "stop":
            if real.context is not None and real.context != ours.context:
                names.append("more context" if ours.context else "less context")
            if real.rewrite is not None and real.rewrite != ours.rewrite:
                names.append("more of a rewrite" if ours.rewrite else "less of a rewrite")
        reasons = {normal(ours.reason), normal(self.verdict.get("reason"))}
        if ours.kind in ("stop", "ask") and real.reason is not None and normal(real.reason) not in reasons:
            names.append("reason")
        return names

    def show(self):
        verdict = {name: value for name, value in self.verdict.items() if name in SHOWN}
        return f"  {self.end.shown()}\n    runtime:  {self.real.shown()}\n    hookjail: {json.dumps(verdict, ensure_ascii=False)}"


SHOWN = [
    "additionalContext", "blockedBy", "decision", "failed", "reason", "skipReason", "stopReason", "updatedInput", "updatedMessages",
    "updatedOutput", "warnings",
]


def normal(text):
    """A reason without its frame."""
    text = re.sub("\x1b\\[[0-9;]*m", "", text or "").strip().strip("\ufeff")
    return "" if text in NO_REASON else re.sub("[\ud800-\udfff]", "\ufffd", text)


# The words of runtimes where a hook gives no reason.
NO_REASON = ["No reason provided", "User confirmation required", "null", "No stderr output", "Blocked by hook"]


class Rule:
    """Why differences of a kind are safe and meant."""

    def __init__(self, differences, name, why, when=lambda case: True):
        self.differences, self.name, self.why, self.when = differences.split(", "), name, why, when


def every(*conditions):
    return lambda case: all(condition(case) for condition in conditions)


def either(*conditions):
    return lambda case: any(condition(case) for condition in conditions)


def not_(condition):
    return lambda case: not condition(case)


def at_points(*points):
    return lambda case: case.end.point in points


def blocked_by(*causes):
    return lambda case: case.verdict.get("blockedBy") in causes


def by_code(*codes):
    return lambda case: case.end.exit_code in codes and case.verdict.get("blockedBy") == "EXIT_CODE"


def lacks(point, member):
    return lambda case: case.end.point != point or member not in case.verdict


def has_failed(case):
    return case.verdict["failed"] or bool(case.verdict.get("warnings"))


def says_to_end(case):
    return b'"continue"' in case.end.stdout


def has_null(case):
    return b"null" in case.end.stdout


def has_bad_bytes(case):
    return "\ufffd" in case.end.stdout.decode(errors="replace")


def is_made_up(case):
    return case.real.reason.startswith(f"{case.end.point} hook ")


def begins_with_quote(case):
    return case.end.stdout.startswith(b'"')


def begins_with_mark(case):
    return case.end.stdout.startswith(b"\xef\xbb\xbf")


RULES = {
    "gemini-cli": [
        Rule("stops", "exit code 2", "stops with nothing printed too, and beside an object that does not", by_code(2)),
        Rule("stops", "codes from 3 on", "stop with JSON that is no object too", by_code(3, 127, 255)),
        Rule("stops, asks", "objects at which Gemini CLI fails", "stop and ask", not_(blocked_by("EXIT_CODE"))),
        Rule("more context", "context", "is reported at every point", not_(at_points("BeforeAgent", "AfterTool", "SessionStart"))),
        Rule("more of a rewrite", "rewrites", "are reported at every point", lacks("BeforeTool", "updatedInput")),
        Rule("less of a rewrite", "rewrites that are no objects", "are left out", has_failed),
        Rule("less context, less of a rewrite", "bytes that are no characters", "leave a stop or a question alone", has_bad_bytes),
        Rule("reason", "the reason of an exit code", "is stderr before stdout", blocked_by("EXIT_CODE")),
        Rule("reason", "reasons of an invalid answer", "are left out", has_failed),
    ],
    "qwen-code": [
        Rule("stops", "exit code 2", "stops with nothing on stderr too, and beside an object that does not", by_code(2)),
        Rule("stops", "a block", "stops at every point that can be stopped", at_points("PostToolUse", "TodoCreated", "TodoCompleted")),
        Rule("stops, asks", "objects at which Qwen Code fails", "stop and ask", not_(blocked_by("EXIT_CODE"))),
        Rule("more context", "context", "is reported at every point"),
        Rule("more of a rewrite", "rewrites", "are reported at every point"),
        Rule("less context, less of a rewrite", "bytes that are no characters", "leave a stop or a question alone", has_bad_bytes),
        Rule("reason", "a todo", "has the text of a stop, too", at_points("TodoCreated", "TodoCompleted")),
        Rule("less context", "text that may be the rest of a quoted object", "is a failure", begins_with_quote),
        Rule("reason", "a denied permission", "has the reason beside it", at_points("PermissionRequest")),
        Rule("reason", "a decision on a call elsewhere", "has its own reason", blocked_by("PERMISSION_DECISION")),
        Rule("reason", "reasons of an invalid answer", "are left out", has_failed),
    ],
    "codex": [
        Rule("stops", "continue: false", "counts beside members that cannot be read", blocked_by("CONTINUE_FALSE")),
        Rule("stops", "a deny", "counts beside a legacy member that cannot be read", blocked_by("PERMISSION_DECISION")),
        Rule("reason", "a stop without a reason", "has no text of hookjail's making", is_made_up),
        Rule("reason", "continue: false", "has the reason beside it", blocked_by("CONTINUE_FALSE")),
        Rule("more context", "context", "is taken at every point, beside any rewrite, and with lone surrogates replaced"),
        Rule("less context", "answers that are not valid", "give no context", has_failed),
        Rule("less context", "a byte order mark", "is no text", begins_with_mark),
    ],
    "claude-code": [
        Rule("stops", "exit code 2 at PermissionRequest", "refuses", every(at_points("PermissionRequest"), by_code(2))),
        Rule("stops", "a block at PermissionRequest", "refuses", every(at_points("PermissionRequest"), blocked_by("DECISION"))),
        Rule("stops", "exit code 2", "stops beside an object that does not", by_code(2)),
        Rule("asks", "a question", "counts at every point that can be stopped", not_(at_points("PreToolUse"))),
        Rule("stops", "a denied permission", "counts at every such point", every(not_(at_points("PreToolUse")), blocked_by("PERMISSION_DECISION"))),
        Rule("more context", "context", "counts beside a member that is null, too"),
        Rule("more of a rewrite", "a rewrite", "counts beside a member that cannot be read, or is null", either(has_failed, has_null)),
        Rule("reason", "exit code 2", "has the reason of the object on stdout", by_code(2)),
        Rule("reason", "a permission decision", "has no reason but its own", blocked_by("PERMISSION_DECISION")),
        Rule("stops", "continue: false", "stops a call and the end of a turn too", says_to_end),
        Rule("reason", "continue: false", "has the reason beside it", says_to_end),
        Rule("stops, asks", "a stop or a question", "counts beside a member that cannot be read", has_failed),
        Rule("less context, less of a rewrite", "answers that are not valid", "give neither context nor rewrites", has_failed),
        Rule("reason", "reasons of an invalid answer", "are left out", has_failed),
    ],
}


def interpreted(hookjail, contract, ends):
    """Yields the verdict of `hookjail interpret` on each end, and its reading."""
    lines = []
    for end in ends:
        stdout = base64.b64encode(end.stdout).decode()
        one = {"name": "hook", **end.fields(), "stdout_b64": stdout, "stderr": end.stderr.decode()}
        lines.append(json.dumps({"id": end.id, "contract": contract, "point": end.point, "ends": [one]}))
    process = subprocess.run([hookjail, "interpret"], input="\n".join(lines) + "\n", capture_output=True, text=True)
    answers = [json.loads(line) for line in process.stdout.split("\n")[:-1]]
    if len(answers) != len(ends):
        raise AssertionError(f"hookjail interpret answered {len(answers)} of {len(ends)} lines: {process.stderr[-400:]}")
    for answer in answers:
        if "error" in answer:
            raise AssertionError(f"hookjail interpret refuses a line: {answer['error']}")
        verdict = answer["verdicts"][0]
        rewrites = [name for name in ("updatedInput", "updatedOutput", "updatedMessages") if name in verdict]
        yield answer["id"], verdict, Reading(
            kind=KINDS[verdict["decision"]],
            context=any(text.strip() for text in verdict.get("additionalContext", [])),
            rewrite=bool(rewrites),
            reason=verdict.get("stopReason") or verdict.get("reason") or "",
        )


def cases(runtime, options, ends):
    """Returns the ends that the runtime read, with both readings."""
    real = dict(runtime.read(ends))
    read = [end for end in ends if end.id in real]
    contract = options.contracts.get(runtime.name, runtime.contract)
    answers = interpreted(options.hookjail, contract, read)
    return [Case(end, real[end.id], ours, verdict) for end, (_, verdict, ours) in zip(read, answers)]


def fresh_home(runtime, options):
    """Returns a home with a project for a runtime, without what an earlier run left."""
    home = Home(options.work / runtime.name, options.user, options.hookjail)
    if home.home.exists():
        remove(home.home)
    home.make_places()
    home.write(home.project / ".keep", "")
    return home


def control(runtime, found):
    """Reads one end wrongly. Returns a line for the table, and whether that is found."""
    case = next(case for case in found if case.real.kind == case.ours.kind == "stop" and not case.differences())
    case.ours = dataclasses.replace(case.ours, kind="none")
    names = case.differences()
    is_found = bool(names) and names[0].startswith("UNSAFE")
    return f"{runtime.name}: a wrong reading is {'found' if is_found else 'NOT found'}: {case.end.shown()}", is_found


def compare(runtime, options):
    """Compares a runtime with hookjail. Returns a line for the table, and whether all is well."""
    began = time.monotonic()
    anchors = [End(number, point, code, text.encode()) for number, (point, code, text, _) in enumerate(ANCHORS[runtime.name])]
    readings = dict(runtime.read(anchors))
    for anchor, (*_, kind) in zip(anchors, ANCHORS[runtime.name]):
        if readings.get(anchor.id) is None or readings[anchor.id].kind != kind:
            reading = readings.get(anchor.id)
            raise AssertionError(f"its driver reads a plain answer wrongly: {anchor.shown()}: {reading}, not {kind}")
    generator = Generator(random.Random(f"{options.seed} {runtime.name}"), runtime.contract, runtime.points)
    found = []
    runtime.until = time.monotonic() + options.seconds
    for start in range(0, options.ends, 2000):
        found += cases(runtime, options, [generator.end() for _ in range(min(2000, options.ends - start))])
        if time.monotonic() > runtime.until:
            break
    if options.wrong:
        return control(runtime, found)
    unsafe, safer, unlisted, equal = [], collections.Counter(), collections.defaultdict(list), 0
    for case in found:
        names = case.differences()
        equal += not names
        if names and names[0].startswith("UNSAFE"):
            unsafe.append((names[0], case))
            continue
        for name in names:
            rule = next((rule for rule in RULES[runtime.name] if name in rule.differences and rule.when(case)), None)
            if rule:
                safer[rule.name] += 1
            else:
                unlisted[name].append(case)
    for rule in RULES[runtime.name]:
        if safer[rule.name]:
            print(f"{runtime.name}: {safer[rule.name]:5} {rule.name}: {rule.why}")
    for name, case in sorted(unsafe, key=lambda pair: len(pair[1].end.shown()))[:UNSAFE_SHOWN]:
        print(f"{runtime.name}: {name} (seed {options.seed})\n{case.show()}")
    for name, some in unlisted.items():
        print(f"{runtime.name}: {len(some)} unlisted: {name} (seed {options.seed})")
        for case in sorted(some, key=lambda case: len(case.end.shown()))[: options.shown]:
            print(case.show())
    differ = len(found) - equal - len(unsafe)
    kinds = collections.Counter(case.real.kind for case in found)
    shares = ", ".join(f"{kinds[kind]} {kind}" for kind in ("stop", "ask", "allow", "none"))
    line = f"{runtime.name}: {len(found)} ends ({shares}), {equal} equal, {differ} safer, {len(unsafe)} unsafe"
    if unlisted:
        line += f", {sum(map(len, unlisted.values()))} differences unlisted"
    if runtime.absent_points():
        line += f"; not at {', '.join(runtime.absent_points())}"
    return f"{line} ({time.monotonic() - began:.0f} s)", not unsafe and not unlisted


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hookjail", type=pathlib.Path, required=True)
    parser.add_argument("--tools", type=pathlib.Path, required=True, help="where each runtime is installed, by name")
    parser.add_argument("--user", required=True, help="the ordinary user that runs them")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="a directory for the user's home")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("HOOKJAIL_DIFFERENTIAL_SEED", SEED)))
    parser.add_argument("--ends", type=int, default=6000, help="how many for each runtime")
    parser.add_argument("--seconds", type=float, default=700, help="how long one runtime may take, after which it gets no more ends")
    parser.add_argument("--shown", type=int, default=3, help="how many of each difference without a rule are printed")
    parser.add_argument("--runtime", action="append", help="this one alone")
    parser.add_argument("--contract", action="append", default=[], help="RUNTIME=CONTRACT: compare with another contract")
    parser.add_argument("--break", dest="wrong", action="store_true", help="read one end of each runtime wrongly: passes if that is found")
    options = parser.parse_args()
    options.contracts = dict(pair.split("=", 1) for pair in options.contract)
    loopback()
    # Not all bytes of ends are characters.
    sys.stdout.reconfigure(errors="backslashreplace")
    print(f"seed {options.seed}")
    table, skipped, failed = [], [], 0
    for runtime in RUNTIMES:
        if options.runtime and runtime.name not in options.runtime:
            continue
        home = fresh_home(runtime, options)
        try:
            runtime.prepare(options, home)
            line, is_right = compare(runtime, options)
        except Missing as why:
            skipped.append(f"{runtime.name}: {why}")
            continue
        except AssertionError as error:
            line, is_right = f"{runtime.name}: {error}", False
        finally:
            home.end_all()
            remove(home.home)
        table.append(line)
        failed += not is_right
        print(line, flush=True)
    print("\n".join(["", *table]))
    print(f"test result: {len(table) - failed} passed; {failed} failed; {len(skipped)} ignored;")
    if skipped:
        print(f"PART SKIPPED: {'; '.join(skipped)}")
    if not table:
        print("SKIP: no runtime is installed")
        sys.exit(77)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
