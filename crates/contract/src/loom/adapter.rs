//! Adapter for hooks that Loom starts itself.

use super::{Loom, POINTS, passes_by_object};
use crate::{
    Mode,
    adopt::{Adapter, AdapterFacts, HookOutput},
    members::{Members, text},
};

const ADAPTER: AdapterFacts = AdapterFacts {
    key_of_point: Some("event"),
    mode: Mode::Loom,
    name: "loom",
    ..AdapterFacts::NONE
};

impl Adapter for Loom {
    fn facts(&self) -> &'static AdapterFacts {
        &ADAPTER
    }

    fn likeness(&self, payload: &Members<'_>) -> Option<u8> {
        let point = payload.last("event").and_then(text)?;
        POINTS.iter().any(|known| known.name == point).then_some(4)
    }

    /// Returns whether an end is a block; the contract is stricter than Loom.
    fn takes_for_no(&self, said: &HookOutput) -> Option<bool> {
        passes_by_object(&said.stdout).then_some(false)
    }
}
