//! Control groups bound the memory and the tasks of a whole container.
//!
//! `HOOKJAIL_CONTROL_GROUP` names a group of version 2 that these tests may use, with crun at its usual place, or with the
//! runtime that `HOOKJAIL_TEST_RUNTIME` names. Hosts that keep their controllers elsewhere have none: these tests are ignored
//! unless asked for, and an emulated machine runs them.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use hookjail::pb;

use crate::{
    support::{Daemon, Setup, sh},
    witness::{a_minute, end, processes_with, until, until_gone},
};

/// A string of 128 MiB, made by the shell alone.
const MUCH: &str =
    "s=0123456789abcdef; i=0; while [ $i -lt 23 ]; do s=$s$s; i=$((i+1)); done; echo ${#s}";

/// Returns the group that can be used.
fn parent() -> PathBuf {
    let named = env::var_os("HOOKJAIL_CONTROL_GROUP");
    named
        .expect("this test needs HOOKJAIL_CONTROL_GROUP to name a control group")
        .into()
}

fn runtime() -> String {
    env::var("HOOKJAIL_TEST_RUNTIME").unwrap_or_else(|_| "/usr/bin/crun".into())
}

/// Returns a set-up whose profiles `small` and `large` differ in what they limit.
fn setup(parent: &Path) -> Setup {
    let runtime = runtime();
    let profile = |name: &str, limits: &str| {
        let text = format!(
            "description = \"For tests.\"\nextends = \"pipeline\"\n[axes]\nrequired = [\"memory\", \"pids\"]\n[limits]\n{limits}\n"
        );
        (name.to_owned(), text)
    };
    // The shipped profiles stay on Landlock: to prove them in containers as well would take minutes under emulation.
    let lists = "[backends.profiles]\nlarge = [\"container\"]\nsmall = [\"container\"]\n";
    Setup {
        config: format!("{lists}[container]\nruntime = {runtime:?}\ncontrol_group = {parent:?}\n"),
        profiles: vec![
            profile("large", "memory = \"512MiB\"\ntasks = 64"),
            profile("small", "memory = \"64MiB\"\ntasks = 8"),
        ],
        ..Setup::default()
    }
}

/// Returns the groups of runs that are there.
fn groups(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).unwrap().flatten();
    let ours = entries.filter(|entry| {
        entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(b"hookjail-")
    });
    ours.map(|entry| entry.path()).collect()
}

async fn needs_more_memory(daemon: &Daemon) {
    let killed = (pb::OutcomeKind::OutOfMemory, None, Some(libc::SIGKILL));
    let fine = (pb::OutcomeKind::Exited, Some(0), None);

    // One process; several, each within the limit; files in memory.
    let several = "for i in 1 2 3; do (s=0123456789abcdef; i=0; while [ $i -lt 21 ]; do s=$s$s; i=$((i+1)); done; sleep 3) & done; wait; exit 0";
    let files = "head -c 60000000 /dev/urandom >$TMPDIR/file; head -c 30000000 /dev/urandom >$TMPDIR/other || exit 3";
    for script in [MUCH, several, files] {
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
    let told = |record: &&serde_json::Value| record["outcome"] == "out_of_memory";
    assert_eq!(journal.iter().filter(told).count(), 3, "{journal:?}");
}

async fn needs_more_tasks(daemon: &Daemon) {
    let bomb = "i=0; while [ $i -lt 20 ]; do sleep 2 & i=$((i+1)); done; echo all";
    let response = daemon.run(sh("small", bomb)).await.unwrap();
    let stderr = String::from_utf8_lossy(&response.stderr);
    assert!(stderr.contains("Cannot fork"), "{response:?}");
    assert_eq!(&response.stdout[..], b"");
    let response = daemon.run(sh("large", bomb)).await.unwrap();
    assert_eq!(&response.stdout[..], b"all\n", "{response:?}");
}

async fn is_told_what_limits_it(daemon: &Daemon) {
    let response = daemon.run(sh("small", "exit 0")).await.unwrap();
    let confinement = response.confinement.unwrap();
    assert!(confinement.confirmed, "{confinement:?}");
    let seen = |check: &str| {
        let mut evidence = confinement.evidence.iter();
        let found = evidence.find(|seen| seen.check == check);
        found.map(|seen| seen.observed.clone())
    };
    assert_eq!(seen("memory_max").as_deref(), Some("67108864"));
    // Three of the container's first process.
    assert_eq!(seen("pids_max").as_deref(), Some("11"));
    for axis in [pb::Axis::Memory, pb::Axis::Pids] {
        let mut reports = confinement.axes.iter();
        let report = reports.find(|report| report.axis() == axis).unwrap();
        assert_eq!(report.coverage(), pb::Coverage::Enforced, "{report:?}");
        assert!(report.by.ends_with("control group"), "{report:?}");
    }
}

mod with_cgroup {
    use super::*;

    #[tokio::test]
    #[ignore = "needs HOOKJAIL_CONTROL_GROUP to name a control group"]
    async fn a_run_has_the_memory_and_the_tasks_of_its_profile_and_no_more() {
        let parent = parent();
        let daemon = Daemon::with(setup(&parent)).await;
        needs_more_memory(&daemon).await;
        needs_more_tasks(&daemon).await;
        is_told_what_limits_it(&daemon).await;
        assert!(groups(&parent).is_empty());
    }

    #[tokio::test]
    #[ignore = "needs HOOKJAIL_CONTROL_GROUP to name a control group"]
    async fn groups_that_a_killed_daemon_left_are_removed_by_the_next() {
        let parent = parent();
        let mut daemon = Daemon::with(setup(&parent)).await;
        let time = a_minute();
        let (mut client, request) = (
            daemon.client(),
            sh("large", &format!("sleep {time}; exit 0")),
        );
        let hanging = tokio::spawn(async move { client.execute(request).await });
        let runs = || !processes_with(&format!("sleep {time}")).is_empty();
        until("the hook to run", runs).await;
        // The run's own, and on runc its container's.
        let expected = if runtime().ends_with("runc") { 2 } else { 1 };
        assert_eq!(groups(&parent).len(), expected);
        daemon.child().kill().unwrap();
        hanging.await.unwrap().unwrap_err();
        until_gone(&format!("sleep {time}")).await;
        assert_eq!(groups(&parent).len(), expected, "the positive control");

        let daemon = Daemon::with(setup(&parent)).await;
        assert!(groups(&parent).is_empty());
        drop(daemon);
    }
}
