//! `hookjail.v1.SandboxService`: enforcement on this host, and self-tests on request.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use hookjail_base::{
    model::{Peer, ProfileName},
    refusal::{Reason, Refusal},
    util::turns::Turns,
};
use hookjail_policy::Policy;
use hookjail_proto::{self as pb, sandbox_service_server::SandboxService};

use super::{
    backend_statuses, broken_profiles, health::Health, profile_status, service::peer, status,
};
use crate::pipeline::{Pipeline, Rules};

/// `hookjail.v1.SandboxService` over a pipeline.
#[derive(Clone, Debug)]
pub(crate) struct Profiles {
    health: Health,
    pipeline: Arc<Pipeline>,
    /// Serialises self-tests: each starts dozens of processes, and runs wait for them.
    tests: Arc<Turns>,
}

impl Profiles {
    /// Creates the service over a pipeline's sandbox.
    pub(super) fn new(pipeline: Arc<Pipeline>, health: Health) -> Self {
        Self {
            health,
            pipeline,
            tests: Arc::new(Turns::new(1, 1)),
        }
    }

    /// Admits callers that may run hooks.
    fn admit<T>(&self, request: &Request<T>) -> Result<Peer, Status> {
        let peer = peer(request.extensions())?;
        let Pipeline { gate, sandbox, .. } = &*self.pipeline;
        gate.admit_peer(&peer, sandbox)
            .map_err(|refusal| status(&refusal, ""))?;
        Ok(peer)
    }

    fn rules(&self) -> Arc<Rules> {
        self.pipeline.gate.rules()
    }
}

fn find<'a>(rules: &'a Rules, name: &str) -> Result<&'a Arc<Policy>, Status> {
    let found = ProfileName::parse(name).and_then(|name| rules.registry.find(&name));
    found.ok_or_else(|| {
        let message = rules.registry.absence(name);
        status(&Refusal::new(Reason::ProfileUnknown, message), "")
    })
}

fn summary(policy: &Policy) -> pb::ProfileSummary {
    pb::ProfileSummary {
        description: policy.description.clone(),
        digest: policy.digest.clone(),
        name: policy.name.to_string(),
    }
}

#[tonic::async_trait]
impl SandboxService for Profiles {
    async fn get_status(
        &self,
        request: Request<pb::GetStatusRequest>,
    ) -> Result<Response<pb::GetStatusResponse>, Status> {
        self.admit(&request)?;
        let sandbox = &self.pipeline.sandbox;
        self.pipeline.current_problem().await;
        let problem = self.pipeline.audit.problem().borrow().clone();
        let audit_problem = problem.map(|problem| problem.why).unwrap_or_default();
        let mut profiles = Vec::new();
        let rules = self.rules();
        for policy in rules.registry.iter() {
            profiles.push(profile_status(sandbox, policy).await);
        }
        profiles.extend(broken_profiles(&rules.registry));
        Ok(Response::new(pb::GetStatusResponse {
            audit_problem,
            backends: backend_statuses(sandbox),
            profiles,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }))
    }

    async fn list_profiles(
        &self,
        request: Request<pb::ListProfilesRequest>,
    ) -> Result<Response<pb::ListProfilesResponse>, Status> {
        self.admit(&request)?;
        Ok(Response::new(pb::ListProfilesResponse {
            profiles: self.rules().registry.iter().map(summary).collect(),
        }))
    }

    async fn get_profile(
        &self,
        request: Request<pb::GetProfileRequest>,
    ) -> Result<Response<pb::GetProfileResponse>, Status> {
        self.admit(&request)?;
        let rules = self.rules();
        let policy = find(&rules, &request.get_ref().name)?;
        Ok(Response::new(pb::GetProfileResponse {
            summary: Some(summary(policy)),
            toml: policy.to_toml(),
        }))
    }

    async fn self_test(
        &self,
        request: Request<pb::SelfTestRequest>,
    ) -> Result<Response<pb::SelfTestResponse>, Status> {
        let peer = self.admit(&request)?;
        let rules = self.rules();
        let wanted: Vec<&Policy> = match request.get_ref().profile.as_str() {
            "" => rules.registry.iter().collect(),
            name => vec![find(&rules, name)?],
        };
        let sandbox = &self.pipeline.sandbox;
        let mut profiles = Vec::new();
        for policy in wanted {
            let _turn = self.tests.turn(peer.uid).await;
            // From here on runs under this profile wait for the new self-test, and are refused if it fails.
            sandbox.forget(&policy.digest);
            let status = profile_status(sandbox, policy).await;
            if !status.confirmed && !status.unconfined {
                tracing::warn!(profile = %policy.name, reason = status.reason, "profile is not confirmed");
            }
            profiles.push(status);
        }
        if request.get_ref().profile.is_empty() {
            profiles.extend(broken_profiles(&rules.registry));
        }
        self.health.refresh().await;
        Ok(Response::new(pb::SelfTestResponse { profiles }))
    }
}
