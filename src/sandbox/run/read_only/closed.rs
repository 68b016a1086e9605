//! The empty file and the empty directory that nobody opens, in the places of what is hidden.

use std::{
    fs::{self, File, Permissions},
    io,
    os::{fd::OwnedFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use nix::{
    fcntl::{OFlag, open},
    sys::stat::Mode,
};

use crate::sys::BY_NAME;

/// An empty file and an empty directory without a permission, opened by their names.
#[derive(Debug)]
pub(in crate::sandbox) struct Closed {
    directory: Entry,
    file: Entry,
}

/// A path and what it leads to.
type Entry = (PathBuf, Arc<OwnedFd>);

impl Closed {
    /// Makes both in a directory.
    ///
    /// # Errors
    ///
    /// Returns the error of making one.
    pub(in crate::sandbox) fn make(at: &Path) -> io::Result<Self> {
        let (directory, file) = (at.join("closed-directory"), at.join("closed-file"));
        fs::create_dir(&directory)?;
        File::create_new(&file)?;
        Ok(Self {
            directory: shut(directory)?,
            file: shut(file)?,
        })
    }

    /// Returns the one for the place of a directory, or of anything else.
    pub(in crate::sandbox) const fn instead_of(&self, is_directory: bool) -> &Entry {
        match is_directory {
            false => &self.file,
            true => &self.directory,
        }
    }
}

fn shut(path: PathBuf) -> io::Result<Entry> {
    fs::set_permissions(&path, Permissions::from_mode(0o0))?;
    let flags = BY_NAME | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let opened = open(&path, flags, Mode::empty())?;
    Ok((path, Arc::new(opened)))
}
