//! Starts hooks by a fork of this process that executes them.

use std::{
    env,
    ffi::{CString, OsStr},
    fs::File,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use nix::{
    errno::Errno,
    sys::{
        resource::{Resource, getrlimit},
        stat::Mode,
    },
};
use tokio_util::sync::CancellationToken;

use hookjail_base::{
    model::OnOutputLimit,
    refusal::{Fault, Reason, Refusal, Stop},
};
use hookjail_policy::{Limits, Policy};
use hookjail_sys::{Attempt, BY_NAME, Keeper, Links, open_beneath};

use crate::{
    Evidence, Released, Runner, SandboxParts, Setup, Started, Task,
    portable::{
        Known, attempts,
        start::{self, Line, Until, not_executed},
        witness,
    },
    process::{Hold, Pipes, Supervision},
    run::{
        Probed, Start,
        child_spec::{Execution, pipes, scratch_fd},
        connection::Connections,
        grants::OpenGrant,
        read_only::Kept,
        task::Action,
    },
    seatbelt::{
        self, Generated, Granted, Places, SANDBOX_EXEC,
        witness::{Order, Proof},
    },
};
use hookjail_sys as sys;

/// Limit on the kept output of a self-test's child, bytes.
const PROBE_OUTPUT_BYTES: usize = 64 * 1024;

/// A launcher of hooks as direct children of the daemon.
#[derive(Debug)]
pub(crate) struct Launcher {
    /// The daemon's own paths.
    own: Vec<PathBuf>,
    this: This,
}

/// Placeholder for a run's denials, which cannot be observed here.
#[derive(Debug)]
pub(crate) struct Notes(());

impl Notes {
    /// Returns the known denials and connections of a run: none.
    pub(crate) fn take(self) -> (Known, Connections) {
        (Known, Connections::default())
    }
}

impl Launcher {
    /// Creates the launcher.
    ///
    /// # Errors
    ///
    /// Fails where this program's own file is not found, which self-tests and profiles execute.
    pub(crate) fn new(parts: &SandboxParts) -> io::Result<Self> {
        Ok(Self {
            own: parts.own.clone(),
            this: This::find()?,
        })
    }

    /// Returns whether a process belongs to a running hook.
    pub(crate) fn is_of_hook(&self, keeper: &Keeper, pid: i32) -> bool {
        let group = nix::unistd::getpgid(Some(nix::unistd::Pid::from_raw(pid)));
        group.is_ok_and(|group| keeper.watches(group.as_raw()))
    }
}

/// Starts a child: under a Seatbelt profile of its policy, or unconfined.
///
/// # Errors
///
/// Refuses where a part of the confinement cannot be applied or confirmed. The child is dead then.
pub(crate) async fn start(
    runner: &Runner,
    is_confined: bool,
    task: Task<'_>,
) -> Result<Started, Stop> {
    match &task.action {
        Action::Execute(_) => hook(runner, is_confined, task).await.map(Started::Hook),
        Action::Probe(_) => {
            let results = probe(runner, is_confined, task).await?;
            Ok(Started::Probed(Probed {
                results,
                throttled: false,
            }))
        }
    }
}

/// Starts a hook.
async fn hook(runner: &Runner, is_confined: bool, task: Task<'_>) -> Result<Released, Stop> {
    let Task {
        action,
        directory,
        grants,
        kept,
        policy,
        resources,
        stdin,
        until,
        waits,
        working_dir,
        caller: _,
        identity: _,
        // Files that last are shown by views, which Linux alone has.
        state: _,
    } = task;
    let Action::Execute(execution) = action else {
        return Err(Fault::new("cannot start a hook", "attempts are to be made").into());
    };
    let (stdio, pipes) = pipes(&stdin, waits).map_err(|e| Fault::new("cannot make pipes", e))?;
    let scratch = scratch_fd(directory)?;
    let Execution {
        argv,
        environment,
        own: own_grants,
        path: program,
        program: _,
    } = execution;
    let child = ChildSpec {
        argv,
        environment,
        hold: runner.hold(Some(resources))?,
        limits: limits(&policy.limits),
        pipes,
        program,
        stdio,
        umask: policy.umask,
        working_dir: working_dir.map(|named| Arc::clone(&named.opened)),
    };
    let (begun, proof) = if is_confined {
        let canary = runner.granted_canary();
        // The program itself is the last, and named beside these.
        let own_grants = own_grants.split_last().map_or(&[][..], |(_, rest)| rest);
        let reach = Reach {
            closed: runner.launcher.closed(),
            granted: grants,
            kept,
            own: own_grants.iter().chain([&canary]).collect(),
            scratch,
        };
        let (begun, proof) = start_confined(runner, policy, child, reach, until).await?;
        (begun, Some(proof))
    } else {
        (start_unconfined(child, scratch, until).await?, None)
    };
    let start = match begun {
        Ok(running) => Start::Running(Box::new(running)),
        Err(errno) => Start::ExecFailed(errno as i32),
    };
    Ok(Released {
        notes: Notes(()),
        setup: setup(proof.as_ref()),
        start,
    })
}

/// Runs this program as a self-test's child; returns the results of the attempts.
async fn probe(
    runner: &Runner,
    is_confined: bool,
    task: Task<'_>,
) -> Result<Vec<Option<isize>>, Stop> {
    let Task {
        action,
        directory,
        grants,
        kept,
        policy,
        resources,
        until,
        ..
    } = task;
    let Action::Probe(attempts) = action else {
        return Err(Fault::new("cannot make attempts", "a hook is to be started").into());
    };
    let broken = |error: io::Error| Fault::new("cannot make attempts", error);
    let program = runner.launcher.this.path()?.to_owned();
    let input = serde_json::to_vec(&attempts).map_err(|e| broken(e.into()))?;
    let (stdio, pipes) = pipes(&input.into(), false).map_err(broken)?;
    let scratch = scratch_fd(directory)?;
    let child = ChildSpec {
        argv: vec![
            c_string(program.as_os_str())?,
            c_string(attempts::COMMAND.as_ref())?,
        ],
        environment: Vec::new(),
        hold: runner.hold(Some(resources))?,
        limits: limits(&policy.limits),
        pipes,
        program: program.clone(),
        stdio,
        umask: policy.umask,
        working_dir: None,
    };
    let deadline = until.deadline;
    let begun = if is_confined {
        let canary = runner.granted_canary();
        let reach = Reach {
            // The fixture lies in the daemon's own directory: if that were closed, denials would prove nothing about grants.
            closed: Vec::new(),
            granted: grants,
            kept,
            own: vec![&canary],
            scratch,
        };
        let (begun, _proof) = start_confined(runner, policy, child, reach, until).await?;
        begun
    } else {
        start_unconfined(child, scratch, until).await?
    };
    let running = begun.map_err(|errno| not_executed(&program, errno))?;
    let supervision = Supervision {
        cancel: CancellationToken::new(),
        chunks: None,
        deadline,
        memory: None,
        on_output_limit: OnOutputLimit::Kill,
        output_bytes: PROBE_OUTPUT_BYTES,
    };
    // Large, and nested deep.
    let ended = Box::pin(running.finish(supervision)).await;
    results(&ended.stdout.head, &ended.stderr.head, &attempts)
}

/// Parses the results from a self-test child's output.
fn results(stdout: &[u8], stderr: &[u8], attempts: &[Attempt]) -> Result<Vec<Option<isize>>, Stop> {
    let results: Option<Vec<isize>> = serde_json::from_slice(stdout)
        .ok()
        .filter(|results: &Vec<isize>| results.len() == attempts.len());
    match results {
        Some(results) => Ok(results.into_iter().map(Some).collect()),
        None => {
            let words = String::from_utf8_lossy(stderr);
            let message = format!(
                "the self-test's child ended without its results: {}",
                words.trim()
            );
            Err(Refusal::new(Reason::BackendUnconfirmed, message).into())
        }
    }
}

async fn start_unconfined(
    child: ChildSpec,
    scratch: Arc<OwnedFd>,
    until: Until,
) -> Result<Result<start::Started, Errno>, Stop> {
    let start = sys::Start {
        argv: child.argv,
        environment: child.environment,
        group: child.hold.entry(),
        kept: Vec::new(),
        limits: child.limits,
        program: c_string(child.program.as_os_str())?,
        stdio: child.stdio,
        umask: child.umask,
        working_dir: child.working_dir.unwrap_or(scratch),
    };
    start::unconfined(start, child.pipes, child.hold, until).await
}

/// Starts a program under `sandbox-exec`, through the witness, which tests the confinement first.
async fn start_confined(
    runner: &Runner,
    policy: &Policy,
    child: ChildSpec,
    reach: Reach<'_>,
    until: Until,
) -> Result<(Result<start::Started, Errno>, Proof), Stop> {
    let (this, program) = (
        name_at(runner.launcher.this.path()?)?,
        name_at(&child.program)?,
    );
    let generated = reach.profile(policy, &this, &program)?;
    let line = Line::new().map_err(|e| Fault::new("cannot make pipes", e))?;
    let [order, report] = line.arguments();
    let arguments: [&OsStr; 5] = [
        witness::COMMAND.as_ref(),
        order.as_ref(),
        report.as_ref(),
        runner.granted.as_ref(),
        runner.denied.as_ref(),
    ];
    let argv = generated.command(&this, arguments);
    let argv = argv.iter().map(|argument| c_string(argument));
    let start = sys::Start {
        argv: argv.collect::<Result<_, _>>()?,
        // The hook's environment is in the order.
        environment: Vec::new(),
        group: child.hold.entry(),
        kept: Vec::new(),
        limits: child.limits,
        program: c_string(SANDBOX_EXEC.as_ref())?,
        stdio: child.stdio,
        umask: child.umask,
        working_dir: child.working_dir.unwrap_or(reach.scratch),
    };
    let order = Order {
        argv: child.argv,
        environment: child.environment,
        program: c_string(program.as_os_str())?,
    };
    start::witnessed(start, line, &order, child.pipes, child.hold, until).await
}

impl Launcher {
    /// Returns the daemon's own paths as the kernel names them. A missing one gets its future name.
    fn closed(&self) -> Vec<PathBuf> {
        let named = |path: &PathBuf| {
            let directory = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
            let real = path.canonicalize().ok();
            real.or_else(directory).unwrap_or_else(|| path.clone())
        };
        self.own.iter().map(named).collect()
    }
}

/// The identity of this program's own file at the daemon's start.
#[derive(Debug)]
struct This {
    mark: (u64, u64, i64, i64),
    path: PathBuf,
}

impl This {
    fn find() -> io::Result<Self> {
        let path = env::current_exe()?.canonicalize()?;
        let mark = Self::mark(&path)?;
        Ok(Self { mark, path })
    }

    /// Returns the file's path.
    ///
    /// # Errors
    ///
    /// Refuses where the file has changed: another program's report would be trusted.
    fn path(&self) -> Result<&Path, Refusal> {
        match Self::mark(&self.path) {
            Ok(mark) if mark == self.mark => Ok(&self.path),
            _ => {
                let message = format!(
                    "`{}` is not the file any more that this daemon was started from; restart it",
                    self.path.display()
                );
                Err(Refusal::new(Reason::BackendUnconfirmed, message))
            }
        }
    }

    /// Returns a file's identity and its change time, which no process can set.
    fn mark(path: &Path) -> io::Result<(u64, u64, i64, i64)> {
        let found = path.metadata()?;
        Ok((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
    }
}

/// The inputs of a child except its confinement.
struct ChildSpec {
    argv: Vec<CString>,
    environment: Vec<CString>,
    hold: Hold,
    limits: Vec<(Resource, libc::rlim_t)>,
    pipes: Pipes,
    program: PathBuf,
    stdio: [OwnedFd; 3],
    umask: u32,
    /// `None` = the scratch directory.
    working_dir: Option<Arc<OwnedFd>>,
}

/// Paths that a program reaches under a Seatbelt profile.
struct Reach<'a> {
    closed: Vec<PathBuf>,
    granted: Vec<&'a OpenGrant>,
    kept: Option<&'a Kept>,
    own: Vec<&'a OpenGrant>,
    scratch: Arc<OwnedFd>,
}

impl Reach<'_> {
    /// Creates the profile of a policy.
    ///
    /// # Errors
    ///
    /// Refuses where a path cannot be named in a profile: `GRANT_MISSING`.
    fn profile(&self, policy: &Policy, this: &Path, program: &Path) -> Result<Generated, Stop> {
        let named = |grant: &OpenGrant| -> Result<Granted, Stop> {
            Ok(Granted {
                path: name_of(&grant.target)?,
                rights: grant.rights,
            })
        };
        let granted = self.granted.iter().map(|granted| named(granted));
        let granted: Vec<_> = granted.collect::<Result<_, _>>()?;
        let own_grants = self.own.iter().map(|grant| named(grant));
        let kept = self.kept.map_or_else(|| Ok(Vec::new()), kept_of)?;
        let places = Places {
            closed: &self.closed,
            granted: &granted,
            kept: &kept,
            own: &own_grants.collect::<Result<Vec<_>, _>>()?,
            program,
            scratch: &name_of(&self.scratch)?,
            witness: this,
        };
        Ok(seatbelt::profile(policy, &places).map_err(Refusal::from)?)
    }
}

/// Returns the read-only paths, as the kernel names them.
fn kept_of(found: &Kept) -> Result<Vec<seatbelt::Kept>, Stop> {
    let name = |below: &Path| -> Result<PathBuf, Fault> {
        let opened = open_beneath(&found.target, below, BY_NAME, Mode::empty(), Links::Refused);
        let opened = opened.map_err(|e| {
            let workspace = found.workspace.display();
            Fault::new(
                format!("cannot open what stays read-only in `{workspace}`"),
                e,
            )
        })?;
        name_of(opened)
    };
    let points = found.points.iter();
    let kept = points.map(|(below, keep)| {
        Ok(seatbelt::Kept {
            keep: *keep,
            path: name(below)?,
        })
    });
    kept.collect()
}

/// Returns the path of an opened file as the kernel names it.
fn name_of(file: impl AsFd) -> Result<PathBuf, Fault> {
    sys::name_of(file).map_err(|e| Fault::new("cannot ask for the name of an opened file", e))
}

/// Returns a file's path as the kernel names it.
fn name_at(path: &Path) -> Result<PathBuf, Fault> {
    name_of(File::open(path).map_err(|e| Fault::new("cannot open a program", e))?)
}

/// Returns the result of a set-up. A run is confined only if that was observed from inside.
fn setup(proof: Option<&Proof>) -> Setup {
    let evidence = proof.map(|proof| {
        [
            ("started_by", SANDBOX_EXEC.to_owned()),
            ("canary_granted", "opened".to_owned()),
            ("canary_denied", format!("{:?}", proof.denied())),
        ]
        .map(|(check, observed)| Evidence { check, observed })
    });
    Setup {
        asks: false,
        confirmed: proof.is_some(),
        evidence: evidence.into_iter().flatten().collect(),
        released: Instant::now(),
    }
}

/// Returns the child's `setrlimit` values, never above the daemon's own hard limits.
///
/// Memory is not among them: not all of these systems enforce a limit on it.
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

fn c_string(text: &OsStr) -> Result<CString, Fault> {
    CString::new(text.as_bytes()).map_err(|e| Fault::new("a path or argument has a NUL byte", e))
}
