//! Limits concurrent work, in total and of each uid. A uid with much work does not delay others.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// A limiter of concurrent work.
#[derive(Debug)]
pub struct Turns {
    all: Arc<Semaphore>,
    of_each: usize,
    /// Each uid's semaphore, while a turn of it is held or waited for.
    uids: Mutex<HashMap<u32, Weak<Semaphore>>>,
}

/// A turn, held while the work lasts. Work keeps its turn when the caller stops waiting, or cancelled calls would make
/// room for more work.
#[derive(Debug)]
pub struct Turn {
    all: Option<OwnedSemaphorePermit>,
    own: Option<OwnedSemaphorePermit>,
}

impl Turns {
    /// Allows `all` pieces at the same time, `of_each` of them of one uid. `of_each` should be less than `all`, so that
    /// a turn is left for another uid.
    pub fn new(all: usize, of_each: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(all)),
            of_each,
            uids: Mutex::default(),
        }
    }

    /// Waits for a turn of a uid. Dropping the future ends the wait.
    pub async fn turn(&self, uid: u32) -> Turn {
        let semaphore = {
            let mut uids = self.uids.lock().unwrap_or_else(PoisonError::into_inner);
            uids.retain(|_, semaphore| semaphore.strong_count() > 0);
            let known = uids.get(&uid).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let semaphore = Arc::new(Semaphore::new(self.of_each));
                uids.insert(uid, Arc::downgrade(&semaphore));
                semaphore
            })
        };
        // The uid's own semaphore first, so that the queue for `all` has only a few of each uid. Neither semaphore is
        // ever closed; an error would only mean unlimited work.
        let semaphore = semaphore.acquire_owned().await.ok();
        let all = Arc::clone(&self.all).acquire_owned().await.ok();
        Turn {
            all,
            own: semaphore,
        }
    }
}

impl Turn {
    /// Runs work of this turn. Work that takes longer than `patience` gives up the turn and continues, so that it does
    /// not delay others.
    pub async fn spend<T>(&mut self, patience: Duration, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        match timeout(patience, &mut work).await {
            Ok(done) => done,
            Err(_) => {
                (self.all, self.own) = (None, None);
                work.await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;

    type WaitingTurn = std::pin::Pin<Box<dyn Future<Output = Turn>>>;

    fn wait(turns: &Arc<Turns>, uid: u32) -> WaitingTurn {
        let turns = Arc::clone(turns);
        Box::pin(async move { turns.turn(uid).await })
    }

    fn poll(waiting: &mut WaitingTurn) -> Option<Turn> {
        match pin!(waiting).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    #[test]
    fn who_has_many_waiting_holds_up_nobody_else() {
        for (all, of_each) in [(1, 1), (3, 2)] {
            let turns = Arc::new(Turns::new(all, of_each));
            let mut first: Vec<_> = (0..100).map(|_| wait(&turns, 1)).collect();
            let mut had: Vec<_> = first.iter_mut().filter_map(poll).collect();
            assert_eq!(had.len(), of_each);
            let mut other = wait(&turns, 2);
            if all == of_each {
                assert!(poll(&mut other).is_none());
                had.pop();
                assert!(first.iter_mut().skip(1).all(|it| poll(it).is_none()));
            }
            assert!(poll(&mut other).is_some());
        }
    }

    #[tokio::test]
    async fn work_that_hangs_holds_up_nobody_else() {
        let turns = Arc::new(Turns::new(1, 1));
        let mut turn = turns.turn(1).await;
        let (end, ended) = tokio::sync::oneshot::channel::<u8>();
        let hangs = tokio::spawn(async move { turn.spend(Duration::from_millis(1), ended).await });
        drop(turns.turn(1).await);
        assert!(!hangs.is_finished());
        end.send(7).unwrap();
        assert_eq!(hangs.await.unwrap(), Ok(7));
    }

    #[tokio::test]
    async fn a_turn_lasts_as_long_as_its_work() {
        let turns = Arc::new(Turns::new(1, 1));
        let mut turn = turns.turn(1).await;
        let (end, ended) = tokio::sync::oneshot::channel::<u8>();
        let works = tokio::spawn(async move { turn.spend(Duration::from_secs(3600), ended).await });
        let mut other = wait(&turns, 2);
        tokio::task::yield_now().await;
        assert!(poll(&mut other).is_none());
        end.send(7).unwrap();
        assert_eq!(works.await.unwrap(), Ok(7));
        assert!(poll(&mut other).is_some());
    }

    #[test]
    fn uids_without_a_turn_are_forgotten() {
        let turns = Arc::new(Turns::new(2, 1));
        for uid in 0..1000 {
            assert!(poll(&mut wait(&turns, uid)).is_some());
        }
        assert!(turns.uids.lock().unwrap().len() <= 1);
    }
}
