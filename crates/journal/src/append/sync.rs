//! Syncs records to the disk, and stops the journal after a failed sync.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{JournalError, Shared};

/// When records are synced to the disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fsync {
    /// Before they count as written. No run starts and no reply is sent before its record is on disk.
    Always,
    /// At this interval.
    Every(Duration),
    /// At the kernel's discretion.
    Never,
}

/// The part of the chain that is known to be on disk.
#[derive(Debug, Default)]
pub(super) struct Synced {
    failed: AtomicBool,
    through: Mutex<u64>,
}

impl Synced {
    /// Fails for ever after a sync has failed.
    ///
    /// Why for ever: after a failed sync the kernel forgets which pages it did not write, and the next sync succeeds.
    pub(super) fn check(&self, path: &Path) -> Result<(), JournalError> {
        if self.failed.load(Ordering::Acquire) {
            return Err(JournalError::Unsynced {
                path: path.to_owned(),
            });
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn reached(&self) -> u64 {
        *self.through.lock().unwrap()
    }

    /// Syncs the chain up to a record. `now` returns the current file, its last record and its path.
    pub(super) fn through(
        &self,
        sequence: u64,
        now: impl FnOnce() -> (Arc<File>, u64, PathBuf),
    ) -> Result<(), JournalError> {
        let mut through = self.through.lock().unwrap_or_else(PoisonError::into_inner);
        if *through >= sequence {
            return Ok(());
        }
        let (file, last, path) = now();
        self.check(&path)?;
        if let Err(error) = file.sync_data() {
            self.failed.store(true, Ordering::Release);
            tracing::error!(%error, path = %path.display(), "the disk does not take records, so no hook is run any more");
            return Err(JournalError::Unusable {
                doing: "sync",
                path,
                source: error,
            });
        }
        // Also after a rotation: earlier files were synced before the writer switched.
        *through = last;
        Ok(())
    }
}

/// A thread that syncs at intervals until this is dropped, and once more then.
#[derive(Debug)]
pub(super) struct Ticker {
    thread: Option<JoinHandle<()>>,
    /// Nothing is sent on it: the thread ends when it is dropped.
    until: Option<mpsc::Sender<()>>,
}

impl Ticker {
    pub(super) fn start(interval: Duration, shared: Arc<Shared>) -> Result<Self, JournalError> {
        let path = shared.state().path().to_owned();
        let (until, ticks) = mpsc::channel();
        let tick = move || {
            while ticks.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                sync(&shared);
            }
            sync(&shared);
        };
        let thread = thread::Builder::new()
            .name("journal-sync".to_owned())
            .spawn(tick)
            .map_err(|source| JournalError::Unusable {
                doing: "start the thread that syncs",
                path,
                source,
            })?;
        Ok(Self {
            thread: Some(thread),
            until: Some(until),
        })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.until.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that syncs the journal panicked");
        }
    }
}

fn sync(shared: &Shared) {
    let last = shared.state().last();
    // The failure is logged, and makes the next record fail.
    drop(shared.sync(last));
}
