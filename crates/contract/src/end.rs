//! The end of a hook process, as contracts read it.

use std::time::Duration;

use jiff::Timestamp;

use super::{Bearing, Entry, Skip};

/// The way a process ended, as far as the contract may see it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EndKind {
    /// The caller disconnected or canceled.
    Canceled,
    /// The program could not be executed.
    ExecFailed,
    /// The process exited by itself.
    Exited(i32),
    /// An operator killed it.
    Killed,
    /// The profile's output limit ended it.
    OutputLimit,
    /// A signal ended it.
    Signaled(i32),
    /// The deadline ended it.
    TimedOut,
}

impl EndKind {
    /// Returns why an end's output is not read; `None` for exit 0.
    pub(super) const fn failure(self) -> Option<Skip> {
        match self {
            // The hook was killed. Contracts have no other skip reason for that; the outcome has the cause.
            Self::Canceled | Self::Killed | Self::OutputLimit | Self::Signaled(_) => {
                Some(Skip::Signal)
            }
            Self::ExecFailed => Some(Skip::InvalidCommand),
            Self::Exited(0) => None,
            Self::Exited(_) => Some(Skip::NonzeroExit),
            Self::TimedOut => Some(Skip::Timeout),
        }
    }
}

/// The end of a hook, as a contract interprets it.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// The time of the end, for the contract's own event.
    pub at: Option<Timestamp>,
    /// The known effect of confinement on the hook.
    pub bearing: Bearing,
    /// The lines of stderr about files that the hook's user cannot open without confinement either, in lower case.
    pub closed: &'a [String],
    /// The command, for the contract's own event.
    pub command: &'a str,
    /// The run's duration, for the contract's own event.
    pub duration: Option<Duration>,
    /// The fields of its config entry.
    pub entry: Entry,
    /// The system's error text if the hook could not be started; may be empty.
    pub error: &'a str,
    /// The event; may be empty. Quotations of it in a hook's output are no report of its own.
    pub event: &'a [u8],
    /// The way in which it ended.
    pub kind: EndKind,
    /// The hook's name; may be empty.
    pub name: &'a str,
    /// The lifecycle point.
    pub point: &'a str,
    /// The session; may be empty.
    pub session: &'a str,
    /// Its stderr, up to the cap.
    pub stderr: &'a [u8],
    /// Its stdout, up to the cap.
    pub stdout: &'a [u8],
    /// Whether stdout was cut.
    pub stdout_truncated: bool,
    /// The turn, for the contract's own event.
    pub turn: Option<u64>,
}

impl Default for End<'_> {
    /// Returns the end of a hook with empty output and exit code 0.
    fn default() -> Self {
        Self {
            at: None,
            bearing: Bearing::Unknown,
            closed: &[],
            command: "",
            duration: None,
            entry: Entry::default(),
            error: "",
            event: b"",
            kind: EndKind::Exited(0),
            name: "",
            point: "",
            session: "",
            stderr: b"",
            stdout: b"",
            stdout_truncated: false,
            turn: None,
        }
    }
}
