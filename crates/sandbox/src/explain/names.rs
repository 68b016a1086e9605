//! Names of syscall parameters and values that rules test, for display.

use crate::seccomp::syscalls::nr;

/// Returns the names of a call's parameters, as far as any rule tests them.
pub(crate) fn parameters(number: u32) -> &'static [&'static str] {
    match number {
        nr::chmod | nr::creat => &["path", "mode"],
        nr::clone => &["flags"],
        nr::fallocate => &["fd", "mode"],
        nr::fchmod => &["fd", "mode"],
        nr::fchmodat | nr::fchmodat2 => &["dirfd", "path", "mode"],
        nr::fcntl => &["fd", "cmd"],
        nr::ioctl => &["fd", "request"],
        nr::kill => &["pid", "sig"],
        nr::open => &["path", "flags", "mode"],
        nr::openat => &["dirfd", "path", "flags", "mode"],
        nr::prctl => &["option", "value"],
        nr::prlimit64 => &["pid", "resource", "new_limit"],
        nr::sched_setaffinity | nr::sched_setparam => &["pid"],
        nr::sched_setscheduler => &["pid", "policy"],
        nr::ioprio_set | nr::setpriority => &["which", "who", "value"],
        nr::renameat2 => &["olddirfd", "oldpath", "newdirfd", "newpath", "flags"],
        nr::sendto => &["fd", "buffer", "length", "flags", "address"],
        nr::setsockopt => &["fd", "level", "option"],
        nr::socket | nr::socketpair => &["domain", "type", "protocol"],
        nr::tgkill => &["tgid", "tid", "sig"],
        _ => &[],
    }
}

/// Returns the named values of a parameter.
pub(crate) fn constants(number: u32, index: u8) -> &'static [(&'static str, u64)] {
    match (number, index) {
        (nr::chmod | nr::creat | nr::fchmod, 1)
        | (nr::fchmodat | nr::fchmodat2 | nr::open, 2)
        | (nr::openat, 3) => &MODE,
        (nr::clone, 0) => &CLONE,
        (nr::fallocate, 1) => &FALLOCATE,
        (nr::fcntl, 1) => &FCNTL,
        (nr::ioctl, 1) => &IOCTL,
        (nr::open, 1) | (nr::openat, 2) => &OPEN,
        (nr::ioprio_set, 0) => &IOPRIO_WHO,
        (nr::prctl, 0) => &PRCTL,
        (nr::sched_setscheduler, 1) => &POLICY,
        (nr::setpriority, 0) => &PRIO,
        (nr::renameat2, 4) => &RENAME,
        // The names of options differ by level.
        (nr::setsockopt, 1) => &LEVEL,
        (nr::socket | nr::socketpair, 0) => &DOMAIN,
        (nr::socket | nr::socketpair, 1) => &TYPE,
        (nr::socket | nr::socketpair, 2) => &PROTOCOL,
        _ => &[],
    }
}

/// Defines a table of libc constants, which are small or flags and never negative.
macro_rules! table {
    ($table:ident: $($name:ident)*) => {
        const $table: [(&str, u64); [$(stringify!($name)),*].len()] = [
            $((stringify!($name), libc::$name as u64)),*
        ];
    };
}

table!(CLONE: CLONE_NEWCGROUP CLONE_NEWIPC CLONE_NEWNET CLONE_NEWNS CLONE_NEWPID CLONE_NEWUSER CLONE_NEWUTS
    CLONE_FILES CLONE_FS CLONE_PARENT CLONE_PIDFD CLONE_SIGHAND CLONE_SYSVSEM CLONE_THREAD CLONE_VFORK CLONE_VM SIGCHLD);
table!(FALLOCATE: FALLOC_FL_KEEP_SIZE FALLOC_FL_PUNCH_HOLE FALLOC_FL_COLLAPSE_RANGE FALLOC_FL_ZERO_RANGE
    FALLOC_FL_INSERT_RANGE FALLOC_FL_UNSHARE_RANGE);
table!(MODE: S_ISUID S_ISGID S_ISVTX);
table!(RENAME: RENAME_NOREPLACE RENAME_EXCHANGE RENAME_WHITEOUT);
table!(FCNTL: F_DUPFD F_DUPFD_CLOEXEC F_GETFD F_GETFL F_GETLK F_OFD_GETLK F_OFD_SETLK F_OFD_SETLKW F_SETFD F_SETFL
    F_SETLK F_SETLKW F_GETOWN F_SETOWN F_SETLEASE F_NOTIFY F_SETPIPE_SZ F_GETPIPE_SZ F_ADD_SEALS);
table!(IOCTL: FIOCLEX FIONBIO FIONCLEX FIONREAD TCGETS TCGETS2 TIOCGPGRP TIOCGSID TIOCGWINSZ TIOCOUTQ TIOCSTI FIOASYNC
    TCFLSH TCSBRK TCSETS TCSETS2 TCSETSF TCSETSF2 TCSETSW TCSETSW2 TCXONC TIOCEXCL TIOCGPTLCK TIOCGPTN TIOCGPTPEER TIOCNOTTY
    TIOCPKT TIOCSCTTY TIOCSPGRP TIOCSPTLCK TIOCSWINSZ);
/// libc does not have these.
const IOPRIO_WHO: [(&str, u64); 3] = [
    ("IOPRIO_WHO_PROCESS", 1),
    ("IOPRIO_WHO_PGRP", 2),
    ("IOPRIO_WHO_USER", 3),
];
table!(POLICY: SCHED_OTHER SCHED_BATCH SCHED_IDLE SCHED_FIFO SCHED_RR SCHED_DEADLINE SCHED_RESET_ON_FORK);
table!(PRIO: PRIO_PROCESS PRIO_PGRP PRIO_USER);
table!(OPEN: O_RDONLY O_WRONLY O_RDWR O_APPEND O_CLOEXEC O_CREAT O_DIRECTORY O_EXCL O_NOFOLLOW O_NONBLOCK O_PATH O_TMPFILE O_TRUNC);
table!(PRCTL: PR_CAPBSET_READ PR_GET_DUMPABLE PR_GET_NAME PR_GET_NO_NEW_PRIVS PR_GET_SECCOMP PR_SET_NAME
    PR_SET_NO_NEW_PRIVS PR_SET_VMA PR_GET_CHILD_SUBREAPER PR_GET_PDEATHSIG PR_SET_DUMPABLE PR_SET_PDEATHSIG PR_SET_SECCOMP PR_SET_PTRACER
    PR_SET_CHILD_SUBREAPER PR_SET_KEEPCAPS PR_SET_SECUREBITS PR_CAPBSET_DROP PR_CAP_AMBIENT PR_SET_MM PR_SET_THP_DISABLE);
table!(LEVEL: SOL_SOCKET IPPROTO_IP IPPROTO_IPV6 IPPROTO_TCP IPPROTO_UDP);
table!(DOMAIN: AF_UNIX AF_INET AF_INET6 AF_NETLINK AF_PACKET AF_VSOCK AF_ALG AF_KEY);
table!(TYPE: SOCK_STREAM SOCK_DGRAM SOCK_RAW SOCK_SEQPACKET SOCK_CLOEXEC SOCK_NONBLOCK);
table!(PROTOCOL: IPPROTO_TCP IPPROTO_UDP IPPROTO_ICMP IPPROTO_ICMPV6 IPPROTO_SCTP IPPROTO_UDPLITE IPPROTO_MPTCP IPPROTO_RAW);
