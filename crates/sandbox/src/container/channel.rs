//! Messages between a daemon and a container's first process. They go over a socket that is mounted into the container.
//!
//! The daemon sends one [`Order`] with the hook's three pipes. The container's first process answers with [`Answer`]s, and ends
//! with everything in the container when the daemon's end of the socket closes.

use std::{
    ffi::{CString, OsStr},
    io,
    os::unix::ffi::OsStrExt,
    path::Path,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use hookjail_sys::{Described, Reaped};

use crate::seccomp::FilterSpec;

/// Length limit of a message, bytes, above that of any order. Argv and environment are limited to 2 MiB, which JSON's numbers
/// make four times as long.
const LONGEST: usize = 32 * 1024 * 1024;

/// The identity of a file, independent of its name.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Inode {
    pub(crate) device: u64,
    pub(crate) number: u64,
}

/// A place that must be in the container.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Expected {
    /// Whether programs may be executed there.
    pub(crate) executable: bool,
    /// The file that the path must lead to; `None` = a file of the container's own.
    pub(crate) inode: Option<Inode>,
    /// The size in bytes and the number of inodes that its file system must have, if it is to be limited.
    pub(crate) limits: Option<(u64, u64)>,
    /// The path in the container.
    pub(crate) path: CString,
    /// Whether anything may be written there.
    pub(crate) writable: bool,
}

/// The task of the first process after its check of the container.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum ContainerTask {
    /// A child makes syscalls: a self-test.
    Attempt(Vec<Described>),
    /// A child executes a program.
    Execute {
        argv: Vec<CString>,
        environment: Vec<CString>,
        inode: Inode,
        program: CString,
    },
}

/// The order to the first process of a container.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Order {
    /// A file of the daemon's that must not be there.
    pub(crate) canary_denied: CString,
    /// A file that must open.
    pub(crate) canary_granted: CString,
    /// The complete list of required mounts.
    pub(crate) expected: Vec<Expected>,
    /// Inputs of the child's filters.
    pub(crate) filters: FilterSpec,
    /// Resource limits of the child.
    pub(crate) limits: Vec<(u32, u64)>,
    pub(crate) task: ContainerTask,
    /// Umask of the child.
    pub(crate) umask: u32,
    /// Where the child starts.
    pub(crate) working_dir: CString,
}

/// An answer of the first process of a container.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Answer {
    /// Results of a self-test's attempts; `None` for those that the child did not reach.
    Attempted(Vec<Option<isize>>),
    /// The hook has ended. The last answer.
    Ended(Reaped),
    /// The container was not as ordered, so nothing was released.
    Refused(String),
    /// A step of the child's set-up failed: the step's name and the errno.
    Stuck { errno: i32, step: String },
    /// The hook is about to start. The hook may have run from here on, unless a later answer reports a failed step or exec.
    Starting,
    /// The child has been released, with the errno of a failed exec. The child is not reaped until the daemon confirms
    /// that it has inspected it.
    Released { errno: i32, filters: u32 },
}

/// Encodes a message for the socket: its length as four bytes, and JSON.
pub(crate) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = u32::try_from(bytes.len() - 4).map_err(io::Error::other)?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

/// Decodes the length of a message.
///
/// # Errors
///
/// `InvalidData` above the length limit.
pub(crate) fn length(bytes: [u8; 4]) -> io::Result<usize> {
    let length = usize::try_from(u32::from_le_bytes(bytes)).unwrap_or(usize::MAX);
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(length)
}

/// Decodes a complete message.
///
/// # Errors
///
/// `InvalidData` where the message is not of the expected type.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    Ok(serde_json::from_slice(bytes)?)
}

/// Encodes a path for a message: as bytes, since a name need not be UTF-8.
///
/// # Errors
///
/// `InvalidInput` where it holds a NUL byte.
pub(crate) fn packed(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// Decodes the path of a message.
pub(crate) fn path(packed: &CString) -> &Path {
    Path::new(OsStr::from_bytes(packed.to_bytes()))
}
