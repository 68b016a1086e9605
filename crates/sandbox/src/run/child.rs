//! Starts hooks on Linux: as children of spawners with loaded filters, or in containers.

use std::{
    collections::BTreeSet,
    error::Error,
    ffi::CString,
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
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

use hookjail_base::{
    model::{InvalidField, axis::Axis},
    refusal::{Fact, Fault, Reason, Refusal, Stop, canceled, lacking},
};
use hookjail_policy::{
    Access, HookView, Keep, Limits, ScratchLimits, StateScope,
    rights::{FileRight, FileRights as GrantedRights, OF_FILES, Rights},
};
use hookjail_sys::{
    Attempt, Bind, BindKind, Canaries, ClosedPaths, FileRights, Found, Identity, Init, Job,
    JobParts, Keeper, Launch, Mounts, Note, Overdue, OwnIds, Placed, Private, ReadOnly, Report,
    Step, TerminalRights, Tmpfs, View,
};

use crate::{
    BackendName, Evidence, Released, Runner, SandboxParts, Setup, Started, Status, Task,
    landlock::{Grant, kernel_rights, nesting::of_step, ruleset, without_log},
    mutants,
    nesting::Cause,
    process::{self, Armed, Hold, Kill, Pipes, Running},
    run::{
        Probed, RunningHook, Start,
        cgroup::{Group, Grouped},
        child_spec::{Execution, pipes, scratch_fd},
        denials::Denials,
        grants::OpenGrant,
        read_only::{Closed, Instead, Kept},
        state::mirror::shown,
        task::Action,
        view::{Cover, Placement, private, without_links},
    },
    seccomp::{
        FilterSpec, Pool, Starts, Until,
        pools::{LoadedPool, Pools},
    },
};
use hookjail_sys as sys;

/// Limit on a hook's timers and queued signals.
///
/// The kernel counts them per user: without a limit, a hook under the daemon's uid could leave none for the user's
/// other processes.
const PENDING_SIGNALS: u64 = 256;

/// Rights on the pseudo-terminals of a run with a view of its own.
const TERMINALS: GrantedRights = GrantedRights::of(&[
    FileRight::IoctlDevice,
    FileRight::ReadDirectory,
    FileRight::ReadFile,
    FileRight::WriteFile,
]);

/// Time limit for the death of a killed child that is stuck before its exec.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// The launcher of hooks on Linux.
#[derive(Debug)]
pub(crate) struct Launcher {
    /// The first process of the process trees of runs.
    pub(crate) init: Init,
    /// Number of pid namespaces that this daemon is in.
    pid_levels: usize,
    pub(crate) pools: Pools,
}

impl Launched {
    /// Supervises the child until its end.
    ///
    /// # Errors
    ///
    /// Fails where the child cannot be registered with the async runtime; it is then killed.
    pub(crate) fn watch(self, pipes: Pipes) -> io::Result<Running> {
        let Self {
            armed,
            canceled,
            hold,
            init,
            pid,
            pidfd,
        } = self;
        let running = match init {
            None => Running::new(pid, pidfd, pipes, hold, Some(armed))?,
            Some(init) => Running::in_tree((pid, init), pidfd, pipes, hold, Some(armed))?,
        };
        Ok(match canceled {
            true => running.killed_for(process::Cause::Canceled),
            false => running,
        })
    }
}

impl Launcher {
    /// Creates the launcher.
    ///
    /// # Errors
    ///
    /// Fails where this process's own status cannot be read, without which no child could be attested, or the program of process
    /// trees cannot be made.
    pub(crate) fn new(parts: &SandboxParts) -> io::Result<Self> {
        let denials = Arc::new(Denials::new(
            Arc::clone(&parts.keeper),
            parts.observer.clone(),
        ));
        let own = Status::own()?;
        let own_filters = own.seccomp_filters;
        let starts = Starts {
            in_cgroup: (parts.cgroups.as_ref()).is_ok_and(|cgroups| cgroups.has_clone3()),
            switch_uid: parts.identities.is_some(),
        };
        Ok(Self {
            init: Init::new()?,
            pid_levels: own.pid_levels,
            pools: Pools::new(denials, own_filters, parts.spawners, starts),
        })
    }

    /// Returns whether a process belongs to a running hook.
    pub(crate) fn is_of_hook(&self, _keeper: &Keeper, pid: i32) -> bool {
        self.pools.denials.is_of_hook(pid)
    }
}

/// Starts a child of this process under filters and a Landlock domain. Without `filters` it is unconfined.
///
/// # Errors
///
/// Refuses where a part of the confinement cannot be applied or confirmed. The child is dead then.
pub(crate) async fn start(
    runner: &Runner,
    backend: BackendName,
    filters: Option<&FilterSpec>,
    task: Task<'_>,
) -> Result<Started, Stop> {
    let is_probe = matches!(task.action, Action::Probe(_));
    let pool = runner.launcher.pools.of_hooks(task.caller, filters)?;
    let (stdio, pipes) =
        pipes(&task.stdin, task.waits).map_err(|e| Fault::new("cannot make pipes", e))?;
    let hold = runner.hold(Some(pool.kept_with(&task.resources)))?;
    let expected = Expected {
        backend,
        filters: filters.map(|_| pool.filters),
        identity: task.identity.clone(),
        keeps: task.kept.is_some(),
        own_tree: filters.is_some() && task.policy.view == HookView::Own,
        pid_levels: runner.launcher.pid_levels,
        scratch: filters.and(task.policy.limits.scratch),
        state: filters.and(task.state.as_ref()).map(|state| state.scope),
    };
    let until = task.until.clone();
    let group = match filters {
        Some(_) => runner.cgroup(&task.policy.limits, 0)?,
        // Unconfined runs have no limits.
        None => None,
    };
    let job = job(runner, filters, task, (&pool, &hold, group.as_ref()), stdio)?;
    let job = Arc::new(job);
    let launched = launch(&pool.pool, &job, hold, until.clone()).await?;
    let child = Child {
        expected,
        group,
        job,
        pid: launched.pid,
        until,
    };
    // Also for a self-test, whose many denials are dropped with the notes.
    let notes = (runner.launcher.pools.denials).of(launched.init.unwrap_or(child.pid));
    if is_probe {
        return child.results(launched, pipes).await.map(Started::Probed);
    }
    let (start, evidence, released) = child.released(launched, pipes).await?;
    Ok(Started::Hook(Released {
        notes,
        setup: Setup {
            asks: pool.asks,
            confirmed: filters.is_some(),
            evidence,
            released,
        },
        start,
    }))
}

/// Prepares the job: the child's confinement and its action.
fn job(
    runner: &Runner,
    filters: Option<&FilterSpec>,
    task: Task<'_>,
    (pool, hold, group): (&LoadedPool, &Hold, Option<&Group>),
    stdio: [OwnedFd; 3],
) -> Result<Job, Stop> {
    let identity = task.identity.as_ref();
    let scratch = scratch_fd(task.directory)?;
    let of_run = of_run(runner, &task, &scratch);
    let lasting = Lasting::prepare(&task, &of_run);
    let lasting = lasting.map_err(|e| Fault::new("cannot show files that last", e))?;
    let of_state = lasting.grants();
    let mounts = filters.map(|spec| mounts_of(runner, spec, &task, (&scratch, lasting)));
    let mounts = mounts.transpose()?.flatten();
    // One that is mounted over it is granted by the child, which mounts it.
    let is_covered = (mounts.as_ref()).is_some_and(|mounts| mounts.scratch.is_some());
    let granted = (!is_covered).then(|| OpenGrant {
        path: PathBuf::new(),
        rights: temporary_rights(&task),
        target: Arc::clone(&scratch),
    });
    let ruleset = filters
        .map(|spec| ruleset_with(runner, spec, task.granted().chain(&of_state), granted))
        .transpose()?;
    let view = mounts.as_ref().and_then(|mounts| mounts.view.as_ref());
    let tree = view.map(|_| runner.launcher.init.clone());
    let canaries = ruleset
        .is_some()
        .then(|| canaries(runner, view))
        .transpose()?;
    let working_dir = (task.working_dir).map_or(scratch, |named| Arc::clone(&named.opened));
    let action = match task.action {
        Action::Execute(Execution {
            argv,
            environment,
            handed,
            own: _,
            path: _,
            placed: _,
            program,
        }) => sys::Action::Execute {
            argv,
            environment,
            handed,
            program: program.into(),
        },
        Action::Probe(attempts) => sys::Action::Attempt(attempts),
    };
    let parts = JobParts {
        action,
        canaries,
        cgroup: (group.map(Group::entry).transpose())
            .map_err(|e| Fault::new("cannot open the cgroup of a run", e))?,
        closing: pool.closing.clone(),
        group: Some(hold.entry()),
        identity: identity.cloned(),
        landlock_flags: filters.map_or(0, without_log),
        limits: limits(&task.policy.limits, identity, group.is_some()),
        mounts,
        note: note(hold, identity, filters.is_some()),
        ruleset,
        stdio,
        tree,
        umask: task.policy.umask,
        working_dir,
    };
    let too_long = |_| Fault::new("cannot prepare a child", "its closing filter is too long");
    Ok(Job::new(parts).map_err(too_long)?)
}

/// Expected kernel state of a released child.
#[derive(Debug)]
struct Expected {
    backend: BackendName,
    /// Number of seccomp filters; `None` = unconfined.
    filters: Option<u32>,
    identity: Option<Identity>,
    /// Whether the child keeps paths read-only.
    keeps: bool,
    /// Whether it has a process tree and a view of its own.
    own_tree: bool,
    /// Number of pid namespaces that the daemon is in.
    pid_levels: usize,
    /// Limits of its scratch directory, if there are any.
    scratch: Option<ScratchLimits>,
    /// The hooks that share its files that last, if it has any.
    state: Option<StateScope>,
}

/// A child and its expected confinement.
#[derive(Debug)]
struct Child {
    expected: Expected,
    group: Option<Group>,
    job: Arc<Job>,
    pid: i32,
    until: Until,
}

impl Child {
    /// Supervises a launched hook once its confinement was verified. Returns how it began, the evidence, and when.
    async fn released(
        self,
        launched: Launched,
        pipes: Pipes,
    ) -> Result<(Start, Vec<Evidence>, Instant), Stop> {
        let report = self.job.report();
        let backend = self.expected.backend;
        let executed = has_executed(report);
        let running = launched.watch(pipes);
        let running = running.map_err(|error| unwatched(executed, error))?;
        let released = Instant::now();
        let mut evidence = evidence_of(&self.job);
        if !executed {
            let killed = running.abort().await;
            let (step, errno) = (report.step(), report.errno());
            let lacks = lacking(&io::Error::from_raw_os_error(errno)).is_some();
            if step == Step::Release && !lacks {
                return Ok((Start::ExecFailed(errno), evidence, released));
            }
            return Err(match killed && errno == 0 {
                true => too_late(&self.until, step).into(),
                false => step_failed(backend, step, errno).into(),
            });
        }
        let attested = self.expected.attest(self.pid, report).and_then(|seen| {
            evidence.extend(seen);
            let seen = self.group.as_ref().map(|group| group.attest(self.pid));
            evidence.extend(
                seen.transpose()
                    .map_err(Unattested::Cgroup)?
                    .into_iter()
                    .flatten(),
            );
            Ok(())
        });
        match attested {
            Ok(()) => {}
            Err(why) => {
                running.abort().await;
                return Err(unseen("the released child is not as planned", &why).into());
            }
        }
        let running: Box<dyn RunningHook> = match self.group {
            Some(group) => Box::new(Grouped { group, running }),
            None => Box::new(running),
        };
        Ok((Start::Running(running), evidence, released))
    }

    /// Waits for the end of a self-test's child. Returns the result of each attempt.
    async fn results(self, launched: Launched, pipes: Pipes) -> Result<Probed, Stop> {
        let running = launched
            .watch(pipes)
            .map_err(|e| Fault::new("cannot watch the self-test's child", e))?;
        let leader = running.wait(self.until.deadline).await;
        let report = self.job.report();
        if leader.is_none() || !report.did(Step::Release) {
            let (step, errno) = (report.step(), report.errno());
            let what = format!("the self-test's child stopped at step `{}`", step.name());
            let refusal = stopped(step, errno, &what).with(Fact::Step(step.name().into()));
            let axis = if matches!(step, Step::CanaryDenied | Step::CanaryGranted) {
                Some(Axis::Read)
            } else {
                matches!(
                    step,
                    Step::ReadOnly | Step::Scratch | Step::Tree | Step::Init | Step::View
                )
                .then_some(Axis::Write)
            };
            return Err(match axis {
                Some(axis) => refusal.with(Fact::Axis(axis)).into(),
                None => refusal.into(),
            });
        }
        Ok(Probed {
            results: self.job.attempts().iter().map(Attempt::result).collect(),
            throttled: self.group.is_some_and(|group| group.was_throttled()),
        })
    }
}

impl Expected {
    /// Compares the kernel's state of a child with the expected one. Returns the evidence, or the difference.
    fn attest(&self, pid: i32, report: &Report) -> Result<Vec<Evidence>, Unattested> {
        if mutants::lacks("proof", "attestation") {
            return Ok(Vec::new());
        }
        let status = Status::of(pid)?;
        let mut seen = vec![Evidence {
            check: "uid",
            observed: status.uids[1].to_string(),
        }];
        if let Some(identity) = &self.identity {
            let mut groups = identity.groups.to_vec();
            groups.sort_unstable();
            let (uids, gids) = ([identity.uid; 4], [identity.gid; 4]);
            let found = (&status.uids, &status.gids, &status.groups);
            if found != (&uids, &gids, &groups) {
                let (found_uids, found_gids, found_groups) = found;
                return Err(Unattested::Differs(format!(
                    "uids {found_uids:?}, gids {found_gids:?} and groups {found_groups:?} instead of {uids:?}, {gids:?} and {groups:?}"
                )));
            }
            if !status.bounding_set_empty {
                return Err(Unattested::Differs(
                    "an exec could give it capabilities".to_owned(),
                ));
            }
        }
        if self.keeps && !report.did(Step::ReadOnly) {
            return Err(Unattested::Differs("nothing was kept read-only".to_owned()));
        }
        if let Some(limits) = self.scratch {
            if !report.did(Step::Scratch) {
                let why = "its scratch directory was not limited";
                return Err(Unattested::Differs(why.to_owned()));
            }
            seen.push(Evidence {
                check: "scratch",
                observed: limits.to_string(),
            });
        }
        if self.own_tree {
            let steps = [Step::Tree, Step::Init, Step::View];
            let lacking = steps.into_iter().find(|step| !report.did(*step));
            if let Some(step) = lacking {
                let why = format!("its step `{}` was not taken", step.name());
                return Err(Unattested::Differs(why));
            }
            if status.pid_levels != self.pid_levels + 1 {
                let why = format!(
                    "it is in {} pid namespaces instead of {}",
                    status.pid_levels,
                    self.pid_levels + 1
                );
                return Err(Unattested::Differs(why));
            }
            seen.push(Evidence {
                check: "tree",
                observed: "own".to_owned(),
            });
            seen.extend(self.state.map(|scope| Evidence {
                check: "state",
                observed: scope.name().to_owned(),
            }));
        }
        if self.keeps || self.own_tree || self.scratch.is_some() {
            // A child that creates a user namespace gets all capabilities in it, so its bounding set must be empty.
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
        if let Some(filters) = self.filters {
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
}

fn canaries(runner: &Runner, view: Option<&View>) -> Result<Canaries, Stop> {
    let c_string = |path: &Path| {
        CString::new(path.as_os_str().as_bytes())
            .map_err(|e| Fault::new("instance directory has a NUL byte", e))
    };
    // Nothing grants the root directory.
    let hidden = view.is_some_and(|view| view.covers(&runner.denied));
    let denied = if hidden {
        Path::new("/")
    } else {
        &runner.denied
    };
    Ok(Canaries {
        denied: c_string(denied)?,
        granted: c_string(&runner.granted)?,
    })
}

/// Creates a ruleset of grants, the run's scratch directory unless another covers it, and the granted canary.
fn ruleset_with<'a>(
    runner: &Runner,
    spec: &FilterSpec,
    opened: impl IntoIterator<Item = &'a OpenGrant>,
    scratch: Option<OpenGrant>,
) -> Result<OwnedFd, Stop> {
    let canary = runner.granted_canary();
    let of_run = scratch.iter().chain([&canary]);
    let mut grants: Vec<_> = opened.into_iter().map(as_grant).collect();
    grants.extend(of_run.map(as_grant));
    ruleset(spec, &grants).map_err(|error| {
        Refusal::failed("Landlock refuses the ruleset", &error, |message| {
            Refusal::new(Reason::BackendUnconfirmed, message).with(Fact::Axis(Axis::Read))
        })
        .into()
    })
}

/// Returns the rights on the directory for temporary files.
const fn temporary_rights(task: &Task<'_>) -> Rights {
    match task.policy.view {
        HookView::Machine => Rights::Scratch,
        HookView::Own => Rights::Private,
    }
}

/// Why the kernel's state of a child does not confirm its confinement.
#[derive(Debug, thiserror::Error)]
enum Unattested {
    #[error("it is not known to be in its cgroup")]
    Cgroup(#[source] io::Error),
    #[error("{0}")]
    Differs(String),
    #[error("its status cannot be read")]
    Unread(#[from] io::Error),
}

/// Refuses because a released child could not be inspected, or is not as expected. Its tree is dead.
pub(crate) fn unseen(what: &str, error: &(dyn Error + 'static)) -> Refusal {
    Refusal::failed(what, error, |message| {
        Refusal::new(Reason::BackendUnconfirmed, message)
    })
    .released()
}

/// Returns whether a child has executed its program.
fn has_executed(report: &Report) -> bool {
    report.step() == Step::Release && report.errno() == 0
}

/// Refuses because a child cannot be watched. Its tree is dead.
fn unwatched(executed: bool, error: io::Error) -> Stop {
    match executed {
        true => unseen("the released child cannot be watched", &error).into(),
        false => Fault::new("cannot watch the child", error).into(),
    }
}

/// A child that has executed its program or is gone, according to its job's report.
#[derive(Debug)]
pub(crate) struct Launched {
    /// Kills the child at the deadline.
    pub(crate) armed: Armed,
    /// Whether the child was killed because its start was canceled.
    pub(crate) canceled: bool,
    pub(crate) hold: Hold,
    /// The first process of the hook's own tree, if it has one.
    pub(crate) init: Option<i32>,
    pub(crate) pid: i32,
    pub(crate) pidfd: OwnedFd,
}

/// Passes a job to the spawners and waits for its exec; after `until`, for its kill.
///
/// # Errors
///
/// Refuses where nothing was started by then: `DEADLINE`, `CANCELED`.
pub(crate) async fn launch(
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
            // The deadline's timer has killed the child already.
            canceled = until.cancel.is_cancelled() && job.expire() == Overdue::Killed;
            match timeout(KILL_TIMEOUT, &mut answer).await {
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
            init: None,
            pid,
            pidfd,
        }),
        // Neither is reaped before the hold is given up, so that the numbers name nothing else.
        Launch::Tree { hook, init } => match sys::process(hook) {
            Ok(pidfd) => Ok(Launched {
                armed,
                canceled,
                hold,
                init: Some(init),
                pid: hook,
                pidfd,
            }),
            Err(error) => {
                let executed = has_executed(job.report());
                armed.disarm();
                job.expire();
                hold.leave(Pid::from_raw(init));
                Err(unwatched(executed, error))
            }
        },
        Launch::NotCloned(errno) => {
            Err(Fault::new("cannot clone", io::Error::from_raw_os_error(errno)).into())
        }
        Launch::TooLate => Err(too_late(&until, Step::Begin).into()),
    }
}

/// Waits for the end of a killed child that is stuck before its exec. Its resources stay occupied until then.
async fn outlive(answer: oneshot::Receiver<Launch>, armed: Armed, hold: Hold) {
    let launch = answer.await;
    armed.disarm();
    match launch {
        Ok(Launch::Cloned {
            pid: group,
            pidfd: _,
        })
        | Ok(Launch::Tree {
            hook: _,
            init: group,
        }) => hold.leave(Pid::from_raw(group)),
        Ok(Launch::NotCloned(_) | Launch::TooLate) | Err(_) => {}
    }
}

/// Returns where and how a child records its process group. The record has its uid, and whether filters decide about its calls.
pub(crate) fn note(hold: &Hold, identity: Option<&Identity>, filtered: bool) -> Option<Note> {
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
    refusal.with(Fact::Step(step.into()))
}

/// Converts a grant to Landlock's type.
fn as_grant(opened: &OpenGrant) -> Grant<'_> {
    Grant {
        rights: opened.rights,
        target: &opened.target,
    }
}

/// Returns the mounts of a confined child, if it needs any.
fn mounts_of(
    runner: &Runner,
    spec: &FilterSpec,
    task: &Task<'_>,
    (scratch, lasting): (&Arc<OwnedFd>, Lasting),
) -> Result<Option<Mounts>, Fault> {
    let fault = |e: io::Error| Fault::new("cannot prepare the mounts of a run", e);
    let identity = task.identity.as_ref();
    let kept = task.kept.filter(|_| !mutants::lacks("set-up", "read-only"));
    let read_only = kept.map(|kept| read_only_of(kept, &runner.closed));
    let read_only = read_only.transpose().map_err(fault)?;
    let limits = (task.policy.limits.scratch).filter(|_| !mutants::lacks("set-up", "scratch"));
    let path = task.directory.scratch();
    let tmpfs = limits.map(|ScratchLimits { bytes, files }| {
        let rights = kernel_rights(temporary_rights(task).allowed(), spec.landlock_abi);
        Tmpfs::covering((&path, scratch), (bytes, files), identity, rights)
    });
    let tmpfs = tmpfs.transpose().map_err(fault)?;
    let view = match task.policy.view {
        HookView::Machine => None,
        HookView::Own => Some(view_of(spec, task, (scratch, lasting)).map_err(fault)?),
    };
    if read_only.is_none() && tmpfs.is_none() && view.is_none() {
        return Ok(None);
    }
    let working_dir = match task.working_dir {
        Some(named) => Some(Found::of(&named.path, &named.opened)),
        None if tmpfs.is_some() => None,
        None => Some(Found::of(&path, scratch)),
    };
    Ok(Some(Mounts {
        // A daemon that gives hooks their own uids is root's and needs no user namespace.
        ids: identity.is_none().then(OwnIds::get),
        read_only,
        scratch: tmpfs,
        view,
        working_dir: working_dir.transpose().map_err(fault)?,
    }))
}

/// Returns what a child sees in the place of the machine's.
fn view_of(
    spec: &FilterSpec,
    task: &Task<'_>,
    (scratch, lasting): (&Arc<OwnedFd>, Lasting),
) -> io::Result<View> {
    let path = task.directory.scratch();
    let placed = placed(task);
    let scripts = placed.iter().map(|placement| {
        Ok(Placed {
            place: Found::of(&placement.place, &placement.original)?,
            source: Found::of(&placement.copy_path, &placement.copy)?,
        })
    });
    let scripts = scripts.collect::<io::Result<_>>()?;
    let temporary = task.state.as_ref().and_then(|it| it.temporary.as_ref());
    let cover = Cover {
        in_memory: task.policy.limits.scratch.is_some(),
        opened: temporary.map_or(scratch, |kept| &kept.opened),
        path: temporary.map_or(&path, |kept| &kept.path),
    };
    // Grants below a directory of files that last are shown in it.
    let shown_there = |grant: &OpenGrant| {
        let mut lasting = lasting.shown.iter();
        lasting.any(|shown| grant.path.starts_with(&shown.path))
    };
    let granted = lasting.granted.iter();
    let granted = granted.filter(|grant| !shown_there(grant));
    let granted: Vec<_> = granted.chain(&lasting.shown).collect();
    let private = private(cover, &granted)?;
    Ok(View {
        // First, and so seen through what covers the directories above them.
        private: lasting.private.into_iter().chain(private).collect(),
        proc_rights: kernel_rights(Rights::Directory(Access::Read).allowed(), spec.landlock_abi),
        scripts,
        terminals: TerminalRights {
            directory: kernel_rights(TERMINALS, spec.landlock_abi),
            file: kernel_rights(TERMINALS.common(OF_FILES), spec.landlock_abi),
        },
    })
}

/// Returns what a view shows of the run itself.
fn of_run(runner: &Runner, task: &Task<'_>, scratch: &Arc<OwnedFd>) -> [OpenGrant; 2] {
    let scratch = OpenGrant {
        path: task.directory.scratch(),
        rights: Rights::Private,
        target: Arc::clone(scratch),
    };
    [runner.granted_canary(), scratch]
}

/// Returns the scripts of a hook that are shown at their own paths.
fn placed<'a>(task: &'a Task<'_>) -> &'a [Placement] {
    match &task.action {
        Action::Execute(execution) => &execution.placed,
        Action::Probe(_) => &[],
    }
}

/// Files that outlast the run, as a view shows them.
#[derive(Debug, Default)]
struct Lasting {
    /// The grants, scripts that lie in none of them, and the run's own directories, at the paths at which a view shows them.
    granted: Vec<OpenGrant>,
    /// Mounts that cover directories of the machine.
    private: Vec<Private>,
    /// The directories that cover them.
    shown: Vec<OpenGrant>,
    /// The directory of the session's temporary files.
    temporary: Option<OpenGrant>,
}

impl Lasting {
    /// Prepares what is shown, with the rights of the hook's user.
    ///
    /// # Errors
    ///
    /// Returns the error of making an entry.
    fn prepare(task: &Task<'_>, of_run: &[OpenGrant]) -> io::Result<Self> {
        let placed = placed(task);
        // Granted by themselves.
        let alone = |place: &Path| !task.granted().any(|grant| place.starts_with(&grant.path));
        let alone = placed.iter().filter(|placement| alone(&placement.place));
        let alone = alone.map(|placement| {
            Ok(OpenGrant {
                path: placement.place.clone(),
                rights: Rights::File(Access::Execute),
                target: Arc::new(placement.copy.try_clone()?.into()),
            })
        });
        let alone = alone.collect::<io::Result<Vec<_>>>()?;
        let places = &task.policy.files.state;
        let mut lasting = match task.policy.view {
            HookView::Machine => return Ok(Self::default()),
            HookView::Own => Self {
                granted: without_links(task.granted().chain(&alone).chain(of_run), places),
                ..Self::default()
            },
        };
        let Some(state) = &task.state else {
            return Ok(lasting);
        };
        lasting.temporary = state.temporary.as_ref().map(|kept| OpenGrant {
            path: kept.path.clone(),
            rights: Rights::Private,
            target: Arc::clone(&kept.opened),
        });
        let granted: Vec<_> = lasting.granted.iter().collect();
        let identity = task.identity.as_ref();
        let _as_user = identity.map(|it| FileRights::of(it.uid, it.gid, &it.groups));
        // In order: a place comes after those that contain it, and is shown with them.
        for place in places.iter().collect::<BTreeSet<_>>() {
            let is_shown = |shown: &OpenGrant| place.starts_with(&shown.path);
            if lasting.shown.iter().any(is_shown) {
                continue;
            }
            if let Some((private, grant)) = shown(state, place, &granted, placed, places)? {
                lasting.private.push(private);
                lasting.shown.push(grant);
            }
        }
        Ok(lasting)
    }

    /// Returns the grants on directories of files that last.
    fn grants(&self) -> Vec<OpenGrant> {
        self.shown.iter().chain(&self.temporary).cloned().collect()
    }
}

/// Returns the paths of a workspace that a child keeps.
fn read_only_of(kept: &Kept, closed: &Closed) -> io::Result<ReadOnly> {
    let points = kept.points.iter();
    let binds = points.map(|(below, keep)| {
        Bind::new(
            below,
            match keep {
                Keep::Empty => BindKind::Empty,
                Keep::Hidden => BindKind::Hidden,
                Keep::Name => BindKind::Name,
                Keep::Unchanged => BindKind::ReadOnly,
            },
        )
    });
    let binds: Option<Vec<_>> = binds.collect();
    let has = |keep: Keep| kept.points.values().any(|it| *it == keep);
    let closed = |instead, is_needed: bool| {
        let entry = is_needed.then(|| closed.get(instead)).transpose()?;
        let found = entry.map(|(path, opened)| Found::of(path, opened));
        found.transpose()
    };
    Ok(ReadOnly {
        binds: binds.ok_or(io::ErrorKind::InvalidInput)?,
        closed: ClosedPaths {
            directory: closed(Instead::Directory, kept.hides_directories)?,
            empty: closed(Instead::Empty, has(Keep::Empty))?,
            file: closed(Instead::File, has(Keep::Hidden))?,
        },
        workspace: Found::of(&kept.workspace, &kept.target)?,
    })
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
        seen(Step::View, "view", "own"),
        seen(Step::Proc, "proc", "own"),
        seen(Step::Terminals, "terminals", "own"),
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

/// Renders a report's errno as text.
pub(crate) fn why_stopped(errno: i32) -> String {
    match errno {
        0 => "it was killed".to_owned(),
        errno => io::Error::from_raw_os_error(errno).to_string(),
    }
}

/// Refuses because of the step at which a child stopped before its exec.
pub(crate) fn step_failed(backend: BackendName, step: Step, errno: i32) -> Refusal {
    let error = io::Error::from_raw_os_error(errno);
    // Without an errno the child was killed, at any step.
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
        .with(Fact::Step(step.name().into()))
        .with(Fact::Backend(backend.as_str()))
}

/// Refuses because of a step at which a child failed or was killed.
fn stopped(step: Step, errno: i32, what: &str) -> Refusal {
    let unconfirmed = |failed: String| Cause::refusal(of_step(step, errno), &failed);
    match errno {
        0 => unconfirmed(format!("{what}: {}", why_stopped(errno))),
        // No temporary limit: the system may allow no user namespaces at all.
        libc::ENOSPC if matches!(step, Step::ReadOnly | Step::Scratch | Step::Tree) => {
            unconfirmed(format!("{what}: {}", why_stopped(errno)))
        }
        errno => Refusal::failed(what, &io::Error::from_raw_os_error(errno), unconfirmed),
    }
}

/// Returns the child's `setrlimit` values, never above the daemon's own hard limits. `has_cgroup`: whether a cgroup limits tasks, too.
pub(crate) fn limits(
    limits: &Limits,
    identity: Option<&Identity>,
    has_cgroup: bool,
) -> Vec<(u32, u64)> {
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
    // Tasks are counted for each uid, so the limit applies only to hooks with their own.
    let has_own_uid = identity.is_some_and(|identity| identity.group.is_none());
    // The cgroup is to refuse first: it counts what it refused.
    let tasks = limits.tasks + u64::from(has_cgroup);
    set.extend(has_own_uid.then_some((Resource::RLIMIT_NPROC, tasks)));
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
            let refusal = step_failed(BackendName::LANDLOCK, step, 0);
            assert_eq!(refusal.reason, Reason::BackendUnconfirmed);
            assert!(refusal.message.contains("it was killed"), "{refusal}");
        }
        // The positive control: with an errno it is the request's directory.
        let refusal = step_failed(BackendName::LANDLOCK, Step::WorkingDirectory, libc::EACCES);
        assert_eq!(refusal.reason, Reason::InvalidRequest);
    }

    #[test]
    fn a_step_that_fails_for_want_of_something_is_no_word_about_confinement() {
        for step in [Step::WorkingDirectory, Step::Landlock, Step::Release] {
            for errno in [libc::EAGAIN, libc::EMFILE, libc::ENFILE, libc::ENOMEM] {
                let refusal = step_failed(BackendName::LANDLOCK, step, errno);
                assert_eq!(refusal.reason, Reason::Overloaded, "{refusal}");
                let refusal = stopped(step, errno, "a self-test's child");
                assert_eq!(refusal.reason, Reason::Overloaded, "{refusal}");
            }
        }
        let refusal = step_failed(BackendName::LANDLOCK, Step::Landlock, libc::E2BIG);
        assert_eq!(refusal.reason, Reason::BackendUnconfirmed);
    }
}
