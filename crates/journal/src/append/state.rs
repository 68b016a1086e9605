//! A writer's state: the chain's end, and appending to it. Callers hold the journal's lock.

use std::{
    collections::HashSet,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::Timestamp;

use super::{
    Appended, INSTANCES, JournalError, Settings, WriteLine, open_file, retention, write_whole,
};
use crate::{
    chain::{Head, Link, MAX_LINE_BYTES},
    files::{self, FileId, Older, line_start},
    head::{HeadFile, HeadRecord, HeadState},
    record::{Lost, Rebooted, Record, Torn},
    writer_lock::WriterLock,
};
use hookjail_sys as sys;

#[derive(Debug)]
pub(super) struct WriterState {
    at: Position,
    /// The clock by which records have an age.
    pub(super) clock: fn() -> Timestamp,
    /// Marks of dead writers, whose runs have to be settled before old files are removed.
    dead: Dead,
    directory: PathBuf,
    instance: String,
    lock: Arc<File>,
    note: HeadFile,
    /// The first record of the oldest file that is kept.
    oldest: u64,
    /// The runs that this instance started and has not ended.
    open: HashSet<String>,
    pub(super) retained: Retained,
    settings: Settings,
}

/// The number of older files, compared to the number to keep.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Retained {
    /// More, as their records are young.
    More,
    /// No more.
    Wanted,
}

/// The dead writers found so far.
#[derive(Debug)]
enum Dead {
    /// Their marks are to be settled.
    Found(Vec<WriterLock>),
    /// Not searched for since the last ones were settled.
    Unknown,
    /// Their runs are being settled.
    Settling,
}

/// The chain's end in the file that is written.
#[derive(Debug)]
struct Position {
    file: Arc<File>,
    /// The sequence of the file's first record, written or still to come.
    first: u64,
    /// The last record seen.
    head: Head,
    identity: FileId,
    /// The end of the line of `head`; 0 if it is in the previous file.
    length: u64,
    path: PathBuf,
    /// The file length up to which disk space is reserved.
    reserved: u64,
    /// The unfinished end of the file before, which is cut off and not recorded yet.
    torn: Option<Torn>,
}

impl WriterState {
    /// Finds the end of a directory's journal.
    pub(super) fn open(
        directory: &Path,
        instance: &str,
        lock: Arc<File>,
        settings: Settings,
    ) -> Result<Self, JournalError> {
        let position = Position::open(directory)?;
        let path = directory.join(files::HEAD);
        let note =
            HeadFile::open(directory).map_err(|source| JournalError::Untrusted { path, source })?;
        Ok(Self {
            oldest: position.first,
            at: position,
            clock: Timestamp::now,
            dead: Dead::Unknown,
            directory: directory.to_owned(),
            instance: instance.to_owned(),
            lock,
            note,
            open: HashSet::new(),
            retained: Retained::Wanted,
            settings,
        })
    }

    /// Compares the journal's end with the head file, and records missing records: as lost with the host, if that went down.
    pub(super) fn check_end(&mut self, rebooted: Option<Rebooted>) -> Result<(), JournalError> {
        self.at.read_on()?;
        let older = Older::list(&self.directory)
            .map_err(|error| self.at.unusable("look for the files before", error))?;
        let first = older.first().map_or(self.at.first, |older| older.first);
        let note = self.read_note()?;
        let mut lost = match &note {
            HeadState::Present(noted) => {
                self.oldest = noted.oldest;
                (!self.holds(noted)?).then(|| Lost {
                    hash: Some(noted.hash.clone()),
                    sequence: Some(noted.sequence),
                })
            }
            HeadState::Absent | HeadState::Damaged => {
                self.oldest = first;
                // Before the first record there is no head to compare with.
                let fresh = note == HeadState::Absent && self.at.head.sequence == 0;
                (!fresh).then_some(Lost {
                    hash: None,
                    sequence: None,
                })
            }
        };
        let torn = self.take_unfinished()?;
        if let Some(mut rebooted) = rebooted {
            // Neither a record that was replaced nor a note that is gone is the work of a power cut.
            let noted = lost.as_ref().and_then(|lost| lost.sequence);
            rebooted.noted_sequence = noted.filter(|noted| *noted > self.at.head.sequence);
            lost.take_if(|_| rebooted.noted_sequence.is_some());
            tracing::warn!(
                path = %self.at.path.display(),
                last = self.at.head.sequence,
                missing_ms = rebooted.missing_ms,
                noted = rebooted.noted_sequence,
                "the host went down under a daemon, so records before may be missing, and this is recorded"
            );
            self.append(&Record::Rebooted(rebooted), write_whole)?;
        }
        if let Some(lost) = lost {
            tracing::error!(
                path = %self.at.path.display(),
                last = self.at.head.sequence,
                noted = lost.sequence,
                "records were cut off from the journal's end, or lost with the machine, and this is recorded"
            );
            self.append(&Record::Lost(lost), write_whole)?;
        } else if self.at.head.sequence == 0 {
            // From here on the note is on the disk: after a power cut the note may be old, but is never absent.
            self.write_note()?;
            self.note
                .sync()
                .map_err(|error| self.note_unusable(error))?;
            self.sync_directory()?;
        }
        self.record_torn(torn)
    }

    /// Checks that the held lock file is still the one at its path.
    pub(super) fn check_lock(&self) -> Result<(), JournalError> {
        let path = self.directory.join(files::LOCK);
        let held = files::identity(&self.lock);
        let is_same =
            held.and_then(|held| Ok(files::stat(&path)?.is_some_and(|(it, _)| it == held)));
        match is_same {
            Ok(true) => Ok(()),
            Ok(false) => Err(JournalError::Replaced { path }),
            Err(error) => Err(self.at.unusable("look at the lock of", error)),
        }
    }

    /// Catches up with other writers. Reads what they appended, follows them into a file that they began, and cuts off a line that
    /// one of them left unfinished.
    pub(super) fn catch_up(&mut self) -> Result<(), JournalError> {
        match files::stat(&self.at.path).map_err(|error| self.at.unusable("look at", error))? {
            Some((identity, length)) if identity == self.at.identity => {
                // The usual case: no other writer has appended.
                if length == self.at.length {
                    return Ok(());
                }
                self.at.read_on()?;
            }
            Some(_) => self.follow()?,
            // The descriptor is not used further: records appended to a removed file would be gone with this process.
            None if self.was_renamed()? => self.follow()?,
            None => return Err(self.replaced()),
        }
        let torn = self.take_unfinished()?;
        self.record_torn(torn)
    }

    /// Appends one record, to the next file if this one is full.
    pub(super) fn append(
        &mut self,
        record: &Record,
        write: WriteLine,
    ) -> Result<Appended, JournalError> {
        let (line, head) = self
            .at
            .head
            .seal(&self.instance, record)
            .map_err(|error| self.at.unusable("render a record for", error.into()))?;
        if line.len() > MAX_LINE_BYTES {
            return Err(JournalError::TooLarge { bytes: line.len() });
        }
        let room = self.settings.rotate_bytes.saturating_sub(bytes(&line));
        if self.at.length > room {
            self.rotate()?;
        }
        let end = self.at.length + bytes(&line);
        if matches!(record, Record::Started(_)) {
            self.reserve(end)?;
        }
        let noted = self.noted(&head, end);
        // The head file is written after the record: a crash in between leaves a journal that goes beyond its head
        // file.
        let written = write(&self.at.file, &line).and_then(|()| self.note.write(&noted));
        if let Err(error) = written {
            if let Err(error) = self.at.cut() {
                tracing::warn!(%error, path = %self.at.path.display(), "cannot cut off an unfinished record");
            }
            return Err(self.at.unusable("append to", error));
        }
        self.at.length = end;
        self.at.head = head;
        match record {
            Record::Ended(ended) => drop(self.open.remove(&ended.run_id)),
            Record::Refused(refused) => {
                if let Some(run_id) = &refused.run_id {
                    self.open.remove(run_id);
                }
            }
            Record::Started(started) => drop(self.open.insert(started.run_id.clone())),
            Record::Interrupted(_) | Record::Lost(_) | Record::Rebooted(_) | Record::Torn(_) => {}
        }
        Ok(Appended {
            bytes: bytes(&line),
            hash: self.at.head.hash.clone(),
            sequence: self.at.head.sequence,
        })
    }

    /// Tries to append as much as a record has, cuts it off again, and reserves the room of a start.
    pub(super) fn check_room(&mut self) -> Result<(), JournalError> {
        let written = write_whole(&self.at.file, &ATTEMPT);
        let tried = written.and(self.at.cut());
        tried.map_err(|error| self.at.unusable("append to", error))?;
        self.reserve(self.at.length + END_RECORD_BYTES)
    }

    /// Reserves disk space for the end records of running hooks. So a full disk prevents starts, and never the record
    /// of an end.
    fn reserve(&mut self, end: u64) -> Result<(), JournalError> {
        let needed = end.saturating_add(kept_room(self.open.len()));
        if needed <= self.at.reserved {
            return Ok(());
        }
        let ahead = needed + PREALLOCATED_BYTES;
        let reserved = match sys::reserve(&self.at.file, ahead) {
            Ok(()) => Ok(ahead),
            Err(_) => sys::reserve(&self.at.file, needed).map(|()| needed),
        };
        self.at.reserved =
            reserved.map_err(|error| self.at.unusable("keep room for ends in", error))?;
        Ok(())
    }

    /// Returns the locks of dead writers, once. The caller then calls [`Self::settled`], also after a failure.
    pub(super) fn take_dead(&mut self) -> Vec<WriterLock> {
        let Dead::Found(marks) = &mut self.dead else {
            return Vec::new();
        };
        let marks = std::mem::take(marks);
        self.dead = Dead::Settling;
        marks
    }

    /// Makes the next rotation search for dead writers again.
    pub(super) fn settled(&mut self) {
        self.dead = Dead::Unknown;
    }

    pub(super) fn file(&self) -> Arc<File> {
        Arc::clone(&self.at.file)
    }

    pub(super) fn has_open_runs(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns the sequence of the last record.
    pub(super) const fn last(&self) -> u64 {
        self.at.head.sequence
    }

    pub(super) const fn lock(&self) -> &Arc<File> {
        &self.lock
    }

    pub(super) fn path(&self) -> &Path {
        &self.at.path
    }

    pub(super) const fn settings(&self) -> Settings {
        self.settings
    }

    /// Switches to the file that another writer began, if the chain continues there.
    fn follow(&mut self) -> Result<(), JournalError> {
        if !self.was_left()? {
            return Err(self.replaced());
        }
        self.leave()?;
        let mut next = Position::open(&self.directory)?;
        next.read_on()?;
        let left = std::mem::replace(&mut self.at, next);
        let note = self.read_note()?;
        if let HeadState::Present(noted) = &note
            && noted.sequence >= left.head.sequence
            && self.holds(noted)?
        {
            self.oldest = noted.oldest;
            return Ok(());
        }
        self.at = left;
        Err(self.replaced())
    }

    /// Returns whether another writer rotated or removed this file.
    fn was_left(&self) -> Result<bool, JournalError> {
        let file = self.at.file.metadata();
        let file = file.map_err(|error| self.at.unusable("look at", error))?;
        Ok(file.nlink() == 0 || self.was_renamed()?)
    }

    fn was_renamed(&self) -> Result<bool, JournalError> {
        let older = Older::new(&self.directory, self.at.first);
        let found = files::stat(&older.path);
        let found = found.map_err(|error| self.at.unusable("look at", error))?;
        Ok(found.is_some_and(|(identity, _)| identity == self.at.identity))
    }

    /// Begins the next file.
    fn rotate(&mut self) -> Result<(), JournalError> {
        self.leave()?;
        let kept = self.at.cut();
        kept.map_err(|error| self.at.unusable("give back the room kept in", error))?;
        let older = Older::new(&self.directory, self.at.first);
        let rename = |error| self.at.unusable("put aside", error);
        if files::stat(&older.path).map_err(rename)?.is_some() {
            return Err(rename(io::ErrorKind::AlreadyExists.into()));
        }
        fs::rename(&self.at.path, &older.path).map_err(rename)?;
        let head = self.at.head.clone();
        self.at = Position::open(&self.directory)?;
        if self.at.head != head {
            return Err(self.replaced());
        }
        self.remove_oldest()?;
        self.sync_directory()
    }

    /// Removes the oldest files beyond the number to keep, unless their records are too young.
    fn remove_oldest(&mut self) -> Result<(), JournalError> {
        let keep = self.settings.keep_files;
        if keep == 0 {
            return Ok(());
        }
        let older = Older::list(&self.directory)
            .map_err(|error| self.at.unusable("look for the files before", error))?;
        // They may contain the starts of runs that have to be settled first.
        if matches!(self.dead, Dead::Unknown) {
            let dead = WriterLock::take_dead(&self.directory.join(INSTANCES))?;
            if !dead.is_empty() {
                self.dead = Dead::Found(dead);
            }
        }
        if !matches!(self.dead, Dead::Unknown) {
            return Ok(());
        }
        let beyond = older.len().saturating_sub(keep);
        let now = (self.clock)();
        let age = |file: usize| {
            let older = older.get(file)?;
            retention::age(older, now).unwrap_or_else(|error| {
                tracing::warn!(%error, path = %older.path.display(), "the age of an old file of the journal cannot be read, so the file stays");
                None
            })
        };
        let removed = retention::removed(beyond, self.settings.keep_younger, age);
        self.retain(if removed < beyond {
            Retained::More
        } else {
            Retained::Wanted
        });
        let (gone, kept) = older.split_at(removed);
        let Some(oldest) = kept.first().filter(|_| !gone.is_empty()) else {
            return Ok(());
        };
        // The head file first: an extra file older than it records is harmless, a missing one counts as a defect.
        self.oldest = oldest.first;
        self.write_note()?;
        for older in gone {
            if let Err(error) = fs::remove_file(&older.path) {
                tracing::warn!(%error, path = %older.path.display(), "cannot remove an old file of the journal");
            }
        }
        Ok(())
    }

    /// Notes whether more files are kept than configured, and logs a change.
    fn retain(&mut self, retained: Retained) {
        if self.retained == retained {
            return;
        }
        self.retained = retained;
        let (files, directory) = (self.settings.keep_files, self.directory.display());
        match retained {
            Retained::More => tracing::warn!(
                %directory,
                files,
                "the journal keeps more files than `audit.keep_files`: their records are younger than `audit.keep_days`; watch the disk's free space"
            ),
            Retained::Wanted => tracing::info!(
                %directory,
                files,
                "the journal keeps no more files than `audit.keep_files` again"
            ),
        }
    }

    /// Syncs the current file before the writer switches to the next one.
    ///
    /// This sync does not depend on `Fsync`: after a power cut a file system may have the new name of a file without its end.
    fn leave(&self) -> Result<(), JournalError> {
        let synced = self.at.file.sync_data();
        synced.map_err(|error| self.at.unusable("sync", error))
    }

    fn sync_directory(&self) -> Result<(), JournalError> {
        let synced = File::open(&self.directory).and_then(|directory| directory.sync_all());
        synced.map_err(|error| self.at.unusable("sync the directory of", error))
    }

    /// Returns whether the chain contains the record of a head file.
    fn holds(&self, noted: &HeadRecord) -> Result<bool, JournalError> {
        let last = &self.at.head;
        if noted.sequence >= last.sequence {
            return Ok(noted.sequence == last.sequence && noted.hash == last.hash);
        }
        if noted.sequence == 0 {
            return Ok(true);
        }
        let file = if noted.sequence >= self.at.first {
            Arc::clone(&self.at.file)
        } else {
            let unusable = |error| self.at.unusable("read a file before", error);
            let older = Older::list(&self.directory).map_err(unusable)?;
            let holding = older.iter().rfind(|older| older.first <= noted.sequence);
            match holding {
                Some(older) => Arc::new(File::open(&older.path).map_err(unusable)?),
                None => return Ok(false),
            }
        };
        let found = record_ending_at(&file, 0, noted.length);
        let found = found.map_err(|error| self.at.unusable("read", error))?;
        Ok(found.is_some_and(|head| head.sequence == noted.sequence && head.hash == noted.hash))
    }

    /// Cuts off an unfinished line at the end. Returns it, behind the one of the file before.
    fn take_unfinished(&mut self) -> Result<Vec<Torn>, JournalError> {
        let mut torn: Vec<_> = self.at.torn.take().into_iter().collect();
        let bytes = self.at.file_length()?.saturating_sub(self.at.length);
        if bytes > 0 {
            let cut = cut_off(&self.at.file, self.at.length, bytes);
            torn.push(
                cut.map_err(|error| self.at.unusable("cut off the unfinished record of", error))?,
            );
        }
        Ok(torn)
    }

    fn record_torn(&mut self, torn: Vec<Torn>) -> Result<(), JournalError> {
        torn.into_iter()
            .try_for_each(|torn| self.append(&Record::Torn(torn), write_whole).map(drop))
    }

    fn noted(&self, head: &Head, length: u64) -> HeadRecord {
        HeadRecord {
            file: files::LIVE.to_owned(),
            hash: head.hash.clone(),
            length,
            oldest: self.oldest,
            sequence: head.sequence,
        }
    }

    fn read_note(&self) -> Result<HeadState, JournalError> {
        self.note.read().map_err(|error| self.note_unusable(error))
    }

    /// Writes the head file with the current `oldest`. An intact record of the chain's end stays as it is.
    fn write_note(&self) -> Result<(), JournalError> {
        let noted = match self.read_note()? {
            HeadState::Present(noted) => HeadRecord {
                oldest: self.oldest,
                ..noted
            },
            HeadState::Absent | HeadState::Damaged => self.noted(&self.at.head, self.at.length),
        };
        let written = self.note.write(&noted);
        written.map_err(|error| self.note_unusable(error))
    }

    fn note_unusable(&self, source: io::Error) -> JournalError {
        JournalError::Unusable {
            doing: "use",
            path: self.directory.join(files::HEAD),
            source,
        }
    }

    fn replaced(&self) -> JournalError {
        JournalError::Replaced {
            path: self.at.path.clone(),
        }
    }
}

impl Position {
    /// Opens the current file, or creates it, without reading to its end yet.
    fn open(directory: &Path) -> Result<Self, JournalError> {
        let path = directory.join(files::LIVE);
        let file = open_file(
            &path,
            OpenOptions::new().read(true).append(true).create(true),
        )?;
        let mut position = Self {
            file: Arc::new(file),
            first: 1,
            head: Head::genesis(),
            identity: (0, 0),
            length: 0,
            path,
            reserved: 0,
            torn: None,
        };
        let found = || -> io::Result<_> {
            let length = position.file.metadata()?.len();
            let begun = line_start(&position.file, 0, length)? > 0;
            let claimed = begun
                .then(|| files::first_claimed(&position.file))
                .transpose()?;
            Ok((files::identity(&position.file)?, claimed))
        };
        let (identity, claimed) = found().map_err(|error| position.unusable("read", error))?;
        position.identity = identity;
        match claimed {
            Some(first) => position.first = first.ok_or_else(|| position.broken())?,
            None => {
                (position.head, position.torn) = position.end_of_older(directory)?;
                position.first = position.head.sequence + 1;
            }
        }
        Ok(position)
    }

    /// Returns the last record of the newest older file, and its unfinished end, which is cut off; without records, an empty chain's head.
    fn end_of_older(&self, directory: &Path) -> Result<(Head, Option<Torn>), JournalError> {
        let unusable = |error| self.unusable("read the file before", error);
        let Some(newest) = Older::list(directory).map_err(unusable)?.pop() else {
            return Ok((Head::genesis(), None));
        };
        let file = open_file(&newest.path, OpenOptions::new().read(true).write(true))?;
        let end = || {
            let length = file.metadata()?.len();
            let end = whole_lines(&file, 0, length)?;
            Ok((record_ending_at(&file, 0, end)?, end, length - end))
        };
        let (head, end, unfinished) = end().map_err(unusable)?;
        let head = head.ok_or(JournalError::Broken { path: newest.path })?;
        let torn = (unfinished > 0).then(|| cut_off(&file, end, unfinished));
        Ok((head, torn.transpose().map_err(unusable)?))
    }

    /// Reads up to the last whole record.
    fn read_on(&mut self) -> Result<(), JournalError> {
        let length = self.file_length()?;
        if length < self.length {
            return Err(JournalError::Shrunk {
                path: self.path.clone(),
            });
        }
        let read = |error| self.unusable("read", error);
        let end = whole_lines(&self.file, self.length, length).map_err(read)?;
        if end == self.length {
            return Ok(());
        }
        let head = record_ending_at(&self.file, self.length, end).map_err(read)?;
        self.head = head
            .filter(|head| head.sequence > self.head.sequence)
            .ok_or_else(|| self.broken())?;
        self.length = end;
        Ok(())
    }

    fn file_length(&self) -> Result<u64, JournalError> {
        let metadata = self.file.metadata();
        Ok(metadata
            .map_err(|error| self.unusable("look at", error))?
            .len())
    }

    fn broken(&self) -> JournalError {
        JournalError::Broken {
            path: self.path.clone(),
        }
    }

    /// Cuts off the bytes beyond the last record. The file system frees the reserved room with that.
    fn cut(&mut self) -> io::Result<()> {
        self.reserved = 0;
        self.file.set_len(self.length)
    }

    fn unusable(&self, doing: &'static str, source: io::Error) -> JournalError {
        JournalError::Unusable {
            doing,
            path: self.path.clone(),
            source,
        }
    }
}

/// Returns where the last line ends that is whole. A line with a NUL byte is none: of a page that a power cut lost, zeros are left.
fn whole_lines(file: &File, floor: u64, length: u64) -> io::Result<u64> {
    let mut end = line_start(file, floor, length)?;
    while end > floor {
        let start = line_start(file, floor, end - 1)?;
        if !has_nul(file, start, end)? {
            break;
        }
        end = start;
    }
    Ok(end)
}

/// Returns whether a part of a file has a NUL byte. A part that is longer than any record has one, as no writer wrote it.
fn has_nul(file: &File, start: u64, end: u64) -> io::Result<bool> {
    let size = usize::try_from(end - start).unwrap_or(usize::MAX);
    if size > MAX_LINE_BYTES {
        return Ok(true);
    }
    let mut line = vec![0; size];
    file.read_exact_at(&mut line, start)?;
    Ok(line.contains(&0))
}

/// Cuts off the end of a file, and returns it with its beginning as text.
fn cut_off(file: &File, end: u64, bytes: u64) -> io::Result<Torn> {
    let shown = usize::try_from(bytes).map_or(TORN_TEXT_BYTES, |bytes| bytes.min(TORN_TEXT_BYTES));
    let mut text = vec![0; shown];
    file.read_exact_at(&mut text, end)?;
    file.set_len(end)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(Torn { bytes, text })
}

/// Reads the record whose line ends at `end` and begins at `floor` or later.
fn record_ending_at(file: &File, floor: u64, end: u64) -> io::Result<Option<Head>> {
    let Some(last) = end.checked_sub(1).filter(|last| *last >= floor) else {
        return Ok(None);
    };
    let start = line_start(file, floor, last)?;
    let size = usize::try_from(end - start).ok();
    let Some(size) = size.filter(|size| *size <= MAX_LINE_BYTES) else {
        return Ok(None);
    };
    let mut line = vec![0; size];
    match file.read_exact_at(&mut line, start) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let line = line.strip_suffix(b"\n");
    Ok(line.and_then(|line| Some(Link::read(line).ok()?.head())))
}

fn bytes(data: &[u8]) -> u64 {
    // Cannot fail: `usize` has at most 64 bits.
    u64::try_from(data.len()).unwrap_or(u64::MAX)
}

/// The bytes of an attempt to append.
const ATTEMPT: [u8; 8 << 10] = [0; 8 << 10];

/// Space for the end record of a run, unless much output is captured in it.
const END_RECORD_BYTES: u64 = 8 << 10;

/// Returns the room that is kept behind the last record before one more run is started, bytes.
pub(super) const fn kept_room(runs: usize) -> u64 {
    let ends = END_RECORD_BYTES.saturating_mul((runs as u64).saturating_add(1));
    RESERVE_BYTES.saturating_add(ends)
}

/// Space beyond the end records of running hooks, for longer ones.
const RESERVE_BYTES: u64 = 64 << 10;

/// The step of preallocation, so that few records need a call.
const PREALLOCATED_BYTES: u64 = 256 << 10;

pub(super) const TORN_TEXT_BYTES: usize = 4096;
