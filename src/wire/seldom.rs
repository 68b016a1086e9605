//! Limits how often a message is logged that clients cause.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The interval between messages.
const INTERVAL: Duration = Duration::from_secs(10);

/// A message that is logged seldom.
#[derive(Debug, Default)]
pub(super) struct Seldom(Mutex<(Option<Instant>, u64)>);

impl Seldom {
    /// Returns how many times it was not logged since the last time, if it is to be logged now.
    pub(super) fn say(&self) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (said, others) = &mut *state;
        if said.is_some_and(|said| said.elapsed() < INTERVAL) {
            *others += 1;
            return None;
        }
        *said = Some(Instant::now());
        Some(std::mem::take(others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_logged_is_counted() {
        let seldom = Seldom::default();
        assert_eq!(seldom.say(), Some(0));
        assert_eq!((seldom.say(), seldom.say()), (None, None));
        seldom.0.lock().unwrap().0 = Instant::now().checked_sub(INTERVAL);
        assert_eq!(seldom.say(), Some(2));
    }
}
