//! Lists directories by descriptors, without following links.

use std::{
    collections::HashMap,
    ffi::{CStr, CString},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

#[cfg(target_os = "linux")]
use nix::sys::statfs::{
    BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, F2FS_SUPER_MAGIC, FsType, OVERLAYFS_SUPER_MAGIC,
    TMPFS_MAGIC, fstatfs,
};
use nix::{
    dir::{Dir, Type},
    fcntl::{AtFlags, OFlag, openat},
    sys::stat::{FileStat, Mode, SFlag, fstat, fstatat},
};

/// Entries of a directory with their types.
pub type Entries = Vec<(CString, Type)>;

/// Listings of directories that have not changed since.
#[derive(Debug, Default)]
pub struct Listings(Mutex<HashMap<Inode, Listing>>);

/// Device and inode number, whose types differ between systems.
type Inode = (libc::dev_t, libc::ino_t);

#[derive(Debug)]
struct Listing {
    changed: Duration,
    entries: Arc<Entries>,
}

/// Maximum number of kept listings, and of the entries of each.
const MOST_LISTINGS: usize = 512;
const MOST_ENTRIES: usize = 1024;

/// The number of XFS, which nix does not have with every C library.
#[cfg(target_os = "linux")]
const XFS_SUPER_MAGIC: FsType = FsType(0x5846_5342);

/// Time after a change in which another one may leave the directory's time as it is: more than a tick of the coarsest clock.
const TICK: Duration = Duration::from_millis(50);

impl Listings {
    /// Returns the entries of a directory, as [`entries`] does.
    ///
    /// # Errors
    ///
    /// Returns the error of examining or listing it.
    pub fn entries(&self, directory: &OwnedFd) -> io::Result<Arc<Entries>> {
        let found = fstat(directory)?;
        let inode = (found.st_dev, found.st_ino);
        let changed = change_time(&found);
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock()
            .get(&inode)
            .filter(|known| known.changed == changed)
            .map(|known| Arc::clone(&known.entries));
        if let Some(entries) = known {
            return Ok(entries);
        }
        let now = SystemTime::now();
        let entries = Arc::new(entries(directory)?);
        let mut kept = lock();
        if is_settled(changed, now) && entries.len() <= MOST_ENTRIES && shows_changes(directory) {
            if kept.len() >= MOST_LISTINGS {
                kept.clear();
            }
            let entries = Arc::clone(&entries);
            kept.insert(inode, Listing { changed, entries });
        } else {
            kept.remove(&inode);
        }
        Ok(entries)
    }
}

/// Returns the time of a directory's last change, since 1970. Every change of a name in it is one.
pub fn change_time(status: &FileStat) -> Duration {
    let seconds = Duration::from_secs(status.st_ctime.try_into().unwrap_or_default());
    seconds + Duration::from_nanos(status.st_ctime_nsec.try_into().unwrap_or_default())
}

/// Returns whether another change after `now` gives a directory another time than that of its last one.
pub fn is_settled(changed: Duration, now: SystemTime) -> bool {
    let now = now.duration_since(SystemTime::UNIX_EPOCH);
    now.is_ok_and(|now| now.checked_sub(changed).is_some_and(|since| since > TICK))
}

/// Returns whether a directory's change time shows each change of a name in it: not so on file systems of other hosts, of programs
/// and of the kernel itself.
#[cfg(target_os = "linux")]
pub fn shows_changes(directory: impl AsFd) -> bool {
    let known = [
        BTRFS_SUPER_MAGIC,
        EXT4_SUPER_MAGIC,
        F2FS_SUPER_MAGIC,
        OVERLAYFS_SUPER_MAGIC,
        TMPFS_MAGIC,
        XFS_SUPER_MAGIC,
    ];
    fstatfs(directory).is_ok_and(|found| known.contains(&found.filesystem_type()))
}

/// Returns whether a directory's change time shows each change of a name in it. `false` on systems other than Linux.
#[cfg(not(target_os = "linux"))]
pub fn shows_changes(_directory: impl AsFd) -> bool {
    false
}

/// Opens a directory that is no link.
///
/// # Errors
///
/// Returns the error of opening it.
pub fn open_directory<P: ?Sized + nix::NixPath>(
    parent: impl AsFd,
    path: &P,
) -> io::Result<OwnedFd> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    Ok(openat(parent, path, flags, Mode::empty())?)
}

/// Returns the entries of a directory with their types, `File` for anything but directories and links.
///
/// # Errors
///
/// Returns the error of listing it.
pub fn entries(directory: &OwnedFd) -> io::Result<Entries> {
    let mut listing = Dir::from_fd(open_directory(directory, ".")?)?;
    let mut found = Vec::new();
    for entry in listing.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        // Some file systems do not report it.
        let kind = entry
            .file_type()
            .or_else(|| kind_of(directory.as_fd(), name).ok());
        found.push((name.to_owned(), kind.unwrap_or(Type::File)));
    }
    Ok(found)
}

/// Returns the type of an entry, `File` for anything but directories and links.
///
/// # Errors
///
/// Returns the error of `fstatat`.
pub fn kind_of(directory: BorrowedFd<'_>, name: &CStr) -> nix::Result<Type> {
    let mode = fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)?.st_mode;
    let kind = mode & SFlag::S_IFMT.bits();
    Ok(if kind == SFlag::S_IFDIR.bits() {
        Type::Directory
    } else if kind == SFlag::S_IFLNK.bits() {
        Type::Symlink
    } else {
        Type::File
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use nix::fcntl::AT_FDCWD;

    use super::*;

    #[test]
    fn a_kept_listing_is_used_as_long_as_its_directory_has_not_changed() {
        let directory = tempfile::tempdir().unwrap();
        let opened = open_directory(AT_FDCWD, directory.path()).unwrap();
        let listings = Listings::default();
        let listed = || listings.entries(&opened).unwrap();
        // Without a pause between a change and the listing, too.
        for count in 1..200 {
            fs::write(directory.path().join(count.to_string()), "").unwrap();
            assert_eq!(listed().len(), count);
        }
        while !Arc::ptr_eq(&listed(), &listed()) {
            thread::yield_now();
        }
        fs::rename(directory.path().join("1"), directory.path().join("other")).unwrap();
        let names = listed();
        assert!(names.iter().any(|(name, _)| name.to_bytes() == b"other"));
    }
}
