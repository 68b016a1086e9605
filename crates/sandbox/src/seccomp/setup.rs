//! Syscalls of a child's set-up before exec, which the hook must not make.
//!
//! The child inherits the filters of the thread that made it, so these must leave its set-up open; the closing filter
//! shuts it. Both are computed from `SetupNeeds::opened`, so that the one closes exactly the calls that the other opens.

use crate::seccomp::{
    arguments::ArgTest,
    rules::{FilterSpec, Rule, rule},
    syscalls::nr,
};
use hookjail_sys as sys;

/// Needs of a child's set-up from the kernel, beyond those of the hook.
///
/// Everything else it calls (`dup3`, `fchdir`, `umask`, `close_range`, `openat`, `rt_sig*`, `getpid`, `prlimit64`, `setresuid`,
/// `setresgid`, `execveat`, and `prctl` for the signal of its parent's death) every hook may call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SetupNeeds {
    /// Whether the child begins in a cgroup of its own, for which it is made by `clone3`.
    pub cgroup: bool,
    /// First argument of the `clone` that makes the child: flags and exit signal.
    pub clone_flags: u32,
    /// Whether the child gives up privileges.
    pub credentials: Credentials,
    /// Whether it mounts in its own namespace.
    pub mounts: bool,
    /// Whether the child makes a process tree of its own, and so mounts, too.
    pub tree: bool,
}

/// Change of a child's user, groups and capabilities.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Credentials {
    /// Changes user and groups and drops every capability. The spawner thread has emptied the bounding set.
    Drop,
    /// Keeps those of the daemon, which is unprivileged already.
    Keep,
}

impl SetupNeeds {
    /// Returns the calls of the set-up, each with the tests its arguments meet.
    #[must_use]
    pub fn calls(&self) -> Vec<(u32, Vec<ArgTest>)> {
        let mut calls = vec![
            (
                nr::clone,
                vec![ArgTest::int(0, u64::from(self.clone_flags))],
            ),
            (nr::landlock_restrict_self, vec![]),
            (
                nr::seccomp,
                vec![ArgTest::int(0, libc::SECCOMP_SET_MODE_FILTER as u64)],
            ),
            (nr::setpgid, vec![]),
        ];
        if self.cgroup {
            calls.push((nr::clone3, vec![]));
        }
        if self.credentials == Credentials::Drop {
            calls.extend([(nr::capset, vec![]), (nr::setgroups, vec![])]);
        }
        if self.mounts {
            let mut namespaces = match self.credentials {
                Credentials::Drop => sys::NAMESPACE_OF_ROOT,
                Credentials::Keep => {
                    calls.extend([
                        (nr::capset, vec![]),
                        (nr::prctl, vec![option(libc::PR_CAPBSET_DROP)]),
                    ]);
                    sys::NAMESPACES_OF_A_USER
                }
            };
            if self.tree {
                namespaces |= sys::NAMESPACE_OF_A_TREE;
                let flags = u64::from(sys::TREE_CLONE_FLAGS);
                calls.extend([
                    (nr::clone, vec![ArgTest::int(0, flags)]),
                    (nr::setsid, vec![]),
                ]);
            }
            calls.extend([
                (nr::landlock_add_rule, vec![]),
                (nr::mount, vec![]),
                (nr::mount_setattr, vec![]),
                (nr::move_mount, vec![]),
                (nr::open_tree, vec![]),
                (nr::openat2, vec![]),
                (
                    nr::unshare,
                    vec![ArgTest::int(0, u64::from(namespaces.cast_unsigned()))],
                ),
            ]);
        }
        calls
    }

    /// Returns the ways of calling `nr` that only the set-up has. The inherited filters leave them open, and `spec` does not give
    /// them to the hook.
    ///
    /// Ways the hook has anyway are not among them. Where the rule depends on the hook's process id, every way is: the
    /// inherited filters are loaded before there is one.
    #[must_use]
    pub(crate) fn opened(&self, spec: &FilterSpec, nr: u32) -> Vec<Vec<ArgTest>> {
        let ways = match rule(spec, nr) {
            Rule::Allow => return Vec::new(),
            Rule::AllowWhen { ways, .. } => ways,
            Rule::Errno(_) | Rule::Kill => Vec::new(),
        };
        if ways.iter().flatten().any(ArgTest::is_personal) {
            return vec![Vec::new()];
        }
        self.calls()
            .into_iter()
            .filter(|&(number, _)| number == nr)
            .map(|(_, need)| need)
            .filter(|need| {
                !ways
                    .iter()
                    .any(|way| remaining(way, need).is_some_and(|left| left.is_empty()))
            })
            .collect()
    }
}

/// Returns the tests of `way` that `need` does not decide. `None`: `need` makes one of them fail.
pub(crate) fn remaining(way: &[ArgTest], need: &[ArgTest]) -> Option<Vec<ArgTest>> {
    let decided = |test: &ArgTest| need.iter().find_map(|known| test.follows_from(known));
    if way.iter().any(|test| decided(test) == Some(false)) {
        return None;
    }
    Some(
        way.iter()
            .filter(|test| decided(test).is_none())
            .copied()
            .collect(),
    )
}

/// Returns a test for a `prctl` option.
const fn option(option: libc::c_int) -> ArgTest {
    ArgTest::int(0, option as u64)
}
