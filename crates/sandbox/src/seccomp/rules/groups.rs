//! The calls of the rule table by group, open under every profile or depending on it.
//!
//! One list for every architecture: a call that one does not have is in its table as absent, and a hook finds it missing there.

use crate::seccomp::syscalls::nr;

/// Calls that no hook needs: a task that makes one attempts to escape.
pub(crate) const KILLED: [u32; 34] = [
    // The view of the file system.
    nr::fsconfig,          // mounts
    nr::fsmount,           // mounts
    nr::fsopen,            // mounts
    nr::fspick,            // mounts
    nr::mount,             // mounts, once there is a user namespace
    nr::mount_setattr,     // makes read-only mounts writable
    nr::move_mount,        // covers a directory with another
    nr::open_by_handle_at, // opens files past every path
    nr::open_tree,         // clones mounts
    nr::open_tree_attr,    // clones mounts with other flags
    nr::pivot_root,        // another root
    nr::setns,             // enters namespaces of other processes
    nr::umount2,           // uncovers what a mount hides
    nr::unshare,           // new namespaces, and root in them
    // The kernel itself and its accounts.
    nr::acct,            // writes process accounting
    nr::bpf,             // programs in the kernel
    nr::delete_module,   // kernel modules
    nr::finit_module,    // kernel modules
    nr::init_module,     // kernel modules
    nr::ioperm,          // hardware ports
    nr::iopl,            // hardware ports
    nr::kexec_file_load, // another kernel
    nr::kexec_load,      // another kernel
    nr::perf_event_open, // watches other processes and the kernel
    nr::quotactl,        // disk quotas
    nr::quotactl_fd,     // disk quotas
    nr::reboot,          // stops the system
    nr::swapoff,         // swap
    nr::swapon,          // swap
    nr::userfaultfd,     // stops the kernel at a page fault: makes races winnable
    // The memory and the files of other processes.
    nr::pidfd_getfd,       // takes descriptors
    nr::process_vm_readv,  // reads memory
    nr::process_vm_writev, // writes memory
    nr::ptrace,            // traces
];

/// Calls a hook finds missing, so that C libraries and runtimes take the older way.
pub(crate) const MISSING: [u32; 8] = [
    // Their flags lie behind a pointer.
    nr::clone3,  // glibc and Go fall back to `clone`, whose flags are in a register
    nr::openat2, // libraries fall back to `openat`
    // A second door to most calls, past every filter.
    nr::io_uring_enter,    // libuv and liburing fall back to `epoll` and `read`
    nr::io_uring_register, // as `io_uring_setup`
    nr::io_uring_setup,    // programs fall back where this is missing
    // A hook inside a domain has no use for its own; 16 layers is all there are.
    nr::landlock_add_rule,       // as `landlock_create_ruleset`
    nr::landlock_create_ruleset, // programs that confine themselves go on without
    nr::landlock_restrict_self,  // as `landlock_create_ruleset`
];

/// Calls that are open to every hook, with any arguments.
pub(crate) const GROUPS: [&[u32]; 9] = [
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
    nr::alarm,            // time limits of Perl and Python scripts
    nr::clock_getres,     // Python's `time.get_clock_info`
    nr::clock_gettime,    // every runtime, where the vDSO has no answer
    nr::clock_nanosleep,  // `sleep`, Python's and Go's waiting
    nr::getitimer,        // Python's `signal`, Perl
    nr::gettimeofday,     // old programs, where the vDSO has no answer
    nr::nanosleep,        // `sleep` of shells and busybox
    nr::restart_syscall, // the kernel, in the hook's name: to resume a wait that a stop has interrupted
    nr::setitimer,       // profilers, Perl's and Python's time limits
    nr::time,            // old programs, where the vDSO has no answer
    nr::timer_create,    // `timeout`, which rounds to whole seconds without
    nr::timer_delete,    // `timeout`
    nr::timer_getoverrun, // `timeout`, Go profiles
    nr::timer_gettime,   // `timeout`
    nr::timer_settime,   // `timeout`
];

/// Work on descriptors that are open already, `fcntl` and `ioctl` apart.
const DESCRIPTORS: [u32; 44] = [
    nr::close,           // everybody
    nr::close_range,     // Python's `subprocess`, shells
    nr::copy_file_range, // `cp`, Go's and Rust's copying
    nr::dup,             // shells, for redirections
    nr::dup2,            // shells, for redirections
    nr::dup3,            // Go and Python, before a child executes
    nr::epoll_create,    // old event loops
    nr::epoll_create1,   // Node, Go, Rust, Java
    nr::epoll_ctl,       // as `epoll_create1`
    nr::epoll_pwait,     // as `epoll_create1`
    nr::epoll_pwait2,    // event loops with nanoseconds
    nr::epoll_wait,      // as `epoll_create1`
    nr::eventfd,         // old event loops
    nr::eventfd2,        // Node, Go, Rust: to wake an event loop
    nr::fadvise64,       // `cat`, `cp`, `sort`: how a file will be read
    nr::fdatasync,       // SQLite, git
    nr::flock,           // lock files of shells and package managers
    nr::fsync,           // git, editors, SQLite
    nr::ftruncate,       // SQLite, whoever writes a file anew
    nr::lseek,           // everybody who reads files
    nr::pipe,            // shells
    nr::pipe2,           // Python, Node, Go: pipes to children
    nr::poll,            // C libraries at start, curl, Python
    nr::ppoll,           // Rust, GNU tools
    nr::pread64,         // loaders, SQLite, git
    nr::preadv,          // databases
    nr::preadv2,         // databases
    nr::pselect6,        // bash, make, C libraries for `select`
    nr::pwrite64,        // SQLite, git, linkers
    nr::pwritev,         // databases
    nr::pwritev2,        // databases
    nr::read,            // everybody
    nr::readv,           // musl, Java
    nr::select,          // old programs, Python, Perl
    nr::sendfile,        // busybox, Python's `shutil`, Go
    nr::signalfd,        // old event loops
    nr::signalfd4,       // event loops
    nr::splice,          // `cat`, Go between pipes
    nr::tee,             // `tee` of newer coreutils
    nr::timerfd_create,  // event loops
    nr::timerfd_gettime, // event loops
    nr::timerfd_settime, // event loops
    nr::write,           // everybody
    nr::writev,          // musl, Node, Rust, Java
];

/// Identity of the hook. Harmless where one can ask about others: start-up code of C libraries and runtimes asks. Without
/// capabilities the kernel sets users and groups to those that the hook has already, and lets it lower limits alone.
const IDENTITY: [u32; 30] = [
    nr::capget,             // `ls`, Node, libcap: whether there are privileges
    nr::getegid,            // shells, Perl, loaders
    nr::geteuid,            // shells, git, loaders
    nr::getgid,             // shells, Perl
    nr::getgroups,          // `id`, bash, Perl
    nr::getpgid,            // shells with job control
    nr::getpgrp,            // bash
    nr::getpid,             // everybody
    nr::getppid,            // shells, for `$PPID`
    nr::getpriority,        // `nice`, Node
    nr::getresgid,          // `id`, OpenSSL
    nr::getresuid,          // `id`, OpenSSL
    nr::getrlimit,          // old C libraries; newer call `prlimit64`
    nr::getsid,             // shells, `ps`
    nr::gettid,             // Go, logging libraries, Python threads
    nr::getuid,             // everybody who looks for a home
    nr::ioprio_get,         // `ionice`
    nr::sched_getaffinity,  // Go, `nproc`, OpenMP: how many threads to start
    nr::sched_getparam,     // C libraries, at the start of a thread with attributes
    nr::sched_getattr,      // `chrt`
    nr::sched_getscheduler, // as `sched_getparam`
    nr::setfsgid,           // as `setfsuid`
    nr::setfsuid,           // file servers, Perl
    nr::setgid,             // `ssh-agent`, Perl, programs that give up a group they do not have
    nr::setregid,           // Perl, Python
    nr::setresgid,          // make, for each child
    nr::setresuid,          // make, for each child
    nr::setreuid,           // bash where it drops privileges, Perl, Python
    nr::setrlimit,          // `ulimit` of older shells
    nr::setuid,             // as `setgid`
];

/// Both halves of a socket pair, which nothing outside can reach.
const LOCAL_SOCKETS: [u32; 6] = [
    nr::getpeername, // Node's and Python's pipes
    nr::getsockname, // Node's and Python's pipes
    nr::getsockopt,  // Node, Python, Go: the kind of an inherited socket
    nr::recvfrom,    // Node, Rust: reading a socket pair
    nr::recvmsg,     // Node, Python: reading a socket pair
    nr::shutdown,    // Node: to end a stream half-way
];

/// Options of every socket: sizes, times and ends. Not those that load programs into the kernel (`SO_ATTACH_…`), nor those that take a
/// capability.
pub(super) const SOCKET_OPTIONS: [libc::c_int; 11] = [
    libc::SO_KEEPALIVE, // everybody with long connections
    libc::SO_LINGER,    // Java, servers
    libc::SO_PASSCRED,  // D-Bus, systemd's libraries
    libc::SO_PEEK_OFF,  // CRIU, Rust
    libc::SO_RCVBUF,    // Node, Java: the room of a socket pair
    libc::SO_RCVLOWAT,  // libevent
    libc::SO_RCVTIMEO,  // Perl, curl, Rust
    libc::SO_REUSEADDR, // everybody who listens
    libc::SO_REUSEPORT, // Node, nginx
    libc::SO_SNDBUF,    // Node, Java, iproute2
    libc::SO_SNDTIMEO,  // as `SO_RCVTIMEO`
];

/// The same of sockets to other hosts.
pub(super) const NETWORK_OPTIONS: [libc::c_int; 9] = [
    libc::SO_BINDTODEVICE, // curl, ping
    libc::SO_BROADCAST,    // Go, Java
    libc::SO_DONTROUTE,    // traceroute
    libc::SO_OOBINLINE,    // telnet, Java
    libc::SO_PRIORITY,     // Java, QUIC
    libc::SO_RXQ_OVFL,     // QUIC
    libc::SO_TIMESTAMP,    // ping, NTP clients
    libc::SO_TIMESTAMPNS,  // NTP clients
    libc::SO_ZEROCOPY,     // QUIC, gRPC
];

/// Options that are not open where the daemon connects: they connect by the way, or have a socket take no port before.
pub(super) const NOT_NAMED: [(libc::c_int, libc::c_int); 4] = [
    (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT),
    (libc::SOL_SOCKET, libc::SO_BINDTODEVICE),
    (libc::IPPROTO_TCP, libc::TCP_FASTOPEN),
    (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT),
];

/// Options of IPv4.
pub(super) const IP_OPTIONS: [libc::c_int; 14] = [
    libc::IP_ADD_MEMBERSHIP,       // mDNS of Node, Java and avahi
    libc::IP_BIND_ADDRESS_NO_PORT, // curl, Go
    libc::IP_DROP_MEMBERSHIP,      // as `IP_ADD_MEMBERSHIP`
    libc::IP_MTU_DISCOVER,         // QUIC, traceroute
    libc::IP_MULTICAST_ALL,        // libuv, Java
    libc::IP_MULTICAST_IF,         // Java, mDNS
    libc::IP_MULTICAST_LOOP,       // Java, mDNS
    libc::IP_MULTICAST_TTL,        // Java, mDNS
    libc::IP_PKTINFO,              // resolvers, QUIC
    libc::IP_RECVERR,              // glibc's resolver, libuv
    libc::IP_RECVTOS,              // QUIC
    libc::IP_RECVTTL,              // traceroute
    libc::IP_TOS,                  // ssh, Java
    libc::IP_TTL,                  // traceroute, Node
];

/// Options of IPv6.
pub(super) const IPV6_OPTIONS: [libc::c_int; 12] = [
    libc::IPV6_ADD_MEMBERSHIP,  // as of IPv4, here and below
    libc::IPV6_DROP_MEMBERSHIP, // as `IPV6_ADD_MEMBERSHIP`
    libc::IPV6_MTU_DISCOVER,    // QUIC
    libc::IPV6_MULTICAST_HOPS,  // Java, mDNS
    libc::IPV6_MULTICAST_IF,    // Java, mDNS
    libc::IPV6_MULTICAST_LOOP,  // Java, mDNS
    libc::IPV6_RECVERR,         // glibc's resolver, libuv
    libc::IPV6_RECVPKTINFO,     // resolvers, QUIC
    libc::IPV6_RECVTCLASS,      // QUIC
    libc::IPV6_TCLASS,          // ssh, Java
    libc::IPV6_UNICAST_HOPS,    // traceroute, Node
    libc::IPV6_V6ONLY,          // Node, Go, Java, Python
];

/// Options of TCP. Not `TCP_ULP`, which attaches another protocol.
pub(super) const TCP_OPTIONS: [libc::c_int; 16] = [
    libc::TCP_CONGESTION,       // iperf, Java
    libc::TCP_CORK,             // nginx, libcurl
    libc::TCP_DEFER_ACCEPT,     // Bun
    libc::TCP_FASTOPEN,         // resolvers
    libc::TCP_FASTOPEN_CONNECT, // curl, resolvers
    libc::TCP_KEEPCNT,          // curl, Go, libpq
    libc::TCP_KEEPIDLE,         // curl, Go, Node
    libc::TCP_KEEPINTVL,        // curl, Go, Node
    libc::TCP_LINGER2,          // servers
    libc::TCP_MAXSEG,           // iperf
    libc::TCP_NODELAY,          // every client
    libc::TCP_NOTSENT_LOWAT,    // browsers, HTTP/2
    libc::TCP_QUICKACK,         // Java, databases
    libc::TCP_SYNCNT,           // databases
    libc::TCP_USER_TIMEOUT,     // gRPC, libpq
    libc::TCP_WINDOW_CLAMP,     // iperf
];

/// Options of UDP. Not `UDP_ENCAP`, which attaches another protocol.
pub(super) const UDP_OPTIONS: [libc::c_int; 3] = [
    libc::UDP_CORK,    // media players
    libc::UDP_GRO,     // QUIC
    libc::UDP_SEGMENT, // QUIC
];

/// The hook's own memory.
const MEMORY: [u32; 14] = [
    nr::brk,           // glibc and musl: heap
    nr::madvise,       // allocators, Go, Java: memory given back
    nr::membarrier,    // Go, Java, liburcu
    nr::mincore,       // Go at start
    nr::mlock, // gpg, ssh: keys that are not swapped out; `RLIMIT_MEMLOCK` is how many bytes
    nr::mmap,  // everybody
    nr::mprotect, // loaders, thread stacks, JIT compilers
    nr::mremap, // `realloc` of large blocks
    nr::msync, // databases on mapped files
    nr::munlock, // as `mlock`
    nr::munmap, // everybody
    nr::pkey_alloc, // V8: write protection of compiled code
    nr::pkey_free, // V8
    nr::pkey_mprotect, // V8
];

/// Calls on paths and directories. Landlock decides which; looking at metadata it does not see.
pub(crate) const PATHS: [u32; 30] = [
    nr::access,     // loaders, shells
    nr::chdir,      // `cd`
    nr::faccessat,  // `test -r`, Go
    nr::faccessat2, // newer C libraries for `faccessat`
    nr::fchdir,     // `find`, `rm -r`, git
    nr::fstat,      // everybody who opens files
    nr::fstatfs,    // git, `ls`, SQLite: the kind of file system
    nr::getcwd,     // shells, runtimes at start
    nr::getdents,   // old programs that list directories
    nr::getdents64, // whoever lists directories
    nr::link,       // git, lock files
    nr::linkat,     // git, `ln`
    nr::lstat,      // whoever looks at links
    nr::mkdir,      // `mkdir`
    nr::mkdirat,    // `mkdir -p`, Go
    nr::newfstatat, // everybody: C libraries for `stat`
    nr::readlink,   // shells, Node: where a link leads
    nr::readlinkat, // `readlink`, `realpath`, Go
    nr::rename,     // whoever replaces a file at once
    nr::renameat,   // as `rename`
    nr::rmdir,      // `rm -r`
    nr::stat,       // musl and older C libraries
    nr::statfs,     // `df`, SELinux libraries at start
    nr::statx,      // `ls`, Rust, Node
    nr::symlink,    // `ln -s`, npm
    nr::symlinkat,  // `ln -s`
    nr::truncate,   // `truncate`, Perl
    nr::umask,      // shells, git
    nr::unlink,     // `rm`
    nr::unlinkat,   // `rm`, Go
];

/// Signals. Landlock keeps those the hook sends within its own domain; the queueing calls can forge a sender.
const SIGNALS: [u32; 10] = [
    nr::kill,            // shells, `timeout`: to end children
    nr::pause,           // scripts that wait for a signal
    nr::rt_sigaction,    // everybody: runtimes at start
    nr::rt_sigpending,   // Perl, Python
    nr::rt_sigprocmask,  // everybody: around starts of threads and children
    nr::rt_sigreturn,    // the end of every signal handler
    nr::rt_sigsuspend,   // bash: waiting for a child
    nr::rt_sigtimedwait, // Python, `timeout`
    nr::sigaltstack,     // Go, Rust, Node at start
    nr::tgkill,          // `abort`, `raise`, Go: interrupting its threads
];

/// Calls of C libraries before `main`, and of runtimes that size their pools.
const START_UP: [u32; 12] = [
    nr::arch_prctl,             // C libraries: thread-local storage on x86-64
    nr::getcpu,                 // allocators, where the vDSO has no answer
    nr::getrandom,              // hash seeds, `mktemp`, OpenSSL
    nr::rseq,                   // glibc, for each thread
    nr::sched_get_priority_max, // Java, thread libraries
    nr::sched_get_priority_min, // as `sched_get_priority_max`
    nr::set_robust_list,        // glibc, for each thread
    nr::set_tid_address,        // C libraries at start
    nr::sysinfo,                // Node, Go, Java: how much memory there is
    nr::uname,                  // loaders, shells, Python at start
    // Executing in place changes nothing about the confinement.
    nr::execve,   // everybody
    nr::execveat, // `fexecve`
];

/// Threads and children: ending, waiting, waking each other, and what they have used.
const TASKS: [u32; 12] = [
    nr::exit,          // the end of a thread
    nr::exit_group,    // the end of a process
    nr::futex,         // locks of every threaded program
    nr::futex_requeue, // newer C libraries: condition variables
    nr::futex_wait,    // as `futex`, by newer C libraries
    nr::futex_waitv,   // Wine, newer runtimes: several locks at once
    nr::futex_wake,    // as `futex_wait`
    nr::getrusage,     // `time`, Python, Node
    nr::sched_yield,   // spinning locks of Go and Java
    nr::times,         // `times` of shells, Perl
    nr::wait4,         // shells: the end of a child
    nr::waitid,        // Rust, Node, Python: the same with more to say
];

/// Calls to use a socket to other hosts. Not `bind`, `listen` and `accept`: no peer can open a connection to a hook.
pub(crate) const OUTBOUND: [u32; 4] = [
    nr::connect,  // every client
    nr::recvmmsg, // resolvers, QUIC
    nr::sendmmsg, // glibc's resolver
    nr::sendmsg,  // Python, Node, resolvers
];

/// Reading extended attributes. They fail with ENOTSUP, as on a file system without them; `ls -l` fails on EPERM.
pub(crate) const XATTR_READS: [u32; 8] = [
    nr::fgetxattr,   // `cp -a`, `ls`
    nr::flistxattr,  // `cp -a`
    nr::getxattr,    // `ls -l`: access lists
    nr::getxattrat,  // newer C libraries
    nr::lgetxattr,   // `ls -l`: SELinux labels
    nr::listxattr,   // `ls -l`, Python
    nr::listxattrat, // newer C libraries
    nr::llistxattr,  // `cp -a`, tar
];

/// Changing modes, owners, times and extended attributes, none of which Landlock sees.
pub(crate) const METADATA: [u32; 20] = [
    nr::chmod,         // `chmod`, npm: executable scripts
    nr::chown,         // `chown`
    nr::fchmod,        // git, tar, `install`
    nr::fchmodat,      // `chmod`, tar
    nr::fchmodat2,     // newer C libraries for `fchmodat`
    nr::fchown,        // tar, `cp -a`
    nr::fchownat,      // tar, `cp -a`
    nr::fremovexattr,  // `cp -a`
    nr::fsetxattr,     // `cp -a`
    nr::futimesat,     // old programs
    nr::lchown,        // tar, npm
    nr::lremovexattr,  // `setfattr`
    nr::lsetxattr,     // `cp -a`, `setfattr`
    nr::removexattr,   // `setfattr`
    nr::removexattrat, // newer C libraries
    nr::setxattr,      // `setfattr`
    nr::setxattrat,    // newer C libraries
    nr::utime,         // old programs
    nr::utimensat,     // `touch`, `cp -p`, make, tar
    nr::utimes,        // Perl, Python
];

/// Watching files. Landlock does not see it, so it is open where metadata of any file can be changed anyway. A watch reports
/// the names of files that come and go in any directory that the hook's user can read.
pub(crate) const WATCHES: [u32; 4] = [
    nr::inotify_add_watch, // `tail -f`, entr, Node's `fs.watch`
    nr::inotify_init,      // older programs
    nr::inotify_init1,     // as `inotify_add_watch`
    nr::inotify_rm_watch,  // as `inotify_add_watch`
];

/// Duplicates, flags and byte-range locks. Not owners and signals, leases, notifications, pipe sizes, seals.
pub(crate) const FCNTL_COMMANDS: [u64; 12] = [
    libc::F_DUPFD as u64,         // shells: a descriptor above 9
    libc::F_DUPFD_CLOEXEC as u64, // shells, Python, Rust
    libc::F_GETFD as u64,         // Python, Perl
    libc::F_GETFL as u64,         // Node, Python: whether a pipe blocks
    libc::F_GETLK as u64,         // SQLite
    libc::F_OFD_GETLK as u64,     // databases
    libc::F_OFD_SETLK as u64,     // databases, Go tools
    libc::F_OFD_SETLKW as u64,    // Go tools
    libc::F_SETFD as u64,         // shells, Perl: close on exec
    libc::F_SETFL as u64,         // Node, Python: not to block
    libc::F_SETLK as u64,         // SQLite, git-lfs
    libc::F_SETLKW as u64,        // `lockf`, Python
];

/// Requests that programs make to any descriptor before they use it. Nothing that changes a device or types into a terminal.
pub(crate) const IOCTL_REQUESTS: [u64; 10] = [
    request(libc::FIOCLEX),    // Python: close on exec
    request(libc::FIONBIO),    // Node, Python: not to block
    request(libc::FIONCLEX),   // Node
    request(libc::FIONREAD),   // Java, Node: how much can be read
    request(libc::TCGETS),     // everybody: whether it is a terminal
    request(libc::TCGETS2),    // newer C libraries for `TCGETS`
    request(libc::TIOCGPGRP),  // bash: whether it is in the foreground
    request(libc::TIOCGSID),   // `tcgetsid`
    request(libc::TIOCGWINSZ), // Node, `ls`, Python: how wide a terminal is
    request(libc::TIOCOUTQ),   // Java, serial tools: how much is not written yet
];

/// Requests of programs to pseudo-terminals, where a run has its own. Nothing that types into one (`TIOCSTI`) or reads the machine's screen.
pub(crate) const TERMINAL_REQUESTS: [u64; 19] = [
    request(libc::TCFLSH),      // Python, expect: what was typed is thrown away
    request(libc::TCSBRK),      // C libraries: until everything is written
    request(libc::TCSETS),      // `script`, expect, `stty`: how a terminal behaves
    request(libc::TCSETS2),     // newer C libraries for `TCSETS`
    request(libc::TCSETSF),     // the same, once what was typed is thrown away
    request(libc::TCSETSF2),    // newer C libraries for `TCSETSF`
    request(libc::TCSETSW),     // the same, once everything is written
    request(libc::TCSETSW2),    // newer C libraries for `TCSETSW`
    request(libc::TCXONC),      // expect: output stops and goes on
    request(libc::TIOCEXCL),    // `screen`, serial tools: no other process opens it
    request(libc::TIOCGPTLCK),  // C libraries: whether it can be opened
    request(libc::TIOCGPTN),    // C libraries, Go: its number
    request(libc::TIOCGPTPEER), // `script`, Go: its other end
    request(libc::TIOCNOTTY),   // daemons, `setsid`: it is left
    request(libc::TIOCPKT),     // `rlogin`, expect: its state is told
    request(libc::TIOCSCTTY),   // `script`, Go: it becomes the session's
    request(libc::TIOCSPGRP),   // shells: who is in the foreground
    request(libc::TIOCSPTLCK),  // C libraries, Go: it may be opened
    request(libc::TIOCSWINSZ),  // `script`, expect: how wide it is
];

/// Returns a request as filters compare it. C libraries declare it with different types; none of these is negative.
#[cfg_attr(
    not(target_env = "musl"),
    expect(clippy::unnecessary_cast, reason = "musl alone has another type")
)]
const fn request(request: libc::Ioctl) -> u64 {
    request as u64
}

/// Names, and questions. Nothing that outlives the kill, opens the memory to a tracer or turns speculation loose. A process
/// that adopts the orphans of a hook is itself a descendant of the daemon, in the same group.
pub(crate) const PRCTL_OPTIONS: [u64; 12] = [
    libc::PR_CAPBSET_READ as u64,        // libcap, `capsh`
    libc::PR_GET_CHILD_SUBREAPER as u64, // tini
    libc::PR_GET_DUMPABLE as u64,        // allocators, OpenSSL
    libc::PR_GET_NAME as u64,            // Python, Java: names of threads
    libc::PR_GET_NO_NEW_PRIVS as u64,    // systemd libraries
    libc::PR_GET_PDEATHSIG as u64,       // tini
    libc::PR_GET_SECCOMP as u64,         // libseccomp
    libc::PR_SET_CHILD_SUBREAPER as u64, // tini, `systemd-run`, task runners
    libc::PR_SET_NAME as u64,            // Node, Java, Rust: names of threads
    libc::PR_SET_NO_NEW_PRIVS as u64,    // programs that confine themselves; it is set already
    libc::PR_SET_THP_DISABLE as u64,     // Ruby; smaller pages for itself and what it starts
    libc::PR_SET_VMA as u64,             // glibc, Go, V8: names of mappings
];
