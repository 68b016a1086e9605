//! `hookjail install --RUNTIME`: changes a runtime's settings so that its hooks run confined.

mod edit;
mod fetch;
mod ground;
mod line;
mod rehearsal;
mod settings;
mod unserved;

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    ffi::OsString,
    io::{self, BufRead, IsTerminal},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::{ArgAction, ArgMatches, Args};
use nix::unistd::{AccessFlags, access};
use serde_json::{Value, json};

use hookjail_base::model::{Command, Lines, ProfileName, plain};
use hookjail_client::{
    Failure, on_demand, output,
    program::resolve_program,
    thin::{THIN, WHOLE},
};
use hookjail_contract::{
    Action, CommandStyle, Registered,
    adopt::{Adopted, Stakes},
};
use hookjail_policy::{Policy, Registry, environment};
use hookjail_sandbox::{Caches, Fetching};

use self::{
    edit::Edit,
    fetch::Fetch,
    line::{LineForm, Reader, Reading},
    settings::{Empty, SettingsFile, files},
};
use super::{
    Context,
    consent::{self, BoundConsent, Terms},
    profile,
    rows::Rows,
    success,
};
use hookjail_daemon::{
    config::Config, consent::allowlist::Allowlist, daemon::Assembly, hooks::variables::words,
};

/// The profile that usual hooks need: formatters, linters, tests, commits.
const PROFILE: &str = "develop";

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
    /// Put back what was there before
    #[arg(long, conflicts_with = "profile")]
    uninstall: bool,
    /// The profile that the hooks run under
    #[arg(long, default_value = PROFILE)]
    profile: String,
    /// This file, and no other [default: those of the user and of the project in the current directory]
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Do not run guards with sample events, confined, before they are switched
    #[arg(long)]
    no_rehearsal: bool,
    /// Run guards without any confinement too, to compare; asks first, unless --yes is given
    #[arg(long, conflicts_with_all = ["dry_run", "no_rehearsal", "uninstall"])]
    bare: bool,
    /// Fetch the packages of hooks first, confined under develop-online [default: after a question at a terminal, without --yes]
    #[arg(long, conflicts_with_all = ["dry_run", "uninstall"])]
    fetch: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// The one runtime that is named.
#[derive(Clone, Copy, Debug)]
struct NamedRuntime {
    name: &'static str,
    runtime: Adopted,
}

impl clap::FromArgMatches for NamedRuntime {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut all = Adopted::all().into_iter();
        let named = all.find(|it| matches.try_get_one(it.name).ok().flatten() == Some(&true));
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
        let runtimes = runtimes.filter(|it| !it.answers_by_code);
        let names: Vec<_> = runtimes.map(|runtime| runtime.name).collect();
        let flags = names.iter().map(|&name| {
            let flag = clap::Arg::new(name).long(name).action(ArgAction::SetTrue);
            flag.help_heading("Runtimes")
        });
        let group = clap::ArgGroup::new("runtime").args(names.iter().copied());
        command.args(flags).group(group.required(true))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

/// The plan for one hook.
struct InstallStep {
    becomes: Becomes,
    /// The command in the settings.
    before: String,
    hook: Registered,
}

enum Becomes {
    /// The hook stays as it is, with the reason.
    Kept(&'static str),
    /// The hook cannot be changed, with the reason.
    Left(String),
    /// The hook is changed.
    Changed(Box<SettingsChange>),
}

impl Becomes {
    fn put_back(after: String, edits: Vec<Edit>) -> Self {
        Self::Changed(Box::new(SettingsChange {
            after,
            argv: Vec::new(),
            bound: Vec::new(),
            edits,
            fetches: BTreeSet::new(),
            remarks: Vec::new(),
        }))
    }
}

struct SettingsChange {
    after: String,
    /// The hook's program and arguments; none where a hook is put back.
    argv: Vec<String>,
    /// The consents to add; none where a hook is put back.
    bound: Vec<BoundConsent>,
    edits: Vec<Edit>,
    /// The fetches of its packages.
    fetches: BTreeSet<Fetch>,
    /// Remarks for the user.
    remarks: Vec<String>,
}

/// A file, with the plans for its hooks.
struct Planned {
    file: SettingsFile,
    steps: Vec<InstallStep>,
}

impl Planned {
    fn changes(&self) -> impl Iterator<Item = &SettingsChange> {
        self.steps.iter().filter_map(|step| match &step.becomes {
            Becomes::Changed(change) => Some(&**change),
            Becomes::Kept(_) | Becomes::Left(_) => None,
        })
    }
}

impl InstallArgs {
    pub(super) fn run(mut self, context: &Context) -> Result<ExitCode, Failure> {
        let config = context.load()?;
        let project = env::current_dir()?;
        let files = files(
            self.runtime.runtime,
            self.settings.as_deref(),
            context,
            &config,
            &project,
        )?;
        let mut hooks = files.iter().filter_map(|file| file.hooks().ok());
        if !self.uninstall && hooks.any(|hooks| !hooks.is_empty()) {
            self.choose_profile(context)?;
        }
        let known = Known {
            config: &config,
            registry: Assembly::registry(&config).ok(),
        };
        let roots = match &known.registry {
            Some(registry) => Assembly::roots(&config, registry),
            None => config.workspace_roots.clone(),
        };
        let no_workspace = roots.admit(&project).err();
        let program = env::current_exe()?;
        if !self.uninstall && no_workspace.is_none() && program.starts_with(&project) {
            return Err(Failure::new(format!(
                "hookjail's own program `{}` lies in the project, whose hooks could replace it; install hookjail elsewhere",
                program.display()
            )));
        }
        let empty = no_workspace.is_some().then(Empty::new).transpose()?;
        let binds = known
            .policy(&self.profile)
            .is_some_and(|it| it.needs_workspace());
        // A runtime joins the variables of all its files.
        let mut of_files = files.iter().filter(|_| !self.uninstall);
        let steered = of_files.find_map(SettingsFile::steers_hookjail);
        let steered = steered.or_else(|| {
            let runtime = (!self.uninstall).then_some(self.runtime.runtime)?;
            settings::steering_environment(runtime, &project)
        });
        let mut planned = Vec::new();
        for mut file in files {
            // A hook without a workspace does not start in the project.
            file.within = (file.is_projects && binds).then(|| project.clone());
            if let Some(empty) = &empty {
                empty.path().clone_into(&mut file.rehearsed_in);
            }
            let hooks = file.hooks()?;
            let steps = hooks.into_iter().map(|hook| match &no_workspace {
                // The project cannot be a workspace, so every run under a profile for projects would be refused.
                Some(why) if file.is_projects && !self.uninstall => InstallStep {
                    becomes: Becomes::Left(format!("`{}` {why}", project.display())),
                    before: before(&hook),
                    hook,
                },
                Some(_) | None => self.step(&known, &file, hook),
            });
            let mut steps: Vec<InstallStep> = steps.collect();
            if let Some(why) = file.why_kept().or_else(|| steered.clone()) {
                for step in &mut steps {
                    if matches!(step.becomes, Becomes::Changed(_)) {
                        step.becomes = Becomes::Left(why.clone());
                    }
                }
            }
            planned.push(Planned { file, steps });
        }
        // Only the list says which commands a question is about.
        let can_ask = self.yes || (!context.call.json && io::stdin().is_terminal());
        if self.dry_run || !can_ask || planned.iter().flat_map(Planned::changes).count() == 0 {
            if !context.call.json {
                show(&planned);
            }
            if !self.dry_run && planned.iter().flat_map(Planned::changes).count() > 0 {
                let message = "nothing was changed: say --yes to change what is shown, or --dry-run to see it alone";
                return Err(Failure::new(message));
            }
            self.tell(context, &planned, None, None);
            return Ok(code(&planned));
        }
        // Only now, with somebody who answers: from here on programs run.
        if !self.uninstall {
            let directory = empty.as_ref().map_or(&*project, Empty::path);
            let fetched = self.fetch(&config, &planned, directory)?;
            let is_compared = self.bare && self.agrees_to_bare_runs(&planned)?;
            for Planned { file, steps } in &mut planned {
                for step in steps {
                    self.rehearse(&config, file, step, (&fetched, is_compared));
                }
            }
        }
        if !context.call.json {
            show(&planned);
        }
        if planned.iter().flat_map(Planned::changes).count() == 0 {
            self.tell(context, &planned, None, None);
            return Ok(code(&planned));
        }
        if !self.yes {
            let question = match self.uninstall {
                true => "Put this back? [y/N] ",
                false => {
                    "Allow these commands as their files are now, and change the settings? [y/N] "
                }
            };
            if !agreed(question)? {
                return Err(Failure::new("nothing was changed"));
            }
        }
        let backups = self.carry_out(&config, &planned)?;
        let socket = (!self.uninstall).then(|| on_demand::daemon(&context.call, None));
        self.tell(context, &planned, Some(&backups), socket);
        Ok(code(&planned))
    }

    /// Asks whether guards may run without confinement, by their commands.
    fn agrees_to_bare_runs(&self, planned: &[Planned]) -> Result<bool, Failure> {
        let steps = planned.iter().flat_map(|it| &it.steps);
        let guards: Vec<_> = steps
            .filter(|step| matches!(step.becomes, Becomes::Changed(_)) && self.is_guard(&step.hook))
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

    /// Returns whether a hook decides about calls.
    fn is_guard(&self, hook: &Registered) -> bool {
        let (runtime, point) = (self.runtime.runtime, Some(hook.point.as_str()));
        runtime.stakes(point) == Stakes::Gate && runtime.is_of_a_call(point)
    }

    /// Goes on under a profile without namespaces, after a question, where this host confines nothing under the usual one.
    ///
    /// # Errors
    ///
    /// Fails where the answer is no, or nobody can be asked.
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

    fn step(&self, known: &Known<'_>, file: &SettingsFile, hook: Registered) -> InstallStep {
        let becomes = match &hook.action {
            Action::Command(Command::Line { shell, text }) => {
                self.line(known, file, &hook, shell.as_deref(), text)
            }
            Action::Command(Command::Argv(words)) => {
                let words: Option<Vec<String>> = words
                    .iter()
                    .map(|word| word.to_str().map(str::to_owned))
                    .collect();
                match words {
                    Some(words) => self.words(known, file, &hook, &words),
                    None => Err("it is not UTF-8".to_owned()),
                }
            }
            Action::Http(_) => Ok(Becomes::Kept(
                "the runtime posts it itself, wherever it says; `hookjail install` changes commands alone",
            )),
            Action::Approve(_)
            | Action::Builtin(_)
            | Action::Log(_)
            | Action::Supplied(_)
            | Action::Unsupported(_) => Ok(Becomes::Kept("runs no command")),
        };
        InstallStep {
            becomes: becomes.unwrap_or_else(Becomes::Left),
            before: before(&hook),
            hook,
        }
    }

    /// Plans the change of a shell's line, or returns why it stays.
    fn line(
        &self,
        known: &Known<'_>,
        file: &SettingsFile,
        hook: &Registered,
        shell: Option<&Path>,
        text: &str,
    ) -> Result<Becomes, String> {
        let variables = line::variables(&hook.configured_env);
        let original = line::original(text, &variables);
        if self.uninstall {
            let Some(original) = original else {
                return Ok(Becomes::Kept("is not confined"));
            };
            let (edit, original) = file.edit_back(hook, text, original)?;
            return Ok(Becomes::put_back(original, vec![edit]));
        }
        let style = self
            .runtime
            .runtime
            .mode
            .defaults(hook.point.as_str())
            .command;
        let shell = match (shell, style) {
            (Some(own), _) => Some(own.to_str().ok_or("its shell is not UTF-8")?),
            (None, CommandStyle::Shell { program, .. }) => Some(program),
            (None, CommandStyle::Argv) => None,
        };
        let value = |name: &str| file.value(name);
        if let Some(stays) = self.stays(known, hook, &value, &variables, |reader| {
            reader.line(text, shell.is_some())
        })? {
            return Ok(stays);
        }
        let (words, is_one_command) = match shell {
            // The runtime uses no shell: variables, pipes and tildes are plain words.
            None => {
                let words = shlex::split(text).ok_or("a quote has no end")?;
                (Some(from_its_directory(hook, words)), true)
            }
            Some(_) => {
                let words = words(text, value);
                let words = words.map(|words| from_its_directory(hook, words));
                // A program that is not found may be a shell built-in.
                let words =
                    words.filter(|words| resolve_program(vec![words[0].clone().into()]).is_ok());
                let is_one_command = words.is_some();
                (words, is_one_command)
            }
        };
        let in_a_shell = || [shell.unwrap_or(line::SHELLS[0]), "-c", text].map(str::to_owned);
        let argv = words.unwrap_or_else(|| in_a_shell().to_vec());
        let program = program()?;
        let form = self.form(&program, hook, shell, &variables);
        let after = form.of_line(text, is_one_command);
        let after = after.ok_or("it has a NUL byte")?;
        let edit = file.edit_line(hook, text, &after)?;
        let argv = [variables, argv].concat();
        self.change(known.config, file, hook, argv, after, vec![edit])
    }

    /// Plans the change of a program with arguments, or returns why it stays.
    fn words(
        &self,
        known: &Known<'_>,
        file: &SettingsFile,
        hook: &Registered,
        words: &[String],
    ) -> Result<Becomes, String> {
        let variables = line::variables(&hook.configured_env);
        let original = line::original_words(words, &variables);
        if self.uninstall {
            let Some(original) = original else {
                return Ok(Becomes::Kept("is not confined"));
            };
            let edits = file.edit_words(hook, original)?;
            return Ok(Becomes::put_back(original.join(" "), edits));
        }
        let value = |name: &str| file.value(name);
        let stays = self.stays(known, hook, &value, &variables, |reader| {
            reader.words(words)
        });
        if let Some(stays) = stays? {
            return Ok(stays);
        }
        let program = program()?;
        let confined = self.form(&program, hook, None, &variables).of_words(words);
        let edits = file.edit_words(hook, &confined)?;
        self.change(
            known.config,
            file,
            hook,
            [variables, from_its_directory(hook, words.to_vec())].concat(),
            confined.join(" "),
            edits,
        )
    }

    /// Returns why a command that names hookjail stays.
    ///
    /// # Errors
    ///
    /// Fails where it need not be confined.
    fn stays(
        &self,
        known: &Known<'_>,
        hook: &Registered,
        value: &dyn Fn(&str) -> Option<String>,
        variables: &[String],
        read: impl FnOnce(&Reader<'_>) -> Reading,
    ) -> Result<Option<Becomes>, String> {
        let words = program()?;
        let written = words.first().map(Path::new).unwrap_or(Path::new(""));
        // By another path a hook, or whoever changes the project, may have put something else there by the time it is called.
        let programs = [written.to_owned(), written.with_file_name(WHOLE)];
        let is_this = |path: &Path| programs.iter().any(|it| it.as_os_str() == path.as_os_str());
        let is_profile = |name: &str| known.policy(name).is_some();
        match read(&Reader {
            form: &self.form(&words, hook, None, variables),
            is_profile: &is_profile,
            is_this: &is_this,
            value,
        }) {
            Reading::Confined => Ok(Some(Becomes::Kept("is confined already"))),
            Reading::Doubtful(why) => Err(format!(
                "it is NOT confined: {why}; put the hook's own command there, and install again"
            )),
            Reading::Plain => Ok(None),
        }
    }

    /// Binds a consent to a command.
    fn change(
        &self,
        config: &Config,
        file: &SettingsFile,
        hook: &Registered,
        argv: Vec<String>,
        after: String,
        edits: Vec<Edit>,
    ) -> Result<Becomes, String> {
        file.starts_inside(hook)?;
        let mut names = hook.configured_env.keys();
        if let Some(name) = names.find(|name| environment::steers_hookjail(name)) {
            return Err(format!(
                "its variable `{name}` decides about hookjail itself, too; remove it there, and install again"
            ));
        }
        let terms = Terms {
            data: Vec::new(),
            profile: self.profile.clone(),
            starts_in: hook.working_dir.clone(),
            until: None,
            within: file.within.clone(),
        };
        let os: Vec<OsString> = argv.iter().map(Into::into).collect();
        let bound = consent::bind(config, &terms, os).map_err(|failure| failure.message)?;
        let mut remarks = Vec::new();
        for what in bound.first().iter().flat_map(|it| &it.unbound) {
            remarks.push(format!("the consent is not bound to {what}"));
        }
        let entry = bound.first().map(|bound| &bound.entry);
        let serves = bound
            .first()
            .map_or_else(consent::Serves::default, |it| it.serves);
        remarks.extend(unserved::remarks(&before(hook), entry, serves));
        let git = bound.first().and_then(|it| consent::named_by_git(&it.git));
        remarks.extend(git.filter(|_| unserved::asks_git(&before(hook), entry)));
        for script in bound.first().iter().flat_map(|it| &it.displaced) {
            remarks.push(consent::displaced_script(script, &self.profile));
        }
        for file in bound.first().iter().flat_map(|it| &it.given) {
            remarks.push(format!(
                "a changed `{file}` needs a new consent, and the hook is given a copy of it; if its program only reads or formats it: \
                 hookjail consent allow --data {file} --profile {} -- CMD",
                self.profile
            ));
        }
        let elsewhere = hook.configured_env.iter();
        let elsewhere =
            elsewhere.filter(|(_, value)| value.to_str().is_none_or(|it| it.contains('$')));
        for (name, _) in elsewhere {
            remarks.push(format!(
                "its variable `{name}` takes a value from elsewhere, and is there if the profile lets it in"
            ));
        }
        let fetches = match serves.network {
            true => BTreeSet::new(),
            false => Fetch::all(&before(hook), entry, &file.project),
        };
        Ok(Becomes::Changed(Box::new(SettingsChange {
            after,
            argv,
            bound,
            edits,
            fetches,
            remarks,
        })))
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

    /// Fetches packages for the hooks of a project, or for the user's hooks everywhere: in an empty directory, far from whatever a
    /// project configures about packages. Returns those that are there now.
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
        match self.rehearsed(config, file, &step.hook, (&change.argv, is_compared)) {
            Ok(remarks) => change.remarks.extend(fetches.into_iter().chain(remarks)),
            Err(why) => {
                let all: Vec<_> = [why].into_iter().chain(fetches).collect();
                step.becomes = Becomes::Left(all.join("; "));
            }
        }
    }

    /// Rehearses a hook where it is a guard. Returns remarks.
    fn rehearsed(
        &self,
        config: &Config,
        file: &SettingsFile,
        hook: &Registered,
        (argv, is_compared): (&[String], bool),
    ) -> Result<Vec<String>, String> {
        if !self.is_guard(hook) {
            return Ok(vec![
                "not rehearsed: it guards no call, and may act".to_owned(),
            ]);
        }
        if self.no_rehearsal {
            return Ok(Vec::new());
        }
        let is_here = file.rehearsed_in == file.project;
        let rehearsal = rehearsal::Rehearsal {
            argv,
            config,
            hook,
            is_compared,
            name: self.runtime.name,
            profile: &self.profile,
            project: &file.rehearsed_in,
            runtime: self.runtime.runtime,
            starts_in: hook
                .working_dir
                .as_deref()
                .filter(|_| is_here)
                .unwrap_or(&file.rehearsed_in),
            timeout: self.timer(hook),
        };
        let mut remarks = rehearsal.run()?;
        if !is_here {
            remarks.push("rehearsed in an empty directory: this one is no project".to_owned());
        }
        Ok(remarks)
    }

    /// Returns the runtime's own timer of a hook, where its settings name one.
    fn timer(&self, hook: &Registered) -> Option<Duration> {
        let read = hook.entry.timeout?;
        Some((self.runtime.runtime.entry_time)(read))
    }

    fn form<'a>(
        &'a self,
        program: &'a [String],
        hook: &'a Registered,
        shell: Option<&'a str>,
        variables: &'a [String],
    ) -> LineForm<'a> {
        LineForm {
            point: (!self.runtime.runtime.names_points).then_some(hook.point.as_str()),
            profile: &self.profile,
            program,
            runtime: self.runtime.name,
            shell,
            timeout: self.timer(hook),
            variables,
        }
    }

    /// Allows the commands, and only then edits the settings. Returns obsolete backups.
    ///
    /// In this order no hook that runs in between is refused. The backups are those left after hooks were put back.
    fn carry_out(&self, config: &Config, planned: &[Planned]) -> Result<Vec<PathBuf>, Failure> {
        let bound = planned.iter().flat_map(Planned::changes);
        let bound = bound.flat_map(|change| &change.bound);
        let entries = bound.map(|bound| bound.entry.clone());
        Allowlist::record_all(&config.allowlist(), entries.collect())?;
        let mut backups = Vec::new();
        for Planned { file, steps } in planned {
            let edits = steps.iter().filter_map(|step| match &step.becomes {
                Becomes::Changed(change) => Some(&change.edits),
                Becomes::Kept(_) | Becomes::Left(_) => None,
            });
            let edits: Vec<_> = edits.flatten().cloned().collect();
            if !edits.is_empty() {
                backups.extend(file.write(&edits, !self.uninstall)?);
            }
        }
        Ok(backups)
    }

    /// Prints the result, with the remaining backups, where anything was changed.
    fn tell(
        &self,
        context: &Context,
        planned: &[Planned],
        backups: Option<&[PathBuf]>,
        daemon: Option<Result<PathBuf, Failure>>,
    ) {
        let is_done = backups.is_some();
        let follow_up = self.runtime.runtime.after_a_change.filter(|_| is_done);
        if context.call.json {
            let daemon = daemon.map(|daemon| match daemon {
                Ok(socket) => json!({ "socket": socket }),
                Err(failure) => json!({ "error": failure.message }),
            });
            let files: Vec<_> = planned.iter().map(as_json).collect();
            output::json_line(&json!({
                "changed": is_done,
                "daemon": daemon,
                "files": files,
                "next": follow_up,
            }));
            return;
        }
        let mut rows = Rows::plain("", 10);
        match (is_done, planned.iter().flat_map(Planned::changes).count()) {
            (_, 0) => rows.line("nothing to change"),
            (false, _) => rows.line("nothing was changed (--dry-run)"),
            (true, _) => {
                let changed = planned.iter().filter(|it| it.changes().count() > 0);
                rows.each("changed", changed.map(|it| it.file.path.display()));
            }
        }
        match daemon {
            Some(Ok(socket)) => rows.row("daemon", format!("listens on {}", socket.display())),
            Some(Err(failure)) => {
                let why = failure.message;
                rows.row(
                    "daemon",
                    format!("NOT running, so every guard says no: {why}"),
                );
            }
            None => {}
        }
        for backup in backups.unwrap_or_default() {
            let backup = backup.display();
            let stays = format!("{backup}, as what it was a copy of has changed since");
            rows.row("stays", stays);
        }
        if is_done && self.uninstall {
            let stays = "what was allowed, until `hookjail consent revoke`, and the journal";
            rows.row("stays", stays);
        }
        rows.each("next", follow_up);
        rows.print();
    }
}

/// Makes the program absolute where its hook starts in another directory.
fn from_its_directory(hook: &Registered, mut words: Vec<String>) -> Vec<String> {
    if let (Some(directory), Some(program)) = (&hook.working_dir, words.first_mut())
        && program.contains('/')
    {
        let path: PathBuf = directory.join(&*program).components().collect();
        *program = path.display().to_string();
    }
    words
}

/// Returns the command in the settings, else the hook's name.
fn before(hook: &Registered) -> String {
    if let Action::Http(post) = &hook.action {
        return post.url.to_string();
    }
    match hook.action.line() {
        line if line.is_empty() => hook.name.clone(),
        line => line,
    }
}

/// Returns the path of hookjail for settings, as a runtime's `PATH` may differ from its user's.
///
/// It is that of `hookjail-run` where that lies beside this program.
fn program() -> Result<Vec<String>, String> {
    let path =
        env::current_exe().map_err(|error| format!("hookjail's own path is not known: {error}"))?;
    let name = path.file_name().unwrap_or_default().to_owned();
    let text = |path: PathBuf| {
        let path = path.into_os_string().into_string();
        path.map_err(|_| "hookjail's own path is not UTF-8".to_owned())
    };
    let thin = path.with_file_name(THIN);
    if name == WHOLE && access(&thin, AccessFlags::X_OK).is_ok() {
        return Ok(vec![text(thin)?]);
    }
    let path = text(path)?;
    if name == WHOLE {
        Ok(vec![path, "run".to_owned()])
    } else {
        Err(format!(
            "hookjail's own program is `{path}`; settings know it by the name `{WHOLE}` alone"
        ))
    }
}

/// Returns the exit code: a failure where a hook cannot be changed.
fn code(planned: &[Planned]) -> ExitCode {
    let mut steps = planned.iter().flat_map(|it| &it.steps);
    success(!steps.any(|step| matches!(step.becomes, Becomes::Left(_))))
}

/// The configuration, and the profiles where they can be read.
struct Known<'a> {
    config: &'a Config,
    registry: Option<Registry>,
}

impl Known<'_> {
    fn policy(&self, profile: &str) -> Option<&Policy> {
        let name = ProfileName::parse(profile)?;
        Some(self.registry.as_ref()?.find(&name)?)
    }
}

fn agreed(question: &str) -> Result<bool, Failure> {
    output::text(&plain(question));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn show(planned: &[Planned]) {
    let mut text = Lines::default();
    for planned in planned {
        let Planned { file, steps } = planned;
        text.add(file.path.display().to_string());
        if planned.changes().next().is_some()
            && let Some(remark) = planned.file.remark()
        {
            text.add(format!("  {remark}"));
        }
        for step in steps {
            let words = [step.hook.point.as_str(), step.hook.matching.as_str()];
            text.add(format!("  {}", words.join(" ").trim_end()));
            let before = &step.before;
            if let Some(directory) = &step.hook.working_dir {
                text.add(format!("      starts in {}", directory.display()));
            }
            match &step.becomes {
                Becomes::Kept(why) => {
                    text.add(format!("      {before}"));
                    text.add(format!("      kept: {why}"));
                }
                Becomes::Left(why) => {
                    text.add(format!("      {before}"));
                    text.add(format!("      NOT changed: {why}"));
                }
                Becomes::Changed(change) => {
                    text.add(format!("    - {before}"));
                    text.add(format!("    + {}", change.after));
                    for remark in &change.remarks {
                        text.add(format!("      {remark}"));
                    }
                }
            }
        }
    }
    output::text(text.as_str());
}

fn as_json(planned: &Planned) -> Value {
    let hooks = planned.steps.iter().map(|step| {
        let mut told = BTreeMap::from([
            ("before", json!(step.before)),
            ("matcher", json!(step.hook.matching)),
            ("point", json!(step.hook.point)),
        ]);
        if let Some(directory) = &step.hook.working_dir {
            told.insert("starts_in", json!(directory));
        }
        match &step.becomes {
            Becomes::Kept(why) => {
                told.insert("kept", json!(why));
            }
            Becomes::Left(why) => {
                told.insert("left", json!(why));
            }
            Becomes::Changed(change) => {
                told.insert("after", json!(change.after));
                told.insert("remarks", json!(change.remarks));
                let commands = change.bound.iter().map(|bound| &bound.entry.command);
                told.insert("allows", json!(commands.collect::<Vec<_>>()));
            }
        }
        told
    });
    json!({ "file": planned.file.path, "hooks": hooks.collect::<Vec<_>>(), "remark": planned.file.remark() })
}
