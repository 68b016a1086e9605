//! Merges verdicts: the strongest decision wins and the texts of all are kept.

use super::{
    BlockedBy, Decision, Folded, Json, Stop, Verdict,
    patch::{Patch, patched},
};

/// The warning for a hook that asks to interrupt the run.
pub(super) const INTERRUPT: &str = "the hook asks for the whole run to be interrupted";

/// The warning for a stop at a point where nothing can be stopped.
const NO_STOP: &str = "nothing can be stopped at this point";

/// Returns the strength of a decision. A stop outweighs a question, and a question an approval.
pub(super) const fn strength(decision: Decision) -> u8 {
    match decision {
        Decision::Block | Decision::Deny => 3,
        Decision::Ask => 2,
        Decision::Allow => 1,
        Decision::None => 0,
    }
}

/// Returns the strength of a verdict. Of equal decisions a stop of the whole run outweighs the others.
pub(super) fn weight(verdict: &Verdict) -> u8 {
    let is_halt = verdict.blocked_by == Some(BlockedBy::ContinueFalse);
    strength(verdict.decision) * 2 + u8::from(is_halt)
}

/// Sets a verdict's decision, unless it has one at least as strong.
pub(super) fn decide(
    verdict: &mut Verdict,
    decision: Decision,
    blocked_by: BlockedBy,
    reason: &str,
) {
    if strength(decision) > strength(verdict.decision) {
        verdict.blocked_by = decision.stops().then_some(blocked_by);
        verdict.decision = decision;
        reason.clone_into(&mut verdict.reason);
    }
}

/// Applies a stop to a verdict; adds a warning where nothing can be stopped.
pub(super) fn stop(verdict: &mut Verdict, stop: Stop, blocked_by: BlockedBy, reason: &str) {
    match stop.decision() {
        Some(decision) => decide(verdict, decision, blocked_by, reason),
        None => verdict.warnings.push(NO_STOP.to_owned()),
    }
}

/// Applies a stop of the whole run to a verdict. At a point where the runtime `ignores` it, adds a warning. An empty
/// reason defaults to the text that goes with the stop.
pub(super) fn halt(verdict: &mut Verdict, stop: Stop, ignores: bool, reason: &str) {
    if ignores {
        verdict.warnings.push(NO_STOP.to_owned());
        return;
    }
    let decision = stop.decision().unwrap_or(Decision::Block);
    let stop_reason = verdict.stop_reason.clone();
    let reason = if reason.is_empty() {
        &stop_reason
    } else {
        reason
    };
    decide(verdict, decision, BlockedBy::ContinueFalse, reason);
}

/// Merges verdicts in the given order.
///
/// The result has the decision and reason of the first of the strongest, and every context, warning and text for the user.
/// Of output, rewrites and metadata of each kind, the result has the last. A stopping result has no rewritten input, and only
/// the metadata of hooks that stop: metadata of others may grant more rights.
pub(super) fn merged(hooks: &[(&str, &Verdict)], strength: impl Fn(&Verdict) -> u8) -> Folded {
    let mut folded = Folded::default();
    let answer = &mut folded.answer;
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
    }
    let is_stopped = answer.decision.stops();
    let counting = hooks
        .iter()
        .filter(|(_, verdict)| !is_stopped || verdict.decision.stops());
    answer.metadata = patched(counting.filter_map(|(_, verdict)| verdict.metadata.as_ref()));
    if answer.decision.stops() {
        answer.updated_input = None;
    }
    folded
}

/// Joins the reasons of all hooks whose stop is as strong as the strongest.
pub(super) fn join_reasons(folded: &mut Folded, hooks: &[(&str, &Verdict)], between: &str) {
    let answer = &mut folded.answer;
    if !answer.decision.stops() {
        return;
    }
    let strongest = weight(answer);
    let equals = hooks
        .iter()
        .filter(|(_, verdict)| weight(verdict) == strongest);
    let reasons = equals.map(|(_, verdict)| verdict.reason.as_str());
    let reasons: Vec<_> = reasons.filter(|reason| !reason.is_empty()).collect();
    answer.reason = reasons.join(between);
}

/// Joins the reasons of all hooks that give one, where the answer stops or asks.
pub(super) fn join_all_reasons(folded: &mut Folded, hooks: &[(&str, &Verdict)]) {
    if folded.answer.decision.restrains() {
        let reasons = hooks.iter().map(|(_, verdict)| verdict.reason.as_str());
        let reasons: Vec<_> = reasons.filter(|reason| !reason.is_empty()).collect();
        folded.answer.reason = reasons.join("\n");
    }
}

/// Copies the remaining members of an answer into the verdict's metadata.
///
/// Members with a meaning `elsewhere` are left out: where the runtime does not read them, no other reader may.
pub(super) fn hand_on(verdict: &mut Verdict, members: Vec<(String, Json)>, elsewhere: &[&str]) {
    let mut metadata = Patch::default();
    let members = members.into_iter();
    for (name, value) in members.filter(|(name, _)| !elsewhere.contains(&name.as_str())) {
        metadata.put(&name, value);
    }
    verdict
        .metadata
        .iter()
        .for_each(|members| metadata.put_all(members));
    verdict.metadata = metadata.into_members();
}

/// Adds the texts of a verdict to an answer.
pub(super) fn add_texts(answer: &mut Verdict, verdict: &Verdict) {
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

/// Replaces the output and rewrites of an answer by those of a verdict.
pub(super) fn add_rewrites(answer: &mut Verdict, verdict: &Verdict) {
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
