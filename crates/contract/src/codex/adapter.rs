//! Adapter for hooks that Codex starts itself.

use serde_json::json;

use crate::{
    Mode,
    adopt::{Adapter, HookOutput},
    claude_code,
    settings::{Holds, Settings},
    sources::{ADMINISTRATOR, Form, Place, Root, Sources},
};

const TOML: &str =
    "hooks in TOML are not rewritten; move it to `hooks.json` beside it, and install again";

const fn inline(root: Root) -> Place {
    Place::new(Form::Toml, root, ".codex/config.toml", TOML)
}

const fn system(form: Form, path: &'static str) -> Place {
    Place::new(form, Root::Machine, path, ADMINISTRATOR)
}

pub(super) const ADAPTER: Adapter = Adapter {
    after_a_change: Some(
        "Codex runs no changed hook before it is trusted: start `codex`, and trust them in `/hooks`",
    ),
    file_sample: |name, _| {
        let patch = format!("*** Begin Patch\n*** Add File: {name}\n+x\n*** End Patch\n");
        json!({"tool_name": "apply_patch", "tool_input": {"command": patch}})
    },
    likeness: |payload, point| {
        point?;
        payload.last("turn_id").map(|_| 6)
    },
    no: |point, why| {
        Some(match point {
            // There any exit code but 0 is a failed run.
            "PreCompact" => {
                HookOutput::by_words(&json!({"continue": false, "stopReason": why}), why)
            }
            _ => HookOutput::by_code(2, why),
        })
    },
    notice: |point, why, notice| match point {
        "UserPromptSubmit" => None,
        _ => (claude_code::ADAPTER.notice)(point, why, notice),
    },
    obeys: &[".agents/", ".codex/"],
    plugin_in_lines: &["PLUGIN_ROOT", "CLAUDE_PLUGIN_ROOT"],
    settings: Settings {
        project: &[".codex/hooks.json"],
        user: &[".codex/hooks.json"],
    },
    shows_messages: |_| true,
    sources: Sources {
        members: &["notify"],
        prefixed: &[],
        moved_by: Some("CODEX_HOME"),
        places: &[
            inline(Root::User),
            inline(Root::Project),
            system(Form::Toml, "etc/codex/config.toml"),
            system(Form::Settings, "etc/codex/hooks.json"),
        ],
        plugins: None,
    },
    variables: &[
        ("PLUGIN_ROOT", Holds::Plugin),
        ("CLAUDE_PLUGIN_ROOT", Holds::Plugin),
    ],
    ..Adapter::new("codex", Mode::Codex)
};
