//! Keeper: a process that outlives a killed daemon, to kill the remaining hooks.
//!
//! A hook's first process dies with the daemon by its parent-death signal, its descendants do not. The keeper sleeps in
//! a read from a pipe whose other end only the daemon holds; when that ends, it kills every process group that the table
//! still names. The table is shared memory: each child writes its group before it executes a hook, the daemon clears it once
//! the group is dead. Where runs have cgroups, the keeper kills the daemon's whole cgroup of runs, too, by its path in that memory.
//!
//! For the daemon that comes next, where the keeper is killed as well, each child writes its group into a file too. This file
//! is not mapped: a mapped file ends its readers once the file is cut or its disk is full.

use std::{
    fs::File,
    io,
    num::NonZeroUsize,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::FileExt,
    },
    ptr::NonNull,
    slice,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicI32, AtomicU8, Ordering},
    },
};

#[cfg(target_os = "linux")]
use std::{os::unix::ffi::OsStrExt, path::Path};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::mman::{MapFlags, ProtFlags, mmap_anonymous},
};

use super::host;

/// Number of process groups in the table: more hooks than this never run at once.
const PLACES: usize = 16 * 1024;

/// Length of the memory for the path of a control file, with the NUL byte at its end.
const PATH_BYTES: usize = 4096;

/// Memory that the keeper shares with the daemon.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    /// The process groups to be killed; 0 where there is none.
    pub(crate) groups: &'static [AtomicI32],
    /// Path of the `cgroup.kill` to be written to, as a C string; empty where there is none.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "only Linux has cgroups")
    )]
    pub(crate) kill_file: &'static [AtomicU8],
}

/// The daemon's handle on its keeper.
#[derive(Debug)]
pub struct Keeper {
    notes: OnceLock<Arc<File>>,
    places: Mutex<Places>,
    process: Mutex<KeeperProcess>,
    table: Table,
}

#[derive(Debug)]
struct KeeperProcess {
    /// Held open for the daemon's life; end-of-file wakes the keeper.
    alive: OwnedFd,
}

impl KeeperProcess {
    fn start(table: Table) -> io::Result<Self> {
        let (read, alive) = host::pipe()?;
        host::watch_over(&read, &alive, table)?;
        Ok(Self { alive })
    }

    /// Returns whether the keeper was killed. A pipe without a reader has an error.
    fn has_ended(&self) -> io::Result<bool> {
        let mut looked = [PollFd::new(self.alive.as_fd(), PollFlags::empty())];
        Ok(poll(&mut looked, PollTimeout::ZERO)? > 0)
    }
}

#[derive(Debug, Default)]
struct Places {
    /// Number of places, from the first on, that were ever taken. The others were never written to.
    ever_taken: usize,
    free: Vec<usize>,
}

impl Keeper {
    /// Starts the keeper. To be called once, early: the keeper begins as a copy of the caller.
    ///
    /// # Errors
    ///
    /// Returns the error of making the pipe, the memory or the process.
    pub fn start() -> io::Result<Self> {
        let groups = PLACES * size_of::<AtomicI32>();
        let size = NonZeroUsize::new(groups + PATH_BYTES).ok_or(io::ErrorKind::InvalidInput)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice overlaps nothing.
        let memory: NonNull<_> =
            unsafe { mmap_anonymous(None, size, access, MapFlags::MAP_SHARED) }?;
        let memory = memory.cast::<AtomicI32>();
        // SAFETY: the mapping is zeroed, page-aligned, longer than PLACES atomics and never unmapped, so 'static is true.
        let groups = unsafe { slice::from_raw_parts(memory.as_ptr(), PLACES) };
        // SAFETY: the mapping goes on behind the groups.
        let path = unsafe { memory.add(PLACES) }.cast::<AtomicU8>();
        // SAFETY: as above, PATH_BYTES long.
        let kill_file = unsafe { slice::from_raw_parts(path.as_ptr(), PATH_BYTES) };
        let table = Table { groups, kill_file };
        Ok(Self {
            notes: OnceLock::new(),
            places: Mutex::default(),
            process: Mutex::new(KeeperProcess::start(table)?),
            table,
        })
    }

    /// Records groups in a file too, from `begin` on. The first file that is given stays.
    pub fn note_in(&self, file: Arc<File>) {
        self.notes.get_or_init(|| file);
    }

    /// Has the keeper kill all processes of a cgroup and of those below it, too. Returns whether it will: not if the path is too long.
    #[cfg(target_os = "linux")]
    pub fn kill_in(&self, cgroup: &Path) -> bool {
        let file = cgroup.join("cgroup.kill");
        let bytes = file.as_os_str().as_bytes();
        // The last byte stays 0.
        let fits = bytes.len() < PATH_BYTES && !bytes.contains(&0);
        if let Some((first, rest)) = bytes.split_first().filter(|_| fits) {
            let mut places = self.table.kill_file.iter();
            let begin = places.next();
            for (place, byte) in places.zip(rest) {
                place.store(*byte, Ordering::Relaxed);
            }
            // The keeper takes nothing for a path before its first byte is there.
            if let Some(begin) = begin {
                begin.store(*first, Ordering::Release);
            }
        }
        fits
    }

    /// Replaces the keeper's process if it was killed, and returns whether it was.
    ///
    /// # Errors
    ///
    /// Returns the error of looking, or of making the pipe or the process.
    pub fn replace_if_dead(&self) -> io::Result<bool> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        if !process.has_ended()? {
            return Ok(false);
        }
        *process = KeeperProcess::start(self.table)?;
        Ok(true)
    }

    /// Takes a place for one process group; `None` if all are taken.
    pub fn place(self: &Arc<Self>) -> Option<Place> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let index = match places.free.pop() {
            Some(index) => index,
            None if places.ever_taken < PLACES => {
                places.ever_taken += 1;
                places.ever_taken - 1
            }
            None => return None,
        };
        Some(Place {
            index,
            keeper: Arc::clone(self),
        })
    }

    /// Returns the process groups of running hooks.
    #[cfg(target_os = "linux")]
    pub fn groups(&self) -> Vec<i32> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = self.table.groups[..places.ever_taken].iter();
        let groups = entries.map(|entry| entry.load(Ordering::Acquire));
        groups.filter(|group| *group != 0).collect()
    }

    /// Returns whether a process group is that of a running hook. 0, which is what the kernel calls a group that was made in
    /// another process id namespace, is none: in the table it means a free place.
    pub fn watches(&self, group: i32) -> bool {
        if group == 0 {
            return false;
        }
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        self.table.groups[..places.ever_taken]
            .iter()
            .any(|entry| entry.load(Ordering::Acquire) == group)
    }
}

/// A place in the keeper's table. Dropping it ends the keeper's watch: the group must be dead and reaped by then.
#[derive(Debug)]
pub struct Place {
    index: usize,
    keeper: Arc<Keeper>,
}

impl Place {
    /// Returns the entry into which the child writes its group. The child does so before it executes anything, so that it
    /// never has children that the keeper does not watch.
    pub fn entry(&self) -> &'static AtomicI32 {
        &self.keeper.table.groups[self.index]
    }

    /// Returns where and how the child records its group for the next daemon; `None` without a file. The record has the hook's
    /// uid, and whether filters decide about its calls.
    pub fn note(&self, uid: u32, filtered: bool) -> Option<Note> {
        let file = Arc::clone(self.keeper.notes.get()?);
        Some(Note {
            file,
            filtered,
            offset: self.offset(),
            uid,
        })
    }

    fn offset(&self) -> u64 {
        (NOTES_BEGIN + self.index * NotedGroup::BYTES) as u64
    }
}

/// Offset at which groups begin in their file. Before it is room for a header of the file's creator.
pub const NOTES_BEGIN: usize = 256;

/// Where and how a child records its group.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(target_os = "linux"),
    expect(
        dead_code,
        reason = "only on Linux does anybody look for groups that are left"
    )
)]
pub struct Note {
    pub(crate) file: Arc<File>,
    pub(crate) filtered: bool,
    pub(crate) offset: u64,
    pub(crate) uid: u32,
}

/// A recorded process group.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct NotedGroup {
    /// Time in the first process's life before its exec, nanoseconds since boot.
    pub since: u64,
    /// The group's id; 0: there is none.
    pub group: i32,
    /// The group's uid.
    pub uid: u32,
    /// Whether filters decide about its syscalls: 1 or 0.
    pub filtered: u32,
    /// Padding, so that all bytes are written.
    pub zero: u32,
}

impl NotedGroup {
    /// Size of a record in the file.
    pub const BYTES: usize = size_of::<Self>();

    /// Parses a record.
    #[cfg(target_os = "linux")]
    pub fn read(bytes: &[u8; Self::BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, rest @ ..] = *bytes;
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(rest.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        let [group, uid, filtered, zero] = words;
        Self {
            since: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            group: group.cast_signed(),
            uid,
            filtered,
            zero,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.entry().store(0, Ordering::Release);
        if let Some(file) = self.keeper.notes.get() {
            // The next daemon compares remaining records with the running processes before it kills any.
            file.write_all_at(&[0; NotedGroup::BYTES], self.offset())
                .ok();
        }
        let places = self.keeper.places.lock();
        places
            .unwrap_or_else(PoisonError::into_inner)
            .free
            .push(self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_place_stands_for_no_group() {
        let keeper = Arc::new(Keeper::start().unwrap());
        let (free, taken) = (keeper.place().unwrap(), keeper.place().unwrap());
        taken.entry().store(i32::MAX, Ordering::Release);

        assert!(keeper.watches(i32::MAX));
        assert_eq!(free.entry().load(Ordering::Acquire), 0);
        assert!(!keeper.watches(0));
        // The keeper of this test would kill this group at its end.
        taken.entry().store(0, Ordering::Release);
    }
}
