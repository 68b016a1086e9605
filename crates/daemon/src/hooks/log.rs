//! Log hooks: write a line of the daemon's log for each event.

use serde_json::{Map, Value};

use hookjail_contract::{Decision, Verdict, log_line};

use super::Log;

/// Writes the line and returns an observer's verdict.
pub(crate) fn write(level: Log, hook: &str, point: &str, event: &Map<String, Value>) -> Verdict {
    let event = log_line(point, event);
    match level {
        Log::Error => tracing::error!(event, hook, "a hook logs"),
        Log::Info => tracing::info!(event, hook, "a hook logs"),
        Log::Warn => tracing::warn!(event, hook, "a hook logs"),
    }
    Verdict {
        decision: Decision::Allow,
        ..Verdict::default()
    }
}
