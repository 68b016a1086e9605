//! A refused access of a rehearsed run.

use serde::{Deserialize, Serialize};

/// A refused access of a run.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct RefusedUse {
    /// Whether the run would have learnt something, as from a read, a list or an execution.
    pub(in crate::cli) is_read_only: bool,
    /// The access, as people read it.
    pub(in crate::cli) words: String,
}
