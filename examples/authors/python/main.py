#!/usr/bin/env python3
"""Runs one hook of a runtime before a tool call: main.py EVENT HOOK. Exit code 0: the call may go on. 2: the call must not."""
import json
import pathlib
import subprocess
import sys

import hookjail

PROFILE = "workspace-ro"


def deny(why):
    print(f"denied: {why}")
    sys.exit(2)


def show_needs(event, hook):
    """Shows what the hook could do, and the bytes that a trust is about. Nothing of the hook runs."""
    command = ["hookjail", "run", "--private", "--dry-run", "--json", "--contract", "claude-code", "--point", "PreToolUse"]
    command += ["--profile", PROFILE, "--event", event, "--", hook]
    needs = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=30).stdout)
    written = [grant["path"] for grant in needs["grants"] if grant["access"] == "write" and grant.get("path")]
    print(f"{hook} runs under the profile {needs['confinement']['profile']}")
    print(f"  network  {needs['network']}")
    print(f"  writes   {', '.join(written) or 'a directory of its own, gone afterwards'}")
    for file in needs["files"]:
        print(f"  sha256   {file['sha256']}  {file['path']}")


event, hook = sys.argv[1], str(pathlib.Path(sys.argv[2]).resolve())
try:
    show_needs(event, hook)
    with hookjail.Client() as client:
        result = client.execute(
            [hook],
            contract="claude_code",
            point="PreToolUse",
            profile=PROFILE,
            workspace=pathlib.Path.cwd(),
            event=pathlib.Path(event).read_bytes(),
            timeout=10,
        )
except hookjail.Refused as error:
    deny(f"hookjail refuses the hook: {error.reason}")
except (hookjail.HookjailError, OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
    deny(f"hookjail is not there: {type(error).__name__}")
if not result.confirmed or result.decision not in ("ALLOW", "NONE"):
    deny(result.verdict.reason or "the hook's end is not known")
print("allowed")
