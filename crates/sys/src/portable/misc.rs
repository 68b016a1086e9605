//! Substitutes for calls that these systems lack, or have otherwise.

use std::{ffi::CStr, fs::File, io, os::fd::BorrowedFd, sync::Arc};

use nix::sys::resource::{Resource, setrlimit};

/// On Linux, the rights of another user over files, which a root daemon takes temporarily. No daemon is root here: modes alone
/// decide which files a caller may read.
#[derive(Debug)]
pub struct FileRights(());

impl FileRights {
    /// Changes nothing, as for every user but root.
    pub const fn for_user(_uid: u32, _gid: u32, _groups: &[u32]) -> Self {
        Self(())
    }
}

/// Returns none: no hook runs as its caller here.
///
/// # Errors
///
/// Never.
pub fn peer_groups(_socket: BorrowedFd<'_>) -> io::Result<Arc<[u32]>> {
    Ok(Arc::default())
}

/// Returns none, like [`peer_groups`]: a user has the same groups over the network as on the socket.
///
/// # Errors
///
/// Never.
pub fn user_groups(_name: &CStr, _gid: u32) -> io::Result<Arc<[u32]>> {
    Ok(Arc::default())
}

/// Does nothing: no caller's rights are taken here.
///
/// # Errors
///
/// Never.
pub const fn drop_groups() -> io::Result<()> {
    Ok(())
}

/// Returns the largest number: macOS takes a limit on memory and does not keep it.
pub const fn address_space_limit() -> usize {
    usize::MAX
}

/// Reserves no space: these systems have no common call for it.
///
/// # Errors
///
/// Never.
pub const fn reserve(_file: &File, _bytes: u64) -> io::Result<()> {
    Ok(())
}

/// Fails: these systems have no order in which processes are killed for lack of memory.
///
/// # Errors
///
/// Always.
pub fn take_first(_pid: i32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Fails, like [`take_first`].
///
/// # Errors
///
/// Always.
pub fn take_as_hooks(_pid: i32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Fails: no file can be kept from being written here. Files that are not root's are copied.
///
/// # Errors
///
/// Always.
pub fn keep_writers_out(_file: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Leaves how much freed memory is kept to the allocator.
pub const fn keep_little_memory() {}

/// Leaves returning freed memory to the allocator.
pub const fn give_memory_back() {}

/// Returns `false`: whether a file's change time follows every store is unknown here.
pub const fn stores_change_times(_file: &File) -> bool {
    false
}

/// Does nothing: orphans belong to the first process of the system.
///
/// # Errors
///
/// Never.
pub const fn become_subreaper() -> io::Result<()> {
    Ok(())
}

/// Disables core images of this process and all that it starts.
///
/// # Errors
///
/// Returns the error of `setrlimit`.
pub fn switch_off_core_images() -> io::Result<()> {
    Ok(setrlimit(Resource::RLIMIT_CORE, 0, 0)?)
}
