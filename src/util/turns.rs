//! Runs work of many uids, a few pieces at a time, each uid in turn. Whoever has many pieces waiting holds up nobody else.

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

/// Work in progress by uid.
#[derive(Debug)]
pub(crate) struct Turns {
    all: Arc<Semaphore>,
    of_each: usize,
    /// Each uid's own, as long as somebody waits for one or has it.
    uids: Mutex<HashMap<u32, Weak<Semaphore>>>,
}

/// A turn, held while the work lasts. It does not end with whoever waits for it, or those that go away would make room for more.
#[derive(Debug)]
pub(crate) struct Turn {
    all: Option<OwnedSemaphorePermit>,
    own: Option<OwnedSemaphorePermit>,
}

impl Turns {
    /// Allows so many pieces at the same time, and so many of each uid. The latter are fewer, so that there is a turn for another,
    /// unless there is but one.
    pub(crate) fn new(all: usize, of_each: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(all)),
            of_each,
            uids: Mutex::default(),
        }
    }

    /// Waits for a turn of a uid's. Who drops this waits no more.
    pub(crate) async fn turn(&self, uid: u32) -> Turn {
        let own = {
            let mut uids = self.uids.lock().unwrap_or_else(PoisonError::into_inner);
            uids.retain(|_, own| own.strong_count() > 0);
            let known = uids.get(&uid).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let own = Arc::new(Semaphore::new(self.of_each));
                uids.insert(uid, Arc::downgrade(&own));
                own
            })
        };
        // Its own first: in the queue for all there are then a few of each uid. Neither is ever closed: an error would mean no
        // more than work without a bound.
        let own = own.acquire_owned().await.ok();
        let all = Arc::clone(&self.all).acquire_owned().await.ok();
        Turn { all, own }
    }
}

impl Turn {
    /// Does work of this turn. Work that takes longer than `patience` ends the turn and goes on without: what hangs, or has to
    /// wait, holds up nobody else.
    pub(crate) async fn spend<T>(
        &mut self,
        patience: Duration,
        work: impl Future<Output = T>,
    ) -> T {
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
