//! The runs in work, for an operator to see and to kill.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use hookjail_base::{
    model::Peer,
    refusal::{Reason, Refusal, Stop},
};
use hookjail_journal::{Redaction, query::RequestEnd};

use super::{
    Call,
    record::{About, Answer, Recorded},
};
use crate::request::Request;

/// How much of a command is listed, bytes.
const LISTED_BYTES: usize = 1024;

/// How far a run has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RunStage {
    /// The run waits for an operator's consent.
    Asking,
    /// The run waits for a place.
    Queued,
    /// Its hook was released.
    Running,
    /// The run has a place and is being started.
    Starting,
}

/// The runs in work.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// Notified of each run that leaves the list.
    left: Notify,
    /// By id: ids begin with the time, so the oldest is the first.
    listed: Mutex<BTreeMap<String, Arc<RunInWork>>>,
}

/// A run in work.
#[derive(Debug)]
pub(crate) struct RunInWork {
    about: About,
    arrived: Instant,
    cancel: CancellationToken,
    /// The profile of a request that names none.
    default_profile: &'static str,
    /// How it ended, once that is recorded.
    end: OnceLock<RequestEnd>,
    /// The operator who killed it.
    killed_by: OnceLock<Peer>,
    progress: Mutex<Progress>,
}

#[derive(Clone, Copy, Debug)]
struct Progress {
    stage: RunStage,
    until: Option<Instant>,
}

/// Description of a run for an operator, without registered secrets.
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

/// No one run in work has the requested id.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum NotFound {
    /// None has it.
    Nowhere,
    /// These have, as it is no whole id.
    Several(Vec<String>),
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
            cancel: call.cancel.clone(),
            default_profile: request.contract.defaults(&request.event.point).profile,
            end: OnceLock::new(),
            killed_by: OnceLock::new(),
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

    /// Returns the one run in work whose id begins so.
    ///
    /// # Errors
    ///
    /// Fails where none does, or several do.
    pub(crate) fn find(&self, beginning: &str) -> Result<Arc<RunInWork>, NotFound> {
        self.with(|runs| {
            let from = runs.range(beginning.to_owned()..);
            let mut found = from.take_while(|(id, _)| id.starts_with(beginning));
            match (found.next(), found.next()) {
                (None, _) => Err(NotFound::Nowhere),
                (Some((_, run)), None) => Ok(Arc::clone(run)),
                (Some((first, _)), Some((second, _))) => {
                    let others = found.map(|(id, _)| id);
                    let all = [first, second].into_iter().chain(others);
                    Err(NotFound::Several(all.cloned().collect()))
                }
            }
        })
    }

    /// Waits until a run has left the list.
    pub(crate) async fn left(&self, run: &RunInWork) {
        loop {
            // Before the look: a run that leaves in between is not missed.
            let left = self.left.notified();
            if !self.with(|runs| runs.contains_key(&run.about.run_id)) {
                return;
            }
            left.await;
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<String, Arc<RunInWork>>) -> T) -> T {
        act(&mut self.listed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl RunInWork {
    /// Ends the run at once, as if its caller had disconnected, but with the operator in its reply and record.
    pub(crate) fn kill(&self, operator: Peer) {
        // One that is ending for another reason keeps that, and of two operators the first counts.
        if !self.cancel.is_cancelled() {
            self.killed_by.set(operator).ok();
        }
        self.cancel.cancel();
    }

    /// Returns the operator who killed the run, if one did.
    pub(super) fn killed_by(&self) -> Option<Peer> {
        self.killed_by.get().cloned()
    }

    /// Returns how the run ended, once that is recorded.
    pub(crate) fn end(&self) -> Option<RequestEnd> {
        self.end.get().copied()
    }

    /// Notes how far the run has come, and until when that may last.
    pub(super) fn reach(&self, stage: RunStage, until: Instant) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        *progress = Progress {
            stage,
            until: Some(until),
        };
    }

    /// Returns until when its stage may last.
    fn until(&self) -> Option<Instant> {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.until
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
    /// Returns the description of a request that has no outcome, and why.
    ///
    /// The reason is an operator's kill, if there was one, independent of the stage and of its own reason.
    pub(super) fn stopped(&self, stop: Stop) -> (About, Stop) {
        let mut about = self.run.about.clone();
        let until = self.run.until();
        about.until = about.until.into_iter().chain(until).min();
        let killed_by = self.run.killed_by();
        let stop = match stop {
            Stop::Refusal(refusal) if killed_by.is_some() && !refusal.is_released() => {
                about.killed_by = killed_by;
                let message = "an operator killed this run before its hook was started";
                Refusal::new(Reason::Killed, message).into()
            }
            stop @ (Stop::Fault(_) | Stop::Refusal(_)) => stop,
        };
        (about, stop)
    }

    /// Notes how the run ended.
    pub(super) fn end(&self, recorded: &Recorded) {
        let end = match recorded.answer() {
            Answer::Outcome { interpreted, .. } => RequestEnd::Outcome(interpreted.outcome),
            Answer::Fault | Answer::Refusal(_) => RequestEnd::Refused,
        };
        self.run.end.set(end).ok();
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        let id = &self.run.about.run_id;
        drop(self.runs.with(|runs| runs.remove(id)));
        self.runs.left.notify_waiters();
    }
}
