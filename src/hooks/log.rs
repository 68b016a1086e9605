//! Log hooks: write a line of the daemon's log for each event.

use serde_json::{Map, Value};

use super::Log;
use crate::contract::{Decision, Verdict, log_line};

impl Log {
    /// Writes the line and returns an observer's verdict.
    pub(crate) fn write(self, hook: &str, point: &str, event: &Map<String, Value>) -> Verdict {
        let event = log_line(point, event);
        match self {
            Self::Error => tracing::error!(event, hook, "a hook logs"),
            Self::Info => tracing::info!(event, hook, "a hook logs"),
            Self::Warn => tracing::warn!(event, hook, "a hook logs"),
        }
        Verdict {
            decision: Decision::Allow,
            ..Verdict::default()
        }
    }
}
