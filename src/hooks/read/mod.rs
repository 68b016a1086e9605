//! Hook configuration as the users of each system have it, read into [`Registered`] hooks.
//!
//! Pure: text goes in, hooks come out, or an error that names file, entry and field. What is read is validated whole. Each
//! system has a module of its own; the three that share a shape share `settings`.

use std::{collections::BTreeMap, path::Path};

use serde_json::Value;

mod basecoat;
mod copilot;
mod cursor;
mod docker_agent;
mod infer;
mod item;
mod loom;
mod post;
mod reyn;
mod settings;
mod yaml;

pub use self::infer::{InferLists, infer_lists};
use self::{item::Item, yaml::Version};
use super::{Action, Matcher, Owner, Registered};
use crate::{
    contract::{Course, Entry, Mode},
    model::{Command, json},
};

/// The contracts whose systems have files of hooks.
pub const CONTRACTS: [&str; 10] = [
    "basecoat",
    "claude_code",
    "codex",
    "copilot",
    "cursor",
    "docker_agent",
    "gemini_cli",
    "infer",
    "loom",
    "reyn",
];

/// The largest file, bytes.
pub const MAX_BYTES: usize = 1024 * 1024;

/// How much of a command serves as the name of a hook that has none, in characters.
const NAME_CHARS: usize = 64;

/// What a file holds.
#[derive(Clone, Debug)]
#[must_use]
pub struct ReadFile {
    /// Why none of the hooks runs, where the file or a switch says so.
    pub disabled: Option<String>,
    /// The hooks, in the order of the file at each point.
    pub hooks: Vec<Registered>,
    /// What is not as it may seem, each with its place.
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

/// Where a text comes from.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// Where relative directories start, if the operator says so; absolute.
    pub base: Option<&'a Path>,
    /// The file's name, for errors and for the hooks' source.
    pub name: &'a str,
}

/// The switches that the systems have in their environment, read once at start.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Switches {
    /// `INFER_HOOKS_ENABLED`: goes before the file's `enabled`. What is no boolean is false.
    pub infer_hooks_enabled: Option<bool>,
    /// `OWNWARE_ALLOW_COMMAND_HOOKS` is `1`.
    pub ownware_allow_command_hooks: bool,
    /// `OWNWARE_DISABLE_HOOKS` is `1`.
    pub ownware_disable_hooks: bool,
}

impl Switches {
    /// Looks the switches up in an environment.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let is_one = |name| variable(name).is_some_and(|value| value.trim() == "1");
        let is_true = |value: String| {
            let value = value.trim().to_ascii_lowercase();
            matches!(value.as_str(), "1" | "t" | "true")
        };
        let enabled = variable("INFER_HOOKS_ENABLED").filter(|value| !value.trim().is_empty());
        Self {
            infer_hooks_enabled: enabled.map(is_true),
            ownware_allow_command_hooks: is_one("OWNWARE_ALLOW_COMMAND_HOOKS"),
            ownware_disable_hooks: is_one("OWNWARE_DISABLE_HOOKS"),
        }
    }
}

/// A file cannot be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{file}: {}{problem}", place(entry, field))]
pub struct ReadError {
    /// The entry, for example `hooks.PreToolUse[0].hooks[1]`; empty = the file as a whole.
    pub entry: String,
    /// The field of the entry; empty = the entry as a whole.
    pub field: String,
    /// The file.
    pub file: String,
    /// What is wrong and, where that helps, what would be right.
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

/// Reads the text of a file of a system, which is named like its contract.
///
/// # Errors
///
/// Fails whole: an unknown system, a text that is no YAML or JSON, an entry that its system would not take.
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
    if contract == "loom" && switches.ownware_disable_hooks {
        file.disable("`OWNWARE_DISABLE_HOOKS` is 1");
        return Ok(file.read);
    }
    let value = match contract {
        "reyn" => yaml::parse(text, Version::V1_1),
        "docker_agent" | "infer" => yaml::parse(text, Version::V1_2),
        "gemini_cli" => parse_json(&json::without_comments(text)),
        _ => parse_json(text),
    };
    let value = value.map_err(|problem| whole.wrong(problem))?;
    let root = Item::root(origin.name, &value);
    match contract {
        "basecoat" => basecoat::read(&mut file, &root),
        "claude_code" => settings::read(&mut file, &root, settings::Dialect::ClaudeCode),
        "codex" => settings::read(&mut file, &root, settings::Dialect::Codex),
        "copilot" => copilot::read(&mut file, &root),
        "cursor" => cursor::read(&mut file, &root),
        "docker_agent" => docker_agent::read(&mut file, &root),
        "gemini_cli" => settings::read(&mut file, &root, settings::Dialect::GeminiCli),
        "infer" => infer::read(&mut file, &root, switches),
        "loom" => loom::read(&mut file, &root, switches),
        "reyn" => reyn::read(&mut file, &root),
        _ => Err(whole.wrong(format!(
            "cannot be read: `{contract}` has no files of hooks"
        ))),
    }?;
    Ok(file.read)
}

/// Reads JSON in which no key is given twice: taking one of them would hide the other.
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

/// What has been read of a file so far.
#[derive(Debug)]
struct Gathered<'a> {
    mode: Mode,
    origin: Origin<'a>,
    read: ReadFile,
}

impl Gathered<'_> {
    fn disable(&mut self, why: impl Into<String>) {
        self.read.disabled.get_or_insert(why.into());
    }

    fn warn(&mut self, item: &Item<'_>, problem: &str) {
        self.read
            .warnings
            .push(format!("{}: {problem}", item.place()));
    }

    /// Warns of keys that the system passes over.
    fn warn_of_others(&mut self, item: &Item<'_>, keys: &[&str]) -> Result<(), ReadError> {
        for other in item.others(keys)? {
            self.warn(
                item,
                &format!("the key `{other}` is not known and has no effect"),
            );
        }
        Ok(())
    }

    /// Refuses a point that the contract does not have, and warns of one that it only may have: it may be misspelt.
    fn check_point(&mut self, item: &Item<'_>, point: &str) -> Result<(), ReadError> {
        let known = self.mode.stop_at(point);
        known.map_err(|error| item.wrong(format!("is no point: {}", error.problem)))?;
        if !self.mode.points().iter().any(|known| known.name == point) {
            let problem =
                format!("the point `{point}` is not known; the hook runs if its runtime has it");
            self.warn(item, &problem);
        }
        Ok(())
    }

    /// Makes a hook of an entry that says nothing but what it does and when.
    fn hook(&self, item: &Item<'_>, point: &str, action: Action) -> Registered {
        // Where equal entries may be one hook, their places would tell them apart.
        let is_beside_others = matches!(self.mode.course(point), Course::AtOnce | Course::Pipeline);
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
            | Action::Git(_)
            | Action::Http(_)
            | Action::Log(_)
            | Action::Save(_)
            | Action::Template(_)
            | Action::Unsupported(_) => item.entry().to_owned(),
        };
        Registered {
            action,
            base: None,
            configured_env: BTreeMap::new(),
            entry: Entry::default(),
            env: BTreeMap::new(),
            filter: None,
            is_listed: false,
            matcher: Matcher::Always,
            matching: String::new(),
            mode: self.mode,
            name,
            owner: Owner::Operator,
            point: point.to_owned(),
            profile: None,
            profile_granted: false,
            runs_after_block: false,
            source: format!("{}: {}", self.origin.name, item.entry()),
            working_dir: None,
        }
    }

    fn push(&mut self, hook: Registered) {
        self.read.hooks.push(hook);
    }
}

/// Returns a command as people read it, on one line.
pub(crate) fn shown(command: &Command) -> String {
    let text = match command {
        Command::Argv(argv) => {
            let words: Vec<_> = argv.iter().map(|word| word.to_string_lossy()).collect();
            words.join(" ")
        }
        Command::Line { text, .. } => text.clone(),
    };
    text.trim().replace(char::is_control, " ")
}

/// A command line that the contract's shell runs.
fn line(item: &Item<'_>) -> Result<Command, ReadError> {
    let text = item.filled()?.to_owned();
    Ok(Command::Line { shell: None, text })
}

/// Program and arguments.
fn argv(item: &Item<'_>) -> Result<Command, ReadError> {
    let words = item.texts()?;
    if words
        .first()
        .is_none_or(|program| program.trim().is_empty())
    {
        return Err(item.wrong("names no program"));
    }
    Ok(Command::Argv(words.into_iter().map(Into::into).collect()))
}

#[cfg(test)]
mod tests;
