//! Systems without warm slots.

use std::{ffi::CString, io, path::Path};

use super::SlotReport;
use crate::run::child_spec::Execution;

/// Whether there are slots on this system.
pub(super) const EXIST: bool = false;

/// Writes nothing: see [`EXIST`].
pub(super) const fn write(_directory: &Path) -> io::Result<()> {
    Ok(())
}

/// Fails: see [`EXIST`].
pub(crate) fn wait_in(_execution: &mut Execution, _directory: &Path) -> io::Result<SlotReport> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns none: see [`EXIST`].
pub(crate) const fn input(_argv: &[CString], _environment: &[CString]) -> Option<Vec<u8>> {
    None
}
