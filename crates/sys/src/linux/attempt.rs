//! Syscalls that a self-test's child tries.

use std::{
    ffi::CString,
    ffi::OsStr,
    net::Ipv4Addr,
    os::fd::{AsRawFd, BorrowedFd},
    sync::atomic::{AtomicIsize, Ordering},
};

use serde::{Deserialize, Serialize};

use super::{
    job::{address, c_string},
    raw,
};

/// One syscall that a self-test's child tries after its last restriction, and its result.
///
/// Only calls that are harmless to the daemon can be made: the constructors are the list.
#[derive(Debug)]
pub struct Attempt {
    after: After,
    arguments: [usize; 6],
    number: i64,
    /// The path that one of `arguments` points to.
    path: Option<CString>,
    result: AtomicIsize,
}

/// Action after a call's success.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
enum After {
    /// Close the descriptor it returned.
    Close,
    /// Connect the socket it returned to a port of loopback, which is the result, and close it.
    Connect(u16),
    /// Reserve this number of bytes for the file it opened, which is the result, and close it.
    Fill(u64),
    /// Nothing.
    Leave,
    /// Wait for the process it made; in that process, exit.
    Reap,
    /// Use this number of nanoseconds of processor time, instead of one call.
    Spin(u64),
    /// Give back the memory it returned, of the size that was asked for.
    Unmap,
}

/// An attempt, to be made by another process.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Described {
    after: After,
    arguments: [usize; 6],
    number: i64,
    /// Which argument is a path, and the path.
    path: Option<(usize, CString)>,
}

/// Marks an attempt without a result; no attempt returns this.
const NOT_TRIED: isize = isize::MIN;

impl From<Described> for Attempt {
    fn from(described: Described) -> Self {
        let Described {
            after,
            mut arguments,
            number,
            path,
        } = described;
        let path = path.map(|(slot, path)| {
            if let Some(argument) = arguments.get_mut(slot) {
                *argument = address(&path);
            }
            path
        });
        Self {
            path,
            ..Self::call(number, arguments, after)
        }
    }
}

impl Attempt {
    /// Opens a path with `O_*` flags and a mode. `None` if the path holds a NUL byte.
    pub fn open(path: &OsStr, flags: i32, mode: u32) -> Option<Self> {
        let path = c_string(path.to_owned())?;
        let working_dir = libc::AT_FDCWD as usize;
        let arguments = [
            working_dir,
            address(&path),
            (flags | libc::O_CLOEXEC) as usize,
            mode as usize,
            0,
            0,
        ];
        Some(Self {
            path: Some(path),
            ..Self::call(libc::SYS_openat, arguments, After::Close)
        })
    }

    /// Creates a file of `bytes` bytes, all of which take space. `None` if the path holds a NUL byte.
    pub fn fill(path: &OsStr, bytes: u64) -> Option<Self> {
        let opened = Self::open(path, libc::O_WRONLY | libc::O_CREAT, 0o600)?;
        Some(Self {
            after: After::Fill(bytes),
            ..opened
        })
    }

    /// Truncates a file by its path to zero. `None` if the path holds a NUL byte.
    pub fn truncate(path: &OsStr) -> Option<Self> {
        let path = c_string(path.to_owned())?;
        let arguments = [address(&path), 0, 0, 0, 0, 0];
        Some(Self {
            path: Some(path),
            ..Self::call(libc::SYS_truncate, arguments, After::Leave)
        })
    }

    /// Changes a file's mode; `None` if the path holds a NUL byte.
    pub fn change_mode(path: &OsStr, mode: u32) -> Option<Self> {
        let path = c_string(path.to_owned())?;
        let working_dir = libc::AT_FDCWD as usize;
        let arguments = [working_dir, address(&path), mode as usize, 0, 0, 0];
        Some(Self {
            path: Some(path),
            ..Self::call(libc::SYS_fchmodat, arguments, After::Leave)
        })
    }

    /// Checks whether a path exists; `None` if it holds a NUL byte.
    pub fn exists(path: &OsStr) -> Option<Self> {
        let path = c_string(path.to_owned())?;
        let working_dir = libc::AT_FDCWD as usize;
        let arguments = [working_dir, address(&path), libc::F_OK as usize, 0, 0, 0];
        Some(Self {
            path: Some(path),
            ..Self::call(libc::SYS_faccessat, arguments, After::Leave)
        })
    }

    /// Makes a socket.
    pub fn socket(domain: i32, kind: i32, protocol: i32) -> Self {
        Self::call(
            libc::SYS_socket,
            [domain as usize, kind as usize, protocol as usize, 0, 0, 0],
            After::Close,
        )
    }

    /// Connects a socket of TCP to a port of loopback.
    pub fn connect(port: u16) -> Self {
        let arguments = [
            libc::AF_INET as usize,
            libc::SOCK_STREAM as usize,
            0,
            0,
            0,
            0,
        ];
        Self::call(libc::SYS_socket, arguments, After::Connect(port))
    }

    /// Makes a socket to the kernel itself. Returns the attempt's name on this system, too.
    pub fn kernel_socket() -> (&'static str, Self) {
        // Of a protocol that no hook has.
        let protocol = libc::NETLINK_KOBJECT_UEVENT;
        let socket = Self::socket(libc::AF_NETLINK, libc::SOCK_RAW, protocol);
        ("make a netlink socket", socket)
    }

    /// Makes a new process, which exits at once.
    pub fn fork() -> Self {
        Self::call(
            libc::SYS_clone,
            [libc::SIGCHLD as usize, 0, 0, 0, 0, 0],
            After::Reap,
        )
    }

    /// Sends a signal; 0 only checks whether it could be sent.
    pub fn signal(pid: i32, signal: i32) -> Self {
        Self::call(
            libc::SYS_kill,
            [pid as usize, signal as usize, 0, 0, 0, 0],
            After::Leave,
        )
    }

    /// Reads a descriptor's flags: succeeds if the child still has it.
    pub fn descriptor(fd: BorrowedFd<'_>) -> Self {
        Self::call(
            libc::SYS_fcntl,
            [fd.as_raw_fd() as usize, libc::F_GETFD as usize, 0, 0, 0, 0],
            After::Leave,
        )
    }

    /// Makes a new process group, which the child has already. Harmless, and refused where leaving the group is.
    pub const fn new_group() -> Self {
        Self::call(libc::SYS_setpgid, [0; 6], After::Leave)
    }

    /// Makes a System V shared memory segment of no size. `EINVAL` where the call is reached.
    pub const fn shared_memory() -> Self {
        let flags = (libc::IPC_CREAT | 0o600) as usize;
        Self::call(
            libc::SYS_shmget,
            [libc::IPC_PRIVATE as usize, 0, flags, 0, 0, 0],
            After::Leave,
        )
    }

    /// Executes a file; `None` if the path holds a NUL byte. The file must be of no format that the kernel executes, so that
    /// the answer is `ENOEXEC` where the file may be executed: nothing is ever run.
    pub fn execute(path: &OsStr) -> Option<Self> {
        let path = c_string(path.to_owned())?;
        let arguments = [address(&path), 0, 0, 0, 0, 0];
        Some(Self {
            path: Some(path),
            ..Self::call(libc::SYS_execve, arguments, After::Leave)
        })
    }

    /// Allocates this many bytes of memory, all of them at once, and frees them.
    pub const fn use_memory(bytes: usize) -> Self {
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE) as usize;
        let no_file = usize::MAX;
        Self::call(
            libc::SYS_mmap,
            [0, bytes, protection, flags, no_file, 0],
            After::Unmap,
        )
    }

    /// Uses this many nanoseconds of processor time.
    pub const fn use_processor(nanoseconds: u64) -> Self {
        Self::call(libc::SYS_clock_gettime, [0; 6], After::Spin(nanoseconds))
    }

    /// Describes the attempt to another process.
    pub fn describe(&self) -> Described {
        let slot = |path: &CString| {
            let address = address(path);
            self.arguments.iter().position(|&value| value == address)
        };
        Described {
            after: self.after,
            arguments: self.arguments,
            number: self.number,
            path: self
                .path
                .as_ref()
                .and_then(|path| Some((slot(path)?, path.clone()))),
        }
    }

    /// Returns the kernel's result: a value, or `-errno`. `None`: the child did not make the call.
    pub fn result(&self) -> Option<isize> {
        match self.result.load(Ordering::Acquire) {
            NOT_TRIED => None,
            result => Some(result),
        }
    }

    const fn call(number: i64, arguments: [usize; 6], after: After) -> Self {
        Self {
            after,
            arguments,
            number,
            path: None,
            result: AtomicIsize::new(NOT_TRIED),
        }
    }

    /// Makes the call, in the child.
    pub(super) fn make(&self) {
        if let After::Spin(nanoseconds) = self.after {
            self.result.store(spin(nanoseconds), Ordering::Release);
            return;
        }
        // SAFETY: the constructors build number and arguments; the only pointers are to `self.path`, which lives as long as
        // the job that the sleeping parent holds. `clone` without CLONE_VM copies the memory, so the new process may run
        // on this stack.
        let mut result = unsafe { raw::syscall(self.number, self.arguments) };
        match self.after {
            After::Reap if result == 0 => raw::exit(0),
            After::Reap if result > 0 => {
                let any = (libc::__WALL) as usize;
                // SAFETY: wait4 with null pointers for status and usage writes nothing.
                unsafe { raw::syscall(libc::SYS_wait4, [result as usize, 0, any, 0, 0, 0]) };
            }
            After::Close if result >= 0 => {
                // SAFETY: closes the descriptor that the call above just made in this child's own table.
                unsafe { raw::syscall(libc::SYS_close, [result as usize, 0, 0, 0, 0, 0]) };
            }
            After::Connect(port) if result >= 0 => {
                let opened = result as usize;
                result = connect_to_loopback(opened, port);
                // SAFETY: closes that descriptor in this child's own table.
                unsafe { raw::syscall(libc::SYS_close, [opened, 0, 0, 0, 0, 0]) };
            }
            After::Fill(bytes) if result >= 0 => {
                let opened = result as usize;
                // SAFETY: reserves space for the file that the call above opened; no pointers.
                result = unsafe {
                    raw::syscall(libc::SYS_fallocate, [opened, 0, 0, bytes as usize, 0, 0])
                };
                // SAFETY: closes that descriptor in this child's own table.
                unsafe { raw::syscall(libc::SYS_close, [opened, 0, 0, 0, 0, 0]) };
            }
            // An errno is a small negative number, an address never.
            After::Unmap if !(-4095..0).contains(&result) => {
                let mapped = [result as usize, self.arguments[1], 0, 0, 0, 0];
                // SAFETY: unmaps the memory that the call above has just mapped, to which nothing else has a pointer.
                unsafe { raw::syscall(libc::SYS_munmap, mapped) };
            }
            After::Close
            | After::Connect(_)
            | After::Fill(_)
            | After::Leave
            | After::Reap
            | After::Spin(_)
            | After::Unmap => {}
        }
        self.result.store(result, Ordering::Release);
    }
}

/// Connects a socket to a port of loopback, and returns 0 or `-errno`. Allocates nothing.
pub(super) fn connect_to_loopback(socket: usize, port: u16) -> isize {
    let loopback = libc::sockaddr_in {
        sin_addr: libc::in_addr {
            s_addr: u32::from(Ipv4Addr::LOCALHOST).to_be(),
        },
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_zero: [0; 8],
    };
    let place = (&raw const loopback).addr();
    let arguments = [socket, place, size_of_val(&loopback), 0, 0, 0];
    // SAFETY: connect reads a local of the kernel's type, of the length that is named.
    unsafe { raw::syscall(libc::SYS_connect, arguments) }
}

/// Uses processor time of this task, and returns 0 or `-errno`.
fn spin(nanoseconds: u64) -> isize {
    let mut used = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let clock = libc::CLOCK_PROCESS_CPUTIME_ID as usize;
    loop {
        let place = (&raw mut used).addr();
        // SAFETY: clock_gettime writes into a local of the kernel's type.
        let result = unsafe { raw::syscall(libc::SYS_clock_gettime, [clock, place, 0, 0, 0, 0]) };
        let seconds = used.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000);
        let total = seconds.wrapping_add(used.tv_nsec.cast_unsigned());
        if result < 0 || total >= nanoseconds {
            return result;
        }
    }
}
