//! Substitutes for paths that are hidden or not to be touched: an empty file and empty directories.

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

use hookjail_sys::BY_NAME;

/// An empty file and empty directories, opened by their names. They are made when they are first asked for.
#[derive(Debug)]
pub(crate) struct Closed {
    at: PathBuf,
    entries: [OnceLock<Entry>; 3],
}

/// Kinds of substitutes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Instead {
    /// A directory that cannot be opened.
    Directory,
    /// A directory that can be listed, and is another one than what it covers.
    Empty,
    /// A file that cannot be opened.
    File,
}

/// A path and what it leads to.
type Entry = (PathBuf, Arc<OwnedFd>);

impl Closed {
    /// Names them in a directory.
    pub(crate) fn below(directory: &Path) -> Self {
        Self {
            at: directory.to_owned(),
            entries: Default::default(),
        }
    }

    /// Returns one of them.
    ///
    /// # Errors
    ///
    /// Returns the error of making it.
    pub(crate) fn get(&self, instead: Instead) -> io::Result<&Entry> {
        let (index, name, mode) = match instead {
            Instead::Directory => (0, "closed-directory", 0o0),
            Instead::Empty => (1, "empty-directory", 0o555),
            Instead::File => (2, "closed-file", 0o0),
        };
        let entry = &self.entries[index];
        if let Some(made) = entry.get() {
            return Ok(made);
        }
        let path = self.at.join(name);
        let made = match instead {
            Instead::File => File::create_new(&path).map(drop),
            Instead::Directory | Instead::Empty => fs::create_dir(&path),
        };
        match made {
            // Another run has just made it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        fs::set_permissions(&path, Permissions::from_mode(mode))?;
        let flags = BY_NAME | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let opened = open(&path, flags, Mode::empty())?;
        Ok(entry.get_or_init(|| (path, Arc::new(opened))))
    }
}
