//! Facts about aarch64's calls from other sources.

use std::ops::RangeInclusive;

use crate::seccomp::syscalls::{name, nr};

#[test]
fn calls_of_another_architecture_have_numbers_that_no_call_has() {
    for (number, absent) in [(nr::open, 0), (nr::fork, 10), (nr::eventfd, 55)] {
        assert_eq!(number, 0xffff_0000 + absent);
        assert_eq!(name(number), None);
    }
}

/// The ranges of numbers without a call.
pub(crate) const HOLES: &[RangeInclusive<u32>] = &[244..=259, 295..=423];

/// Calls missing from the C library's constants, from the kernel's table.
pub(crate) const BEYOND_LIBC: &[(u32, &str)] = &[
    (38, "renameat"),
    (84, "sync_file_range"),
    (163, "getrlimit"),
    (164, "setrlimit"),
    (292, "io_pgetevents"),
    (451, "cachestat"),
    (452, "fchmodat2"),
    (453, "map_shadow_stack"),
    (454, "futex_wake"),
    (455, "futex_wait"),
    (456, "futex_requeue"),
    (457, "statmount"),
    (458, "listmount"),
    (459, "lsm_get_self_attr"),
    (460, "lsm_set_self_attr"),
    (461, "lsm_list_modules"),
    (463, "setxattrat"),
    (464, "getxattrat"),
    (465, "listxattrat"),
    (466, "removexattrat"),
    (467, "open_tree_attr"),
    (468, "file_getattr"),
    (469, "file_setattr"),
    (470, "listns"),
    (471, "rseq_slice_yield"),
];

libc_knows! {
    SYS_io_setup SYS_io_destroy SYS_io_submit SYS_io_cancel SYS_io_getevents SYS_setxattr SYS_lsetxattr
    SYS_fsetxattr SYS_getxattr SYS_lgetxattr SYS_fgetxattr SYS_listxattr SYS_llistxattr SYS_flistxattr
    SYS_removexattr SYS_lremovexattr SYS_fremovexattr SYS_getcwd SYS_lookup_dcookie SYS_eventfd2
    SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_dup SYS_dup3 SYS_fcntl SYS_inotify_init1
    SYS_inotify_add_watch SYS_inotify_rm_watch SYS_ioctl SYS_ioprio_set SYS_ioprio_get SYS_flock
    SYS_mknodat SYS_mkdirat SYS_unlinkat SYS_symlinkat SYS_linkat SYS_umount2 SYS_mount SYS_pivot_root
    SYS_nfsservctl SYS_statfs SYS_fstatfs SYS_truncate SYS_ftruncate SYS_fallocate SYS_faccessat SYS_chdir
    SYS_fchdir SYS_chroot SYS_fchmod SYS_fchmodat SYS_fchownat SYS_fchown SYS_openat SYS_close SYS_vhangup
    SYS_pipe2 SYS_quotactl SYS_getdents64 SYS_lseek SYS_read SYS_write SYS_readv SYS_writev SYS_pread64
    SYS_pwrite64 SYS_preadv SYS_pwritev SYS_sendfile SYS_pselect6 SYS_ppoll SYS_signalfd4 SYS_vmsplice
    SYS_splice SYS_tee SYS_readlinkat SYS_newfstatat SYS_fstat SYS_sync SYS_fsync SYS_fdatasync
    SYS_timerfd_create SYS_timerfd_settime SYS_timerfd_gettime SYS_utimensat SYS_acct SYS_capget
    SYS_capset SYS_personality SYS_exit SYS_exit_group SYS_waitid SYS_set_tid_address SYS_unshare
    SYS_futex SYS_set_robust_list SYS_get_robust_list SYS_nanosleep SYS_getitimer SYS_setitimer
    SYS_kexec_load SYS_init_module SYS_delete_module SYS_timer_create SYS_timer_gettime
    SYS_timer_getoverrun SYS_timer_settime SYS_timer_delete SYS_clock_settime SYS_clock_gettime
    SYS_clock_getres SYS_clock_nanosleep SYS_syslog SYS_ptrace SYS_sched_setparam SYS_sched_setscheduler
    SYS_sched_getscheduler SYS_sched_getparam SYS_sched_setaffinity SYS_sched_getaffinity SYS_sched_yield
    SYS_sched_get_priority_max SYS_sched_get_priority_min SYS_sched_rr_get_interval SYS_restart_syscall
    SYS_kill SYS_tkill SYS_tgkill SYS_sigaltstack SYS_rt_sigsuspend SYS_rt_sigaction SYS_rt_sigprocmask
    SYS_rt_sigpending SYS_rt_sigtimedwait SYS_rt_sigqueueinfo SYS_rt_sigreturn SYS_setpriority
    SYS_getpriority SYS_reboot SYS_setregid SYS_setgid SYS_setreuid SYS_setuid SYS_setresuid SYS_getresuid
    SYS_setresgid SYS_getresgid SYS_setfsuid SYS_setfsgid SYS_times SYS_setpgid SYS_getpgid SYS_getsid
    SYS_setsid SYS_getgroups SYS_setgroups SYS_uname SYS_sethostname SYS_setdomainname SYS_getrusage
    SYS_umask SYS_prctl SYS_getcpu SYS_gettimeofday SYS_settimeofday SYS_adjtimex SYS_getpid SYS_getppid
    SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_gettid SYS_sysinfo SYS_mq_open SYS_mq_unlink
    SYS_mq_timedsend SYS_mq_timedreceive SYS_mq_notify SYS_mq_getsetattr SYS_msgget SYS_msgctl SYS_msgrcv
    SYS_msgsnd SYS_semget SYS_semctl SYS_semtimedop SYS_semop SYS_shmget SYS_shmctl SYS_shmat SYS_shmdt
    SYS_socket SYS_socketpair SYS_bind SYS_listen SYS_accept SYS_connect SYS_getsockname SYS_getpeername
    SYS_sendto SYS_recvfrom SYS_setsockopt SYS_getsockopt SYS_shutdown SYS_sendmsg SYS_recvmsg
    SYS_readahead SYS_brk SYS_munmap SYS_mremap SYS_add_key SYS_request_key SYS_keyctl SYS_clone
    SYS_execve SYS_mmap SYS_fadvise64 SYS_swapon SYS_swapoff SYS_mprotect SYS_msync SYS_mlock SYS_munlock
    SYS_mlockall SYS_munlockall SYS_mincore SYS_madvise SYS_remap_file_pages SYS_mbind SYS_get_mempolicy
    SYS_set_mempolicy SYS_migrate_pages SYS_move_pages SYS_rt_tgsigqueueinfo SYS_perf_event_open
    SYS_accept4 SYS_recvmmsg SYS_wait4 SYS_prlimit64 SYS_fanotify_init SYS_fanotify_mark
    SYS_name_to_handle_at SYS_open_by_handle_at SYS_clock_adjtime SYS_syncfs SYS_setns SYS_sendmmsg
    SYS_process_vm_readv SYS_process_vm_writev SYS_kcmp SYS_finit_module SYS_sched_setattr
    SYS_sched_getattr SYS_renameat2 SYS_seccomp SYS_getrandom SYS_memfd_create SYS_bpf SYS_execveat
    SYS_userfaultfd SYS_membarrier SYS_mlock2 SYS_copy_file_range SYS_preadv2 SYS_pwritev2
    SYS_pkey_mprotect SYS_pkey_alloc SYS_pkey_free SYS_statx SYS_rseq SYS_kexec_file_load
    SYS_pidfd_send_signal SYS_io_uring_setup SYS_io_uring_enter SYS_io_uring_register SYS_open_tree
    SYS_move_mount SYS_fsopen SYS_fsconfig SYS_fsmount SYS_fspick SYS_pidfd_open SYS_clone3
    SYS_close_range SYS_openat2 SYS_pidfd_getfd SYS_faccessat2 SYS_process_madvise SYS_epoll_pwait2
    SYS_mount_setattr SYS_quotactl_fd SYS_landlock_create_ruleset SYS_landlock_add_rule
    SYS_landlock_restrict_self SYS_memfd_secret SYS_process_mrelease SYS_futex_waitv
    SYS_set_mempolicy_home_node SYS_mseal
}
