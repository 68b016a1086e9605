use hookjail_policy::{HookView, Metadata, Network, Spawn};

use crate::seccomp::{
    rules::{
        ACCESS_MODE, FilterSpec, GROUPS, KILLED, METADATA, MISSING, OUTBOUND, Rule, WATCHES,
        XATTR_READS, rule,
    },
    syscalls::{FOREIGN, TABLE, name, newest, nr},
};

const STRICT: FilterSpec = FilterSpec {
    landlock_abi: 7,
    metadata: Metadata::Keep,
    mounts: false,
    network: Network::None,
    spawn: Spawn::Threads,
    view: HookView::Machine,
};
const PIPELINE: FilterSpec = FilterSpec {
    spawn: Spawn::Processes,
    ..STRICT
};
const NETWORK: FilterSpec = FilterSpec {
    network: Network::Outbound,
    ..PIPELINE
};
const WORKSPACE: FilterSpec = FilterSpec {
    metadata: Metadata::Change,
    ..PIPELINE
};

const EPERM: Rule = Rule::Errno(libc::EPERM);
const ENOSYS: Rule = Rule::Errno(libc::ENOSYS);
const ENOTSUP: Rule = Rule::Errno(libc::ENOTSUP);

#[test]
fn call_is_in_one_group_at_most() {
    let mut seen: Vec<u32> = GROUPS.concat();
    seen.extend(
        KILLED
            .iter()
            .chain(&MISSING)
            .chain(&OUTBOUND)
            .chain(&XATTR_READS)
            .chain(&METADATA)
            .chain(&WATCHES),
    );
    let total = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), total);
}

/// A list without a reason for each line only grows.
#[test]
fn each_line_of_the_groups_says_who_needs_it() {
    let lines = include_str!("groups.rs").lines().map(str::trim);
    let entries = lines.filter(|line| {
        ["nr::", "libc::", "request("]
            .iter()
            .any(|it| line.starts_with(it))
    });
    let (explained, silent): (Vec<_>, Vec<_>) = entries.partition(|line| line.contains("// "));

    assert_eq!(silent, [""; 0]);
    assert!(explained.len() > 200);
}

#[test]
fn strict_refuses_what_reaches_beyond_the_hook() {
    for nr in [
        // Sockets.
        nr::socket,
        nr::connect,
        nr::bind,
        nr::listen,
        nr::accept,
        nr::accept4,
        nr::sendmsg,
        nr::sendmmsg,
        nr::recvmmsg,
        // Processes and sessions.
        nr::fork,
        nr::vfork,
        nr::setsid,
        nr::setpgid,
        nr::tkill,
        nr::rt_sigqueueinfo,
        nr::rt_tgsigqueueinfo,
        nr::pidfd_open,
        nr::pidfd_send_signal,
        nr::kcmp,
        nr::process_madvise,
        nr::process_mrelease,
        nr::move_pages,
        nr::migrate_pages,
        nr::sched_setattr,
        // Identity.
        nr::setgroups,
        nr::capset,
        nr::chroot,
        nr::seccomp,
        nr::personality,
        nr::modify_ldt,
        // Metadata.
        nr::chmod,
        nr::fchmod,
        nr::fchmodat,
        nr::fchmodat2,
        nr::chown,
        nr::fchown,
        nr::lchown,
        nr::fchownat,
        nr::utime,
        nr::utimes,
        nr::utimensat,
        nr::futimesat,
        nr::setxattr,
        nr::lsetxattr,
        nr::fsetxattr,
        nr::setxattrat,
        nr::removexattr,
        nr::lremovexattr,
        nr::fremovexattr,
        nr::removexattrat,
        nr::file_setattr,
        // Objects others can name, and watching.
        nr::memfd_create,
        nr::memfd_secret,
        nr::mknod,
        nr::mknodat,
        nr::inotify_init,
        nr::inotify_init1,
        nr::inotify_add_watch,
        nr::inotify_rm_watch,
        nr::fanotify_init,
        nr::fanotify_mark,
        nr::mq_open,
        nr::mq_notify,
        nr::shmget,
        nr::shmat,
        nr::semget,
        nr::semop,
        nr::msgget,
        nr::msgsnd,
        nr::add_key,
        nr::keyctl,
        nr::request_key,
        // The machine.
        nr::syslog,
        nr::sethostname,
        nr::setdomainname,
        nr::clock_settime,
        nr::settimeofday,
        nr::adjtimex,
        nr::clock_adjtime,
        nr::vhangup,
        nr::name_to_handle_at,
        nr::statmount,
        nr::listmount,
        nr::listns,
    ] {
        assert_eq!(rule(&STRICT, nr), unless_absent(nr, EPERM), "{nr}");
    }
}

#[test]
fn strict_allows_what_shells_and_interpreters_live_on() {
    for nr in [
        nr::execve,
        nr::execveat,
        nr::mmap,
        nr::pipe,
        nr::pipe2,
        nr::read,
        nr::write,
        nr::dup2,
        nr::newfstatat,
        nr::statx,
        nr::getdents64,
        nr::unlinkat,
        nr::renameat,
        nr::ftruncate,
        nr::truncate,
        nr::wait4,
        nr::waitid,
        nr::futex,
        nr::kill,
        nr::tgkill,
        nr::rt_sigaction,
        nr::rt_sigreturn,
        nr::restart_syscall,
        nr::clock_nanosleep,
        nr::timer_create,
        nr::timer_settime,
        nr::timer_gettime,
        nr::timer_getoverrun,
        nr::timer_delete,
        nr::epoll_pwait,
        nr::eventfd2,
        nr::rseq,
        nr::set_robust_list,
        nr::getrandom,
        nr::arch_prctl,
        nr::sched_getaffinity,
        nr::getrlimit,
        nr::capget,
        nr::recvmsg,
        nr::shutdown,
        // Rights that a process without capabilities has already, or fewer.
        nr::setuid,
        nr::setgid,
        nr::setreuid,
        nr::setregid,
        nr::setresuid,
        nr::setresgid,
        nr::setfsuid,
        nr::setfsgid,
        nr::setrlimit,
        nr::mlock,
        nr::munlock,
        nr::ioprio_get,
        nr::sched_getattr,
    ] {
        assert_eq!(rule(&STRICT, nr), unless_absent(nr, Rule::Allow), "{nr}");
    }
}

#[test]
fn way_out_of_the_confinement_kills_under_every_profile() {
    for spec in [STRICT, PIPELINE, NETWORK, WORKSPACE] {
        for nr in [
            nr::mount,
            nr::umount2,
            nr::pivot_root,
            nr::open_tree,
            nr::open_tree_attr,
            nr::move_mount,
            nr::fsopen,
            nr::fsconfig,
            nr::fsmount,
            nr::fspick,
            nr::mount_setattr,
            nr::init_module,
            nr::finit_module,
            nr::delete_module,
            nr::kexec_load,
            nr::kexec_file_load,
            nr::reboot,
            nr::swapon,
            nr::swapoff,
            nr::acct,
            nr::quotactl,
            nr::quotactl_fd,
            nr::open_by_handle_at,
            nr::bpf,
            nr::ptrace,
            nr::process_vm_readv,
            nr::process_vm_writev,
            nr::pidfd_getfd,
            nr::setns,
            nr::unshare,
            nr::userfaultfd,
            nr::perf_event_open,
            nr::iopl,
            nr::ioperm,
        ] {
            assert_eq!(rule(&spec, nr), unless_absent(nr, Rule::Kill), "{nr}");
        }
    }
}

#[test]
fn call_of_another_abi_kills_under_every_profile() {
    let Some(first) = FOREIGN else { return };
    for spec in [STRICT, PIPELINE, NETWORK, WORKSPACE] {
        for nr in [first, first | nr::read, u32::MAX] {
            assert_eq!(rule(&spec, nr), Rule::Kill, "{nr}");
        }
    }
}

#[test]
fn doors_a_filter_cannot_see_through_are_missing() {
    for spec in [STRICT, PIPELINE, NETWORK, WORKSPACE] {
        for nr in [
            nr::clone3,
            nr::openat2,
            nr::io_uring_setup,
            nr::io_uring_enter,
            nr::io_uring_register,
            nr::landlock_create_ruleset,
            nr::landlock_add_rule,
            nr::landlock_restrict_self,
            335,
            423,
            newest() + 1,
            512,
            9999,
            0x3fff_ffff,
        ] {
            assert_eq!(rule(&spec, nr), ENOSYS, "{nr}");
        }
    }
}

#[test]
fn pipeline_adds_processes_and_nothing_else() {
    let added = ["clone", "fork", "vfork"];
    assert_eq!(differences(&STRICT, &PIPELINE), present(&added));
    for nr in [nr::fork, nr::vfork] {
        assert_eq!(rule(&PIPELINE, nr), unless_absent(nr, Rule::Allow));
    }
}

#[test]
fn outbound_network_adds_clients_and_nothing_else() {
    let added = [
        "connect",
        "recvmmsg",
        "sendmmsg",
        "sendmsg",
        "sendto",
        "setsockopt",
        "socket",
    ];
    assert_eq!(differences(&PIPELINE, &NETWORK), present(&added));
    for nr in [nr::bind, nr::listen, nr::accept, nr::accept4] {
        assert_eq!(rule(&NETWORK, nr), EPERM);
    }
}

#[test]
fn a_view_of_its_own_adds_sessions_its_own_sockets_and_terminals_and_nothing_else() {
    let own_view = FilterSpec {
        mounts: true,
        view: HookView::Own,
        ..PIPELINE
    };
    let added = [
        "accept", "accept4", "bind", "ioctl", "listen", "mknod", "mknodat", "sendto", "setpgid",
        "setsid", "socket",
    ];
    assert_eq!(differences(&PIPELINE, &own_view), present(&added));
    assert_eq!(rule(&own_view, nr::connect), EPERM);
    let outbound = FilterSpec {
        mounts: true,
        view: HookView::Own,
        ..NETWORK
    };
    assert_eq!(
        differences(&NETWORK, &outbound),
        present(&["ioctl", "mknod", "mknodat", "setpgid", "setsid"])
    );
    let threads = FilterSpec {
        view: HookView::Own,
        ..STRICT
    };
    assert_eq!(rule(&threads, nr::setsid), EPERM);
}

#[test]
fn change_of_metadata_adds_modes_owners_times_and_attributes_and_nothing_else() {
    let added = [
        "chmod",
        "chown",
        "fchmod",
        "fchmodat",
        "fchmodat2",
        "fchown",
        "fchownat",
        "fgetxattr",
        "flistxattr",
        "fremovexattr",
        "fsetxattr",
        "futimesat",
        "getxattr",
        "getxattrat",
        "inotify_add_watch",
        "inotify_init",
        "inotify_init1",
        "inotify_rm_watch",
        "lchown",
        "lgetxattr",
        "listxattr",
        "listxattrat",
        "llistxattr",
        "lremovexattr",
        "lsetxattr",
        "removexattr",
        "removexattrat",
        "setxattr",
        "setxattrat",
        "utime",
        "utimensat",
        "utimes",
    ];
    assert_eq!(differences(&PIPELINE, &WORKSPACE), present(&added));
}

#[test]
fn attributes_read_as_unsupported_where_metadata_is_kept() {
    for spec in [STRICT, PIPELINE, NETWORK] {
        for nr in XATTR_READS {
            assert_eq!(rule(&spec, nr), ENOTSUP);
        }
    }
}

#[test]
fn older_landlock_is_stood_in_for_where_it_lacks_a_right() {
    let abi = |landlock_abi| FilterSpec {
        landlock_abi,
        ..STRICT
    };
    assert_eq!(differences(&abi(7), &abi(6)), [] as [&str; 0]);
    assert_eq!(differences(&abi(6), &abi(5)), ["kill", "tgkill"]);
    assert_eq!(differences(&abi(5), &abi(3)), [] as [&str; 0]);
    assert_eq!(
        differences(&abi(3), &abi(2)),
        present(&["open", "openat", "truncate"])
    );
    assert_eq!(differences(&abi(2), &abi(1)), [] as [&str; 0]);
    assert_eq!(rule(&abi(2), nr::truncate), EPERM);
}

#[test]
fn tested_arguments_are_those_the_table_names() {
    for limit in [0, 1 << 32] {
        assert!(allows(&STRICT, nr::prlimit64, &[0, 7, limit]));
        assert!(allows(&STRICT, nr::prlimit64, &[1 << 32, 7, limit]));
        for other in [1, 4242, u64::from(u32::MAX)] {
            assert!(!allows(&STRICT, nr::prlimit64, &[other, 7, limit]));
        }
    }

    let stream = libc::SOCK_STREAM as u64;
    let flags = (libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) as u64;
    let packets = libc::SOCK_SEQPACKET as u64;
    assert!(allows(&STRICT, nr::socketpair, &[1, stream | flags]));
    assert!(allows(&STRICT, nr::socketpair, &[1, packets | flags]));
    for refused in [
        [1, 2],
        [1, 3],
        [2, stream],
        [2, packets],
        [1 | 1 << 32, 2],
        [1, stream | 1 << 4],
    ] {
        assert!(!allows(&STRICT, nr::socketpair, &refused), "{refused:?}");
    }

    let option = |spec, level: i32, option: i32| {
        let [level, option] = [level, option].map(|it| it.cast_unsigned().into());
        // The kernel ignores the upper halves.
        let dirt = 1 << 32;
        let allowed = allows(spec, nr::setsockopt, &[3, level, option]);
        let dirty = allows(spec, nr::setsockopt, &[3, level | dirt, option | dirt]);
        assert_eq!(allowed, dirty, "{level} {option}");
        allowed
    };
    for spec in [&STRICT, &NETWORK] {
        assert!(option(spec, libc::SOL_SOCKET, libc::SO_RCVBUF));
        for program in [
            libc::SO_ATTACH_FILTER,
            libc::SO_ATTACH_BPF,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            libc::SO_ATTACH_REUSEPORT_EBPF,
        ] {
            assert!(!option(spec, libc::SOL_SOCKET, program), "{program}");
        }
        assert!(!option(spec, libc::IPPROTO_TCP, libc::TCP_ULP));
        let is_network = spec.network == Network::Outbound;
        assert_eq!(
            option(spec, libc::IPPROTO_TCP, libc::TCP_NODELAY),
            is_network
        );
        // The number of `SO_ATTACH_FILTER`.
        assert_eq!(
            option(spec, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
            is_network
        );
    }

    assert!(allows(&STRICT, nr::sendto, &[3, 0, 0, 0, 0, 9]));
    assert!(!allows(&STRICT, nr::sendto, &[3, 0, 0, 0, 1 << 32, 0]));
    assert!(allows(&NETWORK, nr::sendto, &[3, 0, 0, 0, 1 << 32, 0]));

    for allowed in [
        0x5401,
        0x540f,
        0x5413,
        0x541b,
        0x5421,
        0x5450,
        0x5451,
        // TCGETS2, TIOCGSID, TIOCOUTQ
        0x802c_542a,
        0x5429,
        0x5411,
        0x5401 | 1 << 32,
    ] {
        assert!(allows(&STRICT, nr::ioctl, &[0, allowed]), "{allowed:#x}");
    }
    // TCSETS, TIOCSTI, TIOCLINUX, TIOCSCTTY, FIOASYNC, FIOSETOWN, FS_IOC_SETFLAGS
    for refused in [0x5402, 0x5412, 0x541c, 0x540e, 0x5452, 0x8901, 0x4008_6602] {
        assert!(!allows(&STRICT, nr::ioctl, &[0, refused]), "{refused:#x}");
    }
    for allowed in [0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030] {
        assert!(allows(&STRICT, nr::fcntl, &[0, allowed]), "{allowed}");
    }
    // F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY, F_SETPIPE_SZ, F_ADD_SEALS
    for refused in [8, 10, 15, 1024, 1026, 1031, 1033] {
        assert!(!allows(&STRICT, nr::fcntl, &[0, refused]), "{refused}");
    }
    assert!(allows(&STRICT, nr::fallocate, &[3, 0, 0, 1 << 40]));
    for refused in 1..0x80 {
        assert!(!allows(&STRICT, nr::fallocate, &[3, refused, 0, 1]));
    }
    for (flags, allowed) in [(0, true), (1, true), (2, true), (4, false), (5, false)] {
        let call = [3, 0, 3, 0, flags];
        assert_eq!(allows(&STRICT, nr::renameat2, &call), allowed, "{flags}");
    }
    for allowed in [2, 3, 15, 16, 21, 23, 36, 37, 38, 39, 0x5356_4d41] {
        assert!(allows(&STRICT, nr::prctl, &[allowed, 1]), "{allowed}");
    }
    // KEEPCAPS, SECCOMP, CAPBSET_DROP, TSC, SECUREBITS, MM, AMBIENT, SUD, PTRACER
    for refused in [8, 22, 24, 26, 28, 35, 47, 59, 0x5961_6d61] {
        for value in [0, 1, 9] {
            assert!(!allows(&STRICT, nr::prctl, &[refused, value]), "{refused}");
        }
    }
    // DUMPABLE is taken away and never given; PDEATHSIG is SIGKILL.
    for (option, allowed) in [(4, 0), (1, 9)] {
        for value in [0, 1, 2, 9, 15, 19, 64] {
            let call = [option, value];
            assert_eq!(
                allows(&STRICT, nr::prctl, &call),
                value == allowed,
                "{call:?}"
            );
        }
    }
}

#[test]
fn what_a_process_sets_of_itself_it_sets_of_no_other() {
    let (process, group, user) = (0, 1, 2);
    for (nr, call, allowed) in [
        (nr::setpriority, [process, 0, 19], true),
        (nr::setpriority, [process, 0, 0], true),
        // Which the kernel answers, as it takes a right.
        (nr::setpriority, [process, 0, u64::from(u32::MAX)], true),
        (nr::setpriority, [process, 4242, 19], false),
        (nr::setpriority, [group, 0, 19], false),
        (nr::setpriority, [user, 0, 19], false),
        (nr::ioprio_set, [1, 0, 3 << 13], true),
        (nr::ioprio_set, [1, 4242, 3 << 13], false),
        (nr::ioprio_set, [2, 0, 3 << 13], false),
        (nr::ioprio_set, [3, 0, 3 << 13], false),
        (nr::sched_setaffinity, [0, 8, 1], true),
        (nr::sched_setaffinity, [4242, 8, 1], false),
        (nr::sched_setparam, [0, 1, 0], true),
        (nr::sched_setparam, [4242, 1, 0], false),
        // SCHED_OTHER, SCHED_BATCH, SCHED_IDLE; SCHED_RESET_ON_FORK with it.
        (nr::sched_setscheduler, [0, 0, 1], true),
        (nr::sched_setscheduler, [0, 3, 1], true),
        (nr::sched_setscheduler, [0, 5, 1], true),
        (nr::sched_setscheduler, [0, 0x4000_0005, 1], true),
        (nr::sched_setscheduler, [4242, 5, 1], false),
        // SCHED_FIFO, SCHED_RR, SCHED_DEADLINE.
        (nr::sched_setscheduler, [0, 1, 1], false),
        (nr::sched_setscheduler, [0, 2, 1], false),
        (nr::sched_setscheduler, [0, 6, 1], false),
        (nr::sched_setscheduler, [0, 0x4000_0001, 1], false),
    ] {
        for spec in [STRICT, PIPELINE, NETWORK, WORKSPACE] {
            assert_eq!(allows(&spec, nr, &call), allowed, "{nr} {call:?}");
        }
    }
}

#[test]
fn terminals_of_its_own_are_set_up_and_none_is_typed_into() {
    let with_view = FilterSpec {
        view: HookView::Own,
        ..WORKSPACE
    };
    // TCSETS, TCSETS2, TIOCSCTTY, TIOCSPGRP, TIOCSWINSZ, TIOCGPTN, TIOCSPTLCK, TIOCGPTPEER
    for request in [
        0x5402,
        0x402c_542b,
        0x540e,
        0x5410,
        0x5414,
        0x8004_5430,
        0x4004_5431,
        0x5441,
    ] {
        assert!(allows(&with_view, nr::ioctl, &[0, request]), "{request:#x}");
        for spec in [STRICT, PIPELINE, NETWORK, WORKSPACE] {
            assert!(!allows(&spec, nr::ioctl, &[0, request]), "{request:#x}");
        }
    }
    // TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD, FIOASYNC, FIOSETOWN, FS_IOC_SETFLAGS
    for request in [0x5412, 0x541c, 0x541d, 0x5423, 0x5452, 0x8901, 0x4008_6602] {
        assert!(
            !allows(&with_view, nr::ioctl, &[0, request]),
            "{request:#x}"
        );
    }
}

/// Or C libraries, which ask whether a pipe is a terminal by requests that no list has, take the answer for a fault.
#[test]
fn request_that_is_not_on_the_list_fails_as_on_a_descriptor_without_it() {
    for spec in [STRICT, PIPELINE, NETWORK, WORKSPACE] {
        let Rule::AllowWhen { otherwise, .. } = rule(&spec, nr::ioctl) else {
            panic!("{:?}", rule(&spec, nr::ioctl));
        };
        assert_eq!(otherwise, libc::ENOTTY);
        for (nr, _) in TABLE.iter().filter(|(nr, _)| *nr != nr::ioctl) {
            if let Rule::AllowWhen { otherwise, .. } = rule(&spec, *nr) {
                assert_eq!(otherwise, libc::EPERM, "{nr}");
            }
        }
    }
}

#[test]
fn files_are_opened_to_read_to_write_or_both_at_every_abi() {
    for landlock_abi in 1..=7 {
        let spec = FilterSpec {
            landlock_abi,
            ..STRICT
        };
        let ways = |flags: libc::c_int| {
            let flags = u64::from(flags.cast_unsigned());
            let [open, openat] = [(nr::open, [0, flags, 0]), (nr::openat, [0, 0, flags])]
                .map(|(nr, args)| allows(&spec, nr, &args));
            // Not every architecture has the older call.
            if !present(&["open"]).is_empty() {
                assert_eq!(open, openat);
            }
            openat
        };
        let more = [0, libc::O_CREAT, libc::O_DIRECTORY | libc::O_CLOEXEC];
        // To name a file only is no access mode of its own, although C libraries count it to them.
        assert!(ways(libc::O_PATH));
        for flags in more {
            assert!(ways(libc::O_RDONLY | flags));
            assert!(ways(libc::O_WRONLY | libc::O_TRUNC | flags));
            assert!(ways(libc::O_RDWR | libc::O_TRUNC | flags));
            for refused in [ACCESS_MODE, ACCESS_MODE | libc::O_TRUNC] {
                assert!(!ways(refused | flags), "{refused:#o} at {landlock_abi}");
            }
        }
        assert!(!ways(libc::O_TMPFILE | ACCESS_MODE));
        assert_eq!(ways(libc::O_RDONLY | libc::O_TRUNC), landlock_abi >= 3);
    }
}

#[test]
fn clone_makes_what_the_profile_says() {
    let thread =
        (libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND | libc::CLONE_SETTLS) as u64;
    let fork = libc::SIGCHLD as u64;
    assert!(allows(&STRICT, nr::clone, &[thread]) && allows(&PIPELINE, nr::clone, &[thread]));
    assert!(!allows(&STRICT, nr::clone, &[fork]) && allows(&PIPELINE, nr::clone, &[fork]));
    for new in [
        0x2_0000,
        0x200_0000,
        0x400_0000,
        0x800_0000,
        0x1000_0000,
        0x2000_0000,
        0x4000_0000_u64,
    ] {
        for flags in [new | thread, new | fork, new | fork | 1 << 32] {
            assert!(
                !allows(&STRICT, nr::clone, &[flags]) && !allows(&PIPELINE, nr::clone, &[flags]),
                "{flags:#x}"
            );
        }
    }
    assert!(!allows(
        &PIPELINE,
        nr::clone,
        &[fork | libc::CLONE_PARENT as u64]
    ));
}

#[test]
fn outbound_sockets_speak_tcp_and_udp_only() {
    for domain in [2, 10] {
        for (kind, protocol) in [(1, 0), (1, 6), (2, 0), (2, 17), (0o2_004_001, 6)] {
            assert!(
                allows(&NETWORK, nr::socket, &[domain, kind, protocol]),
                "{domain} {kind} {protocol}"
            );
        }
        // Raw, ICMP, MPTCP, SCTP, UDP-Lite, DCCP.
        for (kind, protocol) in [
            (3, 0),
            (3, 1),
            (2, 1),
            (1, 262),
            (1, 132),
            (5, 132),
            (2, 136),
            (6, 33),
        ] {
            assert!(
                !allows(&NETWORK, nr::socket, &[domain, kind, protocol]),
                "{domain} {kind} {protocol}"
            );
        }
    }
    for domain in (0..64).filter(|domain| ![2, 10].contains(domain)) {
        for kind in 1..=6 {
            assert!(
                !allows(&NETWORK, nr::socket, &[domain, kind, 0]),
                "{domain} {kind}"
            );
            assert!(
                !allows(&NETWORK, nr::socket, &[domain | 1 << 32, kind, 0]),
                "{domain} {kind}"
            );
        }
    }
}

#[test]
fn read_only_open_that_truncates_is_refused_where_landlock_does_not_see_it() {
    let old = FilterSpec {
        landlock_abi: 2,
        ..STRICT
    };
    let opens = [(nr::open, 1), (nr::openat, 2)];
    for (nr, flags) in opens.into_iter().filter(|&(nr, _)| name(nr).is_some()) {
        let open = |value: libc::c_int| {
            let mut args = [0; 3];
            args[flags] = value as u64;
            allows(&old, nr, &args)
        };
        assert!(
            open(libc::O_RDONLY)
                && open(libc::O_WRONLY | libc::O_TRUNC)
                && open(libc::O_RDWR | libc::O_TRUNC)
        );
        assert!(open(
            libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC
        ));
        assert!(
            !open(libc::O_TRUNC)
                && !open(3 | libc::O_TRUNC)
                && !open(libc::O_CREAT | libc::O_TRUNC)
        );
    }
}

/// Returns the rule expected of a call: this one, or that the call is missing where this architecture does not have it.
fn unless_absent(nr: u32, rule: Rule) -> Rule {
    if name(nr).is_some() { rule } else { ENOSYS }
}

/// Returns the calls that this architecture has.
fn present(names: &[&'static str]) -> Vec<&'static str> {
    let is_here = |&name: &&str| TABLE.iter().any(|&(_, known)| known == name);
    names.iter().copied().filter(is_here).collect()
}

/// Returns the sorted names of the calls on which two profiles differ.
fn differences(one: &FilterSpec, other: &FilterSpec) -> Vec<&'static str> {
    let differ = |&&(nr, _): &&(u32, &str)| rule(one, nr) != rule(other, nr);
    let mut names: Vec<_> = TABLE.iter().filter(differ).map(|&(_, name)| name).collect();
    names.sort_unstable();
    names
}

/// Returns whether a call with these arguments is allowed; arguments left out are 0.
fn allows(spec: &FilterSpec, nr: u32, arguments: &[u64]) -> bool {
    use crate::seccomp::arguments::Wanted;

    let holds = |index: u8, mask: u64, value: u64| {
        (arguments.get(usize::from(index)).copied().unwrap_or(0) ^ value) & mask == 0
    };
    match rule(spec, nr) {
        Rule::Allow => true,
        Rule::AllowWhen { ways, .. } => ways.iter().any(|way| {
            way.iter().all(|test| match test.wanted {
                Wanted::Exactly(value) => holds(test.index, test.width.mask(), value),
                Wanted::Masked { mask, value } => {
                    holds(test.index, mask & test.width.mask(), value)
                }
                Wanted::OwnGroup | Wanted::OwnPid => false,
            })
        }),
        Rule::Errno(_) | Rule::Kill => false,
    }
}

#[test]
fn no_file_gets_a_mode_that_lends_the_hooks_rights() {
    let flags = |flags: libc::c_int| u64::from(flags.cast_unsigned());
    let makes = [
        flags(libc::O_CREAT | libc::O_WRONLY),
        flags(libc::O_CREAT),
        flags(libc::O_TMPFILE | libc::O_RDWR),
        // As an old kernel takes it, and as the next one might.
        flags(libc::O_TMPFILE & !libc::O_DIRECTORY) | 2,
    ];
    for (mode, allowed) in [
        (0, true),
        (0o1777, true),
        (0o4755, false),
        (0o2755, false),
        (0o6000, false),
        (0o4000 | 1 << 32, false),
        (0o755 | 1 << 32, true),
    ] {
        for (nr, call) in [
            (nr::chmod, vec![0, mode]),
            (nr::fchmod, vec![3, mode]),
            (nr::fchmodat, vec![3, 0, mode]),
            (nr::fchmodat2, vec![3, 0, mode, 0]),
        ] {
            let allowed = allowed && name(nr).is_some();
            assert_eq!(allows(&WORKSPACE, nr, &call), allowed, "{nr} {mode:o}");
            assert!(!allows(&PIPELINE, nr, &call), "{nr} {mode:o}");
        }
        for landlock_abi in [1, 7] {
            for spec in [STRICT, WORKSPACE] {
                let spec = FilterSpec {
                    landlock_abi,
                    ..spec
                };
                let by_path = name(nr::open).is_some();
                let creat = allows(&spec, nr::creat, &[0, mode]);
                assert_eq!(creat, allowed && by_path, "{mode:o}");
                for made in makes {
                    let open = [0, made, mode];
                    let opened = allows(&spec, nr::open, &open);
                    assert_eq!(opened, allowed && by_path, "{open:?}");
                    let openat = [3, 0, made, mode];
                    assert_eq!(allows(&spec, nr::openat, &openat), allowed, "{openat:?}");
                }
                // Without a file to make, what stands in the mode's place is nothing.
                assert_eq!(allows(&spec, nr::open, &[0, 0, mode]), by_path);
                assert!(allows(&spec, nr::openat, &[3, 0, 1, mode]));
            }
        }
    }
}
