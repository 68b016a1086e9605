//! Lists directories by descriptors, without following links.

use std::{
    ffi::{CStr, CString},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use nix::{
    dir::{Dir, Type},
    fcntl::{AtFlags, OFlag, openat},
    sys::stat::{Mode, SFlag, fstatat},
};

/// Opens a directory that is no link.
///
/// # Errors
///
/// Returns the error of opening it.
pub(crate) fn open_directory<P: ?Sized + nix::NixPath>(
    at: impl AsFd,
    path: &P,
) -> io::Result<OwnedFd> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    Ok(openat(at, path, flags, Mode::empty())?)
}

/// Returns the entries of a directory with their types, `File` for whatever is neither a directory nor a link.
///
/// # Errors
///
/// Returns the error of listing it.
pub(crate) fn entries(directory: &OwnedFd) -> io::Result<Vec<(CString, Type)>> {
    let mut listing = Dir::from_fd(open_directory(directory, ".")?)?;
    let mut found = Vec::new();
    for entry in listing.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        // Some file systems do not say.
        let kind = entry
            .file_type()
            .or_else(|| kind_of(directory.as_fd(), name).ok());
        found.push((name.to_owned(), kind.unwrap_or(Type::File)));
    }
    Ok(found)
}

/// Returns the type of an entry, `File` for whatever is neither a directory nor a link.
///
/// # Errors
///
/// Returns the error of `fstatat`.
pub(crate) fn kind_of(directory: BorrowedFd<'_>, name: &CStr) -> nix::Result<Type> {
    let mode = fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)?.st_mode;
    let kind = mode & SFlag::S_IFMT.bits();
    Ok(if kind == SFlag::S_IFDIR.bits() {
        Type::Directory
    } else if kind == SFlag::S_IFLNK.bits() {
        Type::Symlink
    } else {
        Type::File
    })
}
