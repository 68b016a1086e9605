//! The program that waits in a warm slot, as a file: it reads arguments and environment, and executes the hook's program.
//!
//! It is a program of its own, so that a process that waits has nothing of the daemon's memory. Its code is position-independent
//! and begins at its first byte; the rest of the file are headers.

use std::{arch::global_asm, ffi::CString, slice};

use super::{
    WAITS,
    child::{HANDED_PROGRAM, HANDED_REPORT},
    elf::{self, Zeroed},
};

/// Where the program's code is loaded, and before it the headers of its file.
const CODE: u64 = 0x1000_0000;

/// Where the program reads its input to. Only the upper half of the lower 32 bits: one instruction loads it everywhere.
const INPUT: u64 = 0x2000_0000;

/// Size of the memory for its input, bytes. A hook with more does not start in a slot.
const MOST_INPUT: usize = 1 << 20;

unsafe extern "C" {
    static hookjail_slot_begin: u8;
    static hookjail_slot_end: u8;
}

// Writes WAITS; reads the input, whose first eight bytes are its length and whose next ones are the addresses of argv and of the
// environment; executes descriptor 3. That and the report's descriptor close on exec. Where anything fails it writes the errno to
// the report, 0 where the input ended early, and exits with 126.
#[cfg(target_arch = "x86_64")]
global_asm!(
    ".pushsection .rodata.hookjail_slot, \"a\"",
    ".globl hookjail_slot_begin",
    ".globl hookjail_slot_end",
    "hookjail_slot_begin:",
    "mov eax, {write}",
    "mov edi, 1",
    "lea rsi, [rip + 6f]",
    "mov edx, 1",
    "syscall",
    "mov ebx, {input}",
    "xor ebp, ebp",
    "mov r12d, 8",
    "2:",
    "mov eax, {read}",
    "xor edi, edi",
    "lea rsi, [rbx + rbp]",
    "mov rdx, r12",
    "sub rdx, rbp",
    "syscall",
    "test rax, rax",
    "jle 4f",
    "add rbp, rax",
    "cmp rbp, r12",
    "jb 2b",
    "mov r12, [rbx]",
    "cmp rbp, r12",
    "jb 2b",
    "mov r13d, {program}",
    "3:",
    "mov eax, {fcntl}",
    "mov edi, r13d",
    "mov esi, {set_flags}",
    "mov edx, {close_on_exec}",
    "syscall",
    "test eax, eax",
    "jnz 4f",
    "inc r13d",
    "cmp r13d, {report}",
    "jbe 3b",
    "mov eax, {execveat}",
    "mov edi, {program}",
    "lea rsi, [rip + 7f]",
    "mov rdx, [rbx + 8]",
    "mov r10, [rbx + 16]",
    "mov r8d, {empty_path}",
    "syscall",
    "4:",
    "neg eax",
    "mov [rbx], eax",
    "mov eax, {write}",
    "mov edi, {report}",
    "mov rsi, rbx",
    "mov edx, 4",
    "syscall",
    "mov edi, 126",
    "mov eax, {exit}",
    "syscall",
    "ud2",
    "6: .byte {waits}",
    "7: .byte 0",
    "hookjail_slot_end:",
    ".popsection",
    close_on_exec = const libc::FD_CLOEXEC,
    empty_path = const libc::AT_EMPTY_PATH,
    execveat = const libc::SYS_execveat,
    exit = const libc::SYS_exit_group,
    fcntl = const libc::SYS_fcntl,
    input = const INPUT,
    program = const HANDED_PROGRAM,
    read = const libc::SYS_read,
    report = const HANDED_REPORT,
    set_flags = const libc::F_SETFD,
    waits = const WAITS,
    write = const libc::SYS_write,
);

#[cfg(target_arch = "aarch64")]
global_asm!(
    ".pushsection .rodata.hookjail_slot, \"a\"",
    ".globl hookjail_slot_begin",
    ".globl hookjail_slot_end",
    ".balign 4",
    "hookjail_slot_begin:",
    "mov x8, #{write}",
    "mov x0, #1",
    "adr x1, 6f",
    "mov x2, #1",
    "svc #0",
    "movz x19, #{input_upper}, lsl #16",
    "mov x20, #0",
    "mov x21, #8",
    "2:",
    "mov x8, #{read}",
    "mov x0, #0",
    "add x1, x19, x20",
    "sub x2, x21, x20",
    "svc #0",
    "cmp x0, #0",
    "b.le 4f",
    "add x20, x20, x0",
    "cmp x20, x21",
    "b.lo 2b",
    "ldr x21, [x19]",
    "cmp x20, x21",
    "b.lo 2b",
    "mov x22, #{program}",
    "3:",
    "mov x8, #{fcntl}",
    "mov x0, x22",
    "mov x1, #{set_flags}",
    "mov x2, #{close_on_exec}",
    "svc #0",
    "cbnz x0, 4f",
    "add x22, x22, #1",
    "cmp x22, #{report}",
    "b.ls 3b",
    "mov x8, #{execveat}",
    "mov x0, #{program}",
    "adr x1, 7f",
    "ldr x2, [x19, #8]",
    "ldr x3, [x19, #16]",
    "mov x4, #{empty_path}",
    "svc #0",
    "4:",
    "neg w0, w0",
    "str w0, [x19]",
    "mov x8, #{write}",
    "mov x0, #{report}",
    "mov x1, x19",
    "mov x2, #4",
    "svc #0",
    "mov x0, #126",
    "mov x8, #{exit}",
    "svc #0",
    "brk #1",
    "6: .byte {waits}",
    "7: .byte 0",
    "hookjail_slot_end:",
    ".popsection",
    close_on_exec = const libc::FD_CLOEXEC,
    empty_path = const libc::AT_EMPTY_PATH,
    execveat = const libc::SYS_execveat,
    exit = const libc::SYS_exit_group,
    fcntl = const libc::SYS_fcntl,
    input_upper = const INPUT >> 16,
    program = const HANDED_PROGRAM,
    read = const libc::SYS_read,
    report = const HANDED_REPORT,
    set_flags = const libc::F_SETFD,
    waits = const WAITS,
    write = const libc::SYS_write,
);

/// Returns the instructions of the program that waits.
fn code() -> &'static [u8] {
    let (begin, end) = (&raw const hookjail_slot_begin, &raw const hookjail_slot_end);
    // SAFETY: both are labels of the one block above, the second behind the first, in memory that is never written.
    unsafe { slice::from_raw_parts(begin, end.addr() - begin.addr()) }
}

/// Returns the file of the program that waits in a slot.
pub fn slot_program() -> Vec<u8> {
    let input = Zeroed {
        address: INPUT,
        size: MOST_INPUT as u64,
    };
    elf::program(code(), CODE, Some(input))
}

/// Returns the input of a process that waits in a slot; `None` where it is too large for one.
pub fn slot_input(argv: &[CString], environment: &[CString]) -> Option<Vec<u8>> {
    let pointers = 3 + argv.len() + 1 + environment.len() + 1;
    let texts = || {
        argv.iter()
            .chain(environment)
            .map(|text| text.as_bytes_with_nul())
    };
    let length = 8 * pointers + texts().map(<[u8]>::len).sum::<usize>();
    if length > MOST_INPUT {
        return None;
    }
    let mut input = Vec::with_capacity(length);
    let mut put = |word: u64| input.extend(word.to_le_bytes());
    put(length as u64);
    put(INPUT + 8 * 3);
    put(INPUT + 8 * (3 + argv.len() + 1) as u64);
    let mut at = INPUT + 8 * pointers as u64;
    for list in [argv, environment] {
        for text in list {
            put(at);
            at += text.as_bytes_with_nul().len() as u64;
        }
        put(0);
    }
    texts().for_each(|text| input.extend(text));
    Some(input)
}
