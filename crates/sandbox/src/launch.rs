//! Starts a child by the spawners, waits for its exec, and words the step at which a child stopped.

use std::{error::Error, io, os::fd::OwnedFd, sync::Arc, time::Duration};

use nix::{
    sys::resource::{Resource, getrlimit},
    unistd::{Pid, geteuid},
};
use tokio::{
    sync::oneshot,
    time::{sleep_until, timeout},
};

use hookjail_base::{
    model::InvalidField,
    refusal::{Fact, Fault, Reason, Refusal, Stop, canceled},
};
use hookjail_policy::Limits;
use hookjail_sys::{Identity, Init, Job, Keeper, Launch, Note, Overdue, Report, Step};

use crate::{
    BackendName, SandboxParts, Status,
    landlock::nesting::of_step,
    mutants,
    nesting::Cause,
    process::{self, Armed, Hold, Kill, Pipes, Running},
    run::denials::Denials,
    seccomp::{Pool, Starts, Until, pools::Pools},
};
use hookjail_sys as sys;

/// Limit on a hook's timers and queued signals.
///
/// The kernel counts them per user: without a limit, a hook under the daemon's uid could leave none for the user's
/// other processes.
const PENDING_SIGNALS: u64 = 256;

/// Time limit for the death of a killed child that is stuck before its exec.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// The launcher of hooks on Linux.
#[derive(Debug)]
pub(crate) struct Launcher {
    /// The first process of the process trees of runs.
    pub(crate) init: Init,
    /// Number of pid namespaces that this daemon is in.
    pub(crate) pid_levels: usize,
    pub(crate) pools: Pools,
}

impl Launched {
    /// Supervises the child until its end.
    ///
    /// # Errors
    ///
    /// Fails where the child cannot be registered with the async runtime; the child is then killed.
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
        let status = Status::read_own()?;
        let own_filters = status.seccomp_filters;
        let starts = Starts {
            in_cgroup: (parts.cgroups.as_ref()).is_ok_and(|cgroups| cgroups.has_clone3()),
            switch_uid: parts.identities.is_some(),
        };
        Ok(Self {
            init: Init::new()?,
            pid_levels: status.pid_levels,
            pools: Pools::new(denials, own_filters, parts.spawners, starts),
        })
    }

    /// Returns whether a process belongs to a running hook.
    pub(crate) fn is_of_hook(&self, _keeper: &Keeper, pid: i32) -> bool {
        self.pools.denials.is_of_hook(pid)
    }
}

/// Refuses because a released child could not be inspected, or is not as expected. Its tree is dead.
pub(crate) fn unseen(what: &str, error: &(dyn Error + 'static)) -> Refusal {
    Refusal::failed(what, error, |message| {
        Refusal::new(Reason::BackendUnconfirmed, message)
    })
    .released()
}

/// Returns whether a child has executed its program.
pub(crate) fn has_executed(report: &Report) -> bool {
    report.step() == Step::Release && report.errno() == 0
}

/// Refuses because a child cannot be watched. Its tree is dead.
pub(crate) fn unwatched(executed: bool, error: io::Error) -> Stop {
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
pub(crate) fn too_late(until: &Until, step: Step) -> Refusal {
    let step = step.name();
    let refusal = if until.cancel.is_cancelled() {
        canceled()
    } else {
        let message = format!("the deadline passed while the child was at step `{step}`");
        Refusal::new(Reason::Deadline, message)
    };
    refusal.with(Fact::Step(step.into()))
}

/// Renders a report's errno as text.
pub(crate) fn why_stopped(errno: i32) -> String {
    match errno {
        0 => "the child was killed".to_owned(),
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
    let refusal = match (step, errno) {
        (Step::CanaryDenied, libc::EKEYEXPIRED) => {
            let failed = "the child could open a file that no rule grants: this kernel's Landlock does not confine";
            Cause::refusal(of_step(step, errno), failed)
        }
        (Step::CanaryUnnamed, libc::ECONNREFUSED | libc::EKEYEXPIRED) => {
            let failed =
                "the child could connect beside the daemon's relay: its calls are not reported";
            Cause::refusal(of_step(step, errno), failed)
        }
        _ => {
            let what = format!("the child stopped at step `{}`", step.name());
            stopped(step, errno, &what)
        }
    };
    refusal
        .with(Fact::Step(step.name().into()))
        .with(Fact::Backend(backend.as_str()))
}

/// Refuses because of a step at which a child failed or was killed.
pub(crate) fn stopped(step: Step, errno: i32, what: &str) -> Refusal {
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
    // The cgroup is to refuse first, because it counts its refusals.
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
            assert!(
                refusal.message.contains("the child was killed"),
                "{refusal}"
            );
        }
        for errno in [libc::ECONNREFUSED, libc::EKEYEXPIRED] {
            let refusal = step_failed(BackendName::LANDLOCK, Step::CanaryUnnamed, errno);
            assert_eq!(refusal.reason, Reason::BackendUnconfirmed);
            assert!(refusal.message.contains("beside the daemon's relay"));
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
