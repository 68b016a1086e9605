//! Working trees of one repository: a consent given in one of them counts in the others, for the same bytes at the same place.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use hookjail_base::model::command_line;

use crate::git::GitPlaces;

/// The most working trees of one repository that are looked at.
const MOST: usize = 256;

/// A working tree, and the others of its repository.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trees {
    others: Vec<PathBuf>,
    root: PathBuf,
}

impl Trees {
    /// Finds the working tree that holds a directory, and the others; `None` where it is the only one, or git's files do not name each
    /// other.
    #[must_use]
    pub fn find(directory: &Path) -> Option<Self> {
        let has_git = |path: &&Path| path.join(".git").symlink_metadata().is_ok();
        let root = directory.ancestors().find(has_git)?.to_owned();
        let common = common(&root)?;
        let linked = fs::read_dir(common.join("worktrees")).ok()?;
        let linked = linked.take(MOST).filter_map(|entry| {
            let link = fs::read_to_string(entry.ok()?.path().join("gitdir")).ok()?;
            Some(Path::new(link.trim_end()).parent()?.to_owned())
        });
        let main = (common.file_name()? == ".git").then(|| common.parent().map(Path::to_owned));
        let all = main.flatten().into_iter().chain(linked);
        let is_other =
            |tree: &PathBuf| *tree != root && self::common(tree).as_ref() == Some(&common);
        let others: Vec<_> = all.filter(is_other).collect();
        (!others.is_empty()).then_some(Self { others, root })
    }

    /// Returns the roots of the others.
    pub(super) fn others(&self) -> impl Iterator<Item = &Path> {
        self.others.iter().map(PathBuf::as_path)
    }

    /// Returns the path at the same place of another tree.
    pub(super) fn in_other(&self, path: &Path, tree: &Path) -> PathBuf {
        moved(path, &self.root, tree)
    }

    /// Returns the path at the same place of this tree.
    pub(super) fn back_from(&self, path: &Path, tree: &Path) -> PathBuf {
        moved(path, tree, &self.root)
    }

    /// Returns a command whose words name the same places of another tree; `None` where no shell could have written it.
    pub(super) fn command_in_other(&self, command: &str, tree: &Path) -> Option<String> {
        let words = shlex::split(command)?;
        let words = words
            .iter()
            .map(|word| self.in_other(Path::new(word), tree));
        let words: Vec<_> = words.map(OsString::from).collect();
        command_line(&words)
    }
}

/// Returns the repository of a working tree, where it names the tree.
fn common(tree: &Path) -> Option<PathBuf> {
    match GitPlaces::find(tree) {
        Ok(Some(places)) => Some(places.common),
        Ok(None) => {
            let git = tree.join(".git").canonicalize().ok()?;
            git.join("objects").is_dir().then_some(git)
        }
        Err(_) => None,
    }
}

/// Returns a path below one tree as it is below another, and otherwise spelled as before.
fn moved(path: &Path, from: &Path, tree: &Path) -> PathBuf {
    let text = path.as_os_str().as_bytes();
    match text.strip_prefix(from.as_os_str().as_bytes()) {
        Some(below) if below.is_empty() || below.starts_with(b"/") => {
            let mut moved = tree.as_os_str().to_owned();
            moved.push(OsStr::from_bytes(below));
            moved.into()
        }
        Some(_) | None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A repository `main` with linked trees `one` and `two`, as git writes them.
    fn repository() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let git = root.join("main/.git");
        fs::create_dir_all(git.join("objects")).unwrap();
        write(git.join("HEAD"), "ref: refs/heads/main\n");
        for name in ["one", "two"] {
            let linked = git.join("worktrees").join(name);
            write(linked.join("HEAD"), "ref: refs/heads/x\n");
            write(linked.join("commondir"), "../..\n");
            let link = root.join(name).join(".git");
            write(linked.join("gitdir"), &format!("{}\n", link.display()));
            write(link, &format!("gitdir: {}\n", linked.display()));
        }
        (directory, root)
    }

    fn others(place: &Path) -> Vec<PathBuf> {
        let mut others = Trees::find(place).map_or_else(Vec::new, |it| it.others);
        others.sort();
        others
    }

    #[test]
    fn the_trees_of_a_repository_find_each_other() {
        let (_kept, root) = repository();
        let [main, one, two] = ["main", "one", "two"].map(|name| root.join(name));
        fs::create_dir_all(one.join("a/b")).unwrap();
        assert_eq!(others(&main), [one.clone(), two.clone()]);
        assert_eq!(others(&one.join("a/b")), [main.clone(), two.clone()]);
        // A tree that was removed, and one whose link names another repository.
        fs::remove_dir_all(&two).unwrap();
        assert_eq!(others(&one), std::slice::from_ref(&main));
        write(two.join(".git"), "gitdir: /nowhere\n");
        assert_eq!(others(&main), [one]);
        assert!(others(&two).is_empty());
    }

    #[test]
    fn a_path_is_moved_with_its_spelling() {
        for (path, elsewhere) in [
            ("/a/p", "/b"),
            ("/a/p/x", "/b/x"),
            ("/a/p/./x//y", "/b/./x//y"),
            ("/a/pq/x", "/a/pq/x"),
            ("x", "x"),
        ] {
            let moved = moved(Path::new(path), Path::new("/a/p"), Path::new("/b"));
            assert_eq!(moved.to_str(), Some(elsewhere));
        }
    }

    #[test]
    fn a_directory_that_only_claims_to_be_a_tree_is_none() {
        let (_kept, root) = repository();
        let other = root.join("other");
        let linked = root.join("main/.git/worktrees/one");
        write(
            other.join(".git"),
            &format!("gitdir: {}\n", linked.display()),
        );
        assert_eq!(Trees::find(&other), None);
        // The repository names it, and it is another one's.
        write(
            linked.join("gitdir"),
            &format!("{}\n", other.join(".git").display()),
        );
        fs::remove_file(other.join(".git")).unwrap();
        fs::create_dir_all(other.join(".git/objects")).unwrap();
        assert!(!others(&root.join("main")).contains(&other));
    }

    #[test]
    fn a_command_is_the_same_at_the_same_place_of_another_tree() {
        let trees = Trees {
            others: vec!["/r/main".into()],
            root: "/r/one".into(),
        };
        for (command, expected) in [
            ("/r/one/g.sh -x", Some("/r/main/g.sh -x")),
            (
                "/bin/sh '/r/one/a b.sh' /r/one",
                Some("/bin/sh '/r/main/a b.sh' /r/main"),
            ),
            (
                "/bin/sh -c '/r/one/g.sh | cat'",
                Some("/bin/sh -c '/r/main/g.sh | cat'"),
            ),
            ("/r/one-more/g.sh", Some("/r/one-more/g.sh")),
            ("a 'b", None),
        ] {
            let other = trees.command_in_other(command, Path::new("/r/main"));
            assert_eq!(other.as_deref(), expected, "{command}");
        }
        let back = trees.back_from(Path::new("/r/main/x"), Path::new("/r/main"));
        assert_eq!(back, Path::new("/r/one/x"));
    }
}
