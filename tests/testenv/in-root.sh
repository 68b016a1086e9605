#!/usr/bin/env bash
# Runs a command in a root of its own, with its own processes and the usual devices. As root.
#   in-root.sh ROOT UID COMMAND...
# The root has the directories proc and dev, and perhaps no other program: one process changes to it. A mere chroot would not permit
# namespaces.
set -euo pipefail
[ $# -gt 2 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
exec unshare --mount --pid --fork --kill-child python3 -c '
import ctypes, os, sys
root, uid, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
libc = ctypes.CDLL(None, use_errno=True)
PIVOT_ROOT, BIND, DETACH = {"x86_64": 155, "aarch64": 41}[os.uname().machine], 4096, 2
def done(result, what):
    if result != 0:
        sys.exit(f"{what}: {os.strerror(ctypes.get_errno())}")
def mount(source, target, kind, flags):
    done(libc.mount(source.encode(), target.encode(), kind, flags, None), f"mount {target}")
mount(root, root, None, BIND)
mount("proc", f"{root}/proc", b"proc", 0)
mount("/dev", f"{root}/dev", None, BIND)
os.chdir(root)
done(libc.syscall(PIVOT_ROOT, b".", b"."), "pivot_root")
done(libc.umount2(b".", DETACH), "umount")
os.chdir("/")
os.setgroups([]); os.setgid(uid); os.setuid(uid)
environment = {"HOME": "/home", "PATH": "/usr/bin:/bin"}
os.execvpe(command[0], command, environment)
' "$@"
