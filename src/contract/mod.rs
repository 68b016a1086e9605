//! How each system's hooks speak: the stdin shape, and what an end means. Pure functions over data.
//!
//! A contract knows neither the kernel nor the wire. What it is given is an [`End`]; what it makes is a [`Verdict`].

use std::time::Duration;

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

/// What the hook decided.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
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
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BlockedBy {
    /// The exit code.
    ExitCode,
    /// The hook could not be started.
    SpawnError,
    /// A signal ended it.
    Signal,
    /// It timed out.
    Timeout,
}

/// A message to deliver. Its text is untrusted data.
#[derive(Clone, Debug, Eq, PartialEq)]
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

/// What an end means.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Verdict {
    /// What blocked, if anything.
    pub blocked_by: Option<BlockedBy>,
    /// The decision.
    pub decision: Decision,
    /// Whether the hook broke, as its contract defines broken.
    pub failed: bool,
    /// The message to deliver.
    pub push: Option<Push>,
    /// Why, in words.
    pub reason: String,
    /// Why nothing is delivered.
    pub skip: Option<Skip>,
    /// Notices that do not block.
    pub warnings: Vec<String>,
}

/// A contract's own event object.
#[derive(Clone, Debug, PartialEq)]
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
