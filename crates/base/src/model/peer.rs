//! The caller of a request.

use std::{fmt, net::SocketAddr, sync::Arc};

use nix::unistd::{getegid, geteuid};

/// A caller's credentials: from the kernel, or of the user that the configuration gives to a certificate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Peer {
    /// Group id.
    pub gid: u32,
    /// Supplementary groups, where the system reports them.
    pub groups: Arc<[u32]>,
    /// Process id at connection time, if the kernel reports it. Used for refusals and records, never for permission:
    /// the id may have been reused.
    pub pid: Option<i32>,
    /// Where it connected from; `None` for a process of this host, on a Unix socket.
    pub remote: Option<Arc<Remote>>,
    /// User id.
    pub uid: u32,
}

impl Peer {
    /// Returns this process.
    pub fn oneself() -> Self {
        Self {
            gid: getegid().as_raw(),
            groups: Arc::default(),
            pid: None,
            remote: None,
            uid: geteuid().as_raw(),
        }
    }
}

/// The other end of a connection over the network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Remote {
    /// Its address.
    pub address: SocketAddr,
    /// The certificate that it proved to have; `None` without TLS.
    pub certificate: Option<Certificate>,
}

/// A client's certificate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Certificate {
    /// The name in it that the configuration lists.
    pub name: String,
    /// SHA-256 of its DER form, in hexadecimal.
    pub sha256: String,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "uid={} gid={}", self.uid, self.gid)?;
        if let Some(pid) = self.pid {
            write!(f, " pid={pid}")?;
        }
        let Some(remote) = &self.remote else {
            return Ok(());
        };
        write!(f, " address={}", remote.address)?;
        match &remote.certificate {
            Some(certificate) => write!(f, " certificate={}", certificate.name),
            None => Ok(()),
        }
    }
}
