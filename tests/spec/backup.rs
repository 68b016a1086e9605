//! The journal is copied while daemons write, and a daemon goes on with the copy.

use std::{fs, path::Path, sync::Arc};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    support::{Daemon, Setup, directory, hook},
    witness::{assert_verifies, hookjail, json, records, until},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_is_copied_whole_while_it_is_written_and_rotated() {
    let daemon = Arc::new(rotating().await);
    let mut load = JoinSet::new();
    for _ in 0..4 {
        let daemon = Arc::clone(&daemon);
        load.spawn(async move {
            // A start record has the whole command.
            let long = "x".repeat(6000);
            loop {
                daemon.run(hook(["/bin/true", &long])).await.unwrap();
            }
        });
    }
    let mut first = 1;
    for number in 0..6 {
        // Since the copy before, rotation removed a file.
        until("rotation", || oldest(&daemon) > first).await;

        let copy = daemon.path().join(number.to_string());
        let copied = snapshot(&daemon, &copy);

        let verified = audit(&daemon, &["verify", copy.to_str().unwrap()]);
        assert_eq!(verified["holds"], true, "{verified}");
        for name in ["files", "first", "last", "records"] {
            assert_eq!(copied[name], verified[name], "{name}: {copied} {verified}");
        }
        assert_eq!(copied["directory"], json!(copy));
        let size = |entry: fs::DirEntry| match entry.path().extension() {
            Some(extension) if extension == "jsonl" => entry.metadata().unwrap().len(),
            Some(_) | None => 0,
        };
        let entries = fs::read_dir(&copy).unwrap();
        let bytes: u64 = entries.map(|entry| size(entry.unwrap())).sum();
        assert_eq!(copied["bytes"], bytes);
        first = copied["first"].as_u64().unwrap();
    }
    load.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_goes_on_with_a_copy_and_records_the_runs_that_had_not_ended() {
    let daemon = Arc::new(rotating().await);
    daemon.run(hook(["/bin/true"])).await.unwrap();
    let running = Arc::clone(&daemon);
    let run = tokio::spawn(async move { running.run(hook(["/bin/sleep", "60"])).await });
    until("the start", || daemon.records().len() == 3).await;
    let restored = directory();
    fs::create_dir(restored.path().join("state")).unwrap();

    let copied = snapshot(&daemon, &restored.path().join("state/audit"));

    assert_eq!(
        (&copied["first"], &copied["last"], &copied["files"]),
        (&json!(1), &json!(3), &json!(1))
    );
    let next = Daemon::in_directory(restored, Setup::default()).await;
    let next = next.unwrap();
    next.run(hook(["/bin/true"])).await.unwrap();
    assert_verifies(next.path());
    let kinds = records(next.path());
    let kinds: Vec<_> = kinds.iter().map(|it| it["record"].clone()).collect();
    assert_eq!(
        json!(kinds),
        json!([
            "started",
            "ended",
            "started",
            "interrupted",
            "started",
            "ended"
        ])
    );
    // The daemon that was copied goes on, too.
    assert_eq!(daemon.records().len(), 3);
    run.abort();
}

#[tokio::test]
async fn a_copy_is_refused_into_files_and_into_the_journal() {
    let daemon = rotating().await;
    daemon.run(hook(["/bin/true"])).await.unwrap();
    let journal = daemon.path().join("state/audit");
    for (directory, words) in [
        (
            daemon.path().to_owned(),
            "is not empty; name a new directory",
        ),
        (
            journal.join("copy"),
            "is inside the journal; name a directory elsewhere",
        ),
    ] {
        let config = daemon.path().join("hookjail.toml");
        let words_of_call = ["audit", "snapshot", directory.to_str().unwrap()];
        let refused = hookjail(&config, &words_of_call).output().unwrap();
        let stderr = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(125), "{stderr}");
        let expected = format!("hookjail: `{}` {words}\n", directory.display());
        assert_eq!(stderr, expected);
    }
    assert!(!journal.join("copy").exists());
}

/// Starts a daemon whose journal is rotated after a few calls.
async fn rotating() -> Daemon {
    Daemon::with(Setup {
        config: "[audit]\nrotate_bytes = \"64KiB\"\nkeep_files = 3\n".to_owned(),
        ..Setup::default()
    })
    .await
}

/// Returns the first record of the oldest file that is kept.
fn oldest(daemon: &Daemon) -> u64 {
    let head = fs::read(daemon.path().join("state/audit/head.json")).unwrap();
    // A writer may be within its one write.
    let head = serde_json::from_slice::<Value>(&head).unwrap_or_default();
    head["oldest"].as_u64().unwrap_or_default()
}

fn snapshot(daemon: &Daemon, directory: &Path) -> Value {
    audit(daemon, &["snapshot", directory.to_str().unwrap()])
}

/// Calls a subcommand of `audit` with `--json`, which must succeed.
fn audit(daemon: &Daemon, words: &[&str]) -> Value {
    let words = [&["--json", "audit"], words].concat();
    let config = daemon.path().join("hookjail.toml");
    let output = hookjail(&config, &words).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    json(&output)
}
