#!/usr/bin/env python3
"""rsyslog with deploy/audit/rsyslog.conf ships a journal over a rotation and an outage of the collector; HOOKJAIL names the program.

What arrives must be the journal, line by line: `hookjail audit verify` takes it for one.
"""
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

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
HOOKJAIL = os.environ.get("HOOKJAIL") or sys.exit("HOOKJAIL names no program")
RSYSLOGD = shutil.which("rsyslogd", path=os.environ["PATH"] + ":/usr/sbin") or sys.exit("rsyslogd is not installed")


class Collector:
    """Takes lines over TCP."""

    def __init__(self, port=0):
        self.lines, self.listener = [], socket.create_server(("127.0.0.1", port))
        self.port = self.listener.getsockname()[1]
        self.connections = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self.read, args=(connection,), daemon=True).start()

    def read(self, connection):
        try:
            for line in connection.makefile("r"):
                self.lines.append(line)
        except OSError:
            pass

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.connections:
            connection.shutdown(socket.SHUT_RDWR)


def wait(what, condition):
    until = time.monotonic() + 60
    while not condition():
        if time.monotonic() > until:
            sys.exit(f"waited in vain for {what}")
        time.sleep(0.05)


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

        run("/bin/true")
        collector = Collector()
        text = (REPOSITORY / "deploy/audit/rsyslog.conf").read_text()
        for old, new in (("/var/lib/hookjail/audit/journal.jsonl", str(audit / "journal.jsonl")), ('target="collector.example"', 'target="127.0.0.1"'),
                         ('port="6514"', f'port="{collector.port}"'), ('action.resumeRetryCount="-1"', 'action.resumeRetryCount="-1" action.resumeInterval="1"')):
            assert text.count(old) == 1, f"deploy/audit/rsyslog.conf has no {old}"
            text = text.replace(old, new)
        # As that file says of rsyslog.conf.
        (directory / "rsyslog.conf").write_text(f'global(workDirectory="{directory}" maxMessageSize="1m")\n{text}')
        subprocess.run([RSYSLOGD, "-N1", "-f", directory / "rsyslog.conf"], check=True, capture_output=True)
        shipper = subprocess.Popen([RSYSLOGD, "-n", "-f", directory / "rsyslog.conf", "-i", directory / "pid"])
        try:
            wait("the first records", lambda: collector.lines == journal())
            # A record that is longer than what rsyslog takes by itself, and files that are rotated.
            for _ in range(3):
                run("/bin/sh", "-c", "head -c 30000 /bin/sh | base64 -w 0")
            assert len(list(audit.glob("journal.*.jsonl"))) >= 1, "nothing was rotated"
            wait("records over a rotation", lambda: collector.lines == journal())
            collector.close()
            for _ in range(3):
                run("/bin/true")
            back = Collector(collector.port)
            run("/bin/true")
            # What is on its way when the collector goes is lost, as TCP without acknowledgements loses it; the chain shows it.
            wait("records after an outage", lambda: back.lines and back.lines[-1] == journal()[-1])
            lines = collector.lines + back.lines
        finally:
            shipper.send_signal(signal.SIGTERM)
            shipper.wait(30)
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
        changed = upto[:2] + [upto[2].replace('"time":"2', '"time":"3')] + upto[3:]
        assert verify(changed).returncode != 0, "a changed copy is taken for a journal"
        assert verify(upto[:2] + upto[3:]).returncode != 0, "a copy without a record is taken for a journal"
        print(f"the copy verifies: {held.stdout.strip()}")


if __name__ == "__main__":
    main()
