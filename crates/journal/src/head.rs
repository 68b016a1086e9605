//! The head file `head.json`: where the chain ended, so that truncation is detected.
//!
//! The file has one line of a fixed length, sealed like a record and written over in place, with one call and under the
//! journal's lock. A new file renamed over it would cost many times as much, at every record. A line that fits a page is
//! written whole or not at all, whenever its writer dies. If the line is torn all the same, its seal does not match, and
//! the file counts as damaged.
//!
//! Its first member is the version of its form; a file without one has version 1. Every version has this length and seal,
//! so that a damaged file differs from one of a later version, which is refused: its other members may mean other things.

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

/// Error of reading a head file that a later version wrote.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{name}` has version {found}, and hookjail {program} reads version {HEAD_VERSION}; install the newer hookjail, or \
     restore an earlier journal",
    name = files::HEAD,
    program = env!("CARGO_PKG_VERSION")
)]
struct LaterVersion {
    found: u64,
}

/// The content of the head file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum HeadState {
    /// Nothing: the file is absent or empty.
    Absent,
    /// Content that no writer wrote.
    Damaged,
    /// The end of the chain.
    Present(HeadRecord),
}

impl HeadState {
    /// Reads a directory's head file, which is sure to match the journal only under the journal's lock. A file of a later
    /// version is an error.
    pub(super) fn load(directory: &Path) -> io::Result<Self> {
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
        let version = HEAD_VERSION;
        let mut line = serde_json::to_vec(&Versioned { version, noted })?;
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
    let Some(line) = sealed(&line[..filled]) else {
        return Ok(HeadState::Damaged);
    };
    match serde_json::from_slice::<Version>(line) {
        Ok(Version { version: found }) if found > HEAD_VERSION => {
            let later = LaterVersion { found };
            Err(io::Error::new(io::ErrorKind::InvalidData, later))
        }
        Ok(_) => Ok(serde_json::from_slice(line).map_or(HeadState::Damaged, HeadState::Present)),
        Err(_) => Ok(HeadState::Damaged),
    }
}

/// Returns the object of a line whose seal matches.
fn sealed(line: &[u8]) -> Option<&[u8]> {
    if line.len() != HEAD_BYTES {
        return None;
    }
    let line = line.trim_ascii_end();
    let (sealed, rest) = line.split_at_checked(line.len().checked_sub(SEAL_BYTES)?)?;
    let claimed = rest.strip_prefix(SEAL_KEY)?.strip_suffix(b"\"}")?;
    (claimed == sha256(sealed).as_bytes()).then_some(line)
}

/// The head file's members before the seal.
#[derive(Serialize)]
struct Versioned<'a> {
    version: u64,
    #[serde(flatten)]
    noted: &'a HeadRecord,
}

/// The version of a head file.
#[derive(Deserialize)]
struct Version {
    #[serde(default = "first_version")]
    version: u64,
}

const fn first_version() -> u64 {
    1
}

/// The version that is written, and the newest that is read.
const HEAD_VERSION: u64 = 1;

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
        assert_eq!(HeadState::load(dir.path()).unwrap(), HeadState::Absent);
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

        assert_eq!(file.read().unwrap(), HeadState::Present(small.clone()));
        assert_eq!(
            HeadState::load(dir.path()).unwrap(),
            HeadState::Present(small)
        );
        let text = fs::read(dir.path().join(files::HEAD)).unwrap();
        assert_eq!((text.len(), text.last()), (HEAD_BYTES, Some(&b'\n')));
    }

    #[test]
    fn any_changed_byte_is_damage() {
        let dir = tempfile::tempdir().unwrap();
        HeadFile::open(dir.path()).unwrap().write(&noted()).unwrap();
        let path = dir.path().join(files::HEAD);
        let text = fs::read(&path).unwrap();
        for index in 0..text.iter().rposition(|byte| *byte == b'}').unwrap() {
            let mut changed = text.clone();
            changed[index] ^= 1;
            fs::write(&path, &changed).unwrap();
            assert_eq!(
                HeadState::load(dir.path()).unwrap(),
                HeadState::Damaged,
                "byte {index}"
            );
        }
        fs::write(&path, &text[..100]).unwrap();
        assert_eq!(HeadState::load(dir.path()).unwrap(), HeadState::Damaged);
    }

    /// Writes a head file with other members than this version's.
    fn write(directory: &Path, members: &str) {
        let sealed = format!("{{{members}");
        let line = format!("{sealed},\"sha256\":\"{}\"}}", sha256(sealed.as_bytes()));
        let line = format!("{line:width$}\n", width = HEAD_BYTES - 1);
        fs::write(directory.join(files::HEAD), line).unwrap();
    }

    #[test]
    fn a_file_without_a_version_has_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let hash = "0".repeat(64);
        write(
            dir.path(),
            &format!(
                r#""sequence":7,"hash":"{hash}","file":"journal.jsonl","length":9,"oldest":2"#
            ),
        );

        let expected = HeadRecord {
            sequence: 7,
            hash,
            length: 9,
            oldest: 2,
            ..noted()
        };
        assert_eq!(
            HeadState::load(dir.path()).unwrap(),
            HeadState::Present(expected)
        );
    }

    #[test]
    fn a_file_of_a_later_version_is_refused_by_its_version_and_not_called_damaged() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), r#""version":2,"ends":[7]"#);

        let refused = HeadState::load(dir.path()).unwrap_err().to_string();

        let expected = format!(
            "`head.json` has version 2, and hookjail {} reads version 1; install the newer hookjail, or restore an \
             earlier journal",
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(refused, expected);
        // Nothing is written over it.
        let kept = fs::read(dir.path().join(files::HEAD)).unwrap();
        drop(
            crate::append::Journal::open(dir.path(), crate::append::Settings::default())
                .unwrap_err(),
        );
        assert_eq!(fs::read(dir.path().join(files::HEAD)).unwrap(), kept);
        assert!(crate::verify::verify_journal(dir.path()).is_err());
    }
}
