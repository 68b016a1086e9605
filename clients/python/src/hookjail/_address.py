"""Finds the daemon, and checks that it is trusted."""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
from pathlib import Path
from urllib.parse import quote

from ._errors import Unreachable

SYSTEM_SOCKET = Path("/run/hookjail/hookjail.sock")


def find(address: str | None) -> Path:
    """Returns the socket: `address`, else that of HOOKJAIL_ADDR, else the first that exists of the user's and the system's."""
    named = address or os.environ.get("HOOKJAIL_ADDR")
    if named:
        path = named.removeprefix("unix://").removeprefix("unix:")
        if "://" in path or not path:
            raise ValueError(f"`{named}` is no Unix socket; write unix:///PATH, or pass the client a channel of your own")
        return Path(path).absolute()
    usual = _usual()
    for socket_path in usual:
        if socket_path.exists():
            return socket_path
    places = " and ".join(f"`{it}`" for it in usual)
    raise Unreachable(f"no daemon listens at {places}; start `hookjail serve`, or use Client.private()")


def target(path: Path) -> str:
    """Returns the name of a socket for gRPC, which decodes it as a URI."""
    return f"unix://{quote(str(path))}"


def check(path: Path) -> None:
    """Connects once, and refuses a daemon that is neither this user's nor root's: it gets events, and its answers are trusted."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(os.fspath(path))
            if sys.platform == "linux":
                credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
                _, uid, _ = struct.unpack("3i", credentials)
                if uid not in (0, os.geteuid()):
                    raise Unreachable(f"uid {uid} listens at `{path}`, and only a daemon of this user or of root is trusted")
    except OSError as error:
        raise Unreachable(f"no daemon answers at `{path}`: {error.strerror or error}") from error


def _usual() -> list[Path]:
    # Root has only the system's socket: XDG_RUNTIME_DIR may be that of the user before `su`.
    if os.geteuid() == 0:
        return [SYSTEM_SOCKET]
    directory = _absolute("XDG_RUNTIME_DIR") or _usual_runtime()
    if directory:
        directory /= "hookjail"
    else:
        home = _absolute("HOME")
        state = _absolute("XDG_STATE_HOME") or (home and home / ".local/state")
        directory = state and state / "hookjail/run"
    return [*([directory / "hookjail.sock"] if directory else []), SYSTEM_SOCKET]


def _absolute(name: str) -> Path | None:
    path = Path(os.environ.get(name, ""))
    return path if path.is_absolute() else None


def _usual_runtime() -> Path | None:
    """Returns systemd's directory of this user, where the environment does not name it."""
    path = Path(f"/run/user/{os.geteuid()}")
    try:
        found = path.lstat()
    except OSError:
        return None
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
    return path if is_own else None
