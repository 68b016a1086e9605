use proptest::prelude::*;

use hookjail_base::model::OnFailure;

use super::*;
use crate::Mode;

fn judged(mode: Mode, end: &End<'_>) -> Verdict {
    mode.judge(end, OnFailure::Contract)
}

/// Generates stdout close to an output, where a parser could be misled.
fn any_stdout() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        r#"[ \n]?\{("(decision|reason|continue|hook_specific_output|permission_decision)":("block"|"allow"|"deny"|true|false|null|1|\{"permission_decision":"(allow|deny|x)"\}),?){0,4}\}[ x]?"#,
    ]
}

fn any_point() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(
        FACTS
            .points
            .iter()
            .map(|point| point.name)
            .collect::<Vec<_>>(),
    )
}

#[test]
fn rewriting_hooks_run_in_turn_and_all_others_at_once() {
    let in_turn: Vec<_> = FACTS
        .points
        .iter()
        .filter(|point| Mode::DockerAgent.scheduling(point.name) == Scheduling::Pipeline)
        .map(|point| point.name)
        .collect();
    let expected = [
        "pre_tool_use",
        "tool_response_transform",
        "before_llm_call",
        "tool_input_transform",
    ];
    assert_eq!(in_turn, expected);
    assert_eq!(Mode::DockerAgent.scheduling("stop"), Scheduling::AtOnce);
}

#[test]
fn what_can_be_stopped_is_said_in_the_contract() {
    let stopped = |stop| {
        let points = FACTS.points.iter().filter(move |point| point.stop == stop);
        points.map(|point| point.name).collect::<Vec<_>>()
    };
    assert_eq!(
        stopped(Stop::Call),
        ["pre_tool_use", "permission_request", "tool_guard"]
    );
    let operations = [
        "post_tool_use",
        "user_prompt_submit",
        "user_steering_messages_submit",
        "user_followup_submit",
        "before_llm_call",
        "pre_compact",
        "before_compaction",
        "worktree_create",
        "tool_input_transform",
    ];
    assert_eq!(stopped(Stop::Operation), operations);
}

#[test]
fn modes_and_defaults_are_docker_agents_own() {
    for (mode, parsed) in [
        ("", Mode::DockerAgent),
        ("command", Mode::DockerAgent),
        ("model", Mode::DockerAgentModel),
    ] {
        assert_eq!(Mode::parse(FACTS.contract, mode), Ok(parsed));
        let expected = Defaults::shell("/bin/sh", "-c", Some(Duration::from_secs(60)));
        assert_eq!(parsed.defaults("stop"), expected);
    }
    assert!(Mode::parse(FACTS.contract, "builtin").is_err());
}

proptest! {
    #[test]
    fn a_failure_before_a_tool_call_denies(stdout in any_stdout(), model: bool, code in 0..4, stdout_truncated: bool) {
        let mode = if model { Mode::DockerAgentModel } else { Mode::DockerAgent };
        let end = End {
            kind: EndKind::Exited(code),
            point: "pre_tool_use",
            stdout: stdout.as_bytes(),
            stdout_truncated,
            ..End::default()
        };
        let verdict = judged(mode, &end);
        if verdict.failed || code != 0 || stdout_truncated {
            prop_assert_eq!(verdict.decision, Decision::Deny);
        }
        // A judge without an answer has not judged.
        prop_assert!(!(model && verdict.decision == Decision::None));
    }

    #[test]
    fn what_cannot_be_stopped_never_is(stdout in any_stdout(), point in any_point(), code in 0..4) {
        let end = End {
            kind: EndKind::Exited(code),
            point,
            stdout: stdout.as_bytes(),
            ..End::default()
        };
        let verdict = judged(Mode::DockerAgent, &end);
        let expected = stops(point);
        prop_assert!(!verdict.decision.stops() || Some(verdict.decision) == expected);
        prop_assert_eq!(verdict.decision.stops(), verdict.blocked_by.is_some());
        prop_assert!(Mode::DockerAgent.event(&end).is_some());
    }
}

#[test]
fn the_next_hook_reads_what_the_one_before_it_rewrote() {
    let mut event = Event {
        json: r#"{"tool_input": {"cmd": "a", "n": 1e999}, "tool_response": "r", "messages": []}"#
            .into(),
        point: "pre_tool_use".to_owned(),
        raw: false,
    };
    let mut envelope = Envelope::default();
    let json = |text: &str| {
        Some(Json::from_raw(
            &RawValue::from_string(text.to_owned()).unwrap(),
        ))
    };
    let verdict = Verdict {
        updated_input: json(r#"{"cmd":"b","more":2.50}"#),
        updated_messages: json(r#"[{"role":"user"}]"#),
        updated_output: json(r#""s""#),
        ..Verdict::default()
    };
    (Mode::DockerAgent.facts().hand_on)(&verdict, &mut event, &mut envelope);
    assert_eq!(
        event.json,
        r#"{"tool_input":{"cmd":"b","n":1e999,"more":2.50},"tool_response":"s","messages":[{"role":"user"}]}"#
    );

    let tool = crate::Tool {
        input: Some(json!({"cmd": "a", "cwd": "."}).into()),
        ..crate::Tool::default()
    };
    envelope.tool = Some(tool);
    event.json = Bytes::new();
    let verdict = Verdict {
        updated_input: json(r#"{"cmd":"b"}"#),
        ..Verdict::default()
    };
    (Mode::DockerAgent.facts().hand_on)(&verdict, &mut event, &mut envelope);
    assert_eq!(event.json, r#"{"tool_input":{"cmd":"b","cwd":"."}}"#);
}
