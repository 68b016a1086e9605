//! OpenAI Codex command hooks, by its page and output parser of 2026.
//!
//! An answer is taken whole or not at all. A field that is unknown, of the wrong type or not supported at its point makes a
//! failed run, and a failed run stops nothing.

use std::time::Duration;

use super::{
    BlockedBy, Decision, Defaults, End, Facts, Folded, Matcher, Rules, Scheduling, Skip, Stop,
    Subject, Verdict,
    entry::Key,
    envelope::Part,
    fields::{ALLOW_DENY, Faults, Fields, Outcome, not_valid, outcome, refused, silent},
    merge::{decide, halt, hand_on, join_reasons, merged, stop, weight},
    point,
    verdict::present,
};

mod adapter;
mod hook_file;

use self::{adapter::ADAPTER, hook_file::HOOK_FILE};

const FIELDS: [&str; 7] = [
    "continue",
    "decision",
    "hookSpecificOutput",
    "reason",
    "stopReason",
    "suppressOutput",
    "systemMessage",
];

const PERMISSION: [&str; 5] = [
    "behavior",
    "interrupt",
    "message",
    "updatedInput",
    "updatedPermissions",
];

/// The member with the recovery after a failure.
const RECOVERY: &str = "recovery";

/// The point before a compaction.
const COMPACTION: &str = "PreCompact";

pub(super) const FACTS: Facts = Facts {
    adapter: Some(&ADAPTER),
    agent_commands: &["codex exec"],
    carried: &["command", "matcher", "name", "statusMessage", "type"],
    // A login shell, as the user's own is unknown.
    defaults: Defaults::shell("/bin/sh", "-lc", Some(Duration::from_secs(600))),
    fold,
    // Codex 0.169.0 starts such a command, and waits for none of it.
    keys: &[
        ("async", Key::Background),
        ("timeout", Key::TimeoutSecondsFromOne),
    ],
    last_points: &["SessionEnd"],
    longest: &[
        ("Interrupt", Duration::from_secs(3)),
        ("SessionEnd", Duration::from_secs(3)),
    ],
    members: &[
        ("session_id", Part::Session, &[]),
        // A required member, `null` without a transcript.
        ("transcript_path", Part::Null, &[]),
        ("cwd", Part::Cwd, &[]),
        ("tool_name", Part::ToolName, &[]),
        ("tool_input", Part::Input, &[]),
        ("tool_use_id", Part::UseId, &[]),
        ("tool_response", Part::Response, &["PostToolUse"]),
    ],
    // Other runtimes' names of its only tool for changes.
    other_names: &[("apply_patch", &["Edit", "Write"])],
    points: &[
        point("SessionStart", Stop::Nothing),
        point("UserPromptSubmit", Stop::Operation),
        point("PreToolUse", Stop::Call),
        point("PermissionRequest", Stop::Call),
        // The tool has run; a stop keeps the model from continuing with its result.
        point("PostToolUse", Stop::Operation),
        point("PreCompact", Stop::Operation),
        point("PostCompact", Stop::Nothing),
        point("SubagentStart", Stop::Nothing),
        point("SubagentStop", Stop::Ending),
        point("Stop", Stop::Ending),
        point("Interrupt", Stop::Nothing),
        point("StopFailure", Stop::Nothing),
        point("SessionEnd", Stop::Nothing),
        // Codex 0.169.0 has them, and goes on after any answer of a hook there.
        point("PreModelRequest", Stop::Nothing),
        point("PostModelRequest", Stop::Nothing),
    ],
    scheduling: Scheduling::AtOnce,
    subject,
    timeouts: &[
        ("Interrupt", Duration::from_secs(1)),
        ("SessionEnd", Duration::from_secs(1)),
    ],
    warned_points: &["PostToolUse", "PreCompact", "UserPromptSubmit"],
    ..Facts::new("codex", "codex/2026", interpret)
};

pub(super) const RULES: Rules = Rules {
    hook_file: Some(&HOOK_FILE),
    matcher: Some(|_, text| Matcher::listed(text, "_", &['|'])),
    ..Rules::NONE
};

fn interpret(end: &End<'_>) -> Verdict {
    let stoppable = FACTS.stop_of(end.point);
    match outcome(end) {
        Outcome::Broke(skip) => Verdict::skipped(skip),
        Outcome::Nothing => silent(Skip::EmptyStdout),
        // A compaction is stopped by `continue` alone.
        Outcome::Refused(stderr) if stderr.is_empty() || end.point == COMPACTION => {
            Verdict::skipped(Skip::NonzeroExit)
        }
        Outcome::Refused(stderr) => refused(stoppable, stderr),
        Outcome::Text(text) if text.starts_with(['{', '[']) => {
            let verdict = answer(end.point, stoppable, text);
            match is_marked(end) && !verdict.decision.restrains() {
                true => plain(end.point, text),
                false => verdict,
            }
        }
        Outcome::Text(text) => plain(end.point, text),
    }
}

/// Returns whether a byte order mark is before the output, which makes it text in Codex.
fn is_marked(end: &End<'_>) -> bool {
    end.stdout
        .trim_ascii_start()
        .starts_with("\u{feff}".as_bytes())
}

fn subject(point: &str) -> Subject {
    match point {
        "Interrupt" | "PostModelRequest" | "PreModelRequest" | "Stop" | "UserPromptSubmit" => {
            Subject::Nothing
        }
        "PostCompact" | "PreCompact" => Subject::Member(&["trigger"]),
        "SessionEnd" => Subject::Member(&["reason"]),
        "SessionStart" => Subject::Member(&["source"]),
        "StopFailure" => Subject::Member(&["error"]),
        "SubagentStart" | "SubagentStop" => Subject::Member(&["agent_type"]),
        _ => Subject::Tool,
    }
}

/// Merges verdicts; of several rewrites the last counts. Ends are assumed to be in the order of completion.
fn fold(point: &str, hooks: &[(&str, &Verdict)]) -> Folded {
    let mut folded = merged(hooks, weight);
    if FACTS.stop_of(point) == Stop::Ending {
        join_reasons(&mut folded, hooks, "\n\n");
    }
    folded
}

/// Reads output that is neither object nor array.
fn plain(point: &str, text: &str) -> Verdict {
    match point {
        "Interrupt" | "Stop" | "StopFailure" | "SubagentStop" => {
            Verdict::skipped(Skip::InvalidJson)
        }
        "SessionStart" | "SubagentStart" | "UserPromptSubmit" => Verdict {
            additional_context: vec![text.to_owned()],
            ..Verdict::default()
        },
        _ => silent(Skip::OutputIgnored),
    }
}

fn answer(point: &str, stoppable: Stop, text: &str) -> Verdict {
    let faults = Faults::default();
    let read = Fields::parse_last(text, &faults).and_then(|fields| {
        let mut verdict = universal(point, stoppable, &fields)?;
        let read = decided(point, stoppable, &fields, &mut verdict);
        // Codex reads `continue` first, and nothing behind it where the run ends.
        let is_halted = verdict.blocked_by == Some(BlockedBy::ContinueFalse);
        match faults.first().map_or(read, Err) {
            Err(skip) if is_halted => {
                verdict.warnings.push(not_valid(skip));
                Ok(verdict)
            }
            read => read.map(|()| verdict),
        }
    });
    let mut verdict = read.unwrap_or_else(Verdict::skipped);
    if verdict.decision.stops() {
        verdict.updated_input = None;
    }
    verdict
}

/// Reads the decision: the specific one, and only without it the legacy one.
fn decided(
    point: &str,
    stoppable: Stop,
    fields: &Fields<'_, '_>,
    verdict: &mut Verdict,
) -> Result<(), Skip> {
    let is_quiet = fields.boolean("suppressOutput") == Some(true);
    let is_shown = matches!(point, "PermissionRequest" | "PostToolUse" | "PreToolUse");
    supported(!(is_quiet && is_shown), "suppressOutput")?;
    if let Some(specific_fields) = fields.within("hookSpecificOutput") {
        specific(point, &specific_fields, verdict)?;
        if specific_fields.has("permissionDecision") {
            // Members of another type make the answer invalid, which then approves nothing.
            if !verdict.decision.stops() {
                fields.text("reason");
                fields.word("decision", &[("approve", ()), ("block", ())]);
            }
            return Ok(());
        }
    }
    reasoned(point, fields)?;
    legacy(point, stoppable, fields, verdict)
}

/// Reads the members that every event has.
fn universal(point: &str, stoppable: Stop, fields: &Fields<'_, '_>) -> Result<Verdict, Skip> {
    match point {
        "Interrupt" => only(fields, &["systemMessage"])?,
        "StopFailure" => only(fields, &["hookSpecificOutput", RECOVERY, "systemMessage"])?,
        _ => only(fields, &FIELDS)?,
    }
    let goes_on = fields.boolean("continue").unwrap_or(true);
    if matches!(point, "PermissionRequest" | "PreToolUse") {
        supported(goes_on, "continue")?;
        supported(!fields.has("stopReason"), "stopReason")?;
    }
    let mut verdict = fields.universal();
    if !goes_on {
        let reason = fields.text("reason").unwrap_or_default();
        let ignores = matches!(point, "SessionEnd" | "SubagentStart");
        halt(&mut verdict, stoppable, ignores, &reason);
    }
    recovery(fields, &mut verdict);
    Ok(verdict)
}

/// Passes on a hook's proposal after a failure.
fn recovery(fields: &Fields<'_, '_>, verdict: &mut Verdict) {
    let members = present([(RECOVERY, fields.value(RECOVERY))]);
    hand_on(verdict, members.collect(), &[]);
}

/// Fails where a reason is given without a decision about the call.
fn reasoned(point: &str, fields: &Fields<'_, '_>) -> Result<(), Skip> {
    let halts = fields.boolean("continue") == Some(false);
    let needs_decision = match point {
        "PostToolUse" => !halts,
        "PreToolUse" => true,
        _ => false,
    };
    if needs_decision && fields.has("reason") && !fields.has("decision") {
        return Err(Skip::MissingField("decision"));
    }
    Ok(())
}

/// Reads the members specific to an event.
fn specific(point: &str, fields: &Fields<'_, '_>, verdict: &mut Verdict) -> Result<(), Skip> {
    let (names, has_context): (&[&str], bool) = match point {
        "PermissionRequest" => (&["decision"], false),
        "PostToolUse" => (&["updatedMCPToolOutput", "updatedToolOutput"], true),
        "PreToolUse" => (
            &[
                "permissionDecision",
                "permissionDecisionReason",
                "updatedInput",
            ],
            true,
        ),
        "StopFailure" => (&[RECOVERY], false),
        _ => (&[], true),
    };
    let mut known = vec!["hookEventName"];
    known.extend(names);
    known.extend(has_context.then_some("additionalContext"));
    only(fields, &known)?;
    match fields.text("hookEventName") {
        Some(name) => supported(name == point, "hookEventName")?,
        None => return Err(Skip::MissingField("hookEventName")),
    }
    verdict.additional_context = fields.context("additionalContext");
    match point {
        "PermissionRequest" => match fields.within("decision") {
            Some(decision) => request(&decision, verdict),
            None => Ok(()),
        },
        "PreToolUse" => call(fields, verdict),
        "StopFailure" => {
            recovery(fields, verdict);
            Ok(())
        }
        _ => {
            let of_mcp = fields.value("updatedMCPToolOutput");
            verdict.updated_output = fields.value("updatedToolOutput").or(of_mcp);
            Ok(())
        }
    }
}

/// Reads the decision on a tool call.
fn call(fields: &Fields<'_, '_>, verdict: &mut Verdict) -> Result<(), Skip> {
    let is_reasoned = fields.has("permissionDecisionReason");
    let reason = fields.text("permissionDecisionReason").unwrap_or_default();
    let input = fields.value("updatedInput");
    let decision = fields.word("permissionDecision", &ALLOW_DENY);
    match (decision, input) {
        (Some(Decision::Deny), _) if reason.trim().is_empty() => {
            return Err(Skip::MissingField("permissionDecisionReason"));
        }
        (Some(Decision::Allow), None) => return Err(Skip::MissingField("updatedInput")),
        (None, input) if is_reasoned || input.is_some() => {
            return Err(Skip::MissingField("permissionDecision"));
        }
        (_, input) => verdict.updated_input = input,
    }
    let decision = decision.unwrap_or_default();
    decide(verdict, decision, BlockedBy::PermissionDecision, &reason);
    Ok(())
}

/// Reads the decision on a permission.
fn request(decision: &Fields<'_, '_>, verdict: &mut Verdict) -> Result<(), Skip> {
    only(decision, &PERMISSION)?;
    supported(!decision.has("updatedInput"), "updatedInput")?;
    supported(!decision.has("updatedPermissions"), "updatedPermissions")?;
    supported(decision.boolean("interrupt") != Some(true), "interrupt")?;
    let message = decision.text("message").unwrap_or_default();
    let behavior = decision.word("behavior", &ALLOW_DENY);
    let behavior = behavior.ok_or(Skip::MissingField("behavior"))?;
    decide(verdict, behavior, BlockedBy::PermissionDecision, &message);
    Ok(())
}

/// Reads `decision` and `reason`, which can only block.
///
/// They are not supported where nothing can be blocked, on compactions, and on permissions, which have a decision of their own.
fn legacy(
    point: &str,
    stoppable: Stop,
    fields: &Fields<'_, '_>,
    verdict: &mut Verdict,
) -> Result<(), Skip> {
    let reason = fields.text("reason").unwrap_or_default();
    if !fields.has("decision") {
        return Ok(());
    }
    let is_block = fields.word("decision", &[("block", ())]).is_some();
    let is_known = stoppable != Stop::Nothing && !matches!(point, "PermissionRequest" | COMPACTION);
    supported(is_block && is_known, "decision")?;
    if reason.trim().is_empty() {
        return Err(Skip::MissingField("reason"));
    }
    stop(verdict, stoppable, BlockedBy::Decision, &reason);
    Ok(())
}

fn supported(is: bool, field: &'static str) -> Result<(), Skip> {
    is.then_some(()).ok_or(Skip::WrongType(field))
}

/// Fails where a field is not known.
fn only(fields: &Fields<'_, '_>, known: &[&str]) -> Result<(), Skip> {
    let all_known = fields.names().all(|name| known.contains(&&*name));
    all_known.then_some(()).ok_or(Skip::InvalidJson)
}
