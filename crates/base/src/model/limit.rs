//! Limits that the library which keeps them and profiles share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The treatment of a hook that prints more than is kept.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnOutputLimit {
    /// The rest is read, counted and dropped but for its tail.
    Drain,
    /// The run is ended.
    Kill,
}
