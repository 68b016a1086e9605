//! The rehearsal of `hookjail install` runs on a layer over the workspace, which stays as it was.

#![expect(
    clippy::disallowed_methods,
    reason = "runs the program under test, and git"
)]

use std::fs;

use serde_json::json;

use crate::{
    fail_closed::FakeKernel,
    install::{Home, guard, one},
    support::program,
};

/// A formatter before the call, which writes the event's file and a log.
const FORMATTER: &str = r#"#!/bin/sh
cd "$CLAUDE_PROJECT_DIR" || exit 1
file=$(sed -n 's/.*"file_path":"\([^"]*\)".*/\1/p')
test -n "$file" || exit 0
test ! -e "$file" || sed -i 's/x/y/' "$file"
echo "$file" >>formatted.log
rm -f old
"#;

const BOUND: [&str; 4] = ["install", "--claude-code", "--yes", "-v"];

/// Returns a home whose project is a repository with a formatter.
fn home(script: &str) -> Home {
    let home = Home::new();
    fs::remove_dir_all(home.path("p/.git")).unwrap();
    home.script("p/.claude/hooks/guard.sh", script);
    home.settings("p/.claude/settings.json", &one("PreToolUse", &guard()));
    for name in ["notes.txt", "old"] {
        home.write(&format!("p/{name}"), "x\n");
    }
    let commit =
        "git init -q && git add -A && git -c user.name=a -c user.email=a@example.org commit -qm a";
    let made = home.command(&["/bin/sh", "-c", commit]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    home
}

/// Returns what git finds changed in the project but for its settings, which the installation changes.
fn status(home: &Home) -> String {
    let words = ["git", "status", "--porcelain", "--", ":!.claude"];
    let status = home.command(&words).output().unwrap();
    assert!(status.status.success(), "{status:?}");
    String::from_utf8_lossy(&status.stdout).into_owned()
}

/// Installs, in a place that may have no namespaces. Returns both streams.
fn install(home: &Home, around: &[String], more: &[&str]) -> (Option<i32>, String, String) {
    let program = program();
    let words = around.iter().map(|word| &**word);
    let words = words.chain([program.to_str().unwrap()]).chain(BOUND);
    let words: Vec<_> = words.chain(more.iter().copied()).collect();
    let output = home.command(&words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn a_formatters_rehearsal_leaves_the_workspace_as_it_was_and_shows_its_changes() {
    for more in [&[][..], &["--bare"]] {
        let home = home(FORMATTER);

        let (code, out, err) = install(&home, &[], more);

        assert_eq!(code, Some(0), "{out}{err}");
        assert_eq!(status(&home), "", "{more:?}: {out}");
        let changed = "changed in the rehearsal alone: A formatted.log, M notes.txt, D old\n";
        assert!(out.contains(changed), "{more:?}: {out}");
        assert!(!err.contains("in the workspace itself"), "{err}");
        let left = fs::read_dir(home.path("tmp")).unwrap().flatten();
        let left: Vec<_> = left.map(|it| it.file_name()).collect();
        let is_layer = |name: &std::ffi::OsString| name.to_string_lossy().contains("layer");
        assert!(!left.iter().any(is_layer), "{left:?}");
    }
}

/// The control of the test above: without a layer the same formatter writes to the workspace.
#[test]
fn where_no_layer_can_be_made_a_rehearsal_says_so_once_and_its_files_stay() {
    let kernel = FakeKernel::build();
    let home = home(FORMATTER);
    home.settings(
        "p/.claude/settings.json",
        &json!({"hooks": {"PreToolUse": [{"hooks": [guard(), guard()]}]}}),
    );
    let around = kernel.around(&["--errno", "unshare=1"]);

    let (code, out, err) = install(&home, &around, &["--profile", "develop-open-git"]);

    assert_eq!(code, Some(0), "{out}{err}");
    let notice = "guards are rehearsed in the workspace itself, and what they write there stays: a layer over `";
    assert_eq!(err.matches(notice).count(), 1, "{err}");
    assert_eq!(
        status(&home),
        " M notes.txt\n D old\n?? formatted.log\n",
        "{out}"
    );
    let written = "written by the rehearsal, and still there: formatted.log, notes.txt, old\n";
    assert!(out.contains(written), "{out}");
}

#[test]
fn a_guard_that_removes_the_workspace_removes_it_in_its_rehearsal_alone() {
    let home = home(
        "#!/bin/sh\nrm -rf \"$CLAUDE_PROJECT_DIR\"/* \"$CLAUDE_PROJECT_DIR\"/.claude\nexit 0\n",
    );
    for number in 0..9 {
        home.write(&format!("p/many/{number}"), "x\n");
    }
    let before = status(&home);

    let (_, out, err) = install(&home, &[], &[]);

    assert_eq!(status(&home), before, "{out}{err}");
    for name in ["p/old", "p/many/8", "p/.claude/hooks/guard.sh"] {
        assert!(home.path(name).exists(), "{name}: {out}{err}");
    }
}

mod as_root {
    use std::process::Command;

    use super::*;
    use crate::support::{directory, needs_root};

    #[test]
    #[ignore = "needs root"]
    fn roots_rehearsal_leaves_the_workspace_as_it_was_too() {
        needs_root();
        let (home, roots) = (home(FORMATTER), directory());
        let config = roots.path().join("hookjail.toml");
        let project = home.path("p");
        let text = format!(
            "[paths]\nstate = {:?}\n[hooks]\nworkspace_roots = [{project:?}]\n",
            roots.path().join("state")
        );
        fs::write(&config, text).unwrap();
        // Root's hooks have a user of their own.
        let open = ["chmod", "-R", "a+rwX", "."];
        assert!(home.command(&open).output().unwrap().status.success());

        let mut command = Command::new(program());
        command.arg("--config").arg(&config).args(BOUND);
        command.current_dir(&project).env("HOME", roots.path());
        // At root's usual socket another test's daemon may listen, which would refuse the new line.
        command.env("HOOKJAIL_ADDR", roots.path().join("none.sock"));
        let output = command.output().unwrap();

        let text = [&output.stdout[..], &output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert_eq!(status(&home), "", "{text}");
        let changed = "changed in the rehearsal alone: A formatted.log, M notes.txt, D old\n";
        assert!(text.contains(changed), "{text}");
    }
}
