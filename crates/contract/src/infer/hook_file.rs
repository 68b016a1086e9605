//! infer: `hooks.yaml`, off unless it or `INFER_HOOKS_ENABLED` enables it.

use super::Infer;
use crate::hook_file::{
    Action, Gathered, HookFile, Item, ReadError, Registered, Switches, Syntax, line, yaml::Version,
};

/// Overrides the file's `enabled`. A value that is no boolean is false.
const ENABLED: &str = "INFER_HOOKS_ENABLED";

/// Further entries of the command lists.
const LISTED: &str = "INFER_TOOLS_BASH_ALLOW_APPEND";

pub(super) const SWITCHES: [&str; 2] = [ENABLED, LISTED];

impl HookFile for Infer {
    fn syntax(&self) -> Syntax {
        Syntax::Yaml(Version::V1_2)
    }

    fn listed<'a>(&self, switches: &'a Switches) -> &'a str {
        switches.value(LISTED).unwrap_or_default()
    }

    fn may_be_absent(&self) -> bool {
        true
    }

    fn plugins_name(&self, plugin: &str, name: String) -> String {
        format!("{plugin}:{name}")
    }

    fn read(
        &self,
        file: &mut Gathered<'_>,
        root: &Item<'_>,
        switches: &Switches,
    ) -> Result<(), ReadError> {
        read(file, root, switches)
    }
}

fn read(file: &mut Gathered<'_>, root: &Item<'_>, switches: &Switches) -> Result<(), ReadError> {
    let enabled = if root.value().is_null() {
        false
    } else {
        root.only(&["enabled", "hooks"])?;
        root.is_set("enabled")?
    };
    let switch = switches.value(ENABLED).filter(|value| !value.is_empty());
    let is_true = |value: &str| {
        let value = value.to_ascii_lowercase();
        matches!(value.as_str(), "1" | "t" | "true")
    };
    match switch.map(is_true) {
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
