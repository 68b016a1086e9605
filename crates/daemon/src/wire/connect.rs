//! Calls with JSON instead of gRPC: the unary form of the Connect protocol, for `curl` and its like.
//!
//! [`Connect`] stands before the doorway, which admits such calls as it admits all, and turns statuses into JSON.
//! [`Transcode`] stands behind it, and turns messages into those of the services and their answers back.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD_NO_PAD};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use prost::Message;
use prost_reflect::MethodDescriptor;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tonic::{
    Code, Status,
    body::Body,
    codegen::http::{
        self, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version,
        header::{ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ORIGIN, TE},
    },
};
use tower::{Layer, Service, ServiceExt};

use hookjail_base::{
    model::InvalidField,
    refusal::{Reason, Refusal},
    util::heavy,
};

use super::{
    doorway::too_much,
    encode, json,
    service::{Caller, connect_timeout, peer},
    status,
};
use crate::pipeline::{About, Pipeline};

/// The type of messages.
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The type of messages that services take.
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// The length of gRPC's prefix of a message.
const PREFIX: usize = 5;

/// The version of the protocol, where a client names it.
const VERSION: HeaderName = HeaderName::from_static("connect-protocol-version");

/// The time beyond a caller's timeout in which the answer may still come of a call that ended by it.
const GRACE: Duration = Duration::from_secs(1);

/// The future of all services here.
type Answer<E> = Pin<Box<dyn Future<Output = Result<http::Response<Body>, E>> + Send>>;

/// Marks a call with JSON, and names its method.
#[derive(Clone, Debug)]
pub(super) struct JsonCall(MethodDescriptor);

/// Puts a [`Connect`] before a service.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectLayer;

impl<S> Layer<S> for ConnectLayer {
    type Service = Connect<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Connect(inner)
    }
}

/// A service that recognises calls with JSON, and answers them with JSON if they fail.
#[derive(Clone, Debug)]
pub(super) struct Connect<S>(S);

impl<S> Service<http::Request<Body>> for Connect<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>>,
    S::Future: Send + 'static,
{
    type Error = S::Error;
    type Future = Answer<S::Error>;
    type Response = http::Response<Body>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let method = match recognised(&request) {
            Ok(Some(method)) => method,
            Ok(None) => return Box::pin(self.0.call(request)),
            Err(response) => return Box::pin(async { Ok(*response) }),
        };
        request.extensions_mut().insert(JsonCall(method));
        // A value that cannot be read is refused where the request is decoded.
        let timeout = connect_timeout(request.headers()).ok().flatten();
        let answer = self.0.call(request);
        Box::pin(async move {
            let response = match timeout {
                None => answer.await?,
                Some(timeout) => match tokio::time::timeout(timeout + GRACE, answer).await {
                    Ok(response) => response?,
                    Err(_) => {
                        let message = "the call did not end within `connect-timeout-ms`";
                        return Ok(failed(&Status::deadline_exceeded(message)));
                    }
                },
            };
            Ok(match Status::from_header_map(response.headers()) {
                Some(status) => failed(&status),
                None => response,
            })
        })
    }
}

/// The forms of calls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Form {
    Grpc,
    Json,
}

/// Returns the form of a call by the type of its message; `None` for every other type.
fn form(headers: &HeaderMap) -> Option<Form> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let (kind, parameters) = kind.split_once(';').unwrap_or((kind, ""));
    let (kind, parameters) = (kind.trim().to_ascii_lowercase(), parameters.trim());
    match &*kind {
        "application/json"
            if parameters.is_empty() || parameters.eq_ignore_ascii_case("charset=utf-8") =>
        {
            Some(Form::Json)
        }
        "application/grpc" => Some(Form::Grpc),
        kind if kind.starts_with("application/grpc+") => Some(Form::Grpc),
        _ => None,
    }
}

/// Returns whether a browser made a request for a web page, which it sends with any credentials of the user.
fn is_of_a_page(headers: &HeaderMap) -> bool {
    let mut names = headers.keys().map(HeaderName::as_str);
    names.any(|name| name == ORIGIN.as_str() || name.starts_with("sec-fetch-"))
}

/// Returns the method of a call with JSON; `None` for one over gRPC.
///
/// # Errors
///
/// Returns the answer to a request that is neither.
pub fn recognised<B>(
    request: &http::Request<B>,
) -> Result<Option<MethodDescriptor>, Box<http::Response<Body>>> {
    let headers = request.headers();
    let problem = |status| Err(Box::new(failed(&status)));
    let form = form(headers).filter(|form| {
        // Over HTTP/1 there is no place for gRPC's status.
        *form == Form::Json || request.version() >= Version::HTTP_2
    });
    if is_of_a_page(headers) {
        let message =
            "requests of web pages are not served; send none with `origin` or `sec-fetch-…`";
        let status = Status::permission_denied(message);
        return match form {
            Some(Form::Grpc) => Err(Box::new(status.into_http())),
            Some(Form::Json) | None => problem(status),
        };
    }
    if request.method() != Method::POST {
        let status = Status::unimplemented("only POST is served");
        let mut response = failed(&status);
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("POST"));
        return Err(Box::new(response));
    }
    match form {
        Some(Form::Grpc) => return Ok(None),
        Some(Form::Json) => {}
        None => {
            let message = "the `content-type` is not `application/json`; use that, or gRPC with HTTP/2 and `application/grpc`";
            let mut response = failed(&Status::unimplemented(message));
            *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            let accepted = HeaderName::from_static("accept-post");
            response.headers_mut().insert(accepted, JSON);
            return Err(Box::new(response));
        }
    }
    let is = |name: &HeaderName, value: &str| headers.get(name).is_none_or(|it| it == value);
    if !is(&CONTENT_ENCODING, "identity") {
        let message = "a message is not compressed: send it without `content-encoding`";
        return problem(Status::unimplemented(message));
    }
    if !is(&VERSION, "1") {
        let message = "`connect-protocol-version` is not 1";
        return problem(Status::invalid_argument(message));
    }
    match json::method(request.uri().path()) {
        Ok(Some(method)) if method.is_client_streaming() || method.is_server_streaming() => {
            let message = "streams are served over gRPC alone";
            problem(Status::unimplemented(message))
        }
        Ok(Some(method)) => Ok(Some(method)),
        Ok(None) => {
            let message =
                "there is no such method; use a path like `/hookjail.v1.HookService/Execute`";
            let mut response = failed(&Status::unimplemented(message));
            *response.status_mut() = StatusCode::NOT_FOUND;
            Err(Box::new(response))
        }
        Err(error) => {
            tracing::error!(%error, "a call with JSON cannot be served");
            problem(Status::internal("see the daemon's log"))
        }
    }
}

/// A failure in the protocol's form.
#[derive(Serialize)]
struct Failed<'a> {
    code: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<Detail<'a>>,
}

/// A detail of a failure: encoded, and readable.
#[derive(Serialize)]
struct Detail<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    debug: Option<serde_json::Value>,
}

/// Returns the answer that is a failure.
fn failed(status: &Status) -> http::Response<Body> {
    let details = tonic_types::pb::Status::decode(status.details()).unwrap_or_default();
    let detail = details.details.iter().map(|any| {
        let kind = any.type_url.rsplit('/').next().unwrap_or_default();
        Detail {
            // A detail that cannot be read is still there encoded.
            debug: json::render_any(kind, &any.value).ok().flatten(),
            kind,
            value: BASE64_STANDARD_NO_PAD.encode(&any.value),
        }
    });
    let (code, http) = code(status.code());
    let failed = Failed {
        code,
        message: status.message(),
        details: detail.collect(),
    };
    // Texts and numbers alone: they can always be written.
    let text = serde_json::to_vec(&failed).unwrap_or_default();
    answer(http, text)
}

fn answer(status: StatusCode, text: Vec<u8>) -> http::Response<Body> {
    let mut response = http::Response::new(Body::new(Full::new(Bytes::from(text))));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// Returns the protocol's name of a code, and the status over HTTP.
const fn code(code: Code) -> (&'static str, StatusCode) {
    match code {
        Code::Cancelled => ("canceled", CLIENT_CLOSED_REQUEST),
        Code::InvalidArgument => ("invalid_argument", StatusCode::BAD_REQUEST),
        Code::DeadlineExceeded => ("deadline_exceeded", StatusCode::GATEWAY_TIMEOUT),
        Code::NotFound => ("not_found", StatusCode::NOT_FOUND),
        Code::AlreadyExists => ("already_exists", StatusCode::CONFLICT),
        Code::PermissionDenied => ("permission_denied", StatusCode::FORBIDDEN),
        Code::ResourceExhausted => ("resource_exhausted", StatusCode::TOO_MANY_REQUESTS),
        Code::FailedPrecondition => ("failed_precondition", StatusCode::BAD_REQUEST),
        Code::Aborted => ("aborted", StatusCode::CONFLICT),
        Code::OutOfRange => ("out_of_range", StatusCode::BAD_REQUEST),
        Code::Unimplemented => ("unimplemented", StatusCode::NOT_IMPLEMENTED),
        Code::Internal => ("internal", StatusCode::INTERNAL_SERVER_ERROR),
        Code::Unavailable => ("unavailable", StatusCode::SERVICE_UNAVAILABLE),
        Code::DataLoss => ("data_loss", StatusCode::INTERNAL_SERVER_ERROR),
        Code::Unauthenticated => ("unauthenticated", StatusCode::UNAUTHORIZED),
        // There is no failure without a code.
        Code::Unknown | Code::Ok => ("unknown", StatusCode::INTERNAL_SERVER_ERROR),
    }
}

/// The status of a request that was canceled, which no standard has.
const CLIENT_CLOSED_REQUEST: StatusCode = match StatusCode::from_u16(499) {
    Ok(status) => status,
    Err(_) => StatusCode::BAD_REQUEST,
};

/// Puts a [`Transcode`] before the services of a pipeline.
#[derive(Clone, Debug)]
pub(super) struct TranscodeLayer(pub(super) Arc<Pipeline>);

impl<S> Layer<S> for TranscodeLayer {
    type Service = Transcode<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Transcode {
            inner,
            pipeline: Arc::clone(&self.0),
        }
    }
}

/// A service that turns messages of calls with JSON into those of gRPC, and answers back.
#[derive(Clone, Debug)]
pub(super) struct Transcode<S> {
    inner: S,
    pipeline: Arc<Pipeline>,
}

impl<S> Service<http::Request<Body>> for Transcode<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Error = S::Error;
    type Future = Answer<S::Error>;
    type Response = http::Response<Body>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let Some(JsonCall(method)) = request.extensions_mut().remove() else {
            return Box::pin(self.inner.call(request));
        };
        let inner = self.inner.clone();
        let pipeline = Arc::clone(&self.pipeline);
        Box::pin(async move {
            let request = match transcoded(request, &method, &pipeline).await {
                Ok((request, uid)) => (request, uid),
                Err(status) => return Ok(status.into_http()),
            };
            let (request, uid) = request;
            let response = inner.oneshot(request).await?;
            Ok(match answered(response, &method, uid).await {
                Ok(text) => answer(StatusCode::OK, text),
                Err(status) => status.into_http(),
            })
        })
    }
}

/// Turns a request with JSON into one with gRPC. Returns the caller's uid, too.
///
/// # Errors
///
/// Refuses a message that is not the method's, with a record where the method has records.
async fn transcoded(
    request: http::Request<Body>,
    method: &MethodDescriptor,
    pipeline: &Pipeline,
) -> Result<(http::Request<Body>, u32), Status> {
    let (mut parts, mut body) = request.into_parts();
    let uid = peer(&parts.extensions)?.uid;
    let caller = Caller::new(&parts.extensions, &parts.headers)?;
    let mut text = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Some(piece) = frame.map_err(unread)?.data_ref() {
            text.extend_from_slice(piece);
        }
    }
    let input = method.input();
    let framed = heavy::sized(uid, text.len(), move || {
        json::encode(input, &text).map(|message| framed(&message))
    });
    let refusal = match framed.await {
        Ok(Some(framed)) if caller.held().grow(framed.len()) => {
            let headers = &mut parts.headers;
            headers.remove(CONTENT_LENGTH);
            headers.insert(CONTENT_TYPE, GRPC);
            headers.insert(TE, HeaderValue::from_static("trailers"));
            let body = Body::new(Full::new(Bytes::from(framed)));
            return Ok((http::Request::from_parts(parts, body), uid));
        }
        Ok(Some(_)) => too_much(caller.held(), "another message"),
        Ok(None) => Refusal::new(Reason::InvalidRequest, "the message is too long"),
        Err(error) => {
            let problem = format!("is not JSON of `{}`: {error}", method.input().name());
            Refusal::field(
                Reason::InvalidRequest,
                InvalidField::new("message", problem),
            )
        }
    };
    if method.parent_service().name() != "HookService" {
        return Err(status(&refusal, ""));
    }
    let (call, _) = caller.call(CancellationToken::new(), None);
    let recorded = Box::pin(pipeline.malformed(About::malformed(&call, ""), refusal.clone()));
    Err(match encode(&recorded.await) {
        Err(status) => status,
        Ok(_) => status(&refusal, ""),
    })
}

/// Returns the status of a message that could not be read to its end.
fn unread(status: Status) -> Status {
    // The server library's, of a body that is no HTTP.
    if status.code() == Code::Unknown {
        return Status::invalid_argument("the body cannot be read as HTTP");
    }
    status
}

/// Puts gRPC's prefix before a message; `None` where it is too long for one.
fn framed(message: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(message.len()).ok()?;
    let mut framed = Vec::with_capacity(PREFIX + message.len());
    framed.push(0);
    framed.extend_from_slice(&length.to_be_bytes());
    framed.extend_from_slice(message);
    Some(framed)
}

/// Returns the JSON of an answer with gRPC.
///
/// # Errors
///
/// Returns the status of an answer that is a failure.
async fn answered(
    response: http::Response<Body>,
    method: &MethodDescriptor,
    uid: u32,
) -> Result<Vec<u8>, Status> {
    if let Some(status) = Status::from_header_map(response.headers()) {
        return Err(status);
    }
    let broken = |problem: &dyn std::fmt::Display| {
        tracing::error!(
            method = method.full_name(),
            "no JSON of an answer: {problem}"
        );
        Status::internal("the answer has no JSON; see the daemon's log")
    };
    let mut body = response.into_body();
    let mut message = Vec::new();
    let mut ended = None;
    while let Some(frame) = body.frame().await {
        match frame?.into_data() {
            Ok(piece) => message.extend_from_slice(&piece),
            Err(frame) => ended = frame.trailers_ref().and_then(Status::from_header_map),
        }
    }
    match ended {
        Some(status) if status.code() == Code::Ok => {}
        Some(status) => return Err(status),
        None => return Err(broken(&"the answer has no status")),
    }
    let output = method.output();
    let written = heavy::sized(uid, message.len(), move || {
        json::write(output, message.get(PREFIX..).unwrap_or_default())
    });
    written.await.map_err(|error| broken(&error))
}
