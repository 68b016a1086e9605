//! Uids for hooks of a root daemon: one per concurrent run, from a reserved range.
//!
//! As long as the range suffices, no caller's hooks get a uid that another caller's hooks have had. So files that a
//! hook leaves in a shared directory stay closed to them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    fs::{self, DirBuilder, File},
    io::{self, Read},
    ops::RangeInclusive,
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};

use hookjail_base::model::Peer;
use hookjail_sys::Identity;

use crate::{
    Status,
    resources::left_running::{Found, processes},
};

/// Pool of uids for hooks.
///
/// Several root daemons share a range: each uid in use is locked by a file, which also records the caller whose hooks
/// have had it. Another caller's hooks get it only where the range has no other left.
#[derive(Debug)]
pub struct Identities {
    free: Mutex<Free>,
    locks: PathBuf,
    range: RangeInclusive<u32>,
}

/// Uids that no run of this daemon uses.
#[derive(Debug)]
struct Free {
    /// Uids that each caller's hooks have had, with the time since which each is free.
    had: HashMap<u32, BTreeMap<u32, Idle>>,
    /// Number of uids that this daemon holds.
    held: usize,
    /// Number of uids given back; serves as a clock.
    returned: u64,
    /// Uids without a known former caller.
    unknown: VecDeque<u32>,
}

/// A uid that no run of this daemon uses.
#[derive(Debug)]
struct Idle {
    /// Lock held for the next hook. `None`: any daemon may take the uid.
    lock: Option<Flock<File>>,
    since: u64,
}

/// A uid in use by one run; given back when the last copy is dropped.
#[derive(Clone, Debug)]
pub struct Lease(Arc<Leased>);

#[derive(Debug)]
struct Leased {
    caller: u32,
    lock: Option<Flock<File>>,
    pool: Arc<Identities>,
    uid: u32,
}

/// Result of locking a uid's file.
#[derive(Debug)]
enum Look {
    /// Another daemon uses it, for this caller.
    InUse(Option<u32>),
    /// Locked; with the caller who had it until now.
    Locked(Flock<File>, Option<u32>),
}

/// Capabilities, by number, that a root daemon needs to give each hook its own uid.
const NEEDED: [(u32, &str); 6] = [
    (0, "CAP_CHOWN"),
    (1, "CAP_DAC_OVERRIDE"),
    // Needed to kill hooks at their deadline.
    (5, "CAP_KILL"),
    (6, "CAP_SETGID"),
    (7, "CAP_SETUID"),
    (8, "CAP_SETPCAP"),
];

/// Limit on uids that a daemon holds for its next hooks; others are freed for other daemons.
const HELD: usize = 16;

/// Timeout of the end of left processes, and the polling interval.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(5);

/// Directory of the locks; one for the whole machine, because uids are machine-wide.
const LOCKS: &str = "/run/hookjail/uids";

impl Identities {
    /// Creates a pool.
    ///
    /// # Errors
    ///
    /// Fails where the lock directory cannot be created, capabilities are missing, or this user namespace does not map the range.
    pub fn new(range: RangeInclusive<u32>) -> io::Result<Self> {
        let lacking = lacking(Status::read_own()?.effective_capabilities);
        if !lacking.is_empty() {
            let message = format!(
                "this process is root without {}; give it these capabilities, or run it as an ordinary user",
                lacking.join(", ")
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        for map in ["/proc/self/uid_map", "/proc/self/gid_map"] {
            if !maps(&fs::read_to_string(map)?, &range) {
                let (first, last) = (range.start(), range.end());
                let message = format!(
                    "{first}-{last} does not exist in this user namespace; \
                     set `hooks.uid_range` to ids of {map}, or run as an ordinary user"
                );
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
        }
        for (path, mode) in [("/run/hookjail", 0o711), (LOCKS, 0o700)] {
            let made = DirBuilder::new().recursive(true).mode(mode).create(path);
            made.map_err(|e| {
                let message = format!("`{path}`: {e}; let this process make directories in `/run`");
                io::Error::new(e.kind(), message)
            })?;
        }
        Ok(Self::in_directory(range, LOCKS.into()))
    }

    fn in_directory(range: RangeInclusive<u32>, locks: PathBuf) -> Self {
        Self {
            free: Mutex::new(Free {
                had: HashMap::new(),
                held: 0,
                returned: 0,
                unknown: range.clone().collect(),
            }),
            locks,
            range,
        }
    }

    /// Kills processes under uids that hooks have had and no daemon uses.
    ///
    /// Daemons that were killed together with their keepers left them. A uid with an unrelated process, or with one
    /// that does not end, is not leased.
    ///
    /// A process is unrelated if no hook has had its uid since boot, or if it is in another user namespace, such as a
    /// container's.
    ///
    /// # Errors
    ///
    /// Returns the error of looking at processes or at a lock file.
    pub fn clear(&self) -> io::Result<()> {
        let daemon_namespace = fs::read_link("/proc/self/ns/user")?;
        let begun = Instant::now();
        let mut ended = BTreeSet::new();
        loop {
            let mut running: BTreeMap<u32, Vec<_>> = BTreeMap::new();
            for process in processes()? {
                // A process that has ended meanwhile has no status.
                let uid = Status::read_process(process.pid).map(|status| status.uids[0]);
                if let Ok(uid) = uid
                    && self.range.contains(&uid)
                    && !process.is_over
                {
                    running.entry(uid).or_default().push(process);
                }
            }
            let (mut aside, mut is_quiet) = (Vec::new(), true);
            for (uid, processes) in running {
                let was_given = self.locks.join(uid.to_string()).exists();
                let Look::Locked(_lock, owner) = self.look(uid)? else {
                    continue;
                };
                let is_ours = |process: &Found| {
                    let namespace = fs::read_link(format!("/proc/{}/ns/user", process.pid));
                    namespace.is_ok_and(|it| it == daemon_namespace)
                };
                if !was_given || owner.is_none() || !processes.iter().all(is_ours) {
                    aside.push(uid);
                    continue;
                }
                for process in processes {
                    process.kill()?;
                    ended.insert(process.pid);
                    is_quiet = false;
                }
                if begun.elapsed() > KILL_TIMEOUT {
                    aside.push(uid);
                }
            }
            if is_quiet || begun.elapsed() > KILL_TIMEOUT {
                if !ended.is_empty() {
                    tracing::warn!(
                        killed = ended.len(),
                        "killed processes of hooks that outlived their daemon and its keeper"
                    );
                }
                if !aside.is_empty() {
                    tracing::warn!(
                        uids = ?aside,
                        "uids of `hooks.uid_range` stay unused: processes that are no hooks, or do not end, run under them"
                    );
                    self.free().unknown.retain(|uid| !aside.contains(uid));
                }
                return Ok(());
            }
            thread::sleep(LOOK);
        }
    }

    /// Checks that hooks can run as their callers.
    ///
    /// A child shares the daemon's memory until it executes the hook. The child has its caller's uid before that, and the
    /// caller's processes must not trace it: the kernel prevents that unless `fs.suid_dumpable` is 1 (`proc(5)`,
    /// `ptrace(2)`).
    ///
    /// # Errors
    ///
    /// Fails where `fs.suid_dumpable` is 1, or cannot be read.
    pub fn suit_callers(&self) -> io::Result<()> {
        const DUMPABLE: &str = "/proc/sys/fs/suid_dumpable";
        if may_be_traced(&fs::read_to_string(DUMPABLE)?) {
            let message = format!(
                "`{DUMPABLE}` is 1: callers could trace the daemon through their hooks; set it to 0 or 2"
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        Ok(())
    }

    /// Returns whether a uid is a hook's.
    pub fn is_hook(&self, uid: u32) -> bool {
        self.range.contains(&uid)
    }

    /// Leases an unused uid for a caller's hook; `None` if all are in use.
    ///
    /// Prefers one that this caller's hooks have had, the lowest that this daemon holds first. Next comes one that no
    /// hooks have had, and last the one that other callers' hooks have not had for longest.
    ///
    /// # Errors
    ///
    /// Returns the error of opening, reading or writing a lock file.
    pub fn lease(self: &Arc<Self>, caller: u32) -> io::Result<Option<Lease>> {
        let mut free = self.free();
        for uid in free.had_by(caller) {
            if let Some(lock) = self.lock_again(&mut free, caller, uid)? {
                return Ok(Some(self.leased(lock, uid, caller)));
            }
        }
        for _ in 0..free.unknown.len() {
            let Some(uid) = free.unknown.pop_front() else {
                break;
            };
            let taken = self.look(uid).and_then(|look| match look {
                Look::Locked(lock, owner) if owner.is_none_or(|owner| owner == caller) => {
                    note(&lock, caller)?;
                    Ok(Ok(lock))
                }
                Look::Locked(_, owner) | Look::InUse(owner) => Ok(Err(owner)),
            });
            match taken {
                Ok(Ok(lock)) => return Ok(Some(self.leased(lock, uid, caller))),
                Ok(Err(Some(owner))) => free.give_back(owner, uid, None),
                Ok(Err(None)) => free.unknown.push_back(uid),
                Err(error) => {
                    free.unknown.push_front(uid);
                    return Err(error);
                }
            }
        }
        // The range is too small for all callers to have uids of their own.
        let mut others: Vec<(u64, u32, u32)> = free
            .had
            .iter()
            .flat_map(|(owner, uids)| uids.iter().map(|(uid, idle)| (idle.since, *uid, *owner)))
            .collect();
        others.sort_unstable();
        for (_, uid, owner) in others {
            if let Some(lock) = self.lock_again(&mut free, owner, uid)? {
                if let Err(error) = note(&lock, caller) {
                    free.give_back(owner, uid, Some(lock));
                    return Err(error);
                }
                tracing::warn!(
                    uid,
                    "a hook gets a uid that another caller's hooks have had; enlarge `hooks.uid_range`"
                );
                return Ok(Some(self.leased(lock, uid, caller)));
            }
        }
        Ok(None)
    }

    /// Locks a uid known to be a caller's, if no other daemon uses it.
    fn lock_again(&self, free: &mut Free, owner: u32, uid: u32) -> io::Result<Option<Flock<File>>> {
        let Some(uids) = free.had.get_mut(&owner) else {
            return Ok(None);
        };
        let held = uids.get_mut(&uid).and_then(|idle| idle.lock.take());
        let lock = match held {
            Some(lock) => {
                free.held -= 1;
                Some(lock)
            }
            None => match self.look(uid)? {
                Look::Locked(lock, _) => Some(lock),
                Look::InUse(_) => None,
            },
        };
        if lock.is_some() {
            uids.remove(&uid);
        }
        Ok(lock)
    }

    fn leased(self: &Arc<Self>, lock: Flock<File>, uid: u32, caller: u32) -> Lease {
        Lease(Arc::new(Leased {
            caller,
            lock: Some(lock),
            pool: Arc::clone(self),
            uid,
        }))
    }

    /// Locks a uid, if no other daemon uses it.
    fn look(&self, uid: u32) -> io::Result<Look> {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.locks.join(uid.to_string()))?;
        // An unreadable number counts as no owner.
        let mut owner = String::new();
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(mut lock) => {
                lock.read_to_string(&mut owner)?;
                Ok(Look::Locked(lock, owner.trim_end().parse().ok()))
            }
            Err((unlocked, Errno::EWOULDBLOCK)) => {
                file = unlocked;
                file.read_to_string(&mut owner)?;
                Ok(Look::InUse(owner.trim_end().parse().ok()))
            }
            Err((_, errno)) => Err(errno.into()),
        }
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        // Each change of the guarded state is one call: a panic leaves nothing half done.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Free {
    fn give_back(&mut self, caller: u32, uid: u32, lock: Option<Flock<File>>) {
        let lock = lock.filter(|_| self.held < HELD);
        self.held += usize::from(lock.is_some());
        self.returned += 1;
        let since = self.returned;
        let of_caller = self.had.entry(caller).or_default();
        of_caller.insert(uid, Idle { lock, since });
    }

    /// Returns the uids that a caller's hooks have had.
    ///
    /// The uids that this daemon holds come first, so that successive hooks get the same uid, even if other daemons free some.
    fn had_by(&self, caller: u32) -> Vec<u32> {
        let (held, others): (Vec<_>, Vec<_>) = self
            .had
            .get(&caller)
            .into_iter()
            .flatten()
            .partition(|(_, idle)| idle.lock.is_some());
        held.into_iter()
            .chain(others)
            .map(|(uid, _)| *uid)
            .collect()
    }
}

/// Records a uid's caller, for all daemons, until the machine restarts.
///
/// In one write of constant length: if the disk is full, the former caller is still recorded.
fn note(lock: &Flock<File>, caller: u32) -> io::Result<()> {
    lock.write_all_at(format!("{caller:<10}").as_bytes(), 0)
}

/// Returns the names of the needed capabilities that a set lacks.
fn lacking(capabilities: u64) -> Vec<&'static str> {
    let lacking = NEEDED
        .iter()
        .filter(|(number, _)| capabilities >> number & 1 == 0);
    lacking.map(|(_, name)| *name).collect()
}

/// Returns whether a value of `fs.suid_dumpable` lets a process's new uid trace it.
fn may_be_traced(suid_dumpable: &str) -> bool {
    !matches!(suid_dumpable.trim(), "0" | "2")
}

/// Returns whether a map of ids, as in `user_namespaces(7)`, covers a range.
fn maps(map: &str, range: &RangeInclusive<u32>) -> bool {
    let mut spans: Vec<(u64, u64)> = map
        .lines()
        .filter_map(|line| {
            let mut numbers = line.split_ascii_whitespace().map(str::parse::<u64>);
            let (first, _outside, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
            Some((first.ok()?, count.ok()?))
        })
        .collect();
    spans.sort_unstable();
    let mut next = u64::from(*range.start());
    for (first, count) in spans {
        if first <= next {
            next = next.max(first + count);
        }
    }
    next > u64::from(*range.end())
}

impl Lease {
    /// Returns the identity of a hook with a uid and gid of its own.
    pub fn identity(&self) -> Identity {
        let uid = self.0.uid;
        Identity {
            gid: uid,
            group: None,
            groups: Arc::default(),
            uid,
        }
    }

    /// Returns the identity of a hook that runs as its caller.
    ///
    /// The leased number is one of its groups: the caller's other processes do not have it, so none reaches the run's
    /// directory.
    pub fn of_caller(&self, caller: &Peer) -> Identity {
        let uid = self.0.uid;
        Identity {
            gid: caller.gid,
            group: Some(uid),
            groups: caller.groups.iter().copied().chain([uid]).collect(),
            uid: caller.uid,
        }
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        let lock = self.lock.take();
        self.pool.free().give_back(self.caller, self.uid, lock);
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::DEFAULT_UID_RANGE;

    #[test]
    fn only_a_kernel_that_keeps_changed_uids_untraced_suits_callers() {
        for (value, traced) in [
            ("0\n", false),
            ("2\n", false),
            ("1\n", true),
            ("3\n", true),
            ("", true),
        ] {
            assert_eq!(may_be_traced(value), traced, "{value:?}");
        }
    }

    #[test]
    fn an_idle_daemon_holds_few_uids_and_others_have_the_rest() {
        let locks = TempDir::new().unwrap();
        let pool = || {
            Arc::new(Identities::in_directory(
                1000..=1039,
                locks.path().to_owned(),
            ))
        };
        let (busy, other) = (pool(), pool());
        let lease_all = |pool: &Arc<Identities>| {
            std::iter::from_fn(|| pool.lease(1).unwrap()).collect::<Vec<_>>()
        };
        let all = lease_all(&busy);
        assert_eq!(all.len(), 40);
        assert_eq!(lease_all(&other).len(), 0);

        drop(all);

        let others = lease_all(&other);
        assert_eq!(others.len(), 40 - HELD);
        // Held uids are still the caller's own, and freed ones are anybody's.
        assert_eq!(lease_all(&busy).len(), HELD);
        drop(others);
        assert_eq!(lease_all(&busy).len(), 40 - HELD);
    }

    fn uid(lease: &Lease) -> u32 {
        lease.identity().uid
    }

    fn pool(locks: &TempDir, last: u32) -> Arc<Identities> {
        Arc::new(Identities::in_directory(1..=last, locks.path().to_owned()))
    }

    #[test]
    fn hooks_one_after_the_other_have_the_same_uid_whatever_other_daemons_give_back() {
        let locks = tempfile::tempdir().unwrap();
        let (ours, theirs) = (pool(&locks, 9), pool(&locks, 9));
        let other = theirs.lease(1000).unwrap().unwrap();
        let first = uid(&ours.lease(1000).unwrap().unwrap());
        assert!(first > uid(&other));
        drop((other, theirs));
        assert_eq!(uid(&ours.lease(1000).unwrap().unwrap()), first);
    }

    #[test]
    fn a_uid_is_not_given_to_another_caller_while_there_are_others() {
        let locks = tempfile::tempdir().unwrap();
        let identities = pool(&locks, 4);
        let lease = |caller| identities.lease(caller).unwrap().unwrap();
        let (first, second) = (lease(1000), lease(1000));
        assert_eq!((uid(&first), uid(&second)), (1, 2));
        drop((second, first));

        let (other, another) = (lease(1001), lease(1001));
        assert_eq!((uid(&other), uid(&another)), (3, 4));
        let first = lease(1000);
        assert_eq!(uid(&first), 1);

        // The range is exhausted: the one that is free for longest.
        let third = lease(1002);
        assert_eq!(uid(&third), 2);
        assert!(identities.lease(1003).unwrap().is_none());
    }

    #[test]
    fn daemons_share_a_range_and_know_whose_a_uid_is() {
        let locks = tempfile::tempdir().unwrap();
        let (one, two) = (pool(&locks, 3), pool(&locks, 3));
        let lease = one.lease(1000).unwrap().unwrap();
        let other = two.lease(1001).unwrap().unwrap();
        assert_eq!((uid(&lease), uid(&other)), (1, 2));
        drop(lease);
        // The one that was locked by the other daemon is known as its caller's.
        let third = two.lease(1001).unwrap().unwrap();
        assert_eq!(uid(&third), 3);
        assert!(two.lease(1000).unwrap().is_none());
        drop(one);
        assert_eq!(uid(&two.lease(1000).unwrap().unwrap()), 1);
    }

    #[test]
    fn a_lock_file_that_cannot_be_opened_costs_no_uid() {
        let locks = tempfile::tempdir().unwrap();
        let identities = pool(&locks, 1);
        let file = locks.path().join("1");
        fs::create_dir(&file).unwrap();
        assert!(identities.lease(1000).is_err());
        fs::remove_dir(&file).unwrap();
        assert_eq!(uid(&identities.lease(1000).unwrap().unwrap()), 1);
    }

    #[test]
    fn capabilities_that_are_missing_are_named() {
        // CapEff of root, of root in a container of Docker's, and without CAP_KILL and CAP_SETUID.
        for set in [0x1ff_ffff_ffff, 0xa804_25fb] {
            assert_eq!(lacking(set), [""; 0]);
        }
        assert_eq!(
            lacking(0xa804_25fb & !(1 << 5 | 1 << 7)),
            ["CAP_KILL", "CAP_SETUID"]
        );
        assert_eq!(lacking(0).len(), NEEDED.len());
    }

    #[test]
    fn a_range_is_there_only_if_every_id_of_it_is_mapped() {
        let host = "         0          0 4294967295\n";
        let alone = "         0       1000          1\n";
        // As a container of an ordinary user has it.
        let container = "         0       1000          1\n         1     100000      65536\n";
        for (map, range, expected) in [
            (host, DEFAULT_UID_RANGE, true),
            (alone, DEFAULT_UID_RANGE, false),
            (container, DEFAULT_UID_RANGE, false),
            (container, 60_000..=65_536, true),
            (container, 0..=65_536, true),
            (container, 60_000..=65_537, false),
            ("", 1..=2, false),
            ("no map at all", 1..=2, false),
        ] {
            assert_eq!(maps(map, &range), expected, "{map} {range:?}");
        }
    }

    mod as_root {
        use std::{
            os::unix::process::CommandExt,
            process::{Child, Command},
        };

        use super::*;

        #[expect(clippy::disallowed_methods, reason = "no hook, but what one left")]
        fn run_as(uid: u32) -> Child {
            Command::new("/bin/sleep")
                .arg("600")
                .uid(uid)
                .spawn()
                .unwrap()
        }

        #[test]
        #[ignore = "needs root"]
        fn what_runs_under_a_uid_that_a_dead_daemon_gave_a_hook_is_ended_and_nothing_else() {
            assert!(nix::unistd::geteuid().is_root());
            let locks = tempfile::tempdir().unwrap();
            // Beside the range that other tests use.
            let range = 1_879_110_000..=1_879_110_003;
            let pool = || {
                let locks = locks.path().to_owned();
                Arc::new(Identities::in_directory(range.clone(), locks))
            };
            let (living, dead) = (pool(), pool());
            let in_use = living.lease(7).unwrap().unwrap();
            let left = uid(&dead.lease(7).unwrap().unwrap());
            drop(dead);
            // No hook has had the last of the range.
            let mut processes = [uid(&in_use), left, *range.end()].map(run_as);

            let next = pool();
            next.clear().unwrap();

            let ended = processes
                .each_mut()
                .map(|it| it.try_wait().unwrap().is_some());
            assert_eq!(ended, [false, true, false]);
            let leases: Vec<_> = std::iter::from_fn(|| next.lease(7).unwrap()).collect();
            let uids: Vec<_> = leases.iter().map(uid).collect();
            assert_eq!(uids, [left, 1_879_110_002]);
            for process in &mut processes {
                process.kill().ok();
                process.wait().unwrap();
            }
        }
    }
}
