//! Adapter for hooks that Qwen Code starts itself.

use serde_json::json;

use super::FACTS;
use crate::{
    Mode,
    adopt::{Adapter, HookOutput},
    claude_code, gemini_cli,
    settings::{Holds, Settings},
};

pub(crate) const ADAPTER: Adapter = Adapter {
    command_sample: gemini_cli::ADAPTER.command_sample,
    environments: &[".env", ".qwen/.env"],
    file_sample: gemini_cli::ADAPTER.file_sample,
    // Claude Code's payloads have no time, and Gemini CLI's no mode of permissions.
    likeness: |payload, point| {
        payload.last("timestamp")?;
        payload.last("permission_mode")?;
        FACTS.has_point(point?).then_some(9)
    },
    no,
    obeys: &[
        ".lsp.json",
        ".qwen/.env",
        ".qwen/agents/",
        ".qwen/commands/",
        ".qwen/extensions/",
        ".qwen/hooks/",
        ".qwen/sandbox.Dockerfile",
        ".qwen/sandbox.bashrc",
        ".qwen/settings.json",
        ".qwen/skills/",
    ],
    plugin_in_lines: &["CLAUDE_PLUGIN_ROOT"],
    settings: Settings {
        project: &[".qwen/settings.json"],
        user: &[".qwen/settings.json"],
    },
    shows_messages: claude_code::ADAPTER.shows_messages,
    takes_comments: true,
    variables: &[
        ("QWEN_PROJECT_DIR", Holds::Project),
        ("GEMINI_PROJECT_DIR", Holds::Project),
        ("CLAUDE_PROJECT_DIR", Holds::Project),
    ],
    ..Adapter::new("qwen-code", Mode::QwenCode)
};

/// Builds the block answer. Qwen Code 0.24.4 reads exit code 2 at calls, prompts and ends alone.
fn no(point: &str, why: &str) -> Option<HookOutput> {
    let answer = match point {
        "PermissionRequest" => {
            let decision = json!({"behavior": "deny", "message": why});
            json!({"hookSpecificOutput": {"hookEventName": point, "decision": decision}})
        }
        "TodoCompleted" | "TodoCreated" => json!({"decision": "block", "reason": why}),
        _ => return Some(HookOutput::by_code(2, why)),
    };
    Some(HookOutput::by_words(&answer, why))
}
