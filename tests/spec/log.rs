//! `hookjail log`: a line a run, with its result and its remedy.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start the command line itself, never a hook"
)]

use std::{
    fs::{self, Permissions},
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    process::{Command, Output, Stdio},
};

use hookjail::pb;
use regex::Regex;
use serde_json::{Value, json};

use crate::{
    support::{Daemon, Setup, command, hook, program, sh},
    witness::{CommandLine, hookjail},
};

/// Returns a command of this daemon's configuration, in its home and at Greenwich.
fn line(daemon: &Daemon, words: &[&str]) -> Command {
    let mut command = hookjail(&daemon.path().join("hookjail.toml"), words);
    command.env("HOME", daemon.path().canonicalize().unwrap());
    command.env("TZ", "UTC");
    command
}

/// Returns what the log prints, line by line.
fn log(daemon: &Daemon, words: &[&str]) -> Vec<String> {
    let output = line(daemon, &[&["log"], words].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    lines(&output)
}

fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn runs(daemon: &Daemon, words: &[&str]) -> Vec<Value> {
    let lines = log(daemon, &[&["--json"], words].concat());
    let lines = lines.iter();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Returns a request for a script of the workspace, under Claude Code's contract before a tool call.
fn guard(daemon: &Daemon, name: &str, text: &str) -> pb::ExecuteRequest {
    let path = daemon.workspace().join("hooks").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let mut request = hook([path.to_str().unwrap()]);
    request.contract = pb::Contract::ClaudeCode.into();
    request.event = Some(pb::Event {
        json: json!({"tool_name": "Bash"}).to_string().into(),
        point: "PreToolUse".to_owned(),
        raw: false,
    });
    request.hook.as_mut().unwrap().workspace = daemon.workspace().display().to_string();
    request.profile = "workspace-ro".to_owned();
    request
}

/// Asserts that each line is a local time and one of these patterns.
fn assert_lines(lines: &[String], expected: &[&str]) {
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, expected) in lines.iter().zip(expected) {
        let pattern = format!(r"^(\d{{4}}-\d\d-\d\d )?\d\d:\d\d:\d\d  {expected}$");
        assert!(
            Regex::new(&pattern).unwrap().is_match(line),
            "{expected}: {line}"
        );
    }
}

#[tokio::test]
async fn the_log_has_a_line_for_each_run_with_what_came_of_it() {
    let daemon = Daemon::start().await;
    daemon
        .run(guard(&daemon, "yes.sh", "exit 0"))
        .await
        .unwrap();
    daemon
        .run(guard(&daemon, "no.sh", "echo no >&2; exit 2"))
        .await
        .unwrap();
    let mut slow = guard(&daemon, "slow.sh", "sleep 60");
    slow.timeout = Some(prost_types::Duration {
        seconds: 0,
        nanos: 300_000_000,
    });
    daemon.run(slow).await.unwrap();
    daemon.run(sh("strict", "kill -9 $$")).await.unwrap();
    let mut named = sh("nowhere", "exit 0");
    named.hook.as_mut().unwrap().name = "named".to_owned();
    daemon.run(named).await.unwrap_err();

    let expected = [
        r"claude-code   hooks/yes\.sh +ok",
        r"claude-code   hooks/no\.sh +denied by the hook",
        r"claude-code   hooks/slow\.sh +timed out.*",
        r"observe       kill -9 \$\$ +crashed \(signal 9\)",
        r"observe       named +refused PROFILE_UNKNOWN: .*nowhere.*",
    ];
    assert_lines(&log(&daemon, &[]), &expected);
    assert_lines(&log(&daemon, &["-n", "2"]), &expected[3..]);
    assert_lines(&log(&daemon, &["--profile", "strict"]), &expected[3..4]);
    // The same by the daemon.
    let socket = daemon.path().join("sock").display().to_string();
    assert_lines(&log(&daemon, &["--connect", &socket]), &expected);

    let runs = runs(&daemon, &[]);
    let outcomes: Vec<_> = runs.iter().map(|run| run["outcome"].clone()).collect();
    assert_eq!(
        outcomes,
        ["ok", "denied", "timed_out", "crashed", "refused"].map(Value::from)
    );
    let workspace = json!(daemon.workspace());
    assert_eq!(
        (
            &runs[1]["hook"],
            &runs[1]["workspace"],
            &runs[1]["exit_code"]
        ),
        (&json!("hooks/no.sh"), &workspace, &json!(2))
    );
    assert_eq!(runs[4]["reason"], "PROFILE_UNKNOWN");
}

#[tokio::test]
async fn what_confinement_denied_is_named_with_the_command_that_finds_the_hooks_needs() {
    let daemon = Daemon::start().await;
    let secret = daemon.outside("secret");
    fs::write(&secret, "x\n").unwrap();
    let read = format!("read x <{}", secret.display());
    daemon.run(sh("strict", &read)).await.unwrap();
    daemon
        .run(sh("strict", "/bin/ls / | /bin/cat"))
        .await
        .unwrap();
    // The controls: a run without a denial, and a run that is refused.
    daemon.run(sh("strict", "exit 0")).await.unwrap();
    daemon.run(sh("nowhere", "exit 0")).await.unwrap_err();

    let shown = log(&daemon, &["--denied"]);

    assert_lines(
        &shown,
        &[
            r"observe .* confinement denied a file \(1 line of its stderr\); .* hookjail learn -- /bin/sh -c 'read x <.*/secret'",
            r"observe .* confinement denied processes, .*; to see its needs: hookjail learn -- /bin/sh -c '/bin/ls / \| /bin/cat'",
            r"observe .* refused PROFILE_UNKNOWN: .*",
        ],
    );
    let runs = runs(&daemon, &[]);
    let denied: Vec<_> = runs
        .iter()
        .map(|run| {
            (
                run["denied"].as_array().unwrap().len(),
                run["refused_lines"].clone(),
            )
        })
        .collect();
    assert_eq!((&denied[0], &denied[2]), (&(0, json!(1)), &(0, json!(0))));
    assert_eq!(denied[1].0, 1, "{runs:?}");
    assert_eq!(runs.len(), 4);
    // The journal has none of the hook's output.
    let journal = fs::read_to_string(daemon.path().join("state/audit/journal.jsonl")).unwrap();
    assert!(!journal.contains("ermission denied"), "{journal}");
}

#[tokio::test]
async fn lines_of_stderr_are_named_where_the_journal_keeps_them() {
    let daemon = Daemon::with(Setup {
        config: "[audit]\ncapture = [\"stderr\"]\n".to_owned(),
        ..Setup::default()
    })
    .await;
    let secret = daemon.outside("Secret");
    fs::write(&secret, "x\n").unwrap();
    let read = format!("echo fine >&2; read x <{}", secret.display());
    daemon.run(sh("strict", &read)).await.unwrap();

    let shown = log(&daemon, &[]);

    let named = r"observe .* confinement denied `[^`]*/Secret: Permission denied`; .*";
    assert_lines(&shown, &[named]);
}

#[tokio::test]
async fn a_refusal_for_lack_of_a_consent_has_the_command_that_helps_at_a_terminal_alone() {
    let daemon = Daemon::with(Setup {
        ask_for_consent: true,
        ..Setup::default()
    })
    .await;
    let refused = daemon.run(guard(&daemon, "new.sh", "exit 0")).await;
    assert_eq!(
        crate::support::reason(&refused.unwrap_err()),
        "CONSENT_REQUIRED"
    );

    // A program that reads it may pass it to a model.
    assert_lines(
        &log(&daemon, &[]),
        &[r"claude-code   hooks/new\.sh +refused CONSENT_REQUIRED"],
    );
    for json in runs(&daemon, &[]) {
        assert!(!json.to_string().contains("allow"), "{json}");
    }

    let shown = at_a_terminal(&daemon, &["log"], &[]);
    let expected =
        "\u{1b}[31mrefused CONSENT_REQUIRED\u{1b}[0m; to allow it: hookjail allow ~/workspace";
    assert!(shown.contains(expected), "{shown:?}");
    let plain = at_a_terminal(&daemon, &["log"], &[("NO_COLOR", "1")]);
    assert!(
        !plain.contains('\u{1b}') && plain.contains("hookjail allow ~/workspace"),
        "{plain:?}"
    );
}

/// Returns what a command prints at a terminal.
fn at_a_terminal(daemon: &Daemon, words: &[&str], variables: &[(&str, &str)]) -> String {
    let config = daemon.path().join("hookjail.toml");
    let (program, words) = (program(), words.join(" "));
    let line = format!(
        "{} --config {} {words}",
        program.display(),
        config.display()
    );
    let mut terminal = command("script");
    terminal.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    terminal.env_remove("NO_COLOR");
    terminal.env("HOME", daemon.path().canonicalize().unwrap());
    terminal
        .envs(variables.iter().copied())
        .stdin(Stdio::null());
    let output = terminal.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn records_have_colors_at_a_terminal_and_no_marks() {
    let daemon = Daemon::start().await;
    daemon.run(hook(["/bin/true"])).await.unwrap();

    for words in [["audit", "tail"], ["audit", "query"]] {
        let shown = at_a_terminal(&daemon, &words, &[]);
        assert!(shown.contains("\u{1b}[32mended"), "{shown:?}");
        assert!(!shown.contains('\u{fdd0}'), "{shown:?}");
    }
}

#[tokio::test]
async fn the_log_follows_runs_as_they_end() {
    let daemon = Daemon::start().await;
    daemon.run(hook(["/bin/true"])).await.unwrap();
    let socket = daemon.path().join("sock").display().to_string();
    for words in [vec![], vec!["--connect", &socket]] {
        let words = [vec!["log", "-f", "-n", "1"], words].concat();
        let mut following = line(&daemon, &words)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
        let mut next = || lines.next().unwrap().unwrap();
        let first = next();
        daemon.run(sh("strict", "exit 3")).await.unwrap();
        daemon.run(sh("nowhere", "true")).await.unwrap_err();

        assert_lines(
            &[first, next(), next()],
            &[
                "observe .*",
                r"observe       exit 3 +failed \(exit 3\)",
                "observe       true +refused PROFILE_UNKNOWN: .*",
            ],
        );
        following.kill().unwrap();
        following.wait().unwrap();
    }
}

#[tokio::test]
async fn runs_are_selected_by_times_as_people_write_them() {
    let daemon = Daemon::start().await;
    for _ in 0..12 {
        daemon.run(hook(["/bin/true"])).await.unwrap();
    }
    let count = |words: &[&str]| runs(&daemon, words).len();
    assert_eq!(count(&[]), 10);
    // With a time all of them.
    assert_eq!(
        [count(&["--since", "1h"]), count(&["--since", "2000-01-01"])],
        [12, 12]
    );
    assert_eq!(
        [count(&["--until", "1h"]), count(&["--until", "yesterday"])],
        [0, 0]
    );
    assert_eq!(log(&daemon, &["--until", "1h"]), ["no such run recorded"]);
    // A day ahead of Greenwich nothing is yesterday's there.
    let ahead = line(&daemon, &["log"])
        .env("TZ", "AHEAD-24")
        .output()
        .unwrap();
    let dated = Regex::new(r"^\d\d:\d\d:\d\d  ").unwrap();
    assert!(
        lines(&ahead).iter().all(|line| dated.is_match(line)),
        "{ahead:?}"
    );

    for command in [
        &["log"][..],
        &["audit", "tail"],
        &["audit", "query"],
        &["audit", "stats"],
        &["audit", "export"],
    ] {
        let wrong = line(&daemon, &[command, &["--since", "foo"]].concat())
            .output()
            .unwrap();
        let answer = String::from_utf8_lossy(&wrong.stderr);
        let expected = "`foo` is no time; write 1h, yesterday, 2026-11-26 or 2026-11-26T12:00Z";
        assert!(
            wrong.status.code() == Some(2) && answer.contains(expected),
            "{answer}"
        );
        let right = line(&daemon, &[command, &["--since", "2d"]].concat())
            .output()
            .unwrap();
        assert!(right.status.success(), "{right:?}");
    }
}

#[test]
fn the_log_is_empty_where_nothing_ran_and_needs_no_daemon() {
    let line = CommandLine::new();
    let empty = line.run(&["log"]);
    assert_eq!(
        (empty.status.code(), lines(&empty)),
        (Some(0), vec!["no runs recorded".to_owned()])
    );
    assert!(line.run(&["log", "--json"]).stdout.is_empty());

    let ran = line.run(&["run", "--private", "--", "/bin/true"]);
    assert!(ran.status.success(), "{ran:?}");
    let shown = lines(&line.run(&["log"]));
    assert_lines(&shown, &["observe       true +ok"]);
}
