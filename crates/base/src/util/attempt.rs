//! The last attempt at an act that may hang, as one on a disk.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The age up to which the last attempt counts.
const RECENT: Duration = Duration::from_secs(5);

/// The time after which an attempt hangs, as on a disk that does not answer.
const STALLED: Duration = Duration::from_secs(5);

/// The time that a question waits for an attempt.
pub const TRY_TIMEOUT: Duration = Duration::from_secs(1);

/// The state of the last attempt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Attempt {
    /// Another is due: the act has failed since.
    Doubtful,
    /// One ended at this time.
    Ended(Instant),
    /// One has been in work since this time.
    Working(Instant),
}

impl Attempt {
    /// Returns whether another is due.
    pub fn is_due(self, now: Instant) -> bool {
        match self {
            Self::Doubtful => true,
            Self::Ended(since) => now.saturating_duration_since(since) >= RECENT,
            Self::Working(_) => false,
        }
    }

    /// Returns whether it hangs.
    pub fn hangs(self, now: Instant) -> bool {
        match self {
            Self::Doubtful | Self::Ended(_) => false,
            Self::Working(since) => now.saturating_duration_since(since) >= STALLED,
        }
    }
}

/// The last attempt, shared by those that make one and those that ask. At first one has just ended.
#[derive(Debug)]
pub struct LastAttempt(Mutex<Attempt>);

impl Default for LastAttempt {
    fn default() -> Self {
        Self(Mutex::new(Attempt::Ended(Instant::now())))
    }
}

impl LastAttempt {
    /// Returns its state.
    pub fn get(&self) -> Attempt {
        self.with(|attempt| *attempt)
    }

    /// Makes another due, unless one is in work.
    pub fn doubt(&self) {
        self.with(|attempt| {
            if let Attempt::Ended(_) = attempt {
                *attempt = Attempt::Doubtful;
            }
        });
    }

    /// Counts an act that succeeded as the last attempt, unless another is due or in work.
    pub fn renew(&self) {
        self.with(|attempt| {
            if let Attempt::Ended(since) = attempt {
                *since = Instant::now();
            }
        });
    }

    /// Begins an attempt.
    pub fn begin(self: &Arc<Self>) -> AttemptInWork {
        self.with(|attempt| *attempt = Attempt::Working(Instant::now()));
        AttemptInWork(Arc::clone(self))
    }

    /// Begins an attempt where none is in work and a condition holds.
    pub fn begin_where(
        self: &Arc<Self>,
        condition: impl FnOnce(Attempt) -> bool,
    ) -> Option<AttemptInWork> {
        let begins = self.with(|attempt| {
            let begins = !matches!(attempt, Attempt::Working(_)) && condition(*attempt);
            if begins {
                *attempt = Attempt::Working(Instant::now());
            }
            begins
        });
        begins.then(|| AttemptInWork(Arc::clone(self)))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Attempt) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An attempt in work, which ends when this is dropped.
#[derive(Debug)]
#[must_use]
pub struct AttemptInWork(Arc<LastAttempt>);

impl Drop for AttemptInWork {
    fn drop(&mut self) {
        self.0
            .with(|attempt| *attempt = Attempt::Ended(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn an_attempt_counts_until_it_is_old_or_doubted_and_one_in_work_until_it_hangs() {
        let now = Instant::now();
        let soon = now + Duration::from_secs(1);
        for (attempt, time, is_due, hangs) in [
            (Attempt::Ended(now), soon, false, false),
            (Attempt::Ended(now), now + RECENT, true, false),
            (Attempt::Doubtful, soon, true, false),
            (Attempt::Working(now), soon, false, false),
            (Attempt::Working(now), now + STALLED, false, true),
        ] {
            let found = (attempt.is_due(time), attempt.hangs(time));
            assert_eq!(found, (is_due, hangs), "{attempt:?}");
        }
    }

    #[test]
    fn one_attempt_is_in_work_at_once_and_a_doubt_meanwhile_is_answered_by_it() {
        let last = Arc::<LastAttempt>::default();
        assert!(last.begin_where(|it| it.is_due(Instant::now())).is_none());
        last.doubt();
        last.renew();
        assert_eq!(last.get(), Attempt::Doubtful);
        let first = last.begin_where(|it| it.is_due(Instant::now())).unwrap();
        last.doubt();
        assert!(last.begin_where(|_| true).is_none());
        drop(first);
        assert!(matches!(last.get(), Attempt::Ended(_)));
    }

    #[test]
    fn an_attempt_that_panics_has_ended() {
        let last = Arc::<LastAttempt>::default();
        let work = last.begin();
        assert!(matches!(last.get(), Attempt::Working(_)));
        let thread = thread::spawn(move || {
            let _work = work;
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(thread.join().is_err());
        assert!(matches!(last.get(), Attempt::Ended(_)));
    }
}
