//! The server: listens, answers, drains.

use std::{
    fs, io,
    os::unix::{
        fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt},
        net::UnixListener as StdListener,
    },
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::{UnixListener, UnixStream},
    sync::watch,
    time::{sleep, timeout},
};
use tokio_stream::{Stream, StreamExt, wrappers::UnixListenerStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{
    service::LayerExt,
    transport::{Server as TonicServer, server::Router},
};
use tonic_reflection::server::Builder;
use tower::layer::util::{Identity, Stack};

use hookjail_base::util::{presence::Presence, swap::Current};
use hookjail_journal::{Problem, ProblemKind};
use hookjail_proto::{
    self as pb, admin_service_server::AdminServiceServer, audit_service_server::AuditServiceServer,
    consent_service_server::ConsentServiceServer, hook_service_server::HookServiceServer,
    sandbox_service_server::SandboxServiceServer,
};

use super::{
    HookServer, Profiles, Steering, WireLimits,
    admin::{Admin, Drain},
    audit::Records,
    connect::{ConnectLayer, TranscodeLayer},
    connections::{Connection, Crowd},
    consent::Operators,
    doorway::DoorwayLayer,
    health::Health,
    network::NetworkListener,
    unreadable::ReadableLayer,
};
use crate::{
    hooks::{HookList, valve::Valve},
    pipeline::Pipeline,
};

/// The time for clients to fetch their answers once everything else has ended.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval and timeout of HTTP/2 keep-alive pings to silent clients.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));

/// The age at which a client is made to reconnect. Calls on the connection go on to their end.
const MAX_CONNECTION_AGE: Duration = Duration::from_secs(30 * 60);

/// The most requests in work on one connection; a client keeps others back.
const MAX_STREAMS: u32 = 256;

/// The most connections of operators.
const MAX_OPERATORS: usize = 64;

/// A source of connections.
#[derive(Debug)]
pub enum Incoming {
    /// A listening socket.
    Listener(UnixListener),
    /// One connection and no other: the private daemon of `hookjail run`.
    Single(UnixStream),
}

impl Incoming {
    /// Binds a socket with the given mode. Returns its file, too.
    ///
    /// The socket's directory must belong to the daemon's user.
    ///
    /// # Errors
    ///
    /// Fails where a daemon listens there already, where a file other than a stale socket has the path, or where other
    /// users could replace it.
    pub fn bind(path: &Path, mode: u32) -> Result<(Self, Presence), ServerError> {
        let error = |doing| {
            move |cause| ServerError {
                doing,
                path: path.to_owned(),
                cause,
            }
        };
        if let Some(directory) = path.parent() {
            let make = fs::DirBuilder::new()
                .recursive(true)
                .mode(0o711)
                .create(directory);
            make.map_err(error("make the directory of the socket"))?;
            let metadata =
                fs::metadata(directory).map_err(error("examine the directory of the socket"))?;
            let sticky = metadata.mode() & 0o1000 != 0;
            if metadata.mode() & 0o022 != 0 && !sticky {
                let cause = io::Error::other("others can write to its directory; choose another");
                return Err(error("listen on the socket")(cause));
            }
        }
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.file_type().is_socket() => {
                if std::os::unix::net::UnixStream::connect(path).is_ok() {
                    let cause = io::Error::new(
                        io::ErrorKind::AddrInUse,
                        "another daemon is listening on it",
                    );
                    return Err(error("listen on the socket")(cause));
                }
                fs::remove_file(path).map_err(error("remove the stale socket"))?;
            }
            Ok(_) => {
                let cause = io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "something that is no socket is in its place",
                );
                return Err(error("listen on the socket")(cause));
            }
            Err(_) => {}
        }
        // Until the mode is set only this user may connect.
        let umask = nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o177));
        let bound = StdListener::bind(path);
        nix::sys::stat::umask(umask);
        let listener = bound.map_err(error("listen on the socket"))?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
            .map_err(error("set the mode of the socket"))?;
        let bound = Presence::new(path).map_err(error("find the socket"))?;
        let incoming = Self::inherited(listener).map_err(error("listen on the socket"))?;
        Ok((incoming, bound))
    }

    /// Takes over a socket that another process, such as systemd, has bound.
    ///
    /// # Errors
    ///
    /// Returns the error of registering it with the runtime.
    pub(crate) fn inherited(listener: StdListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self::Listener(UnixListener::from_std(listener)?))
    }
}

/// Listening failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} `{path}`")]
pub struct ServerError {
    doing: &'static str,
    path: PathBuf,
    #[source]
    cause: io::Error,
}

/// Serving failed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The protocol's descriptors in this program cannot be read.
    #[error("the protocol's descriptors cannot be read")]
    Descriptors(#[source] Box<tonic_reflection::server::Error>),
    /// No record can be written any more.
    #[error("the journal cannot be written any more, so nothing can be run: {0}")]
    Journal(String),
    /// The server library failed.
    #[error("the server failed")]
    Transport(#[from] tonic::transport::Error),
}

/// A daemon's server.
#[derive(Debug)]
pub struct Server {
    /// The configured hooks.
    pub configured: Arc<Current<HookList>>,
    /// The time that running hooks get once `shutdown` is cancelled.
    pub drain: Duration,
    /// The listener over the network; `None` = none.
    pub network: Option<NetworkListener>,
    /// The limits of messages and connections.
    pub limits: WireLimits,
    /// The pipeline of requests.
    pub pipeline: Arc<Pipeline>,
    /// Ends the drain when cancelled: running hooks are killed.
    pub hurry: CancellationToken,
    /// Begins the drain when cancelled.
    pub shutdown: CancellationToken,
    /// The operator's controls; `None` = none.
    pub steering: Option<Steering>,
    /// Counts the turns that hooks open.
    pub valve: Arc<Valve>,
}

/// The interval at which the health of a daemon that serves nothing is set anew.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// The services on the callers' socket; the admin service has a socket of its own.
const SERVED: [&str; 5] = [
    "grpc.health.v1.Health",
    "hookjail.v1.AuditService",
    "hookjail.v1.ConsentService",
    "hookjail.v1.HookService",
    "hookjail.v1.SandboxService",
];

impl Server {
    /// Serves until the shutdown, then waits for running hooks up to the drain time.
    ///
    /// # Errors
    ///
    /// Fails where the server library fails, where the journal can never record again, or where the program was built wrongly.
    pub async fn serve(self, incoming: Incoming) -> Result<(), ServeError> {
        let health = Health::new(Arc::clone(&self.pipeline));
        health.refresh().await;
        let unreadable = |error| ServeError::Descriptors(Box::new(error));
        let v1 = reflection().build_v1().map_err(unreadable)?;
        let v1alpha = reflection().build_v1alpha().map_err(unreadable)?;

        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        let hooks = HookServer::new(
            Arc::clone(&self.pipeline),
            self.configured,
            self.valve,
            self.limits,
            stop.clone(),
            tasks.clone(),
        );
        let hooks = HookServiceServer::new(hooks)
            .max_decoding_message_size(self.limits.message_bytes())
            .max_encoding_message_size(usize::MAX);
        let hooks = ReadableLayer(Arc::clone(&self.pipeline)).named_layer(hooks);

        let profiles =
            SandboxServiceServer::new(Profiles::new(Arc::clone(&self.pipeline), health.clone()));

        let records = Records::new(Arc::clone(&self.pipeline), self.shutdown.clone());
        let records = AuditServiceServer::new(records).max_encoding_message_size(usize::MAX);

        let journal = self.pipeline.audit.problem().clone();
        let watched = tokio::spawn(watch(
            journal.clone(),
            Arc::clone(&self.pipeline),
            health.clone(),
            self.shutdown.clone(),
        ));
        let finished = CancellationToken::new();
        let drain_request = Drain {
            shutdown: self.shutdown.clone(),
            within: Arc::default(),
        };
        let steered = self.steering.map(|steering| {
            let admin = Admin {
                control: Arc::clone(&steering.control),
                drain: drain_request.clone(),
                health: health.clone(),
                pipeline: Arc::clone(&self.pipeline),
            };
            let doorway = DoorwayLayer::new(Arc::clone(&self.pipeline), self.limits, tasks.clone());
            tokio::spawn(steer(admin, steering, doorway, finished.clone()))
        });
        let health_service = health.server();
        let draining = Draining {
            asked: drain_request,
            drain: self.drain,
            health,
            hurry: self.hurry,
            pipeline: Arc::clone(&self.pipeline),
            running: tasks.clone(),
            stop,
        };
        let doorway = DoorwayLayer::new(Arc::clone(&self.pipeline), self.limits, tasks.clone());
        let router = bounded(doorway)
            .add_service(health_service)
            .add_service(v1)
            .add_service(v1alpha)
            .add_service(profiles)
            .add_service(ConsentServiceServer::new(Operators {
                pipeline: Arc::clone(&self.pipeline),
            }))
            .add_service(records)
            .add_service(hooks);
        let ended = finished.clone();
        let end = async move {
            draining.done().await;
            ended.cancel();
        };
        let crowd = Crowd::new(Arc::clone(&self.pipeline), self.limits.connections);
        let serve = serve_until(router, (incoming, self.network), crowd, end);
        // Every run has its answer by then; a client that does not fetch it must not delay the daemon's end.
        let lingering = async {
            finished.cancelled().await;
            sleep(LINGER_TIMEOUT).await;
        };
        let served = tokio::select! {
            served = serve => served,
            () = lingering => Ok(()),
        };
        watched.abort();
        // The client that requested the drain must get its answer.
        if let Some(mut steered) = steered
            && timeout(LINGER_TIMEOUT, &mut steered).await.is_err()
        {
            steered.abort();
        }
        // A run's task outlives its client: the end record must be written.
        tasks.close();
        tasks.wait().await;
        served?;
        match &*journal.borrow() {
            Some(problem) if problem.kind == ProblemKind::Final => {
                Err(ServeError::Journal(problem.why.clone()))
            }
            _ => Ok(()),
        }
    }
}

fn reflection() -> Builder<'static> {
    let builder = Builder::configure()
        .register_encoded_file_descriptor_set(pb::DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        // The types of the details of refusals.
        .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET);
    SERVED.into_iter().fold(builder, Builder::with_service_name)
}

/// The parts of a drain.
struct Draining {
    asked: Drain,
    /// The drain time where the request names none.
    drain: Duration,
    health: Health,
    hurry: CancellationToken,
    pipeline: Arc<Pipeline>,
    running: TaskTracker,
    /// Kills running hooks when cancelled.
    stop: CancellationToken,
}

impl Draining {
    /// Waits for the shutdown, then for running hooks, which are killed after the drain time.
    async fn done(self) {
        self.asked.shutdown.cancelled().await;
        let drain = self.asked.within.get().copied().unwrap_or(self.drain);
        self.pipeline.gate.drain();
        self.health.end().await;
        let running = self.running;
        tracing::info!(running = running.len(), "draining");
        running.close();
        let why = tokio::select! {
            biased;
            () = running.wait() => return,
            () = self.hurry.cancelled() => "second request to end",
            () = sleep(drain) => "drain time is over",
        };
        tracing::warn!(running = running.len(), "running hooks are killed: {why}");
        self.stop.cancel();
        running.wait().await;
    }
}

/// Updates the health by the journal and the steps of starts, and ends a daemon that can never record again.
///
/// A supervisor can then start a new one.
async fn watch(
    mut journal: watch::Receiver<Option<Problem>>,
    pipeline: Arc<Pipeline>,
    health: Health,
    shutdown: CancellationToken,
) {
    let mut starts = pipeline.starts.problem();
    loop {
        let problem = journal.borrow_and_update().clone();
        let is_final = problem
            .as_ref()
            .is_some_and(|it| it.kind == ProblemKind::Final);
        starts.mark_unchanged();
        let serves = health.refresh().await;
        if is_final {
            shutdown.cancel();
            return;
        }
        let changed = tokio::select! {
            changed = journal.changed() => changed,
            changed = starts.changed() => changed,
            // A run may confirm a profile.
            () = sleep(REFRESH_INTERVAL), if !serves => Ok(()),
        };
        if changed.is_err() {
            return;
        }
    }
}

/// Layers that each request passes, the last first.
type Layers = Stack<TranscodeLayer, Stack<DoorwayLayer, Stack<ConnectLayer, Identity>>>;

/// Connections as they come.
type Connections = Pin<Box<dyn Stream<Item = io::Result<Connection>> + Send>>;

/// Builds a server with limits of what it holds for a client.
fn bounded(doorway: DoorwayLayer) -> TonicServer<Layers> {
    let (interval, timeout) = KEEP_ALIVE;
    let transcode = TranscodeLayer(Arc::clone(doorway.pipeline()));
    TonicServer::builder()
        .http2_keepalive_interval(Some(interval))
        .http2_keepalive_timeout(Some(timeout))
        .max_concurrent_streams(MAX_STREAMS)
        // A turn that is called off cancels its calls at once, and the others of the connection go on.
        .http2_max_pending_accept_reset_streams(Some(2 * MAX_STREAMS as usize))
        .max_connection_age(MAX_CONNECTION_AGE)
        // For calls with JSON alone.
        .accept_http1(true)
        .layer(ConnectLayer)
        .layer(doorway)
        .layer(transcode)
}

/// Serves a router on incoming connections.
///
/// Their stream and the end are boxed, so that the server library's code is compiled once.
async fn serve_until(
    router: Router<Layers>,
    (incoming, network): (Incoming, Option<NetworkListener>),
    crowd: Crowd,
    end: impl Future<Output = ()> + Send,
) -> Result<(), tonic::transport::Error> {
    let crowd = Arc::new(crowd);
    let local: Connections = match incoming {
        Incoming::Listener(listener) => {
            Box::pin(Arc::clone(&crowd).let_in(UnixListenerStream::new(listener)))
        }
        Incoming::Single(stream) => {
            let once = tokio_stream::once(Ok(Connection::single(stream)));
            Box::pin(once.chain(tokio_stream::pending()))
        }
    };
    let connections = match network {
        None => local,
        Some(network) => Box::pin(local.merge(network.connections(crowd))),
    };
    let end: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(end);
    router.serve_with_incoming_shutdown(connections, end).await
}

/// Serves the operator until shutdown, and reloads on a signal.
async fn steer(
    admin: Admin,
    steering: Steering,
    doorway: DoorwayLayer,
    finished: CancellationToken,
) {
    let Steering {
        hangup, incoming, ..
    } = steering;
    let service = AdminServiceServer::new(admin.clone());
    let router = bounded(doorway).add_service(service);
    let crowd = Crowd::new(Arc::clone(&admin.pipeline), MAX_OPERATORS);
    let serve = async {
        match incoming {
            Some(incoming) => {
                serve_until(router, (incoming, None), crowd, finished.cancelled_owned()).await
            }
            None => {
                finished.cancelled().await;
                Ok(())
            }
        }
    };
    let reloads = async {
        loop {
            hangup.notified().await;
            // The reload logs its result; no client waits for it.
            drop(admin.reload_now().await);
        }
    };
    tokio::select! {
        served = serve => {
            if let Err(error) = served {
                tracing::error!(error = hookjail_base::refusal::chain(&error), "the admin socket is served no more");
            }
        }
        () = reloads => {}
    }
}
