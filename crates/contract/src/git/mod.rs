//! git hooks: any exit code but 0 blocks the operation; stdin is no JSON.

use super::{
    Mode,
    adopt::{Adapter, AdapterFacts, HookOutput},
};

pub(super) struct Git;

const ADAPTER: AdapterFacts = AdapterFacts {
    answers_by_code: true,
    key_of_point: None,
    mode: Mode::Observe,
    name: "git",
    names_points: false,
    ..AdapterFacts::NONE
};

impl Adapter for Git {
    fn facts(&self) -> &'static AdapterFacts {
        &ADAPTER
    }

    fn no(&self, _point: &str, why: &str) -> Option<HookOutput> {
        Some(HookOutput::by_code(1, why))
    }

    fn takes_for_no(&self, said: &HookOutput) -> Option<bool> {
        Some(said.code != 0)
    }
}
