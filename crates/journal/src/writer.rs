//! The journal's writer thread, so that no request's thread waits for a disk or lock.

use std::{
    collections::{HashSet, VecDeque},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use hookjail_base::refusal::chain;

use super::{
    append::{Appended, Journal, JournalError},
    record::{Record, Started},
};

/// The most starts and refusals in the queue; more wait for room. End records need none: their number is bounded by the
/// running hooks.
const MAX_QUEUED: usize = 1024;

/// The most records that are written under one lock and synced together.
const MAX_GROUP: usize = 64;

/// The interval between attempts to write ends that failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The time that shutdown waits for queued records. The next daemon records runs without an end as interrupted.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Proof that a start record is in the journal.
///
/// Only [`Writer::start_of_run`] makes one.
#[derive(Debug)]
pub struct StartRecorded(Appended);

impl StartRecorded {
    /// Returns the record's position in the chain.
    pub fn appended(&self) -> &Appended {
        &self.0
    }
}

/// The journal's writer.
#[derive(Debug)]
pub struct Writer {
    directory: PathBuf,
    /// Nothing is sent on it: it closes when the thread ends.
    ended: Mutex<mpsc::Receiver<()>>,
    /// The problem that prevents writing.
    problem: watch::Receiver<Option<Problem>>,
    /// `None` once the writer is being dropped.
    queue: Option<mpsc::Sender<QueuedRecord>>,
    room: Arc<Semaphore>,
    tally: Arc<Tally>,
}

/// The number of records that a writer wrote, and of its failures.
#[derive(Debug, Default)]
pub struct Tally {
    failures: AtomicU64,
    /// The time of the last failure, Unix seconds; 0 = none.
    last_failure: AtomicU64,
    written: AtomicU64,
}

impl Tally {
    /// Returns the number of failed attempts to write a record.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Returns the time of the last failure, Unix seconds; 0 = none.
    pub fn last_failure(&self) -> u64 {
        self.last_failure.load(Ordering::Relaxed)
    }

    /// Returns the number of written records.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    fn count<T>(&self, result: &Result<T, JournalError>) {
        if result.is_ok() {
            self.written.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_secs());
        self.last_failure.store(now, Ordering::Relaxed);
        self.failures.fetch_add(1, Ordering::Relaxed);
    }
}

/// A problem that prevents writing, so that no hook runs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// Whether this process writes no record any more. Otherwise it tries again every second, and goes on once all are written.
    pub is_final: bool,
    /// Its description.
    pub why: String,
}

/// Error of writing a record, with the cause.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unwritten(String);

#[derive(Debug)]
struct QueuedRecord {
    record: Record,
    /// Whether the record is dropped if its caller no longer waits.
    revocable: bool,
    _room: Option<OwnedSemaphorePermit>,
    written: oneshot::Sender<Result<Appended, Unwritten>>,
}

impl QueuedRecord {
    /// Returns whether the record is still to be written; `runs`: whether runs may start.
    fn is_wanted(&self, runs: bool) -> bool {
        !self.revocable || (runs && !self.written.is_closed())
    }
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// Returns the error of starting it.
    pub fn start(journal: Journal) -> io::Result<Self> {
        let (queue, entries) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let (tell, problem) = watch::channel(None);
        let directory = journal.directory().to_owned();
        let tally = Arc::<Tally>::default();
        let mut thread = WriterThread {
            journal,
            late: VecDeque::new(),
            open: HashSet::new(),
            tally: Arc::clone(&tally),
            tell,
        };
        thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || {
                thread.serve(&entries);
                // Dropping the journal removes its mark.
                drop(thread);
                drop(end);
            })?;
        Ok(Self {
            directory,
            ended: Mutex::new(ended),
            problem,
            queue: Some(queue),
            room: Arc::new(Semaphore::new(MAX_QUEUED)),
            tally,
        })
    }

    /// Returns the directory of the journal.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the problem that prevents writing, as a value to watch.
    pub const fn problem(&self) -> &watch::Receiver<Option<Problem>> {
        &self.problem
    }

    /// Returns the number of written records and of failures.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Writes the start of a run. If this future is dropped early, the record may or may not be written.
    pub async fn start_of_run(&self, record: Box<Started>) -> Result<StartRecorded, Unwritten> {
        let room = self.room().await?;
        let record = Record::Started(record);
        let appended = self.write(record, true, Some(room)).await?;
        Ok(StartRecorded(appended))
    }

    /// Writes the end of a run. Once the future was polled, the record is written even if the future is dropped.
    pub async fn end_of_run(&self, record: Record) -> Result<Appended, Unwritten> {
        self.write(record, false, None).await
    }

    /// Writes a refusal. Once there is room, the record is written even if the future is dropped.
    pub async fn refusal(&self, record: Record) -> Result<Appended, Unwritten> {
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
        let entry = QueuedRecord {
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
        if ended.recv_timeout(CLOSE_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
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

/// State of the writer thread.
struct WriterThread {
    journal: Journal,
    /// End records that could not be written yet, the oldest first. No run is started meanwhile, so the concurrent
    /// hooks bound their number.
    late: VecDeque<Record>,
    /// Runs whose start was written and whose end was not submitted yet.
    open: HashSet<String>,
    tally: Arc<Tally>,
    tell: watch::Sender<Option<Problem>>,
}

impl WriterThread {
    /// Writes records until every sender is gone.
    fn serve(&mut self, entries: &mpsc::Receiver<QueuedRecord>) {
        let mut group = Vec::with_capacity(MAX_GROUP);
        let mut retry = Instant::now();
        loop {
            let first = if self.late.is_empty() && !self.waits() {
                retry = Instant::now() + RETRY_INTERVAL;
                entries.recv().map_err(RecvTimeoutError::from)
            } else {
                entries.recv_timeout(retry.saturating_duration_since(Instant::now()))
            };
            match first {
                Ok(first) => {
                    group.push(first);
                    group.extend(entries.try_iter().take(MAX_GROUP - 1));
                    self.write_group(&mut group);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if Instant::now() >= retry {
                self.write_late();
                retry = Instant::now() + RETRY_INTERVAL;
            }
        }
        self.write_late();
    }

    /// Writes a group of records, and sends each its result.
    fn write_group(&mut self, group: &mut Vec<QueuedRecord>) {
        let mut wanted = Vec::with_capacity(group.len());
        let appended = {
            // Evaluated under the journal's lock, since waiting for it may have taken long.
            let runs = self.tell.borrow().is_none();
            let wanted_records = group.iter().filter_map(|entry| {
                let is_wanted = entry.is_wanted(runs);
                wanted.push(is_wanted);
                is_wanted.then_some(&entry.record)
            });
            self.journal.append_all(wanted_records)
        };
        let appended = match appended {
            Ok(appended) => appended,
            // Retried one by one, so that each record gets its own error.
            Err(_) if group.len() > 1 => {
                for entry in std::mem::take(group) {
                    self.write_group(&mut vec![entry]);
                }
                return;
            }
            Err(error) => vec![Err(error)],
        };
        // After an error the iterator was not read, so every record counts as wanted.
        wanted.resize(group.len(), true);
        let mut appended = appended.into_iter();
        for (entry, wanted) in group.drain(..).zip(wanted) {
            match wanted.then(|| appended.next()).flatten() {
                Some(result) => self.answer(entry, result),
                // The start of a run, withheld while a problem prevents runs or because its caller is gone.
                None => drop(entry.written.send(Err(self.unwritten()))),
            }
        }
    }

    /// Sends a record's result, and handles failures of the record here.
    fn answer(&mut self, entry: QueuedRecord, result: Result<Appended, JournalError>) {
        let QueuedRecord {
            record, written, ..
        } = entry;
        self.tally.count(&result);
        let is_end = self.follow(&record, result.is_ok());
        let result = result.map_err(|error| {
            let why = chain(&error);
            // A record that is too large says nothing about others.
            let is_of_its_own = matches!(error, JournalError::TooLarge { .. });
            if is_end {
                self.stop_runs(&error, format!("an end record could not be written: {why}"));
                self.late.push_back(record);
            } else if !is_of_its_own {
                self.stop_runs(&error, why.clone());
            } else {
                tracing::error!(
                    error = why,
                    "a record cannot be written; its hook is not run"
                );
            }
            Unwritten(why)
        });
        // The caller may be gone.
        written.send(result).ok();
    }

    /// Tracks the open runs. Returns whether a record ends one, as the refusal of an announced run does.
    fn follow(&mut self, record: &Record, is_written: bool) -> bool {
        match record {
            Record::Started(started) => {
                if is_written {
                    self.open.insert(started.run_id.clone());
                }
                false
            }
            Record::Ended(ended) => {
                self.open.remove(&ended.run_id);
                true
            }
            Record::Refused(refused) => {
                let run = refused.run_id.as_ref();
                run.is_some_and(|run| self.open.remove(run))
            }
            Record::Interrupted(_) | Record::Lost(_) | Record::Torn(_) => false,
        }
    }

    /// Stops runs until the late end records are written, or for good. The first reason stays, unless a final one
    /// follows.
    fn stop_runs(&self, error: &JournalError, why: String) {
        // An end record that is too large is never written; the next writer records the run as interrupted.
        let is_final = error.is_final() || matches!(error, JournalError::TooLarge { .. });
        self.tell.send_if_modified(|problem| {
            let is_new = problem.as_ref().is_none_or(|it| is_final && !it.is_final);
            if is_new {
                tracing::error!(
                    error = why,
                    "records cannot be written; no hook is run until they can be"
                );
                *problem = Some(Problem { is_final, why });
            }
            is_new
        });
    }

    /// Returns whether no hook runs until the next attempt succeeds.
    fn waits(&self) -> bool {
        let problem = self.tell.borrow();
        problem.as_ref().is_some_and(|problem| !problem.is_final)
    }

    fn unwritten(&self) -> Unwritten {
        let problem = self.tell.borrow();
        let why = problem.as_ref().map(|problem| problem.why.as_str());
        Unwritten(why.unwrap_or("nobody waits for it").to_owned())
    }

    /// Writes the late end records. Once all are written and a start could be, hooks run again.
    fn write_late(&mut self) {
        if !self.waits() {
            return;
        }
        let behind = self.late.len();
        while let Some(record) = self.late.front() {
            let appended = self.journal.append(record);
            self.tally.count(&appended);
            match appended {
                Ok(_) => drop(self.late.pop_front()),
                Err(error) => {
                    self.stop_runs(&error, chain(&error));
                    return;
                }
            }
        }
        if let Err(error) = self.journal.check_room() {
            self.stop_runs(&error, chain(&error));
            return;
        }
        let passing = |it: &mut Option<Problem>| it.take_if(|problem| !problem.is_final).is_some();
        if self.tell.send_if_modified(passing) {
            let failures = self.tally.failures();
            tracing::info!(behind, failures, "records can be written; hooks run again");
        }
    }
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::*;
    use crate::append::tests::{refused, refused_run, started};

    fn entry(record: Record) -> QueuedRecord {
        QueuedRecord {
            record,
            revocable: false,
            _room: None,
            written: oneshot::channel().0,
        }
    }

    #[test]
    fn a_refusal_that_ends_a_run_is_written_once_it_can_be_and_no_other() {
        let directory = tempdir().unwrap();
        let (tell, problem) = watch::channel(None);
        let mut thread = WriterThread {
            journal: Journal::open(directory.path(), crate::append::Settings::default()).unwrap(),
            late: VecDeque::new(),
            open: HashSet::new(),
            tally: Arc::default(),
            tell,
        };
        let full = || {
            Err(JournalError::Unusable {
                doing: "lock",
                path: directory.path().to_owned(),
                source: io::Error::from_raw_os_error(libc::EMFILE),
            })
        };
        thread.write_group(&mut vec![entry(started("announced"))]);

        for other in [refused("before"), refused_run("never-announced")] {
            thread.answer(entry(other), full());
            // No start is written either, until an attempt succeeds.
            assert!(thread.late.is_empty() && thread.waits());
            thread.write_late();
            assert_eq!(*problem.borrow(), None);
        }
        thread.answer(entry(refused_run("announced")), full());
        assert!(!problem.borrow().as_ref().unwrap().is_final);
        thread.write_late();
        assert_eq!(*problem.borrow(), None);
        // Those two before, and the late one's first attempt; then its second, after the start.
        let tally = &thread.tally;
        assert_eq!((tally.failures(), tally.written()), (3, 2));
        assert!(tally.last_failure() > 0);

        let text = std::fs::read_to_string(directory.path().join("journal.jsonl")).unwrap();
        let records: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let kinds: Vec<_> = records.iter().map(|record| &record["record"]).collect();
        assert_eq!(kinds, ["started", "refused"]);
        assert_eq!(records[1]["run_id"], "announced");
        assert!(thread.open.is_empty());
    }
}
