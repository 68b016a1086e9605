//! How hooks are started on Linux: as children of spawners that have loaded filters, or in containers.

use std::{
    ffi::CString,
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use nix::sys::resource::{Resource, getrlimit};
use tokio::time::timeout_at;

use super::{FilterSpec, Grant, Pool, can_log, log_flags, nesting::of_step, ruleset};
use crate::{
    axis::Axis,
    policy::{Access, Limits, Plan, Policy, rights::Rights},
    process::{self, Running, Supervision},
    refusal::{Fault, Reason, Refusal, Stop},
    request::InvalidField,
    sandbox::{
        Evidence, Mechanism, Sandbox, SandboxParts, Setup, Status,
        audit_log::{AuditLog, Mark},
        confine::{Given, Start},
        container::{self, Came, ContainerSpec, What},
        denials::{Denials, Known, Notes},
        grants::{OpenGrant, starts_in},
        ground::Ground,
        means::{Execution, pipes, scratch_fd},
        nesting::Cause,
        pools::Pools,
        scratch::RunDir,
    },
    sys::{self, Action, Attempt, Canaries, Identity, Job, JobParts, Launch, LogFlags, Step},
    weaken,
};

/// How long one child of a self-test may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a child that is stuck before its exec may take to die once killed.
const STUCK: Duration = Duration::from_secs(5);

/// What starts hooks.
#[derive(Debug)]
pub(in crate::sandbox) struct Launcher {
    /// The kernel's, where it is in use.
    audit_log: Option<Arc<AuditLog>>,
    pub(in crate::sandbox) pools: Pools,
}

/// A hook that runs.
#[derive(Debug)]
pub(in crate::sandbox) enum Started {
    /// As a child.
    Child(Running),
    /// In a container.
    Contained(container::Running),
}

/// Takes note of what a run is denied, until its tree is dead.
#[derive(Debug)]
pub(in crate::sandbox) struct Observed {
    log: Option<Reading>,
    notes: Notes,
}

/// The audit log, and since when it is known to be written for a run.
#[derive(Clone, Debug)]
struct Reading {
    log: Arc<AuditLog>,
    since: Option<Mark>,
}

impl Started {
    /// Feeds the event and waits for the end of the whole tree.
    ///
    /// # Errors
    ///
    /// The container that it ran in did not say how it ended.
    pub(in crate::sandbox) async fn finish(
        self,
        supervision: Supervision,
    ) -> Result<process::Ended, Stop> {
        match self {
            Self::Child(running) => Ok(running.finish(supervision).await),
            Self::Contained(running) => running
                .finish(supervision)
                .await
                .map_err(|gone| Fault::new("cannot tell how a hook ended", gone).into()),
        }
    }
}

impl Observed {
    /// Returns all that is known of a run whose tree is dead. `asks` says whether the filters left what they refuse to the
    /// daemon.
    pub(in crate::sandbox) async fn known(self, asks: bool) -> Known {
        let Self { log, notes } = self;
        let Some(log) = log else {
            return notes.take(false);
        };
        // It waits for the kernel.
        match tokio::task::spawn_blocking(move || log.finish(&notes, asks)).await {
            Ok(known) => known,
            Err(error) => {
                tracing::error!(%error, "the audit log could not be read to the end of a run");
                Known::default()
            }
        }
    }
}

impl Reading {
    /// Reads what is left of a run whose tree is dead, and returns all that is known of it.
    fn finish(self, notes: &Notes, asks: bool) -> Known {
        let whole = self.log.settle(notes.denials(), self.since);
        let known = notes.take(whole && asks);
        // After that: who reads the log on the side would find nobody to give a record to.
        self.log.forget(notes.group());
        known
    }
}

impl Launcher {
    /// Makes what starts hooks.
    ///
    /// # Errors
    ///
    /// Fails where this process's own status cannot be read: without it no child could be attested.
    pub(in crate::sandbox) fn new(parts: &SandboxParts) -> io::Result<Self> {
        let denials = Arc::new(Denials::new(Arc::clone(&parts.keeper)));
        let own_filters = Status::own()?.seccomp_filters;
        let switches_uid = parts.identities.is_some();
        let audit_log = match parts.read_audit_log.then(AuditLog::open) {
            Some(Ok(log)) => {
                let log = Arc::new(log);
                log.attend(&denials)?;
                Some(log)
            }
            Some(Err(why)) => {
                tracing::warn!(%why, "`hooks.read_audit_log`: the kernel's audit log cannot be used, so what Landlock refuses is not reported");
                None
            }
            None => None,
        };
        Ok(Self {
            audit_log,
            pools: Pools::new(denials, own_filters, parts.spawners, switches_uid),
        })
    }

    /// Returns the audit log if it says anything about the runs of a plan.
    fn audit_log_for(&self, plan: &Plan) -> Option<&Arc<AuditLog>> {
        let Mechanism::Landlock(spec) = &plan.prepared.mechanism else {
            return None;
        };
        let log = self.audit_log.as_ref();
        log.filter(|_| can_log(spec))
    }
}

impl Sandbox {
    /// Starts the planned hook by its mechanism.
    pub(in crate::sandbox) async fn launch(
        &self,
        plan: &Plan,
        given: Given<'_>,
        identity: Option<Identity>,
    ) -> Result<(Start, Observed, Setup), Stop> {
        // Before the start, or what is uncertain about its first moments would not count.
        let log = self.launcher.audit_log_for(plan).map(|log| Reading {
            since: log.mark(),
            log: Arc::clone(log),
        });
        let (start, notes, setup) = match &plan.prepared.mechanism {
            Mechanism::Container(spec) => {
                self.start_in_container(plan, spec, given, identity).await?
            }
            Mechanism::Landlock(spec) => {
                self.start_child(plan, Some(spec), given, identity).await?
            }
            Mechanism::Unconfined => self.start_child(plan, None, given, identity).await?,
        };
        Ok((start, Observed { log, notes }, setup))
    }

    async fn start_in_container(
        &self,
        plan: &Plan,
        spec: &ContainerSpec,
        given: Given<'_>,
        identity: Option<Identity>,
    ) -> Result<(Start, Notes, Setup), Stop> {
        let Given {
            directory,
            execution,
            pipes,
            stdio,
        } = given;
        let scratch = directory.scratch();
        let started = starts_in(&plan.policy, &plan.admitted.request.hook);
        let Execution {
            argv,
            environment,
            own,
            program,
        } = execution;
        let path = own.last().map(|own| own.path.clone()).unwrap_or_default();
        // Large, and nested deep.
        let contained = Box::pin(self.contain(container::Start {
            deadline: plan.deadline,
            directory,
            grants: plan.opened.grants.iter().chain(&own).collect(),
            identity,
            limits: &plan.policy.limits,
            spec,
            stdio,
            what: What::Execute {
                argv,
                environment,
                file: Arc::new(program.into()),
                program: path,
            },
            working_dir: started.unwrap_or(&scratch),
        }));
        let (contained, came) = contained.await?;
        let released = Instant::now();
        let (errno, evidence) = match came {
            Came::Released { errno, evidence } => (errno, evidence),
            Came::Attempted(_) => {
                return Err(Fault::new("cannot start a hook", "attempts were made instead").into());
            }
        };
        let setup = Setup {
            asks: false,
            logged: false,
            confirmed: true,
            evidence,
            released,
        };
        // Nobody asks about the calls of a container.
        let notes = self.launcher.pools.denials.of(contained.group());
        if errno != 0 {
            contained.end().await;
            return Ok((Start::ExecFailed(errno), notes, setup));
        }
        let running = contained
            .watch(pipes)
            .map_err(|e| Fault::new("cannot watch the container", e))?;
        Ok((
            Start::Running(Box::new(Started::Contained(running))),
            notes,
            setup,
        ))
    }

    /// Starts a child of this process, under filters and a Landlock domain or under none.
    async fn start_child(
        &self,
        plan: &Plan,
        spec: Option<&FilterSpec>,
        given: Given<'_>,
        identity: Option<Identity>,
    ) -> Result<(Start, Notes, Setup), Stop> {
        let Given {
            directory,
            execution,
            pipes,
            stdio,
        } = given;
        let pool = self.launcher.pools.of_hooks(spec)?;
        let scratch = scratch_fd(directory)?;
        let Execution {
            argv,
            environment,
            own,
            program,
        } = execution;
        let granted = plan.opened.grants.iter().chain(&own);
        let ruleset = spec
            .map(|spec| self.ruleset_with(spec, granted, &scratch))
            .transpose()?;
        drop(own);
        let place = self.place()?;
        let logged = self.launcher.audit_log_for(plan).is_some();
        let parts = JobParts {
            action: Action::Execute {
                argv,
                environment,
                program: program.into(),
            },
            canaries: ruleset.is_some().then(|| self.canaries()).transpose()?,
            closing: pool.closing.clone(),
            group: Some(place.entry()),
            identity,
            limits: limits(&plan.policy.limits, identity),
            log: spec.map_or_else(LogFlags::default, |spec| log_flags(spec, logged)),
            ruleset,
            stdio,
            working_dir: plan.opened.working_dir.clone().unwrap_or(scratch),
        };
        let job = Job::new(parts)
            .map_err(|_| Fault::new("cannot prepare a child", "its closing filter is too long"))?;
        let job = Arc::new(job);
        let (pid, pidfd) = launch(&pool.pool, &job, plan.deadline).await?;
        let notes = self.launcher.pools.denials.of(pid);
        let running = Running::new(pid, pidfd, pipes, place)
            .map_err(|e| Fault::new("cannot watch the child", e))?;
        let released = Instant::now();
        let setup = |evidence| Setup {
            asks: pool.asks,
            logged,
            confirmed: plan.prepared.confines(),
            evidence,
            released,
        };

        let report = job.report();
        let executed = report.step() == Step::Release && report.errno() == 0;
        if !executed {
            running.abort().await;
            if report.step() == Step::Release {
                let start = Start::ExecFailed(report.errno());
                return Ok((start, notes, setup(evidence_of(&job))));
            }
            return Err(step_failed(plan, report.step(), report.errno()).into());
        }
        let mut evidence = evidence_of(&job);
        match self.attest(pid, plan, identity, pool.filters) {
            Ok(seen) => evidence.extend(seen),
            Err(why) => {
                running.abort().await;
                let refusal = Refusal::new(
                    Reason::BackendUnconfirmed,
                    format!("the released child is not as planned: {why}"),
                )
                .with("released", "true");
                return Err(refusal.into());
            }
        }
        Ok((
            Start::Running(Box::new(Started::Child(running))),
            notes,
            setup(evidence),
        ))
    }

    pub(in crate::sandbox) fn canaries(&self) -> Result<Canaries, Stop> {
        let c_string = |path: &Path| {
            CString::new(path.as_os_str().as_bytes())
                .map_err(|e| Fault::new("instance directory has a NUL byte", e))
        };
        let instance = &self.parts.instance;
        Ok(Canaries {
            denied: c_string(instance.canary_denied())?,
            granted: c_string(instance.canary_granted())?,
        })
    }

    /// Compares the kernel's word about a child with the plan. Returns what was seen, or what differs.
    fn attest(
        &self,
        pid: i32,
        plan: &Plan,
        identity: Option<Identity>,
        filters: u32,
    ) -> Result<Vec<Evidence>, String> {
        if weaken::lacks("proof", "attestation") {
            return Ok(Vec::new());
        }
        let status =
            Status::of(pid).map_err(|error| format!("its status cannot be read: {error}"))?;
        let mut seen = vec![Evidence {
            check: "uid",
            observed: status.uids[1].to_string(),
        }];
        if let Some(identity) = identity
            && (status.uids != [identity.uid; 4] || !status.bounding_set_empty)
        {
            return Err(format!(
                "uids {:?} instead of {}",
                status.uids, identity.uid
            ));
        }
        if !status.no_capabilities {
            return Err("it has capabilities".to_owned());
        }
        seen.push(Evidence {
            check: "capabilities",
            observed: "none".to_owned(),
        });
        if plan.prepared.mechanism != Mechanism::Unconfined {
            if !status.no_new_privs {
                return Err("NoNewPrivs is 0".to_owned());
            }
            if !status.is_filtered() || status.seccomp_filters != filters {
                let (mode, count) = (status.seccomp, status.seccomp_filters);
                return Err(format!(
                    "Seccomp is {mode} with {count} filters instead of 2 with {filters}"
                ));
            }
            seen.push(Evidence {
                check: "no_new_privs",
                observed: "1".to_owned(),
            });
            seen.push(Evidence {
                check: "seccomp_filters",
                observed: filters.to_string(),
            });
        }
        Ok(seen)
    }

    /// Returns the file that every confined run is granted.
    pub(in crate::sandbox) fn granted_canary(&self) -> OpenGrant {
        OpenGrant {
            path: self.parts.instance.canary_granted().to_owned(),
            rights: Rights::File(Access::Read),
            target: Arc::clone(self.parts.instance.canary_granted_open()),
        }
    }

    /// Makes a ruleset of grants, the run's scratch directory and the granted canary.
    pub(in crate::sandbox) fn ruleset_with<'a>(
        &self,
        spec: &FilterSpec,
        opened: impl IntoIterator<Item = &'a OpenGrant>,
        scratch: &Arc<OwnedFd>,
    ) -> Result<OwnedFd, Stop> {
        let of_run = [
            OpenGrant {
                path: PathBuf::new(),
                rights: Rights::Scratch,
                target: Arc::clone(scratch),
            },
            self.granted_canary(),
        ];
        let mut grants: Vec<_> = opened.into_iter().map(as_grant).collect();
        grants.extend(of_run.iter().map(as_grant));
        ruleset(spec, &grants).map_err(|error| {
            let message = format!(
                "Landlock refuses the ruleset: {}",
                crate::refusal::chain(&error)
            );
            Refusal::new(Reason::BackendUnconfirmed, message)
                .with("axis", "read")
                .into()
        })
    }

    /// Has a child under a mechanism make attempts; returns what came of each.
    pub(in crate::sandbox) async fn make_attempts(
        &self,
        policy: &Policy,
        mechanism: &Mechanism,
        directory: &RunDir,
        ground: &Ground,
        identity: Option<Identity>,
        attempts: Vec<Attempt>,
    ) -> Result<Vec<Option<isize>>, Stop> {
        let (stdio, _pipes) =
            pipes(&bytes::Bytes::new()).map_err(|e| Fault::new("cannot make pipes", e))?;
        let spec = match mechanism {
            Mechanism::Container(spec) => {
                let grants = self.granted(policy, ground)?;
                let scratch = directory.scratch();
                // Large, and these are nested deep.
                let contained = Box::pin(self.contain(container::Start {
                    deadline: Instant::now() + PATIENCE,
                    directory,
                    grants: grants.iter().collect(),
                    identity,
                    limits: &policy.limits,
                    spec,
                    stdio,
                    what: What::Attempt(attempts.iter().map(Attempt::describe).collect()),
                    working_dir: &scratch,
                }));
                let (contained, came) = contained.await?;
                contained.end().await;
                return match came {
                    Came::Attempted(results) => Ok(results),
                    Came::Released { .. } => {
                        Err(Fault::new("cannot make attempts", "a hook was started instead").into())
                    }
                };
            }
            Mechanism::Landlock(spec) => Some(spec),
            Mechanism::Unconfined => None,
        };
        let pool = self.launcher.pools.of_hooks(spec)?;
        let scratch = scratch_fd(directory)?;
        let ruleset = match spec {
            Some(spec) => {
                let opened = self.granted(policy, ground)?;
                Some(self.ruleset_with(spec, &opened, &scratch)?)
            }
            None => None,
        };
        let job = Job::new(JobParts {
            action: Action::Attempt(attempts),
            canaries: ruleset.is_some().then(|| self.canaries()).transpose()?,
            closing: pool.closing.clone(),
            group: None,
            identity,
            limits: limits(&policy.limits, identity),
            log: spec.map_or_else(LogFlags::default, |spec| log_flags(spec, false)),
            ruleset,
            stdio,
            working_dir: scratch,
        })
        .map_err(|_| Fault::new("cannot prepare a child", "its closing filter is too long"))?;
        let job = Arc::new(job);
        let (_, pidfd) = launch(&pool.pool, &job, Instant::now() + PATIENCE).await?;
        let watched =
            sys::watch(pidfd).map_err(|e| Fault::new("cannot watch the self-test's child", e))?;
        let ended = tokio::time::timeout(PATIENCE, watched.readable()).await;
        drop(ended);
        let reaped = sys::reap_watched(&watched);
        let report = job.report();
        if !matches!(reaped, Ok(Some(_))) || !report.did(Step::Release) {
            let (step, errno) = (report.step(), report.errno());
            let error = io::Error::from_raw_os_error(errno);
            let failed = format!(
                "the self-test's child stopped at step `{}`: {error}",
                step.name()
            );
            let refusal = Cause::refusal(of_step(step, errno), &failed).with("step", step.name());
            let of_reading = matches!(step, Step::CanaryDenied | Step::CanaryGranted);
            return Err(if of_reading {
                refusal.with("axis", Axis::Read.name()).into()
            } else {
                refusal.into()
            });
        }
        Ok(job.attempts().iter().map(Attempt::result).collect())
    }
}

/// Hands a job to the spawners and waits until the child has executed, or the deadline passed.
pub(in crate::sandbox) async fn launch(
    pool: &Pool,
    job: &Arc<Job>,
    deadline: Instant,
) -> Result<(i32, OwnedFd), Stop> {
    let gone = |_| {
        Refusal::new(
            Reason::BackendUnconfirmed,
            "the spawner threads are gone; restart the daemon",
        )
    };
    let mut answer = pool
        .launch(Arc::clone(job))
        .map_err(|e| gone(e.to_string()))?;
    let launch = match timeout_at(deadline.into(), &mut answer).await {
        Ok(launch) => launch.map_err(|e| gone(e.to_string()))?,
        Err(_) => {
            job.kill_stuck_child();
            let step = job.report().step().name();
            if let Ok(Ok(launch)) = timeout_at((Instant::now() + STUCK).into(), answer).await {
                sys::discard(launch);
            }
            let message = format!("the deadline passed while the child was at step `{step}`");
            return Err(Refusal::new(Reason::Deadline, message)
                .with("step", step)
                .into());
        }
    };
    match launch {
        Launch::Cloned { pid, pidfd } => Ok((pid, pidfd)),
        Launch::NotCloned(errno) => {
            Err(Fault::new("cannot clone", io::Error::from_raw_os_error(errno)).into())
        }
    }
}

/// Returns a grant as Landlock takes it.
fn as_grant(opened: &OpenGrant) -> Grant<'_> {
    Grant {
        rights: opened.rights,
        target: &opened.target,
    }
}

fn evidence_of(job: &Job) -> Vec<Evidence> {
    let report = job.report();
    let seen = |step, check, observed: &str| {
        report.did(step).then(|| Evidence {
            check,
            observed: observed.to_owned(),
        })
    };
    [
        seen(Step::Landlock, "landlock", "restricted"),
        seen(Step::CanaryGranted, "canary_granted", "opened"),
        seen(Step::CanaryDenied, "canary_denied", "EACCES"),
        seen(Step::ClosingFilter, "closing_filter", "loaded"),
        seen(Step::CloseFds, "descriptors", "0 1 2"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Says why a child stopped before its exec.
fn step_failed(plan: &Plan, step: Step, errno: i32) -> Refusal {
    let error = io::Error::from_raw_os_error(errno);
    if step == Step::WorkingDirectory {
        return InvalidField::new(
            "hook.working_dir",
            format!("cannot be entered by the hook's user: {error}"),
        )
        .into();
    }
    let name = step.name();
    let failed = if step == Step::CanaryDenied && errno == libc::EKEYEXPIRED {
        "the child could open a file that no rule grants: this kernel's Landlock does not confine"
            .to_owned()
    } else if errno == 0 {
        format!("the child died at step `{name}`")
    } else {
        format!("the child could not take step `{name}`: {error}")
    };
    Cause::refusal(of_step(step, errno), &failed)
        .with("step", step.name())
        .with("backend", plan.prepared.backend.as_str())
}

/// Returns what the child sets by `setrlimit`; never above the daemon's own hard limits, which nothing can raise.
pub(in crate::sandbox) fn limits(limits: &Limits, identity: Option<Identity>) -> Vec<(u32, u64)> {
    let mut set = vec![
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_FSIZE, limits.file_size),
        (Resource::RLIMIT_NOFILE, limits.open_files),
    ];
    set.extend(
        limits
            .address_space
            .map(|bytes| (Resource::RLIMIT_AS, bytes)),
    );
    // Counted for each uid: it means something only where the hook has one of its own.
    set.extend(identity.map(|_| (Resource::RLIMIT_NPROC, limits.tasks)));
    set.into_iter()
        .filter(|(resource, _)| !weaken::lacks("limit", format_args!("{resource:?}")))
        .map(|(resource, value)| {
            let hard = getrlimit(resource).map_or(value, |(_, hard)| hard);
            (resource as u32, value.min(hard))
        })
        .collect()
}
