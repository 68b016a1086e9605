//! Systems other than Linux: hooks are started as children of the daemon, and found by their process group.

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
use serde::Deserialize;

pub use self::backend::Seatbelt;
pub(in crate::sandbox) use self::{
    launcher::{Launcher, Observed},
    start::Until,
};
use crate::{
    refusal::Stop,
    rootfs::RootSpec,
    sandbox::{Backend, BackendName, Noop, Runner, Started, Task},
    sys::Identity,
};

/// The filters of a hook: there are none here.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum FilterSpec {}

/// Starts a child that nothing confines.
///
/// # Errors
///
/// Refuses where it cannot be started.
pub(in crate::sandbox) async fn start_unconfined(
    runner: &Runner,
    task: Task<'_>,
) -> Result<Started, Stop> {
    launcher::start(runner, false, task).await
}

/// A device that every system has and no shipped profile grants.
pub(in crate::sandbox) const UNGRANTED_DEVICE: &str = "/dev/zero";

/// Whether a hook that has the network can make Unix sockets too: Seatbelt does not tell them apart where it refuses the
/// call, and the system's resolver is asked by one.
pub(in crate::sandbox) const OUTBOUND_HAS_UNIX_SOCKETS: bool = true;

/// Directories that shipped profiles grant and this system does not have.
pub(in crate::sandbox) const LACKING: &[&str] = if cfg!(target_os = "macos") {
    &["/lib"]
} else {
    &[]
};

/// Returns a backend, if this system has it.
pub fn backend(
    name: BackendName,
    _runtime: Option<Runtime>,
    _own_uid: bool,
) -> Option<Box<dyn Backend>> {
    match name {
        BackendName::NOOP => Some(Box::new(Noop)),
        // Its launcher is compiled on every system of this set.
        BackendName::SEATBELT if cfg!(target_os = "macos") => Some(Box::new(Seatbelt)),
        _ => None,
    }
}

/// An OCI runtime of this host: there is none.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Runtime {
    /// The control group below which each container gets its own.
    pub control_group: Option<PathBuf>,
    /// Which command line it understands.
    pub kind: RuntimeKind,
    /// Its program, absolute.
    pub path: PathBuf,
    /// The system that hooks find.
    pub root: Option<RootSpec>,
}

/// Which command line a runtime understands: of those that make containers of this system, none.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
pub enum RuntimeKind {}

impl RuntimeKind {
    /// Returns the kind of the runtime that a program's name stands for.
    pub const fn of(_program: &Path) -> Option<Self> {
        None
    }
}

/// Says nothing of process ids: there is nothing here by which a process could be told from another with its number.
pub(in crate::sandbox) const fn groups_of(_directory: &Path) -> io::Result<String> {
    Ok(String::new())
}

/// Kills nothing of a daemon that is gone, and returns how many processes that were.
///
/// # Errors
///
/// Never.
pub(in crate::sandbox) const fn kill_left(_directory: &Path, _groups: &Path) -> io::Result<usize> {
    Ok(0)
}

/// Uids for hooks of a root daemon: there is no such daemon here.
#[derive(Clone, Copy, Debug)]
pub struct Identities(Infallible);

impl Identities {
    /// Refuses: only Linux tells whether a uid is free, and what a process keeps of root's rights.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn new(_range: RangeInclusive<u32>) -> io::Result<Self> {
        let message = "only on Linux hookjail can be root; run it as an ordinary user";
        Err(io::Error::new(io::ErrorKind::Unsupported, message))
    }

    /// Whether a uid is a hook's.
    pub const fn is_hook(&self, _uid: u32) -> bool {
        match self.0 {}
    }

    /// Ends what runs under uids of the range that no daemon uses.
    ///
    /// # Errors
    ///
    /// Never.
    pub const fn clear(&self) -> io::Result<()> {
        match self.0 {}
    }

    /// Takes a uid that no run uses.
    ///
    /// # Errors
    ///
    /// Never.
    pub fn lease(self: &Arc<Self>, _caller: u32) -> io::Result<Option<Lease>> {
        match self.0 {}
    }
}

/// A uid in use by one run: there is none.
#[derive(Clone, Debug)]
pub struct Lease(Infallible);

impl Lease {
    /// Returns the rights that go with it.
    pub const fn identity(&self) -> Identity {
        match self.0 {}
    }
}

/// What is known of what a run was denied: nothing, because none of these systems tells who denies.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Known {
    /// Whether that is all of it.
    pub whole: bool,
}

impl Known {
    /// Whether there is something in it that a hook wanted.
    pub const fn is_denied(&self) -> bool {
        false
    }

    /// Whether a process of its own is among it.
    pub const fn is_denied_a_process(&self) -> bool {
        false
    }

    /// Returns the names of all that was denied.
    pub const fn names(&self) -> Vec<String> {
        Vec::new()
    }
}
