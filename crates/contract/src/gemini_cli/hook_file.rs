//! Gemini CLI: the `hooks` of a settings file, and its `hooksConfig`.

use crate::hook_file::{
    Gathered, HookFile, Item, Layout, ReadError, Registered, Syntax, groups::Dialect, spelled,
};

pub(super) const HOOK_FILE: HookFile = HookFile {
    finish: leave_out_disabled,
    hooks: |file, root| {
        root.map()?;
        if let Some(config) = root.field("hooksConfig")
            && config.field("enabled").is_some()
            && !config.is_set("enabled")?
        {
            file.disable("`hooksConfig.enabled` is false");
        }
        Ok(root.down("hooks"))
    },
    ignores_other_events: true,
    syntax: Syntax::JsonWithComments,
    ..HookFile::with(Layout::Groups(Dialect {
        has_turns: true,
        has_variables: true,
        not_served: &["runtime"],
        ..Dialect::NONE
    }))
};

/// Leaves out the hooks that `hooksConfig.disabled` names, by name or command.
fn leave_out_disabled(file: &mut Gathered<'_>, root: &Item<'_>) -> Result<(), ReadError> {
    let config = root.field("hooksConfig");
    let list = config.and_then(|config| config.field("disabled"));
    let Some(list) = list else {
        return Ok(());
    };
    let names = list.texts()?;
    let is_named = |hook: &Registered| {
        let command = hook.action.command().map(spelled).unwrap_or_default();
        names
            .iter()
            .any(|name| *name == hook.name || *name == command)
    };
    file.read.hooks.retain(|hook| !is_named(hook));
    Ok(())
}
