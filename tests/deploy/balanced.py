#!/usr/bin/env python3
"""Three daemons behind deploy/balancer/haproxy.cfg, called by mutual TLS, while one is killed and another one drains.

Every answer must be that of its own call, and no call may have run twice. HOOKJAIL names the program. Everything is on
loopback, in a temporary directory, and ends by itself.
"""
import collections
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import grpc

HERE = pathlib.Path(__file__).resolve()
REPOSITORY = HERE.parents[2]
sys.path.insert(0, str(REPOSITORY / "proto"))
pb, services = grpc.protos_and_services("hookjail/v1/hook_service.proto")

HOOKJAIL = os.environ.get("HOOKJAIL") or sys.exit("HOOKJAIL names no program")
HAPROXY = shutil.which("haproxy", path=os.environ["PATH"] + ":/usr/sbin") or sys.exit("haproxy is not installed")
USER = "nobody" if os.geteuid() == 0 else str(os.geteuid())
CALLERS = 6
SERVICE = "hooks.hookjail.test"
# Calls on one connection before its caller makes another: a load balancer sees connections only.
CALLS_OF_A_CONNECTION = 25
# Refusals by which nothing was run, so that the same call may be made again.
NOT_RUN = {"DRAINING", "OVERLOADED"}


def free_ports(count):
    """Returns unused ports."""
    sockets = [socket.socket() for _ in range(count)]
    for it in sockets:
        it.bind(("127.0.0.1", 0))
    ports = [it.getsockname()[1] for it in sockets]
    for it in sockets:
        it.close()
    return ports


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class Authority:
    """A certificate authority of this test's own."""

    def __init__(self, directory):
        self.directory = directory
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj",
                "/CN=hookjail test", "-keyout", directory / "ca.key", "-out", directory / "ca.pem")

    def issue(self, name, *others):
        """Issues a certificate with these DNS names; returns the paths of certificate and key."""
        key, request, certificate, extensions = (self.directory / f"{name}.{end}" for end in ("key", "csr", "pem", "ext"))
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}", "-keyout", key,
                "-out", request)
        names = ",".join(f"DNS:{it}" for it in (name, *others))
        extensions.write_text(f"subjectAltName={names}\nextendedKeyUsage=serverAuth,clientAuth\n")
        openssl("x509", "-req", "-in", request, "-CA", self.directory / "ca.pem", "-CAkey", self.directory / "ca.key", "-CAcreateserial",
                "-days", "1", "-extfile", extensions, "-out", certificate)
        key.chmod(0o600)
        return certificate, key


class Daemon:
    """A daemon with a journal, an allowlist and a port of its own, as on a machine of its own."""

    def __init__(self, directory, authority, port):
        self.directory, self.port = directory, port
        directory.mkdir(mode=0o711)
        # Callers expect the load balancer's name.
        certificate, key = authority.issue(f"{directory.name}.hookjail.test", SERVICE)
        self.config = directory / "hookjail.toml"
        self.config.write_text(f"""
[server]
socket = "{directory}/run/hookjail.sock"
callers = ["{USER}"]
drain = "20s"
[paths]
state = "{directory}/state"
runtime = "{directory}/run"
[network]
listen = "127.0.0.1:{port}"
certificate = "{certificate}"
key = "{key}"
client_ca = "{authority.directory}/ca.pem"
[[network.clients]]
name = "agent.hookjail.test"
user = "{USER}"
[[network.clients]]
name = "check.hookjail.test"
user = "daemon"
""".replace(f'"{os.geteuid()}"', str(os.geteuid())))
        self.config.chmod(0o600)
        subprocess.run([HOOKJAIL, "--config", self.config, "allow", "--", "/bin/cat"], check=True, capture_output=True)
        self.process = None

    def start(self):
        self.log = open(self.directory / "log", "ab")
        self.process = subprocess.Popen([HOOKJAIL, "--config", self.config, "serve"], stderr=self.log, stdin=subprocess.DEVNULL)
        wait(f"{self.directory.name} to listen", lambda: listens(self.port) or self.process.poll() is not None)
        if self.process.poll() is not None:
            sys.exit(f"the daemon {self.directory.name} ended:\n{(self.directory / 'log').read_text()}")

    def end(self, how):
        self.process.send_signal(how)
        code = self.process.wait(60)
        self.log.close()
        return code

    def runs(self):
        """Returns the ids of the requests whose hooks were started, each as often as it was."""
        text = (self.directory / "state/audit/journal.jsonl").read_text()
        records = (json.loads(line) for line in text.splitlines())
        return collections.Counter(it["request_id"] for it in records if it["record"] == "started")


def listens(port):
    with socket.socket() as it:
        return it.connect_ex(("127.0.0.1", port)) == 0


def wait(what, condition, seconds=60):
    """Waits for a condition; the time is the test's own, and fails nothing that is only slow."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            sys.exit(f"waited in vain for {what}")
        time.sleep(0.02)


def reason(error):
    """Returns the stable reason of a refusal, or None where the daemon gave none."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            found = re.search(rb"[A-Z][A-Z_]{3,}", value)
            return found and found.group().decode()
    return None


class Caller(threading.Thread):
    """Makes one call after another, and never repeats one that may have run."""

    def __init__(self, address, credentials, number, stop):
        super().__init__()
        self.address, self.credentials, self.number, self.stop = address, credentials, number, stop
        self.answered, self.wrong, self.unknown, self.again = [], [], [], 0

    def run(self):
        calls = 0
        while not self.stop.is_set():
            options = [("grpc.ssl_target_name_override", SERVICE), ("grpc.enable_retries", 0)]
            # No name of a connection is another's: grpcio shares connections of equal channels otherwise.
            options.append(("hookjail.caller", f"{self.number}-{calls}"))
            options.append(("grpc.use_local_subchannel_pool", 1))
            with grpc.secure_channel(self.address, self.credentials, options) as channel:
                stub = services.HookServiceStub(channel)
                for _ in range(CALLS_OF_A_CONNECTION):
                    calls += 1
                    if self.stop.is_set() or not self.call(stub, calls):
                        break

    def call(self, stub, number):
        """Makes one call; returns whether the connection is of further use."""
        request_id = str(uuid.uuid4())
        event = json.dumps({"caller": self.number, "call": number}).encode()
        request = pb.ExecuteRequest(event=pb.Event(json=event), hook=pb.Hook(argv=["/bin/cat"]), request_id=request_id)
        try:
            answer = stub.Execute(request, timeout=60)
        except grpc.RpcError as error:
            why = reason(error)
            if why in NOT_RUN:
                self.again += 1
            elif error.code() == grpc.StatusCode.UNAVAILABLE:
                self.unknown.append(request_id)
            else:
                self.wrong.append(f"{error.code().name} {why}: {error.details()}")
            return False
        self.answered.append(request_id)
        if answer.stdout.strip() != event or answer.outcome.exit_code != 0 or not answer.confinement.confirmed:
            self.wrong.append(f"{request_id}: {answer}")
        return True


def balancer(directory, authority, daemons, port):
    """Starts HAProxy with the shipped configuration, but for addresses and paths."""
    certificate, key = authority.issue("check.hookjail.test")
    check = directory / "hookjail-check.pem"
    check.write_text(certificate.read_text() + key.read_text())
    text = (REPOSITORY / "deploy/balancer/haproxy.cfg").read_text()
    text, bound = re.subn(r"bind :7443", f"bind 127.0.0.1:{port}", text)
    text = text.replace("/etc/haproxy/hookjail-ca.pem", f"{authority.directory}/ca.pem").replace("/etc/haproxy/hookjail-check.pem", str(check))
    for number, daemon in enumerate(daemons, 11):
        text, found = re.subn(rf"192\.0\.2\.{number}:7443", f"127.0.0.1:{daemon.port}", text)
        bound += found
    assert bound == 1 + len(daemons), "deploy/balancer/haproxy.cfg has other addresses"
    config = directory / "haproxy.cfg"
    config.write_text(text)
    process = subprocess.Popen([HAPROXY, "-q", "-db", "-f", config], stdin=subprocess.DEVNULL)
    wait("the balancer to listen", lambda: listens(port) or process.poll() is not None)
    assert process.poll() is None, "HAProxy ended"
    return process


def main():
    with tempfile.TemporaryDirectory(prefix="hookjail-balanced-") as name:
        directory = pathlib.Path(name)
        directory.chmod(0o711)
        authority = Authority(directory)
        *ports, front = free_ports(4)
        daemons = [Daemon(directory / letter, authority, port) for letter, port in zip("abc", ports)]
        started = []
        try:
            for daemon in daemons:
                daemon.start()
                started.append(daemon.process)
            proxy = balancer(directory, authority, daemons, front)
            started.append(proxy)
            check(directory, authority, daemons, front)
        finally:
            for process in started + [it.process for it in daemons]:
                if process and process.poll() is None:
                    process.kill()
                    process.wait()


def check(directory, authority, daemons, front):
    certificate, key = authority.issue("agent.hookjail.test")
    credentials = grpc.ssl_channel_credentials(
        (directory / "ca.pem").read_bytes(), key.read_bytes(), certificate.read_bytes())
    stop = threading.Event()
    callers = [Caller(f"127.0.0.1:{front}", credentials, number, stop) for number in range(CALLERS)]
    for caller in callers:
        caller.start()
    answered = lambda: sum(len(it.answered) for it in callers)

    def more(count):
        goal = answered() + count
        wait(f"{count} more answers", lambda: answered() >= goal or any(it.wrong for it in callers), 120)
        told = [it for caller in callers for it in caller.wrong]
        assert not told, f"answered wrongly: {told[:3]}"

    first, second, third = daemons
    try:
        more(300)
        assert all(it.runs() for it in daemons), f"a daemon got no call: {[len(it.runs()) for it in daemons]}"
        first.end(signal.SIGKILL)
        more(300)
        after_kill = {it for caller in callers for it in caller.unknown}
        first.start()
        before = sum(first.runs().values())
        wait("the daemon that is back to get calls", lambda: sum(first.runs().values()) > before, 120)
        assert second.end(signal.SIGTERM) == 0, "a daemon that drains ends with 0"
        more(300)
    finally:
        stop.set()
        for caller in callers:
            caller.join()
    wrong = [it for caller in callers for it in caller.wrong]
    assert not wrong, f"answered wrongly: {wrong[:3]}"

    runs = sum((it.runs() for it in daemons), collections.Counter())
    done = [it for caller in callers for it in caller.answered]
    unknown = [it for caller in callers for it in caller.unknown]
    assert [it for it in done if runs[it] != 1] == [], "answered, and not run once"
    assert [it for it in runs if runs[it] > 1] == [], "run more than once"
    assert len(after_kill) <= CALLERS, f"of {CALLERS} calls in flight at most, {len(after_kill)} have no answer"
    # The kernel resets a connection that comes while the listener is closed; no daemon has received its call.
    at_drain = [it for it in unknown if it not in after_kill]
    assert [it for it in at_drain if runs[it]] == [], "a daemon that drains left calls that ran without an answer"
    assert len(at_drain) <= CALLERS, f"{len(at_drain)} calls have no answer of a daemon that drains"

    # The control: the same count finds a caller that repeats a call at another daemon, although the first one ran it.
    request = pb.ExecuteRequest(event=pb.Event(json=b"{}"), hook=pb.Hook(argv=["/bin/cat"]), request_id=str(uuid.uuid4()))
    for daemon in (first, third):
        options = [("grpc.ssl_target_name_override", SERVICE)]
        with grpc.secure_channel(f"127.0.0.1:{daemon.port}", credentials, options) as channel:
            services.HookServiceStub(channel).Execute(request, timeout=60)
    assert sum((it.runs() for it in daemons), collections.Counter())[request.request_id] == 2

    # The load balancer's own certificate permits checks of a daemon's health, and nothing else.
    pair = [(directory / f"check.hookjail.test.{end}").read_bytes() for end in ("key", "pem")]
    checking = grpc.ssl_channel_credentials((directory / "ca.pem").read_bytes(), *pair)
    with grpc.secure_channel(f"127.0.0.1:{first.port}", checking, [("grpc.ssl_target_name_override", SERVICE)]) as channel:
        try:
            services.HookServiceStub(channel).Execute(request, timeout=60)
            raise AssertionError("the balancer's certificate may run hooks")
        except grpc.RpcError as error:
            assert reason(error) == "PEER_NOT_ALLOWED", error

    again = sum(it.again for it in callers)
    print(f"{len(done)} calls answered, each as it was and run once; {len(after_kill)} without an answer after the kill, "
          f"{sum(runs[it] for it in after_kill)} of them run; {len(at_drain)} too late for a daemon that drained, none of them run; "
          f"{again} refused by it, and made again")


if __name__ == "__main__":
    main()
