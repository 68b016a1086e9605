//! Paths of the system that stay open between runs, as every profile grants the same hundreds, and what is remembered of workspaces.
//!
//! A kept descriptor is used again only while its path leads to the same inode. As the inode is held open, its number cannot be
//! reused. Most paths need no call of their own. A name leads to the same inode while its directory's change time is the same
//! and nothing was mounted. This holds for names that are no links, on file systems whose change times show each change.

use std::{
    collections::HashMap,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, SystemTime},
};

#[cfg(target_os = "linux")]
use std::{
    fs::File,
    os::fd::{AsFd as _, AsRawFd as _},
};

#[cfg(target_os = "linux")]
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::{
    errno::Errno,
    fcntl::OFlag,
    sys::stat::{FileStat, Mode, SFlag, fstat, lstat, stat},
};

use hookjail_base::util::listing::{Entries, Listings, change_time, is_settled, shows_changes};
use hookjail_policy::hidden::Searched;
use hookjail_sys::Links;

use super::{
    floor::Floor,
    grants::{open, open_in},
    read_only::Spares,
};
use crate::rootfs::Root;

/// The paths, and where they are resolved.
#[derive(Debug)]
pub struct KnownPlaces {
    floor: Floor,
    known: Mutex<KnownPaths>,
    listings: Listings,
    mounts: MountEvents,
    root: Option<Root>,
    /// Directories of workspaces.
    searched: Searched,
    /// Directories that lie ready in workspaces, where they do.
    spares: OnceLock<Arc<Spares>>,
}

/// Device and inode number, whose types differ between systems.
type Inode = (libc::dev_t, libc::ino_t);

/// The state of a directory, which changes whenever a name in it does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Stamp {
    changed: Duration,
    inode: Inode,
}

#[derive(Debug, Default)]
struct KnownPaths {
    /// Number of times that something was mounted or unmounted.
    mounts: u64,
    paths: HashMap<PathBuf, Known>,
}

/// A path, as it was found.
#[derive(Debug)]
struct Known {
    /// The opened file or directory; `None` = the name is missing.
    found: Option<Place>,
    /// The state of its directory, from before it was examined. `None` where that does not show every change.
    stamp: Option<Stamp>,
}

#[derive(Clone, Debug)]
pub(super) struct Place {
    inode: Inode,
    /// Whether it is a directory.
    pub(super) is_directory: bool,
    /// The path without links under which it was opened.
    pub(super) real: Arc<Path>,
    /// The opened file or directory.
    pub(super) target: Arc<OwnedFd>,
}

impl Place {
    /// Examines an opened path.
    fn new((target, is_directory): (OwnedFd, bool), path: &Path) -> Result<Self, Errno> {
        Ok(Self {
            inode: inode(&fstat(&target)?),
            is_directory,
            real: real(&target, path)?.into(),
            target: Arc::new(target),
        })
    }
}

/// Returns the path without links of an opened file or directory.
#[cfg(target_os = "linux")]
pub(crate) fn real(target: &OwnedFd, _path: &Path) -> Result<PathBuf, Errno> {
    let link = format!("/proc/self/fd/{}", target.as_raw_fd());
    nix::fcntl::readlink(&*link).map(PathBuf::from)
}

/// Returns the path without links of what was opened at a path.
#[cfg(not(target_os = "linux"))]
pub(crate) fn real(_target: &OwnedFd, path: &Path) -> Result<PathBuf, Errno> {
    path.canonicalize().map_err(|_| Errno::ENOENT)
}

impl Known {
    fn get(&self) -> Result<Place, Errno> {
        self.found.clone().ok_or(Errno::ENOENT)
    }
}

impl KnownPlaces {
    /// Resolves system paths in a root; `None` = the host's. None of them leads onto the floor of a home.
    pub(crate) fn new(root: Option<Root>, floor: Floor) -> Self {
        Self {
            floor,
            known: Mutex::default(),
            listings: Listings::default(),
            mounts: MountEvents::new(),
            root,
            searched: Searched::default(),
            spares: OnceLock::new(),
        }
    }

    /// Returns the root of system paths, if it is not the host's.
    pub const fn root(&self) -> Option<&Root> {
        self.root.as_ref()
    }

    /// Returns what no grant leads to.
    pub(super) const fn floor(&self) -> &Floor {
        &self.floor
    }

    /// Returns the directories of workspaces that were searched for what is hidden.
    pub(super) const fn searched(&self) -> &Searched {
        &self.searched
    }

    /// Has directories that took names in a workspace lie ready there for its next run: for a daemon that serves many.
    pub fn keep_ready(&self) {
        self.spares.get_or_init(Arc::default);
    }

    /// Removes the directories that lie ready in workspaces now. Blocks.
    pub fn remove_ready(&self) {
        if let Some(spares) = self.spares.get() {
            spares.remove_all();
        }
    }

    /// Returns the directories that lie ready in workspaces; `None` where they are removed after each run.
    pub(super) fn spares(&self) -> Option<&Arc<Spares>> {
        self.spares.get()
    }

    /// Returns the entries of a directory of the system; none where it cannot be listed.
    pub(super) fn list(&self, directory: &Path) -> Arc<Entries> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let opened = match self.root().filter(|_| Root::has(directory)) {
            Some(root) => root.open_in(directory, flags).map(OwnedFd::from),
            None => nix::fcntl::open(directory, flags, Mode::empty()),
        };
        let listed = opened.map(|opened| self.listings.entries(&opened));
        listed.ok().and_then(Result::ok).unwrap_or_default()
    }

    /// Begins to open the paths of a policy.
    pub(super) fn look(&self) -> Look<'_> {
        let mut known = self.lock();
        // Within the lock: of two that look, the second must not go on with what the first is about to forget.
        if self.mounts.happened() {
            known.mounts += 1;
            for known in known.paths.values_mut() {
                known.stamp = None;
            }
        }
        Look {
            directories: HashMap::new(),
            mounts: known.mounts,
            places: self,
        }
    }

    fn lock(&self) -> MutexGuard<'_, KnownPaths> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens the paths of a policy, and examines each of their directories once.
#[derive(Debug)]
pub(super) struct Look<'a> {
    directories: HashMap<PathBuf, Option<Stamp>>,
    mounts: u64,
    places: &'a KnownPlaces,
}

impl Look<'_> {
    /// Opens a path with `O_PATH`. Links are followed.
    ///
    /// # Errors
    ///
    /// Returns the error of examining or opening it.
    pub(super) fn open(&mut self, path: &Path) -> Result<Place, Errno> {
        if let Some(root) = self.places.root().filter(|_| Root::has(path)) {
            return Place::new(open_in(root, path)?, path);
        }
        let stamp = self.stamp(path);
        if let Some(known) = self.places.lock().paths.get(path)
            && stamp.is_some()
            && known.stamp == stamp
        {
            return known.get();
        }
        let now = match stat(path) {
            Err(Errno::ENOENT) => {
                self.keep(path, stamp, None);
                return Err(Errno::ENOENT);
            }
            now => inode(&now?),
        };
        let kept = |known: &Known| known.found.clone().filter(|it| it.inode == now);
        let kept = self.places.lock().paths.get(path).and_then(kept);
        let place = match kept {
            Some(place) => place,
            None => Place::new(open(path, Links::Followed)?, path)?,
        };
        self.keep(path, stamp, Some(place.clone()));
        Ok(place)
    }

    /// Keeps what was found at a path, with its directory's state from before.
    fn keep(&self, path: &Path, stamp: Option<Stamp>, found: Option<Place>) {
        let shows_changes = || {
            let directory = path.parent().map(|it| open(it, Links::Followed));
            directory.is_some_and(|it| it.is_ok_and(|(directory, _)| shows_changes(&directory)))
        };
        // Where a link leads can change elsewhere.
        let is_link = || match lstat(path) {
            Ok(status) => status.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFLNK.bits(),
            Err(errno) => errno != Errno::ENOENT || found.is_some(),
        };
        let stamp = stamp.filter(|_| !is_link() && shows_changes());
        let mut known = self.places.lock();
        let stamp = stamp.filter(|_| known.mounts == self.mounts);
        known.paths.insert(path.to_owned(), Known { found, stamp });
    }

    /// Returns the state of a path's directory, unless it changes just now.
    fn stamp(&mut self, path: &Path) -> Option<Stamp> {
        let directory = path.parent()?;
        if let Some(stamp) = self.directories.get(directory) {
            return *stamp;
        }
        let found = stat(directory).ok();
        let found = found.filter(|it| is_settled(change_time(it), SystemTime::now()));
        let stamp = found.map(|found| Stamp {
            changed: change_time(&found),
            inode: inode(&found),
        });
        self.directories.insert(directory.to_owned(), stamp);
        stamp
    }
}

const fn inode(status: &FileStat) -> Inode {
    (status.st_dev, status.st_ino)
}

/// Whether something was mounted or unmounted in this process's namespace.
#[derive(Debug)]
struct MountEvents {
    #[cfg(target_os = "linux")]
    mounts: Option<File>,
}

impl MountEvents {
    fn new() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            mounts: File::open("/proc/self/mounts").ok(),
        }
    }

    /// Returns whether it happened since this was last called, or is not known.
    #[cfg(target_os = "linux")]
    fn happened(&self) -> bool {
        let Some(mounts) = &self.mounts else {
            return true;
        };
        let mut looked = [PollFd::new(mounts.as_fd(), PollFlags::POLLPRI)];
        poll(&mut looked, PollTimeout::ZERO) != Ok(0)
    }

    #[cfg(not(target_os = "linux"))]
    const fn happened(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, thread};

    use super::*;

    /// Waits until a path is known without a look at it.
    fn settle(places: &KnownPlaces, path: &Path) {
        let known = || {
            places
                .lock()
                .paths
                .get(path)
                .is_some_and(|it| it.stamp.is_some())
        };
        while !known() {
            places.look().open(path).ok();
            thread::yield_now();
        }
    }

    #[test]
    fn a_place_that_was_replaced_is_opened_anew_and_one_that_is_gone_is_not_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let places = KnownPlaces::new(None, Floor::default());
        let open = || places.look().open(&path);
        for settles in [false, true] {
            let inode = |open: &OwnedFd| fstat(open).unwrap().st_ino;
            fs::write(&path, "one").unwrap();
            let first = open().unwrap().target;
            if settles {
                settle(&places, &path);
            }
            let again = open().unwrap().target;
            assert!(Arc::ptr_eq(&first, &again));

            let other = directory.path().join("other");
            fs::write(&other, "two").unwrap();
            fs::rename(&other, &path).unwrap();
            if settles {
                settle(&places, &path);
            }
            let second = open().unwrap();
            assert_ne!(inode(&first), inode(&second.target));
            assert!(!second.is_directory);

            fs::remove_file(&path).unwrap();
            if settles {
                settle(&places, &path);
            }
            assert_eq!(open().unwrap_err(), Errno::ENOENT);
        }
    }

    #[test]
    fn a_link_is_followed_anew_each_time() {
        let directory = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let (path, target) = (directory.path().join("link"), elsewhere.path().join("file"));
        symlink(&target, &path).unwrap();
        fs::write(directory.path().join("other"), "").unwrap();
        let places = KnownPlaces::new(None, Floor::default());
        settle(&places, &directory.path().join("other"));
        let open = || {
            places
                .look()
                .open(&path)
                .map(|opened| fstat(&opened.target).unwrap().st_ino)
        };
        assert_eq!(open(), Err(Errno::ENOENT));

        fs::write(&target, "one").unwrap();
        let first = open().unwrap();
        fs::write(elsewhere.path().join("new"), "two").unwrap();
        fs::rename(elsewhere.path().join("new"), &target).unwrap();
        assert_ne!(first, open().unwrap());
        fs::remove_file(&target).unwrap();
        assert_eq!(open(), Err(Errno::ENOENT));
    }
}
