//! The keeper's own process.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    sync::atomic::Ordering,
};

use nix::{
    sys::signal::{SigSet, SigmaskHow, Signal, killpg, sigprocmask},
    unistd::{Pid, SysconfVar, close, read, setsid, sysconf},
};

use crate::keeper::Table;

/// Starts the process that kills the table's groups once `alive` is closed. Once it has ended it is a [stray](super::strays).
///
/// # Errors
///
/// Returns the error of `fork`.
pub(crate) fn watch_over(pipe: &OwnedFd, alive: &OwnedFd, table: Table) -> io::Result<()> {
    // SAFETY: the copy of this process goes straight into `keep`, which calls only what may be called between a fork and an
    // exec, and never returns. So locks that other threads held do not matter.
    match unsafe { libc::fork() } {
        0 => keep(pipe, alive, table),
        1.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Runs the keeper. Failures of its own set-up are no reason not to watch.
fn keep(pipe: &OwnedFd, alive: &OwnedFd, table: Table) -> ! {
    // Deaf to everything but SIGKILL, and in a session of its own, so that what ends the daemon does not end it first.
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None).ok();
    setsid().ok();
    // The daemon's end above all: with a copy of it open here, the daemon's end would never be seen.
    close(alive.as_raw_fd()).ok();
    let most = sysconf(SysconfVar::OPEN_MAX).ok().flatten();
    let most = most.and_then(|most| i32::try_from(most).ok());
    for fd in 0..most.unwrap_or(MAX_FDS).min(MAX_FDS) {
        if fd != pipe.as_raw_fd() && fd != alive.as_raw_fd() {
            close(fd).ok();
        }
    }
    let mut byte = [0];
    // All signals are blocked, so there is no EINTR; 0 is the daemon's end, and an error cannot be waited out.
    while matches!(read(pipe, &mut byte), Ok(1..)) {}
    for entry in table.groups {
        let group = entry.load(Ordering::Acquire);
        // Never 0 or 1, which would mean "my own group" and "everybody".
        if group > 1 {
            killpg(Pid::from_raw(group), Signal::SIGKILL).ok();
        }
    }
    // SAFETY: ends this process without running anything of the daemon's that it is a copy of.
    unsafe { libc::_exit(0) }
}

/// Limit up to which descriptors are closed: a daemon that starts has none above.
const MAX_FDS: i32 = 4096;
