//! Answers that were given, by the caller's request id: the same request again is answered, not run, again.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use prost::Message;
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tonic::Status;

/// How long an answer is kept.
const WINDOW: Duration = Duration::from_secs(600);

/// How many answers are kept at most.
const ENTRIES: usize = 1024;

/// How many bytes of output are kept at most.
const BYTES: usize = 64 * 1024 * 1024;

/// An answer as it goes out.
pub(super) type Reply<R> = Result<R, Status>;

/// Who asked, under which id.
pub(super) type Key = (u32, String);

/// Answers by request id.
#[derive(Debug)]
pub(super) struct Retained<R> {
    entries: Mutex<Entries<R>>,
}

#[derive(Debug)]
struct Entries<R> {
    bytes: usize,
    by_key: HashMap<Key, Entry<R>>,
    /// Ended entries, oldest first.
    ended: VecDeque<(Instant, Key)>,
}

#[derive(Debug)]
struct Entry<R> {
    bytes: usize,
    fingerprint: [u8; 32],
    reply: watch::Receiver<Option<Reply<R>>>,
}

/// What to do about a request with an id.
#[derive(Debug)]
pub(super) enum Entered<R: Message> {
    /// The id was used for another request.
    Conflict,
    /// It runs, or ran; its reply is, or will be, here.
    Known(watch::Receiver<Option<Reply<R>>>),
    /// It is new: run it, and give its reply to the ticket.
    New(Ticket<R>),
}

/// The promise to deliver a reply. Dropped without one, the request is as if it had never been made.
#[derive(Debug)]
pub(super) struct Ticket<R: Message> {
    key: Key,
    reply: watch::Sender<Option<Reply<R>>>,
    retained: Arc<Retained<R>>,
}

/// Returns what tells two requests with the same id apart.
pub(super) fn fingerprint(message: &impl Message) -> [u8; 32] {
    Sha256::digest(message.encode_to_vec()).into()
}

impl<R> Default for Retained<R> {
    fn default() -> Self {
        let entries = Entries {
            bytes: 0,
            by_key: HashMap::new(),
            ended: VecDeque::new(),
        };
        Self {
            entries: Mutex::new(entries),
        }
    }
}

impl<R: Message> Retained<R> {
    /// Looks an id up; a new one is entered.
    pub(super) fn enter(self: &Arc<Self>, key: Key, fingerprint: [u8; 32]) -> Entered<R> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.forget(Instant::now());
        match entries.by_key.get(&key) {
            Some(entry) if entry.fingerprint == fingerprint => Entered::Known(entry.reply.clone()),
            Some(_) => Entered::Conflict,
            None => {
                let (sender, receiver) = watch::channel(None);
                let entry = Entry {
                    bytes: 0,
                    fingerprint,
                    reply: receiver,
                };
                entries.by_key.insert(key.clone(), entry);
                Entered::New(Ticket {
                    key,
                    reply: sender,
                    retained: Arc::clone(self),
                })
            }
        }
    }
}

impl<R: Message + Clone> Ticket<R> {
    /// Delivers the reply to all who wait. An outcome is kept; a refusal ran nothing and may be asked for again.
    pub(super) fn deliver(self, reply: &Reply<R>) {
        if let Ok(response) = reply {
            let bytes = response.encoded_len();
            let mut entries = self
                .retained
                .entries
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if let Some(entry) = entries.by_key.get_mut(&self.key) {
                entry.bytes = bytes;
            }
            entries.bytes += bytes;
            entries.ended.push_back((Instant::now(), self.key.clone()));
        }
        // Those who wait have a receiver of their own; without any, nobody needs to be told.
        self.reply.send_replace(Some(reply.clone()));
    }
}

impl<R: Message> Drop for Ticket<R> {
    fn drop(&mut self) {
        let ran = matches!(*self.reply.borrow(), Some(Ok(_)));
        if !ran {
            let mut entries = self
                .retained
                .entries
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            entries.by_key.remove(&self.key);
        }
    }
}

impl<R> Entries<R> {
    /// Forgets what is too old, and the oldest of what is too much.
    fn forget(&mut self, now: Instant) {
        while let Some((ended, _)) = self.ended.front() {
            let kept = now.saturating_duration_since(*ended) < WINDOW
                && self.ended.len() <= ENTRIES
                && self.bytes <= BYTES;
            if kept {
                break;
            }
            let Some((_, key)) = self.ended.pop_front() else {
                break;
            };
            if let Some(entry) = self.by_key.remove(&key) {
                self.bytes -= entry.bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pb;

    fn key() -> Key {
        (1000, "id".to_owned())
    }

    fn new(
        retained: &Arc<Retained<pb::ExecuteResponse>>,
        fingerprint: u8,
    ) -> Ticket<pb::ExecuteResponse> {
        let Entered::New(ticket) = retained.enter(key(), [fingerprint; 32]) else {
            panic!("not new")
        };
        ticket
    }

    #[test]
    fn an_outcome_is_kept_and_another_request_under_its_id_conflicts() {
        let retained = Arc::new(Retained::default());
        let response = pb::ExecuteResponse {
            request_id: "id".to_owned(),
            ..pb::ExecuteResponse::default()
        };
        new(&retained, 1).deliver(&Ok(response.clone()));
        let Entered::Known(reply) = retained.enter(key(), [1; 32]) else {
            panic!("not known")
        };
        assert_eq!(
            reply.borrow().as_ref().unwrap().as_ref().unwrap(),
            &response
        );
        assert!(matches!(retained.enter(key(), [2; 32]), Entered::Conflict));
        assert!(matches!(
            retained.enter((1001, "id".to_owned()), [2; 32]),
            Entered::New(_)
        ));
    }

    #[test]
    fn a_refusal_reaches_those_who_wait_and_is_forgotten() {
        let retained = Arc::new(Retained::default());
        let ticket = new(&retained, 1);
        let Entered::Known(waiting) = retained.enter(key(), [1; 32]) else {
            panic!("not known")
        };
        ticket.deliver(&Err(Status::unavailable("full")));
        assert!(waiting.borrow().as_ref().unwrap().is_err());
        drop(new(&retained, 2));
        drop(new(&retained, 3));
    }

    #[test]
    fn old_and_many_outcomes_are_forgotten() {
        let retained = Arc::new(Retained::default());
        for number in 0..ENTRIES + 10 {
            let Entered::New(ticket) = retained.enter((0, number.to_string()), [0; 32]) else {
                panic!("not new")
            };
            ticket.deliver(&Ok(pb::ExecuteResponse::default()));
        }
        let mut entries = retained.entries.lock().unwrap();
        entries.forget(Instant::now());
        assert_eq!(entries.by_key.len(), ENTRIES);
        entries.forget(Instant::now() + WINDOW);
        assert_eq!((entries.by_key.len(), entries.bytes), (0, 0));
    }
}
