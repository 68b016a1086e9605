use serde_json::json;

use super::*;

#[test]
fn a_file_has_a_command_and_cases_each_with_a_name() {
    let text = "runtimes = [\"r\"]\ncommand = \"./guard.sh\"\n[[case]]\nname = \"a\"\ndecision = \"deny\"\nwithin = \"2s\"\n\
                event = { tool_input = { command = \"rm\" } }\n";
    let file = TestFile::parse(text).unwrap();
    assert_eq!(file.argv(|line| vec![line.to_owned()]), ["./guard.sh"]);
    assert_eq!(
        (file.profile.as_deref(), &*file.runtimes),
        (None, &["r".to_owned()][..])
    );
    let sample = json!({"tool_name": "Bash", "tool_input": {"command": "ls", "description": "x"}});
    let event = file.cases[0]
        .event(sample, (Path::new("/x"), Path::new("/")))
        .unwrap();
    let expected =
        json!({"tool_name": "Bash", "tool_input": {"command": "rm", "description": "x"}});
    assert_eq!(event, expected);
    for (text, part) in [
        (
            "runtimes = [\"r\"]\ncommand = []\n[[case]]\nname = \"a\"\n",
            "`command` is empty",
        ),
        (
            "runtimes = [\"r\"]\ncommand = \"a\"\ncase = []\n",
            "`case` or `runtimes` is empty",
        ),
        (
            "runtimes = [\"r\"]\ncommand = \"a\"\n[[case]]\nname = \"a\"\n[[case]]\nname = \"a\"\n",
            "names `a` twice",
        ),
        (
            "runtimes = [\"r\"]\ncommand = \"a\"\n[[case]]\nname = \"a\"\ndecision = \"no\"\n",
            "one of allow, ask, block, deny, none",
        ),
        (
            "runtimes = [\"r\"]\ncommand = \"a\"\n[[case]]\nname = \"a\"\nchanges = [\"x\"]\n",
            "write `A`, `M` or `D`",
        ),
        (
            "runtimes = [\"r\"]\ncommand = \"a\"\n[[case]]\nname = \"a\"\nexits = 2\n",
            "exits",
        ),
        ("runtimes = []\ncomand = \"a\"\n", "comand"),
    ] {
        let problem = TestFile::parse(text).unwrap_err();
        assert!(problem.contains(part), "{text}: {problem}");
    }
}

/// A file whose cases differ by runtime, as TOML and as YAML.
const BY_RUNTIME: [&str; 2] = [
    r#"
command = "./guard.sh"
runtimes = ["a", "b"]
point = { a = "PreToolUse", b = "BeforeTool" }

[[case]]
name = "one"
decision = "deny"
exit = 2
fails = true
for.b = { decision = "none", fails = false, changes = ["A x"] }

[[case]]
name = "other"
runtimes = ["b"]
exit = 0
"#,
    r#"
command: ./guard.sh
runtimes: [a, b]
point: {a: PreToolUse, b: BeforeTool}
case:
  - name: one
    decision: deny
    exit: 2
    fails: true
    for:
      b: {decision: none, fails: false, changes: [A x]}
  - name: other
    runtimes: [b]
    exit: 0
"#,
];

/// Reads the same file in both languages.
fn by_runtime() -> [TestFile; 2] {
    let [toml, yaml] = BY_RUNTIME;
    [TestFile::parse(toml), TestFile::parse_yaml(yaml)].map(Result::unwrap)
}

#[test]
fn a_case_has_runtimes_and_expectations_of_its_own_in_toml_and_yaml() {
    for file in by_runtime() {
        assert_eq!(
            (file.point("a"), file.point("b")),
            (Some("PreToolUse"), Some("BeforeTool"))
        );
        let [one, other] = &file.cases[..] else {
            panic!("{file:?}");
        };
        assert!(one.is_for("a") && one.is_for("b"));
        assert!(!other.is_for("a") && other.is_for("b"));
        let expectations = |name: &str| {
            let found = one.expected(name);
            let changes = found.changes.map(|it| it.into_iter().collect::<Vec<_>>());
            (found.decision.unwrap(), found.exit, found.fails, changes)
        };
        assert_eq!(
            expectations("a"),
            ("deny".to_owned(), Some(2), Some(true), None)
        );
        let changes = Some(vec!["A x".to_owned()]);
        assert_eq!(
            expectations("b"),
            ("none".to_owned(), Some(2), Some(false), changes)
        );
    }
}

#[test]
fn a_runtime_that_the_file_does_not_have_is_named() {
    for (line, place, part) in [
        (
            "for.c = { exit = 0 }",
            "exit = 0",
            "`for` of `other` names `c`; name one of the runtimes b",
        ),
        (
            "for.a = { exit = 0 }",
            "exit = 0",
            "`for` of `other` names `a`; name one of the runtimes b",
        ),
        (
            "runtimes = [\"c\"]",
            "runtimes = [\"b\"]",
            "`runtimes` of `other` names `c`; name one of the runtimes a, b",
        ),
        (
            "runtimes = []",
            "runtimes = [\"b\"]",
            "`runtimes` of `other` is empty",
        ),
        (
            "point = { a = \"x\" }",
            "point = { a = \"PreToolUse\", b = \"BeforeTool\" }",
            "`point` has none for `b`; add one",
        ),
        (
            "point = { a = \"x\", b = \"y\", c = \"z\" }",
            "point = { a = \"PreToolUse\", b = \"BeforeTool\" }",
            "`point` names `c`",
        ),
        (
            "for.b = { decision = \"no\" }",
            "exit = 0",
            "`decision` of `other` is `no`",
        ),
        ("for.b = { exits = 0 }", "exit = 0", "exits"),
        (
            "for.b = { event = {} }",
            "exit = 0",
            "unknown field `event`",
        ),
    ] {
        let [text, _] = BY_RUNTIME;
        let problem = TestFile::parse(&text.replace(place, line)).unwrap_err();
        assert!(problem.contains(part), "{line}: {problem}");
    }
}

#[test]
fn a_file_in_yaml_is_as_strict_as_one_in_toml() {
    let [_, text] = BY_RUNTIME;
    let bomb = format!(
        "a0: &a0 [x, x, x, x, x, x, x, x, x]\n{}",
        (1..12)
            .map(|level| {
                let below = vec![format!("*a{}", level - 1); 9].join(", ");
                format!("a{level}: &a{level} [{below}]\n")
            })
            .collect::<String>()
    );
    for (text, part) in [
        (text.replace("exit: 0", "exits: 0"), "exits"),
        (text.replace("exit: 0", "exit: none"), "invalid type"),
        (
            text.replace("exit: 0", "exit: 0\n    exit: 2"),
            "repeats the key `exit`",
        ),
        (text.replace("./guard.sh", "!!python/x y"), "the tag"),
        (text.replace("./guard.sh", "*x"), "is no YAML"),
        (bomb, "grows too large with its aliases written out"),
        ("[".repeat(100), "nests deeper than 64"),
        (String::new(), "invalid type: null"),
    ] {
        let problem = TestFile::parse_yaml(&text).unwrap_err();
        assert!(problem.contains(part), "{text}: {problem}");
    }
}

#[test]
fn the_schema_takes_what_is_read_and_refuses_what_has_another_form() {
    let schema = crate::cli::testing::schema();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let [text, _] = BY_RUNTIME;
    let page = include_str!("../../../../docs/testing.md");
    let examples = page.split("```toml\n").skip(1);
    let examples = examples.filter_map(|rest| rest.split("```").next());
    let mut count = 0;
    for text in examples.chain([text]) {
        let value: Value = toml::from_str(text).unwrap();
        assert!(TestFile::parse(text).is_ok(), "{text}");
        let problems: Vec<_> = schema.iter_errors(&value).collect();
        assert!(problems.is_empty(), "{text}: {problems:?}");
        count += 1;
    }
    assert!(count > 1);
    for (place, line) in [
        ("exit = 0", "exits = 0"),
        ("exit = 0", "exit = 256"),
        ("exit = 0", "exit = \"0\""),
        ("exit = 0", "within = \"soon\""),
        ("exit = 0", "changes = [\"x\"]"),
        ("exit = 0", "for.b = { exits = 0 }"),
        ("decision = \"deny\"", "decision = \"no\""),
        ("runtimes = [\"a\", \"b\"]", "runtimes = []"),
        ("name = \"one\"", ""),
        ("command = \"./guard.sh\"", "commands = \"./guard.sh\""),
        ("command = \"./guard.sh\"", "command = 7"),
    ] {
        let text = text.replace(place, line);
        let value: Value = toml::from_str(&text).unwrap();
        assert!(TestFile::parse(&text).is_err(), "{text}");
        assert!(!schema.is_valid(&value), "{text}");
    }
}
