//! Starts a child of this process under filters and a Landlock domain, and confirms both.

use std::{
    ffi::CString,
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use hookjail_base::{
    model::axis::Axis,
    refusal::{Fact, Fault, Reason, Refusal, Stop, lacking},
};
use hookjail_policy::{HookView, HostSource, Network};
use hookjail_sys::{Attempt, Canaries, Job, JobParts, Step, View};

use super::{
    attest::{Expected, Unattested, evidence_of},
    mounts::{Lasting, mounts_of, of_run, temporary_rights},
};
use crate::{
    BackendName, Evidence, Released, Runner, Setup, Started, Task,
    egress::Registered,
    landlock::{Grant, ruleset, without_log},
    launch::{
        Launched, has_executed, launch, limits, note, step_failed, stopped, too_late, unseen,
        unwatched,
    },
    process::{Hold, Pipes},
    resources::cgroup::{Group, Grouped},
    run::{
        Probed, RunningHook, Start,
        child_spec::{Execution, pipes, scratch_fd},
        grants::OpenGrant,
        task::Action,
    },
    seccomp::{FilterSpec, Until, pools::LoadedPool},
};
use hookjail_sys as sys;

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
    let egress = match filters {
        Some(_) => egress_of(runner, &task, &pool, &hold)?,
        // Unconfined runs connect by themselves.
        None => None,
    };
    let group = match filters {
        Some(_) => runner.cgroup(task.caller, &task.policy.limits, 0)?,
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
    let notes = (runner.launcher.pools.denials).notes(launched.init.unwrap_or(child.pid), egress);
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

/// Makes the hosts of a task's profile known to the listener, before anything of it can connect.
///
/// # Errors
///
/// Refuses where the filters report no calls: nothing could connect, and the axis `network` would not be as the profile has it.
fn egress_of(
    runner: &Runner,
    task: &Task<'_>,
    pool: &LoadedPool,
    hold: &Hold,
) -> Result<Option<Registered>, Stop> {
    if task.policy.network != Network::Named {
        return Ok(None);
    }
    if !pool.asks {
        let message = "`network = \"named\"` needs a filter that reports to the daemon, which another listener prevents; \
                       run outside that sandbox, or set `network = \"none\"`";
        let refusal = Refusal::new(Reason::PolicyUnenforceable, message);
        return Err(refusal.with(Fact::Axis(Axis::Network)).into());
    }
    let relays = &runner.launcher.pools.denials.relays;
    let registered = relays.register(hold.entry(), &task.policy.egress);
    let registered = registered.map_err(|e| Fault::new("cannot make the relay's sockets", e))?;
    Ok(Some(registered))
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
    let lasting = of_run(runner, &task, &scratch);
    let lasting = lasting.and_then(|of_run| Lasting::prepare(&task, &of_run));
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
        .then(|| canaries(runner, view, reaches_named_hosts(&task)))
        .transpose()?;
    let working_dir = (task.working_dir).map_or(scratch, |named| Arc::clone(&named.opened));
    let action = match task.action {
        Action::Execute(Execution {
            argv,
            environment,
            own: _,
            path: _,
            placed: _,
            program,
        }) => sys::Action::Execute {
            argv,
            environment,
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
            } else if step == Step::CanaryUnnamed {
                Some(Axis::Network)
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

fn reaches_named_hosts(task: &Task<'_>) -> bool {
    task.policy.network == Network::Named && task.policy.egress.source != HostSource::Hook
}

/// Returns the canaries of a run; `connects` where it reaches named hosts alone.
fn canaries(runner: &Runner, view: Option<&View>, connects: bool) -> Result<Canaries, Stop> {
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
        connects,
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

/// Converts a grant to Landlock's type.
fn as_grant(opened: &OpenGrant) -> Grant<'_> {
    Grant {
        rights: opened.rights,
        target: &opened.target,
    }
}
