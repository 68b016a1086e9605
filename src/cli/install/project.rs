//! The hooks of a project's own settings, as they are now, of all runtimes.

use std::path::{Path, PathBuf};

use hookjail_client::Failure;
use hookjail_contract::adopt::Adopted;
use hookjail_daemon::{config::Config, daemon::Assembly};
use hookjail_sandbox::program::Digest;

use super::{
    super::{Context, consent::Book, declared::Statement},
    NamedRuntime, PROFILE,
    plan::{Becomes, Planner, Purpose},
    settings::{self, SettingsFile},
    shared::{Sharing, original_line},
};

/// A hook of a project's settings.
pub(in crate::cli) struct ProjectHook {
    /// Its own statement, if there is one.
    pub(in crate::cli) declares: Option<Statement>,
    /// The digests of the files that a consent to it binds.
    pub(in crate::cli) digests: Vec<Digest>,
    /// Its line without hookjail, as the settings have it.
    pub(in crate::cli) line: String,
    /// The profile that it declares, else that of its line, else the usual one.
    pub(in crate::cli) profile: String,
    /// The file of settings, relative to the project, with the point.
    pub(in crate::cli) source: String,
}

/// Returns the project around the current directory, or the one that is named.
///
/// # Errors
///
/// Fails where there is no current directory, or the named one cannot be opened.
pub(in crate::cli) fn project(
    context: &Context,
    directory: Option<&Path>,
) -> Result<PathBuf, Failure> {
    match directory {
        Some(directory) => super::allow::project(directory),
        None => {
            let directory = hookjail_client::program::current_directory()?;
            let project = settings::project_around(context, &directory, &Adopted::all());
            Ok(project.canonicalize()?)
        }
    }
}

/// Returns the hooks of a project's settings, and those that cannot be bound to content with the reasons.
///
/// # Errors
///
/// Fails where the configuration cannot be read, or a file of settings.
pub(in crate::cli) fn hooks(
    context: &Context,
    config: &Config,
    project: &Path,
) -> Result<(Vec<ProjectHook>, Vec<String>), Failure> {
    let mut files = Vec::new();
    for runtime in Adopted::all().into_iter().filter(|it| !it.answers_by_code) {
        let found = settings::found(runtime, context, &[project.to_owned()]);
        for (path, project) in found.into_iter().filter(|(_, project)| project.is_some()) {
            let file = settings::open(runtime, path, project, context, config)?;
            // A person's private settings are no part of the repository.
            if !file.is_local() {
                files.push(file);
            }
        }
    }
    let declared = settings::declarations(&files, config);
    let config = declared.propose(config.clone());
    let book = Book::open(&config)?;
    let registry = Assembly::registry(&config)?;
    let (mut hooks, mut problems) = (Vec::new(), Vec::new());
    for file in files {
        let runtime = file.runtime();
        let planner = Planner {
            book: &book,
            by_prefix: false,
            declared: Some((&declared, &config)),
            profile: PROFILE,
            purpose: Purpose::Switch,
            registry: Some(&registry),
            runtime: NamedRuntime {
                name: runtime.name,
                runtime,
            },
            sharing: Sharing::Nowhere,
        };
        let place = place(&file, project);
        let planned = planner.file(file, None)?;
        problems.extend(planned.broken.iter().map(|why| format!("{place}: {why}")));
        for step in planned.steps {
            let point = [step.hook.point.as_str(), &step.hook.matching].join(" ");
            let source = format!("{place}: {}", point.trim_end());
            match step.becomes {
                Becomes::Allowed(_) | Becomes::Kept(_) => {}
                Becomes::Left(why) => problems.push(format!("{source}: {}: {why}", step.before)),
                Becomes::Changed(change) => {
                    let declared = change.declares.as_ref().and_then(|it| it.profile.clone());
                    let named = declared
                        .or_else(|| original_line(&step.before, &step.hook, (project, runtime))?.1);
                    let first = change.bound.into_iter().next();
                    hooks.push(ProjectHook {
                        declares: change.declares,
                        digests: first.map_or_else(Vec::new, |it| it.entry.digests),
                        line: change.line,
                        profile: named.unwrap_or_else(|| PROFILE.to_owned()),
                        source,
                    });
                }
            }
        }
    }
    Ok((hooks, problems))
}

/// Returns the path of a file of settings, relative to its project.
fn place(file: &SettingsFile, project: &Path) -> String {
    let below = file.path.strip_prefix(project);
    below.unwrap_or(&file.path).display().to_string()
}
