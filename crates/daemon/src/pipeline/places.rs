//! Places among the running hooks, and their queue, shared fairly among uids. No uid can keep another from running.
//!
//! - A free place goes to the uid with the fewest running hooks, among equals to the one whose last place is oldest;
//!   within a uid first come, first served. So uids that all queue get equal numbers of places, and places that one
//!   does not use serve the others.
//! - A running hook is not ended for another. For each allowed uid without a running hook one place is therefore kept
//!   free, but at most half of all places.
//! - A full queue accepts an entry of a uid with less than its share, and drops the last entry of the uid with the most.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

/// State of running and queued requests: no time, no tasks.
#[derive(Debug)]
struct Schedule<T> {
    /// Uids of allowed callers.
    entitled: Vec<u32>,
    max_queued: usize,
    next: u64,
    places: usize,
    queued: usize,
    running: usize,
    /// Uids that run or wait.
    uids: HashMap<u32, UidState<T>>,
}

/// Running and queued requests of one uid.
#[derive(Debug)]
struct UidState<T> {
    running: usize,
    /// The sequence number of the uid's last place; 0 before the first.
    turn: u64,
    waiting: VecDeque<(u64, T)>,
}

impl<T> Default for UidState<T> {
    fn default() -> Self {
        Self {
            running: 0,
            turn: 0,
            waiting: VecDeque::new(),
        }
    }
}

/// Result of a request for a place.
#[derive(Debug, Eq, PartialEq)]
enum Entered<T> {
    /// The queue is full, and the uid has its share of it.
    Full,
    /// The request has a place.
    Running,
    /// The request is queued under this number; the entry beside it was removed from the queue.
    Waiting(u64, Option<T>),
}

impl<T> Schedule<T> {
    fn new(places: usize, max_queued: usize) -> Self {
        Self {
            entitled: Vec::new(),
            max_queued,
            next: 0,
            places,
            queued: 0,
            running: 0,
            uids: HashMap::new(),
        }
    }

    fn enter(&mut self, uid: u32, waiter: impl FnOnce() -> T) -> Entered<T> {
        let waits = self.uids.get(&uid).is_some_and(|it| !it.waiting.is_empty());
        if !waits && self.may_run(uid) {
            self.run(uid);
            return Entered::Running;
        }
        let given_up = if self.queued >= self.max_queued {
            let Some(given_up) = self.make_room(uid) else {
                return Entered::Full;
            };
            Some(given_up)
        } else {
            None
        };
        self.next += 1;
        let number = self.next;
        self.queued += 1;
        let state = self.uids.entry(uid).or_default();
        state.waiting.push_back((number, waiter()));
        Entered::Waiting(number, given_up)
    }

    /// Removes the last entry of the uid with the most, if `uid` has less than its share.
    fn make_room(&mut self, uid: u32) -> Option<T> {
        let waiting = |it: &UidState<T>| it.waiting.len();
        let own_count = self.uids.get(&uid).map_or(0, waiting);
        let others = self
            .uids
            .iter()
            .filter(|(other, it)| **other != uid && waiting(it) > 0);
        let share = self.max_queued.div_ceil(others.count() + 1);
        if own_count >= share {
            return None;
        }
        let most = self.uids.values_mut().max_by_key(|it| it.waiting.len())?;
        // A uid that would then have fewer entries than `uid` does not make room.
        if most.waiting.len() <= own_count + 1 {
            return None;
        }
        let (_, given_up) = most.waiting.pop_back()?;
        self.queued -= 1;
        Some(given_up)
    }

    /// Returns whether a place is free for a uid.
    fn may_run(&self, uid: u32) -> bool {
        let free = self.places - self.running;
        if free == 0 {
            return false;
        }
        let running = |uid: &u32| self.uids.get(uid).map_or(0, |it| it.running);
        if running(&uid) == 0 {
            return true;
        }
        let idle = self.entitled.iter().filter(|other| running(other) == 0);
        free > idle.count().min(self.places / 2)
    }

    fn run(&mut self, uid: u32) {
        self.next += 1;
        let state = self.uids.entry(uid).or_default();
        state.running += 1;
        state.turn = self.next;
        self.running += 1;
    }

    /// Assigns a free place to the next entry that is entitled to it.
    fn next(&mut self) -> Option<(u32, T)> {
        let waiting = self.uids.iter().filter(|(_, it)| !it.waiting.is_empty());
        let (&uid, _) = waiting.min_by_key(|(_, it)| (it.running, it.turn, it.waiting[0].0))?;
        // If any uid may run, the one with the fewest running hooks may.
        if !self.may_run(uid) {
            return None;
        }
        let (_, waiter) = self.uids.get_mut(&uid)?.waiting.pop_front()?;
        self.queued -= 1;
        self.run(uid);
        Some((uid, waiter))
    }

    /// Frees a hook's place.
    fn leave(&mut self, uid: u32) {
        if let Some(state) = self.uids.get_mut(&uid) {
            state.running -= 1;
            self.running -= 1;
        }
        self.forget(uid);
    }

    /// Removes an entry whose caller is gone, if it is still queued.
    fn give_up(&mut self, uid: u32, number: u64) {
        if let Some(state) = self.uids.get_mut(&uid) {
            let before = state.waiting.len();
            state.waiting.retain(|(other, _)| *other != number);
            self.queued -= before - state.waiting.len();
        }
        self.forget(uid);
    }

    fn forget(&mut self, uid: u32) {
        let idle = |it: &UidState<T>| it.running == 0 && it.waiting.is_empty();
        if self.uids.get(&uid).is_some_and(idle) {
            self.uids.remove(&uid);
        }
    }
}

/// Estimate of the queue's speed.
#[derive(Debug, Default)]
struct Pace {
    /// The mean interval between freed places while the queue is not empty. The latest weighs most.
    interval: Option<Duration>,
    /// The time of the last freed place while the queue was not empty.
    last: Option<Instant>,
}

impl Pace {
    /// Records a freed place; `waited`: while the queue is not empty.
    fn step(&mut self, now: Instant, waited: bool) {
        if let Some(last) = self.last.take() {
            let latest = now.saturating_duration_since(last);
            let before = self.interval.unwrap_or(latest);
            self.interval = Some((before * 7 + latest) / 8);
        }
        self.last = waited.then_some(now);
    }

    /// Estimates the time that a queue of this length takes.
    fn time_for(&self, queued: usize, now: Instant) -> Duration {
        let since = |last| now.saturating_duration_since(last);
        // No place has been freed for longer than usual: the estimate grows with that time.
        let interval = self.interval.max(self.last.map(since));
        let queued = u32::try_from(queued).unwrap_or(u32::MAX);
        let whole = interval.map_or(SHORTEST, |interval| interval.saturating_mul(queued));
        whole.clamp(SHORTEST, LONGEST)
    }
}

/// The minimum and the maximum retry delay of a rejected caller.
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(30);

/// The places of a daemon.
#[derive(Debug)]
pub(crate) struct Places {
    pace: Mutex<Pace>,
    schedule: Mutex<Schedule<oneshot::Sender<Place>>>,
}

/// A place among the running hooks; free again when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    of: Arc<Places>,
    uid: u32,
}

/// The queue is full, or a queued request was removed from it.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Full {
    /// The retry delay: the estimated queue time and up to a quarter more, at random, to spread retries.
    pub(crate) retry: Duration,
}

impl Places {
    /// Creates this many places, with a queue of this length.
    pub(crate) fn new(places: usize, max_queued: usize) -> Self {
        Self {
            pace: Mutex::default(),
            schedule: Mutex::new(Schedule::new(places, max_queued)),
        }
    }

    /// Sets the uids for each of which a place is reserved.
    pub(crate) fn entitle(self: &Arc<Self>, uids: Vec<u32>) {
        self.with(|schedule| schedule.entitled = uids);
        self.hand_out();
    }

    /// Returns how many places are taken.
    pub(crate) fn taken(&self) -> usize {
        self.with(|schedule| schedule.running)
    }

    /// Returns how many requests wait for one.
    pub(crate) fn queued(&self) -> usize {
        self.with(|schedule| schedule.queued)
    }

    /// Waits for a place. Dropping the future leaves the queue.
    ///
    /// # Errors
    ///
    /// Fails where the queue is full, at once or later, when the entry makes room for another uid's.
    pub(crate) async fn take(self: &Arc<Self>, uid: u32) -> Result<Place, Full> {
        let (sender, receiver) = oneshot::channel();
        let entered = self.with(|schedule| schedule.enter(uid, || sender));
        match entered {
            Entered::Full => Err(self.full()),
            Entered::Running => Ok(self.place(uid)),
            Entered::Waiting(number, given_up) => {
                // Dropping its sender fails the removed entry's `take`.
                drop(given_up);
                let mut waiting = Waiting {
                    number,
                    of: Arc::clone(self),
                    receiver,
                    uid,
                };
                (&mut waiting.receiver).await.map_err(|_| self.full())
            }
        }
    }

    fn full(&self) -> Full {
        let queued = self.with(|schedule| schedule.queued);
        let pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = pace.time_for(queued, Instant::now());
        let parts = u32::try_from(RandomState::new().hash_one(queued) % 256).unwrap_or_default();
        Full {
            retry: whole + whole / 1024 * parts,
        }
    }

    fn place(self: &Arc<Self>, uid: u32) -> Place {
        Place {
            of: Arc::clone(self),
            uid,
        }
    }

    /// Assigns free places to the queue.
    fn hand_out(self: &Arc<Self>) {
        while let Some((uid, waiter)) = self.with(Schedule::next) {
            // A place that comes too late for its waiter is dropped here, and handed out once more.
            drop(waiter.send(self.place(uid)));
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Schedule<oneshot::Sender<Place>>) -> T) -> T {
        act(&mut self.schedule.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let waited = self.of.with(|schedule| {
            schedule.leave(self.uid);
            schedule.queued > 0
        });
        let mut pace = self.of.pace.lock().unwrap_or_else(PoisonError::into_inner);
        pace.step(Instant::now(), waited);
        drop(pace);
        self.of.hand_out();
    }
}

/// One in the queue; out of it when dropped.
#[derive(Debug)]
struct Waiting {
    number: u64,
    of: Arc<Places>,
    receiver: oneshot::Receiver<Place>,
    uid: u32,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.of
            .with(|schedule| schedule.give_up(self.uid, self.number));
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::{Pin, pin},
        task::{Context, Poll, Waker},
        thread,
    };

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn who_is_turned_away_is_told_how_long_the_queue_takes() {
        let start = Instant::now();
        let time = |ms| start + Duration::from_millis(ms);
        let mut pace = Pace::default();
        assert_eq!(pace.time_for(1000, time(0)), SHORTEST);
        // No entry waited before the first of them.
        for ms in [0, 5000, 5010, 5020, 5030] {
            pace.step(time(ms), ms > 0);
        }
        assert_eq!(pace.time_for(1000, time(5030)), Duration::from_secs(10));
        assert_eq!(pace.time_for(1, time(5030)), SHORTEST);
        // The queue has come to a halt.
        assert_eq!(pace.time_for(10, time(6030)), Duration::from_secs(10));
        assert_eq!(pace.time_for(1000, time(6030)), LONGEST);
    }

    fn poll<T>(future: &mut Pin<Box<impl Future<Output = T> + ?Sized>>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_place_that_is_given_back_while_somebody_waits_tells_how_fast_the_queue_moves() {
        let places = Arc::new(Places::new(1, 2));
        let take = || {
            let places = Arc::clone(&places);
            Box::pin(async move { places.take(1).await })
        };
        let interval = || places.pace.lock().unwrap().interval;
        // Without waiting entries, the pace of a queue is unknown.
        for _ in 0..3 {
            drop(poll(&mut take()).unwrap().unwrap());
        }
        assert_eq!(interval(), None);

        let began = Instant::now();
        let first = poll(&mut take()).unwrap().unwrap();
        let (mut second, mut third) = (take(), take());
        assert!(poll(&mut second).is_none() && poll(&mut third).is_none());
        drop(first);
        assert_eq!(interval(), None, "one alone is no interval");
        thread::sleep(Duration::from_millis(20));
        drop(poll(&mut second).unwrap().unwrap());
        let between = interval().unwrap();
        assert!(
            (Duration::from_millis(20)..=began.elapsed()).contains(&between),
            "{between:?}"
        );
        assert!(poll(&mut third).unwrap().is_ok());
    }

    #[test]
    fn a_uid_that_comes_later_gets_the_next_places_until_both_have_as_many() {
        let places = Arc::new(Places::new(4, 100));
        let take = |uid| {
            Box::pin({
                let places = Arc::clone(&places);
                async move { places.take(uid).await }
            })
        };
        let mut first: VecDeque<_> = (0..4)
            .map(|_| poll(&mut take(1)).unwrap().unwrap())
            .collect();
        let mut queue: Vec<_> = (0..8).map(|_| take(1)).collect();
        assert!(queue.iter_mut().all(|waiting| poll(waiting).is_none()));
        let mut late: Vec<_> = (0..3).map(|_| take(2)).collect();
        assert!(late.iter_mut().all(|waiting| poll(waiting).is_none()));
        let mut held = Vec::new();
        for waiting in &mut late[..2] {
            drop(first.pop_front());
            held.push(poll(waiting).unwrap().unwrap());
        }
        assert!(queue.iter_mut().all(|waiting| poll(waiting).is_none()));
        // Both have two: now they take turns.
        drop(first.pop_front());
        assert!(poll(&mut queue[0]).unwrap().is_ok());
        drop((queue, late, held, first));
        assert_eq!(places.taken(), 0);
    }

    #[test]
    fn one_place_is_kept_for_each_uid_that_may_ask_and_runs_nothing() {
        let places = Arc::new(Places::new(8, 100));
        places.entitle(vec![0, 1, 2]);
        let mut one: Vec<_> = (0..8)
            .map(|_| {
                let places = Arc::clone(&places);
                Box::pin(async move { places.take(1).await })
            })
            .collect();
        let taken: Vec<_> = one.iter_mut().filter_map(poll).collect();
        assert_eq!(taken.len(), 6);
        let two = Arc::clone(&places);
        let two = poll(&mut Box::pin(async move { two.take(2).await }));
        assert!(two.unwrap().is_ok(), "hooks of another uid hold it up");
        // The control: where no other uid may call, one uid has them all.
        let alone = Arc::new(Places::new(8, 0));
        alone.entitle(vec![1]);
        let all: Vec<_> = (0..9)
            .map(|_| {
                let alone = Arc::clone(&alone);
                poll(&mut Box::pin(async move { alone.take(1).await })).unwrap()
            })
            .collect();
        assert_eq!(all.iter().filter(|place| place.is_ok()).count(), 8);
    }

    #[test]
    fn who_waits_no_more_leaves_the_queue_at_once() {
        let places = Arc::new(Places::new(1, 2));
        let take = |uid| {
            Box::pin({
                let places = Arc::clone(&places);
                async move { places.take(uid).await }
            })
        };
        let place = poll(&mut take(1)).unwrap().unwrap();
        let (mut dead, mut living) = (take(1), take(1));
        assert!(poll(&mut dead).is_none() && poll(&mut living).is_none());
        assert!(matches!(poll(&mut take(1)).unwrap(), Err(Full { .. })));
        drop(dead);
        let mut next = take(1);
        assert!(poll(&mut next).is_none(), "it waits");
        drop(place);
        assert!(poll(&mut living).unwrap().is_ok());
        drop(next);
        // A place that was handed to a waiter that dropped it unread is free again.
        let place = poll(&mut take(1)).unwrap().unwrap();
        let mut unread = take(1);
        assert!(poll(&mut unread).is_none());
        drop(place);
        drop(unread);
        assert_eq!(places.taken(), 0);
    }

    #[test]
    fn a_full_queue_refuses_who_has_its_share_of_it_and_nobody_else() {
        let places = Arc::new(Places::new(1, 4));
        let take = |uid| {
            Box::pin({
                let places = Arc::clone(&places);
                async move { places.take(uid).await }
            })
        };
        let _place = poll(&mut take(1)).unwrap().unwrap();
        let mut many: Vec<_> = (0..4).map(|_| take(1)).collect();
        assert!(many.iter_mut().all(|waiting| poll(waiting).is_none()));
        assert!(poll(&mut take(1)).unwrap().is_err());
        let mut few: Vec<_> = (0..2).map(|_| take(2)).collect();
        assert!(few.iter_mut().all(|waiting| poll(waiting).is_none()));
        assert!(
            poll(&mut take(2)).unwrap().is_err(),
            "two of four is its share"
        );
        let refused: Vec<_> = many
            .iter_mut()
            .map(|waiting| poll(waiting).is_some())
            .collect();
        assert_eq!(
            refused,
            [false, false, true, true],
            "the last ones make room"
        );
    }

    proptest! {
        /// Checks the limits of places and queue, and that every entry has its turn. In any sequence, never more run
        /// than there are places, never more wait than may, and none waits for a place that is free for it. Once all
        /// running entries have ended, every entry that still waits has had its turn.
        #[test]
        fn nothing_is_lost_and_nobody_starves(
            places in 1_usize..6,
            max_queued in 0_usize..8,
            entitled in prop::collection::hash_set(0_u32..4, 0..4),
            steps in prop::collection::vec((0_u8..3, 0_u32..4, 0_usize..8), 1..200),
        ) {
            let mut schedule = Schedule::<()>::new(places, max_queued);
            schedule.entitled = entitled.into_iter().collect();
            let (mut running, mut waiting) = (Vec::new(), Vec::new());
            let check = |schedule: &Schedule<()>, running: &Vec<u32>| {
                prop_assert_eq!(schedule.running, running.len());
                prop_assert!(schedule.running <= places);
                let queued: usize = schedule.uids.values().map(|it| it.waiting.len()).sum();
                prop_assert_eq!(schedule.queued, queued);
                prop_assert!(queued <= max_queued);
                for (uid, it) in &schedule.uids {
                    prop_assert!(it.running > 0 || !it.waiting.is_empty());
                    prop_assert!(it.waiting.is_empty() || !schedule.may_run(*uid));
                }
                Ok(())
            };
            for (step, uid, index) in steps {
                match step {
                    0 => match schedule.enter(uid, || ()) {
                        Entered::Running => running.push(uid),
                        Entered::Waiting(number, _) => waiting.push((uid, number)),
                        Entered::Full => {}
                    },
                    1 if !running.is_empty() => {
                        schedule.leave(running.swap_remove(index % running.len()));
                        while let Some((uid, ())) = schedule.next() {
                            running.push(uid);
                        }
                    }
                    2 if !waiting.is_empty() => {
                        let (uid, number) = waiting.swap_remove(index % waiting.len());
                        schedule.give_up(uid, number);
                        while let Some((uid, ())) = schedule.next() {
                            running.push(uid);
                        }
                    }
                    _ => {}
                }
                check(&schedule, &running)?;
            }
            while let Some(uid) = running.pop() {
                schedule.leave(uid);
                while let Some((uid, ())) = schedule.next() {
                    running.push(uid);
                }
            }
            prop_assert!(schedule.uids.is_empty() && schedule.queued == 0 && schedule.running == 0);
        }
    }
}
