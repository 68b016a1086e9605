//! Enforces deadlines and reaps remains of runs, on a thread that waits only for deadlines.
//!
//! So a process group is killed on time even if all threads of the runtime are busy.

use std::{
    collections::{BTreeMap, HashSet},
    fmt, io,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

use hookjail_sys as sys;
use hookjail_sys::{Keeper, Note, Place};

/// Delay before a kill that came too soon is retried.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Interval of sweeps for the remains of runs.
const SWEEP: Duration = Duration::from_secs(1);

/// The thread that kills at deadlines. The thread ends when this is dropped.
#[derive(Debug)]
pub struct Deadlines {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    changed: Condvar,
    keeper: Arc<Keeper>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The scheduled kills by deadline; the number distinguishes those of the same instant.
    alarms: BTreeMap<(Instant, u64), Alarm>,
    closed: bool,
    /// Processes that owners of runs wait for.
    leaders: HashSet<i32>,
    left: Vec<Left>,
    next: u64,
    /// Whether any run took place since the last sweep.
    unswept: bool,
}

/// Result of a kill at a deadline.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kill {
    /// No process to kill, or it had ended by itself.
    NotNeeded,
    /// The signal was sent to a live process.
    Sent,
    /// A process exists, but the kernel has not reported its id yet.
    TooSoon,
}

struct Alarm {
    fired: Arc<AtomicBool>,
    kill: Box<dyn Fn() -> Kill + Send>,
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").field("fired", &self.fired).finish()
    }
}

/// A killed process group that did not end in time, and the resources it occupies.
#[derive(Debug)]
struct Left {
    group: Pid,
    _hold: Hold,
}

/// Resources of a process group. They are a place in the keeper's table, and values that must not be reused while any
/// process of the group is alive.
#[derive(Debug)]
pub struct Hold {
    _kept: Option<Arc<dyn fmt::Debug + Send + Sync>>,
    /// The process that its owner waits for; 0 = none yet.
    leader: AtomicI32,
    place: Place,
    shared: Arc<Shared>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let leader = self.leader.load(Ordering::Acquire);
        if leader > 0 {
            self.shared.lock().leaders.remove(&leader);
        }
    }
}

/// A kill scheduled for a deadline. Dropping it cancels the kill.
#[derive(Debug)]
#[must_use]
pub struct Armed {
    fired: Arc<AtomicBool>,
    key: (Instant, u64),
    shared: Arc<Shared>,
}

impl Deadlines {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// Returns the error of starting it.
    pub fn start(keeper: Arc<Keeper>) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            changed: Condvar::new(),
            keeper,
            state: Mutex::default(),
        });
        let served = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("deadlines".to_owned())
            .spawn(move || served.serve())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Reserves a process group's resources until all of it is dead. `None` if the keeper can watch no more groups.
    pub fn hold(&self, kept: Option<Arc<dyn fmt::Debug + Send + Sync>>) -> Option<Hold> {
        Some(Hold {
            _kept: kept,
            leader: AtomicI32::new(0),
            place: self.shared.keeper.place()?,
            shared: Arc::clone(&self.shared),
        })
    }
}

impl Drop for Deadlines {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that keeps deadlines panicked");
        }
    }
}

impl Hold {
    /// Returns the keeper's entry, into which the group is written.
    pub fn entry(&self) -> &'static AtomicI32 {
        self.place.entry()
    }

    /// Returns the group's record for the next daemon. The record has the uid, and whether syscalls are filtered.
    pub fn note(&self, uid: u32, filtered: bool) -> Option<Note> {
        self.place.note(uid, filtered)
    }

    /// Names the process that this run's owner waits for, which is not reaped as a stray.
    pub fn lead_by(&self, leader: Pid) {
        self.leader.store(leader.as_raw(), Ordering::Release);
        self.shared.lock().leaders.insert(leader.as_raw());
    }

    /// Schedules `kill` for a deadline. `kill` runs on a thread on which it must not block.
    pub fn arm(&self, deadline: Instant, kill: impl Fn() -> Kill + Send + 'static) -> Armed {
        let fired = Arc::new(AtomicBool::new(false));
        let mut state = self.shared.lock();
        state.next += 1;
        state.unswept = true;
        let key = (deadline, state.next);
        let alarm = Alarm {
            fired: Arc::clone(&fired),
            kill: Box::new(kill),
        };
        state.alarms.insert(key, alarm);
        let is_next = state.alarms.first_key_value().map(|(first, _)| *first) == Some(key);
        drop(state);
        if is_next {
            self.shared.changed.notify_one();
        }
        Armed {
            fired,
            key,
            shared: Arc::clone(&self.shared),
        }
    }

    /// Leaves a killed group to be reaped when it ends. Its resources stay occupied until then.
    pub fn leave(self, group: Pid) {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        if !state.closed {
            state.left.push(Left { group, _hold: self });
            shared.changed.notify_one();
        }
    }
}

impl Armed {
    /// Cancels the kill; returns whether it was sent before. From then on the group may be reaped: no signal follows.
    pub fn disarm(self) -> bool {
        // The lock is held while a signal is sent.
        self.shared.lock().alarms.remove(&self.key);
        self.fired.load(Ordering::Acquire)
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        self.shared.lock().alarms.remove(&self.key);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change of the state is one call, so a panic leaves it consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut strays = HashSet::new();
        let mut swept = Instant::now();
        let mut state = self.lock();
        while !state.closed {
            let mut next = state.fire(Instant::now());
            if !state.left.is_empty() || state.unswept || !strays.is_empty() {
                let due = swept + SWEEP;
                if due <= Instant::now() {
                    state.unswept = !state.alarms.is_empty();
                    let left = std::mem::take(&mut state.left);
                    drop(state);
                    let left = still_there(left);
                    self.reap_strays(&mut strays);
                    swept = Instant::now();
                    state = self.lock();
                    state.left.extend(left);
                    continue;
                }
                next = Some(next.map_or(due, |next| next.min(due)));
            }
            state = match next {
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(next) => {
                    let wait = next.saturating_duration_since(Instant::now());
                    let waited = self.changed.wait_timeout(state, wait);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        let left = std::mem::take(&mut state.left);
        // Each holds an `Arc` of this value: dropping them here breaks the cycle.
        drop(state);
        drop(left);
    }

    /// Reaps ended children of no known run. They are orphans that left their group, as an unconfined hook's may, or
    /// are left over from a fault of the daemon. Only those already seen by the previous sweep are reaped, so that a
    /// thread waiting for one has had a second.
    fn reap_strays(&self, seen: &mut HashSet<i32>) {
        let found = match sys::strays() {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(%error, "the children of this process cannot be listed");
                Vec::new()
            }
        };
        let unknown = found
            .into_iter()
            .filter(|stray| !self.keeper.watches(stray.group))
            .filter(|stray| !self.lock().leaders.contains(&stray.pid));
        let unknown: HashSet<i32> = unknown.map(|stray| stray.pid).collect();
        for pid in seen.intersection(&unknown) {
            match sys::reap_stray(*pid) {
                Ok(_) => tracing::debug!(pid, "reaped a process of no run"),
                Err(error) => tracing::debug!(%error, pid, "a stray process cannot be reaped"),
            }
        }
        *seen = unknown;
    }
}

impl State {
    /// Kills overdue groups; returns the next deadline.
    fn fire(&mut self, now: Instant) -> Option<Instant> {
        let mut again = None;
        let due: Vec<_> = self
            .alarms
            .range(..=(now, u64::MAX))
            .map(|(key, alarm)| (*key, (alarm.kill)()))
            .collect();
        for (key, kill) in due {
            match kill {
                Kill::TooSoon => again = Some(now + RETRY_INTERVAL),
                Kill::NotNeeded => drop(self.alarms.remove(&key)),
                Kill::Sent => {
                    if let Some(alarm) = self.alarms.remove(&key) {
                        alarm.fired.store(true, Ordering::Release);
                    }
                }
            }
        }
        again.or_else(|| self.alarms.first_key_value().map(|((time, _), _)| *time))
    }
}

/// Kills the groups again, reaps their ended processes, and returns the groups that are left.
fn still_there(left: Vec<Left>) -> Vec<Left> {
    let is_there = |left: &Left| {
        loop {
            match sys::reap_group(left.group.as_raw()) {
                Ok(Some(_)) => {}
                Ok(None) => {
                    kill_group(left.group);
                    return true;
                }
                // ECHILD: no process is left.
                Err(_) => return false,
            }
        }
    };
    left.into_iter().filter(is_there).collect()
}

/// Kills a process group with processes that are not reaped yet.
pub(super) fn kill_group(group: Pid) {
    match killpg(group, Signal::SIGKILL) {
        // ESRCH: the whole group is gone already.
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(error) => {
            tracing::error!(%error, group = group.as_raw(), "process group cannot be killed")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn deadlines() -> Deadlines {
        Deadlines::start(Arc::new(Keeper::start().unwrap())).unwrap()
    }

    #[test]
    fn kills_come_in_the_order_of_their_deadlines_and_none_that_was_called_off() {
        let deadlines = deadlines();
        let hold = deadlines.hold(None).unwrap();
        let (sender, receiver) = mpsc::channel();
        let now = Instant::now();
        let after = |millis| now + Duration::from_millis(millis);
        let arm = |name: &'static str, when| {
            let sender = sender.clone();
            hold.arm(when, move || {
                sender.send(name).unwrap();
                Kill::Sent
            })
        };
        let (late, called_off, early) = (
            arm("late", after(60)),
            arm("called off", after(40)),
            arm("early", after(20)),
        );
        assert!(!called_off.disarm());

        assert_eq!(receiver.recv().unwrap(), "early");
        assert_eq!(receiver.recv().unwrap(), "late");
        assert!(early.disarm() && late.disarm());
        drop(sender);
        assert!(receiver.try_recv().is_err());
    }

    #[test]
    fn a_kill_that_comes_too_soon_is_tried_again() {
        let deadlines = deadlines();
        let hold = deadlines.hold(None).unwrap();
        let tries = Arc::new(AtomicI32::new(0));
        let counted = Arc::clone(&tries);
        let (sender, receiver) = mpsc::channel();
        let armed = hold.arm(Instant::now(), move || {
            if counted.fetch_add(1, Ordering::AcqRel) < 2 {
                return Kill::TooSoon;
            }
            sender.send(()).unwrap();
            Kill::Sent
        });
        receiver.recv().unwrap();
        assert!(armed.disarm());
        assert_eq!(tries.load(Ordering::Acquire), 3);
    }

    #[test]
    fn what_a_group_occupies_is_free_once_nothing_of_it_is_left() {
        let deadlines = deadlines();
        let kept = Arc::new("a uid");
        let hold = deadlines.hold(Some(kept.clone())).unwrap();
        // A group that has no child of this process: nothing of it is left.
        hold.leave(Pid::from_raw(i32::MAX));
        let give_up = Instant::now() + Duration::from_secs(20);
        while Arc::strong_count(&kept) > 1 {
            assert!(Instant::now() < give_up);
            thread::sleep(Duration::from_millis(5));
        }
    }
}
