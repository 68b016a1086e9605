//! Required hooks of the administrator's files in a runtime's settings: a line for each, which names the hook.

use std::ops::Range;

use hookjail_base::model::Command;
use hookjail_client::Failure;
use hookjail_contract::{Action, Registered};
use serde_json::{Map, Value, json};

use super::{
    NamedRuntime,
    edit::{self, Edit, Syntax},
    line, plan,
    settings::SettingsFile,
};

/// The option of a line that names a required hook.
const OPTION: &str = "--required";

/// The required hooks of one runtime.
pub(super) struct RequiredLines<'a> {
    hooks: Vec<&'a Registered>,
    runtime: NamedRuntime,
}

/// The state of a settings file.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct RequiredState {
    /// Entries of required hooks that are others than `install` writes, by name: changed ones, and those of former hooks.
    pub(super) changed: Vec<String>,
    /// The reason why no hook of the file runs, or none as it must.
    pub(super) disabled: Option<String>,
    /// Required hooks without an entry.
    pub(super) missing: Vec<String>,
}

impl RequiredState {
    /// Returns whether every required hook runs from these settings.
    pub(super) const fn is_whole(&self) -> bool {
        self.changed.is_empty() && self.disabled.is_none() && self.missing.is_empty()
    }
}

/// Returns the name in a line of a required hook; `None` in another line.
pub(super) fn required_name(line: &str) -> Option<String> {
    let words = shlex::split(line).filter(|words| line::is_confined(words))?;
    let options = words.split(|word| word == "--").next()?;
    let index = options.iter().position(|word| word == OPTION)?;
    options.get(index + 1).cloned()
}

impl<'a> RequiredLines<'a> {
    /// Selects the hooks of a runtime's contract.
    pub(super) fn new(required: &'a [Registered], runtime: NamedRuntime) -> Self {
        let contract = runtime.runtime.mode.facts().contract;
        let hooks = required.iter();
        let hooks = hooks.filter(|hook| hook.mode.facts().contract == contract);
        Self {
            hooks: hooks.collect(),
            runtime,
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.hooks.is_empty()
    }

    /// Returns the names of the hooks.
    pub(super) fn names(&self) -> Vec<&str> {
        self.hooks.iter().map(|hook| hook.name.as_str()).collect()
    }

    /// Examines a file of settings.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be read as the runtime's.
    pub(super) fn state(&self, file: &SettingsFile) -> Result<RequiredState, Failure> {
        let (found, disabled) = file.hooks_and_switch(file.plain_body())?;
        let entries = self.entries(file)?;
        let missing = entries.iter().filter(|it| !it.is_among(&found));
        let changed = found.iter().filter(|hook| is_foreign(hook, &entries));
        let changed = changed.filter_map(|hook| required_name(&hook.action.line()));
        Ok(RequiredState {
            missing: missing.map(|it| it.name.to_owned()).collect(),
            changed: changed.collect(),
            disabled: disabled.or_else(|| file.steers_hookjail()),
        })
    }

    /// Returns the edit after which a file has an entry for each required hook, and no other entry of one; `None` where it is so.
    ///
    /// # Errors
    ///
    /// Fails where the file's own switch disables its hooks, and where an entry cannot be put there.
    pub(super) fn edit(&self, file: &SettingsFile) -> Result<Option<Edit>, Failure> {
        let state = self.state(file)?;
        if let Some(why) = state.disabled {
            return Err(Failure::new(format!(
                "`{}` disables its hooks, which are required: {why}; remove that",
                file.path.display()
            )));
        }
        if state.is_whole() {
            return Ok(None);
        }
        let entries = self.entries(file)?;
        let by_hand = || {
            let lines: Vec<_> = entries.iter().map(|it| it.text()).collect();
            let path = file.path.display();
            Failure::new(format!(
                "required hooks cannot be put into `{path}`; put them there yourself: {}",
                lines.join(" ")
            ))
        };
        let mut both = Texts::new(file);
        loop {
            let (found, _) = file.hooks_and_switch(&both.plain)?;
            let Some(foreign) = found.iter().find(|hook| is_foreign(hook, &entries)) else {
                break;
            };
            let removed = removal(&both.plain, &foreign.source).ok_or_else(by_hand)?;
            both.apply(&removed);
        }
        for entry in &entries {
            let (found, _) = file.hooks_and_switch(&both.plain)?;
            if !entry.is_among(&found) {
                let added = entry.insertion(&both.plain).ok_or_else(by_hand)?;
                both.apply(&added);
            }
        }
        let (found, _) = file.hooks_and_switch(&both.plain)?;
        let is_whole = entries.iter().all(|it| it.is_among(&found));
        let place = 0..file.plain_body().len();
        let text = both.text;
        is_whole
            .then_some(Some(Edit { place, text }))
            .ok_or_else(by_hand)
    }

    /// Returns the entry of each hook, in the form that the runtime reads from this file.
    fn entries(&self, file: &SettingsFile) -> Result<Vec<RequiredEntry<'a>>, Failure> {
        let entry = |hook: &&'a Registered| {
            let line =
                required_line(self.runtime, &hook.name, &hook.point).map_err(Failure::new)?;
            RequiredEntry::find(file, hook, &line).ok_or_else(|| {
                Failure::new(format!(
                    "settings like `{}` have no form for a required hook; put it there yourself: {line}",
                    file.path.display()
                ))
            })
        };
        self.hooks.iter().map(entry).collect()
    }
}

/// Returns the line of a required hook.
///
/// # Errors
///
/// Returns why hookjail's own program cannot be named in settings.
fn required_line(runtime: NamedRuntime, name: &str, point: &str) -> Result<String, String> {
    let mut words = plan::program()?;
    words.extend(["--as", runtime.name, OPTION, name].map(str::to_owned));
    if !runtime.runtime.names_points {
        words.extend(["--point", point].map(str::to_owned));
    }
    words.push("--start".to_owned());
    shlex::try_join(words.iter().map(String::as_str))
        .map_err(|_| "hookjail's own path has a NUL byte".to_owned())
}

/// Returns whether a line is as `install` writes it for a required hook: in another spelling a shell may run more.
pub(super) fn is_required(line: &str, runtime: NamedRuntime, point: &str) -> bool {
    let written = required_name(line).map(|name| required_line(runtime, &name, point));
    written.is_some_and(|written| written.as_deref() == Ok(line))
}

/// Returns whether a hook has a line of a required one, and is no such entry.
fn is_foreign(hook: &Registered, entries: &[RequiredEntry<'_>]) -> bool {
    required_name(&hook.action.line()).is_some() && !entries.iter().any(|it| it.is_same(hook))
}

/// The entry of a required hook in settings of one form.
struct RequiredEntry<'a> {
    /// Whether settings without a version are not read.
    is_versioned: bool,
    name: &'a str,
    point: &'a str,
    /// The entry as the runtime reads it.
    read: Registered,
    value: Value,
}

impl<'a> RequiredEntry<'a> {
    /// Tries the known forms of entries until one is read as the hook.
    fn find(file: &SettingsFile, hook: &'a Registered, line: &str) -> Option<Self> {
        let (matcher, point) = (hook.matching.as_str(), hook.point.as_str());
        let with_matcher = |mut entry: Map<String, Value>| {
            if !matcher.is_empty() {
                entry.insert("matcher".to_owned(), matcher.into());
            }
            Value::Object(entry)
        };
        let keys = file.runtime().line_keys.iter();
        let values = keys.flat_map(|key| {
            let mut command = Map::new();
            command.insert("type".to_owned(), "command".into());
            command.insert((*key).to_owned(), line.into());
            let mut group = Map::new();
            group.insert("hooks".to_owned(), json!([command.clone()]));
            let mut bare = command.clone();
            bare.remove("type");
            [command, bare, group].map(with_matcher)
        });
        let forms = values.flat_map(|value| [(false, value.clone()), (true, value)]);
        forms.into_iter().find_map(|(is_versioned, value)| {
            let settings = match is_versioned {
                false => json!({ "hooks": { point: [&value] } }),
                true => json!({ "version": 1, "hooks": { point: [&value] } }),
            };
            let (mut found, disabled) = file.hooks_and_switch(&settings.to_string()).ok()?;
            let read = found
                .pop()
                .filter(|_| found.is_empty() && disabled.is_none())?;
            let is_so =
                read.point == point && read.matching == matcher && read.action.line() == line;
            is_so.then_some(Self {
                is_versioned,
                name: &hook.name,
                point,
                read,
                value,
            })
        })
    }

    /// Returns whether a hook of settings is this entry.
    fn is_same(&self, hook: &Registered) -> bool {
        let written = &self.read;
        let is_line = |hook: &Registered| match &hook.action {
            Action::Command(Command::Line { shell, .. }) => Some(shell.clone()),
            Action::Command(Command::Argv(_))
            | Action::Approve(_)
            | Action::Builtin(_)
            | Action::Http(_)
            | Action::Log(_)
            | Action::Supplied(_)
            | Action::Unsupported(_) => None,
        };
        is_line(hook) == is_line(written)
            && hook.action == written.action
            && hook.configured_env == written.configured_env
            && hook.entry == written.entry
            && hook.filter.is_none()
            && hook.matching == written.matching
            && hook.point == written.point
            && hook.working_dir == written.working_dir
    }

    fn is_among(&self, found: &[Registered]) -> bool {
        found.iter().any(|hook| self.is_same(hook))
    }

    fn text(&self) -> String {
        format!("{}: {}", self.point, self.value)
    }

    /// Returns the edit that adds the entry to settings, the last of its list; `None` where their form is another.
    fn insertion(&self, plain: &str) -> Option<Edit> {
        let root = edit::entry(plain, "")?;
        let whole: Value = serde_json::from_str(plain.get(root.clone())?).ok()?;
        let list = json!({ self.point: [&self.value] });
        let member = |path: &str, key: &str| edit::member(Syntax::Json, plain, path, key);
        match member("", "hooks") {
            None => {
                let version = self.is_versioned && whole.get("version").is_none();
                let version = if version { "\"version\": 1, " } else { "" };
                append(plain, root, &format!("{version}\"hooks\": {list}"))
            }
            Some((place, Value::Object(hooks))) => match hooks.get(self.point) {
                None => {
                    let list = list.to_string();
                    append(plain, place, list.get(1..list.len() - 1)?)
                }
                Some(Value::Array(_)) => {
                    let (place, _) = member("hooks", self.point)?;
                    append(plain, place, &self.value.to_string())
                }
                Some(_) => None,
            },
            Some(_) => None,
        }
    }
}

/// Returns the edit that appends an item to a list or an object at a place.
fn append(plain: &str, place: Range<usize>, item: &str) -> Option<Edit> {
    let inner = plain.get(place.start + 1..place.end - 1)?;
    let comma = if inner.trim().is_empty() { "" } else { ", " };
    // Behind the last item, so that a comment at its line stays there.
    let end = place.start + 1 + inner.trim_end().len();
    Some(Edit {
        place: end..end,
        text: format!("{comma}{item}"),
    })
}

/// Returns the edit that removes the entry of a hook from its list; its source ends with the entry's path.
fn removal(plain: &str, source: &str) -> Option<Edit> {
    let (_, path) = source.rsplit_once(": ")?;
    let mut place = edit::entry(plain, path)?;
    let behind = plain.get(place.end..)?;
    let before = plain.get(..place.start)?;
    let after = behind.len() - behind.trim_start().len();
    if behind.trim_start().starts_with(',') {
        place.end += after + 1;
    } else if let Some(kept) = before.trim_end().strip_suffix(',') {
        place.start = kept.len();
    }
    Some(Edit {
        place,
        text: String::new(),
    })
}

/// A text of settings, and the same with comments blanked.
struct Texts {
    plain: String,
    text: String,
}

impl Texts {
    fn new(file: &SettingsFile) -> Self {
        let whole = Edit {
            place: 0..file.plain_body().len(),
            text: String::new(),
        };
        Self {
            plain: file.plain_body().to_owned(),
            text: file.text_of(&whole).to_owned(),
        }
    }

    fn apply(&mut self, edit: &Edit) {
        let edits = std::slice::from_ref(edit);
        self.plain = edit::make(&self.plain, edits);
        self.text = edit::make(&self.text, edits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_required_hook_is_known_by_its_option() {
        let line = "/usr/bin/hookjail-run --as claude-code --required guard --start";
        assert_eq!(required_name(line).as_deref(), Some("guard"));
        for other in [
            "/usr/bin/hookjail-run --as claude-code --profile develop --start -- x --required guard",
            "/usr/bin/echo --as claude-code --required guard --start",
            "/usr/bin/hookjail-run --as claude-code --start -- x",
            "'",
        ] {
            assert_eq!(required_name(other), None, "{other}");
        }
    }

    #[test]
    fn an_item_is_appended_and_removed_and_all_else_stays() {
        for (before, after) in [
            ("{\"a\": [1]}", "{\"a\": [1, 2]}"),
            ("{\"a\": []}", "{\"a\": [2]}"),
            ("{\"a\": [\n  1\n]}", "{\"a\": [\n  1, 2\n]}"),
        ] {
            let (place, _) = edit::member(Syntax::Json, before, "", "a").unwrap();
            let edit = append(before, place, "2").unwrap();
            assert_eq!(edit::make(before, &[edit]), after);
        }
        for (before, path, after) in [
            ("{\"a\": [1, 2]}", "a[0]", "{\"a\": [ 2]}"),
            ("{\"a\": [1, 2]}", "a[1]", "{\"a\": [1]}"),
            ("{\"a\": [1]}", "a[0]", "{\"a\": []}"),
        ] {
            let edit = removal(before, &format!("/f: {path}")).unwrap();
            assert_eq!(edit::make(before, &[edit]), after);
        }
    }
}
