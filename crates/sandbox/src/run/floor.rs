//! The places of a home that no grant leads to by the name of another.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use nix::{
    dir::Type,
    fcntl::AT_FDCWD,
    unistd::{Uid, User},
};

use hookjail_base::{
    model::Peer,
    util::{
        listing::{Listings, open_directory},
        way::Way,
    },
};

use hookjail_policy::References;

/// Levels of a kept directory of a home in which links are looked for.
const LEVELS: usize = 2;

/// The kept places of a home, by its path as it is written and without links.
#[derive(Debug, Default)]
pub(crate) struct Floor {
    listings: Listings,
    real: References,
    written: References,
}

impl Floor {
    /// Examines where the directories of references are.
    pub(crate) fn of_user(written: References) -> Self {
        let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        Self {
            listings: Listings::default(),
            real: References {
                cache: written.cache.as_ref().map(real),
                home: written.home.as_ref().map(real),
            },
            written,
        }
    }

    /// Returns the homes of a caller: the daemon's user's own, or what the system's database has.
    pub(super) fn homes(&self, peer: &Peer) -> Vec<PathBuf> {
        let of_daemon = self.written.home.iter().chain(&self.real.home).cloned();
        let mut homes: Vec<_> = of_daemon.collect();
        homes.dedup();
        if homes.is_empty() {
            let user = User::from_uid(Uid::from_raw(peer.uid)).ok().flatten();
            homes.extend(user.map(|user| user.dir));
        }
        homes
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

/// A kept place of a home that a link of the home has in a workspace.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Led {
    /// The place below the workspace; `None` where a hook could have the link lead elsewhere, or the workspace lies in the place.
    pub(crate) below: Option<PathBuf>,
    /// Whether keys, tokens or sessions are kept there.
    pub(crate) is_secret: bool,
    /// The place's path in the home.
    pub(crate) path: PathBuf,
}

impl Floor {
    /// Returns the kept places of homes that links of theirs have in a workspace.
    ///
    /// # Errors
    ///
    /// Returns the error of listing a place that is there and open to the caller.
    pub(super) fn led_into(&self, homes: &[PathBuf], workspace: &Path) -> io::Result<Vec<Led>> {
        let mut looked = Look {
            found: Vec::new(),
            listings: &self.listings,
            workspace,
        };
        let mut homes: Vec<_> = homes
            .iter()
            .filter_map(|it| it.canonicalize().ok())
            .collect();
        homes.dedup();
        for home in homes {
            // Most are missing, which one listing shows. Where the home cannot be listed, each is looked at.
            let opened = open_directory(AT_FDCWD, &home);
            let listed = opened
                .and_then(|opened| self.listings.entries(&opened))
                .ok();
            let names = listed.as_ref().map(|listed| {
                let names = listed.iter().map(|(name, _)| name.to_bytes());
                names.collect::<BTreeSet<_>>()
            });
            let is_there = |below: &Path| {
                let top = below.iter().next().unwrap_or_default();
                let mut names = names.iter();
                names.all(|names| names.contains(top.as_bytes()))
            };
            for (below, is_secret) in References::kept() {
                if is_there(Path::new(below)) {
                    looked.place(&home.join(below), is_secret)?;
                }
            }
        }
        Ok(looked.found)
    }
}

/// A look for links that lead into a workspace.
struct Look<'a> {
    found: Vec<Led>,
    listings: &'a Listings,
    workspace: &'a Path,
}

impl Look<'_> {
    fn place(&mut self, path: &Path, is_secret: bool) -> io::Result<()> {
        if let Err(error) = path.symlink_metadata() {
            return match is_out_of_reach(&error) {
                true => Ok(()),
                false => Err(error),
            };
        }
        let way = Way::follow(path);
        if !way.links.is_empty() {
            self.led(path, &way, is_secret);
        }
        self.directory(&way.end, is_secret, LEVELS)
    }

    fn directory(&mut self, path: &Path, is_secret: bool, levels: usize) -> io::Result<()> {
        if path.starts_with(self.workspace) || self.workspace.starts_with(path) {
            return Ok(());
        }
        let opened = open_directory(AT_FDCWD, path);
        let listed = match opened.and_then(|opened| self.listings.entries(&opened)) {
            Err(error) if is_out_of_reach(&error) => return Ok(()),
            listed => listed?,
        };
        for (name, kind) in listed.iter() {
            let below = path.join(OsStr::from_bytes(name.to_bytes()));
            if *kind == Type::Symlink {
                self.led(&below, &Way::follow(&below), is_secret);
            } else if *kind == Type::Directory && levels > 1 {
                self.directory(&below, is_secret, levels - 1)?;
            }
        }
        Ok(())
    }

    fn led(&mut self, path: &Path, way: &Way, is_secret: bool) {
        let is_held = |path: &Path| path.starts_with(self.workspace);
        let is_moved = way.links.iter().any(|link| is_held(link));
        if !is_moved && !is_held(&way.end) && !self.workspace.starts_with(&way.end) {
            return;
        }
        let below = way.end.strip_prefix(self.workspace).ok();
        let below = below.filter(|it| way.is_whole && !is_moved && !it.as_os_str().is_empty());
        self.found.push(Led {
            below: below.map(Path::to_owned),
            is_secret,
            path: path.to_owned(),
        });
    }
}

/// Returns whether an error shows that there is no directory, or none that is open to the home's user.
fn is_out_of_reach(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied
    ) || error.raw_os_error() == Some(libc::ELOOP)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn a_grant_leads_into_no_place_of_keys_but_by_that_places_own_path() {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().canonicalize().unwrap().join("real");
        fs::create_dir(&real).unwrap();
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

    #[test]
    fn links_of_a_home_that_lead_into_a_workspace_are_found_wherever_they_are() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let (home, workspace) = (root.join("home"), root.join("home/dotfiles"));
        for below in ["dotfiles/d", ".claude/hooks", ".ssh", ".config", "other"] {
            fs::create_dir_all(home.join(below)).unwrap();
        }
        fs::write(workspace.join("file"), "").unwrap();
        symlink(root.join("home/other"), workspace.join("moved")).unwrap();
        let floor = Floor::default();
        let led = || {
            floor
                .led_into(&[home.clone(), home.clone()], &workspace)
                .unwrap()
        };
        assert_eq!(led(), []);
        for (path, leads, below, is_secret) in [
            (".bashrc", "dotfiles/file", Some("file"), false),
            (".ssh/config", "../dotfiles/file", Some("file"), true),
            (".claude/hooks/x", "../../dotfiles/d", Some("d"), false),
            (".config/fish", "../dotfiles/d", Some("d"), false),
            // A hook could make it, or have it lead elsewhere.
            (".zshrc", "dotfiles/missing", None, false),
            (".vim", "dotfiles/moved", None, false),
            // The workspace lies there.
            (".netrc", "dotfiles", None, true),
            (".profile", "../home", None, false),
        ] {
            symlink(leads, home.join(path)).unwrap();
            let found = led();
            assert_eq!(found.len(), 1, "{path}: {found:?}");
            assert_eq!(found[0].path, home.join(path));
            assert_eq!(found[0].below.as_deref(), below.map(Path::new), "{path}");
            assert_eq!(found[0].is_secret, is_secret, "{path}");
            fs::remove_file(home.join(path)).unwrap();
        }
        for (path, leads) in [(".bashrc", "other/x"), ("notes", "dotfiles/file")] {
            symlink(leads, home.join(path)).unwrap();
            assert_eq!(led(), [], "{path}");
        }
    }
}
