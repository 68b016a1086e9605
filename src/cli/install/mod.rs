//! `hookjail install RUNTIME`: changes a runtime's settings so that its hooks run confined.

mod allow;
mod edit;
mod fetch;
mod git;
mod ground;
mod line;
mod plan;
mod prefix;
mod project;
mod rehearsal;
mod report;
mod required;
mod required_check;
mod settings;
mod shared;
mod sources;
#[cfg(target_os = "linux")]
mod switch;
mod uninstall;
mod unserved;

use std::{
    collections::BTreeSet,
    env,
    io::{self, BufRead, IsTerminal},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{ArgAction, ArgMatches, Args, builder::PossibleValuesParser};
use hookjail_base::model::{Command, plain};
use hookjail_client::{Failure, on_demand, output, program::current_directory};
use hookjail_contract::{Action, Registered, adopt::Adopted};
use hookjail_sandbox::{Caches, Fetching};

pub(super) use self::shared::{original_line, original_words};
#[cfg(target_os = "linux")]
pub(super) use self::switch::Placed;
pub(super) use self::{
    allow::{AllowArgs, Here},
    project::{ProjectHook, hooks as project_hooks, project},
    settings::project_around,
    uninstall::UninstallArgs,
};
use self::{
    fetch::Fetch,
    plan::{Becomes, InstallStep, Planned, Planner, Purpose, SettingsChange},
    rehearsal::{Lacking, Rehearsal, RehearsalReport},
    report::{CheckedLines, Done, code, count, show},
    required::RequiredLines,
    settings::{Empty, SettingsFile, files},
    shared::{Absent, SharedProgram, Sharing},
    sources::{Elsewhere, Unread},
};
#[cfg(target_os = "linux")]
use super::learn::LearnArgs;
use super::{
    Context,
    consent::{self, Book},
    declared::Declarations,
    profile,
    progress::Progress,
};
use hookjail_daemon::{config::Config, daemon::Assembly};

/// The profile that usual hooks need: formatters, linters, tests, commits.
pub(super) const PROFILE: &str = "develop";

/// Change a runtime's settings, after a question, so that its hooks run confined.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
#[derive(Debug, Args)]
pub(super) struct InstallArgs {
    #[command(flatten)]
    runtime: NamedRuntime,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Name settings without a required hook, or with a changed one, and change nothing; exit with 1 if any
    ///
    /// Where the administrator's files require no hook of the runtime, hooks that are not confined are named.
    #[arg(long, conflicts_with_all = ["dry_run", "uninstall", "yes"])]
    check: bool,
    /// Put back what was there before
    #[arg(long, conflicts_with = "profile")]
    uninstall: bool,
    /// The profile under which the hooks run
    #[arg(long, default_value = PROFILE)]
    profile: String,
    /// This file, and no other [default: the files of the user and of the project in the current directory]
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Confine every line of a shell by one variable of the user's settings, and rewrite no line
    #[arg(long, conflicts_with = "settings")]
    shell_prefix: bool,
    /// Confine the hooks of sessions in this project for this user alone, by one variable of the project's private settings
    #[arg(long, conflicts_with_all = ["settings", "shell_prefix"])]
    local: bool,
    /// Start hookjail by a program of the project, as in committed settings; guards without hookjail deny, or run bare
    #[arg(
        long,
        value_name = "ABSENT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "deny",
        conflicts_with_all = ["local", "shell_prefix", "uninstall"]
    )]
    shared: Option<Absent>,
    /// Do not run guards with sample events, confined, before they are switched
    #[arg(long)]
    no_rehearsal: bool,
    /// Run guards without any confinement too, to compare; asks first, unless --yes is given
    #[arg(long, conflicts_with_all = ["dry_run", "no_rehearsal", "uninstall"])]
    bare: bool,
    /// Give hooks what their hook.toml declares beyond profile develop, where --yes asks nothing
    #[arg(long, requires = "yes", conflicts_with_all = ["shell_prefix", "uninstall"])]
    declared: bool,
    /// Fetch the packages of hooks first, confined under develop-online [default: after a question at a terminal, without --yes]
    #[arg(long, conflicts_with_all = ["dry_run", "uninstall"])]
    fetch: bool,
    /// Show the lines that are written, too
    #[arg(short, long)]
    verbose: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// The argument that names a runtime without dashes.
const WORD: &str = "runtime_word";

/// The one runtime that is named.
#[derive(Clone, Copy, Debug)]
struct NamedRuntime {
    name: &'static str,
    runtime: Adopted,
}

impl clap::FromArgMatches for NamedRuntime {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut all = Adopted::all().into_iter();
        let word = matches.get_one::<String>(WORD);
        let is_named = |it: &Adopted| match word {
            Some(word) => word == it.name,
            None => matches.try_get_one(it.name).ok().flatten() == Some(&true),
        };
        let named = all.find(is_named);
        let runtime = named
            .ok_or_else(|| clap::Error::new(clap::error::ErrorKind::MissingRequiredArgument))?;
        Ok(Self {
            name: runtime.name,
            runtime,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for NamedRuntime {
    fn augment_args(command: clap::Command) -> clap::Command {
        let runtimes = Adopted::all().into_iter();
        let names: Vec<_> = runtimes.map(|runtime| runtime.name).collect();
        let flags = names.iter().map(|&name| {
            let flag = clap::Arg::new(name).long(name);
            flag.action(ArgAction::SetTrue).hide(true)
        });
        let word = clap::Arg::new(WORD).value_parser(PossibleValuesParser::new(names.clone()));
        let word = word.value_name("RUNTIME").help("The runtime");
        let all = names.iter().copied().chain([WORD]);
        let group = clap::ArgGroup::new("runtime").args(all);
        let command = command.arg(word).args(flags).group(group.required(true));
        command.override_usage("hookjail install [OPTIONS] RUNTIME")
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl InstallArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        if self.runtime.runtime.answers_by_code {
            return self.run_for_scripts(context);
        }
        let config = context.load()?;
        let project = self.project(context)?;
        let lines = RequiredLines::new(&config.required, self.runtime);
        if lines.is_empty() {
            return self.confine(context, &config, &project);
        }
        if self.check {
            return self.check(context, &config, &project, &lines);
        }
        if self.uninstall {
            let names = lines.names().join(", ");
            output::stderr(&format!("required hooks stay: {names}"));
        } else {
            self.require(context, &config, &project, &lines)?;
        }
        self.confine(context, &config, &project)
    }

    /// Confines the hooks of settings, or puts them back.
    fn confine(
        mut self,
        context: &Context,
        config: &Config,
        project: &Path,
    ) -> Result<ExitCode, Failure> {
        self.dry_run |= self.check;
        self.find_prefix(context, config, project)?;
        let home = context.call.paths.home.as_deref();
        let sharing = match self.shared {
            Some(absent) => Sharing::requested(absent, home)?,
            None => Sharing::by_default(home),
        };
        let (runtime, named) = (self.runtime.runtime, self.settings.clone());
        let mut elsewhere = self.elsewhere(context, config, project)?;
        let unread = &mut elsewhere.unread;
        let files = files(
            runtime,
            named.as_deref(),
            context,
            config,
            (project, &mut *unread),
        );
        let files = match self.local {
            true => self.with_local(files, context, config, project)?,
            false => files,
        };
        let mut hooks = files.iter().filter_map(|file| file.hooks().ok());
        let has_hooks = hooks.any(|(hooks, _)| !hooks.is_empty());
        if !self.uninstall && (has_hooks || self.shell_prefix) {
            self.choose_profile(context)?;
            profile::find(&Assembly::registry(config)?, &self.profile)?;
        }
        let declared = settings::declarations(&files, config);
        let config = &declared.propose(config.clone());
        let place = (project, unread);
        let mut planned = self.plan((config, &declared), files, sharing, place)?;
        if self.shell_prefix && !self.uninstall {
            self.plan_prefix(context, config, (&mut planned, &mut elsewhere), project)?;
        }
        if planned.is_empty() && elsewhere.loose.is_empty() {
            return Err(match elsewhere.why() {
                Some(why) => Failure::new(why),
                None => settings::none_found(runtime, context, project),
            });
        }
        // Only the list shows which commands a question is about.
        let can_ask = self.yes || (!context.call.json && io::stdin().is_terminal());
        if self.dry_run || !can_ask || count(&planned, &elsewhere) == 0 {
            if !context.call.json {
                show(&planned, &elsewhere, self.verbose);
            }
            if !self.dry_run && count(&planned, &elsewhere) > 0 {
                let message = "nothing was changed; pass --yes to make these changes, or --dry-run to only show them";
                return Err(Failure::new(message));
            }
            self.report(context, (&planned, &elsewhere), None);
            return Ok(self.code(&planned, &elsewhere));
        }
        let leaves_wide = self.yes && !self.declared;
        planned
            .iter_mut()
            .filter(|_| leaves_wide)
            .for_each(Planned::leave_wide);
        // Only now, with somebody who answers: from here on programs run.
        if !self.uninstall {
            self.rehearse_all(config, &mut planned, project)?;
        }
        if !context.call.json {
            show(&planned, &elsewhere, self.verbose);
        }
        if count(&planned, &elsewhere) == 0 {
            self.report(context, (&planned, &elsewhere), None);
            self.offer_to_learn(context, &planned)?;
            return Ok(code(&planned, &elsewhere));
        }
        if !self.yes && !agreed(self.question(&planned))? {
            return Err(Failure::new("nothing was changed"));
        }
        let profiles = planned.iter().flat_map(Planned::granted).collect();
        declared.put_in_force(context, &profiles)?;
        let backups = self.carry_out(config, &planned, &elsewhere)?;
        let socket = (!self.uninstall).then(|| on_demand::daemon(&context.call, None));
        let is_asked = !self.uninstall && !self.shell_prefix && matches!(socket, Some(Ok(_)));
        let checked = is_asked.then(|| self.preview_all(config, &planned));
        let checked = checked.unwrap_or_default();
        let is_served = checked.refused.is_empty();
        let done = Done {
            backups,
            checked,
            daemon: socket,
            note: planned.iter().find_map(|it| it.file.note(project)),
        };
        self.report(context, (&planned, &elsewhere), Some(done));
        self.offer_to_learn(context, &planned)?;
        Ok(match is_served {
            true => code(&planned, &elsewhere),
            false => ExitCode::FAILURE,
        })
    }

    /// Adds the project's private settings, which are made where there are none; to put back, returns these alone.
    ///
    /// # Errors
    ///
    /// Fails where they are there and cannot be read.
    fn with_local(
        &self,
        mut files: Vec<SettingsFile>,
        context: &Context,
        config: &Config,
        project: &Path,
    ) -> Result<Vec<SettingsFile>, Failure> {
        if self.uninstall {
            files.retain(SettingsFile::is_local);
        } else if !files.iter().any(SettingsFile::is_local) {
            let runtime = self.runtime.runtime;
            files.push(settings::local(runtime, project, context, config)?);
        }
        Ok(files)
    }

    /// Learns the needs of guards that their profile refuses something, after a question for each at a terminal.
    #[cfg(target_os = "linux")]
    fn offer_to_learn(&self, context: &Context, planned: &[Planned]) -> Result<(), Failure> {
        let can_ask = !self.yes && !context.call.json && io::stdin().is_terminal();
        let steps = planned.iter().flat_map(|it| &it.steps);
        for step in steps.filter(|_| can_ask && self.settings.is_none()) {
            let Some(lacking) = &step.lacking else {
                continue;
            };
            let question = format!(
                "The sandbox refuses {} what it uses. Show its needs? [y/N] ",
                step.before
            );
            if agreed(&question)? {
                let learn = LearnArgs::for_hook(&lacking.argv);
                if let Err(failure) = learn.run(context) {
                    output::stderr(&format!("not learnt: {}", failure.message));
                }
            }
        }
        Ok(())
    }

    /// Returns `Ok`: accesses cannot be observed here, so no need can be learnt.
    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unnecessary_wraps, reason = "learning can fail on Linux")]
    fn offer_to_learn(&self, _: &Context, _: &[Planned]) -> Result<(), Failure> {
        Ok(())
    }

    /// Returns the project of the current directory, or that directory where a file is named.
    fn project(&self, context: &Context) -> Result<PathBuf, Failure> {
        let directory = current_directory()?;
        Ok(match &self.settings {
            Some(_) => directory,
            None => settings::project_around(context, &directory, &[self.runtime.runtime]),
        })
    }

    /// Looks for what stays unconfined, where all of a runtime's hooks are to be confined.
    fn elsewhere(
        &self,
        context: &Context,
        config: &Config,
        project: &Path,
    ) -> Result<Elsewhere, Failure> {
        if self.uninstall || self.settings.is_some() {
            return Ok(Elsewhere::default());
        }
        let directory = current_directory()?;
        let within = directory.ancestors().filter(|it| it.starts_with(project));
        let projects: Vec<_> = within.map(Path::to_owned).collect();
        sources::look(self.runtime, context, config, &projects)
    }

    fn question(&self, planned: &[Planned]) -> &'static str {
        let mut changes = planned.iter().flat_map(Planned::changes);
        let is_edited =
            changes.any(|it| !it.edits.is_empty()) || planned.iter().any(|it| it.prefix.is_some());
        match (self.uninstall, is_edited) {
            (true, _) => "Put this back? [y/N] ",
            (false, true) => {
                "Allow these commands as their files are now, and change the settings? [y/N] "
            }
            (false, false) => "Allow these commands as their files are now? [y/N] ",
        }
    }

    /// Plans for the hooks of all files.
    fn plan(
        &self,
        (config, declared): (&Config, &Declarations),
        files: Vec<SettingsFile>,
        sharing: Sharing,
        (project, unread): (&Path, &mut BTreeSet<Unread>),
    ) -> Result<Vec<Planned>, Failure> {
        let registry = Assembly::registry(config).ok();
        let closed = plan::no_workspace(config, registry.as_ref(), project);
        let program = env::current_exe()?;
        if !self.uninstall && closed.is_none() && program.starts_with(project) {
            return Err(Failure::new(format!(
                "hookjail's own program `{}` lies in the project, whose hooks could replace it; install hookjail elsewhere",
                program.display()
            )));
        }
        // The project cannot be a workspace, so every run under a profile for projects would be refused.
        let closed = closed.map(|why| format!("`{}` {why}", project.display()));
        // A runtime joins the variables of all its files.
        let mut read = files.iter().filter(|_| !self.uninstall);
        let steered = read.find_map(SettingsFile::steers_hookjail);
        let steered = steered.or_else(|| {
            let runtime = (!self.uninstall).then_some(self.runtime.runtime)?;
            settings::steering_environment(runtime, project)
        });
        let planner = Planner {
            book: &Book::open(config)?,
            by_prefix: self.shell_prefix && !self.uninstall,
            declared: Some((declared, config)),
            profile: &self.profile,
            purpose: match self.uninstall {
                true => Purpose::PutBack,
                false => Purpose::Confine,
            },
            registry: registry.as_ref(),
            runtime: self.runtime,
            sharing,
        };
        let mut planned = Vec::new();
        for file in files {
            let path = file.path.clone();
            let mut file = match planner.file(file, closed.as_deref()) {
                Ok(file) => file,
                Err(failure) => {
                    let why = failure.message;
                    unread.insert(Unread { file: path, why });
                    continue;
                }
            };
            let kept = file.file.why_kept().or_else(|| steered.clone());
            let past = (self.local && !file.file.is_local()).then(|| {
                "the entry is UNCONFINED, as the runtime starts it without a shell; write it as a shell's line".to_owned()
            });
            if let Some(why) = kept.or(past) {
                file.leave_edits(&why);
            }
            if self.uninstall {
                let prefix = prefix::taken_back(&file.file, config);
                file.prefix = prefix.map_err(Failure::new)?;
                if let Some(why) = file.file.why_kept().filter(|_| file.prefix.is_some()) {
                    return Err(Failure::new(why));
                }
            }
            planned.push(file);
        }
        Ok(planned)
    }

    /// Fetches packages, and rehearses each guard that is to be switched.
    fn rehearse_all(
        &self,
        config: &Config,
        planned: &mut [Planned],
        project: &Path,
    ) -> Result<(), Failure> {
        let registry = Assembly::registry(config).ok();
        let closed = plan::no_workspace(config, registry.as_ref(), project);
        let empty = closed.map(|_| Empty::new()).transpose()?;
        let directory = empty.as_ref().map_or(project, Empty::path);
        let fetched = self.fetch(config, planned, directory)?;
        let is_compared = self.bare && self.agrees_to_bare_runs(planned)?;
        let guards = planned.iter().flat_map(|it| &it.steps);
        let guards = guards.filter(|step| self.is_rehearsed(step)).count();
        let mut progress = Progress::new("rehearsing", guards);
        for Planned { file, steps, .. } in planned {
            directory.clone_into(&mut file.rehearsed_in);
            for step in steps {
                if self.is_rehearsed(step) {
                    progress.next(&step.before);
                }
                self.rehearse(config, file, step, (&fetched, is_compared));
            }
        }
        Ok(())
    }

    fn is_rehearsed(&self, step: &InstallStep) -> bool {
        let changes = matches!(&step.becomes, Becomes::Changed(change) if !change.is_wide());
        changes && !self.no_rehearsal && self.runtime.is_guard(&step.hook)
    }

    /// Asks whether guards may run without confinement, by their commands.
    fn agrees_to_bare_runs(&self, planned: &[Planned]) -> Result<bool, Failure> {
        let steps = planned.iter().flat_map(|it| &it.steps);
        let guards: Vec<_> = steps
            .filter(|step| {
                matches!(step.becomes, Becomes::Changed(_)) && self.runtime.is_guard(&step.hook)
            })
            .map(|step| &step.before)
            .collect();
        if self.yes || guards.is_empty() {
            return Ok(true);
        }
        for guard in &guards {
            output::stderr(&format!("to compare  {guard}"));
        }
        agreed(&format!(
            "Run {} WITHOUT confinement, to compare? [y/N] ",
            match guards.len() {
                1 => "this guard".to_owned(),
                guards => format!("these {guards} guards"),
            }
        ))
    }

    /// Goes on under a profile without namespaces, after a question, where this host confines nothing under the usual one.
    ///
    /// # Errors
    ///
    /// Fails where the answer is no, or no question can be asked.
    fn choose_profile(&mut self, context: &Context) -> Result<(), Failure> {
        if self.profile != PROFILE {
            return Ok(());
        }
        let Some(shut) = ground::unconfirmed(context, PROFILE) else {
            return Ok(());
        };
        let other = ground::WITHOUT_NAMESPACES;
        if ground::unconfirmed(context, other).is_some() {
            return Err(Failure::new(format!(
                "nothing was changed: profile {PROFILE} cannot be confined here: {}",
                shut.why
            )));
        }
        output::stderr(&format!(
            "profile {PROFILE} cannot be confined here: {}",
            shut.why
        ));
        let cost = "whose hooks can change what git, your agents and editors run next";
        if self.dry_run {
            output::stderr(&format!("shown as under profile {other}, {cost}"));
        } else if self.yes || context.call.json || !io::stdin().is_terminal() {
            return Err(Failure::new(format!(
                "nothing was changed: to go on under profile {other}, {cost}, name it: --profile {other}"
            )));
        } else if !agreed(&format!("Go on under profile {other}, {cost}? [y/N] "))? {
            return Err(Failure::new("nothing was changed"));
        }
        other.clone_into(&mut self.profile);
        Ok(())
    }

    /// Fetches the packages of hooks, by the option or after a question. Returns those that are there now.
    fn fetch(
        &self,
        config: &Config,
        planned: &[Planned],
        directory: &Path,
    ) -> Result<BTreeSet<Fetch>, Failure> {
        let changes = planned.iter().flat_map(Planned::changes);
        let fetches: BTreeSet<_> = changes.flat_map(|change| &change.fetches).collect();
        let asks = !self.dry_run && !self.yes && io::stdin().is_terminal();
        if fetches.is_empty() || !(self.fetch || asks) {
            return Ok(BTreeSet::new());
        }
        if !self.fetch {
            for fetch in &fetches {
                output::stderr(&format!("to fetch    {}", fetch.line()));
            }
            let packages = match fetches.iter().map(|fetch| fetch.packages).sum() {
                1 => "1 package".to_owned(),
                packages => format!("{packages} packages"),
            };
            let profile = fetch::PROFILE;
            if !agreed(&format!(
                "Fetch {packages} now, confined under {profile}? [y/N] "
            ))? {
                return Ok(BTreeSet::new());
            }
        }
        let mut fetched = BTreeSet::new();
        for is_projects in [true, false] {
            let files = planned.iter();
            let files = files.filter(|planned| planned.file.is_projects == is_projects);
            let changes = files.flat_map(Planned::changes);
            let fetches: BTreeSet<_> = changes.flat_map(|change| &change.fetches).collect();
            let place = is_projects.then_some(directory);
            fetched.extend(self.fetch_all(config, &fetches, place)?);
        }
        Ok(fetched)
    }

    /// Fetches packages for the hooks of a project, or for the user's hooks everywhere. Fetches in an empty directory, far from any
    /// project's configuration of packages. Returns the packages that are there now.
    fn fetch_all(
        &self,
        config: &Config,
        fetches: &BTreeSet<&Fetch>,
        project: Option<&Path>,
    ) -> Result<BTreeSet<Fetch>, Failure> {
        if fetches.is_empty() {
            return Ok(BTreeSet::new());
        }
        let all = config.references.cache.as_deref();
        let (empty, fetching) = (Empty::new()?, all.map(Fetching::begin).transpose()?);
        let caches = fetching.as_ref().map(Fetching::path);
        let run = |fetch: &&Fetch| {
            let line = fetch.line();
            output::stderr(&format!("fetching    {line}"));
            let ended = fetch.run(config.file.as_ref(), empty.path(), caches);
            if let Err(why) = &ended {
                output::stderr(&format!("NOT fetched {line}: {why}"));
            }
            ended.is_ok()
        };
        let fetched: BTreeSet<Fetch> = fetches.iter().copied().filter(run).cloned().collect();
        // Root's hooks have no cache.
        let Some(fetching) = fetching else {
            return Ok(fetched);
        };
        let Some(project) = project else {
            fetching.publish()?;
            return Ok(fetched);
        };
        let registry = Assembly::registry(config)?;
        let policy = profile::find(&registry, &self.profile)?;
        let bound = policy.needs_workspace().then_some(project);
        if let Some(cache) = Caches::new(all).find(&policy, bound) {
            fetching.fill(&cache)?;
        }
        Ok(fetched)
    }

    /// Adds the remarks on packages, and rehearses the hook where it is a guard. A guard that decides differently is left.
    fn rehearse(
        &self,
        config: &Config,
        file: &SettingsFile,
        step: &mut InstallStep,
        (fetched, is_compared): (&BTreeSet<Fetch>, bool),
    ) {
        let Becomes::Changed(change) = &mut step.becomes else {
            return;
        };
        let remarks = change.fetches.iter().map(|fetch| {
            if fetched.contains(fetch) {
                format!("packages fetched: {}", fetch.line())
            } else {
                fetch.remark()
            }
        });
        let fetches: Vec<String> = remarks.collect();
        let is_wide = change.is_wide() && self.runtime.is_guard(&step.hook);
        let report = match is_wide {
            true => Ok(RehearsalReport::passing(
                "not rehearsed: the hook declares more than the usual profile",
            )),
            false => self.rehearsed(config, file, &step.hook, (change, is_compared)),
        };
        let (left, remarks) = match report {
            Ok(report) => {
                step.lacking = report.is_refused.then(|| Lacking {
                    argv: change.argv.clone(),
                });
                (report.left, report.remarks)
            }
            Err(why) => (Some(why), Vec::new()),
        };
        match left {
            None => change.remarks.extend(fetches.into_iter().chain(remarks)),
            Some(why) => {
                let all: Vec<_> = [why].into_iter().chain(fetches).collect();
                step.becomes = Becomes::Left(all.join("; "));
            }
        }
    }

    /// Rehearses a hook where it is a guard.
    fn rehearsed(
        &self,
        config: &Config,
        file: &SettingsFile,
        hook: &Registered,
        (change, is_compared): (&SettingsChange, bool),
    ) -> Result<RehearsalReport, String> {
        let mut report = RehearsalReport::default();
        if !self.runtime.is_guard(hook) {
            let remark = "not rehearsed: no guard, and may have side effects";
            report.remarks.push(remark.to_owned());
            return Ok(report);
        }
        if self.no_rehearsal {
            return Ok(report);
        }
        report = self
            .rehearsal(
                (config, &file.rehearsed_in),
                file,
                hook,
                (change, is_compared),
            )
            .run()?;
        let is_here = file.rehearsed_in == file.project;
        if !is_here {
            let remark = "rehearsed in an empty directory: this one is no project";
            report.remarks.push(remark.to_owned());
        }
        Ok(report)
    }

    fn rehearsal<'a>(
        &'a self,
        (config, place): (&'a Config, &'a Path),
        file: &'a SettingsFile,
        hook: &'a Registered,
        (change, is_compared): (&'a SettingsChange, bool),
    ) -> Rehearsal<'a> {
        let is_here = place == file.project;
        let declares = change.declares.as_ref();
        let needs = declares.filter(|it| it.profile.is_some() && self.profile == PROFILE);
        Rehearsal {
            argv: &change.argv,
            config,
            needs: needs.map(|it| &*it.file),
            hook,
            is_compared,
            name: self.runtime.name,
            plugin: file.plugin(),
            profile: needs
                .and_then(|it| it.profile.as_deref())
                .unwrap_or(&self.profile),
            project: place,
            runtime: self.runtime.runtime,
            starts_in: hook
                .working_dir
                .as_deref()
                .filter(|_| is_here)
                .unwrap_or(place),
            timeout: self.runtime.timer(hook),
        }
    }

    /// Asks the daemon through each line that the settings have now whether it would run the hook.
    fn preview_all(&self, config: &Config, planned: &[Planned]) -> CheckedLines {
        let mut checked = CheckedLines::default();
        for Planned { file, steps, .. } in planned {
            for step in steps {
                let (Becomes::Changed(change), Action::Command(Command::Line { .. })) =
                    (&step.becomes, &step.hook.action)
                else {
                    continue;
                };
                let hook =
                    self.rehearsal((config, &file.project), file, &step.hook, (change, false));
                checked.count += 1;
                let line = match change.edits.is_empty() {
                    true => &step.before,
                    false => &change.after,
                };
                match hook.preview(&file.as_run(line)) {
                    Ok(None) => {}
                    Ok(Some(why)) | Err(why) => {
                        checked.refused.push(format!("{}: {why}", step.before));
                    }
                }
            }
        }
        checked
    }

    /// Allows the commands, and only then edits the settings. Returns obsolete backups.
    ///
    /// In this order no hook that runs in between is refused. The backups are those left after hooks were put back.
    fn carry_out(
        &self,
        config: &Config,
        planned: &[Planned],
        elsewhere: &Elsewhere,
    ) -> Result<Vec<PathBuf>, Failure> {
        let bound = planned.iter().flat_map(Planned::changes);
        let bound = bound.flat_map(|change| &change.bound);
        let needed = elsewhere.needed.iter().flat_map(|it| &it.bound);
        consent::record(config, bound.chain(needed))?;
        if self.shell_prefix && !self.uninstall {
            self.launcher(config)?.write()?;
        }
        for program in SharedProgram::needed(planned, self.runtime.runtime).values() {
            program.write()?;
        }
        let mut backups = Vec::new();
        for Planned {
            file,
            prefix,
            steps,
            ..
        } in planned
        {
            let edits = steps.iter().filter_map(|step| match &step.becomes {
                Becomes::Changed(change) => Some(&change.edits),
                Becomes::Allowed(_) | Becomes::Kept(_) | Becomes::Left(_) => None,
            });
            let edits = edits.flatten().chain(prefix);
            let edits: Vec<_> = edits.cloned().collect();
            if edits.is_empty() {
                continue;
            }
            backups.extend(file.write(&edits, !self.uninstall)?);
            let shared = SharedProgram::of_settings(file, self.runtime.runtime);
            if let Some(shared) = shared.filter(|_| self.uninstall) {
                shared.remove_unused();
            }
        }
        Ok(backups)
    }
}

pub(super) fn agreed(question: &str) -> Result<bool, Failure> {
    output::text(&plain(question));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
