#!/usr/bin/env python3
"""A daemon at a share of its capacity, for some time: soak.py [SECONDS] [SHARE]; by default 120 and 0.8.

Measures how many calls a second the daemon answers under full load, then makes that share of them at even intervals, whether or
not answers have come. Calls beyond a maximum number of open ones are left out, and counted. Each answer is checked. The daemon's
resources are checked during the run, and at the end when the daemon is idle. HOOKJAIL names the program.
"""
import asyncio
import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import uuid

import grpc

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[2] / "proto"))
pb, services = grpc.protos_and_services("hookjail/v1/hook_service.proto")
types = grpc.protos("hookjail/v1/types.proto")

HOOKJAIL = os.environ.get("HOOKJAIL") or sys.exit("HOOKJAIL names no program")
CONNECTIONS = 8
MEASURED_SECONDS = 8
# Calls in progress during the measurement, and at most. The daemon's queue is longer: beyond it, refusals would be right.
CLOSED, MOST_OPEN = 16, 128
# Tolerated growth: more than the fluctuations of an allocator and a client, less than a leak over some ten thousand calls.
MORE_MEMORY, MORE_DESCRIPTORS = 16 << 20, 4


class Kind:
    """A kind of call, with what its answer must be."""

    def __init__(self, name, weight, argv, timeout=None, refused=None, outcome=None):
        self.name, self.weight, self.argv = name, weight, argv
        self.timeout, self.refused, self.outcome = timeout, refused, outcome

    def request(self, number):
        event = json.dumps({"call": number, "padding": "x" * (number % 1000)}).encode()
        request = pb.ExecuteRequest(event=pb.Event(json=event), hook=pb.Hook(argv=self.argv))
        # Answers with an id are kept, up to 64 MiB of them: few, so that this is not taken for a leak in half an hour either.
        if number % 1024 == 0:
            request.request_id = str(uuid.uuid4())
        if self.timeout:
            request.timeout.FromMilliseconds(self.timeout)
        return request

    def fault(self, request, answer, code):
        """Returns what is wrong with an answer, or None."""
        if self.refused:
            return None if code == self.refused else f"{code} instead of {self.refused}"
        if code:
            return f"{code}"
        if answer.outcome.kind != self.outcome:
            return f"outcome {answer.outcome}"
        if self.name == "echo" and answer.stdout != request.event.json:
            return f"stdout {answer.stdout[:80]}"
        return None if answer.confinement.confirmed else "not confirmed"


KINDS = [
    Kind("echo", 80, ["/bin/cat"], outcome=types.OUTCOME_KIND_EXITED),
    Kind("true", 100, ["/bin/true"], outcome=types.OUTCOME_KIND_EXITED),
    Kind("signal", 5, ["/bin/sh", "-c", "kill -9 $$"], outcome=types.OUTCOME_KIND_SIGNALED),
    Kind("late", 1, ["/bin/sleep", "60"], timeout=200, outcome=types.OUTCOME_KIND_TIMED_OUT),
    Kind("refused", 10, ["/bin/false"], refused=grpc.StatusCode.PERMISSION_DENIED),
]
TURNS = [kind for kind in KINDS for _ in range(kind.weight)]


class Daemon:
    """A daemon with default limits in a directory of its own."""

    def __init__(self, directory):
        self.directory = directory
        self.config = directory / "hookjail.toml"
        self.config.write_text(f"""
[server]
socket = "{directory}/run/hookjail.sock"
[paths]
state = "{directory}/state"
runtime = "{directory}/run"
[audit]
rotate_bytes = "16MiB"
keep_files = 0
""")
        self.config.chmod(0o600)
        for kind in KINDS:
            if not kind.refused:
                self.hookjail("allow", "--", *kind.argv)
        self.log = open(directory / "log", "wb")
        self.process = subprocess.Popen([HOOKJAIL, "--config", self.config, "serve"], stderr=self.log, stdin=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while not (directory / "run/hookjail.sock").exists():
            if self.process.poll() is not None or time.monotonic() > until:
                sys.exit(f"the daemon does not serve:\n{(directory / 'log').read_text()}")
            time.sleep(0.05)

    def hookjail(self, *arguments):
        done = subprocess.run([HOOKJAIL, "--config", self.config, *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"hookjail {arguments}: {done.stdout}{done.stderr}")
        return done.stdout

    def held(self):
        """Returns the daemon's resources: memory of its own, descriptors, threads, and children without a waiter."""
        proc = pathlib.Path(f"/proc/{self.process.pid}")
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        children = (proc / f"task/{self.process.pid}/children").read_text().split()
        zombies = 0
        for child in children:
            try:
                zombies += pathlib.Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
            except (FileNotFoundError, ProcessLookupError):
                pass
        return {
            "memory": int(status["RssAnon"].split()[0]) << 10,
            "descriptors": len(list((proc / "fd").iterdir())),
            "threads": int(status["Threads"].split()[0]),
            "zombies": zombies,
            "runs": len(list((self.directory / "run").glob("instance-*/run-*"))),
        }

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self.log.close()
        return code


class Load:
    """Calls, and what came of them."""

    def __init__(self, stubs):
        self.stubs, self.number, self.open = stubs, 0, 0
        self.faults, self.waits, self.counts = [], [], collections.Counter()

    async def call(self):
        self.number += 1
        number, kind = self.number, TURNS[self.number * 7919 % len(TURNS)]
        request, code, answer = kind.request(number), None, None
        self.open += 1
        begun = time.monotonic()
        try:
            answer = await self.stubs[number % len(self.stubs)].Execute(request, timeout=60)
        except grpc.aio.AioRpcError as error:
            code = error.code()
            # Refused by the daemon, not given up by this client. True of a hook that waited for its turn until its deadline, and of
            # no other; how many do depends on how busy the machine is.
            if kind.timeout and b"DEADLINE" in dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b""):
                self.counts["not begun"] += 1
                if (waited := time.monotonic() - begun) * 1000 < kind.timeout:
                    self.faults.append(f"{kind.name}: refused for its deadline after {waited:.3f} s")
                return
        finally:
            self.open -= 1
        if kind.name in ("echo", "true"):
            self.waits.append(time.monotonic() - begun)
        self.counts[kind.name] += 1
        fault = kind.fault(request, answer, code)
        if fault:
            self.faults.append(f"{kind.name}: {fault}")

    async def closed(self, seconds):
        """Keeps a fixed number of calls in progress; returns the answers a second."""
        until, before = time.monotonic() + seconds, self.number

        async def one():
            while time.monotonic() < until:
                await self.call()

        begun = time.monotonic()
        await asyncio.gather(*(one() for _ in range(CLOSED)))
        return (self.number - before) / (time.monotonic() - begun)

    async def paced(self, seconds, rate, each_second):
        """Makes calls at a rate, whether or not answers come; returns the actual rate."""
        begun, made, tasks, told = time.monotonic(), 0, set(), 0
        while (now := time.monotonic() - begun) < seconds and not self.faults:
            while made < now * rate:
                made += 1
                if len(tasks) >= MOST_OPEN:
                    self.counts["left out"] += 1
                    continue
                task = asyncio.create_task(self.call())
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            if now >= told:
                told += 1
                each_second(int(now))
            await asyncio.sleep(0.005)
        await asyncio.gather(*tasks)
        return (made - self.counts["left out"]) / (time.monotonic() - begun)


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000


async def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 120.0
    share = float(sys.argv[2]) if len(sys.argv) > 2 else 0.8
    with tempfile.TemporaryDirectory(prefix="hookjail-soak-") as name:
        directory = pathlib.Path(name)
        directory.chmod(0o711)
        daemon = Daemon(directory)
        try:
            await soak(daemon, seconds, share)
        finally:
            if daemon.process.poll() is None:
                daemon.process.kill()
                daemon.process.wait()


async def soak(daemon, seconds, share):
    options = [("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.aio.insecure_channel(f"unix:{daemon.directory}/run/hookjail.sock", options) for _ in range(CONNECTIONS)]
    load = Load([services.HookServiceStub(channel) for channel in channels])
    # Caches are filled, and threads started.
    await load.closed(MEASURED_SECONDS / 4)
    capacity = await load.closed(MEASURED_SECONDS)
    load.waits.clear()
    samples = []

    def look(second):
        if second % 5 == 0:
            samples.append(daemon.held())
            if second % 60 == 0:
                print(f"{second:5} s  {load.number} calls, {load.open} open, {samples[-1]}", flush=True)

    rate = await load.paced(seconds, capacity * share, look)
    for channel in channels:
        await channel.close()
    # Directories are removed after the answers, and memory is given back once nothing is to be done.
    until = time.monotonic() + 30
    while daemon.held()["runs"] or daemon.held()["zombies"]:
        if time.monotonic() > until:
            break
        await asyncio.sleep(0.1)
    left = daemon.held()
    # Before there may be anything to compare.
    assert not load.faults, f"{len(load.faults)} wrong: {load.faults[:3]}"
    missing = [kind.name for kind in KINDS if not load.counts[kind.name]]
    assert not missing, f"nothing was answered of {missing}: {load.counts}"
    early = samples[len(samples) // 4]
    verified = daemon.hookjail("audit", "verify")
    code = daemon.end()
    print(f"capacity {capacity:.0f} calls/s with {CLOSED} in work; {rate:.0f} calls/s for {seconds:.0f} s ({rate / capacity:.0%}): "
          f"p50 {quantile(load.waits, 0.5):.1f} ms, p99 {quantile(load.waits, 0.99):.1f} ms, p99.9 {quantile(load.waits, 0.999):.1f} ms")
    print(f"answered: {dict(load.counts)}; after a quarter {early}; in the end {samples[-1]}; with nothing to do {left}")
    print(verified.strip())
    assert code == 0, f"the daemon ended with {code}"
    assert left["zombies"] == 0 and left["runs"] == 0, left
    assert samples[-1]["memory"] <= early["memory"] + MORE_MEMORY, "it holds more and more memory"
    assert left["descriptors"] <= samples[0]["descriptors"] + MORE_DESCRIPTORS, "it holds more and more descriptors"


if __name__ == "__main__":
    asyncio.run(main())
