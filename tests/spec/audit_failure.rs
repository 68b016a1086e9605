//! Where the journal cannot be written, nothing runs. The journal has a record of every hook, however its daemon dies.

#![expect(
    clippy::disallowed_methods,
    reason = "tests change limits and mounts, and start no hook"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    hash::{BuildHasher, RandomState},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use hookjail::pb::{self, sandbox_service_client::SandboxServiceClient};
use hookjail_journal::verify::verify_journal;
use serde_json::Value;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_types::StatusExt;

use crate::{
    support::{Daemon, Setup, directory, hook, program, reason},
    witness::{Mount, SOON, assert_verifies, records, until, until_it, writing},
};

#[tokio::test]
async fn a_start_record_that_does_not_fit_runs_nothing_and_leaves_no_trace() {
    let daemon = Daemon::start().await;
    daemon.run(hook(["/bin/true"])).await.unwrap();
    let before = fs::read(live(daemon.path())).unwrap();
    // The record's beginning fits, as on a disk that becomes full in the middle of the write.
    limit_files(&daemon, Some(before.len() + 100));

    let refusal = daemon.run(writing(&daemon, "echo >ran")).await.unwrap_err();

    assert_eq!(reason(&refusal), "AUDIT_UNAVAILABLE");
    assert!(!daemon.workspace().join("ran").exists());
    let after = fs::read(live(daemon.path())).unwrap();
    assert!(after == before, "{} bytes more", after.len() - before.len());
    assert_said_everywhere(&daemon).await;

    limit_files(&daemon, None);
    assert_serves_again(&daemon).await;
    daemon.run(writing(&daemon, "echo >ran")).await.unwrap();
    assert!(daemon.workspace().join("ran").exists());
    assert_verifies(daemon.path());
}

#[tokio::test]
async fn an_end_record_that_does_not_fit_is_said_everywhere_and_written_once_there_is_room() {
    let (daemon, refusal) = with_an_end_that_does_not_fit().await;

    assert_eq!(reason(&refusal), "AUDIT_UNAVAILABLE");
    let details = refusal.get_error_details();
    assert_eq!(details.error_info().unwrap().metadata["released"], "true");
    assert!(
        daemon.log().contains("records cannot be written"),
        "{}",
        daemon.log()
    );
    // Health changes a moment after the caller's answer.
    until_it("the end of serving", async || {
        serving(&daemon).await == ServingStatus::NotServing
    })
    .await;
    assert!(problem(&daemon).await.contains("end record"));
    let doctor = doctor(&daemon);
    assert_eq!(doctor.status.code(), Some(1), "{doctor:?}");
    assert!(String::from_utf8_lossy(&doctor.stdout).contains("nothing is run"));
    let refusal = daemon.run(writing(&daemon, "echo >ran")).await.unwrap_err();
    assert_eq!(reason(&refusal), "AUDIT_UNAVAILABLE");
    assert!(!daemon.workspace().join("ran").exists());

    limit_files(&daemon, None);
    until_it("the late records", async || {
        serving(&daemon).await == ServingStatus::Serving
    })
    .await;
    assert_eq!(problem(&daemon).await, "");
    daemon.run(writing(&daemon, "echo >ran")).await.unwrap();
    assert!(daemon.workspace().join("ran").exists());
    let records = records(daemon.path());
    let kinds: Vec<_> = records[6..]
        .iter()
        .map(|record| record["record"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["started", "ended", "started", "ended"]);
    // The hook ran, so the same request does not run it again.
    let again = daemon.run(held_request(&daemon, "r-held")).await;
    assert_eq!(reason(&again.unwrap_err()), "AUDIT_UNAVAILABLE");
    assert_eq!(fs::read(begun(&daemon, "r-held")).unwrap(), b"\n");
    assert_eq!(records[6]["run_id"], records[7]["run_id"]);
    assert_verifies(daemon.path());
}

#[tokio::test]
async fn a_run_whose_end_never_fitted_is_found_interrupted_later() {
    let (daemon, refusal) = with_an_end_that_does_not_fit().await;
    assert_eq!(reason(&refusal), "AUDIT_UNAVAILABLE");

    let next = Daemon::in_directory(daemon.kill(), Setup::default())
        .await
        .unwrap();
    next.run(hook(["/bin/true"])).await.unwrap();
    let kinds = &next.records()[6..];
    assert_eq!(kinds, ["started", "interrupted", "started", "ended"]);
    assert_verifies(next.path());
}

/// Returns a daemon whose journal took three runs and the start of a fourth, and the answer to that.
async fn with_an_end_that_does_not_fit() -> (Daemon, tonic::Status) {
    let daemon = Daemon::start().await;
    for _ in 0..3 {
        daemon.run(hook(["/bin/true"])).await.unwrap();
    }
    let (call, go) = held(&daemon, "r-held").await;
    assert_eq!(problem(&daemon).await, "");
    let length = fs::metadata(live(daemon.path())).unwrap().len();
    limit_files(&daemon, Some(length.try_into().unwrap()));
    fs::write(go, "").unwrap();
    let refusal = call.await.unwrap().unwrap_err();
    (daemon, refusal)
}

type Answer = Result<tonic::Response<pb::ExecuteResponse>, tonic::Status>;

/// Runs a hook until a file is there.
async fn held(daemon: &Daemon, id: &str) -> (tokio::task::JoinHandle<Answer>, PathBuf) {
    let workspace = daemon.workspace();
    let request = held_request(daemon, id);
    let mut client = daemon.client();
    let call = tokio::spawn(async move { client.execute(request).await });
    until("the hook's begin", || begun(daemon, id).exists()).await;
    (call, workspace.join("go"))
}

fn held_request(daemon: &Daemon, id: &str) -> pb::ExecuteRequest {
    pb::ExecuteRequest {
        request_id: id.to_owned(),
        ..writing(
            daemon,
            &format!("echo >>begun-{id}; until test -e go; do sleep 0.02; done"),
        )
    }
}

/// Returns what a held hook writes a line to.
fn begun(daemon: &Daemon, id: &str) -> PathBuf {
    daemon.workspace().join(format!("begun-{id}"))
}

fn doctor(daemon: &Daemon) -> std::process::Output {
    let socket = daemon.path().join("sock");
    let mut doctor = crate::support::command(program());
    doctor.args(["doctor", "--connect"]).arg(socket);
    doctor.output().unwrap()
}

/// The long form: `HOOKJAIL_CRASH_RUNS=1000 cargo test --test spec audit_failure::`; `HOOKJAIL_CRASH_SEED` repeats one.
#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_is_killed_at_any_moment_leaves_a_chain_that_tells_of_every_hook() {
    let number = |name| env::var(name).ok().map(|value| value.parse().unwrap());
    let runs = number("HOOKJAIL_CRASH_RUNS").unwrap_or(100_u64);
    let seed = number("HOOKJAIL_CRASH_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("HOOKJAIL_CRASH_SEED={seed}");
    let give_up = Instant::now() + Duration::from_secs(60 + runs);
    let setup = || Setup {
        // Many ends of files fall into the test.
        config: "[audit]\nrotate_bytes = \"64KiB\"\n".to_owned(),
        ..Setup::default()
    };
    let mut random = seed | 1;
    let mut below = |bound: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % bound
    };
    let next_number = Arc::new(AtomicUsize::new(0));
    let mut home = directory();
    let mut kills = 0;
    while next_number.load(Ordering::Relaxed) < runs.try_into().unwrap() {
        assert!(Instant::now() < give_up, "{kills} kills take too long");
        let daemon = Daemon::in_directory(home, setup()).await.unwrap();
        let callers = (0..4).map(|_| {
            let (next_number, mut client) = (Arc::clone(&next_number), daemon.client());
            let request = writing(&daemon, "");
            tokio::spawn(async move {
                loop {
                    let number = next_number.fetch_add(1, Ordering::Relaxed);
                    let mut request = named(request.clone(), number);
                    let script =
                        format!("echo >ran-{number}; test $(({number} % 3)) = 0 || sleep 0.02");
                    request.hook.as_mut().unwrap().argv[2] = script;
                    let call = tokio::time::timeout(SOON, client.execute(request));
                    if call.await.expect("an answer, or the daemon's end").is_err() {
                        return;
                    }
                }
            })
        });
        let callers: Vec<_> = callers.collect();
        // No wait for anything: the kill comes at a random moment.
        tokio::time::sleep(Duration::from_micros(below(400_000))).await;
        home = daemon.kill();
        kills += 1;
        for caller in callers {
            caller.await.unwrap();
        }
    }

    let last = Daemon::in_directory(home, setup()).await.unwrap();
    println!(
        "{} requests, {kills} kills",
        next_number.load(Ordering::Relaxed)
    );
    let verified = verify_journal(&audit(last.path())).unwrap();
    let records = records(last.path());
    assert_eq!(verified.records, u64::try_from(records.len()).unwrap());
    assert_every_run_has_its_start(last.path(), &records);
    let mut open = BTreeMap::new();
    let mut interrupted = 0;
    for record in &records {
        let run = record["run_id"].as_str().unwrap_or_default();
        match record["record"].as_str().unwrap() {
            "started" => assert_eq!(open.insert(run, &record["sequence"]), None),
            "ended" => assert!(open.remove(run).is_some(), "{record}"),
            "interrupted" => {
                assert_eq!(
                    open.remove(run),
                    Some(&record["started_sequence"]),
                    "{record}"
                );
                interrupted += 1;
            }
            // The run may have been announced before it was refused.
            "refused" => drop(open.remove(run)),
            "torn" => {}
            other => panic!("{other}: {record}"),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    assert!(interrupted > 0, "no kill hit a run");
}

fn named(request: pb::ExecuteRequest, number: usize) -> pb::ExecuteRequest {
    pb::ExecuteRequest {
        request_id: format!("r-{number}"),
        ..request
    }
}

/// Asserts that every hook that left a file in the workspace was announced.
fn assert_every_run_has_its_start(home: &Path, records: &[Value]) {
    let started: BTreeSet<_> = records
        .iter()
        .filter(|record| record["record"] == "started")
        .map(|record| record["request_id"].as_str().unwrap())
        .collect();
    let mut witnesses = 0;
    for entry in fs::read_dir(home.join("workspace")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(number) = name.strip_prefix("ran-") {
            assert!(
                started.contains(&*format!("r-{number}")),
                "{name} ran without a start"
            );
            witnesses += 1;
        }
    }
    assert!(witnesses > 0);
}

fn audit(home: &Path) -> PathBuf {
    home.join("state/audit")
}

fn live(home: &Path) -> PathBuf {
    audit(home).join("journal.jsonl")
}

/// Has the kernel refuse the daemon files longer than this, as a full disk would.
pub(crate) fn limit_files(daemon: &Daemon, bytes: Option<usize>) {
    let bytes = bytes.map_or_else(|| "unlimited".to_owned(), |bytes| bytes.to_string());
    let limited = Command::new("prlimit")
        .arg(format!("--pid={}", daemon.pid()))
        .arg(format!("--fsize={bytes}:"))
        .status();
    assert!(limited.unwrap().success());
}

#[tokio::test]
async fn a_daemon_that_can_start_no_process_says_so_until_it_can() {
    if nix::unistd::geteuid().is_root() {
        println!("skipped: no limit on processes binds root");
        return;
    }
    let daemon = Daemon::start().await;
    daemon.run(hook(["/bin/true"])).await.unwrap();
    assert_eq!(serving(&daemon).await, ServingStatus::Serving);
    let prlimit = |words: &[&str]| {
        let pid = format!("--pid={}", daemon.pid());
        let output = Command::new("prlimit").arg(pid).args(words).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let before = prlimit(&["--nproc", "--raw", "--noheadings", "--output=SOFT"]);
    let limit_processes = |most: &str| prlimit(&[&format!("--nproc={most}:")]);

    limit_processes("1");
    let refusal = daemon.run(hook(["/bin/true"])).await.unwrap_err();
    assert_eq!(reason(&refusal), "OVERLOADED");
    until_it("the end of serving", async || {
        serving(&daemon).await == ServingStatus::NotServing
    })
    .await;
    assert!(daemon.log().contains("hooks cannot be started: "));

    limit_processes(before.trim());
    until_it("another attempt", async || {
        serving(&daemon).await == ServingStatus::Serving
    })
    .await;
    daemon.run(hook(["/bin/true"])).await.unwrap();
}

async fn serving(daemon: &Daemon) -> ServingStatus {
    let mut client = HealthClient::new(daemon.channel());
    let health = client.check(HealthCheckRequest::default()).await;
    health.unwrap().into_inner().status()
}

/// Waits until health, status and `doctor` report that nothing is run.
async fn assert_said_everywhere(daemon: &Daemon) {
    until_it("the end of serving", async || {
        serving(daemon).await == ServingStatus::NotServing
    })
    .await;
    assert!(!problem(daemon).await.is_empty());
    let doctor = doctor(daemon);
    assert_eq!(doctor.status.code(), Some(1), "{doctor:?}");
}

async fn assert_serves_again(daemon: &Daemon) {
    until_it("the journal's next attempt", async || {
        serving(daemon).await == ServingStatus::Serving
    })
    .await;
    assert_eq!(problem(daemon).await, "");
}

async fn problem(daemon: &Daemon) -> String {
    let mut client = SandboxServiceClient::new(daemon.channel());
    let status = client.get_status(pb::GetStatusRequest {}).await;
    status.unwrap().into_inner().audit_problem
}

mod as_root {
    use super::*;
    use crate::support::needs_root;

    /// Returns a daemon whose journal has a small disk of its own, and that disk.
    async fn on_a_disk_of(size: &str) -> (Daemon, PathBuf, Mount) {
        needs_root();
        let directory = directory();
        let disk = audit(directory.path());
        fs::create_dir_all(&disk).unwrap();
        let mount = Mount::tmpfs(&disk, &format!("size={size},mode=0700"));
        let daemon = Daemon::in_directory(directory, Setup::default()).await;
        (daemon.unwrap(), disk, mount)
    }

    #[tokio::test]
    #[ignore = "needs root that may mount"]
    async fn on_a_full_disk_every_hook_that_ran_has_its_start_and_the_chain_holds() {
        let (daemon, disk, mount) = on_a_disk_of("160k").await;
        let mut ran = 0;
        let refusal = loop {
            let request = writing(&daemon, &format!("echo >ran-{ran}"));
            match daemon.run(named(request, ran)).await {
                Ok(_) => ran += 1,
                Err(refusal) => break refusal,
            }
            assert!(ran < 100, "the disk does not fill up");
        };

        assert_eq!(reason(&refusal), "AUDIT_UNAVAILABLE");
        assert!(ran > 3, "{ran}");
        let records = records(daemon.path());
        assert_every_run_has_its_start(daemon.path(), &records);
        let verified = verify_journal(&disk).unwrap();
        assert_eq!(verified.records, u64::try_from(records.len()).unwrap());

        let directory = daemon.kill();
        mount.make_read_only();
        let why = Daemon::in_directory(directory, Setup::default())
            .await
            .unwrap_err();
        assert!(why.contains("open the audit journal"), "{why}");
        drop(mount);
    }

    #[tokio::test]
    #[ignore = "needs root that may mount"]
    async fn a_disk_that_others_fill_keeps_hooks_from_starting_and_none_from_its_end() {
        let (daemon, disk, mount) = on_a_disk_of("2m").await;
        // Together their ends are longer than what is free of the journal's last page.
        let mut calls = Vec::new();
        for number in 0..8 {
            calls.push(held(&daemon, &format!("r-{number}")).await);
        }
        let filler = disk.join("filler");
        let fill = |bytes: usize| {
            let mut file = fs::File::options().create(true).append(true).open(&filler);
            std::io::Write::write_all(file.as_mut().unwrap(), &vec![0; bytes])
        };
        // The control: there is no room for a byte of somebody else's.
        while fill(4096).is_ok() {}
        assert!(fill(1).is_err());

        for (call, go) in calls {
            fs::write(go, "").unwrap();
            let ended = call.await.unwrap().unwrap().into_inner();
            assert_eq!(ended.outcome.unwrap().exit_code, Some(0));
        }
        // The space that is reserved in advance is used up first.
        let mut ran = 0;
        let refusal = loop {
            match daemon.run(hook(["/bin/true"])).await {
                Ok(_) => ran += 1,
                Err(refusal) => break refusal,
            }
            assert!(ran < 1000, "the disk does not fill up");
        };
        assert_eq!(reason(&refusal), "AUDIT_UNAVAILABLE");
        assert_said_everywhere(&daemon).await;

        // One line at the beginning, however many requests follow.
        for _ in 0..50 {
            daemon.run(hook(["/bin/true"])).await.unwrap_err();
        }
        let lines = daemon.log().matches("ERROR").count();
        assert!(lines < 5, "{lines}: {}", daemon.log());

        fs::remove_file(&filler).unwrap();
        assert_serves_again(&daemon).await;
        daemon.run(hook(["/bin/true"])).await.unwrap();
        assert_verifies(daemon.path());
        drop(mount);
    }
}
