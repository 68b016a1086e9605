//! Tests of the hooks in a runtime's settings, with sample events.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf, absolute},
};

use serde_json::json;

use hookjail_base::model::Command;
use hookjail_client::{
    Failure, output,
    run_as::{parse, project},
};
use hookjail_contract::{
    Action, Registered,
    adopt::Adopted,
    hook_file::{Origin, read_each},
};

use hookjail_daemon::daemon::Assembly;
use hookjail_policy::Registry;

use super::{
    TestArgs,
    file::{PROFILE, TIMEOUT},
    judge::{Kind, Mismatch},
    line_words, payload,
    report::TestResult,
    unrehearsed,
};
use crate::cli::{
    Context,
    install::{original_line, original_words},
    profile::find,
    rehearse::{Comparison, Rehearsed, alone_words},
    rows::shell_line,
};

/// A hook of settings.
struct SettingsHook {
    argv: Vec<String>,
    hook: Registered,
    /// Point and command, as people read it.
    name: String,
    /// The profile that its line names.
    profile: Option<String>,
}

impl TestArgs {
    /// Runs the hooks of settings, each with the samples of its point.
    pub(super) fn of_settings(
        &self,
        settings: &Path,
        context: &Context,
    ) -> Result<Vec<TestResult>, Failure> {
        let name = self.runtime.as_deref().unwrap_or_default();
        let runtime = parse(name).map_err(Failure::new)?;
        let runtime = runtime.ok_or_else(|| Failure::new("name the runtime"))?;
        let shown = settings.display().to_string();
        let cannot = |error: &dyn std::fmt::Display| Failure::new(format!("{shown}: {error}"));
        let path = absolute(settings).map_err(|error| cannot(&error))?;
        let directory = path.parent().unwrap_or(Path::new("/")).to_owned();
        let text = fs::read_to_string(&path).map_err(|error| cannot(&error))?;
        let origin = Origin {
            base: Some(&directory),
            name: &shown,
        };
        let switches = &context.environment().switches;
        let read = read_each(runtime, &text, &origin, switches);
        let (read, unread) = read.map_err(|error| cannot(&error))?;
        for error in unread {
            output::stderr(&format!("hookjail: {error}"));
        }
        let home = context.call.paths.home.as_deref();
        let workspace = project(runtime, &directory.canonicalize()?, home);
        let hooks = read.hooks.into_iter();
        let hooks = hooks.filter_map(|hook| SettingsHook::new(hook, (&workspace, runtime)));
        let tasks: Vec<_> = hooks.collect();
        if tasks.is_empty() {
            return Err(Failure::new(format!("{shown} has no hook with a command")));
        }
        let config = context.load()?;
        let registry = Assembly::registry(&config)?;
        let place = Place {
            config: config.file.as_deref(),
            registry: &registry,
            runtime,
            settings: &shown,
            workspace,
        };
        self.each(
            &tasks,
            |task| &task.name,
            |task| Ok(vec![self.rehearsed(task, &place)?]),
        )
    }

    /// Returns the profile under which a hook is tried, and a remark where its line names another.
    ///
    /// Settings came with a project, so a line may name no profile that a file of tests may not name either.
    fn profile_of<'a>(
        &self,
        task: &'a SettingsHook,
        registry: &Registry,
    ) -> (&'a str, Option<String>) {
        let Some(name) = task.profile.as_deref() else {
            return (PROFILE, None);
        };
        let why = match find(registry, name) {
            Ok(policy) if self.may_be_named(&policy, registry) => return (name, None),
            Ok(_) => format!("which only the operator gives; give it by --profile={name}"),
            Err(_) => "which does not exist; install the hook again".to_owned(),
        };
        let remark = format!("tried under {PROFILE}: its line names profile `{name}`, {why}");
        (PROFILE, Some(remark))
    }

    fn rehearsed(&self, task: &SettingsHook, place: &Place<'_>) -> Result<TestResult, Failure> {
        let Place {
            config,
            registry,
            runtime,
            settings,
            workspace,
        } = place;
        let (profile, other) = self.profile_of(task, registry);
        let point = &task.hook.point;
        let samples = match runtime.is_of_a_call(Some(point)) {
            true => runtime.samples(workspace),
            false => vec![json!({})],
        };
        let payloads = samples.iter();
        let payloads = payloads.map(|sample| payload(*runtime, workspace, point, sample));
        let payloads = payloads.collect::<Result<Vec<_>, _>>()?;
        let places = runtime.project_variables();
        let rehearsed = Rehearsed {
            argv: &task.argv,
            config: *config,
            environment: places.map(|name| (name, &**workspace)).collect(),
            is_compared: self.bare,
            is_layered: !self.in_place,
            needs: None,
            point,
            profile,
            runtime: runtime.name,
            starts_in: workspace,
            timeout: task
                .hook
                .entry
                .timeout
                .map_or(TIMEOUT, |it| it.min(TIMEOUT)),
            workspace: Some(workspace),
        };
        let (error, runs) = match rehearsed.run(&payloads) {
            Ok(runs) => (None, runs),
            Err(error) => (Some(unrehearsed(error)), Vec::new()),
        };
        Ok(TestResult {
            case: task.name.clone(),
            error,
            file: (*settings).to_owned(),
            kind: Kind::Confined,
            millis: runs.iter().map(|run| run.confined.millis).sum(),
            mismatches: problems(&runs),
            note: {
                let events = (!runs.is_empty()).then(|| note(&runs));
                events
                    .into_iter()
                    .chain(other)
                    .collect::<Vec<_>>()
                    .join("; ")
            },
            refused: Vec::new(),
            runtime: runtime.name.to_owned(),
        })
    }
}

/// The places where hooks of settings run.
struct Place<'a> {
    config: Option<&'a Path>,
    registry: &'a Registry,
    runtime: Adopted,
    settings: &'a str,
    workspace: PathBuf,
}

impl SettingsHook {
    /// Returns the task of a hook that has a command of its own; a confined one is tested by its original.
    fn new(hook: Registered, place: (&Path, Adopted)) -> Option<Self> {
        let Action::Command(command) = &hook.action else {
            return None;
        };
        let (argv, shown, profile) = match command {
            Command::Argv(words) => {
                let words = words.iter().map(|word| word.to_string_lossy().into_owned());
                let words: Vec<_> = words.collect();
                let (words, profile) = original_words(&words, &hook).unwrap_or((words, None));
                let shown = shell_line(&words);
                (words, shown, profile)
            }
            Command::Line { shell, text } => {
                let shell = shell.as_deref().unwrap_or(Path::new("/bin/sh"));
                let original = original_line(text, &hook, place);
                let (line, profile) = original.unwrap_or_else(|| (text.clone(), None));
                let argv = line_words(&line, &shell.to_string_lossy(), place);
                (argv, line, profile)
            }
        };
        Some(Self {
            name: format!("{}: {shown}", hook.point),
            argv,
            hook,
            profile,
        })
    }
}

/// Returns in words how many events a hook stops.
fn note(runs: &[Comparison]) -> String {
    let events = match runs.len() {
        1 => "1 event".to_owned(),
        several => format!("{several} events"),
    };
    let stops = runs.iter().filter(|run| run.confined.stops).count();
    match stops {
        0 => format!("{events}, stops none"),
        stops => format!("{events}, stops {stops}"),
    }
}

/// Returns the problems of a hook's runs, none twice.
fn problems(runs: &[Comparison]) -> Vec<Mismatch> {
    let mut found = BTreeSet::new();
    for run in runs {
        let failure = run.confined.failure.iter();
        found.extend(failure.map(|why| ("fails", "an answer of the hook", why.clone())));
        let refused = run.refused.iter().flatten().map(|it| &it.words);
        let denied = run.denied.iter().chain(refused).cloned();
        found.extend(denied.map(|it| ("denials", "no denial", it)));
        let differences = run.differences().into_iter();
        let alone = run.leaves.first().map(|path| alone_words(path));
        let differences = differences.chain(alone);
        found.extend(differences.map(|it| ("bare", "the same as without confinement", it)));
    }
    let found = found.into_iter().map(|(key, expected, found)| Mismatch {
        expected: expected.to_owned(),
        found,
        key,
    });
    found.collect()
}
