//! Claude Code command hooks, as pages of October 2026 quote its reference.
//!
//! A hook that breaks stops nothing, unless its entry says `onFailure: "block"`. Which of its events can be stopped is taken
//! from what they are for where no page says it.

use std::time::Duration;

use bytes::Bytes;

use super::{
    BlockedBy, Course, Decision, Defaults, End, Envelope, Facts, Folded, Json, Point, Rules, Skip,
    Stop, Verdict,
    entry::Key,
    envelope::known,
    fields::{Faults, Fields, Said, broke, failure, refused, said, settled, silent, stop_of},
    merge::{INTERRUPT, decide, halt, merged, stop, strength},
    stdin,
};
use crate::request::{Event, InvalidField};

pub(super) struct ClaudeCode;

const POINTS: [Point; 32] = [
    point("SessionStart", Stop::Nothing),
    point("Setup", Stop::Nothing),
    point("UserPromptSubmit", Stop::Operation),
    point("UserPromptExpansion", Stop::Operation),
    point("PreToolUse", Stop::Call),
    point("PermissionRequest", Stop::Call),
    point("PermissionDenied", Stop::Nothing),
    // The tool has run; what is stopped is the model going on with its result.
    point("PostToolUse", Stop::Operation),
    point("PostToolUseFailure", Stop::Nothing),
    point("PostToolBatch", Stop::Operation),
    point("Notification", Stop::Nothing),
    point("MessageDisplay", Stop::Nothing),
    point("SubagentStart", Stop::Nothing),
    point("SubagentStop", Stop::Ending),
    point("TaskCreated", Stop::Operation),
    point("TaskCompleted", Stop::Ending),
    point("Stop", Stop::Ending),
    point("StopFailure", Stop::Nothing),
    point("TeammateIdle", Stop::Ending),
    point("InstructionsLoaded", Stop::Nothing),
    point("ConfigChange", Stop::Operation),
    point("CwdChanged", Stop::Nothing),
    point("FileChanged", Stop::Nothing),
    point("WorktreeCreate", Stop::Operation),
    point("WorktreeRemove", Stop::Nothing),
    point("PreCompact", Stop::Operation),
    point("PostCompact", Stop::Nothing),
    point("Elicitation", Stop::Operation),
    point("ElicitationResult", Stop::Operation),
    point("SessionEnd", Stop::Nothing),
    point("PreModelSwitch", Stop::Operation),
    point("PostModelSwitch", Stop::Nothing),
];

const KEYS: [(&str, Key); 13] = [
    ("allowed", Key::Allowed),
    ("args", Key::Carried),
    ("async", Key::Background),
    ("command", Key::Carried),
    ("if", Key::Carried),
    ("matcher", Key::Carried),
    ("name", Key::Carried),
    ("onFailure", Key::OnFailure),
    ("once", Key::Carried),
    ("shell", Key::Carried),
    ("statusMessage", Key::Carried),
    ("timeout", Key::TimeoutSeconds),
    ("type", Key::Carried),
];

/// A call is put off until somebody decides it: for whoever asks here, that is a question.
const DEFERRED: &str = "the hook defers the call; it is passed on as a question";

const DEPRECATED: &str =
    "`decision` is deprecated at `PreToolUse`; `permissionDecision` replaces it";

const fn point(name: &'static str, stop: Stop) -> Point {
    Point { name, stop }
}

const FACTS: Facts = Facts {
    contract: "claude_code",
    keys: &KEYS,
    // New events come with nearly every release; an exit 2 at one of them must not be lost.
    other_points: Some(Stop::Operation),
    output_cap: None,
    points: &POINTS,
    version: "claude_code/2026-10",
};

impl Rules for ClaudeCode {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn defaults(&self, point: &str) -> Defaults {
        let timeout = match point {
            "MessageDisplay" => Duration::from_secs(10),
            "PostModelSwitch" | "PreModelSwitch" | "UserPromptSubmit" => Duration::from_secs(30),
            "SessionEnd" => Duration::from_millis(1500),
            _ => Duration::from_secs(600),
        };
        Defaults::shell("/bin/sh", "-c", timeout)
    }

    fn stdin(&self, event: &Event, envelope: &Envelope) -> Result<Bytes, InvalidField> {
        let tool = envelope.tool.as_ref();
        let after = tool.filter(|_| event.point == "PostToolUse");
        let failed = tool.filter(|_| event.point == "PostToolUseFailure");
        let beside = [
            ("session_id", known(&envelope.session)),
            ("cwd", known(&envelope.cwd)),
            ("tool_name", tool.and_then(|tool| known(&tool.name))),
            ("tool_input", tool.and_then(|tool| tool.input.clone())),
            ("tool_use_id", tool.and_then(|tool| known(&tool.use_id))),
            (
                "tool_response",
                after.and_then(|tool| tool.response.clone()),
            ),
            ("error", failed.map(|tool| Json::text(&tool.error))),
        ];
        stdin::object(FACTS.contract, event, "hook_event_name", &beside)
    }

    fn interpret(&self, end: &End<'_>) -> Verdict {
        if end.entry.background {
            return Verdict::skipped(failure(end).unwrap_or(Skip::OutputIgnored));
        }
        let stop = stop_of(self, end.point);
        match said(end) {
            Said::Broke(skip) => broke(end, skip, |text| answer(end.point, stop, text)),
            Said::Nothing => silent(Skip::EmptyStdout),
            Said::Refused(stderr) => refused(stop, stderr),
            Said::Text(text) if text.starts_with('{') => answer(end.point, stop, text),
            Said::Text(text) => plain(end.point, text),
        }
    }

    /// A tool that has another name today is still found by the one that it had.
    fn other_names(&self, tool: &str) -> &'static [&'static str] {
        match tool {
            "Agent" => &["Task"],
            "TaskOutput" => &["AgentOutputTool", "BashOutputTool"],
            "TaskStop" => &["KillShell"],
            _ => &[],
        }
    }

    fn course(&self, _point: &str) -> Course {
        Course::AtOnce
    }

    /// Deny outweighs defer, defer ask, and ask allow.
    fn fold(&self, _point: &str, hooks: &[(&str, &Verdict)]) -> Folded {
        merged(hooks, |verdict| {
            let is_deferred = verdict.warnings.iter().any(|warning| warning == DEFERRED);
            strength(verdict.decision) * 2 + u8::from(is_deferred)
        })
    }
}

/// Reads what is no object.
fn plain(point: &str, text: &str) -> Verdict {
    if matches!(point, "SessionStart" | "UserPromptSubmit") {
        return Verdict {
            additional_context: vec![text.to_owned()],
            ..Verdict::default()
        };
    }
    silent(Skip::OutputIgnored)
}

fn answer(point: &str, at: Stop, text: &str) -> Verdict {
    let faults = Faults::default();
    let fields = match Fields::parse(text, &faults) {
        Ok(fields) => fields,
        Err(skip) => return Verdict::skipped(skip),
    };
    let mut verdict = fields.universal();
    let reason = fields.text("reason").unwrap_or_default();
    if fields.boolean("continue") == Some(false) {
        halt(&mut verdict, at, &reason);
    }
    if let Some(own) = fields.within("hookSpecificOutput") {
        match own.text("hookEventName") {
            Some(name) if name == point => specific(point, &own, &faults, &mut verdict),
            Some(_) => faults.note(Skip::WrongType("hookEventName")),
            None => faults.note(Skip::MissingField("hookEventName")),
        }
    }
    let blocks = fields.word("decision", &[("approve", false), ("block", true)]);
    if blocks.is_some() && point == "PreToolUse" {
        verdict.warnings.push(DEPRECATED.to_owned());
    }
    match blocks {
        Some(true) => stop(&mut verdict, at, BlockedBy::Decision, &reason),
        Some(false) if point == "PreToolUse" => {
            decide(&mut verdict, Decision::Allow, BlockedBy::Decision, &reason);
        }
        Some(false) | None => {}
    }
    settled(verdict, &faults)
}

/// Reads what an event has of its own.
fn specific(point: &str, own: &Fields<'_, '_>, faults: &Faults, verdict: &mut Verdict) {
    verdict.additional_context = own.context("additionalContext");
    match point {
        "PermissionRequest" => permission(own, faults, verdict),
        "PostToolUse" => {
            let output = own.value("updatedToolOutput");
            verdict.updated_output = output.or_else(|| own.value("updatedMCPToolOutput"));
        }
        "PreToolUse" => {
            let reason = own.text("permissionDecisionReason").unwrap_or_default();
            let by = BlockedBy::PermissionDecision;
            verdict.updated_input = own.object("updatedInput");
            let words = [
                ("allow", (Decision::Allow, false)),
                ("ask", (Decision::Ask, false)),
                ("defer", (Decision::Ask, true)),
                ("deny", (Decision::Deny, false)),
            ];
            let Some((decision, is_deferred)) = own.word("permissionDecision", &words) else {
                return;
            };
            decide(verdict, decision, by, &reason);
            if is_deferred {
                verdict.warnings.push(DEFERRED.to_owned());
            }
        }
        _ => {}
    }
}

fn permission(own: &Fields<'_, '_>, faults: &Faults, verdict: &mut Verdict) {
    let Some(decision) = own.within("decision") else {
        return;
    };
    let message = decision.text("message").unwrap_or_default();
    verdict.updated_input = decision.object("updatedInput");
    let words = [("allow", Decision::Allow), ("deny", Decision::Deny)];
    match decision.word("behavior", &words) {
        Some(behavior) => decide(verdict, behavior, BlockedBy::PermissionDecision, &message),
        None => faults.note(Skip::MissingField("behavior")),
    }
    if decision.boolean("interrupt") == Some(true) {
        verdict.warnings.push(INTERRUPT.to_owned());
    }
}
