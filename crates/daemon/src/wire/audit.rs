//! `hookjail.v1.AuditService`: streams journal records to callers and to listed uids.

use std::{io, sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::{sync::mpsc, task::spawn_blocking, time::sleep};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use hookjail_base::{
    model::InvalidField,
    refusal::{Fact, Reason, Refusal},
    util::{shares::Share, turns::Turns},
};
use hookjail_journal::{
    query::{RecordFields, RecordFilter, RecordMatcher, RequestEnd},
    read::JournalReader,
};
use hookjail_proto::{self as pb, audit_service_server::AuditService};

use super::{
    decode::DEFAULT_REPLY_BYTES,
    doorway::too_much,
    service::{held, peer},
    status,
    status::fault,
};
use crate::pipeline::Pipeline;

/// `hookjail.v1.AuditService` over a pipeline's journal.
#[derive(Clone, Debug)]
pub(super) struct Records {
    pipeline: Arc<Pipeline>,
    /// Limits concurrent reads: a journal may be long, and requests many.
    reads: Arc<Turns>,
    /// Ends every stream: the daemon drains.
    shutdown: CancellationToken,
}

impl Records {
    /// Creates the service over a pipeline's journal, until the shutdown.
    pub(super) fn new(pipeline: Arc<Pipeline>, shutdown: CancellationToken) -> Self {
        Self {
            pipeline,
            reads: Arc::new(Turns::new(
                MAX_CONCURRENT_BATCHES,
                MAX_CONCURRENT_BATCHES - 1,
            )),
            shutdown,
        }
    }

    /// Admits callers that may run hooks or read the whole journal.
    ///
    /// A caller that may only run hooks gets the records of its own requests.
    fn admit<T>(
        &self,
        request: &Request<T>,
        requested: Option<pb::AuditFilter>,
    ) -> Result<(RecordFilter, Holder), Status> {
        let peer = peer(request.extensions())?;
        let held = held(request.extensions())?;
        let admitted = || {
            let Pipeline { gate, sandbox, .. } = &*self.pipeline;
            let all = gate.reads_all(&peer, sandbox);
            if !all {
                gate.admit_peer(&peer, sandbox)?;
            }
            let filter = filter(requested)?;
            if !held.grow(BATCH_BYTES) {
                return Err(too_much(&held, "reading the journal"));
            }
            if all {
                return Ok(filter);
            }
            if filter.peer_uid.is_some_and(|uid| uid != peer.uid) {
                let message = format!(
                    "uid {} may read the records of its own requests; add it to `audit.readers`",
                    peer.uid
                );
                return Err(Refusal::new(Reason::PeerNotAllowed, message));
            }
            Ok(RecordFilter {
                peer_uid: Some(peer.uid),
                ..filter
            })
        };
        let filter = admitted().map_err(|refusal| status(&refusal, ""))?;
        let holder = Holder {
            _held: held,
            uid: peer.uid,
        };
        Ok((filter, holder))
    }

    /// Streams the selected records. A slow client delays the reading; a disconnect ends it.
    fn stream<T: Send + 'static>(
        &self,
        mut reading: RecordCursor,
        holder: Holder,
        wrap: fn(pb::AuditRecord) -> T,
    ) -> Response<ReceiverStream<Result<T, Status>>> {
        let (sender, receiver) = mpsc::channel(1);
        let (reads, shutdown) = (Arc::clone(&self.reads), self.shutdown.clone());
        let pump = async move {
            loop {
                let turn = tokio::select! {
                    turn = reads.turn(holder.uid) => turn,
                    () = sender.closed() => return,
                };
                // Reading waits for a disk, so each batch is read on a blocking thread.
                let read = spawn_blocking(move || {
                    let _turn = turn;
                    let batch = reading.batch();
                    (reading, batch)
                });
                let (back, batch) = match read.await {
                    Ok((back, Ok(batch))) => (back, batch),
                    Ok((_, Err(error))) => {
                        drop(sender.send(Err(unreadable(&error))).await);
                        return;
                    }
                    Err(error) => {
                        tracing::error!(%error, "reading the journal panicked");
                        drop(sender.send(Err(fault(""))).await);
                        return;
                    }
                };
                reading = back;
                for record in batch.records {
                    let record = record.map(wrap).map_err(|refusal| status(&refusal, ""));
                    let last = record.is_err();
                    if sender.send(record).await.is_err() || last {
                        return;
                    }
                }
                if batch.at_end && !reading.follows {
                    return;
                }
                let pause = async {
                    if batch.at_end {
                        sleep(POLL_INTERVAL).await;
                    }
                };
                tokio::select! {
                    () = pause => {}
                    () = sender.closed() => return,
                    () = shutdown.cancelled() => {
                        let refusal = Refusal::new(Reason::Draining, "the daemon is shutting down");
                        drop(sender.send(Err(status(&refusal, ""))).await);
                        return;
                    }
                }
            }
        };
        tokio::spawn(pump);
        Response::new(ReceiverStream::new(receiver))
    }
}

/// The client of a stream.
#[derive(Debug)]
struct Holder {
    /// The memory of a batch, held until the stream ends.
    _held: Arc<Share>,
    uid: u32,
}

/// A position in the journal.
#[derive(Debug)]
struct RecordCursor {
    /// Records up to this number are skipped.
    after: u64,
    follows: bool,
    /// The number of records still to be sent.
    left: u64,
    matcher: RecordMatcher,
    max_bytes: u64,
    reader: JournalReader,
}

/// A batch of records.
struct Batch {
    /// Whether the journal has no more records now.
    at_end: bool,
    records: Vec<Result<pb::AuditRecord, Refusal>>,
}

impl RecordCursor {
    /// Reads the next batch: a few records, or many that are not selected.
    fn batch(&mut self) -> io::Result<Batch> {
        let (mut bytes, mut records) = (0, Vec::new());
        for _ in 0..BATCH_LINES {
            if self.left == 0 {
                self.follows = false;
            }
            let line = match self.left {
                0 => None,
                _ => self.reader.next_line()?,
            };
            let Some(line) = line else {
                return Ok(Batch {
                    at_end: true,
                    records,
                });
            };
            // Invalid lines are skipped: reporting them is for `audit verify`.
            let Some(fields) = RecordFields::read(line) else {
                continue;
            };
            if !self.matcher.takes(&fields) || fields.sequence <= self.after {
                continue;
            }
            self.left -= 1;
            bytes += line.len();
            records.push(record(line, &fields, self.max_bytes));
            if bytes >= BATCH_BYTES {
                break;
            }
        }
        Ok(Batch {
            at_end: false,
            records,
        })
    }
}

fn record(
    line: &[u8],
    fields: &RecordFields<'_>,
    max_bytes: u64,
) -> Result<pb::AuditRecord, Refusal> {
    let RecordFields { hash, sequence, .. } = fields;
    if line.len() as u64 > max_bytes {
        let message = format!(
            "record {sequence} has {} bytes, and `max_reply_bytes` is {max_bytes}; raise it and the client's limit, or \
             run `hookjail audit query`",
            line.len()
        );
        let refusal = Refusal::new(Reason::RecordTooLarge, message);
        return Err(refusal
            .with(Fact::Sequence(*sequence))
            .with(Fact::Bytes(line.len())));
    }
    Ok(pb::AuditRecord {
        hash: hash.clone().into_owned(),
        json: String::from_utf8_lossy(line).into_owned(),
        sequence: *sequence,
    })
}

fn unreadable(error: &io::Error) -> Status {
    tracing::error!(%error, "the journal cannot be read");
    let message = "the journal cannot be read; see the daemon's log";
    status(&Refusal::new(Reason::AuditUnavailable, message), "")
}

/// Decodes the filter of a request. An empty text selects everything.
fn filter(requested: Option<pb::AuditFilter>) -> Result<RecordFilter, Refusal> {
    let pb::AuditFilter {
        end,
        hook,
        peer_uid,
        profile,
        run_id,
        session_id,
        since,
        until,
    } = requested.unwrap_or_default();
    let invalid = |field, problem: &str| Refusal::from(InvalidField::new(field, problem));
    let time = |field, time: Option<prost_types::Timestamp>| {
        let read = |time: prost_types::Timestamp| {
            Timestamp::new(time.seconds, time.nanos)
                .map_err(|_| invalid(field, "is no time from year -9999 to 9999"))
        };
        time.map(read).transpose()
    };
    let nonempty = |text: String| Some(text).filter(|text| !text.is_empty());
    let end = nonempty(end).map(|end| {
        let problem = "must be an outcome such as `exited`, `refused` or `interrupted`";
        RequestEnd::parse(&end).ok_or_else(|| invalid("filter.end", problem))
    });
    Ok(RecordFilter {
        end: end.transpose()?,
        hook: nonempty(hook),
        peer_uid,
        profile: nonempty(profile),
        run_id: nonempty(run_id),
        session: nonempty(session_id),
        since: time("filter.since", since)?,
        until: time("filter.until", until)?,
    })
}

#[tonic::async_trait]
impl AuditService for Records {
    type QueryStream = ReceiverStream<Result<pb::QueryResponse, Status>>;
    type WatchStream = ReceiverStream<Result<pb::AuditServiceWatchResponse, Status>>;

    async fn query(
        &self,
        request: Request<pb::QueryRequest>,
    ) -> Result<Response<Self::QueryStream>, Status> {
        let (filter, holder) = self.admit(&request, request.get_ref().filter.clone())?;
        let pb::QueryRequest {
            filter: _,
            limit,
            max_reply_bytes,
        } = request.into_inner();
        let reading = RecordCursor {
            after: 0,
            follows: false,
            left: match limit {
                0 => u64::MAX,
                limit => limit.into(),
            },
            matcher: RecordMatcher::new(filter),
            max_bytes: max_reply_bytes.unwrap_or(DEFAULT_REPLY_BYTES),
            reader: JournalReader::open(self.pipeline.audit.directory()),
        };
        let wrap = |record| pb::QueryResponse {
            record: Some(record),
        };
        Ok(self.stream(reading, holder, wrap))
    }

    async fn watch(
        &self,
        request: Request<pb::AuditServiceWatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (filter, holder) = self.admit(&request, request.get_ref().filter.clone())?;
        let max_reply_bytes = request.into_inner().max_reply_bytes;
        let directory = self.pipeline.audit.directory().to_owned();
        // A client that follows a hook also gets the ends of runs that began before: their starts are found from the
        // beginning on.
        let all = filter.asks_for_runs();
        let turn = self.reads.turn(holder.uid).await;
        let open = move || {
            let _turn = turn;
            JournalReader::at_end(&directory, all)
        };
        let opened = spawn_blocking(open).await;
        let (reader, after) = match opened {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => return Err(unreadable(&error)),
            Err(error) => {
                tracing::error!(%error, "reading the journal panicked");
                return Err(fault(""));
            }
        };
        let reading = RecordCursor {
            after,
            follows: true,
            left: u64::MAX,
            matcher: RecordMatcher::new(filter),
            max_bytes: max_reply_bytes.unwrap_or(DEFAULT_REPLY_BYTES),
            reader,
        };
        let wrap = |record| pb::AuditServiceWatchResponse {
            record: Some(record),
        };
        Ok(self.stream(reading, holder, wrap))
    }
}

/// The most batches that are read at the same time, one of each uid.
const MAX_CONCURRENT_BATCHES: usize = 2;

/// The size of a batch, held for each stream beside one record.
const BATCH_BYTES: usize = 1 << 18;
const BATCH_LINES: usize = 4096;

/// The interval of polling for new records: other daemons write, too.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
