//! All hooks due at a lifecycle point come to one answer: rules of every contract.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start the command line itself, never a hook"
)]

use std::{
    fs,
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use hookjail::pb::{self, dispatched_hook::End};
use serde_json::json;
use tonic::Code;

use crate::{
    support::{Daemon, Setup, directory, dispatch_at, inline, reached, reason},
    witness::{CommandLine, a_minute, hookjail, processes_with, until, until_gone},
};

#[tokio::test]
async fn with_no_hook_due_nothing_is_started_and_nothing_written() {
    let daemon = Daemon::with_hooks(
        "[[hook]]\ncontract = \"loom\"\npoint = \"tool.pre\"\ncommand = \"exit 1\"\n",
    )
    .await;

    let response = daemon.dispatch(dispatch_at("tool.post", &json!({}))).await;

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
        let response = daemon.dispatch(dispatch_at(point, &json!({}))).await;
        let [hook] = &response.hooks[..] else {
            panic!("{point}: {:?}", response.hooks)
        };
        let Some(End::Refused(refusal)) = &hook.end else {
            panic!("{point}: {:?}", hook.end)
        };
        assert_eq!(refusal.reason, "CONSENT_REQUIRED");
        assert!(refusal.metadata["approve"].contains("hookjail allow"));
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
async fn a_hook_that_is_refused_for_its_workspace_has_no_invalid_command() {
    let daemon = Daemon::with_hooks(
        "[[hook]]\ncontract = \"claude_code\"\npoint = \"PostToolUse\"\ncommand = \"true\"\n",
    )
    .await;
    let request = pb::DispatchRequest {
        workspace: "/nonexistent".to_owned(),
        ..dispatch_at("PostToolUse", &json!({}))
    };

    let response = daemon
        .client()
        .dispatch(request)
        .await
        .unwrap()
        .into_inner();

    let [hook] = &response.hooks[..] else {
        panic!("{:?}", response.hooks)
    };
    let Some(End::Refused(refusal)) = &hook.end else {
        panic!("{:?}", hook.end)
    };
    assert_eq!(refusal.reason, "INVALID_REQUEST", "{refusal:?}");
    assert_eq!(hook.verdict.as_ref().unwrap().skip_reason, "refused");
}

#[tokio::test]
async fn a_refusal_is_a_no_before_a_tool_call_and_keeps_nobody_working() {
    let mut config = String::new();
    for (contract, gate, ending) in [
        ("claude_code", "PreToolUse", "Stop"),
        ("codex", "PermissionRequest", "SubagentStop"),
        ("gemini_cli", "BeforeTool", "AfterAgent"),
        ("copilot", "permissionRequest", "agentStop"),
        ("qwen_code", "PreToolUse", "SubagentStop"),
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
            ..dispatch_at(point, &json!({}))
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
    assert!(daemon.log().contains("hookjail allow"));
    let journal = daemon.journal();
    assert!(
        journal
            .iter()
            .all(|it| { it["message"].as_str().unwrap().contains("hookjail allow") })
    );
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
    let request = dispatch_at("session_start", &json!({}));
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
        ..dispatch_at("tool.pre", &json!({}))
    };
    for (request, field) in [
        (
            pb::DispatchRequest {
                event: dispatch_at("tool.during", &json!({})).event,
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
        ..dispatch_at("tool.pre", &json!({}))
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
        let other = dispatch_at(point, &json!({"tool_name": "Read"}));
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
        guard("claude_code", "userpromptsubmit", ""),
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
        (
            pb::Contract::ClaudeCode,
            "UserPromptSubmit",
            json!({}),
            true,
        ),
        (
            pb::Contract::ClaudeCode,
            "userPromptSubmit",
            json!({"hook_event_name": "USERPROMPTSUBMIT"}),
            true,
        ),
        (
            pb::Contract::ClaudeCode,
            "UserPromptExpansion",
            json!({}),
            false,
        ),
    ] {
        let request = pb::DispatchRequest {
            contract: contract.into(),
            ..dispatch_at(point, &event)
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

/// Returns the configuration of a file with a Gemini CLI hook that denies with the value of a variable of its own.
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
async fn hooks_are_told_where_things_are_by_the_variables_of_their_runtime() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    fs::create_dir(root.join("hooks")).unwrap();
    let file = |contract: &str, name: &str, hook: &serde_json::Value, owner: &str| {
        let path = root.join(name);
        let point = if contract == "gemini_cli" {
            "BeforeTool"
        } else {
            "PreToolUse"
        };
        let settings = json!({"hooks": {point: [{"hooks": [hook]}]}});
        fs::write(&path, settings.to_string()).unwrap();
        format!("[[hooks_file]]\ncontract = {contract:?}\npath = {path:?}\n{owner}")
    };
    let saying =
        |what: &str| json!({"type": "command", "command": format!("echo \"{what}\" >&2; exit 2")});
    let mut gemini =
        saying("$GEMINI_PROJECT_DIR $CLAUDE_PROJECT_DIR $GEMINI_CWD $GEMINI_SESSION_ID");
    gemini["env"] = json!({"CLAUDE_PROJECT_DIR": "own"});
    let daemon = Daemon::with_hooks(
        &[
            file("gemini_cli", "gemini.json", &gemini, ""),
            file(
                "claude_code",
                "claude.json",
                &saying("$CLAUDE_PROJECT_DIR ${CLAUDE_PLUGIN_ROOT-none}"),
                "",
            ),
            file(
                "codex",
                "hooks/hooks.json",
                &saying("$PLUGIN_ROOT $CLAUDE_PLUGIN_ROOT"),
                "plugin = \"p\"\n",
            ),
            file("codex", "own.json", &saying("${PLUGIN_ROOT-none}"), ""),
            file(
                "codex",
                "other.json",
                &saying("$PLUGIN_ROOT"),
                "plugin = \"q\"\nbase = \"/opt\"\n",
            ),
        ]
        .concat(),
    )
    .await;
    let workspace = daemon.workspace();
    let workspace = workspace.display();
    let reasons = async |contract: pb::Contract, point: &str| {
        let event =
            json!({"cwd": "/below", "session_id": "s1", "tool_name": "Bash", "tool_input": {}});
        let request = pb::DispatchRequest {
            contract: contract.into(),
            ..dispatch_at(point, &event)
        };
        let reached = daemon.dispatch(request).await.hooks;
        let reasons = reached.into_iter().map(|hook| hook.verdict.unwrap().reason);
        reasons.collect::<Vec<_>>()
    };

    assert_eq!(
        reasons(pb::Contract::GeminiCli, "BeforeTool").await,
        [format!("{workspace} own /below s1")]
    );
    assert_eq!(
        reasons(pb::Contract::ClaudeCode, "PreToolUse").await,
        [format!("{workspace} none")]
    );
    let root = root.display();
    assert_eq!(
        reasons(pb::Contract::Codex, "PreToolUse").await,
        [
            format!("{root} {root}"),
            "none".to_owned(),
            "/opt".to_owned()
        ]
    );
}

#[tokio::test]
async fn claude_codes_hooks_run_for_calls_that_their_filters_are_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("settings.json");
    let hook = |name: &str, rule: &str| json!({"type": "command", "name": name, "command": format!(": {name}"), "if": rule});
    let hooks = [
        hook("git", "Bash(git *)"),
        hook("edit", "Edit(*.ts)"),
        hook("none", "no rule"),
    ];
    let settings = json!({"hooks": {"PreToolUse": [{"hooks": hooks}], "Stop": [{"hooks": hooks}]}});
    fs::write(&path, settings.to_string()).unwrap();
    let daemon = Daemon::with_hooks(&format!(
        "[[hooks_file]]\ncontract = \"claude_code\"\npath = {path:?}\n"
    ))
    .await;
    let due = async |point: &str, event: serde_json::Value| {
        let response = daemon.dispatch(dispatch_at(point, &event)).await;
        reached(&response).join(" ")
    };
    let bash = |command: &str| json!({"tool_name": "Bash", "tool_input": {"command": command}});

    assert_eq!(due("PreToolUse", bash("ls && git push")).await, "git none");
    assert_eq!(due("PreToolUse", bash("ls")).await, "none");
    assert_eq!(due("PreToolUse", bash("$(ls)")).await, "git none");
    let edit = json!({"tool_name": "Edit", "tool_input": {"file_path": "/x.rs"}});
    assert_eq!(due("PreToolUse", edit).await, "edit none");
    assert_eq!(due("PreToolUse", json!({})).await, "git edit none");
    assert_eq!(due("Stop", json!({})).await, "git edit none");
}

#[tokio::test]
async fn hooks_of_a_file_run_with_the_variables_that_it_gives_them() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::with_hooks(&file_of_hooks(directory.path())).await;
    let event_for =
        |tool: &str| dispatch_at("BeforeTool", &json!({"tool_name": tool, "tool_input": {}}));

    let denied = daemon.dispatch(event_for("write_file")).await;
    let other = daemon.dispatch(event_for("read_file")).await;

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
        let mut request = dispatch_at("BeforeTool", &json!({"tool_name": "write_file"}));
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

/// Returns the configuration of a file with Gemini CLI hooks at `BeforeTool`, each a command line.
fn file_of_lines(directory: &Path, lines: &[&str]) -> String {
    let path = directory.join("settings.json");
    let hook = |line: &&str| json!({"type": "command", "command": line});
    let hooks: Vec<_> = lines.iter().map(hook).collect();
    let settings = json!({"hooks": {"BeforeTool": [{"hooks": hooks}]}});
    fs::write(&path, settings.to_string()).unwrap();
    format!("[[hooks_file]]\ncontract = \"gemini_cli\"\npath = {path:?}\n")
}

#[tokio::test]
async fn a_rule_of_the_operators_is_for_the_hooks_of_a_file_that_it_means() {
    let directory = tempfile::tempdir().unwrap();
    let lines = ["echo >one", "echo >two", "exec sleep 60"];
    let file = file_of_lines(directory.path(), &lines);
    let rules = r#"
[[hooks_file.rule]]
command = "echo >one"
profile = "workspace-rw"
[[hooks_file.rule]]
point = "BeforeTool"
command = "exec sleep 60"
timeout = "200ms"
on_failure = "closed"
"#;
    let daemon = Daemon::with_hooks(&format!("{file}{rules}")).await;

    let response = daemon
        .dispatch(dispatch_at(
            "BeforeTool",
            &json!({"tool_name": "write_file"}),
        ))
        .await;

    let exists = |name: &str| daemon.workspace().join(name).exists();
    assert_eq!((exists("one"), exists("two")), (true, false));
    let Some(End::Ran(slow)) = &response.hooks[2].end else {
        panic!("{:?}", response.hooks[2])
    };
    assert_eq!(slow.outcome.unwrap().kind(), pb::OutcomeKind::TimedOut);
    let answer = response.answer.unwrap();
    assert_eq!(answer.decision(), pb::Decision::Deny);
}

#[tokio::test]
async fn a_profile_of_the_operators_is_granted_by_what_names_it_for_a_file_and_by_no_request() {
    let directory = tempfile::tempdir().unwrap();
    let file = file_of_lines(directory.path(), &["exit 0"]);
    let by_key = "profile = \"network\"\n";
    let by_rule = "[[hooks_file.rule]]\ncommand = \"exit 0\"\nprofile = \"network\"\n";
    for (grant, ask_for_consent, refused) in [
        (by_key, false, None),
        (by_rule, false, None),
        // The profile is granted, and the command needs a consent all the same.
        (by_rule, true, Some("CONSENT_REQUIRED")),
    ] {
        let setup = Setup {
            ask_for_consent,
            config: format!("{file}{grant}"),
            ..Setup::default()
        };
        let daemon = Daemon::with(setup).await;
        let response = daemon
            .dispatch(dispatch_at(
                "BeforeTool",
                &json!({"tool_name": "write_file"}),
            ))
            .await;
        match (&response.hooks[0].end, refused) {
            (Some(End::Ran(ran)), None) => {
                assert_eq!(ran.confinement.as_ref().unwrap().profile, "network");
            }
            (Some(End::Refused(refusal)), Some(reason)) => assert_eq!(refusal.reason, reason),
            (end, _) => panic!("{grant}: {end:?}"),
        }
    }

    let daemon = Daemon::offering(&["network"]).await;
    let hook = inline("outbound", "exit 0");
    let whole = pb::DispatchRequest {
        contract: pb::Contract::GeminiCli.into(),
        inline_hooks: vec![hook],
        profile: "network".to_owned(),
        ..dispatch_at("BeforeTool", &json!({"tool_name": "write_file"}))
    };
    let response = daemon.dispatch(whole).await;
    let Some(End::Refused(refusal)) = &response.hooks[0].end else {
        panic!("{:?}", response.hooks[0])
    };
    assert_eq!(refusal.reason, "NOT_ALLOWLISTED");
}

#[tokio::test]
async fn a_request_names_the_profile_of_the_hooks_that_it_brings() {
    let directory = tempfile::tempdir().unwrap();
    let file = file_of_lines(directory.path(), &["echo >configured"]);
    let daemon = Daemon::with_hooks(&file).await;
    let with_profile = |profile: &str, line: &str| pb::InlineHook {
        profile: profile.to_owned(),
        ..inline(line, line)
    };
    let request = pb::DispatchRequest {
        contract: pb::Contract::GeminiCli.into(),
        inline_hooks: vec![
            with_profile("workspace-ro", "echo >one"),
            with_profile("", "echo >two"),
            with_profile("none", "echo >three"),
        ],
        profile: "workspace-rw".to_owned(),
        ..dispatch_at("BeforeTool", &json!({"tool_name": "write_file"}))
    };

    let response = daemon.dispatch(request).await;

    let exists = |name: &str| daemon.workspace().join(name).exists();
    let all = ["configured", "one", "two", "three"].map(exists);
    assert_eq!(all, [false, false, true, false]);
    let Some(End::Refused(refusal)) = &response.hooks[3].end else {
        panic!("{:?}", response.hooks[3])
    };
    assert_eq!(refusal.reason, "PROFILE_UNKNOWN");
}

#[tokio::test]
#[expect(
    clippy::disallowed_methods,
    reason = "tests start the command line, never a hook"
)]
async fn the_line_that_a_refusal_names_allows_the_hook_as_its_file_writes_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = |contract: &str, name: &str, text: String| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        format!("[[hooks_file]]\ncontract = {contract:?}\npath = {path:?}\n")
    };
    let base_coat =
        |command: &str| json!({"version": 1, "hooks": {"PreToolUse": [{"command": command}]}});
    let grouped = |command: &str| {
        let hook = json!({"type": "command", "command": command});
        json!({"hooks": {"BeforeTool": [{"hooks": [hook]}]}})
    };
    let of_claude = |hook: serde_json::Value| json!({"hooks": {"PreToolUse": [{"hooks": [hook]}]}});
    for (contract, point, text) in [
        (
            "claude_code",
            "PreToolUse",
            of_claude(json!({"type": "command", "command": "\"$CLAUDE_PROJECT_DIR\"/scripts/say.sh"}))
                .to_string(),
        ),
        (
            "claude_code",
            "PreToolUse",
            of_claude(json!({
                "type": "command", "command": "sh", "args": ["${CLAUDE_PROJECT_DIR}/scripts/say.sh"],
            }))
            .to_string(),
        ),
        (
            "gemini_cli",
            "BeforeTool",
            grouped("$GEMINI_PROJECT_DIR/scripts/say.sh -a").to_string(),
        ),
        (
            "qwen_code",
            "PreToolUse",
            of_claude(json!({
                "type": "command", "command": "$QWEN_PROJECT_DIR/scripts/say.sh -a",
            }))
            .to_string(),
        ),
        (
            "reyn",
            "turn_end",
            "hooks:\n- {on: turn_end, shell_exec: scripts/say.sh}\n".to_owned(),
        ),
        (
            "reyn",
            "turn_end",
            "hooks:\n- {on: turn_end, exec: [/bin/sh, ./scripts/say.sh]}\n".to_owned(),
        ),
        (
            "basecoat",
            "PreToolUse",
            base_coat("./scripts/say.sh --all").to_string(),
        ),
        (
            "basecoat",
            "PreToolUse",
            base_coat("sh scripts/say.sh").to_string(),
        ),
        (
            "gemini_cli",
            "BeforeTool",
            grouped("./scripts/say.sh").to_string(),
        ),
        (
            "docker_agent",
            "turn_end",
            "hooks:\n  turn_end:\n  - {type: command, command: 'sh scripts/say.sh'}\n".to_owned(),
        ),
    ] {
        let setup = Setup {
            ask_for_consent: true,
            config: file(contract, "hooks", text.clone()),
            ..Setup::default()
        };
        let daemon = Daemon::with(setup).await;
        let workspace = daemon.workspace();
        fs::create_dir(workspace.join("scripts")).unwrap();
        let script = workspace.join("scripts/say.sh");
        let write = |what: &str| {
            fs::write(&script, format!("#!/bin/sh\npwd >&2\necho {what} >&2\n")).unwrap();
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        };
        write("said");
        let end = async || {
            daemon
                .dispatch(dispatch_at(point, &json!({})))
                .await
                .hooks
                .remove(0)
                .end
        };

        let Some(End::Refused(refusal)) = end().await else {
            panic!("{text}: the hook was not refused")
        };
        assert_eq!(refusal.reason, "CONSENT_REQUIRED", "{text}");
        let words = shlex::split(&refusal.metadata["approve"]).unwrap();
        let words: Vec<_> = words.iter().skip(1).map(String::as_str).collect();
        let mut allow = hookjail(&daemon.path().join("hookjail.toml"), &words);
        // From anywhere.
        let output = allow.current_dir("/").output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");

        let Some(End::Ran(ran)) = end().await else {
            panic!("{text}: {words:?} did not allow it")
        };
        let expected = format!("{}\nsaid\n", workspace.display());
        assert_eq!(String::from_utf8_lossy(&ran.stderr), expected, "{text}");
        // The consent is for the script as it was.
        write("more");
        let Some(End::Refused(refusal)) = end().await else {
            panic!("{text}: a changed script ran")
        };
        assert_eq!(refusal.reason, "DIGEST_MISMATCH", "{text}");
    }
}

#[tokio::test]
async fn relative_paths_of_a_files_commands_start_at_the_base_that_the_operator_names() {
    let directory = directory();
    let scripts = directory.path().join("scripts");
    fs::create_dir(&scripts).unwrap();
    for path in [directory.path(), &scripts] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let script = scripts.join("say.sh");
    fs::write(&script, "#!/bin/sh\necho of the base >&2\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let path = directory.path().join("reyn.yaml");
    let hooks = "hooks:\n- {on: turn_end, shell_exec: scripts/say.sh}\n- {on: turn_end, exec: [/bin/sh, scripts/say.sh]}\n";
    fs::write(&path, hooks).unwrap();
    let base = directory.path();
    let config = format!("[[hooks_file]]\ncontract = \"reyn\"\npath = {path:?}\nbase = {base:?}\n");
    let daemon = Daemon::with_hooks(&config).await;

    let response = daemon.dispatch(dispatch_at("turn_end", &json!({}))).await;

    for hook in &response.hooks {
        let Some(End::Ran(ran)) = &hook.end else {
            panic!("{hook:?}")
        };
        assert_eq!(String::from_utf8_lossy(&ran.stderr), "of the base\n");
    }
    assert_eq!(response.hooks.len(), 2);
}

#[tokio::test]
async fn no_hook_is_due_where_hooks_are_disabled() {
    let directory = tempfile::tempdir().unwrap();
    let hooks =
        "[[hook]]\ncontract = \"gemini_cli\"\npoint = \"BeforeTool\"\ncommand = \"exit 2\"\n";
    let files = file_of_hooks(directory.path());
    let daemon = Daemon::with_hooks(&format!("{hooks}{files}[hooks]\ndisabled = true\n")).await;

    let event = json!({"tool_name": "write_file"});
    let response = daemon.dispatch(dispatch_at("BeforeTool", &event)).await;

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
        ..dispatch_at("tool.pre", &json!({}))
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
        ..dispatch_at("tool.pre", &json!({}))
    };
    // A client takes 4 MiB unless it is configured otherwise.
    let mut client = daemon.client().max_decoding_message_size(4 * 1024 * 1024);

    let passed = client.dispatch(request(long)).await.unwrap().into_inner();
    let refused = client
        .dispatch(request(&format!("{long} >&2; exit 1")))
        .await
        .unwrap()
        .into_inner();

    // Output that is only passed on is left out, with a warning; output that decides still does.
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

        let response = daemon
            .dispatch(dispatch_at("session.start", &json!({})))
            .await;

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
    let output = crate::support::command(env!("CARGO_BIN_EXE_hookjail"))
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

#[tokio::test]
async fn the_command_line_says_of_a_hook_that_failed_what_may_be_why() {
    let daemon = Daemon::start().await;
    let of_docker_agent = |line| {
        let place = ["--contract", "docker-agent", "--point", "session_end"];
        [&place[..], &["--hook", line]].concat()
    };
    let line = "session_end=for i in 1 2 3 4; do echo said-$i >&2; done; echo x >>/etc/agent.log";
    let (_, text) = typed(&daemon, &of_docker_agent(line));
    for part in ["said-4", "/etc/agent.log", "exited 2"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("said-1"), "{text}");
    let is_observed = text.contains("denied    write");
    let advice = "hookjail explain --profile workspace-ro path read PATH";
    assert!(is_observed || text.contains(advice), "{text}");
    // A hook that went on is shown with its last line, and no cause is looked for.
    let line = "session_end=echo fine >&2; echo x >>/etc/agent.log; echo after >&2";
    let (_, text) = typed(&daemon, &of_docker_agent(line));
    assert!(text.contains("exited 0"), "{text}");
    assert!(text.contains("stderr    after"), "{text}");
    assert!(
        !text.contains("stderr    fine") && !text.contains("denied"),
        "{text}"
    );
    let (_, text) = typed(&daemon, &of_docker_agent("session_end=true"));
    assert!(!text.contains("stderr"), "{text}");

    let run_under = |profile: &str| {
        let hook = of_docker_agent("session_end=echo x >written");
        typed(&daemon, &[&hook[..], &["--profile", profile]].concat())
    };
    let written = daemon.workspace().join("written");
    run_under("workspace-ro");
    assert!(!written.exists());
    run_under("workspace-rw");
    assert!(written.exists());
}

#[tokio::test]
async fn a_hook_that_says_no_by_itself_is_not_said_to_have_been_refused_files() {
    let daemon = Daemon::start().await;
    let advice = "are not observed";
    for (contract, point, no) in [
        ("docker-agent", "pre_tool_use", "echo no >&2; exit 2"),
        ("claude-code", "PreToolUse", "echo no >&2; exit 2"),
        ("loom", "tool.pre", "echo no >&2; exit 1"),
    ] {
        let typed = |line: &str| {
            let hook = format!("{point}={line}");
            typed(
                &daemon,
                &["--contract", contract, "--point", point, "--hook", &hook],
            )
        };
        let (code, text) = typed(no);
        assert_eq!(code, Some(2), "{contract}: {text}");
        assert!(
            text.contains("DENY") && !text.contains(advice),
            "{contract}: {text}"
        );
        // The hook may need a file.
        let (_, text) = typed(&format!("cat /etc/shadow; {no}"));
        let is_observed = text.contains("denied    read");
        assert!(is_observed || text.contains(advice), "{contract}: {text}");
    }
}

#[tokio::test]
async fn the_command_line_shows_what_an_answer_rewrites_and_says_to_the_user() {
    let daemon = Daemon::start().await;
    let shown = |contract: &str, point: &str, reply: serde_json::Value| {
        let hook = format!("{point}=printf '%s' '{reply}'");
        let words = ["--contract", contract, "--point", point, "--hook", &hook];
        typed(&daemon, &words).1
    };
    let text = shown(
        "docker-agent",
        "pre_tool_use",
        json!({"system_message": "look\nout", "hook_specific_output": {
            "permission_decision": "allow",
            "updated_input": {"timeout": 10, "rest": "x".repeat(500)},
        }}),
    );
    let line = |label: &str| {
        let mut lines = text.lines();
        let found = lines.find(|line| line.starts_with(label));
        found.unwrap_or_else(|| panic!("{label}: {text}"))
    };
    assert!(line("input").contains(r#"rewritten: {"#), "{text}");
    assert!(
        line("input").contains(" bytes in all)") && line("input").len() < 300,
        "{text}"
    );
    assert!(line("to the user").ends_with(r#""look\nout""#), "{text}");
    let text = shown(
        "docker-agent",
        "tool_response_transform",
        json!({"hook_specific_output": {"updated_tool_response": "short"}}),
    );
    assert!(text.contains("result      rewritten: \"short\""), "{text}");

    let hooks = "[[hook]]\nname = \"nudge\"\ncontract = \"reyn\"\nmode = \"shell_push\"\npoint = \"turn_end\"\n\
                 command = [\"/bin/echo\", '{\"message\": \"again\", \"wake\": true, \"push_when\": true, \"session\": \"other\"}']\n";
    let daemon = Daemon::with_hooks(hooks).await;
    let (_, text) = typed(&daemon, &["--point", "turn_end"]);
    let expected = r#"push        wake=true name="nudge" session="other" message="again""#;
    assert!(text.contains(expected), "{text}");
}

#[tokio::test]
async fn a_hook_that_looks_on_runs_behind_a_block_and_decides_nothing() {
    let hook = |name: &str, command: &str, more: &str| {
        format!(
            "[[hook]]\nname = {name:?}\ncontract = \"loom\"\npoint = \"tool.pre\"\ncommand = {command:?}\n{more}"
        )
    };
    let config = [
        hook("off", "exit 1", "enabled = false\n"),
        hook("guard", "echo no >&2; exit 1", ""),
        hook("skipped", "exit 0", ""),
        hook(
            "telemetry",
            "echo also no >&2; exit 1",
            "after_block = \"run\"\n",
        ),
    ];
    let daemon = Daemon::with_hooks(&config.concat()).await;

    let response = daemon.dispatch(dispatch_at("tool.pre", &json!({}))).await;

    assert_eq!(reached(&response), ["guard", "telemetry"]);
    assert_eq!(response.blocked_by_hook, "guard");
    assert_eq!(response.answer.unwrap().reason, "no");
    let looked_on = response.hooks.iter().map(|hook| hook.only_looked_on);
    assert_eq!(looked_on.collect::<Vec<_>>(), [false, true]);
    // The output for people shows this, and the statistics do not count the answer as a block.
    let dispatched = command_line(&daemon, &["dispatch", "--point", "tool.pre"]);
    for line in [
        "telemetry: exited 1 (DENY, failed, only looked on)\n",
        "guard: exited 1 (DENY, failed)\n",
    ] {
        assert!(dispatched.contains(line), "{dispatched}");
    }
    let counted = command_line(&daemon, &["audit", "stats"]);
    assert!(counted.contains("runs 4, blocked 2, "), "{counted}");
}

/// Returns what a command prints that has this daemon to ask.
fn command_line(daemon: &Daemon, words: &[&str]) -> String {
    let mut command = hookjail(&daemon.path().join("hookjail.toml"), words);
    command.env("HOOKJAIL_ADDR", daemon.path().join("sock"));
    let output = command.current_dir(daemon.workspace()).output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&printed).into_owned()
}

#[tokio::test]
async fn a_loop_valve_that_is_shut_says_whether_it_held_a_turn_back() {
    let push = r#"echo '{"message":"m","wake":true,"push_when":true}'"#;
    let config = format!(
        "[hooks]\nmax_hook_driven_turns = 1\n[[hook]]\ncontract = \"reyn\"\nmode = \"shell_push\"\npoint = \"turn_end\"\n\
         command = [\"/bin/sh\", \"-c\", {push:?}]\n"
    );
    let daemon = Daemon::with_hooks(&config).await;
    let dispatch = || {
        let words = [
            "dispatch",
            "--point",
            "turn_end",
            "--session",
            "s",
            "--turn-origin",
            "hook",
        ];
        command_line(&daemon, &words)
    };
    let [first, second] = [dispatch(), dispatch()];
    assert!(
        first.contains("the next one is not opened: warn"),
        "{first}"
    );
    assert!(first.contains("wake=true"), "{first}");
    assert!(
        second.contains("hooks would open another turn after 1 in a row"),
        "{second}"
    );
    assert!(second.contains("wake=false"), "{second}");
}

#[tokio::test]
async fn a_dispatch_that_is_refused_whole_is_recorded_with_the_contract_and_point_that_it_names() {
    let daemon = Daemon::start().await;
    let dispatch = |words: &[&str]| {
        let words = [&["dispatch", "--contract", "reyn"], words].concat();
        command_line(&daemon, &words)
    };
    let hook = ["--point", "session_start", "--hook", "session_start=echo x"];
    let refused = dispatch(&hook);
    assert!(refused.contains("INVALID_REQUEST"), "{refused}");
    let named = |record: &serde_json::Value| {
        [&record["contract"], &record["point"]].map(|it| it.as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(named(&daemon.journal()[0]), ["reyn", "session_start"]);
    // An unknown point or mode is not written down as one.
    let request = pb::DispatchRequest {
        contract: pb::Contract::Loom.into(),
        ..dispatch_at("no.such", &json!({}))
    };
    daemon.client().dispatch(request).await.unwrap_err();
    let bad = pb::ExecuteRequest {
        contract: pb::Contract::Infer.into(),
        mode: "none".to_owned(),
        event: dispatch_at("post_tool", &json!({})).event,
        ..crate::support::hook(["/bin/true"])
    };
    daemon.run(bad).await.unwrap_err();
    let records = daemon.journal();
    assert_eq!(named(&records[1]), ["loom", ""]);
    assert_eq!(named(&records[2]), ["infer", "post_tool"]);
    // The mode can be named.
    let ran = dispatch(&[&hook[..], &["--mode", "shell_exec"]].concat());
    assert!(ran.contains("exited 0"), "{ran}");
}

#[tokio::test]
async fn a_contracts_own_event_has_the_command_as_it_is_written() {
    let directory = directory();
    let path = directory.path().join("reyn.yaml");
    fs::write(&path, "hooks:\n- {on: turn_end, exec: [echo, a b]}\n").unwrap();
    let config = format!("[[hooks_file]]\ncontract = \"reyn\"\npath = {path:?}\n");
    let daemon = Daemon::with_hooks(&config).await;

    let response = daemon.dispatch(dispatch_at("turn_end", &json!({}))).await;

    let [event] = &response.events[..] else {
        panic!("{response:?}")
    };
    let event: serde_json::Value = serde_json::from_str(&event.json).unwrap();
    assert_eq!(event["command"], "echo 'a b'");
    let shown = command_line(&daemon, &["audit", "query", "--events"]);
    assert!(shown.contains("shell_exec: echo 'a b'"), "{shown}");
}

#[tokio::test]
async fn a_contracts_own_event_names_the_turn_and_session_that_the_event_names() {
    let hook = |contract: &str, point: &str| {
        format!("[[hook]]\ncontract = {contract:?}\npoint = {point:?}\ncommand = \"pwd\"\n")
    };
    let config = [hook("infer", "post_tool"), hook("docker_agent", "stop")].concat();
    let daemon = Daemon::with_hooks(&config).await;
    let event_sent = async |point: &str, event: serde_json::Value, turn, session: &str| {
        let request = pb::DispatchRequest {
            session_id: session.to_owned(),
            turn,
            ..dispatch_at(point, &event)
        };
        let response = daemon.dispatch(request).await;
        let event: serde_json::Value = serde_json::from_str(&response.events[0].json).unwrap();
        event
    };
    let turn = async |event, turn| event_sent("post_tool", event, turn, "").await["turn"].clone();
    assert_eq!(turn(json!({"turn": 4}), None).await, 4);
    assert_eq!(turn(json!({"turn": 4}), Some(7)).await, 4);
    assert_eq!(turn(json!({}), Some(7)).await, 7);
    assert_eq!(turn(json!({}), None).await, 0);
    let session =
        async |event, known| event_sent("stop", event, None, known).await["session"].clone();
    assert_eq!(session(json!({"session_id": "own"}), "known").await, "own");
    assert_eq!(session(json!({}), "known").await, "known");
}

#[tokio::test]
async fn what_an_entry_with_write_paths_is_told_to_do_has_it_run() {
    let directory = directory();
    let path = directory.path().join("reyn.yaml");
    let write = |more: &str| {
        let hooks = format!(
            "hooks:\n- {{on: turn_end, name: notes, exec: [sh, -c, 'echo x > out']{more}}}\n"
        );
        fs::write(&path, hooks).unwrap();
    };
    let file = format!("[[hooks_file]]\ncontract = \"reyn\"\npath = {path:?}\n");
    write(", write_paths: [/srv/out]");
    let daemon = Daemon::with_hooks(&file).await;
    let response = daemon.dispatch(dispatch_at("turn_end", &json!({}))).await;
    let Some(End::Refused(refusal)) = &response.hooks[0].end else {
        panic!("{response:?}")
    };
    let hint = "remove them, and name a profile that grants them in a `[[hooks_file]]` rule";
    assert!(refusal.message.contains(hint), "{refusal:?}");

    write("");
    let rule = "[[hooks_file.rule]]\nname = \"notes\"\nprofile = \"workspace-rw\"\n";
    let daemon = Daemon::with_hooks(&format!("{file}{rule}")).await;
    let response = daemon.dispatch(dispatch_at("turn_end", &json!({}))).await;
    let Some(End::Ran(ran)) = &response.hooks[0].end else {
        panic!("{response:?}")
    };
    assert_eq!(ran.outcome.unwrap().exit_code, Some(0), "{ran:?}");
    let out = daemon.workspace().join("out");
    assert_eq!(fs::read_to_string(out).unwrap(), "x\n");
}

#[tokio::test]
async fn a_program_that_has_another_name_on_its_profiles_path_is_named_when_it_is_due_and_when_the_daemon_starts()
 {
    let directory = directory();
    let name = "no-such-program-but-for-3";
    let other = format!("{name}3");
    let program = directory.path().join(&other);
    fs::write(&program, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let setup = Setup {
        config: format!(
            "[[hook]]\ncontract = \"reyn\"\nmode = \"shell_exec\"\npoint = \"turn_end\"\ncommand = [{name:?}, \"x.py\"]\n\
             profile = \"own\"\n"
        ),
        profiles: vec![(
            "own".to_owned(),
            format!(
                "description = \"own\"\nextends = \"strict\"\n[environment]\npath = [{:?}]\n",
                directory.path()
            ),
        )],
        ..Setup::default()
    };
    let daemon = Daemon::with(setup).await;
    let hint = format!("; there is `{other}`");

    let response = daemon.dispatch(dispatch_at("turn_end", &json!({}))).await;

    let Some(End::Refused(refusal)) = &response.hooks[0].end else {
        panic!("{response:?}")
    };
    assert!(refusal.message.ends_with(&hint), "{refusal:?}");
    let log = daemon.log();
    let warning = format!("`{name}` is not on the PATH of profile `own`{hint}");
    assert!(log.contains(&warning), "{log}");
}

#[tokio::test]
async fn an_advisory_hook_is_heard_and_decides_nothing() {
    let hook = |name: &str, command: &str, more: &str| {
        format!(
            "[[hook]]\nname = {name:?}\ncontract = \"docker_agent\"\npoint = \"pre_tool_use\"\ncommand = {command:?}\n{more}"
        )
    };
    for kind in ["advisory", "policy"] {
        let more = format!("kind = {kind:?}\n");
        let config = [
            hook("hint", "echo not there >&2; exit 2", &more),
            hook("breaks", "exit 3", &more),
            format!(
                "[[hook]]\nname = \"own\"\ncontract = \"docker_agent\"\npoint = \"pre_tool_use\"\nbuiltin = \"safer_shell\"\n{more}"
            ),
            // Refused before it starts.
            hook(
                "refused",
                "date",
                &format!("{more}working_dir = \"/nowhere\"\n"),
            ),
        ];
        let daemon = Daemon::with_hooks(&config.concat()).await;

        let event = json!({"tool_name": "shell", "tool_input": {"cmd": "sudo rm -rf /"}});
        let response = daemon.dispatch(dispatch_at("pre_tool_use", &event)).await;

        let answer = response.answer.clone().unwrap();
        let decisions = response
            .hooks
            .iter()
            .map(|hook| hook.verdict.as_ref().unwrap().decision());
        let decisions: Vec<_> = decisions.collect();
        if kind == "policy" {
            assert_eq!(answer.decision(), pb::Decision::Deny, "{response:?}");
            assert_eq!(decisions.len(), 4);
            assert!(!decisions.contains(&pb::Decision::None), "{decisions:?}");
            continue;
        }
        assert_eq!(answer.decision(), pb::Decision::None, "{response:?}");
        assert_eq!(decisions, [pb::Decision::None; 4]);
        let expected = "the hook is advisory, and its decision is DENY: not there";
        assert!(
            answer.warnings.iter().any(|text| text == expected),
            "{answer:?}"
        );
        // The journal has what counted.
        let verdicts = daemon
            .journal()
            .into_iter()
            .filter(|it| it["record"] == "ended");
        let decided: Vec<_> = verdicts
            .map(|it| it["verdict"]["decision"].clone())
            .collect();
        assert_eq!(decided, [json!("NONE"), json!("NONE")]);
    }
}

#[tokio::test]
async fn another_agents_hooks_are_left_out_where_the_agent_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let file = |agent: &str| {
        let path = directory.path().join(agent);
        let text =
            format!("enabled: true\nhooks:\n- {{name: {agent}, hook: post_tool, command: date}}\n");
        fs::write(&path, text).unwrap();
        format!("[[hooks_file]]\ncontract = \"infer\"\npath = {path:?}\nagent = {agent:?}\n")
    };
    let plain = "[[hook]]\nname = \"own\"\ncontract = \"infer\"\npoint = \"post_tool\"\ncommand = \"date\"\n";
    let config = [plain, &file("coder"), &file("reviewer")].concat();
    let daemon = Daemon::with_hooks(&config).await;
    let run_by = async |agent: &str, scope: Option<pb::Scope>| {
        let request = pb::DispatchRequest {
            agent: agent.to_owned(),
            scope,
            ..dispatch_at("post_tool", &json!({}))
        };
        let response = daemon.dispatch(request).await;
        let names = reached(&response);
        names.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(run_by("", None).await, ["own", "coder", "reviewer"]);
    assert_eq!(run_by("coder", None).await, ["own", "coder"]);
    let scope = pb::Scope {
        agents: vec!["reviewer".to_owned()],
        ..pb::Scope::default()
    };
    assert_eq!(run_by("coder", Some(scope)).await, ["reviewer"]);
    let (_, text) = typed(
        &daemon,
        &["--point", "post_tool", "--scope", "agent=reviewer,operator"],
    );
    assert!(
        text.contains("own: ") && text.contains("reviewer: "),
        "{text}"
    );
    assert!(!text.contains("coder: "), "{text}");
}

#[tokio::test]
async fn context_says_how_long_it_stays_valid_where_its_contract_does() {
    let daemon = Daemon::start().await;
    for (contract, point, lifetime) in [
        (
            pb::Contract::DockerAgent,
            "session_start",
            pb::ContextLifetime::Session,
        ),
        (
            pb::Contract::DockerAgent,
            "turn_start",
            pb::ContextLifetime::Turn,
        ),
        (
            pb::Contract::DockerAgent,
            "user_followup_submit",
            pb::ContextLifetime::Turn,
        ),
        (
            pb::Contract::DockerAgent,
            "post_tool_use",
            pb::ContextLifetime::Unspecified,
        ),
    ] {
        let request = pb::DispatchRequest {
            contract: contract.into(),
            inline_hooks: vec![inline("told", "echo something")],
            ..dispatch_at(point, &json!({}))
        };
        let response = daemon.dispatch(request).await;
        let answer = response.answer.unwrap();
        let of_hook = response.hooks[0].verdict.as_ref().unwrap();
        assert_eq!(
            (answer.context_lifetime(), of_hook.context_lifetime()),
            (lifetime, lifetime),
            "{point}"
        );
        assert_eq!(answer.additional_context.len(), 1, "{point}");
    }
    // Without context there is no lifetime.
    let request = pb::DispatchRequest {
        contract: pb::Contract::DockerAgent.into(),
        inline_hooks: vec![inline("silent", "true")],
        ..dispatch_at("session_start", &json!({}))
    };
    let answer = daemon.dispatch(request).await.answer.unwrap();
    assert_eq!(answer.context_lifetime(), pb::ContextLifetime::Unspecified);
}

#[tokio::test]
async fn the_directory_that_an_event_is_about_is_the_workspace_where_nobody_names_one() {
    let daemon = Daemon::start().await;
    let inside = daemon.workspace().join("tree");
    let outside = daemon.outside("tree");
    for directory in [&inside, &outside] {
        fs::create_dir(directory).unwrap();
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let starts_in = async |event: serde_json::Value, workspace: &str| {
        let request = pb::DispatchRequest {
            contract: pb::Contract::Basecoat.into(),
            inline_hooks: vec![inline("where", "sh -c 'pwd >&2'")],
            workspace: workspace.to_owned(),
            ..dispatch_at("PreToolUse", &event)
        };
        let response = daemon.client().dispatch(request).await;
        let response = response.unwrap().into_inner();
        match &response.hooks[0].end {
            Some(End::Ran(ran)) => String::from_utf8_lossy(&ran.stderr).trim().to_owned(),
            end => panic!("{end:?}"),
        }
    };
    let root = daemon.workspace().display().to_string();
    let shown = inside.display().to_string();
    assert_eq!(starts_in(json!({"cwd": inside}), "").await, shown);
    assert_eq!(starts_in(json!({"cwd": inside}), &root).await, root);
    // A directory that may not be a workspace is none, and the hook runs as without one.
    for other in [
        json!({"cwd": outside}),
        json!({"cwd": inside.join("absent")}),
        json!({}),
    ] {
        let scratch = starts_in(other.clone(), "").await;
        assert!(!scratch.contains("tree"), "{other}: {scratch}");
    }
}

#[test]
fn without_a_daemon_and_a_hook_nobody_was_asked() {
    let line = CommandLine::new();
    let dispatch = ["dispatch", "--contract", "loom", "--point", "tool.pre"];
    let output = line.run(&dispatch);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("has a hook; add one"));
    // The control: of hooks that there are, none may be due.
    let output = line.run(&[&dispatch[..], &["--hook", "tool.post=exit 1"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let config = line.path().join("hookjail.toml");
    let configured = fs::read_to_string(&config).unwrap();
    let hook = "[[hook]]\ncontract = \"loom\"\npoint = \"tool.post\"\ncommand = \"exit 1\"\n";
    for more in [hook, "[hooks]\ndisabled = true\n"] {
        fs::write(&config, format!("{configured}{more}")).unwrap();
        let output = line.run(&dispatch);
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
        ..dispatch_at("user_prompt_submit", &json!({}))
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

        let response = daemon.dispatch(dispatch_at("BeforeTool", &event)).await;

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

mod with_tools {
    use super::*;

    const ASKED: &str =
        "[[hook]]\ncontract = \"loom\"\npoint = \"tool.pre\"\ncommand = \"echo allowed it\"\n";

    /// Returns a terminal in which a line of `sh` runs.
    fn terminal(line: &str) -> Command {
        let mut terminal = crate::support::command("script");
        terminal
            .args(["--quiet", "--return", "--command", line, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        terminal
    }

    /// Answers with yes what is asked in a terminal, and sees the hook run.
    fn is_asked_in(mut terminal: Command) {
        let mut terminal = terminal.spawn().unwrap();
        let mut shown = terminal.stdout.take().unwrap();
        let mut text = Vec::new();
        while !String::from_utf8_lossy(&text).contains("[N]o: ") {
            let mut some = [0; 1024];
            let read = shown.read(&mut some).unwrap();
            assert!(read > 0, "{}", String::from_utf8_lossy(&text));
            text.extend_from_slice(&some[..read]);
        }
        // An answer in the first second of a question is not taken.
        std::thread::sleep(Duration::from_millis(1_100));
        terminal.stdin.as_mut().unwrap().write_all(b"y\n").unwrap();
        shown.read_to_end(&mut text).unwrap();
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains("allowed it"), "{text}");
        assert_eq!(terminal.wait().unwrap().code(), Some(0), "{text}");
    }

    #[tokio::test]
    #[ignore = "needs script"]
    async fn who_dispatches_at_a_terminal_is_asked_there() {
        let setup = Setup {
            ask_for_consent: true,
            config: ASKED.to_owned(),
            ..Setup::default()
        };
        let daemon = Daemon::with(setup).await;
        let dispatch = format!(
            "{} dispatch --connect {} --point tool.pre",
            crate::support::program().display(),
            daemon.path().join("sock").display()
        );
        let mut terminal = terminal(&dispatch);
        terminal.current_dir(daemon.workspace());
        is_asked_in(terminal);
    }

    #[test]
    #[ignore = "needs script"]
    fn who_dispatches_at_a_terminal_without_a_daemon_is_asked_or_told_what_allows_it() {
        let line = CommandLine::new();
        let workspace = line.path().join("workspace");
        fs::create_dir(&workspace).unwrap();
        fs::set_permissions(&workspace, fs::Permissions::from_mode(0o755)).unwrap();
        let config = line.path().join("hookjail.toml");
        let paths = fs::read_to_string(&config).unwrap();
        fs::write(&config, format!("{paths}{ASKED}")).unwrap();
        let in_terminal = |rest: &str| {
            let dispatch = format!(
                "{} --config {} dispatch --private --point tool.pre {rest}",
                crate::support::program().display(),
                config.display()
            );
            let mut terminal = terminal(&dispatch);
            terminal.current_dir(&workspace).env("HOME", line.path());
            terminal
        };
        is_asked_in(in_terminal(""));
        // Without stderr a question is impossible: the refusal must name the command that allows the hook.
        let output = in_terminal("2>/dev/null").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("refused, CONSENT_REQUIRED"), "{text}");
        assert!(text.contains("hookjail allow"), "{text}");
        // Output that a program reads may be handed to a model.
        let mut read = line.command(&["dispatch", "--private", "--point", "tool.pre"]);
        let output = read.current_dir(&workspace).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("refused, CONSENT_REQUIRED"), "{text}");
        assert!(!text.contains("hookjail allow"), "{text}");
    }
}
