//! A hook as requested.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    path::PathBuf,
};

/// The command of a hook.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Command {
    /// Program and arguments, at least one, none with a NUL byte.
    Argv(Vec<OsString>),
    /// A command line; the contract decides whether a shell runs or words are split.
    Line {
        /// The absolute path of the shell, if the caller names one.
        shell: Option<PathBuf>,
        /// The text, not blank, without a NUL byte.
        text: String,
    },
}

/// The treatment of a run whose client is gone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OnDisconnect {
    /// The run continues to its end or deadline.
    Finish,
    /// The whole tree is killed.
    Kill,
}

/// The treatment of a hook's failure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OnFailure {
    /// A failure denies or blocks.
    Closed,
    /// The contract's rule.
    Contract,
    /// A failure stops nothing, except a tool call or permission. Only the operator can configure this.
    Open,
}

/// A request's restrictions of its profile.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Narrow {
    /// Replaces the hosts; rules of `egress` as a profile spells them, inside the profile's.
    pub egress: Vec<String>,
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
    /// Whether it starts in a bound and granted workspace, regardless of its profile's default.
    pub at_workspace: bool,
    /// The base of relative paths in its command; absolute. `None` = its working directory.
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
    /// The umask that its caller asks for: at most 0777.
    pub umask: Option<u32>,
    /// Its working directory; absolute.
    pub working_dir: Option<PathBuf>,
    /// Binds `${workspace}`; absolute.
    pub workspace: Option<PathBuf>,
}

impl Hook {
    /// Returns its workspace as text.
    pub fn workspace_text(&self) -> Option<String> {
        let workspace = self.workspace.as_ref();
        workspace.map(|path| path.display().to_string())
    }

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

/// The event on stdin.
#[derive(Clone, Debug)]
pub struct Event {
    /// The event's JSON text, checked for depth, duplicate keys and encoding.
    pub json: bytes::Bytes,
    /// The lifecycle point in the contract's spelling.
    pub point: String,
    /// Whether `json` goes to stdin byte for byte.
    pub raw: bool,
}

/// The backing of a command besides a consent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Backing {
    /// A runtime's list of commands, which the operator lets count as consent.
    List,
    /// Nothing.
    None,
    /// hookjail itself supplies the words of the command.
    Own,
    /// The administrator's files require the hook.
    Required,
}
