//! Files of tests: a hook's command, and cases with events and expectations.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Map, Value};

use hookjail_base::util::units::Span;
use hookjail_client::Failure;

/// The end of the name of each file of tests.
pub(super) const SUFFIX: &str = ".hooktest.toml";

/// The usual profile: the one that `install` chooses.
pub(super) const PROFILE: &str = "develop";

/// The usual timer of a run.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// The words for a decision.
const DECISIONS: [&str; 5] = ["allow", "ask", "block", "deny", "none"];

/// Directories that hold no tests of a project's own.
const PASSED_OVER: [&str; 5] = [".git", ".venv", "node_modules", "target", "vendor"];

/// A file of tests.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TestFile {
    /// The cases, at least one.
    #[serde(rename = "case")]
    pub(super) cases: Vec<Case>,
    /// The command as settings have it.
    command: Words,
    /// The lifecycle point, in the spelling of each runtime [default: the one before a tool call].
    pub(super) point: Option<String>,
    /// The profile of the confined runs.
    #[serde(default = "usual_profile")]
    pub(super) profile: String,
    /// The runtimes whose hook it is.
    pub(super) runtimes: Vec<String>,
    /// The timer of each run.
    timeout: Option<Span>,
    /// The workspace, relative to the file [default: the project around it].
    workspace: Option<PathBuf>,
}

/// A command: words, or a line of shell.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Words {
    Line(String),
    List(Vec<String>),
}

/// An event, and what the hook is expected to make of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    /// Changes of the runtime's sample; tables are merged.
    #[serde(default)]
    event: Map<String, Value>,
    /// A file with the event as JSON, relative to the file of tests, in the place of the sample.
    event_file: Option<PathBuf>,
    /// The name, which no other case of the file has.
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) expected: Expected,
}

/// Expectations of a run. What is not set is not compared.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Expected {
    /// The changes in the workspace, all of them: `A`, `M` or `D` and a path.
    pub(super) changes: Option<BTreeSet<String>>,
    /// The decision by the runtime's contract.
    pub(super) decision: Option<String>,
    /// Parts of the texts of all denials; each denial has one of them.
    pub(super) denials: Option<Vec<String>>,
    /// The exit code that the runtime gets.
    pub(super) exit: Option<u8>,
    /// Whether the hook fails: a crash, a timeout, an answer that cannot be read [default: false].
    #[serde(default)]
    pub(super) fails: bool,
    /// The hosts that the hook connects to, all of them: `HOST:PORT`.
    pub(super) hosts: Option<BTreeSet<String>>,
    /// A part of the decision's reason.
    pub(super) reason: Option<String>,
    /// A part of stderr.
    pub(super) stderr: Option<String>,
    /// A part of stdout.
    pub(super) stdout: Option<String>,
    /// Whether the runtime takes the end for a no.
    pub(super) stops: Option<bool>,
    /// The longest time of the run.
    pub(super) within: Option<Span>,
}

fn usual_profile() -> String {
    PROFILE.to_owned()
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
        Self::parse(&text).map_err(wrong)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        if file.argv().iter().all(|word| word.trim().is_empty()) {
            return Err("`command` is empty; name the hook's program".to_owned());
        }
        if file.cases.is_empty() || file.runtimes.is_empty() {
            return Err("`case` or `runtimes` is empty; add one".to_owned());
        }
        let mut names = BTreeSet::new();
        for Case { expected, name, .. } in &file.cases {
            if !names.insert(name) {
                return Err(format!("`case` names `{name}` twice; rename one"));
            }
            if let Some(word) = &expected.decision
                && !DECISIONS.contains(&&**word)
            {
                let words = DECISIONS.join(", ");
                return Err(format!(
                    "`decision` of `{name}` is `{word}`; set one of {words}"
                ));
            }
            let mut changes = expected.changes.iter().flatten();
            let is_change = |text: &str| {
                let kind = text.split_once(' ').map(|(kind, _)| kind);
                kind.is_some_and(|kind| ["A", "M", "D"].contains(&kind))
            };
            if let Some(text) = changes.find(|text| !is_change(text)) {
                return Err(format!(
                    "`changes` of `{name}` has `{text}`; write `A`, `M` or `D` and a path"
                ));
            }
        }
        Ok(file)
    }

    /// Returns the command as words.
    pub(super) fn argv(&self) -> Vec<String> {
        match &self.command {
            Words::Line(line) => ["/bin/sh", "-c", line].map(str::to_owned).to_vec(),
            Words::List(words) => words.clone(),
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
            false => Err(cannot(&"it lies outside of the project; name one inside")),
        }
    }
}

impl Case {
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
                    return Err(cannot(&"it lies outside of the workspace; name one inside"));
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

/// Returns the files of tests at and below paths.
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
                let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_directory && !PASSED_OVER.contains(&&*name) {
                    directories.push(entry.path());
                } else if name.ends_with(SUFFIX) {
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
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_has_a_command_and_cases_each_with_a_name() {
        let text = "runtimes = [\"r\"]\ncommand = \"./guard.sh\"\n[[case]]\nname = \"a\"\ndecision = \"deny\"\nwithin = \"2s\"\n\
                    event = { tool_input = { command = \"rm\" } }\n";
        let file = TestFile::parse(text).unwrap();
        assert_eq!(file.argv(), ["/bin/sh", "-c", "./guard.sh"]);
        assert_eq!(
            (&*file.profile, &*file.runtimes),
            ("develop", &["r".to_owned()][..])
        );
        let sample =
            json!({"tool_name": "Bash", "tool_input": {"command": "ls", "description": "x"}});
        let event = file.cases[0]
            .event(sample, (Path::new("/x"), Path::new("/")))
            .unwrap();
        let expected =
            json!({"tool_name": "Bash", "tool_input": {"command": "rm", "description": "x"}});
        assert_eq!(event, expected);
        for (text, part) in [
            (
                "runtimes = [\"r\"]\ncommand = []\n[[case]]\nname = \"a\"\n",
                "`command` is empty",
            ),
            (
                "runtimes = [\"r\"]\ncommand = \"a\"\ncase = []\n",
                "`case` or `runtimes` is empty",
            ),
            (
                "runtimes = [\"r\"]\ncommand = \"a\"\n[[case]]\nname = \"a\"\n[[case]]\nname = \"a\"\n",
                "names `a` twice",
            ),
            (
                "runtimes = [\"r\"]\ncommand = \"a\"\n[[case]]\nname = \"a\"\ndecision = \"no\"\n",
                "one of allow, ask, block, deny, none",
            ),
            (
                "runtimes = [\"r\"]\ncommand = \"a\"\n[[case]]\nname = \"a\"\nchanges = [\"x\"]\n",
                "write `A`, `M` or `D`",
            ),
            (
                "runtimes = [\"r\"]\ncommand = \"a\"\n[[case]]\nname = \"a\"\nexits = 2\n",
                "exits",
            ),
            ("runtimes = []\ncomand = \"a\"\n", "comand"),
        ] {
            let problem = TestFile::parse(text).unwrap_err();
            assert!(problem.contains(part), "{text}: {problem}");
        }
    }
}
