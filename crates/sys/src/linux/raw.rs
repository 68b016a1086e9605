//! Syscalls without libc. They have no `errno`, hence no thread-local storage, hence are usable in the child.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(super) use self::aarch64::{clone_vfork, syscall};
#[cfg(target_arch = "x86_64")]
pub(super) use self::x86_64::{clone_vfork, syscall};

/// Ends the calling task.
#[inline(always)]
pub(super) fn exit(code: usize) -> ! {
    loop {
        // SAFETY: exit_group takes an integer and does not return; the loop is for the type only.
        unsafe { syscall(libc::SYS_exit_group, [code, 0, 0, 0, 0, 0]) };
    }
}
