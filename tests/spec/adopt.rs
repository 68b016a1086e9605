//! `hookjail run --as RUNTIME` stands in a hook's place: the runtime gets the hook's own bytes and exit code, and its own no
//! wherever hookjail has no such end to give.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use hookjail::{
    contract::{Decision, End, EndKind, Mode},
    request::OnFailure,
};

use crate::{support::Daemon, witness::until};

/// A runtime, a payload of its gate, and a hook as its users write them.
struct Case {
    runtime: &'static str,
    mode: Mode,
    point: &'static str,
    /// Lets the hook pass.
    harmless: &'static str,
    /// Makes the hook say no.
    harmful: &'static str,
    hook: &'static str,
}

const CASES: [Case; 9] = [
    Case {
        runtime: "claude-code",
        mode: Mode::ClaudeCode,
        point: "PreToolUse",
        harmless: r#"{"session_id":"s","transcript_path":"/t","cwd":"/","permission_mode":"default","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}"#,
        harmful: r#"{"session_id":"s","transcript_path":"/t","cwd":"/","permission_mode":"default","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"rm -rf /"}}"#,
        hook: "#!/bin/bash\ncommand=$(jq -r .tool_input.command)\nif grep -q 'rm -rf' <<<\"$command\"; then\n  echo \"Blocked: $command\" >&2\n  exit 2\nfi\nexit 0\n",
    },
    Case {
        runtime: "codex",
        mode: Mode::Codex,
        point: "PreToolUse",
        harmless: r#"{"session_id":"s","turn_id":"t","transcript_path":null,"cwd":"/","hook_event_name":"PreToolUse","model":"m","permission_mode":"default","tool_name":"Bash","tool_input":{"command":"ls"},"tool_use_id":"u"}"#,
        harmful: r#"{"session_id":"s","turn_id":"t","transcript_path":null,"cwd":"/","hook_event_name":"PreToolUse","model":"m","permission_mode":"default","tool_name":"Bash","tool_input":{"command":"rm -rf /"},"tool_use_id":"u"}"#,
        hook: "#!/usr/bin/env python3\nimport json, sys\nevent = json.load(sys.stdin)\nif 'rm -rf' in event['tool_input']['command']:\n    print(json.dumps({'hookSpecificOutput': {'hookEventName': 'PreToolUse', 'permissionDecision': 'deny', 'permissionDecisionReason': 'no'}}))\n",
    },
    Case {
        runtime: "gemini-cli",
        mode: Mode::GeminiCli,
        point: "BeforeTool",
        harmless: r#"{"session_id":"s","transcript_path":"/t","cwd":"/","hook_event_name":"BeforeTool","timestamp":"2026-01-01T00:00:00Z","tool_name":"run_shell_command","tool_input":{"command":"ls"}}"#,
        harmful: r#"{"session_id":"s","transcript_path":"/t","cwd":"/","hook_event_name":"BeforeTool","timestamp":"2026-01-01T00:00:00Z","tool_name":"run_shell_command","tool_input":{"command":"rm -rf /"}}"#,
        hook: "#!/bin/sh\ninput=$(cat)\ncase $input in\n*'rm -rf'*) echo '{\"decision\": \"deny\", \"reason\": \"no rm\"}' ;;\n*) echo '{\"decision\": \"allow\"}' ;;\nesac\n",
    },
    Case {
        runtime: "cursor",
        mode: Mode::Cursor,
        point: "beforeShellExecution",
        harmless: r#"{"conversation_id":"c","generation_id":"g","hook_event_name":"beforeShellExecution","cursor_version":"2","workspace_roots":["/"],"command":"ls","cwd":"/"}"#,
        harmful: r#"{"conversation_id":"c","generation_id":"g","hook_event_name":"beforeShellExecution","cursor_version":"2","workspace_roots":["/"],"command":"rm -rf /","cwd":"/"}"#,
        hook: "#!/bin/bash\nif jq -e '.command | contains(\"rm -rf\")' >/dev/null; then\n  echo '{\"permission\": \"deny\", \"user_message\": \"no\", \"agent_message\": \"no\"}'\nelse\n  echo '{\"permission\": \"allow\"}'\nfi\n",
    },
    Case {
        runtime: "copilot",
        mode: Mode::Copilot,
        point: "preToolUse",
        harmless: r#"{"sessionId":"s","timestamp":1700000000000,"cwd":"/","toolName":"bash","toolArgs":"{\"command\":\"ls\"}"}"#,
        harmful: r#"{"sessionId":"s","timestamp":1700000000000,"cwd":"/","toolName":"bash","toolArgs":"{\"command\":\"rm -rf /\"}"}"#,
        hook: "#!/bin/bash\nargs=$(jq -r .toolArgs)\n[[ $args == *'rm -rf'* ]] && echo '{\"permissionDecision\":\"deny\",\"permissionDecisionReason\":\"no\"}'\nexit 0\n",
    },
    Case {
        runtime: "docker-agent",
        mode: Mode::DockerAgent,
        point: "pre_tool_use",
        harmless: r#"{"session_id":"s","cwd":"/","hook_event_name":"pre_tool_use","tool_name":"shell","tool_input":{"cmd":"ls"}}"#,
        harmful: r#"{"session_id":"s","cwd":"/","hook_event_name":"pre_tool_use","tool_name":"shell","tool_input":{"cmd":"rm -rf /"}}"#,
        hook: "#!/bin/sh\nif grep -q 'rm -rf'; then echo 'dangerous command' >&2; exit 2; fi\necho '{\"hook_specific_output\":{\"permission_decision\":\"allow\"}}'\n",
    },
    Case {
        runtime: "loom",
        mode: Mode::Loom,
        point: "tool.pre",
        harmless: r#"{"event":"tool.pre","turnIndex":1,"toolName":"shell","toolInput":{"cmd":"ls"}}"#,
        harmful: r#"{"event":"tool.pre","turnIndex":1,"toolName":"shell","toolInput":{"cmd":"rm -rf /"}}"#,
        hook: "#!/bin/sh\ngrep -q 'rm -rf' && { echo 'no rm here' >&2; exit 1; }\nprintf 'looked at it'\n",
    },
    Case {
        runtime: "base-coat",
        mode: Mode::Basecoat,
        point: "PreToolUse",
        harmless: r#"{"hook":"PreToolUse","sessionId":"s","tool":{"name":"shell","input":"ls"}}"#,
        harmful: r#"{"hook":"PreToolUse","sessionId":"s","tool":{"name":"shell","input":"rm -rf /"}}"#,
        hook: "#!/usr/bin/env python3\nimport json, sys\nevent = json.load(sys.stdin)\nif 'rm -rf' in event['tool']['input']:\n    print(json.dumps({'action': 'block', 'reason': 'no rm'}))\n",
    },
    Case {
        runtime: "git",
        mode: Mode::Observe,
        point: "",
        harmless: "refs/heads/main 1 refs/heads/main 0\n",
        harmful: "refs/heads/main 1 refs/heads/main rm -rf\n",
        hook: "#!/bin/sh\nwhile read -r line; do\n  case $line in *'rm -rf'*) echo 'pushed nothing' >&2; exit 1 ;; esac\ndone\nexit 0\n",
    },
];

/// Puts a hook where the daemon's workspaces are.
fn written(daemon: &Daemon, name: &str, script: &str) -> PathBuf {
    let path = daemon.workspace().join(name);
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test is the runtime: it starts its hook, or hookjail in its place"
)]
fn started(directory: &Path, words: &[&str], payload: &str) -> Child {
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .env_remove("HOOKJAIL_ADDR");
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A hook need not read what it is given.
    stdin.write_all(payload.as_bytes()).ok();
    child
}

fn ended(directory: &Path, words: &[&str], payload: &str) -> Output {
    started(directory, words, payload)
        .wait_with_output()
        .unwrap()
}

fn told(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Returns what the runtime makes of an end.
fn read(case: &Case, output: &Output) -> Decision {
    let code = output.status.code().unwrap();
    if case.runtime == "git" {
        return if code == 0 {
            Decision::None
        } else {
            Decision::Block
        };
    }
    let end = End {
        kind: EndKind::Exited(code),
        point: case.point,
        stderr: &output.stderr,
        stdout: &output.stdout,
        ..End::default()
    };
    case.mode.judge(&end, OnFailure::Contract).decision
}

fn in_place<'a>(
    runtime: &'a str,
    socket: &'a str,
    more: &[&'a str],
    hook: &'a str,
) -> Vec<&'a str> {
    let program = env!("CARGO_BIN_EXE_hookjail");
    let mut words = vec![program, "run", "--as", runtime, "--connect", socket];
    words.extend(more);
    words.extend(["--", hook]);
    words
}

#[tokio::test]
async fn a_hook_ends_as_it_does_without_hookjail() {
    let daemon = Daemon::start().await;
    let socket = daemon.path().join("sock").display().to_string();
    let here = daemon.workspace();
    for case in &CASES {
        let hook = written(&daemon, case.runtime, case.hook);
        let hook = hook.to_str().unwrap();
        for (payload, stops) in [(case.harmless, false), (case.harmful, true)] {
            let alone = ended(&here, &[hook], payload);
            assert_eq!(
                read(case, &alone).stops(),
                stops,
                "{}: {alone:?}",
                case.runtime
            );
            let runtimes = [case.runtime, "auto"];
            // git's payload is no JSON, and tells nothing.
            let known = if case.runtime == "git" { 1 } else { 2 };
            for runtime in &runtimes[..known] {
                let words = in_place(runtime, &socket, &[], hook);
                let inside = ended(&here, &words, payload);
                assert_eq!(told(&inside), told(&alone), "{}", case.runtime);
            }
        }
    }
}

#[tokio::test]
async fn what_hookjail_cannot_run_is_the_runtimes_own_no_at_a_gate_and_nothing_elsewhere() {
    let daemon = Daemon::start().await;
    let socket = daemon.path().join("sock").display().to_string();
    let missing = daemon.path().join("nobody").display().to_string();
    let here = daemon.workspace();
    let slow = written(&daemon, "slow", "#!/bin/sh\nexec sleep 60\n");
    let slow = slow.to_str().unwrap();
    let begun = Instant::now();
    for case in &CASES {
        let short = ["--timeout", "300ms"];
        for (socket, hook, more, why) in [
            (&missing, slow, &[][..], "cannot reach the daemon"),
            (&socket, slow, &short[..], "timed out"),
            (&socket, "no-such-hook", &[][..], "no-such-hook"),
        ] {
            let words = in_place(case.runtime, socket, more, hook);
            let output = ended(&here, &words, case.harmless);
            assert!(
                read(case, &output).stops(),
                "{} {why}: {output:?}",
                case.runtime
            );
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(text.contains(why), "{} {why}: {text}", case.runtime);

            let more = [more, &["--observe"]].concat();
            let words = in_place(case.runtime, socket, &more, hook);
            let output = ended(&here, &words, case.harmless);
            assert!(
                !read(case, &output).stops(),
                "{} {why}: {output:?}",
                case.runtime
            );
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn a_daemon_that_dies_in_the_middle_is_a_no() {
    for case in &CASES {
        let daemon = Daemon::start().await;
        let socket = daemon.path().join("sock").display().to_string();
        let here = daemon.workspace();
        let hook = written(&daemon, "slow", "#!/bin/sh\nexec sleep 60\n");
        let words = in_place(case.runtime, &socket, &[], hook.to_str().unwrap());
        let child = started(&here, &words, case.harmless);
        // The hook is running once its start is written down.
        until("the start record", || daemon.records() == ["started"]).await;
        let directory = daemon.kill();
        let output = child.wait_with_output().unwrap();
        assert!(read(case, &output).stops(), "{}: {output:?}", case.runtime);
        drop(directory);
    }
}

#[tokio::test]
async fn a_guard_that_breaks_is_a_no_where_that_is_asked_for() {
    let daemon = Daemon::start().await;
    let socket = daemon.path().join("sock").display().to_string();
    let here = daemon.workspace();
    let broken = written(&daemon, "broken", "#!/bin/sh\necho oops >&2\nexit 1\n");
    let broken = broken.to_str().unwrap();
    for case in CASES.iter().filter(|case| case.runtime != "git") {
        let plain = ended(
            &here,
            &in_place(case.runtime, &socket, &[], broken),
            case.harmless,
        );
        assert_eq!(told(&plain), (Some(1), String::new(), "oops\n".to_owned()));
        let closed = in_place(case.runtime, &socket, &["--fail-closed"], broken);
        let closed = ended(&here, &closed, case.harmless);
        assert!(read(case, &closed).stops(), "{}: {closed:?}", case.runtime);
    }
}

#[tokio::test]
async fn a_payload_of_nobody_is_a_no() {
    let daemon = Daemon::start().await;
    let socket = daemon.path().join("sock").display().to_string();
    let here = daemon.workspace();
    for payload in ["", "{}", "nonsense"] {
        let output = ended(&here, &in_place("auto", &socket, &[], "/bin/true"), payload);
        assert_eq!(output.status.code(), Some(2));
        let unknown = ended(
            &here,
            &in_place("emacs", &socket, &[], "/bin/true"),
            payload,
        );
        assert_eq!(unknown.status.code(), Some(2));
    }
}

#[tokio::test]
async fn hooks_that_decide_nothing_are_mirrored_too() {
    let daemon = Daemon::start().await;
    let socket = daemon.path().join("sock").display().to_string();
    let missing = daemon.path().join("nobody").display().to_string();
    let here = daemon.workspace();
    for (runtime, payload, script) in [
        (
            "reyn",
            r#"{"point":"turn_end","agent_name":"a","chain_id":null,"user_text":"t"}"#,
            "#!/bin/sh\nread -r event\necho '{\"message\": \"m\", \"wake\": true, \"push_when\": true}'\n",
        ),
        (
            "infer",
            r#"{"hook":"post_session","session_id":"s","turn":3}"#,
            "#!/bin/bash\njq -c . | cat\necho told >&2\nexit 7\n",
        ),
    ] {
        let hook = written(&daemon, runtime, script);
        let hook = hook.to_str().unwrap();
        let alone = ended(&here, &[hook], payload);
        for name in [runtime, "auto"] {
            let inside = ended(&here, &in_place(name, &socket, &[], hook), payload);
            assert_eq!(told(&inside), told(&alone), "{runtime}");
        }
        let failed = ended(&here, &in_place(runtime, &missing, &[], hook), payload);
        assert_eq!(failed.status.code(), Some(125));
        assert_eq!(failed.stdout, b"");
    }
}
