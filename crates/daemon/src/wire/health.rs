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

/// The health of the server as a whole and of the hooks' service.
#[derive(Clone, Debug)]
pub(super) struct Health {
    /// Whether the drain has begun. Held while the health is set, so that an older one never follows.
    is_over: Arc<Mutex<bool>>,
    pipeline: Arc<Pipeline>,
    reporter: HealthReporter,
}

impl Health {
    pub(super) fn new(pipeline: Arc<Pipeline>) -> Self {
        Self {
            is_over: Arc::default(),
            pipeline,
            reporter: HealthReporter::new(),
        }
    }

    /// Returns the service, which has steps tried whose last attempt is old.
    pub(super) fn server(&self) -> HealthServer<CheckedHealth> {
        HealthServer::new(CheckedHealth {
            health: self.clone(),
            reported: HealthService::from_health_reporter(self.reporter.clone()),
        })
    }

    /// Sets the health to what the last attempts found. Returns whether hooks are served.
    pub(super) async fn refresh(&self) -> bool {
        self.set(false).await
    }

    /// Sets the health to not serving, permanently.
    pub(super) async fn end(&self) {
        self.set(true).await;
    }

    async fn set(&self, ends: bool) -> bool {
        let mut is_over = self.is_over.lock().await;
        *is_over |= ends;
        let serves = !*is_over && self.pipeline.serves_any();
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
        serves
    }
}

/// The service of health.
#[derive(Debug)]
pub(super) struct CheckedHealth {
    health: Health,
    reported: HealthService,
}

#[tonic::async_trait]
impl HealthRpc for CheckedHealth {
    type WatchStream = <HealthService as HealthRpc>::WatchStream;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        self.health.pipeline.current_problem().await;
        self.health.refresh().await;
        self.reported.check(request).await
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        self.reported.watch(request).await
    }
}
