//! Interpreting: the verdict of a run's end, with redacted output for the reply.

use std::{borrow::Cow, sync::Arc};

use jiff::Timestamp;
use nix::errno::Errno;

use hookjail_base::{
    model::{Captured, Command, command_line},
    redact::{MARKER_BYTES, Redactor},
};
use hookjail_contract::{
    Bearing, ContractEvent, End as ContractEnd, EndKind, Entry, Verdict, refused_lines,
};
use hookjail_journal::{RedactedOutput, Redaction, record};
use hookjail_sandbox::{End, EndedHook, process::Cause};
use hookjail_sys::WaitStatus;

use super::{Ended, Run, closed};

/// A run's end and its verdict.
///
/// Only `Interpreted::from_ended` makes one.
#[derive(Debug)]
pub struct Interpreted {
    /// The contract's own event.
    pub(crate) event: Option<ContractEvent>,
    /// The end of the hook.
    pub(crate) hook: EndedHook,
    /// The outcome, in the terms of the reply.
    pub(crate) outcome: record::OutcomeKind,
    /// The redacted reply, where the profile redacts secrets.
    pub(crate) redacted: Option<Redacted>,
    /// The number of lines of stderr that report a denied access.
    pub(crate) refused_lines: usize,
    /// The run.
    pub(crate) run: Box<Run>,
    /// The verdict.
    pub(crate) verdict: Verdict,
    _ended: (),
}

/// Redacted output and verdict for a reply.
#[derive(Debug)]
pub(crate) struct Redacted {
    redaction: Arc<Redaction>,
    /// The hook's redacted stderr.
    pub(crate) stderr: RedactedOutput,
    /// The hook's redacted stdout.
    pub(crate) stdout: RedactedOutput,
}

impl Redacted {
    /// Returns the redactor.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "denials are known on Linux alone")
    )]
    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redaction.redactor
    }
}

impl Interpreted {
    /// Interprets a run's end under its contract.
    ///
    /// The hook's output is interpreted unredacted; secrets are removed from the verdict and the event.
    pub(crate) fn from_ended(ended: Ended, redaction: Arc<Redaction>) -> Self {
        let Ended { hook, run, .. } = ended;
        let request = &run.request;
        let nothing = Captured::default();
        let (outcome, kind) = kinds(&hook.end, run.killed_by().is_some());
        let (error, duration, stdout, stderr) = match &hook.end {
            End::ExecFailed(errno) => (Errno::from_raw(*errno).desc(), None, &nothing, &nothing),
            End::Ran(ran) => ("", Some(ran.wall), &ran.stdout, &ran.stderr),
        };
        let command = command(&run);
        let closed = closed::lines(&run, &stderr.head);
        let moment = request.moment();
        let mut end = ContractEnd {
            at: Some(Timestamp::now()),
            bearing: bearing(&run, &hook, outcome),
            closed: &closed,
            command: &command,
            duration,
            entry: Entry {
                timeout: Some(run.timeout),
                ..request.entry
            },
            error,
            event: &request.event.json,
            kind,
            name: &request.hook.name,
            point: &request.event.point,
            session: &moment.session,
            stderr: &stderr.head,
            stdout: &stdout.head,
            stdout_truncated: stdout.truncated(),
            turn: moment.turn,
        };
        request.contract.cap(&mut end);
        // A reply holds more than the verdict, and a reply that exceeds the caller's limit is lost.
        let room = usize::try_from(request.max_reply_bytes / 2).unwrap_or(usize::MAX);
        let hidden = closed::hidden(&run, &stderr.head);
        let judge = |room| {
            let contract = &request.contract;
            let mut verdict = contract.judge_within(room, &end, request.on_failure);
            verdict.warnings.extend(hidden.clone());
            verdict
        };
        let mut verdict = judge(room);
        let mut event = request.contract.event(&end);
        let refused_lines = refused_lines(&end);
        let redacted = run.policy.redact_output.then(|| {
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
                stderr: RedactedOutput::new(stderr, redactor),
                stdout: RedactedOutput::new(stdout, redactor),
                redaction,
            }
        });
        Self {
            _ended: (),
            event,
            hook,
            outcome,
            redacted,
            refused_lines,
            run,
            verdict,
        }
    }
}

/// Returns the known effect of confinement on an end.
fn bearing(run: &Run, hook: &EndedHook, outcome: record::OutcomeKind) -> Bearing {
    if !run.prepared.confines() {
        Bearing::Unknown
    } else if hook.denied.is_denied_a_process() {
        Bearing::ProcessDenied
    } else if hook.is_denied() || outcome == record::OutcomeKind::EscapeAttempt {
        Bearing::Denied
    } else {
        Bearing::Confined
    }
}

/// Returns a run's command as its request spells it.
fn command(run: &Run) -> Cow<'_, str> {
    match &run.request.hook.command {
        Command::Argv(argv) => command_line(argv).map_or_else(|| (&*run.command).into(), Cow::from),
        Command::Line { text, .. } => Cow::from(text),
    }
}

/// Classifies an end by wait status and cause, never by code ranges.
///
/// `killed`: whether an operator killed the run, which may have ended for another cause just before.
fn kinds(end: &End, killed: bool) -> (record::OutcomeKind, EndKind) {
    use record::OutcomeKind;
    let ran = match end {
        End::ExecFailed(_) => return (OutcomeKind::ExecFailed, EndKind::ExecFailed),
        End::Ran(ran) => ran,
    };
    match (ran.cause, ran.leader.map(|leader| leader.status)) {
        (Cause::Canceled, _) if killed => (OutcomeKind::Killed, EndKind::Killed),
        (Cause::Canceled, _) => (OutcomeKind::Canceled, EndKind::Canceled),
        (Cause::Deadline, _) => (OutcomeKind::TimedOut, EndKind::TimedOut),
        (Cause::OutOfMemory, _) => (OutcomeKind::OutOfMemory, EndKind::Signaled(libc::SIGKILL)),
        (Cause::PidsExhausted, Some(WaitStatus::Exited(code))) => {
            (OutcomeKind::PidsExhausted, EndKind::Exited(code))
        }
        (Cause::PidsExhausted, Some(WaitStatus::Signaled(signal))) => {
            (OutcomeKind::PidsExhausted, EndKind::Signaled(signal))
        }
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
        // The process ended, but its status was lost: no exit code may be assumed.
        (Cause::Itself | Cause::PidsExhausted, None) => {
            (OutcomeKind::Signaled, EndKind::Signaled(libc::SIGKILL))
        }
    }
}
