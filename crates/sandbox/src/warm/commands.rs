//! The commands for which processes wait, and the places that these share. Pure.

use std::{
    cmp::Reverse,
    time::{Duration, Instant},
};

use super::{Key, LIFETIME, Unfit};

/// The most processes that wait at once.
const MOST: usize = 32;

/// The most commands that are known.
const MOST_COMMANDS: usize = 128;

/// For how long a command that is not run keeps its places, at least.
const IDLE: Duration = Duration::from_secs(30);

/// For how many of its own periods a command that is not run keeps its places, at least.
const PERIODS: u32 = 3;

/// The commands for which something is to wait, each with what waits for it, `W`.
#[derive(Debug)]
pub(super) struct Commands<W> {
    /// Whether a timer wakes when something has waited too long.
    is_timed: bool,
    /// The command asked for longest ago comes first.
    list: Vec<Command<W>>,
}

/// A command for which something is to wait.
#[derive(Debug)]
struct Command<W> {
    asked: Instant,
    key: Key,
    /// The longest recent time from one run to the next.
    period: Duration,
    starting: usize,
    /// When it may be tried again, after one that did not come to wait.
    unfit_until: Option<Instant>,
    /// The waiting processes with their beginnings, the oldest first.
    waiting: Vec<(Instant, W)>,
}

/// The places of a command.
#[derive(Clone, Copy, Debug)]
struct Places {
    /// Whether others may have them all.
    is_idle: bool,
    starting: usize,
    uid: u32,
    waiting: usize,
}

impl Places {
    const fn held(&self) -> usize {
        self.starting + self.waiting
    }
}

/// Places for a command.
#[derive(Debug, Eq, PartialEq)]
struct Room {
    /// How many of its waiting processes each of the others lets go of.
    dropped: Vec<usize>,
    /// How many places there are.
    starts: usize,
}

/// Returns the places for a command of which `wanted` are to wait. The others come in the order in which they were asked for.
///
/// A started process is kept for its own command. Otherwise a cycle of more commands than places would kill each just before its run.
/// Two others make room: commands that are not run any more, and for a command that holds none a command or a uid that holds more.
fn room(others: &[Places], asking: Places, wanted: usize) -> Room {
    let held: usize = others.iter().map(Places::held).sum();
    let missing = wanted.saturating_sub(asking.held());
    let mut lacking = (held + asking.held() + missing)
        .saturating_sub(MOST)
        .min(missing);
    let mut dropped = vec![0; others.len()];
    for (dropped, other) in dropped.iter_mut().zip(others) {
        if other.is_idle {
            *dropped = lacking.min(other.waiting);
            lacking -= *dropped;
        }
    }
    if lacking == missing
        && asking.held() == 0
        && let Some(dropped) = richest(others, asking.uid).and_then(|index| dropped.get_mut(index))
    {
        *dropped += 1;
        lacking = lacking.saturating_sub(1);
    }
    Room {
        dropped,
        starts: missing - lacking,
    }
}

/// Returns the command that gives a place to one of this uid that has none. The giver is of another uid that has more even
/// then, or of the same uid, if it keeps another place.
fn richest(others: &[Places], uid: u32) -> Option<usize> {
    let total = |uid| -> usize {
        let of_uid = others.iter().filter(|it| it.uid == uid);
        of_uid.map(Places::held).sum()
    };
    let poorer = total(uid);
    let can_give = |it: &Places| {
        let spares = match it.uid == uid {
            true => it.held() > 1,
            false => total(it.uid) > poorer + 1,
        };
        spares && it.waiting > 0
    };
    let givers = others.iter().enumerate().filter(|(_, it)| can_give(it));
    let (richest, _) = givers.min_by_key(|(_, it)| Reverse((total(it.uid), it.held())))?;
    Some(richest)
}

impl<W> Command<W> {
    fn places(&self, now: Instant) -> Places {
        let kept = IDLE.max(PERIODS * self.period);
        Places {
            is_idle: now.duration_since(self.asked) > kept,
            starting: self.starting,
            uid: self.key.uid(),
            waiting: self.waiting.len(),
        }
    }
}

impl<W> Commands<W> {
    /// Returns none.
    pub(super) const fn new() -> Self {
        Self {
            is_timed: false,
            list: Vec::new(),
        }
    }

    /// Returns how many wait.
    pub(super) fn waiting(&self) -> usize {
        self.list.iter().map(|it| it.waiting.len()).sum()
    }

    /// Takes what has waited longest for a command, with the time since when.
    pub(super) fn take(&mut self, key: &Key) -> Option<(Instant, W)> {
        let waiting = &mut self.find(key)?.waiting;
        (!waiting.is_empty()).then(|| waiting.remove(0))
    }

    /// Returns how many to start now for a command, of which `wanted` are to wait, and what makes room for them. They count as
    /// being started.
    ///
    /// None for a command that is asked for the first time: its words may be other ones each time.
    pub(super) fn ask(&mut self, key: &Key, wanted: usize, now: Instant) -> (usize, Vec<W>) {
        let known = self.list.iter().position(|it| it.key == *key);
        let known = known.map(|index| self.list.remove(index));
        let mut gone = self.forget(|it| now.duration_since(it.asked) >= LIFETIME);
        let is_new = known.is_none();
        let mut command = known.unwrap_or_else(|| Command {
            asked: now,
            key: key.clone(),
            period: Duration::ZERO,
            starting: 0,
            unfit_until: None,
            waiting: Vec::new(),
        });
        let since = now.duration_since(command.asked);
        command.period = since.max(command.period / 2);
        command.asked = now;
        let is_unfit = command.unfit_until.is_some_and(|until| now < until);
        let mut starts = 0;
        if !is_new && !is_unfit {
            let others: Vec<_> = self.list.iter().map(|it| it.places(now)).collect();
            let room = room(&others, command.places(now), wanted);
            for (other, dropped) in self.list.iter_mut().zip(room.dropped) {
                gone.extend(other.waiting.drain(..dropped).map(|(_, waiting)| waiting));
            }
            starts = room.starts;
        }
        command.starting += starts;
        if self.list.len() >= MOST_COMMANDS {
            let holds_none = |it: &Command<W>| it.places(now).held() == 0;
            if let Some(oldest) = self.list.iter().position(holds_none) {
                self.list.remove(oldest);
            }
        }
        self.list.push(command);
        (starts, gone)
    }

    /// Keeps what came to wait, or returns what has no place any more. Where it did not, and would not the next time, no other is
    /// started for some time.
    pub(super) fn started(
        &mut self,
        key: &Key,
        waiting: Result<W, Unfit>,
        now: Instant,
    ) -> Option<W> {
        let Some(command) = self.find(key) else {
            return waiting.ok();
        };
        command.starting = command.starting.saturating_sub(1);
        match waiting {
            Ok(waiting) => command.waiting.push((now, waiting)),
            Err(Unfit::Always) => command.unfit_until = Some(now + LIFETIME),
            Err(Unfit::Now) => {}
        }
        None
    }

    /// Takes back that some are being started.
    pub(super) fn not_started(&mut self, key: &Key, number: usize) {
        if let Some(command) = self.find(key) {
            command.starting = command.starting.saturating_sub(number);
        }
    }

    /// Returns whether something waits without a timer, which counts as started then.
    pub(super) fn needs_timer(&mut self) -> bool {
        let needs = !self.is_timed && self.waiting() > 0;
        self.is_timed |= needs;
        needs
    }

    /// Takes what has waited too long. Returns with it when the timer is to wake next; `None`, and it ends, where nothing waits.
    pub(super) fn expired(&mut self, now: Instant) -> (Vec<W>, Option<Instant>) {
        let is_old = |(since, _): &mut (Instant, W)| now.duration_since(*since) >= LIFETIME;
        let old = |command: &mut Command<W>| -> Vec<_> {
            command.waiting.extract_if(.., is_old).collect()
        };
        let expired = self.list.iter_mut().flat_map(old);
        let expired = expired.map(|(_, waiting)| waiting).collect();
        let oldest = self.list.iter().filter_map(|it| it.waiting.first());
        let next = oldest.map(|(since, _)| *since + LIFETIME).min();
        self.is_timed = next.is_some();
        (expired, next)
    }

    /// Takes all that wait. Returns whether any did or are being started, and them.
    pub(super) fn clear(&mut self) -> (bool, Vec<W>) {
        let are_starting = self.list.iter().any(|it| it.starting > 0);
        let waiting = self.list.iter_mut().flat_map(|it| it.waiting.drain(..));
        let waiting: Vec<_> = waiting.map(|(_, waiting)| waiting).collect();
        (are_starting || !waiting.is_empty(), waiting)
    }

    /// Forgets commands, and returns what waited for them.
    fn forget(&mut self, is_old: impl Fn(&Command<W>) -> bool) -> Vec<W> {
        let forgotten = self.list.extract_if(.., |it| is_old(it));
        let waiting = forgotten.flat_map(|it| it.waiting);
        waiting.map(|(_, waiting)| waiting).collect()
    }

    fn find(&mut self, key: &Key) -> Option<&mut Command<W>> {
        self.list.iter_mut().find(|it| it.key == *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of commands one after another, each of which takes what waits for it, and starts what is missing.
    struct Course {
        commands: Commands<()>,
        gone: usize,
        now: Instant,
        pause: Duration,
        served: usize,
        started: usize,
    }

    impl Course {
        fn new(pause: Duration) -> Self {
            Self {
                commands: Commands::new(),
                gone: 0,
                now: Instant::now(),
                pause,
                served: 0,
                started: 0,
            }
        }

        /// Runs a command once. Returns whether a process waited for it.
        fn run(&mut self, uid: u32, command: usize, wanted: usize) -> bool {
            self.now += self.pause;
            let key = Key::of_test(uid, &command.to_string());
            let is_served = self.commands.take(&key).is_some();
            let (starts, gone) = self.commands.ask(&key, wanted, self.now);
            for _ in 0..starts {
                assert_eq!(self.commands.started(&key, Ok(()), self.now), None);
            }
            self.started += starts;
            self.served += usize::from(is_served);
            self.gone += gone.len();
            assert_eq!(
                self.started,
                self.served + self.gone + self.commands.waiting()
            );
            assert!(self.commands.waiting() <= MOST);
            is_served
        }

        /// Runs `commands` commands of a uid in turn, and returns how often a process waited.
        fn turns(&mut self, uid: u32, commands: usize, rounds: usize) -> usize {
            let turns = (0..rounds).flat_map(|_| 0..commands);
            turns.filter(|command| self.run(uid, *command, 2)).count()
        }
    }

    const PACES: [Duration; 3] = [
        Duration::from_millis(40),
        Duration::from_secs(1),
        Duration::from_secs(7),
    ];

    #[test]
    fn commands_for_which_there_are_places_are_all_served() {
        for pace in PACES {
            for (commands, gone) in [(1, 0), (14, 0), (16, 0), (20, 4), (32, 16)] {
                let mut course = Course::new(pace);
                assert_eq!(course.turns(0, commands, 2), 0);
                assert_eq!(course.turns(0, commands, 5), 5 * commands, "{commands}");
                assert_eq!(course.gone, gone, "{commands}: the second of some alone");
            }
        }
    }

    #[test]
    fn what_was_started_is_kept_where_more_commands_than_places_are_run_in_turn() {
        for pace in [PACES[0], PACES[1]] {
            let mut course = Course::new(pace);
            assert_eq!(course.turns(0, 40, 2), 0);
            let gone = course.gone;
            assert!(gone <= MOST / 2, "{gone}");
            assert_eq!(course.turns(0, 40, 10), 10 * MOST);
            assert_eq!(course.gone, gone, "each that was started is used");
        }
        // More than are known.
        let mut course = Course::new(PACES[0]);
        course.turns(0, 40, 3);
        let gone = course.gone;
        assert_eq!(course.turns(0, 2 * MOST_COMMANDS, 3), 3 * MOST);
        assert_eq!(course.gone, gone);
    }

    #[test]
    fn a_uid_keeps_its_places_beside_one_with_more_commands() {
        for pace in [PACES[0], PACES[1]] {
            let mut course = Course::new(pace);
            course.turns(1, 40, 3);
            for round in 0..5 {
                let is_served = course.run(2, 0, 2);
                assert_eq!(is_served, round > 1, "{round}");
                course.turns(1, 40, 1);
            }
            let held: Vec<_> = course
                .commands
                .list
                .iter()
                .map(|it| it.places(course.now))
                .collect();
            let places = |uid| {
                held.iter()
                    .filter(|it| it.uid == uid)
                    .map(Places::held)
                    .sum::<usize>()
            };
            assert_eq!((places(1), places(2)), (MOST - 1, 1));
            // Two with many share.
            for _ in 0..4 {
                course.turns(2, 40, 1);
                course.turns(1, 40, 1);
            }
            let gone = course.gone;
            let served = course.turns(1, 40, 1) + course.turns(2, 40, 1);
            assert_eq!((served, course.gone), (MOST, gone));
        }
    }

    #[test]
    fn commands_that_are_not_run_any_more_make_room() {
        let mut course = Course::new(PACES[0]);
        course.turns(0, 16, 3);
        course.now += IDLE + Duration::from_secs(1);
        for _ in 0..2 {
            course.run(0, 100, 2);
        }
        assert_eq!(course.gone, 2, "the two of the oldest");
        // One that is run seldom keeps its own for longer.
        let mut course = Course::new(2 * IDLE);
        course.turns(0, 1, 3);
        course.pause = PACES[0];
        for command in 1..16 {
            for _ in 0..2 {
                course.run(0, command, 2);
            }
        }
        course.now += 2 * IDLE;
        for _ in 0..2 {
            course.run(0, 100, 2);
        }
        assert!(course.run(0, 0, 2));
        assert_eq!(course.gone, 2);
    }

    #[test]
    fn what_has_waited_too_long_and_all_that_wait_can_be_taken() {
        let mut course = Course::new(PACES[1]);
        course.turns(0, 2, 2);
        let all = course.commands.waiting();
        assert_eq!(all, 4);
        let second = course.now + LIFETIME;
        let first = second - PACES[1];
        let before = first - Duration::from_millis(1);
        assert_eq!(course.commands.expired(before), (Vec::new(), Some(first)));
        assert_eq!(course.commands.expired(first), (vec![(); 2], Some(second)));
        assert_eq!(course.commands.clear(), (true, vec![(); 2]));
        assert_eq!(course.commands.clear(), (false, Vec::new()));
    }

    #[test]
    fn one_timer_lasts_while_anything_waits() {
        let mut course = Course::new(PACES[1]);
        course.turns(0, 1, 1);
        assert!(!course.commands.needs_timer(), "nothing waits");
        course.turns(0, 1, 1);
        assert!(course.commands.needs_timer());
        course.turns(0, 4, 9);
        assert!(!course.commands.needs_timer());
        let (_, next) = course.commands.expired(course.now);
        assert!(next > Some(course.now) && !course.commands.needs_timer());
        let (gone, next) = course.commands.expired(course.now + LIFETIME);
        assert_eq!((gone.len(), next), (8, None));
        course.gone += gone.len();
        assert!(!course.commands.needs_timer(), "nothing waits");
        course.turns(0, 1, 1);
        assert!(course.commands.needs_timer());
    }

    #[test]
    fn the_commands_asked_for_longest_ago_are_forgotten() {
        let mut course = Course::new(PACES[0]);
        let mut request = |command: usize| {
            let key = Key::of_test(0, &command.to_string());
            course.commands.ask(&key, 1, course.now).0
        };
        for command in 0..=MOST_COMMANDS {
            assert_eq!(request(command), 0);
        }
        assert_eq!(request(0), 0, "the command was forgotten");
        let known = (2..MOST_COMMANDS).map(request);
        assert_eq!(known.sum::<usize>(), MOST, "more are not started");
        assert_eq!(course.commands.list.len(), MOST_COMMANDS);
    }
}
