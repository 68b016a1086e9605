//! Cursor: `hooks.json`, version 1, a flat list of entries for each event.

use crate::hook_file::{
    Action, Gathered, HookFile, Item, Layout, ReadError, Registered, Versioned, line,
    tolerant_matcher,
};

pub(super) const HOOK_FILE: HookFile = HookFile {
    versioned: Versioned::Always,
    ..HookFile::with(Layout::Flat(hook))
};

fn hook(file: &mut Gathered<'_>, entry: &Item<'_>, event: &str) -> Result<Registered, ReadError> {
    let kind = entry.field("type");
    let kind = kind.map_or(Ok("command"), |kind| kind.filled())?;
    let action = match kind {
        "command" => {
            file.warn_of_others(entry, &file.keys())?;
            Action::Command(line(&entry.present("command")?)?)
        }
        "prompt" => Action::Unsupported("its type is `prompt`, which runs no command".to_owned()),
        other => {
            let problem = format!("is `{other}`; use `command` or `prompt`");
            return Err(entry.wrong_at("type", problem));
        }
    };
    let (matcher, matching) = tolerant_matcher(file, entry, event)?;
    Ok(Registered {
        matcher,
        matching,
        ..file.whole(entry, event, action)?
    })
}
