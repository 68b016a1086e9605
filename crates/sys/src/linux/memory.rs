//! Use of memory by a process of its own, in a cgroup that limits it.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
};

use super::{WaitStatus, raw, wait::wait_until_ended};

/// Allocates this many bytes of memory, all of them at once, in a new process that moves into a cgroup by its open `cgroup.procs`
/// before. Returns the end of that process, which exits with 0 where it got the memory.
///
/// Not in a child that shares this process's memory, which the kernel charges to this process. Where the kernel kills one
/// process for lack of memory, it kills all with the same memory.
///
/// # Errors
///
/// Returns the error of `clone` or `waitid`.
pub fn use_memory_in(processes: &OwnedFd, bytes: usize) -> io::Result<WaitStatus> {
    let arguments = [libc::SIGCHLD as usize, 0, 0, 0, 0, 0];
    // SAFETY: clone without CLONE_VM and without a new stack is a copy of this process with this thread alone. The copy goes
    // straight into `use_memory`, which makes raw syscalls only and never returns, so locks that other threads held do not
    // matter.
    let pid = unsafe { raw::syscall(libc::SYS_clone, arguments) };
    match pid {
        0 => use_memory(processes.as_raw_fd() as usize, bytes),
        1.. => Ok(wait_until_ended(pid as i32)?.status),
        _ => Err(io::Error::from_raw_os_error(pid.unsigned_abs() as i32)),
    }
}

fn use_memory(processes: usize, bytes: usize) -> ! {
    let call = |number, arguments| {
        // SAFETY: below, a write of a constant, and a new anonymous mapping at an address of the kernel's choice.
        unsafe { raw::syscall(number, arguments) }
    };
    let text = b"0";
    let joined = call(
        libc::SYS_write,
        [processes, text.as_ptr().addr(), text.len(), 0, 0, 0],
    );
    if joined != text.len() as isize {
        raw::exit(2);
    }
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE) as usize;
    let no_file = usize::MAX;
    let mapped = call(libc::SYS_mmap, [0, bytes, protection, flags, no_file, 0]);
    // An errno is a small negative number, an address never.
    raw::exit(usize::from((-4095..0).contains(&mapped)))
}
