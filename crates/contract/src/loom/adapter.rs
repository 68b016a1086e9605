//! Adapter for hooks that Loom starts itself.

use super::{FACTS, passes_by_object};
use crate::{Mode, adopt::Adapter};

pub(super) const ADAPTER: Adapter = Adapter {
    likeness: |_, point| FACTS.has_point(point?).then_some(4),
    // The contract is stricter than Loom.
    takes_for_no: |_, output| passes_by_object(&output.stdout).then_some(false),
    ..Adapter::new("loom", Mode::Loom)
};
