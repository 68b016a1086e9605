"""Builds requests from Python's values."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeAlias, TypedDict, Union

from google.protobuf.duration_pb2 import Duration

from .v1 import hook_service_pb2 as pb
from .v1 import types_pb2 as types

#: A hook's stdin: bytes and text as they are, other values as JSON.
Event: TypeAlias = Union[bytes, str, Mapping[str, Any], None]
#: A command: program and arguments; one string is a line for the contract's shell.
Command: TypeAlias = Union[str, Sequence[Union[str, "os.PathLike[str]"]]]
Seconds: TypeAlias = Union[float, timedelta, None]

#: Seconds that a call may take beyond its hook's time: for its transport, and a question to the operator.
MARGIN = 90.0
#: The longest time of a hook under the shipped profiles, in seconds. A hook without a timeout has that of its profile.
LONGEST = 30 * 60.0


class ExecuteOptions(TypedDict, total=False):
    """Options of a hook: fields of ExecuteRequest and Hook, with their defaults."""

    #: The runtime's rules for event, exit code and output, such as `claude_code`; default `observe`.
    contract: str
    #: The lifecycle point.
    point: str
    #: The contract's mode.
    mode: str
    event: Event
    #: Write the event byte for byte, without the contract's envelope.
    raw: bool
    #: Default: the contract's.
    profile: str
    #: Seconds for queue, set-up and run together; default: the profile's.
    timeout: Seconds
    #: Binds `${workspace}` in the profile.
    workspace: str | os.PathLike[str]
    #: The working directory, inside a grant.
    cwd: str | os.PathLike[str]
    #: Variables, as far as the profile admits them.
    env: Mapping[str, str]
    #: A name for logs and journal.
    name: str
    session_id: str
    #: A repeated id returns the same answer and runs nothing.
    request_id: str


class DispatchOptions(TypedDict, total=False):
    """Options of a lifecycle point: fields of DispatchRequest, with their defaults."""

    contract: str
    event: Event
    #: The tool call, for matchers and tool events.
    tool: pb.Tool
    #: Hooks of this request, after the configured ones.
    hooks: Sequence[pb.InlineHook]
    #: The profile of `hooks`.
    profile: str
    #: Seconds for all hooks together.
    timeout: Seconds
    workspace: str | os.PathLike[str]
    #: The runtime's working directory.
    cwd: str | os.PathLike[str]
    agent: str
    session_id: str
    request_id: str


def execute_request(command: Command, options: ExecuteOptions) -> pb.ExecuteRequest:
    check_names(options, ExecuteOptions.__annotations__)
    return pb.ExecuteRequest(
        contract=contract(options.get("contract", "")),
        depth=depth(),
        event=event(options.get("event"), options.get("point", ""), options.get("raw", False)),
        hook=hook(
            command,
            name=options.get("name", ""),
            env=options.get("env", {}),
            working_dir=os.fspath(options.get("cwd", "")),
            workspace=os.fspath(options.get("workspace", "")),
        ),
        mode=options.get("mode", ""),
        profile=options.get("profile", ""),
        request_id=options.get("request_id", ""),
        session_id=options.get("session_id", ""),
        timeout=duration(options.get("timeout")),
    )


def dispatch_request(point: str, options: DispatchOptions) -> pb.DispatchRequest:
    check_names(options, DispatchOptions.__annotations__)
    return pb.DispatchRequest(
        agent=options.get("agent", ""),
        contract=contract(options.get("contract", "")),
        cwd=os.fspath(options.get("cwd", "")),
        depth=depth(),
        event=event(options.get("event"), point, raw=False),
        inline_hooks=options.get("hooks", ()),
        profile=options.get("profile", ""),
        request_id=options.get("request_id", ""),
        session_id=options.get("session_id", ""),
        timeout=duration(options.get("timeout")),
        tool=options.get("tool"),
        workspace=os.fspath(options.get("workspace", "")),
    )


def hook(command: Command, **fields: Any) -> pb.Hook:
    """Makes a hook from a command and further fields of the message. Raises TypeError for a field that the message lacks."""
    check_names(fields, pb.Hook.DESCRIPTOR.fields_by_name)
    if isinstance(command, str):
        return pb.Hook(shell=pb.Shell(script=command), **fields)
    return pb.Hook(argv=[os.fspath(word) for word in command], **fields)


def check_names(options: Mapping[str, object], known: Iterable[str]) -> None:
    """Raises TypeError for the first unknown option: if ignored, a misspelt profile would mean the default one."""
    names = list(known)
    for name in options:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"use one of {', '.join(names)}"
            raise TypeError(f"unknown option `{name}`; {hint}")


def call_timeout(request: pb.ExecuteRequest | pb.DispatchRequest) -> float:
    """Returns the timeout of a call: never less than its hook's, and never infinite."""
    if request.HasField("timeout"):
        return request.timeout.ToTimedelta().total_seconds() + MARGIN
    return LONGEST + MARGIN


def contract(name: str) -> str:
    """Returns a contract's name in the protocol, for `claude_code`, `claude-code` or `CONTRACT_CLAUDE_CODE`."""
    spelled = f"CONTRACT_{name.upper().replace('-', '_').removeprefix('CONTRACT_') or 'UNSPECIFIED'}"
    known = types.Contract.keys()
    if spelled not in known:
        names = ", ".join(it.removeprefix("CONTRACT_").lower() for it in known[1:])
        raise ValueError(f"unknown contract `{name}`; use one of {names}")
    return spelled


def event(value: Event, point: str, raw: bool) -> pb.Event:
    if value is None:
        value = b""
    elif isinstance(value, str):
        value = value.encode()
    elif not isinstance(value, bytes):
        value = json.dumps(value, ensure_ascii=False).encode()
    return pb.Event(json=value, point=point, raw=raw)


def duration(value: Seconds) -> Duration | None:
    if value is None:
        return None
    made = Duration()
    made.FromTimedelta(value if isinstance(value, timedelta) else timedelta(seconds=value))
    return made


def depth() -> int:
    """Returns the nesting depth of hooks; an unreadable value is too deep."""
    value = os.environ.get("HOOKJAIL_DEPTH", "0")
    return min(int(value), 2**32 - 1) if value.isdecimal() else 2**32 - 1
