//! `hookjail-run --shell-prefix`: of the lines that Claude Code hands to one program, those of hooks run confined and the others as they are.

use std::{
    fs,
    io::Write,
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};

use crate::{
    install::{Home, call},
    support::thin,
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
    let (mut own, theirs) = UnixStream::pair().unwrap();
    command.stdin(Stdio::from(OwnedFd::from(theirs)));
    #[expect(clippy::disallowed_methods, reason = "it is the runtime's own start")]
    let child = command.spawn().unwrap();
    drop(command);
    own.write_all(text.as_bytes()).unwrap();
    drop(own);
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
    home.own();
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
        "consent",
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
    home.own();
    let changed = hook(&home, line, Some(root), &call("ls"));
    assert!(stdout(&changed).contains("DIGEST_MISMATCH"), "{changed:?}");
}
