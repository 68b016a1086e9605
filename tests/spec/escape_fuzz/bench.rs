//! Has calls made by a hook, and observes their effects: by the player's report, and from outside.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use hookjail::{
    model::ProfileName,
    pb,
    policy::{Access, Network, Policy, Registry},
};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use super::{
    calls::{Call, encode},
    generate::Pools,
    model::{Model, Report, Use, Verdict},
};
use crate::{
    attempts::{Ground, Probe, give},
    support::{Daemon, Setup, hook},
    witness::{event, processes_with, until, until_clean, until_gone, wall_time, zombies_of},
};

/// Where something new would be looked for.
const WATCHED: [&str; 6] = ["/", "/tmp", "/var/tmp", "/dev/shm", "/usr", "/run"];

/// A daemon, what could be reached, and the player.
pub(super) struct Bench {
    pub(super) daemon: Daemon,
    ground: Ground,
    /// Entries of the ground at first.
    laid: BTreeSet<PathBuf>,
    player: Probe,
    pub(super) pools: Pools,
    user: u32,
    /// Only its stand-in is used.
    _probe: Probe,
}

/// A profile under test, with its model.
#[derive(Clone, Debug)]
pub(super) struct Side {
    pub(super) model: Model,
    pub(super) profile: String,
}

/// Counts of calls and their results.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) allowed: u64,
    pub(super) calls: u64,
    pub(super) changed: u64,
    pub(super) distinct: BTreeSet<u32>,
    pub(super) ended: u64,
    /// Time until something was found.
    pub(super) found_after: Option<Duration>,
    pub(super) hooks: u64,
    pub(super) killed: u64,
    pub(super) opened: u64,
    pub(super) refused: u64,
}

/// A break of the model.
#[derive(Clone, Debug)]
pub(super) struct Break {
    /// The call, where one is to blame.
    pub(super) at: Option<usize>,
    pub(super) what: String,
}

/// Output of one hook.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Programs that calls have executed.
    pub(super) executed: Vec<String>,
    pub(super) finished: bool,
    pid: u32,
    pub(super) reports: Vec<Report>,
    scratch: PathBuf,
}

impl Bench {
    /// Starts a daemon, with elements of its policy taken out where tests are made to see that.
    pub(super) async fn start(weakened: Option<&str>) -> Self {
        // As shipped, the operator grants it command by command; that is not what is tried here.
        let outbound = "description = \"network for anyone\"\nextends = \"network\"\ngranted_by = \"anyone\"\n";
        let daemon = Daemon::with(Setup {
            env: weakened
                .map(|elements| ("HOOKJAIL_WEAKEN".to_owned(), elements.to_owned()))
                .into_iter()
                .collect(),
            profiles: vec![("outbound".to_owned(), outbound.to_owned())],
            ..Setup::default()
        })
        .await;
        let probe = Probe::build();
        let player = Probe::build_from("player.c", &["-fno-stack-protector"]);
        let user = probe.user(&daemon).await;
        let ground = Ground::lay(&daemon, &probe, user);
        let entries = [&ground.outside, &ground.workspace]
            .map(|directory| fs::read_dir(directory).unwrap().flatten());
        let laid = entries
            .into_iter()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        let (sockets, name) = ground.addresses();
        let pools = Pools::new(
            &ground.outside,
            &ground.workspace,
            name,
            &sockets,
            ground.victim(),
        );
        Self {
            _probe: probe,
            daemon,
            ground,
            laid,
            player,
            pools,
            user,
        }
    }

    /// Returns what holds under a shipped profile, or under `outbound`, which is `network` for anyone.
    pub(super) fn side(&self, profile: &str) -> Side {
        let shipped = if profile == "outbound" {
            "network"
        } else {
            profile
        };
        let policy = shipped_policy(shipped);
        let program = self.player.path();
        Side {
            model: Model::new(&policy, &self.ground.workspace, &program),
            profile: profile.to_owned(),
        }
    }

    /// Writes calls so that [`Bench::insert`] can put in what is there another time.
    pub(super) fn abstracted(&self, calls: &[Call]) -> String {
        let mut text = encode(calls, |_| false);
        for (name, value) in self.places() {
            text = text.replace(&value, name);
        }
        text
    }

    /// Puts the places of this ground into calls.
    pub(super) fn insert(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in self.places() {
            text = text.replace(name, &value);
        }
        text
    }

    fn places(&self) -> [(&'static str, String); 4] {
        [
            ("{outside}", self.ground.outside.display().to_string()),
            ("{workspace}", self.ground.workspace.display().to_string()),
            ("{marker}", self.ground.addresses().1.to_owned()),
            ("x{victim}", format!("x{:x}", self.ground.victim())),
        ]
    }

    /// Has a list of calls made, none of which kills, and returns the first fault. A call that ends its hook is made, and the
    /// next hook goes on behind it.
    pub(super) async fn round(
        &mut self,
        side: &Side,
        calls: &[Call],
        tally: &mut Tally,
    ) -> Option<Break> {
        let before = self.look(side);
        let mut from = 0;
        let mut first = None;
        while from < calls.len() {
            let (done, found) = self.play(side, &calls[from..], tally).await;
            if let Some(mut found) = found {
                found.at = found.at.map(|index| index + from);
                first = Some(found);
                break;
            }
            from += done;
        }
        let outside = self.look(side);
        if outside != before {
            let gone = before.iter().filter(|line| !outside.contains(line));
            let new = outside.iter().filter(|line| !before.contains(line));
            let what: Vec<_> = gone
                .map(|line| format!("- {line}"))
                .chain(new.map(|line| format!("+ {line}")))
                .collect();
            self.mend();
            first.get_or_insert(Break {
                at: None,
                what: format!("something outside has changed:\n{}", what.join("\n")),
            });
        }
        first
    }

    /// Has one call made that must kill.
    pub(super) async fn deadly(
        &mut self,
        side: &Side,
        call: &Call,
        tally: &mut Tally,
    ) -> Option<Break> {
        let before = self.look(side);
        let (response, heard) = self.hook(side, std::slice::from_ref(call), tally).await;
        let outcome = response.outcome.unwrap();
        tally.killed += 1;
        let ended = (outcome.kind(), outcome.signal);
        let fault = |what| Some(Break { at: Some(0), what });
        if ended != (pb::OutcomeKind::EscapeAttempt, Some(libc::SIGSYS))
            || !heard.reports.is_empty()
        {
            return fault(format!("must kill: {ended:?}, {:?}", heard.reports));
        }
        (self.look(side) != before)
            .then(|| fault("must kill, and something outside has changed".to_owned()))
            .flatten()
    }

    /// Has a hook make calls until it has made them all or one has ended it; returns how many it made.
    async fn play(&self, side: &Side, calls: &[Call], tally: &mut Tally) -> (usize, Option<Break>) {
        let (response, heard) = self.hook(side, calls, tally).await;
        let model = side.model.with_scratch(&heard.scratch);
        let blame = |index, what: String| {
            Some(Break {
                at: Some(index),
                what,
            })
        };
        for (index, (call, report)) in calls.iter().zip(&heard.reports).enumerate() {
            count(tally, &model, call, report);
            if let Some(fault) = model.fault(call, report, heard.pid) {
                return (index, blame(index, format!("{fault}: {report:?}")));
            }
        }
        let made = heard.reports.len();
        for program in &heard.executed {
            if !model.grants.allow(Path::new(program), Use::Execute) {
                return (made, blame(made, format!("{program} was executed")));
            }
        }
        if heard.finished {
            return (made, None);
        }
        tally.ended += 1;
        let outcome = response.outcome.unwrap();
        if outcome.kind() == pb::OutcomeKind::EscapeAttempt {
            return (made, blame(made, "was killed, and must not be".to_owned()));
        }
        if let Some(call) = calls.get(made)
            && matches!(model.verdict(call, heard.pid), Verdict::Refused(_))
        {
            let what = format!("must be refused, and ended its hook: {outcome:?}");
            return (made, blame(made, what));
        }
        (made + 1, None)
    }

    async fn hook(
        &self,
        side: &Side,
        calls: &[Call],
        tally: &mut Tally,
    ) -> (pb::ExecuteResponse, Heard) {
        tally.hooks += 1;
        let places = [&*self.ground.outside, &*self.ground.workspace];
        // By the table's answers to an unknown process: calls that depend on its id never wait.
        let refused = |call: &Call| matches!(side.model.verdict(call, 0), Verdict::Refused(_));
        let text = encode(calls, refused);
        let mut request = request(&self.player, &side.profile, places, &text);
        let workspace = self.ground.workspace.display().to_string();
        request.hook.as_mut().unwrap().workspace = workspace;
        made(&self.daemon, request).await
    }

    /// Looks at everything that no hook may change: files, sockets, another process, processes and files left behind, the
    /// daemon itself.
    fn look(&mut self, side: &Side) -> Vec<String> {
        let mut seen = self.ground.look();
        if side.model.spec.network == Network::Outbound {
            // TCP and UDP are what it is for.
            for line in &mut seen {
                if let Some(reached) = line.strip_prefix("reached [") {
                    let local: Vec<_> = reached.split(", ").skip(2).collect();
                    *line = format!("reached {}", local.join(", "));
                }
            }
        }
        seen.extend(state(self.ground.victim()));
        let marker = self.ground.addresses().1.to_owned();
        for directory in WATCHED {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            // Files of hooks with a user of their own, under any name; files that others make in the meantime are theirs.
            let is_tests_user = nix::unistd::geteuid().as_raw() == self.user;
            let left = entries.filter(|entry| {
                let belongs = || entry.metadata().is_ok_and(|file| file.uid() == self.user);
                entry.file_name().to_string_lossy().contains(&marker) || !is_tests_user && belongs()
            });
            seen.extend(left.map(|entry| entry.path().display().to_string()));
        }
        seen
    }

    /// Restores the ground.
    fn mend(&mut self) {
        for directory in WATCHED {
            let path = Path::new(directory).join(self.ground.addresses().1);
            fs::remove_file(&path).ok();
            fs::remove_dir(&path).ok();
        }
        for directory in [&self.ground.outside, &self.ground.workspace] {
            fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).ok();
            for name in ["secret", "kept"] {
                let path = directory.join(name);
                fs::remove_file(&path).ok();
                fs::write(&path, name).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
                give(&path, self.user);
            }
            // Every new file is removed, so that it can be made again.
            for entry in fs::read_dir(directory).unwrap().flatten() {
                if !self.laid.contains(&entry.path()) {
                    fs::remove_file(entry.path()).ok();
                    fs::remove_dir(entry.path()).ok();
                }
            }
            let empty = directory.join("empty");
            if self.laid.contains(&empty) && fs::create_dir(&empty).is_ok() {
                give(&empty, self.user);
            }
        }
    }

    /// Asserts that the hooks have left no process, and that the daemon serves.
    pub(super) async fn assert_well(&self) {
        let player = self.player.path().display().to_string();
        until_gone(&player).await;
        assert!(processes_with(&player).is_empty());
        until("the end of all zombies", || {
            zombies_of(self.daemon.pid()).is_empty()
        })
        .await;
        let health = HealthClient::new(self.daemon.channel())
            .check(HealthCheckRequest::default())
            .await;
        let status = health.expect("the daemon is healthy").into_inner().status();
        assert_eq!(status, ServingStatus::Serving);
        let plain = self.daemon.run(hook(["/bin/echo", "served"])).await;
        assert_eq!(&plain.unwrap().stdout[..], b"served\n");
        until_clean(&self.daemon).await;
    }
}

/// Returns a request to have calls made.
pub(super) fn request(
    player: &Probe,
    profile: &str,
    places: [&Path; 2],
    calls: &str,
) -> pb::ExecuteRequest {
    let mut request = hook([player.path().to_str().unwrap(), "play"]);
    request.profile = profile.to_owned();
    let argv = &mut request.hook.as_mut().unwrap().argv;
    argv.extend(places.map(|place| place.display().to_string()));
    request.event = event(format!("{{\"calls\":\"{calls}\"}}"));
    // A call that stops the player stops it for this time.
    request.timeout = wall_time(5);
    request
}

/// Has calls made by a confined hook.
pub(super) async fn made(
    daemon: &Daemon,
    request: pb::ExecuteRequest,
) -> (pb::ExecuteResponse, Heard) {
    let response = daemon.run(request).await.expect("the daemon serves");
    let confirmed = response.confinement.as_ref().unwrap().confirmed;
    assert!(confirmed, "{response:?}");
    let heard = Heard::from(&response.stdout[..]);
    (response, heard)
}

impl From<&[u8]> for Heard {
    fn from(stdout: &[u8]) -> Self {
        let mut heard = Self::default();
        for line in String::from_utf8_lossy(stdout).lines() {
            let mut words = line.split(' ');
            match words.next() {
                Some("p") => {
                    heard.pid = words.next().unwrap().parse().unwrap();
                    heard.scratch = words.next().unwrap().into();
                }
                Some("c") => {
                    let index: usize = words.next().unwrap().parse().unwrap();
                    assert_eq!(index, heard.reports.len(), "{line}");
                    let mut report = Report {
                        answer: words.next().unwrap().parse().unwrap(),
                        ..Report::default()
                    };
                    for word in words {
                        let (name, path) = word.split_once('=').unwrap();
                        match name.strip_prefix('o') {
                            Some(flags) => {
                                report.opened = Some((flags.parse().unwrap(), path.to_owned()))
                            }
                            None => report.paths.push((
                                name.parse().unwrap(),
                                (!path.starts_with('?')).then(|| path.to_owned()),
                            )),
                        }
                    }
                    heard.reports.push(report);
                }
                Some("x") => heard.executed.extend(words.next().map(str::to_owned)),
                Some("e") => heard.finished = true,
                other => unreachable!("the player printed {other:?}: {line}"),
            }
        }
        heard
    }
}

fn count(tally: &mut Tally, model: &Model, call: &Call, report: &Report) {
    tally.calls += 1;
    tally.distinct.insert(call.number());
    match model.verdict(call, 0) {
        Verdict::Allowed { .. } => tally.allowed += 1,
        Verdict::Killed => {}
        Verdict::Refused(_) => tally.refused += 1,
    }
    tally.opened += u64::from(report.opened.is_some());
    tally.changed += u64::from(report.answer >= 0 && !report.paths.is_empty());
}

/// Returns what can be seen of a process that no other may change.
fn state(pid: u32) -> Vec<String> {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
    let stat = read("stat");
    // Priority and niceness, real-time priority and policy.
    let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let status = read("status");
    let wanted = ["Uid:", "Gid:", "Cpus_allowed:", "NoNewPrivs:", "TracerPid:"];
    let lines = status
        .lines()
        .filter(|line| wanted.iter().any(|name| line.starts_with(name)));
    let mut seen = vec![
        format!("scheduled {:?} {:?}", &fields[15..17], &fields[37..39]),
        read("oom_score_adj"),
        read("limits"),
    ];
    seen.extend(lines.map(str::to_owned));
    seen
}

fn shipped_policy(name: &str) -> Policy {
    let name = ProfileName::parse(name).unwrap();
    let registry = Registry::builtin().unwrap();
    let policy = registry.find(&name).unwrap();
    // Scratch is the one thing no profile names; nothing else may be written whole.
    let whole = |access| access == Access::Write;
    assert!(!policy.files.named.iter().any(|grant| whole(grant.access)));
    Policy::clone(policy)
}
