//! All hooks due at a lifecycle point come to one answer: what holds whatever their contract.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use hookjail::pb::{self, dispatched_hook::End};
use serde_json::json;
use tonic::Code;

use crate::{
    support::{Daemon, Setup, at, inline, reached, reason},
    witness::{CommandLine, a_minute, processes_with, until, until_gone},
};

#[tokio::test]
async fn with_no_hook_due_nothing_is_started_and_nothing_written() {
    let daemon = Daemon::with_hooks(
        "[[hook]]\ncontract = \"loom\"\npoint = \"tool.pre\"\ncommand = \"exit 1\"\n",
    )
    .await;

    let response = daemon.dispatch(at("tool.post", &json!({}))).await;

    assert_eq!(response.hooks, []);
    let answer = response.answer.unwrap();
    assert_eq!(
        (answer.decision(), answer.failed),
        (pb::Decision::None, false)
    );
    assert_eq!(daemon.records(), Vec::<String>::new());
}

#[tokio::test]
async fn a_hook_that_is_refused_counts_as_its_contracts_failure() {
    let setup = Setup {
        ask_for_consent: true,
        config: r#"
[[hook]]
name = "loom"
contract = "loom"
point = "tool.pre"
command = "exit 0"
[[hook]]
name = "base coat"
contract = "basecoat"
point = "PreToolUse"
command = ["/bin/true"]
[[hook]]
name = "reyn"
contract = "reyn"
mode = "shell_push"
point = "turn_end"
command = ["/bin/true"]
"#
        .to_owned(),
        ..Setup::default()
    };
    let daemon = Daemon::with(setup).await;
    for (point, decision, skip, warnings) in [
        ("tool.pre", pb::Decision::Deny, "", 0),
        ("PreToolUse", pb::Decision::None, "consent_refused", 1),
        ("turn_end", pb::Decision::None, "consent_refused", 0),
    ] {
        let response = daemon.dispatch(at(point, &json!({}))).await;
        let [hook] = &response.hooks[..] else {
            panic!("{point}: {:?}", response.hooks)
        };
        let Some(End::Refused(refusal)) = &hook.end else {
            panic!("{point}: {:?}", hook.end)
        };
        assert_eq!(refusal.reason, "CONSENT_REQUIRED");
        assert!(refusal.metadata["approve"].contains("hookjail consent allow"));
        let answer = response.answer.unwrap();
        assert_eq!(
            (answer.decision(), answer.failed),
            (decision, true),
            "{point}"
        );
        assert_eq!(hook.verdict.as_ref().unwrap().skip_reason, skip);
        assert_eq!(answer.warnings.len(), warnings, "{point}");
    }
    assert_eq!(daemon.records(), ["refused"; 3]);
}

#[tokio::test]
async fn a_refusal_is_a_no_before_a_tool_call_and_keeps_nobody_working() {
    let mut config = String::new();
    for (contract, gate, ending) in [
        ("claude_code", "PreToolUse", "Stop"),
        ("codex", "PermissionRequest", "SubagentStop"),
        ("gemini_cli", "BeforeTool", "AfterAgent"),
        ("copilot", "permissionRequest", "agentStop"),
    ] {
        let hook = |point: &str, more: &str| {
            format!(
                "[[hook]]\nname = \"{contract} {point}\"\ncontract = \"{contract}\"\npoint = \"{point}\"\ncommand = \"exit 0\"\n{more}"
            )
        };
        config += &hook(gate, "");
        config += &hook(ending, "on_failure = \"closed\"\n");
    }
    let setup = Setup {
        ask_for_consent: true,
        config,
        ..Setup::default()
    };
    let daemon = Daemon::with(setup).await;
    for (contract, point, decision) in [
        (pb::Contract::ClaudeCode, "PreToolUse", pb::Decision::Deny),
        (pb::Contract::ClaudeCode, "Stop", pb::Decision::None),
        (pb::Contract::Codex, "PermissionRequest", pb::Decision::Deny),
        (pb::Contract::Codex, "SubagentStop", pb::Decision::None),
        (pb::Contract::GeminiCli, "BeforeTool", pb::Decision::Deny),
        (pb::Contract::GeminiCli, "AfterAgent", pb::Decision::None),
        (
            pb::Contract::Copilot,
            "permissionRequest",
            pb::Decision::Deny,
        ),
        (pb::Contract::Copilot, "agentStop", pb::Decision::None),
    ] {
        let request = pb::DispatchRequest {
            contract: contract.into(),
            ..at(point, &json!({}))
        };
        let response = daemon.dispatch(request).await;
        let answer = response.answer.unwrap();
        assert_eq!(answer.decision(), decision, "{contract:?} {point}");
        assert!(answer.failed, "{contract:?} {point}");
        // A model may read this.
        assert!(
            !answer.reason.contains("hookjail consent"),
            "{}",
            answer.reason
        );
        let verdict = response.hooks[0].verdict.clone().unwrap();
        assert!(
            !verdict.reason.contains("hookjail consent"),
            "{}",
            verdict.reason
        );
    }
    // An operator does.
    assert!(daemon.log().contains("hookjail consent allow"));
    let journal = daemon.journal();
    assert!(journal.iter().all(|it| {
        it["message"]
            .as_str()
            .unwrap()
            .contains("hookjail consent allow")
    }));
}

#[tokio::test]
async fn hooks_of_two_contracts_at_one_point_need_the_contract_named() {
    let hooks = r#"
[[hook]]
contract = "reyn"
mode = "shell_exec"
point = "session_start"
command = ["/bin/true"]
[[hook]]
contract = "observe"
point = "session_start"
command = ["/bin/true"]
"#;
    let daemon = Daemon::with_hooks(hooks).await;
    let request = at("session_start", &json!({}));
    let refused = daemon.client().dispatch(request.clone()).await.unwrap_err();
    assert_eq!(
        (refused.code(), &*reason(&refused)),
        (Code::InvalidArgument, "INVALID_REQUEST")
    );
    let named = pb::DispatchRequest {
        contract: pb::Contract::Observe.into(),
        ..request
    };
    let response = daemon.dispatch(named).await;
    assert_eq!(response.hooks.len(), 1);
    assert_eq!(response.contract_version, "observe/1");
}

#[tokio::test]
async fn what_cannot_be_dispatched_is_named() {
    let daemon = Daemon::with_hooks("").await;
    let loom = pb::DispatchRequest {
        contract: pb::Contract::Loom.into(),
        ..at("tool.pre", &json!({}))
    };
    for (request, field) in [
        (
            pb::DispatchRequest {
                event: at("tool.during", &json!({})).event,
                ..loom.clone()
            },
            "event.point",
        ),
        (
            pb::DispatchRequest {
                inline_hooks: vec![pb::InlineHook {
                    config_json: r#"{"on_error": "block"}"#.to_owned(),
                    ..inline("h", "true")
                }],
                ..loom.clone()
            },
            "inline_hooks[0].config.on_error",
        ),
        (
            pb::DispatchRequest {
                inline_hooks: vec![pb::InlineHook {
                    matcher: "[".to_owned(),
                    ..inline("h", "true")
                }],
                ..loom.clone()
            },
            "inline_hooks[0].matcher",
        ),
        (
            pb::DispatchRequest {
                contract: 0,
                inline_hooks: vec![inline("h", "true")],
                ..loom.clone()
            },
            "contract",
        ),
        (
            pb::DispatchRequest {
                tool: Some(pb::Tool {
                    input_json: "{".to_owned(),
                    ..pb::Tool::default()
                }),
                ..loom.clone()
            },
            "tool.input_json",
        ),
        (
            pb::DispatchRequest {
                tool: Some(pb::Tool {
                    response_json: r#"{"a":1,"a":2}"#.to_owned(),
                    ..pb::Tool::default()
                }),
                ..loom
            },
            "tool.response_json",
        ),
    ] {
        let refused = daemon.client().dispatch(request).await.unwrap_err();
        assert_eq!(&*reason(&refused), "INVALID_REQUEST", "{field}");
        assert!(refused.message().contains(field), "{}", refused.message());
    }
}

#[tokio::test]
async fn the_same_id_again_runs_nothing_twice() {
    let daemon = Daemon::with_hooks(
        "[[hook]]\ncontract = \"loom\"\npoint = \"tool.pre\"\ncommand = \"echo x\"\n",
    )
    .await;
    let request = pb::DispatchRequest {
        request_id: "one".to_owned(),
        ..at("tool.pre", &json!({}))
    };
    let first = daemon.dispatch(request.clone()).await;
    let second = daemon.dispatch(request.clone()).await;
    assert_eq!(first, second);
    assert!(matches!(&first.hooks[0].end, Some(End::Ran(ran)) if &ran.stdout[..] == b"x\n"));
    assert_eq!(daemon.records(), ["started", "ended"]);
    let other = pb::DispatchRequest {
        turn: Some(7),
        ..request
    };
    let conflict = daemon.client().dispatch(other).await.unwrap_err();
    assert_eq!(&*reason(&conflict), "REQUEST_ID_CONFLICT");
}

// Each event is one that some readers of JSON take and others do not.
#[tokio::test]
async fn a_guard_is_due_whatever_else_the_event_holds() {
    let guard = |contract: &str, point: &str, matcher: &str| {
        format!(
            "[[hook]]\ncontract = \"{contract}\"\npoint = \"{point}\"\nmatcher = \"{matcher}\"\n\
             command = \"echo no >&2; exit 2\"\n"
        )
    };
    let gates = [
        ("claude_code", "PreToolUse", "Bash"),
        ("codex", "PreToolUse", "^Bash$"),
        ("gemini_cli", "BeforeTool", "Bash"),
        ("loom", "tool.pre", "Ba*"),
    ];
    let all: String = gates
        .map(|(c, point, matcher)| guard(c, point, matcher))
        .concat();
    let daemon = Daemon::with_hooks(&all).await;
    let deep = format!("{}{}", "[".repeat(126), "]".repeat(126));
    let long = format!("\"{}\"", "x".repeat(1 << 20));
    let values = [
        r#""rm -rf /""#,
        r#""rm -rf / \ud800""#,
        r#""\udc00\ud800""#,
        r#""\u0000""#,
        "1e999",
        "-1E+400",
        "123456789012345678901234567890.5",
        r#"{"\ud800":1,"\ud801":2,"":3}"#,
        deep.as_str(),
        long.as_str(),
    ];
    let mut tried = 0;
    for (contract, point, _) in gates {
        for value in values {
            for name in [
                r#""tool_name":"Bash""#,
                r#""tool\u005fname":"\u0042ash""#,
                r#""tool_name":7"#,
                r#""x":1"#,
            ] {
                let event = format!(
                    r#"{{"a":{value},{name},"tool_input":{{"command":{value}}},"\ud800":{value}}}"#
                );
                let response = daemon
                    .dispatch(pb::DispatchRequest {
                        contract: pb::Contract::from_str_name(&format!(
                            "CONTRACT_{}",
                            contract.to_uppercase()
                        ))
                        .unwrap()
                        .into(),
                        event: Some(pb::Event {
                            json: event.clone().into(),
                            point: point.to_owned(),
                            raw: false,
                        }),
                        ..pb::DispatchRequest::default()
                    })
                    .await;
                let shown: String = event.chars().take(120).collect();
                assert_eq!(response.hooks.len(), 1, "{contract} {shown}");
                assert_eq!(
                    response.answer.unwrap().decision(),
                    pb::Decision::Deny,
                    "{contract} {shown}"
                );
                tried += 1;
            }
        }
        // Another tool's name is one that is read.
        let other = at(point, &json!({"tool_name": "Read"}));
        let other = pb::DispatchRequest {
            contract: pb::Contract::from_str_name(&format!("CONTRACT_{}", contract.to_uppercase()))
                .unwrap()
                .into(),
            ..other
        };
        assert_eq!(daemon.dispatch(other).await.hooks, [], "{contract}");
    }
    assert_eq!(tried, 160);
}

#[tokio::test]
async fn a_guard_is_due_by_any_name_of_its_tool_and_whoever_asks() {
    let guard = |contract: &str, point: &str, matcher: &str| {
        format!(
            "[[hook]]\ncontract = {contract:?}\npoint = {point:?}\nmatcher = {matcher:?}\ncommand = \"echo no >&2; exit 2\"\n"
        )
    };
    let hooks = [
        guard("codex", "PreToolUse", "Edit|Write"),
        guard("claude_code", "PreToolUse", "Task"),
        guard("claude_code", "Elicitation", "mail"),
        guard("gemini_cli", "BeforeTool", "run_shell_command "),
    ];
    let daemon = Daemon::with_hooks(&hooks.concat()).await;
    for (contract, point, event, is_due) in [
        (
            pb::Contract::Codex,
            "PreToolUse",
            json!({"tool_name": "apply_patch"}),
            true,
        ),
        (
            pb::Contract::Codex,
            "PreToolUse",
            json!({"tool_name": "Bash"}),
            false,
        ),
        (
            pb::Contract::ClaudeCode,
            "PreToolUse",
            json!({"tool_name": "Agent"}),
            true,
        ),
        (
            pb::Contract::ClaudeCode,
            "PreToolUse",
            json!({"tool_name": "Bash", "agent_type": "Task"}),
            false,
        ),
        (
            pb::Contract::ClaudeCode,
            "Elicitation",
            json!({"agent_type": "a", "mcp_server_name": "mail"}),
            true,
        ),
        (
            pb::Contract::ClaudeCode,
            "Elicitation",
            json!({"agent_type": "a", "mcp_server_name": "chat"}),
            false,
        ),
        (
            pb::Contract::GeminiCli,
            "BeforeTool",
            json!({"tool_name": "run_shell_command"}),
            true,
        ),
    ] {
        let request = pb::DispatchRequest {
            contract: contract.into(),
            ..at(point, &event)
        };
        let answer = daemon.dispatch(request).await.answer.unwrap();
        let stops = matches!(answer.decision(), pb::Decision::Block | pb::Decision::Deny);
        assert_eq!(stops, is_due, "{point} {event}: {answer:?}");
    }
}

#[tokio::test]
async fn an_event_that_cannot_be_read_is_refused_and_never_due_for_nothing() {
    let daemon = Daemon::with_hooks(
        "[[hook]]\ncontract = \"loom\"\npoint = \"tool.pre\"\nmatcher = \"Bash\"\ncommand = \"exit 2\"\n",
    )
    .await;
    let deep = format!(
        r#"{{"toolName":"Bash","a":{}{}}}"#,
        "[".repeat(128),
        "]".repeat(128)
    );
    for event in [
        &b"[{\"toolName\":\"Bash\"}]"[..],
        b"\"Bash\"",
        b"null",
        b"{\"toolName\":\"Bash\",\"a\":\"\xff\"}",
        b"{\"toolName\":\"Bash\",\"a\":1,\"\\u0061\":2}",
        b"{\"toolName\":\"Read\",\"toolName\":\"Bash\"}",
        b"{\"toolName\":\"Bash\",\"a\":\"\0\"}",
        b"{\"toolName\":\"Bash\"} {}",
        b"{\"toolName\":\"Bash\",\"a\":NaN}",
        deep.as_bytes(),
    ] {
        let request = pb::DispatchRequest {
            event: Some(pb::Event {
                json: event.to_vec().into(),
                point: "tool.pre".to_owned(),
                raw: false,
            }),
            ..pb::DispatchRequest::default()
        };
        let refused = daemon.client().dispatch(request).await;
        let shown = String::from_utf8_lossy(event);
        let refused = refused
            .err()
            .unwrap_or_else(|| panic!("{shown} is dispatched"));
        assert_eq!(&*reason(&refused), "INVALID_REQUEST", "{shown}");
        assert!(
            refused.message().contains("event.json"),
            "{}",
            refused.message()
        );
    }
}

/// Returns the configuration of a file with a Gemini CLI hook that denies with what a variable of its own says.
fn file_of_hooks(directory: &Path) -> String {
    let path = directory.join("settings.json");
    let hook = json!({
        "type": "command", "name": "guard", "command": "echo \"$WHY\" >&2; exit 2", "env": {"WHY": "not here"},
    });
    let settings = json!({"hooks": {"BeforeTool": [{"matcher": "write_.*", "hooks": [hook]}]}});
    fs::write(&path, settings.to_string()).unwrap();
    format!("[[hooks_file]]\ncontract = \"gemini_cli\"\npath = {path:?}\n")
}

#[tokio::test]
async fn hooks_of_a_file_run_with_the_variables_that_it_gives_them() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::with_hooks(&file_of_hooks(directory.path())).await;
    let of = |tool: &str| at("BeforeTool", &json!({"tool_name": tool, "tool_input": {}}));

    let denied = daemon.dispatch(of("write_file")).await;
    let other = daemon.dispatch(of("read_file")).await;

    assert_eq!(reached(&denied), ["guard"]);
    assert_eq!(denied.blocked_by_hook, "guard");
    let answer = denied.answer.unwrap();
    assert_eq!(
        (answer.decision(), answer.reason.as_str()),
        (pb::Decision::Deny, "not here")
    );
    assert!(other.hooks.is_empty());
}

#[tokio::test]
async fn hooks_of_a_file_run_under_the_profile_that_the_operator_names_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("settings.json");
    let hook = json!({"type": "command", "command": "echo >written"});
    let settings = json!({"hooks": {"BeforeTool": [{"hooks": [hook]}]}});
    fs::write(&path, settings.to_string()).unwrap();
    let file = format!("[[hooks_file]]\ncontract = \"gemini_cli\"\npath = {path:?}\n");
    for (profile, writes) in [("", false), ("profile = \"workspace-rw\"\n", true)] {
        let daemon = Daemon::with_hooks(&format!("{file}{profile}")).await;
        let mut request = at("BeforeTool", &json!({"tool_name": "write_file"}));
        request.workspace = daemon.workspace().display().to_string();
        let response = daemon.dispatch(request).await;
        assert_eq!(response.hooks.len(), 1);
        assert_eq!(
            daemon.workspace().join("written").exists(),
            writes,
            "{profile}"
        );
    }

    let none = Setup {
        config: format!("{file}profile = \"none\"\n"),
        ..Setup::default()
    };
    let problem = Daemon::try_with(none).await.unwrap_err();
    assert!(
        problem.contains("`hooks_file.profile` names `none`"),
        "{problem}"
    );
}

#[tokio::test]
async fn no_hook_is_due_where_hooks_are_disabled() {
    let directory = tempfile::tempdir().unwrap();
    let hooks =
        "[[hook]]\ncontract = \"gemini_cli\"\npoint = \"BeforeTool\"\ncommand = \"exit 2\"\n";
    let files = file_of_hooks(directory.path());
    let daemon = Daemon::with_hooks(&format!("{hooks}{files}[hooks]\ndisabled = true\n")).await;

    let event = json!({"tool_name": "write_file"});
    let response = daemon.dispatch(at("BeforeTool", &event)).await;

    assert!(response.hooks.is_empty());
}

#[tokio::test]
async fn the_time_for_all_is_the_time_of_the_last() {
    let hooks = r#"
[[hook]]
name = "quick"
contract = "loom"
point = "tool.pre"
command = "true"
[[hook]]
name = "slow"
contract = "loom"
point = "tool.pre"
command = "sleep 60"
"#;
    let daemon = Daemon::with_hooks(hooks).await;
    let request = pb::DispatchRequest {
        timeout: Some(prost_types::Duration {
            seconds: 1,
            nanos: 0,
        }),
        ..at("tool.pre", &json!({}))
    };

    let response = daemon.dispatch(request).await;

    assert_eq!(response.blocked_by_hook, "slow");
    let answer = response.answer.unwrap();
    assert_eq!(
        (answer.decision(), answer.blocked_by()),
        (pb::Decision::Deny, pb::BlockedBy::Timeout)
    );
}

#[tokio::test]
async fn configured_hooks_are_listed_by_point() {
    let hooks = r#"
[[hook]]
name = "guard"
contract = "loom"
point = "tool.pre"
matcher = "shell"
command = "./guard | tee log"
[[hook]]
command = ["/bin/true"]
profiles = ["network"]
[[hook]]
contract = "reyn"
mode = "shell_exec"
point = "turn_end"
command = ["/usr/bin/notify", "done"]
profile = "pipeline"
"#;
    let daemon = Daemon::with_hooks(hooks).await;
    let list = async |request| {
        let listed = daemon.client().list_hooks(request).await;
        listed.unwrap().into_inner().hooks
    };
    let all = list(pb::ListHooksRequest::default()).await;
    assert_eq!(all.len(), 2);
    assert_eq!(
        all[0],
        pb::ConfiguredHook {
            name: "guard".to_owned(),
            contract: pb::Contract::Loom.into(),
            point: "tool.pre".to_owned(),
            matcher: "shell".to_owned(),
            command: "./guard | tee log".to_owned(),
            profile: "workspace-ro".to_owned(),
            source: "hook[0]".to_owned(),
        }
    );
    let at_point = pb::ListHooksRequest {
        point: "turn_end".to_owned(),
        ..pb::ListHooksRequest::default()
    };
    let [hook] = &list(at_point).await[..] else {
        panic!("one is at that point")
    };
    assert_eq!(
        (&*hook.profile, &*hook.command),
        ("pipeline", "/usr/bin/notify done")
    );
    let of_loom = pb::ListHooksRequest {
        contract: pb::Contract::Loom.into(),
        ..pb::ListHooksRequest::default()
    };
    assert_eq!(list(of_loom).await.len(), 1);
}

#[tokio::test]
async fn what_a_hook_says_stays_within_what_its_caller_takes() {
    let daemon = Daemon::with_hooks("").await;
    let long = "yes | head -c 5000000";
    let request = |script: &str| pb::DispatchRequest {
        contract: pb::Contract::Loom.into(),
        inline_hooks: vec![inline("long", script)],
        workspace: daemon.workspace().display().to_string(),
        ..at("tool.pre", &json!({}))
    };
    // A client takes 4 MiB unless it says otherwise.
    let mut client = daemon.client().max_decoding_message_size(4 * 1024 * 1024);

    let passed = client.dispatch(request(long)).await.unwrap().into_inner();
    let refused = client
        .dispatch(request(&format!("{long} >&2; exit 1")))
        .await
        .unwrap()
        .into_inner();

    // What is only passed on is left out, and it is said; what decides still does.
    let verdict = passed.hooks[0].verdict.clone().unwrap();
    assert_eq!(
        (verdict.decision(), verdict.output),
        (pb::Decision::Allow, None)
    );
    assert_eq!(verdict.warnings.len(), 1);
    let answer = refused.answer.unwrap();
    assert_eq!(
        (answer.decision(), answer.failed),
        (pb::Decision::Deny, true)
    );
    assert!(!answer.reason.is_empty());
}

#[tokio::test]
async fn a_refusal_is_no_failure_that_may_be_let_pass() {
    for (ask_for_consent, decision) in [(false, pb::Decision::None), (true, pb::Decision::Block)] {
        let hook = "[[hook]]\ncontract = \"loom\"\npoint = \"session.start\"\non_failure = \"open\"\n\
                    command = \"exit 1\"\n";
        let setup = Setup {
            ask_for_consent,
            config: hook.to_owned(),
            ..Setup::default()
        };
        let daemon = Daemon::with(setup).await;

        let response = daemon.dispatch(at("session.start", &json!({}))).await;

        let answer = response.answer.unwrap();
        assert_eq!(answer.decision(), decision, "{ask_for_consent}");
        assert_eq!(answer.recorded_block, ask_for_consent);
    }
}

/// Runs `hookjail dispatch` with these words against a daemon; returns its exit code and what it printed.
#[expect(
    clippy::disallowed_methods,
    reason = "the test starts the command line itself, never a hook"
)]
fn typed(daemon: &Daemon, words: &[&str]) -> (Option<i32>, String) {
    let socket = daemon.path().join("sock");
    let output = Command::new(env!("CARGO_BIN_EXE_hookjail"))
        .args(["dispatch", "--connect"])
        .arg(socket)
        .args(words)
        .current_dir(daemon.workspace())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code(), text)
}

#[tokio::test]
async fn the_command_line_says_by_its_exit_code_what_is_stopped() {
    let daemon = Daemon::start().await;
    let hook = |line| ["--contract", "loom", "--point", "tool.pre", "--hook", line];
    let (code, text) = typed(&daemon, &hook("tool.pre=echo fine"));
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("ALLOW") && text.contains("fine"), "{text}");
    let (code, text) = typed(&daemon, &hook("tool.pre=echo no >&2; exit 1"));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("DENY") && text.contains("no"), "{text}");
    // A hook of another point is not due.
    let (code, text) = typed(&daemon, &hook("tool.post=exit 1"));
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("none is due"), "{text}");
    // A block that is only recorded stops nothing.
    let recorded = [
        "--contract",
        "loom",
        "--point",
        "tool.post",
        "--hook",
        "tool.post=exit 1",
    ];
    assert_eq!(typed(&daemon, &recorded).0, Some(0));
    // Where the contract lets a failure pass, the caller need not.
    let claude = [
        "--contract",
        "claude-code",
        "--point",
        "PreToolUse",
        "--hook",
        "PreToolUse=exit 1",
    ];
    assert_eq!(typed(&daemon, &claude).0, Some(0));
    let closed = [&claude[..], &["--fail-closed"]].concat();
    assert_eq!(typed(&daemon, &closed).0, Some(2));
    let (code, text) = typed(
        &daemon,
        &["--json", "--contract", "loom", "--point", "nowhere"],
    );
    assert_eq!(code, Some(125), "{text}");
    let error: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(error["error"]["reason"], "INVALID_REQUEST");
}

#[test]
fn without_a_daemon_and_a_hook_nobody_was_asked() {
    let here = CommandLine::new();
    let at = ["dispatch", "--contract", "loom", "--point", "tool.pre"];
    let output = here.run(&at);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("nobody was asked"));
    // The control: of hooks that there are, none may be due.
    let output = here.run(&[&at[..], &["--hook", "tool.post=exit 1"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let config = here.path().join("hookjail.toml");
    let configured = fs::read_to_string(&config).unwrap();
    let hook = "[[hook]]\ncontract = \"loom\"\npoint = \"tool.post\"\ncommand = \"exit 1\"\n";
    for more in [hook, "[hooks]\ndisabled = true\n"] {
        fs::write(&config, format!("{configured}{more}")).unwrap();
        let output = here.run(&at);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
}

#[tokio::test]
async fn a_client_that_goes_away_takes_the_hooks_of_its_dispatch_with_it() {
    let daemon = Daemon::start().await;
    let marker = a_minute();
    let request = pb::DispatchRequest {
        contract: pb::Contract::DockerAgent.into(),
        inline_hooks: ["one", "two"]
            .map(|name| inline(name, &format!("sleep {marker}; echo {name}")))
            .into(),
        workspace: daemon.workspace().display().to_string(),
        ..at("user_prompt_submit", &json!({}))
    };
    let mut client = daemon.client();
    let call = tokio::spawn(async move { client.dispatch(request).await });
    // Before its exec a hook would not be started at all.
    until("both hooks' begin", || {
        let processes = processes_with(&marker);
        processes
            .iter()
            .filter(|line| line.starts_with("sleep"))
            .count()
            >= 2
    })
    .await;

    call.abort();

    until_gone(&marker).await;
    until("the end records", || daemon.records().len() == 4).await;
    let ended = daemon.journal();
    let ended: Vec<_> = ended
        .iter()
        .filter(|record| record["record"] == "ended")
        .collect();
    assert_eq!(ended.len(), 2);
    assert!(ended.iter().all(|record| record["outcome"] == "canceled"));
}

#[tokio::test]
async fn hooks_of_a_sequential_group_of_geminis_read_what_the_one_before_rewrote() {
    for sequential in [true, false] {
        let directory = crate::support::directory();
        let file = directory.path().join("settings.json");
        let first = r#"echo '{"hookSpecificOutput":{"tool_input":{"a":1}}}'"#;
        let second =
            r#"grep -q '"tool_input":{"b":2,"a":1}' && echo '{"systemMessage":"rewritten"}'"#;
        let hooks = [first, second].map(|command| json!({"type": "command", "command": command}));
        let group = json!({"sequential": sequential, "hooks": hooks});
        fs::write(&file, json!({"hooks": {"BeforeTool": [group]}}).to_string()).unwrap();
        fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
        let config = format!("[[hooks_file]]\ncontract = \"gemini_cli\"\npath = {file:?}\n");
        let daemon = Daemon::with_hooks(&config).await;
        let event = json!({"tool_name": "write_file", "tool_input": {"b": 2}});

        let response = daemon.dispatch(at("BeforeTool", &event)).await;

        let answer = response.answer.unwrap();
        let input = answer.updated_input_json.as_deref();
        assert_eq!(input, Some(r#"{"a":1}"#), "{answer:?}");
        assert_eq!(
            answer.system_message == "rewritten",
            sequential,
            "{answer:?}"
        );
    }
}
