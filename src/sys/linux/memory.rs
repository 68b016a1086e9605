//! Use of memory by a process of its own, in a cgroup that limits it.

use std::{io, os::fd::OwnedFd, ptr};

use super::{WaitStatus, raw, spawn::CloneArgs, wait::wait_until_ended};

/// Allocates this many bytes of memory, all of them at once, in a new process that begins in a cgroup. Returns how it ended: it exits
/// with 0 where it got the memory.
///
/// Not in a child that shares this process's memory: the kernel charges that to this process, and where it kills one process for want
/// of memory it kills all with the same.
///
/// # Errors
///
/// Returns the error of `clone3` or `waitid`.
pub(crate) fn use_memory_in(cgroup: &OwnedFd, bytes: usize) -> io::Result<WaitStatus> {
    let args = CloneArgs::copy_in(cgroup);
    let place = [
        ptr::from_ref(&args).addr(),
        size_of::<CloneArgs>(),
        0,
        0,
        0,
        0,
    ];
    // SAFETY: clone3 without CLONE_VM and without a new stack is a copy of this process with this thread alone. The copy only makes
    // raw system calls below and never returns, so locks that other threads held do not matter. `args` is the kernel's structure.
    let pid = unsafe { raw::syscall(libc::SYS_clone3, place) };
    match pid {
        0 => {
            let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
            let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE) as usize;
            let no_file = usize::MAX;
            let mapping = [0, bytes, protection, flags, no_file, 0];
            // SAFETY: a new anonymous mapping at an address of the kernel's choice overlaps nothing.
            let mapped = unsafe { raw::syscall(libc::SYS_mmap, mapping) };
            // An errno is a small negative number, an address never.
            raw::exit(usize::from((-4095..0).contains(&mapped)))
        }
        1.. => Ok(wait_until_ended(pid as i32)?.status),
        _ => Err(io::Error::from_raw_os_error(pid.unsigned_abs() as i32)),
    }
}
