//! infer (inference-gateway CLI) command hooks, which observe and decide nothing. The rules follow its feature ticket
//! and its code.
//!
//! Nothing a hook does stops anything. The contract's own event reports it.

use std::{borrow::Cow, time::Duration};

use bytes::Bytes;
use serde_json::{Map, Value, json, value::RawValue};

use hookjail_base::model::{Event, InvalidField};

use super::{
    ContractEvent, Defaults, End, EndKind, Envelope, Facts, Rules, Skip, Stop, Verdict,
    entry::{AgentMode, Key},
    members::Members,
    point,
    verdict::present,
};

mod adapter;
pub mod gate;
mod hook_file;
pub(super) mod lists;

use self::{adapter::ADAPTER, hook_file::HOOK_FILE};

/// The maximum length of hook output in its event, bytes.
const OUTPUT: usize = 4096;

pub(super) const FACTS: Facts = Facts {
    adapter: Some(&ADAPTER),
    carried: &["command", "hook", "name"],
    defaults: Defaults::shell("/bin/bash", "-c", Some(Duration::from_secs(30))),
    event,
    has_lists: true,
    keys: &[
        ("mode", Key::AgentMode),
        ("timeout", Key::TimeoutSecondsUnlessZero { negative: false }),
    ],
    last_points: &["post_session"],
    moment,
    point_key: "hook",
    points: &[
        point("pre_session", Stop::Nothing),
        point("pre_stream", Stop::Nothing),
        point("post_stream", Stop::Nothing),
        point("pre_tool", Stop::Nothing),
        point("post_tool", Stop::Nothing),
        point("pre_queue_drain", Stop::Nothing),
        point("post_queue_drain", Stop::Nothing),
        point("post_session", Stop::Nothing),
    ],
    shared_points: &[
        ("SessionStart", "pre_session"),
        ("SessionEnd", "post_session"),
        ("PreToolUse", "pre_tool"),
        ("PostToolUse", "post_tool"),
    ],
    skipped,
    stdin: |_, event, envelope| stdin(event, envelope),
    switches: &hook_file::SWITCHES,
    ..Facts::new("infer", "infer/0.179", interpret)
};

pub(super) const RULES: Rules = Rules {
    hook_file: Some(&HOOK_FILE),
    ..Rules::NONE
};

/// Builds stdin of exactly three members.
///
/// Members that the event lacks come from the envelope; an unknown turn is 0, which infer itself sends before the
/// first.
fn stdin(event: &Event, envelope: &Envelope) -> Result<Bytes, InvalidField> {
    let named = own_members(event)?;
    let stdin = json!({
        "hook": event.point,
        "session_id": named.session.as_deref().unwrap_or(&envelope.session),
        "turn": named.turn.or(envelope.turn).unwrap_or(0),
    });
    Ok(stdin.to_string().into())
}

fn interpret(end: &End<'_>) -> Verdict {
    if end.entry.allowed == Some(false) {
        // A skipped hook has not failed.
        return Verdict {
            failed: false,
            ..Verdict::skipped(Skip::NotAllowlisted)
        };
    }
    Verdict::skipped(end.kind.failure().unwrap_or(Skip::OutputIgnored))
}

fn moment(event: &Event) -> (Option<String>, Option<u64>) {
    let named = own_members(event).unwrap_or_default();
    (named.session, named.turn)
}

fn event(end: &End<'_>) -> Option<ContractEvent> {
    if end.entry.allowed == Some(false) {
        return skipped(end, Skip::NotAllowlisted);
    }
    Some(event_of(end, "hook_command", ran(end)))
}

fn skipped(end: &End<'_>, why: Skip) -> Option<ContractEvent> {
    Some(event_of(end, "hook_command_skipped", left_out(end, why)))
}

fn event_of(end: &End<'_>, name: &'static str, members: Map<String, Value>) -> ContractEvent {
    // The ticket calls the discriminator `kind`, the code `type`.
    let mut json = json!({
        "command": end.command,
        "hook": end.point,
        "kind": name,
        "name": end.name,
        "type": name,
    });
    if let Value::Object(all) = &mut json {
        all.extend(members);
        if let Some(time) = end.at {
            all.insert("timestamp".to_owned(), json!(format!("{time:.9}")));
        }
    }
    ContractEvent { json, name }
}

/// The members that an event has itself.
#[derive(Default)]
struct Own {
    session: Option<String>,
    turn: Option<u64>,
}

fn own_members(event: &Event) -> Result<Own, InvalidField> {
    let invalid = |problem: &str| InvalidField::new("event.json", problem);
    let mut named = Own::default();
    if event.point.is_empty() {
        return Err(InvalidField::new(
            "event.point",
            "must name the lifecycle point",
        ));
    }
    let members = Members::of_event(&event.json)?;
    for (key, value) in members.iter() {
        match key.as_ref() {
            "hook"
                if typed::<String>(value).is_some_and(|name| FACTS.named(&name) == event.point) => {
            }
            "hook" => return Err(invalid("has a `hook` that is not `event.point`")),
            "session_id" => {
                let session = typed(value).ok_or_else(|| invalid("has a `session_id` of no text"));
                named.session = Some(session?);
            }
            "turn" => {
                let turn = typed(value).ok_or_else(|| invalid("has a `turn` that is no number"));
                named.turn = Some(turn?);
            }
            _ => {
                let problem = "may have no members but `hook`, `session_id` and `turn`: hooks of \
                               `infer` read nothing else";
                return Err(invalid(problem));
            }
        }
    }
    Ok(named)
}

fn typed<T: serde::de::DeserializeOwned>(value: &RawValue) -> Option<T> {
    serde_json::from_str(value.get()).ok()
}

/// Returns the additional members of a run's event; its duration only if that is known.
fn ran(end: &End<'_>) -> Map<String, Value> {
    let (code, error) = match end.kind {
        EndKind::ExecFailed => (-1, end.error.into()),
        EndKind::Exited(0) => (0, Cow::Borrowed("")),
        EndKind::Exited(code) => (code, format!("exit status {code}").into()),
        EndKind::Signaled(signal) => (-1, signal_text(signal).into()),
        // These runs are ended by SIGKILL.
        EndKind::Canceled | EndKind::Killed | EndKind::OutputLimit | EndKind::TimedOut => {
            (-1, signal_text(9).into())
        }
    };
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let members = [
        (
            "duration_ms",
            end.duration.map(|taken| json!(millis(taken))),
        ),
        ("error", Some(json!(error))),
        ("exit_code", Some(json!(code))),
        ("output", Some(json!(output(end)))),
        ("turn", Some(json!(end.turn.unwrap_or(0)))),
    ];
    present(members).collect()
}

/// Returns the additional members of the event of a command that was not run. infer has one reason, that of its list; a
/// hint is for that.
fn left_out(end: &End<'_>, why: Skip) -> Map<String, Value> {
    let mode = end.entry.agent_mode.map_or("", AgentMode::as_str);
    let hint = if why == Skip::NotAllowlisted {
        let hint = end.entry.hint;
        hint.unwrap_or_else(|| gate::hint(end.command, None))
    } else {
        ""
    };
    let members = [
        ("hint", hint.to_owned()),
        ("mode", mode.to_owned()),
        ("reason", why.as_string()),
    ];
    let members = members.map(|(key, value)| (key.to_owned(), json!(value)));
    members.into_iter().collect()
}

/// Returns the head of a hook's output. infer captures both streams as one; here stdout comes first, as their order is
/// not known.
fn output(end: &End<'_>) -> String {
    // Some bytes more than are shown, so that a character at the limit is not truncated.
    let streams = end.stdout.iter().chain(end.stderr).copied();
    let head: Vec<u8> = streams.take(OUTPUT + 4).collect();
    let mut text = String::from_utf8_lossy(&head).into_owned();
    if text.len() > OUTPUT {
        let border = (0..=OUTPUT)
            .rev()
            .find(|&index| text.is_char_boundary(index));
        text.truncate(border.unwrap_or(0));
        text.push_str("\n... (truncated)");
    }
    text
}

/// Names of the signals on Linux as Go has them, from 1 on, each on a line.
const SIGNALS: &str = include_str!("signals.txt");

/// Formats a signal as Go does on Linux.
fn signal_text(signal: i32) -> String {
    let index = usize::try_from(signal)
        .ok()
        .and_then(|signal| signal.checked_sub(1));
    match index.and_then(|index| SIGNALS.lines().nth(index)) {
        Some(name) => format!("signal: {name}"),
        None => format!("signal: signal {signal}"),
    }
}

#[cfg(test)]
mod tests;
