//! Names of files in a workspace that are hidden from hooks, and the search for them.

use std::{
    cell::OnceCell,
    collections::HashMap,
    ffi::{CString, OsStr},
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use nix::{
    dir::Type,
    errno::Errno,
    fcntl::{AtFlags, OFlag, open},
    sys::stat::{FileStat, Mode, fstat, fstatat},
};

use hookjail_base::util::listing::{
    change_time, entries, is_settled, open_directory, shows_changes,
};

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

/// Maximum number of directories that are remembered for each user and list of hidden names, and of these.
const MOST_REMEMBERED: usize = 65_536;
const MOST_LISTS: usize = 64;

/// Directories that were searched for hidden names, and have not changed since: one call for each, instead of a listing.
#[derive(Debug, Default)]
pub struct Searched(Mutex<HashMap<(u32, Vec<NamePattern>), Remembered>>);

/// By device and inode number.
type Remembered = Arc<Mutex<HashMap<Inode, Arc<Names>>>>;

/// Device and inode number, whose types differ between systems.
type Inode = (libc::dev_t, libc::ino_t);

/// The names in a directory that a search needs.
#[derive(Debug)]
struct Names {
    /// The time of the directory's last change.
    changed: Duration,
    directories: Vec<CString>,
    hidden: Vec<(CString, Type)>,
    /// The number of all names.
    number: usize,
}

impl Searched {
    /// Returns what is remembered for a user and a list.
    fn list(&self, uid: u32, hidden: &[NamePattern]) -> Remembered {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (uid, hidden.to_vec());
        if lists.len() >= MOST_LISTS && !lists.contains_key(&key) {
            lists.clear();
        }
        Arc::clone(lists.entry(key).or_default())
    }
}

/// Why the hidden names of a workspace cannot be found.
#[derive(Debug, thiserror::Error)]
pub enum Unsearchable {
    /// A link with a hidden name leads to a file of the workspace that has none.
    #[error("`{}` is a symbolic link to a file whose own name is not hidden", .0.display())]
    Link(PathBuf),
    /// The workspace cannot be listed.
    #[error("the workspace cannot be listed")]
    Unlisted(#[from] io::Error),
    /// More names match than can be hidden.
    #[error("more than {MOST_HIDDEN} of its names match")]
    Matches,
    /// There are more names than are looked at.
    #[error("the workspace has more than {MOST_NAMES} names")]
    Names,
}

/// Visibility of a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Visibility {
    /// Neither the name nor anything below it can be opened.
    Hidden,
    /// The name is visible with everything below it.
    Unsearched,
    /// The name is visible; names below it may be hidden.
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

    /// Returns the hidden paths below a workspace: paths whose names match, and directories that cannot be listed. `uid` is
    /// that of the user who searches.
    ///
    /// # Errors
    ///
    /// Fails where the workspace cannot be searched, or what is hidden would stay visible by another name.
    pub fn hidden_in(
        &self,
        workspace: &Path,
        (searched, uid): (&Searched, u32),
    ) -> Result<Vec<PathBuf>, Unsearchable> {
        if self.hidden.is_empty() {
            return Ok(Vec::new());
        }
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let root = open(workspace, flags, Mode::empty()).map_err(io::Error::from)?;
        let mut search = Search {
            files: self,
            found: Vec::new(),
            looked_at: 0,
            remembered: searched.list(uid, &self.hidden),
            workspace,
        };
        let top = Place {
            above: None,
            below: Path::new(""),
            opened: OnceCell::from(root),
        };
        search.directory(&top)?;
        Ok(search.found)
    }

    /// Returns the names in a directory that a search needs.
    fn names_in(&self, directory: &OwnedFd, changed: Duration) -> io::Result<Names> {
        let entries = entries(directory)?;
        let mut names = Names {
            changed,
            directories: Vec::new(),
            hidden: Vec::new(),
            number: entries.len(),
        };
        for (name, kind) in entries {
            match self.visibility(OsStr::from_bytes(name.to_bytes())) {
                Visibility::Hidden => names.hidden.push((name, kind)),
                Visibility::Visible if kind == Type::Directory => names.directories.push(name),
                Visibility::Unsearched | Visibility::Visible => {}
            }
        }
        Ok(names)
    }
}

struct Search<'a> {
    files: &'a Files,
    found: Vec<PathBuf>,
    looked_at: usize,
    remembered: Remembered,
    workspace: &'a Path,
}

/// A directory of a workspace, opened when it is to be listed.
struct Place<'a> {
    above: Option<&'a Self>,
    /// Its path below the workspace.
    below: &'a Path,
    opened: OnceCell<OwnedFd>,
}

impl Place<'_> {
    /// Opens it, without following links.
    fn open(&self) -> io::Result<&OwnedFd> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let name = self.below.file_name().unwrap_or_default();
        let above = self.above.ok_or(io::ErrorKind::NotFound)?.open()?;
        let opened = open_directory(above, name)?;
        Ok(self.opened.get_or_init(|| opened))
    }

    /// Examines it, without opening it if it is below another one.
    fn status(&self) -> io::Result<FileStat> {
        let mut top = self;
        while let Some(above) = top.above {
            top = above;
        }
        let root = top.open()?;
        Ok(match self.above {
            None => fstat(root)?,
            Some(_) => fstatat(root, self.below, AtFlags::AT_SYMLINK_NOFOLLOW)?,
        })
    }
}

impl Search<'_> {
    /// Searches a directory and those below it.
    fn directory(&mut self, place: &Place<'_>) -> Result<(), Unsearchable> {
        let Some(names) = self.names(place)? else {
            return Ok(());
        };
        self.looked_at += names.number;
        if self.looked_at > MOST_NAMES {
            return Err(Unsearchable::Names);
        }
        let path = |name: &CString| place.below.join(OsStr::from_bytes(name.to_bytes()));
        for (name, kind) in &names.hidden {
            match *kind {
                Type::Symlink => self.link(&path(name))?,
                Type::BlockDevice
                | Type::CharacterDevice
                | Type::Directory
                | Type::Fifo
                | Type::File
                | Type::Socket => self.hide(path(name))?,
            }
        }
        for name in &names.directories {
            let below = path(name);
            // A hook could nest them without end.
            if below.iter().count() > MOST_LEVELS {
                self.hide(below)?;
                continue;
            }
            self.directory(&Place {
                above: Some(place),
                below: &below,
                opened: OnceCell::new(),
            })?;
        }
        Ok(())
    }

    /// Returns the names in a directory, remembered or listed; `None` where another file lies there by now, or it is hidden as a whole.
    fn names(&mut self, place: &Place<'_>) -> Result<Option<Arc<Names>>, Unsearchable> {
        if let Ok(found) = place.status() {
            let known = self.remembered().get(&inode(&found)).map(Arc::clone);
            if let Some(known) = known.filter(|known| known.changed == change_time(&found)) {
                return Ok(Some(known));
            }
        }
        let opened = match place.open() {
            Ok(opened) => opened,
            Err(error) if is_other_now(&error) => return Ok(None),
            // Its owner could make it readable.
            Err(_) => {
                self.hide(place.below.to_owned())?;
                return Ok(None);
            }
        };
        let found = fstat(opened).map_err(io::Error::from)?;
        let (now, changed) = (SystemTime::now(), change_time(&found));
        let names = Arc::new(self.files.names_in(opened, changed)?);
        let mut remembered = self.remembered();
        if is_settled(changed, now) && shows_changes(opened) {
            if remembered.len() >= MOST_REMEMBERED {
                remembered.clear();
            }
            remembered.insert(inode(&found), Arc::clone(&names));
        } else {
            remembered.remove(&inode(&found));
        }
        drop(remembered);
        Ok(Some(names))
    }

    fn hide(&mut self, below: PathBuf) -> Result<(), Unsearchable> {
        self.found.push(below);
        match self.found.len() > MOST_HIDDEN {
            true => Err(Unsearchable::Matches),
            false => Ok(()),
        }
    }

    fn remembered(&self) -> MutexGuard<'_, HashMap<Inode, Arc<Names>>> {
        // Each change is one of the map's own.
        self.remembered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
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

const fn inode(status: &FileStat) -> Inode {
    (status.st_dev, status.st_ino)
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
        let mut found = files().hidden_in(&path, (&Searched::default(), 0)).unwrap();
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

    /// Of some thousand changes each is seen by a search that remembers, as by one that does not.
    #[test]
    fn a_search_that_remembers_finds_what_another_finds_after_every_change() {
        let outside = tempfile::tempdir().unwrap();
        let workspace = tempfile::tempdir().unwrap();
        let path = workspace.path().canonicalize().unwrap();
        // Writes through a link to it stay in a directory of this test's own.
        let led_to = outside.path().join("file");
        let (searched, files) = (Searched::default(), files());
        let mut state = 1_u64;
        let mut choose = |most: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(state >> 33).unwrap() % most
        };
        let directories = ["a", "a/b", "a/b/c", "d", "d/e"].map(|below| path.join(below));
        let names = [".env", "key.pem", "open", "secrets"];
        let mut remembered = 0;
        for round in 0..1500 {
            let directory = &directories[choose(directories.len())];
            fs::create_dir_all(directory).unwrap();
            let one = directory.join(names[choose(names.len())]);
            let other = directories[choose(directories.len())].join(names[choose(names.len())]);
            // Each fails where something else is there, and then nothing changes.
            match choose(6) {
                0 => drop(fs::write(one, "")),
                1 => drop(fs::remove_file(one)),
                2 => drop(fs::rename(one, other)),
                3 => drop(fs::remove_dir_all(directory)),
                4 => drop(symlink(&led_to, one)),
                _ => drop(fs::rename(directory, path.join("moved"))),
            }
            if round % 50 == 0 {
                // Long enough ago that a change shows.
                std::thread::sleep(Duration::from_millis(60));
            }
            let find = |searched: &Searched| {
                let mut found = files.hidden_in(&path, (searched, 0)).unwrap();
                found.sort();
                found
            };
            assert_eq!(find(&searched), find(&Searched::default()), "round {round}");
            remembered += searched.list(0, &files.hidden).lock().unwrap().len();
        }
        assert!(remembered > 100, "nothing was remembered");
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

        assert_eq!(
            files().hidden_in(&path, (&Searched::default(), 0)).unwrap(),
            expected
        );
        assert!(matches!(
            files().hidden_in(&path.join("none"), (&Searched::default(), 0)),
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

        let mut found = files().hidden_in(&path, (&Searched::default(), 0)).unwrap();
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

        let error = files()
            .hidden_in(&path, (&Searched::default(), 0))
            .unwrap_err();

        assert!(matches!(error, Unsearchable::Link(at) if at == path.join(".env")));
    }
}
