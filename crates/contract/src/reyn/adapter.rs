//! Adapter for hooks that reyn starts itself.

use super::Reyn;
use crate::{
    Mode,
    adopt::{Adapter, AdapterFacts, HookOutput},
    members::Members,
};

const ADAPTER: AdapterFacts = AdapterFacts {
    keeps_yaml: true,
    key_of_point: Some("point"),
    line_keys: &["exec", "exec_capture", "shell_exec", "shell_push"],
    mode: Mode::ReynPush,
    name: "reyn",
    obeys: &[".reyn/"],
    ..AdapterFacts::NONE
};

impl Adapter for Reyn {
    fn facts(&self) -> &'static AdapterFacts {
        &ADAPTER
    }

    fn likeness(&self, payload: &Members<'_>) -> Option<u8> {
        payload.last("point").map(|_| 1)
    }

    fn no(&self, _point: &str, _why: &str) -> Option<HookOutput> {
        None
    }
}
