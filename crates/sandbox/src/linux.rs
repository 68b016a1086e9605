//! Linux: platform items that the rest of confinement uses.

use std::io;

use hookjail_base::refusal::Stop;

pub(crate) use crate::{
    OwnUids,
    launch::Launcher,
    resources::{
        identity::{Identities, Lease},
        left_running::{groups_of, kill_left},
    },
    run::denials::{Known, Notes},
    seccomp::{FilterSpec, Until},
};

use crate::{
    Backend, BackendName, Controllers, Noop, Runner, Started, Task,
    container::{Container, Runtime},
    landlock::{Landlock, mounts::keep_in, start::start},
    mutants,
    run::{grants::OpenGrant, read_only::Kept},
};
use hookjail_sys::Entrance;

/// A device that every system has and no shipped profile grants.
pub(crate) const UNGRANTED_DEVICE: &str = "/dev/tty";

/// Whether the network right includes Unix sockets.
pub(crate) const OUTBOUND_HAS_UNIX_SOCKETS: bool = false;

/// Directories that shipped profiles grant and this system does not have.
pub(crate) const LACKING: &[&str] = &[];

/// The view of a process that waits, which gets the mounts of its run's workspace when the run begins.
#[derive(Debug)]
pub(crate) struct WaitingView(Entrance);

impl WaitingView {
    /// Opens the view of a child that waits.
    ///
    /// # Errors
    ///
    /// Returns the error of opening its namespaces.
    pub(crate) fn open(child: i32, has_own_uid: bool) -> io::Result<Self> {
        Entrance::open(child, !has_own_uid).map(Self)
    }

    /// Returns whether a mount of the view was added or removed since it was opened.
    ///
    /// # Errors
    ///
    /// Returns the error of examining it.
    pub(crate) fn has_changed(&self) -> io::Result<bool> {
        self.0.has_changed()
    }

    /// Keeps paths of a workspace in the view.
    ///
    /// # Errors
    ///
    /// Returns the error of a mount. The process must not begin a run then.
    pub(crate) fn keep(
        &self,
        runner: &Runner,
        kept: &Kept,
        grants: &[OpenGrant],
    ) -> io::Result<()> {
        if mutants::lacks("set-up", "read-only") {
            return Ok(());
        }
        keep_in(&self.0, kept, grants, &runner.closed)
    }
}

/// Starts an unconfined child.
///
/// # Errors
///
/// Refuses where the child cannot be started.
pub(crate) async fn start_unconfined(runner: &Runner, task: Task<'_>) -> Result<Started, Stop> {
    start(runner, BackendName::NOOP, None, task).await
}

/// Returns a backend, if Linux has it and, for containers, the configuration names a runtime. `controllers` are those of the runs'
/// cgroups, if runs have any.
pub fn backend(
    name: BackendName,
    runtime: Option<Runtime>,
    own_uids: OwnUids,
    controllers: Option<Controllers>,
) -> Option<Box<dyn Backend>> {
    match name {
        BackendName::CONTAINER => Some(Box::new(Container::new(runtime?, own_uids, controllers))),
        BackendName::LANDLOCK => Some(Box::new(Landlock::new(own_uids, controllers))),
        BackendName::NOOP => Some(Box::new(Noop)),
        _ => None,
    }
}
