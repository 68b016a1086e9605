//! Whether files and directories that this process made are still where it made them.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// A file or directory at its path.
#[derive(Clone, Debug)]
pub struct Presence {
    identity: (u64, u64),
    path: PathBuf,
}

impl Presence {
    /// Notes what is at a path now; a symbolic link is itself.
    ///
    /// # Errors
    ///
    /// There is nothing, or it cannot be looked at.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let found = fs::symlink_metadata(path)?;
        Ok(Self {
            identity: (found.dev(), found.ino()),
            path: path.to_owned(),
        })
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the file is still there and the same.
    ///
    /// # Errors
    ///
    /// It cannot be looked at.
    pub(crate) fn is_there(&self) -> io::Result<bool> {
        match Self::of(&self.path) {
            Ok(found) => Ok(found.identity == self.identity),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the file, unless another has taken its place.
    ///
    /// # Errors
    ///
    /// It cannot be looked at or removed.
    pub(crate) fn remove_file(&self) -> io::Result<()> {
        if self.is_there()? {
            fs::remove_file(&self.path)?;
        }
        Ok(())
    }
}
