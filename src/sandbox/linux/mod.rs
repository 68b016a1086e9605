//! Linux: Landlock says which files a hook reaches, seccomp which kernel doors are open at all.

pub mod arguments;
mod assembler;
pub mod closing;
pub mod explain;
pub mod filter;
mod landlock;
mod launcher;
mod left_running;
mod log;
mod nesting;
pub mod rules;
pub mod setup;
mod spawner;
pub mod syscalls;
#[cfg(test)]
mod tests;

pub use self::filter::Passing;
use self::{
    filter::CompileError,
    setup::{Credentials, SetupNeeds},
};
pub use self::{
    landlock::{Grant, Landlock, NEWEST_ABI, RulesetProblem, right_named, ruleset},
    log::{can_log, log_flags},
    rules::FilterSpec,
    spawner::{Pool, SpawnersGone, Until},
};
pub(super) use self::{
    landlock::{by_deadline, memory, pids},
    launcher::{
        Launched, Launcher, Observed, launch, limits, note, start, step_failed, unseen, why_stopped,
    },
    left_running::{Found, groups_of, kill_left, processes},
    nesting::of_filters,
};
use super::{
    Backend, BackendName, Noop, Runner, Started, Task,
    container::{Container, Runtime},
};
pub(super) use super::{
    denials::Known,
    identity::{Identities, Lease},
};
pub use crate::policy::rights::Rights;
use crate::{refusal::Stop, sys};

/// A device that every system has and no shipped profile grants.
pub(super) const UNGRANTED_DEVICE: &str = "/dev/full";

/// Whether a hook that has the network can make Unix sockets too.
pub(super) const OUTBOUND_HAS_UNIX_SOCKETS: bool = false;

/// Directories that shipped profiles grant and this system does not have.
pub(super) const LACKING: &[&str] = &[];

/// Starts a child that nothing confines.
///
/// # Errors
///
/// Refuses where it cannot be started.
pub(super) async fn start_unconfined(runner: &Runner, task: Task<'_>) -> Result<Started, Stop> {
    start(runner, BackendName::NOOP, None, task).await
}

/// Returns a backend, if Linux has it. `own_uid` says whether each hook gets a uid of its own; what makes containers is there
/// where the configuration names it.
pub fn backend(
    name: BackendName,
    runtime: Option<Runtime>,
    own_uid: bool,
) -> Option<Box<dyn Backend>> {
    match name {
        BackendName::CONTAINER => Some(Box::new(Container::new(runtime?, own_uid))),
        BackendName::LANDLOCK => Some(Box::new(Landlock::new(own_uid))),
        BackendName::NOOP => Some(Box::new(Noop)),
        _ => None,
    }
}

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
