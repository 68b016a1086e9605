//! Checks a journal from its first record to its last.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use nix::fcntl::{Flock, FlockArg};

use super::chain::{Head, Link, MAX_LINE_BYTES};

/// A chain that holds.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub struct Verified {
    /// The hash of the last record; 64 zeros if there is none.
    pub head: String,
    /// How many records there are.
    pub records: u64,
}

/// The first record that does not hold.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("line {line} {why}")]
pub struct BrokenAt {
    /// Its line, counted from 1.
    pub line: u64,
    /// What is wrong with it.
    pub why: Break,
}

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Break {
    /// Its hash does not fit its bytes.
    #[error("was edited: its hash does not fit its bytes")]
    Edited,
    /// It is not a record at all.
    #[error("is not a record")]
    Malformed,
    /// It is not the next one.
    #[error(
        "is record {found} where record {expected} belongs: records were removed, inserted or moved"
    )]
    Misplaced {
        /// The sequence that belongs there.
        expected: u64,
        /// The sequence found.
        found: u64,
    },
    /// It has no newline.
    #[error("is unfinished: its writer died, or the file was cut; the next start sets it off")]
    Unfinished,
    /// It was not written after the record before it.
    #[error("does not follow from the record before: one of the two was replaced")]
    Unlinked,
}

/// Verifying a journal failed.
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
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Checks every record of a journal: its hash, its place, and that it follows from the one before.
///
/// A live journal is checked up to where it ended at the time of the call.
///
/// # Errors
///
/// [`VerifyError::Broken`] names the first record that does not hold.
pub fn verify(path: &Path) -> Result<Verified, VerifyError> {
    let unreadable = |source| VerifyError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(unreadable)?;
    let length = settled_length(path, &file).map_err(unreadable)?;
    let mut lines = BufReader::with_capacity(1 << 16, file).take(length);
    let mut head = Head::genesis();
    let mut line = Vec::new();
    let mut number = 0;
    loop {
        line.clear();
        let limit = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX);
        let taken = lines
            .by_ref()
            .take(limit)
            .read_until(b'\n', &mut line)
            .map_err(unreadable)?;
        if taken == 0 {
            return Ok(Verified {
                head: head.hash,
                records: head.sequence,
            });
        }
        number += 1;
        head = follow(&head, &line, taken == MAX_LINE_BYTES)
            .map_err(|why| VerifyError::Broken(BrokenAt { line: number, why }))?;
    }
}

/// Returns the head that a line makes of the head before it.
fn follow(head: &Head, line: &[u8], full: bool) -> Result<Head, Break> {
    let Some(line) = line.strip_suffix(b"\n") else {
        return Err(if full {
            Break::Malformed
        } else {
            Break::Unfinished
        });
    };
    let link = Link::read(line)?;
    let expected = head.sequence + 1;
    if link.sequence != expected {
        return Err(Break::Misplaced {
            expected,
            found: link.sequence,
        });
    }
    if link.previous != head.hash.as_str() {
        return Err(Break::Unlinked);
    }
    Ok(link.head())
}

/// Returns the length of a journal at a moment when no writer is in the middle of a line.
fn settled_length(path: &Path, file: &File) -> io::Result<u64> {
    let lock = match File::open(path.with_extension("lock")) {
        Ok(lock) => lock,
        // A copy without its lock has no writers.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(file.metadata()?.len()),
        Err(error) => return Err(error),
    };
    let _held = Flock::lock(lock, FlockArg::LockShared).map_err(|(_, errno)| errno)?;
    Ok(file.metadata()?.len())
}
