//! Qwen Code hooks, by the runner, planner and aggregator of 0.24.4.
//!
//! Its points are Claude Code's, its output is read as Gemini CLI's, and exit code 2 reads stderr alone.

use std::time::Duration;

use hookjail_base::model::Event;

use super::{
    BlockedBy, Decision, Defaults, End, Envelope, Equality, Facts, Folded, Json, Matcher, Rules,
    Scheduling, Skip, Stop, Subject, Verdict,
    entry::Key,
    envelope::Part,
    fields::{Faults, Fields, Outcome, outcome, refused, settled, used},
    merge::{decide, halt, hand_on, join_all_reasons, merged, stop, weight},
    patch::patched,
    permission::{self, CallDecision, PERMISSION},
    point,
    quoted::{DECISIONS, is_torn, on_stderr, unquoted, words},
    settings::without_defaults,
    stdin,
};

mod adapter;
mod hook_file;
mod tools;

pub(super) use self::adapter::ADAPTER;
use self::hook_file::HOOK_FILE;

pub(super) const FACTS: Facts = Facts {
    adapter: Some(&ADAPTER),
    agent_commands: &["qwen -p", "qwen --prompt"],
    carried: &[
        "allowedEnvVars",
        "command",
        "description",
        "env",
        "headers",
        "matcher",
        "name",
        "once",
        "shell",
        "statusMessage",
        "type",
        "url",
    ],
    defaults: Defaults::shell("/bin/bash", "-c", Some(Duration::from_secs(60))),
    equality: Equality::ButForTime,
    fold,
    hand_on: pass_on,
    keys: &[
        ("async", Key::Background),
        ("sequential", Key::InTurn),
        ("timeout", Key::TimeoutSecondsOrMillis),
    ],
    last_points: &["SessionDelete", "SessionEnd"],
    members: &[
        ("session_id", Part::Session, &[]),
        ("cwd", Part::Cwd, &[]),
        ("timestamp", Part::IsoTime, &[]),
        ("tool_name", Part::ToolName, &[]),
        ("tool_input", Part::Input, &[]),
        ("tool_use_id", Part::UseId, &[]),
        ("tool_response", Part::Response, &["PostToolUse"]),
        ("error", Part::Error, &["PostToolUseFailure"]),
    ],
    other_names: tools::TOOLS,
    // New events come with its releases; a stop at one of them must not be lost.
    other_points: Some(Stop::Operation),
    points: &[
        point("SessionStart", Stop::Nothing),
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
        point("Stop", Stop::Ending),
        point("StopFailure", Stop::Nothing),
        point("TodoCreated", Stop::Operation),
        point("TodoCompleted", Stop::Operation),
        point("InstructionsLoaded", Stop::Nothing),
        point("PreCompact", Stop::Nothing),
        point("PostCompact", Stop::Nothing),
        point("SessionEnd", Stop::Nothing),
        point("SessionDelete", Stop::Nothing),
    ],
    // Where no group is sequential: [`super::Entry::in_turn`].
    scheduling: Scheduling::AtOnce,
    shared_points: &[("OnError", "PostToolUseFailure")],
    subject,
    warned_points: &[
        "PostToolBatch",
        "PostToolUse",
        "UserPromptExpansion",
        "UserPromptSubmit",
    ],
    ..Facts::new("qwen_code", "qwen_code/2026-10", interpret)
};

pub(super) const RULES: Rules = Rules {
    as_read: without_defaults,
    hook_file: Some(&HOOK_FILE),
    matcher: Some(|_, text| Matcher::alternatives(text)),
    ..Rules::NONE
};

fn interpret(end: &End<'_>) -> Verdict {
    let stoppable = FACTS.stop_of(end.point);
    match outcome(end) {
        Outcome::Broke(skip) => broke(end, stoppable, skip),
        Outcome::Nothing => on_stderr(answered(end.point, stoppable, &words(end))),
        Outcome::Refused(stderr) => exit_2(end, stoppable, stderr),
        Outcome::Text(text) => printed(end, stoppable, text),
    }
}

/// Returns the subject of matchers at a point.
fn subject(point: &str) -> Subject {
    match point {
        "InstructionsLoaded" => Subject::Member(&["file_path"]),
        "MessageDisplay" | "PostToolBatch" | "SessionDelete" | "Stop" | "TodoCompleted"
        | "TodoCreated" | "UserPromptSubmit" => Subject::Nothing,
        "Notification" => Subject::Member(&["notification_type"]),
        "PostCompact" | "PreCompact" => Subject::Member(&["trigger"]),
        "SessionEnd" => Subject::Member(&["reason"]),
        "SessionStart" => Subject::Member(&["source"]),
        "StopFailure" => Subject::Member(&["error"]),
        "SubagentStart" | "SubagentStop" => Subject::Member(&["agent_type"]),
        "UserPromptExpansion" => Subject::Member(&["command_name"]),
        _ => Subject::Tool,
    }
}

/// Hands rewrites of a call and context of a prompt to the next hook of a sequential group.
fn pass_on(verdict: &Verdict, event: &mut Event, envelope: &mut Envelope) {
    match event.point.as_str() {
        "PreToolUse" => stdin::put_over_input(event, envelope, verdict.updated_input.as_ref()),
        "UserPromptExpansion" | "UserPromptSubmit" => {
            stdin::append_to_prompt(event, &verdict.additional_context);
        }
        _ => {}
    }
}

fn fold(point: &str, hooks: &[(&str, &Verdict)]) -> Folded {
    let mut folded = merged(hooks, weight);
    join_all_reasons(&mut folded, hooks);
    if point == "PreToolUse" && folded.answer.updated_input.is_some() {
        let inputs = hooks.iter().map(|(_, verdict)| &verdict.updated_input);
        folded.answer.updated_input = patched(inputs.flatten());
    }
    folded
}

/// Builds the verdict of a failed hook, whose object counts under any exit code and before a signal.
fn broke(end: &End<'_>, stoppable: Stop, skip: Skip) -> Verdict {
    if !matches!(skip, Skip::NonzeroExit | Skip::Signal) {
        return Verdict::skipped(skip);
    }
    let words = words(end);
    if let Some(verdict) = answered(end.point, stoppable, &words) {
        return used(skip, verdict);
    }
    let message = (!words.is_empty()).then(|| format!("Warning: {words}"));
    Verdict {
        system_message: message.unwrap_or_default(),
        ..Verdict::skipped(skip)
    }
}

/// Builds the verdict of exit code 2, which stops regardless of the output.
fn exit_2(end: &End<'_>, stoppable: Stop, stderr: String) -> Verdict {
    match answered(end.point, stoppable, &stderr) {
        Some(verdict) if stoppable == Stop::Nothing => used(Skip::NonzeroExit, verdict),
        Some(verdict) if verdict.decision.stops() => verdict,
        Some(verdict) if !verdict.reason.is_empty() => refused(stoppable, verdict.reason),
        Some(_) | None if stderr.is_empty() => refused(stoppable, words(end)),
        Some(_) | None => refused(stoppable, stderr),
    }
}

/// Builds the verdict of exit code 0 with stdout. Text approves, and is context at three points.
fn printed(end: &End<'_>, stoppable: Stop, text: &str) -> Verdict {
    let inner = unquoted(text);
    let faults = Faults::default();
    match Fields::parse(&inner, &faults) {
        Ok(fields) => answer(end.point, stoppable, &fields, &faults),
        Err(_) if end.entry.objects_only => Verdict::skipped(Skip::InvalidJson),
        Err(Skip::InvalidJson) if is_torn(&inner) => Verdict {
            system_message: text.to_owned(),
            ..Verdict::skipped(Skip::InvalidJson)
        },
        Err(Skip::InvalidJson | Skip::NotObject) => plain(end.point, stoppable, text),
        Err(skip) => Verdict::skipped(skip),
    }
}

/// Returns whether an approval in words has a meaning: not where nothing is decided, nor where it must be an object.
fn approves(point: &str, stoppable: Stop) -> bool {
    stoppable != Stop::Nothing && point != "PermissionRequest"
}

fn plain(point: &str, stoppable: Stop, text: &str) -> Verdict {
    let is_context = matches!(
        point,
        "SessionStart" | "UserPromptExpansion" | "UserPromptSubmit"
    );
    let (context, message) = match is_context {
        true => (vec![text.to_owned()], String::new()),
        false => (Vec::new(), text.to_owned()),
    };
    Verdict {
        additional_context: context,
        decision: match approves(point, stoppable) {
            true => Decision::Allow,
            false => Decision::None,
        },
        system_message: message,
        ..Verdict::default()
    }
}

/// Returns the answer in a text; `None` where it is no object.
fn answered(point: &str, stoppable: Stop, text: &str) -> Option<Verdict> {
    let inner = unquoted(text);
    let faults = Faults::default();
    let fields = Fields::parse(&inner, &faults).ok()?;
    Some(answer(point, stoppable, &fields, &faults))
}

fn answer(point: &str, stoppable: Stop, fields: &Fields<'_, '_>, faults: &Faults) -> Verdict {
    let mut verdict = fields.universal();
    let mut reason = fields.text("reason").unwrap_or_default();
    let halting = match verdict.stop_reason.is_empty() {
        true => reason.clone(),
        false => verdict.stop_reason.clone(),
    };
    let mut others = Vec::new();
    if let Some(specific) = fields.within("hookSpecificOutput") {
        if point == "PreToolUse" {
            let of_call = specific.text("permissionDecisionReason");
            reason = of_call.filter(|it| !it.is_empty()).unwrap_or(reason);
        }
        others = read_specific(point, stoppable, &specific, faults, &mut verdict);
        others.extend(specific.unread());
    }
    match fields.word("decision", &DECISIONS) {
        // The decision on the call itself has precedence.
        Some(_) if verdict.decision != Decision::None => {}
        Some(decision) if decision.stops() => {
            let reason = if point == "PreToolUse" {
                &reason
            } else {
                &halting
            };
            stop(&mut verdict, stoppable, BlockedBy::Decision, reason);
        }
        // The user can be asked only before a tool call.
        Some(Decision::Ask) if stoppable != Stop::Call => {}
        Some(Decision::Allow) if !approves(point, stoppable) => {}
        Some(decision) => decide(&mut verdict, decision, BlockedBy::Decision, &reason),
        None => {}
    }
    if fields.boolean("continue") == Some(false) {
        halt(
            &mut verdict,
            stoppable,
            stoppable == Stop::Nothing,
            &halting,
        );
    }
    let is_halted = verdict.blocked_by == Some(BlockedBy::ContinueFalse);
    if verdict.reason.is_empty() && verdict.decision != Decision::None && !is_halted {
        verdict.reason = reason;
    }
    hand_on(&mut verdict, [fields.unread(), others].concat(), &[]);
    settled(verdict, faults)
}

/// Reads the members specific to an event. Returns those to pass on although they were read or are nested.
fn read_specific(
    point: &str,
    stoppable: Stop,
    specific: &Fields<'_, '_>,
    faults: &Faults,
    verdict: &mut Verdict,
) -> Vec<(String, Json)> {
    verdict.additional_context = specific.context("additionalContext");
    // Read only so that it does not count as unread: any name is accepted.
    specific.has("hookEventName");
    match point {
        "PermissionRequest" => {
            let granted = permission::requested(specific, faults, verdict);
            // Any object but an approval denies.
            if let Some(decision) = specific.within("decision")
                && verdict.decision != Decision::Allow
            {
                let message = decision.text("message").unwrap_or_default();
                stop(verdict, stoppable, PERMISSION, &message);
            }
            granted
        }
        "PreToolUse" => {
            let call = CallDecision::read(specific);
            decide(verdict, call.decision, PERMISSION, &call.reason);
            // Hooks for Claude Code write the whole input.
            let whole = specific.object("updatedInput");
            verdict.updated_input = specific.object("tool_input").or(whole);
            Vec::new()
        }
        _ => {
            permission::elsewhere(stoppable, specific, faults, verdict);
            Vec::new()
        }
    }
}
