//! Every syscall that the profiles without network deny, and how: the table of `crates/sandbox/src/seccomp/rules.rs`, written
//! down a second time, by name. Each is called as a hook, and once without hookjail, where the kernel must answer otherwise.

use std::{collections::BTreeMap, path::Path};

use hookjail::{
    pb,
    policy::{HookView, Metadata, Network, Spawn},
};
use hookjail_sandbox::seccomp::{
    FilterSpec,
    rules::{Rule, rule},
    syscalls,
};
use libc::{ENOSYS, ENOTSUP, EPERM};

use crate::{
    attempts::{Probe, result},
    support::Daemon,
};

/// Calls that kill the process that makes them.
const KILLED: &str = "
    ptrace pivot_root acct mount umount2 swapon swapoff reboot iopl ioperm init_module delete_module quotactl
    kexec_load unshare perf_event_open open_by_handle_at setns process_vm_readv process_vm_writev finit_module
    kexec_file_load bpf userfaultfd open_tree move_mount fsopen fsconfig fsmount fspick pidfd_getfd
    mount_setattr quotactl_fd open_tree_attr
";

/// Calls that fail as if the kernel did not have them.
const MISSING: &str = "
    io_uring_setup io_uring_enter io_uring_register clone3 landlock_create_ruleset landlock_add_rule
    landlock_restrict_self openat2
";

/// Calls that fail as on a file system without extended attributes.
const UNSUPPORTED: &str = "
    getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr getxattrat listxattrat
";

/// Calls that fail as not permitted.
const REFUSED: &str = "
    shmget shmat shmctl socket connect accept sendmsg bind listen semget semop semctl shmdt msgget msgsnd
    msgrcv msgctl chmod fchmod chown fchown lchown syslog setpgid setsid
    setgroups capset rt_sigqueueinfo utime mknod uselib personality
    ustat sysfs sched_rr_get_interval mlockall
    munlockall vhangup modify_ldt _sysctl adjtimex chroot sync settimeofday sethostname
    setdomainname create_module get_kernel_syms query_module nfsservctl getpmsg putpmsg afs_syscall tuxcall
    security readahead setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr tkill
    set_thread_area io_setup io_destroy io_getevents io_submit io_cancel get_thread_area
    lookup_dcookie epoll_ctl_old epoll_wait_old remap_file_pages semtimedop clock_settime utimes vserver mbind
    set_mempolicy get_mempolicy mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr add_key
    request_key keyctl inotify_init inotify_add_watch inotify_rm_watch migrate_pages
    mknodat fchownat futimesat fchmodat get_robust_list sync_file_range vmsplice move_pages utimensat accept4
    inotify_init1 rt_tgsigqueueinfo recvmmsg fanotify_init fanotify_mark name_to_handle_at clock_adjtime
    syncfs sendmmsg kcmp sched_setattr seccomp memfd_create mlock2 io_pgetevents
    pidfd_send_signal pidfd_open process_madvise memfd_secret process_mrelease set_mempolicy_home_node
    cachestat fchmodat2 map_shadow_stack statmount listmount lsm_get_self_attr lsm_set_self_attr
    lsm_list_modules mseal setxattrat removexattrat file_getattr file_setattr listns rseq_slice_yield
";

/// Denied only where a hook may start no processes.
const STARTING_PROCESSES: &str = "fork vfork";

/// Made with nothing but zeros or nothing but ones, these would start or leave something. The matrix tries them.
const NOT_AS_NONSENSE: &str = "fork msgget vfork";

/// Values that make nonsense of a call: each of its six arguments is one.
const NONSENSE: [&str; 2] = ["0", "-1"];

/// How a call is denied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Denial {
    Errno(i32),
    Killed,
}

/// A syscall that is denied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Door {
    pub(crate) denial: Denial,
    pub(crate) name: &'static str,
    pub(crate) number: u32,
}

/// Returns every call that a profile without network or metadata denies with any arguments, as written down here.
pub(crate) fn doors(processes: bool) -> Vec<Door> {
    let starting = if processes { "" } else { STARTING_PROCESSES };
    let lists = [
        (KILLED, Denial::Killed),
        (MISSING, Denial::Errno(ENOSYS)),
        (UNSUPPORTED, Denial::Errno(ENOTSUP)),
        (REFUSED, Denial::Errno(EPERM)),
        (starting, Denial::Errno(EPERM)),
    ];
    let numbers: BTreeMap<_, _> = syscalls::TABLE
        .iter()
        .map(|&(number, name)| (name, number))
        .collect();
    lists
        .into_iter()
        .flat_map(|(names, denial)| names.split_whitespace().map(move |name| (name, denial)))
        // Not every architecture has them all.
        .filter_map(|(name, denial)| {
            let number = *numbers.get(name)?;
            Some(Door {
                denial,
                name,
                number,
            })
        })
        .collect()
}

impl Door {
    /// Returns whether the call can be made with nonsense.
    fn takes_nonsense(self) -> bool {
        !NOT_AS_NONSENSE
            .split_whitespace()
            .any(|call| call == self.name)
    }

    /// Whether the kernel answers otherwise without hookjail, so that the refusal is seen to be hookjail's.
    fn is_told_apart(self, probe: &Probe, user: u32, directory: &Path) -> bool {
        NONSENSE.iter().any(|nonsense| {
            let free = probe.unconfined(user, &self.call(nonsense), directory);
            match self.denial {
                Denial::Errno(errno) => free.code != Some(errno),
                Denial::Killed => free.signal != Some(libc::SIGSYS),
            }
        })
    }

    fn call(self, nonsense: &str) -> Vec<String> {
        let mut words = vec!["call".to_owned(), self.number.to_string()];
        words.extend((0..6).map(|_| nonsense.to_owned()));
        words
    }
}

/// Makes every call of a list as hooks; returns those whose door is not shut in the one way it must be.
pub(crate) async fn open_doors(
    probe: &Probe,
    daemon: &Daemon,
    profile: &str,
    doors: &[Door],
) -> Vec<String> {
    let doors = || doors.iter().filter(|door| door.takes_nonsense());
    let mut open = Vec::new();

    let mut words = vec!["doors".to_owned()];
    let mut expected = String::new();
    for door in doors() {
        if let Denial::Errno(errno) = door.denial {
            words.push(door.number.to_string());
            for _ in NONSENSE {
                expected += &format!("{} {errno}\n", door.number);
            }
        }
    }
    match daemon.run(probe.hook(profile, &words)).await {
        Ok(response) => {
            let seen = result(response);
            let pairs = seen.said.lines().zip(expected.lines());
            open.extend(
                pairs
                    .filter(|(errno, expected)| errno != expected)
                    .map(|(errno, expected)| format!("`{profile}`: {errno} instead of {expected}")),
            );
            if seen.said.lines().count() != expected.lines().count() {
                open.push(format!("`{profile}`: {:?} {:?}", seen.kind, seen.signal));
            }
        }
        Err(status) => open.push(format!("`{profile}`: {}", status.message())),
    }

    for door in doors().filter(|door| door.denial == Denial::Killed) {
        for nonsense in NONSENSE {
            let shut = match daemon.run(probe.hook(profile, &door.call(nonsense))).await {
                Ok(response) => {
                    let seen = result(response);
                    (seen.kind, seen.signal) == (pb::OutcomeKind::EscapeAttempt, Some(libc::SIGSYS))
                }
                Err(_) => false,
            };
            if !shut {
                open.push(format!("`{profile}`: {} does not kill", door.name));
            }
        }
    }
    open
}

#[test]
fn what_is_denied_is_written_down_call_by_call() {
    for processes in [false, true] {
        let spec = FilterSpec {
            landlock_abi: 7,
            metadata: Metadata::Keep,
            mounts: false,
            network: Network::None,
            spawn: if processes {
                Spawn::Processes
            } else {
                Spawn::Threads
            },
            view: HookView::Machine,
        };
        let mut expected: BTreeMap<_, _> = BTreeMap::new();
        for door in doors(processes) {
            let twice = expected.insert(door.name, door.denial);
            assert!(twice.is_none(), "{} is written down twice", door.name);
        }

        let denied = |&(number, name)| match rule(&spec, number) {
            Rule::Allow | Rule::AllowWhen { .. } => None,
            Rule::Errno(errno) => Some((name, Denial::Errno(errno))),
            Rule::Kill => Some((name, Denial::Killed)),
        };
        let table: BTreeMap<_, _> = syscalls::TABLE.iter().filter_map(denied).collect();

        assert_eq!(table, expected);
    }
}

#[tokio::test]
async fn every_call_that_is_denied_is_denied_in_a_hook_whatever_its_arguments() {
    let (probe, daemon) = (Probe::build(), Daemon::start().await);
    let user = probe.user(&daemon).await;
    let directory = daemon.outside("cwd");
    std::fs::create_dir(&directory).unwrap();

    let mut faults = Vec::new();
    for (profile, processes) in [("strict", false), ("pipeline", true)] {
        faults.extend(open_doors(&probe, &daemon, profile, &doors(processes)).await);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));

    // The positive control. The kernel itself refuses the rest to every process without the capability.
    let same: Vec<_> = doors(false)
        .into_iter()
        .filter(|door| door.takes_nonsense())
        .filter(|door| !door.is_told_apart(&probe, user, &directory))
        .map(|door| door.name)
        .collect();
    let privileged = [
        "syslog",
        "setgroups",
        "vhangup",
        "sethostname",
        "setdomainname",
        "fanotify_init",
    ];
    let unexpected: Vec<_> = same
        .iter()
        .filter(|name| !privileged.contains(name))
        .collect();
    assert!(unexpected.is_empty(), "no control for {unexpected:?}");
}
