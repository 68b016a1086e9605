//! seccomp: the syscalls that are open to a hook, regardless of its other confinement.

pub mod arguments;
mod assembler;
pub mod closing;
pub mod filter;
pub(crate) mod pools;
pub mod rules;
pub mod setup;
mod spawner;
pub mod syscalls;
#[cfg(test)]
mod tests;

use hookjail_policy::HookView;

pub use self::rules::FilterSpec;
use self::{
    filter::CompileError,
    setup::{Credentials, SetupNeeds},
};
pub use self::{
    filter::Passing,
    spawner::{Pool, Until},
};
use hookjail_sys as sys;

/// The filters of one kind of hook.
#[derive(Clone, Debug)]
pub struct Filters {
    /// The filter that the child loads last.
    pub closing: sys::Closing,
    /// The filters that the spawner loads and its children inherit.
    pub inherited: Stacked,
    /// The rules by which the listener allows calls in the allowlist's place. For observed hooks only.
    pub passing: Option<Passing>,
}

/// Changes that the set-up of every hook of this daemon makes.
#[derive(Clone, Copy, Debug)]
pub struct Starts {
    /// Whether the child begins in a cgroup of its own.
    pub in_cgroup: bool,
    /// Whether it changes its uid.
    pub switch_uid: bool,
}

/// Calls that are reported to a listener.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Asking {
    /// None: there is no listener.
    Nothing,
    /// The allowlist's refusals, and the observed calls.
    Observed,
    /// The allowlist's refusals.
    Refused,
}

/// Filters that are loaded one after the other.
#[derive(Clone, Debug, Default)]
pub struct Stacked {
    /// Index of the filter that reports its refusals to a listener, if one does.
    pub asking: Option<usize>,
    /// First to last.
    pub programs: Vec<Vec<libc::sock_filter>>,
}

/// Compiles the filters of one kind of hook. `starts` lists the changes of its set-up, `asking` which of its calls are
/// reported.
///
/// # Errors
///
/// Returns the compiler's error.
pub fn compile(spec: &FilterSpec, starts: Starts, asking: Asking) -> Result<Filters, CompileError> {
    let credentials = if starts.switch_uid {
        Credentials::Drop
    } else {
        Credentials::Keep
    };
    let needs = SetupNeeds {
        cgroup: starts.in_cgroup,
        clone_flags: sys::CLONE_FLAGS,
        credentials,
        mounts: spec.mounts,
        tree: spec.mounts && spec.view == HookView::Own,
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
