//! Linux: platform items that the rest of confinement uses.

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
    landlock::{Landlock, start::start},
};

/// A device that every system has and no shipped profile grants.
pub(crate) const UNGRANTED_DEVICE: &str = "/dev/tty";

/// Whether the network right includes Unix sockets.
pub(crate) const OUTBOUND_HAS_UNIX_SOCKETS: bool = false;

/// Directories that shipped profiles grant and this system does not have.
pub(crate) const LACKING: &[&str] = &[];

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
