//! Running: an announced hook, confined, up to its end.

use std::sync::Arc;

use super::Announced;
use crate::{
    process::Supervision,
    refusal::Stop,
    sandbox::{End, EndedHook, Known, Sandbox, Setup, StartedHook},
    sys::WaitStatus,
};

/// An announced hook that runs confined as planned. Dropping it kills the tree.
///
/// Only [`Confined::start`] makes one.
#[derive(Debug)]
#[must_use]
pub struct Confined {
    announced: Announced,
    hook: StartedHook,
}

/// The end of a run, whatever it was.
#[derive(Debug)]
pub struct Ended {
    /// The plan and its start record.
    pub announced: Announced,
    /// The known denials.
    pub denied: Known,
    /// The way in which it ended.
    pub end: End,
    /// The proofs of the set-up.
    pub setup: Setup,
}

impl Confined {
    /// Starts a hook confined.
    ///
    /// # Errors
    ///
    /// Refuses where any part of confinement cannot be had or proved; then nothing of the hook has run, except where the
    /// kernel's own word about the released child differs from the plan: then the tree is dead.
    pub async fn start(mut announced: Announced, sandbox: &Sandbox) -> Result<Self, Stop> {
        let hook = sandbox.start(announced.task()).await?;
        announced.started();
        Ok(Self { announced, hook })
    }

    /// Feeds the event and waits for the end of the whole tree. Consumes `self`: a hook starts once.
    ///
    /// # Errors
    ///
    /// The container that it ran in did not say how it ended.
    pub fn run(self) -> impl Future<Output = Result<Ended, Stop>> + Send {
        let Self {
            mut announced,
            hook,
        } = self;
        // The sender ends with the run: its other end is the caller's stream.
        let chunks = announced.take_chunks();
        let plan = announced.plan();
        let ended = hook.finish(Supervision {
            cancel: plan.admitted.call.cancel.clone(),
            chunks,
            deadline: plan.deadline,
            memory: Some(Arc::clone(&plan.admitted.call.held)),
            on_output_limit: plan.policy.limits.on_output_limit,
            output_bytes: usize::try_from(plan.policy.limits.output_bytes).unwrap_or(usize::MAX),
        });
        async {
            let EndedHook { denied, end, setup } = ended.await?;
            Ok(Ended {
                announced,
                denied,
                end,
                setup,
            })
        }
    }
}

impl Ended {
    /// Returns the exit code, if the hook exited.
    pub fn exit_code(&self) -> Option<i32> {
        match self.status() {
            Some(WaitStatus::Exited(code)) => Some(code),
            Some(WaitStatus::Signaled(_)) | None => None,
        }
    }

    /// Returns the signal, if one ended the hook.
    pub fn signal(&self) -> Option<i32> {
        match self.status() {
            Some(WaitStatus::Signaled(signal)) => Some(signal),
            Some(WaitStatus::Exited(_)) | None => None,
        }
    }

    /// Returns the size of the kept output, bytes.
    pub fn output_bytes(&self) -> usize {
        match &self.end {
            End::ExecFailed(_) => 0,
            End::Ran(ran) => ran.stdout.head.len() + ran.stderr.head.len(),
        }
    }

    /// Returns the caller's uid.
    pub fn uid(&self) -> u32 {
        self.announced.plan().admitted.call.peer.uid
    }

    fn status(&self) -> Option<WaitStatus> {
        match &self.end {
            End::ExecFailed(_) => None,
            End::Ran(ran) => ran.leader.map(|leader| leader.status),
        }
    }
}
