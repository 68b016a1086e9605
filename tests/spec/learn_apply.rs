//! From a denied hook to one that works: `hookjail learn` writes the profile, allows the hook under it and has the settings
//! name it.

use std::{fs, os::unix::fs::PermissionsExt, process::Output};

use serde_json::json;

use crate::install::{Home, at_terminal, call, line, one};

const HOOK: &str = "p/.claude/hooks/log-tools.sh";
const LOG: &str = "notes/tools.jsonl";
const PROFILE: &str = ".config/hookjail/profiles/log-tools.toml";
const SETTINGS: &str = "p/.claude/settings.json";

/// Returns a home whose project has a logger in its settings, which writes a file that `develop` closes.
fn with_logger() -> Home {
    let home = Home::new();
    home.write(LOG, "");
    home.script(
        HOOK,
        "#!/bin/sh\nread -r event\necho \"$event\" >>~/notes/tools.jsonl\n",
    );
    let command = "\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/log-tools.sh";
    let hook = json!({"type": "command", "command": command, "timeout": 60});
    home.settings(SETTINGS, &one("PreToolUse", &hook));
    home
}

/// The same, confined under `develop`, with a daemon that serves it.
fn denied() -> Home {
    let home = with_logger();
    let words = ["install", "--claude-code", "--no-rehearsal", "--yes"];
    let installed = home.hookjail(&words);
    assert!(installed.status.success(), "{installed:?}");
    fire(&home);
    assert_eq!(home.text(LOG), "");
    home
}

/// Calls the hook as the runtime does.
fn fire(home: &Home) -> Output {
    let line = line(&home.text(SETTINGS), "PreToolUse");
    let child = home.fire_in("p", &line, &call("ls"));
    child.wait_with_output().unwrap()
}

fn both(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&all).into_owned()
}

fn mode(home: &Home, name: &str) -> u32 {
    fs::metadata(home.path(name)).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_denied_logger_works_after_one_command() {
    let home = denied();

    let done = home.hookjail(&["learn", "--yes", "--", ".claude/hooks/log-tools.sh"]);

    assert!(done.status.success(), "{done:?}");
    let log = home.path(LOG).display().to_string();
    let added = format!("+ write {log}\n");
    assert!(both(&done).contains(&added), "{done:?}");
    let written = home.text(PROFILE);
    assert!(written.contains("extends = \"develop\""), "{written}");
    assert!(written.contains(&log), "{written}");
    let modes = [PROFILE, ".config/hookjail/profiles"].map(|name| mode(&home, name));
    assert_eq!(modes, [0o600, 0o700]);
    let line = line(&home.text(SETTINGS), "PreToolUse");
    assert!(line.contains(" --profile log-tools "), "{line}");
    let before = home.text(LOG).len();
    let ended = fire(&home);
    assert_eq!((ended.status.code(), &*ended.stderr), (Some(0), &b""[..]));
    assert!(home.text(LOG).len() > before);

    // Later needs come on top of the grants that the hook has.
    home.write("notes/more", "");
    let script = home.text(HOOK);
    home.script(HOOK, &format!("{script}echo x >>~/notes/more\n"));
    home.give_to_user();
    let again = home.hookjail(&["learn", "--yes", "--", ".claude/hooks/log-tools.sh"]);
    assert!(again.status.success(), "{again:?}");
    let written = home.text(PROFILE);
    assert!(
        written.contains("notes/more") && written.contains(&log),
        "{written}"
    );
    assert!(written.contains("extends = \"develop\""), "{written}");
    assert_eq!(fire(&home).status.code(), Some(0));
    assert_ne!(home.text("notes/more"), "");
}

#[test]
fn a_bare_line_is_confined_by_it_and_a_command_without_a_line_is_allowed() {
    let home = with_logger();
    let learn = ["learn", "--yes", "--", ".claude/hooks/log-tools.sh"];
    let done = home.hookjail(&learn);
    assert!(done.status.success(), "{done:?}");
    assert!(line(&home.text(SETTINGS), "PreToolUse").contains(" --profile log-tools "));
    assert_eq!(fire(&home).status.code(), Some(0));

    let home = with_logger();
    fs::remove_file(home.path(SETTINGS)).unwrap();
    let done = home.hookjail(&learn);
    assert!(done.status.success(), "{done:?}");
    let listed = home.hookjail(&["consent", "list"]);
    assert!(both(&listed).contains("log-tools"), "{listed:?}");
}

/// The journal has the interpreter of a script's first line, and the settings do not.
#[test]
fn the_last_denied_hook_is_learnt_without_its_name_and_its_log_need_not_exist() {
    let home = with_logger();
    let words = ["install", "--claude-code", "--no-rehearsal", "--yes"];
    assert!(home.hookjail(&words).status.success());
    fs::remove_file(home.path(LOG)).unwrap();
    let none = home.hookjail(&["learn", "--yes", "--last"]);
    assert!(
        both(&none).contains("no run was denied anything"),
        "{none:?}"
    );
    fire(&home);
    assert!(!home.path(LOG).exists());

    let done = home.hookjail(&["learn", "--yes", "--last"]);

    assert!(done.status.success(), "{done:?}");
    let log = home.path(LOG).display().to_string();
    assert!(
        both(&done).contains(&format!("+ write {log}\n")),
        "{done:?}"
    );
    let granted = format!("{{ path = \"{log}\", access = \"write-file\", create = true }}");
    assert!(
        home.text(PROFILE).contains(&granted),
        "{}",
        home.text(PROFILE)
    );
    assert!(line(&home.text(SETTINGS), "PreToolUse").contains(" --profile log-tools "));
    // A log that was moved away is made again.
    fs::rename(home.path(LOG), home.path("notes/old")).unwrap();
    assert_eq!(fire(&home).status.code(), Some(0));
    assert_ne!(home.text(LOG), "");
}

#[test]
fn a_log_whose_name_changes_gets_its_directory() {
    let home = denied();
    home.script(
        HOOK,
        "#!/bin/sh\nread -r event\necho \"$event\" >>~/notes/$(date +%F).jsonl\n",
    );
    home.give_to_user();
    let done = home.hookjail(&["learn", "--yes", "--", ".claude/hooks/log-tools.sh"]);
    let notes = home.path("notes").display().to_string();
    let added = format!("+ write and make files in {notes}\n");
    assert!(both(&done).contains(&added), "{done:?}");
}

#[test]
fn install_leaves_a_logger_that_would_stop_everything_and_offers_to_learn_its_needs() {
    let home = with_logger();
    let settings = home.text(SETTINGS);
    let log = home.path(LOG).display().to_string();
    let why = format!(
        "in the sandbox of profile develop it cannot write {log}, and stops each of 7 events"
    );
    let learn = format!("hookjail learn -- {}", home.path(HOOK).display());

    let left = home.hookjail(&["install", "--claude-code", "--yes"]);
    assert_eq!(left.status.code(), Some(1), "{left:?}");
    let printed = both(&left);
    assert!(
        printed.contains(&why) && printed.contains(&learn),
        "{printed}"
    );
    assert!(printed.contains("0 confined · 1 still bare"), "{printed}");
    assert_eq!(home.text(SETTINGS), settings);

    let (_, printed) = at_terminal(&home, "n\n", &["install", "--claude-code"]);
    assert!(printed.contains("Show its needs? [y/N]"), "{printed}");
    assert_eq!(home.text(SETTINGS), settings);
    let (done, printed) = at_terminal(&home, "y\ny\ny\n", &["install", "--claude-code"]);
    assert!(
        printed.contains("the hook runs under profile log-tools"),
        "{done:?} {printed}"
    );
    assert!(line(&home.text(SETTINGS), "PreToolUse").contains(" --profile log-tools "));
    assert_eq!(fire(&home).status.code(), Some(0));
}

/// A formatter that stopped formatting would else be noticed weeks later.
#[test]
fn a_denied_hook_without_an_answer_is_named_to_the_user_once_a_session() {
    let home = with_logger();
    let script = |end: &str| {
        let script = format!("#!/bin/sh\ncat >/dev/null\necho x >>~/notes/tools.jsonl\n{end}\n");
        home.script(HOOK, &script);
        home.give_to_user();
        let allowed = home.hookjail(&["allow", "--yes"]);
        assert!(allowed.status.success(), "{allowed:?}");
    };
    let command = "\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/log-tools.sh";
    let hook = json!({"type": "command", "command": command});
    home.settings(SETTINGS, &one("PostToolUse", &hook));
    let installed = home.hookjail(&["install", "claude-code", "--yes"]);
    assert!(installed.status.success(), "{installed:?}");
    let line = line(&home.text(SETTINGS), "PostToolUse");
    let fire = |session: &str| {
        let event = json!({"session_id": session, "hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": {}});
        let ended = home.fire_in("p", &line, &event);
        String::from_utf8(ended.wait_with_output().unwrap().stdout).unwrap()
    };
    let remark = r#"{"systemMessage":"the sandbox of hookjail denied a hook what it uses. To give it that: hookjail learn --last"}"#;

    script("exit 0");
    assert_eq!(
        ["one", "one", "two", "one"].map(&fire),
        [remark, "", remark, ""]
    );
    // The hook's own answer stays, and one that was denied nothing has no remark.
    script("echo '{\"continue\": true}'");
    assert_eq!(fire("three"), "{\"continue\": true}\n");
    home.script(HOOK, "#!/bin/sh\ncat >/dev/null\n");
    home.give_to_user();
    home.hookjail(&["allow", "--yes"]);
    assert_eq!(fire("four"), "");
    // The command that the remark names learns the denied access.
    script("exit 0");
    assert_eq!(fire("three"), remark);
    let status = both(&home.hookjail(&["status"]));
    let denied =
        "denied        1 hook in its last run; give the last what it lacks: hookjail learn --last";
    assert!(status.contains(denied), "{status}");
    home.script(HOOK, "#!/bin/sh\nexit 0\n");
    home.give_to_user();
    for _ in 0..2 {
        fire("three");
    }
    let status: serde_json::Value =
        serde_json::from_slice(&home.hookjail(&["--json", "status"]).stdout).unwrap();
    assert_eq!(
        (&status["refusedCalls"], &status["deniedHooks"]),
        (&json!(2), &json!(1))
    );
    assert!(status["refusedSince"].is_string(), "{status}");
    script("exit 0");
    fire("three");
    let status = both(&home.hookjail(&["status"]));
    assert!(!status.contains("refused  "), "{status}");
    let learnt = home.hookjail(&["learn", "--last", "--yes"]);
    assert!(learnt.status.success(), "{learnt:?}");
    let learnt = crate::install::line(&home.text(SETTINGS), "PostToolUse");
    assert!(learnt.contains(" --profile log-tools "), "{learnt}");
}

#[test]
fn under_the_shell_prefix_no_line_gets_a_profile_of_its_own() {
    let home = with_logger();
    let words = [
        "install",
        "--claude-code",
        "--shell-prefix",
        "--no-rehearsal",
        "--yes",
    ];
    home.settings(".claude/settings.json", &json!({}));
    let installed = home.hookjail(&words);
    assert!(installed.status.success(), "{installed:?}");
    let refused = home.hookjail(&["learn", "--yes", "--", ".claude/hooks/log-tools.sh"]);
    assert_eq!(refused.status.code(), Some(125), "{refused:?}");
    assert!(both(&refused).contains("shell prefix"), "{refused:?}");
    assert!(!home.path(PROFILE).exists());
}

#[test]
fn trials_of_install_and_learn_are_no_runs_of_the_log_and_no_last_denial() {
    let home = with_logger();
    let shown = |words: &[&str]| both(&home.hookjail(words));
    home.hookjail(&["install", "--claude-code", "--yes"]);
    home.hookjail(&["learn", "--", ".claude/hooks/log-tools.sh"]);
    let journal = home.text(".local/state/hookjail/audit/journal.jsonl");
    assert!(journal.contains("\"consent\":\"trial\""), "{journal}");
    assert_eq!(shown(&["log"]), "no runs recorded\n");
    let last = shown(&["learn", "--last", "--yes"]);
    assert!(last.contains("no run was denied anything"), "{last}");
    // The positive control: a call of the runtime's.
    let home = denied();
    assert!(both(&home.hookjail(&["log"])).contains("log-tools.sh"));
}

#[test]
fn nothing_is_put_in_force_unless_somebody_agrees() {
    let home = denied();
    let settings = home.text(SETTINGS);
    let learn = ["learn", "--", ".claude/hooks/log-tools.sh"];

    let shown = home.hookjail(&learn);
    assert_eq!(shown.status.code(), Some(1), "{shown:?}");
    // Neither what would be tried with it, nor what would be written.
    for (answers, questions) in [("n\n", 1), ("y\nn\n", 2)] {
        let (done, printed) = at_terminal(&home, answers, &learn);
        assert!(!done.status.success(), "{printed}");
        assert_eq!(printed.matches("[y/N]").count(), questions, "{printed}");
    }
    assert!(!home.path(PROFILE).exists());
    assert_eq!(home.text(SETTINGS), settings);

    let (done, printed) = at_terminal(&home, "y\ny\n", &learn);
    assert!(done.status.success(), "{printed}");
    assert!(line(&home.text(SETTINGS), "PreToolUse").contains(" --profile log-tools "));
}

#[test]
fn a_hook_that_needs_nothing_more_gets_no_profile() {
    let home = with_logger();
    home.script(HOOK, "#!/bin/sh\nread -r event\nread -r x <.git/config\n");
    home.give_to_user();
    let settings = home.text(SETTINGS);

    let done = home.hookjail(&["learn", "--yes", "--", ".claude/hooks/log-tools.sh"]);

    assert!(done.status.success(), "{done:?}");
    let printed = both(&done);
    assert!(
        printed.contains("nothing more than profile develop"),
        "{printed}"
    );
    assert!(
        printed.contains("no event wrote or asked a host"),
        "{printed}"
    );
    assert!(!home.path(PROFILE).exists());
    assert_eq!(home.text(SETTINGS), settings);
}

#[test]
fn a_log_where_hooks_lie_that_agents_run_is_refused_with_the_way_out() {
    let home = Home::new();
    home.script(HOOK, "#!/bin/sh\ncat >>\"$(dirname \"$0\")/tools.log\"\n");
    let hook =
        json!({"type": "command", "command": "\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/log-tools.sh"});
    home.settings(SETTINGS, &one("PreToolUse", &hook));

    let learnt = home.hookjail(&["learn", "--yes", "--", ".claude/hooks/log-tools.sh"]);

    let printed = both(&learnt);
    assert_eq!(learnt.status.code(), Some(125), "{printed}");
    assert!(
        printed.contains("agents, editors or git run what lies there; write to another directory"),
        "{printed}"
    );
    assert!(
        printed.contains("no profile grants what the hook is refused"),
        "{printed}"
    );
    assert!(!home.path(PROFILE).exists());
    // The control: the directory above is the project's own.
    home.script(
        HOOK,
        "#!/bin/sh\ncat >>\"$(dirname \"$0\")/../tools.log\"\n",
    );
    home.give_to_user();
    let done = home.hookjail(&["install", "claude-code", "--yes"]);
    assert!(done.status.success(), "{done:?}");
    assert!(fire(&home).status.success());
    assert!(home.text("p/.claude/tools.log").contains("PreToolUse"));
}

#[test]
fn a_file_that_was_not_learnt_of_the_command_stays() {
    let home = denied();
    let settings = home.text(SETTINGS);
    let mine = "description = \"Mine.\"\nextends = \"strict\"\n";
    home.write(PROFILE, mine);

    let learn = ["learn", "--yes", "--", ".claude/hooks/log-tools.sh"];
    let refused = home.hookjail(&learn);

    assert_eq!(refused.status.code(), Some(125), "{refused:?}");
    assert!(both(&refused).contains("--name"), "{refused:?}");
    assert_eq!(
        (home.text(PROFILE), home.text(SETTINGS)),
        (mine.to_owned(), settings)
    );
    let named = home.hookjail(&[
        "learn",
        "--yes",
        "--name",
        "other",
        "--",
        ".claude/hooks/log-tools.sh",
    ]);
    assert!(named.status.success(), "{named:?}");
    assert!(line(&home.text(SETTINGS), "PreToolUse").contains(" --profile other "));
}
