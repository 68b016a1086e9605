//! `hookjail audit`: verifies and copies the journal, and shows its records.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{
    Args, Subcommand, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use serde_json::json;

use hookjail_base::model::plain;
use hookjail_client::{
    Failure,
    output::{self, Style},
};
use hookjail_contract as contract;
use hookjail_journal::{
    query::{RecordFields, RecordMatcher},
    read::JournalReader,
    record::EventLine,
    snapshot::{Copied, copy_journal},
    verify::{Reboot, Tail, Verified, VerifyError, verify_file, verify_journal},
};

use super::{
    Context,
    records::{RecordSource, Shown, TailArgs, WhichRecords, ask, read},
    rows::{Rows, quoted},
    stats::{GroupBy, Stats, StatsGroup},
};

/// Verifies, queries, follows, exports and copies the journal.
#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// Write matching records for another system, and last the hash at which the chain ended
    Export {
        /// The form of each record
        #[arg(long, value_enum, default_value_t = Format::Jsonl)]
        format: Format,
        #[command(flatten)]
        which: WhichRecords,
    },
    /// Show matching records, oldest first
    Query {
        /// Show the contracts' own events instead of the records that have them
        #[arg(long)]
        events: bool,
        /// The maximum number of records; 0 = all
        #[arg(long, default_value_t = 0, value_name = "N")]
        limit: u32,
        #[command(flatten)]
        which: WhichRecords,
        #[command(flatten)]
        source: RecordSource,
    },
    /// Copy the whole journal into a new directory, while daemons go on
    Snapshot {
        /// A directory that does not exist, or is empty
        directory: PathBuf,
    },
    /// Count what matches: runs, blocks, latency, and what hooks measured
    Stats {
        /// The fields by which records are grouped
        #[arg(
            long,
            value_parser = PossibleValuesParser::new(GroupBy::ALL.map(GroupBy::name)).try_map(|name| GroupBy::parse(&name).ok_or("is no group")),
            value_delimiter = ',',
            default_value = "contract,point",
            value_name = "LIST"
        )]
        by: Vec<GroupBy>,
        #[command(flatten)]
        which: WhichRecords,
    },
    /// Show the last matching records
    Tail {
        /// Show the contracts' own events instead of the records that have them
        #[arg(long)]
        events: bool,
        #[command(flatten)]
        tail: TailArgs,
    },
    /// Check every record, and that nothing was cut off at the end; exits 1 where the chain does not hold
    Verify {
        /// One file, whose beginning and end nothing proves, or a journal's directory [default: the journal's]
        file: Option<PathBuf>,
    },
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Format {
    /// One line with the main fields
    Csv,
    /// The lines of the journal as they are
    Jsonl,
}

impl AuditArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        match self.command {
            AuditCommand::Export { format, which } => export(context, which, format),
            AuditCommand::Query {
                events,
                limit,
                which,
                source,
            } => {
                let mut shown = RecordPrinter::new(context.call.json, events);
                let mut left = limit;
                let mut show = |line: &[u8], fields: &RecordFields<'_>| {
                    let Some(text) = shown.record(line, fields, true) else {
                        return true;
                    };
                    left = left.saturating_sub(1);
                    output::try_stdout(&text) && (limit == 0 || left > 0)
                };
                match &source.connect {
                    // No limit for the daemon: only the client leaves out records without an event, and does not count them.
                    Some(address) if events => ask(context, address, which, 0, show),
                    Some(address) => ask(context, address, which, limit, show),
                    None => read(context, which, &mut show).map(drop),
                }?;
                Ok(ExitCode::SUCCESS)
            }
            AuditCommand::Snapshot { directory } => snapshot(context, &directory),
            AuditCommand::Stats { by: groups, which } => stats(context, groups, which),
            AuditCommand::Tail { events, tail } => {
                tail.print(context, &mut RecordPrinter::new(context.call.json, events))?;
                Ok(ExitCode::SUCCESS)
            }
            AuditCommand::Verify { file } => verify(context, file),
        }
    }
}

fn verify(context: &Context, file: Option<PathBuf>) -> Result<ExitCode, Failure> {
    let path = match file {
        Some(file) => file,
        None => context.load()?.journal(),
    };
    let verified = if path.is_dir() {
        verify_journal(&path)
    } else {
        verify_file(&path)
    };
    match verified {
        Ok(verified) => {
            report(context, &path, &verified);
            Ok(ExitCode::SUCCESS)
        }
        Err(VerifyError::Broken(broken)) => {
            if context.call.json {
                let place = json!({
                    "file": broken.file,
                    "line": broken.line,
                    "message": broken.why.to_string(),
                    "reason": broken.why.reason(),
                    "record": broken.record,
                });
                output::json_line(&json!({ "broken": place, "holds": false, "path": path }));
            } else {
                let style = Style::of_stdout();
                let record = broken
                    .record
                    .map_or_else(String::new, |record| format!("record {record}, "));
                let text = format!(
                    "{}: {}\n",
                    style.bad("the chain does not hold"),
                    plain(&format!("{record}{broken}"))
                );
                output::text(&text);
            }
            Ok(ExitCode::FAILURE)
        }
        Err(error @ VerifyError::Unreadable { .. }) => Err(error.into()),
    }
}

fn snapshot(context: &Context, directory: &Path) -> Result<ExitCode, Failure> {
    // All files are open at once. Where the limit cannot be raised, a few files need no more.
    hookjail_sys::raise_descriptor_limit().ok();
    let copied = copy_journal(&context.load()?.journal(), directory)?;
    let Copied {
        bytes,
        files,
        first,
        last,
    } = copied;
    if context.call.json {
        output::json_line(&json!({
            "bytes": bytes, "directory": directory, "files": files, "first": first, "last": last,
            "records": copied.records(),
        }));
        return Ok(ExitCode::SUCCESS);
    }
    let records = match copied.records() {
        0 => "no record yet".to_owned(),
        _ => format!("records {first} to {last}"),
    };
    let text = format!(
        "copied {records}, files: {files}, {bytes} bytes, to {}\n",
        plain(&directory.display().to_string())
    );
    output::text(&text);
    Ok(ExitCode::SUCCESS)
}

fn report(context: &Context, path: &Path, verified: &Verified) {
    let Verified {
        files,
        first,
        head,
        records,
        reboots,
        tail,
    } = verified;
    let last = first + records - 1;
    if context.call.json {
        let tail = match tail {
            Tail::Noted => "noted",
            Tail::Unproven => "unproven",
        };
        let reboot =
            |reboot: &Reboot| json!({"missing_ms": reboot.missing_ms, "sequence": reboot.sequence});
        let reboots: Vec<_> = reboots.iter().map(reboot).collect();
        output::json_line(&json!({
            "files": files, "first": first, "head": head, "holds": true, "last": last, "path": path,
            "reboots": reboots, "records": records, "tail": tail,
        }));
        return;
    }
    let style = Style::of_stdout();
    let mut text = match records {
        0 => format!("{}: no record yet\n", style.good("the chain holds")),
        _ => format!(
            "{}: records {first} to {last}, files: {files}, last hash {head}\n",
            style.good("the chain holds")
        ),
    };
    if *first > 1 {
        let removed = first - 1;
        text.push_str(&match tail {
            Tail::Noted => format!(
                "records 1 to {removed} are absent: their files were removed under `audit.keep_files`\n"
            ),
            Tail::Unproven => format!("records 1 to {removed} are not in this file\n"),
        });
    }
    for Reboot {
        missing_ms,
        sequence,
    } in reboots
    {
        text.push_str(&match missing_ms {
            0 => format!(
                "before record {sequence} the host went down under a daemon, but no answered run is missing there\n"
            ),
            _ => format!(
                "before record {sequence} the host went down under a daemon: records of up to {} s may be missing there\n",
                missing_ms.div_ceil(1000)
            ),
        });
    }
    if *tail == Tail::Unproven {
        text.push_str(
            "its end is unproven: one file alone cannot prove that no records were cut off\n",
        );
    }
    output::text(&text);
}

/// Shows records, for people or as JSON.
#[derive(Clone, Copy, Debug)]
struct RecordPrinter {
    events: bool,
    json: bool,
    style: Style,
}

impl RecordPrinter {
    fn new(json: bool, events: bool) -> Self {
        Self {
            events,
            json,
            style: Style::of_stdout(),
        }
    }

    /// Returns a contract's own event; for people in the contract's form.
    fn event(self, fields: &RecordFields<'_>, event: &EventLine) -> String {
        let display = contract::display(&event.name, &event.fields);
        if self.json {
            let mut members = json!({
                "event": event.name, "fields": event.fields, "run_id": fields.run_id, "sequence": fields.sequence,
                "time": fields.time,
            });
            if let Some(display) = display {
                members["display"] = display.into();
            }
            return plain(&members.to_string());
        }
        let shown = display.unwrap_or_else(|| json!(event.fields).to_string());
        format!(
            "{:>6} {} {}",
            fields.sequence,
            plain(&fields.time),
            plain(&shown)
        )
    }

    fn words(self, fields: &RecordFields<'_>) -> String {
        let end = end_words(fields);
        let mut words = vec![format!("{:>6} {}", fields.sequence, plain(&fields.time))];
        let kind = format!("{:<11}", plain(&fields.record));
        words.push(match &*fields.record {
            "started" => self.style.strong(&kind),
            "ended" if fields.exit_code == Some(0) => self.style.good(&kind),
            "ended" => self.style.warn(&kind),
            _ => self.style.bad(&kind),
        });
        words.extend((!end.is_empty()).then(|| plain(&end)));
        words.extend(fields.unconfined.then(|| self.style.bad("UNCONFINED")));
        let uid = fields
            .peer
            .map_or_else(String::new, |peer| peer.uid.to_string());
        let profile = fields.profile.as_deref().unwrap_or_default();
        for (name, value) in [
            ("run", &*fields.run_id),
            ("hook", &fields.hook),
            ("point", &fields.point),
            ("session", &fields.session),
            ("profile", profile),
            ("uid", &uid),
        ] {
            if !value.is_empty() {
                words.push(format!("{name}={}", plain(value)));
            }
        }
        if let Some(verdict) = &fields.verdict {
            words.push(plain(&verdict.decision));
            let blocker = verdict.blocked_by.as_deref().map(plain);
            words.extend(blocker.map(|blocker| format!("blocked by {blocker}")));
            let looked_on = verdict
                .only_looked_on
                .then(|| "(only looked on)".to_owned());
            words.extend(looked_on);
        }
        words.extend(fields.command.iter().map(|command| quoted(&command.argv)));
        if !fields.message.is_empty() {
            words.push(plain(&fields.message));
        }
        words.join(" ")
    }
}

impl Shown for RecordPrinter {
    const NEEDS_ALL: bool = false;

    fn record(
        &mut self,
        line: &[u8],
        fields: &RecordFields<'_>,
        is_selected: bool,
    ) -> Option<Vec<u8>> {
        if !is_selected || self.events && fields.contract_event().is_none() {
            return None;
        }
        let text = match fields.contract_event() {
            Some(event) if self.events => self.event(fields, event),
            Some(_) | None if self.json => return Some([line, b"\n"].concat()),
            Some(_) | None => self.words(fields),
        };
        Some(output::shown(&format!("{text}\n")).as_bytes().to_owned())
    }

    fn rest(&mut self) -> Vec<Vec<u8>> {
        Vec::new()
    }
}

fn end_words(fields: &RecordFields<'_>) -> String {
    match (fields.outcome, fields.exit_code, fields.signal) {
        (Some(outcome), Some(code), _) => format!("{outcome} {code}"),
        (Some(outcome), _, Some(signal)) => format!("{outcome} {signal}"),
        (Some(outcome), None, None) => outcome.to_string(),
        (None, _, _) => fields.reason.clone().into_owned(),
    }
}

/// Prints statistics, in one pass, in memory independent of the journal's length.
fn stats(
    context: &Context,
    groups: Vec<GroupBy>,
    which: WhichRecords,
) -> Result<ExitCode, Failure> {
    let mut stats = Stats::new(groups);
    let mut matcher = RecordMatcher::new(which.into());
    let mut reader = JournalReader::open(&context.load()?.journal());
    let (mut records, mut unreadable) = (0_u64, 0_u64);
    while let Some(line) = reader.next_line()? {
        match RecordFields::read(line) {
            Some(fields) => {
                records += 1;
                let is_selected = matcher.takes(&fields);
                stats.take(&fields, is_selected);
            }
            None => unreadable += 1,
        }
    }
    let (without_group, without_start) = (stats.without_group, stats.without_start);
    if context.call.json {
        for (key, group) in stats.groups() {
            output::json_line(&json!(stats.json(key, group)));
        }
        output::json_line(&json!({
            "records": records, "unreadable": unreadable, "without_group": without_group,
            "without_start": without_start,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    let style = Style::of_stdout();
    let mut rows = Rows::plain("    ", 0);
    for (key, group) in stats.groups() {
        counted(&mut rows, style, key, group);
    }
    let mut all = format!("{records} records");
    for (count, what) in [
        (
            unreadable,
            "lines that are no records: see `hookjail audit verify`",
        ),
        (without_start, "ends without their start, counted nowhere"),
        (
            without_group,
            "records of groups beyond the maximum, counted nowhere",
        ),
    ] {
        if count > 0 {
            all.push_str(&format!(", {}", style.warn(&format!("{count} {what}"))));
        }
    }
    rows.line(all);
    rows.print();
    Ok(ExitCode::SUCCESS)
}

/// Adds a group's statistics in a few lines, without those that are empty.
fn counted(rows: &mut Rows, style: Style, key: &[String], group: &StatsGroup) {
    let names = key.iter().map(|name| match &*plain(name) {
        "" => "-".to_owned(),
        name => name.to_owned(),
    });
    let names = names.collect::<Vec<_>>().join(" ");
    let counts = group.counts().filter(|(_, count)| *count > 0);
    let counts = counts.map(|(name, count)| format!("{} {count}", name.replace('_', " ")));
    let counts = counts.collect::<Vec<_>>().join(", ");
    rows.line(format!("{}  {counts}", style.strong(&names)));
    let latency = &group.latency;
    if latency.max > 0 {
        let [median, p95] = [50, 95].map(|percent| millis(latency.quantile(percent)));
        let max = millis(latency.max);
        rows.row(
            "latency",
            format!("  median {median}, p95 {p95}, max {max}"),
        );
    }
    for (name, measure) in &group.measures {
        rows.row(name, format!("  {}", measure.words()));
    }
    if group.measures_dropped > 0 {
        let dropped = group.measures_dropped;
        rows.row("", format!("{dropped} measures beyond the maximum"));
    }
}

fn millis(micros: u64) -> String {
    format!("{}.{} ms", micros / 1000, micros % 1000 / 100)
}

fn export(context: &Context, which: WhichRecords, format: Format) -> Result<ExitCode, Failure> {
    if format == Format::Csv {
        output::text(&format!("{}\n", COLUMNS.join(",")));
    }
    let mut records = 0_u64;
    let read = read(context, which, |line, fields| {
        records += 1;
        match format {
            Format::Csv => output::try_stdout(row(fields).as_bytes()),
            Format::Jsonl => output::try_stdout(&[line, b"\n"].concat()),
        }
    })?;
    let (sequence, hash) = read.last.unwrap_or_else(|| (0, "0".repeat(64)));
    match format {
        Format::Csv => {
            let fields = RecordFields {
                hash: hash.into(),
                record: "export".into(),
                sequence,
                ..RecordFields::default()
            };
            output::document(&row(&fields));
        }
        Format::Jsonl => output::json_line(
            &json!({ "record": "export", "records": records, "sequence": sequence, "hash": hash }),
        ),
    }
    // Lines that are no records are left out.
    Ok(ExitCode::from(u8::from(read.has_others)))
}

const COLUMNS: [&str; 14] = [
    "sequence",
    "time",
    "record",
    "run_id",
    "hook",
    "point",
    "session",
    "profile",
    "peer_uid",
    "end",
    "decision",
    "blocked_by",
    "command",
    "hash",
];

fn row(fields: &RecordFields<'_>) -> String {
    let verdict = fields.verdict.as_ref();
    let command = fields
        .command
        .as_ref()
        .map(|command| json!(command.argv).to_string());
    let values: [&str; COLUMNS.len()] = [
        &fields.sequence.to_string(),
        &fields.time,
        &fields.record,
        &fields.run_id,
        &fields.hook,
        &fields.point,
        &fields.session,
        fields.profile.as_deref().unwrap_or_default(),
        &fields
            .peer
            .map_or_else(String::new, |peer| peer.uid.to_string()),
        &end_words(fields),
        verdict.map_or("", |verdict| &verdict.decision),
        verdict
            .and_then(|verdict| verdict.blocked_by.as_deref())
            .unwrap_or_default(),
        &command.unwrap_or_default(),
        &fields.hash,
    ];
    // Escaped, so that a line break in a name does not break the row.
    let quoted = values.map(|value| format!("\"{}\"", plain(value).replace('"', "\"\"")));
    format!("{}\n", quoted.join(","))
}
