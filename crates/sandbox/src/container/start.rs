//! Starts a container from a bundle, up to the hook's release.

use std::{
    env,
    ffi::{CString, NulError},
    fs::{self, File, Permissions},
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use nix::{
    fcntl::OFlag,
    sys::stat::fstat,
    unistd::{Gid, Uid, chown, getegid, geteuid},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, unix::AsyncFd},
    net::{UnixListener, UnixStream},
    time::{error::Elapsed, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use hookjail_base::{
    model::{Captured, OnOutputLimit, axis::Axis},
    refusal::{Fact, Fault, Reason, Refusal, Stop, canceled, lacking},
};
use hookjail_policy::{Limits, Network};
use hookjail_sys::{Attempt, Identity, Job, JobParts, Reaped, Step, WaitStatus};

use crate::{
    BackendName, Evidence, Released, Runner, Setup, Started, Task,
    container::{
        ContainerSpec, Runtime, RuntimeKind,
        bundle::{Bind, Bundle, Kind},
        channel::{self, Answer, ContainerTask, Inode, Order, packed},
        inside,
    },
    launch::{Launched, launch, limits, note, step_failed, unseen as unwatched, why_stopped},
    process::{self, Cause, Hold, Pipes, Supervision},
    resources::cgroup::Group,
    rootfs::Root,
    run::{
        Finish, Probed, RunningHook, Start,
        child_spec::{Execution, pipes},
        proc_status::Status,
        task::Action,
    },
};
use hookjail_sys as sys;

/// Timeout of an ended container's last answers and the runtime's cleanup.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Grace period for reading answers sent before the deadline.
const READ_GRACE: Duration = Duration::from_millis(5);

/// End of a hook that was killed with its container. No process was left to report its usage.
const KILLED: Option<Reaped> = Some(Reaped {
    max_rss_bytes: 0,
    status: WaitStatus::Signaled(libc::SIGKILL),
    system: Duration::ZERO,
    user: Duration::ZERO,
});

/// Limit on a runtime's kept output, bytes.
const RUNTIME_OUTPUT_BYTES: usize = 4 * 1024;

/// A container whose first process has done its task, or has released the hook.
#[derive(Debug)]
struct Contained {
    channel: UnixStream,
    /// The container's first process.
    first: OwnedFd,
    group: Option<Group>,
    runtime: RunningRuntime,
}

/// Messages to the container's first process, and its answers.
#[derive(Debug)]
struct Conversation {
    channel: UnixStream,
    first: OwnedFd,
    pid: i32,
    /// Whether the hook may have run.
    ran: bool,
    uid: u32,
}

/// A runtime that keeps a container, and ends with it.
#[derive(Debug)]
struct RunningRuntime {
    hold: Hold,
    pid: i32,
    pidfd: OwnedFd,
    /// The runtime's output.
    words: Pipes,
}

/// A container in which a hook runs. Dropping it ends the container.
#[derive(Debug)]
struct Running {
    channel: UnixStream,
    group: Option<Group>,
    runtime: Box<process::Running>,
    /// Kept open: a runtime that could not print might end.
    _words: Pipes,
}

/// Result of the first process's task.
enum Outcome {
    /// Result of each attempt.
    Attempted(Vec<Option<isize>>),
    /// The hook is released, with the evidence. `errno` is that of a failed exec.
    Released { errno: i32, evidence: Vec<Evidence> },
}

/// A container that ended without reporting its hook's end.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the container ended without saying how the hook did (its runtime: {0:?})")]
struct Gone(Option<WaitStatus>);

/// Starts a child in a container.
///
/// # Errors
///
/// Refuses where the container cannot be made, is not as ordered, or does not answer by the deadline: `BACKEND_UNCONFIRMED`.
pub(crate) async fn start(
    runner: &Runner,
    spec: &ContainerSpec,
    task: Task<'_>,
) -> Result<Started, Stop> {
    let (stdio, pipes) =
        pipes(&task.stdin, task.waits).map_err(|e| Fault::new("cannot make pipes", e))?;
    // Large, and nested deep.
    let (contained, outcome) = Box::pin(Call { runner, spec }.contain(&task, stdio)).await?;
    let released = Instant::now();
    let (errno, evidence) = match outcome {
        Outcome::Attempted(results) => {
            let throttled = contained.group.as_ref().is_some_and(Group::was_throttled);
            contained.end().await;
            return Ok(Started::Probed(Probed { results, throttled }));
        }
        Outcome::Released { errno, evidence } => (errno, evidence),
    };
    // A container's filters send no user notifications.
    let notes = runner
        .launcher
        .pools
        .denials
        .notes(contained.runtime.pid, None);
    let start = if errno == 0 {
        let running = contained
            .watch(pipes)
            .map_err(|e| unwatched("the released hook's container cannot be watched", &e))?;
        Start::Running(Box::new(running))
    } else {
        contained.end().await;
        if lacking(&io::Error::from_raw_os_error(errno)).is_some() {
            return Err(step_failed(BackendName::CONTAINER, Step::Release, errno).into());
        }
        Start::ExecFailed(errno)
    };
    Ok(Started::Hook(Released {
        notes,
        setup: Setup {
            asks: false,
            confirmed: true,
            evidence,
            released,
        },
        start,
    }))
}

/// The runtime and its inputs for one container.
#[derive(Clone, Copy)]
struct Call<'a> {
    runner: &'a Runner,
    spec: &'a ContainerSpec,
}

impl Call<'_> {
    /// Makes a container and has its first process carry out a task.
    async fn contain(
        self,
        task: &Task<'_>,
        stdio: [OwnedFd; 3],
    ) -> Result<(Contained, Outcome), Stop> {
        let Self { spec, .. } = self;
        let fault = |e: io::Error| Fault::new("cannot prepare a container", e);
        let (cancel, deadline) = (&task.until.cancel, task.until.deadline);
        let home = task.directory.own_directory("container").map_err(fault)?;
        let (listener, socket) = listen(&home, task.identity.as_ref()).map_err(fault)?;
        let scratch = task.directory.scratch();
        let mut binds = self.binds(task, &home, &socket)?;
        binds.sort_by(|a, b| Path::new(&a.target).cmp(Path::new(&b.target)));
        let id = format!("hookjail-{}", uuid::Uuid::now_v7().simple());
        let cgroups = self.runner.cgroups.as_ref();
        let bundle = Bundle {
            binds,
            cgroups_path: cgroups.and_then(|cgroups| cgroups.of_runtime(&id)),
            identity: task.identity.clone(),
            network: spec.filters.network,
            own: (geteuid().as_raw(), getegid().as_raw()),
            scratch: utf8(&scratch)?,
            scratch_limits: task.policy.limits.scratch_in_memory(),
        };
        lay(&home, &bundle).map_err(fault)?;
        let order = self.order(task, &bundle).map_err(fault)?;
        let group = (self.runner).cgroup(task.caller, &task.policy.limits, inside::TASKS)?;
        let command = Command::new(&spec.runtime, &home, &id)?;
        let runtime = self.call(command, task).await?;
        let exit = match runtime.watch() {
            Ok(exit) => exit,
            Err(error) => {
                runtime.end().await;
                return Err(fault(error).into());
            }
        };
        let mut talk = None;
        let made = before(deadline, async {
            let channel = tokio::select! {
                biased;
                accepted = listener.accept() => accepted.map_err(|e| Some(Stop::from(fault(e))))?.0,
                _ = exit.readable() => return Err(None),
            };
            drop(listener);
            // Kept outside of this future: after the deadline the last answers still show how far the container came.
            let talk = talk.insert(Conversation::with(channel).map_err(|e| Some(fault(e).into()))?);
            if cancel.is_cancelled() {
                return Err(Some(canceled().into()));
            }
            let conversation =
                self.converse(talk, &order, stdio, task.identity.as_ref(), group.as_ref());
            conversation.await.map_err(Some)
        })
        .await;
        let stop = match (made, talk) {
            (Ok(Ok(mut came)), Some(Conversation { channel, first, .. })) => {
                if let (Outcome::Released { evidence, .. }, Some(root)) =
                    (&mut came, &spec.runtime.root)
                {
                    let observed = root.digest.to_string();
                    evidence.push(Evidence {
                        check: "root",
                        observed,
                    });
                }
                if let Outcome::Released { evidence, .. } = &mut came {
                    // The first process has compared them with the kernel's.
                    evidence.push(Evidence {
                        check: "scratch",
                        observed: bundle.scratch_limits.to_string(),
                    });
                }
                let contained = Contained {
                    channel,
                    first,
                    group,
                    runtime,
                };
                return Ok((contained, came));
            }
            (Ok(Err(None)) | Ok(Ok(_)), _) => return Err(runtime.refusal(&spec.runtime).await),
            (Ok(Err(Some(stop))), talk) => {
                of_container(stop, Conversation::end(talk, runtime).await)
            }
            (Err(_), talk) => match Conversation::end(talk, runtime).await {
                true => unseen().into(),
                false => late().into(),
            },
        };
        let is_too_small = group.as_ref().is_some_and(Group::ran_out_of_memory);
        Err(if is_too_small {
            too_small().into()
        } else {
            stop
        })
    }

    /// Sends an order to a container's first process, and follows it up to release.
    async fn converse(
        self,
        talk: &mut Conversation,
        order: &Order,
        stdio: [OwnedFd; 3],
        identity: Option<&Identity>,
        group: Option<&Group>,
    ) -> Result<Outcome, Stop> {
        let fault = |e: io::Error| Fault::new("cannot give an order to a container", e);
        let (pid, uid) = (talk.pid, talk.uid);
        let mut evidence = look_at_container(pid, uid, identity, order.filters.network)
            .map_err(|why| unconfirmed(format!("the container is not as ordered: {why}")))?;
        if let Some(group) = group {
            let seen = group.admit(pid).and_then(|()| group.attest(pid));
            let seen = seen
                .map_err(|why| unconfirmed(format!("the container is not in its cgroup: {why}")))?;
            evidence.extend(seen);
        }
        // Never blocks: the socket's buffer is empty.
        sys::send_fds(talk.channel.as_fd(), &stdio).map_err(fault)?;
        drop(stdio);
        let message = channel::encode(order).map_err(fault)?;
        talk.channel.write_all(&message).await.map_err(fault)?;
        let answer = talk.next().await.map_err(|error| {
            unconfirmed(format!("the container's first process is gone: {error}"))
        })?;
        let came = match answer {
            Answer::Attempted(results) => Outcome::Attempted(results),
            Answer::Released { errno, filters } => {
                let filters = self.runner.launcher.pools.own_filters() + filters;
                let seen = look_at_hook(pid, errno, filters).map_err(|why| {
                    let message = format!("the released child is not as planned: {why}");
                    unconfirmed(message)
                })?;
                evidence.extend(seen);
                talk.channel.write_all(&[0]).await.map_err(fault)?;
                Outcome::Released { errno, evidence }
            }
            Answer::Refused(why) => {
                let message = format!("the container is not as ordered: {why}");
                return Err(unconfirmed(message).into());
            }
            Answer::Stuck { errno, step } => {
                let what = format!("the child stopped at step `{step}`");
                return Err(stopped(what, errno).with(Fact::Step(step)).into());
            }
            Answer::Ended(_) | Answer::Starting => {
                return Err(unconfirmed("the container ended before it began").into());
            }
        };
        Ok(came)
    }

    /// Starts a runtime, which makes a container and ends with it.
    async fn call(self, command: Command, task: &Task<'_>) -> Result<RunningRuntime, Stop> {
        let fault = |e: io::Error| Fault::new("cannot start the container runtime", e);
        let Command {
            argv,
            environment,
            program,
            working_dir,
        } = command;
        let (stdio, words) = pipes(&bytes::Bytes::new(), false).map_err(fault)?;
        let pool = self.runner.launcher.pools.of_operators_programs()?;
        let hold = self.runner.hold(Some(pool.kept_with(&task.resources)))?;
        let job = Job::new(JobParts {
            action: sys::Action::Execute {
                argv,
                environment,
                program: program.into(),
            },
            canaries: None,
            cgroup: None,
            closing: None,
            group: Some(hold.entry()),
            identity: None,
            landlock_flags: 0,
            limits: Vec::new(),
            mounts: None,
            note: note(&hold, None, false),
            ruleset: None,
            stdio,
            tree: None,
            umask: 0o077,
            working_dir: Arc::new(File::open(working_dir).map_err(fault)?.into()),
        })
        .map_err(|_| Fault::new("cannot prepare a child", "no filter can be too long"))?;
        let job = Arc::new(job);
        let Launched {
            armed,
            canceled,
            hold,
            init: _,
            pid,
            pidfd,
        } = launch(&pool.pool, &job, hold, task.until.clone()).await?;
        let (step, errno) = (job.report().step(), job.report().errno());
        let called = RunningRuntime {
            hold,
            pid,
            pidfd,
            words,
        };
        // From here on the runtime cleans up after its container, and gets some time for that.
        if armed.disarm() || canceled {
            called.end().await;
            return Err(late().into());
        }
        if step != Step::Release || errno != 0 {
            called.end().await;
            let what = format!(
                "the container runtime `{}` could not be started (step `{}`)",
                self.spec.runtime.path.display(),
                step.name(),
            );
            return Err(stopped(what, errno).into());
        }
        Ok(called)
    }

    /// Returns the mounts, sorted by target.
    fn binds(self, task: &Task<'_>, home: &Path, socket: &Path) -> Result<Vec<Bind>, Stop> {
        let fault = |e: io::Error| Fault::new("cannot look at what a container is to have", e);
        let program = own_program()
            .map_err(|why| unconfirmed(why).with(Fact::Fix("restart the daemon".into())))?;
        let devices = home.join("dev");
        directory(&devices).map_err(fault)?;
        let mut binds = vec![
            own_file(&program, inside::PROGRAM, true, false)?,
            own_file(socket, inside::SOCKET, false, true)?,
            own_file(&devices, "/dev", false, false)?,
        ];
        let canary = self.runner.granted_canary();
        let root = self.runner.places.root();
        let read_only = task
            .kept
            .map_or_else(|| Ok(Vec::new()), |kept| kept.grants(&self.runner.closed));
        let read_only = read_only.map_err(|e| Fault::new("cannot open what stays read-only", e))?;
        let on_top = read_only.iter().map(|grant| (grant, true));
        let grants = task.granted().chain([&canary]);
        for (grant, is_on_top) in grants.map(|grant| (grant, false)).chain(on_top) {
            let (executable, writable) = Bind::uses(grant.rights);
            let found = fstat(&grant.target).map_err(|errno| fault(errno.into()))?;
            let bind = Bind {
                executable,
                inode: Inode {
                    device: found.st_dev,
                    number: found.st_ino,
                },
                kind: Kind::from_mode(found.st_mode),
                source: utf8(&fd_path(&grant.target).map_err(fault)?)?.to_owned(),
                target: utf8(&grant.path)?.to_owned(),
                writable,
            };
            if let Ok(below) = grant.path.strip_prefix("/dev") {
                make_place(&devices, below, bind.kind == Kind::Directory).map_err(fault)?;
            }
            // Program and script are usually inside a grant already.
            let is_shown = binds
                .iter()
                .any(|other: &Bind| other.executable && covers(root, other, &bind));
            if is_on_top || !is_shown {
                binds.push(bind);
            }
        }
        Ok(binds)
    }

    fn order(self, task: &Task<'_>, bundle: &Bundle<'_>) -> io::Result<Order> {
        let ordered = match &task.action {
            Action::Probe(attempts) => {
                ContainerTask::Attempt(attempts.iter().map(Attempt::describe).collect())
            }
            Action::Execute(Execution {
                argv,
                environment,
                placed: _,
                own: _,
                path,
                program,
            }) => {
                let found = fstat(program)?;
                ContainerTask::Execute {
                    argv: argv.clone(),
                    environment: environment.clone(),
                    inode: Inode {
                        device: found.st_dev,
                        number: found.st_ino,
                    },
                    program: packed(path)?,
                }
            }
        };
        let scratch = task.directory.scratch();
        let working_dir = task.working_dir.map_or(&scratch, |named| &named.path);
        Ok(Order {
            canary_denied: packed(&self.runner.denied)?,
            canary_granted: packed(&self.runner.granted)?,
            expected: bundle.expected()?,
            filters: self.spec.filters,
            limits: limits(
                &with_first(&task.policy.limits),
                task.identity.as_ref(),
                self.runner.cgroups.is_some(),
            ),
            task: ordered,
            umask: task.policy.umask,
            working_dir: packed(working_dir)?,
        })
    }
}

/// Command line of a runtime.
struct Command {
    argv: Vec<CString>,
    environment: Vec<CString>,
    program: File,
    working_dir: PathBuf,
}

impl Command {
    /// Returns the command of a runtime that makes a container and ends with it.
    fn new(runtime: &Runtime, home: &Path, id: &str) -> Result<Self, Stop> {
        let fault = |e: NulError| Fault::new("cannot start the container runtime", e);
        let program = runtime
            .open()
            .map_err(|absent| unconfirmed(absent.to_string()).with(Fact::Fix(absent.fix)))?;
        let home = utf8(home)?;
        let state = format!("{home}/state");
        let mut words = vec![runtime.kind.name(), "--root", &state];
        words.extend(match runtime.kind {
            // The daemon makes the cgroup, and without this option crun refuses a host with two hierarchies.
            RuntimeKind::Crun => Some("--cgroup-manager=disabled"),
            RuntimeKind::Runc => None,
        });
        words.extend(["run", "--bundle", home, id]);
        let argv: Result<_, _> = words.into_iter().map(CString::new).collect();
        Ok(Self {
            argv: argv.map_err(fault)?,
            // The runtime finds its helpers there.
            environment: vec![c"PATH=/usr/sbin:/usr/bin:/sbin:/bin".to_owned()],
            program,
            working_dir: state.into(),
        })
    }
}

/// Returns a mount of one of the daemon's own files.
fn own_file(source: &Path, target: &str, executable: bool, writable: bool) -> Result<Bind, Stop> {
    let found = source
        .metadata()
        .map_err(|e| Fault::new("cannot look at what a container is to have", e))?;
    Ok(Bind {
        executable,
        inode: Inode::new(&found),
        kind: Kind::from_mode(found.mode()),
        source: utf8(source)?.to_owned(),
        target: target.to_owned(),
        writable,
    })
}

/// Waits for a future until a deadline.
///
/// A result that arrived in time counts even if this process was paused past the deadline: [`READ_GRACE`] is left to
/// read it.
async fn before<T>(deadline: Instant, wait: impl Future<Output = T>) -> Result<T, Elapsed> {
    tokio::pin!(wait);
    match timeout_at(deadline.into(), &mut wait).await {
        Err(_) => timeout(READ_GRACE, wait).await,
        made => made,
    }
}

/// Returns whether a mount already shows the content of another: the same file at the same path.
fn covers(root: Option<&Root>, outer: &Bind, inner: &Bind) -> bool {
    let target = Path::new(&inner.target);
    let of_root = root.filter(|root| Path::new(&outer.source).starts_with(root.path()));
    let shown = || match of_root {
        Some(root) => root.open_in(target, OFlag::O_PATH)?.metadata(),
        None => target.metadata(),
    };
    target.starts_with(&outer.target)
        && !inner.writable
        && shown().is_ok_and(|found| Inode::new(&found) == inner.inode)
}

/// Returns the path of an open file.
fn fd_path(file: &impl AsRawFd) -> io::Result<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

impl Conversation {
    fn with(channel: UnixStream) -> io::Result<Self> {
        let (pid, uid, first) = sys::peer(&channel)?;
        Ok(Self {
            channel,
            first,
            pid,
            ran: false,
            uid,
        })
    }

    /// Waits for the next answer with a result of the order.
    async fn next(&mut self) -> io::Result<Answer> {
        loop {
            let answer = receive(&mut self.channel).await?;
            self.ran = match answer {
                Answer::Starting => {
                    self.ran = true;
                    continue;
                }
                Answer::Released { errno, .. } => errno == 0,
                Answer::Ended(_) => self.ran,
                Answer::Attempted(_) | Answer::Refused(_) | Answer::Stuck { .. } => false,
            };
            return Ok(answer);
        }
    }

    /// Ends a container that is no longer needed. Returns whether its hook may have run.
    async fn end(talk: Option<Self>, runtime: RunningRuntime) -> bool {
        let Some(mut talk) = talk else {
            runtime.end().await;
            return false;
        };
        // All processes of the container die with the first one. An error means that it is gone.
        drop(sys::kill(&talk.first));
        runtime.end().await;
        // Reads earlier answers; a message truncated by the deadline is ignored.
        let last = Instant::now() + CLEANUP_TIMEOUT;
        while let Ok(Ok(_)) = timeout_at(last.into(), talk.next()).await {}
        talk.ran
    }
}

impl RunningRuntime {
    /// Registers the runtime's pidfd, which becomes readable at its end.
    fn watch(&self) -> io::Result<AsyncFd<OwnedFd>> {
        sys::watch(self.pidfd.try_clone()?)
    }

    /// Ends a runtime whose container is not needed, or failed.
    async fn end(self) {
        let finished = self.finish(Instant::now() + CLEANUP_TIMEOUT).await;
        match finished {
            Ok(ended) if ended.cause == Cause::Itself => {}
            Ok(_) => tracing::error!("a container did not end, and was killed"),
            Err(error) => tracing::error!(%error, "the end of a container cannot be waited for"),
        }
    }

    async fn finish(self, deadline: Instant) -> io::Result<process::Ended> {
        let running = process::Running::new(self.pid, self.pidfd, self.words, self.hold, None)?;
        let supervision = Supervision {
            cancel: CancellationToken::new(),
            chunks: None,
            deadline,
            memory: None,
            on_output_limit: OnOutputLimit::Drain,
            output_bytes: RUNTIME_OUTPUT_BYTES,
        };
        // Large, and this is nested deep.
        Ok(Box::pin(running.finish(supervision)).await)
    }

    /// Builds the refusal of an ended runtime that made no container, with its output.
    async fn refusal(self, runtime: &Runtime) -> Stop {
        let ended = match self.finish(Instant::now() + CLEANUP_TIMEOUT).await {
            Ok(ended) => ended,
            Err(error) => return Fault::new("cannot wait for the container runtime", error).into(),
        };
        let how = match ended.leader.map(|leader| leader.status) {
            Some(WaitStatus::Exited(code)) => format!("exit code {code}"),
            Some(WaitStatus::Signaled(signal)) => format!("signal {signal}"),
            None => "no status".to_owned(),
        };
        let text = |captured: &Captured| String::from_utf8_lossy(&captured.head).into_owned();
        let words = [text(&ended.stderr), text(&ended.stdout)].join(" ");
        let message = format!(
            "the container runtime `{}` made no container ({how}): {}",
            runtime.path.display(),
            words.trim()
        );
        unconfirmed(message).into()
    }
}

impl Contained {
    /// Supervises the container until its end.
    ///
    /// # Errors
    ///
    /// Fails where the runtime's pidfd cannot be registered; the container is then killed.
    fn watch(self, pipes: Pipes) -> io::Result<Running> {
        let Self {
            channel,
            first,
            group,
            runtime,
        } = self;
        let RunningRuntime {
            hold,
            pid,
            pidfd,
            words,
        } = runtime;
        let running = process::Running::new(pid, pidfd, pipes, hold, None)?;
        Ok(Running {
            channel,
            group,
            runtime: Box::new(running.of_container(first)),
            _words: words,
        })
    }

    /// Ends a container in which nothing runs.
    async fn end(self) {
        drop(self.channel);
        self.runtime.end().await;
    }
}

impl Running {
    /// Finishes as [`process::Running::finish`], but with the hook's end instead of the runtime's.
    ///
    /// # Errors
    ///
    /// Fails where the container ended without reporting its hook's end.
    async fn finish(self, supervision: Supervision) -> Result<process::Ended, Gone> {
        let Self {
            mut channel,
            group,
            runtime,
            _words,
        } = self;
        let ended = Box::pin(runtime.finish(supervision)).await;
        let last = timeout_at(
            (Instant::now() + CLEANUP_TIMEOUT).into(),
            receive(&mut channel),
        )
        .await;
        if let Some(group) = &group {
            group.end().await;
        }
        let out_of_memory = || group.as_ref().is_some_and(Group::ran_out_of_memory);
        let (cause, leader) = match (last, ended.cause) {
            // The end was reported before the first process was killed.
            (Ok(Ok(Answer::Ended(reaped))), _) => {
                let leader = Some(reaped);
                let cause = group.map(|group| group.cause(Cause::Itself, leader));
                (cause.unwrap_or(Cause::Itself), leader)
            }
            // The daemon killed the container, and the hook with it.
            (_, cause @ (Cause::Canceled | Cause::Deadline | Cause::OutputLimit)) => {
                (cause, KILLED)
            }
            // The kernel killed the first process as well, so no end was reported.
            (_, Cause::Itself | Cause::OutOfMemory | Cause::PidsExhausted) if out_of_memory() => {
                (Cause::OutOfMemory, KILLED)
            }
            (_, Cause::Itself | Cause::OutOfMemory | Cause::PidsExhausted) => {
                return Err(Gone(ended.leader.map(|leader| leader.status)));
            }
        };
        Ok(process::Ended {
            cause,
            leader,
            ..ended
        })
    }
}

impl RunningHook for Running {
    fn run_to_end(self: Box<Self>, supervision: Supervision) -> Finish {
        let running = *self;
        Box::pin(async {
            let gone = |gone| Fault::new("the end of a hook is unknown", gone).into();
            running.finish(supervision).await.map_err(gone)
        })
    }
}

async fn receive(channel: &mut UnixStream) -> io::Result<Answer> {
    let mut length = [0; 4];
    channel.read_exact(&mut length).await?;
    let mut message = vec![0; channel::length(length)?];
    channel.read_exact(&mut message).await?;
    channel::decode(&message)
}

/// Creates a listening socket to which only the container's first process can connect.
fn listen(home: &Path, identity: Option<&Identity>) -> io::Result<(UnixListener, PathBuf)> {
    let socket = home.join("socket");
    // A socket's address is short: this directory's path may be longer.
    let directory = File::open(home)?;
    let short = format!("/proc/self/fd/{}/socket", directory.as_raw_fd());
    let listener = UnixListener::bind(short)?;
    fs::set_permissions(&socket, Permissions::from_mode(0o600))?;
    if let Some(Identity { gid, uid, .. }) = identity {
        chown(
            &socket,
            Some(Uid::from_raw(*uid)),
            Some(Gid::from_raw(*gid)),
        )?;
    }
    Ok((listener, socket))
}

/// Writes a bundle to the runtime's bundle directory, with every mount point.
fn lay(home: &Path, bundle: &Bundle<'_>) -> io::Result<()> {
    let root = home.join("root");
    for name in ["root", "state"] {
        directory(&home.join(name))?;
    }
    for (target, is_directory) in bundle.places() {
        let below = target.strip_prefix('/').unwrap_or(target);
        make_place(&root, Path::new(below), is_directory)?;
    }
    fs::write(home.join("config.json"), bundle.config().to_string())
}

/// Makes a mount point.
fn make_place(root: &Path, below: &Path, is_directory: bool) -> io::Result<()> {
    let mut path = root.to_owned();
    let mut parts = below.components().peekable();
    while let Some(part) = parts.next() {
        path.push(part);
        if is_directory || parts.peek().is_some() {
            directory(&path)?;
        } else {
            File::create(&path)?;
        }
    }
    Ok(())
}

/// Makes a directory that a hook can traverse, if it is missing.
fn directory(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        // Regardless of the umask.
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(0o755)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Compares the kernel's state of a container's first process with the plan, before release.
fn look_at_container(
    pid: i32,
    uid: u32,
    identity: Option<&Identity>,
    network: Network,
) -> Result<Vec<Evidence>, String> {
    let status =
        Status::read_process(pid).map_err(|error| format!("its status cannot be read: {error}"))?;
    let planned = identity.map_or_else(|| geteuid().as_raw(), |identity| identity.uid);
    if uid != planned || status.uids != [planned; 4] {
        return Err(format!("uids {:?} instead of {planned}", status.uids));
    }
    if !status.no_capabilities || !status.bounding_set_empty {
        return Err("the process has capabilities, or can get some".to_owned());
    }
    if !status.no_new_privs {
        return Err("NoNewPrivs is 0".to_owned());
    }
    let mut wanted = vec!["ipc", "mnt", "pid", "uts"];
    if network != Network::Outbound {
        wanted.push("net");
    }
    if identity.is_none() {
        wanted.push("user");
    }
    for kind in &wanted {
        let namespace = |who: &str| fs::read_link(format!("/proc/{who}/ns/{kind}"));
        let theirs = namespace(&pid.to_string())
            .map_err(|error| format!("its {kind} namespace cannot be read: {error}"))?;
        if namespace("self").is_ok_and(|ours| ours == theirs) {
            return Err(format!(
                "the process is in the daemon's own {kind} namespace"
            ));
        }
    }
    let seen = |check, observed| Evidence { check, observed };
    Ok(vec![
        seen("namespaces", wanted.join(" ")),
        seen("mounts", "as ordered".to_owned()),
        seen("canary_granted", "opened".to_owned()),
        seen("canary_denied", "ENOENT".to_owned()),
        seen("uid", planned.to_string()),
        seen("capabilities", "none".to_owned()),
        seen("no_new_privs", "1".to_owned()),
    ])
}

/// Compares the kernel's state of a released hook with the plan. After a failed exec there is no process to inspect.
fn look_at_hook(first: i32, errno: i32, filters: u32) -> Result<Vec<Evidence>, String> {
    if errno != 0 {
        return Ok(Vec::new());
    }
    let pid = child_of(first)
        .map_err(|error| format!("its process cannot be found: {error}"))?
        .ok_or("the container has no process of the hook")?;
    let status =
        Status::read_process(pid).map_err(|error| format!("its status cannot be read: {error}"))?;
    if !status.no_capabilities || !status.no_new_privs {
        return Err("the process has capabilities, or NoNewPrivs is 0".to_owned());
    }
    if !status.is_filtered() || status.seccomp_filters != filters {
        let (mode, count) = (status.seccomp, status.seccomp_filters);
        return Err(format!(
            "Seccomp is {mode} with {count} filters instead of 2 with {filters}"
        ));
    }
    Ok(vec![Evidence {
        check: "seccomp_filters",
        observed: filters.to_string(),
    }])
}

/// Returns the only child of a process.
fn child_of(pid: i32) -> io::Result<Option<i32>> {
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let children = fs::read_to_string(task?.path().join("children"))?;
        if let Some(child) = children.split_ascii_whitespace().next() {
            return child.parse().map(Some).map_err(io::Error::other);
        }
    }
    Ok(None)
}

/// Returns the path of this program, if the file there is still the running one.
pub(crate) fn own_program() -> Result<PathBuf, String> {
    let path = env::current_exe()
        .map_err(|error| format!("this program's own path cannot be read: {error}"))?;
    let same = |found: fs::Metadata| {
        fs::metadata("/proc/self/exe")
            .is_ok_and(|running| Inode::new(&running) == Inode::new(&found))
    };
    if path.metadata().is_ok_and(same) {
        Ok(path)
    } else {
        Err(format!(
            "`{}` is no longer the program that this daemon runs",
            path.display()
        ))
    }
}

/// Adds the first process's threads to the task limit, as tasks are counted for each uid.
fn with_first(limits: &Limits) -> Limits {
    Limits {
        tasks: limits.tasks + inside::TASKS,
        ..*limits
    }
}

fn utf8(path: &Path) -> Result<&str, Refusal> {
    path.to_str().ok_or_else(|| {
        let message = format!(
            "`{}` is not UTF-8, and a container runtime reads its paths as JSON",
            path.display()
        );
        Refusal::new(Reason::GrantMissing, message).with(Fact::Path(path.display().to_string()))
    })
}

fn unconfirmed(message: impl Into<String>) -> Refusal {
    Refusal::new(Reason::BackendUnconfirmed, message).with(Fact::Backend("container"))
}

/// Refuses because of a step at which a child failed or was killed.
fn stopped(what: String, errno: i32) -> Refusal {
    match errno {
        0 => unconfirmed(format!("{what}: {}", why_stopped(errno))),
        errno => Refusal::failed(what, &io::Error::from_raw_os_error(errno), unconfirmed),
    }
}

/// Marks a refusal as released where the hook of a dead container may have run.
fn of_container(stop: Stop, ran: bool) -> Stop {
    match stop {
        Stop::Refusal(refusal) if ran => refusal.released().into(),
        Stop::Refusal(_) | Stop::Fault(_) => stop,
    }
}

fn unseen() -> Refusal {
    unconfirmed("the deadline passed while the hook was released, before its confinement was seen")
        .released()
}

fn too_small() -> Refusal {
    unconfirmed(
        "the container needed more memory than `limits.memory` before its hook was released",
    )
    .with(Fact::Axis(Axis::Memory))
}

fn late() -> Refusal {
    let message = "the deadline passed while the container was being made";
    Refusal::new(Reason::Deadline, message).with(Fact::Step("container".into()))
}
