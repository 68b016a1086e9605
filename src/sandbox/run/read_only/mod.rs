//! Finds the paths of a writable workspace that stay read-only in a run.

#[cfg(target_os = "linux")]
use std::sync::Arc;
use std::{
    collections::BTreeMap,
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use libc::mode_t;
use nix::{
    errno::Errno,
    fcntl::OFlag,
    sys::stat::{Mode, SFlag, fstat, mkdirat},
};

#[cfg(target_os = "linux")]
use crate::policy::{Access, rights::Rights};
#[cfg(target_os = "linux")]
use crate::sandbox::run::grants::OpenGrant;
use crate::{
    model::axis::Axis,
    policy::ReadOnly,
    refusal::{Fact, Reason, Refusal},
    sandbox::run::grants,
    sys::{BY_NAME, Links, open_beneath},
};

/// A tree with paths that stay read-only.
#[derive(Debug)]
pub(in crate::sandbox) struct Kept {
    /// Whether each path below the tree becomes read-only, or only keeps its name. A path inside another comes after it.
    pub points: BTreeMap<PathBuf, bool>,
    /// The workspace, or the directory that holds it and the directories of git that belong to it.
    pub target: OwnedFd,
    /// Its path.
    pub workspace: PathBuf,
}

impl Kept {
    /// Finds the paths to keep read-only in a workspace; `None` if there are none.
    ///
    /// With the caller's rights. A missing directory that must be read-only is created, because a hook could create it
    /// otherwise.
    ///
    /// # Errors
    ///
    /// Refuses paths that cannot be kept read-only: behind a symbolic link, with a second hard link, or missing and not
    /// a directory (`POLICY_UNENFORCEABLE`); and paths that cannot be examined (`GRANT_MISSING`).
    pub(in crate::sandbox) fn find(
        workspace: &Path,
        list: &[ReadOnly],
    ) -> Result<Option<Self>, Refusal> {
        let opened = grants::open(workspace, Links::Refused);
        let (target, _) = opened.map_err(|errno| unseen(workspace, errno))?;
        let mut points = BTreeMap::new();
        for kept in list {
            let mut way: Vec<&Path> = kept.below.ancestors().collect();
            // Without the empty path at its end, the shortest first.
            way.pop();
            way.reverse();
            for below in way {
                let path = workspace.join(below);
                let last = below == kept.below;
                let found = match find(&target, below) {
                    Err(Errno::ENOENT) if last && kept.directory => {
                        make(&target, below).and_then(|()| find(&target, below))
                    }
                    found => found,
                };
                let kind = match found {
                    Ok(kind) => kind,
                    // A missing parent: no file exists below it that must stay unchanged.
                    Err(Errno::ENOENT) if !last => break,
                    Err(Errno::ENOENT) => return Err(unkept(&path, kept, MISSING)),
                    Err(Errno::ELOOP) => return Err(unkept(&path, kept, LINK)),
                    Err(errno) => return Err(unseen(&path, errno)),
                };
                match kind {
                    Found::Directory => {
                        *points.entry(below.to_owned()).or_default() |= last;
                    }
                    Found::Named(false) => {
                        // The name itself is kept, because paths below it could only be created in its place.
                        points.insert(below.to_owned(), true);
                        break;
                    }
                    Found::Named(true) => return Err(unkept(&path, kept, NAMES)),
                }
            }
        }
        Ok((!points.is_empty()).then(|| Self {
            points,
            target,
            workspace: workspace.to_owned(),
        }))
    }
}

impl Kept {
    /// Finds the paths to keep read-only as [`Kept::find`] does, and in the directories of git that belong to the workspace and lie
    /// elsewhere: the same as of `.git`, and what names the common directory and its configuration.
    ///
    /// # Errors
    ///
    /// As [`Kept::find`].
    pub(in crate::sandbox) fn find_with_git(
        workspace: &Path,
        list: &[ReadOnly],
        git: Option<(&Path, &Path)>,
    ) -> Result<Option<Self>, Refusal> {
        let kept = Self::find(workspace, list)?;
        let of_git = list.iter().filter_map(|kept| {
            let below = kept.below.strip_prefix(".git").ok()?;
            Some(ReadOnly {
                below: below.to_owned(),
                ..*kept
            })
        });
        let of_git: Vec<_> = of_git.collect();
        let Some((common, own)) = git.filter(|_| !of_git.is_empty()) else {
            return Ok(kept);
        };
        let mut lists = vec![(common, of_git)];
        for name in ["commondir", "config.worktree", "gitdir"] {
            let path = own.join(name);
            if path.symlink_metadata().is_err() {
                continue;
            }
            let tree = match own.starts_with(common) {
                true => common,
                false => own,
            };
            let kept = ReadOnly {
                below: path.strip_prefix(tree).unwrap_or(&path).to_owned(),
                directory: false,
            };
            match lists.iter_mut().find(|(known, _)| *known == tree) {
                Some((_, list)) => list.push(kept),
                None => lists.push((tree, vec![kept])),
            }
        }
        let mut all: Vec<_> = kept.into_iter().collect();
        for (tree, list) in lists {
            all.extend(Self::find(tree, &list)?);
        }
        Self::joined(all)
    }

    /// Joins the paths of several trees, below the directory that holds all of them.
    fn joined(all: Vec<Self>) -> Result<Option<Self>, Refusal> {
        let mut trees = all.iter().map(|kept| kept.workspace.as_path());
        let Some(first) = trees.next() else {
            return Ok(None);
        };
        let holds_all = |above: &&Path| trees.clone().all(|tree| tree.starts_with(above));
        let above = first.ancestors().find(holds_all).unwrap_or(Path::new("/"));
        let (above, mut points) = (above.to_owned(), BTreeMap::new());
        let opened = grants::open(&above, Links::Refused);
        let (target, _) = opened.map_err(|errno| unseen(&above, errno))?;
        for kept in all {
            let tree = kept.workspace.strip_prefix(&above).unwrap_or(&above);
            for (below, read_only) in kept.points {
                *points.entry(tree.join(below)).or_default() |= read_only;
            }
        }
        Ok(Some(Self {
            points,
            target,
            workspace: above,
        }))
    }
}

#[cfg(target_os = "linux")]
impl Kept {
    /// Returns the mounts on top of the workspace's grants.
    ///
    /// # Errors
    ///
    /// Fails where the workspace has changed since [`Kept::find`].
    pub(in crate::sandbox) fn grants(&self) -> io::Result<Vec<OpenGrant>> {
        let points = self.points.iter().map(|(below, read_only)| {
            let opened = open_beneath(&self.target, below, BY_NAME, Mode::empty(), Links::Refused)?;
            let access = if *read_only {
                Access::Execute
            } else {
                Access::Write
            };
            let is_directory = is_directory(fstat(&opened)?.st_mode);
            Ok(OpenGrant {
                path: self.workspace.join(below),
                rights: Rights::of(access, is_directory),
                target: Arc::new(opened),
            })
        });
        points.collect()
    }
}

/// Refuses because a path cannot be opened.
fn unseen(path: &Path, errno: Errno) -> Refusal {
    let what = format_args!("`{}` cannot be opened", path.display());
    Refusal::failed(what, &io::Error::from(errno), |message| {
        Refusal::new(Reason::GrantMissing, message)
    })
    .with(Fact::Path(path.display().to_string()))
}

/// Target of a path.
enum Found {
    Directory,
    /// A file, and whether it has other hard links.
    Named(bool),
}

fn find(workspace: &OwnedFd, below: &Path) -> Result<Found, Errno> {
    let opened = open_beneath(workspace, below, BY_NAME, Mode::empty(), Links::Refused)?;
    let found = fstat(&opened)?;
    Ok(if is_directory(found.st_mode) {
        Found::Directory
    } else {
        Found::Named(found.st_nlink > 1)
    })
}

const fn is_directory(mode: mode_t) -> bool {
    mode & SFlag::S_IFMT.bits() == SFlag::S_IFDIR.bits()
}

fn make(workspace: &OwnedFd, below: &Path) -> Result<(), Errno> {
    let (Some(parent), Some(name)) = (below.parent(), below.file_name()) else {
        return Err(Errno::ENOENT);
    };
    let flags = BY_NAME | OFlag::O_DIRECTORY;
    let opened = match parent {
        none if none.as_os_str().is_empty() => None,
        some => Some(open_beneath(
            workspace,
            some,
            flags,
            Mode::empty(),
            Links::Refused,
        )?),
    };
    let mode = Mode::from_bits_truncate(0o755);
    match mkdirat(opened.as_ref().unwrap_or(workspace), name, mode) {
        // Another run may have created it meanwhile.
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(errno) => Err(errno),
    }
}

const LINK: &str = "it is a symbolic link, and what that leads to could be replaced; put what it leads to in its place";
const MISSING: &str = "it is missing, and a hook could make it; make it";
const NAMES: &str = "it has another name too (a hard link), by which it could be written; replace it by a copy of itself";

/// Refuses because a path cannot be kept read-only.
fn unkept(path: &Path, kept: &ReadOnly, why: &str) -> Refusal {
    let message = format!(
        "`{}` cannot be kept read-only (`files.read_only` has `{kept}`): {why}, or take a profile without `files.read_only`",
        path.display()
    );
    Refusal::new(Reason::PolicyUnenforceable, message)
        .with(Fact::Axis(Axis::Write))
        .with(Fact::Path(path.display().to_string()))
}

#[cfg(test)]
mod tests;
