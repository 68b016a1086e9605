//! Work that takes long for its size, off the threads of the runtime: they serve everybody.

use std::{future::pending, panic::resume_unwind};

use tokio::{sync::Semaphore, task::spawn_blocking};

/// Work on fewer bytes is done at once: handing it over would take about as long.
pub(crate) const LARGE: usize = 256 * 1024;

/// How many pieces of such work are done at the same time. More would only share the processors, and each holds its memory.
const AT_ONCE: usize = 2;

static ROOM: Semaphore = Semaphore::const_new(AT_ONCE);

/// Does work on so many bytes, elsewhere if they are many.
pub(crate) async fn sized<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if bytes < LARGE {
        return work();
    }
    // It is never closed: an error would mean no more than work without a bound.
    let room = ROOM.acquire().await.ok();
    let done = spawn_blocking(work).await;
    drop(room);
    match done {
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
        let here = thread::current().id();
        assert_eq!(sized(LARGE - 1, || thread::current().id()).await, here);
        assert_ne!(sized(LARGE, || thread::current().id()).await, here);
    }
}
