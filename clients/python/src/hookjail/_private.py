"""A private daemon, as a child of this process."""

from __future__ import annotations

import importlib.metadata
import json
import os
import selectors
import shutil
import subprocess
import tempfile
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from ._errors import NotStarted

#: Seconds that a private daemon has for its self-test, and to listen.
START_TIMEOUT = 60.0
#: Seconds that a private daemon has to end.
END_TIMEOUT = 10.0
#: The shown part of the log of one that does not start, bytes from its end.
LOG_TAIL = 2048


def find_program(program: str | os.PathLike[str] | None) -> str:
    """Returns the program: `program`, else that of HOOKJAIL, of this package's wheel, or on PATH."""
    named = program or os.environ.get("HOOKJAIL")
    if named:
        return os.fspath(named)
    found = _of_wheel() or shutil.which("hookjail")
    if found is None:
        raise NotStarted(
            "`hookjail` is neither on PATH nor in this package; name it by `program` or HOOKJAIL"
        )
    return found


def _of_wheel() -> str | None:
    """Returns the program that came with this package."""
    try:
        files = importlib.metadata.files("hookjail") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    scripts = [Path(str(it.locate())) for it in files if it.name == "hookjail" and it.parent.name == "bin"]
    # `pip install --target` moves scripts without recording it.
    scripts += [Path(__file__).parents[1] / "bin" / script.name for script in scripts]
    return next((str(script.resolve()) for script in scripts if script.is_file()), None)


class PrivateServer:
    """A daemon that serves this process alone, and ends when it is closed or this process ends.

    The child's stdin is a pipe whose other end this process has, and passes to no program that it executes. A copy of this process by
    `os.fork` has it, too, until that copy ends.
    """

    def __init__(
        self,
        program: str | os.PathLike[str] | None = None,
        *,
        config: str | os.PathLike[str] | None = None,
        accept_hooks: bool = False,
        env: Mapping[str, str] | None = None,
        log: IO[bytes] | None = None,
    ) -> None:
        path = find_program(program)
        words = [path, *(["--config", os.fspath(config)] if config else []), "serve", "--private"]
        environment = {**os.environ, **(env or {})}
        # The daemon listens at an address of its own; the variable is the clients'.
        environment.pop("HOOKJAIL_ADDR", None)
        if accept_hooks:
            environment["HOOKJAIL_ACCEPT_HOOKS"] = "1"
        self._own_log = None if log else tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log or self._own_log,
                env=environment,
                # This process alone handles signals of its terminal.
                start_new_session=True,
            )
        except OSError as error:
            raise NotStarted(f"cannot start `{path}`: {error.strerror or error}") from error
        directory: list[Path] = []
        self._finalizer = weakref.finalize(self, _end, self._process, directory, self._own_log)
        try:
            report = json.loads(self._first_line())
            self.address: str = report["address"]
        except NotStarted:
            self.close()
            raise
        except (ValueError, LookupError, TypeError) as error:
            self.close()
            raise NotStarted(f"`{path}` does not report its address: {error!r}") from error
        directory.append(Path(self.address.removeprefix("unix://")).parent)

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        """Ends the daemon, with its runs."""
        self._finalizer()

    def _first_line(self) -> bytes:
        """Reads the daemon's output until it closes stdout."""
        stdout = self._process.stdout
        assert stdout is not None
        read, give_up = b"", time.monotonic() + START_TIMEOUT
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while not read.endswith(b"\n"):
                if not selector.select(give_up - time.monotonic()):
                    raise NotStarted(f"hookjail does not listen after {START_TIMEOUT:.0f} seconds{self._last_words()}")
                piece = os.read(stdout.fileno(), 4096)
                if not piece:
                    raise NotStarted(f"hookjail ended ({self._process.wait()}){self._last_words()}")
                read += piece
        stdout.close()
        return read

    def _last_words(self) -> str:
        if self._own_log is None:
            return ""
        size = self._own_log.seek(0, os.SEEK_END)
        self._own_log.seek(max(0, size - LOG_TAIL))
        return f": {self._own_log.read().decode(errors='replace').strip()}"


def _end(process: subprocess.Popen[bytes], directory: list[Path], own_log: IO[bytes] | None) -> None:
    for pipe in (process.stdin, process.stdout, own_log):
        if pipe is not None:
            pipe.close()
    try:
        code = process.wait(END_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    # A killed daemon could not remove its directory itself.
    if code != 0:
        for path in directory:
            shutil.rmtree(path, ignore_errors=True)
