//! Hook files in each runtime's own format, parsed into [`Registered`] hooks.
//!
//! Pure: the input is text, the result is hooks or an error with file, entry and field. Every entry is validated whole.
//! Each runtime's particulars are the `HOOK_FILE` in the `hook_file.rs` of its folder.

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

use self::groups::Dialect;
use super::{Entry, Matcher, Mode, Scheduling, adopt::Adopted, runtime::named};

/// Particulars of a runtime's hook files.
#[derive(Debug)]
pub(super) struct HookFile {
    /// The keys of an entry that runs a command, beside those that requests have too.
    pub(super) beside: &'static [&'static str],
    /// Returns why no hook of any file runs, regardless of the content.
    pub(super) disabled: fn(&Switches) -> Option<&'static str>,
    /// Completes a file that has hooks, after them.
    pub(super) finish: fn(&mut Gathered<'_>, &Item<'_>) -> Result<(), ReadError>,
    /// Reads the keys of a file beside its hooks that are the runtime's own, and returns the hooks; `None` if there are
    /// none. Unused where the layout is the runtime's own.
    pub(super) hooks:
        for<'a> fn(&mut Gathered<'_>, &Item<'a>) -> Result<Option<Item<'a>>, ReadError>,
    /// The keys beside the events that are settings.
    pub(super) settings: &'static [&'static str],
    /// Whether the runtime passes over events that are none of its points.
    pub(super) ignores_other_events: bool,
    /// Whether a file has a version, which is 1.
    pub(super) versioned: Versioned,
    /// The arrangement of the hooks.
    pub(super) layout: Layout,
    /// The variable with additions to its command lists.
    pub(super) listed: Option<&'static str>,
    /// Whether an absent file counts as one without hooks.
    pub(super) may_be_absent: bool,
    /// Returns the name of a plugin's hook, from the plugin's and its own.
    pub(super) plugins_name: fn(&str, String) -> String,
    /// The key of a file that disables its hooks where it is true.
    pub(super) switch: Option<&'static str>,
    /// The syntax of the files.
    pub(super) syntax: Syntax,
}

/// Arrangement of the hooks in a file.
#[derive(Debug)]
pub(super) enum Layout {
    /// A map of events to lists of entries.
    Flat(ReadEntry),
    /// A map of events to lists of entries, and of groups `{matcher, hooks: […]}` of such entries.
    FlatOrGroups(ReadEntry),
    /// A map of events to lists of groups `{matcher, hooks: […]}`.
    Groups(Dialect),
    /// A list of entries that name their events.
    List(ReadEntry),
    /// The runtime's own, parsed from the whole file.
    Own(fn(&mut Gathered<'_>, &Item<'_>) -> Result<(), ReadError>),
}

/// Parser of an entry at an event, which is empty if the entry itself names it.
type ReadEntry = fn(&mut Gathered<'_>, &Item<'_>, &str) -> Result<Registered, ReadError>;

impl HookFile {
    /// The defaults of all members but the layout.
    pub(super) const fn with(layout: Layout) -> Self {
        Self {
            beside: &[],
            disabled: |_| None,
            finish: |_, _| Ok(()),
            hooks: |file, root| {
                root.map()?;
                file.reader.versioned.check(root)?;
                if let Some(key) = file.reader.switch
                    && root.is_set(key)?
                {
                    file.disable(format!("`{key}` is true"));
                }
                let hooks = root.down("hooks");
                Ok(hooks.or_else(|| file.bare_events(root)))
            },
            ignores_other_events: false,
            layout,
            listed: None,
            may_be_absent: false,
            plugins_name: |_, name| name,
            settings: &[],
            switch: None,
            syntax: Syntax::Json,
            versioned: Versioned::Never,
        }
    }

    /// Parses the value of a file.
    fn read(&self, file: &mut Gathered<'_>, root: &Item<'_>) -> Result<(), ReadError> {
        if let Layout::Own(read) = self.layout {
            return read(file, root);
        }
        let Some(hooks) = (self.hooks)(file, root)? else {
            return Ok(());
        };
        if let Layout::List(_) = self.layout {
            self.entries(file, &hooks, "")?;
        } else {
            for (event, list) in hooks.down_all()? {
                if self.settings.contains(&event) {
                    continue;
                }
                let entries = list.value().as_array();
                let is_list = entries.is_some_and(|entries| entries.iter().all(Value::is_object));
                let is_event = file.mode.facts().has_point(event) || is_list;
                if self.ignores_other_events && !is_event {
                    file.warn(&list, &format!("`{event}` is no event, and has no effect"));
                    continue;
                }
                // Its runtime may have the event by now: `install` names it.
                let is_kept = self.ignores_other_events && file.passed_over.is_none();
                if is_kept && file.mode.stop_at(event).is_err() {
                    let problem =
                        format!("`{event}` is no point of the runtime, and has no effect");
                    file.warn(&list, &problem);
                    continue;
                }
                let added = file
                    .check_point(&list, event)
                    .and_then(|()| self.entries(file, &list, event));
                file.pass_over(added)?;
            }
        }
        (self.finish)(file, root)
    }

    fn entries(
        &self,
        file: &mut Gathered<'_>,
        list: &Item<'_>,
        event: &str,
    ) -> Result<(), ReadError> {
        for entry in list.entries()? {
            let added = match &self.layout {
                Layout::FlatOrGroups(read) if entry.field("hooks").is_some() => {
                    self.members(file, &entry, event, *read)
                }
                Layout::Flat(read) | Layout::FlatOrGroups(read) | Layout::List(read) => {
                    read(file, &entry, event).map(|hook| file.push(hook))
                }
                Layout::Groups(dialect) => groups::group(file, &entry, event, dialect),
                Layout::Own(_) => Ok(()),
            };
            file.pass_over(added)?;
        }
        Ok(())
    }
}

impl HookFile {
    /// Parses the entries of a group, whose matcher is for all of them.
    fn members(
        &self,
        file: &mut Gathered<'_>,
        group: &Item<'_>,
        event: &str,
        read: ReadEntry,
    ) -> Result<(), ReadError> {
        file.warn_of_others(group, &["comment", "description", "hooks", "matcher"])?;
        let (matcher, matching) = tolerant_matcher(file, group, event)?;
        for entry in groups::members(group)? {
            let added = read(file, &entry, event).map(|hook| {
                file.push(Registered {
                    matcher: matcher.clone(),
                    matching: matching.clone(),
                    ..hook
                });
            });
            file.pass_over(added)?;
        }
        Ok(())
    }
}

/// The warning about a file that has its events as members of its own.
pub(super) const NOT_BELOW_HOOKS: &str =
    "its events are not below `hooks`, but read as if they were";

/// Whether a hook file has a version, which is 1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Versioned {
    Always,
    Maybe,
    Never,
}

impl Versioned {
    fn check(self, root: &Item<'_>) -> Result<(), ReadError> {
        let is_there = root.field("version").is_some();
        match self {
            Self::Always => version(root),
            Self::Maybe if is_there => version(root),
            Self::Maybe | Self::Never => Ok(()),
        }
    }
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
    Mode::contracts(|mode| mode.rules().hook_file.is_some())
}

/// Returns whether an absent file of a contract counts as one without hooks.
pub fn may_be_absent(contract: &str) -> bool {
    reader(contract).is_some_and(|reader| reader.may_be_absent)
}

/// Returns the name of a plugin's hook, from its name in the file.
pub fn plugins_name(contract: &str, plugin: &str, name: String) -> String {
    match reader(contract) {
        Some(reader) => (reader.plugins_name)(plugin, name),
        None => name,
    }
}

fn reader(contract: &str) -> Option<&'static HookFile> {
    Mode::any_of(contract)?.rules().hook_file
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
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        // Of the facts, not of the parsers: programs that parse no hook file read the environment too.
        let names = Mode::ALL.into_iter().flat_map(|it| it.facts().switches);
        let found = names.filter_map(|name| Some((*name, variable(name)?)));
        Self(found.collect())
    }

    /// Returns the additions to command lists from the environment. They are for every mode, separated by commas or
    /// line breaks.
    pub fn listed(&self) -> String {
        let files = Mode::ALL.into_iter().filter_map(|it| it.rules().hook_file);
        let listed = files.filter_map(|file| self.value(file.listed?));
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
    let whole = Item::root(origin.name, &Value::Null);
    let mode = Mode::parse(contract, "command").map_err(|error| whole.wrong(error.to_string()))?;
    let reader = (mode, mode.rules().hook_file);
    Ok(gather(reader, text, (origin, switches), None)?.read)
}

/// Parses the settings of an adopted runtime as [`read`] does, and passes over entries that it would not accept. Returns those, too.
///
/// # Errors
///
/// Fails for a text that is not YAML or JSON, or a file that is wrong as a whole.
pub fn read_each(
    runtime: Adopted,
    text: &str,
    origin: &Origin<'_>,
    switches: &Switches,
) -> Result<(ReadFile, Vec<ReadError>), ReadError> {
    let rules = runtime.mode.rules();
    let of_runtime = (rules.of_runtime)(runtime.name);
    let reader = (runtime.mode, of_runtime.or(rules.hook_file));
    let gathered = gather(reader, text, (origin, switches), Some(Vec::new()))?;
    Ok((gathered.read, gathered.passed_over.unwrap_or_default()))
}

fn gather<'a>(
    (mode, reader): (Mode, Option<&'static HookFile>),
    text: &str,
    (origin, switches): (&Origin<'a>, &'a Switches),
    passed_over: Option<Vec<ReadError>>,
) -> Result<Gathered<'a>, ReadError> {
    let nothing = Value::Null;
    let whole = Item::root(origin.name, &nothing);
    if text.len() > MAX_BYTES {
        return Err(whole.wrong(format!("is larger than {MAX_BYTES} bytes")));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(reader) = reader else {
        let contract = mode.facts().contract;
        return Err(whole.wrong(format!(
            "cannot be read: `{contract}` has no files of hooks"
        )));
    };
    let mut file = Gathered {
        mode,
        origin: *origin,
        passed_over,
        read: ReadFile {
            disabled: None,
            hooks: Vec::new(),
            warnings: Vec::new(),
        },
        reader,
        switches,
    };
    if let Some(why) = (reader.disabled)(switches) {
        file.disable(why);
        return Ok(file);
    }
    let value = match reader.syntax {
        Syntax::Json => parse_json(text),
        Syntax::JsonWithComments => parse_json(&json::without_comments(text)),
        Syntax::Yaml(version) => yaml::parse(text, version),
    };
    let value = value.map_err(|problem| whole.wrong(problem))?;
    let root = Item::root(origin.name, &value);
    reader.read(&mut file, &root)?;
    Ok(file)
}

/// Parses YAML 1.2 of one document, whose aliases and depth are bounded.
///
/// # Errors
///
/// Fails, with the position, for invalid YAML, a repeated key, and too deep or too large values.
pub fn parse_yaml(text: &str) -> Result<Value, String> {
    yaml::parse(text, yaml::Version::V1_2)
}

/// Parses JSON and rejects repeated keys: taking one of them would hide the other.
fn parse_json(text: &str) -> Result<Value, String> {
    let value = serde_json::from_str(text).map_err(|error| format!("is no JSON: {error}"))?;
    match json::first_repeated_key(text) {
        None => Ok(value),
        Some(position) => {
            let line = text
                .bytes()
                .take(position)
                .filter(|byte| *byte == b'\n')
                .count()
                + 1;
            let key = text[position..]
                .split(['"', ':'])
                .nth(1)
                .unwrap_or_default();
            Err(format!("line {line}: repeats the key `{key}`"))
        }
    }
}

/// The result of parsing a file so far.
#[derive(Debug)]
pub(super) struct Gathered<'a> {
    pub(super) mode: Mode,
    pub(super) origin: Origin<'a>,
    /// The entries that were passed over; `None` where the first fails the file.
    pub(super) passed_over: Option<Vec<ReadError>>,
    pub(super) read: ReadFile,
    pub(super) reader: &'static HookFile,
    pub(super) switches: &'a Switches,
}

impl Gathered<'_> {
    /// Keeps the error of an entry that is passed over.
    pub(super) fn pass_over(&mut self, added: Result<(), ReadError>) -> Result<(), ReadError> {
        match (added, &mut self.passed_over) {
            (Err(error), Some(passed_over)) => {
                passed_over.push(error);
                Ok(())
            }
            (added, _) => added,
        }
    }

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

    /// Rejects an unknown point, and one in another case, as runtimes do; warns of one that an open list of points accepts, as it may be
    /// misspelt.
    pub(super) fn check_point(&mut self, item: &Item<'_>, point: &str) -> Result<(), ReadError> {
        let known = self.mode.stop_at(point);
        known.map_err(|error| item.wrong(format!("is no point: {}", error.problem)))?;
        let facts = self.mode.facts();
        if !facts.has_point(point) {
            let named = facts.named(point);
            if named != point {
                let contract = facts.contract;
                let problem = format!(
                    "is no point: `{point}` is unknown to `{contract}`, which has `{named}`"
                );
                return Err(item.wrong(problem));
            }
            let problem =
                format!("the point `{point}` is unknown, and the hook runs if its runtime has it");
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
        let shown = if let Action::Http(post) = &action {
            Some(post.url.to_string())
        } else {
            action.command().map(shown)
        };
        let name = match shown.filter(|_| is_beside_others) {
            Some(shown) => shown.chars().take(NAME_CHARS).collect(),
            None => item.entry().to_owned(),
        };
        let source = format!("{}: {}", self.origin.name, item.entry());
        Registered::new(self.mode, point, (name, source), action)
    }

    /// Builds a hook of an entry with its name and all of its keys that affect how its end is interpreted.
    pub(super) fn whole(
        &self,
        item: &Item<'_>,
        point: &str,
        action: Action,
    ) -> Result<Registered, ReadError> {
        let hook = self.hook(item, point, action);
        Ok(Registered {
            entry: self.reading(item)?,
            name: item.own_name()?.unwrap_or(hook.name),
            ..hook
        })
    }

    /// Parses all keys of an entry that affect how its end is interpreted.
    pub(super) fn reading(&self, item: &Item<'_>) -> Result<Entry, ReadError> {
        let keys: Vec<_> = self.read_keys().collect();
        item.reading(self.mode, &keys)
    }

    fn read_keys(&self) -> impl Iterator<Item = &'static str> {
        let keys = self.mode.facts().keys.iter();
        keys.filter(|(_, key)| key.is_of_an_entry())
            .map(|(name, _)| *name)
    }

    /// Returns the keys of an entry that runs a command, sorted.
    pub(super) fn keys(&self) -> Vec<&'static str> {
        // Matchers are a group's, except in files without groups.
        let has_matcher = matches!(
            self.reader.layout,
            Layout::Flat(_) | Layout::FlatOrGroups(_)
        );
        let is_own =
            |name: &&str| (has_matcher || *name != "matcher") && !posted::KEYS.contains(name);
        let carried = self.mode.facts().carried.iter().copied().filter(is_own);
        let mut keys: Vec<_> = self.read_keys().chain(carried).collect();
        keys.extend(self.reader.beside);
        keys.sort_unstable();
        keys
    }

    /// Returns a file of groups whose events are its own members, and warns of it.
    fn bare_events<'a>(&mut self, root: &Item<'a>) -> Option<Item<'a>> {
        let mode = self.mode;
        let is_event = |name: &str| mode.facts().has_point(name);
        let is_of_groups = matches!(self.reader.layout, Layout::Groups(_));
        let is_bare = is_of_groups && root.value().as_object()?.keys().any(|name| is_event(name));
        is_bare.then(|| {
            self.warn(root, NOT_BELOW_HOOKS);
            root.clone()
        })
    }

    /// Adds a hook, with its timeout cut where its runtime cuts it.
    pub(super) fn push(&mut self, mut hook: Registered) {
        let longest = named(hook.mode.facts().longest, &hook.point);
        let timeout = hook.entry.timeout;
        hook.entry.timeout =
            timeout.map(|timeout| longest.map_or(timeout, |most| timeout.min(most)));
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
        None => Err(root.wrong_at("version", "is missing; set it to 1")),
    }
}

#[cfg(test)]
mod tests;
