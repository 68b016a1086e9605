//! A layer over a workspace: runs write to it, and the workspace stays as it is.
//!
//! The layer is an overlay in namespaces of this process. Nothing that is written in it outlives the process.

use std::{
    env,
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown},
    },
    path::{Path, PathBuf},
};

use nix::{
    libc::O_PATH,
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    unistd::{getegid, geteuid, mkdtemp},
};

use hookjail_base::util::trusted_file;
use hookjail_client::Failure;
use hookjail_sandbox::remove;
use hookjail_sys::give_up_capabilities;

use super::{NO_LAYER, files::is_left_out};

/// The administrator's files, which count where they belong to root.
const OF_ROOT: &str = "/etc/hookjail";

/// The name of the directory of the file system's own.
const WORK: &str = "work";

/// Maximum number of changes that are named.
const MOST: usize = 10_000;

/// A layer over a workspace.
pub(in crate::cli) struct Layer {
    /// The workspace as it is below the layer.
    below: File,
    /// The directory of the layer's files and the file system's own; `None` where it is nowhere but in memory.
    place: Option<PathBuf>,
    /// The directory of the layer's files.
    upper: File,
    workspace: PathBuf,
}

impl Layer {
    /// Lays a layer over a workspace. Must be called before any thread is started.
    ///
    /// # Errors
    ///
    /// Fails where this process may make no namespaces, or the kernel no overlay there.
    pub(in crate::cli) fn on_workspace(workspace: &Path) -> Result<Self, Failure> {
        let made = Self::make(workspace);
        made.map_err(|error| {
            let workspace = workspace.display();
            let message = format!("a layer over `{workspace}` cannot be made ({error})");
            Failure {
                reason: Some(NO_LAYER.to_owned()),
                ..Failure::new(message)
            }
        })
    }

    fn make(workspace: &Path) -> io::Result<Self> {
        let workspace = workspace.canonicalize()?;
        if !geteuid().is_root() {
            // A user namespace shows root's files as the overflow uid's.
            trusted_file::remember_roots(Path::new(OF_ROOT))?;
        }
        isolate()?;
        // Of this namespace: no other's mount can be below a layer.
        let below = opened(&workspace)?;
        let directory = env::current_dir()?;
        let place = mkdtemp(&temporary(&workspace).join("hookjail-layer-XXXXXX"))?;
        // The temporary directory may be an overlay itself, which can hold no layer.
        let (upper, is_in_memory) = match lay(&place, &below, &workspace) {
            Ok(upper) => (upper, false),
            Err(_) => (lay_in_memory(&place, &below, &workspace)?, true),
        };
        // The directory that is known by its name, not the one below.
        env::set_current_dir(directory)?;
        if !geteuid().is_root() {
            // Capabilities of the namespace, which no hook is to have.
            give_up_capabilities()?;
        }
        Ok(Self {
            below,
            place: (!is_in_memory).then_some(place),
            upper,
            workspace,
        })
    }

    /// Returns the changes in the layer: `A`, `M` or `D` and the path. `None` where they are too many.
    ///
    /// A directory that a run has shut is one change.
    ///
    /// # Errors
    ///
    /// Fails where the layer cannot be read.
    pub(in crate::cli) fn changes(&self) -> io::Result<Option<Vec<String>>> {
        let upper = through(&self.upper);
        let mut changes = Vec::new();
        let mut directories = vec![PathBuf::new()];
        while let Some(inner) = directories.pop() {
            if changes.len() > MOST {
                return Ok(None);
            }
            let directory = upper.join(&inner);
            let is_shut = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
            let listed =
                names(&directory).and_then(|names| directory.join(".").metadata().map(|_| names));
            let listed = match listed {
                Err(error) if is_shut(&error) && !inner.as_os_str().is_empty() => {
                    let is_known = fs::symlink_metadata(self.below(&inner)).is_ok();
                    changes.push((if is_known { 'M' } else { 'A' }, inner));
                    continue;
                }
                listed => listed?,
            };
            for path in listed.map(|name| inner.join(name)) {
                let found = fs::symlink_metadata(upper.join(&path))?;
                let known = fs::symlink_metadata(self.below(&path)).ok();
                // A device stands for a file that is gone, which the loop below finds.
                if is_left_out(&path) || found.file_type().is_char_device() && found.rdev() == 0 {
                    continue;
                }
                if found.is_dir() {
                    directories.push(path);
                    continue;
                }
                match known {
                    Some(known) if found.file_type() != known.file_type() => {
                        changes.push(('M', path));
                    }
                    Some(known) => {
                        let is_other = found.mode() != known.mode() || self.differs(&path);
                        changes.extend(is_other.then_some(('M', path)));
                    }
                    None => changes.push(('A', path)),
                }
            }
            let gone = names(&self.below(&inner)).into_iter().flatten();
            let gone = gone.map(|name| inner.join(name));
            let gone = gone.filter(|path| {
                !is_left_out(path) && fs::symlink_metadata(self.workspace.join(path)).is_err()
            });
            changes.extend(gone.map(|path| ('D', path)));
        }
        changes.sort_by(|(_, one), (_, other)| one.cmp(other));
        let words = changes.into_iter();
        let words = words.map(|(kind, path)| format!("{kind} {}", path.display()));
        Ok(Some(words.collect()))
    }

    /// Returns a path of the workspace below the layer.
    fn below(&self, path: &Path) -> PathBuf {
        through(&self.below).join(path)
    }

    /// Returns whether a file's content, or a link's target, is another than below.
    fn differs(&self, path: &Path) -> bool {
        let (above, below) = (through(&self.upper).join(path), self.below(path));
        match (fs::read_link(&above), fs::read_link(&below)) {
            (Ok(above), Ok(below)) => above != below,
            _ => fs::read(above).ok() != fs::read(below).ok(),
        }
    }
}

impl Drop for Layer {
    fn drop(&mut self) {
        // A leftover lies in the directory for temporary files.
        if let Some(place) = &self.place {
            let closed = place.join(WORK).join("work");
            fs::set_permissions(closed, fs::Permissions::from_mode(0o700)).ok();
            remove(place).ok();
        }
    }
}

/// Opens a directory for its path alone.
fn opened(directory: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(O_PATH).open(directory)
}

/// Returns the path of an open directory.
fn through(directory: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()))
}

/// Mounts an overlay on a workspace, whose files lie at a place. Returns their directory.
fn lay(place: &Path, below: &File, workspace: &Path) -> io::Result<File> {
    let (upper, work) = (place.join("files"), place.join(WORK));
    for directory in [&upper, &work] {
        fs::create_dir(directory)?;
    }
    // The workspace has the mode and the owner of this directory.
    let found = below.metadata()?;
    let attributes = if geteuid().is_root() {
        chown(&upper, Some(found.uid()), Some(found.gid()))?;
        ""
    } else {
        "userxattr,"
    };
    fs::set_permissions(&upper, found.permissions())?;
    let options = format!(
        "{attributes}lowerdir={},upperdir={},workdir={}",
        through(below).display(),
        upper.display(),
        work.display()
    );
    let (source, kind) = (Some("hookjail"), Some("overlay"));
    mount(source, workspace, kind, MsFlags::empty(), Some(&*options))?;
    opened(&upper)
}

/// Does the same with files in memory. Nothing is left at the place.
fn lay_in_memory(place: &Path, below: &File, workspace: &Path) -> io::Result<File> {
    fs::remove_dir_all(place)?;
    fs::create_dir(place)?;
    let (none, flags) = (None::<&str>, MsFlags::empty());
    let mounted = mount(Some("hookjail"), place, Some("tmpfs"), flags, none);
    let laid = mounted.map_err(io::Error::from).and_then(|()| {
        let laid = lay(place, below, workspace);
        // The layer has it.
        umount2(place, MntFlags::MNT_DETACH)?;
        laid
    });
    fs::remove_dir(place)?;
    laid
}

/// Returns a directory for temporary files that lies outside of a workspace: a layer's files cannot lie below it.
fn temporary(workspace: &Path) -> PathBuf {
    let usual = env::temp_dir();
    let is_inside = |path: PathBuf| path.starts_with(workspace);
    match usual.canonicalize().is_ok_and(is_inside) {
        true => PathBuf::from("/tmp"),
        false => usual,
    }
}

fn names(directory: &Path) -> io::Result<impl Iterator<Item = OsString> + use<>> {
    let entries = fs::read_dir(directory)?;
    Ok(entries.flatten().map(|entry| entry.file_name()))
}

/// Moves this process into a mount namespace of its own, and where it is not root's into a user namespace as well.
fn isolate() -> io::Result<()> {
    let (uid, gid) = (geteuid(), getegid());
    if uid.is_root() {
        unshare(CloneFlags::CLONE_NEWNS)?;
    } else {
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
        fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    }
    let (none, flags) = (None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE);
    Ok(mount(none, "/", none, flags, none)?)
}
