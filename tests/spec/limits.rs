//! Load leaves nothing behind, and calls over a limit are refused at once.

use std::{path::PathBuf, time::Duration};

use hookjail::pb::{ExecuteResponse, OutcomeKind};
use tokio::task::JoinSet;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::{
    support::{Daemon, Setup, hook, reason, sh},
    witness::{
        a_minute, assert_verifies, end, keeper_of, processes_that, status_kib, until, until_clean,
        until_gone, writing, zombies_of,
    },
};

/// Returns the numbers of descriptors and threads that a daemon holds. Locks of the uids that it has leased do not count: the
/// daemon keeps as many as hooks ever ran at once, for the next ones.
fn holdings(daemon: &Daemon) -> (usize, u64) {
    let held = descriptors(daemon).into_iter();
    let held = held.filter(|path| !path.starts_with("/run/hookjail/uids"));
    (held.count(), status_kib(daemon.pid(), "Threads"))
}

/// Returns the targets of the daemon's descriptors.
fn descriptors(daemon: &Daemon) -> Vec<PathBuf> {
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap();
    // One may close between being listed and being read.
    let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    targets.collect()
}

/// Asserts that a daemon holds no more than before, left nothing on disk and wrote everything down.
async fn assert_clean_after(daemon: &Daemon, before: (usize, u64), runs: usize) {
    // Connections close after their last answer, so what they held may last a moment longer.
    let mut after = holdings(daemon);
    let what = format!("the release of descriptors and threads ({before:?}, {after:?})");
    until(&what, || {
        after = holdings(daemon);
        after.0 <= before.0 + 8 && after.1 <= before.1 + 8
    })
    .await;
    assert_eq!(zombies_of(daemon.pid()), [""; 0]);
    until_clean(daemon).await;
    let records = daemon.records();
    let count_of = |kind: &str| records.iter().filter(|record| *record == kind).count();
    assert_eq!(
        (count_of("started"), count_of("ended"), records.len()),
        (runs, runs, 2 * runs)
    );
    assert_verifies(daemon.path());
}

/// Runs a hook once, so that what is made once is there.
async fn warm_up(daemon: &Daemon) -> (usize, u64) {
    let response = daemon.run(hook(["/bin/true"])).await.unwrap();
    assert_eq!(end(&response), (OutcomeKind::Exited, Some(0), None));
    holdings(daemon)
}

/// Hundreds may wait, and each grant would be a descriptor.
#[tokio::test]
async fn the_daemon_holds_no_descriptor_of_what_a_hook_that_runs_is_granted() {
    let daemon = Daemon::start().await;
    let workspace = daemon.workspace();
    let request = writing(
        &daemon,
        "echo >begun; until test -e go; do sleep 0.02; done",
    );
    let mut client = daemon.client();
    let call = tokio::spawn(async move { client.execute(request).await });
    until("the hook's begin", || workspace.join("begun").exists()).await;

    until("the release of the workspace", || {
        let held = descriptors(&daemon);
        // The control: the targets of descriptors are visible.
        assert!(held.iter().any(|path| path.ends_with("journal.jsonl")));
        !held.contains(&workspace)
    })
    .await;

    std::fs::write(workspace.join("go"), "").unwrap();
    let response = call.await.unwrap().unwrap().into_inner();
    assert_eq!(end(&response), (OutcomeKind::Exited, Some(0), None));
}

#[tokio::test]
async fn two_hundred_hooks_at_once_are_all_answered_and_leave_nothing() {
    let daemon = Daemon::start().await;
    let before = warm_up(&daemon).await;

    let mut calls = JoinSet::new();
    for number in 0..200 {
        let mut client = daemon.client();
        let script = format!("read -r _; echo {number}");
        calls.spawn(async move {
            let response = client.execute(sh("strict", &script)).await.unwrap();
            (number, response.into_inner())
        });
    }
    while let Some(call) = calls.join_next().await {
        let (number, response) = call.unwrap();
        let text = String::from_utf8_lossy(&response.stdout).into_owned();
        assert_eq!(
            (end(&response), text),
            ((OutcomeKind::Exited, Some(0), None), format!("{number}\n"))
        );
    }

    assert_clean_after(&daemon, before, 201).await;
}

#[tokio::test]
async fn two_thousand_hooks_in_a_row_leave_nothing() {
    let daemon = Daemon::start().await;
    let before = warm_up(&daemon).await;

    for _ in 0..2000 {
        let response = daemon.run(hook(["/bin/true"])).await.unwrap();
        assert_eq!(end(&response), (OutcomeKind::Exited, Some(0), None));
    }

    assert_clean_after(&daemon, before, 2001).await;
}

#[tokio::test]
async fn many_hooks_with_children_that_nobody_waits_for_leave_no_zombie() {
    let daemon = Daemon::start().await;
    let before = warm_up(&daemon).await;
    let script =
        "i=0; while [ $i -lt 20 ]; do (/bin/true & /bin/true &) ; i=$((i+1)); done; echo ok";

    for _ in 0..10 {
        let response = daemon.run(sh("pipeline", script)).await.unwrap();
        assert_eq!(&response.stdout[..], b"ok\n");
    }

    assert_clean_after(&daemon, before, 11).await;
}

#[tokio::test]
async fn a_request_beyond_the_queue_is_refused_at_once() {
    let daemon = Daemon::with(Setup {
        config: "[hooks]\nmax_concurrent = 1\nmax_queued = 1\n".to_owned(),
        ..Setup::default()
    })
    .await;
    let workspace = daemon.workspace();
    let waiting = || {
        let script = "until test -e go; do sleep 0.02; done";
        let mut request = sh("workspace-ro", script);
        request.hook.as_mut().unwrap().workspace = workspace.display().to_string();
        let mut client = daemon.client();
        async move { client.execute(request).await }
    };

    // One runs, one waits for its place, and the third is the only one that can be answered before the file is there.
    let mut calls = JoinSet::new();
    for _ in 0..3 {
        calls.spawn(waiting());
    }
    let refusal = calls.join_next().await.unwrap().unwrap().unwrap_err();
    assert_eq!(
        (refusal.code(), reason(&refusal)),
        (Code::ResourceExhausted, "OVERLOADED".to_owned())
    );
    let details = refusal.get_error_details();
    let delay = details.retry_info().unwrap().retry_delay.unwrap();
    assert!(delay >= Duration::from_millis(200), "{delay:?}");

    std::fs::write(workspace.join("go"), "").unwrap();
    for response in calls.join_all().await {
        let response = response.unwrap().into_inner();
        assert_eq!(end(&response), (OutcomeKind::Exited, Some(0), None));
    }
}

#[tokio::test]
async fn a_caller_that_spent_its_amount_of_a_minute_waits_for_more() {
    let done = |answer: &Result<ExecuteResponse, Status>| {
        let response = answer.as_ref().unwrap();
        assert_eq!(end(response), (OutcomeKind::Exited, Some(0), None));
    };
    let spent = |answer: Result<ExecuteResponse, Status>, key: &str| {
        let refusal = answer.unwrap_err();
        assert_eq!(reason(&refusal), "RATE_LIMITED", "{refusal:?}");
        assert_eq!(refusal.code(), Code::ResourceExhausted);
        let message = refusal.message();
        assert!(
            message.contains(&format!("its amount of `hooks.{key}`")),
            "{message}"
        );
        let details = refusal.get_error_details();
        let delay = details.retry_info().unwrap().retry_delay.unwrap();
        assert!(!delay.is_zero(), "{delay:?}");
        delay
    };
    let limited = |line: &str| Setup {
        config: format!("[hooks]\n{line}\n"),
        ..Setup::default()
    };
    // The control: each daemon serves until the amount is spent. Thirty calls a minute: one comes back in two seconds.
    let daemon = Daemon::with(limited("calls_per_minute = 30")).await;
    let mut calls = 0;
    let delay = loop {
        let answer = daemon.run(hook(["/bin/true"])).await;
        match &answer {
            Ok(_) => done(&answer),
            Err(_) => break spent(answer, "calls_per_minute"),
        }
        calls += 1;
        assert!(calls < 200, "nothing is spent");
    };
    assert!(calls >= 30, "{calls}");
    tokio::time::sleep(delay).await;
    done(&daemon.run(hook(["/bin/true"])).await);
    let refused = |record: &&serde_json::Value| record["record"] == "refused";
    let journal = daemon.journal();
    let refused: Vec<_> = journal.iter().filter(refused).collect();
    assert!(!refused.is_empty());
    assert!(
        refused
            .iter()
            .all(|record| record["reason"] == "RATE_LIMITED")
    );
    assert_verifies(daemon.path());

    let daemon = Daemon::with(limited("cpu_per_minute = \"1s\"")).await;
    done(&daemon.run(hook(["/bin/true"])).await);
    let busy = "import time\nwhile time.process_time() < 1.2: pass";
    done(&daemon.run(hook(["/usr/bin/python3", "-c", busy])).await);
    spent(daemon.run(hook(["/bin/true"])).await, "cpu_per_minute");

    // Start and end together are more than the amount, and the start alone is less.
    let journal = std::fs::read_to_string(daemon.path().join("state/audit/journal.jsonl"));
    let journal = journal.unwrap();
    let mut lengths = journal.lines().map(str::len);
    let (started, ended) = (lengths.next().unwrap(), lengths.next().unwrap());
    let amount = format!("journal_per_minute = {}", started + ended / 2);
    let daemon = Daemon::with(limited(&amount)).await;
    done(&daemon.run(hook(["/bin/true"])).await);
    spent(daemon.run(hook(["/bin/true"])).await, "journal_per_minute");
}

#[tokio::test]
async fn a_hook_that_holds_locks_holds_up_nobody() {
    let daemon = Daemon::start().await;
    let workspace = daemon.workspace();
    // All it can open: the workspace's files, the programs of the others, and their libraries' list.
    let script = r#"
import fcntl, os, time
held = []
for path in ["kept", "/bin/sh", "/bin/true", "/etc/ld.so.cache", "."]:
    held.append(os.open(path, os.O_RDONLY))
    fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
print(len(held), flush=True)
open("begun", "w").close()
while not os.path.exists("go"):
    time.sleep(0.02)
"#;
    std::fs::write(workspace.join("kept"), "").unwrap();
    for path in [workspace.join("kept"), workspace.clone()] {
        let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(path, everyone).unwrap();
    }
    let mut request = hook(["/usr/bin/python3", "-c", script]);
    request.profile = "workspace-rw".to_owned();
    request.hook.as_mut().unwrap().workspace = workspace.display().to_string();
    let mut client = daemon.client();
    let holder = tokio::spawn(async move { client.execute(request).await });
    until("the locks", || workspace.join("begun").exists()).await;

    for _ in 0..10 {
        let mut request = sh("workspace-ro", "read -r _ <kept; /bin/true");
        request.hook.as_mut().unwrap().workspace = workspace.display().to_string();
        let response = daemon.run(request).await.unwrap();
        assert_eq!(end(&response).0, OutcomeKind::Exited);
    }

    assert!(!holder.is_finished());
    std::fs::write(workspace.join("go"), "").unwrap();
    let held = holder.await.unwrap().unwrap().into_inner().stdout;
    assert_eq!(String::from_utf8_lossy(&held), "5\n");
}

#[tokio::test]
async fn where_memory_runs_out_hooks_are_killed_before_the_daemon() {
    are_killed_before_the_daemon(Daemon::start().await).await;
}

/// Asserts that the kernel takes each process of a hook rather than its daemon.
pub(crate) async fn are_killed_before_the_daemon(daemon: Daemon) {
    let score_of = |id: u32| -> i32 {
        let path = format!("/proc/{id}/oom_score_adj");
        let text = std::fs::read_to_string(path).unwrap();
        text.trim().parse().unwrap()
    };
    let own_score = score_of(std::process::id());
    let marker = a_minute();
    let script = format!("(sleep {marker} &) ; sleep {marker}");
    let mut client = daemon.client();
    let call = tokio::spawn(async move { client.execute(sh("pipeline", &script)).await });
    let asleep = |line: &str| line.starts_with("sleep") && line.contains(&marker);
    until("both sleeps", || processes_that(asleep).count() == 2).await;

    for (id, line) in processes_that(|line| line.contains(&marker)) {
        assert_eq!(score_of(id), (own_score + 500).min(1000), "{line}");
    }
    assert_eq!(score_of(daemon.pid()), own_score);
    let keeper = keeper_of(&daemon).unwrap();
    assert_eq!(score_of(keeper.cast_unsigned()), own_score);
    call.abort();
    until_gone(&marker).await;
}

#[tokio::test]
async fn a_hook_gets_no_more_than_the_daemon_itself_may() {
    let limited = r#"ulimit -f 16384; exec "$@""#;
    let daemon = Daemon::with(Setup {
        wrapper: ["/bin/sh", "-c", limited, "sh"].map(str::to_owned).to_vec(),
        // Its own files are smaller.
        config: "[audit]\nrotate_bytes = \"256KiB\"\n".to_owned(),
        ..Setup::default()
    })
    .await;

    let response = daemon.run(sh("strict", "ulimit -f")).await.unwrap();

    // In blocks of 512 bytes.
    assert_eq!(String::from_utf8_lossy(&response.stdout), "16384\n");
}

/// Starts a daemon with a profile like `pipeline` but for its limits.
async fn with_limits(limits: &str) -> Daemon {
    let limited =
        format!("description = \"limited\"\nextends = \"pipeline\"\n[limits]\n{limits}\n");
    Daemon::with(Setup {
        profiles: vec![("limited".to_owned(), limited)],
        ..Setup::default()
    })
    .await
}

#[tokio::test]
async fn a_file_grows_no_larger_than_the_profile_says() {
    let write = "trap '' XFSZ; yes | head -c 100000 >file; wc -c <file";
    let daemon = with_limits("file_size = \"64KiB\"").await;

    let control = daemon.run(sh("pipeline", write)).await.unwrap();
    let limited = daemon.run(sh("limited", write)).await.unwrap();

    assert_eq!(String::from_utf8_lossy(&control.stdout).trim(), "100000");
    assert_eq!(String::from_utf8_lossy(&limited.stdout).trim(), "65536");
}

#[tokio::test]
async fn address_space_is_limited_where_the_profile_says() {
    let script = "print(len(bytearray(1 << 30)))";
    let python = |profile: &str| {
        let mut request = hook(["/usr/bin/python3", "-c", script]);
        request.profile = profile.to_owned();
        request
    };
    let daemon = with_limits("address_space = \"512MiB\"").await;

    let control = daemon.run(python("pipeline")).await.unwrap();
    let limited = daemon.run(python("limited")).await.unwrap();

    assert_eq!(
        String::from_utf8_lossy(&control.stdout).trim(),
        "1073741824"
    );
    let error = String::from_utf8_lossy(&limited.stderr);
    assert_eq!(
        (limited.stdout.len(), error.contains("MemoryError")),
        (0, true),
        "{error}"
    );
}

mod as_root {
    use super::*;
    use crate::support::needs_root;

    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_hook_of_a_root_daemon_starts_no_more_tasks_than_the_profile_says() {
        needs_root();
        // Processes and threads count alike. A bounded bomb: forty, none of which starts any more.
        let processes = r#"
import os, time
started = 0
for _ in range(40):
    try:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        started += 1
    except OSError as error:
        print(error.errno)
        break
print(started)
"#;
        let threads = r#"
import threading, time
started = 0
for _ in range(40):
    try:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        started += 1
    except RuntimeError:
        print(11)
        break
print(started)
"#;
        let daemon = with_limits("tasks = 16").await;
        for (script, name) in [(processes, "processes"), (threads, "threads")] {
            let python = |profile: &str| {
                let mut request = hook(["/usr/bin/python3", "-c", script]);
                request.profile = profile.to_owned();
                request
            };

            let control = daemon.run(python("pipeline")).await.unwrap();
            let limited = daemon.run(python("limited")).await.unwrap();

            assert_eq!(String::from_utf8_lossy(&control.stdout), "40\n", "{name}");
            // EAGAIN; the first of the sixteen is the hook itself.
            assert_eq!(
                String::from_utf8_lossy(&limited.stdout),
                "11\n15\n",
                "{name}"
            );
        }
    }
}
