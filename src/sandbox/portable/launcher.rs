//! How hooks are started: by a fork of this process that executes them.

use std::{
    ffi::CString,
    fs::File,
    io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use nix::sys::resource::{Resource, getrlimit};
use tokio::{task::spawn_blocking, time::timeout_at};

use super::{Known, Mechanism};
use crate::{
    admission::{Kept, allowlist::Role},
    policy::{Limits, Plan, Policy},
    process::{self, Running, Supervision},
    refusal::{Fault, Reason, Refusal, Stop},
    sandbox::{
        Sandbox, SandboxParts, Setup,
        confine::{Given, Start},
        grants::OpenGrant,
        ground::Ground,
        means::{Execution, copy, scratch_fd},
        scratch::RunDir,
    },
    sys::{self, Attempt, Identity, Place, Process},
};

/// How long a child that is stuck before its exec may take to die once killed.
const STUCK: Duration = Duration::from_secs(5);

/// What starts hooks: this process itself.
#[derive(Debug)]
pub(in crate::sandbox) struct Launcher(());

/// A hook that runs.
#[derive(Debug)]
pub(in crate::sandbox) struct Started(Running);

/// Would take note of what a run is denied.
#[derive(Debug)]
pub(in crate::sandbox) struct Observed(());

impl Started {
    /// Feeds the event and waits for the end of the whole process group.
    ///
    /// # Errors
    ///
    /// Never; on Linux a container may end without a word.
    pub(in crate::sandbox) async fn finish(
        self,
        supervision: Supervision,
    ) -> Result<process::Ended, Stop> {
        Ok(self.0.finish(supervision).await)
    }
}

impl Observed {
    /// Returns what is known of a run: nothing.
    pub(in crate::sandbox) async fn known(self, _asks: bool) -> Known {
        Known::default()
    }
}

impl Launcher {
    /// Makes what starts hooks.
    ///
    /// # Errors
    ///
    /// Never; on Linux there is something to look at.
    pub(in crate::sandbox) fn new(parts: &SandboxParts) -> io::Result<Self> {
        if parts.read_audit_log {
            tracing::warn!(
                "`hooks.read_audit_log`: only Linux has an audit log that says what hooks were refused"
            );
        }
        Ok(Self(()))
    }
}

impl Sandbox {
    /// Starts the planned hook by its mechanism.
    pub(in crate::sandbox) async fn launch(
        &self,
        plan: &Plan,
        given: Given<'_>,
        _identity: Option<Identity>,
    ) -> Result<(Start, Observed, Setup), Stop> {
        let Given {
            directory,
            execution,
            pipes,
            stdio,
        } = given;
        let path = executed(plan, &execution, directory)?;
        let Execution {
            argv, environment, ..
        } = execution;
        let scratch = scratch_fd(directory)?;
        let place = self.place()?;
        let start = sys::Start {
            argv,
            environment,
            group: place.entry(),
            limits: limits(&plan.policy.limits),
            program: c_string(&path)?,
            stdio,
            working_dir: plan.opened.working_dir.clone().unwrap_or(scratch),
        };
        let setup = Setup {
            asks: false,
            confirmed: plan.prepared.confines(),
            evidence: Vec::new(),
            logged: false,
            released: Instant::now(),
        };
        let start = match spawn(start, place, plan.deadline).await? {
            Ok((process, place)) => {
                let running = Running::new(process.pid(), process, pipes, place)
                    .map_err(|e| Fault::new("cannot watch the child", e))?;
                Start::Running(Box::new(Started(running)))
            }
            Err(errno) => Start::ExecFailed(errno),
        };
        Ok((start, Observed(()), setup))
    }

    /// Would have a child under a mechanism make attempts.
    pub(in crate::sandbox) async fn make_attempts(
        &self,
        policy: &Policy,
        mechanism: &Mechanism,
        _directory: &RunDir,
        ground: &Ground,
        _identity: Option<Identity>,
        _attempts: Vec<Attempt>,
    ) -> Result<Vec<Option<isize>>, Stop> {
        drop(self.granted(policy, ground)?);
        match mechanism {
            Mechanism::Unconfined => Err(Fault::new(
                "cannot make attempts",
                "nothing that confines is served on this system",
            )
            .into()),
        }
    }
}

/// Starts a program and waits until it was executed, or the deadline passed. An errno is that of the exec, or of a step before.
/// The place is the one that the child writes its group to.
async fn spawn(
    start: sys::Start,
    place: Place,
    deadline: Instant,
) -> Result<Result<(Process, Place), i32>, Stop> {
    let group = place.entry();
    let given_up = Arc::new(AtomicBool::new(false));
    let nobody_waits = Arc::clone(&given_up);
    let mut starting = spawn_blocking(move || {
        let process = sys::start(start)?;
        if nobody_waits.load(Ordering::Acquire) {
            // It must not live on unsupervised.
            sys::discard(process);
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok::<_, io::Error>((process, place))
    });
    let started = match timeout_at(deadline.into(), &mut starting).await {
        Ok(started) => started,
        Err(_) => {
            given_up.store(true, Ordering::Release);
            // It hangs before its exec, or it is not there yet; an error is that there is none.
            drop(sys::kill_group(group));
            let late = timeout_at((Instant::now() + STUCK).into(), starting).await;
            if let Ok(Ok(Ok((process, _place)))) = late {
                sys::discard(process);
            }
            let message = "the deadline passed while the child was started";
            return Err(Refusal::new(Reason::Deadline, message).into());
        }
    };
    match started.map_err(|e| Fault::new("cannot start a child", e))? {
        Ok(started) => Ok(Ok(started)),
        Err(error) => match error.raw_os_error() {
            Some(errno) => Ok(Err(errno)),
            None => Err(Fault::new("cannot start a child", error).into()),
        },
    }
}

/// Returns the path of what is executed: a file's own where nobody but root can put another there, else a copy's. Nothing here
/// executes a descriptor.
fn executed(plan: &Plan, execution: &Execution, directory: &RunDir) -> Result<PathBuf, Stop> {
    let program = &plan.admitted.program;
    if program.kept == Kept::ByCopy {
        let copied = execution.own.last().map(|own: &OpenGrant| own.path.clone());
        return Ok(copied.unwrap_or_default());
    }
    let by_interpreter =
        |digest: &crate::admission::allowlist::Digest| digest.role == Role::Interpreter;
    let named = match program.argv.first() {
        Some(interpreter) if program.digests.iter().any(by_interpreter) => Path::new(interpreter),
        _ => &program.path,
    };
    if let Some(path) = only_roots(named, &execution.program) {
        return Ok(path);
    }
    let sha256 = program.executable_sha256();
    let (path, _) = copy(directory, "program", &program.executable, named, sha256)?;
    Ok(path)
}

/// Whether an opened file that is kept as it is can be used by its path: nobody but root can put another there.
pub(in crate::sandbox) fn stays(path: &Path, opened: &File) -> bool {
    only_roots(path, opened).is_some_and(|found| found == path)
}

/// Returns the path of an opened file without links, if it is the one there and nobody but root can change what is.
fn only_roots(named: &Path, opened: &File) -> Option<PathBuf> {
    let path = named.canonicalize().ok()?;
    let (found, opened) = (path.metadata().ok()?, opened.metadata().ok()?);
    if (found.dev(), found.ino()) != (opened.dev(), opened.ino()) {
        return None;
    }
    let roots = |path: &Path| {
        path.metadata()
            .is_ok_and(|metadata| metadata.uid() == 0 && metadata.mode() & 0o022 == 0)
    };
    path.ancestors().all(roots).then_some(path)
}

/// Returns what the child sets by `setrlimit`; never above the daemon's own hard limits. Memory is not among them: no limit on
/// it is kept by all of these systems.
fn limits(limits: &Limits) -> Vec<(Resource, libc::rlim_t)> {
    [
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_FSIZE, limits.file_size),
        (Resource::RLIMIT_NOFILE, limits.open_files),
    ]
    .into_iter()
    .map(|(resource, value)| {
        // A signed number on some of these systems.
        let value = value.min(i64::MAX.unsigned_abs()) as libc::rlim_t;
        let hard = getrlimit(resource).map_or(value, |(_, hard)| hard);
        (resource, value.min(hard))
    })
    .collect()
}

fn c_string(path: &Path) -> Result<CString, Fault> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|e| Fault::new("a program's path has a NUL byte", e))
}
