//! The keeper: a process that outlives a killed daemon by the moment it takes to kill the hooks that are left.
//!
//! A hook's first process dies with the daemon by its parent-death signal, its descendants do not. The keeper sleeps in
//! a read from a pipe whose other end only the daemon holds; when that ends, it kills every process group that the table
//! still names. The table is shared memory, written by the daemon at each start and end.

use std::{
    io,
    num::NonZeroUsize,
    os::fd::{AsRawFd, OwnedFd},
    ptr::NonNull,
    slice,
    sync::atomic::{AtomicI32, Ordering},
};

use nix::{
    fcntl::OFlag,
    sys::mman::{MapFlags, ProtFlags, mmap_anonymous},
    unistd::pipe2,
};

use super::raw;

/// How many process groups the table holds: more hooks than this never run at once.
const PLACES: usize = 16 * 1024;

/// The daemon's handle on its keeper.
#[derive(Debug)]
pub struct Keeper {
    /// Held open for the daemon's life; its end wakes the keeper.
    _alive: OwnedFd,
    table: &'static [AtomicI32],
}

impl Keeper {
    /// Starts the keeper. To be called once, early: the keeper begins as a copy of the caller.
    ///
    /// # Errors
    ///
    /// Returns the error of `pipe2`, `mmap` or `clone`.
    pub fn start() -> io::Result<Self> {
        let (read, write) = pipe2(OFlag::O_CLOEXEC)?;
        let size = NonZeroUsize::new(PLACES * size_of::<AtomicI32>())
            .ok_or(io::ErrorKind::InvalidInput)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice overlaps nothing.
        let memory: NonNull<_> =
            unsafe { mmap_anonymous(None, size, access, MapFlags::MAP_SHARED) }?;
        // SAFETY: the mapping is zeroed, page-aligned, PLACES atomics long and never unmapped, so 'static is true.
        let table = unsafe { slice::from_raw_parts(memory.cast::<AtomicI32>().as_ptr(), PLACES) };
        // SAFETY: clone without CLONE_VM and without a new stack is a copy of this process with this thread alone. The copy
        // goes straight into `keep`, which makes raw system calls only and never returns, so locks that other threads held
        // do not matter. No exit signal: its end concerns nobody.
        let pid = unsafe { raw::syscall(libc::SYS_clone, [0; 6]) };
        match pid {
            0 => keep(read.as_raw_fd() as usize, table),
            1.. => Ok(Self {
                _alive: write,
                table,
            }),
            _ => Err(io::Error::from_raw_os_error(pid.unsigned_abs() as i32)),
        }
    }

    /// Puts a process group into the keeper's care; `None` if the table is full.
    pub fn watch(&self, group: i32) -> Option<usize> {
        let start = group.unsigned_abs() as usize % PLACES;
        (0..PLACES)
            .map(|offset| (start + offset) % PLACES)
            .find(|place| {
                self.table[*place]
                    .compare_exchange(0, group, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            })
    }

    /// Takes a process group out of the keeper's care: it is dead and reaped.
    pub fn forget(&self, place: usize) {
        if let Some(entry) = self.table.get(place) {
            entry.store(0, Ordering::Release);
        }
    }

    /// Whether a process group is that of a running hook.
    pub fn watches(&self, group: i32) -> bool {
        let start = group.unsigned_abs() as usize % PLACES;
        (0..PLACES)
            .map(|offset| &self.table[(start + offset) % PLACES])
            .any(|e| e.load(Ordering::Acquire) == group)
    }
}

/// The keeper itself.
fn keep(pipe: usize, table: &[AtomicI32]) -> ! {
    let call = |number, arguments| {
        // SAFETY: below, only calls on this process's own signals, session and descriptors, with pointers to locals.
        unsafe { raw::syscall(number, arguments) }
    };
    // Deaf to everything but SIGKILL, and in a session of its own, so that what ends the daemon does not end it first.
    let all = u64::MAX;
    call(
        libc::SYS_rt_sigprocmask,
        [
            libc::SIG_SETMASK as usize,
            (&raw const all).addr(),
            0,
            8,
            0,
            0,
        ],
    );
    call(libc::SYS_setsid, [0; 6]);
    call(
        libc::SYS_prctl,
        [
            libc::PR_SET_NAME as usize,
            c"hookjail-keeper".as_ptr().addr(),
            0,
            0,
            0,
            0,
        ],
    );
    // Pipe to 0, everything else closed: the daemon's end above all.
    call(libc::SYS_dup2, [pipe, 0, 0, 0, 0, 0]);
    call(libc::SYS_close_range, [1, u32::MAX as usize, 0, 0, 0, 0]);
    let mut byte = 0_u8;
    loop {
        let read = call(libc::SYS_read, [0, (&raw mut byte).addr(), 1, 0, 0, 0]);
        // All signals are blocked, so there is no EINTR; 0 is the daemon's end, and an error cannot be waited out.
        if read <= 0 {
            break;
        }
    }
    for entry in table {
        let group = entry.load(Ordering::Acquire);
        // Never 0 or 1, which would mean "my own group" and "everybody".
        if group > 1 {
            call(
                libc::SYS_kill,
                [
                    group.wrapping_neg() as usize,
                    libc::SIGKILL as usize,
                    0,
                    0,
                    0,
                    0,
                ],
            );
        }
    }
    raw::exit(0)
}
