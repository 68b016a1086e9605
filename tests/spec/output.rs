//! The output of a hook comes back, bounded and byte for byte. Input that the hook does not read does no harm.

use std::{
    fmt::Write,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use hookjail::pb::{self, OutcomeKind, execute_stream_response::Part};
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;
use tonic::Code;

use crate::{
    support::{Daemon, Setup, contained, field, hook, reason, sh},
    witness::{end, event, status_kib, wall_time, writing},
};

const MIB: usize = 1024 * 1024;

fn big_reply(request: pb::ExecuteRequest) -> pb::ExecuteRequest {
    pb::ExecuteRequest {
        max_reply_bytes: Some(64 * 1024 * 1024),
        ..request
    }
}

/// Returns the SHA-256 as its usual text.
fn digest(text: &[u8]) -> String {
    let mut digest = String::new();
    for byte in Sha256::digest(text) {
        write!(digest, "{byte:02x}").unwrap();
    }
    digest
}

/// Returns a hook that prints bytes `a`, then an end.
fn prints(mebibytes: usize, after: &str) -> pb::ExecuteRequest {
    let bytes = mebibytes * MIB;
    let script = format!("head -c {bytes} /dev/urandom | tr '\\000-\\377' a; {after}");
    sh("pipeline", &script)
}

#[tokio::test]
async fn stdout_and_stderr_come_back_apart() {
    let daemon = Daemon::start().await;

    let response = daemon
        .run(sh("strict", "echo out; echo err >&2; echo more"))
        .await
        .unwrap();

    assert_eq!(
        (&response.stdout[..], &response.stderr[..]),
        (b"out\nmore\n".as_slice(), b"err\n".as_slice())
    );
    assert_eq!(
        (response.stdout_total_bytes, response.stderr_total_bytes),
        (9, 4)
    );
}

#[tokio::test]
async fn of_a_long_output_the_first_10_mib_and_the_last_64_kib_are_kept() {
    let daemon = Daemon::start().await;

    let response = daemon
        .run(big_reply(prints(12, "printf the-end")))
        .await
        .unwrap();

    let total = 12 * MIB + 7;
    assert_eq!(end(&response), (OutcomeKind::Exited, Some(0), None));
    assert!(response.stdout == vec![b'a'; 10 * MIB]);
    assert_eq!(response.stdout_tail.len(), 64 * 1024);
    assert!(response.stdout_tail.ends_with(b"athe-end"));
    assert_eq!(
        (
            response.stdout_total_bytes,
            response.stdout_truncated,
            response.cut_for_reply
        ),
        (total as u64, true, false)
    );
}

#[tokio::test]
async fn a_reply_stays_below_what_clients_accept_by_default_and_says_so() {
    let daemon = Daemon::start().await;

    let response = daemon.run(prints(6, ":")).await.unwrap();

    let length = prost::Message::encoded_len(&response);
    assert!(length < 4 * MIB, "{length}");
    assert!(response.stdout.len() > 3 * MIB);
    assert_eq!(
        (
            response.stdout_total_bytes,
            response.stdout_truncated,
            response.cut_for_reply
        ),
        (6 * MIB as u64, false, true)
    );
}

#[tokio::test]
async fn a_flood_does_not_fill_the_daemons_memory() {
    let daemon = Daemon::start().await;
    let request = pb::ExecuteRequest {
        timeout: wall_time(2),
        ..hook(["/usr/bin/yes"])
    };

    let response = daemon.run(request).await.unwrap();

    assert_eq!(end(&response).0, OutcomeKind::TimedOut);
    assert!(response.stdout_total_bytes > 20 * MIB as u64);
    assert!(response.stdout_truncated);
    let peak = status_kib(daemon.pid(), "VmHWM");
    assert!(peak < 128 * 1024, "{peak} KiB");
}

#[tokio::test]
async fn output_that_is_no_text_comes_back_byte_for_byte() {
    let daemon = Daemon::start().await;
    let script = r"printf '\357\273\277a\000\377\376\r\n\033[31m'";

    let response = daemon.run(sh("strict", script)).await.unwrap();

    assert_eq!(
        &response.stdout[..],
        b"\xef\xbb\xbfa\0\xff\xfe\r\n\x1b[31m".as_slice()
    );
}

#[tokio::test]
async fn a_hook_may_leave_its_event_unread() {
    let daemon = Daemon::start().await;
    let unread = format!("\"{}\"", "x".repeat(MIB));
    for script in [
        "echo ok",
        "exec <&-; echo ok",
        "read -r _ </dev/null; echo ok",
    ] {
        let request = pb::ExecuteRequest {
            event: event(unread.clone()),
            ..sh("strict", script)
        };
        let response = daemon.run(request).await.unwrap();
        assert_eq!(
            (end(&response), &response.stdout[..]),
            ((OutcomeKind::Exited, Some(0), None), b"ok\n".as_slice()),
            "{script}"
        );
    }
}

#[tokio::test]
async fn an_event_of_16_mib_arrives_whole() {
    let daemon = Daemon::start().await;
    let json = format!("\"{}\"", "x".repeat(16 * MIB - 2));
    let digest = digest(json.as_bytes());

    let response = daemon
        .run(pb::ExecuteRequest {
            event: event(json),
            ..hook(["/usr/bin/sha256sum"])
        })
        .await
        .unwrap();

    assert_eq!(
        String::from_utf8_lossy(&response.stdout),
        format!("{digest}  -\n")
    );
}

#[tokio::test]
async fn a_larger_event_is_refused() {
    let daemon = Daemon::start().await;
    let json = format!("\"{}\"", "x".repeat(16 * MIB - 1));

    let refusal = daemon
        .run(pb::ExecuteRequest {
            event: event(json),
            ..hook(["/usr/bin/sha256sum"])
        })
        .await
        .unwrap_err();

    assert_eq!(
        (refusal.code(), reason(&refusal)),
        (Code::InvalidArgument, "EVENT_TOO_LARGE".to_owned())
    );
    assert_eq!(field(&refusal), "event.json");
    assert_eq!(daemon.records(), ["refused"]);
}

#[tokio::test]
async fn a_profile_may_end_a_hook_that_prints_too_much() {
    let profile = "description = \"ends floods\"\nextends = \"strict\"\n[limits]\non_limit = \"kill\"\noutput = \"64KiB\"\n";
    let daemon = Daemon::with(Setup {
        profiles: vec![("no-floods".to_owned(), profile.to_owned())],
        ..Setup::default()
    })
    .await;
    let request = pb::ExecuteRequest {
        profile: "no-floods".to_owned(),
        ..hook(["/usr/bin/yes"])
    };

    let response = daemon.run(request).await.unwrap();

    assert_eq!(end(&response).0, OutcomeKind::OutputLimit);
    assert_eq!(response.stdout.len(), 64 * 1024);
    assert!(response.stdout_truncated);
}

#[tokio::test]
async fn a_stream_brings_output_before_the_end_and_the_response_last() {
    let daemon = Daemon::start().await;
    let workspace = daemon.workspace();
    let script = "echo begun; until test -e go; do sleep 0.02; done; echo problem >&2; echo over";
    let mut request = sh("workspace-ro", script);
    request.hook.as_mut().unwrap().workspace = workspace.display().to_string();
    let request = pb::ExecuteStreamRequest {
        request: Some(request),
    };
    let mut stream = daemon
        .client()
        .execute_stream(request)
        .await
        .unwrap()
        .into_inner();

    // The hook goes on only after its first line has arrived.
    let first = stream.message().await.unwrap().unwrap().part.unwrap();
    assert_eq!(first, Part::Stdout(b"begun\n".as_slice().into()));
    std::fs::write(workspace.join("go"), "").unwrap();

    let (mut stdout, mut stderr, mut last) = (b"begun\n".to_vec(), Vec::new(), None);
    while let Some(message) = stream.message().await.unwrap() {
        assert!(last.is_none(), "something follows the response");
        match message.part.unwrap() {
            Part::Stdout(bytes) => stdout.extend(bytes),
            Part::Stderr(bytes) => stderr.extend(bytes),
            Part::Response(response) => last = Some(response),
        }
    }
    let response = last.unwrap();
    assert_eq!(end(&response), (OutcomeKind::Exited, Some(0), None));
    assert_eq!(
        (stdout.as_slice(), stderr.as_slice()),
        (b"begun\nover\n".as_slice(), b"problem\n".as_slice())
    );
    assert_eq!(
        (&response.stdout[..], &response.stderr[..]),
        (&stdout[..], &stderr[..])
    );
}

/// Keeps two processors busy until it is dropped.
struct Load(Arc<AtomicBool>);

impl Load {
    fn new() -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        for _ in 0..4 {
            let ended = Arc::clone(&ended);
            thread::spawn(move || while !ended.load(Ordering::Relaxed) {});
        }
        Self(ended)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn a_client_that_pauses_gets_the_whole_output_however_the_hook_ends() {
    let daemon = Daemon::start().await;
    let _load = Load::new();
    let mut calls = JoinSet::new();
    let ends = [
        ("exit 0", (OutcomeKind::Exited, Some(0), None)),
        ("sleep 60 & exit 0", (OutcomeKind::Exited, Some(0), None)),
        ("kill -9 $$", (OutcomeKind::Signaled, None, Some(9))),
        // Containers are killed at once.
        (
            "sleep 60",
            (
                OutcomeKind::TimedOut,
                None,
                Some(if contained() { 9 } else { 15 }),
            ),
        ),
    ];
    for ((after, expected), lines) in ends
        .into_iter()
        .flat_map(|end| [20_000, 45_000, 60_000, 75_000, 90_000].map(|lines| (end, lines)))
    {
        let name = format!("{lines} lines, {after}");
        let done = daemon.workspace().join(&name);
        let script = format!("seq {lines} & seq {lines} >&2; wait; echo >'{name}'; {after}");
        let request = pb::ExecuteRequest {
            timeout: wall_time(if after == "sleep 60" { 4 } else { 60 }),
            ..writing(&daemon, &script)
        };
        let mut client = daemon.client_that_takes_little().await;
        calls.spawn(async move {
            let request = pb::ExecuteStreamRequest {
                request: Some(request),
            };
            let stream = client.execute_stream(request).await;
            let mut stream = stream.unwrap().into_inner();
            tokio::time::sleep(Duration::from_secs(2)).await;
            let (mut stdout, mut stderr, mut last) = (Vec::new(), Vec::new(), None);
            while let Some(message) = stream.message().await.unwrap() {
                match message.part.unwrap() {
                    Part::Stdout(bytes) => stdout.extend(bytes),
                    Part::Stderr(bytes) => stderr.extend(bytes),
                    Part::Response(response) => last = Some(response),
                }
            }
            let response = last.unwrap();
            assert_eq!(end(&response), expected, "{name}");
            assert!(!response.outcome.unwrap().output_held_open, "{name}");
            assert!(
                !response.stdout_truncated && !response.stderr_truncated,
                "{name}"
            );
            let mut whole = String::new();
            for line in 1..=lines {
                writeln!(whole, "{line}").unwrap();
            }
            // Only the deadline can kill it before it has printed everything.
            assert!(
                done.exists() || expected.0 == OutcomeKind::TimedOut,
                "{name}"
            );
            let whole = whole.as_bytes();
            for (streamed, answered, total) in [
                (stdout, &response.stdout, response.stdout_total_bytes),
                (stderr, &response.stderr, response.stderr_total_bytes),
            ] {
                assert_eq!(total, answered.len() as u64, "{name}");
                assert!(whole.starts_with(answered), "{name}");
                assert!(
                    !done.exists() || answered == whole,
                    "{name}: {total} of {}",
                    whole.len()
                );
                // Pieces that were not read before the deadline are in the answer alone.
                assert!(answered.starts_with(&streamed), "{name}");
                assert!(
                    expected.0 == OutcomeKind::TimedOut || *answered == streamed,
                    "{name}: {} of {total}",
                    streamed.len()
                );
            }
            (response.audit.unwrap().run_id, response.stdout)
        });
    }
    let answers = calls.join_all().await;
    assert_eq!(answers.len(), 20);
    let journal = daemon.journal();
    for (run, stdout) in answers {
        let of_end =
            |record: &&serde_json::Value| record["run_id"] == run && record["record"] == "ended";
        let ended = journal.iter().find(of_end).unwrap();
        assert_eq!(ended["stdout"]["sha256"], digest(&stdout));
        assert_eq!(ended["stdout"]["total_bytes"], stdout.len());
    }
}

#[tokio::test]
async fn a_refusal_is_the_end_of_a_stream_as_well() {
    let daemon = Daemon::start().await;
    let request = pb::ExecuteStreamRequest {
        request: Some(sh("no-such-profile", "echo never")),
    };

    let mut stream = daemon
        .client()
        .execute_stream(request)
        .await
        .unwrap()
        .into_inner();

    let refusal = stream.message().await.unwrap_err();
    assert_eq!(reason(&refusal), "PROFILE_UNKNOWN");
    assert_eq!(daemon.records(), ["refused"]);
}

#[tokio::test]
async fn failed_late_killed_or_cut_output_never_yields_a_push() {
    let daemon = Daemon::start().await;
    let push = r#"printf '{"message":"go on","wake":true,"push_when":true}'"#;
    for (script, skip_reason) in [
        (format!("{push}; exit 1"), "nonzero_exit"),
        (format!("{push}; kill -9 $$"), "signal"),
        (format!("{push}; exec sleep 60"), "timeout"),
        (
            format!(
                "{push}; head -c {} /dev/urandom | tr '\\000-\\377' ' '",
                11 * MIB
            ),
            "invalid_json",
        ),
    ] {
        let request = pb::ExecuteRequest {
            contract: pb::Contract::Reyn.into(),
            mode: "shell_push".to_owned(),
            event: Some(pb::Event {
                point: "turn_end".to_owned(),
                ..pb::Event::default()
            }),
            timeout: wall_time(if skip_reason == "timeout" { 1 } else { 60 }),
            ..sh("pipeline", &script)
        };
        let verdict = daemon.run(request).await.unwrap().verdict.unwrap();
        assert_eq!(
            (verdict.push, verdict.skip_reason.as_str()),
            (None, skip_reason),
            "{script}"
        );
    }
}
