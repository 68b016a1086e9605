//! Confinement: asks backends what they enforce here, has it proved, and starts hooks under it.
//!
//! Only `Sandbox::start` makes a [`StartedHook`], from a child that executed the hook after its report covered the task.
//! Nothing in a request can turn a report that is short into a run.
//!
//! How hooks are started, and by what confined, differs from system to system: `linux` and, for all others, `portable` have
//! it under the same names. Both are `host` to the rest.

#[cfg(target_os = "linux")]
mod attest;
#[cfg(target_os = "linux")]
mod audit_log;
mod backend;
mod confine;
mod confirm;
#[cfg(target_os = "linux")]
pub mod container;
#[cfg(target_os = "linux")]
mod denials;
mod grants;
mod ground;
#[cfg(target_os = "linux")]
mod identity;
#[cfg(target_os = "linux")]
pub mod linux;
mod litter;
mod means;
mod nesting;
mod noop;
#[cfg(target_os = "linux")]
mod observe;
mod order;
#[cfg(target_os = "linux")]
mod pools;
#[cfg(not(target_os = "linux"))]
pub mod portable;
mod read_only;
mod runner;
mod scratch;
pub mod seatbelt;
mod task;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

#[cfg(target_os = "linux")]
use self::linux as host;
#[cfg(not(target_os = "linux"))]
use self::portable as host;
#[cfg(not(target_os = "linux"))]
pub use self::portable::{Identities, Known, Runtime, RuntimeKind, backend};
#[cfg(target_os = "linux")]
pub use self::{
    attest::Status,
    container::{Container, Runtime, RuntimeKind},
    denials::{Blocked, Denied, Known},
    identity::Identities,
    linux::backend,
    observe::{Observer, Seen},
};
pub use self::{
    backend::{Absent, Backend, BackendName, Claims, Host, Prepared, Starting, Unenforceable},
    confine::{
        End, EndedHook, Evidence, Released, Sandbox, SandboxParts, Setup, Started, StartedHook,
    },
    confirm::{AxisProof, Confirmation, Leg, PassedOver, Selected, Standing, Unconfirmed},
    grants::{Asked, KnownPlaces, Opened},
    noop::Noop,
    order::Order,
    runner::Runner,
    scratch::InstanceDir,
    task::{HookTask, Task},
};

/// The range used where the configuration names none. Distributions give out 0 to 65535 to people and services, systemd
/// 524288 to 1879048191 to containers and 2147352576 upwards to foreign images; between the last two nothing is assigned.
pub const DEFAULT_UID_RANGE: RangeInclusive<u32> = 1_879_100_000..=1_879_104_095;
