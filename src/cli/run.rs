//! `hookjail run`: one hook, by a running daemon or by one that serves this run alone.

use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, IsTerminal, Read},
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::Args;
use hyper_util::rt::TokioIo;
use nix::poll::{PollFd, PollFlags, poll};
use tokio::{
    net::UnixStream,
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use super::{
    Context, Failure,
    assemble::Assembly,
    client, output,
    program::{NOT_EXECUTABLE, NOT_FOUND, resolve_program},
    show::show,
};
use crate::{
    admission::ConsentRule,
    config::{Config, ConfiguredHook},
    pb::{self, hook_service_client::HookServiceClient},
    policy::{Place, Registry, units::Span},
    request::ProfileName,
    wire::{Incoming, ServeError, Server, WireLimits, json},
};

/// A run's wall time was over.
const TIMED_OUT: u8 = 124;
/// Added to a signal's number.
const SIGNALED: u8 = 128;

/// How long stdin may be silent before that is mentioned, milliseconds.
const PATIENCE_MS: u16 = 2000;

/// How long the private daemon may take to end once the answer is here.
const PRIVATE_DRAIN: Duration = Duration::from_secs(1);

/// Runs one hook.
#[derive(Debug, Args)]
pub(super) struct Run {
    /// What the exit code and stdout mean: observe or reyn
    #[arg(long, default_value = "observe")]
    contract: String,
    /// The contract's mode, for example shell_push
    #[arg(long, default_value = "")]
    mode: String,
    /// The lifecycle point
    #[arg(long, default_value = "")]
    point: String,
    /// The profile [default: the contract's]
    #[arg(long, default_value = "")]
    profile: String,
    /// A file with the event as JSON, or - for stdin [default: stdin, unless it is a terminal]
    #[arg(long, value_name = "FILE")]
    event: Option<PathBuf>,
    /// Write the event to stdin byte for byte
    #[arg(long)]
    raw: bool,
    /// The wall time, for example 500ms, 10s, 2m
    #[arg(long, value_parser = parse_span)]
    timeout: Option<Duration>,
    /// Binds ${workspace} [default: the current directory, where the profile needs one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Where the hook starts [default: the workspace where the profile grants it, else its scratch directory]
    #[arg(long, value_name = "DIR")]
    working_dir: Option<PathBuf>,
    /// Sets a variable that the profile lets in
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// A name for log and audit
    #[arg(long, default_value = "")]
    name: String,
    /// The session it belongs to
    #[arg(long, default_value = "")]
    session: String,
    /// The daemon's socket; without it, and without a daemon at its usual place, this run is served privately
    #[arg(long, value_name = "ADDR")]
    connect: Option<PathBuf>,
    /// Run even if the operator's configuration confines nothing (backend noop)
    #[arg(long)]
    allow_unconfirmed: bool,
    /// The command
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl Run {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let as_json = context.json;
        let daemon = self.daemon(context);
        let request = self.request(context)?;
        let run = |response: Result<pb::ExecuteResponse, Failure>| {
            let response = response?;
            if as_json {
                output::json_line(&json::render(&response, "hookjail.v1.ExecuteResponse")?);
            } else {
                show(&response);
            }
            Ok(ExitCode::from(exit_code(&response)))
        };
        match daemon {
            Some(socket) => run(client::runtime()?
                .block_on(async { ask(client::connect(&socket).await?, request).await })),
            None => {
                let (config, consent) = self.private(context, &request)?;
                let assembly = Assembly::begin()?;
                run(client::runtime()?.block_on(privately(&assembly, config, consent, request)))
            }
        }
    }

    /// Returns the daemon to ask: the one that is named, else the one that is set up. None: this run is served privately.
    fn daemon(&self, context: &Context) -> Option<PathBuf> {
        let surroundings = &context.surroundings;
        if let Some(address) = &self.connect {
            return client::socket(surroundings, address);
        }
        let sockets = surroundings.sockets();
        if surroundings.address.is_some() {
            return sockets.into_iter().next();
        }
        sockets.into_iter().find(|socket| socket.exists())
    }

    /// Returns the private daemon's configuration: the user's own, with this command as what the operator says.
    fn private(
        &self,
        context: &Context,
        request: &pb::ExecuteRequest,
    ) -> Result<(Config, ConsentRule), Failure> {
        let mut config = context.load()?;
        config.spawners = 1;
        config.allowed_uids.clear();
        let hook = request.hook.as_ref();
        config.workspace_roots.extend(
            hook.map(|hook| PathBuf::from(&hook.workspace))
                .filter(|p| p.is_absolute()),
        );
        if let (Some(hook), Some(profile)) = (hook, ProfileName::parse(&self.profile)) {
            config.hooks.push(ConfiguredHook {
                command: hook.argv.clone(),
                profiles: vec![profile],
                timeout: None,
            });
        }
        Ok((config, ConsentRule::Typed))
    }

    fn request(&self, context: &Context) -> Result<pb::ExecuteRequest, Failure> {
        let argv = resolve_program(self.command.clone())?;
        let text = |value: OsString, what: &str| {
            value
                .into_string()
                .map_err(|value| Failure::new(format!("{what} {value:?} is not UTF-8")))
        };
        let argv = argv
            .into_iter()
            .map(|word| text(word, "argument"))
            .collect::<Result<Vec<_>, _>>()?;
        let directory = |path: &Path| -> Result<String, Failure> {
            let resolved = path.canonicalize();
            let resolved = resolved
                .map_err(|e| Failure::new(format!("cannot use `{}`: {e}", path.display())))?;
            text(resolved.into_os_string(), "directory")
        };
        let workspace = match &self.workspace {
            Some(path) => directory(path)?,
            None if needs_workspace(context, &self.profile) => directory(&env::current_dir()?)?,
            None => String::new(),
        };
        let env = self.env.iter().map(|pair| {
            let split = pair
                .split_once('=')
                .map(|(name, value)| (name.to_owned(), value.to_owned()));
            split.ok_or_else(|| Failure::new(format!("`--env {pair}` is not NAME=VALUE")))
        });
        Ok(pb::ExecuteRequest {
            contract: contract(&self.contract)?.into(),
            event: Some(pb::Event {
                json: self.event()?.into(),
                point: self.point.clone(),
                raw: self.raw,
            }),
            hook: Some(pb::Hook {
                argv,
                env: env.collect::<Result<_, _>>()?,
                name: self.name.clone(),
                shell: None,
                working_dir: self
                    .working_dir
                    .as_deref()
                    .map(directory)
                    .transpose()?
                    .unwrap_or_default(),
                workspace,
            }),
            mode: self.mode.clone(),
            // Whoever runs `hookjail run` is there until the end: if it dies, the tree dies.
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

    fn event(&self) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        match &self.event {
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
}

/// Tells whoever waits for a hook that this program waits for its event.
fn hint_at_waiting() {
    let stdin = io::stdin();
    let mut ready = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    if poll(&mut ready, PATIENCE_MS) == Ok(0) {
        output::stderr(
            "hookjail: the event is read from stdin, which is open and silent; give --event FILE, or </dev/null",
        );
    }
}

fn parse_span(text: &str) -> Result<Duration, String> {
    let deserializer = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(text);
    serde::Deserialize::deserialize(deserializer)
        .map(|span: Span| span.0)
        .map_err(|error| error.to_string())
}

/// Parses a contract's id.
fn contract(text: &str) -> Result<pb::Contract, Failure> {
    let name = format!("CONTRACT_{}", text.replace('-', "_").to_ascii_uppercase());
    pb::Contract::from_str_name(&name)
        .filter(|contract| *contract != pb::Contract::Unspecified)
        .ok_or_else(|| Failure::new(format!("there is no contract `{text}`")))
}

/// Whether a profile cannot do without a workspace: one of this user's configuration, or, where that cannot be read because it
/// is the daemon's alone, a shipped one.
fn needs_workspace(context: &Context, profile: &str) -> bool {
    let configured = context.load().ok();
    let registry = configured.and_then(|config| Assembly::registry(&config).ok());
    let registry = registry.or_else(|| Registry::builtin().ok());
    let name = ProfileName::parse(profile);
    let policy = name.and_then(|name| registry?.find(&name).cloned());
    policy.is_some_and(|policy| {
        policy.files.named.iter().any(|grant| {
            matches!(
                grant.place,
                Place::Workspace {
                    if_bound: false,
                    ..
                }
            )
        })
    })
}

/// Serves this one run from inside this process, over real gRPC on a socket that nobody else can reach.
async fn privately(
    assembly: &Assembly,
    config: Config,
    consent: ConsentRule,
    request: pb::ExecuteRequest,
) -> Result<pb::ExecuteResponse, Failure> {
    let pipeline = Arc::new(assembly.pipeline(&config, consent)?);
    let shutdown = CancellationToken::new();
    let (ours, theirs) = UnixStream::pair()?;
    let limits = WireLimits {
        event_bytes: config.event_bytes,
    };
    let server = Server {
        // Its one client asks for no health.
        confirmed: true,
        drain: PRIVATE_DRAIN,
        limits,
        pipeline,
        shutdown: shutdown.clone(),
    };
    let served: JoinHandle<Result<(), ServeError>> =
        tokio::spawn(server.serve(Incoming::Single(theirs)));
    let mut ours = Some(ours);
    let connect = service_fn(move |_| {
        let stream = ours
            .take()
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected));
        async move { stream.map(TokioIo::new) }
    });
    let channel = Endpoint::from_static("http://localhost")
        .connect_with_connector(connect)
        .await?;
    let response = ask(channel, request).await;
    shutdown.cancel();
    served.await??;
    response
}

/// Asks, until the answer is here or a signal ends this process: the dropped call then ends the run.
async fn ask(
    channel: Channel,
    request: pb::ExecuteRequest,
) -> Result<pb::ExecuteResponse, Failure> {
    let mut client = HookServiceClient::new(channel);
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let interrupted =
        |number: u8| Failure::new("interrupted; the hook was killed").with_code(SIGNALED + number);
    tokio::select! {
        response = client.execute(request) => match response {
            Ok(response) => Ok(response.into_inner()),
            Err(status) => Err(client::refused(&status)),
        },
        _ = terminate.recv() => Err(interrupted(15)),
        _ = interrupt.recv() => Err(interrupted(2)),
    }
}

/// Returns the exit code of a run: the hook's own where it has one.
fn exit_code(response: &pb::ExecuteResponse) -> u8 {
    let outcome = response.outcome.unwrap_or_default();
    let low = |value: i32| u8::try_from(value & 0xff).unwrap_or(u8::MAX);
    match outcome.kind() {
        pb::OutcomeKind::Exited => low(outcome.exit_code.unwrap_or(0)),
        pb::OutcomeKind::TimedOut => TIMED_OUT,
        pb::OutcomeKind::ExecFailed if outcome.exec_errno == Some(libc::ENOENT) => NOT_FOUND,
        pb::OutcomeKind::ExecFailed => NOT_EXECUTABLE,
        pb::OutcomeKind::Canceled
        | pb::OutcomeKind::EscapeAttempt
        | pb::OutcomeKind::OutOfMemory
        | pb::OutcomeKind::OutputLimit
        | pb::OutcomeKind::PidsExhausted
        | pb::OutcomeKind::Signaled
        | pb::OutcomeKind::Unspecified => SIGNALED.saturating_add(low(outcome.signal.unwrap_or(0))),
    }
}
