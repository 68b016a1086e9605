//! A line of the log for each refusal, and few for many of one caller.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tracing::Level;

use crate::{model::Peer, refusal::Reason};

/// The most lines about one caller and reason within [`WINDOW`].
const MAX_LINES: u32 = 10;

/// The time after which a caller's refusals of one reason are lines again.
const WINDOW: Duration = Duration::from_secs(10);

/// The most callers and reasons that are told apart; more share a window for each reason.
const MAX_WINDOWS: usize = 1024;

/// The lines about refusals.
#[derive(Debug, Default)]
pub(crate) struct RefusalLog(Mutex<Windows>);

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

impl RefusalLog {
    /// Writes the line of a refusal, unless its caller had too many of them.
    pub(super) fn refused(&self, call: &RefusedCall<'_>) {
        let (uid, now) = (call.peer.uid, Instant::now());
        self.summarize(now);
        let has_line = self.windows().take(uid, call.reason, call.count, now);
        if has_line {
            call.log();
        }
    }

    /// Writes how many refusals had no line in the windows that are over.
    pub(crate) fn look(&self) {
        self.summarize(Instant::now());
    }

    /// Writes how many refusals had no line: the daemon ends.
    pub(crate) fn finish(&self) {
        let windows = std::mem::take(&mut *self.windows());
        summarize(windows.0);
    }

    fn summarize(&self, now: Instant) {
        let over = self.windows().over(now);
        summarize(over);
    }

    fn windows(&self) -> MutexGuard<'_, Windows> {
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

/// A caller, `None` for those that share a window, and the reason.
type Kind = (Option<u32>, Reason);

/// The windows of callers and reasons.
#[derive(Debug, Default)]
struct Windows(HashMap<Kind, LineWindow>);

/// What one caller's refusals of one reason came to within [`WINDOW`].
#[derive(Debug)]
struct LineWindow {
    began: Instant,
    lines: u32,
    /// Refusals without a line.
    more: u64,
}

impl Windows {
    /// Returns whether a refusal has a line; otherwise counts it.
    fn take(&mut self, uid: u32, reason: Reason, count: u64, now: Instant) -> bool {
        let own = (Some(uid), reason);
        let kind = if self.0.len() < MAX_WINDOWS || self.0.contains_key(&own) {
            own
        } else {
            (None, reason)
        };
        let window = self.0.entry(kind).or_insert(LineWindow {
            began: now,
            lines: 0,
            more: 0,
        });
        if window.lines < MAX_LINES {
            window.lines += 1;
            return true;
        }
        window.more += count;
        false
    }

    /// Takes out the windows that are over.
    fn over(&mut self, now: Instant) -> HashMap<Kind, LineWindow> {
        let is_over = |window: &LineWindow| now.duration_since(window.began) >= WINDOW;
        self.0.extract_if(|_, window| is_over(window)).collect()
    }
}

fn summarize(windows: HashMap<Kind, LineWindow>) {
    let silent = windows.into_iter().filter(|(_, window)| window.more > 0);
    for ((uid, reason), LineWindow { more: count, .. }) in silent {
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

    const REASON: Reason = Reason::ConsentRequired;

    #[test]
    fn a_caller_has_ten_lines_a_reason_and_the_rest_is_counted() {
        let mut windows = Windows::default();
        let now = Instant::now();
        for _ in 0..MAX_LINES {
            assert!(windows.take(1, REASON, 1, now));
        }
        assert!(!windows.take(1, REASON, 1, now));
        assert!(!windows.take(1, REASON, 5, now));
        // Neither another caller nor another reason is in their way.
        assert!(windows.take(2, REASON, 1, now));
        assert!(windows.take(1, Reason::Overloaded, 1, now));

        assert!(windows.over(now + WINDOW / 2).is_empty());
        let over = windows.over(now + WINDOW);
        assert_eq!(over.len(), 3);
        assert_eq!(over[&(Some(1), REASON)].more, 6);
        assert_eq!(over[&(Some(2), REASON)].more, 0);
        assert!(windows.take(1, REASON, 1, now + WINDOW));
    }

    #[test]
    fn callers_without_number_share_a_window() {
        let mut windows = Windows::default();
        let now = Instant::now();
        let most = u32::try_from(MAX_WINDOWS).unwrap();
        for uid in 0..most {
            assert!(windows.take(uid, REASON, 1, now));
        }
        let lines = (most..3 * most).filter(|uid| windows.take(*uid, REASON, 1, now));
        assert_eq!(lines.count(), 10);
        assert_eq!(windows.0.len(), MAX_WINDOWS + 1);
        assert_eq!(windows.0[&(None, REASON)].more, u64::from(2 * most - 10));
        // Those that were there before have their own.
        assert!(windows.take(0, REASON, 1, now));
    }
}
