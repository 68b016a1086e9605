use proptest::prelude::*;

use super::*;

const PUSH: &[u8] = br#"{"message":"m","wake":true,"push_when":true}"#;

fn end(kind: EndKind, stdout: &[u8]) -> End<'_> {
    End {
        command: "hook a",
        kind,
        name: "",
        point: "turn_end",
        stderr: b"",
        stdout,
        stdout_truncated: false,
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
            (parsed.contract_name(), parsed.mode_name()),
            (contract, name)
        );
    }
}

#[test]
fn a_reyn_mode_has_no_default() {
    for mode in ["", "template_push", "Shell_Push", "command"] {
        let Err(ParseModeError::Invalid(invalid)) = Mode::parse("reyn", mode) else {
            panic!("`{mode}` was accepted")
        };
        assert_eq!(invalid.field, "mode");
    }
}

#[test]
fn unknown_contracts_are_invalid_and_known_ones_unserved() {
    for contract in ["", "Reyn", "docker-agent", "no_such"] {
        let Err(ParseModeError::Invalid(invalid)) = Mode::parse(contract, "") else {
            panic!("`{contract}` was accepted")
        };
        assert_eq!(invalid.field, "contract");
    }
    for contract in UNSERVED {
        assert_eq!(
            Mode::parse(contract, ""),
            Err(ParseModeError::Unserved { contract })
        );
    }
}

#[test]
fn defaults_are_the_contracts_own() {
    let argv = Defaults {
        command: CommandStyle::Argv,
        profile: "strict",
        timeout: None,
    };
    assert_eq!(Mode::Observe.defaults(), argv);
    let reyn = Defaults {
        timeout: Some(Duration::from_secs(60)),
        ..argv
    };
    assert_eq!(
        (Mode::ReynExec.defaults(), Mode::ReynPush.defaults()),
        (reyn, reyn)
    );
    assert_eq!(
        (Mode::Observe.version(), Mode::ReynPush.version()),
        ("observe/1", "reyn/2026-06")
    );
}

#[test]
fn stdin_is_verbatim_when_raw_or_observed() {
    let text = "{ \"point\" : \"other\" }\n";
    assert_eq!(Mode::Observe.stdin(&event("p", text)).unwrap(), text);
    assert_eq!(
        Mode::ReynPush
            .stdin(&Event {
                raw: true,
                ..event("p", "[1] ")
            })
            .unwrap(),
        "[1] "
    );
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
            Mode::ReynExec.stdin(&event(point, json)).unwrap_err().field,
            field,
            "{json}"
        );
    }
    assert_eq!(
        Mode::ReynExec.stdin(&event("p\"\u{e9}", "")).unwrap(),
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
            "the hook failed: nonzero_exit",
        ),
        (
            EndKind::TimedOut,
            PUSH,
            BlockedBy::Timeout,
            "the hook failed: timeout",
        ),
        (
            EndKind::Signaled(9),
            PUSH,
            BlockedBy::Signal,
            "the hook failed: signal",
        ),
        (
            EndKind::Canceled,
            PUSH,
            BlockedBy::Signal,
            "the hook failed: signal",
        ),
        (
            EndKind::ExecFailed,
            b"",
            BlockedBy::SpawnError,
            "the hook failed: invalid_command",
        ),
        (
            EndKind::Exited(0),
            b"{}",
            BlockedBy::InvalidOutput,
            "the hook failed: missing_field:message",
        ),
    ] {
        let open = Mode::ReynPush.interpret(&end(kind, stdout));
        let closed = Verdict {
            blocked_by: Some(blocked_by),
            decision: Decision::Block,
            reason: reason.to_owned(),
            ..open.clone()
        };
        assert_eq!(tighten(open.clone(), OnFailure::Closed), closed);
        assert_eq!(tighten(open.clone(), OnFailure::Contract), open);
    }
}

#[test]
fn a_closed_policy_leaves_what_did_not_fail_and_what_decided() {
    let pushed = Mode::ReynPush.interpret(&end(EndKind::Exited(0), PUSH));
    let ignored = Mode::ReynExec.interpret(&end(EndKind::Exited(0), b"anything"));
    let denied = Verdict {
        decision: Decision::Deny,
        failed: true,
        ..Verdict::default()
    };
    for verdict in [pushed, ignored, denied] {
        assert_eq!(tighten(verdict.clone(), OnFailure::Closed), verdict);
    }
}

#[test]
fn points_that_end_something_are_known() {
    let ending = [
        "session.end",
        "session_end",
        "turn_end",
        "turn_start",
        "task_end",
        "SESSION_END",
        "",
    ];
    assert_eq!(
        ending.map(ends_something),
        [true, true, true, false, false, false, false]
    );
}

#[test]
fn deep_directives_are_refused_without_recursion() {
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        format!("{{\"message\":\"m\",\"wake\":true,\"push_when\":true,\"x\":{open}{close}}}")
    };
    let skip = |text: &str| {
        Mode::ReynPush
            .interpret(&end(EndKind::Exited(0), text.as_bytes()))
            .skip
    };
    assert_eq!(skip(&nested(127)), None);
    assert_eq!(skip(&nested(128)), Some(Skip::InvalidJson));
    assert_eq!(skip(&nested(1_000_000)), Some(Skip::InvalidJson));
    assert_eq!(skip(&"[".repeat(1_000_000)), Some(Skip::InvalidJson));
}

fn any_kind() -> impl Strategy<Value = EndKind> {
    prop_oneof![
        Just(EndKind::Canceled),
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

proptest! {
    #[test]
    fn any_output_has_a_verdict(mode in any_mode(), kind in any_kind(), stdout in any_stdout(), stdout_truncated: bool) {
        let end = End { stdout_truncated, ..end(kind, &stdout) };
        let verdict = mode.interpret(&end);
        prop_assert_eq!(verdict.decision, Decision::None);
        // Either there is something to deliver, or it is said why not.
        prop_assert_eq!(verdict.push.is_some(), verdict.skip.is_none());
        prop_assert!(!(verdict.failed && verdict.push.is_some()));
        prop_assert_eq!(mode.event(&end).is_some(), mode != Mode::Observe && kind != EndKind::ExecFailed);
    }

    #[test]
    fn nothing_but_exit_0_pushes(mode in any_mode(), kind in any_kind(), stdout in any_stdout()) {
        prop_assume!(kind != EndKind::Exited(0));
        let verdict = mode.interpret(&end(kind, &stdout));
        prop_assert_eq!(verdict.push, None);
        prop_assert!(verdict.failed);
    }

    #[test]
    fn a_truncated_output_never_pushes(mode in any_mode(), kind in any_kind(), stdout in any_stdout()) {
        let verdict = mode.interpret(&End { stdout_truncated: true, ..end(kind, &stdout) });
        prop_assert_eq!(verdict.push, None);
    }

    #[test]
    fn messages_arrive_verbatim(message in "\\PC*[a-z]\\PC*", wake: bool) {
        let stdout = serde_json::json!({ "message": message, "wake": wake, "push_when": true }).to_string();
        let push = Push { message, name: "turn_end".to_owned(), session: String::new(), wake };
        let verdict = Mode::ReynPush.interpret(&end(EndKind::Exited(0), stdout.as_bytes()));
        prop_assert_eq!(verdict, Verdict { push: Some(push), ..Verdict::default() });
    }

    #[test]
    fn any_text_splits_or_is_refused(text in any::<String>()) {
        let split = Mode::ReynExec.split(&text);
        prop_assert!(split.is_err_and(|error| error.field == "hook.shell.script") || !text.trim().is_empty());
    }

    #[test]
    fn reyn_stdin_is_one_compact_object_or_refused(json in any_stdout()) {
        let event = Event { json: json.into(), point: "p".to_owned(), raw: false };
        if let Ok(stdin) = Mode::ReynPush.stdin(&event) {
            let starts_with_the_point = stdin.starts_with(b"{\"point\":\"p\"");
            prop_assert!(starts_with_the_point);
            prop_assert!(serde_json::from_slice::<serde::de::IgnoredAny>(&stdin).is_ok());
            prop_assert_eq!(stdin.last(), Some(&b'}'));
        }
    }
}
