//! The filters that a spawner thread loads once and its children inherit.
//!
//! They leave open what the set-up of a child needs; the [closing filter](super::closing) shuts that.

use std::collections::BTreeMap;

use libc::sock_filter;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};

use crate::{
    mutants,
    seccomp::{
        arguments::{ArgTest, Wanted, Width},
        assembler::{Assembler, Compare},
        rules::{FilterSpec, Rule, rule},
        setup::SetupNeeds,
        syscalls::{self, nr},
    },
};

/// Compiling a filter failed.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// A jump of the hand-assembled programs does not fit its field.
    #[error("a seccomp program has grown beyond the reach of a jump")]
    JumpTooFar,
    /// The filter compiler refused a list.
    #[error("cannot compile the list of syscalls that a seccomp filter {action}")]
    List {
        /// Kind of the list.
        action: &'static str,
        /// Cause of the refusal.
        #[source]
        source: BackendError,
    },
}

/// Returns the filters for a spawner thread, in loading order.
///
/// The kernel runs all of them on every call. The stricter answer wins, and of two answers that both carry an errno the
/// one of the filter loaded last. Hence the order: the list of killing calls, then the allowlist, which denies all
/// others with EPERM, then the lists that soften this to another errno, and last the guard.
///
/// # Errors
///
/// The compiler refuses a program the kernel would refuse.
pub fn inherited(
    spec: &FilterSpec,
    needs: &SetupNeeds,
) -> Result<Vec<Vec<sock_filter>>, CompileError> {
    without(spec, needs, &[])
}

/// Returns the same filters with these calls removed from the allowlist.
///
/// # Errors
///
/// As [`inherited`].
fn without(
    spec: &FilterSpec,
    needs: &SetupNeeds,
    left_out: &[u32],
) -> Result<Vec<Vec<sock_filter>>, CompileError> {
    let mut allowed = BTreeMap::new();
    let mut killed = BTreeMap::new();
    let mut answered: BTreeMap<i32, BTreeMap<i64, Vec<SeccompRule>>> = BTreeMap::new();
    let mut answers = Vec::new();
    for nr in syscalls::numbers() {
        let key = i64::from(nr);
        let rule = widened(spec, needs, nr);
        if left_out.contains(&nr) && is_listed(&rule) {
            continue;
        }
        match rule {
            Rule::Allow => {
                allowed.insert(key, Vec::new());
            }
            Rule::AllowWhen { ways, otherwise } => {
                if otherwise != libc::EPERM {
                    answers.push((nr, ways.clone(), otherwise));
                }
                allowed.insert(
                    key,
                    compile_ways(&ways).map_err(|source| CompileError::List {
                        action: "allows",
                        source,
                    })?,
                );
            }
            Rule::Errno(libc::EPERM) => {}
            Rule::Errno(errno) => {
                answered.entry(errno).or_default().insert(key, Vec::new());
            }
            Rule::Kill => {
                killed.insert(key, Vec::new());
            }
        }
    }
    let mut programs = vec![
        list(
            "kills",
            killed,
            SeccompAction::Allow,
            SeccompAction::KillProcess,
        )?,
        list(
            "allows",
            allowed,
            SeccompAction::Errno(libc::EPERM.cast_unsigned()),
            SeccompAction::Allow,
        )?,
    ];
    for (errno, calls) in answered {
        programs.push(list(
            "answers",
            calls,
            SeccompAction::Allow,
            SeccompAction::Errno(errno.cast_unsigned()),
        )?);
    }
    programs.push(guard(&answers)?);
    Ok(programs)
}

/// The observed calls: they reach files by path or look for them, create processes or sockets, or change metadata, which Landlock does not see.
pub const OBSERVED: [u32; 49] = [
    nr::access,
    nr::chdir,
    nr::chmod,
    nr::chown,
    nr::clone,
    nr::creat,
    nr::execve,
    nr::execveat,
    nr::faccessat,
    nr::faccessat2,
    nr::fchmod,
    nr::fchmodat,
    nr::fchmodat2,
    nr::fchown,
    nr::fchownat,
    nr::fork,
    nr::fremovexattr,
    nr::fsetxattr,
    nr::futimesat,
    nr::lchown,
    nr::link,
    nr::linkat,
    nr::lremovexattr,
    nr::lsetxattr,
    nr::lstat,
    nr::mkdir,
    nr::mkdirat,
    nr::newfstatat,
    nr::open,
    nr::openat,
    nr::removexattr,
    nr::rename,
    nr::renameat,
    nr::renameat2,
    nr::rmdir,
    nr::setxattr,
    nr::socket,
    nr::stat,
    nr::statx,
    nr::symlink,
    nr::symlinkat,
    nr::truncate,
    nr::unlink,
    nr::unlinkat,
    nr::utime,
    nr::utimensat,
    nr::utimes,
    nr::vfork,
    nr::setxattrat,
];

/// The allowlist's rules for the calls of [`OBSERVED`], for the listener that answers instead.
#[derive(Clone, Debug)]
pub struct Passing(BTreeMap<u32, Rule>);

impl Passing {
    /// Returns whether the allowlist would allow a call. False for any call that is not observed.
    #[must_use]
    pub fn lets(&self, nr: u32, arguments: &[u64; 6]) -> bool {
        let passes = |test: &ArgTest| {
            let argument = arguments.get(usize::from(test.index));
            argument.and_then(|argument| test.passes(*argument)) == Some(true)
        };
        match self.0.get(&nr) {
            Some(Rule::Allow) => true,
            Some(Rule::AllowWhen { ways, .. }) => ways.iter().any(|way| way.iter().all(passes)),
            Some(Rule::Errno(_) | Rule::Kill) | None => false,
        }
    }
}

/// Returns the [inherited] filters of observed hooks, and the rules for their listener.
///
/// The allowlist allows no call of [`OBSERVED`], so that the listener gets them all, and allows them by these rules.
///
/// # Errors
///
/// As [`inherited`].
pub fn observing(
    spec: &FilterSpec,
    needs: &SetupNeeds,
) -> Result<(Vec<Vec<sock_filter>>, Passing), CompileError> {
    let rules = OBSERVED.map(|nr| (nr, widened(spec, needs, nr)));
    let listed = rules.into_iter().filter(|(_, rule)| is_listed(rule));
    Ok((without(spec, needs, &OBSERVED)?, Passing(listed.collect())))
}

/// Returns whether the allowlist has an entry for a call.
const fn is_listed(rule: &Rule) -> bool {
    matches!(rule, Rule::Allow | Rule::AllowWhen { .. })
}

/// Index of the allowlist among the [inherited] filters.
pub const ALLOWLIST: usize = 1;

/// Turns the allowlist's denials into user notifications.
///
/// Other filters' denials and kills stay, because the stricter action wins.
pub fn ask_instead_of_refusing(allowlist: &mut [sock_filter]) {
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
    for step in allowlist {
        if u32::from(step.code) == libc::BPF_RET | libc::BPF_K && step.k == refuse {
            step.k = libc::SECCOMP_RET_USER_NOTIF;
        }
    }
}

/// Returns the inherited filters' rule: the hook's rights plus the set-up's needs.
fn widened(spec: &FilterSpec, needs: &SetupNeeds, nr: u32) -> Rule {
    let opened = needs.opened(spec, nr);
    let rule = rule(spec, nr);
    if opened.is_empty() {
        return rule;
    }
    if opened.iter().any(Vec::is_empty) {
        return Rule::Allow;
    }
    match rule {
        Rule::Allow => Rule::Allow,
        Rule::AllowWhen {
            mut ways,
            otherwise,
        } => {
            ways.extend(opened);
            Rule::AllowWhen { ways, otherwise }
        }
        Rule::Errno(_) | Rule::Kill => Rule::AllowWhen {
            ways: opened,
            otherwise: libc::EPERM,
        },
    }
}

fn compile_ways(ways: &[Vec<ArgTest>]) -> Result<Vec<SeccompRule>, BackendError> {
    ways.iter()
        .map(|way| SeccompRule::new(way.iter().map(condition).collect::<Result<_, _>>()?))
        .collect()
}

fn condition(test: &ArgTest) -> Result<SeccompCondition, BackendError> {
    let width = match test.width {
        Width::Dword => SeccompCmpArgLen::Dword,
        Width::Qword => SeccompCmpArgLen::Qword,
    };
    let (operator, value) = match test.wanted {
        Wanted::Exactly(value) => (SeccompCmpOp::Eq, value),
        Wanted::Masked { mask, value } => (SeccompCmpOp::MaskedEq(mask), value),
        // `SetupNeeds::opened` opens such a call whole, so none arrives here. Should one, 0 names no other process.
        Wanted::OwnGroup | Wanted::OwnPid => (SeccompCmpOp::Eq, 0),
    };
    SeccompCondition::new(test.index, width, operator, value)
}

fn list(
    action: &'static str,
    calls: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    listed: SeccompAction,
) -> Result<Vec<sock_filter>, CompileError> {
    let program = SeccompFilter::new(calls, otherwise, listed, syscalls::TARGET)
        .and_then(BpfProgram::try_from)
        .map_err(|source| CompileError::List { action, source })?;
    Ok(program
        .into_iter()
        .map(|step| sock_filter {
            code: step.code,
            jt: step.jt,
            jf: step.jf,
            k: step.k,
        })
        .collect())
}

/// Returns the program for rules that a list of numbers cannot express. These are other ABIs, numbers not yet assigned, and `answers`: calls that are
/// allowed in some ways, and whose refusal has an errno of its own.
fn guard(answers: &[(u32, Vec<Vec<ArgTest>>, i32)]) -> Result<Vec<sock_filter>, CompileError> {
    let mut program = Assembler::default();
    let allow = program.answer(libc::SECCOMP_RET_ALLOW);
    let mut blocks = Vec::new();
    for (nr, ways, errno) in answers {
        let refused = program.answer(libc::SECCOMP_RET_ERRNO | errno.cast_unsigned());
        let mut ways = ways.iter().rev();
        let block = ways.try_fold(refused, |next, way| program.all(way, allow, next))?;
        blocks.push((*nr, block));
    }
    // Behind what is long: a jump is short.
    let unknown = program.answer(libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned());
    let kill = program.answer(libc::SECCOMP_RET_KILL_PROCESS);
    let mut next = allow;
    for (nr, block) in blocks {
        next = program.jump(Compare::Equal, nr, block, next)?;
    }
    let answer = |check, answer| {
        if mutants::lacks("guard", check) {
            allow
        } else {
            answer
        }
    };
    let (unknown, x32, foreign) = (
        answer("unknown", unknown),
        answer("x32", kill),
        answer("arch", kill),
    );
    for hole in syscalls::holes() {
        let from_start = program.jump(Compare::Above, *hole.end(), next, unknown)?;
        next = program.jump(Compare::AtLeast, *hole.start(), from_start, next)?;
    }
    next = program.jump(Compare::Above, syscalls::newest(), unknown, next)?;
    if let Some(first) = syscalls::FOREIGN {
        program.jump(Compare::AtLeast, first, x32, next)?;
    }
    let number = program.load(0);
    program.jump(Compare::Equal, syscalls::AUDIT_ARCH, number, foreign)?;
    program.load(4);
    Ok(program.finish().program)
}
