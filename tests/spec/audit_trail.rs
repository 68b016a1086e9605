//! Every run is written down before it starts and when it is over; a run that cannot be written down does not start.

use std::fs;

use hookjail::pb;
use hookjail_journal::verify::{ChainBreak, VerifyError, verify_file};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::{task::JoinSet, time::timeout};
use tonic::Code;
use tonic_types::StatusExt;

use crate::{
    audit_failure::limit_files,
    support::{Daemon, Setup, hook, reason, sh},
    witness::{SOON, assert_verifies, event, until, writing},
};

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[tokio::test]
async fn the_start_is_written_down_before_the_hook_begins() {
    let daemon = Daemon::start().await;
    let workspace = daemon.workspace();
    let request = writing(
        &daemon,
        "echo >begun; until test -e go; do sleep 0.02; done",
    );
    let mut client = daemon.client();
    let call = tokio::spawn(async move { client.execute(request).await });
    until("the hook's begin", || workspace.join("begun").exists()).await;

    assert_eq!(daemon.records(), ["started"]);

    fs::write(workspace.join("go"), "").unwrap();
    call.await.unwrap().unwrap();
    assert_eq!(daemon.records(), ["started", "ended"]);
}

#[tokio::test]
async fn the_records_tell_who_ran_what_under_which_confinement_and_how_it_ended() {
    let daemon = Daemon::start().await;
    let script = "echo out; echo problem >&2; exit 3";
    let mut request = sh("strict", script);
    request.request_id = "request-7".to_owned();
    request.session_id = "session-8".to_owned();
    request.timeout = crate::witness::wall_time(9);
    request.event = Some(pb::Event {
        json: b"{}".as_slice().into(),
        point: "tool.pre".to_owned(),
        raw: true,
    });
    let hook = request.hook.as_mut().unwrap();
    hook.name = "checker".to_owned();
    hook.env.insert("HOOK_MODE".to_owned(), "quick".to_owned());

    let response = daemon.run(request).await.unwrap();

    let [started, ended] = &daemon.journal()[..] else {
        panic!("{:?}", daemon.records())
    };
    let audit = response.audit.unwrap();
    let confinement = response.confinement.unwrap();
    let keys = [
        "record",
        "run_id",
        "request_id",
        "hook",
        "command",
        "program",
        "consent",
        "contract",
        "point",
        "session",
        "profile",
        "profile_digest",
        "backend",
        "timeout_ms",
        "event_sha256",
        "event_bytes",
        "environment",
    ];
    let recorded: serde_json::Map<_, _> = keys
        .iter()
        .map(|key| ((*key).to_owned(), started[*key].clone()))
        .collect();
    assert_eq!(
        serde_json::Value::from(recorded),
        json!({
            "record": "started",
            "run_id": audit.run_id,
            "request_id": "request-7",
            "hook": "checker",
            "command": { "argv": ["/bin/sh", "-c", script] },
            "program": "/bin/sh",
            "consent": "environment",
            "contract": "observe",
            "point": "tool.pre",
            "session": "session-8",
            "profile": "strict",
            "profile_digest": confinement.profile_digest,
            "backend": "landlock",
            "timeout_ms": 9000,
            "event_sha256": sha256(b"{}"),
            "event_bytes": 2,
            "environment": ["HOOK_MODE"],
        })
    );
    assert_eq!(
        started["peer"],
        json!({ "pid": std::process::id(), "uid": nix::unistd::geteuid().as_raw() })
    );
    assert_eq!(started["axes"].as_array().unwrap().len(), 14);
    let program = &started["digests"][0];
    assert_eq!(program["sha256"], sha256(&fs::read("/bin/sh").unwrap()));

    let keys = [
        "record",
        "run_id",
        "released",
        "outcome",
        "exit_code",
        "stdout",
        "stderr",
        "confirmed",
    ];
    let recorded: serde_json::Map<_, _> = keys
        .iter()
        .map(|key| ((*key).to_owned(), ended[*key].clone()))
        .collect();
    assert_eq!(
        serde_json::Value::from(recorded),
        json!({
            "record": "ended",
            "run_id": audit.run_id,
            "released": true,
            "outcome": "exited",
            "exit_code": 3,
            "stdout": { "sha256": sha256(b"out\n"), "total_bytes": 4, "truncated": false },
            "stderr": { "sha256": sha256(b"problem\n"), "total_bytes": 8, "truncated": false },
            "confirmed": true,
        })
    );
    assert_eq!(
        (&ended["sequence"], &ended["hash"]),
        (&audit.sequence.into(), &audit.hash.into())
    );
    assert_verifies(daemon.path());
}

#[tokio::test]
async fn refusals_are_written_down_with_their_reason() {
    let daemon = Daemon::start().await;

    let refusal = daemon.run(sh("no-such", "true")).await.unwrap_err();

    assert_eq!(reason(&refusal), "PROFILE_UNKNOWN");
    let record = daemon.journal().remove(0);
    assert_eq!(
        (&record["record"], &record["reason"], &record["profile"]),
        (
            &"refused".into(),
            &"PROFILE_UNKNOWN".into(),
            &"no-such".into()
        )
    );
    assert_eq!(record["command"]["argv"], json!(["/bin/sh", "-c", "true"]));
}

#[tokio::test]
async fn many_refusals_of_a_caller_are_counted_and_runs_are_not() {
    let daemon = Daemon::start().await;
    let requests = 400;
    let mut calls = JoinSet::new();
    for _ in 0..requests {
        let mut client = daemon.client();
        calls.spawn(async move { client.execute(sh("no-such", "true")).await });
    }
    while let Some(answer) = calls.join_next().await {
        assert_eq!(reason(&answer.unwrap().unwrap_err()), "PROFILE_UNKNOWN");
    }
    let ran = daemon.run(hook(["/bin/true"])).await;
    ran.unwrap();

    let counts = || -> Vec<u64> {
        let journal = daemon.journal();
        let refused = journal
            .iter()
            .filter(|it| it["reason"] == "PROFILE_UNKNOWN");
        let count = |record: &serde_json::Value| record["count"].as_u64().unwrap_or(1);
        refused.map(count).collect()
    };
    until("the records of all", || {
        counts().iter().sum::<u64>() >= requests
    })
    .await;
    let counts = counts();
    assert_eq!(counts.iter().sum::<u64>(), requests);
    assert!(counts.iter().any(|count| *count > 1), "{counts:?}");
    assert!(counts.len() >= 100, "{counts:?}");
    let records = daemon.records();
    let runs = records.iter().filter(|kind| *kind != "refused");
    assert_eq!(runs.collect::<Vec<_>>(), ["started", "ended"]);
    assert_verifies(daemon.path());
}

#[tokio::test]
async fn neither_journal_nor_log_holds_events_environment_values_or_output() {
    let daemon = Daemon::with(Setup {
        env: vec![("HOOKJAIL_LOG".to_owned(), "trace,h2=info".to_owned())],
        ..Setup::default()
    })
    .await;
    let mut request = sh(
        "strict",
        r#"read -r x; echo "$x$HOOK_SECRET"; echo "$x" >&2"#,
    );
    request.event = event("\"EVENT-MARKER\"");
    let hook = request.hook.as_mut().unwrap();
    hook.env
        .insert("HOOK_SECRET".to_owned(), "VALUE-MARKER".to_owned());

    let response = daemon.run(request).await.unwrap();

    let stdout = String::from_utf8_lossy(&response.stdout).into_owned();
    assert_eq!(stdout, "\"EVENT-MARKER\"VALUE-MARKER\n");
    let journal = fs::read_to_string(daemon.path().join("state/audit/journal.jsonl")).unwrap();
    for marker in ["EVENT-MARKER", "VALUE-MARKER"] {
        assert!(!journal.contains(marker), "{journal}");
        assert!(!daemon.log().contains(marker));
    }
}

#[tokio::test]
async fn output_and_arguments_cannot_forge_a_record() {
    let daemon = Daemon::start().await;
    let forged = "x\n{\"record\":\"ended\",\"sequence\":3}\n";
    let mut request = hook(["/bin/sh", "-c", "printf '%s' \"$1\" >&2", "sh", forged]);
    request.hook.as_mut().unwrap().name = "plain".to_owned();

    let response = daemon.run(request).await.unwrap();

    assert_eq!(&response.stderr[..], forged.as_bytes());
    assert_eq!(daemon.records(), ["started", "ended"]);
    assert_verifies(daemon.path());
}

#[tokio::test]
async fn nothing_runs_once_the_journal_cannot_be_written() {
    let daemon = Daemon::start().await;
    // From here on files may grow to 16 KiB only.
    limit_files(&daemon, Some(16384));
    let mut ran = 0;
    let refusal = loop {
        match daemon.run(hook(["/bin/true"])).await {
            Ok(_) => ran += 1,
            Err(refusal) => break refusal,
        }
        assert!(ran < 100, "the journal is still written");
    };
    assert_eq!(
        (refusal.code(), reason(&refusal)),
        (Code::Unavailable, "AUDIT_UNAVAILABLE".to_owned())
    );

    let refusal = daemon.run(writing(&daemon, "echo >ran")).await.unwrap_err();

    assert_eq!(reason(&refusal), "AUDIT_UNAVAILABLE");
    assert!(!daemon.workspace().join("ran").exists());
}

#[tokio::test]
async fn a_daemon_whose_journal_is_gone_says_so_of_the_end_and_ends() {
    let mut daemon = Daemon::start().await;
    let workspace = daemon.workspace();
    let request = writing(
        &daemon,
        "echo >begun; until test -e go; do sleep 0.02; done",
    );
    let mut client = daemon.client();
    let call = tokio::spawn(async move { client.execute(request).await });
    until("the hook's begin", || workspace.join("begun").exists()).await;

    fs::remove_file(daemon.path().join("state/audit/journal.jsonl")).unwrap();
    fs::write(workspace.join("go"), "").unwrap();
    let refusal = call.await.unwrap().unwrap_err();

    assert_eq!(reason(&refusal), "AUDIT_UNAVAILABLE");
    let details = refusal.get_error_details();
    assert_eq!(details.error_info().unwrap().metadata["released"], "true");
    // The daemon can write no further record, so it ends for another one to start.
    let ended = tokio::task::spawn_blocking(move || {
        daemon.child().wait().map(|status| (status, daemon.log()))
    });
    let (status, log) = timeout(SOON, ended).await.unwrap().unwrap().unwrap();
    assert_eq!(status.code(), Some(125), "{log}");
    assert!(
        log.contains("was removed or replaced while in use"),
        "{log}"
    );
}

#[tokio::test]
async fn a_daemon_whose_lock_is_gone_writes_beside_no_other() {
    let mut daemon = Daemon::start().await;
    daemon.run(hook(["/bin/true"])).await.unwrap();
    fs::remove_file(daemon.path().join("state/audit/journal.lock")).unwrap();

    let refusal = daemon.run(writing(&daemon, "echo >ran")).await.unwrap_err();

    assert_eq!(reason(&refusal), "AUDIT_UNAVAILABLE");
    assert!(!daemon.workspace().join("ran").exists());
    let status = tokio::task::spawn_blocking(move || {
        let status = daemon.child().wait().unwrap();
        assert_verifies(daemon.path());
        status
    });
    let status = timeout(SOON, status).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(125));
}

#[tokio::test]
async fn a_changed_byte_is_found() {
    let daemon = Daemon::start().await;
    for _ in 0..3 {
        daemon.run(hook(["/bin/true"])).await.unwrap();
    }
    let path = daemon.path().join("state/audit/journal.jsonl");
    assert_verifies(daemon.path());

    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines[2] = lines[2].replace("/bin/true", "/bin/trve");
    let copy = daemon.outside("journal.jsonl");
    fs::write(&copy, lines.join("\n") + "\n").unwrap();

    let VerifyError::Broken(broken) = verify_file(&copy).unwrap_err() else {
        panic!("the copy can be read")
    };
    assert_eq!((broken.line, broken.why), (3, ChainBreak::Edited));
}
