//! `hookjail run --as RUNTIME` stands in a hook's place: the runtime gets the hook's own bytes and exit code, and the denial of
//! that runtime wherever the hook has no such end.

use std::{
    fs,
    io::{ErrorKind, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Output, Stdio},
    sync::LazyLock,
    thread,
    time::{Duration, Instant},
};

use hookjail::{
    contract::{Decision, End, EndKind, Mode, Stop},
    model::OnFailure,
    pb::{self, consent_service_client::ConsentServiceClient},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    support::{Daemon, Setup, thin},
    witness::{CommandLine, SOON, a_minute, install, processes_that, until},
};

/// A runtime, a payload of its gate, and a hook as its users write them.
pub(crate) struct Case {
    pub(crate) runtime: &'static str,
    mode: Mode,
    pub(crate) point: &'static str,
    /// Lets the hook pass.
    pub(crate) harmless: &'static str,
    /// Payload that the hook refuses.
    pub(crate) harmful: &'static str,
    pub(crate) hook: &'static str,
}

pub(crate) const CASES: [Case; 10] = [
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
        runtime: "qwen-code",
        mode: Mode::QwenCode,
        point: "PreToolUse",
        harmless: r#"{"session_id":"s","transcript_path":"/t","cwd":"/","hook_event_name":"PreToolUse","timestamp":"2026-01-01T00:00:00Z","permission_mode":"default","tool_name":"run_shell_command","tool_input":{"command":"ls"}}"#,
        harmful: r#"{"session_id":"s","transcript_path":"/t","cwd":"/","hook_event_name":"PreToolUse","timestamp":"2026-01-01T00:00:00Z","permission_mode":"default","tool_name":"run_shell_command","tool_input":{"command":"rm -rf /"}}"#,
        hook: "#!/bin/sh\ninput=$(cat)\ncase $input in\n*'rm -rf'*) echo '{\"decision\": \"deny\", \"reason\": \"no rm\"}' ;;\n*) echo '{\"decision\": \"allow\", \"reason\": \"ok\"}' ;;\nesac\n",
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
pub(crate) fn written(daemon: &Daemon, name: &str, script: &str) -> PathBuf {
    let path = daemon.workspace().join(name);
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test is the runtime, which starts its hook, or hookjail in its place"
)]
pub(crate) fn held(directory: &Path, words: &[&str]) -> Child {
    let mut command = crate::support::command(words[0]);
    command
        .args(&words[1..])
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    loop {
        match command.spawn() {
            // A process that another test has just forked still has the script open, which this process wrote.
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => thread::yield_now(),
            child => return child.unwrap(),
        }
    }
}

fn started(directory: &Path, words: &[&str], payload: &str) -> Child {
    let mut child = held(directory, words);
    let mut stdin = child.stdin.take().unwrap();
    // A hook need not read what it is given.
    stdin.write_all(payload.as_bytes()).ok();
    child
}

pub(crate) fn ended(directory: &Path, words: &[&str], payload: &str) -> Output {
    started(directory, words, payload)
        .wait_with_output()
        .unwrap()
}

pub(crate) fn outcome_of(output: &Output) -> (Option<i32>, String, String) {
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

#[track_caller]
pub(crate) fn assert_is_no(case: &Case, output: &Output) {
    assert!(read(case, output).stops(), "{}: {output:?}", case.runtime);
}

/// Returns a daemon's socket, and where hooks of its workspace lie.
pub(crate) fn places(daemon: &Daemon) -> (String, PathBuf) {
    let socket = daemon.path().join("sock");
    (socket.display().to_string(), daemon.workspace())
}

/// Returns the words by which a runtime's settings have a hook confined.
pub(crate) fn in_place<'a>(
    runtime: &'a str,
    socket: &'a str,
    more: &[&'a str],
    hook: &'a str,
) -> Vec<&'a str> {
    static PROGRAM: LazyLock<String> = LazyLock::new(|| thin().display().to_string());
    let mut words = vec![&**PROGRAM, "--as", runtime, "--connect", socket];
    words.extend(more);
    words.extend(["--", hook]);
    words
}

#[tokio::test]
async fn a_hook_ends_as_it_does_without_hookjail() {
    let daemon = Daemon::start().await;
    let (socket, workspace) = places(&daemon);
    for case in &CASES {
        let hook = written(&daemon, case.runtime, case.hook);
        let hook = hook.to_str().unwrap();
        for (payload, stops) in [(case.harmless, false), (case.harmful, true)] {
            let alone = ended(&workspace, &[hook], payload);
            assert_eq!(
                read(case, &alone).stops(),
                stops,
                "{}: {alone:?}",
                case.runtime
            );
            let runtimes = [case.runtime, "auto"];
            // git's payload is no JSON, and identifies no runtime.
            let known = if case.runtime == "git" { 1 } else { 2 };
            for runtime in &runtimes[..known] {
                let words = in_place(runtime, &socket, &[], hook);
                let inside = ended(&workspace, &words, payload);
                assert_eq!(outcome_of(&inside), outcome_of(&alone), "{}", case.runtime);
            }
        }
    }
}

#[tokio::test]
async fn what_hookjail_cannot_run_is_the_runtimes_own_no_at_a_gate_and_nothing_elsewhere() {
    let daemon = Daemon::start().await;
    let socket = daemon.path().join("sock").display().to_string();
    let missing = daemon.path().join("nobody").display().to_string();
    let workspace = daemon.workspace();
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
            let output = ended(&workspace, &words, case.harmless);
            assert!(
                read(case, &output).stops(),
                "{} {why}: {output:?}",
                case.runtime
            );
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(text.contains(why), "{} {why}: {text}", case.runtime);

            let more = [more, &["--observe"]].concat();
            let words = in_place(case.runtime, socket, &more, hook);
            let output = ended(&workspace, &words, case.harmless);
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
        let (socket, workspace) = places(&daemon);
        let hook = written(&daemon, "slow", "#!/bin/sh\nexec sleep 60\n");
        let words = in_place(case.runtime, &socket, &[], hook.to_str().unwrap());
        let child = started(&workspace, &words, case.harmless);
        // The hook is running once its start is written down.
        until("the start record", || daemon.records() == ["started"]).await;
        let directory = daemon.kill();
        let output = child.wait_with_output().unwrap();
        assert_is_no(case, &output);
        drop(directory);
    }
}

/// Whether hooks of the runtime's decide about a tool call there, as its contract has it.
fn is_of_a_call(case: &Case) -> bool {
    case.mode.stop_at(case.point) == Ok(Stop::Call)
}

#[tokio::test]
async fn a_guard_that_breaks_is_a_no_before_a_tool_call() {
    let daemon = Daemon::start().await;
    let (socket, workspace) = places(&daemon);
    let broken = written(&daemon, "broken", "#!/bin/sh\necho oops >&2\nexit 1\n");
    let broken = broken.to_str().unwrap();
    let as_it_is = (Some(1), String::new(), "oops\n".to_owned());
    for case in CASES.iter().filter(|case| case.runtime != "git") {
        let ended = |more: &[&str]| {
            let words = in_place(case.runtime, &socket, more, broken);
            ended(&workspace, &words, case.harmless)
        };
        let plain = ended(&[]);
        if is_of_a_call(case) {
            assert_is_no(case, &plain);
        } else {
            assert_eq!(outcome_of(&plain), as_it_is, "{}", case.runtime);
        }
        let closed = ended(&["--fail-closed"]);
        assert_is_no(case, &closed);
        let mirrored = ended(&["--mirror-failures"]);
        assert_eq!(outcome_of(&mirrored), as_it_is, "{}", case.runtime);
    }
}

#[tokio::test]
async fn a_guard_that_confinement_breaks_is_a_no_in_every_language() {
    let daemon = Daemon::start().await;
    let (socket, workspace) = places(&daemon);
    let rules = daemon.outside("rules");
    fs::write(&rules, "rm -rf\n").unwrap();
    // Few machines have catalogues, so the guard prints the message of its language itself, in the words of the catalogue.
    let guard = format!(
        "#!/bin/sh\ngrep -q -f {0} 2>/dev/null\n\
         case $? in 0) echo no >&2; exit 2 ;; 1) exit 0 ;; esac\n\
         case ${{LC_ALL:-${{LC_MESSAGES:-$LANG}}}} in\n\
         de*) echo 'grep: {0}: Keine Berechtigung' >&2 ;;\n\
         *) echo 'grep: {0}: Permission denied' >&2 ;;\n\
         esac\nexit 0\n",
        rules.display()
    );
    let guard = written(&daemon, "guard", &guard);
    let guard = guard.to_str().unwrap();
    for variable in ["LC_ALL", "LC_MESSAGES", "LANG"] {
        let german = format!("{variable}=de_DE.UTF-8");
        let env = ["env", "-u", "LC_ALL", "-u", "LC_MESSAGES", &german];
        for case in CASES.iter().filter(|case| is_of_a_call(case)) {
            let bare = ended(&workspace, &[&env[..], &[guard]].concat(), case.harmful);
            assert_is_no(case, &bare);
            let words = in_place(case.runtime, &socket, &[], guard);
            let output = ended(&workspace, &[&env[..], &words].concat(), case.harmful);
            assert!(
                read(case, &output).stops(),
                "{} {german}: {output:?}",
                case.runtime
            );
        }
    }
}

#[tokio::test]
async fn loom_is_told_no_by_a_guard_that_breaks_after_an_object_that_lets_the_call_pass() {
    let daemon = Daemon::start().await;
    let (socket, workspace) = places(&daemon);
    let case = CASES.iter().find(|case| case.runtime == "loom").unwrap();
    let script = "#!/bin/sh\necho '{\"continue\": true}'\nexit $(grep -c 'rm -rf')\n";
    let hook = written(&daemon, "crash", script);
    let hook = hook.to_str().unwrap();
    let words = in_place(case.runtime, &socket, &[], hook);
    let passes = (Some(0), "{\"continue\": true}\n".to_owned(), String::new());
    assert_eq!(
        outcome_of(&ended(&workspace, &words, case.harmless)),
        passes
    );
    // Loom itself reads only the object here.
    let (code, stdout, _) = outcome_of(&ended(&workspace, &[hook], case.harmful));
    assert_eq!((code, stdout), (Some(1), passes.1));
    let (code, stdout, _) = outcome_of(&ended(&workspace, &words, case.harmful));
    assert_eq!((code, stdout), (Some(2), String::new()));
}

#[tokio::test]
async fn a_guard_that_confinement_breaks_is_a_no() {
    let daemon = Daemon::start().await;
    let (socket, workspace) = places(&daemon);
    // The rules lie where no profile reaches, as in a home.
    let rules = daemon.outside("rules");
    fs::write(&rules, "rm -rf\n").unwrap();
    let rules = rules.display();
    let scripts = [
        (
            "python",
            format!(
                "#!/usr/bin/env python3\nimport sys\nrules = open('{rules}').read().split('\\n')\nevent = sys.stdin.read()\n\
                 if any(rule and rule in event for rule in rules):\n    print('no', file=sys.stderr)\n    sys.exit(2)\n"
            ),
        ),
        (
            "shell",
            format!("#!/bin/sh\ngrep -q -f {rules} && {{ echo no >&2; exit 2; }}\nexit 0\n"),
        ),
        (
            "missing",
            "#!/bin/bash\n. /nowhere/lib.sh || exit 127\n".to_owned(),
        ),
        ("killed", "#!/bin/sh\nkill -TERM $$\n".to_owned()),
    ];
    for (name, script) in scripts {
        let hook = written(&daemon, name, &script);
        let hook = hook.to_str().unwrap();
        if ["python", "shell"].contains(&name) {
            let case = &CASES[0];
            let alone = ended(&workspace, &[hook], case.harmful);
            assert!(read(case, &alone).stops(), "{name}: {alone:?}");
        }
        // To hookjail Base Coat's points are no tool calls: a guard that ends there with 0 is believed.
        let decides = |case: &&Case| {
            case.runtime != "git" && (name != "shell" || case.runtime != "base-coat")
        };
        for case in CASES.iter().filter(decides) {
            let words = in_place(case.runtime, &socket, &["--profile", "workspace-ro"], hook);
            let inside = ended(&workspace, &words, case.harmful);
            assert!(
                read(case, &inside).stops(),
                "{name} {}: {inside:?}",
                case.runtime
            );
            // Where a broken hook is the runtime's own no, it is given on as it is.
            let is_own = ["copilot", "docker-agent", "gemini-cli", "loom"].contains(&case.runtime);
            let text = String::from_utf8_lossy(&inside.stderr);
            assert!(
                is_own || text.contains("(run "),
                "{name} {}: {text}",
                case.runtime
            );
        }
    }
}

#[tokio::test]
async fn a_prompt_is_not_refused_for_a_hook_that_confinement_breaks_unless_it_is_a_gate() {
    let daemon = Daemon::start().await;
    let (socket, workspace) = places(&daemon);
    let rules = daemon.outside("rules");
    fs::write(&rules, "secret\n").unwrap();
    let script = format!(
        "#!/bin/sh\nwords=$(cat {}) || exit 1\ngrep -q \"$words\" && {{ echo no >&2; exit 2; }}\nexit 0\n",
        rules.display()
    );
    let hook = written(&daemon, "prompts", &script);
    let hook = hook.to_str().unwrap();
    for (runtime, point) in [
        ("claude-code", "UserPromptSubmit"),
        ("claude-code", "PostToolUse"),
        ("codex", "UserPromptSubmit"),
    ] {
        let payload = format!(
            r#"{{"session_id":"s","transcript_path":"/t","cwd":"/","hook_event_name":"{point}","turn_id":"1","prompt":"hello","tool_name":"Write","tool_input":{{}}}}"#
        );
        assert_eq!(ended(&workspace, &[hook], &payload).status.code(), Some(0));
        let ends = |more: &[&str]| {
            let more = [&["--profile", "workspace-ro"], more].concat();
            ended(
                &workspace,
                &in_place(runtime, &socket, &more, hook),
                &payload,
            )
        };

        let warned = ends(&[]);
        let text =
            String::from_utf8_lossy(&warned.stdout) + String::from_utf8_lossy(&warned.stderr);
        assert_eq!(warned.status.code(), Some(0), "{runtime} {point}: {text}");
        assert!(text.contains("confinement may be why"), "{text}");
        if runtime == "claude-code" {
            let answer: serde_json::Value = serde_json::from_slice(&warned.stdout).unwrap();
            let message = answer["systemMessage"].as_str().unwrap();
            assert!(message.contains("Permission denied"), "{message}");
        }
        for gate in ["--gate", "--fail-closed"] {
            let refused = ends(&[gate]);
            // Only JSON shows the user the command that helps, and the model has the reason alone. That of a prompt which
            // Claude Code erases has no other reader than the user.
            let answer: serde_json::Value = serde_json::from_slice(&refused.stdout).unwrap();
            assert_eq!(refused.status.code(), Some(0), "{runtime} {gate}");
            assert_eq!(answer["decision"], "block", "{answer}");
            let (reason, shown) = (&answer["reason"], &answer["systemMessage"]);
            let is_users = (runtime, point) == ("claude-code", "UserPromptSubmit");
            let has_command = reason.as_str().unwrap().contains("learn");
            assert_eq!(has_command, is_users, "{answer}");
            assert!(shown.as_str().unwrap().contains("learn --last"), "{answer}");
        }
    }
}

#[tokio::test]
async fn a_prompt_is_not_refused_for_a_log_that_a_shell_cannot_write() {
    let daemon = Daemon::start().await;
    let (socket, workspace) = places(&daemon);
    let log = daemon.outside("log");
    // `dash` ends with 2, which is a denial to most runtimes.
    let script = format!("#!/bin/sh\ncat >>{}\n", log.display());
    let hook = written(&daemon, "logger", &script);
    let hook = hook.to_str().unwrap();
    for (runtime, point) in [
        ("claude-code", "UserPromptSubmit"),
        ("codex", "UserPromptSubmit"),
        ("docker-agent", "user_followup_submit"),
        ("qwen-code", "UserPromptSubmit"),
    ] {
        let payload = format!(
            r#"{{"session_id":"s","cwd":"/","hook_event_name":"{point}","turn_id":"1","prompt":"hello"}}"#
        );
        assert_eq!(ended(&workspace, &[hook], &payload).status.code(), Some(0));
        let ends = |more: &[&str]| {
            let more = [&["--profile", "workspace-ro"], more].concat();
            ended(
                &workspace,
                &in_place(runtime, &socket, &more, hook),
                &payload,
            )
        };
        let warned = ends(&[]);
        let (code, stdout, stderr) = outcome_of(&warned);
        assert_eq!(code, Some(0), "{runtime}: {stdout} {stderr}");
        assert!(!stdout.contains("block"), "{runtime}: {stdout}");
        let text = stdout + &stderr;
        assert!(text.contains("confinement may be why"), "{runtime}: {text}");
        let refused = ends(&["--gate"]);
        let (code, stdout, stderr) = outcome_of(&refused);
        let is_no = code == Some(2) || stdout.contains(r#""decision":"block""#);
        assert!(is_no, "{runtime}: {code:?} {stdout} {stderr}");
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test starts hookjail itself, as a person types it"
)]
#[test]
fn a_rehearsal_finds_the_guard_that_confinement_silences() {
    let line = CommandLine::new();
    let workspace = line.path().join("workspace");
    fs::create_dir(&workspace).unwrap();
    fs::write(line.path().join("rules"), "rm -rf").unwrap();
    let guard = |name: &str, script: &str| {
        let path = workspace.join(name);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let silenced = guard(
        "silenced",
        "#!/bin/sh\nrules=$HOME/rules\ntest -r \"$rules\" || exit 0\ngrep -q -f \"$rules\" && { echo no >&2; exit 2; }\nexit 0\n",
    );
    let same = guard(
        "same",
        "#!/bin/sh\ngrep -q 'rm -rf' && { echo no >&2; exit 2; }\nexit 0\n",
    );
    // `hookjail allow` names the command that shows more.
    let allowed = line.command(&["allow", "--", &silenced]).output().unwrap();
    let allowed = String::from_utf8_lossy(&allowed.stdout).into_owned();
    let hint =
        format!("hookjail run --as RUNTIME --rehearse --profile strict -- {silenced} <EVENT");
    assert!(allowed.contains(&hint), "{allowed}");

    let rehearse = |hook: &str, payload: &str| {
        let mut command = line.command(&[
            "--json",
            "run",
            "--as",
            "claude-code",
            "--rehearse",
            "--bare",
            "--",
            hook,
        ]);
        command.current_dir(&workspace).stdin(Stdio::piped());
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(payload.as_bytes()).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let answer: serde_json::Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        (output.status.code(), answer)
    };
    let case = &CASES[0];

    let (code, answer) = rehearse(&silenced, case.harmful);
    assert_eq!(code, Some(1), "{answer}");
    assert_eq!(answer["bare"]["stops"], true, "{answer}");
    assert_eq!(answer["confined"]["stops"], false, "{answer}");
    let first = answer["differences"][0].as_str().unwrap();
    assert_eq!(
        first,
        "the guard stops without hookjail, and lets pass with it"
    );

    for payload in [case.harmful, case.harmless] {
        let (code, answer) = rehearse(&same, payload);
        assert_eq!(code, Some(0), "{answer}");
        for key in ["exitCode", "stderr", "stdout", "stops", "writes"] {
            assert_eq!(answer["bare"][key], answer["confined"][key], "{key}");
            assert!(!answer["bare"][key].is_null(), "{key}");
        }
    }

    // Denials and files are shown where the ends are alike.
    let effects = guard(
        "effects",
        "#!/bin/bash\n{ date >seen; : </dev/tcp/127.0.0.1/9; } 2>/dev/null\nexit 0\n",
    );
    let (code, answer) = rehearse(&effects, case.harmless);
    assert_eq!(code, Some(1), "{answer}");
    let differ = serde_json::json!(["only the bare run writes seen"]);
    assert_eq!(answer["differences"], differ, "{answer}");
    assert_eq!(answer["bare"]["writes"], serde_json::json!(["seen"]));
    assert_eq!(answer["confined"]["writes"], serde_json::json!([]));
    assert!(!answer["denied"].as_array().unwrap().is_empty(), "{answer}");

    // In a runtime's settings a forgotten `--rehearse` is a denial.
    let forgotten = [
        env!("CARGO_BIN_EXE_hookjail"),
        "run",
        "--as",
        "claude-code",
        "--rehearse",
        "--",
        &same,
    ];
    let output = ended(&workspace, &forgotten, case.harmless);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[tokio::test]
async fn a_guard_whose_processes_are_denied_is_a_no_whatever_it_says() {
    let daemon = Daemon::start().await;
    let (socket, workspace) = places(&daemon);
    let script = "#!/bin/bash\ncommand=$(/bin/cat)\ncase $command in *'rm -rf'*) echo no >&2; exit 2 ;; esac\nexit 0\n";
    let hook = written(&daemon, "forks", script);
    let hook = hook.to_str().unwrap();
    for case in CASES.iter().filter(|case| is_of_a_call(case)) {
        let ended = |profile| {
            let words = in_place(case.runtime, &socket, &["--profile", profile], hook);
            ended(&workspace, &words, case.harmful)
        };
        for profile in ["strict", "pipeline"] {
            let ended = ended(profile);
            assert!(
                read(case, &ended).stops(),
                "{} {profile}: {ended:?}",
                case.runtime
            );
            let is_ours = String::from_utf8_lossy(&ended.stderr).contains("hookjail: ");
            // Where the hook may start processes it refuses itself; elsewhere its end may be the runtime's own refusal.
            let is_let_pass =
                ["claude-code", "codex", "cursor", "qwen-code"].contains(&case.runtime);
            assert_eq!(
                is_ours,
                is_let_pass && profile == "strict",
                "{} {profile}: {ended:?}",
                case.runtime
            );
        }
    }
}

/// Points where "no" means "go on working", each with a payload.
const ENDINGS: [(&str, Mode, &str, &str); 6] = [
    (
        "claude-code",
        Mode::ClaudeCode,
        "Stop",
        r#"{"session_id":"s","transcript_path":"/t","cwd":"/","permission_mode":"default","hook_event_name":"Stop","stop_hook_active":false}"#,
    ),
    (
        "claude-code",
        Mode::ClaudeCode,
        "SubagentStop",
        r#"{"session_id":"s","transcript_path":"/t","cwd":"/","permission_mode":"default","hook_event_name":"SubagentStop","stop_hook_active":false}"#,
    ),
    (
        "codex",
        Mode::Codex,
        "Stop",
        r#"{"session_id":"s","turn_id":"t","transcript_path":null,"cwd":"/","hook_event_name":"Stop","model":"m","permission_mode":"default","stop_hook_active":false,"last_assistant_message":null}"#,
    ),
    (
        "gemini-cli",
        Mode::GeminiCli,
        "AfterAgent",
        r#"{"session_id":"s","transcript_path":"/t","cwd":"/","hook_event_name":"AfterAgent","timestamp":"2026-01-01T00:00:00Z","prompt":"p","prompt_response":"r","stop_hook_active":false}"#,
    ),
    (
        "qwen-code",
        Mode::QwenCode,
        "Stop",
        r#"{"session_id":"s","transcript_path":"/t","cwd":"/","hook_event_name":"Stop","timestamp":"2026-01-01T00:00:00Z","permission_mode":"default","stop_hook_active":false}"#,
    ),
    (
        "copilot",
        Mode::Copilot,
        "Stop",
        r#"{"hook_event_name":"Stop","session_id":"s","timestamp":"2026-01-01T00:00:00Z","cwd":"/"}"#,
    ),
];

#[tokio::test]
async fn where_no_means_go_on_working_hookjails_own_failure_keeps_nobody_working() {
    let daemon = Daemon::start().await;
    let socket = daemon.path().join("sock").display().to_string();
    let missing = daemon.path().join("nobody").display().to_string();
    let workspace = daemon.workspace();
    let log = daemon.outside("log");
    // The logger can write where nothing confines it, and dash exits with 2 where it cannot.
    let logger = format!(
        "#!/bin/sh\ncat >/dev/null\necho stopped >> {}\n",
        log.display()
    );
    let logger = written(&daemon, "logger", &logger);
    let slow = written(&daemon, "slow", "#!/bin/sh\nexec sleep 60\n");
    let tests = written(
        &daemon,
        "tests",
        "#!/bin/sh\necho '2 tests failed' >&2\nexit 2\n",
    );
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (logger, slow, tests) = (text(&logger), text(&slow), text(&tests));
    for (runtime, mode, point, payload) in ENDINGS {
        let judged = |output: &Output| {
            let end = End {
                kind: EndKind::Exited(output.status.code().unwrap()),
                point,
                stderr: &output.stderr,
                stdout: &output.stdout,
                ..End::default()
            };
            mode.judge(&end, OnFailure::Contract).decision
        };
        let alone = ended(&workspace, &[&logger], payload);
        assert_eq!(alone.status.code(), Some(0), "{alone:?}");
        let gone = "no-such-hook".to_owned();
        for (socket, hook, more) in [
            (&socket, &logger, &[][..]),
            (&missing, &logger, &[]),
            (&socket, &gone, &[]),
            (&socket, &slow, &["--timeout", "300ms"]),
            (&socket, &logger, &["--bogus"]),
        ] {
            for observe in [&[][..], &["--observe"]] {
                let more = [observe, more].concat();
                let words = in_place(runtime, socket, &more, hook);
                let output = ended(&workspace, &words, payload);
                assert_eq!(
                    judged(&output),
                    Decision::None,
                    "{runtime} {hook}: {output:?}"
                );
                // There exit code 2 is only a warning, and the hook's own is given on.
                if runtime == "copilot" {
                    continue;
                }
                assert_eq!(
                    output.status.code(),
                    Some(0),
                    "{runtime} {hook}: {output:?}"
                );
                let stderr = String::from_utf8_lossy(&output.stderr);
                assert!(stderr.contains("hookjail"), "{runtime} {hook}: {stderr}");
            }
        }
        let misnamed = ended(
            &workspace,
            &in_place("emacs", &socket, &[], &logger),
            payload,
        );
        assert_eq!(judged(&misnamed), Decision::None, "{runtime}: {misnamed:?}");
        // The hook's own answer still counts, unless the hook only looks on.
        if runtime != "copilot" {
            let output = ended(
                &workspace,
                &in_place(runtime, &socket, &[], &tests),
                payload,
            );
            assert_eq!(judged(&output), Decision::Block, "{runtime}: {output:?}");
            let observed = in_place(runtime, &socket, &["--observe"], &tests);
            let output = ended(&workspace, &observed, payload);
            assert_eq!(judged(&output), Decision::None, "{runtime}: {output:?}");
        }
    }
}

#[tokio::test]
async fn a_hook_that_only_looks_on_stops_nothing_whatever_it_says() {
    let daemon = Daemon::start().await;
    let (socket, workspace) = places(&daemon);
    for case in &CASES {
        let hook = written(&daemon, case.runtime, case.hook);
        let hook = hook.to_str().unwrap();
        for (more, stops) in [(&[][..], true), (&["--observe"], false)] {
            let output = ended(
                &workspace,
                &in_place(case.runtime, &socket, more, hook),
                case.harmful,
            );
            assert_eq!(
                read(case, &output).stops(),
                stops,
                "{}: {output:?}",
                case.runtime
            );
            assert!(stops || output.status.code() == Some(0), "{output:?}");
        }
    }
}

#[tokio::test]
async fn a_signal_to_hookjail_itself_is_a_no() {
    let daemon = Daemon::start().await;
    let (socket, workspace) = places(&daemon);
    let ready = daemon.workspace().join("ready");
    fs::create_dir(&ready).unwrap();
    let slow = written(&daemon, "slow", "#!/bin/sh\nexec sleep 60\n");
    let slow = slow.to_str().unwrap();
    let mut started_so_far = 0;
    for case in &CASES {
        for (number, signal) in [
            Signal::SIGTERM,
            Signal::SIGINT,
            Signal::SIGHUP,
            Signal::SIGQUIT,
            Signal::SIGUSR1,
            Signal::SIGALRM,
            Signal::SIGXCPU,
            Signal::SIGABRT,
            Signal::SIGSEGV,
            Signal::SIGSYS,
        ]
        .into_iter()
        .enumerate()
        {
            // All signals once, and each runtime with a few.
            if case.runtime != "claude-code" && number > 1 {
                continue;
            }
            let words = in_place(case.runtime, &socket, &[], slow);
            // A process that ignores a signal hands that down.
            let words = [&["env", "--default-signal"], &words[..]].concat();
            let child = started(&workspace, &words, case.harmless);
            started_so_far += 1;
            let is_start = |record: &String| record == "started";
            until("the start record", || {
                daemon.records().iter().filter(|it| is_start(it)).count() == started_so_far
            })
            .await;
            kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
            let output = child.wait_with_output().unwrap();
            assert!(
                read(case, &output).stops(),
                "{} {signal}: {output:?}",
                case.runtime
            );
        }
    }
}

#[tokio::test]
async fn a_signal_by_which_nobody_ends_a_process_does_not_end_a_hooks_run() {
    let daemon = Daemon::start().await;
    let (socket, workspace) = places(&daemon);
    let waits = workspace.join("waits");
    fs::write(&waits, "").unwrap();
    let hook = "#!/bin/sh\nwhile [ -e waits ]; do sleep 0.01; done\n";
    let hook = written(&daemon, "waits-for-it", hook);
    let hook = hook.to_str().unwrap();
    let case = &CASES[0];
    let words = in_place(case.runtime, &socket, &[], hook);
    let mut child = started(&workspace, &words, case.harmless);
    until("the start record", || {
        daemon.records().iter().any(|record| record == "started")
    })
    .await;
    // SIGXFSZ, SIGVTALRM, SIGIO, SIGPWR, and two for real-time.
    for signal in [25, 26, 29, 30, 40, 64] {
        let line = format!("kill -{signal} {}", child.id());
        let sent = ended(&workspace, &["sh", "-c", &line], "");
        assert!(sent.status.success(), "{sent:?}");
    }
    assert_eq!(child.try_wait().unwrap(), None);
    fs::remove_file(&waits).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// Returns how long a runtime waits for a hook of its own before it goes on without, where that is known; git has no timer.
fn own_timer(case: &Case) -> Option<Duration> {
    let timer = case.mode.defaults(case.point).timeout;
    timer.filter(|_| case.runtime != "git")
}

/// Pauses a daemon until it is dropped.
struct Paused(Pid);

impl Paused {
    fn new(daemon: &Daemon) -> Self {
        let daemon = Pid::from_raw(daemon.pid().cast_signed());
        kill(daemon, Signal::SIGSTOP).unwrap();
        Self(daemon)
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        kill(self.0, Signal::SIGCONT).unwrap();
    }
}

#[tokio::test]
async fn a_runtime_hears_a_no_before_its_own_timer_fires() {
    let daemon = Daemon::start().await;
    let (socket, workspace) = places(&daemon);
    let hook = written(&daemon, "passes", "#!/bin/sh\nexit 0\n");
    let hook = hook.to_str().unwrap();
    // The control: the same words let the call pass.
    for case in &CASES {
        let output = ended(
            &workspace,
            &in_place(case.runtime, &socket, &[], hook),
            case.harmless,
        );
        assert!(!read(case, &output).stops(), "{}: {output:?}", case.runtime);
    }
    let paused = Paused::new(&daemon);
    let second = Duration::from_secs(1);
    for case in &CASES {
        let impatient = own_timer(case).filter(|wait| *wait < 10 * second);
        let mut waits = vec![(vec!["--timeout", "500ms"], 2 * second)];
        waits.extend(impatient.map(|wait| (Vec::new(), wait)));
        for (more, timer) in waits {
            let begun = Instant::now();
            let output = ended(
                &workspace,
                &in_place(case.runtime, &socket, &more, hook),
                case.harmless,
            );
            let (took, runtime) = (begun.elapsed(), case.runtime);
            assert!(took < timer, "{runtime} {more:?}: {took:?} of {timer:?}");
            assert!(
                read(case, &output).stops(),
                "{runtime} {more:?}: {output:?}"
            );
        }
    }
    drop(paused);
}

#[tokio::test]
async fn an_operator_who_is_away_is_waited_for_no_longer_than_the_runtime_waits() {
    let daemon = Daemon::with(Setup {
        ask_for_consent: true,
        ..Setup::default()
    })
    .await;
    let (socket, workspace) = places(&daemon);
    let mut operator = ConsentServiceClient::new(daemon.channel());
    // A listener who is away.
    let listening = operator.watch(pb::WatchRequest::default()).await.unwrap();
    for case in &CASES {
        let Some(timer) = own_timer(case).filter(|timer| *timer < Duration::from_secs(10)) else {
            continue;
        };
        let hook = written(&daemon, case.runtime, case.hook);
        let words = in_place(case.runtime, &socket, &[], hook.to_str().unwrap());
        let begun = Instant::now();
        let output = ended(&workspace, &words, case.harmless);
        let took = begun.elapsed();
        // The control: the question was asked, and not answered.
        assert!(took > timer / 2, "{}: {took:?} of {timer:?}", case.runtime);
        assert!(took < timer, "{}: {took:?} of {timer:?}", case.runtime);
        assert_is_no(case, &output);
    }
    drop(listening);
}

#[tokio::test]
async fn a_payload_that_never_ends_is_a_no_in_time() {
    let daemon = Daemon::start().await;
    let (socket, workspace) = places(&daemon);
    // The process that starts a hook may have the timer's signal ignored.
    let ignoring = ["bash", "-c", "trap '' ALRM; exec \"$@\"", "bash"];
    for case in CASES.iter().filter(|case| case.runtime != "git") {
        let short = ["--timeout", "300ms"];
        let words = in_place(case.runtime, &socket, &short, "/bin/true");
        let begun = Instant::now();
        // The payload never ends: its other end stays with this process.
        let mut child = held(&workspace, &[&ignoring[..], &words].concat());
        let stdin = child.stdin.take();
        let output = child.wait_with_output().unwrap();
        drop(stdin);
        assert_is_no(case, &output);
        // Without a timer of its own hookjail would wait for ever.
        assert!(begun.elapsed() < SOON, "{}", case.runtime);
    }
}

#[tokio::test]
async fn a_payload_without_end_is_a_no_before_it_takes_all_memory() {
    let directory = tempfile::tempdir().unwrap();
    let case = &CASES[0];
    let words = in_place(case.runtime, "/nowhere", &[], "/bin/true");
    let endless = ["bash", "-c", "yes | \"$@\"", "bash"];
    let output = ended(directory.path(), &[&endless[..], &words].concat(), "");
    assert!(read(case, &output).stops(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("longer than any daemon takes"), "{text}");
}

/// Returns words by which bash lowers its limits and becomes hookjail.
fn limited<'a>(limit: &'a str, words: &[&'a str]) -> Vec<&'a str> {
    let shell = ["bash", "-c", "ulimit $0 && exec \"$@\"", limit];
    [&shell, words].concat()
}

#[tokio::test]
async fn a_client_that_can_have_next_to_nothing_says_no_or_what_its_hook_says() {
    let daemon = Daemon::start().await;
    let (socket, workspace) = places(&daemon);
    for case in [&CASES[0], &CASES[1], &CASES[2], &CASES[7]] {
        let hook = written(&daemon, case.runtime, case.hook);
        let hook = hook.to_str().unwrap();
        let words = in_place(case.runtime, &socket, &[], hook);
        let files = [4, 5, 6, 7, 8, 9, 10, 12, 16].map(|count| format!("-n {count}"));
        let memory = (0..24).map(|step| format!("-v {}", 20_000 + 4_000 * step));
        let stack = [64, 128, 256, 512].map(|size| format!("-s {size}"));
        // No further thread and no further process: this limit holds every user but root.
        let tasks = ["-u 1".to_owned()];
        for limit in files.into_iter().chain(memory).chain(stack).chain(tasks) {
            // The program and its libraries must at least be loaded.
            let version = limited(&limit, &[env!("CARGO_BIN_EXE_hookjail"), "--version"]);
            if !ended(&workspace, &version, "").status.success() {
                continue;
            }
            let output = ended(&workspace, &limited(&limit, &words), case.harmful);
            assert!(
                read(case, &output).stops(),
                "{} {limit}: {output:?}",
                case.runtime
            );
            if limit.starts_with("-u") {
                let unlimited = ended(&workspace, &words, case.harmful);
                assert_eq!(
                    outcome_of(&output),
                    outcome_of(&unlimited),
                    "{}",
                    case.runtime
                );
            }
        }
    }
}

#[tokio::test]
async fn a_command_line_that_is_wrong_is_a_no() {
    let daemon = Daemon::start().await;
    let (socket, workspace) = places(&daemon);
    let thin = thin().display().to_string();
    let programs = [&[env!("CARGO_BIN_EXE_hookjail"), "run"][..], &[&thin]];
    for (program, case) in programs
        .iter()
        .flat_map(|program| CASES.iter().map(move |case| (*program, case)))
    {
        for words in [
            &["--bogus", "--", "/bin/true"][..],
            &["--help"],
            &["--timeout", "soon", "--", "/bin/true"],
            &[],
            &[
                "--connect",
                &socket,
                "--config",
                "/nowhere/hookjail.toml",
                "--",
                "/bin/true",
            ],
            // A hook's own words are not hookjail's.
            &["--bogus", "/bin/true", "--observe"],
        ] {
            for named in [
                &["--as", case.runtime][..],
                &[&format!("--as={}", case.runtime)],
            ] {
                let words = [program, named, words].concat();
                let output = ended(&workspace, &words, case.harmless);
                assert!(read(case, &output).stops(), "{words:?}: {output:?}");
            }
            // A name that no runtime has is no name: the payload identifies its runtime. git's does not.
            if case.runtime != "git" {
                let words = [program, &["--as", "emacs", "--", "/bin/true"]].concat();
                let output = ended(&workspace, &words, case.harmless);
                assert!(read(case, &output).stops(), "{words:?}: {output:?}");
            }
            let words = [program, &["--as", case.runtime, "--observe"], words].concat();
            let output = ended(&workspace, &words, case.harmless);
            assert!(!read(case, &output).stops(), "{words:?}: {output:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_written_is_a_no() {
    let daemon = Daemon::start().await;
    let (socket, workspace) = places(&daemon);
    // Runtimes whose guards here refuse on stdout.
    for case in CASES
        .iter()
        .filter(|case| case.hook.contains("permission") || case.hook.contains("decision"))
    {
        let hook = written(&daemon, case.runtime, case.hook);
        let words = in_place(case.runtime, &socket, &[], hook.to_str().unwrap());
        let full = ["bash", "-c", "exec \"$@\" >/dev/full", "bash"];
        let output = ended(&workspace, &[&full[..], &words].concat(), case.harmful);
        assert_is_no(case, &output);
        assert_eq!(output.status.code(), Some(2), "{output:?}");

        let closed = [
            "bash",
            "-c",
            "set -o pipefail; \"$@\" | true; exit ${PIPESTATUS[0]}",
            "bash",
        ];
        let slow = [&closed[..], &words].concat();
        let output = ended(&workspace, &slow, case.harmful);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{}: {output:?}",
            case.runtime
        );
    }
}

#[tokio::test]
async fn a_refusal_names_its_reason_and_an_id_and_never_the_command_that_lifts_it() {
    let setup = Setup {
        ask_for_consent: true,
        ..Setup::default()
    };
    let daemon = Daemon::with(setup).await;
    let (socket, workspace) = places(&daemon);
    for case in &CASES {
        let hook = written(&daemon, case.runtime, case.hook);
        let words = in_place(case.runtime, &socket, &[], hook.to_str().unwrap());
        let output = ended(&workspace, &words, case.harmless);
        assert_is_no(case, &output);
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed);
        assert!(printed.contains("CONSENT_REQUIRED: "), "{printed}");
        let id = printed.split("(request ").nth(1).unwrap();
        let id = id.split(')').next().unwrap();
        let journal = daemon.journal();
        let record = journal.last().unwrap();
        assert!(record.to_string().contains(id), "{record}");
        for word in [
            "hookjail allow -",
            "hookjail consent",
            "hookjail serve",
            "--profile",
        ] {
            assert!(!printed.contains(word), "{printed}");
        }
    }
}

#[tokio::test]
async fn a_guard_that_runs_while_the_daemon_is_stopped_is_a_no() {
    // The daemon alone gets the signal to stop, or, as a service manager may do it, every process of it.
    for all in [false, true] {
        for case in &CASES {
            let mut daemon = Daemon::with(Setup {
                config: "[server]\ndrain = \"300ms\"\n".to_owned(),
                ..Setup::default()
            })
            .await;
            let (socket, workspace) = places(&daemon);
            let pid = daemon.workspace().join("pid");
            // SIGTERM would end this hook.
            let minute = a_minute();
            let slow = written(
                &daemon,
                "slow",
                &format!("#!/bin/bash\necho > pid.new; mv pid.new pid\nexec sleep {minute}\n"),
            );
            let more = ["--profile", "workspace-rw"];
            let words = in_place(case.runtime, &socket, &more, slow.to_str().unwrap());
            let child = started(&workspace, &words, case.harmless);
            until("the hook", || pid.exists()).await;
            if all {
                // Its own id for itself is another.
                let sleeps = |line: &str| line.starts_with(&format!("sleep {minute}"));
                until("its sleep", || processes_that(sleeps).next().is_some()).await;
                let (hook, _) = processes_that(sleeps).next().unwrap();
                kill(Pid::from_raw(hook.cast_signed()), Signal::SIGTERM).unwrap();
            }
            kill(Pid::from_raw(daemon.pid().cast_signed()), Signal::SIGTERM).unwrap();
            let output = child.wait_with_output().unwrap();
            assert!(
                read(case, &output).stops(),
                "{} {all}: {output:?}",
                case.runtime
            );
            daemon.child().wait().unwrap();

            let after = ended(&workspace, &words, case.harmless);
            assert_is_no(case, &after);
        }
    }
}

#[tokio::test]
async fn a_payload_of_nobody_is_a_no() {
    let daemon = Daemon::start().await;
    let (socket, workspace) = places(&daemon);
    for payload in ["", "{}", "nonsense"] {
        let output = ended(
            &workspace,
            &in_place("auto", &socket, &[], "/bin/true"),
            payload,
        );
        assert_eq!(output.status.code(), Some(2));
        let unknown = ended(
            &workspace,
            &in_place("emacs", &socket, &[], "/bin/true"),
            payload,
        );
        assert_eq!(unknown.status.code(), Some(2));
    }
}

/// Returns the quoted name of the member that has a case's point.
fn key_of_point(case: &Case) -> String {
    let event: serde_json::Value = serde_json::from_str(case.harmless).unwrap();
    let members = event.as_object().unwrap();
    let mut named = members.iter().filter(|(_, value)| *value == case.point);
    format!("{:?}", named.next().unwrap().0)
}

#[tokio::test]
async fn what_a_payload_says_of_its_point_counts_over_a_line_that_was_copied() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("nobody").display().to_string();
    // Runtimes whose payloads name their point.
    let naming = |case: &&Case| !matches!(case.runtime, "copilot" | "git");
    for case in CASES.iter().filter(naming) {
        let mut points = case.mode.facts().points.iter();
        let other = points.find(|point| matches!(point.stop, Stop::Ending | Stop::Nothing));
        let other = ["--point", other.unwrap().name];
        let words = in_place(case.runtime, &missing, &other, "/bin/true");
        let no = ended(directory.path(), &words, case.harmless);
        assert!(
            read(case, &no).stops(),
            "{} {other:?}: {no:?}",
            case.runtime
        );
        // A payload without a point, or with one that its runtime does not have, leaves the point to the command line.
        for payload in ["{}", &case.harmless.replace(case.point, "PreLaunch")] {
            let output = ended(directory.path(), &words, payload);
            let (is, was) = (outcome_of(&output), outcome_of(&no));
            assert_ne!((is.0, is.1), (was.0, was.1), "{} {other:?}", case.runtime);
        }
    }
}

#[tokio::test]
async fn a_payload_that_names_two_points_is_of_an_unknown_one() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("nobody").display().to_string();
    let naming = |case: &&Case| !matches!(case.runtime, "copilot" | "git");
    for case in CASES.iter().filter(naming) {
        let mut points = case.mode.facts().points.iter();
        let lax = points.find(|point| matches!(point.stop, Stop::Ending | Stop::Nothing));
        let (key, named) = (key_of_point(case), format!("{:?}", case.point));
        let words = in_place(case.runtime, &missing, &[], "/bin/true");
        let again = format!("{named},{key}:{:?}", lax.unwrap().name);
        let twice = case.harmless.replacen(&named, &again, 1);
        assert_ne!(twice, case.harmless, "{}", case.runtime);
        let no = ended(directory.path(), &words, &twice);
        assert!(read(case, &no).stops(), "{} {twice}: {no:?}", case.runtime);
        // The control: by the second alone the answer is another.
        let lax = format!("{:?}", lax.unwrap().name);
        let passes = ended(
            directory.path(),
            &words,
            &case.harmless.replacen(&named, &lax, 1),
        );
        let (is, was) = (outcome_of(&passes), outcome_of(&no));
        assert_ne!((is.0, is.1), (was.0, was.1), "{}", case.runtime);
    }
}

#[tokio::test]
async fn hooks_that_decide_nothing_are_mirrored_too() {
    let daemon = Daemon::start().await;
    let socket = daemon.path().join("sock").display().to_string();
    let missing = daemon.path().join("nobody").display().to_string();
    let workspace = daemon.workspace();
    for (runtime, payload, script) in [
        (
            "reyn",
            r#"{"point":"turn_end","agent_name":"a","chain_id":null,"user_text":"t"}"#,
            "#!/bin/sh\nread -r event\necho '{\"message\": \"m\", \"wake\": true, \"push_when\": true}'\n",
        ),
        (
            "infer",
            r#"{"hook":"post_session","session_id":"s","turn":3}"#,
            "#!/bin/bash\njq -c . | cat\necho noted >&2\nexit 7\n",
        ),
    ] {
        let hook = written(&daemon, runtime, script);
        let hook = hook.to_str().unwrap();
        let alone = ended(&workspace, &[hook], payload);
        for name in [runtime, "auto"] {
            let inside = ended(&workspace, &in_place(name, &socket, &[], hook), payload);
            assert_eq!(outcome_of(&inside), outcome_of(&alone), "{runtime}");
        }
        let failed = ended(&workspace, &in_place(runtime, &missing, &[], hook), payload);
        assert_eq!(failed.status.code(), Some(125));
        assert_eq!(failed.stdout, b"");
    }
}

mod as_root {
    use std::os::unix::fs::chown;

    use super::*;
    use crate::{support::needs_root, witness::NOBODY};

    /// No limit on processes holds root, so the client is another user's, who has this one and can have no other.
    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_user_without_another_process_has_its_guards() {
        needs_root();
        let caller = NOBODY;
        let daemon = Daemon::with(Setup {
            config: format!("[server]\ncallers = [{caller}]\nsocket_mode = \"0660\"\n"),
            ..Setup::default()
        })
        .await;
        let socket = daemon.path().join("sock");
        chown(&socket, Some(NOBODY), None).unwrap();
        let socket = socket.display().to_string();
        let workspace = daemon.workspace();
        // The program may lie where that user cannot go.
        let program = workspace.join("hookjail-run");
        install(&thin(), &program);
        let program = program.display().to_string();
        let user = NOBODY.to_string();
        let lone = [
            "setpriv",
            "--clear-groups",
            "--reuid",
            &user,
            "bash",
            "-c",
            "ulimit -u 1 && exec \"$@\"",
            "bash",
        ];
        // The control: a user under this limit starts no thread.
        let thread = "import threading; threading.Thread(target=print).start()";
        let words = [&lone[..], &["python3", "-c", thread]].concat();
        assert!(!ended(&workspace, &words, "").status.success());
        for case in &CASES {
            let hook = written(&daemon, case.runtime, case.hook);
            let mut words = in_place(case.runtime, &socket, &[], hook.to_str().unwrap());
            words[0] = &program;
            let words = [&lone[..], &words].concat();
            for (payload, stops) in [(case.harmless, false), (case.harmful, true)] {
                let output = ended(&workspace, &words, payload);
                assert_eq!(
                    read(case, &output).stops(),
                    stops,
                    "{}: {output:?}",
                    case.runtime
                );
            }
        }
    }
}
