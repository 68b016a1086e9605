//! Base Coat lifecycle hooks, by its specification; there is no reference implementation.
//!
//! A hook blocks only by a well-formed answer with exit 0. Everything else passes, with a warning.

use std::{str, time::Duration};

use bytes::Bytes;
use serde_json::{Map, Value, json, value::RawValue};

use hookjail_base::model::{Event, InvalidField};

use super::{
    BlockedBy, Decision, Defaults, End, EndKind, Envelope, Facts, Folded, Json, Rules, Scheduling,
    Skip, Stop, Verdict,
    adopt::base_coats,
    entry::Key,
    envelope::known,
    members::{Members, is_null, number, text, texts},
    merge::{add_rewrites, add_texts},
    point, stdin,
    verdict::present,
};

mod adapter;
mod hook_file;

use self::{adapter::ADAPTER, hook_file::HOOK_FILE};

/// The default priority of entries and responses.
const PRIORITY: f64 = 50.0;

/// Measurements of hooks at each point, as the specification names them. They have the spelling of its other members.
const MEASURES: [(&str, &[&str]); 8] = [
    ("SessionStart", &["memoryHits", "sessionBootstrapLatency"]),
    ("SessionEnd", &["persistedFacts", "handoffSize"]),
    (
        "PreToolUse",
        &["toolCategory", "policyChecks", "warningsInjected"],
    ),
    (
        "PostToolUse",
        &["duration", "successRate", "retryCount", "loopScore"],
    ),
    ("PreCompact", &["preCompactionTokenLoad", "handoffSize"]),
    ("PostCompact", &["retainedAnchors", "compressionRatio"]),
    ("OnError", &["normalizedErrorClass", "recurrenceCount"]),
    (
        "OnBudgetExceeded",
        &["triggerThreshold", "rotationFrequency"],
    ),
];

/// The correlation id of a session's telemetry. The specification has hooks at its start make it.
const CORRELATION: &str = "correlationId";

/// The measurements that are identifiers; all others are numbers. They have letters, digits and a few marks, so that no
/// free text of a hook is stored as a measurement.
const WORDS: [&str; 3] = [CORRELATION, "normalizedErrorClass", "toolCategory"];

/// The maximum length of a word that is kept as a measurement, bytes.
const LONGEST_WORD: usize = 64;

pub(super) const FACTS: Facts = Facts {
    adapter: Some(&ADAPTER),
    carried: &["command", "name", "tool"],
    // The specification has neither command style nor timeout, but suggests one to three seconds.
    defaults: Defaults::argv(Some(Duration::from_secs(3))),
    fold,
    hand_on,
    keys: &[
        ("contextLimit", Key::ContextChars),
        ("on_failure", Key::OnFailure),
        ("priority", Key::Priority),
        ("timeout", Key::TimeoutSeconds),
    ],
    last_points: &["SessionEnd"],
    measures,
    point_key: "hook",
    // Any may be blocked; the runtime decides what that means there.
    points: &[
        point("SessionStart", Stop::Operation),
        point("SessionEnd", Stop::Ending),
        point("PreToolUse", Stop::Operation),
        point("PostToolUse", Stop::Operation),
        point("PreCompact", Stop::Operation),
        point("PostCompact", Stop::Operation),
        point("OnError", Stop::Operation),
        point("OnBudgetExceeded", Stop::Operation),
    ],
    priority: PRIORITY,
    scheduling: Scheduling::PriorityUntilBlock,
    // Returns the session's members in events of any runtime, as its hooks are for all.
    session: &["sessionId", "session_id"],
    // From any runtime's spelling, as its hooks are for all.
    spelled: base_coats,
    stdin,
    ..Facts::new("basecoat", "basecoat/1", interpret)
};

pub(super) const RULES: Rules = Rules {
    hook_file: Some(&HOOK_FILE),
    ..Rules::NONE
};

fn stdin(facts: &Facts, event: &Event, envelope: &Envelope) -> Result<Bytes, InvalidField> {
    let budget = envelope.budget.map(|budget| {
        Json::from(
            json!({"usedTokens": budget.used_tokens, "effectiveLimit": budget.effective_limit}),
        )
    });
    let members = [
        ("timestamp", envelope.iso_time()),
        ("sessionId", known(&envelope.session)),
        ("agent", known(&envelope.agent)),
        ("repository", known(&envelope.repository)),
        ("branch", known(&envelope.branch)),
        ("budget", budget),
        ("tool", tool(envelope)),
    ];
    stdin::object(facts, event, &members)
}

fn interpret(end: &End<'_>) -> Verdict {
    let priority = end.entry.priority;
    let verdict = if end.entry.allowed == Some(false) {
        passed(Skip::ConsentRefused, "the hook was not allowed to run")
    } else if let Some(skip) = end.kind.failure() {
        passed(skip, how(end.kind))
    } else {
        response(end).unwrap_or_else(|skip| {
            if skip == Skip::EmptyStdout {
                // An absent action is `passThrough`.
                return Verdict {
                    skip: Some(skip),
                    ..Verdict::default()
                };
            }
            passed(skip, &format!("the hook's response is not valid: {skip}"))
        })
    };
    Verdict {
        priority: verdict.priority.or(priority),
        ..verdict
    }
}

/// Reads the measurements from the members of `metadata`; members of other names or kinds are ignored.
fn measures(point: &str, verdict: &Verdict) -> Map<String, Value> {
    let of_point = MEASURES.iter().filter(|(known, _)| *known == point);
    let known: Vec<_> = of_point.flat_map(|(_, names)| *names).collect();
    let members = verdict.metadata.as_ref().and_then(Json::members);
    let members = members.into_iter().flatten();
    let measure = |(name, json): (String, Json)| {
        let is_known = name == CORRELATION || known.iter().any(|known| **known == name);
        let value = serde_json::from_str(json.as_str()).ok()?;
        (is_known && is_measure(&name, &value)).then_some((name, value))
    };
    members.filter_map(measure).collect()
}

/// Passes the payload of `modify` to the next hook. The payload becomes `tool.input` and `tool.output`, wherever the tool
/// was described.
fn hand_on(verdict: &Verdict, event: &mut Event, envelope: &mut Envelope) {
    let rewritten = [
        ("input", &verdict.updated_input),
        ("output", &verdict.updated_output),
    ];
    for (name, value) in rewritten {
        let Some(value) = value else { continue };
        // An event's own `tool` hides the envelope's.
        let known = tool(envelope).filter(|_| !has_tool(event));
        if let Some(tool) = known {
            stdin::put(event, &["tool"], &tool);
        }
        stdin::put(event, &["tool", name], value);
    }
}

/// Merges contexts, warnings and metadata of all hooks that ran. The payload is that of the last that modified; the
/// first block counts.
fn fold(_point: &str, hooks: &[(&str, &Verdict)]) -> Folded {
    let mut answer = Verdict::default();
    let mut blocked_by_hook = String::new();
    let mut metadata: Vec<(String, Json)> = Vec::new();
    for (name, verdict) in hooks {
        add_texts(&mut answer, verdict);
        add_rewrites(&mut answer, verdict);
        if let Some(members) = verdict.metadata.as_ref().and_then(Json::members) {
            for (key, value) in members {
                metadata.retain(|(known, _)| *known != key);
                metadata.push((key, value));
            }
        }
        if verdict.decision.stops() {
            answer.blocked_by = verdict.blocked_by;
            answer.decision = verdict.decision;
            answer.reason.clone_from(&verdict.reason);
            (*name).clone_into(&mut blocked_by_hook);
            break;
        }
    }
    answer.metadata = (!metadata.is_empty()).then(|| Json::object(&metadata));
    Folded {
        answer,
        blocked_by_hook,
        ..Folded::default()
    }
}

fn is_measure(name: &str, value: &Value) -> bool {
    let is_word = WORDS.contains(&name);
    match value {
        Value::Number(_) => !is_word,
        Value::String(word) => {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
            let is_short = (1..=LONGEST_WORD).contains(&word.len());
            is_word && is_short && word.bytes().all(is_plain)
        }
        Value::Array(_) | Value::Bool(_) | Value::Null | Value::Object(_) => false,
    }
}

fn has_tool(event: &Event) -> bool {
    Members::of_event(&event.json).is_ok_and(|members| members.last("tool").is_some())
}

/// Returns the tool with `tool.input` and `tool.output`. The envelope has no named field for them, although `modify`
/// rewrites them.
fn tool(envelope: &Envelope) -> Option<Json> {
    let tool = envelope.tool.as_ref()?;
    let members = [
        ("name", known(&tool.name)),
        ("success", tool.success.map(|success| json!(success).into())),
        (
            "durationMs",
            tool.duration_ms.map(|duration| json!(duration).into()),
        ),
        ("input", tool.input.clone()),
        ("output", tool.response.clone()),
    ];
    Some(Json::object(&present(members).collect::<Vec<_>>()))
}

/// Builds the verdict of a hook that failed.
fn passed(skip: Skip, warning: &str) -> Verdict {
    Verdict {
        failed: true,
        warnings: vec![warning.to_owned()],
        ..Verdict::skipped(skip)
    }
}

const fn how(kind: EndKind) -> &'static str {
    match kind {
        EndKind::Canceled => "the hook was canceled",
        EndKind::ExecFailed => "the hook could not be started",
        EndKind::Exited(_) => "the hook failed: its exit code is not 0",
        EndKind::Killed => "an operator killed the hook",
        EndKind::OutputLimit => "the hook printed more than it may",
        EndKind::Signaled(_) => "the hook was ended by a signal",
        EndKind::TimedOut => "the hook timed out",
    }
}

/// Parses a response as a whole, or not at all.
fn response(end: &End<'_>) -> Result<Verdict, Skip> {
    if end.stdout_truncated {
        return Err(Skip::InvalidJson);
    }
    // Bytes that are not UTF-8 are not replaced: the text would not be the hook's.
    let stdout = str::from_utf8(end.stdout).map_err(|_| Skip::InvalidJson)?;
    if stdout.trim().is_empty() {
        return Err(Skip::EmptyStdout);
    }
    let members = Members::parse(stdout)?;
    // A repeated member is ambiguous.
    if members.repeat() {
        return Err(Skip::InvalidJson);
    }
    // Many writers use `null` for an absent value: a rewrite to it would be an accident.
    let present = |name| members.last(name).filter(|value| !is_null(value));
    let mut verdict = Verdict {
        priority: typed(present("priority"), "priority", number)?,
        reason: typed(present("reason"), "reason", text)?.unwrap_or_default(),
        warnings: typed(present("warnings"), "warnings", texts)?.unwrap_or_default(),
        ..Verdict::default()
    };
    let metadata = typed(present("metadata"), "metadata", Members::from_value)?;
    verdict.metadata = metadata
        .and_then(|_| present("metadata"))
        .map(Json::from_raw);
    let (context, is_single) = match present("additionalContext") {
        None => (Vec::new(), false),
        Some(value) => match (texts(value), text(value)) {
            (Some(list), _) => (list, false),
            (None, Some(single)) => (vec![single], true),
            (None, None) => return Err(Skip::WrongType("additionalContext")),
        },
    };
    if is_single {
        let warning = "`additionalContext` is a string; make it a list of strings";
        verdict.warnings.push(warning.to_owned());
    }
    // A hook without findings prints an empty list.
    let has_context = present("additionalContext").is_some();
    cap(&mut verdict, context, end.entry.context_chars);

    let action = typed(present("action"), "action", text)?;
    let payload = |name| present(name).map(Json::from_raw);
    let (input, output) = (payload("modifiedInput"), payload("modifiedOutput"));
    let has_payload = input.is_some() || output.is_some();
    match action.as_deref() {
        Some("modify") if !has_payload => return Err(Skip::MissingField("modifiedInput")),
        Some("modify") => (verdict.updated_input, verdict.updated_output) = (input, output),
        Some("injectContext") if !has_context => {
            return Err(Skip::MissingField("additionalContext"));
        }
        None | Some("passThrough" | "injectContext" | "block") if has_payload => {
            let warning = "a modified input or output counts only with the action `modify`";
            verdict.warnings.push(warning.to_owned());
        }
        None | Some("passThrough" | "injectContext" | "block") => {}
        Some(_) => return Err(Skip::WrongType("action")),
    }
    if action.as_deref() == Some("block") {
        verdict.decision = Decision::Block;
        verdict.blocked_by = Some(BlockedBy::Decision);
        if verdict.reason.is_empty() {
            verdict.warnings.push("the block has no reason".to_owned());
        }
    }
    Ok(verdict)
}

fn typed<'a, T>(
    value: Option<&'a RawValue>,
    name: &'static str,
    read: impl Fn(&'a RawValue) -> Option<T>,
) -> Result<Option<T>, Skip> {
    let read = |value| read(value).ok_or(Skip::WrongType(name));
    value.map(read).transpose()
}

/// Truncates context to the maximum length.
fn cap(verdict: &mut Verdict, context: Vec<String>, chars: usize) {
    let mut room = chars;
    let mut is_cut = false;
    for mut text in context {
        let end = text.char_indices().nth(room).map(|(end, _)| end);
        if let Some(end) = end {
            text.truncate(end);
            is_cut = true;
        }
        room -= text.chars().count();
        if !text.is_empty() || !is_cut {
            verdict.additional_context.push(text);
        }
    }
    if is_cut {
        let warning =
            format!("the context is longer than {chars} characters, so the rest is cut off");
        verdict.warnings.push(warning);
    }
}
