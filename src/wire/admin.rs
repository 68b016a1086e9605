//! `hookjail.v1.AdminService`: steers the daemon for clients of the admin socket.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use super::{Incoming, health::Health, service::peer, status};
use crate::{
    model::{InvalidField, ProfileName},
    pb::{self, admin_service_server::AdminService},
    pipeline::Pipeline,
    refusal::{Reason, Refusal},
};

/// Reads again what the operator can change while the daemon runs.
#[tonic::async_trait]
pub(crate) trait Reload: fmt::Debug + Send + Sync {
    /// Puts what is configured now in force, as a whole.
    ///
    /// # Errors
    ///
    /// Refuses where anything of it is wrong; what was in force then stays so.
    async fn reload(&self) -> Result<Reloaded, Refusal>;
}

/// The result of a reload.
#[derive(Clone, Debug)]
pub(crate) struct Reloaded {
    /// How many hooks run when their points come.
    pub hooks: usize,
    /// The profiles that are served.
    pub profiles: Vec<ProfileName>,
    /// Those that are not confirmed on this host: every run under them is refused.
    pub unconfirmed: Vec<ProfileName>,
}

/// The operator's controls of a daemon.
#[derive(Debug)]
pub struct Steering {
    /// Triggers a reload, as the service does.
    pub(crate) hangup: Arc<Notify>,
    /// Where the service is served; `None` = nowhere.
    pub(crate) incoming: Option<Incoming>,
    /// How a reload is made.
    pub(crate) reload: Arc<dyn Reload>,
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
    pub(super) drain: Drain,
    pub(super) health: Health,
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) reload: Arc<dyn Reload>,
}

impl Admin {
    /// Reloads, and has the health say what came of it.
    pub(super) async fn reload_now(&self) -> Result<Reloaded, Refusal> {
        let reloaded = self.reload.reload().await.inspect_err(|refusal| {
            tracing::error!("reload refused, nothing has changed: {refusal}");
        })?;
        let any = reloaded.unconfirmed.len() < reloaded.profiles.len();
        self.health.confirmed(any).await;
        tracing::info!(
            hooks = reloaded.hooks,
            profiles = reloaded.profiles.len(),
            "reloaded"
        );
        Ok(reloaded)
    }

    /// Lets through the daemon's own user and root, unless it is a hook. The socket's mode lets nobody else connect; this
    /// holds where somebody changed the mode.
    fn admit<T>(&self, request: &Request<T>) -> Result<(), Status> {
        let peer = peer(request.extensions())?;
        let refuse = |reason, message: String| Err(status(&Refusal::new(reason, message), ""));
        if self.pipeline.sandbox.is_hook(&peer) {
            return refuse(
                Reason::CallerIsAHook,
                "a hook may not steer the daemon".to_owned(),
            );
        }
        let own = nix::unistd::geteuid().as_raw();
        if peer.uid != own && peer.uid != 0 {
            let message = format!("uid {} may not steer the daemon of uid {own}", peer.uid);
            return refuse(Reason::PeerNotAllowed, message);
        }
        Ok(())
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
        // A task: what has begun is not to be dropped half way because its client goes.
        let reloaded = tokio::spawn(async move { admin.reload_now().await }).await;
        let reloaded = reloaded
            .map_err(|error| {
                tracing::error!(%error, "reload panicked");
                super::status::fault("")
            })?
            .map_err(|refusal| status(&refusal, ""))?;
        let names = |names: Vec<ProfileName>| names.iter().map(ToString::to_string).collect();
        Ok(Response::new(pb::ReloadResponse {
            hooks: u32::try_from(reloaded.hooks).unwrap_or(u32::MAX),
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
            // The first to ask says how long; who asks after that joins a drain that has begun.
            self.drain.within.get_or_init(|| within);
        }
        let running = self.pipeline.gate.running();
        // At once, not when the server comes to it: nothing is admitted once this is answered.
        self.pipeline.gate.drain();
        self.drain.shutdown.cancel();
        Ok(Response::new(pb::DrainResponse {
            running: u32::try_from(running).unwrap_or(u32::MAX),
        }))
    }
}
