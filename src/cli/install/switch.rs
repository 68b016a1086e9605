//! A command's place in settings: found by the command, and changed to another profile.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

use hookjail_client::{
    Failure,
    program::{current_directory, resolve_program},
};
use hookjail_contract::adopt::Adopted;
use hookjail_daemon::{config::Config, daemon::Assembly};

use super::{
    super::{
        Context,
        consent::{self, Book},
    },
    NamedRuntime,
    plan::{Becomes, Planned, Planner, Purpose},
    prefix::Prefix,
    settings,
    shared::{SharedProgram, Sharing, original_line},
};

/// A command in the settings of the user, or of the current directory's project.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Placed {
    /// The program and its arguments.
    pub(in crate::cli) argv: Vec<String>,
    /// The file of settings.
    pub(in crate::cli) file: PathBuf,
    /// Whether the runtime hands all its hooks to hookjail's shell prefix, under one profile.
    pub(in crate::cli) is_prefixed: bool,
    /// The lifecycle point.
    pub(in crate::cli) point: String,
    /// The profile under which it runs; `None` = it is not confined.
    pub(in crate::cli) profile: Option<String>,
    /// The runtime of the settings.
    pub(in crate::cli) runtime: Adopted,
    project: Option<PathBuf>,
    source: String,
}

impl Placed {
    /// Finds a command in the settings of every runtime. Without arguments it stands for the program with those of the settings.
    ///
    /// # Errors
    ///
    /// Fails where the allowlist cannot be read. Settings that cannot be read have no command.
    pub(in crate::cli) fn find(
        context: &Context,
        config: &Config,
        command: &[OsString],
    ) -> Result<Vec<Self>, Failure> {
        let book = Book::open(config)?;
        let runtimes = Adopted::all();
        let project = settings::project_around(context, &current_directory()?, &runtimes);
        let mut all = Vec::new();
        for runtime in runtimes.into_iter().filter(|it| !it.answers_by_code) {
            let prefixed = Prefix::find(context, config, runtime, Some(&project));
            let prefixed = prefixed.map(|it| it.profile);
            for (file, project) in settings::found(runtime, context, std::slice::from_ref(&project))
            {
                let place = (file.as_path(), project.as_deref());
                // Under any profile: the parts of a command do not depend on it.
                let planned = plan(context, config, (&book, runtime), place, STRICT);
                for step in planned.map_or_else(|_| Vec::new(), |planned| planned.steps) {
                    let Becomes::Changed(change) = step.becomes else {
                        continue;
                    };
                    if !is_command(&change.argv, command) {
                        continue;
                    }
                    let around = project.as_deref().unwrap_or(Path::new("/"));
                    let named = original_line(&step.before, &step.hook, (around, runtime));
                    let named = named.and_then(|(_, profile)| profile);
                    all.push(Self {
                        argv: change.argv,
                        file: file.clone(),
                        point: step.hook.point.clone(),
                        is_prefixed: prefixed.is_some(),
                        profile: named.or_else(|| prefixed.clone()),
                        runtime,
                        project: project.clone(),
                        source: step.hook.source.clone(),
                    });
                }
            }
        }
        Ok(all)
    }

    /// Returns why the settings cannot name hookjail's own program, if so.
    fn is_replaceable(&self) -> Option<String> {
        let program = env::current_exe().ok()?;
        let project = self.project.as_deref()?;
        program.starts_with(project).then(|| {
            "hookjail's own program lies in the project, whose hooks could replace it; install hookjail elsewhere".to_owned()
        })
    }

    /// Allows the command under a profile, and changes its line in the settings to that.
    ///
    /// # Errors
    ///
    /// Fails where the command is not there any more, or the settings or the allowlist cannot be changed.
    pub(in crate::cli) fn switch(
        &self,
        context: &Context,
        config: &Config,
        profile: &str,
    ) -> Result<(), Failure> {
        let book = Book::open(config)?;
        let place = (self.file.as_path(), self.project.as_deref());
        let planned = plan(context, config, (&book, self.runtime), place, profile)?;
        let file = self.file.display();
        let file_of = &planned.file;
        let steered = file_of.steers_hookjail().or_else(|| {
            let project = self.project.as_deref()?;
            settings::steering_environment(self.runtime, project)
        });
        if let Some(why) = file_of
            .why_kept()
            .or(steered)
            .or_else(|| self.is_replaceable())
        {
            return Err(Failure::new(format!("`{file}` is not changed: {why}")));
        }
        let mut steps = planned.steps.into_iter();
        let step = steps.find(|step| step.hook.source == self.source);
        match step.map(|step| step.becomes) {
            Some(Becomes::Changed(change)) if change.argv == self.argv => {
                consent::record(config, change.bound.iter())?;
                if let Some(program) = SharedProgram::of_settings(file_of, self.runtime)
                    .filter(|it| it.begins(&change.after))
                {
                    program.write()?;
                }
                planned.file.write(&change.edits, true)?;
                Ok(())
            }
            Some(Becomes::Left(why)) => {
                Err(Failure::new(format!("`{file}` is not changed: {why}")))
            }
            Some(Becomes::Allowed(_) | Becomes::Changed(_) | Becomes::Kept(_)) | None => {
                let message = "the command is not there any more; try again";
                Err(Failure::new(format!("`{file}` is not changed: {message}")))
            }
        }
    }
}

/// The profile under which a command is looked up.
const STRICT: &str = "strict";

fn plan(
    context: &Context,
    config: &Config,
    (book, runtime): (&Book<'_>, Adopted),
    (path, project): (&Path, Option<&Path>),
    profile: &str,
) -> Result<Planned, Failure> {
    let registry = Assembly::registry(config)?;
    let project = project.map(Path::to_owned);
    let file = settings::open(runtime, path.to_owned(), project, context, config)?;
    let planner = Planner {
        book,
        by_prefix: false,
        declared: None,
        profile,
        purpose: Purpose::Switch,
        registry: Some(&registry),
        runtime: NamedRuntime {
            name: runtime.name,
            runtime,
        },
        sharing: Sharing::by_default(context.call.paths.home.as_deref()),
    };
    planner.file(file, None)
}

/// Returns whether the words of settings are a command, as it is typed in the current directory.
fn is_command(words: &[String], command: &[OsString]) -> bool {
    let resolved = |words: Vec<OsString>| {
        let mut words = resolve_program(words).ok()?;
        let program = words.first_mut()?;
        *program = Path::new(program).canonicalize().ok()?.into_os_string();
        Some(words)
    };
    let words = resolved(words.iter().map(OsString::from).collect());
    let command = resolved(command.to_vec());
    words
        .zip(command)
        .is_some_and(|(words, command)| words == command || command == words[..1])
}
