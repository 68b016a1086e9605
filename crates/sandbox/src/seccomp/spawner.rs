//! Spawners: threads that clone children, which inherit the filters that the thread has loaded.
//!
//! A thread sleeps in the clone until its child executes, so a pool has several. Nothing but the loop below runs on these
//! threads: they are confined like the hooks they start.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread::{self, Thread},
    time::Instant,
};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use hookjail_sys::{Job, Launch, Listener, Stack};

use crate::seccomp::Stacked;
use hookjail_sys as sys;

/// A pool of spawners that share their filters.
#[derive(Debug)]
pub struct Pool {
    queue: Arc<Queue>,
}

/// Jobs to be started, and the threads that wait for them.
#[derive(Debug, Default)]
struct Queue(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    closed: bool,
    /// Idle threads. The last one that worked is woken first: its memory is still in the caches.
    idle: Vec<Thread>,
    /// Number of live threads.
    threads: usize,
    work: VecDeque<Work>,
}

/// Limit after which a job is not started.
#[derive(Clone, Debug)]
pub struct Until {
    /// Cancels the start.
    pub cancel: CancellationToken,
    /// Deadline of the start.
    pub deadline: Instant,
}

impl Until {
    fn is_over(&self) -> bool {
        self.cancel.is_cancelled() || self.deadline <= Instant::now()
    }
}

#[derive(Debug)]
struct Work {
    job: Arc<Job>,
    /// `None` = no limit.
    until: Option<Until>,
    reply: oneshot::Sender<Launch>,
}

/// The pool's threads are gone.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the spawner threads are gone")]
pub struct SpawnersGone;

impl Pool {
    /// Starts the threads; returns once all have loaded their filters, with their listeners, if any. With `bounded` they first
    /// empty their capability bounding set, which their children inherit as well.
    ///
    /// # Errors
    ///
    /// Returns the first error of starting a thread or of loading a filter; `EBUSY` where filters that ask cannot be loaded.
    pub fn start(
        threads: usize,
        filters: Stacked,
        bounded: bool,
    ) -> io::Result<(Self, Vec<Listener>)> {
        let pool = Self {
            queue: Arc::default(),
        };
        let filters = Arc::new(filters);
        let (ready, readiness) = mpsc::channel();
        for _ in 0..threads.max(1) {
            let (queue, filters, ready) =
                (Arc::clone(&pool.queue), Arc::clone(&filters), ready.clone());
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
                        .and_then(|stack| {
                            let listener = sys::load_filters(&filters.programs, filters.asking)?;
                            Ok((stack, listener))
                        });
                    match prepared {
                        Ok((stack, listener)) => {
                            let member = Member::enter(&queue);
                            // The receiver waits for as many answers as there are threads.
                            drop(ready.send(Ok(listener)));
                            drop(ready);
                            serve(&member, stack);
                        }
                        Err(error) => drop(ready.send(Err(error))),
                    }
                })?;
        }
        drop(ready);
        let listeners: io::Result<Vec<Option<Listener>>> = readiness.into_iter().collect();
        Ok((pool, listeners?.into_iter().flatten().collect()))
    }

    /// Passes a job to the next free thread. Once `until` is over it is not started: [`Launch::TooLate`].
    ///
    /// # Errors
    ///
    /// Fails if no thread is left.
    pub fn launch(
        &self,
        job: Arc<Job>,
        until: Option<Until>,
    ) -> Result<oneshot::Receiver<Launch>, SpawnersGone> {
        let (reply, answer) = oneshot::channel();
        let idle = {
            let mut waiting = self.queue.lock();
            if waiting.threads == 0 {
                return Err(SpawnersGone);
            }
            waiting.work.push_back(Work { job, until, reply });
            waiting.idle.pop()
        };
        if let Some(thread) = idle {
            thread.unpark();
        }
        Ok(answer)
    }

    /// Takes back a job that no thread has begun; returns whether there was one.
    pub fn take_back(&self, job: &Arc<Job>) -> bool {
        let mut waiting = self.queue.lock();
        let before = waiting.work.len();
        waiting.work.retain(|work| !Arc::ptr_eq(&work.job, job));
        waiting.work.len() < before
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut waiting = self.queue.lock();
        waiting.closed = true;
        waiting.idle.drain(..).for_each(|thread| thread.unpark());
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Each change of the guarded state is one assignment: a panic leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread of a pool, for its lifetime.
struct Member<'a>(&'a Queue);

impl<'a> Member<'a> {
    fn enter(queue: &'a Queue) -> Self {
        queue.lock().threads += 1;
        Self(queue)
    }

    /// Waits for work; `None` means the end of the pool.
    fn next(&self) -> Option<Work> {
        let current = thread::current();
        loop {
            {
                let mut waiting = self.0.lock();
                waiting.idle.retain(|thread| thread.id() != current.id());
                if let Some(work) = waiting.work.pop_front() {
                    return Some(work);
                }
                if waiting.closed {
                    return None;
                }
                waiting.idle.push(current.clone());
            }
            thread::park();
        }
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        waiting.threads -= 1;
        if waiting.threads == 0 {
            // Dropping the replies signals to waiting callers that there will be no answer.
            waiting.work.clear();
        }
    }
}

fn serve(member: &Member<'_>, mut stack: Stack) {
    while let Some(work) = member.next() {
        let launch = if work.until.is_some_and(|until| until.is_over()) {
            Launch::TooLate
        } else {
            sys::launch(&work.job, &mut stack)
        };
        // The caller has stopped waiting: the child must not live on unsupervised.
        if let Err(launch) = work.reply.send(launch) {
            sys::discard(launch);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{fs::File, os::fd::OwnedFd, time::Duration};

    use super::*;
    use hookjail_sys::{Action, Attempt, JobParts};

    #[test]
    fn threads_end_with_their_pool() {
        let (pool, _) = Pool::start(3, Stacked::default(), false).unwrap();
        let queue = Arc::downgrade(&pool.queue);
        assert_eq!(pool.queue.lock().threads, 3);
        drop(pool);
        while queue.strong_count() > 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns a child that makes no attempts and ends.
    fn job() -> Arc<Job> {
        job_of(Vec::new())
    }

    /// Returns a child that makes attempts and ends.
    pub(crate) fn job_of(attempts: Vec<Attempt>) -> Arc<Job> {
        let open = |path| OwnedFd::from(File::open(path).unwrap());
        let null = || open("/dev/null");
        let job = Job::new(JobParts {
            action: Action::Attempt(attempts),
            canaries: None,
            cgroup: None,
            closing: None,
            group: None,
            identity: None,
            landlock_flags: 0,
            mounts: None,
            note: None,
            limits: Vec::new(),
            ruleset: None,
            stdio: [null(), null(), null()],
            tree: None,
            umask: 0o077,
            working_dir: Arc::new(open("/")),
        });
        Arc::new(job.unwrap())
    }

    #[test]
    fn a_pool_without_threads_takes_no_job() {
        let pool = Pool {
            queue: Arc::default(),
        };
        assert_eq!(pool.launch(job(), None).unwrap_err(), SpawnersGone);
    }

    #[test]
    fn a_job_is_not_started_once_it_is_too_late_or_nobody_wants_it() {
        let (pool, _) = Pool::start(1, Stacked::default(), false).unwrap();
        let launch = |job: Arc<Job>, cancel: CancellationToken, deadline| {
            let until = Until { cancel, deadline };
            let answer = pool.launch(job, Some(until)).unwrap();
            answer.blocking_recv().unwrap()
        };
        let (now, wanted) = (Instant::now(), CancellationToken::new);
        let late = now + Duration::from_secs(60);
        let unwanted = wanted();
        unwanted.cancel();
        let expired = job();
        assert_eq!(expired.expire(), sys::Overdue::Over);

        for launch in [
            launch(job(), wanted(), now),
            launch(job(), unwanted, late),
            launch(expired, wanted(), late),
        ] {
            assert!(matches!(launch, Launch::TooLate), "{launch:?}");
        }
        // The positive control.
        let launch = launch(job(), wanted(), late);
        assert!(matches!(launch, Launch::Cloned { .. }), "{launch:?}");
        sys::discard(launch);
    }

    #[test]
    fn a_job_that_no_thread_has_begun_is_taken_back() {
        let pool = Pool {
            queue: Arc::default(),
        };
        pool.queue.lock().threads = 1;
        let (one, other) = (job(), job());
        let mut answer = pool.launch(Arc::clone(&one), None).unwrap();
        assert!(!pool.take_back(&other));
        assert!(pool.take_back(&one));
        assert!(!pool.take_back(&one));
        assert!(answer.try_recv().is_err());
    }
}
