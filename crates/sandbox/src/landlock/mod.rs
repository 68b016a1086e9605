//! The Landlock backend: confines files by Landlock and syscalls by seccomp.

mod attest;
pub(crate) mod mounts;
pub(crate) mod nesting;
pub(crate) mod start;

use std::{
    fmt, io,
    os::fd::{AsFd, OwnedFd},
};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
};

use hookjail_base::{
    model::axis::{Axis, Coverage},
    refusal::Fault,
};
use hookjail_policy::{
    Metadata, Network, Policy, Spawn,
    rights::{FileRight, FileRights, Rights},
};

use crate::{
    Absent, Backend, BackendName, Claims, Controllers, Host, OwnUids, Prepared, Runner, Starting,
    Task, Unenforceable, landlock::start::start, mutants, seccomp::FilterSpec,
};
use hookjail_sys as sys;

/// The newest ABI whose rights the landlock crate has. On newer kernels this ABI is used.
pub const NEWEST_ABI: u32 = 9;

/// The first ABI that writes refusals into the kernel's audit log, and takes flags about that.
const LOGGING_ABI: u32 = 7;

/// `LANDLOCK_RESTRICT_SELF_LOG_SAME_EXEC_OFF`. Denials after an exec are not logged in any case.
const SAME_EXEC_OFF: u32 = 1;

/// Returns the flags by which a domain writes nothing into the kernel's audit log.
///
/// Every run is denied its canary before the hook is executed, which would only fill the operator's log.
pub(crate) const fn without_log(spec: &FilterSpec) -> u32 {
    if spec.landlock_abi >= LOGGING_ABI {
        SAME_EXEC_OFF
    } else {
        0
    }
}

/// The Landlock backend.
#[derive(Clone, Debug)]
pub struct Landlock {
    abi: Result<u32, i32>,
    /// The controllers of the runs' cgroups, if runs have any.
    controllers: Option<Controllers>,
    own_uids: OwnUids,
}

impl Landlock {
    /// Creates a backend, with the kernel's Landlock ABI.
    pub fn new(own_uids: OwnUids, controllers: Option<Controllers>) -> Self {
        Self {
            abi: sys::landlock_abi().map(|abi| abi.min(NEWEST_ABI)),
            controllers,
            own_uids,
        }
    }
}

#[cfg(test)]
impl Landlock {
    /// Returns the backend for a kernel with this ABI.
    pub(crate) const fn with_abi(abi: u32, own_uids: OwnUids) -> Self {
        Self {
            abi: Ok(abi),
            controllers: None,
            own_uids,
        }
    }
}

impl Backend for Landlock {
    fn name(&self) -> BackendName {
        BackendName::LANDLOCK
    }

    fn probe(&self) -> Result<Host, Absent> {
        match self.abi {
            Ok(landlock_abi) => nesting::opens_paths().map(|()| Host { landlock_abi }),
            Err(errno) => Err(absent(errno)),
        }
    }

    fn prepare(&self, policy: &Policy) -> Result<Prepared, Unenforceable> {
        let landlock_abi = self.abi.map_err(|errno| Unenforceable {
            axis: Axis::Read,
            backend: self.name(),
            gap: absent(errno).why,
        })?;
        let claims = self.claims(policy, landlock_abi);
        let prepared = Prepared::covering(policy, self.name(), claims)?;
        let filters = FilterSpec::new(policy, landlock_abi);
        Ok(prepared.with_filters(filters, landlock_abi))
    }

    fn start<'a>(&'a self, runner: &'a Runner, task: Task<'a>) -> Starting<'a> {
        Box::pin(async move {
            let absent = |errno| Fault::new("cannot confine a child", absent(errno));
            let spec = FilterSpec::new(task.policy, self.abi.map_err(absent)?);
            start(runner, self.name(), Some(&spec), task).await
        })
    }

    fn counts_tasks(&self) -> bool {
        self.controllers.is_some()
    }

    fn lets_wait(&self) -> bool {
        true
    }
}

impl Landlock {
    pub(crate) fn claims(&self, policy: &Policy, abi: u32) -> Claims {
        let enforced = |means| Coverage::Enforced { by: means };
        Claims {
            cpu: cpu(policy, self.controllers),
            devices: enforced("landlock, seccomp"),
            execute: enforced("landlock"),
            ipc: if abi >= 6 {
                enforced("landlock, seccomp")
            } else {
                enforced("seccomp")
            },
            memory: memory(policy, self.controllers),
            metadata: match policy.metadata {
                Metadata::Keep => Coverage::Degraded {
                    by: "seccomp",
                    gap: "existence, size, owner, mode, times and link targets outside the grants are visible",
                },
                Metadata::Change if self.own_uids.has_own(policy) => Coverage::Degraded {
                    by: "uid",
                    gap: "files that the hook's own user owns can be changed",
                },
                Metadata::Change => Coverage::Ignored,
            },
            network: match (abi >= 4, policy.network) {
                (true, Network::Named) => enforced("seccomp, landlock, relay"),
                (false, Network::Named) => enforced("seccomp, relay"),
                (true, Network::None | Network::Outbound) => enforced("seccomp, landlock"),
                (false, Network::None | Network::Outbound) => enforced("seccomp"),
            },
            pids: pids(policy, self.own_uids.has_own(policy), self.controllers),
            read: enforced("landlock"),
            spawn: enforced("seccomp"),
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
            "this kernel has no Landlock, or a filter around this process hides it",
            "run a kernel with CONFIG_SECURITY_LANDLOCK (Linux 5.13 or newer), outside a sandbox that hides it",
        ),
        libc::EOPNOTSUPP => (
            "Landlock is built into this kernel but not enabled",
            "add `landlock` to the kernel's `lsm=` parameter",
        ),
        libc::EPERM => (
            "Landlock's syscalls are refused here",
            "allow landlock_create_ruleset, landlock_add_rule and landlock_restrict_self in the seccomp profile of the container or service around hookjail",
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

/// An opened path and its rights.
#[derive(Debug)]
pub struct Grant<'a> {
    /// Rights that are granted.
    pub rights: Rights,
    /// The inode, independent of its current name.
    pub target: &'a OwnedFd,
}

/// Returns how a run's cgroup, or else the deadline covers CPU time.
pub(crate) const fn cpu(policy: &Policy, controllers: Option<Controllers>) -> Coverage {
    match (controllers, policy.limits.cpus) {
        (Some(Controllers { cpu: true }), Some(_)) => Coverage::Enforced { by: "cgroup" },
        _ => Coverage::Degraded {
            by: "deadline",
            gap: "no limit on processor share before the deadline",
        },
    }
}

/// Returns how a run's cgroup, or else a child's own limits cover memory.
pub(crate) const fn memory(policy: &Policy, controllers: Option<Controllers>) -> Coverage {
    let limits = &policy.limits;
    if let (Some(_), Some(_)) = (controllers, limits.memory) {
        return Coverage::Enforced { by: "cgroup" };
    }
    match limits.address_space {
        Some(_) => Coverage::Degraded {
            by: "rlimit",
            gap: "limits each process, not the run",
        },
        None => Coverage::Ignored,
    }
}

/// Returns how a run's cgroup, a child's own limits and the filters cover the number of tasks.
pub(crate) const fn pids(
    policy: &Policy,
    own_uid_for_hooks: bool,
    controllers: Option<Controllers>,
) -> Coverage {
    match (controllers, own_uid_for_hooks, policy.spawn) {
        (Some(_), true, _) => Coverage::Enforced {
            by: "cgroup, uid, rlimit",
        },
        (Some(_), false, _) => Coverage::Enforced { by: "cgroup" },
        (None, true, _) => Coverage::Enforced { by: "uid, rlimit" },
        (None, false, Spawn::Threads) => Coverage::Degraded {
            by: "seccomp",
            gap: "the number of threads is not limited",
        },
        (None, false, Spawn::Processes) => Coverage::Ignored,
    }
}

/// Creates the ruleset of one run. Every right of this kernel is handled, so that accesses without a rule are refused.
/// Connecting is not handled where the hook may: a rule would have to name each port.
///
/// # Errors
///
/// Returns the landlock crate's error; nothing is ever left out silently.
pub fn ruleset(spec: &FilterSpec, grants: &[Grant<'_>]) -> Result<OwnedFd, RulesetProblem> {
    let abi = abi(spec.landlock_abi);
    let files: BitFlags<AccessFs> = kept(AccessFs::from_all(abi).iter());
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(files)?;
    let network = match spec.network {
        Network::Named | Network::None => AccessNet::from_all(abi),
        Network::Outbound => AccessNet::from_all(abi) & AccessNet::BindTcp,
    };
    let network: BitFlags<AccessNet> = kept(network.iter());
    if !network.is_empty() {
        ruleset = ruleset.handle_access(network)?;
    }
    let scopes: BitFlags<Scope> = kept(Scope::from_all(abi).iter());
    if !scopes.is_empty() {
        ruleset = ruleset.scope(scopes)?;
    }
    let mut created = ruleset.create()?;
    for grant in grants {
        let rights = flags(grant.rights.allowed(), abi);
        let allowed: BitFlags<AccessFs> = kept(rights.iter());
        if allowed.is_empty() && !rights.is_empty() {
            continue;
        }
        let rule = PathBeneath::new(grant.target.as_fd(), allowed);
        created = created.add_rule(rule)?;
    }
    Option::<OwnedFd>::from(created).ok_or(RulesetProblem::Missing)
}

/// Returns the rights that remain after tests remove some.
fn kept<T: fmt::Debug, Set: FromIterator<T>>(rights: impl Iterator<Item = T>) -> Set {
    rights
        .filter(|right| !mutants::lacks("landlock", format_args!("{right:?}")))
        .collect()
}

/// Cause of a missing ruleset.
#[derive(Debug, thiserror::Error)]
pub enum RulesetProblem {
    /// The kernel created none.
    #[error("the kernel made no ruleset")]
    Missing,
    /// The kernel or the crate refused one of its parts.
    #[error(transparent)]
    Refused(#[from] RulesetError),
}

/// Returns the rights that a Landlock ABI handles.
pub(crate) fn handled(landlock_abi: u32) -> FileRights {
    let known = AccessFs::from_all(abi(landlock_abi));
    let rights = FileRight::ALL.into_iter();
    let handled: Vec<_> = rights
        .filter(|&right| known.contains(flag(right)))
        .collect();
    FileRights::new(&handled)
}

/// Converts an ABI to the landlock crate's type. The number came from the kernel and is capped to the crate's newest.
fn abi(landlock_abi: u32) -> ABI {
    ABI::from(i32::try_from(landlock_abi).unwrap_or(0))
}

/// Returns the rights that this ABI can allow, as flags.
fn flags(rights: FileRights, abi: ABI) -> BitFlags<AccessFs> {
    let all: BitFlags<AccessFs> = rights.iter().map(flag).collect();
    all & AccessFs::from_all(abi)
}

/// Returns rights as the kernel spells them.
pub(crate) fn kernel_rights(rights: FileRights, landlock_abi: u32) -> u64 {
    let allowed: BitFlags<AccessFs> = kept(flags(rights, abi(landlock_abi)).iter());
    allowed.bits()
}

const fn flag(right: FileRight) -> AccessFs {
    match right {
        FileRight::Execute => AccessFs::Execute,
        FileRight::IoctlDevice => AccessFs::IoctlDev,
        FileRight::MakeBlock => AccessFs::MakeBlock,
        FileRight::MakeChar => AccessFs::MakeChar,
        FileRight::MakeDirectory => AccessFs::MakeDir,
        FileRight::MakeFifo => AccessFs::MakeFifo,
        FileRight::MakeFile => AccessFs::MakeReg,
        FileRight::MakeLink => AccessFs::MakeSym,
        FileRight::MakeSocket => AccessFs::MakeSock,
        FileRight::ReadDirectory => AccessFs::ReadDir,
        FileRight::ReadFile => AccessFs::ReadFile,
        FileRight::Refer => AccessFs::Refer,
        FileRight::RemoveDirectory => AccessFs::RemoveDir,
        FileRight::RemoveFile => AccessFs::RemoveFile,
        FileRight::ResolveSocket => AccessFs::ResolveUnix,
        FileRight::Truncate => AccessFs::Truncate,
        FileRight::WriteFile => AccessFs::WriteFile,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hookjail_policy::{Access, HookView, rights::OF_FILES};

    #[test]
    fn every_right_of_every_abi_is_in_the_table_and_a_ruleset_handles_all() {
        for number in 1..=NEWEST_ABI {
            let known = AccessFs::from_all(abi(number));
            let named: BitFlags<AccessFs> = handled(number).iter().map(flag).collect();
            assert_eq!(named, known, "ABI {number}");
            let on_files: BitFlags<AccessFs> = OF_FILES.iter().map(flag).collect();
            assert_eq!(
                on_files & known,
                AccessFs::from_file(abi(number)),
                "ABI {number}"
            );
        }
    }

    #[test]
    fn kernels_without_a_log_get_no_flags_and_others_log_nothing() {
        let flags = |landlock_abi| {
            without_log(&FilterSpec {
                landlock_abi,
                metadata: Metadata::Keep,
                mounts: false,
                network: Network::None,
                spawn: Spawn::Threads,
                view: HookView::Machine,
            })
        };
        assert_eq!([1, 6, 7, NEWEST_ABI].map(flags), [0, 0, 1, 1]);
    }

    #[test]
    fn a_writable_grant_has_every_right_but_making_what_traps_others_and_scratch_executes_nothing()
    {
        let never = AccessFs::MakeBlock
            | AccessFs::MakeChar
            | AccessFs::MakeFifo
            | AccessFs::MakeSock
            | AccessFs::IoctlDev;
        for number in 1..=NEWEST_ABI {
            let abi = abi(number);
            let flags = |rights: Rights, abi| flags(rights.allowed(), abi);
            let all = AccessFs::from_all(abi) & !never;
            assert_eq!(flags(Rights::Directory(Access::Write), abi), all);
            assert_eq!(flags(Rights::Scratch, abi), all & !AccessFs::Execute);
            let look = AccessFs::ReadFile | AccessFs::ReadDir;
            assert_eq!(flags(Rights::Directory(Access::Read), abi), look);
            let execute = look | AccessFs::Execute;
            assert_eq!(flags(Rights::Directory(Access::Execute), abi), execute);
            let file = AccessFs::from_file(abi);
            assert_eq!(flags(Rights::File(Access::Write), abi), all & file);
            let existing = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate;
            assert_eq!(flags(Rights::File(Access::WriteFile), abi), existing & file);
        }
    }
}
