//! Decisions on tool calls that several runtimes write alike: `permissionDecision`, and the object `decision` at a permission request.

use super::{
    BlockedBy, Decision, Json, Skip, Stop, Verdict,
    fields::{ALLOW_DENY, Faults, Fields},
    merge::{INTERRUPT, decide, stop},
};

/// The source of a decision on a tool call.
pub(super) const PERMISSION: BlockedBy = BlockedBy::PermissionDecision;

/// A decision on a tool call, as `permissionDecision` has it.
pub(super) struct CallDecision {
    pub(super) decision: Decision,
    /// Whether the call is delayed until a decision, which is a question here.
    pub(super) is_deferred: bool,
    pub(super) reason: String,
}

impl CallDecision {
    pub(super) fn read(specific: &Fields<'_, '_>) -> Self {
        let words = [
            ("allow", (Decision::Allow, false)),
            ("ask", (Decision::Ask, false)),
            ("defer", (Decision::Ask, true)),
            ("deny", (Decision::Deny, false)),
        ];
        let reason = specific.text("permissionDecisionReason");
        let word = specific.word("permissionDecision", &words);
        let (decision, is_deferred) = word.unwrap_or_default();
        Self {
            decision,
            is_deferred,
            reason: reason.unwrap_or_default(),
        }
    }
}

/// Reads `permissionDecision` at a point that is about no call. An approval has no meaning there.
pub(super) fn elsewhere(
    point: Stop,
    specific: &Fields<'_, '_>,
    faults: &Faults,
    verdict: &mut Verdict,
) {
    if !specific.has("permissionDecision") {
        return;
    }
    let call = CallDecision::read(specific);
    let is_read = matches!(point, Stop::Call | Stop::Operation);
    if call.decision.restrains() && !is_read {
        faults.note(Skip::WrongType("permissionDecision"));
    } else if call.decision.stops() {
        stop(verdict, point, PERMISSION, &call.reason);
    } else if call.decision == Decision::Ask {
        decide(verdict, Decision::Ask, PERMISSION, &call.reason);
    }
}

/// Reads the object `decision` of a permission request. Returns the members to pass on, which only an approval has.
pub(super) fn requested(
    specific: &Fields<'_, '_>,
    faults: &Faults,
    verdict: &mut Verdict,
) -> Vec<(String, Json)> {
    let Some(decision) = specific.within("decision") else {
        return Vec::new();
    };
    let message = decision.text("message").unwrap_or_default();
    verdict.updated_input = decision.object("updatedInput");
    match decision.word("behavior", &ALLOW_DENY) {
        Some(behavior) => decide(verdict, behavior, PERMISSION, &message),
        None => faults.note(Skip::MissingField("behavior")),
    }
    if decision.boolean("interrupt") == Some(true) {
        verdict.warnings.push(INTERRUPT.to_owned());
    }
    // Only an approval may grant permissions.
    match verdict.decision {
        Decision::Allow => decision.unread(),
        Decision::Ask | Decision::Block | Decision::Deny | Decision::None => Vec::new(),
    }
}
