//! `grpc.health.v1`: whether the daemon can run hooks.

use std::sync::Arc;

use tokio::sync::Mutex;
use tonic::{Request, Response, Status};
use tonic_health::{
    ServingStatus,
    pb::{
        HealthCheckRequest, HealthCheckResponse,
        health_server::{Health as HealthRpc, HealthServer},
    },
    server::{HealthReporter, HealthService},
};

use hookjail_proto::hook_service_server::HookServiceServer;

use super::service::HookServer;
use crate::pipeline::Pipeline;

/// The service of health, which has steps tried whose last attempt is old.
#[derive(Debug)]
pub(super) struct CheckedHealth {
    health: Health,
    pipeline: Arc<Pipeline>,
    reported: HealthService,
}

impl CheckedHealth {
    pub(super) fn server(health: Health, pipeline: Arc<Pipeline>) -> HealthServer<Self> {
        let reported = HealthService::from_health_reporter(health.reporter.clone());
        HealthServer::new(Self {
            health,
            pipeline,
            reported,
        })
    }
}

#[tonic::async_trait]
impl HealthRpc for CheckedHealth {
    type WatchStream = <HealthService as HealthRpc>::WatchStream;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let problem = self.pipeline.current_problem().await;
        self.health.ready(problem.is_none()).await;
        self.reported.check(request).await
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        self.reported.watch(request).await
    }
}

/// The health of the server as a whole and of the hooks' service.
#[derive(Clone, Debug)]
pub(super) struct Health {
    reporter: HealthReporter,
    state: Arc<Mutex<HealthState>>,
}

#[derive(Debug)]
struct HealthState {
    any_confirmed: bool,
    is_over: bool,
    is_ready: bool,
}

impl Health {
    pub(super) fn new() -> Self {
        Self {
            reporter: HealthReporter::new(),
            state: Arc::new(Mutex::new(HealthState {
                any_confirmed: false,
                is_over: false,
                is_ready: true,
            })),
        }
    }

    /// Sets whether any profile is confirmed: without one, every hook is refused.
    pub(super) async fn confirmed(&self, any: bool) {
        self.change(|state| state.any_confirmed = any).await;
    }

    /// Sets whether runs can be recorded and started: otherwise every hook is refused.
    pub(super) async fn ready(&self, is_ready: bool) {
        self.change(|state| state.is_ready = is_ready).await;
    }

    /// Sets the health to not serving, permanently.
    pub(super) async fn end(&self) {
        self.change(|state| state.is_over = true).await;
    }

    async fn change(&self, change: impl FnOnce(&mut HealthState)) {
        let mut state = self.state.lock().await;
        change(&mut state);
        let serves = state.any_confirmed && state.is_ready && !state.is_over;
        let status = if serves {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        self.reporter.set_service_status("", status).await;
        if serves {
            self.reporter
                .set_serving::<HookServiceServer<HookServer>>()
                .await;
        } else {
            self.reporter
                .set_not_serving::<HookServiceServer<HookServer>>()
                .await;
        }
    }
}
