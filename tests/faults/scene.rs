//! A daemon, its callers, and what is true of both when a fault is over.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::{Path, PathBuf},
    process::ExitStatus,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::{
    Fault,
    judge::Judged,
    load::{Call, HOOKS, Load, NO_CALLER, Said, make_marks, make_script, marks, says_it_is_done},
    support::{Daemon, Setup, directory},
    witness::{a_minute, hookjail, processes_with, records, zombies_of},
};

/// The maximum time in which remains of runs are removed once no caller asks any more.
const SETTLED: Duration = Duration::from_secs(10);

/// The daemon and callers of a fault, with the results.
#[derive(Debug)]
pub(crate) struct Scene {
    /// Mounts and the like, which go before the directories of daemons do.
    kept: Vec<Box<dyn fmt::Debug + Send>>,
    calls: Vec<Call>,
    /// Daemons that were replaced: the next one has their resources too.
    earlier: Vec<Daemon>,
    daemon: Option<Daemon>,
    fault: Fault,
    load: Option<Load>,
    long: bool,
    marker: String,
    /// The resources of an idle daemon.
    idle: Held,
    rounds: usize,
    served_again: Duration,
    setup: Setup,
    wrong: Vec<String>,
}

impl Scene {
    pub(crate) fn new(fault: &Fault, long: bool) -> Self {
        Self {
            kept: Vec::new(),
            calls: Vec::new(),
            earlier: Vec::new(),
            daemon: None,
            fault: *fault,
            idle: Held::default(),
            load: None,
            long,
            marker: a_minute(),
            rounds: 0,
            served_again: Duration::ZERO,
            setup: Setup::default(),
            wrong: Vec::new(),
        }
    }

    /// Returns how often a fault is played, in the short form and in the long one, and notes it for the table.
    pub(crate) fn rounds(&mut self, short: usize, long: usize) -> usize {
        self.rounds = if self.long { long } else { short };
        self.rounds
    }

    /// Whether this is the long form.
    pub(crate) fn is_long(&self) -> bool {
        self.long
    }

    /// Lets the load run for a while: half a second, or two in the long form.
    pub(crate) async fn a_while(&self) {
        tokio::time::sleep(Duration::from_millis(if self.long { 2000 } else { 500 })).await;
    }

    /// Keeps something until the daemon is gone.
    pub(crate) fn keep(&mut self, what: impl fmt::Debug + Send + 'static) {
        self.kept.push(Box::new(what));
    }

    /// Returns what every process of the load's hooks has among its arguments.
    pub(crate) fn marker(&self) -> &str {
        &self.marker
    }

    /// Adds calls that others made.
    pub(crate) fn add(&mut self, calls: impl IntoIterator<Item = Call>) {
        self.calls.extend(calls);
    }

    /// Starts the daemon, and has it do everything once, so that its idle resources can be compared with those in the end.
    pub(crate) async fn start(&mut self, setup: Setup) {
        self.start_in(directory(), setup).await;
    }

    /// Does so in a directory that is already there.
    pub(crate) async fn start_in(&mut self, directory: tempfile::TempDir, setup: Setup) {
        self.setup = setup.clone();
        self.daemon = Some(Daemon::in_directory(directory, setup).await.unwrap());
        make_marks(&self.workspace());
        make_script(&self.workspace(), &self.marker);
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

    /// Returns the directory of the first daemon, which has the state and the workspaces of all.
    pub(crate) fn home(&self) -> PathBuf {
        let first = self.earlier.first();
        first.unwrap_or_else(|| self.daemon()).path().to_owned()
    }

    fn workspace(&self) -> PathBuf {
        self.home().join("workspace").canonicalize().unwrap()
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
        let socket = self.home().join("sock");
        Load::begin(count, word, &socket, &self.workspace(), &self.marker)
    }

    /// Kills the daemon, and starts the next one on its state.
    pub(crate) async fn kill_and_restart(&mut self) {
        let directory = self.daemon.take().expect("a daemon runs").kill();
        let next = Daemon::in_directory(directory, self.setup.clone()).await;
        self.daemon = Some(next.expect("the next daemon starts on the same state"));
    }

    /// Starts another daemon in a directory of its own, beside the one that serves now, and waits for that one's end.
    pub(crate) async fn replace(&mut self, directory: tempfile::TempDir, setup: Setup) {
        let next = Daemon::in_directory(directory, setup).await.unwrap();
        self.ended().await;
        self.earlier.extend(self.daemon.replace(next));
    }

    /// Waits for the end of the daemon, which was asked to end.
    pub(crate) async fn ended(&mut self) {
        let give_up = Instant::now() + SETTLED;
        let daemon = self.daemon.as_mut().expect("a daemon was started");
        let status = loop {
            let status = daemon.child().try_wait().unwrap();
            if status.is_some() || Instant::now() > give_up {
                break status;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        if status.and_then(|status| status.code()) != Some(0) {
            let log = self.daemon().log();
            let last = log.lines().last().unwrap_or_default();
            self.wrong(format!("the daemon ends with {status:?}: {last}"));
        }
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
            // The short form is played beside other tests that use all processors.
            let bound = match self.long {
                true => self.fault.bound,
                false => 2 * self.fault.bound,
            };
            if since.elapsed() > bound {
                let unserved = callers - first.len();
                self.wrong(format!(
                    "{unserved} of {callers} callers are not served within {bound:?}"
                ));
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until a caller gets an answer that begins like this: a fault that no caller notices may be none.
    pub(crate) async fn until_told(&mut self, what: &str) {
        let before = self.answered();
        let is_it = |call: &Call| call.said.label().starts_with(what);
        if self
            .load_shows(SETTLED, |calls| calls[before..].iter().any(is_it))
            .await
        {
            return;
        }
        let load = self.load.as_ref().expect("there is a load");
        let message = |call: &Call| call.said.refusal().map(str::to_owned);
        let others: BTreeSet<_> =
            load.so_far(|calls| calls[before..].iter().filter_map(message).collect());
        let others: Vec<_> = others.iter().take(3).collect();
        self.wrong(format!("no caller gets {what}, but {others:?}"));
    }

    /// Waits until each hook of the load has ended once. Then each has its consent, which takes room in the state.
    pub(crate) async fn until_each_has_ended(&mut self) {
        let has_each = |calls: &[Call]| {
            let hooks: BTreeSet<_> = calls.iter().filter_map(Call::ended_hook).collect();
            hooks.len() == HOOKS
        };
        if !self.load_shows(6 * SETTLED, has_each).await {
            self.wrong("some hook of the load has no end".to_owned());
        }
    }

    /// Waits until the load's answers hold; returns `false` where they do not in time.
    async fn load_shows(&self, bound: Duration, holds: impl Fn(&[Call]) -> bool) -> bool {
        let load = self.load.as_ref().expect("there is a load");
        let begun = Instant::now();
        while !load.so_far(&holds) {
            if begun.elapsed() > bound {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        true
    }

    /// Returns how many calls of the load were answered so far.
    pub(crate) fn answered(&self) -> usize {
        let load = self.load.as_ref().expect("there is a load");
        load.so_far(<[Call]>::len)
    }

    /// Returns how many of the load's hooks have an end, of the calls answered since a count of them.
    pub(crate) fn ended_since(&self, before: usize) -> usize {
        let load = self.load.as_ref().expect("there is a load");
        let is_end = |call: &&Call| !call.said.label().starts_with("AUDIT_UNAVAILABLE");
        load.so_far(|calls| calls[before..].iter().filter(is_end).count())
    }

    /// Returns how the daemon ended, if it did.
    pub(crate) fn has_ended(&mut self) -> Option<ExitStatus> {
        let daemon = self.daemon.as_mut().expect("a daemon was started");
        daemon.child().try_wait().unwrap()
    }

    /// Notes what must not be.
    pub(crate) fn wrong(&mut self, what: String) {
        self.wrong.push(what);
    }

    fn held(&self) -> Held {
        let daemon = self.daemon();
        let config = daemon.path().join("hookjail.toml").display().to_string();
        let daemons = self.earlier.iter().chain([daemon]);
        Held {
            daemons: processes_with(&config).len(),
            descriptors: descriptors(daemon.pid(), &[daemon.path(), &self.home()]),
            hooks: processes_with(&self.marker),
            scratch: daemons.flat_map(Daemon::scratch_directories).collect(),
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
        let marks = marks(&self.workspace());

        self.signal(Signal::SIGTERM);
        self.ended().await;
        let verified = hookjail(&home.join("hookjail.toml"), &["audit", "verify"])
            .output()
            .unwrap();
        if !verified.status.success() {
            self.wrong(format!("audit verify: {verified:?}"));
        }
        let records = records(&home);
        let judged = Judged::new(&self.calls, &marks, &records);
        let beyond = held.beyond(&self.idle);
        let silent = |call: &&Call| matches!(call.said, Said::Nothing);
        // Whether a daemon read a request shows on which side of the socket the answer is missing.
        let silent: Vec<_> = (self.calls.iter().filter(silent))
            .map(|call| {
                let is_of_it = |record: &&Value| record["request_id"] == call.id;
                let read = records.iter().filter(is_of_it).count();
                format!("{} ({read} records)", call.id)
            })
            .collect();
        if !silent.is_empty() {
            self.wrong(format!("calls were not answered: {silent:?}"));
        }
        let mut saw = BTreeMap::<_, usize>::new();
        let mut longest = Duration::ZERO;
        for call in &self.calls {
            *saw.entry(call.said.label()).or_default() += 1;
            if call.caller != NO_CALLER && says_it_is_done(&call.said) {
                longest = longest.max(call.answered - call.asked);
            }
        }
        let expected = |label: &str| {
            let always = ["EXITED", "TIMED_OUT", "DEADLINE"];
            always.contains(&label) || self.fault.told.contains(&label)
        };
        let unexpected: Vec<_> = saw.keys().filter(|label| !expected(label)).collect();
        if !unexpected.is_empty() {
            let unexpected = format!("unexpected answers: {unexpected:?}");
            self.wrong.push(unexpected);
        }
        if !self.fault.loses_answers && !judged.unanswered.is_empty() {
            let unanswered = format!("ran without an answer: {:?}", judged.unanswered);
            self.wrong.push(unanswered);
        }
        Row {
            beyond,
            doubled: judged.doubled,
            errors: errors(&self.daemon().log()),
            fault: self.fault,
            untrue: judged.untrue,
            hooks: held.hooks,
            longest,
            lost: judged.lost,
            rounds: self.rounds,
            saw,
            scratch: held.scratch,
            served_again: self.served_again,
            wrong: self.wrong,
            zombies: held.zombies,
        }
    }
}

/// The resources of a daemon at a moment.
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
fn descriptors(pid: u32, homes: &[&Path]) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    let process = PathBuf::from(format!("/proc/{pid}"));
    for entry in fs::read_dir(process.join("fd")).unwrap() {
        let Ok(target) = fs::read_link(entry.unwrap().path()) else {
            continue;
        };
        let mut homes = homes.iter().copied().chain([&*process]);
        let within = homes.find_map(|home| target.strip_prefix(home).ok());
        let target = within.unwrap_or(&target).display().to_string();
        // An upgrade of the host's packages may replace a file that is open.
        let target = target.trim_end_matches(" (deleted)");
        if target.contains("/uids/") {
            continue;
        }
        let kind = target.split_once(":[").map_or(target, |(kind, _)| kind);
        // A file that is made anew for each daemon or run has an id in its name.
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

/// Returns the last lines of a log that report an error.
fn errors(log: &str) -> Vec<String> {
    let is_error = |line: &&str| line.contains("ERROR");
    let errors: Vec<_> = log.lines().filter(is_error).map(str::to_owned).collect();
    errors[errors.len().saturating_sub(20)..].to_vec()
}

/// The results of a fault, for the table.
#[derive(Debug)]
pub(crate) struct Row {
    beyond: Vec<String>,
    doubled: Vec<String>,
    errors: Vec<String>,
    fault: Fault,
    hooks: Vec<String>,
    longest: Duration,
    lost: Vec<String>,
    rounds: usize,
    saw: BTreeMap<String, usize>,
    scratch: Vec<PathBuf>,
    served_again: Duration,
    untrue: Vec<String>,
    wrong: Vec<String>,
    zombies: Vec<String>,
}

impl Row {
    /// The lines above the first row.
    pub(crate) const HEADER: &'static str = "\
        | fault | rounds | callers saw | all served again after, longest call | records lost, doubled | false words | left: processes, descriptors, directories, zombies |\n\
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
                let cut = |text: &String| text.chars().take(500).collect::<String>();
                let some: Vec<_> = found.iter().take(5).map(cut).collect();
                format!("{kind}, {}: {}", found.len(), some.join("; "))
            })
            .collect();
        let errors = self.errors.join("\n");
        let wrong = wrong.join("\n");
        let name = self.fault.name;
        (!wrong.is_empty()).then(|| format!("{name}: {wrong}\nThe daemon logged:\n{errors}"))
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
        let longest = self.longest.as_millis();
        writeln!(
            f,
            "| {} | {} | {} | {again} ms, {longest} ms | {}, {} | {} | {}, {}, {}, {} |",
            self.fault.what,
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
