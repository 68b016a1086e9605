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

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch},
    time::timeout,
};

use hookjail_base::{
    refusal::chain,
    util::attempt::{LastAttempt, TRY_TIMEOUT},
};

use super::{
    append::{Appended, Journal, JournalError},
    counted::{Counted, RefusalPlace},
    record::{Record, Refused, Started},
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

/// Proof that a refusal's record is in the journal, or that the writer has counted it in one that it writes within a second.
///
/// Only [`Writer::refusal`] makes one.
#[derive(Debug)]
pub struct RefusalRecorded(());

/// The journal's writer.
#[derive(Debug)]
pub struct Writer {
    directory: PathBuf,
    /// Nothing is sent on this channel, which closes when the thread ends.
    ended: Mutex<mpsc::Receiver<()>>,
    /// The problem that prevents writing.
    problem: watch::Receiver<Option<Problem>>,
    progress: Arc<LastAttempt>,
    /// `None` once the writer is being dropped.
    queue: Option<mpsc::Sender<Queued>>,
    room: Arc<Semaphore>,
    tally: Arc<Tally>,
    tell: Teller,
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
    /// Its kind.
    pub kind: ProblemKind,
    /// Its description.
    pub why: String,
}

/// The kinds of problems, the mildest first: a worse one replaces the description of a milder one.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum ProblemKind {
    /// The disk does not answer. Hooks run again once the write in work is over and a further one succeeds.
    Hanging,
    /// A record could not be written. The writer retries every second, and continues once all are written.
    Failing,
    /// This process writes no record any more.
    Final,
}

/// Error of writing a record, with the cause.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unwritten(String);

/// An entry of the thread's queue.
#[derive(Debug)]
enum Queued {
    Record(QueuedRecord),
    /// The journal is to be tried; dropped afterwards.
    Try(oneshot::Sender<()>),
}

#[derive(Debug)]
struct QueuedRecord {
    record: Record,
    /// Whether the record is dropped if its caller no longer waits.
    revocable: bool,
    _room: Option<OwnedSemaphorePermit>,
    written: Reply,
}

/// The other end of a record's submission.
#[derive(Debug)]
enum Reply {
    /// That of a start or an end, which has a record of its own.
    Position(oneshot::Sender<Result<Appended, Unwritten>>),
    /// That of a refusal.
    Refusal(oneshot::Sender<Result<RefusalRecorded, Unwritten>>),
}

impl Reply {
    /// Sends a record's result. The caller may be gone.
    fn send(self, result: Result<Appended, Unwritten>) {
        match self {
            Self::Position(caller) => drop(caller.send(result)),
            Self::Refusal(caller) => drop(caller.send(result.map(|_| RefusalRecorded(())))),
        }
    }

    fn is_closed(&self) -> bool {
        match self {
            Self::Position(caller) => caller.is_closed(),
            Self::Refusal(caller) => caller.is_closed(),
        }
    }
}

impl QueuedRecord {
    /// Returns whether the record is still to be written; `runs`: whether runs may start.
    fn is_wanted(&self, runs: bool) -> bool {
        !self.revocable || (runs && !self.written.is_closed())
    }

    /// Returns whether it is the start of a run.
    fn starts(&self, run: &str) -> bool {
        matches!(&self.record, Record::Started(started) if started.run_id == run)
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
        let (tell, problem) = Teller::new();
        let directory = journal.directory().to_owned();
        let progress = Arc::<LastAttempt>::default();
        let tally = Arc::<Tally>::default();
        let mut thread = WriterThread {
            counted: Counted::default(),
            journal,
            late: VecDeque::new(),
            open: HashSet::new(),
            progress: Arc::clone(&progress),
            tally: Arc::clone(&tally),
            tell: tell.clone(),
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
            progress,
            queue: Some(queue),
            room: Arc::new(Semaphore::new(MAX_QUEUED)),
            tally,
            tell,
        })
    }

    /// Looks for a journal that hangs. To be called every few seconds.
    pub fn look(&self) {
        if !self.progress.get().hangs(Instant::now()) {
            return;
        }
        self.tell.stop(Problem {
            kind: ProblemKind::Hanging,
            why: format!(
                "the disk of {} does not answer; check that disk",
                self.directory.display()
            ),
        });
        // The thread may have ended its work since the look, and would wait for a record with the problem.
        self.request_attempt();
    }

    /// Tries to write where the last attempt is old.
    pub async fn refresh(&self) {
        if self.progress.get().is_due(Instant::now())
            && let Some(tried) = self.request_attempt()
        {
            // One that takes longer shows as a hanging journal later.
            timeout(TRY_TIMEOUT, tried).await.ok();
        }
    }

    fn request_attempt(&self) -> Option<oneshot::Receiver<()>> {
        let (done, tried) = oneshot::channel();
        let queue = self.queue.as_ref()?;
        queue.send(Queued::Try(done)).ok().map(|()| tried)
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
    ///
    /// # Errors
    ///
    /// Fails where the record cannot be written, and once the journal hangs.
    pub async fn start_of_run(&self, record: Box<Started>) -> Result<StartRecorded, Unwritten> {
        let mut problem = self.problem.clone();
        let is_hanging = |it: &Option<Problem>| {
            it.as_ref()
                .is_some_and(|problem| problem.kind == ProblemKind::Hanging)
        };
        let written = async {
            let room = self.room().await?;
            self.write(Record::Started(record), true, Some(room)).await
        };
        tokio::select! {
            biased;
            appended = written => Ok(StartRecorded(appended?)),
            hanging = problem.wait_for(is_hanging) => {
                let why = hanging.ok().and_then(|it| it.as_ref().map(|problem| problem.why.clone()));
                Err(why.map_or_else(gone, Unwritten))
            }
        }
    }

    /// Writes the end of a run. Once the future was polled, the record is written even if the future is dropped.
    pub async fn end_of_run(&self, record: Record) -> Result<Appended, Unwritten> {
        self.write(record, false, None).await
    }

    /// Writes a refusal. Once there is room, the record is written even if the future is dropped.
    ///
    /// Of a uid's many refusals the first are written, and the others counted: one record a second has the number of each reason.
    /// One that ends a run whose start is recorded is always written.
    ///
    /// # Errors
    ///
    /// Fails where the record cannot be written.
    pub async fn refusal(&self, record: Box<Refused>) -> Result<RefusalRecorded, Unwritten> {
        let room = self.room().await?;
        let (written, done) = oneshot::channel();
        self.submit(QueuedRecord {
            record: Record::Refused(record),
            revocable: false,
            _room: Some(room),
            written: Reply::Refusal(written),
        })?;
        done.await.map_err(|_| gone())?
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
        self.submit(QueuedRecord {
            record,
            revocable,
            _room: room,
            written: Reply::Position(written),
        })?;
        done.await.map_err(|_| gone())?
    }

    fn submit(&self, entry: QueuedRecord) -> Result<(), Unwritten> {
        let queue = self.queue.as_ref().ok_or_else(gone)?;
        queue.send(Queued::Record(entry)).map_err(|_| gone())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(CLOSE_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            tracing::error!(
                path = %self.directory.display(),
                "the journal does not take the last records, so the next daemon records their runs as interrupted"
            );
        }
    }
}

fn gone() -> Unwritten {
    Unwritten("the thread that writes it is gone; restart the daemon".to_owned())
}

/// Publishes the problem that prevents writing.
#[derive(Clone, Debug)]
struct Teller(watch::Sender<Option<Problem>>);

impl Teller {
    fn new() -> (Self, watch::Receiver<Option<Problem>>) {
        let (sender, problem) = watch::channel(None);
        (Self(sender), problem)
    }

    /// Stops runs. The first description stays, unless a worse problem follows.
    fn stop(&self, found: Problem) {
        self.0.send_if_modified(|problem| {
            let is_new = problem.as_ref().is_none_or(|it| found.kind > it.kind);
            if is_new {
                tracing::error!(
                    error = found.why,
                    "records cannot be written, so no hook is run until they can be"
                );
                *problem = Some(found);
            }
            is_new
        });
    }

    /// Lets runs continue, unless a problem is final. Returns whether a problem was there.
    fn go_on(&self) -> bool {
        self.0.send_if_modified(|it| {
            let passing = it.take_if(|problem| problem.kind < ProblemKind::Final);
            passing.is_some()
        })
    }

    /// Returns whether no hook runs until the next attempt succeeds.
    fn waits(&self) -> bool {
        let problem = self.0.borrow();
        problem
            .as_ref()
            .is_some_and(|problem| problem.kind < ProblemKind::Final)
    }

    /// Returns whether runs may start.
    fn runs(&self) -> bool {
        self.0.borrow().is_none()
    }

    fn why(&self) -> Option<String> {
        let problem = self.0.borrow();
        problem.as_ref().map(|problem| problem.why.clone())
    }
}

/// State of the writer thread.
struct WriterThread {
    /// The refusals that are counted, and whose count is not written yet.
    counted: Counted,
    journal: Journal,
    /// End records and counts of refusals that could not be written yet, the oldest first. No run is started and no count written
    /// meanwhile, so the concurrent hooks bound their number.
    late: VecDeque<Record>,
    /// Runs whose start was written and whose end was not submitted yet.
    open: HashSet<String>,
    progress: Arc<LastAttempt>,
    tally: Arc<Tally>,
    tell: Teller,
}

impl WriterThread {
    /// Writes records until every sender is gone.
    fn serve(&mut self, entries: &mpsc::Receiver<Queued>) {
        let mut group = Vec::with_capacity(MAX_GROUP);
        let mut retry = Instant::now();
        loop {
            let waits = self.tell.waits();
            if !waits {
                retry = Instant::now() + RETRY_INTERVAL;
            }
            let first = match waits.then_some(retry).or_else(|| self.counts_due()) {
                Some(next) => entries.recv_timeout(next.saturating_duration_since(Instant::now())),
                None => entries.recv().map_err(RecvTimeoutError::from),
            };
            let work = self.progress.begin();
            match first {
                Ok(first) => {
                    let further = entries.try_iter().take(MAX_GROUP - 1);
                    let mut tries = Vec::new();
                    for entry in std::iter::once(first).chain(further) {
                        match entry {
                            Queued::Record(record) => group.extend(self.count(record, &group)),
                            Queued::Try(done) => tries.push(done),
                        }
                    }
                    if !group.is_empty() {
                        self.write_group(&mut group);
                    }
                    if !tries.is_empty() {
                        self.try_room();
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.counts_due().is_some_and(|due| Instant::now() >= due) {
                self.write_counted();
            }
            if Instant::now() >= retry {
                self.write_late();
                retry = Instant::now() + RETRY_INTERVAL;
            }
            drop(work);
        }
        self.write_counted();
        self.write_late();
    }

    /// Counts and answers a refusal that needs no record of its own. Returns any other entry.
    ///
    /// `group`: the entries before it that are not written yet.
    fn count(&mut self, entry: QueuedRecord, group: &[QueuedRecord]) -> Option<QueuedRecord> {
        let QueuedRecord {
            record: Record::Refused(refused),
            written: Reply::Refusal(_),
            ..
        } = &entry
        else {
            return Some(entry);
        };
        let is_open =
            |run: &String| self.open.contains(run) || group.iter().any(|entry| entry.starts(run));
        let announced = refused.run_id.as_ref().is_some_and(is_open);
        match self.counted.place(refused, announced, Instant::now()) {
            RefusalPlace::Own => return Some(entry),
            RefusalPlace::Counted => {}
        }
        if let Reply::Refusal(caller) = entry.written {
            // Where records cannot be written, the count may never be.
            let counted = self.tell.runs().then_some(RefusalRecorded(()));
            // The caller may be gone.
            caller.send(counted.ok_or_else(|| self.unwritten())).ok();
        }
        None
    }

    /// Returns when the counts of refusals are due, unless nothing can be written.
    fn counts_due(&self) -> Option<Instant> {
        self.counted.due().filter(|_| self.tell.runs())
    }

    /// Writes the counts of refusals. Counts that cannot be written are late, and prevent runs like an end record.
    fn write_counted(&mut self) {
        for refused in self.counted.take() {
            let record = Record::Refused(Box::new(refused));
            let appended = self.journal.append(&record);
            self.tally.count(&appended);
            if let Err(error) = appended {
                let why = chain(&error);
                self.stop_runs(
                    &error,
                    format!("a count of refusals could not be written: {why}"),
                );
                self.late.push_back(record);
            }
        }
    }

    /// Writes a group of records, and sends each its result.
    fn write_group(&mut self, group: &mut Vec<QueuedRecord>) {
        let mut wanted = Vec::with_capacity(group.len());
        let appended = {
            // Evaluated under the journal's lock, since waiting for it may have taken long.
            let runs = self.tell.runs();
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
        // After an error the iterator was not read, so every record counts as due.
        wanted.resize(group.len(), true);
        let mut appended = appended.into_iter();
        for (entry, wanted) in group.drain(..).zip(wanted) {
            match wanted.then(|| appended.next()).flatten() {
                Some(result) => self.answer(entry, result),
                // The start of a run, withheld while a problem prevents runs or because its caller is gone.
                None => entry.written.send(Err(self.unwritten())),
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
            // A record that is too large is no evidence about others.
            let is_of_its_own = matches!(error, JournalError::TooLarge { .. });
            if is_end {
                self.stop_runs(&error, format!("an end record could not be written: {why}"));
                self.late.push_back(record);
            } else if !is_of_its_own {
                self.stop_runs(&error, why.clone());
            } else {
                tracing::error!(
                    error = why,
                    "a record cannot be written, so its hook is not run"
                );
            }
            Unwritten(why)
        });
        written.send(result);
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
            Record::Interrupted(_) | Record::Lost(_) | Record::Rebooted(_) | Record::Torn(_) => {
                false
            }
        }
    }

    /// Stops runs until the late end records are written, or for good.
    fn stop_runs(&self, error: &JournalError, why: String) {
        // An end record that is too large is never written; the next writer records the run as interrupted.
        let is_final = error.is_final() || matches!(error, JournalError::TooLarge { .. });
        let kind = if is_final {
            ProblemKind::Final
        } else {
            ProblemKind::Failing
        };
        self.tell.stop(Problem { kind, why });
    }

    fn unwritten(&self) -> Unwritten {
        let why = self.tell.why();
        Unwritten(why.unwrap_or_else(|| "its caller has gone".to_owned()))
    }

    /// Tries whether a start could be written. Returns whether it could.
    fn try_room(&self) -> bool {
        let tried = self.journal.check_room();
        if let Err(error) = &tried {
            self.stop_runs(error, chain(error));
        }
        tried.is_ok()
    }

    /// Writes the late end records. Once all are written and a start could be, hooks run again.
    fn write_late(&mut self) {
        if !self.tell.waits() {
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
        if self.try_room() && self.tell.go_on() {
            let failures = self.tally.failures();
            tracing::info!(
                behind,
                failures,
                "records can be written, and hooks run again"
            );
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
            written: Reply::Position(oneshot::channel().0),
        }
    }

    fn thread_of(directory: &Path, tell: Teller) -> WriterThread {
        WriterThread {
            counted: Counted::default(),
            journal: Journal::open(directory, crate::append::Settings::default()).unwrap(),
            late: VecDeque::new(),
            open: HashSet::new(),
            progress: Arc::default(),
            tally: Arc::default(),
            tell,
        }
    }

    #[test]
    fn a_refusal_that_ends_a_run_is_written_once_it_can_be_and_no_other() {
        let directory = tempdir().unwrap();
        let (tell, problem) = Teller::new();
        let mut thread = thread_of(directory.path(), tell);
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
            assert!(thread.late.is_empty() && thread.tell.waits());
            thread.write_late();
            assert_eq!(*problem.borrow(), None);
        }
        thread.answer(entry(refused_run("announced")), full());
        assert_eq!(
            problem.borrow().as_ref().unwrap().kind,
            ProblemKind::Failing
        );
        thread.write_late();
        assert_eq!(*problem.borrow(), None);
        // The two before, and the late one's first attempt; then its second, after the start.
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

    fn refusal_of(record: Record) -> Box<Refused> {
        let Record::Refused(refused) = record else {
            panic!("no refusal: {record:?}")
        };
        refused
    }

    fn records(directory: &Path) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(directory.join("journal.jsonl")).unwrap();
        let record = |line| serde_json::from_str(line).unwrap();
        text.lines().map(record).collect()
    }

    /// The number of refusals for which these records stand, and of these records.
    fn stands_for(records: &[serde_json::Value]) -> (u64, usize) {
        let refused = records.iter().filter(|it| it["record"] == "refused");
        let counts: Vec<_> = refused
            .map(|it| it["count"].as_u64().unwrap_or(1))
            .collect();
        (counts.iter().sum(), counts.len())
    }

    async fn refuse(writer: &Writer, times: u32) {
        for _ in 0..times {
            let answered = writer.refusal(refusal_of(refused("no"))).await;
            answered.unwrap();
        }
    }

    #[tokio::test]
    async fn many_refusals_are_few_records_and_none_is_left_out() {
        let directory = tempdir().unwrap();
        let journal = Journal::open(directory.path(), crate::append::Settings::default()).unwrap();
        let writer = Writer::start(journal).unwrap();
        refuse(&writer, 1000).await;
        let Record::Started(started) = started("announced") else {
            panic!("no start")
        };
        writer.start_of_run(started).await.unwrap();
        // Its start has one end at any rate.
        let end = writer.refusal(refusal_of(refused_run("announced"))).await;
        end.unwrap();
        let whole = records(directory.path());
        let is_end = |it: &&serde_json::Value| {
            it["record"] == "refused" && it["run_id"] == "announced" && it["count"].is_null()
        };
        assert_eq!(whole.iter().filter(is_end).count(), 1);
        // Counts are written at the end, too.
        drop(writer);
        let (refusals, written) = stands_for(&records(directory.path()));
        assert_eq!(refusals, 1001);
        assert!((102..=300).contains(&written), "{written}");
    }

    #[tokio::test]
    async fn a_count_is_written_within_a_second() {
        let directory = tempdir().unwrap();
        let journal = Journal::open(directory.path(), crate::append::Settings::default()).unwrap();
        let writer = Writer::start(journal).unwrap();
        refuse(&writer, 300).await;
        let late = Instant::now() + Duration::from_secs(10);
        while stands_for(&records(directory.path())).0 < 300 {
            assert!(Instant::now() < late, "no count");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        drop(writer);
        assert_eq!(stands_for(&records(directory.path())).0, 300);
    }

    #[test]
    fn a_start_in_the_same_group_keeps_its_refusal() {
        let directory = tempdir().unwrap();
        let mut thread = thread_of(directory.path(), Teller::new().0);
        let refusal = |record| QueuedRecord {
            written: Reply::Refusal(oneshot::channel().0),
            ..entry(record)
        };
        while thread.count(refusal(refused("no")), &[]).is_some() {}
        let group = [entry(started("announced"))];
        let end = || refusal(refused_run("announced"));
        assert!(thread.count(end(), &group).is_some());
        assert!(thread.count(end(), &[]).is_none());
    }

    #[test]
    fn nothing_is_answered_as_counted_while_records_cannot_be_written() {
        let directory = tempdir().unwrap();
        let mut thread = thread_of(directory.path(), Teller::new().0);
        let ask = |thread: &mut WriterThread| {
            let (written, mut answer) = oneshot::channel();
            let entry = QueuedRecord {
                written: Reply::Refusal(written),
                ..entry(refused("no"))
            };
            let returned = thread.count(entry, &[]);
            (returned.is_some(), answer.try_recv().map(|it| it.is_ok()))
        };
        while ask(&mut thread).0 {}
        assert_eq!(ask(&mut thread), (false, Ok(true)));
        thread.tell.stop(Problem {
            kind: ProblemKind::Failing,
            why: "full".to_owned(),
        });
        assert_eq!(ask(&mut thread), (false, Ok(false)));
        assert_eq!(thread.counts_due(), None);
        thread.write_late();
        assert!(thread.counts_due().is_some());
        thread.write_counted();
        assert_eq!(stands_for(&records(directory.path())), (3, 1));
    }
}
