//! Linux: Landlock says which files a hook reaches, seccomp which kernel doors are open at all.

pub mod arguments;
mod assembler;
pub mod closing;
pub mod explain;
pub mod filter;
mod landlock;
mod log;
pub mod rules;
pub mod setup;
mod spawner;
pub mod syscalls;
#[cfg(test)]
mod tests;

pub(super) use self::landlock::{by_deadline, memory, pids};
use self::{
    filter::CompileError,
    setup::{Credentials, SetupNeeds},
};
pub use self::{
    landlock::{Grant, Landlock, NEWEST_ABI, RulesetProblem, right_named, ruleset},
    log::{can_log, log_flags},
    rules::FilterSpec,
    spawner::{Pool, SpawnersGone},
};
pub use crate::policy::rights::Rights;
use crate::sys;

/// The filters of one kind of hook.
#[derive(Clone, Debug)]
pub struct Filters {
    /// What the child loads last.
    pub closing: sys::Closing,
    /// What the spawner loads and its children inherit.
    pub inherited: Stacked,
}

/// Filters that are loaded one after the other.
#[derive(Clone, Debug, Default)]
pub struct Stacked {
    /// Which of them leaves what it refuses to a listener, if one does.
    pub asking: Option<usize>,
    /// First to last.
    pub programs: Vec<Vec<libc::sock_filter>>,
}

/// Compiles the filters of one kind of hook. `switches_uid` says whether its set-up changes the uid, `asking` whether what is
/// refused is to be known.
///
/// # Errors
///
/// Returns the compiler's error.
pub fn compile(
    spec: &FilterSpec,
    switches_uid: bool,
    asking: bool,
) -> Result<Filters, CompileError> {
    let credentials = if switches_uid {
        Credentials::Drop
    } else {
        Credentials::Keep
    };
    let needs = SetupNeeds {
        clone_flags: sys::CLONE_FLAGS,
        credentials,
    };
    let closing = closing::closing(spec, &needs)?;
    let closing = sys::Closing {
        own_group_slots: closing.own_group_slots().to_vec(),
        own_pid_slots: closing.own_pid_slots().to_vec(),
        program: closing.program().to_vec(),
    };
    let mut programs = filter::inherited(spec, &needs)?;
    if asking && let Some(allowlist) = programs.get_mut(filter::ALLOWLIST) {
        filter::ask_instead_of_refusing(allowlist);
    }
    Ok(Filters {
        closing,
        inherited: Stacked {
            asking: asking.then_some(filter::ALLOWLIST),
            programs,
        },
    })
}
