//! The calls of the table by group: what a hook finds under any profile, and what depends on it.
//!
//! One list for every architecture: what one does not have is in its table as absent, and a hook finds it missing there.

use super::super::syscalls::nr;

/// Calls no hook ever needs: whoever makes one is trying to get out.
pub(super) const KILLED: [u32; 34] = [
    // The view of the file system.
    nr::fsconfig,
    nr::fsmount,
    nr::fsopen,
    nr::fspick,
    nr::mount,
    nr::mount_setattr,
    nr::move_mount,
    nr::open_by_handle_at,
    nr::open_tree,
    nr::open_tree_attr,
    nr::pivot_root,
    nr::setns,
    nr::umount2,
    nr::unshare,
    // The kernel itself and its accounts.
    nr::acct,
    nr::bpf,
    nr::delete_module,
    nr::finit_module,
    nr::init_module,
    nr::ioperm,
    nr::iopl,
    nr::kexec_file_load,
    nr::kexec_load,
    nr::perf_event_open,
    nr::quotactl,
    nr::quotactl_fd,
    nr::reboot,
    nr::swapoff,
    nr::swapon,
    nr::userfaultfd,
    // The memory and the files of other processes.
    nr::pidfd_getfd,
    nr::process_vm_readv,
    nr::process_vm_writev,
    nr::ptrace,
];

/// Calls a hook finds missing, so that C libraries and runtimes take the older way.
pub(super) const MISSING: [u32; 8] = [
    // Their flags lie behind a pointer.
    nr::clone3,
    nr::openat2,
    // A second door to most calls, past every filter.
    nr::io_uring_enter,
    nr::io_uring_register,
    nr::io_uring_setup,
    // A hook inside a domain has no use for its own; 16 layers is all there are.
    nr::landlock_add_rule,
    nr::landlock_create_ruleset,
    nr::landlock_restrict_self,
];

/// What every hook may call, whatever the arguments.
pub(super) const GROUPS: [&[u32]; 9] = [
    &CLOCKS,
    &DESCRIPTORS,
    &IDENTITY,
    &LOCAL_SOCKETS,
    &MEMORY,
    &PATHS,
    &SIGNALS,
    &START_UP,
    &TASKS,
];

/// Reading clocks, waiting, and timers of one's own.
const CLOCKS: [u32; 15] = [
    nr::alarm,
    nr::clock_getres,
    nr::clock_gettime,
    nr::clock_nanosleep,
    nr::getitimer,
    nr::gettimeofday,
    nr::nanosleep,
    // The kernel makes it in the hook's name to resume a wait that a stop has interrupted.
    nr::restart_syscall,
    nr::setitimer,
    nr::time,
    // `timeout` rounds to whole seconds without them.
    nr::timer_create,
    nr::timer_delete,
    nr::timer_getoverrun,
    nr::timer_gettime,
    nr::timer_settime,
];

/// Work on descriptors that are open already, `fcntl` and `ioctl` apart.
const DESCRIPTORS: [u32; 44] = [
    nr::close,
    nr::close_range,
    nr::copy_file_range,
    nr::dup,
    nr::dup2,
    nr::dup3,
    nr::epoll_create,
    nr::epoll_create1,
    nr::epoll_ctl,
    nr::epoll_pwait,
    nr::epoll_pwait2,
    nr::epoll_wait,
    nr::eventfd,
    nr::eventfd2,
    nr::fadvise64,
    nr::fdatasync,
    nr::flock,
    nr::fsync,
    nr::ftruncate,
    nr::lseek,
    nr::pipe,
    nr::pipe2,
    nr::poll,
    nr::ppoll,
    nr::pread64,
    nr::preadv,
    nr::preadv2,
    nr::pselect6,
    nr::pwrite64,
    nr::pwritev,
    nr::pwritev2,
    nr::read,
    nr::readv,
    nr::select,
    nr::sendfile,
    nr::signalfd,
    nr::signalfd4,
    nr::splice,
    nr::tee,
    nr::timerfd_create,
    nr::timerfd_gettime,
    nr::timerfd_settime,
    nr::write,
    nr::writev,
];

/// Who the hook is. Harmless where one can ask about others: start-up code of C libraries and runtimes asks.
const IDENTITY: [u32; 19] = [
    nr::capget,
    nr::getegid,
    nr::geteuid,
    nr::getgid,
    nr::getgroups,
    nr::getpgid,
    nr::getpgrp,
    nr::getpid,
    nr::getppid,
    nr::getpriority,
    nr::getresgid,
    nr::getresuid,
    nr::getrlimit,
    nr::getsid,
    nr::gettid,
    nr::getuid,
    nr::sched_getaffinity,
    nr::sched_getparam,
    nr::sched_getscheduler,
];

/// Both halves of a socket pair, which nothing outside can reach.
const LOCAL_SOCKETS: [u32; 7] = [
    nr::getpeername,
    nr::getsockname,
    nr::getsockopt,
    nr::recvfrom,
    nr::recvmsg,
    nr::setsockopt,
    nr::shutdown,
];

/// The hook's own memory.
const MEMORY: [u32; 12] = [
    nr::brk,
    nr::madvise,
    nr::membarrier,
    nr::mincore,
    nr::mmap,
    nr::mprotect,
    nr::mremap,
    nr::msync,
    nr::munmap,
    nr::pkey_alloc,
    nr::pkey_free,
    nr::pkey_mprotect,
];

/// Calls on paths and directories. Landlock decides which; looking at metadata it does not see.
pub(super) const PATHS: [u32; 30] = [
    nr::access,
    nr::chdir,
    nr::faccessat,
    nr::faccessat2,
    nr::fchdir,
    nr::fstat,
    nr::fstatfs,
    nr::getcwd,
    nr::getdents,
    nr::getdents64,
    nr::link,
    nr::linkat,
    nr::lstat,
    nr::mkdir,
    nr::mkdirat,
    nr::newfstatat,
    nr::readlink,
    nr::readlinkat,
    nr::rename,
    nr::renameat,
    nr::rmdir,
    nr::stat,
    nr::statfs,
    nr::statx,
    nr::symlink,
    nr::symlinkat,
    nr::truncate,
    nr::umask,
    nr::unlink,
    nr::unlinkat,
];

/// Signals. Landlock keeps those the hook sends within its own domain; the queueing calls can forge a sender.
const SIGNALS: [u32; 10] = [
    nr::kill,
    nr::pause,
    nr::rt_sigaction,
    nr::rt_sigpending,
    nr::rt_sigprocmask,
    nr::rt_sigreturn,
    nr::rt_sigsuspend,
    nr::rt_sigtimedwait,
    nr::sigaltstack,
    nr::tgkill,
];

/// What a C library does before `main`, and what a runtime asks to size its pools.
const START_UP: [u32; 12] = [
    nr::arch_prctl,
    nr::getcpu,
    nr::getrandom,
    nr::rseq,
    nr::sched_get_priority_max,
    nr::sched_get_priority_min,
    nr::set_robust_list,
    nr::set_tid_address,
    nr::sysinfo,
    nr::uname,
    // Executing in place changes nothing about the confinement.
    nr::execve,
    nr::execveat,
];

/// Threads and children: ending, waiting, waking each other, and what they have used.
const TASKS: [u32; 12] = [
    nr::exit,
    nr::exit_group,
    nr::futex,
    nr::futex_requeue,
    nr::futex_wait,
    nr::futex_waitv,
    nr::futex_wake,
    nr::getrusage,
    nr::sched_yield,
    nr::times,
    nr::wait4,
    nr::waitid,
];

/// What it takes to use a socket to the outside. Not `bind`, `listen` and `accept`: nobody outside can start a talk.
pub(super) const OUTBOUND: [u32; 4] = [nr::connect, nr::recvmmsg, nr::sendmmsg, nr::sendmsg];

/// Reading extended attributes. ENOTSUP is what a file system without them says; `ls -l` fails on EPERM.
pub(super) const XATTR_READS: [u32; 8] = [
    nr::fgetxattr,
    nr::flistxattr,
    nr::getxattr,
    nr::getxattrat,
    nr::lgetxattr,
    nr::listxattr,
    nr::listxattrat,
    nr::llistxattr,
];

/// Changing modes, owners, times and extended attributes, none of which Landlock sees.
pub(super) const METADATA: [u32; 20] = [
    nr::chmod,
    nr::chown,
    nr::fchmod,
    nr::fchmodat,
    nr::fchmodat2,
    nr::fchown,
    nr::fchownat,
    nr::fremovexattr,
    nr::fsetxattr,
    nr::futimesat,
    nr::lchown,
    nr::lremovexattr,
    nr::lsetxattr,
    nr::removexattr,
    nr::removexattrat,
    nr::setxattr,
    nr::setxattrat,
    nr::utime,
    nr::utimensat,
    nr::utimes,
];

/// Duplicates, flags and byte-range locks. Not owners and signals, leases, notifications, pipe sizes, seals.
pub(super) const FCNTL_COMMANDS: [u64; 12] = [
    libc::F_DUPFD as u64,
    libc::F_DUPFD_CLOEXEC as u64,
    libc::F_GETFD as u64,
    libc::F_GETFL as u64,
    libc::F_GETLK as u64,
    libc::F_OFD_GETLK as u64,
    libc::F_OFD_SETLK as u64,
    libc::F_OFD_SETLKW as u64,
    libc::F_SETFD as u64,
    libc::F_SETFL as u64,
    libc::F_SETLK as u64,
    libc::F_SETLKW as u64,
];

/// What programs ask of any descriptor before they use it. Nothing that changes a device or types into a terminal.
pub(super) const IOCTL_REQUESTS: [u64; 7] = [
    request(libc::FIOCLEX),
    request(libc::FIONBIO),
    request(libc::FIONCLEX),
    request(libc::FIONREAD),
    request(libc::TCGETS),
    request(libc::TIOCGPGRP),
    request(libc::TIOCGWINSZ),
];

/// Returns a request as filters compare it. C libraries declare it with different types; none of these is negative.
#[cfg_attr(
    not(target_env = "musl"),
    expect(clippy::unnecessary_cast, reason = "musl alone has another type")
)]
const fn request(request: libc::Ioctl) -> u64 {
    request as u64
}

/// Names, and questions. Nothing that outlives the kill, opens the memory to a tracer or turns speculation loose.
pub(super) const PRCTL_OPTIONS: [u64; 8] = [
    libc::PR_CAPBSET_READ as u64,
    libc::PR_GET_DUMPABLE as u64,
    libc::PR_GET_NAME as u64,
    libc::PR_GET_NO_NEW_PRIVS as u64,
    libc::PR_GET_SECCOMP as u64,
    libc::PR_SET_NAME as u64,
    libc::PR_SET_NO_NEW_PRIVS as u64,
    libc::PR_SET_VMA as u64,
];
