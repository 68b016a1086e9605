//! Adapter for hooks that Cursor starts itself.

use std::path::Path;

use serde_json::{Value, json};

use super::Cursor;
use crate::{
    Mode,
    adopt::{Adapter, AdapterFacts, HookOutput},
    members::{Members, text},
    settings::{Holds, Settings},
};

const ADAPTER: AdapterFacts = AdapterFacts {
    mode: Mode::Cursor,
    name: "cursor",
    obeys: &[".cursor/"],
    settings: Settings {
        project: &[".cursor/hooks.json"],
        user: &[".cursor/hooks.json"],
    },
    variables: &[
        ("CURSOR_PROJECT_DIR", Holds::Project),
        ("CLAUDE_PROJECT_DIR", Holds::Project),
    ],
    ..AdapterFacts::NONE
};

impl Adapter for Cursor {
    fn facts(&self) -> &'static AdapterFacts {
        &ADAPTER
    }

    fn likeness(&self, payload: &Members<'_>) -> Option<u8> {
        payload.last("hook_event_name").and_then(text)?;
        let own = ["cursor_version", "conversation_id"];
        own.iter()
            .any(|name| payload.last(name).is_some())
            .then_some(10)
    }

    fn no(&self, point: &str, why: &str) -> Option<HookOutput> {
        Some(match point {
            // Their answers have no `permission`, which exit code 2 stands for.
            "beforeSubmitPrompt" | "sessionStart" => {
                HookOutput::by_words(&json!({"continue": false, "user_message": why}), why)
            }
            _ => HookOutput::by_code(2, why),
        })
    }

    fn command_sample(&self, command: &str, project: &Path) -> Value {
        json!({"command": command, "cwd": project})
    }

    fn file_sample(&self, _name: &str, path: &Path) -> Value {
        json!({"file_path": path, "content": "x"})
    }
}
