//! Cursor hooks, by mirrored copies of its page; its source is closed.
//!
//! A hook that fails stops nothing, unless its entry sets `failClosed`. A `followup_message` is [`Verdict::output`]:
//! whether it opens a turn depends on the number already opened, which only the runtime has.

use bytes::Bytes;

use hookjail_base::model::{Event, InvalidField};

use super::{
    BlockedBy, CommandStyle, Configured, Decision, Defaults, End, Envelope, Facts, Folded, Json,
    Matcher, Point, Runtime, Skip, Stop, Subject, Verdict,
    entry::Key,
    envelope::known,
    fields::{Faults, Fields, Said, broke, refused, said, settled, silent, stop_of},
    hook_file::HookFile,
    merge::{decide, hand_on, merged, stop, strength},
    stdin,
};

mod adapter;
mod hook_file;

pub(super) struct Cursor;

const POINTS: [Point; 20] = [
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
];

const KEYS: [(&str, Key); 8] = [
    ("allowed", Key::Allowed),
    ("command", Key::Carried),
    ("failClosed", Key::FailClosed),
    ("loop_limit", Key::Carried),
    ("matcher", Key::Carried),
    ("name", Key::Carried),
    ("timeout", Key::TimeoutSeconds),
    ("type", Key::Carried),
];

/// Members of an answer that are read at some points only.
const ELSEWHERE: [&str; 3] = ["env", "followup_message", "updated_input"];

const fn point(name: &'static str, stop: Stop) -> Point {
    Point { name, stop }
}

const FACTS: Facts = Facts {
    adapter: Some(&Cursor),
    contract: "cursor",
    keys: &KEYS,
    last_points: &["sessionEnd"],
    points: &POINTS,
    session: &["conversation_id", "session_id"],
    shared_points: &[
        ("SessionStart", "sessionStart"),
        ("SessionEnd", "sessionEnd"),
        ("PreToolUse", "preToolUse"),
        ("PostToolUse", "postToolUse"),
        ("PreCompact", "preCompact"),
        ("OnError", "postToolUseFailure"),
    ],
    version: "cursor/2026",
    ..Facts::NONE
};

impl Runtime for Cursor {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    /// Returns the defaults; the runtime's timeout is not published.
    fn defaults(&self, _point: &str) -> Defaults {
        Defaults {
            command: CommandStyle::Shell {
                program: "/bin/sh",
                option: "-c",
            },
            profile: "workspace-ro",
            timeout: None,
        }
    }

    fn stdin(&self, event: &Event, envelope: &Envelope) -> Result<Bytes, InvalidField> {
        let is_at = |points: &[&str]| points.contains(&event.point.as_str());
        let session = is_at(&["sessionEnd", "sessionStart"]).then_some(&envelope.session);
        let cwd = is_at(&["afterShellExecution", "beforeShellExecution", "preToolUse"]);
        let tool = envelope.tool.as_ref();
        let input = tool.and_then(|tool| tool.input.clone());
        let input = match input {
            Some(input) if is_at(&["afterMCPExecution", "beforeMCPExecution"]) => {
                Some(quoted(input))
            }
            input => input,
        };
        let beside = [
            ("conversation_id", known(&envelope.session)),
            ("session_id", session.and_then(|session| known(session))),
            ("cwd", known(&envelope.cwd).filter(|_| cwd)),
            ("tool_name", tool.and_then(|tool| known(&tool.name))),
            ("tool_input", input),
            ("tool_use_id", tool.and_then(|tool| known(&tool.use_id))),
        ];
        stdin::object(FACTS.contract, event, "hook_event_name", &beside)
    }

    fn interpret(&self, end: &End<'_>) -> Verdict {
        let at = stop_of(self, end.point);
        match said(end) {
            Said::Broke(skip) => broke(end, skip, |text| answer(end.point, at, text)),
            Said::Nothing => silent(Skip::EmptyStdout),
            Said::Refused(stderr) => refused(at, stderr),
            Said::Text(_) if end.point.starts_with("after") => silent(Skip::OutputIgnored),
            Said::Text(text) => answer(end.point, at, text),
        }
    }

    /// Returns the subject of matchers at a point.
    ///
    /// Where the page has the point's own, constant name as the subject, a matcher hides no hook.
    fn subject(&self, point: &str) -> Subject {
        match point {
            "afterShellExecution" | "beforeShellExecution" => Subject::Member(&["command"]),
            "afterAgentResponse" | "afterAgentThought" | "beforeSubmitPrompt" | "preCompact"
            | "sessionEnd" | "sessionStart" | "stop" => Subject::Nothing,
            "subagentStart" | "subagentStop" => Subject::Member(&["subagent_type"]),
            _ => Subject::Tool,
        }
    }

    fn fold(&self, _point: &str, hooks: &[(&str, &Verdict)]) -> Folded {
        merged(hooks, |verdict| strength(verdict.decision))
    }
}

impl Configured for Cursor {
    fn hook_file(&self) -> Option<&'static dyn HookFile> {
        Some(&Self)
    }

    fn matcher(&self, _subject: Subject, text: &str) -> Result<Matcher, InvalidField> {
        Matcher::pattern(text)
    }
}

/// Converts the input of an MCP tool to a string of JSON.
fn quoted(input: Json) -> Json {
    if input.as_str().starts_with('"') {
        return input;
    }
    Json::text(input.as_str())
}

fn answer(point: &str, at: Stop, text: &str) -> Verdict {
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
        stop(&mut verdict, at, BlockedBy::ContinueFalse, &reason);
    }
    let words = [
        ("allow", Decision::Allow),
        ("ask", Decision::Ask),
        ("deny", Decision::Deny),
    ];
    match fields.word("permission", &words) {
        Some(Decision::Deny) => stop(&mut verdict, at, BlockedBy::PermissionDecision, &reason),
        Some(permission) if at == Stop::Call => {
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
