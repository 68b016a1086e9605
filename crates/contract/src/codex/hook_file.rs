//! Codex: the `hooks` of a `hooks.json`.

use crate::hook_file::{Action, HookFile, Layout, groups::Dialect};

pub(super) const HOOK_FILE: HookFile = HookFile {
    beside: &["async"],
    ..HookFile::with(Layout::Groups(Dialect {
        action: |entry, command| {
            if entry.is_set("async")? {
                let why = "it is `async`, which Codex passes over";
                return Ok(Action::Unsupported(why.to_owned()));
            }
            Ok(Action::Command(command))
        },
        not_served: &["agent", "prompt"],
        ..Dialect::NONE
    }))
};
