//! Adapter for hooks that infer starts itself.

use super::FACTS;
use crate::{Mode, adopt::Adapter};

pub(super) const ADAPTER: Adapter = Adapter {
    keeps_yaml: true,
    likeness: |_, point| FACTS.has_point(point?).then_some(3),
    no: |_, _| None,
    obeys: &[".infer/"],
    ..Adapter::new("infer", Mode::Infer)
};
