//! Lock files of the journal's writers, by which writers recognise dead ones.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};
use uuid::Uuid;

use hookjail_base::util::trusted_file::{self, Untrusted};

use super::boot::Boot;

/// A locked mark, as writers' lock files are called: this process's own, or a dead writer's.
///
/// The kernel releases the lock when its holder ends, however it ends.
#[derive(Debug)]
pub(super) struct WriterLock {
    held: Flock<File>,
    id: String,
    path: PathBuf,
}

impl WriterLock {
    /// Creates the mark of a new writer.
    ///
    /// The caller holds the journal's lock: between creation and locking, the mark looks like a dead writer's.
    ///
    /// The mark has the id of the boot.
    pub(super) fn make(directory: &Path, boot: Option<&Boot>) -> Result<Self, WriterLockError> {
        let id = Uuid::now_v7().to_string();
        let path = directory.join(format!("{id}.{EXTENSION}"));
        let failed = |cause| WriterLockError {
            path: path.clone(),
            cause,
        };
        let file = trusted_file::open(&path, OpenOptions::new().write(true).create_new(true))
            .map_err(failed)?;
        let held = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| failed(io::Error::from(errno).into()))?;
        if let Some(boot) = boot {
            let written = held.write_all_at(boot.id.as_bytes(), 0);
            written.map_err(|error| failed(error.into()))?;
        }
        Ok(Self { held, id, path })
    }

    /// Returns whether the mark was made in an earlier boot than this one.
    pub(super) fn is_before(&self, boot: &Boot) -> bool {
        let mut written = [0; BOOT_ID_BYTES];
        let Ok(read) = self.held.read_at(&mut written, 0) else {
            return false;
        };
        let written = String::from_utf8_lossy(written.get(..read).unwrap_or_default());
        let made = Uuid::try_parse(&self.id)
            .ok()
            .and_then(|id| id.get_timestamp());
        let made = made.map_or(u64::MAX, |time| time.to_unix().0);
        // Zeros: the file system kept the length and not the content.
        boot.is_later_than(written.trim_matches('\0'), made)
    }

    /// Takes over the marks of writers that died. Only the holder of such a mark settles its runs.
    ///
    /// The caller holds the journal's lock.
    pub(super) fn take_dead(directory: &Path) -> Result<Vec<Self>, WriterLockError> {
        let failed = |error: io::Error| WriterLockError {
            path: directory.to_owned(),
            cause: error.into(),
        };
        let mut dead = Vec::new();
        for entry in fs::read_dir(directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if let Some(id) = id(&path)
                && let Some(held) = take(&path)?
            {
                dead.push(Self { held, id, path });
            }
        }
        Ok(dead)
    }

    /// Returns the writer's id.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Removes the mark, once every run of its writer is settled.
    pub(super) fn remove(&self) -> Result<(), WriterLockError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(WriterLockError {
                path: self.path.clone(),
                cause: error.into(),
            }),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Error of handling a mark.
#[derive(Debug)]
pub(super) struct WriterLockError {
    pub(super) cause: Untrusted,
    pub(super) path: PathBuf,
}

/// Returns the names of all marks in a directory, of living writers and dead ones.
pub(super) fn marks(directory: &Path) -> io::Result<Vec<OsString>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        names.extend(id(Path::new(&name)).map(|_| name));
    }
    Ok(names)
}

/// Returns the id in a mark's name; `None` for other files.
fn id(path: &Path) -> Option<String> {
    if path.extension()? != EXTENSION {
        return None;
    }
    let id = path.file_stem()?.to_str()?;
    Uuid::try_parse(id).ok()?;
    Some(id.to_owned())
}

/// Locks a mark, unless its writer is alive or has just removed it.
fn take(path: &Path) -> Result<Option<Flock<File>>, WriterLockError> {
    let failed = |cause| WriterLockError {
        path: path.to_owned(),
        cause,
    };
    let file = match trusted_file::open(path, OpenOptions::new().read(true).write(true)) {
        Ok(file) => file,
        Err(Untrusted::Io(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(failed(cause)),
    };
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(held) => Ok(Some(held)),
        Err((_, Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, errno)) => Err(failed(io::Error::from(errno).into())),
    }
}

/// The length of a boot's id.
const BOOT_ID_BYTES: usize = 36;

const EXTENSION: &str = "lock";
