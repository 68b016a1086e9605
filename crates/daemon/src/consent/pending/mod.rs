//! Open questions to operators, their listeners and the answers.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout_at,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use hookjail_base::model::Peer;

use hookjail_policy::Policy;
use hookjail_sandbox::program::Digest;

/// The most questions that may be open at once.
const MAX_OPEN: usize = 256;

/// The most news queued for a slow listener before it is dropped: enough for all open questions and their settlements.
const MAX_NEWS: usize = 2 * MAX_OPEN;

/// A question for an operator.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// The hook's name; may be empty.
    pub hook: String,
    /// The caller.
    pub peer: Peer,
    /// The caller's id of the request.
    pub request_id: String,
    /// The subject.
    pub subject: Subject,
    /// Why consent is needed.
    pub why: String,
    /// The workspace of the request; empty where it has none.
    pub workspace: String,
}

/// The subject of a question.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    /// Whether a command may run.
    Command {
        /// The command, as the allowlist spells it.
        command: String,
        /// The unified diff of a file or profile against its approved content; may be empty.
        diff: String,
        /// The content it would be bound to.
        digests: Vec<Digest>,
        /// The profile it would run under.
        policy: Arc<Policy>,
    },
    /// Whether a tool may be called.
    Tool {
        /// The input of the call, as JSON.
        input: String,
        /// Its name.
        name: String,
    },
}

impl Subject {
    /// Returns whether a permanent answer to one answers the other, too.
    fn is_same(&self, other: &Self) -> bool {
        let key = |subject: &Self| match subject {
            Self::Command {
                command,
                diff: _,
                digests,
                policy,
            } => Some((command.clone(), digests.clone(), policy.digest.clone())),
            // Each call of a tool is one of its own.
            Self::Tool { .. } => None,
        };
        key(self).is_some_and(|key_of_self| Some(key_of_self) == key(other))
    }
}

/// A question that is open.
#[derive(Clone, Debug)]
pub(crate) struct OpenQuestion {
    /// When the question expires, which counts as a no.
    pub expires_at: Timestamp,
    /// Its id.
    pub id: String,
    /// The question.
    pub question: Question,
}

/// An operator's answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum OperatorAnswer {
    /// Run it and remember.
    Always,
    /// Do not run it.
    No,
    /// Run it this once.
    Once,
}

/// An answer and its author.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Decided {
    /// The peer that answered.
    pub by: Peer,
    /// The answer.
    pub decision: OperatorAnswer,
}

/// News for listeners.
#[derive(Clone, Debug)]
pub(crate) enum News {
    /// A new question.
    Asked(Arc<OpenQuestion>),
    /// A question is over.
    Settled {
        /// The answer; [`OperatorAnswer::No`] where there was none.
        decision: OperatorAnswer,
        /// Whether the question expired without an answer.
        expired: bool,
        /// The question's id.
        id: String,
    },
}

/// Reason why a question is not opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NotAsked {
    /// No operator listens to the request.
    NobodyListens,
    /// Too many questions are open.
    TooMany,
}

/// The open questions and their listeners.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending(Arc<Mutex<PendingState>>);

#[derive(Debug, Default)]
struct PendingState {
    closed: bool,
    listeners: BTreeMap<u64, QuestionListener>,
    next_listener: u64,
    open: BTreeMap<String, OpenEntry>,
}

#[derive(Debug)]
struct QuestionListener {
    news: mpsc::Sender<News>,
    /// The only request that it is interested in; empty = all.
    request_id: String,
}

#[derive(Debug)]
struct OpenEntry {
    answer: oneshot::Sender<Decided>,
    asked: Arc<OpenQuestion>,
}

impl PendingState {
    /// Sends news to the listeners concerned. A listener that is too slow is dropped, which ends its news.
    fn notify(&mut self, request_id: &str, news: &News) {
        self.listeners.retain(|_, listener| {
            !listener.covers(request_id) || listener.news.try_send(news.clone()).is_ok()
        });
    }

    fn open_about(&self, request_id: &str) -> Vec<Arc<OpenQuestion>> {
        let open = self.open.values().map(|open| &open.asked);
        let about = |open: &&Arc<OpenQuestion>| is_about(request_id, &open.question.request_id);
        open.filter(about).cloned().collect()
    }

    /// Closes a question and sends the news. Returns the channel on which its caller waits.
    fn settle(&mut self, id: &str, decision: OperatorAnswer, expired: bool) -> Option<OpenEntry> {
        let open = self.open.remove(id)?;
        let news = News::Settled {
            decision,
            expired,
            id: id.to_owned(),
        };
        self.notify(&open.asked.question.request_id, &news);
        Some(open)
    }
}

impl QuestionListener {
    fn covers(&self, request_id: &str) -> bool {
        is_about(&self.request_id, request_id)
    }
}

/// Returns whether a request has the ID `filter`; an empty `filter` matches every request.
fn is_about(filter: &str, request_id: &str) -> bool {
    filter.is_empty() || filter == request_id
}

impl Pending {
    fn state(&self) -> MutexGuard<'_, PendingState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a listener would get a question about a request.
    pub(crate) fn is_listened_to(&self, request_id: &str) -> bool {
        let state = self.state();
        state.listeners.values().any(|l| l.covers(request_id))
    }

    /// Returns how many questions are open.
    pub(crate) fn count(&self) -> usize {
        self.state().open.len()
    }

    /// Returns the open questions, of one request unless `request_id` is empty.
    pub(crate) fn open(&self, request_id: &str) -> Vec<Arc<OpenQuestion>> {
        self.state().open_about(request_id)
    }

    /// Subscribes to questions, of one request unless `request_id` is empty. Also returns those that are open already.
    pub(crate) fn listen(&self, request_id: &str) -> (Listening, Vec<Arc<OpenQuestion>>) {
        let (news, receiver) = mpsc::channel(MAX_NEWS);
        let mut state = self.state();
        let id = state.next_listener;
        state.next_listener += 1;
        let listener = QuestionListener {
            news,
            request_id: request_id.to_owned(),
        };
        let open = state.open_about(request_id);
        if !state.closed {
            state.listeners.insert(id, listener);
        }
        let listening = Listening {
            id,
            news: receiver,
            pending: self.clone(),
        };
        (listening, open)
    }

    /// Opens a question for the listeners.
    ///
    /// # Errors
    ///
    /// Fails if no operator listens, or too many questions are open.
    pub(crate) fn ask(
        &self,
        question: Question,
        wait: Duration,
    ) -> Result<WaitingQuestion, NotAsked> {
        let mut state = self.state();
        let request_id = question.request_id.clone();
        if !state.listeners.values().any(|l| l.covers(&request_id)) {
            return Err(NotAsked::NobodyListens);
        }
        // Each uid leaves as many places free as it takes, so that no caller can crowd out the others.
        let uid = question.peer.uid;
        let open = state.open.values().map(|open| open.asked.question.peer.uid);
        let open_of_uid = open.filter(|it| *it == uid).count();
        let others = state.open.len() - open_of_uid;
        if open_of_uid >= MAX_OPEN.saturating_sub(others) / 2 {
            return Err(NotAsked::TooMany);
        }
        let (answer, answered) = oneshot::channel();
        let question = Arc::new(OpenQuestion {
            expires_at: Timestamp::now().checked_add(wait).unwrap_or(Timestamp::MAX),
            id: Uuid::now_v7().to_string(),
            question,
        });
        let open = OpenEntry {
            answer,
            asked: Arc::clone(&question),
        };
        state.open.insert(question.id.clone(), open);
        state.notify(&request_id, &News::Asked(Arc::clone(&question)));
        drop(state);
        Ok(WaitingQuestion {
            answered: Some(answered),
            id: question.id.clone(),
            pending: self.clone(),
            until: Instant::now() + wait,
        })
    }

    /// Answers a question, and returns whether this answer counts. [`OperatorAnswer::Always`] also settles every open
    /// question with the same subject.
    pub(crate) fn decide(&self, id: &str, decided: Decided) -> bool {
        let mut state = self.state();
        let Some(decided_question) = state.open.get(id).map(|open| Arc::clone(&open.asked)) else {
            return false;
        };
        let same = |open: &OpenEntry| {
            open.asked.id == id
                || decided.decision == OperatorAnswer::Always
                    && open
                        .asked
                        .question
                        .subject
                        .is_same(&decided_question.question.subject)
        };
        let settled = state.open.values().filter(|open| same(open));
        let settled: Vec<_> = settled.map(|open| open.asked.id.clone()).collect();
        let mut counted = false;
        for settled in settled {
            let open = state.settle(&settled, decided.decision, false);
            // The waiting request may just have been cancelled.
            let delivered = open.is_some_and(|open| open.answer.send(decided.clone()).is_ok());
            counted = counted || (settled == id && delivered);
        }
        counted
    }

    /// Settles every open question with a no, and ends every subscription.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        let open: Vec<_> = state.open.keys().cloned().collect();
        for id in open {
            drop(state.settle(&id, OperatorAnswer::No, false));
        }
        state.listeners.clear();
    }
}

/// A subscription to news, which ends when dropped.
#[derive(Debug)]
pub(crate) struct Listening {
    id: u64,
    news: mpsc::Receiver<News>,
    pending: Pending,
}

impl Listening {
    /// Waits for news. Returns `None` at shutdown, or when dropped for being too slow.
    pub(crate) async fn next(&mut self) -> Option<News> {
        self.news.recv().await
    }

    /// Returns whether the news ended because of shutdown.
    pub(crate) fn is_closed(&self) -> bool {
        self.pending.state().closed
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.pending.state().listeners.remove(&self.id);
    }
}

/// The waiting side of an open question; dropping it settles the question.
#[derive(Debug)]
pub(crate) struct WaitingQuestion {
    answered: Option<oneshot::Receiver<Decided>>,
    id: String,
    pending: Pending,
    until: Instant,
}

impl WaitingQuestion {
    /// Waits for the answer; `None` where none came in time, or `gone` was cancelled.
    pub(crate) async fn answer(mut self, gone: &CancellationToken) -> Option<Decided> {
        let answered = self.answered.take()?;
        tokio::select! {
            answer = timeout_at(self.until.into(), answered) => match answer {
                Ok(answer) => answer.ok(),
                Err(_) => {
                    drop(self.pending.state().settle(&self.id, OperatorAnswer::No, true));
                    None
                }
            },
            () = gone.cancelled() => None,
        }
    }
}

impl Drop for WaitingQuestion {
    fn drop(&mut self) {
        drop(
            self.pending
                .state()
                .settle(&self.id, OperatorAnswer::No, false),
        );
    }
}

#[cfg(test)]
mod tests;
