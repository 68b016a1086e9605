//! `hookjail hooks`, as a user types it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

fn hooks(home: &Path, arguments: &[&str], env: &[(&str, &str)]) -> Output {
    program(home, &[&["hooks"], arguments].concat(), env)
}

/// Runs hookjail in an environment of nothing but these variables.
#[expect(
    clippy::disallowed_methods,
    reason = "a test starts the program that it tests"
)]
fn program(home: &Path, arguments: &[&str], env: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hookjail"))
        .args(arguments)
        .env_clear()
        .env("HOME", home)
        .envs(env.iter().copied())
        .output()
        .unwrap()
}

fn json(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn written(home: &Path, name: &str, text: &str) -> String {
    let path = home.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

const REYN: &str = "hooks:\n- on: turn_end\n  name: notes\n  shell_exec: notes >> /tmp/x\n";

#[test]
fn a_file_is_checked_and_shown_by_point() {
    let home = tempfile::tempdir().unwrap();
    let file = written(home.path(), "reyn.yaml", REYN);

    let shown = hooks(home.path(), &["check", "--contract", "reyn", &file], &[]);

    assert!(shown.status.success(), "{}", stderr(&shown));
    let expected = format!(
        "turn_end\n  notes (reyn)\n      runs     notes >> /tmp/x\n      profile  strict\n      timeout  1m\n      from     {file}: hooks[0]\n"
    );
    assert_eq!(String::from_utf8_lossy(&shown.stdout), expected);
    assert!(stderr(&shown).contains("`>` is a word like any other here"));
}

#[test]
fn a_bad_file_fails_and_names_file_entry_and_field() {
    let home = tempfile::tempdir().unwrap();
    let file = written(
        home.path(),
        "reyn.yaml",
        "hooks:\n- on: turn_end\n  exec: ls\n  exce: x\n",
    );

    let shown = hooks(home.path(), &["check", "--contract", "reyn", &file], &[]);
    let as_json = hooks(
        home.path(),
        &["check", "--json", "--contract", "reyn", &file],
        &[],
    );

    assert_eq!(shown.status.code(), Some(1));
    let expected = format!("hookjail: {file}: `hooks[0]`: `exce` is not a key here");
    assert!(stderr(&shown).starts_with(&expected), "{}", stderr(&shown));
    assert_eq!(as_json.status.code(), Some(1));
    assert!(
        json(&as_json)[0]["error"]
            .as_str()
            .unwrap()
            .contains("`exce`")
    );
}

#[test]
fn switches_come_from_the_environment() {
    let home = tempfile::tempdir().unwrap();
    let text = r#"{"hooks": {"onToolCall": [{"action": "command", "command": "guard"}]}}"#;
    let file = written(home.path(), "agent.json", text);
    let arguments = ["check", "--json", "--contract", "loom", &file];

    let without = hooks(home.path(), &arguments, &[]);
    let allowed = hooks(
        home.path(),
        &arguments,
        &[("OWNWARE_ALLOW_COMMAND_HOOKS", "1")],
    );
    let disabled = hooks(home.path(), &arguments, &[("OWNWARE_DISABLE_HOOKS", "1")]);

    assert_eq!(without.status.code(), Some(1));
    assert_eq!(json(&allowed)[0]["hooks"][0]["command"], "guard");
    assert_eq!(json(&disabled)[0]["hooks"], Value::Array(Vec::new()));
}

#[test]
fn what_is_configured_is_listed_and_the_kill_switch_rules_all() {
    let home = tempfile::tempdir().unwrap();
    let file = written(home.path(), "reyn.yaml", REYN);
    let operators = "[[hook]]\ncommand = [\"/bin/true\"]\ncontract = \"reyn\"\nmode = \"shell_exec\"\npoint = \"turn_end\"\nname = \"own\"\n";
    let text = format!(
        "{operators}[[hooks_file]]\ncontract = \"reyn\"\npath = \"{file}\"\nagent = \"a\"\n"
    );
    let config = written(home.path(), "hookjail.toml", &text);
    let disabled = written(
        home.path(),
        "off.toml",
        &format!("hooks.disabled = true\n{text}"),
    );

    let listed = hooks(home.path(), &["list", "--json", "--config", &config], &[]);
    let none = hooks(home.path(), &["list", "--config", &disabled], &[]);

    assert!(listed.status.success(), "{}", stderr(&listed));
    let owners: Vec<_> = json(&listed)
        .iter()
        .map(|hook| format!("{} {}", hook["name"], hook["owner"]))
        .collect();
    assert_eq!(owners, ["\"own\" \"operator\"", "\"notes\" \"agent a\""]);
    assert_eq!(String::from_utf8_lossy(&none.stdout), "no hooks\n");
    assert!(stderr(&none).contains("`hooks.disabled` is true"));
}

#[test]
fn a_bad_file_that_is_configured_is_named() {
    let home = tempfile::tempdir().unwrap();
    let file = written(home.path(), "hooks.json", "{\"version\": 2}");
    let text = format!("[[hooks_file]]\ncontract = \"cursor\"\npath = \"{file}\"\n");
    let config = written(home.path(), "hookjail.toml", &text);

    let output = hooks(home.path(), &["list", "--config", &config], &[]);

    assert!(!output.status.success());
    let expected = format!("hookjail: {file}: `version` must be 1\n");
    assert_eq!(stderr(&output), expected);
}

#[test]
fn entries_of_infers_lists_that_do_less_than_they_seem_to_are_named_and_so_is_a_file_that_cannot_be_used()
 {
    let home = tempfile::tempdir().unwrap();
    let hooks_file = written(home.path(), "hooks.yaml", "enabled: true\nhooks: []\n");
    let lists = "[infer]\nlisted = \"consent\"\nplan = ['./scripts/lint\\.sh', 'make(']\n";
    let config = written(home.path(), "hookjail.toml", lists);
    let absent = home.path().join("absent.yaml");
    let absent = format!("[infer]\nfile = {absent:?}\n");
    let absent = written(home.path(), "absent.toml", &absent);
    let list = |config: &str| hooks(home.path(), &["list", "--config", config], &[]);
    let check = |config: &str| {
        let words = [
            "check",
            "--config",
            config,
            "--contract",
            "infer",
            &hooks_file,
        ];
        hooks(home.path(), &words, &[])
    };

    for output in [list(&config), check(&config)] {
        let text = stderr(&output);
        assert!(
            text.contains("`./scripts/lint\\.sh` names no program"),
            "{text}"
        );
        assert!(text.contains("`make(` is no regular expression"), "{text}");
        assert!(output.status.success(), "{text}");
    }
    for output in [list(&absent), check(&absent)] {
        let text = stderr(&output);
        assert!(text.contains("absent.yaml: cannot be read"), "{text}");
    }
    let serve = program(home.path(), &["serve", "--config", &absent], &[]);
    let text = stderr(&serve);
    assert!(text.contains("absent.yaml: cannot be read"), "{text}");
}

#[test]
fn the_daemon_does_not_start_with_a_bad_file_unless_hooks_are_disabled() {
    let home = tempfile::tempdir().unwrap();
    let file = written(home.path(), "hooks.json", "{\"version\": 2}");
    let text = format!("[[hooks_file]]\ncontract = \"cursor\"\npath = \"{file}\"\n");
    let config = written(home.path(), "hookjail.toml", &text);
    let disabled = format!("hooks.disabled = true\n{text}");
    let disabled = written(home.path(), "off.toml", &disabled);

    let refused = program(home.path(), &["serve", "--config", &config], &[]);
    let listed = hooks(home.path(), &["list", "--config", &disabled], &[]);

    assert!(!refused.status.success());
    assert!(stderr(&refused).contains(&format!("{file}: `version` must be 1")));
    assert!(listed.status.success(), "{}", stderr(&listed));
}
