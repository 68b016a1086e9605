//! `hookjail policy check`: compares a candidate with recorded runs.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use hookjail_base::model::plain;
use hookjail_client::{Failure, output, times::past};
use hookjail_daemon::config::{COMPARED, Candidate};
use hookjail_journal::{
    read::JournalReader,
    record::{Ended, Line, Record, Started},
};

use super::super::{Context, success};

/// The part of the journal that is read without --since.
const WEEK: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Name recorded runs that a candidate for the administrator's files would have refused; exits with 1 where there are any.
///
/// Compares profile, backend, caller, consent, size of the event and hosts that were connected to.
/// Does not compare rates, numbers at once, posts, private runs, required hooks, and the content of profiles.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// A file like managed.toml, or a directory with managed.toml and managed.d
    candidate: PathBuf,
    /// Runs since then: 7d, yesterday, 2026-11-26 or 2026-11-26T12:00Z [default: 7d]
    #[arg(long, value_name = "TIME", value_parser = past)]
    since: Option<Timestamp>,
}

/// The comparison of recorded runs.
#[derive(Debug, Default, Eq, PartialEq)]
struct Comparison {
    /// The number of runs that each key would have refused.
    keys: BTreeMap<String, usize>,
    /// The ids of the runs that would have been refused.
    refused: Vec<String>,
    runs: usize,
}

impl Comparison {
    fn add(&mut self, candidate: &Candidate, started: &Started, ended: Option<&Ended>) {
        self.runs += 1;
        let refusals = candidate.refusals(started, ended);
        if !refusals.is_empty() {
            self.refused.push(started.run_id.clone());
        }
        for key in refusals {
            *self.keys.entry(key).or_default() += 1;
        }
    }

    /// Returns the keys, those of most runs first.
    fn by_count(&self) -> Vec<(&str, usize)> {
        let mut keys: Vec<_> = self
            .keys
            .iter()
            .map(|(key, count)| (key.as_str(), *count))
            .collect();
        keys.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        keys
    }
}

impl CheckArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let candidate = Candidate::load(&self.candidate, None, context.environment())?;
        let since = match self.since {
            Some(since) => since,
            None => Timestamp::now().checked_sub(WEEK)?,
        };
        let journal = context.load()?.journal();
        let comparison = compare(&candidate, &journal, since).map_err(|error| {
            Failure::new(format!(
                "cannot read the journal `{}`: {error}",
                journal.display()
            ))
        })?;
        if context.call.json {
            let keys: Vec<_> = comparison
                .by_count()
                .into_iter()
                .map(|(key, runs)| json!({ "key": key, "runs": runs }))
                .collect();
            output::json_line(&json!({
                "compared": COMPARED,
                "keys": keys,
                "refused": comparison.refused,
                "runs": comparison.runs,
                "since": since.to_string(),
                "version": candidate.version(),
            }));
        } else {
            output::line(&match comparison.refused.len() {
                0 => format!(
                    "none of {} recorded runs would have been refused",
                    comparison.runs
                ),
                refused => format!(
                    "{refused} of {} recorded runs would have been refused:",
                    comparison.runs
                ),
            });
            for (key, runs) in comparison.by_count() {
                output::line(&format!("{runs:6}  {}", plain(key)));
            }
            output::line(&format!("compared keys: {}", COMPARED.join(", ")));
        }
        Ok(success(comparison.refused.is_empty()))
    }
}

/// Compares the runs of a journal that started since a time.
fn compare(candidate: &Candidate, journal: &Path, since: Timestamp) -> io::Result<Comparison> {
    let mut reader = JournalReader::open(journal);
    let mut open: HashMap<String, Box<Started>> = HashMap::new();
    let mut comparison = Comparison::default();
    while let Some(line) = reader.next_line()? {
        // Lines that are no records are for `hookjail audit verify`.
        let Ok(Line { record, time, .. }) = serde_json::from_slice::<Line>(line) else {
            continue;
        };
        let is_recent = time.parse::<Timestamp>().is_ok_and(|time| time >= since);
        match record {
            Record::Started(started) if is_recent => {
                open.insert(started.run_id.clone(), started);
            }
            Record::Ended(ended) => {
                if let Some(started) = open.remove(&ended.run_id) {
                    comparison.add(candidate, &started, Some(&ended));
                }
            }
            Record::Interrupted(_)
            | Record::Lost(_)
            | Record::Rebooted(_)
            | Record::Refused(_)
            | Record::Started(_)
            | Record::Torn(_) => {}
        }
    }
    for started in open.values() {
        comparison.add(candidate, started, None);
    }
    Ok(comparison)
}
