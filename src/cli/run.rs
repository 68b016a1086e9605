//! `hookjail run`: runs one hook, by a daemon or privately.

use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, IsTerminal, Read},
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use nix::poll::{PollFd, PollFlags, poll};
use tonic::transport::Channel;
use uuid::Uuid;

use hookjail_base::model::{Users, plain};
use hookjail_contract::is_spelled;
use hookjail_policy::units::Span;
use hookjail_proto::{self as pb, hook_service_client::HookServiceClient};

use super::{
    Context, FAILED, Failure, client,
    consent::ask_about,
    output,
    private_server::{self, SIGNALED},
    program::{NOT_EXECUTABLE, NOT_FOUND, resolve_program},
    run_as,
    show::{show, show_preview},
};
use crate::{config::Config, consent::ConsentRule, daemon::Assembly, wire::json};

/// The exit code of a run that exceeded its timeout.
const TIMED_OUT: u8 = 124;
/// The warning where nothing confined a hook.
pub(super) const UNCONFINED: &str =
    "hookjail: the hook ran UNCONFINED: backend `noop` confines nothing";
/// The silence of stdin after which a hint is printed, milliseconds.
const STDIN_SILENCE_MS: u16 = 2000;

/// In whose place a hook is run.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
#[derive(Debug, Args)]
pub(super) struct RunAsOptions {
    /// Stand in for a hook of this runtime: read its payload from stdin, and end exactly as the hook does. A refusal or
    /// failure of hookjail is a denial in the runtime's own form at a gate. Needs a daemon
    #[arg(long = "as", value_name = "RUNTIME", conflicts_with_all = ["contract", "mode", "event", "raw", "dry_run"])]
    runtime: Option<String>,
    /// With --as: this hook can stop something [default: as the runtime's contract says of the point]
    #[arg(long, requires = "runtime", conflicts_with = "observe")]
    pub(super) gate: bool,
    /// With --as: this hook stops nothing, whatever happens to it
    #[arg(long, requires = "runtime")]
    pub(super) observe: bool,
    /// With --as: deny where the hook fails, whatever its contract says
    #[arg(long, requires = "runtime")]
    pub(super) fail_closed: bool,
    /// With --as: treat a failure of the hook as its contract does, before a tool call too, even where confinement may have caused it
    #[arg(long, requires = "runtime", conflicts_with = "fail_closed")]
    pub(super) mirror_failures: bool,
    /// With --as: run the hook confined, without a consent, and show its answer and what it is refused. The run is real
    #[arg(long, requires = "runtime", conflicts_with = "connect")]
    pub(super) rehearse: bool,
    /// With --rehearse: run it without any confinement too, and show the differences. Both runs are real
    #[arg(long, requires = "rehearse")]
    pub(super) bare: bool,
    /// With --rehearse: read an array of payloads, each a JSON string, which are rehearsed in this order
    #[arg(long, hide = true, requires = "rehearse")]
    pub(super) payloads: bool,
    /// With --as: start this user's daemon where none listens
    #[arg(long, requires = "runtime", conflicts_with_all = ["connect", "rehearse"])]
    pub(super) start: bool,
}

/// Run one hook.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub(super) place: RunAsOptions,
    /// The contract, which defines stdin, exit codes and stdout: observe, reyn, basecoat, loom, …
    #[arg(long, default_value = "observe")]
    contract: String,
    /// The contract's mode, for example shell_push
    #[arg(long, default_value = "", hide_default_value = true)]
    mode: String,
    /// The lifecycle point
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(super) point: String,
    /// The profile [default: the contract's]
    #[arg(long, default_value = "", hide_default_value = true)]
    profile: String,
    /// A file with the event as JSON, or - for stdin [default: stdin, unless it is a terminal]
    #[arg(long, value_name = "FILE")]
    event: Option<PathBuf>,
    /// Write the event to stdin byte for byte
    #[arg(long)]
    raw: bool,
    /// The wall time, for example 500ms, 10s, 2m
    #[arg(long, value_parser = parse_span)]
    pub(super) timeout: Option<Duration>,
    /// Bind ${workspace} to a directory [default: the current directory, where the profile needs one]
    #[arg(long, value_name = "DIR")]
    pub(super) workspace: Option<PathBuf>,
    /// The working directory [default: the workspace under a profile that starts there, such as workspace-ro, else the scratch
    /// directory]
    #[arg(long, value_name = "DIR")]
    working_dir: Option<PathBuf>,
    /// Set a variable that the profile allows
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// A name for replies, log and journal
    #[arg(long, default_value = "", hide_default_value = true)]
    name: String,
    /// The session
    #[arg(long, default_value = "", hide_default_value = true)]
    session: String,
    /// The daemon's socket; without it, and without a daemon at its usual place, this run is served privately
    #[arg(long, value_name = "ADDR")]
    pub(super) connect: Option<PathBuf>,
    /// Serve this run from inside this process, whatever daemon listens: what is typed here needs no consent
    #[arg(long, conflicts_with_all = ["connect", "runtime"])]
    private: bool,
    /// Print what the hook prints, byte for byte, and nothing else
    #[arg(long, conflicts_with_all = ["json", "runtime", "dry_run"])]
    mirror: bool,
    /// Run even if the operator's configuration confines nothing (backend noop)
    #[arg(long)]
    allow_unconfirmed: bool,
    /// Say what would happen, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// The command
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(super) command: Vec<OsString>,
}

impl RunArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        if let Some(name) = &self.place.runtime {
            return Ok(match run_as::parse(name) {
                Ok(runtime) if self.place.rehearse => run_as::rehearse(&self, runtime, context),
                Ok(runtime) => run_as::run(&self, runtime, context),
                Err(names) => run_as::refuse(&self, &format!("`--as {name}` is none: {names}")),
            });
        }
        let daemon = private_server::of_call(context, self.connect.as_deref(), self.private);
        let served_by = private_server::by(daemon.as_deref());
        let event = event(self.event.as_deref())?;
        let request = pb::ExecuteRequest {
            contract: contract(&self.contract)?.into(),
            ..self.request(context, event, Path::to_owned)?
        };
        if self.dry_run {
            let response = self.call(context, daemon, request, preview)?;
            if context.json {
                output::json_line(&json::render(&response, "hookjail.v1.PreviewResponse")?);
            } else {
                show_preview(&response);
            }
            return Ok(match response.refusal {
                None => ExitCode::SUCCESS,
                Some(_) => ExitCode::from(FAILED),
            });
        }
        // Consent questions are shown at this terminal, if the daemon accepts this user's answer.
        let response = if daemon.is_some() && !context.json && io::stderr().is_terminal() {
            let request = pb::ExecuteRequest {
                request_id: Uuid::now_v7().to_string(),
                ..request
            };
            self.call(context, daemon, request, asking)?
        } else {
            self.call(context, daemon, request, ask)?
        };
        if response
            .confinement
            .as_ref()
            .is_some_and(|it| it.unconfined)
        {
            output::stderr(UNCONFINED);
        }
        if context.json {
            let mut told = json::render(&response, "hookjail.v1.ExecuteResponse")?;
            told["servedBy"] = served_by.into();
            output::json_line(&told);
        } else if self.mirror {
            mirror(&response);
        } else {
            show(&response, &served_by, |options| {
                let command = self.command.iter().map(|word| word.to_string_lossy());
                let command: Vec<_> = command.collect();
                let command = shlex::try_join(command.iter().map(AsRef::as_ref));
                format!(
                    "hookjail learn {options}-- {}",
                    command.unwrap_or_else(|_| "CMD".to_owned())
                )
            });
        }
        Ok(ExitCode::from(exit_code(&response)))
    }

    /// Stands in for a hook by the code of `hookjail-run`; `None` where that does not suffice.
    pub(super) fn stand_in(&self, context: &Context) -> Option<ExitCode> {
        let runtime = run_as::parse(self.place.runtime.as_deref()?).ok()?;
        // The small program has no TLS.
        let named = self.connect.as_deref();
        let named = named.and_then(|address| client::socket(context.environment(), address));
        let is_remote = named.is_some_and(|address| client::url(&address).is_some());
        (!self.place.rehearse && !is_remote).then(|| run_as::run(self, runtime, context))
    }

    /// Calls a daemon, or a private server.
    fn call<T>(
        &self,
        context: &Context,
        daemon: Option<PathBuf>,
        request: pb::ExecuteRequest,
        call: impl AsyncFnOnce(Channel, pb::ExecuteRequest) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match daemon {
            Some(socket) => private_server::by_daemon(&socket, request, call),
            None => {
                let (config, consent) = self.private(context, &request)?;
                private_server::privately(config, consent, request, call)
            }
        }
    }

    /// Returns the private daemon's configuration: the user's own, with this command allowed.
    pub(super) fn private(
        &self,
        context: &Context,
        request: &pb::ExecuteRequest,
    ) -> Result<(Config, ConsentRule), Failure> {
        let mut config = context.load()?;
        config.spawners = 1;
        config.callers = Users::default();
        let named = request
            .hook
            .as_ref()
            .map(|hook| PathBuf::from(&hook.workspace));
        let offered = (request.offer.as_ref()).map(|offer| PathBuf::from(&offer.workspace));
        let [named, offered] = [named, offered].map(|it| it.filter(|path| path.is_absolute()));
        if named.is_none() && offered.is_none() {
            return Ok((config, ConsentRule::Typed));
        }
        let homes = context.environment().own_homes();
        let registry = Assembly::registry(&config)?;
        let judge = Assembly::roots(&config, &registry);
        let mut add = |workspace: &Path| config.workspace_roots.add(workspace, &homes, &judge);
        if let Some(workspace) = named {
            let added = add(&workspace);
            added.map_err(|why| Failure::new(format!("`{}` {why}", workspace.display())))?;
        }
        // Refused where the profile needs it, and by the reason that the request's check has then.
        if let Some(workspace) = offered {
            add(&workspace).ok();
        }
        // Typing a command is consent to it, under the typed profile.
        Ok((config, ConsentRule::Typed))
    }

    /// Builds the request for this hook, without its contract, which the caller sets.
    ///
    /// `project` returns the offered workspace from the current directory, where the command line names none. The hook
    /// then starts there.
    pub(super) fn request(
        &self,
        context: &Context,
        event: Vec<u8>,
        project: impl FnOnce(&Path) -> PathBuf,
    ) -> Result<pb::ExecuteRequest, Failure> {
        let argv = resolve_program(self.command.clone())?;
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
            depth: context.environment().depth,
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
            require_confirmed: Some(!self.allow_unconfirmed),
            session_id: self.session.clone(),
            timeout: self
                .timeout
                .map(prost_types::Duration::try_from)
                .transpose()?,
            ..pb::ExecuteRequest::default()
        })
    }
}

/// Prints the hook's output, and notes where it is incomplete.
fn mirror(response: &pb::ExecuteResponse) {
    output::raw(&response.stdout);
    output::raw_stderr(&response.stderr);
    if response.stdout_truncated || response.stderr_truncated || response.cut_for_reply {
        output::stderr("hookjail: the hook printed more than is kept");
    }
    if !response.exec_problem.is_empty() {
        output::stderr(&format!("hookjail: {}", plain(&response.exec_problem)));
    }
}

/// Reads the event: a file, or stdin unless that is a terminal.
pub(super) fn event(file: Option<&Path>) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    match file {
        Some(path) if path.as_os_str() != "-" => {
            bytes = fs::read(path).map_err(|error| {
                Failure::new(format!(
                    "cannot read the event `{}`: {error}",
                    path.display()
                ))
            })?;
        }
        None if io::stdin().is_terminal() => {}
        Some(_) | None => {
            hint_at_waiting();
            io::stdin().lock().read_to_end(&mut bytes)?;
        }
    }
    Ok(bytes)
}

/// Hints on stderr that this program waits for its event.
fn hint_at_waiting() {
    let stdin = io::stdin();
    let mut ready = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    if poll(&mut ready, STDIN_SILENCE_MS) == Ok(0) {
        output::stderr(
            "hookjail: the event is read from stdin, which is open and silent; give --event FILE, or </dev/null",
        );
    }
}

pub(super) fn parse_span(text: &str) -> Result<Duration, String> {
    let deserializer = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(text);
    serde::Deserialize::deserialize(deserializer)
        .map(|span: Span| span.0)
        .map_err(|error| error.to_string())
}

/// Returns the canonical path of a directory.
pub(super) fn directory(path: &Path) -> Result<String, Failure> {
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

pub(super) fn text(value: OsString, what: &str) -> Result<String, Failure> {
    value
        .into_string()
        .map_err(|value| Failure::new(format!("{what} {value:?} is not UTF-8")))
}

/// Parses a contract's id.
pub(super) fn contract(text: &str) -> Result<pb::Contract, Failure> {
    let all = (1..).map_while(|number| pb::Contract::try_from(number).ok());
    let named = all.map(|it| {
        let name = it.as_str_name().trim_start_matches("CONTRACT_");
        (it, name.to_ascii_lowercase())
    });
    let named: Vec<_> = named.collect();
    let found = named.iter().find(|(_, name)| is_spelled(name, text));
    found.map(|(it, _)| *it).ok_or_else(|| {
        let names: Vec<_> = named.iter().map(|(_, name)| name.as_str()).collect();
        let names = names.join(", ");
        Failure::new(format!("there is no contract `{text}`: one of {names}"))
    })
}

/// Calls until there is an answer or a signal. The dropped call then ends the run.
async fn ask(
    channel: Channel,
    request: pb::ExecuteRequest,
) -> Result<pb::ExecuteResponse, Failure> {
    let mut service = HookServiceClient::new(channel);
    private_server::until_interrupted(client::execute(&mut service, client::in_trace(request)))
        .await
}

/// Calls as [`ask`] does, and shows consent questions at this terminal.
async fn asking(
    channel: Channel,
    request: pb::ExecuteRequest,
) -> Result<pb::ExecuteResponse, Failure> {
    let asked = ask_about(channel.clone(), request.request_id.clone()).await;
    let response = ask(channel, request).await;
    if let Some(asked) = asked {
        asked.abort();
    }
    response
}

/// Requests a preview.
async fn preview(
    channel: Channel,
    request: pb::ExecuteRequest,
) -> Result<pb::PreviewResponse, Failure> {
    let request = pb::PreviewRequest {
        request: Some(request),
    };
    let response = HookServiceClient::new(channel).preview(request).await;
    response
        .map(tonic::Response::into_inner)
        .map_err(|status| client::refused(&status))
}

/// Returns the exit code of a run: the hook's own where it has one.
pub(super) fn exit_code(response: &pb::ExecuteResponse) -> u8 {
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
