//! `hookjail install git` has git start the hooks of a repository confined, with the arguments, the stdin and the variables
//! that git gives them, and puts everything back byte for byte.
#![expect(
    clippy::disallowed_methods,
    reason = "git, whose hooks these are, is started as its user starts it"
)]

use std::{fs, io::Read, net::TcpListener, path::Path, process::Output, thread};

use crate::{install::Home, witness::json};

/// A repository with a commit, and another one to push to.
fn repository() -> Home {
    let home = Home::new();
    fs::remove_dir_all(home.path("p")).unwrap();
    home.write(
        ".gitconfig",
        "[user]\nname = n\nemail = n@example.org\n[init]\ndefaultBranch = main\n",
    );
    fs::create_dir(home.path("p")).unwrap();
    home.give_to_user();
    for words in [
        &["init", "-q"][..],
        &["init", "-q", "--bare", "../there.git"],
        &["remote", "add", "origin", "../there.git"],
        &["commit", "-q", "--allow-empty", "-m", "first"],
    ] {
        assert!(git(&home, words).status.success(), "{words:?}");
    }
    home
}

fn git(home: &Home, words: &[&str]) -> Output {
    git_in(home, "p", words)
}

fn git_in(home: &Home, directory: &str, words: &[&str]) -> Output {
    let mut command = home.command(&[&["git"], words].concat());
    command.current_dir(home.path(directory)).output().unwrap()
}

/// Returns what git printed, its hooks included.
fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

fn hook(home: &Home, name: &str, text: &str) {
    home.script(
        &format!("p/.git/hooks/{name}"),
        &format!("#!/bin/sh\n{text}\n"),
    );
    home.give_to_user();
}

fn install(home: &Home) {
    let done = home.hookjail(&["install", "git", "--yes"]);
    assert!(done.status.success(), "{}", printed(&done));
}

/// Commits a file with a content.
fn commit(home: &Home, content: &str) -> Output {
    home.write("p/file", content);
    assert!(git(home, &["add", "file"]).status.success());
    git(home, &["commit", "-m", "a commit"])
}

#[test]
fn a_guard_denies_a_commit_and_lets_another_pass() {
    let home = repository();
    hook(
        &home,
        "pre-commit",
        "git diff --cached | grep -q FORBIDDEN && { echo 'no such word' >&2; exit 1; }\nexit 0",
    );
    install(&home);

    let denied = commit(&home, "FORBIDDEN\n");
    assert_eq!(denied.status.code(), Some(1));
    assert!(printed(&denied).contains("no such word"), "{denied:?}");
    let passed = commit(&home, "other\n");
    assert!(passed.status.success(), "{denied:?}");
    // The index of the commit is another one here.
    home.write("p/file", "FORBIDDEN\n");
    let denied = git(&home, &["commit", "-am", "all"]);
    assert_eq!(denied.status.code(), Some(1), "{denied:?}");

    let log = home.hookjail(&["log"]);
    assert!(printed(&log).contains("pre-commit"), "{log:?}");
}

#[test]
fn a_hook_that_reads_keys_and_connects_does_so_bare_and_not_confined() {
    let home = repository();
    home.write(".ssh/id", "a secret\n");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut text = String::new();
            let mut stream = stream;
            drop(stream.read_to_string(&mut text));
        }
    });
    let connects = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected");
    home.script(
        "p/.git/hooks/pre-commit",
        &format!("#!/bin/bash\ncat ~/.ssh/id\n({connects})\nexit 0\n"),
    );
    home.give_to_user();

    let bare = printed(&commit(&home, "one\n"));
    install(&home);
    let confined = commit(&home, "two\n");

    assert!(
        bare.contains("a secret") && bare.contains("connected"),
        "{bare}"
    );
    assert!(confined.status.success(), "{confined:?}");
    let confined = printed(&confined);
    assert!(confined.contains("Permission denied"), "{confined}");
    assert!(
        !confined.contains("a secret") && !confined.contains("connected"),
        "{confined}"
    );
}

#[test]
fn a_hook_has_the_arguments_the_stdin_and_the_variables_that_git_gives_it() {
    let home = repository();
    let shown = "echo \"$# <$1> <$2> $GIT_PREFIX\"";
    hook(
        &home,
        "commit-msg",
        &format!("{shown}; echo Trailer: x >>\"$1\""),
    );
    hook(
        &home,
        "pre-commit",
        &format!("{shown}; echo made >made; git add made"),
    );
    hook(&home, "pre-push", &format!("{shown}; sed 's/^/pushed: /'"));
    hook(&home, "post-checkout", &shown.replace("<$1> <$2>", "$3"));
    // With the caller's own variables of those names.
    let stale = [
        ("HOOK_ARG_1", "x"),
        ("HOOK_ARG_2", "y"),
        ("HOOK_GIT_PREFIX", "z"),
    ];
    let runs = |home: &Home| {
        fs::create_dir_all(home.path("p/sub")).unwrap();
        home.write("p/sub/file", "x\n");
        let mut all = String::new();
        for (directory, words) in [
            ("p", &["add", "sub"][..]),
            ("p/sub", &["commit", "-qm", "a commit"]),
            ("p", &["push", "-q", "origin", "HEAD:refs/heads/main"]),
            ("p", &["checkout", "-q", "-B", "other"]),
        ] {
            let mut command = home.command(&[&["git"], words].concat());
            command.envs(stale).current_dir(home.path(directory));
            let output = command.output().unwrap();
            assert!(output.status.success(), "{output:?}");
            all += &printed(&output);
        }
        let message = git(home, &["log", "-1", "--format=%B", "--name-only"]);
        let commit = git(home, &["rev-parse", "HEAD"]);
        all += &printed(&message);
        all.replace(printed(&commit).trim(), "COMMIT")
    };

    let bare = runs(&home);
    let confined = repository();
    for name in ["commit-msg", "pre-commit", "pre-push", "post-checkout"] {
        let name = format!("p/.git/hooks/{name}");
        confined.script(&name, &home.text(&name));
    }
    confined.give_to_user();
    install(&confined);
    let confined = runs(&confined);

    assert_eq!(confined, bare);
    for expected in [
        "0 <> <> sub/",
        "1 <.git/COMMIT_EDITMSG>",
        "2 <origin> <../there.git>",
        "pushed: HEAD COMMIT refs/heads/main",
        "Trailer: x",
        "made",
        "3 1",
    ] {
        assert!(confined.contains(expected), "{expected}: {confined}");
    }
}

#[test]
fn a_working_tree_that_is_linked_has_the_same_hooks_confined() {
    let home = repository();
    hook(
        &home,
        "pre-commit",
        "cat ~/key; git rev-parse --show-toplevel",
    );
    home.write("key", "a secret\n");
    install(&home);
    assert!(
        git(&home, &["worktree", "add", "-q", "../linked"])
            .status
            .success()
    );
    home.write("linked/file", "x\n");
    assert!(git_in(&home, "linked", &["add", "file"]).status.success());

    let output = git_in(&home, "linked", &["commit", "-m", "x"]);

    let words = printed(&output);
    let top = home.path("linked").canonicalize().unwrap();
    assert!(words.contains(&top.display().to_string()), "{words}");
    assert!(
        words.contains("Permission denied") && !words.contains("a secret"),
        "{words}"
    );
}

#[test]
fn a_hook_that_is_edited_or_added_is_refused_until_it_is_allowed() {
    let home = repository();
    hook(&home, "pre-commit", "echo one");
    install(&home);
    assert!(printed(&commit(&home, "a\n")).contains("one"));

    hook(&home, "pre-commit", "echo two");
    let refused = commit(&home, "b\n");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let words = printed(&refused);
    assert!(
        words.contains("pre-commit") && words.contains("changed"),
        "{words}"
    );
    // A model may read it.
    assert!(
        !words.contains("hookjail allow") && !words.contains("two"),
        "{words}"
    );
    // The exit code of this one decides nothing.
    hook(&home, "post-commit", "echo three");
    // At a terminal its user does.
    let line = "git commit -m x";
    let mut terminal = home.command(&["script", "-qec", line, "/dev/null"]);
    let shown = printed(&terminal.output().unwrap());
    assert!(shown.contains("hookjail allow"), "{shown}");

    let check = home.hookjail_in(&home.path("p"), &["allow", "--check"]);
    assert_eq!(check.status.code(), Some(1));
    let check = printed(&check);
    assert!(
        check.contains("-echo one") && check.contains("+echo two"),
        "{check}"
    );
    assert!(check.contains("post-commit"), "{check}");
    let allowed = home.hookjail(&["allow", "--yes"]);
    assert!(allowed.status.success(), "{allowed:?}");
    let words = printed(&commit(&home, "c\n"));
    assert!(words.contains("two") && words.contains("three"), "{words}");
}

#[test]
fn a_hook_after_the_fact_that_is_refused_stops_nothing() {
    let home = repository();
    hook(&home, "post-commit", "echo one");
    hook(&home, "post-merge", "echo one");
    install(&home);
    hook(&home, "post-commit", "echo two");

    let done = commit(&home, "a\n");

    assert!(done.status.success(), "{done:?}");
    let words = printed(&done);
    assert!(
        words.contains("DIGEST_MISMATCH") && !words.contains("two"),
        "{words}"
    );
}

#[test]
fn hooks_of_another_directory_stay_confined_when_their_manager_names_it_again() {
    let home = repository();
    home.write(
        "p/.husky/_/h",
        "sh \"$(dirname \"$(dirname \"$0\")\")/${0##*/}\"\n",
    );
    home.script("p/.husky/_/pre-commit", "#!/bin/sh\n. \"${0%/*}/h\"\n");
    home.write(
        "p/.husky/pre-commit",
        "echo by husky; cat ~/key; git diff --name-only\n",
    );
    home.write("key", "a secret\n");
    assert!(git(&home, &["add", ".husky"]).status.success());
    let husky = ["config", "core.hooksPath", ".husky/_"];
    assert!(git(&home, &husky).status.success());
    let bare = printed(&commit(&home, "a\n"));
    assert!(bare.contains("a secret"), "{bare}");
    install(&home);

    // As each `npm install` does.
    assert!(git(&home, &husky).status.success());
    let confined = printed(&commit(&home, "b\n"));
    assert!(confined.contains("by husky"), "{confined}");
    assert!(!confined.contains("a secret"), "{confined}");
    // The copies of them that the hook gets are no change to git.
    assert!(!confined.contains(".husky/pre-commit\n"), "{confined}");
    home.write("p/.husky/pre-commit", "echo other\n");
    let refused = commit(&home, "c\n");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(
        printed(&refused).contains(".husky/pre-commit"),
        "{refused:?}"
    );
}

#[test]
fn all_is_put_back_byte_for_byte_and_what_another_program_wrote_stays() {
    for end in ["", "\n[core]\n\tpager = cat"] {
        let home = repository();
        hook(&home, "pre-commit", "exit 0");
        let config = home.text("p/.git/config") + end;
        home.write("p/.git/config", &config);
        let entries = |home: &Home| {
            let all = fs::read_dir(home.path("p/.git")).unwrap();
            let mut all: Vec<_> = all.map(|it| it.unwrap().file_name()).collect();
            all.sort();
            all
        };
        let before = (entries(&home), home.text("p/.git/hooks/pre-commit"));
        let shown = home.hookjail(&["install", "git", "--dry-run"]);
        assert!(shown.status.success(), "{shown:?}");
        assert_eq!(home.text("p/.git/config"), config);
        install(&home);
        assert_ne!(home.text("p/.git/config"), config);

        let words: &[&str] = match end {
            "" => &["install", "git", "--uninstall", "--yes"],
            _ => &["uninstall", "--all", "--yes"],
        };
        let back = home.hookjail(words);

        assert!(back.status.success(), "{}", printed(&back));
        assert_eq!(home.text("p/.git/config"), config);
        let after = (entries(&home), home.text("p/.git/hooks/pre-commit"));
        assert_eq!(after, before);
        // Consents to the scripts that are gone went with them.
        assert!(home.hookjail(&["allow", "--check"]).status.success());
    }
}

#[test]
fn a_script_that_another_program_wrote_in_its_place_is_named_and_counts_as_unconfined() {
    let home = repository();
    hook(&home, "pre-commit", "exit 0");
    install(&home);
    let script = "p/.git/hookjail/hooks/pre-commit";
    home.script(script, "#!/bin/sh\necho by another\n");
    home.give_to_user();

    let shown = home.hookjail(&["--json", "install", "git", "--dry-run"]);

    assert_eq!(shown.status.code(), Some(1), "{shown:?}");
    let report = json(&shown);
    assert_eq!(report["unconfined"], true, "{report}");
    let foreign = report["foreign"][0].as_str().unwrap();
    assert!(
        Path::new(foreign).ends_with("hookjail/hooks/pre-commit"),
        "{report}"
    );
    let doctor = printed(&home.hookjail(&["doctor"]));
    assert!(doctor.contains("git: 1 hook"), "{doctor}");
    let back = home.hookjail(&["install", "git", "--uninstall", "--yes"]);
    assert_eq!(back.status.code(), Some(1), "{back:?}");
    assert_eq!(home.text(script), "#!/bin/sh\necho by another\n");
}

#[test]
fn a_confined_hook_changes_neither_the_scripts_nor_the_configuration_that_names_them() {
    let home = repository();
    hook(
        &home,
        "pre-commit",
        "for it in config hookjail/config hookjail/hooks/pre-commit hookjail/hooks/hookjail-start hooks/pre-commit hookjail/hooks/new; do\n\
         \x20 echo >>.git/$it && echo \"changed $it\"; rm -f .git/$it && [ ! -e .git/$it ] && echo \"removed $it\"\n\
         done; mv .git/hookjail .git/moved && echo moved; echo tried",
    );
    install(&home);

    let words = printed(&commit(&home, "a\n"));

    assert!(words.contains("tried"), "{words}");
    for done in [
        "changed ",
        "removed config",
        "removed hookjail/config",
        "removed hookjail/hooks/p",
        "moved\n",
    ] {
        assert!(!words.contains(done), "{done}: {words}");
    }
    let script = home.path("p/.git/hooks/pre-commit");
    let bare = home.command(&[script.to_str().unwrap()]).output().unwrap();
    let bare = printed(&bare);
    assert!(
        bare.contains("changed config") && bare.contains("moved\n"),
        "{bare}"
    );
}

#[test]
fn without_hookjail_a_commit_is_stopped() {
    let home = repository();
    hook(&home, "pre-commit", "exit 0");
    install(&home);
    let script = "p/.git/hookjail/hooks/pre-commit";
    let text = home.text(script);
    let (before, _) = text.rsplit_once("exec ").unwrap();
    let (_, after) = text.split_once(" --as git ").unwrap();
    home.script(
        script,
        &format!("{before}exec /none/hookjail-run --as git {after}"),
    );
    home.give_to_user();

    let stopped = commit(&home, "a\n");

    assert_eq!(stopped.status.code(), Some(1), "{stopped:?}");
    assert!(
        printed(&stopped).contains("/none/hookjail-run"),
        "{stopped:?}"
    );
}
