//! Files that stay read-only in a workspace that a hook may write: git runs them by itself, outside any sandbox.

#![expect(
    clippy::disallowed_methods,
    reason = "tests make repositories with git itself"
)]

use std::{
    collections::HashMap,
    fs,
    io::ErrorKind,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use hookjail::pb;
use nix::{
    fcntl::{Flock, FlockArg},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tonic_types::StatusExt;

use crate::{
    attempts::{self, Probe},
    fail_closed::FakeKernel,
    operate::command,
    shutdown::{exit_status, terminate},
    support::{Daemon, Setup, contained, directory, hook, reason},
    witness::{a_minute, keeper_of, processes_with, until, until_gone},
};

/// The directory that runs in a workspace share.
const SHARED: &str = ".hookjail-run";

/// A profile of an operator who leaves it all writable.
pub(crate) const WITHOUT: &str = r#"
description = "workspace-rw as it would be without what stays read-only"
extends = "pipeline"
metadata = "change"
working_dir = "workspace"
[files]
named = [{ path = "${workspace}", access = "write" }]
"#;

/// Ways from the workspace to files that git runs. `$W` is the workspace.
const ATTEMPTS: [(&str, &str); 22] = [
    ("empty the configuration", ": > .git/config"),
    ("append to the configuration", "echo x >> .git/config"),
    ("remove the configuration", "rm -f .git/config"),
    ("move the configuration away", "mv .git/config .git/moved"),
    (
        "put a file in the place of the configuration",
        "echo x > .git/new && mv -f .git/new .git/config",
    ),
    (
        "link a file over the configuration",
        "echo x > new && ln -f new .git/config",
    ),
    (
        "link the configuration to another name and write that",
        "ln .git/config other && echo x > other",
    ),
    (
        "put a link in the place of the configuration",
        "ln -sf /dev/null .git/config",
    ),
    ("make a hook", "echo x > .git/hooks/pre-commit"),
    ("change a hook", "echo x >> .git/hooks/sample"),
    ("remove a hook", "rm -f .git/hooks/sample"),
    (
        "link a hook to another name and write that",
        "ln .git/hooks/sample other && echo x > other",
    ),
    (
        "move a file among the hooks",
        "echo x > new && mv new .git/hooks/pre-push",
    ),
    (
        "replace the hooks",
        "mv .git/hooks .git/moved && mkdir .git/hooks && echo x > .git/hooks/pre-commit",
    ),
    (
        "remove the hooks",
        "rm -rf .git/hooks; test ! -e .git/hooks",
    ),
    (
        "replace the repository",
        "mv .git moved && mkdir .git && cp moved/config .git/config",
    ),
    ("write by an absolute path", "echo x >> $W/.git/config"),
    ("write from within", "cd .git/hooks && echo x > ../config"),
    (
        "write by the links of /proc",
        "echo x >> /proc/self/cwd/.git/config",
    ),
    (
        "write by the root in /proc",
        "echo x >> /proc/self/root$W/.git/config",
    ),
    (
        "write by a process of its own",
        "sh -c 'sh -c \"echo x >> .git/config\" & wait $!'",
    ),
    (
        "write by a descriptor of the directory around",
        "exec 9< .; cd /; echo x >> /proc/self/fd/9/.git/config",
    ),
];

/// Further ways for the owner of the files.
const ATTEMPTS_OF_THE_OWNER: [(&str, &str); 3] = [
    ("change the configuration's mode", "chmod 777 .git/config"),
    (
        "change the configuration's times",
        "touch -d @0 .git/config",
    ),
    ("change the mode of the hooks", "chmod 700 .git/hooks"),
];

/// Attempts to undo the mounts.
const UNDOING: [&str; 3] = [
    "umount .git/config",
    "mount -o remount,rw,bind .git/config",
    "unshare -rm true",
];

/// These tests look at the mounts of this backend.
const LANDLOCK: &str = "[backends]\norder = [\"landlock\"]\n";

async fn daemon() -> Daemon {
    Daemon::with(Setup {
        profiles: vec![("without".to_owned(), WITHOUT.to_owned())],
        ..Setup::default()
    })
    .await
}

/// Lets every user write a tree.
fn open_to_all(path: &Path) {
    let mode = if path.is_dir() { 0o777 } else { 0o666 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            open_to_all(&entry.unwrap().path());
        }
    }
}

/// Makes a workspace with the beginnings of a repository.
fn repository(daemon: &Daemon, name: &str) -> PathBuf {
    let workspace = daemon.workspace().join(name);
    fs::create_dir_all(workspace.join(".git/hooks")).unwrap();
    fs::write(workspace.join(".git/config"), "[core]\n").unwrap();
    fs::write(workspace.join(".git/hooks/sample"), "#!/bin/sh\n").unwrap();
    open_to_all(&workspace);
    workspace
}

/// State of all files that must stay unchanged.
fn state(workspace: &Path) -> Vec<String> {
    fn look(path: &Path, seen: &mut Vec<String>) {
        let Ok(found) = fs::symlink_metadata(path) else {
            seen.push(format!("{} is missing", path.display()));
            return;
        };
        let content = fs::read(path).unwrap_or_default();
        let times = (found.mtime(), found.mtime_nsec());
        let (inode, mode) = (found.ino(), found.mode());
        seen.push(format!(
            "{} {inode} {mode:o} {times:?} {content:?}",
            path.display()
        ));
        if found.is_dir() {
            let entries = fs::read_dir(path).unwrap();
            let mut entries: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
            entries.sort();
            entries.iter().for_each(|entry| look(entry, seen));
        }
    }
    let git = workspace.join(".git");
    let mut seen = vec![format!("{:?}", fs::metadata(&git).map(|it| it.ino()).ok())];
    look(&git.join("config"), &mut seen);
    look(&git.join("hooks"), &mut seen);
    seen
}

/// Has a shell run a script in a workspace.
fn in_workspace(profile: &str, script: &str, workspace: &Path) -> pb::ExecuteRequest {
    let path = workspace.display();
    let mut request = hook(["/bin/sh", "-c", &format!("W={path}; {script}")]);
    profile.clone_into(&mut request.profile);
    request.hook.as_mut().unwrap().workspace = path.to_string();
    request
}

async fn run(daemon: &Daemon, request: pb::ExecuteRequest) -> (Option<i32>, String, String) {
    let response = daemon.run(request).await.unwrap();
    assert!(response.confinement.unwrap().confirmed);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = response.outcome.unwrap().exit_code;
    (code, text(&response.stdout), text(&response.stderr))
}

async fn what_git_runs_stays_as_it_is() {
    let daemon = daemon().await;
    let is_root = nix::unistd::geteuid().is_root();
    let of_the_owner = ATTEMPTS_OF_THE_OWNER.into_iter().filter(|_| !is_root);
    for (index, (what, script)) in ATTEMPTS.into_iter().chain(of_the_owner).enumerate() {
        // The positive control: where nothing stays read-only, it changes files that git runs.
        let workspace = repository(&daemon, &format!("without-{index}"));
        let before = state(&workspace);
        let seen = run(&daemon, in_workspace("without", script, &workspace)).await;
        assert_eq!(seen.0, Some(0), "{what}: {seen:?}");
        assert_ne!(state(&workspace), before, "{what}");

        let workspace = repository(&daemon, &format!("kept-{index}"));
        let before = state(&workspace);
        let seen = run(&daemon, in_workspace("workspace-rw", script, &workspace)).await;
        assert_ne!(seen.0, Some(0), "{what}: {seen:?}");
        assert_eq!(state(&workspace), before, "{what}");
    }
}

async fn a_hook_cannot_undo_it() {
    let daemon = daemon().await;
    let workspace = repository(&daemon, "repository");
    for script in UNDOING {
        let script = format!("{script}; echo x >> .git/config");
        let before = state(&workspace);
        let seen = run(&daemon, in_workspace("workspace-rw", &script, &workspace)).await;
        assert_ne!(seen.0, Some(0), "{script}: {seen:?}");
        assert_eq!(state(&workspace), before, "{script}");
    }
}

async fn it_holds_wherever_the_hook_starts() {
    let daemon = daemon().await;
    for (index, (below, script)) in [
        (".git", "echo x >> config"),
        (".git/hooks", "echo x > pre-commit"),
        (".git/hooks", "echo x >> ../config"),
        ("sub", "echo x >> ../.git/config"),
    ]
    .into_iter()
    .enumerate()
    {
        let request = |profile, workspace: &Path| {
            fs::create_dir(workspace.join("sub")).unwrap();
            let mut request = in_workspace(profile, script, workspace);
            let directory = workspace.join(below).display().to_string();
            request.hook.as_mut().unwrap().working_dir = directory;
            request
        };
        let workspace = repository(&daemon, &format!("without-{index}"));
        let before = state(&workspace);
        assert_eq!(
            run(&daemon, request("without", &workspace)).await.0,
            Some(0)
        );
        assert_ne!(state(&workspace), before, "{below}: {script}");

        let workspace = repository(&daemon, &format!("kept-{index}"));
        let before = state(&workspace);
        assert_ne!(
            run(&daemon, request("workspace-rw", &workspace)).await.0,
            Some(0)
        );
        assert_eq!(state(&workspace), before, "{below}: {script}");
    }
}

async fn everything_else_is_as_it_would_be_without_it() {
    let daemon = daemon().await;
    let script = "id -u; id -g; pwd; echo x > made; echo x > .git/index; mkdir .git/objects; stat -c '%u %g %a %n' . made .git \
                  .git/index .git/objects; cat .git/config .git/hooks/sample; mv made .git/moved || mv .git/index .git/moved; \
                  grep -c . /dev/null";
    let mut seen = Vec::new();
    for profile in ["without", "workspace-rw"] {
        let workspace = repository(&daemon, "repository");
        seen.push(run(&daemon, in_workspace(profile, script, &workspace)).await);
        fs::remove_dir_all(&workspace).unwrap();
    }
    assert_eq!(seen[0].0, seen[1].0);
    let lines = |seen: &str| seen.lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines(&seen[0].1), lines(&seen[1].1));
}

async fn git_commits() {
    let daemon = daemon().await;
    let workspace = daemon.workspace().join("repository");
    fs::create_dir(&workspace).unwrap();
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "safe.directory=*",
        ]);
        git.args(words).current_dir(&workspace);
        git.env("GIT_CONFIG_GLOBAL", "/dev/null");
        let output = git.env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "-q", "-b", "main"]);
    fs::write(workspace.join("file"), "one\n").unwrap();
    open_to_all(&workspace);
    // Root's daemon has another own it; nothing may be configured in the repository.
    let script = "git() { command git -c user.name=a -c user.email=a@b -c 'safe.directory=*' \"$@\"; }
        git add file && git commit -q -m first && git checkout -q -b other && echo two > file && git commit -q -a -m second \\
        && git tag t && git stash list && git status --short && git gc -q";

    let (code, stdout, stderr) =
        run(&daemon, in_workspace("workspace-rw", script, &workspace)).await;

    assert_eq!((code, stdout.as_str()), (Some(0), ""), "{stderr}");
    assert_eq!(git(&["log", "--format=%s"]), "second\nfirst\n");

    let configure = "git -c 'safe.directory=*' config core.hooksPath elsewhere";
    let configured = async |profile| {
        run(&daemon, in_workspace(profile, configure, &workspace))
            .await
            .0
    };
    let before = fs::read(workspace.join(".git/config")).unwrap();
    assert_ne!(configured("workspace-rw").await, Some(0));
    assert_eq!(fs::read(workspace.join(".git/config")).unwrap(), before);
    assert_eq!(configured("without").await, Some(0));
    assert_ne!(fs::read(workspace.join(".git/config")).unwrap(), before);
}

async fn git_in_a_linked_tree() {
    let daemon = daemon().await;
    let (main, tree) = (
        daemon.workspace().join("main"),
        daemon.workspace().join("tree"),
    );
    fs::create_dir(&main).unwrap();
    let git =
        "git() { command git -c user.name=a -c user.email=a@b -c 'safe.directory=*' \"$@\"; }";
    let bare = |directory: &Path, script: &str| {
        let mut bare = Command::new("/bin/sh");
        bare.args(["-c", &format!("{git}; {script}")]);
        bare.current_dir(directory)
            .env("GIT_CONFIG_GLOBAL", "/dev/null");
        let output = bare.env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let make = format!(
        "git init -q -b main; echo one >file; git add file; git commit -qm first; git worktree add -q -b other {}",
        tree.display()
    );
    bare(&main, &make);
    // Files that git obeys beside the configuration and the hooks, in the common directory, its main tree and its submodules.
    let steering = [
        "local.inc",
        "config.worktree",
        "modules/libs/sub/config",
        "modules/libs/sub/hooks/pre-commit",
    ];
    bare(&main, "git config include.path local.inc");
    for file in ["modules/libs/sub/HEAD"].into_iter().chain(steering) {
        let file = main.join(".git").join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "").unwrap();
    }
    open_to_all(&main);
    open_to_all(&tree);

    // A guard that calls git gets the same answer as without hookjail.
    let ask = "git branch --show-current; git log --format=%s; git status --short";
    let answer = bare(&tree, ask);
    assert_eq!(answer, "other\nfirst\n");
    let run = async |profile, script: &str| {
        let script = format!("{git}; M={}; {script}", main.display());
        run(&daemon, in_workspace(profile, &script, &tree)).await
    };
    for profile in ["pipeline", "workspace-ro", "workspace-rw"] {
        let (_, stdout, stderr) = run(profile, &format!("cd $W; {ask}")).await;
        assert_eq!(stdout, answer, "{profile}: {stderr}");
    }
    let commit = run("workspace-rw", "echo two >file; git commit -qam second").await;
    assert_eq!(commit.0, Some(0), "{commit:?}");
    assert_eq!(bare(&tree, "git log --format=%s"), "second\nfirst\n");

    // Files that git runs next stay unchanged there, too.
    let commondir = main.join(".git/worktrees/tree/commondir");
    let of_tree = || (state(&main), fs::read(&commondir).unwrap());
    let before = of_tree();
    for script in [
        "echo x >$M/.git/config",
        "echo x >$M/.git/hooks/pre-commit",
        "mv $M/.git/hooks $M/.git/moved",
        "echo /elsewhere >$M/.git/worktrees/tree/commondir",
        "mv $M/.git/worktrees/tree $M/.git/worktrees/moved",
        "mv $M/.git/worktrees $M/.git/moved",
        "echo gitdir: /elsewhere >.git",
    ] {
        let (code, ..) = run("workspace-rw", script).await;
        assert_ne!(code, Some(0), "{script}");
        assert_eq!(of_tree(), before, "{script}");
    }
    for file in steering {
        for (profile, changes) in [("workspace-rw", false), ("without", true)] {
            let (code, ..) = run(profile, &format!("echo >$M/.git/{file}")).await;
            assert_eq!(code == Some(0), changes, "{profile} {file}");
        }
    }
    let (code, ..) = run(
        "without",
        "echo /elsewhere >$M/.git/worktrees/tree/commondir",
    )
    .await;
    assert_eq!(code, Some(0));
    assert_ne!(of_tree(), before);
}

/// Makes a directory that git takes for a repository.
fn bare_repository(path: &Path) {
    fs::create_dir_all(path.join("objects")).unwrap();
    fs::write(path.join("HEAD"), "ref: refs/heads/main\n").unwrap();
}

#[tokio::test]
async fn a_repository_that_cannot_be_granted_with_its_tree_is_refused_instead_of_being_out_of_sight()
 {
    let daemon = daemon().await;
    let (workspace, elsewhere) = (repository(&daemon, "tree"), directory());
    fs::remove_dir_all(workspace.join(".git")).unwrap();
    let outside = elsewhere.path().canonicalize().unwrap().join("git");
    let inside = daemon.workspace().join("git");
    let lead = |path: &Path| {
        bare_repository(path);
        fs::write(
            workspace.join(".git"),
            format!("gitdir: {}\n", path.display()),
        )
        .unwrap();
        open_to_all(&workspace);
        open_to_all(path);
    };
    let request = || in_workspace("workspace-ro", "cat $W/.git", &workspace);

    lead(&outside);
    let (reason, message, _) = refused(&daemon, request()).await;
    assert_eq!(reason, "POLICY_UNENFORCEABLE");
    assert!(
        message.contains(&outside.display().to_string()),
        "{message}"
    );
    lead(&inside);
    let of_another = |message: &str| {
        for words in [
            "does not name it as its working tree",
            "`git config core.worktree",
        ] {
            assert!(message.contains(words), "{message}");
        }
    };
    of_another(&refused(&daemon, request()).await.1);
    // The control: the same repository, once it names the tree.
    let configuration = inside.join("config");
    let names = format!("[core]\n\tworktree = {}\n", workspace.display());
    fs::write(&configuration, names).unwrap();
    assert_eq!(run(&daemon, request()).await.0, Some(0));
    // A hook cannot make it so, nor can it lead there by a repository of its own.
    fs::remove_file(&configuration).unwrap();
    let script = format!(
        "rm -f .git; mkdir -p .git/objects; echo ref: x >.git/HEAD; echo {} >.git/commondir",
        inside.display()
    );
    let led = in_workspace("workspace-rw", &script, &workspace);
    of_another(&refused(&daemon, led.clone()).await.1);
    fs::remove_file(workspace.join(".git")).unwrap();
    assert_eq!(run(&daemon, led).await.0, Some(0));
    let (reason, message, _) = refused(&daemon, request()).await;
    assert_eq!(reason, "POLICY_UNENFORCEABLE");
    assert!(message.contains("`commondir` in it leads git"), "{message}");
}

/// Requests a hook that is refused. Returns the refusal's reason, message, and facts.
async fn refused(
    daemon: &Daemon,
    request: pb::ExecuteRequest,
) -> (String, String, HashMap<String, String>) {
    let status = daemon.run(request).await.unwrap_err();
    let details = status.get_error_details();
    let facts = details.error_info().unwrap().metadata.clone();
    (reason(&status), status.message().to_owned(), facts)
}

/// Requests a hook under the profile whose namespace cannot be made, and under one that needs none.
async fn only_what_needs_a_namespace_is_refused(daemon: &Daemon) {
    let workspace = repository(daemon, "repository");
    let before = state(&workspace);
    let script = "echo x > .git/hooks/pre-commit";
    let (reason, message, facts) =
        refused(daemon, in_workspace("workspace-rw", script, &workspace)).await;
    assert_eq!(reason, "BACKEND_UNCONFIRMED", "{message}");
    assert_eq!(facts["axis"], "write", "{message}");
    assert!(
        facts["fix"].contains("profile without `files.read_only`"),
        "{message}"
    );
    assert_eq!(state(&workspace), before);

    // A profile that the operator has written without `files.read_only` works.
    let seen = run(daemon, in_workspace("without", script, &workspace)).await;
    assert_eq!(seen.0, Some(0), "{seen:?}");
}

#[tokio::test]
async fn what_makes_mounts_for_a_hook_is_shut_to_the_hook() {
    let probe = Probe::build();
    let daemon = daemon().await;
    let workspace = repository(&daemon, "repository");
    let killed = [
        vec!["user-namespace"],
        vec!["copy-tree", "/usr"],
        vec!["call", "mount", "0", "0", "0", "0", "0"],
        vec!["call", "mount_setattr", "-1", "0", "0", "0", "0"],
        vec!["call", "move_mount", "-1", "0", "-1", "0", "0"],
    ];
    let capset = libc::SYS_capset.to_string();
    let openat2 = libc::SYS_openat2.to_string();
    let drop = libc::PR_CAPBSET_DROP.to_string();
    let failing = [
        (vec!["call", &capset, "0", "0"], libc::EPERM),
        (vec!["call", &openat2, "-1", "0", "0", "0"], libc::ENOSYS),
        (vec!["process-control", &drop, "1"], libc::EPERM),
    ];
    let attempt = async |words: &[&str]| {
        let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
        let mut request = probe.hook("workspace-rw", &words);
        request.hook.as_mut().unwrap().workspace = workspace.display().to_string();
        attempts::run(&daemon, request).await
    };
    for words in killed {
        assert_eq!(
            attempt(&words).await.signal,
            Some(libc::SIGSYS),
            "{words:?}"
        );
    }
    for (words, errno) in failing {
        assert_eq!(attempt(&words).await.code, Some(errno), "{words:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_kept_read_only_is_refused_by_name() {
    type Break = fn(&Path);
    let cases: [(&str, Break); 4] = [
        (".git/hooks", |git| {
            fs::rename(git.join("hooks"), git.join("elsewhere")).unwrap();
            symlink("elsewhere", git.join("hooks")).unwrap();
        }),
        (".git/config", |git| {
            fs::remove_file(git.join("config")).unwrap();
            symlink("../config", git.join("config")).unwrap();
        }),
        (".git/config", |git| {
            fs::remove_file(git.join("config")).unwrap()
        }),
        (".git/config", |git| {
            fs::hard_link(git.join("config"), git.with_file_name("other")).unwrap();
        }),
    ];
    let daemon = daemon().await;
    for (index, (path, broken)) in cases.into_iter().enumerate() {
        let workspace = repository(&daemon, &format!("{index}"));
        let request = || in_workspace("workspace-rw", ":", &workspace);
        assert_eq!(run(&daemon, request()).await.0, Some(0));
        broken(&workspace.join(".git"));

        let (reason, message, facts) = refused(&daemon, request()).await;

        let path = workspace.join(path).display().to_string();
        assert_eq!(
            (reason.as_str(), &facts["path"]),
            ("POLICY_UNENFORCEABLE", &path)
        );
        assert!(message.contains(&path), "{message}");
    }
}

#[tokio::test]
async fn where_there_is_no_repository_there_is_nothing_to_keep_and_a_worktrees_file_stays() {
    let daemon = daemon().await;
    let workspace = repository(&daemon, "none");
    fs::remove_dir_all(workspace.join(".git")).unwrap();
    let kept = async |request| {
        let response = daemon.run(request).await.unwrap();
        let evidence = response.confinement.unwrap().evidence;
        (
            response.outcome.unwrap().exit_code,
            evidence.iter().any(|it| it.check == "read_only"),
        )
    };
    let make = in_workspace(
        "workspace-rw",
        "mkdir .git && echo x > .git/config",
        &workspace,
    );
    assert_eq!(kept(make).await, (Some(0), !contained()));

    let workspace = repository(&daemon, "worktree");
    fs::remove_dir_all(workspace.join(".git")).unwrap();
    fs::write(workspace.join(".git"), "gitdir: /elsewhere\n").unwrap();
    open_to_all(&workspace);
    for script in ["echo x > .git", "rm -f .git", "mv .git moved && mkdir .git"] {
        let request = in_workspace("workspace-rw", script, &workspace);
        let (code, is_kept) = kept(request).await;
        assert_ne!(code, Some(0), "{script}");
        assert_eq!(is_kept, !contained(), "{script}");
    }
    let file = fs::read_to_string(workspace.join(".git")).unwrap();
    assert_eq!(file, "gitdir: /elsewhere\n");
    let replace = in_workspace("without", "mv .git moved && mkdir .git", &workspace);
    assert_eq!(kept(replace).await, (Some(0), false));
}

#[tokio::test]
async fn hooks_that_are_missing_are_made_before_a_hook_could_make_them() {
    let daemon = daemon().await;
    let script = "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit";
    for (profile, made) in [("workspace-rw", false), ("without", true)] {
        let workspace = repository(&daemon, profile);
        fs::remove_dir_all(workspace.join(".git/hooks")).unwrap();
        let seen = run(&daemon, in_workspace(profile, script, &workspace)).await;
        assert_eq!(seen.0 == Some(0), made, "{seen:?}");
        assert_eq!(workspace.join(".git/hooks/pre-commit").exists(), made);
    }
}

#[tokio::test]
async fn where_no_namespace_can_be_had_a_profile_that_needs_one_is_refused_and_others_serve() {
    let kernel = FakeKernel::build();
    // unshare: refused, none may be made, not there; mount_setattr: not there.
    for flaw in ["272=1", "272=28", "272=38", "442=38"] {
        let daemon = Daemon::with(Setup {
            profiles: vec![("without".to_owned(), WITHOUT.to_owned())],
            config: LANDLOCK.to_owned(),
            wrapper: kernel.wrapper(&["--errno", flaw]),
            ..Setup::default()
        })
        .await;
        only_what_needs_a_namespace_is_refused(&daemon).await;
    }
}

#[tokio::test]
async fn a_hook_in_a_namespace_dies_with_the_daemon_even_without_a_keeper() {
    let daemon = daemon().await;
    let workspace = repository(&daemon, "repository");
    let marker = a_minute();
    let script = format!("echo > begun; exec sleep {marker}");
    let request = in_workspace("workspace-rw", &script, &workspace);
    let mut client = daemon.client();
    let call = tokio::spawn(async move { client.execute(request).await });
    let begun = || !processes_with(&format!("sleep {marker}")).is_empty();
    until("the hook's begin", || {
        workspace.join("begun").exists() && begun()
    })
    .await;

    let keeper = Pid::from_raw(keeper_of(&daemon).unwrap());
    let daemon_pid = Pid::from_raw(i32::try_from(daemon.pid()).unwrap());
    kill(daemon_pid, Signal::SIGSTOP).unwrap();
    kill(keeper, Signal::SIGKILL).unwrap();
    // The positive control: nothing but the daemon's death ends it.
    assert!(begun());
    drop(daemon.kill());

    until_gone(&marker).await;
    assert!(call.await.unwrap().is_err());
}

#[cfg(debug_assertions)]
#[tokio::test]
async fn a_self_test_and_this_chapter_notice_where_nothing_is_mounted() {
    let weakened = async |lacking: &str| {
        Daemon::with(Setup {
            config: LANDLOCK.to_owned(),
            env: vec![("HOOKJAIL_WEAKEN".to_owned(), lacking.to_owned())],
            ..Setup::default()
        })
        .await
    };
    let script = "echo x > .git/hooks/pre-commit";
    let daemon = weakened("set-up:read-only").await;
    let workspace = repository(&daemon, "repository");
    let (reason, message, facts) =
        refused(&daemon, in_workspace("workspace-rw", script, &workspace)).await;
    assert_eq!(
        (reason.as_str(), facts["axis"].as_str()),
        ("BACKEND_UNCONFIRMED", "write")
    );
    assert!(message.contains("stays read-only"), "{message}");
    drop(daemon);

    // Without the self-test, each run reports for itself which step was not done.
    let daemon = weakened("set-up:read-only proof:self-test").await;
    let workspace = repository(&daemon, "repository");
    let (reason, message, _) =
        refused(&daemon, in_workspace("workspace-rw", script, &workspace)).await;
    assert_eq!(reason, "BACKEND_UNCONFIRMED", "{message}");
    drop(daemon);

    let daemon = weakened("set-up:read-only proof:self-test proof:attestation").await;
    let workspace = repository(&daemon, "repository");
    let before = state(&workspace);
    let seen = run(&daemon, in_workspace("workspace-rw", script, &workspace)).await;
    assert_eq!(seen.0, Some(0));
    assert_ne!(state(&workspace), before);
}

#[tokio::test]
async fn what_git_runs_stays_as_it_is_in_a_workspace_that_can_be_written() {
    what_git_runs_stays_as_it_is().await;
}

#[tokio::test]
async fn a_hook_cannot_undo_what_keeps_a_path_read_only() {
    a_hook_cannot_undo_it().await;
}

#[tokio::test]
async fn a_path_stays_read_only_wherever_in_the_workspace_a_hook_starts() {
    it_holds_wherever_the_hook_starts().await;
}

#[tokio::test]
async fn a_hook_finds_all_else_as_it_would_without_paths_that_stay_read_only() {
    everything_else_is_as_it_would_be_without_it().await;
}

mod as_root {
    use super::*;
    use crate::support::{needs_root, without_sys_admin};

    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_daemon_of_root_that_may_not_mount_refuses_what_needs_it() {
        needs_root();
        let daemon = Daemon::with(Setup {
            profiles: vec![("without".to_owned(), WITHOUT.to_owned())],
            config: LANDLOCK.to_owned(),
            wrapper: without_sys_admin(),
            ..Setup::default()
        })
        .await;
        only_what_needs_a_namespace_is_refused(&daemon).await;
    }
}

mod with_tools {
    use super::*;

    #[tokio::test]
    #[ignore = "needs git"]
    async fn git_commits_where_its_hooks_and_its_configuration_stay_read_only() {
        git_commits().await;
    }

    #[tokio::test]
    #[ignore = "needs git"]
    async fn git_answers_in_a_linked_tree_and_what_it_runs_next_stays_read_only() {
        git_in_a_linked_tree().await;
    }
}

/// Ways to files that agents and editors obey, existing or not. Of `.claude` the settings exist, of `.github` no such file.
const PLANTING: [(&str, &str); 27] = [
    ("change settings", "echo x >> .claude/settings.json"),
    ("remove settings", "rm -f .claude/settings.json"),
    (
        "put a file in the place of settings",
        "echo x > new && mv -f new .claude/settings.json",
    ),
    ("make settings", "echo x > .claude/settings.local.json"),
    (
        "move settings there",
        "echo x > new && mv -T new .claude/settings.local.json",
    ),
    (
        "link settings there",
        "echo x > new && ln -T new .claude/settings.local.json",
    ),
    (
        "lay a link there",
        "ln -sT ../new .claude/settings.local.json",
    ),
    (
        "make a directory there",
        "mkdir .claude/settings.local.json && test -w .claude/settings.local.json",
    ),
    (
        "make a command",
        "mkdir -p .claude/commands && echo x > .claude/commands/x.md",
    ),
    (
        "move commands there",
        "mkdir new && echo x > new/x.md && mv -T new .claude/commands",
    ),
    (
        "replace the directory",
        "mv .claude moved && mkdir .claude && echo x > .claude/settings.json",
    ),
    ("remove the directory", "rm -rf .claude; test ! -e .claude"),
    ("make servers of tools", "echo x > .mcp.json"),
    (
        "remove what takes the name",
        "rmdir .mcp.json 2>/dev/null; echo x > .mcp.json",
    ),
    (
        "move away what takes the name",
        "mv .mcp.json moved 2>/dev/null; echo x > .mcp.json",
    ),
    (
        "open what takes the name to all",
        "chmod 777 .mcp.json 2>/dev/null; echo x > .mcp.json",
    ),
    (
        "exchange what takes the name",
        "mkdir new; echo x > new/x; mv --exchange new .mcp.json 2>/dev/null || mv -T new .mcp.json",
    ),
    (
        "make another agent's settings",
        "mkdir -p .gemini && echo x > .gemini/settings.json",
    ),
    (
        "make another agent's directory a link",
        "mkdir new && echo x > new/hooks.json && ln -sT new .codex",
    ),
    (
        "make a hook of another agent",
        "mkdir -p .github/hooks && echo x > .github/hooks/x.json",
    ),
    (
        "make a task",
        "mkdir -p .vscode && echo x > .vscode/tasks.json",
    ),
    ("make an environment", "echo x > .envrc"),
    (
        "make an agent's environment",
        "mkdir -p .gemini && echo x > .gemini/.env",
    ),
    ("make language servers", "echo x > .lsp.json"),
    (
        "make language servers of another agent",
        "echo x > .github/lsp.json",
    ),
    (
        "make a hook of git",
        "mkdir -p .husky && echo x > .husky/pre-commit",
    ),
    (
        "make a container",
        "mkdir -p .devcontainer && echo x > .devcontainer/devcontainer.json",
    ),
];

/// Makes a repository that an agent works in.
fn of_an_agent(daemon: &Daemon, name: &str) -> PathBuf {
    let workspace = repository(daemon, name);
    for (path, text) in [
        (".claude/settings.json", "{}"),
        (".github/ci.yml", "on: push"),
    ] {
        let path = workspace.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    open_to_all(&workspace);
    workspace
}

/// Returns the files that an agent or an editor obeys, and everything that begins with a dot.
fn obeyed(workspace: &Path) -> Vec<String> {
    fn look(path: &Path, seen: &mut Vec<String>) {
        let found = fs::symlink_metadata(path).unwrap();
        let content = fs::read(path).unwrap_or_default();
        seen.push(format!("{} {:o} {content:?}", path.display(), found.mode()));
        if found.is_dir() {
            let entries = fs::read_dir(path)
                .unwrap()
                .map(|entry| entry.unwrap().path());
            entries.for_each(|entry| look(&entry, seen));
        }
    }
    let mut seen = Vec::new();
    for entry in fs::read_dir(workspace).unwrap() {
        let entry = entry.unwrap();
        let is_obeyed = entry.file_name().as_encoded_bytes().starts_with(b".");
        if is_obeyed
            && ![".git", SHARED]
                .iter()
                .any(|name| entry.file_name() == *name)
        {
            look(&entry.path(), &mut seen);
        }
    }
    seen.sort();
    seen
}

/// Waits until no run is in a workspace.
async fn until_left(workspace: &Path) -> Vec<String> {
    let lock = || match fs::File::open(workspace.join(SHARED)) {
        Ok(shared) => Flock::lock(shared, FlockArg::LockExclusiveNonblock).is_ok(),
        Err(error) => error.kind() == ErrorKind::NotFound,
    };
    until("the end of what takes names", lock).await;
    obeyed(workspace)
}

#[tokio::test]
async fn names_are_free_when_the_answer_comes_and_directories_lie_ready_for_seconds() {
    let daemon = daemon().await;
    let workspace = of_an_agent(&daemon, "free");
    let before = obeyed(&workspace);
    let request = |script| in_workspace("workspace-rw", script, &workspace);
    let taken = "test -d .envrc && test -d .github/copilot && echo taken";
    for _ in 0..3 {
        let seen = run(&daemon, request(taken)).await;
        assert_eq!((seen.0, seen.1.as_str()), (Some(0), "taken\n"), "{seen:?}");
        assert_eq!(obeyed(&workspace), before);
    }
    let ready = || fs::read_dir(workspace.join(SHARED)).map(Iterator::count);
    assert!(ready().unwrap() > 20, "{:?}", ready());
    // A hook sees an empty directory there.
    let seen = run(&daemon, request("ls -A .hookjail-run | wc -l")).await;
    assert_eq!(seen.1.trim(), "0", "{seen:?}");
    until("the removal of what lies ready", || ready().is_err()).await;
    assert_eq!(obeyed(&workspace), before);
}

#[tokio::test]
async fn what_lies_ready_is_removed_when_the_daemon_ends() {
    let mut daemon = daemon().await;
    let workspace = of_an_agent(&daemon, "ends");
    let seen = run(&daemon, in_workspace("workspace-rw", ":", &workspace)).await;
    assert_eq!(seen.0, Some(0), "{seen:?}");
    assert!(workspace.join(SHARED).exists());
    terminate(&daemon);
    assert_eq!(exit_status(&mut daemon).await.code(), Some(0));
    assert!(!workspace.join(SHARED).exists());
}

#[tokio::test]
async fn what_lies_ready_is_removed_when_the_daemon_drains_though_a_hook_still_runs() {
    let daemon = daemon().await;
    let [workspace, other] = ["drains", "runs-on"].map(|name| of_an_agent(&daemon, name));
    let long = "touch runs; until test -e go; do sleep 0.02; done";
    let mut client = daemon.client();
    let long = in_workspace("workspace-rw", long, &other);
    let call = tokio::spawn(async move { client.execute(long).await });
    until("the long hook", || other.join("runs").exists()).await;
    let seen = run(&daemon, in_workspace("workspace-rw", ":", &workspace)).await;
    assert_eq!(seen.0, Some(0), "{seen:?}");
    assert!(workspace.join(SHARED).exists());
    let drained = command(&daemon, &["drain"]);
    assert_eq!(drained.status.code(), Some(0), "{drained:?}");
    assert!(!workspace.join(SHARED).exists());
    assert!(other.join(SHARED).exists(), "a run has the names there");
    fs::write(other.join("go"), "").unwrap();
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_agents_and_editors_obey_is_neither_changed_nor_made() {
    let daemon = daemon().await;
    for (index, (what, script)) in PLANTING.into_iter().enumerate() {
        let workspace = of_an_agent(&daemon, &format!("without-{index}"));
        let before = obeyed(&workspace);
        let seen = run(&daemon, in_workspace("without", script, &workspace)).await;
        assert_eq!(seen.0, Some(0), "{what}: {seen:?}");
        assert_ne!(obeyed(&workspace), before, "{what}");

        let workspace = of_an_agent(&daemon, &format!("kept-{index}"));
        let seen = run(&daemon, in_workspace("workspace-rw", script, &workspace)).await;
        assert_ne!(seen.0, Some(0), "{what}: {seen:?}");
        assert_eq!(
            until_left(&workspace).await,
            obeyed_in_place_of(&before, index),
            "{what}"
        );
    }
}

/// Returns what was found without confinement, as it would be in the other workspace.
fn obeyed_in_place_of(before: &[String], index: usize) -> Vec<String> {
    let (without, kept) = (format!("without-{index}/"), format!("kept-{index}/"));
    before
        .iter()
        .map(|it| it.replace(&without, &kept))
        .collect()
}

#[tokio::test]
async fn a_hook_makes_files_of_its_own_beside_what_its_agent_obeys() {
    let daemon = daemon().await;
    let script = "mkdir -p .claude/edited && echo x > .claude/edited/f && echo x > .claude/loop.md
        (mkdir -p .claude/commands && echo x > .claude/commands/x.md) 2>/dev/null || echo kept";
    let request = |script: &str, workspace: &Path| {
        let mut request = in_workspace("workspace-rw", script, workspace);
        request.contract = pb::Contract::ClaudeCode.into();
        request.event.get_or_insert_default().point = "PreToolUse".to_owned();
        request
    };
    for name in ["there", "missing"] {
        let workspace = of_an_agent(&daemon, name);
        if name == "missing" {
            fs::remove_dir_all(workspace.join(".claude")).unwrap();
        }
        let before = obeyed(&workspace);
        run(&daemon, request(":", &workspace)).await;
        assert_eq!(until_left(&workspace).await, before, "{name}");
        let seen = run(&daemon, request(script, &workspace)).await;
        assert_eq!((seen.0, seen.1.as_str()), (Some(0), "kept\n"), "{seen:?}");
        until_left(&workspace).await;
        assert!(workspace.join(".claude/edited/f").exists());
        assert!(workspace.join(".claude/loop.md").exists());
        assert!(!workspace.join(".claude/commands").exists());
    }
}

#[tokio::test]
async fn runs_share_what_takes_a_name_and_the_last_one_removes_it() {
    let daemon = daemon().await;
    let workspace = of_an_agent(&daemon, "shared");
    let gate = workspace.join("gate");
    nix::unistd::mkfifo(&gate, nix::sys::stat::Mode::from_bits_truncate(0o666)).unwrap();
    open_to_all(&workspace);
    // A directory that a killed daemon left, and one of the user.
    fs::create_dir(workspace.join(".envrc")).unwrap();
    fs::set_permissions(workspace.join(".envrc"), fs::Permissions::from_mode(0o1555)).unwrap();
    fs::create_dir(workspace.join(".idea")).unwrap();

    let waits = "echo begun > begun; read x < gate; (echo x > .mcp.json) 2>/dev/null || echo kept";
    let long = in_workspace("workspace-rw", waits, &workspace);
    let (long, ()) = tokio::join!(run(&daemon, long), async {
        until("the hook's beginning", || workspace.join("begun").exists()).await;
        for _ in 0..3 {
            let short = in_workspace("workspace-rw", "echo x > .mcp.json", &workspace);
            assert_ne!(run(&daemon, short).await.0, Some(0));
        }
        assert!(workspace.join(".mcp.json").is_dir());
        tokio::fs::write(&gate, "x\n").await.unwrap();
    });
    assert_eq!((long.0, long.1.as_str()), (Some(0), "kept\n"));

    let left = until_left(&workspace).await;
    let names = [
        ".claude",
        ".claude/settings.json",
        ".github",
        ".github/ci.yml",
        ".idea",
    ];
    assert_eq!(left.len(), names.len(), "{left:?}");
    for name in names {
        assert!(workspace.join(name).exists(), "{name}");
    }
}

#[tokio::test]
async fn a_link_among_what_is_obeyed_stays_or_is_refused_by_name_and_a_profile_takes_paths_back() {
    let unset = "description = \"x\"\nextends = \"workspace-rw\"\n[files]\nunset = [\"${workspace}/.mcp.json\"]\n";
    let daemon = Daemon::with(Setup {
        profiles: vec![("unset".to_owned(), unset.to_owned())],
        ..Setup::default()
    })
    .await;
    let workspace = of_an_agent(&daemon, "links");
    fs::create_dir(workspace.join("skills")).unwrap();
    symlink("../skills", workspace.join(".claude/skills")).unwrap();
    open_to_all(&workspace.join("skills"));
    let script = "rm .claude/skills && mkdir .claude/skills && echo x > .claude/skills/x";
    let seen = run(&daemon, in_workspace("workspace-rw", script, &workspace)).await;
    assert_ne!(seen.0, Some(0), "{seen:?}");
    assert!(workspace.join(".claude/skills").is_symlink());

    let make = "echo x > .mcp.json";
    let made = run(&daemon, in_workspace("unset", make, &workspace)).await;
    assert_eq!(made.0, Some(0), "{made:?}");
    fs::rename(workspace.join(".mcp.json"), workspace.join("servers")).unwrap();
    symlink("servers", workspace.join(".mcp.json")).unwrap();
    let (reason, message, facts) =
        refused(&daemon, in_workspace("workspace-rw", make, &workspace)).await;
    let path = workspace.join(".mcp.json").display().to_string();
    assert_eq!(
        (reason.as_str(), &facts["path"]),
        ("POLICY_UNENFORCEABLE", &path)
    );
    assert!(message.contains("`files.unset`"), "{message}");
    let made = run(&daemon, in_workspace("unset", make, &workspace)).await;
    assert_eq!(made.0, Some(0), "{made:?}");
}

#[tokio::test]
async fn what_the_configuration_of_git_names_stays_and_a_hook_with_a_second_name_is_refused() {
    let daemon = daemon().await;
    let attempts = [
        ("hooks of a team", "echo x > .team/pre-commit"),
        ("an included file", "echo x > .gitshared"),
        (
            "hooks that an included file names",
            "mkdir -p more && echo x > more/pre-push",
        ),
        (
            "the configuration of a working tree",
            "echo x > .git/config.worktree",
        ),
        (
            "the configuration of a submodule",
            "echo x > .git/modules/m/config",
        ),
        (
            "a hook of a submodule",
            "echo x > .git/modules/m/hooks/pre-commit",
        ),
    ];
    for (index, (what, script)) in attempts.into_iter().enumerate() {
        for (profile, changes) in [("without", true), ("workspace-rw", false)] {
            let workspace = repository(&daemon, &format!("{profile}-{index}"));
            let named = "[core]\nhooksPath = .team\n[include]\npath = ../.gitshared\n";
            fs::write(workspace.join(".git/config"), named).unwrap();
            fs::write(workspace.join(".gitshared"), "[core]\nhooksPath = more\n").unwrap();
            fs::create_dir(workspace.join(".team")).unwrap();
            fs::create_dir_all(workspace.join(".git/modules/m/hooks")).unwrap();
            for configuration in ["config.worktree", "modules/m/config"] {
                fs::write(workspace.join(".git").join(configuration), "").unwrap();
            }
            open_to_all(&workspace);
            let seen = run(&daemon, in_workspace(profile, script, &workspace)).await;
            assert_eq!(seen.0 == Some(0), changes, "{what}: {seen:?}");
        }
    }
    let workspace = repository(&daemon, "linked");
    let (sample, second) = (
        workspace.join(".git/hooks/sample"),
        workspace.join("second"),
    );
    fs::hard_link(&sample, &second).unwrap();
    open_to_all(&workspace);
    let change = "echo x >> second";
    let (reason, message, facts) =
        refused(&daemon, in_workspace("workspace-rw", change, &workspace)).await;
    let path = sample.display().to_string();
    assert_eq!(
        (reason.as_str(), &facts["path"]),
        ("POLICY_UNENFORCEABLE", &path)
    );
    assert!(message.contains("hard link"), "{message}");
    fs::remove_file(&second).unwrap();
    let seen = run(&daemon, in_workspace("workspace-rw", change, &workspace)).await;
    assert_eq!(seen.0, Some(0), "{seen:?}");
}

/// Ways in which the configuration of a repository has git run what lies in `.hk`. `$W` is the workspace.
const SPELLINGS: [(&str, &[u8]); 12] = [
    ("in one line", b"[core] hooksPath = .hk\n"),
    (
        "after a name that is no UTF-8",
        b"[user]\nname = Jos\xe9\n[core]\nhooksPath = .hk\n",
    ),
    ("in two lines", b"[core]\nhooksPath = \\\n .hk\n"),
    ("by the home", b"[core]\nhooksPath = ~/$UP$W/.hk\n"),
    ("by a user's home", b"[core]\nhooksPath = ~root/$UP$W/.hk\n"),
    ("by its absolute path", b"[core]\nhooksPath = $W/.hk\n"),
    ("where it may be missing", b"[core]\nhooksPath = :(optional).hk\n"),
    ("in a file of the home", b"[include]\npath = ~/$UP$W/named\n"),
    ("in a file elsewhere", b"[include]\npath = ../../outside\n"),
    (
        "in the first of many files",
        b"[include]\npath = ../named\npath = ../f\npath = ../g\npath = ../h\npath = ../i\npath = ../j\npath = ../k\npath = ../l\n\
          path = ../m\npath = ../n\npath = ../o\npath = ../p\npath = ../q\n",
    ),
    ("by a link", b"[core]\nhooksPath = links/hk\n"),
    ("in a file that a link leads to", b"[include]\npath = ../links/named\n"),
];

#[tokio::test]
async fn whatever_spelling_has_git_obey_a_path_it_stays() {
    let daemon = daemon().await;
    for (index, (what, text)) in SPELLINGS.into_iter().enumerate() {
        for (profile, changes) in [("without", true), ("workspace-rw", false)] {
            let workspace = repository(&daemon, &format!("{profile}-{index}"));
            let path = workspace.to_str().unwrap();
            // Only what has to be replaced is text.
            let text: Vec<u8> = match std::str::from_utf8(text) {
                Ok(text) => {
                    let text = text.replace("$W", path);
                    text.replace("$UP", &"../".repeat(20)).into_bytes()
                }
                Err(_) => text.to_vec(),
            };
            fs::write(workspace.join(".git/config"), text).unwrap();
            for name in ["f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q"] {
                fs::write(workspace.join(name), "").unwrap();
            }
            for (path, text) in [
                (workspace.join("named"), "[core]\nhooksPath = .hk\n"),
                (
                    daemon.workspace().join("outside"),
                    "[core]\nhooksPath = .hk\n",
                ),
                (
                    workspace.join(".git/config.worktree"),
                    "[core]\nhooksPath = .wk\n",
                ),
            ] {
                fs::write(path, text).unwrap();
            }
            for directory in [".hk", ".wk", "links"] {
                fs::create_dir(workspace.join(directory)).unwrap();
            }
            symlink("../.hk", workspace.join("links/hk")).unwrap();
            symlink("../named", workspace.join("links/named")).unwrap();
            open_to_all(&workspace);
            for hooks in [".hk", ".wk"] {
                let script = format!("echo x > {hooks}/pre-commit");
                let seen = run(&daemon, in_workspace(profile, &script, &workspace)).await;
                assert_eq!(seen.0 == Some(0), changes, "{what}, {hooks}: {seen:?}");
            }
        }
    }
    let workspace = repository(&daemon, "unread");
    fs::write(
        workspace.join(".git/config"),
        "[include]\npath = ../large\n",
    )
    .unwrap();
    fs::write(workspace.join("large"), "#".repeat(2 << 20)).unwrap();
    open_to_all(&workspace);
    let (reason, message, facts) =
        refused(&daemon, in_workspace("workspace-rw", ":", &workspace)).await;
    let large = workspace.join("large").display().to_string();
    assert_eq!(
        (reason.as_str(), &facts["path"]),
        ("POLICY_UNENFORCEABLE", &large)
    );
    assert!(message.contains("1 MiB"), "{message}");
}

#[tokio::test]
async fn what_a_repository_around_the_workspace_has_git_obey_stays_in_it() {
    let daemon = daemon().await;
    let attempts = ["hk/pre-commit", "inc", "tree/x"];
    for (index, is_linked) in [false, true].into_iter().enumerate() {
        for (profile, changes) in [("without", true), ("workspace-rw", false)] {
            let top = repository(&daemon, &format!("{profile}-{index}"));
            let named = "[core]\nhooksPath = app/hk\n[include]\npath = $T/app/inc\n";
            let named = named.replace("$T", top.to_str().unwrap());
            fs::write(top.join(".git/config"), named).unwrap();
            let of_tree = "[init]\ntemplateDir = app/tree\n";
            let workspace = top.join("app");
            for directory in ["hk", "tree", ".git"] {
                fs::create_dir_all(workspace.join(directory)).unwrap();
            }
            // As a hook could begin it in an earlier run.
            fs::write(workspace.join(".git/config"), "").unwrap();
            fs::write(workspace.join("inc"), "").unwrap();
            let repository = if is_linked {
                let common = daemon.workspace().join(format!("{profile}-common"));
                fs::rename(top.join(".git"), &common).unwrap();
                let linked = common.join("worktrees/one");
                fs::create_dir_all(&linked).unwrap();
                fs::write(linked.join("commondir"), "../..\n").unwrap();
                let link = format!("gitdir: {}\n", linked.display());
                fs::write(top.join(".git"), link).unwrap();
                linked
            } else {
                top.join(".git")
            };
            fs::write(repository.join("config.worktree"), of_tree).unwrap();
            open_to_all(&workspace);
            for file in attempts {
                let script = format!("echo x >> {file}");
                let seen = run(&daemon, in_workspace(profile, &script, &workspace)).await;
                assert_eq!(seen.0 == Some(0), changes, "{file}, {is_linked}: {seen:?}");
            }
            let free = in_workspace(profile, "echo x >> free", &workspace);
            assert_eq!(run(&daemon, free).await.0, Some(0), "{profile}");
        }
    }
    // By links of the repository around, and in one without a working tree.
    for (profile, changes) in [("without", true), ("workspace-rw", false)] {
        let top = repository(&daemon, &format!("{profile}-links"));
        let workspace = top.join("app");
        fs::create_dir_all(workspace.join("hk")).unwrap();
        for (file, link) in [
            ("hk/post-merge", ".git/hooks"),
            ("pre-push.sh", ".husky/pre-push"),
        ] {
            fs::write(workspace.join(file), "").unwrap();
            let target = workspace.join(file.split('/').next().unwrap());
            fs::create_dir_all(top.join(".husky")).unwrap();
            fs::remove_dir_all(top.join(link)).ok();
            symlink(target, top.join(link)).unwrap();
        }
        fs::write(top.join(".git/config"), "[core]\nhooksPath = .husky\n").unwrap();
        let bare = daemon.workspace().join(format!("{profile}-bare"));
        for directory in ["objects", "refs", "hooks"] {
            fs::create_dir_all(bare.join(directory)).unwrap();
        }
        for file in ["HEAD", "config"] {
            fs::write(bare.join(file), "").unwrap();
        }
        for workspace in [&workspace, &bare] {
            open_to_all(workspace);
        }
        for (workspace, script) in [
            (&workspace, "echo x > hk/pre-commit"),
            (&workspace, "echo x > pre-push.sh"),
            (&bare, "echo x > hooks/pre-commit"),
            (&bare, "echo x > config"),
        ] {
            let seen = run(&daemon, in_workspace(profile, script, workspace)).await;
            assert_eq!(seen.0 == Some(0), changes, "{script}: {seen:?}");
            let free = in_workspace(profile, "echo x >> free", workspace);
            assert_eq!(run(&daemon, free).await.0, Some(0), "{profile}");
        }
    }
    // A directory that the repository around has git run is no workspace.
    let top = repository(&daemon, "whole");
    fs::create_dir(top.join(".githooks")).unwrap();
    fs::write(top.join(".git/config"), "[core]\nhooksPath = .githooks\n").unwrap();
    let hooks = top.join(".githooks");
    let (reason, message, _) = refused(&daemon, in_workspace("workspace-rw", ":", &hooks)).await;
    assert_eq!(reason, "POLICY_UNENFORCEABLE");
    assert!(message.contains("whose files git obeys"), "{message}");
}

#[tokio::test]
async fn the_configuration_of_git_counts_where_the_daemons_environment_has_it() {
    let elsewhere = directory();
    let daemon = Daemon::with(Setup {
        profiles: vec![("without".to_owned(), WITHOUT.to_owned())],
        env: vec![(
            "XDG_CONFIG_HOME".to_owned(),
            elsewhere.path().to_str().unwrap().to_owned(),
        )],
        ..Setup::default()
    })
    .await;
    fs::create_dir(elsewhere.path().join("git")).unwrap();
    let named = "[core]\nhooksPath = .hk\n";
    fs::write(elsewhere.path().join("git/config"), named).unwrap();
    open_to_all(elsewhere.path());
    for (profile, changes) in [("without", true), ("workspace-rw", false)] {
        let workspace = repository(&daemon, profile);
        fs::create_dir(workspace.join(".hk")).unwrap();
        open_to_all(&workspace);
        let change = in_workspace(profile, "echo x > .hk/pre-commit", &workspace);
        let seen = run(&daemon, change).await;
        assert_eq!(seen.0 == Some(0), changes, "{profile}: {seen:?}");
    }
}

#[tokio::test]
async fn what_links_among_obeyed_paths_lead_to_stays_too() {
    let daemon = daemon().await;
    let attempts = [
        (".claude/settings.local.json", "../shared/one", "shared/one"),
        (
            ".claude/skills",
            "../shared/skills",
            "shared/skills/x/SKILL.md",
        ),
        (".codex/prompts/x.md", "../../shared/one", "shared/one"),
        (
            ".agents/skills/x",
            "../../shared/skills/x",
            "shared/skills/x/SKILL.md",
        ),
        (".git/hooks/pre-commit", "../../shared/one", "shared/one"),
        (".husky/pre-commit", "../shared/one", "shared/one"),
        (".team/pre-commit", "../shared/one", "shared/one"),
        // A link of a link, within what stays.
        (
            ".claude/commands/x.md",
            "../../.claude/hooks/x",
            "shared/one",
        ),
    ];
    let prepare = |name: &str| {
        let workspace = of_an_agent(&daemon, name);
        fs::write(workspace.join(".git/config"), "[core]\nhooksPath = .team\n").unwrap();
        for directory in [
            ".agents/skills",
            ".claude/commands",
            ".claude/hooks",
            ".codex/prompts",
            ".husky",
            ".team",
            "shared/skills/x",
        ] {
            fs::create_dir_all(workspace.join(directory)).unwrap();
        }
        for file in ["shared/one", "shared/skills/x/SKILL.md", "shared/free"] {
            fs::write(workspace.join(file), "as it was").unwrap();
        }
        symlink("../../shared/one", workspace.join(".claude/hooks/x")).unwrap();
        workspace
    };
    for (index, (link, leads, file)) in attempts.into_iter().enumerate() {
        for (profile, changes) in [("without", true), ("workspace-rw", false)] {
            let workspace = prepare(&format!("{profile}-{index}"));
            symlink(leads, workspace.join(link)).unwrap();
            open_to_all(&workspace);
            for script in [format!("echo x > {file}"), format!("mv {file} moved")] {
                let seen = run(&daemon, in_workspace(profile, &script, &workspace)).await;
                assert_eq!(seen.0 == Some(0), changes, "{link}: {script}: {seen:?}");
            }
            let free = in_workspace(
                profile,
                "echo x > shared/free && mv shared/free moved",
                &workspace,
            );
            let seen = run(&daemon, free).await;
            assert_eq!(seen.0, Some(0), "{link}: {seen:?}");
        }
    }
    for (index, (leads, words)) in [
        ("../missing", "leads to a missing file"),
        ("..", "around the workspace"),
        ("../../..", "around the workspace"),
        ("../through/one", "leads through another"),
        ("../second", "hard link"),
        ("/proc/self/cwd/shared/one", "by way of `/proc`"),
        ("/dev/fd/0", "by way of `/proc`"),
    ]
    .into_iter()
    .enumerate()
    {
        let workspace = prepare(&format!("refused-{index}"));
        symlink("shared", workspace.join("through")).unwrap();
        fs::write(workspace.join("first"), "").unwrap();
        fs::hard_link(workspace.join("first"), workspace.join("second")).unwrap();
        let link = workspace.join(".claude/settings.local.json");
        symlink(leads, &link).unwrap();
        open_to_all(&workspace.join("shared"));
        let (reason, message, facts) =
            refused(&daemon, in_workspace("workspace-rw", ":", &workspace)).await;
        let path = link.display().to_string();
        assert_eq!(
            (reason.as_str(), &facts["path"]),
            ("POLICY_UNENFORCEABLE", &path),
            "{message}"
        );
        assert!(
            message.contains(words) && message.contains("`files.unset`"),
            "{message}"
        );
    }
    // Links to places that no hook reaches, existing or not, cause no refusal.
    let workspace = prepare("elsewhere");
    symlink("/usr/lib", workspace.join(".claude/settings.local.json")).unwrap();
    fs::create_dir(workspace.join(".vscode")).unwrap();
    symlink("/nonexistent/x", workspace.join(".vscode/x")).unwrap();
    open_to_all(&workspace.join("shared"));
    let seen = run(
        &daemon,
        in_workspace("workspace-rw", "echo x > shared/free", &workspace),
    )
    .await;
    assert_eq!(seen.0, Some(0), "{seen:?}");
}

#[tokio::test]
async fn a_file_of_hooks_with_a_second_name_is_refused_wherever_hooks_lie() {
    let daemon = daemon().await;
    for (index, directory) in [".team", ".husky", ".claude/hooks", ".git/hooks"]
        .into_iter()
        .enumerate()
    {
        let workspace = of_an_agent(&daemon, &format!("second-{index}"));
        fs::write(workspace.join(".git/config"), "[core]\nhooksPath = .team\n").unwrap();
        fs::create_dir_all(workspace.join(directory)).unwrap();
        let hook = workspace.join(directory).join("x");
        fs::write(&hook, "").unwrap();
        fs::hard_link(&hook, workspace.join("second")).unwrap();
        open_to_all(&workspace);
        let request = || in_workspace("workspace-rw", "echo x >> second", &workspace);
        let (reason, message, facts) = refused(&daemon, request()).await;
        let path = hook.display().to_string();
        assert_eq!(
            (reason.as_str(), &facts["path"]),
            ("POLICY_UNENFORCEABLE", &path),
            "{message}"
        );
        assert!(message.contains("hard link"), "{message}");
        fs::remove_file(workspace.join("second")).unwrap();
        assert_eq!(run(&daemon, request()).await.0, Some(0), "{directory}");
    }
}

#[tokio::test]
async fn what_is_hidden_in_what_stays_opens_nothing_of_it() {
    let hides = "description = \"x\"\nextends = \"workspace-rw\"\n[files]\nhidden = [\".env\"]\n";
    let daemon = Daemon::with(Setup {
        profiles: vec![("hides".to_owned(), hides.to_owned())],
        ..Setup::default()
    })
    .await;
    let workspace = of_an_agent(&daemon, "hides");
    fs::create_dir_all(workspace.join(".claude/skills/x")).unwrap();
    fs::write(workspace.join(".claude/skills/x/.env"), "hidden").unwrap();
    open_to_all(&workspace);
    let script = "cat .claude/skills/x/.env || echo x > .claude/skills/x/SKILL.md";
    let seen = run(&daemon, in_workspace("hides", script, &workspace)).await;
    assert_ne!(seen.0, Some(0), "{seen:?}");
    assert_eq!(seen.1, "");
    assert!(!workspace.join(".claude/skills/x/SKILL.md").exists());
}

#[tokio::test]
async fn what_links_of_the_home_have_in_a_workspace_stays_or_is_hidden() {
    if nix::unistd::geteuid().is_root() {
        // Hooks have users of their own: the home of root's daemon is not theirs.
        return;
    }
    let daemon = daemon().await;
    let (home, workspace) = (daemon.path(), repository(&daemon, "dotfiles"));
    for (path, text) in [
        ("dotfiles/claude/settings.json", "{}"),
        ("dotfiles/githooks/pre-commit", ""),
        ("dotfiles/shell/bashrc", ""),
        ("dotfiles/ssh/id", "the key"),
    ] {
        let path = daemon.workspace().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    open_to_all(&workspace);
    let links = [
        (".ssh", workspace.join("ssh")),
        (".bashrc", workspace.join("shell/bashrc")),
        (
            ".claude/settings.json",
            workspace.join("claude/settings.json"),
        ),
    ];
    let attempts = [
        ("cat ssh/id", "workspace-ro"),
        ("cat ssh/id", "workspace-rw"),
        ("echo x >> ssh/id", "workspace-rw"),
        ("mv ssh moved && cat moved/id; mv moved ssh", "workspace-rw"),
        ("echo x >> shell/bashrc", "workspace-rw"),
        ("mv shell moved && mv moved shell", "workspace-rw"),
        ("echo x >> claude/settings.json", "workspace-rw"),
        ("echo x >> githooks/pre-commit", "workspace-rw"),
    ];
    // The control: without the links it is a project as any other.
    for (script, profile) in attempts {
        let seen = run(&daemon, in_workspace(profile, script, &workspace)).await;
        assert_eq!(seen.0, Some(0), "{script}: {seen:?}");
    }
    fs::create_dir(home.join(".claude")).unwrap();
    for (path, leads) in links {
        symlink(leads, home.join(path)).unwrap();
    }
    let hooks = workspace.join("githooks").display().to_string();
    fs::write(
        home.join(".gitconfig"),
        format!("[core] hooksPath = {hooks}\n"),
    )
    .unwrap();
    for (script, profile) in attempts {
        let answer = daemon.run(in_workspace(profile, script, &workspace)).await;
        let outcome = answer.map(|answer| answer.outcome.unwrap().exit_code);
        assert_ne!(outcome.ok().flatten(), Some(0), "{profile}: {script}");
    }
    let seen = run(
        &daemon,
        in_workspace("workspace-rw", "echo x > shell/zshrc", &workspace),
    )
    .await;
    assert_eq!(seen.0, Some(0), "{seen:?}");

    // Where nothing is mounted, or the workspace is such a place, nothing runs.
    let ssh = home.join(".ssh").display().to_string();
    for (profile, workspace, path, fix) in [
        ("workspace-ro", workspace.clone(), &ssh, "as `develop`"),
        ("workspace-ro", workspace.join("ssh"), &ssh, "have the link"),
        (
            "workspace-rw",
            workspace.join("githooks"),
            &hooks,
            "core.hooksPath",
        ),
    ] {
        let (reason, message, facts) =
            refused(&daemon, in_workspace(profile, ":", &workspace)).await;
        assert_eq!(
            (reason.as_str(), &facts["path"]),
            ("POLICY_UNENFORCEABLE", path),
            "{message}"
        );
        assert!(message.contains(fix), "{message}");
    }
}
