//! A hook's declaration, `hook.toml`, is shown with the question, and its needs are the maximum of the hook's grants.

use serde_json::{Value, json};

use crate::{
    install::{Home, call, guard, line, one},
    witness::json,
};

const SETTINGS: &str = "p/.claude/settings.json";

const HEAD: &str =
    "name = \"No force push\"\npurpose = \"Stops force pushes.\"\ncommand = \"./guard.sh\"\n";

/// A guard that leaves a file, where it can.
const NOTES: &str =
    "#!/bin/sh\ncat >/dev/null\necho seen 2>/dev/null >\"$CLAUDE_PROJECT_DIR/seen\"\nexit 0\n";

/// Returns a home whose project's guard declares this.
fn home(declaration: &str) -> Home {
    let home = Home::new();
    home.settings(SETTINGS, &one("PreToolUse", &guard()));
    home.write("p/.claude/hooks/guard.hook.toml", declaration);
    home
}

fn install(home: &Home, options: &[&str]) -> Value {
    let words = [&["--json", "install", "claude-code", "--yes"], options].concat();
    json(&home.hookjail(&words))
}

fn hook(installed: &Value) -> &Value {
    &installed["files"][0]["hooks"][0]
}

fn fire(home: &Home) -> (Option<i32>, String) {
    let child = home.fire_in("p", &line(&home.text(SETTINGS), "PreToolUse"), &call("ls"));
    let output = child.wait_with_output().unwrap();
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn a_hook_runs_under_the_needs_that_it_declares_and_the_question_shows_them() {
    let home = home(&format!("{HEAD}needs = \"workspace-ro\"\n"));
    home.script("p/.claude/hooks/guard.sh", NOTES);

    let shown = home.hookjail(&["install", "claude-code", "--dry-run"]);
    let installed = install(&home, &[]);

    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    for part in [
        "No force push: Stops force pushes.\n",
        "needs profile workspace-ro\n",
    ] {
        assert!(shown.contains(part), "{shown}");
    }
    assert_eq!(
        hook(&installed)["declares"]["name"],
        "No force push",
        "{installed}"
    );
    assert!(line(&home.text(SETTINGS), "PreToolUse").contains(" --profile workspace-ro "));
    assert_eq!(fire(&home).0, Some(0));
    assert!(!home.path("p/seen").exists());
    // Other needs take an agreement; under them the same guard writes.
    home.write(
        "p/.claude/hooks/guard.hook.toml",
        &format!("{HEAD}needs = \"develop\"\n"),
    );
    install(&home, &[]);
    assert_eq!(fire(&home).0, Some(0));
    assert!(!home.path("p/seen").exists());
    install(&home, &["--declared"]);
    assert_eq!(fire(&home).0, Some(0));
    assert!(home.path("p/seen").exists());
}

#[test]
fn needs_beyond_the_usual_profile_take_an_agreement_and_are_a_profile_of_their_own() {
    let needs = "\n[needs]\nextends = \"workspace-ro\"\nnetwork = \"named\"\negress = [\"a.example:443\"]\n";
    let home = home(&format!("{HEAD}{needs}"));

    let left = install(&home, &[]);

    let why = hook(&left)["left"].to_string();
    assert!(
        why.contains("more than profile develop: connections to a.example:443"),
        "{left}"
    );
    assert!(!line(&home.text(SETTINGS), "PreToolUse").contains("hookjail"));

    let installed = install(&home, &["--declared"]);

    let profile = hook(&installed)["declares"]["profile"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(profile.starts_with("hook-no-force-push-"), "{installed}");
    assert!(
        hook(&installed)["remarks"]
            .to_string()
            .contains("not rehearsed"),
        "{installed}"
    );
    assert_eq!(installed["refused"], json!([]), "{installed}");
    let file = format!(".config/hookjail/profiles/{profile}.toml");
    assert!(home.text(&file).contains("a.example:443"));
    assert_eq!(fire(&home), (Some(0), String::new()));

    // An update that declares another host changes nothing until somebody agrees.
    let more = needs.replace("a.example:443\"", "a.example:443\", \"b.example:443\"");
    home.write("p/.claude/hooks/guard.hook.toml", &format!("{HEAD}{more}"));
    let kept = install(&home, &[]);
    assert!(
        hook(&kept)["kept"]
            .to_string()
            .contains("declares other needs now"),
        "{kept}"
    );
    assert!(line(&home.text(SETTINGS), "PreToolUse").contains(&profile));
    let widened = install(&home, &["--declared"]);
    let other = hook(&widened)["declares"]["profile"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_ne!(other, profile);
    assert!(line(&home.text(SETTINGS), "PreToolUse").contains(&other));
    assert_eq!(fire(&home).0, Some(0));
}

#[test]
fn allow_puts_declared_needs_in_force_where_the_settings_are_already_confined() {
    let home = home(&format!(
        "{HEAD}\n[needs]\nextends = \"workspace-ro\"\nnotify = true\nview = \"own\"\n"
    ));
    install(&home, &["--declared"]);
    let before = home.text(SETTINGS);
    let profile = line(&before, "PreToolUse");
    let profile = profile
        .split_whitespace()
        .find(|it| it.starts_with("hook-"))
        .unwrap();
    // As on another machine, without any consent yet.
    let file = home.path(&format!(".config/hookjail/profiles/{profile}.toml"));
    std::fs::remove_file(&file).unwrap();
    let list = home.path(".local/state/hookjail/allowlist.json");
    std::fs::remove_file(list).unwrap();
    let reloaded = home.hookjail(&["reload"]);
    assert!(reloaded.status.success(), "{reloaded:?}");
    assert!(fire(&home).1.contains("PROFILE"), "{:?}", fire(&home));

    let checked = home.hookjail(&["--json", "allow", "--check"]);
    let allowed = home.hookjail(&["--json", "allow", "--yes"]);

    assert_eq!(checked.status.code(), Some(1), "{checked:?}");
    assert_eq!(json(&checked)["needed"][0]["declares"]["profile"], profile);
    assert!(allowed.status.success(), "{allowed:?}");
    assert!(file.exists());
    assert_eq!(fire(&home), (Some(0), String::new()));
    assert_eq!(home.text(SETTINGS), before);
}

#[test]
fn a_declaration_that_cannot_be_used_leaves_its_hook_bare_and_is_named() {
    let point = format!("{HEAD}points = {{ claude-code = [\"Stop\"] }}\n");
    let two = HEAD.to_owned();
    for (declaration, other, part) in [
        ("name = 1\n", "", "guard.hook.toml` cannot be used"),
        (
            &*format!("{HEAD}needs = \"nothing\"\n"),
            "",
            "unknown profile `nothing`",
        ),
        (
            &*point,
            "",
            "does not declare it for PreToolUse of claude-code",
        ),
        (&*two, HEAD, "both declare it; keep one"),
    ] {
        let home = home(declaration);
        if !other.is_empty() {
            home.write("p/.claude/hooks/hook.toml", other);
        }
        let installed = install(&home, &[]);
        let left = hook(&installed)["left"].to_string();
        assert!(left.contains(part), "{declaration}: {installed}");
        assert!(!line(&home.text(SETTINGS), "PreToolUse").contains("hookjail"));
    }
}

#[test]
fn the_declaration_of_another_command_is_none() {
    let other = HEAD.replace("./guard.sh", "./other.sh");
    let home = home(&format!("{other}needs = \"strict\"\n"));

    let installed = install(&home, &[]);

    assert_eq!(hook(&installed)["declares"], Value::Null, "{installed}");
    assert!(line(&home.text(SETTINGS), "PreToolUse").contains(" --profile develop "));
}

#[test]
fn a_declaration_is_checked_by_itself() {
    let home = home(&format!(
        "{HEAD}needs = \"strict\"\ntests = [\"guard.hooktest.toml\"]\npoints = {{ claude-code = [\"PreTool\"] }}\n"
    ));
    let file = ".claude/hooks/guard.hook.toml";

    let checked = home.hookjail(&["--json", "hooks", "check", file]);

    assert_eq!(checked.status.code(), Some(1), "{checked:?}");
    let problems = json(&checked)["problems"].to_string();
    for part in ["`tests` names `guard.hooktest.toml`", "names `PreTool`"] {
        assert!(problems.contains(part), "{problems}");
    }
    home.write(&format!("p/{file}"), HEAD);
    let checked = home.hookjail(&["hooks", "check", file]);
    assert!(checked.status.success(), "{checked:?}");
    let schema = home.hookjail(&["--json", "schema", "hook"]);
    assert!(json(&schema)["properties"]["needs"].is_object());
}

#[test]
fn files_of_tests_run_a_hook_under_the_needs_that_it_declares() {
    let tests = "command = \".claude/hooks/guard.sh\"\nruntimes = [\"claude-code\"]\n[[case]]\nname = \"writes\"\nchanges = [\"A seen\"]\n";
    for (needs, code) in [("develop", Some(0)), ("workspace-ro", Some(1))] {
        let home = home(&format!("{HEAD}needs = \"{needs}\"\n"));
        home.script("p/.claude/hooks/guard.sh", NOTES);
        home.write("p/.claude/hooks/guard.hooktest.toml", tests);
        let tested = home.hookjail(&["test"]);
        assert_eq!(tested.status.code(), code, "{needs}: {tested:?}");
    }
    let home = home(&format!(
        "{HEAD}[needs]\nextends = \"strict\"\nnetwork = \"named\"\negress = [\"a.example:443\"]\n"
    ));
    home.write("p/.claude/hooks/guard.hooktest.toml", tests);
    let tested = home.hookjail(&["test"]);
    assert_eq!(tested.status.code(), Some(125), "{tested:?}");
    let stderr = String::from_utf8_lossy(&tested.stderr).into_owned();
    assert!(
        stderr.contains("connections to a.example:443; give it that by --profile=hook-"),
        "{stderr}"
    );
}

#[test]
fn what_a_hook_needs_is_learnt_into_its_declaration_and_is_the_most_that_it_gets() {
    let home = Home::new();
    home.settings(SETTINGS, &one("PreToolUse", &guard()));
    home.write("rules", "rm\n");
    home.script(
        "p/.claude/hooks/guard.sh",
        "#!/bin/sh\ncat \"$HOME/rules\" >/dev/null\n",
    );
    home.give_to_user();
    let rules = format!("--grant={}=read", home.path("rules").display());
    let file = ".claude/hooks/guard.hook.toml";
    let output = format!("--output={file}");

    let learnt = home.hookjail(&["learn", &rules, &output, "--", ".claude/hooks/guard.sh"]);

    assert!(learnt.status.success(), "{learnt:?}");
    let text = home.text("p/.claude/hooks/guard.hook.toml");
    assert!(
        text.contains("command = [\"guard.sh\"]") && text.contains("/rules"),
        "{text}"
    );
    let checked = home.hookjail(&["hooks", "check", file]);
    assert!(checked.status.success(), "{checked:?}");
    let installed = install(&home, &["--declared"]);
    assert!(
        hook(&installed)["declares"]["profile"].is_string(),
        "{installed}"
    );
    assert_eq!(fire(&home), (Some(0), String::new()));

    // The hook gets no more than that, even where somebody agrees to all that `learn` finds.
    home.write("other", "rm\n");
    home.script(
        "p/.claude/hooks/guard.sh",
        "#!/bin/sh\ncat \"$HOME/rules\" \"$HOME/other\" >/dev/null\n",
    );
    home.give_to_user();
    let before = home.text(SETTINGS);
    let learnt = home.hookjail(&["learn", "--yes", "--", ".claude/hooks/guard.sh"]);
    let stderr = String::from_utf8_lossy(&learnt.stderr).into_owned();
    assert!(
        !learnt.status.success() && stderr.contains("declares less than"),
        "{learnt:?}"
    );
    assert_eq!(home.text(SETTINGS), before);
}
