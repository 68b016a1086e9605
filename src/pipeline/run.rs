//! Running: an announced hook, confined, up to its end.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::{Announced, Run};
use crate::{
    process::{Chunk, Supervision},
    refusal::Stop,
    sandbox::{EndedHook, Sandbox, StartedHook},
};

/// An announced hook that runs confined as planned. Dropping it kills the tree.
///
/// Only [`Confined::start`] makes one.
#[derive(Debug)]
#[must_use]
pub struct Confined {
    chunks: Option<mpsc::Sender<Chunk>>,
    run: Box<Run>,
    hook: StartedHook,
}

/// The end of a run, whatever it was.
///
/// Only [`Confined::run`] makes one.
#[derive(Debug)]
pub struct Ended {
    /// The end of its hook.
    pub(crate) hook: EndedHook,
    /// The run.
    pub(crate) run: Box<Run>,
    _ran: (),
}

impl Confined {
    /// Starts a hook confined.
    ///
    /// # Errors
    ///
    /// Refuses where any part of confinement cannot be had or proved; then nothing of the hook has run, except where the
    /// kernel's own word about the released child differs from the plan: then the tree is dead.
    pub async fn start(announced: Announced, sandbox: &Sandbox) -> Result<Self, Stop> {
        let hook = sandbox.start(announced.task()).await?;
        let (run, chunks) = announced.started();
        Ok(Self { chunks, run, hook })
    }

    /// Feeds the event and waits for the end of the whole tree. Consumes `self`: a hook starts once.
    ///
    /// # Errors
    ///
    /// The container that it ran in did not say how it ended.
    pub fn run(self) -> impl Future<Output = Result<Ended, Stop>> + Send {
        let Self { chunks, run, hook } = self;
        let limits = &run.policy.limits;
        let ended = hook.finish(Supervision {
            cancel: run.cancel.clone(),
            // The sender ends with the run: its other end is the caller's stream.
            chunks,
            deadline: run.deadline,
            memory: Some(Arc::clone(&run.held)),
            on_output_limit: limits.on_output_limit,
            output_bytes: usize::try_from(limits.output_bytes).unwrap_or(usize::MAX),
        });
        async {
            let hook = ended.await?;
            Ok(Ended {
                _ran: (),
                hook,
                run,
            })
        }
    }
}
