//! Serves until a signal, the operator or a lost file ends it.

use std::{
    io,
    net::SocketAddr,
    os::unix::net::UnixListener,
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use listenfd::ListenFd;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{Mutex, Notify},
    task::{JoinError, JoinHandle},
};
use tokio_util::sync::CancellationToken;

use hookjail_base::{
    refusal::lacking,
    util::{presence::Presence, swap::Current},
};
use hookjail_sys::Keeper;

use super::{
    build::{Assembly, AssemblyError, make_cache, operator},
    disks::Disks,
    log::{self, LogError, LogFormat, LogRedaction},
    manager::Manager,
    metrics::{MetricsListener, MetricsThread},
    network::{self, NetworkError},
    private::{Parent, PrivateDirectory},
    reload::{Loads, Reloader, registered},
    survey::Survey,
    traces::TracesThread,
};
use crate::{
    config::{Config, ConfigError, ConfigSource},
    consent::allowlist::{Allowlist, AllowlistError},
    hooks::{Registered, load::LoadError, valve::Valve},
    pipeline::Pipeline,
    wire::{
        DaemonPlaces, Incoming, ServeError, Server, ServerError, Steering, TracesPlace, WireLimits,
    },
};
use hookjail_sys as sys;

/// The mode of the admin socket: for the daemon's user alone.
const ADMIN_SOCKET_MODE: u32 = 0o600;

/// Peak memory of requests, bytes, above which idle memory is returned to the system.
const IDLE_MEMORY_BYTES: usize = 1024 * 1024;

/// The number of runtime threads: two that process large messages leave two for other clients.
const WORKER_THREADS: usize = 4;

/// The interval of the daemon's periodic work.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The daemon did not start, or ended early.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The allowlist cannot be used.
    #[error(transparent)]
    Allowlist(#[from] AllowlistError),
    /// The pipeline cannot be built.
    #[error(transparent)]
    Assembly(#[from] AssemblyError),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configured hooks cannot be loaded.
    #[error(transparent)]
    Hooks(#[from] LoadError),
    /// A syscall failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The log cannot be started.
    #[error(transparent)]
    Log(#[from] LogError),
    /// One of the daemon's own files was removed or replaced.
    #[error("`{path}` {problem}; start the daemon again", path = path.display())]
    LostFile {
        /// The file.
        path: PathBuf,
        /// The change of the file.
        problem: String,
    },
    /// The listener for metrics cannot be made.
    #[error(
        "cannot serve metrics on {address} (`metrics.listen`): {cause}; give each daemon of this host its own address, or remove the key"
    )]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        cause: io::Error,
    },
    /// The listener over the network cannot be made.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// No socket is configured, and there is no default.
    #[error(
        "there is no default socket without XDG_RUNTIME_DIR, /run/user/UID or HOME; set `server.socket` in the configuration"
    )]
    NoSocket,
    /// There is no place for a private daemon's socket, or its parent cannot get its address.
    #[error("cannot serve privately")]
    Private(#[source] io::Error),
    /// The administrator lets only daemons serve.
    #[error(
        "`run.private` is false; start the daemon, or ask the administrator to change the file that `hookjail config show` names"
    )]
    PrivateRuns,
    /// Serving failed.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The socket cannot be bound.
    #[error(transparent)]
    Socket(#[from] ServerError),
    /// The exporter of traces cannot be started.
    #[error("cannot export traces to {endpoint} (`traces.endpoint`): {cause}")]
    Traces {
        /// The collector's address.
        endpoint: SocketAddr,
        /// The system's error.
        cause: io::Error,
    },
    /// A task of the daemon's own broke.
    #[error(transparent)]
    Task(#[from] JoinError),
    /// The service manager passed several sockets.
    #[error("{0} sockets were passed, and one is served; pass one")]
    TooManySockets(usize),
}

/// Runs the daemon until it is drained. Must be called before any thread is started.
///
/// # Errors
///
/// The daemon cannot start, or cannot go on.
pub fn serve(source: &ConfigSource, format: LogFormat) -> Result<(), DaemonError> {
    begin(source, format, None)
}

/// Runs a daemon for the process that started this one alone, until that ends. Must be called before any thread is started.
///
/// # Errors
///
/// The daemon cannot start, or cannot go on.
pub fn serve_privately(source: &ConfigSource, format: LogFormat) -> Result<(), DaemonError> {
    let parent = Parent::take().map_err(DaemonError::Private)?;
    let directory = source.environment.private_directory();
    let directory = directory.map_err(DaemonError::Private)?;
    let source = ConfigSource {
        private: Some(directory.join("hookjail.sock")),
        ..source.clone()
    };
    begin(&source, format, Some(parent))
}

fn begin(
    source: &ConfigSource,
    format: LogFormat,
    parent: Option<Parent>,
) -> Result<(), DaemonError> {
    let config = source.load()?;
    if parent.is_some() && !config.run.private {
        return Err(DaemonError::PrivateRuns);
    }
    let assembly = Assembly::begin()?;
    let redaction = LogRedaction::default();
    log::begin(format, &redaction)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        .enable_all()
        .build()?;
    runtime.block_on(run(source, config, &assembly, &redaction, parent))
}

async fn run(
    source: &ConfigSource,
    config: Config,
    assembly: &Assembly,
    redaction: &LogRedaction,
    parent: Option<Parent>,
) -> Result<(), DaemonError> {
    let started = Instant::now();
    // The first blocking thread is created now, so that a system that allows none fails at start.
    tokio::task::spawn_blocking(|| ()).await?;
    let accept_all = source.environment.accept_hooks;
    if accept_all {
        tracing::warn!("HOOKJAIL_ACCEPT_HOOKS=1: hooks without a consent are recorded and run");
    }
    // An unusable allowlist allows nothing: fail at start instead of with every request.
    let allowlist = Allowlist::load(&config.allowlist())?;
    let consent = operator(&config, &source.environment);
    let mut pipeline = assembly.pipeline(&config, consent)?;
    let traces = export_traces(&config, &mut pipeline)?;
    let pipeline = Arc::new(pipeline);
    redaction.follow(pipeline.audit.redaction());
    // Reads the lists, so that the log names now what does not count in them. A private daemon without lists has none.
    pipeline.gate.consents().allowed().ok();
    let rules = pipeline.gate.rules();
    let (configured, _) = registered(&config, &source.environment.switches, &rules.registry)?;
    let of_hooks = configured.iter().map(Registered::runs_under);
    let of_consents = allowlist
        .entries()
        .iter()
        .filter_map(|it| it.profile.as_deref());
    let named = of_hooks.chain(of_consents).collect();
    let survey = Survey::begin(&pipeline, &named).await;
    let version = pipeline.gate.rules().policy_version.clone();
    pipeline.metrics.loaded(version.as_deref());
    let (shutdown, hurry) = (CancellationToken::new(), CancellationToken::new());
    end_at_signals([shutdown.clone(), hurry.clone()])?;
    let is_private = parent.is_some();
    if !is_private {
        pipeline.sandbox.places().keep_ready();
    }
    let parent = parent.map(|parent| parent.watch(shutdown.clone()));
    let to_parent = parent.transpose().map_err(DaemonError::Private)?;
    // Before readiness is announced: without a handler, SIGHUP ends the process.
    let hangup = hangups()?;
    // Before there are sockets, whose files would have to be removed where this fails.
    let metrics = metrics(&config, &pipeline)?;
    let network = config.listener.as_ref().map(network::listen).transpose()?;
    let (network, network_place) = network.unzip();
    // The first connection comes after the self-tests of the default profiles. A run under another profile waits for that one's.
    let Sockets {
        admin,
        incoming,
        made,
        path,
        private: _private,
    } = if is_private {
        Sockets::private(&config)?
    } else {
        Sockets::open(&config)?
    };
    let places = DaemonPlaces {
        admin: config.server.admin_socket.clone(),
        metrics: metrics.as_ref().map(MetricsThread::address),
        network: network_place,
        socket: path.clone(),
        traces: config
            .traces
            .endpoint
            .zip(traces.as_ref())
            .map(|(endpoint, thread)| TracesPlace {
                endpoint,
                last_export: thread.last_export(),
            }),
    };
    let configured = Arc::new(Current::new(configured));
    let cache = config.references.cache.clone();
    let disks = Disks::new([config.paths.state.clone(), config.paths.runtime.clone()]);
    let valve = Valve::new(
        config.hooks.max_hook_driven_turns,
        config.hooks.on_hook_turn_limit,
    );
    let drain = config.server.drain.0;
    let limits = WireLimits {
        connections: assembly.room(&config)?.connections,
        event_bytes: config.hooks.event_bytes(),
    };
    let manager = Arc::new(Manager::new(Arc::clone(&pipeline), is_private));
    let reloader = Reloader {
        configured: Arc::clone(&configured),
        in_force: Mutex::new(config),
        loads: Loads::now().into(),
        manager: Arc::clone(&manager),
        pipeline: Arc::clone(&pipeline),
        places,
        source: source.clone(),
        started,
    };
    let steering = Some(Steering {
        hangup,
        incoming: admin,
        control: Arc::new(reloader),
    });
    let mut own_files = made.clone();
    own_files.extend_from_slice(pipeline.sandbox.own_files());
    let audited = Arc::clone(&pipeline);
    let missed = tokio::spawn(look_after(
        own_files,
        cache,
        disks,
        assembly.keeper(),
        Arc::clone(&manager),
        Arc::clone(&pipeline),
        shutdown.clone(),
    ));
    let drained = tokio::spawn({
        let (manager, shutdown) = (Arc::clone(&manager), shutdown.clone());
        async move {
            shutdown.cancelled().await;
            manager.draining();
        }
    });
    let server = Server {
        configured,
        drain,
        hurry,
        limits,
        network,
        pipeline,
        shutdown,
        steering,
        valve: Arc::new(valve),
    };
    manager.serving();
    if let (Some(to_parent), Some(socket)) = (to_parent, &path) {
        to_parent.report(socket).map_err(DaemonError::Private)?;
    }
    let surveyed = tokio::spawn({
        let manager = Arc::clone(&manager);
        async move {
            survey.finish().await;
            manager.look();
        }
    });
    // As a task: a connection is then accepted, and served, by the worker that the kernel woke for it.
    let served = tokio::spawn(server.serve(incoming)).await;
    let served = served.unwrap_or_else(|ended| resume_unwind(ended.into_panic()));
    drained.abort();
    // Waited for: files that a self-test has made are removed with the pipeline.
    surveyed.abort();
    surveyed.await.ok();
    // Also where nothing ran, and the drain was over before it could be reported.
    manager.draining();
    audited.audit.refusals().finish();
    drop(audited);
    drop(metrics);
    drop(traces);
    let looked_after = leave(missed, made).await;
    served?;
    looked_after
}

/// Ends the daemon's periodic work and removes the sockets; returns the reason for which the work ended the daemon, if it did.
async fn leave(
    work: JoinHandle<Result<(), DaemonError>>,
    sockets: Vec<Presence>,
) -> Result<(), DaemonError> {
    // First: the work takes a socket that is gone for a loss.
    let end = end_of(work).await;
    for socket in sockets {
        if let Err(error) = socket.remove_file() {
            tracing::warn!(%error, socket = %socket.path().display(), "socket cannot be removed");
        }
    }
    end
}

/// Ends the daemon's periodic work; returns the reason for which that ended the daemon, if it did.
///
/// The work may still be on its way out when the drain that it began is over: its result counts, and not whether it has returned yet.
async fn end_of(work: JoinHandle<Result<(), DaemonError>>) -> Result<(), DaemonError> {
    work.abort();
    match work.await {
        Err(error) if error.is_cancelled() => Ok(()),
        end => end?,
    }
}

/// Serves metrics where the configuration has an address for them.
fn metrics(
    config: &Config,
    pipeline: &Arc<Pipeline>,
) -> Result<Option<MetricsThread>, DaemonError> {
    let serve = |address| {
        let thread = MetricsListener::bind(address).and_then(|it| it.serve(Arc::clone(pipeline)));
        thread.map_err(|cause| DaemonError::Metrics { address, cause })
    };
    config.metrics.listen.map(serve).transpose()
}

/// Exports traces where the configuration has a collector for them.
fn export_traces(
    config: &Config,
    pipeline: &mut Pipeline,
) -> Result<Option<TracesThread>, DaemonError> {
    let Some(endpoint) = config.traces.endpoint else {
        return Ok(None);
    };
    let started = TracesThread::start(endpoint, &config.traces, Arc::clone(&pipeline.metrics));
    let (tracer, thread) = started.map_err(|cause| DaemonError::Traces { cause, endpoint })?;
    pipeline.tracer = tracer;
    Ok(Some(thread))
}

/// Begins the drain at the first signal, and ends it at the second.
fn end_at_signals(steps: [CancellationToken; 2]) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        for step in steps {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            step.cancel();
        }
    });
    Ok(())
}

/// The daemon's sockets.
struct Sockets {
    admin: Option<Incoming>,
    incoming: Incoming,
    /// The socket files that this daemon created, removed at the end.
    made: Vec<Presence>,
    /// The path of the callers' socket.
    path: Option<PathBuf>,
    /// The directory of a private daemon's socket.
    private: Option<PrivateDirectory>,
}

impl Sockets {
    fn open(config: &Config) -> Result<Self, DaemonError> {
        let (incoming, mut made, path) = match (inherited()?, &config.server.socket) {
            (Some(listener), _) => {
                let path = listener.local_addr()?.as_pathname().map(Path::to_owned);
                (Incoming::inherited(listener)?, Vec::new(), path)
            }
            (None, Some(socket)) => {
                let (incoming, bound) = Incoming::bind(socket, config.server.socket_mode)?;
                (incoming, vec![bound], Some(socket.clone()))
            }
            (None, None) => return Err(DaemonError::NoSocket),
        };
        match made.first() {
            Some(socket) => tracing::info!(socket = %socket.path().display(), "serving"),
            None => tracing::info!("serving on the socket that was passed"),
        }
        let admin = match &config.server.admin_socket {
            Some(socket) => {
                let (incoming, bound) = Incoming::bind(socket, ADMIN_SOCKET_MODE)?;
                tracing::info!(socket = %socket.display(), "serving the operator");
                made.push(bound);
                Some(incoming)
            }
            None => None,
        };
        Ok(Self {
            admin,
            incoming,
            made,
            path,
            private: None,
        })
    }

    /// Listens for this user alone, in a directory that is made.
    fn private(config: &Config) -> Result<Self, DaemonError> {
        let socket = config
            .server
            .socket
            .as_deref()
            .ok_or(DaemonError::NoSocket)?;
        let directory = PrivateDirectory::create(socket).map_err(DaemonError::Private)?;
        let (incoming, bound) = Incoming::bind(socket, config.server.socket_mode)?;
        tracing::info!(socket = %socket.display(), "serving privately");
        Ok(Self {
            admin: None,
            incoming,
            made: vec![bound],
            path: Some(socket.to_owned()),
            private: Some(directory),
        })
    }
}

/// Does the daemon's periodic work until a file of its own is lost.
///
/// Reports the daemon's state to the service manager, sums up refusals in the log, replaces a killed keeper, returns memory, and warns
/// of full disks. A daemon whose files were removed or replaced ends, because clients can no longer reach it, or no hook can run.
async fn look_after(
    own_files: Vec<Presence>,
    cache: Option<PathBuf>,
    disks: Disks,
    keeper: Arc<Keeper>,
    manager: Arc<Manager>,
    pipeline: Arc<Pipeline>,
    shutdown: CancellationToken,
) -> Result<(), DaemonError> {
    let watchdog = sd_notify::watchdog_enabled();
    let interval = watchdog.map_or(CHECK_INTERVAL, |patience| CHECK_INTERVAL.min(patience / 3));
    let disks = Arc::new(std::sync::Mutex::new(disks));
    loop {
        tokio::time::sleep(interval).await;
        pipeline.look().await;
        let memory = pipeline.gate.memory();
        let gives_back = memory
            .peak_when_idle()
            .is_some_and(|peak| peak > IDLE_MEMORY_BYTES);
        // Also without a watchdog, to keep one blocking thread alive: idle ones end after ten seconds, and where no new
        // thread can be created, blocking tasks would wait.
        let blocking = tokio::task::spawn_blocking(move || {
            if gives_back {
                sys::give_memory_back();
            }
        });
        // This task shows that the runtime's threads make progress; `blocking`, that blocking threads do.
        if watchdog.is_some() && blocking.await.is_ok() {
            Manager::alive();
        }
        manager.look();
        pipeline.audit.refusals().look();
        match keeper.replace_if_dead() {
            Ok(false) => {}
            Ok(true) => tracing::warn!("the keeper was killed, and another has taken its place"),
            Err(error) => tracing::error!(
                %error,
                "the keeper was killed and cannot be replaced yet: running hooks would outlive a daemon that is killed"
            ),
        }
        let disks = Arc::clone(&disks);
        // On a thread that nothing waits for: a disk may not answer.
        tokio::task::spawn_blocking(move || {
            if let Ok(mut disks) = disks.try_lock() {
                disks.look();
            }
        });
        make_cache(cache.as_deref());
        for file in &own_files {
            let problem = match file.is_there() {
                Ok(true) => continue,
                Ok(false) => "was removed or replaced".to_owned(),
                // For lack of resources: the next check may succeed.
                Err(error) if lacking(&error).is_some() => continue,
                Err(error) => format!("cannot be looked at any more: {error}"),
            };
            shutdown.cancel();
            return Err(DaemonError::LostFile {
                path: file.path().to_owned(),
                problem,
            });
        }
    }
}

/// Returns a notification of each SIGHUP, which triggers a reload.
fn hangups() -> io::Result<Arc<Notify>> {
    let mut signals = signal(SignalKind::hangup())?;
    let notify = Arc::new(Notify::new());
    let sender = Arc::clone(&notify);
    tokio::spawn(async move {
        while signals.recv().await.is_some() {
            sender.notify_one();
        }
    });
    Ok(notify)
}

/// Returns the socket that systemd passed, if any.
fn inherited() -> Result<Option<UnixListener>, DaemonError> {
    let mut passed = ListenFd::from_env();
    if passed.len() > 1 {
        return Err(DaemonError::TooManySockets(passed.len()));
    }
    Ok(passed.take_unix_listener(0)?)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn lost() -> DaemonError {
        DaemonError::LostFile {
            path: PathBuf::from("/run/sock"),
            problem: "was removed or replaced".to_owned(),
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn work_that_ends_the_daemon_gives_its_reason_even_where_the_drain_was_faster() {
        let shutdown = CancellationToken::new();
        let drain = shutdown.clone();
        let (resume, goes_on) = mpsc::channel();
        let work = tokio::spawn(async move {
            drain.cancel();
            goes_on.recv().unwrap();
            Err(lost())
        });
        shutdown.cancelled().await;

        let (end, ()) = tokio::join!(end_of(work), async { resume.send(()).unwrap() });

        assert_eq!(end.unwrap_err().to_string(), lost().to_string());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sockets_that_the_daemon_removes_at_its_end_are_no_loss() {
        const SOCKETS: usize = 500;
        let directory = tempfile::tempdir().unwrap();
        let sockets: Vec<_> = (0..SOCKETS)
            .map(|number| {
                let path = directory.path().join(number.to_string());
                std::fs::write(&path, "").unwrap();
                Presence::new(&path).unwrap()
            })
            .collect();
        let first = sockets[0].clone();
        let (start, started) = tokio::sync::oneshot::channel();
        let work = tokio::spawn(async move {
            start.send(()).unwrap();
            while first.is_there().unwrap() {
                tokio::task::yield_now().await;
            }
            Err(lost())
        });
        started.await.unwrap();

        leave(work, sockets).await.unwrap();

        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn work_that_goes_on_is_ended_without_a_reason() {
        let work = tokio::spawn(std::future::pending());

        end_of(work).await.unwrap();
    }
}
