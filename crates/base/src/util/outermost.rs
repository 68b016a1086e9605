//! Directories that are asked which of them contains a path.

use std::path::Path;

/// Directories none of which lies in another, each with a value.
#[derive(Clone, Debug)]
pub struct Outermost<'a, T>(Vec<(&'a Path, T)>);

impl<'a, T> Outermost<'a, T> {
    /// Keeps the outermost of some directories; of two values of one directory, the first.
    pub fn new(directories: impl IntoIterator<Item = (&'a Path, T)>) -> Self {
        let mut sorted: Vec<_> = directories.into_iter().collect();
        // A directory comes before what lies in it, with nothing else between them.
        sorted.sort_by_key(|(path, _)| *path);
        sorted.dedup_by(|(inner, _), (outer, _)| inner.starts_with(*outer));
        Self(sorted)
    }

    /// Returns the value of the directory that is a path or contains it.
    pub fn containing(&self, path: &Path) -> Option<&T> {
        let after = self.0.partition_point(|(directory, _)| *directory <= path);
        let (directory, value) = self.0.get(after.checked_sub(1)?)?;
        path.starts_with(directory).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_path_is_contained_where_any_of_the_directories_contains_it(
            directories in prop::collection::vec("(/[ab.-]{1,2}){1,3}", 0..6),
            path in "(/[ab.-]{1,2}){1,4}",
        ) {
            let (directories, path) = (directories.iter().map(Path::new), Path::new(&path));
            let expected = directories.clone().any(|directory| path.starts_with(directory));
            let outermost = Outermost::new(directories.map(|directory| (directory, directory)));
            let found = outermost.containing(path);
            prop_assert_eq!(found.is_some(), expected);
            prop_assert!(found.is_none_or(|found| path.starts_with(found)));
        }
    }
}
