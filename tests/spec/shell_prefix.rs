//! `hookjail-run --shell-prefix`: of the lines that Claude Code hands to one program, those of hooks run confined and the others as they are.

use std::{
    fs,
    io::Write,
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};

use crate::{
    install::{Home, call, guard, one},
    support::thin,
    witness::json,
};

/// A line of the tool, as Claude Code 2.1.330 frames it.
fn tool(command: &str) -> String {
    format!(
        "source /none/shell-snapshots/snapshot-bash-1-a.sh 2>/dev/null || true && eval '{command}' < /dev/null && pwd -P >| /dev/null"
    )
}

/// Makes a command of the runtime's with one line.
fn handed(home: &Home, line: &str) -> Command {
    let thin = thin();
    let words = [
        thin.to_str().unwrap(),
        "--shell-prefix",
        "--as",
        "claude-code",
        "--profile",
        "develop",
        "--start",
        "--",
        line,
    ];
    let mut command = home.command(&words);
    command
        .env("CLAUDECODE", "1")
        .env("SHELL", "/bin/bash")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs a command with a text on its stdin, which is a socket as Claude Code's are.
fn fed(mut command: Command, text: &str) -> Output {
    let (mut writer, theirs) = UnixStream::pair().unwrap();
    command.stdin(Stdio::from(OwnedFd::from(theirs)));
    #[expect(
        clippy::disallowed_methods,
        reason = "starts a hook as the runtime does"
    )]
    let child = command.spawn().unwrap();
    drop(command);
    writer.write_all(text.as_bytes()).unwrap();
    drop(writer);
    child.wait_with_output().unwrap()
}

/// Runs a line as a hook's.
fn hook(home: &Home, line: &str, plugin: Option<&str>, event: &Value) -> Output {
    let mut command = handed(home, line);
    command.env("CLAUDE_PROJECT_DIR", home.path("p"));
    if let Some(plugin) = plugin {
        command.env("CLAUDE_PLUGIN_ROOT", home.path(plugin));
    }
    fed(command, &event.to_string())
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn lines_of_the_tool_run_as_they_are_and_no_hook_is_taken_for_one() {
    let home = Home::new();
    let made = home.path("made");
    let line = tool(&format!(
        "echo \"$0 [$(ulimit -n >/dev/null; echo ok)]\"; echo x > {}; (exit 7)",
        made.display()
    ));
    let output = fed(handed(&home, &line), "");
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(stdout(&output), "/bin/bash [ok]\n");
    assert_eq!(fs::read_to_string(&made).unwrap(), "x\n");
    fs::remove_file(&made).unwrap();
    // The same line as a hook's, which has a project or a plugin.
    for variable in ["CLAUDE_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT"] {
        let mut command = handed(&home, &line);
        command.env(variable, home.path("p"));
        let output = fed(command, &call("ls").to_string());
        assert!(stdout(&output).contains("\"deny\""), "{output:?}");
        assert!(!made.exists(), "{variable}");
    }
    // A line that is neither for certain.
    let output = fed(handed(&home, &format!("echo x > {}", made.display())), "");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(!made.exists());
}

#[test]
fn servers_of_tools_run_as_they_are_and_a_hook_with_the_same_line_does_not() {
    let home = Home::new();
    home.script(
        "p/serve.sh",
        "#!/bin/sh\necho x > ../made\nread -r line\necho \"$1: $line\"\n",
    );
    let line = format!("{} 'a b'", home.path("p/serve.sh").display());
    let request = r#"{"method":"initialize","params":{"x":"session_id"},"jsonrpc":"2.0","id":0}"#;
    let mut command = handed(&home, &line);
    command.env("CLAUDE_PROJECT_DIR", home.path("p"));
    let output = fed(command, &format!("{request}\nmore"));
    assert!(output.status.success(), "{output:?}");
    assert_eq!(stdout(&output), format!("a b: {request}\n"));
    fs::remove_file(home.path("made")).unwrap();
    let mut event = call("ls");
    event["jsonrpc"] = json!("2.0");
    event["method"] = json!("initialize");
    for end in ["", "\n"] {
        let mut command = handed(&home, &line);
        command.env("CLAUDE_PROJECT_DIR", home.path("p"));
        let output = fed(command, &format!("{event}{end}"));
        assert!(stdout(&output).contains("\"deny\""), "{output:?}");
        assert!(!home.path("made").exists());
    }
}

#[test]
fn a_plugins_hook_is_bound_to_its_place_and_its_script() {
    let home = Home::new();
    let guard = "#!/bin/sh\n. \"$CLAUDE_PLUGIN_ROOT/lib/words.sh\"\ncase $(cat) in *'rm -rf'*) echo \"$word\" >&2; exit 2 ;; esac\n";
    for version in ["1.0.0", "1.1.0"] {
        let root = format!(".claude/plugins/cache/market/guard/{version}");
        fs::create_dir_all(home.path(&root).join("hooks")).unwrap();
        home.write(&format!("{root}/lib/words.sh"), "word='no rm here'\n");
        home.script(&format!("{root}/hooks/guard.sh"), guard);
    }
    home.give_to_user();
    let root = ".claude/plugins/cache/market/guard/1.0.0";
    let line = "\"${CLAUDE_PLUGIN_ROOT}\"/hooks/guard.sh";
    let refused = hook(&home, line, Some(root), &call("ls"));
    assert!(stdout(&refused).contains("\"deny\""), "{refused:?}");
    let place = home.path(root).display().to_string();
    let (variable, script) = (
        format!("CLAUDE_PLUGIN_ROOT={place}"),
        format!("{place}/hooks/guard.sh"),
    );
    let allowed = home.hookjail(&[
        "allow",
        "--profile",
        "develop",
        "--",
        "/usr/bin/env",
        &variable,
        &script,
    ]);
    assert!(allowed.status.success(), "{allowed:?}");

    let denied = hook(&home, line, Some(root), &call("rm -rf /"));
    assert_eq!(denied.status.code(), Some(2), "{denied:?}");
    assert_eq!(String::from_utf8_lossy(&denied.stderr), "no rm here\n");
    let passed = hook(&home, line, Some(root), &call("ls"));
    assert_eq!(
        (passed.status.code(), &*stdout(&passed)),
        (Some(0), ""),
        "{passed:?}"
    );

    // An update is another place, or other bytes.
    let updated = hook(
        &home,
        line,
        Some(".claude/plugins/cache/market/guard/1.1.0"),
        &call("ls"),
    );
    assert!(stdout(&updated).contains("\"deny\""), "{updated:?}");
    home.script(&format!("{root}/hooks/guard.sh"), "#!/bin/sh\nexit 0\n");
    home.give_to_user();
    let changed = hook(&home, line, Some(root), &call("ls"));
    assert!(stdout(&changed).contains("DIGEST_MISMATCH"), "{changed:?}");
}

/// Returns the line that Claude Code's shell runs for a hook's line.
fn by_its_shell(home: &Home, line: &str, plugin: Option<&str>, event: &Value) -> Output {
    by_settings(home, ".claude/settings.json", (line, plugin), event)
}

/// Returns that where these settings have the prefix.
fn by_settings(
    home: &Home,
    settings: &str,
    (line, plugin): (&str, Option<&str>),
    event: &Value,
) -> Output {
    let settings: Value = serde_json::from_str(&home.text(settings)).unwrap();
    let prefix = settings["env"]["CLAUDE_CODE_SHELL_PREFIX"]
        .as_str()
        .unwrap();
    let whole = format!("{prefix} {}", shlex::try_quote(line).unwrap());
    let mut command = home.command(&["/bin/sh", "-c", &whole]);
    command
        .env("CLAUDE_PROJECT_DIR", home.path("p"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(plugin) = plugin {
        command.env("CLAUDE_PLUGIN_ROOT", home.path(plugin));
    }
    fed(command, &event.to_string())
}

const ROOT: &str = ".claude/plugins/cache/market/guard/1.0.0";
const LINE: &str = "\"${CLAUDE_PLUGIN_ROOT}\"/guard.sh";

/// Returns a home with a guard of the project's, and a plugin's.
fn with_a_plugin() -> (Home, [String; 2]) {
    let home = Home::new();
    let projects = home.settings("p/.claude/settings.json", &one("PreToolUse", &guard()));
    let entry = |command: &str| json!([{"hooks": [{"type": "command", "command": command}]}]);
    let mut hooks = json!({"hooks": {"PreToolUse": entry(LINE)}});
    hooks["hooks"]["Stop"] =
        json!([{"hooks": [{"type": "command", "command": "exec.sh", "args": []}]}]);
    home.settings(&format!("{ROOT}/hooks/hooks.json"), &hooks);
    home.script(
        &format!("{ROOT}/guard.sh"),
        "#!/bin/sh\ncase $(cat) in *secret*) echo 'no secrets' >&2; exit 2 ;; esac\n",
    );
    let installed = json!([{"scope": "user", "installPath": home.path(ROOT), "version": "1.0.0"}]);
    home.settings(
        ".claude/plugins/installed_plugins.json",
        &json!({"version": 2, "plugins": {"guard@market": installed}}),
    );
    let users = json!({"enabledPlugins": {"guard@market": true}, "statusLine": {"type": "command", "command": "cat"}});
    let users = home.settings(".claude/settings.json", &users);
    (home, [users, projects])
}

#[test]
fn one_line_of_settings_confines_the_hooks_of_plugins_too_and_is_taken_back() {
    let (home, before) = with_a_plugin();
    let (users, projects) = (".claude/settings.json", "p/.claude/settings.json");
    let words = [
        "--json",
        "install",
        "--claude-code",
        "--shell-prefix",
        "--yes",
    ];
    let shown = home.hookjail(&["install", "--claude-code", "--shell-prefix", "--dry-run"]);
    assert!(
        stdout(&shown).contains("CLAUDE_CODE_SHELL_PREFIX"),
        "{shown:?}"
    );
    assert_eq!([home.text(users), home.text(projects)], before);

    let done = home.hookjail(&words);

    // Hooks that bypass the prefix are named.
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let report = json(&done);
    assert_eq!(
        report["unconfined"].as_array().unwrap().len(),
        1,
        "{report}"
    );
    assert_eq!(report["unconfined"][0]["place"], "Stop");
    assert_eq!(report["needed"].as_array().unwrap().len(), 2, "{report}");
    assert_eq!(home.text(projects), before[1]);
    for (line, plugin, stopped, why) in [
        (GUARD_LINE, None, "rm -rf /", "no rm here\n"),
        (LINE, Some(ROOT), "cat secret", "no secrets\n"),
    ] {
        let denied = by_its_shell(&home, line, plugin, &call(stopped));
        assert_eq!(denied.status.code(), Some(2), "{denied:?}");
        assert_eq!(String::from_utf8_lossy(&denied.stderr), why);
        let passed = by_its_shell(&home, line, plugin, &call("ls"));
        assert_eq!(
            (passed.status.code(), &*stdout(&passed)),
            (Some(0), ""),
            "{passed:?}"
        );
    }
    let status = json!({"session_id": "s", "model": {"id": "m"}});
    let line = by_its_shell(&home, "cat", None, &status);
    assert_eq!(stdout(&line), status.to_string(), "{line:?}");
    // Again there is nothing to do, with the option or without.
    for words in [&words[..], &["--json", "install", "--claude-code", "--yes"]] {
        let again = home.hookjail(words);
        assert_eq!(json(&again)["changed"], false, "{again:?}");
    }

    // Each of the two ways back is one.
    for back in [
        &["install", "--claude-code", "--uninstall", "--yes"][..],
        &["uninstall", "--all", "--yes"],
    ] {
        home.hookjail(&words);
        assert_ne!(home.text(users), before[0]);
        let done = home.hookjail_in(&home.path("tmp"), back);
        assert!(done.status.success(), "{back:?}: {done:?}");
        assert_eq!([home.text(users), home.text(projects)], before, "{back:?}");
    }
}

#[test]
fn an_updated_plugin_is_refused_until_it_is_allowed_and_settings_that_switch_the_prefix_off_are_named()
 {
    let (home, _) = with_a_plugin();
    let done = home.hookjail(&["install", "--claude-code", "--shell-prefix", "--yes"]);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert!(home.hookjail(&["allow", "--check"]).status.success());

    home.script(&format!("{ROOT}/guard.sh"), "#!/bin/sh\nexit 0\n");
    home.give_to_user();

    let refused = by_its_shell(&home, LINE, Some(ROOT), &call("ls"));
    assert!(stdout(&refused).contains("DIGEST_MISMATCH"), "{refused:?}");
    let checked = home.hookjail(&["allow", "--check"]);
    assert_eq!(checked.status.code(), Some(1), "{checked:?}");
    assert!(stdout(&checked).contains("guard.sh"), "{checked:?}");
    let allowed = home.hookjail(&["allow", "--yes"]);
    assert!(allowed.status.success(), "{allowed:?}");
    let passed = by_its_shell(&home, LINE, Some(ROOT), &call("cat secret"));
    assert_eq!(
        (passed.status.code(), &*stdout(&passed)),
        (Some(0), ""),
        "{passed:?}"
    );

    home.settings(
        "p/.claude/settings.local.json",
        &json!({"env": {"CLAUDE_CODE_SHELL_PREFIX": ""}}),
    );
    let report = json(&home.hookjail(&["--json", "install", "--claude-code", "--yes"]));
    assert!(
        report["unread"].to_string().contains("settings.local.json"),
        "{report}"
    );
}

#[test]
fn a_runtime_without_a_prefix_and_settings_with_another_are_refused() {
    let home = Home::new();
    home.settings("p/.codex/hooks.json", &json!({"hooks": {}}));
    let other = home.settings(
        ".claude/settings.json",
        &json!({"env": {"CLAUDE_CODE_SHELL_PREFIX": "/bin/own"}}),
    );
    for (runtime, option, why) in [
        ("--codex", "--shell-prefix", "leave out --shell-prefix"),
        ("--codex", "--local", "use --shared, or leave out --local"),
        (
            "--claude-code",
            "--shell-prefix",
            "remove it, and install again",
        ),
    ] {
        let done = home.hookjail(&["install", runtime, option, "--yes"]);
        assert_eq!(done.status.code(), Some(125), "{done:?}");
        assert!(
            String::from_utf8_lossy(&done.stderr).contains(why),
            "{done:?}"
        );
    }
    assert_eq!(home.text(".claude/settings.json"), other);
}

const LOCAL: &str = "p/.claude/settings.local.json";
const GUARD_LINE: &str = "\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/guard.sh";
const INSTALL: [&str; 5] = ["--json", "install", "--claude-code", "--local", "--yes"];

/// Writes the project's settings: a guard, a line that writes in the home, an entry without a shell, and no prefix.
fn shared_settings(home: &Home) -> String {
    let mut settings = one("PreToolUse", &guard());
    let entry = |hook: Value| json!([{"hooks": [hook]}]);
    settings["env"] = json!({"CLAUDE_CODE_SHELL_PREFIX": ""});
    settings["hooks"]["Stop"] = entry(json!({"type": "command", "command": WRITES}));
    let exec = json!({"type": "command", "command": "/bin/true", "args": []});
    settings["hooks"]["SessionEnd"] = entry(exec);
    home.settings("p/.claude/settings.json", &settings)
}

const WRITES: &str = "echo x > ~/made";

#[test]
fn private_settings_of_a_project_confine_its_hooks_and_the_shared_ones_stay() {
    let home = Home::new();
    let shared = shared_settings(&home);
    let users = home.settings(".claude/settings.json", &json!({"model": "m"}));
    let as_before = |home: &Home| {
        assert_eq!(home.text("p/.claude/settings.json"), shared);
        assert_eq!(home.text(".claude/settings.json"), users);
    };
    let shown = home.hookjail(&["install", "--claude-code", "--local", "--dry-run"]);
    assert!(
        stdout(&shown).contains("CLAUDE_CODE_SHELL_PREFIX"),
        "{shown:?}"
    );
    assert!(!home.path(LOCAL).exists());

    let done = home.hookjail(&INSTALL);

    as_before(&home);
    let report = json(&done);
    assert_eq!(done.status.code(), Some(1), "{report}");
    assert_eq!(report["unread"], json!([]), "{report}");
    let hooks = report["files"].as_array().unwrap().iter();
    let hooks = hooks.flat_map(|file| file["hooks"].as_array().unwrap());
    let left: Vec<_> = hooks.filter(|hook| hook.get("left").is_some()).collect();
    assert_eq!(left.len(), 1, "{report}");
    assert_eq!(left[0]["point"], "SessionEnd", "{report}");
    assert!(left[0].to_string().contains("UNCONFINED"), "{report}");

    let run = |line, event: &Value| by_settings(&home, LOCAL, (line, None), event);
    let denied = run(GUARD_LINE, &call("rm -rf /"));
    assert_eq!(denied.status.code(), Some(2), "{denied:?}");
    assert_eq!(String::from_utf8_lossy(&denied.stderr), "no rm here\n");
    let passed = run(GUARD_LINE, &call("ls"));
    let ended = (passed.status.code(), &*stdout(&passed));
    assert_eq!(ended, (Some(0), ""), "{passed:?}");
    run(WRITES, &json!({"hook_event_name": "Stop"}));
    assert!(!home.path("made").exists());
    let bare = home.fire_in("p", WRITES, &json!({})).wait_with_output();
    assert!(bare.unwrap().status.success());
    assert!(home.path("made").exists());

    // Later calls of `install` and `allow` find the hooks that the file confines.
    let again = json(&home.hookjail(&["--json", "install", "--claude-code", "--yes"]));
    assert_eq!(again["changed"], false, "{again}");
    let checked = json(&home.hookjail(&["--json", "allow", "--check"]));
    assert_eq!(checked["needed"], json!([]), "{checked}");
    let allowed = checked["allowed"].to_string();
    assert!(
        allowed.contains("guard.sh") && allowed.contains("made"),
        "{checked}"
    );
    home.script("p/.claude/hooks/guard.sh", "#!/bin/sh\nexit 0\n");
    home.give_to_user();
    for words in [&["allow", "--check"][..], &["allow", "--all", "--check"]] {
        let checked = home.hookjail(words);
        assert_eq!(checked.status.code(), Some(1), "{checked:?}");
        assert!(stdout(&checked).contains("guard.sh"), "{checked:?}");
    }
    assert!(home.hookjail(&["allow", "--yes"]).status.success());

    // Each of the three ways back removes the file that was made.
    for back in [
        &[
            "install",
            "--claude-code",
            "--local",
            "--uninstall",
            "--yes",
        ][..],
        &["install", "--claude-code", "--uninstall", "--yes"],
        &["uninstall", "--all", "--yes"],
    ] {
        home.hookjail(&INSTALL);
        assert!(home.path(LOCAL).exists());
        home.hookjail(back);
        assert!(!home.path(LOCAL).exists(), "{back:?}");
        as_before(&home);
    }
}

#[test]
fn private_settings_that_are_there_are_put_back_and_keep_what_came_since() {
    let home = Home::new();
    shared_settings(&home);
    let before = home.settings(LOCAL, &json!({"permissions": {"allow": []}}));
    home.hookjail(&INSTALL);
    let done = home.hookjail(&["uninstall", "--all", "--yes"]);
    assert_eq!(
        (done.status.success(), home.text(LOCAL)),
        (true, before),
        "{done:?}"
    );

    // Each profile has a program of its own, so that one project does not change another's.
    home.hookjail(&INSTALL);
    let launcher = |text: &str| {
        let settings: Value = serde_json::from_str(text).unwrap();
        settings["env"]["CLAUDE_CODE_SHELL_PREFIX"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let first = launcher(&home.text(LOCAL));
    home.hookjail(&[&INSTALL[..], &["--profile", "strict"]].concat());
    let second = launcher(&home.text(LOCAL));
    for (path, profile) in [(first, "develop"), (second, "strict")] {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.contains(&format!(" --profile {profile} ")), "{text}");
    }

    // The runtime writes the file anew where its user allows a call.
    let mut settings: Value = serde_json::from_str(&home.text(LOCAL)).unwrap();
    settings["permissions"]["allow"] = json!(["Bash(ls)"]);
    home.settings(LOCAL, &settings);
    home.hookjail(&["uninstall", "--all", "--yes"]);
    settings.as_object_mut().unwrap().remove("env");
    let kept: Value = serde_json::from_str(&home.text(LOCAL)).unwrap();
    assert_eq!(kept, settings);
}

#[test]
fn private_settings_that_git_does_not_ignore_are_named_and_no_line_is_confined_twice() {
    let home = Home::new();
    shared_settings(&home);
    let git = |words: &[&str]| {
        let words = [&["git"], words].concat();
        #[expect(clippy::disallowed_methods, reason = "git is no hook")]
        let done = home.command(&words).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init", "--quiet", "."]);
    let report = json(&home.hookjail(&INSTALL));
    assert!(
        report["note"].to_string().contains(".git/info/exclude"),
        "{report}"
    );
    home.hookjail(&["uninstall", "--all", "--yes"]);
    home.write("p/.git/info/exclude", ".claude/settings.local.json\n");
    let report = json(&home.hookjail(&INSTALL));
    assert_eq!(report["note"], json!(null), "{report}");
    home.hookjail(&["uninstall", "--all", "--yes"]);

    home.settings(".claude/settings.json", &one("PreToolUse", &guard()));
    let users = home.path(".claude/settings.json").display().to_string();
    home.hookjail(&["install", "--claude-code", "--settings", &users, "--yes"]);
    let refused = home.hookjail(&INSTALL);
    assert_eq!(refused.status.code(), Some(125), "{refused:?}");
    let why = stdout(&refused);
    assert!(why.contains("put them back first"), "{why}");
    assert!(!home.path(LOCAL).exists());
}
