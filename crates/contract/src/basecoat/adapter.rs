//! Adapter for hooks that Base Coat starts itself.

use serde_json::json;

use super::FACTS;
use crate::{
    Mode,
    adopt::{Adapter, HookOutput},
};

pub(super) const ADAPTER: Adapter = Adapter {
    likeness: |_, point| FACTS.has_point(point?).then_some(2),
    // The specification has no exit code with a meaning.
    no: |_, why| {
        let answer = json!({"action": "block", "reason": why});
        Some(HookOutput::by_words(&answer, why))
    },
    ..Adapter::new("base-coat", Mode::Basecoat)
};
