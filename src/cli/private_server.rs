//! Calls a running daemon, or a private server inside this process.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hyper_util::rt::TokioIo;
use nix::{
    errno::Errno,
    unistd::{AccessFlags, access},
};
use tokio::{
    net::UnixStream,
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use tonic::{
    Response, Status,
    transport::{Channel, Endpoint},
};
use tower::service_fn;

use hookjail_base::util::swap::Current;

use super::{Context, Failure, client, output};
use crate::{
    config::Config,
    consent::ConsentRule,
    daemon::Assembly,
    hooks::{HookList, valve::Valve},
    wire::{Incoming, ServeError, Server, WireLimits},
};

/// The offset of exit codes for signals.
pub(super) const SIGNALED: u8 = 128;

/// The drain time of the private daemon after the answer.
const PRIVATE_DRAIN: Duration = Duration::from_secs(1);

/// Returns the daemon's socket: the named one, else the usual one. `None`: the call is served privately.
pub(super) fn daemon(context: &Context, named: Option<&Path>) -> Option<PathBuf> {
    let environment = context.environment();
    if let Some(address) = named {
        return client::socket(environment, address);
    }
    let sockets = environment.sockets();
    if environment.address.is_some() {
        return sockets.into_iter().next();
    }
    sockets.into_iter().find(|socket| socket.exists())
}

/// Returns the daemon's address for a runtime's hook. One over the network is the named one: a project's settings may set variables.
///
/// # Errors
///
/// Fails where a variable names an address over the network.
pub(super) fn daemon_of_runtime(
    context: &Context,
    named: Option<&Path>,
) -> Result<Option<PathBuf>, Failure> {
    let daemon = daemon(context, named);
    match daemon.as_deref().and_then(client::url) {
        Some(_) if named.is_none() => Err(Failure::new(
            "`HOOKJAIL_ADDR` is an address over the network; a runtime's hook takes one from `--connect` alone",
        )),
        Some(_) | None => Ok(daemon),
    }
}

/// Returns the daemon's socket for a call, `None` if it is served privately. It is where that is the option, or where the daemon at
/// the usual place lets nobody of this user's connect.
pub(super) fn of_call(
    context: &Context,
    named: Option<&Path>,
    is_private: bool,
) -> Option<PathBuf> {
    if is_private {
        return None;
    }
    let socket = daemon(context, named)?;
    let is_usual = named.is_none() && context.environment().address.is_none();
    if is_usual && access(&socket, AccessFlags::W_OK) == Err(Errno::EACCES) {
        output::stderr(&format!(
            "hookjail: `{}` lets this user not connect; this is served privately",
            socket.display()
        ));
        return None;
    }
    Some(socket)
}

/// Describes the server of a call.
pub(super) fn by(daemon: Option<&Path>) -> String {
    daemon.map_or_else(
        || "this process alone".to_owned(),
        |socket| format!("the daemon at {}", socket.display()),
    )
}

/// Calls a running daemon.
pub(super) fn by_daemon<Q, T>(
    socket: &Path,
    request: Q,
    call: impl AsyncFnOnce(Channel, Q) -> Result<T, Failure>,
) -> Result<T, Failure> {
    client::block_on(&client::runtime()?, async {
        call(client::connect(socket).await?, request).await
    })
}

/// Builds the async runtime of a private daemon.
pub(super) fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
}

/// Serves a call inside this process. Must be called before any thread is started.
pub(super) fn privately<Q, T>(
    config: Config,
    consent: ConsentRule,
    request: Q,
    call: impl AsyncFnOnce(Channel, Q) -> Result<T, Failure>,
) -> Result<T, Failure> {
    privately_by(&Assembly::begin()?, config, consent, request, call)
}

/// Serves a call inside this process, by parts that were built before.
pub(super) fn privately_by<Q, T>(
    assembly: &Assembly,
    config: Config,
    consent: ConsentRule,
    request: Q,
    call: impl AsyncFnOnce(Channel, Q) -> Result<T, Failure>,
) -> Result<T, Failure> {
    client::block_on(&runtime()?, async {
        let server = PrivateServer::start(assembly, config, consent).await?;
        let response = call(server.channel.clone(), request).await;
        let stopped = server.stop().await;
        // A failed call takes precedence over the server's own failure.
        response.and_then(|response| stopped.map(|()| response))
    })
}

/// Waits for an answer or a signal. The dropped call then ends its runs.
pub(super) async fn until_interrupted<T>(
    answer: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Failure> {
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let interrupted =
        |number: u8| Failure::new("interrupted; the hook was killed").with_code(SIGNALED + number);
    tokio::select! {
        answer = answer => match answer {
            Ok(answer) => Ok(answer.into_inner()),
            Err(status) => Err(client::refused(&status)),
        },
        _ = terminate.recv() => Err(interrupted(15)),
        _ = interrupt.recv() => Err(interrupted(2)),
    }
}

/// A server for this process alone, over real gRPC on a private socket pair.
pub(super) struct PrivateServer {
    pub(super) channel: Channel,
    served: JoinHandle<Result<(), ServeError>>,
    shutdown: CancellationToken,
}

impl PrivateServer {
    pub(super) async fn start(
        assembly: &Assembly,
        config: Config,
        consent: ConsentRule,
    ) -> Result<Self, Failure> {
        if !config.private_runs {
            return Err(Failure::new(
                "no daemon serves this user, and `run.private` is false: nothing is served without one; start the daemon, or ask who administers this host (`hookjail config show` says which file sets it)",
            ));
        }
        let pipeline = Arc::new(assembly.pipeline(&config, consent)?);
        let shutdown = CancellationToken::new();
        let (ours, theirs) = UnixStream::pair()?;
        let limits = WireLimits {
            event_bytes: config.event_bytes,
            ..WireLimits::default()
        };
        let server = Server {
            network: None,
            hurry: CancellationToken::new(),
            configured: Arc::new(Current::new(HookList::new(
                config.registered,
                config.lists.load()?,
            ))),
            // Unused: the only client does not query the health.
            confirmed: true,
            drain: PRIVATE_DRAIN,
            limits,
            pipeline,
            shutdown: shutdown.clone(),
            steering: None,
            valve: Arc::new(Valve::new(
                config.max_hook_driven_turns,
                config.on_hook_turn_limit,
            )),
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
        Ok(Self {
            channel,
            served,
            shutdown,
        })
    }

    pub(super) async fn stop(self) -> Result<(), Failure> {
        self.shutdown.cancel();
        Ok(self.served.await??)
    }
}
