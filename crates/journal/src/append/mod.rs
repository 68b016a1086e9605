//! Appends records to the journal, so that several writers share one chain.
//!
//! Records are written to the kernel: an appended record survives a crash of this process. Whether it survives a crash
//! of the machine depends on [`Fsync`].

mod retention;
mod state;
mod sync;

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, Write},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

#[expect(deprecated, reason = "see `hold`")]
use nix::fcntl::{FlockArg, flock};

use hookjail_base::{
    refusal::chain,
    util::trusted_file::{self, Untrusted},
};

use self::{
    state::WriterState,
    sync::{Synced, Ticker},
};
use super::{
    boot::{Boot, unsynced},
    chain::{Link, MAX_LINE_BYTES},
    files,
    read::JournalReader,
    record::{Interrupted, Rebooted, Record},
    writer_lock::{WriterLock, WriterLockError},
};

pub use self::sync::Fsync;

/// Settings of a journal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Settings {
    /// When records are synced to the disk.
    pub fsync: Fsync,
    /// The number of rotated files that are kept; 0 = all.
    pub keep_files: usize,
    /// The age of its newest record below which no file is removed; zero = files of any age are.
    pub keep_younger: Duration,
    /// The size of a file before rotation, bytes.
    pub rotate_bytes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            fsync: Fsync::Never,
            // With the current file 1 GiB, some 350,000 hooks.
            keep_files: 15,
            keep_younger: Duration::ZERO,
            rotate_bytes: 64 << 20,
        }
    }
}

impl Settings {
    /// Returns the size that a file may reach, bytes, with the room for the ends of a number of runs.
    pub const fn file_bytes(&self, runs: usize) -> u64 {
        self.rotate_bytes.saturating_add(state::kept_room(runs))
    }
}

/// A journal open for appending.
///
/// While it lives it holds the lock file of its instance, its mark. Dropping it removes the mark, unless it started a
/// run whose end it could not write: the next writer then records that run as interrupted.
#[derive(Debug)]
pub struct Journal {
    directory: PathBuf,
    mark: WriterLock,
    shared: Arc<Shared>,
    /// Stopped before the mark is removed.
    ticker: Option<Ticker>,
}

/// State shared by a writer's threads.
#[derive(Debug)]
struct Shared {
    state: Mutex<WriterState>,
    synced: Synced,
}

impl Journal {
    /// Opens a directory's journal, and records the interrupted runs of dead writers. Directory and journal are created
    /// where they are missing. Records missing at its end are recorded as lost.
    ///
    /// # Errors
    ///
    /// Fails if another user could write the files, if they cannot be read or written, or if the last record is not
    /// intact.
    pub fn open(dir: &Path, settings: Settings) -> Result<Self, JournalError> {
        let instances = dir.join(INSTANCES);
        for path in [dir, &instances] {
            trusted_file::directory(path).map_err(|source| JournalError::Untrusted {
                path: path.to_owned(),
                source,
            })?;
        }
        let lock = Arc::new(open_file(
            &dir.join(files::LOCK),
            OpenOptions::new().write(true).create(true),
        )?);
        let path = dir.join(files::LIVE);
        let held = hold(&lock, &path)?;
        let boot = Boot::current();
        let mark = WriterLock::make(&instances, boot.as_ref())?;
        let dead = WriterLock::take_dead(&instances)?;
        let rebooted = boot
            .filter(|boot| dead.iter().any(|mark| mark.is_before(boot)))
            .map(|boot| Rebooted {
                boot_id: boot.id,
                missing_ms: u64::try_from(unsynced(settings.fsync).as_millis()).unwrap_or(u64::MAX),
                noted_sequence: None,
            });
        let state = WriterState::open(dir, mark.id(), lock, settings);
        drop(held);

        let state = match state {
            Ok(state) => state,
            Err(error) => {
                mark.remove()?;
                return Err(error);
            }
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            synced: Synced::default(),
        });
        let ticker = match settings.fsync {
            Fsync::Every(interval) => Some(Ticker::start(interval, Arc::clone(&shared))?),
            Fsync::Always | Fsync::Never => None,
        };
        let journal = Self {
            directory: dir.to_owned(),
            mark,
            shared,
            ticker,
        };
        journal.shared.within(|state| state.check_end(rebooted))?;
        journal.shared.settle(dir, &dead)?;
        Ok(journal)
    }

    /// Appends one record.
    ///
    /// # Errors
    ///
    /// After an error the record does not count as written: a part that reached the file is cut off again, by this
    /// writer or the next one. [`Fsync::Always`] is an exception: a record whose sync failed stays in the file.
    pub fn append(&self, record: &Record) -> Result<Appended, JournalError> {
        self.append_through(record, write_whole)
    }

    /// Checks that a record can be appended, by an attempt that leaves nothing.
    ///
    /// # Errors
    ///
    /// Returns why it could not.
    pub fn check_room(&self) -> Result<(), JournalError> {
        self.shared.within(|state| {
            state.catch_up()?;
            state.check_room()
        })
    }

    /// Returns the journal's directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns this writer's instance id.
    pub fn instance(&self) -> &str {
        self.mark.id()
    }

    /// Appends records under one lock, each as [`Journal::append`] does. Draws the records from the iterator once the
    /// lock is held, and returns a result for each.
    ///
    /// # Errors
    ///
    /// If this fails, none was written.
    pub fn append_all<'a>(
        &self,
        records: impl Iterator<Item = &'a Record>,
    ) -> Result<Vec<Result<Appended, JournalError>>, JournalError> {
        self.append_all_through(records, write_whole)
    }

    fn append_through(&self, record: &Record, write: WriteLine) -> Result<Appended, JournalError> {
        let mut appended = self.append_all_through([record].into_iter(), write)?;
        appended.remove(0)
    }

    fn append_all_through<'a>(
        &self,
        records: impl Iterator<Item = &'a Record>,
        write: WriteLine,
    ) -> Result<Vec<Result<Appended, JournalError>>, JournalError> {
        let appended = self.shared.append_all(records, write)?;
        let dead = self.shared.state().take_dead();
        if !dead.is_empty() {
            self.settle_beside(dead);
        }
        Ok(appended)
    }

    /// Settles the runs of writers that died meanwhile. On a separate thread, because reading the journal takes long.
    fn settle_beside(&self, dead: Vec<WriterLock>) {
        let (shared, directory) = (Arc::clone(&self.shared), self.directory.clone());
        let settle = move || {
            if let Err(error) = shared.settle(&directory, &dead) {
                tracing::warn!(
                    error = chain(&error),
                    "runs of writers that died cannot be settled yet, and no old file of the journal is removed"
                );
            }
            drop(dead);
            shared.state().settled();
        };
        let started = thread::Builder::new()
            .name("journal-settle".to_owned())
            .spawn(settle);
        if let Err(error) = started {
            tracing::warn!(%error, "no thread settles the runs of writers that died");
            self.shared.state().settled();
        }
    }
}

impl Shared {
    fn append_all<'a>(
        &self,
        records: impl Iterator<Item = &'a Record>,
        write: WriteLine,
    ) -> Result<Vec<Result<Appended, JournalError>>, JournalError> {
        let (appended, fsync) = self.within(|state| {
            state.catch_up()?;
            let appended: Vec<_> = records.map(|record| state.append(record, write)).collect();
            Ok((appended, state.settings().fsync))
        })?;
        if fsync != Fsync::Always {
            return Ok(appended);
        }
        // The first sync covers all of them.
        let synced = appended.into_iter().map(|appended| {
            let appended = appended?;
            self.sync(appended.sequence)?;
            Ok(appended)
        });
        Ok(synced.collect())
    }

    /// Records the runs that dead writers left open, and removes their marks.
    fn settle(&self, dir: &Path, dead: &[WriterLock]) -> Result<(), JournalError> {
        if dead.is_empty() {
            return Ok(());
        }
        // Dead writers write no more, so this long read needs no lock.
        let left = left_open(dir, dead).map_err(|source| JournalError::Unusable {
            doing: "read",
            path: dir.join(files::LIVE),
            source,
        })?;
        for interrupted in left {
            let record = Record::Interrupted(interrupted);
            let appended = self.append_all([&record].into_iter(), write_whole)?;
            appended.into_iter().try_for_each(|it| it.map(drop))?;
        }
        for mark in dead {
            mark.remove()?;
        }
        Ok(())
    }

    /// Calls `act` while neither another thread nor another process writes.
    fn within<T>(
        &self,
        act: impl FnOnce(&mut WriterState) -> Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        let mut state = self.state();
        self.synced.check(state.path())?;
        let _held = hold(state.lock(), state.path())?;
        // Before any write: a process that replaced the lock file holds another lock, and could write at the same time.
        state.check_lock()?;
        act(&mut state)
    }

    fn state(&self) -> MutexGuard<'_, WriterState> {
        // The state changes only after a write succeeded, so it is consistent even after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Syncs every record up to one to the disk. Of several threads that wait, one syncs for all.
    fn sync(&self, sequence: u64) -> Result<(), JournalError> {
        self.synced.through(sequence, || {
            let state = self.state();
            (state.file(), state.last(), state.path().to_owned())
        })
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        drop(self.ticker.take());
        if self.shared.state().has_open_runs() {
            return;
        }
        if let Err(WriterLockError { cause, path }) = self.mark.remove() {
            tracing::warn!(error = %cause, path = %path.display(), "cannot remove the mark of this instance");
        }
    }
}

/// A record's position in the chain.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Appended {
    /// The record's size in its file, bytes.
    pub bytes: u64,
    /// Its hash.
    pub hash: String,
    /// Its sequence number, counted from 1.
    pub sequence: u64,
}

/// Error of opening or appending to a journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The last record was changed, so nothing can follow it.
    #[error(
        "the last record of `{path}` is damaged; keep the file elsewhere for analysis, and restart with a new chain"
    )]
    Broken {
        /// The journal.
        path: PathBuf,
    },
    /// The file is not the one that was opened.
    #[error(
        "`{path}` was removed or replaced while in use; restart to continue with the present file"
    )]
    Replaced {
        /// The journal.
        path: PathBuf,
    },
    /// Records were cut off while the journal was in use.
    #[error(
        "`{path}` has become shorter while in use, as records were removed; restart to continue with the rest"
    )]
    Shrunk {
        /// The journal.
        path: PathBuf,
    },
    /// The record is larger than any that is read back.
    #[error("a record of {bytes} bytes exceeds the maximum of {MAX_LINE_BYTES}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The disk failed to take earlier records, and which of them it has is unknown.
    #[error("the disk failed to store records of `{path}`; repair the disk, then restart")]
    Unsynced {
        /// The journal.
        path: PathBuf,
    },
    /// A file cannot be opened, or another user could write it.
    #[error("cannot use `{path}` for the journal")]
    Untrusted {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Untrusted,
    },
    /// Reading, writing or locking failed.
    #[error("cannot {doing} `{path}`")]
    Unusable {
        /// The attempted operation.
        doing: &'static str,
        /// The journal.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl JournalError {
    /// Returns whether this writer will never write another record.
    pub const fn is_final(&self) -> bool {
        match self {
            Self::Broken { .. }
            | Self::Replaced { .. }
            | Self::Shrunk { .. }
            | Self::Unsynced { .. } => true,
            Self::TooLarge { .. } | Self::Untrusted { .. } | Self::Unusable { .. } => false,
        }
    }
}

impl From<WriterLockError> for JournalError {
    fn from(WriterLockError { cause, path }: WriterLockError) -> Self {
        Self::Untrusted {
            path,
            source: cause,
        }
    }
}

type WriteLine = fn(&File, &[u8]) -> io::Result<()>;

/// Returns the runs that dead writers left without an end, in order of start.
fn left_open(dir: &Path, dead: &[WriterLock]) -> io::Result<Vec<Interrupted>> {
    let mut reader = JournalReader::open(dir);
    let mut open = BTreeMap::new();
    while let Some(line) = reader.next_line()? {
        // A malformed line is skipped; `verify` reports it.
        if let Ok(link) = serde_json::from_slice::<Link<'_>>(line)
            && let Some(run_id) = link.run_id
        {
            let writer = link.started_by.unwrap_or(link.instance);
            if dead.iter().any(|mark| mark.id() == writer) {
                let run = (writer.into_owned(), run_id.into_owned());
                match &*link.record {
                    "started" => drop(open.insert(run, link.sequence)),
                    "ended" | "interrupted" | "refused" => drop(open.remove(&run)),
                    _ => {}
                }
            }
        }
    }
    let mut left: Vec<_> = open
        .into_iter()
        .map(|((started_by, run_id), started_sequence)| Interrupted {
            run_id,
            started_by,
            started_sequence,
        })
        .collect();
    left.sort_by_key(|run| run.started_sequence);
    Ok(left)
}

/// The lock that keeps other processes from appending, until this is dropped.
struct Held(Arc<File>);

impl Drop for Held {
    fn drop(&mut self) {
        #[expect(deprecated, reason = "as for `hold`")]
        let unlocked = flock(self.0.as_raw_fd(), FlockArg::Unlock);
        if let Err(errno) = unlocked {
            tracing::error!(%errno, "the journal's lock cannot be given back");
        }
    }
}

/// Keeps other processes from appending, for as long as the returned value lives. The lock needs no new descriptor, so
/// that the end of a run can be written when none is left.
fn hold(lock: &Arc<File>, path: &Path) -> Result<Held, JournalError> {
    #[expect(
        deprecated,
        reason = "its replacement requires a file of its own, which would take a descriptor for each lock"
    )]
    let held = flock(lock.as_raw_fd(), FlockArg::LockExclusive);
    held.map_err(|errno| JournalError::Unusable {
        doing: "lock",
        path: path.to_owned(),
        source: errno.into(),
    })?;
    Ok(Held(Arc::clone(lock)))
}

fn open_file(path: &Path, options: &mut OpenOptions) -> Result<File, JournalError> {
    trusted_file::open(path, options).map_err(|source| JournalError::Untrusted {
        path: path.to_owned(),
        source,
    })
}

fn write_whole(mut file: &File, line: &[u8]) -> io::Result<()> {
    file.write_all(line)
}

/// The directory with the lock files of living writers.
pub(super) const INSTANCES: &str = "instances";

#[cfg(test)]
pub(super) mod tests;
