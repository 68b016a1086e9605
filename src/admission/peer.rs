//! Who asks.

use std::fmt;

/// A caller, as the kernel names it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Peer {
    /// Group id.
    pub gid: u32,
    /// Process id when it connected, where the kernel tells. Good for refusing and for the record, never for trust: it
    /// may have been recycled.
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
