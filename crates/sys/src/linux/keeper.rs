//! The keeper's own process.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    sync::atomic::Ordering,
};

use super::raw;
use crate::keeper::Table;

/// Starts the process that kills the table's groups once `alive` is closed. Once it has ended it is a [stray](super::strays).
///
/// # Errors
///
/// Returns the error of `clone`.
pub(crate) fn watch_over(pipe: &OwnedFd, alive: &OwnedFd, table: Table) -> io::Result<()> {
    // SAFETY: clone without CLONE_VM and without a new stack is a copy of this process with this thread alone. The copy
    // goes straight into `keep`, which makes raw syscalls only and never returns, so locks that other threads held
    // do not matter. No exit signal: no process waits for its end.
    let pid = unsafe { raw::syscall(libc::SYS_clone, [0; 6]) };
    match pid {
        0 => keep(pipe.as_raw_fd() as usize, alive.as_raw_fd() as usize, table),
        1.. => Ok(()),
        _ => Err(io::Error::from_raw_os_error(pid.unsigned_abs() as i32)),
    }
}

/// Runs the keeper.
fn keep(pipe: usize, alive: usize, table: Table) -> ! {
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
    // The daemon's end above all: with a copy of it open here, the daemon's end would never be seen.
    call(libc::SYS_close, [alive, 0, 0, 0, 0, 0]);
    // Pipe to 0, everything else closed; a failure of either is no reason not to watch.
    let pipe = if call(libc::SYS_dup3, [pipe, 0, 0, 0, 0, 0]) == 0 {
        call(libc::SYS_close_range, [1, u32::MAX as usize, 0, 0, 0, 0]);
        0
    } else {
        pipe
    };
    let mut byte = 0_u8;
    loop {
        let read = call(libc::SYS_read, [pipe, (&raw mut byte).addr(), 1, 0, 0, 0]);
        // All signals are blocked, so there is no EINTR; 0 is the daemon's end, and an error cannot be waited out.
        if read <= 0 {
            break;
        }
    }
    for entry in table.groups {
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
    // After the groups: here is also what left its group.
    let path = table.kill_file;
    if path
        .first()
        .is_some_and(|first| first.load(Ordering::Acquire) != 0)
    {
        let flags = (libc::O_WRONLY | libc::O_CLOEXEC) as usize;
        let working_dir = libc::AT_FDCWD as usize;
        let file = call(
            libc::SYS_openat,
            [working_dir, path.as_ptr().addr(), flags, 0, 0, 0],
        );
        let text = b"1";
        let [start, length] = [text.as_ptr().addr(), text.len()];
        // An error of the open is no descriptor, which the kernel refuses.
        call(libc::SYS_write, [file as usize, start, length, 0, 0, 0]);
    }
    raw::exit(0)
}
