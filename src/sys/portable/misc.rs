//! What these systems do not have, or have otherwise.

use std::{fs::File, io};

use nix::sys::resource::{Resource, setrlimit};

/// On Linux, the rights of another user over files, which a root daemon takes for a while. No daemon is root here: what a
/// caller may read is decided by modes alone.
#[derive(Debug)]
pub struct FileRights(());

impl FileRights {
    /// Changes nothing, as for every user but root.
    pub const fn of(_uid: u32, _gid: u32) -> Self {
        Self(())
    }
}

/// Does nothing: no caller's rights are taken here.
///
/// # Errors
///
/// Never.
pub const fn drop_groups() -> io::Result<()> {
    Ok(())
}

/// Keeps no room: these systems have no one call for it.
///
/// # Errors
///
/// Never.
pub const fn reserve(_file: &File, _bytes: u64) -> io::Result<()> {
    Ok(())
}

/// Fails: no file can be kept from being written here, so what is not root's is copied.
///
/// # Errors
///
/// Always.
pub fn keep_writers_out(_file: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Gives memory back to the system that was freed: left to the allocator here.
pub const fn give_memory_back() {}

/// Whether the change time of a file tells of every store to it: not known here.
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

/// Allows no core images to this process and all that it starts.
///
/// # Errors
///
/// Returns the error of `setrlimit`.
pub fn switch_off_core_images() -> io::Result<()> {
    Ok(setrlimit(Resource::RLIMIT_CORE, 0, 0)?)
}
