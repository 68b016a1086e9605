//! `family`: runtimes with Claude Code's form of hooks under another name, or with a small form of their own.
//!
//! An end is read by the union of their answers: a hook that denies in the words of one of them has denied. Which of these words a runtime
//! obeys is in its line of [`members`]. Where it would obey none, `hookjail run --as` answers in the words that it does.

use std::time::Duration;

use super::{
    BlockedBy, Decision, Defaults, End, Facts, Rules, Skip, Stop, Verdict,
    entry::Key,
    fields::{Faults, Fields, judged, settled, silent},
    merge::{decide, halt, stop},
    permission::{self, PERMISSION},
    point,
};

mod hook_file;
mod members;

pub(super) use self::members::FAMILY;

pub(super) const FACTS: Facts = Facts {
    carried: &["args", "command", "matcher", "name", "type"],
    defaults: Defaults::shell("/bin/sh", "-c", Some(Duration::from_mins(1))),
    keys: &[
        ("timeout", Key::TimeoutSecondsUnlessZero { negative: false }),
        ("timeout_ms", Key::TimeoutMillis),
    ],
    last_points: &["SessionEnd", "SessionShutdown"],
    // Their releases bring new events; a stop at one of them must not be lost.
    other_points: Some(Stop::Operation),
    points: &[
        point("AfterFileEdit", Stop::Nothing),
        point("AfterShellExecution", Stop::Nothing),
        point("AgentSpawn", Stop::Nothing),
        point("BeforeReadFile", Stop::Nothing),
        point("BeforeShellExecution", Stop::Nothing),
        point("Notification", Stop::Nothing),
        point("PermissionDenied", Stop::Nothing),
        point("PermissionRequest", Stop::Call),
        point("PostCompact", Stop::Nothing),
        point("PostInvocation", Stop::Nothing),
        point("PostTaskExec", Stop::Nothing),
        // The tool has run; a stop keeps the model from continuing with its result.
        point("PostToolUse", Stop::Operation),
        point("PostToolUseFailure", Stop::Nothing),
        point("PreCompact", Stop::Operation),
        point("PreInvocation", Stop::Nothing),
        point("PreTaskExec", Stop::Operation),
        point("PreToolUse", Stop::Call),
        point("PreToolUseResult", Stop::Nothing),
        point("SessionEnd", Stop::Nothing),
        point("SessionShutdown", Stop::Nothing),
        point("SessionStart", Stop::Nothing),
        point("Setup", Stop::Nothing),
        point("Stop", Stop::Ending),
        point("StopCancelled", Stop::Nothing),
        point("StopFailure", Stop::Nothing),
        point("SubagentStart", Stop::Nothing),
        point("SubagentStop", Stop::Ending),
        point("TaskCancel", Stop::Nothing),
        point("TaskComplete", Stop::Nothing),
        point("TaskError", Stop::Nothing),
        point("TaskResume", Stop::Operation),
        point("TaskStart", Stop::Operation),
        point("UserPromptSubmit", Stop::Operation),
        point("after_tool", Stop::Operation),
        point("before_tool", Stop::Call),
        point("post_agent", Stop::Ending),
        point("post_agent_turn", Stop::Ending),
        point("post_cascade_response", Stop::Nothing),
        point("post_cascade_response_with_transcript", Stop::Nothing),
        point("post_mcp_tool_use", Stop::Nothing),
        point("post_read_code", Stop::Nothing),
        point("post_run_command", Stop::Nothing),
        point("post_setup_worktree", Stop::Nothing),
        point("post_tool", Stop::Operation),
        point("post_write_code", Stop::Nothing),
        point("pre_mcp_tool_use", Stop::Call),
        point("pre_read_code", Stop::Call),
        point("pre_run_command", Stop::Call),
        point("pre_tool", Stop::Call),
        point("pre_user_prompt", Stop::Operation),
        point("pre_write_code", Stop::Call),
    ],
    session: &[
        "session_id",
        "sessionId",
        "conversation_id",
        "conversationId",
        "trajectory_id",
        "taskId",
    ],
    warned_points: &[
        "PostToolUse",
        "PreCompact",
        "TaskResume",
        "TaskStart",
        "UserPromptSubmit",
        "after_tool",
        "post_tool",
        "pre_user_prompt",
    ],
    ..Facts::new("family", "family/2026-11", interpret)
};

pub(super) const RULES: Rules = Rules {
    of_runtime: |name| {
        Some(match name {
            "antigravity" => &hook_file::BESIDE,
            "grok" => &hook_file::WORDS_BESIDE,
            _ => &hook_file::FILE,
        })
    },
    ..Rules::NONE
};

fn interpret(end: &End<'_>) -> Verdict {
    let stoppable = FACTS.stop_of(end.point);
    let read = |text: &str| answer(end.point, stoppable, text);
    judged(end, stoppable, read, |text| {
        if text.starts_with('{') {
            return read(text);
        }
        let last = last_object(text).map(read);
        let restrains = last.filter(|verdict| verdict.decision.restrains());
        restrains.unwrap_or_else(|| silent(Skip::OutputIgnored))
    })
}

/// Returns the object in which a text ends: one that begins a line, or follows a mark and a tabulator on the last. One runtime reads
/// answers there.
fn last_object(text: &str) -> Option<&str> {
    let last = text.rsplit('\n').next()?;
    let marked = last.split_once('\t').map(|(_, object)| object);
    let is_object = |text: &&str| text.starts_with('{');
    let begins = text
        .match_indices("\n{")
        .map(|(place, _)| &text[place + 1..]);
    marked.filter(is_object).or_else(|| begins.last())
}

fn answer(point: &str, stoppable: Stop, text: &str) -> Verdict {
    let faults = Faults::default();
    let fields = match Fields::parse(text, &faults) {
        Ok(fields) => fields,
        Err(skip) => return Verdict::skipped(skip),
    };
    let mut verdict = fields.universal();
    let names = [
        "reason",
        "permissionDecisionReason",
        "errorMessage",
        "message",
    ];
    let reason = first_text(&fields, &names);
    let specific = fields.within("hookSpecificOutput");
    let specific = specific.or_else(|| fields.within("hook_specific_output"));
    if let Some(specific) = &specific {
        let why = first_text(specific, &["permissionDecisionReason", "reason"]);
        let why = if why.is_empty() { &reason } else { &why };
        if point == "PermissionRequest" {
            permission::requested(specific, &faults, &mut verdict);
        }
        let word = word(specific, "permissionDecision", stoppable, &faults);
        apply(&mut verdict, stoppable, word, PERMISSION, why);
    }
    for (name, blocked_by) in [
        ("permissionDecision", PERMISSION),
        ("decision", BlockedBy::Decision),
    ] {
        let word = word(&fields, name, stoppable, &faults);
        apply(&mut verdict, stoppable, word, blocked_by, &reason);
    }
    for (name, decision) in [
        ("cancel", Decision::Block),
        ("halt", Decision::Block),
        ("review", Decision::Ask),
    ] {
        if fields.boolean(name) == Some(true) {
            apply(
                &mut verdict,
                stoppable,
                decision,
                BlockedBy::Decision,
                &reason,
            );
        }
    }
    if fields.boolean("continue") == Some(false) {
        halt(&mut verdict, stoppable, stoppable == Stop::Nothing, &reason);
    }
    settled(verdict, &faults)
}

/// Returns the first text that is not empty.
fn first_text(fields: &Fields<'_, '_>, names: &[&'static str]) -> String {
    let texts = names.iter().filter_map(|name| fields.text(name));
    texts
        .into_iter()
        .find(|it| !it.is_empty())
        .unwrap_or_default()
}

/// Reads a decision, in any case. A word that none of the runtimes has is a fault.
fn word(fields: &Fields<'_, '_>, name: &'static str, stoppable: Stop, faults: &Faults) -> Decision {
    let Some(word) = fields.text(name) else {
        return Decision::None;
    };
    match word.to_ascii_lowercase().as_str() {
        "allow" | "approve" => Decision::Allow,
        "ask" | "defer" | "deny_unless_prior_grant" | "force_ask" => Decision::Ask,
        "block" | "deny" => Decision::Block,
        // An agent that is about to end goes on.
        "continue" if stoppable == Stop::Ending => Decision::Block,
        "" | "continue" => Decision::None,
        _ => {
            faults.note(Skip::WrongType(name));
            Decision::None
        }
    }
}

fn apply(
    verdict: &mut Verdict,
    stoppable: Stop,
    decision: Decision,
    blocked_by: BlockedBy,
    reason: &str,
) {
    let is_about_a_call = stoppable == Stop::Call;
    match decision {
        Decision::Block | Decision::Deny => stop(verdict, stoppable, blocked_by, reason),
        Decision::Ask if stoppable == Stop::Nothing => {}
        Decision::Allow if !is_about_a_call => {}
        Decision::Allow | Decision::Ask => decide(verdict, decision, blocked_by, reason),
        Decision::None => {}
    }
}
