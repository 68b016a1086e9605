//! Planning: policy, command, limits and backend of one run, resolved.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;

use super::{Admitted, Purpose};
use crate::{
    model::InvalidField,
    policy::{
        Policy,
        environment::Variables,
        narrow::{Bindings, narrow},
    },
    refusal::{Fact, Reason, Refusal, Stop},
    sandbox::{Asked, Confirmation, HookTask, Opened, PassedOver, Prepared, Sandbox, Selected},
};

/// Everything that is decided about a run before it is announced.
#[derive(Debug)]
pub struct Plan {
    /// The request, as admitted.
    pub admitted: Admitted,
    /// The proof of the policy on this host.
    pub confirmation: Arc<Confirmation>,
    /// The deadline of the run.
    pub deadline: Instant,
    /// The hook's environment.
    pub environment: Variables,
    /// The files it reaches.
    pub opened: Opened,
    /// The backends before its own in the operator's order, each with its reason.
    pub passed_over: Vec<PassedOver>,
    /// The profile, narrowed by the request, with the workspace and the source bound.
    pub policy: Policy,
    /// The backend's instructions.
    pub prepared: Prepared,
    /// The hook's stdin.
    pub stdin: Bytes,
    /// The wall time from arrival to `deadline`.
    pub timeout: Duration,
}

impl Plan {
    /// Resolves an admitted request. It narrows the profile, has a backend translate and confirm it, and builds stdin.
    ///
    /// # Errors
    ///
    /// Refuses what widens the profile, what no backend enforces or has proved, confinement that is not confirmed where the
    /// request requires it, and paths that cannot be opened.
    pub async fn resolve(admitted: Admitted, sandbox: &Sandbox) -> Result<Box<Self>, Stop> {
        let request = &admitted.request;
        let base = &admitted.policy;
        let bound = Bindings {
            source: request.hook.source.as_deref(),
            workspace: request.hook.workspace.as_deref(),
        };
        let policy = narrow(base, bound, &request.narrow).map_err(|widened| {
            let field = InvalidField::new(widened.field(), widened.to_string());
            Refusal {
                message: widened.to_string(),
                ..Refusal::field(widened.reason(), field)
            }
        })?;
        let Selected {
            confirmation,
            passed_over,
            prepared,
        } = sandbox.select(&policy, &base.digest).await?;
        if request.require_confirmed && !prepared.confines() {
            let before = passed_over.iter().map(|it| it.refusal.message.as_str());
            let nothing = format!(
                "backend `{}` confines nothing and the request requires confirmed confinement (`require_confirmed`)",
                prepared.backend
            );
            let message = before
                .chain([nothing.as_str()])
                .collect::<Vec<_>>()
                .join("; ");
            return Err(Refusal::new(Reason::BackendUnconfirmed, message)
                .with(Fact::Backend(prepared.backend.as_str()))
                .into());
        }
        let environment = Variables::resolve(&policy, &request.hook, request.depth)?;
        let opened = Opened::of(
            sandbox.places(),
            &prepared,
            &policy,
            Asked {
                hook: &request.hook,
                of_operator: &base.files,
                peer: admitted.call.peer,
                creates: admitted.call.purpose == Purpose::Run,
            },
        )?;
        let stdin = request.contract.stdin(&request.event, &request.envelope)?;
        let (deadline, timeout) = (admitted.deadline, admitted.timeout);
        Ok(Box::new(Self {
            confirmation,
            deadline,
            environment,
            opened,
            passed_over,
            policy,
            prepared,
            stdin,
            timeout,
            admitted,
        }))
    }

    /// Returns the task for a sandbox to start.
    pub(super) fn task(&self) -> HookTask<'_> {
        let call = &self.admitted.call;
        HookTask {
            caller: call.peer,
            cancel: &call.cancel,
            deadline: self.deadline,
            environment: &self.environment,
            opened: &self.opened,
            policy: &self.policy,
            prepared: &self.prepared,
            program: &self.admitted.program,
            stdin: &self.stdin,
        }
    }

    /// Releases the resources for its hook's start. Its grants are in its ruleset or container, and its variables are
    /// its own: neither descriptors nor memory are held for them while it runs.
    pub(super) fn started(&mut self) {
        self.environment = Variables::default();
        self.opened = Opened::default();
    }
}
