//! Makes paths of a workspace read-only for a hook, or hides them: binds in a mount namespace.
//!
//! Landlock adds rights and subtracts none, so below a directory that a hook may write only a mount can keep something from it. A
//! mount point can also be neither renamed nor removed, replaced or linked to from elsewhere in its namespace.
//!
//! The child's part keeps to the rules of [`super::child`].

use std::{ffi::CString, os::unix::ffi::OsStrExt, path::Path};

use super::mounts::{
    AT_RECURSIVE, Found, MOUNT_ATTR_RDONLY, MountAttributes, attach, check, close, copy_mount,
    enter, is_directory, locate, set_attributes, statfs,
};

/// Mounts in a workspace.
#[derive(Debug)]
pub struct ReadOnly {
    /// In order: a path comes after the one that contains it.
    pub binds: Vec<Bind>,
    /// Substitutes for hidden paths.
    pub closed: ClosedPaths,
    /// Directories that must lie at their paths.
    pub held: Vec<Found>,
    /// The workspace.
    pub workspace: Found,
}

/// Substitutes for hidden paths, as far as they are needed.
#[derive(Debug)]
pub struct ClosedPaths {
    /// An empty directory that cannot be opened.
    pub directory: Option<Found>,
    /// An empty directory.
    pub empty: Option<Found>,
    /// An empty file that cannot be opened.
    pub file: Option<Found>,
}

/// A mount point.
#[derive(Debug)]
pub struct Bind {
    /// The path, below the workspace.
    pub below: CString,
    /// The mount.
    pub kind: BindKind,
}

/// A mount on a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BindKind {
    /// An empty directory.
    Empty,
    /// Something that cannot be opened.
    Hidden,
    /// The path itself.
    Name,
    /// The path itself, read-only.
    ReadOnly,
}

impl Bind {
    /// Creates a bind of a path below the workspace. `None` if the path holds a NUL byte.
    pub fn new(below: &Path, kind: BindKind) -> Option<Self> {
        Some(Self {
            below: CString::new(below.as_os_str().as_bytes()).ok()?,
            kind,
        })
    }
}

/// Makes the binds, in the child's own namespace, and verifies them.
pub(super) fn make(read_only: &ReadOnly) -> Result<(), i32> {
    for held in &read_only.held {
        close(enter(held)?)?;
    }
    let workspace = enter(&read_only.workspace)?;
    for bind in &read_only.binds {
        match bind.kind {
            BindKind::Empty | BindKind::Hidden => hide(workspace, bind, &read_only.closed)?,
            BindKind::Name | BindKind::ReadOnly => make_bind(workspace, bind)?,
        }
    }
    close(workspace)
}

/// Binds a path's target, found without links, onto itself.
fn make_bind(workspace: usize, bind: &Bind) -> Result<(), i32> {
    let target = locate(workspace, &bind.below, BENEATH)?;
    // Mounts below come along: without them the paths below would lie open.
    let tree = copy_mount(target, true)?;
    if bind.kind == BindKind::ReadOnly {
        make_read_only(tree)?;
    }
    attach(tree, target)?;
    // By its path, as the hook would come to it.
    let seen = locate(workspace, &bind.below, BENEATH)?;
    if bind.kind == BindKind::ReadOnly && !is_read_only(seen)? {
        return Err(libc::EKEYEXPIRED);
    }
    close(seen)
}

/// Puts an empty or closed substitute in the place of a path's target, found without links. A missing target needs nothing: the
/// process that removed it can also make another, at any time.
fn hide(workspace: usize, bind: &Bind, closed: &ClosedPaths) -> Result<(), i32> {
    let target = match locate(workspace, &bind.below, BENEATH) {
        Err(libc::ENOENT) => return Ok(()),
        target => target?,
    };
    let closed = match (bind.kind, is_directory(target)?) {
        (BindKind::Empty, true) => &closed.empty,
        (_, true) => &closed.directory,
        (_, false) => &closed.file,
    };
    let closed = closed.as_ref().ok_or(libc::ESTALE)?;
    let source = enter(closed)?;
    let tree = copy_mount(source, false)?;
    close(source)?;
    make_read_only(tree)?;
    attach(tree, target)?;
    // By its path, as the hook would come to it.
    let seen = locate(workspace, &bind.below, BENEATH)?;
    check(seen, closed)?;
    match is_read_only(seen)? {
        false => Err(libc::EKEYEXPIRED),
        true => close(seen),
    }
}

const BENEATH: u64 =
    libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS;

fn make_read_only(tree: usize) -> Result<(), i32> {
    let attributes = MountAttributes {
        set: MOUNT_ATTR_RDONLY,
        ..MountAttributes::default()
    };
    let flags = AT_RECURSIVE | libc::AT_EMPTY_PATH as usize;
    set_attributes(tree, c"", flags, &attributes)
}

/// Returns whether the mount of a descriptor is read-only.
fn is_read_only(fd: usize) -> Result<bool, i32> {
    Ok(statfs(fd)?.flags & libc::ST_RDONLY != 0)
}
