"""Runs the shell hooks of AI-agent runtimes confined: a client of hookjail's daemon, or of one inside this process."""

from . import messages
from ._client import AsyncClient, Client
from ._errors import CallFailed, HookjailError, NotStarted, Refused, Unreachable
from ._private import PrivateServer
from ._requests import Command, DispatchOptions, Event, ExecuteOptions, hook
from ._results import Dispatched, DispatchedHook, Result

__all__ = [
    "AsyncClient",
    "CallFailed",
    "Client",
    "Command",
    "DispatchOptions",
    "Dispatched",
    "DispatchedHook",
    "Event",
    "ExecuteOptions",
    "HookjailError",
    "NotStarted",
    "PrivateServer",
    "Refused",
    "Result",
    "Unreachable",
    "hook",
    "messages",
]
