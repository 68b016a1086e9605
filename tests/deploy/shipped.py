#!/usr/bin/env python3
"""rsyslog with deploy/audit/rsyslog.conf ships a journal by TLS, over a rotation and an outage of the collector; HOOKJAIL names the program.

The collector's lines must be the journal's: `hookjail audit verify` takes them for a journal. A collector that cannot prove its name gets none.
"""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
SHIPPED = (REPOSITORY / "deploy/audit/rsyslog.conf").read_text()
HOOKJAIL = os.environ.get("HOOKJAIL") or sys.exit("HOOKJAIL names no program")
RSYSLOGD = shutil.which("rsyslogd", path=os.environ["PATH"] + ":/usr/sbin") or sys.exit("rsyslogd is not installed")
NAME = "collector.example"


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class Authority:
    """A certificate authority of this test's own."""

    def __init__(self, directory):
        directory.mkdir()
        self.directory, self.certificate = directory, directory / "ca.pem"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj",
                "/CN=hookjail test", "-keyout", directory / "ca.key", "-out", self.certificate)

    def issue(self, name, days=1):
        """Issues a certificate for a DNS name; returns the paths of certificate and key."""
        key, request, certificate, extensions = (self.directory / f"{name}{days}.{end}" for end in ("key", "csr", "pem", "ext"))
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}", "-keyout", key,
                "-out", request)
        extensions.write_text(f"subjectAltName=DNS:{name}\nextendedKeyUsage=serverAuth,clientAuth\n")
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.directory / "ca.key", "-CAcreateserial",
                "-days", days, "-extfile", extensions, "-out", certificate)
        return certificate, key


class Collector:
    """Takes lines over TLS; without a certificate over plain TCP. With an authority of clients, each has to prove a name."""

    def __init__(self, certificate, clients=None, port=0):
        self.context = None
        if certificate:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(*certificate)
        if clients:
            self.context.load_verify_locations(clients)
            self.context.verify_mode = ssl.CERT_REQUIRED
        self.listener = socket.create_server(("127.0.0.1", port))
        self.port = self.listener.getsockname()[1]
        self.connections, self.received, self.ended = [], [], 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.read, args=(connection,), daemon=True).start()

    def read(self, connection):
        received = bytearray()
        self.received.append(received)
        try:
            if self.context:
                connection = self.context.wrap_socket(connection, server_side=True)
            else:
                # A shipper that begins a handshake waits for an answer.
                connection.settimeout(1)
            self.connections.append(connection)
            while chunk := connection.recv(65536):
                received += chunk
        except OSError:
            pass
        finally:
            connection.close()
            self.ended += 1

    @property
    def lines(self):
        return [line.decode() + "\n" for received in self.received for line in bytes(received).split(b"\n")[:-1]]

    def holds(self, word):
        return any(word in received for received in self.received)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def wait(what, condition):
    until = time.monotonic() + 60
    while not condition():
        if time.monotonic() > until:
            sys.exit(f"waited in vain for {what}")
        time.sleep(0.05)


def changed(text, changes):
    """Returns a configuration with each of these texts, which it must have once, replaced by another."""
    for old, new in changes.items():
        assert text.count(old) == 1, f"deploy/audit/rsyslog.conf has no {old}"
        text = text.replace(old, new)
    return text


@contextlib.contextmanager
def shipper(work, text):
    """Runs rsyslog with a configuration, in a directory of its own."""
    work.mkdir()
    # The global settings that the configuration requires in rsyslog.conf.
    (work / "rsyslog.conf").write_text(f'global(workDirectory="{work}" maxMessageSize="1m")\n{text}')
    subprocess.run([RSYSLOGD, "-N1", "-f", work / "rsyslog.conf"], check=True, capture_output=True)
    with open(work / "log", "wb") as log:
        process = subprocess.Popen([RSYSLOGD, "-n", "-f", work / "rsyslog.conf", "-i", work / "pid"], stdout=log, stderr=log)
    try:
        yield
    except BaseException:
        sys.stderr.write((work / "log").read_text()[-4000:])
        raise
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def main():
    with tempfile.TemporaryDirectory(prefix="hookjail-shipped-") as name:
        directory = pathlib.Path(name)
        directory.chmod(0o711)
        config = directory / "hookjail.toml"
        config.write_text(f'[paths]\nstate = "{directory}/state"\nruntime = "{directory}/run"\n[audit]\nrotate_bytes = "64KiB"\ncapture = ["stdout"]\n'
                          'capture_max = "64KiB"\n')
        config.chmod(0o600)
        audit = directory / "state/audit"

        def run(*command):
            done = subprocess.run([HOOKJAIL, "--config", config, "run", "--private", "--profile", "pipeline", "--", *command],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr

        def journal():
            older = sorted(audit.glob("journal.*.jsonl"))
            return [line for file in [*older, audit / "journal.jsonl"] for line in file.read_text().splitlines(keepends=True)]

        authority, other = Authority(directory / "authority"), Authority(directory / "other")
        certificate, (host, host_key) = authority.issue(NAME), authority.issue("host.example")
        ca, keys = "/etc/rsyslog.d/hookjail/ca.pem", ("/etc/rsyslog.d/hookjail/host.pem", "/etc/rsyslog.d/hookjail/host.key")

        def configuration(port):
            return changed(SHIPPED, {
                "/var/lib/hookjail/audit/journal.jsonl": str(audit / "journal.jsonl"), ca: str(authority.certificate), keys[0]: str(host),
                keys[1]: str(host_key), f'target="{NAME}"': 'target="127.0.0.1"', 'port="6514"': f'port="{port}"',
                'action.resumeRetryCount="-1"': 'action.resumeRetryCount="-1" action.resumeInterval="1"'})

        # Collectors that prove no right to the journal, and the change by which a configuration ships to each.
        wrong = {
            "another name": (authority.issue("another.example"), {f'PermittedPeers="{NAME}"': 'PermittedPeers="another.example"'}),
            "another authority": (other.issue(NAME), {str(authority.certificate): str(other.certificate)}),
            "an expired certificate": (authority.issue(NAME, days=-1), {'permitExpiredCerts="off"': 'permitExpiredCerts="on"'}),
            "no TLS": (None, dict.fromkeys(re.findall(r'streamDriver[\w.]*="[^"]*"', configuration(0)), "")),
        }
        run("/bin/true")
        for number, (why, (proof, change)) in enumerate(wrong.items()):
            collector = Collector(proof)
            with shipper(directory / f"control{number}", changed(configuration(collector.port), change)):
                wait(f"records at a collector with {why}", lambda: collector.lines == journal())
            collector.close()

        collector = Collector(certificate)
        without_keys = re.sub(r'streamDriver\.(cert|key)File="[^"]*"', "", configuration(collector.port))
        with shipper(directory / "without_keys", without_keys):
            wait("records of a host without a certificate", lambda: collector.lines == journal())
        collector.close()
        collector = Collector(certificate, authority.certificate, collector.port)
        with shipper(directory / "unproven", without_keys):
            wait("a connection without a certificate", lambda: collector.ended >= 1)
        assert not collector.lines, "the collector takes a host without a certificate"
        collector.close()

        with shipper(directory / "shipped", configuration(collector.port)):
            for why, (proof, _) in wrong.items():
                collector = Collector(proof, port=collector.port)
                # A connection that ended without a record was given up.
                wait(f"a connection to a collector with {why}", lambda: collector.ended >= 1)
                collector.close()
                assert not collector.holds(b"sequence"), f"a collector with {why} gets records"
            collector = Collector(certificate, authority.certificate, collector.port)
            wait("the first records", lambda: collector.lines == journal())
            print(f"{len(journal())} records waited for the collector's proof; {', '.join(wrong)}: none arrived")
            # A record that is longer than what rsyslog takes by itself, and files that are rotated.
            for _ in range(3):
                run("/bin/sh", "-c", "head -c 30000 /bin/sh | base64 -w 0")
            assert len(list(audit.glob("journal.*.jsonl"))) >= 1, "nothing was rotated"
            wait("records over a rotation", lambda: collector.lines == journal())
            collector.close()
            for _ in range(3):
                run("/bin/true")
            back = Collector(certificate, authority.certificate, collector.port)
            run("/bin/true")
            # Records in transit are lost when the collector ends, as this protocol has no acknowledgements; the chain shows the loss.
            wait("records after an outage", lambda: back.lines and back.lines[-1] == journal()[-1])
            lines = collector.lines + back.lines
        missing = [line for line in journal() if line not in lines]
        numbers = [int(re.match(r'\{"sequence":(\d+)', line).group(1)) for line in lines]
        assert numbers == sorted(set(numbers)), "out of order, or twice"
        print(f"{len(lines)} of {len(journal())} records arrived, {max(map(len, lines))} bytes the longest; missing after an outage: {len(missing)}")

        # The copy is a journal by itself: no line can be changed or left out.
        copy = directory / "copy.jsonl"

        def verify(some):
            copy.write_text("".join(some))
            return subprocess.run([HOOKJAIL, "--config", config, "audit", "verify", copy], capture_output=True, text=True)

        upto = lines[:len(collector.lines)]
        held = verify(upto)
        assert held.returncode == 0, held.stdout + held.stderr
        forged = upto[:2] + [upto[2].replace('"time":"2', '"time":"3')] + upto[3:]
        assert verify(forged).returncode != 0, "a changed copy is taken for a journal"
        assert verify(upto[:2] + upto[3:]).returncode != 0, "a copy without a record is taken for a journal"
        print(f"the copy verifies: {held.stdout.strip()}")


if __name__ == "__main__":
    main()
