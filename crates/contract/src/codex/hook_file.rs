//! Codex: the `hooks` of a `hooks.json`.

use crate::hook_file::{HookFile, Layout, groups::Dialect};

pub(super) const HOOK_FILE: HookFile = HookFile {
    ignores_other_events: true,
    ..HookFile::with(Layout::Groups(Dialect {
        not_served: &["agent", "mcp_tool", "prompt"],
        ..Dialect::NONE
    }))
};
