//! Gemini CLI hooks, by its reference and its hook runner.
//!
//! Text is an approval with a message for the user, except invalid JSON that begins like an object: such text may be the
//! rest of an answer that denied.

use std::{collections::BTreeSet, time::Duration};

use serde_json::json;

use hookjail_base::model::Event;

use super::{
    BlockedBy, Decision, Defaults, End, EndKind, Envelope, Equality, Facts, Folded, Json, Matcher,
    Rules, Scheduling, Skip, Stop, Subject, Verdict,
    entry::Key,
    envelope::Part,
    fields::{Faults, Fields, Outcome, outcome, refused, settled, used},
    members::{self, Members},
    merge::{decide, halt, hand_on, join_all_reasons, merged, stop, weight},
    patch::{over_member, patched},
    point,
    quoted::{DECISIONS, is_torn, on_stderr, unquoted, words},
    settings::with_defaults,
    stdin,
    verdict::present,
};
mod adapter;
mod hook_file;

pub(super) use self::adapter::ADAPTER;
use self::hook_file::HOOK_FILE;

/// The member with the tools that the model may call.
const TOOL_CONFIG: &str = "toolConfig";

pub(super) const FACTS: Facts = Facts {
    adapter: Some(&ADAPTER),
    agent_commands: &["gemini -p", "gemini --prompt"],
    carried: &["command", "description", "env", "matcher", "name", "type"],
    defaults: Defaults::shell("/bin/bash", "-c", Some(Duration::from_secs(60))),
    equality: Equality::ButForTime,
    fold,
    hand_on: pass_on,
    keys: &[("sequential", Key::InTurn), ("timeout", Key::TimeoutMillis)],
    last_points: &["SessionEnd"],
    members: &[
        ("session_id", Part::Session, &[]),
        ("cwd", Part::Cwd, &[]),
        ("timestamp", Part::IsoTime, &[]),
        ("tool_name", Part::ToolName, &[]),
        ("tool_input", Part::Input, &[]),
        ("tool_response", Part::Response, &["AfterTool"]),
    ],
    points: &[
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
    ],
    // Where no group is sequential: [`super::Entry::in_turn`].
    scheduling: Scheduling::AtOnce,
    shared_points: &[
        ("PreToolUse", "BeforeTool"),
        ("PostToolUse", "AfterTool"),
        ("PreCompact", "PreCompress"),
    ],
    subject,
    warned_points: &["AfterTool", "BeforeAgent"],
    ..Facts::new("gemini_cli", "gemini_cli/2026", interpret)
};

pub(super) const RULES: Rules = Rules {
    as_read: with_defaults,
    hook_file: Some(&HOOK_FILE),
    matcher: Some(|subject, text| match subject {
        Subject::Tool => Matcher::pattern(text),
        Subject::FileName(_) | Subject::Member(_) | Subject::Nothing => {
            Ok(Matcher::names(text, &[]))
        }
    }),
    ..Rules::NONE
};

fn interpret(end: &End<'_>) -> Verdict {
    let stoppable = FACTS.stop_of(end.point);
    match outcome(end) {
        Outcome::Broke(skip) => broke(end, stoppable, skip),
        Outcome::Nothing => on_stderr(answered(end, stoppable)),
        Outcome::Refused(stderr) => exit_2(end, stoppable, stderr),
        Outcome::Text(text) => printed(stoppable, text),
    }
}

fn subject(point: &str) -> Subject {
    match point {
        "AfterTool" | "BeforeTool" => Subject::Tool,
        "PreCompress" => Subject::Member(&["trigger"]),
        "SessionEnd" => Subject::Member(&["reason"]),
        "SessionStart" => Subject::Member(&["source"]),
        _ => Subject::Nothing,
    }
}

/// Applies rewrites of input or request to the next hook of a sequential group. They are merged over the old
/// values; context for an agent is appended to the prompt.
fn pass_on(verdict: &Verdict, event: &mut Event, envelope: &mut Envelope) {
    stdin::put_over_input(event, envelope, verdict.updated_input.as_ref());
    if let Some(request) = &verdict.updated_messages {
        let request = over_member("llm_request", request, event);
        stdin::put(event, &["llm_request"], &request);
    }
    if event.point == "BeforeAgent" {
        stdin::append_to_prompt(event, &verdict.additional_context);
    }
}

fn fold(_point: &str, hooks: &[(&str, &Verdict)]) -> Folded {
    let mut folded = merged(hooks, weight);
    join_all_reasons(&mut folded, hooks);
    let configs = hooks.iter().filter_map(|(_, verdict)| {
        let members = verdict.metadata.as_ref()?.members()?;
        members.into_iter().find(|(name, _)| name == TOOL_CONFIG)
    });
    let configs: Vec<_> = configs.map(|(_, config)| config).collect();
    if !configs.is_empty() {
        let config = (TOOL_CONFIG.to_owned(), united(&configs));
        let rest = folded.answer.metadata.take().and_then(|all| all.members());
        let rest = rest.unwrap_or_default().into_iter();
        let rest = rest.filter(|(name, _)| name != TOOL_CONFIG);
        let all: Vec<_> = rest.chain([config]).collect();
        folded.answer.metadata = Some(Json::object(&all));
    }
    if folded.answer.updated_input.is_some() {
        let inputs = hooks.iter().map(|(_, verdict)| &verdict.updated_input);
        folded.answer.updated_input = patched(inputs.flatten());
    }
    folded
}

/// Merges hooks' lists of tools that the model may call: empty if any hook allows none, else the union.
fn united(configs: &[Json]) -> Json {
    let mut modes = BTreeSet::new();
    let mut names = BTreeSet::new();
    for config in configs {
        let members = Members::from_value(config.raw()).unwrap_or_default();
        modes.extend(members.last("mode").and_then(members::text));
        let allowed = members.last("allowedFunctionNames");
        names.extend(allowed.and_then(members::texts).unwrap_or_default());
    }
    let mode = ["NONE", "ANY"]
        .into_iter()
        .find(|mode| modes.contains(*mode));
    if mode == Some("NONE") {
        names.clear();
    }
    json!({ "mode": mode.unwrap_or("AUTO"), "allowedFunctionNames": names }).into()
}

/// Builds the verdict for exit code 2, which stops regardless of the output. An answer has the reason in its own field.
fn exit_2(end: &End<'_>, stoppable: Stop, stderr: String) -> Verdict {
    match answered(end, stoppable) {
        Some(verdict) if stoppable == Stop::Nothing => used(Skip::NonzeroExit, verdict),
        Some(verdict) if verdict.decision.stops() => verdict,
        Some(verdict) if !verdict.reason.is_empty() => refused(stoppable, verdict.reason),
        None if stderr.is_empty() => refused(stoppable, words(end)),
        Some(_) | None => refused(stoppable, stderr),
    }
}

/// Builds the verdict of a failed hook.
///
/// Gemini CLI reads its JSON nevertheless, and takes text for a block unless the exit code is 0 or 1. An end by a
/// signal has no exit code there, and counts as 0.
fn broke(end: &End<'_>, stoppable: Stop, skip: Skip) -> Verdict {
    // The output of a hook that was not run, or that took too long, is not read.
    if !matches!(skip, Skip::NonzeroExit | Skip::Signal) {
        return Verdict::skipped(skip);
    }
    if let Some(verdict) = answered(end, stoppable) {
        return used(skip, verdict);
    }
    let words = words(end);
    match end.kind {
        EndKind::Exited(code) if code != 1 && !words.is_empty() => refused(stoppable, words),
        EndKind::Exited(_) => {
            let message = (!words.is_empty()).then(|| format!("Warning: {words}"));
            Verdict {
                system_message: message.unwrap_or_default(),
                ..Verdict::skipped(skip)
            }
        }
        EndKind::Canceled
        | EndKind::ExecFailed
        | EndKind::Killed
        | EndKind::OutputLimit
        | EndKind::Signaled(_)
        | EndKind::TimedOut => Verdict::skipped(skip),
    }
}

/// Returns the answer of an end other than text on exit 0. `None` where it is no JSON object.
fn answered(end: &End<'_>, stoppable: Stop) -> Option<Verdict> {
    let inner = unquoted(&words(end));
    let faults = Faults::default();
    let fields = Fields::parse(&inner, &faults).ok()?;
    Some(answer(stoppable, &fields, &faults))
}

fn printed(stoppable: Stop, text: &str) -> Verdict {
    let inner = unquoted(text);
    let faults = Faults::default();
    match Fields::parse(&inner, &faults) {
        Ok(fields) => answer(stoppable, &fields, &faults),
        Err(Skip::InvalidJson) if !is_torn(&inner) => Verdict {
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

fn answer(stoppable: Stop, fields: &Fields<'_, '_>, faults: &Faults) -> Verdict {
    let mut verdict = fields.universal();
    let reason = fields.text("reason").unwrap_or_default();
    if fields.boolean("continue") == Some(false) {
        halt(&mut verdict, stoppable, stoppable == Stop::Nothing, &reason);
    }
    let cause = BlockedBy::Decision;
    match fields.word("decision", &DECISIONS) {
        Some(decision) if decision.stops() => stop(&mut verdict, stoppable, cause, &reason),
        // The user can be asked only before a tool call.
        Some(Decision::Ask) if stoppable != Stop::Call => {}
        Some(decision) => decide(&mut verdict, decision, cause, &reason),
        None => {}
    }
    let mut others = Vec::new();
    if let Some(specific_fields) = fields.within("hookSpecificOutput") {
        specific(&specific_fields, &mut verdict);
        others = specific_fields.unread();
    }
    hand_on(&mut verdict, [fields.unread(), others].concat(), &[]);
    settled(verdict, faults)
}

fn specific(fields: &Fields<'_, '_>, verdict: &mut Verdict) {
    verdict.additional_context = fields.context("additionalContext");
    verdict.updated_input = fields.object("tool_input");
    verdict.updated_messages = fields.object("llm_request");
    let output = fields.value("tool_output");
    verdict.updated_output = output.or_else(|| fields.object("llm_response"));
    // Read only so that it does not count as unread.
    fields.has("hookEventName");
    let config = fields.object(TOOL_CONFIG);
    // Read as a boolean to check its type.
    let clear = fields
        .boolean("clearContext")
        .and(fields.value("clearContext"));
    let members = [("clearContext", clear), (TOOL_CONFIG, config)];
    let members: Vec<_> = present(members).collect();
    verdict.metadata = (!members.is_empty()).then(|| Json::object(&members));
}
