//! Resolves a path to device and inode, so that containment is compared by identity.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// A path and its resolution by the file system.
#[derive(Clone, Debug)]
pub struct Located {
    /// Device and inode of every existing directory on the way, the root last.
    chain: Vec<(u64, u64)>,
    /// As it was given.
    original: PathBuf,
    /// Device and inode, where it exists.
    inode: Option<(u64, u64)>,
    /// Without links, as far as it exists.
    path: PathBuf,
}

impl Located {
    /// Locates a path, which need not exist.
    ///
    /// # Errors
    ///
    /// Fails if a directory on the way cannot be examined.
    pub fn find(original: &Path) -> io::Result<Self> {
        Self::new(original, resolve(original)?)
    }

    /// Locates a name without following a link that has it.
    ///
    /// # Errors
    ///
    /// Fails if a directory on the way cannot be examined.
    pub fn name(original: &Path) -> io::Result<Self> {
        let (Some(parent), Some(name)) = (original.parent(), original.file_name()) else {
            return Self::find(original);
        };
        Self::new(original, resolve(parent)?.join(name))
    }

    /// Returns a path that does not exist yet; no file system is read.
    pub fn imagined(path: &Path) -> Self {
        Self {
            chain: Vec::new(),
            original: path.to_owned(),
            inode: None,
            path: path.to_owned(),
        }
    }

    fn new(original: &Path, path: PathBuf) -> io::Result<Self> {
        let mut chain = Vec::new();
        let mut itself = None;
        for (index, ancestor) in path.ancestors().enumerate() {
            let found = if index == 0 {
                inode(fs::symlink_metadata(ancestor))?
            } else {
                inode(fs::metadata(ancestor))?
            };
            if index == 0 {
                itself = found;
            }
            chain.extend(found);
        }
        Ok(Self {
            chain,
            original: original.to_owned(),
            inode: itself,
            path,
        })
    }

    /// Returns the path as it was given.
    pub fn original(&self) -> &Path {
        &self.original
    }

    /// Returns the path without links, as far as it exists.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether it exists.
    pub const fn exists(&self) -> bool {
        self.inode.is_some()
    }

    /// Returns whether `other` is this path or below it.
    pub fn holds(&self, other: &Self) -> bool {
        other.path.starts_with(&self.path)
            || self.inode.is_some_and(|inode| other.chain.contains(&inode))
    }

    /// Returns the directory that holds this name.
    ///
    /// # Errors
    ///
    /// Fails if a directory on the way cannot be examined.
    pub fn parent(&self) -> io::Result<Self> {
        let parent = self.path.parent().unwrap_or(&self.path);
        if self.chain.is_empty() {
            return Ok(Self::imagined(parent));
        }
        Self::new(parent, parent.to_owned())
    }
}

/// Resolves the part of a path that exists and appends the rest.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    for ancestor in path.ancestors() {
        match fs::canonicalize(ancestor) {
            Ok(found) => {
                let rest = path.strip_prefix(ancestor).unwrap_or(Path::new(""));
                return Ok(if rest.as_os_str().is_empty() {
                    found
                } else {
                    found.join(rest)
                });
            }
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(path.to_owned())
}

fn inode(metadata: io::Result<fs::Metadata>) -> io::Result<Option<(u64, u64)>> {
    match metadata {
        Ok(metadata) => Ok(Some((metadata.dev(), metadata.ino()))),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}
