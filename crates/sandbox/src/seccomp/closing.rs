//! The filter that a child loads last, just before it executes the hook.
//!
//! This filter denies the calls that the inherited filters leave open for the set-up and that the hook must not have. The
//! filter is computed from that difference, because no test would show a forgotten call. Every run pays for each
//! instruction, so the filter repeats nothing of the inherited ones, not even the check of the architecture.

use hookjail_sys::Closing;

use crate::{
    mutants,
    seccomp::{
        arguments::ArgTest,
        assembler::{Assembler, Compare, Place},
        filter::CompileError,
        rules::{FilterSpec, Rule, rule},
        setup::{SetupNeeds, remaining},
        syscalls,
    },
};

/// Returns the closing filter: the set-up's needs minus those that `spec` allows the hook.
///
/// # Errors
///
/// The program has grown beyond the reach of a jump.
pub fn closing(spec: &FilterSpec, needs: &SetupNeeds) -> Result<Closing, CompileError> {
    let mut program = Assembler::default();
    let allow = program.answer(libc::SECCOMP_RET_ALLOW);
    let mut blocks = Vec::new();
    let mut denials = Denials::default();
    for nr in syscalls::numbers() {
        let opened = needs.opened(spec, nr);
        if opened.is_empty() || mutants::lacks("closing", syscalls::name(nr).unwrap_or_default()) {
            continue;
        }
        let block = match rule(spec, nr) {
            Rule::Allow => continue,
            Rule::AllowWhen { ways, otherwise } => {
                let deny = denials.place(
                    &mut program,
                    libc::SECCOMP_RET_ERRNO | otherwise.cast_unsigned(),
                );
                shut(&mut program, &opened, &ways, allow, deny)?
            }
            Rule::Errno(errno) => denials.place(
                &mut program,
                libc::SECCOMP_RET_ERRNO | errno.cast_unsigned(),
            ),
            Rule::Kill => denials.place(&mut program, libc::SECCOMP_RET_KILL_PROCESS),
        };
        blocks.push((nr, block));
    }
    // A comparison does not change the accumulator, so one load serves the whole chain.
    blocks
        .into_iter()
        .rev()
        .try_fold(allow, |next, (nr, block)| {
            program.jump(Compare::Equal, nr, block, next)
        })?;
    program.load(0);
    let assembled = program.finish();
    Ok(Closing {
        own_group_slots: assembled.own_group,
        own_pid_slots: assembled.own_pid,
        program: assembled.program,
    })
}

/// Writes the denial of calls in an `opened` way, but not the hook's `ways`.
fn shut(
    program: &mut Assembler,
    opened: &[Vec<ArgTest>],
    ways: &[Vec<ArgTest>],
    allow: Place,
    deny: Place,
) -> Result<Place, CompileError> {
    opened.iter().rev().try_fold(allow, |otherwise, need| {
        let overlapping: Vec<_> = ways.iter().filter_map(|way| remaining(way, need)).collect();
        let denied = overlapping
            .iter()
            .rev()
            .try_fold(deny, |next, way| program.all(way, allow, next))?;
        program.all(need, denied, otherwise)
    })
}

/// The program's denying returns, each written once.
#[derive(Debug, Default)]
struct Denials(Vec<(u32, Place)>);

impl Denials {
    fn place(&mut self, program: &mut Assembler, action: u32) -> Place {
        if let Some(&(_, place)) = self.0.iter().find(|&&(known, _)| known == action) {
            return place;
        }
        let place = program.answer(action);
        self.0.push((action, place));
        place
    }
}
