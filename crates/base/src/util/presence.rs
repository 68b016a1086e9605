//! Checks whether files that this process created are still at their paths.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// A file's path and identity.
#[derive(Clone, Debug)]
pub struct Presence {
    identity: (u64, u64),
    path: PathBuf,
}

impl Presence {
    /// Records the file at a path; a symbolic link is not followed.
    ///
    /// # Errors
    ///
    /// Fails if the file does not exist or cannot be examined.
    pub fn new(path: &Path) -> io::Result<Self> {
        let found = fs::symlink_metadata(path)?;
        Ok(Self {
            identity: (found.dev(), found.ino()),
            path: path.to_owned(),
        })
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the file is still there and the same.
    ///
    /// # Errors
    ///
    /// Fails if the path cannot be examined.
    pub fn is_there(&self) -> io::Result<bool> {
        match Self::new(&self.path) {
            Ok(found) => Ok(found.identity == self.identity),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the file, unless another has taken its place.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be examined or removed.
    pub fn remove_file(&self) -> io::Result<()> {
        if self.is_there()? {
            fs::remove_file(&self.path)?;
        }
        Ok(())
    }
}
