//! The run's own view of the machine: scripts at their own paths, directories for temporary files, and `/proc`.
//!
//! Nothing here gives a right: rules of Landlock belong to files, wherever they are mounted. The child's part keeps to the rules
//! of [`super::child`].

use std::{
    ffi::{CStr, CString, OsStr},
    os::unix::ffi::OsStrExt,
    path::Path,
};

use super::{
    child::call,
    job::address,
    mounts::{
        AT_RECURSIVE, Found, MOUNT_ATTR_RDONLY, MountAttributes, attach, check, close, copy_mount,
        enter, locate, locate_here, set_attributes, stat, statfs,
    },
    tmpfs::grant,
};

/// The mounts of a view.
#[derive(Debug)]
pub struct View {
    /// Directories that cover shared ones: a fixed number at most.
    pub private: Vec<Private>,
    /// Rights that Landlock is to grant on `/proc`: `LANDLOCK_ACCESS_FS_*`.
    pub proc_rights: u64,
    /// Files that are shown in the places of others.
    pub scripts: Vec<Placed>,
    /// Rights on pseudo-terminals.
    pub terminals: TerminalRights,
}

/// Rights that Landlock is to grant on pseudo-terminals: `LANDLOCK_ACCESS_FS_*`.
#[derive(Clone, Copy, Debug)]
pub struct TerminalRights {
    /// On their directory.
    pub directory: u64,
    /// On the file that makes them, which is granted by itself, too.
    pub file: u64,
}

/// The file systems of a view that not every system allows.
#[derive(Debug)]
pub(super) struct Made {
    /// A `/proc` of the run's own.
    pub proc: bool,
    /// Pseudo-terminals of the run's own.
    pub terminals: bool,
}

/// A file that is shown in the place of another, read-only.
#[derive(Debug)]
pub struct Placed {
    /// The file.
    pub source: Found,
    /// The other.
    pub place: Found,
}

/// A directory of the run that covers a shared one.
#[derive(Debug)]
pub struct Private {
    /// The shared one.
    pub covered: Found,
    /// Directories that only lead to what stays visible: they become read-only.
    pub ways: Vec<CString>,
    /// Paths below the shared one that stay visible: at most [`MAX_EXPOSED`].
    pub exposed: Vec<Exposed>,
    /// The directory; `None` = the file system in the place of the scratch directory.
    pub source: Option<Found>,
}

/// A path that stays visible, with the mounts below it.
#[derive(Debug)]
pub struct Exposed {
    /// Whether files there can be executed.
    pub executes: bool,
    /// Whether it can be written.
    pub is_writable: bool,
    /// The path. Its place in the directory that covers exists already.
    pub path: Found,
}

impl View {
    /// Returns whether a path lies below a shared directory that is covered.
    pub fn covers(&self, path: &Path) -> bool {
        let mut covered = self.private.iter().map(|private| &private.covered.path);
        covered.any(|covered| path.starts_with(OsStr::from_bytes(covered.as_bytes())))
    }
}

/// Maximum number of paths that stay visible below a covered directory.
pub const MAX_EXPOSED: usize = 128;
/// Maximum number of directories that are covered.
pub(super) const MAX_PRIVATE: usize = 64;

const MOUNT_ATTR_NOSUID: u64 = 2;
const MOUNT_ATTR_NODEV: u64 = 4;
const MOUNT_ATTR_NOEXEC: u64 = 8;
const PROC: &CStr = c"/proc";
const PROC_KIND: &CStr = c"proc";
/// A number of terminals far above the needs of one run; the kernel's limit is for the whole machine.
const TERMINAL_OPTIONS: &CStr = c"newinstance,ptmxmode=0666,mode=0620,max=64";
const TERMINALS: &CStr = c"/dev/pts";
const TERMINALS_KIND: &CStr = c"devpts";
/// The file that makes a terminal, as programs open it, and as the file system itself has it.
const TERMINAL_MAKER: &CStr = c"/dev/ptmx";
const TERMINAL_MAKER_HERE: &CStr = c"ptmx";

/// Makes the mounts, in the child's own namespace, and verifies them. `scratch` is the root of the file system in the place of the
/// scratch directory, if there is one.
pub(super) fn make(
    view: &View,
    scratch: Option<usize>,
    ruleset: Option<usize>,
) -> Result<Made, i32> {
    for placed in &view.scripts {
        place(placed)?;
    }
    // All before the first of them covers where another lies.
    let mut sources = [0; MAX_PRIVATE];
    for (source, private) in sources.iter_mut().zip(&view.private) {
        *source = match &private.source {
            None => copy_mount(scratch.ok_or(libc::EINVAL)?, false)?,
            Some(directory) => copy_of(enter(directory)?, false)?,
        };
    }
    for (source, private) in sources.into_iter().zip(&view.private) {
        cover(private, source)?;
    }
    Ok(Made {
        proc: mount_proc(view.proc_rights, ruleset)?,
        terminals: mount_terminals(view.terminals, ruleset)?,
    })
}

/// Shows a file in the place of another.
fn place(placed: &Placed) -> Result<(), i32> {
    let tree = copy_of(enter(&placed.source)?, false)?;
    let attributes = MountAttributes {
        set: MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
        ..MountAttributes::default()
    };
    set_attributes(tree, c"", libc::AT_EMPTY_PATH as usize, &attributes)?;
    attach(tree, enter(&placed.place)?)?;
    // By its path, as the hook would come to it.
    let seen = locate_here(&placed.place.path)?;
    check(seen, &placed.source)?;
    match statfs(seen)?.flags & libc::ST_RDONLY {
        0 => Err(libc::EKEYEXPIRED),
        _ => close(seen),
    }
}

/// Covers a shared directory, and shows again what is exposed of it. Nothing else of it can be reached: rules of Landlock are
/// inherited from the directory that covers. `source` is a copy of that one's mount.
fn cover(private: &Private, source: usize) -> Result<(), i32> {
    let mut exposed = [0; MAX_EXPOSED];
    for (tree, kept) in exposed.iter_mut().zip(&private.exposed) {
        *tree = copy_of(enter(&kept.path)?, true)?;
        let mut set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
        if !kept.executes {
            set |= MOUNT_ATTR_NOEXEC;
        }
        if !kept.is_writable {
            set |= MOUNT_ATTR_RDONLY;
        }
        let attributes = MountAttributes {
            set,
            ..MountAttributes::default()
        };
        let flags = AT_RECURSIVE | libc::AT_EMPTY_PATH as usize;
        set_attributes(*tree, c"", flags, &attributes)?;
    }
    attach(source, enter(&private.covered)?)?;
    let root = locate_here(&private.covered.path)?;
    for way in &private.ways {
        let tree = copy_of(below(root, private, way)?, false)?;
        let attributes = MountAttributes {
            set: MOUNT_ATTR_RDONLY,
            ..MountAttributes::default()
        };
        set_attributes(tree, c"", libc::AT_EMPTY_PATH as usize, &attributes)?;
        attach(tree, below(root, private, way)?)?;
    }
    for (tree, kept) in exposed.iter().zip(&private.exposed) {
        attach(*tree, below(root, private, &kept.path.path)?)?;
        // By its path, as the hook would come to it.
        let seen = enter(&kept.path)?;
        if !kept.is_writable && statfs(seen)?.flags & libc::ST_RDONLY == 0 {
            return Err(libc::EKEYEXPIRED);
        }
        close(seen)?;
    }
    close(root)
}

/// Opens a path below what covers a directory. Another run with the same files may put links in the way: these are not followed.
fn below(root: usize, private: &Private, path: &CStr) -> Result<usize, i32> {
    let start = private.covered.path.count_bytes() + 1;
    let below = path.to_bytes_with_nul().get(start..);
    let below = below.and_then(|below| CStr::from_bytes_with_nul(below).ok());
    let resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS;
    locate(root, below.ok_or(libc::EINVAL)?, resolve)
}

/// Mounts the `/proc` of this task's pid namespace, and grants it in a ruleset. Returns whether it could be mounted: the kernel
/// allows it to users only where the whole of the host's is visible, so not in most containers.
fn mount_proc(rights: u64, ruleset: Option<usize>) -> Result<bool, i32> {
    let kind = address(PROC_KIND);
    let flags = (libc::MS_NODEV | libc::MS_NOEXEC | libc::MS_NOSUID) as usize;
    match call(libc::SYS_mount, [kind, address(PROC), kind, flags, 0, 0]) {
        Ok(_) => {}
        Err(libc::EPERM | libc::EACCES) => return Ok(false),
        Err(errno) => return Err(errno),
    }
    let root = locate_here(PROC)?;
    if statfs(root)?.kind != libc::PROC_SUPER_MAGIC as u64 {
        return Err(libc::EKEYEXPIRED);
    }
    if let Some(ruleset) = ruleset {
        grant(ruleset, root, rights)?;
    }
    close(root)?;
    Ok(true)
}

/// Mounts pseudo-terminals, and grants them in a ruleset. The machine's own have other names, and none of them is there.
/// Returns whether that was possible: a system without `/dev/pts` or `/dev/ptmx` has none to show.
fn mount_terminals(rights: TerminalRights, ruleset: Option<usize>) -> Result<bool, i32> {
    let (Ok(place), Ok(maker)) = (locate_here(TERMINALS), locate_here(TERMINAL_MAKER)) else {
        return Ok(false);
    };
    close(place)?;
    let kind = address(TERMINALS_KIND);
    let flags = (libc::MS_NOEXEC | libc::MS_NOSUID) as usize;
    let options = address(TERMINAL_OPTIONS);
    let mount = [kind, address(TERMINALS), kind, flags, options, 0];
    match call(libc::SYS_mount, mount) {
        Ok(_) => {}
        Err(libc::EPERM | libc::EACCES | libc::ENODEV) => return close(maker).map(|()| false),
        Err(errno) => return Err(errno),
    }
    let root = locate_here(TERMINALS)?;
    if statfs(root)?.kind != libc::DEVPTS_SUPER_MAGIC as u64 {
        return Err(libc::EKEYEXPIRED);
    }
    let resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS;
    let shown = locate(root, TERMINAL_MAKER_HERE, resolve)?;
    if let Some(ruleset) = ruleset {
        grant(ruleset, root, rights.directory)?;
        // Programs may see it below another directory.
        grant(ruleset, shown, rights.file)?;
    }
    // A node of the machine's, or of the file system that is covered. A link leads to the one here already.
    let leads_here = locate_here(TERMINAL_MAKER)?;
    let is_shown = stat(leads_here)?.st_dev == stat(shown)?.st_dev;
    close(leads_here)?;
    close(root)?;
    if is_shown {
        close(maker)?;
        close(shown)?;
    } else {
        attach(copy_of(shown, false)?, maker)?;
    }
    Ok(true)
}

/// Copies the mount of an opened path, which is closed.
fn copy_of(opened: usize, recursive: bool) -> Result<usize, i32> {
    let tree = copy_mount(opened, recursive)?;
    close(opened)?;
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn a_place_is_found_below_what_covers_it_and_through_no_link() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        fs::create_dir_all(path.join("real/inner")).unwrap();
        symlink("real", path.join("link")).unwrap();
        let found = |path: &Path| Found::new(path, fs::File::open(path).unwrap()).unwrap();
        let private = Private {
            covered: found(&path),
            exposed: Vec::new(),
            source: Some(found(&path)),
            ways: Vec::new(),
        };
        let root = locate_here(&private.covered.path).unwrap();
        let below = |name: &str| {
            let path = CString::new(path.join(name).as_os_str().as_bytes()).unwrap();
            below(root, &private, &path).and_then(close)
        };

        assert_eq!(below("real/inner"), Ok(()));
        assert_eq!(below("link/inner"), Err(libc::ELOOP));
        assert_eq!(below("link"), Err(libc::ELOOP));
        assert_eq!(below("../x"), Err(libc::EXDEV));
        close(root).unwrap();
    }
}
