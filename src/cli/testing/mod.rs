//! `hookjail test`: runs the cases of hooks' own test files.
//!
//! Each case is a rehearsal in a process of its own, on a layer over the workspace: cases do not see each other's files.

mod expected;
mod file;
mod judge;
mod record;
mod report;
mod settings;

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use uuid::Uuid;

use hookjail_base::model::ProfileName;
use hookjail_client::{
    Failure, output,
    program::{current_directory, resolve_program},
    run_as::{parse, project},
};
use hookjail_contract::{adopt::Adopted, words::words};
use hookjail_daemon::{config::Config, daemon::Assembly, schema::of_file};
use hookjail_policy::{GrantedBy, Policy, Registry};

use self::{
    expected::Expected,
    file::{Case, PROFILE, TestFile, files_below},
    judge::{Kind, mismatches},
    report::TestResult,
};
use super::{
    Context,
    declared::{Declarations, Declared},
    install::project_around,
    profile,
    progress::Progress,
    rehearse::{Comparison, Rehearsed, Unrehearsed, alone_words},
};

/// Test hooks by the cases in files NAME.hooktest.toml or NAME.hooktest.yaml.
///
/// Each case runs confined on a layer over the workspace: changes there are compared and gone.
/// Exits with 0 where every case is as expected, with 1 where one is not.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct TestArgs {
    #[command(subcommand)]
    command: Option<TestCommand>,
    /// Files of tests, and directories below which they lie [default: the current directory]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Run the hooks of a runtime's settings with sample events instead: each has to be refused nothing
    #[arg(
        long,
        value_name = "SETTINGS",
        conflicts_with = "files",
        requires = "runtime"
    )]
    from: Option<PathBuf>,
    /// With --from: the runtime whose settings they are
    #[arg(long = "as", value_name = "RUNTIME", requires = "from")]
    runtime: Option<String>,
    /// A profile that files and settings may name though only the operator gives it; develop is one
    #[arg(long, value_name = "PROFILE")]
    profile: Vec<String>,
    /// Run each case without confinement as well
    #[arg(long)]
    bare: bool,
    /// Write to the workspace itself; `changes` cannot be compared then
    #[arg(long)]
    in_place: bool,
    /// The cases that run at a time [default: one for each processor; 1 with --in-place]
    #[arg(long, value_name = "NUMBER")]
    jobs: Option<usize>,
    /// The form of the report
    #[arg(long, value_enum, default_value_t = Form::Text)]
    format: Form,
}

#[derive(Debug, Subcommand)]
enum TestCommand {
    /// Print a file of tests with the event and the end of a run in the journal
    Record {
        /// The run's id
        #[arg(value_name = "RUN")]
        run: String,
    },
}

/// A form of the report.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    /// XML as JUnit has it
    Junit,
    /// Test Anything Protocol, version 14
    Tap,
    /// Lines for people
    Text,
}

/// A case under one runtime.
struct RuntimeCase<'a> {
    case: &'a Case,
    expected: Expected,
    file: &'a TestFile,
    /// The hook's declaration, whose needs are the profile.
    needs: Option<Declared>,
    path: &'a Path,
    /// The lifecycle point that the file names.
    point: Option<&'a str>,
    runtime: Adopted,
    workspace: PathBuf,
}

/// Returns the JSON Schema of files of tests.
pub(super) fn schema() -> Value {
    of_file::<TestFile>()
}

impl TestArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        if let Some(TestCommand::Record { run }) = &self.command {
            record::print(context, run)?;
            return Ok(ExitCode::SUCCESS);
        }
        let results = match &self.from {
            Some(settings) => self.of_settings(settings, context)?,
            None => self.of_files(context)?,
        };
        let is_passed = results.iter().all(TestResult::is_passed);
        match self.format {
            _ if context.call.json => results.iter().for_each(|it| {
                output::json_line(&json!({"passed": it.is_passed(), "result": it}));
            }),
            Form::Junit => output::document(&report::as_junit(&results)),
            Form::Tap => output::document(&report::as_tap(&results)),
            Form::Text => output::text(&report::for_people(&results)),
        }
        Ok(match is_passed {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    }

    /// Runs the cases of the files of tests.
    fn of_files(&self, context: &Context) -> Result<Vec<TestResult>, Failure> {
        let current = vec![PathBuf::from(".")];
        let paths = files_below(if self.files.is_empty() {
            &current
        } else {
            &self.files
        })?;
        if paths.is_empty() {
            let [usual, ..] = file::SUFFIXES;
            return Err(Failure::new(format!("no file `*{usual}` exists; name one")));
        }
        let files = paths.iter().map(|path| Ok((path, TestFile::read(path)?)));
        let files = files.collect::<Result<Vec<_>, Failure>>()?;
        let config = context.load()?;
        let registry = Assembly::registry(&config)?;
        let mut tasks = Vec::new();
        for (path, file) in &files {
            if let Some(name) = &file.profile {
                self.check_profile(path, name, &registry)?;
            }
            for name in &file.runtimes {
                let runtime = parse(name).map_err(Failure::new)?;
                let runtime = runtime.ok_or_else(|| Failure::new("name the runtime"))?;
                let workspace = file.workspace(path, |it| around(context, runtime, it))?;
                let cases = file.cases.iter().filter(|case| case.is_for(name));
                let needs = self.needs(path, file, &workspace, &config)?;
                tasks.extend(cases.map(|case| RuntimeCase {
                    case,
                    expected: case.expected(name),
                    file,
                    needs: needs.clone(),
                    path,
                    point: file.point(name),
                    runtime,
                    workspace: workspace.clone(),
                }));
            }
        }
        let config = config.file.as_deref();
        self.each(
            &tasks,
            |task| &task.case.name,
            |task| self.tested(task, config),
        )
    }

    /// Checks the profile of a file, which came with a project.
    ///
    /// # Errors
    ///
    /// Fails where no profile has that name, or the file may not name it.
    fn check_profile(&self, path: &Path, name: &str, registry: &Registry) -> Result<(), Failure> {
        let policy = profile::find(registry, name)?;
        if self.may_be_named(&policy, registry) {
            return Ok(());
        }
        let path = path.display();
        Err(Failure::new(format!(
            "`{path}` names profile `{name}`, which only the operator gives; give it by --profile={name}"
        )))
    }

    /// Returns the hook's own declaration, where the file names no profile and the hook declares needs.
    ///
    /// # Errors
    ///
    /// Fails where the declaration cannot be used, or declares more than a project's files may name.
    fn needs(
        &self,
        path: &Path,
        file: &TestFile,
        workspace: &Path,
        config: &Config,
    ) -> Result<Option<Declared>, Failure> {
        if file.profile.is_some() {
            return Ok(None);
        }
        let wrong = |why: String| Failure::new(format!("`{}`: {why}", path.display()));
        let found = Declarations::with_needs(&file.words(), workspace, config).map_err(wrong)?;
        let Some(declared) = found else {
            return Ok(None);
        };
        let statement = declared.statement(config, PROFILE).map_err(wrong)?;
        let name = statement.profile.unwrap_or_default();
        if statement.wider.is_empty() || self.profile.contains(&name) {
            return Ok(Some(declared));
        }
        Err(wrong(format!(
            "`{}` declares more than profile {PROFILE}: {}; give it that by --profile={name}",
            declared.file.display(),
            statement.wider.join("; ")
        )))
    }

    /// Returns whether a project's files may name a profile. They may name one that anybody may have, the usual one, one that
    /// allows no more than that, and one that the command line names.
    fn may_be_named(&self, policy: &Policy, registry: &Registry) -> bool {
        let name = policy.name.as_str();
        let is_usual = policy.granted_by == GrantedBy::Anyone || name == PROFILE;
        let is_given = || self.profile.iter().any(|named| named == name);
        let usual = profile::find(registry, PROFILE);
        is_usual || is_given() || usual.is_ok_and(|usual| policy.wider_than(&usual).is_empty())
    }

    /// Does work on all items, some at a time. Returns its results in order.
    ///
    /// # Errors
    ///
    /// Returns the first error.
    fn each<T: Sync>(
        &self,
        items: &[T],
        name: impl Fn(&T) -> &str + Sync,
        work: impl Fn(&T) -> Result<Vec<TestResult>, Failure> + Sync,
    ) -> Result<Vec<TestResult>, Failure> {
        let usual = match self.in_place {
            true => 1,
            false => thread::available_parallelism().map_or(1, usize::from),
        };
        let jobs = self.jobs.unwrap_or(usual).clamp(1, items.len().max(1));
        let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let progress = Mutex::new(Progress::new("testing", items.len()));
        let begin = || {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let item = items.get(index)?;
            lock(&progress).next(name(item));
            Some((index, item))
        };
        let work = || {
            while let Some((index, item)) = begin() {
                let results = work(item);
                lock(&done).push((index, results));
            }
        };
        thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(work);
            }
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|(index, _)| *index);
        let results = done.into_iter().map(|(_, results)| results);
        Ok(results.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// Runs a case, and judges its runs.
    fn tested(
        &self,
        task: &RuntimeCase<'_>,
        config: Option<&Path>,
    ) -> Result<Vec<TestResult>, Failure> {
        let point = task.point()?;
        let payload = task.payload(&point)?;
        let place = (task.workspace.as_path(), task.runtime);
        let argv = task.file.argv(|line| line_words(line, "/bin/sh", place));
        let places = task.runtime.project_variables();
        let needs = task.needs.as_ref();
        let declared = needs.and_then(|it| it.profile.as_ref());
        let named = task.file.profile.as_deref();
        let rehearsed = Rehearsed {
            argv: &argv,
            config,
            environment: places.map(|name| (name, &*task.workspace)).collect(),
            is_compared: self.bare,
            is_layered: !self.in_place,
            needs: needs.map(|it| &*it.file),
            point: &point,
            profile: named
                .or(declared.map(ProfileName::as_str))
                .unwrap_or(PROFILE),
            runtime: task.runtime.name,
            starts_in: &task.workspace,
            timeout: task.file.timeout(),
            workspace: Some(&task.workspace),
        };
        let ran = rehearsed.run(&[payload]);
        let ran = ran.and_then(|runs| {
            let run = runs.into_iter().next();
            run.ok_or_else(|| "the hook did not run".to_owned().into())
        });
        Ok(match ran {
            Ok(runs) => {
                let kinds = [Kind::Confined].into_iter();
                let kinds = kinds.chain(self.bare.then_some(Kind::Bare));
                kinds.map(|kind| task.judged(&runs, kind)).collect()
            }
            Err(error) => vec![TestResult {
                error: Some(unrehearsed(error)),
                ..task.result(Kind::Confined)
            }],
        })
    }
}

impl RuntimeCase<'_> {
    /// Returns the lifecycle point.
    fn point(&self) -> Result<String, Failure> {
        if let Some(point) = self.point {
            return Ok(point.to_owned());
        }
        let gate = self.runtime.call_point().map(str::to_owned);
        gate.ok_or_else(|| {
            let name = self.runtime.name;
            Failure::new(format!(
                "{name} has no point before a tool call; set `point`"
            ))
        })
    }

    /// Returns the runtime's payload for the hook's stdin.
    fn payload(&self, point: &str) -> Result<String, Failure> {
        let samples = self.runtime.samples(&self.workspace).into_iter();
        let is_of_a_call = self.runtime.is_of_a_call(Some(point));
        let sample = samples.take(usize::from(is_of_a_call)).next();
        let event = (self.case).event(
            sample.unwrap_or_else(|| json!({})),
            (self.path, &self.workspace),
        )?;
        payload(self.runtime, &self.workspace, point, &event)
    }

    /// Returns a result without a run.
    fn result(&self, kind: Kind) -> TestResult {
        TestResult {
            case: self.case.name.clone(),
            error: None,
            file: self.path.display().to_string(),
            kind,
            millis: 0,
            mismatches: Vec::new(),
            note: String::new(),
            refused: Vec::new(),
            runtime: self.runtime.name.to_owned(),
        }
    }

    fn judged(&self, runs: &Comparison, kind: Kind) -> TestResult {
        let end = match (kind, &runs.bare) {
            (Kind::Bare, Some(bare)) => bare,
            (Kind::Bare, None) | (Kind::Confined, _) => &runs.confined,
        };
        let alone = runs.leaves.first().filter(|_| kind == Kind::Bare);
        let refused = runs.refused.iter().flatten().map(|it| it.words.clone());
        let refused = runs.denied.iter().cloned().chain(refused);
        TestResult {
            error: alone.map(|path| alone_words(path)),
            millis: end.millis,
            mismatches: mismatches(&self.expected, runs, kind),
            refused: match kind {
                Kind::Bare => Vec::new(),
                Kind::Confined => refused.collect(),
            },
            ..self.result(kind)
        }
    }
}

/// Returns the words that a line of settings runs, as `install` has them run: the words of one command, or of a shell with the line.
fn line_words(line: &str, shell: &str, (workspace, runtime): (&Path, Adopted)) -> Vec<String> {
    let value = |name: &str| match runtime.project_variables().any(|known| known == name) {
        true => workspace.to_str().map(str::to_owned),
        false => env::var(name).ok(),
    };
    let is_there = |words: &Vec<String>| {
        let program = words.first().map(|word| match word.contains('/') {
            true => workspace.join(word).into_os_string(),
            false => word.into(),
        });
        program.is_some_and(|program| resolve_program(vec![program]).is_ok())
    };
    let words = words(line, value).filter(is_there);
    words.unwrap_or_else(|| [shell, "-c", line].map(str::to_owned).to_vec())
}

/// Returns the project around a directory: its repository, else the directory around it with settings, else the current one.
fn around(context: &Context, runtime: Adopted, directory: &Path) -> PathBuf {
    let found = project(runtime, directory, context.call.paths.home.as_deref());
    if found != directory || directory.join(".git").exists() {
        return found;
    }
    let found = project_around(context, directory, &Adopted::all());
    let current = current_directory()
        .ok()
        .and_then(|it| it.canonicalize().ok());
    let current = current.filter(|it| found == directory && directory.starts_with(it));
    current.unwrap_or(found)
}

/// Runs the files of tests at and below a directory. Returns how many runs of each passed.
///
/// # Errors
///
/// Fails where a run is not as expected, or a file has no tests.
pub(super) fn passed_below(
    context: &Context,
    directory: &Path,
) -> Result<BTreeMap<PathBuf, usize>, Failure> {
    let files = files_below(&[directory.to_owned()])?;
    if files.is_empty() {
        return Ok(BTreeMap::new());
    }
    let tests = TestArgs {
        bare: false,
        command: None,
        files,
        format: Form::Text,
        from: None,
        in_place: false,
        jobs: None,
        profile: Vec::new(),
        runtime: None,
    };
    let results = tests.of_files(context)?;
    if results.iter().any(|it| !it.is_passed()) {
        output::text(&report::for_people(&results));
        return Err(Failure::new("nothing is locked: a test failed"));
    }
    let mut passed = BTreeMap::new();
    for result in results {
        let count = passed.entry(PathBuf::from(result.file)).or_default();
        *count += 1;
    }
    Ok(passed)
}

/// Describes why a hook could not be run.
fn unrehearsed(error: Unrehearsed) -> String {
    match error {
        Unrehearsed::Failed(why) => why,
        Unrehearsed::NoLayer(why) => format!(
            "{why}, and files would be written for real; allow user namespaces, or accept that with --in-place"
        ),
    }
}

/// Returns a runtime's payload for a hook's stdin.
fn payload(
    runtime: Adopted,
    workspace: &Path,
    point: &str,
    event: &Value,
) -> Result<String, Failure> {
    let session = Uuid::now_v7().to_string();
    let payload = runtime.payload(event, point, (workspace, &session));
    let payload = payload.map_err(|error| Failure::new(error.to_string()))?;
    Ok(String::from_utf8(payload)?)
}

/// Locks a value that threads change by single steps.
fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}
