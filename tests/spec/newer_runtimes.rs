//! Events of runtimes that are newer than their contracts here.

use crate::{
    adopt::{ended, in_place, outcome_of, places, written},
    support::Daemon,
};

/// Runtimes, each with the payload of an event that no version had so far.
const EVENTS: [(&str, &str); 8] = [
    ("codex", r#"{"hook_event_name":"PreLaunch","turn_id":"t"}"#),
    (
        "copilot",
        r#"{"hook_event_name":"PreLaunch","session_id":"s"}"#,
    ),
    (
        "cursor",
        r#"{"hook_event_name":"beforeLaunch","cursor_version":"2"}"#,
    ),
    ("docker-agent", r#"{"hook_event_name":"before_launch"}"#),
    (
        "gemini-cli",
        r#"{"hook_event_name":"BeforeLaunch","timestamp":"2026-01-01T00:00:00Z"}"#,
    ),
    ("infer", r#"{"hook":"pre_launch","session_id":"s"}"#),
    ("loom", r#"{"event":"launch.pre","turnIndex":0}"#),
    (
        "qwen-code",
        r#"{"hook_event_name":"PreLaunch","permission_mode":"default"}"#,
    ),
];

#[tokio::test]
async fn a_hook_at_a_point_of_a_newer_runtime_ends_as_it_does_without_hookjail() {
    let daemon = Daemon::start().await;
    let (socket, directory) = places(&daemon);
    let hook = written(
        &daemon,
        "newer",
        "#!/bin/sh\ncat\nprintf '\\377 {\"level\": 1}\\n'\necho noted >&2\nexit 3\n",
    );
    let hook = hook.to_str().unwrap();
    for (runtime, payload) in EVENTS {
        let bare = ended(&directory, &[hook], payload);
        assert_eq!(bare.status.code(), Some(3));
        let run = ended(&directory, &in_place(runtime, &socket, &[], hook), payload);
        assert_eq!(
            run.status.code(),
            Some(3),
            "{runtime}: {:?}",
            outcome_of(&run)
        );
        assert_eq!(run.stdout, bare.stdout, "{runtime}");
        assert_eq!(run.stderr, bare.stderr, "{runtime}");
    }
}

#[tokio::test]
async fn a_refusal_at_a_point_of_a_newer_runtime_is_its_most_general_no() {
    let daemon = Daemon::start().await;
    let (_, directory) = places(&daemon);
    let nowhere = daemon.path().join("nobody").display().to_string();
    for (runtime, payload) in EVENTS {
        let refused = ended(
            &directory,
            &in_place(runtime, &nowhere, &[], "/bin/true"),
            payload,
        );
        let (code, stdout, stderr) = outcome_of(&refused);
        // No hook of infer's stops anything.
        let expected = if runtime == "infer" { 125 } else { 2 };
        assert_eq!(code, Some(expected), "{runtime}: {stdout} {stderr}");
        assert!(stderr.contains("hookjail"), "{runtime}: {stderr}");
    }
}

#[tokio::test]
async fn a_point_that_differs_in_case_alone_is_the_listed_one() {
    let daemon = Daemon::start().await;
    let (socket, directory) = places(&daemon);
    let hook = written(&daemon, "guard", "#!/bin/sh\necho no >&2\nexit 1\n");
    let hook = hook.to_str().unwrap();
    for (runtime, payload) in [
        ("codex", r#"{"hook_event_name":"pretooluse","turn_id":"t"}"#),
        (
            "gemini-cli",
            r#"{"hook_event_name":"BEFORETOOL","timestamp":"t"}"#,
        ),
        ("qwen-code", r#"{"hook_event_name":"preToolUse"}"#),
    ] {
        // A guard that breaks is a denial before a call.
        let run = ended(&directory, &in_place(runtime, &socket, &[], hook), payload);
        assert_eq!(
            run.status.code(),
            Some(2),
            "{runtime}: {:?}",
            outcome_of(&run)
        );
    }
}
