//! Verdicts: the vocabulary for process ends that all contracts share.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use hookjail_base::{model::json, redact::Redactor};

use super::members::{Fault, Members};

/// A hook's decision.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Decision {
    /// Go on.
    Allow,
    /// A human decides.
    Ask,
    /// An operation other than a tool call is stopped.
    Block,
    /// A tool call or permission is refused.
    Deny,
    /// No decision.
    #[default]
    None,
}

/// The cause of a block or deny.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum BlockedBy {
    /// `continue: false` on stdout.
    ContinueFalse,
    /// The contract's field for decisions on stdout.
    Decision,
    /// The exit code.
    ExitCode,
    /// The output was not valid.
    InvalidOutput,
    /// A permission decision on stdout.
    PermissionDecision,
    /// A signal ended it.
    Signal,
    /// The hook could not be started.
    SpawnError,
    /// The deadline ended it.
    Timeout,
}

impl Decision {
    /// Returns its name as records spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "ALLOW",
            Self::Ask => "ASK",
            Self::Block => "BLOCK",
            Self::Deny => "DENY",
            Self::None => "NONE",
        }
    }

    /// Returns whether it stops the operation, or leaves that to the user.
    pub const fn restrains(self) -> bool {
        matches!(self, Self::Ask) || self.stops()
    }

    /// Returns whether it stops the operation.
    pub const fn stops(self) -> bool {
        matches!(self, Self::Block | Self::Deny)
    }
}

impl BlockedBy {
    /// Returns its name as records spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ContinueFalse => "CONTINUE_FALSE",
            Self::Decision => "DECISION",
            Self::ExitCode => "EXIT_CODE",
            Self::InvalidOutput => "INVALID_OUTPUT",
            Self::PermissionDecision => "PERMISSION_DECISION",
            Self::Signal => "SIGNAL",
            Self::SpawnError => "SPAWN_ERROR",
            Self::Timeout => "TIMEOUT",
        }
    }
}

/// A message to deliver. Its text is untrusted data.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Push {
    /// The text, verbatim.
    pub message: String,
    /// The hook's name, else the point.
    pub name: String,
    /// The session it is meant for; empty = the caller's own.
    pub session: String,
    /// Whether the push opens a turn now, instead of going with the next one.
    pub wake: bool,
}

/// The reason why nothing is delivered. The strings are API: never rename one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Skip {
    /// stdout was empty or blank.
    EmptyStdout,
    /// stdout was not one JSON document.
    InvalidJson,
    /// stdout was JSON but not an object.
    NotObject,
    /// A required field is missing.
    MissingField(&'static str),
    /// A field has the wrong type, or a value that the contract does not define.
    WrongType(&'static str),
    /// The message is blank.
    EmptyMessage,
    /// `push_when` is false.
    PushWhenFalse,
    /// The exit code was not 0.
    NonzeroExit,
    /// The deadline ended the hook.
    Timeout,
    /// A signal ended the hook.
    Signal,
    /// The mode never reads output.
    OutputIgnored,
    /// The command could not be executed.
    InvalidCommand,
    /// No consent was given to the command.
    ConsentRefused,
    /// The command is not on the contract's list.
    NotAllowlisted,
    /// Confinement of the hook is not confirmed.
    BackendUnconfirmed,
    /// A refusal or fault of hookjail, for a reason that has no name here.
    Refused,
}

impl Skip {
    /// Returns the API's name, for example `missing_field:wake`.
    pub fn as_string(&self) -> String {
        self.to_string()
    }

    /// Returns the cause of a block under a closed failure policy. `None` if the hook did not fail.
    pub(super) const fn blocked_by(self) -> Option<BlockedBy> {
        match self {
            Self::EmptyMessage
            | Self::EmptyStdout
            | Self::InvalidJson
            | Self::MissingField(_)
            | Self::NotObject
            | Self::WrongType(_) => Some(BlockedBy::InvalidOutput),
            Self::BackendUnconfirmed
            | Self::ConsentRefused
            | Self::InvalidCommand
            | Self::NotAllowlisted
            | Self::Refused => Some(BlockedBy::SpawnError),
            Self::NonzeroExit => Some(BlockedBy::ExitCode),
            Self::OutputIgnored | Self::PushWhenFalse => None,
            Self::Signal => Some(BlockedBy::Signal),
            Self::Timeout => Some(BlockedBy::Timeout),
        }
    }
}

impl From<Fault> for Skip {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::NotJson | Fault::TooDeep => Self::InvalidJson,
            Fault::NotObject => Self::NotObject,
        }
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BackendUnconfirmed => f.write_str("backend_unconfirmed"),
            Self::ConsentRefused => f.write_str("consent_refused"),
            Self::EmptyMessage => f.write_str("empty_message"),
            Self::EmptyStdout => f.write_str("empty_stdout"),
            Self::InvalidCommand => f.write_str("invalid_command"),
            Self::InvalidJson => f.write_str("invalid_json"),
            Self::MissingField(field) => write!(f, "missing_field:{field}"),
            Self::NonzeroExit => f.write_str("nonzero_exit"),
            Self::NotAllowlisted => f.write_str("not_allowlisted"),
            Self::NotObject => f.write_str("not_object"),
            Self::OutputIgnored => f.write_str("output_ignored"),
            Self::PushWhenFalse => f.write_str("push_when_false"),
            Self::Refused => f.write_str("refused"),
            Self::Signal => f.write_str("signal"),
            Self::Timeout => f.write_str("timeout"),
            Self::WrongType(field) => write!(f, "wrong_type:{field}"),
        }
    }
}

impl Serialize for Skip {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A JSON value, passed on verbatim except for white space. At most 128 levels deep.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Wraps a value of a document whose depth has been checked.
    pub fn from_raw(value: &RawValue) -> Self {
        let mut text = String::with_capacity(value.get().len());
        json::compact_into(value.get(), &mut text);
        // Removing white space keeps a document valid.
        Self(RawValue::from_string(text).unwrap_or_else(|_| value.to_owned()))
    }

    /// Builds an object of members with unique names.
    pub fn object(members: &[(String, Self)]) -> Self {
        let member = |(key, value): &(String, Self)| {
            format!(
                "{}:{}",
                serde_json::Value::from(key.as_str()),
                value.as_str()
            )
        };
        let members: Vec<_> = members.iter().map(member).collect();
        let text = format!("{{{}}}", members.join(","));
        Self(RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }

    /// Wraps the text of a document that has been validated, its depth included.
    pub fn checked(text: &str) -> Self {
        let value: Result<&RawValue, _> = serde_json::from_str(text);
        value.map_or_else(|_| Self(RawValue::NULL.to_owned()), Self::from_raw)
    }

    /// Builds a string.
    pub fn text(text: &str) -> Self {
        Self::from(serde_json::Value::from(text))
    }

    /// Returns the members of an object, the last of those with one name. `None` of anything else.
    pub(super) fn members(&self) -> Option<Vec<(String, Self)>> {
        let members = Members::from_value(&self.0)?;
        let mut all: Vec<(String, Self)> = Vec::new();
        for (key, value) in members.iter() {
            all.retain(|(known, _)| *known != key);
            all.push((key.into_owned(), Self::from_raw(value)));
        }
        Some(all)
    }

    /// Returns the value as raw JSON.
    pub(super) fn raw(&self) -> &RawValue {
        &self.0
    }

    /// Returns the value as JSON text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

/// Returns the members that have a value, with owned names.
pub(super) fn present<T, const N: usize>(
    members: [(&str, Option<T>); N],
) -> impl Iterator<Item = (String, T)> {
    let members = members.into_iter();
    members.filter_map(|(name, value)| Some((name.to_owned(), value?)))
}

/// Converts values that hold no number beyond those of Rust.
impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        let text = value.to_string();
        Self(RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

/// The meaning of an end. Its JSON omits empty members, except `decision` and `failed`.
#[must_use]
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// Texts for the model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub additional_context: Vec<String>,
    /// The cause of a block or deny, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<BlockedBy>,
    /// The decision.
    pub decision: Decision,
    /// Whether the hook failed, as its contract defines failure.
    pub failed: bool,
    /// The contract's metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
    /// Output for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Base Coat's ordering value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    /// The message to deliver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push: Option<Push>,
    /// The reason, as text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The point cannot be stopped: the block is only recorded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub recorded_block: bool,
    /// The reason why nothing is delivered.
    #[serde(rename = "skipReason", skip_serializing_if = "Option::is_none")]
    pub skip: Option<Skip>,
    /// The text that goes with a stop of the whole run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stop_reason: String,
    /// A replacement for the compaction's summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Whether stdout is to be kept out of the transcript.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub suppress_output: bool,
    /// A text for the user.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub system_message: String,
    /// Rewritten tool input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_input: Option<Json>,
    /// Rewritten model messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_messages: Option<Json>,
    /// Rewritten tool output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_output: Option<Json>,
    /// Notices that do not block.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Verdict {
    /// Returns a verdict that decides nothing, with one warning.
    pub fn warning(text: String) -> Self {
        Self {
            warnings: vec![text],
            ..Self::default()
        }
    }

    /// Builds the verdict of a hook without delivery and decision.
    pub(super) fn skipped(skip: Skip) -> Self {
        Self {
            failed: skip.blocked_by().is_some(),
            skip: Some(skip),
            ..Self::default()
        }
    }

    /// Builds the verdict of a hook that stops the operation.
    pub fn stopped(decision: Decision, blocked_by: BlockedBy, reason: impl Into<String>) -> Self {
        Self {
            blocked_by: Some(blocked_by),
            decision,
            reason: reason.into(),
            ..Self::default()
        }
    }

    /// Keeps texts and removes decisions and rewrites.
    pub fn advised(self) -> Self {
        let mut warnings = self.warnings;
        let passes = self.decision == Decision::Allow && self.reason.is_empty();
        if !passes && self.decision != Decision::None || self.recorded_block {
            let decision = self.decision.as_str();
            let reasons = [self.reason, self.stop_reason];
            let reasons = reasons.iter().filter(|text| !text.is_empty());
            let why: String = reasons.map(|text| format!(": {text}")).collect();
            warnings.push(format!(
                "the hook is advisory, and its decision is {decision}{why}"
            ));
        }
        Self {
            additional_context: self.additional_context,
            failed: self.failed,
            metadata: self.metadata,
            output: self.output,
            priority: self.priority,
            push: self.push,
            skip: self.skip,
            suppress_output: self.suppress_output,
            system_message: self.system_message,
            warnings,
            ..Self::default()
        }
    }

    /// Redacts registered secrets in every text.
    pub fn redact(&mut self, redactor: &Redactor) {
        // Destructured in full, so that a new field does not compile without a decision here.
        let Self {
            additional_context,
            blocked_by: _,
            decision: _,
            failed: _,
            metadata,
            output,
            priority: _,
            push,
            reason,
            recorded_block: _,
            skip: _,
            stop_reason,
            summary,
            suppress_output: _,
            system_message,
            updated_input,
            updated_messages,
            updated_output,
            warnings,
        } = self;
        let lists = additional_context.iter_mut().chain(warnings);
        let maybe = output.iter_mut().chain(summary);
        let push = push
            .iter_mut()
            .flat_map(|push| [&mut push.message, &mut push.name, &mut push.session]);
        let texts = [reason, stop_reason, system_message];
        for text in texts.into_iter().chain(lists).chain(maybe).chain(push) {
            redactor.clean(text);
        }
        let values = [metadata, updated_input, updated_messages, updated_output];
        for value in values.into_iter().flatten() {
            if let Some(clean) = redactor.json(value.as_str()) {
                *value = Json::checked(&clean);
            }
        }
    }

    /// Counts the bytes of its texts.
    pub fn text_bytes(&self) -> usize {
        let texts = [&self.reason, &self.stop_reason, &self.system_message];
        let maybe = [&self.output, &self.summary];
        let values = [
            &self.metadata,
            &self.updated_input,
            &self.updated_messages,
            &self.updated_output,
        ];
        let lists = [&self.additional_context, &self.warnings];
        let push = self.push.as_ref();
        texts.iter().map(|text| text.len()).sum::<usize>()
            + maybe.into_iter().flatten().map(String::len).sum::<usize>()
            + values
                .into_iter()
                .flatten()
                .map(|value| value.as_str().len())
                .sum::<usize>()
            + lists.into_iter().flatten().map(String::len).sum::<usize>()
            + push.map_or(0, |push| {
                push.message.len() + push.name.len() + push.session.len()
            })
    }
}

/// A contract's own event object.
#[derive(Clone, Debug, PartialEq)]
pub struct ContractEvent {
    /// The whole object.
    pub json: serde_json::Value,
    /// Its name.
    pub name: &'static str,
}

impl ContractEvent {
    /// Returns the contract's display line of the event; `None` where it shows the object.
    pub fn display(&self) -> Option<String> {
        super::display(self.name, self.json.as_object()?)
    }

    /// Returns its members without those that may quote the hook's output.
    pub fn unquoted(&self) -> serde_json::Map<String, serde_json::Value> {
        let mut members = self.json.as_object().cloned().unwrap_or_default();
        members.retain(|key, _| !QUOTING.contains(&key.as_str()));
        members
    }

    /// Redacts registered secrets.
    pub fn redact(&mut self, redactor: &Redactor) {
        if let Some(clean) = redactor.json(&self.json.to_string()) {
            // Redaction keeps a document valid.
            self.json = serde_json::from_str(&clean).unwrap_or_default();
        }
    }
}

impl Serialize for ContractEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let display = self.display().map(|line| ("display", line.into()));
        let others = [("json", self.json.clone()), ("name", self.name.into())];
        serializer.collect_map(display.into_iter().chain(others))
    }
}

/// The members of events that hold output, or errors made of it.
const QUOTING: [&str; 2] = ["error", "output"];
