//! Retains answers by idempotency key: a repeated request is answered, not run, again.
//!
//! Answers are kept as encoded: decoded ones take several times as much. Where an answer has no room, its id alone is kept: the hook does
//! not run again, though its result is lost.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Instant,
};

use bytes::Bytes;
use prost::Message;
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio_util::sync::DropGuard;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use hookjail_proto as pb;

use hookjail_base::{
    refusal::{Reason, Refusal},
    util::shares::{Share, Shares},
};
use hookjail_journal::RETENTION;

use super::status;

/// The most bytes of retained answers, divided among the uids of their callers.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// An answer's memory beside its own bytes: its table entries, in tables that are half empty, and the allocator's part.
const OVERHEAD_BYTES: usize = 768;

/// The number of copies of an id.
const ID_COPIES: usize = 3;

/// The largest answer for which older ids are dropped, bytes.
const SMALL_REPLY_BYTES: usize = 64 * 1024;

/// An answer as sent.
pub(super) type Reply<R> = Result<R, Status>;

/// The caller's uid and its id of the request.
pub(super) type CallerKey = (u32, String);

/// Answers by request id.
#[derive(Debug)]
pub(super) struct Retained<R> {
    bytes: Arc<Shares>,
    entries: Mutex<Entries<R>>,
}

#[derive(Debug)]
struct Entries<R> {
    by_key: HashMap<CallerKey, RetainedEntry<R>>,
    /// Ended entries of each uid.
    ended: HashMap<u32, OfUid>,
}

/// Finished requests of a uid, oldest first. Each holds its share of the memory.
#[derive(Debug, Default)]
struct OfUid {
    /// The ids whose answers are kept, too, with the answers' memory.
    answers: VecDeque<(String, Share)>,
    ids: VecDeque<FinishedId>,
}

/// A retained id.
#[derive(Debug)]
struct FinishedId {
    at: Instant,
    _overhead: Share,
    id: String,
}

#[derive(Debug)]
struct RetainedEntry<R> {
    fingerprint: [u8; 32],
    /// Ends the run when the last client that waits for the answer drops it.
    guard: Weak<DropGuard>,
    kept: Kept<R>,
}

/// The part of a request that is kept.
#[derive(Clone, Debug)]
enum Kept<R> {
    /// Its answer, encoded.
    Answer(Bytes),
    /// Nothing, but that it ran.
    Gone,
    /// The refusal of one whose hook was released.
    Refusal(Box<KeptRefusal>),
    /// The place at which the answer of a running request will be.
    Running(watch::Receiver<Option<Reply<R>>>),
}

/// The parts of a status that a client gets.
#[derive(Clone, Debug)]
struct KeptRefusal {
    code: Code,
    details: Box<[u8]>,
    message: Box<str>,
}

impl<R: Message> Kept<R> {
    /// Returns the part of a reply to keep, if its hook ran; otherwise the request may be repeated.
    fn from_reply(reply: &Reply<R>) -> Option<Self> {
        match reply {
            Ok(response) => Some(Self::Answer(response.encode_to_vec().into())),
            Err(status) => says_released(status).then(|| {
                Self::Refusal(Box::new(KeptRefusal {
                    code: status.code(),
                    details: status.details().into(),
                    message: status.message().into(),
                }))
            }),
        }
    }
}

impl<R> Kept<R> {
    /// Returns the memory of its own, bytes.
    fn bytes(&self) -> usize {
        match self {
            Self::Answer(encoded) => encoded.len(),
            Self::Refusal(refusal) => refusal.details.len() + refusal.message.len(),
            Self::Gone | Self::Running(_) => 0,
        }
    }
}

impl<R: Message + Default> Kept<R> {
    /// Returns the reply, now or once the run is over.
    fn reply(self, id: &str) -> watch::Receiver<Option<Reply<R>>> {
        let reply = match self {
            // Cannot fail: this program encoded it.
            Self::Answer(encoded) => R::decode(encoded).map_err(|_| gone(id)),
            Self::Gone => Err(gone(id)),
            Self::Refusal(refusal) => {
                let KeptRefusal {
                    code,
                    details,
                    message,
                } = *refusal;
                Err(Status::with_details(code, message, details.into()))
            }
            Self::Running(reply) => return reply,
        };
        watch::channel(Some(reply)).1
    }
}

/// The result of looking an id up.
#[derive(Debug)]
pub(super) enum Claim<R: Message> {
    /// The id was used for another request.
    Conflict,
    /// The request runs, or ran. The reply comes from the receiver; the guard keeps the run going.
    Known(watch::Receiver<Option<Reply<R>>>, Option<Arc<DropGuard>>),
    /// The id is new: the caller runs the request and delivers its reply by the ticket.
    New(Ticket<R>),
}

/// The obligation to deliver a reply. Dropped without one, the id is new again.
#[derive(Debug)]
pub(super) struct Ticket<R: Message> {
    key: CallerKey,
    /// Whether a hook ran.
    ran: bool,
    reply: watch::Sender<Option<Reply<R>>>,
    retained: Arc<Retained<R>>,
}

/// A request type with an optional caller's id.
pub(super) trait Nameable: Message {
    /// Returns the request's own hooks.
    fn hooks(&mut self) -> impl Iterator<Item = &mut pb::Hook>;
}

impl Nameable for pb::ExecuteRequest {
    fn hooks(&mut self) -> impl Iterator<Item = &mut pb::Hook> {
        self.hook.iter_mut()
    }
}

impl Nameable for pb::DispatchRequest {
    fn hooks(&mut self) -> impl Iterator<Item = &mut pb::Hook> {
        let hooks = self.inline_hooks.iter_mut();
        hooks.filter_map(|hook| hook.hook.as_mut())
    }
}

/// Digests that distinguish two requests with the same id.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fingerprint {
    /// SHA-256 of the request without environment values, as the journal records it.
    pub(super) recorded: [u8; 32],
    /// SHA-256 of the whole request.
    pub(super) whole: [u8; 32],
}

/// Returns the fingerprint that distinguishes requests with the same id.
pub(super) fn fingerprint(message: &mut impl Nameable) -> Fingerprint {
    let mut values = Sha256::new();
    let mut taken = Vec::new();
    for hook in message.hooks() {
        for value in hook.env.values() {
            values.update((value.len() as u64).to_le_bytes());
            values.update(value);
        }
        let names = hook.env.keys().map(|name| (name.clone(), String::new()));
        let names = names.collect();
        taken.push(std::mem::replace(&mut hook.env, names));
    }
    let recorded: [u8; 32] = Sha256::digest(message.encode_to_vec()).into();
    for (hook, env) in message.hooks().zip(taken) {
        hook.env = env;
    }
    let mut whole = Sha256::new();
    whole.update(recorded);
    whole.update(values.finalize());
    Fingerprint {
        recorded,
        whole: whole.finalize().into(),
    }
}

/// Returns the memory for all answers that are kept.
pub(super) fn memory() -> Arc<Shares> {
    Arc::new(Shares::new(MAX_BYTES))
}

impl<R> Retained<R> {
    /// Keeps answers within a memory, which others may use as well.
    pub(super) fn within(bytes: &Arc<Shares>) -> Self {
        let entries = Entries {
            by_key: HashMap::new(),
            ended: HashMap::new(),
        };
        Self {
            bytes: Arc::clone(bytes),
            entries: Mutex::new(entries),
        }
    }
}

impl<R: Message + Clone + Default> Retained<R> {
    /// Looks an id up, and enters a new one. Its run goes on while `guard`, if any, is held.
    pub(super) fn enter(
        self: &Arc<Self>,
        key: CallerKey,
        fingerprint: [u8; 32],
        guard: Option<&Arc<DropGuard>>,
    ) -> Claim<R> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.forget(Instant::now());
        match entries.by_key.get(&key) {
            Some(entry) if entry.fingerprint == fingerprint => {
                let (kept, guard) = (entry.kept.clone(), entry.guard.upgrade());
                // An answer is decoded without the lock.
                drop(entries);
                Claim::Known(kept.reply(&key.1), guard)
            }
            Some(_) => Claim::Conflict,
            None => {
                let (sender, receiver) = watch::channel(None);
                let entry = RetainedEntry {
                    fingerprint,
                    guard: guard.map(Arc::downgrade).unwrap_or_default(),
                    kept: Kept::Running(receiver),
                };
                entries.by_key.insert(key.clone(), entry);
                Claim::New(Ticket {
                    key,
                    ran: false,
                    reply: sender,
                    retained: Arc::clone(self),
                })
            }
        }
    }
}

/// Returns whether a refusal is of a released hook.
///
/// Its end could not be recorded, or its confinement not be confirmed.
fn says_released(status: &Status) -> bool {
    let details = status.get_error_details();
    let info = details.error_info();
    // The journal decides for how long a run of an earlier daemon counts.
    info.is_some_and(|info| {
        info.metadata.contains_key("released") && info.reason != Reason::AlreadyRan.as_str()
    })
}

impl<R: Message + Clone> Ticket<R> {
    /// Delivers the reply to all waiting clients. The reply is retained where a hook ran; otherwise the request may be repeated.
    pub(super) fn deliver(mut self, reply: &Reply<R>) {
        if let Some(kept) = Kept::from_reply(reply) {
            self.ran = true;
            let retained = &self.retained;
            let mut entries = retained
                .entries
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            entries.keep(&retained.bytes, &self.key, kept);
        }
        // Waiting clients have receivers of their own; `send_replace` succeeds without any.
        self.reply.send_replace(Some(reply.clone()));
    }
}

impl<R: Message> Drop for Ticket<R> {
    fn drop(&mut self) {
        if !self.ran {
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
    /// Retains an ended id, and its answer.
    ///
    /// Older answers of the uid make room for both, then older ids; for an answer only if it is small.
    fn keep(&mut self, bytes: &Arc<Shares>, key: &CallerKey, kept: Kept<R>) {
        let (uid, id, answer) = (key.0, &key.1, kept.bytes());
        let overhead = bytes.share(uid);
        while !overhead.grow(OVERHEAD_BYTES + ID_COPIES * id.len()) {
            if !self.let_go_of_oldest_answer(uid) && !self.forget_oldest(uid) {
                self.by_key.remove(key);
                return;
            }
        }
        let share = bytes.share(uid);
        let fits = loop {
            if share.grow(answer) {
                break true;
            }
            if !self.let_go_of_oldest_answer(uid)
                && (answer > SMALL_REPLY_BYTES || !self.forget_oldest(uid))
            {
                break false;
            }
        };
        let of_uid = self.ended.entry(uid).or_default();
        of_uid.ids.push_back(FinishedId {
            at: Instant::now(),
            _overhead: overhead,
            id: id.clone(),
        });
        let kept = if fits {
            of_uid.answers.push_back((id.clone(), share));
            kept
        } else {
            Kept::Gone
        };
        self.replace(key, kept);
    }

    /// Drops a uid's oldest answer but keeps its id. Returns whether there was one.
    fn let_go_of_oldest_answer(&mut self, uid: u32) -> bool {
        let oldest = self.ended.get_mut(&uid);
        let Some((id, _share)) = oldest.and_then(|it| it.answers.pop_front()) else {
            return false;
        };
        // Its id stays, so that a repeated request is refused.
        self.replace(&(uid, id), Kept::Gone);
        true
    }

    /// Replaces the kept part of a request whose run is over.
    fn replace(&mut self, key: &CallerKey, kept: Kept<R>) {
        if let Some(entry) = self.by_key.get_mut(key) {
            entry.guard = Weak::new();
            entry.kept = kept;
        }
    }

    /// Drops expired ids.
    fn forget(&mut self, now: Instant) {
        let old = |ended: &OfUid| {
            let is_old = |it: &FinishedId| now.saturating_duration_since(it.at) >= RETENTION;
            ended.ids.front().is_some_and(is_old)
        };
        let uids: Vec<_> = self.ended.keys().copied().collect();
        for uid in uids {
            while self.ended.get(&uid).is_some_and(old) {
                self.forget_oldest(uid);
            }
        }
    }

    /// Drops a uid's oldest id. Returns whether there was one.
    fn forget_oldest(&mut self, uid: u32) -> bool {
        let Some(ended) = self.ended.get_mut(&uid) else {
            return false;
        };
        let oldest = ended.ids.pop_front();
        let answer = ended.answers.front().map(|(id, _)| id);
        if answer == oldest.as_ref().map(|it| &it.id) {
            ended.answers.pop_front();
        }
        if ended.ids.is_empty() {
            self.ended.remove(&uid);
        }
        let Some(oldest) = oldest else {
            return false;
        };
        self.by_key.remove(&(uid, oldest.id));
        true
    }
}

/// Builds the refusal of a request that ran and whose answer is not retained.
fn gone(id: &str) -> Status {
    let message = "this request has run, and its answer was not kept for lack of room; use another `request_id` to rerun it";
    let refusal = Refusal::new(Reason::AlreadyRan, message).released();
    status(&refusal, id)
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;

    impl<R> Default for Retained<R> {
        fn default() -> Self {
            Self::within(&memory())
        }
    }

    fn key() -> CallerKey {
        (1000, "id".to_owned())
    }

    fn new(
        retained: &Arc<Retained<pb::ExecuteResponse>>,
        fingerprint: u8,
    ) -> Ticket<pb::ExecuteResponse> {
        let Claim::New(ticket) = retained.enter(key(), [fingerprint; 32], None) else {
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
        let Claim::Known(reply, _) = retained.enter(key(), [1; 32], None) else {
            panic!("not known")
        };
        assert_eq!(
            reply.borrow().as_ref().unwrap().as_ref().unwrap(),
            &response
        );
        assert!(matches!(
            retained.enter(key(), [2; 32], None),
            Claim::Conflict
        ));
        assert!(matches!(
            retained.enter((1001, "id".to_owned()), [2; 32], None),
            Claim::New(_)
        ));
    }

    #[test]
    fn a_refusal_reaches_those_who_wait_and_is_forgotten() {
        let retained = Arc::new(Retained::default());
        let ticket = new(&retained, 1);
        let Claim::Known(waiting, _) = retained.enter(key(), [1; 32], None) else {
            panic!("not known")
        };
        ticket.deliver(&Err(Status::unavailable("full")));
        assert!(waiting.borrow().as_ref().unwrap().is_err());
        drop(new(&retained, 2));
        drop(new(&retained, 3));
    }

    #[test]
    fn a_refusal_that_says_that_the_hook_ran_is_kept() {
        let retained = Arc::new(Retained::default());
        let refusal = Refusal::new(Reason::AuditUnavailable, "full").released();
        new(&retained, 1).deliver(&Err(status(&refusal, "id")));
        let Claim::Known(reply, _) = retained.enter(key(), [1; 32], None) else {
            panic!("the request would run twice")
        };
        assert!(reply.borrow().as_ref().unwrap().is_err());
        assert!(matches!(
            retained.enter(key(), [2; 32], None),
            Claim::Conflict
        ));
    }

    /// Has an answer with `bytes` bytes of output be kept, if it can be.
    fn answer(retained: &Arc<Retained<pb::ExecuteResponse>>, uid: u32, id: usize, bytes: usize) {
        let Claim::New(ticket) = retained.enter((uid, id.to_string()), [0; 32], None) else {
            panic!("not new")
        };
        ticket.deliver(&Ok(pb::ExecuteResponse {
            stdout: vec![b'x'; bytes].into(),
            ..pb::ExecuteResponse::default()
        }));
    }

    /// Repeats a request: 'a' = the answer, 'i' = that it ran, '-' = nothing.
    fn again(retained: &Arc<Retained<pb::ExecuteResponse>>, uid: u32, id: usize) -> char {
        let entries = retained.entries.lock().unwrap();
        match entries.by_key.get(&(uid, id.to_string())) {
            None => '-',
            Some(entry) => {
                let reply = entry.kept.clone().reply(&id.to_string());
                match reply.borrow().as_ref().unwrap() {
                    Ok(_) => 'a',
                    Err(status) => {
                        let details = status.get_error_details();
                        assert_eq!(details.error_info().unwrap().reason, "ALREADY_RAN");
                        'i'
                    }
                }
            }
        }
    }

    #[test]
    fn answers_of_one_caller_push_out_none_of_anothers_and_none_of_its_own_ids() {
        let retained = Arc::new(Retained::default());
        answer(&retained, 1, 0, 1000);
        for id in 0..5000 {
            answer(&retained, 2, id, 1000);
        }
        for id in 0..100 {
            answer(&retained, 3, id, 1024 * 1024);
        }
        assert_eq!(again(&retained, 1, 0), 'a');
        assert!((0..5000).all(|id| again(&retained, 2, id) == 'a'));
        let of_three: String = (0..100).map(|id| again(&retained, 3, id)).collect();
        let (ids, answers) = of_three.split_at(of_three.find('a').unwrap());
        assert!((40..48).contains(&answers.len()), "{of_three}");
        assert!(answers.bytes().all(|it| it == b'a') && ids.bytes().all(|it| it == b'i'));
        // An answer that cannot be kept at all leaves the others.
        answer(&retained, 4, 0, MAX_BYTES);
        answer(&retained, 4, 1, 1000);
        assert_eq!((again(&retained, 4, 0), again(&retained, 4, 1)), ('i', 'a'));
    }

    #[test]
    fn ids_are_forgotten_where_there_is_no_room_for_ids_alone() {
        let retained = Arc::new(Retained::default());
        // Others leave room for some 1000.
        let others: Vec<_> = (2..5).map(|uid| retained.bytes.share(uid)).collect();
        for other in &others {
            while other.grow(OVERHEAD_BYTES) {}
        }
        let many = 1500;
        for id in 0..many {
            answer(&retained, 1, id, 100);
        }
        let delivered: String = (0..many).map(|id| again(&retained, 1, id)).collect();
        let ids = delivered.trim_start_matches('-');
        assert!(ids.len() > many / 2 && ids.len() < many, "{}", ids.len());
        assert!(ids.ends_with('a') && !ids.trim_end_matches('a').contains('a'));
        let mut entries = retained.entries.lock().unwrap();
        entries.forget(Instant::now() + RETENTION);
        assert!(entries.by_key.is_empty() && entries.ended.is_empty());
    }

    #[test]
    fn old_outcomes_are_forgotten() {
        let retained = Arc::new(Retained::default());
        for id in 0..2000 {
            answer(&retained, 0, id, 0);
        }
        let mut entries = retained.entries.lock().unwrap();
        entries.forget(Instant::now());
        assert_eq!(entries.by_key.len(), 2000);
        entries.forget(Instant::now() + RETENTION);
        assert!(entries.by_key.is_empty() && entries.ended.is_empty());
        assert!(retained.bytes.share(0).grow(MAX_BYTES));
    }

    /// The variable by which the test's own process is known.
    #[cfg(target_os = "linux")]
    const MEASURED: &str = "HOOKJAIL_TEST_RETAINED";

    /// The memory of this process that no file is behind, bytes.
    #[cfg(target_os = "linux")]
    fn anonymous() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|it| it.strip_prefix("RssAnon:"));
        let kib: usize = line.unwrap().replace("kB", "").trim().parse().unwrap();
        kib * 1024
    }

    /// An answer as that of a hook without output.
    #[cfg(target_os = "linux")]
    fn usual(id: &str) -> pb::ExecuteResponse {
        let axis = |axis| pb::AxisReport {
            axis,
            by: "landlock, seccomp".to_owned(),
            coverage: 1,
            gap: String::new(),
            required: true,
        };
        let evidence = |axis| pb::Evidence {
            axis,
            check: "no_new_privs".to_owned(),
            observed: "1".to_owned(),
        };
        pb::ExecuteResponse {
            confinement: Some(pb::Confinement {
                axes: (1..9).map(axis).collect(),
                backend: "landlock".to_owned(),
                evidence: (1..9).map(evidence).collect(),
                profile: "strict".to_owned(),
                profile_digest: "5a".repeat(32),
                ..pb::Confinement::default()
            }),
            contract_version: "2026-01".to_owned(),
            denial_sources: vec!["seccomp".to_owned(), "sigsys".to_owned()],
            request_id: id.to_owned(),
            ..pb::ExecuteResponse::default()
        }
    }

    /// Fills the memory in a process of its own: other tests need memory, too.
    #[cfg(target_os = "linux")]
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test starts itself")]
    fn kept_answers_take_no_more_memory_than_is_said() {
        if std::env::var_os(MEASURED).is_none() {
            let test = "wire::retained::tests::kept_answers_take_no_more_memory_than_is_said";
            let mut own_program = std::process::Command::new(std::env::current_exe().unwrap());
            let measured = own_program
                .args(["--exact", test, "--nocapture"])
                .env(MEASURED, "1");
            let measured = measured.output().unwrap();
            let printed = String::from_utf8_lossy(&measured.stdout);
            assert!(measured.status.success(), "{measured:?}");
            assert!(printed.contains("1 passed"), "{printed}");
            return;
        }
        // Enough callers to have nearly all of it together.
        let (callers, requests) = (50, 50_000_u32);
        let retained = Arc::new(Retained::default());
        let before = anonymous();
        for index in 0..requests {
            let key = (index % callers, format!("{index:036}"));
            let answer = usual(&key.1);
            let Claim::New(ticket) = retained.enter(key, [1; 32], None) else {
                panic!("not new")
            };
            ticket.deliver(&Ok(answer));
        }
        let held = anonymous().saturating_sub(before);
        assert!(held <= MAX_BYTES, "{held}");
        // The control: the memory is used.
        assert!(held > MAX_BYTES / 3, "{held}");
    }

    #[test]
    fn a_run_goes_on_while_anybody_waits_for_it() {
        let retained: Arc<Retained<pb::ExecuteResponse>> = Arc::default();
        let run = CancellationToken::new();
        let first = Arc::new(run.clone().drop_guard());
        let Claim::New(ticket) = retained.enter(key(), [1; 32], Some(&first)) else {
            panic!("not new")
        };
        let Claim::Known(_, Some(second)) = retained.enter(key(), [1; 32], None) else {
            panic!("not known")
        };
        drop(first);
        assert!(!run.is_cancelled());
        drop(second);
        assert!(run.is_cancelled());
        drop(ticket);
    }
}
