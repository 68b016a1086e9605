//! Adapter for hooks that Base Coat starts itself.

use serde_json::json;

use super::{Basecoat, POINTS};
use crate::{
    Mode,
    adopt::{Adapter, AdapterFacts, HookOutput},
    members::{Members, text},
};

const ADAPTER: AdapterFacts = AdapterFacts {
    key_of_point: Some("hook"),
    mode: Mode::Basecoat,
    name: "base-coat",
    ..AdapterFacts::NONE
};

impl Adapter for Basecoat {
    fn facts(&self) -> &'static AdapterFacts {
        &ADAPTER
    }

    fn likeness(&self, payload: &Members<'_>) -> Option<u8> {
        let point = payload.last("hook").and_then(text)?;
        POINTS.iter().any(|known| known.name == point).then_some(2)
    }

    /// Returns none: the specification has no exit code with a meaning.
    fn no(&self, _point: &str, why: &str) -> Option<HookOutput> {
        let answer = json!({"action": "block", "reason": why});
        Some(HookOutput::by_words(&answer, why))
    }
}
