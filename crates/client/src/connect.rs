//! The client of a daemon.

use std::{
    env,
    error::Error,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    pin::{Pin, pin},
    sync::OnceLock,
};

use hyper_util::rt::TokioIo;
use nix::unistd::geteuid;
use tokio::{net::UnixStream, runtime::Runtime};
use tonic::{
    Code, Response, Status,
    client::GrpcService,
    codegen::{Body, Bytes, StdError},
    metadata::MetadataValue,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt;
use tower::service_fn;
use uuid::Uuid;

use hookjail_base::{
    model::variable::{CONFIGURATION, TRACE_PARENT, TRACE_STATE},
    refusal::chain,
    util::user_paths::UserPaths,
};
use hookjail_proto::{self as pb, hook_service_client::HookServiceClient};

use crate::Failure;

/// Returns the socket that an address given on the command line names.
pub fn socket(paths: &UserPaths, address: &Path) -> Option<PathBuf> {
    let named = UserPaths {
        address: Some(address.to_owned()),
        ..paths.clone()
    };
    named.sockets().into_iter().next()
}

/// Builds the client's runtime, on this thread alone: the user's process limit may allow no more.
pub fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// Runs a future to its end.
///
/// The future is boxed so that the runtime's code is compiled once per output type and not per future, which would add
/// most of a megabyte to the program.
pub fn block_on<T>(runtime: &Runtime, future: impl Future<Output = T>) -> T {
    let future: Pin<&mut dyn Future<Output = T>> = pin!(future);
    runtime.block_on(future)
}

/// A connection over the network that is being made.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Channel, Failure>> + Send + 'a>>;

/// How to connect over the network. The small program cannot, and so has no TLS in it.
static OVER_NETWORK: OnceLock<fn(&str) -> Connecting<'_>> = OnceLock::new();

/// Lets this process connect over the network, too.
pub fn connect_over_network(connect: fn(&str) -> Connecting<'_>) {
    OVER_NETWORK.get_or_init(|| connect);
}

/// The configuration file that this process expects its daemon to run with.
static EXPECTED: OnceLock<PathBuf> = OnceLock::new();

/// Makes a daemon with another configuration file refuse calls of this process.
pub fn expect_configuration(file: &Path) {
    EXPECTED.get_or_init(|| file.canonicalize().unwrap_or_else(|_| file.to_owned()));
}

/// Returns the URL that an address is, if it is one.
pub fn url(address: &Path) -> Option<&str> {
    let text = address.to_str()?;
    (text.starts_with("https://") || text.starts_with("http://")).then_some(text)
}

/// Connects to the daemon at a socket, or at a URL.
pub async fn connect(socket: &Path) -> Result<Channel, Failure> {
    if let (Some(url), Some(connect)) = (url(socket), OVER_NETWORK.get()) {
        return connect(url).await;
    }
    let path = socket.to_owned();
    let connect = service_fn(move |_| {
        let path = path.clone();
        async move {
            let stream = UnixStream::connect(path).await?;
            trusted(stream.peer_cred()?.uid(), geteuid().as_raw())?;
            Ok::<_, io::Error>(TokioIo::new(stream))
        }
    });
    let channel = Endpoint::from_static("http://localhost")
        .connect_with_connector(connect)
        .await;
    channel.map_err(|error| unreachable(socket, &error))
}

/// Returns the failure of a call to a daemon that cannot be reached.
pub(crate) fn unreachable(socket: &Path, error: &dyn Error) -> Failure {
    Failure::new(format!(
        "cannot reach the daemon at `{}`: {}{}",
        socket.display(),
        chain(error),
        hint(socket, socket.exists())
    ))
}

/// Returns a hint for a daemon that cannot be reached.
fn hint(socket: &Path, is_there: bool) -> &'static str {
    let shown = socket.to_string_lossy();
    let is_of_a_host = !shown.contains('/') && shown.contains(':');
    match (is_there, is_of_a_host) {
        (true, _) => "",
        (false, true) => "; write an address over the network as `https://HOST:PORT`",
        (false, false) => "; start one: `hookjail serve`",
    }
}

/// Refuses a daemon that is neither this user's own nor root's, before anything is sent.
///
/// Such a daemon would get the event, and its answer would be trusted.
pub(crate) fn trusted(server: u32, own_uid: u32) -> io::Result<()> {
    if server == own_uid || server == 0 {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "uid {server} listens there, and uid {own_uid} trusts only its own daemon or root's"
        ),
    ))
}

/// A way to send requests and to get their replies.
pub trait Transport:
    GrpcService<
        tonic::body::Body,
        Error: Into<StdError>,
        ResponseBody: Body<Data = Bytes, Error: Into<StdError> + Send> + Send + 'static,
    >
{
}

impl<T> Transport for T where
    T: GrpcService<
            tonic::body::Body,
            Error: Into<StdError>,
            ResponseBody: Body<Data = Bytes, Error: Into<StdError> + Send> + Send + 'static,
        >
{
}

/// Makes a request in the trace of this process, as its environment has it, for a daemon with the configuration that is expected.
/// The daemon ignores an invalid trace.
pub fn in_trace<T>(message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    for (variable, key) in [(TRACE_PARENT, "traceparent"), (TRACE_STATE, "tracestate")] {
        let value = env::var(variable).ok().and_then(|value| value.parse().ok());
        if let Some(value) = value {
            request.metadata_mut().insert(key, value);
        }
    }
    if let Some(file) = EXPECTED.get() {
        let value = MetadataValue::from_bytes(file.as_os_str().as_bytes());
        request.metadata_mut().insert_bin(CONFIGURATION, value);
    }
    request
}

/// Makes a request, under a new id where the request has none, and returns the answer that carries the same id.
///
/// # Errors
///
/// Returns the daemon's refusal, and an error for the answer to another request.
async fn answer<Q, R>(
    mut request: tonic::Request<Q>,
    id: impl FnOnce(&mut Q) -> &mut String,
    call: impl AsyncFnOnce(tonic::Request<Q>) -> Result<Response<R>, Status>,
    answered: impl FnOnce(&R) -> &str,
) -> Result<Response<R>, Status> {
    let id = id(request.get_mut());
    if id.is_empty() {
        *id = Uuid::now_v7().to_string();
    }
    let id = id.clone();
    let answer = call(request).await?;
    match answered(answer.get_ref()) {
        answered if answered == id => Ok(answer),
        answered => Err(Status::internal(format!(
            "the answer belongs to request {answered:?}, not to this one, {id:?}; restart the daemon"
        ))),
    }
}

/// Runs a hook by a daemon.
///
/// # Errors
///
/// Returns the daemon's refusal, and an error for the answer to another request.
pub async fn execute<T: Transport>(
    service: &mut HookServiceClient<T>,
    request: tonic::Request<pb::ExecuteRequest>,
) -> Result<Response<pb::ExecuteResponse>, Status> {
    let call = async |request| service.execute(request).await;
    answer(request, |it| &mut it.request_id, call, |it| &it.request_id).await
}

/// Runs the hooks of a point by a daemon.
///
/// # Errors
///
/// Returns the daemon's refusal, and an error for the answer to another request.
pub async fn dispatch(
    service: &mut HookServiceClient<Channel>,
    request: tonic::Request<pb::DispatchRequest>,
) -> Result<Response<pb::DispatchResponse>, Status> {
    let call = async |request| service.dispatch(request).await;
    answer(request, |it| &mut it.request_id, call, |it| &it.request_id).await
}

/// Converts a daemon's refusal to a failure.
pub fn refused(status: Status) -> Failure {
    let info = status.get_error_details().error_info().cloned();
    Failure {
        metadata: info
            .as_ref()
            .map(|info| info.metadata.clone().into_iter().collect())
            .unwrap_or_default(),
        reason: info.map(|info| info.reason),
        status: code_name(status.code()),
        ..Failure::new(status.message())
    }
}

const fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_of_ones_own_or_of_root_is_believed_and_no_other() {
        assert!(trusted(1000, 1000).is_ok() && trusted(0, 1000).is_ok());
        assert!(trusted(0, 0).is_ok());
        for (server, own_uid) in [(1001, 1000), (1000, 0), (65_534, 0)] {
            assert!(trusted(server, own_uid).is_err(), "{server} {own_uid}");
        }
    }
}
