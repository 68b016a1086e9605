//! Gemini CLI: the `hooks` of a settings file, and its `hooksConfig`.

use hookjail_base::model::Command;

use super::GeminiCli;
use crate::hook_file::{
    Action, Gathered, HookFile, Item, ReadError, Registered, Switches, Syntax,
    groups::{self, Dialect},
};

impl HookFile for GeminiCli {
    fn syntax(&self) -> Syntax {
        Syntax::JsonWithComments
    }

    fn read(
        &self,
        file: &mut Gathered<'_>,
        root: &Item<'_>,
        _switches: &Switches,
    ) -> Result<(), ReadError> {
        root.map()?;
        if let Some(config) = root.field("hooksConfig")
            && config.field("enabled").is_some()
            && !config.is_set("enabled")?
        {
            file.disable("`hooksConfig.enabled` is false");
        }
        if root.down("hooks").is_none() {
            return Ok(());
        }
        groups::read(file, root, self)?;
        leave_out_disabled(file, root)
    }
}

impl Dialect for GeminiCli {
    fn reading(&self) -> &'static [&'static str] {
        &["timeout"]
    }

    fn others(&self) -> &'static [&'static str] {
        &["command", "description", "env", "name", "type"]
    }

    fn not_served(&self) -> &'static [&'static str] {
        &["runtime"]
    }

    fn has_turns(&self) -> bool {
        true
    }

    fn has_variables(&self) -> bool {
        true
    }
}

/// Leaves out the hooks that `hooksConfig.disabled` names, by name or command.
fn leave_out_disabled(file: &mut Gathered<'_>, root: &Item<'_>) -> Result<(), ReadError> {
    let config = root.field("hooksConfig");
    let list = config.and_then(|config| config.field("disabled"));
    let Some(list) = list else {
        return Ok(());
    };
    let names = list.texts()?;
    let command = |hook: &Registered| match &hook.action {
        Action::Command(Command::Line { text, .. }) => text.clone(),
        Action::Approve(_)
        | Action::Builtin(_)
        | Action::Command(Command::Argv(_))
        | Action::Http(_)
        | Action::Log(_)
        | Action::Supplied(_)
        | Action::Unsupported(_) => String::new(),
    };
    file.read.hooks.retain(|hook| {
        !names
            .iter()
            .any(|name| *name == hook.name || *name == command(hook))
    });
    Ok(())
}
