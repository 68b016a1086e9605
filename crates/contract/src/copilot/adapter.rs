//! Adapter for hooks that Copilot starts itself.

use serde_json::{Value, json};

use crate::{
    Mode,
    adopt::{Adapter, HookOutput},
    members::{Members, number},
    settings::{Holds, Settings},
    sources::{ADMINISTRATOR, Form, Place, Root, Sources},
};

const BELOW: &str =
    "files in directories of `hooks` are not rewritten; move it there, and install again";
const CLAUDE: &str = "Copilot runs hooks of Claude Code's settings, too; confine them there: hookjail install claude-code";
const PLUGIN: &str = "a plugin's files are not rewritten, as an update replaces them; move the hook to `.github/hooks`";
const TEXT: &str =
    "hooks in front matter are not rewritten; move it to `.github/hooks`, and install again";

/// Files that Copilot CLI 1.0.102 runs hooks of.
const fn hooks(root: Root, path: &'static str, why: &'static str) -> Place {
    Place::new(Form::Settings, root, path, why)
}

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
    // Copilot CLI 1.0.102 writes these into the lines of plugins, even between single quotes.
    plugin_in_lines: &["PLUGIN_ROOT", "CLAUDE_PLUGIN_ROOT"],
    settings: Settings {
        project: &[
            ".github/hooks/*.json",
            ".github/copilot/settings.json",
            ".github/copilot/settings.local.json",
        ],
        user: &[".copilot/hooks/*.json", ".copilot/settings.json"],
    },
    sources: Sources {
        moved_by: Some("COPILOT_HOME"),
        places: &[
            hooks(Root::Project, ".github/hooks/*/**/*.json", BELOW),
            hooks(Root::User, ".copilot/hooks/*/**/*.json", BELOW),
            hooks(Root::Project, ".claude/settings.json", CLAUDE),
            hooks(Root::Project, ".claude/settings.local.json", CLAUDE),
            Place::new(
                Form::FrontMatter,
                Root::User,
                ".copilot/agents/*.agent.md",
                TEXT,
            ),
            hooks(
                Root::User,
                ".copilot/installed-plugins/**/hooks.json",
                PLUGIN,
            ),
            hooks(
                Root::Machine,
                "etc/github-copilot/policy.d/*.json",
                ADMINISTRATOR,
            ),
        ],
        ..Sources::NONE
    },
    unnamed_point,
    variables: &[
        ("COPILOT_PROJECT_DIR", Holds::Project),
        ("CLAUDE_PROJECT_DIR", Holds::Project),
        ("PLUGIN_ROOT", Holds::Plugin),
        ("COPILOT_PLUGIN_ROOT", Holds::Plugin),
        ("CLAUDE_PLUGIN_ROOT", Holds::Plugin),
    ],
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
