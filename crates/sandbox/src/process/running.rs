//! Supervision of one started child, from its release to its tree's death.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use nix::{
    errno::Errno,
    sys::signal::{Signal, killpg},
    unistd::{Pid, read},
};
use tokio::{
    net::unix::pipe,
    sync::{Notify, mpsc},
    time::{sleep, sleep_until, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use hookjail_base::{
    model::{Captured, OnOutputLimit},
    util::shares::Share,
};
use hookjail_sys::{Process, Reaped, WaitStatus, Watched, exited};

use super::{
    capture::{Capture, Chunk, Stream},
    deadlines::{Armed, Hold, Kill, kill_group},
};
use hookjail_sys as sys;

/// Time limit for the end of an output after the tree's death. No process of the run is left by then, so it only passes
/// where a foreign process holds the pipe.
const DRAIN: Duration = Duration::from_millis(250);

/// Time limit for reaping the rest of a killed tree. After it, the failure is reported.
const REAP: Duration = Duration::from_secs(5);

/// The longest time between SIGTERM and the kill at a deadline: enough for git to remove its lock.
const NOTICE: Duration = Duration::from_millis(500);

/// The longest time between SIGTERM and the kill after a cancellation.
const NOTICE_OF_CANCEL: Duration = Duration::from_millis(250);

/// The daemon's ends of a child's pipes.
#[derive(Debug)]
pub struct Pipes {
    /// Read end of its standard error.
    pub stderr: pipe::Receiver,
    /// Write end of its standard input, and the rest of the event. `None` where all of it went into the pipe already.
    pub stdin: Option<(pipe::Sender, Bytes)>,
    /// Read end of its standard output.
    pub stdout: pipe::Receiver,
}

/// Conditions that end a run besides the child's own end.
#[derive(Debug)]
pub struct Supervision {
    /// Ends the run when cancelled.
    pub cancel: CancellationToken,
    /// The channel to a caller that watches the output, if any.
    pub chunks: Option<mpsc::Sender<Chunk>>,
    /// Ends the run when it passes.
    pub deadline: Instant,
    /// The memory to which output beyond the first 64 KiB of each stream is charged. `None` = `output_bytes` alone bounds it.
    pub memory: Option<Arc<Share>>,
    /// Action when a stream passes `output_bytes`.
    pub on_output_limit: OnOutputLimit,
    /// Bytes kept of each stream.
    pub output_bytes: usize,
}

impl Supervision {
    /// Supervises a run that is neither watched nor canceled, and of which the first MiB of each stream is kept.
    pub fn until(deadline: Instant) -> Self {
        Self {
            cancel: CancellationToken::new(),
            chunks: None,
            deadline,
            memory: None,
            on_output_limit: OnOutputLimit::Kill,
            output_bytes: 1 << 20,
        }
    }
}

/// Cause of a run's end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cause {
    /// The caller's cancellation.
    Canceled,
    /// The run's deadline.
    Deadline,
    /// The child's own end.
    Itself,
    /// The kernel's out-of-memory killer: the run needed more than its limit.
    OutOfMemory,
    /// Too much output, under a profile that then ends the run.
    OutputLimit,
    /// The child's own end, as a failure, after the kernel refused its run a task beyond its limit.
    PidsExhausted,
}

/// A run's end, not interpreted.
#[derive(Debug)]
pub struct Ended {
    /// Cause of the end.
    pub cause: Cause,
    /// Whether the kernel may have killed it for lack of memory though it kept to its own limit.
    pub lacked_memory: bool,
    /// End and resource usage of the first process. `None` if it could not be waited for within bounds.
    pub leader: Option<Reaped>,
    /// Whether a process still held an output pipe when the tree was dead.
    pub output_held_open: bool,
    /// Captured stderr.
    pub stderr: Captured,
    /// Captured stdout.
    pub stdout: Captured,
    /// Time from release to the death of the tree.
    pub wall: Duration,
}

/// A started child with its process group. Dropping it kills the tree.
#[derive(Debug)]
pub struct Running {
    /// The kill armed at its launch. Declared before the group, which may be reaped once it is dropped.
    launch: Option<Armed>,
    group: Group,
    /// Whether the kernel takes it before all others where memory runs out, because it waits.
    is_first: bool,
    /// The cause, if it was killed before this value was made.
    killed: Option<Cause>,
    pipes: Pipes,
    released: Instant,
    watched: Watched,
}

/// The child's process group; kills it when dropped.
#[derive(Debug)]
struct Group {
    /// The first process of a container, which the group's leader waits for. Everything else in the container dies with it.
    first: Option<Arc<Process>>,
    /// Released after the group's end.
    hold: Option<Hold>,
    /// The process group to be killed: the child's own, or that of the first process of its tree.
    id: Pid,
    /// The child.
    leader: Pid,
    reaped: bool,
}

/// Captures of a child's output, with their pipes.
struct Outputs {
    stderr: (Capture, pipe::Receiver),
    stdout: (Capture, pipe::Receiver),
}

impl Outputs {
    /// Reads both outputs to their ends, while the child runs.
    async fn read(&mut self, chunks: Option<&mpsc::Sender<Chunk>>, on_over: Option<&Notify>) {
        let (stdout, out_pipe) = &mut self.stdout;
        let (stderr, err_pipe) = &mut self.stderr;
        // A read error counts as the end of the pipe: the captures have the data so far.
        let (out, err) = tokio::join!(
            stdout.read(out_pipe, chunks, on_over),
            stderr.read(err_pipe, chunks, on_over),
        );
        drop((out, err));
    }

    /// Reads the rest after the tree's death. Returns whether a foreign process holds a pipe open. Chunks are only
    /// queued here, so that a caller that does not read them loses no captured output.
    async fn read_rest(&mut self, watching: bool) -> bool {
        let (stdout, out_pipe) = &mut self.stdout;
        let (stderr, err_pipe) = &mut self.stderr;
        let give_up = Instant::now() + DRAIN;
        loop {
            // A read error counts as the end of the pipe.
            let ended = stdout.rest(out_pipe, watching).unwrap_or(true)
                & stderr.rest(err_pipe, watching).unwrap_or(true);
            let held_open = !ended && Instant::now() >= give_up;
            if ended || held_open {
                return held_open;
            }
            sleep(Duration::from_millis(1)).await;
        }
    }

    async fn send(&mut self, chunks: &mpsc::Sender<Chunk>) {
        self.stdout.0.send(chunks).await;
        self.stderr.0.send(chunks).await;
    }
}

impl Running {
    /// Takes over a child that leads its own process group, and its launch's armed kill.
    ///
    /// # Errors
    ///
    /// Returns the error of watching the child; the tree is then killed.
    pub fn new(
        pid: i32,
        child: Process,
        pipes: Pipes,
        hold: Hold,
        launch: Option<Armed>,
    ) -> io::Result<Self> {
        Self::take_over((pid, pid), child, pipes, hold, launch)
    }

    /// Takes over a child in a process tree of its own, whose first process is given, too: its death ends the tree.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    #[cfg(target_os = "linux")]
    pub fn in_tree(
        ids: (i32, i32),
        child: Process,
        pipes: Pipes,
        hold: Hold,
        launch: Option<Armed>,
    ) -> io::Result<Self> {
        Self::take_over(ids, child, pipes, hold, launch)
    }

    fn take_over(
        (leader, group): (i32, i32),
        child: Process,
        pipes: Pipes,
        hold: Hold,
        launch: Option<Armed>,
    ) -> io::Result<Self> {
        hold.lead_by(Pid::from_raw(leader));
        let group = Group {
            first: None,
            hold: Some(hold),
            id: Pid::from_raw(group),
            leader: Pid::from_raw(leader),
            reaped: false,
        };
        let watched = match sys::watch(child) {
            Ok(watched) => watched,
            Err(error) => {
                // Before the group is dropped, which may be reaped then.
                drop(launch);
                return Err(error);
            }
        };
        Ok(Self {
            launch,
            group,
            is_first: false,
            killed: None,
            pipes,
            released: Instant::now(),
            watched,
        })
    }

    /// Sets the cause of an earlier kill.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn killed_for(mut self, cause: Cause) -> Self {
        self.killed = Some(cause);
        self
    }

    /// Kills the first process of a container instead of the child. The child is the container's runtime, which cleans up after
    /// the container, and ends.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn of_container(mut self, first: Process) -> Self {
        self.group.first = Some(Arc::new(first));
        self
    }

    /// Returns the id of the child.
    pub const fn leader(&self) -> i32 {
        self.group.leader.as_raw()
    }

    /// Waits until a child that keeps its stdin for later writes a mark, the first of its output. Returns whether it did. The
    /// child is killed at the deadline unless it begins before, or sooner where memory runs out: hooks that work are not.
    pub async fn waits(&mut self, mark: u8, deadline: Instant) -> io::Result<bool> {
        if self.rearm(deadline) {
            return Ok(false);
        }
        self.is_first = sys::take_first(self.group.leader.as_raw()).is_ok();
        let mut first = [0];
        loop {
            self.pipes.stdout.readable().await?;
            match self.pipes.stdout.try_read(&mut first) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                count => return Ok(count? == 1 && first == [mark] && self.is_silent()),
            }
        }
    }

    /// Puts off the kill to a deadline; returns whether it was sent before.
    ///
    /// That of the launch holds the child's ends of its pipes, which would not be seen to end.
    fn rearm(&mut self, deadline: Instant) -> bool {
        let armed = self.group.arm(deadline);
        // The new kill is armed already, so that there is no gap.
        std::mem::replace(&mut self.launch, armed).is_some_and(Armed::disarm)
    }

    /// Returns whether nothing has been printed that was not read.
    fn is_silent(&self) -> bool {
        // Read directly: the runtime may not have received the event yet.
        let pipes = [&self.pipes.stdout, &self.pipes.stderr];
        pipes
            .into_iter()
            .all(|pipe| read(pipe, &mut [0]) == Err(Errno::EAGAIN))
    }

    /// Gives a child that waits its stdin and its deadline. Returns whether it still waited.
    pub fn begin(&mut self, input: Bytes, deadline: Instant) -> bool {
        if self.rearm(deadline)
            || self.killed.is_some()
            || self.group.has_ended()
            || !self.is_silent()
            || (self.is_first && sys::take_as_hooks(self.group.leader.as_raw()).is_err())
        {
            return false;
        }
        self.is_first = false;
        let Some((_, rest)) = &mut self.pipes.stdin else {
            return false;
        };
        *rest = input;
        self.released = Instant::now();
        true
    }

    /// Writes the rest of the event and waits for the end of the whole tree.
    pub async fn finish(self, supervision: Supervision) -> Ended {
        let Supervision {
            cancel,
            chunks,
            deadline,
            memory,
            on_output_limit,
            output_bytes,
        } = supervision;
        let exceeded = Notify::new();
        let kills_on_exceeded = (on_output_limit == OnOutputLimit::Kill).then_some(&exceeded);
        let Self {
            launch,
            mut group,
            is_first: _,
            killed,
            pipes,
            released,
            watched,
        } = self;
        let armed = group.arm(deadline);
        // The group's kill is armed already, so that there is no gap.
        let late = launch.is_some_and(Armed::disarm);
        let Pipes {
            stderr,
            stdin,
            stdout,
        } = pipes;
        let capture = |stream| Capture::new(stream, output_bytes).counted(memory.clone());
        let mut outputs = Outputs {
            stderr: (capture(Stream::Stderr), stderr),
            stdout: (capture(Stream::Stdout), stdout),
        };

        let chunks = chunks.as_ref();
        let mut reading = true;
        let notice = notice_before(deadline, released);
        let mut end = deadline;
        // Why it was asked to end, once it was.
        let mut noticed = None;
        let ended_by = {
            let reads = outputs.read(chunks, kills_on_exceeded);
            let mut feeding = stdin.is_some();
            let feed = async {
                if let Some((stdin, event)) = stdin {
                    feed(stdin, event).await;
                }
            };
            tokio::pin!(reads, feed);
            loop {
                tokio::select! {
                    biased;
                    () = exited(&watched) => break Cause::Itself,
                    () = sleep_until(end.into()) => break noticed.unwrap_or(Cause::Deadline),
                    () = cancel.cancelled(), if noticed.is_none() => {
                        end = deadline.min(Instant::now() + NOTICE_OF_CANCEL);
                        noticed = Some(Cause::Canceled);
                        group.ask_to_end();
                    }
                    () = sleep_until(notice.into()), if noticed.is_none() => {
                        noticed = Some(Cause::Deadline);
                        group.ask_to_end();
                    }
                    () = exceeded.notified() => break Cause::OutputLimit,
                    () = &mut reads, if reading => reading = false,
                    () = &mut feed, if feeding => feeding = false,
                }
            }
        };
        let killed = if late || armed.is_some_and(Armed::disarm) {
            Some(Cause::Deadline)
        } else if killed.is_some() {
            killed
        } else if noticed.is_some() {
            // However it ended then, its time was over.
            noticed
        } else if group.has_ended() {
            // The child had ended before any other condition was handled.
            None
        } else {
            Some(ended_by).filter(|cause| *cause != Cause::Itself)
        };
        group.kill();
        let leader = group.reap_leader(&watched).await;
        group.reap().await;
        let wall = released.elapsed();
        let output_held_open = reading && outputs.read_rest(chunks.is_some()).await;
        if let Some(chunks) = chunks {
            // The reply has all output too, so a caller that does not read until the deadline loses nothing.
            let send = outputs.send(chunks);
            tokio::select! {
                () = cancel.cancelled() => {}
                sent = timeout_at((deadline.max(Instant::now() + DRAIN)).into(), send) => drop(sent),
            }
        }
        let cause = match (killed, leader) {
            // The child ended just before the signal arrived.
            (Some(_), Some(leader))
                if group.first.is_none() && noticed.is_none() && !was_killed(&leader) =>
            {
                Cause::Itself
            }
            (Some(cause), _) => cause,
            (None, _) => Cause::Itself,
        };
        Ended {
            cause,
            lacked_memory: cause == Cause::Itself && leader.as_ref().is_some_and(was_killed),
            leader,
            output_held_open,
            stderr: outputs.stderr.0.finish(),
            stdout: outputs.stdout.0.finish(),
            wall,
        }
    }

    /// Waits for the child's end, ignoring its output, and kills it at a deadline. Reaps the tree, and returns the
    /// child's end.
    #[cfg(target_os = "linux")]
    pub async fn wait(mut self, deadline: Instant) -> Option<Reaped> {
        let armed = self.group.arm(deadline);
        drop(self.launch.take());
        // On a timeout the child is killed below.
        timeout_at(deadline.into(), exited(&self.watched))
            .await
            .ok();
        drop(armed);
        self.end().await
    }

    /// Kills and reaps the tree of a child that must not run on. Returns whether it had been killed before, for its deadline or
    /// cancellation.
    pub async fn abort(mut self) -> bool {
        let late = self.launch.take().is_some_and(Armed::disarm);
        let killed = late || self.killed.is_some();
        self.end().await;
        killed
    }

    async fn end(mut self) -> Option<Reaped> {
        self.group.kill();
        let leader = self.group.reap_leader(&self.watched).await;
        if !self.group.reap().await || leader.is_none() {
            tracing::error!(
                group = self.group.id.as_raw(),
                "a child that was not released could not be reaped"
            );
        }
        leader
    }
}

fn was_killed(leader: &Reaped) -> bool {
    leader.status == WaitStatus::Signaled(Signal::SIGKILL as i32)
}

impl Group {
    /// Schedules the group's kill for a deadline, independent of the current thread.
    fn arm(&self, deadline: Instant) -> Option<Armed> {
        let (first, id, leader) = (self.first.clone(), self.id, self.leader);
        let kill = move || match sys::has_ended(leader.as_raw()) {
            Ok(false) => {
                kill(first.as_deref(), id);
                Kill::Sent
            }
            Ok(true) => {
                kill_group(id);
                Kill::NotNeeded
            }
            // The process is no child any more, and its id may have been reused.
            Err(_) => Kill::NotNeeded,
        };
        Some(self.hold.as_ref()?.arm(deadline, kill))
    }

    /// Returns whether the leader has ended, without reaping it.
    fn has_ended(&self) -> bool {
        sys::has_ended(self.leader.as_raw()).unwrap_or(true)
    }

    /// Asks the hook's process group to end, by SIGTERM.
    fn ask_to_end(&self) {
        // That of a container is its runtime's, and the leader is not reaped yet, so its number names nothing else.
        if self.first.is_none() {
            // An error is ESRCH.
            killpg(self.leader, Signal::SIGTERM).ok();
        }
    }

    fn kill(&self) {
        kill(self.first.as_deref(), self.id);
    }

    async fn reap_leader(&self, child: &Watched) -> Option<Reaped> {
        let reaped = reap_leader(child, self.leader).await;
        if reaped.is_some() || self.first.is_none() {
            return reaped;
        }
        kill_group(self.id);
        reap_leader(child, self.leader).await
    }

    /// Waits for the end of a tree's first process, which is that of the whole tree. Returns at once where it cannot be watched.
    async fn end_of_first(&self) {
        #[cfg(target_os = "linux")]
        if self.id != self.leader
            && let Ok(first) = sys::process(self.id.as_raw()).and_then(sys::watch)
        {
            exited(&first).await;
        }
    }

    /// Reaps the leader's descendants, which become children of this process as their subreaper. Returns whether none
    /// is left.
    async fn reap(&mut self) -> bool {
        let give_up = Instant::now() + REAP;
        let mut has_waited = false;
        loop {
            match sys::reap_group(self.id.as_raw()) {
                Ok(Some(_)) => {}
                Ok(None) if Instant::now() < give_up && !has_waited => {
                    has_waited = true;
                    timeout_at(give_up.into(), self.end_of_first()).await.ok();
                }
                Ok(None) if Instant::now() < give_up => sleep(Duration::from_millis(1)).await,
                Ok(None) => {
                    tracing::error!(
                        group = self.id.as_raw(),
                        "killed process group does not end"
                    );
                    return false;
                }
                // ECHILD: no process is left.
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
        if self.reaped {
            return;
        }
        self.kill();
        kill_group(self.id);
        if let Some(hold) = self.hold.take() {
            hold.leave(self.id);
        }
    }
}

/// Returns when a hook that still runs is asked to end: a tenth of its time before the deadline, and at most [`NOTICE`].
fn notice_before(deadline: Instant, released: Instant) -> Instant {
    let time = deadline.saturating_duration_since(released);
    deadline
        .checked_sub((time / 10).min(NOTICE))
        .unwrap_or(deadline)
}

/// Kills a run: the first process of its container, or else its process group.
fn kill(first: Option<&Process>, group: Pid) {
    match first {
        None => kill_group(group),
        // An error is ESRCH: the process is gone.
        Some(first) => drop(sys::kill(first)),
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

/// Writes the event and closes stdin. A hook that does not read, or stops reading, is no error.
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
            // EPIPE: the hook closed its stdin.
            Err(_) => return,
        }
    }
}
