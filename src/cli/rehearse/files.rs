//! The files of a workspace, before and after a run.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Maximum number of entries that are looked at.
const MOST: usize = 10_000;

/// Maximum number of files that are named.
const NAMED: usize = 5;

/// Entries that tools write on their own. They are many, or differ in each run.
const LEFT_OUT: [&str; 6] = [
    ".git/index",
    ".git/objects",
    ".venv",
    "__pycache__",
    "node_modules",
    "target",
];

/// Returns whether an entry is one that tools write on their own.
pub(super) fn is_left_out(path: &Path) -> bool {
    LEFT_OUT.iter().any(|known| path.ends_with(known))
}

/// The state of a file as far as a listing shows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Stamp {
    changed: (i64, i64),
    modified: (i64, i64),
    size: u64,
}

/// The files below a directory, without those of [`LEFT_OUT`].
#[derive(Debug)]
pub(super) struct Files(BTreeMap<PathBuf, Stamp>);

impl Files {
    /// Lists the files below a directory. `None` where there are too many. Links are not followed.
    pub(super) fn below(directory: &Path) -> Option<Self> {
        let mut files = BTreeMap::new();
        let mut left = MOST;
        let mut directories = vec![PathBuf::new()];
        while let Some(inner) = directories.pop() {
            let entries = fs::read_dir(directory.join(&inner)).into_iter();
            for entry in entries.flatten().flatten() {
                left = left.checked_sub(1)?;
                let path = inner.join(entry.file_name());
                if is_left_out(&path) {
                    continue;
                }
                let Ok(found) = entry.metadata() else {
                    continue;
                };
                if found.is_dir() {
                    directories.push(path);
                    continue;
                }
                let stamp = Stamp {
                    changed: (found.ctime(), found.ctime_nsec()),
                    modified: (found.mtime(), found.mtime_nsec()),
                    size: found.size(),
                };
                files.insert(path, stamp);
            }
        }
        Some(Self(files))
    }

    /// Returns the files that are new, changed or gone since an earlier listing.
    pub(super) fn since(&self, before: &Self) -> BTreeSet<String> {
        let both = self.0.keys().chain(before.0.keys());
        let written = both.filter(|path| self.0.get(*path) != before.0.get(*path));
        written.map(|path| path.display().to_string()).collect()
    }
}

/// Returns the files that the bare runs alone wrote.
///
/// Left out is a file beside another of the same kind that the confined runs alone wrote: its name has a time or a number.
pub(in crate::cli) fn only_bare<'a>(
    bare: &'a BTreeSet<String>,
    confined: &'a BTreeSet<String>,
) -> Vec<&'a str> {
    let kind = |path: &str| {
        let path = Path::new(path);
        (
            path.parent().map(Path::to_owned),
            path.extension().map(ToOwned::to_owned),
        )
    };
    let others: BTreeSet<_> = confined.difference(bare).map(|path| kind(path)).collect();
    let alone = bare.difference(confined).map(String::as_str);
    alone.filter(|path| !others.contains(&kind(path))).collect()
}

/// Returns a list of files as text.
pub(in crate::cli) fn list<'a>(paths: impl IntoIterator<Item = &'a str>) -> String {
    let mut paths = paths.into_iter();
    let named: Vec<_> = paths.by_ref().take(NAMED).collect();
    match paths.count() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(paths: &[&str]) -> BTreeSet<String> {
        paths.iter().map(|path| (*path).to_owned()).collect()
    }

    #[test]
    fn files_that_are_new_changed_or_gone_are_found_and_those_of_tools_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for name in ["same", "changed", "src/gone", ".git/config"] {
            write(name, "x");
        }
        let before = Files::below(directory.path()).unwrap();
        assert_eq!(before.since(&before), BTreeSet::new());
        write("changed", "longer");
        write("src/new", "x");
        write(".git/config", "longer");
        for name in [".git/index", ".git/objects/ab/c", "a/node_modules/x"] {
            write(name, "x");
        }
        fs::remove_file(directory.path().join("src/gone")).unwrap();
        let after = Files::below(directory.path()).unwrap();
        let expected = set(&[".git/config", "changed", "src/gone", "src/new"]);
        assert_eq!(after.since(&before), expected);
    }

    #[test]
    fn more_files_than_can_be_compared_are_no_listing() {
        let directory = tempfile::tempdir().unwrap();
        let names = 0..=MOST;
        for name in names.clone() {
            fs::File::create(directory.path().join(name.to_string())).unwrap();
        }
        assert!(Files::below(directory.path()).is_none());
        fs::remove_file(directory.path().join("0")).unwrap();
        assert!(Files::below(directory.path()).is_some());
    }

    #[test]
    fn only_the_bare_runs_files_are_a_difference_and_no_other_name_of_the_same_log() {
        let both = set(&["log", "logs/1.txt"]);
        assert!(only_bare(&both, &both).is_empty());
        // The confined run went first, and may have left nothing to do.
        assert!(only_bare(&set(&[]), &both).is_empty());
        assert_eq!(only_bare(&both, &set(&[])), ["log", "logs/1.txt"]);
        assert_eq!(only_bare(&both, &set(&["logs/2.txt"])), ["log"]);
    }

    #[test]
    fn a_long_list_of_files_is_cut() {
        assert_eq!(list(["a", "b"]), "a, b");
        assert_eq!(
            list(["a", "b", "c", "d", "e", "f", "g"]),
            "a, b, c, d, e and 2 more"
        );
    }
}
