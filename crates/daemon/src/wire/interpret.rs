//! `Interpret`: returns the verdicts of ends that another runner observed. Runs nothing.

use std::time::Duration;

use serde_json::Map;

use hookjail_proto as pb;

use hookjail_base::{model::InvalidField, refusal::Refusal};
use hookjail_contract::{
    ContractEvent, ExternalEnd, Folded, Push, Reading, ReportedKind, Verdict, read,
};

use super::{decode, encode};

/// Interprets ends of hooks.
///
/// # Errors
///
/// Refuses unknown contracts, modes and points, and impossible ends, with `INVALID_REQUEST` or `UNSUPPORTED`.
pub(super) fn interpret(message: pb::InterpretRequest) -> Result<pb::InterpretResponse, Refusal> {
    let mode = decode::mode(message.contract, &message.mode)?;
    let shared = config("config_json", &message.config_json)?;
    // Without ends, the settings would not be checked.
    mode.entry(&shared)?;
    let ends: Vec<_> = message
        .ends
        .into_iter()
        .map(|end| external_end(end, &shared))
        .collect::<Result<_, _>>()?;
    let Reading {
        events,
        folded,
        pushes,
        ran,
        verdicts,
    } = read(mode, &message.point, &ends)?;
    let Folded {
        answer,
        blocked_by_hook,
        messages,
        reminders,
    } = folded;
    let lifetime = mode.context_lifetime(&message.point);
    let verdict = |verdict: &Verdict| encode::verdict_message(verdict, false, lifetime);
    let event = |event: &ContractEvent| encode::event_message(event);
    let push = |push: &Push| encode::push_message(push);
    Ok(pb::InterpretResponse {
        answer: Some(verdict(&answer)),
        blocked_by_hook,
        contract_version: mode.facts().version.to_owned(),
        events: events.iter().map(event).collect(),
        messages,
        pushes: pushes.iter().map(push).collect(),
        ran,
        reminders: reminders.iter().map(encode::reminder_message).collect(),
        verdicts: verdicts.iter().map(verdict).collect(),
    })
}

fn external_end(end: pb::GivenEnd, shared: &EntryConfig) -> Result<ExternalEnd, InvalidField> {
    let reported = ReportedKind {
        exit_code: end.exit_code,
        signal: end.signal,
        spawn_error: end.spawn_error.as_deref(),
        timed_out: end.timed_out,
    };
    let kind = reported.kind()?;
    let mut entry = shared.clone();
    entry.extend(config("ends.config_json", &end.config_json)?);
    Ok(ExternalEnd {
        command: end.command,
        config: entry,
        duration: end.duration_ms.map(Duration::from_millis),
        error: end.spawn_error.unwrap_or_default(),
        kind,
        name: end.name,
        stderr: end.stderr.into(),
        stdout: end.stdout.into(),
        stdout_truncated: end.stdout_truncated,
        turn: end.turn,
    })
}

type EntryConfig = Map<String, serde_json::Value>;

fn config(field: &str, json: &str) -> Result<EntryConfig, InvalidField> {
    if json.is_empty() {
        return Ok(EntryConfig::new());
    }
    serde_json::from_str(json).map_err(|_| InvalidField::new(field, "must be a JSON object"))
}
