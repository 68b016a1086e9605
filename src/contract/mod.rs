//! How each system's hooks speak: the stdin shape, and what an end means. Pure functions over data.
//!
//! A contract knows neither the kernel nor the wire. What it is given is an [`End`]; what it makes is a [`Verdict`].

use std::{ffi::OsString, fmt, time::Duration};

use bytes::Bytes;
use serde::{Serialize, Serializer};

use crate::request::{Event, InvalidField, OnFailure};

mod observe;
mod reyn;

/// Says whether a lifecycle point ends something, so that a hook there should outlive a client that goes away.
pub fn ends_something(point: &str) -> bool {
    matches!(point, "session.end" | "session_end" | "turn_end")
}

/// Applies a failure policy that is stricter than the contract's: under [`OnFailure::Closed`], a hook that broke without
/// having decided anything blocks.
pub fn tighten(verdict: Verdict, on_failure: OnFailure) -> Verdict {
    if on_failure == OnFailure::Contract || !verdict.failed || verdict.decision != Decision::None {
        return verdict;
    }
    // A contract whose failure is not in the skip reason failed on what the hook said.
    let blocked_by = verdict
        .skip
        .and_then(Skip::blocked_by)
        .unwrap_or(BlockedBy::InvalidOutput);
    let why = verdict
        .skip
        .map_or_else(String::new, |skip| format!(": {skip}"));
    let reason = if verdict.reason.is_empty() {
        format!("the hook failed{why}")
    } else {
        verdict.reason
    };
    Verdict {
        blocked_by: Some(blocked_by),
        decision: Decision::Block,
        reason,
        ..verdict
    }
}

/// A contract together with the mode it is used in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// No rules: the event verbatim, the decision always NONE, anything but exit 0 has failed.
    Observe,
    /// reyn `shell_exec` (also `exec`): run for its side effect, the output is never read.
    ReynExec,
    /// reyn `shell_push` (also `exec_capture`): stdout is a push directive.
    ReynPush,
}

impl Mode {
    /// Parses a contract's name and the name of one of its modes.
    ///
    /// An `observe` hook has no modes but `command`, which may be left out. A reyn entry has exactly one scheme, so its mode
    /// has no default; the scheme names of later releases mean the same.
    pub fn parse(contract: &str, mode: &str) -> Result<Self, ParseModeError> {
        match (contract, mode) {
            ("observe", "" | "command") => Ok(Self::Observe),
            ("observe", _) => {
                Err(InvalidField::new("mode", "must be empty or `command` under `observe`").into())
            }
            ("reyn", "exec" | "shell_exec") => Ok(Self::ReynExec),
            ("reyn", "exec_capture" | "shell_push") => Ok(Self::ReynPush),
            ("reyn", _) => Err(InvalidField::new(
                "mode",
                "must be the reyn entry's scheme, `shell_exec` or `shell_push`",
            )
            .into()),
            (other, _) => Err(match UNSERVED.into_iter().find(|name| *name == other) {
                Some(contract) => ParseModeError::Unserved { contract },
                None => InvalidField::new("contract", "must be `observe` or `reyn`").into(),
            }),
        }
    }

    /// Returns the contract's name.
    pub const fn contract_name(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::ReynExec | Self::ReynPush => "reyn",
        }
    }

    /// Returns the mode's name in the generation of the contract that is followed; empty if the contract has no modes.
    pub const fn mode_name(self) -> &'static str {
        match self {
            Self::Observe => "",
            Self::ReynExec => "shell_exec",
            Self::ReynPush => "shell_push",
        }
    }

    /// Returns which rules are followed.
    pub const fn version(self) -> &'static str {
        match self {
            Self::Observe => observe::VERSION,
            Self::ReynExec | Self::ReynPush => reyn::VERSION,
        }
    }

    /// Returns what holds where the request is silent.
    pub const fn defaults(self) -> Defaults {
        let timeout = match self {
            Self::Observe => None,
            Self::ReynExec | Self::ReynPush => Some(Duration::from_secs(reyn::TIMEOUT_SECONDS)),
        };
        Defaults {
            command: CommandStyle::Argv,
            profile: "strict",
            timeout,
        }
    }

    /// Returns the bytes a hook reads on stdin.
    pub fn stdin(self, event: &Event) -> Result<Bytes, InvalidField> {
        match self {
            Self::ReynExec | Self::ReynPush if !event.raw => reyn::stdin(event),
            Self::Observe | Self::ReynExec | Self::ReynPush => Ok(event.json.clone()),
        }
    }

    /// Splits a command line into program and arguments. No shell is involved: redirections, globs and variables are words
    /// like any other.
    pub fn split(self, text: &str) -> Result<Vec<OsString>, InvalidField> {
        match self {
            Self::Observe | Self::ReynExec | Self::ReynPush => reyn::split(text),
        }
    }

    /// Says what an end means.
    pub fn interpret(self, end: &End<'_>) -> Verdict {
        match self {
            Self::Observe => observe::interpret(end.kind),
            Self::ReynExec => reyn::interpret_exec(end.kind),
            Self::ReynPush => reyn::interpret_push(end),
        }
    }

    /// Returns the contract's own event of a run, if it has one and something ran.
    pub fn event(self, end: &End<'_>) -> Option<ContractEvent> {
        match self {
            Self::Observe => None,
            Self::ReynExec | Self::ReynPush => reyn::event(self.mode_name(), end),
        }
    }
}

/// Contracts known by name that have no module yet.
const UNSERVED: [&str; 9] = [
    "basecoat",
    "claude_code",
    "codex",
    "copilot",
    "cursor",
    "docker_agent",
    "gemini_cli",
    "infer",
    "loom",
];

/// A contract and mode cannot be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ParseModeError {
    /// There is no such contract or mode.
    #[error(transparent)]
    Invalid(#[from] InvalidField),
    /// The contract is known but not served.
    #[error("the contract `{contract}` is not served yet; `observe` and `reyn` are")]
    Unserved {
        /// Its name.
        contract: &'static str,
    },
}

/// How a contract has its command run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CommandStyle {
    /// Program and arguments; a string is split into POSIX shell words, and no shell ever runs.
    Argv,
}

/// How the process ended, as the contract may see it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EndKind {
    /// The caller went away or canceled.
    Canceled,
    /// It could not be executed.
    ExecFailed,
    /// It exited by itself.
    Exited(i32),
    /// The profile's output limit ended it.
    OutputLimit,
    /// A signal ended it.
    Signaled(i32),
    /// The deadline ended it.
    TimedOut,
}

/// The end of a hook: what a contract reads.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// The command, for the contract's own event.
    pub command: &'a str,
    /// How it ended.
    pub kind: EndKind,
    /// The hook's name; may be empty.
    pub name: &'a str,
    /// The lifecycle point.
    pub point: &'a str,
    /// What it printed, up to the cap.
    pub stdout: &'a [u8],
    /// Whether stdout was cut.
    pub stdout_truncated: bool,
    /// What it printed to stderr, up to the cap.
    pub stderr: &'a [u8],
}

/// Returns why an end yields nothing whatever was printed; `None` for exit 0.
const fn failure_of(kind: EndKind) -> Option<Skip> {
    match kind {
        // Both were killed. The contracts' own words know no other name for it; the outcome says who did it and why.
        EndKind::Canceled | EndKind::OutputLimit | EndKind::Signaled(_) => Some(Skip::Signal),
        EndKind::ExecFailed => Some(Skip::InvalidCommand),
        EndKind::Exited(0) => None,
        EndKind::Exited(_) => Some(Skip::NonzeroExit),
        EndKind::TimedOut => Some(Skip::Timeout),
    }
}

/// What the hook decided.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Decision {
    /// Go on.
    Allow,
    /// A human must be asked.
    Ask,
    /// An operation other than a tool call is stopped.
    Block,
    /// A tool call or permission is refused.
    Deny,
    /// Nothing that decides.
    #[default]
    None,
}

/// What made a verdict block or deny.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum BlockedBy {
    /// The exit code.
    ExitCode,
    /// What the hook printed was not valid.
    InvalidOutput,
    /// The hook could not be started.
    SpawnError,
    /// A signal ended it.
    Signal,
    /// It timed out.
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
}

impl BlockedBy {
    /// Returns its name as records spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ExitCode => "EXIT_CODE",
            Self::InvalidOutput => "INVALID_OUTPUT",
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
    /// Opens a turn now, or rides with the next.
    pub wake: bool,
}

/// Why nothing is delivered. The strings are API: never rename one.
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
    /// A field has the wrong type.
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
}

impl Skip {
    /// Returns the API's name, for example `missing_field:wake`.
    pub fn as_string(&self) -> String {
        self.to_string()
    }

    /// Returns what a closed failure policy says blocked; `None` if the hook did not break.
    const fn blocked_by(self) -> Option<BlockedBy> {
        match self {
            Self::EmptyMessage
            | Self::EmptyStdout
            | Self::InvalidJson
            | Self::MissingField(_)
            | Self::NotObject
            | Self::WrongType(_) => Some(BlockedBy::InvalidOutput),
            Self::InvalidCommand => Some(BlockedBy::SpawnError),
            Self::NonzeroExit => Some(BlockedBy::ExitCode),
            Self::OutputIgnored | Self::PushWhenFalse => None,
            Self::Signal => Some(BlockedBy::Signal),
            Self::Timeout => Some(BlockedBy::Timeout),
        }
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyMessage => f.write_str("empty_message"),
            Self::EmptyStdout => f.write_str("empty_stdout"),
            Self::InvalidCommand => f.write_str("invalid_command"),
            Self::InvalidJson => f.write_str("invalid_json"),
            Self::MissingField(field) => write!(f, "missing_field:{field}"),
            Self::NonzeroExit => f.write_str("nonzero_exit"),
            Self::NotObject => f.write_str("not_object"),
            Self::OutputIgnored => f.write_str("output_ignored"),
            Self::PushWhenFalse => f.write_str("push_when_false"),
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

/// What an end means. As JSON, what is absent or empty is left out, except `decision` and `failed`.
#[must_use]
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// What blocked, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<BlockedBy>,
    /// The decision.
    pub decision: Decision,
    /// Whether the hook broke, as its contract defines broken.
    pub failed: bool,
    /// The message to deliver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push: Option<Push>,
    /// Why, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why nothing is delivered.
    #[serde(rename = "skipReason", skip_serializing_if = "Option::is_none")]
    pub skip: Option<Skip>,
    /// Notices that do not block.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Verdict {
    /// Makes the verdict of a hook that has nothing to deliver and decides nothing.
    fn skipped(skip: Skip) -> Self {
        Self {
            failed: skip.blocked_by().is_some(),
            skip: Some(skip),
            ..Self::default()
        }
    }
}

/// A contract's own event object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ContractEvent {
    /// The whole object.
    pub json: serde_json::Value,
    /// Its name.
    pub name: &'static str,
}

/// What a contract says where the request is silent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Defaults {
    /// How the command is run.
    pub command: CommandStyle,
    /// The profile.
    pub profile: &'static str,
    /// The wall time; `None` leaves it to the profile.
    pub timeout: Option<Duration>,
}

#[cfg(test)]
mod tests;
