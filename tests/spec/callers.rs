//! Callers cannot harm each other: one that is not allowed costs next to nothing, and an allowed one leaves room for the
//! others.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start other users' clients and daemons, never a hook"
)]

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use hookjail::pb::{
    self, OutcomeKind, audit_service_client::AuditServiceClient,
    sandbox_service_client::SandboxServiceClient,
};
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::task::JoinSet;
use tonic::{
    Code,
    transport::{Channel, Endpoint},
};
use tower::service_fn;

use crate::{
    support::{Daemon, Setup, directory, dispatch_at, field, hook, inline, reason, sh},
    witness::{end, event, until, until_clean, until_it},
};

/// Frames of HTTP/2: their types.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

/// Returns the first bytes of a client: the preface and empty settings.
fn preface() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, b""));
    bytes
}

/// Waits for the daemon's settings and takes them on.
fn settings(connection: &mut UnixStream) -> Vec<u8> {
    loop {
        let (kind, _, payload) = next(connection, Duration::from_secs(10)).expect("settings come");
        if kind == SETTINGS && !payload.is_empty() {
            connection.write_all(&frame(SETTINGS, 1, 0, b"")).unwrap();
            return payload;
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Begins a call whose message is still to come.
fn begin(stream: u32, path: &str) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ] {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend(text.as_bytes());
        }
    }
    // END_HEADERS, and not END_STREAM.
    frame(HEADERS, 4, stream, &block)
}

/// Reads the next frame: its type, its stream and its payload; `None` where nothing came in time, or the connection ended.
fn next(connection: &mut UnixStream, within: Duration) -> Option<(u8, u32, Vec<u8>)> {
    connection.set_read_timeout(Some(within)).unwrap();
    let mut head = [0; 9];
    connection.read_exact(&mut head).ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    let mut payload = vec![0; length as usize];
    connection.read_exact(&mut payload).ok()?;
    Some((head[3], stream, payload))
}

/// Whether a call that was begun is answered in time, though its message has not ended.
fn answered(connection: &mut UnixStream, stream: u32, within: Duration) -> bool {
    let give_up = Instant::now() + within;
    while Instant::now() < give_up {
        match next(connection, within) {
            Some((HEADERS, number, _)) if number == stream => return true,
            Some(_) => {}
            None => return false,
        }
    }
    false
}

const EXECUTE: &str = "/hookjail.v1.HookService/Execute";

fn sized(bytes: usize) -> Option<pb::Event> {
    event(format!("{{\"a\":\"{}\"}}", "x".repeat(bytes)))
}

#[tokio::test]
async fn a_connection_has_at_most_256_requests_in_work() {
    let daemon = Daemon::start().await;
    let mut connection = UnixStream::connect(daemon.path().join("sock")).unwrap();
    connection.write_all(&preface()).unwrap();
    let settings = settings(&mut connection);
    // Its number is 3.
    let streams = settings.chunks(6).find(|setting| setting[..2] == [0, 3]);
    assert_eq!(streams.unwrap()[2..], 256_u32.to_be_bytes());
}

#[tokio::test]
async fn messages_that_never_end_leave_room_for_others() {
    let daemon = Daemon::with(Setup {
        config: "[hooks]\nevent_max = \"4MiB\"\n[server]\nmax_bytes_in_flight = \"16MiB\"\n"
            .to_owned(),
        ..Setup::default()
    })
    .await;
    let mut connection = UnixStream::connect(daemon.path().join("sock")).unwrap();
    connection.write_all(&preface()).unwrap();
    settings(&mut connection);
    let (mut refused, mut window) = (0, 65_535);
    let mut read = |connection: &mut UnixStream, window: &mut usize| -> bool {
        match next(connection, Duration::from_secs(3)) {
            Some((WINDOW_UPDATE, 0, more)) => {
                *window += u32::from_be_bytes(more[..4].try_into().unwrap()) as usize;
            }
            Some((HEADERS, ..)) => refused += 1,
            Some((kind, ..)) => assert_ne!(kind, GO_AWAY),
            None => return false,
        }
        true
    };
    for stream in (1..64).step_by(2) {
        connection.write_all(&begin(stream, EXECUTE)).unwrap();
        let announced = [0, 0, 0x40, 0, 0];
        // As much as a stream's own window takes.
        let pieces =
            std::iter::once(&announced[..]).chain(std::iter::repeat_n(&[0; 16_000][..], 60));
        for piece in pieces {
            while window < piece.len() {
                assert!(
                    read(&mut connection, &mut window),
                    "kept messages hold up the next ones"
                );
            }
            window -= piece.len();
            connection
                .write_all(&frame(DATA, 0, stream, piece))
                .unwrap();
        }
    }
    while read(&mut connection, &mut window) {}
    // Of 32 messages with a declared length of four megabytes the daemon waits for two: one caller has no room for a third.
    assert_eq!(refused, 30);
    assert!(daemon.records().iter().all(|record| record == "refused"));
    assert!(
        daemon
            .journal()
            .iter()
            .all(|record| record["reason"] == "OVERLOADED")
    );
    drop(connection);
    // The control: the room for kept messages is free again.
    let mut request = hook(["/bin/true"]);
    request.event = sized(3 << 20);
    let given_back = async || daemon.run(request.clone()).await.is_ok();
    until_it("the memory of answers", given_back).await;
}

#[tokio::test]
async fn events_of_waiting_hooks_are_bounded_in_sum() {
    let daemon = Daemon::with(Setup {
        config: "[hooks]\nevent_max = \"4MiB\"\n[server]\nmax_bytes_in_flight = \"16MiB\"\n"
            .to_owned(),
        ..Setup::default()
    })
    .await;
    let workspace = daemon.workspace();
    let mut calls = JoinSet::new();
    for _ in 0..4 {
        let mut request = sh("workspace-ro", "until test -e go; do sleep 0.02; done");
        request.hook.as_mut().unwrap().workspace = workspace.display().to_string();
        request.event = sized(3_500_000);
        let mut client = daemon.client();
        calls.spawn(async move { client.execute(request).await });
    }
    let refusal = calls.join_next().await.unwrap().unwrap().unwrap_err();
    assert_eq!(
        (refusal.code(), reason(&refusal)),
        (Code::ResourceExhausted, "OVERLOADED".to_owned())
    );
    std::fs::write(workspace.join("go"), "").unwrap();
    for response in calls.join_all().await {
        let response = response.unwrap().into_inner();
        assert_eq!(end(&response), (OutcomeKind::Exited, Some(0), None));
    }
    let mut request = hook(["/bin/true"]);
    request.event = sized(3_500_000);
    assert!(daemon.run(request).await.is_ok());
}

/// A turn is called off: its calls are cancelled at once, and hooks of the same connection go on.
#[tokio::test]
async fn calls_that_are_called_off_at_once_end_no_other_of_their_connection() {
    let daemon = Daemon::start().await;
    let workspace = daemon.workspace();
    let request = crate::witness::writing(
        &daemon,
        "echo >begun; until test -e go; do sleep 0.02; done",
    );
    let mut client = daemon.client();
    let held = tokio::spawn(async move { client.execute(request).await });
    until("the hook's begin", || workspace.join("begun").exists()).await;
    // Stopped, the daemon reads none of them before all are cancelled.
    let stopped = nix::unistd::Pid::from_raw(i32::try_from(daemon.pid()).unwrap());
    for _ in 0..3 {
        nix::sys::signal::kill(stopped, nix::sys::signal::Signal::SIGSTOP).unwrap();
        let mut calls = JoinSet::new();
        for _ in 0..200 {
            let mut client = daemon.client();
            calls.spawn(async move { client.execute(hook(["/bin/true"])).await });
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        calls.shutdown().await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        nix::sys::signal::kill(stopped, nix::sys::signal::Signal::SIGCONT).unwrap();
        // The daemon answers on the same connection.
        daemon.run(hook(["/bin/true"])).await.unwrap();
    }
    std::fs::write(workspace.join("go"), "").unwrap();
    let response = held.await.unwrap().unwrap().into_inner();
    assert_eq!(response.outcome.unwrap().exit_code, Some(0));
}

#[tokio::test]
async fn a_call_that_is_canceled_in_the_queue_starts_nothing_and_leaves_the_queue() {
    let daemon = Daemon::with(Setup {
        config: "[hooks]\nmax_concurrent = 1\nmax_queued = 2\n".to_owned(),
        ..Setup::default()
    })
    .await;
    let workspace = daemon.workspace();
    let script = |script: &str| {
        let mut request = sh("workspace-rw", script);
        request.hook.as_mut().unwrap().workspace = workspace.display().to_string();
        request
    };
    let mut running = daemon.client();
    let first = script("touch runs; until test -e go; do sleep 0.02; done");
    let first = tokio::spawn(async move { running.execute(first).await });
    until("the hook's begin", || workspace.join("runs").exists()).await;
    for _ in 0..20 {
        let mut client = daemon.client();
        let call = client.execute(script("touch started"));
        assert!(
            tokio::time::timeout(Duration::from_millis(100), call)
                .await
                .is_err()
        );
    }
    let mut client = daemon.client();
    let living = script("true");
    let living = tokio::spawn(async move { client.execute(living).await });
    let refused = || {
        let journal = daemon.journal();
        let canceled = journal
            .iter()
            .filter(|record| record["reason"] == "CANCELED");
        canceled.count()
    };
    until("the end of the calls in the queue", || refused() >= 20).await;
    std::fs::write(workspace.join("go"), "").unwrap();
    assert!(first.await.unwrap().is_ok());
    assert!(living.await.unwrap().is_ok());
    assert!(!workspace.join("started").exists());
}

#[tokio::test]
async fn a_refusal_that_quotes_a_long_command_keeps_its_reason_within_what_clients_take() {
    let daemon = Daemon::with(Setup {
        ask_for_consent: true,
        ..Setup::default()
    })
    .await;
    for (length, odd) in [
        (100, "a"),
        (1500, "a"),
        (100 * 1024, "a"),
        (30 * 1024, "\u{fc}"),
        (100 * 1024, "\" "),
    ] {
        let long = odd.repeat(length / odd.len());
        let refusal = daemon.run(hook(["/bin/echo", &long])).await.unwrap_err();
        assert_eq!(
            (refusal.code(), reason(&refusal)),
            (Code::PermissionDenied, "CONSENT_REQUIRED".to_owned())
        );
        let sent = refusal.clone().into_http::<tonic::body::Body>();
        let bytes: usize = sent
            .headers()
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len() + 32)
            .sum();
        assert!(bytes < 7 * 1024, "{bytes}");
        assert!(refusal.message().len() <= 1024);
        use tonic_types::StatusExt;
        let details = refusal.get_error_details();
        let facts = &details.error_info().unwrap().metadata;
        let whole = facts
            .get("approve")
            .is_some_and(|line| line.contains(&long));
        assert_eq!(
            whole,
            length == 100,
            "a line that can be run is whole, or not there"
        );
        assert!(!facts["request_id"].is_empty());
    }
    // Nor does the journal take what was not run whole.
    let journal = daemon.journal();
    let (short, long) = (&journal[0]["command"], &journal[2]["command"]);
    assert_eq!(
        (short["argv"][1].as_str().unwrap().len(), &short["whole"]),
        (100, &serde_json::Value::Null)
    );
    assert_eq!(long["whole"]["bytes"], 100 * 1024 + 9);
    assert!(
        journal
            .iter()
            .all(|record| record.to_string().len() < 16 * 1024)
    );
}

#[tokio::test]
async fn a_run_goes_on_while_anybody_waits_for_its_answer() {
    let daemon = Daemon::start().await;
    let workspace = daemon.workspace();
    let mut request = sh(
        "workspace-rw",
        "touch runs; until test -e go; do sleep 0.02; done",
    );
    request.request_id = "one".to_owned();
    request.on_disconnect = pb::OnDisconnect::Kill.into();
    request.hook.as_mut().unwrap().workspace = workspace.display().to_string();
    let ask = || {
        let (mut client, request) = (daemon.client(), request.clone());
        Box::pin(async move { client.execute(request).await })
    };
    let first = tokio::spawn(ask());
    until("the hook's begin", || workspace.join("runs").exists()).await;
    let mut second = ask();
    // A later request on the same connection is answered: the earlier ones have reached the daemon.
    let mut later = async || {
        for _ in 0..20 {
            tokio::select! {
                biased;
                answer = &mut second => panic!("the hook has not ended: {answer:?}"),
                later = daemon.run(hook(["/bin/true"])) => drop(later.unwrap()),
            }
        }
    };
    later().await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    later().await;
    std::fs::write(workspace.join("go"), "").unwrap();
    let response = second.await.unwrap().into_inner();
    assert_eq!(end(&response), (OutcomeKind::Exited, Some(0), None));
    let journal = daemon.journal();
    let of_it = journal
        .iter()
        .filter(|record| record["request_id"] == "one");
    let kinds: Vec<_> = of_it.map(|record| &record["record"]).collect();
    assert_eq!(kinds, ["started"]);
    assert_eq!(journal.len(), 2 * 41);
}

#[tokio::test]
async fn a_daemon_with_few_descriptors_serves_what_they_are_enough_for() {
    for (limit, is_warned) in [("ulimit -n 256", true), ("ulimit -S -n 256", false)] {
        let script = format!("{limit}; exec \"$@\"");
        let daemon = Daemon::with(Setup {
            wrapper: ["sh", "-c", &script, "sh"].map(str::to_owned).to_vec(),
            ..Setup::default()
        })
        .await;
        assert_eq!(daemon.log().contains("at most 8 hooks and "), is_warned);
        let mut calls = JoinSet::new();
        for _ in 0..100 {
            let mut client = daemon.client();
            calls.spawn(async move { client.execute(hook(["/bin/sleep", "0.1"])).await });
        }
        for response in calls.join_all().await {
            let response = response.unwrap().into_inner();
            assert_eq!(end(&response), (OutcomeKind::Exited, Some(0), None));
        }
        until_clean(&daemon).await;
    }
}

#[tokio::test]
async fn a_daemon_whose_limits_are_too_small_names_them_and_does_not_start() {
    // Files in blocks of 512 or 1024 bytes, as the shell has it; memory in KiB.
    for (limit, words) in [
        ("ulimit -f 2048", &["ulimit -f", "audit.rotate_bytes"][..]),
        ("ulimit -f 1048576", &[]),
        ("ulimit -v 80000", &["ulimit -v", "LimitAS="]),
        ("ulimit -v 1000000", &[]),
    ] {
        let script = format!("{limit}; exec \"$@\"");
        let setup = Setup {
            wrapper: ["sh", "-c", &script, "sh"].map(str::to_owned).to_vec(),
            ..Setup::default()
        };
        match Daemon::in_directory(directory(), setup).await {
            Ok(daemon) => {
                assert!(words.is_empty(), "{limit}");
                daemon.run(hook(["/bin/true"])).await.unwrap();
            }
            Err(log) => {
                assert!(!words.is_empty(), "{log}");
                assert!(words.iter().all(|word| log.contains(word)), "{log}");
            }
        }
    }
}

#[tokio::test]
async fn a_dispatch_brings_at_most_128_hooks() {
    let daemon = Daemon::start().await;
    let mut request = dispatch_at("tool.pre", &serde_json::json!({"tool": {"name": "none"}}));
    request.contract = pb::Contract::Loom.into();
    request.inline_hooks = (0..129)
        .map(|number| pb::InlineHook {
            matcher: "other".to_owned(),
            ..inline(&number.to_string(), "exit 0")
        })
        .collect();
    let refusal = daemon.client().dispatch(request.clone()).await.unwrap_err();
    assert_eq!(
        (reason(&refusal), field(&refusal)),
        ("INVALID_REQUEST".to_owned(), "inline_hooks".to_owned())
    );
    request.inline_hooks.pop();
    assert!(daemon.client().dispatch(request).await.is_ok());
}

/// A client that lets each answer of a daemon send only one byte.
fn barely_reading(daemon: &Daemon) -> UnixStream {
    let mut connection = UnixStream::connect(daemon.path().join("sock")).unwrap();
    connection
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .unwrap();
    // The setting for the initial window of a stream has the number 4.
    let settings = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1]);
    connection.write_all(&settings).unwrap();
    self::settings(&mut connection);
    connection
}

#[tokio::test]
async fn answers_that_nobody_reads_are_bounded_in_sum() {
    const CALLS: usize = 60;

    let daemon = Daemon::with(Setup {
        config: "[hooks]\nevent_max = \"4MiB\"\n[server]\nmax_bytes_in_flight = \"16MiB\"\n"
            .to_owned(),
        ..Setup::default()
    })
    .await;
    let mut request = hook(["/usr/bin/seq", "300000"]);
    request.request_id = "large".to_owned();
    let first = daemon.run(request.clone()).await.unwrap();
    let bytes = first.encoded_len();
    assert!(bytes > 1 << 20 && !first.stdout_truncated);
    // The control: a client that reads the answer gets it again as often as it likes.
    for _ in 0..20 {
        assert_eq!(daemon.run(request.clone()).await.unwrap(), first);
    }

    let mut connection = barely_reading(&daemon);
    let message = request.encode_to_vec();
    let mut call = vec![0];
    call.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    call.extend(message);
    for stream in (1..).step_by(2).take(CALLS) {
        connection.write_all(&begin(stream, EXECUTE)).unwrap();
        // END_STREAM.
        connection
            .write_all(&frame(DATA, 1, stream, &call))
            .unwrap();
    }
    // Each has headers; then comes a byte of those that are not refused.
    let (mut answered, mut kept) = (0, 0);
    while let Some((kind, ..)) = next(&mut connection, Duration::from_secs(3)) {
        answered += usize::from(kind == HEADERS);
        kept += usize::from(kind == DATA);
    }
    assert_eq!(answered, CALLS);
    // Alone, a uid may have three quarters of all.
    assert!((1..=(12 << 20) / bytes).contains(&kept), "{kept}");
    // A hook that runs now is answered all the same: its output was counted.
    assert!(daemon.run(hook(["/usr/bin/seq", "20000"])).await.is_ok());
    drop(connection);
    let given_back = async || daemon.run(request.clone()).await.is_ok();
    until_it("the memory of answers", given_back).await;
}

#[tokio::test]
async fn those_that_read_the_journal_are_bounded_in_sum() {
    let daemon = Daemon::with(Setup {
        config: "[hooks]\nevent_max = \"4MiB\"\n[server]\nmax_bytes_in_flight = \"16MiB\"\n"
            .to_owned(),
        ..Setup::default()
    })
    .await;
    let mut client = AuditServiceClient::new(daemon.channel());
    let mut watching = Vec::new();
    let refusal = loop {
        match client.watch(pb::AuditServiceWatchRequest::default()).await {
            Ok(watched) => watching.push(watched),
            Err(refusal) => break refusal,
        }
        assert!(watching.len() < 100, "each holds memory");
    };
    assert_eq!(
        (refusal.code(), reason(&refusal)),
        (Code::ResourceExhausted, "OVERLOADED".to_owned())
    );
    assert!(watching.len() > 20, "{}", watching.len());
    assert!(daemon.run(hook(["/bin/true"])).await.is_ok());
    watching.clear();
    let give_up = Instant::now() + Duration::from_secs(10);
    while client.query(pb::QueryRequest::default()).await.is_err() {
        assert!(Instant::now() < give_up, "nothing was given back");
    }
}

#[tokio::test]
async fn self_tests_that_are_asked_for_at_once_are_made_one_at_a_time() {
    let daemon = Daemon::start().await;
    let mut tests = JoinSet::new();
    for _ in 0..200 {
        let mut client = SandboxServiceClient::new(daemon.channel());
        tests.spawn(async move {
            let request = pb::SelfTestRequest {
                profile: "strict".to_owned(),
            };
            client.self_test(request).await
        });
    }
    let mut most = 0;
    while let Some(tested) = tests.join_next().await {
        let tested = tested.unwrap().unwrap().into_inner();
        assert!(tested.profiles[0].confirmed, "{:?}", tested.profiles[0]);
        let open = std::fs::read_dir(format!("/proc/{}/fd", daemon.pid()));
        most = most.max(open.unwrap().count());
    }
    assert!(most < 300, "{most}");
}

pub(crate) mod as_root {
    use std::{
        fs,
        os::{fd::OwnedFd, unix::fs::PermissionsExt},
        path::PathBuf,
        process::{Child, Command, Stdio},
    };

    use nix::unistd::chown;

    use super::*;
    use crate::{
        support::needs_root,
        witness::{NOBODY, ask_as, ask_in, json, unfinished},
    };

    /// Uids without accounts.
    const ONE: u32 = 3_000_000_001;
    const TWO: u32 = 3_000_000_002;

    /// Passes everything on between its standard input, which is a socket, and a daemon's. The program has a user's ids only
    /// while it connects: signals to all processes of that user do not reach it.
    const PASS_ON: &str = r#"
        use Socket; my $u = $ARGV[1]; $) = "$u $u"; $> = $u; $> == $u or die;
        socket(my $d, AF_UNIX, SOCK_STREAM, 0) or die; connect($d, sockaddr_un($ARGV[0])) or die; $> = 0; $) = "0 0";
        open(my $c, "+<&=", 0) or die; my $r = ""; vec($r, 0, 1) = 1; vec($r, fileno($d), 1) = 1;
        while (select(my $o = $r, undef, undef, undef) > 0) {
            for my $p ([$c, $d], [$d, $c]) {
                my ($f, $t) = @$p; next unless vec($o, fileno($f), 1);
                sysread($f, my $b, 65536) or exit; while (length $b) { my $n = syswrite($t, $b) or exit; substr($b, 0, $n) = ""; }
            }
        }"#;

    /// Makes this number of connections, and prints how many of them are still there after a while. Then keeps them.
    const MANY: &str = r#"
        use Socket; $| = 1; my @all; my $n = 0;
        for (1 .. $ARGV[1]) { socket(my $d, AF_UNIX, SOCK_STREAM, 0) or die; connect($d, sockaddr_un($ARGV[0])) or last; push @all, $d; }
        select(undef, undef, undef, 0.5);
        for my $d (@all) { my $r = ""; vec($r, fileno($d), 1) = 1; $n++ unless select($r, undef, undef, 0) && !sysread($d, my $b, 1) && !$!; }
        print "$n\n"; sleep 60;"#;

    #[derive(Debug)]
    pub(crate) struct Somebody(Child);

    impl Drop for Somebody {
        fn drop(&mut self) {
            self.0.kill().ok();
            self.0.wait().ok();
        }
    }

    /// Returns a daemon's socket, which every user may connect to.
    fn open_socket(daemon: &Daemon) -> PathBuf {
        let socket = daemon.path().join("sock");
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
        socket
    }

    fn perl_as(uid: u32, daemon: &Daemon, script: &str, words: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command
            .args([format!("--reuid={uid}"), format!("--regid={uid}")])
            .args(["--clear-groups", "perl", "-e", script])
            .arg(open_socket(daemon))
            .args(words);
        command
    }

    /// Connects to a daemon as another user.
    fn connect_as(uid: u32, daemon: &Daemon) -> (UnixStream, Somebody) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = Command::new("perl");
        command.args(["-e", PASS_ON]).arg(open_socket(daemon));
        command.arg(uid.to_string());
        let child = command.stdin(OwnedFd::from(theirs)).spawn().unwrap();
        (ours, Somebody(child))
    }

    /// Returns a client of another user.
    pub(crate) async fn client_as(
        uid: u32,
        daemon: &Daemon,
    ) -> (
        pb::hook_service_client::HookServiceClient<Channel>,
        Somebody,
    ) {
        let (channel, somebody) = channel_as(uid, daemon).await;
        (
            pb::hook_service_client::HookServiceClient::new(channel),
            somebody,
        )
    }

    async fn channel_as(uid: u32, daemon: &Daemon) -> (Channel, Somebody) {
        let (ours, somebody) = connect_as(uid, daemon);
        ours.set_nonblocking(true).unwrap();
        let mut ours = Some(tokio::net::UnixStream::from_std(ours).unwrap());
        let connect = service_fn(move |_| {
            let ours = ours.take().ok_or(std::io::ErrorKind::NotConnected);
            async move { ours.map(TokioIo::new).map_err(std::io::Error::from) }
        });
        let endpoint = Endpoint::from_static("http://localhost");
        let channel = endpoint.connect_with_connector(connect).await.unwrap();
        (channel, somebody)
    }

    async fn daemon(config: &str) -> Daemon {
        let server = format!("[server]\ncallers = [{ONE}, {TWO}]\n");
        Daemon::with(Setup {
            config: format!("{server}{config}"),
            ..Setup::default()
        })
        .await
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn an_unlisted_uid_is_refused_before_its_message_is_read() {
        needs_root();
        let daemon = daemon("").await;
        for (uid, limit) in [
            (NOBODY, Duration::from_secs(20)),
            (ONE, Duration::from_millis(500)),
        ] {
            let (mut connection, _somebody) = connect_as(uid, &daemon);
            connection.write_all(&preface()).unwrap();
            connection.write_all(&begin(1, EXECUTE)).unwrap();
            assert_eq!(answered(&mut connection, 1, limit), uid == NOBODY);
        }
        assert_eq!(daemon.records(), ["refused"]);
        assert_eq!(daemon.journal()[0]["reason"], "PEER_NOT_ALLOWED");
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn callers_are_listed_by_uid_by_name_and_by_group() {
        needs_root();
        let daemon = Daemon::with(Setup {
            config: format!("[server]\ncallers = [{ONE}, \"nobody\", \"@daemon\"]\n"),
            ..Setup::default()
        })
        .await;
        let group = nix::unistd::Group::from_name("daemon").unwrap().unwrap();
        let group = group.gid.as_raw();
        for (uid, groups, expected) in [
            (ONE, &[][..], true),
            (NOBODY, &[], true),
            (TWO, &[group], true),
            (TWO, &[100, group, 101], true),
            (TWO, &[], false),
            (TWO, &[100, ONE], false),
        ] {
            let words = ["--", "/bin/echo", "ran"];
            let answer = json(&ask_in(groups, uid, &daemon, "sock", "run", &words));
            let reason = answer["error"]["reason"].as_str();
            let refused = (!expected).then_some("PEER_NOT_ALLOWED");
            assert_eq!(reason, refused, "{uid} {groups:?}: {answer}");
            assert_eq!(answer["outcome"].is_object(), expected, "{answer}");
        }
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn an_unlisted_uid_has_a_little_memory_that_is_nobody_elses() {
        const HEALTH: &str = "/grpc.health.v1.Health/Check";

        needs_root();
        let daemon = daemon("").await;
        let refused = |uid| {
            let (mut connection, _somebody) = connect_as(uid, &daemon);
            connection.write_all(&preface()).unwrap();
            settings(&mut connection);
            for stream in (1..).step_by(2).take(200) {
                connection.write_all(&begin(stream, HEALTH)).unwrap();
            }
            let mut refused = 0;
            while let Some((kind, ..)) = next(&mut connection, Duration::from_secs(1)) {
                refused += usize::from(kind == HEADERS);
            }
            refused
        };
        // 8 MiB are for all of them, three quarters for one, 64 KiB for each request.
        assert_eq!(refused(NOBODY), 200 - 96);
        assert_eq!(refused(ONE), 0);
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn self_tests_of_one_uid_keep_no_other_from_running() {
        needs_root();
        let daemon = daemon("").await;
        let mut flood = JoinSet::new();
        let mut somebodies = Vec::new();
        for _ in 0..8 {
            let (channel, somebody) = channel_as(ONE, &daemon).await;
            somebodies.push(somebody);
            for _ in 0..200 {
                let mut client = SandboxServiceClient::new(channel.clone());
                let request = pb::SelfTestRequest {
                    profile: "strict".to_owned(),
                };
                flood.spawn(async move { client.self_test(request).await });
            }
        }
        // From here on the daemon is busy with them.
        flood.join_next().await.unwrap().unwrap().unwrap();
        let (mut other, _two) = client_as(TWO, &daemon).await;
        for _ in 0..5 {
            let mut request = hook(["/bin/true"]);
            request.timeout = Some(Duration::from_secs(10).try_into().unwrap());
            let response = other.execute(request).await.unwrap();
            assert_eq!(
                end(response.get_ref()),
                (OutcomeKind::Exited, Some(0), None)
            );
        }
        let left = unfinished(&mut flood);
        assert!(left > 100, "{left} of the others were still waiting");
    }

    /// A hook's first process dies with its spawner, so the spawners of a running hook must stay.
    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_running_hook_outlives_the_spawners_of_many_other_callers() {
        needs_root();
        let others = 3_000_000_100..3_000_000_140_u32;
        let callers: Vec<_> = others.clone().chain([ONE]).collect();
        let config = format!("[server]\ncallers = {callers:?}\n[hooks]\nspawners = 1\n");
        let daemon = Daemon::with(Setup {
            config,
            ..Setup::default()
        })
        .await;
        let spawners = || {
            let tasks = fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap();
            let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm"));
            let names = tasks.filter_map(|task| name(task.unwrap()).ok());
            names.filter(|name| name == "spawner\n").count()
        };
        let (mut one, _one) = client_as(ONE, &daemon).await;
        let go_on = daemon.workspace().join("go-on");
        let script = format!(
            "until [ -e {} ]; do sleep 0.05; done; echo done",
            go_on.display()
        );
        let request = |line: &str| {
            let mut request = sh("workspace-ro", line);
            request.hook.as_mut().unwrap().workspace = daemon.workspace().display().to_string();
            request
        };
        let waiting = request(&script);
        let running = tokio::spawn(async move { one.execute(waiting).await });
        until("the hook has started", || {
            !daemon.scratch_directories().is_empty()
        })
        .await;
        for uid in others {
            let (mut client, _client) = client_as(uid, &daemon).await;
            let response = client.execute(request("exit 0")).await.unwrap();
            assert_eq!(
                end(response.get_ref()),
                (OutcomeKind::Exited, Some(0), None)
            );
        }
        // The control: the spawners of the first callers are gone.
        until("unused spawners have ended", || spawners() <= 32).await;
        assert!(!running.is_finished());
        fs::write(go_on, "").unwrap();
        let response = running.await.unwrap().unwrap().into_inner();
        assert_eq!(end(&response), (OutcomeKind::Exited, Some(0), None));
        assert_eq!(response.stdout, b"done\n".as_slice());
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn large_work_of_one_uid_keeps_no_other_waiting() {
        needs_root();
        let daemon = daemon("").await;
        let dispatch = |matcher: &str, count: usize| {
            let mut request =
                dispatch_at("tool.pre", &serde_json::json!({"tool": {"name": "none"}}));
            request.contract = pb::Contract::Loom.into();
            request.inline_hooks = (0..count)
                .map(|number| pb::InlineHook {
                    matcher: matcher.to_owned(),
                    ..inline(&number.to_string(), "exit 0")
                })
                .collect();
            request
        };
        let mut flood = JoinSet::new();
        let (client, _one) = client_as(ONE, &daemon).await;
        let (mut other, _two) = client_as(TWO, &daemon).await;
        for _ in 0..120 {
            let mut client = client.clone();
            let request = dispatch("*a*b*c*d*e*f*g*h*i*j*k*l*m*n*o*p*q*r*s*t", 128);
            flood.spawn(async move { client.dispatch(request).await });
        }
        assert!(flood.join_next().await.unwrap().is_ok());
        let before = unfinished(&mut flood);
        assert!(before > 20, "{before}");
        for _ in 0..3 {
            assert!(other.dispatch(dispatch("other", 1)).await.is_ok());
        }
        // The request waits for a few of the other caller's, and not for all before it.
        let after = unfinished(&mut flood);
        assert!(after > before / 3, "{before} {after}");
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn refusals_of_an_unlisted_uid_are_counted_and_not_written_one_by_one() {
        needs_root();
        let daemon = daemon("").await;
        let (mut client, _somebody) = client_as(NOBODY, &daemon).await;
        for _ in 0..100 {
            let refusal = client.execute(hook(["/bin/true"])).await.unwrap_err();
            assert_eq!(reason(&refusal), "PEER_NOT_ALLOWED");
        }
        let counted = || -> u64 {
            let journal = daemon.journal();
            assert!(journal.len() < 50, "{}", journal.len());
            let count = |record: &serde_json::Value| record["count"].as_u64().unwrap_or(1);
            journal.iter().map(count).sum()
        };
        until("the record of what was counted", || counted() >= 100).await;
        assert_eq!(counted(), 100);
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn connections_of_one_uid_leave_room_for_those_of_others() {
        needs_root();
        let daemon = daemon("max_connections = 40\n").await;
        let mut held = Vec::new();
        // A listed caller keeps three quarters of the connections that the test itself leaves. One that is not allowed keeps
        // only a few, which count against no other.
        for (uid, kept) in [(ONE, 29..=29), (NOBODY, 1..=48)] {
            let mut command = perl_as(uid, &daemon, MANY, &["200"]);
            let mut child = command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut printed = String::new();
            let stdout = child.stdout.take().unwrap();
            std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut printed)
                .unwrap();
            held.push(Somebody(child));
            let open: usize = printed.trim().parse().unwrap();
            assert!(kept.contains(&open), "{uid} {open}");
        }
        let (mut client, _somebody) = client_as(TWO, &daemon).await;
        assert!(client.execute(hook(["/bin/true"])).await.is_ok());
        assert!(UnixStream::connect(daemon.path().join("sock")).is_ok());
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_uid_that_holds_every_place_it_can_get_keeps_no_other_from_running() {
        needs_root();
        let daemon = daemon("[hooks]\nmax_concurrent = 8\nmax_queued = 8\n").await;
        let workspace = daemon.workspace();
        let (client, _one) = client_as(ONE, &daemon).await;
        let mut calls = JoinSet::new();
        for _ in 0..20 {
            let mut request = sh("workspace-ro", "until test -e go; do sleep 0.02; done");
            request.hook.as_mut().unwrap().workspace = workspace.display().to_string();
            let mut client = client.clone();
            calls.spawn(async move { client.execute(request).await });
        }
        // Its queue is full: the others have been refused.
        for _ in 0..6 {
            let refusal = calls.join_next().await.unwrap().unwrap().unwrap_err();
            assert_eq!(reason(&refusal), "OVERLOADED");
        }
        let (mut other, _two) = client_as(TWO, &daemon).await;
        for _ in 0..5 {
            let quick = other.execute(hook(["/bin/true"]));
            let quick = tokio::time::timeout(Duration::from_secs(20), quick).await;
            assert!(
                quick
                    .expect("a quick hook does not wait for the other's hooks")
                    .is_ok()
            );
        }
        fs::write(workspace.join("go"), "").unwrap();
        for response in calls.join_all().await {
            assert_eq!(
                end(response.unwrap().get_ref()),
                (OutcomeKind::Exited, Some(0), None)
            );
        }
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_caller_reaches_nothing_by_naming_it_as_its_workspace() {
        needs_root();
        let daemon = daemon("").await;
        let private = daemon.workspace().join("private");
        fs::create_dir_all(private.join("project")).unwrap();
        fs::write(private.join("project/secret"), "a secret").unwrap();
        for directory in ["project", ""] {
            let mode = if directory.is_empty() { 0o700 } else { 0o755 };
            fs::set_permissions(private.join(directory), fs::Permissions::from_mode(mode)).unwrap();
        }
        let (mut client, _one) = client_as(ONE, &daemon).await;
        let mut messages = Vec::new();
        for name in ["project", "missing"] {
            let named = private.join(name).display().to_string();
            for (workspace, working_dir) in [
                (named.as_str(), ""),
                (private.to_str().unwrap(), &named),
                (daemon.workspace().to_str().unwrap(), &named),
            ] {
                let mut request = sh("workspace-ro", "cat secret");
                let hook = request.hook.as_mut().unwrap();
                (hook.workspace, hook.working_dir) = (workspace.to_owned(), working_dir.to_owned());
                let refusal = client.execute(request).await.unwrap_err();
                messages.push(format!(
                    "{:?} {}",
                    refusal.code(),
                    refusal.message().replace(&named, "it")
                ));
            }
        }
        let (existing, missing) = messages.split_at(3);
        assert_eq!(
            existing, missing,
            "an existing file has another answer than a missing one"
        );
        // The control: where the caller can go, so can its hook.
        fs::set_permissions(&private, fs::Permissions::from_mode(0o711)).unwrap();
        let mut request = sh("workspace-ro", "cat secret");
        request.hook.as_mut().unwrap().workspace = private.join("project").display().to_string();
        let response = client.execute(request).await.unwrap().into_inner();
        assert_eq!(&response.stdout[..], b"a secret");
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_daemon_lends_callers_none_of_the_groups_it_was_started_with() {
        needs_root();
        let daemon = Daemon::with(Setup {
            config: format!("[server]\ncallers = [{ONE}]\n"),
            wrapper: ["setpriv", "--groups", "0,4242"]
                .map(str::to_owned)
                .to_vec(),
            ..Setup::default()
        })
        .await;
        let (mut client, _one) = client_as(ONE, &daemon).await;
        let mut runs = async |group: u32, mode: u32| {
            let directory = daemon.outside(&format!("{group}-{mode:o}"));
            fs::create_dir(&directory).unwrap();
            fs::copy("/bin/true", directory.join("program")).unwrap();
            fs::set_permissions(directory.join("program"), fs::Permissions::from_mode(0o755))
                .unwrap();
            chown(&directory, None, Some(group.into())).unwrap();
            fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
            let program = directory.join("program").display().to_string();
            let answer = client.execute(hook([&program])).await;
            answer.map_or_else(|refusal| reason(&refusal), |_| "ran".to_owned())
        };
        for group in [0, 4242] {
            assert_eq!(runs(group, 0o750).await, "INVALID_REQUEST", "{group}");
            // The control.
            assert_ne!(runs(group, 0o755).await, "INVALID_REQUEST", "{group}");
        }
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_client_asks_no_daemon_of_another_user() {
        needs_root();
        let directory = crate::support::directory();
        let socket = directory.path().join("sock");
        // Another user's socket without answers: a client that calls it waits until it is ended.
        let script = r#"use Socket; $| = 1; socket(my $d, AF_UNIX, SOCK_STREAM, 0) or die; bind($d, sockaddr_un($ARGV[0])) or die; listen($d, 9) or die; print "ready\n"; sleep 60;"#;
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let listen = |uid: u32| {
            fs::remove_file(&socket).ok();
            let mut child = Command::new("setpriv")
                .args([format!("--reuid={uid}"), format!("--regid={uid}")])
                .args(["--clear-groups", "perl", "-e", script])
                .arg(&socket)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut ready = [0; 6];
            child.stdout.take().unwrap().read_exact(&mut ready).unwrap();
            Somebody(child)
        };
        let _theirs = listen(ONE);
        let output = crate::support::command("timeout")
            .arg("20")
            .arg(crate::support::program())
            .args(["doctor", "--json", "--connect"])
            .arg(&socket)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(
            json(&output)["error"]["message"]
                .as_str()
                .unwrap()
                .contains(&format!("uid {ONE} listens there")),
            "{output:?}"
        );
        // The control: every user can call root's daemon.
        let daemon = daemon("").await;
        let output = ask_as(ONE, &daemon, "sock", "doctor", &["--profile", "strict"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
}
