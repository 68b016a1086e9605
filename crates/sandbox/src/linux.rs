//! Linux: platform items that the rest of confinement uses.

use std::{io, path::PathBuf};

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
    run::{grants::OpenGrant, places::real, read_only::Kept},
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
pub(crate) struct WaitingView {
    entrance: Entrance,
    /// Directories that the view shows at the path of a link to them. Later mounts in them do not show there.
    linked: Vec<PathBuf>,
}

impl WaitingView {
    /// Opens the view of a child that waits, with the grants that it shows.
    ///
    /// # Errors
    ///
    /// Returns the error of opening its namespaces, or of examining a grant.
    pub(crate) fn open(child: i32, has_own_uid: bool, grants: &[OpenGrant]) -> io::Result<Self> {
        let mut linked = Vec::new();
        for grant in grants {
            let found = real(&grant.target, &grant.path)?;
            if found != grant.path {
                linked.push(found);
            }
        }
        Ok(Self {
            entrance: Entrance::open(child, !has_own_uid)?,
            linked,
        })
    }

    /// Returns whether a mount of the view was added or removed since it was opened.
    ///
    /// # Errors
    ///
    /// Returns the error of examining it.
    pub(crate) fn has_changed(&self) -> io::Result<bool> {
        self.entrance.has_changed()
    }

    /// Keeps paths of a workspace in the view.
    ///
    /// # Errors
    ///
    /// Returns the error of a mount, also where the view shows one of the paths by a link, too. The process must not begin a run then.
    pub(crate) fn keep(
        &self,
        runner: &Runner,
        kept: &Kept,
        grants: &[OpenGrant],
    ) -> io::Result<()> {
        if mutants::lacks("set-up", "read-only") {
            return Ok(());
        }
        let mut paths = kept.points.keys().map(|below| kept.workspace.join(below));
        if paths.any(|path| self.linked.iter().any(|linked| path.starts_with(linked))) {
            return Err(io::Error::other("a kept path is shown by a link, too"));
        }
        keep_in(&self.entrance, kept, grants, &runner.closed)
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
