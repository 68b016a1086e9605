//! Warm slots: confined processes that wait, with any program, for the arguments of a run.

use std::{
    ffi::{CStr, CString},
    fs::{self, File},
    io::{self, Write as _},
    os::{fd::AsRawFd, unix::fs::PermissionsExt},
    path::Path,
    sync::Arc,
};

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    sys::{
        memfd::{MFdFlags, memfd_create},
        statvfs::{FsFlags, fstatvfs},
    },
};

use hookjail_policy::{Access, rights::Rights};
use hookjail_sys::{Handed, pipe, slot_program};

use super::SlotReport;
use crate::run::{child_spec::Execution, grants::OpenGrant};
pub(crate) use hookjail_sys::slot_input as input;

/// Name of the program, in its directory and of a process that waits.
const NAME: &CStr = c"hookjail-slot";

/// Writes the program into the directory of the files that make processes wait.
///
/// # Errors
///
/// Returns the first error.
pub(super) fn write(directory: &Path) -> io::Result<()> {
    let path = directory.join(file_name());
    fs::write(&path, slot_program())?;
    fs::set_permissions(&path, PermissionsExt::from_mode(0o555))
}

/// Whether there are slots on this system.
pub(super) const EXIST: bool = true;

/// Has an execution wait in a slot. Returns where the errno arrives if its own program cannot be executed then.
///
/// # Errors
///
/// Fails where the slot's program cannot be opened, or no pipe can be made.
pub(crate) fn wait_in(execution: &mut Execution, directory: &Path) -> io::Result<SlotReport> {
    let (reader, report) = pipe()?;
    // Its other end may be open a moment longer than the process lives.
    fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    let path = directory.join(file_name());
    let file = File::open(&path)?;
    let slot = if fstatvfs(&file)?.flags().contains(FsFlags::ST_NOEXEC) {
        // Of a file in memory alone no rule of Landlock can speak.
        in_memory()?
    } else {
        execution.own.push(OpenGrant {
            path,
            rights: Rights::File(Access::Execute),
            target: Arc::new(file.try_clone()?.into()),
        });
        file
    };
    let program = std::mem::replace(&mut execution.program, slot).into();
    execution.argv = vec![NAME.to_owned()];
    execution.environment = Vec::<CString>::new();
    execution.handed = Some(Handed { program, report });
    Ok(SlotReport(reader))
}

/// Makes the program as a file in memory: the directory's file system executes nothing, as `/run` on some systems.
fn in_memory() -> io::Result<File> {
    let mut written = File::from(memfd_create(NAME, MFdFlags::MFD_CLOEXEC)?);
    written.write_all(&slot_program())?;
    // What is open for writing cannot be executed.
    File::open(format!("/proc/self/fd/{}", written.as_raw_fd()))
}

fn file_name() -> &'static str {
    NAME.to_str().unwrap_or_default()
}
