//! Runs expensive work on blocking threads instead of the runtime's.

use std::{future::pending, panic::resume_unwind, sync::LazyLock};

use tokio::task::spawn_blocking;

use crate::util::turns::Turns;

/// The size from which work moves to another thread. Below it, the switch takes as long as the work.
const LARGE_BYTES: usize = 256 * 1024;

/// The most pieces of such work at the same time. More would only share the processors, and hold memory.
const MAX_AT_ONCE: usize = 3;

/// The most pieces of one uid.
const MAX_OF_EACH: usize = 2;

static TURNS: LazyLock<Turns> = LazyLock::new(|| Turns::new(MAX_AT_ONCE, MAX_OF_EACH));

/// Runs a uid's work in place, or by [`offload`] where there are many bytes.
pub async fn sized<T: Send + 'static>(
    uid: u32,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if bytes < LARGE_BYTES {
        work()
    } else {
        offload(uid, work).await
    }
}

/// Runs a uid's work on a blocking thread, in turn with other uids.
pub async fn offload<T: Send + 'static>(uid: u32, work: impl FnOnce() -> T + Send + 'static) -> T {
    let turn = TURNS.turn(uid).await;
    let done = spawn_blocking(move || {
        // Held until the thread is done, even if the caller no longer waits.
        let _turn = turn;
        work()
    });
    match done.await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime is shutting down, and this task with it.
            Err(_) => pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn only_large_work_leaves_the_thread() {
        let this_thread = thread::current().id();
        assert_eq!(
            sized(0, LARGE_BYTES - 1, || thread::current().id()).await,
            this_thread
        );
        assert_ne!(
            sized(0, LARGE_BYTES, || thread::current().id()).await,
            this_thread
        );
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_any_more_makes_no_room_for_more_until_it_is_done() {
        const UID: u32 = 4_000_000_000;
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let (began, begun) = std::sync::mpsc::channel();
        let stopped = std::sync::Arc::new(std::sync::Mutex::new(stopped));
        for _ in 0..MAX_OF_EACH {
            let (stopped, began) = (stopped.clone(), began.clone());
            let work = offload(UID, move || {
                began.send(()).ok();
                stopped.lock().map(|stopped| stopped.recv().ok()).ok();
            });
            let short = std::time::Duration::from_millis(50);
            assert!(tokio::time::timeout(short, work).await.is_err());
        }
        for _ in 0..MAX_OF_EACH {
            begun.recv().unwrap();
        }
        let short = std::time::Duration::from_millis(50);
        assert!(
            tokio::time::timeout(short, offload(UID, || ()))
                .await
                .is_err()
        );
        // Another uid's is done meanwhile.
        offload(UID + 1, || ()).await;
        drop(stop);
        offload(UID, || ()).await;
    }
}
