//! The loop valve: counts consecutive turns opened by hooks and not by a human.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde::Serialize;

/// The time after which an idle session is forgotten.
const FORGET: Duration = Duration::from_secs(24 * 60 * 60);

/// The maximum number of sessions. Of the uid that has most, the one idle for longest is forgotten first.
const SESSIONS: usize = 4096;

/// A counter of turns by session.
#[derive(Debug)]
pub struct Valve {
    limit: u32,
    on_limit: OnLimit,
    sessions: Mutex<HashMap<Session, Count>>,
}

/// A session: the caller's uid, and the session's id.
pub(crate) type Session = (u32, String);

/// Configured action at the cap; hookjail reports it, and the runtime carries it out.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLimit {
    /// End the session's work.
    Abort,
    /// Ask a human.
    AskUser,
    /// Continue without the turn, with a warning.
    #[default]
    Warn,
}

impl OnLimit {
    /// Parses its name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Abort, Self::AskUser, Self::Warn]
            .into_iter()
            .find(|on_limit| on_limit.as_str() == text)
    }

    /// Returns its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Abort => "abort",
            Self::AskUser => "ask_user",
            Self::Warn => "warn",
        }
    }
}

/// State of a session after a dispatch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct State {
    /// Whether hooks may open no further turn.
    pub(crate) capped: bool,
    /// Turns opened by hooks since the last human one.
    pub(crate) count: u32,
    /// Whether this dispatch would have opened a turn beyond the cap.
    pub(crate) exceeded: bool,
    /// The cap; 0 = none.
    pub(crate) limit: u32,
    /// The action at the cap.
    pub(crate) on_limit: OnLimit,
}

#[derive(Debug)]
struct Count {
    count: u32,
    counted_at: Instant,
}

impl Valve {
    /// Creates a valve with a cap of `limit` turns; 0 = none.
    pub fn new(limit: u32, on_limit: OnLimit) -> Self {
        Self {
            limit,
            on_limit,
            sessions: Mutex::default(),
        }
    }

    /// Counts a dispatch. A dispatch in a human's turn resets the count; one with pushes that wake the agent opens one
    /// turn, however many they are. With `ends` the session is forgotten.
    pub(crate) fn count(&self, session: Session, human: bool, wakes: bool, ends: bool) -> State {
        self.count_at(Instant::now(), session, human, wakes, ends)
    }

    fn count_at(
        &self,
        now: Instant,
        session: Session,
        human: bool,
        wakes: bool,
        ends: bool,
    ) -> State {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, count| now.saturating_duration_since(count.counted_at) < FORGET);
        let mut count = sessions.get(&session).map_or(0, |count| count.count);
        if human {
            count = 0;
        }
        let exceeded = wakes && self.limit > 0 && count >= self.limit;
        if wakes && !exceeded {
            count = count.saturating_add(1);
        }
        if ends || count == 0 {
            sessions.remove(&session);
        } else {
            if sessions.len() >= SESSIONS && !sessions.contains_key(&session) {
                let mut of_each = HashMap::<u32, usize>::new();
                for (uid, _) in sessions.keys() {
                    *of_each.entry(*uid).or_default() += 1;
                }
                // Of the uid with the most sessions, so that no user can evict another's.
                let most = of_each.iter().max_by_key(|(_, count)| **count);
                let of_most = sessions
                    .iter()
                    .filter(|((uid, _), _)| most.is_some_and(|(most, _)| most == uid));
                let oldest = of_most.min_by_key(|(_, count)| count.counted_at);
                let oldest = oldest.map(|(session, _)| session.clone());
                oldest.map(|oldest| sessions.remove(&oldest));
            }
            sessions.insert(
                session,
                Count {
                    count,
                    counted_at: now,
                },
            );
        }
        State {
            capped: self.limit > 0 && count >= self.limit,
            count,
            exceeded,
            limit: self.limit,
            on_limit: self.on_limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(name: &str) -> Session {
        (1000, name.to_owned())
    }

    #[test]
    fn hooks_open_turns_up_to_the_cap_and_a_human_starts_anew() {
        let valve = Valve::new(2, OnLimit::AskUser);
        let woken = |human| {
            let state = valve.count(session("s"), human, true, false);
            (state.count, state.capped, state.exceeded)
        };
        assert_eq!(woken(true), (1, false, false));
        assert_eq!(woken(false), (2, true, false));
        assert_eq!(woken(false), (2, true, true));
        let silent = valve.count(session("s"), false, false, false);
        assert_eq!(
            (silent.count, silent.capped, silent.exceeded),
            (2, true, false)
        );
        assert_eq!(woken(true), (1, false, false));
        let other = valve.count((1001, "s".to_owned()), false, true, false);
        assert_eq!((other.count, other.on_limit), (1, OnLimit::AskUser));
    }

    #[test]
    fn without_a_cap_it_only_counts() {
        let valve = Valve::new(0, OnLimit::Warn);
        let last = (0..100).map(|_| valve.count(session("s"), false, true, false));
        let last = last.last().unwrap();
        assert_eq!(
            (last.count, last.capped, last.exceeded),
            (100, false, false)
        );
    }

    #[test]
    fn sessions_of_one_uid_have_none_of_anothers_forgotten() {
        let valve = Valve::new(2, OnLimit::Abort);
        let count = |uid, name: &str| {
            valve
                .count((uid, name.to_owned()), false, true, false)
                .count
        };
        assert_eq!(count(1, "a"), 1);
        for number in 0..2 * SESSIONS {
            count(2, &number.to_string());
        }
        assert_eq!(count(1, "a"), 2);
        assert_eq!(count(2, "0"), 1, "its own are");
    }

    #[test]
    fn sessions_that_end_or_fall_silent_are_forgotten() {
        let valve = Valve::new(5, OnLimit::Warn);
        let start = Instant::now();
        let count_at =
            |now, name: &str, ends| valve.count_at(now, session(name), false, true, ends).count;
        assert_eq!(count_at(start, "a", false), 1);
        assert_eq!(count_at(start, "a", true), 2);
        assert_eq!(count_at(start, "a", false), 1);
        assert_eq!(count_at(start + FORGET, "a", false), 1);
        for number in 0..2 * SESSIONS {
            count_at(start + FORGET, &number.to_string(), false);
        }
        assert!(valve.sessions.lock().unwrap().len() <= SESSIONS);
    }
}
