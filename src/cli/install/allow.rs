//! `hookjail allow`: allows again, after one question, every hook that is new or changed since it was allowed.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use serde_json::{Value, json};

use hookjail_base::model::Lines;
use hookjail_client::{Failure, output, program::current_directory};
use hookjail_contract::adopt::Adopted;
use hookjail_daemon::{config::Config, consent::allowlist::typed, daemon::Assembly};
use hookjail_policy::Registry;

use super::{
    super::{
        Context,
        consent::{self, Book, BoundConsent, Bounds, Refused, Standing, Terms},
        declared::{Declarations, Statement},
        lock::{FILE, Verified},
        success,
    },
    NamedRuntime, PROFILE, agreed,
    git::RepositoryPlanner,
    plan::{Becomes, Planner, Purpose},
    prefix::{self, Prefix},
    report::line_of_diff,
    settings::{self, SettingsFile},
    shared::Sharing,
    sources::{self, Elsewhere},
};

/// Allow the hooks of a project and of the user as their files are now, or one command.
///
/// Shows each hook that is new or changed since it was allowed, with the difference of its script, and asks.
/// With a command, allows that command alone, without a question.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
#[derive(Debug, Args)]
pub(in crate::cli) struct AllowArgs {
    /// The project [default: that of the current directory]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// The hooks of every project with allowed hooks, and every allowed command
    #[arg(long, conflicts_with = "directory")]
    all: bool,
    /// Exit with 1 if a hook would be refused, and allow nothing
    #[arg(long, conflicts_with = "yes")]
    check: bool,
    /// Allow the project's hooks as hookjail.lock has them: all of them, or none where one differs
    #[arg(long, conflicts_with = "all")]
    locked: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    bounds: Bounds,
    /// A command that is no hook of a settings file
    #[arg(conflicts_with_all = ["all", "check", "directory", "locked", "yes"], last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The commands that were looked at.
#[derive(Default)]
struct Found {
    /// Commands that are allowed as they are.
    allowed: BTreeSet<String>,
    /// Commands that no consent can allow, and files that cannot be read, with the reasons.
    broken: BTreeSet<(String, String)>,
    /// The number of consents for directories that are gone.
    gone: BTreeMap<PathBuf, usize>,
    needed: Vec<Needed>,
    /// The number of commands of each runtime that stay unconfined, in words, where some do.
    unconfined: Vec<(&'static str, String)>,
}

/// A command that would be refused.
struct Needed {
    bound: Vec<BoundConsent>,
    /// The hook's own statement, if there is one.
    declares: Option<Statement>,
    /// Its line without hookjail, where it is a hook of the project's settings.
    line: Option<String>,
    refused: Refused,
    /// The file of settings and the point, or the list.
    source: String,
}

impl Needed {
    fn command(&self) -> &str {
        self.bound.first().map_or("", |it| &it.entry.command)
    }

    fn profile(&self) -> &str {
        let entry = self.bound.first().map(|it| &it.entry);
        entry.and_then(|it| it.profile.as_deref()).unwrap_or("")
    }

    /// Returns the directory below which the command is to be allowed; `None` = everywhere.
    fn scope(&self) -> Option<&Path> {
        self.bound.first()?.entry.working_dir_scope.as_deref()
    }

    fn as_json(&self) -> Value {
        json!({
            "command": self.command(),
            "declares": self.declares,
            "diff": self.refused.diff,
            "profile": self.profile(),
            "source": self.source,
            "why": self.refused.why,
        })
    }
}

/// The state of the confined hooks of the user and of the current directory's project.
pub(in crate::cli) struct Here {
    allowed: usize,
    pub(in crate::cli) refused: usize,
    /// The number of commands of each runtime that stay unconfined, and the command that names them.
    pub(in crate::cli) unconfined: Vec<String>,
}

impl Here {
    /// Looks at the settings of every runtime.
    ///
    /// # Errors
    ///
    /// Fails where the configuration or the allowlist cannot be read.
    pub(in crate::cli) fn look(context: &Context) -> Result<Self, Failure> {
        let Looked { found, .. } = Looked::new(context, false, None)?;
        Ok(Self {
            allowed: found.allowed.len(),
            refused: found.needed.len() + found.broken.len(),
            unconfined: found.unconfined(),
        })
    }
}

impl std::fmt::Display for Here {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.refused, self.allowed) {
            (0, 0) => f.write_str("no confined hooks"),
            (0, allowed) => write!(f, "{allowed} allowed"),
            (refused, 0) => write!(f, "{refused} would be refused: hookjail allow"),
            (refused, allowed) => {
                write!(
                    f,
                    "{refused} would be refused: hookjail allow; {allowed} allowed"
                )
            }
        }
    }
}

impl AllowArgs {
    pub(in crate::cli) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        if !self.command.is_empty() {
            return self.bounds.allow(context, self.command);
        }
        let Looked {
            config,
            declared,
            mut found,
            place,
        } = Looked::new(context, self.all, self.directory.as_deref())?;
        let locked = match (self.locked, place.projects.as_slice()) {
            (true, [project]) => Some(found.keep_locked(context, &config, project)?),
            (true | false, _) => None,
        };
        let needed = found.needed.len();
        if context.call.json && !self.yes || self.check || needed == 0 {
            found.print(context);
            return Ok(success(needed == 0 && found.broken.is_empty()));
        }
        if !context.call.json {
            output::text(found.listed().as_str());
        }
        if !self.yes {
            if !io::stdin().is_terminal() {
                let message =
                    "nothing was allowed: `--yes` allows what is shown, `--check` only checks";
                return Err(Failure::new(message));
            }
            if !agreed(&question(needed, locked.as_ref()))? {
                return Err(Failure::new("nothing was allowed"));
            }
        }
        let profiles = found.needed.iter().map(Needed::profile).collect();
        declared.put_in_force(context, &profiles)?;
        consent::record(&config, found.needed.iter().flat_map(|it| &it.bound))?;
        if context.call.json {
            found.print(context);
        } else {
            output::line(&format!(
                "{needed} allowed · {} were allowed already",
                found.allowed.len()
            ));
        }
        Ok(success(found.broken.is_empty()))
    }
}

/// Returns the question about some commands.
fn question(needed: usize, locked: Option<&Verified>) -> String {
    let commands = match needed {
        1 => "this command".to_owned(),
        more => format!("these {more} commands"),
    };
    let state = match locked.map(|it| &it.signer) {
        None if needed == 1 => "its files are now".to_owned(),
        None => "their files are now".to_owned(),
        Some(None) => format!("{FILE} has them, unsigned"),
        Some(Some(signer)) => format!("{FILE} has them, signed by {signer}"),
    };
    format!("Allow {commands} as {state}? [y/N] ")
}

/// Returns the canonical path of a project that was named.
pub(super) fn project(directory: &Path) -> Result<PathBuf, Failure> {
    let name = directory.display();
    let path = directory
        .canonicalize()
        .map_err(|error| Failure::new(format!("cannot open `{name}`: {error}")))?;
    if path.is_dir() {
        return Ok(path);
    }
    Err(Failure::new(format!(
        "`{name}` is not a directory; allow a command with: hookjail allow -- CMD"
    )))
}

/// Builds what plans for confined hooks alone, those of a shell prefix under its profile.
fn planner<'a>(
    (book, declared): (&'a Book<'a>, (&'a Declarations, &'a Config)),
    registry: Option<&'a Registry>,
    runtime: NamedRuntime,
    profile: Option<&'a str>,
) -> Planner<'a> {
    Planner {
        book,
        by_prefix: profile.is_some(),
        declared: Some(declared),
        profile: profile.unwrap_or(""),
        purpose: Purpose::Renew,
        registry,
        runtime,
        sharing: Sharing::Nowhere,
    }
}

/// The commands of a place, with the declarations beside them.
struct Looked {
    /// The configuration with the profiles of declared needs.
    config: Config,
    declared: Declarations,
    found: Found,
    place: Place,
}

impl Looked {
    /// Looks at the settings of every runtime, of one project or of all, and at the list.
    fn new(context: &Context, all: bool, directory: Option<&Path>) -> Result<Self, Failure> {
        let config = context.load()?;
        let place = Place::find(context, &config, all, directory)?;
        let declared = place.declarations(context, &config);
        let config = declared.propose(config);
        let found = Found::look(context, &config, &place, &declared)?;
        Ok(Self {
            config,
            declared,
            found,
            place,
        })
    }
}

/// The places where hooks are looked for.
struct Place {
    /// Whether in every project with allowed hooks, and at every allowed command.
    all: bool,
    projects: Vec<PathBuf>,
}

impl Place {
    fn find(
        context: &Context,
        config: &Config,
        all: bool,
        directory: Option<&Path>,
    ) -> Result<Self, Failure> {
        let projects = match (all, directory) {
            (true, _) => Book::open(config)?.scopes(),
            (false, Some(directory)) => vec![project(directory)?],
            (false, None) => vec![settings::project_around(
                context,
                &current_directory()?,
                &Adopted::all(),
            )],
        };
        Ok(Self { all, projects })
    }

    /// Reads the declarations beside the hooks of all settings that can be read.
    fn declarations(&self, context: &Context, config: &Config) -> Declarations {
        let runtimes = Adopted::all().into_iter().filter(|it| !it.answers_by_code);
        let files = runtimes.flat_map(|runtime| {
            let found = settings::found(runtime, context, &self.projects).into_iter();
            found.filter_map(move |(path, project)| {
                settings::open(runtime, path, project, context, config).ok()
            })
        });
        settings::declarations(&files.collect::<Vec<_>>(), config)
    }
}

impl Found {
    /// Looks at the settings of every runtime, of one project or of all, and at the list.
    fn look(
        context: &Context,
        config: &Config,
        Place { all, projects }: &Place,
        declared: &Declarations,
    ) -> Result<Self, Failure> {
        let book = Book::open(config)?;
        let registry = Assembly::registry(config).ok();
        let mut found = Self::default();
        let none = projects.is_empty().then_some(&[][..]);
        let each: Vec<&[PathBuf]> = projects.chunks(1).chain(none).collect();
        let runtimes = Adopted::all().into_iter().filter(|it| !it.answers_by_code);
        let runtimes: Vec<_> = runtimes.collect();
        let settings = runtimes.iter().flat_map(|runtime| {
            let files = each.iter();
            let files = files.flat_map(|projects| settings::found(*runtime, context, projects));
            files.map(|(path, _)| (path, runtime.name))
        });
        let settings: BTreeMap<_, _> = settings.collect();
        for runtime in runtimes {
            let named = NamedRuntime {
                name: runtime.name,
                runtime,
            };
            let mut unconfined = Elsewhere::default();
            for projects in &each {
                let project = projects.first().map(PathBuf::as_path);
                let prefix = Prefix::find(context, config, runtime, project);
                let profile = prefix.as_ref().map(|it| &*it.profile);
                let book = (&book, (declared, config));
                let planner = planner(book, registry.as_ref(), named, profile);
                let mut elsewhere = sources::look(named, context, config, projects)?;
                if let Some(prefix) = &prefix {
                    let project = project.unwrap_or(Path::new("/"));
                    prefix::cover(&mut elsewhere, &planner, (prefix, project), context);
                }
                found.prefixed(&mut elsewhere);
                // A runtime that reads another's settings, too, need not be in use here.
                let is_own = |file: &Path| {
                    settings
                        .get(file)
                        .is_none_or(|owner| *owner == runtime.name)
                };
                elsewhere.loose.retain(|it| is_own(&it.file));
                elsewhere.unread.retain(|it| is_own(&it.file));
                unconfined.loose.append(&mut elsewhere.loose);
                unconfined.unread.append(&mut elsewhere.unread);
                for (path, project) in settings::found(runtime, context, projects) {
                    let file = settings::open(runtime, path.clone(), project, context, config);
                    let added = file.and_then(|file| found.file(&planner, file));
                    if let Err(failure) = added {
                        let path = path.display().to_string();
                        found.broken.insert((path, failure.message));
                    }
                }
            }
            let summary = unconfined.summary();
            found
                .unconfined
                .extend(summary.map(|it| (runtime.name, it)));
        }
        for runtime in Adopted::all().into_iter().filter(|it| it.answers_by_code) {
            let Some(registry) = &registry else { break };
            let planner = RepositoryPlanner {
                book: &book,
                profile: PROFILE,
                registry,
            };
            let projects = projects.iter();
            for project in projects.filter(|it| runtime.has_settings(it)) {
                found.repository(&planner, (runtime.name, project));
            }
        }
        match all {
            true => found.list(&book, None),
            false => projects.iter().for_each(|it| found.list(&book, Some(it))),
        }
        Ok(found)
    }
    /// Leaves the hooks that the project's lock has, after all of its hooks were compared with it.
    fn keep_locked(
        &mut self,
        context: &Context,
        config: &Config,
        project: &Path,
    ) -> Result<Verified, Failure> {
        let verified = Verified::read(context, config, &project.canonicalize()?)?;
        self.needed.retain(|it| {
            let line = it.line.as_ref();
            line.is_some_and(|line| verified.has(line, it.profile()))
        });
        Ok(verified)
    }

    /// Adds the hooks of a repository.
    fn repository(
        &mut self,
        planner: &RepositoryPlanner<'_>,
        (runtime, project): (&'static str, &Path),
    ) {
        let planned = match planner.plan(project) {
            Ok(Some(planned)) => planned,
            Ok(None) => return,
            Err(failure) => {
                let path = project.display().to_string();
                self.broken.insert((path, failure.message));
                return;
            }
        };
        let unconfined = planned.unconfined();
        self.unconfined.extend(unconfined.map(|it| (runtime, it)));
        let file = planned.file();
        for hook in planned.hooks {
            let source = format!("{}: {}", file.display(), hook.point);
            match hook.refused {
                Some(refused) => self.need((hook.bound, None, None), refused, source),
                None => {
                    let bound = hook.bound.first();
                    self.allowed
                        .extend(bound.map(|it| it.entry.command.clone()));
                }
            }
        }
    }

    /// Adds the commands that are confined by a shell prefix.
    fn prefixed(&mut self, elsewhere: &mut Elsewhere) {
        for needed in std::mem::take(&mut elsewhere.needed) {
            let source = format!("{}: {}", needed.loose.file.display(), needed.loose.place);
            self.need((needed.bound, None, None), needed.refused, source);
        }
        for command in std::mem::take(&mut elsewhere.allowed) {
            self.allowed.insert(command);
        }
    }

    /// Adds the confined hooks of a file of settings.
    fn file(&mut self, planner: &Planner<'_>, file: SettingsFile) -> Result<(), Failure> {
        let planned = planner.file(file, None)?;
        let broken = planned.broken.iter().map(|why| {
            let name = planned.file.path.display().to_string();
            (name, why.clone())
        });
        self.broken.extend(broken);
        for step in planned.steps {
            let point = [step.hook.point.as_str(), &step.hook.matching].join(" ");
            let source = format!("{}: {}", planned.file.path.display(), point.trim_end());
            match step.becomes {
                Becomes::Kept(_) => {}
                Becomes::Allowed(command) => drop(self.allowed.insert(command)),
                Becomes::Left(why) => self
                    .broken
                    .extend([(format!("{source}: {}", step.before), why)]),
                Becomes::Changed(change) => {
                    if let Some(refused) = change.refused {
                        let line = planned.file.is_projects.then_some(change.line);
                        self.need((change.bound, change.declares, line), refused, source);
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds the commands of the list that are limited to directories at or below one, or all of them.
    fn list(&mut self, book: &Book<'_>, directory: Option<&Path>) {
        for (entry, words) in book.consents(directory) {
            let profile = entry.profile.clone().unwrap_or_default();
            let scope = entry.working_dir_scope.clone();
            let has = |it: &Needed| {
                let mut bound = it.bound.iter();
                bound.any(|it| it.entry.command == entry.command) && it.scope() == scope.as_deref()
            };
            if self.needed.iter().any(has) {
                continue;
            }
            if let Some(gone) = scope.as_ref().filter(|scope| !scope.exists()) {
                *self.gone.entry(gone.clone()).or_default() += 1;
                continue;
            }
            let terms = Terms {
                data: entry.data.iter().map(OsString::from).collect(),
                profile,
                starts_in: scope.clone(),
                until: entry.expires_at,
                within: scope.clone(),
            };
            match book.standing(terms, words, scope.as_deref()) {
                Ok(Standing { refused: None, .. }) => {
                    self.allowed.insert(entry.command.clone());
                }
                Ok(Standing {
                    bound,
                    refused: Some(refused),
                }) => self.need((bound, None, None), refused, "allowed before".to_owned()),
                Err(failure) => {
                    let gone = format!("allowed before: {}", typed(&entry.command));
                    self.broken.insert((gone, failure.message));
                }
            }
        }
    }

    fn need(
        &mut self,
        (bound, declares, line): (Vec<BoundConsent>, Option<Statement>, Option<String>),
        refused: Refused,
        source: String,
    ) {
        let needed = Needed {
            bound,
            declares,
            line,
            refused,
            source,
        };
        let terms = |it: &Needed| {
            let scope = it.scope().map(Path::to_owned);
            (it.command().to_owned(), it.profile().to_owned(), scope)
        };
        let is_same = |it: &Needed| terms(it) == terms(&needed);
        if !self.needed.iter().any(is_same) {
            self.needed.push(needed);
        }
    }

    fn unconfined(&self) -> Vec<String> {
        let all = self.unconfined.iter();
        let all = all.map(|(runtime, commands)| {
            format!("{runtime}: {commands} outside of its hook settings: hookjail install {runtime} --dry-run")
        });
        all.collect()
    }

    fn listed(&self) -> Lines {
        let mut text = Lines::default();
        for needed in &self.needed {
            text.add(needed.source.clone());
            text.add(format!("    {}", typed(needed.command())));
            if let Some(declares) = &needed.declares {
                for line in declares.lines() {
                    text.add(format!("    {line}"));
                }
                let is_other = |it: &String| it != needed.profile();
                if declares.profile.as_ref().is_some_and(is_other) {
                    text.add(
                        "    its declared needs are not in force; take them over: hookjail install",
                    );
                }
            }
            text.add(format!(
                "    under {}: {}",
                needed.profile(),
                needed.refused.why
            ));
            for line in needed.refused.diff.lines() {
                text.add(format!("      {}", line_of_diff(line)));
            }
        }
        for (name, why) in &self.broken {
            text.add(name.clone());
            text.add(format!("    cannot be allowed: {why}"));
        }
        for (directory, consents) in &self.gone {
            let directory = directory.display();
            text.add(format!("{directory} is gone (consents for it: {consents})"));
        }
        for line in self.unconfined() {
            text.add(line);
        }
        text
    }

    /// Prints what is needed, and the count of what is allowed.
    fn print(&self, context: &Context) {
        if context.call.json {
            let broken = self.broken.iter();
            let broken = broken.map(|(name, why)| json!({ "name": name, "why": why }));
            output::json_line(&json!({
                "allowed": self.allowed,
                "broken": broken.collect::<Vec<_>>(),
                "gone": self.gone,
                "needed": self.needed.iter().map(Needed::as_json).collect::<Vec<_>>(),
                "unconfined": self.unconfined(),
            }));
            return;
        }
        output::text(self.listed().as_str());
        let allowed = self.allowed.len();
        output::line(&match (self.needed.len(), allowed) {
            (0, 0) => {
                "no confined hooks here; confine those of a runtime: hookjail install RUNTIME"
                    .to_owned()
            }
            (0, _) => format!("nothing to allow: {allowed} allowed"),
            (needed, _) => format!("{needed} to allow · {allowed} allowed"),
        });
    }
}
