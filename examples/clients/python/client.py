#!/usr/bin/env python3
"""Runs one hook through hookjail: client.py SOCKET EVENT COMMAND [ARGUMENT...]

Needs the package of clients/python.
"""
import pathlib
import sys

import hookjail

socket, event, *command = sys.argv[1:]
with hookjail.Client(f"unix://{socket}") as client:
    try:
        event = pathlib.Path(event).read_bytes()
        result = client.execute(command, contract="reyn", mode="shell_push", point="turn_end", event=event, timeout=30)
    except hookjail.HookjailError as error:
        sys.exit(str(error))

print("exit code:", result.exit_code)
print("confirmed:", result.confirmed)
if result.verdict.HasField("push"):
    print(f"push: {result.verdict.push.message} (wake: {result.verdict.push.wake})")
