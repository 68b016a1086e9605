//! The command line: exit codes for scripts, one line of JSON for programs, text for people.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start the command line itself, never a hook"
)]

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    process::{Output, Stdio},
};

use serde_json::{Value, json};

use crate::{
    support::{Daemon, SHIPPED},
    witness::{CommandLine, json as one_line},
};

fn run(line: &CommandLine, words: &[&str]) -> Output {
    line.run(&[&["run"], words].concat())
}

#[test]
fn the_exit_code_is_the_hooks_own_or_says_why_there_is_none() {
    let line = CommandLine::new();
    let missing = line.path().join("missing-interpreter");
    fs::write(&missing, "#!/no/such/interpreter\n").unwrap();
    let bare = line.path().join("no-interpreter-line");
    fs::write(&bare, "echo never\n").unwrap();
    let plain = line.path().join("not-executable");
    fs::write(&plain, "#!/bin/sh\n").unwrap();
    for path in [&missing, &bare] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let table: [(&[&str], i32); 12] = [
        (&["--profil", "strict", "--", "/bin/true"], 2),
        (&["--", "/bin/true"], 0),
        (&["--", "true"], 0),
        (&["--", "/bin/sh", "-c", "exit 7"], 7),
        (&["--", "/bin/sh", "-c", "exit 255"], 255),
        (&["--timeout", "500ms", "--", "/bin/sleep", "60"], 124),
        (&["--profile", "no-such", "--", "/bin/true"], 125),
        (&["--", bare.to_str().unwrap()], 126),
        (&["--", plain.to_str().unwrap()], 126),
        (&["--", "/bin/no-such-thing"], 127),
        (&["--", "no-such-thing"], 127),
        (&["--", "/bin/sh", "-c", "kill -9 $$"], 128 + 9),
    ];
    for (words, expected) in table {
        let output = run(&line, words);
        assert_eq!(output.status.code(), Some(expected), "{words:?} {output:?}");
    }
    let code = run(&line, &["--", missing.to_str().unwrap()]).status.code();
    assert!(matches!(code, Some(125..=127)), "{code:?}");
}

#[test]
fn json_is_the_response_on_one_line() {
    let line = CommandLine::new();

    let output = run(
        &line,
        &[
            "--json",
            "--",
            "/bin/sh",
            "-c",
            "echo out; echo err >&2; exit 3",
        ],
    );

    assert_eq!(output.status.code(), Some(3));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let response = one_line(&output);
    let told: serde_json::Map<_, _> = ["outcome", "stdout", "stderr", "stdoutTotalBytes"]
        .map(|key| (key.to_owned(), response[key].clone()))
        .into_iter()
        .collect();
    assert_eq!(
        Value::from(told),
        json!({
            "outcome": { "kind": "OUTCOME_KIND_EXITED", "exitCode": 3 },
            "stdout": "b3V0Cg==",
            "stderr": "ZXJyCg==",
            "stdoutTotalBytes": "4",
        })
    );
    assert_eq!(response["confinement"]["confirmed"], true);
    assert_eq!(
        response["confinement"]["axes"].as_array().unwrap().len(),
        14
    );
    assert_eq!(response["verdict"]["decision"], "DECISION_NONE");
    assert_eq!(response["audit"]["sequence"], "2");
}

#[test]
fn a_refusal_in_json_is_an_error_on_stdout() {
    let line = CommandLine::new();

    let output = run(
        &line,
        &["--json", "--profile", "no-such", "--", "/bin/true"],
    );

    assert_eq!(output.status.code(), Some(125));
    let answer = one_line(&output);
    assert_eq!(
        (&answer["error"]["code"], &answer["error"]["reason"]),
        (&json!("NOT_FOUND"), &json!("PROFILE_UNKNOWN"))
    );
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains("no-such")
    );
    assert!(answer["error"]["metadata"]["request_id"].is_string());
}

#[test]
fn a_refusal_for_people_goes_to_stderr() {
    let line = CommandLine::new();

    let output = run(&line, &["--profile", "no-such", "--", "/bin/true"]);

    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        message.starts_with("hookjail: PROFILE_UNKNOWN: "),
        "{message}"
    );
}

#[test]
fn a_named_daemon_that_cannot_be_reached_is_a_failure_and_nothing_runs() {
    let line = CommandLine::new();

    let output = run(
        &line,
        &["--json", "--connect", "/no/such/socket", "--", "/bin/true"],
    );

    assert_eq!(output.status.code(), Some(125));
    let message = one_line(&output)["error"]["message"].to_string();
    assert!(message.contains("/no/such/socket"), "{message}");
    assert!(!line.path().join("state/audit/journal.jsonl").exists());
}

#[test]
fn the_event_comes_from_a_file_or_from_stdin() {
    let line = CommandLine::new();
    let file = line.path().join("event.json");
    fs::write(&file, "{\"from\":\"file\"}\n").unwrap();
    let words = [
        "run",
        "--json",
        "--event",
        file.to_str().unwrap(),
        "--",
        "/bin/cat",
    ];
    let response = one_line(&line.run(&words));
    assert_eq!(response["stdout"], "eyJmcm9tIjoiZmlsZSJ9Cg==");

    let mut command = line.command(&["run", "--json", "--", "/bin/cat"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"{}").unwrap();
    let response = one_line(&child.wait_with_output().unwrap());
    assert_eq!(response["stdout"], "e30=");
}

#[test]
fn the_newcomers_command_prints_outcome_directive_and_confinement() {
    let line = CommandLine::new();
    let words = [
        "run",
        "--contract",
        "reyn",
        "--mode",
        "shell_push",
        "--point",
        "turn_end",
        "--event",
        "examples/events/turn_end.json",
        "--",
        "examples/hooks/decide-next.sh",
    ];

    let output = line.command(&words).env("NO_COLOR", "1").output().unwrap();

    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains('\u{1b}'), "{text}");
    let labels: Vec<_> = text
        .lines()
        .filter_map(|line| {
            line.split_whitespace()
                .next()
                .filter(|_| !line.starts_with(' '))
        })
        .collect();
    assert_eq!(
        labels,
        [
            "outcome",
            "stdout",
            "stderr",
            "verdict",
            "push",
            "confinement",
            "evidence",
            "times",
            "audit",
        ]
    );
    assert!(text.contains("exited, code 0"), "{text}");
    assert!(text.contains("push        wake="), "{text}");
    assert!(text.contains("profile strict, confirmed"), "{text}");
}

#[test]
fn a_hooks_output_cannot_steer_the_terminal() {
    let line = CommandLine::new();

    let output = run(
        &line,
        &["--", "/bin/sh", "-c", r"printf '\033]0;title\007'"],
    );

    assert!(!output.stdout.contains(&0x1b), "{output:?}");
}

#[test]
fn doctor_says_what_this_host_enforces() {
    let line = CommandLine::new();

    let output = line.run(&["doctor", "--json"]);

    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report = one_line(&output);
    assert!(report.is_object(), "{report}");
    assert!(!line.run(&["doctor"]).stdout.is_empty());
}

#[tokio::test]
async fn doctor_has_a_daemon_test_itself() {
    let (line, daemon) = (CommandLine::new(), Daemon::start().await);
    let socket = daemon.path().join("sock").display().to_string();

    let words = ["doctor", "--connect", &socket, "--json"];
    let all = one_line(&line.run(&words));
    let one = one_line(&line.run(&[&words[..], &["--profile", "strict"]].concat()));
    let none = line.run(&["doctor", "--connect", &socket, "--profile", "none"]);

    let names = |report: &Value| report["profiles"].as_array().map(Vec::len);
    assert_eq!((names(&all), names(&one)), (Some(SHIPPED.len()), Some(1)));
    assert_eq!(one["backends"][0]["backend"], "landlock");
    assert_eq!(none.status.code(), Some(125), "{none:?}");
}

#[test]
fn profiles_are_listed_shown_and_validated() {
    let line = CommandLine::new();
    let listed = line.run(&["profile", "list", "--json"]);
    let names: Vec<Value> = String::from_utf8(listed.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["name"].clone())
        .collect();
    assert_eq!(names, SHIPPED);

    let shown = one_line(&line.run(&["profile", "show", "pipeline", "--json"]));
    let toml = shown["toml"].as_str().unwrap();
    assert!(toml.contains("spawn = \"processes\""), "{toml}");
    assert!(toml.contains("network = \"none\""), "{toml}");
    assert_eq!(
        line.run(&["profile", "show", "no-such"]).status.code(),
        Some(125)
    );

    let directory = line.path().join("profiles");
    fs::create_dir(&directory).unwrap();
    let words = ["profile", "validate", directory.to_str().unwrap()];
    fs::write(
        directory.join("mine.toml"),
        "description = \"mine\"\nextends = \"strict\"\n",
    )
    .unwrap();
    assert_eq!(line.run(&words).status.code(), Some(0));
    fs::write(
        directory.join("mine.toml"),
        "extends = \"strict\"\nnetwrok = \"none\"\n",
    )
    .unwrap();
    let output = line.run(&words);
    assert_eq!(output.status.code(), Some(125));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("netwrok"),
        "{output:?}"
    );
}

#[test]
fn consents_are_listed_and_revoked() {
    let line = CommandLine::new();
    let allowed = one_line(&line.run(&["consent", "allow", "--json", "--", "/bin/true"]));
    assert_eq!(
        (&allowed["command"], &allowed["profile"]),
        (&json!("/bin/true"), &json!("strict"))
    );

    let listed = one_line(&line.run(&["consent", "list", "--json"]));
    assert_eq!(listed["command"], "/bin/true");

    assert_eq!(
        line.run(&["consent", "revoke", "/bin/true"]).status.code(),
        Some(0)
    );
    assert_eq!(
        line.run(&["consent", "revoke", "/bin/true"]).status.code(),
        Some(1)
    );
    assert_eq!(line.run(&["consent", "list", "--json"]).stdout, b"");
}
