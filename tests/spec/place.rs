//! Where hooks run: a user's own daemon serves its user in every directory, in a narrower place where that may be no workspace.

use std::{
    ffi::OsStr,
    fs,
    io::Write,
    os::unix::ffi::OsStrExt,
    os::unix::fs::{MetadataExt, PermissionsExt, lchown},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use nix::unistd::geteuid;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    support::{directory, program, unshared_directory},
    witness::processes_that,
};

/// The user of the home, where root runs the tests.
const USER: u32 = 4243;

/// A home with keys, notes, a project, and a daemon of its user's that hooks start.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(unshared_directory().unwrap_or_else(directory));
        home.write(".ssh/id", "a key\n");
        home.write("notes.txt", "a note\n");
        home.write("p/.git/config", "[core]\n");
        home.write("p/notes.txt", "of the project\n");
        home.write("tmp/made", "");
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let made = path.ancestors().take_while(|it| *it != self.0.path());
        for path in made.chain([self.0.path()]) {
            if geteuid().is_root() {
                lchown(path, Some(USER), Some(USER)).unwrap();
            }
        }
    }

    /// Runs words as the home's user in a directory, with an event on stdin.
    #[expect(
        clippy::disallowed_methods,
        reason = "runs the program under test, or the bare hook"
    )]
    fn run(&self, place: &Path, words: &[&str]) -> Output {
        let user = USER.to_string();
        let as_user = [
            "setpriv",
            "--reuid",
            &user,
            "--regid",
            &user,
            "--clear-groups",
        ];
        let words = match geteuid().is_root() {
            true => [&as_user[..], words].concat(),
            false => words.to_vec(),
        };
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .current_dir(place)
            .env_clear()
            .env("HOME", self.0.path())
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("TMPDIR", self.path("tmp"))
            .env("XDG_RUNTIME_DIR", self.path("tmp"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let event =
            json!({"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": "x"});
        // A program that refuses its arguments reads nothing.
        stdin.write_all(event.to_string().as_bytes()).ok();
        drop(stdin);
        child.wait_with_output().unwrap()
    }

    fn hookjail(&self, place: &Path, words: &[&str]) -> Output {
        let program = program();
        self.run(place, &[&[program.to_str().unwrap()], words].concat())
    }

    fn allow(&self, options: &[&str], line: &str) {
        let words = [&["allow"], options, &["--", "/bin/sh", "-c", line]].concat();
        let done = self.hookjail(&self.path("p"), &words);
        assert!(done.status.success(), "{done:?}");
    }

    /// Runs a line as the user's hook in a directory; the settings of a runtime name it so.
    fn hook(&self, place: &Path, profile: &str, line: &str) -> Output {
        let options = [
            "run",
            "--as",
            "claude-code",
            "--profile",
            profile,
            "--start",
        ];
        self.hookjail(
            place,
            &[&options[..], &["--", "/bin/sh", "-c", line]].concat(),
        )
    }

    /// Returns what the journal has as evidence of the last run's workspace.
    fn evidence(&self) -> Option<String> {
        let journal = fs::read_to_string(self.path(".local/state/hookjail/audit/journal.jsonl"));
        let journal = journal.unwrap();
        let mut records = journal
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let ended = records.rfind(|it: &Value| it["record"] == "ended");
        let ended = ended.expect("a run is over");
        let evidence = ended["evidence"].as_array().unwrap().iter();
        let mut evidence = evidence.map(|it| it.as_str().unwrap());
        let found = evidence.find_map(|it| it.strip_prefix("workspace="));
        found.map(str::to_owned)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let home_variable = format!("HOME={}", self.0.path().display());
        for (pid, _) in processes_that(|line| line.contains("serve --on-demand")) {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let mut variables = environment.split(|byte| *byte == 0);
            if variables.any(|variable| variable == home_variable.as_bytes()) {
                let pid = nix::unistd::Pid::from_raw(pid.cast_signed());
                nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).ok();
            }
        }
    }
}

fn printed(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Returns places of a machine that are no workspace of a user's, each with a part of the reason.
fn elsewhere(home: &Home) -> Vec<(PathBuf, &'static str)> {
    let of_others = ["/", "/tmp", "/srv", "/var", "/usr/bin"].map(PathBuf::from);
    let of_others = of_others.into_iter().filter(|path| path.is_dir());
    let of_others = of_others.map(|path| (path, "nor in another directory of this user's own"));
    of_others
        .chain([(home.path(""), "keys"), (home.path(".ssh"), "keys")])
        .map(|(path, why)| (path.components().collect(), why))
        .collect()
}

#[test]
fn a_users_hook_runs_in_every_directory_and_has_no_workspace_where_that_may_be_none() {
    let home = Home::new();
    let (hi, reach) = (
        "echo hi",
        "cat ~/notes.txt ~/.ssh/id 2>/dev/null; cat notes.txt; ls",
    );
    for line in [hi, reach] {
        home.allow(&["--profile", "develop"], line);
    }
    for (place, why) in elsewhere(&home) {
        let bare = home.run(&place, &["/bin/sh", "-c", hi]);
        let confined = home.hook(&place, "develop", hi);
        assert_eq!(printed(&confined), printed(&bare), "{}", place.display());
        let evidence = home.evidence().expect("the run is marked");
        let named = format!("none: `{}` is no workspace: ", place.display());
        assert!(evidence.starts_with(&named), "{evidence}");
        assert!(evidence.contains(why), "{evidence}");

        let (_, out, _) = printed(&home.hook(&place, "develop", reach));
        for kept in ["a note", "a key", "notes.txt", "id"] {
            assert!(
                !out.lines().any(|line| line == kept),
                "{}: {out}",
                place.display()
            );
        }
    }
    // The positive controls: bare, the home is open to the user, and a project is a workspace.
    let (_, out, _) = printed(&home.run(&home.path(""), &["/bin/sh", "-c", reach]));
    assert!(out.contains("a note\na key\n"), "{out}");
    let (code, out, _) = printed(&home.hook(&home.path("p"), "develop", reach));
    assert_eq!((code, home.evidence()), (Some(0), None), "{out}");
    assert!(out.contains("of the project"), "{out}");
}

#[test]
fn a_directory_whose_name_no_request_can_have_is_named_as_that() {
    let home = Home::new();
    home.allow(&["--profile", "workspace-ro"], "echo hi");
    let odd = home.path("p").join(OsStr::from_bytes(b"a\xff"));
    fs::create_dir(&odd).unwrap();
    let (_, out, err) = printed(&home.hook(&odd, "workspace-ro", "echo hi"));
    let why = "the name of the current directory is not UTF-8";
    assert!(out.contains(why) || err.contains(why), "{out}{err}");
    // The positive control.
    let (_, out, err) = printed(&home.hook(&home.path("p"), "workspace-ro", "echo hi"));
    assert_eq!(out, "hi\n", "{err}");
}

#[test]
fn status_and_log_name_hooks_without_a_workspace_until_they_have_one() {
    let home = Home::new();
    home.allow(&["--profile", "develop"], "echo hi");
    let reported = |place: &str| {
        let (code, _, err) = printed(&home.hook(&home.path(place), "develop", "echo hi"));
        assert_eq!(code, Some(0), "{err}");
        let json = home.hookjail(&home.path("p"), &["status", "--json"]);
        let json: Value = serde_json::from_slice(&json.stdout).unwrap();
        let (_, status, _) = printed(&home.hookjail(&home.path("p"), &["status"]));
        let (_, log, _) = printed(&home.hookjail(&home.path("p"), &["log", "-n", "1"]));
        (json["hooksWithoutWorkspace"].clone(), status, log)
    };
    let (hooks, status, log) = reported("");
    let named = format!("none: `{}` is no workspace: ", home.0.path().display());
    assert_eq!(hooks, 1);
    assert!(
        status.contains(&named) && status.contains(" (last run of 1 hook)"),
        "{status}"
    );
    assert!(log.trim_end().ends_with("ok; without a workspace"), "{log}");
    // The positive control: in a project nothing is reported.
    let (hooks, status, log) = reported("p");
    assert_eq!(hooks, 0);
    assert!(!status.contains("is no workspace"), "{status}");
    assert!(log.trim_end().ends_with("ok"), "{log}");
}

#[test]
fn a_hook_without_a_workspace_starts_in_its_scratch_directory_and_writes_nowhere_else() {
    let home = Home::new();
    let line = "test \"$PWD\" = \"$(pwd -P)\" && test -z \"$(ls -A)\" && echo x >here && cat here; (echo x >~/planted; echo x >/tmp/planted-$PPID) 2>/dev/null; ls -a ~/p";
    home.allow(&["--profile", "develop"], line);
    let (_, out, err) = printed(&home.hook(&home.path(""), "develop", line));
    assert_eq!(out, "x\n", "{err}");
    assert!(!home.path("planted").exists());
    // The positive control: in the project a file is made.
    let line = "echo x >made";
    home.allow(&["--profile", "develop"], line);
    let (code, _, err) = printed(&home.hook(&home.path("p"), "develop", line));
    assert_eq!(
        (code, home.path("p/made").is_file()),
        (Some(0), true),
        "{err}"
    );
}

#[test]
fn a_consent_within_a_directory_covers_no_run_whose_workspace_is_withheld() {
    let home = Home::new();
    let line = "echo within";
    let p = home.path("p");
    home.allow(
        &["--profile", "develop", "--within", p.to_str().unwrap()],
        line,
    );
    for place in ["", "/tmp"].map(|place| home.path(place)) {
        let (code, out, err) = printed(&home.hook(&place, "develop", line));
        assert!(
            code == Some(0) && out.contains("\"decision\":\"block\""),
            "{out}"
        );
        assert!(err.contains("NOT_ALLOWLISTED"), "{err}");
    }
    // The positive control: the consent covers hooks in the directory.
    let (code, out, err) = printed(&home.hook(&p, "develop", line));
    assert_eq!((code, &*out), (Some(0), "within\n"), "{err}");
}

#[test]
fn a_directory_that_the_request_names_and_roots_that_the_operator_lists_refuse_as_before() {
    let home = Home::new();
    let line = "echo hi";
    home.allow(&["--profile", "develop"], line);
    let place = home.path("");
    let words = [
        "run",
        "--as",
        "claude-code",
        "--profile",
        "develop",
        "--start",
        "--workspace",
        ".",
    ];
    let named = home.hookjail(
        &place,
        &[&words[..], &["--", "/bin/sh", "-c", line]].concat(),
    );
    let (code, _, err) = printed(&named);
    assert_eq!(code, Some(2), "{err}");
    assert!(
        err.contains("is no workspace unless `hooks.workspace_roots`"),
        "{err}"
    );
    // The positive control: as a place it refuses nothing.
    assert_eq!(home.hook(&place, "develop", line).status.code(), Some(0));

    let home = Home::new();
    let roots = format!("[hooks]\nworkspace_roots = [{:?}]\n", home.path("p"));
    home.write(".config/hookjail/hookjail.toml", &roots);
    home.allow(&["--profile", "develop"], line);
    for place in [home.path(""), "/tmp".into()] {
        let (code, _, err) = printed(&home.hook(&place, "develop", line));
        assert_eq!(code, Some(2), "{}: {err}", place.display());
        assert!(err.contains("lies below no root"), "{err}");
    }
    assert_eq!(
        home.hook(&home.path("p"), "develop", line).status.code(),
        Some(0)
    );
}

#[test]
fn run_and_its_dry_run_name_the_workspace_that_is_withheld() {
    let home = Home::new();
    for words in [&["--private"][..], &["--private", "--dry-run"]] {
        let words = [
            &["run", "--profile", "workspace-rw"],
            words,
            &["--", "/bin/true"],
        ]
        .concat();
        let (code, out, err) = printed(&home.hookjail(&home.path(""), &words));
        assert_eq!(code, Some(0), "{out}{err}");
        let named = format!("none: `{}` is no workspace: ", home.0.path().display());
        let mut rows = out.lines().map(str::trim);
        let row = rows.find_map(|row| row.strip_prefix("workspace"));
        assert!(
            row.is_some_and(|row| row.trim().starts_with(&named)),
            "{out}"
        );
    }
}

#[test]
fn a_directory_of_the_users_own_beside_the_home_is_a_workspace_as_a_whole() {
    let (home, neighbour) = (Home::new(), Home::new());
    let line = "cat notes.txt; echo x >made";
    home.allow(&["--profile", "develop"], line);
    let place = neighbour.path("p");
    assert_ne!(place.metadata().unwrap().uid(), 0);
    let (code, out, err) = printed(&home.hook(&place, "develop", line));
    assert_eq!((code, &*out), (Some(0), "of the project\n"), "{err}");
    assert_eq!(home.evidence(), None);
    assert!(place.join("made").is_file());
    // The positive control: another user's directory is no workspace.
    let other = directory();
    fs::set_permissions(other.path(), fs::Permissions::from_mode(0o755)).unwrap();
    if geteuid().is_root() {
        home.hook(other.path(), "develop", line);
        assert!(home.evidence().is_some());
    }
}

/// Dispatches to a typed line in a directory. Returns what the line prints, and the evidence of its workspace.
fn dispatched(home: &Home, place: &Path, line: &str) -> (String, Option<String>) {
    let hook = format!("UserPromptSubmit={line}");
    let words = "dispatch --json --private --contract claude_code --point UserPromptSubmit";
    let words: Vec<_> = words.split(' ').collect();
    let words = [&words[..], &["--profile", "workspace-ro", "--hook", &hook]].concat();
    let output = home.hookjail(place, &words);
    let (code, out, err) = printed(&output);
    assert_eq!(code, Some(0), "{}: {out}{err}", place.display());
    let response: Value = serde_json::from_str(&out).unwrap();
    let ran = &response["hooks"][0]["ran"];
    let stdout = ran["stdout"].as_str().unwrap_or_default();
    let stdout = BASE64_STANDARD.decode(stdout).unwrap();
    let evidence = ran["confinement"]["evidence"].as_array().unwrap().iter();
    let evidence = evidence.filter(|it| it["check"] == "workspace");
    let mut evidence = evidence.map(|it| it["observed"].as_str().unwrap().to_owned());
    (String::from_utf8(stdout).unwrap(), evidence.next())
}

#[test]
fn hooks_of_a_dispatch_run_in_every_directory_and_read_nothing_of_one_that_keeps_keys() {
    let home = Home::new();
    let line = "echo hi; cat id notes.txt 2>/dev/null; true";
    for place in [home.path(""), home.path(".ssh"), "/".into()] {
        let (out, evidence) = dispatched(&home, &place, line);
        assert_eq!(out, "hi\n", "{}", place.display());
        assert!(evidence.is_some_and(|it| it.starts_with("none: ")));
    }
    // The positive controls: bare the key is read, and a project is a workspace.
    let (_, out, _) = printed(&home.run(&home.path(".ssh"), &["/bin/sh", "-c", line]));
    assert_eq!(out, "hi\na key\n");
    let (out, evidence) = dispatched(&home, &home.path("p"), line);
    assert_eq!((&*out, evidence), ("hi\nof the project\n", None));
}

mod with_tools {
    use super::*;

    #[test]
    #[ignore = "needs git"]
    fn git_finds_its_repository_in_a_subdirectory_and_in_a_worktree_that_an_agent_made() {
        let home = Home::new();
        let git = "git() { command git -c user.name=a -c user.email=a@b \"$@\"; }";
        let make = format!(
            "{git}; git init -q ../q && cd ../q && mkdir -p sub/deep .claude && echo one >sub/file && echo outside >other && git add . && \
             git commit -qm first && git worktree add -q -b feat .claude/worktrees/feat"
        );
        let made = home.run(&home.path("p"), &["/bin/sh", "-c", &make]);
        assert!(made.status.success(), "{made:?}");
        let ask = "git rev-parse --show-toplevel; git branch --show-current; git log --format=%s; git ls-files";
        let commit = format!("{git}; echo two >>file && git commit -qm second file");
        let steer = "echo x >>$(git rev-parse --git-path config)";
        let reach = "cat ../other";
        for line in [ask, &commit, steer, reach] {
            home.allow(&["--profile", "develop"], line);
        }
        let hook = |place: &Path, line: &str| {
            let words =
                "run --as claude-code --profile develop --start --workspace . -- /bin/sh -c";
            let words: Vec<_> = words.split(' ').chain([line]).collect();
            printed(&home.hookjail(place, &words))
        };
        for below in ["q", "q/sub", "q/sub/deep", "q/.claude/worktrees/feat"] {
            let place = home.path(below);
            let bare = printed(&home.run(&place, &["/bin/sh", "-c", ask]));
            assert_eq!(hook(&place, ask), bare, "{below}");
            assert!(bare.1.contains("first"), "{bare:?}");
        }
        // Files that git runs next stay unchanged, and nothing else around the workspace is open.
        let sub = home.path("q/sub");
        let configuration = fs::read(home.path("q/.git/config")).unwrap();
        for line in [steer, reach] {
            let (_, out, err) = hook(&sub, line);
            assert!(!out.contains("outside"), "{line}: {out}{err}");
        }
        assert_eq!(fs::read(home.path("q/.git/config")).unwrap(), configuration);
        // The positive control: a hook commits there.
        let (_, out, err) = hook(&sub, &commit);
        let (_, log, _) = printed(&home.run(&sub, &["git", "log", "--format=%s"]));
        assert_eq!(log, "second\nfirst\n", "{out}{err}");
    }

    #[test]
    #[ignore = "needs git"]
    fn a_repository_that_may_be_no_workspace_is_out_of_sight_below_it_too() {
        let home = Home::new();
        let made = home.run(&home.path(""), &["git", "init", "-q"]);
        assert!(made.status.success(), "{made:?}");
        home.write("plain/file", "");
        let line = "git rev-parse --git-dir";
        home.allow(&["--profile", "develop"], line);
        let (code, out, err) = printed(&home.hook(&home.path("plain"), "develop", line));
        assert_eq!((code, &*out), (Some(128), ""), "{err}");
        // The positive control: bare it is found.
        let (code, ..) = printed(&home.run(&home.path("plain"), &["/bin/sh", "-c", line]));
        assert_eq!(code, Some(0));
    }
}
