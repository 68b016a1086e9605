//! Exports spans to a collector by OTLP over gRPC.
//!
//! The exporter has a thread and a runtime of its own, and takes spans of calls from a queue. A collector that is away, slow or
//! silent costs spans, which are counted, and no call.

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{ExportTraceServiceResponse, trace_service_client::TraceServiceClient},
    trace::v1::Span,
};
use tokio::{
    sync::mpsc::error::TryRecvError,
    time::{sleep, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

use hookjail_base::util::seldom::Seldom;

use crate::{
    config::TracesEntry,
    metrics::Metrics,
    traces::{LastExport, Queue, Tracer, request},
};

/// How long spans wait for others to go with.
const BATCH_DELAY: Duration = Duration::from_secs(1);

/// From how many spans on a batch waits for no more.
const BATCH_SPANS: usize = 512;

/// The time of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The time of an export.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// The time for what is left when the daemon ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Interval of warnings about exports that fail.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// The descriptors of the exporter: its connection, another one that is attempted, and three of its thread's runtime.
pub(super) const DESCRIPTORS: usize = 5;

/// The thread that exports. Dropping it exports what is left, for a bounded time, and ends the thread.
#[derive(Debug)]
pub(super) struct TracesThread {
    ended: CancellationToken,
    last_export: Arc<LastExport>,
    thread: Option<JoinHandle<()>>,
}

impl TracesThread {
    /// Starts the thread. Returns what begins traces, too.
    ///
    /// # Errors
    ///
    /// Returns the error of starting it.
    pub(super) fn start(
        endpoint: SocketAddr,
        traces: &TracesEntry,
        metrics: Arc<Metrics>,
    ) -> io::Result<(Tracer, Self)> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let client = {
            // The channel spawns its task.
            let _entered = runtime.enter();
            TraceServiceClient::new(channel(endpoint)?)
        };
        let (tracer, queue) = Tracer::exporting(traces.sample_ratio, Arc::clone(&metrics));
        let last_export = Arc::new(LastExport::default());
        let exporter = Exporter {
            client,
            endpoint,
            in_flight: 0,
            last_export: Arc::clone(&last_export),
            metrics,
            queue,
            service: traces.service_name.clone(),
            warned: None,
        };
        let ended = CancellationToken::new();
        let until = ended.clone();
        let thread = thread::Builder::new()
            .name("traces".to_owned())
            .spawn(move || runtime.block_on(exporter.run(until)))?;
        tracing::info!(%endpoint, "exporting traces");
        let started = Self {
            ended,
            last_export,
            thread: Some(thread),
        };
        Ok((tracer, started))
    }

    /// Returns the last export, to be asked for at any time.
    pub(super) fn last_export(&self) -> Arc<LastExport> {
        Arc::clone(&self.last_export)
    }
}

impl Drop for TracesThread {
    fn drop(&mut self) {
        self.ended.cancel();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that exports traces panicked");
        }
    }
}

/// Returns a channel that connects when it is used.
fn channel(endpoint: SocketAddr) -> io::Result<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{endpoint}")).map_err(io::Error::other)?;
    let agent = concat!("hookjail/", env!("CARGO_PKG_VERSION"));
    let endpoint = endpoint.user_agent(agent).map_err(io::Error::other)?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(EXPORT_TIMEOUT)
        .connect_lazy())
}

struct Exporter {
    client: TraceServiceClient<Channel>,
    endpoint: SocketAddr,
    /// The spans of the export that is not answered yet.
    in_flight: usize,
    last_export: Arc<LastExport>,
    metrics: Arc<Metrics>,
    queue: Queue,
    service: String,
    /// Rate of warnings about exports that fail; `None` while they succeed.
    warned: Option<Seldom>,
}

impl Exporter {
    async fn run(mut self, ended: CancellationToken) {
        let too_late = async {
            ended.cancelled().await;
            sleep(FLUSH_TIMEOUT).await;
        };
        tokio::select! {
            () = self.export_all(&ended) => {}
            () = too_late => {}
        }
        let mut left = self.in_flight;
        while let Ok(call) = self.queue.try_recv() {
            left += call.count();
        }
        if left > 0 {
            self.metrics.spans_dropped(left);
            let endpoint = self.endpoint;
            tracing::warn!(spans = left, %endpoint, "spans were dropped at shutdown: the collector did not take them in time");
        }
    }

    /// Exports until the daemon ends, and then what is left.
    async fn export_all(&mut self, ended: &CancellationToken) {
        loop {
            let batch = self.batch(ended).await;
            if batch.is_empty() {
                return;
            }
            self.export(batch).await;
        }
    }

    /// Waits for spans. Returns none when the daemon ends and nothing is left.
    async fn batch(&mut self, ended: &CancellationToken) -> Vec<Span> {
        let mut spans = Vec::new();
        let first = tokio::select! {
            biased;
            first = self.queue.recv() => first,
            () = ended.cancelled() => None,
        };
        let Some(first) = first else {
            return spans;
        };
        spans.extend(first.spans());
        let until = tokio::time::Instant::now() + BATCH_DELAY;
        while spans.len() < BATCH_SPANS {
            let next = match self.queue.try_recv() {
                Ok(next) => Some(next),
                Err(TryRecvError::Disconnected) => None,
                Err(TryRecvError::Empty) => {
                    let next = ended.run_until_cancelled(timeout_at(until, self.queue.recv()));
                    next.await.and_then(|next| next.ok().flatten())
                }
            };
            match next {
                Some(next) => spans.extend(next.spans()),
                None => break,
            }
        }
        spans
    }

    async fn export(&mut self, spans: Vec<Span>) {
        self.in_flight = spans.len();
        let answer = self.client.export(request(&self.service, spans)).await;
        let sent = std::mem::take(&mut self.in_flight);
        match answer {
            Ok(answer) => match rejected(&answer.into_inner()) {
                (0, _) => {
                    self.last_export.ended(None);
                    if self.warned.take().is_some() {
                        tracing::info!(endpoint = %self.endpoint, "traces are exported again");
                    }
                }
                (rejected, why) => self.dropped(rejected.min(sent), &why),
            },
            Err(status) => self.dropped(sent, status.message()),
        }
    }

    /// Counts spans that were not taken, and logs them at an interval.
    fn dropped(&mut self, spans: usize, why: &str) {
        self.metrics.spans_dropped(spans);
        self.last_export.ended(Some(why));
        let (endpoint, spans) = (self.endpoint, spans as u64);
        let warned = self
            .warned
            .get_or_insert_with(|| Seldom::every(WARN_INTERVAL));
        if let Some(others) = warned.say_of(spans, Instant::now()) {
            let spans = spans + others;
            tracing::warn!(spans, %endpoint, why, "spans were dropped: the collector did not take them");
        }
    }
}

/// Returns how many spans a collector rejected, and why.
fn rejected(answer: &ExportTraceServiceResponse) -> (usize, String) {
    answer.partial_success.as_ref().map_or_else(
        || (0, String::new()),
        |partial| {
            let rejected = usize::try_from(partial.rejected_spans).unwrap_or(0);
            (rejected, partial.error_message.clone())
        },
    )
}
