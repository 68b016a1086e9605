//! Cursor hooks, by mirrored copies of its page; its source is closed.
//!
//! A hook that fails stops nothing, unless its entry sets `failClosed`. A `followup_message` is [`Verdict::output`]:
//! whether it opens a turn depends on the number already opened, which only the runtime has.

use super::{
    BlockedBy, Decision, Defaults, End, Facts, Json, Matcher, Rules, Skip, Stop, Subject, Verdict,
    entry::Key,
    envelope::Part,
    fields::{ALLOW_ASK_DENY, Faults, Fields, Outcome, broke, outcome, refused, settled, silent},
    merge::{decide, hand_on, merged, stop, strength},
    point,
};

mod adapter;
mod hook_file;

use self::{adapter::ADAPTER, hook_file::HOOK_FILE};

/// Members of an answer that are read at some points only.
const ELSEWHERE: [&str; 3] = ["env", "followup_message", "updated_input"];

pub(super) const FACTS: Facts = Facts {
    adapter: Some(&ADAPTER),
    carried: &["command", "loop_limit", "matcher", "name", "type"],
    // The runtime's timeout is not published.
    defaults: Defaults::shell("/bin/sh", "-c", None),
    fold: |_, hooks| merged(hooks, |verdict| strength(verdict.decision)),
    keys: &[
        ("failClosed", Key::FailClosed),
        ("timeout", Key::TimeoutSeconds),
    ],
    last_points: &["sessionEnd"],
    members: &[
        ("conversation_id", Part::Session, &[]),
        ("session_id", Part::Session, &["sessionEnd", "sessionStart"]),
        (
            "cwd",
            Part::Cwd,
            &["afterShellExecution", "beforeShellExecution", "preToolUse"],
        ),
        ("tool_name", Part::ToolName, &[]),
        (
            "tool_input",
            Part::QuotedInput,
            &["afterMCPExecution", "beforeMCPExecution"],
        ),
        ("tool_input", Part::Input, &[]),
        ("tool_use_id", Part::UseId, &[]),
    ],
    points: &[
        point("beforeShellExecution", Stop::Call),
        point("afterShellExecution", Stop::Nothing),
        point("beforeMCPExecution", Stop::Call),
        point("afterMCPExecution", Stop::Nothing),
        point("beforeReadFile", Stop::Call),
        point("afterFileEdit", Stop::Nothing),
        point("beforeSubmitPrompt", Stop::Operation),
        point("stop", Stop::Nothing),
        point("afterAgentResponse", Stop::Nothing),
        point("afterAgentThought", Stop::Nothing),
        point("beforeTabFileRead", Stop::Call),
        point("afterTabFileEdit", Stop::Nothing),
        point("sessionStart", Stop::Operation),
        point("sessionEnd", Stop::Nothing),
        point("preToolUse", Stop::Call),
        point("postToolUse", Stop::Nothing),
        point("postToolUseFailure", Stop::Nothing),
        // The output is undocumented there; an exit code 2 must not be lost.
        point("subagentStart", Stop::Operation),
        point("subagentStop", Stop::Nothing),
        point("preCompact", Stop::Nothing),
    ],
    session: &["conversation_id", "session_id"],
    shared_points: &[
        ("SessionStart", "sessionStart"),
        ("SessionEnd", "sessionEnd"),
        ("PreToolUse", "preToolUse"),
        ("PostToolUse", "postToolUse"),
        ("PreCompact", "preCompact"),
        ("OnError", "postToolUseFailure"),
    ],
    subject,
    warned_points: &["beforeSubmitPrompt"],
    ..Facts::new("cursor", "cursor/2026", interpret)
};

pub(super) const RULES: Rules = Rules {
    hook_file: Some(&HOOK_FILE),
    matcher: Some(|_, text| Matcher::pattern(text)),
    ..Rules::NONE
};

fn interpret(end: &End<'_>) -> Verdict {
    let stoppable = FACTS.stop_of(end.point);
    match outcome(end) {
        Outcome::Broke(skip) => broke(end, skip, |text| answer(end.point, stoppable, text)),
        Outcome::Nothing => silent(Skip::EmptyStdout),
        Outcome::Refused(stderr) => refused(stoppable, stderr),
        Outcome::Text(_) if end.point.starts_with("after") => silent(Skip::OutputIgnored),
        Outcome::Text(text) => answer(end.point, stoppable, text),
    }
}

/// Returns the subject of matchers at a point.
///
/// Where the page has the point's own, constant name as the subject, a matcher hides no hook.
fn subject(point: &str) -> Subject {
    match point {
        "afterShellExecution" | "beforeShellExecution" => Subject::Member(&["command"]),
        "afterAgentResponse" | "afterAgentThought" | "beforeSubmitPrompt" | "preCompact"
        | "sessionEnd" | "sessionStart" | "stop" => Subject::Nothing,
        "subagentStart" | "subagentStop" => Subject::Member(&["subagent_type"]),
        _ => Subject::Tool,
    }
}

fn answer(point: &str, stoppable: Stop, text: &str) -> Verdict {
    let faults = Faults::default();
    let fields = match Fields::parse(text, &faults) {
        Ok(fields) => fields,
        Err(skip) => return Verdict::skipped(skip),
    };
    let mut verdict = Verdict {
        additional_context: fields.context("additional_context"),
        system_message: fields.text("user_message").unwrap_or_default(),
        ..Verdict::default()
    };
    let reason = fields.text("agent_message").unwrap_or_default();
    if fields.boolean("continue") == Some(false) {
        stop(&mut verdict, stoppable, BlockedBy::ContinueFalse, &reason);
    }
    match fields.word("permission", &ALLOW_ASK_DENY) {
        Some(Decision::Deny) => stop(
            &mut verdict,
            stoppable,
            BlockedBy::PermissionDecision,
            &reason,
        ),
        Some(permission) if stoppable == Stop::Call => {
            decide(
                &mut verdict,
                permission,
                BlockedBy::PermissionDecision,
                &reason,
            );
        }
        Some(_) | None => {}
    }
    match point {
        "preToolUse" => verdict.updated_input = fields.object("updated_input"),
        "sessionStart" => {
            let env = fields.object("env").map(|env| ("env".to_owned(), env));
            verdict.metadata = env.map(|env| Json::object(&[env]));
        }
        "stop" | "subagentStop" => {
            let message = fields.text("followup_message");
            verdict.output = message.filter(|text| !text.is_empty());
        }
        _ => {}
    }
    hand_on(&mut verdict, fields.unread(), &ELSEWHERE);
    settled(verdict, &faults)
}
