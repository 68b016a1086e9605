//! Whether hooks can run: the last attempt at each step that every run needs, made again where that attempt is old.

use std::{io, sync::Arc, time::Instant};

use tokio::{sync::watch, task::spawn_blocking, time::timeout};

use hookjail_base::{
    refusal::Stop,
    util::attempt::{Attempt, LastAttempt, TRY_TIMEOUT},
};

use super::Pipeline;

/// The directories of runs, as the last attempt to create one found them.
#[derive(Clone, Debug)]
pub(crate) struct Directories(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    attempt: Arc<LastAttempt>,
    /// The last attempt to confirm any profile.
    confirmation: Arc<LastAttempt>,
    problem: watch::Sender<Option<String>>,
}

impl Default for Directories {
    fn default() -> Self {
        Self(Arc::new(Shared {
            attempt: Arc::default(),
            confirmation: Arc::default(),
            problem: watch::Sender::new(None),
        }))
    }
}

impl Directories {
    /// Returns the problem of the directories, as a value to watch.
    pub(crate) fn problem(&self) -> watch::Receiver<Option<String>> {
        self.0.problem.subscribe()
    }

    /// Makes the next look try again: a run has failed.
    fn doubt(&self) {
        self.0.attempt.doubt();
    }

    fn is_failing(&self) -> bool {
        self.0.problem.borrow().is_some()
    }

    fn is_doubtful(&self) -> bool {
        self.0.attempt.get() == Attempt::Doubtful || self.is_failing()
    }

    /// Tries again where the last attempt is old, failed, or is in doubt.
    async fn refresh(
        &self,
        now: Instant,
        attempt: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) {
        let last = &self.0.attempt;
        let is_due = |last: Attempt| last.is_due(now) || self.is_failing();
        if let Some(work) = last.begin_where(is_due) {
            let directories = self.clone();
            let tried = spawn_blocking(move || {
                let found = attempt().err().map(|error| error.to_string());
                drop(work);
                directories.publish(found);
            });
            timeout(TRY_TIMEOUT, tried).await.ok();
        } else if last.get().hangs(now) {
            self.publish(Some("their disk does not answer".to_owned()));
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
            .refresh(Instant::now(), self.sandbox.directory_attempt())
            .await;
        let problem = self.problem();
        if problem.is_none() && !self.serves_any() {
            timeout(TRY_TIMEOUT, self.confirm_any()).await.ok();
        }
        problem
    }

    /// Tests profiles until one is confirmed. Goes on where the returned future is dropped.
    async fn confirm_any(self: &Arc<Self>) {
        let last = &self.directories.0.confirmation;
        let Some(work) = last.begin_where(|it| it.is_due(Instant::now())) else {
            return;
        };
        let pipeline = Arc::clone(self);
        let confirmed = tokio::spawn(async move {
            let rules = pipeline.gate.rules();
            for policy in rules.registry.iter() {
                let selected = pipeline.sandbox.select(policy, &policy.digest).await;
                if selected.is_ok() {
                    break;
                }
            }
            drop(work);
        });
        confirmed.await.ok();
    }

    /// Looks for steps that hang, and tries those that failed. To be called every few seconds.
    pub(crate) async fn look(&self) {
        self.audit.writer.look();
        if self.directories.is_doubtful() {
            self.directories
                .refresh(Instant::now(), self.sandbox.directory_attempt())
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
    use std::time::Duration;

    use super::*;

    fn denied() -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    #[tokio::test]
    async fn a_doubt_is_followed_by_attempts_until_one_succeeds() {
        let directories = Directories::default();
        let problem = directories.problem();
        directories.refresh(Instant::now(), denied).await;
        assert!(problem.borrow().is_none(), "the first attempt is recent");

        directories.doubt();
        directories.refresh(Instant::now(), denied).await;
        let why = problem.borrow().clone().unwrap();
        assert!(why.contains("`paths.runtime`: read-only"), "{why}");
        assert!(directories.is_doubtful());

        directories.refresh(Instant::now(), || Ok(())).await;
        assert!(problem.borrow().is_none() && !directories.is_doubtful());
    }

    #[tokio::test]
    async fn an_attempt_that_hangs_is_a_problem_until_it_returns() {
        let directories = Directories::default();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        directories.doubt();
        directories
            .refresh(Instant::now(), move || {
                wait.recv().ok();
                Ok(())
            })
            .await;
        let later = Instant::now() + Duration::from_secs(5);
        directories.refresh(later, || Ok(())).await;
        assert!(directories.0.problem.borrow().is_some());

        let mut problem = directories.problem();
        drop(go);
        problem.wait_for(Option::is_none).await.unwrap();
    }
}
