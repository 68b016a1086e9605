//! `hookjail install` for hooks that are programs in a repository's directory. Git takes its hooks from a directory of scripts, each of
//! which has hookjail run the hook at its own place.

mod repository;

use std::{
    collections::BTreeMap,
    env,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use nix::unistd::{AccessFlags, access};
use serde_json::{Value, json};

use hookjail_base::model::{self, Hook, Lines};
use hookjail_client::{Failure, on_demand, output, program::current_directory, run_as::PREVIEW};
use hookjail_contract::git::scripts::{self, Script};
use hookjail_daemon::{
    config::Config,
    consent::allowlist::{Allowlist, Entry},
    daemon::Assembly,
};
use hookjail_policy::{Policy, Registry, environment::Variables};

use self::repository::Repository;
use super::{
    super::{
        Context,
        consent::{self, Book, BoundConsent, Refused, Standing, Terms},
        profile,
        rows::Rows,
        show::counted,
        success,
    },
    InstallArgs, agreed, plan,
    rehearsal::Previewed,
    report::{labelled, line_of_diff},
    settings, unserved,
};

/// The plan for a repository.
pub(super) struct PlannedRepository {
    /// Scripts of other programs in hookjail's directory.
    foreign: Vec<PathBuf>,
    pub(super) hooks: Vec<PlannedHook>,
    /// Whether the files there are what would be written, and git uses them.
    is_current: bool,
    repository: Repository,
    /// The names and texts of the scripts.
    texts: Vec<(&'static str, String)>,
}

/// The plan for one hook.
pub(super) struct PlannedHook {
    pub(super) bound: Vec<BoundConsent>,
    path: PathBuf,
    pub(super) point: &'static str,
    /// The reason why its command would be refused; `None` where it is allowed.
    pub(super) refused: Option<Refused>,
    remarks: Vec<String>,
    /// The reason why it cannot be confined, if so.
    left: Option<String>,
}

impl PlannedHook {
    fn is_to_allow(&self) -> bool {
        self.refused.is_some()
    }

    fn as_json(&self, is_current: bool) -> Value {
        json!({
            "diff": self.refused.as_ref().map(|it| &it.diff),
            "hook": self.path,
            "kept": is_current && !self.is_to_allow() && self.left.is_none(),
            "left": self.left,
            "point": self.point,
            "refused": self.refused.as_ref().map(|it| &it.why),
            "remarks": self.remarks,
        })
    }
}

/// Plans for the hooks of repositories.
pub(super) struct RepositoryPlanner<'a> {
    pub(super) book: &'a Book<'a>,
    /// The profile of hooks that are not confined yet.
    pub(super) profile: &'a str,
    pub(super) registry: &'a Registry,
}

impl RepositoryPlanner<'_> {
    /// Plans for the hooks of the repository of a directory; `None` where git finds none.
    ///
    /// # Errors
    ///
    /// Fails where git or a profile cannot be used.
    pub(super) fn plan(&self, directory: &Path) -> Result<Option<PlannedRepository>, Failure> {
        let Some(repository) = Repository::find(directory)? else {
            return Ok(None);
        };
        let points = repository.points();
        let program = plan::program().map_err(Failure::new)?;
        let mut texts = vec![(scripts::START, scripts::start())];
        for point in scripts::scripted(&points) {
            let script = repository.script(point);
            let script = script.and_then(|text| String::from_utf8(text).ok());
            let named = script.as_deref().and_then(scripts::profile);
            let known = named.filter(|name| profile::find(self.registry, name).is_ok());
            let name = known.unwrap_or(self.profile);
            let script = Script {
                former: repository.former.as_deref(),
                profile: name,
                program: &program,
                timeout: profile::find(self.registry, name)?.time.maximum,
            };
            let text = script.text();
            texts.push((
                point,
                text.ok_or_else(|| Failure::new("a path has a NUL byte"))?,
            ));
        }
        let foreign: Vec<_> = texts
            .iter()
            .filter(|(name, _)| {
                let script = repository.script(name);
                script.is_some_and(|text| !scripts::is_written(&text))
            })
            .map(|(name, _)| repository.scripts().join(name))
            .collect();
        let is_written = |(name, text): &(&str, String)| {
            repository
                .script(name)
                .is_some_and(|it| it == text.as_bytes())
        };
        let is_current = repository.is_active && texts.iter().all(is_written);
        let start = repository.scripts().join(scripts::START);
        let hooks = points.into_iter().map(|point| {
            let mut texts = texts.iter().filter(|(name, _)| *name == point);
            let text = texts.next().map_or("", |(_, text)| text);
            let name = scripts::profile(text).unwrap_or(self.profile);
            self.hook(&repository, &start, point, name)
        });
        let hooks: Vec<_> = hooks.collect();
        Ok(Some(PlannedRepository {
            foreign,
            hooks,
            is_current,
            repository,
            texts,
        }))
    }

    fn hook(
        &self,
        repository: &Repository,
        start: &Path,
        point: &'static str,
        profile: &str,
    ) -> PlannedHook {
        let path = repository.hooks().join(point);
        let within = Some(repository.project.clone());
        let terms = Terms {
            data: Vec::new(),
            profile: profile.to_owned(),
            starts_in: within.clone(),
            until: None,
            within,
        };
        let mut hook = PlannedHook {
            bound: Vec::new(),
            left: None,
            point,
            refused: None,
            remarks: self.remarks(repository, &path, profile),
            path,
        };
        // A consent is bound to it.
        if !start.exists() {
            return hook;
        }
        let argv = scripts::command((start, &hook.path), &repository.project, Path::is_file);
        let workspace = Some(repository.project.as_path());
        match self.book.standing(terms, argv, workspace) {
            Ok(Standing { bound, refused }) => (hook.bound, hook.refused) = (bound, refused),
            Err(failure) => hook.left = Some(failure.message),
        }
        hook
    }

    /// Returns a remark for each kind of thing that a script does in vain.
    fn remarks(&self, repository: &Repository, hook: &Path, profile: &str) -> Vec<String> {
        let text = unserved::read(hook);
        let policy = profile::find(self.registry, profile).ok();
        let Some((text, policy)) = text.zip(policy) else {
            return Vec::new();
        };
        let mut remarks = unserved::remarks(&text, None, consent::Serves::new(&policy));
        let manager = scripts::manager(&text);
        let is_found = |program: &str| {
            let packages = repository.project.join("node_modules/.bin");
            let mut directories = path_of_hooks(&policy).into_iter().chain([packages]);
            directories.any(|it| access(&it.join(program), AccessFlags::X_OK).is_ok())
        };
        remarks.extend(manager.filter(|it| !is_found(it)).map(|program| {
            format!(
                "profile {profile} executes no program beside `{program}`, so the script may skip the hook; install it in ~/.local/bin"
            )
        }));
        remarks
    }
}

impl PlannedRepository {
    /// Returns the commands of a repository that hookjail serves and that would run unconfined, in words; `None` where there is none.
    pub(super) fn unconfined(&self) -> Option<String> {
        let is_unconfined = self.repository.is_installed() && !self.is_current;
        let hooks = self.hooks.len();
        (is_unconfined && hooks > 0).then(|| counted(hooks, "hook"))
    }

    /// Returns the file that names the directory of the hooks.
    pub(super) fn file(&self) -> PathBuf {
        self.repository.configuration()
    }

    fn changes(&self) -> usize {
        let hooks = self.hooks.iter();
        let to_allow = hooks.filter(|it| it.is_to_allow()).count();
        match self.is_current {
            true => to_allow,
            false => self.hooks.len().max(1),
        }
    }

    fn is_whole(&self) -> bool {
        self.foreign.is_empty() && self.hooks.iter().all(|it| it.left.is_none())
    }

    fn show(&self, is_verbose: bool) {
        let mut text = Lines::default();
        text.add(self.file().display().to_string());
        if !self.is_current {
            let scripts = self.repository.scripts();
            text.add(labelled(
                "add",
                &format!("core.hooksPath = {}", scripts.display()),
            ));
        }
        for path in &self.foreign {
            let why = "NOT changed: another program wrote it; remove it, and install again";
            text.add(labelled("BARE", &path.display().to_string()));
            text.add(labelled("", why));
        }
        for hook in &self.hooks {
            let label = match (&hook.left, &hook.refused) {
                (Some(_), _) => "BARE",
                (None, _) if !self.is_current => "wrap",
                (None, Some(_)) => "allow",
                (None, None) => "kept",
            };
            let entry = format!("{}  {}", hook.point, hook.path.display());
            text.add(labelled(label, &entry));
            if let Some(why) = &hook.left {
                text.add(labelled("", &format!("NOT changed: {why}")));
            }
            for refused in hook.refused.iter().filter(|_| self.is_current) {
                text.add(labelled("", &format!("refused: {}", refused.why)));
                for line in refused.diff.lines() {
                    text.add(labelled("", &format!("  {}", line_of_diff(line))));
                }
            }
            for remark in &hook.remarks {
                text.add(labelled("", remark));
            }
        }
        if is_verbose && !self.is_current {
            for (name, _) in &self.texts {
                text.add(labelled(
                    "write",
                    &self.repository.scripts().join(name).display().to_string(),
                ));
            }
        }
        output::text(text.as_str());
    }

    /// Asks the daemon through each script whether it would run the hook. Returns the refusals.
    fn preview(&self) -> Vec<String> {
        let refusal = |hook: &PlannedHook| {
            let why = self.previewed(hook.point).unwrap_or_else(Some)?;
            Some(format!("{}: {why}", hook.path.display()))
        };
        self.hooks.iter().filter_map(refusal).collect()
    }

    #[expect(clippy::disallowed_methods, reason = "hookjail's own script")]
    fn previewed(&self, point: &str) -> Result<Option<String>, String> {
        let mut script = Command::new(self.repository.scripts().join(point));
        script
            .current_dir(&self.repository.project)
            .env(PREVIEW, "1");
        script.stdin(Stdio::null()).stderr(Stdio::null());
        let output = script.output().map_err(|error| error.to_string())?;
        let report: Result<Previewed, _> = serde_json::from_slice(&output.stdout);
        let report =
            report.map_err(|_| format!("the script does not start hookjail ({})", output.status));
        Ok(report?.refusal)
    }
}

impl InstallArgs {
    /// Confines the hooks of the repository around the current directory, or puts them back.
    pub(super) fn run_for_scripts(mut self, context: &Context) -> Result<ExitCode, Failure> {
        let is_other = self.settings.is_some()
            || self.shell_prefix
            || self.local
            || self.shared.is_some()
            || self.bare
            || self.fetch;
        if is_other {
            return Err(Failure::new(
                "an option for files of settings was given, and a repository has none; leave it out",
            ));
        }
        let config = context.load()?;
        let directory = current_directory()?;
        if self.uninstall {
            return self.put_back_scripts(context, &config, &directory);
        }
        let registry = Assembly::registry(&config)?;
        self.choose_profile(context)?;
        profile::find(&registry, &self.profile)?;
        let planner = RepositoryPlanner {
            book: &Book::open(&config)?,
            profile: &self.profile,
            registry: &registry,
        };
        let planned = planner
            .plan(&directory)?
            .ok_or_else(|| none_found(&directory))?;
        let project = &planned.repository.project;
        if let Some(why) = plan::no_workspace(&config, Some(&registry), project) {
            return Err(Failure::new(format!("`{}` {why}", project.display())));
        }
        if let Some(why) = planned.repository.why_kept() {
            return Err(Failure::new(why));
        }
        if !context.call.json {
            planned.show(self.verbose);
        }
        let is_asked = !self.dry_run && planned.changes() > 0;
        if is_asked && !self.yes {
            if context.call.json || !io::stdin().is_terminal() {
                let message = "nothing was changed; pass --yes to make these changes, or --dry-run to only show them";
                return Err(Failure::new(message));
            }
            let question = "Allow these hooks as their files are now, and have git start them confined? [y/N] ";
            if !agreed(question)? {
                return Err(Failure::new("nothing was changed"));
            }
        }
        if !is_asked {
            report(context, &planned, None);
            return Ok(success(planned.is_whole()));
        }
        // The consents are bound to the scripts, which are written first.
        planned.write(&config)?;
        let planned = planner
            .plan(&directory)?
            .ok_or_else(|| none_found(&directory))?;
        consent::record(&config, planned.hooks.iter().flat_map(|it| &it.bound))?;
        let daemon = on_demand::daemon(&context.call, None);
        let refused = daemon
            .as_ref()
            .map_or_else(|_| Vec::new(), |_| planned.preview());
        let is_served = daemon.is_ok() && refused.is_empty();
        report(context, &planned, Some((daemon, refused)));
        Ok(success(planned.is_whole() && is_served))
    }

    fn put_back_scripts(
        &self,
        context: &Context,
        config: &Config,
        directory: &Path,
    ) -> Result<ExitCode, Failure> {
        let repository = Repository::find(directory)?.ok_or_else(|| none_found(directory))?;
        let is_there = repository.is_installed() || repository.is_active;
        let file = repository.configuration();
        if !context.call.json {
            let label = if is_there { "put back" } else { "kept" };
            output::line(&file.display().to_string());
            output::line(&labelled(
                label,
                &format!("hooks of {}", repository.hooks().display()),
            ));
        }
        let is_asked = is_there && !self.dry_run;
        if is_asked && !self.yes {
            if context.call.json || !io::stdin().is_terminal() {
                let message = "nothing was changed; pass --yes to make these changes, or --dry-run to only show them";
                return Err(Failure::new(message));
            }
            if !agreed("Put this back? [y/N] ")? {
                return Err(Failure::new("nothing was changed"));
            }
        }
        let stays = match is_asked {
            true => put_back(config, &repository)?,
            false => Vec::new(),
        };
        if context.call.json {
            output::json_line(&json!({ "changed": is_asked, "file": file, "stays": stays }));
        } else {
            let mut rows = Rows::plain("", 10);
            rows.each("changed", is_asked.then(|| file.display()));
            rows.each("stays", stays.iter().map(|it| it.display()));
            rows.print();
        }
        Ok(success(stays.is_empty()))
    }
}

impl PlannedRepository {
    /// Writes the scripts but those of other programs, and notes the repository for `uninstall --all`.
    fn write(&self, config: &Config) -> Result<(), Failure> {
        let repository = &self.repository;
        settings::note_changed(
            config,
            &repository.configuration(),
            (&repository.project, RUNTIME),
        )?;
        let is_own =
            |(name, _): &&(&str, String)| !self.foreign.contains(&repository.scripts().join(name));
        let texts: Vec<_> = self.texts.iter().filter(is_own).cloned().collect();
        repository.write(&texts)
    }
}

/// The runtime's name in notes of changed files.
const RUNTIME: &str = "git";

/// Puts back the hooks of a repository by its configuration's path, as `uninstall --all` does. Returns the files of others that stay.
///
/// # Errors
///
/// Fails where a file cannot be changed.
pub(super) fn put_back_all(config: &Config, project: &Path) -> Result<Vec<PathBuf>, Failure> {
    match Repository::find(project)? {
        Some(repository) => put_back(config, &repository),
        None => Ok(Vec::new()),
    }
}

fn put_back(config: &Config, repository: &Repository) -> Result<Vec<PathBuf>, Failure> {
    let stays = repository.put_back()?;
    let scripts = repository.scripts();
    let is_served = |entry: &Entry| {
        let mut files = entry.digests.iter();
        files.any(|file| Path::new(&file.path).starts_with(&scripts))
    };
    Allowlist::revoke_those(&config.allowlist(), is_served)?;
    settings::forget_changed(config, &repository.configuration())?;
    Ok(stays)
}

fn none_found(directory: &Path) -> Failure {
    Failure::new(format!(
        "no git repository is found at `{}`; run this in its working tree",
        directory.display()
    ))
}

/// Returns the directories in which hooks of a profile look for programs, with the `PATH` of this process.
fn path_of_hooks(policy: &Policy) -> Vec<PathBuf> {
    let path = env::var_os("PATH").filter(|_| policy.environment.caller_path);
    let hook = Hook {
        at_workspace: false,
        base: None,
        command: model::Command::Argv(Vec::new()),
        configured_env: BTreeMap::new(),
        env: path
            .map(|path| ("PATH".to_owned(), path))
            .into_iter()
            .collect(),
        name: String::new(),
        source: None,
        umask: None,
        working_dir: None,
        workspace: None,
    };
    let variables = Variables::resolve(policy, &hook, 0);
    variables.map_or_else(|_| Vec::new(), |it| it.path())
}

/// Prints the result, where anything was changed with the daemon and the refusals.
fn report(
    context: &Context,
    planned: &PlannedRepository,
    done: Option<(Result<PathBuf, Failure>, Vec<String>)>,
) {
    let is_done = done.is_some();
    let hooks = planned.hooks.len();
    let (daemon, refused) = done.unzip();
    let refused = refused.unwrap_or_default();
    if context.call.json {
        let daemon = daemon.map(|daemon| match daemon {
            Ok(socket) => json!({ "socket": socket }),
            Err(failure) => json!({ "error": failure.message }),
        });
        let hooks: Vec<_> = planned
            .hooks
            .iter()
            .map(|it| it.as_json(planned.is_current))
            .collect();
        output::json_line(&json!({
            "changed": is_done,
            "daemon": daemon,
            "file": planned.file(),
            "foreign": planned.foreign,
            "hooks": hooks,
            "refused": refused,
            "unconfined": !planned.is_current,
        }));
        return;
    }
    let mut rows = Rows::plain("", 10);
    match (is_done, planned.changes()) {
        (true, _) => rows.row("changed", planned.file().display()),
        (false, 0) => rows.line("nothing to change"),
        (false, _) => rows.line("nothing was changed (--dry-run)"),
    }
    match daemon {
        Some(Ok(socket)) => rows.row("daemon", format!("listens on {}", socket.display())),
        Some(Err(failure)) => rows.row(
            "daemon",
            format!("NOT running, so every guard denies: {}", failure.message),
        ),
        None => {}
    }
    rows.each("REFUSED", &refused);
    rows.line(match planned.is_current {
        true => format!("{hooks} confined"),
        false => format!("{hooks} still bare"),
    });
    rows.print();
}
