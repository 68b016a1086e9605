//! The command line: exit codes for scripts, one line of JSON for programs, text for people.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start the command line itself, never a hook"
)]

use std::{
    ffi::OsStr,
    fs,
    io::Write,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    process::{Command, Output, Stdio},
    thread,
};

use clap::Parser;
use serde_json::{Value, json};

use crate::{
    lane::{self, LaneArguments},
    support::{Daemon, SHIPPED, Setup},
    witness::{CommandLine, hookjail, json as one_line},
};

fn run(line: &CommandLine, words: &[&str]) -> Output {
    line.run(&[&["run"], words].concat())
}

#[tokio::test]
async fn a_lane_makes_calls_as_lines_say_and_prints_how_long_they_took() {
    let daemon = Daemon::start().await;
    let socket = daemon.path().join("sock");
    let lane = |command: &str, lines: &str| -> Vec<String> {
        let words = [
            lane::NAME,
            "--connect",
            socket.to_str().unwrap(),
            "--",
            command,
        ];
        let arguments = LaneArguments::parse_from(words);
        let mut answers = Vec::new();
        let run = || arguments.run(lines.as_bytes(), &mut answers).ok();
        thread::scope(|scope| scope.spawn(run).join().unwrap());
        let text = String::from_utf8(answers).unwrap();
        text.lines().map(str::to_owned).collect()
    };
    let numbers =
        |line: &str| -> Vec<i64> { line.split(' ').map(|word| word.parse().unwrap()).collect() };

    let good = lane("/bin/true", "one\ntp 1 4\none\n");
    assert_eq!(good[0], "ready");
    assert!(
        numbers(&good[1])[0] > 0 && numbers(&good[3])[0] > 0,
        "{good:?}"
    );
    let [count, elapsed, half, most] = numbers(&good[2])[..] else {
        panic!("{good:?}");
    };
    assert!(count >= 4 && elapsed >= 1_000_000_000, "{good:?}");
    assert!(0 < half && half <= most && most <= elapsed, "{good:?}");
    // Each of them was a run.
    let runs = daemon
        .records()
        .iter()
        .filter(|it| *it == "started")
        .count();
    assert_eq!(i64::try_from(runs).unwrap(), count + 2);

    let bad = lane("/bin/false", "one\ntp 1 1\n");
    assert!(
        numbers(&bad[1])[0] < 0 && numbers(&bad[2])[0] == -1,
        "{bad:?}"
    );
    assert_eq!(lane("/bin/true", "two\n"), ["ready"]);
}

#[test]
fn the_exit_code_is_the_hooks_own_or_says_why_there_is_none() {
    let line = CommandLine::new();
    let missing = line.path().join("missing-interpreter");
    fs::write(&missing, "#!/no/such/interpreter\n").unwrap();
    let bare = line.path().join("no-interpreter-line");
    // Text is run by the shell, as runtimes do.
    fs::write(&bare, "exit 9\n").unwrap();
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
        (&["--", bare.to_str().unwrap()], 9),
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
fn a_small_stack_is_enough() {
    let line = CommandLine::new();
    for limit in ["64", "256"] {
        let started = line.command(&["run", "--", "/bin/echo", "done"]);
        let mut limited = Command::new("sh");
        limited.args(["-c", "ulimit -s $0 && ulimit -s && exec \"$@\"", limit]);
        limited.arg(started.get_program()).args(started.get_args());
        limited.env("HOME", line.path()).stdin(Stdio::null());
        let output = limited.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{limit}: {output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with(&format!("{limit}\n")), "{text}");
        assert!(text.contains("done\n"), "{text}");
    }
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
    let shown: serde_json::Map<_, _> = ["outcome", "stdout", "stderr", "stdoutTotalBytes"]
        .map(|key| (key.to_owned(), response[key].clone()))
        .into_iter()
        .collect();
    assert_eq!(
        Value::from(shown),
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
        ["outcome", "stdout", "stderr", "verdict", "push", "sandbox"]
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
    let (line, daemon) = (CommandLine::new(), Daemon::offering(&SHIPPED).await);
    let socket = daemon.path().join("sock").display().to_string();

    let words = ["doctor", "--connect", &socket, "--json"];
    let all = one_line(&line.run(&words));
    let one = one_line(&line.run(&[&words[..], &["--profile", "strict"]].concat()));
    let none = line.run(&["doctor", "--connect", &socket, "--profile", "none"]);

    let names = |report: &Value| report["profiles"].as_array().map(Vec::len);
    assert_eq!((names(&all), names(&one)), (Some(SHIPPED.len()), Some(1)));
    assert_eq!(one["backends"][0]["backend"], "landlock");
    assert_eq!(none.status.code(), Some(2), "{none:?}");
}

#[test]
fn completions_are_printed_for_each_shell() {
    let line = CommandLine::new();
    for (shell, begins) in [
        ("bash", "_hookjail()"),
        ("fish", "# Print an optspec"),
        ("zsh", "#compdef hookjail"),
    ] {
        let output = line.run(&["completions", shell]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{shell}");
        assert!(text.starts_with(begins) && text.contains("audit"), "{text}");
    }
    assert_eq!(line.run(&["completions", "csh"]).status.code(), Some(2));
}

#[test]
fn completions_have_the_names_that_options_take_and_those_of_own_profiles() {
    let line = CommandLine::new();
    let profiles = line.path().join("profiles");
    fs::create_dir(&profiles).unwrap();
    fs::write(
        profiles.join("work-own.toml"),
        "description = \"x\"\nextends = \"strict\"\n",
    )
    .unwrap();
    let path = line.path().join("hookjail.toml");
    let config = fs::read_to_string(&path).unwrap();
    fs::write(path, format!("{config}[profiles]\ndirs = [{profiles:?}]\n")).unwrap();
    let printed = line.run(&["completions", "bash"]);
    let script = line.path().join("completions.bash");
    fs::write(&script, &printed.stdout).unwrap();
    let completed = |words: &str| {
        let text = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _hookjail hookjail \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; echo \"${{COMPREPLY[@]}}\"",
            script.display()
        );
        let output = Command::new("bash").args(["-c", &text]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    for (words, expected) in [
        (
            "hookjail run --profile work",
            "work-own workspace-ro workspace-rw worktree",
        ),
        ("hookjail profile show stri", "strict"),
        ("hookjail run --contract claude", "claude_code"),
        ("hookjail run --as claude", "claude-code"),
        (
            "hookjail dispatch --point UserPromptE",
            "UserPromptExpansion",
        ),
        ("hookjail dispatch --mode shell_", "shell_exec shell_push"),
        ("hookjail audit query --end timed", "timed_out"),
        // The control: an option without names.
        ("hookjail run --working-dir work", ""),
    ] {
        let names = completed(words);
        assert!(names.split(' ').eq(expected.split(' ')), "{words}: {names}");
    }
    // A name that is not completed is accepted all the same.
    let taken = line.run(&[
        "run",
        "--dry-run",
        "--contract",
        "claude-code",
        "--point",
        "PreNew",
        "--",
        "/bin/true",
    ]);
    assert_eq!(taken.status.code(), Some(0), "{taken:?}");
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
        Some(2)
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
    let allowed = one_line(&line.run(&["allow", "--json", "--", "/bin/true"]));
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

#[test]
fn a_consent_is_taken_back_by_the_words_that_gave_it() {
    let line = CommandLine::new();
    let hooks = line.path().join("hooks");
    fs::create_dir(&hooks).unwrap();
    let guard = hooks.join("guard.sh");
    let consent = |place: &std::path::Path, words: &[&str]| {
        let words = [&["consent"], words].concat();
        let output = line.command(&words).current_dir(place).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let root = line.path();
    let elsewhere = root.to_str().unwrap();
    for (words, written) in [
        (&["hooks/guard.sh"][..], 1),
        (&["sh", "hooks/guard.sh", "--all"], 2),
        (&["true"], 1),
    ] {
        for scope in [&[][..], &["--within", elsewhere]] {
            for is_there in [true, false] {
                fs::write(&guard, "#!/bin/sh\n").unwrap();
                fs::set_permissions(&guard, fs::Permissions::from_mode(0o755)).unwrap();
                let allow = [&["allow"], scope, &["--"], words].concat();
                consent(root, &allow);
                // The control: the list has this number, and other words revoke none of them.
                assert_eq!(
                    consent(root, &["list"]).lines().count(),
                    written,
                    "{words:?}"
                );
                assert_eq!(consent(root, &["revoke", "--", "hooks"]), "revoked: 0\n");
                if !is_there {
                    fs::remove_file(&guard).unwrap();
                }

                let revoked = consent(root, &[&["revoke", "--"], words].concat());

                assert_eq!(
                    revoked,
                    format!("revoked: {written}\n"),
                    "{words:?} {scope:?}"
                );
                assert_eq!(consent(root, &["list"]), "", "{words:?}");
            }
        }
    }
}

#[test]
fn consents_within_a_directory_or_all_are_revoked_together_and_only_with_a_yes() {
    let line = CommandLine::new();
    let root = line.path().canonicalize().unwrap();
    let [one, two] = ["one", "two"].map(|name| root.join(name));
    for directory in [&one, &two] {
        fs::create_dir(directory).unwrap();
        let guard = directory.join("guard.sh");
        fs::write(&guard, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&guard, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let [in_one, in_two] = [&one, &two].map(|it| it.to_str().unwrap());
    let consent = |words: &[&str]| {
        let output = line.run(&[&["consent"], words].concat());
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
        (output.status.code(), stdout, stderr)
    };
    let listed = || consent(&["list"]).1.lines().count();
    let give = || {
        for words in [
            &["--within", in_one, "--", "/bin/true"][..],
            &["--", &format!("{in_one}/guard.sh")],
            &["--within", in_two, "--", "/bin/true"],
            &["--", &format!("{in_two}/guard.sh")],
            &["--", "/bin/echo"],
        ] {
            assert!(line.run(&[&["allow"], words].concat()).status.success());
        }
        assert_eq!(listed(), 5);
    };
    give();

    // Without a yes everything stays, and the consents are shown.
    for words in [&["revoke", "--all"][..], &["revoke", "--within", in_one]] {
        let (code, shown, why) = consent(words);
        assert_eq!(code, Some(125), "{why}");
        assert!(why.contains("`--yes` revokes what is shown"), "{why}");
        let is_all = words.contains(&"--all");
        assert_eq!(shown.lines().count(), if is_all { 5 } else { 2 }, "{shown}");
        assert_eq!(shown.contains(in_two), is_all, "{shown}");
    }
    let (code, _, why) = consent(&["--json", "revoke", "--all"]);
    assert!(code == Some(125) && listed() == 5, "{why}");

    let (code, shown, _) = consent(&["revoke", "--within", in_one, "--yes"]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(
        shown.ends_with("revoked: 2\n") && !shown.contains(in_two),
        "{shown}"
    );
    assert_eq!(listed(), 3);
    // None is left there, and a like name is another directory.
    let (code, shown, why) = consent(&["revoke", "--within", in_one, "--yes"]);
    assert_eq!((code, &*shown), (Some(1), "revoked: 0\n"));
    assert!(why.contains("hookjail consent list"), "{why}");
    let (code, ..) = consent(&["revoke", "--within", &in_two[..in_two.len() - 1], "--yes"]);
    assert_eq!((code, listed()), (Some(1), 3));
    // Consents of a directory that is gone can be taken back, too.
    fs::remove_dir_all(&two).unwrap();
    let (code, shown, _) = consent(&["--json", "revoke", "--yes", "--within", in_two]);
    let report: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((code, &report["revoked"]), (Some(0), &json!(2)), "{report}");
    assert_eq!(report["consents"].as_array().unwrap().len(), 2, "{report}");
    assert_eq!(listed(), 1);

    let (code, shown, _) = consent(&["revoke", "--all", "--yes"]);
    assert!(code == Some(0) && shown.contains("/bin/echo"), "{shown}");
    assert_eq!(listed(), 0);
    // One of the three is named.
    for words in [
        &["revoke"][..],
        &["revoke", "--all", "--within", "/"],
        &["revoke", "--all", "/bin/true"],
    ] {
        assert_eq!(consent(words).0, Some(2), "{words:?}");
    }
}

#[test]
fn an_option_that_there_is_not_is_no_program() {
    let line = CommandLine::new();
    for words in [
        &["learn", "--contract", "reyn", "--", "/bin/true"][..],
        &["allow", "--contract", "reyn", "--", "/bin/true"],
        &["consent", "revoke", "--contract", "reyn", "--", "/bin/true"],
    ] {
        let output = line.run(words);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?} {stderr}");
        assert!(
            stderr.contains("unexpected argument '--contract'"),
            "{stderr}"
        );
    }
    // Words behind the command are its own.
    let allowed = line.run(&["allow", "--json", "--", "/bin/echo", "--contract", "-n"]);
    assert_eq!(one_line(&allowed)["command"], "/bin/echo --contract -n");
}

#[test]
fn a_run_starts_in_the_workspace_under_a_profile_that_starts_there_and_nowhere_else() {
    let line = CommandLine::new();
    let workspace = line.path().join("workspace");
    fs::create_dir(&workspace).unwrap();
    fs::set_permissions(&workspace, fs::Permissions::from_mode(0o755)).unwrap();
    let bound = workspace.to_str().unwrap();
    let starts_in = |options: &[&str]| {
        let words = [
            &["--mirror", "--private", "--workspace", bound],
            options,
            &["--", "/bin/pwd"],
        ];
        let output = run(&line, &words.concat());
        let directory = String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned();
        assert!(output.status.success(), "{output:?}");
        std::path::PathBuf::from(directory)
    };
    let workspace = workspace.canonicalize().unwrap();
    assert_eq!(starts_in(&["--profile", "workspace-ro"]), workspace);
    // The workspace is named there, too, and that is not enough.
    assert_ne!(starts_in(&["--profile", "strict"]), workspace);
    assert_eq!(
        starts_in(&["--profile", "strict", "--working-dir", bound]),
        workspace
    );
    let help = line.run(&["run", "--help"]).stdout;
    let help = String::from_utf8_lossy(&help);
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let default = "[default: the workspace under a profile that starts there, such as workspace-ro, else the scratch directory]";
    assert!(help.contains(default), "{help}");
}

#[tokio::test]
async fn a_run_is_served_privately_where_that_is_said_though_a_daemon_listens() {
    let setup = Setup {
        ask_for_consent: true,
        ..Setup::default()
    };
    let (line, daemon) = (CommandLine::new(), Daemon::with(setup).await);
    let socket = daemon.path().join("sock");
    let at_usual_place = |words: &[&str]| {
        let mut command = line.command(words);
        command.env("HOOKJAIL_ADDR", &socket).output().unwrap()
    };

    // The control: the daemon is asked, and has no consents.
    let by_daemon = at_usual_place(&["run", "--json", "--", "/bin/true"]);
    assert_eq!(one_line(&by_daemon)["error"]["reason"], "CONSENT_REQUIRED");
    assert_eq!(daemon.records(), ["refused"]);

    let private = at_usual_place(&["run", "--json", "--private", "--", "/bin/true"]);
    assert_eq!(private.status.code(), Some(0), "{private:?}");
    assert_eq!(one_line(&private)["servedBy"], "this process alone");
    let dispatched = at_usual_place(&[
        "dispatch",
        "--json",
        "--private",
        "--contract",
        "loom",
        "--point",
        "tool.pre",
        "--hook",
        "tool.pre=exit 0",
    ]);
    assert_eq!(dispatched.status.code(), Some(0), "{dispatched:?}");
    assert_eq!(one_line(&dispatched)["servedBy"], "this process alone");
    assert_eq!(daemon.records(), ["refused"]);
}

#[tokio::test]
async fn who_served_a_run_is_told() {
    let (line, daemon) = (CommandLine::new(), Daemon::start().await);
    let socket = daemon.path().join("sock").display().to_string();

    let by_daemon = run(&line, &["--connect", &socket, "-v", "--", "/bin/true"]);
    let private = run(&line, &["--private", "--verbose", "--", "/bin/true"]);

    let last = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().last().map(str::to_owned)
    };
    let expected = format!("served by   the daemon at {socket}");
    assert_eq!(last(&by_daemon), Some(expected));
    let expected = "served by   this process alone".to_owned();
    assert_eq!(last(&private), Some(expected));

    // Without `--verbose` the same in one line, without the constant lines.
    let brief = run(&line, &["--private", "--", "/bin/true"]);
    let text = String::from_utf8_lossy(&brief.stdout).into_owned();
    let labels: Vec<_> = text
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(
        labels,
        ["outcome", "stdout", "stderr", "verdict", "sandbox"]
    );
    let sandbox = "sandbox     landlock, profile strict, confirmed, served by this process alone (details: -v)";
    assert_eq!(last(&brief).as_deref(), Some(sandbox));
}

#[test]
fn a_directory_that_no_request_can_name_is_named_as_that() {
    let line = CommandLine::new();
    let place = tempfile::tempdir().unwrap();
    let odd = place.path().join(OsStr::from_bytes(b"a\xff"));
    fs::create_dir(&odd).unwrap();
    let words = [
        "run",
        "--private",
        "--profile",
        "workspace-ro",
        "--",
        "/bin/true",
    ];
    let inner = line.command(&words);
    for (script, why) in [
        (
            "exec \"$@\"",
            "the name of the current directory is not UTF-8",
        ),
        (
            "rmdir \"$PWD\"; exec \"$@\"",
            "the current directory was removed",
        ),
    ] {
        let mut command = Command::new("/bin/sh");
        let command = command.args(["-c", script, "sh"]).arg(inner.get_program());
        let command = command.args(inner.get_args()).env("HOME", line.path());
        let output = command.current_dir(&odd).stdin(Stdio::null()).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(why), "{stderr}");
    }
}

#[tokio::test]
async fn a_client_of_a_daemon_reads_no_configuration() {
    let (line, daemon) = (CommandLine::new(), Daemon::start().await);
    let socket = daemon.path().join("sock").display().to_string();
    fs::write(line.path().join("hookjail.toml"), "no = [configuration").unwrap();

    // The control: without a daemon the configuration is read, and its error reported.
    let private = run(&line, &["--private", "--", "/bin/true"]);
    assert_eq!(private.status.code(), Some(125), "{private:?}");
    assert!(String::from_utf8_lossy(&private.stderr).contains("hookjail.toml"));

    let served = run(&line, &["--connect", &socket, "--", "/bin/true"]);
    assert_eq!(served.status.code(), Some(0), "{served:?}");
    let mut guard = line.command(&["run", "--as", "claude-code", "--connect", &socket]);
    let guard = guard.args(["--point", "PreToolUse", "--", "/bin/true"]);
    let guard = guard.current_dir(daemon.workspace()).output().unwrap();
    assert_eq!(guard.status.code(), Some(0), "{guard:?}");
}

#[test]
fn the_hooks_own_output_can_be_had_alone() {
    let line = CommandLine::new();
    let hook = "printf 'a\\0b'; printf c >&2; exit 3";

    let output = run(&line, &["--mirror", "--", "/bin/sh", "-c", hook]);

    let seen = (output.status.code(), &output.stdout[..], &output.stderr[..]);
    assert_eq!(seen, (Some(3), &b"a\0b"[..], &b"c"[..]));
}

#[test]
fn a_daemon_that_cannot_be_reached_is_told_with_what_may_help() {
    for (address, expected) in [
        ("localhost:50051", "`https://HOST:PORT`"),
        ("/nonexistent/hookjail.sock", "`hookjail serve`"),
    ] {
        let output = CommandLine::new().run(&["run", "--connect", address, "--", "/bin/true"]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{stderr}");
        assert!(
            stderr.contains(address) && stderr.contains(expected),
            "{stderr}"
        );
    }
}

#[test]
fn a_wrong_name_is_answered_with_those_that_there_are() {
    let line = CommandLine::new();
    let profiles: &[&str] = &["strict", "workspace-ro"];
    let contracts: &[&str] = &["claude_code", "observe", "reyn"];
    for (words, code, expected) in [
        (&["profile", "show", "no"][..], 2, profiles),
        (&["doctor", "--profile", "no"], 2, profiles),
        (
            &["explain", "--profile", "no", "path", "read", "/"],
            2,
            profiles,
        ),
        (
            &["learn", "--profile", "no", "--", "/bin/true"],
            2,
            profiles,
        ),
        (
            &["allow", "--profile", "no", "--", "/bin/true"],
            2,
            profiles,
        ),
        (
            &["audit", "query", "--end", "no"],
            2,
            &["exited", "timed_out", "refused"],
        ),
        (&["explain", "path", "no", "/"], 2, &["read", "rename"]),
        (&["explain", "syscall", "no"], 2, &["`no`"]),
        (&["schema", "no"], 2, &["audit", "config"]),
        (&["state", "path", "no"], 2, &["hookjail state list"]),
        (&["install", "no"], 2, &["claude-code"]),
        // A path, and no name.
        (&["allow", "/bin/true"], 125, &["hookjail allow -- CMD"]),
        // Here 2 is a hook's own answer.
        (
            &["run", "--profile", "no", "--", "/bin/true"],
            125,
            &["PROFILE_UNKNOWN"],
        ),
        (&["run", "--contract", "no", "/bin/true"], 125, contracts),
        (
            &["dispatch", "--contract", "no", "--point", "no"],
            125,
            contracts,
        ),
        // Without an event a block is all that a runtime understands.
        (
            &["run", "--as", "no", "/bin/true"],
            2,
            &["claude-code", "git"],
        ),
    ] {
        let output = line.run(words);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {stderr}");
        for name in expected {
            assert!(stderr.contains(name), "{words:?}: {stderr}");
        }
    }
}

#[test]
fn a_name_that_is_like_a_known_one_is_answered_with_that() {
    let line = CommandLine::new();
    let point = |point| {
        [
            "run",
            "--dry-run",
            "--contract",
            "claude-code",
            "--point",
            point,
            "--",
            "/bin/true",
        ]
    };
    for (words, meant) in [
        (&point("BeforeTool")[..], "PreToolUse"),
        (
            &[
                "run",
                "--contract",
                "codex",
                "--point",
                "SessionStrt",
                "--",
                "/bin/true",
            ],
            "SessionStart",
        ),
        (
            &["run", "--contract", "claude-cod", "/bin/true"],
            "claude_code",
        ),
        (&["run", "--as", "claude", "/bin/true"], "claude-code"),
        (
            &[
                "run",
                "--contract",
                "reyn",
                "--mode",
                "shel_push",
                "--",
                "/bin/true",
            ],
            "shell_push",
        ),
        (&["run", "--profile", "stict", "--", "/bin/true"], "strict"),
        (&["profile", "show", "stict"], "strict"),
        (&["explain", "syscall", "sokcet"], "socket"),
        (&["explain", "path", "raed", "/"], "read"),
        (&["audit", "query", "--end", "timedout"], "timed_out"),
        (&["log", "--end", "exitd"], "exited"),
        (&["install", "claude-cod"], "claude-code"),
    ] {
        let output = line.run(words);
        assert!(!output.status.success(), "{words:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        let spelled = [
            format!("did you mean `{meant}`?"),
            format!("a similar value exists: '{meant}'"),
        ];
        let is_named = spelled.iter().any(|it| stderr.contains(it.as_str()));
        assert!(is_named, "{words:?}: {stderr}");
    }
    let output = line.run(&point("Nothing:alike"));
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_name_is_spelled_with_hyphens_or_underscores() {
    let line = CommandLine::new();
    for name in [
        "claude-code",
        "claude_code",
        "docker-agent",
        "base-coat",
        "basecoat",
    ] {
        let words = [
            "--dry-run",
            "--contract",
            name,
            "--point",
            "none",
            "--",
            "/bin/true",
        ];
        let output = run(&line, &words);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!stderr.contains("unknown contract"), "{name}: {stderr}");
    }
    for name in [
        "claude-code",
        "claude_code",
        "gemini_cli",
        "base_coat",
        "basecoat",
    ] {
        let output = run(&line, &["--as", name, "--observe", "--", "/bin/true"]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!stderr.contains("one of"), "{name}: {stderr}");
    }
}

#[test]
fn doctor_fits_a_screen_and_has_the_rest_where_it_is_asked_for() {
    let line = CommandLine::new();
    let lines = |words: &[&str]| {
        let output = line.run(words);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };

    let short = lines(&["doctor"]);
    let long = lines(&["doctor", "--verbose"]);

    assert!(short.lines().count() <= 24, "{short}");
    for profile in SHIPPED {
        let mut lines = short.lines();
        let row = lines.find(|line| line.starts_with(profile)).unwrap();
        assert!(row.contains("confirmed"), "{row}");
    }
    assert!(!short.contains("control ok") && long.contains("control ok"));
    // Each remedy is there once, whichever profiles have the gap.
    let mut fixes: Vec<_> = long.lines().filter(|it| it.contains("fix: ")).collect();
    let all = fixes.len();
    fixes.sort_unstable();
    fixes.dedup();
    assert_eq!(fixes.len(), all, "{long}");
}

#[test]
fn what_several_profiles_lack_is_printed_once_with_their_names() {
    let line = CommandLine::new();
    let doctor = |words: &[&str], lacking: &str| {
        let words = [&["doctor"], words].concat();
        let mut command = line.command(&words);
        let output = command.env("HOOKJAIL_WEAKEN", lacking).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), text)
    };
    // The control: where nothing is lacking there is no remark.
    let (code, text) = doctor(&[], "");
    assert!(
        code == Some(0) && !text.contains("BACKEND_UNCONFIRMED"),
        "{text}"
    );

    let (code, text) = doctor(&[], "landlock:ReadFile");

    assert_eq!(code, Some(1), "{text}");
    assert_eq!(
        text.matches("NOT CONFIRMED").count(),
        SHIPPED.len(),
        "{text}"
    );
    let reasons = text.matches("BACKEND_UNCONFIRMED").count();
    assert!((1..SHIPPED.len()).contains(&reasons), "{text}");
    let headings = text.lines().filter(|it| it.ends_with(':'));
    let headings: Vec<_> = headings
        .flat_map(|it| it.trim_end_matches(':').split(", "))
        .collect();
    for profile in SHIPPED {
        let is_named = |name: &&str| [profile, "all profiles"].contains(name);
        assert!(headings.iter().any(is_named), "{profile}: {text}");
    }
    let mut remarks: Vec<_> = text.lines().filter(|it| it.starts_with("  ")).collect();
    let all = remarks.len();
    remarks.sort_unstable();
    remarks.dedup();
    assert_eq!(remarks.len(), all, "{text}");
    // One alone is named, and as JSON each has its own.
    let (_, one) = doctor(&["--profile", "strict"], "landlock:ReadFile");
    assert!(one.contains("\nstrict:\n  BACKEND_UNCONFIRMED: "), "{one}");
    let (_, report) = doctor(&["--json"], "landlock:ReadFile");
    let report: Value = serde_json::from_str(&report).unwrap();
    for profile in report["profiles"].as_array().unwrap() {
        let reason = profile["reason"].as_str().unwrap();
        assert!(reason.starts_with("BACKEND_UNCONFIRMED"), "{profile}");
    }
}

#[test]
fn revoking_what_nobody_allowed_says_where_to_look() {
    let line = CommandLine::new();

    let output = line.run(&["consent", "revoke", "/bin/none"]);

    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("`/bin/none`") && stderr.contains("hookjail consent list"));
}

mod as_root {
    use std::os::unix::fs::chown;

    use super::*;
    use crate::{attempts::as_user, support::needs_root, witness::NOBODY};

    #[test]
    #[ignore = "needs root"]
    fn a_user_is_served_by_ones_own_and_by_roots_configuration() {
        needs_root();
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let config = directory.path().join("hookjail.toml");
        fs::write(&config, "[hooks]\nspawners = 3\n").unwrap();
        for (owner, is_taken) in [(0, true), (NOBODY, true), (NOBODY - 1, false)] {
            chown(&config, Some(owner), None).unwrap();
            let mut show = hookjail(&config, &["config", "show", "--json"]);
            let output = as_user(&mut show, NOBODY).output().unwrap();
            let (stdout, stderr) = (&output.stdout, &output.stderr);
            let texts = [stdout, stderr].map(|text| String::from_utf8_lossy(text).into_owned());
            assert_eq!(output.status.success(), is_taken, "{owner}: {texts:?}");
            let expected = if is_taken {
                "spawners"
            } else {
                "belongs to uid"
            };
            assert!(texts.concat().contains(expected), "{owner}: {texts:?}");
        }
    }
}
