//! Qwen Code, with its own settings, tools and timeouts. Its points, payloads and answers are those of Claude Code.

use std::{path::Path, time::Duration};

use serde_json::Value;

use super::{
    Mode,
    adopt::{Adapter, AdapterFacts},
    claude_code::ClaudeCode,
    gemini_cli::adapter::{command_sample, file_sample},
    settings::{Holds, Settings},
};

pub(super) struct QwenCode;

const ADAPTER: AdapterFacts = AdapterFacts {
    environments: &[".env", ".qwen/.env"],
    mode: Mode::ClaudeCode,
    name: "qwen-code",
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
    settings: Settings {
        project: &[".qwen/settings.json"],
        user: &[".qwen/settings.json"],
    },
    takes_comments: true,
    variables: &[
        ("QWEN_PROJECT_DIR", Holds::Project),
        ("GEMINI_PROJECT_DIR", Holds::Project),
        ("CLAUDE_PROJECT_DIR", Holds::Project),
    ],
    ..AdapterFacts::NONE
};

impl Adapter for QwenCode {
    fn facts(&self) -> &'static AdapterFacts {
        &ADAPTER
    }

    fn default_timeout(&self, _point: &str) -> Option<Duration> {
        Some(Duration::from_secs(60))
    }

    fn shows_messages(&self, point: &str) -> bool {
        ClaudeCode.shows_messages(point)
    }

    /// Returns the timeout of an entry; a number from 1000 is milliseconds of older versions.
    fn entry_time(&self, read: Duration) -> Duration {
        if read.as_secs() >= 1000 {
            read / 1000
        } else {
            read
        }
    }

    fn command_sample(&self, command: &str, _project: &Path) -> Value {
        command_sample(command)
    }

    fn file_sample(&self, _name: &str, path: &Path) -> Value {
        file_sample(path)
    }
}
