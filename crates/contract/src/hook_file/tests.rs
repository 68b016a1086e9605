use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;

use super::*;

fn all_on() -> Switches {
    let names = ["INFER_HOOKS_ENABLED", "OWNWARE_ALLOW_COMMAND_HOOKS"];
    Switches::read(|name| names.contains(&name).then(|| "1".to_owned()))
}

const ORIGIN: Origin<'_> = Origin {
    base: None,
    name: "file",
};

fn parsed(contract: &str, text: &str) -> Result<ReadFile, ReadError> {
    read(contract, text, &ORIGIN, &all_on())
}

#[test]
fn an_error_names_file_entry_and_field() {
    let text = "hooks:\n- on: turn_end\n  exec: [a]\n- on: turn_end\n  exec: [a]\n  nmae: x\n";
    let error = parsed("reyn", text).unwrap_err();
    assert_eq!(error.entry, "hooks[1]");
    assert_eq!(error.field, "nmae");
    assert!(
        error
            .to_string()
            .starts_with("file: `hooks[1]`: `nmae` is not a key here; use one of `matcher`, "),
        "{error}"
    );
}

#[test]
fn a_contract_without_files_and_one_that_is_none_are_refused() {
    assert!(parsed("observe", "{}").is_err());
    assert!(parsed("gedit", "{}").is_err());
}

#[test]
fn a_contract_may_be_spelled_as_its_runtime_is() {
    for name in ["claude-code", "docker-agent", "gemini-cli"] {
        assert!(parsed(name, "{\"hooks\": {}}").is_ok(), "{name}");
    }
}

#[test]
fn a_key_that_is_given_twice_hides_nothing() {
    let text = "{\"version\": 1,\n\"hooks\": {}, \"hooks\": {}}";
    let error = parsed("cursor", text).unwrap_err();
    assert_eq!(error.to_string(), "file: line 2: repeats the key `hooks`");
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let error = parsed("reyn", &" ".repeat(MAX_BYTES + 1)).unwrap_err();
    assert!(error.problem.contains("larger"), "{error}");
}

#[test]
fn switches_are_read_as_their_systems_read_them() {
    let switches = |name: &'static str, value: &'static str| {
        Switches::read(move |variable| (variable == name).then(|| value.to_owned()))
    };
    let hooks = "hooks: [{name: n, hook: pre_tool, command: c}]";
    for (value, expected) in [
        ("true", Some(true)),
        ("1", Some(true)),
        ("false", Some(false)),
        ("maybe", Some(false)),
        ("", None),
    ] {
        for is_configured in [false, true] {
            let text = format!("enabled: {is_configured}\n{hooks}");
            let read = read(
                "infer",
                &text,
                &ORIGIN,
                &switches("INFER_HOOKS_ENABLED", value),
            );
            let is_enabled = read.unwrap().disabled.is_none();
            assert_eq!(
                is_enabled,
                expected.unwrap_or(is_configured),
                "{value} {is_configured}"
            );
        }
    }
    let loom = |switches: &Switches| {
        let text = r#"{"hooks": {"onStart": [{"action": "command", "command": "c"}]}}"#;
        read("loom", text, &ORIGIN, switches)
    };
    let read = loom(&switches("OWNWARE_DISABLE_HOOKS", "1")).unwrap();
    assert!(read.disabled.is_some());
    assert!(loom(&switches("OWNWARE_ALLOW_COMMAND_HOOKS", " 1 ")).is_ok());
    assert!(loom(&switches("OWNWARE_ALLOW_COMMAND_HOOKS", "true")).is_err());
}

#[test]
fn an_agents_hook_is_the_agents() {
    let text = "agents:\n  root:\n    hooks:\n      stop:\n      - {type: command, command: a}\n";
    let read = parsed("docker_agent", text).unwrap();
    assert_eq!(read.hooks[0].owner, Owner::Agent("root".to_owned()));
}

#[test]
fn equal_entries_are_the_same_hook_whatever_brought_them() {
    let text = r#"{"hooks": {"PreToolUse": [
        {"matcher": "Bash", "hooks": [{"type": "command", "command": "guard"}]},
        {"hooks": [{"type": "command", "command": "guard"}, {"type": "command", "command": "other"}]}
    ]}}"#;
    let hooks = parsed("claude_code", text).unwrap().hooks;
    assert!(hooks[0].is_same(&hooks[1]));
    assert!(!hooks[0].is_same(&hooks[2]));
}

#[test]
fn a_point_that_may_be_misspelt_is_warned_of() {
    let warnings = |contract, text: &str| parsed(contract, text).unwrap().warnings;
    let reyn = warnings("reyn", "hooks:\n- {on: turn_strat, shell_exec: ls}\n");
    let expected = "the point `turn_strat` is unknown, and the hook runs if its runtime has it";
    assert!(reyn[0].ends_with(expected), "{reyn:?}");
    let composed =
        "hooks:\n- {on: 'composed:both', shell_exec: ls}\n- {on: turn_start, shell_exec: ls}\n";
    assert!(warnings("reyn", composed).is_empty());
    let claude =
        r#"{"hooks": {"PreToolUsed": [{"hooks": [{"type": "command", "command": "a"}]}]}}"#;
    assert!(warnings("claude_code", claude)[0].contains("`PreToolUsed` is unknown"));
    for matcher in ["{server: 123}", "{'': x}"] {
        let text = format!("hooks:\n- {{on: file_changed, shell_exec: ls, matcher: {matcher}}}\n");
        let warned = warnings("reyn", &text);
        assert!(warned[0].contains("which reyn refuses"), "{warned:?}");
    }
    assert!(parsed("reyn", "hooks:\n- {on: turnstart, shell_exec: ls}\n").is_err());
}

#[test]
fn which_entries_are_one_hook_is_the_runtimes_to_say() {
    let group = |keys: &str| {
        format!(
            r#"{{"hooks": {{"Stop": [{{"hooks": [{{"type": "command", "command": "a"}}, {{"type": "command", "command": "a"{keys}}}]}}]}}}}"#
        )
    };
    for (contract, keys, expected) in [
        ("claude_code", "", true),
        ("claude_code", r#", "timeout": 5"#, true),
        ("claude_code", r#", "args": ["b"]"#, false),
        ("codex", "", false),
    ] {
        let hooks = parsed(contract, &group(keys)).unwrap().hooks;
        assert_eq!(hooks[0].is_same(&hooks[1]), expected, "{contract}{keys}");
    }
    let gemini = group(r#", "timeout": 5000"#).replace("Stop", "AfterAgent");
    let hooks = parsed("gemini_cli", &gemini).unwrap().hooks;
    assert!(hooks[0].is_same(&hooks[1]));
    let agent = "agents:\n  root:\n    hooks:\n      stop:\n      - {type: command, command: a, env: {}}\n      - {type: command, command: a}\n";
    let hooks = parsed("docker_agent", agent).unwrap().hooks;
    assert!(hooks[0].is_same(&hooks[1]));
}

/// Generates texts that are nearly hook files.
fn near() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "hooks",
        "on",
        "true",
        "null",
        "version",
        "1",
        "enabled",
        "PreToolUse",
        "preToolUse",
        "pre_tool_use",
        "BeforeTool",
        "onToolCall",
        "matcher",
        "[",
        "]",
        "{",
        "}",
        ":",
        ",",
        "\"",
        "- ",
        "\n",
        "\n  ",
        "\n    ",
        ": ",
        "command",
        "type",
        "timeout",
        "-1",
        "1e999",
        "env",
        "LD_PRELOAD",
        "&a ",
        "*a",
        "<<: ",
        "!!str ",
        "'",
        "é",
        "\0",
        "exec",
        "turn_end",
        "|\n",
        "tools",
        "action",
        "args",
        "template_push",
        "message",
        "bash",
        "exec",
        "cwd",
        "name",
        "hook",
    ]);
    prop::collection::vec(words, 0..40).prop_map(|words| words.concat())
}

/// Generates values that are shaped like hook files.
fn shaped() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "hooks",
        "on",
        "version",
        "enabled",
        "PreToolUse",
        "preToolUse",
        "pre_tool_use",
        "BeforeTool",
        "onToolCall",
        "matcher",
        "command",
        "type",
        "timeout",
        "timeoutMs",
        "env",
        "exec",
        "shell_exec",
        "action",
        "args",
        "template_push",
        "message",
        "bash",
        "cwd",
        "name",
        "hook",
        "tools",
        "agents",
        "network",
        "write_paths",
        "working_dir",
        "if",
        "async",
        "shell",
        "priority",
        "tool",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        Just(Value::from(1)),
        prop::sample::select(vec![
            "", "command", "pre_tool", "turn_end", "a | b", "(", "[", "é\n"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone().prop_map(ToOwned::to_owned), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
    .prop_map(|value| value.to_string())
}

proptest! {
    #[test]
    fn no_text_makes_a_reader_panic(text in prop_oneof![any::<String>(), near(), shaped()]) {
        for contract in contracts() {
            let read = catch_unwind(AssertUnwindSafe(|| parsed(contract, &text)));
            prop_assert!(read.is_ok(), "{contract}");
        }
    }
}
