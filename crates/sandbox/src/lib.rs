//! Confinement: probes backends, confirms them by self-tests, and starts hooks under them.
//!
//! Only `Sandbox::start` makes a [`StartedHook`], from a child that executed the hook after its report covered the
//! task. No request can turn an incomplete report into a run.
//!
//! The start of hooks and their confinement differ between systems: `linux` and, for all others, `portable` have the
//! same items. Other modules import both as `host`.

#![forbid(unsafe_code)]

mod backend;
mod by_profile;
#[cfg(target_os = "linux")]
pub mod container;
#[cfg(target_os = "linux")]
mod egress;
#[cfg(target_os = "linux")]
pub mod explain;
#[cfg(target_os = "linux")]
pub mod landlock;
#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
mod linux;
mod mutants;
mod nesting;
mod noop;
#[cfg(not(target_os = "linux"))]
pub mod portable;
pub mod process;
pub mod program;
mod resources;
pub mod rootfs;
mod run;
pub mod seatbelt;
#[cfg(target_os = "linux")]
pub mod seccomp;
mod selftest;
#[cfg(test)]
mod tests;
mod warm;

/// Parsers of what hooks send, for fuzzing.
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod testing {
    pub use crate::egress::testing::{name_answer, server_name};
}

use std::ops::RangeInclusive;

#[cfg(target_os = "linux")]
use self::linux as host;

#[cfg(not(target_os = "linux"))]
use self::portable as host;

#[cfg(not(target_os = "linux"))]
pub use self::portable::{Identities, Runtime, RuntimeKind, backend};
pub use self::{
    backend::{Absent, Backend, Host, Starting, Unenforceable},
    by_profile::{HookUsers, Order, OwnUids},
    noop::Noop,
    resources::{
        cache::{Cache, Caches, Fetching},
        cgroup::{CgroupPlace, Controllers},
        scratch::{InstanceDir, remove},
        state::{BriefState, StateEntry, StateOwner, StateStore},
    },
    run::{
        End, EndedHook, Evidence, Released, RunAs, SandboxParts, Setup, Started, StartedHook,
        connection::{Connection, ConnectionCounts, ConnectionEnd, Connections},
        grants::{GrantRequest, Opened},
        runner::Runner,
        task::HookTask,
    },
    selftest::{AxisProof, BackendStatus, Confirmation, ProbeResult, Selected, Skipped},
    warm::{NeverWaits, Waiter, WaitingLevels, Wanted},
};
pub use self::{
    backend::{BackendName, Claims, Prepared},
    run::{Confinement, Sandbox, task::Task},
};
#[cfg(target_os = "linux")]
pub use self::{
    container::{Runtime, RuntimeKind},
    linux::backend,
    resources::{cgroup::Cgroups, identity::Identities},
    run::{
        denials::Denied,
        observe::{Observer, Seen},
        proc_status::Status,
    },
};

/// The range used unless the configuration names one. Distributions give out 0 to 65535 to people and services, systemd 524288 to
/// 1879048191 to containers and 2147352576 upwards to foreign images; between the last two nothing is assigned.
pub const DEFAULT_UID_RANGE: RangeInclusive<u32> = 1_879_100_000..=1_879_104_095;
