//! Says what a file contains, by its SHA-256.
//!
//! It reads the file it is handed and never opens one: the file that is hashed is the file the caller holds.

use std::{
    collections::{HashMap, VecDeque},
    fs::{File, Metadata},
    io,
    os::unix::fs::{FileExt, MetadataExt},
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use sha2::{Digest, Sha256};

/// The largest file that is hashed. A sparse file of a terabyte would otherwise cost its owner nothing and us hours.
pub const MAX_FILE_BYTES: u64 = 1 << 30;

/// Hashes a regular file from its first byte, wherever its offset stands, and returns lower-case hex.
///
/// # Errors
///
/// Fails if the file is no regular file, is larger than [`MAX_FILE_BYTES`], or was changed while it was read.
pub fn hash_file(file: &File) -> Result<String, HashError> {
    let before = file.metadata()?;
    if !before.is_file() {
        return Err(HashError::Irregular);
    }
    let size = before.len();
    if size > MAX_FILE_BYTES {
        return Err(HashError::TooLarge { bytes: size });
    }
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    // The end is read as well: a file that grows all the time ends here nevertheless.
    while offset <= size {
        match file.read_at(&mut chunk, offset) {
            Ok(0) => break,
            Ok(read) => {
                hasher.update(&chunk[..read]);
                offset += u64::try_from(read).unwrap_or(u64::MAX);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    if offset != size || Stamp::of(&before) != Stamp::of(&file.metadata()?) {
        return Err(HashError::Changed);
    }
    Ok(format!("{:x}", hasher.finalize()))
}

/// Says whether a text is a SHA-256 as it is written here: lower-case hex.
pub fn is_sha256(text: &str) -> bool {
    let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == 64 && text.bytes().all(is_digit)
}

/// Hashing a file failed.
#[derive(Debug, thiserror::Error)]
pub enum HashError {
    /// It was changed meanwhile.
    #[error("the file was changed while it was read; try again")]
    Changed,
    /// Reading failed.
    #[error("the file cannot be read")]
    Io(#[from] io::Error),
    /// It is a directory, a device or the like.
    #[error("it is not a regular file")]
    Irregular,
    /// It is too large.
    #[error("a file of {bytes} bytes is too large; {MAX_FILE_BYTES} is the most")]
    TooLarge {
        /// Its size.
        bytes: u64,
    },
}

/// Remembers the digests of files that cannot have changed unnoticed: programs and interpreters of the system.
///
/// A digest is remembered only for a file that
///
/// - *root alone can write.* A store through a shared mapping leaves the times alone: on tmpfs always, elsewhere as
///   long as the page is dirty. Whoever may write a file can thus change it under an equal stamp.
/// - *was last changed more than two seconds ago.* The kernel takes times from a clock that ticks every few
///   milliseconds (two seconds on the coarsest file systems): a change within the tick in which it was read leaves
///   the times equal.
///
/// Every other file is read every time.
#[derive(Debug, Default)]
pub struct DigestCache {
    known: Mutex<Known>,
}

impl DigestCache {
    /// Returns the digest of a file, as [`hash_file`] does.
    ///
    /// # Errors
    ///
    /// As [`hash_file`].
    pub fn digest(&self, file: &File) -> Result<String, HashError> {
        let metadata = file.metadata()?;
        if !steady(&metadata, SystemTime::now()) {
            return hash_file(file);
        }
        let stamp = Stamp::of(&metadata);
        if let Some(digest) = self.known().digests.get(&stamp) {
            return Ok(digest.clone());
        }
        let digest = hash_file(file)?;
        // What was hashed must be what the stamp was taken of.
        if Stamp::of(&file.metadata()?) == stamp {
            self.known().insert(stamp, digest.clone());
        }
        Ok(digest)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct Known {
    digests: HashMap<Stamp, String>,
    /// The stamps in the order in which they came, to forget the oldest.
    order: VecDeque<Stamp>,
}

impl Known {
    fn insert(&mut self, stamp: Stamp, digest: String) {
        if self.digests.insert(stamp, digest).is_some() {
            return;
        }
        self.order.push_back(stamp);
        if self.order.len() > MAX_KNOWN
            && let Some(oldest) = self.order.pop_front()
        {
            self.digests.remove(&oldest);
        }
    }
}

/// What differs between two states of a file, and between two files.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Stamp {
    changed: (i64, i64),
    device: u64,
    inode: u64,
    modified: (i64, i64),
    size: u64,
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            device: metadata.dev(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            size: metadata.len(),
        }
    }
}

/// Whether every change of the file after `now` shows in its stamp.
fn steady(metadata: &Metadata, now: SystemTime) -> bool {
    let root_alone = metadata.uid() == 0 && metadata.mode() & 0o022 == 0;
    root_alone && settled(metadata, now)
}

/// Whether a file was last changed so long before `now` that another change would give it other times.
pub(super) fn settled(metadata: &Metadata, now: SystemTime) -> bool {
    let Ok(now) = now.duration_since(UNIX_EPOCH) else {
        return false;
    };
    let old =
        |seconds: i64, nanoseconds: i64| match (u64::try_from(seconds), u32::try_from(nanoseconds))
        {
            (Ok(seconds), Ok(nanoseconds)) => {
                now.saturating_sub(Duration::new(seconds, nanoseconds)) > TICK
            }
            // A time before 1970 is old; `utimes` can set one.
            _ => true,
        };
    old(metadata.mtime(), metadata.mtime_nsec()) && old(metadata.ctime(), metadata.ctime_nsec())
}

const CHUNK_BYTES: usize = 128 << 10;
const MAX_KNOWN: usize = 1024;
const TICK: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
