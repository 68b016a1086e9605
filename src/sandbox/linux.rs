//! Linux: what the rest of confinement takes from the system that it is compiled for.

pub(in crate::sandbox) use crate::sandbox::{
    run::{
        child::{Launcher, Observed},
        denials::Known,
        identity::{Identities, Lease},
        left_running::{groups_of, kill_left},
    },
    seccomp::{FilterSpec, Until},
};
use crate::{
    refusal::Stop,
    sandbox::{
        Backend, BackendName, Noop, Runner, Started, Task,
        container::{Container, Runtime},
        landlock::Landlock,
        run::child::start,
    },
};

/// A device that every system has and no shipped profile grants.
pub(in crate::sandbox) const UNGRANTED_DEVICE: &str = "/dev/full";

/// Whether a hook that has the network can make Unix sockets too.
pub(in crate::sandbox) const OUTBOUND_HAS_UNIX_SOCKETS: bool = false;

/// Directories that shipped profiles grant and this system does not have.
pub(in crate::sandbox) const LACKING: &[&str] = &[];

/// Starts a child that nothing confines.
///
/// # Errors
///
/// Refuses where it cannot be started.
pub(in crate::sandbox) async fn start_unconfined(
    runner: &Runner,
    task: Task<'_>,
) -> Result<Started, Stop> {
    start(runner, BackendName::NOOP, None, task).await
}

/// Returns a backend, if Linux has it. `own_uid` says whether each hook gets a uid of its own; what makes containers is there
/// where the configuration names it.
pub fn backend(
    name: BackendName,
    runtime: Option<Runtime>,
    own_uid: bool,
) -> Option<Box<dyn Backend>> {
    match name {
        BackendName::CONTAINER => Some(Box::new(Container::new(runtime?, own_uid))),
        BackendName::LANDLOCK => Some(Box::new(Landlock::new(own_uid))),
        BackendName::NOOP => Some(Box::new(Noop)),
        _ => None,
    }
}
