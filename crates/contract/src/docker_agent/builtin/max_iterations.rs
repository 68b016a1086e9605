//! `max_iterations`: stops after a number of model calls.
//!
//! The runtime counts and puts the number of the next call into the event, so nothing is stored here.

use std::num::NonZeroU64;

use serde_json::value::RawValue;

use crate::{BlockedBy, Decision, Members, Verdict};

/// Blocks a call beyond the limit.
pub(super) fn verdict(limit: NonZeroU64, event: &Members<'_>) -> Verdict {
    let number = |value: &RawValue| value.get().parse::<u64>().ok();
    let iteration = event.last("iteration").and_then(number);
    match iteration {
        None => Verdict::warning(
            "`max_iterations` stops nothing: the event has no `iteration` that is a number"
                .to_owned(),
        ),
        Some(iteration) if iteration > limit.get() => Verdict::stopped(
            Decision::Block,
            BlockedBy::Decision,
            format!(
                "Agent terminated: max_iterations builtin reached its limit of {limit} model call(s)."
            ),
        ),
        Some(_) => Verdict::default(),
    }
}
