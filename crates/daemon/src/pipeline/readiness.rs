//! Whether hooks can run: the last attempt at each step that every run needs, made again where that attempt is old.

use std::{io, sync::Arc, time::Instant};

use tokio::{sync::watch, task::spawn_blocking, time::timeout};

use hookjail_base::{
    refusal::Stop,
    util::attempt::{Attempt, LastAttempt, TRY_TIMEOUT},
};

use super::Pipeline;

/// The steps of every start beside its record, as the last attempt found them: a directory, and a process that is confined.
#[derive(Clone, Debug)]
pub(crate) struct Starts(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    attempt: Arc<LastAttempt>,
    /// The last attempt to confirm any profile.
    confirmation: Arc<LastAttempt>,
    problem: watch::Sender<Option<String>>,
}

impl Default for Starts {
    fn default() -> Self {
        Self(Arc::new(Shared {
            attempt: Arc::default(),
            confirmation: Arc::default(),
            problem: watch::Sender::new(None),
        }))
    }
}

impl Starts {
    /// Returns the problem of these steps, as a value to watch.
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

    /// Counts a run as an attempt that succeeded, unless another has failed since the last one.
    fn succeeded(&self) {
        self.0.attempt.renew();
    }

    /// Tries again where the last attempt is old, failed, or is in doubt.
    async fn refresh(
        &self,
        now: Instant,
        attempt: impl Future<Output = Result<(), String>> + Send + 'static,
    ) {
        let last = &self.0.attempt;
        let is_due = |last: Attempt| last.is_due(now) || self.is_failing();
        if let Some(work) = last.begin_where(is_due) {
            let starts = self.clone();
            let tried = tokio::spawn(async move {
                let found = attempt.await.err();
                drop(work);
                starts.publish(found);
            });
            timeout(TRY_TIMEOUT, tried).await.ok();
        } else if last.get().hangs(now) {
            let why = "an attempt does not end; check the disk of `paths.runtime`";
            self.publish(Some(why.to_owned()));
        }
    }

    fn publish(&self, found: Option<String>) {
        let found = found.map(|why| format!("hooks cannot be started: {why}"));
        self.0.problem.send_if_modified(|problem| {
            let changes = problem.is_some() != found.is_some();
            match &found {
                Some(why) if changes => tracing::error!("{why}"),
                None if changes => tracing::info!("hooks can be started again"),
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
        journal.or_else(|| self.starts.0.problem.borrow().clone())
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
        self.try_start().await;
        let problem = self.problem();
        if problem.is_none() && !self.serves_any() {
            timeout(TRY_TIMEOUT, self.confirm_any()).await.ok();
        }
        problem
    }

    /// Tries to create the directory of a run, and to start a confined process, where the last attempt is old, failed or is in doubt.
    async fn try_start(self: &Arc<Self>) {
        let pipeline = Arc::clone(self);
        let directory = self.sandbox.directory_attempt();
        let attempt = async move {
            let made = spawn_blocking(directory).await.map_err(io::Error::from);
            made.flatten().map_err(|error| {
                format!(
                    "directories of runs cannot be made; check the disk of `paths.runtime`: {error}"
                )
            })?;
            pipeline.start_any().await
        };
        self.starts.refresh(Instant::now(), attempt).await;
    }

    /// Starts a process under one confirmed profile after the other until one does. Returns why the first did not.
    async fn start_any(&self) -> Result<(), String> {
        let rules = self.gate.rules();
        let mut found = Ok(());
        for policy in rules.registry.iter() {
            if self.sandbox.is_confirmed(policy) {
                let started = self.sandbox.start_attempt(policy).await;
                if started.is_ok() {
                    return started;
                }
                found = found.and(started);
            }
        }
        found
    }

    /// Tests profiles until one is confirmed. Goes on where the returned future is dropped.
    async fn confirm_any(self: &Arc<Self>) {
        let last = &self.starts.0.confirmation;
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
    pub(crate) async fn look(self: &Arc<Self>) {
        self.audit.writer.look();
        if self.starts.is_doubtful() {
            self.try_start().await;
        }
    }

    /// Notes a run that reached its end.
    pub(super) fn started(&self) {
        self.starts.succeeded();
    }

    /// Doubts the steps of a start after a run that failed otherwise than by a decision.
    pub(super) fn doubt(&self, stop: &Stop) {
        if matches!(stop, Stop::Fault(_)) || stop.lacks_something() {
            self.starts.doubt();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    async fn denied() -> Result<(), String> {
        Err("read-only".to_owned())
    }

    #[tokio::test]
    async fn a_doubt_is_followed_by_attempts_until_one_succeeds() {
        let starts = Starts::default();
        let problem = starts.problem();
        starts.refresh(Instant::now(), denied()).await;
        assert!(problem.borrow().is_none(), "the first attempt is recent");

        starts.doubt();
        starts.refresh(Instant::now(), denied()).await;
        let why = problem.borrow().clone().unwrap();
        assert_eq!(why, "hooks cannot be started: read-only");
        assert!(starts.is_doubtful());

        starts.refresh(Instant::now(), async { Ok(()) }).await;
        assert!(problem.borrow().is_none() && !starts.is_doubtful());
    }

    #[tokio::test]
    async fn an_attempt_that_hangs_is_a_problem_until_it_returns() {
        let starts = Starts::default();
        let (go, wait) = oneshot::channel::<()>();
        starts.doubt();
        let attempt = async move {
            wait.await.ok();
            Ok(())
        };
        starts.refresh(Instant::now(), attempt).await;
        let later = Instant::now() + Duration::from_secs(5);
        starts.refresh(later, async { Ok(()) }).await;
        assert!(starts.0.problem.borrow().is_some());

        let mut problem = starts.problem();
        drop(go);
        problem.wait_for(Option::is_none).await.unwrap();
    }
}
