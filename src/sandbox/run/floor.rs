//! The places of a home that no grant leads to by the name of another.

use std::path::{Path, PathBuf};

use crate::policy::References;

/// The kept places of a home, by its path as it is written and without links.
#[derive(Debug, Default)]
pub(in crate::sandbox) struct Floor {
    real: References,
    written: References,
}

impl Floor {
    /// Examines where the directories of references are.
    pub(in crate::sandbox) fn of_user(written: References) -> Self {
        let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        Self {
            real: References {
                cache: written.cache.as_ref().map(real),
                home: written.home.as_ref().map(real),
            },
            written,
        }
    }

    /// Returns why a grant may not lead from its path to the place where it was opened, if so.
    ///
    /// A path that the operator wrote out, into such a place, leads there openly.
    pub(super) fn forbids(
        &self,
        path: &Path,
        place: &Path,
        read_only: bool,
    ) -> Option<&'static str> {
        let is_open = [&self.written, &self.real]
            .into_iter()
            .any(|references| references.never(path, read_only).is_some());
        if is_open {
            return None;
        }
        self.real.never(place, read_only)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_grant_leads_into_no_place_of_keys_but_by_that_places_own_path() {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().canonicalize().unwrap().join("real");
        std::fs::create_dir(&real).unwrap();
        let home = directory.path().join("home");
        symlink(&real, &home).unwrap();
        let floor = Floor::of_user(References {
            cache: None,
            home: Some(home.clone()),
        });
        for (path, place, read_only, is_forbidden) in [
            ("go/pkg/mod", "go/pkg/mod", true, false),
            ("go/pkg/mod", "elsewhere", true, false),
            ("go/pkg/mod", ".ssh", true, true),
            ("go/pkg/mod", ".ssh/below", true, true),
            ("go/pkg/mod", ".config", true, true),
            ("go/pkg/mod", "", true, true),
            (".gitconfig", ".config/git/config", true, false),
            ("notes", ".bashrc", true, false),
            ("notes", ".bashrc", false, true),
            // As an operator writes it.
            (".ssh/id", ".ssh/id", true, false),
        ] {
            let why = floor.forbids(&home.join(path), &real.join(place), read_only);
            assert_eq!(why.is_some(), is_forbidden, "{path} {place} {read_only}");
        }
        let outside = floor.forbids(Path::new("/opt/tools"), &real.join(".ssh"), true);
        assert!(outside.is_some());
        let nobodys = Floor::default();
        assert_eq!(
            nobodys.forbids(&home.join("a"), &real.join(".ssh"), true),
            None
        );
    }
}
