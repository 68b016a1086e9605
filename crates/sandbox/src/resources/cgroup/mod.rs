//! Cgroups of runs (version 2): limit the memory, tasks and processor time of a whole run, and end its whole tree.
//!
//! The daemon has a cgroup of its own below one that the operator or the service manager delegates to it. Each run gets one below
//! that, made ahead off the path. Limits do not depend on a backend. Source: the kernel's `admin-guide/cgroup-v2.rst`.

#[cfg(target_os = "linux")]
mod delegated;
#[cfg(target_os = "linux")]
mod events;
#[cfg(target_os = "linux")]
mod group;
#[cfg(target_os = "linux")]
mod pool;

use std::path::PathBuf;

use serde::Serialize;

#[cfg(target_os = "linux")]
pub(crate) use self::group::{Group, Grouped};
#[cfg(target_os = "linux")]
pub use self::pool::Cgroups;

/// Where the cgroups of runs are made: `hooks.cgroup`.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CgroupPlace {
    /// Below the daemon's own cgroup, if the service manager delegated it.
    #[default]
    Auto,
    /// Nowhere.
    None,
    /// Below this one.
    #[serde(untagged)]
    Below(PathBuf),
}

/// Controllers that limit runs, beside those of memory and tasks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Controllers {
    /// Whether processor time can be limited.
    pub cpu: bool,
}
