//! The second day: a hook is edited, a working tree made, a project cloned, and one command has the hooks run again.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use serde_json::{Value, json};

use crate::{
    install::{Home, call, guard, line, one},
    support::program,
    witness::json,
};

const GUARD: &str = "p/.claude/hooks/guard.sh";
const SETTINGS: &str = "p/.claude/settings.json";

/// The end of a hook as Claude Code sees it.
#[derive(Debug)]
struct Seen {
    code: Option<i32>,
    stderr: String,
    stdout: Value,
}

impl Seen {
    /// Returns whether the call goes on.
    fn passes(&self) -> bool {
        self.code == Some(0) && self.stdout.is_null()
    }

    /// Returns the reason of a refusal by hookjail itself.
    fn refusal(&self) -> &str {
        let decided = &self.stdout["hookSpecificOutput"];
        assert_eq!(
            (self.code, &decided["permissionDecision"]),
            (Some(0), &json!("deny")),
            "{self:?}"
        );
        // The user reads the way out, and the model does not.
        let notice = self.stdout["systemMessage"].as_str().unwrap();
        assert!(notice.contains("hookjail allow"), "{self:?}");
        let reason = decided["permissionDecisionReason"].as_str().unwrap();
        assert!(!reason.contains("hookjail allow") && !self.stderr.contains("hookjail allow"));
        reason
    }
}

/// Runs the confined line as the runtime does in a project.
fn seen(home: &Home, line: &str, project: &str, command: &str) -> Seen {
    let shell = home.fire_in(project, line, &call(command));
    let output = shell.wait_with_output().unwrap();
    Seen {
        code: output.status.code(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        stdout: serde_json::from_slice(&output.stdout).unwrap_or_default(),
    }
}

/// Returns a home whose project has a confined guard, and the guard's line.
fn installed() -> (Home, String) {
    let home = Home::new();
    home.settings(SETTINGS, &one("PreToolUse", &guard()));
    let done = home.hookjail(&["install", "--claude-code", "--yes"]);
    assert!(done.status.success(), "{done:?}");
    let line = line(&home.text(SETTINGS), "PreToolUse");
    (home, line)
}

fn needed(home: &Home, directory: &str) -> Vec<Value> {
    let found = home.hookjail_in(&home.path(directory), &["--json", "allow", "--check"]);
    let all = json(&found)["needed"].as_array().unwrap().clone();
    assert_eq!(found.status.success(), all.is_empty(), "{found:?}");
    all
}

fn entries(home: &Home) -> Vec<Value> {
    let listed = home.hookjail(&["--json", "consent", "list"]);
    let text = String::from_utf8(listed.stdout).unwrap();
    text.lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect()
}

fn git(home: &Home, directory: &str, words: &[&str]) {
    let mut git: Command =
        home.command(&[&["git", "-c", "user.name=x", "-c", "user.email=x@x"], words].concat());
    git.current_dir(home.path(directory));
    #[expect(clippy::disallowed_methods, reason = "the test starts the user's git")]
    let done = git.output().unwrap();
    assert!(done.status.success(), "{words:?} {done:?}");
}

#[test]
fn an_edited_hook_is_allowed_again_by_one_command_that_shows_the_change() {
    let (home, line) = installed();
    assert_eq!(needed(&home, "p"), Vec::<Value>::new());
    assert!(seen(&home, &line, "p", "ls").passes());
    let before = entries(&home);
    let text = home.text(GUARD);
    home.script(GUARD, &format!("{text}# edited\n"));
    home.give_to_user();

    let refused = seen(&home, &line, "p", "ls");
    assert!(refused.refusal().contains("DIGEST_MISMATCH"), "{refused:?}");
    // `install` reports the same of it.
    let shown = home.hookjail(&["install", "--claude-code", "--dry-run"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.contains("refused: ") && shown.contains("+# edited"),
        "{shown}"
    );
    let found = needed(&home, "p/sub");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0]["diff"].as_str().unwrap().contains("+# edited"),
        "{found:?}"
    );
    // Without an answer nothing is allowed.
    let silent = home.hookjail(&["allow"]);
    assert_eq!(silent.status.code(), Some(125), "{silent:?}");
    assert!(!seen(&home, &line, "p", "ls").passes());

    let allowed = home.hookjail_in(&home.path("p/sub"), &["allow", "--yes"]);

    assert!(allowed.status.success(), "{allowed:?}");
    assert!(seen(&home, &line, "p", "ls").passes());
    assert_eq!(seen(&home, &line, "p", "rm -rf /").code, Some(2));
    // The old consent is replaced, with its bounds.
    let after = entries(&home);
    assert_eq!(after.len(), before.len());
    assert_eq!(
        after[0]["working_dir_scope"],
        before[0]["working_dir_scope"]
    );
    assert_eq!(needed(&home, "p"), Vec::<Value>::new());
}

#[test]
fn installing_again_repairs_a_hook_that_would_be_refused() {
    let (home, line) = installed();
    let settings = home.text(SETTINGS);
    home.script(GUARD, "#!/bin/sh\nexit 0\n");
    home.give_to_user();
    assert!(!seen(&home, &line, "p", "ls").passes());

    let done = home.hookjail(&["install", "--claude-code", "--yes"]);

    assert!(done.status.success(), "{done:?}");
    assert_eq!(home.text(SETTINGS), settings);
    assert!(seen(&home, &line, "p", "ls").passes());
    let again = home.hookjail(&["install", "--claude-code", "--yes"]);
    let again = String::from_utf8(again.stdout).unwrap();
    assert!(again.contains("nothing to change"), "{again}");
}

/// A commit takes such lines to colleagues, of whom some have no hookjail: their guards deny, and their agents can stop.
#[test]
fn settings_that_are_committed_get_lines_that_name_no_user() {
    let home = Home::new();
    fs::remove_dir_all(home.path("p/.git")).unwrap();
    let silent = json!({"type": "command", "command": "true"});
    let mut settings = one("PreToolUse", &guard());
    settings["hooks"]["Stop"] = json!([{"hooks": [silent]}]);
    let before = home.settings(SETTINGS, &settings);
    let bin = home.path(".local/bin");
    fs::create_dir_all(&bin).unwrap();
    let thin = program().with_file_name("hookjail-run");
    symlink(&thin, bin.join("hookjail-run")).unwrap();
    home.give_to_user();
    let install = |more: &[&str]| {
        let done = home.hookjail(&[&["install", "claude-code", "--yes"], more].concat());
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    // The control: a file that is not committed names its user's hookjail.
    git(&home, "p", &["init", "-q"]);
    let printed = install(&[]);
    assert!(printed.contains("hookjail at this path"), "{printed}");
    let user = thin.display().to_string();
    assert!(line(&home.text(SETTINGS), "PreToolUse").starts_with(&user));
    install(&["--uninstall"]);
    assert_eq!(home.text(SETTINGS), before);
    git(&home, "p", &["add", ".claude"]);
    git(&home, "p", &["commit", "-qm", "x"]);

    let printed = install(&[]);

    let note = "their lines start `.claude/hooks/hookjail.sh`, to be committed with them";
    assert!(printed.contains(note), "{printed}");
    let text = home.text(SETTINGS);
    assert!(!text.contains(&user), "{text}");
    let (guards, stops) = (line(&text, "PreToolUse"), line(&text, "Stop"));
    let begin = "\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/hookjail.sh ";
    assert!(guards.starts_with(&format!("{begin}2 ")), "{guards}");
    assert!(stops.starts_with(&format!("{begin}0 ")), "{stops}");
    assert!(seen(&home, &guards, "p", "ls").passes());
    assert_eq!(seen(&home, &guards, "p", "rm -rf /").code, Some(2));
    // Lines that come later do as those that are there.
    let mut more: Value = serde_json::from_str(&text).unwrap();
    more["hooks"]["SessionStart"] = json!([{"hooks": [silent]}]);
    home.settings(SETTINGS, &more);
    git(&home, "p", &["rm", "-q", "--cached", "-r", ".claude"]);
    install(&[]);
    let starts = line(&home.text(SETTINGS), "SessionStart");
    assert!(starts.starts_with(&format!("{begin}125 ")), "{starts}");

    // On a colleague's machine.
    fs::rename(bin.join("hookjail-run"), bin.join("away")).unwrap();
    for (line, code) in [(&guards, 2), (&stops, 0), (&starts, 125)] {
        let ended = seen(&home, line, "p", "ls");
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.stderr.contains("hookjail is not installed"));
    }
    fs::rename(bin.join("away"), bin.join("hookjail-run")).unwrap();
    install(&["--uninstall"]);
    assert!(!home.path("p/.claude/hooks/hookjail.sh").exists());
}

#[test]
fn a_consent_covers_the_working_trees_of_its_repository_and_nothing_else() {
    let (home, line) = installed();
    fs::remove_dir_all(home.path("p/.git")).unwrap();
    git(&home, "p", &["init", "-q"]);
    git(&home, "p", &["add", "-A"]);
    git(&home, "p", &["commit", "-qm", "x"]);
    git(&home, "p", &["worktree", "add", "-q", "../tree"]);
    assert_eq!(needed(&home, "tree"), Vec::<Value>::new());
    assert!(seen(&home, &line, "tree", "ls").passes());
    assert_eq!(seen(&home, &line, "tree", "rm -rf /").code, Some(2));

    // Other bytes at the same place.
    let name = "tree/.claude/hooks/guard.sh";
    let text = home.text(name);
    home.script(name, "#!/bin/sh\nexit 0\n");
    assert!(
        seen(&home, &line, "tree", "ls")
            .refusal()
            .contains("NOT_ALLOWLISTED")
    );
    home.script(name, &text);
    home.give_to_user();
    assert!(seen(&home, &line, "tree", "ls").passes());
    // A directory that claims to be a tree.
    git(&home, ".", &["clone", "-q", "p", "claims"]);
    fs::remove_dir_all(home.path("claims/.git")).unwrap();
    let link = fs::read_to_string(home.path("tree/.git")).unwrap();
    home.write("claims/.git", &link);
    assert!(!seen(&home, &line, "claims", "ls").passes());

    // A clone is one `allow`, and a project that was moved.
    git(&home, ".", &["clone", "-q", "p", "clone"]);
    fs::rename(home.path("p/.claude"), home.path("moved")).unwrap();
    fs::create_dir(home.path("elsewhere")).unwrap();
    fs::rename(home.path("moved"), home.path("elsewhere/.claude")).unwrap();
    home.give_to_user();
    for place in ["clone", "elsewhere"] {
        assert!(!seen(&home, &line, place, "ls").passes());
        let allowed = home.hookjail_in(&home.path(place), &["allow", "--yes"]);
        assert!(allowed.status.success(), "{allowed:?}");
        assert!(seen(&home, &line, place, "ls").passes(), "{place}");
    }
}

#[test]
fn allowing_everything_renews_commands_of_no_settings_too_and_keeps_their_bounds() {
    let (home, _) = installed();
    home.script("p/own.sh", "#!/bin/sh\nexit 0\n");
    home.give_to_user();
    let bounds = ["--within", ".", "--until", "2999-01-01T00:00:00Z"];
    let words = [
        &["allow"],
        &bounds[..],
        &["--profile", "workspace-ro", "--", "./own.sh"],
    ];
    let allowed = home.hookjail(&words.concat());
    assert!(allowed.status.success(), "{allowed:?}");
    let of_own = |entries: Vec<Value>| -> Vec<Value> {
        let is_own = |it: &Value| it["command"].as_str().unwrap().ends_with("own.sh");
        entries.into_iter().filter(is_own).collect()
    };
    let before = of_own(entries(&home));
    home.script("p/own.sh", "#!/bin/sh\nexit 1\n");
    home.script(GUARD, "#!/bin/sh\nexit 0\n");
    home.give_to_user();
    let elsewhere = home.path(".claude");

    let allowed = home.hookjail_in(&elsewhere, &["allow", "--all", "--yes"]);

    assert!(allowed.status.success(), "{allowed:?}");
    let shown = String::from_utf8(allowed.stdout).unwrap();
    assert!(
        shown.contains("-exit 0") && shown.contains("+exit 1"),
        "{shown}"
    );
    let after = of_own(entries(&home));
    for key in ["working_dir_scope", "expires_at", "profile"] {
        assert_eq!(after[0][key], before[0][key], "{key}");
    }
    assert_eq!(after.len(), before.len());
    assert_ne!(after[0]["digests"], before[0]["digests"]);
    assert_eq!(needed(&home, "p"), Vec::<Value>::new());
}

#[test]
fn allowing_everything_renews_a_line_in_each_of_its_projects_and_names_those_that_are_gone() {
    let (home, _) = installed();
    let profile = ".config/hookjail/profiles/mine.toml";
    let allowing = |maximum: &str| {
        let text = format!(
            "description = \"mine\"\nextends = \"workspace-ro\"\n[time]\nmaximum = \"{maximum}\"\n"
        );
        home.write(profile, &text);
        home.give_to_user();
    };
    allowing("7m");
    for project in ["p", "q", "r"] {
        fs::create_dir_all(home.path(project)).unwrap();
        home.give_to_user();
        let words = [
            "--profile",
            "mine",
            "--within",
            ".",
            "--",
            "/bin/sh",
            "-c",
            "exit 0",
        ];
        let words = [&["allow"][..], &words].concat();
        let allowed = home.hookjail_in(&home.path(project), &words);
        assert!(allowed.status.success(), "{allowed:?}");
    }
    allowing("40m");
    fs::remove_dir(home.path("r")).unwrap();

    let allowed = home.hookjail(&["allow", "--all", "--yes"]);

    assert!(allowed.status.success(), "{allowed:?}");
    let shown = String::from_utf8(allowed.stdout).unwrap();
    assert!(shown.contains("r is gone (consents for it: 1)"), "{shown}");
    assert!(shown.contains("2 allowed"), "{shown}");
    let checked = home.hookjail(&["allow", "--all", "--check"]);
    assert!(checked.status.success(), "{checked:?}");
}

#[test]
fn a_hook_that_is_gone_is_named_and_hinders_no_other() {
    let (home, line) = installed();
    let more = json!({"type": "command", "command": "\"$CLAUDE_PROJECT_DIR\"/gone.sh"});
    home.script("p/gone.sh", "#!/bin/sh\nexit 0\n");
    home.settings("p/.claude/settings.local.json", &one("PreToolUse", &more));
    assert!(
        home.hookjail(&["install", "--claude-code", "--yes"])
            .status
            .success()
    );
    fs::remove_file(home.path("p/gone.sh")).unwrap();
    home.script(GUARD, "#!/bin/sh\nexit 0\n");
    home.give_to_user();

    let allowed = home.hookjail(&["allow", "--yes"]);

    assert_eq!(allowed.status.code(), Some(1), "{allowed:?}");
    let shown = String::from_utf8(allowed.stdout).unwrap();
    assert!(
        shown.contains("cannot be allowed") && shown.contains("gone.sh"),
        "{shown}"
    );
    assert!(seen(&home, &line, "p", "ls").passes());
}

#[test]
fn uninstalling_everything_puts_back_each_file_byte_for_byte_wherever_it_lies() {
    let home = Home::new();
    let other = json!({"type": "command", "command": "/bin/true"});
    let files = [SETTINGS, ".claude/settings.json", "q/.claude/settings.json"];
    let texts = files.map(|name| {
        let hook = if name == SETTINGS {
            guard()
        } else {
            other.clone()
        };
        home.settings(name, &one("PreToolUse", &hook))
    });
    for project in ["p", "q"] {
        let words = ["install", "--claude-code", "--yes", "--no-rehearsal"];
        let done = home.hookjail_in(&home.path(project), &words);
        assert!(done.status.success(), "{done:?}");
    }
    assert!(
        files
            .iter()
            .zip(&texts)
            .all(|(name, text)| home.text(name) != *text)
    );
    let elsewhere = home.path("tmp");
    // Without an answer nothing changes.
    let shown = home.hookjail_in(&elsewhere, &["uninstall", "--all"]);
    assert_eq!(shown.status.code(), Some(125), "{shown:?}");
    assert_ne!(home.text(SETTINGS), texts[0]);

    let done = home.hookjail_in(&elsewhere, &["uninstall", "--all", "--yes"]);

    assert!(done.status.success(), "{done:?}");
    let shown = String::from_utf8(done.stdout).unwrap();
    assert!(shown.contains("3 hooks put back in 3 files"), "{shown}");
    assert_eq!(files.map(|name| home.text(name)), texts);
    let again = home.hookjail_in(&elsewhere, &["uninstall", "--all", "--yes"]);
    let again = String::from_utf8(again.stdout).unwrap();
    assert!(again.contains("nothing was changed"), "{again}");
}

#[test]
fn bare_entries_and_differences_have_colors_at_a_terminal_alone() {
    let (home, _) = installed();
    home.script(GUARD, "#!/bin/sh\nexit 0\n");
    let more = json!({"type": "command", "command": "true"});
    home.settings("p/.claude/settings.local.json", &one("Stop", &more));
    home.give_to_user();
    let program = program();
    let shown = |words: &str, variables: &[(&str, &str)]| {
        let line = format!("{} {words}", program.display());
        let mut terminal = home.command(&["script", "-qec", &line, "/dev/null"]);
        terminal
            .current_dir(home.path("p"))
            .stdin(std::process::Stdio::null());
        terminal
            .env_remove("NO_COLOR")
            .envs(variables.iter().copied());
        #[expect(
            clippy::disallowed_methods,
            reason = "the test starts the program under test"
        )]
        let output = terminal.output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let checked = shown("allow --check", &[]);
    assert!(checked.contains("\u{1b}[32m+exit 0"), "{checked:?}");
    let planned = shown("install claude-code --dry-run", &[]);
    for colored in ["\u{1b}[33mallow", "\u{1b}[32mwrap"] {
        assert!(planned.contains(colored), "{planned:?}");
    }
    assert!(!planned.contains('\u{fdd0}'), "{planned:?}");
    let plain = shown("install claude-code --dry-run", &[("NO_COLOR", "1")]);
    assert!(
        !plain.contains('\u{1b}') && plain.contains("wrap"),
        "{plain:?}"
    );
}

#[test]
fn reloading_names_a_profile_that_is_broken() {
    let (home, _) = installed();
    home.write(".config/hookjail/profiles/bad.toml", "extends = 1\n");
    home.give_to_user();
    let reloaded = home.hookjail(&["reload"]);
    let stderr = String::from_utf8_lossy(&reloaded.stderr).into_owned();
    assert!(reloaded.status.success(), "{reloaded:?}");
    assert!(stderr.contains("profile `bad` is broken: "), "{stderr}");
}

#[test]
fn a_misspelt_profile_is_an_error_where_nothing_is_left_to_confine_too() {
    let (home, _) = installed();
    let words = ["install", "claude-code", "--yes", "--profile", "devlop"];
    let done = home.hookjail(&words);
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(2), "{done:?}");
    assert_eq!(stderr.matches("devlop").count(), 1, "{stderr}");
    assert!(stderr.contains("`develop`"), "{stderr}");
}

#[test]
fn uninstalling_everything_puts_back_copies_whose_hooks_were_allowed_and_leaves_a_teams_lines() {
    let (home, _) = installed();
    let wrapped = home.text(SETTINGS);
    let team = wrapped.replace(
        program().with_file_name("hookjail-run").to_str().unwrap(),
        "\\\"$CLAUDE_PROJECT_DIR\\\"/.claude/hooks/hookjail.sh",
    );
    assert_ne!(team, wrapped);
    for (copy, text) in [("copy", &wrapped), ("team", &team)] {
        home.settings(&format!("{copy}/.claude/settings.json"), &json!({}));
        fs::write(home.path(&format!("{copy}/.claude/settings.json")), text).unwrap();
        home.write(&format!("{copy}/.claude/hooks/guard.sh"), &home.text(GUARD));
        home.script(&format!("{copy}/.claude/hooks/guard.sh"), &home.text(GUARD));
        home.give_to_user();
    }
    let allowed = home.hookjail_in(&home.path("copy"), &["allow", "--yes"]);
    assert!(allowed.status.success(), "{allowed:?}");
    let words = [
        "allow",
        "--profile",
        "develop",
        "--within",
        ".",
        "--",
        "/bin/true",
    ];
    let allowed = home.hookjail_in(&home.path("team"), &words);
    assert!(allowed.status.success(), "{allowed:?}");

    let done = home.hookjail(&["uninstall", "--all", "--yes"]);

    assert!(done.status.success(), "{done:?}");
    assert!(!home.text("copy/.claude/settings.json").contains("hookjail"));
    assert_eq!(home.text("copy/.claude/settings.json"), home.text(SETTINGS));
    assert_eq!(home.text("team/.claude/settings.json"), team);
}

/// Only root can put a program where no user can replace it.
mod as_root {
    use super::*;

    #[test]
    #[ignore = "needs root"]
    fn removing_the_package_names_the_settings_that_start_it_and_reads_them_as_their_user() {
        crate::support::needs_root();
        let home = Home::new();
        home.settings(SETTINGS, &one("PreToolUse", &guard()));
        let done = home.hookjail(&["install", "--claude-code", "--yes"]);
        assert!(done.status.success(), "{done:?}");
        let fakes = crate::support::directory();
        let users = format!(
            "#!/bin/sh\necho ada:x:4243:4243::{}:/bin/sh\n",
            home.path("").display()
        );
        let getent = fakes.path().join("getent");
        fs::write(&getent, users).unwrap();
        fs::set_permissions(&getent, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let program = crate::support::program();
        let path = format!(
            "{}:{}:/usr/bin:/bin",
            fakes.path().display(),
            program.parent().unwrap().display()
        );
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/deb/prerm");
        let removes = |how: &str| {
            let mut command = Command::new("timeout");
            command.args(["60", "sh", script, how]).env("PATH", &path);
            #[expect(
                clippy::disallowed_methods,
                reason = "the test starts the package's script"
            )]
            let done = command.output().unwrap();
            assert!(done.status.success(), "{done:?}");
            assert!(done.stdout.is_empty(), "{done:?}");
            String::from_utf8(done.stderr).unwrap()
        };

        let named = removes("remove");
        let line = format!("  ada: {}\n", home.path(SETTINGS).display());
        assert!(named.contains(&line), "{named}");
        assert!(named.contains("hookjail uninstall --all"), "{named}");
        assert_eq!(removes("upgrade"), "");

        // Files that a user puts there for root to read, or to wait for.
        let record = home.path(".local/state/hookjail/settings");
        let secret = fakes.path().join("secret");
        fs::write(&secret, "{\"path\": \"/the-secret\"}").unwrap();
        fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&secret, record.join("x.changed")).unwrap();
        assert_eq!(removes("remove"), "");
        fs::remove_file(record.join("x.changed")).unwrap();
        let mode = nix::sys::stat::Mode::from_bits_truncate(0o666);
        nix::unistd::mkfifo(&record.join("x.changed"), mode).unwrap();
        assert_eq!(removes("remove"), "");
        fs::remove_file(record.join("x.changed")).unwrap();

        let back = home.hookjail(&["uninstall", "--all", "--yes"]);
        assert!(back.status.success(), "{back:?}");
        assert_eq!(removes("remove"), "");
    }

    #[test]
    #[ignore = "needs root"]
    fn a_program_that_only_root_can_replace_outlives_its_upgrade_and_another_does_not() {
        crate::support::needs_root();
        let home = Home::new();
        let roots = tempfile::Builder::new()
            .prefix("hookjail-upgrade")
            .tempdir_in("/usr/local/lib")
            .unwrap();
        fs::set_permissions(
            roots.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        for (directory, outlives) in [(roots.path(), true), (&*home.path("p"), false)] {
            let program = directory.join("tool");
            fs::copy("/bin/true", &program).unwrap();
            home.give_to_user();
            let words = [
                "allow",
                "--profile",
                "workspace-ro",
                "--",
                program.to_str().unwrap(),
            ];
            let allowed = home.hookjail(&words);
            assert!(allowed.status.success(), "{allowed:?}");
            let run = [
                "run",
                "--as",
                "claude-code",
                "--start",
                "--profile",
                "workspace-ro",
                "--",
                program.to_str().unwrap(),
            ];
            let first = home.hookjail(&run);
            assert!(first.status.success(), "{first:?}");
            upgrade(&program);
            home.give_to_user();

            let then = home.hookjail(&run);

            assert_eq!(then.status.success(), outlives, "{then:?}");
        }
    }

    fn upgrade(program: &Path) {
        let mut bytes = fs::read(program).unwrap();
        bytes.push(0);
        fs::remove_file(program).unwrap();
        fs::write(program, bytes).unwrap();
        fs::set_permissions(program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
}

#[test]
fn a_line_is_allowed_as_a_runtime_reads_it_that_puts_in_its_variables() {
    let home = Home::new();
    let settings = "p/.gemini/settings.json";
    let written = "cat >/dev/null; (echo x >\"$HOME/made\") 2>/dev/null; printf %s '$HOME'";
    let hook = json!({"type": "command", "command": written});
    home.settings(settings, &one("BeforeTool", &hook));
    let done = home.hookjail(&["install", "gemini-cli", "--yes"]);
    assert!(done.status.success(), "{done:?}");

    // As Gemini CLI hands a line to its shell.
    let path = home.path("");
    let path = path.to_str().unwrap().trim_end_matches('/');
    let read = |line: &str| line.replace("$HOME", path);
    let run = |line: &str| {
        let output = home.fire_in("p", line, &call("ls")).wait_with_output();
        let output = output.unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), stdout)
    };
    let confined = run(&read(&line(&home.text(settings), "BeforeTool")));
    assert_eq!(confined, (Some(0), path.to_owned()));
    assert!(!home.path("made").exists());
    // Bare, the same answer, and the file.
    assert_eq!(run(&read(written)), confined);
    assert!(home.path("made").exists());
}

#[test]
fn a_configuration_that_is_named_and_cannot_be_read_is_an_error_beside_a_daemon() {
    let home = Home::new();
    home.settings(SETTINGS, &one("PreToolUse", &guard()));
    let done = home.hookjail(&["install", "--claude-code", "--yes"]);
    assert!(done.status.success(), "{done:?}");
    let line = line(&home.text(SETTINGS), "PreToolUse");
    home.write("there.toml", "");
    let [present, missing] = ["there.toml", "misspelt.toml"].map(|name| {
        let path = home.path(name);
        path.display().to_string()
    });
    let why = format!("cannot load the configuration `{missing}`");
    let other = format!("is `{present}`, and the daemon has no file; leave out `--config`");
    // The control: without it the same daemon runs the hook.
    let done = home.fire_in("p", &line, &call("ls")).wait_with_output();
    assert_eq!(done.unwrap().status.code(), Some(0));
    for (config, why) in [(&present, &other), (&missing, &why)] {
        let line = line.replacen(" -- ", &format!(" --config {config} -- "), 1);
        let done = home.fire_in("p", &line, &call("ls")).wait_with_output();
        let done = done.unwrap();
        assert_eq!(done.status.code(), Some(2), "{line}: {done:?}");
        let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(stderr.contains(why), "{stderr}");
    }
    let [command, none] = [GUARD, "/bin/true"].map(|name| home.path(name).display().to_string());
    for (words, code) in [
        (&["run", "--profile", "develop", "--", &command][..], 125),
        (
            &["run", "--dry-run", "--profile", "develop", "--", &command],
            125,
        ),
        (
            &["dispatch", "--point", "Stop", "--contract", "observe"],
            125,
        ),
        (
            &["run", "--private", "--profile", "develop", "--", &command],
            0,
        ),
        (&["ps"], 0),
        (&["status"], 0),
        (&["kill", &none], 125),
    ] {
        let run = |config: &str| {
            let done = home.hookjail(&[&["--config", config], words].concat());
            let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
            (done.status.code(), stderr)
        };
        let (ended, stderr) = run(&missing);
        assert_eq!(ended, Some(125), "{words:?}: {stderr}");
        assert!(stderr.contains(&why), "{words:?}: {stderr}");
        let (ended, stderr) = run(&present);
        assert_eq!(ended, Some(code), "{words:?}: {stderr}");
        assert!(!stderr.contains("cannot load"), "{words:?}: {stderr}");
        let is_other = code == 125 && words[0] != "kill";
        assert_eq!(stderr.contains(&other), is_other, "{words:?}: {stderr}");
    }
}

#[test]
fn a_daemon_serves_calls_that_name_its_own_configuration_and_says_which_that_is() {
    let home = Home::new();
    home.settings(SETTINGS, &one("PreToolUse", &guard()));
    let done = home.hookjail(&["install", "--claude-code", "--yes"]);
    assert!(done.status.success(), "{done:?}");
    let written = line(&home.text(SETTINGS), "PreToolUse");
    home.hookjail(&["drain"]);
    let socket = home.path(".local/state/hookjail/run/hookjail.sock");
    let since = std::time::Instant::now();
    while socket.exists() && since.elapsed() < crate::witness::SOON {
        std::thread::yield_now();
    }
    for name in ["its.toml", "other.toml"] {
        home.write(name, "");
    }
    let fire = |name: Option<&str>| {
        let option = name.map(|name| format!(" --config {}", home.path(name).display()));
        let line = written.replacen(" -- ", &format!("{} -- ", option.unwrap_or_default()), 1);
        let done = home.fire_in("p", &line, &call("ls")).wait_with_output();
        let done = done.unwrap();
        let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
        (done.status.code(), stderr)
    };

    // The first call starts the daemon with it.
    for name in [
        Some("its.toml"),
        Some("its.toml"),
        Some("p/../its.toml"),
        None,
    ] {
        assert_eq!(fire(name).0, Some(0), "{name:?}");
    }
    let (code, why) = fire(Some("other.toml"));
    assert_eq!(code, Some(2), "{why}");
    let [its, other] = ["its.toml", "other.toml"].map(|name| home.path(name));
    let both = format!(
        "is `{}`, and the daemon's is `{}`",
        other.display(),
        its.display()
    );
    assert!(why.contains(&both), "{why}");
}
