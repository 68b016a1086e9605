//! Cursor: `hooks.json`, version 1, a flat list of entries for each event.

use super::Cursor;
use crate::hook_file::{
    Action, Gathered, HookFile, Item, ReadError, Registered, Switches, line, version,
};

const KEYS: [&str; 7] = [
    "command",
    "failClosed",
    "loop_limit",
    "matcher",
    "name",
    "timeout",
    "type",
];

impl HookFile for Cursor {
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
    root.map()?;
    version(root)?;
    let Some(hooks) = root.down("hooks") else {
        return Ok(());
    };
    for (event, list) in hooks.down_all()? {
        file.check_point(&list, event)?;
        for entry in list.entries()? {
            let hook = hook(file, &entry, event)?;
            file.push(hook);
        }
    }
    Ok(())
}

fn hook(file: &mut Gathered<'_>, entry: &Item<'_>, event: &str) -> Result<Registered, ReadError> {
    let kind = entry.field("type");
    let kind = kind.map_or(Ok("command"), |kind| kind.filled())?;
    let action = match kind {
        "command" => {
            file.warn_of_others(entry, &KEYS)?;
            Action::Command(line(&entry.present("command")?)?)
        }
        "prompt" => Action::Unsupported("its type is `prompt`, which runs no command".to_owned()),
        other => {
            let problem = format!("is `{other}`; it can be `command` or `prompt`");
            return Err(entry.wrong_at("type", problem));
        }
    };
    let (matcher, matching) = entry.matcher(file.mode, event)?;
    let hook = file.hook(entry, event, action);
    Ok(Registered {
        entry: entry.reading(file.mode, &["failClosed", "timeout"])?,
        matcher,
        matching,
        name: entry.own_name()?.unwrap_or(hook.name),
        ..hook
    })
}
