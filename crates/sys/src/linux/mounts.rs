//! A mount namespace of a child's own, in which it makes mounts before it confines itself.
//!
//! The namespace ends with the last process in it, and its mounts with it. The child's part keeps to the rules of [`super::child`].

use std::{
    ffi::{CStr, CString},
    io,
    mem::MaybeUninit,
    os::fd::AsFd,
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
    read_only::ReadOnly,
    tmpfs::Tmpfs,
    view::View,
};

/// Mounts of a child.
#[derive(Debug)]
pub struct Mounts {
    /// Ids that a user namespace maps; `None` where the daemon may mount without one.
    pub ids: Option<OwnIds>,
    /// Paths of a workspace that stay read-only, if any.
    pub read_only: Option<ReadOnly>,
    /// The file system in the scratch directory's place, if there is one.
    pub scratch: Option<Tmpfs>,
    /// The run's own view of the machine, if it has one.
    pub view: Option<View>,
    /// Working directory of the hook; `None` = `scratch`.
    pub working_dir: Option<Found>,
}

/// An examined directory or file, and the path for finding it again. Descriptors that were opened before lead to mounts of the daemon's
/// own namespace, where nothing of this is mounted.
#[derive(Debug)]
pub struct Found {
    device: u64,
    inode: u64,
    pub(super) path: CString,
}

/// The daemon's own ids, in the form of the map files.
#[derive(Debug)]
pub struct OwnIds {
    gid: String,
    uid: String,
}

impl Found {
    /// Examines a path's target.
    ///
    /// # Errors
    ///
    /// Returns the error of `fstat`, or `InvalidInput` where the path holds a NUL byte.
    pub fn new(path: &Path, target: impl AsFd) -> io::Result<Self> {
        let found = fstat(target)?;
        let path = c_string(path.as_os_str().to_owned());
        Ok(Self {
            device: found.st_dev,
            inode: found.st_ino,
            path: path.ok_or(io::ErrorKind::InvalidInput)?,
        })
    }
}

impl OwnIds {
    /// Maps this process's effective ids to themselves, and no others. The kernel lets a user do no more.
    pub fn get() -> Self {
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
pub(super) struct MountAttributes {
    pub set: u64,
    pub clear: u64,
    pub propagation: u64,
    pub user_namespace: u64,
}

/// `struct statfs` on 64 bits, whose flags the C library does not name.
#[repr(C)]
#[derive(Default)]
pub(super) struct FileSystem {
    pub kind: u64,
    pub block_size: u64,
    pub blocks: u64,
    _free_blocks: [u64; 2],
    pub files: u64,
    _others: [u64; 4],
    pub flags: u64,
    _spare: [u64; 4],
}

/// Added where the run has a process tree of its own.
pub const NAMESPACE_OF_A_TREE: i32 = libc::CLONE_NEWPID;
/// Namespaces to make where the hook's user may not mount.
pub const NAMESPACES_OF_A_USER: i32 = libc::CLONE_NEWUSER | libc::CLONE_NEWNS;
/// Namespace to make where the daemon has CAP_SYS_ADMIN.
pub const NAMESPACE_OF_ROOT: i32 = libc::CLONE_NEWNS;

pub(super) const AT_RECURSIVE: usize = 0x8000;
pub(super) const MOUNT_ATTR_RDONLY: u64 = 1;
const MOVE_MOUNT_F_EMPTY_PATH: usize = 0x4;
const MOVE_MOUNT_T_EMPTY_PATH: usize = 0x40;
const OPEN_TREE_CLONE: usize = 1;
const OPEN_TREE_CLOEXEC: usize = libc::O_CLOEXEC as usize;

/// Makes the namespace, and `more`.
///
/// Where that takes a user namespace, the child has every capability in it afterwards, and an empty bounding set.
pub(super) fn isolate(ids: Option<&OwnIds>, more: i32) -> Result<(), i32> {
    match ids {
        Some(ids) => {
            unshare(NAMESPACES_OF_A_USER | more)?;
            // Without a capability outside, groups can be mapped only once none can be left any more.
            write(c"/proc/self/setgroups", "deny")?;
            write(c"/proc/self/uid_map", &ids.uid)?;
            write(c"/proc/self/gid_map", &ids.gid)?;
            empty_bounding_set()
        }
        None => {
            unshare(NAMESPACE_OF_ROOT | more)?;
            // Or the host would get the mounts too. In a namespace of another user that is so from the start.
            let attributes = MountAttributes {
                propagation: libc::MS_SLAVE,
                ..MountAttributes::default()
            };
            set_attributes(libc::AT_FDCWD as usize, c"/", AT_RECURSIVE, &attributes)
        }
    }
}

fn unshare(namespaces: i32) -> Result<(), i32> {
    call(libc::SYS_unshare, [namespaces as usize, 0, 0, 0, 0, 0]).map(drop)
}

pub(super) fn close(fd: usize) -> Result<(), i32> {
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
            // The first number that this kernel does not have.
            Err(libc::EINVAL) if capability > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Opens an examined path in this task's own namespace.
pub(super) fn enter(place: &Found) -> Result<usize, i32> {
    let fd = locate_here(&place.path)?;
    check(fd, place)?;
    Ok(fd)
}

/// Checks that an opened path is the examined one.
pub(super) fn check(fd: usize, examined: &Found) -> Result<(), i32> {
    let found = stat(fd)?;
    if found.st_dev == examined.device && found.st_ino == examined.inode {
        Ok(())
    } else {
        Err(libc::ESTALE)
    }
}

/// Opens a path in this task's own namespace.
///
/// Links of `/proc` lead to other namespaces. Where other links lead, the caller checks.
pub(super) fn locate_here(path: &CStr) -> Result<usize, i32> {
    locate(libc::AT_FDCWD as usize, path, libc::RESOLVE_NO_MAGICLINKS)
}

/// Returns the state of an opened file.
pub(super) fn stat(fd: usize) -> Result<libc::stat, i32> {
    let mut found = MaybeUninit::<libc::stat>::zeroed();
    call(libc::SYS_fstat, [fd, found.as_mut_ptr().addr(), 0, 0, 0, 0])?;
    // SAFETY: zeroes are a valid `stat`, and a successful fstat has filled it in.
    Ok(unsafe { found.assume_init() })
}

/// Returns whether an opened file is a directory.
pub(super) fn is_directory(fd: usize) -> Result<bool, i32> {
    Ok(stat(fd)?.st_mode & libc::S_IFMT == libc::S_IFDIR)
}

/// Returns the state of the file system and the mount of an opened file.
pub(super) fn statfs(fd: usize) -> Result<FileSystem, i32> {
    let mut found = FileSystem::default();
    call(
        libc::SYS_fstatfs,
        [fd, ptr::from_mut(&mut found).addr(), 0, 0, 0, 0],
    )?;
    Ok(found)
}

pub(super) fn locate(directory: usize, path: &CStr, resolve: u64) -> Result<usize, i32> {
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

pub(super) fn set_attributes(
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

/// Copies the mount of an opened path.
pub(super) fn copy_mount(opened: usize, recursive: bool) -> Result<usize, i32> {
    let mut flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | libc::AT_EMPTY_PATH as usize;
    if recursive {
        flags |= AT_RECURSIVE;
    }
    call(libc::SYS_open_tree, [opened, address(c""), flags, 0, 0, 0])
}

/// Attaches a copied mount to an opened path. Both are closed.
pub(super) fn attach(tree: usize, place: usize) -> Result<(), i32> {
    let flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
    call(
        libc::SYS_move_mount,
        [tree, address(c""), place, address(c""), flags, 0],
    )?;
    close(tree)?;
    close(place)
}
