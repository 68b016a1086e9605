//! Hooks of one contract at one point come to the result that their contract defines.

use hookjail::pb::{self, dispatched_hook::End};
use serde_json::{Value, json};

use crate::support::{Daemon, dispatch_at, inline, reached};

#[tokio::test]
async fn loom_hooks_run_in_turn_until_one_blocks() {
    let hooks = r#"
[[hook]]
name = "format"
contract = "loom"
point = "tool.pre"
command = "echo formatted"
[[hook]]
name = "other tools"
contract = "loom"
point = "tool.pre"
matcher = "fs_*"
command = "exit 9"
[[hook]]
name = "guard"
contract = "loom"
point = "tool.pre"
command = "grep -q 'rm -rf' && echo 'no rm' >&2 && exit 1; exit 0"
[[hook]]
name = "late"
contract = "loom"
point = "tool.pre"
command = "echo late"
"#;
    let daemon = Daemon::with_hooks(hooks).await;
    let bad = json!({"toolName": "shell", "toolInput": {"cmd": "rm -rf /"}});
    let good = json!({"toolName": "shell", "toolInput": {"cmd": "ls"}});

    let blocked = daemon.dispatch(dispatch_at("tool.pre", &bad)).await;
    let passed = daemon.dispatch(dispatch_at("tool.pre", &good)).await;

    assert_eq!(reached(&blocked), ["format", "guard"]);
    assert_eq!(blocked.blocked_by_hook, "guard");
    let answer = blocked.answer.unwrap();
    assert_eq!(
        (answer.decision(), answer.blocked_by(), &*answer.reason),
        (pb::Decision::Deny, pb::BlockedBy::ExitCode, "no rm")
    );
    let reminders: Vec<_> = blocked
        .reminders
        .iter()
        .map(|reminder| (&*reminder.kind, &*reminder.hook_name, &*reminder.text))
        .collect();
    assert_eq!(
        reminders,
        [
            ("success", "format", "formatted"),
            ("blocked", "guard", "no rm")
        ]
    );
    assert_eq!(reached(&passed), ["format", "guard", "late"]);
    assert_eq!(passed.answer.unwrap().decision(), pb::Decision::Allow);
    let kinds = daemon.records();
    assert_eq!(kinds, ["started", "ended"].repeat(5));
}

#[tokio::test]
async fn base_coat_hooks_run_by_priority_and_hand_on_what_they_modify() {
    let modify = |what: &str| format!(r#"echo '{{"action":"modify","modifiedInput":{what}}}'"#);
    let daemon = Daemon::with_hooks("").await;
    let hook = |name: &str, priority: u32, script: &str| pb::InlineHook {
        config_json: json!({ "priority": priority }).to_string(),
        ..inline(name, script)
    };
    // A string is split here, as this contract runs no shell.
    let sh = |script: &str| format!("/bin/sh -c {}", shlex::try_quote(script).unwrap());
    let request = pb::DispatchRequest {
        contract: pb::Contract::Basecoat.into(),
        inline_hooks: vec![
            hook(
                "last",
                90,
                &sh(
                    "read -r event; echo \"$event\" >&2; echo '{\"action\":\"block\",\"reason\":\"seen\"}'",
                ),
            ),
            hook(
                "first",
                10,
                &sh(&modify(r#"{"n":123456789012345678901234567890}"#)),
            ),
            hook("never", 91, &sh("echo '{}'")),
            hook("broken", 50, &sh("exit 3")),
        ],
        tool: Some(pb::Tool {
            name: "shell".to_owned(),
            input_json: r#"{"n":1}"#.to_owned(),
            ..pb::Tool::default()
        }),
        ..dispatch_at("PreToolUse", &json!({}))
    };

    let response = daemon.dispatch(request).await;

    assert_eq!(reached(&response), ["first", "broken", "last"]);
    let Some(End::Ran(last)) = &response.hooks[2].end else {
        panic!("{:?}", response.hooks[2])
    };
    let seen = String::from_utf8_lossy(&last.stderr);
    assert!(
        seen.contains(r#""input":{"n":123456789012345678901234567890}"#),
        "{seen}"
    );
    assert!(seen.contains(r#""name":"shell""#), "{seen}");
    let answer = response.answer.unwrap();
    assert_eq!(
        (answer.decision(), answer.blocked_by(), answer.failed),
        (pb::Decision::Block, pb::BlockedBy::Decision, true)
    );
    assert_eq!(
        answer.updated_input_json.as_deref(),
        Some(r#"{"n":123456789012345678901234567890}"#)
    );
    assert_eq!(response.blocked_by_hook, "last");
}

#[tokio::test]
async fn reyn_hooks_all_run_and_every_push_is_delivered() {
    let push = r#"echo '{"message": "m", "wake": true, "push_when": true}'"#;
    let script = |text: &str| format!("/bin/sh -c {}", shlex::try_quote(text).unwrap());
    let mode = |hook: pb::InlineHook, mode: &str| pb::InlineHook {
        mode: mode.to_owned(),
        ..hook
    };
    let daemon = Daemon::with_hooks("").await;
    let request = pb::DispatchRequest {
        contract: pb::Contract::Reyn.into(),
        inline_hooks: vec![
            mode(inline("one", &script(push)), "shell_push"),
            mode(inline("two", &script("exit 2")), "shell_push"),
            mode(inline("three", &script(push)), "shell_exec"),
            mode(inline("four", &script(push)), "shell_push"),
        ],
        ..dispatch_at(
            "turn_end",
            &json!({"agent_name": "a", "chain_id": null, "user_text": "t"}),
        )
    };

    let response = daemon.dispatch(request).await;

    assert_eq!(reached(&response), ["one", "two", "three", "four"]);
    let names: Vec<_> = response.pushes.iter().map(|push| &*push.name).collect();
    assert_eq!(names, ["one", "four"]);
    assert_eq!(response.events.len(), 4);
    let answer = response.answer.unwrap();
    assert_eq!(
        (answer.decision(), answer.failed),
        (pb::Decision::None, true)
    );
}

#[tokio::test]
async fn a_template_is_rendered_by_a_confined_program_and_the_valve_counts_its_turns() {
    let hooks = r#"
[hooks]
max_hook_driven_turns = 2
on_hook_turn_limit = "ask_user"
[[hook]]
name = "nudge"
contract = "reyn"
point = "turn_end"
template_push = { message = "again: {{ user_text }}", wake = true }
[[hook]]
name = "broken"
contract = "reyn"
point = "turn_end"
template_push = { message = "{{ nothing }}" }
"#;
    let daemon = Daemon::with_hooks(hooks).await;
    let end = |origin: pb::TurnOrigin| pb::DispatchRequest {
        session_id: "s".to_owned(),
        turn_origin: origin.into(),
        ..dispatch_at(
            "turn_end",
            &json!({"user_text": "x", "agent_name": "a", "chain_id": null}),
        )
    };
    let mut counts = Vec::new();
    for origin in [
        pb::TurnOrigin::Human,
        pb::TurnOrigin::Hook,
        pb::TurnOrigin::Hook,
        pb::TurnOrigin::Human,
    ] {
        let response = daemon.dispatch(end(origin)).await;
        let [push] = &response.pushes[..] else {
            panic!("{:?}", response.pushes)
        };
        assert_eq!((&*push.message, &*push.name), ("again: x", "nudge"));
        let wakes = push.wake;
        let broken = response.hooks[1].verdict.as_ref().unwrap();
        assert_eq!(broken.skip_reason, "missing_field:message");
        let valve = response.loop_valve.unwrap();
        assert_eq!((valve.limit, &*valve.on_limit), (2, "ask_user"));
        // Beyond the cap nothing wakes: the message rides with the next turn.
        assert_eq!(valve.exceeded, !wakes);
        counts.push((valve.count, valve.capped, valve.exceeded));
    }
    let expected = [
        (1, false, false),
        (2, true, false),
        (2, true, true),
        (1, false, false),
    ];
    assert_eq!(counts, expected);
    // Where only the event names the session, the turns of that session are counted.
    for (session, expected) in [("s", 2), ("t", 1)] {
        let request = pb::DispatchRequest {
            turn_origin: pb::TurnOrigin::Hook.into(),
            ..dispatch_at(
                "turn_end",
                &json!({"user_text": "x", "session_id": session}),
            )
        };
        let valve = daemon.dispatch(request).await.loop_valve.unwrap();
        assert_eq!(valve.count, expected, "{session}");
    }
    let records = daemon.records();
    let count_of = |kind: &str| records.iter().filter(|record| *record == kind).count();
    // Six dispatches to two hooks.
    assert_eq!(
        (count_of("started"), count_of("ended"), records.len()),
        (12, 12, 24)
    );
    for record in daemon.journal().iter().filter(|it| it["record"] == "ended") {
        assert_eq!(record["confirmed"], true, "{record}");
    }
}

#[tokio::test]
async fn infers_gate_keeps_commands_from_running_and_the_next_goes_on() {
    let hooks = r#"
[infer]
plan = ["make .*"]
[[hook]]
name = "status"
contract = "infer"
point = "post_tool"
command = "git status"
[[hook]]
name = "chained"
contract = "infer"
point = "post_tool"
command = "git status; touch x"
[[hook]]
name = "build"
contract = "infer"
point = "post_tool"
command = "make test"
"#;
    let daemon = Daemon::with_hooks(hooks).await;
    let in_mode = |mode: &str| pb::DispatchRequest {
        mode_key: mode.to_owned(),
        session_id: "s".to_owned(),
        turn: Some(4),
        ..dispatch_at("post_tool", &json!({}))
    };
    for (mode, expected) in [
        (
            "standard",
            [
                "hook_command",
                "hook_command_skipped",
                "hook_command_skipped",
            ],
        ),
        (
            "plan",
            ["hook_command", "hook_command_skipped", "hook_command"],
        ),
        ("auto", ["hook_command"; 3]),
    ] {
        let response = daemon.dispatch(in_mode(mode)).await;
        assert_eq!(reached(&response), ["status", "chained", "build"]);
        let names: Vec<_> = response.events.iter().map(|event| &*event.name).collect();
        assert_eq!(names, expected, "{mode}");
        assert_eq!(response.answer.unwrap().decision(), pb::Decision::None);
        for (hook, event) in response.hooks.iter().zip(&response.events) {
            let event: Value = serde_json::from_str(&event.json).unwrap();
            assert_eq!(event["name"], json!(hook.name));
            let verdict = hook.verdict.as_ref().unwrap();
            if event["kind"] == "hook_command_skipped" {
                assert_eq!(
                    (&event["mode"], &event["reason"]),
                    (&json!(mode), &json!("not_allowlisted"))
                );
                assert_eq!(verdict.skip_reason, "not_allowlisted");
                assert!(
                    matches!(&hook.end, Some(End::Refused(refusal)) if refusal.reason == "NOT_ALLOWLISTED")
                );
            } else {
                assert!(matches!(hook.end, Some(End::Ran(_))), "{mode}: {hook:?}");
            }
        }
    }
    // In a mode that is not known, the list of all counts alone.
    let response = daemon.dispatch(in_mode("readonly")).await;
    let names: Vec<_> = response.events.iter().map(|event| &*event.name).collect();
    assert_eq!(names[0], "hook_command");
    assert_eq!(names[1..], ["hook_command_skipped"; 2]);
}

#[tokio::test]
async fn docker_agents_hooks_rewrite_in_turn_and_the_strongest_decides() {
    let daemon = Daemon::with_hooks("").await;
    let answer = |output: Value| format!("echo '{}'", json!({ "hook_specific_output": output }));
    let patch = |patch: Value| answer(json!({ "updated_input": patch }));
    let request = pb::DispatchRequest {
        contract: pb::Contract::DockerAgent.into(),
        inline_hooks: vec![
            inline("first", &patch(json!({"path": "/a", "n": 1}))),
            inline("again", &patch(json!({"n": 2}))),
            inline("look", "cat >&2"),
            inline(
                "ask",
                &answer(
                    json!({"permission_decision": "ask", "permission_decision_reason": "sure?"}),
                ),
            ),
            inline("allow", &answer(json!({"permission_decision": "allow"}))),
        ],
        session_id: "s".to_owned(),
        tool: Some(pb::Tool {
            name: "shell".to_owned(),
            input_json: r#"{"n":0,"cmd":"ls"}"#.to_owned(),
            ..pb::Tool::default()
        }),
        ..dispatch_at("pre_tool_use", &json!({}))
    };

    let response = daemon.dispatch(request.clone()).await;

    let Some(End::Ran(look)) = &response.hooks[2].end else {
        panic!("{:?}", response.hooks[2])
    };
    let seen: Value = serde_json::from_slice(&look.stderr).unwrap();
    assert_eq!(
        seen["tool_input"],
        json!({"n": 2, "cmd": "ls", "path": "/a"})
    );
    let merged = response.answer.unwrap();
    assert_eq!(
        (merged.decision(), &*merged.reason),
        (pb::Decision::Ask, "sure?")
    );
    let input: Value = serde_json::from_str(&merged.updated_input_json.unwrap()).unwrap();
    assert_eq!(input, json!({"path": "/a", "n": 2}));

    // A stage before the rest: approval there only advises, a refusal there denies.
    let before = |script: &str| pb::DispatchRequest {
        inline_hooks: vec![pb::InlineHook {
            config_json: r#"{"preempt_yolo": true}"#.to_owned(),
            ..inline("before", script)
        }],
        stage: pb::DispatchStage::Preempt.into(),
        ..request.clone()
    };
    for (script, decision) in [
        (
            answer(json!({"permission_decision": "allow"})),
            pb::Decision::None,
        ),
        (
            answer(json!({"permission_decision": "deny"})),
            pb::Decision::Deny,
        ),
        ("exit 1".to_owned(), pb::Decision::Deny),
    ] {
        let response = daemon.dispatch(before(&script)).await;
        assert_eq!(response.answer.unwrap().decision(), decision, "{script}");
    }
}

/// Twenty hooks of one contract at a point, and what they come to.
struct Twenty {
    contract: pb::Contract,
    point: &'static str,
    mode: &'static str,
    /// Returns the command of the hook of a number.
    hook: fn(usize) -> String,
    ran: usize,
    decision: pb::Decision,
    by: pb::BlockedBy,
    blocked_by: &'static str,
    reason: &'static str,
    failed: bool,
    context: Vec<String>,
    pushes: usize,
    warnings: usize,
    events: usize,
}

fn sh(script: &str) -> String {
    format!("/bin/sh -c {}", shlex::try_quote(script).unwrap())
}

fn twenty() -> [Twenty; 5] {
    [
        Twenty {
            contract: pb::Contract::Reyn,
            point: "turn_end",
            mode: "shell_push",
            hook: |number| {
                sh(&match number % 4 {
                    0 => format!(r#"echo '{{"message":"{number}","wake":true,"push_when":true}}'"#),
                    1 => "exit 2".to_owned(),
                    2 => "echo nonsense".to_owned(),
                    _ => r#"echo '{"message":"m","wake":true,"push_when":false}'"#.to_owned(),
                })
            },
            ran: 20,
            decision: pb::Decision::None,
            by: pb::BlockedBy::Unspecified,
            blocked_by: "",
            reason: "",
            failed: true,
            context: Vec::new(),
            pushes: 5,
            warnings: 0,
            events: 20,
        },
        Twenty {
            contract: pb::Contract::Basecoat,
            point: "PreToolUse",
            mode: "",
            hook: |number| {
                sh(&match number {
                    17 => r#"echo '{"action":"block","reason":"seventeen"}'"#.to_owned(),
                    _ if number % 5 == 0 => "exit 3".to_owned(),
                    _ => format!(
                        r#"echo '{{"action":"injectContext","additionalContext":["{number}"]}}'"#
                    ),
                })
            },
            // By priority, which falls as numbers rise: 19, 18, 17.
            ran: 3,
            decision: pb::Decision::Block,
            by: pb::BlockedBy::Decision,
            blocked_by: "17",
            reason: "seventeen",
            failed: false,
            context: vec!["19".to_owned(), "18".to_owned()],
            pushes: 0,
            warnings: 0,
            events: 0,
        },
        Twenty {
            contract: pb::Contract::Loom,
            point: "tool.pre",
            mode: "",
            hook: |number| match number {
                15 => "echo fifteen >&2; exit 7".to_owned(),
                _ if number % 2 == 0 => format!("echo {number}"),
                _ => format!(r#"echo '{{"continue":true,"additionalContext":"{number}"}}'"#),
            },
            ran: 16,
            decision: pb::Decision::Deny,
            by: pb::BlockedBy::ExitCode,
            blocked_by: "15",
            reason: "fifteen",
            failed: true,
            context: [1, 3, 5, 7, 9, 11, 13]
                .map(|number: u8| number.to_string())
                .into(),
            pushes: 0,
            warnings: 0,
            events: 0,
        },
        Twenty {
            contract: pb::Contract::DockerAgent,
            point: "user_prompt_submit",
            mode: "",
            hook: |number| match number {
                4 => "exit 1".to_owned(),
                9 => "echo nine >&2; exit 2".to_owned(),
                12 => r#"echo '{"decision":"block","reason":"twelve"}'"#.to_owned(),
                _ => format!("echo {number}"),
            },
            ran: 20,
            decision: pb::Decision::Block,
            by: pb::BlockedBy::ExitCode,
            blocked_by: "9",
            reason: "nine",
            failed: true,
            context: vec![
                [0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 13, 14, 15, 16, 17, 18, 19]
                    .map(|number: u8| number.to_string())
                    .join("\n"),
            ],
            pushes: 0,
            warnings: 1,
            events: 20,
        },
        Twenty {
            contract: pb::Contract::Infer,
            point: "post_session",
            mode: "",
            hook: |number| match number % 4 {
                0 => "exit 2".to_owned(),
                1 => "kill -9 $$".to_owned(),
                2 => "no-such-command".to_owned(),
                _ => format!("echo {number}"),
            },
            ran: 20,
            decision: pb::Decision::None,
            by: pb::BlockedBy::Unspecified,
            blocked_by: "",
            reason: "",
            failed: true,
            context: Vec::new(),
            pushes: 0,
            warnings: 0,
            events: 20,
        },
    ]
}

#[tokio::test]
async fn twenty_hooks_of_each_seed_come_to_what_its_contract_says() {
    let daemon = Daemon::with_hooks("").await;
    for case in twenty() {
        let contract = case.contract.as_str_name();
        let one = |number: usize| pb::InlineHook {
            config_json: if case.contract == pb::Contract::Basecoat {
                json!({ "priority": 100 - number }).to_string()
            } else {
                String::new()
            },
            mode: case.mode.to_owned(),
            ..inline(&number.to_string(), &(case.hook)(number))
        };
        let request = pb::DispatchRequest {
            contract: case.contract.into(),
            inline_hooks: (0..20).map(one).collect(),
            mode_key: "auto".to_owned(),
            ..dispatch_at(case.point, &json!({}))
        };

        let response = daemon.dispatch(request).await;

        let answer = response.answer.unwrap();
        assert_eq!(response.hooks.len(), case.ran, "{contract}");
        assert_eq!(
            (
                answer.decision(),
                answer.blocked_by(),
                &*answer.reason,
                answer.failed
            ),
            (case.decision, case.by, case.reason, case.failed),
            "{contract}"
        );
        assert_eq!(response.blocked_by_hook, case.blocked_by, "{contract}");
        assert_eq!(answer.additional_context, case.context, "{contract}");
        assert_eq!(response.pushes.len(), case.pushes, "{contract}");
        assert_eq!(
            answer.warnings.len(),
            case.warnings,
            "{contract}: {:?}",
            answer.warnings
        );
        assert_eq!(response.events.len(), case.events, "{contract}");
    }
}

#[tokio::test]
async fn hooks_that_run_side_by_side_wait_for_each_other() {
    let one = |name: &str, other: &str| {
        format!(
            "[[hook]]\nname = \"{name}\"\ncontract = \"docker_agent\"\npoint = \"user_prompt_submit\"\n\
             profile = \"workspace-rw\"\ntimeout = \"20s\"\n\
             command = \"touch {name}; while [ ! -e {other} ]; do sleep 0.02; done; echo {name}\"\n"
        )
    };
    let daemon = Daemon::with_hooks(&format!("{}{}", one("a", "b"), one("b", "a"))).await;

    let response = daemon
        .dispatch(dispatch_at("user_prompt_submit", &json!({})))
        .await;

    let answer = response.answer.unwrap();
    assert_eq!(answer.additional_context, ["a\nb"]);
    assert!(!answer.failed);
}

#[tokio::test]
async fn base_coats_hooks_are_due_at_what_any_runtime_calls_their_point() {
    let hook = "[[hook]]\nname = \"one\"\ncontract = \"basecoat\"\npoint = \"PreToolUse\"\ncommand = [\"/bin/cat\"]\n";
    let daemon = Daemon::with_hooks(hook).await;
    for point in [
        "PreToolUse",
        "BeforeTool",
        "tool.pre",
        "pre_tool_use",
        "preToolUse",
    ] {
        let request = pb::DispatchRequest {
            contract: pb::Contract::Basecoat.into(),
            ..dispatch_at(point, &json!({}))
        };
        let response = daemon.dispatch(request).await;
        let Some(End::Ran(ran)) = &response.hooks[0].end else {
            panic!("{point}: {:?}", response.hooks[0])
        };
        let read: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(read["hook"], "PreToolUse", "{point}");
    }
}

#[tokio::test]
async fn a_tools_input_is_read_as_it_is_written() {
    let daemon = Daemon::start().await;
    let input = r#"{"n":123456789012345678901234567890,"x":1e999,"s":"\ud800"}"#;
    for (contract, point, name) in [
        (pb::Contract::Basecoat, "PreToolUse", "input"),
        (pb::Contract::ClaudeCode, "PreToolUse", "tool_input"),
        (pb::Contract::Copilot, "preToolUse", "toolArgs"),
        (pb::Contract::DockerAgent, "pre_tool_use", "tool_input"),
    ] {
        let request = pb::DispatchRequest {
            contract: contract.into(),
            inline_hooks: vec![inline("look", "/bin/cat")],
            tool: Some(pb::Tool {
                input_json: input.to_owned(),
                name: "shell".to_owned(),
                ..pb::Tool::default()
            }),
            ..dispatch_at(point, &json!({}))
        };
        let response = daemon.dispatch(request).await;
        let Some(End::Ran(ran)) = &response.hooks[0].end else {
            panic!("{contract:?}: {:?}", response.hooks[0])
        };
        let read = String::from_utf8_lossy(&ran.stdout);
        assert!(
            read.contains(&format!("\"{name}\":{input}")),
            "{contract:?}: {read}"
        );
    }
}
