//! A private server inside this process.

use std::{io, sync::Arc, time::Duration};

use hyper_util::rt::TokioIo;
use tokio::{net::UnixStream, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use hookjail_base::{model::Users, util::swap::Current};
use hookjail_client::{Failure, connect};

use hookjail_contract::HookList;
use hookjail_daemon::{
    config::Config,
    consent::ConsentRule,
    daemon::Assembly,
    hooks::valve::Valve,
    wire::{Incoming, ServeError, Server, WireLimits},
};

/// The drain time of the private daemon after the answer.
const PRIVATE_DRAIN: Duration = Duration::from_secs(1);

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
    connect::block_on(&runtime()?, async {
        let server = PrivateServer::start(assembly, config, consent).await?;
        let response = call(server.channel.clone(), request).await;
        let stopped = server.stop().await;
        // A failed call takes precedence over the server's own failure.
        response.and_then(|response| stopped.map(|()| response))
    })
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
        mut config: Config,
        consent: ConsentRule,
    ) -> Result<Self, Failure> {
        if !config.run.private {
            return Err(Failure::new(
                "no daemon serves this user, and `run.private` is false; start the daemon, or ask this host's administrator (see `hookjail config show`)",
            ));
        }
        config.hooks.spawners = 1;
        config.callers = Users::default();
        let pipeline = Arc::new(assembly.pipeline(&config, consent)?);
        let shutdown = CancellationToken::new();
        let (ours, theirs) = UnixStream::pair()?;
        let limits = WireLimits {
            event_bytes: config.hooks.event_bytes(),
            ..WireLimits::default()
        };
        let valve = Valve::new(
            config.hooks.max_hook_driven_turns,
            config.hooks.on_hook_turn_limit,
        );
        let server = Server {
            network: None,
            hurry: CancellationToken::new(),
            configured: Arc::new(Current::new(HookList::new(
                config.registered,
                config.listing.load()?,
            ))),
            // Unused: the only client does not query the health.
            drain: PRIVATE_DRAIN,
            limits,
            pipeline,
            shutdown: shutdown.clone(),
            steering: None,
            valve: Arc::new(valve),
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
