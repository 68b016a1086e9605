//! Linux: Landlock says which files a hook reaches, seccomp which kernel doors are open at all.

pub mod arguments;
mod assembler;
pub mod closing;
pub mod filter;
mod landlock;
pub mod rules;
pub mod setup;
mod spawner;
pub mod syscalls;
#[cfg(test)]
mod tests;

use self::{
    filter::CompileError,
    setup::{Credentials, SetupNeeds},
};
pub use self::{
    landlock::{Grant, Landlock, Rights, RulesetProblem, ruleset},
    rules::FilterSpec,
    spawner::{Pool, SpawnersGone},
};
use crate::sys;

/// The filters of one kind of hook.
#[derive(Clone, Debug)]
pub struct Filters {
    /// What the child loads last.
    pub closing: sys::Closing,
    /// What the spawner loads, first to last, and its children inherit.
    pub inherited: Vec<Vec<libc::sock_filter>>,
}

/// Compiles the filters of one kind of hook. `switches_uid` says whether its set-up changes the uid.
///
/// # Errors
///
/// Returns the compiler's error.
pub fn compile(spec: &FilterSpec, switches_uid: bool) -> Result<Filters, CompileError> {
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
    Ok(Filters {
        closing,
        inherited: filter::inherited(spec, &needs)?,
    })
}
