//! Qwen Code, with its own settings, tools and timeouts. Its points, payloads and answers are those of Claude Code.

use std::time::Duration;

use super::{
    Mode,
    adopt::Adapter,
    claude_code, gemini_cli,
    settings::{Holds, Settings, without_defaults},
};

pub(super) const ADAPTER: Adapter = Adapter {
    as_read: without_defaults,
    command_sample: gemini_cli::ADAPTER.command_sample,
    // A number from 1000 is milliseconds of older versions.
    entry_time: |read| {
        if read.as_secs() >= 1000 {
            read / 1000
        } else {
            read
        }
    },
    environments: &[".env", ".qwen/.env"],
    file_sample: gemini_cli::ADAPTER.file_sample,
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
    timeout: Some(Duration::from_secs(60)),
    variables: &[
        ("QWEN_PROJECT_DIR", Holds::Project),
        ("GEMINI_PROJECT_DIR", Holds::Project),
        ("CLAUDE_PROJECT_DIR", Holds::Project),
    ],
    ..Adapter::new("qwen-code", Mode::ClaudeCode)
};
