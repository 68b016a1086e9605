//! Recording: writes the end of a run, or its refusal, before the answer.

use std::{
    borrow::Cow,
    io,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::watch, time::timeout};

use hookjail_base::{
    model::{Backing, Captured, Command, Peer, axis::Axis},
    refusal::{Fact, Reason, Refusal, Stop, chain},
    util::heavy,
};
use hookjail_contract::Json;
use hookjail_journal::{
    CurrentRedaction, Problem, Redaction,
    append::{Appended, Journal},
    chain::sha256,
    earlier::Earlier,
    record::{self, Record},
    writer::{RefusalRecorded, Tally, Writer},
};
use hookjail_sandbox::{Connection, ConnectionEnd, End, EndedHook};

use super::{
    Call, Interpreted,
    call::early,
    refusal_log::{RefusalLog, RefusedCall},
};
use crate::{
    consent::allowlist::typed,
    metrics::Metrics,
    request::Request,
    summary::RunSummary,
    traces::{self, Facts, Stage, Trace},
};

/// The journal of the pipeline. While an end cannot be written, no run is announced.
#[derive(Debug)]
pub struct Audit {
    earlier: Earlier,
    metrics: Arc<Metrics>,
    redaction: CurrentRedaction,
    refusals: RefusalLog,
    pub(super) writer: Writer,
}

/// The most that an answer waits for its record: a disk may hang.
///
/// The record is written nevertheless as soon as it can be, and no hook starts before.
const RECORD_TIMEOUT: Duration = Duration::from_secs(10);

/// The most that an answer waits for its record beyond the deadline, and while records cannot be written.
const LATE_RECORD_TIMEOUT: Duration = Duration::from_secs(1);

/// The reason of a fault, as records and spans spell it.
const FAULT: &str = "FAULT";

/// An answer whose record is written, or that is counted in one which the journal's thread writes within a second.
///
/// Only `Audit::end` and `Audit::refuse` make one, so an answer cannot be given unaudited.
#[derive(Debug)]
#[must_use]
pub struct Recorded {
    answer: Answer,
    request_id: String,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// hookjail failed.
    Fault,
    /// The hook ran to an end.
    Outcome {
        /// The position of the end record.
        at: Appended,
        /// The end.
        interpreted: Box<Interpreted>,
    },
    /// The hook was not run.
    Refusal(Refusal),
}

impl Recorded {
    /// Returns the answer.
    pub(crate) const fn answer(&self) -> &Answer {
        &self.answer
    }

    /// Returns the request's id.
    pub(crate) fn request_id(&self) -> &str {
        &self.request_id
    }
}

/// Caller and command of a request, as far as known.
#[derive(Clone, Debug)]
pub(crate) struct About {
    /// Program and arguments, or the line.
    pub(crate) command: Option<record::CommandLine>,
    /// The contract's name.
    pub(crate) contract: &'static str,
    count: Option<u64>,
    /// The hook's name.
    pub(crate) hook: String,
    /// The operator who killed the run.
    pub(super) killed_by: Option<Peer>,
    /// The caller.
    pub(crate) peer: Peer,
    /// The lifecycle point.
    pub(crate) point: String,
    /// The profile that the request names.
    pub(crate) profile: Option<String>,
    /// The caller's id of the request.
    pub(crate) request_id: String,
    /// The run's id.
    pub(crate) run_id: String,
    /// The session.
    pub(crate) session: String,
    trace: Option<Arc<Trace>>,
    /// The deadline, where one is known.
    pub(super) until: Option<Instant>,
    /// The workspace that the request names.
    workspace: Option<String>,
}

impl About {
    /// Describes a decoded request and its caller.
    pub(crate) fn request(call: &Call, request: &Request) -> Self {
        let command = match &request.hook.command {
            Command::Argv(argv) => record::CommandLine::new(argv),
            Command::Line { shell: _, text } => record::CommandLine::new(&[text.into()]),
        };
        Self {
            command: Some(command),
            contract: request.contract.facts().contract,
            hook: request.hook.name.clone(),
            point: request.event.point.clone(),
            profile: request.profile.as_ref().map(ToString::to_string),
            session: request.session.clone(),
            workspace: request.hook.workspace_text(),
            ..Self::malformed(call, &request.id)
        }
    }

    /// Describes the caller of a request that could not be decoded.
    pub(crate) fn malformed(call: &Call, request_id: &str) -> Self {
        Self {
            command: None,
            contract: "",
            count: None,
            hook: String::new(),
            killed_by: None,
            peer: call.peer.clone(),
            point: String::new(),
            profile: None,
            request_id: request_id.to_owned(),
            run_id: call.run_id.clone(),
            session: String::new(),
            trace: call.trace.clone(),
            until: call.caller_timeout.map(|wait| call.arrived + early(wait)),
            workspace: None,
        }
    }

    /// Returns the description without registered secrets, with a command of at most `most` bytes.
    pub(super) fn redacted(&self, redaction: &Redaction, most: usize) -> Self {
        let mut about = self.clone();
        let Self {
            command,
            contract: _,
            count: _,
            hook,
            killed_by: _,
            peer: _,
            point,
            profile,
            request_id,
            run_id: _,
            session,
            trace: _,
            until: _,
            workspace,
        } = &mut about;
        let words = command.iter_mut().flat_map(|command| &mut command.argv);
        [hook, point, request_id, session]
            .into_iter()
            .chain(profile)
            .chain(workspace)
            .chain(words)
            .for_each(|text| redaction.redactor.clean(text));
        // Afterwards: a secret that is cut through would not be found.
        if let Some(command) = command {
            command.cut(most);
        }
        about
    }

    /// Sets contract and point.
    #[must_use]
    pub(crate) fn at_point(self, contract: &'static str, point: String) -> Self {
        Self {
            contract,
            point,
            ..self
        }
    }

    /// Sets the number of refusals of the same caller in one record.
    #[must_use]
    pub(crate) fn counting(self, count: u64) -> Self {
        Self {
            count: Some(count),
            ..self
        }
    }
}

impl Audit {
    /// Starts the thread that writes to a journal.
    ///
    /// # Errors
    ///
    /// Fails where the thread cannot be started.
    pub(crate) fn new(
        journal: Journal,
        metrics: Arc<Metrics>,
        redaction: Redaction,
    ) -> io::Result<Self> {
        let current = CurrentRedaction::default();
        current.replace(redaction);
        Ok(Self {
            earlier: Earlier::new(journal.directory(), journal.instance()),
            metrics,
            redaction: current,
            refusals: RefusalLog::default(),
            writer: Writer::start(journal)?,
        })
    }

    /// Returns the journal's directory.
    pub(crate) fn directory(&self) -> &Path {
        self.writer.directory()
    }

    /// Returns the current redaction, which follows replacements.
    pub(crate) const fn redaction(&self) -> &CurrentRedaction {
        &self.redaction
    }

    /// Returns the number of written records and of failures.
    pub(crate) fn tally(&self) -> &Tally {
        self.writer.tally()
    }

    /// Returns the lines of the log about refusals.
    pub(crate) const fn refusals(&self) -> &RefusalLog {
        &self.refusals
    }

    /// Returns the current problem of the journal and its changes.
    pub(crate) const fn problem(&self) -> &watch::Receiver<Option<Problem>> {
        self.writer.problem()
    }

    /// Returns a text without registered secrets.
    pub(crate) fn redacted(&self, mut text: String) -> String {
        self.redaction.get().redactor.clean(&mut text);
        text
    }

    /// Checks that the journal can record a start.
    ///
    /// # Errors
    ///
    /// Refuses while the journal has a problem.
    pub(crate) fn ready(&self) -> Result<(), Refusal> {
        match &*self.problem().borrow() {
            Some(problem) => Err(unavailable(&problem.why)),
            None => Ok(()),
        }
    }

    /// Checks that no earlier daemon started this idempotency key, by the journal.
    ///
    /// # Errors
    ///
    /// Refuses a request that was started before, an id that was used for another request, and where the journal cannot be read.
    pub(crate) async fn is_new(&self, call: &Call, request_id: &str) -> Result<(), Refusal> {
        let Some(named) = call.named else {
            return Ok(());
        };
        let mut id = request_id.to_owned();
        // As the record spells it.
        self.redaction.get().redactor.clean(&mut id);
        match self.earlier.find(call.peer.uid, id, &hex(named)).await? {
            Some(refusal) => Err(refusal),
            None => Ok(()),
        }
    }

    /// Returns how long an answer may wait for its record.
    fn patience(&self, until: Option<Instant>) -> Duration {
        let left = until.map_or(RECORD_TIMEOUT, |until| {
            until.saturating_duration_since(Instant::now()) + LATE_RECORD_TIMEOUT
        });
        let most = if self.problem().borrow().is_some() {
            LATE_RECORD_TIMEOUT
        } else {
            RECORD_TIMEOUT
        };
        left.min(most)
    }

    /// Writes the end record of a run.
    pub(crate) async fn end(&self, interpreted: Box<Interpreted>) -> Recorded {
        let traced = self.count(&interpreted);
        let request_id = interpreted.run.request.id.clone();
        let redaction = self.redaction.get();
        let Interpreted { hook, run, .. } = &*interpreted;
        let (bytes, uid) = (hook.end.output_bytes(), run.peer.uid);
        let (interpreted, record) = heavy::sized(uid, bytes, move || {
            let mut record = Record::Ended(Box::new(ended(&interpreted, &redaction)));
            redaction.clean(&mut record);
            (interpreted, record)
        })
        .await;
        let patience = self.patience(Some(interpreted.run.deadline));
        let why = match timeout(patience, self.writer.end_of_run(record)).await {
            Ok(Ok(position)) => {
                let answer = Answer::Outcome {
                    at: position,
                    interpreted,
                };
                if let Some((trace, facts)) = traced {
                    trace.end(facts);
                }
                return Recorded { answer, request_id };
            }
            Ok(Err(why)) => why.to_string(),
            Err(_) => waits(),
        };
        let refusal = unavailable(&format!("the hook ran, but its end record: {why}"));
        self.metrics.refused(refusal.reason, 1);
        let run = &interpreted.run;
        self.refusals.refused(&RefusedCall {
            approve: None,
            count: 1,
            peer: &run.peer,
            profile: Some(run.policy.name.as_str()),
            reason: refusal.reason,
            run: &run.id,
        });
        if let Some((trace, facts)) = traced {
            trace.end(Facts {
                error: Some(refusal.reason.as_str()),
                ..facts
            });
        }
        let answer = Answer::Refusal(refusal.released());
        Recorded { answer, request_id }
    }

    /// Counts a run. Returns its trace with the facts of its spans, if these are exported.
    fn count(&self, interpreted: &Interpreted) -> Option<(Arc<Trace>, Facts)> {
        let Interpreted { hook, run, .. } = interpreted;
        let summary = interpreted.summary();
        let axes = run.prepared.axes();
        let denied = hook.connections.denied().count() as u64;
        let denials = hook.denied.by_axis();
        let denials = denials.chain([(Some(Axis::Network), denied)]);
        self.metrics.ended(&summary, axes, denials);
        self.metrics.connected(&hook.connections);
        let trace = run.trace.as_ref();
        traces::reach(trace, Stage::Record);
        let trace = trace.filter(|trace| trace.is_recorded())?;
        let facts = Facts {
            contract: summary.contract.facts().contract,
            point: self.redacted(run.request.event.point.clone()),
            profile: Some(summary.profile.to_string()),
            run: Some(Box::new(summary)),
            run_id: run.id.clone(),
            ..Facts::default()
        };
        Some((Arc::clone(trace), facts))
    }

    /// Records a request that was not run, with the reason. Of one uid's many some are counted together.
    pub(crate) async fn refuse(&self, about: About, stop: Stop) -> Recorded {
        traces::reach(about.trace.as_ref(), Stage::Record);
        let traced = about.trace.clone().filter(|trace| trace.is_recorded());
        let traced = traced.map(|trace| {
            let facts = Facts {
                contract: about.contract,
                point: self.redacted(about.point.clone()),
                profile: about.profile.clone(),
                run_id: about.run_id.clone(),
                ..Facts::default()
            };
            (trace, facts)
        });
        let redaction = self.redaction.get();
        let released = matches!(&stop, Stop::Refusal(refusal) if refusal.is_released());
        let (reason, message, answer) = match stop {
            Stop::Refusal(refusal) => {
                let (message, refusal) = refused(refusal, &redaction);
                (refusal.reason.as_str(), message, Answer::Refusal(refusal))
            }
            Stop::Fault(fault) => {
                let message = chain(&fault);
                let (request, run) = (&about.request_id, &about.run_id);
                self.refusals.failed(about.peer.uid, request, run, &message);
                (FAULT, message, Answer::Fault)
            }
        };
        let About {
            command,
            contract,
            count,
            hook,
            killed_by,
            peer,
            point,
            profile,
            request_id,
            run_id,
            session,
            trace,
            until,
            workspace,
        } = about;
        let mut record = Box::new(record::Refused {
            command,
            contract: contract.to_owned(),
            count,
            hook,
            killed_by: killed_by.as_ref().map(known),
            message,
            peer: known(&peer),
            point,
            profile: profile.clone(),
            reason: reason.to_owned(),
            released: released && reason != Reason::AlreadyRan.as_str(),
            request_id: request_id.clone(),
            run_id: Some(run_id.clone()),
            session,
            trace: trace.as_ref().map(trace_id),
            workspace,
        });
        redaction.clean_refusal(&mut record);
        record.cut();
        // A refusal of a released hook stays one.
        let released = matches!(&answer, Answer::Refusal(refusal) if refusal.is_released());
        let unrecorded = |why: &str| {
            let refusal = unavailable(why);
            Answer::Refusal(if released {
                refusal.released()
            } else {
                refusal
            })
        };
        let answer = match timeout(self.patience(until), self.writer.refusal(record)).await {
            Ok(Ok(RefusalRecorded { .. })) => answer,
            Ok(Err(why)) => unrecorded(&why.to_string()),
            Err(_) => unrecorded(&waits()),
        };
        match &answer {
            Answer::Fault => self.metrics.failed(),
            Answer::Outcome { .. } => {}
            Answer::Refusal(refusal) => {
                let count = count.unwrap_or(1);
                self.metrics.refused(refusal.reason, count);
                self.refusals.refused(&RefusedCall {
                    approve: refusal.approve(),
                    count,
                    peer: &peer,
                    profile: profile.as_deref(),
                    reason: refusal.reason,
                    run: &run_id,
                });
            }
        }
        if let Some((trace, facts)) = traced {
            let error = match &answer {
                Answer::Fault => Some(FAULT),
                Answer::Outcome { .. } => None,
                Answer::Refusal(refusal) => Some(refusal.reason.as_str()),
            };
            trace.end(Facts { error, ..facts });
        }
        Recorded { answer, request_id }
    }
}

/// Redacts a refusal. Returns its record's message, too.
///
/// That message has the command that allows the hook, which is for an operator alone.
fn refused(mut refusal: Refusal, redaction: &Redaction) -> (String, Refusal) {
    // The message may reach a model, and quotes the command.
    refusal.redact(&redaction.redactor);
    let mut message = refusal.message.clone();
    if let Some(approve) = refusal.approve() {
        // After the redaction, which would not find a secret's value behind shell quotes.
        let approve = typed(approve);
        message.push_str(&format!("; to allow it: {approve}"));
        refusal = refusal.with(Fact::Approve(approve));
    }
    (message, refusal)
}

/// Returns the message for a record that is still pending after [`RECORD_TIMEOUT`].
fn waits() -> String {
    format!(
        "a record is not written after {} s",
        RECORD_TIMEOUT.as_secs()
    )
}

pub(super) fn unavailable(why: &str) -> Refusal {
    let message = format!(
        "the audit journal cannot be written ({why}); make room or mend it, without it nothing runs"
    );
    Refusal::new(Reason::AuditUnavailable, message)
}

/// Builds the record's description of a caller.
pub(super) fn known(peer: &Peer) -> record::PeerLine {
    let remote = peer.remote.as_deref().map(|remote| record::RemoteLine {
        address: remote.address.to_string(),
        certificate: remote
            .certificate
            .as_ref()
            .map(|it| record::CertificateLine {
                name: it.name.clone(),
                sha256: it.sha256.clone(),
            }),
    });
    record::PeerLine {
        pid: peer.pid,
        remote,
        uid: peer.uid,
    }
}

fn ended(interpreted: &Interpreted, redaction: &Redaction) -> record::Ended {
    let Interpreted { hook, run, .. } = interpreted;
    let EndedHook {
        connections,
        denied,
        end,
        notices: _,
        setup,
    } = hook;
    let nothing = Captured::default();
    let (stdout, stderr) = match end {
        End::Ran(ran) => (&ran.stdout, &ran.stderr),
        End::ExecFailed(_) => (&nothing, &nothing),
    };
    let summary = interpreted.summary();
    let capture = redaction.capture;
    let verdict = &interpreted.verdict;
    record::Ended {
        confirmed: setup.confirmed,
        denied: {
            let connect = connections.denied().next().map(|_| "connect".to_owned());
            denied.names().into_iter().chain(connect).collect()
        },
        egress: (connections.described.iter().take(MOST_CONNECTIONS))
            .map(egress)
            .collect(),
        incidental: denied.incidental_names(),
        more_egress: {
            let others = connections.described.len().saturating_sub(MOST_CONNECTIONS);
            others.saturating_add(usize::try_from(connections.more).unwrap_or(usize::MAX))
        },
        refused_lines: interpreted.refused_lines,
        evidence: setup
            .evidence
            .iter()
            .map(|e| format!("{}={}", e.check, e.observed))
            .collect(),
        exit_code: summary.exit_code,
        killed_by: run
            .killed_by()
            .filter(|_| interpreted.outcome == record::OutcomeKind::Killed)
            .as_ref()
            .map(known),
        outcome: summary.outcome,
        released: true,
        run_id: run.id.clone(),
        signal: end.signal(),
        stderr: stream(stderr, redaction.output(capture.stderr, stderr)),
        stdout: stream(stdout, redaction.output(capture.stdout, stdout)),
        measures: {
            let request = &run.request;
            (request.contract.facts().measures)(&request.event.point, verdict)
        },
        unconfined: summary.is_unconfined,
        usage: summary.usage,
        event: interpreted.event.as_ref().map(|event| record::EventLine {
            fields: event.unquoted(),
            name: event.name.to_owned(),
        }),
        verdict: Some(record::VerdictLine {
            blocked_by: verdict.blocked_by.map(|source| source.as_str().to_owned()),
            contexts: verdict.additional_context.len(),
            decision: verdict.decision.as_str().to_owned(),
            failed: verdict.failed,
            only_looked_on: run.request.only_looks_on,
            skip_reason: verdict.skip.map(|skip| skip.as_string()),
            summary_sha256: verdict.summary.as_ref().map(|text| sha256(text.as_bytes())),
            updated_input_sha256: digest(verdict.updated_input.as_ref()),
            updated_messages_sha256: digest(verdict.updated_messages.as_ref()),
            updated_output_sha256: digest(verdict.updated_output.as_ref()),
            warnings: verdict.warnings.len(),
        }),
    }
}

/// The connections that a record describes.
const MOST_CONNECTIONS: usize = 64;

/// Builds the record's description of a connection.
fn egress(connection: &Connection) -> record::EgressLine {
    let failed = match &connection.end {
        ConnectionEnd::Failed(why) => Some(why.clone()),
        ConnectionEnd::Denied(_)
        | ConnectionEnd::Done
        | ConnectionEnd::NotPublic(_)
        | ConnectionEnd::Unlisted => None,
    };
    record::EgressLine {
        address: connection.address.map(|address| address.to_string()),
        denied: connection.end.refusal().map(Cow::into_owned),
        failed,
        host: connection.destination.host.to_string(),
        ms: connection.millis,
        port: connection.destination.port,
        received_bytes: connection.received,
        secrets: connection.secrets.clone(),
        sent_bytes: connection.sent,
    }
}

impl Interpreted {
    /// Returns the processor time of the hook's first process and of the children that it waited for.
    pub(super) fn cpu(&self) -> Duration {
        let leader = match &self.hook.end {
            End::Ran(ran) => ran.leader,
            End::ExecFailed(_) => None,
        };
        leader.map_or(Duration::ZERO, |leader| leader.system + leader.user)
    }

    /// Summarizes the run.
    pub(crate) fn summary(&self) -> RunSummary {
        let Self { hook, run, .. } = self;
        let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let before_release = hook.setup.released.saturating_duration_since(run.arrived);
        let (wall, leader) = match &hook.end {
            End::Ran(ran) => (ran.wall, ran.leader),
            End::ExecFailed(_) => (Duration::ZERO, None),
        };
        RunSummary {
            backend: run.prepared.backend,
            connections: hook.connections.counts(),
            contract: run.request.contract,
            exit_code: hook.end.exit_code(),
            is_required: run.request.backing == Backing::Required,
            is_unconfined: !run.prepared.confines(),
            outcome: self.outcome,
            profile: run.policy.name.clone(),
            released: hook.setup.released,
            usage: record::Usage {
                max_rss_bytes: leader.map_or(0, |leader| leader.max_rss_bytes),
                queue_us: micros(run.queued),
                run_us: micros(wall),
                setup_us: micros(before_release.saturating_sub(run.queued)),
                system_us: leader.map_or(0, |leader| micros(leader.system)),
                user_us: leader.map_or(0, |leader| micros(leader.user)),
                wall_us: micros(before_release + wall),
            },
            verdict: self.verdict.decision,
        }
    }
}

/// Returns the id of a call's trace, as in records.
pub(super) fn trace_id(trace: &Arc<Trace>) -> String {
    trace.context().trace.to_string()
}

/// Formats a digest as lower-case hex, as in records.
pub(super) fn hex(digest: [u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the digest of a rewritten value.
fn digest(rewritten: Option<&Json>) -> Option<String> {
    rewritten.map(|json| sha256(json.as_str().as_bytes()))
}

fn stream(captured: &Captured, kept: Option<record::CapturedText>) -> record::Stream {
    record::Stream {
        kept,
        sha256: Some(sha256(&captured.head)),
        total_bytes: captured.total,
        truncated: captured.truncated(),
    }
}
