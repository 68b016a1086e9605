"""reyn's own callers, with a private daemon behind them. Run by check.sh."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import hookjail
from hookjail_backend import HookjailBackend
from reyn.hooks.shell_runner import HookProcessContext, run_shell_hook
from reyn.security.sandbox.backend import SANDBOX_POLICY_AXES, SandboxBackend
from reyn.security.sandbox.launcher import resolve_backend, run_and_classify
from reyn.security.sandbox.noop_backend import NoopBackend
from reyn.security.sandbox.policy import SandboxPolicy, unenforced_axes

SOON = 30


class Backend(unittest.TestCase):
    def setUp(self) -> None:
        self.home = Path(tempfile.mkdtemp()).resolve()
        self.addCleanup(shutil.rmtree, self.home)
        self.home.chmod(0o755)
        self.workspace = self.home / "workspace"
        self.workspace.mkdir()
        self.workspace.chmod(0o777)
        self.config = self.home / "hookjail.toml"
        self.config.write_text(
            f'[hooks]\nworkspace_roots = ["{self.workspace}"]\n[paths]\nstate = "{self.home}/state"\nruntime = "{self.home}/run"\n'
        )
        self.config.chmod(0o600)
        before = Path.cwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.workspace)
        server = hookjail.PrivateServer(config=self.config, accept_hooks=True)
        self.addCleanup(server.close)
        self.backend = HookjailBackend(server.address)

    def run_it(self, script: str, policy: SandboxPolicy, backend: object = None, **options: object):
        """Runs a line as reyn's `exec` tool does."""
        run = run_and_classify(backend or self.backend, ["/bin/sh", "-c", script], policy, cwd=str(self.workspace), **options)
        return asyncio.run(asyncio.wait_for(run, SOON)).result

    def open_directory(self, name: str) -> Path:
        directory = self.workspace / name
        directory.mkdir()
        # A root daemon's hooks have uids of their own.
        directory.chmod(0o777)
        return directory

    def test_it_is_what_reyn_takes_for_a_backend(self) -> None:
        self.assertIsInstance(self.backend, SandboxBackend)
        self.assertEqual(set(self.backend.enforced_axes.as_dict()), set(SANDBOX_POLICY_AXES))
        self.assertIs(resolve_backend(self.backend, None), self.backend)
        self.assertTrue(self.backend.available())
        self.assertIsNone(self.backend.self_test())
        self.assertFalse(HookjailBackend(f"unix://{self.home}/none").available())
        policy = SandboxPolicy(write_paths=["/x"], read_deny_paths=["/y"], network=False)
        self.assertEqual(unenforced_axes(self.backend, policy), ["read_deny_paths"])
        self.assertIsNone(self.backend.probe_binary())
        self.assertTrue(self.backend.session_artifact_outside_write_scope(policy))
        with self.assertRaises(NotImplementedError):
            self.backend.wrap_command(["/bin/cat"], policy)

    def test_a_command_reads_its_input_and_its_end_comes_back(self) -> None:
        result = self.run_it("cat; echo err >&2; exit 3", SandboxPolicy(), stdin=b"in\xff")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (3, b"in\xff", b"err\n"))
        self.assertFalse(result.truncated or result.cancelled)
        result = self.run_it("echo 123456789", SandboxPolicy(max_output_bytes=4))
        self.assertEqual((result.stdout, result.truncated), (b"1234", True))
        result = self.run_it("echo begun; sleep 600", SandboxPolicy(timeout_seconds=1))
        self.assertEqual((result.returncode, result.stdout), (-1, b"begun\n"))
        self.assertIn(b"Command timed out after 1s", result.stderr)
        result = self.run_it("kill -KILL $$", SandboxPolicy())
        self.assertEqual(result.returncode, -1)

    def test_it_writes_where_its_policy_says_and_nowhere_else(self) -> None:
        granted, other = self.open_directory("granted"), self.open_directory("other")
        script = f"echo 1 >{granted}/made; echo 2 >{other}/made; cat {self.home}/hookjail.toml"
        policy = SandboxPolicy(write_paths=[str(granted)])
        # The control: reyn's backend that enforces nothing.
        control = self.run_it(script, policy, NoopBackend())
        self.assertTrue((granted / "made").exists() and (other / "made").exists() and b"workspace_roots" in control.stdout)
        for directory in (granted, other):
            (directory / "made").unlink()
        result = self.run_it(script, policy)
        self.assertTrue((granted / "made").exists(), result)
        self.assertFalse((other / "made").exists())
        self.assertEqual((result.stdout, result.returncode), (b"", 1))
        # Without any, nothing in the workspace.
        self.run_it(f"echo 3 >{granted}/more", SandboxPolicy())
        self.assertFalse((granted / "more").exists())
        # A path beyond every profile is refused, and nothing runs.
        result = self.run_it(f"echo 4 >{granted}/none", SandboxPolicy(write_paths=[str(self.home)]))
        self.assertEqual(result.returncode, -1)
        self.assertIn(b"hookjail: PROFILE_WIDENED", result.stderr)
        self.assertFalse((granted / "none").exists())

    def test_a_policy_takes_processes_away(self) -> None:
        self.assertEqual(self.run_it("/bin/echo hi; true", SandboxPolicy()).stdout, b"hi\n")
        self.assertEqual(self.run_it("/bin/echo hi; true", SandboxPolicy(deny_subprocess=True)).stdout, b"")

    def test_the_environment_is_what_policy_and_profile_let_in(self) -> None:
        for name in ("HOOK_NOTE", "A_SECRET"):
            os.environ[name] = "value"
            self.addCleanup(os.environ.pop, name)
        context = HookProcessContext(project_dir=self.workspace, agent_base_dir=self.workspace, agent_name="helper")
        script = 'echo "$HOOK_NOTE,$A_SECRET,$REYN_AGENT_NAME"'

        def seen(policy: SandboxPolicy, backend: object = None) -> bytes:
            return self.run_it(script, policy, backend, hook_process_context=context).stdout

        # The control: reyn's backend that enforces nothing.
        self.assertEqual(seen(SandboxPolicy(), NoopBackend()), b"value,value,helper\n")
        self.assertEqual(seen(SandboxPolicy()), b"value,,helper\n")
        self.assertEqual(seen(SandboxPolicy(env_deny_names=["HOOK_NOTE"])), b",,helper\n")
        self.assertEqual(seen(SandboxPolicy(allow_env_names=[])), b",,helper\n")

    def test_a_command_that_is_cancelled_is_killed(self) -> None:
        begun = self.open_directory("granted") / "begun"
        marker = f"600.{os.getpid()}"

        async def cancel():
            event = asyncio.Event()
            policy = SandboxPolicy(write_paths=[str(begun.parent)])
            words = ["/bin/sh", "-c", f"echo >{begun}; sleep {marker}"]
            run = asyncio.create_task(self.backend.run(words, policy, cwd=str(self.workspace), cancel_event=event))
            while not begun.exists() and not run.done():
                await asyncio.sleep(0.02)
            event.set()
            result = await run
            while subprocess.run(["pgrep", "-f", f"sleep {marker}"], stdout=subprocess.DEVNULL).returncode == 0:
                await asyncio.sleep(0.02)
            return result

        result = asyncio.run(asyncio.wait_for(cancel(), SOON))
        self.assertEqual((result.returncode, result.cancelled), (-1, True))
        event = asyncio.Event()
        self.assertEqual(self.run_it("echo hi", SandboxPolicy(), cancel_event=event).stdout, b"hi\n")

    def test_a_hook_of_reyns_runs_by_it(self) -> None:
        allowed = self.home / "allowed.json"
        os.environ["REYN_ACCEPT_HOOKS"] = "1"
        self.addCleanup(os.environ.pop, "REYN_ACCEPT_HOOKS")
        seen: list[tuple[str, dict[str, object]]] = []
        context = HookProcessContext(project_dir=self.workspace, agent_base_dir=self.workspace, agent_name="helper")
        run = run_shell_hook(
            ["/bin/sh", "-c", 'read -r event; echo "$event"'],
            {"point": "turn_end"},
            allowlist_path=allowed,
            capture_stdout=True,
            cwd=str(self.workspace),
            emit_event=lambda name, **fields: seen.append((name, fields)),
            hook_process_context=context,
            sandbox_backend=self.backend,
        )
        self.assertEqual(json.loads(asyncio.run(asyncio.wait_for(run, SOON)) or ""), {"point": "turn_end"})
        self.assertEqual([(name, fields["returncode"]) for name, fields in seen], [("hook_shell_executed", 0)])

    def test_a_command_that_nobody_allowed_does_not_run_and_reyn_hears_no_way_around(self) -> None:
        with contextlib.closing(hookjail.PrivateServer(config=self.config)) as server:
            backend = HookjailBackend(server.address)
            with self.assertLogs("hookjail_backend", "WARNING") as logged:
                result = self.run_it("echo nobody allowed this", SandboxPolicy(), backend)
            self.assertEqual((result.returncode, result.stdout), (-1, b""))
            self.assertIn(b"hookjail: CONSENT_REQUIRED", result.stderr)
            self.assertNotIn(b"hookjail allow", result.stderr)
            self.assertIn("hookjail allow", logged.output[0])
        gone = self.run_it("echo hi", SandboxPolicy(), backend)
        self.assertEqual((gone.returncode, gone.stdout), (-1, b""))
        self.assertIn(b"no daemon answers", gone.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
