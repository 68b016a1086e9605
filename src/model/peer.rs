//! The caller of a request.

use std::fmt;

/// A caller, as the kernel names it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Peer {
    /// Group id.
    pub gid: u32,
    /// Process id when it connected, where the kernel reports it. Good for refusing and for the record, never for trust: it may
    /// have been recycled.
    pub pid: Option<i32>,
    /// User id.
    pub uid: u32,
}

impl Peer {
    /// Returns whether the peer may read a file of this owner and mode. What only its groups may read counts as what it may not:
    /// its supplementary ones are not known, and a thread that takes its rights keeps the daemon's.
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
