//! Adapter for hooks that reyn starts itself.

use super::Reyn;
use crate::contract::{
    Mode,
    adopt::{Adapter, Said},
    members::Members,
};

impl Adapter for Reyn {
    fn name(&self) -> &'static str {
        "reyn"
    }

    fn mode(&self) -> Mode {
        Mode::ReynPush
    }

    fn line_keys(&self) -> &'static [&'static str] {
        &["exec", "exec_capture", "shell_exec", "shell_push"]
    }

    fn keeps_yaml(&self) -> bool {
        true
    }

    fn likeness(&self, payload: &Members<'_>) -> Option<u8> {
        payload.last("point").map(|_| 1)
    }

    fn key_of_point(&self) -> Option<&'static str> {
        Some("point")
    }

    fn no(&self, _point: &str, _why: &str) -> Option<Said> {
        None
    }
}
