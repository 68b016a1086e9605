//! `hookjail.v1.AdminService`: for clients of the admin socket it reports the daemon's status, reloads and drains it, lists its
//! runs and kills them.

use std::{
    collections::BTreeSet,
    fmt,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::{Duration, Instant, SystemTime},
};

use tokio::{sync::Notify, task::spawn_blocking, time::timeout};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use hookjail_base::{
    model::{InvalidField, Peer, ProfileName},
    refusal::{Reason, Refusal},
};
use hookjail_policy::Policy;
use hookjail_proto::{self as pb, admin_service_server::AdminService};
use hookjail_sandbox::WaitingLevels;

use super::{
    Identities, Incoming, NetworkPlace, backend_statuses, health::Health, service::peer, status,
};
use crate::{
    pipeline::{NotFound, Pipeline, RunStage, RunSummary},
    traces::LastExport,
};

/// How long a killed run may take to end before that is reported.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest wait of a status for the end of the first survey.
const SURVEY_TIMEOUT: Duration = Duration::from_secs(5);

/// The least of an id that names a run: all ids begin alike.
const LEAST_ID_BYTES: usize = 4;

/// A daemon's actions for its operator, beside those of its pipeline.
#[tonic::async_trait]
pub(crate) trait Control: fmt::Debug + Send + Sync {
    /// Applies the current configuration, as a whole.
    ///
    /// # Errors
    ///
    /// Refuses where any part of the configuration is invalid; the former configuration then stays in force.
    async fn reload(&self) -> Result<Reloaded, Refusal>;

    /// Returns the daemon's report of itself.
    fn report(&self) -> DaemonReport;
}

/// A daemon's report of itself.
#[derive(Clone, Debug)]
pub(crate) struct DaemonReport {
    /// When the configuration in force was loaded.
    pub loaded: SystemTime,
    /// Where the daemon listens and exports to.
    pub places: DaemonPlaces,
    /// When and why a later reload was refused.
    pub refused: Option<(SystemTime, String)>,
    /// Summary of the service, or the reason why nothing is served.
    pub serving: Result<String, String>,
    /// When the daemon started.
    pub started: Instant,
}

/// Where a daemon listens and exports to.
#[derive(Clone, Debug)]
pub(crate) struct DaemonPlaces {
    /// The admin socket.
    pub admin: Option<PathBuf>,
    /// The address of the metrics.
    pub metrics: Option<SocketAddr>,
    /// Where clients of other hosts connect.
    pub network: Option<NetworkPlace>,
    /// The callers' socket, where it has a path.
    pub socket: Option<PathBuf>,
    /// Where traces go.
    pub traces: Option<TracesPlace>,
}

/// Where a daemon's traces go.
#[derive(Clone, Debug)]
pub(crate) struct TracesPlace {
    /// The collector.
    pub endpoint: SocketAddr,
    /// How the last export ended.
    pub last_export: Arc<LastExport>,
}

/// The result of a reload.
#[derive(Clone, Debug)]
pub(crate) struct Reloaded {
    /// The number of configured hooks.
    pub hooks: usize,
    /// The loaded profiles.
    pub profiles: Vec<ProfileName>,
    /// The profiles that are not confirmed on this host: every run under them is refused.
    pub unconfirmed: Vec<ProfileName>,
}

/// The operator's controls of a daemon.
#[derive(Debug)]
pub struct Steering {
    /// Triggers a reload, as the service does.
    pub(crate) hangup: Arc<Notify>,
    /// The admin socket; `None` where the daemon has none.
    pub(crate) incoming: Option<Incoming>,
    /// The daemon.
    pub(crate) control: Arc<dyn Control>,
}

/// A shutdown that a signal or the service began.
#[derive(Clone, Debug)]
pub(super) struct Drain {
    /// The drain time in the request; `None` = the configured time.
    pub(super) within: Arc<OnceLock<Duration>>,
    pub(super) shutdown: CancellationToken,
}

/// `hookjail.v1.AdminService` over a daemon.
#[derive(Clone, Debug)]
pub(super) struct Admin {
    pub(super) control: Arc<dyn Control>,
    pub(super) drain: Drain,
    pub(super) health: Health,
    pub(super) pipeline: Arc<Pipeline>,
}

impl Admin {
    /// Reloads, and updates the health.
    pub(super) async fn reload_now(&self) -> Result<Reloaded, Refusal> {
        let reloaded = self.control.reload().await.inspect_err(|refusal| {
            tracing::error!("reload refused: {refusal}");
        })?;
        self.health.refresh().await;
        tracing::info!(
            hooks = reloaded.hooks,
            profiles = reloaded.profiles.len(),
            "reloaded"
        );
        Ok(reloaded)
    }

    /// Admits the daemon's own user and root, unless the peer is a hook.
    ///
    /// The socket's mode lets no other user connect; this check also holds where the mode was changed.
    fn admit<T>(&self, request: &Request<T>) -> Result<Peer, Status> {
        let peer = peer(request.extensions())?;
        let refuse = |reason, message: String| Err(status(&Refusal::new(reason, message), ""));
        if self.pipeline.sandbox.is_hook(&peer) {
            return refuse(
                Reason::CallerIsAHook,
                "a hook may not steer the daemon".to_owned(),
            );
        }
        let own_uid = nix::unistd::geteuid().as_raw();
        if peer.uid != own_uid && peer.uid != 0 {
            let message = format!("uid {} may not steer the daemon of uid {own_uid}", peer.uid);
            return refuse(Reason::PeerNotAllowed, message);
        }
        Ok(peer)
    }
}

#[tonic::async_trait]
impl AdminService for Admin {
    async fn reload(
        &self,
        request: Request<pb::ReloadRequest>,
    ) -> Result<Response<pb::ReloadResponse>, Status> {
        self.admit(&request)?;
        let admin = self.clone();
        // A task: a reload must not be dropped half way when its client disconnects.
        let reloaded = tokio::spawn(async move { admin.reload_now().await }).await;
        let reloaded = reloaded
            .map_err(|error| {
                tracing::error!(%error, "reload panicked");
                super::status::fault("")
            })?
            .map_err(|refusal| status(&refusal, ""))?;
        let names = |names: Vec<ProfileName>| names.iter().map(ToString::to_string).collect();
        Ok(Response::new(pb::ReloadResponse {
            hooks: count(reloaded.hooks),
            profiles: names(reloaded.profiles),
            unconfirmed: names(reloaded.unconfirmed),
        }))
    }

    async fn drain(
        &self,
        request: Request<pb::DrainRequest>,
    ) -> Result<Response<pb::DrainResponse>, Status> {
        self.admit(&request)?;
        if let Some(within) = request.into_inner().within {
            let within = Duration::try_from(within).map_err(|_| {
                let problem = "is not a length of time that can be waited for";
                status(&InvalidField::new("within", problem).into(), "")
            })?;
            // The first request sets the drain time; later ones join the drain that has begun.
            self.drain.within.get_or_init(|| within);
        }
        let running = self.pipeline.gate.running();
        // Immediately, not when the server polls the shutdown: nothing is admitted once this call is answered.
        self.pipeline.gate.drain();
        // A workspace may be removed once its daemon drains.
        let pipeline = Arc::clone(&self.pipeline);
        let removed = spawn_blocking(move || pipeline.sandbox.places().remove_ready()).await;
        if let Err(error) = removed {
            tracing::error!(%error, "directories in workspaces are not removed yet");
        }
        self.drain.shutdown.cancel();
        Ok(Response::new(pb::DrainResponse {
            running: count(running),
        }))
    }

    async fn status(
        &self,
        request: Request<pb::StatusRequest>,
    ) -> Result<Response<pb::StatusResponse>, Status> {
        self.admit(&request)?;
        // The report has what the attempts find, and the first survey.
        self.pipeline.current_problem().await;
        let survey = self.pipeline.untested.ended();
        timeout(SURVEY_TIMEOUT, survey).await.ok();
        let report = self.control.report();
        Ok(Response::new(status_message(&self.pipeline, report)))
    }

    async fn list_runs(
        &self,
        request: Request<pb::ListRunsRequest>,
    ) -> Result<Response<pb::ListRunsResponse>, Status> {
        self.admit(&request)?;
        let runs = self.pipeline.runs.list();
        let redaction = self.pipeline.audit.redaction().get();
        let runs = runs.iter().map(|run| run_message(run.summary(&redaction)));
        Ok(Response::new(pb::ListRunsResponse {
            runs: runs.collect(),
        }))
    }

    async fn kill_run(
        &self,
        request: Request<pb::KillRunRequest>,
    ) -> Result<Response<pb::KillRunResponse>, Status> {
        let peer = self.admit(&request)?;
        let id = request.into_inner().run_id;
        if id.len() < LEAST_ID_BYTES {
            let problem = format!(
                "must be the id of a run in work, or at least {LEAST_ID_BYTES} characters of its beginning"
            );
            return Err(status(&InvalidField::new("run_id", problem).into(), ""));
        }
        let runs = &self.pipeline.runs;
        let run = runs
            .find(&id)
            .map_err(|not_found| status(&not_one(&id, not_found), ""))?;
        let redaction = self.pipeline.audit.redaction().get();
        let shown = run_message(run.summary(&redaction));
        run.kill(peer.clone());
        let (run_id, uid) = (&shown.run_id, peer.uid);
        tracing::info!(run = run_id, uid, "an operator kills a run");
        let ended = timeout(KILL_TIMEOUT, runs.left(&run)).await.is_ok();
        let end = run.end().filter(|_| ended);
        Ok(Response::new(pb::KillRunResponse {
            end: end.map(|end| end.to_string()).unwrap_or_default(),
            run: Some(shown),
        }))
    }
}

/// Refuses an id that is not that of one run in work.
fn not_one(id: &str, not_found: NotFound) -> Refusal {
    match not_found {
        NotFound::Nowhere => {
            let message = format!(
                "no run in work has the id `{id}`, or has ended since; `hookjail ps` lists them"
            );
            Refusal::new(Reason::RunUnknown, message)
        }
        NotFound::Several(ids) => {
            let problem = format!(
                "is the beginning of {} runs; give more of the id: {}",
                ids.len(),
                ids.join(", ")
            );
            InvalidField::new("run_id", problem).into()
        }
    }
}

fn status_message(pipeline: &Pipeline, report: DaemonReport) -> pb::StatusResponse {
    let DaemonReport {
        loaded,
        places,
        refused,
        serving,
        started,
    } = report;
    let Pipeline {
        audit,
        gate,
        metrics,
        sandbox,
        untested,
        ..
    } = pipeline;
    let rules = gate.rules();
    // A profile is not reported before its first test is over.
    let is_tested = |policy: &&Policy| sandbox.is_confirmed(policy) || !untested.has(&policy.name);
    let path = |path: Option<PathBuf>| {
        path.map(|path| path.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    let redaction = audit.redaction().get();
    let clean = |text: &str| redaction.redactor.text(text).into_owned();
    let confirmation = |policy: &Policy| pb::ProfileConfirmation {
        confirmed: sandbox.is_confirmed(policy),
        name: policy.name.to_string(),
    };
    let (refused, refusal) = refused.unzip();
    let problem = audit.problem().borrow().clone();
    let tally = audit.tally();
    let last_failure = Some(tally.last_failure()).filter(|seconds| *seconds > 0);
    let serves = serving.is_ok();
    pb::StatusResponse {
        admin_socket: path(places.admin),
        backends: backend_statuses(sandbox),
        configuration: Some(pb::ConfigurationStatus {
            loaded: Some(loaded.into()),
            policy_version: clean(rules.policy_version.as_deref().unwrap_or_default()),
            refusal: clean(&refusal.unwrap_or_default()),
            refused: refused.map(Into::into),
        }),
        journal: Some(pb::JournalStatus {
            directory: path(Some(audit.directory().to_owned())),
            failures: tally.failures(),
            last_failure: last_failure
                .map(|seconds| (SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).into()),
            problem: clean(&problem.map(|problem| problem.why).unwrap_or_default()),
            records: tally.written(),
        }),
        metrics: places
            .metrics
            .map(|address| address.to_string())
            .unwrap_or_default(),
        network: places.network.map(network_status),
        pid: std::process::id(),
        profiles: rules
            .registry
            .iter()
            .filter(is_tested)
            .map(confirmation)
            .collect(),
        questions: count(gate.consents().pending.count()),
        queued: count(gate.queued()),
        running: count(gate.running()),
        serving: serves,
        socket: path(places.socket),
        summary: clean(&serving.unwrap_or_else(|why| why)),
        traces: places.traces.map(|traces| {
            let last = traces.last_export.get();
            let (last_export, problem) = last.map(|last| (last.at, last.problem)).unzip();
            pb::TracesStatus {
                dropped: metrics.dropped_spans(),
                endpoint: format!("http://{}", traces.endpoint),
                last_export: last_export.map(Into::into),
                problem: clean(&problem.flatten().unwrap_or_default()),
            }
        }),
        waiting: Some(waiting_status(sandbox.waiting())),
        uptime: prost_types::Duration::try_from(started.elapsed()).ok(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn waiting_status(levels: WaitingLevels) -> pb::WaitingStatus {
    let WaitingLevels {
        discarded,
        processes,
        runs,
        saved,
    } = levels;
    pb::WaitingStatus {
        discarded,
        processes: count(processes),
        runs,
        saved: prost_types::Duration::try_from(saved).ok(),
    }
}

fn network_status(place: NetworkPlace) -> pb::NetworkStatus {
    let NetworkPlace {
        address,
        identities,
    } = place;
    let (clients, users, plaintext_uid) = match &*identities.get() {
        Identities::Plaintext(user) => (0, 0, Some(user.uid)),
        Identities::Tls { clients, .. } => {
            let users: BTreeSet<_> = clients.0.iter().map(|client| client.user.uid).collect();
            (clients.0.len(), users.len(), None)
        }
    };
    pb::NetworkStatus {
        address: address.to_string(),
        clients: count(clients),
        plaintext_uid,
        users: count(users),
    }
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn run_message(run: RunSummary) -> pb::RunInWork {
    let RunSummary {
        about,
        age,
        left,
        profile,
        stage,
    } = run;
    let length = |length: Duration| prost_types::Duration::try_from(length).unwrap_or_default();
    let state = match stage {
        RunStage::Asking => pb::RunState::Asking,
        RunStage::Queued => pb::RunState::Queued,
        RunStage::Running => pb::RunState::Running,
        RunStage::Starting => pb::RunState::Starting,
    };
    pb::RunInWork {
        age: Some(length(age)),
        argv: about
            .command
            .map(|command| command.argv)
            .unwrap_or_default(),
        contract: about.contract.to_owned(),
        hook: about.hook,
        left: left.map(length),
        peer_pid: about.peer.pid,
        peer_uid: Some(about.peer.uid),
        point: about.point,
        profile,
        request_id: about.request_id,
        run_id: about.run_id,
        session_id: about.session,
        state: state.into(),
    }
}
