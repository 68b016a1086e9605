//! Resources that every backend starts children with.

use std::{fmt, io, os::fd::OwnedFd, path::PathBuf, sync::Arc};

use crate::{
    policy::{Access, rights::Rights},
    process::{Deadlines, Hold},
    refusal::{Reason, Refusal},
    sandbox::{
        SandboxParts,
        host::Launcher,
        run::grants::{KnownPlaces, OpenGrant},
    },
};

/// Resources of every backend: spawners, deadlines, canaries, system paths.
#[derive(Debug)]
pub(crate) struct Runner {
    deadlines: Deadlines,
    /// A file that no child is granted.
    pub(in crate::sandbox) denied: PathBuf,
    /// A file that every confined child is granted.
    pub(in crate::sandbox) granted: PathBuf,
    granted_open: Arc<OwnedFd>,
    pub(in crate::sandbox) launcher: Launcher,
    pub(in crate::sandbox) places: KnownPlaces,
}

impl Runner {
    /// Creates a runner.
    ///
    /// # Errors
    ///
    /// Fails where children could not be inspected, or no thread can be started.
    pub(in crate::sandbox) fn new(parts: &mut SandboxParts) -> io::Result<Self> {
        let instance = &parts.instance;
        Ok(Self {
            deadlines: Deadlines::start(Arc::clone(&parts.keeper))?,
            denied: instance.canary_denied().to_owned(),
            granted: instance.canary_granted().to_owned(),
            granted_open: Arc::clone(instance.canary_granted_open()),
            launcher: Launcher::new(parts)?,
            places: KnownPlaces::new(parts.root.take()),
        })
    }

    /// Registers a process group with the keeper. The hold keeps `resources` in use.
    ///
    /// # Errors
    ///
    /// Refuses where the table is full: `OVERLOADED`.
    pub(in crate::sandbox) fn hold(
        &self,
        resources: Option<Arc<dyn fmt::Debug + Send + Sync>>,
    ) -> Result<Hold, Refusal> {
        self.deadlines.hold(resources).ok_or_else(|| {
            let message = "no more hooks can be watched at once; ask again later";
            Refusal::new(Reason::Overloaded, message)
        })
    }

    /// Returns the file that every confined child is granted.
    pub(in crate::sandbox) fn granted_canary(&self) -> OpenGrant {
        OpenGrant {
            path: self.granted.clone(),
            rights: Rights::File(Access::Read),
            target: Arc::clone(&self.granted_open),
        }
    }
}
