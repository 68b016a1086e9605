//! Base Coat: `hooks.json`, version 1, a list of entries for each point. The specification gives the entry and not the
//! nesting; it is parsed like its neighbours'. Entries of `mcp.json` name a `tool` in place of a command.

use super::Basecoat;
use crate::hook_file::{
    Action, Gathered, HookFile, Item, ReadError, Registered, Switches, line, version,
};

const KEYS: [&str; 7] = [
    "command",
    "contextLimit",
    "name",
    "on_failure",
    "priority",
    "timeout",
    "tool",
];

impl HookFile for Basecoat {
    fn read(
        &self,
        file: &mut Gathered<'_>,
        root: &Item<'_>,
        _switches: &Switches,
    ) -> Result<(), ReadError> {
        read(file, root)
    }
}

fn read(file: &mut Gathered<'_>, root: &Item<'_>) -> Result<(), ReadError> {
    let is_of_tools = root.field("version").is_none() && are_of_tools(root);
    if !is_of_tools {
        root.only(&["$schema", "hooks", "version"])?;
        version(root)?;
    }
    let Some(hooks) = root.down("hooks") else {
        return Err(root.wrong_at("hooks", "is missing; it must be a map of points to lists"));
    };
    for (point, list) in hooks.down_all()? {
        file.check_point(&list, point)?;
        for entry in list.entries()? {
            let hook = hook(file, &entry, point)?;
            file.push(hook);
        }
    }
    Ok(())
}

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

fn hook(file: &Gathered<'_>, entry: &Item<'_>, point: &str) -> Result<Registered, ReadError> {
    entry.only(&KEYS)?;
    let action = match (entry.field("command"), entry.field("tool")) {
        (Some(command), None) => Action::Command(line(&command)?),
        (None, Some(tool)) => {
            let why = format!("it calls the MCP tool `{}`, and no command", tool.filled()?);
            Action::Unsupported(why)
        }
        (Some(_), Some(_)) => {
            return Err(entry.wrong("has `command` and `tool`; give one of them"));
        }
        (None, None) => {
            return Err(entry.wrong_at("command", "is missing; it must be a text"));
        }
    };
    let hook = file.hook(entry, point, action);
    let keys = ["contextLimit", "on_failure", "priority", "timeout"];
    Ok(Registered {
        entry: entry.reading(file.mode, &keys)?,
        name: entry.own_name()?.unwrap_or(hook.name),
        ..hook
    })
}
