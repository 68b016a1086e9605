//! Gemini CLI hooks, as its reference and its hook runner have them.
//!
//! Text is an approval with a message for the user. Text that begins like an object or an array and is none is not: it may be
//! what is left of an answer that said no.

use std::time::Duration;

use bytes::Bytes;

use super::{
    BlockedBy, Course, Decision, Defaults, End, EndKind, Envelope, Facts, Folded, Json, Point,
    Rules, Skip, Stop, Verdict,
    entry::Key,
    envelope::known,
    fields::{Faults, Fields, Said, complaint, refused, said, settled, silent, stop_of},
    members,
    merge::{decide, halt, merged, stop, strength},
    patch::{over_input, patched},
    stdin,
};
use crate::request::{Event, InvalidField};

pub(super) struct GeminiCli;

const TIMEOUT: Duration = Duration::from_secs(60);

const POINTS: [Point; 11] = [
    point("SessionStart", Stop::Nothing),
    point("SessionEnd", Stop::Nothing),
    point("BeforeAgent", Stop::Operation),
    point("AfterAgent", Stop::Ending),
    point("BeforeModel", Stop::Operation),
    point("AfterModel", Stop::Operation),
    point("BeforeToolSelection", Stop::Nothing),
    point("BeforeTool", Stop::Call),
    point("AfterTool", Stop::Operation),
    point("PreCompress", Stop::Nothing),
    point("Notification", Stop::Nothing),
];

const KEYS: [(&str, Key); 9] = [
    ("allowed", Key::Allowed),
    ("command", Key::Carried),
    ("description", Key::Carried),
    ("env", Key::Carried),
    ("matcher", Key::Carried),
    ("name", Key::Carried),
    ("sequential", Key::InTurn),
    ("timeout", Key::TimeoutMillis),
    ("type", Key::Carried),
];

const fn point(name: &'static str, stop: Stop) -> Point {
    Point { name, stop }
}

const FACTS: Facts = Facts {
    contract: "gemini_cli",
    keys: &KEYS,
    other_points: None,
    output_cap: None,
    points: &POINTS,
    version: "gemini_cli/2026",
};

impl Rules for GeminiCli {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn defaults(&self, _point: &str) -> Defaults {
        Defaults::shell("/bin/bash", "-c", TIMEOUT)
    }

    fn stdin(&self, event: &Event, envelope: &Envelope) -> Result<Bytes, InvalidField> {
        let tool = envelope.tool.as_ref();
        let after = tool.filter(|_| event.point == "AfterTool");
        let beside = [
            ("session_id", known(&envelope.session)),
            ("cwd", known(&envelope.cwd)),
            ("timestamp", envelope.iso_time()),
            ("tool_name", tool.and_then(|tool| known(&tool.name))),
            ("tool_input", tool.and_then(|tool| tool.input.clone())),
            (
                "tool_response",
                after.and_then(|tool| tool.response.clone()),
            ),
        ];
        stdin::object(FACTS.contract, event, "hook_event_name", &beside)
    }

    fn interpret(&self, end: &End<'_>) -> Verdict {
        let at = stop_of(self, end.point);
        match said(end) {
            Said::Broke(skip) => broke(end, at, skip),
            Said::Nothing => match answered(end, at) {
                Some(verdict) if verdict.decision.stops() => verdict,
                Some(_) | None => silent(Skip::EmptyStdout),
            },
            Said::Refused(stderr) => refused(at, stderr),
            Said::Text(text) => printed(at, text),
        }
    }

    /// One after another where a group says so: [`super::Entry::in_turn`].
    fn course(&self, _point: &str) -> Course {
        Course::AtOnce
    }

    /// What is rewritten of a tool's input or of a request to the model is what the next of a sequential group reads.
    fn hand_on(&self, verdict: &Verdict, event: &mut Event, envelope: &mut Envelope) {
        if let Some(patch) = &verdict.updated_input {
            let input = over_input(patch, event, envelope);
            stdin::put(event, &["tool_input"], &input);
        }
        if let Some(request) = &verdict.updated_messages {
            stdin::put(event, &["llm_request"], request);
        }
    }

    fn fold(&self, _point: &str, hooks: &[(&str, &Verdict)]) -> Folded {
        let mut folded = merged(hooks, |verdict| strength(verdict.decision));
        if folded.answer.updated_input.is_some() {
            let inputs = hooks.iter().map(|(_, verdict)| &verdict.updated_input);
            folded.answer.updated_input = patched(inputs.flatten());
        }
        folded
    }
}

/// Makes the verdict of a hook that broke: Gemini CLI reads its JSON all the same, and takes text for a no unless the exit code
/// is 0 or 1. Of a signal's end it knows no exit code, and takes it for 0.
fn broke(end: &End<'_>, at: Stop, skip: Skip) -> Verdict {
    // The output of a hook that was not run, or that took too long, is not read.
    if !matches!(skip, Skip::NonzeroExit | Skip::Signal) {
        return Verdict::skipped(skip);
    }
    let answered = answered(end, at);
    let is_json = answered.is_some();
    if let Some(verdict) = answered.filter(|verdict| verdict.decision.stops()) {
        return verdict;
    }
    let words = words(end);
    match end.kind {
        EndKind::Exited(code) if code != 1 && !is_json && !words.is_empty() => refused(at, words),
        EndKind::Exited(_) => {
            let is_text = !is_json && !words.is_empty();
            let message = is_text.then(|| format!("Warning: {words}"));
            Verdict {
                system_message: message.unwrap_or_default(),
                ..Verdict::skipped(skip)
            }
        }
        EndKind::Canceled
        | EndKind::ExecFailed
        | EndKind::OutputLimit
        | EndKind::Signaled(_)
        | EndKind::TimedOut => Verdict::skipped(skip),
    }
}

/// Returns what Gemini CLI reads: stdout, or where there is nothing on it stderr.
fn words(end: &End<'_>) -> String {
    let stdout = String::from_utf8_lossy(end.stdout);
    match stdout.trim() {
        "" => complaint(end),
        stdout => stdout.to_owned(),
    }
}

/// Returns the answer that is read of an end other than text on exit 0; `None` where it is no JSON object.
fn answered(end: &End<'_>, at: Stop) -> Option<Verdict> {
    let words = words(end);
    let inner = unquoted(&words);
    let inner = inner.as_deref().map_or(words.as_str(), str::trim);
    let faults = Faults::default();
    let fields = Fields::parse(inner, &faults).ok()?;
    Some(answer(at, &fields, &faults))
}

/// Returns the text of a JSON string: a hook may print its JSON as one.
fn unquoted(text: &str) -> Option<String> {
    let document = text.starts_with('"').then(|| serde_json::from_str(text));
    document?.ok().and_then(members::text)
}

fn printed(at: Stop, text: &str) -> Verdict {
    let inner = unquoted(text);
    let inner = inner.as_deref().map_or(text, str::trim);
    let faults = Faults::default();
    match Fields::parse(inner, &faults) {
        Ok(fields) => answer(at, &fields, &faults),
        Err(Skip::InvalidJson) if !is_torn(inner) => Verdict {
            decision: Decision::Allow,
            system_message: text.to_owned(),
            ..Verdict::default()
        },
        Err(Skip::InvalidJson) => Verdict {
            system_message: text.to_owned(),
            ..Verdict::skipped(Skip::InvalidJson)
        },
        Err(skip) => Verdict::skipped(skip),
    }
}

/// Says whether text that is no JSON begins like an object or array, quoted or not.
fn is_torn(text: &str) -> bool {
    let text = text.strip_prefix('"').unwrap_or(text);
    text.trim_start().starts_with(['{', '['])
}

fn answer(at: Stop, fields: &Fields<'_, '_>, faults: &Faults) -> Verdict {
    let mut verdict = fields.universal();
    let reason = fields.text("reason").unwrap_or_default();
    if fields.boolean("continue") == Some(false) {
        halt(&mut verdict, at, &reason);
    }
    let words = [("allow", false), ("block", true), ("deny", true)];
    match fields.word("decision", &words) {
        Some(true) => stop(&mut verdict, at, BlockedBy::Decision, &reason),
        Some(false) => decide(&mut verdict, Decision::Allow, BlockedBy::Decision, &reason),
        None => {}
    }
    if let Some(own) = fields.within("hookSpecificOutput") {
        specific(&own, &mut verdict);
    }
    settled(verdict, faults)
}

fn specific(own: &Fields<'_, '_>, verdict: &mut Verdict) {
    verdict.additional_context = own.context("additionalContext");
    verdict.updated_input = own.object("tool_input");
    verdict.updated_messages = own.object("llm_request");
    let output = own.value("tool_output");
    verdict.updated_output = output.or_else(|| own.object("llm_response"));
    let config = own.object("toolConfig");
    // Read for its type.
    let clear = own.boolean("clearContext").and(own.value("clearContext"));
    let members = [("clearContext", clear), ("toolConfig", config)];
    let members = members
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let members: Vec<_> = members.collect();
    verdict.metadata = (!members.is_empty()).then(|| Json::object(&members));
}
