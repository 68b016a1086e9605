//! Creates and removes the directories of daemons and runs. Their names are random.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File, Permissions},
    io::{self, Write as _},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{AT_FDCWD, AtFlags, Flock, FlockArg, OFlag, open, openat, renameat},
    sys::stat::{FchmodatFlags, Mode, SFlag, fchmodat, fstatat},
    unistd::{Gid, Uid, UnlinkatFlags, chown, unlinkat},
};
use uuid::Uuid;

use hookjail_base::util::presence::Presence;
use hookjail_sys::{BY_NAME, Identity, keep_writers_out};

#[cfg(target_os = "linux")]
use crate::run::read_only::Closed;

use crate::{host, run::notices, warm};

/// Name prefix of instance directories.
const INSTANCE: &str = "instance-";

/// Name prefix of run directories.
const RUN: &str = "run-";

/// File in which a daemon's hooks record their process groups.
const GROUPS: &str = "groups";

/// Directory of the files that make interpreters wait.
const WAITERS: &str = "warm";

/// Directory of the programs by which hooks ask for notices.
const PROGRAMS: &str = "programs";

/// Time that a start waits for the removal of dead daemons' directories, which continues after it.
const SWEEP: Duration = Duration::from_secs(2);

/// A daemon's own directory, removed when dropped. The next daemon removes that of a killed one.
#[derive(Debug)]
pub struct InstanceDir {
    /// Held for the daemon's lifetime, to show that it is alive.
    _lock: Flock<File>,
    canary_denied: PathBuf,
    canary_granted: PathBuf,
    canary_granted_open: Arc<OwnedFd>,
    files: [Presence; 3],
    groups: Arc<File>,
    path: PathBuf,
}

impl InstanceDir {
    /// Makes a directory below `base`, which is made if needed, and removes dead daemons' ones.
    ///
    /// Root's is traversable, not listable, because hooks with a uid of their own must reach their scratch directories.
    ///
    /// # Errors
    ///
    /// Returns the first error; fails also where other users can write to `base`.
    pub fn create(base: &Path, for_other_uids: bool) -> io::Result<Self> {
        let mode = if for_other_uids { 0o711 } else { 0o700 };
        DirBuilder::new().recursive(true).mode(mode).create(base)?;
        let base = base.canonicalize()?;
        let metadata = base.metadata()?;
        if metadata.uid() != Uid::effective().as_raw() || metadata.permissions().mode() & 0o022 != 0
        {
            let message = format!(
                "`{}` must be owned by this user and writable by no other",
                base.display()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        if for_other_uids {
            // Set in spite of the umask and of an earlier daemon's mode: hooks must reach the directories below.
            fs::set_permissions(&base, Permissions::from_mode(mode))?;
        } else {
            reopen(&base)?;
        }
        let _making = lock(&base.join("lock"), FlockArg::LockExclusive)?;
        sweep(&base);
        let path = base.join(format!("{INSTANCE}{}", Uuid::now_v7().simple()));
        DirBuilder::new().mode(mode).create(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(mode))?;
        let _lock = lock(&path.join("lock"), FlockArg::LockExclusiveNonblock)?;
        let canary = |name: &str| -> io::Result<PathBuf> {
            let path = path.join(format!("{name}-{}", Uuid::now_v7().simple()));
            let mut file = File::options()
                .write(true)
                .create_new(true)
                .mode(0o644)
                .open(&path)?;
            file.set_permissions(Permissions::from_mode(0o644))?;
            file.write_all(b"canary\n")?;
            Ok(path)
        };
        let (canary_denied, canary_granted) = (canary("denied")?, canary("granted")?);
        let by_name = BY_NAME | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let canary_granted_open = open(&canary_granted, by_name, Mode::empty())?;
        let groups = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path.join(GROUPS))?;
        groups.write_all_at(host::groups_of(&path)?.as_bytes(), 0)?;
        warm::write_waiters(&path.join(WAITERS))?;
        notices::write_programs(&path.join(PROGRAMS))?;
        let files = [
            Presence::new(&path.join("lock"))?,
            Presence::new(&canary_denied)?,
            Presence::new(&canary_granted)?,
        ];
        Ok(Self {
            _lock,
            files,
            groups: Arc::new(groups),
            canary_denied,
            canary_granted,
            canary_granted_open: Arc::new(canary_granted_open),
            path,
        })
    }

    /// Returns a world-readable file that no policy grants.
    pub fn canary_denied(&self) -> &Path {
        &self.canary_denied
    }

    /// Returns a file that every confined run is granted.
    pub fn canary_granted(&self) -> &Path {
        &self.canary_granted
    }

    /// Returns that file, opened with `O_PATH`.
    pub const fn canary_granted_open(&self) -> &Arc<OwnedFd> {
        &self.canary_granted_open
    }

    /// Returns the file in which hooks' process groups are recorded.
    pub(crate) const fn groups(&self) -> &Arc<File> {
        &self.groups
    }

    /// Returns the directory of the files that make interpreters wait.
    pub(crate) fn waiters(&self) -> PathBuf {
        self.path.join(WAITERS)
    }

    /// Returns the file and the directory for the places of hidden ones.
    #[cfg(target_os = "linux")]
    pub(crate) fn closed(&self) -> Closed {
        Closed::below(&self.path)
    }

    /// Returns the files without which nothing can run.
    pub(crate) const fn files(&self) -> &[Presence] {
        &self.files
    }

    /// Creates the directory of one run.
    ///
    /// The directory has the hook's scratch directory, and files that the hook may read but not change.
    ///
    /// # Errors
    ///
    /// Returns the first error.
    pub fn run(&self, identity: Option<&Identity>) -> io::Result<RunDir> {
        let run = RunDir {
            left: false,
            path: self.path.join(format!("{RUN}{}", Uuid::now_v7().simple())),
        };
        DirBuilder::new().mode(0o700).create(&run.path)?;
        let scratch = run.scratch();
        DirBuilder::new().mode(0o700).create(&scratch)?;
        if let Some(identity) = identity {
            let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
            chown(&scratch, Some(uid), Some(gid))?;
            // For the hook alone: the copies here may be of files that others cannot read, and other users can read the
            // directory's name in a process's arguments. Set explicitly, because the umask applies to `mkdir`.
            let group = identity.group.map_or(gid, Gid::from_raw);
            chown(&run.path, None, Some(group))?;
            fs::set_permissions(&run.path, Permissions::from_mode(0o710))?;
        }
        Ok(run)
    }
}

impl InstanceDir {
    /// Returns an attempt to create the directory of a run, which removes it again.
    pub fn attempt(&self) -> impl FnOnce() -> io::Result<()> + Send + use<> {
        let instance = self.path.clone();
        move || {
            let path = instance.join(format!("{RUN}{}", Uuid::now_v7().simple()));
            let tried = DirBuilder::new().mode(0o700).create(&path);
            let tried = tried.and_then(|()| fs::remove_dir(&path));
            tried.map_err(|error| {
                let message = format!("`{}`: {error}", instance.display());
                io::Error::new(error.kind(), message)
            })
        }
    }
}

impl Drop for InstanceDir {
    fn drop(&mut self) {
        // Removing left run directories may take long: the next daemon does it.
        if has_runs(&self.path) {
            return;
        }
        if let Err(error) = remove(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "instance directory is left behind");
        }
    }
}

/// The directory of one run. Removed when dropped.
#[derive(Debug)]
pub struct RunDir {
    /// Whether the next daemon removes it.
    left: bool,
    path: PathBuf,
}

/// The neighbours of a copied file.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Around {
    /// Directories on the way to the file. The first contains all others, and each comes after its parent.
    pub levels: Vec<Level>,
    /// Path of the file, below the first.
    pub file: PathBuf,
    /// Path of a link to it, below the first.
    pub link: Option<PathBuf>,
}

/// A directory around a copied file.
#[derive(Debug, Eq, PartialEq)]
pub struct Level {
    /// Its path, below the first.
    pub below: PathBuf,
    /// Its entries, except those that lead to the file.
    pub names: Vec<OsString>,
    /// Path of the original.
    pub original: PathBuf,
}

/// The place of a file's copy.
#[derive(Debug)]
pub struct Copied {
    /// Path by which it is named: a link's, where the file was named by one.
    pub named: PathBuf,
    /// Path of the copy.
    pub path: PathBuf,
}

impl RunDir {
    /// Takes over the directory; dropping `self` then has no effect.
    #[must_use]
    pub fn take(&mut self) -> Self {
        Self {
            left: std::mem::replace(&mut self.left, true),
            path: self.path.clone(),
        }
    }

    /// Leaves the directory in place, for the next daemon to remove.
    pub fn leave(mut self) {
        self.left = true;
    }

    /// Returns the hook's private directory: its `HOME` and `TMPDIR`.
    pub fn scratch(&self) -> PathBuf {
        self.path.join("tmp")
    }

    /// Returns the path of one of this run's own files.
    pub fn named(&self, kind: &str) -> PathBuf {
        self.path.join(kind)
    }

    /// Returns the directory of the programs by which hooks ask for notices, which all runs have in common.
    pub fn programs(&self) -> PathBuf {
        self.path.with_file_name(PROGRAMS)
    }

    /// Removes the hook's private directory if the hook left it empty, which takes no time. Returns whether it is gone.
    pub fn remove_empty_scratch(&self) -> bool {
        remove_empty(&self.scratch())
    }

    /// Removes the hook's private directory and its contents. No file of the hook's user is left then.
    ///
    /// # Errors
    ///
    /// Returns the first error.
    pub fn remove_scratch(&self) -> io::Result<()> {
        remove(&self.scratch())
    }

    /// Removes the directory without the hook's private one, which takes no time. Returns whether it is gone.
    pub fn remove_own(&self) -> bool {
        if remove_empty(&self.path) {
            return true;
        }
        // Only copies by the daemon and the pipe of notices lie beside it, one file per directory.
        let copies = fs::read_dir(&self.path).into_iter().flatten().flatten();
        for copies in copies {
            if let Some(Ok(copy)) = fs::read_dir(copies.path())
                .ok()
                .and_then(|mut all| all.next())
            {
                // Files that cannot be removed here are removed in the background.
                fs::remove_file(copy.path()).ok();
            }
            remove_empty(&copies.path());
        }
        remove_empty(&self.path)
    }

    /// Removes the directory and its contents.
    ///
    /// # Errors
    ///
    /// Returns the first error.
    pub fn remove(&self) -> io::Result<()> {
        remove(&self.path)
    }

    /// Makes a directory that the hook's user owns and no policy grants: for a self-test.
    ///
    /// # Errors
    ///
    /// Returns the first error.
    pub fn outside(&self, identity: Option<&Identity>) -> io::Result<PathBuf> {
        let path = self.path.join("outside");
        DirBuilder::new().mode(0o700).create(&path)?;
        if let Some(identity) = identity {
            chown(
                &path,
                Some(Uid::from_raw(identity.uid)),
                Some(Gid::from_raw(identity.gid)),
            )?;
        }
        Ok(path)
    }

    /// Makes a directory that only the daemon's user reaches.
    ///
    /// # Errors
    ///
    /// Fails where the directory cannot be created.
    #[cfg(target_os = "linux")]
    pub fn own_directory(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(path)
    }

    /// Makes the place of a copy: its directories, with links to the original's neighbours, and not the copy itself.
    ///
    /// # Errors
    ///
    /// Returns the error of making them.
    pub fn frame(&self, name: &Path, kind: &str, around: &Around) -> io::Result<Copied> {
        let top = self.path.join(kind);
        let make = |path: &Path, mode| {
            fs::create_dir(path)?;
            fs::set_permissions(path, Permissions::from_mode(mode))
        };
        let path = if around.levels.is_empty() {
            make(&top, 0o755)?;
            top.join(name.file_name().unwrap_or("script".as_ref()))
        } else {
            top.join(&around.file)
        };
        for level in &around.levels {
            let directory = top.join(&level.below);
            make(&directory, 0o755)?;
            for name in &level.names {
                symlink(level.original.join(name), directory.join(name))?;
            }
        }
        let link = around.link.as_ref().map(|link| top.join(link));
        if let Some(link) = &link {
            symlink(&path, link)?;
        }
        Ok(Copied {
            named: link.unwrap_or_else(|| path.clone()),
            path,
        })
    }
}

impl Copied {
    /// Copies a file to its place. The hook cannot change the copy.
    ///
    /// # Errors
    ///
    /// Returns the error of reading or writing.
    pub fn fill(&self, file: &File) -> io::Result<()> {
        self.write(self.reserve()?, file)
    }

    /// Makes the copy, empty, and opens it for writing. The hook cannot change it.
    ///
    /// # Errors
    ///
    /// Returns the error of making it.
    pub fn reserve(&self) -> io::Result<File> {
        File::options()
            .write(true)
            .create_new(true)
            .mode(0o555)
            .open(&self.path)
    }

    /// Copies a file to the reserved copy, which can be executed if the file can: tools compare modes, as git does.
    ///
    /// # Errors
    ///
    /// Returns the error of reading or writing.
    pub fn write(&self, mut copy: File, mut file: &File) -> io::Result<()> {
        io::Seek::rewind(&mut file)?;
        io::copy(&mut file, &mut copy)?;
        let mode = match file.metadata()?.permissions().mode() & 0o111 {
            0 => 0o444,
            _ => 0o555,
        };
        copy.set_permissions(Permissions::from_mode(mode))?;
        drop(copy);
        wait_for_writers(&self.path)
    }
}

/// Number and interval of the checks for a file's writers.
const WRITERS: (u32, Duration) = (200, Duration::from_millis(1));

/// Waits until a file that this process has written has no writer any more.
///
/// A concurrently started child has a copy of each descriptor until its exec, and until then the file cannot be
/// executed (`ETXTBSY`). The wait ends after 200 ms, or at once where the file system cannot report writers.
///
/// # Errors
///
/// Returns the error of opening it.
pub(crate) fn wait_for_writers(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    let (times, pause) = WRITERS;
    for _ in 0..times {
        // Refused because of a writer; any other result ends the wait.
        match keep_writers_out(&file) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(pause),
            Ok(()) | Err(_) => break,
        }
    }
    Ok(())
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // An unused directory is removed without any descriptor, as the lack of descriptors may be why it is unused.
        if self.left || (self.remove_empty_scratch() && remove_empty(&self.path)) {
            return;
        }
        if let Err(error) = self.remove() {
            tracing::error!(%error, path = %self.path.display(), "run directory is left behind");
        }
    }
}

fn remove_empty(path: &Path) -> bool {
    unlinkat(AT_FDCWD, path, UnlinkatFlags::RemoveDir).is_ok()
}

pub(super) fn lock(path: &Path, how: FlockArg) -> io::Result<Flock<File>> {
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)?;
    Flock::lock(file, how).map_err(|(_, errno)| errno.into())
}

/// Returns whether a directory contains any run's.
fn has_runs(instance: &Path) -> bool {
    let is_run = |entry: fs::DirEntry| {
        let name = entry.file_name();
        name.as_encoded_bytes().starts_with(RUN.as_bytes())
    };
    fs::read_dir(instance).is_ok_and(|entries| entries.flatten().any(is_run))
}

/// Removes the directories of dead daemons, in the background where that takes long.
///
/// A directory that cannot be removed is logged and left.
fn sweep(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else {
        return;
    };
    // Directories are created under the base's lock, which is held here, so one whose lock is free has no owner. Kept
    // locked until removed, so that no other daemon removes it, too.
    let gone: Vec<_> = entries
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            name.as_encoded_bytes().starts_with(INSTANCE.as_bytes())
        })
        .filter_map(|entry| {
            let path = entry.path();
            if let Err(error) = reopen(&path) {
                tracing::warn!(%error, path = %path.display(), "directory of another daemon cannot be opened");
            }
            let lock = lock(&path.join("lock"), FlockArg::LockExclusiveNonblock).ok()?;
            Some((lock, path))
        })
        .collect();
    // First: hooks of dead daemons must not run beside a serving daemon.
    let gone: Vec<_> = gone
        .into_iter()
        .filter(|(_, path)| match host::kill_left(path, &path.join(GROUPS)) {
            Ok(0) => true,
            Ok(killed) => {
                tracing::warn!(
                    killed,
                    path = %path.display(),
                    "killed processes of hooks that outlived their daemon and its keeper"
                );
                true
            }
            Err(error) => {
                // The record of their groups stays, for the next start.
                tracing::error!(%error, path = %path.display(), "hooks of a daemon that is gone cannot be ended");
                false
            }
        })
        .collect();
    if gone.is_empty() {
        return;
    }
    let (done, is_done) = mpsc::channel();
    let remove_all = move || {
        for (_lock, path) in gone {
            if let Err(error) = remove(&path) {
                tracing::warn!(%error, path = %path.display(), "directory of a daemon that is gone cannot be removed");
            }
        }
        // The receiver may have stopped waiting.
        done.send(()).ok();
    };
    match thread::Builder::new()
        .name("sweep".to_owned())
        .spawn(remove_all)
    {
        Ok(_) => {
            // The thread continues after the timeout.
            is_done.recv_timeout(SWEEP).ok();
        }
        Err(error) => {
            tracing::warn!(%error, "directories of daemons that are gone are left until the next start");
        }
    }
}

/// Restores an owner's rights over a directory, which a hook with the same uid may have removed.
fn reopen(path: &Path) -> io::Result<()> {
    let mode = fs::symlink_metadata(path)?.permissions().mode();
    if mode & 0o700 != 0o700 {
        fs::set_permissions(path, Permissions::from_mode(mode | 0o700))?;
    }
    Ok(())
}

/// Removes a directory with any contents.
///
/// That includes unreadable directories, names of any bytes, trees deeper than a path can name, and symbolic links,
/// which are not followed. Needs two descriptors and no recursion, because every subdirectory is first moved up to the
/// top.
pub fn remove(path: &Path) -> io::Result<()> {
    match unlinkat(AT_FDCWD, path, UnlinkatFlags::RemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => return Ok(()),
        Err(Errno::ENOTEMPTY | Errno::EEXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let top = open_directory(AT_FDCWD, path)?;
    // Moved directories get new unique names, which neither a hook's files nor those of an earlier, failed attempt can have.
    let unique = Uuid::now_v7().simple();
    let mut moved = 0_u64;
    loop {
        let mut directories = Vec::new();
        for (name, is_directory) in entries(&top)? {
            if is_directory {
                directories.push(name);
            } else {
                unlinkat(&top, name.as_c_str(), UnlinkatFlags::NoRemoveDir)?;
            }
        }
        if directories.is_empty() {
            break;
        }
        for name in directories {
            let directory = open_directory(&top, name.as_c_str())?;
            for (inner, is_directory) in entries(&directory)? {
                if is_directory {
                    moved += 1;
                    let target = format!("moved-{unique}-{moved}");
                    // A directory without write permission cannot be moved: its `..` would change.
                    fchmodat(
                        &directory,
                        inner.as_c_str(),
                        Mode::S_IRWXU,
                        FchmodatFlags::NoFollowSymlink,
                    )?;
                    renameat(&directory, inner.as_c_str(), &top, target.as_str())?;
                } else {
                    unlinkat(&directory, inner.as_c_str(), UnlinkatFlags::NoRemoveDir)?;
                }
            }
            unlinkat(&top, name.as_c_str(), UnlinkatFlags::RemoveDir)?;
        }
    }
    Ok(unlinkat(AT_FDCWD, path, UnlinkatFlags::RemoveDir)?)
}

/// Opens a directory, never a link to one, and makes it usable by its owner.
fn open_directory<P: ?Sized + nix::NixPath>(
    parent: impl AsFd + Copy,
    path: &P,
) -> io::Result<OwnedFd> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    match openat(parent, path, flags | OFlag::O_RDONLY, Mode::empty()) {
        Err(Errno::EACCES) => {
            fchmodat(parent, path, Mode::S_IRWXU, FchmodatFlags::NoFollowSymlink)?;
            Ok(openat(
                parent,
                path,
                flags | OFlag::O_RDONLY,
                Mode::empty(),
            )?)
        }
        Ok(fd) => {
            nix::sys::stat::fchmod(&fd, Mode::S_IRWXU)?;
            Ok(fd)
        }
        Err(error) => Err(error.into()),
    }
}

/// Lists a directory: names, and which of them are directories.
fn entries(directory: &OwnedFd) -> io::Result<Vec<(std::ffi::CString, bool)>> {
    let mut listing = Dir::from_fd(openat(
        directory,
        ".",
        OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )?)?;
    let mut found = Vec::new();
    for entry in listing.iter() {
        let name = entry?.file_name().to_owned();
        if matches!(name.as_bytes(), b"." | b"..") {
            continue;
        }
        let kind = fstatat(directory, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW)?.st_mode
            & SFlag::S_IFMT.bits();
        found.push((name, kind == SFlag::S_IFDIR.bits()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use nix::{fcntl::open, sys::stat::mkdirat};

    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_is_executed_once_the_children_that_could_write_it_are_gone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        let writer = File::create(&path).unwrap();
        let pause = Duration::from_millis(30);
        let began = std::time::Instant::now();
        let gone = thread::spawn(move || {
            thread::sleep(pause);
            drop(writer);
        });
        wait_for_writers(&path).unwrap();
        assert!(began.elapsed() >= pause);
        gone.join().unwrap();
        // The control: without one it does not wait; and a writer that stays is not waited for without end.
        let began = std::time::Instant::now();
        wait_for_writers(&path).unwrap();
        assert!(began.elapsed() < pause);
        let _writer = File::options().append(true).open(&path).unwrap();
        wait_for_writers(&path).unwrap();
    }

    #[test]
    fn a_run_leaves_nothing_whatever_it_made() {
        let base = tempfile::tempdir().unwrap();
        let outside = base.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("precious"), "kept").unwrap();
        let instance = InstanceDir::create(&base.path().join("base"), false).unwrap();
        let run = instance.run(None).unwrap();
        let scratch = run.scratch();
        symlink(&outside, scratch.join("link")).unwrap();
        fs::write(
            scratch.join(std::ffi::OsStr::from_bytes(b"new\nline\xff")),
            "",
        )
        .unwrap();
        fs::create_dir(scratch.join("closed")).unwrap();
        fs::write(scratch.join("closed/file"), "").unwrap();
        fs::create_dir(scratch.join("closed/inner")).unwrap();
        fs::set_permissions(scratch.join("closed/inner"), Permissions::from_mode(0o000)).unwrap();
        fs::set_permissions(scratch.join("closed"), Permissions::from_mode(0o000)).unwrap();
        // Deeper than a path can name.
        let mut deepest = open(
            &scratch,
            OFlag::O_DIRECTORY | OFlag::O_RDONLY,
            Mode::empty(),
        )
        .unwrap();
        let name = "d".repeat(200);
        for _ in 0..40 {
            mkdirat(&deepest, name.as_str(), Mode::S_IRWXU).unwrap();
            deepest = openat(
                &deepest,
                name.as_str(),
                OFlag::O_DIRECTORY | OFlag::O_RDONLY,
                Mode::empty(),
            )
            .unwrap();
        }
        let path = run.path.clone();
        drop(run);
        assert!(!path.exists());
        assert_eq!(
            fs::read_to_string(outside.join("precious")).unwrap(),
            "kept"
        );
    }

    #[test]
    fn a_run_is_removed_whatever_names_are_there_and_whatever_an_earlier_try_has_moved() {
        let base = tempfile::tempdir().unwrap();
        let run = base.path().join("run");
        for name in ["a/b/c", "d/e/f", "moved-1/x/y", "moved-2/x/y"] {
            fs::create_dir_all(run.join(name)).unwrap();
        }
        // The rest of a try that failed half way: deeper entries are moved, and one directory is where a name is.
        let failing = run.join("a/b");
        fs::rename(&failing, run.join("moved-3")).unwrap();
        remove(&run).unwrap();
        assert!(!run.exists());
    }

    #[test]
    fn only_an_empty_run_is_removed_at_once() {
        let base = tempfile::tempdir().unwrap();
        let instance = InstanceDir::create(&base.path().join("base"), false).unwrap();
        let empty = instance.run(None).unwrap();
        let script = base.path().join("script");
        fs::write(&script, "").unwrap();
        let alone = Around::default();
        let copied = empty.frame(&script, "script", &alone).unwrap();
        copied.fill(&File::open(&script).unwrap()).unwrap();
        assert!(copied.path.exists());
        assert!(empty.remove_empty_scratch() && empty.remove_own());
        assert!(!empty.path.exists());
        let full = instance.run(None).unwrap();
        fs::write(full.scratch().join("file"), "").unwrap();
        assert!(!full.remove_empty_scratch());
        let path = full.path.clone();
        assert!(path.exists());
        drop((empty, full));
        assert!(!path.exists());
    }

    #[test]
    fn the_next_daemon_removes_what_a_killed_one_left_and_spares_the_living() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().join("base");
        let living = InstanceDir::create(&base, false).unwrap();
        let dead = base.join("instance-dead");
        fs::create_dir_all(dead.join("run-1/tmp/x")).unwrap();
        fs::write(dead.join("lock"), "").unwrap();
        let next = InstanceDir::create(&base, false).unwrap();
        assert!(!dead.exists());
        assert!(living.path.exists() && next.path.exists());
    }

    #[test]
    fn what_a_hook_of_the_same_user_shut_is_opened_by_the_next_daemon() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().join("base");
        let dead = base.join("instance-dead");
        fs::create_dir_all(dead.join("run-1/tmp/x")).unwrap();
        fs::write(dead.join("lock"), "").unwrap();
        for path in [&dead, &base] {
            fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
        }
        let next = InstanceDir::create(&base, false).unwrap();
        assert!(!dead.exists());
        assert!(next.path.exists());
    }

    #[test]
    fn a_base_that_others_can_write_is_refused() {
        let base = tempfile::tempdir().unwrap();
        fs::set_permissions(base.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(InstanceDir::create(base.path(), false).is_err());
    }
}
