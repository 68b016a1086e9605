//! Admission before a message is read: by peer, with bounded size, memory and time.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Status, body::Body, codegen::http};
use tower::{Layer, Service};

use hookjail_base::{
    model::{InvalidField, Peer},
    refusal::{Reason, Refusal},
    util::shares::{Share, Shares},
};

use super::{
    WireLimits,
    connect::JsonCall,
    encode,
    service::{Caller, peer},
    status,
};
use crate::pipeline::{About, Pipeline};

/// The timeout of a message, from its headers to its last byte.
const MESSAGE: Duration = Duration::from_secs(30);

/// The length of gRPC's prefix of a message.
const PREFIX: usize = 5;

/// The beginning of paths whose requests are streams of messages.
const REFLECTION_PREFIX: &str = "/grpc.reflection.";

/// The longest message of services open to everybody, such as health, bytes.
const MAX_SMALL_MESSAGE: usize = 4 * 1024;

/// The memory of a request beside its message, bytes. Counted from its headers until its client has the answer.
const REQUEST_OVERHEAD_BYTES: usize = 64 * 1024;

/// The most memory for requests of uids without permission, all together, bytes.
const MAX_STRANGERS_BYTES: usize = 8 * 1024 * 1024;

/// The window in which a uid's refusals for lack of permission share one record.
const REFUSAL_WINDOW: Duration = Duration::from_secs(1);

/// The methods whose refusals are written down.
const RECORDED_METHODS: [&str; 3] = ["Dispatch", "Execute", "ExecuteStream"];

/// A message's share of the memory for messages, held while any of it is kept.
#[derive(Clone, Debug)]
pub(super) struct HeldMemory(pub(super) Arc<Share>);

/// Puts a [`Doorway`] before all services.
#[derive(Clone, Debug)]
pub(super) struct DoorwayLayer(Arc<Door>);

/// State shared by all connections of a server.
#[derive(Debug)]
struct Door {
    /// The memory for uids without permission, apart from everybody else's.
    apart: Arc<Shares>,
    limits: WireLimits,
    pipeline: Arc<Pipeline>,
    /// Refusals of each uid within the window that have no record yet.
    refused: Mutex<HashMap<(u32, Reason), u64>>,
    tasks: TaskTracker,
}

impl DoorwayLayer {
    /// Creates the layer over a pipeline's rules. Delayed records are written by tasks of `tasks`.
    pub(super) fn new(pipeline: Arc<Pipeline>, limits: WireLimits, tasks: TaskTracker) -> Self {
        Self(Arc::new(Door {
            apart: Arc::new(Shares::new(MAX_STRANGERS_BYTES)),
            limits,
            pipeline,
            refused: Mutex::default(),
            tasks,
        }))
    }

    /// Returns the pipeline of the requests.
    pub(super) fn pipeline(&self) -> &Arc<Pipeline> {
        &self.0.pipeline
    }
}

impl<S> Layer<S> for DoorwayLayer {
    type Service = Doorway<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Doorway {
            door: Arc::clone(&self.0),
            inner,
        }
    }
}

/// A service that admits requests before their messages are read.
#[derive(Clone, Debug)]
pub(super) struct Doorway<S> {
    door: Arc<Door>,
    inner: S,
}

impl<S> Service<http::Request<Body>> for Doorway<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Error = S::Error;
    type Future =
        Pin<Box<dyn Future<Output = Result<http::Response<Body>, Self::Error>> + Send + 'static>>;
    type Response = http::Response<Body>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (request, arriving) = match self.door.enter(request) {
            Ok(entered) => entered,
            // The message is dropped unread.
            Err(rejected) => {
                let door = Arc::clone(&self.door);
                return Box::pin(async move { Ok(door.reject(rejected).await.into_http()) });
            }
        };
        let Arriving {
            caller,
            refused,
            share,
        } = arriving;
        let pipeline = Arc::clone(&self.door.pipeline);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let response = answer.await?;
            let response = response.map(|body| Body::new(OutgoingAnswer { body, share }));
            let (Some(refusal), Some(caller)) = (refused.get(), caller) else {
                return Ok(response);
            };
            let (call, _) = caller.call(CancellationToken::new(), None);
            // Boxed: rare, and larger than the rest.
            let recorded =
                Box::pin(pipeline.malformed(About::malformed(&call, ""), refusal.clone())).await;
            Ok(match encode(&recorded) {
                Err(status) => status.into_http(),
                Ok(_) => response,
            })
        })
    }
}

/// An admitted request whose message is still to be read.
struct Arriving {
    /// The caller, where a refusal is to be recorded.
    caller: Option<Caller>,
    /// The refusal, if the message was not read to its end.
    refused: Arc<OnceLock<Refusal>>,
    share: Arc<Share>,
}

/// The rejection of a peer.
enum Rejected {
    /// A rejection with a record.
    Recorded(Box<(Caller, Refusal)>),
    /// A rejection without one.
    Unrecorded(Status),
}

impl From<Status> for Rejected {
    fn from(status: Status) -> Self {
        Self::Unrecorded(status)
    }
}

impl Door {
    fn enter(
        &self,
        request: http::Request<Body>,
    ) -> Result<(http::Request<Body>, Arriving), Rejected> {
        let (mut parts, body) = request.into_parts();
        let mut path = parts.uri.path().split('/').skip(1);
        let (service, method) = (
            path.next().unwrap_or_default(),
            path.next().unwrap_or_default(),
        );
        let service = service.strip_prefix("hookjail.v1.").unwrap_or_default();
        let recorded = service == "HookService" && RECORDED_METHODS.contains(&method);
        let peer = peer(&parts.extensions)?;
        let gate = &self.pipeline.gate;
        // The admin service must work when the requests' memory is exhausted.
        let memory = if service == "AdminService" || gate.is_stranger(&peer) {
            &self.apart
        } else {
            gate.memory()
        };
        let share = Arc::new(memory.share(peer.uid));
        parts.extensions.insert(HeldMemory(Arc::clone(&share)));
        let caller = recorded
            .then(|| Caller::new(&parts.extensions, &parts.headers))
            .transpose()?;
        let admitted = self.admit(service, &peer).and_then(|()| {
            let fits = share.grow(REQUEST_OVERHEAD_BYTES);
            if fits {
                Ok(())
            } else {
                Err(too_much(&share, "another one"))
            }
        });
        if let Err(refusal) = admitted {
            return Err(match caller {
                Some(caller) => Rejected::Recorded(Box::new((caller, refusal))),
                None => status(&refusal, "").into(),
            });
        }
        let refused = Arc::<OnceLock<Refusal>>::default();
        let is_json = parts.extensions.get::<JsonCall>().is_some();
        let message = IncomingMessage {
            body,
            came: 0,
            is_json,
            late: (!parts.uri.path().starts_with(REFLECTION_PREFIX))
                .then(|| Box::pin(sleep(MESSAGE))),
            longest: self.limits.message_bytes(),
            most: if service.is_empty() {
                MAX_SMALL_MESSAGE
            } else if is_json {
                json_bytes(self.limits.message_bytes())
            } else {
                usize::MAX
            },
            prefix: [0; PREFIX],
            refused: Arc::clone(&refused),
            share: Arc::clone(&share),
            taken: 0,
        };
        let request = http::Request::from_parts(parts, Body::new(message));
        let arriving = Arriving {
            caller,
            refused,
            share,
        };
        Ok((request, arriving))
    }

    /// Checks whether a peer may use a service, by the rule of its methods.
    fn admit(&self, service: &str, peer: &Peer) -> Result<(), Refusal> {
        let Pipeline { gate, sandbox, .. } = &*self.pipeline;
        match service {
            "AuditService" if gate.reads_all(peer, sandbox) => Ok(()),
            "AuditService" | "HookService" | "SandboxService" => gate.admit_peer(peer, sandbox),
            "ConsentService" => gate.admit_operator(peer, sandbox),
            _ => Ok(()),
        }
    }

    /// Records a rejection and returns its status.
    ///
    /// A uid's first refusal is recorded at once, those within [`REFUSAL_WINDOW`] after it in one record with their
    /// number, so that uids without permission cannot fill the journal.
    async fn reject(self: &Arc<Self>, rejected: Rejected) -> Status {
        let (caller, refusal) = match rejected {
            Rejected::Recorded(recorded) => *recorded,
            Rejected::Unrecorded(status) => return status,
        };
        let (call, _) = caller.call(CancellationToken::new(), None);
        let about = About::malformed(&call, "");
        let kind = (call.peer.uid, refusal.reason);
        if !self.is_first(kind) {
            return status(&refusal, "");
        }
        let door = Arc::clone(self);
        let (again, later) = (refusal.clone(), about.clone());
        self.tasks.spawn(async move {
            sleep(REFUSAL_WINDOW).await;
            let more = door.refused().remove(&kind).unwrap_or_default();
            if more > 0 {
                let about = later.counting(more);
                // No caller waits for this answer; the journal logs its own failures.
                drop(door.pipeline.audit.refuse(about, again.into()).await);
            }
        });
        let recorded = self
            .pipeline
            .audit
            .refuse(about, refusal.clone().into())
            .await;
        match encode(&recorded) {
            Err(status) => status,
            Ok(_) => status(&refusal, ""),
        }
    }

    /// Returns whether a refusal is the window's first of its kind; otherwise counts it.
    fn is_first(&self, kind: (u32, Reason)) -> bool {
        let mut refused = self.refused();
        let more = refused.get_mut(&kind).map(|more| *more += 1);
        more.is_none() && refused.insert(kind, 0).is_none()
    }

    fn refused(&self) -> MutexGuard<'_, HashMap<(u32, Reason), u64>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body of a request, counted while it is read.
struct IncomingMessage {
    body: Body,
    /// Bytes read so far.
    came: usize,
    /// Whether it is JSON, which has no prefix.
    is_json: bool,
    /// The deadline of the message; `None` for streams, which may last.
    late: Option<Pin<Box<Sleep>>>,
    /// The largest length that a message's prefix may announce.
    longest: usize,
    /// The limit of bytes to read.
    most: usize,
    /// The first bytes: whether the message is compressed, and its length.
    prefix: [u8; PREFIX],
    refused: Arc<OnceLock<Refusal>>,
    share: Arc<Share>,
    /// Bytes of the share taken for this message.
    taken: usize,
}

impl IncomingMessage {
    fn refuse(&self, refusal: Refusal) -> Status {
        let status = status(&refusal, "");
        // The first refusal is kept.
        self.refused.get_or_init(|| refusal);
        status
    }

    fn too_long(&self) -> Refusal {
        if self.is_json && self.most != MAX_SMALL_MESSAGE {
            let problem = format!(
                "or another field is too large: the message has more than {} bytes",
                self.most
            );
            return Refusal::field(
                Reason::EventTooLarge,
                InvalidField::new("event.json", problem),
            );
        }
        let message = format!("the message is longer than {} bytes", self.most);
        Refusal::new(Reason::InvalidRequest, message)
    }

    /// Takes memory for a piece, or for the whole message once its length is known.
    ///
    /// So some of several concurrent messages are kept whole, and none is refused half way.
    fn take(&mut self, piece: &[u8]) -> Result<(), Refusal> {
        let missing = PREFIX.saturating_sub(self.came).min(piece.len());
        for (known, byte) in self.prefix[self.came.min(PREFIX)..].iter_mut().zip(piece) {
            *known = *byte;
        }
        self.came += piece.len();
        if self.came > self.most {
            return Err(self.too_long());
        }
        let [_, a, b, c, d] = self.prefix;
        let announced = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        let mut wanted = self.came;
        // The library, with the same limit, refuses a message that is too long.
        if !self.is_json && missing > 0 && self.came >= PREFIX && announced <= self.longest {
            wanted = wanted.max(PREFIX + announced);
        }
        let more = wanted.saturating_sub(self.taken);
        if more == 0 || self.share.grow(more) {
            self.taken += more;
            return Ok(());
        }
        Err(too_much(&self.share, "another message"))
    }
}

/// Returns the longest JSON of a message with `message` bytes, which are base64 there.
const fn json_bytes(message: usize) -> usize {
    message.div_ceil(3).saturating_mul(4)
}

/// Builds the refusal of a request for which the caller has no memory left.
pub(super) fn too_much(share: &Share, what: &str) -> Refusal {
    let message = format!(
        "the requests in work leave too little of {} bytes for {what} (`server.max_bytes_in_flight`); retry later",
        share.most()
    );
    Refusal::new(Reason::Overloaded, message)
}

/// The body of an answer.
///
/// A client need not read it, so its memory is counted until it is sent.
struct OutgoingAnswer {
    body: Body,
    share: Arc<Share>,
}

impl OutgoingAnswer {
    /// Counts a piece's memory until the piece is dropped.
    ///
    /// The piece exists already, so it is counted even beyond the limit; the caller then has no room for more.
    fn count(&self, bytes: Bytes) -> Bytes {
        let beyond = self.share.another();
        beyond.grow_up_to(bytes.len().saturating_sub(self.share.held()));
        Bytes::from_owner(CountedBytes {
            bytes,
            _beyond: beyond,
            _share: Arc::clone(&self.share),
        })
    }
}

/// A piece of an answer, with its memory.
struct CountedBytes {
    bytes: Bytes,
    /// Memory beyond the request's own share.
    _beyond: Share,
    _share: Arc<Share>,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl http_body::Body for OutgoingAnswer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        Poll::Ready(frame.map(|frame| Ok(frame?.map_data(|bytes| self.count(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl http_body::Body for IncomingMessage {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if frame.is_pending() {
            let Some(late) = &mut self.late else {
                return Poll::Pending;
            };
            ready!(late.as_mut().poll(context));
            let message = format!(
                "the message did not arrive within {} s of its headers",
                MESSAGE.as_secs()
            );
            let refusal = Refusal::new(Reason::Deadline, message);
            return Poll::Ready(Some(Err(self.refuse(refusal))));
        }
        let Some(frame) = ready!(frame) else {
            return Poll::Ready(None);
        };
        let taken = match frame.as_ref().ok().and_then(Frame::data_ref) {
            Some(piece) => self.take(piece),
            None => Ok(()),
        };
        Poll::Ready(Some(match taken {
            Ok(()) => frame,
            Err(refusal) => Err(self.refuse(refusal)),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use http_body::Body as _;

    use super::*;
    use hookjail_base::util::shares::Shares;

    /// A message of which nothing comes.
    struct Silent;

    impl http_body::Body for Silent {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            self: Pin<&mut Self>,
            _context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Pending
        }
    }

    fn message(share: Share, most: usize) -> IncomingMessage {
        IncomingMessage {
            body: Body::new(Silent),
            came: 0,
            is_json: false,
            late: Some(Box::pin(sleep(Duration::from_millis(10)))),
            longest: 1000,
            most,
            prefix: [0; PREFIX],
            refused: Arc::default(),
            share: Arc::new(share),
            taken: 0,
        }
    }

    #[tokio::test]
    async fn a_message_that_does_not_arrive_in_time_is_refused() {
        let shares = Arc::new(Shares::new(1000));
        let mut late = message(shares.share(1), usize::MAX);
        let frame = poll_fn(|context| Pin::new(&mut late).poll_frame(context)).await;
        assert_eq!(
            frame.unwrap().unwrap_err().code(),
            tonic::Code::DeadlineExceeded
        );
        assert_eq!(late.refused.get().unwrap().reason, Reason::Deadline);
    }

    #[tokio::test]
    async fn a_message_takes_all_it_needs_once_its_length_is_known() {
        let shares = Arc::new(Shares::new(141));
        let mut arriving = message(shares.share(1), usize::MAX);
        for piece in [&[0][..], &[0, 0], &[0, 100, b'x']] {
            arriving.take(piece).unwrap();
        }
        let left = || shares.share(2).grow(36) && !shares.share(2).grow(37);
        assert!(left());
        for _ in 0..99 {
            arriving.take(b"x").unwrap();
        }
        assert!(left());
        // More than it announced is counted as it comes.
        let more = arriving.take(b"xx").unwrap_err();
        assert_eq!(more.reason, Reason::Overloaded);
        // One that announces more than there is is refused before it comes.
        let other = message(shares.share(2), usize::MAX).take(&[0, 0, 0, 3, 0]);
        assert_eq!(other.unwrap_err().reason, Reason::Overloaded);
    }

    #[tokio::test]
    async fn services_that_anybody_may_ask_take_short_messages_alone() {
        let shares = Arc::new(Shares::new(100_000));
        let mut small = message(shares.share(1), MAX_SMALL_MESSAGE);
        small.take(&[0; MAX_SMALL_MESSAGE]).unwrap();
        assert_eq!(small.take(&[0]).unwrap_err().reason, Reason::InvalidRequest);
    }
}
