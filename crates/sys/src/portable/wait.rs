//! Waits for children on SIGCHLD, and returns their resource usage.

use std::{future::pending, io, mem, time::Duration};

use nix::{
    errno::Errno,
    sys::{
        resource::{UsageWho, getrusage},
        signal::{self, Signal, killpg},
    },
    unistd::Pid,
};
use tokio::{
    signal::unix::{self, SignalKind},
    sync::Mutex,
};

use super::{Reaped, WaitStatus};

/// A child. Its number names nothing else until it is reaped, which only [`reap_watched`] and [`reap_group`] do.
#[derive(Debug)]
pub struct Process {
    pub(super) pid: i32,
}

impl Process {
    /// Returns the child's id.
    pub const fn pid(&self) -> i32 {
        self.pid
    }
}

/// A child whose end the runtime reports.
#[derive(Debug)]
pub struct Watched {
    /// Signals for the ends of all children.
    ends: Mutex<unix::Signal>,
    process: Process,
}

/// Registers a child with the runtime, to report its end.
///
/// # Errors
///
/// Returns the error of installing the handler.
pub fn watch(process: Process) -> io::Result<Watched> {
    Ok(Watched {
        ends: Mutex::new(unix::signal(SignalKind::child())?),
        process,
    })
}

/// Waits until a child has ended, which stays a zombie.
pub async fn exited(child: &Watched) {
    let mut ends = child.ends.lock().await;
    // Listened for before it is looked at: an end in between is not missed.
    // An error is that it is not there.
    while !has_ended(child.process.pid).unwrap_or(true) {
        if ends.recv().await.is_none() {
            // The runtime is shutting down: the run's cancellation comes with it.
            pending().await
        }
    }
}

/// Returns whether a child has ended, which then stays a zombie. Never blocks.
///
/// # Errors
///
/// Returns the error of `waitid`; `ECHILD` if it is not, or no longer, a child of this process.
pub fn has_ended(pid: i32) -> io::Result<bool> {
    // SAFETY: all-zero bytes are a valid siginfo_t, which is plain data.
    let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: waitid writes to the local it is given and to nothing else.
    let result = unsafe {
        libc::waitid(
            libc::P_PID,
            pid.unsigned_abs() as libc::id_t,
            &raw mut info,
            options,
        )
    };
    Errno::result(result)?;
    Ok(info.si_pid != 0)
}

/// A child that has ended and is in another process group than this process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stray {
    /// Its process group.
    pub group: i32,
    /// Its process id.
    pub pid: i32,
}

/// Returns nothing: orphans fall to the first process of these systems.
///
/// # Errors
///
/// Never; on Linux they have to be listed.
pub fn strays() -> io::Result<Vec<Stray>> {
    Ok(Vec::new())
}

/// Reaps a child by its number, if it has ended. Never blocks.
///
/// # Errors
///
/// As [`has_ended`].
pub fn reap_stray(pid: i32) -> io::Result<Option<Reaped>> {
    wait(pid)
}

/// Kills a process that is not reaped yet.
///
/// # Errors
///
/// Returns the error of the kernel; `ESRCH` where the process is gone.
pub fn kill(process: &Process) -> io::Result<()> {
    Ok(signal::kill(Pid::from_raw(process.pid), Signal::SIGKILL)?)
}

/// Reaps a watched child if it has ended; `None` if it still runs. Never blocks.
///
/// # Errors
///
/// Returns the error of `wait4`; `ECHILD` if it is not, or no longer, a child of this process.
pub fn reap_watched(child: &Watched) -> io::Result<Option<Reaped>> {
    wait(child.process.pid)
}

/// Reaps one ended child of a process group; `None` if the group still exists. Never blocks. Processes that the hook's left
/// behind are not this process's to reap. So this waits until the system has no such group any more.
///
/// # Errors
///
/// Returns `ESRCH` if nothing is left of the group.
pub fn reap_group(group: i32) -> io::Result<Option<Reaped>> {
    if let Ok(Some(reaped)) = wait(group.wrapping_neg()) {
        return Ok(Some(reaped));
    }
    match killpg(Pid::from_raw(group), None) {
        // EPERM: there are only zombies in it.
        Ok(()) | Err(Errno::EPERM) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn wait(which: i32) -> io::Result<Option<Reaped>> {
    let mut status = 0;
    // SAFETY: all-zero bytes are a valid rusage, which is plain data.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: wait4 writes to the two locals it is given and to nothing else.
    let pid = unsafe { libc::wait4(which, &raw mut status, libc::WNOHANG, &raw mut usage) };
    match pid {
        ..0 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        1.. => Ok(Some(Reaped {
            max_rss_bytes: above_own(usage.ru_maxrss),
            status: if libc::WIFEXITED(status) {
                WaitStatus::Exited(libc::WEXITSTATUS(status))
            } else {
                WaitStatus::Signaled(libc::WTERMSIG(status))
            },
            system: duration(usage.ru_stime),
            user: duration(usage.ru_utime),
        })),
    }
}

/// Returns a child's highest resident set in bytes; 0 where unknown. Until its exec it was a copy of this process, which the
/// kernel counts in.
fn above_own(most: libc::c_long) -> u64 {
    /// macOS counts bytes, the others KiB.
    const UNIT: u64 = if cfg!(target_vendor = "apple") {
        1
    } else {
        1024
    };
    let own_peak =
        getrusage(UsageWho::RUSAGE_SELF).map_or(libc::c_long::MAX, |usage| usage.max_rss());
    if most > own_peak {
        most.unsigned_abs().saturating_mul(UNIT)
    } else {
        0
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_micros(time.tv_usec as u64)
}
