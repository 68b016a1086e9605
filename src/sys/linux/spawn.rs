//! The one clone.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr::{self, NonNull},
    sync::atomic::Ordering,
};

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use super::{Job, child, raw};

/// Memory for one child at a time, with a guard below: a child that overran it dies instead of writing into the
/// daemon.
#[derive(Debug)]
pub struct Stack {
    bottom: NonNull<libc::c_void>,
}

/// The flags and exit signal of the one clone; the spawners' filters let exactly these through.
pub const CLONE_FLAGS: u32 =
    (libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD) as u32;

/// The largest page that kernels of these architectures come with: a smaller guard would be rounded up into the stack.
const GUARD: usize = 64 * 1024;
const SIZE: usize = 64 * 1024;

// SAFETY: the memory belongs to this value alone and has no ties to a thread.
unsafe impl Send for Stack {}

impl Stack {
    /// Maps a stack.
    ///
    /// # Errors
    ///
    /// Returns the error of `mmap` or `mprotect`.
    pub fn new() -> io::Result<Self> {
        let size = std::num::NonZeroUsize::new(GUARD + SIZE).ok_or(io::ErrorKind::InvalidInput)?;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_STACK;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice overlaps nothing.
        let bottom = unsafe {
            mmap_anonymous(
                None,
                size,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                flags,
            )
        }?;
        let stack = Self { bottom };
        // SAFETY: the lower part of the mapping just made; nothing has a reference to it.
        unsafe { mprotect(bottom, GUARD, ProtFlags::PROT_NONE) }?;
        Ok(stack)
    }

    fn top(&mut self) -> *mut u8 {
        // SAFETY: one past the end of the mapping that `bottom` begins. Both sizes are multiples of 16, hence 16-byte aligned.
        unsafe { self.bottom.as_ptr().cast::<u8>().add(GUARD + SIZE) }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made; no child uses it, since `launch` borrows the stack for as long as one does.
        let unmapped = unsafe { munmap(self.bottom, GUARD + SIZE) };
        debug_assert!(unmapped.is_ok());
    }
}

/// What came of a clone.
#[derive(Debug)]
#[must_use]
pub enum Launch {
    /// There is no child: the clone failed with this errno.
    NotCloned(i32),
    /// There is, or was, a child; the job's report says how far it came. It must be reaped.
    Cloned {
        /// The child's process id, which is also its process group once it took that step.
        pid: i32,
        /// The child.
        pidfd: OwnedFd,
    },
}

/// Starts a child and returns when it has executed its program, or is gone.
///
/// The calling thread sleeps meanwhile; every signal must be blocked in it ([`super::block_all_signals`]), because a
/// handler of the daemon must not run in the child.
pub fn launch(job: &Job, stack: &mut Stack) -> Launch {
    job.set_in_flight(true);
    // SAFETY: VM and VFORK are set; the stack is borrowed exclusively and its top is aligned; the pidfd's place and the
    // job live in `job`, borrowed until the clone returns; `child::run` keeps to raw system calls.
    let pid = unsafe {
        raw::clone_vfork(
            CLONE_FLAGS as usize,
            stack.top(),
            job.pidfd.as_ptr(),
            ptr::from_ref(job),
            child::run,
        )
    };
    job.set_in_flight(false);
    let pidfd = job.pidfd.swap(-1, Ordering::AcqRel);
    if pid < 0 {
        return Launch::NotCloned(pid.unsigned_abs() as i32);
    }
    // SAFETY: a successful clone with CLONE_PIDFD put a new descriptor of this process there; the swap took it out, so
    // nobody else owns it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Launch::Cloned {
        pid: pid as i32,
        pidfd,
    }
}

impl Job {
    /// Kills the child if it has not executed its program yet: for a deadline that passes while an open or an exec hangs.
    /// Returns whether there was one.
    pub fn kill_stuck_child(&self) -> bool {
        // While this lock is held, `launch` cannot give the descriptor away, so its number cannot be reused.
        let Ok(in_flight) = self.in_flight.lock() else {
            return false;
        };
        let pidfd = self.pidfd.load(Ordering::Acquire);
        if !*in_flight || pidfd < 0 {
            return false;
        }
        let arguments = [pidfd as usize, libc::SIGKILL as usize, 0, 0, 0, 0];
        // SAFETY: pidfd_send_signal with a null siginfo, on a pidfd that is this job's child as argued above.
        unsafe { raw::syscall(libc::SYS_pidfd_send_signal, arguments) == 0 }
    }

    fn set_in_flight(&self, value: bool) {
        // A poisoned lock would mean that a panic happened in the few lines that hold it, none of which can.
        *self
            .in_flight
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = value;
    }
}

/// Kills and reaps a child that nobody took charge of, with its process group.
pub fn discard(launch: Launch) {
    let Launch::Cloned { pid, pidfd } = launch else {
        return;
    };
    let group = pid.wrapping_neg() as usize;
    for target in [group, pid as usize] {
        // SAFETY: kill takes integers. The child is not reaped yet, so neither number names anything else; the group may not
        // exist, which kill answers with ESRCH.
        unsafe { raw::syscall(libc::SYS_kill, [target, libc::SIGKILL as usize, 0, 0, 0, 0]) };
    }
    let arguments = [
        libc::P_PIDFD as usize,
        pidfd.as_raw_fd() as usize,
        0,
        libc::WEXITED as usize,
        0,
        0,
    ];
    // SAFETY: waitid on a descriptor owned here, with null pointers for what it would write.
    unsafe { raw::syscall(libc::SYS_waitid, arguments) };
}
