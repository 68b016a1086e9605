"""Runs reyn's sandboxed commands by hookjail: a `SandboxBackend` for reyn, for its hooks and its `exec` tool.

A profile of hookjail confines each process. A policy of reyn can narrow the profile and never widen it. A policy that requests more is
refused, and the command does not run.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from pathlib import Path

import hookjail
from hookjail import messages
from reyn.security.sandbox.backend import AxisEnforcement, AxisEnforcementDeclaration, SandboxResult, WrappedCommand
from reyn.security.sandbox.capability import CapabilityDeclaration, CapabilitySupport
from reyn.security.sandbox.policy import SandboxPolicy, expand_policy_path, resolve_passthrough_env

log = logging.getLogger(__name__)

#: Bytes of each output stream that hookjail's shipped profiles keep. A policy with a smaller limit gets that limit.
PROFILES_OUTPUT = 10 * 1024 * 1024


class HookjailBackend:
    """Runs commands by the daemon at `address`: by default the user's or the system's; that of `hookjail.PrivateServer` is this process's own.

    Commands that may write have the profile `writing`, others `reading`. Both bind the directory that a command starts in as their workspace.
    """

    name = "hookjail"

    enforced_axes = AxisEnforcementDeclaration(
        write_paths=AxisEnforcement.ENFORCES,
        # A grant cannot be revoked in part. Paths outside of the profile's grants cannot be read, denied or not.
        write_deny_paths=AxisEnforcement.DOES_NOT_ENFORCE,
        read_deny_paths=AxisEnforcement.DOES_NOT_ENFORCE,
        network=AxisEnforcement.ENFORCES,
        deny_subprocess=AxisEnforcement.ENFORCES,
        env_deny_names=AxisEnforcement.ENFORCES,
        allow_env_names=AxisEnforcement.ENFORCES,
    )
    supported_capabilities = CapabilityDeclaration(ipc_named_service=CapabilitySupport.NOT_SUPPORTED)

    def __init__(self, address: str | None = None, *, writing: str = "workspace-rw", reading: str = "workspace-ro") -> None:
        self.address, self.writing, self.reading = address, writing, reading

    def available(self) -> bool:
        try:
            hookjail.Client(self.address).close()
        except hookjail.Unreachable:
            return False
        return True

    def self_test(self) -> str | None:
        """Runs a command that writes to a permitted and to a denied path. The daemon's self-test has tested more before that."""
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
            granted, denied = Path(directory, "granted"), Path(directory, "denied")
            for path in (granted, denied):
                path.mkdir()
            # Hooks of a daemon of root's have users of their own.
            for path in (Path(directory), granted, denied):
                path.chmod(0o777)
            script = f"echo >{granted}/file; echo >{denied}/file; true"
            request = self._request(["/bin/sh", "-c", script], SandboxPolicy(write_paths=[str(granted)]), b"", directory, {})
            try:
                with hookjail.Client(self.address) as client:
                    client.send(request)
            except hookjail.HookjailError as error:
                return self._told(error)
            if not (granted / "file").exists():
                return "a command cannot write where it may"
            return "a command wrote where it may not" if (denied / "file").exists() else None

    def probe_binary(self) -> list[str] | None:
        # Only `wrap_command` would run a binary.
        return None

    def session_artifact_outside_write_scope(self, policy: SandboxPolicy) -> bool:
        # There is none.
        return True

    def wrap_command(self, argv: list[str], policy: SandboxPolicy) -> WrappedCommand:
        raise NotImplementedError("hookjail runs a command to its end, on one input: no server that goes on, such as one of MCP")

    async def run(
        self,
        argv: list[str],
        policy: SandboxPolicy,
        *,
        stdin: bytes | None = None,
        cwd: str | None = None,
        cancel_event: asyncio.Event | None = None,
        hook_process_context: object | None = None,
    ) -> SandboxResult:
        environment = hook_process_context.as_env() if hook_process_context else {}
        request = self._request(argv, policy, stdin or b"", cwd or os.getcwd(), environment)
        try:
            async with hookjail.AsyncClient(self.address) as client:
                call = asyncio.ensure_future(client.send(request))
                if cancel_event is None:
                    return self._result(await call, policy)
                canceled = asyncio.ensure_future(cancel_event.wait())
                try:
                    await asyncio.wait({call, canceled}, return_when=asyncio.FIRST_COMPLETED)
                    if call.done():
                        return self._result(call.result(), policy)
                    return SandboxResult(returncode=-1, stdout=b"", stderr=b"Command cancelled", cancelled=True)
                finally:
                    # The daemon kills what is cancelled.
                    canceled.cancel()
                    call.cancel()
                    await asyncio.gather(call, canceled, return_exceptions=True)
        except hookjail.HookjailError as error:
            return SandboxResult(returncode=-1, stdout=b"", stderr=self._told(error).encode())

    def _request(
        self, argv: list[str], policy: SandboxPolicy, stdin: bytes, cwd: str, environment: dict[str, str]
    ) -> messages.ExecuteRequest:
        writes = [expand_policy_path(path).resolve() for path in policy.write_paths]
        workspace = Path(cwd).resolve()
        cwd = str(workspace)
        # Writing includes reading. A grant that replaces a profile's writable workspace leaves the rest of the workspace closed.
        reads = [] if not writes or any(workspace.is_relative_to(path) for path in writes) else [cwd]
        request = messages.ExecuteRequest(
            event=messages.Event(json=stdin, raw=True),
            hook=hookjail.hook(argv, workspace=cwd, working_dir=cwd),
            # reyn's calls are over once its turn is.
            on_disconnect=messages.ON_DISCONNECT_KILL,
            profile=self.writing if writes else self.reading,
            narrow=messages.Narrow(
                read=reads,
                write=map(str, writes),
                without_network=not policy.network,
                without_spawn=policy.deny_subprocess,
            ),
            # The profile selects the admitted variables.
            offer=messages.Offer(env={**resolve_passthrough_env(policy), **environment}),
            max_reply_bytes=2 * policy.max_output_bytes + 1024 * 1024,
        )
        request.timeout.FromSeconds(policy.timeout_seconds)
        if policy.max_output_bytes < PROFILES_OUTPUT:
            request.narrow.output_bytes = policy.max_output_bytes
        return request

    @staticmethod
    def _result(result: hookjail.Result, policy: SandboxPolicy) -> SandboxResult:
        stderr = result.stderr
        if result.outcome == "TIMED_OUT":
            stderr += f"\nCommand timed out after {policy.timeout_seconds}s".encode()
        elif result.outcome == "EXEC_FAILED":
            stderr += result.message.exec_problem.encode()
        code = -1 if result.exit_code is None else result.exit_code
        return SandboxResult(returncode=code, stdout=result.stdout, stderr=stderr, truncated=result.truncated)

    @staticmethod
    def _told(error: hookjail.HookjailError) -> str:
        """Returns the text for reyn and its model. The operator's fix is in the log alone."""
        if isinstance(error, hookjail.Refused) and error.fix:
            log.warning("hookjail: %s (request %s); the operator can: %s", error, error.request_id, error.fix)
        return f"hookjail: {error}"
