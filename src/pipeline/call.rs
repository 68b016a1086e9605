//! What accompanies a request.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{model::Peer, process::Chunk, util::shares::Share};

/// How much earlier than the caller's own timer a run ends, so that the answer still arrives: the server library answers
/// for us once that timer has fired. What comes after the deadline is the tree's end, its last output and the end record,
/// which waits for a disk; on a busy machine 100 ms were too few.
const ANSWER_EARLY: Duration = Duration::from_millis(250);

/// What an admission is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Purpose {
    /// To tell what would happen: nothing is written.
    Preview,
    /// To run the hook.
    Run,
}

/// What accompanies a request.
#[derive(Debug)]
pub struct Call {
    /// When it arrived.
    pub arrived: Instant,
    /// Ends the run when cancelled.
    pub cancel: CancellationToken,
    /// How long the caller waits, if it says so.
    pub caller_timeout: Option<Duration>,
    /// Where output goes as it comes.
    pub chunks: Option<mpsc::Sender<Chunk>>,
    /// What the request takes of the memory for all requests in work.
    pub held: Arc<Share>,
    /// SHA-256 of the request without the values of its environment, where its caller gave it an id.
    pub named: Option<[u8; 32]>,
    /// Who asks.
    pub peer: Peer,
    /// What for.
    pub purpose: Purpose,
    /// This run's id.
    pub run_id: String,
}

impl Call {
    /// Returns how much of a time is left if the caller is to hear of its end.
    pub fn left(&self, wait: Duration) -> Duration {
        let left = |caller| early(caller).saturating_sub(self.arrived.elapsed());
        self.caller_timeout
            .map_or(wait, |caller| wait.min(left(caller)))
    }
}

/// Returns what is left of the caller's time if the answer is to arrive before it is over.
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
