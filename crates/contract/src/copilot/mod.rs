//! GitHub Copilot hooks, by the reference of its command line and cloud agent.
//!
//! Every event has two names, `preToolUse` and `PreToolUse`: they are equivalent, and the second has stdin in the form
//! that Claude Code has. A tool call is denied where its hook fails, but never on a timeout. For the cloud agent an
//! `ask` is a deny; which of the two runs a hook is not known here.

use std::time::Duration;

use bytes::Bytes;

use hookjail_base::model::{Event, InvalidField};

use super::{
    BlockedBy, Decision, Defaults, End, EndKind, Envelope, Facts, Folded, Matcher, Rules, Skip,
    Stop, Subject, Verdict,
    entry::Key,
    envelope::Part,
    fields::{
        ALLOW_ASK_DENY, ALLOW_DENY, Faults, Fields, complaint, failure, printed, refused, settled,
        silent,
    },
    members::{Members, text},
    merge::{INTERRUPT, decide, hand_on, merged, stop, strength},
    point, stdin,
};

mod adapter;
mod hook_file;

use self::{adapter::ADAPTER, hook_file::HOOK_FILE};

/// The maximum length of a stream that is read, bytes.
const OUTPUT_CAP: usize = 10 * 1024 * 1024;

/// The maximum length of context passed on, bytes.
const CONTEXT_CAP: usize = 10 * 1024;

/// Members of an answer that are read at some points only.
const ELSEWHERE: [&str; 11] = [
    "additionalContext",
    "behavior",
    "decision",
    "interrupt",
    "message",
    "modifiedArgs",
    "modifiedResponse",
    "modifiedResult",
    "permissionDecision",
    "permissionDecisionReason",
    "reason",
];

/// The members of stdin at points in the spelling of Claude Code.
const NAMED: [stdin::Added; 7] = [
    ("session_id", Part::Session, &[]),
    ("timestamp", Part::IsoTime, &[]),
    ("cwd", Part::Cwd, &[]),
    ("tool_name", Part::ToolName, &[]),
    ("tool_input", Part::Input, &[]),
    ("tool_result", Part::Response, &["PostToolUse"]),
    ("error", Part::Error, &["PostToolUseFailure"]),
];

pub(super) const FACTS: Facts = Facts {
    adapter: Some(&ADAPTER),
    carried: &[
        "allowedEnvVars",
        "args",
        "bash",
        "command",
        "cwd",
        "env",
        "exec",
        "headers",
        "matcher",
        "name",
        "powershell",
        "type",
        "url",
    ],
    defaults: Defaults::shell("/bin/bash", "-c", Some(Duration::from_secs(30))),
    fold,
    keys: &[
        ("timeout", Key::TimeoutSeconds),
        ("timeoutSec", Key::TimeoutSeconds),
    ],
    last_points: &["SessionEnd", "sessionEnd"],
    members: &[
        ("sessionId", Part::Session, &[]),
        ("timestamp", Part::Millis, &[]),
        ("cwd", Part::Cwd, &[]),
        ("toolName", Part::ToolName, &[]),
        ("toolArgs", Part::Input, &[]),
        ("toolResult", Part::Response, &["postToolUse"]),
        ("error", Part::Error, &["postToolUseFailure"]),
    ],
    output_cap: Some(OUTPUT_CAP),
    points: &[
        point("sessionStart", Stop::Nothing),
        point("sessionEnd", Stop::Nothing),
        point("userPromptSubmitted", Stop::Nothing),
        point("userPromptTransformed", Stop::Nothing),
        point("preToolUse", Stop::Call),
        point("permissionRequest", Stop::Call),
        point("preMcpToolCall", Stop::Call),
        point("postToolUse", Stop::Nothing),
        point("postToolUseFailure", Stop::Nothing),
        point("agentStop", Stop::Ending),
        point("subagentStart", Stop::Nothing),
        point("subagentStop", Stop::Ending),
        point("preCompact", Stop::Nothing),
        point("errorOccurred", Stop::Nothing),
        point("notification", Stop::Nothing),
        point("SessionStart", Stop::Nothing),
        point("SessionEnd", Stop::Nothing),
        // As Claude Code calls it.
        point("UserPromptSubmit", Stop::Nothing),
        point("UserPromptSubmitted", Stop::Nothing),
        point("UserPromptTransformed", Stop::Nothing),
        point("PreToolUse", Stop::Call),
        point("PermissionRequest", Stop::Call),
        point("PreMcpToolCall", Stop::Call),
        point("PostToolUse", Stop::Nothing),
        point("PostToolUseFailure", Stop::Nothing),
        point("AgentStop", Stop::Ending),
        // As Claude Code calls it.
        point("Stop", Stop::Ending),
        point("SubagentStart", Stop::Nothing),
        point("SubagentStop", Stop::Ending),
        point("PreCompact", Stop::Nothing),
        point("ErrorOccurred", Stop::Nothing),
        point("Notification", Stop::Nothing),
    ],
    // Returns the members of the session, which has two names like every point.
    session: &["sessionId", "session_id"],
    shared_points: &[
        ("SessionStart", "sessionStart"),
        ("SessionEnd", "sessionEnd"),
        ("PreToolUse", "preToolUse"),
        ("PostToolUse", "postToolUse"),
        ("PreCompact", "preCompact"),
        ("OnError", "errorOccurred"),
    ],
    stdin,
    subject,
    ..Facts::new("copilot", "copilot/2026", interpret)
};

pub(super) const RULES: Rules = Rules {
    hook_file: Some(&HOOK_FILE),
    matcher: Some(|_, text| Matcher::whole(text)),
    ..Rules::NONE
};

fn stdin(facts: &Facts, event: &Event, envelope: &Envelope) -> Result<Bytes, InvalidField> {
    let is_capital = |first: char| first.is_ascii_uppercase();
    if event.point.starts_with(is_capital) {
        return stdin::object(facts, event, &stdin::added(&NAMED, event, envelope));
    }
    // Its hooks have the point from their registration.
    let members = stdin::added(facts.members, event, envelope);
    stdin::object_of(facts, event, None, &members, |_, _| true)
}

fn interpret(end: &End<'_>) -> Verdict {
    let stoppable = FACTS.stop_of(end.point);
    match failure(end) {
        None => {}
        Some(Skip::NonzeroExit) if end.kind == EndKind::Exited(2) => return two(end, stoppable),
        // A missing consent or a timeout is not the hook's own failure.
        Some(skip @ (Skip::ConsentRefused | Skip::Timeout)) => return Verdict::skipped(skip),
        Some(skip) => return broke(end, skip),
    }
    let text = match printed(end) {
        Ok(text) => without_progress(text),
        Err(skip) => return Verdict::skipped(skip),
    };
    if text.trim().is_empty() {
        return silent(Skip::EmptyStdout);
    }
    answer(end.point, stoppable, &text)
}

/// Returns the subject of matchers at a point. Where the reference names none, a matcher hides no hook.
fn subject(point: &str) -> Subject {
    match kind(point) {
        Kind::PermissionRequest
        | Kind::PostToolUse
        | Kind::PostToolUseFailure
        | Kind::PreToolUse => return Subject::Tool,
        Kind::Context | Kind::Other | Kind::Stop => {}
    }
    match point {
        "Notification" | "notification" => {
            Subject::Member(&["notification_type", "notificationType"])
        }
        "PreCompact" | "preCompact" => Subject::Member(&["trigger"]),
        "SubagentStart" | "subagentStart" => {
            Subject::Member(&["agentName", "agent_name", "agent_type"])
        }
        _ => Subject::Nothing,
    }
}

/// Merges verdicts: the first deny counts. Contexts are one text, joined by blank lines and truncated at the limit.
fn fold(_point: &str, hooks: &[(&str, &Verdict)]) -> Folded {
    let mut folded = merged(hooks, |verdict| strength(verdict.decision));
    let answer = &mut folded.answer;
    let mut context = answer.additional_context.join("\n\n");
    if context.len() > CONTEXT_CAP {
        let mut ends = (0..=CONTEXT_CAP).rev();
        let end = ends.find(|end| context.is_char_boundary(*end));
        context.truncate(end.unwrap_or_default());
        let warning = "the context is longer than 10 KB, so the rest is cut off";
        answer.warnings.push(warning.to_owned());
    }
    answer.additional_context = (!context.is_empty())
        .then_some(context)
        .into_iter()
        .collect();
    folded
}

/// The events whose answers are read, in either spelling.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// The answers may have context.
    Context,
    /// Nothing of the answer is read.
    Other,
    PermissionRequest,
    PostToolUse,
    PostToolUseFailure,
    PreToolUse,
    /// An agent is about to stop.
    Stop,
}

fn kind(point: &str) -> Kind {
    match point {
        "Notification" | "SessionStart" | "SubagentStart" | "notification" | "sessionStart"
        | "subagentStart" => Kind::Context,
        "PermissionRequest" | "permissionRequest" => Kind::PermissionRequest,
        "PostToolUse" | "postToolUse" => Kind::PostToolUse,
        "PostToolUseFailure" | "postToolUseFailure" => Kind::PostToolUseFailure,
        "PreMcpToolCall" | "PreToolUse" | "preMcpToolCall" | "preToolUse" => Kind::PreToolUse,
        "AgentStop" | "Stop" | "SubagentStop" | "agentStop" | "subagentStop" => Kind::Stop,
        _ => Kind::Other,
    }
}

/// Builds the verdict for a failed hook.
fn broke(end: &End<'_>, skip: Skip) -> Verdict {
    let verdict = Verdict::skipped(skip);
    let Some(blocked_by) = skip
        .blocked_by()
        .filter(|_| kind(end.point) == Kind::PreToolUse)
    else {
        return verdict;
    };
    let stderr = complaint(end);
    let reason = if stderr.is_empty() {
        format!("the hook failed: {skip}")
    } else {
        stderr
    };
    Verdict {
        blocked_by: Some(blocked_by),
        decision: Decision::Deny,
        reason,
        ..verdict
    }
}

/// Builds the verdict for exit code 2. Output may give the reason, and cannot overrule the code.
fn two(end: &End<'_>, stoppable: Stop) -> Verdict {
    let printed = printed(end).map(without_progress).unwrap_or_default();
    let faults = Faults::default();
    let fields = Fields::parse(&printed, &faults).ok();
    let field = |name| {
        let text = fields.as_ref().and_then(|fields| fields.text(name));
        text.filter(|text| !text.is_empty())
    };
    let stderr = complaint(end);
    match kind(end.point) {
        Kind::PermissionRequest => refused(stoppable, field("message").unwrap_or(stderr)),
        Kind::PreToolUse => refused(
            stoppable,
            field("permissionDecisionReason").unwrap_or(stderr),
        ),
        Kind::PostToolUseFailure => {
            let context = field("additionalContext").unwrap_or(stderr);
            Verdict {
                additional_context: texts(context),
                ..Verdict::default()
            }
        }
        Kind::Context | Kind::Other | Kind::PostToolUse | Kind::Stop => Verdict {
            warnings: texts(stderr),
            ..Verdict::skipped(Skip::NonzeroExit)
        },
    }
}

/// Removes lines that only report progress.
fn without_progress(text: &str) -> String {
    let lines = text.lines().filter(|line| !is_progress(line.trim()));
    lines.collect::<Vec<_>>().join("\n")
}

fn is_progress(line: &str) -> bool {
    Members::parse(line).is_ok_and(|members| {
        let is = members.last("type").and_then(text);
        is.as_deref() == Some("progress") && members.last("message").is_some()
    })
}

fn answer(point: &str, stoppable: Stop, text: &str) -> Verdict {
    let faults = Faults::default();
    let fields = match Fields::parse(text, &faults) {
        Ok(fields) => fields,
        Err(skip) => return Verdict::skipped(skip),
    };
    let mut verdict = Verdict::default();
    match kind(point) {
        Kind::Context | Kind::PostToolUseFailure => {
            verdict.additional_context = fields.context("additionalContext");
        }
        Kind::Other => return silent(Skip::OutputIgnored),
        Kind::PermissionRequest => permission(&fields, &mut verdict),
        Kind::PostToolUse => {
            verdict.additional_context = fields.context("additionalContext");
            verdict.updated_output = fields.value("modifiedResult");
        }
        Kind::PreToolUse => call(&fields, &mut verdict),
        Kind::Stop => ending(&fields, stoppable, &mut verdict),
    }
    hand_on(&mut verdict, fields.unread(), &ELSEWHERE);
    settled(verdict, &faults)
}

/// Reads the decision on a tool call.
fn call(fields: &Fields<'_, '_>, verdict: &mut Verdict) {
    let permission = fields.word("permissionDecision", &ALLOW_ASK_DENY);
    let reason = fields.text("permissionDecisionReason").unwrap_or_default();
    let cause = BlockedBy::PermissionDecision;
    decide(verdict, permission.unwrap_or_default(), cause, &reason);
    verdict.updated_input = fields.object("modifiedArgs");
}

/// Reads the decision on a permission.
fn permission(fields: &Fields<'_, '_>, verdict: &mut Verdict) {
    let behavior = fields.word("behavior", &ALLOW_DENY);
    let message = fields.text("message").unwrap_or_default();
    let cause = BlockedBy::PermissionDecision;
    decide(verdict, behavior.unwrap_or_default(), cause, &message);
    if fields.boolean("interrupt") == Some(true) {
        verdict.warnings.push(INTERRUPT.to_owned());
    }
}

/// Reads whether an agent may stop.
fn ending(fields: &Fields<'_, '_>, stoppable: Stop, verdict: &mut Verdict) {
    let reason = fields.text("reason").unwrap_or_default();
    match fields.word("decision", &[("allow", false), ("block", true)]) {
        Some(true) => stop(verdict, stoppable, BlockedBy::Decision, &reason),
        Some(false) => decide(verdict, Decision::Allow, BlockedBy::Decision, &reason),
        None => {}
    }
    verdict.updated_output = fields.value("modifiedResponse");
}

/// Returns a text as a list, unless it is empty.
fn texts(text: String) -> Vec<String> {
    (!text.is_empty()).then_some(text).into_iter().collect()
}
