"""Hooks that give the agent some context."""

import json

from box import hook


@hook("a plugin's context at the start", "SessionStart", "${CLAUDE_PLUGIN_ROOT}/start.sh", plugin="style")
def style(box):
    return "Explain each choice" in box.fire(source="startup")[1]


@hook("git context at the start", "SessionStart", ".hooks/git_context.sh")
def git_context(box):
    box.source("new.txt", "")
    out = box.fire(source="startup")[1]
    return "branch: main" in out and "?? new.txt" in out and "first" in out


@hook("user, host and day at the start", "SessionStart", "echo \"$(whoami) on $(uname -n), $(date +%F)\"")
def where(box):
    user, host, _ = box.start(["/bin/sh", "-c", "whoami; uname -n; date"])[1].split("\n", 2)
    return box.fire(source="startup")[1].startswith(f"{user} on {host}, 20")


@hook("the project's notes at each prompt", "UserPromptSubmit", 'cat "$CLAUDE_PROJECT_DIR"/NOTES.md; git diff --stat')
def notes(box):
    box.source("NOTES.md", "Tabs, not spaces.\n")
    box.source("README.md", "Another project.\n")
    out = box.fire(prompt="go on")[1]
    return "Tabs, not spaces." in out and "README.md" in out


@hook("skills by the words of a prompt, by tsx", "UserPromptSubmit", 'cd "$CLAUDE_PROJECT_DIR/.claude/hooks" && cat | npx tsx skills.ts')
def skills(box):
    box.source(".claude/hooks/skills.ts", (box.project / ".hooks/skills.ts").read_text())
    box.source(".claude/skills/rules.json", json.dumps({"migrations": ["schema", "column"], "styles": ["css"]}))
    out = box.fire(prompt="add a column")[1]
    return "migrations" in out and "styles" not in out and box.fire(prompt="go on")[1] == ""


AGENTS = (
    "python3 -c \"import json, pathlib, sys; e = json.load(sys.stdin); p = pathlib.Path(e['tool_input']['file_path']); "
    "t = [n.read_text() for d in p.parents for n in [d / 'AGENTS.md'] if d.is_relative_to(e['cwd']) and n.is_file()]; "
    "print(json.dumps({'hookSpecificOutput': {'hookEventName': 'PostToolUse', 'additionalContext': ''.join(t)}}) if t else '')\""
)


@hook("AGENTS.md above a file that is read", "PostToolUse", AGENTS)
def agents(box):
    box.source("src/AGENTS.md", "No globals here.\n")
    box.source("AGENTS.md", "Small functions.\n")
    name = box.source("src/deep/a.py", "")
    out = box.fire(tool_name="Read", tool_input={"file_path": name})[1]
    return json.loads(out)["hookSpecificOutput"]["additionalContext"] == "No globals here.\nSmall functions.\n"
