//! Removes the directories of runs after their answers.
//!
//! A hook can create more files in a second than are removed in a minute. So the answer does not wait for the removal, and
//! the uid is freed only after it. Callers take turns, and a caller with many pending removals waits before its next hook
//! starts.

use std::{
    collections::{HashMap, VecDeque},
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use hookjail_base::refusal::lacking;

use crate::{host::Lease, resources::scratch::RunDir, run::read_only::Placeholders};

/// Limit on a caller's directories awaiting removal before its next hook has to wait.
pub(crate) const BACKLOG: usize = 64;

/// Number of directories removed concurrently, at most one of each caller.
const THREADS: usize = 2;

/// Delay before a removal that failed for lack of resources is retried.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Time limit for removals at a daemon's exit. The next daemon removes the rest.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// The threads that remove directories. Dropping this ends them, within [`EXIT_TIMEOUT`].
#[derive(Debug)]
pub(crate) struct Litter {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// Resources of a run, held until its tree is dead and its directory removed. Fields drop in this order: the directory before the
/// uid is free again.
#[derive(Debug)]
struct Held {
    directory: RunDir,
    lease: Option<Lease>,
}

impl Held {
    /// Removes the directory if the hook left it empty, which takes no time. Returns whether it is gone.
    fn remove_if_empty(&mut self) -> bool {
        self.directory.remove_empty_scratch() && {
            self.lease = None;
            self.directory.remove_own()
        }
    }

    /// Removes the directory; returns `self` to be retried where the system lacks resources.
    ///
    /// The uid is freed when no file of the hook's user is left, before the run's own directory is removed, by which
    /// others see that the removal is complete.
    fn remove(mut self) -> Option<Self> {
        let mut removed = self.directory.remove_scratch();
        if removed.is_ok() {
            self.lease = None;
            removed = self.directory.remove();
        }
        // Any other error is logged on drop, and the directory left to the next daemon.
        lacking(&removed.err()?).map(|_| self)
    }
}

/// A run's directory and uid. When dropped, the directory is removed in the background, and the uid is free after that.
#[derive(Debug)]
pub(crate) struct RunResources {
    caller: u32,
    directory: RunDir,
    lease: Option<Lease>,
    /// Of a run in a process that had waited.
    placeholders: OnceLock<Arc<Placeholders>>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    changed: Condvar,
    /// Wakes waiting callers.
    removed: Notify,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Callers to be retried, and when: in this order.
    again: VecDeque<(Instant, u32)>,
    callers: HashMap<u32, Caller>,
    closed: bool,
    /// Callers with directories to be removed of which none is being removed, in turn.
    turn: VecDeque<u32>,
}

#[derive(Debug, Default)]
struct Caller {
    /// Whether one of its directories is being removed.
    busy: bool,
    waiting: VecDeque<Held>,
}

impl Caller {
    fn backlog(&self) -> usize {
        self.waiting.len() + usize::from(self.busy)
    }
}

impl Litter {
    /// Starts the threads.
    ///
    /// # Errors
    ///
    /// Fails where a thread cannot be started.
    pub(crate) fn start() -> io::Result<Self> {
        let mut litter = Self {
            shared: Arc::default(),
            threads: Vec::new(),
        };
        for _ in 0..THREADS {
            let shared = Arc::clone(&litter.shared);
            let thread = thread::Builder::new()
                .name("litter".to_owned())
                .stack_size(256 * 1024)
                .spawn(move || shared.serve())?;
            litter.threads.push(thread);
        }
        Ok(litter)
    }

    /// Takes over a run's directory and uid.
    pub(crate) fn of_run(
        &self,
        caller: u32,
        directory: RunDir,
        lease: Option<Lease>,
    ) -> RunResources {
        RunResources {
            caller,
            directory,
            lease,
            placeholders: OnceLock::new(),
            shared: Arc::clone(&self.shared),
        }
    }

    /// Waits until a caller has fewer directories awaiting removal than [`BACKLOG`].
    pub(crate) async fn room(&self, caller: u32) {
        loop {
            let removed = self.shared.removed.notified();
            tokio::pin!(removed);
            // Subscribes before the check, so that no removal is missed.
            removed.as_mut().enable();
            let backlog = self.shared.lock().callers.get(&caller).map(Caller::backlog);
            if backlog.is_none_or(|backlog| backlog < BACKLOG) {
                return;
            }
            removed.await;
        }
    }
}

impl Drop for Litter {
    fn drop(&mut self) {
        let give_up = Instant::now() + EXIT_TIMEOUT;
        let mut state = self.shared.lock();
        state.closed = true;
        self.shared.changed.notify_all();
        while !state.callers.is_empty() {
            let left = give_up.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let callers = std::mem::take(&mut state.callers);
        state.turn.clear();
        state.again.clear();
        self.shared.changed.notify_all();
        drop(state);
        if callers.is_empty() {
            for thread in self.threads.drain(..) {
                if thread.join().is_err() {
                    tracing::error!("a thread that removes directories panicked");
                }
            }
            return;
        }
        let left: usize = callers.values().map(Caller::backlog).sum();
        tracing::warn!(
            left,
            "directories of runs are not removed yet, and the next daemon removes them"
        );
        callers.into_values().for_each(Caller::leave);
    }
}

impl Caller {
    fn leave(self) {
        self.waiting
            .into_iter()
            .for_each(|held| held.directory.leave());
    }
}

impl RunResources {
    /// Returns the run's directory.
    pub(crate) const fn directory(&self) -> &RunDir {
        &self.directory
    }

    /// Holds the directories that take names in a workspace for as long as the run's processes last. Only the first ones are held.
    pub(crate) fn hold(&self, placeholders: Arc<Placeholders>) {
        self.placeholders.get_or_init(|| placeholders);
    }
}

impl Drop for RunResources {
    fn drop(&mut self) {
        let mut held = Held {
            directory: self.directory.take(),
            lease: self.lease.take(),
        };
        // Most hooks leave nothing, so this usually suffices.
        if !held.remove_if_empty() {
            self.shared.take(self.caller, held);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The guarded state is consistent between any two changes: a panic leaves at most a directory behind.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, caller: u32, held: Held) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            held.directory.leave();
            return;
        }
        let of_caller = state.callers.entry(caller).or_default();
        of_caller.waiting.push_back(held);
        let (backlog, busy) = (of_caller.backlog(), of_caller.busy);
        if !busy && backlog == 1 {
            state.turn.push_back(caller);
            self.changed.notify_all();
        }
        drop(state);
        if backlog == BACKLOG {
            tracing::warn!(
                caller,
                backlog,
                "the hooks of a caller leave more than is removed, so its next ones wait"
            );
        }
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            let Some(caller) = state.turn.pop_front() else {
                let now = Instant::now();
                let again = state.again.front().map(|(time, _)| *time);
                state = match again {
                    Some(time) if time <= now => {
                        let caller = state.again.pop_front().map(|(_, caller)| caller);
                        state.turn.extend(caller);
                        state
                    }
                    Some(time) => {
                        let waited = self.changed.wait_timeout(state, time - now);
                        waited.unwrap_or_else(PoisonError::into_inner).0
                    }
                    None if state.closed => return,
                    None => self
                        .changed
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner),
                };
                continue;
            };
            let of_caller = state.callers.get_mut(&caller);
            let Some(held) = of_caller.and_then(|of_caller| {
                of_caller.busy = true;
                of_caller.waiting.pop_front()
            }) else {
                continue;
            };
            drop(state);
            let kept = held.remove();
            state = self.lock();
            if let Some(kept) = kept {
                let Some(of_caller) = state.callers.get_mut(&caller) else {
                    // The daemon has ended.
                    kept.directory.leave();
                    continue;
                };
                of_caller.busy = false;
                of_caller.waiting.push_front(kept);
                state
                    .again
                    .push_back((Instant::now() + RETRY_INTERVAL, caller));
                continue;
            }
            if let Some(of_caller) = state.callers.get_mut(&caller) {
                of_caller.busy = false;
                if of_caller.waiting.is_empty() {
                    state.callers.remove(&caller);
                } else {
                    state.turn.push_back(caller);
                }
            }
            self.changed.notify_all();
            self.removed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::InstanceDir;

    fn instance(base: &tempfile::TempDir) -> InstanceDir {
        InstanceDir::create(&base.path().join("base"), false).unwrap()
    }

    fn full(instance: &InstanceDir) -> RunDir {
        let directory = instance.run(None).unwrap();
        for number in 0..50 {
            fs::write(directory.scratch().join(number.to_string()), "").unwrap();
        }
        directory
    }

    #[tokio::test]
    async fn what_runs_leave_is_removed_on_the_side_and_a_caller_with_much_of_it_waits() {
        let base = tempfile::tempdir().unwrap();
        let instance = instance(&base);
        let litter = Litter::start().unwrap();
        let mut scratch = Vec::new();
        for _ in 0..2 * BACKLOG {
            let directory = full(&instance);
            scratch.push(directory.scratch());
            drop(litter.of_run(1000, directory, None));
        }

        litter.room(1001).await;
        litter.room(1000).await;

        let left = || scratch.iter().filter(|path| path.exists()).count();
        assert!(left() < BACKLOG, "{}", left());
        drop(litter);
        assert_eq!(left(), 0);
    }

    #[test]
    fn a_directory_that_outlives_the_threads_is_left_for_the_next_daemon() {
        let base = tempfile::tempdir().unwrap();
        let instance = instance(&base);
        let litter = Litter::start().unwrap();
        let directory = full(&instance);
        let scratch = directory.scratch();
        let late = litter.of_run(1000, directory, None);
        drop(litter);
        drop(late);
        assert!(scratch.exists());
        // No longer held by any process, but kept by the end of its daemon.
        drop(instance);
        assert!(scratch.exists());
        drop(self::instance(&base));
        assert!(!scratch.exists());
    }
}
