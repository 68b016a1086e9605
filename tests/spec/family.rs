//! Runtimes with Claude Code's form of hooks under another name: settings in their form, and calls as they send them.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{
    adopt::{ended, in_place, outcome_of, places, written},
    install::Home,
    support::Daemon,
};

/// Builds settings from a hook's line.
type Form = fn(&str) -> Value;

/// An entry of one line for each event.
fn flat(line: &str) -> Value {
    json!({"hooks": {"PreToolUse": [{"matcher": "^bash$", "command": line, "timeout": 10}]}})
}

/// Entries of an agent, with their times in milliseconds.
fn of_an_agent(line: &str) -> Value {
    json!({"name": "a", "tools": ["*"], "hooks": {"preToolUse": [{"matcher": "execute_bash", "command": line, "timeout_ms": 10000}]}})
}

/// Entries that name their events.
fn listed(line: &str) -> Value {
    let action = json!({"type": "command", "command": line});
    json!({"version": "v1", "hooks": [
        {"name": "ask", "trigger": "Stop", "action": {"type": "agent", "prompt": "Go on."}},
        {"name": "g", "trigger": "PreToolUse", "matcher": "shell", "action": action, "timeout": 10},
    ]})
}

/// Groups below names of hooks.
fn below_a_name(line: &str) -> Value {
    let entry = json!({"type": "command", "command": line, "timeout": 10});
    json!({"safety": {"enabled": true, "PreToolUse": [{"matcher": "run_command", "hooks": [entry]}]}})
}

fn without_a_time(line: &str) -> Value {
    json!({"hooks": {"pre_run_command": [{"command": line, "show_output": true}]}})
}

/// A runtime of the family, as its page has it.
struct Member {
    name: &'static str,
    /// A call, with the command of its shell tool.
    call: fn(&str) -> Value,
    /// Its settings, with a hook's line.
    settings: &'static [(&'static str, Form)],
    /// The members of its answers that stop a call.
    stop: Option<(&'static str, &'static str)>,
}

impl Member {
    /// Returns whether an end stops a call: by its words where it has some, else by exit code 2.
    fn is_stopped(&self, (code, stdout, _): &(Option<i32>, String, String)) -> bool {
        let Some((name, value)) = self.stop else {
            return *code == Some(2);
        };
        let answer: Value = serde_json::from_str(stdout).unwrap_or_default();
        let value: Value = serde_json::from_str(value).unwrap();
        *code == Some(0) && answer[name] == value
    }
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

const MEMBERS: &[Member] = &[
    Member {
        name: "auggie",
        call: |command| json!({"hook_event_name": "PreToolUse", "conversation_id": "c", "workspace_roots": ["/p"], "tool_name": "launch-process", "tool_input": {"command": command}}),
        settings: &[
            ("p/.augment/settings.json", in_millis),
            (".augment/settings.json", in_millis),
        ],
        stop: None,
    },
    Member {
        name: "cortex-code",
        call: |command| shared("Bash", command),
        settings: &[
            ("p/.snowflake/cortex/settings.json", groups),
            (".snowflake/cortex/hooks.json", groups),
        ],
        stop: None,
    },
    Member {
        name: "devin",
        call: |command| json!({"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "exec", "tool_input": {"command": command}}),
        settings: &[
            ("p/.devin/hooks.v1.json", bare),
            (".config/devin/config.json", groups),
        ],
        stop: None,
    },
    Member {
        name: "droid",
        call: |command| shared("Execute", command),
        settings: &[
            ("p/.factory/hooks.json", bare),
            (".factory/settings.json", groups),
        ],
        stop: None,
    },
    Member {
        name: "kimi-code",
        call: |command| shared("Bash", command),
        settings: &[],
        stop: None,
    },
    Member {
        name: "letta-code",
        call: |command| json!({"event_type": "PreToolUse", "working_directory": "/p", "tool_name": "Bash", "tool_input": {"command": command}}),
        settings: &[("p/.letta/settings.json", in_millis)],
        stop: None,
    },
    Member {
        name: "openhands",
        call: |command| json!({"event_type": "PreToolUse", "tool_name": "terminal", "tool_input": {"command": command}, "session_id": "s", "working_dir": "/p"}),
        settings: &[
            ("p/.openhands/hooks.json", bare),
            (".openhands/hooks.json", groups),
        ],
        stop: None,
    },
    Member {
        name: "qoder",
        call: |command| shared("Bash", command),
        settings: &[
            ("p/.qoder/settings.json", groups),
            (".qoder/settings.json", groups),
        ],
        stop: None,
    },
    Member {
        name: "antigravity",
        call: |command| json!({"toolCall": {"name": "run_command", "args": {"CommandLine": command, "Cwd": "/p"}}, "stepIdx": 1, "workspacePaths": ["/p"]}),
        settings: &[
            ("p/.agents/hooks.json", below_a_name),
            (".gemini/config/hooks.json", below_a_name),
        ],
        stop: Some(("decision", "\"deny\"")),
    },
    Member {
        name: "cline",
        call: |command| json!({"hookName": "PreToolUse", "taskId": "t", "preToolUse": {"toolName": "execute_command", "parameters": {"command": command}}}),
        settings: &[],
        stop: Some(("cancel", "true")),
    },
    Member {
        name: "crush",
        call: |command| json!({"event": "PreToolUse", "session_id": "s", "cwd": "/p", "tool_name": "bash", "tool_input": {"command": command}}),
        settings: &[("p/crush.json", flat), (".config/crush/crush.json", flat)],
        stop: None,
    },
    Member {
        name: "goose",
        call: |command| json!({"event": "PreToolUse", "session_id": "s", "matcher_context": "developer__shell", "tool_name": "developer__shell", "tool_input": {"command": command}, "working_dir": "/p"}),
        settings: &[
            ("p/.agents/plugins/a/hooks/hooks.json", groups),
            (".agents/plugins/b/hooks/hooks.json", groups),
        ],
        stop: None,
    },
    Member {
        name: "grok",
        call: |command| json!({"hookEventName": "pre_tool_use", "hook_event_name": "PreToolUse", "sessionId": "s", "toolName": "run_terminal_command", "toolInput": {"command": command}}),
        settings: &[
            ("p/.grok/hooks/a.json", groups),
            (".grok/hooks/b.json", groups),
        ],
        stop: None,
    },
    Member {
        name: "kiro",
        call: |command| json!({"hook_event_name": "preToolUse", "cwd": "/p", "tool_name": "execute_bash", "tool_input": {"command": command}}),
        settings: &[
            ("p/.kiro/agents/a.json", of_an_agent),
            ("p/.amazonq/cli-agents/a.json", of_an_agent),
            (".kiro/hooks/a.json", listed),
        ],
        stop: None,
    },
    Member {
        name: "vibe",
        call: |command| json!({"hook_event_name": "pre_tool", "session_id": "s", "cwd": "/p", "tool_name": "file_system.bash", "tool_input": {"command": command}}),
        settings: &[],
        stop: Some(("decision", "\"deny\"")),
    },
    Member {
        name: "windsurf",
        call: |command| json!({"agent_action_name": "pre_run_command", "trajectory_id": "t", "tool_info": {"command_line": command, "cwd": "/p"}}),
        settings: &[
            ("p/.windsurf/hooks.json", without_a_time),
            (".codeium/windsurf/hooks.json", without_a_time),
        ],
        stop: None,
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
    let (socket, workspace) = places(&daemon);
    for member in MEMBERS {
        let name = member.name;
        let guard = written(&daemon, &format!("guard-{name}"), &guard(member));
        let guard = guard.to_str().unwrap();
        let run = |command: &str| {
            let payload = (member.call)(command).to_string();
            let bare = outcome_of(&ended(&workspace, &[guard], &payload));
            let confined = ended(&workspace, &in_place(name, &socket, &[], guard), &payload);
            (bare, outcome_of(&confined))
        };
        for (command, is_stopped) in [("ls", false), ("rm -rf /", true)] {
            let (bare, confined) = run(command);
            assert_eq!(confined, bare, "{name} {command}");
            assert_eq!(member.is_stopped(&bare), is_stopped, "{name} {command}");
        }
        let (bare, confined) = run("crash");
        assert_eq!(bare.0, Some(7), "{name}");
        // This runtime denies there by itself.
        if name == "antigravity" {
            assert_eq!(confined, bare);
            continue;
        }
        assert!(member.is_stopped(&confined), "{name}: {confined:?}");
        let (_, _, stderr) = confined;
        assert!(
            stderr.contains("ended with exit code 7"),
            "{name}: {stderr}"
        );
    }
}

/// Returns the text of a guard that stops a call in the words of its runtime, else by exit code 2.
fn guard(member: &Member) -> String {
    match member.stop {
        None => GUARD.to_owned(),
        Some((name, value)) => {
            let words = format!("echo '{{\"{name}\": {value}}}'; exit 0");
            let text = GUARD.replace("exit 2", &words);
            text.replace("echo looked\n", "")
        }
    }
}

/// A hook written for another runtime denies in words that its own does not read. Bare, such a call would run.
#[tokio::test]
async fn a_denial_in_the_words_of_another_runtime_is_one_in_those_of_its_own() {
    let daemon = Daemon::start().await;
    let (socket, workspace) = places(&daemon);
    for member in MEMBERS {
        let name = member.name;
        let payload = (member.call)("ls").to_string();
        for (number, (code, answer)) in [
            (0, r#"{"decision": "deny", "reason": "not here"}"#),
            (0, r#"{"decision": "block", "reason": "not here"}"#),
            (0, r#"{"cancel": true, "errorMessage": "not here"}"#),
            (
                0,
                r#"{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "not here"}}"#,
            ),
            (2, ""),
        ]
        .into_iter()
        .enumerate()
        {
            let text = format!("#!/bin/sh\necho '{answer}'\necho 'not here' >&2\nexit {code}\n");
            let guard = written(&daemon, &format!("guard-{name}-{number}"), &text);
            let words = in_place(name, &socket, &[], guard.to_str().unwrap());
            let confined = outcome_of(&ended(&workspace, &words, &payload));
            let is_stopped = member.is_stopped(&confined) || is_passed_on(&confined, code, answer);
            assert!(is_stopped, "{name} {code} {answer}: {confined:?}");
            let printed = confined.1 + &confined.2;
            assert!(printed.contains("not here"), "{name} {answer}: {printed}");
        }
    }
}

/// Returns whether an end is the hook's own, which its runtime then takes for a denial.
fn is_passed_on(end: &(Option<i32>, String, String), code: i32, answer: &str) -> bool {
    end.0 == Some(code) && end.1.trim() == answer && end.2.trim() == "not here"
}

/// Approvals in the words of any of them are handed on.
#[tokio::test]
async fn an_approval_is_no_failure_under_any_member() {
    let daemon = Daemon::start().await;
    let (socket, workspace) = places(&daemon);
    let answer = r#"{"decision": "allow", "reason": "ok"}"#;
    let text = format!("#!/bin/sh\necho '{answer}'\n");
    let hook = written(&daemon, "hook", &text);
    for member in MEMBERS {
        let payload = (member.call)("ls").to_string();
        let words = in_place(member.name, &socket, &[], hook.to_str().unwrap());
        let (code, stdout, stderr) = outcome_of(&ended(&workspace, &words, &payload));
        let found = (code, stdout.trim(), stderr.as_str());
        assert_eq!(found, (Some(0), answer, ""), "{}", member.name);
    }
}

#[tokio::test]
async fn a_failure_where_exit_code_0_approves_leaves_it_to_the_user() {
    let daemon = Daemon::start().await;
    let (socket, workspace) = places(&daemon);
    let guard = written(&daemon, "guard", "#!/bin/sh\nexit 2\n");
    let payload = r#"{"event_type":"PermissionRequest","tool_name":"Bash","tool_input":{}}"#;
    let words = in_place(
        "letta-code",
        &socket,
        &["--observe"],
        guard.to_str().unwrap(),
    );
    let (code, stdout, _) = outcome_of(&ended(&workspace, &words, payload));
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
}

#[test]
fn the_settings_of_each_member_are_changed_and_put_back() {
    let home = Home::new();
    for member in MEMBERS {
        let place = format!("p/.claude/hooks/guard-{}.sh", member.name);
        home.script(&place, &guard(member));
        let guard = home.path(&place);
        let guard = guard.to_str().unwrap();
        for (number, (file, settings)) in member.settings.iter().enumerate() {
            let before = home.settings(file, &settings(guard));
            // The samples are the same for each of its files.
            let rehearsed = (number > 0).then_some("--no-rehearsal");
            let words = ["install", member.name, "--yes"].into_iter();
            let words: Vec<_> = words.chain(rehearsed).collect();
            let done = home.hookjail(&words);
            assert!(done.status.success(), "{} {file}: {done:?}", member.name);
            let text = home.text(file);
            let line = format!("hookjail-run --as {} --profile develop ", member.name);
            assert!(text.contains(&line), "{file}: {text}");
            // A second is left for the answer, where the entry has a time.
            let has_time = before.contains("timeout");
            assert_eq!(text.contains("--timeout 9s "), has_time, "{file}: {text}");
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
    for (runtime, file, entry) in [
        (
            "kimi-code",
            ".kimi-code/config.toml",
            "event = \"PreToolUse\"\nmatcher = \"Bash\"",
        ),
        (
            "vibe",
            "p/.vibe/hooks.toml",
            "name = \"g\"\ntype = \"pre_tool\"\nmatch = \"bash\"",
        ),
    ] {
        let text = format!("[[hooks]]\n{entry}\ncommand = \"{}\"\n", guard.display());
        home.write(file, &text);
        let done = home.hookjail(&["install", runtime, "--yes"]);
        let (code, stdout, stderr) = outcome_of(&done);
        let shown = stdout + &stderr;
        assert_eq!(code, Some(1), "{shown}");
        assert!(shown.contains(guard.to_str().unwrap()), "{shown}");
        assert!(shown.contains("hooks in TOML are not rewritten"), "{shown}");
        assert_eq!(home.text(file), text);
    }
}

#[test]
fn a_script_beside_its_settings_is_found_from_the_directory_where_its_runtime_starts_it() {
    let home = Home::new();
    std::fs::create_dir_all(home.path("p/.agents")).unwrap();
    home.script("p/.agents/guard.sh", "#!/bin/sh\ncat >/dev/null\n");
    home.settings("p/.agents/hooks.json", &below_a_name("./guard.sh"));
    let done = home.hookjail(&["install", "antigravity", "--yes"]);
    let (code, stdout, _) = outcome_of(&done);
    assert_eq!(code, Some(0), "{stdout}");
    assert!(stdout.contains("1 confined"), "{stdout}");
}

/// Its line is a path that no shell reads, and would be another with hookjail before it.
#[test]
fn a_path_from_its_files_directory_is_named_and_left() {
    let home = Home::new();
    std::fs::create_dir_all(home.path("p/.grok/hooks")).unwrap();
    home.script("p/.grok/hooks/guard.sh", GUARD);
    let before = home.settings("p/.grok/hooks/a.json", &groups("guard.sh"));
    let done = home.hookjail(&["install", "grok", "--yes"]);
    let (code, stdout, stderr) = outcome_of(&done);
    let shown = stdout + &stderr;
    assert_eq!(code, Some(1), "{shown}");
    assert!(
        shown.contains("`guard.sh` is a path from this file's directory"),
        "{shown}"
    );
    assert_eq!(home.text("p/.grok/hooks/a.json"), before);
}
