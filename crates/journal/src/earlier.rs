//! Idempotency across restarts: runs with callers' ids that an earlier daemon started. A request under such an id does not run
//! again.
//!
//! The journal records those runs. Its end is read once, at the first request that could repeat one of them; runs that
//! this daemon starts are answered from memory.

use std::{
    borrow::Cow,
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use serde::Deserialize;
use tokio::sync::Mutex;
use uuid::Uuid;

use hookjail_base::{
    refusal::{Fact, Reason, Refusal, chain},
    util::heavy,
};

use super::{
    read::JournalReader,
    record::{OutcomeKind, PeerLine},
};

/// The retention of an id's run, from the last record or reply.
pub const RETENTION: Duration = Duration::from_secs(600);

/// The longest run time that is searched for, the longest of shipped profiles.
const MAX_RUN_TIME: Duration = Duration::from_secs(1800);

/// The most of the journal's end that is read.
const MAX_SCANNED_BYTES: u64 = 64 << 20;

/// The runs of earlier daemons.
#[derive(Debug)]
pub struct Earlier {
    began: Instant,
    directory: PathBuf,
    instance: String,
    /// `None` = not read yet.
    known: Mutex<Option<Runs>>,
    /// When the journal was opened.
    opened: Timestamp,
}

/// Runs by caller and id.
#[derive(Debug, Default)]
struct Runs {
    by_id: HashMap<(u32, String), Vec<EarlierRun>>,
    /// When the last run expires.
    until: Option<Instant>,
}

/// A run found in the journal.
#[derive(Debug)]
struct EarlierRun {
    end: RunEnd,
    request_sha256: String,
    run_id: String,
    started_sequence: u64,
    /// When the run's id expires.
    until: Instant,
}

/// A run's end, as far as the journal has it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum RunEnd {
    /// The daemon that ran it died.
    Interrupted,
    /// The run ended by itself or was ended.
    Outcome {
        exit_code: Option<i32>,
        outcome: OutcomeKind,
        signal: Option<i32>,
    },
    /// The run was refused after its release.
    Refused,
    /// None: the run may still continue, under another daemon.
    Unknown,
}

/// The fields of a record that are needed here.
#[derive(Debug, Deserialize)]
struct RecordOutline<'a> {
    sequence: u64,
    #[serde(borrow)]
    time: Cow<'a, str>,
    #[serde(borrow)]
    instance: Cow<'a, str>,
    #[serde(borrow)]
    record: Cow<'a, str>,
    #[serde(borrow, default)]
    run_id: Cow<'a, str>,
    #[serde(borrow, default)]
    request_id: Cow<'a, str>,
    #[serde(borrow, default)]
    request_sha256: Cow<'a, str>,
    peer: Option<PeerLine>,
    outcome: Option<OutcomeKind>,
    exit_code: Option<i32>,
    signal: Option<i32>,
    #[serde(default)]
    released: bool,
}

impl Earlier {
    /// Prepares to search a directory's journal for runs of other instances than this.
    pub fn new(directory: &Path, instance: &str) -> Self {
        Self {
            began: Instant::now(),
            directory: directory.to_owned(),
            instance: instance.to_owned(),
            known: Mutex::new(None),
            opened: Timestamp::now(),
        }
    }

    /// Returns the refusal of a request that has run already. `request_id` and `sha256` are as in records.
    ///
    /// # Errors
    ///
    /// Refuses where the journal cannot be read: the request may have been run.
    pub async fn find(
        &self,
        uid: u32,
        request_id: String,
        sha256: &str,
    ) -> Result<Option<Refusal>, Refusal> {
        if self.is_younger(&request_id) {
            return Ok(None);
        }
        let mut known = self.known.lock().await;
        let runs = match &mut *known {
            Some(runs) => runs,
            // Every earlier run has expired by now.
            unread if self.began.elapsed() >= RETENTION => unread.insert(Runs::default()),
            unread => {
                let (directory, instance) = (self.directory.clone(), self.instance.clone());
                let read = move || Runs::read(&directory, &instance, MAX_SCANNED_BYTES);
                unread.insert(heavy::offload(uid, read).await.map_err(|error| {
                    let message = format!(
                        "the audit journal cannot be read ({}) for earlier runs of this `request_id`; repair it, or retry without \
                         an id",
                        chain(&error)
                    );
                    Refusal::new(Reason::AuditUnavailable, message)
                })?)
            }
        };
        let now = Instant::now();
        if runs.until.is_none_or(|until| until <= now) {
            *runs = Runs::default();
        }
        Ok(runs.find((uid, request_id), sha256, now))
    }

    /// Returns whether an id was made after this daemon started, as hookjail's own clients' are.
    fn is_younger(&self, id: &str) -> bool {
        let made = Uuid::try_parse(id).ok().and_then(|id| {
            let time = (id.get_version_num() == 7)
                .then(|| id.get_timestamp())
                .flatten()?;
            let (seconds, nanos) = time.to_unix();
            let seconds = i64::try_from(seconds).ok()?;
            Timestamp::new(seconds, nanos.cast_signed()).ok()
        });
        // A future time comes from a clock that has been set back since.
        made.is_some_and(|made| (self.opened..=Timestamp::now()).contains(&made))
    }
}

impl Runs {
    /// Reads the end of a directory's journal back to runs that are too old. Reads at most `bytes`.
    fn read(directory: &Path, instance: &str, bytes: u64) -> io::Result<Self> {
        let (now, clock) = (Instant::now(), Timestamp::now());
        let age = |time: &str| {
            let time = time.parse::<Timestamp>().ok()?;
            // A future time comes from a clock that has been set back since, and counts as now.
            Some(Duration::try_from(clock.duration_since(time)).unwrap_or_default())
        };
        let is_old = |time: &str| age(time).is_some_and(|age| age > RETENTION + MAX_RUN_TIME);
        let mut reader = JournalReader::since(directory, is_old, bytes)?;
        // By run id.
        let mut runs: HashMap<String, ((u32, String), EarlierRun)> = HashMap::new();
        while let Some(line) = reader.next_line()? {
            // A malformed line is skipped; `verify` reports it.
            let Ok(fields) = serde_json::from_slice::<RecordOutline<'_>>(line) else {
                continue;
            };
            let end = match &*fields.record {
                "started" => {
                    if let Some(peer) = fields.peer
                        && !fields.request_sha256.is_empty()
                        && fields.instance != instance
                    {
                        let key = (peer.uid, fields.request_id.into_owned());
                        let run = EarlierRun {
                            end: RunEnd::Unknown,
                            request_sha256: fields.request_sha256.into_owned(),
                            run_id: fields.run_id.clone().into_owned(),
                            started_sequence: fields.sequence,
                            until: now + RETENTION,
                        };
                        runs.insert(fields.run_id.into_owned(), (key, run));
                    }
                    continue;
                }
                "interrupted" => Some(RunEnd::Interrupted),
                "refused" if fields.released => Some(RunEnd::Refused),
                "refused" => None,
                _ => match fields.outcome {
                    Some(outcome) => Some(RunEnd::Outcome {
                        exit_code: fields.exit_code,
                        outcome,
                        signal: fields.signal,
                    }),
                    None => continue,
                },
            };
            let run = runs.get_mut(&*fields.run_id).map(|(_, run)| run);
            let Some(run) = run.filter(|run| run.end == RunEnd::Unknown) else {
                continue;
            };
            match end {
                Some(end) => {
                    let age = age(&fields.time).unwrap_or_default();
                    (run.end, run.until) = (end, now + RETENTION.saturating_sub(age));
                }
                // Nothing ran: the request may be repeated.
                None => drop(runs.remove(&*fields.run_id)),
            }
        }
        let mut runs: Vec<_> = runs.into_values().collect();
        runs.retain(|(_, run)| run.until > now);
        runs.sort_by_key(|(_, run)| run.started_sequence);
        let mut read = Self::default();
        for (key, run) in runs {
            read.until = read.until.max(Some(run.until));
            read.by_id.entry(key).or_default().push(run);
        }
        Ok(read)
    }

    fn find(&self, key: (u32, String), sha256: &str, now: Instant) -> Option<Refusal> {
        let of_id = self.by_id.get(&key)?;
        let runs: Vec<_> = of_id.iter().filter(|run| run.until > now).collect();
        // Of several runs of a dispatch, one without a known outcome goes first.
        let unknown = runs.iter().find(|run| !run.end.is_known());
        let run = unknown.or(runs.last())?;
        if run.request_sha256 != sha256 {
            return Some(conflict());
        }
        Some(run.refusal(runs.len()))
    }
}

impl RunEnd {
    const fn is_known(self) -> bool {
        matches!(self, Self::Outcome { .. })
    }
}

impl EarlierRun {
    fn refusal(&self, count: usize) -> Refusal {
        let (outcome, what) = match self.end {
            RunEnd::Interrupted => (
                "interrupted".to_owned(),
                "the daemon was killed before its end, which is unknown".to_owned(),
            ),
            RunEnd::Outcome { outcome, .. } => {
                let name = outcome.to_string();
                let what = format!("the hook ended as `{name}`");
                (name, what)
            }
            RunEnd::Refused => (
                "refused".to_owned(),
                "the hook was released, and then refused".to_owned(),
            ),
            RunEnd::Unknown => (
                "unknown".to_owned(),
                "the journal has no end record, and the hook may still run".to_owned(),
            ),
        };
        let several = if count > 1 {
            format!(", as one of {count} hooks")
        } else {
            String::new()
        };
        let message = format!(
            "a request with this `request_id` started before this daemon: {what}{several}. The hook is not run again, and \
             its output is not kept; retry under another id"
        );
        let mut refusal = Refusal::new(Reason::AlreadyRan, message)
            .with(Fact::Outcome(outcome))
            .with(Fact::RunId(self.run_id.as_str().into()))
            .with(Fact::Sequence(self.started_sequence));
        if let RunEnd::Outcome {
            exit_code, signal, ..
        } = self.end
        {
            let numbers = [exit_code.map(Fact::ExitCode), signal.map(Fact::Signal)];
            refusal = numbers.into_iter().flatten().fold(refusal, Refusal::with);
        }
        if matches!(self.end, RunEnd::Outcome { .. } | RunEnd::Refused) {
            refusal = refusal.released();
        }
        refusal
    }
}

/// Builds the refusal of an id that was used for a different request.
pub fn conflict() -> Refusal {
    let message = "another request was made under this `request_id`";
    Refusal::new(Reason::RequestIdConflict, message)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Writes a journal of records, each with a sequence and an age in seconds. Records are another writer's unless they name
    /// one.
    fn journal(records: &[(u64, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let text = lines(1, records);
        fs::write(dir.path().join("journal.jsonl"), text).unwrap();
        dir
    }

    fn lines(first: usize, records: &[(u64, &str)]) -> String {
        let now = Timestamp::now();
        let line = |(index, (age, rest)): (usize, &(u64, &str))| {
            let time = now - Duration::from_secs(*age);
            let sequence = first + index;
            format!(r#"{{"sequence":{sequence},"time":"{time:.9}","instance":"other",{rest}}}"#)
                + "\n"
        };
        records.iter().enumerate().map(line).collect()
    }

    const STARTED: &str = r#""record":"started","run_id":"a","request_id":"id","request_sha256":"5a","peer":{"uid":7}"#;
    const ENDED: &str =
        r#""record":"ended","run_id":"a","released":true,"outcome":"exited","exit_code":3"#;
    const INTERRUPTED: &str = r#""record":"interrupted","run_id":"a","started_by":"other""#;

    fn found(dir: &tempfile::TempDir, uid: u32, sha256: &str) -> Option<Refusal> {
        let runs = Runs::read(dir.path(), "own", MAX_SCANNED_BYTES).unwrap();
        runs.find((uid, "id".to_owned()), sha256, Instant::now())
    }

    fn outcome(records: &[(u64, &str)]) -> Option<String> {
        let refusal = found(&journal(records), 7, "5a")?;
        assert_eq!(refusal.reason, Reason::AlreadyRan);
        refusal.facts.into_iter().find_map(|fact| {
            if let Fact::Outcome(outcome) = fact {
                Some(outcome)
            } else {
                None
            }
        })
    }

    #[test]
    fn a_run_counts_from_its_last_record_on_and_for_its_caller_alone() {
        let is = |name: &str| Some(name.to_owned());
        for (records, expected) in [
            (vec![], None),
            (vec![(5, STARTED)], is("unknown")),
            (vec![(5, STARTED), (4, ENDED)], is("exited")),
            (vec![(599, STARTED), (590, ENDED)], is("exited")),
            (vec![(601, STARTED), (600, ENDED)], None),
            // A long run that ended a moment ago.
            (vec![(2000, STARTED), (4, ENDED)], is("exited")),
            (vec![(500, STARTED), (4, INTERRUPTED)], is("interrupted")),
            (vec![(5000, STARTED)], is("unknown")),
        ] {
            assert_eq!(outcome(&records), expected, "{records:?}");
        }
        let ran = journal(&[(5, STARTED), (4, ENDED)]);
        let refusal = found(&ran, 7, "5a").unwrap();
        for fact in [
            Fact::ExitCode(3),
            Fact::Released,
            Fact::RunId("a".to_owned()),
            Fact::Sequence(1),
        ] {
            assert!(refusal.facts.contains(&fact), "{refusal:?}");
        }
        assert_eq!(found(&ran, 8, "5a"), None);
        let other = found(&ran, 7, "5b").unwrap();
        assert_eq!(other.reason, Reason::RequestIdConflict);
    }

    #[test]
    fn what_was_refused_counts_only_where_it_was_let_go() {
        let refused = r#""record":"refused","run_id":"a","request_id":"id","reason":"CANCELED""#;
        assert_eq!(outcome(&[(5, STARTED), (4, refused)]), None);
        assert_eq!(outcome(&[(4, refused)]), None);
        let released = format!(r#"{refused},"released":true"#);
        let ended = outcome(&[(5, STARTED), (4, &released)]);
        assert_eq!(ended.as_deref(), Some("refused"));
        // And again, in vain and then not.
        let next = STARTED.replace(r#""a""#, r#""b""#);
        let ended = outcome(&[(5, STARTED), (4, refused), (3, &next)]);
        assert_eq!(ended.as_deref(), Some("unknown"));
    }

    #[test]
    fn of_several_hooks_under_one_id_the_one_without_an_end_is_told() {
        let next = STARTED.replace(r#""a""#, r#""b""#);
        let records = [(9, STARTED), (9, next.as_str()), (8, ENDED)];
        let refusal = found(&journal(&records), 7, "5a").unwrap();
        assert!(refusal.facts.contains(&Fact::RunId("b".to_owned())));
        assert!(refusal.message.contains("2 hooks"), "{}", refusal.message);
    }

    #[test]
    fn runs_of_ones_own_and_of_requests_without_an_id_are_none_of_these() {
        let dir = journal(&[(5, STARTED)]);
        let runs = Runs::read(dir.path(), "other", MAX_SCANNED_BYTES).unwrap();
        assert!(runs.by_id.is_empty() && runs.until.is_none());
        let unnamed = STARTED.replace(r#","request_sha256":"5a""#, "");
        assert_eq!(outcome(&[(5, &unnamed)]), None);
    }

    #[test]
    fn no_more_is_read_than_may_count() {
        let filler = format!(r#""record":"torn","bytes":1,"text":"{}""#, "x".repeat(4000));
        let old: Vec<(u64, &str)> = (0..2000).map(|_| (9000, filler.as_str())).collect();
        let young: Vec<(u64, &str)> = (0..2000).map(|_| (5, filler.as_str())).collect();
        let dir = tempfile::tempdir().unwrap();
        let older = |first: usize| dir.path().join(format!("journal.{first:020}.jsonl"));
        // A line that is no record would be an error if it were read.
        let longer_than_any = "x".repeat(9 << 20);
        fs::write(older(1), format!("{}{longer_than_any}", lines(1, &old))).unwrap();
        fs::write(older(2001), lines(2001, &old)).unwrap();
        let text = lines(4001, &[(8, STARTED)]) + &lines(4002, &young);
        fs::write(dir.path().join("journal.jsonl"), &text).unwrap();

        let has = |bytes: u64| {
            let runs = Runs::read(dir.path(), "own", bytes).unwrap();
            !runs.by_id.is_empty()
        };
        assert!(has(MAX_SCANNED_BYTES));
        assert!(!has(4 << 20));
        fs::rename(dir.path().join("journal.jsonl"), older(4001)).unwrap();
        fs::write(dir.path().join("journal.jsonl"), lines(6002, &young[..3])).unwrap();
        assert!(has(MAX_SCANNED_BYTES));
        // The control: a journal that is read.
        fs::remove_file(older(2001)).unwrap();
        fs::write(older(1), longer_than_any).unwrap();
        Runs::read(dir.path(), "own", MAX_SCANNED_BYTES).unwrap_err();
    }

    #[test]
    fn an_id_that_was_made_since_cannot_have_been_run_before() {
        let earlier = Uuid::now_v7();
        std::thread::sleep(Duration::from_millis(5));
        let known = Earlier::new(Path::new("/nonexistent"), "own");
        std::thread::sleep(Duration::from_millis(5));
        assert!(known.is_younger(&Uuid::now_v7().to_string()));
        assert!(!known.is_younger(&earlier.to_string()));
        for id in [
            "",
            "id",
            "7b1c2f0e-29a5-4a3e-8d5c-0d6f6d1c9e11",
            "ffffffff-ffff-7fff-8fff-ffffffffffff",
        ] {
            assert!(!known.is_younger(id), "{id}");
        }
    }
}
