//! Adapter for hooks that infer starts itself.

use super::FACTS;
use crate::{Mode, adopt::Adapter};

pub(super) const ADAPTER: Adapter = Adapter {
    keeps_yaml: true,
    likeness: |_, point| FACTS.has_point(point?).then_some(3),
    mode: Mode::Infer,
    name: "infer",
    no: |_, _| None,
    obeys: &[".infer/"],
    ..Adapter::NONE
};
