//! Announcing: writes the start record before a hook runs.

use tokio::{sync::mpsc, time::sleep_until};

use super::{
    Plan,
    record::{Audit, hex, known, unavailable},
};
use crate::{
    consent::allowlist::Digest,
    journal::{
        Redaction,
        chain::sha256,
        record::{self, AxisLine, Record},
    },
    process::Chunk,
    refusal::{Fact, Reason, Refusal, Stop, canceled},
    sandbox::{HookTask, PassedOver},
    util::heavy,
};

/// A plan whose start record is written.
///
/// Only [`Audit::start`] makes one.
#[derive(Debug)]
#[must_use]
pub struct Announced {
    /// Boxed because it is moved often. Each future would hold a copy for as long as the hook runs.
    plan: Box<Plan>,
}

impl Announced {
    /// Returns the plan.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the task for a sandbox to start.
    pub(super) fn task(&self) -> HookTask<'_> {
        self.plan.task()
    }

    /// Releases the resources for the hook's start.
    pub(super) fn started(&mut self) {
        self.plan.started();
    }

    /// Takes the sender of output chunks. There is none under a profile that redacts replies: a secret may begin in one
    /// piece and end in the next, and all of the output is in the response.
    pub fn take_chunks(&mut self) -> Option<mpsc::Sender<Chunk>> {
        let chunks = self.plan.admitted.call.chunks.take();
        chunks.filter(|_| !self.plan.policy.redact_output)
    }
}

impl Audit {
    /// Writes the start record.
    ///
    /// # Errors
    ///
    /// Refuses where it cannot be written, or not before the deadline or while the caller waits: a run that is not recorded does
    /// not start.
    pub async fn start(&self, plan: Box<Plan>) -> Result<Announced, Stop> {
        self.ready()?;
        let (cancel, deadline) = (plan.admitted.call.cancel.clone(), plan.deadline);
        let uid = plan.admitted.call.peer.uid;
        let redaction = self.redaction().get();
        let written = async {
            let (plan, record) = heavy::sized(uid, plan.stdin.len(), move || {
                let mut record = Record::Started(Box::new(started(&plan, &redaction)));
                redaction.clean(&mut record);
                (plan, record)
            })
            .await;
            let written = self.writer.start_of_run(record).await;
            written.map(|_| plan)
        };
        let plan = tokio::select! {
            biased;
            // Not even begun if it is late already.
            () = cancel.cancelled() => return Err(canceled().into()),
            () = sleep_until(deadline.into()) => {
                let message = "the deadline passed before the start was in the journal";
                return Err(Refusal::new(Reason::Deadline, message).with(Fact::Step("journal".into())).into());
            }
            written = written => written.map_err(|why| unavailable(&why.to_string()))?,
        };
        if !plan.prepared.confines() {
            let (hook, request) = (&plan.admitted.request.hook.name, &plan.admitted.request.id);
            tracing::warn!(hook, request, "a hook runs UNCONFINED");
        }
        Ok(Announced { plan })
    }
}

fn started(plan: &Plan, redaction: &Redaction) -> record::Started {
    let admitted = &plan.admitted;
    let request = &admitted.request;
    let call = &admitted.call;
    let digest = |d: &Digest| record::FileDigest {
        path: d.path.clone(),
        role: d.role.name().to_owned(),
        sha256: d.sha256.clone(),
    };
    record::Started {
        axes: axes(plan),
        backend: plan.prepared.backend.as_str().to_owned(),
        command: record::CommandLine::new(&admitted.program.argv),
        answered_by: admitted.answered_by.as_ref().map(known),
        consent: admitted.consent,
        contract: request.contract.contract_name().to_owned(),
        digests: admitted.program.digests.iter().map(digest).collect(),
        environment: request.hook.variables(),
        event: redaction.event(&plan.stdin),
        event_bytes: plan.stdin.len() as u64,
        event_sha256: sha256(&plan.stdin),
        hook: request.hook.name.clone(),
        mode: request.contract.mode_name().to_owned(),
        passed_over: plan.passed_over.iter().map(passed_over).collect(),
        peer: known(&call.peer),
        point: request.event.point.clone(),
        profile: plan.policy.name.to_string(),
        profile_digest: admitted.policy.digest.clone(),
        program: admitted.program.path.display().to_string(),
        request_id: request.id.clone(),
        request_sha256: call.named.map(hex),
        run_id: call.run_id.clone(),
        session: request.session.clone(),
        timeout_ms: u64::try_from(plan.timeout.as_millis()).unwrap_or(u64::MAX),
        unconfined: !plan.prepared.confines(),
        working_dir: request
            .hook
            .working_dir
            .as_ref()
            .map(|path| path.display().to_string()),
    }
}

fn passed_over(passed_over: &PassedOver) -> record::PassedOverLine {
    record::PassedOverLine {
        backend: passed_over.backend.as_str().to_owned(),
        message: passed_over.refusal.message.clone(),
        reason: passed_over.refusal.reason.as_str().to_owned(),
    }
}

fn axes(plan: &Plan) -> Vec<AxisLine> {
    plan.prepared
        .axes()
        .iter()
        .map(|(axis, coverage)| AxisLine::new(axis, *plan.policy.demands.of(axis), coverage))
        .collect()
}
