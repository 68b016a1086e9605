//! Directories that take names in a workspace while runs last, so that no hook can make anything there.
//!
//! Git and editors overlook empty directories. Runs in a workspace share them, even across daemons, by a lock on one more
//! directory. The last run moves all into that, where they lie ready for the next one, or removes them. The next run takes over
//! the directories that a killed daemon leaves.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::File,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use libc::mode_t;
use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{Flock, FlockArg, OFlag, renameat},
    sys::{
        stat::{FileStat, Mode, fchmod, fstat, futimens, mkdirat},
        time::TimeSpec,
    },
    unistd::{UnlinkatFlags, unlinkat},
};

use hookjail_base::model::Peer;
use hookjail_policy::hidden::RUNS_SHARE;
use hookjail_sys::{BY_NAME, FileRights, Links, open_beneath};

use super::spares::Spares;
use crate::run::grants;

/// Permissions by which a directory is known as one that takes a name: no user's has them.
const TAKEN: mode_t = 0o1555;

/// Permission by which a directory is known as one that leads to others, beside those of the directory that holds it: hooks may fill it.
const WAY: mode_t = 0o1000;

/// Permissions of the shared directory and of those that lie ready in it: a directory that its owner cannot write to can be moved into none.
const SPARE: mode_t = 0o1755;

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
    made: BTreeMap<PathBuf, Made>,
    /// Whether permissions distinguish them from a user's directories: some file systems keep none.
    marks: bool,
    /// Where they lie ready for the next run; `None` = they are removed at once.
    spares: Option<Arc<Spares>>,
    workspace: PathBuf,
}

/// A directory that a run removes.
#[derive(Clone, Copy, Debug)]
struct Made {
    inode: Inode,
    /// Whether nothing was ever put into it.
    is_untouched: bool,
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

/// Returns whether nothing was put into a directory since it was made to take a name: that would have changed its time.
const fn is_untouched(status: &FileStat) -> bool {
    status.st_mtime == 0 && status.st_mtime_nsec == 0
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
    /// Returns why the directory that is shared cannot be made, opened or locked. Waits for no other run.
    pub(super) fn begin(
        workspace: &Path,
        tree: &OwnedFd,
        caller: &Peer,
        spares: Option<&Arc<Spares>>,
    ) -> Result<Self, NotBegun> {
        let shared = Path::new(RUNS_SHARE);
        let mode = Mode::from_bits_truncate(SPARE);
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
        let marks = fstat(&opened).map(|status| is_made_for_runs(&status));
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
            // Ready directories are recognised by their permissions.
            spares: spares.filter(|_| marks).cloned(),
            workspace: workspace.to_owned(),
        };
        match begun.is_in(tree).map_err(NotBegun::Unshared)? {
            true => Ok(begun),
            false => Err(NotBegun::Busy),
        }
    }

    /// Takes a missing name, or makes a directory that leads to others. Returns false where something is there.
    ///
    /// # Errors
    ///
    /// Returns the error of making it.
    pub(super) fn make(
        &mut self,
        tree: &OwnedFd,
        below: &Path,
        leads: bool,
    ) -> Result<bool, Errno> {
        if !leads && let Ok(taken) = self.take_spare(tree, below) {
            self.removes(below, &taken);
            return Ok(true);
        }
        // A hook with another uid makes in it what it could make around it.
        let mode = match leads {
            true => fstat(tree)?.st_mode & 0o777 | 0o700 | WAY,
            false => TAKEN,
        };
        let mode = Mode::from_bits_truncate(mode);
        match in_parent(tree, below, |parent, name| mkdirat(parent, name, mode)) {
            Err(Errno::EEXIST) => return Ok(false),
            made => made?,
        }
        // In spite of the umask: programs that list the workspace pass through.
        let opened = open_beneath(tree, below, DIRECTORY, Mode::empty(), Links::Refused)?;
        fchmod(&opened, mode)?;
        if !leads {
            futimens(
                &opened,
                &TimeSpec::UTIME_OMIT,
                &TimeSpec::from_duration(Duration::ZERO),
            )?;
        }
        self.removes(below, &fstat(&opened)?);
        Ok(true)
    }

    /// Moves a directory that lies ready to a missing name.
    fn take_spare(&self, tree: &OwnedFd, below: &Path) -> Result<FileStat, Errno> {
        let spare = spare_name(below).ok_or(Errno::EINVAL)?;
        let opened = open_beneath(
            &*self.lock,
            &spare,
            DIRECTORY,
            Mode::empty(),
            Links::Refused,
        )?;
        if !is_made_for_runs(&fstat(&opened)?) {
            return Err(Errno::ENOTDIR);
        }
        in_parent(tree, below, |parent, name| {
            renameat(&*self.lock, &spare, parent, name)
        })?;
        fchmod(&opened, Mode::from_bits_truncate(TAKEN))?;
        fstat(&opened)
    }

    /// Moves a directory that took a name to those that lie ready, unless something lies in it.
    fn set_aside(&self, tree: &OwnedFd, below: &Path, made: Inode) -> Result<(), Errno> {
        let spare = spare_name(below).ok_or(Errno::EINVAL)?;
        let opened = open_beneath(tree, below, DIRECTORY, Mode::empty(), Links::Refused)?;
        let found = fstat(&opened)?;
        if inode(&found) != made || !takes_name(found.st_mode) {
            return Err(Errno::ENOTDIR);
        }
        fchmod(&opened, Mode::from_bits_truncate(SPARE))?;
        in_parent(tree, below, |parent, name| {
            renameat(parent, name, &*self.lock, &spare)
        })?;
        match is_untouched(&fstat(&opened)?) || is_empty(&mut Dir::from_fd(opened)?)? {
            true => Ok(()),
            false => put_back(&*self.lock, &spare, tree),
        }
    }

    /// Has a directory removed at the end.
    pub(super) fn removes(&mut self, below: &Path, status: &FileStat) {
        let made = Made {
            inode: inode(status),
            is_untouched: is_untouched(status),
        };
        self.made.insert(below.to_owned(), made);
    }

    /// Returns whether a path is a directory that takes a name, into which nothing was put before this run.
    pub(super) fn has_untouched(&self, below: &Path) -> bool {
        self.made.get(below).is_some_and(|made| made.is_untouched)
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
        let shared = Path::new(RUNS_SHARE);
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
        let _as_caller =
            FileRights::for_user(self.caller.uid, self.caller.gid, &self.caller.groups);
        // No descriptor of the workspace is held while hooks run.
        let tree = grants::open(&self.workspace, Links::Refused);
        let Some((tree, _)) = tree.ok().filter(|_| is_last) else {
            return;
        };
        let (true, Ok(shared)) = (self.is_in(&tree).unwrap_or(false), fstat(&*self.lock)) else {
            return;
        };
        // Directories below others first, and the shared one last.
        for (below, made) in self.made.iter().rev() {
            let inode = made.inode;
            let lies_ready = self.spares.is_some() && self.set_aside(&tree, below, inode).is_ok();
            if !lies_ready {
                self.remove(&tree, below, inode);
            }
        }
        match &self.spares {
            Some(spares) => spares.keep(&self.workspace, &self.caller),
            None => self.remove(&tree, Path::new(RUNS_SHARE), inode(&shared)),
        }
    }
}

/// Whether directories that lay ready are removed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Cleared {
    /// A run is in the workspace.
    Busy,
    /// They are, as far as the caller can remove them, or the workspace is gone.
    Done,
}

/// Removes the directories that lie ready in a workspace, with a caller's rights.
pub(super) fn clear(workspace: &Path, caller: &Peer) -> Cleared {
    let _as_caller = FileRights::for_user(caller.uid, caller.gid, &caller.groups);
    clear_with(workspace).unwrap_or_else(|errno| {
        tracing::debug!(%errno, workspace = %workspace.display(), "directories that lay ready are not removed");
        Cleared::Done
    })
}

fn clear_with(workspace: &Path) -> Result<Cleared, Errno> {
    let (tree, _) = grants::open(workspace, Links::Refused)?;
    let shared = Path::new(RUNS_SHARE);
    let opened = open_beneath(&tree, shared, DIRECTORY, Mode::empty(), Links::Refused)?;
    if !is_made_for_runs(&fstat(&opened)?) {
        return Ok(Cleared::Done);
    }
    let Ok(lock) = Flock::lock(opened, FlockArg::LockExclusiveNonblock) else {
        return Ok(Cleared::Busy);
    };
    let mut listed = Dir::openat(&*lock, ".", DIRECTORY, Mode::empty())?;
    let names = listed.iter().map(|entry| {
        let name = entry?.file_name().to_bytes().to_vec();
        Ok::<_, Errno>(PathBuf::from(OsString::from_vec(name)))
    });
    let names = names.collect::<Result<Vec<_>, _>>()?;
    // Without `.` and `..`.
    let names = names.iter().filter(|name| name.file_name().is_some());
    for spare in names {
        let removed = unlinkat(&*lock, spare, UnlinkatFlags::RemoveDir);
        if matches!(removed, Err(Errno::ENOTEMPTY | Errno::EEXIST)) {
            put_back(&*lock, spare, &tree)?;
        }
    }
    unlinkat(&tree, shared, UnlinkatFlags::RemoveDir)?;
    Ok(Cleared::Done)
}

/// Returns the name under which a directory lies ready; `None` where that would not lead back to its place.
fn spare_name(below: &Path) -> Option<PathBuf> {
    let is_plain = !below.as_os_str().as_bytes().contains(&SEPARATOR);
    is_plain.then(|| with(below, b'/', SEPARATOR))
}

/// Returns a path with another byte in the place of one.
fn with(path: &Path, from: u8, into: u8) -> PathBuf {
    let bytes = path.as_os_str().as_bytes().iter();
    let replaced = bytes.map(|byte| if *byte == from { into } else { *byte });
    OsString::from_vec(replaced.collect()).into()
}

/// Moves a directory that lay ready, and in which something lies, back to its place.
fn put_back(shared: impl AsFd, spare: &Path, tree: &OwnedFd) -> Result<(), Errno> {
    let below = with(spare, SEPARATOR, b'/');
    in_parent(tree, &below, |parent, name| {
        renameat(&shared, spare, parent, name)
    })
}

/// Stands for `/` in the name of a directory that lies ready.
const SEPARATOR: u8 = b'\\';

fn is_empty(directory: &mut Dir) -> Result<bool, Errno> {
    for entry in directory.iter() {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
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
