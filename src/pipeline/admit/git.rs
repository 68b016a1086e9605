//! Git directories beside a working tree: of linked working trees, of submodules, and with `git init --separate-git-dir`.

use std::{
    fs::{self, File},
    io::Read as _,
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
        let own = (!self.own.starts_with(&self.common)).then_some(&*self.own);
        [&*self.common].into_iter().chain(own)
    }

    /// Finds those of a working tree; `None` where its `.git` is a directory with all of it, or git would find no repository either.
    ///
    /// # Errors
    ///
    /// Returns why a directory that `.git` names is not accepted.
    pub(super) fn find(workspace: &Path) -> Result<Option<Self>, String> {
        let link = workspace.join(".git");
        let Ok(kind) = link.symlink_metadata() else {
            return Ok(None);
        };
        let own = if kind.is_dir() {
            Some(link.clone())
        } else if kind.is_file() {
            let text = line(&link);
            text.and_then(|text| named(workspace, text.strip_prefix("gitdir: ")?))
        } else {
            None
        };
        let Some(own) = own else { return Ok(None) };
        let shared = line(&own.join("commondir"));
        let common = match &shared {
            None => Some(own.clone()),
            Some(text) => named(&own, text),
        };
        let is_repository = |common: &PathBuf| {
            own.join("HEAD").symlink_metadata().is_ok() && common.join("objects").is_dir()
        };
        let Some(common) = common.filter(is_repository).filter(|it| *it != link) else {
            return Ok(None);
        };
        // A linked tree is named there, too. Else any file `.git` would open any repository.
        if shared.is_some() && kind.is_file() {
            let back = line(&own.join("gitdir")).and_then(|text| named(&own, &text));
            if back.is_none_or(|back| link.canonicalize().ok() != Some(back)) {
                return Err(format!(
                    "`{}` does not name it as its working tree; run `git worktree repair` in it",
                    own.display()
                ));
            }
        }
        Ok(Some(Self { common, own }))
    }
}

/// Reads a file of one line; `None` where there is none.
fn line(path: &Path) -> Option<String> {
    const LONGEST: u64 = 8 << 10;
    let is_file = path.symlink_metadata().ok()?.is_file();
    let file = is_file.then(|| File::open(path).ok()).flatten()?;
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).ok()?;
    Some(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// Returns an existing path without links that a file in a directory names.
fn named(directory: &Path, text: &str) -> Option<PathBuf> {
    fs::canonicalize(directory.join(text)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linked_tree_has_its_own_directory_and_the_common_one_and_must_be_named_there() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let (tree, common) = (root.join("tree"), root.join("main/.git"));
        let own = common.join("worktrees/tree");
        let write = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        fs::create_dir_all(common.join("objects")).unwrap();
        write(common.join("HEAD"), "ref: refs/heads/main\n");
        write(tree.join("file"), "");
        assert_eq!(GitPlaces::find(&tree), Ok(None));
        assert_eq!(GitPlaces::find(&root.join("main")), Ok(None));

        write(tree.join(".git"), &format!("gitdir: {}\n", own.display()));
        assert_eq!(GitPlaces::find(&tree), Ok(None));
        write(own.join("HEAD"), "ref: refs/heads/main\n");
        write(own.join("commondir"), "../..\n");
        write(own.join("gitdir"), "/elsewhere/.git\n");
        assert!(GitPlaces::find(&tree).unwrap_err().contains("repair"));
        write(own.join("gitdir"), &format!("{}/.git\n", tree.display()));
        let found = GitPlaces::find(&tree).unwrap().unwrap();
        assert_eq!((&found.own, &found.common), (&own, &common));
        assert_eq!(found.outermost().collect::<Vec<_>>(), [&common]);
    }
}
