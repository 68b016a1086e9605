//! The command line of `hookjail run`, and the request that it makes.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::{Args, Parser, Subcommand};

use hookjail_base::util::{nearest::did_you_mean, units::Span};
use hookjail_contract::is_spelled;
use hookjail_proto as pb;

use crate::{
    Context, Everywhere, Failure, Local, connect,
    program::{NOT_EXECUTABLE, NOT_FOUND, current_directory, resolve_program},
    run_as,
    server::SIGNALED,
};

/// The contract of a command line that names none.
pub(crate) const DEFAULT_CONTRACT: &str = "observe";

/// The exit code of a run that exceeded its timeout.
const TIMED_OUT: u8 = 124;
/// The arguments of `run` alone. Building the options of all other subcommands takes longer than the rest of a hook's run adds.
#[derive(Debug, Parser)]
#[command(name = "hookjail")]
pub struct RunArguments {
    #[command(subcommand)]
    command: RunAlone,
    #[command(flatten)]
    everywhere: Everywhere,
}

#[derive(Debug, Subcommand)]
enum RunAlone {
    /// Run one hook
    Run(Box<RunArgs>),
}

impl RunArguments {
    /// Returns the arguments of `run`, and those of every subcommand.
    pub fn into_parts(self) -> (Box<RunArgs>, Everywhere) {
        let RunAlone::Run(run) = self.command;
        (run, self.everywhere)
    }
}

/// Options of a run in a hook's place.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
#[derive(Debug, Args)]
pub struct RunAsOptions {
    /// Stand in for a hook of this runtime: read its payload from stdin, and end exactly as the hook does. A refusal or
    /// failure of hookjail is a denial in the runtime's own form at a gate. Needs a daemon
    #[arg(long = "as", value_name = "RUNTIME", conflicts_with_all = ["contract", "mode", "event", "raw", "dry_run"])]
    pub runtime: Option<String>,
    /// With --as: this hook can stop something [default: as the runtime's contract defines the point]
    #[arg(long, requires = "runtime", conflicts_with = "observe")]
    pub gate: bool,
    /// With --as: this hook stops nothing, even if it fails
    #[arg(long, requires = "runtime")]
    pub observe: bool,
    /// With --as: deny where the hook fails, even if its contract does not
    #[arg(long, requires = "runtime")]
    pub fail_closed: bool,
    /// With --as: treat a failure of the hook as its contract does, before a tool call too, even where confinement may have caused it
    #[arg(long, requires = "runtime", conflicts_with = "fail_closed")]
    pub mirror_failures: bool,
    /// With --as: run the hook confined, without a consent, and show its answer and its denials. The run is real
    #[arg(long, requires = "runtime", conflicts_with = "connect")]
    pub rehearse: bool,
    /// With --rehearse: run it without any confinement too, and show the differences. Both runs are real
    #[arg(long, requires = "rehearse")]
    pub bare: bool,
    /// With --rehearse: read an array of payloads, each a JSON string, which are rehearsed in this order
    #[arg(long, hide = true, requires = "rehearse")]
    pub payloads: bool,
    /// With --rehearse: write to a layer over the workspace, which is gone at the end, and report the changes. With --bare the hook
    /// runs without confinement alone: a layer has the changes of one kind of runs
    #[arg(long, hide = true, requires = "rehearse")]
    pub layer: bool,
    /// With --rehearse: the declaration whose needs are the profile
    #[arg(long, hide = true, requires = "rehearse", value_name = "FILE")]
    pub needs: Option<PathBuf>,
    /// With --as: run this required hook of the administrator's files, which have its command, profile and time limit
    #[arg(
        long,
        value_name = "NAME",
        requires = "runtime",
        conflicts_with_all = ["command", "env", "mirror_failures", "observe", "profile", "rehearse", "working_dir"]
    )]
    pub required: Option<String>,
    /// With --as: use this user's own daemon, and start it where it does not listen
    #[arg(long, requires = "runtime", conflicts_with_all = ["connect", "rehearse"])]
    pub start: bool,
}

/// Run one hook.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub place: RunAsOptions,
    /// The contract, which defines stdin, exit codes and stdout: observe, reyn, basecoat, loom, …
    #[arg(long, default_value = DEFAULT_CONTRACT)]
    pub contract: String,
    /// The contract's mode, for example shell_push
    #[arg(long, default_value = "", hide_default_value = true)]
    pub mode: String,
    /// The lifecycle point
    #[arg(long, default_value = "", hide_default_value = true)]
    pub point: String,
    /// The profile [default: the contract's]
    #[arg(long, default_value = "", hide_default_value = true)]
    pub profile: String,
    /// A file with the event as JSON, or - for stdin [default: stdin, unless it is a terminal]
    #[arg(long, value_name = "FILE")]
    pub event: Option<PathBuf>,
    /// Write the event to stdin byte for byte
    #[arg(long)]
    pub raw: bool,
    /// The wall time, for example 500ms, 10s, 2m
    #[arg(long, value_parser = parse_span)]
    pub timeout: Option<Duration>,
    /// Bind ${workspace} to a directory [default: the current directory, where the profile needs one]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// The working directory [default: the workspace under a profile that starts there, such as workspace-ro, else the scratch
    /// directory]
    #[arg(long, value_name = "DIR")]
    pub working_dir: Option<PathBuf>,
    /// Set a variable that the profile allows
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// A name for replies, log and journal
    #[arg(long, default_value = "", hide_default_value = true)]
    pub name: String,
    /// The session
    #[arg(long, default_value = "", hide_default_value = true)]
    pub session: String,
    /// The daemon's socket; without it, and without a daemon at its usual place, this run is served privately
    #[arg(long, value_name = "ADDR")]
    pub connect: Option<PathBuf>,
    /// Serve this run from inside this process, even if a daemon listens; the typed command needs no consent
    #[arg(long, conflicts_with_all = ["connect", "runtime"])]
    pub private: bool,
    /// Print evidence, axes, times and record, too
    #[arg(short, long, conflicts_with_all = ["json", "runtime", "mirror"])]
    pub verbose: bool,
    /// Print what the hook prints, byte for byte, and nothing else
    #[arg(long, conflicts_with_all = ["json", "runtime", "dry_run"])]
    pub mirror: bool,
    /// Run even if the operator's configuration confines nothing (backend noop)
    #[arg(long)]
    pub allow_unconfirmed: bool,
    /// Show what would happen, and run nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The command
    #[arg(
        required_unless_present = "required",
        trailing_var_arg = true,
        value_name = "CMD"
    )]
    pub command: Vec<OsString>,
}

impl RunArgs {
    /// Builds the request for this hook, without its contract, which the caller sets.
    ///
    /// `project` returns the offered workspace from the current directory, where the command line names none. The hook
    /// then starts there.
    pub fn request(
        &self,
        context: &Context,
        event: Vec<u8>,
        project: impl FnOnce(&Path) -> PathBuf,
    ) -> Result<pb::ExecuteRequest, Failure> {
        let argv = match &self.place.required {
            Some(_) => Vec::new(),
            None => resolve_program(self.command.clone())?,
        };
        let argv = argv
            .into_iter()
            .map(|word| text(word, "argument"))
            .collect::<Result<Vec<_>, _>>()?;
        let named = |path: &Option<PathBuf>| path.as_deref().map(directory).transpose();
        let (workspace, working_dir) = (named(&self.workspace)?, named(&self.working_dir)?);
        let offer = match workspace {
            Some(_) => pb::Offer::default(),
            None => offered(project),
        };
        let env = self.env.iter().map(|pair| {
            let split = pair
                .split_once('=')
                .map(|(name, value)| (name.to_owned(), value.to_owned()));
            split.ok_or_else(|| Failure::new(format!("`--env {pair}` is not NAME=VALUE")))
        });
        Ok(pb::ExecuteRequest {
            depth: context.depth,
            event: Some(pb::Event {
                json: event.into(),
                point: self.point.clone(),
                raw: self.raw,
            }),
            hook: Some(pb::Hook {
                argv,
                env: env.collect::<Result<_, _>>()?,
                name: self.name.clone(),
                shell: None,
                source: String::new(),
                umask: Some(context.umask),
                working_dir: working_dir.unwrap_or_default(),
                workspace: workspace.unwrap_or_default(),
            }),
            mode: self.mode.clone(),
            offer: Some(offer),
            // The caller waits for the end: if it dies, the process tree is killed.
            on_disconnect: pb::OnDisconnect::Kill.into(),
            profile: self.profile.clone(),
            required: self.place.required.clone().unwrap_or_default(),
            require_confirmed: Some(!self.allow_unconfirmed),
            session_id: self.session.clone(),
            timeout: self
                .timeout
                .map(prost_types::Duration::try_from)
                .transpose()?,
            ..pb::ExecuteRequest::default()
        })
    }

    /// Stands in for a hook by the code of `hookjail-run`; `None` where that does not suffice.
    pub fn stand_in(&self, context: &Context) -> Option<ExitCode> {
        let runtime = run_as::parse(self.place.runtime.as_deref()?).ok()?;
        // The small program has no TLS.
        let named = self.connect.as_deref();
        let named = named.and_then(|address| connect::socket(&context.paths, address));
        let is_remote = named.is_some_and(|address| connect::url(&address).is_some());
        (!self.place.rehearse && !is_remote).then(|| run_as::run(self, runtime, context, &Local))
    }
}

pub fn parse_span(text: &str) -> Result<Duration, String> {
    let deserializer = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(text);
    serde::Deserialize::deserialize(deserializer)
        .map(|span: Span| span.0)
        .map_err(|error| error.to_string())
}

/// Returns the canonical path of a directory.
pub fn directory(path: &Path) -> Result<String, Failure> {
    let resolved = path.canonicalize();
    let resolved =
        resolved.map_err(|e| Failure::new(format!("cannot use `{}`: {e}", path.display())))?;
    text(resolved.into_os_string(), "directory")
}

/// Offers the current directory, or its project, as a workspace.
///
/// The offer is empty where a request could not name the directory; a profile that needs a workspace then refuses.
fn offered(project: impl FnOnce(&Path) -> PathBuf) -> pb::Offer {
    let offer = || {
        let current = env::current_dir().ok()?;
        let workspace = project(&current);
        let starts = Some(current).filter(|current| *current != workspace);
        let starts = starts.map(|current| current.into_os_string().into_string());
        Some(pb::Offer {
            workspace: workspace.into_os_string().into_string().ok()?,
            working_dir: starts.transpose().ok()?.unwrap_or_default(),
            ..pb::Offer::default()
        })
    };
    offer().unwrap_or_default()
}

pub fn text(value: OsString, what: &str) -> Result<String, Failure> {
    value
        .into_string()
        .map_err(|value| Failure::new(format!("{what} {value:?} is not UTF-8")))
}

/// Parses a contract's id.
pub fn contract(text: &str) -> Result<pb::Contract, Failure> {
    let all = (1..).map_while(|number| pb::Contract::try_from(number).ok());
    let named = all.map(|it| {
        let name = it.as_str_name().trim_start_matches("CONTRACT_");
        (it, name.to_ascii_lowercase())
    });
    let named: Vec<_> = named.collect();
    let found = named.iter().find(|(_, name)| is_spelled(name, text));
    found.map(|(it, _)| *it).ok_or_else(|| {
        let names: Vec<_> = named.iter().map(|(_, name)| name.as_str()).collect();
        let meant = did_you_mean(text, names.iter().copied());
        let names = names.join(", ");
        Failure::new(format!(
            "unknown contract `{text}`{meant}; use one of {names}"
        ))
    })
}

/// Members of a request, as messages spell them, and the options of the command line that set them.
const OPTIONS: [(&str, &str); 11] = [
    ("`configuration`", "`--config`"),
    ("`contract`", "`--contract`"),
    ("`event.json`", "`--event`"),
    ("`event.point`", "`--point`"),
    ("`hook.argv[", "`CMD["),
    ("`hook.env[", "`--env "),
    ("`hook.name`", "`--name`"),
    ("`hook.working_dir`", "`--working-dir`"),
    ("`hook.workspace`", "`--workspace`"),
    ("`mode`", "`--mode`"),
    ("`timeout`", "`--timeout`"),
];

/// Returns a message with options instead of members of the request, for a person who typed them.
pub fn as_typed(message: &str) -> String {
    let replaced = |text: String, (member, option): (&str, &str)| text.replace(member, option);
    let text = OPTIONS.into_iter().fold(message.to_owned(), replaced);
    // `--env NAME]` is the rest of `hook.env[NAME]`.
    match text.split_once("`--env ") {
        Some((before, after)) => format!("{before}`--env {}", after.replacen(']', "", 1)),
        None => text,
    }
}

/// Adds to a message about a missing workspace why the current directory is none.
pub fn with_place(message: String) -> String {
    let missing = ["`--workspace` is not set", "`hook.workspace` is not set"];
    if !missing.iter().any(|it| message.contains(it)) {
        return message;
    }
    match current_directory() {
        Ok(directory) if directory.to_str().is_some() => message,
        Ok(_) => format!("{message}, and the name of the current directory is not UTF-8"),
        Err(failure) => format!("{message}; {}", failure.message),
    }
}

/// Returns the exit code of a run: the hook's own where it has one.
pub fn exit_code(response: &pb::ExecuteResponse) -> u8 {
    let outcome = response.outcome.unwrap_or_default();
    let low = |value: i32| u8::try_from(value & 0xff).unwrap_or(u8::MAX);
    match outcome.kind() {
        pb::OutcomeKind::Exited => low(outcome.exit_code.unwrap_or(0)),
        pb::OutcomeKind::PidsExhausted if outcome.exit_code.is_some() => {
            low(outcome.exit_code.unwrap_or(0))
        }
        pb::OutcomeKind::TimedOut => TIMED_OUT,
        pb::OutcomeKind::ExecFailed if outcome.exec_errno == Some(libc::ENOENT) => NOT_FOUND,
        pb::OutcomeKind::ExecFailed => NOT_EXECUTABLE,
        pb::OutcomeKind::Canceled
        | pb::OutcomeKind::EscapeAttempt
        | pb::OutcomeKind::Killed
        | pb::OutcomeKind::OutOfMemory
        | pb::OutcomeKind::OutputLimit
        | pb::OutcomeKind::PidsExhausted
        | pb::OutcomeKind::Signaled
        | pb::OutcomeKind::Unspecified => SIGNALED.saturating_add(low(outcome.signal.unwrap_or(0))),
    }
}
