//! Adapter for hooks that Claude Code starts itself.

use serde_json::json;

use crate::{
    Mode,
    adopt::{Adapter, HookOutput},
    settings::{Holds, Settings},
};

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
    // Not where stdout must be a worktree's path.
    shows_messages: |point| point != "WorktreeCreate",
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
        "UserPromptSubmit" => json!({"decision": "block", "reason": why, "systemMessage": notice}),
        _ => return None,
    };
    Some(HookOutput::by_words(&answer, why))
}
