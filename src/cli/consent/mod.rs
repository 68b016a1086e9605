//! `hookjail consent`: the allowlist, and open questions.

mod ask;
mod revoke;
mod standing;

use std::{
    collections::BTreeSet,
    env,
    ffi::OsString,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
};

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::json;

use hookjail_base::{
    model::{command_line, visible_json},
    util::trusted_file,
};
use hookjail_client::{
    Failure,
    arguments::directory,
    output,
    program::{resolve_name, resolve_script},
    server,
};
use hookjail_contract::Mode;
use hookjail_policy::{GrantPlace, HookView, Policy, Registry, git_paths};
use hookjail_sandbox::{
    program::{OpenedFor, Program, Script, digest::DigestCache},
    rootfs::{Root, View},
};

use self::{ask::DaemonAddress, revoke::RevokeArgs};
pub(super) use self::{
    ask::asking,
    standing::{Book, Refused, Standing},
};
use hookjail_proto as pb;

use super::{Context, profile, rows::Rows};

use hookjail_daemon::{
    config::Config,
    consent::{
        allowlist::{Allowlist, Entry, typed},
        approved::Approved,
    },
    daemon::Assembly,
};

/// Lists and revokes what is allowed, answers questions about what is not.
#[derive(Debug, Args)]
pub(super) struct ConsentArgs {
    #[command(subcommand)]
    command: ConsentCommand,
}

#[derive(Debug, Subcommand)]
enum ConsentCommand {
    /// The same as `hookjail allow -- CMD`
    #[command(hide = true)]
    Allow {
        #[command(flatten)]
        bounds: Bounds,
        /// The command
        #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// Answer a pending question with "always": run the hook, and remember
    Approve {
        #[command(flatten)]
        at: DaemonAddress,
        /// Answer "yes, this once" instead
        #[arg(long)]
        once: bool,
        /// The question's id
        id: String,
    },
    /// Answer a pending question with "no"
    Deny {
        #[command(flatten)]
        at: DaemonAddress,
        /// The question's id
        id: String,
    },
    /// Print the allowlist as JSON, for `import`
    Export,
    /// Add the entries of a file that `export` or reyn wrote, all or none
    Import {
        /// The file, or - for stdin
        file: PathBuf,
    },
    /// List what is allowed
    List,
    /// List the questions that wait for an answer
    Pending {
        #[command(flatten)]
        at: DaemonAddress,
    },
    /// Take a consent back, those within a directory, or all
    Revoke(RevokeArgs),
    /// Show each question of a daemon as it comes, and answer it
    Watch {
        #[command(flatten)]
        at: DaemonAddress,
    },
}

impl ConsentArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let config = || context.load();
        match self.command {
            ConsentCommand::Allow { bounds, command } => bounds.allow(context, command),
            ConsentCommand::Approve {
                at: address,
                once,
                id,
            } => {
                let decision = if once {
                    pb::ConsentDecision::Once
                } else {
                    pb::ConsentDecision::Always
                };
                ask::by_id(context, &address, &id, decision)
            }
            ConsentCommand::Deny { at: address, id } => {
                ask::by_id(context, &address, &id, pb::ConsentDecision::No)
            }
            ConsentCommand::Export => export(&config()?),
            ConsentCommand::Import { file } => import(&config()?, context, &file),
            ConsentCommand::List => list(&config()?, context),
            ConsentCommand::Pending { at: address } => ask::pending(context, &address),
            ConsentCommand::Revoke(revoke) => revoke.run(&config()?, context),
            ConsentCommand::Watch { at: address } => ask::watch(context, &address),
        }
    }
}

/// The options of a consent to one command.
#[derive(Debug, Args)]
#[command(next_help_heading = "For one command")]
pub(super) struct Bounds {
    /// An argument that names data, such as a file to format, allowed with any content
    #[arg(long, requires = "command", value_name = "FILE")]
    data: Vec<OsString>,
    /// The profile under which the command may run
    #[arg(long, default_value = "strict", requires = "command")]
    profile: String,
    /// The end of the consent, for example 2d or 2030-01-31
    #[arg(long, requires = "command", value_name = "TIME", value_parser = hookjail_client::times::future)]
    until: Option<Timestamp>,
    /// The directory below which the consent is valid [default: everywhere]
    #[arg(long, requires = "command", value_name = "DIR")]
    within: Option<PathBuf>,
    /// The directory in which the command starts and relative paths are resolved [default: that of --within, else the current one]
    #[arg(long, requires = "command", value_name = "DIR")]
    working_dir: Option<PathBuf>,
}

impl Bounds {
    /// Allows a command within these.
    pub(super) fn allow(
        self,
        context: &Context,
        command: Vec<OsString>,
    ) -> Result<ExitCode, Failure> {
        let starts_in = self.working_dir.as_deref().map(directory).transpose()?;
        let terms = Terms {
            data: self.data,
            profile: self.profile,
            starts_in: starts_in.map(PathBuf::from),
            until: self.until,
            within: self.within,
        };
        allow(&context.load()?, context, &terms, command)
    }
}

/// The terms of a consent, beside the command.
pub(super) struct Terms {
    /// The command's arguments that name data.
    pub(super) data: Vec<OsString>,
    pub(super) profile: String,
    /// The directory in which the command starts; `None` = `within`, else the current one.
    pub(super) starts_in: Option<PathBuf>,
    pub(super) until: Option<Timestamp>,
    pub(super) within: Option<PathBuf>,
}

/// A consent with the digests that it is bound to.
pub(super) struct BoundConsent {
    pub(super) entry: Entry,
    /// Paths that git's configuration names, and that a hook is granted for that.
    pub(super) git: Vec<PathBuf>,
    /// Arguments that name files which may be code or data.
    pub(super) given: Vec<String>,
    policy: Arc<Policy>,
    /// The command's scripts, as they are now.
    scripts: Vec<Script>,
    /// Parts of the command that the consent cannot be bound to, as text.
    pub(super) unbound: Vec<String>,
}

impl BoundConsent {
    /// Returns whether the profile has a network, and whether it shows notices.
    pub(super) fn serves(&self) -> Serves {
        Serves::new(&self.policy)
    }

    /// Returns the scripts that ask for their own place, and run as copies elsewhere.
    pub(super) fn displaced(&self) -> impl Iterator<Item = &Path> {
        let scripts = self
            .scripts
            .iter()
            .filter(|script| self.policy.view == HookView::Machine && script.asks_for_its_place());
        scripts.map(|script| script.path.as_path())
    }
}

/// Common wishes of hooks that a profile serves.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Serves {
    /// Other hosts.
    pub(super) network: bool,
    /// Notices for the user.
    pub(super) notices: bool,
}

impl Serves {
    /// Returns those of a profile.
    pub(super) fn new(policy: &Policy) -> Self {
        Self {
            network: policy.network.sends(),
            notices: policy.notify,
        }
    }
}

/// The basis of consents: the profiles of a configuration, and the root of its containers.
pub(super) struct Ground {
    registry: Registry,
    root: Option<Root>,
}

impl Ground {
    /// Reads both.
    ///
    /// # Errors
    ///
    /// Fails where a profile or the root cannot be read.
    pub(super) fn read(config: &Config) -> Result<Self, Failure> {
        Ok(Self {
            registry: Assembly::registry(config)?,
            root: Assembly::root(config)?,
        })
    }
}

/// Binds a command to the current content of its files, in each of its spellings, that of `hookjail run` first.
///
/// # Errors
///
/// Fails where there is no such profile, the program cannot be found or read, or the command is not UTF-8.
pub(super) fn bind(
    Ground { registry, root }: &Ground,
    terms: &Terms,
    argv: Vec<OsString>,
) -> Result<Vec<BoundConsent>, Failure> {
    let policy = profile::find(registry, &terms.profile)?;
    let mut argv = match root {
        None => resolve_name(argv)?,
        // A name without a slash is resolved in the container's root, by the profile's `PATH`.
        Some(_) => argv,
    };
    let view = View::new(root.as_ref(), &policy.files);
    let path = Program::find(&argv, &policy.environment.path, view)?;
    argv[0] = path.clone().into_os_string();
    let within = terms.within.as_deref().map(directory).transpose()?;
    let within = within.map(PathBuf::from);
    // Relative paths are resolved where the hook will start, as far as known.
    let working_dir = terms.starts_in.clone().or_else(|| within.clone());
    let working_dir = working_dir.map_or_else(env::current_dir, Ok);
    let working_dir =
        working_dir.map_err(|e| Failure::new(format!("no current directory: {e}")))?;
    // As `hookjail run` spells the command, and as a runtime does.
    let mut spellings = vec![resolve_script(argv.clone(), &working_dir), argv];
    spellings.dedup();
    let git = of_git(&policy);
    let open = |argv: &Vec<OsString>| {
        let (data, start) = (&terms.data, Some(working_dir.as_path()));
        let opened = Program::open(path.clone(), argv, data, start, OpenedFor::Oneself, view)?;
        let program = opened.hash(&DigestCache::default(), &AtomicBool::new(false))?;
        bound(terms, within.clone(), (&policy, &git), (argv, program))
    };
    spellings.iter().map(open).collect()
}

/// Returns the paths that the configurations of git name to which a profile gives access.
fn of_git(policy: &Policy) -> Vec<PathBuf> {
    let granted = policy.files.system.iter().chain(&policy.files.named);
    let granted = granted.filter_map(|grant| match &grant.place {
        GrantPlace::Path(path) => Some(path.as_path()),
        GrantPlace::Entries(_) | GrantPlace::Source { .. } | GrantPlace::Workspace { .. } => None,
    });
    let paths = git_paths::named_by(granted).map(|(_, path, _)| path);
    paths.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Makes the consent to one spelling of a command.
fn bound(
    terms: &Terms,
    within: Option<PathBuf>,
    (policy, git): (&Arc<Policy>, &[PathBuf]),
    (argv, program): (&[OsString], Program),
) -> Result<BoundConsent, Failure> {
    let command = command_line(argv).ok_or_else(|| Failure::new("the command is not UTF-8"))?;
    if let Some(other) = terms.data.iter().find(|it| !program.data.contains(it)) {
        let message = format!(
            "`{}` cannot be data: the command has no such argument, or its program is known to execute it",
            Path::new(other).display()
        );
        return Err(Failure::new(message));
    }
    let words = |words: &[OsString]| {
        let words = words.iter().map(|it| it.to_string_lossy().into_owned());
        words.collect::<Vec<_>>()
    };
    let approved_by = format!("uid {} by `hookjail allow`", nix::unistd::getuid());
    let mut entry = Entry::new(command, program.digests, Some(policy), approved_by);
    entry.data = words(&program.data);
    entry.expires_at = terms.until;
    entry.working_dir_scope = within;
    Ok(BoundConsent {
        entry,
        git: git.to_vec(),
        given: words(&program.given),
        policy: Arc::clone(policy),
        scripts: program.scripts,
        unbound: program.unbound,
    })
}

/// Adds consents to the allowlist, all or none, and keeps the texts that are approved by them.
///
/// # Errors
///
/// Fails where the list cannot be read or written.
pub(super) fn record<'a>(
    config: &Config,
    all: impl Iterator<Item = &'a BoundConsent>,
) -> Result<(), Failure> {
    let path = config.allowlist();
    let all: Vec<_> = all.collect();
    let entries = all.iter().map(|bound| bound.entry.clone());
    let list = Allowlist::record_all(&path, entries.collect())?;
    let approved = Approved::for_allowlist(&path);
    for BoundConsent {
        policy, scripts, ..
    } in all
    {
        let script = |script: &Script| Ok((script.file.try_clone()?, script.sha256.clone()));
        let scripts: io::Result<Vec<_>> = scripts.iter().map(script).collect();
        let profile = policy.to_toml();
        let keep = |scripts: Vec<_>| approved.keep(&scripts, (&profile, &policy.digest), &list);
        if let Err(error) = scripts.and_then(keep) {
            output::stderr(&format!(
                "hookjail: approved texts are not kept, so a later change is shown without its difference: {error}"
            ));
            break;
        }
    }
    Ok(())
}

fn allow(
    config: &Config,
    context: &Context,
    terms: &Terms,
    argv: Vec<OsString>,
) -> Result<ExitCode, Failure> {
    let all = bind(&Ground::read(config)?, terms, argv)?;
    record(config, all.iter())?;
    for bound in &all {
        tell(context, &terms.profile, bound);
    }
    if !context.call.json
        && let Some(first) = all.first()
    {
        let (profile, command) = (&terms.profile, typed(&first.entry.command));
        // Confinement can silence a guard without any sign; here the operator can still compare.
        let rehearsal = format!(
            "to see what confinement refuses a guard: hookjail run --as RUNTIME --rehearse --profile {profile} -- {command} <EVENT"
        );
        output::line(&rehearsal);
    }
    if let Some(remark) = other_list(context) {
        output::stderr(&remark);
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a warning if the daemon that serves runs uses another allowlist.
pub(super) fn other_list(context: &Context) -> Option<String> {
    let socket = server::daemon(&context.call, None)?;
    let owner = socket.metadata().ok()?.uid();
    let caller = nix::unistd::geteuid().as_raw();
    (owner != caller).then(|| {
        let socket = socket.display();
        let who = if owner == 0 {
            "root".to_owned()
        } else {
            format!("uid {owner}")
        };
        format!(
            "hookjail: this is your own list. The daemon at `{socket}` serves your runs by the list of {who}; let {who} allow it there"
        )
    })
}

/// Returns the remark about paths that git's configuration names.
pub(super) fn named_by_git(paths: &[PathBuf]) -> Option<String> {
    let paths: Vec<_> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let list = paths.join(", ");
    (!paths.is_empty())
        .then(|| format!("git's configuration names {list}, which the hook can read"))
}

/// Returns the warning about a script that does not find its own place.
pub(super) fn displaced_script(script: &Path, profile: &str) -> String {
    format!(
        "`{}` looks for its own path, but profile {profile} runs a copy; \
         allow it under workspace-rw or one with `view = \"own\"`",
        script.display()
    )
}

/// Prints a consent, with the files that it is bound to.
fn tell(context: &Context, profile: &str, bound: &BoundConsent) {
    let displaced: Vec<_> = bound.displaced().collect();
    let BoundConsent {
        entry,
        git,
        given: copied,
        policy,
        scripts: _,
        unbound,
    } = bound;
    let command = &entry.command;
    let egress = policy.egress.allowed.iter().map(ToString::to_string);
    let egress: Vec<_> = egress.collect();
    let requests = policy.egress.requests.iter().map(ToString::to_string);
    let requests: Vec<_> = requests.collect();
    if context.call.json {
        let digests: Vec<_> = entry
            .digests
            .iter()
            .map(|digest| json!({ "path": digest.path, "role": digest.role.name(), "roots": digest.roots, "sha256": digest.sha256 }))
            .collect();
        output::json_line(&json!({
            "command": command,
            "data": entry.data,
            "digests": digests,
            "displaced": displaced,
            "egress": egress,
            "git": git,
            "profile": profile,
            "profile_digest": entry.profile_digest,
            "requests": requests,
            "unbound": unbound,
        }));
        return;
    }
    let mut rows = Rows::plain("  ", 13);
    rows.line(format!(
        "allowed under profile {profile}: {}",
        typed(command)
    ));
    for digest in &entry.digests {
        let content = match digest.roots {
            true => "as root keeps it",
            false => &digest.sha256,
        };
        rows.row(digest.role.name(), format!("{content}  {}", digest.path));
    }
    rows.each("reaches", &egress);
    rows.each("sends", &requests);
    rows.each("not bound", unbound);
    for script in displaced {
        rows.line(displaced_script(script, profile));
    }
    if let Some(line) = named_by_git(git) {
        rows.line(line);
    }
    for file in copied {
        rows.line(format!(
            "a changed `{file}` needs a new consent; pass `--data {file}` if the program only reads or formats it"
        ));
    }
    rows.print();
}

/// Returns every consent, those of runtimes' own lists too.
fn entries(config: &Config) -> Result<Vec<Entry>, Failure> {
    let mut entries = Allowlist::load(&config.allowlist())?.entries().to_vec();
    for path in config.own_allowlists.values() {
        entries.extend_from_slice(Allowlist::load(path)?.entries());
    }
    Ok(entries)
}

/// Returns the outlines of the consents that do not count, as a later version wrote them, and names each on stderr.
fn later(config: &Config) -> Result<Vec<Entry>, Failure> {
    let list = Allowlist::load(&config.allowlist())?;
    warn_of_later(&list);
    let later = list.later().iter();
    Ok(later.map(|it| it.outline.clone()).collect())
}

fn warn_of_later(list: &Allowlist) {
    for later in list.later() {
        output::stderr(&format!("hookjail: {later}"));
    }
}

fn list(config: &Config, context: &Context) -> Result<ExitCode, Failure> {
    let entries = entries(config)?;
    later(config)?;
    if context.call.json {
        for entry in &entries {
            output::json_line(&serde_json::to_value(entry)?);
        }
        return Ok(ExitCode::SUCCESS);
    }
    show_table(config, &entries)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints consents, each on a line.
fn show_table(config: &Config, entries: &[Entry]) -> Result<(), Failure> {
    let book = Book::open(config)?;
    let rows = entries.iter().map(|entry| table_row(&book, entry));
    let rows: Vec<_> = rows.collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let [profile, state] = [0, 1].map(|column| width(column).unwrap_or_default());
    for [name, standing, command] in &rows {
        output::line(&format!("{name:<profile$}  {standing:<state$}  {command}"));
    }
    Ok(())
}

/// Returns the cells of a consent: its profile, how it stands, and the command with its bounds.
fn table_row(book: &Book<'_>, entry: &Entry) -> [String; 3] {
    let runtimes = || Mode::contracts(|mode| mode.facts().own_consent.is_some()).join(", ");
    // A runtime's own entry counts for its contract alone, and is bound to content when its hook first runs.
    let profile = match entry.profile.as_deref() {
        None if entry.is_unbound() => format!("({})", runtimes()),
        None => "(any)".to_owned(),
        Some(profile) => profile.to_owned(),
    };
    let scope = entry.working_dir_scope.as_ref();
    let scope = scope.map(|scope| format!("  within {}", scope.display()));
    let end = entry.expires_at.map(|end| format!("  until {end}"));
    let data = entry.data.iter().map(|file| format!("  data {file}"));
    let command = format!(
        "{}{}{}{}",
        typed(&entry.command),
        scope.unwrap_or_default(),
        end.unwrap_or_default(),
        data.collect::<String>(),
    );
    [profile, book.state(entry).to_owned(), command]
}

fn export(config: &Config) -> Result<ExitCode, Failure> {
    let allowlist = Allowlist::load(&config.allowlist())?;
    let text = serde_json::to_string_pretty(&allowlist)?;
    output::raw(format!("{}\n", visible_json(&text)).as_bytes());
    Ok(ExitCode::SUCCESS)
}

fn import(config: &Config, context: &Context, file: &Path) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    let read = if file == Path::new("-") {
        io::stdin().read_to_end(&mut text).map(drop)
    } else {
        trusted_file::open_untrusted(file)
            .and_then(|mut file| file.read_to_end(&mut text).map(drop))
    };
    let named = |why: String| Failure::new(format!("cannot import `{}`: {why}", file.display()));
    read.map_err(|error| named(error.to_string()))?;
    let list = Allowlist::parse(&text).map_err(|error| named(error.to_string()))?;
    warn_of_later(&list);
    let entries = list.entries().to_vec();
    let path = config.allowlist();
    let before = Allowlist::load(&path)?;
    let all = entries.len();
    // An entry bound to content must not be replaced by one that is not.
    let entries: Vec<_> = entries
        .into_iter()
        .filter(|entry| !(entry.is_unbound() && before.binds(&entry.command)))
        .collect();
    let imported = entries.len();
    Allowlist::record_all(&path, entries)?;
    let skipped = all - imported;
    if context.call.json {
        output::json_line(&json!({ "imported": imported, "skipped": skipped }));
    } else {
        output::text(&format!("imported: {imported}\n"));
        if skipped > 0 {
            output::stderr(&format!(
                "hookjail: {skipped} entries bound to no content were left out: their commands are bound to content here"
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}
