//! How hooks are started: by a fork of this process that executes them.

use std::{
    env,
    ffi::{CString, OsStr},
    fs::File,
    io,
    os::{
        fd::OwnedFd,
        unix::{
            ffi::OsStrExt,
            fs::{FileExt, MetadataExt},
        },
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use nix::sys::resource::{Resource, getrlimit};
use tokio::{task::spawn_blocking, time::timeout_at};
use tokio_util::sync::CancellationToken;

use super::{Known, Mechanism, attempts};
use crate::{
    admission::{
        Kept,
        allowlist::{Digest, Role},
    },
    policy::{Access, Limits, OnOutputLimit, Plan, Policy, rights::Rights},
    process::{self, Running, Supervision},
    refusal::{Fault, Reason, Refusal, Stop},
    sandbox::{
        Evidence, Sandbox, SandboxParts, Setup,
        confine::{Given, Start},
        grants::OpenGrant,
        ground::Ground,
        means::{Execution, copy, pipes, scratch_fd},
        scratch::RunDir,
        seatbelt::{self, Granted, Places, SANDBOX_EXEC},
    },
    sys::{self, Attempt, Identity, Place, Process},
};

/// How long one child of a self-test may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How much of what a self-test's child says is kept.
const WORDS: usize = 64 * 1024;

/// How long a child that is stuck before its exec may take to die once killed.
const STUCK: Duration = Duration::from_secs(5);

/// What starts hooks: this process itself.
#[derive(Debug)]
pub(in crate::sandbox) struct Launcher {
    /// The daemon's own places.
    own: Vec<PathBuf>,
}

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
        Ok(Self {
            own: parts.own.clone(),
        })
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
        let scratch = scratch_fd(directory)?;
        let confined = match &plan.prepared.mechanism {
            Mechanism::Seatbelt(_) => {
                // `sandbox-exec` would give it to a shell.
                if !has_format(&execution.program) {
                    let setup = setup(plan, Vec::new());
                    return Ok((Start::ExecFailed(libc::ENOEXEC), Observed(()), setup));
                }
                // The program itself is the last, and named beside these.
                let own = execution.own.split_last().map_or(&[][..], |(_, own)| own);
                let command = Command {
                    arguments: execution.argv.get(1..).unwrap_or_default(),
                    closed: self.launcher.closed(),
                    granted: &plan.opened.grants,
                    own,
                    program: &path,
                    scratch: &scratch,
                };
                Some(command.under(&plan.policy)?)
            }
            Mechanism::Unconfined => None,
        };
        let evidence = confined.as_ref().map(|_| Evidence {
            check: "started_by",
            observed: SANDBOX_EXEC.to_owned(),
        });
        let (program, argv) = match confined {
            Some(argv) => (PathBuf::from(SANDBOX_EXEC), argv),
            None => (path, execution.argv),
        };
        let place = self.place()?;
        let start = sys::Start {
            argv,
            environment: execution.environment,
            group: place.entry(),
            limits: limits(&plan.policy.limits),
            program: c_string(program.as_os_str())?,
            stdio,
            working_dir: plan.opened.working_dir.clone().unwrap_or(scratch),
        };
        let start = match spawn(start, place, plan.deadline).await? {
            Ok((process, place)) => {
                let running = Running::new(process.pid(), process, pipes, place)
                    .map_err(|e| Fault::new("cannot watch the child", e))?;
                Start::Running(Box::new(Started(running)))
            }
            Err(errno) if evidence.is_some() => {
                return Err(not_executed(Path::new(SANDBOX_EXEC), errno).into());
            }
            Err(errno) => Start::ExecFailed(errno),
        };
        let setup = setup(plan, evidence.into_iter().collect());
        Ok((start, Observed(()), setup))
    }

    /// Has a child under a mechanism make attempts; returns what came of each. The child is this program once more.
    pub(in crate::sandbox) async fn make_attempts(
        &self,
        policy: &Policy,
        mechanism: &Mechanism,
        directory: &RunDir,
        ground: &Ground,
        _identity: Option<Identity>,
        attempts: Vec<Attempt>,
    ) -> Result<Vec<Option<isize>>, Stop> {
        let broken = |error: io::Error| Fault::new("cannot make attempts", error);
        let program = env::current_exe()
            .and_then(|own| own.canonicalize())
            .map_err(broken)?;
        let asked = serde_json::to_vec(&attempts).map_err(|e| broken(e.into()))?;
        let (stdio, pipes) = pipes(&asked.into()).map_err(broken)?;
        let scratch = scratch_fd(directory)?;
        let arguments = [c_string(attempts::COMMAND.as_ref())?];
        let (executed, argv) = match mechanism {
            Mechanism::Seatbelt(_) => {
                let command = Command {
                    arguments: &arguments,
                    // What these attempts are made on lies in the daemon's own: by their being closed nothing would be shown.
                    closed: Vec::new(),
                    granted: &self.granted(policy, ground)?,
                    own: &[self.granted_canary()],
                    program: &program,
                    scratch: &scratch,
                };
                (PathBuf::from(SANDBOX_EXEC), command.under(policy)?)
            }
            Mechanism::Unconfined => {
                let [argument] = arguments;
                let argv = vec![c_string(program.as_os_str())?, argument];
                (program, argv)
            }
        };
        let place = self.place()?;
        let deadline = Instant::now() + PATIENCE;
        let start = sys::Start {
            argv,
            environment: Vec::new(),
            group: place.entry(),
            limits: limits(&policy.limits),
            program: c_string(executed.as_os_str())?,
            stdio,
            working_dir: scratch,
        };
        let (process, place) = spawn(start, place, deadline)
            .await?
            .map_err(|errno| not_executed(&executed, errno))?;
        let running = Running::new(process.pid(), process, pipes, place).map_err(broken)?;
        let supervision = Supervision {
            cancel: CancellationToken::new(),
            chunks: None,
            deadline,
            on_output_limit: OnOutputLimit::Kill,
            output_bytes: WORDS,
        };
        // Large, and nested deep.
        let ended = Box::pin(running.finish(supervision)).await;
        let results: Option<Vec<isize>> = serde_json::from_slice(&ended.stdout.head)
            .ok()
            .filter(|results: &Vec<isize>| results.len() == attempts.len());
        match results {
            Some(results) => Ok(results.into_iter().map(Some).collect()),
            None => {
                let words = String::from_utf8_lossy(&ended.stderr.head);
                let message = format!(
                    "the self-test's child ended without its results: {}",
                    words.trim()
                );
                Err(Refusal::new(Reason::BackendUnconfirmed, message).into())
            }
        }
    }

    /// Returns the file that every confined child of a self-test is granted.
    fn granted_canary(&self) -> OpenGrant {
        let instance = &self.parts.instance;
        OpenGrant {
            path: instance.canary_granted().to_owned(),
            rights: Rights::File(Access::Read),
            target: Arc::clone(instance.canary_granted_open()),
        }
    }
}

impl Launcher {
    /// Returns the daemon's own places as the kernel names them. One that is not there yet has the name that it would get.
    fn closed(&self) -> Vec<PathBuf> {
        let named = |path: &PathBuf| {
            let directory = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
            let there = path.canonicalize().ok();
            there.or_else(directory).unwrap_or_else(|| path.clone())
        };
        self.own.iter().map(named).collect()
    }
}

/// A program to be started under a Seatbelt profile.
struct Command<'a> {
    /// All but its name.
    arguments: &'a [CString],
    closed: Vec<PathBuf>,
    granted: &'a [OpenGrant],
    own: &'a [OpenGrant],
    program: &'a Path,
    scratch: &'a OwnedFd,
}

impl Command<'_> {
    /// Returns the argument vector that starts it under a policy, `sandbox-exec` first.
    ///
    /// # Errors
    ///
    /// Refuses where a path cannot be named in a profile: `GRANT_MISSING`.
    fn under(&self, policy: &Policy) -> Result<Vec<CString>, Stop> {
        let unnamed = |error| Fault::new("cannot ask for the name of an opened file", error);
        let named = |opened: &[OpenGrant]| -> Result<Vec<Granted>, Stop> {
            let name = |grant: &OpenGrant| {
                let path = sys::name_of(&grant.target).map_err(unnamed)?;
                Ok(Granted {
                    path,
                    rights: grant.rights,
                })
            };
            opened.iter().map(name).collect()
        };
        let program = File::open(self.program)
            .and_then(sys::name_of)
            .map_err(unnamed)?;
        let generated = seatbelt::profile(
            policy,
            &Places {
                closed: &self.closed,
                granted: &named(self.granted)?,
                own: &named(self.own)?,
                program: &program,
                scratch: &sys::name_of(self.scratch).map_err(unnamed)?,
            },
        )
        .map_err(Refusal::from)?;
        let arguments = self.arguments.iter();
        let arguments = arguments.map(|argument| OsStr::from_bytes(argument.as_bytes()));
        let argv = generated.command(&program, arguments);
        argv.iter()
            .map(|argument| c_string(argument).map_err(Stop::from))
            .collect()
    }
}

/// Refuses because what confines a hook, or tests that, could not be executed.
fn not_executed(path: &Path, errno: i32) -> Refusal {
    let error = io::Error::from_raw_os_error(errno);
    let message = format!("`{}` could not be executed: {error}", path.display());
    Refusal::new(Reason::BackendUnconfirmed, message)
}

/// Says what set-up came to. That a run is confined was shown by the self-test; of the run itself there is who started it.
fn setup(plan: &Plan, evidence: Vec<Evidence>) -> Setup {
    Setup {
        asks: false,
        confirmed: plan.prepared.confines(),
        evidence,
        logged: false,
        released: Instant::now(),
    }
}

/// Whether the kernel of macOS executes a file: by its first four bytes, which name a program for one or several processors.
fn has_format(program: &File) -> bool {
    let mut magic = [0; 4];
    program.read_exact_at(&mut magic, 0).is_ok()
        && [
            [0xca, 0xfe, 0xba, 0xbe],
            [0xca, 0xfe, 0xba, 0xbf],
            [0xcf, 0xfa, 0xed, 0xfe],
        ]
        .contains(&magic)
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
    let by_interpreter = |digest: &Digest| digest.role == Role::Interpreter;
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

fn c_string(text: &OsStr) -> Result<CString, Fault> {
    CString::new(text.as_bytes()).map_err(|e| Fault::new("a path or argument has a NUL byte", e))
}
