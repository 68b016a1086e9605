//! infer: `hooks.yaml`, off unless it or `INFER_HOOKS_ENABLED` says otherwise.

use super::{Gathered, Item, ReadError, Switches, line};
use crate::hooks::{Action, Registered};

pub(super) fn read(
    file: &mut Gathered<'_>,
    root: &Item<'_>,
    switches: &Switches,
) -> Result<(), ReadError> {
    let enabled = if root.value().is_null() {
        false
    } else {
        root.only(&["enabled", "hooks"])?;
        root.is_set("enabled")?
    };
    match switches.infer_hooks_enabled {
        Some(true) => {}
        Some(false) => file.disable("`INFER_HOOKS_ENABLED` is false"),
        None if enabled => {}
        None => file.disable("`enabled` is not true"),
    }
    let Some(hooks) = root.down("hooks") else {
        return Ok(());
    };
    for entry in hooks.entries()? {
        entry.only(&["command", "hook", "name", "timeout"])?;
        entry.required("name")?;
        let point = entry.required("hook")?;
        file.check_point(&entry.present("hook")?, point)?;
        let command = line(&entry.present("command")?)?;
        let hook = Registered {
            entry: entry.reading(file.mode, &["timeout"])?,
            name: entry.own_name()?.unwrap_or_default(),
            ..file.hook(&entry, point, Action::Command(command))
        };
        file.push(hook);
    }
    Ok(())
}
