//! Qwen Code: the `hooks` of a settings file.

use serde_json::Value;

use hookjail_base::model::Command;

use crate::hook_file::{
    Action, HookFile, Item, Layout, ReadError, Syntax,
    groups::{Dialect, warn_of_once},
};

pub(super) const HOOK_FILE: HookFile = HookFile {
    settings: &["disabled", "enabled", "notifications"],
    ignores_other_events: true,
    switch: Some("disableAllHooks"),
    syntax: Syntax::JsonWithComments,
    ..HookFile::with(Layout::Groups(Dialect {
        action,
        has_posts: true,
        has_turns: true,
        has_variables: true,
        not_served: &["function", "prompt"],
        warn: warn_of_once,
        ..Dialect::NONE
    }))
};

fn action(entry: &Item<'_>, command: Command) -> Result<Action, ReadError> {
    match entry.field("shell").as_ref().map(Item::value) {
        Some(Value::String(shell)) if shell == "powershell" => {
            Ok(Action::Unsupported("its shell is `powershell`".to_owned()))
        }
        Some(_) | None => Ok(Action::Command(command)),
    }
}
