//! The caller of a request.

use std::fmt;

/// A caller's credentials from the kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Peer {
    /// Group id.
    pub gid: u32,
    /// Process id at connection time, if the kernel reports it. Used for refusals and records, never for permission:
    /// the id may have been reused.
    pub pid: Option<i32>,
    /// User id.
    pub uid: u32,
}

impl Peer {
    /// Returns whether the peer may read a file of this owner and mode. A file that only its groups may read does not
    /// count: its supplementary groups are not known, and a thread that takes its rights keeps the daemon's.
    pub(crate) const fn may_read(&self, owner: u32, mode: u32) -> bool {
        self.uid == 0 || owner == self.uid || mode & 0o004 != 0
    }
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
