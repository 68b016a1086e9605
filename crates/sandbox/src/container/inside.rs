//! First process of a container, run by this same program. The process verifies that the container is as ordered, starts a
//! child that confines itself further and executes the hook, and reports how that ended.
//!
//! The hook is not the first process itself: signals that the first process sends to itself do not end it, and it
//! inherits orphans. When this process ends, the kernel kills all others in the container.

use std::{
    fs,
    io::{self, Read, Write},
    os::{
        fd::OwnedFd,
        unix::{fs::MetadataExt, net::UnixStream},
    },
    path::Path,
    process::ExitCode,
    sync::{Arc, mpsc},
    thread,
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    sys::{
        prctl,
        stat::Mode,
        statfs::{TMPFS_MAGIC, statfs},
    },
    unistd::{dup2_stderr, dup2_stdin, dup2_stdout, setsid},
};

use hookjail_sys::{Action, Attempt, Job, JobParts, Launch, Step};

use crate::{
    container::{
        channel::{self, Answer, ContainerTask, Expected, Inode, Order, path},
        mounts,
    },
    seccomp::{self, Filters, Pool, Starts},
};
use hookjail_sys as sys;

/// Path of the socket in every container.
pub(crate) const SOCKET: &str = "/.hookjail/socket";

/// Path of this program in every container.
pub(crate) const PROGRAM: &str = "/.hookjail/init";

/// Argument that runs the program as the first process of a container.
pub(crate) const ARGUMENT: &str = "container-init";

/// Number of its threads: one waits, one starts the hook, and one watches for the daemon's end.
pub(crate) const TASKS: u64 = 3;

/// Exit code after a failure to report to the daemon.
const UNHEARD: u8 = 125;

/// Executes a daemon's order from the socket. Outside of a container this fails without effect.
pub fn run() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        // The daemon sees the socket close, and the runtime's output.
        Err(_) => ExitCode::from(UNHEARD),
    }
}

fn serve() -> io::Result<()> {
    // Otherwise a hook of the same user could read this process's memory.
    prctl::set_dumpable(false)?;
    match setsid() {
        // EPERM: the runtime has done this already.
        Ok(_) | Err(Errno::EPERM) => {}
        Err(error) => return Err(error.into()),
    }
    let mut daemon = UnixStream::connect(SOCKET)?;
    // Closes the runtime's descriptors, and reserves their numbers before the hook's pipes are received.
    dup2_stdin(&daemon)?;
    dup2_stdout(&daemon)?;
    dup2_stderr(&daemon)?;
    let stdio = sys::receive_fds(&daemon)?;
    let order = receive(&mut daemon)?;
    match examine(&order).and_then(|()| carry_out(order, stdio, &mut daemon)) {
        Ok(()) => Ok(()),
        Err(why) => send(&mut daemon, &Answer::Refused(why.to_string())),
    }
}

/// Checks that the container has exactly the ordered mounts and files.
fn examine(order: &Order) -> io::Result<()> {
    let wrong = |place: &Path, what: &str| {
        io::Error::other(format!("`{}` in the container {what}", place.display()))
    };
    for Expected {
        inode,
        limits,
        path: target,
        ..
    } in &order.expected
    {
        let target = path(target);
        let found = fs::metadata(target)
            .map_err(|error| wrong(target, &format!("cannot be looked at: {error}")))?;
        if inode.is_some_and(|inode| inode != Inode::new(&found)) {
            return Err(wrong(target, "is not the file that was granted"));
        }
        if let Some((bytes, inodes)) = *limits {
            let found = statfs(target)?;
            // The kernel counts whole blocks.
            let block = u64::try_from(found.block_size()).map_err(io::Error::other)?;
            let size = bytes.checked_next_multiple_of(block);
            let is_limited = size == found.blocks().checked_mul(block) && found.files() == inodes;
            if found.filesystem_type() != TMPFS_MAGIC || !is_limited {
                return Err(wrong(
                    target,
                    "has not the size and the number of files that were ordered",
                ));
            }
        }
    }
    mounts::examine(
        &fs::read_to_string("/proc/self/mountinfo")?,
        &order.expected,
    )
    .map_err(io::Error::other)?;
    let (granted, denied) = (path(&order.canary_granted), path(&order.canary_denied));
    fs::File::open(granted).map_err(|error| wrong(granted, &format!("does not open: {error}")))?;
    match fs::File::open(denied) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(wrong(denied, "opens, which nothing grants")),
    }
}

/// The container has the hook's uid and cgroup already.
const STARTS: Starts = Starts {
    in_cgroup: false,
    switch_uid: false,
};

/// Starts the child, waits for it, and reports the result.
fn carry_out(order: Order, stdio: [OwnedFd; 3], daemon: &mut UnixStream) -> io::Result<()> {
    let Filters {
        closing, inherited, ..
    } = seccomp::compile(&order.filters, STARTS, seccomp::Asking::Nothing)
        .map_err(io::Error::other)?;
    let filters = u32::try_from(inherited.programs.len() + 1).map_err(io::Error::other)?;
    let (pool, _) = Pool::start(1, inherited, false)?;
    let directory = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let working_dir = open(order.working_dir.as_c_str(), directory, Mode::empty())?;
    let action = match order.task {
        ContainerTask::Attempt(attempts) => {
            Action::Attempt(attempts.into_iter().map(Attempt::from).collect())
        }
        ContainerTask::Execute {
            argv,
            environment,
            inode,
            program,
        } => {
            let program_path = path(&program);
            let file = fs::File::open(program_path)?;
            if Inode::new(&file.metadata()?) != inode {
                let message = format!(
                    "`{}` in the container is not the program that was admitted",
                    program_path.display()
                );
                return Err(io::Error::other(message));
            }
            Action::Execute {
                argv,
                environment,
                program: file.into(),
            }
        }
    };
    let attempts = matches!(action, Action::Attempt(_));
    if attempts {
        // Before the attempts, so that as many threads exist as with a hook.
        drop(end_with(daemon.try_clone()?)?);
    }
    let job = Job::new(JobParts {
        action,
        // This process has tested the canaries, and sees the same files as the child.
        canaries: None,
        cgroup: None,
        closing: Some(Arc::new(closing)),
        group: None,
        identity: None,
        landlock_flags: 0,
        limits: order.limits,
        mounts: None,
        note: None,
        ruleset: None,
        stdio,
        tree: None,
        umask: order.umask,
        working_dir: Arc::new(working_dir),
    })
    .map_err(|_| io::Error::other("the closing filter is too long"))?;
    let job = Arc::new(job);
    if !attempts {
        send(daemon, &Answer::Starting)?;
    }
    let (pid, pidfd) = launch(&pool, &job)?;
    let report = job.report();
    let (step, errno) = (report.step(), report.errno());
    if attempts {
        sys::wait_for(pid)?;
        if !report.did(Step::Release) {
            return send(daemon, &stuck(step, errno));
        }
        let results = job.attempts().iter().map(Attempt::result).collect();
        return send(daemon, &Answer::Attempted(results));
    }
    if step != Step::Release {
        return send(daemon, &stuck(step, errno));
    }
    // Closed here, so that readers see end-of-file when the hook closes its pipes.
    drop((job, pidfd));
    send(daemon, &Answer::Released { errno, filters })?;
    let seen = end_with(daemon.try_clone()?)?;
    let ended = sys::wait_for(pid)?;
    // Before the child's inspection is confirmed: a daemon paused until the deadline has not inspected it yet.
    send(daemon, &Answer::Ended(ended))?;
    // The child, and the thread that it is found by, stay until the daemon has inspected it.
    let looked = seen.recv().map_err(io::Error::other);
    drop(pool);
    looked
}

/// Starts a child, and waits until it has been released or has failed.
fn launch(pool: &Pool, job: &Arc<Job>) -> io::Result<(i32, OwnedFd)> {
    let launched = pool
        .launch(Arc::clone(job), None)
        .map_err(io::Error::other)?;
    match launched.blocking_recv().map_err(io::Error::other)? {
        Launch::Cloned { pid, pidfd } => Ok((pid, pidfd)),
        Launch::NotCloned(errno) => Err(io::Error::from_raw_os_error(errno)),
        Launch::TooLate => Err(io::ErrorKind::TimedOut.into()),
        // Its job has none: the container is one already.
        Launch::Tree { .. } => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn stuck(step: Step, errno: i32) -> Answer {
    let step = step.name().to_owned();
    Answer::Stuck { errno, step }
}

/// Ends the container when the daemon is gone or has closed the connection. Passes on its confirmation that it has inspected the
/// hook.
fn end_with(mut daemon: UnixStream) -> io::Result<mpsc::Receiver<()>> {
    let (look, seen) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        // A read error counts as the end of the connection.
        while let Ok(1) = daemon.read(&mut [0]) {
            // After a self-test no receiver is left.
            look.send(()).ok();
        }
        sys::exit(UNHEARD);
    })?;
    Ok(seen)
}

fn receive(daemon: &mut UnixStream) -> io::Result<Order> {
    let mut length = [0; 4];
    daemon.read_exact(&mut length)?;
    let mut message = vec![0; channel::length(length)?];
    daemon.read_exact(&mut message)?;
    channel::decode(&message)
}

fn send(daemon: &mut UnixStream, answer: &Answer) -> io::Result<()> {
    daemon.write_all(&channel::encode(answer)?)
}

impl Inode {
    pub(crate) fn new(file: &fs::Metadata) -> Self {
        Self {
            device: file.dev(),
            number: file.ino(),
        }
    }
}
