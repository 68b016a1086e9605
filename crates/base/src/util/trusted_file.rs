//! Opens trusted files, and refuses those that another user could have changed.
//!
//! Only owner, mode and kind of the file are checked, and not the directories above it: a user who can rename there can
//! replace it.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    path::Path,
    sync::OnceLock,
};

use nix::{
    fcntl::{OFlag, openat, renameat},
    sys::stat::Mode,
    unistd::{UnlinkatFlags, geteuid, unlinkat},
};

/// The uid of root.
const ROOT: u32 = 0;

/// Error of opening a trusted file or directory.
#[derive(Debug, thiserror::Error)]
pub enum Untrusted {
    /// A syscall failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file is not of the expected kind.
    #[error("the path is not a {expected}; move it away")]
    Kind {
        /// The expected kind.
        expected: &'static str,
    },
    /// Another user owns the file.
    #[error(
        "the path belongs to uid {found}, not to uid {expected}; change it with `chown`, or move it away"
    )]
    Owner {
        /// The uid that it must belong to.
        expected: u32,
        /// The owner's uid.
        found: u32,
    },
    /// The last component of the path is a symbolic link.
    #[error("the path is a symbolic link; put the file itself there")]
    Symlink,
    /// The file's group or everybody can write it.
    #[error("others can write it (mode {mode:04o}); check its content, then `chmod go-w` it")]
    Writable {
        /// The permission bits.
        mode: u32,
    },
}

/// Opens a regular file that this process's effective uid owns and no other can write.
pub fn open(path: &Path, options: &mut OpenOptions) -> Result<File, Untrusted> {
    open_of(path, options, &[geteuid().as_raw()])
}

/// Opens a regular file that a user owns and no other can write.
pub fn open_of_user(uid: u32, path: &Path, options: &mut OpenOptions) -> Result<File, Untrusted> {
    open_of(path, options, &[uid])
}

/// Opens a regular file that only root can change.
pub fn open_roots(path: &Path, options: &mut OpenOptions) -> Result<File, Untrusted> {
    open_of(path, options, &[ROOT])
}

/// Opens a regular file that only this process's effective uid or root can change.
pub fn open_own_or_roots(path: &Path, options: &mut OpenOptions) -> Result<File, Untrusted> {
    open_of(path, options, &own_or_root())
}

fn open_of(path: &Path, options: &mut OpenOptions, owners: &[u32]) -> Result<File, Untrusted> {
    // Without O_NONBLOCK a FIFO in the file's place would block for ever.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = match options.mode(0o600).custom_flags(flags.bits()).open(path) {
        Ok(file) => file,
        Err(error) if error.raw_os_error() == Some(nix::libc::ELOOP) => {
            return Err(Untrusted::Symlink);
        }
        Err(error) => return Err(error.into()),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(Untrusted::Kind {
            expected: "regular file",
        });
    }
    check(&metadata, owners)?;
    Ok(file)
}

/// Opens a regular file that need not be trusted, for reading: a named pipe in its place is not waited for.
pub fn open_untrusted(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let options = options.read(true);
    regular(options.custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?)
}

/// Returns an opened file if it is a regular one.
pub fn regular(file: File) -> io::Result<File> {
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        )),
    }
}

/// Replaces a file atomically and durably by one with this content and mode.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let directory = File::open(parent.unwrap_or_else(|| Path::new(".")))?;
    let name = path.file_name().unwrap_or_default();
    replace_in(&directory, name, content, mode, (None, None))
}

/// Replaces a file of an opened directory so. The new one has its owner, uid and gid, before it has its name.
///
/// No link is followed: neither one in the file's place, nor one in the place of the directory.
pub fn replace_in(
    directory: &File,
    name: &OsStr,
    content: &[u8],
    mode: u32,
    (uid, gid): (Option<u32>, Option<u32>),
) -> io::Result<()> {
    let new = format!(".{}.{}", name.to_string_lossy(), uuid::Uuid::now_v7());
    let new = new.as_str();
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
    let mut file = File::from(openat(
        directory,
        new,
        flags,
        Mode::S_IRUSR | Mode::S_IWUSR,
    )?);
    let mut write = || {
        file.write_all(content)?;
        fchown(&file, uid, gid)?;
        // Sets the mode regardless of the umask.
        file.set_permissions(Permissions::from_mode(mode))?;
        file.sync_all()?;
        renameat(directory, new, directory, name)?;
        // The new name must be on disk, too.
        directory.sync_all()
    };
    write().inspect_err(|_| {
        // Fails harmlessly where the file is renamed already.
        unlinkat(directory, new, UnlinkatFlags::NoRemoveDir).ok();
    })
}

/// Creates a directory with mode 0700, or checks an existing one's owner and mode.
pub fn directory(path: &Path) -> Result<(), Untrusted> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    let found = match made {
        // The error also comes for a directory that could not be examined.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fs::metadata(path)?,
        Err(error) => return Err(error.into()),
        Ok(()) => fs::metadata(path)?,
    };
    if !found.is_dir() {
        return Err(Untrusted::Kind {
            expected: "directory",
        });
    }
    check(&found, &[geteuid().as_raw()])
}

/// Checks that only this process's effective user and root can change a file.
pub fn check_own_or_roots(metadata: &Metadata) -> Result<(), Untrusted> {
    check(metadata, &own_or_root())
}

/// Checks that only root can change a file.
pub fn check_roots(metadata: &Metadata) -> Result<(), Untrusted> {
    check(metadata, &[ROOT])
}

/// The inodes of the files that were root's before this process entered a user namespace, which shows them as those of [`NOBODY`].
static REMEMBERED: OnceLock<BTreeSet<(u64, u64)>> = OnceLock::new();

/// The uid by which a user namespace shows each user that it does not have.
const NOBODY: u32 = 65534;

/// Maximum number of files that are remembered.
const MOST_REMEMBERED: usize = 10_000;

/// Remembers the files at and below a path that are root's, for a process that is about to enter a user namespace. No link is followed.
///
/// Later calls have no effect.
///
/// # Errors
///
/// Fails where there are too many, or a directory cannot be read.
pub fn remember_roots(path: &Path) -> io::Result<()> {
    let mut found = BTreeSet::new();
    let mut paths = vec![path.to_owned()];
    while let Some(path) = paths.pop() {
        let metadata = match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            metadata => metadata?,
        };
        if metadata.uid() == ROOT {
            found.insert((metadata.dev(), metadata.ino()));
        }
        if found.len() > MOST_REMEMBERED {
            return Err(io::Error::other(format!(
                "`{}` has too many files",
                path.display()
            )));
        }
        if metadata.is_dir() {
            match fs::read_dir(&path) {
                // Its files cannot be opened later either.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                entries => {
                    for entry in entries? {
                        paths.push(entry?.path());
                    }
                }
            }
        }
    }
    REMEMBERED.get_or_init(|| found);
    Ok(())
}

/// Returns the owner of a file, also where a user namespace shows another.
fn owner(metadata: &Metadata) -> u32 {
    let inode = (metadata.dev(), metadata.ino());
    let is_remembered = || REMEMBERED.get().is_some_and(|all| all.contains(&inode));
    match metadata.uid() {
        NOBODY if is_remembered() => ROOT,
        uid => uid,
    }
}

fn own_or_root() -> [u32; 2] {
    [geteuid().as_raw(), ROOT]
}

/// Checks that a file belongs to one of these users, and that no other can write it. The first is named where it does not.
fn check(metadata: &Metadata, owners: &[u32]) -> Result<(), Untrusted> {
    let found = owner(metadata);
    if !owners.contains(&found) {
        let expected = owners.first().copied().unwrap_or(ROOT);
        return Err(Untrusted::Owner { expected, found });
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(Untrusted::Writable { mode });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_replaced_in_the_opened_directory_and_has_its_owner_before_its_name() {
        let root = tempfile::tempdir().unwrap();
        let [place, moved, victims] = ["place", "moved", "victims"].map(|it| root.path().join(it));
        fs::create_dir(&place).unwrap();
        fs::create_dir(&victims).unwrap();
        let victim = victims.join("f");
        fs::write(&victim, "victim").unwrap();
        fs::set_permissions(&victim, Permissions::from_mode(0o600)).unwrap();
        let directory = File::open(&place).unwrap();
        // Somebody exchanges the file, and then its directory, for links after it was opened.
        symlink(&victim, place.join("f")).unwrap();
        fs::rename(&place, &moved).unwrap();
        symlink(&victims, &place).unwrap();
        let is_root = geteuid().is_root();
        let owner = if is_root {
            (4243, 4244)
        } else {
            (geteuid().as_raw(), nix::unistd::getegid().as_raw())
        };

        replace_in(
            &directory,
            OsStr::new("f"),
            b"new",
            0o640,
            (Some(owner.0), Some(owner.1)),
        )
        .unwrap();

        let metadata = moved.join("f").symlink_metadata().unwrap();
        assert!(metadata.is_file());
        assert_eq!((metadata.uid(), metadata.gid()), owner);
        assert_eq!(metadata.mode() & 0o7777, 0o640);
        assert_eq!(fs::read(moved.join("f")).unwrap(), b"new");
        assert_eq!(fs::read(&victim).unwrap(), b"victim");
        let metadata = victim.metadata().unwrap();
        assert_eq!(metadata.uid(), geteuid().as_raw());
        assert_eq!(metadata.mode() & 0o7777, 0o600);

        // An owner that cannot be set leaves the former file, and no other.
        if !is_root {
            let failed = replace_in(
                &directory,
                OsStr::new("f"),
                b"other",
                0o640,
                (Some(ROOT), None),
            );
            assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
        assert_eq!(fs::read(moved.join("f")).unwrap(), b"new");
        assert_eq!(fs::read_dir(&moved).unwrap().count(), 1);
    }
}
