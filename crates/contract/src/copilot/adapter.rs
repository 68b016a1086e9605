//! Adapter for hooks that Copilot starts itself.

use serde_json::{Value, json};

use crate::{
    Mode,
    adopt::{Adapter, HookOutput},
    members::{Members, number},
    settings::Settings,
};

pub(super) const ADAPTER: Adapter = Adapter {
    command_sample: |command, _| json!({"toolName": "bash", "toolArgs": json!({"command": command}).to_string()}),
    file_sample: |_, path| {
        let arguments = json!({"path": path, "file_text": "x"});
        json!({"toolName": "create", "toolArgs": arguments.to_string()})
    },
    // Its payloads name their point by `hook_event_name`, or not at all.
    likeness: |payload, point| {
        let timestamp = payload.last("timestamp")?;
        let is_unnamed = || payload.last("sessionId").is_some() && number(timestamp).is_some();
        (point.is_some() || is_unnamed()).then_some(7)
    },
    line_keys: &["bash", "command", "exec"],
    names_points: false,
    no,
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
    unnamed_point,
    ..Adapter::new("copilot", Mode::Copilot)
};

fn unnamed_point(payload: &Members<'_>) -> Option<&'static str> {
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

fn no(point: &str, why: &str) -> Option<HookOutput> {
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
