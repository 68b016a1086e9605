//! Ends that another runner saw mean what they would mean here, offline and over the wire.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Stdio,
};

use hookjail::pb;
use serde_json::{Value, json};
use tonic::Code;

use crate::support::{Daemon, reason};

/// Gives lines to `hookjail interpret`; returns its answers and its exit code.
fn interpret(lines: &str) -> (Vec<Value>, Option<i32>) {
    let (text, code) = interpret_text(lines);
    let answers = text.lines().map(|line| serde_json::from_str(line).unwrap());
    (answers.collect(), code)
}

/// Like [`interpret`], but returns the answers as they are written.
#[expect(
    clippy::disallowed_methods,
    reason = "the test starts the command line itself, never a hook"
)]
fn interpret_text(lines: &str) -> (String, Option<i32>) {
    let mut command = crate::support::command(env!("CARGO_BIN_EXE_hookjail"));
    command
        .arg("interpret")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let lines = lines.to_owned();
    let feed = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = child.wait_with_output().unwrap();
    feed.join().unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (text, output.status.code())
}

/// Returns the folders of a contract's fixtures that define how a runner could have seen an end.
fn cases(contract: &str) -> Vec<(PathBuf, Value)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("crates/contract/tests/fixtures/contract")
        .join(contract);
    let read = |folder: PathBuf| {
        // A folder without one is about several hooks.
        let case = fs::read(folder.join("case.json")).ok()?;
        let case: Value = serde_json::from_slice(&case).unwrap();
        // A failure policy is the request's, and only hookjail itself cancels and limits.
        let is_here = matches!(case["end"].as_str(), Some("canceled" | "outputLimit"));
        (case.get("onFailure").is_none() && !is_here).then_some((folder, case))
    };
    let folders = fs::read_dir(&root).unwrap();
    folders
        .filter_map(|folder| read(folder.unwrap().path()))
        .collect()
}

fn line(contract: &str, folder: &Path, case: &Value) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let stdout = fs::read(folder.join("stdout")).unwrap();
    let stderr = fs::read(folder.join("stderr")).unwrap_or_default();
    let member = |name: &str, default: Value| case.get(name).cloned().unwrap_or(default);
    let mut end = json!({
        "name": member("name", json!("")),
        "command": case["command"],
        "config": member("config", json!({})),
        "duration_ms": member("durationMs", Value::Null),
        "stderr": String::from_utf8_lossy(&stderr),
        "stdout_b64": STANDARD.encode(stdout),
        "stdout_truncated": member("stdoutTruncated", json!(false)),
        "turn": member("turn", Value::Null),
    });
    let kind = &case["end"];
    if kind == "timedOut" {
        end["timed_out"] = json!(true);
    } else if kind.is_string() {
        end["spawn_error"] = member("error", json!(""));
    } else if let Some(code) = kind.get("exited") {
        end["exit_code"] = code.clone();
    } else {
        end["signal"] = kind["signaled"].clone();
    }
    let id = folder.file_name().unwrap().to_string_lossy();
    let line = json!({
        "id": id, "contract": contract, "mode": case["mode"], "point": case["point"], "ends": [end],
    });
    format!("{line}\n")
}

#[test]
fn an_end_means_offline_what_it_means_after_a_run() {
    for (contract, at_least) in [
        ("basecoat", 140),
        ("loom", 130),
        ("observe", 8),
        ("reyn", 90),
    ] {
        let cases = cases(contract);
        assert!(cases.len() >= at_least, "{contract}: {}", cases.len());
        let lines: String = cases
            .iter()
            .map(|(folder, case)| line(contract, folder, case))
            .collect();

        let (answers, code) = interpret(&lines);

        assert_eq!((answers.len(), code), (cases.len(), Some(0)));
        for ((folder, _), answer) in cases.iter().zip(answers) {
            let expected = fs::read(folder.join("expected.json")).unwrap();
            let expected: Value = serde_json::from_slice(&expected).unwrap();
            let id = folder.file_name().unwrap().to_string_lossy().into_owned();
            assert_eq!(answer["id"], id);
            assert_eq!(answer["verdicts"], json!([expected["verdict"]]), "{id}");
            let events: Vec<_> = [&expected["event"]]
                .into_iter()
                .filter(|event| !event.is_null())
                .collect();
            let events = json!(events);
            assert_eq!(answer["events"], events, "{id}");
        }
    }
}

#[test]
fn a_line_that_cannot_be_read_is_said_so_and_the_others_are_answered() {
    let good = r#"{"id": 7, "contract": "observe", "point": "p", "ends": [{"exit_code": 1}]}"#;
    let bad = [
        r#"{"id": "a", "contract": "nobody", "point": "p", "ends": []}"#,
        r#"{"id": "a", "contract": "loom", "point": "tool.during", "ends": []}"#,
        r#"{"id": "a", "contract": "loom", "mode": "shell_push", "point": "tool.pre", "ends": []}"#,
        r#"{"id": "a", "contract": "loom", "point": "tool.pre", "ends": [{"exit_code": 0, "config": {"timeout": 3}}]}"#,
        r#"{"id": "a", "contract": "basecoat", "point": "PreToolUse", "config": {"priority": "1"}, "ends": [{"exit_code": 0}]}"#,
        r#"{"id": "a", "contract": "reyn", "mode": "neither", "point": "p", "ends": []}"#,
        r#"{"id": "a", "contract": "observe", "point": "p", "ends": [{}]}"#,
        r#"{"id": "a", "contract": "observe", "point": "p", "ends": [{"exit_code": 0, "signal": 9}]}"#,
        r#"{"id": "a", "contract": "observe", "point": "p", "ends": [{"exit_code": 0, "stdout_b64": "%"}]}"#,
        r#"{"id": "a", "contract": "observe", "point": "p", "ends": [{"exit_code": 0}], "config": {"on_error": "block"}}"#,
        r#"{"id": "a", "contract": "observe", "point": "p", "ends": [], "unknown": 1}"#,
        r#"{"id": "a""#,
        "nonsense",
    ];
    let lines: String = bad
        .iter()
        .map(|line| format!("{line}\n{good}\n\n"))
        .collect();

    let (answers, code) = interpret(&lines);

    assert_eq!((answers.len(), code), (2 * bad.len(), Some(1)));
    for (pair, line) in answers.chunks(2).zip(bad) {
        let error = pair[0]["error"].as_str().unwrap_or_default();
        assert!(
            !error.is_empty() && pair[0].get("verdicts").is_none(),
            "{line}: {}",
            pair[0]
        );
        if line.ends_with('}') {
            assert_eq!(pair[0]["id"], "a", "{line}");
        }
        assert_eq!(
            (&pair[1]["id"], &pair[1]["verdicts"][0]["failed"]),
            (&json!(7), &json!(true))
        );
    }
}

#[test]
fn rewritten_numbers_keep_every_digit_in_the_answer() {
    let rewritten = r#"{"id":123456789012345678901234567890,"rate":1.50e+3}"#;
    let line = json!({
        "contract": "basecoat", "point": "PreToolUse",
        "ends": [{"exit_code": 0, "stdout": format!(r#"{{"action":"modify","modifiedInput":{rewritten}}}"#)}],
    });

    let (text, code) = interpret_text(&format!("{line}\n"));

    let expected = format!(r#""updatedInput":{rewritten}"#);
    // Once in the hook's verdict and once in the answer.
    assert_eq!((text.matches(&expected).count(), code), (2, Some(0)));
}

#[test]
fn ten_thousand_random_ends_are_answered_line_by_line() {
    const LINES: usize = 10_000;
    let mut random = Random(0x5eed);
    let lines: String = (0..LINES).map(|id| random_line(&mut random, id)).collect();

    let (answers, code) = interpret(&lines);

    assert_eq!((answers.len(), code), (LINES, Some(0)));
    for (id, answer) in answers.iter().enumerate() {
        assert_eq!((&answer["id"], answer.get("error")), (&json!(id), None));
        let verdicts = answer["verdicts"].as_array().map(Vec::len);
        assert_eq!(verdicts, Some(1), "{answer}");
    }
}

/// Numbers that look random and are the same in every run (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let bound = u64::try_from(bound).unwrap();
        usize::try_from((mixed ^ (mixed >> 31)) % bound).unwrap()
    }

    fn one<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

fn random_line(random: &mut Random, id: usize) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    const PLACES: [(&str, &str, &str); 7] = [
        ("basecoat", "", "PreToolUse"),
        ("basecoat", "command", "OnError"),
        ("loom", "", "tool.pre"),
        ("loom", "command", "session.start"),
        ("observe", "", "p"),
        ("reyn", "shell_exec", "turn_end"),
        ("reyn", "shell_push", "turn_end"),
    ];
    const PIECES: [&str; 28] = [
        "{",
        "}",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        " ",
        "\n",
        "x",
        "\u{feff}",
        "1e999",
        "null",
        "true",
        "false",
        "\"continue\":",
        "\"action\":",
        "\"block\"",
        "\"reason\":",
        "\"message\":",
        "\"wake\":",
        "\"push_when\":",
        "\"modifiedInput\":",
        "\"additionalContext\":",
        "\"\\ud800\"",
    ];
    let (contract, mode, point) = PLACES[random.below(PLACES.len())];
    let mut stdout: Vec<u8> = Vec::new();
    for _ in 0..random.below(20) {
        stdout.extend_from_slice(random.one(&PIECES).as_bytes());
    }
    if random.below(8) == 0 {
        stdout.push(0xff);
    }
    if random.below(50) == 0 {
        stdout.splice(0..0, b"{\"x\":".iter().chain(&[b'['; 400]).copied());
    }
    let mut end = json!({
        "name": random.one(&["", "a", "é"]),
        "stderr": random.one(&["", "boom\n", " \u{0}"]),
        "stdout_b64": STANDARD.encode(stdout),
        "stdout_truncated": random.below(8) == 0,
    });
    match random.below(8) {
        0 => end["signal"] = json!(1 + random.below(64)),
        1 => end["spawn_error"] = json!(random.one(&["", "ENOENT"])),
        2 => end["timed_out"] = json!(true),
        3 => end["exit_code"] = json!(random.below(256)),
        _ => end["exit_code"] = json!(0),
    }
    let line = json!({"id": id, "contract": contract, "mode": mode, "point": point, "ends": [end]});
    format!("{line}\n")
}

#[tokio::test]
async fn the_wire_reads_ends_alike_and_refuses_what_it_cannot_read() {
    let daemon = Daemon::start().await;
    let push = r#"{"wake": true, "message": "m", "push_when": true}"#;
    let end = |code, name: &str| pb::GivenEnd {
        exit_code: Some(code),
        name: name.to_owned(),
        command: "notify".to_owned(),
        stdout: push.into(),
        ..pb::GivenEnd::default()
    };
    let request = pb::InterpretRequest {
        contract: pb::Contract::Reyn.into(),
        mode: "shell_push".to_owned(),
        point: "turn_end".to_owned(),
        ends: vec![end(0, "one"), end(1, "two")],
        ..pb::InterpretRequest::default()
    };

    let read = daemon
        .client()
        .interpret(request.clone())
        .await
        .unwrap()
        .into_inner();

    assert_eq!(read.ran, ["one", "two"]);
    assert_eq!(read.pushes.len(), 1);
    assert_eq!(read.verdicts[0].push, Some(read.pushes[0].clone()));
    assert_eq!(read.verdicts[1].skip_reason, "nonzero_exit");
    assert!(read.answer.unwrap().failed);
    assert_eq!(read.events.len(), 2);
    // Nothing ran.
    assert_eq!(daemon.records(), Vec::<String>::new());
    let unknown_contract = pb::InterpretRequest {
        contract: 999,
        ..request.clone()
    };
    let unknown_point = pb::InterpretRequest {
        contract: pb::Contract::Loom.into(),
        mode: String::new(),
        point: "tool.during".to_owned(),
        ..request.clone()
    };
    let nothing = pb::InterpretRequest {
        ends: vec![pb::GivenEnd::default()],
        ..request
    };
    for request in [unknown_contract, unknown_point, nothing] {
        let refusal = daemon.client().interpret(request).await.unwrap_err();
        assert_eq!(
            (refusal.code(), &*reason(&refusal)),
            (Code::InvalidArgument, "INVALID_REQUEST")
        );
    }
}
