//! Files of tests: a hook's command, and cases with events and expectations.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use hookjail_base::util::units::Span;
use hookjail_client::Failure;
use hookjail_contract::hook_file::parse_yaml;

use super::expected::Expected;

/// The ends of the names of files of tests.
pub(super) const SUFFIXES: [&str; 3] = [".hooktest.toml", ".hooktest.yaml", ".hooktest.yml"];

/// The usual profile: the one that `install` chooses.
pub(super) const PROFILE: &str = "develop";

/// The usual timer of a run.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// Directories that hold no tests of a project's own.
const PASSED_OVER: [&str; 5] = [".git", ".venv", "node_modules", "target", "vendor"];

/// A file of tests.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Tests of a hook")]
pub(super) struct TestFile {
    /// The cases, at least one.
    #[serde(rename = "case")]
    #[schemars(length(min = 1))]
    pub(super) cases: Vec<Case>,
    /// The command as settings have it.
    command: Words,
    /// The lifecycle point, in the spelling of each runtime [default: the one before a tool call].
    point: Option<Point>,
    /// The profile of the confined runs [default: the needs that the hook declares, else develop].
    pub(super) profile: Option<String>,
    /// The runtimes whose hook it is.
    #[schemars(length(min = 1))]
    pub(super) runtimes: Vec<String>,
    /// The timer of each run.
    timeout: Option<Span>,
    /// The workspace, relative to the file [default: the project around it].
    workspace: Option<PathBuf>,
}

/// A command: words, or a line of shell.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Words {
    Line(String),
    List(Vec<String>),
}

/// A lifecycle point: one, or one for each runtime of the file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Point {
    Of(BTreeMap<String, String>),
    Same(String),
}

/// An event, and what the hook is expected to make of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    /// Changes of the runtime's sample; tables are merged.
    #[serde(default)]
    event: Map<String, Value>,
    /// A file with the event as JSON, relative to the file of tests, in the place of the sample.
    event_file: Option<PathBuf>,
    /// The name, which no other case of the file has.
    pub(super) name: String,
    /// The runtimes of the case, of those of the file [default: all of them].
    #[schemars(length(min = 1))]
    runtimes: Option<Vec<String>>,
    /// Expectations under single runtimes, in the place of the case's.
    #[serde(default, rename = "for")]
    special: BTreeMap<String, Expected>,
    #[serde(flatten)]
    expected: Expected,
}

impl TestFile {
    /// Reads a file of tests.
    ///
    /// # Errors
    ///
    /// Names the file, and the key that is wrong.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let wrong = |problem: String| Failure::new(format!("`{}`: {problem}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let end = path.extension();
        let is_yaml = end.is_some_and(|end| end == "yaml" || end == "yml");
        let parsed = if is_yaml {
            Self::parse_yaml(&text)
        } else {
            Self::parse(&text)
        };
        parsed.map_err(wrong)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        file.checked()
    }

    fn parse_yaml(text: &str) -> Result<Self, String> {
        let file: Self =
            serde_json::from_value(parse_yaml(text)?).map_err(|error| error.to_string())?;
        file.checked()
    }

    fn checked(self) -> Result<Self, String> {
        if self
            .argv(|line| vec![line.to_owned()])
            .iter()
            .all(|word| word.trim().is_empty())
        {
            return Err("`command` is empty; name the hook's program".to_owned());
        }
        if self.cases.is_empty() || self.runtimes.is_empty() {
            return Err("`case` or `runtimes` is empty; add one".to_owned());
        }
        let mut names = BTreeSet::new();
        for case in &self.cases {
            if !names.insert(&case.name) {
                let name = &case.name;
                return Err(format!("`case` names `{name}` twice; rename one"));
            }
            case.check(&self.runtimes)?;
        }
        if let Some(Point::Of(points)) = &self.point {
            known("point", points.keys(), &self.runtimes)?;
            let mut runtimes = self.runtimes.iter();
            if let Some(name) = runtimes.find(|name| !points.contains_key(*name)) {
                return Err(format!("`point` has none for `{name}`; add one"));
            }
        }
        Ok(self)
    }

    /// Returns the command as words. `line` returns those of a line of shell.
    pub(super) fn argv(&self, line: impl FnOnce(&str) -> Vec<String>) -> Vec<String> {
        match &self.command {
            Words::Line(text) => line(text),
            Words::List(words) => words.clone(),
        }
    }

    /// Returns the words of the command, without a shell.
    pub(super) fn words(&self) -> Vec<String> {
        match &self.command {
            Words::Line(line) => shlex::split(line).unwrap_or_default(),
            Words::List(words) => words.clone(),
        }
    }

    /// Returns the lifecycle point under a runtime of the file, where it names one.
    pub(super) fn point(&self, runtime: &str) -> Option<&str> {
        match self.point.as_ref()? {
            Point::Of(points) => points.get(runtime).map(String::as_str),
            Point::Same(point) => Some(point),
        }
    }

    /// Returns the timer of each run.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout.map_or(TIMEOUT, |it| it.0)
    }

    /// Returns the workspace of a file at a path, which lies in the project around it: others are not a file's to name.
    ///
    /// # Errors
    ///
    /// Fails where that is no directory, or lies elsewhere.
    pub(super) fn workspace(
        &self,
        path: &Path,
        project: impl Fn(&Path) -> PathBuf,
    ) -> Result<PathBuf, Failure> {
        let cannot = |why: &dyn fmt::Display| {
            let path = path.display();
            Failure::new(format!("the workspace of `{path}` cannot be used: {why}"))
        };
        let directory = directory(path).canonicalize();
        let directory = directory.map_err(|error| cannot(&error))?;
        let project = project(&directory);
        let Some(named) = &self.workspace else {
            return Ok(project);
        };
        let found = directory.join(named).canonicalize();
        let found = found.map_err(|error| cannot(&error))?;
        match found.starts_with(&project) {
            true => Ok(found),
            false => Err(cannot(
                &"the file lies outside of the project; name one inside",
            )),
        }
    }
}

impl Case {
    fn check(&self, runtimes: &[String]) -> Result<(), String> {
        let name = &self.name;
        if self.runtimes.as_ref().is_some_and(Vec::is_empty) {
            return Err(format!(
                "`runtimes` of `{name}` is empty; name one or leave it out"
            ));
        }
        let some = self.runtimes.iter().flatten();
        known(&format!("runtimes` of `{name}"), some, runtimes)?;
        known(
            &format!("for` of `{name}"),
            self.special.keys(),
            self.runtimes.as_deref().unwrap_or(runtimes),
        )?;
        self.expected.check(name)?;
        let mut special = self.special.values();
        special.try_for_each(|expected| expected.check(name))
    }

    /// Returns whether it is tried under a runtime of the file.
    pub(super) fn is_for(&self, runtime: &str) -> bool {
        let some = self.runtimes.as_ref();
        some.is_none_or(|some| some.iter().any(|name| name == runtime))
    }

    /// Returns the expectations under a runtime of the file.
    pub(super) fn expected(&self, runtime: &str) -> Expected {
        self.expected.overridden(self.special.get(runtime))
    }

    /// Returns the event, from a runtime's sample. `file` is the file of tests.
    ///
    /// # Errors
    ///
    /// Fails where `event_file` cannot be read, or lies outside of the workspace.
    pub(super) fn event(
        &self,
        sample: Value,
        (file, workspace): (&Path, &Path),
    ) -> Result<Value, Failure> {
        let mut event = match &self.event_file {
            Some(named) => {
                let path = directory(file).join(named);
                let cannot = |why: &dyn fmt::Display| {
                    Failure::new(format!("cannot read the event `{}`: {why}", path.display()))
                };
                let found = path.canonicalize().map_err(|error| cannot(&error))?;
                if !found.starts_with(workspace) {
                    return Err(cannot(
                        &"the file lies outside of the workspace; name one inside",
                    ));
                }
                let text = fs::read(&found).map_err(|error| cannot(&error))?;
                serde_json::from_slice(&text).map_err(|error| cannot(&error))?
            }
            None => sample,
        };
        merge(&mut event, Value::Object(self.event.clone()));
        Ok(event)
    }
}

/// Checks that each runtime of a key is one of the known ones.
fn known<'a>(
    key: &str,
    mut names: impl Iterator<Item = &'a String>,
    known: &[String],
) -> Result<(), String> {
    match names.find(|name| !known.contains(name)) {
        Some(name) => {
            let known = known.join(", ");
            Err(format!(
                "`{key}` names `{name}`; name one of the runtimes {known}"
            ))
        }
        None => Ok(()),
    }
}

/// Returns the directory of a file.
fn directory(file: &Path) -> &Path {
    let directory = file.parent();
    let directory = directory.filter(|it| !it.as_os_str().is_empty());
    directory.unwrap_or(Path::new("."))
}

/// Merges changes into a value: tables by their keys, others as a whole.
fn merge(value: &mut Value, changes: Value) {
    match (value, changes) {
        (Value::Object(known), Value::Object(changes)) => {
            for (key, change) in changes {
                merge(known.entry(key).or_insert(Value::Null), change);
            }
        }
        (value, changes) => *value = changes,
    }
}

/// Returns the files of tests at and below paths; below, links and pipes are passed over.
///
/// # Errors
///
/// Fails where one of the paths is neither.
pub(super) fn files_below(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut found = BTreeMap::new();
    for path in paths {
        let problem = |error: std::io::Error| {
            Failure::new(format!("cannot read `{}`: {error}", path.display()))
        };
        let metadata = path.metadata().map_err(problem)?;
        if !metadata.is_dir() {
            found.insert(path.clone(), ());
            continue;
        }
        let mut directories = vec![path.clone()];
        while let Some(directory) = directories.pop() {
            let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
            for entry in entries {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                let Ok(kind) = entry.file_type() else {
                    continue;
                };
                if kind.is_dir() && !PASSED_OVER.contains(&&*name) {
                    directories.push(entry.path());
                } else if kind.is_file() && SUFFIXES.iter().any(|end| name.ends_with(end)) {
                    found.insert(entry.path(), ());
                }
            }
        }
    }
    let plain = |path: PathBuf| match path.strip_prefix(".") {
        Ok(below) => below.to_owned(),
        Err(_) => path,
    };
    Ok(found.into_keys().map(plain).collect())
}

#[cfg(test)]
mod tests;
