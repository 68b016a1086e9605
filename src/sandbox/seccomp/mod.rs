//! seccomp: which kernel doors are open to a hook, whatever else confines it.

pub mod arguments;
mod assembler;
pub mod closing;
pub mod filter;
pub(in crate::sandbox) mod pools;
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
    filter::Passing,
    rules::FilterSpec,
    spawner::{Pool, SpawnersGone, Until},
};
use crate::sys;

/// The filters of one kind of hook.
#[derive(Clone, Debug)]
pub struct Filters {
    /// What the child loads last.
    pub closing: sys::Closing,
    /// What the spawner loads and its children inherit.
    pub inherited: Stacked,
    /// What the listener lets through in the allowlist's place, where hooks are observed.
    pub passing: Option<Passing>,
}

/// What a listener is left.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Asking {
    /// Nothing: there is none.
    Nothing,
    /// What the allowlist refuses, and what a hook is observed by.
    Observed,
    /// What the allowlist refuses.
    Refused,
}

/// Filters that are loaded one after the other.
#[derive(Clone, Debug, Default)]
pub struct Stacked {
    /// Which of them leaves what it refuses to a listener, if one does.
    pub asking: Option<usize>,
    /// First to last.
    pub programs: Vec<Vec<libc::sock_filter>>,
}

/// Compiles the filters of one kind of hook. `switches_uid` says whether its set-up changes the uid, `asking` what of it is to be
/// known.
///
/// # Errors
///
/// Returns the compiler's error.
pub fn compile(
    spec: &FilterSpec,
    switches_uid: bool,
    asking: Asking,
) -> Result<Filters, CompileError> {
    let credentials = if switches_uid {
        Credentials::Drop
    } else {
        Credentials::Keep
    };
    let needs = SetupNeeds {
        clone_flags: sys::CLONE_FLAGS,
        credentials,
        mounts: spec.mounts,
    };
    let closing = closing::closing(spec, &needs)?;
    let (mut programs, passing) = match asking {
        Asking::Nothing | Asking::Refused => (filter::inherited(spec, &needs)?, None),
        Asking::Observed => {
            let (programs, passing) = filter::observing(spec, &needs)?;
            (programs, Some(passing))
        }
    };
    let asks = asking != Asking::Nothing;
    if asks && let Some(allowlist) = programs.get_mut(filter::ALLOWLIST) {
        filter::ask_instead_of_refusing(allowlist);
    }
    Ok(Filters {
        closing,
        inherited: Stacked {
            asking: asks.then_some(filter::ALLOWLIST),
            programs,
        },
        passing,
    })
}
