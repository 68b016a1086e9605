//! Detects ends that confinement may have caused. At a gate such an end does not count as an answer; at an agent's end
//! it does not keep the agent working.
//!
//! Denials by a seccomp filter are known, those by Landlock are not: the hook's own output is the only evidence, so it
//! is searched for the error texts of programs.

use super::{BlockedBy, Decision, End, EndKind, Skip, Stop, Verdict};

/// Known effect of confinement on a hook.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Bearing {
    /// Confined, without a known denial of an access it tried.
    Confined,
    /// An access it tried was denied.
    Denied,
    /// A process of its own was denied.
    ProcessDenied,
    /// Unconfined, or unknown.
    #[default]
    Unknown,
}

/// Exit codes of shells with an unusable program, and of Rust panics.
const BROKEN: [i32; 3] = [126, 127, 101];

/// The part of stderr that is searched, bytes from its end.
const LOOKED_AT: usize = 64 * 1024;

/// Line endings for errors of the system, as `strerror` words them. Most programs print them at the end of a line.
const REFUSED: [&str; 4] = [
    ": permission denied",
    ": operation not permitted",
    ": read-only file system",
    // Printed by dash for a redirection into a directory that is not visible.
    ": directory nonexistent",
];

/// Texts of the same errors within a line, as Python, Rust and Node print them.
const REFUSED_WITHIN: [&str; 11] = [
    "[errno 1]",
    "[errno 13]",
    "[errno 30]",
    "(os error 1)",
    "(os error 13)",
    "(os error 30)",
    "eacces",
    "eperm",
    "erofs",
    "cannot fork",
    "fork: ",
];

/// Harmless errors of shells and `id` at each start: missing files of a login, and a uid without a name.
const INCIDENTAL: [&str; 2] = ["/etc/profile", "cannot find name for user id"];

/// Further error texts of hooks without access to files or the network.
const MISSING: [&str; 10] = [
    "no such file or directory",
    "[errno 2]",
    "(os error 2)",
    "enoent",
    "command not found",
    ": not found",
    "could not resolve host",
    "name resolution",
    "network is unreachable",
    "resource temporarily unavailable",
];

/// Adjusts a verdict whose end confinement may have caused. Where something can be stopped, a hook that failed stops
/// it; where an agent is about to end, an exit code does not keep it working.
pub(super) fn weighed(verdict: Verdict, stop: Stop, end: &End<'_>) -> Verdict {
    if end.bearing == Bearing::Unknown {
        return verdict;
    }
    match stop {
        Stop::Call | Stop::Operation => {
            let is_open = !matches!(
                verdict.decision,
                Decision::Ask | Decision::Block | Decision::Deny
            );
            let why = if verdict.failed {
                of_failure(end)
            } else if stop == Stop::Call && end.bearing == Bearing::ProcessDenied {
                // A script without its processes has not examined the event, whatever it prints.
                Some("it was denied the processes it is made of")
            } else if stop == Stop::Call && is_silent(&verdict, end) {
                // A shell continues after a command that could not read its rules. A denial alone is no evidence:
                // libraries and shells try many accesses that they do not need.
                says_refused(end)
            } else {
                None
            };
            let reason = match why {
                // It gave no answer either. That is not confinement's doing.
                None if end.kind == EndKind::Killed => {
                    Some("the hook failed: an operator killed it".to_owned())
                }
                why => why.map(|why| format!("the hook failed, and confinement may be why: {why}")),
            };
            match reason {
                Some(reason) if is_open => stopped(verdict, stop, reason),
                Some(_) | None => verdict,
            }
        }
        Stop::Ending if verdict.decision.stops() => {
            let by_code = verdict.blocked_by == Some(BlockedBy::ExitCode);
            match of_refusal(end).filter(|_| by_code) {
                Some(why) => passed(verdict, why),
                None => verdict,
            }
        }
        Stop::Ending | Stop::Nothing => verdict,
    }
}

fn stopped(verdict: Verdict, stop: Stop, reason: String) -> Verdict {
    Verdict {
        blocked_by: Some(
            verdict
                .skip
                .and_then(Skip::blocked_by)
                .unwrap_or(BlockedBy::ExitCode),
        ),
        decision: stop.decision().unwrap_or(Decision::Block),
        failed: true,
        reason,
        updated_input: None,
        ..verdict
    }
}

fn passed(verdict: Verdict, why: &str) -> Verdict {
    let mut warnings = verdict.warnings;
    warnings.push(format!(
        "the hook failed, and confinement may be why, so it keeps nobody working: {why}"
    ));
    Verdict {
        blocked_by: None,
        decision: Decision::None,
        failed: true,
        reason: String::new(),
        skip: Some(Skip::NonzeroExit),
        warnings,
        ..verdict
    }
}

/// Returns whether a hook lets a call pass without an explicit answer.
fn is_silent(verdict: &Verdict, end: &End<'_>) -> bool {
    let is_answer = matches!(end.stdout.trim_ascii_start().first(), Some(b'"' | b'{'));
    match verdict.decision {
        Decision::None => true,
        Decision::Allow => !is_answer,
        Decision::Ask | Decision::Block | Decision::Deny => false,
    }
}

/// Returns whether confinement may be why a hook failed, though its output is an answer.
pub(crate) fn may_be_why(kind: EndKind, stderr: &[u8]) -> bool {
    let end = End {
        kind,
        stderr,
        ..End::default()
    };
    of_failure(&end).is_some()
}

/// Returns the evidence for confinement as the cause of a hook's failure.
fn of_failure(end: &End<'_>) -> Option<&'static str> {
    match end.kind {
        EndKind::Canceled => return Some("it was canceled"),
        EndKind::ExecFailed => return Some("it could not be executed"),
        EndKind::OutputLimit => return Some("it printed more than it may"),
        EndKind::Signaled(_) => return Some("a signal ended it"),
        EndKind::Exited(code) if BROKEN.contains(&code) => {
            return Some("its exit code says that a program could not run or broke");
        }
        // An operator's doing; and the exceeded limit is the contract's or the caller's own.
        EndKind::Killed | EndKind::TimedOut => return None,
        EndKind::Exited(_) => {}
    }
    of_refusal(end).or_else(|| {
        let is_missing = says(end, |line| MISSING.iter().any(|word| line.contains(word)));
        is_missing.then_some("its stderr says that something is missing")
    })
}

/// Returns the evidence that the hook was denied an access.
fn of_refusal(end: &End<'_>) -> Option<&'static str> {
    if matches!(end.bearing, Bearing::Denied | Bearing::ProcessDenied) {
        return Some("it was denied something that it wanted");
    }
    says_refused(end)
}

/// Returns the part of stderr that shows a denied access.
fn says_refused(end: &End<'_>) -> Option<&'static str> {
    let is_refused = says(end, |line| {
        let is_incidental = INCIDENTAL.iter().any(|words| line.contains(words));
        let is_refused = REFUSED.iter().any(|words| line.ends_with(words))
            || REFUSED_WITHIN.iter().any(|words| line.contains(words));
        is_refused && !is_incidental
    });
    is_refused.then_some("its stderr says that something was refused to it")
}

/// Returns whether the predicate holds for a line of stderr.
fn says(end: &End<'_>, is: impl Fn(&str) -> bool) -> bool {
    let from = end.stderr.len().saturating_sub(LOOKED_AT);
    let stderr = String::from_utf8_lossy(&end.stderr[from..]).to_lowercase();
    stderr.lines().any(|line| is(line.trim_end()))
}
