//! Waits for children, and returns their resource usage.

use std::{
    fs,
    future::pending,
    io, mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use nix::{
    sys::resource::{UsageWho, getrusage},
    unistd::{Pid, getpgid, getpgrp},
};
use tokio::io::{Interest, unix::AsyncFd};

use super::{Reaped, WaitStatus};

/// A child's pidfd, unaffected by reuse of its number.
pub type Process = OwnedFd;

/// A child whose end the runtime reports.
pub type Watched = AsyncFd<OwnedFd>;

/// Reaps a child if it has ended; `None` if it still runs. Never blocks.
///
/// # Errors
///
/// Returns the error of `waitid`; `ECHILD` if it is not, or no longer, a child of this process.
pub(super) fn reap(pidfd: BorrowedFd<'_>) -> io::Result<Option<Reaped>> {
    // A descriptor is never negative.
    wait(libc::P_PIDFD, pidfd.as_raw_fd().unsigned_abs())
}

/// Reaps a watched child, if it has ended.
///
/// # Errors
///
/// Returns the error of `waitid`.
pub fn reap_watched(child: &Watched) -> io::Result<Option<Reaped>> {
    reap(child.get_ref().as_fd())
}

/// Waits until a child has ended, which stays a zombie.
pub async fn exited(child: &Watched) {
    match child.readable().await {
        // A pidfd stays readable once its process has ended, so the readiness is kept.
        Ok(mut guard) => guard.retain_ready(),
        // The runtime is shutting down: the run's cancellation comes with it.
        Err(_) => pending().await,
    }
}

/// Reaps one ended child of a process group; `None` if the remaining ones still run. Never blocks.
///
/// # Errors
///
/// Returns the error of `waitid`; `ECHILD` if no child of this process is left in the group.
pub fn reap_group(group: i32) -> io::Result<Option<Reaped>> {
    wait(libc::P_PGID, group.unsigned_abs())
}

/// Returns whether a child has ended, which then stays a zombie. Never blocks.
///
/// # Errors
///
/// Returns the error of `waitid`; `ECHILD` if it is not, or no longer, a child of this process.
pub fn has_ended(pid: i32) -> io::Result<bool> {
    ended(libc::P_PID, pid.unsigned_abs())
}

/// A child that has ended and is in another process group than this process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stray {
    /// Its process group.
    pub group: i32,
    /// Its process id.
    pub pid: i32,
}

/// Returns this process's ended children in other process groups, orphans among them. They stay zombies: a thread may still
/// wait for one.
///
/// # Errors
///
/// Returns the error of reading `/proc/self/task/*/children`.
pub fn strays() -> io::Result<Vec<Stray>> {
    // Mostly there is none, and nothing has to be listed. An error is that there are no children at all.
    if !ended(libc::P_ALL, 0).unwrap_or(false) {
        return Ok(Vec::new());
    }
    let own_group = getpgrp();
    let mut strays = Vec::new();
    for task in fs::read_dir("/proc/self/task")? {
        let children = match fs::read_to_string(task?.path().join("children")) {
            Ok(children) => children,
            // The thread has ended, and its children are another's now.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for pid in children.split_ascii_whitespace() {
            let Ok(pid) = pid.parse() else { continue };
            if let Ok(true) = has_ended(pid)
                && let Ok(group) = getpgid(Some(Pid::from_raw(pid)))
                && group != own_group
            {
                let group = group.as_raw();
                strays.push(Stray { group, pid });
            }
        }
    }
    Ok(strays)
}

/// Reaps a child by its number, if it has ended. Never blocks.
///
/// # Errors
///
/// As [`has_ended`].
pub fn reap_stray(pid: i32) -> io::Result<Option<Reaped>> {
    wait(libc::P_PID, pid.unsigned_abs())
}

/// Returns whether any of the given children has ended, which then stays a zombie.
pub(super) fn ended(kind: libc::idtype_t, id: libc::id_t) -> io::Result<bool> {
    let flags = libc::WNOHANG | libc::WNOWAIT;
    Ok(wait_with(kind, id, flags)?.is_some())
}

/// Waits until a child has ended and leaves it as a zombie. Reaps every other that ends before: for the first process of a
/// container, which orphans fall to.
///
/// # Errors
///
/// Returns the error of `waitid`; `ECHILD` if there is no such child.
pub fn wait_for(pid: i32) -> io::Result<Reaped> {
    loop {
        match wait_with(libc::P_ALL, 0, libc::WNOWAIT) {
            Ok(Some((ended, reaped))) if ended == pid => return Ok(reaped),
            Ok(Some((other, _))) => {
                wait(libc::P_PID, other.cast_unsigned())?;
            }
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Waits until a child has ended, and reaps it.
///
/// # Errors
///
/// Returns the error of `waitid`; `ECHILD` if there is no such child.
pub(super) fn wait_until_ended(pid: i32) -> io::Result<Reaped> {
    loop {
        match wait_with(libc::P_PID, pid.unsigned_abs(), 0) {
            Ok(Some((_, reaped))) => return Ok(reaped),
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn wait(kind: libc::idtype_t, id: libc::id_t) -> io::Result<Option<Reaped>> {
    Ok(wait_with(kind, id, libc::WNOHANG)?.map(|(_, reaped)| reaped))
}

fn wait_with(
    kind: libc::idtype_t,
    id: libc::id_t,
    flags: i32,
) -> io::Result<Option<(i32, Reaped)>> {
    // SAFETY: all-zero bytes are a valid siginfo_t, which is plain data.
    let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
    // SAFETY: all-zero bytes are a valid rusage, which is plain data.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    let options = libc::WEXITED | flags | libc::__WALL;
    // SAFETY: the syscall, unlike the C function, takes a fifth argument for the usage; both pointers are to locals of
    // the right type.
    let result = unsafe {
        libc::syscall(
            libc::SYS_waitid,
            kind,
            id,
            &raw mut info,
            options,
            &raw mut usage,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: waitid has filled the SIGCHLD form of the structure, or left the zeros.
    let pid = unsafe { info.si_pid() };
    if pid == 0 {
        return Ok(None);
    }
    // SAFETY: as above.
    let value = unsafe { info.si_status() };
    let status = if info.si_code == libc::CLD_EXITED {
        WaitStatus::Exited(value)
    } else {
        WaitStatus::Signaled(value)
    };
    let reaped = Reaped {
        max_rss_bytes: above_own(usage.ru_maxrss),
        status,
        system: duration(usage.ru_stime),
        user: duration(usage.ru_utime),
    };
    Ok(Some((pid, reaped)))
}

/// Returns a child's highest resident set in bytes; 0 where unknown. Until its exec it shared the memory of this process, which
/// the kernel counts in.
fn above_own(kib: libc::c_long) -> u64 {
    let own_peak =
        getrusage(UsageWho::RUSAGE_SELF).map_or(libc::c_long::MAX, |usage| usage.max_rss());
    if kib > own_peak {
        kib.unsigned_abs().saturating_mul(1024)
    } else {
        0
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec.unsigned_abs())
        + Duration::from_micros(time.tv_usec.unsigned_abs())
}

/// Registers a pidfd, which becomes readable when its process ends, with the runtime.
///
/// # Errors
///
/// Returns the error of the registration.
pub fn watch(pidfd: Process) -> io::Result<Watched> {
    // SAFETY: an OwnedFd is open, and the same descriptor, for as long as the AsyncFd owns it and only lends it out by
    // shared reference.
    Ok(unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) }?)
}
