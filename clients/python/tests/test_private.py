"""A private daemon ends with its client, or with the process that started it."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import SOON, a_minute, processes_with, python, until

import hookjail


def directories(home: Path) -> list[Path]:
    return list((home / "runtime").iterdir())


def test_it_ends_with_its_client(config: Path, home: Path) -> None:
    with hookjail.Client.private(config=config) as client:
        assert client._private is not None
        pid = client._private.pid
        (directory,) = directories(home)
        assert directory.stat().st_mode & 0o777 == 0o700
        assert Path(f"/proc/{pid}").exists()
    assert directories(home) == [] and not Path(f"/proc/{pid}").exists()


def test_it_ends_with_what_nobody_holds_any_more(config: Path, home: Path) -> None:
    server = hookjail.PrivateServer(config=config)
    assert len(directories(home)) == 1
    del server
    gc.collect()
    assert directories(home) == []


PARENT = """
import sys, hookjail
client = hookjail.Client.private(config=sys.argv[1], accept_hooks=True)
print("begins", flush=True)
client.execute(["/bin/sh", "-c", f"sleep {sys.argv[2]} & sleep {sys.argv[2]}"], profile="pipeline")
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_ends_with_its_parent_however_that_ends(how: signal.Signals, config: Path, home: Path) -> None:
    marker = a_minute()
    with subprocess.Popen(python(PARENT, str(config), marker), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None and parent.stdout.readline() == b"begins\n"
        sleeping = f"sleep {marker}"
        until(lambda: len([it for it in processes_with(sleeping) if it.startswith("sleep")]) == 2)
        assert len(directories(home)) == 1
        parent.send_signal(how)
        parent.wait(SOON)
    until(lambda: not processes_with(marker))
    until(lambda: not directories(home))


def test_what_a_parent_executes_does_not_keep_it(config: Path, home: Path) -> None:
    script = """
import subprocess, sys, hookjail
client = hookjail.Client.private(config=sys.argv[1])
sleeping = subprocess.Popen(["/bin/sleep", sys.argv[2]], start_new_session=True, stdout=subprocess.DEVNULL)
print(sleeping.pid, flush=True)
import os, signal
os.kill(os.getpid(), signal.SIGKILL)
"""
    marker = a_minute()
    ran = subprocess.run(python(script, str(config), marker), stdout=subprocess.PIPE, timeout=SOON)
    until(lambda: not directories(home))
    # The control: that one lives.
    assert processes_with(f"/bin/sleep {marker}")
    os.kill(int(ran.stdout), signal.SIGKILL)


def test_one_that_is_killed_leaves_no_directory_once_its_client_is_closed(config: Path, home: Path) -> None:
    client = hookjail.Client.private(config=config, accept_hooks=True)
    assert client._private is not None
    os.kill(client._private.pid, signal.SIGKILL)
    with pytest.raises(hookjail.CallFailed):
        client.execute(["/bin/true"], timeout=1)
    assert len(directories(home)) == 1
    client.close()
    assert directories(home) == []


def test_why_it_does_not_start_is_said(config: Path, home: Path) -> None:
    config.write_text("[server]\nno_such_key = 1\n")
    with pytest.raises(hookjail.NotStarted, match=r"(?s)hookjail ended \(125\): .*no_such_key"):
        hookjail.Client.private(config=config)
    with pytest.raises(hookjail.NotStarted, match="cannot start `/none/such`: No such file or directory"):
        hookjail.Client.private("/none/such")
    with pytest.raises(hookjail.NotStarted, match="`/bin/echo` does not report its address"):
        hookjail.Client.private("/bin/echo")
    assert directories(home) == []


def test_its_program_is_the_one_named_else_of_the_environment_else_on_the_path(
    home: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = os.environ["HOOKJAIL"]
    monkeypatch.setenv("HOOKJAIL", "/none/such")
    hookjail.PrivateServer(program, config=config).close()
    with pytest.raises(hookjail.NotStarted, match="/none/such"):
        hookjail.PrivateServer(config=config)
    monkeypatch.delenv("HOOKJAIL")
    (home / "bin").mkdir()
    (home / "bin/hookjail").symlink_to(program)
    monkeypatch.setenv("PATH", f"{home}/bin")
    hookjail.PrivateServer(config=config).close()
    if "HOOKJAIL_TEST_WHEEL" not in os.environ:
        monkeypatch.setenv("PATH", "/nonexistent")
        with pytest.raises(hookjail.NotStarted, match="`hookjail` is neither on PATH"):
            hookjail.PrivateServer(config=config)


def test_its_log_is_the_callers_where_one_is_given(config: Path, home: Path) -> None:
    with (home / "own").open("w+b") as log:
        hookjail.PrivateServer(config=config, log=log).close()
        log.seek(0)
        assert b"serving privately" in log.read()


README = Path(__file__).parents[1] / "README.md"


def test_the_ten_lines_of_the_readme_run_as_printed(home: Path) -> None:
    after = README.read_text().split("```python\n", 1)[1]
    lines, rest = after.split("```\n", 1)
    printed = rest.split("```text\n", 1)[1].split("```\n", 1)[0]
    assert len(lines.splitlines()) <= 10
    ran = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True)
    assert (ran.stdout, ran.returncode) == (printed, 0), ran.stderr
