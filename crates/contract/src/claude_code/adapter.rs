//! Adapter for hooks that Claude Code starts itself.

use serde_json::json;

use crate::{
    Mode,
    adopt::{Adapter, HookOutput},
    settings::{Holds, Settings, ShellPrefix},
    sources::{ADMINISTRATOR, Form, Place, Plugins, Root, Sources},
};

const TEXT: &str = "a text's front matter is not rewritten; move the hook to the settings";

const fn text(root: Root, path: &'static str) -> Place {
    Place::new(Form::FrontMatter, root, path, TEXT)
}

const fn managed(path: &'static str) -> Place {
    Place::new(Form::Settings, Root::Machine, path, ADMINISTRATOR)
}

pub(crate) const ADAPTER: Adapter = Adapter {
    after_a_change: Some("Claude Code reads its hooks when a session starts: start another"),
    likeness: |_, point| point.map(|_| 5),
    notice,
    obeys: &[
        ".claude/agents/",
        ".claude/commands/",
        ".claude/hooks/",
        ".claude/output-styles/",
        ".claude/rules/",
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".claude/skills/",
        ".claude/workflows/",
        ".mcp.json",
    ],
    settings: Settings {
        project: &[".claude/settings.json", ".claude/settings.local.json"],
        user: &[".claude/settings.json"],
    },
    shell_prefix: Some(ShellPrefix {
        local: ".claude/settings.local.json",
        of_tools: "pwd -P >|",
        variable: "CLAUDE_CODE_SHELL_PREFIX",
    }),
    // Not where stdout must be a worktree's path.
    shows_messages: |point| point != "WorktreeCreate",
    sources: Sources {
        members: &[
            "statusLine.command",
            "subagentStatusLine.command",
            "fileSuggestion.command",
        ],
        prefixed: &["statusLine.command"],
        moved_by: Some("CLAUDE_CONFIG_DIR"),
        places: &[
            text(Root::User, ".claude/agents/**/*.md"),
            text(Root::User, ".claude/commands/**/*.md"),
            text(Root::User, ".claude/skills/*/SKILL.md"),
            text(Root::Project, ".claude/agents/**/*.md"),
            text(Root::Project, ".claude/commands/**/*.md"),
            text(Root::Project, ".claude/skills/*/SKILL.md"),
            managed("etc/claude-code/managed-settings.json"),
            managed("etc/claude-code/managed-settings.d/*.json"),
        ],
        plugins: Some(Plugins {
            enabled: "enabledPlugins",
            front_matter: &["commands/**/*.md", "skills/*/SKILL.md"],
            hooks: "hooks/hooks.json",
            installed: ".claude/plugins/installed_plugins.json",
            loose: &[".claude/skills/*"],
            market: ".claude-plugin/marketplace.json",
            markets: ".claude/plugins/known_marketplaces.json",
            manifest: ".claude-plugin/plugin.json",
            settings: "settings.json",
            why: "a plugin's files are not rewritten, as an update replaces them; move the hook to the settings",
        }),
    },
    variables: &[
        ("CLAUDE_PROJECT_DIR", Holds::Project),
        ("CLAUDE_PLUGIN_ROOT", Holds::Plugin),
    ],
    ..Adapter::new("claude-code", Mode::ClaudeCode)
};

/// The answers of JSON that stop: exit code 2 alone would show the user nothing.
fn notice(point: &str, why: &str, notice: &str) -> Option<HookOutput> {
    let answer = match point {
        "PreToolUse" => json!({
            "hookSpecificOutput": {
                "hookEventName": point,
                "permissionDecision": "deny",
                "permissionDecisionReason": why,
            },
            "systemMessage": notice,
        }),
        // Claude Code 2.1.330 shows the user the reason, which no model reads, and no message beside it.
        "UserPromptSubmit" => {
            let reason = format!("{why}\n{notice}");
            json!({"decision": "block", "reason": reason, "systemMessage": notice})
        }
        _ => return None,
    };
    Some(HookOutput::by_words(&answer, why))
}
