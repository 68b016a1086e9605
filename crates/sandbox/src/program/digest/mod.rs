//! SHA-256 digests of files, cached for files that cannot have changed.
//!
//! Files are passed in open and never opened here, so that the hashed file is the one that the caller holds.

use std::{
    collections::{HashMap, VecDeque},
    fs::{File, Metadata},
    io,
    os::unix::fs::{FileExt, MetadataExt},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use sha2::{Digest, Sha256};

use hookjail_sys::stores_change_times;

/// The largest file that is hashed, 512 MiB. A sparse file of a terabyte would otherwise cost its owner nothing and the
/// daemon hours.
pub const MAX_FILE_BYTES: u64 = 512 << 20;

/// Hashes a regular file from its first byte, regardless of its offset. Returns lower-case hex.
///
/// # Errors
///
/// Fails if the file cannot be read, is no regular file, is larger than `MAX_FILE_BYTES`, or was changed while it was
/// read.
pub fn hash_file(file: &File) -> Result<String, HashError> {
    hash_unless(file, &AtomicBool::new(false))
}

/// Hashes like [`hash_file`], and fails soon after `stop` is set.
fn hash_unless(file: &File, stop: &AtomicBool) -> Result<String, HashError> {
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
    // Reads past the size once at most, so that a growing file does not keep this loop running.
    while offset <= size {
        if stop.load(Ordering::Relaxed) {
            return Err(HashError::Abandoned);
        }
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
    if offset != size || Stamp::new(&before) != Stamp::new(&file.metadata()?) {
        return Err(HashError::Changed);
    }
    Ok(format!("{:x}", hasher.finalize()))
}

/// Error of hashing a file.
#[derive(Debug, thiserror::Error)]
pub enum HashError {
    /// The caller no longer waits for the digest.
    #[error("the deadline passed while the file was read")]
    Abandoned,
    /// The file was changed while it was read.
    #[error("the file was changed while it was read; try again")]
    Changed,
    /// Reading failed.
    #[error("the file cannot be read")]
    Io(#[from] io::Error),
    /// The file is a directory, a device or the like.
    #[error("the file is not a regular file")]
    Irregular,
    /// The file is too large.
    #[error("a file of {bytes} bytes is too large; {MAX_FILE_BYTES} is the most")]
    TooLarge {
        /// Its size.
        bytes: u64,
    },
}

/// A cache of the digests of files that cannot have changed unnoticed.
///
/// A digest is cached only for a file that
///
/// - *only root can write*, or *that is leased* when it is hashed and at every lookup,
///   *on a file system where every store changes the times*. A store through a shared mapping leaves the times unchanged
///   on tmpfs, and elsewhere where the page was written through that mapping before. There is no lease while any process
///   has the file open or mapped for writing; so a writer between two leases opens it anew. Both a write and the first
///   store to a page of a new mapping set the change time, which can be set back only by setting the clock.
/// - *was last changed more than two seconds ago*. The kernel takes times from a clock that ticks every few
///   milliseconds (two seconds on the coarsest file systems). A change within the tick in which it was read leaves
///   the times equal.
///
/// Every other file is read every time.
#[derive(Debug, Default)]
pub struct DigestCache {
    known: Mutex<KnownDigests>,
}

impl DigestCache {
    /// Returns the digest of a file, as [`hash_file`] does. With `leased`, a lease keeps writers out.
    ///
    /// # Errors
    ///
    /// As [`hash_file`], and soon after `stop` is set.
    pub fn digest(
        &self,
        file: &File,
        leased: bool,
        stop: &AtomicBool,
    ) -> Result<String, HashError> {
        let metadata = file.metadata()?;
        if !steady(file, &metadata, leased, SystemTime::now()) {
            return hash_unless(file, stop);
        }
        let stamp = Stamp::new(&metadata);
        if let Some(digest) = self.known().digests.get(&stamp) {
            return Ok(digest.clone());
        }
        let digest = hash_unless(file, stop)?;
        // The hashed content must be that of the stamp.
        if Stamp::new(&file.metadata()?) == stamp {
            self.known().insert(stamp, digest.clone());
        }
        Ok(digest)
    }

    /// Returns how many bytes have to be read for a file's digest; 0 if cached.
    pub fn unknown_bytes(&self, file: &File, leased: bool) -> u64 {
        // A file that cannot be examined is not read either.
        let Ok(metadata) = file.metadata() else {
            return 0;
        };
        let is_known = steady(file, &metadata, leased, SystemTime::now())
            && self.known().digests.contains_key(&Stamp::new(&metadata));
        if is_known { 0 } else { metadata.len() }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, KnownDigests> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct KnownDigests {
    digests: HashMap<Stamp, String>,
    /// The stamps in order of insertion, to evict the oldest.
    order: VecDeque<Stamp>,
}

impl KnownDigests {
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

/// The metadata that distinguish files, and two states of a file.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Stamp {
    changed: (i64, i64),
    device: u64,
    inode: u64,
    modified: (i64, i64),
    size: u64,
}

impl Stamp {
    /// Takes the stamp from metadata.
    pub fn new(metadata: &Metadata) -> Self {
        Self {
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            device: metadata.dev(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            size: metadata.len(),
        }
    }
}

/// Returns whether every change of the file after `now` shows in its stamp.
fn steady(file: &File, metadata: &Metadata, leased: bool, now: SystemTime) -> bool {
    let root_alone = metadata.uid() == 0 && metadata.mode() & 0o022 == 0;
    settled(metadata, now) && (root_alone || (leased && stores_change_times(file)))
}

/// Returns whether a file's last change is older than the coarsest clock tick. Another change would then give it other times.
pub fn settled(metadata: &Metadata, now: SystemTime) -> bool {
    let Ok(now) = now.duration_since(UNIX_EPOCH) else {
        return false;
    };
    let old =
        |seconds: i64, nanoseconds: i64| match (u64::try_from(seconds), u32::try_from(nanoseconds))
        {
            (Ok(seconds), Ok(nanoseconds)) => {
                now.saturating_sub(Duration::new(seconds, nanoseconds)) > COARSEST_TICK
            }
            // A time before 1970 is old; `utimes` can set one.
            _ => true,
        };
    old(metadata.mtime(), metadata.mtime_nsec()) && old(metadata.ctime(), metadata.ctime_nsec())
}

const CHUNK_BYTES: usize = 128 << 10;
const MAX_KNOWN: usize = 1024;
const COARSEST_TICK: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
