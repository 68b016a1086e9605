//! A line of the log for each refusal and fault, and few for many of one caller.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tracing::Level;

use hookjail_base::{
    model::Peer,
    refusal::Reason,
    util::seldom::{Lines, WINDOW},
};

/// The most lines about one caller and reason within [`WINDOW`].
const MAX_LINES: u32 = 10;

/// The most callers and reasons with windows of their own; more share a window for each reason.
const MAX_WINDOWS: usize = 1024;

/// The lines about refusals.
#[derive(Debug)]
pub(crate) struct RefusalLog(Mutex<Lines<Kind>>);

/// A caller, `None` for those that share a window, and the reason; `None` for a fault.
type Kind = (Option<u32>, Option<Reason>);

/// The facts of a refusal that its line has: nothing that a caller may choose freely.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefusedCall<'a> {
    /// The command that allows the hook, quoted for a shell.
    pub(super) approve: Option<&'a str>,
    /// How many refusals there were.
    pub(super) count: u64,
    /// The caller.
    pub(super) peer: &'a Peer,
    /// The profile that the request names.
    pub(super) profile: Option<&'a str>,
    /// The reason.
    pub(super) reason: Reason,
    /// The run's id.
    pub(super) run: &'a str,
}

impl Default for RefusalLog {
    fn default() -> Self {
        Self(Mutex::new(Lines::new(MAX_LINES, WINDOW)))
    }
}

impl RefusalLog {
    /// Writes the line of a refusal, unless its caller had too many of them.
    pub(super) fn refused(&self, call: &RefusedCall<'_>) {
        let now = Instant::now();
        self.summarize(now);
        let has_line = {
            let mut lines = self.lines();
            let kind = kind(&lines, call.peer.uid, Some(call.reason));
            lines.take(kind, call.count, now)
        };
        if has_line {
            call.log();
        }
    }

    /// Writes the line of a fault, unless its caller had too many of them.
    pub(super) fn failed(&self, uid: u32, request: &str, run: &str, error: &str) {
        let now = Instant::now();
        self.summarize(now);
        let has_line = {
            let mut lines = self.lines();
            let kind = kind(&lines, uid, None);
            lines.take(kind, 1, now)
        };
        if has_line {
            tracing::error!(error, request, run, "request failed");
        }
    }

    /// Writes how many refusals had no line in the windows that are over.
    pub(crate) fn look(&self) {
        self.summarize(Instant::now());
    }

    /// Writes how many refusals had no line: the daemon ends.
    pub(crate) fn finish(&self) {
        let silent = self.lines().finish();
        summarize(silent);
    }

    fn summarize(&self, now: Instant) {
        let silent = self.lines().take_expired(now);
        summarize(silent);
    }

    fn lines(&self) -> MutexGuard<'_, Lines<Kind>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RefusedCall<'_> {
    fn log(&self) {
        let Self {
            approve,
            count,
            peer,
            profile,
            reason,
            run,
        } = *self;
        let (pid, uid) = (peer.pid, peer.uid);
        let count = (count > 1).then_some(count);
        macro_rules! line {
            ($level:expr) => {
                tracing::event!(
                    $level,
                    reason = reason.as_str(),
                    uid,
                    pid,
                    profile,
                    run,
                    count,
                    // By `Display`, without the quotes and escapes of a string field: an operator types it as it stands.
                    approve = approve.map(tracing::field::display),
                    "refused"
                )
            };
        }
        if reason.concerns_operator() {
            line!(Level::WARN);
        } else {
            line!(Level::INFO);
        }
    }
}

/// Returns the window of a refusal: the caller's own while there are few.
fn kind(lines: &Lines<Kind>, uid: u32, reason: Option<Reason>) -> Kind {
    let own_window = (Some(uid), reason);
    if lines.windows() < MAX_WINDOWS || lines.has(&own_window) {
        own_window
    } else {
        (None, reason)
    }
}

fn summarize(silent: Vec<(Kind, u64)>) {
    for ((uid, reason), count) in silent {
        let Some(reason) = reason else {
            tracing::error!(uid, count, "more requests failed");
            continue;
        };
        macro_rules! line {
            ($level:expr) => {
                tracing::event!($level, reason = reason.as_str(), uid, count, "more refused")
            };
        }
        if reason.concerns_operator() {
            line!(Level::WARN);
        } else {
            line!(Level::INFO);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REASON: Option<Reason> = Some(Reason::ConsentRequired);

    #[test]
    fn callers_without_number_share_a_window() {
        let mut lines = Lines::new(MAX_LINES, WINDOW);
        let now = Instant::now();
        let mut take = |uid: u32, reason: Option<Reason>| {
            let kind = kind(&lines, uid, reason);
            lines.take(kind, 1, now)
        };
        let most = u32::try_from(MAX_WINDOWS).unwrap();
        for uid in 0..most {
            assert!(take(uid, REASON));
        }
        let with_line = (most..3 * most).filter(|uid| take(*uid, REASON));
        assert_eq!(with_line.count(), 10);
        // Earlier callers have their own, and so has another reason.
        assert!(take(0, REASON) && take(most, Some(Reason::Overloaded)));
        assert_eq!(lines.windows(), MAX_WINDOWS + 2);
        let unsaid = u64::from(2 * most - 10);
        assert_eq!(lines.take_expired(now + WINDOW), [((None, REASON), unsaid)]);
    }
}
