//! Reads a journal's lines from the oldest file on, across rotations.
//!
//! Reading takes no lock and holds no writer up. It proves nothing: that is the business of [`super::verify`].

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use super::{
    chain::MAX_LINE_BYTES,
    files::{self, FileId, LIVE, Older, line_start, settled},
    head::HeadState,
};

/// A place in a journal.
#[derive(Debug)]
pub struct JournalReader {
    at: Option<OpenFile>,
    directory: PathBuf,
    line: Vec<u8>,
    /// The first record of the file that was read last.
    read: Option<u64>,
}

#[derive(Debug)]
struct OpenFile {
    file: BufReader<File>,
    identity: FileId,
    /// Whether it is not written any more: its end is final.
    over: bool,
    /// Where the next line begins.
    offset: u64,
}

impl JournalReader {
    /// Begins with the oldest record of a directory's journal.
    pub fn open(directory: &Path) -> Self {
        Self {
            at: None,
            directory: directory.to_owned(),
            line: Vec::new(),
            read: None,
        }
    }

    /// Starts behind the last record of a directory's journal, or `from_start` with the oldest. Returns the last record's sequence,
    /// too.
    ///
    /// # Errors
    ///
    /// Returns what the system says.
    pub(crate) fn at_end(directory: &Path, from_start: bool) -> io::Result<(Self, u64)> {
        let mut reader = Self::open(directory);
        let (live, end, last) = settled(directory, || {
            let live = File::open(directory.join(LIVE))?;
            let last = match HeadState::of(directory)? {
                HeadState::Said(noted) => noted.sequence,
                HeadState::Absent | HeadState::Damaged => 0,
            };
            // Behind it may be what a writer left that died.
            let end = line_start(&live, 0, live.metadata()?.len())?;
            Ok((live, end, last))
        })?;
        if !from_start {
            let mut reading = OpenFile::new(live, false)?;
            reading.offset = end;
            reading.file.seek(SeekFrom::Start(end))?;
            reader.at = Some(reading);
        }
        Ok((reader, last))
    }

    /// Starts where all records before are too old, by the times they claim. Goes back no more than so many bytes; starts with the
    /// oldest record if none is too old.
    ///
    /// # Errors
    ///
    /// Returns what the system says.
    pub(super) fn since(
        directory: &Path,
        is_old: impl Fn(&str) -> bool,
        bytes: u64,
    ) -> io::Result<Self> {
        let mut reader = Self::open(directory);
        // The live file first: if it is left meanwhile, it is found once more as an older one.
        let live = match File::open(directory.join(LIVE)) {
            Ok(live) => live,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(reader),
            Err(error) => return Err(error),
        };
        let mut older = Older::list(directory)?;
        let mut at = OpenFile::new(live, false)?;
        let (live, mut left) = (at.identity, bytes);
        loop {
            let file = at.file.get_ref();
            let end = file.metadata()?.len();
            at.offset = begin(file, end, &is_old, left)?;
            left = left.saturating_sub(end - at.offset);
            if at.offset > 0 || left == 0 {
                break;
            }
            let Some(before) = older.pop() else {
                break;
            };
            match File::open(&before.path) {
                Ok(file) if files::identity(&file)? != live => at = OpenFile::new(file, true)?,
                Ok(_) => {}
                // Removed as too old, meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        at.file.seek(SeekFrom::Start(at.offset))?;
        reader.at = Some(at);
        Ok(reader)
    }

    /// Returns the next line without its newline; `None` if no more is written now.
    ///
    /// # Errors
    ///
    /// Returns what the system says; a line longer than any record is invalid data.
    pub fn next_line(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            let Some(at) = &mut self.at else {
                self.at = self.next_file()?;
                if self.at.is_none() {
                    return Ok(None);
                }
                continue;
            };
            if at.line(&mut self.line)? {
                return Ok(self.line.strip_suffix(b"\n"));
            }
            if at.over {
                let identity = at.identity;
                self.read = self.first_of(identity)?.or(self.read);
                self.at = None;
                continue;
            }
            let live = files::at(&self.directory.join(LIVE))?;
            if live.is_some_and(|(identity, _)| identity == at.identity) {
                return Ok(None);
            }
            // It may have been written to since its end was seen, and before it was left: once more.
            at.over = true;
        }
    }

    /// Opens the file after the one that was read.
    fn next_file(&self) -> io::Result<Option<OpenFile>> {
        loop {
            // In this order: what was the live file when it was opened is found as an older one, if it was left since.
            let live = match File::open(self.directory.join(LIVE)) {
                Ok(file) => Some(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
            let older = match Older::list(&self.directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
                older => older?,
            };
            let next = older
                .into_iter()
                .find(|older| Some(older.first) > self.read);
            let Some(next) = next else {
                return live.map(|live| OpenFile::new(live, false)).transpose();
            };
            match File::open(&next.path) {
                Ok(file) => return OpenFile::new(file, true).map(Some),
                // Removed as too old, meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the first record of an older file, by its name.
    fn first_of(&self, identity: FileId) -> io::Result<Option<u64>> {
        for older in Older::list(&self.directory)? {
            if files::at(&older.path)?.is_some_and(|(found, _)| found == identity) {
                return Ok(Some(older.first));
            }
        }
        Ok(None)
    }
}

/// The distance between records whose times are compared.
const SEARCH_STEP_BYTES: u64 = 1 << 20;

/// Returns where the last record begins, of those sampled, that is too old. If none is before the last so many bytes, returns
/// another line's start there, and 0 if the file is shorter.
fn begin(file: &File, end: u64, is_old: impl Fn(&str) -> bool, bytes: u64) -> io::Result<u64> {
    let floor = end.saturating_sub(bytes);
    let mut at = end;
    while at > floor {
        at = line_start(file, 0, at.saturating_sub(SEARCH_STEP_BYTES).max(floor))?;
        if files::time_claimed(file, at)?.is_some_and(|time| is_old(&time)) {
            break;
        }
    }
    Ok(at)
}

impl OpenFile {
    fn new(file: File, over: bool) -> io::Result<Self> {
        Ok(Self {
            identity: files::identity(&file)?,
            file: BufReader::with_capacity(1 << 16, file),
            over,
            offset: 0,
        })
    }

    /// Reads one whole line; if there is none, nothing is taken.
    fn line(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        let limit = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX);
        let taken = (&mut self.file).take(limit).read_until(b'\n', line)?;
        if line.ends_with(b"\n") {
            self.offset += u64::try_from(taken).unwrap_or(u64::MAX);
            return Ok(true);
        }
        if taken == MAX_LINE_BYTES {
            let message = format!("a line at byte {} is longer than any record", self.offset);
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        // Its writer may not be done, or may yet cut it off: it is read again from where it begins.
        self.file.seek(SeekFrom::Start(self.offset))?;
        Ok(false)
    }
}
