//! Resources that a run takes from the host and gives back: a uid, directories, caches, files that last, a cgroup.

pub(crate) mod cache;
pub(crate) mod cgroup;
#[cfg(target_os = "linux")]
pub(crate) mod identity;
#[cfg(target_os = "linux")]
pub(crate) mod left_running;
pub(crate) mod litter;
pub(crate) mod scratch;
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "files that last are shown on Linux alone")
)]
pub(crate) mod state;
