//! Adapter for hooks that Claude Code starts itself.

use super::ClaudeCode;
use crate::{
    Mode,
    adopt::{Adapter, AdapterFacts},
    members::{Members, text},
    settings::{Holds, Settings},
};

const ADAPTER: AdapterFacts = AdapterFacts {
    after_a_change: Some("Claude Code reads its hooks when a session starts: start another"),
    mode: Mode::ClaudeCode,
    name: "claude-code",
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
    variables: &[
        ("CLAUDE_PROJECT_DIR", Holds::Project),
        ("CLAUDE_PLUGIN_ROOT", Holds::Plugin),
    ],
    ..AdapterFacts::NONE
};

impl Adapter for ClaudeCode {
    fn facts(&self) -> &'static AdapterFacts {
        &ADAPTER
    }

    fn likeness(&self, payload: &Members<'_>) -> Option<u8> {
        payload.last("hook_event_name").and_then(text).map(|_| 5)
    }

    /// Returns whether messages are shown: not where stdout must be a worktree's path.
    fn shows_messages(&self, point: &str) -> bool {
        point != "WorktreeCreate"
    }
}
