//! The two stages that write: announcing a run before it starts, recording its end before it is answered.

use std::{io, path::Path, sync::Arc, time::Duration};

use jiff::Timestamp;
use nix::errno::Errno;
use tokio::{
    sync::{mpsc, watch},
    time::{sleep_until, timeout},
};

use super::{
    chain::sha256,
    earlier::Earlier,
    journal::{Appended, Journal},
    record::{self, AxisLine, Record},
    redaction::{CurrentRedaction, Redaction, Shown},
    writer::{Problem, Writer},
};
use crate::{
    admission::{Call, Peer, allowlist::typed},
    contract::{Bearing, ContractEvent, End, EndKind, Entry, Json, Verdict},
    heavy,
    model::Command,
    policy::Plan,
    process::{Captured, Cause, Chunk},
    redact::{MARKER_BYTES, Redactor},
    refusal::{Reason, Refusal, Stop, canceled, chain},
    request::Request,
    sandbox,
    sys::WaitStatus,
};

/// The journal as the pipeline uses it: while an end could not be written, no run is announced.
#[derive(Debug)]
pub struct Audit {
    earlier: Earlier,
    redaction: CurrentRedaction,
    writer: Writer,
}

/// How long an answer waits for its record, beyond the run's deadline: a disk may hang. The record is written all the same as soon
/// as it can be, and nothing new starts before.
const PATIENCE: Duration = Duration::from_secs(10);

/// A plan whose start record is written.
///
/// Only [`Audit::start`] makes one.
#[derive(Debug)]
#[must_use]
pub struct Announced {
    /// Boxed: it is handed on often, by futures each of which would hold a copy for as long as the hook runs.
    plan: Box<Plan>,
}

impl Announced {
    /// Returns the plan.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Lets go of what the plan's hook was started with.
    pub(crate) fn started(&mut self) {
        self.plan.started();
    }

    /// Takes the place where output goes as it comes. There is none under a profile that takes secrets out of replies: one
    /// may begin in one piece and end in the next, and all of the output is in the response.
    pub fn take_chunks(&mut self) -> Option<mpsc::Sender<Chunk>> {
        let chunks = self.plan.admitted.call.chunks.take();
        chunks.filter(|_| !self.plan.policy.redact_output)
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
    /// What the reply says instead of what the hook did, where the profile has secrets taken out.
    pub redacted: Option<Redacted>,
    /// What it means.
    pub verdict: Verdict,
}

/// What a reply shows where the profile has secrets taken out of it.
#[derive(Debug)]
pub struct Redacted {
    redaction: Arc<Redaction>,
    /// What the hook wrote to stderr.
    pub stderr: Shown,
    /// What the hook wrote to stdout.
    pub stdout: Shown,
}

impl Redacted {
    /// Returns what takes the secrets out.
    pub fn redactor(&self) -> &Redactor {
        &self.redaction.redactor
    }
}

impl Interpreted {
    /// How much the hook wrote, of what is kept.
    fn output_bytes(&self) -> usize {
        self.ended.output_bytes()
    }

    /// Reads a run's end under its contract. What the hook wrote is read as it is; secrets are taken out of what came of it.
    pub fn of(ended: sandbox::Ended, redaction: Arc<Redaction>) -> Self {
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
        let (error, took) = match &ended.end {
            sandbox::End::ExecFailed(errno) => (Errno::from_raw(*errno).desc(), None),
            sandbox::End::Ran(ran) => ("", Some(ran.wall)),
        };
        let mut end = End {
            at: Some(Timestamp::now()),
            bearing: bearing(&ended, outcome),
            command: match &request.hook.command {
                Command::Argv(_) => &admitted.command,
                Command::Line { text, .. } => text,
            },
            duration: took,
            entry: Entry {
                timeout: Some(admitted.timeout),
                ..request.entry
            },
            error,
            kind,
            name: &request.hook.name,
            point: &request.event.point,
            session: &request.session,
            stderr: &stderr.head,
            stdout: &stdout.head,
            stdout_truncated: stdout.truncated(),
            turn: request.envelope.turn,
        };
        request.contract.cap(&mut end);
        // A reply holds more than a verdict, and what its caller cannot take would reach nobody.
        let room = usize::try_from(request.max_reply_bytes / 2).unwrap_or(usize::MAX);
        let judge = |room| {
            request
                .contract
                .judge_within(room, &end, request.on_failure)
        };
        let mut verdict = judge(room);
        let mut event = request.contract.event(&end);
        let redacts = ended.announced.plan.policy.redact_output;
        let redacted = redacts.then(|| {
            let redactor = &redaction.redactor;
            verdict.redact(redactor);
            if verdict.text_bytes() > room {
                verdict = judge(room / MARKER_BYTES);
                verdict.redact(redactor);
            }
            if let Some(event) = &mut event {
                event.redact(redactor);
            }
            Redacted {
                stderr: Shown::of(stderr, redactor),
                stdout: Shown::of(stdout, redactor),
                redaction,
            }
        });
        Self {
            event,
            outcome,
            redacted,
            verdict,
            ended,
        }
    }
}

/// Says how far confinement bore on an end, as far as that is known.
fn bearing(ended: &sandbox::Ended, outcome: record::OutcomeKind) -> Bearing {
    if !ended.announced.plan.prepared.confines() {
        Bearing::Unknown
    } else if ended.denied.is_denied_a_process() {
        Bearing::ProcessDenied
    } else if ended.denied.is_denied() || outcome == record::OutcomeKind::EscapeAttempt {
        Bearing::Denied
    } else {
        Bearing::Confined
    }
}

/// Names an end: from the wait status and from who ended it, never from code ranges.
fn kinds(cause: Cause, status: Option<WaitStatus>) -> (record::OutcomeKind, EndKind) {
    use record::OutcomeKind;
    match (cause, status) {
        (Cause::Canceled, _) => (OutcomeKind::Canceled, EndKind::Canceled),
        (Cause::Deadline, _) => (OutcomeKind::TimedOut, EndKind::TimedOut),
        (Cause::OutOfMemory, _) => (OutcomeKind::OutOfMemory, EndKind::Signaled(libc::SIGKILL)),
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
    contract: &'static str,
    count: Option<u64>,
    hook: String,
    peer: Peer,
    point: String,
    profile: Option<String>,
    request_id: String,
    run_id: String,
    session: String,
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
            contract: request.contract.contract_name(),
            hook: request.hook.name.clone(),
            point: request.event.point.clone(),
            profile: request.profile.as_ref().map(ToString::to_string),
            session: request.session.clone(),
            ..Self::malformed(call, &request.id)
        }
    }

    /// Notes who asked, where the request itself was not understood.
    pub fn malformed(call: &Call, request_id: &str) -> Self {
        Self {
            command: None,
            contract: "",
            count: None,
            hook: String::new(),
            peer: call.peer,
            point: String::new(),
            profile: None,
            request_id: request_id.to_owned(),
            run_id: call.run_id.clone(),
            session: String::new(),
        }
    }

    /// Has one record stand for so many refusals of the same caller.
    #[must_use]
    pub fn counting(self, count: u64) -> Self {
        Self {
            count: Some(count),
            ..self
        }
    }
}

impl Audit {
    /// Writes to a journal, on a thread of its own.
    ///
    /// # Errors
    ///
    /// Returns the error of starting it.
    pub fn new(journal: Journal, redaction: Redaction) -> io::Result<Self> {
        let current = CurrentRedaction::default();
        current.replace(redaction);
        Ok(Self {
            earlier: Earlier::new(journal.directory(), journal.instance()),
            redaction: current,
            writer: Writer::start(journal)?,
        })
    }

    /// Returns where the journal is.
    pub fn directory(&self) -> &Path {
        self.writer.directory()
    }

    /// Returns the redaction that holds now, and will hold when it is replaced.
    pub const fn redaction(&self) -> &CurrentRedaction {
        &self.redaction
    }

    /// Returns what keeps records from being written, as it is now and whenever it changes.
    pub const fn problem(&self) -> &watch::Receiver<Option<Problem>> {
        self.writer.problem()
    }

    /// Says whether a start could be written down.
    ///
    /// # Errors
    ///
    /// Refuses while an end could not be written.
    pub fn ready(&self) -> Result<(), Refusal> {
        match &*self.problem().borrow() {
            Some(problem) => Err(unavailable(&problem.why)),
            None => Ok(()),
        }
    }

    /// Makes sure that no daemon before this one started what is asked for under an id of the caller's, as far as the journal tells.
    ///
    /// # Errors
    ///
    /// Refuses what was started, an id under which something else was, and where the journal cannot be read.
    pub async fn is_new(&self, call: &Call, request_id: &str) -> Result<(), Refusal> {
        let Some(named) = call.named else {
            return Ok(());
        };
        let mut id = request_id.to_owned();
        // As the record has it.
        self.redaction.get().redactor.clean(&mut id);
        match self.earlier.find(call, id, &hex(named)).await? {
            Some(refusal) => Err(refusal),
            None => Ok(()),
        }
    }

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
        let redaction = self.redaction.get();
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
                return Err(Refusal::new(Reason::Deadline, message).with("step", "journal").into());
            }
            written = written => written.map_err(|why| unavailable(&why.to_string()))?,
        };
        if !plan.prepared.confines() {
            let (hook, request) = (&plan.admitted.request.hook.name, &plan.admitted.request.id);
            tracing::warn!(hook, request, "a hook runs UNCONFINED");
        }
        Ok(Announced { plan })
    }

    /// Writes the end record of a run.
    pub async fn end(&self, interpreted: Box<Interpreted>) -> Recorded {
        let request_id = interpreted.ended.announced.plan.admitted.request.id.clone();
        let redaction = self.redaction.get();
        let (bytes, uid) = (interpreted.output_bytes(), interpreted.ended.uid());
        let (interpreted, record) = heavy::sized(uid, bytes, move || {
            let mut record = Record::Ended(Box::new(ended(&interpreted, &redaction)));
            redaction.clean(&mut record);
            (interpreted, record)
        })
        .await;
        let why = match timeout(PATIENCE, self.writer.end_of_run(record)).await {
            Ok(Ok(at)) => {
                let answer = Answer::Outcome { at, interpreted };
                return Recorded { answer, request_id };
            }
            Ok(Err(why)) => why.to_string(),
            Err(_) => waits(),
        };
        let refusal = unavailable(&format!("the hook ran, but its end record: {why}"));
        let answer = Answer::Refusal(refusal.released());
        Recorded { answer, request_id }
    }

    /// Writes down that a request was not run, and why.
    pub async fn refuse(&self, about: About, stop: Stop) -> Recorded {
        let redaction = self.redaction.get();
        let released =
            matches!(&stop, Stop::Refusal(refusal) if refusal.metadata.contains_key("released"));
        let (reason, message, answer) = match stop {
            Stop::Refusal(mut refusal) => {
                // Its words may go to a model, and quote the command.
                refusal.redact(&self.redaction.get().redactor);
                let (reason, mut message) = (refusal.reason.as_str(), refusal.message.clone());
                // Here an operator reads, and nobody else.
                if let Some(approve) = refusal.metadata.get_mut("approve") {
                    // Only now: a value is not known by its escapes.
                    *approve = typed(approve);
                    message.push_str(&format!("; to allow it: {approve}"));
                    let request = &about.request_id;
                    // To be typed as it stands, so without the quotes and escapes that a text gets here.
                    tracing::warn!(reason, request, %approve, "a hook that is not allowed");
                }
                (reason, message, Answer::Refusal(refusal))
            }
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
            contract,
            count,
            hook,
            peer,
            point,
            profile,
            request_id,
            run_id,
            session,
        } = about;
        let mut record = Record::Refused(Box::new(record::Refused {
            command,
            contract: contract.to_owned(),
            count,
            hook,
            message,
            peer: known(&peer),
            point,
            profile,
            reason: reason.to_owned(),
            released: released && reason != Reason::AlreadyRan.as_str(),
            request_id: request_id.clone(),
            run_id: Some(run_id),
            session,
        }));
        redaction.clean(&mut record);
        if let Record::Refused(refused) = &mut record {
            refused.cut();
        }
        // What says that the hook ran goes on to say so.
        let released = matches!(&answer, Answer::Refusal(refusal) if refusal.is_released());
        let unrecorded = |why: &str| {
            let refusal = unavailable(why);
            Answer::Refusal(if released {
                refusal.released()
            } else {
                refusal
            })
        };
        let answer = match timeout(PATIENCE, self.writer.refusal(record)).await {
            Ok(Ok(_)) => answer,
            Ok(Err(why)) => unrecorded(&why.to_string()),
            Err(_) => unrecorded(&waits()),
        };
        Recorded { answer, request_id }
    }
}

/// Says that a record is not written yet, which is no reason to give up.
fn waits() -> String {
    format!("it is not written after {} s", PATIENCE.as_secs())
}

fn unavailable(why: &str) -> Refusal {
    let message = format!(
        "the audit journal cannot be written ({why}); make room or mend it, without it nothing runs"
    );
    Refusal::new(Reason::AuditUnavailable, message)
}

/// Notes what is known of a caller.
const fn known(peer: &Peer) -> record::Peer {
    record::Peer {
        pid: peer.pid,
        uid: peer.uid,
    }
}

fn started(plan: &Plan, redaction: &Redaction) -> record::Started {
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

fn passed_over(passed_over: &sandbox::PassedOver) -> record::PassedOver {
    record::PassedOver {
        backend: passed_over.backend.as_str().to_owned(),
        message: passed_over.refusal.message.clone(),
        reason: passed_over.refusal.reason.as_str().to_owned(),
    }
}

fn ended(interpreted: &Interpreted, redaction: &Redaction) -> record::Ended {
    let sandbox::Ended {
        announced,
        denied,
        end,
        setup,
    } = &interpreted.ended;
    let plan = announced.plan();
    let nothing = Captured::default();
    let (stdout, stderr) = match end {
        sandbox::End::Ran(ran) => (&ran.stdout, &ran.stderr),
        sandbox::End::ExecFailed(_) => (&nothing, &nothing),
    };
    let capture = redaction.capture;
    let verdict = &interpreted.verdict;
    record::Ended {
        confirmed: setup.confirmed,
        denied: denied.names(),
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
        stderr: stream(stderr, redaction.output(capture.stderr, stderr)),
        stdout: stream(stdout, redaction.output(capture.stdout, stdout)),
        measures: {
            let request = &plan.admitted.request;
            request.contract.measures(&request.event.point, verdict)
        },
        unconfined: !plan.prepared.confines(),
        usage: usage(&interpreted.ended),
        event: interpreted.event.as_ref().map(|event| record::EventLine {
            fields: event.unquoted(),
            name: event.name.to_owned(),
        }),
        verdict: Some(record::VerdictLine {
            blocked_by: verdict.blocked_by.map(|by| by.as_str().to_owned()),
            contexts: verdict.additional_context.len(),
            decision: verdict.decision.as_str().to_owned(),
            failed: verdict.failed,
            skip_reason: verdict.skip.map(|skip| skip.as_string()),
            summary_sha256: verdict.summary.as_ref().map(|text| sha256(text.as_bytes())),
            updated_input_sha256: digest(verdict.updated_input.as_ref()),
            updated_messages_sha256: digest(verdict.updated_messages.as_ref()),
            updated_output_sha256: digest(verdict.updated_output.as_ref()),
            warnings: verdict.warnings.len(),
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
        .axes()
        .iter()
        .map(|(axis, coverage)| AxisLine::new(axis, *plan.policy.demands.of(axis), coverage))
        .collect()
}

/// Spells a digest as records do.
fn hex(digest: [u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the digest of what the caller gets in the place of what it sent.
fn digest(rewritten: Option<&Json>) -> Option<String> {
    rewritten.map(|json| sha256(json.as_str().as_bytes()))
}

fn stream(captured: &Captured, kept: Option<record::Kept>) -> record::Stream {
    record::Stream {
        kept,
        sha256: Some(sha256(&captured.head)),
        total_bytes: captured.total,
        truncated: captured.truncated(),
    }
}
