//! Base Coat as the runtime that starts a hook.

use serde_json::json;

use super::{Basecoat, POINTS};
use crate::contract::{
    Mode,
    adopt::{Adapter, Said},
    members::{Members, text},
};

impl Adapter for Basecoat {
    fn name(&self) -> &'static str {
        "base-coat"
    }

    fn mode(&self) -> Mode {
        Mode::Basecoat
    }

    fn likeness(&self, payload: &Members<'_>) -> Option<u8> {
        let point = payload.last("hook").and_then(text)?;
        POINTS.iter().any(|known| known.name == point).then_some(2)
    }

    fn key_of_point(&self) -> Option<&'static str> {
        Some("hook")
    }

    /// The specification knows no exit code that says something.
    fn no(&self, _point: &str, why: &str) -> Option<Said> {
        let answer = json!({"action": "block", "reason": why});
        Some(Said::by_words(&answer, why))
    }
}
