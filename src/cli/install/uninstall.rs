//! `hookjail uninstall --all`: puts back every file of settings that `install` changed, and copies of it whose hooks were allowed.

use std::{
    io::{self, IsTerminal},
    path::Path,
    process::ExitCode,
};

use clap::Args;

use hookjail_client::{Failure, output};
use hookjail_contract::adopt::Adopted;
use hookjail_daemon::{config::Config, daemon::Assembly};

use super::{
    super::{Context, consent::Book, show::counted, success},
    NamedRuntime, agreed, git,
    plan::{Planned, Planner, Purpose},
    prefix,
    report::{as_json, count, labelled, show},
    settings::{self, ChangedFile},
    shared::{SharedProgram, Sharing},
    sources::Elsewhere,
};

/// Put back every file of settings that `hookjail install` changed, and copies whose hooks were allowed, after a question.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
#[derive(Debug, Args)]
pub(in crate::cli) struct UninstallArgs {
    /// The settings of every runtime, project and user's home that `install` changed
    #[arg(long, required = true)]
    all: bool,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the files alone that would change, one a line, and change nothing
    #[arg(long, conflicts_with_all = ["dry_run", "yes"])]
    list: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl UninstallArgs {
    pub(in crate::cli) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let config = context.load()?;
        let (planned, mut problems) = plan(context, &config)?;
        if !config.required.is_empty() && !self.list {
            let names: Vec<_> = config
                .required
                .iter()
                .map(|hook| hook.name.as_str())
                .collect();
            output::stderr(&format!("required hooks stay: {}", names.join(", ")));
        }
        let repositories = repositories(&config)?;
        if self.list {
            let repositories = repositories.iter().map(|it| &*it.path);
            for path in files_to_change(&planned).chain(repositories) {
                output::line(&path.display().to_string());
            }
            return Ok(success(problems.is_empty()));
        }
        let changes = count(&planned, &Elsewhere::default()) + repositories.len();
        if !context.call.json {
            show(&planned, &Elsewhere::default(), false);
            for repository in &repositories {
                output::line(&repository.path.display().to_string());
                output::line(&labelled("put back", "the directory of hooks"));
            }
        }
        let is_asked = !self.dry_run && changes > 0;
        if is_asked && !self.yes {
            if context.call.json || !io::stdin().is_terminal() {
                let message =
                    "nothing was changed: `--yes` puts back what is shown, `--dry-run` only shows";
                return Err(Failure::new(message));
            }
            if !agreed("Put these back? [y/N] ")? {
                return Err(Failure::new("nothing was changed"));
            }
        }
        let mut files = 0;
        for Planned {
            file,
            prefix,
            steps,
            ..
        } in planned.iter().filter(|_| is_asked)
        {
            let edits = steps.iter().flat_map(super::plan::InstallStep::edits);
            let edits: Vec<_> = edits.chain(prefix.clone()).collect();
            if edits.is_empty() {
                continue;
            }
            // One file that cannot be written leaves no other confined.
            match file.write(&edits, false) {
                Ok(_) => {
                    files += 1;
                    if let Some(shared) = SharedProgram::of_settings(file, file.runtime()) {
                        shared.remove_unused();
                    }
                }
                Err(failure) => problems.push(failure.message),
            }
        }
        for ChangedFile { path, project, .. } in repositories.iter().filter(|_| is_asked) {
            let project = project.as_deref().unwrap_or(path);
            match git::put_back_all(&config, project) {
                Ok(stays) => {
                    files += 1;
                    let stays = stays.iter().map(|it| it.display());
                    problems.extend(stays.map(|it| format!("`{it}`: another program wrote it")));
                }
                Err(failure) => problems.push(failure.message),
            }
        }
        for problem in &problems {
            output::stderr(&format!("NOT put back: {problem}"));
        }
        if context.call.json {
            let files: Vec<_> = planned.iter().map(as_json).collect();
            output::json_line(&serde_json::json!({
                "changed": is_asked,
                "files": files,
                "problems": problems,
                "repositories": repositories.iter().map(|it| &it.path).collect::<Vec<_>>(),
            }));
        } else {
            output::line(&match is_asked {
                true => format!(
                    "{} put back in {}",
                    counted(changes, "hook"),
                    counted(files, "file")
                ),
                false => format!(
                    "nothing was changed (confined: {})",
                    counted(changes, "hook")
                ),
            });
        }
        let mut steps = planned.iter().flat_map(|it| &it.steps);
        let is_left = steps.any(super::plan::InstallStep::is_left);
        Ok(success(problems.is_empty() && !is_left))
    }
}

/// Returns the repositories whose hooks `install` confined and that are there.
fn repositories(config: &Config) -> Result<Vec<ChangedFile>, Failure> {
    let mut changed = settings::changed(config)?;
    changed.retain(|it| answers_by_code(&it.runtime) && it.path.exists());
    Ok(changed)
}

fn answers_by_code(runtime: &str) -> bool {
    let mut all = Adopted::all().into_iter();
    all.any(|it| it.name == runtime && it.answers_by_code)
}

/// Returns the files that have something of hookjail's.
fn files_to_change(planned: &[Planned]) -> impl Iterator<Item = &Path> {
    let files = planned.iter();
    let files = files.filter(|it| it.prefix.is_some() || it.changes().next().is_some());
    files.map(|it| &*it.file.path)
}

/// Plans for every file that `install` changed and that is there, and for those of projects with consents; returns the reasons of
/// those that cannot be read, too.
fn plan(context: &Context, config: &Config) -> Result<(Vec<Planned>, Vec<String>), Failure> {
    let (book, registry) = (Book::open(config)?, Assembly::registry(config).ok());
    let (mut planned, mut problems) = (Vec::new(), Vec::new());
    let mut files = Vec::new();
    let changed = settings::changed(config)?.into_iter();
    for changed in changed.filter(|it| !answers_by_code(&it.runtime)) {
        let mut all = Adopted::all().into_iter();
        match all.find(|it| it.name == changed.runtime) {
            None => problems.push(format!(
                "`{}` is of an unknown runtime",
                changed.path.display()
            )),
            Some(runtime) if changed.path.exists() => {
                files.push((runtime, changed.path, changed.project));
            }
            Some(_) => {}
        }
    }
    // Clones, working trees and moved projects have lines that no record names.
    let recorded = files.len();
    for runtime in Adopted::all().into_iter().filter(|it| !it.answers_by_code) {
        for (path, project) in settings::found(runtime, context, &book.scopes()) {
            let is_known = files.iter().any(|(_, known, _)| *known == path);
            if !is_known && project.is_some() {
                files.push((runtime, path, project));
            }
        }
    }
    for (index, (runtime, path, project)) in files.into_iter().enumerate() {
        let planner = Planner {
            book: &book,
            by_prefix: false,
            declared: None,
            profile: "",
            purpose: Purpose::PutBack,
            registry: registry.as_ref(),
            runtime: NamedRuntime {
                name: runtime.name,
                runtime,
            },
            sharing: Sharing::Nowhere,
        };
        let file = settings::open(runtime, path, project, context, config);
        match file.and_then(|file| planner.file(file, None)) {
            Ok(mut file) => {
                // A team's own lines stay where `install` did not write them.
                let shared = SharedProgram::of_settings(&file.file, runtime);
                if let Some(shared) = shared.filter(|_| index >= recorded) {
                    file.steps.retain(|step| !shared.begins(&step.before));
                }
                let shown = file.file.path.display().to_string();
                match prefix::taken_back(&file.file, config) {
                    Ok(edit) => file.prefix = edit,
                    Err(why) => problems.push(format!("`{shown}`: {why}")),
                }
                if let Some(why) = file.file.why_kept() {
                    file.leave_edits(&why);
                    let left = file.prefix.take();
                    problems.extend(left.map(|_| format!("`{shown}`: {why}")));
                }
                planned.push(file);
            }
            Err(failure) => problems.push(failure.message),
        }
    }
    Ok((planned, problems))
}
