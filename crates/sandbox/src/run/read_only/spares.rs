//! Directories that took names in a workspace and lie ready for its next run.
//!
//! Where a file system takes milliseconds to remove a directory, forty of them delay an answer more than the hook itself.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

use hookjail_base::model::Peer;

use super::placeholder::{Cleared, clear};

/// How long directories lie ready after the last run in a workspace.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// Workspaces in which directories lie ready. Those that are left are removed when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Spares(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Whether a thread removes what is due.
    is_served: bool,
    /// By workspace and the user by whose rights they are removed.
    waiting: BTreeMap<(PathBuf, u32), Waiting>,
}

#[derive(Debug)]
struct Waiting {
    caller: Peer,
    due: Instant,
}

impl Spares {
    /// Has the directories of a workspace removed after [`KEPT_FOR`], with the rights of a caller.
    pub(super) fn keep(self: &Arc<Self>, workspace: &Path, caller: &Peer) {
        let mut state = self.lock();
        let key = (workspace.to_owned(), caller.uid);
        let waiting = Waiting {
            caller: caller.clone(),
            due: Instant::now() + KEPT_FOR,
        };
        state.waiting.insert(key, waiting);
        if state.is_served {
            return;
        }
        let spares = Arc::downgrade(self);
        let thread = thread::Builder::new()
            .name("spares".to_owned())
            .stack_size(256 * 1024);
        match thread.spawn(move || serve(&spares)) {
            Ok(_) => state.is_served = true,
            // The next run tries again, and the end of the daemon removes them.
            Err(error) => {
                tracing::warn!(%error, "a thread to remove directories cannot be started")
            }
        }
    }

    /// Removes what is due. Returns when more is; `None` where nothing is left.
    fn remove_due(&self) -> Option<Instant> {
        let now = Instant::now();
        let due = {
            let mut state = self.lock();
            let due = state
                .waiting
                .extract_if(.., |_, waiting| waiting.due <= now);
            due.collect::<Vec<_>>()
        };
        for ((workspace, uid), mut waiting) in due {
            if clear(&workspace, &waiting.caller) == Cleared::Busy {
                waiting.due = now + KEPT_FOR;
                // A run that has ended meanwhile has put it there again.
                self.lock()
                    .waiting
                    .entry((workspace, uid))
                    .or_insert(waiting);
            }
        }
        let mut state = self.lock();
        let next = state.waiting.values().map(|waiting| waiting.due).min();
        state.is_served = next.is_some();
        next
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The guarded state is consistent between any two changes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        let state = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        for ((workspace, _), waiting) in std::mem::take(&mut state.waiting) {
            clear(&workspace, &waiting.caller);
        }
    }
}

/// Removes what is due, until nothing is left.
fn serve(spares: &Weak<Spares>) {
    while let Some(next) = spares.upgrade().and_then(|spares| spares.remove_due()) {
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}
