//! Hashes programs on other threads, a few at a time, within their deadlines.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::available_parallelism,
    time::Instant,
};

use tokio::{task::spawn_blocking, time::timeout_at};
use tokio_util::sync::CancellationToken;

use hookjail_base::{
    refusal::{Fault, Reason, Refusal, Stop},
    util::turns::Turns,
};

use hookjail_sandbox::program::{Opened, Program, digest::DigestCache};

/// The most bytes that are hashed without another thread. That takes less time than two thread switches under load.
const INLINE_BYTES: u64 = 256 << 10;

/// The limit for hashing a command that is not allowed and opens no question. The digests in its refusal only help the
/// operator.
pub(crate) const UNALLOWED_BYTES: u64 = 16 << 20;

/// The most programs hashed at the same time; never more than processors.
const MAX_AT_ONCE: usize = 4;

/// A limiter of hashing: a few programs at a time, one fewer for each user. So a turn is left for another user.
#[derive(Debug)]
pub(crate) struct Hashing {
    cache: Arc<DigestCache>,
    turns: Turns,
}

impl Default for Hashing {
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        let at_once = processors.min(MAX_AT_ONCE);
        Self {
            cache: Arc::default(),
            turns: Turns::new(at_once, at_once.saturating_sub(1).max(1)),
        }
    }
}

impl Hashing {
    /// Returns the cache of digests.
    pub(crate) fn cache(&self) -> &DigestCache {
        &self.cache
    }

    /// Hashes a program for a user.
    ///
    /// # Errors
    ///
    /// As [`Opened::hash`]; `DEADLINE` also where the deadline passes first, or the caller goes away. A panic of the
    /// hashing thread is a fault.
    pub(crate) async fn hash(
        &self,
        opened: Opened,
        uid: u32,
        deadline: Instant,
        gone: &CancellationToken,
    ) -> Result<Program, Stop> {
        let stop = Arc::new(AtomicBool::new(false));
        if opened.unknown_bytes(&self.cache) <= INLINE_BYTES {
            return opened.hash(&self.cache, &stop);
        }
        // Stops the hash however this future ends, also when it is dropped.
        let _abandon = Abandon(Arc::clone(&stop));
        let hashed = async {
            let turn = self.turns.turn(uid).await;
            let cache = Arc::clone(&self.cache);
            let hashed = spawn_blocking(move || {
                // Held until the thread is done, even if the caller no longer waits.
                let _turn = turn;
                opened.hash(&cache, &stop)
            });
            let hashed = hashed.await;
            hashed.map_err(|error| Fault::new("the thread that hashes a program ended", error))?
        };
        let late = |why| Refusal::new(Reason::Deadline, why);
        tokio::select! {
            hashed = timeout_at(deadline.into(), hashed) => hashed.unwrap_or_else(|_| {
                Err(late("the deadline passed while the program was hashed").into())
            }),
            () = gone.cancelled() => Err(late("the caller went away while the program was hashed").into()),
        }
    }
}

/// A guard that stops a hash when it is dropped.
struct Abandon(Arc<AtomicBool>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
