//! Systems other than Linux: platform items that the rest of confinement uses.
//!
//! Hooks are children of the daemon, and identified by their process group.

pub mod attempts;
mod backend;
mod launcher;
mod start;
pub mod witness;

use std::{
    convert::Infallible,
    io,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::Arc,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use hookjail_base::{
    model::{Peer, axis::Axis},
    refusal::Stop,
};
use hookjail_sys::Identity;

pub use self::backend::Seatbelt;
pub(crate) use self::{
    launcher::{Launcher, Notes},
    start::Until,
};

use crate::{
    Backend, BackendName, Controllers, Noop, OwnUids, Runner, Started, Task,
    rootfs::RootSpec,
    run::{grants::OpenGrant, read_only::Kept},
};

/// Filters of a hook; none on these systems.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum FilterSpec {}

/// The view of a process that waits, which these systems do not have.
#[derive(Debug)]
pub(crate) struct WaitingView(Infallible);

impl WaitingView {
    /// Fails: there are no views on this system.
    ///
    /// # Errors
    ///
    /// Always.
    pub(crate) fn open(_child: i32, _has_own_uid: bool, _grants: &[OpenGrant]) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns whether a mount of the view was added or removed.
    ///
    /// # Errors
    ///
    /// Never.
    pub(crate) const fn has_changed(&self) -> io::Result<bool> {
        match self.0 {}
    }

    /// Keeps paths of a workspace in the view.
    ///
    /// # Errors
    ///
    /// Never.
    pub(crate) const fn keep(
        &self,
        _runner: &Runner,
        _kept: &Kept,
        _grants: &[OpenGrant],
    ) -> io::Result<()> {
        match self.0 {}
    }
}

/// Starts an unconfined child.
///
/// # Errors
///
/// Refuses where the child cannot be started.
pub(crate) async fn start_unconfined(runner: &Runner, task: Task<'_>) -> Result<Started, Stop> {
    launcher::start(runner, false, task).await
}

/// A device that every system has and no shipped profile grants.
pub(crate) const UNGRANTED_DEVICE: &str = "/dev/tty";

/// Whether the network right includes Unix sockets.
///
/// Seatbelt does not distinguish them when it denies the call, and the system's resolver uses one.
pub(crate) const OUTBOUND_HAS_UNIX_SOCKETS: bool = true;

/// Directories that shipped profiles grant and this system does not have.
pub(crate) const LACKING: &[&str] = if cfg!(target_os = "macos") {
    &["/lib"]
} else {
    &[]
};

/// Returns a backend, if this system has it.
pub fn backend(
    name: BackendName,
    _runtime: Option<Runtime>,
    _own_uids: OwnUids,
    _controllers: Option<Controllers>,
) -> Option<Box<dyn Backend>> {
    match name {
        BackendName::NOOP => Some(Box::new(Noop)),
        // Checked at run time, because its launcher is compiled on every system other than Linux.
        BackendName::SEATBELT if cfg!(target_os = "macos") => Some(Box::new(Seatbelt)),
        _ => None,
    }
}

/// An OCI runtime; none on these systems.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Runtime {
    /// Its command-line interface.
    pub kind: RuntimeKind,
    /// Absolute path of its program.
    pub path: PathBuf,
    /// Root file system of its containers.
    pub root: Option<RootSpec>,
}

/// Which command line a runtime understands: of those that make containers of this system, none.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum RuntimeKind {}

impl RuntimeKind {
    /// Returns the runtime's kind by its program's name.
    pub const fn from_program(_program: &Path) -> Option<Self> {
        None
    }
}

/// Returns no scope of process ids. Here nothing distinguishes a process from a later one with its number.
pub(crate) const fn groups_of(_directory: &Path) -> io::Result<String> {
    Ok(String::new())
}

/// Kills no processes of a dead daemon; returns 0.
///
/// # Errors
///
/// Never.
pub(crate) const fn kill_left(_directory: &Path, _groups: &Path) -> io::Result<usize> {
    Ok(0)
}

/// Uids for hooks of a root daemon, which these systems do not have.
#[derive(Clone, Copy, Debug)]
pub struct Identities(Infallible);

impl Identities {
    /// Fails: only Linux shows whether a uid is free, and which of root's rights a process keeps.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn new(_range: RangeInclusive<u32>) -> io::Result<Self> {
        let message = "only on Linux hookjail can be root; run it as an ordinary user";
        Err(io::Error::new(io::ErrorKind::Unsupported, message))
    }

    /// Returns whether a uid is a hook's.
    pub const fn is_hook(&self, _uid: u32) -> bool {
        match self.0 {}
    }

    /// Kills processes under uids of the range that no daemon uses.
    ///
    /// # Errors
    ///
    /// Never.
    pub const fn clear(&self) -> io::Result<()> {
        match self.0 {}
    }

    /// Checks that hooks can run as their callers.
    ///
    /// # Errors
    ///
    /// Never.
    pub const fn suit_callers(&self) -> io::Result<()> {
        match self.0 {}
    }

    /// Leases an unused uid.
    ///
    /// # Errors
    ///
    /// Never.
    pub fn lease(self: &Arc<Self>, _caller: u32) -> io::Result<Option<Lease>> {
        match self.0 {}
    }
}

/// A uid in use by one run; never exists here.
#[derive(Clone, Debug)]
pub struct Lease(Infallible);

impl Lease {
    /// Returns the lease's identity.
    pub const fn identity(&self) -> Identity {
        match self.0 {}
    }

    /// Returns the identity of a hook that runs as its caller.
    pub const fn of_caller(&self, _caller: &Peer) -> Identity {
        match self.0 {}
    }
}

/// Known denials of a run: none, because none of these systems reports them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Known;

impl Known {
    /// Returns whether a denial concerns the hook itself.
    pub const fn is_denied(&self) -> bool {
        false
    }

    /// Returns whether creating a process was denied.
    pub const fn is_denied_a_process(&self) -> bool {
        false
    }

    /// Returns the axes of those that concern the hook itself, each with the number of denials.
    pub fn by_axis(&self) -> impl Iterator<Item = (Option<Axis>, u64)> {
        std::iter::empty()
    }

    /// Returns the names of those that concern the hook itself.
    pub const fn names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the names of the others.
    pub const fn incidental_names(&self) -> Vec<String> {
        Vec::new()
    }
}
