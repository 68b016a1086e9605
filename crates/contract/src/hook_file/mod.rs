//! Hook files in each runtime's own format, parsed into [`Registered`] hooks.
//!
//! Pure: the input is text, the result is hooks or an error with file, entry and field. Every entry is validated whole.
//! Each runtime's own parser is the `hook_file.rs` of its folder; the common parts are here.

use std::{collections::BTreeMap, path::Path};

use serde_json::Value;

pub(super) mod groups;
mod item;
pub(super) mod posted;
mod registered;
mod supplied;
pub(super) mod yaml;

use hookjail_base::model::{Command, json};

pub(super) use self::item::Item;
pub(crate) use self::supplied::hookjail;
pub use self::{
    registered::{Action, Owner, POST_PROFILE, Registered},
    supplied::Supplied,
};

use super::{Matcher, Mode, Scheduling};

/// Parser of a runtime's hook files.
pub(super) trait HookFile: Sync {
    /// Returns the syntax of the files.
    fn syntax(&self) -> Syntax {
        Syntax::Json
    }

    /// Returns why no hook of any file runs, whatever the content.
    fn disabled(&self, _switches: &Switches) -> Option<&'static str> {
        None
    }

    /// Returns the additions of the environment to its command lists.
    fn listed<'a>(&self, _switches: &'a Switches) -> &'a str {
        ""
    }

    /// Returns whether an absent file counts as one without hooks.
    fn may_be_absent(&self) -> bool {
        false
    }

    /// Returns the name of a plugin's hook.
    fn plugins_name(&self, _plugin: &str, name: String) -> String {
        name
    }

    /// Parses the value of a file.
    fn read(
        &self,
        file: &mut Gathered<'_>,
        root: &Item<'_>,
        switches: &Switches,
    ) -> Result<(), ReadError>;
}

/// Syntax of a hook file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Syntax {
    /// JSON.
    Json,
    /// JSON with comments, as JavaScript has them.
    JsonWithComments,
    /// YAML.
    Yaml(yaml::Version),
}

/// Returns the contracts whose runtimes have hook files.
pub fn contracts() -> Vec<&'static str> {
    Mode::contracts(|mode| mode.configured().hook_file().is_some())
}

/// Returns whether an absent file of a contract counts as one without hooks.
pub fn may_be_absent(contract: &str) -> bool {
    reader(contract).is_some_and(HookFile::may_be_absent)
}

/// Returns the name of a plugin's hook, from its name in the file.
pub fn plugins_name(contract: &str, plugin: &str, name: String) -> String {
    match reader(contract) {
        Some(reader) => reader.plugins_name(plugin, name),
        None => name,
    }
}

fn reader(contract: &str) -> Option<&'static dyn HookFile> {
    Mode::any_of(contract)?.configured().hook_file()
}

/// The largest file, bytes.
pub const MAX_BYTES: usize = 1024 * 1024;

/// The part of a command that names a hook without a name, in characters.
const NAME_CHARS: usize = 64;

/// The content of a hook file.
#[derive(Clone, Debug)]
#[must_use]
pub struct ReadFile {
    /// The reason why no hook runs, if the file or a switch disables them.
    pub disabled: Option<String>,
    /// The hooks, in the order of the file at each point.
    pub hooks: Vec<Registered>,
    /// Possible mistakes, each with its position.
    pub warnings: Vec<String>,
}

impl ReadFile {
    /// Returns the hooks that run: none where they are disabled.
    pub fn enabled(self) -> Vec<Registered> {
        match self.disabled {
            Some(_) => Vec::new(),
            None => self.hooks,
        }
    }
}

/// Origin of a hook file's text.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The base of relative directories, if the operator configures it; absolute.
    pub base: Option<&'a Path>,
    /// The file's name, for errors and for the hooks' source.
    pub name: &'a str,
}

/// The runtimes' environment variables that affect hooks, read once at start, with their values.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Switches(BTreeMap<&'static str, String>);

impl Switches {
    /// Reads the switches from an environment.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        // Of the facts, not of the parsers: programs that parse no hook file read the environment too.
        let names = Mode::ALL
            .into_iter()
            .flat_map(|it| it.runtime().facts().switches);
        let found = names.filter_map(|name| Some((*name, variable(name)?)));
        Self(found.collect())
    }

    /// Returns the additions to command lists from the environment. They are for every mode, separated by commas or
    /// line breaks.
    pub fn listed(&self) -> String {
        let files = Mode::ALL
            .into_iter()
            .filter_map(|it| it.configured().hook_file());
        let listed = files.map(|file| file.listed(self));
        listed
            .filter(|it| !it.is_empty())
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Returns a variable's value, without white space around it.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim())
    }
}

/// Reading a hook file failed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{file}: {}{problem}", place(entry, field))]
pub struct ReadError {
    /// The entry, for example `hooks.PreToolUse[0].hooks[1]`; empty = the file as a whole.
    pub entry: String,
    /// The field of the entry; empty = the entry as a whole.
    pub field: String,
    /// The file.
    pub file: String,
    /// The problem and, where that helps, its fix.
    pub problem: String,
}

fn place(entry: &str, field: &str) -> String {
    let quoted = |name: &str, after: &str| match name {
        "" => String::new(),
        name => format!("`{name}`{after}"),
    };
    let between = if field.is_empty() { " " } else { ": " };
    quoted(entry, between) + &quoted(field, " ")
}

/// Parses the text of a runtime's hook file; the runtime is named like its contract.
///
/// # Errors
///
/// Fails for an unknown runtime, a text that is not YAML or JSON, or an entry that its runtime would not accept.
pub fn read(
    contract: &str,
    text: &str,
    origin: &Origin<'_>,
    switches: &Switches,
) -> Result<ReadFile, ReadError> {
    let nothing = Value::Null;
    let whole = Item::root(origin.name, &nothing);
    let mode = Mode::parse(contract, "command").map_err(|error| whole.wrong(error.to_string()))?;
    if text.len() > MAX_BYTES {
        return Err(whole.wrong(format!("is larger than {MAX_BYTES} bytes")));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut file = Gathered {
        mode,
        origin: *origin,
        read: ReadFile {
            disabled: None,
            hooks: Vec::new(),
            warnings: Vec::new(),
        },
    };
    let Some(reader) = mode.configured().hook_file() else {
        return Err(whole.wrong(format!(
            "cannot be read: `{contract}` has no files of hooks"
        )));
    };
    if let Some(why) = reader.disabled(switches) {
        file.disable(why);
        return Ok(file.read);
    }
    let value = match reader.syntax() {
        Syntax::Json => parse_json(text),
        Syntax::JsonWithComments => parse_json(&json::without_comments(text)),
        Syntax::Yaml(version) => yaml::parse(text, version),
    };
    let value = value.map_err(|problem| whole.wrong(problem))?;
    let root = Item::root(origin.name, &value);
    reader.read(&mut file, &root, switches)?;
    Ok(file.read)
}

/// Parses JSON and rejects repeated keys: taking one of them would hide the other.
fn parse_json(text: &str) -> Result<Value, String> {
    let value = serde_json::from_str(text).map_err(|error| format!("is no JSON: {error}"))?;
    match json::first_repeated_key(text) {
        None => Ok(value),
        Some(at) => {
            let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
            let key = text[at..].split(['"', ':']).nth(1).unwrap_or_default();
            Err(format!("line {line}: repeats the key `{key}`"))
        }
    }
}

/// The result of parsing a file so far.
#[derive(Debug)]
pub(super) struct Gathered<'a> {
    pub(super) mode: Mode,
    pub(super) origin: Origin<'a>,
    pub(super) read: ReadFile,
}

impl Gathered<'_> {
    pub(super) fn disable(&mut self, why: impl Into<String>) {
        self.read.disabled.get_or_insert(why.into());
    }

    pub(super) fn warn(&mut self, item: &Item<'_>, problem: &str) {
        self.read
            .warnings
            .push(format!("{}: {problem}", item.place()));
    }

    /// Warns of keys that the runtime ignores.
    pub(super) fn warn_of_others(
        &mut self,
        item: &Item<'_>,
        keys: &[&str],
    ) -> Result<(), ReadError> {
        for other in item.others(keys)? {
            self.warn(
                item,
                &format!("the key `{other}` is not known and has no effect"),
            );
        }
        Ok(())
    }

    /// Rejects an unknown point; warns of one that an open list of points accepts, as it may be misspelt.
    pub(super) fn check_point(&mut self, item: &Item<'_>, point: &str) -> Result<(), ReadError> {
        let known = self.mode.stop_at(point);
        known.map_err(|error| item.wrong(format!("is no point: {}", error.problem)))?;
        if !self.mode.points().iter().any(|known| known.name == point) {
            let problem =
                format!("the point `{point}` is not known; the hook runs if its runtime has it");
            self.warn(item, &problem);
        }
        Ok(())
    }

    /// Builds a hook of an entry that has only an action and a point.
    pub(super) fn hook(&self, item: &Item<'_>, point: &str, action: Action) -> Registered {
        // A generated name must not distinguish equal entries that count as one hook.
        let is_beside_others = matches!(
            self.mode.scheduling(point),
            Scheduling::AtOnce | Scheduling::Pipeline
        );
        let name = match &action {
            Action::Command(command) if is_beside_others => {
                shown(command).chars().take(NAME_CHARS).collect()
            }
            Action::Http(post) if is_beside_others => {
                post.url().to_string().chars().take(NAME_CHARS).collect()
            }
            Action::Approve(_)
            | Action::Builtin(_)
            | Action::Command(_)
            | Action::Http(_)
            | Action::Log(_)
            | Action::Supplied(_)
            | Action::Unsupported(_) => item.entry().to_owned(),
        };
        let source = format!("{}: {}", self.origin.name, item.entry());
        Registered::of(self.mode, point, (name, source), action)
    }

    pub(super) fn push(&mut self, hook: Registered) {
        self.read.hooks.push(hook);
    }
}

/// Returns a command on one line, for a name.
fn shown(command: &Command) -> String {
    spelled(command).trim().replace(char::is_control, " ")
}

/// Returns a command as its file has it.
pub fn spelled(command: &Command) -> String {
    match command {
        Command::Argv(argv) => {
            let words: Vec<_> = argv.iter().map(|word| word.to_string_lossy()).collect();
            words.join(" ")
        }
        Command::Line { text, .. } => text.clone(),
    }
}

/// Parses a command line that the contract's shell runs.
pub(super) fn line(item: &Item<'_>) -> Result<Command, ReadError> {
    let text = item.filled()?.to_owned();
    Ok(Command::Line { shell: None, text })
}

/// Parses program and arguments.
pub(super) fn argv(item: &Item<'_>) -> Result<Command, ReadError> {
    let words = item.texts()?;
    if words
        .first()
        .is_none_or(|program| program.trim().is_empty())
    {
        return Err(item.wrong("names no program"));
    }
    Ok(Command::Argv(words.into_iter().map(Into::into).collect()))
}

/// Parses a matcher; one that does not compile matches every event, with a warning.
///
/// Its runtime may have expressions that are unknown here, and a guard must not be skipped where it would have run.
pub(super) fn tolerant_matcher(
    file: &mut Gathered<'_>,
    item: &Item<'_>,
    point: &str,
) -> Result<(Matcher, String), ReadError> {
    let text = item
        .field("matcher")
        .map(|matcher| matcher.text())
        .transpose()?;
    Ok(item.matcher(file.mode, point).unwrap_or_else(|error| {
        let problem = format!("runs at every event: `matcher` {}", error.problem);
        file.warn(item, &problem);
        (Matcher::Always, text.unwrap_or_default().to_owned())
    }))
}

/// Checks for `version: 1`, which several runtimes have.
pub(super) fn version(root: &Item<'_>) -> Result<(), ReadError> {
    match root.field("version") {
        Some(version) if version.value().as_u64() == Some(1) => Ok(()),
        Some(version) => Err(version.wrong("must be 1")),
        None => Err(root.wrong_at("version", "is missing; it must be 1")),
    }
}

#[cfg(test)]
mod tests;
