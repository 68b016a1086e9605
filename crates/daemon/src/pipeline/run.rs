//! Running: starts an announced hook confined and waits for its end.

use std::sync::Arc;

use tokio::sync::mpsc;

use hookjail_base::refusal::Stop;
use hookjail_journal::record::WITHHELD;
use hookjail_sandbox::{
    EndedHook, Evidence, StartedHook,
    process::{Chunk, Supervision},
};

use super::{Announced, Run, Sandbox, runs::RunStage};
use crate::traces::{self, Stage};

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

/// The end of a run, of any kind.
///
/// Only [`Confined::run`] makes one.
#[derive(Debug)]
pub struct Ended {
    /// The end of the hook.
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
    /// Refuses where any part of confinement cannot be applied or confirmed. Nothing of the hook has run then, except
    /// where `/proc` shows a released child confined differently than planned: its tree is killed.
    pub async fn start(announced: Announced, sandbox: &Sandbox) -> Result<Self, Stop> {
        let hook = sandbox
            .start(announced.task(), announced.recorded())
            .await?;
        let (run, chunks) = announced.started();
        traces::reach(run.trace.as_ref(), Stage::Run);
        if let Some(listed) = &run.listed {
            listed.reach(RunStage::Running, run.deadline);
        }
        Ok(Self { chunks, run, hook })
    }

    /// Feeds the event and waits for the end of the whole tree. Consumes `self`: a hook starts once.
    ///
    /// # Errors
    ///
    /// Fails where the container reported no end of the hook.
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
            let mut hook = ended.await?;
            let withheld = run.request.withheld.as_ref();
            let evidence = withheld.map(|it| Evidence {
                check: WITHHELD,
                observed: it.to_string(),
            });
            hook.setup.evidence.extend(evidence);
            Ok(Ended {
                _ran: (),
                hook,
                run,
            })
        }
    }
}
