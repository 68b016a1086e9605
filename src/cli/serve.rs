//! `hookjail serve`: the daemon.

use std::{io::IsTerminal, os::unix::net::UnixListener, process::ExitCode, sync::Arc};

use clap::Args;
use listenfd::ListenFd;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{
    Context, Failure,
    assemble::{Assembly, confirm_all},
};
use crate::{
    admission::{ConsentRule, allowlist::Allowlist},
    config::Config,
    wire::{Incoming, Server, WireLimits},
};

/// Runs the daemon.
#[derive(Debug, Args)]
pub(super) struct Serve {}

impl Serve {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let config = context.load()?;
        let assembly = Assembly::begin()?;
        log_to_stderr()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        runtime.block_on(serve(context, config, &assembly))?;
        Ok(ExitCode::SUCCESS)
    }
}

async fn serve(context: &Context, config: Config, assembly: &Assembly) -> Result<(), Failure> {
    let accept_all = context.surroundings.accept_hooks;
    if accept_all {
        tracing::warn!("HOOKJAIL_ACCEPT_HOOKS=1: hooks that nobody allowed are recorded and run");
    }
    // A list that cannot be used allows nothing: better known now than by every request.
    Allowlist::load(&config.allowlist())?;
    let consent = ConsentRule::Allowlist {
        accept_all,
        path: config.allowlist(),
    };
    let pipeline = Arc::new(assembly.pipeline(&config, consent)?);
    let unconfirmed = confirm_all(&pipeline).await;
    let confirmed = unconfirmed.len() < pipeline.gate.registry().iter().count();
    if !confirmed {
        tracing::error!("no profile is confirmed on this host: every request is refused");
    }
    for (profile, refusal) in unconfirmed {
        tracing::warn!(
            profile,
            reason = refusal.reason.as_str(),
            "{}",
            refusal.message
        );
    }
    let shutdown = CancellationToken::new();
    let ended = shutdown.clone();
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        ended.cancel();
    });
    // Nobody can connect before the profiles are loaded and the self-test has run.
    let (incoming, made) = match (inherited()?, config.socket) {
        (Some(listener), _) => (Incoming::inherited(listener)?, None),
        (None, Some(socket)) => (Incoming::bind(&socket, config.socket_mode)?, Some(socket)),
        (None, None) => {
            let message = "there is no default socket without XDG_RUNTIME_DIR; set `server.socket` in the configuration";
            return Err(Failure::new(message));
        }
    };
    match &made {
        Some(socket) => tracing::info!(socket = %socket.display(), "serving"),
        None => tracing::info!("serving on the socket that was passed"),
    }
    notify(&[sd_notify::NotifyState::Ready]);
    let stopping = shutdown.clone();
    tokio::spawn(async move {
        stopping.cancelled().await;
        notify(&[sd_notify::NotifyState::Stopping]);
    });
    let limits = WireLimits {
        event_bytes: config.event_bytes,
    };
    let server = Server {
        confirmed,
        drain: config.drain,
        limits,
        pipeline,
        shutdown,
    };
    let served = server.serve(incoming).await;
    if let Some(socket) = made
        && let Err(error) = std::fs::remove_file(&socket)
    {
        tracing::warn!(%error, socket = %socket.display(), "socket cannot be removed");
    }
    Ok(served?)
}

/// Returns the socket that systemd listens on for us, if it does.
fn inherited() -> Result<Option<UnixListener>, Failure> {
    let mut passed = ListenFd::from_env();
    if passed.len() > 1 {
        return Err(Failure::new(format!(
            "{} sockets were passed; one is served",
            passed.len()
        )));
    }
    Ok(passed.take_unix_listener(0)?)
}

/// Tells the service manager, if there is one.
fn notify(state: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "service manager cannot be told");
    }
}

fn log_to_stderr() -> Result<(), Failure> {
    let directives = std::env::var("HOOKJAIL_LOG").unwrap_or_else(|_| "info".to_owned());
    let filter = tracing_subscriber::EnvFilter::try_new(&directives)
        .map_err(|error| Failure::new(format!("HOOKJAIL_LOG={directives:?}: {error}")))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    Ok(())
}
