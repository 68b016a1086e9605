//! Opens paths under restrictions on links.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2},
    sys::stat::Mode,
    unistd::pipe2,
};

use crate::Links;

/// Opens without any right but to name the file.
pub const BY_NAME: OFlag = OFlag::O_PATH;

/// Opens a path by name, with further `O_*` flags. Links of `/proc` to descriptors count as links.
///
/// # Errors
///
/// Returns the kernel's error; `ELOOP` where it leads through a link that is not followed.
pub fn locate(path: &Path, flags: OFlag, links: Links) -> Result<OwnedFd, Errno> {
    let resolve = match links {
        Links::Followed => ResolveFlag::empty(),
        Links::FollowedByName => ResolveFlag::RESOLVE_NO_MAGICLINKS,
        Links::Refused => ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS,
    };
    let how = OpenHow::new()
        .flags(flags | BY_NAME | OFlag::O_CLOEXEC)
        .resolve(resolve);
    openat2(AT_FDCWD, path, how)
}

/// Opens a path below a directory, with `O_*` flags and a mode for new files. Links that lead out of it are never followed.
///
/// # Errors
///
/// Returns the kernel's error; `EXDEV` where the path leads out of the directory, `ELOOP` where it leads through a link that
/// is not followed.
pub fn open_beneath(
    directory: impl AsFd,
    path: &Path,
    flags: OFlag,
    mode: Mode,
    links: Links,
) -> Result<OwnedFd, Errno> {
    let resolve = match links {
        Links::Followed | Links::FollowedByName => ResolveFlag::RESOLVE_NO_MAGICLINKS,
        Links::Refused => ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS,
    };
    let how = OpenHow::new()
        .flags(flags | OFlag::O_CLOEXEC)
        .mode(mode)
        .resolve(ResolveFlag::RESOLVE_BENEATH | resolve);
    openat2(directory, path, how)
}

/// Opens an absolute path with a directory as the root: links lead nowhere else. With further `O_*` flags.
///
/// # Errors
///
/// Returns the kernel's error.
pub fn open_in_root(root: impl AsFd, path: &Path, flags: OFlag) -> Result<OwnedFd, Errno> {
    let how = OpenHow::new()
        .flags(flags | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    openat2(root, path, how)
}

/// Makes a pipe that no program inherits: its read end and its write end.
///
/// # Errors
///
/// Returns the error of `pipe2`.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe2(OFlag::O_CLOEXEC)?)
}
