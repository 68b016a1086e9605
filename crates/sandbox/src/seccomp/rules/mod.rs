//! Rules on a hook's syscalls: one table, from which every filter is computed.
//!
//! Default-deny. The table decides which calls a hook may make; Landlock decides which *files* they reach.

mod groups;

use serde::{Deserialize, Serialize};

use hookjail_base::model::axis::Axis;
use hookjail_policy::{HookView, Metadata, Network, Policy, Spawn};

use self::groups::{
    FCNTL_COMMANDS, GROUPS, IOCTL_REQUESTS, IP_OPTIONS, IPV6_OPTIONS, KILLED, METADATA, MISSING,
    NETWORK_OPTIONS, NOT_NAMED, OUTBOUND, PATHS, PRCTL_OPTIONS, SOCKET_OPTIONS, TCP_OPTIONS,
    TERMINAL_REQUESTS, UDP_OPTIONS, WATCHES, XATTR_READS,
};
use crate::{
    mutants,
    seccomp::{
        arguments::ArgTest,
        syscalls::{self, nr},
    },
};

/// Inputs of a profile's filters.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct FilterSpec {
    /// The Landlock ABI of the kernel. Where it lacks a right, the filters stand in.
    pub landlock_abi: u32,
    /// Whether the hook may change modes, owners, times and extended attributes.
    pub metadata: Metadata,
    /// Whether the set-up makes mounts, which the hook itself never may.
    pub mounts: bool,
    /// The hook's network right.
    pub network: Network,
    /// The tasks that the hook may start.
    pub spawn: Spawn,
    /// Whether the hook has a process tree of its own, which ends with its first process.
    pub view: HookView,
}

impl FilterSpec {
    /// Returns the inputs of a policy's filters on a kernel.
    pub const fn new(policy: &Policy, landlock_abi: u32) -> Self {
        Self {
            landlock_abi,
            metadata: policy.metadata,
            mounts: policy.files.keep()
                || policy.limits.scratch.is_some()
                || matches!(policy.view, HookView::Own),
            network: policy.network,
            spawn: policy.spawn,
            view: policy.view,
        }
    }
}

/// Rule for a syscall.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub enum Rule {
    /// The call is allowed.
    Allow,
    /// Allowed in some ways, and fails in all others.
    AllowWhen {
        /// The ways: all tests of one of them hold.
        ways: Vec<Vec<ArgTest>>,
        /// The errno of the call in any other way.
        otherwise: i32,
    },
    /// The call fails with this errno.
    Errno(i32),
    /// The call kills the hook with SIGSYS.
    Kill,
}

impl Rule {
    /// Returns the rule that a call is allowed in these ways, and fails with EPERM otherwise.
    const fn when(ways: Vec<Vec<ArgTest>>) -> Self {
        Self::AllowWhen {
            ways,
            otherwise: libc::EPERM,
        }
    }
}

/// Returns the rule for the syscall `nr` of a hook confined to `spec`.
pub fn rule(spec: &FilterSpec, nr: u32) -> Rule {
    weakened(nr, specified(spec, nr))
}

/// Returns a rule without the elements that tests take out of it.
fn weakened(nr: u32, specified: Rule) -> Rule {
    let name = syscalls::name(nr).unwrap_or_default();
    if mutants::lacks("seccomp", name) {
        return Rule::Allow;
    }
    let Rule::AllowWhen {
        mut ways,
        otherwise,
    } = specified
    else {
        return specified;
    };
    for way in &mut ways {
        way.retain(|test| !mutants::lacks("argument", format_args!("{name}:{}", test.index)));
    }
    if ways.iter().any(Vec::is_empty) {
        return Rule::Allow;
    }
    Rule::AllowWhen { ways, otherwise }
}

fn specified(spec: &FilterSpec, nr: u32) -> Rule {
    if syscalls::is_foreign(nr) {
        return Rule::Kill;
    }
    // First, because the lists below also name calls that this architecture does not have.
    if syscalls::name(nr).is_none() || MISSING.contains(&nr) {
        return Rule::Errno(libc::ENOSYS);
    }
    if KILLED.contains(&nr) {
        return Rule::Kill;
    }
    if let Some(rule) = stand_in(spec.landlock_abi, nr) {
        return rule;
    }
    if GROUPS.iter().any(|group| group.contains(&nr)) {
        return Rule::Allow;
    }
    match nr {
        nr::chmod | nr::fchmod if spec.metadata == Metadata::Change => unprivileged_mode(1),
        // Threads of every runtime, and children where the profile has processes.
        nr::clone => Rule::when(vec![vec![clone_flags(spec.spawn)]]),
        // Old programs, for `open`.
        nr::creat => unprivileged_mode(1),
        // SQLite and databases. Only to allocate what is to be written anyhow: with `FALLOC_FL_KEEP_SIZE` it passes the limit on a file's size.
        nr::fallocate => one_of(1, &[0]),
        nr::fchmodat | nr::fchmodat2 if spec.metadata == Metadata::Change => unprivileged_mode(2),
        // Everybody: shells, Python, SQLite.
        nr::fcntl => one_of(1, &FCNTL_COMMANDS),
        // Everybody: whether a descriptor is a terminal. Any other request fails as on a descriptor that does not have it: C libraries take
        // that for an answer, and EPERM for a fault.
        nr::ioctl => {
            let of_terminals: &[_] = match spec.view {
                HookView::Machine => &[],
                HookView::Own => &TERMINAL_REQUESTS,
            };
            Rule::AllowWhen {
                ways: values(1, &[&IOCTL_REQUESTS, of_terminals].concat()),
                otherwise: libc::ENOTTY,
            }
        }
        // `ionice`. Of itself only, here and in the calls below that take a process, a group or a user: 0 is the caller.
        nr::ioprio_set => Rule::when(vec![vec![
            ArgTest::int(0, IOPRIO_WHO_PROCESS),
            ArgTest::int(1, 0),
        ]]),
        // Everybody who opens files; musl and older C libraries by the first.
        nr::open => opens(1, &opens_that_need_a_right(1)),
        nr::openat => opens(2, &opens_that_need_a_right(2)),
        // `mkfifo`, make for its jobs. Landlock lets a hook make named pipes only among its own temporary files.
        nr::mknod if has_own_directory(spec) => named_pipe(1),
        nr::mknodat if has_own_directory(spec) => named_pipe(2),
        // Node, Java, glibc: names of threads and mappings.
        nr::prctl => Rule::when(prctl_ways()),
        // glibc for `getrlimit` and `setrlimit`: `ulimit`, gpg, Java, Go. Hard limits stay: to raise one takes a capability.
        nr::prlimit64 => own_task(0),
        // `taskset`, OpenMP. A thread other than the caller has a number that is unknown to filters.
        nr::sched_setaffinity => own_task(0),
        // Thread libraries. Without a policy of real time the only priority is 0.
        nr::sched_setparam => own_task(0),
        // `chrt -b`, `chrt -i`, build tools. No real time, which some users may have. Not `sched_setattr`, whose policy lies behind a pointer.
        nr::sched_setscheduler => Rule::when(
            [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE]
                .map(|policy| vec![ArgTest::int(0, 0), scheduling_policy(policy)])
                .into(),
        ),
        // `nice`, Node. The kernel lets it lower its own alone, but for users who may raise theirs anywhere.
        nr::setpriority => Rule::when(vec![vec![
            ArgTest::int(0, PRIO_PROCESS),
            ArgTest::int(1, 0),
        ]]),
        // Node, Go.
        nr::setsockopt => Rule::when(socket_options(spec.network)),
        // Node and Python, for pipes to children. A datagram half could be addressed to any socket of the host by its path; a half of one of these is connected for good. Rust
        // starts processes with the second.
        nr::socketpair => Rule::when(
            [libc::SOCK_STREAM, libc::SOCK_SEQPACKET]
                .map(|kind| vec![int(0, libc::AF_UNIX), socket_type(kind)])
                .into(),
        ),
        // `mv`, Rust and Go, for `rename`. A whiteout is a device file, the one that needs no privilege.
        nr::renameat2 => Rule::when(vec![vec![ArgTest::bits(
            4,
            libc::RENAME_WHITEOUT.into(),
            0,
        )]]),
        // musl and older shells start children by these.
        nr::fork | nr::vfork => allow_if(spec.spawn == Spawn::Processes),
        // Node, Rust: writing a socket pair. Without an address it is `send`, on what is connected already.
        nr::sendto if spec.network == Network::None && !has_own_sockets(spec) => {
            Rule::when(vec![vec![ArgTest::null(4)]])
        }
        // The daemon alone connects a socket: a send names no address and opens no connection.
        nr::sendto if spec.network == Network::Named => {
            Rule::when(vec![vec![ArgTest::null(4), no_fast_open(3)]])
        }
        nr::sendmsg if spec.network == Network::Named => Rule::when(vec![vec![no_fast_open(2)]]),
        nr::sendmmsg if spec.network == Network::Named => Rule::when(vec![vec![no_fast_open(3)]]),
        nr::recvmmsg if spec.network == Network::Named => Rule::Allow,
        nr::sendto => Rule::Allow,
        // `timeout`, shells with job control, daemons of build tools. In a tree of its own nothing leaves by it.
        nr::setpgid | nr::setsid => {
            allow_if(spec.view == HookView::Own && spec.spawn == Spawn::Processes)
        }
        nr::socket if spec.network == Network::Outbound => Rule::when(internet_sockets()),
        // Not UDP: each call on it could name another address, behind a pointer.
        nr::socket if spec.network == Network::Named => Rule::when(internet_streams()),
        nr::socket if has_own_sockets(spec) => Rule::when(own_sockets()),
        // tsx, Node's and Python's servers for their own children; C libraries that list network interfaces.
        nr::accept | nr::accept4 | nr::bind | nr::listen => allow_if(has_own_sockets(spec)),
        _ if OUTBOUND.contains(&nr) => allow_if(spec.network == Network::Outbound),
        _ if XATTR_READS.contains(&nr) && spec.metadata == Metadata::Keep => {
            Rule::Errno(libc::ENOTSUP)
        }
        _ if [&XATTR_READS[..], &METADATA, &WATCHES]
            .iter()
            .any(|group| group.contains(&nr)) =>
        {
            allow_if(spec.metadata == Metadata::Change)
        }
        _ => Rule::Errno(libc::EPERM),
    }
}

/// Returns whether a call names files by path. The grants then decide what it reaches.
pub fn is_about_paths(nr: u32) -> bool {
    let others = [
        nr::creat,
        nr::execve,
        nr::execveat,
        nr::open,
        nr::openat,
        nr::renameat2,
    ];
    PATHS.contains(&nr) || others.contains(&nr)
}

/// Returns the axis of a denied call. `None`: no axis covers it.
pub fn axis(nr: u32) -> Option<Axis> {
    match nr {
        nr::accept
        | nr::accept4
        | nr::bind
        | nr::connect
        | nr::listen
        | nr::recvmmsg
        | nr::sendmmsg
        | nr::sendmsg
        | nr::sendto
        | nr::socket
        | nr::socketpair => Some(Axis::Network),
        nr::clone | nr::clone3 | nr::fork | nr::setpgid | nr::setsid | nr::vfork => {
            Some(Axis::Spawn)
        }
        nr::ioctl | nr::mknod | nr::mknodat => Some(Axis::Devices),
        nr::memfd_create | nr::uselib => Some(Axis::Execute),
        _ if [&METADATA[..], &WATCHES, &XATTR_READS]
            .iter()
            .any(|group| group.contains(&nr)) =>
        {
            Some(Axis::Metadata)
        }
        _ => {
            let name = syscalls::name(nr).unwrap_or_default();
            let is = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
            if is(&["sched_", "setpriority", "ioprio_"]) {
                Some(Axis::Cpu)
            } else if is(&["mlock", "munlock", "mbind", "set_mempolicy", "memfd_secret"]) {
                Some(Axis::Memory)
            } else if is(&[
                "shm",
                "sem",
                "msg",
                "mq_",
                "add_key",
                "request_key",
                "keyctl",
                "tkill",
                "rt_",
                "pidfd_",
                "process_",
                "kcmp",
                "ptrace",
            ]) {
                Some(Axis::Ipc)
            } else {
                None
            }
        }
    }
}

/// Returns the rule that stands in for a right that the kernel's Landlock lacks. `None`: none is needed for `nr`.
///
/// An ABI below 5 needs none: the list of `ioctl` requests is always on. Nor does `creat` below 3, which opens for writing:
/// Landlock requires the right to write for that.
fn stand_in(landlock_abi: u32, nr: u32) -> Option<Rule> {
    let no_truncate = landlock_abi < 3;
    let no_signal_scope = landlock_abi < 6;
    match nr {
        nr::open if no_truncate => Some(opens(1, &opens_that_keep_content(1))),
        nr::openat if no_truncate => Some(opens(2, &opens_that_keep_content(2))),
        nr::truncate if no_truncate => Some(Rule::Errno(libc::EPERM)),
        nr::kill if no_signal_scope => Some(Rule::when(vec![
            vec![ArgTest::own_pid(0)],
            vec![ArgTest::int(0, 0)],
            vec![ArgTest::own_group(0)],
        ])),
        nr::tgkill if no_signal_scope => Some(Rule::when(vec![vec![ArgTest::own_pid(0)]])),
        _ => None,
    }
}

/// Bits that hold the access mode of an open in the kernel. Not `O_ACCMODE`: musl's has `O_PATH` among them.
pub(crate) const ACCESS_MODE: libc::c_int = libc::O_RDONLY | libc::O_WRONLY | libc::O_RDWR;

/// Returns the ways to open a file for reading, for writing or for both.
///
/// The fourth access mode is for neither, so Landlock requires no right at all: the mode would open any device outside, and
/// make files without a name in any directory.
fn opens_that_need_a_right(flags: u8) -> Vec<Vec<ArgTest>> {
    let without = |bit: libc::c_int| vec![ArgTest::bits(flags, bit as u64, 0)];
    vec![without(libc::O_WRONLY), without(libc::O_RDWR)]
}

/// Returns the same ways, except truncating a file without the right to write it.
///
/// With `O_TRUNC` the kernel truncates under every access mode. Without a right of its own for it, Landlock requires only the
/// rights of the mode: nothing to write for `O_RDONLY`.
fn opens_that_keep_content(flags: u8) -> Vec<Vec<ArgTest>> {
    let is = |mask: libc::c_int, value: libc::c_int| {
        vec![ArgTest::bits(flags, mask as u64, value as u64)]
    };
    vec![
        is(ACCESS_MODE | libc::O_TRUNC, libc::O_RDONLY),
        is(ACCESS_MODE, libc::O_WRONLY),
        is(ACCESS_MODE, libc::O_RDWR),
    ]
}

/// Mode bits that give a file's executor the rights of the hook's user or group. They outlast the hook.
const SET_ID: u64 = (libc::S_ISUID | libc::S_ISGID) as u64;

/// Returns these ways to open a file, except making one with a bit of [`SET_ID`]. The mode follows the flags, and counts only
/// where a file is made.
fn opens(flags: u8, ways: &[Vec<ArgTest>]) -> Rule {
    // `O_TMPFILE` without `O_DIRECTORY`, which it has in it.
    const MAKES: u64 = (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)) as u64;
    let makes_none = ArgTest::bits(flags, MAKES, 0);
    let unprivileged = ArgTest::bits(flags + 1, SET_ID, 0);
    let with = |way: &Vec<ArgTest>| {
        [makes_none, unprivileged].map(|test| way.iter().copied().chain([test]).collect())
    };
    Rule::when(ways.iter().flat_map(with).collect())
}

/// Returns the rule for a call that sets a file's mode. The kernel takes the mode from the argument at `index`.
fn unprivileged_mode(index: u8) -> Rule {
    Rule::when(vec![vec![ArgTest::bits(index, SET_ID, 0)]])
}

/// Returns whether named pipes can be made in the hook's own directory alone: by Landlock, which containers do not have.
fn has_own_directory(spec: &FilterSpec) -> bool {
    spec.view == HookView::Own && spec.mounts
}

/// Returns the rule for a call that makes a file of a kind, for named pipes. The mode is the argument at `index`.
fn named_pipe(index: u8) -> Rule {
    let mask = u64::from(libc::S_IFMT) | SET_ID;
    Rule::when(vec![vec![ArgTest::bits(index, mask, libc::S_IFIFO.into())]])
}

/// Returns the test on the flags of `clone`. The exit signal, in the lowest byte, is free, as it goes to the parent, which only
/// `CLONE_PARENT` could make a process outside.
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

/// Returns whether a hook may listen on sockets of its own and list network interfaces.
///
/// Landlock lets it make a socket with a path only among its own temporary files. `connect` stays shut, as it would reach every
/// socket of the hook's user. So not beside outbound internet sockets, which need it.
fn has_own_sockets(spec: &FilterSpec) -> bool {
    spec.view == HookView::Own && spec.network == Network::None
}

/// Returns the ways to make those sockets. A netlink socket of this protocol answers questions; changes need a capability.
fn own_sockets() -> Vec<Vec<ArgTest>> {
    let netlink = |kind| {
        vec![
            int(0, libc::AF_NETLINK),
            socket_type(kind),
            int(2, libc::NETLINK_ROUTE),
        ]
    };
    vec![
        vec![
            int(0, libc::AF_UNIX),
            socket_type(libc::SOCK_STREAM),
            int(2, 0),
        ],
        netlink(libc::SOCK_RAW),
        netlink(libc::SOCK_DGRAM),
    ]
}

/// Returns the test that a call opens no connection with its first bytes.
const fn no_fast_open(flags: u8) -> ArgTest {
    ArgTest::bits(flags, libc::MSG_FASTOPEN as u64, 0)
}

/// Returns the ways to make a socket for TCP.
fn internet_streams() -> Vec<Vec<ArgTest>> {
    internet_sockets_of(&[(libc::SOCK_STREAM, libc::IPPROTO_TCP)])
}

/// Returns the ways to make a socket for TCP or UDP only. Not MPTCP, which Landlock does not see, and not ICMP.
fn internet_sockets() -> Vec<Vec<ArgTest>> {
    internet_sockets_of(&[
        (libc::SOCK_STREAM, libc::IPPROTO_TCP),
        (libc::SOCK_DGRAM, libc::IPPROTO_UDP),
    ])
}

fn internet_sockets_of(kinds: &[(libc::c_int, libc::c_int)]) -> Vec<Vec<ArgTest>> {
    let mut ways = Vec::new();
    for domain in [libc::AF_INET, libc::AF_INET6] {
        for &(kind, own_protocol) in kinds {
            for protocol in [0, own_protocol] {
                ways.push(vec![int(0, domain), socket_type(kind), int(2, protocol)]);
            }
        }
    }
    ways
}

/// Returns the ways to set an option of a socket.
fn socket_options(network: Network) -> Vec<Vec<ArgTest>> {
    let every: &[(_, &[_])] = &[(libc::SOL_SOCKET, &SOCKET_OPTIONS)];
    let is_open = |way: &(_, _)| network != Network::Named || !NOT_NAMED.contains(way);
    let outbound: &[(_, &[_])] = match network {
        Network::None => &[],
        Network::Named => &[
            (libc::SOL_SOCKET, &NETWORK_OPTIONS),
            (libc::IPPROTO_IP, &IP_OPTIONS),
            (libc::IPPROTO_IPV6, &IPV6_OPTIONS),
            (libc::IPPROTO_TCP, &TCP_OPTIONS),
        ],
        Network::Outbound => &[
            (libc::SOL_SOCKET, &NETWORK_OPTIONS),
            (libc::IPPROTO_IP, &IP_OPTIONS),
            (libc::IPPROTO_IPV6, &IPV6_OPTIONS),
            (libc::IPPROTO_TCP, &TCP_OPTIONS),
            (libc::IPPROTO_UDP, &UDP_OPTIONS),
        ],
    };
    let levels = every.iter().chain(outbound);
    let ways = levels.flat_map(|&(level, options)| {
        let options = options.iter();
        options.map(move |&option| (level, option))
    });
    let ways = ways.filter(is_open);
    ways.map(|(level, option)| vec![int(1, level), int(2, option)])
        .collect()
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

fn one_of(index: u8, allowed: &[u64]) -> Rule {
    Rule::when(values(index, allowed))
}

/// Returns a way for each value of an argument.
fn values(index: u8, allowed: &[u64]) -> Vec<Vec<ArgTest>> {
    allowed
        .iter()
        .map(|&value| vec![ArgTest::int(index, value)])
        .collect()
}

/// Returns the rule for a call that acts on the task named by the argument at `index`: the caller, by the number 0.
fn own_task(index: u8) -> Rule {
    Rule::when(vec![vec![ArgTest::int(index, 0)]])
}

/// Returns the ways to call `prctl`. Two options are open for one value alone.
///
/// One is not to be dumped or traced (gpg, ssh-agent). The default again would open a program that cannot be read.
/// The other is to be killed with the parent (`setpriv`, Go, Node's tools). No signal, or one that can be ignored, would have a
/// hook outlive its daemon.
fn prctl_ways() -> Vec<Vec<ArgTest>> {
    let with = |option, value| vec![int(0, option), int(1, value)];
    let mut ways = values(0, &PRCTL_OPTIONS);
    ways.extend([
        with(libc::PR_SET_DUMPABLE, 0),
        with(libc::PR_SET_PDEATHSIG, libc::SIGKILL),
    ]);
    ways
}

/// Returns the test that `sched_setscheduler` sets a policy, for children as well or not.
const fn scheduling_policy(policy: libc::c_int) -> ArgTest {
    ArgTest::bits(
        1,
        !(libc::SCHED_RESET_ON_FORK as u64) & 0xffff_ffff,
        policy as u64,
    )
}

/// `which` of `setpriority` and of `ioprio_set` for one process, or thread.
const PRIO_PROCESS: u64 = 0;
const IOPRIO_WHO_PROCESS: u64 = 1;

const fn allow_if(allowed: bool) -> Rule {
    if allowed {
        Rule::Allow
    } else {
        Rule::Errno(libc::EPERM)
    }
}

/// Namespaces that a legacy `clone` can make. Not `CLONE_NEWTIME`: the bit belongs to the exit signal there.
const NAMESPACES: u64 = (libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWUTS) as u64;

#[cfg(test)]
mod tests;
