//! What a hook may ask of the kernel: one table, from which every filter is computed.
//!
//! Default-deny. Which *files* a path call reaches is for Landlock to say; the table says which calls exist for a hook.

mod groups;

use self::groups::{
    FCNTL_COMMANDS, GROUPS, IOCTL_REQUESTS, KILLED, METADATA, MISSING, OUTBOUND, PRCTL_OPTIONS,
    XATTR_READS,
};
use super::{
    arguments::ArgTest,
    syscalls::{self, nr},
};
use crate::policy::{Metadata, Network, Spawn};

/// What the filters of a profile depend on.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct FilterSpec {
    /// The Landlock ABI of the kernel. Where it lacks a right, the filters stand in.
    pub landlock_abi: u32,
    /// Whether the hook may change modes, owners, times and extended attributes.
    pub metadata: Metadata,
    /// What it may do on the network.
    pub network: Network,
    /// Which tasks it may start.
    pub spawn: Spawn,
}

/// What becomes of a system call.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub enum Rule {
    /// It goes through.
    Allow,
    /// It goes through if all tests of any of these ways hold, and fails with EPERM otherwise.
    AllowWhen(Vec<Vec<ArgTest>>),
    /// It fails with this errno.
    Errno(i32),
    /// It ends the hook with SIGSYS.
    Kill,
}

/// Returns what a hook confined to `spec` may do with the system call `nr`.
pub fn rule(spec: &FilterSpec, nr: u32) -> Rule {
    if nr >= syscalls::X32_BIT || KILLED.contains(&nr) {
        return Rule::Kill;
    }
    if syscalls::name(nr).is_none() || MISSING.contains(&nr) {
        return Rule::Errno(libc::ENOSYS);
    }
    if let Some(rule) = stand_in(spec.landlock_abi, nr) {
        return rule;
    }
    if GROUPS.iter().any(|group| group.contains(&nr)) {
        return Rule::Allow;
    }
    match nr {
        nr::clone => Rule::AllowWhen(vec![vec![clone_flags(spec.spawn)]]),
        nr::fcntl => one_of(1, &FCNTL_COMMANDS),
        nr::ioctl => one_of(1, &IOCTL_REQUESTS),
        nr::prctl => one_of(0, &PRCTL_OPTIONS),
        // Of itself only, and only to ask: with a limit to set, it would reach every process of the same user.
        nr::prlimit64 => Rule::AllowWhen(vec![vec![ArgTest::int(0, 0), ArgTest::null(2)]]),
        // A datagram half could be addressed to any socket of the host by its path.
        nr::socketpair => Rule::AllowWhen(vec![vec![
            int(0, libc::AF_UNIX),
            socket_type(libc::SOCK_STREAM),
        ]]),
        nr::fork | nr::vfork => allow_if(spec.spawn == Spawn::Processes),
        // Without an address it is `send`, on what is connected already.
        nr::sendto if spec.network == Network::None => {
            Rule::AllowWhen(vec![vec![ArgTest::null(4)]])
        }
        nr::sendto => Rule::Allow,
        nr::socket if spec.network == Network::Outbound => Rule::AllowWhen(internet_sockets()),
        _ if OUTBOUND.contains(&nr) => allow_if(spec.network == Network::Outbound),
        _ if XATTR_READS.contains(&nr) && spec.metadata == Metadata::Keep => {
            Rule::Errno(libc::ENOTSUP)
        }
        _ if XATTR_READS.contains(&nr) || METADATA.contains(&nr) => {
            allow_if(spec.metadata == Metadata::Change)
        }
        _ => Rule::Errno(libc::EPERM),
    }
}

/// Returns the rule that stands in for a right the kernel's Landlock lacks, if one is needed for `nr`.
///
/// An ABI below 5 needs none: the list of `ioctl` requests is always on. Nor does `creat` below 3: it opens for writing,
/// for which Landlock asks the right to write.
fn stand_in(landlock_abi: u32, nr: u32) -> Option<Rule> {
    let no_truncate = landlock_abi < 3;
    let no_signal_scope = landlock_abi < 6;
    match nr {
        nr::open if no_truncate => Some(Rule::AllowWhen(opens_that_keep_content(1))),
        nr::openat if no_truncate => Some(Rule::AllowWhen(opens_that_keep_content(2))),
        // Its flags lie behind a pointer.
        nr::openat2 if no_truncate => Some(Rule::Errno(libc::ENOSYS)),
        nr::truncate if no_truncate => Some(Rule::Errno(libc::EPERM)),
        nr::kill if no_signal_scope => Some(Rule::AllowWhen(vec![
            vec![ArgTest::own_pid(0)],
            vec![ArgTest::int(0, 0)],
            vec![ArgTest::own_group(0)],
        ])),
        nr::tgkill if no_signal_scope => Some(Rule::AllowWhen(vec![vec![ArgTest::own_pid(0)]])),
        _ => None,
    }
}

/// Returns the ways to open a file that truncate it only if they also need the right to write it.
///
/// With `O_TRUNC` the kernel truncates whatever the access mode, but without a right of its own for it Landlock asks only
/// for what the mode says: nothing to write for `O_RDONLY`, nothing at all for 3.
fn opens_that_keep_content(flags: u8) -> Vec<Vec<ArgTest>> {
    let mode = |mode| vec![ArgTest::bits(flags, libc::O_ACCMODE as u64, mode as u64)];
    vec![
        vec![ArgTest::bits(flags, libc::O_TRUNC as u64, 0)],
        mode(libc::O_WRONLY),
        mode(libc::O_RDWR),
    ]
}

/// Returns the test on what `clone` may make. The exit signal, in the lowest byte, is free: it goes to the parent, which
/// only `CLONE_PARENT` could make someone outside.
const fn clone_flags(spawn: Spawn) -> ArgTest {
    match spawn {
        Spawn::Processes => ArgTest::bits(0, NAMESPACES | libc::CLONE_PARENT as u64, 0),
        Spawn::Threads => ArgTest::bits(
            0,
            NAMESPACES | libc::CLONE_THREAD as u64,
            libc::CLONE_THREAD as u64,
        ),
    }
}

/// Returns the ways to make a socket that can only speak TCP or UDP: not MPTCP, which Landlock does not see, not ICMP.
fn internet_sockets() -> Vec<Vec<ArgTest>> {
    let kinds = [
        (libc::SOCK_STREAM, libc::IPPROTO_TCP),
        (libc::SOCK_DGRAM, libc::IPPROTO_UDP),
    ];
    let mut ways = Vec::new();
    for domain in [libc::AF_INET, libc::AF_INET6] {
        for (kind, own_protocol) in kinds {
            for protocol in [0, own_protocol] {
                ways.push(vec![int(0, domain), socket_type(kind), int(2, protocol)]);
            }
        }
    }
    ways
}

const fn socket_type(kind: libc::c_int) -> ArgTest {
    ArgTest::bits(
        1,
        !((libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) as u64) & 0xffff_ffff,
        kind as u64,
    )
}

const fn int(index: u8, value: libc::c_int) -> ArgTest {
    ArgTest::int(index, value.cast_unsigned() as u64)
}

fn one_of(index: u8, values: &[u64]) -> Rule {
    Rule::AllowWhen(
        values
            .iter()
            .map(|&value| vec![ArgTest::int(index, value)])
            .collect(),
    )
}

const fn allow_if(allowed: bool) -> Rule {
    if allowed {
        Rule::Allow
    } else {
        Rule::Errno(libc::EPERM)
    }
}

/// Every namespace a legacy `clone` can make. `CLONE_NEWTIME` it cannot: the bit belongs to the exit signal there.
const NAMESPACES: u64 = (libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWUTS) as u64;

#[cfg(test)]
mod tests;
