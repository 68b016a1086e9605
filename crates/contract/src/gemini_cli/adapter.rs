//! Adapter for hooks that Gemini CLI starts itself.

use std::path::Path;

use serde_json::{Value, json};

use super::{GeminiCli, POINTS};
use crate::{
    Mode,
    adopt::{Adapter, AdapterFacts},
    members::{Members, text},
    settings::{Holds, Settings},
};

/// The only exit code besides 0 that is no decision.
const WARNING: u8 = 1;

const ADAPTER: AdapterFacts = AdapterFacts {
    environments: &[".env", ".gemini/.env"],
    failure_code: WARNING,
    mode: Mode::GeminiCli,
    name: "gemini-cli",
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
    settings: Settings {
        project: &[".gemini/settings.json"],
        user: &[".gemini/settings.json"],
    },
    takes_comments: true,
    variables: &[
        ("GEMINI_PROJECT_DIR", Holds::Project),
        // For hooks that were written for Claude Code.
        ("CLAUDE_PROJECT_DIR", Holds::Project),
        ("GEMINI_CWD", Holds::Cwd),
        ("GEMINI_SESSION_ID", Holds::Session),
    ],
    ..AdapterFacts::NONE
};

impl Adapter for GeminiCli {
    fn facts(&self) -> &'static AdapterFacts {
        &ADAPTER
    }

    fn likeness(&self, payload: &Members<'_>) -> Option<u8> {
        let point = payload.last("hook_event_name").and_then(text)?;
        payload.last("timestamp")?;
        POINTS.iter().any(|known| known.name == point).then_some(8)
    }

    fn shows_messages(&self, _point: &str) -> bool {
        true
    }

    fn command_sample(&self, command: &str, _project: &Path) -> Value {
        command_sample(command)
    }

    fn file_sample(&self, _name: &str, path: &Path) -> Value {
        file_sample(path)
    }
}

/// Returns a sample event for a command line. It uses the tool that Qwen Code has too.
pub(crate) fn command_sample(command: &str) -> Value {
    json!({"tool_name": "run_shell_command", "tool_input": {"command": command}})
}

/// Returns a sample event for a write to a file. It uses the tool that Qwen Code has too.
pub(crate) fn file_sample(path: &Path) -> Value {
    json!({"tool_name": "write_file", "tool_input": {"file_path": path, "content": "x"}})
}
