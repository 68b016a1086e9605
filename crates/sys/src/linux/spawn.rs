//! The only clone of hookjail.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr::{self, NonNull},
    sync::{MutexGuard, PoisonError, atomic::Ordering},
};

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use super::{
    IntoCgroup, Job, WaitStatus, child,
    job::{Flight, Stage},
    raw,
    wait::{ended, has_ended, wait_until_ended},
};

/// Stack memory for one child at a time, with a guard below. A child that overran it dies instead of writing into the daemon.
#[derive(Debug)]
pub struct Stack {
    bottom: NonNull<libc::c_void>,
}

/// The flags and exit signal of the only clone. The spawners' filters let exactly these through.
pub const CLONE_FLAGS: u32 =
    (libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD) as u32;

/// The flags and exit signal by which the child makes the processes of a tree. These are children of the daemon, whose ids the
/// kernel writes into the daemon's memory before they run.
pub const TREE_CLONE_FLAGS: u32 = (libc::CLONE_VM
    | libc::CLONE_VFORK
    | libc::CLONE_PARENT
    | libc::CLONE_PARENT_SETTID
    | libc::SIGCHLD) as u32;

/// `CLONE_INTO_CGROUP`, which libc does not have.
const CLONE_INTO_CGROUP: u64 = 1 << 33;

/// `struct clone_args` of the kernel, as of `CLONE_INTO_CGROUP`.
#[derive(Debug, Default)]
#[repr(C)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

impl CloneArgs {
    /// Returns the arguments of a clone like that of [`CLONE_FLAGS`] whose child begins in a cgroup.
    fn new(stack: &mut Stack, pidfd: *mut i32, cgroup: &OwnedFd) -> Self {
        let signal = libc::SIGCHLD as u64;
        Self {
            flags: (u64::from(CLONE_FLAGS) & !signal) | CLONE_INTO_CGROUP,
            pidfd: pidfd.addr() as u64,
            exit_signal: signal,
            stack: (stack.top().addr() - SIZE) as u64,
            stack_size: SIZE as u64,
            cgroup: cgroup.as_raw_fd() as u64,
            ..Self::default()
        }
    }
}

/// Returns whether `clone3` is to be had. Filters that look at flags of `clone` answer as if there were none, such as those of
/// systemd's `RestrictNamespaces=`.
pub fn has_clone3() -> bool {
    // SAFETY: a structure of no size is refused before it is looked at.
    let result = unsafe { raw::syscall(libc::SYS_clone3, [0; 6]) };
    result == -(libc::EINVAL as isize)
}

/// Size of the guard: the largest page on kernels of these architectures. A smaller guard would be rounded up into the stack.
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

    pub(super) fn top(&mut self) -> *mut u8 {
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

/// Result of a clone.
#[derive(Debug)]
#[must_use]
pub enum Launch {
    /// There is no child: the clone failed with this errno.
    NotCloned(i32),
    /// There is, or was, a child, which must be reaped. The job's report has its last step.
    Cloned {
        /// The child's process id, and its process group once it took that step.
        pid: i32,
        /// The child's pidfd.
        pidfd: OwnedFd,
    },
    /// There is no child: [`Job::expire`] came before the clone.
    TooLate,
    /// There is, or was, a process tree. Both must be reaped.
    Tree {
        /// The hook; the first process where that could not be made.
        hook: i32,
        /// The first process, whose death ends the tree.
        init: i32,
    },
}

/// Result of [`Job::expire`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Overdue {
    /// The child lived and was killed with its process group.
    Killed,
    /// There is no child, or it had ended by itself; none is started any more.
    Over,
    /// The kernel is making the child and has not reported its id yet.
    Unnamed,
}

/// Starts a child and returns when it has executed its program, or is gone.
///
/// The calling thread sleeps meanwhile; every signal must be blocked in it ([`super::block_all_signals`]), because a
/// handler of the daemon must not run in the child.
pub fn launch(job: &Job, stack: &mut Stack) -> Launch {
    {
        let mut flight = job.flight();
        if flight.overdue {
            return Launch::TooLate;
        }
        flight.stage = Stage::Cloning;
    }
    let pidfd = job.pidfd.as_ptr();
    // The lower half is that of the tree's processes, which begin while the child sleeps.
    let inner = stack.top().addr() - SIZE / 2;
    job.inner_stack.store(inner, Ordering::Release);
    let (number, args, in_cgroup);
    match &job.parts.cgroup {
        None | Some(IntoCgroup::Move(_)) => {
            let stack = stack.top().addr();
            number = libc::SYS_clone;
            args = [CLONE_FLAGS as usize, stack, pidfd.addr(), 0, 0];
        }
        Some(IntoCgroup::Clone(cgroup)) => {
            in_cgroup = CloneArgs::new(stack, pidfd, cgroup);
            number = libc::SYS_clone3;
            args = [
                ptr::from_ref(&in_cgroup).addr(),
                size_of::<CloneArgs>(),
                0,
                0,
                0,
            ];
        }
    }
    // SAFETY: VM and VFORK are set. The stack is borrowed exclusively and its top is aligned. The pidfd's place and the job
    // live in `job`, borrowed until the clone returns, and `in_cgroup` until then, too. `child::run` keeps to raw syscalls.
    let pid = unsafe { raw::clone_vfork(number, args, ptr::from_ref(job), child::run) };
    if pid > 0 && job.parts.tree.is_some() {
        // Before the lock, which a deadline takes.
        await_tree(job, pid as i32);
    }
    let mut flight = job.flight();
    let pidfd = job.pidfd.swap(-1, Ordering::AcqRel);
    if pid < 0 {
        flight.stage = Stage::Waiting;
        return Launch::NotCloned(pid.unsigned_abs() as i32);
    }
    // SAFETY: a successful clone with CLONE_PIDFD put a new descriptor of this process there; the swap took it out, so
    // nothing else owns it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    let launch = match (job.in_tree(), job.init()) {
        (Some(hook), Some(init)) => {
            flight.stage = Stage::Launched(hook);
            Launch::Tree { hook, init }
        }
        _ => {
            let pid = pid as i32;
            flight.stage = Stage::Launched(pid);
            Launch::Cloned { pid, pidfd }
        }
    };
    drop(flight);
    launch
}

/// Reaps the child that made a process tree, unless it made none, and returns once nothing of the tree uses this process's memory.
///
/// A child that exited has seen both processes execute or exit. One that was killed has not: then these are killed, too, since they
/// run on the child's stack.
fn await_tree(job: &Job, maker: i32) {
    let Some(last) = job.in_tree() else {
        return;
    };
    if let Ok(maker) = wait_until_ended(maker)
        && matches!(maker.status, WaitStatus::Exited(_))
    {
        return;
    }
    kill(last);
    if let Some(init) = job.init() {
        kill(init);
    }
    let flags = (libc::WEXITED | libc::WNOWAIT) as usize;
    let arguments = [libc::P_PID as usize, last as usize, 0, flags, 0, 0];
    // SAFETY: waitid takes integers, and null pointers for what it would write.
    unsafe { raw::syscall(libc::SYS_waitid, arguments) };
}

impl Job {
    /// Kills the child with its process group, or prevents its start. For a deadline that passes, in particular while an open or
    /// an exec hangs. Never blocks. The owner of the child must not have reaped it.
    pub fn expire(&self) -> Overdue {
        // While this lock is held, `launch` cannot give the descriptor away, so its number cannot be reused.
        let mut flight = self.flight();
        flight.overdue = true;
        match flight.stage {
            Stage::Waiting => Overdue::Over,
            Stage::Cloning => {
                let pidfd = self.pidfd.load(Ordering::Acquire);
                if pidfd < 0 {
                    return Overdue::Unnamed;
                }
                let mut lives = matches!(ended(libc::P_PIDFD, pidfd.unsigned_abs()), Ok(false));
                if let Some(hook) = self.in_tree() {
                    lives |= matches!(has_ended(hook), Ok(false));
                }
                let arguments = [pidfd as usize, libc::SIGKILL as usize, 0, 0, 0, 0];
                // SAFETY: pidfd_send_signal with a null siginfo, on a pidfd that is this job's child as argued above.
                unsafe { raw::syscall(libc::SYS_pidfd_send_signal, arguments) };
                // After the child, which makes no more of them then.
                if let Some(init) = self.init() {
                    kill(init);
                }
                let group = self.parts.group.map(|entry| entry.load(Ordering::Acquire));
                // The child may have executed its program, and have children: the spawner's thread just has not run since.
                if let Some(group) = group.filter(|group| *group > 1) {
                    kill(group.wrapping_neg());
                }
                match lives {
                    true => Overdue::Killed,
                    false => Overdue::Over,
                }
            }
            Stage::Launched(pid) => match has_ended(pid) {
                Ok(ended) => {
                    kill(self.init().unwrap_or(pid.wrapping_neg()));
                    match ended {
                        true => Overdue::Over,
                        false => Overdue::Killed,
                    }
                }
                // The process is no child any more, and its number may be another's.
                Err(_) => Overdue::Over,
            },
        }
    }

    /// Returns the process of the tree that the caller is to wait for, if there is one: the hook, or the first one alone.
    fn in_tree(&self) -> Option<i32> {
        let hook = self.hook.load(Ordering::Acquire);
        Some(hook).filter(|hook| *hook > 0).or(self.init())
    }

    fn flight(&self) -> MutexGuard<'_, Flight> {
        // A poisoned lock would mean that a panic happened in the few lines that hold it, none of which can.
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kills a process, or by a negative number a process group. The kernel answers with ESRCH where none exists.
fn kill(target: i32) {
    let arguments = [target as usize, libc::SIGKILL as usize, 0, 0, 0, 0];
    // SAFETY: kill takes integers.
    unsafe { raw::syscall(libc::SYS_kill, arguments) };
}

/// Kills and reaps an unclaimed child with its process group. Blocks until all of it has ended.
pub fn discard(launch: Launch) {
    let (pid, group) = match &launch {
        Launch::Cloned { pid, pidfd: _ } => (*pid, *pid),
        Launch::Tree { hook, init } => (*hook, *init),
        Launch::NotCloned(_) | Launch::TooLate => return,
    };
    // The child is not reaped yet, so neither number names anything else. The child may have no group of its own yet.
    kill(group.wrapping_neg());
    kill(group);
    kill(pid);
    let wait = |kind: libc::idtype_t, id: usize| {
        let arguments = [kind as usize, id, 0, libc::WEXITED as usize, 0, 0];
        // SAFETY: waitid takes integers, and null pointers for what it would write.
        unsafe { raw::syscall(libc::SYS_waitid, arguments) }
    };
    wait(libc::P_PID, pid as usize);
    // Its children fell to this process; an error is ECHILD: nothing is left.
    while wait(libc::P_PGID, group as usize) == 0 {}
}
