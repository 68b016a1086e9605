//! The runs in work, for an operator to see.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{Call, record::About};
use crate::{journal::Redaction, request::Request};

/// How much of a command is listed, bytes.
const LISTED_BYTES: usize = 1024;

/// How far a run has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RunStage {
    /// It waits for an operator's consent.
    Asking,
    /// It waits for a place.
    Queued,
    /// Its hook was released.
    Running,
    /// It has a place and is being started.
    Starting,
}

/// The runs in work, by id: ids begin with the time, so the oldest is the first.
#[derive(Debug, Default)]
pub(crate) struct Runs(Mutex<BTreeMap<String, Arc<RunInWork>>>);

/// A run in work.
#[derive(Debug)]
pub(crate) struct RunInWork {
    about: About,
    arrived: Instant,
    /// The profile of a request that names none.
    default_profile: &'static str,
    progress: Mutex<Progress>,
}

#[derive(Clone, Copy, Debug)]
struct Progress {
    stage: RunStage,
    until: Option<Instant>,
}

/// What an operator is shown of a run, without registered secrets.
#[derive(Debug)]
pub(crate) struct RunSummary {
    /// The request.
    pub about: About,
    /// The time since its arrival.
    pub age: Duration,
    /// The time until its deadline, or until its question expires.
    pub left: Option<Duration>,
    /// The profile.
    pub profile: String,
    /// How far it has come.
    pub stage: RunStage,
}

/// The place of a run in the list; the run leaves the list when this is dropped.
#[derive(Debug)]
pub(super) struct Listed<'a> {
    run: Arc<RunInWork>,
    runs: &'a Runs,
}

impl Runs {
    /// Lists the run of a call.
    pub(super) fn enter(&self, call: &mut Call, request: &Request) -> Listed<'_> {
        let run = Arc::new(RunInWork {
            about: About::request(call, request),
            arrived: call.arrived,
            default_profile: request.contract.defaults(&request.event.point).profile,
            progress: Mutex::new(Progress {
                stage: RunStage::Queued,
                until: None,
            }),
        });
        call.listed = Some(Arc::clone(&run));
        self.with(|runs| runs.insert(call.run_id.clone(), Arc::clone(&run)));
        Listed { run, runs: self }
    }

    /// Returns the runs in work, the oldest first.
    pub(crate) fn list(&self) -> Vec<Arc<RunInWork>> {
        self.with(|runs| runs.values().cloned().collect())
    }

    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<String, Arc<RunInWork>>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl RunInWork {
    /// Notes how far the run has come, and until when that may last.
    pub(super) fn reach(&self, stage: RunStage, until: Instant) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        *progress = Progress {
            stage,
            until: Some(until),
        };
    }

    /// Describes the run as it is now.
    pub(crate) fn summary(&self, redaction: &Redaction) -> RunSummary {
        let Progress { stage, until } =
            *self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let about = self.about.redacted(redaction, LISTED_BYTES);
        let profile = about.profile.clone();
        RunSummary {
            age: self.arrived.elapsed(),
            left: until.map(|until| until.saturating_duration_since(Instant::now())),
            profile: profile.unwrap_or_else(|| self.default_profile.to_owned()),
            stage,
            about,
        }
    }
}

impl Listed<'_> {
    /// Returns the description of the request.
    pub(super) fn about(&self) -> About {
        self.run.about.clone()
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        let id = &self.run.about.run_id;
        drop(self.runs.with(|runs| runs.remove(id)));
    }
}
