//! How hooks end: what a contract reads.

use std::time::Duration;

use jiff::Timestamp;

use super::{Bearing, Entry, Skip};

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

impl EndKind {
    /// Returns why an end yields nothing whatever was printed; `None` for exit 0.
    pub(super) const fn failure(self) -> Option<Skip> {
        match self {
            // Both were killed. The contracts' own words know no other name for it; the outcome says who did it and why.
            Self::Canceled | Self::OutputLimit | Self::Signaled(_) => Some(Skip::Signal),
            Self::ExecFailed => Some(Skip::InvalidCommand),
            Self::Exited(0) => None,
            Self::Exited(_) => Some(Skip::NonzeroExit),
            Self::TimedOut => Some(Skip::Timeout),
        }
    }
}

/// The end of a hook: what a contract reads.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// When it ended, for the contract's own event.
    pub at: Option<Timestamp>,
    /// How far confinement bore on it.
    pub bearing: Bearing,
    /// The command, for the contract's own event.
    pub command: &'a str,
    /// How long it took, for the contract's own event.
    pub duration: Option<Duration>,
    /// What its entry says.
    pub entry: Entry,
    /// Why it could not be started, in the system's words; may be empty.
    pub error: &'a str,
    /// How it ended.
    pub kind: EndKind,
    /// The hook's name; may be empty.
    pub name: &'a str,
    /// The lifecycle point.
    pub point: &'a str,
    /// The session; may be empty.
    pub session: &'a str,
    /// What it printed to stderr, up to the cap.
    pub stderr: &'a [u8],
    /// What it printed, up to the cap.
    pub stdout: &'a [u8],
    /// Whether stdout was cut.
    pub stdout_truncated: bool,
    /// The turn, for the contract's own event.
    pub turn: Option<u64>,
}

impl Default for End<'_> {
    /// Returns the end of a hook that printed nothing and exited with 0.
    fn default() -> Self {
        Self {
            at: None,
            bearing: Bearing::Unknown,
            command: "",
            duration: None,
            entry: Entry::default(),
            error: "",
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
