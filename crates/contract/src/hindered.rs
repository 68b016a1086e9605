//! Detects ends that confinement may have caused. At a gate such an end does not count as an answer; at an agent's end
//! it does not keep the agent working.
//!
//! Denials by a seccomp filter are known, those by Landlock are not: the hook's own output is the only evidence, so it
//! is searched for the error texts of programs. Three kinds of lines are no evidence: quotations of the event, errors about
//! files that the user could not open unconfined either, and messages that shells print at each start.

use serde_json::Value;

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

/// Texts of the same errors within a line, as Python, Rust and Node print them, each as words of its own.
const REFUSED_WITHIN: [&str; 10] = [
    "[errno 1]",
    "[errno 13]",
    "[errno 30]",
    "(os error 1)",
    "(os error 13)",
    "(os error 30)",
    "eacces",
    "eperm",
    "erofs",
    "fork: retry",
];

/// Message of dash where it may start no process.
const NO_PROCESS: &str = "cannot fork";

/// Harmless errors of shells and `id` at each start: missing files of a login, and a uid without a name. And the terminal, which hooks do not have
/// without confinement either.
const INCIDENTAL: [&str; 3] = ["/etc/profile", "/dev/tty", "cannot find name for user id"];

/// The shortest string of an event that counts as quoted where a line has it.
const QUOTED_LETTERS: usize = 6;

/// The beginning of the warning about a hook that failed and stops nothing, and of the reason of one that stops.
pub const MAY_BE_WHY: &str = "the hook failed, and confinement may be why";

/// Effect of a failure that confinement may have caused, where something can be stopped that is no tool call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Hindrance {
    /// The failure stops.
    Stops,
    /// The user is warned, as the thing to stop has happened, or is the user's own.
    Warns,
}

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

/// Line endings of shells and interpreters about a script that is not there.
const MISSING_FILE: [&str; 2] = [": no such file", "no such file or directory"];

/// The evidence of an exit code that is a shell's own.
const OF_A_SHELL: &str = "its only output is an error about a file";

/// Adjusts a verdict whose end confinement may have caused. Where something can be stopped, a hook that failed stops it, or
/// warns. Where an agent is about to end, no answer of a hook that was denied something keeps it working.
pub(super) fn weighed(
    verdict: Verdict,
    stop: Stop,
    hindrance: Hindrance,
    end: &End<'_>,
) -> Verdict {
    if end.bearing == Bearing::Unknown {
        return verdict;
    }
    match stop {
        Stop::Call | Stop::Operation => {
            let warns = stop == Stop::Operation && hindrance == Hindrance::Warns;
            let is_open = !matches!(
                verdict.decision,
                Decision::Ask | Decision::Block | Decision::Deny
            );
            let why = if verdict.failed {
                of_failure(end)
            } else if warns && is_of_a_shell(&verdict, end) {
                return warned(failed(verdict), format!("{MAY_BE_WHY}: {OF_A_SHELL}"));
            } else if stop == Stop::Call && end.bearing == Bearing::ProcessDenied {
                // A script without its processes has not examined the event, regardless of its output.
                Some("the hook was denied the processes that it consists of")
            } else if stop == Stop::Call && is_silent(&verdict, end) {
                // A shell continues after a command that could not read its rules. A denial alone is no evidence:
                // libraries and shells try many accesses that they do not need.
                says_refused(end)
            } else {
                None
            };
            let reason = match why {
                // The hook gave no answer either. That is not confinement's doing.
                None if end.kind == EndKind::Killed => {
                    Some("the hook failed: an operator killed it".to_owned())
                }
                why => why.map(|why| format!("{MAY_BE_WHY}: {why}")),
            };
            match reason {
                Some(reason) if is_open && warns => warned(verdict, reason),
                Some(reason) if is_open => stopped(verdict, stop, reason),
                Some(_) | None => verdict,
            }
        }
        Stop::Ending if verdict.decision.stops() => {
            let by_shell = || is_of_a_shell(&verdict, end).then_some(OF_A_SHELL);
            match of_refusal(end).or_else(by_shell) {
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

/// Reports a failure to the user, and stops nothing.
fn warned(verdict: Verdict, reason: String) -> Verdict {
    let mut verdict = verdict;
    if !verdict.system_message.is_empty() {
        verdict.system_message.push('\n');
    }
    verdict.system_message.push_str(&reason);
    verdict.warnings.push(reason);
    verdict
}

fn passed(verdict: Verdict, why: &str) -> Verdict {
    let mut verdict = failed(verdict);
    let warning = format!("{MAY_BE_WHY}, so no agent is kept working: {why}");
    verdict.warnings.push(warning);
    verdict
}

/// Takes the stop of an exit code for the failure that it is.
fn failed(verdict: Verdict) -> Verdict {
    Verdict {
        blocked_by: None,
        decision: Decision::None,
        failed: true,
        reason: String::new(),
        skip: Some(Skip::NonzeroExit),
        ..verdict
    }
}

/// Returns whether exit code 2 is a shell's or an interpreter's own: all that was printed is its error about a file.
///
/// `dash` ends so where it can write no log, and Python where its script is missing.
fn is_of_a_shell(verdict: &Verdict, end: &End<'_>) -> bool {
    let stderr = searched(end.stderr);
    let mut lines = stderr
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return false;
    };
    verdict.blocked_by == Some(BlockedBy::ExitCode)
        && end.kind == EndKind::Exited(2)
        && end.stdout.trim_ascii().is_empty()
        && (of_refusals(end)(line) || MISSING_FILE.iter().any(|words| line.ends_with(words)))
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
pub fn may_be_why(kind: EndKind, stderr: &[u8]) -> bool {
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
        EndKind::Canceled => return Some("the hook was canceled"),
        EndKind::ExecFailed => return Some("the hook could not be executed"),
        EndKind::OutputLimit => return Some("the hook printed more than allowed"),
        EndKind::Signaled(_) => return Some("a signal ended it"),
        EndKind::Exited(code) if BROKEN.contains(&code) => {
            return Some("its exit code shows that a program could not run or broke");
        }
        // An operator's doing; and the exceeded limit is the contract's or the caller's own.
        EndKind::Killed | EndKind::TimedOut => return None,
        EndKind::Exited(_) => {}
    }
    of_refusal(end).or_else(|| {
        let is_missing = says(end, |line| MISSING.iter().any(|word| line.contains(word)));
        is_missing.then_some("its stderr shows that something is missing")
    })
}

/// Returns the evidence that the hook was denied an access.
fn of_refusal(end: &End<'_>) -> Option<&'static str> {
    if matches!(end.bearing, Bearing::Denied | Bearing::ProcessDenied) {
        return Some("the hook was denied something that it tried");
    }
    says_refused(end)
}

/// Returns the part of stderr that shows a denied access.
fn says_refused(end: &End<'_>) -> Option<&'static str> {
    says(end, of_refusals(end)).then_some("its stderr shows that something was refused to it")
}

/// Returns the number of lines of a confined hook's stderr that report a denied access.
pub fn refused_lines(end: &End<'_>) -> usize {
    if end.bearing == Bearing::Unknown {
        return 0;
    }
    let is_refused = of_refusals(end);
    let stderr = searched(end.stderr);
    let lines = stderr.lines().map(str::trim_end);
    lines
        .map(is_refused)
        .filter(|is_refused| *is_refused)
        .count()
}

/// Returns whether a line, in lower case, reports a denied access: not one that the event quotes, nor one to a closed file.
fn of_refusals(end: &End<'_>) -> impl FnMut(&str) -> bool {
    let mut quoted = None;
    move |line| {
        is_refusal(line)
            && !end.closed.iter().any(|closed| closed == line)
            && is_refusal(&unquoted(
                line,
                quoted.get_or_insert_with(|| strings(end.event)),
            ))
    }
}

/// Returns the lines of stderr that report a denied access, as they are compared: without case.
pub fn refusals(stderr: &[u8]) -> Vec<String> {
    let lines = searched(stderr);
    let lines = lines.lines().map(str::trim_end);
    lines
        .filter(|line| is_refusal(line))
        .map(str::to_owned)
        .collect()
}

/// Returns whether a line, in lower case, reports a denied access.
fn is_refusal(line: &str) -> bool {
    let is_incidental = INCIDENTAL.iter().any(|words| line.contains(words));
    let is_refused = REFUSED.iter().any(|words| line.ends_with(words))
        || line.ends_with(NO_PROCESS)
        || REFUSED_WITHIN.iter().any(|words| has_words(line, words));
    is_refused && !is_incidental
}

/// Returns whether a line has a text that is no part of a longer word.
fn has_words(line: &str, words: &str) -> bool {
    let is_of_a_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(words).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + words.len()..].chars().next();
        ![before, after].into_iter().flatten().any(is_of_a_word)
    })
}

/// Returns a line without the strings of the event, and without the marks by which shells and JSON quote them.
fn unquoted(line: &str, strings: &[String]) -> String {
    let plain = without_marks(line);
    let texts = strings.iter().filter(|text| plain.contains(text.as_str()));
    // A letter of no word stands for what was quoted, so that what is beside it stays as it is.
    let without = texts.fold(plain.clone(), |line, text| line.replace(text, "\u{fffd}"));
    if without == plain {
        line.to_owned()
    } else {
        without
    }
}

/// Returns the strings of an event that count as quoted, line by line, the longest first.
fn strings(event: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    if let Ok(event) = serde_json::from_slice::<Value>(event) {
        collect(&event, &mut found);
    }
    found.sort_by_key(|text: &String| std::cmp::Reverse(text.len()));
    found.dedup();
    found
}

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(members) => members.values().for_each(|item| collect(item, found)),
        Value::String(text) => {
            let lines = text.lines().map(|line| without_marks(line.trim()));
            found.extend(lines.filter(|line| line.chars().count() >= QUOTED_LETTERS));
        }
        Value::Bool(_) | Value::Null | Value::Number(_) => {}
    }
}

fn without_marks(text: &str) -> String {
    let letters = text.chars().filter(|c| !matches!(c, '"' | '\'' | '\\'));
    letters.flat_map(char::to_lowercase).collect()
}

/// Returns whether the predicate holds for a line of stderr.
fn says(end: &End<'_>, is: impl FnMut(&str) -> bool) -> bool {
    searched(end.stderr).lines().map(str::trim_end).any(is)
}

/// Returns the part of stderr that is searched, in lower case.
fn searched(stderr: &[u8]) -> String {
    let from = stderr.len().saturating_sub(LOOKED_AT);
    String::from_utf8_lossy(&stderr[from..]).to_lowercase()
}
