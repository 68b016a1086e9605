//! A daemon, its callers, and what is true of both when a fault is over.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use hookjail::audit::read::Reader;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::{
    Fault,
    load::{Call, Load, Said, make_marks, marks, says_it_did_not_run, says_it_is_done},
    support::{Daemon, Setup, directory},
    witness::{a_minute, hookjail, processes_with, zombies_of},
};

/// How long what runs left may take to be gone once nobody asks any more.
const SETTLED: Duration = Duration::from_secs(10);

/// What a fault does its work with.
#[derive(Debug)]
pub(crate) struct Scene {
    bound: Duration,
    calls: Vec<Call>,
    daemon: Option<Daemon>,
    load: Option<Load>,
    long: bool,
    marker: String,
    name: &'static str,
    /// What a daemon holds while nobody asks.
    idle: Held,
    rounds: usize,
    served_again: Duration,
    setup: Setup,
    what: &'static str,
    wrong: Vec<String>,
}

impl Scene {
    pub(crate) fn new(fault: &Fault, long: bool) -> Self {
        Self {
            bound: fault.bound,
            calls: Vec::new(),
            daemon: None,
            idle: Held::default(),
            load: None,
            long,
            marker: a_minute(),
            name: fault.name,
            rounds: 0,
            served_again: Duration::ZERO,
            setup: Setup::default(),
            what: fault.what,
            wrong: Vec::new(),
        }
    }

    /// Returns how often a fault is played, in the short form and in the long one, and says so in the table.
    pub(crate) fn rounds(&mut self, short: usize, long: usize) -> usize {
        self.rounds = if self.long { long } else { short };
        self.rounds
    }

    /// Lets the load run for a while: a second, or five in the long form.
    pub(crate) async fn a_while(&self) {
        tokio::time::sleep(Duration::from_secs(if self.long { 5 } else { 1 })).await;
    }

    /// Starts the daemon, and has it do everything once, so that what it holds while nobody asks can be compared with what it
    /// holds in the end.
    pub(crate) async fn start(&mut self, setup: Setup) {
        self.start_in(directory(), setup).await;
    }

    /// Does so in a directory that is already there.
    pub(crate) async fn start_in(&mut self, directory: tempfile::TempDir, setup: Setup) {
        self.setup = setup.clone();
        self.daemon = Some(Daemon::in_directory(directory, setup).await.unwrap());
        make_marks(&self.daemon().workspace());
        let load = self.callers(8, "warm");
        tokio::time::sleep(Duration::from_millis(700)).await;
        self.calls.extend(load.end().await);
        self.settle(|held| held.is_settled()).await;
        self.idle = self.held();
        assert!(self.idle.is_settled(), "before the fault: {:?}", self.idle);
    }

    /// Returns the daemon that serves now.
    pub(crate) fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().expect("a daemon was started")
    }

    /// Returns the directory of the daemon.
    pub(crate) fn home(&self) -> PathBuf {
        self.daemon().path().to_owned()
    }

    /// Sends the daemon a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.daemon().pid()).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    /// Has callers ask until the end.
    pub(crate) fn load(&mut self, callers: usize) {
        assert!(self.load.is_none(), "there is one load");
        self.load = Some(self.callers(callers, "load"));
    }

    fn callers(&self, count: usize, word: &str) -> Load {
        let (home, workspace) = (self.home(), self.daemon().workspace());
        Load::begin(count, word, &home.join("sock"), &workspace, &self.marker)
    }

    /// Kills the daemon, and starts the next one on its state.
    pub(crate) async fn kill_and_restart(&mut self) {
        let directory = self.daemon.take().expect("a daemon runs").kill();
        let next = Daemon::in_directory(directory, self.setup.clone()).await;
        self.daemon = Some(next.expect("the next daemon starts on the same state"));
    }

    /// Waits until every caller had a hook done that it asked for after a moment; notes how long that took.
    pub(crate) async fn served_again(&mut self, since: Instant) {
        let load = self.load.as_ref().expect("there is a load");
        let callers = load.callers();
        loop {
            let first = load.so_far(|calls| {
                let mut first = BTreeMap::new();
                for call in calls.iter().rev().take_while(|call| call.answered >= since) {
                    if call.asked >= since && says_it_is_done(&call.said) {
                        first.insert(call.caller, call.answered - since);
                    }
                }
                first
            });
            if first.len() == callers {
                let last = first.into_values().max().unwrap_or_default();
                self.served_again = self.served_again.max(last);
                return;
            }
            if since.elapsed() > self.bound {
                let unserved = callers - first.len();
                let bound = self.bound;
                self.wrong(format!(
                    "{unserved} of {callers} callers are not served within {bound:?}"
                ));
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Notes what must not be.
    pub(crate) fn wrong(&mut self, what: String) {
        self.wrong.push(what);
    }

    fn held(&self) -> Held {
        let daemon = self.daemon();
        let config = daemon.path().join("hookjail.toml").display().to_string();
        Held {
            daemons: processes_with(&config).len(),
            descriptors: descriptors(daemon.pid()),
            hooks: processes_with(&self.marker),
            scratch: daemon.scratch_directories(),
            zombies: zombies_of(daemon.pid()),
        }
    }

    /// Waits until something holds of what the daemon holds, but not for ever.
    async fn settle(&self, holds: impl Fn(&Held) -> bool) {
        let give_up = Instant::now() + SETTLED;
        while !holds(&self.held()) && Instant::now() < give_up {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Ends the load and then the daemon, and judges both.
    pub(crate) async fn end(mut self) -> Row {
        if let Some(load) = self.load.take() {
            self.calls.extend(load.end().await);
        }
        let idle = self.idle.clone();
        self.settle(|held| held.is_settled() && held.beyond(&idle).is_empty())
            .await;
        let held = self.held();
        let home = self.home();
        let marks = marks(&self.daemon().workspace());

        self.signal(Signal::SIGTERM);
        let give_up = Instant::now() + SETTLED;
        let status = loop {
            let status = self.daemon.as_mut().unwrap().child().try_wait().unwrap();
            if status.is_some() || Instant::now() > give_up {
                break status;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        if status.and_then(|status| status.code()) != Some(0) {
            self.wrong(format!("the daemon ends with {status:?}"));
        }
        let verified = hookjail(&home.join("hookjail.toml"), &["audit", "verify"])
            .output()
            .unwrap();
        if !verified.status.success() {
            self.wrong(format!("audit verify: {verified:?}"));
        }
        let mut judged = Judged::default();
        judged.journal(&self.calls, &marks, &records(&home.join("state/audit")));
        judged.words(&self.calls, &marks);
        let beyond = held.beyond(&self.idle);
        let silent = |call: &&Call| matches!(call.said, Said::Nothing);
        let silent = self.calls.iter().filter(silent).count();
        if silent > 0 {
            self.wrong(format!("{silent} calls were not answered"));
        }
        let mut saw = BTreeMap::new();
        for call in &self.calls {
            *saw.entry(call.said.label()).or_default() += 1;
        }
        Row {
            beyond,
            doubled: judged.doubled,
            untrue: judged.untrue,
            hooks: held.hooks,
            lost: judged.lost,
            name: self.name,
            rounds: self.rounds,
            saw,
            scratch: held.scratch,
            served_again: self.served_again,
            what: self.what,
            wrong: self.wrong,
            zombies: held.zombies,
        }
    }
}

/// What a daemon holds at a moment.
#[derive(Clone, Debug, Default)]
struct Held {
    /// The daemon and its keeper.
    daemons: usize,
    descriptors: BTreeMap<String, usize>,
    hooks: Vec<String>,
    scratch: Vec<PathBuf>,
    zombies: Vec<String>,
}

impl Held {
    fn is_settled(&self) -> bool {
        self.hooks.is_empty() && self.scratch.is_empty() && self.zombies.is_empty()
    }

    /// Returns which descriptors and processes there are more of than before.
    fn beyond(&self, before: &Self) -> Vec<String> {
        let mut beyond: Vec<_> = self
            .descriptors
            .iter()
            .filter_map(|(what, count)| {
                let more = count.saturating_sub(*before.descriptors.get(what).unwrap_or(&0));
                (more > 0).then(|| format!("{more} more of {what}"))
            })
            .collect();
        if self.daemons > before.daemons {
            beyond.push(format!(
                "{} processes of the daemon, not {}",
                self.daemons, before.daemons
            ));
        }
        beyond
    }
}

/// Returns what a process has open, by kind. Locks of uids are no loss: a daemon keeps a few for the next hooks.
fn descriptors(pid: u32) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
        let Ok(target) = fs::read_link(entry.unwrap().path()) else {
            continue;
        };
        let target = target.display().to_string();
        if target.contains("/uids/") {
            continue;
        }
        let kind = target.split_once(":[").map_or(&*target, |(kind, _)| kind);
        // What is made anew for each daemon or run has an id in its name.
        let nameless = |part: &str| match part.split_once('-') {
            Some((kind, _)) if !kind.starts_with(|first: char| first.is_ascii_digit()) => {
                format!("{kind}-ID")
            }
            Some(_) => "ID".to_owned(),
            None => part.to_owned(),
        };
        let kind: Vec<_> = kind.split('/').map(nameless).collect();
        *kinds.entry(kind.join("/")).or_default() += 1;
    }
    kinds
}

fn records(audit: &Path) -> Vec<Value> {
    let mut reader = Reader::open(audit);
    let mut records = Vec::new();
    while let Some(line) = reader.next_line().unwrap() {
        records.push(serde_json::from_slice(line).unwrap());
    }
    records
}

/// What answers, journal and marks say of each other.
#[derive(Debug, Default)]
struct Judged {
    doubled: Vec<String>,
    lost: Vec<String>,
    untrue: Vec<String>,
}

impl Judged {
    /// Everything that was acknowledged or ran is in the journal, once, and each run has its end.
    fn journal(&mut self, calls: &[Call], marks: &BTreeMap<String, usize>, records: &[Value]) {
        let text =
            |record: &Value, name: &str| record[name].as_str().unwrap_or_default().to_owned();
        // Files that were removed as too old are no loss.
        let oldest = records.first().map_or(0, |first| number(first, "sequence"));
        let mut by_sequence = BTreeMap::new();
        let mut started = BTreeMap::new();
        let mut ended = BTreeSet::new();
        let mut requests = BTreeSet::new();
        for record in records {
            let run = text(record, "run_id");
            by_sequence.insert(number(record, "sequence"), text(record, "hash"));
            match &*text(record, "record") {
                "started" => {
                    let request = text(record, "request_id");
                    requests.insert(request.clone());
                    if started.insert(run, request).is_some() {
                        self.doubled.push(format!("two starts: {record}"));
                    }
                }
                "ended" | "interrupted" => {
                    let is_first = ended.insert(run);
                    if !is_first {
                        self.doubled.push(format!("two ends: {record}"));
                    }
                }
                "refused" if !run.is_empty() => {
                    ended.insert(run);
                }
                "lost" => self.lost.push(format!("the journal says so: {record}")),
                _ => {}
            }
        }
        let open = started.iter().filter(|(run, _)| !ended.contains(*run));
        self.lost
            .extend(open.map(|(run, request)| format!("the end of run {run}, request {request}")));
        for call in calls {
            let Said::Ended(response) = &call.said else {
                continue;
            };
            let audit = response.audit.as_ref().unwrap();
            if audit.sequence >= oldest && by_sequence.get(&audit.sequence) != Some(&audit.hash) {
                self.lost
                    .push(format!("the end of {} that was answered", call.id));
            }
        }
        if oldest <= 1 {
            let unannounced = marks.keys().filter(|id| !requests.contains(*id));
            self.lost
                .extend(unannounced.map(|id| format!("the start of {id}, which ran")));
        }
    }

    /// What callers were told is what happened.
    fn words(&mut self, calls: &[Call], marks: &BTreeMap<String, usize>) {
        let mut answers = BTreeMap::<_, Vec<_>>::new();
        for call in calls {
            answers.entry(&call.id).or_default().push(&call.said);
        }
        for (id, said) in answers {
            let ran = marks.get(id).copied().unwrap_or_default();
            if ran > 1 {
                self.doubled.push(format!("{id} ran {ran} times"));
            }
            let told: Vec<_> = said.iter().map(|said| said.label()).collect();
            if ran == 0 && said.iter().any(|said| says_it_is_done(said)) {
                self.untrue.push(format!("{id} did not run: {told:?}"));
            }
            if ran > 0 && said.iter().all(|said| says_it_did_not_run(said)) {
                self.untrue.push(format!("{id} ran: {told:?}"));
            }
        }
    }
}

fn number(record: &Value, name: &str) -> u64 {
    record[name].as_u64().unwrap_or_default()
}

/// What a fault did, for the table.
#[derive(Debug)]
pub(crate) struct Row {
    beyond: Vec<String>,
    doubled: Vec<String>,
    hooks: Vec<String>,
    lost: Vec<String>,
    name: &'static str,
    rounds: usize,
    saw: BTreeMap<String, usize>,
    scratch: Vec<PathBuf>,
    served_again: Duration,
    untrue: Vec<String>,
    what: &'static str,
    wrong: Vec<String>,
    zombies: Vec<String>,
}

impl Row {
    /// The lines above the first row.
    pub(crate) const HEADER: &'static str = "\
        | fault | rounds | callers saw | all served again after | records lost, doubled | false words | left: processes, descriptors, directories, zombies |\n\
        |---|---|---|---|---|---|---|\n";

    /// Returns what must not be, if anything is.
    pub(crate) fn wrong(&self) -> Option<String> {
        let paths: Vec<_> = self
            .scratch
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let kinds = [
            ("wrong", &self.wrong),
            ("lost", &self.lost),
            ("doubled", &self.doubled),
            ("false", &self.untrue),
            ("left, processes", &self.hooks),
            ("left, descriptors", &self.beyond),
            ("left, directories", &paths),
            ("left, zombies", &self.zombies),
        ];
        let wrong: Vec<_> = kinds
            .into_iter()
            .filter(|(_, found)| !found.is_empty())
            .map(|(kind, found)| {
                // A few show what it is.
                let some: Vec<_> = found.iter().take(5).cloned().collect();
                format!("{kind}, {}: {}", found.len(), some.join("; "))
            })
            .collect();
        (!wrong.is_empty()).then(|| format!("{}: {}", self.name, wrong.join("\n")))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let saw: Vec<_> = self
            .saw
            .iter()
            .map(|(what, count)| format!("{count} {what}"))
            .collect();
        let again = self.served_again.as_millis();
        writeln!(
            f,
            "| {} | {} | {} | {again} ms | {}, {} | {} | {}, {}, {}, {} |",
            self.what,
            self.rounds,
            saw.join(", "),
            self.lost.len(),
            self.doubled.len(),
            self.untrue.len(),
            self.hooks.len(),
            self.beyond.len(),
            self.scratch.len(),
            self.zombies.len(),
        )
    }
}

/// Returns all rows as a table.
pub(crate) fn table(rows: &[Row]) -> String {
    let rows: String = rows.iter().map(ToString::to_string).collect();
    format!("{}{rows}", Row::HEADER)
}
