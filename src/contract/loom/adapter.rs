//! Adapter for hooks that Loom starts itself.

use super::{Loom, POINTS, passes_by_object};
use crate::contract::{
    Mode,
    adopt::{Adapter, Said},
    members::{Members, text},
};

impl Adapter for Loom {
    fn name(&self) -> &'static str {
        "loom"
    }

    fn mode(&self) -> Mode {
        Mode::Loom
    }

    fn likeness(&self, payload: &Members<'_>) -> Option<u8> {
        let point = payload.last("event").and_then(text)?;
        POINTS.iter().any(|known| known.name == point).then_some(4)
    }

    fn key_of_point(&self) -> Option<&'static str> {
        Some("event")
    }

    /// Returns whether an end is a block; the contract is stricter than Loom.
    fn takes_for_no(&self, said: &Said) -> Option<bool> {
        passes_by_object(&said.stdout).then_some(false)
    }
}
