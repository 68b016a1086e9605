//! Limits the lines of the log that clients or lasting failures could fill it with.
//!
//! Of each kind the first few lines within a window are written. The others are counted, and the next line contains their
//! number.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The usual time from a kind's first line until its lines are written again.
pub const WINDOW: Duration = Duration::from_secs(10);

/// The lines of several kinds.
#[derive(Debug)]
pub struct Lines<K> {
    most: u32,
    window: Duration,
    windows: HashMap<K, Window>,
}

/// Counters of one kind's lines since its window began.
#[derive(Debug)]
struct Window {
    began: Instant,
    lines: u32,
    /// Number of events without a line.
    more: u64,
}

impl<K: Eq + Hash> Lines<K> {
    /// Writes of each kind this many lines within each window.
    pub fn new(most: u32, window: Duration) -> Self {
        Self {
            most,
            window,
            windows: HashMap::new(),
        }
    }

    /// Returns how many windows there are.
    pub fn windows(&self) -> usize {
        self.windows.len()
    }

    /// Returns whether a kind has a window.
    pub fn has(&self, kind: &K) -> bool {
        self.windows.contains_key(kind)
    }

    /// Returns whether `count` events have a line; otherwise counts them.
    pub fn take(&mut self, kind: K, count: u64, now: Instant) -> bool {
        let window = self.windows.entry(kind).or_insert(Window {
            began: now,
            lines: 0,
            more: 0,
        });
        if window.lines < self.most {
            window.lines += 1;
            return true;
        }
        window.more += count;
        false
    }

    /// Ends the expired windows. Returns the numbers of events without a line in them.
    pub fn take_expired(&mut self, now: Instant) -> Vec<(K, u64)> {
        let length = self.window;
        self.end(|window| now.duration_since(window.began) >= length)
    }

    /// Ends all windows. Returns the numbers of events without a line in them.
    pub fn finish(&mut self) -> Vec<(K, u64)> {
        self.end(|_| true)
    }

    fn end(&mut self, is_over: impl Fn(&Window) -> bool) -> Vec<(K, u64)> {
        let ended = self.windows.extract_if(|_, window| is_over(window));
        let counted = ended.map(|(kind, window)| (kind, window.more));
        counted.filter(|(_, more)| *more > 0).collect()
    }
}

/// One line of the log that is written seldom.
#[derive(Debug)]
pub struct Seldom(Mutex<Lines<()>>);

impl Default for Seldom {
    fn default() -> Self {
        Self::every(WINDOW)
    }
}

impl Seldom {
    /// Writes the line once in each window.
    pub fn every(window: Duration) -> Self {
        Self(Mutex::new(Lines::new(1, window)))
    }

    /// Returns the number of suppressed lines since the last one, if the line is due now.
    pub fn say(&self) -> Option<u64> {
        self.say_of(1, Instant::now())
    }

    /// Returns the same where the line is about `count`.
    pub fn say_of(&self, count: u64, now: Instant) -> Option<u64> {
        let mut lines = self.lines();
        let unsaid = lines.take_expired(now).iter().map(|(_, more)| more).sum();
        lines.take((), count, now).then_some(unsaid)
    }

    fn lines(&self) -> MutexGuard<'_, Lines<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_lines_and_the_rest_is_counted() {
        let mut lines = Lines::new(2, WINDOW);
        let now = Instant::now();
        assert!(lines.take('a', 1, now) && lines.take('a', 1, now));
        assert!(!lines.take('a', 1, now) && !lines.take('a', 5, now));
        // No other kind is in their way.
        assert!(lines.take('b', 1, now));
        assert!(lines.has(&'b') && !lines.has(&'c'));

        assert_eq!(lines.take_expired(now + WINDOW / 2), []);
        assert_eq!(lines.take_expired(now + WINDOW), [('a', 6)]);
        assert_eq!(lines.windows(), 0);
        assert!(lines.take('a', 1, now + WINDOW));
        assert_eq!(lines.finish(), []);
    }

    #[test]
    fn what_was_not_said_is_said_with_the_next_line() {
        let seldom = Seldom::default();
        let now = Instant::now();
        assert_eq!(seldom.say_of(1, now), Some(0));
        assert_eq!(seldom.say_of(1, now), None);
        assert_eq!(seldom.say_of(3, now + WINDOW / 2), None);
        assert_eq!(seldom.say_of(1, now + WINDOW), Some(4));
        assert_eq!(seldom.say_of(1, now + WINDOW), None);
    }
}
