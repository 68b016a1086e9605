//! Settings of the family's runtimes, for `hookjail install`: events with lists of entries, of groups, or of both.

use std::{mem, path::Path};

use hookjail_base::model::Command;

use super::FACTS;
use crate::hook_file::{
    Action, Gathered, HookFile, Item, Layout, ReadError, Registered, groups::members, line,
};

/// The keys by which an entry is a hook, or a group of hooks.
const OF_HOOKS: [&str; 3] = ["action", "command", "hooks"];

/// Files whose hooks start in the project.
pub(super) const FILE: HookFile = HookFile::with(Layout::Own(read));

/// Files whose hooks start in their directory.
pub(super) const BESIDE: HookFile = HookFile::with(Layout::Own(|file, root| {
    read(file, root)?;
    let directory = Path::new(file.origin.name).parent();
    for hook in &mut file.read.hooks {
        hook.working_dir = directory.map(Into::into);
    }
    Ok(())
}));

/// Files in which a line of one word is a path from their directory, which no shell reads.
pub(super) const WORDS_BESIDE: HookFile = HookFile::with(Layout::Own(|file, root| {
    read(file, root)?;
    let (paths, others) = mem::take(&mut file.read.hooks)
        .into_iter()
        .partition(is_beside);
    file.read.hooks = others;
    let paths: Vec<_> = paths;
    for hook in paths {
        let error = root.wrong(format!(
            "`{}` is a path from this file's directory; write it as \"$CLAUDE_PROJECT_DIR\"/PATH",
            hook.action.line()
        ));
        let entry = hook.source.rsplit_once(": ").map_or("", |(_, entry)| entry);
        file.pass_over(Err(ReadError {
            entry: entry.to_owned(),
            ..error
        }))?;
    }
    Ok(())
}));

fn is_beside(hook: &Registered) -> bool {
    let line = hook.action.line();
    hook.action.command().is_some()
        && !line.starts_with(['~', '/'])
        && !line.contains([' ', '|', '&', ';', '>', '<', '$'])
}

fn read(file: &mut Gathered<'_>, root: &Item<'_>) -> Result<(), ReadError> {
    match root.down("hooks") {
        Some(hooks) if hooks.value().is_array() => {
            for entry in hooks.entries()? {
                let added = named(file, &entry);
                file.pass_over(added)?;
            }
            Ok(())
        }
        Some(hooks) => events(file, &hooks),
        // Events without `hooks` around them, or below the name of a group of hooks.
        None => {
            events(file, root)?;
            for (_, group) in root.down_all()? {
                if group.value().is_object() && group.value()["enabled"] != false {
                    events(file, &group)?;
                }
            }
            Ok(())
        }
    }
}

/// Reads the events among the members of an object.
fn events(file: &mut Gathered<'_>, hooks: &Item<'_>) -> Result<(), ReadError> {
    for (event, list) in hooks.down_all()? {
        let is_known = FACTS.has_point(file.mode.spelled(event));
        let is_of_hooks = |it: &serde_json::Value| OF_HOOKS.iter().any(|key| it.get(key).is_some());
        let is_list = list.value().as_array();
        let is_event = is_list.is_some_and(|it| is_known || it.iter().all(is_of_hooks));
        if !is_event {
            continue;
        }
        for entry in list.entries()? {
            let added = entry_or_group(file, &entry, event);
            file.pass_over(added)?;
        }
    }
    Ok(())
}

fn entry_or_group(file: &mut Gathered<'_>, item: &Item<'_>, event: &str) -> Result<(), ReadError> {
    if item.field("hooks").is_none() {
        let hook = hook(file, item, event)?;
        file.push(with_matcher(hook, item)?);
        return Ok(());
    }
    for entry in members(item)? {
        let added = hook(file, &entry, event)
            .and_then(|hook| with_matcher(hook, item))
            .map(|hook| file.push(hook));
        file.pass_over(added)?;
    }
    Ok(())
}

/// Reads an entry that names its event.
fn named(file: &mut Gathered<'_>, entry: &Item<'_>) -> Result<(), ReadError> {
    let event = entry.required("trigger")?;
    let Some(action) = entry.down("action") else {
        return Err(entry.wrong_at("action", "is missing; add a map"));
    };
    let hook = hook(file, &action, event)?;
    let hook = Registered {
        entry: file.reading(entry)?,
        ..hook
    };
    file.push(with_matcher(hook, entry)?);
    Ok(())
}

/// Adds a matcher as it is written. Which events it matches is the runtime's.
fn with_matcher(hook: Registered, item: &Item<'_>) -> Result<Registered, ReadError> {
    let matcher = item.field("matcher");
    let text = matcher.map(|it| it.text()).transpose()?;
    Ok(Registered {
        matching: text.unwrap_or_default().to_owned(),
        ..hook
    })
}

fn hook(file: &mut Gathered<'_>, entry: &Item<'_>, event: &str) -> Result<Registered, ReadError> {
    let kind = entry.field("type");
    let kind = kind.map_or(Ok("command"), |kind| kind.filled())?;
    if kind != "command" {
        let why = format!("its type is `{kind}`, which runs no command");
        return Ok(file.hook(entry, event, Action::Unsupported(why)));
    }
    let text = entry.present("command")?;
    let command = match entry.field("args") {
        // With an argument list the command is a program without a shell.
        Some(args) => {
            let words = std::iter::once(text.filled()?).chain(args.texts()?);
            Command::Argv(words.map(Into::into).collect())
        }
        None => line(&text)?,
    };
    let env = entry.field("env").map(|env| env.variables()).transpose()?;
    let directory = entry.field("working_directory");
    let directory = directory
        .map(|it| it.directory(file.origin.base))
        .transpose()?;
    Ok(Registered {
        configured_env: env.unwrap_or_default(),
        working_dir: directory,
        ..file.whole(entry, event, Action::Command(command))?
    })
}
