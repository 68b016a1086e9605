//! Denies syscalls by seccomp user notification, and records the denials of each hook.
//!
//! The records are the daemon's own observations, not claims of the hook.

use std::{
    collections::{HashMap, hash_map::Entry},
    io,
    os::fd::AsFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

use hookjail_base::model::axis::Axis;
use hookjail_sys::{Keeper, Listener, Notification};

use crate::{
    egress::{Registered, Relays},
    run::{connection::Connections, membership::Membership, observe::Observer},
    seccomp::{
        Passing, rules,
        syscalls::{self, nr},
    },
};

/// Known denials of a run.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Known {
    /// Syscalls that were refused.
    pub calls: Vec<Denied>,
}

impl Known {
    /// Returns whether a denial concerns the hook itself, not its C library.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.calls.iter().any(|denied| !denied.is_incidental())
    }

    /// Returns whether creating a process was denied.
    #[must_use]
    pub fn is_denied_a_process(&self) -> bool {
        let is_new = |denied: &Denied| [nr::clone, nr::fork, nr::vfork].contains(&denied.number);
        self.calls.iter().any(is_new)
    }

    /// Returns the axes of those that concern the hook itself, each with the number of denials. `None`: no axis covers it.
    pub fn by_axis(&self) -> impl Iterator<Item = (Option<Axis>, u64)> {
        let deliberate = self.calls.iter().filter(|denied| !denied.is_incidental());
        deliberate.map(|denied| (rules::axis(denied.number), denied.times))
    }

    /// Returns the names of those that concern the hook itself.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.named(false)
    }

    /// Returns the names of the others.
    #[must_use]
    pub fn incidental_names(&self) -> Vec<String> {
        self.named(true)
    }

    fn named(&self, incidental: bool) -> Vec<String> {
        let calls = self.calls.iter();
        let calls = calls.filter(|denied| denied.is_incidental() == incidental);
        calls.map(Denied::name).collect()
    }
}

/// A syscall that a hook was denied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Denied {
    /// Arguments of the first call.
    pub arguments: [u64; 6],
    /// Whether its run reaches hosts by name, whose addresses programs look at with sockets of UDP.
    pub has_egress: bool,
    /// The syscall's number.
    pub number: u32,
    /// Number of denials.
    pub times: u64,
}

impl Denied {
    /// Returns the syscall's name.
    #[must_use]
    pub fn name(&self) -> String {
        syscalls::name(self.number).map_or_else(|| self.number.to_string(), str::to_owned)
    }

    /// Returns whether common programs make the call on their own and work without it.
    ///
    /// If such calls counted, every hook that copies a file would seem to have been denied an access.
    #[must_use]
    pub fn is_incidental(&self) -> bool {
        match self.number {
            nr::socket => {
                is_socket_of_libc(self.arguments)
                    || self.has_egress && is_socket_of_resolver(self.arguments)
            }
            // On a socket of its own: C libraries look for the name service cache so, tsx for its parent.
            nr::connect => true,
            // bash queries a pipe's capacity, and writes here-documents to a file where that fails.
            nr::fcntl => word(self.arguments[1]) == libc::F_GETPIPE_SZ.cast_unsigned(),
            _ => false,
        }
    }
}

/// Truncates an argument to the width that the kernel reads.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the kernel does not look at the upper half"
)]
const fn word(argument: u64) -> u32 {
    argument as u32
}

/// Returns whether the GNU C library creates such a socket on its own.
///
/// One is for the name service cache daemon, tried before `/etc`; another lists network interfaces by netlink. `ls`,
/// bash and npm create them and work without an answer. A hook that needs the network is denied other sockets.
fn is_socket_of_libc([domain, kind, protocol, ..]: [u64; 6]) -> bool {
    let is = |family: i32, sort: i32| {
        domain == u64::from(family.cast_unsigned()) && kind == u64::from(sort.cast_unsigned())
    };
    let of_names = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let of_interfaces = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    is(libc::AF_UNIX, of_names)
        || is(libc::AF_NETLINK, of_interfaces)
            && protocol == u64::from(libc::NETLINK_ROUTE.cast_unsigned())
}

/// Returns whether programs create such a socket to learn which addresses of a name they can use: the GNU C library sorts them, and
/// curl looks for IPv6. Names resolve without.
fn is_socket_of_resolver([domain, kind, protocol, ..]: [u64; 6]) -> bool {
    let is_internet = [libc::AF_INET, libc::AF_INET6].contains(&word(domain).cast_signed());
    let kind = word(kind).cast_signed() & !libc::SOCK_CLOEXEC;
    is_internet && kind == libc::SOCK_DGRAM && word(protocol) == 0
}

/// Denials of the running hooks, by the group by which each run is known.
#[derive(Debug)]
pub(crate) struct Denials {
    members: Membership,
    /// Egress of runs whose profile names hosts.
    pub(crate) relays: Arc<Relays>,
    observer: Option<Arc<Observer>>,
    runs: Mutex<HashMap<i32, Known>>,
}

impl Denials {
    pub(crate) fn new(keeper: Arc<Keeper>, observer: Option<Arc<Observer>>) -> Self {
        Self {
            members: Membership::new(keeper),
            relays: Arc::default(),
            observer,
            runs: Mutex::default(),
        }
    }

    /// Returns the observer of hooks, if there is one.
    pub(crate) const fn observer(&self) -> Option<&Arc<Observer>> {
        self.observer.as_ref()
    }

    /// Refuses syscalls notified by seccomp, on a dedicated thread, until no filtered task remains. Observed calls that would
    /// have been allowed continue.
    ///
    /// # Errors
    ///
    /// Fails where the thread cannot be started; the calls then fail with ENOSYS.
    pub(crate) fn attend(
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

    /// Returns whether a process belongs to a running hook.
    pub(crate) fn is_of_hook(&self, pid: i32) -> bool {
        self.members.run_of(pid).is_some()
    }

    /// Returns the notes of a run that has begun, with its egress.
    pub(crate) fn notes(self: &Arc<Self>, group: i32, egress: Option<Registered>) -> Notes {
        Notes {
            denials: Arc::clone(self),
            egress,
            group,
        }
    }

    /// Returns whether no denials are kept.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn note(&self, group: i32, notification: &Notification, has_egress: bool) {
        // With the lock held, so that a run cannot be removed between lookup and count.
        let mut runs = self.lock();
        let known = match runs.entry(group) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(none) if self.members.watches(group) => none.insert(Known::default()),
            Entry::Vacant(_) => return,
        };
        count(&mut known.calls, notification, has_egress);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i32, Known>> {
        // Each change is one insertion, removal or addition: a panic leaves nothing half done.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The notes of one run, discarded on drop. The keeper must no longer watch the run's group then.
#[derive(Debug)]
pub(crate) struct Notes {
    denials: Arc<Denials>,
    egress: Option<Registered>,
    group: i32,
}

impl Notes {
    /// Returns the denials and the connections of a run whose process tree is dead.
    pub(crate) fn take(mut self) -> (Known, Connections) {
        let connections = self.egress.take().map(Registered::take);
        let connections = connections.unwrap_or_default();
        if let Some(observer) = &self.denials.observer {
            observer.connected(&connections);
        }
        (self.remove(), connections)
    }

    fn remove(&self) -> Known {
        self.denials.lock().remove(&self.group).unwrap_or_default()
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Adds a call to the known ones.
fn count(known: &mut Vec<Denied>, notification: &Notification, has_egress: bool) {
    let new = Denied {
        arguments: notification.arguments,
        has_egress,
        number: notification.number,
        times: 1,
    };
    // Incidental calls are counted apart, so that they do not hide others.
    let same = |known: &&mut Denied| {
        known.number == new.number && known.is_incidental() == new.is_incidental()
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
                // Hung up: no filtered task is left.
                seen.is_empty()
            }
        });
    }
}

/// Answers one notification. Returns whether the listener is of further use.
fn answer(denials: &Denials, listener: &Listener, passing: Option<&Passing>) -> bool {
    let answered = listener.next().and_then(|notification| {
        let Some(notification) = notification else {
            return Ok(());
        };
        let group = denials.members.run_of(notification.task);
        // Decided by number and registers alone, as by the filter: the hook cannot change them meanwhile.
        if passing.is_some_and(|passing| passing.lets(notification.number, &notification.arguments))
        {
            if let (Some(observer), Some(group)) = (&denials.observer, group) {
                observer.note(group, &notification, || listener.still_waits(&notification));
            }
            return listener.proceed(&notification);
        }
        let egress = group.and_then(|group| denials.relays.of_group(group));
        if let Some(egress) = &egress
            && notification.number == nr::connect
        {
            return denials.relays.answer(egress, listener, &notification);
        }
        if let Some(group) = group
            && listener.still_waits(&notification)
        {
            denials.note(group, &notification, egress.is_some());
        }
        listener.refuse(&notification, libc::EPERM)
    });
    if let Err(error) = &answered {
        tracing::error!(%error, "denied calls cannot be attended to: they fail with ENOSYS");
    }
    answered.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_that_the_c_library_asks_for_on_its_own_are_no_denial_and_others_are() {
        let is_denied = |family: i32, kind: i32, protocol: i32| {
            let words = [family, kind | libc::SOCK_CLOEXEC, protocol, 0, 0, 0];
            let call = Denied {
                arguments: words.map(|word| u64::from(word.cast_unsigned())),
                has_egress: false,
                number: nr::socket,
                times: 1,
            };
            let known = Known { calls: vec![call] };
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
                arguments: [3, request, 4, 0, 0, 0],
                has_egress: false,
                number,
                times: 1,
            };
            let known = Known { calls: vec![call] };
            known.is_denied()
        };
        // F_GETPIPE_SZ, also with what the kernel does not look at.
        for request in [1032, 0xffff_ffff_0000_0408] {
            assert!(!is_denied(nr::fcntl, request), "{request}");
        }
        // F_SETPIPE_SZ; F_NOTIFY; the number at another call.
        for (number, request) in [(nr::fcntl, 1031), (nr::fcntl, 1026), (nr::prctl, 1032)] {
            assert!(is_denied(number, request), "{number} {request}");
        }
    }
}
