//! Directories that take names in a workspace while a run lasts, so that a hook cannot make anything there.
//!
//! An empty directory is what git and editors overlook. Runs share one by a lock on it, in whatever daemon they are: the last of
//! them removes it. A run that was killed leaves one behind, which the next run takes over.

use std::{
    fs::File,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use libc::mode_t;
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg, OFlag},
    sys::stat::{FileStat, Mode, fstat, mkdirat},
    unistd::{UnlinkatFlags, unlinkat},
};

use crate::sys::{BY_NAME, Links, open_beneath};

const DIRECTORY: OFlag = OFlag::O_DIRECTORY
    .union(OFlag::O_RDONLY)
    .union(OFlag::O_CLOEXEC);

/// Permissions by which a directory is known as one of these: no user's has them.
const MODE: mode_t = 0o1555;

/// Number of attempts to share one that another run is about to remove.
const ATTEMPTS: usize = 16;

/// A directory that takes a name, until the last run that shares it drops it.
#[derive(Debug)]
pub(in crate::sandbox) struct Placeholder {
    below: PathBuf,
    lock: Flock<File>,
    tree: Arc<OwnedFd>,
}

impl Placeholder {
    /// Returns whether a directory is one of these.
    pub(super) const fn is(mode: mode_t) -> bool {
        mode & 0o1222 == 0o1000
    }

    /// Takes a missing name below an opened directory, or shares what has taken it. `None` where there is something else now.
    ///
    /// # Errors
    ///
    /// Returns the error of making, opening or locking it.
    pub(super) fn take(tree: &Arc<OwnedFd>, below: &Path) -> Result<Option<Self>, Errno> {
        for _ in 0..ATTEMPTS {
            match in_parent(tree, below, |parent, name| {
                mkdirat(parent, name, Mode::from_bits_truncate(MODE))
            }) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(errno) => return Err(errno),
            }
            let opened = match open_beneath(tree, below, DIRECTORY, Mode::empty(), Links::Refused) {
                Ok(opened) => opened,
                Err(Errno::ENOENT) => continue,
                Err(Errno::ENOTDIR | Errno::ELOOP) => return Ok(None),
                Err(errno) => return Err(errno),
            };
            if !Self::is(fstat(&opened)?.st_mode) {
                return Ok(None);
            }
            // Another run has it alone for as long as it takes to remove it.
            let lock = Flock::lock(File::from(opened), FlockArg::LockShared);
            let taken = Self {
                below: below.to_owned(),
                lock: lock.map_err(|(_, errno)| errno)?,
                tree: Arc::clone(tree),
            };
            if taken.is_there()? {
                return Ok(Some(taken));
            }
        }
        Err(Errno::EAGAIN)
    }

    /// Returns whether the name still leads to it.
    fn is_there(&self) -> Result<bool, Errno> {
        let key = |status: FileStat| (status.st_dev, status.st_ino);
        match open_beneath(
            &self.tree,
            &self.below,
            BY_NAME,
            Mode::empty(),
            Links::Refused,
        ) {
            Ok(found) => Ok(key(fstat(&found)?) == key(fstat(&*self.lock)?)),
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => Ok(false),
            Err(errno) => Err(errno),
        }
    }
}

impl Drop for Placeholder {
    fn drop(&mut self) {
        // Where another run shares it, that one removes it.
        let is_last = self.lock.relock(FlockArg::LockExclusiveNonblock).is_ok();
        if is_last && self.is_there().unwrap_or(false) {
            remove(&self.tree, &self.below);
        }
    }
}

/// Does something with the last name of a path, in the opened directory that holds it.
fn in_parent(
    tree: &OwnedFd,
    below: &Path,
    act: impl FnOnce(&OwnedFd, &Path) -> nix::Result<()>,
) -> nix::Result<()> {
    let name = Path::new(below.file_name().ok_or(Errno::EINVAL)?);
    match below.parent().filter(|it| !it.as_os_str().is_empty()) {
        Some(parent) => {
            let parent = open_beneath(tree, parent, DIRECTORY, Mode::empty(), Links::Refused)?;
            act(&parent, name)
        }
        None => act(tree, name),
    }
}

/// Removes a directory of a workspace unless something lies in it: files of a hook, or what another run uses.
fn remove(tree: &OwnedFd, below: &Path) {
    let removed = in_parent(tree, below, |parent, name| {
        unlinkat(parent, name, UnlinkatFlags::RemoveDir)
    });
    match removed {
        Ok(()) | Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ENOTEMPTY) => {}
        Err(errno) => {
            tracing::warn!(%errno, name = %below.display(), "an empty directory is left behind in a workspace");
        }
    }
}

/// Permissions by which a directory is known as one that leads to others: writable, and as no user makes them.
const WAY: mode_t = 0o1755;

/// A directory that leads to names that are taken, and that hooks may fill. It is removed after the run if nothing lies in it.
#[derive(Debug)]
pub(in crate::sandbox) struct Way {
    below: PathBuf,
    tree: Arc<OwnedFd>,
}

impl Way {
    /// Returns whether a directory is one of these.
    pub(super) const fn is(mode: mode_t) -> bool {
        mode & 0o1222 == 0o1200
    }

    /// Makes a directory of a workspace, unless it exists.
    ///
    /// # Errors
    ///
    /// Returns the error of making it.
    pub(super) fn make(tree: &OwnedFd, name: &Path) -> Result<(), Errno> {
        match mkdirat(tree, name, Mode::from_bits_truncate(WAY)) {
            Err(Errno::EEXIST) => Ok(()),
            made => made,
        }
    }

    /// Shares one with other runs.
    pub(super) fn share(tree: &Arc<OwnedFd>, below: &Path) -> Self {
        Self {
            below: below.to_owned(),
            tree: Arc::clone(tree),
        }
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        remove(&self.tree, &self.below);
    }
}
