//! The two stages that write: announcing a run before it starts, recording its end before it is answered.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    chain::sha256,
    journal::{Appended, Journal},
    record::{self, AxisLine, Record},
};
use crate::{
    admission::{Call, Peer},
    contract::{ContractEvent, End, EndKind, Verdict, tighten},
    policy::Plan,
    process::{Captured, Cause, Chunk},
    refusal::{Reason, Refusal, Stop, chain},
    request::{Command, Request},
    sandbox,
    sys::WaitStatus,
};

/// The journal as the pipeline uses it: once a record could not be written, no run is announced any more.
#[derive(Debug)]
pub struct Audit {
    broken: CancellationToken,
    journal: Journal,
}

/// A plan whose start record is written.
///
/// Only [`Audit::start`] makes one.
#[derive(Debug)]
#[must_use]
pub struct Announced {
    plan: Plan,
}

impl Announced {
    /// Returns the plan.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Takes the place where output goes as it comes.
    pub const fn take_chunks(&mut self) -> Option<mpsc::Sender<Chunk>> {
        self.plan.admitted.call.chunks.take()
    }
}

/// A run's end and what it means.
#[derive(Debug)]
pub struct Interpreted {
    /// The end.
    pub ended: sandbox::Ended,
    /// The contract's own event.
    pub event: Option<ContractEvent>,
    /// How it ended, in the terms of the reply.
    pub outcome: record::OutcomeKind,
    /// What it means.
    pub verdict: Verdict,
}

impl Interpreted {
    /// Reads a run's end under its contract.
    pub fn of(ended: sandbox::Ended) -> Self {
        let admitted = &ended.announced.plan.admitted;
        let request = &admitted.request;
        let nothing = Captured::default();
        let (outcome, kind, stdout, stderr) = match &ended.end {
            sandbox::End::ExecFailed(_) => (
                record::OutcomeKind::ExecFailed,
                EndKind::ExecFailed,
                &nothing,
                &nothing,
            ),
            sandbox::End::Ran(ran) => {
                let (outcome, kind) = kinds(ran.cause, ran.leader.map(|leader| leader.status));
                (outcome, kind, &ran.stdout, &ran.stderr)
            }
        };
        let end = End {
            command: &admitted.command,
            kind,
            name: &request.hook.name,
            point: &request.event.point,
            stderr: &stderr.head,
            stdout: &stdout.head,
            stdout_truncated: stdout.truncated(),
        };
        let verdict = tighten(request.contract.interpret(&end), request.on_failure);
        let event = request.contract.event(&end);
        Self {
            event,
            outcome,
            verdict,
            ended,
        }
    }
}

/// Names an end: from the wait status and from who ended it, never from code ranges.
fn kinds(cause: Cause, status: Option<WaitStatus>) -> (record::OutcomeKind, EndKind) {
    use record::OutcomeKind;
    match (cause, status) {
        (Cause::Canceled, _) => (OutcomeKind::Canceled, EndKind::Canceled),
        (Cause::Deadline, _) => (OutcomeKind::TimedOut, EndKind::TimedOut),
        (Cause::OutputLimit, _) => (OutcomeKind::OutputLimit, EndKind::OutputLimit),
        (Cause::Itself, Some(WaitStatus::Exited(code))) => {
            (OutcomeKind::Exited, EndKind::Exited(code))
        }
        (Cause::Itself, Some(WaitStatus::Signaled(signal))) if signal == libc::SIGSYS => {
            (OutcomeKind::EscapeAttempt, EndKind::Signaled(signal))
        }
        (Cause::Itself, Some(WaitStatus::Signaled(signal))) => {
            (OutcomeKind::Signaled, EndKind::Signaled(signal))
        }
        // It ended, but its status was lost: nothing may be read into that.
        (Cause::Itself, None) => (OutcomeKind::Signaled, EndKind::Signaled(libc::SIGKILL)),
    }
}

/// An answer whose record is written.
///
/// Only [`Audit::end`] and [`Audit::refuse`] make one, so an answer cannot be given unaudited.
#[derive(Debug)]
#[must_use]
pub struct Recorded {
    answer: Answer,
    request_id: String,
}

/// What is answered.
#[derive(Debug)]
pub enum Answer {
    /// Something broke on our side.
    Fault,
    /// The hook ran to an end.
    Outcome {
        /// Where the end record is.
        at: Appended,
        /// The end.
        interpreted: Box<Interpreted>,
    },
    /// The hook was not run.
    Refusal(Refusal),
}

impl Recorded {
    /// Returns what is answered.
    pub const fn answer(&self) -> &Answer {
        &self.answer
    }

    /// Returns the request's id.
    pub fn request_id(&self) -> &str {
        &self.request_id
    }
}

/// Who asked for what: all that is known of a request that is refused.
#[derive(Clone, Debug)]
pub struct About {
    command: Option<record::Command>,
    hook: String,
    peer: Peer,
    profile: Option<String>,
    request_id: String,
    run_id: String,
}

impl About {
    /// Notes who asked for what.
    pub fn request(call: &Call, request: &Request) -> Self {
        let command = match &request.hook.command {
            Command::Argv(argv) => record::Command::new(argv),
            Command::Line { shell: _, text } => record::Command::new(&[text.into()]),
        };
        Self {
            command: Some(command),
            hook: request.hook.name.clone(),
            profile: request.profile.as_ref().map(ToString::to_string),
            ..Self::malformed(call, &request.id)
        }
    }

    /// Notes who asked, where the request itself was not understood.
    pub fn malformed(call: &Call, request_id: &str) -> Self {
        Self {
            command: None,
            hook: String::new(),
            peer: call.peer,
            profile: None,
            request_id: request_id.to_owned(),
            run_id: call.run_id.clone(),
        }
    }
}

impl Audit {
    /// Writes to a journal.
    pub fn new(journal: Journal) -> Self {
        Self {
            broken: CancellationToken::new(),
            journal,
        }
    }

    /// Waits until a record could not be written.
    pub async fn broke(&self) {
        self.broken.cancelled().await;
    }

    /// Whether a record could not be written, so that nothing runs any more.
    pub fn is_broken(&self) -> bool {
        self.broken.is_cancelled()
    }

    /// Writes the start record.
    ///
    /// # Errors
    ///
    /// Refuses where it cannot be written: a run that cannot be recorded does not start.
    pub fn start(&self, plan: Plan) -> Result<Announced, Stop> {
        if self.is_broken() {
            let why = "an earlier record could not be written; restart the daemon";
            return Err(unavailable(why).into());
        }
        let record = Record::Started(Box::new(started(&plan)));
        match self.journal.append(&record) {
            Ok(_) => Ok(Announced { plan }),
            Err(error) => {
                let why = chain(&error);
                tracing::error!(
                    error = why,
                    "start record cannot be written; the hook is not run"
                );
                Err(unavailable(&why).into())
            }
        }
    }

    /// Writes the end record of a run.
    pub fn end(&self, interpreted: Interpreted) -> Recorded {
        let request_id = interpreted.ended.announced.plan.admitted.request.id.clone();
        let record = Record::Ended(Box::new(ended(&interpreted)));
        let answer = match self.journal.append(&record) {
            Ok(at) => Answer::Outcome {
                at,
                interpreted: Box::new(interpreted),
            },
            Err(error) => {
                let why = chain(&error);
                self.broken.cancel();
                tracing::error!(
                    error = why,
                    "end record cannot be written; no hook is run any more"
                );
                let refusal = unavailable(&format!("the hook ran, but its end record: {why}"));
                Answer::Refusal(refusal.with("released", "true"))
            }
        };
        Recorded { answer, request_id }
    }

    /// Writes down that a request was not run, and why.
    pub fn refuse(&self, about: About, stop: Stop) -> Recorded {
        let (reason, message, answer) = match stop {
            Stop::Refusal(refusal) => (
                refusal.reason.as_str(),
                refusal.message.clone(),
                Answer::Refusal(refusal),
            ),
            Stop::Fault(fault) => {
                let message = chain(&fault);
                tracing::error!(
                    error = message,
                    request = about.request_id,
                    "request failed"
                );
                ("FAULT", message, Answer::Fault)
            }
        };
        let About {
            command,
            hook,
            peer,
            profile,
            request_id,
            run_id,
        } = about;
        let record = Record::Refused(Box::new(record::Refused {
            command,
            hook,
            message,
            peer: record::Peer {
                pid: peer.pid,
                uid: peer.uid,
            },
            profile,
            reason: reason.to_owned(),
            request_id: request_id.clone(),
            run_id: Some(run_id),
        }));
        let answer = match self.journal.append(&record) {
            Ok(_) => answer,
            Err(error) => {
                let why = chain(&error);
                tracing::error!(error = why, "refusal cannot be recorded");
                Answer::Refusal(unavailable(&why))
            }
        };
        Recorded { answer, request_id }
    }
}

fn unavailable(why: &str) -> Refusal {
    let message = format!(
        "the audit journal cannot be written ({why}); make room or mend it, without it nothing runs"
    );
    Refusal::new(Reason::AuditUnavailable, message)
}

fn started(plan: &Plan) -> record::Started {
    let admitted = &plan.admitted;
    let request = &admitted.request;
    let call = &admitted.call;
    let digest = |d: &crate::admission::allowlist::Digest| record::FileDigest {
        path: d.path.clone(),
        role: d.role.name().to_owned(),
        sha256: d.sha256.clone(),
    };
    record::Started {
        axes: axes(plan),
        backend: plan.prepared.backend.as_str().to_owned(),
        command: record::Command::new(&admitted.program.argv),
        consent: admitted.consent,
        contract: request.contract.contract_name().to_owned(),
        digests: admitted.program.digests.iter().map(digest).collect(),
        environment: request.hook.env.keys().cloned().collect(),
        event_bytes: plan.stdin.len() as u64,
        event_sha256: sha256(&plan.stdin),
        hook: request.hook.name.clone(),
        mode: request.contract.mode_name().to_owned(),
        peer: record::Peer {
            pid: call.peer.pid,
            uid: call.peer.uid,
        },
        point: request.event.point.clone(),
        profile: plan.policy.name.to_string(),
        profile_digest: admitted.policy.digest.clone(),
        program: admitted.program.path.display().to_string(),
        request_id: request.id.clone(),
        run_id: call.run_id.clone(),
        session: request.session.clone(),
        timeout_ms: u64::try_from(plan.timeout.as_millis()).unwrap_or(u64::MAX),
        working_dir: request
            .hook
            .working_dir
            .as_ref()
            .map(|path| path.display().to_string()),
    }
}

fn ended(interpreted: &Interpreted) -> record::Ended {
    let sandbox::Ended {
        announced,
        end,
        setup,
    } = &interpreted.ended;
    let plan = announced.plan();
    let (stdout, stderr) = match end {
        sandbox::End::Ran(ran) => (stream(&ran.stdout), stream(&ran.stderr)),
        sandbox::End::ExecFailed(_) => (stream(&Captured::default()), stream(&Captured::default())),
    };
    let verdict = &interpreted.verdict;
    record::Ended {
        confirmed: setup.confirmed,
        evidence: setup
            .evidence
            .iter()
            .map(|e| format!("{}={}", e.check, e.observed))
            .collect(),
        exit_code: interpreted.ended.exit_code(),
        outcome: interpreted.outcome,
        released: true,
        run_id: plan.admitted.call.run_id.clone(),
        signal: interpreted.ended.signal(),
        stderr,
        stdout,
        usage: usage(&interpreted.ended),
        verdict: Some(record::VerdictLine {
            blocked_by: verdict.blocked_by.map(|by| by.as_str().to_owned()),
            decision: verdict.decision.as_str().to_owned(),
            failed: verdict.failed,
            skip_reason: verdict.skip.map(|skip| skip.as_string()),
        }),
    }
}

/// Returns what a run took.
pub fn usage(ended: &sandbox::Ended) -> record::Usage {
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    let admitted = &ended.announced.plan.admitted;
    let before_release = ended
        .setup
        .released
        .saturating_duration_since(admitted.call.arrived);
    let (run, leader) = match &ended.end {
        sandbox::End::Ran(ran) => (ran.wall, ran.leader),
        sandbox::End::ExecFailed(_) => (Duration::ZERO, None),
    };
    record::Usage {
        max_rss_bytes: leader.map_or(0, |leader| leader.max_rss_bytes),
        queue_us: micros(admitted.queued),
        run_us: micros(run),
        setup_us: micros(before_release.saturating_sub(admitted.queued)),
        system_us: leader.map_or(0, |leader| micros(leader.system)),
        user_us: leader.map_or(0, |leader| micros(leader.user)),
        wall_us: micros(before_release + run),
    }
}

fn axes(plan: &Plan) -> Vec<AxisLine> {
    plan.prepared
        .axes
        .iter()
        .map(|(axis, coverage)| AxisLine::new(axis, *plan.policy.demands.of(axis), coverage))
        .collect()
}

fn stream(captured: &Captured) -> record::Stream {
    record::Stream {
        sha256: Some(sha256(&captured.head)),
        total_bytes: captured.total,
        truncated: captured.truncated(),
    }
}
