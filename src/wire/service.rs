//! The services: decode, hand over, encode.

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::{mpsc, watch};
use tokio_stream::{Stream, StreamExt, wrappers::ReceiverStream};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use tonic::{
    Extensions, Request, Response, Status, codegen::http::HeaderMap,
    transport::server::UdsConnectInfo,
};
use uuid::Uuid;

use super::{
    Malformed, WireLimits, decode, encode,
    retained::{Entered, Reply, Retained, fingerprint},
    status,
};
use crate::{
    admission::{Call, Peer},
    pb::{self, hook_service_server::HookService},
    pipeline::Pipeline,
    process::{Chunk, Stream as Output},
    refusal::{Reason, Refusal},
    request::{InvalidField, OnDisconnect},
};

/// How many pieces of output wait for a slow client before the hook has to.
const CHUNKS: usize = 16;

/// `hookjail.v1.HookService` over a pipeline.
#[derive(Clone, Debug)]
pub struct Hooks {
    limits: WireLimits,
    pipeline: Arc<Pipeline>,
    retained: Arc<Retained>,
    /// Ends every run when cancelled: the drain time is over.
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Hooks {
    /// Serves a pipeline. Runs are tasks of `tasks`, so that an end record is written whatever becomes of the client.
    pub fn new(
        pipeline: Arc<Pipeline>,
        limits: WireLimits,
        stop: CancellationToken,
        tasks: TaskTracker,
    ) -> Self {
        Self {
            limits,
            pipeline,
            retained: Arc::default(),
            stop,
            tasks,
        }
    }

    /// Runs a request to its reply. Dropping this future ends the run, unless it is to finish.
    async fn answer(
        &self,
        message: pb::ExecuteRequest,
        caller: Caller,
        chunks: Option<mpsc::Sender<Chunk>>,
    ) -> Reply {
        let cancel = self.stop.child_token();
        let (call, invalid) = caller.call(cancel.clone(), chunks);
        if let Some(invalid) = invalid {
            let id = &message.request_id;
            return encode(&self.pipeline.malformed(&call, id, invalid.into()));
        }
        // An id of the daemon's own making cannot come twice.
        let named = !message.request_id.is_empty();
        let fingerprint = named.then(|| fingerprint(&message));
        let request = match decode(message, self.limits) {
            Ok(request) => request,
            Err(malformed) => {
                let Malformed {
                    refusal,
                    request_id,
                } = *malformed;
                return encode(&self.pipeline.malformed(&call, &request_id, refusal));
            }
        };
        let ticket = match fingerprint {
            None => None,
            Some(fingerprint) => {
                let key = (call.peer.uid, request.id.clone());
                match self.retained.enter(key, fingerprint) {
                    Entered::New(ticket) => Some(ticket),
                    Entered::Known(reply) => return wait(reply).await,
                    Entered::Conflict => {
                        let message = "another request was made under this `request_id`";
                        let refusal = Refusal::new(Reason::RequestIdConflict, message);
                        return encode(&self.pipeline.malformed(&call, &request.id, refusal));
                    }
                }
            }
        };
        // This future is dropped when the client is gone.
        let guard = (request.on_disconnect == OnDisconnect::Kill).then(|| cancel.drop_guard());
        let pipeline = Arc::clone(&self.pipeline);
        let run = self.tasks.spawn(async move {
            // Boxed: a future this large is not to be moved from hand to hand until it comes to rest in its task.
            let reply = encode(&Box::pin(pipeline.handle(call, request)).await);
            if let Some(ticket) = ticket {
                ticket.deliver(&reply);
            }
            reply
        });
        let reply = run.await.unwrap_or_else(|error| {
            tracing::error!(%error, "request panicked");
            Err(broken())
        });
        drop(guard.map(DropGuard::disarm));
        reply
    }
}

/// Waits for the reply to the same request, made before.
async fn wait(mut reply: watch::Receiver<Option<Reply>>) -> Reply {
    let answered = reply.wait_for(Option::is_some).await;
    answered
        .ok()
        .and_then(|reply| reply.clone())
        .unwrap_or_else(|| Err(broken()))
}

fn broken() -> Status {
    status::fault("")
}

/// Returns who is at the other end of a connection.
///
/// # Errors
///
/// Refuses a connection whose other end the kernel does not name. A Unix socket's is always named.
pub(super) fn peer(extensions: &Extensions) -> Result<Peer, Status> {
    let credentials = extensions
        .get::<UdsConnectInfo>()
        .and_then(|info| info.peer_cred);
    let Some(credentials) = credentials else {
        let refusal = Refusal::new(
            Reason::PeerUnknown,
            "the kernel does not say who is calling",
        );
        return Err(status::status(&refusal, ""));
    };
    Ok(Peer {
        gid: credentials.gid(),
        pid: credentials.pid(),
        uid: credentials.uid(),
    })
}

/// Who asks, since when, and how long it waits.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    arrived: Instant,
    peer: Peer,
    timeout: Result<Option<Duration>, InvalidField>,
}

impl Caller {
    /// Notes who makes a request.
    ///
    /// # Errors
    ///
    /// Refuses a connection whose other end the kernel does not name. A Unix socket's is always named.
    pub(super) fn of(extensions: &Extensions, headers: &HeaderMap) -> Result<Self, Status> {
        let arrived = Instant::now();
        Ok(Self {
            arrived,
            peer: peer(extensions)?,
            timeout: caller_timeout(headers),
        })
    }

    fn of_request<T>(request: &Request<T>) -> Result<Self, Status> {
        Self::of(request.extensions(), request.metadata().as_ref())
    }

    /// Makes a call of it, under a new run id; beside it, what is wrong with its headers.
    pub(super) fn call(
        self,
        cancel: CancellationToken,
        chunks: Option<mpsc::Sender<Chunk>>,
    ) -> (Call, Option<InvalidField>) {
        let (caller_timeout, invalid) = match self.timeout {
            Ok(timeout) => (timeout, None),
            Err(invalid) => (None, Some(invalid)),
        };
        let call = Call {
            arrived: self.arrived,
            cancel,
            caller_timeout,
            chunks,
            peer: self.peer,
            run_id: Uuid::now_v7().to_string(),
        };
        (call, invalid)
    }
}

/// Reads `grpc-timeout`: up to eight digits and a unit.
fn caller_timeout(headers: &HeaderMap) -> Result<Option<Duration>, InvalidField> {
    let Some(value) = headers.get("grpc-timeout") else {
        return Ok(None);
    };
    let parsed = value.to_str().ok().and_then(|text| {
        let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let valid =
            (1..=8).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        let amount: u64 = digits.parse().ok().filter(|_| valid)?;
        Some(match unit {
            "H" => Duration::from_secs(amount * 3600),
            "M" => Duration::from_secs(amount * 60),
            "S" => Duration::from_secs(amount),
            "m" => Duration::from_millis(amount),
            "u" => Duration::from_micros(amount),
            "n" => Duration::from_nanos(amount),
            _ => return None,
        })
    });
    match parsed {
        Some(timeout) => Ok(Some(timeout)),
        None => Err(InvalidField::new(
            "grpc-timeout",
            "is not up to eight digits and a unit (H, M, S, m, u or n)",
        )),
    }
}

fn not_yet(what: &str) -> Status {
    let refusal =
        Refusal::new(Reason::Unsupported, format!("`{what}` is not served yet")).with("rpc", what);
    status::status(&refusal, "")
}

type OutputStream = Pin<Box<dyn Stream<Item = Result<pb::ExecuteStreamResponse, Status>> + Send>>;

#[tonic::async_trait]
impl HookService for Hooks {
    type ExecuteStreamStream = OutputStream;

    async fn execute(
        &self,
        request: Request<pb::ExecuteRequest>,
    ) -> Result<Response<pb::ExecuteResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let reply = self.answer(request.into_inner(), caller, None).await;
        reply.map(Response::new)
    }

    async fn execute_stream(
        &self,
        request: Request<pb::ExecuteStreamRequest>,
    ) -> Result<Response<Self::ExecuteStreamStream>, Status> {
        let caller = Caller::of_request(&request)?;
        let message = request.into_inner().request.unwrap_or_default();
        let (sender, receiver) = mpsc::channel(CHUNKS);
        let hooks = self.clone();
        let output = ReceiverStream::new(receiver).map(|(stream, bytes)| {
            let part = match stream {
                Output::Stderr => pb::execute_stream_response::Part::Stderr(bytes),
                Output::Stdout => pb::execute_stream_response::Part::Stdout(bytes),
            };
            Ok(pb::ExecuteStreamResponse { part: Some(part) })
        });
        // The run advances only while the stream is polled *and* by itself: it is a task; here its answer is awaited. When
        // the client goes, this stream is dropped, and with it the future that guards the run.
        let answer = async move {
            let response = hooks.answer(message, caller, Some(sender)).await?;
            let part = pb::execute_stream_response::Part::Response(response);
            Ok(pb::ExecuteStreamResponse { part: Some(part) })
        };
        Ok(Response::new(Box::pin(output_then_answer(output, answer))))
    }

    async fn dispatch(
        &self,
        _request: Request<pb::DispatchRequest>,
    ) -> Result<Response<pb::DispatchResponse>, Status> {
        Err(not_yet("Dispatch"))
    }

    async fn list_hooks(
        &self,
        _request: Request<pb::ListHooksRequest>,
    ) -> Result<Response<pb::ListHooksResponse>, Status> {
        Err(not_yet("ListHooks"))
    }

    async fn interpret(
        &self,
        _request: Request<pb::InterpretRequest>,
    ) -> Result<Response<pb::InterpretResponse>, Status> {
        Err(not_yet("Interpret"))
    }

    async fn preview(
        &self,
        _request: Request<pb::PreviewRequest>,
    ) -> Result<Response<pb::PreviewResponse>, Status> {
        Err(not_yet("Preview"))
    }
}

/// Streams output as it comes and the answer last. Both are polled together: the answer drives the run's guard, the output
/// makes room for more.
fn output_then_answer<T: Send + 'static>(
    output: impl Stream<Item = T> + Send + 'static,
    answer: impl Future<Output = T> + Send + 'static,
) -> impl Stream<Item = T> + Send {
    let (sender, receiver) = mpsc::channel::<T>(1);
    let pump = async move {
        tokio::pin!(output, answer);
        let mut answered = None;
        loop {
            tokio::select! {
                piece = output.next() => match piece {
                    Some(piece) => if sender.send(piece).await.is_err() { return },
                    // The run has dropped its end: all output is out.
                    None => break,
                },
                value = &mut answer, if answered.is_none() => answered = Some(value),
            }
        }
        let last = match answered {
            Some(value) => value,
            None => answer.await,
        };
        // A client that is gone needs no answer.
        drop(sender.send(last).await);
    };
    // Merged in as a stream that yields nothing, so that it is driven, and dropped, with the reply.
    let pump = tokio_stream::once(pump)
        .then(|pump| pump)
        .filter_map(|()| None);
    ReceiverStream::new(receiver).merge(pump)
}
