//! Items common to every system.

use std::{
    ffi::CString, io, os::fd::AsRawFd, panic::resume_unwind, ptr, sync::Arc, thread, time::Duration,
};

use nix::{
    fcntl::{OFlag, open},
    sys::{
        resource::{Resource, getrlimit, setrlimit},
        signal::{SigHandler, Signal, signal},
        stat::Mode,
    },
};
use serde::{Deserialize, Serialize};

/// The only byte that a process that waits for a run writes to its stdout.
pub const WAITS: u8 = 6;

/// Limit on descriptors, above any daemon's needs: 16,384 hooks and 65,536 connections.
const DESCRIPTORS: libc::rlim_t = 512 * 1024;

/// The limit from which on the first stack is large enough, bytes.
const LEAST_STACK: libc::rlim_t = 2 << 20;

/// The size of the program's own stack where the first one is too small, bytes.
const STACK_BYTES: usize = 8 << 20;

/// Identity of the hook, where the daemon can choose.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity {
    /// Group id.
    pub gid: u32,
    /// A group that only this run has; `None` where its uid and gid are its own already.
    pub group: Option<u32>,
    /// All supplementary groups, `group` among them.
    pub groups: Arc<[u32]>,
    /// User id; never 0.
    pub uid: u32,
}

/// Treatment of symbolic links in a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Links {
    /// Links are followed.
    Followed,
    /// Links with a target path are followed; links to descriptors are not.
    FollowedByName,
    /// Links are refused.
    Refused,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum WaitStatus {
    /// The process exited with this code.
    Exited(i32),
    /// This signal ended it.
    Signaled(i32),
}

/// A reaped process and what it and the children it waited for used.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Reaped {
    /// Highest resident set, bytes; 0 where it is not above this process's own.
    pub max_rss_bytes: u64,
    /// How it ended.
    pub status: WaitStatus,
    /// Processor time in the kernel.
    pub system: Duration,
    /// Processor time in user mode.
    pub user: Duration,
}

/// A null-terminated list of pointers to strings, for `execve`.
#[derive(Debug)]
pub(crate) struct PointerList(Vec<*const libc::c_char>);

// SAFETY: the pointers lead into CStrings that the owner of this list owns and never changes; moving a CString does not move
// its bytes. Only the kernel reads them.
unsafe impl Send for PointerList {}
// SAFETY: as above; nothing is ever written through them.
unsafe impl Sync for PointerList {}

impl PointerList {
    pub(crate) fn new(strings: &[CString]) -> Self {
        Self(
            strings
                .iter()
                .map(|s| s.as_ptr())
                .chain([ptr::null()])
                .collect(),
        )
    }

    pub(crate) const fn as_ptr(&self) -> *const *const libc::c_char {
        self.0.as_ptr()
    }
}

/// Opens `/dev/null` at 0, 1 and 2 where they are closed. A pipe must never *be* one of these.
///
/// # Errors
///
/// Returns the error of `open`.
pub fn occupy_standard_fds() -> io::Result<()> {
    loop {
        let fd = open("/dev/null", OFlag::O_RDWR, Mode::empty())?;
        if fd.as_raw_fd() > 2 {
            return Ok(());
        }
        // Stays open for the life of the process.
        std::mem::forget(fd);
    }
}

/// Raises this process's soft limit of descriptors to its hard one, and returns it. The programs that it starts get limits of
/// their own.
///
/// # Errors
///
/// Returns the error of `getrlimit`.
pub fn raise_descriptor_limit() -> io::Result<usize> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    // A higher limit is of no use, and some systems refuse "no limit".
    let wanted = hard.min(DESCRIPTORS).max(soft);
    // Why no error: where the system allows no more than there is, what there is has to do.
    let limit = match setrlimit(Resource::RLIMIT_NOFILE, wanted, hard) {
        Ok(()) => wanted,
        Err(_) => soft,
    };
    // A signed number on some systems.
    Ok(usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Returns the size that this process may give a file, bytes; the largest number where there is no limit, or none can be asked for.
pub fn file_size_limit() -> usize {
    limit_of(Resource::RLIMIT_FSIZE)
}

/// Returns a limit of this process; the largest number where there is none, or none can be asked for.
pub(crate) fn limit_of(resource: Resource) -> usize {
    let limit = getrlimit(resource);
    // A signed number on some systems.
    limit.map_or(usize::MAX, |(soft, _)| {
        usize::try_from(soft).unwrap_or(usize::MAX)
    })
}

/// Runs the program where its stack is large enough: on a thread with a stack of its own, where the limit leaves the first one less (`ulimit -s`).
///
/// Where no thread can be had, it runs on the first one nevertheless.
pub fn with_stack<T: Send>(program: impl Fn() -> T + Sync) -> T {
    let has_room = getrlimit(Resource::RLIMIT_STACK).map_or(true, |(soft, _)| soft >= LEAST_STACK);
    if has_room {
        return program();
    }
    let ended = thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK_BYTES);
        let ended = thread.spawn_scoped(scope, &program).ok()?;
        Some(ended.join())
    });
    match ended {
        Some(Ok(ended)) => ended,
        Some(Err(panic)) => resume_unwind(panic),
        None => program(),
    }
}

/// Ignores SIGXFSZ. A write beyond this process's own file size limit then fails with `EFBIG` instead of ending the process.
///
/// # Errors
///
/// Returns the error of `sigaction`.
pub fn ignore_file_size_signal() -> io::Result<()> {
    // SAFETY: no handler is installed, so nothing of ours runs in a signal's context.
    unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) }?;
    Ok(())
}
