//! A hook's `connect`: its socket is taken as it is, and connected to the relay.

use std::{
    fs,
    io::{self, IoSliceMut},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6},
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, atomic::Ordering},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::uio::{RemoteIoVec, process_vm_readv},
    unistd::{Pid, geteuid},
};
use socket2::{Domain, Protocol, SockRef, Type};

use hookjail_sys::{self as sys, Listener, Notification};

use super::{Expected, Relay, RunEgress, Target, lock};
use crate::run::{connection::ConnectionEnd, proc_status::Status};

/// The longest address that is read, bytes: more than any of the internet's.
const LONGEST_ADDRESS: usize = 128;

/// How long a connection to the relay may take, milliseconds.
const SOON: u8 = 250;

/// Connects a hook's socket to the relay, for the address that it names.
///
/// # Errors
///
/// Returns the errno of its `connect`.
pub(super) fn connect(
    relay: &Relay,
    run: &Arc<RunEgress>,
    listener: &Listener,
    notification: &Notification,
) -> Result<(), Errno> {
    let (address, socket) = Call::examine(notification)?.copy()?;
    // The copies are the waiting task's: its number cannot name another while it waits.
    if !listener.still_waits(notification) {
        return Err(Errno::EINTR);
    }
    let kind = Socket::examine(&socket)?;
    let target = match run.target(address.ip(), address.port()) {
        Ok(target) => target,
        Err(destination) => {
            // No host has port 0: that is the connection by which a run proves its confinement.
            if destination.port > 0 {
                run.refuse(destination, ConnectionEnd::Unlisted);
            }
            return Err(Errno::EACCES);
        }
    };
    let relay_address = kind.relay(relay)?;
    let (local, is_new) = match kind.local {
        Some(local) => (local, false),
        None => (kind.bind(&socket)?, true),
    };
    let is_first = expect(relay, (local, is_new), run, &target)?;
    match (connect_soon(&socket, relay_address), is_first) {
        (Ok(()), _) => Ok(()),
        // A signal interrupted the call behind its effect, and it was made again.
        (Err(Errno::EISCONN), false) => Ok(()),
        (Err(Errno::EINPROGRESS), _) => Err(Errno::EINPROGRESS),
        (Err(errno), false) => Err(errno),
        (Err(errno), true) => {
            if let Some(gone) = lock(&relay.expected).remove(&local) {
                gone.run.ended(&gone.target);
            }
            Err(errno)
        }
    }
}

/// Connects a socket, and does not wait for long: other processes of the machine could have filled the relay's queue.
fn connect_soon(socket: &OwnedFd, address: SocketAddr) -> Result<(), Errno> {
    let socket = SockRef::from(socket);
    let attempt = || {
        let waits = !socket.nonblocking()?;
        if waits {
            socket.set_nonblocking(true)?;
        }
        let connected = match socket.connect(&address.into()) {
            Err(error) if waits && error.raw_os_error() == Some(libc::EINPROGRESS) => {
                finish(&socket)
            }
            connected => connected,
        };
        if waits {
            socket.set_nonblocking(false)?;
        }
        connected
    };
    attempt().map_err(|error: io::Error| errno_of(&error))
}

/// Waits until a connection is made.
fn finish(socket: &SockRef<'_>) -> io::Result<()> {
    let mut ready = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
    match poll(&mut ready, PollTimeout::from(SOON))? {
        0 => Err(io::Error::from_raw_os_error(libc::ETIMEDOUT)),
        _ => socket.take_error()?.map_or(Ok(()), Err),
    }
}

/// Notes what the connection from an address is for. Returns whether that was not noted before.
///
/// A connection that is not over keeps its address. A socket whose address is new has one that no other socket of the machine
/// has, so that a connection that was accepted from there is over.
fn expect(
    relay: &Relay,
    (local, is_new): (SocketAddr, bool),
    run: &Arc<RunEgress>,
    target: &Target,
) -> Result<bool, Errno> {
    let mut expected = lock(&relay.expected);
    if expected.values().filter(|it| !it.is_accepted).count() >= relay.most_waiting {
        return Err(Errno::EAGAIN);
    }
    match expected.get(&local) {
        Some(known) if is_new && known.is_accepted => {}
        Some(known) if is_same(known, run, target) => return Ok(false),
        Some(_) => return Err(Errno::EISCONN),
        None => {}
    }
    match target {
        Target::Names if !run.asks() => return Err(Errno::EAGAIN),
        Target::Host(granted) if !run.counts() => {
            let why = format!(
                "is beyond the {} connections of a run (`limits.egress_connections`)",
                run.rules.connections
            );
            run.refuse(granted.destination.clone(), ConnectionEnd::Denied(why));
            return Err(Errno::EACCES);
        }
        Target::Host(_) | Target::Names => {}
    }
    let entry = Expected {
        id: relay.next.fetch_add(1, Ordering::Relaxed),
        is_accepted: false,
        run: Arc::clone(run),
        target: target.clone(),
    };
    expected.insert(local, entry);
    Ok(true)
}

fn is_same(known: &Expected, run: &Arc<RunEgress>, target: &Target) -> bool {
    let is_same_target = match (&known.target, target) {
        (Target::Names, Target::Names) => true,
        (Target::Host(known), Target::Host(other)) => known.destination == other.destination,
        (Target::Host(_), Target::Names) | (Target::Names, Target::Host(_)) => false,
    };
    is_same_target && Arc::ptr_eq(&known.run, run)
}

/// A hook's call, as far as it decides the connection.
#[derive(Clone, Copy, Debug)]
struct Call {
    length: usize,
    /// The number of the socket.
    number: i32,
    place: usize,
    process: i32,
    task: i32,
}

impl Call {
    /// Returns a call whose task still waits, or is gone.
    fn examine(notification: &Notification) -> Result<Self, Errno> {
        let [number, place, length, ..] = notification.arguments;
        let length = usize::try_from(length & 0xffff_ffff).unwrap_or(usize::MAX);
        if !(2..=LONGEST_ADDRESS).contains(&length) {
            return Err(Errno::EINVAL);
        }
        let status = fs::read_to_string(format!("/proc/{}/status", notification.task));
        let status = status.map_err(|_| Errno::EACCES)?;
        let process = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
        let process = process.and_then(|it| it.trim().parse().ok());
        Ok(Self {
            length,
            number: i32::try_from(number & 0xffff_ffff).map_err(|_| Errno::EBADF)?,
            place: usize::try_from(place).map_err(|_| Errno::EFAULT)?,
            process: process.ok_or(Errno::EACCES)?,
            task: notification.task,
        })
    }

    /// Copies the address and the descriptor that it names.
    fn copy(self) -> Result<(SocketAddr, OwnedFd), Errno> {
        let copied = match self.try_copy() {
            // A daemon of root that may not trace others reads as the hook's user.
            Err(Errno::EPERM) if geteuid().is_root() => {
                let copied = Status::read_process(self.task).and_then(|status| {
                    let ([uid, ..], [gid, ..]) = (status.uids, status.gids);
                    sys::act_as(uid, gid, || self.try_copy())
                });
                copied.unwrap_or_else(|error| Err(errno_of(&error)))
            }
            copied => copied,
        };
        let (bytes, socket) = copied.map_err(|errno| {
            if [Errno::EBADF, Errno::EFAULT].contains(&errno) {
                return errno;
            }
            tracing::warn!(%errno, "a hook's connection is refused: its call cannot be examined");
            Errno::EACCES
        })?;
        Ok((parse(&bytes)?, socket))
    }

    fn try_copy(self) -> Result<(Vec<u8>, OwnedFd), Errno> {
        let mut bytes = vec![0; self.length];
        let remote = RemoteIoVec {
            base: self.place,
            len: self.length,
        };
        let task = Pid::from_raw(self.task);
        let read = process_vm_readv(task, &mut [IoSliceMut::new(&mut bytes)], &[remote])?;
        if read != self.length {
            return Err(Errno::EFAULT);
        }
        let process = sys::process(self.process);
        let socket = process.and_then(|process| sys::file_of(process.as_fd(), self.number));
        Ok((bytes, socket.map_err(|error| errno_of(&error))?))
    }
}

/// Returns an address of the internet. Refuses other families.
fn parse(bytes: &[u8]) -> Result<SocketAddr, Errno> {
    let [low, high, rest @ ..] = bytes else {
        return Err(Errno::EINVAL);
    };
    let port = |rest: &[u8]| Some(u16::from_be_bytes(rest.get(..2)?.try_into().ok()?));
    let port = || port(rest).ok_or(Errno::EINVAL);
    match i32::from(u16::from_ne_bytes([*low, *high])) {
        libc::AF_INET => {
            let octets: [u8; 4] = rest
                .get(2..6)
                .and_then(|it| it.try_into().ok())
                .ok_or(Errno::EINVAL)?;
            Ok(SocketAddr::new(Ipv4Addr::from(octets).into(), port()?))
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] = rest
                .get(6..22)
                .and_then(|it| it.try_into().ok())
                .ok_or(Errno::EINVAL)?;
            Ok(SocketAddr::new(Ipv6Addr::from(octets).into(), port()?))
        }
        _ => Err(Errno::EPERM),
    }
}

/// The properties of a socket by which it reaches the relay.
#[derive(Debug)]
struct Socket {
    is_v6: bool,
    /// Whether it takes no IPv4 addresses.
    is_v6_only: bool,
    /// Its address, where it has a port.
    local: Option<SocketAddr>,
}

impl Socket {
    /// Examines a socket of TCP.
    fn examine(socket: &OwnedFd) -> Result<Self, Errno> {
        let socket = SockRef::from(socket);
        let domain = socket.domain().map_err(|_| Errno::ENOTSOCK)?;
        let is_v6 = domain == Domain::IPV6;
        let is_tcp = || {
            Ok::<_, io::Error>(
                (socket.r#type()?, socket.protocol()?) == (Type::STREAM, Some(Protocol::TCP)),
            )
        };
        if !is_v6 && domain != Domain::IPV4 || !is_tcp().map_err(|error| errno_of(&error))? {
            return Err(Errno::EPERM);
        }
        let examine = || {
            let local = socket.local_addr()?.as_socket();
            Ok(Self {
                is_v6,
                is_v6_only: is_v6 && socket.only_v6()?,
                local: local.filter(|local| local.port() != 0).map(canonical),
            })
        };
        examine().map_err(|error: io::Error| errno_of(&error))
    }

    /// Returns the address of the relay, as the socket can name it.
    fn relay(&self, relay: &Relay) -> Result<SocketAddr, Errno> {
        match (self.is_v6, self.is_v6_only) {
            (false, _) => Ok(relay.v4),
            (true, true) => relay.v6.ok_or(Errno::ENETUNREACH),
            (true, false) => Ok(mapped(relay.v4)),
        }
    }

    /// Binds the socket to a port of loopback, by which the relay recognises it. Returns its address.
    fn bind(&self, socket: &OwnedFd) -> Result<SocketAddr, Errno> {
        let any_port = match (self.is_v6, self.is_v6_only) {
            (false, _) => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            (true, true) => SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
            (true, false) => mapped(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        };
        let bound = SockRef::from(socket).bind(&any_port.into());
        bound.map_err(|error| errno_of(&error))?;
        Self::examine(socket)?.local.ok_or(Errno::EADDRNOTAVAIL)
    }
}

fn errno_of(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

/// Returns an address as the relay sees it.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Returns an IPv4 address as sockets of IPv6 name it.
fn mapped(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) => SocketAddrV6::new(ip.to_ipv6_mapped(), address.port(), 0, 0).into(),
        IpAddr::V6(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_internet_are_read_and_no_others() {
        let v4 = [2, 0, 0x01, 0xbb, 198, 18, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(parse(&v4), Ok("198.18.0.1:443".parse().unwrap()));
        assert_eq!(parse(&v4[..8]), Ok("198.18.0.1:443".parse().unwrap()));
        let mut v6 = [0; 28];
        (v6[0], v6[3], v6[23]) = (10, 80, 1);
        assert_eq!(parse(&v6), Ok("[::1]:80".parse().unwrap()));
        for (bytes, errno) in [
            (&v4[..7], Errno::EINVAL),
            (&v6[..23], Errno::EINVAL),
            (&[1, 0, b'/', b'a'], Errno::EPERM),
            (&[0, 0, 0, 0], Errno::EPERM),
            (&[16, 0, 0, 0], Errno::EPERM),
        ] {
            assert_eq!(parse(bytes), Err(errno), "{bytes:?}");
        }
    }
}
