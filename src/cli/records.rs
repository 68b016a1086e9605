//! Selects records of the journal, reads them from its files or from a daemon, and follows it.

use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use clap::Args;
use jiff::Timestamp;
use tonic::Streaming;

use hookjail_base::util::nearest::did_you_mean;
use hookjail_client::{
    Failure,
    connect::{self, refused},
    output,
    times::past,
};
use hookjail_journal::{
    query::{RecordFields, RecordFilter, RecordMatcher, RequestEnd},
    read::JournalReader,
};
use hookjail_proto::{self as pb, audit_service_client::AuditServiceClient};

use super::Context;

/// A selection of records.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct WhichRecords {
    /// Only records since then: 1h ago, today, yesterday, 2026-11-26 or 2026-11-26T12:00Z
    #[arg(long, value_name = "TIME", value_parser = past)]
    pub(super) since: Option<Timestamp>,
    /// Only records until then
    #[arg(long, value_name = "TIME", value_parser = past)]
    until: Option<Timestamp>,
    /// Only this hook, by its name
    #[arg(long, value_name = "NAME")]
    hook: Option<String>,
    /// Only this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only this end: an outcome such as exited or timed_out, refused, interrupted
    #[arg(long, value_name = "END", value_parser = end)]
    end: Option<(String, RequestEnd)>,
    /// Only this profile
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Only requests of this uid
    #[arg(long, value_name = "UID")]
    uid: Option<u32>,
    /// Only this run
    #[arg(long = "run", value_name = "ID")]
    run_id: Option<String>,
}

impl WhichRecords {
    /// Selects the records of one run.
    pub(super) fn of_run(id: &str) -> Self {
        Self {
            run_id: Some(id.to_owned()),
            ..Self::default()
        }
    }

    /// Returns the same without the filters of ends alone, so that the starts of all selected ends are selected, too.
    fn with_starts(self) -> Self {
        Self {
            since: None,
            until: None,
            end: None,
            ..self
        }
    }
}

/// The source of records.
#[derive(Clone, Debug, Args)]
pub(super) struct RecordSource {
    /// Ask the daemon at this socket instead of reading the files
    #[arg(long, value_name = "ADDR")]
    pub(super) connect: Option<PathBuf>,
}

/// The last records, and those that follow.
#[derive(Clone, Debug, Args)]
pub(super) struct TailArgs {
    /// Go on with records as they are written
    #[arg(short, long)]
    pub(super) follow: bool,
    /// The number of records
    #[arg(short = 'n', long, default_value = "10", value_name = "N")]
    pub(super) lines: Option<usize>,
    #[command(flatten)]
    pub(super) which: WhichRecords,
    #[command(flatten)]
    pub(super) source: RecordSource,
}

impl From<WhichRecords> for RecordFilter {
    fn from(which: WhichRecords) -> Self {
        Self {
            end: which.end.map(|(_, end)| end),
            hook: which.hook,
            peer_uid: which.uid,
            profile: which.profile,
            run_id: which.run_id,
            session: which.session,
            since: which.since,
            until: which.until,
        }
    }
}

impl From<WhichRecords> for pb::AuditFilter {
    fn from(which: WhichRecords) -> Self {
        let time = |time: Timestamp| prost_types::Timestamp {
            nanos: time.subsec_nanosecond(),
            seconds: time.as_second(),
        };
        Self {
            end: which.end.map(|(name, _)| name).unwrap_or_default(),
            hook: which.hook.unwrap_or_default(),
            peer_uid: which.uid,
            profile: which.profile.unwrap_or_default(),
            run_id: which.run_id.unwrap_or_default(),
            session_id: which.session.unwrap_or_default(),
            since: which.since.map(time),
            until: which.until.map(time),
        }
    }
}

fn end(name: &str) -> Result<(String, RequestEnd), String> {
    RequestEnd::parse(name)
        .map(|end| (name.to_owned(), end))
        .ok_or_else(|| {
            let names = ends();
            let meant = did_you_mean(name, names.iter().map(String::as_str));
            let names = names.join(", ");
            format!("is unknown{meant}; use one of {names}")
        })
}

/// Returns the names of ends.
pub(super) fn ends() -> Vec<String> {
    let outcomes = (1..).map_while(|number| pb::OutcomeKind::try_from(number).ok());
    let outcomes = outcomes.map(|kind| {
        let name = kind.as_str_name().trim_start_matches("OUTCOME_KIND_");
        name.to_ascii_lowercase()
    });
    let others = ["interrupted", "refused"].map(str::to_owned);
    outcomes.chain(others).collect()
}

/// A consumer of selected records, in the journal's order.
pub(super) trait Shown {
    /// Whether it needs records that are not selected, too.
    const NEEDS_ALL: bool;

    /// Returns what is printed for the next record.
    fn record(
        &mut self,
        line: &[u8],
        fields: &RecordFields<'_>,
        is_selected: bool,
    ) -> Option<Vec<u8>>;

    /// Returns what is printed behind the last record, where none are followed.
    fn rest(&mut self) -> Vec<Vec<u8>>;
}

/// The result of a reading of the files.
pub(super) struct Read {
    /// Whether there are lines that are no records.
    pub(super) has_others: bool,
    /// The sequence and the hash of the last record.
    pub(super) last: Option<(u64, String)>,
}

/// Reads the files, and passes matches to `wanted` until it returns `false`.
pub(super) fn read(
    context: &Context,
    which: WhichRecords,
    mut wanted: impl FnMut(&[u8], &RecordFields<'_>) -> bool,
) -> Result<Read, Failure> {
    let mut scan = Scan::new(&context.load()?.journal(), which);
    while scan.step(|line, fields, is_selected| !is_selected || wanted(line, fields))? {}
    Ok(Read {
        has_others: scan.strange,
        last: scan.last,
    })
}

/// Requests matching records from a daemon, and passes them to `wanted` until it returns `false`.
pub(super) fn ask(
    context: &Context,
    address: &Path,
    which: WhichRecords,
    limit: u32,
    mut wanted: impl FnMut(&[u8], &RecordFields<'_>) -> bool,
) -> Result<(), Failure> {
    connect::block_on(&connect::runtime()?, async {
        let mut client = connect(context, address).await?;
        let records = query(&mut client, which, limit).await?;
        let wanted = |_, line: &[u8], fields: &RecordFields<'_>| wanted(line, fields);
        each(records, |found| found.record, wanted).await
    })
}

impl TailArgs {
    /// Prints the last records, and where it is asked for those that follow.
    pub(super) fn print(self, context: &Context, shown: &mut impl Shown) -> Result<(), Failure> {
        match self.source.connect.clone() {
            Some(address) => self.print_of_daemon(context, &address, shown),
            None => self.print_of_files(context, shown),
        }
    }

    fn print_of_files(self, context: &Context, shown: &mut impl Shown) -> Result<(), Failure> {
        let mut scan = Scan::new(&context.load()?.journal(), self.which);
        let mut last = Last::new(self.lines);
        let mut goes_on = true;
        while scan.step(|line, fields, is_selected| {
            goes_on = last.add(shown.record(line, fields, is_selected));
            goes_on
        })? {}
        goes_on = goes_on && last.print(self.follow, shown);
        while goes_on {
            while scan.step(|line, fields, is_selected| {
                let text = shown.record(line, fields, is_selected);
                goes_on = text.is_none_or(|text| output::try_stdout(&text));
                goes_on
            })? {}
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    fn print_of_daemon<S: Shown>(
        self,
        context: &Context,
        address: &Path,
        shown: &mut S,
    ) -> Result<(), Failure> {
        let (requested, selected) = match S::NEEDS_ALL {
            true => (self.which.clone().with_starts(), self.which.into()),
            // The daemon selects.
            false => (self.which, RecordFilter::default()),
        };
        let mut matcher = RecordMatcher::new(selected);
        connect::block_on(&connect::runtime()?, async {
            let mut client = connect(context, address).await?;
            // Subscribes before the query of existing records, so that none is missed in between.
            let mut watched = None;
            if self.follow {
                let request = pb::AuditServiceWatchRequest {
                    filter: Some(requested.clone().into()),
                    max_reply_bytes: Some(MAX_RECORD_BYTES),
                };
                let answer = client.watch(request).await.map_err(refused)?;
                watched = Some(answer.into_inner());
            }
            let mut last = Last::new(self.lines);
            let (mut goes_on, mut seen) = (true, 0);
            let records = query(&mut client, requested, 0).await?;
            let keep = |sequence, line: &[u8], fields: &RecordFields<'_>| {
                seen = sequence;
                goes_on = last.add(shown.record(line, fields, matcher.takes(fields)));
                goes_on
            };
            each(records, |found| found.record, keep).await?;
            goes_on = goes_on && last.print(self.follow, shown);
            let Some(watched) = watched.filter(|_| goes_on) else {
                return Ok(());
            };
            let print = |sequence, line: &[u8], fields: &RecordFields<'_>| {
                if sequence <= seen {
                    return true;
                }
                let text = shown.record(line, fields, matcher.takes(fields));
                text.is_none_or(|text| output::try_stdout(&text))
            };
            each(watched, |written| written.record, print).await
        })
    }
}

/// A position in the journal's files.
///
/// They are not read through a private server: that would open the journal for writing, which adds records, and refuses
/// another user's journal and a broken one.
struct Scan {
    last: Option<(u64, String)>,
    matcher: RecordMatcher,
    reader: JournalReader,
    strange: bool,
}

impl Scan {
    fn new(directory: &Path, which: WhichRecords) -> Self {
        Self {
            last: None,
            matcher: RecordMatcher::new(which.into()),
            reader: JournalReader::open(directory),
            strange: false,
        }
    }

    /// Reads one line, and passes its record on with whether it is selected. Returns `false` at the end, or when no more is needed.
    fn step(
        &mut self,
        wanted: impl FnOnce(&[u8], &RecordFields<'_>, bool) -> bool,
    ) -> io::Result<bool> {
        let Some(line) = self.reader.next_line()? else {
            return Ok(false);
        };
        let Some(fields) = RecordFields::read(line) else {
            if !self.strange {
                output::stderr(
                    "hookjail: there are lines that are no records: see `hookjail audit verify`",
                );
            }
            self.strange = true;
            return Ok(true);
        };
        self.last = Some((fields.sequence, fields.hash.clone().into_owned()));
        Ok(wanted(line, &fields, self.matcher.takes(&fields)))
    }
}

/// The last few texts, or without a number all, which are printed at once.
struct Last {
    lines: Option<usize>,
    texts: VecDeque<Vec<u8>>,
}

impl Last {
    const fn new(lines: Option<usize>) -> Self {
        Self {
            lines,
            texts: VecDeque::new(),
        }
    }

    /// Adds a text, if there is one. Returns whether more is to be printed.
    fn add(&mut self, text: Option<Vec<u8>>) -> bool {
        let Some(lines) = self.lines else {
            return text.is_none_or(|text| output::try_stdout(&text));
        };
        self.texts.extend(text);
        if self.texts.len() > lines {
            self.texts.pop_front();
        }
        true
    }

    /// Prints the texts, and the rest where nothing follows. Returns whether more is to be printed.
    fn print(mut self, follows: bool, shown: &mut impl Shown) -> bool {
        let rest = if follows { Vec::new() } else { shown.rest() };
        rest.into_iter().all(|text| self.add(Some(text)))
            && self.texts.iter().all(|text| output::try_stdout(text))
            && follows
    }
}

/// Passes a daemon's records, each with its sequence number, to `wanted` until that returns `false`.
async fn each<M>(
    mut records: Streaming<M>,
    record: impl Fn(M) -> Option<pb::AuditRecord>,
    mut wanted: impl FnMut(u64, &[u8], &RecordFields<'_>) -> bool,
) -> Result<(), Failure> {
    while let Some(found) = records.message().await.map_err(refused)? {
        let record = record(found).unwrap_or_default();
        let line = record.json.as_bytes();
        let fields = RecordFields::read(line);
        if fields.is_some_and(|fields| !wanted(record.sequence, line, &fields)) {
            break;
        }
    }
    Ok(())
}

type AuditClient = AuditServiceClient<tonic::transport::Channel>;

async fn connect(context: &Context, address: &Path) -> Result<AuditClient, Failure> {
    let socket = connect::socket(&context.call.paths, address);
    let socket = socket.ok_or_else(|| Failure::new("`--connect` names no socket"))?;
    let client = AuditServiceClient::new(connect::connect(&socket).await?);
    Ok(client.max_decoding_message_size(usize::MAX))
}

/// Queries the records written so far.
async fn query(
    client: &mut AuditClient,
    which: WhichRecords,
    limit: u32,
) -> Result<Streaming<pb::QueryResponse>, Failure> {
    let request = pb::QueryRequest {
        filter: Some(which.into()),
        limit,
        max_reply_bytes: Some(MAX_RECORD_BYTES),
    };
    let answer = client.query(request).await.map_err(refused)?;
    Ok(answer.into_inner())
}

/// The largest record, bytes.
const MAX_RECORD_BYTES: u64 = 16 << 20;

const POLL_INTERVAL: Duration = Duration::from_millis(200);
