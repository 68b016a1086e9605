//! Syscalls on x86_64.

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
    // SAFETY: the x86_64 Linux convention: number in rax, arguments in rdi rsi rdx r10 r8 r9, result in rax, rcx and r11
    // lost, the stack untouched. The effects of the call itself are the caller's promise.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
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
    // SAFETY: clone(flags, stack, parent_tid, child_tid, tls) or clone3(args, size). In the parent this is an ordinary syscall.
    // In the child rax is 0, rsp is the stack's end, all other registers are the parent's, so r12 and r13 still hold argument and
    // entry. The call pushes onto the new stack only, and `entry` never returns.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") number as isize => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r12") argument,
            in("r13") entry,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}
