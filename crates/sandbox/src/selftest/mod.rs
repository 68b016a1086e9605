//! Self-test: shows on this host that a child can use a policy's grants and cannot exceed them.
//!
//! The same attempts are made twice. By a child without confinement each must succeed (the positive control: an attempt
//! that fails everywhere proves nothing). By a child under the policy each must end as the policy requires.

mod fixture;
mod limits;
mod probes;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use hookjail_base::{
    model::axis::{Axes, Axis, Coverage},
    refusal::{Fact, Fault, Reason, Refusal, Stop, chain, unless_lacking},
};
use hookjail_policy::{Metadata, Network, Policy, Spawn};
use hookjail_sys::Attempt;

use crate::{
    Backend, BackendName, Confinement, Noop, Prepared, Started,
    backend::is_claimed,
    host::{Lease, Until},
    mutants,
    nesting::{CONTROL_FAILS, Cause},
    resources::{litter::RunResources, scratch::RunDir},
    run::{
        Probed,
        grants::OpenGrant,
        task::{Action, Task},
    },
    selftest::{
        fixture::Fixture,
        limits::LimitTrial,
        probes::{Check, Effect},
    },
};

/// A policy proved by a real child on this host.
#[derive(Clone, Debug)]
pub struct Confirmation {
    /// Attempts on each axis.
    pub proofs: Vec<AxisProof>,
    /// Time of the self-test.
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
    /// Remedy for the operator; may be empty.
    pub fix: String,
    /// Attempts on each axis.
    pub proofs: Vec<AxisProof>,
    /// `BACKEND_UNCONFIRMED`, or `OVERLOADED` where the system temporarily lacks the self-test's resources.
    pub reason: Reason,
    /// The cause.
    pub why: String,
}

/// The backend selected for a policy.
#[derive(Clone, Debug)]
pub struct Selected {
    /// Proof of the policy on it.
    pub confirmation: Arc<Confirmation>,
    /// The backends before it in the operator's order, and why each was not selected.
    pub passed_over: Vec<Skipped>,
    /// The policy's translation.
    pub prepared: Prepared,
}

/// Status of one backend for a policy.
#[derive(Clone, Debug)]
pub enum BackendStatus {
    /// The backend does not serve the policy.
    Skipped(Box<Skipped>),
    /// The backend would serve the policy.
    Serves(Box<(Prepared, Arc<Confirmation>)>),
}

impl BackendStatus {
    /// Returns the backend's name.
    pub fn backend(&self) -> BackendName {
        match self {
            Self::Skipped(passed_over) => passed_over.backend,
            Self::Serves(serves) => serves.0.backend,
        }
    }

    /// Returns whether the backend would serve the policy, and confine.
    pub fn confines(&self) -> bool {
        match self {
            Self::Skipped(_) => false,
            Self::Serves(serves) => serves.0.confines(),
        }
    }

    /// Returns whether the backend would serve the policy.
    pub const fn serves(&self) -> bool {
        match self {
            Self::Skipped(_) => false,
            Self::Serves(_) => true,
        }
    }
}

/// A backend that a policy was not selected for.
#[derive(Clone, Debug)]
pub struct Skipped {
    /// Name of the backend.
    pub backend: BackendName,
    /// The failed self-test with the policy's translation, if it got that far.
    pub failed: Option<(Prepared, Arc<Unconfirmed>)>,
    /// The cause.
    pub refusal: Refusal,
}

/// Attempts on one axis.
#[derive(Clone, Debug)]
pub struct AxisProof {
    /// The axis.
    pub axis: Axis,
    /// Attempts that had to succeed.
    pub control: Vec<ProbeResult>,
    /// Attempts that had to fail.
    pub deny: Vec<ProbeResult>,
}

impl AxisProof {
    /// Returns a leg that did not hold. One that shows a hole precedes one that shows nothing.
    fn failed(&self) -> Option<&ProbeResult> {
        let broken = |leg: &&ProbeResult| !leg.held;
        let shows_nothing = |leg: &&ProbeResult| {
            let mut controls = self.control.iter().filter(broken);
            controls.any(|control| control.unconfined && control.attempt == leg.attempt)
        };
        let holes = self.deny.iter().filter(broken);
        let mut holes = holes.filter(|leg| !shows_nothing(leg));
        holes.next().or_else(|| self.control.iter().find(broken))
    }
}

/// Time limit of one self-test child.
const PROBE_TIMEOUT: Duration = Duration::from_secs(15);

/// One attempt and its result.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProbeResult {
    /// Name of the attempt.
    pub attempt: &'static str,
    /// Whether the result was the expected one.
    pub held: bool,
    /// The observed result.
    pub observed: String,
    /// Whether the attempt ran without confinement.
    pub unconfined: bool,
}

impl ProbeResult {
    const fn new(attempt: &'static str, held: bool, observed: String) -> Self {
        Self {
            attempt,
            held,
            observed,
            unconfined: false,
        }
    }

    fn unconfined(self) -> Self {
        Self {
            unconfined: true,
            ..self
        }
    }

    /// Returns the attempt's name and setting, for display.
    pub fn name(&self) -> String {
        let how = if self.unconfined { ", unconfined" } else { "" };
        format!("{}{how}", self.attempt)
    }
}

/// Proofs so far, for each profile and each way it is narrowed.
#[derive(Debug, Default)]
pub(crate) struct Confirmations {
    cells: Mutex<HashMap<Key, Arc<OnceCell<Arc<Confirmation>>>>>,
    /// Whether each backend served a profile at the last survey.
    served: Mutex<HashMap<(String, BackendName), bool>>,
}

impl Confirmations {
    /// Logs that a backend no longer serves a profile, or serves it again.
    fn note(&self, policy: &Policy, status: &BackendStatus) {
        let key = (policy.digest.clone(), status.backend());
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        let before = served.insert(key, status.serves());
        let (profile, backend) = (&policy.name, status.backend());
        match (before, status) {
            (Some(true), BackendStatus::Skipped(passed_over)) => tracing::warn!(
                %profile,
                %backend,
                reason = passed_over.refusal.reason.as_str(),
                "backend is not confirmed any more: {}",
                passed_over.refusal.message
            ),
            (Some(false), BackendStatus::Serves(_)) => {
                tracing::info!(%profile, %backend, "backend is confirmed again");
            }
            (Some(_) | None, _) => {}
        }
    }
}

/// Returns the first axis with a claim beyond its proof, and the missing proof. That is an attempt that did not end as expected;
/// or, where the axis is claimed to be enforced, an attempt that must fail beside one that must succeed.
///
/// A claim with a gap satisfies no profile that requires the axis, and may be without attempts.
fn unproved(axes: &Axes<Coverage>, proofs: &[AxisProof]) -> Option<(Axis, String)> {
    axes.iter().find_map(|(axis, coverage)| {
        let proof = proofs.iter().find(|proof| proof.axis == axis);
        let (deny, control) = proof.map_or((&[][..], &[][..]), |proof| {
            (&proof.deny[..], &proof.control[..])
        });
        let enforced = match coverage {
            Coverage::Degraded { .. } => false,
            Coverage::Enforced { .. } => true,
            // Whether it holds all the same does not matter.
            Coverage::Ignored => return None,
        };
        if let Some(leg) = proof.and_then(AxisProof::failed) {
            return Some((axis, format!("{}: {}", leg.name(), leg.observed)));
        }
        let unproved = enforced && is_claimed(axis) && (deny.is_empty() || control.is_empty());
        unproved.then(|| {
            let why = "claimed as enforced, but the self-test lacks an attempt that must fail or one that must succeed";
            (axis, why.to_owned())
        })
    })
}

/// Returns a stop's axis, if it has one.
fn axis_of(stop: &Stop) -> Option<Axis> {
    match stop {
        Stop::Fault(_) => None,
        Stop::Refusal(refusal) => refusal.axis(),
    }
}

/// Refuses because none of a policy's backends serves it. The reason is that of the first, the operator's preferred one; the text
/// is that of all.
fn none_serves(passed_over: &[Skipped]) -> Refusal {
    let words: Vec<_> = passed_over
        .iter()
        .map(|passed_over| passed_over.refusal.message.as_str())
        .collect();
    match passed_over.first() {
        Some(first) => Refusal {
            message: words.join("; "),
            ..first.refusal.clone()
        },
        None => Refusal::new(Reason::BackendUnconfirmed, "no backend is configured"),
    }
}

/// Refuses if an attempt failed for lack of resources, which proves nothing.
fn lacked(checks: &[Check], results: &[Option<isize>]) -> Result<(), Refusal> {
    checks.iter().try_for_each(|check| {
        let what = format_args!("attempt to {}", check.what);
        let errno = match check.failed(results) {
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
            None => Ok(()),
        };
        unless_lacking(what, errno).map(drop)
    })
}

/// Adds legs to an axis.
fn add(
    proofs: &mut [AxisProof],
    axis: Axis,
    control: impl IntoIterator<Item = ProbeResult>,
    deny: Option<ProbeResult>,
) {
    if let Some(proof) = proofs.iter_mut().find(|proof| proof.axis == axis) {
        proof.control.extend(control);
        proof.deny.extend(deny);
    }
}

/// Returns the legs of the attempt to use a descriptor of the daemon's, whose result in the child is `seen`.
fn descriptor(fixture: &Fixture, seen: Option<isize>) -> (ProbeResult, ProbeResult) {
    let worked = fixture.witness.metadata().is_ok();
    let observed = match worked {
        true => "succeeded".to_owned(),
        false => "failed".to_owned(),
    };
    let what = "use a descriptor of the daemon's, in the daemon";
    let control = ProbeResult::new(what, worked, observed);
    let held = seen == Some(-(libc::EBADF as isize));
    let observed = match held {
        true => "EBADF".to_owned(),
        false => format!("{seen:?}"),
    };
    let deny = ProbeResult::new("use a descriptor of the daemon's", held, observed);
    (control, deny)
}

/// Resources of a self-test child. Dropped in this order.
struct Site {
    fixture: Fixture,
    lease: Option<Lease>,
    resources: RunResources,
}

impl Site {
    fn directory(&self) -> &RunDir {
        self.resources.directory()
    }
}

fn not_made(error: io::Error) -> Fault {
    Fault::new("cannot make a directory for the self-test", error)
}

/// Key of a proof: a profile on a backend, and how requests narrow the profile, as far as a self-test can see.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Key {
    backend: BackendName,
    keeps: bool,
    metadata: Metadata,
    network: Network,
    profile_digest: String,
    spawn: Spawn,
}

impl Key {
    fn new(backend: BackendName, policy: &Policy, profile_digest: &str) -> Self {
        Self {
            backend,
            keeps: policy.files.keep(),
            metadata: policy.metadata,
            network: policy.network,
            profile_digest: profile_digest.to_owned(),
            spawn: policy.spawn,
        }
    }
}

type Proved = Result<Arc<Confirmation>, Arc<Unconfirmed>>;

impl Confinement {
    /// Translates a policy with the first backend that enforces its requirements, and confirms it. `profile_digest` names the
    /// profile that the policy was made from.
    ///
    /// # Errors
    ///
    /// Refuses where no backend of its order can, or none is confirmed, and reports why for each. `OVERLOADED` where the first
    /// that could is not confirmed for a temporary lack of resources.
    pub async fn select(&self, policy: &Policy, profile_digest: &str) -> Result<Selected, Refusal> {
        let mut passed_over = Vec::new();
        for backend in self.backends_of(policy) {
            match self.status(backend, policy, profile_digest).await {
                BackendStatus::Serves(serves) => {
                    let (prepared, confirmation) = *serves;
                    return Ok(Selected {
                        confirmation,
                        passed_over,
                        prepared,
                    });
                }
                // The backend may serve a moment later: the operator's order holds, and a temporary lack selects no lesser one.
                BackendStatus::Skipped(passed) if passed.refusal.reason == Reason::Overloaded => {
                    return Err(passed.refusal);
                }
                BackendStatus::Skipped(passed) => passed_over.push(*passed),
            }
        }
        Err(none_serves(&passed_over))
    }

    /// Returns the status of each backend in a profile's order. That includes those behind the first that serves. A backend that
    /// was confirmed at the last survey and no longer is, is logged.
    pub async fn survey(&self, policy: &Policy) -> Vec<BackendStatus> {
        let mut statuses = Vec::new();
        for backend in self.backends_of(policy) {
            let status = self.status(backend, policy, &policy.digest).await;
            self.confirmations.note(policy, &status);
            statuses.push(status);
        }
        statuses
    }

    /// Starts the self-test of a confirmed profile once more, on the first backend that is there. Keeps its earlier proof in
    /// any case.
    ///
    /// # Errors
    ///
    /// Returns why no process can be started that is confined by it.
    pub async fn start_attempt(&self, policy: &Policy) -> Result<(), String> {
        let mut available = self.backends_of(policy).filter(|it| it.probe().is_ok());
        let prepared = available.find_map(|backend| Some((backend, backend.prepare(policy).ok()?)));
        match prepared {
            Some((backend, prepared)) if prepared.confines() => {
                let proved = self.prove(backend, policy, &prepared).await;
                proved.map(drop).map_err(|unconfirmed| unconfirmed.why)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Returns whether a profile has been confirmed on one of its backends. Tests nothing.
    pub fn is_confirmed(&self, policy: &Policy) -> bool {
        let cells = self.confirmations.cells.lock();
        let cells = cells.unwrap_or_else(PoisonError::into_inner);
        self.backends_of(policy).any(|backend| {
            let key = Key::new(backend.name(), policy, &policy.digest);
            cells.get(&key).is_some_and(|cell| cell.initialized())
        })
    }

    /// Returns whether a backend is configured that does not confine.
    pub fn has_unconfined(&self) -> bool {
        let mut backends = self.parts.backends.iter();
        backends.any(|backend| backend.name() == BackendName::NOOP)
    }

    /// Discards the proofs of a profile. The next run under it repeats the self-test.
    pub fn forget(&self, profile_digest: &str) {
        self.confirmations
            .cells
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|key, _| key.profile_digest != profile_digest);
    }

    /// Returns the backends of a policy in the operator's order.
    fn backends_of(&self, policy: &Policy) -> impl Iterator<Item = &dyn Backend> {
        let find = |&name| {
            let mut backends = self.parts.backends.iter();
            backends.find(|backend| backend.name() == name)
        };
        let order = self.parts.order.nearest(&policy.line).iter();
        order.filter_map(find).map(AsRef::as_ref)
    }

    async fn status(
        &self,
        backend: &dyn Backend,
        policy: &Policy,
        profile_digest: &str,
    ) -> BackendStatus {
        let passed_over = |failed, refusal: Refusal| {
            BackendStatus::Skipped(Box::new(Skipped {
                backend: backend.name(),
                failed,
                refusal,
            }))
        };
        let name = backend.name().as_str();
        if let Err(absent) = backend.probe() {
            let message = format!(
                "backend `{name}` is not available: {absent}; {}",
                absent.fix
            );
            let refusal = Refusal::new(Reason::BackendUnconfirmed, message)
                .with(Fact::Backend(name))
                .with(Fact::Fix(absent.fix));
            return passed_over(None, refusal);
        }
        let prepared = match backend.prepare(policy) {
            Ok(prepared) => prepared,
            Err(unenforceable) => {
                let mut message = format!("profile `{}`: {unenforceable}", policy.name);
                let fix = self.remedy(unenforceable.axis, policy);
                if !fix.is_empty() {
                    message += &format!("; {fix}");
                }
                let mut refusal = Refusal::new(Reason::PolicyUnenforceable, message)
                    .with(Fact::Axis(unenforceable.axis))
                    .with(Fact::Backend(name));
                if !fix.is_empty() {
                    refusal = refusal.with(Fact::Fix(fix));
                }
                return passed_over(None, refusal);
            }
        };
        match self
            .confirm(backend, policy, profile_digest, &prepared)
            .await
        {
            Ok(confirmation) => BackendStatus::Serves(Box::new((prepared, confirmation))),
            Err(unconfirmed) => {
                let mut message = format!(
                    "backend `{name}` is not confirmed for profile `{}`: {unconfirmed}",
                    policy.name
                );
                let fix = &unconfirmed.fix;
                if !fix.is_empty() {
                    message += &format!("; {fix}");
                }
                let mut refusal =
                    Refusal::new(unconfirmed.reason, message).with(Fact::Backend(name));
                if !fix.is_empty() {
                    refusal = refusal.with(Fact::Fix(fix.into()));
                }
                let refusal = match unconfirmed.axis {
                    Some(axis) => refusal.with(Fact::Axis(axis)),
                    None => refusal,
                };
                passed_over(Some((prepared, unconfirmed)), refusal)
            }
        }
    }

    /// Returns the confirmation of a policy; runs the self-test if it has not run yet.
    async fn confirm(
        &self,
        backend: &dyn Backend,
        policy: &Policy,
        profile_digest: &str,
        prepared: &Prepared,
    ) -> Proved {
        // Where nothing is claimed, nothing can be confirmed; every reply reports that.
        if !prepared.confines() {
            return Ok(Arc::new(Confirmation::now(Vec::new())));
        }
        let cell = {
            let mut cells = self
                .confirmations
                .cells
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let key = Key::new(prepared.backend, policy, profile_digest);
            Arc::clone(cells.entry(key).or_default())
        };
        // A failure is not remembered: its cause may pass, and until it does every run is refused.
        let proved = cell.get_or_try_init(|| async {
            if mutants::lacks("proof", "self-test") {
                return Ok(Arc::new(Confirmation::now(Vec::new())));
            }
            let confirmation = self.prove(backend, policy, prepared).await;
            confirmation.map(Arc::new).map_err(Arc::new)
        });
        proved.await.cloned()
    }

    async fn prove(
        &self,
        backend: &dyn Backend,
        policy: &Policy,
        prepared: &Prepared,
    ) -> Result<Confirmation, Unconfirmed> {
        let broke = |stop: Stop| Unconfirmed {
            axis: axis_of(&stop),
            fix: match &stop {
                Stop::Refusal(refusal) => refusal.fix().unwrap_or_default().to_owned(),
                Stop::Fault(_) => String::new(),
            },
            proofs: Vec::new(),
            reason: match &stop {
                Stop::Refusal(refusal) if refusal.reason == Reason::Overloaded => refusal.reason,
                Stop::Fault(_) | Stop::Refusal(_) => Reason::BackendUnconfirmed,
            },
            why: format!("the self-test could not be made: {}", chain(&stop)),
        };
        // Large, and nested deep.
        let proofs = Box::pin(self.legs(backend, policy, prepared)).await;
        let proofs = proofs.map_err(broke)?;
        let failed = unproved(prepared.axes(), &proofs).map(|(axis, why)| {
            let proof = proofs.iter().find(|proof| proof.axis == axis);
            let leg = proof.and_then(AxisProof::failed);
            let unconfined = leg.is_some_and(|leg| leg.unconfined);
            let cause = unconfined.then_some(CONTROL_FAILS);
            (
                axis,
                Cause::refusal(cause, &format!("axis `{axis}`: {why}")),
            )
        });
        match failed {
            None => Ok(Confirmation::now(proofs)),
            Some((axis, refusal)) => Err(Unconfirmed {
                axis: Some(axis),
                fix: refusal.fix().unwrap_or_default().to_owned(),
                proofs,
                reason: refusal.reason,
                why: refusal.message,
            }),
        }
    }

    /// Makes a directory for a self-test, which is removed in the background, like those of runs.
    fn test_directory(&self, lease: Option<&Lease>) -> Result<RunResources, Stop> {
        let directory = self.parts.instance.run(lease.map(Lease::identity).as_ref());
        let directory = directory.map_err(not_made)?;
        let uid = nix::unistd::geteuid().as_raw();
        Ok(self.litter.of_run(uid, directory, lease.cloned()))
    }

    /// Makes every attempt twice, confined and unconfined, and compares the results.
    async fn legs(
        &self,
        backend: &dyn Backend,
        policy: &Policy,
        prepared: &Prepared,
    ) -> Result<Vec<AxisProof>, Stop> {
        let lease = self.lease(nix::unistd::geteuid().as_raw())?;
        let lease = lease.as_ref();
        let axes = prepared.axes();
        let controls = self.controls(policy, axes, lease).await?;
        let mut proofs = self.compare(backend, policy, axes, lease, controls).await?;
        let trial = LimitTrial {
            backend,
            lease,
            policy,
        };
        self.try_limits(trial, axes, &mut proofs).await?;
        Ok(proofs)
    }

    /// Makes every attempt unconfined. Returns whether it succeeded, and its result for display.
    async fn controls(
        &self,
        policy: &Policy,
        axes: &Axes<Coverage>,
        lease: Option<&Lease>,
    ) -> Result<Vec<(bool, String)>, Stop> {
        let site = self.site(policy, lease)?;
        let free = site.fixture.attempts(policy, axes, lease.is_some());
        let Probed { results, .. } = self.probe_on(&site, &Noop, policy, free.attempts).await?;
        lacked(&free.checks, &results)?;
        // The effect must show too, or its absence under confinement would prove nothing.
        let control = |check: &Check| {
            let shows = check.effect.as_ref().is_none_or(Effect::shows);
            (check.succeeded(&results) && shows, check.seen(&results))
        };
        Ok(free.checks.iter().map(control).collect())
    }

    /// Makes every attempt confined, on a site of its own, and compares the results with the unconfined ones.
    async fn compare(
        &self,
        backend: &dyn Backend,
        policy: &Policy,
        axes: &Axes<Coverage>,
        lease: Option<&Lease>,
        controls: Vec<(bool, String)>,
    ) -> Result<Vec<AxisProof>, Stop> {
        let site = self.site(policy, lease)?;
        let fixture = &site.fixture;
        let mut confined = fixture.attempts(policy, axes, lease.is_some());
        confined.attempts.push(fixture.descriptor());
        let Probed { results, .. } = self
            .probe_on(&site, backend, policy, confined.attempts)
            .await?;
        lacked(&confined.checks, &results)?;

        let mut proofs: Vec<AxisProof> = Axis::ALL
            .map(|axis| AxisProof {
                axis,
                control: Vec::new(),
                deny: Vec::new(),
            })
            .into();
        for (check, (worked, control)) in confined.checks.iter().zip(controls) {
            let observed = check.seen(&results);
            let control = ProbeResult::new(check.what, worked, control).unconfined();
            if check.granted {
                let leg = ProbeResult::new(check.what, check.succeeded(&results), observed);
                add(&mut proofs, check.axis, [control, leg], None);
            } else {
                let shows = check.effect.as_ref().is_some_and(Effect::shows);
                let leg = ProbeResult::new(check.what, check.refused(&results) && !shows, observed);
                add(&mut proofs, check.axis, [control], Some(leg));
            }
        }
        let (control, deny) = descriptor(fixture, results.last().copied().flatten());
        add(&mut proofs, Axis::Environment, [control], Some(deny));
        Ok(proofs)
    }

    /// Prepares the site of a self-test child.
    fn site(&self, policy: &Policy, lease: Option<&Lease>) -> Result<Site, Stop> {
        let identity = lease.map(Lease::identity);
        let instance = &self.parts.instance;
        let resources = self.test_directory(lease)?;
        let canaries = (instance.canary_denied(), instance.canary_granted());
        let fixture = Fixture::create(policy, resources.directory(), canaries, identity.as_ref());
        Ok(Site {
            fixture: fixture.map_err(not_made)?,
            lease: lease.cloned(),
            resources,
        })
    }

    /// Starts a child under a backend to make attempts; returns their results.
    async fn probe_on(
        &self,
        site: &Site,
        backend: &dyn Backend,
        policy: &Policy,
        attempts: Vec<Attempt>,
    ) -> Result<Probed, Stop> {
        let confines = backend.name().confines();
        let grants = match confines {
            true => self.granted(policy, &site.fixture)?,
            false => Vec::new(),
        };
        let fault = |e| Fault::new("cannot open the self-test's files", e);
        let kept = (confines && policy.files.keep()).then(|| site.fixture.kept());
        let kept = kept.transpose().map_err(fault)?;
        let task = Task {
            action: Action::Probe(attempts),
            caller: nix::unistd::geteuid().as_raw(),
            directory: site.directory(),
            grants: grants.iter().collect(),
            identity: site.lease.as_ref().map(Lease::identity),
            kept: kept.as_ref(),
            policy,
            resources: Arc::new(site.lease.clone()),
            state: None,
            stdin: Bytes::new(),
            waits: false,
            until: Until {
                cancel: CancellationToken::new(),
                deadline: Instant::now() + PROBE_TIMEOUT,
            },
            working_dir: None,
        };
        match backend.start(&self.runner, task).await? {
            Started::Probed(probed) => Ok(probed),
            Started::Hook(_) => {
                Err(Fault::new("cannot make attempts", "a hook was started instead").into())
            }
        }
    }

    /// Opens the grants of a self-test's confined child.
    fn granted(&self, policy: &Policy, fixture: &Fixture) -> Result<Vec<OpenGrant>, Stop> {
        let mut opened = self.places().open_system(&policy.files)?;
        let grants = fixture.grants(policy);
        opened.extend(grants.map_err(|e| Fault::new("cannot open the self-test's files", e))?);
        Ok(opened)
    }

    /// Returns, for every backend, whether it is usable on this host.
    pub fn probe(&self) -> Vec<(BackendName, Result<super::Host, super::Absent>)> {
        self.parts
            .backends
            .iter()
            .map(|backend| (backend.name(), backend.probe()))
            .collect()
    }
}
