//! Starts a child, either unconfined or under a profile.
//!
//! Only the code of this file makes a [`Started`]; for a child under a profile it requires a [`Proof`].

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    unistd::Pid,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::unix::pipe,
    task::spawn_blocking,
    time::timeout_at,
};
use tokio_util::sync::CancellationToken;

use hookjail_base::{
    model::OnOutputLimit,
    refusal::{Fault, Reason, Refusal, Stop, canceled},
};

use crate::{
    process::{self, Hold, Kill, Pipes, Running, Supervision},
    run::{Finish, RunningHook},
    seatbelt::{
        SANDBOX_EXEC,
        witness::{Order, Proof, Seen, Unproved, outcome},
    },
};
use hookjail_sys as sys;

/// Timeout of the end of a child that is stuck before its exec.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Limit on the kept output of `sandbox-exec`, bytes.
const SANDBOX_EXEC_OUTPUT_BYTES: usize = 4 * 1024;

/// A running child, unconfined as intended, or under a profile observed from inside.
#[derive(Debug)]
pub(crate) struct Started(Running);

impl Started {
    /// Wraps a child under a profile, given its proof.
    const fn proved(running: Running, _proof: &Proof) -> Self {
        Self(running)
    }

    /// Writes the event and waits for the end of the whole process group.
    pub(crate) async fn finish(self, supervision: Supervision) -> process::Ended {
        self.0.finish(supervision).await
    }
}

impl RunningHook for Started {
    fn run_to_end(self: Box<Self>, supervision: Supervision) -> Finish {
        let running = *self;
        Box::pin(async { Ok(running.finish(supervision).await) })
    }
}

/// Starts an unconfined child. `Err` is the errno of the exec, or of an earlier step.
pub(crate) async fn unconfined(
    start: sys::Start,
    pipes: Pipes,
    hold: Hold,
    until: Until,
) -> Result<Result<Started, Errno>, Stop> {
    Ok(spawn(start, pipes, hold, until).await?.map(Started))
}

/// The daemon's ends of the pipes to and from a witness.
#[derive(Debug)]
struct Channel {
    order: pipe::Sender,
    report: pipe::Receiver,
}

/// Both ends of the pipes between the daemon and a witness.
#[derive(Debug)]
pub(crate) struct Line {
    channel: Channel,
    order: OwnedFd,
    report: OwnedFd,
}

impl Line {
    pub(crate) fn new() -> io::Result<Self> {
        let (order, order_write) = sys::pipe()?;
        let (report_read, report) = sys::pipe()?;
        for end in [&order_write, &report_read] {
            fcntl(end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        let channel = Channel {
            order: pipe::Sender::from_owned_fd_unchecked(order_write)?,
            report: pipe::Receiver::from_owned_fd_unchecked(report_read)?,
        };
        Ok(Self {
            channel,
            order,
            report,
        })
    }

    /// Returns the descriptor numbers of the witness's ends, as its arguments. First that of the order, then that of the report.
    pub(crate) fn arguments(&self) -> [String; 2] {
        [&self.order, &self.report].map(|fd| fd.as_raw_fd().to_string())
    }
}

/// Starts `sandbox-exec`, receives the proof of confinement, and sends the order.
///
/// Without the proof nothing is executed, and no running child returned. An errno is that of the order's exec.
///
/// # Errors
///
/// Refuses where `sandbox-exec` could not be executed, or the confinement was not observed: `BACKEND_UNCONFIRMED`.
pub(crate) async fn witnessed(
    mut start: sys::Start,
    line: Line,
    order: &Order,
    pipes: Pipes,
    hold: Hold,
    until: Until,
) -> Result<(Result<Started, Errno>, Proof), Stop> {
    let Line {
        channel,
        order: order_read,
        report: report_write,
    } = line;
    // Kept open in the child; closed here after the start, or the report's end-of-file would never arrive.
    start.kept = vec![order_read, report_write];
    let deadline = until.deadline;
    let running = spawn(start, pipes, hold, until).await?;
    let running = running.map_err(|errno| not_executed(Path::new(SANDBOX_EXEC), errno))?;
    match timeout_at(deadline.into(), channel.hear(order)).await {
        Ok(Ok((Ok(()), proof))) => Ok((Ok(Started::proved(running, &proof)), proof)),
        Ok(Ok((Err(errno), proof))) => {
            running.abort().await;
            Ok((Err(errno), proof))
        }
        Ok(Err(why)) => Err(unproved(why, running).await.into()),
        Err(_) => {
            running.abort().await;
            // Whether the order was executed is unknown.
            let message = "the deadline passed before the hook's confinement was seen";
            let refusal = Refusal::new(Reason::BackendUnconfirmed, message);
            Err(refusal.released().into())
        }
    }
}

impl Channel {
    /// Receives the canaries' result, sends the order, and receives its outcome.
    ///
    /// The pipes are closed in any case: a witness that still waits for an order gets end-of-file.
    async fn hear(self, order: &Order) -> Result<(Result<(), Errno>, Proof), Unproved> {
        let Self {
            order: mut down,
            report: mut up,
        } = self;
        let mut seen = [0; Seen::LENGTH];
        let heard = up.read_exact(&mut seen).await;
        heard.map_err(|_| Unproved::Silent)?;
        let proof = Proof::new(Seen::decode(seen).ok_or(Unproved::Garbled)?)?;
        let order = proof.release(order).map_err(|_| Unproved::Undone)?;
        let written = down.write_all(&order).await;
        written.map_err(|_| Unproved::Undone)?;
        // End-of-file ends the order.
        drop(down);
        let mut after = Vec::new();
        // One byte above the limit, so that a message that is too long is detected.
        let most = Seen::AFTER as u64 + 1;
        let read = up.take(most).read_to_end(&mut after).await;
        read.map_err(|_| Unproved::Undone)?;
        Ok((outcome(&after)?, proof))
    }
}

/// Kills a child whose confinement was not proved, and refuses with its output.
async fn unproved(why: Unproved, running: Running) -> Refusal {
    let supervision = Supervision {
        cancel: CancellationToken::new(),
        chunks: None,
        deadline: Instant::now() + KILL_TIMEOUT,
        memory: None,
        on_output_limit: OnOutputLimit::Kill,
        output_bytes: SANDBOX_EXEC_OUTPUT_BYTES,
    };
    // Large, and nested deep.
    let ended = Box::pin(running.finish(supervision)).await;
    let words = String::from_utf8_lossy(&ended.stderr.head);
    let words = match words.trim() {
        "" => "nothing",
        words => words,
    };
    let message =
        format!("the confinement by `{SANDBOX_EXEC}` was not seen: {why} (stderr: {words})");
    Refusal::new(Reason::BackendUnconfirmed, message)
}

/// Refuses because the confining or testing program could not be executed.
pub(crate) fn not_executed(path: &Path, errno: Errno) -> Refusal {
    let message = format!("`{}` could not be executed: {errno}", path.display());
    Refusal::new(Reason::BackendUnconfirmed, message)
}

/// Limit after which a program is not started.
#[derive(Clone, Debug)]
pub(crate) struct Until {
    /// Cancels the start.
    pub(crate) cancel: CancellationToken,
    /// Deadline of the start.
    pub(crate) deadline: Instant,
}

impl Until {
    fn is_over(&self) -> bool {
        self.cancel.is_cancelled() || self.deadline <= Instant::now()
    }

    /// Refuses because nothing was started in time.
    fn refusal(&self) -> Refusal {
        if self.cancel.is_cancelled() {
            return canceled();
        }
        let message = "the deadline passed before the child was started";
        Refusal::new(Reason::Deadline, message)
    }
}

/// Starts a program and waits until its exec, or until the deadline.
///
/// An errno is that of the exec, or of an earlier step. The child writes its process group to the hold's place.
async fn spawn(
    start: sys::Start,
    pipes: Pipes,
    hold: Hold,
    until: Until,
) -> Result<Result<Running, Errno>, Stop> {
    let group = hold.entry();
    // Kills the group at the deadline, also before the exec: the child records its group first.
    let armed = hold.arm(until.deadline, move || match sys::kill_group(group) {
        Ok(()) => Kill::Sent,
        Err(_) => Kill::NotNeeded,
    });
    let is_over = until.clone();
    let mut starting = spawn_blocking(move || {
        if is_over.is_over() {
            return None;
        }
        Some(sys::start(start))
    });
    let Ok(started) = timeout_at((until.deadline + KILL_TIMEOUT).into(), &mut starting).await
    else {
        let refusal = until.refusal();
        // Killed but not dead: its resources stay occupied until its end.
        tokio::spawn(async move {
            let started = starting.await;
            armed.disarm();
            if let Ok(Some(Ok(process))) = started {
                hold.leave(Pid::from_raw(process.pid()));
            }
        });
        return Err(refusal.into());
    };
    match started.map_err(|e| Fault::new("cannot start a child", e))? {
        None => Err(until.refusal().into()),
        Some(Ok(process)) => Running::new(process.pid(), process, pipes, hold, Some(armed))
            .map(Ok)
            .map_err(|e| Fault::new("cannot watch the child", e).into()),
        Some(Err(error)) => {
            if armed.disarm() {
                return Err(until.refusal().into());
            }
            match error.raw_os_error() {
                Some(errno) => Ok(Err(Errno::from_raw(errno))),
                None => Err(Fault::new("cannot start a child", error).into()),
            }
        }
    }
}
