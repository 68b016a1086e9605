#!/usr/bin/env python3
"""Receives the traces of a daemon, directly and through a collector, and checks their content.

Needs the packages of traces-requirements.txt. Run: traces.py PROGRAM
"""

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from concurrent import futures
from pathlib import Path

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as rpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"
SOON = 30
STAGES = ["admission", "queue", "setup", "run", "interpret", "record"]


class Receiver(rpc.TraceServiceServicer):
    """Keeps what it is sent; while it is held, it answers nothing."""

    def __init__(self):
        self.changed = threading.Condition()
        self.spans = []
        self.resources = []
        self.exports = 0
        self.held = threading.Event()
        self.held.set()
        self.server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
        rpc.add_TraceServiceServicer_to_server(self, self.server)
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def Export(self, request, context):
        with self.changed:
            self.exports += 1
            self.changed.notify_all()
        self.held.wait()
        with self.changed:
            for of_resource in request.resource_spans:
                self.resources.append({it.key: it.value.string_value for it in of_resource.resource.attributes})
                for scope in of_resource.scope_spans:
                    self.spans.extend(scope.spans)
            self.changed.notify_all()
        return service.ExportTraceServiceResponse()

    def until(self, what, holds):
        with self.changed:
            assert self.changed.wait_for(lambda: holds(self), SOON), f"{what} did not come: {self.spans}"

    def with_root(self, name, **attributes):
        """Waits for a span of that name with these attributes, and returns it."""
        wanted = {"hookjail." + key: value for key, value in attributes.items()}

        def found(_):
            return [it for it in self.spans if it.name == name and wanted.items() <= texts(it).items()]

        self.until(f"{name} with {wanted}", lambda it: found(it))
        spans = found(self)
        assert len(spans) == 1, spans
        return spans[0]

    def below(self, span):
        return {it.name: it for it in self.spans if it.parent_span_id == span.span_id}


def texts(span):
    return {it.key: it.value.string_value or str(it.value.int_value) for it in span.attributes}


class Daemon:
    def __init__(self, program, directory, endpoint):
        self.program = program
        self.directory = Path(directory)
        self.socket = self.directory / "sock"
        self.workspace = self.directory / "workspace"
        self.workspace.mkdir(mode=0o755)
        config = self.directory / "hookjail.toml"
        config.write_text(
            f'[server]\nsocket = "{self.socket}"\n'
            f'[paths]\nstate = "{directory}/state"\nruntime = "{directory}/run"\n'
            f'[traces]\nendpoint = "http://{endpoint}"\nservice_name = "hooks-of-tests"\n'
            f'[hooks]\nworkspace_roots = ["{self.workspace}"]\n'
            '[metrics]\nlisten = "127.0.0.1:0"\n'
        )
        config.chmod(0o600)
        self.log = self.directory / "log"
        env = {**os.environ, "HOOKJAIL_ACCEPT_HOOKS": "1", "NO_COLOR": "1", "HOME": str(directory)}
        with self.log.open("w") as log:
            self.process = subprocess.Popen([program, "--config", config, "serve"], env=env, stderr=log)
        wait_for("the daemon", lambda: self.socket.exists(), self.process)

    def call(self, *words, traced=True):
        """Runs a command of hookjail's; returns its exit code and what it printed."""
        env = {key: value for key, value in os.environ.items() if not key.startswith("TRACE")}
        if traced:
            env |= {"TRACEPARENT": f"00-{TRACE}-{CALLER}-01", "TRACESTATE": "of=tests"}
        words = [self.program, words[0], "--connect", str(self.socket), *words[1:]]
        done = subprocess.run(
            words,
            cwd=self.workspace,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SOON,
        )
        return done.returncode, done.stdout + done.stderr

    def dropped(self):
        address = re.search(r"serving metrics address=(\S+)", self.log.read_text())[1]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=SOON) as answer:
            return int(re.search(rb"\nhookjail_spans_dropped_total (\d+)", answer.read())[1])

    def end(self):
        self.process.terminate()
        assert self.process.wait(SOON) == 0, self.log.read_text()


def wait_for(what, holds, process):
    until = time.monotonic() + SOON
    while not holds():
        assert process.poll() is None, f"{what} ended"
        assert time.monotonic() < until, f"{what} is not there"
        time.sleep(0.02)


def check_calls(daemon, receiver):
    code, printed = daemon.call("run", "--mirror", "--", "/bin/sh", "-c", "echo $TRACEPARENT $TRACESTATE; exit 3")
    assert code == 3, printed
    call = receiver.with_root("hookjail.execute", outcome="exited")
    receiver.until("the stages", lambda it: len(it.below(call)) == 5)
    stages = receiver.below(call)
    stages |= receiver.below(stages["hookjail.admission"])
    assert sorted(stages) == sorted("hookjail." + name for name in STAGES), stages
    assert call.parent_span_id.hex() == CALLER
    assert call.kind == Span.SPAN_KIND_SERVER
    for span in [call, *stages.values()]:
        assert span.trace_id.hex() == TRACE
        assert span.trace_state == "of=tests"
        assert span.status.code == Status.STATUS_CODE_UNSET, span
        assert call.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
        assert span.end_time_unix_nano <= call.end_time_unix_nano
    now = time.time_ns()
    assert now - 600 * 10**9 < call.start_time_unix_nano < now
    attributes = texts(call)
    assert attributes.pop("hookjail.run_id")
    assert attributes.pop("hookjail.backend")
    assert attributes == {
        "hookjail.contract": "observe",
        "hookjail.outcome": "exited",
        "hookjail.profile": "strict",
        "hookjail.verdict": "NONE",
        "rpc.method": "hookjail.v1.HookService/Execute",
        "rpc.system.name": "grpc",
    }, attributes
    run = stages["hookjail.run"]
    assert texts(run) == {"process.exit.code": "3"}
    assert printed == f"00-{TRACE}-{run.span_id.hex()}-01 of=tests\n", printed
    assert receiver.resources[0]["service.name"] == "hooks-of-tests"
    assert receiver.resources[0]["service.version"]
    print("ok: a hook that ran")

    code, printed = daemon.call("run", "--profile", "nobodys", "--", "/bin/true")
    assert "PROFILE_UNKNOWN" in printed, printed
    refused = receiver.with_root("hookjail.execute", profile="nobodys")
    receiver.until("the stages", lambda it: len(it.below(refused)) == 2)
    assert refused.status.code == Status.STATUS_CODE_ERROR
    assert refused.status.message == texts(refused)["error.type"] == "PROFILE_UNKNOWN"
    admission = receiver.below(refused)["hookjail.admission"]
    assert admission.status.message == "PROFILE_UNKNOWN"
    print("ok: a refusal")

    code, printed = daemon.call("run", "--timeout", "1s", "--", "/bin/sleep", "60")
    late = receiver.with_root("hookjail.execute", outcome="timed_out")
    receiver.until("the stages", lambda it: len(it.below(late)) == 5)
    run = receiver.below(late)["hookjail.run"]
    for span in [late, run]:
        assert span.status.code == Status.STATUS_CODE_ERROR
        assert span.status.message == "timed_out", span
    assert run.end_time_unix_nano - run.start_time_unix_nano > 10**8
    print("ok: a timeout")

    hooks = ["--hook", "tool.pre=exit 0", "--hook", "tool.pre=echo"]
    code, printed = daemon.call("dispatch", "--contract", "loom", "--point", "tool.pre", "--profile", "strict", *hooks)
    assert code == 0, printed
    dispatch = receiver.with_root("hookjail.dispatch")
    assert dispatch.parent_span_id.hex() == CALLER
    assert texts(dispatch)["hookjail.point"] == "tool.pre"
    with receiver.changed:
        below = [it for it in receiver.spans if it.parent_span_id == dispatch.span_id]
    assert [it.name for it in below] == ["hookjail.execute"] * 2, below
    assert all(it.kind == Span.SPAN_KIND_INTERNAL for it in below)
    assert all("hookjail.run" in receiver.below(it) for it in below)
    print("ok: a dispatch of two hooks")

    code, printed = daemon.call("run", "--mirror", "--", "/bin/sh", "-c", "echo $TRACEPARENT", traced=False)
    begun = printed.split("-")[1]
    assert re.fullmatch("[0-9a-f]{32}", begun) and begun != TRACE, printed
    receiver.until("the new trace", lambda it: any(span.trace_id.hex() == begun for span in it.spans))
    print("ok: a trace that begins here")


def check_bad_collectors(daemon, receiver):
    """A collector that is silent, then away."""
    assert daemon.dropped() == 0
    exports = receiver.exports
    receiver.held.clear()
    assert daemon.call("run", "--", "/bin/true")[0] == 0
    receiver.until("an export", lambda it: it.exports > exports)
    for _ in range(3):
        assert daemon.call("run", "--", "/bin/true")[0] == 0
    receiver.held.set()
    print("ok: calls while the collector is silent")
    receiver.server.stop(None).wait()
    for _ in range(3):
        assert daemon.call("run", "--", "/bin/true")[0] == 0
    wait_for("the count of dropped spans", lambda: daemon.dropped() >= 21, daemon.process)
    assert "spans were dropped: the collector did not take them" in daemon.log.read_text()
    print("ok: calls while the collector is away; its spans are counted")


def main():
    program = os.path.abspath(sys.argv[1])
    import rotel

    collector = Path(rotel.__file__).parent / "rotel-agent"
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        receiver = Receiver()
        daemon = Daemon(program, directory, f"127.0.0.1:{receiver.port}")
        try:
            check_calls(daemon, receiver)
            check_bad_collectors(daemon, receiver)
            daemon.end()
        finally:
            daemon.process.kill()
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        receiver = Receiver()
        port, other = free_ports()
        words = ["start", "--otlp-grpc-endpoint", f"127.0.0.1:{port}", "--otlp-http-endpoint", f"127.0.0.1:{other}"]
        words += ["--exporter", "otlp", "--otlp-exporter-endpoint", f"http://127.0.0.1:{receiver.port}"]
        log = open(Path(directory) / "collector.log", "w+")
        collecting = subprocess.Popen([collector, *words], stdout=log, stderr=log)
        daemon = None
        try:
            wait_for("the collector", lambda: listens(port), collecting)
            daemon = Daemon(program, directory, f"127.0.0.1:{port}")
            check_calls(daemon, receiver)
            assert daemon.dropped() == 0
            daemon.end()
        except BaseException:
            log.seek(0)
            print(log.read(), file=sys.stderr)
            raise
        finally:
            for process in filter(None, [collecting, daemon and daemon.process]):
                process.kill()
                process.wait()
        print("ok: all of it through a collector, rotel")


def free_ports():
    import socket

    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [it.getsockname()[1] for it in sockets]
    for it in sockets:
        it.close()
    return ports


def listens(port):
    import socket

    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    main()
