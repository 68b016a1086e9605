//! Limits of a self-test: each is tried within and beyond.

use hookjail_base::{
    model::axis::{Axes, Axis, Coverage},
    refusal::Stop,
};
#[cfg(target_os = "linux")]
use hookjail_policy::ScratchLimits;
use hookjail_policy::{Limits, Policy, Spawn};
use hookjail_sys::Attempt;

use super::{AxisProof, ProbeResult, add, axis_of, probes::seen};
use crate::{Backend, Confinement, Noop, host::Lease, run::Probed};

/// The size of the file with which scratch is filled, bytes.
#[cfg(target_os = "linux")]
const FILL: u64 = 256 * 1024;

/// The limit under which memory is used, bytes: enough for a container, and smaller than most profiles', so that the attempt
/// without it takes little of the host's.
const MEMORY: usize = 32 * 1024 * 1024;

/// The observations of attempts that a limit ends, or does not.
const FAILED: &str = "failed";
const KILLED: &str = "killed";
const SUCCEEDED: &str = "succeeded";

/// Parameters of a limit's attempts.
#[derive(Clone, Copy)]
pub(super) struct LimitTrial<'a> {
    pub(super) backend: &'a dyn Backend,
    pub(super) lease: Option<&'a Lease>,
    pub(super) policy: &'a Policy,
}

impl LimitTrial<'_> {
    /// Returns the policy with other limits.
    fn limited(&self, change: impl FnOnce(&mut Limits)) -> Policy {
        let mut policy = self.policy.clone();
        change(&mut policy.limits);
        policy
    }
}

/// Returns the result of an attempt that must be observed like this.
fn expect(attempt: &'static str, observed: &str, expected: &str) -> ProbeResult {
    ProbeResult::new(attempt, observed == expected, observed.to_owned())
}

/// Returns the result of an attempt that must have this result.
fn expect_value(attempt: &'static str, value: Option<isize>, expected: isize) -> ProbeResult {
    ProbeResult::new(attempt, value == Some(expected), seen(value))
}

impl Confinement {
    /// Tries the limits that a backend claims to enforce, and adds the legs of each.
    pub(super) async fn try_limits(
        &self,
        trial: LimitTrial<'_>,
        axes: &Axes<Coverage>,
        proofs: &mut [AxisProof],
    ) -> Result<(), Stop> {
        let is_enforced = |coverage: &Coverage| matches!(coverage, Coverage::Enforced { .. });
        if is_enforced(&axes.pids) {
            let [within, beyond] = self.try_tasks(trial).await?;
            add(proofs, Axis::Pids, [within], Some(beyond));
        }
        if is_enforced(&axes.memory) {
            let [within, unlimited, beyond] = self.try_memory(trial).await?;
            add(proofs, Axis::Memory, [within, unlimited], Some(beyond));
        }
        if is_enforced(&axes.cpu) {
            let [within, beyond] = self.try_processor(trial).await?;
            add(proofs, Axis::Cpu, [within], Some(beyond));
        }
        #[cfg(target_os = "linux")]
        if trial.policy.limits.scratch.is_some() {
            for [within, beyond] in self.try_scratch(trial).await? {
                add(proofs, Axis::Write, [within], Some(beyond));
            }
        }
        Ok(())
    }

    /// Makes attempts on a site of their own, under a policy.
    async fn attempt(
        &self,
        LimitTrial { backend, lease, .. }: LimitTrial<'_>,
        policy: &Policy,
        attempt: Attempt,
    ) -> Result<Probed, Stop> {
        let site = self.site(policy, lease)?;
        self.probe_on(&site, backend, policy, vec![attempt]).await
    }

    /// Starts a task within the limit on tasks, and one beyond it. Filters would refuse it for another reason; a limit of the
    /// runner's is the same without them, and holds only where no other process has the child's uid.
    async fn try_tasks(&self, trial: LimitTrial<'_>) -> Result<[ProbeResult; 2], Stop> {
        let backend = match trial.backend.counts_tasks() {
            true => trial.backend,
            false => &Noop,
        };
        let trial = LimitTrial { backend, ..trial };
        let start = async |tasks| {
            let limited = Policy {
                spawn: Spawn::Processes,
                ..trial.limited(|limits| limits.tasks = tasks)
            };
            let probed = self.attempt(trial, &limited, Attempt::fork()).await?;
            Ok::<_, Stop>(probed.results.first().copied().flatten())
        };
        // The child itself is the first. Within is what the profile allows: others may have run under the uid a moment ago.
        let allowed = trial.policy.limits.tasks.max(2);
        let (within, beyond) = (start(allowed).await?, start(1).await?);
        let started = within.is_some_and(|pid| pid > 0);
        Ok([
            ProbeResult::new("start a task within the limit", started, seen(within)),
            expect_value(
                "start a task beyond the limit",
                beyond,
                -(libc::EAGAIN as isize),
            ),
        ])
    }

    /// Uses processor time within a limit and beyond it. No time is measured: the kernel counts how often the limit had an effect.
    async fn try_processor(&self, trial: LimitTrial<'_>) -> Result<[ProbeResult; 2], Stop> {
        const MUCH: u32 = 1_000_000;
        const WAITED: &str = "had to wait";
        const WENT_ON: &str = "did not wait";
        // Thousandths of a processor: with the least limit, a millisecond in each tenth of a second, a container would take very long
        // to start.
        let little = match trial.backend.has_own_memory() {
            true => 100,
            false => 10,
        };
        let used = async |cpus| {
            let limited = trial.limited(|limits| limits.cpus = Some(cpus));
            // Three periods' worth.
            let attempt = Attempt::use_processor(u64::from(little) * 300_000);
            let probed = self.attempt(trial, &limited, attempt).await?;
            Ok::<_, Stop>(match probed.results[..] {
                [Some(0)] if probed.throttled => WAITED,
                [Some(0)] => WENT_ON,
                _ => FAILED,
            })
        };
        Ok([
            expect(
                "use processor time within the limit",
                used(MUCH).await?,
                WENT_ON,
            ),
            expect(
                "use processor time beyond the limit",
                used(little).await?,
                WAITED,
            ),
        ])
    }

    /// Fills a scratch directory within its limits and beyond them: its size, then its number of files.
    #[cfg(target_os = "linux")]
    async fn try_scratch(&self, trial: LimitTrial<'_>) -> Result<[[ProbeResult; 2]; 2], Stop> {
        let filled = async |bytes, files| {
            let limited = trial.limited(|limits| {
                limits.file_size = FILL;
                limits.scratch = Some(ScratchLimits { bytes, files });
            });
            let site = self.site(trial.policy, trial.lease)?;
            let path = |name: &str| site.fixture.scratch.join(name);
            let attempts = [
                Attempt::fill(path("large").as_os_str(), FILL),
                Attempt::fill(path("second").as_os_str(), 1),
            ];
            let attempts = attempts.into_iter().flatten().collect();
            let probed = self
                .probe_on(&site, trial.backend, &limited, attempts)
                .await?;
            let result = |index: usize| probed.results.get(index).copied().flatten();
            Ok::<_, Stop>([result(0), result(1)])
        };
        let (within, beyond) = (filled(2 * FILL, 2).await?, filled(FILL / 2, 1).await?);
        let full = -(libc::ENOSPC as isize);
        let legs = |index: usize, less, more| {
            [
                expect_value(less, within[index], 0),
                expect_value(more, beyond[index], full),
            ]
        };
        Ok([
            legs(
                0,
                "fill scratch within its size",
                "fill scratch beyond its size",
            ),
            legs(
                1,
                "make as many files in scratch as it may have",
                "make one more file in scratch than it may have",
            ),
        ])
    }

    /// Allocates memory within a limit, beyond it without the limit, and beyond it. Each run reads back its own.
    async fn try_memory(&self, trial: LimitTrial<'_>) -> Result<[ProbeResult; 3], Stop> {
        let (within, beyond) = (MEMORY / 4, MEMORY / 4 * 5);
        let unconfined = LimitTrial {
            backend: &Noop,
            ..trial
        };
        let policy = trial.policy;
        let [within, unlimited, beyond] = match trial.backend.has_own_memory() {
            true => [
                self.use_memory(trial, within).await?,
                self.use_memory(unconfined, beyond).await?,
                self.use_memory(trial, beyond).await?,
            ],
            false => [
                self.use_memory_alone(policy, Some(MEMORY), within).await?,
                self.use_memory_alone(policy, None, beyond).await?,
                self.use_memory_alone(policy, Some(MEMORY), beyond).await?,
            ],
        };
        let (less, more) = ("use memory within the limit", "use memory beyond the limit");
        Ok([
            expect(less, within, SUCCEEDED),
            expect(more, unlimited, SUCCEEDED).unconfined(),
            expect(more, beyond, KILLED),
        ])
    }

    /// Uses memory in a child, under a limit of [`MEMORY`].
    async fn use_memory(&self, trial: LimitTrial<'_>, bytes: usize) -> Result<&'static str, Stop> {
        let limited = trial.limited(|limits| limits.memory = Some(MEMORY as u64));
        match self
            .attempt(trial, &limited, Attempt::use_memory(bytes))
            .await
        {
            Ok(Probed { results, .. }) => Ok(match results.first() {
                Some(Some(result)) if *result >= 0 => SUCCEEDED,
                _ => FAILED,
            }),
            Err(stop) if axis_of(&stop) == Some(Axis::Memory) => Ok(KILLED),
            Err(stop) => Err(stop),
        }
    }

    /// Uses memory in a process of its own in the cgroup of a run. Fails where runs have no cgroups.
    #[cfg(target_os = "linux")]
    async fn use_memory_alone(
        &self,
        policy: &Policy,
        limit: Option<usize>,
        bytes: usize,
    ) -> Result<&'static str, Stop> {
        use hookjail_base::refusal::Fault;

        let Some(cgroups) = self.runner.cgroups.clone() else {
            return Ok(FAILED);
        };
        let limits = Limits {
            memory: limit.map(|bytes| bytes as u64),
            ..policy.limits
        };
        let fault = |error: std::io::Error| Fault::new("cannot use memory in a cgroup", error);
        let used = tokio::task::spawn_blocking(move || cgroups.lets_use(&limits, bytes)).await;
        Ok(match used.map_err(|e| fault(e.into()))?.map_err(fault)? {
            Some(true) => SUCCEEDED,
            Some(false) => KILLED,
            None => FAILED,
        })
    }

    /// Fails: on this system nothing limits the memory of a run.
    #[cfg(not(target_os = "linux"))]
    async fn use_memory_alone(
        &self,
        _policy: &Policy,
        _limit: Option<usize>,
        _bytes: usize,
    ) -> Result<&'static str, Stop> {
        Ok(FAILED)
    }
}
