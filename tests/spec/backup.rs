//! The journal is copied while daemons write, and a daemon goes on with the copy.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start the command line itself, never a hook"
)]

use std::{fs, os::unix::fs::PermissionsExt, path::Path, sync::Arc};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;

use crate::{
    support::{Daemon, Setup, directory, hook, reason},
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

#[tokio::test]
async fn a_daemon_goes_on_with_the_state_of_an_earlier_version() {
    let root = directory();
    earlier_state(&root.path().join("state"));
    let daemon = Daemon::in_directory(root, asking()).await.unwrap();

    daemon.run(hook(["/bin/true"])).await.unwrap();
    // This consent does not count: its entry has no digest of its profile.
    let refused = daemon.run(hook(["/bin/true", "profile"])).await;
    assert_eq!(reason(&refused.unwrap_err()), "CONSENT_REQUIRED");

    assert_verifies(daemon.path());
    let kinds = records(daemon.path());
    let kinds: Vec<_> = kinds.iter().map(|it| it["record"].clone()).collect();
    let earlier = ["started", "ended", "refused", "started", "ended"];
    let new = ["started", "ended", "refused"];
    assert_eq!(json!(kinds), json!([&earlier[..], &new[..]].concat()));
    let head = fs::read(daemon.path().join("state/audit/head.json")).unwrap();
    let head: Value = serde_json::from_slice(&head).unwrap();
    assert_eq!(
        (&head["version"], &head["sequence"]),
        (&json!(1), &json!(8))
    );
}

#[tokio::test]
async fn a_consent_of_a_later_version_keeps_no_daemon_from_starting_and_is_named_once() {
    let root = directory();
    let state = root.path().join("state");
    earlier_state(&state);
    let list = fs::read_to_string(state.join("allowlist.json")).unwrap();
    let mut list: Value = serde_json::from_str(&list).unwrap();
    list[1]["digests"][0]["role"] = json!("wasm_module");
    fs::write(state.join("allowlist.json"), list.to_string()).unwrap();

    let daemon = Daemon::in_directory(root, asking()).await.unwrap();

    for _ in 0..2 {
        daemon.run(hook(["/bin/true"])).await.unwrap();
        let refused = daemon.run(hook(["/bin/true", "profile"])).await;
        assert_eq!(reason(&refused.unwrap_err()), "CONSENT_REQUIRED");
    }
    let log = daemon.log();
    let named =
        "the consent to `/bin/true profile` does not count: a digest has the role `wasm_module`";
    assert_eq!(log.matches(named).count(), 1, "{log}");
    let config = daemon.path().join("hookjail.toml");
    let revoke = ["consent", "revoke", "--all", "--yes"];
    let revoked = hookjail(&config, &revoke).output().unwrap();
    assert!(revoked.status.success(), "{revoked:?}");
    let left = fs::read_to_string(daemon.path().join("state/allowlist.json")).unwrap();
    assert_eq!(left, "[]\n");
}

#[tokio::test]
async fn a_daemon_names_the_versions_of_a_head_file_that_a_later_one_wrote() {
    let root = directory();
    let state = root.path().join("state");
    earlier_state(&state);
    let head = state.join("audit/head.json");
    let sealed = r#"{"version":2,"ends":[5]"#;
    let line = format!("{sealed},\"sha256\":\"{:x}\"}}", Sha256::digest(sealed));
    fs::write(&head, format!("{line:511}\n")).unwrap();

    let refused = Daemon::in_directory(root, asking()).await.unwrap_err();

    let version = env!("CARGO_PKG_VERSION");
    let cause = format!(
        "cannot use `{}`: `head.json` has version 2, and hookjail {version} reads version 1; ",
        head.display()
    );
    let (_, fix) = refused.split_once(&cause).expect(&refused);
    assert!(
        fix.starts_with("install the newer hookjail, or restore an earlier journal"),
        "{refused}"
    );
}

/// Returns a daemon that runs what is allowed.
fn asking() -> Setup {
    Setup {
        ask_for_consent: true,
        ..Setup::default()
    }
}

/// Makes the state that a daemon of an earlier version left, for this host's programs.
fn earlier_state(state: &Path) {
    let fixture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/state/before_versions");
    fs::create_dir_all(state.join("audit")).unwrap();
    let digest = format!("{:x}", Sha256::digest(fs::read("/bin/true").unwrap()));
    for name in ["allowlist.json", "audit/head.json", "audit/journal.jsonl"] {
        let text = fs::read_to_string(fixture.join(name)).unwrap();
        let text = text.replace("SHA256", &digest);
        fs::write(state.join(name), text).unwrap();
        let mode = fs::Permissions::from_mode(0o600);
        fs::set_permissions(state.join(name), mode).unwrap();
    }
    for directory in [state, &state.join("audit")] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).unwrap();
    }
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
