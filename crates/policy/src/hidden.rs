//! Names of files in a workspace that are hidden from hooks, and the search for them.

use std::{
    ffi::OsStr,
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use nix::{
    dir::Type,
    errno::Errno,
    fcntl::{OFlag, open},
    sys::stat::Mode,
};

use hookjail_base::util::listing::{entries, open_directory};

use super::{Files, NamePattern};

/// The directory whose lock the runs in a workspace share.
pub const RUNS_SHARE: &str = ".hookjail-run";

/// Directories of dependencies, of builds and of runs, in which no name is hidden.
const UNSEARCHED: [&str; 8] = [
    ".git",
    RUNS_SHARE,
    ".venv",
    "__pycache__",
    "node_modules",
    "site-packages",
    "target",
    "venv",
];

/// Maximum number of names that are looked at.
const MOST_NAMES: usize = 500_000;

/// Maximum number of nested directories that are searched, each of which is open meanwhile.
const MOST_LEVELS: usize = 100;

/// Maximum number of names that are hidden.
const MOST_HIDDEN: usize = 1_000;

/// Why the hidden names of a workspace cannot be found.
#[derive(Debug, thiserror::Error)]
pub enum Unsearchable {
    /// A link with a hidden name leads to a file of the workspace that has none.
    #[error("`{}` is a symbolic link to a file whose own name is not hidden", .0.display())]
    Link(PathBuf),
    /// The workspace cannot be listed.
    #[error("it cannot be listed")]
    Unlisted(#[from] io::Error),
    /// More names match than can be hidden.
    #[error("more than {MOST_HIDDEN} of its names match")]
    Matches,
    /// There are more names than are looked at.
    #[error("it has more than {MOST_NAMES} names")]
    Names,
}

/// Visibility of a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Visibility {
    /// Neither it nor anything below it can be opened.
    Hidden,
    /// It is visible with everything below it.
    Unsearched,
    /// It is visible; names below it may be hidden.
    Visible,
}

impl Files {
    /// Returns the pattern by which a path below the workspace is hidden.
    pub fn hides(&self, below: &Path) -> Option<&NamePattern> {
        let judged = below.iter().map(|name| (name, self.visibility(name)));
        let mut decided = judged.filter(|(_, it)| *it != Visibility::Visible);
        let (name, visibility) = decided.next()?;
        let mut hidden = self.hidden.iter();
        hidden.find(|pattern| visibility == Visibility::Hidden && pattern.matches(name))
    }

    fn visibility(&self, name: &OsStr) -> Visibility {
        if self.hidden.iter().any(|pattern| pattern.matches(name)) {
            Visibility::Hidden
        } else if UNSEARCHED.iter().any(|unsearched| name == *unsearched) {
            Visibility::Unsearched
        } else {
            Visibility::Visible
        }
    }

    /// Returns the paths below a workspace that are hidden: those whose names match, and directories that cannot be listed.
    ///
    /// # Errors
    ///
    /// Fails where the workspace cannot be searched, or what is hidden would stay visible by another name.
    pub fn hidden_in(&self, workspace: &Path) -> Result<Vec<PathBuf>, Unsearchable> {
        let mut search = Search {
            files: self,
            found: Vec::new(),
            looked_at: 0,
            workspace,
        };
        if !self.hidden.is_empty() {
            let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let root = open(workspace, flags, Mode::empty()).map_err(io::Error::from)?;
            search.directory(&root, Path::new(""))?;
        }
        Ok(search.found)
    }
}

struct Search<'a> {
    files: &'a Files,
    found: Vec<PathBuf>,
    looked_at: usize,
    workspace: &'a Path,
}

impl Search<'_> {
    fn directory(&mut self, opened: &OwnedFd, at: &Path) -> Result<(), Unsearchable> {
        let entries = entries(opened)?;
        self.looked_at += entries.len();
        if self.looked_at > MOST_NAMES {
            return Err(Unsearchable::Names);
        }
        for (name, kind) in entries {
            let name = OsStr::from_bytes(name.to_bytes());
            let below = at.join(name);
            match self.files.visibility(name) {
                Visibility::Hidden if kind == Type::Symlink => self.link(&below)?,
                Visibility::Hidden => self.found.push(below),
                // A hook could nest them without end.
                Visibility::Visible
                    if kind == Type::Directory && below.iter().count() > MOST_LEVELS =>
                {
                    self.found.push(below);
                }
                Visibility::Visible if kind == Type::Directory => {
                    match open_directory(opened, name) {
                        Ok(opened) => self.directory(&opened, &below)?,
                        Err(error) if is_other_now(&error) => {}
                        // Its owner could make it readable.
                        Err(_) => self.found.push(below),
                    }
                }
                Visibility::Unsearched | Visibility::Visible => {}
            }
            if self.found.len() > MOST_HIDDEN {
                return Err(Unsearchable::Matches);
            }
        }
        Ok(())
    }

    /// Checks that a link leads out of the workspace, or to what is hidden by its own name.
    fn link(&self, below: &Path) -> Result<(), Unsearchable> {
        let path = self.workspace.join(below);
        let target = path.canonicalize();
        let inside = target.as_ref().map(|it| it.strip_prefix(self.workspace));
        match inside {
            Ok(Ok(target)) if self.files.hides(target).is_none() => Err(Unsearchable::Link(path)),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

/// Returns whether a directory was replaced or removed since it was listed.
fn is_other_now(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::ELOOP | Errno::ENOENT | Errno::ENOTDIR))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt, symlink},
    };

    use super::*;

    fn files() -> Files {
        let hidden = [".env*", "*.pem", "secrets"].map(|text| NamePattern::parse(text).unwrap());
        Files {
            cache: None,
            hidden: hidden.to_vec(),
            named: Vec::new(),
            read_only: Vec::new(),
            state: Vec::new(),
            system: [].into(),
            tokens: Vec::new(),
            transcripts: Vec::new(),
            unchanged: Vec::new(),
        }
    }

    #[test]
    fn names_are_found_in_every_directory_but_those_of_dependencies() {
        let workspace = tempfile::tempdir().unwrap();
        let path = workspace.path().canonicalize().unwrap();
        let make = |below: &str| {
            fs::create_dir_all(path.join(below).parent().unwrap()).unwrap();
            fs::write(path.join(below), "").unwrap();
        };
        for below in [
            ".env",
            "a/b/.env.local",
            "a/key.pem",
            "secrets/x",
            "a/open",
            "node_modules/x/.env",
            ".venv/cacert.pem",
        ] {
            make(below);
        }
        symlink("../.env", path.join("a/.env")).unwrap();
        symlink("/etc/passwd", path.join("out.pem")).unwrap();
        symlink("a", path.join("around")).unwrap();
        let mut found = files().hidden_in(&path).unwrap();
        found.sort();

        let expected = [".env", "a/b/.env.local", "a/key.pem", "secrets"];
        assert_eq!(found, expected.map(PathBuf::from));
        for below in ["secrets/x", "a/.env/x", "a/key.pem"] {
            assert!(files().hides(Path::new(below)).is_some(), "{below}");
        }
        for below in ["a/open", "node_modules/x/.env", ".venv/.env", ""] {
            assert!(files().hides(Path::new(below)).is_none(), "{below}");
        }
    }

    #[test]
    fn a_directory_that_cannot_be_listed_is_hidden_as_a_whole() {
        let workspace = tempfile::tempdir().unwrap();
        let path = workspace.path().canonicalize().unwrap();
        let shut = path.join("shut");
        fs::create_dir(&shut).unwrap();
        fs::set_permissions(&shut, Permissions::from_mode(0o0)).unwrap();
        let expected: &[PathBuf] = match nix::unistd::geteuid().is_root() {
            false => &["shut".into()],
            true => &[],
        };

        assert_eq!(files().hidden_in(&path).unwrap(), expected);
        assert!(matches!(
            files().hidden_in(&path.join("none")),
            Err(Unsearchable::Unlisted(_))
        ));
    }

    #[test]
    fn directories_below_many_others_are_hidden_as_a_whole() {
        let workspace = tempfile::tempdir().unwrap();
        let path = workspace.path().canonicalize().unwrap();
        let nested = |levels| PathBuf::from_iter(std::iter::repeat_n("d", levels));
        fs::create_dir_all(path.join(nested(MOST_LEVELS + 50))).unwrap();
        fs::write(path.join(nested(MOST_LEVELS)).join(".env"), "").unwrap();

        let mut found = files().hidden_in(&path).unwrap();
        found.sort();

        let expected = [".env", "d"].map(|name| nested(MOST_LEVELS).join(name));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_link_to_what_stays_visible_is_an_error() {
        let workspace = tempfile::tempdir().unwrap();
        let path = workspace.path().canonicalize().unwrap();
        fs::write(path.join("settings"), "").unwrap();
        symlink("settings", path.join(".env")).unwrap();

        let error = files().hidden_in(&path).unwrap_err();

        assert!(matches!(error, Unsearchable::Link(at) if at == path.join(".env")));
    }
}
