//! Mounts that are made in the namespaces of a process that waits.
//!
//! A task enters the namespaces, makes the mounts and ends, by the rules of [`super::child`].

use std::{
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    ptr,
    sync::atomic::{AtomicI32, Ordering},
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{SigSet, SigmaskHow},
};

use super::{
    child::call,
    raw,
    read_only::{self, ReadOnly},
    spawn::Stack,
};

/// The flags of the task's clone. Without an exit signal no other wait of this process reaps the task.
const CLONE_FLAGS: i32 = libc::CLONE_VM | libc::CLONE_VFORK;

/// The namespaces of a child that waits, held open.
#[derive(Debug)]
pub struct Entrance {
    mounts: OwnedFd,
    /// The table of its mounts.
    table: File,
    /// `None` where this process may mount without a user namespace.
    users: Option<OwnedFd>,
}

/// The task's work.
struct Work<'a> {
    entrance: &'a Entrance,
    /// `ECANCELED` until the task has ended its work; then 0, or the error.
    errno: AtomicI32,
    read_only: &'a ReadOnly,
}

impl Entrance {
    /// Opens the namespaces of a child that is not reaped. `has_users`: whether it has a user namespace of its own.
    ///
    /// # Errors
    ///
    /// Returns the error of opening one: a daemon of root needs CAP_SYS_PTRACE for a child of another user.
    pub fn open(child: i32, has_users: bool) -> io::Result<Self> {
        let open = |name: &str| File::open(format!("/proc/{child}/{name}"));
        let users = has_users.then(|| open("ns/user")).transpose()?;
        Ok(Self {
            mounts: open("ns/mnt")?.into(),
            table: open("mountinfo")?,
            users: users.map(Into::into),
        })
    }

    /// Returns whether a mount was added or removed in the namespace since it was opened.
    ///
    /// The kernel removes the mounts on a file or directory whose name is removed or replaced, in any namespace.
    ///
    /// # Errors
    ///
    /// Returns the error of `poll`.
    pub fn has_changed(&self) -> io::Result<bool> {
        let mut table = [PollFd::new(self.table.as_fd(), PollFlags::POLLPRI)];
        poll(&mut table, PollTimeout::ZERO)?;
        let seen = table[0].revents().unwrap_or(PollFlags::POLLERR);
        Ok(seen.intersects(PollFlags::POLLPRI | PollFlags::POLLERR))
    }

    /// Makes mounts in the namespace. This thread sleeps meanwhile.
    ///
    /// # Errors
    ///
    /// Returns the error of the call that failed. Some of the mounts may be there then.
    pub fn keep(&self, read_only: &ReadOnly) -> io::Result<()> {
        let work = Work {
            entrance: self,
            errno: AtomicI32::new(libc::ECANCELED),
            read_only,
        };
        let mut stack = Stack::new()?;
        let arguments = [CLONE_FLAGS as usize, stack.top().addr(), 0, 0, 0];
        // A handler of the daemon must not run in the task.
        let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        // SAFETY: VM and VFORK are set; the stack is this call's own and its top is aligned; `work` lives until the clone returns;
        // `run` keeps to raw syscalls.
        let task =
            unsafe { raw::clone_vfork(libc::SYS_clone, arguments, ptr::from_ref(&work), run) };
        if task > 0 {
            let wait = [task as usize, 0, libc::__WALL as usize, 0, 0, 0];
            // SAFETY: wait4 takes integers, and null pointers for what it would write.
            unsafe { raw::syscall(libc::SYS_wait4, wait) };
        }
        mask.thread_set_mask()?;
        let errno = match task {
            0.. => work.errno.load(Ordering::Acquire),
            _ => task.unsigned_abs() as i32,
        };
        match errno {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

/// Runs the task. Never returns.
extern "C" fn run(work: *const Work<'_>) -> ! {
    // SAFETY: the parent passes a pointer to a Work that it borrows for as long as it sleeps in the clone, which is until this
    // task exits.
    let work: &Work<'_> = unsafe { &*work };
    let done = enter(work.entrance).and_then(|()| read_only::make(work.read_only));
    work.errno.store(done.err().unwrap_or(0), Ordering::Release);
    raw::exit(0)
}

/// Enters the namespaces, the one of users first, which gives the right to enter the other.
fn enter(entrance: &Entrance) -> Result<(), i32> {
    let users = (entrance.users.as_ref()).map(|users| (users, libc::CLONE_NEWUSER));
    let all = users
        .into_iter()
        .chain([(&entrance.mounts, libc::CLONE_NEWNS)]);
    for (namespace, kind) in all {
        let arguments = [namespace.as_raw_fd() as usize, kind as usize, 0, 0, 0, 0];
        call(libc::SYS_setns, arguments)?;
    }
    Ok(())
}
