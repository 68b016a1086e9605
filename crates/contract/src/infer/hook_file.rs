//! infer: `hooks.yaml`, off unless it or `INFER_HOOKS_ENABLED` enables it.

use crate::hook_file::{
    Action, Gathered, HookFile, Item, Layout, ReadError, Registered, Syntax, line, yaml::Version,
};

/// Overrides the file's `enabled`. A value that is no boolean is false.
const ENABLED: &str = "INFER_HOOKS_ENABLED";

/// Further entries of the command lists.
const LISTED: &str = "INFER_TOOLS_BASH_ALLOW_APPEND";

pub(super) const SWITCHES: [&str; 2] = [ENABLED, LISTED];

pub(super) const HOOK_FILE: HookFile = HookFile {
    hooks,
    listed: Some(LISTED),
    may_be_absent: true,
    plugins_name: |plugin, name| format!("{plugin}:{name}"),
    syntax: Syntax::Yaml(Version::V1_2),
    ..HookFile::with(Layout::List(hook))
};

fn hooks<'a>(file: &mut Gathered<'_>, root: &Item<'a>) -> Result<Option<Item<'a>>, ReadError> {
    let enabled = if root.value().is_null() {
        false
    } else {
        root.only(&["enabled", "hooks"])?;
        root.is_set("enabled")?
    };
    let switch = file
        .switches
        .value(ENABLED)
        .filter(|value| !value.is_empty());
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
    Ok(root.down("hooks"))
}

fn hook(file: &mut Gathered<'_>, entry: &Item<'_>, _event: &str) -> Result<Registered, ReadError> {
    entry.only(&file.keys())?;
    entry.required("name")?;
    let point = entry.required("hook")?;
    file.check_point(&entry.present("hook")?, point)?;
    let command = line(&entry.present("command")?)?;
    file.whole(entry, point, Action::Command(command))
}
