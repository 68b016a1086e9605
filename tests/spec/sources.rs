//! `hookjail install` names every command of a runtime that stays unconfined, and treats each file and entry by itself.

use std::{
    fs,
    os::unix::fs::{lchown, symlink},
};

use nix::unistd::geteuid;
use serde_json::{Value, json};

use crate::{
    install::{Home, guard, line, one},
    witness::json,
};

const SETTINGS: &str = "p/.claude/settings.json";
const INSTALL: [&str; 4] = ["--json", "install", "--claude-code", "--yes"];

/// Returns hooks with one command at a point.
fn group(command: &str) -> Value {
    json!([{"matcher": "Bash", "hooks": [{"type": "command", "command": command}]}])
}

/// Returns the commands that a result names as unconfined, each with the end of its file's path.
fn unconfined(report: &Value) -> Vec<(String, String)> {
    let all = report["unconfined"].as_array().unwrap().iter();
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    let all = all.map(|it| {
        let file = text(&it["file"]);
        let name = file.rsplit('/').next().unwrap().to_owned();
        (name, text(&it["command"]))
    });
    all.collect()
}

/// Installs a plugin as Claude Code does.
fn plugin(home: &Home, name: &str, files: &[(&str, Value)]) {
    let root = format!(".claude/plugins/cache/market/{name}/1.0.0");
    home.settings(
        &format!("{root}/.claude-plugin/plugin.json"),
        &json!({"name": name, "version": "1.0.0"}),
    );
    for (file, value) in files {
        home.settings(&format!("{root}/{file}"), value);
    }
    let list = ".claude/plugins/installed_plugins.json";
    let text = fs::read_to_string(home.path(list)).unwrap_or_default();
    let mut all: Value =
        serde_json::from_str(&text).unwrap_or(json!({"version": 2, "plugins": {}}));
    all["plugins"][format!("{name}@market")] =
        json!([{"scope": "user", "installPath": home.path(&root), "version": "1.0.0"}]);
    home.settings(list, &all);
}

#[test]
fn a_plugins_file_that_is_adopted_is_no_longer_named() {
    let home = Home::new();
    home.settings(SETTINGS, &one("PreToolUse", &guard()));
    let command = "\"${CLAUDE_PLUGIN_ROOT}\"/guard.sh";
    let hooks = json!({"hooks": {"PreToolUse": group(command)}});
    plugin(&home, "usual", &[("hooks/hooks.json", hooks)]);
    let root = home.path(".claude/plugins/cache/market/usual/1.0.0");
    fs::copy(home.path("p/.claude/hooks/guard.sh"), root.join("guard.sh")).unwrap();
    home.settings(
        ".claude/settings.json",
        &json!({"enabledPlugins": {"usual@market": true}}),
    );
    let named = unconfined(&json(&home.hookjail(&INSTALL)));
    assert_eq!(named, [("hooks.json".to_owned(), command.to_owned())]);
    let file = root.join("hooks/hooks.json").display().to_string();
    home.hookjail(&[&INSTALL[..], &["--settings", &file]].concat());
    let done = home.hookjail(&INSTALL);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(unconfined(&json(&done)), []);
}

/// As Copilot CLI 1.0.102 was seen to run them.
#[test]
fn every_command_of_copilot_is_confined_or_named() {
    let home = Home::new();
    let script = "p/.claude/hooks/guard.sh";
    assert!(home.path(script).exists());
    let flat = |variable: &str| {
        let line = format!("\"${variable}\"/.claude/hooks/guard.sh");
        json!({"hooks": {"preToolUse": [{"type": "command", "bash": line}]}})
    };
    let mut nested = json!({"theme": "dark", "hooks": {"PreToolUse": group("\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/guard.sh")}});
    nested["hooks"]["PreToolUse"][0]["matcher"] = json!("bash");
    let file = "p/.github/hooks/a.json";
    let before = home.settings(file, &flat("COPILOT_PROJECT_DIR"));
    home.settings("p/.github/copilot/settings.json", &nested);
    home.settings(
        ".copilot/settings.json",
        &json!({"theme": "dark", "hooks": {"preToolUse": [{"type": "command", "bash": "true"}]}}),
    );
    for (file, command) in [
        ("p/.github/hooks/below/b.json", "below"),
        (".copilot/installed-plugins/_direct/x/hooks.json", "plugin"),
        (".copilot/installed-plugins/m/y/hooks/hooks.json", "plugin"),
    ] {
        let hooks = json!({"preToolUse": [{"type": "command", "bash": command}]});
        home.settings(file, &json!({"hooks": hooks}));
    }
    home.write(
        ".copilot/agents/a.agent.md",
        "---\nname: a\nhooks:\n  preToolUse:\n    - type: command\n      bash: agent\n---\n",
    );
    home.settings(SETTINGS, &one("PreToolUse", &guard()));
    home.give_to_user();
    let install = |runtime: &str| json(&home.hookjail(&["--json", "install", runtime, "--yes"]));

    let report = install("copilot");

    let mut named: Vec<_> = unconfined(&report)
        .into_iter()
        .map(|(_, command)| command)
        .collect();
    named.sort();
    let of_claude = "\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/guard.sh";
    assert_eq!(
        named,
        [of_claude, "agent", "below", "plugin", "plugin"],
        "{report}"
    );
    assert_eq!(report["unread"], json!([]), "{report}");
    for (file, key) in [
        (file, "bash"),
        ("p/.github/copilot/settings.json", "command"),
    ] {
        let settings: Value = serde_json::from_str(&home.text(file)).unwrap();
        let events = settings["hooks"].as_object().unwrap();
        let entry = &events.values().next().unwrap()[0];
        let entry = entry["hooks"].get(0).unwrap_or(entry);
        let line = entry[key].as_str().unwrap();
        assert!(line.contains(" --as copilot "), "{line}");
        for (command, code) in [("ls", 0), ("rm -rf /", 2)] {
            let arguments = json!({"command": command}).to_string();
            let event = json!({"sessionId": "s", "timestamp": 1, "cwd": home.path("p"), "toolName": "bash", "toolArgs": arguments});
            // Copilot sets both for every hook.
            let project = home.path("p").display().to_string();
            let line = format!("export COPILOT_PROJECT_DIR='{project}'; {line}");
            let ended = home.fire_in("p", &line, &event).wait_with_output().unwrap();
            assert_eq!(ended.status.code(), Some(code), "{file}: {ended:?}");
        }
    }
    // Whose settings these are is asked of that runtime alone, where none is named.
    let all = json(&home.hookjail(&["--json", "allow", "--check"]));
    let of_copilot: Vec<_> = all["unconfined"].as_array().unwrap().iter().collect();
    assert_eq!(
        of_copilot,
        [&json!(
            "copilot: 4 UNCONFINED outside of its hook settings: hookjail install copilot --dry-run"
        )]
    );
    // A line that is confined as another runtime's is not named.
    install("claude-code");
    let again = install("copilot");
    let named = unconfined(&again);
    assert!(
        !named.iter().any(|(file, _)| file == "settings.json"),
        "{again}"
    );
    home.hookjail(&["install", "copilot", "--uninstall", "--yes"]);
    assert_eq!(home.text(file), before);
}

#[test]
fn every_command_of_claude_code_that_stays_unconfined_is_named() {
    let home = Home::new();
    home.settings(SETTINGS, &one("PreToolUse", &guard()));
    let hooks = |command| json!({"description": "d", "hooks": {"PreToolUse": group(command)}});
    plugin(
        &home,
        "usual",
        &[(
            "hooks/hooks.json",
            hooks("\"${CLAUDE_PLUGIN_ROOT}\"/usual.sh"),
        )],
    );
    plugin(&home, "off", &[("hooks/hooks.json", hooks("off.sh"))]);
    plugin(
        &home,
        "named",
        &[
            (
                ".claude-plugin/plugin.json",
                json!({"name": "named", "hooks": "./other.json"}),
            ),
            ("other.json", hooks("named.sh")),
        ],
    );
    plugin(
        &home,
        "inline",
        &[(
            ".claude-plugin/plugin.json",
            json!({"name": "inline", "hooks": {"Stop": group("inline.sh")}}),
        )],
    );
    // A plugin of a local marketplace runs from there.
    let market = json!({"source": {"source": "directory", "path": home.path("m")}, "installLocation": home.path("m")});
    home.settings(
        ".claude/plugins/known_marketplaces.json",
        &json!({"local": market}),
    );
    let plugins = json!([{"name": "near", "source": "./near"}]);
    home.settings(
        "m/.claude-plugin/marketplace.json",
        &json!({"name": "local", "plugins": plugins}),
    );
    home.settings("m/near/hooks/hooks.json", &hooks("near.sh"));
    // The positive control: an installed plugin that is not enabled runs nothing.
    let done = home.hookjail(&INSTALL);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(unconfined(&json(&done)), []);

    let enabled = json!({"usual@market": true, "off@market": false, "named@market": true, "inline@market": true, "near@local": true});
    home.settings(
        ".claude/settings.json",
        &json!({"enabledPlugins": enabled, "statusLine": {"type": "command", "command": "~/line.sh"}}),
    );
    let matter = |command| {
        format!(
            "---\nname: x\nhooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks:\n        - type: command\n          command: {command}\n---\nText\n"
        )
    };
    home.write(".claude/agents/deep/agent.md", &matter("agent.sh"));
    home.write("p/.claude/skills/s/SKILL.md", &matter("skill.sh"));
    home.write("p/.claude/commands/command.md", &matter("command.sh"));
    home.write(
        "p/.claude/commands/none.md",
        "---\nname: none\n---\nhooks:\n",
    );

    let done = home.hookjail(&INSTALL);

    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let report = json(&done);
    let mut found = unconfined(&report);
    found.sort();
    let expected = [
        ("SKILL.md", "skill.sh"),
        ("agent.md", "agent.sh"),
        ("command.md", "command.sh"),
        ("hooks.json", "\"${CLAUDE_PLUGIN_ROOT}\"/usual.sh"),
        ("hooks.json", "near.sh"),
        ("other.json", "named.sh"),
        ("plugin.json", "inline.sh"),
        ("settings.json", "~/line.sh"),
    ];
    let expected = expected.map(|(file, command)| (file.to_owned(), command.to_owned()));
    assert_eq!(found, expected);
    assert_eq!(report["unread"], json!([]));
    let shown = home.hookjail(&["install", "--claude-code", "--dry-run"]);
    assert_eq!(shown.status.code(), Some(1), "{shown:?}");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert_eq!(shown.matches("UNCONFINED: ").count(), 8, "{shown}");
    assert!(shown.contains("8 still bare"), "{shown}");
    for words in [&["doctor"][..], &["allow", "--check"]] {
        let report = home.hookjail(words);
        let report = String::from_utf8_lossy(&report.stdout).into_owned();
        assert!(report.contains("claude-code: 8 UNCONFINED"), "{report}");
    }
}

#[test]
fn plugins_whose_hooks_cannot_be_read_are_named_and_the_others_too() {
    let home = Home::new();
    home.settings(SETTINGS, &one("PreToolUse", &guard()));
    plugin(&home, "broken", &[]);
    home.write(
        ".claude/plugins/cache/market/broken/1.0.0/hooks/hooks.json",
        "{ // no JSON",
    );
    let mixed = json!({"hooks": {"PreToolUse": [{"hooks": [
        {"type": "command", "command": " "}, {"type": "command", "command": "good.sh"},
    ]}]}});
    plugin(&home, "mixed", &[("hooks/hooks.json", mixed)]);
    let enabled = json!({"broken@market": true, "mixed@market": true, "gone@market": true});
    home.settings(".claude/settings.json", &json!({"enabledPlugins": enabled}));

    let done = home.hookjail(&INSTALL);

    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let report = json(&done);
    assert_eq!(
        unconfined(&report),
        [("hooks.json".to_owned(), "good.sh".to_owned())]
    );
    let unread = report["unread"].to_string();
    for part in [
        "broken/1.0.0/hooks/hooks.json",
        "mixed/1.0.0/hooks/hooks.json",
        "gone@market",
    ] {
        assert!(unread.contains(part), "{unread}");
    }
    // The guard of the project is confined nevertheless.
    assert!(line(&home.text(SETTINGS), "PreToolUse").contains(" --as claude-code "));
}

#[test]
fn hooks_of_codex_in_toml_are_named() {
    let home = Home::new();
    let hook = home.path("p/.claude/hooks/guard.sh").display().to_string();
    let toml = "model = \"m\"\nnotify = [\"notify\", \"-x\"]\n[[hooks.PreToolUse]]\nmatcher = \"^Bash$\"\n\
                [[hooks.PreToolUse.hooks]]\ntype = \"command\"\ncommand = \"inline.sh\"\n";
    home.write(".codex/config.toml", toml);
    let words = ["--json", "install", "--codex", "--yes"];
    // Alone, and beside a file that is changed.
    for has_settings in [false, true] {
        if has_settings {
            let entry = json!({"type": "command", "command": hook, "timeout": 10});
            let settings = json!({"hooks": {"PreToolUse": [{"hooks": [entry]}]}});
            home.settings("p/.codex/hooks.json", &settings);
            home.write("p/.codex/config.toml", &toml.replace("inline", "project"));
        }
        let done = home.hookjail(&words);
        assert_eq!(done.status.code(), Some(1), "{done:?}");
        let found = unconfined(&json(&done));
        let commands: Vec<_> = found.iter().map(|(_, command)| &**command).collect();
        let both = ["inline.sh", "notify -x", "project.sh", "notify -x"];
        assert_eq!(commands, if has_settings { &both[..] } else { &both[..2] });
    }
    assert!(line(&home.text("p/.codex/hooks.json"), "PreToolUse").contains(" --as codex "));
}

#[test]
fn settings_behind_a_link_to_the_users_own_file_are_edited_there() {
    let home = Home::new();
    let hook = json!({"type": "command", "command": home.path("p/.claude/hooks/guard.sh")});
    let users = home.settings("dotfiles/claude.json", &one("PreToolUse", &hook));
    let projects = home.settings(
        "p/shared/claude/settings.json",
        &one("PreToolUse", &guard()),
    );
    symlink(
        "../dotfiles/claude.json",
        home.path(".claude/settings.json"),
    )
    .unwrap();
    symlink("../shared/claude/settings.json", home.path(SETTINGS)).unwrap();
    home.give_to_user();

    let done = home.hookjail(&INSTALL);

    assert!(done.status.success(), "{done:?}");
    for file in ["dotfiles/claude.json", "p/shared/claude/settings.json"] {
        assert!(
            line(&home.text(file), "PreToolUse").contains(" --as claude-code "),
            "{file}"
        );
    }
    for link in [".claude/settings.json", SETTINGS] {
        assert!(
            home.path(link).symlink_metadata().unwrap().is_symlink(),
            "{link}"
        );
    }
    let back = home.hookjail(&["install", "--claude-code", "--uninstall", "--yes"]);
    assert!(back.status.success(), "{back:?}");
    assert_eq!(home.text("dotfiles/claude.json"), users);
    assert_eq!(home.text("p/shared/claude/settings.json"), projects);
}

#[test]
fn settings_behind_other_links_stay_and_stop_no_other_file() {
    let home = Home::new();
    let local = "p/.claude/settings.local.json";
    let outside = home.settings("other/x.json", &one("PreToolUse", &guard()));
    home.settings(SETTINGS, &one("PreToolUse", &guard()));
    symlink(home.path("other/x.json"), home.path(local)).unwrap();
    home.give_to_user();
    let done = home.hookjail(&INSTALL);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let report = json(&done);
    assert!(
        report["unread"]
            .to_string()
            .contains("is a link, or lies behind one"),
        "{report}"
    );
    assert_eq!(home.text("other/x.json"), outside);
    assert!(line(&home.text(SETTINGS), "PreToolUse").contains(" --as claude-code "));

    // Another user's file.
    if geteuid().is_root() {
        symlink("../other/x.json", home.path(".claude/settings.json")).unwrap();
        home.give_to_user();
        lchown(home.path("other/x.json"), Some(0), Some(0)).unwrap();
        let done = home.hookjail(&INSTALL);
        let report = json(&done);
        assert_eq!(report["unread"].as_array().unwrap().len(), 2, "{report}");
        assert_eq!(home.text("other/x.json"), outside);
    }
}

#[test]
fn an_entry_or_file_that_cannot_be_read_stops_no_other() {
    let home = Home::new();
    let mut settings = one("PreToolUse", &guard());
    let blank = json!({"type": "command", "command": ""});
    settings["hooks"]["Stop"] = json!([{"hooks": [blank]}, {"matcher": 1, "hooks": []}]);
    home.settings(SETTINGS, &settings);
    home.write("p/.claude/settings.local.json", "{ // a comment\n}\n");

    let done = home.hookjail(&INSTALL);

    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let report = json(&done);
    let file = report["files"].as_array().unwrap().iter();
    let mut file = file.filter(|it| it["file"] == json!(home.path(SETTINGS)));
    let broken = file.next().unwrap()["broken"].clone();
    assert_eq!(broken.as_array().unwrap().len(), 2, "{report}");
    assert!(
        report["unread"].to_string().contains("settings.local.json"),
        "{report}"
    );
    let now: Value = serde_json::from_str(&home.text(SETTINGS)).unwrap();
    assert_eq!(now["hooks"]["Stop"], settings["hooks"]["Stop"]);
    let line = line(&home.text(SETTINGS), "PreToolUse");
    assert!(line.contains(" --as claude-code "), "{line}");
    let back = home.hookjail(&["install", "--claude-code", "--uninstall", "--yes"]);
    assert_eq!(back.status.code(), Some(1), "{back:?}");
    let now: Value = serde_json::from_str(&home.text(SETTINGS)).unwrap();
    assert_eq!(now, settings);
}

#[test]
fn the_project_around_the_current_directory_is_adopted() {
    let home = Home::new();
    home.settings(SETTINGS, &one("PreToolUse", &guard()));
    // Settings of another runtime nearer by are none of this one's.
    home.settings(
        "p/sub/.cursor/hooks.json",
        &json!({"version": 1, "hooks": {}}),
    );

    let done = home.hookjail_in(&home.path("p/sub"), &INSTALL);

    assert!(done.status.success(), "{done:?}");
    assert!(line(&home.text(SETTINGS), "PreToolUse").contains(" --as claude-code "));
}
