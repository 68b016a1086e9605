//! Checks a journal from its first record to its last.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use super::{
    chain::{Head, Link, MAX_LINE_BYTES},
    files::{self, Older, settled},
    head::{HeadRecord, HeadState},
    record::Rebooted,
};

/// A verified chain.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub struct Verified {
    /// The number of files.
    pub files: usize,
    /// The sequence of the first record; 1 if there is none.
    pub first: u64,
    /// The hash of the last record; 64 zeros if there is none.
    pub head: String,
    /// The number of records.
    pub records: u64,
    /// The times at which the host went down under a writer.
    pub reboots: Vec<Reboot>,
    /// Whether truncation at the end is ruled out.
    pub tail: Tail,
}

/// A time at which the host went down under a writer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reboot {
    /// The longest time before of which records may be missing, ms.
    pub missing_ms: u64,
    /// The sequence of the record about that.
    pub sequence: u64,
}

/// The state of a chain's end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tail {
    /// The chain reaches the record of the head file.
    Noted,
    /// Unknown: a truncated file alone shows no trace of it.
    Unproven,
}

/// The first defect of a chain.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{}`, line {line}: {why}", .file.display())]
pub struct BrokenAt {
    /// The file.
    pub file: PathBuf,
    /// Its line, counted from 1.
    pub line: u64,
    /// The expected sequence, if known.
    pub record: Option<u64>,
    /// The defect.
    pub why: ChainBreak,
}

/// A defect of a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ChainBreak {
    /// The records from here on were cut off.
    #[error("record {} and all up to record {noted} are gone: cut off, or lost with the machine", .last + 1)]
    Cut {
        /// The last record found.
        last: u64,
        /// The record of the head file.
        noted: u64,
    },
    /// The hash does not match the bytes.
    #[error("was edited: its hash does not fit its bytes")]
    Edited,
    /// Records were missing at the journal's end when a writer continued it.
    #[error("records before this one are gone, as this record itself reports")]
    Lost,
    /// The line is not a record.
    #[error("is not a record")]
    Malformed,
    /// The record is not the next one.
    #[error(
        "is record {found} where record {expected} belongs: records were removed, inserted or moved"
    )]
    Misplaced {
        /// The sequence that belongs there.
        expected: u64,
        /// The sequence found.
        found: u64,
    },
    /// A file is missing.
    #[error("the file with record {from} and all up to record {to} is missing")]
    MissingFile {
        /// The first record that is missing.
        from: u64,
        /// The last.
        to: u64,
    },
    /// The head file is missing or damaged.
    #[error("is missing or damaged, so the journal's end is unknown, which the next start records")]
    NoNote,
    /// The head file has another hash for this record.
    #[error("is not the record that was written: the journal was rewritten from some record on")]
    Rewritten,
    /// The line has no newline.
    #[error("is unfinished: its writer died, or the file was cut, which the next start records")]
    Unfinished,
    /// The record was not written after the one before it.
    #[error("does not follow from the record before: one of the two was replaced")]
    Unlinked,
}

impl ChainBreak {
    /// Returns its stable name.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Cut { .. } => "CUT",
            Self::Edited => "EDITED",
            Self::Lost => "LOST",
            Self::Malformed => "MALFORMED",
            Self::Misplaced { .. } => "MISPLACED",
            Self::MissingFile { .. } => "MISSING_FILE",
            Self::NoNote => "NO_NOTE",
            Self::Rewritten => "REWRITTEN",
            Self::Unfinished => "UNFINISHED",
            Self::Unlinked => "UNLINKED",
        }
    }
}

/// Error of verifying a journal.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The chain does not hold.
    #[error("the chain does not hold: {0}")]
    Broken(BrokenAt),
    /// The file cannot be read.
    #[error("cannot read `{path}`")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// Verifies every record of one file: hash, position, and link to the one before.
///
/// A live journal is checked up to where it ended at the time of the call. A file alone does not show what came before
/// its first record, nor whether records were cut off after its last.
///
/// # Errors
///
/// [`VerifyError::Broken`] names the first defect; [`VerifyError::Unreadable`], a file that cannot be read.
pub fn verify_file(path: &Path) -> Result<Verified, VerifyError> {
    let unreadable = unreadable(path);
    let metadata = path.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
        return Err(unreadable(error));
    }
    let file = File::open(path).map_err(unreadable)?;
    let length = settled(path.parent().unwrap_or(Path::new("")), || {
        Ok(file.metadata()?.len())
    });
    let length = length.map_err(unreadable)?;
    let mut walk = Walk::new(None);
    walk.file(path, file, length)?;
    Ok(walk.verified(Tail::Unproven))
}

/// Verifies all files of a journal, and its end against the head file.
///
/// Where the oldest files were removed by rotation, verification begins with the oldest that is kept.
///
/// # Errors
///
/// [`VerifyError::Broken`] names the first defect; [`VerifyError::Unreadable`], a file that cannot be read.
pub fn verify_journal(directory: &Path) -> Result<Verified, VerifyError> {
    loop {
        let seen =
            settled(directory, || Snapshot::load(directory)).map_err(unreadable(directory))?;
        match seen.verify(directory) {
            // Meanwhile a writer removed the oldest file.
            Err(VerifyError::Unreadable { source, .. })
                if source.kind() == io::ErrorKind::NotFound
                    && Older::list(directory)
                        .is_ok_and(|older| older.first() > seen.older.first()) => {}
            done => return done,
        }
    }
}

/// A journal's directory while no writer was in the middle of a line.
struct Snapshot {
    length: u64,
    /// Absent where a writer died during rotation, or the file was removed.
    live: Option<File>,
    note: HeadState,
    older: Vec<Older>,
}

impl Snapshot {
    fn load(directory: &Path) -> io::Result<Self> {
        let (note, older) = (HeadState::load(directory)?, Older::list(directory)?);
        let live = match File::open(directory.join(files::LIVE)) {
            Ok(live) => Some(live),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // An empty directory is no journal.
            Err(error) if note == HeadState::Absent && older.is_empty() => return Err(error),
            Err(_) => None,
        };
        let length = live.as_ref().map(File::metadata).transpose()?;
        Ok(Self {
            length: length.map_or(0, |live| live.len()),
            live,
            note,
            older,
        })
    }

    fn verify(&self, directory: &Path) -> Result<Verified, VerifyError> {
        let live = directory.join(files::LIVE);
        let HeadState::Present(noted) = &self.note else {
            return Err(VerifyError::Broken(BrokenAt {
                file: directory.join(files::HEAD),
                line: 1,
                record: None,
                why: ChainBreak::NoNote,
            }));
        };
        // Files before `oldest` are left over, or about to be removed.
        let older = self.older.iter();
        let kept: Vec<_> = older.filter(|older| older.first >= noted.oldest).collect();
        let mut walk = Walk::new(Some(noted));
        for older in kept {
            walk.expect_file(older.first)?;
            let unreadable = unreadable(&older.path);
            let file = File::open(&older.path).map_err(unreadable)?;
            let length = file.metadata().map_err(unreadable)?.len();
            walk.file(&older.path, file, length)?;
        }
        if let Some(file) = &self.live {
            let file = file.try_clone().map_err(unreadable(&live))?;
            let claimed = files::first_claimed(&file).map_err(unreadable(&live))?;
            if let (Some(first), true) = (claimed, walk.files > 0 || noted.oldest > 1) {
                walk.expect_file(first)?;
            }
            walk.file(&live, file, self.length)?;
        } else {
            walk.line = 0;
        }
        walk.check_end(&live)?;
        Ok(walk.verified(Tail::Noted))
    }
}

/// State of a walk through a chain.
struct Walk<'a> {
    files: usize,
    first: Option<u64>,
    head: Option<Head>,
    /// The last line read of the current file.
    line: u64,
    noted: Option<&'a HeadRecord>,
    reboots: Vec<Reboot>,
    records: u64,
}

impl<'a> Walk<'a> {
    const fn new(noted: Option<&'a HeadRecord>) -> Self {
        Self {
            files: 0,
            first: None,
            head: None,
            line: 0,
            noted,
            reboots: Vec::new(),
            records: 0,
        }
    }

    /// Checks that no file is missing before the next one.
    fn expect_file(&self, first: u64) -> Result<(), VerifyError> {
        let expected = self.expected();
        if first > expected {
            let missing = Older::new(Path::new(""), expected);
            return Err(VerifyError::Broken(BrokenAt {
                file: missing.path,
                line: 1,
                record: Some(expected),
                why: ChainBreak::MissingFile {
                    from: expected,
                    to: first - 1,
                },
            }));
        }
        Ok(())
    }

    /// Checks the lines of one file.
    fn file(&mut self, path: &Path, file: File, length: u64) -> Result<(), VerifyError> {
        let mut lines = BufReader::with_capacity(1 << 16, file).take(length);
        let mut line = Vec::new();
        self.files += 1;
        self.line = 0;
        loop {
            line.clear();
            let limit = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX);
            let taken = lines
                .by_ref()
                .take(limit)
                .read_until(b'\n', &mut line)
                .map_err(unreadable(path))?;
            if taken == 0 {
                return Ok(());
            }
            self.line += 1;
            self.follow(&line, taken == MAX_LINE_BYTES)
                .map_err(|why| self.broken(path, why))?;
        }
    }

    /// Checks that the chain reaches the record of the head file.
    fn check_end(&mut self, live: &Path) -> Result<(), VerifyError> {
        let last = self.expected() - 1;
        match self.noted {
            Some(noted) if noted.sequence > last => {
                self.line += 1;
                let noted = noted.sequence;
                Err(self.broken(live, ChainBreak::Cut { last, noted }))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Checks the next line.
    fn follow(&mut self, line: &[u8], full: bool) -> Result<(), ChainBreak> {
        let Some(line) = line.strip_suffix(b"\n") else {
            return Err(if full {
                ChainBreak::Malformed
            } else {
                ChainBreak::Unfinished
            });
        };
        let link = Link::read(line)?;
        match (&self.head, self.noted) {
            (None, None) if link.sequence > 1 => {}
            (None, Some(noted)) if noted.oldest > 1 && link.sequence == noted.oldest => {}
            (head, _) => {
                let genesis = Head::genesis();
                let head = head.as_ref().unwrap_or(&genesis);
                let expected = self.expected();
                if link.sequence != expected {
                    return Err(ChainBreak::Misplaced {
                        expected,
                        found: link.sequence,
                    });
                }
                if link.previous != head.hash.as_str() {
                    return Err(ChainBreak::Unlinked);
                }
            }
        }
        let noted = self.noted.filter(|noted| noted.sequence == link.sequence);
        if noted.is_some_and(|noted| noted.hash != link.hash) {
            return Err(ChainBreak::Rewritten);
        }
        if link.record == "lost" {
            return Err(ChainBreak::Lost);
        }
        if link.record == "rebooted" {
            let rebooted: Rebooted =
                serde_json::from_slice(line).map_err(|_| ChainBreak::Malformed)?;
            self.reboots.push(Reboot {
                missing_ms: rebooted.missing_ms,
                sequence: link.sequence,
            });
        }
        self.first.get_or_insert(link.sequence);
        self.head = Some(link.head());
        self.records += 1;
        Ok(())
    }

    /// Returns the sequence of the record that belongs next.
    fn expected(&self) -> u64 {
        let begin = self.noted.map_or(1, |noted| noted.oldest);
        self.head.as_ref().map_or(begin, |head| head.sequence + 1)
    }

    fn broken(&self, file: &Path, why: ChainBreak) -> VerifyError {
        // The first record of a file alone is not known.
        let known = self.head.is_some() || self.noted.is_some();
        VerifyError::Broken(BrokenAt {
            file: file.to_owned(),
            line: self.line,
            record: known.then(|| self.expected()),
            why,
        })
    }

    fn verified(self, tail: Tail) -> Verified {
        Verified {
            files: self.files,
            first: self.first.unwrap_or(1),
            head: self.head.unwrap_or_else(Head::genesis).hash,
            records: self.records,
            reboots: self.reboots,
            tail,
        }
    }
}

fn unreadable(path: &Path) -> impl Fn(io::Error) -> VerifyError + Copy + '_ {
    |source| VerifyError::Unreadable {
        path: path.to_owned(),
        source,
    }
}
