"""A daemon of the tests' own: its user's directories are temporary, and it accepts every hook."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import hookjail

#: The time limit of everything that does not depend on a hook's own time.
SOON = 30.0


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Makes this process, and its children, use directories of the test for those of its user."""
    # Not pytest's, which are closed: hooks of a root daemon have uids of their own.
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield prepare(Path(directory), monkeypatch)


def prepare(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("runtime", "state", "workspace"):
        (home / name).mkdir()
    (home / "workspace").chmod(0o777)
    config = home / "hookjail.toml"
    config.write_text(
        f'[hooks]\nworkspace_roots = ["{home}/workspace"]\n'
        f'[paths]\nstate = "{home}/state"\nruntime = "{home}/run"\n[server]\nsocket = "{home}/hookjail.sock"\n'
    )
    config.chmod(0o600)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / "runtime"))
    for name in ("HOOKJAIL_ADDR", "HOOKJAIL_ACCEPT_HOOKS", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def config(home: Path) -> Path:
    return home / "hookjail.toml"


@pytest.fixture
def daemon(home: Path, config: Path) -> Iterator[str]:
    """Runs a daemon, and returns its address."""
    words = [os.environ["HOOKJAIL"], "--config", str(config), "serve"]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(words, stderr=log, env={**os.environ, "HOOKJAIL_ACCEPT_HOOKS": "1"})
    path = home / "hookjail.sock"
    until(lambda: accepts(path) or process.poll() is not None)
    assert process.poll() is None, (home / "log").read_text()
    yield f"unix://{path}"
    process.terminate()
    assert process.wait(SOON) == 0


@pytest.fixture(params=["daemon", "private"])
def client(request: pytest.FixtureRequest, config: Path) -> Iterator[hookjail.Client]:
    """Returns a client of a running daemon, and one of a private daemon."""
    if request.param == "daemon":
        made = hookjail.Client(request.getfixturevalue("daemon"))
    else:
        made = hookjail.Client.private(config=config, accept_hooks=True)
    with made:
        yield made


def accepts(path: Path) -> bool:
    """Returns whether a daemon listens at a socket, which exists a moment earlier."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


def until(holds: Callable[[], object]) -> None:
    give_up = time.monotonic() + SOON
    while not holds():
        assert time.monotonic() < give_up, "it takes too long"
        time.sleep(0.02)


def processes_with(marker: str) -> list[str]:
    """Returns the command lines in which a text stands."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if marker in line:
            lines.append(line)
    return lines


def a_minute() -> str:
    """Returns a number of seconds, about a minute, that no other `sleep` has."""
    return f"60.{os.getpid()}{time.monotonic_ns() % 10**9}"


def python(script: str, *words: str) -> list[str]:
    return [sys.executable, "-c", script, *words]
