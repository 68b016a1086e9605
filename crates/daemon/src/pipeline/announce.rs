//! Announcing: writes the start record before a hook runs.

use tokio::{sync::mpsc, time::sleep_until};

use hookjail_base::{
    refusal::{Fact, Reason, Refusal, Stop, canceled},
    util::heavy,
};
use hookjail_journal::{
    Redaction,
    chain::sha256,
    record::{self, AxisLine},
    writer::StartRecorded,
};
use hookjail_sandbox::{HookTask, Skipped, process::Chunk, program::Digest};

use super::{
    Plan, Run,
    record::{Audit, hex, known, trace_id, unavailable},
};

/// A plan whose start record is written.
///
/// Only [`Audit::start`] makes one.
#[derive(Debug)]
#[must_use]
pub struct Announced {
    plan: Box<Plan>,
    recorded: StartRecorded,
}

impl Announced {
    /// Returns the task for a sandbox to start.
    pub(super) fn task(&self) -> HookTask<'_> {
        self.plan.task()
    }

    /// Returns the record without which no sandbox starts the task.
    pub(super) const fn recorded(&self) -> &StartRecorded {
        &self.recorded
    }

    /// Returns the run and the sender of its output chunks, and drops the rest.
    ///
    /// A started hook has its grants in its ruleset or container, and its own variables: the daemon holds neither
    /// descriptors nor memory for them while the hook runs.
    ///
    /// Under a profile that redacts replies there is no sender: a secret may begin in one chunk and end in the next.
    /// The response has all of the output.
    pub(super) fn started(self) -> (Box<Run>, Option<mpsc::Sender<Chunk>>) {
        let Plan { chunks, run, .. } = *self.plan;
        let chunks = chunks.filter(|_| !run.policy.redact_output);
        (run, chunks)
    }
}

impl Audit {
    /// Writes the start record.
    ///
    /// # Errors
    ///
    /// Refuses where the record cannot be written, or not before the deadline, or where the caller cancels: a run that
    /// is not recorded does not start.
    pub async fn start(&self, plan: Box<Plan>) -> Result<Announced, Stop> {
        self.ready()?;
        let (deadline, uid) = (plan.run.deadline, plan.run.peer.uid);
        let cancel = plan.run.cancel.clone();
        let redaction = self.redaction().get();
        let written = async {
            let (plan, record) = heavy::sized(uid, plan.stdin.len(), move || {
                let mut record = Box::new(started(&plan, &redaction));
                redaction.clean_start(&mut record);
                (plan, record)
            })
            .await;
            let written = self.writer.start_of_run(record).await;
            written.map(|recorded| (plan, recorded))
        };
        let (plan, recorded) = tokio::select! {
            biased;
            // First in the list: nothing is written for a call that is already cancelled or late.
            () = cancel.cancelled() => return Err(canceled().into()),
            () = sleep_until(deadline.into()) => {
                let message = "the deadline passed before the start was in the journal";
                return Err(Refusal::new(Reason::Deadline, message).with(Fact::Step("journal".into())).into());
            }
            written = written => written.map_err(|why| unavailable(&why.to_string()))?,
        };
        if let Some(withheld) = &plan.run.request.withheld {
            let (hook, run_id) = (&plan.run.request.hook.name, &*plan.run.id);
            tracing::info!(hook, run_id, "the workspace of a hook is {withheld}");
        }
        if !plan.run.prepared.confines() {
            let request = &plan.run.request;
            let (hook, request) = (&request.hook.name, &request.id);
            tracing::warn!(hook, request, "a hook runs UNCONFINED");
        }
        Ok(Announced { plan, recorded })
    }
}

fn started(plan: &Plan, redaction: &Redaction) -> record::Started {
    let run = &*plan.run;
    let request = &run.request;
    let digest = |d: &Digest| record::FileDigest {
        path: d.path.clone(),
        role: d.role.name().to_owned(),
        sha256: d.sha256.clone(),
    };
    record::Started {
        axes: axes(run),
        backend: run.prepared.backend.as_str().to_owned(),
        command: record::CommandLine::new(&run.program.argv),
        answered_by: plan.answered_by.as_ref().map(known),
        consent: plan.consent,
        contract: request.contract.facts().contract.to_owned(),
        digests: run.program.digests.iter().map(digest).collect(),
        environment: request.hook.variables(),
        event: redaction.event(&plan.stdin),
        event_bytes: plan.stdin.len() as u64,
        event_sha256: sha256(&plan.stdin),
        hook: request.hook.name.clone(),
        mode: request.contract.mode_name().to_owned(),
        passed_over: run.passed_over.iter().map(passed_over).collect(),
        peer: known(&run.peer),
        point: request.event.point.clone(),
        policy_version: plan.policy_version.as_deref().map(str::to_owned),
        profile: run.policy.name.to_string(),
        profile_digest: run.policy.digest.clone(),
        program: run.program.path.display().to_string(),
        request_id: request.id.clone(),
        request_sha256: plan.named.map(hex),
        run_id: run.id.clone(),
        session: request.session.clone(),
        trace: run.trace.as_ref().map(trace_id),
        timeout_ms: u64::try_from(run.timeout.as_millis()).unwrap_or(u64::MAX),
        unconfined: !run.prepared.confines(),
        working_dir: request
            .hook
            .working_dir
            .as_ref()
            .map(|path| path.display().to_string()),
        workspace: request.hook.workspace_text(),
    }
}

fn passed_over(passed_over: &Skipped) -> record::PassedOverLine {
    record::PassedOverLine {
        backend: passed_over.backend.as_str().to_owned(),
        message: passed_over.refusal.message.clone(),
        reason: passed_over.refusal.reason.as_str().to_owned(),
    }
}

fn axes(run: &Run) -> Vec<AxisLine> {
    run.prepared
        .axes()
        .iter()
        .map(|(axis, coverage)| AxisLine::new(axis, *run.policy.demands.get(axis), coverage))
        .collect()
}
