//! Base Coat: `hooks.json`, version 1, a list of entries for each point. The specification gives the entry and not the
//! nesting, which is parsed like its neighbours'. Entries of `mcp.json` name a `tool` in place of a command.

use crate::hook_file::{
    Action, Gathered, HookFile, Item, Layout, NOT_BELOW_HOOKS, ReadError, Registered, line, version,
};

pub(super) const HOOK_FILE: HookFile = HookFile {
    hooks: |file, root| {
        let is_point = |name: &str| file.mode.facts().has_point(name);
        let mut names = root.map()?.keys();
        // The specification prints such a fragment, too.
        if root.field("hooks").is_none() && names.any(|name| is_point(name)) {
            file.warn(root, NOT_BELOW_HOOKS);
            return Ok(Some(root.clone()));
        }
        let is_of_tools = root.field("version").is_none() && are_of_tools(root);
        if !is_of_tools {
            root.only(&["$schema", "hooks", "version"])?;
            version(root)?;
        }
        let missing = || root.wrong_at("hooks", "is missing; add a map of points to lists");
        root.down("hooks").ok_or_else(missing).map(Some)
    },
    settings: &["$schema", "version"],
    ..HookFile::with(Layout::Flat(hook))
};

/// Returns whether every entry calls a tool, as in an `mcp.json`, which has no version and keys for other programs.
fn are_of_tools(root: &Item<'_>) -> bool {
    let lists = root
        .value()
        .get("hooks")
        .and_then(|hooks| hooks.as_object());
    let entries = lists
        .into_iter()
        .flatten()
        .filter_map(|(_, list)| list.as_array());
    let mut entries = entries.flatten().peekable();
    entries.peek().is_some() && entries.all(|entry| entry.get("tool").is_some())
}

fn hook(file: &mut Gathered<'_>, entry: &Item<'_>, point: &str) -> Result<Registered, ReadError> {
    entry.only(&file.keys())?;
    let action = match (entry.field("command"), entry.field("tool")) {
        (Some(command), None) => Action::Command(line(&command)?),
        (None, Some(tool)) => {
            let why = format!(
                "the entry calls the MCP tool `{}`, and no command",
                tool.filled()?
            );
            Action::Unsupported(why)
        }
        (Some(_), Some(_)) => {
            return Err(entry.wrong("has `command` and `tool`; give one of them"));
        }
        (None, None) => {
            return Err(entry.wrong_at("command", "is missing; add a text"));
        }
    };
    file.whole(entry, point, action)
}
