//! Adapter for hooks that Claude Code starts itself.

use super::ClaudeCode;
use crate::contract::{
    Mode,
    adopt::Adapter,
    members::{Members, text},
    settings::{Holds, Settings},
};

impl Adapter for ClaudeCode {
    fn name(&self) -> &'static str {
        "claude-code"
    }

    fn mode(&self) -> Mode {
        Mode::ClaudeCode
    }

    fn likeness(&self, payload: &Members<'_>) -> Option<u8> {
        payload.last("hook_event_name").and_then(text).map(|_| 5)
    }

    /// Returns whether messages are shown: not where stdout must be a worktree's path.
    fn shows_messages(&self, point: &str) -> bool {
        point != "WorktreeCreate"
    }

    fn settings(&self) -> Settings {
        Settings {
            project: &[".claude/settings.json", ".claude/settings.local.json"],
            user: &[".claude/settings.json"],
        }
    }

    fn variables(&self) -> &'static [(&'static str, Holds)] {
        &[
            ("CLAUDE_PROJECT_DIR", Holds::Project),
            ("CLAUDE_PLUGIN_ROOT", Holds::Plugin),
        ]
    }

    fn after_a_change(&self) -> Option<&'static str> {
        Some("Claude Code reads its hooks when a session starts: start another")
    }
}
