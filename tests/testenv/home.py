"""A user's home, in a network namespace with nothing but the loopback, for checks with real programs. Needs root."""

import contextlib
import fcntl
import os
import pathlib
import pwd
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time


class Home:
    """An ordinary user with a project, and what is run there with nothing else in its environment."""

    def __init__(self, work, user, hookjail):
        self.user, self.hookjail = pwd.getpwnam(user), hookjail
        self.home = work / "home"
        self.project = self.home / "p"

    def write(self, path, text):
        """Writes a file of the user's."""
        missing = [parent for parent in [path, *path.parents] if not parent.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for made in missing:
            os.chown(made, self.user.pw_uid, self.user.pw_gid)

    def make_places(self):
        """Makes what a login makes: a runtime directory of the user's own, and one for temporary files."""
        for name in ("run", "tmp"):
            self.write(self.home / name / ".keep", "")
        (self.home / "run").chmod(0o700)

    def run(self, command, path, more, told=b"", seconds=60):
        """Runs a command in the project. Returns exit code, stdout and stderr."""
        environment = {
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PATH": ":".join(map(str, path)),
            "TERM": "dumb",
            "TMPDIR": str(self.home / "tmp"),
            "USER": self.user.pw_name,
            "XDG_RUNTIME_DIR": str(self.home / "run"),
            **more,
        }
        process = subprocess.Popen(
            command,
            cwd=self.project,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            user=self.user.pw_uid,
            group=self.user.pw_gid,
            extra_groups=[],
            start_new_session=True,
        )
        late = ""
        try:
            out, err = process.communicate(told, timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            late = f"\n(ended after {seconds} s)"
        return process.returncode, out.decode(errors="replace"), err.decode(errors="replace") + late

    def processes(self):
        """The processes that have this home in their environment."""
        mark = f"HOME={self.home}".encode()
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    yield int(process.name)

    def end_all(self):
        """Ends the daemon, and all other processes that are left."""
        end = time.monotonic() + 10
        while left := list(self.processes()):
            if time.monotonic() > end:
                raise AssertionError(f"these do not end: {left}")
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)


def remove(path):
    """Removes a file or a directory."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def loopback():
    """Brings up the loopback of this namespace, which must have nothing else."""
    names = [name for _, name in socket.if_nameindex()]
    if names != ["lo"]:
        sys.exit(f"this network namespace has {names}: run it by `unshare --net`")
    with socket.socket() as any_socket:
        set_flags, up_and_running = 0x8914, 0x1 | 0x40
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh22x", b"lo", up_and_running))
