//! The caller's context of an event, from which contracts build hooks' stdin.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Json;

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

/// A value of an envelope that contracts add to stdin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Part {
    /// The agent's name.
    Agent,
    /// The working directory.
    Cwd,
    /// The tool's error text, empty or not.
    Error,
    /// Whether the tool failed.
    Failed,
    /// The tool's input.
    Input,
    /// The time as ISO 8601.
    IsoTime,
    /// The time in milliseconds since 1970.
    Millis,
    /// Always `null`.
    Null,
    /// The session that started this one.
    ParentSession,
    /// The tool's input, in a string unless it is one.
    QuotedInput,
    /// The tool's response.
    Response,
    /// The session.
    Session,
    /// The tool's name.
    ToolName,
    /// The turn's number.
    Turn,
    /// The id of the tool call.
    UseId,
}

impl Envelope {
    /// Returns a value, if it is known.
    pub(super) fn part(&self, part: Part) -> Option<Json> {
        let tool = self.tool.as_ref();
        let input = || tool?.input.clone();
        match part {
            Part::Agent => known(&self.agent),
            Part::Cwd => known(&self.cwd),
            Part::Error => Some(Json::text(&tool?.error)),
            Part::Failed => {
                let tool = tool?;
                Some(json!(tool.success == Some(false) || !tool.error.is_empty()).into())
            }
            Part::Input => input(),
            Part::IsoTime => self.iso_time(),
            Part::Millis => Some(json!(self.timestamp?.as_millisecond()).into()),
            Part::Null => Some(Value::Null.into()),
            Part::ParentSession => known(&self.parent_session),
            Part::QuotedInput => input().map(|input| match input.as_str() {
                text if text.starts_with('"') => input,
                text => Json::text(text),
            }),
            Part::Response => tool?.response.clone(),
            Part::Session => known(&self.session),
            Part::ToolName => known(&tool?.name),
            Part::Turn => Some(json!(self.turn?).into()),
            Part::UseId => known(&tool?.use_id),
        }
    }
}

/// Returns a text as a JSON string, unless it is empty.
pub(super) fn known(text: &str) -> Option<Json> {
    (!text.is_empty()).then(|| Json::text(text))
}
