//! Context of a request's call.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use hookjail_base::{model::Peer, util::shares::Share};
use hookjail_sandbox::process::Chunk;

use super::runs::{RunInWork, RunStage};
use crate::traces::{self, Stage, Trace};

/// The time reserved before the caller's own timeout, so that the answer still arrives.
///
/// The server library answers with its own status once the caller's timer has fired. After the deadline follow the end
/// of the process tree, its last output and the end record, which waits for a disk. 100 ms are too few on a busy machine.
const ANSWER_EARLY: Duration = Duration::from_millis(250);

/// Purpose of an admission.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Purpose {
    /// A preview, without any record.
    Preview,
    /// A run of the hook.
    Run,
}

/// Context of a request's call.
#[derive(Debug)]
pub(crate) struct Call {
    /// The time of arrival.
    pub arrived: Instant,
    /// Ends this run, and no other, when cancelled.
    pub cancel: CancellationToken,
    /// The caller's timeout, if any.
    pub caller_timeout: Option<Duration>,
    /// The sender of output chunks.
    pub chunks: Option<mpsc::Sender<Chunk>>,
    /// The request's share of the memory for all requests in work.
    pub held: Arc<Share>,
    /// The run in the list of runs, from when the pipeline takes it on; never for a preview.
    pub listed: Option<Arc<RunInWork>>,
    /// SHA-256 of the request without environment values, if it has an idempotency key.
    pub named: Option<[u8; 32]>,
    /// The caller.
    pub peer: Peer,
    /// The purpose of the admission.
    pub purpose: Purpose,
    /// The run's id.
    pub run_id: String,
    /// The call's trace, if it has one.
    pub trace: Option<Arc<Trace>>,
}

impl Call {
    /// Lists how far the run has come, and until when that may last.
    pub(super) fn reach(&self, stage: RunStage, until: Instant) {
        traces::reach(
            self.trace.as_ref(),
            match stage {
                RunStage::Asking => Stage::Question,
                RunStage::Queued => Stage::Queue,
                RunStage::Running => Stage::Run,
                RunStage::Starting => Stage::Admission,
            },
        );
        if let Some(listed) = &self.listed {
            listed.reach(stage, until);
        }
    }

    /// Returns the usable part of a wait, so that its end is still reported.
    pub(crate) fn left(&self, wait: Duration) -> Duration {
        let left = |caller| early(caller).saturating_sub(self.arrived.elapsed());
        self.caller_timeout
            .map_or(wait, |caller| wait.min(left(caller)))
    }
}

/// Returns the usable part of the caller's timeout, so that the answer arrives in time.
pub(super) fn early(caller: Duration) -> Duration {
    caller.saturating_sub(ANSWER_EARLY.min(caller / 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_leave_before_the_callers_timer_fires() {
        assert_eq!(early(Duration::from_secs(10)), Duration::from_millis(9_750));
        assert_eq!(early(Duration::from_millis(40)), Duration::from_millis(30));
    }
}
