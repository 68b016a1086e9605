//! Passing of descriptors over a socket, and identity of a socket's peer.

use std::{
    io::{self, IoSlice, IoSliceMut},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
};

use nix::{
    cmsg_space,
    errno::Errno,
    sys::socket::{
        ControlMessage, ControlMessageOwned, MsgFlags, getsockopt, recvmsg, sendmsg,
        sockopt::PeerCredentials,
    },
};

use super::raw;

/// Payload sent with the descriptors: the kernel passes none without a byte.
const BYTE: [u8; 1] = [0];

/// Sends three descriptors.
///
/// # Errors
///
/// Returns the error of `sendmsg`; `WouldBlock` on a socket that does not wait and is full.
pub fn send_fds(socket: BorrowedFd<'_>, fds: &[OwnedFd; 3]) -> io::Result<()> {
    let numbers = fds.each_ref().map(AsRawFd::as_raw_fd);
    let message = [ControlMessage::ScmRights(&numbers)];
    sendmsg::<()>(
        socket.as_raw_fd(),
        &[IoSlice::new(&BYTE)],
        &message,
        MsgFlags::MSG_NOSIGNAL,
        None,
    )?;
    Ok(())
}

/// Receives the descriptors of [`send_fds`].
///
/// # Errors
///
/// Returns the error of `recvmsg`, or `InvalidData` where anything else came.
pub fn receive_fds(socket: &UnixStream) -> io::Result<[OwnedFd; 3]> {
    let mut byte = BYTE;
    let mut space = cmsg_space!([RawFd; 3]);
    let mut buffers = [IoSliceMut::new(&mut byte)];
    let message = recvmsg::<()>(
        socket.as_raw_fd(),
        &mut buffers,
        Some(&mut space),
        MsgFlags::MSG_CMSG_CLOEXEC,
    )?;
    let mut received = Vec::new();
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(fds) = part {
            // SAFETY: the kernel has just made these descriptors in this process, with no other owner.
            received.extend(
                fds.into_iter()
                    .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }),
            );
        }
    }
    received
        .try_into()
        .map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Returns a socket's peer, as this process sees it. The peer is a process id, a uid, and a descriptor of that process.
///
/// # Errors
///
/// Returns the error of the kernel; `ESRCH` where the process is gone.
pub fn peer(socket: impl AsFd) -> io::Result<(i32, u32, OwnedFd)> {
    let peer = getsockopt(&socket, PeerCredentials)?;
    Ok((peer.pid(), peer.uid(), process(peer.pid())?))
}

/// Returns a descriptor of the process that has an id now.
///
/// # Errors
///
/// Returns the error of the kernel; `ESRCH` where there is none.
pub fn process(pid: i32) -> io::Result<OwnedFd> {
    let arguments = [pid as usize, 0, 0, 0, 0, 0];
    // SAFETY: pidfd_open takes two integers.
    let fd = unsafe { raw::syscall(libc::SYS_pidfd_open, arguments) };
    if fd < 0 {
        return Err(Errno::from_raw(fd.unsigned_abs() as i32).into());
    }
    // SAFETY: the call above has just made it, with no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Returns a descriptor of the file that a process has open under a number.
///
/// # Errors
///
/// Returns the error of the kernel: `EPERM` where this process may not trace that one, `EBADF` where the number is free.
pub fn file_of(process: BorrowedFd<'_>, number: i32) -> io::Result<OwnedFd> {
    let arguments = [process.as_raw_fd() as usize, number as usize, 0, 0, 0, 0];
    // SAFETY: pidfd_getfd takes three integers.
    let fd = unsafe { raw::syscall(libc::SYS_pidfd_getfd, arguments) };
    if fd < 0 {
        return Err(Errno::from_raw(fd.unsigned_abs() as i32).into());
    }
    // SAFETY: the call above has just made it, with no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Kills a process.
///
/// # Errors
///
/// Returns the error of the kernel; `ESRCH` where the process is gone.
pub fn kill(pidfd: impl AsFd) -> io::Result<()> {
    let arguments = [
        pidfd.as_fd().as_raw_fd() as usize,
        libc::SIGKILL as usize,
        0,
        0,
        0,
        0,
    ];
    // SAFETY: a null siginfo, on a descriptor that is open.
    let killed = unsafe { raw::syscall(libc::SYS_pidfd_send_signal, arguments) };
    if killed < 0 {
        return Err(Errno::from_raw(killed.unsigned_abs() as i32).into());
    }
    Ok(())
}

/// Ends this process at once, without regard to its other threads.
pub fn exit(code: u8) -> ! {
    raw::exit(usize::from(code))
}
