//! Seccomp user notifications. The daemon receives each reported syscall, records it, and refuses it. Where the daemon observes
//! a hook, it continues the calls that the filter would have allowed.
//!
//! The kernel keeps the calling task waiting until there is an answer. Where no process is left to give one, the call fails
//! with ENOSYS: a daemon that dies opens nothing.

use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use nix::errno::Errno;

/// Descriptor for the user notifications of every task that inherits one filter.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// A syscall that waits for an answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Notification {
    /// Its arguments.
    pub arguments: [u64; 6],
    id: u64,
    /// Its number.
    pub number: u32,
    /// Thread id of the calling task.
    pub task: i32,
}

impl Listener {
    /// Takes ownership of the descriptor from `seccomp(2)`.
    ///
    /// # Safety
    ///
    /// `fd` must be an open descriptor that nothing else owns.
    pub(super) unsafe fn from_raw(fd: i32) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Waits for a call. `None` where its task is gone before the call could be received.
    ///
    /// # Errors
    ///
    /// Returns the error of the kernel; the listener is of no use any more.
    pub fn next(&self) -> io::Result<Option<Notification>> {
        // SAFETY: all zeros is a value of it, which holds integers only; and the kernel requires zeros.
        let mut message: libc::seccomp_notif = unsafe { mem::zeroed() };
        let request = libc::SECCOMP_IOCTL_NOTIF_RECV;
        // SAFETY: the descriptor is a listener; the kernel writes one `seccomp_notif`, whose size the request names.
        let received = unsafe { libc::ioctl(self.0.as_raw_fd(), request, &raw mut message) };
        match Errno::result(received) {
            Ok(_) => Ok(Some(Notification {
                arguments: message.data.args,
                id: message.id,
                number: message.data.nr.cast_unsigned(),
                task: message.pid.cast_signed(),
            })),
            Err(Errno::ENOENT | Errno::EINTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns whether a call still waits. As long as it does, its task's id cannot name another.
    #[must_use]
    pub fn still_waits(&self, notification: &Notification) -> bool {
        let request = libc::SECCOMP_IOCTL_NOTIF_ID_VALID;
        let valid = uninterrupted(|| {
            // SAFETY: the descriptor is a listener; the kernel reads one number.
            unsafe { libc::ioctl(self.0.as_raw_fd(), request, &raw const notification.id) }
        });
        valid.is_ok()
    }

    /// Continues a call with the registers it was made with. Memory behind a pointer may have changed since it was read (TOCTOU),
    /// so this never depends on it. A task that is gone meanwhile needs no answer.
    ///
    /// # Errors
    ///
    /// Returns the error of the kernel.
    pub fn proceed(&self, notification: &Notification) -> io::Result<()> {
        self.answer(libc::seccomp_notif_resp {
            error: 0,
            flags: CONTINUE,
            id: notification.id,
            val: 0,
        })
    }

    /// Refuses a call. A task that is gone meanwhile needs no answer.
    ///
    /// # Errors
    ///
    /// Returns the error of the kernel.
    pub fn refuse(&self, notification: &Notification, errno: i32) -> io::Result<()> {
        self.answer(libc::seccomp_notif_resp {
            error: -errno,
            flags: 0,
            id: notification.id,
            val: 0,
        })
    }

    /// Has a call return 0 without being made. A task that is gone meanwhile needs no answer.
    ///
    /// # Errors
    ///
    /// Returns the error of the kernel.
    pub fn succeed(&self, notification: &Notification) -> io::Result<()> {
        self.answer(libc::seccomp_notif_resp {
            error: 0,
            flags: 0,
            id: notification.id,
            val: 0,
        })
    }

    fn answer(&self, mut answer: libc::seccomp_notif_resp) -> io::Result<()> {
        let request = libc::SECCOMP_IOCTL_NOTIF_SEND;
        let sent = uninterrupted(|| {
            // SAFETY: the descriptor is a listener; the kernel reads one `seccomp_notif_resp`.
            unsafe { libc::ioctl(self.0.as_raw_fd(), request, &raw mut answer) }
        });
        match sent {
            Ok(_) | Err(Errno::ENOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Answer flag that continues a call. The header's constant is a `long`, the field is not.
const CONTINUE: u32 = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;

/// Repeats a call that a signal interrupted. The kernel waits for a lock of the filter's, and the task of the denied call would
/// wait for ever.
fn uninterrupted(mut call: impl FnMut() -> i32) -> nix::Result<i32> {
    loop {
        match Errno::result(call()) {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_call_is_made_again_and_other_errors_are_returned() {
        for (last, expected) in [
            (Errno::UnknownErrno, Ok(0)),
            (Errno::ENOENT, Err(Errno::ENOENT)),
        ] {
            let mut answers = [Errno::EINTR, Errno::EINTR, last].into_iter();
            let result = uninterrupted(|| match answers.next() {
                None | Some(Errno::UnknownErrno) => 0,
                Some(errno) => {
                    errno.set();
                    -1
                }
            });
            assert_eq!(result, expected);
            assert_eq!(answers.len(), 0);
        }
    }
}
