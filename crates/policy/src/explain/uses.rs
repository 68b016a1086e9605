//! Accesses to paths, as an observer sees them.

use std::path::{Path, PathBuf};

use super::{Operation, Reach, Target};

/// An observed access to a path.
#[derive(Clone, Debug)]
pub struct Use {
    /// The second path of those operations that have one.
    pub destination: Option<Target>,
    /// The path as it was given, absolute.
    pub given: PathBuf,
    /// The operation.
    pub operation: Operation,
    /// The resolved path.
    pub target: Target,
}

impl Use {
    /// Returns the resolved paths.
    pub fn places(&self) -> impl Iterator<Item = &Path> {
        let destination = self.destination.iter();
        [&self.target]
            .into_iter()
            .chain(destination)
            .map(Target::path)
    }

    /// Returns whether any of the paths lies below a directory.
    pub fn is_below(&self, directory: Option<&Path>) -> bool {
        directory.is_some_and(|directory| self.places().any(|path| path.starts_with(directory)))
    }

    /// Returns whether grants let a hook do it.
    #[must_use]
    pub fn is_allowed(&self, reach: &Reach) -> bool {
        reach.allows(self.operation, &self.target, self.destination.as_ref())
    }
}
