//! Claude Code as the runtime that starts a hook.

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

    /// Where stdout is the path of a worktree, it must not be anything else.
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
