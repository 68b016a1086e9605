//! Paths that no grant may reach: the daemon's own state, socket and configuration.
//!
//! Reads the file system, because the same directory may be reached by other paths, through a link or a bind mount.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{Entries, located::Located};

/// Paths that no grant may equal, contain or lie in.
#[derive(Debug, Default)]
pub struct Forbidden(Vec<Located>);

impl Forbidden {
    /// Locates the forbidden paths. They need not exist yet.
    ///
    /// # Errors
    ///
    /// Fails if one of them cannot be examined.
    pub fn locate(paths: &[PathBuf]) -> io::Result<Self> {
        paths
            .iter()
            .map(|path| Located::find(path))
            .collect::<io::Result<_>>()
            .map(Self)
    }

    /// Returns the forbidden path that a grant equals, contains or lies in.
    ///
    /// Paths are compared as the file system resolves them and by device and inode, so that an alias by link or bind
    /// mount is found. A grant that *contains* the mount point of such an alias is not.
    ///
    /// # Errors
    ///
    /// Fails if the granted path cannot be examined.
    pub fn reached_by(&self, grant: &Path) -> io::Result<Option<&Path>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let grant = Located::find(grant)?;
        let hit = self
            .0
            .iter()
            .find(|forbidden| grant.holds(forbidden) || forbidden.holds(&grant));
        Ok(hit.map(|forbidden| forbidden.original()))
    }

    /// Returns the forbidden path that an entry of a directory equals, contains or lies in, or would if it were made.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be examined.
    pub(super) fn reached_by_entries(&self, entries: &Entries) -> io::Result<Option<&Path>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let directory = Located::find(entries.directory())?;
        let matches = |forbidden: &Located| {
            let below = forbidden.path().strip_prefix(directory.path()).ok()?;
            Some(entries.matches(below.iter().next()?))
        };
        let hit = |it: &&Located| it.holds(&directory) || matches(it).unwrap_or(false);
        if let Some(forbidden) = self.0.iter().find(hit) {
            return Ok(Some(forbidden.original()));
        }
        for entry in entries.existing()? {
            // An entry that cannot be examined cannot be opened for a run either, and is left out there.
            if let Ok(Some(forbidden)) = self.reached_by(&entry) {
                return Ok(Some(forbidden));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn the_path_itself_what_it_holds_and_what_holds_it_are_reached() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        fs::create_dir_all(state.join("journal")).unwrap();
        fs::create_dir(dir.path().join("other")).unwrap();
        let forbidden = Forbidden::locate(std::slice::from_ref(&state)).unwrap();

        for grant in [
            dir.path(),
            &state,
            &state.join("journal"),
            &state.join("not-yet"),
        ] {
            assert_eq!(
                forbidden.reached_by(grant).unwrap(),
                Some(state.as_path()),
                "{}",
                grant.display()
            );
        }
        for grant in [dir.path().join("other"), dir.path().join("state2")] {
            assert_eq!(
                forbidden.reached_by(&grant).unwrap(),
                None,
                "{}",
                grant.display()
            );
        }
    }

    #[test]
    fn an_alias_by_link_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        fs::create_dir_all(state.join("journal")).unwrap();
        symlink(&state, dir.path().join("alias")).unwrap();
        symlink(state.join("journal"), dir.path().join("inner")).unwrap();
        let forbidden = Forbidden::locate(std::slice::from_ref(&state)).unwrap();

        for grant in ["alias", "alias/journal", "inner"] {
            assert_eq!(
                forbidden.reached_by(&dir.path().join(grant)).unwrap(),
                Some(state.as_path()),
                "{grant}"
            );
        }
    }

    #[test]
    fn an_entry_that_is_there_or_could_be_made_is_seen_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("state-1")).unwrap();
        let forbidden = Forbidden::locate(&[dir.path().join("state-1/journal")]).unwrap();
        let reached = |name: &str| {
            let entries = Entries::parse(&dir.path().join(name)).unwrap().unwrap();
            forbidden.reached_by_entries(&entries).unwrap().is_some()
        };
        assert!(reached("state-*"));
        assert!(!reached("other-*"));
        symlink(dir.path().join("state-1"), dir.path().join("other-1")).unwrap();
        assert!(reached("other-*"));
    }

    #[test]
    fn an_alias_by_inode_is_seen() {
        // A bind mount looks like another path with the same device and inode. A hard link needs no privilege.
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("key");
        fs::write(&key, "").unwrap();
        fs::hard_link(&key, dir.path().join("alias")).unwrap();
        let forbidden = Forbidden::locate(std::slice::from_ref(&key)).unwrap();

        assert_eq!(
            forbidden.reached_by(&dir.path().join("alias")).unwrap(),
            Some(key.as_path())
        );
    }

    #[test]
    fn a_path_that_does_not_exist_yet_is_forbidden_too() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("later/state");
        let forbidden = Forbidden::locate(std::slice::from_ref(&state)).unwrap();

        assert_eq!(
            forbidden.reached_by(&state.join("x")).unwrap(),
            Some(state.as_path())
        );
        assert_eq!(
            forbidden.reached_by(&dir.path().join("later")).unwrap(),
            Some(state.as_path())
        );
        assert_eq!(
            forbidden.reached_by(&dir.path().join("earlier")).unwrap(),
            None
        );
    }
}
