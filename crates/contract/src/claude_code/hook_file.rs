//! Claude Code: the `hooks` of a settings file.

use serde_json::Value;

use hookjail_base::model::Command;

use super::filter::Filter;
use crate::hook_file::{
    Action, Gathered, HookFile, Item, Layout, ReadError,
    groups::{Dialect, warn_of_once},
};

pub(super) const HOOK_FILE: HookFile = HookFile {
    ignores_other_events: true,
    switch: Some("disableAllHooks"),
    ..HookFile::with(Layout::Groups(Dialect {
        action,
        filter,
        has_posts: true,
        not_served: &["agent", "mcp_tool", "prompt"],
        warn: warn_of_once,
        ..Dialect::NONE
    }))
};

fn filter(
    file: &mut Gathered<'_>,
    entry: &Item<'_>,
    event: &str,
) -> Result<Option<Filter>, ReadError> {
    let Some(item) = entry.field("if") else {
        return Ok(None);
    };
    let filter = Filter::parse(item.text()?);
    let problem = match &filter {
        None => "is no rule: the hook runs whenever its matcher matches",
        Some(_) if !Filter::is_read_at(event) => {
            "is read at events about tools alone: here the hook always runs, and in Claude Code never"
        }
        Some(filter) if !filter.is_whole() => {
            "is evaluated for the tool's name alone: the part in brackets hides no hook"
        }
        Some(_) => return Ok(filter),
    };
    file.warn(&item, problem);
    Ok(filter)
}

fn action(entry: &Item<'_>, command: Command) -> Result<Action, ReadError> {
    let item = entry.present("command")?;
    // With an argument list, even an empty one, the command is a program without a shell.
    if let Some(args) = entry.field("args") {
        let words = std::iter::once(item.filled()?).chain(args.texts()?);
        return Ok(Action::Command(Command::Argv(
            words.map(Into::into).collect(),
        )));
    }
    match entry.field("shell").as_ref().map(Item::value) {
        None => Ok(Action::Command(command)),
        Some(Value::String(shell)) if shell == "bash" => Ok(Action::Command(Command::Line {
            shell: Some("/bin/bash".into()),
            text: item.filled()?.to_owned(),
        })),
        Some(Value::String(shell)) if shell == "powershell" => {
            Ok(Action::Unsupported("its shell is `powershell`".to_owned()))
        }
        Some(_) => Err(entry.wrong_at("shell", "must be `bash` or `powershell`")),
    }
}
