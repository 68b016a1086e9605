//! Agents that read a file of hooks that is another agent's: their payloads get the hook's own answer.

use crate::{
    adopt::{CASES, ended, in_place, outcome_of, places, written},
    support::{Daemon, Setup},
};

/// An agent's event before a tool call. `COMMAND` stands for the call's command.
const PAYLOADS: [(&str, &str); 15] = [
    (
        "Claude Code",
        r#"{"session_id":"s","transcript_path":"/t","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"COMMAND"}}"#,
    ),
    (
        "Continue",
        r#"{"session_id":"s","transcript_path":"","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"COMMAND"},"tool_use_id":"u"}"#,
    ),
    (
        "Cursor",
        r#"{"conversation_id":"c","generation_id":"g","model":"m","hook_event_name":"preToolUse","cursor_version":"2","workspace_roots":["/"],"tool_name":"Shell","tool_input":{"command":"COMMAND"},"tool_use_id":"u","cwd":"/"}"#,
    ),
    (
        "Cursor, before a command",
        r#"{"conversation_id":"c","generation_id":"g","hook_event_name":"beforeShellExecution","cursor_version":"2","workspace_roots":["/"],"command":"COMMAND","cwd":"/"}"#,
    ),
    (
        "Grok Build",
        r#"{"sessionId":"s","cwd":"/","workspaceRoot":"/","toolName":"Bash","toolInput":{"command":"COMMAND"}}"#,
    ),
    (
        "Grok Build, with the event's name",
        r#"{"hookEventName":"pre_tool_use","sessionId":"s","cwd":"/","workspaceRoot":"/","toolName":"Bash","toolInput":{"command":"COMMAND"}}"#,
    ),
    (
        "VS Code",
        r#"{"timestamp":"2026-02-09T10:30:00.000Z","cwd":"/","session_id":"s","hook_event_name":"PreToolUse","transcript_path":"/t","tool_name":"runTerminalCommand","tool_input":{"command":"COMMAND"},"tool_use_id":"u"}"#,
    ),
    (
        "VS Code, first releases",
        r#"{"timestamp":"2026-02-09T10:30:00.000Z","cwd":"/","sessionId":"s","hookEventName":"PreToolUse","transcript_path":"/t","tool_name":"runTerminalCommand","tool_input":{"command":"COMMAND"},"tool_use_id":"u"}"#,
    ),
    (
        "Kimi Code",
        r#"{"hook_event_name":"PreToolUse","session_id":"s","cwd":"/","tool_name":"Bash","tool_input":{"command":"COMMAND"},"tool_call_id":"u"}"#,
    ),
    (
        "Crush",
        r#"{"event":"PreToolUse","session_id":"s","cwd":"/","tool_name":"bash","tool_input":{"command":"COMMAND"}}"#,
    ),
    (
        "Windsurf",
        r#"{"agent_action_name":"pre_run_command","trajectory_id":"t","execution_id":"e","timestamp":"2026-02-09T10:30:00Z","tool_info":{"command_line":"COMMAND","cwd":"/"}}"#,
    ),
    (
        "Mistral Vibe",
        r#"{"session_id":"s","transcript_path":"/t","cwd":"/","hook_event_name":"pre_tool","tool_name":"bash","tool_input":{"command":"COMMAND"}}"#,
    ),
    (
        "Kiro, Amazon Q",
        r#"{"hook_event_name":"preToolUse","cwd":"/","tool_name":"execute_bash","tool_input":{"command":"COMMAND"}}"#,
    ),
    (
        "the name in snake case",
        r#"{"hook_event_name":"pre_tool_use","cwd":"/","tool_name":"shell","tool_input":{"cmd":"COMMAND"}}"#,
    ),
    (
        "white space, numbers and letters of any kind",
        "{ \"hook_event_name\" : \"PRETOOLUSE\",\n\t\"tool_input\": {\"command\": \"COMMAND\", \"n\": 1e999, \"t\": \"\\u00e4\\ud800 ä\"}}\n\n",
    ),
];

/// Hooks that deny by exit code, deny by an object, and allow by one.
const BY_CODE: &str = "#!/bin/sh\n\
    event=$(cat; echo .)\n\
    printf %s \"${event%.}\" >&2\n\
    case $event in *'rm -rf'*) exit 2 ;; esac\n";
const BY_WORDS: &str = "#!/bin/sh\n\
    grep -q 'rm -rf' && decision=deny || decision=allow\n\
    echo '{\"hookSpecificOutput\":{\"hookEventName\":\"PreToolUse\",\"permissionDecision\":\"'$decision'\"}}'\n";

const fn commands() -> [&'static str; 2] {
    ["ls", "rm -rf /"]
}

#[tokio::test]
async fn payloads_of_other_agents_get_the_hooks_own_answer() {
    let daemon = Daemon::start().await;
    let (socket, project) = places(&daemon);
    for (name, script) in [("code", BY_CODE), ("words", BY_WORDS)] {
        let hook = written(&daemon, name, script);
        let hook = hook.to_str().unwrap();
        // An answer by words is one to the event that it names.
        let answered = PAYLOADS
            .iter()
            .filter(|(agent, _)| name == "code" || !agent.starts_with("Cursor, "));
        for (agent, payload) in answered {
            for command in commands() {
                let payload = payload.replace("COMMAND", command);
                let bare = outcome_of(&ended(&project, &[hook], &payload));
                let stops = bare.0 == Some(2) || bare.1.contains("deny");
                assert_eq!(stops, command != "ls", "{agent}: {bare:?}");
                if name == "code" {
                    assert_eq!(bare.2, payload, "{agent}");
                }
                let words = in_place("claude-code", &socket, &[], hook);
                let inside = outcome_of(&ended(&project, &words, &payload));
                assert_eq!(inside, bare, "{agent}, by {name}");
            }
        }
    }
}

/// Grok Build reads Cursor's file, too.
#[tokio::test]
async fn payloads_of_other_agents_deny_nothing_of_themselves_in_any_runtimes_file() {
    let daemon = Daemon::start().await;
    let (socket, project) = places(&daemon);
    let hook = written(&daemon, "code", BY_CODE);
    let hook = hook.to_str().unwrap();
    for runtime in ["codex", "copilot", "cursor", "gemini-cli", "qwen-code"] {
        let of_a_tool = PAYLOADS.iter().filter(|(_, payload)| {
            ["\"toolName\"", "preToolUse", "pre_tool_use", "PRETOOLUSE"]
                .iter()
                .any(|part| payload.contains(part))
        });
        for (agent, payload) in of_a_tool {
            for command in commands() {
                let payload = payload.replace("COMMAND", command);
                let bare = outcome_of(&ended(&project, &[hook], &payload));
                let words = in_place(runtime, &socket, &[], hook);
                let inside = outcome_of(&ended(&project, &words, &payload));
                assert_eq!(inside, bare, "{agent} in {runtime}'s file");
            }
        }
    }
}

/// The name of a point counts in any case, and the refusal has the form that the line's runtime takes.
#[tokio::test]
async fn a_point_in_another_case_is_that_point_for_every_runtime() {
    let daemon = Daemon::start().await;
    let (socket, project) = places(&daemon);
    let broken = written(&daemon, "broken", "#!/bin/sh\nexit 1\n");
    let broken = broken.to_str().unwrap();
    for case in CASES
        .iter()
        .filter(|case| case.harmless.contains(case.point))
    {
        let hook = written(&daemon, case.runtime, case.hook);
        let hook = hook.to_str().unwrap();
        for point in [case.point.to_lowercase(), case.point.to_uppercase()] {
            for payload in [case.harmless, case.harmful] {
                let other = payload.replacen(case.point, &point, 1);
                let bare = outcome_of(&ended(&project, &[hook], &other));
                let words = in_place(case.runtime, &socket, &[], hook);
                let inside = outcome_of(&ended(&project, &words, &other));
                assert_eq!(inside, bare, "{}: {point}", case.runtime);
            }
            let other = case.harmless.replacen(case.point, &point, 1);
            let words = in_place(case.runtime, &socket, &["--fail-closed"], broken);
            let refused = ended(&project, &words, &other);
            crate::adopt::assert_is_no(case, &refused);
        }
    }
}

/// Agents with another payload may read exit codes alone.
#[tokio::test]
async fn a_refusal_of_a_payload_that_is_another_agents_is_an_exit_code() {
    let daemon = Daemon::with(Setup {
        ask_for_consent: true,
        ..Setup::default()
    })
    .await;
    let (socket, project) = places(&daemon);
    let hook = written(&daemon, "code", BY_CODE);
    let hook = hook.to_str().unwrap();
    for (agent, payload) in PAYLOADS {
        let words = in_place("claude-code", &socket, &[], hook);
        let (code, stdout, stderr) = outcome_of(&ended(&project, &words, payload));
        assert!(stderr.contains("CONSENT_REQUIRED"), "{agent}: {stderr}");
        let is_own = payload.contains(r#""hook_event_name":"PreToolUse""#);
        let expected = if is_own { Some(0) } else { Some(2) };
        assert_eq!(code, expected, "{agent}: {stdout}{stderr}");
        assert_eq!(stdout.contains("deny"), is_own, "{agent}: {stdout}");
    }
}

#[tokio::test]
async fn a_payload_that_cannot_be_read_is_denied_with_one_sentence() {
    let daemon = Daemon::start().await;
    let (socket, project) = places(&daemon);
    let hook = written(&daemon, "passes", "#!/bin/sh\necho it ran\n");
    let hook = hook.to_str().unwrap();
    let unreadable = [
        ("claude-code", "PreToolUse ls"),
        ("claude-code", r#"{"hook_event_name":"PreToolUse""#),
        ("claude-code", r#"{"a":1,"a":2}"#),
        ("cursor", "ls"),
        ("codex", r#"{"hook_event_name":["PreToolUse"]}"#),
    ];
    for (runtime, payload) in unreadable {
        let bare = outcome_of(&ended(&project, &[hook], payload));
        assert_eq!(bare, (Some(0), "it ran\n".to_owned(), String::new()));
        let words = in_place(runtime, &socket, &[], hook);
        let (code, stdout, stderr) = outcome_of(&ended(&project, &words, payload));
        assert_eq!((code, &*stdout), (Some(2), ""), "{payload}: {stderr}");
        let is_short = stderr.lines().count() == 1 && stderr.len() < 200;
        assert!(
            is_short && stderr.starts_with("hookjail: "),
            "{payload}: {stderr}"
        );
        assert!(!stderr.contains("PreCompact"), "{payload}: {stderr}");
    }
}
