//! `hookjail test` runs the cases of hooks' own test files: confined, on a layer over the workspace.

use std::{fs, os::unix::fs::PermissionsExt, process::Output};

use serde_json::{Value, json};

use crate::{fail_closed::FakeKernel, learn::Home};

const GUARD: &str = r#"#!/bin/sh
case $(cat) in *"rm -rf /"*) echo "no rm of everything" >&2; exit 2 ;; esac
echo seen >> seen.log
rm -f old
"#;

const ONE: &str = "runtimes = [\"claude-code\"]";

const CASES: &str = r#"
[[case]]
name = "rm of everything is refused"
event = { tool_input = { command = "rm -rf / --no-preserve-root" } }
stops = true
exit = 2
stderr = "no rm"
changes = []

[[case]]
name = "others pass and are noted"
event = { tool_input = { command = "ls" } }
stops = false
decision = "none"
exit = 0
changes = ["A seen.log", "D old"]
denials = []
hosts = []
within = "20s"
"#;

/// Returns a home whose project has a guard, and tests of it that begin with these lines.
fn home(head: &str, cases: &str) -> Home {
    let home = Home::new();
    home.write("p/old", "x");
    home.write("p/hooks/guard.sh", GUARD);
    let text = format!("command = \"hooks/guard.sh\"\n{head}\n{cases}");
    home.write("p/hooks/guard.hooktest.toml", &text);
    home
}

fn test(home: &Home, options: &[&str]) -> Output {
    home.hookjail(&[&["test"], options].concat(), "")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_hook_is_tested_for_several_runtimes_and_the_workspace_stays_as_it_was() {
    let home = home(
        "runtimes = [\"claude-code\", \"codex\", \"gemini-cli\"]",
        CASES,
    );

    let tested = test(&home, &[]);

    let text = stdout(&tested);
    assert_eq!(tested.status.code(), Some(0), "{tested:?}");
    assert!(text.ends_with("6 passed, 0 failed\n"), "{text}");
    assert!(text.starts_with(
        "hooks/guard.hooktest.toml\n  ok    rm of everything is refused (claude-code), "
    ));
    assert!(!home.path("p/seen.log").exists() && home.path("p/old").exists());
    let left = fs::read_dir(home.path("tmp")).unwrap().flatten();
    let left: Vec<_> = left.map(|it| it.file_name()).collect();
    let is_layer = |name: &std::ffi::OsString| name.to_string_lossy().contains("layer");
    assert!(!left.iter().any(is_layer), "{left:?}");
}

#[test]
fn a_case_that_is_not_as_expected_is_named_with_what_was_found() {
    let cases = CASES.replace("\"D old\"", "\"M old\"");
    let home = home(ONE, &cases);

    let tested = test(&home, &[]);

    assert_eq!(tested.status.code(), Some(1), "{tested:?}");
    let text = stdout(&tested);
    for part in [
        "  ok    rm of everything is refused (claude-code)",
        "  FAIL  others pass and are noted (claude-code)",
        "changes: expected M old, found none\n",
        "changes: expected none, found D old\n",
        "1 passed, 1 failed\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let tap = stdout(&test(&home, &["--format", "tap"]));
    assert!(tap.starts_with("TAP version 14\n1..2\nok 1 - "), "{tap}");
    assert!(
        tap.contains("\nnot ok 2 - hooks/guard.hooktest.toml: others pass"),
        "{tap}"
    );
    let junit = stdout(&test(&home, &["--format", "junit"]));
    assert!(junit.contains("tests=\"2\" failures=\"1\""), "{junit}");
    let json = home.hookjail(&["--json", "test"], "");
    let lines = stdout(&json);
    let lines: Vec<Value> = lines
        .lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    assert_eq!(
        (&lines[0]["passed"], &lines[1]["passed"]),
        (&Value::Bool(true), &Value::Bool(false))
    );
    assert_eq!(lines[1]["result"]["mismatches"][0]["key"], "changes");
}

#[test]
fn a_hook_that_works_without_confinement_alone_is_shown_by_both_runs() {
    let home = Home::new();
    home.write(".netrc", "machine a");
    home.write(
        "p/read.sh",
        "#!/bin/sh\ncat ~/.netrc >/dev/null 2>&1 || exit 2\n",
    );
    home.write(
        "p/read.hooktest.toml",
        "command = [\"./read.sh\"]\nruntimes = [\"claude-code\"]\n[[case]]\nname = \"reads\"\nexit = 0\ndenials = []\n",
    );

    let tested = test(&home, &["--bare"]);

    assert_eq!(tested.status.code(), Some(1), "{tested:?}");
    let text = stdout(&tested);
    let netrc = home.path(".netrc").display().to_string();
    for part in [
        "  FAIL  reads (claude-code), ",
        "exit: expected 0, found 2\n",
        &format!("denials: expected no such denial, found read {netrc}\n"),
        &format!("refused: read {netrc}\n"),
        "  ok    reads (claude-code, bare), ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_hook_that_fails_is_no_answer_and_may_be_expected() {
    for (expected, code) in [("", 1), ("fails = true\n", 0)] {
        let home = Home::new();
        let text = format!(
            "command = \"sleep 30\"\nruntimes = [\"claude-code\"]\ntimeout = \"2s\"\n[[case]]\nname = \"slow\"\n{expected}"
        );
        home.write("p/slow.hooktest.toml", &text);
        let tested = test(&home, &[]);
        assert_eq!(tested.status.code(), Some(code), "{expected}: {tested:?}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_its_key() {
    let home = Home::new();
    let none = test(&home, &[]);
    assert_eq!(none.status.code(), Some(125), "{none:?}");
    assert!(
        String::from_utf8_lossy(&none.stderr)
            .contains("no file `*.hooktest.toml` exists; name one")
    );
    home.write(
        "p/a.hooktest.toml",
        "command = \"x\"\nruntimes = [\"claude-code\"]\n[[case]]\nname = \"a\"\nexits = 2\n",
    );
    let wrong = test(&home, &[]);
    assert_eq!(wrong.status.code(), Some(125), "{wrong:?}");
    let message = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(
        message.contains("a.hooktest.toml") && message.contains("exits"),
        "{message}"
    );
    home.write(
        "p/a.hooktest.toml",
        "command = \"x\"\nruntimes = [\"cloud-code\"]\n[[case]]\nname = \"a\"\n",
    );
    let unknown = test(&home, &[]);
    let message = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(
        message.contains("unknown runtime `cloud-code`"),
        "{message}"
    );
}

#[test]
fn where_no_layer_can_be_made_nothing_is_written_unless_that_is_accepted() {
    let home = home(
        "runtimes = [\"claude-code\"]\nprofile = \"pipeline\"",
        "[[case]]\nname = \"a\"\nexit = 0\n",
    );
    let kernel = FakeKernel::build();
    let around = kernel.around(&["--errno", "unshare=1"]);

    let tested = home.hookjail_in(&around, &["test"], "");

    let text = stdout(&tested);
    assert_eq!(tested.status.code(), Some(1), "{tested:?}");
    assert!(
        text.contains("a layer over `") && text.contains("accept that with --in-place"),
        "{text}"
    );
    // `pipeline` has no workspace to write to: the control is that the hook runs.
    let tested = home.hookjail_in(&around, &["test", "--in-place"], "");
    let text = stdout(&tested);
    assert!(!text.contains("a layer over"), "{text}");
}

#[test]
fn the_hooks_of_settings_are_tried_with_samples_and_each_has_to_be_refused_nothing() {
    let home = Home::new();
    home.write(".netrc", "machine a");
    home.write("p/guard.sh", GUARD);
    let hook = |line: &str| json!({"type": "command", "command": line});
    let settings = json!({"hooks": {
        "PreToolUse": [{"hooks": [hook("./guard.sh"), hook("cat ~/.netrc; exit 0")]}],
        "Stop": [{"hooks": [hook("echo done >> stopped")]}],
    }});
    home.write("p/.claude/settings.json", &settings.to_string());

    let tested = test(
        &home,
        &["--from", ".claude/settings.json", "--as", "claude-code"],
    );

    let text = stdout(&tested);
    assert_eq!(tested.status.code(), Some(1), "{tested:?}");
    let netrc = home.path(".netrc").display().to_string();
    for part in [
        "  ok    PreToolUse: ./guard.sh (claude-code), ",
        ": 7 events, stops 1\n",
        "  FAIL  PreToolUse: cat ~/.netrc; exit 0 (claude-code), ",
        &format!("denials: expected no denial, found read {netrc}\n"),
        "  ok    Stop: echo done >> stopped (claude-code), ",
        ": 1 event, stops none\n",
        "2 passed, 1 failed\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!home.path("p/seen.log").exists() && !home.path("p/stopped").exists());
    // Confined already, it is tried by its own command.
    let line =
        "hookjail run --as claude-code --profile develop -- /bin/sh -c 'echo done >> stopped'";
    let settings = json!({"hooks": {"Stop": [{"hooks": [hook(line)]}]}});
    home.write("p/.claude/settings.json", &settings.to_string());
    let tested = test(
        &home,
        &[
            "--from",
            ".claude/settings.json",
            "--as",
            "claude-code",
            "--bare",
        ],
    );
    let text = stdout(&tested);
    assert_eq!(tested.status.code(), Some(0), "{text}");
    assert!(
        text.contains("Stop: echo done >> stopped (claude-code)"),
        "{text}"
    );
}

#[test]
fn a_run_of_the_journal_becomes_a_case() {
    let home = home(ONE, CASES);
    home.write("hookjail.toml", "[audit]\ncapture = [\"event\"]\n");
    fs::set_permissions(
        home.path("hookjail.toml"),
        fs::Permissions::from_mode(0o600),
    )
    .unwrap();
    let config = home.path("hookjail.toml").display().to_string();
    let event = json!({"tool_name": "Bash", "tool_input": {"command": "rm -rf /"}, "session_id": "s", "cwd": "/elsewhere"});
    let run = |config: &[&str]| {
        let words = [
            "--json",
            "run",
            "--contract",
            "claude_code",
            "--point",
            "PreToolUse",
            "--profile",
            "develop",
            "--raw",
            "--",
            "hooks/guard.sh",
        ];
        let ran = home.hookjail(&[config, &words].concat(), &event.to_string());
        let reply: Value = serde_json::from_slice(&ran.stdout).unwrap();
        reply["audit"]["runId"].as_str().unwrap().to_owned()
    };
    let id = run(&["--config", &config]);

    let recorded = home.hookjail(&["test", "record", &id], "");

    assert_eq!(recorded.status.code(), Some(0), "{recorded:?}");
    let text = stdout(&recorded);
    assert!(text.contains("decision = \"deny\"\nexit = 2\n"), "{text}");
    assert!(
        text.contains("command = \"rm -rf /\"") && !text.contains("/elsewhere"),
        "{text}"
    );
    home.write("p/hooks/guard.hooktest.toml", &text);
    let tested = test(&home, &[]);
    assert_eq!(tested.status.code(), Some(0), "{tested:?}");
    // Without its event there is no case.
    let id = run(&[]);
    let recorded = home.hookjail(&["test", "record", &id], "");
    assert_eq!(recorded.status.code(), Some(125), "{recorded:?}");
    let message = String::from_utf8_lossy(&recorded.stderr).into_owned();
    assert!(
        message.contains("set `audit.capture = [\"event\"]`"),
        "{message}"
    );
}

/// The files come with a project: nothing in them reaches beyond it.
#[test]
fn a_file_of_a_project_names_no_wider_profile_and_no_other_place() {
    for (line, part) in [
        (
            "profile = \"network\"",
            "which only the operator gives; give it by --profile=network",
        ),
        (
            "workspace = \"../..\"",
            "the file lies outside of the project",
        ),
        (
            "workspace = \"/tmp\"",
            "the file lies outside of the project",
        ),
    ] {
        let home = home(&format!("{ONE}\n{line}"), CASES);
        let tested = test(&home, &[]);
        assert_eq!(tested.status.code(), Some(125), "{line}: {tested:?}");
        let message = String::from_utf8_lossy(&tested.stderr).into_owned();
        assert!(message.contains(part), "{line}: {message}");
    }
    let event = "[[case]]\nname = \"a\"\nevent_file = \"../../secret.json\"\n";
    let outside = home(ONE, event);
    outside.write("secret.json", "{}");
    let tested = test(&outside, &[]);
    assert!(
        String::from_utf8_lossy(&tested.stderr).contains("the file lies outside of the workspace"),
        "{tested:?}"
    );
    // Named by the person who runs it, the profile counts.
    let other_home = Home::new();
    let text = format!(
        "command = \"true\"\n{ONE}\nprofile = \"network\"\n[[case]]\nname = \"a\"\nexit = 0\n"
    );
    other_home.write("p/a.hooktest.toml", &text);
    let tested = test(&other_home, &["--profile", "network"]);
    assert_eq!(tested.status.code(), Some(0), "{tested:?}");
}

#[test]
fn the_example_of_the_page_is_as_it_says() {
    let page = include_str!("../../docs/testing.md");
    let (_, example) = page.split_once("```toml\n").unwrap();
    let (example, _) = example.split_once("```\n").unwrap();
    let home = Home::new();
    home.write("p/.claude/hooks/guard.sh", GUARD);
    home.write("p/.claude/hooks/guard.hooktest.toml", example);

    let tested = test(&home, &[]);

    let text = stdout(&tested);
    assert!(text.ends_with("6 passed, 0 failed\n"), "{tested:?}");
    let shown = "  ok    rm of everything is refused (claude-code), ";
    assert!(text.contains(shown) && page.contains(shown), "{text}");
}

/// A hook after a tool call, which some runtimes take for a no, and others do not.
const FORMATS: &str =
    "#!/bin/sh\ncat >/dev/null\necho '{\"decision\":\"block\",\"reason\":\"format it first\"}'\n";

const BY_RUNTIME: &str = r#"
# The same hook, and what each runtime makes of it.
command: hooks/format.sh
runtimes: [claude-code, gemini-cli, cursor]
point: {claude-code: PostToolUse, gemini-cli: AfterTool, cursor: postToolUse}
case:
  - name: asks for a format
    decision: block
    stops: true
    for:
      cursor: {decision: none, stops: false}
  - name: for one alone
    runtimes: [gemini-cli]
    reason: format it
"#;

#[test]
fn the_same_hook_has_expectations_and_points_for_each_runtime() {
    let home = Home::new();
    home.write("p/hooks/format.sh", FORMATS);
    home.write("p/hooks/format.hooktest.yaml", BY_RUNTIME);

    let tested = test(&home, &[]);

    let text = stdout(&tested);
    assert_eq!(tested.status.code(), Some(0), "{tested:?}");
    for part in [
        "  ok    asks for a format (cursor), ",
        "  ok    for one alone (gemini-cli), ",
        "\n4 passed, 0 failed\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The control: without words of its own the runtime is another.
    let same = BY_RUNTIME.replace("cursor: {decision: none, stops: false}", "{}");
    home.write("p/hooks/format.hooktest.yaml", &same);
    let tested = test(&home, &[]);
    let text = stdout(&tested);
    assert_eq!(tested.status.code(), Some(1), "{text}");
    assert!(
        text.contains("  FAIL  asks for a format (cursor), ")
            && text.contains("3 passed, 1 failed"),
        "{text}"
    );
    // A runtime that the file does not have is a wrong file.
    let other = BY_RUNTIME.replace("cursor: {decision", "codex: {decision");
    home.write("p/hooks/format.hooktest.yaml", &other);
    let tested = test(&home, &[]);
    assert_eq!(tested.status.code(), Some(125), "{tested:?}");
    let message = String::from_utf8_lossy(&tested.stderr).into_owned();
    assert!(
        message.contains("`for` of `asks for a format` names `codex`"),
        "{message}"
    );
}

#[test]
fn a_file_that_is_a_link_or_a_pipe_is_passed_over_unless_it_is_named() {
    let home = home(ONE, CASES);
    home.write("elsewhere/a.hooktest.toml", "secret = 1\n");
    let link = home.path("p/hooks/a.hooktest.toml");
    std::os::unix::fs::symlink(home.path("elsewhere/a.hooktest.toml"), &link).unwrap();
    let pipe = home.path("p/hooks/pipe.hooktest.toml");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();

    let tested = test(&home, &[]);

    let text = stdout(&tested);
    assert!(text.ends_with("2 passed, 0 failed\n"), "{tested:?}");
    let named = test(&home, &["hooks/a.hooktest.toml"]);
    assert_eq!(named.status.code(), Some(125), "{named:?}");
}

#[test]
fn the_schema_of_files_of_tests_is_printed() {
    let home = Home::new();
    let printed = home.hookjail(&["schema", "tests"], "");
    let schema: Value = serde_json::from_slice(&printed.stdout).unwrap();
    let kept = include_str!("../../schemas/hooktest.schema.json");
    assert_eq!(schema, serde_json::from_str::<Value>(kept).unwrap());
}

/// Settings come with a project: their lines choose no wide profile by themselves.
#[test]
fn a_confined_line_of_settings_is_tried_under_its_profile_where_that_is_no_wider_or_given() {
    let home = Home::new();
    let from = |profile: &str, more: &[&str]| {
        let line = format!(
            "hookjail run --as claude-code --profile {profile} -- /bin/sh -c 'echo done >> $CLAUDE_PROJECT_DIR/stopped'"
        );
        let hook = json!({"type": "command", "command": line});
        let settings = json!({"hooks": {"Stop": [{"hooks": [hook]}]}});
        home.write("p/.claude/settings.json", &settings.to_string());
        let words = ["--from", ".claude/settings.json", "--as", "claude-code"];
        let tested = test(&home, &[&words, more].concat());
        (tested.status.code(), stdout(&tested))
    };
    let shown = "  ok    Stop: echo done >> $CLAUDE_PROJECT_DIR/stopped (claude-code), ";

    let (code, text) = from("develop", &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains(shown) && !text.contains("tried under"),
        "{text}"
    );
    // Every caller may use it, and it writes to no workspace.
    let (code, text) = from("strict", &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("denials: expected no denial, found create "),
        "{text}"
    );
    let (code, text) = from("network", &[]);
    assert_eq!(code, Some(0), "{text}");
    let remark = "; tried under develop: its line names profile `network`, which only the operator gives; give it by --profile=network\n";
    assert!(text.contains(shown) && text.contains(remark), "{text}");
    // The control: given, it counts, and writes to no workspace either.
    let (code, text) = from("network", &["--profile", "network"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(!text.contains("tried under"), "{text}");
    let (code, text) = from("nothing", &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("profile `nothing`, which does not exist"),
        "{text}"
    );
}

#[test]
fn without_a_repository_the_project_is_that_of_the_settings_or_the_current_directory() {
    let home = crate::install::Home::new();
    let text = "command = \".claude/hooks/note.sh\"\nruntimes = [\"claude-code\"]\n[[case]]\nname = \"notes\"\nchanges = [\"A seen.log\"]\n";
    for (project, settings) in [("q", true), ("r", false)] {
        home.write(&format!("{project}/.claude/hooks/note.hooktest.toml"), text);
        home.script(
            &format!("{project}/.claude/hooks/note.sh"),
            "#!/bin/sh\necho seen >seen.log\n",
        );
        if settings {
            home.write(&format!("{project}/.claude/settings.json"), "{}");
        }
        home.give_to_user();
        let directory = match settings {
            true => home.path("q/.claude/hooks"),
            false => home.path("r"),
        };
        let tested = home.hookjail_in(&directory, &["test"]);
        assert_eq!(tested.status.code(), Some(0), "{project}: {tested:?}");
    }
}

#[test]
fn temporary_files_in_the_workspace_are_no_part_of_a_layer() {
    let home = home(ONE, CASES);
    fs::create_dir(home.path("p/tmp")).unwrap();
    let temporary = format!("TMPDIR={}", home.path("p/tmp").display());
    let around = ["/usr/bin/env".to_owned(), temporary];

    let tested = home.hookjail_in(&around, &["test"], "");

    assert_eq!(tested.status.code(), Some(0), "{tested:?}");
    let left = fs::read_dir(home.path("p/tmp")).unwrap().flatten();
    let left: Vec<_> = left.map(|it| it.file_name()).collect();
    assert!(
        !left
            .iter()
            .any(|name| name.to_string_lossy().contains("layer")),
        "{left:?}"
    );
}

#[test]
fn a_line_that_is_one_command_runs_as_install_has_it_run() {
    let home = home(
        "runtimes = [\"claude-code\"]\nprofile = \"pipeline\"",
        "[[case]]\nname = \"passes\"\nevent = { tool_input = { command = \"ls\" } }\nexit = 0\n",
    );
    // Under this profile it starts in no workspace, where a relative path would lead nowhere.
    home.write(
        "p/hooks/guard.sh",
        "#!/bin/sh\ntest \"$PWD\" != \"$CLAUDE_PROJECT_DIR\"\n",
    );

    let tested = test(&home, &[]);

    assert_eq!(tested.status.code(), Some(0), "{tested:?}");
}
