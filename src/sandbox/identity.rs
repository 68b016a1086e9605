//! Uids for hooks of a root daemon: one per concurrent run, from a range that nothing else uses.

use std::{
    collections::VecDeque,
    fs::{self, DirBuilder, File},
    io,
    ops::RangeInclusive,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use nix::fcntl::{Flock, FlockArg};

use super::Status;
use crate::sys::Identity;

/// Free uids. Several root daemons share a range: each uid in use is locked by a file.
#[derive(Debug)]
pub struct Identities {
    free: Mutex<VecDeque<Slot>>,
    range: RangeInclusive<u32>,
}

#[derive(Debug)]
struct Slot {
    /// Held from the first use on.
    lock: Option<Flock<File>>,
    uid: u32,
}

/// A uid in use by one run; given back when dropped.
#[derive(Debug)]
pub struct Lease {
    pool: Arc<Identities>,
    slot: Option<Slot>,
}

/// What a root daemon needs to give each hook a uid of its own: capabilities by number, as the kernel has them.
const NEEDED: [(u32, &str); 6] = [
    (0, "CAP_CHOWN"),
    (1, "CAP_DAC_OVERRIDE"),
    // Without it no hook could be ended at its deadline.
    (5, "CAP_KILL"),
    (6, "CAP_SETGID"),
    (7, "CAP_SETUID"),
    (8, "CAP_SETPCAP"),
];

/// Where the locks stand; one place for the whole machine, because uids are.
const LOCKS: &str = "/run/hookjail/uids";

impl Identities {
    /// Makes a pool.
    ///
    /// # Errors
    ///
    /// Returns the error of making the lock directory, or says which capabilities are missing, or that the range means
    /// nothing in this user namespace.
    pub fn new(range: RangeInclusive<u32>) -> io::Result<Self> {
        let lacking = lacking(Status::own()?.effective_capabilities);
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
                    "{first}-{last} does not exist in this user namespace; set `hooks.uid_range` to ids that {map} lists, or run it as an ordinary user"
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
        let free = range.clone().map(|uid| Slot { lock: None, uid }).collect();
        Ok(Self {
            free: Mutex::new(free),
            range,
        })
    }

    /// Whether a uid is a hook's.
    pub fn is_hook(&self, uid: u32) -> bool {
        self.range.contains(&uid)
    }

    /// Takes a uid that no run uses; `None` if all are in use.
    ///
    /// # Errors
    ///
    /// Returns the error of opening a lock file.
    pub fn lease(self: &Arc<Self>) -> io::Result<Option<Lease>> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..free.len() {
            let Some(mut slot) = free.pop_front() else {
                break;
            };
            if slot.lock.is_none() {
                let path = PathBuf::from(LOCKS).join(slot.uid.to_string());
                let file = File::options()
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .mode(0o600)
                    .open(path)?;
                slot.lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).ok();
            }
            if slot.lock.is_some() {
                return Ok(Some(Lease {
                    pool: Arc::clone(self),
                    slot: Some(slot),
                }));
            }
            // Another daemon's.
            free.push_back(slot);
        }
        Ok(None)
    }
}

/// Returns the names of what is needed and is not in a set of capabilities.
fn lacking(capabilities: u64) -> Vec<&'static str> {
    let lacking = NEEDED
        .iter()
        .filter(|(number, _)| capabilities >> number & 1 == 0);
    lacking.map(|(_, name)| *name).collect()
}

/// Whether a map of ids, as `user_namespaces(7)` describes them, has all of a range.
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
    /// Returns the rights that go with it.
    pub fn identity(&self) -> Option<Identity> {
        let uid = self.slot.as_ref()?.uid;
        Some(Identity { gid: uid, uid })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            // To the front: its lock is held already, so few files are ever made.
            self.pool
                .free
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push_front(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::DEFAULT_UID_RANGE;

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
        for (map, range, there) in [
            (host, DEFAULT_UID_RANGE, true),
            (alone, DEFAULT_UID_RANGE, false),
            (container, DEFAULT_UID_RANGE, false),
            (container, 60_000..=65_536, true),
            (container, 0..=65_536, true),
            (container, 60_000..=65_537, false),
            ("", 1..=2, false),
            ("what is this", 1..=2, false),
        ] {
            assert_eq!(maps(map, &range), there, "{map} {range:?}");
        }
    }
}
