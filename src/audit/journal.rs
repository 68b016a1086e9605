//! Appends records to the journal, so that several writers share one chain.
//!
//! Writing reaches the kernel, not the disk: what was appended survives the end of this process, not of the machine.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use nix::fcntl::{Flock, FlockArg};

use super::{
    chain::{Head, Link, MAX_LINE_BYTES},
    instance::{Mark, MarkError},
    record::{Interrupted, Record, Torn},
};
use crate::trusted::{self, Untrusted};

/// A journal open for appending.
///
/// While it lives it holds the mark of its instance. Dropping it removes the mark, unless it started a run whose end
/// it could not write: the next writer then finds that run interrupted.
#[derive(Debug)]
pub struct Journal {
    mark: Mark,
    state: Mutex<State>,
}

impl Journal {
    /// Opens `journal.jsonl` in a directory, both made if they are missing, and records which runs of dead writers
    /// were interrupted.
    ///
    /// # Errors
    ///
    /// Fails if somebody else could write the files, if they cannot be written, or if the last record is not intact.
    pub fn open(dir: &Path) -> Result<Self, JournalError> {
        let instances = dir.join("instances");
        for path in [dir, &instances] {
            trusted::directory(path).map_err(|source| JournalError::Untrusted {
                path: path.to_owned(),
                source,
            })?;
        }
        let lock = open_file(
            &dir.join("journal.lock"),
            OpenOptions::new().write(true).create(true),
        )?;
        let path = dir.join("journal.jsonl");
        let file = open_file(
            &path,
            OpenOptions::new().read(true).append(true).create(true),
        )?;

        let held = hold(&lock, &path)?;
        let mark = Mark::make(&instances)?;
        let dead = Mark::take_dead(&instances)?;
        drop(held);

        let state = State {
            head: Head::genesis(),
            identity: identity(&file, &path)?,
            instance: mark.id().to_owned(),
            length: 0,
            open: HashSet::new(),
            file,
            lock,
            path,
        };
        let journal = Self {
            mark,
            state: Mutex::new(state),
        };
        journal.within(|state| state.catch_up())?;
        journal.settle(&dead)?;
        Ok(journal)
    }

    /// Appends one record.
    ///
    /// # Errors
    ///
    /// If this fails, the record does not count as written: what reached the file of it is cut off again, by this
    /// writer or by the next one.
    pub fn append(&self, record: &Record) -> Result<Appended, JournalError> {
        self.append_through(record, write_whole)
    }

    fn append_through(&self, record: &Record, write: WriteLine) -> Result<Appended, JournalError> {
        self.within(|state| {
            state.catch_up()?;
            state.append(record, write)
        })
    }

    /// Records the runs that dead writers left open, and removes their marks.
    fn settle(&self, dead: &[Mark]) -> Result<(), JournalError> {
        if dead.is_empty() {
            return Ok(());
        }
        // Dead writers write no more, so this long read needs no lock.
        for interrupted in self
            .within(|state| Ok(state.path.clone()))
            .and_then(|path| left_open(&path, dead))?
        {
            self.append(&Record::Interrupted(interrupted))?;
        }
        for mark in dead {
            mark.remove()?;
        }
        Ok(())
    }

    /// Calls `act` while neither another thread nor another process writes.
    fn within<T>(
        &self,
        act: impl FnOnce(&mut State) -> Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        // The state changes only after a write succeeded, so a panic elsewhere leaves it true.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let _held = hold(&state.lock, &state.path)?;
        act(&mut state)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if !self
            .state
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .open
            .is_empty()
        {
            return;
        }
        if let Err(MarkError { cause, path }) = self.mark.remove() {
            tracing::warn!(error = %cause, path = %path.display(), "cannot remove the mark of this instance");
        }
    }
}

/// Where a record stands in the chain.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Appended {
    /// Its hash.
    pub hash: String,
    /// Its place, counted from 1.
    pub sequence: u64,
}

/// Opening or appending to a journal failed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The last record was changed, so nothing can follow it.
    #[error(
        "the last record of `{path}` is not intact; move the file away, keep it for whoever looks into that, and start \
         again: a new chain begins"
    )]
    Broken {
        /// The journal.
        path: PathBuf,
    },
    /// The file is not the one that was opened.
    #[error(
        "`{path}` was removed or replaced while in use; restart to go on with the file that is there now"
    )]
    Replaced {
        /// The journal.
        path: PathBuf,
    },
    /// Records were cut off while the journal was in use.
    #[error(
        "`{path}` has become shorter while in use: records were removed; restart to go on with those left"
    )]
    Shrunk {
        /// The journal.
        path: PathBuf,
    },
    /// The record is larger than any that is read back.
    #[error("a record of {bytes} bytes is too large; {MAX_LINE_BYTES} is the most")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// A file cannot be opened, or somebody else could write it.
    #[error("cannot use `{path}` for the journal")]
    Untrusted {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: Untrusted,
    },
    /// Reading, writing or locking failed.
    #[error("cannot {doing} `{path}`")]
    Unusable {
        /// What was attempted.
        doing: &'static str,
        /// The journal.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl From<MarkError> for JournalError {
    fn from(MarkError { cause, path }: MarkError) -> Self {
        Self::Untrusted {
            path,
            source: cause,
        }
    }
}

type WriteLine = fn(&File, &[u8]) -> io::Result<()>;

#[derive(Debug)]
struct State {
    file: File,
    /// The last record seen.
    head: Head,
    /// The device and inode of `file`.
    identity: (u64, u64),
    instance: String,
    /// Where the line of `head` ends.
    length: u64,
    lock: File,
    /// The runs this instance started and did not end.
    open: HashSet<String>,
    path: PathBuf,
}

impl State {
    /// Reads what other writers appended, and cuts off a line that one of them left unfinished.
    fn catch_up(&mut self) -> Result<(), JournalError> {
        let length = self.current_length()?;
        if length < self.length {
            return Err(JournalError::Shrunk {
                path: self.path.clone(),
            });
        }
        if length == self.length {
            return Ok(());
        }
        let end = self.line_start(length)?;
        if end > self.length {
            self.head = self.last_record(end)?;
            self.length = end;
        }
        if end < length {
            self.cut_off(length)?;
        }
        Ok(())
    }

    fn append(&mut self, record: &Record, write: WriteLine) -> Result<Appended, JournalError> {
        let (line, head) = self
            .head
            .seal(&self.instance, record)
            .map_err(|error| self.unusable("render a record for", error.into()))?;
        if line.len() > MAX_LINE_BYTES {
            return Err(JournalError::TooLarge { bytes: line.len() });
        }
        if let Err(error) = write(&self.file, &line) {
            if let Err(error) = self.file.set_len(self.length) {
                tracing::warn!(%error, path = %self.path.display(), "cannot cut off an unfinished record");
            }
            return Err(self.unusable("append to", error));
        }
        self.length += bytes(&line);
        self.head = head;
        match record {
            Record::Ended(ended) => drop(self.open.remove(&ended.run_id)),
            Record::Refused(refused) => {
                if let Some(run_id) = &refused.run_id {
                    self.open.remove(run_id);
                }
            }
            Record::Started(started) => drop(self.open.insert(started.run_id.clone())),
            Record::Interrupted(_) | Record::Torn(_) => {}
        }
        Ok(Appended {
            hash: self.head.hash.clone(),
            sequence: self.head.sequence,
        })
    }

    /// Returns the length of the file, which must be the one at the journal's path still.
    fn current_length(&self) -> Result<u64, JournalError> {
        // Why not ask the descriptor only: records appended to a file that was removed would be gone with us.
        let found = match fs::symlink_metadata(&self.path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(JournalError::Replaced {
                    path: self.path.clone(),
                });
            }
            Err(error) => return Err(self.unusable("look at", error)),
        };
        if (found.dev(), found.ino()) != self.identity {
            return Err(JournalError::Replaced {
                path: self.path.clone(),
            });
        }
        Ok(found.len())
    }

    /// Reads the record whose line ends at `end`.
    fn last_record(&self, end: u64) -> Result<Head, JournalError> {
        let broken = || JournalError::Broken {
            path: self.path.clone(),
        };
        let start = self.line_start(end - 1)?;
        let size = usize::try_from(end - 1 - start)
            .ok()
            .filter(|size| *size < MAX_LINE_BYTES)
            .ok_or_else(broken)?;
        let mut line = vec![0; size];
        self.file
            .read_exact_at(&mut line, start)
            .map_err(|error| self.unusable("read", error))?;
        let head = Link::read(&line).map_err(|_| broken())?.head();
        if head.sequence <= self.head.sequence {
            return Err(broken());
        }
        Ok(head)
    }

    /// Returns where the line begins that goes on at `end`, looking no further back than what was seen before.
    fn line_start(&self, end: u64) -> Result<u64, JournalError> {
        let mut chunk = [0; 4096];
        let mut end = end;
        while end > self.length {
            let size = usize::try_from(end - self.length)
                .map_or(chunk.len(), |left| left.min(chunk.len()));
            let chunk = &mut chunk[..size];
            end -= bytes(chunk);
            self.file
                .read_exact_at(chunk, end)
                .map_err(|error| self.unusable("read", error))?;
            if let Some(at) = chunk.iter().rposition(|byte| *byte == b'\n') {
                return Ok(end + bytes(&chunk[..=at]));
            }
        }
        Ok(self.length)
    }

    /// Cuts off what follows the last whole line, and records that.
    fn cut_off(&mut self, length: u64) -> Result<(), JournalError> {
        let cut = length - self.length;
        let mut text =
            vec![0; usize::try_from(cut).map_or(TORN_TEXT_BYTES, |cut| cut.min(TORN_TEXT_BYTES))];
        self.file
            .read_exact_at(&mut text, self.length)
            .map_err(|error| self.unusable("read", error))?;
        self.file
            .set_len(self.length)
            .map_err(|error| self.unusable("cut off the unfinished record of", error))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        self.append(&Record::Torn(Torn { bytes: cut, text }), write_whole)?;
        Ok(())
    }

    fn unusable(&self, doing: &'static str, source: io::Error) -> JournalError {
        JournalError::Unusable {
            doing,
            path: self.path.clone(),
            source,
        }
    }
}

/// Returns the runs that dead writers started and nobody settled, in the order of their start.
fn left_open(path: &Path, dead: &[Mark]) -> Result<Vec<Interrupted>, JournalError> {
    let unusable = |source| JournalError::Unusable {
        doing: "read",
        path: path.to_owned(),
        source,
    };
    let mut lines = BufReader::with_capacity(1 << 16, File::open(path).map_err(unusable)?);
    let mut line = Vec::new();
    let mut open = BTreeMap::new();
    while lines.read_until(b'\n', &mut line).map_err(unusable)? != 0 {
        // A line that is no record tells nothing about a run; naming it is the business of `verify`.
        if let Ok(link) = serde_json::from_slice::<Link<'_>>(&line)
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
        line.clear();
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

/// Keeps other processes from appending, for as long as the returned value lives.
fn hold(lock: &File, path: &Path) -> Result<Flock<File>, JournalError> {
    let unusable = |source| JournalError::Unusable {
        doing: "lock",
        path: path.to_owned(),
        source,
    };
    // The duplicate shares its lock with the original: `Flock` wants a file of its own to unlock at the end.
    let file = lock.try_clone().map_err(unusable)?;
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| unusable(errno.into()))
}

fn open_file(path: &Path, options: &mut OpenOptions) -> Result<File, JournalError> {
    trusted::open(path, options).map_err(|source| JournalError::Untrusted {
        path: path.to_owned(),
        source,
    })
}

fn identity(file: &File, path: &Path) -> Result<(u64, u64), JournalError> {
    let unusable = |source| JournalError::Unusable {
        doing: "look at",
        path: path.to_owned(),
        source,
    };
    let metadata = file.metadata().map_err(unusable)?;
    Ok((metadata.dev(), metadata.ino()))
}

fn write_whole(mut file: &File, line: &[u8]) -> io::Result<()> {
    file.write_all(line)
}

fn bytes(of: &[u8]) -> u64 {
    // There is no address space in which this does not fit.
    u64::try_from(of.len()).unwrap_or(u64::MAX)
}

const TORN_TEXT_BYTES: usize = 4096;

#[cfg(test)]
mod tests;
