"""Requests from what Python has."""

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

#: What a hook reads: bytes and text as they are, anything else as JSON.
Event: TypeAlias = Union[bytes, str, Mapping[str, Any], None]
#: A command: program and arguments; one string is a line for the contract's shell.
Command: TypeAlias = Union[str, Sequence[Union[str, "os.PathLike[str]"]]]
Seconds: TypeAlias = Union[float, timedelta, None]

#: Seconds that a call may take beyond what its hook may: for its way there, and a question to the operator.
MARGIN = 90.0
#: The longest time of a hook under the shipped profiles, in seconds; what a hook has that is given no timeout, its profile says.
LONGEST = 30 * 60.0


class ExecuteOptions(TypedDict, total=False):
    """What can be said about a hook. Fields of ExecuteRequest and Hook, with their defaults."""

    #: The runtime's rules for event, exit code and output, such as `claude_code`; default `observe`.
    contract: str
    #: The lifecycle point.
    point: str
    #: Which of the contract's modes.
    mode: str
    event: Event
    #: Write the event byte for byte, without the contract's envelope.
    raw: bool
    #: Default: the contract's.
    profile: str
    #: Seconds for queue, set-up and run together; default: the profile's.
    timeout: Seconds
    #: Bound where the profile says `${workspace}`.
    workspace: str | os.PathLike[str]
    #: Where the hook starts, inside a grant.
    cwd: str | os.PathLike[str]
    #: Variables, as far as the profile lets them in.
    env: Mapping[str, str]
    #: A name for logs and journal.
    name: str
    session_id: str
    #: The same id again returns the same answer and runs nothing.
    request_id: str


class DispatchOptions(TypedDict, total=False):
    """What can be said about a lifecycle point. Fields of DispatchRequest, with their defaults."""

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
    """Raises TypeError for the first option that is not known: left out, a misspelt profile would be the default one."""
    names = list(known)
    for name in options:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"use one of {', '.join(names)}"
            raise TypeError(f"unknown option `{name}`; {hint}")


def call_timeout(request: pb.ExecuteRequest | pb.DispatchRequest) -> float:
    """Returns how long a call may take: never less than its hook, and never for ever."""
    if request.HasField("timeout"):
        return request.timeout.ToTimedelta().total_seconds() + MARGIN
    return LONGEST + MARGIN


def contract(name: str) -> str:
    """Returns how the protocol spells a contract, such as `claude_code`, `claude-code` or `CONTRACT_CLAUDE_CODE`."""
    spelled = f"CONTRACT_{name.upper().replace('-', '_').removeprefix('CONTRACT_') or 'UNSPECIFIED'}"
    known = types.Contract.keys()
    if spelled not in known:
        names = ", ".join(it.removeprefix("CONTRACT_").lower() for it in known[1:])
        raise ValueError(f"there is no contract `{name}`: one of {names}")
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
    """Returns how many hooks led here; what cannot be read is too deep."""
    said = os.environ.get("HOOKJAIL_DEPTH", "0")
    return min(int(said), 2**32 - 1) if said.isdecimal() else 2**32 - 1
