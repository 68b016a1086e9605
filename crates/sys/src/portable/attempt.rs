//! Syscalls that a self-test's child tries.

use std::{
    ffi::{CString, OsStr},
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::ffi::OsStrExt,
    },
    path::PathBuf,
};

use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, OFlag, open},
    sys::{
        resource::{UsageWho, getrusage},
        signal::{Signal, kill},
        stat::{FchmodatFlags, Mode, fchmodat},
        time::TimeValLike,
        wait::waitpid,
    },
    unistd::{AccessFlags, Pid, access, close, execve, setpgid, truncate},
};
use serde::{Deserialize, Serialize};

/// One syscall that a self-test's child tries.
///
/// Only calls that are harmless to the daemon can be made: the constructors are the list.
#[derive(Debug, Deserialize, Serialize)]
pub struct Attempt(Call);

#[derive(Debug, Deserialize, Serialize)]
enum Call {
    ChangeMode {
        mode: libc::mode_t,
        path: PathBuf,
    },
    Descriptor(i32),
    Execute(PathBuf),
    Exists(PathBuf),
    Fork,
    NewGroup,
    Open {
        flags: i32,
        mode: libc::mode_t,
        path: PathBuf,
    },
    SharedMemory,
    Signal {
        pid: i32,
        signal: i32,
    },
    Socket {
        domain: i32,
        kind: i32,
        protocol: i32,
    },
    Truncate(PathBuf),
    UseMemory(usize),
    UseProcessor(u64),
}

impl Attempt {
    /// Opens a path with `O_*` flags and a mode. `None` if the path holds a NUL byte.
    pub fn open(path: &OsStr, flags: i32, mode: libc::mode_t) -> Option<Self> {
        let path = plain(path)?;
        Some(Self(Call::Open { flags, mode, path }))
    }

    /// Truncates a file by its path to zero. `None` if the path holds a NUL byte.
    pub fn truncate(path: &OsStr) -> Option<Self> {
        plain(path).map(Call::Truncate).map(Self)
    }

    /// Changes a file's mode; `None` if the path holds a NUL byte.
    pub fn change_mode(path: &OsStr, mode: libc::mode_t) -> Option<Self> {
        let path = plain(path)?;
        Some(Self(Call::ChangeMode { mode, path }))
    }

    /// Checks whether a path exists; `None` if it holds a NUL byte.
    pub fn exists(path: &OsStr) -> Option<Self> {
        plain(path).map(Call::Exists).map(Self)
    }

    /// Makes a socket.
    pub const fn socket(domain: i32, kind: i32, protocol: i32) -> Self {
        Self(Call::Socket {
            domain,
            kind,
            protocol,
        })
    }

    /// Makes a socket to the kernel itself. Returns the attempt's name on this system, too.
    pub const fn kernel_socket() -> (&'static str, Self) {
        let socket = Self::socket(libc::AF_ROUTE, libc::SOCK_RAW, 0);
        ("make a routing socket", socket)
    }

    /// Makes a new process, which exits at once.
    pub const fn fork() -> Self {
        Self(Call::Fork)
    }

    /// Sends a signal; 0 only checks whether it could be sent.
    pub const fn signal(pid: i32, signal: i32) -> Self {
        Self(Call::Signal { pid, signal })
    }

    /// Reads a descriptor's flags: succeeds if the child still has it.
    pub fn descriptor(fd: BorrowedFd<'_>) -> Self {
        Self(Call::Descriptor(fd.as_raw_fd()))
    }

    /// Makes a new process group, which the child has already. Harmless, and refused where leaving the group is.
    pub const fn new_group() -> Self {
        Self(Call::NewGroup)
    }

    /// Makes a System V shared memory segment of no size. `EINVAL` where the call is reached.
    pub const fn shared_memory() -> Self {
        Self(Call::SharedMemory)
    }

    /// Executes a file; `None` if the path holds a NUL byte. The file must be of no format that the kernel executes, so that
    /// the answer is `ENOEXEC` where the file may be executed: nothing is ever run.
    pub fn execute(path: &OsStr) -> Option<Self> {
        plain(path).map(Call::Execute).map(Self)
    }

    /// Allocates this many bytes of memory, all of them at once, and frees them.
    pub const fn use_memory(bytes: usize) -> Self {
        Self(Call::UseMemory(bytes))
    }

    /// Uses this many nanoseconds of processor time.
    pub const fn use_processor(nanoseconds: u64) -> Self {
        Self(Call::UseProcessor(nanoseconds))
    }

    /// Makes the call; returns a value, or `-errno`. To be called in a process that has nothing else to do.
    pub fn make(&self) -> isize {
        let made = match &self.0 {
            Call::ChangeMode { mode, path } => {
                let mode = Mode::from_bits_truncate(*mode);
                fchmodat(AT_FDCWD, path, mode, FchmodatFlags::FollowSymlink).map(|()| 0)
            }
            // SAFETY: takes two integers; a number that is no descriptor is answered with EBADF.
            Call::Descriptor(fd) => value(unsafe { libc::fcntl(*fd, libc::F_GETFD) }),
            Call::Execute(path) => match CString::new(path.as_os_str().as_bytes()) {
                Ok(path) => execve(&path, &[&path], &[] as &[&CString]).map(|never| match never {}),
                Err(_) => Err(Errno::EINVAL),
            },
            Call::Exists(path) => access(path, AccessFlags::F_OK).map(|()| 0),
            Call::Fork => forked(),
            Call::NewGroup => setpgid(Pid::from_raw(0), Pid::from_raw(0)).map(|()| 0),
            Call::Open { flags, mode, path } => {
                let flags = OFlag::from_bits_retain(*flags) | OFlag::O_CLOEXEC;
                open(path, flags, Mode::from_bits_truncate(*mode)).map(|_closed| 0)
            }
            Call::SharedMemory => {
                let flags = libc::IPC_CREAT | 0o600;
                // SAFETY: takes three integers; a segment of no size cannot be made.
                value(unsafe { libc::shmget(libc::IPC_PRIVATE, 0, flags) })
            }
            Call::Signal { pid, signal } => match *signal {
                0 => kill(Pid::from_raw(*pid), None).map(|()| 0),
                signal => Signal::try_from(signal)
                    .and_then(|signal| kill(Pid::from_raw(*pid), signal))
                    .map(|()| 0),
            },
            Call::Socket {
                domain,
                kind,
                protocol,
            } => {
                // SAFETY: takes three integers.
                let fd = unsafe { libc::socket(*domain, *kind, *protocol) };
                let made = value(fd);
                if made.is_ok() {
                    // The descriptor must not have a number at which a later attempt looks for one of the daemon's.
                    close(fd).ok();
                }
                made
            }
            Call::Truncate(path) => truncate(path, 0).map(|()| 0),
            Call::UseMemory(bytes) => {
                // Written to, since what was never touched takes none.
                std::hint::black_box(vec![1_u8; *bytes]);
                Ok(0)
            }
            Call::UseProcessor(nanoseconds) => loop {
                let used = match getrusage(UsageWho::RUSAGE_SELF) {
                    Ok(usage) => usage.user_time() + usage.system_time(),
                    Err(errno) => break Err(errno),
                };
                if used.num_microseconds().unsigned_abs() >= *nanoseconds / 1000 {
                    break Ok(0);
                }
            },
        };
        made.unwrap_or_else(|errno| -(errno as isize))
    }
}

fn plain(path: &OsStr) -> Option<PathBuf> {
    (!path.as_bytes().contains(&0)).then(|| path.into())
}

fn value(result: libc::c_int) -> Result<isize, Errno> {
    Errno::result(result).map(|value| value as isize)
}

fn forked() -> Result<isize, Errno> {
    // SAFETY: the new process exits at once.
    match unsafe { libc::fork() } {
        // SAFETY: ends the new process, without running anything that it is a copy of.
        0 => unsafe { libc::_exit(0) },
        pid => {
            let pid = value(pid)?;
            waitpid(Pid::from_raw(i32::try_from(pid).unwrap_or(-1)), None)?;
            Ok(pid)
        }
    }
}
