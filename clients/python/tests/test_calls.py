"""Results of calls of a daemon, and of a private one."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from conftest import SOON, a_minute, processes_with

import hookjail
from hookjail.messages import ExecuteRequest, InlineHook


def test_a_hook_reads_its_event_and_its_end_is_a_result(client: hookjail.Client) -> None:
    result = client.execute(["/bin/cat"], event={"tool": "Bash", "ümläut": [1, None]}, timeout=20)
    assert json.loads(result.stdout) == {"tool": "Bash", "ümläut": [1, None]}
    assert (result.outcome, result.exit_code, result.signal, result.stderr) == ("EXITED", 0, None, b"")
    assert (result.backend, result.profile, result.confirmed, result.decision) == ("landlock", "strict", True, "NONE")
    assert result.duration.total_seconds() > 0 and result.run_id and not result.truncated
    assert result.message.audit.run_id == result.run_id
    result = client.execute(["/bin/cat"], event=b"\xff\0", raw=True)
    assert result.stdout == b"\xff\0"


def test_a_hook_that_fails_is_a_result(client: hookjail.Client) -> None:
    result = client.execute(["/bin/sh", "-c", "echo out; echo err >&2; exit 7"])
    assert (result.outcome, result.exit_code, result.stdout, result.stderr) == ("EXITED", 7, b"out\n", b"err\n")
    assert result.verdict.failed
    result = client.execute(["/bin/sh", "-c", "kill -TERM $$"])
    assert (result.outcome, result.exit_code, result.signal) == ("SIGNALED", None, 15)


def test_a_hook_that_takes_too_long_is_a_result(client: hookjail.Client) -> None:
    marker = a_minute()
    result = client.execute(["/bin/sleep", marker], timeout=1)
    assert (result.outcome, result.exit_code) == ("TIMED_OUT", None)
    assert processes_with(marker) == []


def test_a_refusal_has_its_reason_and_what_the_operator_can_do(config: Path) -> None:
    with hookjail.Client.private(config=config) as client:
        with pytest.raises(hookjail.Refused) as refused:
            client.execute(["/bin/echo", "hello"], request_id="asked")
        error = refused.value
        assert (error.reason, error.request_id) == ("CONSENT_REQUIRED", "asked")
        assert str(error) == "CONSENT_REQUIRED: no consent allows this command under this profile"
        assert error.fix == f"hookjail allow --config {config} --profile strict -- /bin/echo hello"
        assert error.fix not in str(error) + repr(error)
        # The control: once that was done, it runs.
        subprocess.run([os.environ["HOOKJAIL"], *error.fix.split()[1:]], check=True, capture_output=True)
        assert client.execute(["/bin/echo", "hello"]).stdout == b"hello\n"


def test_what_is_wrong_with_a_request_is_said(client: hookjail.Client) -> None:
    with pytest.raises(hookjail.Refused, match="PROFILE_UNKNOWN: there is no profile `nope`"):
        client.execute(["/bin/true"], profile="nope")
    with pytest.raises(hookjail.Refused) as refused:
        client.execute(["/bin/true"], cwd="relative")
    assert refused.value.reason == "INVALID_REQUEST" and "hook.working_dir" in refused.value.fields
    with pytest.raises(ValueError, match="unknown contract `nope`; use one of observe, reyn"):
        client.execute(["/bin/true"], contract="nope")


def test_a_misspelt_option_is_an_error_that_names_it(client: hookjail.Client) -> None:
    misspelt = {"profil": "strict", "timout": 20, "workspce": "/", "requestid": "one"}
    for (wrong, value), right in zip(misspelt.items(), ("profile", "timeout", "workspace", "request_id")):
        options: dict[str, Any] = {wrong: value}
        message = f"^unknown option `{wrong}`; did you mean `{right}`\\?$"
        with pytest.raises(TypeError, match=message):
            client.execute(["/bin/true"], **options)
        with pytest.raises(TypeError, match=message):
            client.dispatch("PreToolUse", contract="claude_code", event={}, **options)


def test_a_misspelt_profile_runs_nothing_and_the_right_one_counts(client: hookjail.Client, home: Path) -> None:
    made = home / "workspace" / "made"
    command = ["/bin/sh", "-c", f"echo new >{made}"]
    options: dict[str, Any] = {"workspace": made.parent, "request_id": "one"}
    with pytest.raises(TypeError, match="`profil`"):
        client.execute(command, profil="workspace-rw", **options)  # type: ignore[call-arg]
    assert not made.exists()
    result = client.execute(command, profile="workspace-rw", **options)
    assert (result.exit_code, result.profile, made.exists()) == (0, "workspace-rw", True)


def test_an_option_of_another_call_or_like_none_is_an_error(client: hookjail.Client) -> None:
    with pytest.raises(TypeError, match="^unknown option `raw`; use one of contract, event, tool, hooks, profile, "):
        client.dispatch("PreToolUse", contract="claude_code", raw=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="^unknown option `xyz`; use one of contract, point, mode, event, raw, profile, "):
        client.execute(["/bin/true"], xyz=None)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="^unknown option `workin_dir`; did you mean `working_dir`\\?$"):
        hookjail.hook(["/bin/true"], workin_dir="/")


def test_an_asyncio_client_takes_no_misspelt_option(daemon: str) -> None:
    async def calls() -> None:
        async with hookjail.AsyncClient(daemon) as client:
            for call in (client.execute(["/bin/true"], profil="strict"), client.dispatch("Stop", profil="strict")):  # type: ignore[call-arg]
                with pytest.raises(TypeError, match="^unknown option `profil`; did you mean `profile`"):
                    await call
            assert (await client.execute(["/bin/true"], profile="strict")).exit_code == 0

    asyncio.run(calls())


MAKERS = [hookjail.Client, hookjail.Client.private, hookjail.AsyncClient, hookjail.AsyncClient.private, hookjail.PrivateServer]


@pytest.mark.parametrize("make", MAKERS)
def test_what_makes_a_client_takes_no_misspelt_option(make: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'confg'"):
        make(confg="/none/such")


def test_a_hook_is_denied_what_its_profile_does_not_grant(client: hookjail.Client, home: Path) -> None:
    secret, workspace = home / "secret", home / "workspace"
    secret.write_text("secret")
    (workspace / "note").write_text("note")
    for path in (secret, workspace / "note"):
        path.chmod(0o644)
    script = f"cat {secret}; cat note; echo new > made"
    # The control: the same line without hookjail.
    control = subprocess.run(["/bin/sh", "-c", script], cwd=workspace, capture_output=True, check=True)
    assert control.stdout == b"secretnote"
    (workspace / "made").unlink()
    result = client.execute(["/bin/sh", "-c", script], profile="workspace-ro", workspace=workspace)
    assert result.stdout == b"note" and not (workspace / "made").exists()
    assert b"secret: Permission denied" in result.stderr and result.exit_code != 0
    result = client.execute(["/bin/sh", "-c", script], profile="workspace-rw", workspace=str(workspace))
    assert result.stdout == b"note" and (workspace / "made").exists()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connect = f"exec 3<>/dev/tcp/127.0.0.1/{listener.getsockname()[1]}"
        assert subprocess.run(["/bin/bash", "-c", connect]).returncode == 0
        result = client.execute(["/bin/bash", "-c", connect])
    assert result.exit_code != 0 and result.verdict.sandbox_denied


def test_a_workspace_and_a_variable_are_the_hooks(client: hookjail.Client, home: Path) -> None:
    inner = home / "workspace" / "inner"
    inner.mkdir(mode=0o755)
    script = 'pwd; echo "$LANG"'
    result = client.execute(
        ["/bin/sh", "-c", script], profile="workspace-ro", workspace=home / "workspace", cwd=inner, env={"LANG": "C.UTF-8"}
    )
    assert result.stdout.decode() == f"{inner.resolve()}\nC.UTF-8\n"


def test_hooks_of_a_point_come_to_one_answer(client: hookjail.Client) -> None:
    guard = hookjail.hook("grep -q rm && { echo 'no rm' >&2; exit 2; }; exit 0", name="guard")
    hooks = [InlineHook(hook=hookjail.hook(["/bin/true"], name="first")), InlineHook(hook=guard, profile="pipeline")]

    def ask(command: str) -> hookjail.Dispatched:
        event = {"tool_name": "Bash", "tool_input": {"command": command}}
        return client.dispatch("PreToolUse", contract="claude_code", event=event, hooks=hooks, profile="strict", timeout=20)

    denied = ask("rm -rf /")
    assert (denied.decision, denied.blocked_by, denied.answer.reason) == ("DENY", "guard", "no rm")
    ends = [(hook.name, hook.decision, hook.result and hook.result.exit_code) for hook in denied.hooks]
    assert ends == [("first", "NONE", 0), ("guard", "DENY", 2)]
    allowed = ask("ls")
    assert (allowed.decision, allowed.blocked_by) == ("NONE", None)


def test_a_hook_that_is_refused_in_a_dispatch_says_why(config: Path) -> None:
    with hookjail.Client.private(config=config) as client:
        hooks = [InlineHook(hook=hookjail.hook(["/bin/true"], name="one"))]
        answer = client.dispatch("PreToolUse", contract="claude_code", hooks=hooks, profile="strict", event={})
    (hook,) = answer.hooks
    assert hook.result is None and hook.refused is not None and hook.refused.reason == "CONSENT_REQUIRED"
    assert answer.decision == hook.decision


def test_configured_hooks_run_at_their_point(config: Path) -> None:
    with config.open("a") as file:
        file.write('[[hook]]\ncontract = "claude_code"\npoint = "Stop"\nname = "configured"\ncommand = ["/bin/echo", "hi"]\n')
        file.write('profile = "strict"\n')
    with hookjail.Client.private(config=config, accept_hooks=True) as client:
        answer = client.dispatch("Stop", event={})
    assert [(hook.name, hook.result and hook.result.stdout) for hook in answer.hooks] == [("configured", b"hi\n")]


def test_fifty_calls_at_once(client: hookjail.Client) -> None:
    with ThreadPoolExecutor(50) as pool:
        results = list(pool.map(lambda n: client.execute(["/bin/echo", str(n)]).stdout, range(50)))
    assert results == [f"{n}\n".encode() for n in range(50)]


def test_fifty_calls_at_once_of_one_event_loop(config: Path, daemon: str) -> None:
    async def calls() -> None:
        for made in (hookjail.AsyncClient(daemon), await hookjail.AsyncClient.private(config=config, accept_hooks=True)):
            async with made as client:
                results = await asyncio.gather(*(client.execute(["/bin/echo", str(n)]) for n in range(50)))
                assert [result.stdout for result in results] == [f"{n}\n".encode() for n in range(50)]
                with pytest.raises(hookjail.Refused, match="PROFILE_UNKNOWN"):
                    await client.execute(["/bin/true"], profile="nope")
                answer = await client.dispatch("PreToolUse", contract="claude_code", event={})
                assert (answer.decision, answer.hooks) == ("NONE", [])

    asyncio.run(calls())


def test_a_call_that_is_cancelled_ends_its_hook(daemon: str) -> None:
    marker = a_minute()

    async def call() -> None:
        async with hookjail.AsyncClient(daemon) as client:
            called = asyncio.create_task(client.execute(["/bin/sleep", marker]))
            while not processes_with(marker):
                await asyncio.sleep(0.02)
            called.cancel()
            with pytest.raises(asyncio.CancelledError):
                await called
            # The channel must exist for the daemon to receive it.
            while processes_with(marker):
                await asyncio.sleep(0.02)

    asyncio.run(asyncio.wait_for(call(), SOON))


def test_where_no_daemon_is_it_is_said_so(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(hookjail.Unreachable, match=f"no daemon answers at `{home}/none`: No such file or directory"):
        hookjail.Client(f"unix://{home}/none")
    monkeypatch.setenv("HOOKJAIL_ADDR", f"unix:{home}/other")
    with pytest.raises(hookjail.Unreachable, match=f"`{home}/other`"):
        hookjail.Client()
    with pytest.raises(ValueError, match="is no Unix socket"):
        hookjail.Client("https://localhost:1")
    monkeypatch.delenv("HOOKJAIL_ADDR")
    if not os.path.exists("/run/hookjail/hookjail.sock"):
        own = "" if os.geteuid() == 0 else f"`{home}/runtime/hookjail/hookjail.sock` and "
        with pytest.raises(hookjail.Unreachable, match=f"no daemon listens at {own}`/run/hookjail/hookjail.sock`; start"):
            hookjail.Client()


def test_a_daemon_is_found_by_the_environment(daemon: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for spelled in (daemon, daemon.removeprefix("unix://"), daemon.replace("unix://", "unix:")):
        monkeypatch.setenv("HOOKJAIL_ADDR", spelled)
        with hookjail.Client() as client:
            assert client.execute(["/bin/true"]).exit_code == 0
    if os.geteuid() != 0:
        monkeypatch.delenv("HOOKJAIL_ADDR")
        (home / "runtime/hookjail").mkdir()
        (home / "runtime/hookjail/hookjail.sock").symlink_to(home / "hookjail.sock")
        with hookjail.Client() as client:
            assert client.execute(["/bin/true"]).exit_code == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user's daemon")
def test_a_daemon_of_another_user_is_not_believed(home: Path) -> None:
    path = home / "workspace" / "sock"
    listens = f"s = socket.socket(socket.AF_UNIX); s.bind({str(path)!r}); s.listen()"
    script = f"import socket, sys; {listens}; print('listens', flush=True); sys.stdin.read()"
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", script]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stranger:
        assert stranger.stdout is not None and stranger.stdout.readline() == b"listens\n"
        with pytest.raises(hookjail.Unreachable, match="uid 65534 listens at"):
            hookjail.Client(f"unix://{path}")


def test_a_call_that_breaks_is_told_from_a_refusal(home: Path) -> None:
    path = home / "nobody"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with hookjail.Client(f"unix://{path}") as client:
            listener.close()
            path.unlink()
            with pytest.raises(hookjail.CallFailed) as failed:
                client.execute(["/bin/true"], timeout=1)
    assert failed.value.code == grpc.StatusCode.UNAVAILABLE
    assert not isinstance(failed.value, (hookjail.Refused, hookjail.Unreachable))


def test_a_request_of_ones_own_can_be_sent(client: hookjail.Client) -> None:
    request = ExecuteRequest(hook=hookjail.hook(["/bin/sh", "-c", "echo 12345"]))
    request.narrow.output_bytes = 3
    result = client.send(request)
    assert (result.stdout, result.truncated) == (b"123", True)


def test_the_same_id_runs_nothing_twice(client: hookjail.Client) -> None:
    one, two = (client.execute(["/bin/sh", "-c", "echo $$"], request_id="once") for _ in range(2))
    assert one.run_id == two.run_id
    assert client.execute(["/bin/true"], request_id="other").run_id != one.run_id
