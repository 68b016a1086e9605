use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use serde_json::{Value, json};

use hookjail_base::model::InvalidField;

use super::{
    commands::{Class, class},
    secrets::{redacted, redacted_json},
    *,
};
use crate::{BlockedBy, Decision, Json};

fn now() -> Timestamp {
    "2026-11-21T23:59:59.5Z".parse().unwrap()
}

fn action(name: &str, args: &[&str]) -> Result<Action, InvalidField> {
    let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
    Action::builtin(name, &args)
}

/// Returns arguments with which each is served.
fn usual(name: &str) -> &'static [&'static str] {
    match name {
        "add_prompt_files" => &["AGENTS.md"],
        "add_recent_commits" => &["10"],
        "max_iterations" => &["7"],
        _ => &[],
    }
}

fn parsed(name: &str, args: &[&str]) -> Result<Builtin, InvalidField> {
    let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
    Builtin::parse(name, &args)
}

fn run(builtin: &Builtin, point: &str, event: &str) -> Verdict {
    let event = Members::of_event(event.as_bytes()).unwrap();
    builtin.verdict(point, &event, &scene())
}

fn scene() -> Scene {
    Scene {
        names: CallerNames::default(),
        now: now(),
    }
}

fn text(json: Option<&Json>) -> String {
    serde_json::from_str(json.unwrap().as_str()).unwrap()
}

#[test]
fn what_is_served_parses_and_names_itself() {
    for name in SERVED {
        let args = usual(name);
        let action = action(name, args).unwrap();
        let (known, arguments, points) = action.as_builtin().unwrap();
        assert_eq!(known, name);
        assert_eq!(arguments, args);
        assert!(!points.is_empty());
        assert!(NOT_SERVED.iter().all(|(other, _)| *other != name));
    }
}

#[test]
fn what_is_not_served_is_named_with_the_reason() {
    for (name, args, problem) in [
        (
            "snapshot",
            &[][..],
            "`snapshot` is not served, as it writes files; use one of",
        ),
        (
            "add_user_info",
            &["x"],
            "`add_user_info` takes no arguments",
        ),
        (
            "add_Date",
            &[],
            "`add_Date` is unknown; use one of add_date,",
        ),
        ("", &[], "`` is unknown; use one of"),
        ("add_date", &["x"], "`add_date` takes no arguments"),
        (
            "safer_shell",
            &["safe-auto"],
            "`safer_shell` takes no arguments",
        ),
        ("max_iterations", &[], "must be one positive number"),
        ("max_iterations", &["0"], "must be one positive number"),
        ("max_iterations", &["-1"], "must be one positive number"),
        ("max_iterations", &["1", "2"], "must be one positive number"),
        ("max_iterations", &["ten"], "must be one positive number"),
        (
            "add_git_status",
            &["x"],
            "`add_git_status` takes no arguments",
        ),
        ("add_git_diff", &["--output=x"], "must be empty, or `full`"),
        ("add_git_diff", &["full", "x"], "must be empty, or `full`"),
        (
            "add_recent_commits",
            &["0"],
            "one positive number of commits",
        ),
        (
            "add_recent_commits",
            &["-p"],
            "one positive number of commits",
        ),
        ("add_prompt_files", &["/etc/passwd"], "no name of a file"),
        ("add_prompt_files", &["a/../../b"], "no name of a file"),
        ("add_prompt_files", &["a\nb"], "no name of a file"),
        (
            "add_prompt_files",
            &["--depth=2", "a"],
            "no option is served",
        ),
        ("add_prompt_files", &["a"; 17], "1 to 16 of them"),
    ] {
        let error = action(name, args).unwrap_err();
        assert!(error.problem.contains(problem), "{name}: {error}");
        let field = if args.is_empty() && name != "max_iterations" {
            "builtin"
        } else {
            "args"
        };
        assert_eq!(error.field, field, "{name}");
    }
}

#[test]
fn a_flag_stands_for_hooks_at_their_points() {
    let names = |flag| {
        let hooks = shorthand(flag)?;
        Some(
            hooks
                .iter()
                .map(|(point, action)| (*point, action.as_builtin().unwrap().0))
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(names("add_date").unwrap(), [("turn_start", "add_date")]);
    assert_eq!(names("safer").unwrap(), [("pre_tool_use", "safer_shell")]);
    assert_eq!(
        names("redact_secrets").unwrap(),
        ["pre_tool_use", "before_llm_call", "tool_response_transform"]
            .map(|point| (point, "redact_secrets"))
    );
    assert_eq!(
        names("limit_large_tool_results").unwrap(),
        [
            ("tool_response_transform", "limit_large_tool_results"),
            ("session_end", "limit_large_tool_results"),
        ]
    );
    for none in [
        "add_prompt_files",
        "add_git_status",
        "safer_shell",
        "yolo",
        "",
    ] {
        assert_eq!(names(none), None);
    }
    let flags = [
        "add_date",
        "add_environment_info",
        "limit_large_tool_results",
        "redact_secrets",
        "safer",
    ];
    for (point, action) in flags.iter().flat_map(|flag| shorthand(flag).unwrap()) {
        let (_, _, points) = action.as_builtin().unwrap();
        assert!(points.contains(&point));
        if let Action::Builtin(builtin) = action {
            assert_eq!(builtin.preempts(), builtin == Builtin::SaferShell);
        }
    }
}

#[test]
fn a_point_without_effect_is_reported() {
    let verdict = run(&Builtin::AddDate, "stop", "{}");
    assert_eq!(verdict.warnings, ["`add_date` does nothing here"]);
    assert!(verdict.additional_context.is_empty());
}

#[test]
fn the_date_is_told() {
    let verdict = run(&Builtin::AddDate, "turn_start", r#"{"session_id":"s"}"#);
    let expected = Verdict {
        additional_context: vec!["Today's date: 2026-11-21".to_owned()],
        ..Verdict::default()
    };
    assert_eq!(verdict, expected);
}

#[test]
fn calls_beyond_the_limit_are_blocked() {
    let limit = parsed("max_iterations", &["3"]).unwrap();
    for (event, decision, warnings) in [
        (r#"{"iteration":1}"#, Decision::None, 0),
        (r#"{"iteration":3}"#, Decision::None, 0),
        (r#"{"iteration":4}"#, Decision::Block, 0),
        (r#"{"iteration":18446744073709551615}"#, Decision::Block, 0),
        (r#"{"iteration":"4"}"#, Decision::None, 1),
        ("{}", Decision::None, 1),
    ] {
        let verdict = run(&limit, "before_llm_call", event);
        assert_eq!(
            (verdict.decision, verdict.warnings.len()),
            (decision, warnings),
            "{event}"
        );
        let blocked_by = (decision == Decision::Block).then_some(BlockedBy::Decision);
        assert_eq!(verdict.blocked_by, blocked_by);
    }
    assert_eq!(
        run(&limit, "before_llm_call", r#"{"iteration":4}"#).reason,
        "Agent terminated: max_iterations builtin reached its limit of 3 model call(s)."
    );
}

fn limited(event: &Value) -> Option<String> {
    let event = event.to_string();
    let event = Members::of_event(event.as_bytes()).unwrap();
    let result = LargeResult::in_event(&event);
    result.map(|result| text(Some(&result.cut(None))))
}

#[test]
fn results_that_are_too_long_lose_their_beginning() {
    let cut = |response: &str| limited(&json!({ "tool_response": response }));
    let lines = |count: usize| "x\n".repeat(count);
    for short in [
        String::new(),
        "x".repeat(51_200),
        lines(2000),
        format!("{}x", lines(1999)),
    ] {
        assert_eq!(cut(&short), None, "{} bytes", short.len());
    }
    let tail = |text: &str| text.split_once(":\n\n").unwrap().1.to_owned();
    let long = cut(&"ab".repeat(25_601)).unwrap();
    let notice = "Tool call result was too large (51202 bytes in 1 line, limits 51200 bytes and 2000 lines). The full result is not stored; narrow \
                  the tool query to get the part you need.\n\nShowing the last 2000 lines (up to 51200 bytes):\n\nab";
    assert!(long.starts_with(notice), "{}", &long[..300]);
    assert_eq!(tail(&long).len(), 51_200);
    let many = cut(&lines(2001)).unwrap();
    assert!(many.contains("(4002 bytes in 2001 lines, "), "{many}");
    assert_eq!(tail(&many), lines(2000));
    let unended = format!("first\n{}x", lines(1999));
    assert_eq!(tail(&cut(&unended).unwrap()), unended["first\n".len()..]);
    // No character is cut apart.
    let wide = tail(&cut(&format!("{}x", "€".repeat(20_000))).unwrap());
    assert_eq!((wide.len(), wide.chars().next()), (51_199, Some('€')));
}

#[test]
fn only_results_without_a_bound_of_their_own_are_cut() {
    let long = "x".repeat(60_000);
    for (category, is_cut) in [
        (json!("shell"), true),
        (json!("filesystem"), true),
        (json!("mcp"), true),
        (json!("a2a"), true),
        (Value::Null, true),
        (json!("memory"), false),
        (json!("think"), false),
    ] {
        let event = json!({"tool_category": category, "tool_response": long});
        assert_eq!(limited(&event).is_some(), is_cut, "{category}");
    }
    assert_eq!(limited(&json!({"tool_response": [long]})), None);
}

fn judged(input: &Value) -> Verdict {
    let event = json!({"tool_name": "shell", "tool_input": input}).to_string();
    run(&Builtin::SaferShell, "pre_tool_use", &event)
}

#[test]
fn commands_are_destructive_safe_or_unknown() {
    for (command, expected) in [
        ("rm -rf /tmp/x", "high rm -r"),
        ("rm -fr x", "high rm -r"),
        ("rm --recursive x", "high rm -r"),
        ("sudo /bin/rm -R x", "high rm -r"),
        ("cd /tmp&&rm -r x", "high rm -r"),
        ("ls; 'rm' -r x", "high rm -r"),
        ("r\\m -rf x", "high rm -r"),
        ("bash -c \"rm -rf x\"", "high rm -r"),
        ("echo $(rm -rf x)", "high rm -r"),
        ("RM -RF x", "high rm -r"),
        ("find . -name x | xargs rm", "high xargs rm"),
        ("find . -name '*.o' -delete", "high find -delete"),
        ("rm -f x", "medium rm -f"),
        ("rm x", "low rm"),
        ("mkfs.ext4 /dev/sda1", "high mkfs*"),
        ("dd if=/dev/zero of=/dev/sda", "high dd of=/dev/*"),
        ("dd if=a of=b", "high dd of=*"),
        ("echo x > file", "medium > <file>"),
        ("echo x >file", "medium > <file>"),
        ("git -C x reset --hard HEAD~1", "high git reset --hard"),
        ("git checkout -- src", "high git checkout --"),
        ("git push --force-with-lease", "medium git push -f"),
        ("git branch -D x", "medium git branch -D"),
        ("docker volume rm data", "high docker volume rm"),
        ("podman system prune -af", "high docker system prune -a"),
        ("docker rmi x", "medium docker rmi"),
        ("kubectl -n x delete pod y", "high kubectl delete"),
        ("psql -c 'DROP TABLE users'", "high drop database"),
        (
            "aws ec2 terminate-instances --ids x",
            "high aws terminate-instances",
        ),
        ("ls -la", "safe"),
        ("  git   status --short ", "safe"),
        ("cat 'my file.txt' src/*.rs", "safe"),
        ("git log --oneline -n 3", "safe"),
        ("docker ps -a", "safe"),
        ("kubectl get pods -o json", "safe"),
        ("", "unknown"),
        ("git", "unknown"),
        ("git branch -d x", "unknown"),
        ("git log --output=x", "unknown"),
        ("git diff '--outp=x'", "unknown"),
        ("git diff --ext-diff", "unknown"),
        ("date -s 2020-01-01", "unknown"),
        ("ls && pwd", "unknown"),
        ("ls&&make", "unknown"),
        ("ls | sh", "unknown"),
        ("cat <(make)", "unknown"),
        ("cat `make`", "unknown"),
        ("ls\nmake", "unknown"),
        ("echo x >> file", "unknown"),
        ("make 2>&1", "unknown"),
        ("make >/dev/null", "unknown"),
        ("make", "unknown"),
        ("./ls", "unknown"),
        ("LS", "unknown"),
        ("lsx", "unknown"),
        ("python -c x", "unknown"),
        ("npm install x", "unknown"),
        (&format!("cat {}", "x".repeat(20_000)), "unknown"),
    ] {
        let is = match class(command) {
            Class::Destructive(operation) => {
                format!("{} {}", operation.radius.as_str(), operation.name())
            }
            Class::Safe => "safe".to_owned(),
            Class::Unknown => "unknown".to_owned(),
        };
        assert_eq!(is, expected, "{command}");
    }
}

#[test]
fn a_human_is_asked_about_what_is_not_known_to_read_only() {
    let verdict = judged(&json!({"cmd": "docker volume rm data", "cwd": "."}));
    let reason = "Command matches destructive operation: docker volume rm";
    assert_eq!(
        (verdict.decision, &*verdict.reason),
        (Decision::Ask, reason)
    );
    assert_eq!(
        verdict.metadata.unwrap().as_str(),
        format!(r#"{{"blast_radius":"high","category":"dk-volume-del","reason":"{reason}"}}"#)
    );
    for unknown in [
        json!({"command": "make"}),
        json!({"cmd": 7}),
        json!({}),
        json!([]),
    ] {
        let verdict = judged(&unknown);
        assert_eq!(verdict.decision, Decision::Ask);
        assert_eq!(
            verdict.metadata.unwrap().as_str(),
            r#"{"blast_radius":"unknown","reason":"Shell command requires safer-mode confirmation."}"#
        );
    }
    assert_eq!(judged(&json!({"cmd": "ls"})), Verdict::default());
    let other = r#"{"tool_name":"write","tool_input":{"cmd":"rm -rf /"}}"#;
    assert_eq!(
        run(&Builtin::SaferShell, "pre_tool_use", other),
        Verdict::default()
    );
}

/// Generates one secret of each kind, whole, or between the words that identify it.
fn secrets() -> Vec<(&'static str, String, &'static str)> {
    let letters = |count: usize| "a1B2c3D4e5".repeat(20)[..count].to_owned();
    let hex = |count: usize| "0a1b2c3d4e".repeat(20)[..count].to_owned();
    let whole = |secret: String| ("", secret, "");
    vec![
        whole("AKIAQ3EGSPD7J2K4L5M6".to_owned()),
        ("aws_secret_access_key = \"", letters(40), "\""),
        ("AccountKey=", format!("{}==", letters(86)), ";"),
        whole(format!("AIza{}", letters(35))),
        whole(format!("ghp_{}", letters(36))),
        whole(format!("github_pat_{}_{}", letters(22), letters(59))),
        whole(format!("glpat-{}", letters(20))),
        whole(format!("dckr_pat_{}", letters(27))),
        whole(format!("npm_{}", letters(36))),
        whole(format!("sk-ant-api03-{}", letters(95))),
        whole(format!("sk-proj-{}", letters(48))),
        ("DEEPSEEK_API_KEY: ", format!("sk-{}", hex(32)), "\n"),
        whole(format!("hf_{}", letters(34))),
        whole(format!("sk_live_{}", letters(24))),
        whole(format!("xoxb-{}", letters(40))),
        ("https://hooks.slack.com/services/", letters(44), " "),
        whole(format!("SG.{}.{}", letters(22), letters(43))),
        ("MAILGUN_KEY='", format!("key-{}", hex(32)), "'"),
        whole(format!("hvs.{}", letters(90))),
        whole(format!("lin_api_{}", letters(40))),
        ("postgres://app:", "p4ss-w0rd".to_owned(), "@db:5432/x"),
        whole(format!(
            "eyJ{}.eyJ{}.{}",
            letters(20),
            letters(30),
            letters(43)
        )),
        (
            "-----BEGIN RSA PRIVATE KEY-----",
            format!("\n{}\n  {}\n", letters(64), letters(64)),
            "-----END RSA PRIVATE KEY-----",
        ),
        (
            "-----BEGIN PRIVATE KEY-----",
            format!("\\n{}\\n{}", letters(64), letters(64)),
            "",
        ),
        (
            "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00FF",
            format!("\n\n{}\n", letters(64)),
            "-----END EC PRIVATE KEY-----",
        ),
    ]
}

#[test]
fn every_kind_of_secret_is_replaced_and_nothing_around_it() {
    for (before, secret, behind) in secrets() {
        let text = format!("one, {before}{secret}{behind} two");
        let expected = format!("one, {before}[REDACTED]{behind} two");
        assert_eq!(redacted(&text), Some(expected.clone()), "{secret}");
        assert_eq!(redacted(&expected), None, "{secret}");
    }
}

#[test]
fn what_is_no_secret_stays() {
    for text in [
        "",
        "the quick brown fox",
        "cache-key-d41d8cd98f00b204e9800998ecf8427e",
        "risk-assessment-of-the-whole-project-and-its-many-parts",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "d9dd1675cd8e8c1f9d3b4b5a6c7d8e9f00112233",
        "postgres://db:5432/x and https://user@host/path",
        "-----BEGIN PRIVATE KEY----- is how a key starts, as everybody knows by now",
        "ghp_short AKIA123 sk-proj-x [REDACTED]",
        "OrganizationConfigurations.models.OrganizationConfigurationManagerOfAll",
    ] {
        assert_eq!(redacted(text), None, "{text}");
    }
}

#[test]
fn whatever_a_pattern_matches_is_replaced() {
    let mut runner = TestRunner::deterministic();
    let hints = super::secrets::PATTERNS.map(|(hint, _)| hint);
    assert!(regex::RegexSet::new(hints).is_ok());
    for (_, pattern) in super::secrets::PATTERNS {
        let secret = proptest::string::string_regex(pattern).unwrap();
        for _ in 0..8 {
            let secret = secret.new_tree(&mut runner).unwrap().current();
            let clean = redacted(&secret).unwrap_or_default();
            assert!(clean.contains("[REDACTED]"), "{pattern}: {secret:?}");
            assert_eq!(redacted(&clean), None, "{pattern}: {secret:?}");
        }
    }
}

#[test]
fn secrets_in_json_are_replaced_and_the_rest_stays_as_it_is_written() {
    let key = format!("ghp_{}", "x".repeat(36));
    let json = format!(
        r#"{{"n": 1.50e999 ,"{key}":[{{"a":"\u0041 {key} \n"}},"{key} {key}"],"url":"{key}","s":"\ud800"}}"#
    );
    let expected = format!(
        r#"{{"n": 1.50e999 ,"{key}":[{{"a":"A [REDACTED] \n"}},"[REDACTED] [REDACTED]"],"url":"{key}","s":"\ud800"}}"#
    );
    assert_eq!(redacted_json(&json, &["url"]), Some(expected.clone()));
    assert_eq!(redacted_json(&expected, &["url"]), None);
}

#[test]
fn tool_input_is_patched_where_it_holds_a_secret() {
    let key = format!("ghp_{}", "x".repeat(36));
    let event = format!(
        r#"{{"tool_name":"http","tool_input":{{"n":1e999,"h":{{"auth":"Bearer {key}","x":2.50}},"u":"ok"}}}}"#
    );
    for point in ["pre_tool_use", "tool_input_transform"] {
        let verdict = run(&Builtin::RedactSecrets, point, &event);
        assert_eq!(
            verdict.updated_input.unwrap().as_str(),
            r#"{"h":{"auth":"Bearer [REDACTED]","x":2.50}}"#
        );
        assert_eq!(
            verdict.system_message,
            "redact_secrets: redacted secret material from arguments of tool \"http\""
        );
        assert_eq!(verdict.decision, Decision::None);
    }
    for clean in [
        "{}",
        r#"{"tool_input":null}"#,
        r#"{"tool_input":{"a":"b"}}"#,
    ] {
        let verdict = run(&Builtin::RedactSecrets, "pre_tool_use", clean);
        assert_eq!(verdict, Verdict::default());
    }
}

#[test]
fn messages_are_rewritten_but_for_what_is_signed_or_an_image() {
    let key = format!("ghp_{}", "x".repeat(36));
    let message = |key: &str, opaque: &str| {
        format!(
            r#"[{{"role":"user","content":"{key}","cost":0.10}},{{"role":"assistant","content":"","reasoning_content":"{key}","thinking_signature":"{opaque}","multi_content":[{{"type":"text","text":"{key}"}},{{"type":"image_url","image_url":{{"url":"{opaque}"}}}}],"tool_calls":[{{"function":{{"arguments":"{{\"a\":\"{key}\"}}"}}}}]}}]"#
        )
    };
    let event = format!(r#"{{"messages":{}}}"#, message(&key, &key));
    let verdict = run(&Builtin::RedactSecrets, "before_llm_call", &event);
    assert_eq!(
        verdict.updated_messages.unwrap().as_str(),
        message("[REDACTED]", &key)
    );
    let clean = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
    assert_eq!(
        run(&Builtin::RedactSecrets, "before_llm_call", clean),
        Verdict::default()
    );
    let none = run(&Builtin::RedactSecrets, "before_llm_call", "{}");
    assert_eq!(none.warnings.len(), 1);
}

#[test]
fn tool_output_is_rewritten_where_it_is_a_text() {
    let key = format!("ghp_{}", "x".repeat(36));
    let transformed = |response: Value| {
        let event = json!({ "tool_response": response }).to_string();
        run(&Builtin::RedactSecrets, "tool_response_transform", &event)
    };
    let verdict = transformed(json!(format!("{{\"token\": \"{key}\"}}")));
    assert_eq!(
        text(verdict.updated_output.as_ref()),
        "{\"token\": \"[REDACTED]\"}"
    );
    assert_eq!(transformed(json!("fine")), Verdict::default());
    let structured = transformed(json!({"token": key}));
    assert_eq!(
        (structured.updated_output, structured.warnings.len()),
        (None, 1)
    );
}

fn any_text() -> impl Strategy<Value = String> {
    let secret = proptest::sample::select(secrets());
    let secret = secret.prop_map(|(before, secret, behind)| format!("{before}{secret}{behind}"));
    let piece = prop_oneof![secret, any::<String>(), "[A-Za-z0-9_=.:/@-]{0,40}"];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z_]{0,8}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn redacting_again_changes_nothing(text in any_text()) {
        if let Some(clean) = redacted(&text) {
            prop_assert_eq!(redacted(&clean), None, "{:?}", clean);
        }
    }

    #[test]
    fn any_json_stays_json_of_the_same_shape(value in any_json()) {
        if let Some(clean) = redacted_json(&value.to_string(), &[]) {
            let clean: Value = serde_json::from_str(&clean).unwrap();
            prop_assert_eq!(clean.is_object(), value.is_object());
            prop_assert_eq!(clean.is_array(), value.is_array());
        }
    }

    #[test]
    fn no_event_is_too_much(
        tool in "shell|x",
        input in any_json(),
        command in any::<String>(),
        response in any_json(),
        point in proptest::sample::select(vec![
            "before_llm_call", "pre_tool_use", "session_end", "session_start", "tool_response_transform", "turn_start",
        ]),
    ) {
        let event = json!({
            "iteration": input, "messages": [input], "tool_category": response, "tool_input": {"cmd": command, "x": input},
            "tool_name": tool, "tool_response": response,
        });
        for name in SERVED {
            let Action::Builtin(builtin) = action(name, usual(name)).unwrap() else {
                continue;
            };
            let event = event.to_string();
            let event = Members::of_event(event.as_bytes()).unwrap();
            let verdict = builtin.verdict(point, &event, &scene());
            let rewrites = [&verdict.metadata, &verdict.updated_input, &verdict.updated_messages, &verdict.updated_output];
            for rewrite in rewrites.into_iter().flatten() {
                prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(rewrite.as_str()).is_ok());
            }
        }
    }

    #[test]
    fn a_command_with_shell_syntax_is_never_safe(
        before in "(ls|cat|git status) ?",
        syntax in "[;&|<>$`(){}\\\\\n!#]",
        behind in "[ a-z-]{0,10}",
    ) {
        let command = format!("{before}{syntax}{behind}");
        prop_assert_ne!(class(&command), Class::Safe, "{}", command);
    }
}

#[test]
fn a_shell_command_that_cannot_be_read_is_asked_about() {
    for event in [
        r#"{"tool_name":"shell","tool_input":"rm"}"#,
        r#"{"tool_name":"shell"}"#,
        r#"{"tool_name":"shell","tool_input":{"cmd":["rm"]}}"#,
        r#"{"tool_name":1,"tool_input":{"cmd":"rm -rf /"}}"#,
        r#"{"tool_name":"shell","tool_input":{"cmd":"rm -rf / \ud800","n":1e999}}"#,
    ] {
        let verdict = run(&Builtin::SaferShell, "pre_tool_use", event);
        assert_eq!(verdict.decision, Decision::Ask, "{event}");
    }
}
