//! The caller's context of an event, from which contracts build hooks' stdin.

use super::Json;
use jiff::Timestamp;

/// Context of an event; unknown fields are empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Envelope {
    /// The agent's name.
    pub agent: String,
    /// The branch.
    pub branch: String,
    /// The token budget.
    pub budget: Option<Budget>,
    /// The runtime's working directory.
    pub cwd: String,
    /// The session that started this one.
    pub parent_session: String,
    /// The repository, `owner/name`.
    pub repository: String,
    /// The session.
    pub session: String,
    /// The time of the event.
    pub timestamp: Option<Timestamp>,
    /// The event's tool call.
    pub tool: Option<Tool>,
    /// The turn's number.
    pub turn: Option<u64>,
}

/// Tokens used and available.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Budget {
    /// Tokens available.
    pub effective_limit: u64,
    /// Tokens used.
    pub used_tokens: u64,
}

/// A tool call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tool {
    /// The call's duration, milliseconds.
    pub duration_ms: Option<u64>,
    /// Its error text; may be empty.
    pub error: String,
    /// Its input.
    pub input: Option<Json>,
    /// Its name.
    pub name: String,
    /// Its response.
    pub response: Option<Json>,
    /// Whether it succeeded.
    pub success: Option<bool>,
    /// The call's id; may be empty.
    pub use_id: String,
}

impl Envelope {
    /// Returns the time as ISO 8601 in UTC, with milliseconds, if it is known.
    pub(super) fn iso_time(&self) -> Option<Json> {
        self.timestamp
            .map(|timestamp| Json::text(&format!("{timestamp:.3}")))
    }
}

/// Returns a text as a JSON string, unless it is empty.
pub(super) fn known(text: &str) -> Option<Json> {
    (!text.is_empty()).then(|| Json::text(text))
}
