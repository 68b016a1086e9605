//! Hook files with events as lists of groups `{matcher, hooks: […]}`. Several runtimes share this shape, in a file with
//! other settings. The runtimes ignore unknown keys; here each is a warning.

use hookjail_base::model::Command;

use super::{Action, Gathered, Item, ReadError, Registered, line, posted};
use crate::{Entry, Filter};

/// Differences of a runtime's files from the shared shape.
pub(crate) trait Dialect {
    /// Returns the keys of an entry that affect how its end is interpreted.
    fn reading(&self) -> &'static [&'static str];

    /// Returns the other keys of an entry that runs a command.
    fn others(&self) -> &'static [&'static str];

    /// Returns the types of entries that run no command and are not posted.
    fn not_served(&self) -> &'static [&'static str];

    /// Returns whether it has entries that are posted to a URL.
    fn has_posts(&self) -> bool {
        false
    }

    /// Returns whether the hooks of a group that is `sequential` run one after another.
    fn has_turns(&self) -> bool {
        false
    }

    /// Returns whether an entry has variables for its hook.
    fn has_variables(&self) -> bool {
        false
    }

    /// Warns of known keys that have no effect here.
    fn warn(&self, _file: &mut Gathered<'_>, _entry: &Item<'_>) -> Result<(), ReadError> {
        Ok(())
    }

    /// Parses the filter of an entry, and warns where it is not fully evaluated.
    fn filter(
        &self,
        _file: &mut Gathered<'_>,
        _entry: &Item<'_>,
        _event: &str,
    ) -> Result<Option<Filter>, ReadError> {
        Ok(None)
    }

    /// Parses the action of an entry with this `command`.
    fn action(&self, _entry: &Item<'_>, command: Command) -> Result<Action, ReadError> {
        Ok(Action::Command(command))
    }
}

/// Parses the groups of a file.
pub(crate) fn read(
    file: &mut Gathered<'_>,
    root: &Item<'_>,
    dialect: &dyn Dialect,
) -> Result<(), ReadError> {
    let Some(hooks) = root.down("hooks") else {
        return Ok(());
    };
    for (event, groups) in hooks.down_all()? {
        file.check_point(&groups, event)?;
        for item in groups.entries()? {
            group(file, &item, event, dialect)?;
        }
    }
    Ok(())
}

fn group(
    file: &mut Gathered<'_>,
    group: &Item<'_>,
    event: &str,
    dialect: &dyn Dialect,
) -> Result<(), ReadError> {
    file.warn_of_others(group, &["description", "hooks", "matcher", "sequential"])?;
    let (matcher, matching) = group.matcher(file.mode, event)?;
    let in_turn = group.is_set("sequential")?;
    if in_turn && !dialect.has_turns() {
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
                in_turn: in_turn && dialect.has_turns(),
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
    dialect: &dyn Dialect,
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
    dialect.warn(file, entry)?;
    let filter = dialect.filter(file, entry, event)?;
    let command = line(&entry.present("command")?)?;
    let action = dialect.action(entry, command)?;
    let env = entry.field("env").filter(|_| dialect.has_variables());
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
    dialect: &dyn Dialect,
) -> Result<Registered, ReadError> {
    const READING: [&str; 2] = ["onFailure", "timeout"];
    const OTHERS: [&str; 5] = ["if", "name", "once", "statusMessage", "type"];

    let known = [&posted::KEYS[..], &READING, &OTHERS].concat();
    file.warn_of_others(entry, &known)?;
    dialect.warn(file, entry)?;
    let filter = dialect.filter(file, entry, event)?;
    let action = posted::post(file, entry)?;
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
