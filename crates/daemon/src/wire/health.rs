//! `grpc.health.v1`: whether the daemon can run hooks.

use std::sync::Arc;

use tokio::sync::Mutex;
use tonic_health::{ServingStatus, server::HealthReporter};

use hookjail_proto::hook_service_server::HookServiceServer;

use super::service::HookServer;

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
    is_recorded: bool,
}

impl Health {
    pub(super) fn new(reporter: HealthReporter) -> Self {
        Self {
            reporter,
            state: Arc::new(Mutex::new(HealthState {
                any_confirmed: false,
                is_over: false,
                is_recorded: true,
            })),
        }
    }

    /// Sets whether any profile is confirmed: without one, every hook is refused.
    pub(super) async fn confirmed(&self, any: bool) {
        self.change(|state| state.any_confirmed = any).await;
    }

    /// Sets whether runs can be recorded: otherwise every hook is refused.
    pub(super) async fn recorded(&self, are: bool) {
        self.change(|state| state.is_recorded = are).await;
    }

    /// Sets the health to not serving, permanently.
    pub(super) async fn end(&self) {
        self.change(|state| state.is_over = true).await;
    }

    async fn change(&self, change: impl FnOnce(&mut HealthState)) {
        let mut state = self.state.lock().await;
        change(&mut state);
        let serves = state.any_confirmed && state.is_recorded && !state.is_over;
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
