//! Adapter for hooks that Copilot starts itself.

use std::path::Path;

use serde_json::{Value, json};

use super::Copilot;
use crate::{
    Mode,
    adopt::{Adapter, AdapterFacts, HookOutput},
    members::{Members, number, text},
    settings::Settings,
};

const ADAPTER: AdapterFacts = AdapterFacts {
    line_keys: &["bash", "command", "exec"],
    mode: Mode::Copilot,
    name: "copilot",
    names_points: false,
    obeys: &[
        ".github/agents/",
        ".github/copilot-instructions.md",
        ".github/copilot/",
        ".github/hooks/",
        ".github/instructions/",
        ".github/lsp.json",
        ".github/mcp.json",
        ".github/prompts/",
        ".github/skills/",
    ],
    settings: Settings {
        project: &[".github/hooks/*.json"],
        user: &[".copilot/hooks/*.json"],
    },
    ..AdapterFacts::NONE
};

impl Adapter for Copilot {
    fn facts(&self) -> &'static AdapterFacts {
        &ADAPTER
    }

    /// Its payloads name their point by `hook_event_name`, or not at all.
    fn likeness(&self, payload: &Members<'_>) -> Option<u8> {
        let timestamp = payload.last("timestamp")?;
        let is_named = payload.last("hook_event_name").and_then(text).is_some();
        let is_unnamed = || payload.last("sessionId").is_some() && number(timestamp).is_some();
        (is_named || is_unnamed()).then_some(7)
    }

    fn unnamed_point(&self, payload: &Members<'_>) -> Option<&'static str> {
        let has = |name: &str| payload.last(name).is_some();
        if has("toolResult") {
            Some("postToolUse")
        } else if has("toolArgs") && has("error") {
            Some("postToolUseFailure")
        } else if has("toolArgs") {
            Some("preToolUse")
        } else if has("error") {
            Some("errorOccurred")
        } else if has("prompt") {
            Some("userPromptSubmitted")
        } else {
            None
        }
    }

    fn no(&self, point: &str, why: &str) -> Option<HookOutput> {
        let and_words = |answer: Value| HookOutput {
            stdout: answer.to_string().into_bytes(),
            ..HookOutput::by_code(2, why)
        };
        Some(match point {
            // Exit code 2 is only a warning there.
            "AgentStop" | "Stop" | "SubagentStop" | "agentStop" | "subagentStop" => {
                HookOutput::by_words(&json!({"decision": "block", "reason": why}), why)
            }
            // Exit code 2 denies; the reason reaches the model by the output.
            "PermissionRequest" | "permissionRequest" => {
                and_words(json!({"behavior": "deny", "message": why}))
            }
            _ => and_words(json!({"permissionDecision": "deny", "permissionDecisionReason": why})),
        })
    }

    fn command_sample(&self, command: &str, _project: &Path) -> Value {
        json!({"toolName": "bash", "toolArgs": json!({"command": command}).to_string()})
    }

    fn file_sample(&self, _name: &str, path: &Path) -> Value {
        let arguments = json!({"path": path, "file_text": "x"});
        json!({"toolName": "create", "toolArgs": arguments.to_string()})
    }
}
