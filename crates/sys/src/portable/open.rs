//! Opens paths directory by directory, each without following a link.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, FdFlag, OFlag, fcntl, open, openat},
    sys::stat::Mode,
    unistd,
};

use super::Links;

/// Flags for files only to be named: for reading, the minimum on all these systems. Files that cannot be read cannot be opened.
pub const BY_NAME: OFlag = OFlag::O_NONBLOCK.union(OFlag::O_NOCTTY);

const DIRECTORY: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_CLOEXEC);

/// Opens a path by name, with further `O_*` flags.
///
/// # Errors
///
/// Returns the kernel's error; `ELOOP` or `ENOTDIR` where it leads through a link that is not followed.
pub fn locate(path: &Path, flags: OFlag, links: Links) -> Result<OwnedFd, Errno> {
    let flags = flags | BY_NAME | OFlag::O_CLOEXEC;
    match links {
        Links::Followed | Links::FollowedByName => open(path, flags, Mode::empty()),
        Links::Refused => {
            let below = path.strip_prefix("/").map_err(|_| Errno::EINVAL)?;
            let root = open("/", DIRECTORY, Mode::empty())?;
            walk(root, below, flags, Mode::empty())
        }
    }
}

/// Opens a path below a directory, with `O_*` flags and a mode for new files. No link is ever followed, under any flags: which
/// of them would lead out is unknown here.
///
/// # Errors
///
/// Returns the kernel's error; `EXDEV` where the path leads out of the directory, `ELOOP` or `ENOTDIR` where it leads through
/// a link.
pub fn open_beneath(
    directory: impl AsFd,
    path: &Path,
    flags: OFlag,
    mode: Mode,
    _links: Links,
) -> Result<OwnedFd, Errno> {
    let start = openat(directory, ".", DIRECTORY, Mode::empty())?;
    walk(start, path, flags | OFlag::O_CLOEXEC, mode)
}

fn walk(mut directory: OwnedFd, path: &Path, flags: OFlag, mode: Mode) -> Result<OwnedFd, Errno> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => names.push(name),
            Component::ParentDir | Component::Prefix(_) | Component::RootDir => {
                return Err(Errno::EXDEV);
            }
        }
    }
    let Some((last, above)) = names.split_last() else {
        return openat(&directory, ".", flags, mode);
    };
    for name in above {
        directory = openat(
            &directory,
            *name,
            DIRECTORY | OFlag::O_NOFOLLOW,
            Mode::empty(),
        )?;
    }
    openat(&directory, *last, flags | OFlag::O_NOFOLLOW, mode)
}

/// Fails: only containers have a root of their own, and there are none here.
///
/// # Errors
///
/// Always.
pub fn open_in_root(_root: impl AsFd, _path: &Path, _flags: OFlag) -> Result<OwnedFd, Errno> {
    Err(Errno::ENOTSUP)
}

/// Makes a pipe that no program inherits: its read end and its write end. For a moment a program that is started meanwhile
/// would inherit it; every child closes foreign descriptors before it executes anything.
///
/// # Errors
///
/// Returns the error of `pipe` or `fcntl`.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = unistd::pipe()?;
    for end in [&read, &write] {
        fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    }
    Ok((read, write))
}

/// Returns the path of an opened file as the kernel names it: without links, and spelled as the file system keeps it.
///
/// # Errors
///
/// Returns the error of `fcntl`.
#[cfg(target_vendor = "apple")]
pub fn name_of(fd: impl AsFd) -> io::Result<PathBuf> {
    let mut path = PathBuf::new();
    fcntl(fd, FcntlArg::F_GETPATH(&mut path))?;
    Ok(path)
}

/// Fails: this system does not provide it.
///
/// # Errors
///
/// Always.
#[cfg(not(target_vendor = "apple"))]
pub fn name_of(_fd: impl AsFd) -> io::Result<PathBuf> {
    Err(io::ErrorKind::Unsupported.into())
}
