//! Syscalls on aarch64.

use std::arch::asm;

/// Makes one syscall and returns its result: `-errno` on failure.
///
/// # Safety
///
/// The caller must uphold everything that the kernel requires of `number` with `args`; pointers among them must be valid for
/// the accesses that this call makes.
#[inline(always)]
pub(crate) unsafe fn syscall(number: i64, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the aarch64 Linux convention: number in x8, arguments in x0 to x5, result in x0, every other register and the
    // stack untouched. The effects of the call itself are the caller's promise.
    unsafe {
        asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") args[0] as isize => result,
            in("x1") args[1],
            in("x2") args[2],
            in("x3") args[3],
            in("x4") args[4],
            in("x5") args[5],
            options(nostack),
        );
    }
    result
}

/// Clones a task that shares memory with the caller and runs `entry(argument)`. The task has a stack of its own, and never
/// returns from `entry`. Returns the task's id, or `-errno`.
///
/// # Safety
///
/// `number` and `args` must be a call of `clone` or `clone3` whose flags have `CLONE_VM | CLONE_VFORK`, so that the caller
/// sleeps until the task executes or exits. The stack must be memory that nothing else uses until then, with a 16-byte aligned
/// end. The pidfd must be writable, and `argument` must stay valid until then. `entry` must only do what a task that shares its
/// memory and thread-local storage with a stopped thread may do.
pub(crate) unsafe fn clone_vfork<T>(
    number: i64,
    args: [usize; 5],
    argument: *const T,
    entry: extern "C" fn(*const T) -> !,
) -> isize {
    let result: isize;
    // SAFETY: clone(flags, stack, parent_tid, tls, child_tid), the last two of which are the other way round than on x86_64, or
    // clone3(args, size). In the parent this is an ordinary syscall. In the child x0 is 0, sp is the stack's end, all other
    // registers are the parent's, so x20 and x21 still hold argument and entry. Frame pointer and link register become 0, where
    // a backtrace ends. `entry` uses the new stack only, and never returns.
    unsafe {
        asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x30, xzr",
            "mov x0, x20",
            "blr x21",
            "brk #1",
            "2:",
            in("x8") number,
            inlateout("x0") args[0] as isize => result,
            in("x1") args[1],
            in("x2") args[2],
            in("x3") args[3],
            in("x4") args[4],
            in("x20") argument,
            in("x21") entry,
        );
    }
    result
}
