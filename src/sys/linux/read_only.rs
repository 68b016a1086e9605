//! Makes paths of a workspace read-only for a hook: binds in a mount namespace.
//!
//! Landlock adds rights and subtracts none, so below a directory that a hook may write only a mount can keep something from it. A
//! mount point can also be neither renamed nor removed, replaced or linked to from elsewhere in its namespace.
//!
//! The child's part keeps to the rules of [`super::child`].

use std::{ffi::CString, os::unix::ffi::OsStrExt, path::Path};

use super::mounts::{
    AT_RECURSIVE, Found, MOUNT_ATTR_RDONLY, MountAttributes, attach, close, copy_mount, enter,
    locate, set_attributes, statfs,
};

/// Paths of a workspace that are bound onto themselves.
#[derive(Debug)]
pub(crate) struct ReadOnly {
    /// In order: a path comes after the one that contains it.
    pub binds: Vec<Bind>,
    /// The workspace.
    pub workspace: Found,
}

/// A path that is bound onto itself.
#[derive(Debug)]
pub(crate) struct Bind {
    /// The path, below the workspace.
    pub below: CString,
    /// Whether it becomes read-only, or only a mount point.
    pub read_only: bool,
}

impl Bind {
    /// Creates a bind of a path below the workspace. `None` if the path holds a NUL byte.
    pub(crate) fn new(below: &Path, read_only: bool) -> Option<Self> {
        Some(Self {
            below: CString::new(below.as_os_str().as_bytes()).ok()?,
            read_only,
        })
    }
}

/// Makes the binds, in the child's own namespace, and verifies them.
pub(super) fn make(read_only: &ReadOnly) -> Result<(), i32> {
    let workspace = enter(&read_only.workspace)?;
    for bind in &read_only.binds {
        make_bind(workspace, bind)?;
    }
    close(workspace)
}

/// Binds a path's target, found without links, onto itself.
fn make_bind(workspace: usize, bind: &Bind) -> Result<(), i32> {
    let beneath = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS;
    let target = locate(workspace, &bind.below, beneath)?;
    let empty = libc::AT_EMPTY_PATH as usize;
    // What is mounted below comes along: without it that would lie open.
    let tree = copy_mount(target, true)?;
    if bind.read_only {
        let attributes = MountAttributes {
            set: MOUNT_ATTR_RDONLY,
            ..MountAttributes::default()
        };
        set_attributes(tree, c"", AT_RECURSIVE | empty, &attributes)?;
    }
    attach(tree, target)?;
    // By its path, as the hook would come to it.
    let seen = locate(workspace, &bind.below, beneath)?;
    if bind.read_only && !is_read_only(seen)? {
        return Err(libc::EKEYEXPIRED);
    }
    close(seen)
}

/// Returns whether the mount of a descriptor is read-only.
fn is_read_only(fd: usize) -> Result<bool, i32> {
    Ok(statfs(fd)?.flags & libc::ST_RDONLY != 0)
}
