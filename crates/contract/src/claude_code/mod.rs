//! Claude Code command hooks, by its reference as quoted in October 2026.
//!
//! A hook that fails stops nothing, unless its entry has `onFailure: "block"`. Which of its events can be stopped is
//! inferred from their purpose where no page documents it.

use std::time::Duration;

use serde::de::IgnoredAny;

use super::{
    BlockedBy, Decision, Defaults, End, Equality, Facts, Folded, Json, Matcher, Rules, Scheduling,
    Skip, Stop, Subject, Verdict,
    entry::Key,
    envelope::Part,
    fields::{Faults, Fields, judged, settled, silent},
    merge::{decide, halt, hand_on, merged, stop, weight},
    permission::{self, CallDecision, PERMISSION},
    point, tighten,
    verdict::present,
};

mod adapter;
pub(super) mod filter;
mod hook_file;

pub(super) use self::adapter::ADAPTER;
use self::{filter::Filter, hook_file::HOOK_FILE};

/// The warning for a deferred call, which the runtime delays until a decision. hookjail passes it on as a question.
const DEFERRED: &str = "the hook defers the call, which is passed on as a question";

/// The reasons of a stop where the command of a skill can be neither changed nor asked about.
const CHANGED: &str = "the hook changes the command, which cannot be changed there";
const ASKED: &str = "the hook has the user asked, who cannot be asked there";

/// The member with the path of a new worktree.
const WORKTREE: &str = "worktreePath";

const DEPRECATED: &str =
    "`decision` is deprecated at `PreToolUse`; `permissionDecision` replaces it";

/// Members of an answer that are read at some points only.
const ELSEWHERE: [&str; 6] = [
    "decision",
    "permissionDecision",
    "permissionDecisionReason",
    "updatedInput",
    "updatedMCPToolOutput",
    "updatedToolOutput",
];

pub(super) const FACTS: Facts = Facts {
    adapter: Some(&ADAPTER),
    agent_commands: &["claude -p", "claude --print"],
    carried: &[
        "allowedEnvVars",
        "args",
        "command",
        "headers",
        "if",
        "matcher",
        "name",
        "once",
        "shell",
        "statusMessage",
        "type",
        "url",
    ],
    defaults: Defaults::shell("/bin/sh", "-c", Some(Duration::from_secs(600))),
    equality: Equality::ButForTime,
    expands_words: true,
    fold,
    keys: &[
        ("async", Key::Background),
        ("onFailure", Key::OnFailure),
        ("timeout", Key::TimeoutSeconds),
    ],
    last_points: &["SessionEnd"],
    members: &[
        ("session_id", Part::Session, &[]),
        ("cwd", Part::Cwd, &[]),
        ("tool_name", Part::ToolName, &[]),
        ("tool_input", Part::Input, &[]),
        ("tool_use_id", Part::UseId, &[]),
        ("tool_response", Part::Response, &["PostToolUse"]),
        ("error", Part::Error, &["PostToolUseFailure"]),
    ],
    // The former names of renamed tools.
    other_names: &[
        ("Agent", &["Task"]),
        ("TaskOutput", &["AgentOutputTool", "BashOutputTool"]),
        ("TaskStop", &["KillShell"]),
    ],
    // New events come with nearly every release; an exit 2 at one of them must not be lost.
    other_points: Some(Stop::Operation),
    points: &[
        point("SessionStart", Stop::Nothing),
        point("Setup", Stop::Nothing),
        point("UserPromptSubmit", Stop::Operation),
        point("UserPromptExpansion", Stop::Operation),
        point("PreToolUse", Stop::Call),
        point("PermissionRequest", Stop::Call),
        point("PermissionDenied", Stop::Nothing),
        // The tool has run; a stop keeps the model from continuing with its result.
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
        point("DirectoryAdded", Stop::Nothing),
        point("PreSkillShellCommand", Stop::Call),
    ],
    scheduling: Scheduling::AtOnce,
    session_files: &["CLAUDE_ENV_FILE"],
    shared_points: &[("OnError", "PostToolUseFailure")],
    subject,
    timeouts: &[
        ("MessageDisplay", Duration::from_secs(10)),
        ("PostModelSwitch", Duration::from_secs(30)),
        ("PreModelSwitch", Duration::from_secs(30)),
        ("SessionEnd", Duration::from_millis(1500)),
        ("UserPromptSubmit", Duration::from_secs(30)),
    ],
    warned_points: &[
        "PostToolBatch",
        "PostToolUse",
        "PreCompact",
        "UserPromptExpansion",
        "UserPromptSubmit",
    ],
    ..Facts::new("claude_code", "claude_code/2026-10", interpret)
};

pub(super) const RULES: Rules = Rules {
    filter: Filter::parse,
    hook_file: Some(&HOOK_FILE),
    matcher: Some(|_, text| Matcher::listed(text, "_- ", &['|', ','])),
    ..Rules::NONE
};

fn interpret(end: &End<'_>) -> Verdict {
    let stop = FACTS.stop_of(end.point);
    let read = |text: &str| answer(end.point, stop, text);
    let verdict = judged(end, stop, read, |text| {
        if is_answer(text) {
            read(text)
        } else if end.entry.objects_only {
            Verdict::skipped(Skip::InvalidJson)
        } else {
            plain(end.point, text)
        }
    });
    if end.point == "WorktreeCreate" {
        return created(verdict, end.error);
    }
    verdict
}

/// Returns whether text is an answer, whole or not, and no text for the model.
///
/// Claude Code 2.1.332 takes for text what ends otherwise than an object, and several documents. A torn answer is a failure here.
fn is_answer(text: &str) -> bool {
    if !text.starts_with('{') {
        return false;
    }
    let mut documents = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    match documents.next() {
        Some(Ok(_)) => text[documents.byte_offset()..].trim().is_empty(),
        Some(Err(error)) => error.is_eof() || text.ends_with('}'),
        None => false,
    }
}

/// Returns the subject of matchers at a point.
///
/// At the ten events without matchers, a configured matcher hides no hook. The subject of a new event is unknown,
/// unless it names a tool.
fn subject(point: &str) -> Subject {
    match point {
        "ConfigChange" | "DirectoryAdded" | "SessionStart" => Subject::Member(&["source"]),
        "CwdChanged" | "MessageDisplay" | "PostToolBatch" | "Stop" | "TaskCompleted"
        | "TaskCreated" | "TeammateIdle" | "UserPromptSubmit" | "WorktreeCreate"
        | "WorktreeRemove" => Subject::Nothing,
        "Elicitation" | "ElicitationResult" => Subject::Member(&["mcp_server_name"]),
        "FileChanged" => Subject::FileName("file_path"),
        "InstructionsLoaded" => Subject::Member(&["load_reason"]),
        "Notification" => Subject::Member(&["notification_type"]),
        "PostCompact" | "PreCompact" | "Setup" => Subject::Member(&["trigger"]),
        "PostModelSwitch" | "PreModelSwitch" => Subject::Member(&["to_model"]),
        "SessionEnd" => Subject::Member(&["reason"]),
        "StopFailure" => Subject::Member(&["error"]),
        "SubagentStart" | "SubagentStop" => Subject::Member(&["agent_type"]),
        "UserPromptExpansion" => Subject::Member(&["command_name"]),
        _ => Subject::Tool,
    }
}

/// Merges verdicts: deny outweighs defer, defer ask, and ask allow.
fn fold(_point: &str, hooks: &[(&str, &Verdict)]) -> Folded {
    merged(hooks, |verdict| {
        let is_deferred = verdict.warnings.iter().any(|warning| warning == DEFERRED);
        weight(verdict) + u8::from(is_deferred)
    })
}

/// Reads output that is no object.
fn plain(point: &str, text: &str) -> Verdict {
    match point {
        "SessionStart" | "UserPromptExpansion" | "UserPromptSubmit" => Verdict {
            additional_context: vec![text.to_owned()],
            ..Verdict::default()
        },
        "WorktreeCreate" => {
            let path = (WORKTREE.to_owned(), Json::text(text));
            Verdict {
                metadata: Some(Json::object(&[path])),
                ..Verdict::default()
            }
        }
        _ => silent(Skip::OutputIgnored),
    }
}

/// Blocks a creation without a directory. The hook makes the directory and prints its path.
fn created(verdict: Verdict, error: &str) -> Verdict {
    let members = verdict.metadata.as_ref().and_then(Json::members);
    let has_path = members.is_some_and(|members| members.iter().any(|(name, _)| name == WORKTREE));
    if verdict.decision.stops() || (has_path && !verdict.failed) {
        return verdict;
    }
    let skip = match verdict.skip {
        Some(skip) if verdict.failed => skip,
        Some(_) | None => Skip::MissingField(WORKTREE),
    };
    let verdict = Verdict {
        failed: true,
        skip: Some(skip),
        ..verdict
    };
    tighten(verdict, Decision::Block, error)
}

fn answer(point: &str, stoppable: Stop, text: &str) -> Verdict {
    let faults = Faults::default();
    let fields = match Fields::parse(text, &faults) {
        Ok(fields) => fields,
        Err(skip) => return Verdict::skipped(skip),
    };
    let mut verdict = fields.universal();
    let reason = fields.text("reason").unwrap_or_default();
    if fields.boolean("continue") == Some(false) {
        // Output after a failed turn is ignored.
        halt(&mut verdict, stoppable, point == "StopFailure", &reason);
    }
    let mut others = Vec::new();
    if let Some(specific_fields) = fields.within("hookSpecificOutput") {
        match specific_fields.text("hookEventName") {
            Some(name) if name == point => {
                others = specific((point, stoppable), &specific_fields, &faults, &mut verdict);
                others.extend(specific_fields.unread());
            }
            Some(_) => faults.note(Skip::WrongType("hookEventName")),
            None => faults.note(Skip::MissingField("hookEventName")),
        }
    }
    let blocks = fields.word("decision", &[("approve", false), ("block", true)]);
    if blocks.is_some() && point == "PreToolUse" {
        verdict.warnings.push(DEPRECATED.to_owned());
    }
    match blocks {
        Some(true) => stop(&mut verdict, stoppable, BlockedBy::Decision, &reason),
        Some(false) if point == "PreToolUse" => {
            decide(&mut verdict, Decision::Allow, BlockedBy::Decision, &reason);
        }
        Some(false) | None => {}
    }
    hand_on(&mut verdict, [fields.unread(), others].concat(), &ELSEWHERE);
    settled(verdict, &faults)
}

/// Reads the members specific to an event. Returns those to pass on although they were read or are nested.
fn specific(
    (point, stoppable): (&str, Stop),
    fields: &Fields<'_, '_>,
    faults: &Faults,
    verdict: &mut Verdict,
) -> Vec<(String, Json)> {
    verdict.additional_context = fields.context("additionalContext");
    match point {
        "Elicitation" | "ElicitationResult" => return elicitation(fields, verdict),
        "PermissionRequest" => return permission::requested(fields, faults, verdict),
        "PostToolUse" => {
            let of_mcp = fields.value("updatedMCPToolOutput");
            verdict.updated_output = fields.value("updatedToolOutput").or(of_mcp);
        }
        "PreToolUse" => {
            let call = CallDecision::read(fields);
            decide(verdict, call.decision, PERMISSION, &call.reason);
            let input = fields.object("updatedInput");
            if call.is_deferred {
                verdict.warnings.push(DEFERRED.to_owned());
            } else {
                verdict.updated_input = input;
            }
        }
        // The command of a skill runs as it is, or not at all.
        "PreSkillShellCommand" => {
            let call = CallDecision::read(fields);
            let reason = match (call.decision, fields.object("updatedInput")) {
                (decision, _) if decision.stops() => &call.reason,
                (_, Some(_)) => CHANGED,
                (Decision::Ask, None) => ASKED,
                (decision, None) => {
                    decide(verdict, decision, PERMISSION, &call.reason);
                    return Vec::new();
                }
            };
            stop(verdict, stoppable, PERMISSION, reason);
        }
        _ => permission::elsewhere(stoppable, fields, faults, verdict),
    }
    Vec::new()
}

/// Reads the answer in a user's place.
///
/// Its kind is kept beside the decision, as `decline` and `cancel` both stop.
fn elicitation(fields: &Fields<'_, '_>, verdict: &mut Verdict) -> Vec<(String, Json)> {
    let words = [
        ("accept", Decision::Allow),
        ("cancel", Decision::Block),
        ("decline", Decision::Block),
    ];
    let decision = fields.word("action", &words).unwrap_or_default();
    decide(verdict, decision, BlockedBy::Decision, "");
    present([("action", fields.value("action"))]).collect()
}
