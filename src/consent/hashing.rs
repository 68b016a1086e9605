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

use super::{
    digest::DigestCache,
    program::{Opened, Program},
};
use crate::{
    refusal::{Fault, Reason, Refusal, Stop},
    util::turns::Turns,
};

/// Up to this size files are hashed without another thread. It takes less time than handing it over and back does under load.
const INLINE_BYTES: u64 = 256 << 10;

/// The limit for hashing a command that is not allowed and opens no question. The digests in its refusal are a help to the
/// operator, and not worth more.
pub(crate) const UNALLOWED_BYTES: u64 = 16 << 20;

/// The most programs hashed at the same time; never more than processors.
const MAX_AT_ONCE: usize = 4;

/// Hashes programs: a few at a time, and one fewer of each user's. So there is a turn for another user.
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
    /// Returns what is known of files' content.
    pub(crate) fn cache(&self) -> &DigestCache {
        &self.cache
    }

    /// Hashes a program for a user.
    ///
    /// # Errors
    ///
    /// As [`Opened::hash`]; `DEADLINE` too where its turn did not come in time, or the caller went away.
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
        // However this ends, nobody hashes what nobody waits for.
        let _abandon = Abandon(Arc::clone(&stop));
        let hashed = async {
            let turn = self.turns.turn(uid).await;
            let cache = Arc::clone(&self.cache);
            let hashed = spawn_blocking(move || {
                // Until the thread is done with it, whether anybody waits or not.
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

/// Ends a hash that nobody waits for when it is dropped.
struct Abandon(Arc<AtomicBool>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
