//! Values made at the edge: once one of these exists, it is well-formed.
//!
//! This module parses; it decides nothing and touches neither the file system nor the kernel.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fmt,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// A field of a request is not acceptable. The message completes "error: …".
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{field}` {problem}")]
pub struct InvalidField {
    /// The field's path in the request, for example `hook.argv[0]`.
    pub field: String,
    /// What is wrong with it and, where that helps, what would be right.
    pub problem: String,
}

impl InvalidField {
    /// Names a field and its problem.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }
}

/// Whether a path is absolute and has no component `.` or `..`: anything else could name another file than it seems to.
pub fn is_plain(path: &Path) -> bool {
    let dots = |component: &[u8]| matches!(component, b"." | b"..");
    let mut components = path.as_os_str().as_bytes().split(|byte| *byte == b'/');
    path.is_absolute() && !components.any(dots)
}

/// The name of a profile: 1 to 64 of `a-z 0-9 - _`, starting with a letter.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ProfileName(String);

impl ProfileName {
    /// Parses a profile name.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = text.bytes();
        let starts = bytes.next().is_some_and(|b| b.is_ascii_lowercase());
        let goes_on =
            bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_');
        (starts && goes_on && text.len() <= 64).then(|| Self(text.to_owned()))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the caller wants run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Command {
    /// Program and arguments, at least one, none with a NUL byte.
    Argv(Vec<OsString>),
    /// A command line; the contract says whether a shell runs it or it is split into words.
    Line {
        /// The absolute path of the shell, if the caller names one.
        shell: Option<PathBuf>,
        /// The text, not blank, without a NUL byte.
        text: String,
    },
}

/// What happens to a run whose client is gone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OnDisconnect {
    /// The run goes on to its end or deadline.
    Finish,
    /// The whole tree is killed.
    Kill,
}

/// Whether the contract's failure policy is tightened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OnFailure {
    /// A failure denies or blocks.
    Closed,
    /// As the contract says.
    Contract,
    /// A failure stops nothing, except a tool call or permission; only the operator can say so.
    Open,
}

/// What a request takes away from its profile.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Narrow {
    /// No named read or write grants at all.
    pub without_named_grants: bool,
    /// No network.
    pub without_network: bool,
    /// No new processes.
    pub without_spawn: bool,
    /// A smaller cap on captured output, bytes a stream.
    pub output_bytes: Option<u64>,
    /// Replaces the named read grants; absolute, inside them.
    pub read: Vec<PathBuf>,
    /// Replaces the named write grants; absolute, inside them.
    pub write: Vec<PathBuf>,
}

/// The hook itself.
#[derive(Clone, Debug)]
pub struct Hook {
    /// The command.
    pub command: Command,
    /// Additional environment that the operator configured for it, beyond what its profile lists.
    pub configured_env: BTreeMap<String, OsString>,
    /// Additional environment; names are non-empty, without `=` and NUL, each once.
    pub env: BTreeMap<String, OsString>,
    /// A name for logs and audit; may be empty.
    pub name: String,
    /// Where it starts; absolute.
    pub working_dir: Option<PathBuf>,
    /// Binds `${workspace}`; absolute.
    pub workspace: Option<PathBuf>,
}

impl Hook {
    /// Returns the names of its additional environment, sorted, each once.
    pub fn variables(&self) -> Vec<String> {
        let names = self.env.keys().chain(self.configured_env.keys());
        names
            .cloned()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }
}

/// What is written to stdin.
#[derive(Clone, Debug)]
pub struct Event {
    /// The event as the caller sent it: JSON text, checked for depth, duplicate keys and encoding.
    pub json: bytes::Bytes,
    /// The lifecycle point in the contract's spelling.
    pub point: String,
    /// Whether `json` goes to stdin byte for byte.
    pub raw: bool,
}

/// One hook to run, as asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The contract and its mode.
    pub contract: crate::contract::Mode,
    /// How many hooks led to it.
    pub depth: u32,
    /// What the hook's entry says about how its end is read.
    pub entry: crate::contract::Entry,
    /// What is known around the event.
    pub envelope: crate::contract::Envelope,
    /// The event.
    pub event: Event,
    /// The hook.
    pub hook: Hook,
    /// The caller's id, or one made here.
    pub id: String,
    /// The largest reply the caller takes, bytes.
    pub max_reply_bytes: u64,
    /// What the request takes away from its profile.
    pub narrow: Narrow,
    /// What happens if the client goes away.
    pub on_disconnect: OnDisconnect,
    /// Whether the failure policy is tightened.
    pub on_failure: OnFailure,
    /// The profile, if the caller names one.
    pub profile: Option<ProfileName>,
    /// Whether a run without confirmed confinement is to be refused.
    pub require_confirmed: bool,
    /// Scopes pushes; may be empty.
    pub session: String,
    /// The wall time the caller asks for.
    pub timeout: Option<Duration>,
}
