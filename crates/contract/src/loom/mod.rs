//! Loom (ownware) engine hooks, by its page: any exit code but 0 denies.
//!
//! Where page and code differ, the page is followed: the output of a hook with another exit code may give the reason
//! and never lets a call pass.

use std::time::Duration;

use super::{
    BlockedBy, Decision, Defaults, End, EndKind, Facts, Folded, Lifetime, Matcher, Reminder,
    ReminderKind, Rules, Scheduling, Stop, Verdict,
    entry::Key,
    envelope::Part,
    members::{Fault, Members, boolean, text},
    point,
};

mod adapter;
mod hook_file;
pub(super) mod log;
pub(super) mod payload;
pub(super) mod save;

use self::{adapter::ADAPTER, hook_file::HOOK_FILE};

const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) const FACTS: Facts = Facts {
    adapter: Some(&ADAPTER),
    carried: &["action", "command", "name", "type"],
    defaults: Defaults::shell("/bin/sh", "-c", Some(TIMEOUT)),
    fold,
    keys: &[("timeoutMs", Key::TimeoutMillis)],
    last_points: &["session.end"],
    lifetimes: &[
        ("session.start", Lifetime::Session),
        ("user.prompt.submit", Lifetime::Turn),
    ],
    members: &[("turnIndex", Part::Turn, &[])],
    point_key: "event",
    points: &[
        point("session.start", Stop::Nothing),
        // Reserved: never fired so far.
        point("user.prompt.submit", Stop::Nothing),
        point("tool.pre", Stop::Call),
        point("tool.post", Stop::Nothing),
        point("model.pre", Stop::Nothing),
        point("model.post", Stop::Nothing),
        point("session.end", Stop::Nothing),
        point("error", Stop::Nothing),
    ],
    scheduling: Scheduling::UntilBlock,
    session: &["sessionId"],
    shared_points: &[
        ("SessionStart", "session.start"),
        ("SessionEnd", "session.end"),
        ("PreToolUse", "tool.pre"),
        ("PostToolUse", "tool.post"),
        ("OnError", "error"),
    ],
    switches: &hook_file::SWITCHES,
    ..Facts::new("loom", "loom/2026-07", interpret)
};

pub(super) const RULES: Rules = Rules {
    hook_file: Some(&HOOK_FILE),
    matcher: Some(|_, text| Matcher::globs(text)),
    ..Rules::NONE
};

fn interpret(end: &End<'_>) -> Verdict {
    let blocks = |blocked_by, reason: String| {
        let decision = FACTS.stop_of(end.point).decision();
        Verdict {
            recorded_block: decision.is_none(),
            ..Verdict::stopped(decision.unwrap_or(Decision::Block), blocked_by, reason)
        }
    };
    let breaks = |blocked_by, reason: &str| Verdict {
        failed: true,
        ..blocks(blocked_by, reason.to_owned())
    };
    if end.entry.allowed == Some(false) {
        return breaks(BlockedBy::SpawnError, "Hook was not allowed to run");
    }
    let code = match end.kind {
        EndKind::Canceled | EndKind::Killed => {
            return breaks(BlockedBy::Signal, "Hook aborted");
        }
        EndKind::ExecFailed if end.error.is_empty() => {
            return breaks(BlockedBy::SpawnError, "Hook could not be started");
        }
        EndKind::ExecFailed => return breaks(BlockedBy::SpawnError, end.error),
        EndKind::TimedOut => {
            let timeout = end.entry.timeout.unwrap_or(TIMEOUT).as_millis();
            let reason = format!("Hook timed out after {timeout}ms");
            return breaks(BlockedBy::Timeout, &reason);
        }
        EndKind::Exited(code) => Some(code),
        EndKind::OutputLimit | EndKind::Signaled(_) => None,
    };
    let stdout = String::from_utf8_lossy(end.stdout);
    let stdout = trimmed(&stdout);
    let answer = if stdout.starts_with('{') {
        Members::parse(stdout)
    } else {
        Err(Fault::NotJson)
    };
    let field = |name| answer.as_ref().ok().and_then(|answer| answer.last(name));
    let reason = field("reason").and_then(text);
    let output = match &answer {
        Ok(_) => field("output").and_then(text),
        Err(_) => (!stdout.is_empty()).then(|| stdout.to_owned()),
    };

    let verdict = if code != Some(0) {
        let stderr = String::from_utf8_lossy(end.stderr);
        let stderr = trimmed(&stderr);
        let stderr = (!stderr.is_empty()).then(|| stderr.to_owned());
        let reason = reason.or(stderr).unwrap_or_else(|| match code {
            Some(code) => format!("Hook exited with code {code}"),
            None => "Hook exited with code unknown".to_owned(),
        });
        let blocked_by = match code {
            Some(_) => BlockedBy::ExitCode,
            None => BlockedBy::Signal,
        };
        breaks(blocked_by, &reason)
    } else if end.stdout_truncated || answer.as_ref().is_err_and(|f| *f == Fault::TooDeep) {
        // Loom itself truncates nothing and limits no depth, so its result for the whole output is unknown.
        return breaks(
            BlockedBy::InvalidOutput,
            "Hook output is too long or too deep to be read",
        );
    } else if field("continue").and_then(boolean) == Some(false) {
        let default = || "Hook returned continue: false".to_owned();
        blocks(BlockedBy::ContinueFalse, reason.unwrap_or_else(default))
    } else {
        Verdict {
            decision: Decision::Allow,
            ..Verdict::default()
        }
    };
    let context = field("additionalContext").and_then(text);
    Verdict {
        additional_context: context
            .filter(|text| !trimmed(text).is_empty())
            .into_iter()
            .collect(),
        output,
        ..verdict
    }
}

/// Merges verdicts; the last hook is the one that blocked, if one did. Its output beside its reason is dropped.
fn fold(_point: &str, hooks: &[(&str, &Verdict)]) -> Folded {
    let mut folded = Folded::default();
    let remind = |name: &str, kind, text: &str| Reminder {
        hook_name: name.to_owned(),
        kind,
        text: text.to_owned(),
    };
    for (name, verdict) in hooks {
        if verdict.decision.stops() {
            folded.answer = Verdict {
                additional_context: folded.answer.additional_context,
                blocked_by: verdict.blocked_by,
                decision: verdict.decision,
                failed: verdict.failed,
                reason: verdict.reason.clone(),
                recorded_block: verdict.recorded_block,
                ..Verdict::default()
            };
            (*name).clone_into(&mut folded.blocked_by_hook);
            let blocked = remind(name, ReminderKind::Blocked, &verdict.reason);
            folded.reminders.push(blocked);
            break;
        }
        folded.answer.decision = verdict.decision;
        let output = verdict.output.iter();
        let context = verdict.additional_context.iter();
        folded
            .reminders
            .extend(output.map(|text| remind(name, ReminderKind::Success, text)));
        folded.reminders.extend(
            context
                .clone()
                .map(|text| remind(name, ReminderKind::Context, text)),
        );
        folded.answer.additional_context.extend(context.cloned());
    }
    folded
}

/// Returns whether Loom itself lets a call pass because of an object on stdout.
///
/// There an object decides alone, regardless of the exit code. Its maximum nesting depth is unknown.
pub(super) fn passes_by_object(stdout: &[u8]) -> bool {
    let stdout = String::from_utf8_lossy(stdout);
    let stdout = trimmed(&stdout);
    stdout.starts_with('{')
        && match Members::parse(stdout) {
            Ok(answer) => answer.last("continue").and_then(boolean) != Some(false),
            Err(fault) => fault == Fault::TooDeep,
        }
}

/// Trims as JavaScript does. The byte order mark is white space there, and U+0085 is not.
fn trimmed(text: &str) -> &str {
    text.trim_matches(|c: char| (c.is_whitespace() && c != '\u{85}') || c == '\u{feff}')
}
