//! How hooks are started on Linux: as children of spawners that have loaded filters, or in containers.

use std::{
    error::Error,
    ffi::CString,
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use nix::{
    sys::resource::{Resource, getrlimit},
    unistd::{Pid, geteuid},
};
use tokio::{
    sync::oneshot,
    time::{sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{FilterSpec, Grant, Lease, Pool, Until, can_log, log_flags, nesting::of_step, ruleset};
use crate::{
    model::{InvalidField, axis::Axis},
    mutants,
    policy::{Access, Limits, Policy, rights::Rights},
    process::{self, Armed, Hold, Kill, Pipes, Running, Supervision},
    refusal::{Fault, Reason, Refusal, Stop, canceled, lacking},
    sandbox::{
        BackendName, Evidence, Mechanism, Sandbox, SandboxParts, Setup, Status, Task,
        audit_log::{AuditLog, Mark},
        confine::{Given, Start},
        container::{self, Came, ContainerSpec, What},
        denials::{Denials, Known, Notes},
        grants::OpenGrant,
        ground::Ground,
        means::{Execution, pipes, scratch_fd},
        nesting::Cause,
        pools::Pools,
        read_only::Kept,
        scratch::RunDir,
    },
    sys::{
        Action, Attempt, Bind, Canaries, Found, Identity, Job, JobParts, Launch, LogFlags, Note,
        Overdue, OwnIds, ReadOnly, Report, Step,
    },
};

/// How long one child of a self-test may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many timers and queued signals a hook may have. The kernel counts them for each user, so that a hook with the daemon's
/// would otherwise leave none for the user's other processes.
const PENDING_SIGNALS: u64 = 256;

/// How long a child that is stuck before its exec may take to die once killed, before that is no longer waited for.
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

/// A run until the death of its tree.
type Finish = Pin<Box<dyn Future<Output = Result<process::Ended, Stop>> + Send>>;

impl Started {
    /// Feeds the event and waits for the end of the whole tree.
    ///
    /// # Errors
    ///
    /// The container that it ran in did not say how it ended.
    pub(in crate::sandbox) fn finish(self, supervision: Supervision) -> Finish {
        match self {
            Self::Child(running) => Box::pin(async { Ok(running.finish(supervision).await) }),
            Self::Contained(running) => Box::pin(async {
                let gone = |gone| Fault::new("cannot tell how a hook ended", gone).into();
                running.finish(supervision).await.map_err(gone)
            }),
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

impl Launched {
    /// Takes charge of the child until its end.
    ///
    /// # Errors
    ///
    /// Returns the error of having the runtime watch it; it is then killed.
    pub(in crate::sandbox) fn watch(self, pipes: Pipes) -> io::Result<Running> {
        let Self {
            armed,
            canceled,
            hold,
            pid,
            pidfd,
        } = self;
        let running = Running::new(pid, pidfd, pipes, hold, Some(armed))?;
        Ok(match canceled {
            true => running.killed_for(process::Cause::Canceled),
            false => running,
        })
    }
}

impl Launcher {
    /// Makes what starts hooks.
    ///
    /// # Errors
    ///
    /// Fails where this process's own status cannot be read: without it no child could be attested.
    pub(in crate::sandbox) fn new(parts: &SandboxParts) -> io::Result<Self> {
        let denials = Arc::new(Denials::new(
            Arc::clone(&parts.keeper),
            parts.observer.clone(),
        ));
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
    fn audit_log_for(&self, task: Task<'_>) -> Option<&Arc<AuditLog>> {
        let Mechanism::Landlock(spec) = &task.prepared.mechanism else {
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
        task: Task<'_>,
        given: Given<'_>,
        identity: Option<Identity>,
    ) -> Result<(Start, Observed, Setup), Stop> {
        // Before the start, or what is uncertain about its first moments would not count.
        let log = self.launcher.audit_log_for(task).map(|log| Reading {
            since: log.mark(),
            log: Arc::clone(log),
        });
        let (start, notes, setup) = match &task.prepared.mechanism {
            Mechanism::Container(spec) => {
                self.start_in_container(task, spec, given, identity).await?
            }
            Mechanism::Landlock(spec) => {
                self.start_child(task, Some(spec), given, identity).await?
            }
            Mechanism::Unconfined => self.start_child(task, None, given, identity).await?,
        };
        Ok((start, Observed { log, notes }, setup))
    }

    async fn start_in_container(
        &self,
        task: Task<'_>,
        spec: &ContainerSpec,
        given: Given<'_>,
        identity: Option<Identity>,
    ) -> Result<(Start, Notes, Setup), Stop> {
        let Given {
            directory,
            execution,
            kept,
            pipes,
            stdio,
        } = given;
        let scratch = directory.scratch();
        let started = task.starts_in;
        let Execution {
            argv,
            environment,
            own,
            program,
        } = execution;
        let path = own.last().map(|own| own.path.clone()).unwrap_or_default();
        // Large, and nested deep.
        let read_only = task
            .opened
            .kept
            .as_ref()
            .map_or_else(|| Ok(Vec::new()), Kept::grants);
        let read_only = read_only.map_err(|e| Fault::new("cannot open what stays read-only", e))?;
        let contained = Box::pin(self.contain(container::Start {
            directory,
            read_only,
            grants: task.opened.grants.iter().chain(&own).collect(),
            identity,
            kept,
            limits: &task.policy.limits,
            spec,
            stdio,
            until: Until {
                cancel: task.cancel.clone(),
                deadline: task.deadline,
            },
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
            if lacking(&io::Error::from_raw_os_error(errno)).is_some() {
                return Err(step_failed(task.prepared.backend, Step::Release, errno).into());
            }
            return Ok((Start::ExecFailed(errno), notes, setup));
        }
        let running = contained
            .watch(pipes)
            .map_err(|e| unseen("the released hook's container cannot be watched", &e))?;
        Ok((
            Start::Running(Box::new(Started::Contained(running))),
            notes,
            setup,
        ))
    }

    /// Starts a child of this process, under filters and a Landlock domain or under none.
    async fn start_child(
        &self,
        task: Task<'_>,
        spec: Option<&FilterSpec>,
        given: Given<'_>,
        identity: Option<Identity>,
    ) -> Result<(Start, Notes, Setup), Stop> {
        let Given {
            directory,
            execution,
            kept,
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
        let granted = task.opened.grants.iter().chain(&own);
        let ruleset = spec
            .map(|spec| self.ruleset_with(spec, granted, &scratch))
            .transpose()?;
        drop(own);
        let started = task.starts_in;
        let started = started.map_or_else(|| directory.scratch(), Path::to_owned);
        let working_dir = task.opened.working_dir.clone().unwrap_or(scratch);
        let kept_read_only = task.opened.kept.as_ref();
        let read_only = kept_read_only
            .map(|kept| read_only_of(kept, (&started, &working_dir), identity))
            .transpose()?
            .flatten();
        let hold = self.hold(Some(kept))?;
        let logged = self.launcher.audit_log_for(task).is_some();
        let parts = JobParts {
            action: Action::Execute {
                argv,
                environment,
                program: program.into(),
            },
            canaries: ruleset.is_some().then(|| self.canaries()).transpose()?,
            closing: pool.closing.clone(),
            group: Some(hold.entry()),
            identity,
            limits: limits(&task.policy.limits, identity),
            log: spec.map_or_else(LogFlags::default, |spec| log_flags(spec, logged)),
            note: note(&hold, identity, spec.is_some()),
            read_only,
            ruleset,
            stdio,
            working_dir,
        };
        let job = Job::new(parts)
            .map_err(|_| Fault::new("cannot prepare a child", "its closing filter is too long"))?;
        let job = Arc::new(job);
        let until = Until {
            cancel: task.cancel.clone(),
            deadline: task.deadline,
        };
        let launched = launch(&pool.pool, &job, hold, until.clone()).await?;
        let pid = launched.pid;
        let notes = self.launcher.pools.denials.of(pid);
        let report = job.report();
        let executed = report.step() == Step::Release && report.errno() == 0;
        let running = launched.watch(pipes).map_err(|e| match executed {
            true => unseen("the released child cannot be watched", &e).into(),
            false => Stop::from(Fault::new("cannot watch the child", e)),
        })?;
        let released = Instant::now();
        let setup = |evidence| Setup {
            asks: pool.asks,
            logged,
            confirmed: task.prepared.confines(),
            evidence,
            released,
        };

        if !executed {
            let killed = running.abort().await;
            let errno = io::Error::from_raw_os_error(report.errno());
            if report.step() == Step::Release && lacking(&errno).is_none() {
                let start = Start::ExecFailed(report.errno());
                return Ok((start, notes, setup(evidence_of(&job))));
            }
            let (step, errno) = (report.step(), report.errno());
            return Err(match killed && errno == 0 {
                true => too_late(&until, step).into(),
                false => step_failed(task.prepared.backend, step, errno).into(),
            });
        }
        let mut evidence = evidence_of(&job);
        match self.attest(pid, task, identity, (pool.filters, report)) {
            Ok(seen) => evidence.extend(seen),
            Err(why) => {
                running.abort().await;
                return Err(unseen("the released child is not as planned", &why).into());
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
        task: Task<'_>,
        identity: Option<Identity>,
        (filters, report): (u32, &Report),
    ) -> Result<Vec<Evidence>, Unattested> {
        if mutants::lacks("proof", "attestation") {
            return Ok(Vec::new());
        }
        let status = Status::of(pid)?;
        let mut seen = vec![Evidence {
            check: "uid",
            observed: status.uids[1].to_string(),
        }];
        if let Some(identity) = identity
            && (status.uids != [identity.uid; 4] || !status.bounding_set_empty)
        {
            return Err(Unattested::Differs(format!(
                "uids {:?} instead of {}",
                status.uids, identity.uid
            )));
        }
        if task.opened.kept.is_some() {
            if !report.did(Step::ReadOnly) {
                return Err(Unattested::Differs("nothing was kept read-only".to_owned()));
            }
            // Where it got them with a user namespace.
            if !status.bounding_set_empty {
                let why = "an exec could give it capabilities in its namespace";
                return Err(Unattested::Differs(why.to_owned()));
            }
        }
        if !status.no_capabilities {
            return Err(Unattested::Differs("it has capabilities".to_owned()));
        }
        seen.push(Evidence {
            check: "capabilities",
            observed: "none".to_owned(),
        });
        if task.prepared.mechanism != Mechanism::Unconfined {
            if !status.no_new_privs {
                return Err(Unattested::Differs("NoNewPrivs is 0".to_owned()));
            }
            if !status.is_filtered() || status.seccomp_filters != filters {
                let (mode, count) = (status.seccomp, status.seccomp_filters);
                return Err(Unattested::Differs(format!(
                    "Seccomp is {mode} with {count} filters instead of 2 with {filters}"
                )));
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
            Refusal::failed("Landlock refuses the ruleset", &error, |message| {
                Refusal::new(Reason::BackendUnconfirmed, message).with("axis", "read")
            })
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
        lease: Option<&Lease>,
        attempts: Vec<Attempt>,
    ) -> Result<Vec<Option<isize>>, Stop> {
        let identity = lease.map(Lease::identity);
        let kept = lease.map(|lease| Arc::new(lease.clone()));
        let until = Until {
            cancel: CancellationToken::new(),
            deadline: Instant::now() + PATIENCE,
        };
        let (stdio, pipes) =
            pipes(&bytes::Bytes::new()).map_err(|e| Fault::new("cannot make pipes", e))?;
        let spec = match mechanism {
            Mechanism::Container(spec) => {
                let grants = self.granted(policy, ground)?;
                let scratch = directory.scratch();
                let fault = |e| Fault::new("cannot open the self-test's files", e);
                let read_only = match policy.files.read_only.is_empty() {
                    true => Vec::new(),
                    false => ground
                        .kept()
                        .and_then(|kept| kept.grants())
                        .map_err(fault)?,
                };
                // Large, and these are nested deep.
                let contained = Box::pin(self.contain(container::Start {
                    directory,
                    read_only,
                    grants: grants.iter().collect(),
                    identity,
                    kept: kept.map_or_else(|| Arc::new(()) as _, |kept| kept as _),
                    limits: &policy.limits,
                    spec,
                    stdio,
                    until,
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
        let read_only = match spec {
            Some(spec) if spec.mounts => {
                let fault = |e| Fault::new("cannot open the self-test's files", e);
                let kept = ground.kept().map_err(fault)?;
                read_only_of(&kept, (&directory.scratch(), &scratch), identity)?
            }
            Some(_) | None => None,
        };
        let hold = self.hold(kept.map(|kept| kept as _))?;
        let job = Job::new(JobParts {
            action: Action::Attempt(attempts),
            canaries: ruleset.is_some().then(|| self.canaries()).transpose()?,
            closing: pool.closing.clone(),
            group: Some(hold.entry()),
            identity,
            limits: limits(&policy.limits, identity),
            log: spec.map_or_else(LogFlags::default, |spec| log_flags(spec, false)),
            note: note(&hold, identity, spec.is_some()),
            read_only,
            ruleset,
            stdio,
            working_dir: scratch,
        })
        .map_err(|_| Fault::new("cannot prepare a child", "its closing filter is too long"))?;
        let job = Arc::new(job);
        let launched = launch(&pool.pool, &job, hold, until).await?;
        let running = launched
            .watch(pipes)
            .map_err(|e| Fault::new("cannot watch the self-test's child", e))?;
        let leader = running.wait(Instant::now() + PATIENCE).await;
        let report = job.report();
        if leader.is_none() || !report.did(Step::Release) {
            let (step, errno) = (report.step(), report.errno());
            let what = format!("the self-test's child stopped at step `{}`", step.name());
            let refusal = stopped(step, errno, &what).with("step", step.name());
            let axis = if matches!(step, Step::CanaryDenied | Step::CanaryGranted) {
                Some(Axis::Read)
            } else {
                (step == Step::ReadOnly).then_some(Axis::Write)
            };
            return Err(match axis {
                Some(axis) => refusal.with("axis", axis.name()).into(),
                None => refusal.into(),
            });
        }
        Ok(job.attempts().iter().map(Attempt::result).collect())
    }
}

/// Why the kernel's word about a child does not confirm it.
#[derive(Debug, thiserror::Error)]
enum Unattested {
    #[error("{0}")]
    Differs(String),
    #[error("its status cannot be read")]
    Unread(#[from] io::Error),
}

/// Refuses because of a released child that could not be looked at, or is not as it must be. Its tree is dead.
fn unseen(what: &str, error: &(dyn Error + 'static)) -> Refusal {
    Refusal::failed(what, error, |message| {
        Refusal::new(Reason::BackendUnconfirmed, message)
    })
    .with("released", "true")
}

/// A child that has executed its program, or is gone; its job's report says which.
#[derive(Debug)]
pub(in crate::sandbox) struct Launched {
    /// Kills it at the deadline.
    pub(in crate::sandbox) armed: Armed,
    /// Whether it was killed because nobody wants it any more.
    pub(in crate::sandbox) canceled: bool,
    pub(in crate::sandbox) hold: Hold,
    pub(in crate::sandbox) pid: i32,
    pub(in crate::sandbox) pidfd: OwnedFd,
}

/// Hands a job to the spawners and waits until the child has executed, or has been killed because `until` is over.
///
/// # Errors
///
/// Refuses where nothing was started by then: `DEADLINE`, `CANCELED`.
pub(in crate::sandbox) async fn launch(
    pool: &Pool,
    job: &Arc<Job>,
    hold: Hold,
    until: Until,
) -> Result<Launched, Stop> {
    let gone = |_| {
        Refusal::new(
            Reason::BackendUnconfirmed,
            "the spawner threads are gone; restart the daemon",
        )
    };
    let expiring = Arc::clone(job);
    let armed = hold.arm(until.deadline, move || match expiring.expire() {
        Overdue::Killed => Kill::Sent,
        Overdue::Over => Kill::NotNeeded,
        Overdue::Unnamed => Kill::TooSoon,
    });
    let mut answer = pool
        .launch(Arc::clone(job), Some(until.clone()))
        .map_err(|e| gone(e.to_string()))?;
    let in_time = tokio::select! {
        biased;
        launch = &mut answer => Some(launch),
        () = until.cancel.cancelled() => None,
        () = sleep_until(until.deadline.into()) => None,
    };
    let mut canceled = false;
    let launch = match in_time {
        Some(launch) => launch,
        None if pool.take_back(job) => return Err(too_late(&until, Step::Begin).into()),
        None => {
            // At the deadline it is killed already.
            canceled = until.cancel.is_cancelled() && job.expire() == Overdue::Killed;
            match timeout(STUCK, &mut answer).await {
                Ok(launch) => launch,
                Err(_) => {
                    let step = job.report().step();
                    tracing::error!(step = step.name(), "a killed child does not end");
                    tokio::spawn(outlive(answer, armed, hold));
                    return Err(too_late(&until, step).into());
                }
            }
        }
    };
    match launch.map_err(|e| gone(e.to_string()))? {
        Launch::Cloned { pid, pidfd } => Ok(Launched {
            armed,
            canceled,
            hold,
            pid,
            pidfd,
        }),
        Launch::NotCloned(errno) => {
            Err(Fault::new("cannot clone", io::Error::from_raw_os_error(errno)).into())
        }
        Launch::TooLate => Err(too_late(&until, Step::Begin).into()),
    }
}

/// Waits for the end of a killed child that is stuck before its exec. What it holds stays occupied until then.
async fn outlive(answer: oneshot::Receiver<Launch>, armed: Armed, hold: Hold) {
    let launch = answer.await;
    armed.disarm();
    if let Ok(Launch::Cloned { pid, pidfd: _ }) = launch {
        hold.leave(Pid::from_raw(pid));
    }
}

/// Returns where and how a child writes its group down: whose rights it has, and whether filters decide about its calls.
pub(in crate::sandbox) fn note(
    hold: &Hold,
    identity: Option<Identity>,
    filtered: bool,
) -> Option<Note> {
    let uid = identity.map_or_else(|| geteuid().as_raw(), |identity| identity.uid);
    hold.note(uid, filtered)
}

/// Refuses because a child was not released in time.
fn too_late(until: &Until, step: Step) -> Refusal {
    let step = step.name();
    let refusal = if until.cancel.is_cancelled() {
        canceled()
    } else {
        let message = format!("the deadline passed while the child was at step `{step}`");
        Refusal::new(Reason::Deadline, message)
    };
    refusal.with("step", step)
}

/// Returns a grant as Landlock takes it.
fn as_grant(opened: &OpenGrant) -> Grant<'_> {
    Grant {
        rights: opened.rights,
        target: &opened.target,
    }
}

/// Returns what a child is to keep read-only, and where it starts then.
fn read_only_of(
    kept: &Kept,
    (path, working_dir): (&Path, &OwnedFd),
    identity: Option<Identity>,
) -> Result<Option<ReadOnly>, Fault> {
    if mutants::lacks("set-up", "read-only") {
        return Ok(None);
    }
    let fault = |e: io::Error| Fault::new("cannot prepare what stays read-only", e);
    let points = kept.points.iter();
    let binds = points.map(|(below, read_only)| Bind::new(below, *read_only));
    let binds: Option<Vec<_>> = binds.collect();
    Ok(Some(ReadOnly {
        binds: binds.ok_or_else(|| fault(io::ErrorKind::InvalidInput.into()))?,
        // With uids of its own for hooks, the daemon is root's.
        ids: identity.is_none().then(OwnIds::get),
        working_dir: Found::of(path, working_dir).map_err(fault)?,
        workspace: Found::of(&kept.workspace, &kept.target).map_err(fault)?,
    }))
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
        seen(Step::ReadOnly, "read_only", "mounted"),
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

/// Says in words what a report's errno means.
pub(in crate::sandbox) fn why_stopped(errno: i32) -> String {
    match errno {
        0 => "it was killed".to_owned(),
        errno => io::Error::from_raw_os_error(errno).to_string(),
    }
}

/// Says why a child stopped before its exec.
fn step_failed(backend: BackendName, step: Step, errno: i32) -> Refusal {
    let error = io::Error::from_raw_os_error(errno);
    // Without an errno it was killed, wherever it was.
    if step == Step::WorkingDirectory && errno != 0 {
        let what = "cannot be entered by the hook's user";
        return Refusal::failed(what, &error, |problem| {
            InvalidField::new("hook.working_dir", problem).into()
        });
    }
    let refusal = if step == Step::CanaryDenied && errno == libc::EKEYEXPIRED {
        let failed = "the child could open a file that no rule grants: this kernel's Landlock does not confine";
        Cause::refusal(of_step(step, errno), failed)
    } else {
        let what = format!("the child stopped at step `{}`", step.name());
        stopped(step, errno, &what)
    };
    refusal
        .with("step", step.name())
        .with("backend", backend.as_str())
}

/// Refuses because of a step that a child could not take, or was killed at.
fn stopped(step: Step, errno: i32, what: &str) -> Refusal {
    let unconfirmed = |failed: String| Cause::refusal(of_step(step, errno), &failed);
    match errno {
        0 => unconfirmed(format!("{what}: {}", why_stopped(errno))),
        // What there are too many of is the system's to say for good: none may be allowed at all.
        libc::ENOSPC if step == Step::ReadOnly => {
            unconfirmed(format!("{what}: {}", why_stopped(errno)))
        }
        errno => Refusal::failed(what, &io::Error::from_raw_os_error(errno), unconfirmed),
    }
}

/// Returns what the child sets by `setrlimit`; never above the daemon's own hard limits, which nothing can raise.
pub(in crate::sandbox) fn limits(limits: &Limits, identity: Option<Identity>) -> Vec<(u32, u64)> {
    let mut set = vec![
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_FSIZE, limits.file_size),
        (Resource::RLIMIT_NOFILE, limits.open_files),
        (Resource::RLIMIT_SIGPENDING, PENDING_SIGNALS),
    ];
    set.extend(
        limits
            .address_space
            .map(|bytes| (Resource::RLIMIT_AS, bytes)),
    );
    // Counted for each uid: it means something only where the hook has one of its own.
    set.extend(identity.map(|_| (Resource::RLIMIT_NPROC, limits.tasks)));
    set.into_iter()
        .filter(|(resource, _)| !mutants::lacks("limit", format_args!("{resource:?}")))
        .map(|(resource, value)| {
            let hard = getrlimit(resource).map_or(value, |(_, hard)| hard);
            (resource as u32, value.min(hard))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_was_killed_while_set_up_is_said_to_have_been_wherever_it_was() {
        for step in [Step::WorkingDirectory, Step::Landlock, Step::CanaryDenied] {
            let refusal = step_failed(BackendName::Landlock, step, 0);
            assert_eq!(refusal.reason, Reason::BackendUnconfirmed);
            assert!(refusal.message.contains("it was killed"), "{refusal}");
        }
        // The positive control: with an errno it is the request's directory.
        let refusal = step_failed(BackendName::Landlock, Step::WorkingDirectory, libc::EACCES);
        assert_eq!(refusal.reason, Reason::InvalidRequest);
    }

    #[test]
    fn a_step_that_fails_for_want_of_something_is_no_word_about_confinement() {
        for step in [Step::WorkingDirectory, Step::Landlock, Step::Release] {
            for errno in [libc::EAGAIN, libc::EMFILE, libc::ENFILE, libc::ENOMEM] {
                let refusal = step_failed(BackendName::Landlock, step, errno);
                assert_eq!(refusal.reason, Reason::Overloaded, "{refusal}");
                let refusal = stopped(step, errno, "a self-test's child");
                assert_eq!(refusal.reason, Reason::Overloaded, "{refusal}");
            }
        }
        let refusal = step_failed(BackendName::Landlock, Step::Landlock, libc::E2BIG);
        assert_eq!(refusal.reason, Reason::BackendUnconfirmed);
    }
}
