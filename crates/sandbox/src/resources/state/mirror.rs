//! A directory of files that last, in the place of one of the machine's. The granted entries of that one are shown again,
//! and all others have a closed entry, so that nothing of it looks missing.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    ffi::{CStr, CString, OsStr},
    fs::{self, Permissions},
    io,
    ops::Bound,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::PermissionsExt as _},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use nix::{
    dir::Type,
    errno::Errno,
    fcntl::{AT_FDCWD, AtFlags, OFlag, openat, readlinkat},
    sys::stat::{Mode, SFlag, fstat, fstatat, mkdirat},
    unistd::{UnlinkatFlags, symlinkat, unlinkat},
};

use hookjail_base::util::listing::{Listings, entries, kind_of, open_directory};
use hookjail_policy::{rights::Rights, state::is_data};
use hookjail_sys::{Exposed, Found, MAX_EXPOSED, Private};

use super::{MOST_LEVELS, RunState, make, remove};
use crate::run::{
    grants::OpenGrant,
    view::{Placement, exposed, is_writable},
};

/// Mode of a directory that leads to what is shown: the sticky bit, which changes nothing for its owner, marks it.
const WAY: Mode = Mode::S_IRWXU.union(Mode::S_ISVTX);

/// Shows an owner's directory below `files` in the place of one of the machine's. `None` where that is not there, is a link, is
/// granted as a whole, or more than [`MAX_EXPOSED`] paths of it are granted.
///
/// Directories outside of the workspace that contain scripts of the run and cannot be written are shown entry by entry. So
/// files can be made beside the scripts. Directories of `open` that lie below are shown so too, so that files can be made in
/// them.
///
/// # Errors
///
/// Returns the error of reading or making an entry.
pub(crate) fn shown(
    state: &RunState,
    place: &Path,
    granted: &[&OpenGrant],
    placed: &[Placement],
    open: &[PathBuf],
) -> io::Result<Option<(Private, OpenGrant)>> {
    let is_whole = granted.iter().any(|grant| place.starts_with(&grant.path));
    if is_whole || fs::canonicalize(place).ok().as_deref() != Some(place) {
        return Ok(None);
    }
    let Ok(real) = open_directory(AT_FDCWD, place) else {
        return Ok(None);
    };
    let below_root = place.strip_prefix("/").unwrap_or(place);
    let files = &state.files;
    let mut cover = files.opened.try_clone()?;
    // One by one: a hook may have left a link where another place was shown.
    for name in below_root {
        cover = match open_directory(&cover, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make(&by_descriptor(cover.as_fd()).join(name), 0o700)?;
                open_directory(&cover, name)
            }
            opened => opened,
        }?;
    }
    let below = granted
        .iter()
        .filter(|grant| grant.path.starts_with(place))
        .map(|grant| (&*grant.path, *grant));
    let scripts = placed.iter().map(|placement| &*placement.place);
    // Hooks start in the workspace, and look for its files by it.
    let in_workspace = |directory: &Path| {
        let workspace = state.workspace.as_deref();
        workspace.is_some_and(|it| it.starts_with(directory) || directory.starts_with(it))
    };
    let split = scripts
        .flat_map(|script| script.ancestors().skip(1))
        .filter(|directory| *directory != place && directory.starts_with(place))
        .filter(|directory| !in_workspace(directory));
    let mut mirror = Mirror {
        exposed: Vec::new(),
        granted: below.collect(),
        listings: &state.listings,
        open: open.iter().map(|path| &**path).collect(),
        placed,
        split: split.collect(),
    };
    mirror.level(&real, place, &cover, None)?;
    if mirror.exposed.len() > MAX_EXPOSED {
        mirror.exposed.clear();
        mirror.split.clear();
        mirror.level(&real, place, &cover, None)?;
    }
    if mirror.exposed.len() > MAX_EXPOSED {
        tracing::warn!(
            path = %place.display(),
            "too many paths of a directory are granted, so it is not shown with files that last"
        );
        return Ok(None);
    }
    let private = Private {
        covered: Found::new(place, &real)?,
        exposed: mirror.exposed,
        source: Some(Found::new(&files.path.join(below_root), &cover)?),
        ways: Vec::new(),
    };
    let grant = OpenGrant {
        path: place.to_owned(),
        rights: Rights::Scratch,
        target: Arc::new(cover),
    };
    Ok(Some((private, grant)))
}

#[derive(Debug)]
struct Mirror<'a> {
    exposed: Vec<Exposed>,
    granted: BTreeMap<&'a Path, &'a OpenGrant>,
    listings: &'a Listings,
    /// Directories in which files can be made.
    open: BTreeSet<&'a Path>,
    placed: &'a [Placement],
    /// Directories whose entries are shown one by one.
    split: BTreeSet<&'a Path>,
}

impl<'a> Mirror<'a> {
    /// Makes the entries of a directory in the one that covers it. `within`: the rights on all of it, where it is granted.
    fn level(
        &mut self,
        real: &OwnedFd,
        directory: &Path,
        cover: &OwnedFd,
        within: Option<Rights>,
    ) -> io::Result<()> {
        let listed = self.listings.entries(cover)?;
        let made = listed.iter().map(|(name, kind)| (&**name, *kind));
        let mut made: HashMap<_, _> = made.collect();
        let leading = self.leading(directory);
        for (name, kind) in self.listings.entries(real)?.iter() {
            let made_kind = made.remove(&**name);
            let text = OsStr::from_bytes(name.to_bytes());
            let leads = within.is_none() && leading.contains(text);
            let mut kind = *kind;
            if kind == Type::Symlink && leads {
                // A grant by a link is shown in the link's place: where that leads may be closed.
                kind = followed(real, name).unwrap_or(kind);
            }
            let is_directory = kind == Type::Directory;
            if kind == Type::Symlink {
                if made_kind.is_none() {
                    copy_link(real, cover, name)?;
                }
                continue;
            }
            if within.is_none() && !leading.contains(text) {
                if made_kind.is_none() {
                    close_missing(cover, name, is_directory)?;
                }
                continue;
            }
            let path = directory.join(text);
            let granted = self.granted.get(&*path).map(|grant| grant.rights);
            let rights = granted.or(within);
            if is_directory && self.is_way(&path, rights) {
                if let Ok(real) = openat(real, &**name, DIRECTORY, Mode::empty()) {
                    let existing = existing_way(cover, name, made_kind);
                    let below = existing.map_or_else(|| way(cover.as_fd(), name, WAY), Ok)?;
                    self.level(&real, &path, &below, rights)?;
                }
            } else if let Some(rights) = rights {
                if let Some(source) = self.source(real, name, &path) {
                    if made_kind.is_none_or(|made_kind| made_kind != kind) {
                        closed(cover.as_fd(), name, is_directory, Mode::empty())?;
                    }
                    self.exposed.push(exposed(rights, source?));
                    self.expose_below(&path)?;
                }
            } else if made_kind.is_none() {
                close_missing(cover, name, is_directory)?;
            }
        }
        for (name, kind) in made {
            remove_closed(cover, name, kind, MOST_LEVELS)?;
        }
        Ok(())
    }

    /// Returns the names in a directory that are, or may lead to, what is shown.
    fn leading(&self, directory: &Path) -> HashSet<&'a OsStr> {
        let shown = self.granted.keys().chain(&self.open).chain(&self.split);
        let names = shown.filter_map(|path| path.strip_prefix(directory).ok()?.iter().next());
        names.collect()
    }

    /// Returns whether a directory leads to what is shown, instead of being shown as a whole.
    fn is_way(&self, path: &Path, rights: Option<Rights>) -> bool {
        if self.split.contains(path) && !rights.is_some_and(is_writable) {
            return true;
        }
        let leads = |first: Option<&&Path>| first.is_some_and(|first| first.starts_with(path));
        rights.is_none()
            && (leads(self.open.range(path..).next())
                || leads(self.granted.range(path..).next().map(|(first, _)| first)))
    }

    /// Shows what is granted below a directory that is shown as a whole, with the rights of its own grant.
    fn expose_below(&mut self, directory: &Path) -> io::Result<()> {
        let after = (Bound::Excluded(directory), Bound::Unbounded);
        let below = self.granted.range::<Path, _>(after);
        for (path, grant) in below.take_while(|(path, _)| path.starts_with(directory)) {
            let found = Found::new(path, &grant.target)?;
            self.exposed.push(exposed(grant.rights, found));
        }
        Ok(())
    }

    /// Examines the file or directory that is shown at a path; `None` where it is gone or cannot be opened.
    fn source(&self, real: &OwnedFd, name: &CStr, path: &Path) -> Option<io::Result<Found>> {
        let mut placed = self.placed.iter();
        if let Some(placement) = placed.find(|placement| placement.place == path) {
            return Some(Found::new(path, &placement.copy));
        }
        if let Some(grant) = self.granted.get(path) {
            return Some(Found::new(path, &grant.target));
        }
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let opened = openat(real, name, flags, Mode::empty()).ok()?;
        Some(Found::new(path, opened))
    }
}

/// How a directory of the machine's is opened, by a link too.
const DIRECTORY: OFlag = OFlag::O_DIRECTORY
    .union(OFlag::O_RDONLY)
    .union(OFlag::O_CLOEXEC);

/// Returns the kind of what a link leads to: a directory or a file; `None` where that is not there.
fn followed(real: &OwnedFd, name: &CStr) -> Option<Type> {
    let found = fstatat(real, name, AtFlags::empty()).ok()?;
    match found.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFDIR.bits() {
        true => Some(Type::Directory),
        false => Some(Type::File),
    }
}

/// Makes the entry of a name that is closed. Files of data have none, and directories of such an open one: hooks make them anew.
fn close_missing(cover: &OwnedFd, name: &CStr, is_directory: bool) -> io::Result<()> {
    let is_data = is_data(OsStr::from_bytes(name.to_bytes()), is_directory);
    let mode = match is_data {
        true => Mode::S_IRWXU,
        false => Mode::empty(),
    };
    match is_directory || !is_data {
        true => make_missing(cover.as_fd(), name, is_directory, mode),
        false => Ok(()),
    }
}

/// Removes an entry that only closes a name, and those below a directory that led to something shown. `levels` limits their
/// depth: a hook could nest such directories without end.
fn remove_closed(cover: &OwnedFd, name: &CStr, kind: Type, levels: usize) -> io::Result<()> {
    let found = match fstatat(cover, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(found) => found,
        Err(Errno::ENOENT) => return Ok(()),
        Err(errno) => return Err(errno.into()),
    };
    let is_way = kind == Type::Directory && found.st_mode & WAY.bits() == WAY.bits();
    if is_way
        && let Some(levels) = levels.checked_sub(1)
        && let Ok(way) = open_directory(cover, name)
    {
        for (name, kind) in entries(&way)? {
            remove_closed(&way, &name, kind, levels)?;
        }
    }
    if is_way || found.st_mode & 0o777 == 0 {
        let how = if kind == Type::Directory {
            UnlinkatFlags::RemoveDir
        } else {
            UnlinkatFlags::NoRemoveDir
        };
        // One with files of hooks stays, and another run may have done it.
        unlinkat(cover, name, how).ok();
    }
    Ok(())
}

/// Makes the place of a path below a directory that covers, without following what a hook may have left there.
///
/// # Errors
///
/// Returns the error of making a directory or the place.
pub(crate) fn make_place(
    cover: BorrowedFd<'_>,
    below: &Path,
    is_directory: bool,
) -> io::Result<()> {
    // Hooks with another uid than the daemon's pass through.
    let open = Mode::from_bits_truncate(0o755);
    let mut names = below.iter().map(|name| CString::new(name.as_bytes()));
    let Some(mut name) = names.next().transpose()? else {
        return Ok(());
    };
    let mut parent = cover.try_clone_to_owned()?;
    for next in names {
        parent = way(parent.as_fd(), &name, open)?;
        name = next?;
    }
    closed(parent.as_fd(), &name, is_directory, open)
}

/// Makes an entry of a mode where there is none.
fn make_missing(
    cover: BorrowedFd<'_>,
    name: &CStr,
    is_directory: bool,
    mode: Mode,
) -> io::Result<()> {
    let made = if is_directory {
        mkdirat(cover, name, mode)
    } else {
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        openat(cover, name, flags, mode).map(drop)
    };
    match made {
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Makes the place of what is shown. A hook may have made something else of that name.
fn closed(cover: BorrowedFd<'_>, name: &CStr, is_directory: bool, mode: Mode) -> io::Result<()> {
    clear_other(cover, name, |kind| {
        (kind == Type::Directory) == is_directory && kind != Type::Symlink
    })?;
    make_missing(cover, name, is_directory, mode)
}

/// Opens a directory that leads to what is shown, if it was made before.
fn existing_way(cover: &OwnedFd, name: &CStr, kind: Option<Type>) -> Option<OwnedFd> {
    let way = (kind == Some(Type::Directory)).then(|| open_directory(cover, name).ok())??;
    let mode = fstat(&way).ok()?.st_mode;
    (mode & 0o7777 == WAY.bits()).then_some(way)
}

/// Makes and opens a directory that leads to what is shown.
fn way(cover: BorrowedFd<'_>, name: &CStr, mode: Mode) -> io::Result<OwnedFd> {
    clear_other(cover, name, |kind| kind == Type::Directory)?;
    match mkdirat(cover, name, mode) {
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    // By a descriptor of its name alone: a closed one cannot be opened to be read.
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_PATH | OFlag::O_CLOEXEC;
    let named = openat(cover, name, flags, Mode::empty())?;
    // Set in spite of the umask.
    fs::set_permissions(
        by_descriptor(named.as_fd()),
        Permissions::from_mode(mode.bits()),
    )?;
    open_directory(cover, name)
}

/// Repeats a link, unless there is something of that name.
fn copy_link(real: &OwnedFd, cover: &OwnedFd, name: &CStr) -> io::Result<()> {
    let Ok(target) = readlinkat(real, name) else {
        return Ok(());
    };
    match symlinkat(&*target, cover, name) {
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Removes an entry of another kind.
fn clear_other(cover: BorrowedFd<'_>, name: &CStr, fits: impl Fn(Type) -> bool) -> io::Result<()> {
    match kind_of(cover, name) {
        Err(Errno::ENOENT) => Ok(()),
        Ok(kind) if fits(kind) => Ok(()),
        Ok(Type::Directory) => {
            let below = OsStr::from_bytes(name.to_bytes());
            remove(&by_descriptor(cover).join(below))
        }
        Ok(_) => match unlinkat(cover, name, UnlinkatFlags::NoRemoveDir) {
            // Another run has done it.
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        },
        Err(errno) => Err(errno.into()),
    }
}

/// Returns a path that leads to an opened file, regardless of what its name leads to by now.
fn by_descriptor(opened: BorrowedFd<'_>) -> PathBuf {
    format!("/proc/self/fd/{}", opened.as_raw_fd()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_names_are_removed_below_directories_that_led_to_them_and_not_without_end() {
        for (levels, is_removed) in [(MOST_LEVELS, true), (MOST_LEVELS + 1, false)] {
            let place = tempfile::tempdir().unwrap();
            let cover = open_directory(AT_FDCWD, place.path()).unwrap();
            let mut parent = cover.try_clone().unwrap();
            for _ in 0..levels {
                parent = way(parent.as_fd(), c"way", WAY).unwrap();
            }
            closed(parent.as_fd(), c"name", false, Mode::empty()).unwrap();

            remove_closed(&cover, c"way", Type::Directory, MOST_LEVELS).unwrap();

            assert_eq!(!place.path().join("way").exists(), is_removed);
        }
    }
}
