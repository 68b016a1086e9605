//! Interpreter of filters that works like the kernel's: runs one program at a time, then all of them on one call.

use libc::sock_filter;

/// A syscall as a filter sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) arch: u32,
    pub(crate) args: [u64; 6],
    pub(crate) nr: u32,
}

/// The kernel's action on a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    Allow,
    /// The call is reported to a listener.
    Ask,
    Errno(i32),
    Kill,
}

/// Returns the kernel's action on `call` under these programs. The last of them was loaded most recently.
pub(crate) fn verdict(programs: &[Vec<sock_filter>], call: &Call) -> Verdict {
    // `seccomp_run_filters`: from the newest to the oldest, the answer changes only to a stricter action.
    let action = |answer: u32| (answer & libc::SECCOMP_RET_ACTION_FULL).cast_signed();
    let mut strictest = libc::SECCOMP_RET_ALLOW;
    for program in programs.iter().rev() {
        let answer = run(program, call);
        if action(answer) < action(strictest) {
            strictest = answer;
        }
    }
    match strictest & libc::SECCOMP_RET_ACTION_FULL {
        libc::SECCOMP_RET_ALLOW => Verdict::Allow,
        libc::SECCOMP_RET_ERRNO => {
            Verdict::Errno((strictest & libc::SECCOMP_RET_DATA).cast_signed())
        }
        libc::SECCOMP_RET_KILL_PROCESS => Verdict::Kill,
        libc::SECCOMP_RET_USER_NOTIF => Verdict::Ask,
        other => panic!("no filter answers {other:#x}"),
    }
}

/// Runs one program and returns its answer.
pub(crate) fn run(program: &[sock_filter], call: &Call) -> u32 {
    let mut accumulator = 0;
    let mut position = 0;
    loop {
        let sock_filter { code, jt, jf, k } = program[position];
        position += 1;
        let taken = match u32::from(code) {
            LOAD => {
                accumulator = word(call, k);
                continue;
            }
            AND => {
                accumulator &= k;
                continue;
            }
            JUMP => {
                position += k as usize;
                continue;
            }
            JUMP_ABOVE => accumulator > k,
            JUMP_AT_LEAST => accumulator >= k,
            JUMP_EQUAL => accumulator == k,
            RETURN => return k,
            other => panic!("no filter uses operation {other:#x}"),
        };
        position += usize::from(if taken { jt } else { jf });
    }
}

/// Asserts the kernel's conditions for loading a program.
pub(crate) fn assert_loadable(program: &[sock_filter]) {
    assert!(program.len() <= 4096, "{} instructions", program.len());
    for (position, step) in program.iter().enumerate() {
        let farthest = match u32::from(step.code) {
            LOAD => {
                assert!(
                    step.k % 4 == 0 && step.k < 64,
                    "load at {position} of {}",
                    step.k
                );
                0
            }
            AND | RETURN => 0,
            JUMP => step.k as usize,
            JUMP_ABOVE | JUMP_AT_LEAST | JUMP_EQUAL => usize::from(step.jt.max(step.jf)),
            other => panic!("operation {other:#x} at {position}"),
        };
        assert!(
            position + 1 + farthest < program.len() || u32::from(step.code) == RETURN,
            "jump at {position}"
        );
    }
    assert_eq!(
        program.last().map(|step| u32::from(step.code)),
        Some(RETURN)
    );
}

/// Returns the 32 bits of `struct seccomp_data` at `offset`.
fn word(call: &Call, offset: u32) -> u32 {
    match offset {
        0 => call.nr,
        4 => call.arch,
        16..64 if offset.is_multiple_of(4) => {
            let argument = call.args[(offset as usize - 16) / 8];
            let half = if offset.is_multiple_of(8) {
                argument & 0xffff_ffff
            } else {
                argument >> 32
            };
            u32::try_from(half).unwrap()
        }
        _ => panic!("no filter loads from {offset}"),
    }
}

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const JUMP: u32 = libc::BPF_JMP | libc::BPF_JA;
const JUMP_ABOVE: u32 = libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K;
const JUMP_AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const JUMP_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
