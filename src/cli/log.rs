//! `hookjail log`: the hooks that ran, one line a run.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    ffi::OsString,
    fs,
    io::{self, IsTerminal},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use jiff::{Timestamp, Zoned, tz::TimeZone};
use serde::Serialize;

use hookjail_base::{
    model::{Consent, plain, visible_json},
    refusal::Reason,
};
use hookjail_client::{
    Failure,
    output::{self, Style},
    server,
};
use hookjail_contract::{POST_PROFILE, adopt::Adopted, refusals};
use hookjail_journal::{
    query::RecordFields,
    record::{CommandLine, EgressLine, OutcomeKind},
};

use super::{
    Context,
    records::{self, RecordSource, Shown, TailArgs, WhichRecords},
    rows::shell_line,
    show::HAS_LEARN,
};

/// The number of runs that are shown where neither their number nor a time is asked for.
const RUNS: usize = 10;

/// The least and the most columns of a hook on a terminal.
const HOOK_COLUMNS: [usize; 2] = [24, 60];

/// The columns of a runtime.
const RUNTIME_COLUMNS: usize = 12;

/// The longest message of a refusal, characters.
const MESSAGE_CHARS: usize = 160;

/// The most lines of stderr, and hosts, that a line names.
const NAMED: usize = 3;

/// The longest journal that is read for a summary, bytes.
const MAX_READ: u64 = 64 << 20;

/// Maximum number of runs that are open at once and shown with the fields of their start.
const MAX_OPEN_RUNS: usize = 1 << 16;

/// Show the hooks that ran, one line a run: time, runtime, hook, end, and what confinement denied.
///
/// Reads the journal's files; needs no daemon. Trials of `install` and `learn` are left out.
/// On a terminal a refusal and a denial have the command that helps.
#[derive(Debug, Args)]
pub(super) struct LogArgs {
    /// Only refusals, and runs in which confinement denied something
    #[arg(long)]
    denied: bool,
    /// Go on with runs as they end
    #[arg(short, long)]
    follow: bool,
    /// The number of runs to show [default: 10, with --since all]
    #[arg(short = 'n', long, value_name = "N")]
    lines: Option<usize>,
    #[command(flatten)]
    which: WhichRecords,
    #[command(flatten)]
    source: RecordSource,
}

impl LogArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let Self {
            denied,
            follow,
            lines,
            which,
            source,
        } = self;
        let asks_daemon = source.connect.is_some();
        let tail = TailArgs {
            follow,
            lines: lines.or_else(|| which.since.is_none().then_some(RUNS)),
            which,
            source,
        };
        let mut log = Log::new(context, denied);
        tail.print(context, &mut log)?;
        if log.shown == 0 && !follow && !context.call.json {
            output::text(match log.read {
                0 => "no runs recorded\n",
                _ => "no such run recorded\n",
            });
            if let Some(remark) = (!asks_daemon).then(|| other_journal(context)).flatten() {
                output::stderr(&remark);
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns a remark where the daemon that serves runs has another journal.
fn other_journal(context: &Context) -> Option<String> {
    let socket = server::daemon(&context.call, None)?;
    let is_others = socket.metadata().ok()?.uid() != nix::unistd::geteuid().as_raw();
    let socket = socket.display();
    is_others.then(|| {
        format!(
            "hookjail: this is your own journal; read that of the daemon with: hookjail log --connect {socket}"
        )
    })
}

/// A run in which confinement denied something.
#[cfg(target_os = "linux")]
pub(super) struct DeniedRun {
    pub(super) argv: Vec<OsString>,
    pub(super) point: String,
    pub(super) profile: String,
    pub(super) runtime: Option<Adopted>,
    pub(super) workspace: Option<PathBuf>,
}

/// Returns the last run in which confinement denied something, except trials.
///
/// # Errors
///
/// Fails where the journal cannot be read.
#[cfg(target_os = "linux")]
pub(super) fn last_denied(context: &Context) -> Result<Option<DeniedRun>, Failure> {
    let mut open = BTreeMap::new();
    let mut last = None;
    records::read(context, WhichRecords::default(), |_, fields| {
        if fields.record == "started" {
            let begun = Begun::new(fields, true);
            open.insert(fields.run_id.clone().into_owned(), begun);
        }
        let ended = fields.end().and_then(|_| open.remove(&*fields.run_id));
        let is_learned = |it: &Begun| it.learned().is_some() && !it.is_trial && is_denied(fields);
        if let Some(begun) = ended.filter(is_learned) {
            last = Some(begun);
        }
        true
    })?;
    Ok(last.map(|begun| {
        let argv = begun.command.map(|command| command.argv);
        DeniedRun {
            argv: argv.into_iter().flatten().map(Into::into).collect(),
            point: begun.point,
            profile: begun.profile.unwrap_or_default(),
            runtime: runtime(&begun.contract),
            workspace: begun.workspace.map(PathBuf::from),
        }
    }))
}

/// The refusals and denials of hooks, as far as no later run of theirs went well.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    /// The number of hooks that confinement denied something in their last run.
    pub(super) denied: usize,
    /// The calls that were refused for lack of a consent.
    pub(super) refused_calls: u64,
    /// The time of the first of them.
    pub(super) refused_since: Option<Timestamp>,
    /// The number of hooks without a workspace in their last run.
    pub(super) without_workspace: usize,
    /// The reason why one of these had none.
    pub(super) withheld: Option<String>,
}

impl Troubles {
    /// Reads the journal, unless it is longer than can be read at once.
    ///
    /// # Errors
    ///
    /// Fails where the journal cannot be read.
    pub(super) fn read(context: &Context) -> Result<Self, Failure> {
        let files = fs::read_dir(context.load()?.journal());
        let files = files.into_iter().flatten().flatten();
        let sizes = files.filter_map(|file| Some(file.metadata().ok()?.len()));
        if sizes.sum::<u64>() > MAX_READ {
            return Ok(Self::default());
        }
        let mut hooks = Hooks::default();
        records::read(context, WhichRecords::default(), |_, fields| {
            hooks.add(fields);
            true
        })?;
        let refused = hooks.refused.values();
        Ok(Self {
            denied: hooks.denied.len(),
            refused_calls: refused.clone().map(|(_, calls)| calls).sum(),
            refused_since: refused.filter_map(|(time, _)| *time).min(),
            without_workspace: hooks.withheld.len(),
            withheld: hooks.withheld.into_values().next(),
        })
    }

    /// Describes the troubles for people, each with the command that helps.
    pub(super) fn words(&self) -> Vec<(&'static str, String)> {
        let refused = self.refused_since.map(|since| {
            let since = local_time(since, &TimeZone::system());
            let calls = match self.refused_calls {
                1 => "1 call".to_owned(),
                calls => format!("{calls} calls"),
            };
            (
                "refused",
                format!("{calls} since {since}; see which: hookjail log --denied"),
            )
        });
        let denied = match self.denied {
            0 => None,
            1 => Some("1 hook in its last run".to_owned()),
            hooks => Some(format!("{hooks} hooks in their last runs")),
        };
        let denied = denied.map(|hooks| {
            (
                "denied",
                format!("{hooks}; give the last what it lacks: hookjail learn --last"),
            )
        });
        refused.into_iter().chain(denied).collect()
    }

    /// Describes the hooks without a workspace.
    pub(super) fn workspace(&self) -> Option<String> {
        let hooks = match self.without_workspace {
            1 => "last run of 1 hook".to_owned(),
            hooks => format!("last runs of {hooks} hooks"),
        };
        let why = self.withheld.as_ref();
        why.map(|why| format!("{why} ({hooks})"))
    }
}

/// The hooks of a journal's runs, by their labels.
#[derive(Default)]
struct Hooks {
    /// Hooks that confinement denied something in their last run.
    denied: BTreeSet<(String, Option<String>)>,
    open: BTreeMap<String, Begun>,
    /// Hooks that were refused since they ran last: the time of the first refusal, and the calls.
    refused: BTreeMap<(String, Option<String>), (Option<Timestamp>, u64)>,
    /// The reasons why hooks without a workspace in their last run have none.
    withheld: BTreeMap<String, String>,
}

impl Hooks {
    fn add(&mut self, fields: &RecordFields<'_>) {
        if fields.record == "started" {
            if self.open.len() >= MAX_OPEN_RUNS {
                self.open.pop_first();
            }
            let begun = Begun::new(fields, true);
            self.open.insert(fields.run_id.clone().into_owned(), begun);
            return;
        }
        if fields.end().is_none() {
            return;
        }
        let begun = self.open.remove(&*fields.run_id);
        let begun = begun.unwrap_or_else(|| Begun::new(fields, true));
        if begun.is_trial {
            return;
        }
        let hook = (label(&begun, None), begun.workspace);
        if is_without_consent(fields) {
            let time = fields.time.parse().ok();
            let refused = self.refused.entry(hook).or_insert((time, 0));
            refused.1 += fields.count.unwrap_or(1);
        } else if fields.record == "ended" {
            self.refused.remove(&hook);
            match fields.withheld() {
                Some(why) => self.withheld.insert(hook.0.clone(), plain(why)),
                None => self.withheld.remove(&hook.0),
            };
            match is_denied(fields) {
                true => self.denied.insert(hook),
                false => self.denied.remove(&hook),
            };
        }
    }
}

/// The runs of a journal, as they are read.
struct Log {
    /// The columns of a hook; `None` = as many as it has.
    columns: Option<usize>,
    denied: bool,
    home: Option<PathBuf>,
    is_person: bool,
    json: bool,
    open: BTreeMap<String, Begun>,
    /// The number of runs that were read.
    read: usize,
    /// The number of runs that were shown.
    shown: usize,
    style: Style,
    zone: TimeZone,
}

/// The members of a run's first record.
#[derive(Clone, Debug, Default)]
struct Begun {
    command: Option<CommandLine>,
    contract: String,
    is_selected: bool,
    /// Whether it is no call of a runtime's, but a rehearsal's or of learning.
    is_trial: bool,
    name: String,
    point: String,
    profile: Option<String>,
    session: String,
    time: String,
    unconfined: bool,
    workspace: Option<String>,
}

impl Begun {
    /// Returns the command whose needs `hookjail learn` can find: a whole one, and none that posts, which takes no other profile.
    fn learned(&self) -> Option<&CommandLine> {
        let is_posted = self.profile.as_deref() == Some(POST_PROFILE);
        let command = self.command.as_ref();
        command.filter(|it| !it.lossy && it.whole.is_none() && !is_posted)
    }

    fn new(fields: &RecordFields<'_>, is_selected: bool) -> Self {
        Self {
            command: fields.command.clone(),
            contract: fields.contract.clone().into_owned(),
            is_selected,
            is_trial: fields.consent == Consent::Trial.name(),
            name: fields.hook.clone().into_owned(),
            point: fields.point.clone().into_owned(),
            profile: fields.profile.clone().map(Into::into),
            session: fields.session.clone().into_owned(),
            time: fields.time.clone().into_owned(),
            unconfined: fields.unconfined,
            workspace: fields.workspace.clone().map(Into::into),
        }
    }
}

/// The end of a run, by the word that JSON has.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Ending {
    Asked,
    Canceled,
    Crashed,
    Denied,
    EscapeAttempt,
    ExecFailed,
    Exited,
    Failed,
    Interrupted,
    Killed,
    Ok,
    Open,
    OutOfMemory,
    OutputLimit,
    PidsExhausted,
    Refused,
    TimedOut,
}

/// A run, as JSON has it.
#[derive(Debug, Serialize)]
struct RunLine<'a> {
    time: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    run_id: &'a str,
    contract: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    point: &'a str,
    hook: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    session: &'a str,
    outcome: Ending,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    denied: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    egress: &'a [EgressLine],
    refused_lines: usize,
    unconfined: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    withheld: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wall_us: Option<u64>,
}

impl Shown for Log {
    const NEEDS_ALL: bool = true;

    fn record(
        &mut self,
        _line: &[u8],
        fields: &RecordFields<'_>,
        is_selected: bool,
    ) -> Option<Vec<u8>> {
        if fields.record == "started" {
            // Ids begin with the time of the run, so the first is the oldest, whose end is the least likely to come.
            if self.open.len() >= MAX_OPEN_RUNS {
                self.open.pop_first();
            }
            let begun = Begun::new(fields, is_selected);
            self.open.insert(fields.run_id.clone().into_owned(), begun);
            return None;
        }
        fields.end()?;
        let begun = self.open.remove(&*fields.run_id);
        if begun.as_ref().is_some_and(|begun| begun.is_trial) {
            return None;
        }
        self.read += 1;
        let is_shown = is_selected && (!self.denied || is_denied(fields));
        let begun = begun.unwrap_or_else(|| Begun::new(fields, is_selected));
        is_shown.then(|| self.text(&begun, fields))
    }

    fn rest(&mut self) -> Vec<Vec<u8>> {
        let open = std::mem::take(&mut self.open).into_iter();
        let open: Vec<_> = open.filter(|(_, begun)| !begun.is_trial).collect();
        self.read += open.len();
        let open = open.into_iter();
        let open = open.filter(|(_, begun)| begun.is_selected && !self.denied);
        let open: Vec<_> = open.collect();
        let shown = open.iter().map(|(run_id, begun)| {
            let fields = RecordFields {
                run_id: run_id.into(),
                time: (&begun.time).into(),
                ..RecordFields::default()
            };
            self.text(begun, &fields)
        });
        shown.collect()
    }
}

impl Log {
    fn new(context: &Context, denied: bool) -> Self {
        let is_person = io::stdout().is_terminal();
        let [least, most] = HOOK_COLUMNS;
        let size = terminal_size::terminal_size().filter(|_| is_person);
        let columns = size.map(|(width, _)| (usize::from(width.0) / 3).clamp(least, most));
        Self {
            columns,
            denied,
            home: context.call.paths.home.clone(),
            is_person,
            json: context.call.json,
            open: BTreeMap::new(),
            read: 0,
            shown: 0,
            style: Style::of_stdout(),
            zone: TimeZone::system(),
        }
    }

    /// Returns what is printed for a run that ended, or has no end yet.
    fn text(&mut self, begun: &Begun, fields: &RecordFields<'_>) -> Vec<u8> {
        self.shown += 1;
        if self.json {
            let json = serde_json::to_string(&self.line(begun, fields)).unwrap_or_default();
            return format!("{}\n", visible_json(&json)).into_bytes();
        }
        let words = self.words(begun, fields);
        output::shown(&format!("{words}\n")).as_bytes().to_owned()
    }

    fn line<'a>(&self, begun: &'a Begun, fields: &'a RecordFields<'_>) -> RunLine<'a> {
        RunLine {
            time: &fields.time,
            run_id: &fields.run_id,
            contract: &begun.contract,
            point: &begun.point,
            hook: label(begun, self.home.as_deref()),
            name: &begun.name,
            command: begun.command.as_ref().map(|command| &*command.argv),
            workspace: begun.workspace.as_deref(),
            profile: begun.profile.as_deref(),
            session: &begun.session,
            outcome: ending(fields),
            exit_code: fields.exit_code,
            signal: fields.signal,
            decision: fields.verdict.as_ref().map(|verdict| &*verdict.decision),
            reason: &fields.reason,
            count: fields.count,
            denied: &fields.denied,
            egress: &fields.egress,
            refused_lines: fields.refused_lines,
            unconfined: begun.unconfined,
            withheld: fields.withheld(),
            wall_us: fields.usage.map(|usage| usage.wall_us),
        }
    }

    fn words(&self, begun: &Begun, fields: &RecordFields<'_>) -> String {
        let runtime = match &*begun.contract {
            "" => "-".to_owned(),
            contract => plain(&contract.replace('_', "-")),
        };
        let hook = plain(&label(begun, self.home.as_deref()));
        let hook = match self.columns {
            Some(columns) => cut(&hook, columns),
            None => hook,
        };
        let columns = self.columns.unwrap_or(HOOK_COLUMNS[0]);
        let mut words = format!(
            "{}  {runtime:<RUNTIME_COLUMNS$}  {hook:<columns$}  {}",
            self.time(&fields.time),
            self.end(fields),
        );
        if begun.unconfined {
            words.push_str(&format!("; {}", self.style.bad("UNCONFINED")));
        }
        if fields.withheld().is_some() {
            words.push_str("; without a workspace");
        }
        let denied = denials(fields);
        if !denied.is_empty() {
            let denied = self.style.bad(&format!("denied {}", denied.join(", ")));
            words.push_str(&format!("; confinement {denied}"));
        }
        for failure in unreached(fields) {
            words.push_str(&format!("; {failure}"));
        }
        if let Some(help) = self.help(begun, fields) {
            words.push_str(&format!("; {help}"));
        }
        words
    }

    /// Returns the local time of a record, with the date where it is not today's.
    fn time(&self, text: &str) -> String {
        let Ok(time) = text.parse::<Timestamp>() else {
            return plain(text);
        };
        local_time(time, &self.zone)
    }

    /// Describes how a run ended.
    fn end(&self, fields: &RecordFields<'_>) -> String {
        let ending = ending(fields);
        let words = plain(&end_words(fields, ending));
        let denies = fields
            .verdict
            .iter()
            .any(|verdict| is_no(&verdict.decision));
        let denies = match denies && ending != Ending::Denied {
            true => ", which denies",
            false => "",
        };
        let looked_on = fields.verdict.iter().any(|verdict| verdict.only_looked_on);
        let looked_on = if looked_on { " (only looked on)" } else { "" };
        let words = format!("{words}{denies}");
        let words = match ending {
            Ending::Ok | Ending::Exited => self.style.good(&words),
            Ending::Asked | Ending::Denied | Ending::Open => self.style.warn(&words),
            Ending::Canceled
            | Ending::Crashed
            | Ending::EscapeAttempt
            | Ending::ExecFailed
            | Ending::Failed
            | Ending::Interrupted
            | Ending::Killed
            | Ending::OutOfMemory
            | Ending::OutputLimit
            | Ending::PidsExhausted
            | Ending::Refused
            | Ending::TimedOut => self.style.bad(&words),
        };
        format!("{words}{looked_on}")
    }

    /// Returns the command that helps against a refusal or a denial.
    ///
    /// The one that lifts a refusal is for people only: a program that reads it may pass it to a model.
    fn help(&self, begun: &Begun, fields: &RecordFields<'_>) -> Option<String> {
        if is_without_consent(fields) {
            let workspace = begun.workspace.as_deref();
            let place = workspace.map(|place| format!(" {}", self.place(place)));
            let allow = format!("to allow it: hookjail allow{}", place.unwrap_or_default());
            return self.is_person.then_some(allow);
        }
        let learns = HAS_LEARN && is_denied(fields) && fields.record == "ended";
        let command = begun.learned().filter(|_| learns)?;
        let current = env::current_dir().unwrap_or_default();
        let workspace = begun.workspace.as_ref();
        let workspace = workspace.filter(|workspace| Path::new(workspace) != current);
        let mut words: Vec<OsString> = vec!["hookjail".into(), "learn".into()];
        if let Some(runtime) = runtime(&begun.contract) {
            words.extend(["--as".into(), runtime.name.into()]);
        }
        words.extend(workspace.map(|workspace| format!("--workspace={workspace}").into()));
        words.push("--".into());
        words.extend(command.argv.iter().map(Into::into));
        Some(format!("to see its needs: {}", plain(&shell_line(&words))))
    }

    /// Returns a directory as a shell reads it.
    fn place(&self, directory: &str) -> String {
        let quoted = |path: &str| shell_line(&[path]);
        let home = self.home.as_deref();
        let below = home.and_then(|home| Path::new(directory).strip_prefix(home).ok());
        let below = below
            .and_then(Path::to_str)
            .filter(|below| !below.is_empty());
        match below {
            Some(below) if quoted(below) == below => plain(&format!("~/{below}")),
            Some(_) | None => plain(&quoted(directory)),
        }
    }
}

/// Returns the local time, with the date where it is not today's.
fn local_time(time: Timestamp, zone: &TimeZone) -> String {
    let time = time.to_zoned(zone.clone());
    let now = Zoned::now().with_time_zone(zone.clone());
    let form = match time.date() == now.date() {
        true => "%H:%M:%S",
        false => "%Y-%m-%d %H:%M:%S",
    };
    time.strftime(form).to_string()
}

/// Returns the runtime whose own a contract is, if hookjail can stand in for its hooks.
pub(super) fn runtime(contract: &str) -> Option<Adopted> {
    let letters = |name: &str| name.replace(['-', '_'], "");
    let mut all = Adopted::all().into_iter();
    // Some share a contract; its own has its name.
    all.find(|adopted| {
        adopted.mode.facts().contract == contract && letters(adopted.name) == letters(contract)
    })
}

/// Returns whether a request was refused for lack of a consent to its command as it is.
fn is_without_consent(fields: &RecordFields<'_>) -> bool {
    let reasons = [
        Reason::ConsentRequired,
        Reason::DigestMismatch,
        Reason::NotAllowlisted,
    ];
    fields.record == "refused"
        && reasons
            .iter()
            .any(|reason| fields.reason == reason.as_str())
}

/// Returns whether a record is that of a refusal, or of a run in which confinement denied something.
fn is_denied(fields: &RecordFields<'_>) -> bool {
    fields.record == "refused"
        || !fields.denied.is_empty()
        || fields.refused_lines > 0
        || fields.outcome == Some(OutcomeKind::EscapeAttempt)
}

fn is_no(decision: &str) -> bool {
    matches!(decision, "BLOCK" | "DENY")
}

fn ending(fields: &RecordFields<'_>) -> Ending {
    let verdict = fields.verdict.as_ref();
    let failed = verdict.is_some_and(|verdict| verdict.failed);
    let decision = verdict.map_or("", |verdict| &verdict.decision);
    match (&*fields.record, fields.outcome) {
        ("refused", _) => Ending::Refused,
        ("interrupted", _) => Ending::Interrupted,
        (_, None) => Ending::Open,
        (_, Some(OutcomeKind::Canceled)) => Ending::Canceled,
        (_, Some(OutcomeKind::EscapeAttempt)) => Ending::EscapeAttempt,
        (_, Some(OutcomeKind::ExecFailed)) => Ending::ExecFailed,
        (_, Some(OutcomeKind::Exited)) if failed => Ending::Failed,
        (_, Some(OutcomeKind::Exited)) if is_no(decision) => Ending::Denied,
        (_, Some(OutcomeKind::Exited)) if decision == "ASK" => Ending::Asked,
        (_, Some(OutcomeKind::Exited)) if fields.exit_code == Some(0) => Ending::Ok,
        (_, Some(OutcomeKind::Exited)) => Ending::Exited,
        (_, Some(OutcomeKind::Killed)) => Ending::Killed,
        (_, Some(OutcomeKind::OutOfMemory)) => Ending::OutOfMemory,
        (_, Some(OutcomeKind::OutputLimit)) => Ending::OutputLimit,
        (_, Some(OutcomeKind::PidsExhausted)) => Ending::PidsExhausted,
        (_, Some(OutcomeKind::Signaled)) => Ending::Crashed,
        (_, Some(OutcomeKind::TimedOut)) => Ending::TimedOut,
    }
}

fn end_words(fields: &RecordFields<'_>, ending: Ending) -> String {
    let code = fields.exit_code.unwrap_or_default();
    let fixed = match ending {
        Ending::Asked => "asks the user",
        Ending::Canceled => "canceled",
        Ending::Crashed => {
            return format!("crashed (signal {})", fields.signal.unwrap_or_default());
        }
        Ending::Denied => "denied by the hook",
        Ending::EscapeAttempt => "killed by confinement",
        Ending::ExecFailed => "could not be executed",
        Ending::Exited => return format!("exit {code}"),
        Ending::Failed => return format!("failed (exit {code})"),
        Ending::Interrupted => "interrupted: its daemon died",
        Ending::Killed => "killed by an operator",
        Ending::Ok => "ok",
        Ending::Open => "not ended",
        Ending::OutOfMemory => "out of memory",
        Ending::OutputLimit => "printed too much",
        Ending::PidsExhausted => "too many processes",
        Ending::Refused => return refusal_words(fields),
        Ending::TimedOut => "timed out",
    };
    fixed.to_owned()
}

/// Describes a refusal: its reason, and unless a consent lifts it its message.
fn refusal_words(fields: &RecordFields<'_>) -> String {
    let count = fields
        .count
        .map_or_else(String::new, |count| format!(" {count} times"));
    // The journal's message ends with the command that lifts the refusal.
    let message = fields.message.split("; to allow it: ").next();
    let message = message.filter(|message| !is_without_consent(fields) && !message.is_empty());
    let message = message.map(|message| format!(": {}", cut(message, MESSAGE_CHARS)));
    format!(
        "refused {}{count}{}",
        fields.reason,
        message.unwrap_or_default()
    )
}

/// Describes what confinement denied, as far as the record has it.
fn denials(fields: &RecordFields<'_>) -> Vec<String> {
    let mut denied: Vec<String> = Vec::new();
    let hosts = fields.egress.iter().filter(|it| it.denied.is_some());
    let hosts: Vec<_> = distinct(hosts.map(place));
    for call in &fields.denied {
        let word = match call.as_str() {
            "connect" if !hosts.is_empty() => continue,
            "socket" => "the network",
            "clone" | "clone3" | "fork" | "vfork" => "processes",
            call => call,
        };
        if !denied.iter().any(|known| known == word) {
            denied.push(plain(word));
        }
    }
    denied.extend(hosts);
    let kept = fields
        .stderr
        .as_ref()
        .and_then(|stderr| stderr.kept.as_ref());
    let kept = kept.map_or("", |kept| &kept.text);
    let refused = match fields.refused_lines {
        0 => Vec::new(),
        _ => refusals(kept.as_bytes()),
    };
    let lines = kept.lines().map(str::trim_end);
    let lines = lines.filter(|line| refused.contains(&line.to_lowercase()));
    let named: Vec<_> = lines
        .take(NAMED)
        .map(|line| format!("`{}`", plain(line)))
        .collect();
    denied.extend(match (named.is_empty(), fields.refused_lines) {
        (false, _) => named,
        (true, 0) => Vec::new(),
        (true, 1) => vec!["a file (1 line of its stderr)".to_owned()],
        (true, lines) => vec![format!("files ({lines} lines of its stderr)")],
    });
    denied
}

/// Describes the connections that the network failed.
fn unreached(fields: &RecordFields<'_>) -> Vec<String> {
    let failed = fields.egress.iter().filter_map(|line| {
        let why = line.failed.as_deref()?;
        Some(format!("{} {}", place(line), plain(why)))
    });
    distinct(failed)
}

fn place(line: &EgressLine) -> String {
    plain(&format!("{}:{}", line.host, line.port))
}

/// Returns the first texts, each once.
fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut first: Vec<String> = Vec::new();
    for text in texts {
        if first.len() < NAMED && !first.contains(&text) {
            first.push(text);
        }
    }
    first
}

/// Returns the label of a hook: its name, or its script's in the project, or its command line.
fn label(begun: &Begun, home: Option<&Path>) -> String {
    if !begun.name.is_empty() {
        return begun.name.clone();
    }
    let words = begun
        .command
        .as_ref()
        .map_or(&[][..], |command| &command.argv);
    match words {
        [] => "-".to_owned(),
        // The line of a shell.
        [_, option, line] if option == "-c" => line.clone(),
        [program, script, rest @ ..] if program.starts_with('/') && script.starts_with('/') => {
            joined(begun, home, script, rest)
        }
        [program, rest @ ..] => joined(begun, home, program, rest),
    }
}

fn joined(begun: &Begun, home: Option<&Path>, program: &str, rest: &[String]) -> String {
    let path = Path::new(program);
    let workspace = begun.workspace.as_deref().map(Path::new);
    let below = |directory: Option<&Path>| path.strip_prefix(directory?).ok()?.to_str();
    let first = match (below(workspace), below(home)) {
        (Some(below), _) => below.to_owned(),
        (None, Some(below)) => format!("~/{below}"),
        (None, None) => {
            let name = path.file_name().and_then(|name| name.to_str());
            name.unwrap_or(program).to_owned()
        }
    };
    let rest = rest.iter().map(String::as_str);
    let words: Vec<_> = [&*first].into_iter().chain(rest).collect();
    words.join(" ")
}

/// Shortens a text to a number of characters.
fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some(_) => {
            let kept = text.chars().take(chars.saturating_sub(1));
            kept.chain(['…']).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_named_as_a_person_knows_it() {
        let home = Path::new("/home/you");
        for (name, argv, expected) in [
            ("guard", &["/bin/true"][..], "guard"),
            (
                "",
                &["/home/you/app/.claude/hooks/guard.sh"],
                ".claude/hooks/guard.sh",
            ),
            (
                "",
                &["/bin/sh", "/home/you/app/hooks/a.sh", "-x"],
                "hooks/a.sh -x",
            ),
            (
                "",
                &["/bin/sh", "-c", "git diff | grep x"],
                "git diff | grep x",
            ),
            ("", &["/home/you/.claude/b.py"], "~/.claude/b.py"),
            ("", &["/usr/bin/git", "diff"], "git diff"),
            ("", &["python3", "guard.py"], "python3 guard.py"),
            ("", &[], "-"),
        ] {
            let argv: Vec<_> = argv.iter().map(|word| OsString::from(*word)).collect();
            let begun = Begun {
                command: (!argv.is_empty()).then(|| CommandLine::new(&argv)),
                name: name.to_owned(),
                workspace: Some("/home/you/app".to_owned()),
                ..Begun::default()
            };
            assert_eq!(label(&begun, Some(home)), expected);
        }
    }

    #[test]
    fn an_end_has_a_word_for_programs_and_words_for_people() {
        let outcome = |json: &str, expected: Ending, words: &str| {
            let line = format!("{{\"sequence\":1,\"time\":\"\",{json}}}");
            let fields = RecordFields::read(line.as_bytes()).unwrap();
            let ending = ending(&fields);
            assert_eq!(
                (ending, &*end_words(&fields, ending)),
                (expected, words),
                "{json}"
            );
        };
        let exited = |code: i32, decision: &str, failed: bool| {
            format!(
                "\"record\":\"ended\",\"outcome\":\"exited\",\"exit_code\":{code},\
                 \"verdict\":{{\"decision\":\"{decision}\",\"failed\":{failed}}}"
            )
        };
        outcome(&exited(0, "NONE", false), Ending::Ok, "ok");
        outcome(
            &exited(2, "DENY", false),
            Ending::Denied,
            "denied by the hook",
        );
        outcome(&exited(1, "NONE", true), Ending::Failed, "failed (exit 1)");
        outcome(&exited(3, "NONE", false), Ending::Exited, "exit 3");
        outcome(&exited(0, "ASK", false), Ending::Asked, "asks the user");
        let crashed = r#""record":"ended","outcome":"signaled","signal":11"#;
        outcome(crashed, Ending::Crashed, "crashed (signal 11)");
        let refused = r#""record":"refused","reason":"OVERLOADED","count":7,"message":"no place; to allow it: x""#;
        outcome(
            refused,
            Ending::Refused,
            "refused OVERLOADED 7 times: no place",
        );
        let consent = r#""record":"refused","reason":"CONSENT_REQUIRED","message":"no""#;
        outcome(consent, Ending::Refused, "refused CONSENT_REQUIRED");
        outcome(
            r#""record":"interrupted""#,
            Ending::Interrupted,
            "interrupted: its daemon died",
        );
        outcome(r#""record":"started""#, Ending::Open, "not ended");
    }

    #[test]
    fn a_contract_has_its_own_runtime_and_a_shared_one_has_none() {
        let name = |contract| runtime(contract).map(|runtime| runtime.name);
        for (contract, expected) in [
            ("claude_code", Some("claude-code")),
            ("basecoat", Some("base-coat")),
            ("docker_agent", Some("docker-agent")),
            ("observe", None),
            ("", None),
        ] {
            assert_eq!(name(contract), expected, "{contract}");
        }
    }

    #[test]
    fn what_was_denied_is_named_by_what_the_record_has() {
        let denied = |json: &str| {
            let line = format!("{{\"sequence\":1,\"record\":\"ended\",{json}}}");
            denials(&RecordFields::read(line.as_bytes()).unwrap())
        };
        assert_eq!(
            denied(r#""denied":["socket","fork","vfork","mount"]"#),
            ["the network", "processes", "mount"]
        );
        let line = |host: &str, end: &str| {
            format!(
                r#"{{"host":"{host}","port":443,{end},"sent_bytes":0,"received_bytes":0,"ms":1}}"#
            )
        };
        let no_rule = r#""denied":"is not in `egress`""#;
        let egress = [
            line("a.org", no_rule),
            line("a.org", no_rule),
            line("b.org", r#""failed":"has no address: x""#),
            line("b.org", r#""failed":"has no address: x""#),
        ];
        let egress = format!(r#""denied":["connect"],"egress":[{}]"#, egress.join(","));
        assert_eq!(denied(&egress), ["a.org:443"]);
        let line = format!("{{\"sequence\":1,\"record\":\"ended\",{egress}}}");
        assert_eq!(
            unreached(&RecordFields::read(line.as_bytes()).unwrap()),
            ["b.org:443 has no address: x"]
        );
        assert_eq!(
            denied(r#""refused_lines":2"#),
            ["files (2 lines of its stderr)"]
        );
        let kept = r#""stderr":{"total_bytes":9,"truncated":false,"kept":{"text":"fine\ncat: /X: Permission denied\n"}}"#;
        assert_eq!(
            denied(&format!("\"refused_lines\":1,{kept}")),
            ["`cat: /X: Permission denied`"]
        );
        // The daemon counted none: the hook quotes its event, or the file is closed without confinement, too.
        assert!(denied(kept).is_empty());
    }
}
