//! Copies a journal while its writers continue.
//!
//! Files are opened under the journal's lock, and copied without it. A writer only appends to the live file, which is
//! copied up to its length under the lock. Rotated files do not change, and one that rotation removes meanwhile stays
//! readable. The marks of writers are copied too: a run that has only its start in the copy is recorded as interrupted
//! by the writer that continues the copy.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use super::{
    append::INSTANCES,
    boot::COPIED,
    files::{self, Older, line_start, settled},
    head::{HeadFile, HeadRecord, HeadState},
    writer_lock,
};

/// A copy that was made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub struct Copied {
    /// The size of all files with records, bytes.
    pub bytes: u64,
    /// The number of files with records.
    pub files: usize,
    /// The sequence of the first record; 1 if there is none.
    pub first: u64,
    /// The sequence of the last record; 0 if there is none.
    pub last: u64,
}

/// Error of copying a journal.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The directory is part of the journal.
    #[error("`{directory}` is inside the journal; name a directory elsewhere")]
    Inside {
        /// The directory.
        directory: PathBuf,
    },
    /// The journal's head file is missing or damaged.
    #[error(
        "the journal `{journal}` has no intact head file; start the daemon, which records that"
    )]
    NoHead {
        /// The journal's directory.
        journal: PathBuf,
    },
    /// The directory has content.
    #[error("`{directory}` is not empty; name a new directory")]
    NotEmpty {
        /// The directory.
        directory: PathBuf,
    },
    /// A file or directory cannot be read or written.
    #[error("cannot {doing} `{path}`")]
    Unusable {
        /// The attempted operation.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl Copied {
    /// Returns the number of records.
    pub const fn records(&self) -> u64 {
        (self.last + 1).saturating_sub(self.first)
    }
}

impl SnapshotError {
    fn unusable(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Unusable {
            doing,
            path: path.to_owned(),
            source,
        }
    }
}

/// Copies a journal into a new or empty directory, and syncs the copy to the disk.
///
/// The copy verifies as the journal does at the moment of the call, and a writer can continue it. After an error the
/// directory is as it was before.
///
/// # Errors
///
/// Fails if the directory is inside the journal or not empty, if the head file is not intact, or if a file cannot be
/// read or written.
pub fn copy_journal(journal: &Path, directory: &Path) -> Result<Copied, SnapshotError> {
    let is_new = check_place(journal, directory)?;
    let source = settled(journal, || Source::open(journal))
        .map_err(SnapshotError::unusable("read", journal))?
        .ok_or_else(|| SnapshotError::NoHead {
            journal: journal.to_owned(),
        })?;
    if is_new {
        let made = DirBuilder::new().mode(0o700).create(directory);
        made.map_err(SnapshotError::unusable("create", directory))?;
    }
    source.copy(directory).inspect_err(|_| {
        // A remnant that cannot be removed has no head file, and does not verify.
        discard(directory, is_new).ok();
    })
}

/// Checks that a copy may be made in a directory. Returns whether the directory is still to be created.
fn check_place(journal: &Path, directory: &Path) -> Result<bool, SnapshotError> {
    let failed = SnapshotError::unusable("use", directory);
    let (place, is_new) = match directory.canonicalize() {
        Ok(place) => (place, false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            (parent(directory).canonicalize().map_err(failed)?, true)
        }
        Err(error) => return Err(failed(error)),
    };
    let journal = journal
        .canonicalize()
        .map_err(SnapshotError::unusable("read", journal))?;
    if place.starts_with(journal) {
        return Err(SnapshotError::Inside {
            directory: directory.to_owned(),
        });
    }
    if !is_new && fs::read_dir(&place).map_err(failed)?.next().is_some() {
        return Err(SnapshotError::NotEmpty {
            directory: directory.to_owned(),
        });
    }
    Ok(is_new)
}

/// Removes a copy that is not whole.
fn discard(directory: &Path, is_new: bool) -> io::Result<()> {
    if is_new {
        return fs::remove_dir_all(directory);
    }
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

/// A journal's files while no writer was in the middle of a line.
struct Source {
    head: HeadRecord,
    /// The sequence of the last record.
    last: u64,
    /// The oldest first, the live file last.
    parts: Vec<Part>,
    /// The names of the writers' marks.
    writers: Vec<OsString>,
}

/// A file with records, open.
struct Part {
    file: File,
    /// The part that is copied, bytes.
    length: u64,
    path: PathBuf,
}

impl Source {
    /// Opens all files of a directory's journal; `None` if the head file is missing or damaged. The caller holds the
    /// lock.
    fn open(journal: &Path) -> io::Result<Option<Self>> {
        let HeadState::Present(head) = HeadState::load(journal)? else {
            return Ok(None);
        };
        let mut parts = Vec::new();
        for older in Older::list(journal)? {
            // Earlier files are left over, or about to be removed.
            if older.first >= head.oldest {
                let file = File::open(&older.path)?;
                let length = file.metadata()?.len();
                let path = older.path;
                parts.push(Part { file, length, path });
            }
        }
        let mut last = head.sequence;
        let path = journal.join(files::LIVE);
        match File::open(&path) {
            Ok(file) => {
                // After the last record may come the unfinished line of a writer that died.
                let length = line_start(&file, 0, file.metadata()?.len())?;
                let line = line_start(&file, 0, length.saturating_sub(1))?;
                // A writer that died may have written a record and not yet its head.
                last = files::sequence_claimed(&file, line)?.map_or(last, |it| last.max(it));
                parts.push(Part { file, length, path });
            }
            // A writer died between two files.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(Some(Self {
            head,
            last,
            parts,
            writers: writer_lock::marks(&journal.join(INSTANCES))?,
        }))
    }

    fn copy(&self, directory: &Path) -> Result<Copied, SnapshotError> {
        let mut bytes = 0;
        for part in &self.parts {
            let target = directory.join(part.path.file_name().unwrap_or_default());
            let copied = create(&target).and_then(|target| part.copy(&target));
            copied.map_err(SnapshotError::unusable("write", &target))?;
            bytes += part.length;
        }
        let instances = directory.join(INSTANCES);
        let marked = || {
            DirBuilder::new().mode(0o700).create(&instances)?;
            for name in &self.writers {
                create(&instances.join(name))?.write_all(COPIED.as_bytes())?;
            }
            File::open(&instances)?.sync_all()
        };
        marked().map_err(SnapshotError::unusable("write", &instances))?;
        // Last: a copy without it is not whole.
        let path = directory.join(files::HEAD);
        let failed = SnapshotError::unusable("write", &path);
        let head = HeadFile::open(directory).map_err(|error| failed(io::Error::other(error)))?;
        let written = head.write(&self.head).and_then(|()| head.sync());
        written.map_err(failed)?;
        for path in [directory, parent(directory)] {
            let synced = File::open(path).and_then(|directory| directory.sync_all());
            synced.map_err(SnapshotError::unusable("sync", path))?;
        }
        Ok(Copied {
            bytes,
            files: self.parts.len(),
            first: self.head.oldest,
            last: self.last,
        })
    }
}

impl Part {
    fn copy(&self, mut target: &File) -> io::Result<()> {
        let copied = io::copy(&mut (&self.file).take(self.length), &mut target)?;
        if copied < self.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        target.sync_all()
    }
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

/// Returns the directory that has a path's last component.
fn parent(path: &Path) -> &Path {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or_else(|| Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::{PermissionsExt, symlink},
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    use tempfile::TempDir;

    use super::*;
    use crate::{
        append::{Journal, Settings},
        record::{Record, Torn},
        verify::{Tail, Verified, verify_journal},
    };

    fn journal(directory: &Path) -> Journal {
        let settings = Settings {
            keep_files: 2,
            rotate_bytes: 4096,
            ..Settings::default()
        };
        Journal::open(directory, settings).unwrap()
    }

    fn record() -> Record {
        Record::Torn(Torn {
            bytes: 1,
            text: "x".repeat(300),
        })
    }

    fn verified(directory: &Path) -> Verified {
        let verified = verify_journal(directory).unwrap();
        assert_eq!(verified.tail, Tail::Noted);
        verified
    }

    #[test]
    fn a_copy_verifies_while_a_writer_goes_on_and_another_can_go_on_with_the_copy() {
        let dir = TempDir::new().unwrap();
        let source = dir.path().join("audit");
        let writer = journal(&source);
        writer.append(&record()).unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    writer.append(&record()).unwrap();
                }
            });
            for number in 0..40 {
                let copy = dir.path().join(number.to_string());
                let copied = copy_journal(&source, &copy).unwrap();

                let seen = verified(&copy);
                let files = fs::read_dir(&copy).unwrap().map(|entry| entry.unwrap());
                let files =
                    files.filter(|entry| entry.path().extension().unwrap_or_default() == "jsonl");
                let bytes = files.map(|entry| entry.metadata().unwrap().len()).sum();
                let expected = Copied {
                    bytes,
                    files: seen.files,
                    first: seen.first,
                    last: seen.first + seen.records - 1,
                };
                assert_eq!(copied, expected);
                let next = journal(&copy).append(&record()).unwrap();
                assert_eq!(next.sequence, copied.last + 1);
                drop(verified(&copy));
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert!(verified(&source).first > 1, "no file was removed meanwhile");
    }

    #[test]
    fn an_unfinished_line_is_left_out_and_a_record_beyond_the_head_file_is_copied() {
        let dir = TempDir::new().unwrap();
        let source = dir.path().join("audit");
        let writer = journal(&source);
        writer.append(&record()).unwrap();
        let head = fs::read(source.join(files::HEAD)).unwrap();
        writer.append(&record()).unwrap();
        drop(writer);
        fs::write(source.join(files::HEAD), head).unwrap();
        let live = source.join(files::LIVE);
        let whole = fs::read(&live).unwrap();
        fs::write(&live, [&*whole, b"{\"sequence\":3,\"time"].concat()).unwrap();

        let copy = dir.path().join("copy");
        let copied = copy_journal(&source, &copy).unwrap();

        assert_eq!((copied.files, copied.first, copied.last), (1, 1, 2));
        assert_eq!(fs::read(copy.join(files::LIVE)).unwrap(), whole);
        assert_eq!(verified(&copy).records, 2);
    }

    #[test]
    fn only_the_user_reads_a_copy_and_the_marks_of_writers_are_in_it() {
        let dir = TempDir::new().unwrap();
        let source = dir.path().join("audit");
        let writer = journal(&source);
        let copy = dir.path().join("copy");

        let copied = copy_journal(&source, &copy).unwrap();

        let none = Copied {
            bytes: 0,
            files: 1,
            first: 1,
            last: 0,
        };
        assert_eq!(copied, none);
        let mark = copy
            .join(INSTANCES)
            .join(format!("{}.lock", writer.instance()));
        for (path, mode) in [
            (copy.clone(), 0o700),
            (copy.join(INSTANCES), 0o700),
            (copy.join(files::LIVE), 0o600),
            (copy.join(files::HEAD), 0o600),
            (mark, 0o600),
        ] {
            let found = fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
            assert_eq!(found, mode, "{path:?}");
        }
        drop(verified(&copy));
    }

    #[test]
    fn a_directory_with_files_and_one_in_the_journal_are_refused() {
        let dir = TempDir::new().unwrap();
        let source = dir.path().join("audit");
        drop(journal(&source));
        let link = dir.path().join("link");
        symlink(&source, &link).unwrap();

        for directory in [source.join("copy"), source.clone(), link.join("copy"), link] {
            let refused = copy_journal(&source, &directory).unwrap_err();
            assert!(matches!(refused, SnapshotError::Inside { .. }), "{refused}");
        }
        let refused = copy_journal(&source, dir.path()).unwrap_err();
        assert!(
            matches!(refused, SnapshotError::NotEmpty { .. }),
            "{refused}"
        );
        let empty = dir.path().join("empty");
        fs::create_dir(&empty).unwrap();
        assert_eq!(copy_journal(&source, &empty).unwrap().last, 0);
        let refused = copy_journal(&source, &empty).unwrap_err();
        assert!(
            matches!(refused, SnapshotError::NotEmpty { .. }),
            "{refused}"
        );
    }

    #[test]
    fn a_journal_without_an_intact_head_file_is_refused_and_leaves_no_directory() {
        let dir = TempDir::new().unwrap();
        let source = dir.path().join("audit");
        drop(journal(&source));
        fs::remove_file(source.join(files::HEAD)).unwrap();
        let copy = dir.path().join("copy");

        let refused = copy_journal(&source, &copy).unwrap_err();

        assert!(matches!(refused, SnapshotError::NoHead { .. }), "{refused}");
        assert!(!copy.exists());
    }

    #[test]
    fn a_copy_that_fails_leaves_the_directory_as_it_was() {
        let dir = TempDir::new().unwrap();
        let source = dir.path().join("audit");
        journal(&source).append(&record()).unwrap();
        let place = dir.path().join("place");
        fs::create_dir(&place).unwrap();
        let mut opened = Source::open(&source).unwrap().unwrap();
        opened.parts.iter_mut().for_each(|part| part.length += 1);

        let failed = opened.copy(&place).unwrap_err();
        discard(&place, false).unwrap();

        assert!(
            matches!(failed, SnapshotError::Unusable { doing: "write", .. }),
            "{failed}"
        );
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
    }
}
