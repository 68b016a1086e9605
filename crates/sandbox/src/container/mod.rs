//! The container backend: confines by an OCI runtime of the host.
//!
//! Files that are not mounted into the container are absent; syscalls are filtered as by the Landlock backend.
//!
//! The runtime makes the container and executes this same program in it ([`inside`]), which checks the container and
//! starts a child that loads the filters and executes the hook.

mod bundle;
mod channel;
pub mod inside;
mod mounts;
mod start;

use std::{
    fs::{File, OpenOptions},
    path::{Path, PathBuf},
    sync::Arc,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use hookjail_base::{model::axis::Coverage, util::trusted_file};
use hookjail_policy::{HookView, Metadata, Network, Policy};

use crate::{
    Absent, Backend, BackendName, Claims, Controllers, Host, OwnUids, Prepared, Runner, Starting,
    Task, Unenforceable,
    landlock::{NEWEST_ABI, cpu, memory, nesting, pids},
    rootfs::RootSpec,
    seccomp::FilterSpec,
};

/// Which command line a runtime understands.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RuntimeKind {
    /// The command line of crun.
    Crun,
    /// The command line of runc.
    Runc,
}

impl RuntimeKind {
    const ALL: [Self; 2] = [Self::Crun, Self::Runc];

    /// Returns the runtime's kind by its program's name.
    pub fn from_program(program: &Path) -> Option<Self> {
        let name = program.file_name()?;
        Self::ALL.into_iter().find(|kind| name == kind.name())
    }

    /// Returns the name as configuration and replies spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crun => "crun",
            Self::Runc => "runc",
        }
    }
}

/// An OCI runtime of this host.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Runtime {
    /// Its command-line interface.
    pub kind: RuntimeKind,
    /// Absolute path of its program.
    pub path: PathBuf,
    /// Root file system of its containers; `None` = the host's.
    pub root: Option<RootSpec>,
}

impl Runtime {
    /// Opens its program.
    ///
    /// # Errors
    ///
    /// Fails where the program is missing, or where users other than root and the daemon's own can change it.
    fn open(&self) -> Result<File, Absent> {
        trusted_file::open_own_or_roots(&self.path, OpenOptions::new().read(true)).map_err(
            |error| {
                let path = self.path.display();
                Absent {
                    fix: format!(
                        "install `{}` at `{path}`, or name another with `container.runtime`",
                        self.kind.name()
                    ),
                    why: format!("the container runtime `{path}` cannot be used: {error}"),
                }
            },
        )
    }
}

/// The runtime of a container, and its filters.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct ContainerSpec {
    /// Inputs of the filters.
    pub filters: FilterSpec,
    /// The runtime.
    pub runtime: Arc<Runtime>,
}

/// The container backend.
#[derive(Clone, Debug)]
pub struct Container {
    /// The controllers of the runs' cgroups, if runs have any.
    controllers: Option<Controllers>,
    own_uids: OwnUids,
    runtime: Arc<Runtime>,
}

impl Container {
    /// Creates a backend.
    pub fn new(runtime: Runtime, own_uids: OwnUids, controllers: Option<Controllers>) -> Self {
        Self {
            controllers,
            own_uids,
            runtime: Arc::new(runtime),
        }
    }

    fn claims(&self, policy: &Policy) -> Claims {
        const fn enforced(means: &'static str) -> Coverage {
            Coverage::Enforced { by: means }
        }
        Claims {
            cpu: cpu(policy, self.controllers),
            devices: enforced("mount namespace"),
            execute: enforced("mount namespace"),
            ipc: enforced("pid and ipc namespaces, seccomp"),
            memory: memory(policy, self.controllers),
            metadata: match policy.metadata {
                Metadata::Keep => enforced("mount namespace, seccomp"),
                Metadata::Change => enforced("mount namespace"),
            },
            network: match policy.network {
                Network::Named => Coverage::Degraded {
                    by: "network namespace, seccomp",
                    gap: "hosts by name are reached under the backend `landlock` alone",
                },
                Network::None => enforced("network namespace, seccomp"),
                Network::Outbound => enforced("seccomp"),
            },
            pids: pids(policy, self.own_uids.has_own(policy), self.controllers),
            read: enforced("mount namespace"),
            spawn: enforced("seccomp"),
            write: enforced("mount namespace"),
        }
    }
}

impl Backend for Container {
    fn name(&self) -> BackendName {
        BackendName::CONTAINER
    }

    fn probe(&self) -> Result<Host, Absent> {
        nesting::opens_paths()?;
        self.runtime.open()?;
        start::own_program().map_err(|why| Absent {
            fix: "restart the daemon".to_owned(),
            why,
        })?;
        Ok(Host { landlock_abi: 0 })
    }

    fn prepare(&self, policy: &Policy) -> Result<Prepared, Unenforceable> {
        let prepared = Prepared::covering(policy, self.name(), self.claims(policy))?;
        Ok(prepared.with_filters(filters(policy), 0))
    }

    fn start<'a>(&'a self, runner: &'a Runner, task: Task<'a>) -> Starting<'a> {
        let spec = ContainerSpec {
            filters: filters(task.policy),
            runtime: Arc::clone(&self.runtime),
        };
        Box::pin(async move { start::start(runner, &spec, task).await })
    }

    fn counts_tasks(&self) -> bool {
        self.controllers.is_some()
    }

    fn has_own_memory(&self) -> bool {
        true
    }
}

/// Returns the inputs of a container's filters.
///
/// Files that are not mounted are out of reach, so no filter needs to stand in for a missing Landlock right.
const fn filters(policy: &Policy) -> FilterSpec {
    FilterSpec {
        mounts: false,
        view: HookView::Machine,
        ..FilterSpec::new(policy, NEWEST_ABI)
    }
}
