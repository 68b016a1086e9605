//! Adapter for hooks that infer starts itself.

use super::{Infer, POINTS};
use crate::{
    Mode,
    adopt::{Adapter, AdapterFacts, HookOutput},
    members::{Members, text},
};

const ADAPTER: AdapterFacts = AdapterFacts {
    keeps_yaml: true,
    key_of_point: Some("hook"),
    mode: Mode::Infer,
    name: "infer",
    obeys: &[".infer/"],
    ..AdapterFacts::NONE
};

impl Adapter for Infer {
    fn facts(&self) -> &'static AdapterFacts {
        &ADAPTER
    }

    fn likeness(&self, payload: &Members<'_>) -> Option<u8> {
        let point = payload.last("hook").and_then(text)?;
        POINTS.iter().any(|known| known.name == point).then_some(3)
    }

    fn no(&self, _point: &str, _why: &str) -> Option<HookOutput> {
        None
    }
}
