//! infer: `hooks.yaml`, off unless it or `INFER_HOOKS_ENABLED` says otherwise.

use serde_json::Value;

use super::{Gathered, Item, ReadError, Switches, line, yaml};
use crate::hooks::{Action, Registered, read::MAX_BYTES};

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

/// infer's lists of commands by the agent's mode, where somebody says them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct InferLists {
    /// For every mode.
    pub all: Option<Vec<String>>,
    /// For `auto`.
    pub auto: Option<Vec<String>>,
    /// For `plan`.
    pub plan: Option<Vec<String>>,
    /// For `standard`.
    pub standard: Option<Vec<String>>,
}

/// Reads the lists of infer's own configuration, `tools.bash.mode.MODE.allow`. What else it has is no business of hooks.
///
/// # Errors
///
/// The text is no YAML, too large, or has a list that is none.
pub fn infer_lists(text: &str, name: &str) -> Result<InferLists, ReadError> {
    let nothing = Value::Null;
    let whole = Item::root(name, &nothing);
    if text.len() > MAX_BYTES {
        return Err(whole.wrong(format!("is larger than {MAX_BYTES} bytes")));
    }
    let value = yaml::parse(text, yaml::Version::V1_2).map_err(|problem| whole.wrong(problem))?;
    let root = Item::root(name, &value);
    let modes = ["tools", "bash", "mode"]
        .iter()
        .try_fold(root, |item, key| item.down(key));
    let list = |mode: &str| {
        let allow = modes.as_ref()?.down(mode)?.field("allow")?;
        Some(
            allow
                .texts()
                .map(|texts| texts.into_iter().map(str::to_owned).collect()),
        )
    };
    Ok(InferLists {
        all: list("all").transpose()?,
        auto: list("auto").transpose()?,
        plan: list("plan").transpose()?,
        standard: list("standard").transpose()?,
    })
}
