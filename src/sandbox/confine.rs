//! From an announced plan to a child that runs confined, and to its end.

use std::{
    ffi::CString,
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::timeout_at;

use super::{
    Backend, Identities, InstanceDir, Mechanism, Order, Status, attest,
    audit_log::{AuditLog, Mark},
    confirm::Confirmations,
    container::{self, Came, ContainerSpec, What},
    denials::{Denials, Known, Notes},
    grants::{KnownPlaces, OpenGrant, starts_in},
    identity::Lease,
    linux::{self, FilterSpec, Pool, Rights},
    means::{Execution, limits, pipes, scratch_fd},
    nesting::{self, Cause},
    pools::Pools,
    scratch::RunDir,
};
use crate::{
    audit::Announced,
    policy::{Access, Files, Plan},
    process::{self, Pipes, Running, Supervision},
    refusal::{Fault, Reason, Refusal, Stop},
    request::InvalidField,
    root::{Root, View},
    sys::{
        Action, Canaries, Identity, Job, JobParts, Keeper, Launch, LogFlags, Place, Step,
        WaitStatus,
    },
    weaken,
};

/// How long a child that is stuck before its exec may take to die once killed.
const STUCK: Duration = Duration::from_secs(5);

/// What a [`Sandbox`] is made of.
#[derive(Debug)]
pub struct SandboxParts {
    /// Every backend that `order` names.
    pub backends: Vec<Box<dyn Backend>>,
    /// Uids for hooks; `None` where hooks run as the daemon's own user.
    pub identities: Option<Arc<Identities>>,
    /// This daemon's directory.
    pub instance: InstanceDir,
    /// Kills what a killed daemon leaves.
    pub keeper: Arc<Keeper>,
    /// Which of them a profile may run on.
    pub order: Order,
    /// Whether what Landlock refuses hooks is written to the kernel's audit log and read there.
    pub read_audit_log: bool,
    /// The system of containers; `None` = the host's.
    pub root: Option<Root>,
    /// Threads that start hooks, for each different set of filters.
    pub spawners: usize,
}

/// Starts hooks confined.
#[derive(Debug)]
pub struct Sandbox {
    /// The kernel's, where it is in use.
    audit_log: Option<Arc<AuditLog>>,
    pub(super) confirmations: Confirmations,
    places: KnownPlaces,
    pub(super) parts: SandboxParts,
    pub(super) pools: Pools,
}

/// Something that was seen in one run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Evidence {
    /// What was looked at.
    pub check: &'static str,
    /// What was seen.
    pub observed: String,
}

/// How long set-up took, and what it proved.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Whether the daemon is asked about the calls that the filters refuse.
    pub asks: bool,
    /// Whether the kernel's audit log says what Landlock refuses.
    pub logged: bool,
    /// Whether a self-test on this host and this run's evidence agree.
    pub confirmed: bool,
    /// What was seen.
    pub evidence: Vec<Evidence>,
    /// When the hook was released.
    pub released: Instant,
}

/// A hook that runs confined as planned.
///
/// Only [`Sandbox::confine`] makes one, from a child that executed the hook after its report covered the plan. Dropping
/// it kills the tree.
#[derive(Debug)]
#[must_use]
pub struct Confined {
    announced: Announced,
    end: Start,
    log: Option<Reading>,
    notes: Notes,
    run: RunResources,
    setup: Setup,
}

/// The audit log, and since when it is known to be written for a run.
#[derive(Clone, Debug)]
struct Reading {
    log: Arc<AuditLog>,
    since: Option<Mark>,
}

/// What a hook is given, by whatever it is confined.
struct Given<'a> {
    directory: &'a RunDir,
    execution: Execution,
    identity: Option<Identity>,
    pipes: Pipes,
    /// The hook's ends of them.
    stdio: [OwnedFd; 3],
}

/// How a released child began.
#[derive(Debug)]
enum Start {
    /// Confinement held, but the program could not be executed.
    ExecFailed(i32),
    /// It runs in a container.
    Contained(Box<container::Running>),
    /// It runs.
    Running(Box<Running>),
}

/// What a run holds until its tree is dead. Fields drop in this order: the directory before the uid is free again.
#[derive(Debug)]
struct RunResources {
    directory: RunDir,
    _lease: Option<Lease>,
}

/// The end of a run, whatever it was.
#[derive(Debug)]
pub struct Ended {
    /// The plan and its start record.
    pub announced: Announced,
    /// What it was denied, as far as that can be known.
    pub denied: Known,
    /// How it ended.
    pub end: End,
    /// What set-up proved.
    pub setup: Setup,
}

/// How a released hook ended.
#[derive(Debug)]
pub enum End {
    /// The program could not be executed; the errno.
    ExecFailed(i32),
    /// It ran.
    Ran(process::Ended),
}

impl Ended {
    /// Returns the exit code, if the hook exited.
    pub fn exit_code(&self) -> Option<i32> {
        match self.status() {
            Some(WaitStatus::Exited(code)) => Some(code),
            Some(WaitStatus::Signaled(_)) | None => None,
        }
    }

    /// Returns the signal, if one ended the hook.
    pub fn signal(&self) -> Option<i32> {
        match self.status() {
            Some(WaitStatus::Signaled(signal)) => Some(signal),
            Some(WaitStatus::Exited(_)) | None => None,
        }
    }

    fn status(&self) -> Option<WaitStatus> {
        match &self.end {
            End::ExecFailed(_) => None,
            End::Ran(ran) => ran.leader.map(|leader| leader.status),
        }
    }
}

impl Confined {
    /// Feeds the event and waits for the end of the whole tree. Consumes `self`: a hook starts once.
    ///
    /// # Errors
    ///
    /// The container that it ran in did not say how it ended.
    pub async fn run(self) -> Result<Ended, Stop> {
        let Self {
            mut announced,
            end,
            log,
            notes,
            run,
            setup,
        } = self;
        // The sender ends with the run: its other end is the caller's stream.
        let chunks = announced.take_chunks();
        let plan = announced.plan();
        let supervision = Supervision {
            cancel: plan.admitted.call.cancel.clone(),
            chunks,
            deadline: plan.deadline,
            on_output_limit: plan.policy.limits.on_output_limit,
            output_bytes: usize::try_from(plan.policy.limits.output_bytes).unwrap_or(usize::MAX),
        };
        let end = match end {
            Start::Contained(running) => running.finish(supervision).await.map(End::Ran),
            Start::ExecFailed(errno) => Ok(End::ExecFailed(errno)),
            Start::Running(running) => Ok(End::Ran(running.finish(supervision).await)),
        };
        // The tree is dead: what it left can be removed. A full scratch directory takes a while, and must not hold up others;
        // most are empty, and not worth another thread.
        if run.directory.remove_if_empty() {
            drop(run);
        } else if let Err(error) = tokio::task::spawn_blocking(move || drop(run)).await {
            tracing::error!(%error, "scratch directory could not be removed");
        }
        let asks = setup.asks;
        let known = match log {
            None => notes.take(false),
            // It waits for the kernel.
            Some(log) => {
                match tokio::task::spawn_blocking(move || log.finish(&notes, asks)).await {
                    Ok(known) => known,
                    Err(error) => {
                        tracing::error!(%error, "the audit log could not be read to the end of a run");
                        Known::default()
                    }
                }
            }
        };
        Ok(Ended {
            announced,
            denied: known,
            end: end.map_err(|gone| Fault::new("cannot tell how a hook ended", gone))?,
            setup,
        })
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

impl Sandbox {
    /// Makes a sandbox.
    ///
    /// # Errors
    ///
    /// Fails where this process's own status cannot be read: without it no child could be attested.
    pub fn new(mut parts: SandboxParts) -> io::Result<Self> {
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
            confirmations: Confirmations::default(),
            places: KnownPlaces::new(parts.root.take()),
            pools: Pools::new(denials, own_filters, parts.spawners, switches_uid),
            parts,
        })
    }

    /// Returns whether a process group or uid is that of a hook of this daemon.
    pub fn is_hook(&self, peer: &crate::admission::Peer) -> bool {
        let by_uid = self
            .parts
            .identities
            .as_ref()
            .is_some_and(|identities| identities.is_hook(peer.uid));
        let group = |pid| nix::unistd::getpgid(Some(nix::unistd::Pid::from_raw(pid))).ok();
        by_uid
            || peer
                .pid
                .and_then(group)
                .is_some_and(|group| self.parts.keeper.watches(group.as_raw()))
    }

    /// Returns the places of the system that stay open between runs.
    pub const fn places(&self) -> &KnownPlaces {
        &self.places
    }

    /// Returns whose files the paths of a hook are that is granted these.
    pub fn view<'a>(&'a self, files: &'a Files) -> View<'a> {
        View::of(self.places.root(), files)
    }

    /// Whether hooks find another system than the host's.
    pub const fn has_root(&self) -> bool {
        self.places.root().is_some()
    }

    /// Whether hooks get a uid of their own, so that the daemon opens files with more rights than they have.
    pub const fn switches_uid(&self) -> bool {
        self.parts.identities.is_some()
    }

    /// Starts the planned hook confined.
    ///
    /// # Errors
    ///
    /// Refuses where any part of confinement cannot be had or proved; then nothing of the hook has run, except where the
    /// kernel's own word about the released child differs from the plan: then the tree is dead.
    pub async fn confine(&self, announced: Announced) -> Result<Confined, Stop> {
        // Before the start, or what is uncertain about its first moments would not count.
        let log = self.audit_log_for(announced.plan()).map(|log| Reading {
            since: log.mark(),
            log: Arc::clone(log),
        });
        let (end, notes, run, setup) = self.start(&announced).await?;
        Ok(Confined {
            announced,
            end,
            log,
            notes,
            run,
            setup,
        })
    }

    /// Returns the audit log if it says anything about the runs of a plan.
    fn audit_log_for(&self, plan: &Plan) -> Option<&Arc<AuditLog>> {
        let Mechanism::Landlock(spec) = &plan.prepared.mechanism else {
            return None;
        };
        let log = self.audit_log.as_ref();
        log.filter(|_| linux::can_log(spec))
    }

    async fn start(
        &self,
        announced: &Announced,
    ) -> Result<(Start, Notes, RunResources, Setup), Stop> {
        let plan = announced.plan();
        let lease = self.lease()?;
        let identity = lease.as_ref().and_then(Lease::identity);
        let directory = self
            .parts
            .instance
            .run(identity)
            .map_err(|e| Fault::new("cannot make a scratch directory", e))?;
        let (stdio, pipes) = pipes(&plan.stdin).map_err(|e| Fault::new("cannot make pipes", e))?;
        let execution = Execution::of(plan, &directory, identity)?;
        let run = RunResources {
            directory,
            _lease: lease,
        };
        let given = Given {
            directory: &run.directory,
            execution,
            identity,
            pipes,
            stdio,
        };
        let (start, notes, setup) = match &plan.prepared.mechanism {
            Mechanism::Container(spec) => self.start_in_container(plan, spec, given).await?,
            Mechanism::Landlock(spec) => self.start_child(plan, Some(spec), given).await?,
            Mechanism::Unconfined => self.start_child(plan, None, given).await?,
        };
        Ok((start, notes, run, setup))
    }

    async fn start_in_container(
        &self,
        plan: &Plan,
        spec: &ContainerSpec,
        given: Given<'_>,
    ) -> Result<(Start, Notes, Setup), Stop> {
        let Given {
            directory,
            execution,
            identity,
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
        let notes = self.pools.denials.of(contained.group());
        if errno != 0 {
            contained.end().await;
            return Ok((Start::ExecFailed(errno), notes, setup));
        }
        let running = contained
            .watch(pipes)
            .map_err(|e| Fault::new("cannot watch the container", e))?;
        Ok((Start::Contained(Box::new(running)), notes, setup))
    }

    /// Starts a child of this process, under filters and a Landlock domain or under none.
    async fn start_child(
        &self,
        plan: &Plan,
        spec: Option<&FilterSpec>,
        given: Given<'_>,
    ) -> Result<(Start, Notes, Setup), Stop> {
        let Given {
            directory,
            execution,
            identity,
            pipes,
            stdio,
        } = given;
        let pool = self.pools.of_hooks(spec)?;
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
        let logged = self.audit_log_for(plan).is_some();
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
            log: spec.map_or_else(LogFlags::default, |spec| linux::log_flags(spec, logged)),
            ruleset,
            stdio,
            working_dir: plan.opened.working_dir.clone().unwrap_or(scratch),
        };
        let job = Job::new(parts)
            .map_err(|_| Fault::new("cannot prepare a child", "its closing filter is too long"))?;
        let job = Arc::new(job);
        let (pid, pidfd) = launch(&pool.pool, &job, plan.deadline).await?;
        let notes = self.pools.denials.of(pid);
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
        Ok((Start::Running(Box::new(running)), notes, setup(evidence)))
    }

    /// Takes a place in the table of what dies with the daemon.
    pub(super) fn place(&self) -> Result<Place, Refusal> {
        self.parts.keeper.place().ok_or_else(|| {
            let message = "no more hooks can be watched at once; ask again later";
            Refusal::new(Reason::Overloaded, message)
        })
    }

    pub(super) fn lease(&self) -> Result<Option<Lease>, Stop> {
        let Some(identities) = &self.parts.identities else {
            return Ok(None);
        };
        match identities.lease() {
            Ok(Some(lease)) => Ok(Some(lease)),
            Ok(None) => {
                let message = "all uids of `hooks.uid_range` are in use; enlarge the range or ask again later";
                Err(Refusal::new(Reason::Overloaded, message).into())
            }
            Err(error) => Err(Fault::new("cannot take a uid for the hook", error).into()),
        }
    }

    pub(super) fn canaries(&self) -> Result<Canaries, Stop> {
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
        let status = attest::Status::of(pid)
            .map_err(|error| format!("its status cannot be read: {error}"))?;
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
    pub(super) fn granted_canary(&self) -> OpenGrant {
        OpenGrant {
            path: self.parts.instance.canary_granted().to_owned(),
            rights: Rights::File(Access::Read),
            target: Arc::clone(self.parts.instance.canary_granted_open()),
        }
    }

    /// Makes a ruleset of grants, the run's scratch directory and the granted canary.
    pub(super) fn ruleset_with<'a>(
        &self,
        spec: &linux::FilterSpec,
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
        let mut grants: Vec<_> = opened.into_iter().map(OpenGrant::as_grant).collect();
        grants.extend(of_run.iter().map(OpenGrant::as_grant));
        linux::ruleset(spec, &grants).map_err(|error| {
            let message = format!(
                "Landlock refuses the ruleset: {}",
                crate::refusal::chain(&error)
            );
            Refusal::new(Reason::BackendUnconfirmed, message)
                .with("axis", "read")
                .into()
        })
    }
}

/// Hands a job to the spawners and waits until the child has executed, or the deadline passed.
pub(super) async fn launch(
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
                crate::sys::discard(launch);
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
    Cause::refusal(nesting::of_step(step, errno), &failed)
        .with("step", step.name())
        .with("backend", plan.prepared.backend.as_str())
}
