//! Adapter for hooks that reyn starts itself.

use crate::{Mode, adopt::Adapter};

pub(super) const ADAPTER: Adapter = Adapter {
    keeps_yaml: true,
    likeness: |payload, _| payload.last("point").map(|_| 1),
    line_keys: &["exec", "exec_capture", "shell_exec", "shell_push"],
    no: |_, _| None,
    obeys: &[".reyn/"],
    ..Adapter::new("reyn", Mode::ReynPush)
};
