//! Directories that take names in a workspace while runs last, so that no hook can make anything there.
//!
//! An empty directory is what git and editors overlook. Runs in a workspace share them, in whatever daemon they are, by a lock on
//! one more directory; the last run removes all. What a killed daemon leaves is taken over by the next run.

use std::{
    collections::BTreeMap,
    fs::File,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use libc::mode_t;
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg, OFlag},
    sys::stat::{FileStat, Mode, fchmod, fstat, mkdirat},
    unistd::{UnlinkatFlags, unlinkat},
};

use hookjail_base::model::Peer;
use hookjail_sys::{BY_NAME, FileRights, Links, open_beneath};

use crate::run::grants;

/// The directory whose lock runs share.
pub(super) const SHARED: &str = ".hookjail-run";

/// Permissions by which a directory is known as one that takes a name: no user's has them.
const TAKEN: mode_t = 0o1555;

/// Permission by which a directory is known as one that leads to others, beside those of the directory that holds it: hooks may fill it.
const WAY: mode_t = 0o1000;

/// Device and inode number, whose types differ between systems.
type Inode = (libc::dev_t, libc::ino_t);

const DIRECTORY: OFlag = OFlag::O_DIRECTORY
    .union(OFlag::O_RDONLY)
    .union(OFlag::O_CLOEXEC);

/// The directories that are made for a run in a workspace. The last run there removes them when it drops this.
#[derive(Debug)]
pub(crate) struct Placeholders {
    /// Whose rights make and remove them.
    caller: Peer,
    lock: Flock<File>,
    made: BTreeMap<PathBuf, Inode>,
    /// Whether permissions tell them from a user's directories: some file systems keep none.
    marks: bool,
    workspace: PathBuf,
}

/// Why no directories can be made in a workspace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum NotBegun {
    /// Another run is about to remove all of them, or another program has the lock.
    Busy,
    /// The workspace takes no new name.
    Closed(Errno),
    /// The shared directory is no directory that every user can open.
    Unshared(Errno),
}

/// Returns whether a directory only takes a name.
pub(super) const fn takes_name(mode: mode_t) -> bool {
    mode & 0o1222 == 0o1000
}

/// Returns whether a directory was made to lead to others.
pub(super) const fn is_way(mode: mode_t) -> bool {
    mode & 0o1200 == 0o1200
}

/// Returns whether something is a directory that was made for runs.
pub(crate) const fn is_made_for_runs(status: &FileStat) -> bool {
    let mode = status.st_mode;
    mode & libc::S_IFMT == libc::S_IFDIR && (takes_name(mode) || is_way(mode))
}

impl Placeholders {
    /// Begins to make directories in a workspace, with the caller's rights. Until this is dropped no other run removes any.
    ///
    /// # Errors
    ///
    /// Returns why the directory that is shared cannot be made, opened or locked. It waits for no other run.
    pub(super) fn begin(workspace: &Path, tree: &OwnedFd, caller: &Peer) -> Result<Self, NotBegun> {
        let shared = Path::new(SHARED);
        let mode = Mode::from_bits_truncate(TAKEN);
        let is_made = match mkdirat(tree, shared, mode) {
            Ok(()) => true,
            Err(Errno::EEXIST) => false,
            Err(errno) => return Err(NotBegun::Closed(errno)),
        };
        let opened = match open_beneath(tree, shared, DIRECTORY, Mode::empty(), Links::Refused) {
            Err(Errno::ENOENT) => return Err(NotBegun::Busy),
            opened => opened.map_err(NotBegun::Unshared)?,
        };
        if is_made {
            // In spite of the umask: runs of other users share it.
            fchmod(&opened, mode).map_err(NotBegun::Unshared)?;
        }
        let marks = fstat(&opened).map(|status| takes_name(status.st_mode));
        let marks = marks.map_err(NotBegun::Unshared)?;
        let lock = match Flock::lock(File::from(opened), FlockArg::LockSharedNonblock) {
            Err((_, Errno::EWOULDBLOCK)) => return Err(NotBegun::Busy),
            lock => lock.map_err(|(_, errno)| NotBegun::Unshared(errno))?,
        };
        let begun = Self {
            caller: caller.clone(),
            lock,
            made: BTreeMap::new(),
            marks,
            workspace: workspace.to_owned(),
        };
        match begun.is_in(tree).map_err(NotBegun::Unshared)? {
            true => Ok(begun),
            false => Err(NotBegun::Busy),
        }
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
        // In spite of the umask: whoever lists the workspace comes by.
        let opened = open_beneath(tree, below, DIRECTORY, Mode::empty(), Links::Refused)?;
        fchmod(&opened, mode)?;
        self.removes(below, &fstat(&opened)?);
        Ok(())
    }

    /// Has a directory removed at the end.
    pub(super) fn removes(&mut self, below: &Path, status: &FileStat) {
        self.made.insert(below.to_owned(), inode(status));
    }

    /// Removes a directory that was made for runs, unless something lies in it or it is no such directory any more.
    fn remove(&self, tree: &OwnedFd, below: &Path, made: Inode) {
        let opened = open_beneath(tree, below, BY_NAME, Mode::empty(), Links::Refused);
        let is_it = opened.and_then(|opened| fstat(&opened)).is_ok_and(|found| {
            let is_marked = takes_name(found.st_mode) || is_way(found.st_mode);
            inode(&found) == made && (is_marked || !self.marks)
        });
        if !is_it {
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
        let shared = Path::new(SHARED);
        match open_beneath(tree, shared, BY_NAME, Mode::empty(), Links::Refused) {
            Ok(found) => Ok(inode(&fstat(&found)?) == inode(&fstat(&*self.lock)?)),
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => Ok(false),
            Err(errno) => Err(errno),
        }
    }
}

impl Drop for Placeholders {
    fn drop(&mut self) {
        // Where another run shares them, that one removes them.
        let is_last = self.lock.relock(FlockArg::LockExclusiveNonblock).is_ok();
        // A caller may have moved what is shared to a place where it can remove nothing itself.
        let _as_caller = FileRights::of(self.caller.uid, self.caller.gid, &self.caller.groups);
        // No descriptor of the workspace is held while hooks run.
        let tree = grants::open(&self.workspace, Links::Refused);
        let Some((tree, _)) = tree.ok().filter(|_| is_last) else {
            return;
        };
        let (true, Ok(shared)) = (self.is_in(&tree).unwrap_or(false), fstat(&*self.lock)) else {
            return;
        };
        // What lies below others first, and what is shared last.
        for (below, made) in self.made.iter().rev() {
            self.remove(&tree, below, *made);
        }
        self.remove(&tree, Path::new(SHARED), inode(&shared));
    }
}

const fn inode(status: &FileStat) -> Inode {
    (status.st_dev, status.st_ino)
}

/// Does something with the last name of a path, in the opened directory that holds it.
pub(super) fn in_parent<T>(
    tree: &OwnedFd,
    below: &Path,
    act: impl FnOnce(&OwnedFd, &Path) -> nix::Result<T>,
) -> nix::Result<T> {
    let name = Path::new(below.file_name().ok_or(Errno::EINVAL)?);
    match below.parent().filter(|it| !it.as_os_str().is_empty()) {
        Some(parent) => {
            let by_name = BY_NAME | OFlag::O_DIRECTORY;
            let parent = open_beneath(tree, parent, by_name, Mode::empty(), Links::Refused)?;
            act(&parent, name)
        }
        None => act(tree, name),
    }
}
