//! The thread that writes the journal: whatever a disk or another writer does, no request has to hold still for it.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError, mpsc as channel},
    thread,
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{
    journal::{Appended, Journal, JournalError},
    record::Record,
};
use crate::refusal::chain;

/// How many starts and refusals wait to be written; more wait for room. Ends always have some: there are no more of them than
/// hooks that run.
const QUEUED: usize = 1024;

/// How many records are written under one lock, and synced by one wait for the disk.
const GROUP: usize = 64;

/// How long the end of a daemon waits for what is to be written. The next one records runs without an end as interrupted.
const LINGER: Duration = Duration::from_secs(5);

/// The journal's writer.
#[derive(Debug)]
pub(super) struct Writer {
    directory: PathBuf,
    /// Nothing is ever sent: it ends with the thread.
    ended: Mutex<channel::Receiver<()>>,
    /// `None` once no more is written.
    queue: Option<mpsc::UnboundedSender<Entry>>,
    room: Arc<Semaphore>,
    standing: Arc<Standing>,
}

/// Whether anything can be written down any more.
#[derive(Debug, Default)]
pub(super) struct Standing {
    broken: CancellationToken,
    why: OnceLock<String>,
}

/// A record could not be written.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unwritten(String);

#[derive(Debug)]
struct Entry {
    record: Record,
    /// Whether it is not to be written once nobody waits for it.
    revocable: bool,
    _room: Option<OwnedSemaphorePermit>,
    written: oneshot::Sender<Result<Appended, Unwritten>>,
}

impl Entry {
    fn is_wanted(&self) -> bool {
        !(self.revocable && self.written.is_closed())
    }
}

impl Standing {
    /// Waits until a record could not be written that must be.
    pub(super) async fn broke(&self) {
        self.broken.cancelled().await;
    }

    /// Whether nothing runs any more.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.is_cancelled()
    }

    /// Returns why nothing can be written down any more, if so.
    pub(super) fn problem(&self) -> Option<&str> {
        self.why.get().map(String::as_str)
    }

    /// Has nothing run any more.
    fn give_up(&self, why: &str) {
        self.why.get_or_init(|| why.to_owned());
        self.broken.cancel();
    }
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// Returns the error of starting it.
    pub(super) fn start(journal: Journal) -> io::Result<Self> {
        let (queue, entries) = mpsc::unbounded_channel();
        let (end, ended) = channel::channel();
        let standing = Arc::new(Standing::default());
        let directory = journal.directory().to_owned();
        let told = Arc::clone(&standing);
        thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || {
                serve(&journal, entries, &told);
                // With it its mark goes.
                drop(journal);
                drop(end);
            })?;
        Ok(Self {
            directory,
            ended: Mutex::new(ended),
            queue: Some(queue),
            room: Arc::new(Semaphore::new(QUEUED)),
            standing,
        })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) const fn standing(&self) -> &Arc<Standing> {
        &self.standing
    }

    /// Writes the start of a run. If this is dropped before it is done, it is not written, or was.
    pub(super) async fn start_of_run(&self, record: Record) -> Result<Appended, Unwritten> {
        let room = self.room().await?;
        self.write(record, true, Some(room)).await
    }

    /// Writes the end of a run. Once this is first polled, it is written even if this is dropped.
    pub(super) async fn end_of_run(&self, record: Record) -> Result<Appended, Unwritten> {
        self.write(record, false, None).await
    }

    /// Writes a refusal. Once there is room for it, it is written even if this is dropped.
    pub(super) async fn refusal(&self, record: Record) -> Result<Appended, Unwritten> {
        let room = self.room().await?;
        self.write(record, false, Some(room)).await
    }

    async fn room(&self) -> Result<OwnedSemaphorePermit, Unwritten> {
        let room = Arc::clone(&self.room).acquire_owned().await;
        room.map_err(|_| gone())
    }

    async fn write(
        &self,
        record: Record,
        revocable: bool,
        room: Option<OwnedSemaphorePermit>,
    ) -> Result<Appended, Unwritten> {
        let (written, done) = oneshot::channel();
        let entry = Entry {
            record,
            revocable,
            _room: room,
            written,
        };
        let queue = self.queue.as_ref().ok_or_else(gone)?;
        queue.send(entry).map_err(|_| gone())?;
        done.await.map_err(|_| gone())?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(LINGER) == Err(channel::RecvTimeoutError::Timeout) {
            tracing::error!(
                path = %self.directory.display(),
                "the journal does not take the last records; the next daemon records their runs as interrupted"
            );
        }
    }
}

fn gone() -> Unwritten {
    Unwritten("the thread that writes it is gone; restart the daemon".to_owned())
}

/// Writes what comes until nobody can send any more.
fn serve(journal: &Journal, mut entries: mpsc::UnboundedReceiver<Entry>, standing: &Standing) {
    let mut group = Vec::with_capacity(GROUP);
    while entries.blocking_recv_many(&mut group, GROUP) > 0 {
        write_group(journal, &mut group, standing);
    }
}

/// Writes records one after another, and answers each.
fn write_group(journal: &Journal, group: &mut Vec<Entry>, standing: &Standing) {
    let mut wanted = Vec::with_capacity(group.len());
    let appended = {
        // Looked at under the journal's lock, for which others may have waited long.
        let wanted_records = group.iter().filter_map(|entry| {
            let is_wanted = entry.is_wanted();
            wanted.push(is_wanted);
            is_wanted.then_some(&entry.record)
        });
        journal.append_all(wanted_records)
    };
    let appended = match appended {
        Ok(appended) => appended,
        // Each for itself: an error belongs to one.
        Err(_) if group.len() > 1 => {
            for entry in std::mem::take(group) {
                write_group(journal, &mut vec![entry], standing);
            }
            return;
        }
        Err(error) => vec![Err(error)],
    };
    // Where nothing was written there is nothing to be looked at.
    wanted.resize(group.len(), true);
    let mut appended = appended.into_iter();
    for (entry, wanted) in group.drain(..).zip(wanted) {
        if let Some(result) = wanted.then(|| appended.next()).flatten() {
            answer(entry, result, standing);
        }
    }
}

/// Says what came of a record, here where it cannot be missed: who waited for it may be gone.
fn answer(entry: Entry, result: Result<Appended, JournalError>, standing: &Standing) {
    let result = result.map_err(|error| {
        let why = chain(&error);
        let what = match &entry.record {
            Record::Ended(_) => {
                standing.give_up(&format!("an end record could not be written: {why}"));
                "end record cannot be written; no hook is run any more"
            }
            Record::Started(_) => "start record cannot be written; the hook is not run",
            Record::Interrupted(_) | Record::Lost(_) | Record::Refused(_) | Record::Torn(_) => {
                "refusal cannot be recorded"
            }
        };
        if error.is_final() {
            standing.give_up(&why);
        }
        tracing::error!(error = why, "{what}");
        Unwritten(why)
    });
    // Nobody may wait any more.
    entry.written.send(result).ok();
}
