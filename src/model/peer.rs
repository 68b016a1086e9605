//! The caller of a request.

use std::{fmt, sync::Arc};

/// A caller's credentials from the kernel.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Peer {
    /// Group id.
    pub gid: u32,
    /// Supplementary groups, where the system reports them.
    pub groups: Arc<[u32]>,
    /// Process id at connection time, if the kernel reports it. Used for refusals and records, never for permission:
    /// the id may have been reused.
    pub pid: Option<i32>,
    /// User id.
    pub uid: u32,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "uid={} gid={}", self.uid, self.gid)?;
        match self.pid {
            Some(pid) => write!(f, " pid={pid}"),
            None => Ok(()),
        }
    }
}
