//! docker-agent hooks, by its page. Where that is silent or contradicts itself, its newest code counts.
//!
//! The contract with the strictest parsing, and the only one that denies a tool call on any failure: a hook's answer
//! must not be guessed. At other points the hook's entry decides about failures.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json, value::RawValue};

use hookjail_base::model::{Event, InvalidField};

use super::{
    BlockedBy, ContractEvent, Decision, Defaults, End, EndKind, Envelope, Equality, Facts, Json,
    Lifetime, Matcher, Members, OnError, Rules, Scheduling, Skip, Stop, Verdict, entry::Key,
    envelope::Part, members::is_null, patch::over_input, point, stdin, text, verdict::present,
};

mod adapter;
pub(super) mod builtin;
mod fold;
mod hook_file;
mod output;
pub(super) mod query;

use self::{adapter::ADAPTER, hook_file::HOOK_FILE};

const TIMEOUT: Duration = Duration::from_secs(60);

/// The points whose events describe a tool call.
const CALLS: [&str; 7] = [
    "on_tool_approval_decision",
    "permission_request",
    "post_tool_use",
    "pre_tool_use",
    "tool_guard",
    "tool_input_transform",
    "tool_response_transform",
];

/// A model's judgement: stdout is its reply under the schema `pre_tool_use_decision`. Nothing is run for it here.
pub(super) const MODEL: Facts = Facts {
    event: |end| event(end, Reply::Model),
    has_builtins: false,
    interpret: |end| interpret(end, Reply::Model),
    is_process: false,
    modes: &["model"],
    ..FACTS
};

/// A command: stdout is an `Output`, or plain text.
pub(super) const FACTS: Facts = Facts {
    adapter: Some(&ADAPTER),
    carried: &[
        "args",
        "command",
        "env",
        "matcher",
        "model",
        "name",
        "prompt",
        "schema",
        "type",
        "working_dir",
    ],
    defaults: Defaults::shell("/bin/sh", "-c", Some(TIMEOUT)),
    equality: Equality::Whole,
    event: |end| event(end, Reply::Command),
    fold: |_, hooks| fold::fold(hooks),
    hand_on,
    has_builtins: true,
    keys: &[
        ("on_error", Key::OnError),
        ("preempt_yolo", Key::Preempt),
        ("strict_output", Key::StrictOutput),
        ("timeout", Key::TimeoutSecondsUnlessZero { negative: true }),
    ],
    last_points: &["session_end", "turn_end"],
    lifetimes: &[
        ("session_start", Lifetime::Session),
        ("turn_start", Lifetime::Turn),
        ("user_followup_submit", Lifetime::Turn),
        ("user_prompt_submit", Lifetime::Turn),
        ("user_steering_messages_submit", Lifetime::Turn),
    ],
    // The extras of points.
    members: &[
        (
            "agent_name",
            Part::Agent,
            &[
                "after_llm_call",
                "permission_request",
                "post_tool_use",
                "pre_tool_use",
                "stop",
                "subagent_stop",
                "tool_guard",
                "tool_input_transform",
                "turn_end",
            ],
        ),
        ("parent_session_id", Part::ParentSession, &["subagent_stop"]),
        ("tool_name", Part::ToolName, &CALLS),
        ("tool_use_id", Part::UseId, &CALLS),
        ("tool_input", Part::Input, &CALLS),
        (
            "tool_response",
            Part::Response,
            &["post_tool_use", "tool_response_transform"],
        ),
        ("tool_error", Part::Failed, &["post_tool_use"]),
    ],
    moment,
    // Rewriting hooks read each other's rewrites.
    pipelines: &[
        "before_llm_call",
        "pre_tool_use",
        "tool_input_transform",
        "tool_response_transform",
    ],
    points: &[
        point("pre_tool_use", Stop::Call),
        point("tool_response_transform", Stop::Nothing),
        point("post_tool_use", Stop::Operation),
        point("permission_request", Stop::Call),
        point("session_start", Stop::Nothing),
        point("user_prompt_submit", Stop::Operation),
        point("user_steering_messages_submit", Stop::Operation),
        point("user_followup_submit", Stop::Operation),
        point("turn_start", Stop::Nothing),
        point("turn_end", Stop::Nothing),
        point("before_llm_call", Stop::Operation),
        point("after_llm_call", Stop::Nothing),
        point("session_end", Stop::Nothing),
        point("pre_compact", Stop::Operation),
        point("before_compaction", Stop::Operation),
        point("after_compaction", Stop::Nothing),
        point("subagent_stop", Stop::Nothing),
        point("on_user_input", Stop::Nothing),
        point("stop", Stop::Nothing),
        point("notification", Stop::Nothing),
        point("on_error", Stop::Nothing),
        point("on_max_iterations", Stop::Nothing),
        point("on_agent_switch", Stop::Nothing),
        point("on_session_resume", Stop::Nothing),
        point("on_tool_approval_decision", Stop::Nothing),
        point("worktree_create", Stop::Operation),
        // These two are in the newest code, but not in the page.
        point("tool_guard", Stop::Call),
        point("tool_input_transform", Stop::Operation),
    ],
    scheduling: Scheduling::AtOnce,
    shared_points: &[
        ("SessionStart", "session_start"),
        ("SessionEnd", "session_end"),
        ("PreToolUse", "pre_tool_use"),
        ("PostToolUse", "post_tool_use"),
        ("PreCompact", "pre_compact"),
        ("PostCompact", "after_compaction"),
        ("OnError", "on_error"),
    ],
    stdin,
    warned_points: &[
        "before_compaction",
        "post_tool_use",
        "pre_compact",
        "user_followup_submit",
        "user_prompt_submit",
        "user_steering_messages_submit",
    ],
    worktree: Some(("worktree_create", "worktree_source_dir")),
    ..Facts::new("docker_agent", "docker_agent/seed+c", |end| {
        interpret(end, Reply::Command)
    })
};

pub(super) const RULES: Rules = Rules {
    hook_file: Some(&HOOK_FILE),
    matcher: Some(|_, text| Matcher::whole(text)),
    ..Rules::NONE
};

fn moment(event: &Event) -> (Option<String>, Option<u64>) {
    let members = Members::of_event(&event.json).ok();
    let session = members.and_then(|members| members.last("session_id").and_then(text));
    (session, None)
}

/// Builds stdin with session, working directory and point, empty or not.
///
/// Further members are those of the event that are not empty, and the point's extras that the envelope has.
fn stdin(facts: &Facts, event: &Event, envelope: &Envelope) -> Result<Bytes, InvalidField> {
    let mut members = vec![
        ("session_id", Some(Json::text(&envelope.session))),
        ("cwd", Some(Json::text(&envelope.cwd))),
    ];
    let extras = stdin::added(facts.members, event, envelope).into_iter();
    members.extend(extras.map(|(key, value)| {
        let value = value.filter(|value| !stdin::is_empty(value.raw()));
        (key, value)
    }));
    // A cost of 0 means that the call was free, an absent one that its price is unknown. A limit of 0 is unknown.
    let keeps = |key: &str, value: &RawValue| match key {
        "context_limit" | "cost" => !is_null(value),
        "cwd" | "session_id" => true,
        _ => !stdin::is_empty(value),
    };
    stdin::object_of(facts, event, Some(facts.point_key), &members, keeps)
}

fn interpret(end: &End<'_>, reply: Reply) -> Verdict {
    judged(end, reply).unwrap_or_else(|fault| failed(end, &fault))
}

/// Applies a hook's rewrites to the next hook's event. The input's members are merged over those present; output
/// and messages replace the old ones.
fn hand_on(verdict: &Verdict, event: &mut Event, envelope: &mut Envelope) {
    let input = verdict.updated_input.as_ref();
    let input = input.map(|patch| over_input(patch, event, envelope));
    for (name, value) in [
        ("messages", verdict.updated_messages.as_ref()),
        ("tool_input", input.as_ref()),
        ("tool_response", verdict.updated_output.as_ref()),
    ] {
        let Some(value) = value else { continue };
        stdin::put(event, &[name], value);
    }
}

/// Returns the runtime's `hook_finished`, unless nothing was started. Its members are `session`, `event` (the
/// point), `hook` (its name), `duration_ms`, `result` (the decision, lower case) and `error` (why the hook failed;
/// empty if it did not). Unknown members are left out.
fn event(end: &End<'_>, reply: Reply) -> Option<ContractEvent> {
    const NAME: &str = "hook_finished";

    if end.entry.allowed == Some(false) {
        return None;
    }
    let judged = judged(end, reply);
    let error = judged.as_ref().err().map(|fault| fault.text.clone());
    let decision = judged.unwrap_or_else(|fault| failed(end, &fault)).decision;
    let duration = end.duration.map(|taken| taken.as_millis());
    let duration = duration.and_then(|millis| u64::try_from(millis).ok());
    let members = [
        ("duration_ms", duration.map(Value::from)),
        ("error", Some(json!(error.unwrap_or_default()))),
        ("event", Some(json!(end.point))),
        ("hook", (!end.name.is_empty()).then(|| json!(end.name))),
        (
            "result",
            Some(json!(decision.as_str().to_ascii_lowercase())),
        ),
        (
            "session",
            (!end.session.is_empty()).then(|| json!(end.session)),
        ),
        ("type", Some(json!(NAME))),
    ];
    Some(ContractEvent {
        json: Value::Object(present(members).collect()),
        name: NAME,
    })
}

/// The two types of hook whose ends are read.
#[derive(Clone, Copy)]
enum Reply {
    /// A command's: an `Output`, or plain text.
    Command,
    /// A model's.
    Model,
}

/// Interprets the output of a hook that did not fail.
fn judged(end: &End<'_>, reply: Reply) -> Result<Verdict, Fault> {
    if end.entry.allowed == Some(false) {
        return Err(Fault::new(Skip::ConsentRefused, "not allowed to run"));
    }
    if let (Some(report), EndKind::Exited(code)) = (end.entry.report, end.kind) {
        return report
            .verdict(code, end.stdout)
            .ok_or_else(|| Fault::new(Skip::InvalidJson, how(end)));
    }
    match (reply, end.kind, end.kind.failure()) {
        (Reply::Command, EndKind::Exited(2), _) => Ok(exit_2(end)),
        (_, _, Some(skip)) => Err(Fault::new(skip, how(end))),
        (_, _, None) if end.stdout_truncated => {
            // docker-agent itself truncates nothing, so its result for the whole output is unknown.
            Err(Fault::new(
                Skip::InvalidJson,
                "its output is too long to be read",
            ))
        }
        (Reply::Command, _, None) => output::read(end),
        (Reply::Model, _, None) => output::read_reply(end),
    }
}

/// The reason for a hook's failure.
struct Fault {
    skip: Skip,
    text: String,
}

impl Fault {
    fn new(skip: Skip, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { skip, text }
    }
}

/// Returns the decision by which a hook may stop a point.
fn stops(point: &str) -> Option<Decision> {
    FACTS.stop_of(point).decision()
}

/// Returns whether every failure at a point stops it, regardless of the entry.
fn fails_closed(point: &str) -> bool {
    matches!(point, "pre_tool_use" | "tool_guard")
}

/// Builds the verdict for a hook that failed.
fn failed(end: &End<'_>, fault: &Fault) -> Verdict {
    let Fault { skip, text } = fault;
    let text = format!("the hook failed: {text}");
    let entry = &end.entry;
    let is_closed = fails_closed(end.point) || entry.preempt || entry.on_error == OnError::Block;
    let verdict = match stops(end.point) {
        Some(decision) if is_closed => {
            let blocked_by = skip.blocked_by().unwrap_or(BlockedBy::InvalidOutput);
            Verdict::stopped(decision, blocked_by, text)
        }
        _ if entry.on_error == OnError::Ignore => Verdict::default(),
        _ => Verdict {
            warnings: vec![text],
            ..Verdict::default()
        },
    };
    Verdict {
        failed: true,
        skip: Some(*skip),
        ..verdict
    }
}

fn how(end: &End<'_>) -> String {
    match end.kind {
        EndKind::Canceled => "canceled".to_owned(),
        EndKind::ExecFailed if end.error.is_empty() => "could not be started".to_owned(),
        EndKind::ExecFailed => format!("could not be started: {}", end.error),
        EndKind::Exited(code) => format!("exited with status {code}"),
        EndKind::Killed => "an operator killed it".to_owned(),
        EndKind::OutputLimit => "printed more than allowed".to_owned(),
        EndKind::Signaled(signal) => format!("signal {signal} ended it"),
        EndKind::TimedOut => {
            let timeout = end.entry.timeout.unwrap_or(TIMEOUT);
            format!("timed out after {timeout:?}")
        }
    }
}

/// Builds the verdict for exit code 2, which blocks. The reason is stderr, or else in an object on stdout.
fn exit_2(end: &End<'_>) -> Verdict {
    let Some(decision) = stops(end.point) else {
        return Verdict {
            warnings: vec![format!("exit code 2 blocks nothing at `{}`", end.point)],
            ..Verdict::default()
        };
    };
    let stderr = String::from_utf8_lossy(end.stderr);
    let texts = output::block_texts(end);
    let reason = match stderr.trim() {
        "" => texts.reason,
        text => text.to_owned(),
    };
    Verdict {
        // Not repeated where it is the reason already.
        system_message: Some(texts.system_message)
            .filter(|message| *message != reason)
            .unwrap_or_default(),
        ..Verdict::stopped(decision, BlockedBy::ExitCode, reason)
    }
}

#[cfg(test)]
mod tests;
