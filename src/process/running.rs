//! One started child, from its release to the death of its tree.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use nix::{
    errno::Errno,
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::{
    net::unix::pipe,
    sync::{Notify, mpsc},
    time::{sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::capture::{Capture, Captured, Chunk, Stream};
use crate::{
    policy::OnOutputLimit,
    shares::Share,
    sys::{self, Place, Process, Reaped, Watched, exited},
};

/// How long output may still come once the tree is dead. Nothing of the run is left by then, so this only runs out where
/// a foreign process holds the pipe.
const DRAIN: Duration = Duration::from_millis(250);

/// How long the rest of a killed tree may take to be reaped before that is reported instead of waited for.
const REAP: Duration = Duration::from_secs(5);

/// The daemon's ends of a child's pipes.
#[derive(Debug)]
pub struct Pipes {
    /// Read end of its standard error.
    pub stderr: pipe::Receiver,
    /// Write end of its standard input, and what is still to be written; `None` where all of it went into the pipe already.
    pub stdin: Option<(pipe::Sender, Bytes)>,
    /// Read end of its standard output.
    pub stdout: pipe::Receiver,
}

/// What ends a run besides the child itself.
#[derive(Debug)]
pub struct Supervision {
    /// Ends the run when cancelled.
    pub cancel: CancellationToken,
    /// Where output goes as it comes, if anywhere.
    pub chunks: Option<mpsc::Sender<Chunk>>,
    /// Ends the run when it passes.
    pub deadline: Instant,
    /// Of what memory kept output is a part, beyond the first 64 KiB of each stream; `None` = `output_bytes` alone bounds it.
    pub memory: Option<Arc<Share>>,
    /// What happens when a stream passes `output_bytes`.
    pub on_output_limit: OnOutputLimit,
    /// How much of each stream is kept.
    pub output_bytes: usize,
}

/// What ended a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cause {
    /// The caller's cancellation.
    Canceled,
    /// Our deadline.
    Deadline,
    /// The child's own end.
    Itself,
    /// The kernel: the run needed more memory than it may have.
    OutOfMemory,
    /// Too much output under a profile that ends the run for it.
    OutputLimit,
}

/// A run's end: facts only.
#[derive(Debug)]
pub struct Ended {
    /// What ended it.
    pub cause: Cause,
    /// How the first process ended and what it used; `None` if it could not be waited for within bounds.
    pub leader: Option<Reaped>,
    /// Somebody still held an output pipe when the tree was dead.
    pub output_held_open: bool,
    /// What was printed to stderr.
    pub stderr: Captured,
    /// What was printed to stdout.
    pub stdout: Captured,
    /// Whether every process of the tree is known to be dead and reaped.
    pub tree_reaped: bool,
    /// From release to the death of the tree.
    pub wall: Duration,
}

/// A started child with its process group. Dropping it kills the tree.
#[derive(Debug)]
pub struct Running {
    group: Group,
    pipes: Pipes,
    released: Instant,
    watched: Watched,
}

/// The child's process group; kills it when dropped.
#[derive(Debug)]
struct Group {
    /// The first process of a container, which the group's leader waits for: everything else in the container dies with it.
    first: Option<Process>,
    id: Pid,
    /// Given back after the group's end.
    _place: Place,
    reaped: bool,
}

impl Running {
    /// Takes charge of a child that leads its own process group.
    ///
    /// # Errors
    ///
    /// Returns the error of having the runtime watch the child; the tree is then killed.
    pub fn new(pid: i32, child: Process, pipes: Pipes, place: Place) -> io::Result<Self> {
        let group = Group {
            first: None,
            id: Pid::from_raw(pid),
            _place: place,
            reaped: false,
        };
        let watched = sys::watch(child)?;
        Ok(Self {
            group,
            pipes,
            released: Instant::now(),
            watched,
        })
    }

    /// Has the first process of a container killed instead of the child, which is the container's runtime: it takes away what
    /// it keeps of the container, and ends.
    #[must_use]
    pub fn of_container(mut self, first: Process) -> Self {
        self.group.first = Some(first);
        self
    }

    /// Returns the first process's id. It stays valid until the run has ended: the process is reaped nowhere else.
    pub fn pid(&self) -> i32 {
        self.group.id.as_raw()
    }

    /// Feeds the rest of the event and waits for the end of the whole tree.
    pub async fn finish(self, supervision: Supervision) -> Ended {
        let Supervision {
            cancel,
            chunks,
            deadline,
            memory,
            on_output_limit,
            output_bytes,
        } = supervision;
        let over = Notify::new();
        let on_over = (on_output_limit == OnOutputLimit::Kill).then_some(&over);
        let mut stdout = Capture::new(Stream::Stdout, output_bytes).counted(memory.clone());
        let mut stderr = Capture::new(Stream::Stderr, output_bytes).counted(memory);
        let Self {
            mut group,
            pipes,
            released,
            watched,
        } = self;
        let Pipes {
            stderr: stderr_pipe,
            stdin,
            stdout: stdout_pipe,
        } = pipes;

        let (cause, output_held_open) = {
            let chunks = chunks.as_ref();
            let reads = async {
                // A pipe that cannot be read is a pipe at its end: the capture says how much came.
                let (out, err) = tokio::join!(
                    stdout.read(&stdout_pipe, chunks, on_over),
                    stderr.read(&stderr_pipe, chunks, on_over),
                );
                drop((out, err));
            };
            let (mut reading, mut feeding) = (true, stdin.is_some());
            let feed = async {
                if let Some((stdin, event)) = stdin {
                    feed(stdin, event).await;
                }
            };
            tokio::pin!(reads, feed);
            let cause = loop {
                tokio::select! {
                    biased;
                    () = exited(&watched) => break Cause::Itself,
                    () = cancel.cancelled() => break Cause::Canceled,
                    () = sleep_until(deadline.into()) => break Cause::Deadline,
                    () = over.notified() => break Cause::OutputLimit,
                    () = &mut reads, if reading => reading = false,
                    () = &mut feed, if feeding => feeding = false,
                }
            };
            group.kill();
            // The tree is dying: end-of-file comes at once unless a foreign process holds the pipe.
            (cause, reading && timeout(DRAIN, &mut reads).await.is_err())
        };
        let leader = group.reap_leader(&watched).await;
        let tree_reaped = group.reap().await && leader.is_some();
        Ended {
            cause,
            leader,
            output_held_open,
            stderr: stderr.finish(),
            stdout: stdout.finish(),
            tree_reaped,
            wall: released.elapsed(),
        }
    }

    /// Kills and reaps the tree of a child that must not run on.
    pub async fn abort(mut self) {
        self.group.kill();
        let leader = self.group.reap_leader(&self.watched).await;
        let rest = self.group.reap().await;
        if leader.is_none() || !rest {
            tracing::error!(
                group = self.group.id.as_raw(),
                "a child that was not released could not be reaped"
            );
        }
    }
}

impl Group {
    fn kill(&self) {
        match &self.first {
            None => self.kill_all(),
            // An error is ESRCH: it is gone.
            Some(first) => drop(sys::kill(first)),
        }
    }

    async fn reap_leader(&self, child: &Watched) -> Option<Reaped> {
        let reaped = reap_leader(child, self.id).await;
        if reaped.is_some() || self.first.is_none() {
            return reaped;
        }
        self.kill_all();
        reap_leader(child, self.id).await
    }

    fn kill_all(&self) {
        match killpg(self.id, Signal::SIGKILL) {
            // ESRCH: all of it is gone already.
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => {
                tracing::error!(%error, group = self.id.as_raw(), "process group cannot be killed")
            }
        }
    }

    /// Reaps what the leader left behind: orphans of a subreaper are its children. Returns whether nothing is left.
    async fn reap(&mut self) -> bool {
        let give_up = Instant::now() + REAP;
        loop {
            match sys::reap_group(self.id.as_raw()) {
                Ok(Some(_)) => {}
                Ok(None) if Instant::now() < give_up => sleep(Duration::from_millis(1)).await,
                Ok(None) => {
                    tracing::error!(
                        group = self.id.as_raw(),
                        "killed process group does not end"
                    );
                    return false;
                }
                // ECHILD: nothing left.
                Err(_) => {
                    self.reaped = true;
                    return true;
                }
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill();
            self.kill_all();
        }
    }
}

async fn reap_leader(child: &Watched, id: Pid) -> Option<Reaped> {
    let wait = async {
        loop {
            match sys::reap_watched(child) {
                Ok(Some(reaped)) => return Some(reaped),
                Ok(None) => exited(child).await,
                Err(error) => {
                    tracing::error!(%error, pid = id.as_raw(), "hook cannot be waited for");
                    return None;
                }
            }
        }
    };
    timeout(REAP, wait).await.ok().flatten()
}

/// Writes the event and closes stdin. A hook that does not read, or stops reading, is fine.
async fn feed(stdin: pipe::Sender, event: Bytes) {
    let mut rest = &event[..];
    while !rest.is_empty() {
        match stdin.try_write(rest) {
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if stdin.writable().await.is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // EPIPE: it closed its stdin.
            Err(_) => return,
        }
    }
}
