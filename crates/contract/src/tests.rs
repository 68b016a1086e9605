use std::{ffi::OsString, time::Duration};

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use hookjail_base::model::{Event, InvalidField, OnFailure};

use super::*;

const PUSH: &[u8] = br#"{"message":"m","wake":true,"push_when":true}"#;

fn end(kind: EndKind, stdout: &[u8]) -> End<'_> {
    End {
        command: "hook a",
        kind,
        point: "turn_end",
        stdout,
        ..End::default()
    }
}

fn event(point: &str, json: &'static str) -> Event {
    Event {
        json: Bytes::from(json),
        point: point.to_owned(),
        raw: false,
    }
}

fn words(text: &str) -> Result<Vec<OsString>, String> {
    Mode::ReynExec
        .split(text)
        .map_err(|InvalidField { field, problem }| format!("{field} {problem}"))
}

#[test]
fn an_event_tells_its_session_by_the_contracts_own_member() {
    let session = |mode: Mode, json| mode.session(&event("turn_end", json));
    let session_id = r#"{"session_id":"b","sessionId":5}"#;
    let both = r#"{"session_id":"b","sessionId":"a"}"#;
    for mode in Mode::ALL {
        let (one, other) = match mode {
            Mode::Basecoat | Mode::Copilot => (Some("b"), Some("a")),
            Mode::Loom => (None, Some("a")),
            Mode::Observe => (None, None),
            Mode::ClaudeCode
            | Mode::Codex
            | Mode::Cursor
            | Mode::DockerAgent
            | Mode::DockerAgentModel
            | Mode::Family
            | Mode::GeminiCli
            | Mode::Infer
            | Mode::QwenCode
            | Mode::ReynExec
            | Mode::ReynPush => (Some("b"), Some("b")),
        };
        assert_eq!(session(mode, session_id).as_deref(), one, "{mode:?}");
        assert_eq!(session(mode, both).as_deref(), other, "{mode:?}");
        assert_eq!(session(mode, "[]"), None, "{mode:?}");
        // No request could name such a session either.
        let control = r#"{"session_id":"b\n","sessionId":"a\n","conversation_id":"c\n"}"#;
        assert_eq!(session(mode, control), None, "{mode:?}");
    }
    let conversation = r#"{"session_id":"b","conversation_id":"c"}"#;
    assert_eq!(session(Mode::Cursor, conversation).as_deref(), Some("c"));
}

#[test]
fn served_modes_are_parsed_under_every_accepted_name() {
    for (contract, mode, parsed, name) in [
        ("observe", "", Mode::Observe, ""),
        ("observe", "command", Mode::Observe, ""),
        ("reyn", "exec", Mode::ReynExec, "shell_exec"),
        ("reyn", "exec_capture", Mode::ReynPush, "shell_push"),
        ("reyn", "shell_exec", Mode::ReynExec, "shell_exec"),
        ("reyn", "shell_push", Mode::ReynPush, "shell_push"),
    ] {
        assert_eq!(Mode::parse(contract, mode), Ok(parsed));
        assert_eq!(
            (parsed.facts().contract, parsed.mode_name()),
            (contract, name)
        );
    }
}

#[test]
fn a_modes_own_names_lead_back_to_it() {
    for mode in Mode::ALL {
        assert_eq!(
            Mode::parse(mode.facts().contract, mode.mode_name()),
            Ok(mode)
        );
    }
}

#[test]
fn a_reyn_mode_has_no_default() {
    for mode in ["", "template_push", "Shell_Push"] {
        let Err(invalid) = Mode::parse("reyn", mode) else {
            panic!("`{mode}` was accepted")
        };
        assert_eq!(invalid.field, "mode");
    }
}

#[test]
fn unknown_contracts_are_invalid() {
    for contract in ["", "Reyn", "docker agent", "no_such"] {
        let Err(invalid) = Mode::parse(contract, "") else {
            panic!("`{contract}` was accepted")
        };
        assert_eq!(invalid.field, "contract");
    }
}

#[test]
fn hyphens_and_underscores_make_no_difference_to_a_name() {
    for name in ["docker_agent", "docker-agent", "dockeragent"] {
        assert_eq!(Mode::parse(name, ""), Ok(Mode::DockerAgent), "{name}");
    }
    assert!(is_spelled("base-coat", "base_coat") && !is_spelled("loom", "loon"));
}

#[test]
fn defaults_are_the_contracts_own() {
    let argv = Defaults {
        command: CommandStyle::Argv,
        profile: "strict",
        timeout: None,
    };
    assert_eq!(Mode::Observe.defaults("p"), argv);
    let reyn = Defaults {
        timeout: Some(Duration::from_secs(60)),
        ..argv
    };
    assert_eq!(
        (Mode::ReynExec.defaults("p"), Mode::ReynPush.defaults("p")),
        (reyn, reyn)
    );
    assert_eq!(
        (
            Mode::Observe.facts().version,
            Mode::ReynPush.facts().version
        ),
        ("observe/1", "reyn/2026-06")
    );
}

#[test]
fn command_hooks_run_in_their_runtimes_shell_and_time() {
    let shell = |mode: Mode, point: &str| {
        let defaults = mode.defaults(point);
        let timeout = defaults.timeout.map(|timeout| timeout.as_millis());
        (defaults.command.to_string(), defaults.profile, timeout)
    };
    for (mode, point, command, timeout) in [
        (Mode::ClaudeCode, "PreToolUse", "/bin/sh -c", Some(600_000)),
        (
            Mode::ClaudeCode,
            "UserPromptSubmit",
            "/bin/sh -c",
            Some(30_000),
        ),
        (
            Mode::ClaudeCode,
            "PreModelSwitch",
            "/bin/sh -c",
            Some(30_000),
        ),
        (
            Mode::ClaudeCode,
            "MessageDisplay",
            "/bin/sh -c",
            Some(10_000),
        ),
        (Mode::ClaudeCode, "SessionEnd", "/bin/sh -c", Some(1_500)),
        (Mode::Codex, "SessionEnd", "/bin/sh -lc", Some(1_000)),
        (Mode::Copilot, "preToolUse", "/bin/bash -c", Some(30_000)),
        (Mode::Cursor, "preToolUse", "/bin/sh -c", None),
        (Mode::GeminiCli, "BeforeTool", "/bin/bash -c", Some(60_000)),
        (Mode::QwenCode, "PreToolUse", "/bin/bash -c", Some(60_000)),
    ] {
        let expected = (command.to_owned(), "workspace-ro", timeout);
        assert_eq!(shell(mode, point), expected, "{mode:?} {point}");
    }
}

#[test]
fn claude_code_and_qwen_code_have_points_that_are_not_listed_here() {
    for (mode, known, stop) in [
        (Mode::ClaudeCode, "PreToolUse", Stop::Call),
        (Mode::Codex, "PermissionRequest", Stop::Call),
        (Mode::Copilot, "PreToolUse", Stop::Call),
        (Mode::Copilot, "preToolUse", Stop::Call),
        (Mode::Cursor, "beforeReadFile", Stop::Call),
        (Mode::GeminiCli, "AfterTool", Stop::Operation),
        (Mode::QwenCode, "TodoCreated", Stop::Operation),
    ] {
        assert_eq!(mode.stop_at(known), Ok(stop), "{mode:?}");
        let other = mode.stop_at("PreLaunch").ok();
        let is_open = matches!(mode, Mode::ClaudeCode | Mode::QwenCode);
        let open = is_open.then_some(Stop::Operation);
        assert_eq!(other, open, "{mode:?}");
    }
}

#[test]
fn a_raw_event_may_be_at_a_point_of_a_newer_runtime() {
    for mode in Mode::ALL {
        let problem = |point: &str, raw: bool| {
            let event = Event {
                raw,
                ..event(point, "{}")
            };
            mode.check_point(&event).err()
        };
        assert_eq!(problem("preLaunch", true), None, "{mode:?}");
        let is_closed = mode.stop_at("preLaunch").is_err();
        assert_eq!(problem("preLaunch", false).is_some(), is_closed, "{mode:?}");
        let has_names = !mode.facts().points.is_empty();
        assert_eq!(
            problem("", true).is_some(),
            has_names && mode.stop_at("").is_err()
        );
    }
    let misspelt = Event {
        raw: true,
        ..event("pre-tool-use", "{}")
    };
    assert!(Mode::Codex.check_point(&misspelt).is_err());
}

#[test]
fn a_misspelt_point_is_none_even_where_the_list_is_open() {
    for (mode, point) in [
        (Mode::ClaudeCode, "PreToolUse "),
        (Mode::ClaudeCode, "pre_tool_use"),
        (Mode::ClaudeCode, "pre-tool-use"),
        (Mode::ClaudeCode, "BeforeTool"),
        (Mode::ClaudeCode, "tool.pre"),
        (Mode::ReynPush, "TurnEnd"),
        (Mode::ReynExec, "session.start"),
    ] {
        let error = mode.stop_at(point).unwrap_err();
        assert_eq!(error.field, "event.point", "{mode:?} {point}");
    }
    // New points are taken.
    for (mode, point) in [
        (Mode::ClaudeCode, "PreLaunch"),
        (Mode::ReynPush, "composed:turn_end"),
        (Mode::Observe, "pre_tool_use"),
    ] {
        assert!(mode.stop_at(point).is_ok(), "{mode:?} {point}");
    }
}

#[test]
fn a_point_in_another_case_is_that_point_under_every_contract() {
    let mut other = 0;
    for mode in Mode::ALL {
        let points = mode.facts().points;
        for known in points {
            assert_eq!(mode.spelled(known.name), known.name, "{mode:?}");
            for point in [known.name.to_lowercase(), known.name.to_uppercase()] {
                // Copilot has two names that differ in case alone, for one point.
                assert_eq!(mode.stop_at(&point), Ok(known.stop), "{mode:?} {point}");
                let named = mode.spelled(&point);
                assert!(points.iter().any(|known| known.name == named));
                assert!(named.eq_ignore_ascii_case(&point), "{mode:?} {point}");
                other += usize::from(named != point);
            }
        }
    }
    assert!(other > 100, "{other}");
}

#[test]
fn an_object_that_names_no_point_may_be_empty_or_say_anything() {
    let envelope = Envelope {
        session: "s".to_owned(),
        ..Envelope::default()
    };
    for (json, envelope, expected) in [
        ("{}", Envelope::default(), "{}"),
        ("", envelope.clone(), r#"{"sessionId":"s"}"#),
        (
            r#"{"hook_event_name": "x"}"#,
            envelope,
            r#"{"sessionId":"s","hook_event_name":"x"}"#,
        ),
    ] {
        let stdin = Mode::Copilot.stdin(&event("preToolUse", json), &envelope);
        assert_eq!(stdin.unwrap(), expected);
    }
    for json in ["[]", "{} {}"] {
        let stdin = Mode::Copilot.stdin(&event("preToolUse", json), &Envelope::default());
        let problem = "must be one JSON object: copilot adds its own to its members";
        assert_eq!(stdin, Err(InvalidField::new("event.json", problem)));
    }
    let unnamed = Mode::Copilot.stdin(&event("", "{}"), &Envelope::default());
    assert_eq!(unnamed.unwrap_err().field, "event.point");
}

#[test]
fn stdin_is_verbatim_when_raw_or_observed() {
    let text = "{ \"point\" : \"other\" }\n";
    assert_eq!(
        Mode::Observe
            .stdin(&event("p", text), &Envelope::default())
            .unwrap(),
        text
    );
    assert_eq!(
        Mode::ReynPush
            .stdin(
                &Event {
                    raw: true,
                    ..event("p", "[1] ")
                },
                &Envelope::default()
            )
            .unwrap(),
        "[1] "
    );
}

#[test]
fn reyns_line_has_the_mode_the_command_and_a_code_that_is_not_0() {
    let line = |event: &str, members: Value| display(event, members.as_object().unwrap());
    let shown = |mode: &str, code: i32| {
        let members = json!({"command": "a 'b c'", "mode": mode, "returncode": code});
        line("hook_shell_executed", members)
    };
    assert_eq!(
        shown("shell_exec", 0).as_deref(),
        Some("shell_exec: a 'b c'")
    );
    for (code, expected) in [
        (3, "shell_push: a 'b c' [rc=3]"),
        (-1, "shell_push: a 'b c' [rc=-1]"),
    ] {
        assert_eq!(shown("shell_push", code).as_deref(), Some(expected));
    }
    // Others are shown as objects, as is what a journal has of it that is not whole.
    let members = json!({"command": "a", "mode": "m", "returncode": 0});
    assert_eq!(line("hook_command", members), None);
    assert_eq!(line("hook_shell_executed", json!({"mode": "m"})), None);
}

#[test]
fn what_is_advised_decides_nothing_and_keeps_its_texts() {
    let judged = |mode: Mode, point: &str, advisory, stdout: &str| {
        let end = End {
            entry: Entry {
                advisory,
                ..Entry::default()
            },
            point,
            ..end(EndKind::Exited(0), stdout.as_bytes())
        };
        mode.judge(&end, OnFailure::Closed)
    };
    let block = r#"{"action":"block","reason":"no","additionalContext":["c"],"warnings":["w"]}"#;
    let modify = r#"{"action":"modify","modifiedInput":{"a":1}}"#;
    let judged_as = |advisory, stdout| judged(Mode::Basecoat, "PreToolUse", advisory, stdout);
    assert_eq!(judged_as(false, block).decision, Decision::Block);
    assert!(judged_as(false, modify).updated_input.is_some());
    let verdict = judged_as(true, block);
    assert_eq!(
        (verdict.decision, verdict.blocked_by),
        (Decision::None, None)
    );
    assert_eq!(verdict.additional_context, ["c"]);
    assert_eq!(
        verdict.warnings,
        ["w", "the hook is advisory, and its decision is BLOCK: no"]
    );
    assert_eq!(judged_as(true, modify).updated_input, None);
    // A failure stops nothing, and an approval approves nothing.
    assert_eq!(judged_as(false, "text").decision, Decision::Block);
    let verdict = judged_as(true, "text");
    assert_eq!((verdict.decision, verdict.failed), (Decision::None, true));
    let allow =
        r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}"#;
    let decision = |advisory| judged(Mode::ClaudeCode, "PreToolUse", advisory, allow).decision;
    assert_eq!(
        (decision(false), decision(true)),
        (Decision::Allow, Decision::None)
    );
}

#[test]
fn base_coats_measures_are_those_of_the_point_and_numbers_or_words() {
    let measured = |point: &str, metadata: Value| {
        let stdout = json!({ "metadata": metadata }).to_string();
        let end = End {
            point,
            ..end(EndKind::Exited(0), stdout.as_bytes())
        };
        let verdict = Mode::Basecoat.judge(&end, OnFailure::Contract);
        Value::Object((Mode::Basecoat.facts().measures)(point, &verdict))
    };
    let expected =
        json!({"policyChecks": 2, "toolCategory": "shell/git", "correlationId": "00-4bf9-00"});
    let mut metadata = expected.clone();
    for (name, value) in [
        ("hookId", json!("guard")),
        ("memoryHits", json!(3)),
        ("warningsInjected", json!("2")),
        ("policy_checks", json!(2)),
    ] {
        metadata[name] = value;
    }
    assert_eq!(measured("PreToolUse", metadata.clone()), expected);
    // Of another point, the same words are others.
    let at_start = json!({"memoryHits": 3, "correlationId": "00-4bf9-00"});
    assert_eq!(measured("SessionStart", metadata), at_start);
    let long = "x".repeat(65);
    for category in [
        json!(""),
        json!("a b"),
        json!("rm\n-rf"),
        json!("\u{e4}"),
        json!(long),
        json!(1),
        json!(null),
    ] {
        assert_eq!(
            measured("PreToolUse", json!({ "toolCategory": category })),
            json!({})
        );
    }
    let points = [
        "SessionStart",
        "SessionEnd",
        "PreToolUse",
        "PostToolUse",
        "PreCompact",
        "PostCompact",
        "OnError",
        "OnBudgetExceeded",
    ];
    let all = json!({
        "compressionRatio": 0.5, "duration": 1, "handoffSize": 1, "loopScore": 1, "memoryHits": 1, "normalizedErrorClass": "a",
        "persistedFacts": 1, "policyChecks": 1, "preCompactionTokenLoad": 1, "recurrenceCount": 1, "retainedAnchors": 1,
        "retryCount": 1, "rotationFrequency": 1, "sessionBootstrapLatency": 1, "successRate": 1, "toolCategory": "a",
        "triggerThreshold": 1, "warningsInjected": 1,
    });
    let counts = points.map(|point| measured(point, all.clone()).as_object().unwrap().len());
    assert_eq!(counts, [2, 2, 3, 4, 2, 2, 2, 2]);
}

#[test]
fn reyn_stdin_needs_a_point_and_an_object_that_agrees_with_it() {
    for (point, json, field) in [
        ("", "{}", "event.point"),
        ("p", "[]", "event.json"),
        ("p", "null", "event.json"),
        ("p", "{} {}", "event.json"),
        ("p", "{\"point\":\"q\"}", "event.json"),
        ("p", "{\"point\":7}", "event.json"),
        ("p", "{\"a\":", "event.json"),
    ] {
        assert_eq!(
            Mode::ReynExec
                .stdin(&event(point, json), &Envelope::default())
                .unwrap_err()
                .field,
            field,
            "{json}"
        );
    }
    assert_eq!(
        Mode::ReynExec
            .stdin(&event("p\"\u{e9}", ""), &Envelope::default())
            .unwrap(),
        "{\"point\":\"p\\\"\u{e9}\"}"
    );
}

#[test]
fn command_lines_are_split_as_reyn_splits_them() {
    for (text, expected) in [
        (
            "echo session-started >> /tmp/x | cat $HOME *",
            &[
                "echo",
                "session-started",
                ">>",
                "/tmp/x",
                "|",
                "cat",
                "$HOME",
                "*",
            ][..],
        ),
        (" a\tb\r\nc ", &["a", "b", "c"]),
        (
            "a 'b \\c' \"d 'e'\" f'g'\"h\"",
            &["a", "b \\c", "d 'e'", "fgh"],
        ),
        ("a '' \"\"", &["a", "", ""]),
        ("a\\ b \\'c\\\nd", &["a b", "'c\nd"]),
        (r#"a "\$x \`y \"z\" \\ \n""#, &["a", r#"\$x \`y "z" \ \n"#]),
        ("a #b c#d", &["a", "#b", "c#d"]),
        ("a\u{a0}b", &["a\u{a0}b"]),
    ] {
        assert_eq!(
            words(text),
            Ok(expected.iter().map(OsString::from).collect()),
            "{text}"
        );
    }
}

#[test]
fn command_lines_that_cannot_be_split_are_refused() {
    for (text, problem) in [
        ("", "names no program"),
        (" \t\n", "names no program"),
        ("'' a", "names no program"),
        ("a 'b", "has a quotation that is not closed"),
        ("a \"b", "has a quotation that is not closed"),
        ("a \"b\\", "has a quotation that is not closed"),
        ("a \\", "ends in a backslash that escapes nothing"),
    ] {
        assert_eq!(
            words(text),
            Err(format!("hook.shell.script {problem}")),
            "{text}"
        );
    }
}

#[test]
fn a_closed_policy_blocks_on_every_kind_of_failure() {
    for (kind, stdout, blocked_by, reason) in [
        (
            EndKind::Exited(2),
            PUSH,
            BlockedBy::ExitCode,
            "nonzero_exit",
        ),
        (EndKind::TimedOut, PUSH, BlockedBy::Timeout, "timeout"),
        (EndKind::Signaled(9), PUSH, BlockedBy::Signal, "signal"),
        (EndKind::Canceled, PUSH, BlockedBy::Signal, "signal"),
        (EndKind::Killed, PUSH, BlockedBy::Signal, "signal"),
        (
            EndKind::ExecFailed,
            b"",
            BlockedBy::SpawnError,
            "invalid_command",
        ),
        (
            EndKind::Exited(0),
            b"{}",
            BlockedBy::InvalidOutput,
            "missing_field:message",
        ),
    ] {
        let end = end(kind, stdout);
        let open = Mode::ReynPush.judge(&end, OnFailure::Contract);
        assert_eq!((open.decision, open.blocked_by), (Decision::None, None));
        let closed = Verdict {
            blocked_by: Some(blocked_by),
            decision: Decision::Block,
            reason: format!("the hook failed: {reason}"),
            ..open
        };
        assert_eq!(Mode::ReynPush.judge(&end, OnFailure::Closed), closed);
        let entry = Entry {
            on_failure: OnFailure::Closed,
            ..Entry::default()
        };
        let end = End { entry, ..end };
        assert_eq!(Mode::ReynPush.judge(&end, OnFailure::Contract), closed);
    }
}

#[test]
fn a_closed_policy_leaves_what_did_not_fail() {
    for (mode, stdout) in [(Mode::ReynPush, PUSH), (Mode::ReynExec, b"anything")] {
        let end = end(EndKind::Exited(0), stdout);
        let verdict = mode.judge(&end, OnFailure::Closed);
        assert_eq!(verdict, mode.judge(&end, OnFailure::Contract));
        assert_eq!(verdict.decision, Decision::None);
    }
}

#[test]
fn points_that_end_something_are_known() {
    let ending = [
        "session.end",
        "session_end",
        "turn_end",
        "SessionEnd",
        "sessionEnd",
        "post_session",
        "turn_start",
        "task_end",
        "SESSION_END",
        "",
    ];
    let mut expected = [true; 10];
    expected[6..].fill(false);
    assert_eq!(ending.map(ends_something), expected);
}

#[test]
fn deep_directives_are_refused_without_recursion() {
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        format!("{{\"message\":\"m\",\"wake\":true,\"push_when\":true,\"x\":{open}{close}}}")
    };
    let skip = |text: &str| {
        Mode::ReynPush
            .judge(
                &end(EndKind::Exited(0), text.as_bytes()),
                OnFailure::Contract,
            )
            .skip
    };
    assert_eq!(skip(&nested(127)), None);
    assert_eq!(skip(&nested(128)), Some(Skip::InvalidJson));
    assert_eq!(skip(&nested(1_000_000)), Some(Skip::InvalidJson));
    assert_eq!(skip(&"[".repeat(1_000_000)), Some(Skip::InvalidJson));
}

#[test]
fn rewritten_values_keep_every_digit() {
    let stdout = r#"{ "action": "modify", "priority": 2,
        "modifiedInput": { "id": 123456789012345678901234567890, "rate": 1.50e+3, "text": " \u00e9 " },
        "modifiedOutput": 0.10, "metadata": {"n": 1E400} }"#;
    let end_of = |name: &str, stdout: &str| ExternalEnd {
        command: String::new(),
        config: serde_json::Map::new(),
        duration: None,
        error: String::new(),
        kind: EndKind::Exited(0),
        name: name.to_owned(),
        stderr: Vec::new(),
        stdout: stdout.into(),
        stdout_truncated: false,
        turn: None,
    };
    let members = r#""metadata":{"n":1E400}"#;
    let rewritten = r#""updatedInput":{"id":123456789012345678901234567890,"rate":1.50e+3,"text":" \u00e9 "},"updatedOutput":0.10"#;
    let end = End {
        point: "PreToolUse",
        ..end(EndKind::Exited(0), stdout.as_bytes())
    };
    let verdict = Mode::Basecoat.judge(&end, OnFailure::Contract);
    assert_eq!(
        serde_json::to_string(&verdict).unwrap(),
        format!(r#"{{"decision":"NONE","failed":false,{members},"priority":2.0,{rewritten}}}"#)
    );

    let ends = [end_of("a", stdout), end_of("b", "{}")];
    let reading = read(Mode::Basecoat, "PreToolUse", &ends).unwrap();
    let answer = format!(
        r#""answer":{{"decision":"NONE","failed":false,{members},{rewritten},"messages":[]"#
    );
    let json = serde_json::to_string(&reading).unwrap();
    assert!(json.contains(&answer), "{json}");
}

#[test]
fn merged_metadata_has_each_key_once() {
    let hook = |metadata: &str| {
        let stdout = format!(r#"{{"metadata":{metadata}}}"#);
        Mode::Basecoat.judge(
            &end(EndKind::Exited(0), stdout.as_bytes()),
            OnFailure::Contract,
        )
    };
    let (one, two) = (hook(r#"{"id":1,"a":1,"a":2}"#), hook(r#"{"id":2.0}"#));
    let folded = Mode::Basecoat.fold("PreToolUse", &[("one", &one), ("two", &two)]);
    let metadata = folded.answer.metadata.unwrap();
    assert_eq!(metadata.as_str(), r#"{"a":2,"id":2.0}"#);
}

fn any_kind() -> impl Strategy<Value = EndKind> {
    prop_oneof![
        Just(EndKind::Canceled),
        Just(EndKind::Killed),
        Just(EndKind::ExecFailed),
        any::<i32>().prop_map(EndKind::Exited),
        Just(EndKind::OutputLimit),
        (1..65).prop_map(EndKind::Signaled),
        Just(EndKind::TimedOut),
    ]
}

fn any_stdout() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200),
        Just(PUSH.to_vec()),
        // Close to a directive: this is where a parser could be talked into something.
        r#"[ \n]?\{("(message|wake|push_when|session|x)":(true|false|null|1e999|"a?"|\[\]|"\\u[dD]800"),?){0,6}\}[ x]?"#
            .prop_map(String::into_bytes),
    ]
}

fn any_mode() -> impl Strategy<Value = Mode> {
    prop_oneof![
        Just(Mode::Observe),
        Just(Mode::ReynExec),
        Just(Mode::ReynPush)
    ]
}

/// Generates answers close to those of contracts, where a parser could be misled.
fn any_answer() -> impl Strategy<Value = Vec<u8>> {
    let member = r#"(("(continue|stopReason|suppressOutput|systemMessage|output|additionalContext|warnings|priority|metadata|user_message|agent_message)":(true|false|null|0|-1\.5|1e999|"a?"|\[\]|\["a"\]|\{"k":1\}|"\\ud800")|"(decision|action|permission|permissionDecision|permission_decision|behavior)":("(allow|deny|ask|block|approve|defer|modify|injectContext|passThrough|Block)"|null|1)|"(reason|permissionDecisionReason|permission_decision_reason)":("no"|""|null|[0-9])|"(modifiedInput|modifiedOutput|updatedInput|updated_input|tool_input|tool_output)":(\{"a":1\}|null|"x")|"(hookSpecificOutput|hook_specific_output)":\{("(hookEventName|hook_event_name)":"(PreToolUse|BeforeTool|pre_tool_use)",)?("(permissionDecision|permission_decision|decision)":"(deny|allow|ask)",)?"(updatedInput|additionalContext)":("a"|\{\})\}))"#;
    let matching = |regex: String| {
        let text = proptest::string::string_regex(&regex).unwrap();
        text.prop_map(String::into_bytes)
    };
    prop_oneof![
        4 => matching(format!(r"[ \n]?\{{{member}(,{member}){{0,3}}\}}")),
        1 => matching(format!(r"[ \n]?\{{({member},?){{0,2}}\}}?[ x\}}]?")),
        1 => any_stdout(),
    ]
}

fn any_text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(Vec::new()),
        "[ a-z\n]{0,8}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..20),
    ]
}

/// Generates ends, with exit 0 often enough for output to matter.
fn any_end_kind() -> impl Strategy<Value = EndKind> {
    prop_oneof![2 => Just(EndKind::Exited(0)), 1 => Just(EndKind::Exited(2)), 2 => any_kind()]
}

/// Generates every contract in every mode, at each of its points. Where it has others, one of those is included.
fn any_place() -> impl Strategy<Value = (Mode, &'static str)> {
    let places = Mode::ALL.into_iter().flat_map(|mode| {
        let others = ["no_such_point"].into_iter();
        let others = others.filter(move |point| mode.stop_at(point).is_ok());
        let known = mode.facts().points.iter().map(|point| point.name);
        known.chain(others).map(move |point| (mode, point))
    });
    proptest::sample::select(places.collect::<Vec<_>>())
}

fn any_policy() -> impl Strategy<Value = OnFailure> {
    prop_oneof![Just(OnFailure::Closed), Just(OnFailure::Contract)]
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let priority = proptest::option::of(-100.0..100.0);
    let allowed = proptest::option::weighted(0.2, any::<bool>());
    (allowed, 0..20_usize, any_policy(), priority, any::<bool>()).prop_map(
        |(allowed, context_chars, on_failure, priority, strict_output)| Entry {
            allowed,
            context_chars,
            on_failure,
            priority,
            strict_output,
            ..Entry::default()
        },
    )
}

/// Generates ends as another runner reports them, some of one hook.
fn any_given() -> impl Strategy<Value = Vec<ExternalEnd>> {
    let kind = prop_oneof![
        3 => Just(EndKind::Exited(0)),
        1 => any::<i32>().prop_map(EndKind::Exited),
        1 => (1..65).prop_map(EndKind::Signaled),
        1 => Just(EndKind::TimedOut),
        1 => Just(EndKind::ExecFailed),
    ];
    let key = proptest::sample::select(vec!["allowed", "name", "on_failure", "priority"]);
    let value = proptest::sample::select(vec!["true", "false", "7", "-0.5", "\"block\"", "null"]);
    let config = proptest::option::weighted(0.1, (key, value));
    let end = (
        kind,
        "[ab]?",
        any_answer(),
        any_text(),
        any::<bool>(),
        config,
    )
        .prop_map(|(kind, name, stdout, stderr, is_cut, config)| {
            let member =
                |(key, value): (&str, &str)| (key.to_owned(), serde_json::from_str(value).unwrap());
            ExternalEnd {
                command: "guard".to_owned(),
                config: config.into_iter().map(member).collect(),
                duration: None,
                error: String::new(),
                kind,
                name,
                stderr,
                stdout,
                stdout_truncated: is_cut && kind == EndKind::TimedOut,
                turn: None,
            }
        });
    proptest::collection::vec(end, 0..6)
}

/// A gate of each contract with approvals, and an approval there.
const GATES: [(Mode, &str, &str); 6] = [
    (
        Mode::ClaudeCode,
        "PreToolUse",
        r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}"#,
    ),
    (
        Mode::Codex,
        "PermissionRequest",
        r#"{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow"}}}"#,
    ),
    (
        Mode::Copilot,
        "preToolUse",
        r#"{"permissionDecision":"allow"}"#,
    ),
    (
        Mode::Copilot,
        "PermissionRequest",
        r#"{"behavior":"allow"}"#,
    ),
    (Mode::Cursor, "preToolUse", r#"{"permission":"allow"}"#),
    (Mode::GeminiCli, "BeforeTool", r#"{"decision":"allow"}"#),
];

#[test]
fn geminis_next_hook_reads_what_the_one_before_it_made_of_the_event() {
    let context = Verdict {
        additional_context: vec!["more".to_owned()],
        ..Verdict::default()
    };
    let request = Verdict {
        updated_messages: Some(Json::checked(r#"{"config":{"temperature":0}}"#)),
        ..Verdict::default()
    };
    for (point, json, verdict, expected) in [
        (
            "BeforeAgent",
            r#"{"prompt":"do"}"#,
            &context,
            r#"{"prompt":"do\n\nmore"}"#,
        ),
        ("BeforeAgent", r#"{"other":1}"#, &context, r#"{"other":1}"#),
        (
            "AfterAgent",
            r#"{"prompt":"do"}"#,
            &context,
            r#"{"prompt":"do"}"#,
        ),
        (
            "BeforeModel",
            r#"{"llm_request":{"model":"m","config":{"topP":1}}}"#,
            &request,
            r#"{"llm_request":{"model":"m","config":{"temperature":0}}}"#,
        ),
    ] {
        let mut event = event(point, json);
        (Mode::GeminiCli.facts().hand_on)(verdict, &mut event, &mut Envelope::default());
        assert_eq!(event.json, expected, "{point}");
    }
}

#[test]
fn an_approval_that_is_not_whole_approves_nothing() {
    for (mode, point, approval) in GATES {
        let judge = |stdout: &str, stdout_truncated| {
            let end = End {
                point,
                stdout_truncated,
                ..end(EndKind::Exited(0), stdout.as_bytes())
            };
            let verdict = mode.judge(&end, OnFailure::Contract);
            let closed = mode.judge(&end, OnFailure::Closed);
            (verdict.decision, verdict.failed, closed.decision)
        };
        let whole = (Decision::Allow, false, Decision::Allow);
        let broken = (Decision::None, true, Decision::Deny);
        assert_eq!(judge(approval, false), whole, "{mode:?}");
        assert_eq!(judge(approval, true), broken, "{mode:?}");
        for length in 1..approval.len() {
            assert_eq!(
                judge(&approval[..length], false),
                broken,
                "{mode:?} {length}"
            );
        }
        let repeated = format!(r#"{{"x":{approval},"x":{approval},{}"#, &approval[1..]);
        assert_eq!(judge(&repeated, false), broken, "{mode:?}");
        // To Claude Code several documents are text.
        let several = match mode == Mode::ClaudeCode {
            true => (Decision::None, false, Decision::None),
            false => broken,
        };
        let twice = format!("{approval} {approval}");
        assert_eq!(judge(&twice, false), several, "{mode:?}");
    }
}

proptest! {
    #[test]
    fn only_a_hook_that_held_and_was_read_whole_allows(
        (mode, point) in any_place(), kind in any_end_kind(), stdout in any_answer(), stderr in any_text(),
        stdout_truncated in proptest::bool::weighted(0.2), entry in any_entry(), on_failure in any_policy(),
    ) {
        let end = End { entry, kind, name: "guard", point, stderr: &stderr, stdout: &stdout, stdout_truncated, ..End::default() };
        let verdict = mode.judge(&end, on_failure);
        if kind != EndKind::Exited(0) || stdout_truncated {
            prop_assert_ne!(verdict.decision, Decision::Allow);
        }
        // Stopping verdicts alone name a cause.
        prop_assert!(!verdict.decision.stops() || verdict.blocked_by.is_some());
        prop_assert!(!verdict.recorded_block || verdict.decision.stops());
        // Under a closed policy nothing gets by that broke; a point that cannot be stopped has it recorded.
        if on_failure == OnFailure::Closed || entry.on_failure == OnFailure::Closed {
            prop_assert!(!verdict.failed || verdict.decision.stops() || verdict.recorded_block);
        }
        // A stricter policy never opens what was closed.
        if mode.judge(&end, OnFailure::Contract).decision.stops() {
            prop_assert!(mode.judge(&end, OnFailure::Closed).decision.stops());
        }
        let json = serde_json::to_string(&verdict).unwrap();
        prop_assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
        // Judging is pure.
        prop_assert_eq!(mode.judge(&end, on_failure), verdict);
    }

    #[test]
    fn any_ends_are_read_or_a_field_is_named((mode, point) in any_place(), ends in any_given()) {
        match read(mode, point, &ends) {
            Ok(reading) => {
                prop_assert!(reading.verdicts.len() <= ends.len());
                prop_assert!(reading.ran.len() <= reading.verdicts.len());
                prop_assert!(reading.ran.iter().all(|name| ends.iter().any(|end| end.name == *name)));
                // Nothing is read of hooks that would not have run.
                let last = reading.verdicts.iter().position(|verdict| mode.scheduling(point).ends_after(verdict));
                prop_assert!(last.is_none_or(|last| last + 1 == reading.verdicts.len()));
                let by = &reading.folded.blocked_by_hook;
                prop_assert!(by.is_empty() || ends.iter().any(|end| end.name == *by));
                let answer = &reading.folded.answer;
                prop_assert!(!answer.decision.stops() || answer.blocked_by.is_some());
                let json = serde_json::to_string(&reading).unwrap();
                prop_assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
            }
            Err(error) => prop_assert!(error.field.starts_with("ends["), "{error}"),
        }
    }

    #[test]
    fn nothing_but_a_whole_output_at_exit_0_approves(gate in 0..GATES.len(), kind in any_kind(), stdout_truncated: bool) {
        let (mode, point, approval) = GATES[gate];
        let end = End { point, stdout_truncated, ..end(kind, approval.as_bytes()) };
        let approves = kind == EndKind::Exited(0) && !stdout_truncated;
        let open = mode.judge(&end, OnFailure::Contract);
        prop_assert_eq!(open.decision == Decision::Allow, approves);
        prop_assert!(approves || open.failed || open.decision == Decision::Deny);
        let closed = mode.judge(&end, OnFailure::Closed);
        prop_assert_eq!(closed.decision, if approves { Decision::Allow } else { Decision::Deny });
    }

    #[test]
    fn any_output_of_a_gate_has_a_verdict(gate in 0..GATES.len(), kind in any_kind(), stdout in any_stdout()) {
        let (mode, point, _) = GATES[gate];
        let verdict = mode.judge(&End { point, ..end(kind, &stdout) }, OnFailure::Contract);
        prop_assert_eq!(verdict.decision.stops(), verdict.blocked_by.is_some());
        prop_assert!(!(verdict.failed && verdict.decision == Decision::Allow));
    }

    #[test]
    fn any_output_has_a_verdict(mode in any_mode(), kind in any_kind(), stdout in any_stdout(), stdout_truncated: bool) {
        let end = End { stdout_truncated, ..end(kind, &stdout) };
        let verdict = mode.judge(&end, OnFailure::Contract);
        prop_assert_eq!(verdict.decision, Decision::None);
        // Either there is something to deliver, or a reason why not.
        prop_assert_eq!(verdict.push.is_some(), verdict.skip.is_none());
        prop_assert!(!(verdict.failed && verdict.push.is_some()));
        prop_assert_eq!(mode.event(&end).is_some(), mode != Mode::Observe && kind != EndKind::ExecFailed);
    }

    #[test]
    fn nothing_but_exit_0_pushes(mode in any_mode(), kind in any_kind(), stdout in any_stdout()) {
        prop_assume!(kind != EndKind::Exited(0));
        let verdict = mode.judge(&end(kind, &stdout), OnFailure::Contract);
        prop_assert_eq!(verdict.push, None);
        prop_assert!(verdict.failed);
    }

    #[test]
    fn a_truncated_output_never_pushes(mode in any_mode(), kind in any_kind(), stdout in any_stdout()) {
        let verdict = mode.judge(&End { stdout_truncated: true, ..end(kind, &stdout) }, OnFailure::Contract);
        prop_assert_eq!(verdict.push, None);
    }

    #[test]
    fn messages_arrive_verbatim(message in "\\PC*[a-z]\\PC*", wake: bool) {
        let stdout = serde_json::json!({ "message": message, "wake": wake, "push_when": true }).to_string();
        let push = Push { message, name: "turn_end".to_owned(), session: String::new(), wake };
        let verdict = Mode::ReynPush.judge(&end(EndKind::Exited(0), stdout.as_bytes()), OnFailure::Contract);
        prop_assert_eq!(verdict, Verdict { push: Some(push), ..Verdict::default() });
    }

    #[test]
    fn any_text_splits_or_is_refused(text in any::<String>()) {
        let split = Mode::ReynExec.split(&text);
        prop_assert!(split.is_err_and(|error| error.field == "hook.shell.script") || !text.trim_matches([' ', '\t', '\r', '\n']).is_empty());
    }

    #[test]
    fn reyn_stdin_is_one_compact_object_or_refused(json in any_stdout()) {
        let event = Event { json: json.into(), point: "p".to_owned(), raw: false };
        if let Ok(stdin) = Mode::ReynPush.stdin(&event, &Envelope::default()) {
            let starts_with_the_point = stdin.starts_with(b"{\"point\":\"p\"");
            prop_assert!(starts_with_the_point);
            prop_assert!(serde_json::from_slice::<serde::de::IgnoredAny>(&stdin).is_ok());
            prop_assert_eq!(stdin.last(), Some(&b'}'));
        }
    }
}
