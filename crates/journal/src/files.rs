//! The files of a journal's directory: the current one and the rotated ones.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};

use nix::fcntl::{Flock, FlockArg};

/// The file that is appended to.
pub(super) const LIVE: &str = "journal.jsonl";

/// The lock that a writer holds while it writes.
pub(super) const LOCK: &str = "journal.lock";

/// The head file.
pub(super) const HEAD: &str = "head.json";

/// A rotated file, named after its first record.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Older {
    pub(super) first: u64,
    pub(super) path: PathBuf,
}

impl Older {
    /// Names the file that begins with a record.
    pub(super) fn new(directory: &Path, first: u64) -> Self {
        Self {
            first,
            path: directory.join(format!("journal.{first:020}.jsonl")),
        }
    }

    /// Returns a directory's older files, the oldest first.
    pub(super) fn list(directory: &Path) -> io::Result<Vec<Self>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let first = entry.file_name().to_str().and_then(first);
            found.extend(first.map(|first| Self::new(directory, first)));
        }
        found.sort();
        Ok(found)
    }

    /// Returns the time of the file's last record, unchecked. `None`: the last line has none.
    pub(super) fn newest_time(&self) -> io::Result<Option<String>> {
        let file = File::open(&self.path)?;
        let end = file.metadata()?.len();
        let start = line_start(&file, 0, end.saturating_sub(1))?;
        time_claimed(&file, start)
    }
}

/// Parses the first record's number from a rotated file's name. Other names yield none.
fn first(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("journal.")?.strip_suffix(".jsonl")?;
    let plain = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| plain)
}

/// Returns the sequence in a file's first line, unchecked.
pub(super) fn first_claimed(file: &File) -> io::Result<Option<u64>> {
    sequence_claimed(file, 0)
}

/// Returns the sequence in the line that begins at an offset, unchecked.
pub(super) fn sequence_claimed(file: &File, line: u64) -> io::Result<Option<u64>> {
    let mut start = [0; 64];
    let read = file.read_at(&mut start, line)?;
    let text = start[..read].strip_prefix(b"{\"sequence\":");
    let digits = text.and_then(|text| text.split(|byte| *byte == b',').next());
    Ok(digits
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| digits.parse().ok()))
}

/// Returns the time in the line that begins at an offset, unchecked.
pub(super) fn time_claimed(file: &File, offset: u64) -> io::Result<Option<String>> {
    let mut start = [0; 96];
    let read = file.read_at(&mut start, offset)?;
    let text = String::from_utf8_lossy(&start[..read]);
    let time = text.split_once(",\"time\":\"").map(|(_, rest)| rest);
    Ok(time
        .and_then(|rest| rest.split_once('"'))
        .map(|(time, _)| time.to_owned()))
}

/// A file's device and inode.
pub(super) type FileId = (u64, u64);

/// Returns a file's identity.
pub(super) fn identity(file: &File) -> io::Result<FileId> {
    let found = file.metadata()?;
    Ok((found.dev(), found.ino()))
}

/// Returns the identity and length of the file at a path, if there is one.
pub(super) fn stat(path: &Path) -> io::Result<Option<(FileId, u64)>> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(((found.dev(), found.ino()), found.len()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Calls `look` under a shared lock, while no writer is within a line.
pub(super) fn settled<T>(directory: &Path, look: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let lock = match File::open(directory.join(LOCK)) {
        Ok(lock) => lock,
        // A copy without its lock has no writers.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return look(),
        Err(error) => return Err(error),
    };
    let _held = Flock::lock(lock, FlockArg::LockShared).map_err(|(_, errno)| errno)?;
    look()
}

/// Returns where the line begins that contains `end`, searching back to `floor`.
pub(super) fn line_start(file: &File, floor: u64, end: u64) -> io::Result<u64> {
    let mut chunk = [0; 4096];
    let mut end = end;
    while end > floor {
        let size = usize::try_from(end - floor).map_or(chunk.len(), |left| left.min(chunk.len()));
        let chunk = &mut chunk[..size];
        end -= chunk.len() as u64;
        match file.read_exact_at(chunk, end) {
            // The file is shorter than `end`.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(floor),
            read => read?,
        }
        if let Some(index) = chunk.iter().rposition(|byte| *byte == b'\n') {
            return Ok(end + index as u64 + 1);
        }
    }
    Ok(floor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_files_are_found_in_the_order_of_their_records_and_others_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "journal.jsonl",
            "journal.00000000000000000101.jsonl",
            "journal.00000000000000000020.jsonl",
            "journal.7.jsonl",
            "journal.+0000000000000000007.jsonl",
            "journal.00000000000000000101.jsonl.gz",
            "head.json",
        ] {
            fs::write(dir.path().join(name), "").unwrap();
        }

        let found: Vec<_> = Older::list(dir.path())
            .unwrap()
            .into_iter()
            .map(|older| older.first)
            .collect();

        assert_eq!(found, [20, 101]);
    }
}
