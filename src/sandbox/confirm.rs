//! The self-test: a real child *manages* what a policy grants and *fails* what it does not, on this host, now.
//!
//! The same attempts are made twice: by a child without confinement, where each must succeed (the positive control: an
//! attempt that fails everywhere proves nothing), and by a child under the policy, where each must end as the policy says.

use std::{
    collections::HashMap,
    io,
    os::fd::AsFd,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use tokio::sync::OnceCell;

use super::{
    Backend, BackendName, Mechanism, Prepared, Sandbox,
    confine::launch,
    ground::{Effect, Ground},
    means::{limits, pipes, scratch_fd},
    scratch::RunDir,
};
use crate::{
    axis::Axis,
    policy::{Files, Policy},
    refusal::{Fault, Reason, Refusal, Stop, chain},
    sys::{Action, Attempt, Identity, Job, JobParts},
};

/// How long one child of a self-test may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A policy that a real child has proved on this host.
#[derive(Clone, Debug)]
pub struct Confirmation {
    /// What was tried on each axis.
    pub proofs: Vec<AxisProof>,
    /// When.
    pub tested_at: Timestamp,
}

impl Confirmation {
    fn now(proofs: Vec<AxisProof>) -> Self {
        Self {
            proofs,
            tested_at: Timestamp::now(),
        }
    }
}

/// A policy that is not proved, and so refuses every run.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{why}")]
pub struct Unconfirmed {
    /// The axis that did not hold, if it was one.
    pub axis: Option<Axis>,
    /// What an operator can do about it; may be empty.
    pub fix: String,
    /// What was tried on each axis.
    pub proofs: Vec<AxisProof>,
    /// Why.
    pub why: String,
}

/// What was tried on one axis.
#[derive(Clone, Debug)]
pub struct AxisProof {
    /// The axis.
    pub axis: Axis,
    /// What had to succeed.
    pub control: Vec<Leg>,
    /// What had to fail.
    pub deny: Vec<Leg>,
}

/// One attempt and what came of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Leg {
    /// What was tried.
    pub attempt: String,
    /// Whether it ended as it had to.
    pub held: bool,
    /// What was seen.
    pub observed: String,
}

/// What was proved so far: for each profile and each way it is narrowed.
#[derive(Debug, Default)]
pub(super) struct Confirmations {
    cells: Mutex<HashMap<Key, Arc<OnceCell<Arc<Confirmation>>>>>,
}

/// A profile's digest and the filters it comes to, narrowed.
type Key = (String, super::linux::FilterSpec);

type Proved = Result<Arc<Confirmation>, Arc<Unconfirmed>>;

impl Sandbox {
    /// Translates a policy with the first backend that enforces what it requires and has it confirmed. `profile_digest`
    /// names the profile that the policy was made from.
    ///
    /// # Errors
    ///
    /// Refuses where no backend can, or its self-test failed.
    pub async fn select(
        &self,
        policy: &Policy,
        profile_digest: &str,
    ) -> Result<(Prepared, Arc<Confirmation>), Refusal> {
        let mut passed_over: Option<Refusal> = None;
        for backend in &self.parts.backends {
            match self
                .select_one(backend.as_ref(), policy, profile_digest)
                .await
            {
                Ok(selected) => return Ok(selected),
                // The first backend is the one that the operator wants; its reason is the one to give.
                Err(refusal) => passed_over = passed_over.or(Some(refusal)),
            }
        }
        Err(passed_over.unwrap_or_else(|| {
            Refusal::new(Reason::BackendUnconfirmed, "no backend is configured")
        }))
    }

    /// Forgets what was proved of a profile, so that it is proved anew before the next run under it.
    pub fn forget(&self, profile_digest: &str) {
        self.confirmations
            .cells
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|(digest, _), _| digest != profile_digest);
    }

    async fn select_one(
        &self,
        backend: &dyn Backend,
        policy: &Policy,
        profile_digest: &str,
    ) -> Result<(Prepared, Arc<Confirmation>), Refusal> {
        let name = backend.name().as_str();
        backend.probe().map_err(|absent| {
            let message = format!(
                "backend `{name}` is not available: {absent}; to fix it: {}",
                absent.fix
            );
            Refusal::new(Reason::BackendUnconfirmed, message)
                .with("backend", name)
                .with("fix", absent.fix)
        })?;
        let prepared = backend.prepare(policy).map_err(|unenforceable| {
            Refusal::new(
                Reason::PolicyUnenforceable,
                format!("profile `{}`: {unenforceable}", policy.name),
            )
            .with("axis", unenforceable.axis.name())
            .with("backend", name)
        })?;
        match self.confirm(policy, profile_digest, &prepared).await {
            Ok(confirmation) => Ok((prepared, confirmation)),
            Err(unconfirmed) => {
                let message = format!(
                    "backend `{name}` is not confirmed for profile `{}`: {unconfirmed}",
                    policy.name
                );
                let refusal =
                    Refusal::new(Reason::BackendUnconfirmed, message).with("backend", name);
                Err(match unconfirmed.axis {
                    Some(axis) => refusal.with("axis", axis.name()),
                    None => refusal,
                })
            }
        }
    }

    /// Returns the confirmation of a policy; runs the self-test if it has not run yet.
    async fn confirm(&self, policy: &Policy, profile_digest: &str, prepared: &Prepared) -> Proved {
        let spec = match prepared.mechanism {
            Mechanism::Landlock(spec) => spec,
            // Nothing is enforced, so nothing can be confirmed; every reply says so.
            Mechanism::Unconfined => return Ok(Arc::new(Confirmation::now(Vec::new()))),
        };
        let cell = {
            let mut cells = self
                .confirmations
                .cells
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            Arc::clone(cells.entry((profile_digest.to_owned(), spec)).or_default())
        };
        // A failure is not remembered: its cause may pass, and until it does every run is refused.
        let proved = cell.get_or_try_init(|| async {
            let confirmation = self.prove(policy, prepared).await;
            confirmation.map(Arc::new).map_err(Arc::new)
        });
        proved.await.cloned()
    }

    async fn prove(
        &self,
        policy: &Policy,
        prepared: &Prepared,
    ) -> Result<Confirmation, Unconfirmed> {
        let broke = |stop: Stop| Unconfirmed {
            axis: None,
            fix: String::new(),
            proofs: Vec::new(),
            why: format!("the self-test could not be made: {}", chain(&stop)),
        };
        let proofs = self.legs(policy, prepared).await.map_err(broke)?;
        let failed = proofs.iter().find_map(|proof| {
            let leg = proof
                .deny
                .iter()
                .chain(&proof.control)
                .find(|leg| !leg.held)?;
            Some((
                proof.axis,
                format!("axis `{}`: {}: {}", proof.axis, leg.attempt, leg.observed),
            ))
        });
        match failed {
            None => Ok(Confirmation::now(proofs)),
            Some((axis, why)) => Err(Unconfirmed {
                axis: Some(axis),
                fix: String::new(),
                proofs,
                why,
            }),
        }
    }

    /// Makes every attempt twice and compares.
    async fn legs(&self, policy: &Policy, prepared: &Prepared) -> Result<Vec<AxisProof>, Stop> {
        let lease = self.lease()?;
        let identity = lease.as_ref().and_then(super::identity::Lease::identity);
        let make = |e: io::Error| Fault::new("cannot make a directory for the self-test", e);
        let instance = &self.parts.instance;

        let directory = instance.run(identity).map_err(make)?;
        let ground = Ground::lay(
            &directory,
            instance.canary_denied(),
            instance.canary_granted(),
            identity,
        )
        .map_err(make)?;
        let free = ground.attempts(policy, identity.is_some());
        let free_prepared = Mechanism::Unconfined;
        let unconfined = self
            .make_attempts(
                policy,
                &free_prepared,
                &directory,
                &ground,
                identity,
                free.attempts,
            )
            .await?;
        // The effect must show too, or its absence under confinement would prove nothing.
        let controls: Vec<(bool, String)> = free
            .checks
            .iter()
            .map(|check| {
                let worked =
                    check.succeeded(&unconfined) && check.effect.as_ref().is_none_or(Effect::shows);
                (worked, check.seen(&unconfined))
            })
            .collect();
        drop((ground, directory));

        let directory = instance.run(identity).map_err(make)?;
        let ground = Ground::lay(
            &directory,
            instance.canary_denied(),
            instance.canary_granted(),
            identity,
        )
        .map_err(make)?;
        let mut confined = ground.attempts(policy, identity.is_some());
        let checks = confined.checks;
        confined.attempts.push(ground.descriptor());
        let job = self
            .make_attempts(
                policy,
                &prepared.mechanism,
                &directory,
                &ground,
                identity,
                confined.attempts,
            )
            .await?;

        let mut proofs: Vec<AxisProof> = Axis::ALL
            .map(|axis| AxisProof {
                axis,
                control: Vec::new(),
                deny: Vec::new(),
            })
            .into();
        for (check, (unconfined_held, control)) in checks.iter().zip(controls) {
            let Some(proof) = proofs.iter_mut().find(|proof| proof.axis == check.axis) else {
                continue;
            };
            let observed = check.seen(&job);
            let what = check.what;
            proof.control.push(Leg {
                attempt: format!("{what}, unconfined"),
                held: unconfined_held,
                observed: control,
            });
            if check.granted {
                proof.control.push(Leg {
                    attempt: what.to_owned(),
                    held: check.succeeded(&job),
                    observed,
                });
            } else {
                let held = check.refused(&job) && !check.effect.as_ref().is_some_and(Effect::shows);
                proof.deny.push(Leg {
                    attempt: what.to_owned(),
                    held,
                    observed,
                });
            }
        }
        let (control, seen) = (
            ground.witness.metadata(),
            job.attempts().last().and_then(Attempt::result),
        );
        if let Some(proof) = proofs
            .iter_mut()
            .find(|proof| proof.axis == Axis::Environment)
        {
            let what = "use a descriptor of the daemon's";
            let observed = if control.is_ok() {
                "succeeded"
            } else {
                "failed"
            }
            .to_owned();
            proof.control.push(Leg {
                attempt: format!("{what}, in the daemon"),
                held: control.is_ok(),
                observed,
            });
            let held = seen == Some(-(libc::EBADF as isize));
            let observed = if held {
                "EBADF".to_owned()
            } else {
                format!("{seen:?}")
            };
            proof.deny.push(Leg {
                attempt: what.to_owned(),
                held,
                observed,
            });
        }
        Ok(proofs)
    }

    async fn make_attempts(
        &self,
        policy: &Policy,
        mechanism: &Mechanism,
        directory: &RunDir,
        ground: &Ground,
        identity: Option<Identity>,
        attempts: Vec<Attempt>,
    ) -> Result<Arc<Job>, Stop> {
        let pool = self.pool(mechanism)?;
        let scratch = scratch_fd(directory)?;
        let ruleset = match mechanism {
            Mechanism::Landlock(spec) => {
                let files = Files {
                    named: Vec::new(),
                    system: policy.files.system.clone(),
                };
                let mut opened = self.places().open_all(&files)?;
                opened.extend(
                    ground
                        .grants()
                        .map_err(|e| Fault::new("cannot open the self-test's files", e))?,
                );
                Some(self.ruleset_with(spec, &opened, &scratch)?)
            }
            Mechanism::Unconfined => None,
        };
        let (stdio, _pipes) =
            pipes(&bytes::Bytes::new()).map_err(|e| Fault::new("cannot make pipes", e))?;
        let job = Job::new(JobParts {
            action: Action::Attempt(attempts),
            canaries: ruleset.is_some().then(|| self.canaries()).transpose()?,
            closing: pool.closing().cloned(),
            group: None,
            identity,
            limits: limits(&policy.limits, identity),
            ruleset,
            stdio,
            working_dir: scratch,
        })
        .map_err(|_| Fault::new("cannot prepare a child", "its closing filter is too long"))?;
        let job = Arc::new(job);
        let (_, pidfd) = launch(pool.pool(), &job, Instant::now() + PATIENCE).await?;
        let watched = crate::sys::watch(pidfd)
            .map_err(|e| Fault::new("cannot watch the self-test's child", e))?;
        let ended = tokio::time::timeout(PATIENCE, watched.readable()).await;
        drop(ended);
        let reaped = crate::sys::reap(watched.get_ref().as_fd());
        let report = job.report();
        if !matches!(reaped, Ok(Some(_))) || !report.did(crate::sys::Step::Release) {
            let error = io::Error::from_raw_os_error(report.errno());
            let message = format!(
                "the self-test's child stopped at step `{}`: {error}",
                report.step().name()
            );
            return Err(Refusal::new(Reason::BackendUnconfirmed, message)
                .with("step", report.step().name())
                .into());
        }
        Ok(job)
    }

    /// Returns, for every backend, whether it can be used here.
    pub fn probe(&self) -> Vec<(BackendName, Result<super::Host, super::Absent>)> {
        self.parts
            .backends
            .iter()
            .map(|backend| (backend.name(), backend.probe()))
            .collect()
    }
}
