//! Adapter for hooks that infer starts itself.

use super::{Infer, POINTS};
use crate::contract::{
    Mode,
    adopt::{Adapter, Said},
    members::{Members, text},
};

impl Adapter for Infer {
    fn name(&self) -> &'static str {
        "infer"
    }

    fn mode(&self) -> Mode {
        Mode::Infer
    }

    fn keeps_yaml(&self) -> bool {
        true
    }

    fn likeness(&self, payload: &Members<'_>) -> Option<u8> {
        let point = payload.last("hook").and_then(text)?;
        POINTS.iter().any(|known| known.name == point).then_some(3)
    }

    fn key_of_point(&self) -> Option<&'static str> {
        Some("hook")
    }

    fn no(&self, _point: &str, _why: &str) -> Option<Said> {
        None
    }
}
