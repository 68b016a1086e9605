//! Codex: the `hooks` of a `hooks.json`.

use hookjail_base::model::Command;

use super::Codex;
use crate::hook_file::{
    Action, Gathered, HookFile, Item, ReadError, Switches,
    groups::{self, Dialect},
};

impl HookFile for Codex {
    fn read(
        &self,
        file: &mut Gathered<'_>,
        root: &Item<'_>,
        _switches: &Switches,
    ) -> Result<(), ReadError> {
        root.map()?;
        groups::read(file, root, self)
    }
}

impl Dialect for Codex {
    fn reading(&self) -> &'static [&'static str] {
        &["timeout"]
    }

    fn others(&self) -> &'static [&'static str] {
        &["async", "command", "name", "statusMessage", "type"]
    }

    fn not_served(&self) -> &'static [&'static str] {
        &["agent", "prompt"]
    }

    fn action(&self, entry: &Item<'_>, command: Command) -> Result<Action, ReadError> {
        if entry.is_set("async")? {
            let why = "it is `async`, which Codex passes over";
            return Ok(Action::Unsupported(why.to_owned()));
        }
        Ok(Action::Command(command))
    }
}
