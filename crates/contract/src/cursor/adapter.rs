//! Adapter for hooks that Cursor starts itself.

use serde_json::json;

use crate::{
    Mode,
    adopt::{Adapter, HookOutput},
    settings::{Holds, Settings},
};

pub(super) const ADAPTER: Adapter = Adapter {
    command_sample: |command, project| json!({"command": command, "cwd": project}),
    file_sample: |_, path| json!({"file_path": path, "content": "x"}),
    likeness: |payload, point| {
        point?;
        let mut members = ["cursor_version", "conversation_id"].iter();
        members
            .any(|name| payload.last(name).is_some())
            .then_some(10)
    },
    no: |point, why| {
        Some(match point {
            // Their answers have no `permission`, which exit code 2 stands for.
            "beforeSubmitPrompt" | "sessionStart" => {
                HookOutput::by_words(&json!({"continue": false, "user_message": why}), why)
            }
            _ => HookOutput::by_code(2, why),
        })
    },
    obeys: &[".cursor/"],
    settings: Settings {
        project: &[".cursor/hooks.json"],
        user: &[".cursor/hooks.json"],
    },
    variables: &[
        ("CURSOR_PROJECT_DIR", Holds::Project),
        ("CLAUDE_PROJECT_DIR", Holds::Project),
    ],
    ..Adapter::new("cursor", Mode::Cursor)
};
