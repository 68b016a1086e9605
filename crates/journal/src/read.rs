//! Reads a journal's lines from the oldest file on, across rotations.
//!
//! Reading takes no lock and holds no writer up. Nothing is verified; [`super::verify`] does that.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use jiff::Timestamp;

use super::{
    chain::MAX_LINE_BYTES,
    files::{self, FileId, LIVE, Older, line_start, settled},
    head::HeadState,
};

/// A reader at a position of a journal.
#[derive(Debug)]
pub struct JournalReader {
    at: Option<OpenFile>,
    directory: PathBuf,
    line: Vec<u8>,
    /// The first record of the file that was read last.
    read: Option<u64>,
}

/// Returns the time of a directory's oldest record, unverified; `None` where no record has one.
///
/// # Errors
///
/// Returns the error of the system.
pub fn oldest_time(directory: &Path) -> io::Result<Option<Timestamp>> {
    let older = Older::list(directory)?.into_iter().next();
    let oldest = older.map_or_else(|| directory.join(LIVE), |older| older.path);
    let time = files::time_claimed(&File::open(oldest)?, 0)?;
    Ok(time.and_then(|time| time.parse().ok()))
}

#[derive(Debug)]
struct OpenFile {
    file: BufReader<File>,
    identity: FileId,
    /// Whether the file is no longer written, so that its end is final.
    is_over: bool,
    /// The offset of the next line.
    offset: u64,
}

impl JournalReader {
    /// Starts at the oldest record of a directory's journal.
    pub fn open(directory: &Path) -> Self {
        Self {
            at: None,
            directory: directory.to_owned(),
            line: Vec::new(),
            read: None,
        }
    }

    /// Starts behind the last record of a directory's journal, or `from_start` with the oldest. Also returns the last
    /// record's sequence.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    pub fn at_end(directory: &Path, from_start: bool) -> io::Result<(Self, u64)> {
        let mut reader = Self::open(directory);
        let (live, end, last) = settled(directory, || {
            let live = File::open(directory.join(LIVE))?;
            let last = match HeadState::load(directory)? {
                HeadState::Present(noted) => noted.sequence,
                HeadState::Absent | HeadState::Damaged => 0,
            };
            // After it may come the unfinished line of a writer that died.
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

    /// Starts where all earlier records are too old, by their own times. Goes back at most `bytes`; starts at the
    /// oldest record if none is too old.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    pub(super) fn since(
        directory: &Path,
        is_old: impl Fn(&str) -> bool,
        bytes: u64,
    ) -> io::Result<Self> {
        let mut reader = Self::open(directory);
        // The live file first: if it is rotated meanwhile, it is found again as an older one.
        let live = match File::open(directory.join(LIVE)) {
            Ok(live) => live,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(reader),
            Err(error) => return Err(error),
        };
        let mut older = Older::list(directory)?;
        let mut current = OpenFile::new(live, false)?;
        let (live, mut left) = (current.identity, bytes);
        loop {
            let file = current.file.get_ref();
            let end = file.metadata()?.len();
            current.offset = begin(file, end, &is_old, left)?;
            left = left.saturating_sub(end - current.offset);
            if current.offset > 0 || left == 0 {
                break;
            }
            let Some(before) = older.pop() else {
                break;
            };
            match File::open(&before.path) {
                Ok(file) if files::identity(&file)? != live => current = OpenFile::new(file, true)?,
                Ok(_) => {}
                // Removed as too old, meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        current.file.seek(SeekFrom::Start(current.offset))?;
        reader.at = Some(current);
        Ok(reader)
    }

    /// Returns the next line without its newline; `None` if no more is written now.
    ///
    /// # Errors
    ///
    /// Returns the error of the system; a line longer than any record is invalid data.
    pub fn next_line(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            let Some(current) = &mut self.at else {
                self.at = self.next_file()?;
                if self.at.is_none() {
                    return Ok(None);
                }
                continue;
            };
            if current.line(&mut self.line)? {
                return Ok(self.line.strip_suffix(b"\n"));
            }
            if current.is_over {
                let identity = current.identity;
                self.read = self.first_of(identity)?.or(self.read);
                self.at = None;
                continue;
            }
            let live = files::stat(&self.directory.join(LIVE))?;
            if live.is_some_and(|(identity, _)| identity == current.identity) {
                return Ok(None);
            }
            // A writer may have appended after the end was seen and before the rotation, so read once more.
            current.is_over = true;
        }
    }

    /// Opens the file after the one that was read.
    fn next_file(&self) -> io::Result<Option<OpenFile>> {
        loop {
            // In this order: if the live file is rotated after it was opened, it is found as an older one.
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
            if files::stat(&older.path)?.is_some_and(|(found, _)| found == identity) {
                return Ok(Some(older.first));
            }
        }
        Ok(None)
    }
}

/// The distance between records whose times are compared.
const SEARCH_STEP_BYTES: u64 = 1 << 20;

/// Returns the offset of the last sampled record that is too old. Without one in the last `bytes`, returns the start of
/// a line there, or 0 if the file is shorter.
fn begin(file: &File, end: u64, is_old: impl Fn(&str) -> bool, bytes: u64) -> io::Result<u64> {
    let floor = end.saturating_sub(bytes);
    let mut position = end;
    while position > floor {
        position = line_start(
            file,
            0,
            position.saturating_sub(SEARCH_STEP_BYTES).max(floor),
        )?;
        if files::time_claimed(file, position)?.is_some_and(|time| is_old(&time)) {
            break;
        }
    }
    Ok(position)
}

impl OpenFile {
    fn new(file: File, is_over: bool) -> io::Result<Self> {
        Ok(Self {
            identity: files::identity(&file)?,
            file: BufReader::with_capacity(1 << 16, file),
            is_over,
            offset: 0,
        })
    }

    /// Reads one whole line; without one, the position stays.
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
        // The writer may still complete the line, or cut it off, so the line is read again from its start.
        self.file.seek(SeekFrom::Start(self.offset))?;
        Ok(false)
    }
}
