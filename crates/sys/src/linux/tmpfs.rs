//! Puts a file system in memory in the place of a run's scratch directory, with limits on size and number of files.
//!
//! The child's part keeps to the rules of [`super::child`].

use std::{
    ffi::{CStr, CString},
    io,
    os::fd::AsFd,
    path::Path,
    ptr,
};

use nix::unistd::{getegid, geteuid};

use super::{
    Identity,
    child::call,
    job::address,
    mounts::{Found, close, enter, locate_here, stat, statfs},
};

/// A file system in memory.
#[derive(Debug)]
pub struct Tmpfs {
    /// Bytes of all its files together.
    bytes: u64,
    /// The directory that it covers.
    covered: Found,
    /// Number of its files, its root included.
    files: u64,
    /// Options of the mount.
    options: CString,
    /// Owner of its root: uid and gid.
    owner: (u32, u32),
    /// Rights that Landlock is to grant on it: `LANDLOCK_ACCESS_FS_*`.
    rights: u64,
}

impl Tmpfs {
    /// Prepares a file system of a size and a number of files beside its root, for a child of this identity.
    ///
    /// # Errors
    ///
    /// Fails where the directory that it covers cannot be examined.
    pub fn covering(
        (path, opened): (&Path, impl AsFd),
        (bytes, files): (u64, u64),
        identity: Option<&Identity>,
        rights: u64,
    ) -> io::Result<Self> {
        let files = files.saturating_add(1);
        let daemon = || (geteuid().as_raw(), getegid().as_raw());
        let owner = identity.map_or_else(daemon, |identity| (identity.uid, identity.gid));
        let (uid, gid) = owner;
        let options = format!("size={bytes},nr_inodes={files},mode=0700,uid={uid},gid={gid}");
        Ok(Self {
            bytes,
            covered: Found::new(path, opened)?,
            files,
            options: CString::new(options)?,
            owner,
            rights,
        })
    }
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct PathBeneath {
    allowed: u64,
    parent: i32,
}

const FLAGS: u64 = libc::MS_NODEV | libc::MS_NOEXEC | libc::MS_NOSUID;
const LANDLOCK_RULE_PATH_BENEATH: usize = 1;
const NAME: &CStr = c"tmpfs";

/// Mounts it, in the child's own namespace, verifies its limits, and grants it in a ruleset. Returns its root.
pub(super) fn make(tmpfs: &Tmpfs, ruleset: Option<usize>) -> Result<usize, i32> {
    let covered = enter(&tmpfs.covered)?;
    // Mounted on the working directory, so that no path decides where.
    call(libc::SYS_fchdir, [covered, 0, 0, 0, 0, 0])?;
    close(covered)?;
    let (kind, options) = (address(NAME), address(&tmpfs.options));
    let mount = [kind, address(c"."), kind, FLAGS as usize, options, 0];
    call(libc::SYS_mount, mount)?;
    // By its path, as the hook would come to it.
    let root = locate_here(&tmpfs.covered.path)?;
    if !holds(root, tmpfs)? {
        return Err(libc::EKEYEXPIRED);
    }
    if let Some(ruleset) = ruleset {
        grant(ruleset, root, tmpfs.rights)?;
    }
    Ok(root)
}

/// Grants rights on an opened path in a ruleset.
pub(super) fn grant(ruleset: usize, path: usize, rights: u64) -> Result<(), i32> {
    let rule = PathBeneath {
        allowed: rights,
        parent: path as i32,
    };
    let rule = ptr::from_ref(&rule).addr();
    let kind = LANDLOCK_RULE_PATH_BENEATH;
    call(libc::SYS_landlock_add_rule, [ruleset, kind, rule, 0, 0, 0]).map(drop)
}

/// Returns whether a directory is the root of such a file system, with its limits as the kernel shows them.
fn holds(root: usize, tmpfs: &Tmpfs) -> Result<bool, i32> {
    let (found, seen) = (stat(root)?, statfs(root)?);
    // The kernel counts whole blocks.
    let rounded = tmpfs.bytes.wrapping_add(seen.block_size.wrapping_sub(1));
    let blocks = rounded.checked_div(seen.block_size);
    Ok(seen.kind == libc::TMPFS_MAGIC as u64
        && Some(seen.blocks) == blocks
        && seen.files == tmpfs.files
        && seen.flags & FLAGS == FLAGS
        && (found.st_uid, found.st_gid) == tmpfs.owner)
}
