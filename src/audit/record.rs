//! What is written down about a run: plain data, no event bodies, no environment values, no output.

use std::ffi::{OsStr, OsString};

use serde::{Deserialize, Serialize};

use crate::axis::{Axis, Coverage, Demand};

/// One record, without the fields the journal adds.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "record")]
pub enum Record {
    /// A run is over.
    Ended(Box<Ended>),
    /// A run was left open by a writer that died.
    Interrupted(Interrupted),
    /// A run was not started.
    Refused(Box<Refused>),
    /// A run is about to start.
    Started(Box<Started>),
    /// A line was left unfinished and has been cut off.
    Torn(Torn),
}

/// A run that is about to start: written before anything is released.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Started {
    /// The id of this run.
    pub run_id: String,
    /// The caller's id of the request.
    pub request_id: String,
    /// The hook's name; may be empty.
    pub hook: String,
    /// What is run.
    pub command: Command,
    /// The program as resolved.
    pub program: String,
    /// The files whose bytes the consent is bound to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub digests: Vec<FileDigest>,
    /// How it came to be admitted.
    pub consent: Consent,
    /// The contract.
    pub contract: String,
    /// The contract's mode.
    pub mode: String,
    /// The lifecycle point in the contract's spelling.
    pub point: String,
    /// The session; may be empty.
    pub session: String,
    /// Who asked.
    pub peer: Peer,
    /// The profile's name.
    pub profile: String,
    /// SHA-256 of the resolved profile.
    pub profile_digest: String,
    /// The backend.
    pub backend: String,
    /// What the plan demands of each axis, and what the backend does about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<AxisLine>,
    /// The wall time it has, milliseconds.
    pub timeout_ms: u64,
    /// SHA-256 of what is written to stdin.
    pub event_sha256: String,
    /// The number of bytes written to stdin.
    pub event_bytes: u64,
    /// The names of the variables the request sets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<String>,
    /// Where it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
}

/// A run that is over. What was reported of each axis stands in its start record.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Ended {
    /// The id of this run.
    pub run_id: String,
    /// Whether the hook's program was let go at all.
    pub released: bool,
    /// How it ended.
    pub outcome: OutcomeKind,
    /// The exit code, if it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal, if one ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// What it wrote to stdout.
    pub stdout: Stream,
    /// What it wrote to stderr.
    pub stderr: Stream,
    /// What the contract made of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<VerdictLine>,
    /// Whether confinement was confirmed on every required axis.
    pub confirmed: bool,
    /// What the confirmation rests on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// What it took.
    pub usage: Usage,
}

/// A run that was not started, and why.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Refused {
    /// The id of the run, if the refusal came late enough for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The caller's id of the request.
    pub request_id: String,
    /// The stable reason, as the caller got it.
    pub reason: String,
    /// What was wrong.
    pub message: String,
    /// The hook's name; may be empty.
    pub hook: String,
    /// What would have been run, if that was understood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Command>,
    /// Who asked.
    pub peer: Peer,
    /// The profile, if one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

/// A run that a writer left open when it died: whether and how it ended is not known.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Interrupted {
    /// The id of the run.
    pub run_id: String,
    /// The instance that died.
    pub started_by: String,
    /// The sequence of its `started` record.
    pub started_sequence: u64,
}

/// A line that a writer left unfinished.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Torn {
    /// How many bytes were cut off.
    pub bytes: u64,
    /// How they began.
    pub text: String,
}

/// Program and arguments as text.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Command {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Whether some of it was not UTF-8 and is shown with replacement characters.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lossy: bool,
}

impl Command {
    /// Renders program and arguments.
    pub fn new(argv: &[OsString]) -> Self {
        Self {
            argv: argv
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            lossy: argv
                .iter()
                .map(OsString::as_os_str)
                .any(|word| OsStr::to_str(word).is_none()),
        }
    }
}

/// A file whose bytes a consent is bound to.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct FileDigest {
    /// Its path.
    pub path: String,
    /// What it is to the command.
    pub role: String,
    /// SHA-256 of its content.
    pub sha256: String,
}

/// Who asked.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Peer {
    /// Its process id, where the socket told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Its user id.
    pub uid: u32,
}

/// How a run came to be admitted.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Consent {
    /// It was on the allowlist.
    Allowlist,
    /// The operator's environment accepts every hook; it was put on the allowlist.
    Environment,
    /// A listener said always; it was put on the allowlist.
    ListenerAlways,
    /// A listener said yes, for this once.
    ListenerOnce,
    /// The operator typed the command.
    Typed,
}

/// One axis: what is demanded of it and what is done about it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct AxisLine {
    /// The axis.
    pub axis: Axis,
    /// Whether the profile requires it.
    pub required: bool,
    /// What the backend does about it.
    #[serde(flatten)]
    pub coverage: CoverageLine,
}

impl AxisLine {
    /// Notes one axis.
    pub fn new(axis: Axis, demand: Demand, coverage: &Coverage) -> Self {
        let coverage = match *coverage {
            Coverage::Degraded { by, gap } => CoverageLine::Degraded {
                by: by.to_owned(),
                gap: gap.to_owned(),
            },
            Coverage::Enforced { by } => CoverageLine::Enforced { by: by.to_owned() },
            Coverage::Ignored => CoverageLine::Ignored,
        };
        Self {
            axis,
            required: demand == Demand::Required,
            coverage,
        }
    }
}

/// [`Coverage`] as it is written down.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "coverage")]
pub enum CoverageLine {
    /// The axis holds but for `gap`.
    Degraded {
        /// What enforces it as far as it goes.
        by: String,
        /// What is missing.
        gap: String,
    },
    /// The axis holds as the profile says.
    Enforced {
        /// What enforces it.
        by: String,
    },
    /// The backend does nothing about it.
    Ignored,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is the outcome of its name in the reply")]
pub enum OutcomeKind {
    Canceled,
    EscapeAttempt,
    ExecFailed,
    Exited,
    OutOfMemory,
    OutputLimit,
    PidsExhausted,
    Signaled,
    TimedOut,
}

/// What a hook wrote to one stream: never the bytes themselves.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Stream {
    /// SHA-256 of what was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// How many bytes were written.
    pub total_bytes: u64,
    /// Whether not all of them were kept.
    pub truncated: bool,
}

/// What the contract made of a run.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct VerdictLine {
    /// What blocked, if something did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<String>,
    /// The decision.
    pub decision: String,
    /// Whether the contract counts this as a failure of the hook.
    pub failed: bool,
    /// Why nothing was made of the output, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_reason: Option<String>,
}

/// What a run took.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Usage {
    /// Waiting for its turn, microseconds.
    pub queue_us: u64,
    /// Being prepared, microseconds.
    pub setup_us: u64,
    /// From release to end, microseconds.
    pub run_us: u64,
    /// From arrival to end, microseconds.
    pub wall_us: u64,
    /// Processor time in user mode, microseconds.
    pub user_us: u64,
    /// Processor time in the kernel, microseconds.
    pub system_us: u64,
    /// The largest resident set, bytes.
    pub max_rss_bytes: u64,
}
