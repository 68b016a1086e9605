//! Encodes recorded answers as replies.

use bytes::Bytes;
use tonic::Status;

use hookjail_proto as pb;

use hookjail_base::model::{
    Captured,
    axis::{Axis, Coverage, Demand},
};
use hookjail_contract::{
    BlockedBy, ContractEvent, Decision, Json, Lifetime, Push, Reminder, Verdict,
};
use hookjail_journal::record::{OutcomeKind, Usage};
use hookjail_policy::Network;
use hookjail_sandbox::EndedHook;

use super::{denials::denials, status};
use crate::pipeline::{Answer, Interpreted, Recorded, Redacted, Run};
use hookjail_sandbox as sandbox;

/// Encodes an answer: an outcome is a response, a refusal or fault a status.
///
/// # Errors
///
/// Returns the status of a refusal or fault.
pub fn encode(recorded: &Recorded) -> Result<pb::ExecuteResponse, Status> {
    match recorded.answer() {
        Answer::Fault => Err(status::fault(recorded.request_id())),
        Answer::Refusal(refusal) => Err(status::status(refusal, recorded.request_id())),
        Answer::Outcome {
            at: position,
            interpreted,
        } => {
            let audit = pb::AuditReference {
                hash: position.hash.clone(),
                run_id: interpreted.run.id.clone(),
                sequence: position.sequence,
            };
            Ok(response(interpreted, audit))
        }
    }
}

fn response(interpreted: &Interpreted, audit: pb::AuditReference) -> pb::ExecuteResponse {
    let Interpreted { hook, run, .. } = interpreted;
    let request = &run.request;
    let nothing = Captured::default();
    let (stdout, stderr, held_open) = match &hook.end {
        sandbox::End::ExecFailed(_) => (&nothing, &nothing, false),
        sandbox::End::Ran(ran) => (&ran.stdout, &ran.stderr, ran.output_held_open),
    };
    let verdict = &interpreted.verdict;
    let mut cut = ReplyBudget::new(request.max_reply_bytes, verdict);
    let (out, err) = match &interpreted.redacted {
        None => ((&stdout.head, &stdout.tail), (&stderr.head, &stderr.tail)),
        Some(Redacted { stderr, stdout, .. }) => {
            ((&stdout.head, &stdout.tail), (&stderr.head, &stderr.tail))
        }
    };
    let (stdout_tail, stderr_tail) = (cut.take(out.1), cut.take(err.1));
    let (stdout_head, stderr_head) = (cut.take(out.0), cut.take(err.0));
    pb::ExecuteResponse {
        audit: Some(audit),
        confinement: Some(confinement(run, hook)),
        contract_version: request.contract.facts().version.to_owned(),
        cut_for_reply: cut.happened,
        denial_sources: denial_sources(run, hook),
        denials: denials(interpreted),
        events: interpreted.event.iter().map(event_message).collect(),
        exec_problem: match hook.end {
            sandbox::End::ExecFailed(errno) => run.program.why_not_executed(errno),
            sandbox::End::Ran(_) => String::new(),
        },
        outcome: Some(pb::Outcome {
            exec_errno: match hook.end {
                sandbox::End::ExecFailed(errno) => Some(errno),
                sandbox::End::Ran(_) => None,
            },
            exit_code: hook.end.exit_code(),
            kind: outcome_kind(interpreted.outcome).into(),
            output_held_open: held_open,
            signal: hook.end.signal(),
        }),
        request_id: request.id.clone(),
        stderr: stderr_head,
        stderr_tail,
        stderr_total_bytes: stderr.total,
        stderr_truncated: stderr.truncated(),
        stdout: stdout_head,
        stdout_tail,
        stdout_total_bytes: stdout.total,
        stdout_truncated: stdout.truncated(),
        usage: Some(usage_message(interpreted.summary().usage)),
        verdict: Some(verdict_message(
            verdict,
            hook.is_denied() || interpreted.outcome == OutcomeKind::EscapeAttempt,
            request.contract.context_lifetime(&request.event.point),
        )),
        wanted_variables: Vec::new(),
    }
}

/// The source of denied connections.
pub(super) const RELAY: &str = "relay";

/// Returns the sources of a run's denials.
fn denial_sources(run: &Run, hook: &EndedHook) -> Vec<String> {
    let calls = hook.setup.asks.then_some("seccomp");
    let killed = run.prepared.filters.map(|_| "sigsys");
    let relay = (run.policy.network == Network::Named).then_some(RELAY);
    let sources = calls.into_iter().chain(killed).chain(relay);
    sources.map(str::to_owned).collect()
}

/// The size limit of a reply.
pub(super) struct ReplyBudget {
    happened: bool,
    room: usize,
}

impl ReplyBudget {
    /// The room of a reply for all but output and texts.
    pub(super) const ENVELOPE: usize = 16 * 1024;

    fn new(max_reply_bytes: u64, verdict: &Verdict) -> Self {
        let texts = verdict.text_bytes();
        let room = usize::try_from(max_reply_bytes).unwrap_or(usize::MAX);
        Self {
            happened: false,
            room: room.saturating_sub(texts + Self::ENVELOPE),
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Bytes {
        let taken = bytes.len().min(self.room);
        self.room -= taken;
        self.happened |= taken < bytes.len();
        Bytes::copy_from_slice(&bytes[..taken])
    }
}

fn usage_message(usage: Usage) -> pb::Usage {
    let micros = |micros: u64| {
        let nanos = i32::try_from(micros % 1_000_000).unwrap_or(0) * 1_000;
        Some(prost_types::Duration {
            seconds: i64::try_from(micros / 1_000_000).unwrap_or(i64::MAX),
            nanos,
        })
    };
    pb::Usage {
        max_rss_bytes: usage.max_rss_bytes,
        queue: micros(usage.queue_us),
        run: micros(usage.run_us),
        setup: micros(usage.setup_us),
        sys: micros(usage.system_us),
        user: micros(usage.user_us),
        wall: micros(usage.wall_us),
    }
}

fn confinement(run: &Run, hook: &EndedHook) -> pb::Confinement {
    let evidence = |evidence: &sandbox::Evidence| pb::Evidence {
        axis: pb::Axis::Unspecified.into(),
        check: evidence.check.to_owned(),
        observed: evidence.observed.clone(),
    };
    pb::Confinement {
        axes: run
            .prepared
            .axes()
            .iter()
            .map(|(axis, coverage)| axis_report(axis, coverage, *run.policy.demands.get(axis)))
            .collect(),
        backend: run.prepared.backend.as_str().to_owned(),
        confirmed: hook.setup.confirmed,
        evidence: hook.setup.evidence.iter().map(evidence).collect(),
        landlock_abi: run.prepared.landlock_abi,
        passed_over: run.passed_over.iter().map(passed_over_message).collect(),
        profile: run.policy.name.to_string(),
        profile_digest: run.policy.digest.clone(),
        unconfined: !run.prepared.confines(),
    }
}

/// Encodes a backend that does not serve a profile.
pub(super) fn passed_over_message(passed_over: &sandbox::Skipped) -> pb::PassedOver {
    pb::PassedOver {
        backend: passed_over.backend.as_str().to_owned(),
        message: passed_over.refusal.message.clone(),
        reason: passed_over.refusal.reason.as_str().to_owned(),
    }
}

/// Encodes one axis.
pub(crate) fn axis_report(axis: Axis, coverage: &Coverage, demand: Demand) -> pb::AxisReport {
    let (kind, means, gap) = match *coverage {
        Coverage::Degraded { by: means, gap } => (pb::Coverage::Degraded, means, gap),
        Coverage::Enforced { by: means } => (pb::Coverage::Enforced, means, ""),
        Coverage::Ignored => (pb::Coverage::Ignored, "", "not enforced by this backend"),
    };
    pb::AxisReport {
        axis: axis_message(axis).into(),
        by: means.to_owned(),
        coverage: kind.into(),
        gap: gap.to_owned(),
        required: demand == Demand::Required,
    }
}

pub(super) const fn axis_message(axis: Axis) -> pb::Axis {
    match axis {
        Axis::Cpu => pb::Axis::Cpu,
        Axis::Devices => pb::Axis::Devices,
        Axis::Environment => pb::Axis::Environment,
        Axis::Execute => pb::Axis::Execute,
        Axis::Ipc => pb::Axis::Ipc,
        Axis::Memory => pb::Axis::Memory,
        Axis::Metadata => pb::Axis::Metadata,
        Axis::Network => pb::Axis::Network,
        Axis::Output => pb::Axis::Output,
        Axis::Pids => pb::Axis::Pids,
        Axis::Read => pb::Axis::Read,
        Axis::Spawn => pb::Axis::Spawn,
        Axis::Time => pb::Axis::Time,
        Axis::Write => pb::Axis::Write,
    }
}

const fn outcome_kind(kind: OutcomeKind) -> pb::OutcomeKind {
    match kind {
        OutcomeKind::Canceled => pb::OutcomeKind::Canceled,
        OutcomeKind::EscapeAttempt => pb::OutcomeKind::EscapeAttempt,
        OutcomeKind::ExecFailed => pb::OutcomeKind::ExecFailed,
        OutcomeKind::Exited => pb::OutcomeKind::Exited,
        OutcomeKind::Killed => pb::OutcomeKind::Killed,
        OutcomeKind::OutOfMemory => pb::OutcomeKind::OutOfMemory,
        OutcomeKind::OutputLimit => pb::OutcomeKind::OutputLimit,
        OutcomeKind::PidsExhausted => pb::OutcomeKind::PidsExhausted,
        OutcomeKind::Signaled => pb::OutcomeKind::Signaled,
        OutcomeKind::TimedOut => pb::OutcomeKind::TimedOut,
    }
}

/// Encodes a contract's own event.
pub(super) fn event_message(event: &ContractEvent) -> pb::ContractEvent {
    pb::ContractEvent {
        display: event.display().unwrap_or_default(),
        json: event.json.to_string(),
        name: event.name.to_owned(),
    }
}

/// Encodes a message to deliver.
pub(super) fn push_message(push: &Push) -> pb::Push {
    pb::Push {
        message: push.message.clone(),
        name: push.name.clone(),
        session: push.session.clone(),
        wake: push.wake,
    }
}

/// Encodes a verdict.
///
/// `sandbox_denied`: whether confinement denied the hook anything. `lifetime`: the validity of context at the point.
pub(super) fn verdict_message(
    verdict: &Verdict,
    sandbox_denied: bool,
    lifetime: Option<Lifetime>,
) -> pb::Verdict {
    let decision = match verdict.decision {
        Decision::Allow => pb::Decision::Allow,
        Decision::Ask => pb::Decision::Ask,
        Decision::Block => pb::Decision::Block,
        Decision::Deny => pb::Decision::Deny,
        Decision::None => pb::Decision::None,
    };
    let json = |value: &Option<Json>| value.as_ref().map(|value| value.as_str().to_owned());
    pb::Verdict {
        blocked_by: verdict
            .blocked_by
            .map_or(pb::BlockedBy::Unspecified, blocked_by)
            .into(),
        decision: decision.into(),
        failed: verdict.failed,
        additional_context: verdict.additional_context.clone(),
        context_lifetime: match lifetime.filter(|_| !verdict.additional_context.is_empty()) {
            None => pb::ContextLifetime::Unspecified,
            Some(Lifetime::Session) => pb::ContextLifetime::Session,
            Some(Lifetime::Turn) => pb::ContextLifetime::Turn,
        }
        .into(),
        metadata_json: json(&verdict.metadata),
        output: verdict.output.clone(),
        priority: verdict.priority,
        push: verdict.push.as_ref().map(push_message),
        reason: verdict.reason.clone(),
        recorded_block: verdict.recorded_block,
        sandbox_denied,
        skip_reason: verdict
            .skip
            .map(|skip| skip.as_string())
            .unwrap_or_default(),
        stop_reason: verdict.stop_reason.clone(),
        summary: verdict.summary.clone(),
        suppress_output: verdict.suppress_output,
        system_message: verdict.system_message.clone(),
        updated_input_json: json(&verdict.updated_input),
        updated_messages_json: json(&verdict.updated_messages),
        updated_output_json: json(&verdict.updated_output),
        warnings: verdict.warnings.clone(),
    }
}

/// Encodes a text to hand to the model later.
pub(super) fn reminder_message(reminder: &Reminder) -> pb::Reminder {
    pb::Reminder {
        hook_name: reminder.hook_name.clone(),
        kind: reminder.kind.as_str().to_owned(),
        text: reminder.text.clone(),
    }
}

const fn blocked_by(cause: BlockedBy) -> pb::BlockedBy {
    match cause {
        BlockedBy::ContinueFalse => pb::BlockedBy::ContinueFalse,
        BlockedBy::Decision => pb::BlockedBy::Decision,
        BlockedBy::ExitCode => pb::BlockedBy::ExitCode,
        BlockedBy::InvalidOutput => pb::BlockedBy::InvalidOutput,
        BlockedBy::PermissionDecision => pb::BlockedBy::PermissionDecision,
        BlockedBy::Signal => pb::BlockedBy::Signal,
        BlockedBy::SpawnError => pb::BlockedBy::SpawnError,
        BlockedBy::Timeout => pb::BlockedBy::Timeout,
    }
}
