//! From an announced plan to a child that runs confined, and to its end.

use std::{
    collections::HashMap,
    ffi::CString,
    io, iter,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::time::timeout_at;

use super::{
    Backend, Identities, InstanceDir, Mechanism, Status, attest,
    confirm::Confirmations,
    grants::{KnownPlaces, OpenGrant},
    identity::Lease,
    linux::{self, Pool, Rights},
    means::{execute, limits, pipes, scratch_fd},
    scratch::RunDir,
};
use crate::{
    audit::Announced,
    policy::{Access, Plan},
    process::{self, Running, Supervision},
    refusal::{Fault, Reason, Refusal, Stop},
    request::InvalidField,
    sys::{Canaries, Identity, Job, JobParts, Keeper, Launch, Step, WaitStatus},
};

/// How long a child that is stuck before its exec may take to die once killed.
const STUCK: Duration = Duration::from_secs(5);

/// What a [`Sandbox`] is made of.
#[derive(Debug)]
pub struct SandboxParts {
    /// The backends in the operator's order.
    pub backends: Vec<Box<dyn Backend>>,
    /// Uids for hooks; `None` where hooks run as the daemon's own user.
    pub identities: Option<Arc<Identities>>,
    /// This daemon's directory.
    pub instance: InstanceDir,
    /// Kills what a killed daemon leaves.
    pub keeper: Arc<Keeper>,
    /// Threads that start hooks, for each different set of filters.
    pub spawners: usize,
}

/// Starts hooks confined.
#[derive(Debug)]
pub struct Sandbox {
    pub(super) confirmations: Confirmations,
    own_filters: u32,
    places: KnownPlaces,
    pub(super) parts: SandboxParts,
    pools: Mutex<HashMap<Option<linux::FilterSpec>, Arc<LoadedPool>>>,
}

/// Spawners, and what their children inherit.
#[derive(Debug)]
pub(super) struct LoadedPool {
    closing: Option<Arc<crate::sys::Closing>>,
    /// How many filters a released child has, the daemon's own included.
    filters: u32,
    pool: Pool,
}

impl LoadedPool {
    pub(super) const fn closing(&self) -> Option<&Arc<crate::sys::Closing>> {
        self.closing.as_ref()
    }

    pub(super) const fn pool(&self) -> &Pool {
        &self.pool
    }
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
    run: RunResources,
    setup: Setup,
}

/// How a released child began.
#[derive(Debug)]
enum Start {
    /// Confinement held, but the program could not be executed.
    ExecFailed(i32),
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
    pub async fn run(self) -> Ended {
        let Self {
            mut announced,
            end,
            run,
            setup,
        } = self;
        let end = match end {
            Start::ExecFailed(errno) => End::ExecFailed(errno),
            Start::Running(running) => {
                // The sender ends with the run: its other end is the caller's stream.
                let chunks = announced.take_chunks();
                let plan = announced.plan();
                let supervision = Supervision {
                    cancel: plan.admitted.call.cancel.clone(),
                    chunks,
                    deadline: plan.deadline,
                    on_output_limit: plan.policy.limits.on_output_limit,
                    output_bytes: usize::try_from(plan.policy.limits.output_bytes)
                        .unwrap_or(usize::MAX),
                };
                End::Ran(running.finish(supervision).await)
            }
        };
        // The tree is dead: what it left can be removed. A full scratch directory takes a while, and must not hold up others;
        // most are empty, and not worth another thread.
        if run.directory.remove_if_empty() {
            drop(run);
        } else if let Err(error) = tokio::task::spawn_blocking(move || drop(run)).await {
            tracing::error!(%error, "scratch directory could not be removed");
        }
        Ended {
            announced,
            end,
            setup,
        }
    }
}

impl Sandbox {
    /// Makes a sandbox.
    ///
    /// # Errors
    ///
    /// Fails where this process's own status cannot be read: without it no child could be attested.
    pub fn new(parts: SandboxParts) -> io::Result<Self> {
        let own_filters = Status::own()?.seccomp_filters;
        Ok(Self {
            confirmations: Confirmations::default(),
            own_filters,
            places: KnownPlaces::default(),
            parts,
            pools: Mutex::default(),
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
        let (end, run, setup) = self.start(&announced).await?;
        Ok(Confined {
            announced,
            end,
            run,
            setup,
        })
    }

    async fn start(&self, announced: &Announced) -> Result<(Start, RunResources, Setup), Stop> {
        let plan = announced.plan();
        let lease = self.lease()?;
        let identity = lease.as_ref().and_then(Lease::identity);
        let directory = self
            .parts
            .instance
            .run(identity)
            .map_err(|e| Fault::new("cannot make a scratch directory", e))?;
        let pool = self.pool(&plan.prepared.mechanism)?;
        let (stdio, pipes) = pipes(&plan.stdin).map_err(|e| Fault::new("cannot make pipes", e))?;
        let (action, script) = execute(plan, &directory, identity)?;
        let scratch = scratch_fd(&directory)?;
        let ruleset = match plan.prepared.mechanism {
            Mechanism::Landlock(spec) => Some(self.ruleset(&spec, plan, &scratch, script)?),
            Mechanism::Unconfined => None,
        };
        let place = self.parts.keeper.place().ok_or_else(|| {
            let message = "no more hooks can be watched at once; ask again later";
            Refusal::new(Reason::Overloaded, message)
        })?;
        let parts = JobParts {
            action,
            canaries: ruleset.is_some().then(|| self.canaries()).transpose()?,
            closing: pool.closing.clone(),
            group: Some(place.entry()),
            identity,
            limits: limits(&plan.policy.limits, identity),
            ruleset,
            stdio,
            working_dir: plan.opened.working_dir.clone().unwrap_or(scratch),
        };
        let job = Job::new(parts)
            .map_err(|_| Fault::new("cannot prepare a child", "its closing filter is too long"))?;
        let job = Arc::new(job);
        let (pid, pidfd) = launch(&pool.pool, &job, plan.deadline).await?;
        let running = Running::new(pid, pidfd, pipes, place)
            .map_err(|e| Fault::new("cannot watch the child", e))?;
        let released = Instant::now();

        let report = job.report();
        let executed = report.step() == Step::Release && report.errno() == 0;
        if !executed {
            running.abort().await;
            if report.step() == Step::Release {
                let setup = Setup {
                    confirmed: plan.prepared.backend.confines(),
                    evidence: evidence_of(&job),
                    released,
                };
                return Ok((
                    Start::ExecFailed(report.errno()),
                    RunResources {
                        directory,
                        _lease: lease,
                    },
                    setup,
                ));
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
        let confirmed = plan.prepared.backend.confines();
        let setup = Setup {
            confirmed,
            evidence,
            released,
        };
        Ok((
            Start::Running(Box::new(running)),
            RunResources {
                directory,
                _lease: lease,
            },
            setup,
        ))
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

    /// Returns the spawners of a mechanism; starts them at first use.
    pub(super) fn pool(&self, mechanism: &Mechanism) -> Result<Arc<LoadedPool>, Refusal> {
        let key = match mechanism {
            Mechanism::Landlock(spec) => Some(*spec),
            Mechanism::Unconfined => None,
        };
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.get(&key) {
            return Ok(Arc::clone(pool));
        }
        let unconfirmed = |what: &str, error: &dyn std::error::Error| {
            let message = format!("{what}: {}", crate::refusal::chain(error));
            Refusal::new(Reason::BackendUnconfirmed, message)
        };
        let (filters, closing) = match key {
            Some(spec) => {
                let filters = linux::compile(&spec, self.switches_uid())
                    .map_err(|e| unconfirmed("cannot compile the filters", &e))?;
                (filters.inherited, Some(Arc::new(filters.closing)))
            }
            None => (Vec::new(), None),
        };
        let own = u32::try_from(filters.len()).unwrap_or(u32::MAX) + u32::from(closing.is_some());
        let pool = Pool::start(self.parts.spawners, filters, self.switches_uid())
            .map_err(|e| unconfirmed("cannot start spawner threads with the filters loaded", &e))?;
        let pool = Arc::new(LoadedPool {
            closing,
            filters: self.own_filters + own,
            pool,
        });
        pools.insert(key, Arc::clone(&pool));
        Ok(pool)
    }

    /// Compares the kernel's word about a child with the plan. Returns what was seen, or what differs.
    fn attest(
        &self,
        pid: i32,
        plan: &Plan,
        identity: Option<Identity>,
        filters: u32,
    ) -> Result<Vec<Evidence>, String> {
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

    fn ruleset(
        &self,
        spec: &linux::FilterSpec,
        plan: &Plan,
        scratch: &Arc<OwnedFd>,
        script: Option<OwnedFd>,
    ) -> Result<OwnedFd, Stop> {
        let executable = plan
            .admitted
            .program
            .executable
            .try_clone()
            .map_err(|e| Fault::new("cannot keep the program open", e))?;
        let program: Vec<_> = iter::once(executable.into())
            .chain(script)
            .map(|target| OpenGrant {
                rights: Rights::File(Access::Execute),
                target: Arc::new(target),
            })
            .collect();
        let opened = plan.opened.grants.iter().chain(&program);
        self.ruleset_with(spec, opened, scratch)
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
                rights: Rights::Scratch,
                target: Arc::clone(scratch),
            },
            OpenGrant {
                rights: Rights::File(Access::Read),
                target: Arc::clone(self.parts.instance.canary_granted_open()),
            },
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
    let message = if step == Step::CanaryDenied && errno == libc::EKEYEXPIRED {
        "the child could open a file that no rule grants: this kernel's Landlock does not confine"
            .to_owned()
    } else if errno == 0 {
        format!("the child died at step `{name}`")
    } else {
        format!("the child could not take step `{name}`: {error}")
    };
    Refusal::new(Reason::BackendUnconfirmed, message)
        .with("step", step.name())
        .with("backend", plan.prepared.backend.as_str())
}
