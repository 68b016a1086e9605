//! The empty file and the empty directory that nobody opens, in the places of what is hidden.

use std::{
    fs::{self, File, Permissions},
    io,
    os::{fd::OwnedFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use nix::{
    fcntl::{OFlag, open},
    sys::stat::Mode,
};

use crate::sys::BY_NAME;

/// An empty file and an empty directory without a permission, opened by their names. They are made when they are first asked for.
#[derive(Debug)]
pub(in crate::sandbox) struct Closed {
    at: PathBuf,
    directory: OnceLock<Entry>,
    file: OnceLock<Entry>,
}

/// A path and what it leads to.
type Entry = (PathBuf, Arc<OwnedFd>);

impl Closed {
    /// Names both in a directory.
    pub(in crate::sandbox) fn below(at: &Path) -> Self {
        Self {
            at: at.to_owned(),
            directory: OnceLock::new(),
            file: OnceLock::new(),
        }
    }

    /// Returns the one for the place of a directory, or of anything else.
    ///
    /// # Errors
    ///
    /// Returns the error of making it.
    pub(in crate::sandbox) fn instead_of(&self, is_directory: bool) -> io::Result<&Entry> {
        let (entry, name) = match is_directory {
            false => (&self.file, "closed-file"),
            true => (&self.directory, "closed-directory"),
        };
        if let Some(made) = entry.get() {
            return Ok(made);
        }
        let path = self.at.join(name);
        let made = match is_directory {
            false => File::create_new(&path).map(drop),
            true => fs::create_dir(&path),
        };
        match made {
            // Another run has just made it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        fs::set_permissions(&path, Permissions::from_mode(0o0))?;
        let flags = BY_NAME | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let opened = open(&path, flags, Mode::empty())?;
        Ok(entry.get_or_init(|| (path, Arc::new(opened))))
    }
}
