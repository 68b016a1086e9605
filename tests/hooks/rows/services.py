"""Hooks that ask or start something outside of themselves."""

import contextlib
import os
import pathlib
import shutil
import signal
import socketserver
import threading
import time

from box import hook

WEBHOOK = "curl -s -m 5 -X POST -H 'Content-Type: application/json' --data-binary @- http://127.0.0.1:8377/hook"


@hook("webhook by curl", "Stop", WEBHOOK)
def webhook(box):
    box.fire()
    return any(b'"Stop"' in body for body in box.posted)


NAMED = "jq '{text: .message}' | curl -s -m 5 -X POST --data-binary @- \"$NOTICE_URL\""


@hook("message to a URL that a variable holds", "Notification", NAMED, env={"NOTICE_URL": "http://127.0.0.1:8377/secret"})
def message(box):
    box.fire(message="waiting")
    return any(b'"text": "waiting"' in body for body in box.posted)


WORKER = (
    "node -e \"let s = ''; process.stdin.on('data', d => s += d).on('end', () => "
    "fetch('http://127.0.0.1:8377/api', { method: 'POST', body: s }).catch(() => process.exit(1)))\""
)


@hook("worker on the loopback", "PostToolUse", WORKER)
def worker(box):
    box.bash("ls")
    return any(b'"PostToolUse"' in body for body in box.posted)


# Here is no network to ask for newer packages.
CACHED = {"UV_OFFLINE": "1"}


@hook("events sent by a uv script with a package", "PreToolUse", "uv run --script .hooks/uv_send.py --app p", env=CACHED)
def uv_send(box):
    box.bash("ls")
    return any(b'"app": "p"' in body for body in box.posted)


@hook("a uv script with a package", "UserPromptSubmit", "uv run --script .hooks/uv_prompt.py", env=CACHED)
def uv_prompt(box):
    box.source(".env", "AGENT_NAME=Ada\n")
    return "Ada" in box.fire(prompt="go on")[1]


@hook("a uv script with a package that hooks have fetched", "UserPromptSubmit", "uv run --script .hooks/uv_prompt.py", env=CACHED)
def uv_fetched(box):
    # As `install` leaves it for the hooks of all projects.
    cache = box.home / ".cache/hookjail/fetched/1"
    box.write(cache / ".keep", "")
    shutil.copytree(box.home / ".cache/uv", cache / "uv", symlinks=True)
    for path in [cache / "uv", *(cache / "uv").rglob("*")]:
        os.chown(path, box.user.pw_uid, box.user.pw_gid, follow_symlinks=False)
    return uv_prompt(box)


@contextlib.contextmanager
def service(box, name, answer=b""):
    """A program that listens on a socket of the user's: yields what it is sent."""
    taken = []

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            taken.append(self.request.recv(1000))
            self.request.sendall(answer)

    path = box.home / "run" / name
    with socketserver.ThreadingUnixStreamServer(str(path), Handler) as server:
        os.chown(path, box.user.pw_uid, box.user.pw_gid)
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        try:
            yield taken
        finally:
            server.shutdown()


@hook("notification over D-Bus", "Notification", ".hooks/notice.sh")
def notification(box):
    with service(box, "bus") as taken:
        box.fire(message="waiting")
        # The daemon shows it once the hook has ended.
        for _ in range(50):
            if taken:
                break
            time.sleep(0.1)
        return len(taken) == 1 and taken[0].endswith(b"Claude Code: waiting")


@hook("name of a tmux window", "UserPromptSubmit", ".hooks/window.sh", env={"TMUX": "~/run/tmux,1,0"}, needs=("tmux",))
def tmux(box):
    asks = ["tmux", "-S", str(box.home / "run/tmux")]
    box.start([*asks, "-f", "/dev/null", "new-session", "-d", "sleep", "60"])
    box.fire(prompt="go on")
    return box.start([*asks, "list-windows", "-F", "#W"])[1] == "agent: go on\n"


@hook("containers by docker's socket", "SessionStart", ".hooks/containers.sh", env={"DOCKER_SOCKET": "~/run/docker.sock"})
def containers(box):
    with service(box, "docker.sock", b'HTTP/1.0 200 OK\r\n\r\n[{"Names": ["/db"]}]') as taken:
        return "/db" in box.fire(source="startup")[1] and b"/containers/json" in taken[0]


def is_left(box, name):
    """Whether a process that notes its number in the project is still there, and ends it."""
    time.sleep(0.5)
    number = box.text(box.project / f"logs/{name}.pid").strip()
    left = number and pathlib.Path(f"/proc/{number}").is_dir()
    if left:
        os.kill(int(number), signal.SIGKILL)
    return bool(left)


@hook("a job left in the background", "Stop", ".hooks/index.sh")
def background(box):
    box.fire()
    return is_left(box, "index")


@hook("a server left running by Node.js", "SessionStart", 'node "${CLAUDE_PLUGIN_ROOT}/start.js"', plugin="memory")
def server(box):
    box.fire(source="startup")
    return is_left(box, "server")


@hook("a title by another agent", "UserPromptSubmit", ".hooks/title.sh")
def title(box):
    box.write(box.home / ".claude/.credentials.json", '{"token": "x"}\n')
    box.fire(prompt="go on")
    return "title of: go on" in box.text(box.project / "logs/title.txt")


@hook("variables by CLAUDE_ENV_FILE", "SessionStart", ".hooks/session_env.sh", env={"CLAUDE_ENV_FILE": "~/.claude/session-env"})
def session_env(box):
    box.write(box.home / ".claude/session-env", "")
    box.fire(source="startup")
    return "BUILD_TARGET" in box.text(box.home / ".claude/session-env")
