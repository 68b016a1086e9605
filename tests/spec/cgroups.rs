//! Cgroups bound the memory, the tasks and the processor time of a whole run, beside any other confinement.
//!
//! `HOOKJAIL_CGROUP` names a cgroup of version 2 that these tests may use, with crun at its usual place, or with the runtime
//! that `HOOKJAIL_TEST_RUNTIME` names. Hosts that keep their controllers elsewhere have none: these tests are ignored unless
//! asked for, and an emulated machine runs them.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use hookjail::pb;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::task::JoinSet;

use crate::{
    callers::as_root::client_as,
    support::{Daemon, Setup, directory, reason, sh},
    witness::{a_minute, end, processes_with, until, until_gone},
};

/// A string of 128 MiB, made by the shell alone.
const MUCH: &str =
    "s=0123456789abcdef; i=0; while [ $i -lt 23 ]; do s=$s$s; i=$((i+1)); done; echo ${#s}";

/// Axes that every cgroup limits.
const BOTH: [&str; 2] = ["memory", "pids"];

/// Twenty processes that run at once.
const MANY: &str = "i=0; while [ $i -lt 20 ]; do sleep 2 & i=$((i+1)); done; echo all";

/// Returns the cgroup that can be used.
fn parent() -> PathBuf {
    let named = env::var_os("HOOKJAIL_CGROUP");
    named
        .expect("this test needs HOOKJAIL_CGROUP to name a cgroup")
        .into()
}

fn runtime() -> String {
    env::var("HOOKJAIL_TEST_RUNTIME").unwrap_or_else(|_| "/usr/bin/crun".into())
}

/// Returns a profile that requires the axes that cgroups limit.
fn profile(name: &str, axes: &[&str], limits: &str) -> (String, String) {
    let text = format!(
        "description = \"For tests.\"\nextends = \"pipeline\"\n[axes]\nrequired = {axes:?}\n[limits]\n{limits}\n"
    );
    (name.to_owned(), text)
}

/// Returns a set-up with some of the profiles `large`, `slow` and `small`, which differ in what they limit.
///
/// The others, which are shipped, stay on Landlock: to prove them in containers as well would take minutes under emulation.
fn setup(parent: &Path, backend: &str, names: &[&str]) -> Setup {
    let lists = names.iter().map(|name| format!("{name} = [{backend:?}]\n"));
    let lists: String = lists.collect();
    let container = match backend {
        "container" => format!("[container]\nruntime = {:?}\n", runtime()),
        _ => String::new(),
    };
    let limits = |name: &str| match name {
        "large" => profile(name, &BOTH, "memory = \"512MiB\"\ntasks = 64"),
        "slow" => profile(name, &["cpu"], "cpus = 0.1"),
        _ => profile(name, &BOTH, "memory = \"64MiB\"\ntasks = 8"),
    };
    Setup {
        config: format!("[backends.profiles]\n{lists}{container}[hooks]\ncgroup = {parent:?}\n"),
        profiles: names.iter().map(|name| limits(name)).collect(),
        ..Setup::default()
    }
}

/// Returns the cgroups of daemons that are there.
fn of_daemons(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).unwrap().flatten();
    let ours = entries.filter(|entry| {
        entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(b"hookjail-")
    });
    ours.map(|entry| entry.path()).collect()
}

/// Returns the cgroups of runs in which processes are.
fn in_use(parent: &Path) -> Vec<PathBuf> {
    let below = |cgroup: PathBuf| {
        let entries = fs::read_dir(cgroup).into_iter().flatten().flatten();
        let cgroups = entries.filter(|entry| entry.file_type().is_ok_and(|it| it.is_dir()));
        cgroups.map(|entry| entry.path())
    };
    let callers = of_daemons(parent).into_iter().flat_map(below);
    let runs = callers.flat_map(below);
    let is_used = |run: &PathBuf| {
        let events = fs::read_to_string(run.join("cgroup.events"));
        events.is_ok_and(|events| events.contains("populated 1"))
    };
    runs.filter(is_used).collect()
}

async fn needs_more_memory(daemon: &Daemon) {
    let killed = (pb::OutcomeKind::OutOfMemory, None, Some(libc::SIGKILL));
    let fine = (pb::OutcomeKind::Exited, Some(0), None);

    // One process; several, each within the limit; files in memory.
    let several = "for i in 1 2 3; do (s=0123456789abcdef; i=0; while [ $i -lt 21 ]; do s=$s$s; i=$((i+1)); done; sleep 3) & done; wait; exit 0";
    for script in [MUCH, several] {
        let response = daemon.run(sh("small", script)).await.unwrap();
        assert_eq!(end(&response), killed, "{script}");
        assert_eq!(&response.stdout[..], b"", "{script}");
    }
    // The positive controls: where more is allowed, and where there is enough.
    let response = daemon.run(sh("large", MUCH)).await.unwrap();
    assert_eq!(end(&response), fine);
    assert_eq!(&response.stdout[..], b"134217728\n");
    let response = daemon.run(sh("small", "echo 1")).await.unwrap();
    assert_eq!(end(&response), fine);

    let journal = daemon.journal();
    let out_of_memory = |record: &&serde_json::Value| record["outcome"] == "out_of_memory";
    assert_eq!(
        journal.iter().filter(out_of_memory).count(),
        2,
        "{journal:?}"
    );
}

async fn needs_more_tasks(daemon: &Daemon) {
    let response = daemon.run(sh("small", MANY)).await.unwrap();
    let stderr = String::from_utf8_lossy(&response.stderr);
    assert!(stderr.contains("Cannot fork"), "{response:?}");
    assert_eq!(&response.stdout[..], b"");
    let refused = (pb::OutcomeKind::PidsExhausted, Some(2), None);
    assert_eq!(end(&response), refused, "{response:?}");
    // A hook that copes with the limit is no failure.
    let copes = format!("/bin/sh -c '{MANY}'; exit 0");
    let response = daemon.run(sh("small", &copes)).await.unwrap();
    let stderr = String::from_utf8_lossy(&response.stderr);
    assert!(stderr.contains("Cannot fork"), "{response:?}");
    let fine = (pb::OutcomeKind::Exited, Some(0), None);
    assert_eq!(end(&response), fine, "{response:?}");
    // The positive controls: where more is allowed, and a failure that has another reason.
    let response = daemon.run(sh("large", MANY)).await.unwrap();
    assert_eq!(&response.stdout[..], b"all\n", "{response:?}");
    let response = daemon.run(sh("small", "exit 2")).await.unwrap();
    let failed = (pb::OutcomeKind::Exited, Some(2), None);
    assert_eq!(end(&response), failed, "{response:?}");

    let journal = daemon.journal();
    let exhausted = |record: &&serde_json::Value| record["outcome"] == "pids_exhausted";
    assert_eq!(journal.iter().filter(exhausted).count(), 1, "{journal:?}");
}

async fn is_told_what_limits_it(daemon: &Daemon, tasks: &str) {
    let response = daemon.run(sh("small", "exit 0")).await.unwrap();
    let confinement = response.confinement.unwrap();
    assert!(confinement.confirmed, "{confinement:?}");
    let seen = |check: &str| {
        let mut evidence = confinement.evidence.iter();
        let found = evidence.find(|seen| seen.check == check);
        found.map(|seen| seen.observed.clone())
    };
    assert_eq!(seen("memory_max").as_deref(), Some("67108864"));
    assert_eq!(seen("pids_max").as_deref(), Some(tasks));
    assert!(seen("cgroup").unwrap().starts_with("/hookjail-"));
    for axis in [pb::Axis::Memory, pb::Axis::Pids] {
        let mut reports = confinement.axes.iter();
        let report = reports.find(|report| report.axis() == axis).unwrap();
        assert_eq!(report.coverage(), pb::Coverage::Enforced, "{report:?}");
        assert!(report.by.starts_with("cgroup"), "{report:?}");
    }
}

/// Stops a daemon as its service manager does, and waits for its end.
async fn stop(mut daemon: Daemon) {
    let pid = Pid::from_raw(i32::try_from(daemon.pid()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    until("the daemon's end", || {
        daemon.child().try_wait().unwrap().is_some()
    })
    .await;
}

async fn has_what_its_profile_says(backend: &str, tasks: &str) {
    let parent = parent();
    let daemon = Daemon::with(setup(&parent, backend, &["large", "small"])).await;
    needs_more_memory(&daemon).await;
    needs_more_tasks(&daemon).await;
    is_told_what_limits_it(&daemon, tasks).await;
    assert_eq!(in_use(&parent), [] as [PathBuf; 0]);
    assert_eq!(of_daemons(&parent).len(), 1, "the positive control");
    stop(daemon).await;
    assert_eq!(of_daemons(&parent), [] as [PathBuf; 0]);
}

/// Runs a hook that uses all the processor time it gets, until the kernel's counters of its cgroup hold.
async fn spins(parent: &Path, daemon: &Daemon, profile: &str, holds: impl Fn(u64, u64) -> bool) {
    let (mut client, request) = (daemon.client(), sh(profile, "while :; do :; done"));
    let running = tokio::spawn(async move { client.execute(request).await });
    until("the hook to use its processor time", || {
        let [run] = &in_use(parent)[..] else {
            return false;
        };
        let found = fs::read_to_string(run.join("cpu.stat")).unwrap_or_default();
        let counter = |name: &str| {
            let mut lines = found.lines();
            let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            value.and_then(|value| value.parse::<u64>().ok())
        };
        (counter("usage_usec").zip(counter("nr_throttled"))).is_some_and(|(a, b)| holds(a, b))
    })
    .await;
    // The call is canceled with its end here, and the run with it.
    running.abort();
    until("the end of the run", || in_use(parent).is_empty()).await;
}

async fn has_no_more_processor_time(backend: &str) {
    let parent = parent();
    let daemon = Daemon::with(setup(&parent, backend, &["slow"])).await;
    spins(&parent, &daemon, "slow", |_, throttled| throttled > 0).await;
    // The positive control: half a second of processor time, without a wait.
    spins(&parent, &daemon, "pipeline", |used, throttled| {
        assert_eq!(throttled, 0);
        used > 500_000
    })
    .await;
    let response = daemon.run(sh("slow", "exit 0")).await.unwrap();
    let confinement = response.confinement.unwrap();
    let mut evidence = confinement.evidence.iter();
    let quota = evidence.find(|seen| seen.check == "cpu_max").unwrap();
    assert_eq!(quota.observed, "10000 100000");
    let is_cpu = |report: &&pb::AxisReport| report.axis() == pb::Axis::Cpu;
    let report = confinement.axes.iter().find(is_cpu).unwrap();
    assert_eq!(report.coverage(), pb::Coverage::Enforced, "{report:?}");
    stop(daemon).await;
    assert_eq!(of_daemons(&parent), [] as [PathBuf; 0]);
}

async fn are_removed_by_the_next_daemon(backend: &str) {
    let parent = parent();
    let mut daemon = Daemon::with(setup(&parent, backend, &["large"])).await;
    let time = a_minute();
    let script = format!("sleep {time}; exit 0");
    let (mut client, request) = (daemon.client(), sh("large", &script));
    let hanging = tokio::spawn(async move { client.execute(request).await });
    let runs = || !processes_with(&format!("sleep {time}")).is_empty();
    until("the hook to run", runs).await;
    // Self-tests of other profiles have cgroups as well, until they are over.
    until("the hook's cgroup alone", || in_use(&parent).len() == 1).await;
    daemon.child().kill().unwrap();
    hanging.await.unwrap().unwrap_err();
    until_gone(&format!("sleep {time}")).await;
    let left = of_daemons(&parent);
    assert_eq!(left.len(), 1, "the positive control");

    let daemon = Daemon::with(setup(&parent, backend, &["large"])).await;
    let now = of_daemons(&parent);
    assert!(now.len() == 1 && now != left, "{now:?}");
    stop(daemon).await;
    assert_eq!(of_daemons(&parent), [] as [PathBuf; 0]);
}

#[tokio::test]
async fn what_is_no_cgroup_is_refused_with_what_to_do() {
    let other = directory();
    for path in [other.path().to_owned(), other.path().join("missing")] {
        let setup = Setup {
            config: format!("[hooks]\ncgroup = {path:?}\n"),
            ..Setup::default()
        };
        let log = Daemon::try_with(setup).await.err().unwrap();
        assert!(log.contains(path.to_str().unwrap()), "{log}");
        assert!(log.contains("hooks.cgroup"), "{log}");
    }
    // And without any, a profile that requires what only a cgroup enforces.
    let setup = Setup {
        config: "[hooks]\ncgroup = \"none\"\n".to_owned(),
        profiles: vec![
            profile("cpu", &["cpu"], "cpus = 0.1"),
            profile("memory", &["memory"], "memory = \"64MiB\""),
        ],
        ..Setup::default()
    };
    let daemon = Daemon::with(setup).await;
    for axis in ["cpu", "memory"] {
        let status = daemon.run(sh(axis, "exit 0")).await.unwrap_err();
        assert_eq!(reason(&status), "POLICY_UNENFORCEABLE");
        for word in [&format!("`{axis}`"), "`hooks.cgroup`"] {
            assert!(status.message().contains(word), "{status:?}");
        }
    }
    // The positive control.
    let response = daemon.run(sh("pipeline", "exit 0")).await.unwrap();
    assert_eq!(end(&response).1, Some(0));
}

mod with_cgroup {
    use super::*;

    #[tokio::test]
    #[ignore = "needs HOOKJAIL_CGROUP to name a cgroup"]
    async fn a_run_has_the_memory_and_the_tasks_of_its_profile_and_no_more() {
        has_what_its_profile_says("landlock", "8").await;
    }

    #[tokio::test]
    #[ignore = "needs HOOKJAIL_CGROUP to name a cgroup"]
    async fn a_container_has_the_memory_and_the_tasks_of_its_profile_and_no_more() {
        // Three of the container's first process.
        has_what_its_profile_says("container", "11").await;
    }

    #[tokio::test]
    #[ignore = "needs HOOKJAIL_CGROUP to name a cgroup"]
    async fn a_run_has_no_more_processor_time_than_its_profile_says() {
        has_no_more_processor_time("landlock").await;
    }

    #[tokio::test]
    #[ignore = "needs HOOKJAIL_CGROUP to name a cgroup"]
    async fn a_container_has_no_more_processor_time_than_its_profile_says() {
        has_no_more_processor_time("container").await;
    }

    #[tokio::test]
    #[ignore = "needs HOOKJAIL_CGROUP to name a cgroup"]
    async fn cgroups_that_a_killed_daemon_left_are_removed_by_the_next() {
        are_removed_by_the_next_daemon("landlock").await;
    }

    #[tokio::test]
    #[ignore = "needs HOOKJAIL_CGROUP to name a cgroup"]
    async fn cgroups_of_containers_that_a_killed_daemon_left_are_removed_by_the_next() {
        are_removed_by_the_next_daemon("container").await;
    }

    /// More runs than there are cgroups made ahead.
    #[tokio::test]
    #[ignore = "needs HOOKJAIL_CGROUP to name a cgroup"]
    async fn runs_at_once_have_a_cgroup_each() {
        let parent = parent();
        let daemon = Daemon::with(setup(&parent, "landlock", &["large"])).await;
        let mut runs = JoinSet::new();
        for number in 0..24 {
            let (mut client, request) = (daemon.client(), sh("large", &format!("echo {number}")));
            runs.spawn(async move {
                let response = client.execute(request).await.unwrap().into_inner();
                let evidence = &response.confinement.unwrap().evidence;
                let cgroup = evidence.iter().find(|seen| seen.check == "cgroup").unwrap();
                cgroup.observed.clone()
            });
        }
        let mut cgroups = runs.join_all().await;
        cgroups.sort();
        cgroups.dedup();
        assert_eq!(cgroups.len(), 24, "{cgroups:?}");
        assert_eq!(in_use(&parent), [] as [PathBuf; 0]);
        stop(daemon).await;
        assert_eq!(of_daemons(&parent), [] as [PathBuf; 0]);
    }

    /// Of a caller with twelve hooks that compute and one with a single hook, each gets processor time. By processes it would
    /// be twelve to one.
    #[tokio::test]
    #[ignore = "needs HOOKJAIL_CGROUP to name a cgroup, and root"]
    async fn one_hook_keeps_its_share_beside_many_of_another_caller() {
        const CALLERS: [(u32, usize); 2] = [(3_000_000_001, 12), (3_000_000_002, 1)];
        let parent = parent();
        let mut set_up = setup(&parent, "landlock", &["large"]);
        let uids = CALLERS.map(|(uid, _)| uid);
        let server = format!("[server]\ncallers = {uids:?}\n");
        set_up.config = server + &set_up.config;
        let daemon = Daemon::with(set_up).await;
        let mut runs = JoinSet::new();
        let mut clients = Vec::new();
        for (uid, hooks) in CALLERS {
            let (client, somebody) = client_as(uid, &daemon).await;
            clients.push(somebody);
            for _ in 0..hooks {
                let (mut client, request) = (client.clone(), sh("large", "while :; do :; done"));
                runs.spawn(async move { client.execute(request).await });
            }
        }
        let all: usize = CALLERS.iter().map(|(_, hooks)| hooks).sum();
        until("all hooks to run", || in_use(&parent).len() == all).await;
        let used = || {
            let daemon = of_daemons(&parent).pop().unwrap();
            uids.map(|uid| {
                let path = daemon.join(format!("caller-{uid}/cpu.stat"));
                let found = fs::read_to_string(path).unwrap();
                let usage = found
                    .lines()
                    .find_map(|line| line.strip_prefix("usage_usec "));
                usage.unwrap().parse::<u64>().unwrap()
            })
        };
        let before = used();
        let since = || {
            let now = used();
            [now[0] - before[0], now[1] - before[1]]
        };
        until("four seconds of processor time", || {
            since().iter().sum::<u64>() > 4_000_000
        })
        .await;
        let [many, one] = since();
        assert!(3 * one > many, "{one} beside {many}");
        runs.abort_all();
        until("the end of the runs", || in_use(&parent).is_empty()).await;
        stop(daemon).await;
        assert_eq!(of_daemons(&parent), [] as [PathBuf; 0]);
    }

    /// The cgroup alone limits a hook that may do everything else.
    #[tokio::test]
    #[ignore = "needs HOOKJAIL_CGROUP to name a cgroup"]
    async fn the_self_test_shows_that_a_cgroup_limits() {
        let parent = parent();
        let daemon = Daemon::with(setup(&parent, "landlock", &["slow", "small"])).await;
        let mut client = pb::sandbox_service_client::SandboxServiceClient::new(daemon.channel());
        for (name, axis) in [
            ("small", pb::Axis::Memory),
            ("small", pb::Axis::Pids),
            ("slow", pb::Axis::Cpu),
        ] {
            let request = pb::SelfTestRequest {
                profile: name.to_owned(),
            };
            let tested = client.self_test(request).await.unwrap().into_inner();
            let [profile] = &tested.profiles[..] else {
                panic!("{tested:?}");
            };
            assert!(profile.confirmed, "{profile:?}");
            let of_axis = |it: &&pb::AxisEvidence| it.report.as_ref().unwrap().axis() == axis;
            let evidence = profile.axes.iter().find(of_axis).unwrap();
            let legs = [&evidence.deny, &evidence.control];
            for leg in legs {
                assert!(
                    !leg.is_empty() && leg.iter().all(|leg| leg.held),
                    "{evidence:?}"
                );
            }
        }
    }
}

/// Hooks cannot leave their process group: to show what the cgroup does about it, the filter's denial of that is taken out.
#[cfg(debug_assertions)]
mod with_cgroup_and_weakened {
    use super::*;
    use crate::witness::processes_that;

    /// Starts a daemon whose hooks can leave their process group.
    async fn weakened(cgroup: &str) -> Daemon {
        Daemon::with(Setup {
            config: format!("[hooks]\ncgroup = {cgroup:?}\n"),
            env: vec![("HOOKJAIL_WEAKEN".to_owned(), "seccomp:setsid".to_owned())],
            ..Setup::default()
        })
        .await
    }

    /// Returns a hook that leaves a process in a group of its own, and then does something else.
    fn leaving(time: &str, then: &str) -> pb::ExecuteRequest {
        let left = format!("echo >$TMPDIR/left; exec sleep {time}");
        let script = format!(
            "setsid /bin/sh -c '{left}' & until test -e $TMPDIR/left; do sleep 0.1; done; {then}"
        );
        sh("pipeline", &script)
    }

    /// Returns the ids of the processes that sleep for this time. The shells that start them have the same words further
    /// behind.
    fn sleepers(time: &str) -> Vec<u32> {
        let begin = format!("sleep {time}");
        let sleepers = processes_that(|line| line.starts_with(&begin));
        sleepers.map(|(pid, _)| pid).collect()
    }

    fn lives(time: &str) -> bool {
        !sleepers(time).is_empty()
    }

    async fn kill_left(time: &str) {
        assert!(lives(time));
        for pid in sleepers(time) {
            kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL).unwrap();
        }
        until_gone(&format!("sleep {time}")).await;
    }

    #[tokio::test]
    #[ignore = "needs HOOKJAIL_CGROUP to name a cgroup"]
    async fn what_left_the_process_group_ends_with_its_run() {
        let parent = parent();
        let daemon = weakened(parent.to_str().unwrap()).await;
        let time = a_minute();
        let response = daemon.run(leaving(&time, "exit 0")).await.unwrap();
        assert_eq!(end(&response).1, Some(0), "{response:?}");
        assert!(!lives(&time));
        stop(daemon).await;
        // The positive control: without a cgroup it does not.
        let daemon = weakened("none").await;
        let response = daemon.run(leaving(&time, "exit 0")).await.unwrap();
        assert_eq!(end(&response).1, Some(0), "{response:?}");
        until("the sleep that the hook left", || lives(&time)).await;
        kill_left(&time).await;
        stop(daemon).await;
    }

    #[tokio::test]
    #[ignore = "needs HOOKJAIL_CGROUP to name a cgroup"]
    async fn what_left_the_process_group_ends_with_a_killed_daemon() {
        let parent = parent();
        for (cgroup, survives) in [(parent.to_str().unwrap(), false), ("none", true)] {
            let mut daemon = weakened(cgroup).await;
            let (time, other) = (a_minute(), a_minute());
            let (mut client, request) = (
                daemon.client(),
                leaving(&time, &format!("sleep {other}; exit 0")),
            );
            let hanging = tokio::spawn(async move { client.execute(request).await });
            until("the hook to wait", || lives(&other)).await;
            // The positive control.
            until("the sleep that the hook left", || lives(&time)).await;
            daemon.child().kill().unwrap();
            hanging.await.unwrap().unwrap_err();
            until_gone(&format!("sleep {other}")).await;
            match survives {
                true => kill_left(&time).await,
                false => until_gone(&format!("sleep {time}")).await,
            }
        }
        // The next daemon removes the cgroups that the killed one left.
        stop(weakened(parent.to_str().unwrap()).await).await;
        assert_eq!(of_daemons(&parent), [] as [PathBuf; 0]);
    }
}
