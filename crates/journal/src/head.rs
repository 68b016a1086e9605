//! The head file `head.json`: where the chain ended, so that truncation is detected.
//!
//! It is one line of a fixed length, sealed like a record and written over in place, with one call and under the
//! journal's lock. Why not a new file renamed over it: that costs many times as much, at every record; and a line that
//! fits a page is written whole or not at all, whenever its writer dies. If it is torn all the same, its seal does not
//! match, and the file counts as damaged.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::Path,
};

use serde::{Deserialize, Serialize};

use hookjail_base::util::trusted_file::{self, Untrusted};

use super::{chain::sha256, files};

/// The end of a chain, as the head file has it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct HeadRecord {
    /// The last record; 0 before the first.
    pub(super) sequence: u64,
    /// Its hash.
    pub(super) hash: String,
    /// The file it was written to.
    pub(super) file: String,
    /// Where its line ended in that file.
    pub(super) length: u64,
    /// The first record of the oldest file that is kept.
    pub(super) oldest: u64,
}

/// The content of the head file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum HeadState {
    /// Nothing: it is absent or empty.
    Absent,
    /// Content that no writer wrote.
    Damaged,
    /// Where the chain ended.
    Said(HeadRecord),
}

impl HeadState {
    /// Reads a directory's head file. It is sure to match the journal only under the journal's lock.
    pub(super) fn of(directory: &Path) -> io::Result<Self> {
        match File::open(directory.join(files::HEAD)) {
            Ok(file) => read(&file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::Absent),
            Err(error) => Err(error),
        }
    }
}

/// `head.json`, open for writing.
#[derive(Debug)]
pub(super) struct HeadFile(File);

impl HeadFile {
    /// Opens the head file, and creates it where it is missing.
    pub(super) fn open(directory: &Path) -> Result<Self, Untrusted> {
        let options = &mut OpenOptions::new();
        let path = directory.join(files::HEAD);
        trusted_file::open(&path, options.read(true).write(true).create(true)).map(Self)
    }

    pub(super) fn read(&self) -> io::Result<HeadState> {
        read(&self.0)
    }

    /// Syncs it to the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    pub(super) fn write(&self, noted: &HeadRecord) -> io::Result<()> {
        let mut line = serde_json::to_vec(noted)?;
        // The object is never empty: its closing brace is replaced by the seal.
        line.pop();
        let seal = sha256(&line);
        line.extend_from_slice(SEAL_KEY);
        line.extend_from_slice(seal.as_bytes());
        line.extend_from_slice(b"\"}");
        line.resize(HEAD_BYTES - 1, b' ');
        line.push(b'\n');
        // One call: a partial write is an error, and not completed by a second call.
        match self.0.write_at(&line, 0)? {
            HEAD_BYTES => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }
}

fn read(file: &File) -> io::Result<HeadState> {
    let mut line = [0; HEAD_BYTES + 1];
    let mut filled = 0;
    while filled < line.len() {
        match file.read_at(&mut line[filled..], filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    if filled == 0 {
        return Ok(HeadState::Absent);
    }
    Ok(parse(&line[..filled]).map_or(HeadState::Damaged, HeadState::Said))
}

fn parse(line: &[u8]) -> Option<HeadRecord> {
    if line.len() != HEAD_BYTES {
        return None;
    }
    let line = line.trim_ascii_end();
    let (sealed, rest) = line.split_at_checked(line.len().checked_sub(SEAL_BYTES)?)?;
    let claimed = rest.strip_prefix(SEAL_KEY)?.strip_suffix(b"\"}")?;
    (claimed == sha256(sealed).as_bytes()).then_some(())?;
    serde_json::from_slice(line).ok()
}

/// The line's length. Less than any page, and more than the longest numbers need.
const HEAD_BYTES: usize = 512;
const SEAL_KEY: &[u8] = b",\"sha256\":\"";
const SEAL_BYTES: usize = SEAL_KEY.len() + 64 + b"\"}".len();

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn noted() -> HeadRecord {
        HeadRecord {
            sequence: u64::MAX,
            hash: "f".repeat(64),
            file: files::LIVE.to_owned(),
            length: u64::MAX,
            oldest: u64::MAX,
        }
    }

    #[test]
    fn what_is_noted_is_read_back_whatever_was_noted_before() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(HeadState::of(dir.path()).unwrap(), HeadState::Absent);
        let file = HeadFile::open(dir.path()).unwrap();
        assert_eq!(file.read().unwrap(), HeadState::Absent);

        file.write(&noted()).unwrap();
        let small = HeadRecord {
            sequence: 1,
            length: 1,
            oldest: 1,
            ..noted()
        };
        file.write(&small).unwrap();

        assert_eq!(file.read().unwrap(), HeadState::Said(small.clone()));
        assert_eq!(HeadState::of(dir.path()).unwrap(), HeadState::Said(small));
        let text = fs::read(dir.path().join(files::HEAD)).unwrap();
        assert_eq!((text.len(), text.last()), (HEAD_BYTES, Some(&b'\n')));
    }

    #[test]
    fn any_changed_byte_is_damage() {
        let dir = tempfile::tempdir().unwrap();
        HeadFile::open(dir.path()).unwrap().write(&noted()).unwrap();
        let path = dir.path().join(files::HEAD);
        let text = fs::read(&path).unwrap();
        for at in 0..text.iter().rposition(|byte| *byte == b'}').unwrap() {
            let mut changed = text.clone();
            changed[at] ^= 1;
            fs::write(&path, &changed).unwrap();
            assert_eq!(
                HeadState::of(dir.path()).unwrap(),
                HeadState::Damaged,
                "byte {at}"
            );
        }
        fs::write(&path, &text[..100]).unwrap();
        assert_eq!(HeadState::of(dir.path()).unwrap(), HeadState::Damaged);
    }
}
