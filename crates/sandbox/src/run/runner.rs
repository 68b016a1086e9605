//! Resources that every backend starts children with.

use std::{fmt, io, os::fd::OwnedFd, path::PathBuf, sync::Arc};

use hookjail_base::refusal::{Reason, Refusal};
use hookjail_policy::{Access, rights::Rights};

#[cfg(target_os = "linux")]
use crate::{
    resources::cgroup::{Cgroups, Group},
    run::read_only::Closed,
};
#[cfg(target_os = "linux")]
use hookjail_policy::Limits;

use crate::{
    SandboxParts,
    host::Launcher,
    process::{Deadlines, Hold},
    resources::cache::Caches,
    run::{floor::Floor, grants::OpenGrant, places::KnownPlaces},
};

/// Resources of every backend: spawners, deadlines, canaries, system paths.
#[derive(Debug)]
pub struct Runner {
    /// The cgroups of runs, if runs have any.
    #[cfg(target_os = "linux")]
    pub(crate) cgroups: Option<Arc<Cgroups>>,
    /// The file and the directory in the places of hidden ones.
    #[cfg(target_os = "linux")]
    pub(crate) closed: Closed,
    deadlines: Deadlines,
    /// A file that no child is granted.
    pub(crate) denied: PathBuf,
    /// A file that every confined child is granted.
    pub(crate) granted: PathBuf,
    granted_open: Arc<OwnedFd>,
    pub(crate) launcher: Launcher,
    pub(crate) places: KnownPlaces,
    pub(crate) caches: Caches,
}

impl Runner {
    /// Creates a runner.
    ///
    /// # Errors
    ///
    /// Fails where children could not be inspected, or no thread can be started.
    pub(crate) fn new(parts: &mut SandboxParts) -> io::Result<Self> {
        let instance = &parts.instance;
        Ok(Self {
            caches: Caches::new(parts.references.cache.as_deref()),
            #[cfg(target_os = "linux")]
            cgroups: parts.cgroups.as_ref().ok().cloned(),
            #[cfg(target_os = "linux")]
            closed: instance.closed(),
            deadlines: Deadlines::start(Arc::clone(&parts.keeper))?,
            denied: instance.canary_denied().to_owned(),
            granted: instance.canary_granted().to_owned(),
            granted_open: Arc::clone(instance.canary_granted_open()),
            launcher: Launcher::new(parts)?,
            places: KnownPlaces::new(
                parts.root.take(),
                Floor::of_user(std::mem::take(&mut parts.references)),
            ),
        })
    }

    /// Registers a process group with the keeper. The hold keeps `resources` in use.
    ///
    /// # Errors
    ///
    /// Refuses where the table is full: `OVERLOADED`.
    pub(crate) fn hold(
        &self,
        resources: Option<Arc<dyn fmt::Debug + Send + Sync>>,
    ) -> Result<Hold, Refusal> {
        self.deadlines.hold(resources).ok_or_else(|| {
            let message = "no more hooks can be watched at once; retry later";
            Refusal::new(Reason::Overloaded, message)
        })
    }

    /// Returns a cgroup with a run's limits, in that of its caller, if runs have any. `own_tasks` is how many tasks of hookjail's are in it.
    ///
    /// # Errors
    ///
    /// Refuses where it cannot be made or does not take the limits.
    #[cfg(target_os = "linux")]
    pub(crate) fn cgroup(
        &self,
        caller: u32,
        limits: &Limits,
        own_tasks: u64,
    ) -> Result<Option<Group>, Refusal> {
        let lease = |cgroups: &Arc<Cgroups>| cgroups.lease(caller, limits, own_tasks);
        let leased = self.cgroups.as_ref().map(lease).transpose();
        leased.map_err(|error| {
            Refusal::failed(
                "a cgroup with the run's limits cannot be made",
                &error,
                |message| Refusal::new(Reason::BackendUnconfirmed, message),
            )
        })
    }

    /// Returns the file that every confined child is granted.
    pub(crate) fn granted_canary(&self) -> OpenGrant {
        OpenGrant {
            path: self.granted.clone(),
            rights: Rights::File(Access::Read),
            target: Arc::clone(&self.granted_open),
        }
    }
}
