//! Makes paths of a workspace read-only for a hook: binds in a mount namespace.
//!
//! Landlock adds rights and subtracts none, so below a directory that a hook may write only a mount can keep something from it. A
//! mount point can also be neither renamed nor removed, replaced or linked to from elsewhere in its namespace.
//!
//! The child's part keeps to the rules of [`super::child`].

use std::{
    ffi::{CStr, CString},
    io,
    mem::MaybeUninit,
    os::{fd::AsFd, unix::ffi::OsStrExt},
    path::Path,
    ptr,
};

use nix::{
    sys::stat::fstat,
    unistd::{getegid, geteuid},
};

use super::{
    child::{call, open},
    job::{address, c_string},
};

/// Paths of a workspace that are bound onto themselves.
#[derive(Debug)]
pub(crate) struct ReadOnly {
    /// In order: a path comes after the one that contains it.
    pub binds: Vec<Bind>,
    /// Ids that a user namespace maps; `None` where the daemon may mount without one.
    pub ids: Option<OwnIds>,
    /// Working directory of the hook.
    pub working_dir: Found,
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

/// An examined directory, and the path for finding it again. Descriptors that were opened before lead to mounts of the daemon's
/// own namespace, where nothing is read-only.
#[derive(Debug)]
pub(crate) struct Found {
    device: u64,
    inode: u64,
    path: CString,
}

/// The daemon's own ids, in the form of the map files.
#[derive(Debug)]
pub(crate) struct OwnIds {
    gid: String,
    uid: String,
}

impl Found {
    /// Examines a path's target.
    ///
    /// # Errors
    ///
    /// Returns the error of `fstat`, or `InvalidInput` where the path holds a NUL byte.
    pub(crate) fn of(path: &Path, target: impl AsFd) -> io::Result<Self> {
        let found = fstat(target)?;
        let path = c_string(path.as_os_str().to_owned());
        Ok(Self {
            device: found.st_dev,
            inode: found.st_ino,
            path: path.ok_or(io::ErrorKind::InvalidInput)?,
        })
    }
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

impl OwnIds {
    /// Maps this process's effective ids to themselves, and no others. The kernel lets a user do no more.
    pub(crate) fn get() -> Self {
        let (uid, gid) = (geteuid(), getegid());
        Self {
            gid: format!("{gid} {gid} 1"),
            uid: format!("{uid} {uid} 1"),
        }
    }
}

/// `struct open_how`.
#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// `struct mount_attr`.
#[repr(C)]
#[derive(Default)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Namespaces to make where the hook's user may not mount.
pub(crate) const NAMESPACES_OF_A_USER: i32 = libc::CLONE_NEWUSER | libc::CLONE_NEWNS;
/// Namespace to make where the daemon has CAP_SYS_ADMIN.
pub(crate) const NAMESPACE_OF_ROOT: i32 = libc::CLONE_NEWNS;

const AT_RECURSIVE: usize = 0x8000;
const MOUNT_ATTR_RDONLY: u64 = 1;
const MOVE_MOUNT_F_EMPTY_PATH: usize = 0x4;
const MOVE_MOUNT_T_EMPTY_PATH: usize = 0x40;
const OPEN_TREE_CLONE: usize = 1;
const OPEN_TREE_CLOEXEC: usize = libc::O_CLOEXEC as usize;

/// Makes the namespace and its binds, and verifies them. Returns the working directory as it is found there.
///
/// Where that takes a user namespace, the child has every capability in it afterwards, and an empty bounding set.
pub(super) fn make(read_only: &ReadOnly) -> Result<usize, i32> {
    match &read_only.ids {
        Some(ids) => {
            unshare(NAMESPACES_OF_A_USER)?;
            // Without a capability outside, groups can be mapped only once none can be left any more.
            write(c"/proc/self/setgroups", "deny")?;
            write(c"/proc/self/uid_map", &ids.uid)?;
            write(c"/proc/self/gid_map", &ids.gid)?;
            empty_bounding_set()?;
        }
        None => {
            unshare(NAMESPACE_OF_ROOT)?;
            // Or the host would get the mounts too. In a namespace of another user that is so from the start.
            let attributes = MountAttributes {
                propagation: libc::MS_SLAVE,
                ..MountAttributes::default()
            };
            set_attributes(libc::AT_FDCWD as usize, c"/", AT_RECURSIVE, &attributes)?;
        }
    }
    let workspace = enter(&read_only.workspace)?;
    for bind in &read_only.binds {
        make_bind(workspace, bind)?;
    }
    close(workspace)?;
    // Only now, or it could lie below what has been mounted since.
    enter(&read_only.working_dir)
}

fn unshare(namespaces: i32) -> Result<(), i32> {
    call(libc::SYS_unshare, [namespaces as usize, 0, 0, 0, 0, 0]).map(drop)
}

fn close(fd: usize) -> Result<(), i32> {
    call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]).map(drop)
}

fn write(path: &CStr, text: &str) -> Result<(), i32> {
    let fd = open(address(path), libc::O_WRONLY)?;
    let written = call(
        libc::SYS_write,
        [fd, text.as_ptr().addr(), text.len(), 0, 0, 0],
    );
    close(fd)?;
    written.map(drop)
}

/// Empties the bounding set. Without it an exec as uid 0 of the namespace would have capabilities in it again.
fn empty_bounding_set() -> Result<(), i32> {
    for capability in 0..=u64::BITS as usize {
        let drop = libc::PR_CAPBSET_DROP as usize;
        match call(libc::SYS_prctl, [drop, capability, 0, 0, 0, 0]) {
            Ok(_) => {}
            // The first number that this kernel does not know.
            Err(libc::EINVAL) if capability > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Opens a directory by its path in this task's own namespace.
fn enter(place: &Found) -> Result<usize, i32> {
    let here = libc::AT_FDCWD as usize;
    // Links of `/proc` lead to other namespaces. Where other links lead, the inode tells.
    let fd = locate(here, &place.path, libc::RESOLVE_NO_MAGICLINKS)?;
    let mut found = MaybeUninit::<libc::stat>::zeroed();
    call(libc::SYS_fstat, [fd, found.as_mut_ptr().addr(), 0, 0, 0, 0])?;
    // SAFETY: zeroes are a valid `stat`, and a successful fstat has filled it in.
    let found = unsafe { found.assume_init() };
    if found.st_dev == place.device && found.st_ino == place.inode {
        Ok(fd)
    } else {
        Err(libc::ESTALE)
    }
}

fn locate(directory: usize, path: &CStr, resolve: u64) -> Result<usize, i32> {
    let how = OpenHow {
        flags: (libc::O_PATH | libc::O_CLOEXEC) as u64,
        mode: 0,
        resolve,
    };
    call(
        libc::SYS_openat2,
        [
            directory,
            address(path),
            ptr::from_ref(&how).addr(),
            size_of::<OpenHow>(),
            0,
            0,
        ],
    )
}

/// Binds a path's target, found without links, onto itself.
fn make_bind(workspace: usize, bind: &Bind) -> Result<(), i32> {
    let beneath = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS;
    let target = locate(workspace, &bind.below, beneath)?;
    let empty = libc::AT_EMPTY_PATH as usize;
    // What is mounted below comes along: without it that would lie open.
    let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | empty;
    let tree = call(libc::SYS_open_tree, [target, address(c""), flags, 0, 0, 0])?;
    if bind.read_only {
        let attributes = MountAttributes {
            set: MOUNT_ATTR_RDONLY,
            ..MountAttributes::default()
        };
        set_attributes(tree, c"", AT_RECURSIVE | empty, &attributes)?;
    }
    let flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
    call(
        libc::SYS_move_mount,
        [tree, address(c""), target, address(c""), flags, 0],
    )?;
    close(tree)?;
    close(target)?;
    // By its path, as the hook would come to it.
    let seen = locate(workspace, &bind.below, beneath)?;
    if bind.read_only && !is_read_only(seen)? {
        return Err(libc::EKEYEXPIRED);
    }
    close(seen)
}

/// Returns whether the mount of a descriptor is read-only.
fn is_read_only(fd: usize) -> Result<bool, i32> {
    // `struct statfs`, whose flags the C library does not name: 15 words, of which they are the eleventh.
    let mut found = [0_u64; 15];
    let words = found.as_mut_ptr().addr();
    call(libc::SYS_fstatfs, [fd, words, 0, 0, 0, 0])?;
    Ok(found[10] & libc::ST_RDONLY != 0)
}

fn set_attributes(
    fd: usize,
    path: &CStr,
    flags: usize,
    attributes: &MountAttributes,
) -> Result<(), i32> {
    call(
        libc::SYS_mount_setattr,
        [
            fd,
            address(path),
            flags,
            ptr::from_ref(attributes).addr(),
            size_of::<MountAttributes>(),
            0,
        ],
    )
    .map(drop)
}
