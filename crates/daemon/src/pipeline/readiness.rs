//! Whether hooks can run: the last attempt at each step that every run needs, made again where that attempt is old.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::{sync::watch, task::spawn_blocking, time::timeout};

use hookjail_base::refusal::Stop;

use super::Pipeline;

/// The age up to which the last attempt counts.
const RECENT: Duration = Duration::from_secs(5);

/// The time after which an attempt counts as failed, as on a disk that does not answer.
const STALLED: Duration = Duration::from_secs(5);

/// The time that a question about readiness waits for an attempt.
const TRY_TIMEOUT: Duration = Duration::from_secs(1);

/// The directories of runs, as the last attempt to create one found them.
#[derive(Clone, Debug)]
pub(crate) struct Directories(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    attempt: Mutex<Attempt>,
    /// The last attempt to confirm any profile.
    confirmation: Mutex<Attempt>,
    problem: watch::Sender<Option<String>>,
}

/// The last attempt.
#[derive(Clone, Copy, Debug)]
enum Attempt {
    /// A run failed since.
    Doubtful,
    /// One ended at this time.
    Ended(Instant),
    /// One has been in work since this time.
    Working(Instant),
}

/// The act that a question about an attempt requires.
#[derive(Debug, Eq, PartialEq)]
enum Act {
    /// The attempt hangs.
    GiveUp,
    /// The attempt says how the directories are.
    Rely,
    /// Another attempt is due.
    Try,
}

impl Attempt {
    fn act(self, now: Instant, is_failing: bool) -> Act {
        let age = |since| now.saturating_duration_since(since);
        match self {
            Self::Doubtful => Act::Try,
            Self::Ended(since) if is_failing || age(since) >= RECENT => Act::Try,
            Self::Working(since) if age(since) >= STALLED => Act::GiveUp,
            Self::Ended(_) | Self::Working(_) => Act::Rely,
        }
    }
}

impl Default for Directories {
    fn default() -> Self {
        Self(Arc::new(Shared {
            attempt: Mutex::new(Attempt::Ended(Instant::now())),
            confirmation: Mutex::new(Attempt::Ended(Instant::now())),
            problem: watch::Sender::new(None),
        }))
    }
}

impl Directories {
    /// Returns the problem of the directories, as a value to watch.
    pub(crate) fn problem(&self) -> watch::Receiver<Option<String>> {
        self.0.problem.subscribe()
    }

    fn attempt(&self) -> MutexGuard<'_, Attempt> {
        locked(&self.0.attempt)
    }

    /// Makes the next look try again: a run has failed.
    fn doubt(&self) {
        let mut attempt = self.attempt();
        if matches!(*attempt, Attempt::Ended(_)) {
            *attempt = Attempt::Doubtful;
        }
    }

    fn is_doubtful(&self) -> bool {
        matches!(*self.attempt(), Attempt::Doubtful) || self.0.problem.borrow().is_some()
    }

    /// Tries again where the last attempt is old, failed, or is in doubt.
    async fn refresh(&self, attempt: impl FnOnce() -> io::Result<()> + Send + 'static) {
        let now = Instant::now();
        let act = {
            let is_failing = self.0.problem.borrow().is_some();
            let mut last = self.attempt();
            let act = last.act(now, is_failing);
            if act == Act::Try {
                *last = Attempt::Working(now);
            }
            act
        };
        match act {
            Act::Rely => {}
            Act::GiveUp => self.publish(Some("their disk does not answer".to_owned())),
            Act::Try => {
                let directories = self.clone();
                let tried = spawn_blocking(move || {
                    let found = attempt().err().map(|error| error.to_string());
                    *directories.attempt() = Attempt::Ended(Instant::now());
                    directories.publish(found);
                });
                timeout(TRY_TIMEOUT, tried).await.ok();
            }
        }
    }

    fn publish(&self, found: Option<String>) {
        let found = found.map(|why| {
            format!(
                "directories of runs cannot be made; look at the disk of `paths.runtime`: {why}"
            )
        });
        self.0.problem.send_if_modified(|problem| {
            let changes = problem.is_some() != found.is_some();
            match &found {
                Some(why) if changes => tracing::error!("{why}"),
                None if changes => tracing::info!("directories of runs can be made again"),
                Some(_) | None => {}
            }
            *problem = found;
            changes
        });
    }
}

fn locked(attempt: &Mutex<Attempt>) -> MutexGuard<'_, Attempt> {
    attempt.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pipeline {
    /// Returns the reason for which no hook can run, as the last attempts found.
    pub(crate) fn problem(&self) -> Option<String> {
        let journal = self.audit.problem().borrow();
        let journal = journal.as_ref().map(|problem| problem.why.clone());
        journal.or_else(|| self.directories.0.problem.borrow().clone())
    }

    /// Returns whether hooks of any profile can run.
    pub(crate) fn serves_any(&self) -> bool {
        let rules = self.gate.rules();
        let mut profiles = rules.registry.iter();
        self.problem().is_none()
            && (self.sandbox.has_unconfined()
                || profiles.any(|policy| self.sandbox.is_confirmed(policy)))
    }

    /// Returns the reason for which no hook can run, after new attempts where the last ones are old.
    ///
    /// Where no profile is confirmed, some are tested: no run may come that would do so.
    pub(crate) async fn current_problem(self: &Arc<Self>) -> Option<String> {
        self.audit.writer.refresh().await;
        self.directories
            .refresh(self.sandbox.directory_attempt())
            .await;
        let problem = self.problem();
        if problem.is_none() && !self.serves_any() {
            timeout(TRY_TIMEOUT, self.confirm_any()).await.ok();
        }
        problem
    }

    /// Tests profiles until one is confirmed. Goes on where the returned future is dropped.
    async fn confirm_any(self: &Arc<Self>) {
        {
            let now = Instant::now();
            let mut last = locked(&self.directories.0.confirmation);
            if last.act(now, false) != Act::Try {
                return;
            }
            *last = Attempt::Working(now);
        }
        let pipeline = Arc::clone(self);
        let confirmed = tokio::spawn(async move {
            let rules = pipeline.gate.rules();
            for policy in rules.registry.iter() {
                let selected = pipeline.sandbox.select(policy, &policy.digest).await;
                if selected.is_ok() {
                    break;
                }
            }
            *locked(&pipeline.directories.0.confirmation) = Attempt::Ended(Instant::now());
        });
        confirmed.await.ok();
    }

    /// Looks for steps that hang, and tries those that failed. To be called every few seconds.
    pub(crate) async fn look(&self) {
        self.audit.writer.look();
        if self.directories.is_doubtful() {
            self.directories
                .refresh(self.sandbox.directory_attempt())
                .await;
        }
    }

    /// Doubts the directories of runs after a run that failed otherwise than by a decision.
    pub(super) fn doubt(&self, stop: &Stop) {
        if matches!(stop, Stop::Fault(_)) || stop.lacks_something() {
            self.directories.doubt();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied() -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    #[test]
    fn an_attempt_counts_until_it_is_old_fails_or_is_doubted() {
        let now = Instant::now();
        let later = now + RECENT;
        let soon = now + Duration::from_secs(1);
        for (attempt, at_time, is_failing, act) in [
            (Attempt::Ended(now), soon, false, Act::Rely),
            (Attempt::Ended(now), later, false, Act::Try),
            (Attempt::Ended(now), soon, true, Act::Try),
            (Attempt::Doubtful, soon, false, Act::Try),
            (Attempt::Working(now), soon, true, Act::Rely),
            (Attempt::Working(now), now + STALLED, false, Act::GiveUp),
        ] {
            assert_eq!(attempt.act(at_time, is_failing), act, "{attempt:?}");
        }
    }

    #[tokio::test]
    async fn a_doubt_is_followed_by_attempts_until_one_succeeds() {
        let directories = Directories::default();
        let problem = directories.problem();
        directories.refresh(denied).await;
        assert!(problem.borrow().is_none(), "the first attempt is recent");

        directories.doubt();
        directories.refresh(denied).await;
        let why = problem.borrow().clone().unwrap();
        assert!(why.contains("`paths.runtime`: read-only"), "{why}");
        assert!(directories.is_doubtful());

        directories.refresh(|| Ok(())).await;
        assert!(problem.borrow().is_none() && !directories.is_doubtful());
    }

    #[tokio::test]
    async fn an_attempt_that_hangs_is_a_problem_until_it_returns() {
        let directories = Directories::default();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        directories.doubt();
        directories
            .refresh(move || {
                wait.recv().ok();
                Ok(())
            })
            .await;
        *directories.attempt() = Attempt::Working(Instant::now() - STALLED);
        directories.refresh(|| Ok(())).await;
        assert!(directories.0.problem.borrow().is_some());

        let mut problem = directories.problem();
        drop(go);
        problem.wait_for(Option::is_none).await.unwrap();
    }
}
