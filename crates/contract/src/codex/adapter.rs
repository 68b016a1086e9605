//! Adapter for hooks that Codex starts itself.

use std::path::Path;

use serde_json::{Value, json};

use super::Codex;
use crate::{
    Mode,
    adopt::{Adapter, AdapterFacts, HookOutput},
    members::{Members, text},
    settings::{Holds, Settings},
};

const ADAPTER: AdapterFacts = AdapterFacts {
    after_a_change: Some(
        "Codex runs no changed hook before it is trusted: start `codex`, and trust them in `/hooks`",
    ),
    mode: Mode::Codex,
    name: "codex",
    obeys: &[".agents/", ".codex/"],
    settings: Settings {
        project: &[".codex/hooks.json"],
        user: &[".codex/hooks.json"],
    },
    variables: &[
        ("PLUGIN_ROOT", Holds::Plugin),
        ("CLAUDE_PLUGIN_ROOT", Holds::Plugin),
    ],
    ..AdapterFacts::NONE
};

impl Adapter for Codex {
    fn facts(&self) -> &'static AdapterFacts {
        &ADAPTER
    }

    fn likeness(&self, payload: &Members<'_>) -> Option<u8> {
        payload.last("hook_event_name").and_then(text)?;
        payload.last("turn_id").map(|_| 6)
    }

    fn no(&self, point: &str, why: &str) -> Option<HookOutput> {
        Some(match point {
            // There any exit code but 0 is a failed run.
            "PreCompact" => {
                HookOutput::by_words(&json!({"continue": false, "stopReason": why}), why)
            }
            _ => HookOutput::by_code(2, why),
        })
    }

    fn shows_messages(&self, _point: &str) -> bool {
        true
    }

    fn file_sample(&self, name: &str, _path: &Path) -> Value {
        let patch = format!("*** Begin Patch\n*** Add File: {name}\n+x\n*** End Patch\n");
        json!({"tool_name": "apply_patch", "tool_input": {"command": patch}})
    }
}
