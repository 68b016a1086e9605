//! Copies a directory into one that hooks write meanwhile.

use std::{
    ffi::{CStr, CString},
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{AtFlags, OFlag, open, openat, readlinkat, renameat},
    sys::stat::{Mode, SFlag, fchmod, fstat, fstatat, mkdirat},
    unistd::{UnlinkatFlags, symlinkat, unlinkat},
};

/// Name of a file that is not complete yet.
const INCOMPLETE: &CStr = c".hookjail-incomplete";

/// Maximum number of nested directories, each of which is open meanwhile.
const MOST_LEVELS: usize = 64;

const DIRECTORY: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// Copies what a directory lacks of another one: files, directories and links. Links into the other one lead to the path at which
/// the directory will be found.
///
/// No link is followed, so a hook that writes in the target meanwhile has nothing written elsewhere.
///
/// # Errors
///
/// Returns the error of reading, or of writing.
pub(super) fn copy_missing(from: &Path, target: &Path, shown: &Path) -> io::Result<()> {
    let copy = Copy { from, shown };
    let opened = open(from, DIRECTORY, Mode::empty())?;
    let into = open(target, DIRECTORY, Mode::empty())?;
    copy.level(opened, &into, MOST_LEVELS)
}

struct Copy<'a> {
    from: &'a Path,
    shown: &'a Path,
}

impl Copy<'_> {
    fn level(&self, from: OwnedFd, into: &OwnedFd, levels: usize) -> io::Result<()> {
        let Some(levels) = levels.checked_sub(1) else {
            return Err(Errno::ELOOP.into());
        };
        let mut listed = Dir::from_fd(from)?;
        let names: Vec<CString> = (listed.iter())
            .map(|entry| entry.map(|entry| entry.file_name().to_owned()))
            .collect::<Result<_, _>>()?;
        for name in &names {
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let status = fstatat(&listed, &**name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
            match SFlag::from_bits_truncate(status.st_mode & SFlag::S_IFMT.bits()) {
                SFlag::S_IFDIR => {
                    let below = openat(&listed, &**name, DIRECTORY, Mode::empty())?;
                    existing(mkdirat(into, &**name, Mode::S_IRWXU))?;
                    match openat(into, &**name, DIRECTORY, Mode::empty()) {
                        Ok(into) => self.level(below, &into, levels)?,
                        // A hook has something else there.
                        Err(Errno::ENOTDIR | Errno::ELOOP | Errno::ENOENT) => {}
                        Err(errno) => return Err(errno.into()),
                    }
                }
                SFlag::S_IFLNK => {
                    let leads = readlinkat(&listed, &**name)?;
                    let below = Path::new(&leads).strip_prefix(self.from).ok();
                    let leads = below.map_or(leads.clone(), |below| self.shown.join(below).into());
                    existing(symlinkat(&*leads, into, &**name))?;
                }
                SFlag::S_IFREG => copy_file(&listed, into, name)?,
                // Nothing that programs keep in a cache.
                _ => {}
            }
        }
        Ok(())
    }
}

/// Copies a file unless its name exists. The copy appears whole, or not at all.
fn copy_file(from: &impl AsFd, into: &OwnedFd, name: &CStr) -> io::Result<()> {
    let no_follow = OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    match fstatat(into, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Err(Errno::ENOENT) => {}
        other => return Ok(other.map(drop)?),
    }
    let mut source = File::from(openat(
        from,
        name,
        OFlag::O_RDONLY | no_follow,
        Mode::empty(),
    )?);
    let mode = Mode::from_bits_truncate(fstat(&source)?.st_mode) & Mode::S_IRWXU;
    // A hook may have made one, of this name, that is also another file of its own.
    match unlinkat(into, INCOMPLETE, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | no_follow;
    let owner = Mode::S_IRUSR | Mode::S_IWUSR;
    let mut copy = File::from(openat(into, INCOMPLETE, flags, owner)?);
    io::copy(&mut source, &mut copy)?;
    fchmod(&copy, mode | Mode::S_IRUSR)?;
    Ok(renameat(into, INCOMPLETE, into, name)?)
}

fn existing(made: nix::Result<()>) -> nix::Result<()> {
    match made {
        Err(Errno::EEXIST) => Ok(()),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt, symlink},
    };

    use super::*;

    #[test]
    fn what_is_missing_is_copied_and_nothing_is_followed_or_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["from/a/b", "from/linked", "target", "elsewhere"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        fs::write(path("from/a/b/program"), "new").unwrap();
        fs::set_permissions(path("from/a/b/program"), Permissions::from_mode(0o4755)).unwrap();
        fs::write(path("from/a/there"), "new").unwrap();
        fs::write(path("from/linked/file"), "new").unwrap();
        fs::write(path("from/over"), "new").unwrap();
        symlink(path("from/a/b"), path("from/own")).unwrap();
        symlink("/usr/bin/env", path("from/out")).unwrap();
        // Made by a hook.
        fs::create_dir(path("target/a")).unwrap();
        fs::write(path("target/a/there"), "old").unwrap();
        fs::write(path("elsewhere/kept"), "kept").unwrap();
        symlink(path("elsewhere"), path("target/linked")).unwrap();
        symlink(path("elsewhere/kept"), path("target/over")).unwrap();
        fs::hard_link(
            path("elsewhere/kept"),
            path("target/a/.hookjail-incomplete"),
        )
        .unwrap();
        fs::create_dir(path("target/a/b")).unwrap();
        fs::hard_link(
            path("elsewhere/kept"),
            path("target/a/b/.hookjail-incomplete"),
        )
        .unwrap();

        copy_missing(&path("from"), &path("target"), &path("shown")).unwrap();

        let read = |name: &str| fs::read_to_string(path(name)).unwrap();
        assert_eq!(read("target/a/b/program"), "new");
        let copied = fs::metadata(path("target/a/b/program")).unwrap();
        assert_eq!(copied.permissions().mode() & 0o7777, 0o700);
        assert_eq!(read("target/a/there"), "old");
        assert_eq!(
            fs::read_link(path("target/own")).unwrap(),
            path("shown/a/b")
        );
        let out = fs::read_link(path("target/out")).unwrap();
        assert_eq!(out, Path::new("/usr/bin/env"));
        assert_eq!(read("elsewhere/kept"), "kept");
        assert_eq!(fs::read_dir(path("elsewhere")).unwrap().count(), 1);
    }
}
