//! The threads that make the clones. Each has loaded the filters of its pool for ever, and its children inherit them.
//!
//! A thread sleeps in the clone until its child executes, so a pool has several. Nothing but the loop below runs on these
//! threads: they are confined like the hooks they start.

use std::{
    io,
    sync::{Arc, Mutex, mpsc},
    thread,
};

use tokio::sync::oneshot;

use crate::sys::{self, Job, Launch, Stack};

/// A pool of spawners that share their filters.
#[derive(Debug)]
pub struct Pool {
    work: mpsc::Sender<Work>,
}

#[derive(Debug)]
struct Work {
    job: Arc<Job>,
    reply: oneshot::Sender<Launch>,
}

/// The pool's threads are gone.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the spawner threads are gone")]
pub struct SpawnersGone;

impl Pool {
    /// Starts the threads; returns when all have loaded their filters. With `bounded` they first empty their capability
    /// bounding set, which their children inherit as well.
    ///
    /// # Errors
    ///
    /// Returns the first error of a thread: it could not be started, or a filter could not be loaded.
    pub fn start(
        threads: usize,
        filters: Vec<Vec<libc::sock_filter>>,
        bounded: bool,
    ) -> io::Result<Self> {
        let (work, queue) = mpsc::channel();
        let queue = Arc::new(Mutex::new(queue));
        let filters = Arc::new(filters);
        let (ready, readiness) = mpsc::channel();
        for _ in 0..threads.max(1) {
            let (queue, filters, ready) = (Arc::clone(&queue), Arc::clone(&filters), ready.clone());
            thread::Builder::new()
                .name("spawner".to_owned())
                .stack_size(256 * 1024)
                .spawn(move || {
                    let prepared = Stack::new()
                        .and_then(|stack| sys::block_all_signals().map(|()| stack))
                        .and_then(|stack| match bounded {
                            true => sys::empty_bounding_set().map(|()| stack),
                            false => Ok(stack),
                        })
                        .and_then(|stack| sys::load_filters(&filters).map(|()| stack));
                    match prepared {
                        Ok(stack) => {
                            // The receiver waits for as many answers as there are threads.
                            drop(ready.send(Ok(())));
                            drop(ready);
                            serve(&queue, stack);
                        }
                        Err(error) => drop(ready.send(Err(error))),
                    }
                })?;
        }
        drop(ready);
        for answer in readiness {
            answer?;
        }
        Ok(Self { work })
    }

    /// Hands a job to the next free thread.
    ///
    /// # Errors
    ///
    /// Fails if no thread is left.
    pub fn launch(&self, job: Arc<Job>) -> Result<oneshot::Receiver<Launch>, SpawnersGone> {
        let (reply, answer) = oneshot::channel();
        self.work
            .send(Work { job, reply })
            .map_err(|_| SpawnersGone)?;
        Ok(answer)
    }
}

fn serve(queue: &Mutex<mpsc::Receiver<Work>>, mut stack: Stack) {
    loop {
        // A poisoned queue, or one without senders, is the end of the pool.
        let Ok(Ok(work)) = queue.lock().map(|queue| queue.recv()) else {
            return;
        };
        let launch = sys::launch(&work.job, &mut stack);
        // Nobody waits any more: the child must not live on unsupervised.
        if let Err(launch) = work.reply.send(launch) {
            sys::discard(launch);
        }
    }
}
