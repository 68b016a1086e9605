//! Adapter for hooks that Gemini CLI starts itself.

use serde_json::json;

use super::FACTS;
use crate::{
    Mode,
    adopt::{Adapter, HookOutput},
    settings::{Holds, Settings},
};

/// The only exit code besides 0 that is no decision.
const WARNING: u8 = 1;

pub(crate) const ADAPTER: Adapter = Adapter {
    command_sample: |command, _| json!({"tool_name": "run_shell_command", "tool_input": {"command": command}}),
    environments: &[".env", ".gemini/.env"],
    failure_code: WARNING,
    file_sample: |_, path| json!({"tool_name": "write_file", "tool_input": {"file_path": path, "content": "x"}}),
    likeness: |payload, point| {
        payload.last("timestamp")?;
        FACTS.has_point(point?).then_some(8)
    },
    notice: |point, why, notice| {
        let has_decision = matches!(point, "BeforeTool" | "BeforeAgent");
        let answer = json!({"decision": "deny", "reason": why, "systemMessage": notice});
        has_decision.then(|| HookOutput::by_words(&answer, why))
    },
    obeys: &[
        ".gemini/.env",
        ".gemini/agents/",
        ".gemini/commands/",
        ".gemini/extensions/",
        ".gemini/hooks/",
        ".gemini/policies/",
        ".gemini/sandbox.Dockerfile",
        ".gemini/sandbox.bashrc",
        ".gemini/settings.json",
        ".gemini/skills/",
    ],
    plugin_in_lines: &["extensionPath"],
    settings: Settings {
        project: &[".gemini/settings.json"],
        user: &[".gemini/settings.json"],
    },
    shows_messages: |_| true,
    takes_comments: true,
    variables: &[
        ("GEMINI_PROJECT_DIR", Holds::Project),
        // For hooks that were written for Claude Code.
        ("CLAUDE_PROJECT_DIR", Holds::Project),
        ("GEMINI_CWD", Holds::Cwd),
        ("GEMINI_SESSION_ID", Holds::Session),
    ],
    ..Adapter::new("gemini-cli", Mode::GeminiCli)
};
