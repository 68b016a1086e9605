//! `grpc.health.v1`: whether hooks are run at all.

use std::sync::Arc;

use tokio::sync::Mutex;
use tonic_health::{ServingStatus, server::HealthReporter};

use super::service::Hooks;
use crate::pb::hook_service_server::HookServiceServer;

/// What is told whoever asks for the health, of the server as a whole and of the hooks' service.
#[derive(Clone, Debug)]
pub(super) struct Health {
    /// Whether the daemon has stopped to run hooks, for ever.
    over: Arc<Mutex<bool>>,
    reporter: HealthReporter,
}

impl Health {
    pub(super) fn new(reporter: HealthReporter) -> Self {
        Self {
            over: Arc::default(),
            reporter,
        }
    }

    /// Tells whether any profile is confirmed: without one, every hook is refused.
    pub(super) async fn confirmed(&self, any: bool) {
        let over = self.over.lock().await;
        if !*over {
            self.say(any).await;
        }
    }

    /// Tells that no hook is run any more, whatever is confirmed later.
    pub(super) async fn end(&self) {
        let mut over = self.over.lock().await;
        *over = true;
        self.say(false).await;
    }

    async fn say(&self, serves: bool) {
        let status = if serves {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        self.reporter.set_service_status("", status).await;
        if serves {
            self.reporter
                .set_serving::<HookServiceServer<Hooks>>()
                .await;
        } else {
            self.reporter
                .set_not_serving::<HookServiceServer<Hooks>>()
                .await;
        }
    }
}
