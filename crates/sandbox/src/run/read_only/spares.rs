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

/// Workspaces in which directories lie ready. Dropping this removes the remaining directories.
#[derive(Debug, Default)]
pub(crate) struct Spares(Arc<Mutex<State>>);

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
    pub(super) fn keep(&self, workspace: &Path, caller: &Peer) {
        let mut state = lock(&self.0);
        let key = (workspace.to_owned(), caller.uid);
        let waiting = Waiting {
            caller: caller.clone(),
            due: Instant::now() + KEPT_FOR,
        };
        state.waiting.insert(key, waiting);
        if state.is_served {
            return;
        }
        let spares = Arc::downgrade(&self.0);
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

    /// Removes all that lie ready now. Blocks.
    pub(crate) fn remove_all(&self) {
        let waiting = std::mem::take(&mut lock(&self.0).waiting);
        for ((workspace, _), waiting) in waiting {
            clear(&workspace, &waiting.caller);
        }
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        self.remove_all();
    }
}

/// Removes what is due, until nothing is left.
fn serve(spares: &Weak<Mutex<State>>) {
    while let Some(next) = spares.upgrade().and_then(|state| remove_due(&state)) {
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// Removes what is due. Returns when more is; `None` where nothing is left.
fn remove_due(state: &Mutex<State>) -> Option<Instant> {
    let now = Instant::now();
    let due = {
        let mut state = lock(state);
        let due = state
            .waiting
            .extract_if(.., |_, waiting| waiting.due <= now);
        due.collect::<Vec<_>>()
    };
    for ((workspace, uid), mut waiting) in due {
        if clear(&workspace, &waiting.caller) == Cleared::Busy {
            waiting.due = now + KEPT_FOR;
            // A run that has ended meanwhile has put it there again.
            let mut state = lock(state);
            state.waiting.entry((workspace, uid)).or_insert(waiting);
        }
    }
    let mut state = lock(state);
    let next = state.waiting.values().map(|waiting| waiting.due).min();
    state.is_served = next.is_some();
    next
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // The guarded state is consistent between any two changes.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
