//! Process ends reported by another runner.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::{Map, Value};

use hookjail_base::model::InvalidField;

use super::{End, EndKind, Entry, Equality};

/// A process end as another runner reports it.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Line")]
pub struct ExternalEnd {
    /// The command, for the contract's own event.
    pub command: String,
    /// The hook's entry, in the contract's own spelling.
    pub config: Map<String, Value>,
    /// The run's duration.
    pub duration: Option<Duration>,
    /// The error if it could not be started; may be empty.
    pub error: String,
    /// The way in which it ended.
    pub kind: EndKind,
    /// The hook's name; may be empty.
    pub name: String,
    /// Its stderr.
    pub stderr: Vec<u8>,
    /// Its stdout.
    pub stdout: Vec<u8>,
    /// Whether stdout was cut.
    pub stdout_truncated: bool,
    /// The turn.
    pub turn: Option<u64>,
}

impl ExternalEnd {
    pub(super) fn end_at<'a>(&'a self, point: &'a str, entry: Entry) -> End<'a> {
        End {
            command: &self.command,
            duration: self.duration,
            entry,
            error: &self.error,
            kind: self.kind,
            name: &self.name,
            point,
            stderr: &self.stderr,
            stdout: &self.stdout,
            stdout_truncated: self.stdout_truncated,
            turn: self.turn,
            // Another runner ran the hook: its confinement is not known.
            ..End::default()
        }
    }

    /// Returns whether two ends have entries that their contract runs only once.
    pub(super) fn is_same_hook(&self, other: &Self, equality: Equality) -> bool {
        const TIMES: [&str; 2] = ["timeout", "timeoutMs"];

        let counts = match equality {
            Equality::ButForTime => |name: &str| !TIMES.contains(&name),
            Equality::Never => return false,
            Equality::Whole => |_: &str| true,
        };
        // An empty list or object counts as absent.
        let is_empty = |value: &Value| match (value.as_array(), value.as_object()) {
            (Some(all), _) => all.is_empty(),
            (_, Some(all)) => all.is_empty(),
            (None, None) => value.is_null(),
        };
        let fields = |all: &Map<String, Value>| -> Vec<_> {
            let all = all
                .iter()
                .filter(|(name, value)| counts(name) && !is_empty(value));
            all.map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        };
        let is_named = !self.name.is_empty() || !self.command.is_empty();
        is_named
            && self.name == other.name
            && self.command == other.command
            && fields(&self.config) == fields(&other.config)
    }
}

/// The reported kind of an end. Exactly one field must be set.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReportedKind<'a> {
    /// The exit code, if it exited.
    pub exit_code: Option<i32>,
    /// A signal ended it.
    pub signal: Option<i32>,
    /// The error, if it could not be started.
    pub spawn_error: Option<&'a str>,
    /// The runner's timer ended it.
    pub timed_out: bool,
}

impl ReportedKind<'_> {
    /// Returns the way in which it ended.
    ///
    /// # Errors
    ///
    /// Refuses a report with no field, or with contradictory ones. A timeout may be reported beside the exit code or
    /// signal that the runner's timer led to.
    pub fn kind(&self) -> Result<EndKind, InvalidField> {
        let invalid = |problem| Err(InvalidField::new("ends", problem));
        match (
            self.timed_out,
            self.spawn_error,
            self.exit_code,
            self.signal,
        ) {
            (true, None, _, _) => Ok(EndKind::TimedOut),
            (false, Some(_), None, None) => Ok(EndKind::ExecFailed),
            (false, None, Some(code), None) => Ok(EndKind::Exited(code)),
            (false, None, None, Some(signal)) if signal > 0 => Ok(EndKind::Signaled(signal)),
            (false, None, None, Some(_)) => invalid("has a `signal` that is none"),
            (false, None, None, None) => {
                invalid("needs one of `exit_code`, `signal`, `timed_out` and `spawn_error`")
            }
            _ => {
                invalid("may have only one of `exit_code`, `signal`, `timed_out` and `spawn_error`")
            }
        }
    }
}

/// JSON form of an end.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(default)]
    name: String,
    exit_code: Option<i32>,
    signal: Option<i32>,
    #[serde(default)]
    timed_out: bool,
    spawn_error: Option<String>,
    stdout: Option<String>,
    stdout_b64: Option<String>,
    #[serde(default)]
    stdout_truncated: bool,
    #[serde(default)]
    stderr: String,
    #[serde(default)]
    command: String,
    turn: Option<u64>,
    duration_ms: Option<u64>,
    #[serde(default)]
    config: Map<String, Value>,
}

impl TryFrom<Line> for ExternalEnd {
    type Error = String;

    fn try_from(line: Line) -> Result<Self, String> {
        let reported = ReportedKind {
            exit_code: line.exit_code,
            signal: line.signal,
            spawn_error: line.spawn_error.as_deref(),
            timed_out: line.timed_out,
        };
        let kind = reported.kind().map_err(|error| error.to_string())?;
        let stdout = match (line.stdout, line.stdout_b64) {
            (Some(_), Some(_)) => {
                return Err("an end has both `stdout` and `stdout_b64`".to_owned());
            }
            (Some(text), None) => text.into_bytes(),
            (None, Some(coded)) => {
                let decoded = STANDARD.decode(coded);
                decoded.map_err(|error| format!("`stdout_b64` is no base64: {error}"))?
            }
            (None, None) => Vec::new(),
        };
        Ok(Self {
            command: line.command,
            config: line.config,
            duration: line.duration_ms.map(Duration::from_millis),
            error: line.spawn_error.unwrap_or_default(),
            kind,
            name: line.name,
            stderr: line.stderr.into_bytes(),
            stdout,
            stdout_truncated: line.stdout_truncated,
            turn: line.turn,
        })
    }
}
