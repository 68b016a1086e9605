#!/usr/bin/env python3
"""Runs one hook through hookjail: client.py SOCKET EVENT COMMAND [ARGUMENT...]

The stubs are generated from ../../../proto when this starts (or from $HOOKJAIL_PROTO); a program of your own generates
them once:  python3 -m grpc_tools.protoc -I proto --python_out=. --grpc_python_out=. proto/hookjail/v1/*.proto
"""
import os
import pathlib
import sys

import grpc

sys.path.insert(0, os.environ.get("HOOKJAIL_PROTO") or str(pathlib.Path(__file__).resolve().parents[3] / "proto"))
pb, services = grpc.protos_and_services("hookjail/v1/hook_service.proto")

socket, event, *command = sys.argv[1:]
# Over a Unix socket grpcio names the socket's path as the authority, which is not a valid one: say another.
options = [("grpc.default_authority", "localhost")]
with grpc.insecure_channel(f"unix:{socket}", options=options) as channel:
    request = pb.ExecuteRequest(
        contract="CONTRACT_REYN",
        mode="shell_push",
        event=pb.Event(json=pathlib.Path(event).read_bytes(), point="turn_end"),
        hook=pb.Hook(argv=command),
    )
    try:
        answer = services.HookServiceStub(channel).Execute(request, timeout=30)
    except grpc.RpcError as error:
        sys.exit(f"{error.code().name}: {error.details()}")

print("exit code:", answer.outcome.exit_code)
print("confirmed:", answer.confinement.confirmed)
if answer.verdict.HasField("push"):
    print(f"push: {answer.verdict.push.message} (wake: {answer.verdict.push.wake})")
