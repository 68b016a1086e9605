//! Git directories beside a working tree: of linked working trees, of submodules, and with `git init --separate-git-dir`.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The directories of git that belong to a working tree and lie elsewhere.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct GitPlaces {
    /// The part that all working trees of the repository share: objects, references, configuration, hooks.
    pub(crate) common: PathBuf,
    /// The working tree's own: its index and `HEAD`. The same where no tree is linked.
    pub(crate) own: PathBuf,
}

impl GitPlaces {
    /// Returns both, or one where they are the same or lie in each other.
    pub(crate) fn outermost(&self) -> impl Iterator<Item = &Path> {
        let own_directory = (!self.own.starts_with(&self.common)).then_some(&*self.own);
        [&*self.common].into_iter().chain(own_directory)
    }

    /// Finds those of a working tree; `None` where its `.git` is a directory with all of it, or git would find no repository either.
    ///
    /// A hook may write its workspace. So directories elsewhere count only where they name the working tree themselves.
    ///
    /// # Errors
    ///
    /// Returns why a directory that `.git` names is not accepted, or cannot be examined.
    pub(crate) fn find(workspace: &Path) -> Result<Option<Self>, Unfit> {
        let link = workspace.join(".git");
        let Ok(kind) = link.symlink_metadata() else {
            return Ok(None);
        };
        if kind.is_dir() {
            return match link.join("commondir").symlink_metadata() {
                Ok(_) => {
                    let why = "`commondir` in it leads git to another repository; remove it";
                    Err(Unfit::Another(why.to_owned()))
                }
                Err(_) => Ok(None),
            };
        }
        let named_own =
            line(&link)?.and_then(|text| named(workspace, text.strip_prefix("gitdir: ")?));
        let Some(own_directory) = named_own else {
            return Ok(None);
        };
        let shared = line(&own_directory.join("commondir"))?;
        let common = match &shared {
            None => Some(own_directory.clone()),
            Some(text) => named(&own_directory, text),
        };
        let is_repository = |common: &PathBuf| {
            own_directory.join("HEAD").symlink_metadata().is_ok() && common.join("objects").is_dir()
        };
        let Some(common) = common.filter(is_repository) else {
            return Ok(None);
        };
        let names_the_tree = match shared {
            Some(_) if own_directory.parent() != Some(&common.join("worktrees")) => false,
            Some(_) => leads_to(&own_directory, line(&own_directory.join("gitdir"))?, &link),
            None => leads_to(&own_directory, work_tree(&own_directory)?, workspace),
        };
        if !names_the_tree {
            let repair = match shared {
                Some(_) => "run `git worktree repair` in it",
                None => "run `git config core.worktree \"$PWD\"` in the tree",
            };
            return Err(Unfit::Another(format!(
                "`{}` does not name it as its working tree; remove `.git`, or where that is the tree's own repository {repair}",
                own_directory.display()
            )));
        }
        Ok(Some(Self {
            common,
            own: own_directory,
        }))
    }
}

impl GitPlaces {
    /// Finds the nearest working tree around a directory that has no `.git`, with the directories of its repository. As git would, it
    /// looks for one of the same owner, on the same file system.
    ///
    /// `None` where there is none, or the tree's own repository is not there as a whole.
    pub(super) fn around(directory: &Path, owner: u32) -> Option<(PathBuf, Self)> {
        let has_git = |path: &&Path| path.join(".git").symlink_metadata().is_ok();
        if has_git(&directory) {
            return None;
        }
        let device = directory.symlink_metadata().ok()?.dev();
        let is_same = |path: &Path| {
            let found = path.symlink_metadata();
            found.is_ok_and(|it| it.uid() == owner && it.dev() == device)
        };
        let mut above = directory.ancestors().take_while(|path| is_same(path));
        let tree = above.find(has_git)?;
        let git = tree.join(".git");
        let found = match git.symlink_metadata().ok()?.is_dir() {
            false => Self::find(tree).ok()??,
            true => {
                let is_whole = ["HEAD", "objects"]
                    .iter()
                    .all(|name| git.join(name).exists());
                let leads_elsewhere = git.join("commondir").symlink_metadata().is_ok();
                if !is_whole || leads_elsewhere || !is_same(&git) {
                    return None;
                }
                Self {
                    common: git.clone(),
                    own: git,
                }
            }
        };
        Some((tree.to_owned(), found))
    }
}

/// Why the repository of a working tree is not granted with it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unfit {
    #[error("{0}")]
    Another(String),
    #[error("a file of git's cannot be read")]
    Unread(#[from] io::Error),
}

/// Returns the working tree that a repository's configuration names, where it is spelled as git writes a plain value.
fn work_tree(repository: &Path) -> io::Result<Option<String>> {
    let text = read(&repository.join("config"))?.unwrap_or_default();
    let mut section = "";
    let mut tree = None;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        } else if let Some((key, value)) = line.split_once('=')
            && section == "[core]"
            && key.trim_end().eq_ignore_ascii_case("worktree")
        {
            tree = Some(value.trim().trim_matches('"').to_owned());
        }
    }
    Ok(tree)
}

/// Reads a file of one line; `None` where there is none.
fn line(path: &Path) -> io::Result<Option<String>> {
    let text = read(path)?;
    Ok(text.map(|text| text.trim_end_matches(['\r', '\n']).to_owned()))
}

/// Reads a regular file, as far as files of git that people write go; `None` where the caller has none there, as git would find.
fn read(path: &Path) -> io::Result<Option<String>> {
    const LONGEST: u64 = 1 << 20;
    let text = || {
        if !path.symlink_metadata()?.is_file() {
            return Ok(None);
        }
        let mut text = String::new();
        File::open(path)?.take(LONGEST).read_to_string(&mut text)?;
        Ok(Some(text))
    };
    let has_none = [
        io::ErrorKind::InvalidData,
        io::ErrorKind::NotADirectory,
        io::ErrorKind::NotFound,
        io::ErrorKind::PermissionDenied,
    ];
    text().or_else(|error: io::Error| match has_none.contains(&error.kind()) {
        true => Ok(None),
        false => Err(error),
    })
}

/// Returns whether what a file in a directory names is there, and is this very path.
fn leads_to(directory: &Path, text: Option<String>, path: &Path) -> bool {
    let found = text.and_then(|text| named(directory, &text));
    found.is_some() && found == path.canonicalize().ok()
}

/// Returns an existing path without links that a file in a directory names.
fn named(directory: &Path, text: &str) -> Option<PathBuf> {
    fs::canonicalize(directory.join(text)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with a working tree `tree`, and a repository `main` of somebody else's.
    fn tree_and_repository() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let (tree, main) = (root.join("tree"), root.join("main/.git"));
        write(tree.join("file"), "");
        repository(&main);
        (directory, tree, main)
    }

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn repository(directory: &Path) {
        fs::create_dir_all(directory.join("objects")).unwrap();
        write(directory.join("HEAD"), "ref: refs/heads/main\n");
    }

    #[test]
    fn a_linked_tree_has_its_own_directory_and_the_common_one_and_must_be_named_there() {
        let (_directory, tree, common) = tree_and_repository();
        let linked = common.join("worktrees/tree");
        assert_eq!(GitPlaces::find(&tree).unwrap(), None);
        assert_eq!(GitPlaces::find(common.parent().unwrap()).unwrap(), None);

        write(
            tree.join(".git"),
            &format!("gitdir: {}\n", linked.display()),
        );
        assert_eq!(GitPlaces::find(&tree).unwrap(), None);
        write(linked.join("HEAD"), "ref: refs/heads/main\n");
        write(linked.join("commondir"), "../..\n");
        write(linked.join("gitdir"), "/elsewhere/.git\n");
        let error = GitPlaces::find(&tree).unwrap_err().to_string();
        assert!(error.contains("repair"), "{error}");
        write(linked.join("gitdir"), &format!("{}/.git\n", tree.display()));
        let found = GitPlaces::find(&tree).unwrap().unwrap();
        assert_eq!((&found.own, &found.common), (&linked, &common));
        assert_eq!(found.outermost().collect::<Vec<_>>(), [&common]);
    }

    #[test]
    fn a_directory_in_a_tree_has_the_repository_of_the_nearest_tree_of_the_same_owner() {
        let (_directory, tree, common) = tree_and_repository();
        let main = common.parent().unwrap();
        let owner = main.metadata().unwrap().uid();
        let sub = main.join("a/b");
        fs::create_dir_all(&sub).unwrap();
        let places = |git: &Path| GitPlaces {
            common: git.to_owned(),
            own: git.to_owned(),
        };
        let found = GitPlaces::around(&sub, owner);
        assert_eq!(found, Some((main.to_owned(), places(&common))));
        assert_eq!(GitPlaces::around(&sub, owner + 1), None);
        // A tree of its own has none around, and in a directory without a repository there is none.
        assert_eq!(GitPlaces::around(main, owner), None);
        assert_eq!(GitPlaces::around(&tree, owner), None);
        // The nearest counts, whole or not: git obeys no other.
        fs::create_dir(main.join("a/.git")).unwrap();
        assert_eq!(GitPlaces::around(&sub, owner), None);
        repository(&main.join("a/.git"));
        let nearest = (main.join("a"), places(&main.join("a/.git")));
        assert_eq!(GitPlaces::around(&sub, owner), Some(nearest));
        write(main.join("a/.git/commondir"), "../../.git\n");
        assert_eq!(GitPlaces::around(&sub, owner), None);
    }

    #[test]
    fn another_trees_repository_is_no_part_of_a_tree_that_names_it() {
        let (_directory, tree, main) = tree_and_repository();
        let refused = |why: &str| {
            let error = GitPlaces::find(&tree).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        // A file that leads there, by either kind of path.
        for path in ["../main/.git", &main.display().to_string()] {
            write(tree.join(".git"), &format!("gitdir: {path}\n"));
            refused("core.worktree");
            write(
                main.join("config"),
                "[core]\nworktree = ../../other\n[x]\nworktree = ../../tree\n",
            );
            refused("core.worktree");
            fs::remove_file(main.join("config")).unwrap();
        }
        // A directory of the tree's own that has all of a repository, and leads there.
        let fake = tree.join("fake");
        repository(&fake);
        write(fake.join("gitdir"), &format!("{}/.git\n", tree.display()));
        write(fake.join("commondir"), "../../main/.git\n");
        write(tree.join(".git"), "gitdir: fake\n");
        refused("worktree repair");
        // A repository of its own that leads there.
        fs::remove_file(tree.join(".git")).unwrap();
        repository(&tree.join(".git"));
        assert_eq!(GitPlaces::find(&tree).unwrap(), None);
        write(tree.join(".git/commondir"), "../../main/.git\n");
        refused("commondir");
    }

    #[test]
    fn a_repository_elsewhere_counts_where_its_configuration_names_the_tree() {
        let (_directory, tree, main) = tree_and_repository();
        let module = main.join("modules/tree");
        repository(&module);
        let path = tree.display().to_string();
        for spelled in ["../../../../tree", &path, &format!("\"{path}\"")] {
            write(tree.join(".git"), "gitdir: ../main/.git/modules/tree\n");
            write(
                module.join("config"),
                &format!("[core]\n\tbare = false\n\tworktree = {spelled}\n"),
            );
            let found = GitPlaces::find(&tree).unwrap().unwrap();
            assert_eq!((&found.own, &found.common), (&module, &module));
        }
    }
}
