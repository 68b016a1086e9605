//! Serves `GET /metrics` to Prometheus on a loopback address.
//!
//! Everybody on the host can connect. So the listener starts no hook, has disks tried at most every five seconds, and reads no body.
//! Its own thread has a few connections and little time for each: a client that opens many or sends slowly costs other such clients,
//! and no hook.

use std::{
    collections::VecDeque,
    convert::Infallible,
    io,
    net::{SocketAddr, TcpListener},
    path::Path,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{ALLOW, CONTENT_TYPE},
};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use nix::sys::statvfs::statvfs;
use tokio::{net::TcpStream, task, time::timeout};
use tokio_util::sync::CancellationToken;

use hookjail_journal::read::oldest_time;

use crate::{
    metrics::{DiskLevels, Levels, MetricsError},
    pipeline::Pipeline,
};

/// The most connections at once. One more ends the oldest: a scrape takes milliseconds, and is never the oldest for long.
pub(super) const MAX_CONNECTIONS: usize = 16;

/// The time of a connection, from its acceptance to the end of its answer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// The most bytes of a request's head; the least that the HTTP library takes.
const MAX_HEAD_BYTES: usize = 8 * 1024;

/// The time that a scrape waits for the measures of a disk.
const DISK_TIMEOUT: Duration = Duration::from_secs(1);

/// The pause after a failed accept: without descriptors the next one fails at once, too.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// The listener, bound and not yet served.
#[derive(Debug)]
pub(super) struct MetricsListener(TcpListener);

/// The thread that serves. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct MetricsThread {
    address: SocketAddr,
    ended: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl MetricsListener {
    /// Binds an address.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        tracing::info!(address = %listener.local_addr()?, "serving metrics");
        Ok(Self(listener))
    }

    /// Serves on a thread of its own.
    ///
    /// # Errors
    ///
    /// Returns the error of starting it.
    pub(crate) fn serve(self, pipeline: Arc<Pipeline>) -> io::Result<MetricsThread> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let address = self.0.local_addr()?;
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(self.0)?
        };
        let ended = CancellationToken::new();
        let until = ended.clone();
        let thread = thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || {
                runtime.block_on(until.run_until_cancelled(accept(listener, pipeline)));
            })?;
        Ok(MetricsThread {
            address,
            ended,
            thread: Some(thread),
        })
    }
}

impl MetricsThread {
    /// Returns the address that is served.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsThread {
    fn drop(&mut self) {
        self.ended.cancel();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that serves metrics panicked");
        }
    }
}

async fn accept(listener: tokio::net::TcpListener, pipeline: Arc<Pipeline>) {
    let mut open: VecDeque<task::JoinHandle<()>> = VecDeque::with_capacity(MAX_CONNECTIONS);
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "connection for metrics could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        open.retain(|connection| !connection.is_finished());
        if open.len() == MAX_CONNECTIONS
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
            // Its descriptor is closed before there is another.
            drop(oldest.await);
        }
        open.push_back(tokio::spawn(one(stream, Arc::clone(&pipeline))));
    }
}

/// Answers the one request of a connection.
async fn one(stream: TcpStream, pipeline: Arc<Pipeline>) {
    // At most one attempt in some seconds, however many connect.
    pipeline.current_problem().await;
    let directory = pipeline.audit.directory().to_owned();
    let measured = timeout(
        DISK_TIMEOUT,
        task::spawn_blocking(move || measure(&directory)),
    );
    let disk = measured.await.ok().and_then(Result::ok).unwrap_or_default();
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let answer = answer(request.method(), request.uri().path(), || {
            text(&pipeline, disk)
        });
        async { Ok::<_, Infallible>(answer) }
    });
    let answered = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    // Errors of a client are its own matter.
    drop(timeout(CONNECTION_TIMEOUT, answered).await);
}

fn answer(
    method: &Method,
    path: &str,
    text: impl FnOnce() -> Result<String, MetricsError>,
) -> Response<String> {
    let plain = |status, text: &str| {
        let mut response = Response::new(format!("{text}\n"));
        *response.status_mut() = status;
        response
    };
    let mut response = if path != "/metrics" {
        plain(StatusCode::NOT_FOUND, "only /metrics is here")
    } else if method != Method::GET {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is served");
        let headers = response.headers_mut();
        headers.insert(ALLOW, HeaderValue::from_static("GET"));
        response
    } else {
        text().map_or_else(
            |error| {
                tracing::error!(%error, "metrics cannot be rendered");
                plain(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "metrics cannot be rendered; see the daemon's log",
                )
            },
            Response::new,
        )
    };
    let form = HeaderValue::from_static(if response.status() == StatusCode::OK {
        prometheus::TEXT_FORMAT
    } else {
        "text/plain"
    });
    response.headers_mut().insert(CONTENT_TYPE, form);
    response
}

/// Measures the disk of the journal's directory.
fn measure(directory: &Path) -> DiskLevels {
    let oldest = oldest_time(directory).ok().flatten();
    let disk = statvfs(directory).ok();
    DiskLevels {
        oldest_record: oldest.map(|time| time.as_duration().as_secs_f64()),
        state_free: disk.map(|disk| {
            // Of different sizes on some systems.
            let blocks = u128::from(disk.blocks_available());
            let size = u128::from(disk.fragment_size());
            u64::try_from(blocks.saturating_mul(size)).unwrap_or(u64::MAX)
        }),
    }
}

fn text(pipeline: &Pipeline, disk: DiskLevels) -> Result<String, MetricsError> {
    let Pipeline {
        audit,
        gate,
        metrics,
        sandbox,
        ..
    } = pipeline;
    metrics.text(&Levels {
        disk,
        journal: audit.tally(),
        journal_writable: audit.problem().borrow().is_none(),
        is_serving: pipeline.serves_any(),
        questions: gate.consents().pending.count(),
        queued: gate.queued(),
        running: gate.running(),
        waiting: sandbox.waiting(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_get_of_metrics_is_answered_and_nothing_is_rendered_for_the_rest() {
        let rendered = || Ok("x 1\n".to_owned());
        let other = || panic!("rendered");
        let status = |method, path| answer(&method, path, other).status().as_u16();

        let metrics = answer(&Method::GET, "/metrics", rendered);
        assert_eq!(
            (metrics.status().as_u16(), metrics.body().as_str()),
            (200, "x 1\n")
        );
        assert_eq!(metrics.headers()[CONTENT_TYPE], "text/plain; version=0.0.4");
        for path in ["/", "/metrics/", "/Metrics", "/-/reload", "*"] {
            assert_eq!(status(Method::GET, path), 404, "{path}");
            assert_eq!(status(Method::POST, path), 404, "{path}");
        }
        for method in [
            Method::POST,
            Method::HEAD,
            Method::PUT,
            Method::DELETE,
            Method::OPTIONS,
        ] {
            assert_eq!(status(method, "/metrics"), 405);
        }
    }

    #[test]
    fn what_cannot_be_rendered_is_an_error_and_tells_the_client_nothing() {
        let broken = || Err(MetricsError::Msg("secret".to_owned()));

        let response = answer(&Method::GET, "/metrics", broken);

        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!response.body().contains("secret"));
    }
}
