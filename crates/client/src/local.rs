//! One gRPC call over a socket of this host, on this thread, without an asynchronous runtime.
//!
//! A program that makes one call pays a runtime's start, its descriptors and its wake-ups for nothing. Here `h2` speaks the protocol
//! and `tonic` encodes the messages, and the wait between them is one `poll`.

use std::{
    cell::{Cell, RefCell},
    io::{self, Read, Write},
    mem,
    os::{fd::AsFd, unix::net::UnixStream},
    path::Path,
    pin::{Pin, pin},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker, ready},
    time::Instant,
};

use bytes::Bytes;
use h2::{
    RecvStream,
    client::{Builder, ResponseFuture, SendRequest},
};
use http::{Request, Response, Uri};
use http_body::{Body, Frame};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    unistd::geteuid,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::Status;
use tower::Service;

use hookjail_proto::{self as pb, hook_service_client::HookServiceClient};

use crate::{
    Failure,
    connect::{trusted, unreachable},
    run_as::{self, Way},
};

/// The origin of requests; a socket has no host.
const ORIGIN: &str = "http://localhost";

/// The bytes that may come before this side grants more: as many as a large reply needs to flow.
const WINDOW_BYTES: u32 = 5 << 20;

/// The largest list of a reply's headers, bytes.
const MAX_HEADERS_BYTES: u32 = 16 << 10;

/// The bytes that are kept to be sent at once. A write of kept bytes wakes no daemon.
const UNSENT_BYTES: usize = 256 << 10;

/// Calls over sockets of this host.
#[derive(Clone, Copy, Debug)]
pub struct Local;

impl Way for Local {
    fn execute(
        &self,
        daemon: &Path,
        request: pb::ExecuteRequest,
        until: Option<Instant>,
    ) -> Result<pb::ExecuteResponse, Failure> {
        call(daemon, until, async |service| {
            run_as::call(client(service), request, until).await
        })
    }

    fn preview(
        &self,
        daemon: &Path,
        request: pb::PreviewRequest,
    ) -> Result<pb::PreviewResponse, Failure> {
        call(daemon, None, async |service| {
            run_as::preview(client(service), request).await
        })
    }
}

fn client(service: Requests) -> HookServiceClient<Requests> {
    HookServiceClient::with_origin(service, Uri::from_static(ORIGIN))
}

/// Connects to the daemon at a socket, and calls it.
fn call<T>(
    socket: &Path,
    until: Option<Instant>,
    ask: impl AsyncFnOnce(Requests) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let line = Line::connect(socket).map_err(|error| unreachable(socket, &error))?;
    let line = Rc::new(line);
    let end = Wire(Rc::clone(&line));
    let mut called = pin!(async {
        let (requests, connection) = Builder::new()
            .enable_push(false)
            .initial_connection_window_size(WINDOW_BYTES)
            .initial_window_size(WINDOW_BYTES)
            .max_header_list_size(MAX_HEADERS_BYTES)
            .handshake::<_, Bytes>(end)
            .await
            .map_err(broken)?;
        let mut connection = pin!(connection);
        let mut asked = pin!(ask(Requests(requests)));
        let mut is_over = false;
        std::future::poll_fn(|context| {
            if let Poll::Ready(answer) = asked.as_mut().poll(context) {
                return Poll::Ready(answer);
            }
            if is_over {
                let message = "the daemon closed the connection without an answer";
                return Poll::Ready(Err(Failure::new(message)));
            }
            if connection.as_mut().poll(context).is_ready() {
                // The call has its end, or never gets one.
                is_over = true;
                context.waker().wake_by_ref();
            }
            Poll::Pending
        })
        .await
    });
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(answer) = called.as_mut().poll(&mut context) {
            return answer;
        }
        if !woken.0.swap(false, Ordering::Relaxed) {
            line.wait(until)?;
        }
    }
}

/// A note that a part of the call can continue.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A connected socket that never blocks.
struct Line {
    /// Whether bytes, or the connection's end, may be there to be read.
    is_readable: Cell<bool>,
    stream: UnixStream,
    /// The bytes to be sent before the next wait.
    unsent: RefCell<Vec<u8>>,
}

impl Line {
    /// Connects to a daemon that this user trusts.
    fn connect(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        trusted(peer(&stream)?, geteuid().as_raw())?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            is_readable: Cell::new(false),
            stream,
            unsent: RefCell::default(),
        })
    }

    /// Sends until the socket is full. A daemon that takes no more may have answered nonetheless.
    fn send(&self) {
        let mut unsent = self.unsent.borrow_mut();
        let mut sent = 0;
        while sent < unsent.len() {
            match (&self.stream).write(&unsent[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => sent = unsent.len(),
            }
        }
        unsent.drain(..sent);
    }

    /// Sends, and waits until the daemon sends data, or takes pending data.
    ///
    /// # Errors
    ///
    /// Fails where the time is over.
    fn wait(&self, until: Option<Instant>) -> Result<(), Failure> {
        self.send();
        let mut events = PollFlags::POLLIN;
        if !self.unsent.borrow().is_empty() {
            events |= PollFlags::POLLOUT;
        }
        let mut polled = [PollFd::new(self.stream.as_fd(), events)];
        let timeout = match until {
            None => PollTimeout::NONE,
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(run_as::late());
                }
                // Rounded up: the time is over at the next look.
                let millis = left.as_millis().saturating_add(1);
                PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)
            }
        };
        match poll(&mut polled, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let events = polled[0].revents().unwrap_or(PollFlags::empty());
        if !events.difference(PollFlags::POLLOUT).is_empty() {
            self.is_readable.set(true);
        }
        Ok(())
    }
}

/// Returns the user of the process that listens.
#[cfg(any(target_os = "android", target_os = "linux"))]
fn peer(stream: &UnixStream) -> nix::Result<u32> {
    use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

    getsockopt(stream, PeerCredentials).map(|peer| peer.uid())
}

/// Returns the user of the process that listens.
#[cfg(not(any(target_os = "android", target_os = "linux")))]
fn peer(stream: &UnixStream) -> nix::Result<u32> {
    nix::unistd::getpeereid(stream).map(|(user, _)| user.as_raw())
}

/// The end of a line that the protocol's library reads and writes.
struct Wire(Rc<Line>);

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let line = &*self.0;
        if !line.is_readable.get() {
            return Poll::Pending;
        }
        let room = into.initialize_unfilled();
        let wanted = room.len();
        match (&line.stream).read(room) {
            Ok(count) => {
                into.advance(count);
                // Less than there was room for is all; an end stays one.
                line.is_readable.set(count == wanted || count == 0);
                Poll::Ready(Ok(()))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                line.is_readable.set(false);
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let line = &*self.0;
        if line.unsent.borrow().len() >= UNSENT_BYTES {
            line.send();
        }
        let mut unsent = line.unsent.borrow_mut();
        if unsent.len() >= UNSENT_BYTES {
            return Poll::Pending;
        }
        let bytes = &bytes[..bytes.len().min(UNSENT_BYTES)];
        unsent.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Sent before the next wait.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Requests over a connection.
#[derive(Clone)]
struct Requests(SendRequest<Bytes>);

impl Service<Request<tonic::body::Body>> for Requests {
    type Response = Response<Reply>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Reply>, Status>>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        self.0.poll_ready(context).map_err(broken)
    }

    fn call(&mut self, request: Request<tonic::body::Body>) -> Self::Future {
        let (head, body) = request.into_parts();
        let sent = self.0.send_request(Request::from_parts(head, ()), false);
        Box::pin(async move {
            let (response, mut stream) = sent.map_err(broken)?;
            let mut body = pin!(body);
            // The last bytes end the request, which spares a frame.
            let mut last = Bytes::new();
            while let Some(frame) =
                std::future::poll_fn(|context| body.as_mut().poll_frame(context)).await
            {
                let Ok(data) = frame?.into_data() else {
                    continue;
                };
                let before = mem::replace(&mut last, data);
                if !before.is_empty() {
                    stream.send_data(before, false).map_err(broken)?;
                }
            }
            stream.send_data(last, true).map_err(broken)?;
            answered(response).await
        })
    }
}

async fn answered(response: ResponseFuture) -> Result<Response<Reply>, Status> {
    let response = response.await.map_err(broken)?;
    Ok(response.map(|stream| Reply {
        is_whole: false,
        stream,
    }))
}

/// The body of a reply.
struct Reply {
    /// Whether all of its data came, and trailers are next.
    is_whole: bool,
    stream: RecvStream,
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if !self.is_whole {
            match ready!(self.stream.poll_data(context)) {
                Some(Ok(data)) => {
                    // The daemon may send as much again.
                    let released = self.stream.flow_control().release_capacity(data.len());
                    return Poll::Ready(Some(released.map(|()| Frame::data(data)).map_err(broken)));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(broken(error)))),
                None => self.is_whole = true,
            }
        }
        let trailers = ready!(self.stream.poll_trailers(context));
        Poll::Ready(match trailers {
            Ok(trailers) => trailers.map(|trailers| Ok(Frame::trailers(trailers))),
            Err(error) => Some(Err(broken(error))),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }
}

/// Returns the status of a call whose connection, or stream, broke.
fn broken(error: h2::Error) -> Status {
    Status::unavailable(format!("the connection to the daemon broke: {error}"))
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixListener, thread, time::Duration};

    use super::*;

    /// Calls a process that does something with the connection, and returns why that fails.
    fn failure(until: Option<Instant>, serve: impl FnOnce(UnixStream) + Send + 'static) -> String {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let served = thread::spawn(move || serve(listener.accept().unwrap().0));
        let request = pb::ExecuteRequest::default();
        let failure = Local.execute(&socket, request, until).unwrap_err();
        served.join().unwrap();
        failure.message
    }

    #[test]
    fn a_daemon_that_does_not_answer_is_waited_for_no_longer_than_there_is_time() {
        let since = Instant::now();
        let time = Duration::from_millis(50);
        // The connection ends with the call.
        let silent = |mut stream: UnixStream| {
            io::copy(&mut stream, &mut io::sink()).unwrap();
        };
        assert_eq!(failure(Some(since + time), silent), run_as::late().message);
        assert!(since.elapsed() >= time);
    }

    #[test]
    fn a_connection_that_ends_or_breaks_is_a_failure_at_once() {
        type Serve = fn(UnixStream);
        let cases: [(&str, Serve); 3] = [
            ("closed", drop),
            ("after a request", |mut stream| {
                let mut some = [0; 24];
                stream.read_exact(&mut some).unwrap();
            }),
            ("no protocol", |mut stream| {
                stream
                    .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    .unwrap();
                let mut some = [0; 24];
                stream.read_exact(&mut some).unwrap();
            }),
        ];
        for (case, serve) in cases {
            let message = failure(None, serve);
            assert!(
                message.contains("the connection to the daemon broke"),
                "{case}: {message}"
            );
        }
    }

    #[test]
    fn a_socket_at_which_none_listens_is_named() {
        let request = pb::ExecuteRequest::default();
        let failure = Local.execute(Path::new("/nowhere/socket"), request, None);
        let message = failure.unwrap_err().message;
        assert!(
            message.starts_with("cannot reach the daemon at `/nowhere/socket`: "),
            "{message}"
        );
        assert!(
            message.ends_with("; start one: `hookjail serve`"),
            "{message}"
        );
    }
}
