//! Records denials of hooks: by seccomp user notification, and from the kernel's audit log. The daemon refuses each notified call
//! and records it. The audit log, where it is in use, has Landlock's refusals, which no filter sees.
//!
//! It is the daemon's and the kernel's own knowledge, not the hook's word.

use std::{
    collections::HashMap,
    io,
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    unistd::{Pid, getpgid},
};

use crate::{
    model::axis::Axis,
    policy::rights::{FileRight, FileRights},
    sandbox::{
        landlock::right_named,
        run::{kernel_audit::Access, observe::Observer},
        seccomp::{
            Passing,
            syscalls::{self, nr},
        },
    },
    sys::{Asked, Keeper, Listener},
};

/// Limit on different Landlock refusals kept for one run.
const BLOCKED: usize = 64;

/// Known denials of a run.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Known {
    /// Accesses that Landlock refused.
    pub blocked: Vec<Blocked>,
    /// System calls that were refused.
    pub calls: Vec<Denied>,
    /// System calls for which a process was killed.
    pub killed: Vec<Denied>,
    /// Whether the record is complete.
    pub whole: bool,
}

impl Known {
    /// Returns whether a denial concerns the hook itself, not its C library.
    #[must_use]
    pub(crate) fn is_denied(&self) -> bool {
        !self.killed.is_empty()
            || self.calls.iter().any(|denied| !denied.is_incidental())
            || self
                .blocked
                .iter()
                .any(|blocked| !self.is_incidental(blocked))
    }

    /// Returns whether creating a process was denied.
    #[must_use]
    pub(crate) fn is_denied_a_process(&self) -> bool {
        let is_new = |denied: &Denied| [nr::clone, nr::fork, nr::vfork].contains(&denied.number);
        self.calls.iter().any(is_new)
    }

    /// Returns whether libraries and shells try an access on their own.
    #[must_use]
    pub(crate) fn is_incidental(&self, blocked: &Blocked) -> bool {
        blocked.is_incidental() || self.is_lookup_of_a_name(blocked)
    }

    /// Returns whether an access is the GNU C library's lookup of its own user's name. Bash causes it: it reads how names are
    /// looked up each time before. A hook that reads the file itself reads it more often.
    fn is_lookup_of_a_name(&self, blocked: &Blocked) -> bool {
        let times = |path: &str| {
            let mut all = self.blocked.iter();
            all.find(|blocked| blocked.is_read_of(path))
                .map_or(0, |blocked| blocked.times)
        };
        ["/etc/group", "/etc/passwd"]
            .into_iter()
            .any(|path| blocked.is_read_of(path) && blocked.times <= times("/etc/nsswitch.conf"))
    }

    /// Returns the names of all denials.
    #[must_use]
    pub(crate) fn names(&self) -> Vec<String> {
        let calls = self.calls.iter().chain(&self.killed).map(Denied::name);
        calls
            .chain(self.blocked.iter().map(Blocked::name))
            .collect()
    }
}

/// An access that Landlock refused.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Blocked {
    kinds: Vec<String>,
    /// The file or directory, if its path is known.
    pub path: Option<PathBuf>,
    /// Number of refusals.
    pub times: u64,
}

impl Blocked {
    /// Returns the access by the kernel's names.
    #[must_use]
    pub(crate) fn name(&self) -> String {
        let names: Vec<_> = self
            .kinds
            .iter()
            .map(|kind| kind.strip_prefix("fs.").unwrap_or(kind))
            .collect();
        names.join(",")
    }

    /// Returns the missing rights on files, as far as their names are known.
    #[must_use]
    pub(crate) fn rights(&self) -> FileRights {
        let rights: Vec<_> = self
            .kinds
            .iter()
            .filter_map(|kind| right_named(kind))
            .collect();
        FileRights::of(&rights)
    }

    /// Returns the access's axis.
    #[must_use]
    pub(crate) fn axis(&self) -> Option<Axis> {
        let first = self.kinds.first()?;
        if let Some(right) = right_named(first) {
            return Some(match right {
                FileRight::Execute => Axis::Execute,
                FileRight::IoctlDevice => Axis::Devices,
                FileRight::ReadDirectory | FileRight::ReadFile => Axis::Read,
                FileRight::ResolveSocket => Axis::Ipc,
                FileRight::MakeBlock
                | FileRight::MakeChar
                | FileRight::MakeDirectory
                | FileRight::MakeFifo
                | FileRight::MakeFile
                | FileRight::MakeLink
                | FileRight::MakeSocket
                | FileRight::Refer
                | FileRight::RemoveDirectory
                | FileRight::RemoveFile
                | FileRight::Truncate
                | FileRight::WriteFile => Axis::Write,
            });
        }
        match first.split('.').next()? {
            "net" => Some(Axis::Network),
            "scope" | "ptrace" => Some(Axis::Ipc),
            _ => None,
        }
    }

    /// Returns whether C libraries, shells and interpreters try the access on their own. They do without it; if it counted, every
    /// hook that bash runs would seem to have been refused something.
    #[must_use]
    fn is_incidental(&self) -> bool {
        let Some(path) = self.path.as_deref().and_then(Path::to_str) else {
            return false;
        };
        let looked_at = [
            "/etc/locale.alias",
            "/etc/nsswitch.conf",
            "/proc/filesystems",
            "/proc/meminfo",
        ];
        let of_itself = |path: &str| {
            let rest = path.strip_prefix("/proc/");
            let split = rest.and_then(|rest| rest.split_once('/'));
            split.is_some_and(|(process, file)| {
                process.bytes().all(|byte| byte.is_ascii_digit())
                    && ["cgroup", "maps", "mounts"].contains(&file)
            })
        };
        match path {
            // Whether there is a terminal.
            "/dev/null" => self.kinds == ["fs.ioctl_dev"],
            "/dev/tty" => true,
            _ => self.kinds == ["fs.read_file"] && (looked_at.contains(&path) || of_itself(path)),
        }
    }

    fn is_read_of(&self, path: &str) -> bool {
        self.kinds == ["fs.read_file"] && self.path.as_deref() == Some(Path::new(path))
    }
}

/// A system call that a hook was denied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Denied {
    /// Arguments of the first call; `None` from the audit log, which does not have them.
    pub arguments: Option<[u64; 6]>,
    /// The system call's number.
    pub number: u32,
    /// Number of denials.
    pub times: u64,
}

impl Denied {
    /// Returns the system call's name.
    #[must_use]
    pub(crate) fn name(&self) -> String {
        syscalls::name(self.number).map_or_else(|| self.number.to_string(), str::to_owned)
    }

    /// Returns whether C libraries, shells and basic tools make the call on their own. They do without it; if it counted, every
    /// hook that copies a file would seem to have been refused something.
    #[must_use]
    pub(crate) fn is_incidental(&self) -> bool {
        let Some(arguments) = self.arguments else {
            return false;
        };
        match self.number {
            nr::socket => is_socket_of_libc(arguments),
            // `cp` asks whether the file system can have both files share their blocks, and copies them where it cannot.
            nr::ioctl => word(arguments[1]) == FICLONE,
            // bash asks how much a pipe holds, and writes a here-string or here-document to a file where it is not told.
            nr::fcntl => word(arguments[1]) == libc::F_GETPIPE_SZ.cast_unsigned(),
            _ => false,
        }
    }
}

/// The `ioctl` request that shares another file's blocks (reflink).
const FICLONE: u32 = 0x4004_9409;

/// Truncates an argument to the width that the kernel reads.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the kernel does not look at the upper half"
)]
const fn word(argument: u64) -> u32 {
    argument as u32
}

/// Returns whether the GNU C library creates such a socket on its own. One goes to the name service cache daemon, before it looks
/// into `/etc`; one to the kernel that lists network interfaces. Listing a directory, starting bash or npm does so, without
/// needing an answer; a hook that then wants the network is denied other sockets.
fn is_socket_of_libc([domain, kind, protocol, ..]: [u64; 6]) -> bool {
    let is = |asked: i32, sort: i32| {
        domain == u64::from(asked.cast_unsigned()) && kind == u64::from(sort.cast_unsigned())
    };
    let of_names = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let of_interfaces = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    is(libc::AF_UNIX, of_names)
        || is(libc::AF_NETLINK, of_interfaces)
            && protocol == u64::from(libc::NETLINK_ROUTE.cast_unsigned())
}

/// Denials of the running hooks, by process group.
#[derive(Debug)]
pub(in crate::sandbox) struct Denials {
    keeper: Arc<Keeper>,
    observer: Option<Arc<Observer>>,
    runs: Mutex<HashMap<i32, Run>>,
}

/// Denials of one run so far.
#[derive(Debug, Default)]
struct Run {
    /// Whether a denial was left out.
    cut: bool,
    known: Known,
}

impl Denials {
    pub(in crate::sandbox) fn new(keeper: Arc<Keeper>, observer: Option<Arc<Observer>>) -> Self {
        Self {
            keeper,
            observer,
            runs: Mutex::default(),
        }
    }

    /// Returns the observer of hooks, if there is one.
    pub(in crate::sandbox) const fn observer(&self) -> Option<&Arc<Observer>> {
        self.observer.as_ref()
    }

    /// Refuses system calls notified by seccomp, on a dedicated thread, until no filtered task remains. Observed calls that would
    /// have been allowed continue.
    ///
    /// # Errors
    ///
    /// The thread cannot be started; then the calls fail with ENOSYS.
    pub(in crate::sandbox) fn attend(
        self: &Arc<Self>,
        listeners: Vec<Listener>,
        passing: Option<Passing>,
    ) -> io::Result<()> {
        if let Some(observer) = self.observer.as_ref().filter(|_| passing.is_some()) {
            observer.attended();
        }
        let denials = Arc::clone(self);
        thread::Builder::new()
            .name("denials".to_owned())
            .stack_size(256 * 1024)
            .spawn(move || attend(&denials, listeners, passing.as_ref()))
            .map(drop)
    }

    /// Returns the notes of a run that has begun. Until they are taken, its audit records are noted, even after the keeper has
    /// stopped watching its group.
    pub(in crate::sandbox) fn of(self: &Arc<Self>, group: i32) -> Notes {
        self.lock().entry(group).or_default();
        Notes {
            denials: Arc::clone(self),
            group,
        }
    }

    /// Returns whether a process group belongs to a run whose notes are not taken yet.
    pub(in crate::sandbox) fn is_of_a_hook(&self, group: i32) -> bool {
        self.lock().contains_key(&group) || self.keeper.watches(group)
    }

    fn note(&self, group: i32, asked: &Asked) {
        self.with(group, |run| {
            let new = Denied {
                arguments: Some(asked.arguments),
                number: asked.number,
                times: 1,
            };
            count(&mut run.known.calls, new);
        });
    }

    /// Records a call that, by the audit log, was refused or ended a process.
    pub(in crate::sandbox) fn note_call(&self, group: i32, number: Option<u32>, killed: bool) {
        self.with(group, |run| {
            let Some(number) = number else {
                run.cut = true;
                return;
            };
            // Hidden, as in a kernel without it, and so not refused; of what is hidden only this can be in the log, because the
            // set-up needs it.
            if number == nr::landlock_restrict_self && !killed {
                return;
            }
            let known = if killed {
                &mut run.known.killed
            } else {
                &mut run.known.calls
            };
            let new = Denied {
                arguments: None,
                number,
                times: 1,
            };
            count(known, new);
        });
    }

    /// Records an access that, by the audit log, Landlock refused.
    pub(in crate::sandbox) fn note_access(&self, group: i32, access: Access) {
        self.with(group, |run| {
            let blocked = &mut run.known.blocked;
            let same =
                |known: &&mut Blocked| known.kinds == access.kinds && known.path == access.path;
            let is_full = blocked.len() >= BLOCKED;
            match blocked.iter_mut().find(same) {
                Some(known) => known.times += 1,
                None if !is_full => blocked.push(Blocked {
                    kinds: access.kinds,
                    path: access.path,
                    times: 1,
                }),
                None => run.cut = true,
            }
        });
    }

    /// Records that the notes are incomplete.
    pub(in crate::sandbox) fn note_cut(&self, group: i32) {
        self.with(group, |run| run.cut = true);
    }

    fn with(&self, group: i32, note: impl FnOnce(&mut Run)) {
        // With the lock held: a run that ends now is forgotten after this, not before.
        let mut runs = self.lock();
        match runs.get_mut(&group) {
            Some(run) => note(run),
            // A child of a self-test is denied much, and nobody asks for it.
            None if self.keeper.watches(group) => note(runs.entry(group).or_default()),
            None => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i32, Run>> {
        // Each change is one insertion, removal or addition: a panic leaves nothing half done.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The notes of one run; dropping them discards them. By then the keeper must no longer watch the run's group.
#[derive(Debug)]
pub(in crate::sandbox) struct Notes {
    denials: Arc<Denials>,
    group: i32,
}

impl Notes {
    /// Returns the run's denials; `whole` says whether all sources were available and complete.
    pub(in crate::sandbox) fn take(&self, whole: bool) -> Known {
        let Run { cut, known } = self.denials.lock().remove(&self.group).unwrap_or_default();
        Known {
            whole: whole && !cut,
            ..known
        }
    }

    /// Returns the denials that the notes belong to.
    pub(in crate::sandbox) fn denials(&self) -> &Denials {
        &self.denials
    }

    /// Returns the process group.
    pub(in crate::sandbox) const fn group(&self) -> i32 {
        self.group
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        self.take(false);
    }
}

/// Adds a call to the known ones.
fn count(known: &mut Vec<Denied>, new: Denied) {
    // What is incidental must not hide what is not, nor arguments be said of calls that are known without.
    let same = |known: &&mut Denied| {
        known.number == new.number
            && known.is_incidental() == new.is_incidental()
            && known.arguments.is_some() == new.arguments.is_some()
    };
    match known.iter_mut().find(same) {
        Some(known) => known.times += 1,
        None => known.push(new),
    }
}

fn attend(denials: &Denials, mut listeners: Vec<Listener>, passing: Option<&Passing>) {
    while !listeners.is_empty() {
        let mut ready: Vec<_> = listeners
            .iter()
            .map(|listener| PollFd::new(listener.as_fd(), PollFlags::POLLIN))
            .collect();
        match poll(&mut ready, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => {
                tracing::error!(%error, "denied calls cannot be attended to: they fail with ENOSYS");
                return;
            }
        }
        let seen: Vec<_> = ready
            .iter()
            .map(|fd| fd.revents().unwrap_or(PollFlags::empty()))
            .collect();
        let mut seen = seen.into_iter();
        listeners.retain(|listener| {
            let seen = seen.next().unwrap_or(PollFlags::empty());
            if seen.contains(PollFlags::POLLIN) {
                answer(denials, listener, passing)
            } else {
                // Hung up: every task that could ask is gone.
                seen.is_empty()
            }
        });
    }
}

/// Answers one notification. Returns whether the listener is of further use.
fn answer(denials: &Denials, listener: &Listener, passing: Option<&Passing>) -> bool {
    let answered = listener.next().and_then(|asked| {
        let Some(asked) = asked else { return Ok(()) };
        let group = getpgid(Some(Pid::from_raw(asked.task)));
        let group = group.ok().map(Pid::as_raw);
        // By the number and the registers alone, as the filter would: nothing that the hook could change meanwhile.
        if passing.is_some_and(|passing| passing.lets(asked.number, &asked.arguments)) {
            if let (Some(observer), Some(group)) = (&denials.observer, group)
                && denials.is_of_a_hook(group)
            {
                observer.note(group, &asked, || listener.still_waits(&asked));
            }
            return listener.proceed(&asked);
        }
        if let Some(group) = group
            && listener.still_waits(&asked)
        {
            denials.note(group, &asked);
        }
        listener.refuse(&asked, libc::EPERM)
    });
    if let Err(error) = &answered {
        tracing::error!(%error, "denied calls cannot be attended to: they fail with ENOSYS");
    }
    answered.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked(kind: &str, path: &str, times: u64) -> Blocked {
        Blocked {
            kinds: vec![kind.to_owned()],
            path: Some(path.into()),
            times,
        }
    }

    fn is_denied(blocked: Vec<Blocked>) -> bool {
        let known = Known {
            blocked,
            ..Known::default()
        };
        known.is_denied()
    }

    #[test]
    fn what_shells_and_c_libraries_look_at_on_their_own_is_no_denial_and_the_same_asked_for_is() {
        let read = |path, times| blocked("fs.read_file", path, times);
        assert!(!is_denied(vec![]));
        assert!(!is_denied(vec![
            read("/etc/locale.alias", 2),
            read("/etc/nsswitch.conf", 1),
            read("/etc/passwd", 1),
            read("/proc/77/mounts", 1),
            blocked("fs.write_file", "/dev/tty", 1),
            blocked("fs.ioctl_dev", "/dev/null", 1),
        ]));
        for wanted in [
            vec![read("/etc/passwd", 1)],
            vec![read("/etc/nsswitch.conf", 1), read("/etc/passwd", 2)],
            vec![read("/proc/77/environ", 1)],
            vec![read("/proc/self/maps", 1)],
            vec![blocked("fs.write_file", "/etc/locale.alias", 1)],
            vec![blocked("fs.ioctl_dev", "/dev/kvm", 1)],
            vec![blocked("scope.signal", "", 1)],
        ] {
            assert!(is_denied(wanted.clone()), "{wanted:?}");
        }
    }

    #[test]
    fn sockets_that_the_c_library_asks_for_on_its_own_are_no_denial_and_others_are() {
        let is_denied = |family: i32, kind: i32, protocol: i32| {
            let words = [family, kind | libc::SOCK_CLOEXEC, protocol, 0, 0, 0];
            let call = Denied {
                arguments: Some(words.map(|word| u64::from(word.cast_unsigned()))),
                number: nr::socket,
                times: 1,
            };
            let known = Known {
                calls: vec![call],
                ..Known::default()
            };
            known.is_denied()
        };
        let without_waiting = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
        assert!(!is_denied(libc::AF_UNIX, without_waiting, 0));
        assert!(!is_denied(
            libc::AF_NETLINK,
            libc::SOCK_RAW,
            libc::NETLINK_ROUTE
        ));
        for (family, kind, protocol) in [
            (libc::AF_UNIX, libc::SOCK_STREAM, 0),
            (libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_AUDIT),
            (libc::AF_NETLINK, libc::SOCK_DGRAM, libc::NETLINK_ROUTE),
            (libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0),
        ] {
            assert!(is_denied(family, kind, protocol), "{family} {kind}");
        }
    }

    #[test]
    fn what_tools_ask_of_open_files_on_their_own_is_no_denial_and_other_requests_are() {
        let is_denied = |number: u32, request: u64| {
            let call = Denied {
                arguments: Some([3, request, 4, 0, 0, 0]),
                number,
                times: 1,
            };
            let known = Known {
                calls: vec![call],
                ..Known::default()
            };
            known.is_denied()
        };
        // FICLONE, also with what the kernel does not look at; F_GETPIPE_SZ.
        for (number, request) in [
            (nr::ioctl, 0x4004_9409),
            (nr::ioctl, 0xffff_ffff_4004_9409),
            (nr::fcntl, 1032),
        ] {
            assert!(!is_denied(number, request), "{number} {request}");
        }
        // TIOCSTI; FICLONERANGE; F_SETPIPE_SZ; F_NOTIFY; either number at the other call.
        for (number, request) in [
            (nr::ioctl, 0x5412),
            (nr::ioctl, 0x4020_940d),
            (nr::fcntl, 1031),
            (nr::fcntl, 1026),
            (nr::ioctl, 1032),
            (nr::fcntl, 0x4004_9409),
        ] {
            assert!(is_denied(number, request), "{number} {request}");
        }
    }

    #[test]
    fn what_is_blocked_has_a_name_rights_and_an_axis() {
        let both = Blocked {
            kinds: vec!["fs.write_file".to_owned(), "fs.truncate".to_owned()],
            path: None,
            times: 1,
        };
        assert_eq!(both.name(), "write_file,truncate");
        assert_eq!(
            both.rights(),
            FileRights::of(&[FileRight::Truncate, FileRight::WriteFile])
        );
        assert_eq!(both.axis(), Some(Axis::Write));
        for (kind, axis) in [
            ("fs.execute", Some(Axis::Execute)),
            ("fs.read_dir", Some(Axis::Read)),
            ("net.connect_tcp", Some(Axis::Network)),
            ("scope.signal", Some(Axis::Ipc)),
            ("later", None),
        ] {
            assert_eq!(blocked(kind, "/x", 1).axis(), axis, "{kind}");
        }
    }
}
