//! Callers without gRPC send JSON over HTTP, and get the same answers and refusals.

#![expect(clippy::disallowed_methods, reason = "tests start curl, never a hook")]

use std::{
    fs,
    io::{ErrorKind, Read, Write},
    os::unix::net::UnixStream,
    process::Command,
};

use base64::{
    Engine,
    prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD},
};
use prost::Message;
use serde_json::{Value, json};

use crate::{
    support::{Daemon, Setup, hook},
    witness::{SOON, a_minute, processes_with, until, until_gone},
};

const EXECUTE: &str = "/hookjail.v1.HookService/Execute";

/// An answer over HTTP.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// Reads an answer up to the end of its connection.
pub(crate) fn read(mut stream: impl Read) -> Answer {
    let mut text = String::new();
    // Where the daemon read less than was sent, the end may be a reset; the answer came before.
    if let Err(error) = stream.read_to_string(&mut text) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer {
        status,
        head: head.to_ascii_lowercase(),
        body: serde_json::from_str(body).unwrap(),
    }
}

/// Returns the bytes of a request.
pub(crate) fn request(path: &str, headers: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
}

fn connect(daemon: &Daemon) -> UnixStream {
    let stream = UnixStream::connect(daemon.path().join("sock")).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

fn send(daemon: &Daemon, bytes: &str) -> Answer {
    let mut stream = connect(daemon);
    stream.write_all(bytes.as_bytes()).unwrap();
    read(stream)
}

fn post(daemon: &Daemon, path: &str, body: &Value) -> Answer {
    send(daemon, &request(path, "", &body.to_string()))
}

/// Returns the facts of a refusal, which stand there encoded and readable.
fn info(answer: &Answer) -> Value {
    let details = answer.body["details"].as_array().unwrap();
    let of_kind = |it: &&Value| it["type"] == "google.rpc.ErrorInfo";
    let detail = details.iter().find(of_kind).unwrap();
    let encoded = detail["value"].as_str().unwrap();
    let encoded = BASE64_STANDARD_NO_PAD.decode(encoded).unwrap();
    let decoded = tonic_types::pb::ErrorInfo::decode(&encoded[..]).unwrap();
    assert_eq!(detail["debug"]["reason"], json!(decoded.reason));
    detail["debug"].clone()
}

#[tokio::test]
async fn a_hook_runs_and_its_answer_is_that_of_grpc() {
    let daemon = Daemon::start().await;
    let script = json!({"hook": {"argv": ["/bin/echo", "hello"]}, "requestId": "by-json"});

    let answer = post(&daemon, EXECUTE, &script);

    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(
        answer.head.contains("content-type: application/json"),
        "{}",
        answer.head
    );
    assert_eq!(answer.body["requestId"], "by-json");
    assert_eq!(answer.body["outcome"]["exitCode"], 0, "{}", answer.body);
    assert_eq!(answer.body["stdout"], BASE64_STANDARD.encode("hello\n"));
    // The same request over gRPC gets the answer of the first.
    let mut same = hook(["/bin/echo", "hello"]);
    same.request_id = "by-json".to_owned();
    let response = daemon.run(same).await.unwrap();
    assert_eq!(&response.stdout[..], b"hello\n");
    assert_eq!(
        daemon
            .records()
            .iter()
            .filter(|it| *it == "started")
            .count(),
        1
    );
}

#[tokio::test]
async fn the_message_that_is_made_of_json_counts_beside_it() {
    let daemon = Daemon::with(Setup {
        config: "[hooks]\nevent_max = \"4MiB\"\n[server]\nmax_bytes_in_flight = \"16MiB\"\n"
            .to_owned(),
        ..Setup::default()
    })
    .await;
    // 4 MiB of text, and 3 of a message. One caller may have 12 MiB.
    let event = BASE64_STANDARD.encode(format!("\"{}\"", "x".repeat(3 << 20)));
    let body = json!({"hook": {"argv": ["/bin/true"]}, "event": {"json": event}});
    // The positive control.
    assert_eq!(post(&daemon, EXECUTE, &body).status, 200);
    let mut held = connect(&daemon);
    let whole = request(EXECUTE, "", &" ".repeat(11 << 19));
    held.write_all(&whole.as_bytes()[..whole.len() - 1])
        .unwrap();

    // Beside 5.5 MiB that are held the text fits, and the message does not.
    let refused = post(&daemon, EXECUTE, &body);

    assert_eq!(refused.status, 429, "{refused:?}");
    assert_eq!(info(&refused)["reason"], "OVERLOADED");
    drop(held);
    until("the memory is given back", || {
        post(&daemon, EXECUTE, &body).status == 200
    })
    .await;
}

#[tokio::test]
async fn every_method_that_is_no_stream_is_served() {
    let daemon = Daemon::start().await;
    let turn_end = json!({"point": "turn_end", "json": BASE64_STANDARD.encode("{}")});
    for (path, body, expected) in [
        (
            "/hookjail.v1.HookService/Dispatch",
            json!({"contract": "CONTRACT_REYN", "event": turn_end}),
            "/requestId",
        ),
        (
            "/hookjail.v1.HookService/Interpret",
            json!({"contract": "CONTRACT_REYN", "mode": "shell_exec", "point": "turn_end", "ends": [{"exitCode": 3}]}),
            "/verdicts/0",
        ),
        (
            "/hookjail.v1.SandboxService/ListProfiles",
            json!({}),
            "/profiles/0",
        ),
        ("/grpc.health.v1.Health/Check", json!({}), "/status"),
    ] {
        let answer = post(&daemon, path, &body);
        assert_eq!(answer.status, 200, "{path} {answer:?}");
        assert!(answer.body.pointer(expected).is_some(), "{path} {answer:?}");
    }
    for path in [
        "/hookjail.v1.HookService/ExecuteStream",
        "/hookjail.v1.AuditService/Query",
    ] {
        let answer = post(&daemon, path, &json!({}));
        assert_eq!(
            (answer.status, &answer.body["code"]),
            (501, &json!("unimplemented"))
        );
    }
    for path in [
        "/",
        "/hookjail.v1.HookService/Exec",
        "/hookjail.v1.AdminService/Reload/x",
    ] {
        let answer = post(&daemon, path, &json!({}));
        assert_eq!(
            (answer.status, &answer.body["code"]),
            (404, &json!("unimplemented"))
        );
    }
}

#[tokio::test]
async fn a_refusal_has_its_stable_reason_and_its_record() {
    let daemon = Daemon::with(Setup {
        ask_for_consent: true,
        config: "[consent]\nwait = \"1ms\"\n".to_owned(),
        ..Setup::default()
    })
    .await;
    let answer = post(&daemon, EXECUTE, &json!({"hook": {"argv": ["/bin/true"]}}));
    assert_eq!(
        (answer.status, &answer.body["code"]),
        (403, &json!("permission_denied"))
    );
    let info = info(&answer);
    assert_eq!(info["domain"], "hookjail");
    let record = daemon
        .journal()
        .into_iter()
        .rfind(|it| it["record"] == "refused")
        .unwrap();
    assert_eq!(record["reason"], info["reason"]);
}

#[tokio::test]
async fn a_message_that_is_no_json_of_its_method_is_refused_and_recorded() {
    let daemon = Daemon::start().await;
    for (body, expected) in [
        ("", "EOF"),
        ("{\"hook\":", "EOF"),
        ("[]", "ExecuteRequest"),
        (r#"{"hook":{"argv":["/bin/true"]}}{}"#, "trailing"),
        (
            r#"{"hook":{"argv":["/bin/true"]},"failClosed":true}"#,
            "failClosed",
        ),
        (
            r#"{"hook":{"argv":["/bin/true"]},"hook":{"argv":["/bin/false"]}}"#,
            "twice",
        ),
        (r#"{"hook":{"argv":"/bin/true"}}"#, "line 1"),
        (r#"{"event":{"json":"{}"}}"#, "base64"),
    ] {
        let answer = send(&daemon, &request(EXECUTE, "", body));
        assert_eq!(
            (answer.status, &answer.body["code"]),
            (400, &json!("invalid_argument")),
            "{body}"
        );
        assert_eq!(info(&answer)["reason"], "INVALID_REQUEST", "{body}");
        let message = answer.body["message"].as_str().unwrap();
        assert!(message.contains(expected), "{body}: {message}");
    }
    let refused = daemon
        .journal()
        .into_iter()
        .filter(|it| it["reason"] == "INVALID_REQUEST");
    assert_eq!(refused.count(), 8);
    assert!(!daemon.records().contains(&"started".to_owned()));
    let answer = post(&daemon, EXECUTE, &json!({"hook": {"argv": ["/bin/true"]}}));
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_message_that_is_too_long_is_refused_before_it_is_read_whole() {
    let daemon = Daemon::with(Setup {
        config: "[hooks]\nevent_max = \"1KiB\"\n".to_owned(),
        ..Setup::default()
    })
    .await;
    let event = |bytes: usize| {
        let event = json!({"a": "b".repeat(bytes)}).to_string();
        json!({"hook": {"argv": ["/bin/true"]}, "event": {"json": BASE64_STANDARD.encode(event)}})
    };
    assert_eq!(post(&daemon, EXECUTE, &event(900)).status, 200);
    for bytes in [1025, 3 << 20, 5 << 20] {
        let mut stream = connect(&daemon);
        let text = request(EXECUTE, "", &event(bytes).to_string());
        // The daemon may have answered before all was sent.
        drop(stream.write_all(text.as_bytes()));
        let answer = read(stream);
        assert_eq!(
            (answer.status, &answer.body["code"]),
            (400, &json!("invalid_argument"))
        );
        assert_eq!(info(&answer)["reason"], "EVENT_TOO_LARGE");
    }
}

#[tokio::test]
async fn a_timeout_ends_the_hook_and_a_client_that_goes_does_so_too() {
    let daemon = Daemon::start().await;
    let marker = a_minute();
    let body = json!({"hook": {"argv": ["/bin/sleep", marker]}}).to_string();
    let answer = send(
        &daemon,
        &request(EXECUTE, "Connect-Timeout-Ms: 500\r\n", &body),
    );
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(
        answer.body["outcome"]["kind"], "OUTCOME_KIND_TIMED_OUT",
        "{answer:?}"
    );
    until_gone(&marker).await;

    let answer = send(
        &daemon,
        &request(EXECUTE, "Connect-Timeout-Ms: 1s\r\n", &body),
    );
    assert_eq!(info(&answer)["reason"], "INVALID_REQUEST");
    assert!(
        answer.body["message"]
            .as_str()
            .unwrap()
            .contains("ten digits"),
        "{answer:?}"
    );

    let mut stream = connect(&daemon);
    stream
        .write_all(request(EXECUTE, "", &body).as_bytes())
        .unwrap();
    until("the hook runs", || !processes_with(&marker).is_empty()).await;
    drop(stream);
    until_gone(&marker).await;
}

#[tokio::test]
async fn what_is_no_call_with_json_is_refused_as_that() {
    let daemon = Daemon::start().await;
    let good = request(EXECUTE, "", r#"{"hook":{"argv":["/bin/true"]}}"#);
    for (original, replacement, status, code) in [
        ("POST", "GET", 405, "unimplemented"),
        ("POST", "OPTIONS", 405, "unimplemented"),
        ("application/json", "text/plain", 415, "unimplemented"),
        ("application/json", "application/grpc", 415, "unimplemented"),
        (
            "application/json",
            "application/json; charset=latin1",
            415,
            "unimplemented",
        ),
        (
            "Host:",
            "Content-Encoding: gzip\r\nHost:",
            501,
            "unimplemented",
        ),
        (
            "Host:",
            "Connect-Protocol-Version: 2\r\nHost:",
            400,
            "invalid_argument",
        ),
        (
            "Host:",
            "Origin: http://localhost\r\nHost:",
            403,
            "permission_denied",
        ),
        (
            "Host:",
            "Sec-Fetch-Mode: no-cors\r\nHost:",
            403,
            "permission_denied",
        ),
    ] {
        let answer = send(&daemon, &good.replacen(original, replacement, 1));
        assert_eq!(
            (answer.status, &answer.body["code"]),
            (status, &json!(code)),
            "{replacement}"
        );
    }
    let chunks = "Transfer-Encoding: chunked\r\n";
    let head = good.split("Content-Length").next().unwrap();
    let answer = send(&daemon, &format!("{head}{chunks}\r\nno length\r\n"));
    assert_eq!(
        (answer.status, &answer.body["code"]),
        (400, &json!("invalid_argument"))
    );
    let twice = r#"{"requestId":"a","request_id":"b","hook":{"argv":["/bin/true"]}}"#;
    let answer = send(&daemon, &request(EXECUTE, "", twice));
    assert_eq!(info(&answer)["reason"], "INVALID_REQUEST");
    assert!(!daemon.records().contains(&"started".to_owned()));
    for (original, replacement) in [
        ("application/json", "Application/JSON; charset=UTF-8"),
        ("Host:", "Connect-Protocol-Version: 1\r\nHost:"),
    ] {
        assert_eq!(
            send(&daemon, &good.replacen(original, replacement, 1)).status,
            200,
            "{replacement}"
        );
    }
}

mod with_tools {
    use super::*;

    #[tokio::test]
    #[ignore = "needs curl"]
    async fn curl_runs_a_hook_over_the_socket() {
        let daemon = Daemon::start().await;
        let socket = daemon.path().join("sock");
        let body = r#"{"hook":{"argv":["/bin/echo","hello"]}}"#;
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            let url = format!("http://localhost{EXECUTE}");
            let output = Command::new("curl")
                .args([
                    "--silent",
                    "--show-error",
                    version,
                    "--max-time",
                    "20",
                    "--unix-socket",
                ])
                .arg(&socket)
                .args([
                    "--header",
                    "content-type: application/json",
                    "--data",
                    body,
                    &url,
                ])
                .output()
                .unwrap();
            let answer: Value = serde_json::from_slice(&output.stdout)
                .unwrap_or_else(|_| panic!("{version} {output:?}"));
            assert_eq!(
                answer["stdout"],
                BASE64_STANDARD.encode("hello\n"),
                "{answer}"
            );
        }
    }

    #[tokio::test]
    #[ignore = "needs curl"]
    async fn over_http_2_too_a_page_and_what_is_no_call_are_served_nothing() {
        let daemon = Daemon::start().await;
        let message = hook(["/bin/true"]).encode_to_vec();
        let mut framed = vec![0];
        framed.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
        framed.extend_from_slice(&message);
        let file = daemon.path().join("message");
        fs::write(&file, framed).unwrap();
        let data = format!("@{}", file.display());
        let ask = |words: &[&str]| {
            let mut command = Command::new("curl");
            command
                .args(["--silent", "--show-error", "--http2-prior-knowledge"])
                .args([
                    "--max-time",
                    "20",
                    "--output",
                    "/dev/null",
                    "--dump-header",
                    "-",
                ])
                .args(["--header", "te: trailers", "--unix-socket"])
                .arg(daemon.path().join("sock"))
                .args(words)
                .arg(format!("http://localhost{EXECUTE}"));
            // An answer may come before the message was read. This curl then takes the end of the stream for an error at times.
            let mut answers = (0..50).map(|_| command.output().unwrap());
            let answer = answers.find(|answer| answer.status.code() != Some(92));
            let answer = answer.expect("curl gets no answer");
            String::from_utf8_lossy(&answer.stdout).to_lowercase()
        };
        let grpc = ["--header", "content-type: application/grpc"];
        let post = ["--data-binary", &data];
        let started = || {
            let records = daemon.records();
            records.iter().filter(|record| *record == "started").count()
        };
        for (more, expected) in [
            (
                &["--header", "origin: https://evil.example"][..],
                "grpc-status: 7",
            ),
            (&["--header", "sec-fetch-mode: no-cors"], "grpc-status: 7"),
            (
                &["--header", "SEC-FETCH-SITE: same-origin"],
                "grpc-status: 7",
            ),
        ] {
            let answer = ask(&[&grpc[..], &post, more].concat());
            assert!(answer.contains(expected), "{more:?}: {answer}");
        }
        for (kind, method, expected) in [
            ("content-type: text/plain", "POST", "http/2 415"),
            ("content-type:", "POST", "http/2 415"),
            ("content-type: application/grpc-web", "POST", "http/2 415"),
            ("content-type: application/grpcx", "POST", "http/2 415"),
            ("content-type: application/grpc", "GET", "http/2 405"),
            ("content-type: application/grpc", "PUT", "http/2 405"),
        ] {
            let answer = ask(&[&["--header", kind, "--request", method][..], &post].concat());
            assert!(answer.starts_with(expected), "{kind} {method}: {answer}");
        }
        assert_eq!(started(), 0);
        // The control: all that was left out is what a page sends.
        for kind in [
            "application/grpc",
            "application/grpc+proto",
            "Application/gRPC",
        ] {
            let kind = format!("content-type: {kind}");
            ask(&[&["--header", &kind][..], &post].concat());
        }
        assert_eq!(started(), 3);
    }
}
