"""Random ends of hooks: both streams, and an exit code or a signal.

Most are nearly right: answers of several contracts, in which a member is wrong, missing or strange, and texts that begin like one.
"""

import base64
import dataclasses
import json
import re

CODES = [0, 1, 2, 3, 127, 255]
WORDS = ["allow", "approve", "deny", "block", "ask", "defer"]
ODD_WORDS = ["", "Deny", "DENY", " deny", "deny ", "no", "reject", "halt"]
TEXTS = [
    "no rm -rf here", "because", "a\nb", "  spaced  ", "é ✓", "<b>", "", " ", "No reason provided", "\x1b[31mred\x1b[0m", "{", "null",
]
OBJECTS = [{}, {"command": "echo safe"}, {"a": 1}, {"a": {"b": [1, 2.5, None]}}]
ANYTHING = [
    None, True, False, 0, 1, -1, 2.5, 1e300, 12345678901234567890, "", "x", "true", "false", [], ["deny"], [{}], {}, {"a": 1}, *WORDS,
]
# Members of any contract's answer, and values that belong there.
TOP = {
    "continue": [True, False, False, False],
    "decision": [*WORDS, "block", "block", "deny", "ask", *ODD_WORDS],
    "permission": WORDS,
    "permissionDecision": WORDS,
    "reason": TEXTS,
    "recovery": ["retry"],
    "stopReason": TEXTS,
    "suppressOutput": [True, False],
    "systemMessage": TEXTS,
    "terminalSequence": ["\x1b]0;t\x07"],
    "additionalContext": TEXTS,
    "updatedInput": OBJECTS,
    "tool_input": OBJECTS,
    "unknown": ANYTHING,
}
SPECIFIC = {
    "action": ["accept", "decline", "cancel"],
    "additionalContext": TEXTS,
    "artifacts": [[], [{"title": "t"}], [{}]],
    "clearContext": [True, False],
    "llm_request": [{}, {"model": "m"}, {"messages": [{"role": "user", "content": "t"}]}],
    "llm_response": [{}, {"candidates": [{"content": {"role": "model", "parts": ["t"]}}]}],
    "permissionDecision": [*WORDS, "deny", "ask", *ODD_WORDS],
    "permissionDecisionReason": TEXTS,
    "tailToolCallRequest": [{"name": "t", "args": {}}],
    "toolConfig": [{}, {"mode": "NONE"}, {"mode": "ANY", "allowedFunctionNames": ["a"]}],
    "tool_input": OBJECTS,
    "tool_output": [*OBJECTS, "t"],
    "unknown": ANYTHING,
    "updatedInput": OBJECTS,
    "updatedMCPToolOutput": [*OBJECTS, "t"],
    "updatedToolOutput": [*OBJECTS, "t"],
}
PERMISSION = {
    "behavior": ["allow", "deny", "deny", "ask", *ODD_WORDS],
    "interrupt": [True, False],
    "message": TEXTS,
    "updatedInput": OBJECTS,
    "updatedPermissions": [[], [{"type": "setMode", "mode": "default", "destination": "session"}]],
}
# Members that a contract has in `hookSpecificOutput` at a point; at points that are not named context alone.
COMMON = ["continue", "decision", "reason", "stopReason", "suppressOutput", "systemMessage"]
PRE_TOOL = ["additionalContext", "permissionDecision", "permissionDecision", "permissionDecisionReason", "updatedInput"]
KNOWN = {
    "claude_code": {"PreToolUse": PRE_TOOL, "PermissionRequest": [], "PostToolUse": ["additionalContext", "updatedToolOutput"]},
    "codex": {"PreToolUse": PRE_TOOL, "PermissionRequest": [], "PostToolUse": ["additionalContext", "updatedMCPToolOutput"]},
    "gemini_cli": {
        "BeforeTool": ["additionalContext", "tool_input"],
        "AfterTool": ["additionalContext", "tailToolCallRequest", "tool_output"],
        "AfterAgent": ["additionalContext", "clearContext"],
        "BeforeModel": ["llm_request", "llm_response"],
        "AfterModel": ["llm_response"],
        "BeforeToolSelection": ["toolConfig"],
    },
    "qwen_code": {"PreToolUse": PRE_TOOL, "PermissionRequest": [], "PostToolUse": ["additionalContext", "artifacts"]},
}


@dataclasses.dataclass
class End:
    """An end of a hook at a point. Without an exit code a signal ended the hook."""

    id: int
    point: str
    exit_code: int | None
    stdout: bytes = b""
    stderr: bytes = b""

    def fields(self):
        """Returns the members that a line of `hookjail interpret` and one of a driver share."""
        return {"exit_code": self.exit_code} if self.exit_code is not None else {"signal": 9}

    def driven(self):
        """Returns a line for a driver."""
        streams = {name: base64.b64encode(getattr(self, name)).decode() for name in ("stdout", "stderr")}
        return {"id": self.id, "point": self.point, **self.fields(), **streams}

    def shown(self):
        """Returns a line that `hookjail interpret` would take, less the contract."""
        streams = {name: show(getattr(self, name)) for name in ("stdout", "stderr") if getattr(self, name)}
        return json.dumps({"point": self.point, **self.fields(), **streams}, ensure_ascii=False)


def show(data):
    text = data.decode(errors="backslashreplace")
    text = re.sub(r'(\[|\]|\}|\{"a":)\1{8,}', lambda run: f"{run[1]}<{len(run[0]) // len(run[1])} times>", text)
    return text if len(text) <= 600 else f"{text[:300]} … {text[-200:]} ({len(text)} characters)"


class Generator:
    """Makes ends at the points of a contract."""

    def __init__(self, random, contract, points):
        self.random, self.known, self.points = random, KNOWN[contract], points
        self.count = 0

    def end(self, point=None):
        self.count += 1
        point = point or self.random.choice(self.points)
        code = self.random.choices([*CODES, None], [50, 8, 18, 8, 4, 4, 3])[0]
        stdout, stderr = self.stream(point), b""
        chance = self.random.random()
        if chance < 0.25:
            # Mostly text.
            stderr = self.stream(point) if self.random.random() < 0.4 else self.random.choice(TEXTS).encode()
            if self.random.random() < 0.5:
                stdout = b""
        # A line of `hookjail interpret` has stderr as text.
        return End(self.count, point, code, stdout, stderr.decode(errors="ignore").encode())

    def stream(self, point):
        """Returns the bytes of a stream."""
        form = self.random.choices(
            [self.nothing, self.text, self.document, self.answer], [8, 8, 14, 70],
        )[0]
        return self.spoilt(form(point))

    def nothing(self, _point):
        return self.random.choice(["", "", " ", "\n", "\r\n\t"])

    def text(self, _point):
        begin = self.random.choice(["", "", "{", "[", '"', "'", "-", "1", "t", "#", "{\"", "[{"])
        return begin + self.random.choice(TEXTS)

    def document(self, point):
        """Returns JSON that is no object, or not alone."""
        one, other = self.answer(point), self.answer(point)
        return self.random.choice([
            json.dumps(self.random.choice(ANYTHING)),
            json.dumps(one),
            json.dumps(json.dumps(one)),
            f"[{one}]",
            f"{one}\n{other}",
            f"{one}{other}",
            f"{one}\ntext",
            f"text\n{one}",
            f"{one},",
            f"// note\n{one}",
            self.nested(one),
            f"```json\n{one}\n```",
        ])

    def nested(self, answer):
        """Returns an answer with a member that nests deeply."""
        depth = self.random.choice([20, 100, 124, 125, 126, 127, 128, 129, 200, 1000])
        begin, end = self.random.choice([("[", "]"), ('{"a":', "}")])
        deep = begin * depth + "1" + end * depth
        rest = answer.strip()[1:-1]
        return f'{{"unknown":{deep}{"," if rest.strip() else ""}{rest}}}'

    def answer(self, point):
        is_known = self.random.random() < 0.75
        top = {name: TOP[name] for name in COMMON} if is_known else TOP
        members = self.members(top, self.random.choices([0, 1, 2, 3, 4], [12, 38, 28, 14, 8])[0])
        if self.random.random() < (0.7 if point in self.known else 0.4):
            members.append(("hookSpecificOutput", self.specific(point, is_known)))
        return self.written(members)

    def specific(self, point, is_known):
        if self.random.random() < 0.05:
            return self.random.choice(ANYTHING)
        names = self.known.get(point, ["additionalContext"]) if is_known else list(SPECIFIC)
        if names is PRE_TOOL and self.random.random() < 0.06:
            rewrite = self.random.choice(OBJECTS)
            return Members([("hookEventName", point), ("permissionDecision", "allow"), ("updatedInput", rewrite)])
        count = self.random.choices([0, 1, 2, 3], [10, 45, 30, 15])[0]
        members = self.members({name: SPECIFIC[name] for name in names}, count) if names else []
        if self.random.random() < (0.9 if names == [] else 0.03 if is_known else 0.35):
            decision = dict(self.members(PERMISSION, self.random.choice([0, 1, 1, 2, 3])))
            if self.random.random() < 0.7:
                decision["behavior"] = self.random.choice(PERMISSION["behavior"])
            members.append(("decision", decision if self.random.random() < 0.85 else self.random.choice(ANYTHING)))
        name = self.random.choices([point, None, self.random.choice(self.points), self.random.choice(ANYTHING)], [75, 15, 7, 3])[0]
        if name is not None:
            members.insert(self.random.randrange(len(members) + 1), ("hookEventName", name))
        return Members(members)

    def members(self, table, count):
        """Returns members, most of them with a value that belongs there."""
        chosen = []
        for name in self.random.choices(list(table), [4 if name in FREQUENT else 1 for name in table], k=count):
            right = self.random.random() < 0.88
            chosen.append((name, self.random.choice(table[name] if right else ANYTHING)))
        if chosen and self.random.random() < 0.04:
            name, _ = self.random.choice(chosen)
            chosen.append((name, self.random.choice(table[name])))
        elif self.random.random() < 0.98:
            # Else some are there twice.
            chosen = list(dict(chosen).items())
        return chosen

    def written(self, members):
        """Returns an object as text, written in one of several ways."""
        text = Members(members).text()
        if self.random.random() < 0.05:
            text = text.replace('"deny"', '"d\\u0065ny"').replace('"decision"', '"decisio\\u006e"')
        if self.random.random() < 0.1:
            text = json.dumps(json.loads(text), indent=2)
        return text

    def spoilt(self, text):
        """Returns the bytes, a few of them broken."""
        chance = self.random.random()
        if chance < 0.04 and len(text) > 1:
            text = text[: self.random.randrange(1, len(text))]
        elif chance < 0.06:
            text = "\ufeff" + text
        elif chance < 0.08:
            text = text.replace(" ", "\r\n") + "\r\n"
        elif chance < 0.10:
            text = self.random.choice(["\u00a0", "\u2028", "\x0b", "\x00", "\x1f"]) + text
        elif chance < 0.11:
            text = text.replace('"', "'")
        elif chance < 0.12:
            text = text.rstrip("}") + ",}"
        elif chance < 0.13:
            text = text.replace('"x"', '"\\ud800"').replace("because", "\\ud800")
        data = text.encode()
        if self.random.random() < 0.4:
            data += b"\n"
        if self.random.random() < 0.02:
            place = self.random.randrange(len(data) + 1)
            data = data[:place] + self.random.choice([b"\xff", b"\xc3", b"\xed\xa0\x80"]) + data[place:]
        return data


FREQUENT = ["continue", "decision", "reason", "permissionDecision", "permissionDecisionReason", "additionalContext"]


class Members:
    """An object of which a member may be there twice."""

    def __init__(self, members):
        self.members = members

    def text(self):
        inner = ", ".join(
            f"{json.dumps(name)}: {value.text() if isinstance(value, Members) else json.dumps(value)}" for name, value in self.members
        )
        return f"{{{inner}}}"
