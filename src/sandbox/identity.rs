//! Uids for hooks of a root daemon: one per concurrent run, from a range that nothing else uses.

use std::{
    collections::VecDeque,
    fs::{DirBuilder, File},
    io,
    ops::RangeInclusive,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use nix::fcntl::{Flock, FlockArg};

use crate::sys::Identity;

/// The range used where the configuration names none. Distributions give out 0 to 65535 to people and services, systemd
/// 524288 to 1879048191 to containers and 2147352576 upwards to foreign images; between the last two nothing is assigned.
pub const DEFAULT_UID_RANGE: RangeInclusive<u32> = 1_879_100_000..=1_879_104_095;

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

/// Where the locks stand; one place for the whole machine, because uids are.
const LOCKS: &str = "/run/hookjail/uids";

impl Identities {
    /// Makes a pool.
    ///
    /// # Errors
    ///
    /// Returns the error of making the lock directory.
    pub fn new(range: RangeInclusive<u32>) -> io::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o711)
            .create("/run/hookjail")?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(LOCKS)?;
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
