//! Merges the verdicts of several docker-agent hooks at one point.

use super::{Decision, Json, Verdict};
use crate::{Folded, patch::patched};

/// Merges hooks' verdicts, in the order in which the hooks are registered.
///
/// The strongest decision wins, with the first reason among equals. The texts of blocking hooks become one message, and
/// all hooks' texts for model and user one text each, with a line or more per hook.
pub(super) fn fold(hooks: &[(&str, &Verdict)]) -> Folded {
    let verdicts = || hooks.iter().map(|(_, verdict)| *verdict);
    let decisions = verdicts().map(|verdict| verdict.decision);
    let decision = decisions.max_by_key(|decision| weight(*decision));
    let decision = decision.unwrap_or_default();
    let is_deciding = |hook: &&(&str, &Verdict)| hook.1.decision == decision;
    let deciding = || hooks.iter().filter(is_deciding);
    let first = |text: fn(&Verdict) -> &String| {
        let mut texts = deciding().map(|(_, verdict)| text(verdict));
        let first = texts.find(|text| !text.is_empty());
        first.cloned().unwrap_or_default()
    };
    let last = |value: fn(&Verdict) -> &Option<Json>| {
        verdicts().rev().find_map(|verdict| value(verdict).clone())
    };
    let blocked_by_hook = deciding().next().filter(|_| decision.stops());
    let stopping = || verdicts().filter(|verdict| verdict.decision.stops());
    let context = joined(verdicts().flat_map(|verdict| &verdict.additional_context));
    let answer = Verdict {
        additional_context: context.into_iter().collect(),
        blocked_by: blocked_by_hook.and_then(|(_, verdict)| verdict.blocked_by),
        decision,
        failed: verdicts().any(|verdict| verdict.failed),
        metadata: patched(verdicts().filter_map(|verdict| verdict.metadata.as_ref())),
        reason: first(|verdict| &verdict.reason),
        stop_reason: first(|verdict| &verdict.stop_reason),
        summary: verdicts().find_map(|verdict| verdict.summary.clone()),
        suppress_output: verdicts().any(|verdict| verdict.suppress_output),
        system_message: joined(verdicts().map(|verdict| &verdict.system_message))
            .unwrap_or_default(),
        updated_input: patched(verdicts().filter_map(|verdict| verdict.updated_input.as_ref())),
        updated_messages: last(|verdict| &verdict.updated_messages),
        updated_output: last(|verdict| &verdict.updated_output),
        warnings: verdicts()
            .flat_map(|verdict| verdict.warnings.clone())
            .collect(),
        ..Verdict::default()
    };
    Folded {
        answer,
        blocked_by_hook: blocked_by_hook.map_or("", |(name, _)| name).to_owned(),
        messages: joined(stopping().map(|verdict| &verdict.reason))
            .into_iter()
            .collect(),
        ..Folded::default()
    }
}

const fn weight(decision: Decision) -> u8 {
    match decision {
        Decision::None => 0,
        Decision::Allow => 1,
        Decision::Ask => 2,
        Decision::Block => 3,
        Decision::Deny => 4,
    }
}

/// Joins texts that are not empty by line breaks; `None` if there are none.
fn joined<'a>(texts: impl Iterator<Item = &'a String>) -> Option<String> {
    let texts: Vec<&str> = texts
        .map(String::as_str)
        .filter(|text| !text.is_empty())
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}
