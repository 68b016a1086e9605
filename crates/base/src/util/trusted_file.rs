//! Opens trusted files, and refuses those that another user could have changed.
//!
//! Only owner, mode and kind of the file are checked, and not the directories above it: a user who can rename there can
//! replace it.

use std::{
    fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use nix::{fcntl::OFlag, unistd::geteuid};

/// The uid of root.
const ROOT: u32 = 0;

/// Error of opening a trusted file or directory.
#[derive(Debug, thiserror::Error)]
pub enum Untrusted {
    /// A system call failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file is not of the expected kind.
    #[error("it is not a {expected}; move it away")]
    Kind {
        /// The expected kind.
        expected: &'static str,
    },
    /// Another user owns the file.
    #[error(
        "it belongs to uid {found}; it must belong to uid {expected}: `chown` it or move it away"
    )]
    Owner {
        /// The uid that it must belong to.
        expected: u32,
        /// The owner's uid.
        found: u32,
    },
    /// The last component of the path is a symbolic link.
    #[error("it is a symbolic link; put the file itself there")]
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

/// Replaces a file atomically and durably by one with this content and mode.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.{}", uuid::Uuid::now_v7()));
    let write = || {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(mode).open(&new)?;
        // Sets the mode regardless of the umask.
        file.set_permissions(Permissions::from_mode(mode))?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        // The new name must be on disk, too.
        let directory = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all()
    };
    write().inspect_err(|_| {
        // Fails harmlessly where the file was not created, or is renamed already.
        drop(fs::remove_file(&new));
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

fn own_or_root() -> [u32; 2] {
    [geteuid().as_raw(), ROOT]
}

/// Checks that a file belongs to one of these users, and that no other can write it. The first is named where it does not.
fn check(metadata: &Metadata, owners: &[u32]) -> Result<(), Untrusted> {
    let found = metadata.uid();
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
