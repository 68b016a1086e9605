//! Confirms profiles side by side: before the daemon listens those of requests that name none, and the others beside its work.

use std::{
    collections::BTreeSet,
    mem,
    num::NonZero,
    sync::Arc,
    thread::available_parallelism,
    time::{Duration, Instant},
};

use tokio::{sync::Semaphore, task::JoinSet, time::sleep};

use hookjail_base::{model::ProfileName, refusal::Refusal};
use hookjail_contract::Mode;
use hookjail_policy::Policy;
use hookjail_sandbox::BackendStatus;

use crate::pipeline::Pipeline;

/// The most profiles that are tested at once. More would keep the runtime's threads from other work.
const MAX_AT_ONCE: usize = 2;

/// The pause before the tests beside the daemon's work, for the call that started the daemon.
const HEAD_START: Duration = Duration::from_millis(20);

/// The interval at which those tests look whether calls are in work.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// The time from which those tests wait for no call any more.
const PATIENCE: Duration = Duration::from_secs(1);

/// The survey of a daemon's profiles that goes on while it serves.
#[derive(Debug)]
pub(super) struct Survey {
    /// The profiles still to be tested, in this order.
    left: Vec<Arc<Policy>>,
    pipeline: Arc<Pipeline>,
    tested: usize,
    /// How many of the tested profiles no backend serves.
    unconfirmed: usize,
}

impl Survey {
    /// Has the profiles tested of requests that name none. Where no backend serves any of these, has all others tested, too. So the
    /// daemon listens with a profile that is served, or after a line of the log that there is none.
    ///
    /// The profiles in `named` are the first of the others.
    pub(super) async fn begin(pipeline: &Arc<Pipeline>, named: &BTreeSet<&str>) -> Self {
        let rules = pipeline.gate.rules();
        let all = || rules.registry.shared();
        pipeline
            .untested
            .begin(all().map(|policy| policy.name.clone()));
        let defaults = default_profiles();
        let is_default = |policy: &Arc<Policy>| defaults.contains(policy.name.as_str());
        let (first, mut left): (Vec<_>, Vec<_>) = all().cloned().partition(is_default);
        left.sort_by_key(|policy| !named.contains(policy.name.as_str()));
        let mut survey = Self {
            left,
            pipeline: Arc::clone(pipeline),
            tested: 0,
            unconfirmed: 0,
        };
        survey.test(&first).await;
        if survey.unconfirmed == survey.tested {
            let others = mem::take(&mut survey.left);
            survey.test(&others).await;
            if survey.unconfirmed == survey.tested {
                warn_of_none();
            }
        }
        survey
    }

    /// Has the other profiles tested, one after the other and after the calls that are in work: these would share the processors.
    pub(super) async fn finish(mut self) {
        let begun = Instant::now();
        for policy in mem::take(&mut self.left) {
            self.give_way(begun).await;
            // In this task, with which the test ends.
            let is_served = confirm(&self.pipeline, &policy).await;
            self.count(1, usize::from(!is_served));
        }
        self.pipeline.untested.end();
        let Self {
            tested,
            unconfirmed,
            ..
        } = self;
        let confirmed = tested.saturating_sub(unconfirmed);
        tracing::info!("self-tests are over: {confirmed} profiles confirmed of {tested}");
    }

    /// Waits until no call is in work, or until [`PATIENCE`] is over. A survey whose end is awaited goes on at once.
    async fn give_way(&self, begun: Instant) {
        let Pipeline { gate, untested, .. } = &*self.pipeline;
        let is_early = || begun.elapsed() < HEAD_START;
        let is_busy = || gate.running() + gate.queued() > 0 && begun.elapsed() < PATIENCE;
        while (is_early() || is_busy()) && !untested.is_awaited() {
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Has profiles tested side by side.
    async fn test(&mut self, policies: &[Arc<Policy>]) {
        let unconfirmed = confirm_all(&self.pipeline, policies).await;
        self.count(policies.len(), unconfirmed.len());
    }

    /// Adds to the profiles that were tested, which the metrics show.
    fn count(&mut self, tested: usize, unconfirmed: usize) {
        self.tested += tested;
        self.unconfirmed += unconfirmed;
        let metrics = &self.pipeline.metrics;
        metrics.surveyed(self.tested, self.unconfirmed);
    }
}

/// Returns the profiles of requests that name none.
fn default_profiles() -> BTreeSet<&'static str> {
    let modes = Mode::ALL.into_iter();
    modes.map(|mode| mode.defaults("").profile).collect()
}

/// Has profiles confirmed on each of their backends, as many at once as there are processors. Returns those that no backend serves.
pub(super) async fn confirm_all(
    pipeline: &Arc<Pipeline>,
    policies: impl IntoIterator<Item = &Arc<Policy>>,
) -> Vec<ProfileName> {
    let processors = available_parallelism().map_or(1, NonZero::get);
    let turns = Arc::new(Semaphore::new(processors.min(MAX_AT_ONCE)));
    let mut tests = JoinSet::new();
    for policy in policies {
        // Before the task is spawned, so that the tests begin in this order. The semaphore is never closed.
        let turn = Arc::clone(&turns).acquire_owned().await.ok();
        let (pipeline, policy) = (Arc::clone(pipeline), Arc::clone(policy));
        tests.spawn(async move {
            let is_served = confirm(&pipeline, &policy).await;
            drop(turn);
            (!is_served).then(|| policy.name.clone())
        });
    }
    let mut unconfirmed: Vec<_> = tests.join_all().await.into_iter().flatten().collect();
    unconfirmed.sort();
    unconfirmed
}

/// Has a profile confirmed on each of its backends, and logs what does not serve it. Returns whether a backend does.
async fn confirm(pipeline: &Pipeline, policy: &Policy) -> bool {
    // The workspace's own grants differ with each request; the means that enforce them do not.
    let statuses = pipeline.sandbox.survey(policy).await;
    pipeline.untested.tested(&policy.name);
    let chosen = statuses.iter().position(BackendStatus::serves);
    for (index, status) in statuses.iter().enumerate() {
        let BackendStatus::Skipped(passed_over) = status else {
            continue;
        };
        let (profile, backend) = (&policy.name, passed_over.backend);
        let Refusal {
            message, reason, ..
        } = &passed_over.refusal;
        if chosen.is_some_and(|chosen| chosen < index) {
            tracing::info!(%profile, %backend, %reason, "a backend that is not needed would not do: {message}");
        } else {
            tracing::warn!(%profile, %backend, %reason, "{message}");
        }
    }
    if let Some(status) = chosen.map(|chosen| &statuses[chosen])
        && !status.confines()
    {
        let backend = status.backend();
        tracing::warn!(profile = %policy.name, %backend, "hooks under this profile run UNCONFINED");
    }
    chosen.is_some()
}

/// Logs that no profile of this daemon is served.
pub(super) fn warn_of_none() {
    tracing::error!("no profile is confirmed on this host: every request is refused");
}
