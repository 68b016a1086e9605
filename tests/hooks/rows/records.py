"""Hooks that keep something: logs, counters, notes, commits and copies."""

import json
import pathlib
import re

from box import SESSION, hook


@hook("log of commands in ~/.claude", "PreToolUse", "jq -r '.tool_input.command' >> ~/.claude/commands.log")
def command_log(box):
    box.bash("make all")
    box.bash("make check")
    return box.text(box.kept(".claude/commands.log")) == "make all\nmake check\n"


@hook("notes of each session in ~/.claude, shown to the next", "SessionStart", "~/.claude/hooks/sessions.sh")
def sessions(box):
    box.fire(source="startup")
    out = box.fire(source="startup")[1]
    return "last time: main" in out and "main" in box.text(box.kept(f".claude/sessions/{SESSION}.md"))


@hook("cost of each session in ~/.claude", "Stop", "node ~/.claude/hooks/cost.js")
def cost(box):
    box.fire()
    return '"tokens":300' in box.text(box.kept(".claude/metrics/costs.jsonl"))


@hook("a counter in the temporary directory", "PreToolUse", "node .hooks/suggest.js")
def counter(box):
    ends = [box.bash("ls") for _ in range(3)]
    return [("compact" in err) for _, _, err in ends] == [False, False, True]


@hook("time and memory of commands, a table in ~/.claude", "PostToolUse", ".hooks/performance.sh")
def performance(box):
    box.bash("make")
    return re.fullmatch(r"\d+,\d+,make\n", box.text(box.kept(".claude/performance.csv"))) is not None


@hook("a database beside a script in ~/.claude", "UserPromptSubmit", "~/.claude/notices/notices.py")
def database(box):
    box.fire(prompt="first")
    return "2 prompts" in box.fire(prompt="second")[1] and box.kept(".claude/notices/notices.db").stat().st_size > 0


SQLITE = "sqlite3 ~/.claude/usage.db \"create table if not exists calls (name text); insert into calls values ('$(jq -r .tool_name)')\""


@hook("a database in ~/.claude by sqlite3", "PostToolUse", SQLITE, needs=("sqlite3",))
def sqlite(box):
    box.bash("ls")
    box.bash("ls")
    return box.start(["sqlite3", str(box.kept(".claude/usage.db")), "select count(*) from calls where name = 'Bash'"])[1] == "2\n"


@hook("observations in ~/.local/share", "PostToolUse", ".hooks/observe.sh")
def observe(box):
    box.bash("make")
    return '"make"' in box.text(box.kept(".local/share/observer/observations.jsonl"))


@hook("log beside the script", "PreToolUse", ".hooks/beside.sh")
def beside(box):
    box.bash("make")
    return "make" in box.text(box.project / ".hooks/beside.log")


@hook("list of edited files in the project's .claude", "PostToolUse", ".hooks/edited.sh")
def edited(box):
    box.edited(box.source("web/src/a.ts", ""))
    box.edited(box.source("api/src/b.ts", ""))
    return box.text(box.project / f".claude/edited/{SESSION}/parts.txt") == "web\napi\n"


@hook("copy of a file before an edit", "PreToolUse", ".hooks/copy_before.py")
def copy_before(box):
    name = box.source("src/a.txt", "before\n")
    pathlib.Path(name).chmod(0o640)
    box.edited(name)
    copy = box.project / ".claude/copies/src/a.txt"
    return box.text(copy) == "before\n" and copy.stat().st_mode & 0o777 == 0o640


@hook("last words of a subagent", "SubagentStop", ".hooks/last_words.sh")
def last_words(box):
    box.fire(agent_id="a1")
    return "Still at it." in box.text(box.project / "logs/subagents.md")


@hook("the conversation kept at the stop by uv run", "Stop", "uv run .hooks/uv_stop.py --chat")
def uv_stop(box):
    box.fire()
    return "Still at it." in box.text(box.project / "logs/chat.json")


@hook("transcript kept before it is compacted", "PreCompact", ".hooks/backup_transcript.py")
def backup(box):
    box.fire(trigger="auto")
    return "Still at it." in box.text(box.project / ".claude/backups/transcript.jsonl")


@hook("log of sessions in the project", "sessionStart", ".hooks/session_log.sh", runtime="copilot")
def session_log(box):
    box.fire(source="new")
    return "sessionStart" in box.text(box.project / "logs/copilot/session.log")


@hook("log of prompts in ~/.codex", "UserPromptSubmit", "jq -r .prompt >> ~/.codex/prompts.log", runtime="codex")
def codex_log(box):
    box.write(box.home / ".codex/config.toml", "")
    box.fire(prompt="go on")
    return box.text(box.kept(".codex/prompts.log")) == "go on\n"


@hook("log of tools in ~/.gemini", "BeforeTool", "~/.gemini/hooks/tools.sh", runtime="gemini-cli")
def gemini_log(box):
    log = "#!/bin/sh\njq -r .tool_name >>\"$(dirname \"$0\")/../tools.log\"\necho '{}'\n"
    script = box.home / ".gemini/hooks/tools.sh"
    box.write(script, log)
    script.chmod(0o755)
    out = box.fire(tool_name="read_file", tool_input={"path": "a.txt"})[1]
    return json.loads(out) == {} and box.text(box.kept(".gemini/tools.log")) == "read_file\n"


@hook("git commit at the stop", "Stop", 'git add -A && git commit -q -m "work of the agent"')
def git_commit(box):
    box.source("new.txt", "x\n")
    box.fire()
    return "work of the agent A Developer" in box.start(["git", "log", "-1", "--format=%s %an"])[1]


@hook("git add after an edit", "PostToolUse", "jq -r '.tool_input.file_path' | xargs git add --")
def git_add(box):
    box.edited(box.source("new.txt", "x\n"))
    return box.start(["git", "diff", "--cached", "--name-only"])[1] == "new.txt\n"


@hook("stash before each call", "PreToolUse", "git stash create >> .git/agent-stashes")
def stash(box):
    box.source("README.md", "Another project.\n")
    box.bash("ls")
    return re.fullmatch(r"[0-9a-f]{40}\n", box.text(box.project / ".git/agent-stashes")) is not None


@hook("a git ref for each prompt", "UserPromptSubmit", ".hooks/checkpoint.sh")
def checkpoint(box):
    box.source("new.txt", "x\n")
    box.fire(prompt="go on")
    kept = box.start(["git", "show", f"refs/agent/{SESSION}:new.txt"])[1]
    return kept == "x\n" and box.start(["git", "status", "--porcelain", "new.txt"])[1] == "?? new.txt\n"


@hook("commit at the end, and a push where it works", "sessionEnd", ".hooks/auto_commit.sh", runtime="copilot")
def auto_commit(box):
    box.source("new.txt", "x\n")
    out = box.fire(reason="complete")[1]
    return "not pushed" in out and "auto-commit" in box.start(["git", "log", "-1", "--format=%s"])[1]


@hook("push to a repository beside the project", "Stop", "git push --quiet backup HEAD:refs/heads/agent")
def push(box):
    remote = str(box.home / "backup.git")
    box.start(["git", "init", "--quiet", "--bare", remote])
    box.start(["git", "remote", "add", "backup", remote])
    box.fire()
    return box.start(["git", "-C", remote, "log", "-1", "--format=%s", "agent"])[1] == "first\n"
