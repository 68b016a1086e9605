//! Keeps what the symbolic links among kept paths lead to: a hook could change a kept file by the path of the other.

use std::{
    ffi::OsStr,
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use nix::{
    dir::Type,
    errno::Errno,
    fcntl::{AtFlags, OFlag},
    sys::stat::{Mode, fstatat},
};

use hookjail_base::{
    refusal::Refusal,
    util::{
        listing::{entries, open_directory},
        way::Way,
    },
};
use hookjail_policy::{Files, Keep};
use hookjail_sys::{Links, open_beneath};

use super::{Kept, NAMES, asked_for, is_directory, raise_with_way, unkept, unseen};

/// Levels of a kept directory in which links are looked for.
const LEVELS: usize = 3;

/// Maximum number of names in a tree's kept directories that are looked at.
const MOST_NAMES: usize = 50_000;

/// The contents of a kept directory that matter.
#[derive(Debug, Default)]
struct Listed {
    links: Vec<PathBuf>,
    looked_at: usize,
    /// A file of its own, not of a directory in it, that has another name too.
    second_name: Option<PathBuf>,
}

impl Kept {
    /// Keeps what links in kept directories lead to.
    ///
    /// # Errors
    ///
    /// Refuses where a hook could change what a link leads to, and files that have another name too (`POLICY_UNENFORCEABLE`).
    pub(super) fn keep_linked(&mut self, files: &Files) -> Result<(), Refusal> {
        let unchanged = |(below, keep): (&PathBuf, &Keep)| {
            let made = self.placeholders.as_ref();
            let is_empty = made.is_some_and(|made| made.has_untouched(below));
            let is_listed = *keep == Keep::Unchanged && !is_empty;
            is_listed.then(|| below.clone())
        };
        let mut left: Vec<_> = self.points.iter().filter_map(unchanged).collect();
        let mut looked_at = 0;
        while let Some(directory) = left.pop() {
            let listed = self.list(&directory, &mut looked_at);
            let path = || self.workspace.join(&directory);
            let listed = listed.map_err(|errno| unseen(&path(), errno))?;
            if let Some(file) = listed.second_name {
                let entry = asked_for(files, &directory);
                return Err(unkept(&self.workspace.join(file), &entry, NAMES));
            }
            if looked_at > MOST_NAMES {
                return Err(unkept(&path(), &asked_for(files, &directory), MANY));
            }
            for link in listed.links {
                let target = self.led_to(&link, files);
                let target = target.map_err(|why| {
                    let entry = asked_for(files, &directory);
                    unkept(&self.workspace.join(&link), &entry, why)
                })?;
                let Some(target) = target.filter(|target| !self.stays(target)) else {
                    continue;
                };
                raise_with_way(&mut self.points, &target, Keep::Unchanged);
                left.push(target);
            }
        }
        Ok(())
    }

    /// Returns whether a path stays as it is, as one that is kept or lies in one.
    fn stays(&self, below: &Path) -> bool {
        let mut way = below.ancestors().filter_map(|way| self.points.get(way));
        way.any(|keep| *keep >= Keep::Unchanged)
    }

    /// Lists the links of a kept directory; none of what is none.
    fn list(&self, directory: &Path, looked_at: &mut usize) -> Result<Listed, Errno> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY;
        let opened = open_beneath(
            &self.target,
            directory,
            flags,
            Mode::empty(),
            Links::Refused,
        );
        let mut listed = Listed {
            looked_at: *looked_at,
            ..Listed::default()
        };
        let searched = opened.map_err(io::Error::from);
        let searched = searched.and_then(|opened| listed.search(&opened, directory, LEVELS));
        match searched.map_err(|error| errno_of(&error)) {
            Ok(()) | Err(Errno::EACCES | Errno::ELOOP | Errno::ENOENT | Errno::ENOTDIR) => {}
            Err(errno) => return Err(errno),
        }
        *looked_at = listed.looked_at;
        Ok(listed)
    }

    /// Returns the path below the tree to which a link leads; `None` where that lies out of every hook's reach.
    ///
    /// # Errors
    ///
    /// Returns why a hook could change what it leads to.
    fn led_to(&self, link: &Path, files: &Files) -> Result<Option<PathBuf>, &'static str> {
        let way = Way::follow(&self.workspace.join(link));
        if way
            .links
            .iter()
            .chain([&way.end])
            .any(|it| it.starts_with("/proc"))
        {
            return Err(OF_A_PROCESS);
        }
        let below = |path: &Path| path.strip_prefix(&self.workspace).map(Path::to_owned).ok();
        let is_written = |path: &Path| {
            let meets = |other: &Path| path.starts_with(other) || other.starts_with(path);
            meets(&self.workspace) || files.written().any(meets)
        };
        let is_fixed = |path: &Path| below(path).is_some_and(|below| self.stays(&below));
        let mut others = way.links.iter().skip(1);
        if others.any(|other| is_written(other) && !is_fixed(other)) {
            return Err(THROUGH);
        }
        match below(&way.end).filter(|below| !below.as_os_str().is_empty()) {
            Some(below) if way.is_whole => self.has_one_name(&below).map(|()| Some(below)),
            Some(_) => Err(NOWHERE),
            None if is_written(&way.end) => Err(AROUND),
            None => Ok(None),
        }
    }

    fn has_one_name(&self, below: &Path) -> Result<(), &'static str> {
        match fstatat(&self.target, below, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) if is_directory(found.st_mode) || found.st_nlink < 2 => Ok(()),
            Ok(_) => Err(LED_NAMES),
            Err(_) => Err(NOWHERE),
        }
    }
}

impl Listed {
    fn search(&mut self, opened: &OwnedFd, directory: &Path, levels: usize) -> io::Result<()> {
        let entries = entries(opened)?;
        self.looked_at += entries.len();
        if self.looked_at > MOST_NAMES {
            return Ok(());
        }
        for (name, kind) in entries {
            let name = OsStr::from_bytes(name.to_bytes());
            let below = directory.join(name);
            match kind {
                Type::Symlink => self.links.push(below),
                Type::Directory if levels > 1 => {
                    if let Ok(opened) = open_directory(opened, name) {
                        self.search(&opened, &below, levels - 1)?;
                    }
                }
                Type::Directory => {}
                Type::File if levels == LEVELS => {
                    let found = fstatat(opened, name, AtFlags::AT_SYMLINK_NOFOLLOW);
                    if found.is_ok_and(|found| found.st_nlink > 1) {
                        self.second_name = Some(below);
                    }
                }
                Type::File
                | Type::Fifo
                | Type::Socket
                | Type::CharacterDevice
                | Type::BlockDevice => {}
            }
        }
        Ok(())
    }
}

pub(super) fn errno_of(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}

const AROUND: &str = "a symbolic link leads around the workspace or to another writable place; link it to a file of its own";
const LED_NAMES: &str =
    "a symbolic link leads to a file with another hard link; replace that file by a copy of itself";
const MANY: &str = "the directory has more names than are looked at; move the rest elsewhere";
const NOWHERE: &str =
    "a symbolic link leads to a missing file that a hook could make; make it, or remove the link";
const OF_A_PROCESS: &str = "a symbolic link leads by way of `/proc`, to another file in each process; make it lead there directly";
const THROUGH: &str = "a symbolic link leads through another one, which could be replaced; make it lead there directly";
