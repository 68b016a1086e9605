//! Claude Code, Codex and Gemini CLI: events, each a list of groups `{matcher, hooks: […]}`, in a file that may hold much
//! else. These runtimes pass over keys that they do not know; here each is warned of.

use serde_json::Value;

use super::{Gathered, Item, ReadError, line, post};
use crate::{
    contract::{Entry, Mode},
    hooks::{Action, Filter, Registered},
    model::Command,
};

/// Whose file it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Dialect {
    ClaudeCode,
    Codex,
    GeminiCli,
}

impl Dialect {
    /// Returns the keys of an entry that say how its end is read.
    const fn reading(self) -> &'static [&'static str] {
        match self {
            Self::ClaudeCode => &["async", "onFailure", "timeout"],
            Self::Codex => &["timeout"],
            Self::GeminiCli => &["timeout"],
        }
    }

    /// Returns the other keys of an entry that runs a command.
    const fn others(self) -> &'static [&'static str] {
        match self {
            Self::ClaudeCode => &[
                "args",
                "command",
                "if",
                "name",
                "once",
                "shell",
                "statusMessage",
                "type",
            ],
            Self::Codex => &["async", "command", "name", "statusMessage", "type"],
            Self::GeminiCli => &["command", "description", "env", "name", "type"],
        }
    }

    /// Whether it has entries that are posted to a URL.
    fn has_posts(self) -> bool {
        self == Self::ClaudeCode
    }

    /// Returns the types of entries that run no command and are not posted.
    const fn not_served(self) -> &'static [&'static str] {
        match self {
            Self::ClaudeCode => &["agent", "mcp_tool", "prompt"],
            Self::Codex => &["agent", "prompt"],
            Self::GeminiCli => &["runtime"],
        }
    }
}

pub(super) fn read(
    file: &mut Gathered<'_>,
    root: &Item<'_>,
    dialect: Dialect,
) -> Result<(), ReadError> {
    root.map()?;
    if dialect == Dialect::ClaudeCode && root.is_set("disableAllHooks")? {
        file.disable("`disableAllHooks` is true");
    }
    if dialect == Dialect::GeminiCli
        && let Some(config) = root.field("hooksConfig")
        && config.field("enabled").is_some()
        && !config.is_set("enabled")?
    {
        file.disable("`hooksConfig.enabled` is false");
    }
    let Some(hooks) = root.down("hooks") else {
        return Ok(());
    };
    for (event, groups) in hooks.down_all()? {
        file.check_point(&groups, event)?;
        for item in groups.entries()? {
            group(file, &item, event, dialect)?;
        }
    }
    if dialect == Dialect::GeminiCli {
        leave_out_disabled(file, root)?;
    }
    Ok(())
}

/// Leaves out the hooks that Gemini CLI's `hooksConfig.disabled` names, by name or command.
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
        | Action::Git(_)
        | Action::Http(_)
        | Action::Log(_)
        | Action::Save(_)
        | Action::Template(_)
        | Action::Unsupported(_) => String::new(),
    };
    file.read.hooks.retain(|hook| {
        !names
            .iter()
            .any(|name| *name == hook.name || *name == command(hook))
    });
    Ok(())
}

fn group(
    file: &mut Gathered<'_>,
    group: &Item<'_>,
    event: &str,
    dialect: Dialect,
) -> Result<(), ReadError> {
    file.warn_of_others(group, &["description", "hooks", "matcher", "sequential"])?;
    let (matcher, matching) = group.matcher(file.mode, event)?;
    let in_turn = group.is_set("sequential")?;
    if in_turn && file.mode != Mode::GeminiCli {
        let problem = "`sequential` has no effect: hooks at a point run side by side";
        file.warn(group, problem);
    }
    let Some(list) = group.down("hooks") else {
        let problem = "is missing; it must be the list of hooks that `matcher` is for";
        return Err(group.wrong_at("hooks", problem));
    };
    for entry in list.entries()? {
        let hook = hook(file, &entry, event, dialect)?;
        file.push(Registered {
            entry: Entry {
                in_turn: in_turn && file.mode == Mode::GeminiCli,
                ..hook.entry
            },
            matcher: matcher.clone(),
            matching: matching.clone(),
            ..hook
        });
    }
    Ok(())
}

fn hook(
    file: &mut Gathered<'_>,
    entry: &Item<'_>,
    event: &str,
    dialect: Dialect,
) -> Result<Registered, ReadError> {
    let kind = entry.required("type")?;
    if dialect.not_served().contains(&kind) {
        let action = Action::Unsupported(format!("its type is `{kind}`, which runs no command"));
        let hook = file.hook(entry, event, action);
        return Ok(Registered {
            name: entry.own_name()?.unwrap_or(hook.name),
            ..hook
        });
    }
    if kind == "http" && dialect.has_posts() {
        return posted(file, entry, event, dialect);
    }
    if kind != "command" {
        let posts = dialect.has_posts().then_some("http");
        let types = posts.iter().chain(dialect.not_served());
        let types: String = types.map(|kind| format!(", `{kind}`")).collect();
        let problem = format!("is `{kind}`; it can be `command`{types}");
        return Err(entry.wrong_at("type", problem));
    }
    let known = [dialect.reading(), dialect.others()].concat();
    file.warn_of_others(entry, &known)?;
    warn_of_effects(file, entry, dialect)?;
    let filter = filter(file, entry, event, dialect)?;
    let action = command(entry, dialect)?;
    let env = entry.field("env").filter(|_| dialect == Dialect::GeminiCli);
    let env = env.map(|env| env.variables()).transpose()?;
    let hook = file.hook(entry, event, action);
    Ok(Registered {
        configured_env: env.unwrap_or_default(),
        entry: entry.reading(file.mode, dialect.reading())?,
        filter,
        name: entry.own_name()?.unwrap_or(hook.name),
        ..hook
    })
}

fn posted(
    file: &mut Gathered<'_>,
    entry: &Item<'_>,
    event: &str,
    dialect: Dialect,
) -> Result<Registered, ReadError> {
    const READING: [&str; 2] = ["onFailure", "timeout"];
    const OTHERS: [&str; 5] = ["if", "name", "once", "statusMessage", "type"];

    let known = [&post::KEYS[..], &READING, &OTHERS].concat();
    file.warn_of_others(entry, &known)?;
    warn_of_effects(file, entry, dialect)?;
    let filter = filter(file, entry, event, dialect)?;
    let action = post::post(file, entry)?;
    let hook = file.hook(entry, event, action);
    Ok(Registered {
        entry: Entry {
            objects_only: true,
            ..entry.reading(file.mode, &READING)?
        },
        filter,
        name: entry.own_name()?.unwrap_or(hook.name),
        ..hook
    })
}

/// Reads the filter of an entry of Claude Code's, and warns where it does not decide alone.
fn filter(
    file: &mut Gathered<'_>,
    entry: &Item<'_>,
    event: &str,
    dialect: Dialect,
) -> Result<Option<Filter>, ReadError> {
    let Some(item) = entry.field("if").filter(|_| dialect == Dialect::ClaudeCode) else {
        return Ok(None);
    };
    let filter = Filter::parse(item.text()?);
    let problem = match &filter {
        None => "is no rule: the hook runs whenever its matcher matches",
        Some(_) if !Filter::is_read_at(event) => {
            "is read at events about tools alone: here the hook always runs, and in Claude Code never"
        }
        Some(filter) if !filter.is_whole() => {
            "is evaluated for the tool's name alone: what is in brackets hides no hook"
        }
        Some(_) => return Ok(filter),
    };
    file.warn(&item, problem);
    Ok(filter)
}

/// Warns of keys that are understood and not followed.
fn warn_of_effects(
    file: &mut Gathered<'_>,
    entry: &Item<'_>,
    dialect: Dialect,
) -> Result<(), ReadError> {
    if dialect != Dialect::ClaudeCode {
        return Ok(());
    }
    if entry.is_set("once")? {
        file.warn(entry, "`once` has no effect: the hook runs every time");
    }
    Ok(())
}

fn command(entry: &Item<'_>, dialect: Dialect) -> Result<Action, ReadError> {
    let item = entry.present("command")?;
    let command = line(&item)?;
    if dialect == Dialect::Codex && entry.is_set("async")? {
        let why = "it is `async`, which Codex passes over";
        return Ok(Action::Unsupported(why.to_owned()));
    }
    if dialect != Dialect::ClaudeCode {
        return Ok(Action::Command(command));
    }
    // With arguments, even with none of them, the command is a program and no shell reads it.
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
