//! Starts a program in a process group of its own.

use std::{
    ffi::{CStr, CString, OsStr},
    io,
    os::{
        fd::{FromRawFd, OwnedFd, RawFd},
        unix::{ffi::OsStrExt, process::CommandExt},
    },
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, FdFlag, fcntl},
    sys::{
        resource::{Resource, setrlimit},
        signal::{SigHandler, Signal, killpg, signal},
        stat::{Mode, umask},
    },
    unistd::{Pid, SysconfVar, execve, fchdir, getpid, sysconf},
};

use super::{Process, shared::PointerList};

/// Limit up to which descriptors are closed where the system has none.
const MAX_FDS: i32 = 1 << 16;

/// Inputs of a program's start.
#[derive(Debug)]
pub struct Start {
    /// Arguments, the program's name among them.
    pub argv: Vec<CString>,
    /// Environment, `NAME=value`.
    pub environment: Vec<CString>,
    /// Entry into which the child writes its process group, for the keeper.
    pub group: &'static AtomicI32,
    /// Descriptors of the program beside stdin, stdout and stderr. They keep their numbers.
    pub kept: Vec<OwnedFd>,
    /// Hard and soft resource limits.
    pub limits: Vec<(Resource, libc::rlim_t)>,
    /// The executed file, by its path. Most of these systems have no way to execute a descriptor.
    pub program: CString,
    /// The child's ends of stdin, stdout and stderr.
    pub stdio: [OwnedFd; 3],
    /// The umask.
    pub umask: u32,
    /// Working directory.
    pub working_dir: Arc<OwnedFd>,
}

/// Starts a program; returns after its exec.
///
/// # Errors
///
/// Returns the error of `fork`, of a step of the child, or of `execve`; then there is no child.
pub fn start(start: Start) -> io::Result<Process> {
    let Start {
        argv,
        environment,
        group,
        kept,
        limits,
        program,
        stdio,
        umask: mask,
        working_dir,
    } = start;
    let [stdin, stdout, stderr] = stdio.map(Stdio::from);
    let mut command = Command::new(OsStr::from_bytes(program.as_bytes()));
    // Also makes a process group, empties the signal mask and has SIGPIPE end the child again.
    command
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr)
        .process_group(0);
    let most = sysconf(SysconfVar::OPEN_MAX).ok().flatten();
    let most = most.and_then(|most| i32::try_from(most).ok());
    let most = most.unwrap_or(MAX_FDS).min(MAX_FDS);
    // Of 16 bits on some systems; permissions have 9.
    let mask = libc::mode_t::try_from(mask & 0o777).unwrap_or(0o777);
    let mask = Mode::from_bits_truncate(mask);
    let (arguments, variables) = (PointerList::new(&argv), PointerList::new(&environment));
    let prepare = move || {
        // The targets of the pointers live as long as this closure.
        let _owners = (&argv, &environment);
        group.store(getpid().as_raw(), Ordering::Release);
        // SAFETY: no handler is installed, so nothing of ours runs in a signal's context.
        unsafe { signal(Signal::SIGXFSZ, SigHandler::SigDfl) }?;
        umask(mask);
        fchdir(&*working_dir)?;
        for (resource, limit) in &limits {
            setrlimit(*resource, *limit, *limit)?;
        }
        for fd in 3..most {
            // SAFETY: takes two integers; a number that is no descriptor is answered with EBADF.
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
        for fd in &kept {
            fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty()))?;
        }
        // Not what `Command` would call: that gives a file of no known format to a shell.
        // SAFETY: a string and two lists that end with null, all owned by this closure, for the kernel to read.
        unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), variables.as_ptr()) };
        Err(io::Error::last_os_error())
    };
    // SAFETY: between fork and exec the closure allocates nothing, takes no lock and calls only what is async-signal-safe;
    // an error made of an errno allocates nothing either.
    unsafe { command.pre_exec(prepare) };
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where hooks are started on these systems"
    )]
    let child = command.spawn()?;
    let pid = i32::try_from(child.id()).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(Process { pid })
}

/// Takes ownership of a descriptor that this program was started with. The programs that it executes do not have it.
///
/// # Errors
///
/// This program was not started with a descriptor of this number, or has taken charge of it. Or the number is one of the first
/// three, which are those of the program that is executed.
pub fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes integers; a number that is no descriptor is answered with EBADF.
    let flags = Errno::result(unsafe { libc::fcntl(fd, libc::F_GETFD) })?;
    // Descriptors that this program opened or took charge of are closed on exec.
    if fd < 3 || flags & libc::FD_CLOEXEC != 0 {
        return Err(Errno::EBADF.into());
    }
    // SAFETY: takes three integers.
    Errno::result(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: the descriptor is open, and as it was not closed on exec until now, nothing in this program would close it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Executes a program in place of this one. Returns only where that fails.
pub fn execute(program: &CStr, argv: &[CString], environment: &[CString]) -> Errno {
    // Rust's runtime ignores it, and what is ignored stays so.
    // SAFETY: no handler is installed, so nothing of ours runs in a signal's context.
    if let Err(errno) = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) } {
        return errno;
    }
    match execve(program, argv, environment) {
        Ok(never) => match never {},
        Err(errno) => errno,
    }
}

/// Kills the process group of a child that has not executed its program yet.
///
/// # Errors
///
/// Returns the error of the kernel; `ESRCH` where there is none.
pub fn kill_group(group: &AtomicI32) -> io::Result<()> {
    let group = group.load(Ordering::Acquire);
    // 0 would be this process's own.
    if group < 2 {
        return Err(Errno::ESRCH.into());
    }
    Ok(killpg(Pid::from_raw(group), Signal::SIGKILL)?)
}
