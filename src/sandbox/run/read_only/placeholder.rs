//! Directories that take names in a workspace while runs last, so that no hook can make anything there.
//!
//! An empty directory is what git and editors overlook. Runs in a workspace share them, in whatever daemon they are, by a lock on
//! one more directory; the last run removes all. What a killed daemon leaves is taken over by the next run.

use std::{
    collections::BTreeSet,
    fs::File,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use libc::mode_t;
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg, OFlag, openat},
    sys::stat::{FileStat, Mode, fchmod, fstat, mkdirat},
    unistd::{UnlinkatFlags, unlinkat},
};

use crate::sys::{BY_NAME, Links, open_beneath};

/// The directory whose lock runs share.
pub(super) const SHARED: &str = ".hookjail-run";

/// Permissions by which a directory is known as one that takes a name: no user's has them.
const TAKEN: mode_t = 0o1555;

/// Permission by which a directory is known as one that leads to others, beside those of the directory that holds it: hooks may fill it.
const WAY: mode_t = 0o1000;

/// Number of attempts to share what another run is about to remove.
const ATTEMPTS: usize = 16;

const DIRECTORY: OFlag = OFlag::O_DIRECTORY
    .union(OFlag::O_RDONLY)
    .union(OFlag::O_CLOEXEC);

/// The directories that are made for a run in a workspace. The last run there removes them when it drops this.
#[derive(Debug)]
pub(in crate::sandbox) struct Placeholders {
    lock: Flock<File>,
    made: BTreeSet<PathBuf>,
    /// Whether permissions tell them from a user's directories: some file systems keep none.
    marks: bool,
}

/// Returns whether a directory only takes a name.
pub(super) const fn takes_name(mode: mode_t) -> bool {
    mode & 0o1222 == 0o1000
}

/// Returns whether a directory was made to lead to others.
pub(super) const fn is_way(mode: mode_t) -> bool {
    mode & 0o1200 == 0o1200
}

impl Placeholders {
    /// Begins to make directories in a workspace. Until this is dropped no other run removes any.
    ///
    /// # Errors
    ///
    /// Returns the error of making, opening or locking the directory that is shared.
    pub(super) fn begin(tree: &OwnedFd) -> Result<Self, Errno> {
        let shared = Path::new(SHARED);
        for _ in 0..ATTEMPTS {
            match mkdirat(tree, shared, Mode::from_bits_truncate(TAKEN)) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(errno) => return Err(errno),
            }
            let opened = match open_beneath(tree, shared, DIRECTORY, Mode::empty(), Links::Refused)
            {
                Err(Errno::ENOENT) => continue,
                opened => opened?,
            };
            let marks = takes_name(fstat(&opened)?.st_mode);
            // Another run has it alone for as long as it takes to remove all of them. No hook reaches it.
            let lock = Flock::lock(File::from(opened), FlockArg::LockShared);
            let begun = Self {
                lock: lock.map_err(|(_, errno)| errno)?,
                made: BTreeSet::new(),
                marks,
            };
            if begun.is_in(tree)? {
                return Ok(begun);
            }
        }
        Err(Errno::EAGAIN)
    }

    /// Takes a missing name, or makes a directory that leads to others, unless something is there.
    ///
    /// # Errors
    ///
    /// Returns the error of making it.
    pub(super) fn make(&mut self, tree: &OwnedFd, below: &Path, leads: bool) -> Result<(), Errno> {
        // A hook with another uid makes in it what it could make around it.
        let mode = match leads {
            true => fstat(tree)?.st_mode & 0o777 | 0o700 | WAY,
            false => TAKEN,
        };
        let mode = Mode::from_bits_truncate(mode);
        match in_parent(tree, below, |parent, name| mkdirat(parent, name, mode)) {
            Err(Errno::EEXIST) => return Ok(()),
            made => made?,
        }
        self.removes(below);
        // In spite of the umask: whoever lists the workspace comes by.
        let opened = open_beneath(tree, below, DIRECTORY, Mode::empty(), Links::Refused)?;
        fchmod(&opened, mode)
    }

    /// Has a directory removed at the end.
    pub(super) fn removes(&mut self, below: &Path) {
        self.made.insert(below.to_owned());
    }

    /// Removes a directory that was made for runs, unless something lies in it or it is no such directory any more.
    fn remove(&self, tree: &OwnedFd, below: &Path) {
        let opened = open_beneath(tree, below, BY_NAME, Mode::empty(), Links::Refused);
        let mode = opened.and_then(|opened| Ok(fstat(&opened)?.st_mode));
        if !mode.is_ok_and(|mode| !self.marks || takes_name(mode) || is_way(mode)) {
            return;
        }
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

    /// Returns whether the shared directory is in its place in a workspace.
    fn is_in(&self, tree: &OwnedFd) -> Result<bool, Errno> {
        let key = |status: FileStat| (status.st_dev, status.st_ino);
        match open_beneath(
            tree,
            Path::new(SHARED),
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

impl Drop for Placeholders {
    fn drop(&mut self) {
        // Where another run shares them, that one removes them.
        let is_last = self.lock.relock(FlockArg::LockExclusiveNonblock).is_ok();
        // No descriptor of the workspace is held while hooks run.
        let tree = openat(&*self.lock, "..", DIRECTORY, Mode::empty());
        let Some(tree) = tree.ok().filter(|_| is_last) else {
            return;
        };
        if !self.is_in(&tree).unwrap_or(false) {
            return;
        }
        // What lies below others first, and what is shared last.
        let made = self.made.iter().rev().map(PathBuf::as_path);
        for below in made.chain([Path::new(SHARED)]) {
            self.remove(&tree, below);
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
