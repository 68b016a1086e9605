//! A hook as a caller asks for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    path::PathBuf,
};

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
    /// Whether it starts in the workspace where one is bound and granted, even if its profile does not say so.
    pub at_workspace: bool,
    /// Where the paths in its command start that are relative; absolute. `None` = where the hook does.
    pub base: Option<PathBuf>,
    /// The command.
    pub command: Command,
    /// Additional environment that the operator configured for it, beyond what its profile lists.
    pub configured_env: BTreeMap<String, OsString>,
    /// Additional environment; names are non-empty, without `=` and NUL, each once.
    pub env: BTreeMap<String, OsString>,
    /// A name for logs and audit; may be empty.
    pub name: String,
    /// Binds `${source}`; absolute.
    pub source: Option<PathBuf>,
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

/// What stands behind a command beside a consent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Backing {
    /// A runtime's list of commands, which the operator has stand for one.
    List,
    /// Nothing.
    None,
    /// Its words are hookjail's own, and no text of anybody's.
    Own,
}
