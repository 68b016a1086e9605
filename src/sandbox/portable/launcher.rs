//! How hooks are started: by a fork of this process that executes them.

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
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::{
        resource::{Resource, getrlimit},
        stat::Mode,
    },
};
use tokio_util::sync::CancellationToken;

use super::{
    Known, Lease, Mechanism, attempts,
    start::{self, Line, Started, Until, not_executed},
    witness,
};
use crate::{
    consent::{
        self,
        allowlist::{Digest, Role},
        only_roots,
    },
    model::OnOutputLimit,
    policy::{Access, Limits, Policy, rights::Rights},
    process::{Hold, Pipes, Supervision},
    refusal::{Fault, Reason, Refusal, Stop},
    sandbox::{
        Evidence, Sandbox, SandboxParts, Setup, Task,
        confine::{Given, Start},
        grants::OpenGrant,
        ground::Ground,
        means::{Execution, copy, pipes, scratch_fd},
        read_only::Kept,
        scratch::{Around, RunDir},
        seatbelt::{
            self, Generated, Granted, Places, SANDBOX_EXEC,
            witness::{Order, Proof},
        },
    },
    sys::{self, Attempt, BY_NAME, Identity, Links, open_beneath},
};

/// How long one child of a self-test may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How much of what a self-test's child says is kept.
const WORDS: usize = 64 * 1024;

/// What starts hooks: this process itself.
#[derive(Debug)]
pub(in crate::sandbox) struct Launcher {
    /// The daemon's own places.
    own: Vec<PathBuf>,
    this: This,
}

/// Would take note of what a run is denied.
#[derive(Debug)]
pub(in crate::sandbox) struct Observed(());

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
    /// Fails where this program's own file is not found: it is what self-tests and profiles execute.
    pub(in crate::sandbox) fn new(parts: &SandboxParts) -> io::Result<Self> {
        if parts.read_audit_log {
            tracing::warn!(
                "`hooks.read_audit_log`: only Linux has an audit log that says what hooks were refused"
            );
        }
        Ok(Self {
            own: parts.own.clone(),
            this: This::find()?,
        })
    }
}

impl Sandbox {
    /// Starts the planned hook by its mechanism.
    pub(in crate::sandbox) async fn launch(
        &self,
        task: Task<'_>,
        given: Given<'_>,
        _identity: Option<Identity>,
    ) -> Result<(Start, Observed, Setup), Stop> {
        let Given {
            directory,
            execution,
            kept,
            pipes,
            stdio,
        } = given;
        let program = executed(task, &execution, directory)?;
        let scratch = scratch_fd(directory)?;
        let Execution {
            argv,
            environment,
            own,
            program: _,
        } = execution;
        let what = What {
            argv,
            environment,
            hold: self.hold(Some(kept))?,
            limits: limits(&task.policy.limits),
            pipes,
            program,
            stdio,
            working_dir: task.opened.working_dir.clone(),
        };
        let until = Until {
            cancel: task.cancel.clone(),
            deadline: task.deadline,
        };
        let (begun, proof) = match &task.prepared.mechanism {
            Mechanism::Seatbelt(_) => {
                let canary = self.granted_canary();
                // The program itself is the last, and named beside these.
                let own = own.split_last().map_or(&[][..], |(_, own)| own);
                let reach = Reach {
                    closed: self.launcher.closed(),
                    granted: &task.opened.grants,
                    kept: task.opened.kept.as_ref(),
                    own: own.iter().chain([&canary]).collect(),
                    scratch,
                };
                let confined = self.start_confined(task.policy, what, reach, until);
                let (begun, proof) = confined.await?;
                (begun, Some(proof))
            }
            Mechanism::Unconfined => {
                let begun = self.start_unconfined(what, scratch, until).await?;
                (begun, None)
            }
        };
        let start = match begun {
            Ok(started) => Start::Running(Box::new(started)),
            Err(errno) => Start::ExecFailed(errno as i32),
        };
        Ok((start, Observed(()), setup(proof.as_ref())))
    }

    /// Has a child under a mechanism make attempts; returns what came of each. The child is this program once more.
    pub(in crate::sandbox) async fn make_attempts(
        &self,
        policy: &Policy,
        mechanism: &Mechanism,
        directory: &RunDir,
        ground: &Ground,
        _lease: Option<&Lease>,
        attempts: Vec<Attempt>,
    ) -> Result<Vec<Option<isize>>, Stop> {
        let broken = |error: io::Error| Fault::new("cannot make attempts", error);
        let program = self.launcher.this.path()?.to_owned();
        let asked = serde_json::to_vec(&attempts).map_err(|e| broken(e.into()))?;
        let (stdio, pipes) = pipes(&asked.into()).map_err(broken)?;
        let scratch = scratch_fd(directory)?;
        let what = What {
            argv: vec![
                c_string(program.as_os_str())?,
                c_string(attempts::COMMAND.as_ref())?,
            ],
            environment: Vec::new(),
            hold: self.hold(None)?,
            limits: limits(&policy.limits),
            pipes,
            program: program.clone(),
            stdio,
            working_dir: None,
        };
        let deadline = Instant::now() + PATIENCE;
        let until = Until {
            cancel: CancellationToken::new(),
            deadline,
        };
        let kept = match policy.files.read_only.is_empty() {
            true => None,
            false => Some(ground.kept().map_err(broken)?),
        };
        let begun = match mechanism {
            Mechanism::Seatbelt(_) => {
                let canary = self.granted_canary();
                let reach = Reach {
                    // What these attempts are made on lies in the daemon's own: by their being closed nothing would be shown.
                    closed: Vec::new(),
                    granted: &self.granted(policy, ground)?,
                    kept: kept.as_ref(),
                    own: vec![&canary],
                    scratch,
                };
                let (begun, _proof) = self.start_confined(policy, what, reach, until).await?;
                begun
            }
            Mechanism::Unconfined => self.start_unconfined(what, scratch, until).await?,
        };
        let started = begun.map_err(|errno| not_executed(&program, errno))?;
        let supervision = Supervision {
            cancel: CancellationToken::new(),
            chunks: None,
            deadline,
            memory: None,
            on_output_limit: OnOutputLimit::Kill,
            output_bytes: WORDS,
        };
        // Large, and nested deep.
        let ended = Box::pin(started.finish(supervision)).await?;
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

    async fn start_unconfined(
        &self,
        what: What,
        scratch: Arc<OwnedFd>,
        until: Until,
    ) -> Result<Result<Started, Errno>, Stop> {
        let start = sys::Start {
            argv: what.argv,
            environment: what.environment,
            group: what.hold.entry(),
            kept: Vec::new(),
            limits: what.limits,
            program: c_string(what.program.as_os_str())?,
            stdio: what.stdio,
            working_dir: what.working_dir.unwrap_or(scratch),
        };
        start::unconfined(start, what.pipes, what.hold, until).await
    }

    /// Has `sandbox-exec` execute this program, and this the other one once it has seen that it is confined.
    async fn start_confined(
        &self,
        policy: &Policy,
        what: What,
        reach: Reach<'_>,
        until: Until,
    ) -> Result<(Result<Started, Errno>, Proof), Stop> {
        let (this, program) = (
            name_at(self.launcher.this.path()?)?,
            name_at(&what.program)?,
        );
        let generated = reach.profile(policy, &this, &program)?;
        let line = Line::new().map_err(|e| Fault::new("cannot make pipes", e))?;
        let [order, report] = line.arguments();
        let instance = &self.parts.instance;
        let arguments: [&OsStr; 5] = [
            witness::COMMAND.as_ref(),
            order.as_ref(),
            report.as_ref(),
            instance.canary_granted().as_ref(),
            instance.canary_denied().as_ref(),
        ];
        let argv = generated.command(&this, arguments);
        let argv = argv.iter().map(|argument| c_string(argument));
        let start = sys::Start {
            argv: argv.collect::<Result<_, _>>()?,
            // The hook's is in the order.
            environment: Vec::new(),
            group: what.hold.entry(),
            kept: Vec::new(),
            limits: what.limits,
            program: c_string(SANDBOX_EXEC.as_ref())?,
            stdio: what.stdio,
            working_dir: what.working_dir.unwrap_or(reach.scratch),
        };
        let order = Order {
            argv: what.argv,
            environment: what.environment,
            program: c_string(program.as_os_str())?,
        };
        start::witnessed(start, line, &order, what.pipes, what.hold, until).await
    }

    /// Returns the file that every confined run is granted.
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

/// This program's own file, as it was when the daemon started.
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

    /// Returns where it lies.
    ///
    /// # Errors
    ///
    /// Refuses where it has changed: another program's word would be taken for this one's.
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

    /// Which file it is, and when it was changed last: nobody sets that time.
    fn mark(path: &Path) -> io::Result<(u64, u64, i64, i64)> {
        let found = path.metadata()?;
        Ok((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
    }
}

/// What is executed, and by what means but confinement.
struct What {
    argv: Vec<CString>,
    environment: Vec<CString>,
    hold: Hold,
    limits: Vec<(Resource, libc::rlim_t)>,
    pipes: Pipes,
    program: PathBuf,
    stdio: [OwnedFd; 3],
    /// `None` = in scratch.
    working_dir: Option<Arc<OwnedFd>>,
}

/// What a program reaches under a Seatbelt profile.
struct Reach<'a> {
    closed: Vec<PathBuf>,
    granted: &'a [OpenGrant],
    kept: Option<&'a Kept>,
    own: Vec<&'a OpenGrant>,
    scratch: Arc<OwnedFd>,
}

impl Reach<'_> {
    /// Makes the profile of a policy.
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
        let granted: Vec<_> = self.granted.iter().map(named).collect::<Result<_, _>>()?;
        let own = self.own.iter().map(|own| named(own));
        let kept = self.kept.map_or_else(|| Ok(Vec::new()), kept_of)?;
        let places = Places {
            closed: &self.closed,
            granted: &granted,
            kept: &kept,
            own: &own.collect::<Result<Vec<_>, _>>()?,
            program,
            scratch: &name_of(&self.scratch)?,
            witness: this,
        };
        Ok(seatbelt::profile(policy, &places).map_err(Refusal::from)?)
    }
}

/// Returns what stays read-only, as the kernel names it.
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
    let kept = points.map(|(below, read_only)| {
        Ok(seatbelt::Kept {
            path: name(below)?,
            read_only: *read_only,
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

/// Says what set-up came to: that a run is confined takes what was seen from inside.
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
        logged: false,
        released: Instant::now(),
    }
}

/// Returns the path of what is executed: a file's own where nobody but root can put another there, else a copy's. Nothing here
/// executes a descriptor.
fn executed(task: Task<'_>, execution: &Execution, directory: &RunDir) -> Result<PathBuf, Stop> {
    let program = task.program;
    if program.kept == consent::ContentGuard::ByCopy {
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
    let (copied, _) = copy(
        directory,
        "program",
        &program.executable,
        named,
        sha256,
        &Around::default(),
    )?;
    Ok(copied.path)
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
