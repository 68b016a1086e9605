//! Hook files with events as lists of groups `{matcher, hooks: […]}`. Several runtimes share this shape, in a file with
//! other settings. The runtimes ignore unknown keys; here each is a warning.

use hookjail_base::model::Command;

use super::{Action, Gathered, Item, ReadError, Registered, line, posted, tolerant_matcher};
use crate::{Entry, Filter};

/// Differences of a runtime's files from the shared shape.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// Parses the action of an entry with this `command`.
    pub(crate) action: fn(&Item<'_>, Command) -> Result<Action, ReadError>,
    /// Parses the filter of an entry at an event, and warns where it is not fully evaluated.
    pub(crate) filter: fn(&mut Gathered<'_>, &Item<'_>, &str) -> Result<Option<Filter>, ReadError>,
    /// Whether it has entries that are posted to a URL.
    pub(crate) has_posts: bool,
    /// Whether the hooks of a group that is `sequential` run one after another.
    pub(crate) has_turns: bool,
    /// Whether an entry has variables for its hook.
    pub(crate) has_variables: bool,
    /// The types of entries that run no command and are not posted.
    pub(crate) not_served: &'static [&'static str],
    /// Warns of known keys that have no effect here.
    pub(crate) warn: fn(&mut Gathered<'_>, &Item<'_>) -> Result<(), ReadError>,
}

impl Dialect {
    /// The defaults of all members.
    pub(crate) const NONE: Self = Self {
        action: |_, command| Ok(Action::Command(command)),
        filter: |_, _, _| Ok(None),
        has_posts: false,
        has_turns: false,
        has_variables: false,
        not_served: &[],
        warn: |_, _| Ok(()),
    };
}

/// Warns of `once`, which counts for nothing here.
pub(crate) fn warn_of_once(file: &mut Gathered<'_>, entry: &Item<'_>) -> Result<(), ReadError> {
    if entry.is_set("once")? {
        file.warn(entry, "`once` has no effect: the hook runs every time");
    }
    Ok(())
}

/// The keys of a posted entry that affect how its end is interpreted.
const READING: [&str; 2] = ["onFailure", "timeout"];

/// The other keys of a posted entry.
const OTHERS: [&str; 5] = ["if", "name", "once", "statusMessage", "type"];

/// Parses a group at an event.
pub(super) fn group(
    file: &mut Gathered<'_>,
    group: &Item<'_>,
    event: &str,
    dialect: &Dialect,
) -> Result<(), ReadError> {
    file.warn_of_others(group, &["description", "hooks", "matcher", "sequential"])?;
    let (matcher, matching) = tolerant_matcher(file, group, event)?;
    let in_turn = group.is_set("sequential")?;
    if in_turn && !dialect.has_turns {
        let problem = "`sequential` has no effect: hooks at a point run side by side";
        file.warn(group, problem);
    }
    for entry in members(group)? {
        let added = hook(file, &entry, event, dialect).map(|hook| {
            file.push(Registered {
                entry: Entry {
                    in_turn: in_turn && dialect.has_turns,
                    ..hook.entry
                },
                matcher: matcher.clone(),
                matching: matching.clone(),
                ..hook
            });
        });
        file.pass_over(added)?;
    }
    Ok(())
}

/// Returns the entries of a group.
pub(crate) fn members<'a>(group: &Item<'a>) -> Result<Vec<Item<'a>>, ReadError> {
    let Some(list) = group.down("hooks") else {
        let problem = "is missing; add the list of hooks that `matcher` is for";
        return Err(group.wrong_at("hooks", problem));
    };
    list.entries()
}

fn hook(
    file: &mut Gathered<'_>,
    entry: &Item<'_>,
    event: &str,
    dialect: &Dialect,
) -> Result<Registered, ReadError> {
    let kind = entry.required("type")?;
    if dialect.not_served.contains(&kind) {
        let action = Action::Unsupported(format!("its type is `{kind}`, which runs no command"));
        let hook = file.hook(entry, event, action);
        return Ok(Registered {
            name: entry.own_name()?.unwrap_or(hook.name),
            ..hook
        });
    }
    let is_posted = dialect.has_posts && kind == "http";
    if kind != "command" && !is_posted {
        let posts = dialect.has_posts.then_some("http");
        let types = posts.iter().chain(dialect.not_served);
        let types: String = types.map(|kind| format!(", `{kind}`")).collect();
        let problem = format!("is `{kind}`; use one of `command`{types}");
        // A new type of handler costs the others of its file nothing. `install` names it.
        if file.passed_over.is_some() {
            return Err(entry.wrong_at("type", problem));
        }
        file.warn(entry, &format!("`type` {problem}"));
        let action = Action::Unsupported(format!("its type is `{kind}`, which is not known here"));
        return Ok(file.hook(entry, event, action));
    }
    let known = match is_posted {
        true => [&posted::KEYS[..], &READING, &OTHERS].concat(),
        false => file.keys(),
    };
    file.warn_of_others(entry, &known)?;
    (dialect.warn)(file, entry)?;
    let filter = (dialect.filter)(file, entry, event)?;
    if is_posted {
        let action = posted::post(file, entry)?;
        let hook = file.hook(entry, event, action);
        return Ok(Registered {
            entry: Entry {
                objects_only: true,
                ..entry.reading(file.mode, &READING)?
            },
            filter,
            name: entry.own_name()?.unwrap_or(hook.name),
            ..hook
        });
    }
    let command = line(&entry.present("command")?)?;
    let action = (dialect.action)(entry, command)?;
    let env = entry.field("env").filter(|_| dialect.has_variables);
    let env = env.map(|env| env.variables()).transpose()?;
    Ok(Registered {
        configured_env: env.unwrap_or_default(),
        filter,
        ..file.whole(entry, event, action)?
    })
}
