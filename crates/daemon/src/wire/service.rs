//! `hookjail.v1.HookService`: decodes requests, runs them by the pipeline, encodes replies.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use prost::Message;
use tokio::sync::{mpsc, watch};
use tokio_stream::{Stream, StreamExt, wrappers::ReceiverStream};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use tonic::{
    Extensions, Request, Response, Status,
    codegen::http::{HeaderMap, HeaderName},
    metadata::MetadataMap,
};
use uuid::Uuid;

use hookjail_base::model::variable::{CONFIGURATION, TRACE_PARENT, TRACE_STATE};
use hookjail_base::{
    model::{InvalidField, OnDisconnect, Peer},
    refusal::Refusal,
    util::{heavy, shares::Share, swap::Current},
};
use hookjail_journal::conflict;
use hookjail_proto::{self as pb, hook_service_server::HookService};
use hookjail_sandbox::process::{Chunk, Stream as Output};

use super::{
    MalformedRequest, WireLimits,
    connections::ConnectedPeer,
    decode, dispatch,
    doorway::{HeldMemory, too_much},
    encode, interpret, offer, preview, required,
    retained::{self, CallerKey, Claim, Reply, Retained, fingerprint},
    status,
};
use crate::{
    hooks::{HookList, Registered, valve::Valve},
    pipeline::{About, Call, Pipeline, Purpose, Recorded, Rules},
    request::{self, Withheld},
    traces::{Method, Trace, TraceContext},
};

/// The answer to a request. Boxed: futures keep room for one from the beginning.
type Executed = Box<pb::ExecuteResponse>;

/// The most pieces of output queued for a slow client; the hook waits for more.
const MAX_CHUNKS: usize = 16;

/// `hookjail.v1.HookService` over a pipeline.
#[derive(Clone, Debug)]
pub(crate) struct HookServer {
    pub(super) limits: WireLimits,
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) configured: Arc<Current<HookList>>,
    pub(super) dispatched: Arc<Retained<pb::DispatchResponse>>,
    executed: Arc<Retained<Executed>>,
    /// Ends every run when cancelled: the drain time is over.
    pub(super) stop: CancellationToken,
    tasks: TaskTracker,
    pub(super) valve: Arc<Valve>,
}

impl HookServer {
    /// Creates the service. Runs are tasks of `tasks`, so that end records are written even if clients disconnect.
    pub(crate) fn new(
        pipeline: Arc<Pipeline>,
        configured: Arc<Current<HookList>>,
        valve: Arc<Valve>,
        limits: WireLimits,
        stop: CancellationToken,
        tasks: TaskTracker,
    ) -> Self {
        let kept = retained::memory();
        Self {
            configured,
            dispatched: Arc::new(Retained::within(&kept)),
            executed: Arc::new(Retained::within(&kept)),
            limits,
            pipeline,
            stop,
            tasks,
            valve,
        }
    }

    pub(super) fn encode(&self, recorded: &Recorded) -> Reply<Executed> {
        encode(recorded).map(Box::new)
    }

    /// Runs a request to its reply. Dropping this future ends the run, unless it is to finish.
    // Not `async`: an `async fn` keeps its arguments until its end. Boxed twice: the memory of decoding is not held
    // while the hook runs, and an awaited future is stored inside the awaiting one.
    fn answer(
        &self,
        message: pb::ExecuteRequest,
        caller: Caller,
        chunks: Option<mpsc::Sender<Chunk>>,
    ) -> Pin<Box<dyn Future<Output = Reply<Executed>> + Send + '_>> {
        let decoded = Box::pin(self.decode_call(message, caller, chunks));
        Box::pin(async {
            let DecodedCall {
                about,
                guard,
                named,
                run,
            } = match decoded.await {
                Ok(decoded) => decoded,
                Err(reply) => return reply,
            };
            match self.once(&self.executed, named, guard, run).await {
                Ok(reply) => reply,
                Err(conflict) => {
                    let recorded = self.pipeline.audit.refuse(about, conflict.into());
                    self.encode(&Box::pin(recorded).await)
                }
            }
        })
    }

    /// Decodes a request and prepares its call.
    ///
    /// # Errors
    ///
    /// Returns the reply where nothing is to run: to a malformed request, and to one whose offer lacks values that the profile admits.
    async fn decode_call(
        &self,
        message: pb::ExecuteRequest,
        caller: Caller,
        chunks: Option<mpsc::Sender<Chunk>>,
    ) -> Result<DecodedCall, Reply<Executed>> {
        let cancel = self.stop.child_token();
        let method = match chunks {
            Some(_) => Method::ExecuteStream,
            None => Method::Execute,
        };
        let context = caller.context.clone();
        let other = caller.other_configuration(&self.pipeline);
        let (mut call, invalid) = caller.call(cancel.clone(), chunks);
        let invalid = invalid.or(other);
        call.trace = self.trace(method, &call, context, message.hook.as_ref());
        let (contract, point) = decode::named(message.contract, message.event.as_ref());
        if let Some(invalid) = invalid {
            let about = About::malformed(&call, &message.request_id).at_point(contract, point);
            let recorded = self.pipeline.malformed(about, invalid.into()).await;
            return Err(self.encode(&recorded));
        }
        // Of the policy learn only uids with permission.
        let Pipeline { gate, sandbox, .. } = &*self.pipeline;
        let rules = gate.rules();
        let wanted_variables = offer::wanted(&message, &rules.registry);
        if !wanted_variables.is_empty() && gate.admit_peer(&call.peer, sandbox).is_ok() {
            return Err(Ok(Box::new(pb::ExecuteResponse {
                request_id: message.request_id,
                wanted_variables,
                ..pb::ExecuteResponse::default()
            })));
        }
        // A generated id cannot be repeated.
        let named = !message.request_id.is_empty();
        let (bytes, limits, peer) = (message.encoded_len(), self.limits, call.peer.clone());
        let read = move || {
            let mut message = message;
            let required = required::settle(&mut message, &rules.required);
            let withheld = offer::settle(&mut message, &rules.registry, |directory| {
                rules.withheld(directory, &peer)
            });
            let fingerprint = named.then(|| fingerprint(&mut message));
            let decoded = decoded(message, (required, withheld), limits, (&rules, peer));
            (fingerprint, decoded)
        };
        let (fingerprint, decoded) = heavy::sized(call.peer.uid, bytes, read).await;
        let request = match decoded {
            Ok(request) => request,
            Err(malformed) => {
                let MalformedRequest {
                    refusal,
                    request_id,
                } = *malformed;
                let about = About::malformed(&call, &request_id).at_point(contract, point);
                let recorded = self.pipeline.malformed(about, refusal).await;
                return Err(self.encode(&recorded));
            }
        };
        call.named = fingerprint.map(|it| it.recorded);
        let named = fingerprint.map(|fingerprint| IdempotencyKey {
            fingerprint: fingerprint.whole,
            held: Arc::clone(&call.held),
            key: (call.peer.uid, request.id.clone()),
        });
        let about = About::malformed(&call, &request.id).at_point(contract, point);
        let guard = (request.on_disconnect == OnDisconnect::Kill).then(|| cancel.drop_guard());
        let pipeline = Arc::clone(&self.pipeline);
        let run = Box::pin(async move {
            let is_new = Box::pin(pipeline.audit.is_new(&call, &request.id)).await;
            let recorded = match is_new {
                Ok(()) => pipeline.handle(call, request).await,
                Err(refusal) => Box::pin(pipeline.refuse(&call, &request, refusal)).await,
            };
            encode(&recorded).map(Box::new)
        });
        Ok(DecodedCall {
            about,
            guard,
            named,
            run,
        })
    }

    /// Begins the trace of a call, in that of its caller, which the metadata name, or where they do not, its hook's variables.
    fn trace(
        &self,
        method: Method,
        call: &Call,
        context: Option<TraceContext>,
        hook: Option<&pb::Hook>,
    ) -> Option<Arc<Trace>> {
        let context = context.or_else(|| {
            let environment = &hook?.env;
            let value = |name| environment.get(name).map(String::as_str);
            TraceContext::parse(value(TRACE_PARENT)?, value(TRACE_STATE))
        });
        self.pipeline.tracer.begin(method, call.arrived, context)
    }

    /// Runs a request, or answers it from an earlier request with its id.
    ///
    /// The run is a task, which ends when `guard` is dropped: when the last waiting client has disconnected.
    ///
    /// # Errors
    ///
    /// Refuses an id under which another request was made, and where the caller has no memory for one more copy of the answer.
    pub(super) async fn once<R: Message + Clone + Default + 'static>(
        &self,
        answers: &Arc<Retained<R>>,
        named: Option<IdempotencyKey>,
        guard: Option<DropGuard>,
        run: Pin<Box<dyn Future<Output = Reply<R>> + Send>>,
    ) -> Result<Reply<R>, Refusal> {
        let guard = guard.map(Arc::new);
        let ticket = match named {
            None => None,
            Some(IdempotencyKey {
                fingerprint,
                held,
                key,
            }) => {
                match answers.enter(key, fingerprint, guard.as_ref()) {
                    Claim::New(ticket) => Some(ticket),
                    // Holding the guard keeps the run going, even when the client that began it has disconnected.
                    Claim::Known(reply, _guard) => {
                        let reply = wait(reply).await;
                        // This copy of the reply is not counted as any hook's output.
                        let fits = |reply: &R| held.grow(reply.encoded_len());
                        return match reply {
                            Ok(reply) if !fits(&reply) => Err(too_much(&held, "this answer")),
                            reply => Ok(reply),
                        };
                    }
                    Claim::Conflict => {
                        return Err(conflict());
                    }
                }
            }
        };
        let run = self.tasks.spawn(async move {
            let reply = run.await;
            if let Some(ticket) = ticket {
                ticket.deliver(&reply);
            }
            reply
        });
        let reply = run.await.unwrap_or_else(|error| {
            tracing::error!(%error, "request panicked");
            Err(broken())
        });
        // The run is over, so ending it has no effect.
        drop(guard);
        Ok(reply)
    }
}

impl HookServer {
    /// Previews a request.
    async fn preview_request(
        &self,
        message: pb::ExecuteRequest,
        caller: Caller,
    ) -> Result<pb::PreviewResponse, Status> {
        let context = caller.context.clone();
        let other = caller.other_configuration(&self.pipeline);
        let (mut call, invalid) = caller.call(self.stop.child_token(), None);
        let invalid = invalid.or(other);
        // The trace of a preview is never ended, so no span of it is exported. The preview has the hook's variables.
        call.trace = self.trace(Method::Execute, &call, context, message.hook.as_ref());
        let Pipeline { gate, sandbox, .. } = &*self.pipeline;
        let id = message.request_id.clone();
        // First, so that uids without permission learn nothing from how their requests are decoded.
        gate.admit_peer(&call.peer, sandbox)
            .map_err(|refusal| status::status(&refusal, &id))?;
        if let Some(invalid) = invalid {
            return preview::refused(&invalid.into(), &id);
        }
        let (bytes, limits, peer) = (message.encoded_len(), self.limits, call.peer.clone());
        let rules = gate.rules();
        let read = move || {
            let mut message = message;
            let required = required::settle(&mut message, &rules.required);
            let withheld = offer::settle(&mut message, &rules.registry, |directory| {
                rules.withheld(directory, &peer)
            });
            decoded(message, (required, withheld), limits, (&rules, peer))
        };
        let request = match heavy::sized(call.peer.uid, bytes, read).await {
            Ok(request) => request,
            Err(malformed) => return preview::refused(&malformed.refusal, &malformed.request_id),
        };
        let call = Call {
            purpose: Purpose::Preview,
            ..call
        };
        let pipeline = Arc::clone(&self.pipeline);
        // A task: a self-test must not be dropped half way.
        let preview = self.tasks.spawn(async move {
            let preview = Box::pin(pipeline.preview(call, request)).await;
            preview::encode(&preview)
        });
        preview.await.unwrap_or_else(|error| {
            tracing::error!(%error, "preview panicked");
            Err(broken())
        })
    }
}

/// Decodes a request, and fills in session and source from its event, and the terms of the required hook that it names.
fn decoded(
    message: pb::ExecuteRequest,
    (required, withheld): (Result<Option<Registered>, Refusal>, Option<Withheld>),
    limits: WireLimits,
    (rules, peer): (&Rules, Peer),
) -> Result<Box<request::Request>, Box<MalformedRequest>> {
    let request_id = decode::id(&message.request_id)?;
    let required = required.map_err(|refusal| MalformedRequest {
        refusal,
        request_id,
    })?;
    let mut request = decode(message, limits)?;
    if let Some(hook) = &required {
        required::apply(&mut request, hook);
    }
    if let Some(withheld) = &withheld
        && request.envelope.cwd.is_empty()
    {
        request.envelope.cwd = withheld.directory.to_string_lossy().into_owned();
    }
    request.withheld = withheld;
    if request.session.is_empty() {
        request.session = request.contract.session(&request.event).unwrap_or_default();
    }
    if request.hook.source.is_none() {
        request.hook.source =
            crate::dispatch::source_of(request.contract, &request.event, rules, peer);
    }
    Ok(Box::new(request))
}

/// A decoded request and its call.
struct DecodedCall {
    about: About,
    guard: Option<DropGuard>,
    named: Option<IdempotencyKey>,
    run: Pin<Box<dyn Future<Output = Reply<Executed>> + Send>>,
}

/// An idempotency key: the caller's id, and the fingerprint of its request.
pub(super) struct IdempotencyKey {
    pub(super) fingerprint: [u8; 32],
    /// The request's share of memory.
    pub(super) held: Arc<Share>,
    pub(super) key: CallerKey,
}

/// Waits for the reply to the same request, made before.
async fn wait<R: Clone>(mut reply: watch::Receiver<Option<Reply<R>>>) -> Reply<R> {
    let answered = reply.wait_for(Option::is_some).await;
    answered
        .ok()
        .and_then(|reply| reply.clone())
        .unwrap_or_else(|| Err(broken()))
}

fn broken() -> Status {
    status::fault("")
}

/// Returns the peer of a connection.
///
/// # Errors
///
/// Fails where the connection has no peer credentials, which a Unix socket always has, or a certificate that is no user's.
pub(super) fn peer(extensions: &Extensions) -> Result<Peer, Status> {
    let connected = extensions.get().unwrap_or(&ConnectedPeer::Unknown);
    connected
        .peer()
        .map_err(|refusal| status::status(&refusal, ""))
}

/// Returns a request's share of the memory for all requests in work.
///
/// # Errors
///
/// Returns a fault for a request that did not pass the doorway.
pub(super) fn held(extensions: &Extensions) -> Result<Arc<Share>, Status> {
    let held = extensions.get().map(|HeldMemory(held)| Arc::clone(held));
    held.ok_or_else(broken)
}

/// The caller, the time of arrival, and the caller's timeout.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    arrived: Instant,
    /// The configuration file with which the daemon is expected to run.
    configuration: Option<PathBuf>,
    /// Its position in a trace.
    pub(super) context: Option<TraceContext>,
    held: Arc<Share>,
    peer: Peer,
    timeout: Result<Option<Duration>, InvalidField>,
}

impl Caller {
    /// Reads peer, memory and time limit of a request.
    ///
    /// # Errors
    ///
    /// As [`peer`] and [`held`].
    pub(super) fn new(extensions: &Extensions, headers: &HeaderMap) -> Result<Self, Status> {
        let arrived = Instant::now();
        Ok(Self {
            arrived,
            configuration: configuration(headers),
            context: context(headers),
            held: held(extensions)?,
            peer: peer(extensions)?,
            timeout: caller_timeout(headers),
        })
    }

    fn of_request<T>(request: &Request<T>) -> Result<Self, Status> {
        Self::new(request.extensions(), request.metadata().as_ref())
    }

    /// Returns the problem of a call that expects another configuration than the daemon has, as far as its caller may be served.
    pub(super) fn other_configuration(&self, pipeline: &Pipeline) -> Option<InvalidField> {
        let expected = self.configuration.as_ref()?;
        let file = pipeline.configuration.as_ref();
        let is_served = || {
            pipeline
                .gate
                .admit_peer(&self.peer, &pipeline.sandbox)
                .is_ok()
        };
        if file == Some(expected) || !is_served() {
            return None;
        }
        let expected = expected.display();
        let file = match file {
            Some(file) => format!("the daemon's is `{}`", file.display()),
            None => "the daemon has no file".to_owned(),
        };
        Some(InvalidField::new(
            "configuration",
            format!(
                "is `{expected}`, and {file}; leave out `--config`, or give `--private` to run with it"
            ),
        ))
    }

    /// Returns the request's share of memory.
    pub(super) fn held(&self) -> &Share {
        &self.held
    }

    /// Builds the call, under a new run id. Returns the problem of its headers, too.
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
            held: self.held,
            listed: None,
            named: None,
            peer: self.peer,
            purpose: Purpose::Run,
            run_id: Uuid::now_v7().to_string(),
            trace: None,
        };
        (call, invalid)
    }
}

/// Reads the configuration file that a call expects.
fn configuration(headers: &HeaderMap) -> Option<PathBuf> {
    let value = headers.get(CONFIGURATION)?;
    let named = HeaderMap::from_iter([(HeaderName::from_static(CONFIGURATION), value.clone())]);
    let path = MetadataMap::from_headers(named)
        .get_bin(CONFIGURATION)?
        .to_bytes()
        .ok()?;
    Some(PathBuf::from(OsStr::from_bytes(&path)))
}

/// Reads `traceparent` and `tracestate`. An invalid or repeated header begins no refusal but a trace of its own.
fn context(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all("traceparent").iter();
    let (Some(parent), None) = (parents.next(), parents.next()) else {
        return None;
    };
    let states = headers.get_all("tracestate").iter();
    // A value that is no text makes the whole state invalid, as an entry without a value does.
    let states = states.map(|state| state.to_str().unwrap_or("?"));
    TraceContext::parse(parent.to_str().ok()?, states)
}

/// Reads `grpc-timeout`: up to eight digits and a unit; where it is absent, `connect-timeout-ms`.
fn caller_timeout(headers: &HeaderMap) -> Result<Option<Duration>, InvalidField> {
    let Some(value) = headers.get("grpc-timeout") else {
        return connect_timeout(headers);
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

/// Reads `connect-timeout-ms`: up to ten digits.
pub fn connect_timeout(headers: &HeaderMap) -> Result<Option<Duration>, InvalidField> {
    let Some(value) = headers.get("connect-timeout-ms") else {
        return Ok(None);
    };
    let digits = value.to_str().ok().filter(|digits| {
        (1..=10).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    let parsed = digits.and_then(|digits| digits.parse().ok());
    match parsed.map(Duration::from_millis) {
        Some(timeout) => Ok(Some(timeout)),
        None => Err(InvalidField::new(
            "connect-timeout-ms",
            "is not up to ten digits",
        )),
    }
}

type OutputStream = Pin<Box<dyn Stream<Item = Result<pb::ExecuteStreamResponse, Status>> + Send>>;

#[tonic::async_trait]
impl HookService for HookServer {
    type ExecuteStreamStream = OutputStream;

    // Written as the `async_trait` attribute expands, but not `async`: that would keep the request until its hook has ended.
    fn execute<'life0, 'async_trait>(
        &'life0 self,
        request: Request<pb::ExecuteRequest>,
    ) -> Pin<
        Box<
            dyn Future<Output = Result<Response<pb::ExecuteResponse>, Status>>
                + Send
                + 'async_trait,
        >,
    >
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        let caller = Caller::of_request(&request);
        let answer = caller.map(|caller| self.answer(request.into_inner(), caller, None));
        Box::pin(async { answer?.await.map(|reply| Response::new(*reply)) })
    }

    async fn execute_stream(
        &self,
        request: Request<pb::ExecuteStreamRequest>,
    ) -> Result<Response<Self::ExecuteStreamStream>, Status> {
        let caller = Caller::of_request(&request)?;
        let message = request.into_inner().request.unwrap_or_default();
        let (sender, receiver) = mpsc::channel(MAX_CHUNKS);
        let hooks = self.clone();
        let output = ReceiverStream::new(receiver).map(|(stream, bytes)| {
            let part = match stream {
                Output::Stderr => pb::execute_stream_response::Part::Stderr(bytes),
                Output::Stdout => pb::execute_stream_response::Part::Stdout(bytes),
            };
            Ok(pb::ExecuteStreamResponse { part: Some(part) })
        });
        // The run advances only while the stream is polled *and* by itself, as a task, whose answer is awaited here. When
        // the client goes, this stream is dropped, and with it the future that guards the run.
        let answer = async move {
            let response = hooks.answer(message, caller, Some(sender)).await?;
            let part = pb::execute_stream_response::Part::Response(*response);
            Ok(pb::ExecuteStreamResponse { part: Some(part) })
        };
        Ok(Response::new(Box::pin(output_then_answer(output, answer))))
    }

    async fn dispatch(
        &self,
        request: Request<pb::DispatchRequest>,
    ) -> Result<Response<pb::DispatchResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let reply = self.dispatch_all(request.into_inner(), caller).await;
        reply.map(Response::new)
    }

    async fn list_hooks(
        &self,
        request: Request<pb::ListHooksRequest>,
    ) -> Result<Response<pb::ListHooksResponse>, Status> {
        let peer = peer(request.extensions())?;
        let Pipeline { gate, sandbox, .. } = &*self.pipeline;
        gate.admit_peer(&peer, sandbox)
            .and_then(|()| dispatch::list(request.get_ref(), &self.configured.get(), &peer))
            .map(Response::new)
            .map_err(|refusal| status(&refusal, ""))
    }

    async fn interpret(
        &self,
        request: Request<pb::InterpretRequest>,
    ) -> Result<Response<pb::InterpretResponse>, Status> {
        let peer = peer(request.extensions())?;
        let Pipeline { gate, sandbox, .. } = &*self.pipeline;
        gate.admit_peer(&peer, sandbox)
            .map_err(|refusal| status(&refusal, ""))?;
        let message = request.into_inner();
        let bytes = message.encoded_len();
        let read = heavy::sized(peer.uid, bytes, move || interpret::interpret(message)).await;
        read.map(Response::new)
            .map_err(|refusal| status(&refusal, ""))
    }

    async fn preview(
        &self,
        request: Request<pb::PreviewRequest>,
    ) -> Result<Response<pb::PreviewResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let message = request.into_inner().request.unwrap_or_default();
        self.preview_request(message, caller)
            .await
            .map(Response::new)
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
        // Fails only where the client has disconnected.
        drop(sender.send(last).await);
    };
    // Merged in as a stream that yields nothing, so that it is driven, and dropped, with the reply.
    let pump = tokio_stream::once(pump)
        .then(|pump| pump)
        .filter_map(|()| None);
    ReceiverStream::new(receiver).merge(pump)
}
