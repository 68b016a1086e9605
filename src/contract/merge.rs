//! What several hooks come to where the strongest decision wins and the texts of all are kept.

use super::{BlockedBy, Decision, Folded, Json, Stop, Verdict};

/// The warning where a hook asks for more than a deny.
pub(super) const INTERRUPT: &str = "the hook asks for the whole run to be interrupted";

/// The warning of a hook that wants to stop what cannot be stopped.
const NO_STOP: &str = "nothing can be stopped at this point";

/// Returns how strong a decision is: a stop outweighs a question, and a question an approval.
pub(super) const fn strength(decision: Decision) -> u8 {
    match decision {
        Decision::Block | Decision::Deny => 3,
        Decision::Ask => 2,
        Decision::Allow => 1,
        Decision::None => 0,
    }
}

/// Takes a decision into a verdict, unless there is one that is as strong.
pub(super) fn decide(verdict: &mut Verdict, decision: Decision, by: BlockedBy, reason: &str) {
    if strength(decision) > strength(verdict.decision) {
        verdict.blocked_by = decision.stops().then_some(by);
        verdict.decision = decision;
        reason.clone_into(&mut verdict.reason);
    }
}

/// Takes a stop into a verdict; a warning where nothing can be stopped.
pub(super) fn stop(verdict: &mut Verdict, stop: Stop, by: BlockedBy, reason: &str) {
    match stop.decision() {
        Some(decision) => decide(verdict, decision, by, reason),
        None => verdict.warnings.push(NO_STOP.to_owned()),
    }
}

/// Takes a stop of the whole run into a verdict, which is possible at any point. Where no reason is given, the text that goes
/// with the stop is one.
pub(super) fn halt(verdict: &mut Verdict, stop: Stop, reason: &str) {
    let decision = stop.decision().unwrap_or(Decision::Block);
    let stop_reason = verdict.stop_reason.clone();
    let reason = if reason.is_empty() {
        &stop_reason
    } else {
        reason
    };
    decide(verdict, decision, BlockedBy::ContinueFalse, reason);
}

/// Merges verdicts in the order given: the decision and reason of the first of the strongest, every context, warning and
/// text for the user, and the last output and rewrite of each kind. What is stopped has no input to rewrite.
pub(super) fn merged(hooks: &[(&str, &Verdict)], strength: impl Fn(&Verdict) -> u8) -> Folded {
    let mut folded = Folded::default();
    let answer = &mut folded.answer;
    let mut metadata: Vec<(String, Json)> = Vec::new();
    let mut strongest = 0;
    for (name, verdict) in hooks {
        if strength(verdict) > strongest {
            strongest = strength(verdict);
            answer.blocked_by = verdict.blocked_by;
            answer.decision = verdict.decision;
            answer.reason.clone_from(&verdict.reason);
            let blocker = if verdict.decision.stops() { *name } else { "" };
            blocker.clone_into(&mut folded.blocked_by_hook);
        }
        add_texts(answer, verdict);
        add_rewrites(answer, verdict);
        let members = verdict.metadata.as_ref().and_then(Json::members);
        for (key, value) in members.unwrap_or_default() {
            metadata.retain(|(known, _)| *known != key);
            metadata.push((key, value));
        }
    }
    answer.metadata = (!metadata.is_empty()).then(|| Json::object(&metadata));
    if answer.decision.stops() {
        answer.updated_input = None;
    }
    folded
}

fn add_texts(answer: &mut Verdict, verdict: &Verdict) {
    answer.failed |= verdict.failed;
    answer.suppress_output |= verdict.suppress_output;
    let context = verdict.additional_context.iter().cloned();
    answer.additional_context.extend(context);
    answer.warnings.extend(verdict.warnings.iter().cloned());
    if answer.stop_reason.is_empty() {
        answer.stop_reason.clone_from(&verdict.stop_reason);
    }
    if !answer.system_message.is_empty() && !verdict.system_message.is_empty() {
        answer.system_message.push('\n');
    }
    answer.system_message.push_str(&verdict.system_message);
}

fn add_rewrites(answer: &mut Verdict, verdict: &Verdict) {
    for (last, new) in [
        (&mut answer.updated_input, &verdict.updated_input),
        (&mut answer.updated_messages, &verdict.updated_messages),
        (&mut answer.updated_output, &verdict.updated_output),
    ] {
        if new.is_some() {
            last.clone_from(new);
        }
    }
    if verdict.output.is_some() {
        answer.output.clone_from(&verdict.output);
    }
}
