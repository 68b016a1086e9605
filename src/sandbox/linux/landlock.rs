//! The Landlock backend: which files, by Landlock; which kernel doors, by seccomp.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
};

use super::FilterSpec;
use crate::{
    axis::{Axes, Coverage},
    policy::{Access, Metadata, Network, Policy, Spawn},
    sandbox::{
        Absent, Backend, BackendName, Host, Mechanism, Prepared, Unenforceable, backend::covering,
    },
    sys,
};

/// The newest ABI whose rights the landlock crate can name. A newer kernel is used as far as this.
const NEWEST_ABI: u32 = 9;

/// Confines by Landlock and seccomp.
#[derive(Clone, Copy, Debug)]
pub struct Landlock {
    abi: Result<u32, i32>,
    own_uid_for_hooks: bool,
}

impl Landlock {
    /// Asks the kernel for its Landlock ABI. `own_uid_for_hooks` says whether each hook gets a uid of its own.
    pub fn new(own_uid_for_hooks: bool) -> Self {
        Self {
            abi: sys::landlock_abi().map(|abi| abi.min(NEWEST_ABI)),
            own_uid_for_hooks,
        }
    }
}

impl Backend for Landlock {
    fn name(&self) -> BackendName {
        BackendName::Landlock
    }

    fn probe(&self) -> Result<Host, Absent> {
        match self.abi {
            Ok(landlock_abi) => Ok(Host { landlock_abi }),
            Err(errno) => Err(absent(errno)),
        }
    }

    fn prepare(&self, policy: &Policy) -> Result<Prepared, Unenforceable> {
        let landlock_abi = self.abi.map_err(|errno| Unenforceable {
            axis: crate::axis::Axis::Read,
            backend: self.name(),
            gap: absent(errno).why,
        })?;
        let spec = FilterSpec {
            landlock_abi,
            metadata: policy.metadata,
            network: policy.network,
            spawn: policy.spawn,
        };
        let axes = self.axes(policy, landlock_abi);
        covering(
            policy,
            Prepared {
                axes,
                backend: self.name(),
                mechanism: Mechanism::Landlock(spec),
            },
        )
    }
}

impl Landlock {
    fn axes(&self, policy: &Policy, abi: u32) -> Axes<Coverage> {
        let enforced = |by| Coverage::Enforced { by };
        Axes {
            cpu: Coverage::Degraded {
                by: "deadline",
                gap: "no limit on processor share before the deadline",
            },
            devices: enforced("landlock, seccomp"),
            environment: enforced("runner"),
            execute: enforced("landlock"),
            ipc: if abi >= 6 {
                enforced("landlock, seccomp")
            } else {
                enforced("seccomp")
            },
            memory: match policy.limits.address_space {
                Some(_) => Coverage::Degraded {
                    by: "rlimit",
                    gap: "limits each process, not the run",
                },
                None => Coverage::Ignored,
            },
            metadata: match policy.metadata {
                Metadata::Keep => Coverage::Degraded {
                    by: "seccomp",
                    gap: "existence, size, mode and times outside the grants are visible",
                },
                Metadata::Change if self.own_uid_for_hooks => Coverage::Degraded {
                    by: "uid",
                    gap: "files that the hook's own user owns can be changed",
                },
                Metadata::Change => Coverage::Ignored,
            },
            network: if abi >= 4 {
                enforced("seccomp, landlock")
            } else {
                enforced("seccomp")
            },
            output: enforced("runner"),
            pids: match (self.own_uid_for_hooks, policy.spawn) {
                (true, _) => enforced("uid, rlimit"),
                (false, Spawn::Threads) => Coverage::Degraded {
                    by: "seccomp",
                    gap: "the number of threads is not limited",
                },
                (false, Spawn::Processes) => Coverage::Ignored,
            },
            read: enforced("landlock"),
            spawn: enforced("seccomp"),
            time: enforced("runner"),
            write: if abi >= 3 {
                enforced("landlock")
            } else {
                enforced("landlock, seccomp")
            },
        }
    }
}

fn absent(errno: i32) -> Absent {
    let (why, fix) = match errno {
        libc::ENOSYS => (
            "this kernel has no Landlock",
            "run a kernel with CONFIG_SECURITY_LANDLOCK (Linux 5.13 or newer)",
        ),
        libc::EOPNOTSUPP => (
            "Landlock is built into this kernel but not enabled",
            "add `landlock` to the kernel's `lsm=` parameter",
        ),
        libc::EPERM => (
            "Landlock's system calls are refused here",
            "allow landlock_create_ruleset, landlock_add_rule and landlock_restrict_self in the container's seccomp profile",
        ),
        _ => (
            "the kernel's answer about Landlock is not understood",
            "see `hookjail doctor`",
        ),
    };
    let why = format!("{why} ({})", io::Error::from_raw_os_error(errno));
    Absent {
        fix: fix.to_owned(),
        why,
    }
}

/// An opened path and what may be done with it.
#[derive(Debug)]
pub struct Grant<'a> {
    /// How it may be used.
    pub rights: Rights,
    /// The inode, whatever its name is by now.
    pub target: &'a OwnedFd,
}

/// What a Landlock rule allows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rights {
    /// What a profile says about a directory.
    Directory(Access),
    /// What a profile says about a file.
    File(Access),
    /// The scratch directory: all but executing and making device nodes, pipes and sockets.
    Scratch,
}

/// Makes the ruleset of one run. Every right that this kernel knows is handled, so that what no rule grants is refused; but
/// for connecting where the hook may: a rule would have to name each port.
///
/// # Errors
///
/// Returns the landlock crate's error; nothing is ever left out silently.
pub fn ruleset(spec: &FilterSpec, grants: &[Grant<'_>]) -> Result<OwnedFd, RulesetProblem> {
    // The number came from the kernel and is capped to what the crate knows.
    let abi = ABI::from(i32::try_from(spec.landlock_abi).unwrap_or(0));
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    let network = match spec.network {
        Network::None => AccessNet::from_all(abi),
        Network::Outbound => AccessNet::from_all(abi) & AccessNet::BindTcp,
    };
    if !network.is_empty() {
        ruleset = ruleset.handle_access(network)?;
    }
    let scopes = Scope::from_all(abi);
    if !scopes.is_empty() {
        ruleset = ruleset.scope(scopes)?;
    }
    let mut created = ruleset.create()?;
    for grant in grants {
        let rule = PathBeneath::new(grant.target.as_fd(), grant.rights.flags(abi));
        created = created.add_rule(rule)?;
    }
    Option::<OwnedFd>::from(created).ok_or(RulesetProblem::Missing)
}

/// Why there is no ruleset.
#[derive(Debug, thiserror::Error)]
pub enum RulesetProblem {
    /// The kernel made none.
    #[error("the kernel made no ruleset")]
    Missing,
    /// The kernel or the crate refused one of its parts.
    #[error(transparent)]
    Refused(#[from] RulesetError),
}

impl Rights {
    fn flags(self, abi: ABI) -> BitFlags<AccessFs> {
        let read = AccessFs::ReadFile | AccessFs::ReadDir;
        // A socket or pipe in a granted directory could trap whoever opens it, a device node more than that.
        let never = AccessFs::MakeBlock
            | AccessFs::MakeChar
            | AccessFs::MakeFifo
            | AccessFs::MakeSock
            | AccessFs::IoctlDev;
        let write = (AccessFs::from_write(abi) | read) & !never;
        let directory = |access| match access {
            Access::Execute => read | AccessFs::Execute,
            Access::Read => read,
            Access::Write => write | AccessFs::Execute,
            Access::WriteFile => AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate,
        };
        let known = AccessFs::from_all(abi);
        match self {
            Self::Directory(access) => directory(access) & known,
            Self::File(access) => directory(access) & AccessFs::from_file(abi) & known,
            Self::Scratch => write & known,
        }
    }
}
