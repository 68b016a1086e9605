//! Runtimes with Claude Code's form of hooks under another name: settings in their form, and calls as they send them.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{
    adopt::{ended, in_place, places, told, written},
    install::Home,
    support::Daemon,
};

/// Builds settings from a hook's line.
type Form = fn(&str) -> Value;

/// A runtime of the family, as its page has it.
struct Member {
    name: &'static str,
    /// A call, with the command of its shell tool.
    call: fn(&str) -> Value,
    /// Its settings, with a hook's line.
    settings: &'static [(&'static str, Form)],
}

fn groups(line: &str) -> Value {
    json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": line, "timeout": 10}]}]}})
}

fn in_millis(line: &str) -> Value {
    json!({"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": line, "timeout": 10000}]}]}})
}

/// Events without `hooks` around them.
fn bare(line: &str) -> Value {
    json!({"PreToolUse": [{"matcher": "Execute", "hooks": [{"type": "command", "command": line, "timeout": 10}]}]})
}

fn shared(tool: &str, command: &str) -> Value {
    json!({"hook_event_name": "PreToolUse", "session_id": "s", "cwd": "/p", "tool_name": tool, "tool_input": {"command": command}})
}

const MEMBERS: [Member; 7] = [
    Member {
        name: "auggie",
        call: |command| json!({"hook_event_name": "PreToolUse", "conversation_id": "c", "workspace_roots": ["/p"], "tool_name": "launch-process", "tool_input": {"command": command}}),
        settings: &[
            ("p/.augment/settings.json", in_millis),
            (".augment/settings.json", in_millis),
        ],
    },
    Member {
        name: "cortex-code",
        call: |command| shared("Bash", command),
        settings: &[
            ("p/.snowflake/cortex/settings.json", groups),
            (".snowflake/cortex/hooks.json", groups),
        ],
    },
    Member {
        name: "droid",
        call: |command| shared("Execute", command),
        settings: &[
            ("p/.factory/hooks.json", bare),
            (".factory/settings.json", groups),
        ],
    },
    Member {
        name: "kimi-code",
        call: |command| shared("Bash", command),
        settings: &[],
    },
    Member {
        name: "letta-code",
        call: |command| json!({"event_type": "PreToolUse", "working_directory": "/p", "tool_name": "Bash", "tool_input": {"command": command}}),
        settings: &[("p/.letta/settings.json", in_millis)],
    },
    Member {
        name: "openhands",
        call: |command| json!({"event_type": "PreToolUse", "tool_name": "terminal", "tool_input": {"command": command}, "session_id": "s", "working_dir": "/p"}),
        settings: &[
            ("p/.openhands/hooks.json", bare),
            (".openhands/hooks.json", groups),
        ],
    },
    Member {
        name: "qoder",
        call: |command| shared("Bash", command),
        settings: &[
            ("p/.qoder/settings.json", groups),
            (".qoder/settings.json", groups),
        ],
    },
];

const GUARD: &str = "#!/bin/sh
case $(cat) in
*'rm -rf'*) echo 'no rm here' >&2; exit 2 ;;
*crash*) exit 7 ;;
esac
echo looked
";

#[tokio::test]
async fn a_guard_of_each_member_decides_and_denies_where_it_breaks() {
    let daemon = Daemon::start().await;
    let (socket, here) = places(&daemon);
    let guard = written(&daemon, "guard", GUARD);
    let guard = guard.to_str().unwrap();
    for member in MEMBERS {
        let name = member.name;
        let run = |command: &str| {
            let payload = (member.call)(command).to_string();
            let bare = told(&ended(&here, &[guard], &payload));
            let confined = ended(&here, &in_place(name, &socket, &[], guard), &payload);
            (bare, told(&confined))
        };
        for command in ["ls", "rm -rf /"] {
            let (bare, confined) = run(command);
            assert_eq!(confined, bare, "{name} {command}");
        }
        let (bare, (code, stdout, stderr)) = run("crash");
        assert_eq!(bare.0, Some(7), "{name}");
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{name}: {stderr}");
        assert!(
            stderr.contains("ended with exit code 7"),
            "{name}: {stderr}"
        );
    }
}

#[tokio::test]
async fn a_failure_where_exit_code_0_approves_leaves_it_to_the_user() {
    let daemon = Daemon::start().await;
    let (socket, here) = places(&daemon);
    let guard = written(&daemon, "guard", "#!/bin/sh\nexit 2\n");
    let payload = r#"{"event_type":"PermissionRequest","tool_name":"Bash","tool_input":{}}"#;
    let words = in_place(
        "letta-code",
        &socket,
        &["--observe"],
        guard.to_str().unwrap(),
    );
    let (code, stdout, _) = told(&ended(&here, &words, payload));
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
}

#[test]
fn the_settings_of_each_member_are_changed_and_put_back() {
    let home = Home::new();
    home.script("p/.claude/hooks/guard.sh", GUARD);
    let guard = home.path("p/.claude/hooks/guard.sh");
    let guard = guard.to_str().unwrap();
    for member in MEMBERS {
        for (file, settings) in member.settings {
            let before = home.settings(file, &settings(guard));
            let done = home.hookjail(&["install", member.name, "--yes"]);
            assert!(done.status.success(), "{} {file}: {done:?}", member.name);
            let line = format!(
                "hookjail-run --as {} --profile develop --timeout 9s ",
                member.name
            );
            assert!(
                home.text(file).contains(&line),
                "{file}: {}",
                home.text(file)
            );
            let back = home.hookjail(&["install", member.name, "--uninstall", "--yes"]);
            assert!(back.status.success(), "{back:?}");
            assert_eq!(home.text(file), before, "{file}");
            std::fs::remove_file(home.path(file)).unwrap();
        }
    }
}

#[test]
fn hooks_in_toml_are_named_and_left() {
    let home = Home::new();
    home.script("p/.claude/hooks/guard.sh", GUARD);
    let guard: PathBuf = home.path("p/.claude/hooks/guard.sh");
    let text = format!(
        "[[hooks]]\nevent = \"PreToolUse\"\nmatcher = \"Bash\"\ncommand = \"{}\"\n",
        guard.display()
    );
    home.write(".kimi-code/config.toml", &text);
    let done = home.hookjail(&["install", "kimi-code", "--yes"]);
    let (code, stdout, stderr) = told(&done);
    let shown = stdout + &stderr;
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains(guard.to_str().unwrap()), "{shown}");
    assert!(shown.contains("hooks in TOML are not rewritten"), "{shown}");
    assert_eq!(home.text(".kimi-code/config.toml"), text);
}
