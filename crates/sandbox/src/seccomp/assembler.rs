//! Assembler for classic BPF that works from the end of a program to its start.
//!
//! Jumps go forward only, so writing the last instruction first means that every target is already there. There are no
//! labels and no second pass, and a piece of code is a function from where it continues to where it starts.

use libc::sock_filter;

use crate::seccomp::{
    arguments::{ArgTest, Wanted, Width},
    filter::CompileError,
};

/// A program under construction, last instruction first.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    code: Vec<sock_filter>,
    own_group: Vec<usize>,
    own_pid: Vec<usize>,
}

/// An instruction already written, as a target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(usize);

/// Comparison of the accumulator with a jump's operand, as unsigned numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Compare {
    Above,
    AtLeast,
    Equal,
}

/// A finished program, and the instructions that need a process id filled in.
#[derive(Debug)]
pub(crate) struct Assembled {
    pub(crate) own_group: Vec<usize>,
    pub(crate) own_pid: Vec<usize>,
    pub(crate) program: Vec<sock_filter>,
}

impl Assembler {
    /// Writes a return of an action to the kernel.
    pub(crate) fn answer(&mut self, action: u32) -> Place {
        self.push(libc::BPF_RET | libc::BPF_K, action, 0, 0)
    }

    /// Writes a load of 32 bits of the call's data, before the existing code.
    pub(crate) fn load(&mut self, offset: u32) -> Place {
        self.push(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0)
    }

    /// Writes a jump to `yes` or `no` by a comparison of the accumulator.
    pub(crate) fn jump(
        &mut self,
        compare: Compare,
        operand: u32,
        yes: Place,
        no: Place,
    ) -> Result<Place, CompileError> {
        let comparison = match compare {
            Compare::Above => libc::BPF_JGT,
            Compare::AtLeast => libc::BPF_JGE,
            Compare::Equal => libc::BPF_JEQ,
        };
        let (yes, no) = (self.distance(yes)?, self.distance(no)?);
        Ok(self.push(libc::BPF_JMP | comparison | libc::BPF_K, operand, yes, no))
    }

    /// Writes a jump to `pass` if all tests hold, else to `fail`.
    pub(crate) fn all(
        &mut self,
        tests: &[ArgTest],
        pass: Place,
        fail: Place,
    ) -> Result<Place, CompileError> {
        tests
            .iter()
            .rev()
            .try_fold(pass, |pass, test| self.test(test, pass, fail))
    }

    fn test(&mut self, test: &ArgTest, pass: Place, fail: Place) -> Result<Place, CompileError> {
        // `struct seccomp_data`: the arguments start at 16, the lower half comes first.
        let offset = 16 + 8 * u32::from(test.index);
        let (mask, value) = match test.wanted {
            Wanted::Exactly(value) => (u64::MAX, value),
            Wanted::Masked { mask, value } => (mask, value),
            // 0 until the process id is filled in: for `kill` the own group, for `tgkill` no process.
            Wanted::OwnGroup | Wanted::OwnPid => (u64::MAX, 0),
        };
        let lower = self.half(offset, lower(mask), lower(value), pass, fail)?;
        match test.wanted {
            Wanted::OwnGroup => self.own_group.push(lower.compared.0),
            Wanted::OwnPid => self.own_pid.push(lower.compared.0),
            Wanted::Exactly(_) | Wanted::Masked { .. } => {}
        }
        match test.width {
            Width::Dword => Ok(lower.start),
            Width::Qword => Ok(self
                .half(offset + 4, upper(mask), upper(value), lower.start, fail)?
                .start),
        }
    }

    fn half(
        &mut self,
        offset: u32,
        mask: u32,
        value: u32,
        pass: Place,
        fail: Place,
    ) -> Result<Half, CompileError> {
        let compared = self.jump(Compare::Equal, value & mask, pass, fail)?;
        if mask != u32::MAX {
            self.push(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask, 0, 0);
        }
        Ok(Half {
            compared,
            start: self.load(offset),
        })
    }

    /// Returns the program in execution order; the code written last comes first.
    pub(crate) fn finish(mut self) -> Assembled {
        let forward = |slots: Vec<usize>| {
            slots
                .into_iter()
                .map(|slot| self.code.len() - 1 - slot)
                .collect()
        };
        let (own_group, own_pid) = (forward(self.own_group), forward(self.own_pid));
        self.code.reverse();
        Assembled {
            own_group,
            own_pid,
            program: self.code,
        }
    }

    fn push(&mut self, code: u32, k: u32, jt: u8, jf: u8) -> Place {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "operation codes are below 256"
        )]
        self.code.push(sock_filter {
            code: code as u16,
            jt,
            jf,
            k,
        });
        Place(self.code.len() - 1)
    }

    fn distance(&self, target: Place) -> Result<u8, CompileError> {
        u8::try_from(self.code.len() - 1 - target.0).map_err(|_| CompileError::JumpTooFar)
    }
}

/// The code that tests one half of an argument.
struct Half {
    compared: Place,
    start: Place,
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the upper half is tested by itself"
)]
fn lower(value: u64) -> u32 {
    value as u32
}

fn upper(value: u64) -> u32 {
    lower(value >> 32)
}
