//! Commands that work under the shipped profiles, rights that an operator must grant, and profiles that are refused at load.

#![expect(
    clippy::disallowed_methods,
    reason = "tests make repositories with git itself"
)]

use std::{
    fs::{self, Permissions},
    net::{TcpListener, UdpSocket},
    os::unix::{
        fs::{PermissionsExt, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    process::Command,
};

use hookjail::pb;
use tempfile::TempDir;
use tonic_types::StatusExt;

use crate::{
    attempts::{Probe, run},
    support::{Daemon, Setup, contained, directory, field, hook, program, reason, sh},
    witness::{Again, CommandLine, hookjail},
};

/// Runs a command under a profile; returns exit code, stdout and stderr.
async fn outcome(
    daemon: &Daemon,
    mut request: pb::ExecuteRequest,
    profile: &str,
    workspace: Option<&Path>,
) -> (Option<i32>, String, String) {
    profile.clone_into(&mut request.profile);
    if let Some(workspace) = workspace {
        request.hook.as_mut().unwrap().workspace = workspace.display().to_string();
    }
    let response = daemon.run(request).await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        response.outcome.unwrap().exit_code,
        text(&response.stdout),
        text(&response.stderr),
    )
}

fn success(text: &str) -> (Option<i32>, String, String) {
    (Some(0), text.to_owned(), String::new())
}

/// Lets every user read a tree.
fn open_to_all(path: &Path) {
    let mode = if path.is_dir() { 0o755 } else { 0o644 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            open_to_all(&entry.unwrap().path());
        }
    }
}

#[tokio::test]
async fn a_shell_works_under_strict() {
    let daemon = Daemon::start().await;

    let script = r#"set -eu; x=1; while [ $x -lt 4 ]; do x=$((x+1)); done; case $x in 4) printf '%s\n' "${x}th";; esac"#;
    let built_ins = outcome(&daemon, hook(["/bin/sh", "-c", script]), "strict", None).await;

    assert_eq!(built_ins, success("4th\n"));
}

#[tokio::test]
async fn pipes_substitution_and_background_jobs_work_under_pipeline() {
    let daemon = Daemon::start().await;
    let script = r#"printf 'b\na\n' | sort | tr '\n' ' '; x=$(printf %s "$(echo inner)"); (exit 3) & wait $!; echo "$x $?""#;

    let pipeline = outcome(&daemon, hook(["/bin/sh", "-c", script]), "pipeline", None).await;
    let strict = outcome(&daemon, hook(["/bin/sh", "-c", script]), "strict", None).await;

    assert_eq!(pipeline, success("a b inner 3\n"));
    // `strict` lacks what `pipeline` adds.
    assert_ne!(strict.0, Some(0));
    assert_eq!(strict.1, "");
}

#[tokio::test]
async fn a_workspace_is_where_a_hook_starts_and_is_read_only_or_writable_as_the_profile_says() {
    let daemon = Daemon::start().await;
    let workspace = daemon.workspace().join("project");
    fs::create_dir(&workspace).unwrap();
    fs::write(workspace.join("file"), "content").unwrap();
    fs::write(workspace.join("tool"), "#!/bin/sh\necho tool\n").unwrap();
    open_to_all(&workspace);
    fs::set_permissions(&workspace, fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(workspace.join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    let script = "pwd; cat file; ./tool; mkdir made 2>/dev/null && echo new > made/file && chmod 755 made made/file; echo $?";
    let request = || hook(["/bin/sh", "-c", script]);
    let seen = |code| {
        let path = workspace.display();
        (
            Some(0),
            format!("{path}\ncontenttool\n{code}\n"),
            String::new(),
        )
    };

    let read_only = outcome(&daemon, request(), "workspace-ro", Some(&workspace)).await;
    assert_eq!(read_only, seen(1));
    assert!(!workspace.join("made").exists());

    let writable = outcome(&daemon, request(), "workspace-rw", Some(&workspace)).await;
    assert_eq!(writable, seen(0));
    assert_eq!(
        fs::read_to_string(workspace.join("made/file")).unwrap(),
        "new\n"
    );
}

/// A refusal of what the harness left out would otherwise pass for any other.
#[tokio::test]
#[should_panic(expected = "name it in `shipped` of the set-up")]
async fn a_test_that_asks_for_a_shipped_profile_that_its_daemon_lacks_fails() {
    let daemon = Daemon::start().await;
    daemon.run(sh("network", ":")).await.unwrap_err();
}

#[tokio::test]
async fn a_workspace_profile_without_a_workspace_and_a_workspace_below_no_root_are_refused() {
    let daemon = Daemon::start().await;

    let unbound = daemon.run(sh("workspace-ro", ":")).await.unwrap_err();
    let mut elsewhere = sh("workspace-ro", ":");
    elsewhere.hook.as_mut().unwrap().workspace = "/usr".to_owned();
    let elsewhere = daemon.run(elsewhere).await.unwrap_err();

    let expected = ("INVALID_REQUEST".to_owned(), "hook.workspace".to_owned());
    assert_eq!((reason(&unbound), field(&unbound)), expected);
    assert_eq!((reason(&elsewhere), field(&elsewhere)), expected);
}

/// An operator who grants a profile to these commands.
fn granting(profile: &str, commands: &[Vec<String>]) -> Setup {
    let entries = commands
        .iter()
        .map(|command| format!("[[hook]]\ncommand = {command:?}\nprofiles = [{profile:?}]\n"));
    Setup {
        config: entries.collect(),
        ..Setup::default()
    }
}

/// Makes a daemon whose operator grants the network to these commands.
async fn granting_network(commands: &[Vec<String>]) -> Daemon {
    Daemon::with(granting("network", commands)).await
}

/// A home with a tool, a configuration of git, a key, and what a shell runs at its start.
fn home() -> TempDir {
    let home = directory();
    for (path, text) in [
        (".bashrc", ""),
        (".gitconfig", "[user]\nname = Ada\n"),
        (".local/bin/tool", "#!/bin/sh\necho tool\n"),
        (".ssh/id", "key\n"),
    ] {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let tool = home.path().join(".local/bin/tool");
    fs::set_permissions(tool, Permissions::from_mode(0o755)).unwrap();
    home
}

/// Attempts of a hook in a home.
const AT_HOME: &str = "tool; git config user.name; cat ~/.ssh/id || echo no key
    for file in ~/.bashrc ~/.local/bin/evil ~/.gitconfig; do (echo evil >$file) && echo written || echo refused; done
    cat $XDG_CACHE_HOME/kept || echo nothing kept; echo kept >$XDG_CACHE_HOME/kept
    echo made >file && cat file";

#[tokio::test]
async fn develop_has_the_tools_of_the_home_and_a_cache_that_lasts_and_reaches_no_keys() {
    let (mine, others) = (home(), home());
    // The control: where nothing confines, all of it works.
    let free = Command::new("/bin/sh")
        .args(["-c", AT_HOME])
        .current_dir(others.path())
        .env("HOME", others.path())
        .env(
            "PATH",
            format!("{}/.local/bin:/usr/bin:/bin", others.path().display()),
        )
        .env("XDG_CACHE_HOME", others.path())
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&free.stdout),
        "tool\nAda\nkey\nwritten\nwritten\nwritten\nnothing kept\nmade\n"
    );

    let request = || hook(["/bin/sh", "-c", AT_HOME]);
    let command = request().hook.unwrap().argv;
    let mut setup = granting("develop", &[command]);
    setup.env = vec![
        ("HOME".to_owned(), mine.path().display().to_string()),
        (
            "XDG_CACHE_HOME".to_owned(),
            mine.path().join("caches").display().to_string(),
        ),
    ];
    let daemon = Daemon::with(setup).await;
    let workspace = daemon.workspace();
    let printed = async || {
        let (code, out, _) = outcome(&daemon, request(), "develop", Some(&workspace)).await;
        assert_eq!(code, Some(0));
        out
    };
    if nix::unistd::geteuid().is_root() || contained() {
        // Hooks have users of their own, or roots, and such a user has no home.
        assert!(!printed().await.contains("Ada"));
        return;
    }
    for kept in ["nothing kept", "kept"] {
        assert_eq!(
            printed().await,
            format!("tool\nAda\nno key\nrefused\nrefused\nrefused\n{kept}\nmade\n")
        );
    }
    for file in [".bashrc", ".gitconfig"] {
        let text = fs::read_to_string(mine.path().join(file)).unwrap();
        assert!(!text.contains("evil"), "{file}");
    }
    assert!(!mine.path().join(".local/bin/evil").exists());
}

/// Writes a program.
fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

/// The `PATH` of a session begins in the project, where its agent writes.
#[tokio::test]
async fn no_file_of_the_workspace_takes_the_name_of_an_interpreter_and_a_virtual_environment_does()
{
    let hook_text = "#!/usr/bin/env sh\nsh -c 'echo good' | cat\nproject-tool\n";
    let mine = home();
    let path = mine.path().join("hook");
    executable(&path, hook_text);
    let mut setup = granting("develop", &[vec![path.display().to_string()]]);
    setup.env = vec![("HOME".to_owned(), mine.path().display().to_string())];
    let daemon = Daemon::with(setup).await;
    let workspace = daemon.workspace().to_owned();
    let bin = workspace.join("bin");
    fs::create_dir(&bin).unwrap();
    executable(&bin.join("project-tool"), "#!/bin/sh\necho tool\n");
    let printed = async || {
        let mut request = hook([path.to_str().unwrap()]);
        let named = request.hook.as_mut().unwrap();
        let of_session = format!("{}:/usr/bin:/bin", bin.display());
        named.env.insert("PATH".to_owned(), of_session);
        outcome(&daemon, request, "develop", Some(&workspace))
            .await
            .1
    };
    // The control: as in a virtual environment, the name leads to the interpreter of another directory.
    symlink("/bin/sh", bin.join("sh")).unwrap();
    assert_eq!(printed().await, "good\ntool\n");
    fs::remove_file(bin.join("sh")).unwrap();
    executable(&bin.join("sh"), "#!/bin/sh\necho evil\n");
    assert_eq!(printed().await, "good\ntool\n");
}

/// Leaves a file in a cache, links it into the project, and prints what is there.
const IN_CACHE: &str = "echo $XDG_CACHE_HOME; cat $XDG_CACHE_HOME/uv/six.py 2>/dev/null || echo none; mkdir -p $XDG_CACHE_HOME/uv
    echo planted >$XDG_CACHE_HOME/uv/six.py; ln $XDG_CACHE_HOME/uv/six.py six.py 2>/dev/null && echo linked || echo not linked
    (echo planted >>$(cat other)/uv/six.py) 2>/dev/null && echo changed || echo not changed";

#[tokio::test]
async fn a_cache_is_of_one_workspace_and_no_hard_link_leads_out_of_it() {
    let mine = home();
    let neighbour = mine.path().join("beside");
    fs::create_dir_all(neighbour.join("uv")).unwrap();
    fs::write(mine.path().join("other"), neighbour.to_str().unwrap()).unwrap();
    let bare = Command::new("/bin/sh")
        .args(["-c", IN_CACHE])
        .current_dir(mine.path())
        .env("XDG_CACHE_HOME", mine.path().join("bare"))
        .output()
        .unwrap();
    let bare = String::from_utf8(bare.stdout).unwrap();
    assert!(bare.ends_with("none\nlinked\nchanged\n"), "{bare}");

    let request = || hook(["/bin/sh", "-c", IN_CACHE]);
    let mut setup = granting("develop", &[request().hook.unwrap().argv]);
    setup.env = vec![
        ("HOME".to_owned(), mine.path().display().to_string()),
        (
            "XDG_CACHE_HOME".to_owned(),
            mine.path().join("caches").display().to_string(),
        ),
    ];
    let daemon = Daemon::with(setup).await;
    if nix::unistd::geteuid().is_root() || contained() {
        // Such hooks have no cache.
        let workspace = daemon.workspace();
        let (_, out, _) = outcome(&daemon, request(), "develop", Some(&workspace)).await;
        assert!(out.starts_with('\n'), "{out}");
        return;
    }
    let all = mine.path().join("caches/hookjail");
    let mut other = neighbour.display().to_string();
    for project in ["a", "b"] {
        let workspace = daemon.workspace().join(project);
        fs::create_dir(&workspace).unwrap();
        fs::write(workspace.join("other"), &other).unwrap();
        for found in ["none", "planted"] {
            let ran = outcome(&daemon, request(), "develop", Some(&workspace)).await;
            let (cache, rest) = ran.1.split_once('\n').unwrap();
            assert_eq!(
                rest,
                format!("{found}\nnot linked\nnot changed\n"),
                "{project}"
            );
            assert!(Path::new(cache).starts_with(&all), "{cache}");
            cache.clone_into(&mut other);
        }
        assert!(!workspace.join("six.py").exists());
    }
}

/// Files of tools and of clones, with what they may hold: an address or a setting, and the same with a token.
const OF_TOOLS: [(&str, &str, &str); 8] = [
    (
        ".cargo/config.toml",
        "[build]\njobs = 2\n",
        "[registries.own]\ntoken = \"hidden\"\n",
    ),
    (
        ".cargo/git/db/a/config",
        "[remote \"origin\"]\nurl = https://forge.example/a\n",
        "[remote \"origin\"]\nurl = https://ada:hidden@forge.example/a\n",
    ),
    (
        ".claude/plugins/marketplaces/m/.git/config",
        "[remote \"origin\"]\nurl = git@forge.example:m\n",
        "[remote \"origin\"]\nurl = https://hidden@forge.example/m\n",
    ),
    (
        ".local/share/uv/tools/t/uv-receipt.toml",
        "[tool]\nrequirements = []\n",
        "[tool]\nindex = \"https://ada:hidden@own.example/simple\"\n",
    ),
    (
        ".nvm/versions/node/v22/etc/npmrc",
        "prefix=/usr\n",
        "//own.example/:_authToken=hidden\n",
    ),
    (
        ".pyenv/versions/3.13/pip.conf",
        "[global]\ntimeout = 9\n",
        "[global]\nproxy = ada:hidden@proxy.example:3128\n",
    ),
    (
        ".rbenv/.git/config",
        "[core]\nbare = false\n",
        "[remote \"origin\"]\nurl = https://ada:hidden@forge.example/m\n",
    ),
    (
        ".sdkman/candidates/maven/3.9/conf/settings.xml",
        "<settings><!-- <password>an example</password> --></settings>\n",
        "<settings><server><password>hidden</password></server></settings>\n",
    ),
];

#[tokio::test]
async fn files_of_tools_and_clones_are_closed_where_they_hold_a_token() {
    let mine = home();
    let lay = |with_token: bool| {
        for (path, text, with) in OF_TOOLS {
            let path = mine.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, if with_token { with } else { text }).unwrap();
        }
    };
    let paths = OF_TOOLS.map(|(path, ..)| format!("~/{path}")).join(" ");
    let script = format!(
        "for file in {paths}; do cat $file >$TMPDIR/it 2>/dev/null && cat $TMPDIR/it || echo closed; done"
    );
    let request = || hook(["/bin/sh", "-c", &script]);
    let mut setup = granting("develop", &[request().hook.unwrap().argv]);
    setup.env = vec![("HOME".to_owned(), mine.path().display().to_string())];
    let daemon = Daemon::with(setup).await;
    let workspace = daemon.workspace();
    let printed = async || {
        outcome(&daemon, request(), "develop", Some(&workspace))
            .await
            .1
    };
    lay(false);
    let open = printed().await;
    lay(true);
    let closed = printed().await;
    assert!(!closed.contains("hidden"), "{closed}");
    if nix::unistd::geteuid().is_root() || contained() {
        // Grants of a home fall away then.
        return;
    }
    assert_eq!(open, OF_TOOLS.map(|(_, text, _)| text).concat());
    assert_eq!(closed, "closed\n".repeat(OF_TOOLS.len()));
}

#[tokio::test]
async fn a_link_in_the_place_of_what_a_part_grants_leads_to_no_keys() {
    let mine = home();
    let modules = mine.path().join("go/pkg/mod");
    fs::create_dir_all(&modules).unwrap();
    fs::write(modules.join("id"), "module\n").unwrap();
    let request = || {
        hook([
            "/bin/sh",
            "-c",
            "cat ~/go/pkg/mod/id; cat ~/.ssh/id 2>/dev/null || echo no key; git config user.name",
        ])
    };
    let mut setup = granting("develop", &[request().hook.unwrap().argv]);
    setup.env = vec![("HOME".to_owned(), mine.path().display().to_string())];
    let daemon = Daemon::with(setup).await;
    let workspace = daemon.workspace();
    if nix::unistd::geteuid().is_root() || contained() {
        // Grants of a home fall away then.
        let (_, out, _) = outcome(&daemon, request(), "develop", Some(&workspace)).await;
        assert!(!out.contains("module"), "{out}");
        return;
    }
    let ran = async || {
        outcome(&daemon, request(), "develop", Some(&workspace))
            .await
            .1
    };
    assert_eq!(ran().await, "module\nno key\nAda\n");
    // The control: links to other places of the home are followed, even where files are closed there.
    fs::rename(&modules, mine.path().join("go/modules")).unwrap();
    symlink("../modules", &modules).unwrap();
    fs::create_dir(mine.path().join("dotfiles")).unwrap();
    let (configured, kept) = (".gitconfig", "dotfiles/gitconfig");
    fs::rename(mine.path().join(configured), mine.path().join(kept)).unwrap();
    symlink(kept, mine.path().join(configured)).unwrap();
    assert_eq!(ran().await, "module\nno key\nAda\n");
    let mut refused_request = request();
    refused_request.profile = "develop".to_owned();
    refused_request.hook.as_mut().unwrap().workspace = workspace.display().to_string();
    for target in ["../../.ssh", "../..", "../../.config"] {
        fs::create_dir_all(mine.path().join(".config")).unwrap();
        fs::remove_file(&modules).unwrap();
        symlink(target, &modules).unwrap();
        let refused = daemon.run(refused_request.clone()).await.unwrap_err();
        assert_eq!(reason(&refused), "GRANT_MISSING", "{target}");
        let named = format!("granted path `{}` leads to `", modules.display());
        assert!(refused.message().contains(&named), "{}", refused.message());
    }
    // A directory above it, too.
    fs::remove_file(&modules).unwrap();
    fs::remove_dir_all(mine.path().join("go/pkg")).unwrap();
    fs::create_dir(mine.path().join(".ssh/mod")).unwrap();
    symlink("../.ssh", mine.path().join("go/pkg")).unwrap();
    let refused = daemon.run(refused_request).await.unwrap_err();
    assert_eq!(reason(&refused), "GRANT_MISSING");
}

/// Prints what a shell finds of the machine, of its devices and limits, and of its caller.
const OF_THE_MACHINE: &str = "head -n 1 /etc/passwd; . /etc/profile && echo profile; echo $USER $TERM
    od -An -tx1 -N2 /dev/zero; (echo x >/dev/full) 2>/dev/null || echo full; head -c 1 /dev/random | wc -c
    if [ $(ulimit -n) -gt 256 ]; then echo many; fi; if (trap '' XFSZ; dd if=/dev/zero of=large bs=1 count=1 seek=64M) 2>/dev/null; then echo large; fi
    echo x >made; mkdir dir; stat -c %a made dir";

#[tokio::test]
async fn under_develop_the_machine_is_as_without_hookjail() {
    let free = directory();
    let bare = Command::new("/bin/sh")
        .args([
            "-c",
            &format!("umask 022; ulimit -n 1024; {OF_THE_MACHINE}"),
        ])
        .current_dir(free.path())
        .env("USER", "ada")
        .env("TERM", "dumb")
        .output()
        .unwrap();
    let bare = String::from_utf8(bare.stdout).unwrap();
    assert!(bare.ends_with("full\n1\nmany\nlarge\n644\n755\n"), "{bare}");

    let mut request = hook(["/bin/sh", "-c", OF_THE_MACHINE]);
    let hook = request.hook.as_mut().unwrap();
    hook.env.insert("USER".to_owned(), "ada".to_owned());
    let command = hook.argv.clone();
    let daemon = Daemon::with(granting("develop", &[command])).await;
    let workspace = daemon.workspace().join("project");
    fs::create_dir(&workspace).unwrap();
    fs::set_permissions(&workspace, Permissions::from_mode(0o777)).unwrap();
    let confined = outcome(&daemon, request, "develop", Some(&workspace)).await;
    assert_eq!(confined, success(&bare));

    // The smaller profiles have none of the machine's files, fewer descriptors, and leave no file open to others.
    let script = "(head -n 1 /etc/passwd) 2>/dev/null || echo none; ulimit -n; echo x >$TMPDIR/made; stat -c %a $TMPDIR/made";
    let small = outcome(&daemon, sh("pipeline", script), "pipeline", None).await;
    assert_eq!(small, success("none\n256\n600\n"));
}

#[tokio::test]
async fn a_hook_that_may_change_modes_makes_files_with_the_umask_of_its_caller() {
    const MAKES: &str = "echo x >made; mkdir dir";
    let daemon = Daemon::with(granting("workspace-rw", &[])).await;
    let printed_with = async |profile: &str, umask: Option<u32>| {
        let mut request = sh(
            profile,
            &format!("cd $TMPDIR; {MAKES}; stat -c %a made dir; rm -r made dir"),
        );
        request.hook.as_mut().unwrap().umask = umask;
        let workspace = (profile != "pipeline").then(|| daemon.workspace());
        outcome(&daemon, request, profile, workspace.as_deref()).await
    };
    for (umask, expected) in [
        (None, "644\n755\n"),
        (Some(0o002), "664\n775\n"),
        (Some(0o077), "600\n700\n"),
        (Some(0), "666\n777\n"),
    ] {
        assert_eq!(printed_with("workspace-rw", umask).await, success(expected));
        assert_eq!(printed_with("pipeline", umask).await, success("600\n700\n"));
    }

    // The command line asks for its own; the bare run is the same shell's.
    let line = CommandLine::new();
    let workspace = line.path().join("workspace");
    fs::create_dir(&workspace).unwrap();
    for (path, mode) in [(line.path(), 0o755), (&workspace, 0o777)] {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let confined = format!(
        "{:?} --config {:?} run --profile workspace-rw --workspace . -- /bin/sh -c '{MAKES}'",
        program(),
        line.path().join("hookjail.toml")
    );
    for run in [&confined, MAKES] {
        let output = Command::new("/bin/sh")
            .args(["-c", &format!("umask 027; {run}")])
            .current_dir(&workspace)
            .env("HOME", line.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{run}: {output:?}");
        let mode = |name| {
            fs::metadata(workspace.join(name))
                .unwrap()
                .permissions()
                .mode()
                & 0o777
        };
        assert_eq!(["made", "dir"].map(mode), [0o640, 0o750], "{run}");
        fs::remove_file(workspace.join("made")).unwrap();
        fs::remove_dir(workspace.join("dir")).unwrap();
    }
}

#[tokio::test]
async fn a_pattern_grants_what_matches_when_a_run_begins_and_nothing_else() {
    let places = directory();
    let path = places.path().display();
    fs::write(places.path().join("java-1"), "one\n").unwrap();
    fs::write(places.path().join("other"), "other\n").unwrap();
    open_to_all(places.path());
    let profile = format!(
        "description = \"d\"\nextends = \"pipeline\"\n[files]\nsystem = [{{ path = \"{path}/java-*\", access = \"read\", optional = true }}]\n"
    );
    let daemon = Daemon::with(Setup {
        profiles: vec![("versions".to_owned(), profile)],
        ..Setup::default()
    })
    .await;
    let script = format!(
        "cd {path}; for file in java-1 java-2 other; do cat $file 2>/dev/null || echo none; done"
    );
    let confined = async || outcome(&daemon, sh("versions", &script), "versions", None).await;

    assert_eq!(confined().await, success("one\nnone\nnone\n"));
    fs::write(places.path().join("java-2"), "two\n").unwrap();
    open_to_all(places.path());
    assert_eq!(confined().await, success("one\ntwo\nnone\n"));
    let bare = Command::new("/bin/sh")
        .args(["-c", &script])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(bare.stdout).unwrap(), "one\ntwo\nother\n");
}

#[tokio::test]
async fn the_network_is_the_operators_to_grant_command_by_command() {
    let probe = Probe::build();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let words = [
        "tcp".to_owned(),
        listener.local_addr().unwrap().port().to_string(),
    ];
    let request = || probe.hook("network", &words);

    let daemon = Daemon::offering(&["network"]).await;
    let status = daemon.run(request()).await.unwrap_err();
    assert_eq!(reason(&status), "NOT_ALLOWLISTED");
    assert!(listener.accept().is_err());

    let command = request().hook.unwrap().argv;
    let daemon = granting_network(&[command]).await;
    let granted = run(&daemon, request()).await;
    assert_eq!((granted.code, listener.accept().is_ok()), (Some(0), true));
    // Another command is not granted with it.
    let other = daemon.run(sh("network", ":")).await.unwrap_err();
    assert_eq!(reason(&other), "NOT_ALLOWLISTED");

    let mut narrowed = request();
    narrowed.narrow = Some(pb::Narrow {
        without_network: true,
        ..pb::Narrow::default()
    });
    let narrowed = run(&daemon, narrowed).await;
    assert_eq!(narrowed.code, Some(libc::EPERM));
    assert!(listener.accept().is_err());
}

/// cargo starts rustc with the second kind.
#[tokio::test]
async fn connected_pairs_of_sockets_are_made_and_no_others() {
    let (daemon, probe) = (Daemon::start().await, Probe::build());
    let unix = libc::AF_UNIX.to_string();
    for (kind, expected) in [
        // Allowed, and then there is no place for the two.
        (libc::SOCK_STREAM, libc::EFAULT),
        (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, libc::EFAULT),
        (libc::SOCK_DGRAM, libc::EPERM),
        (libc::SOCK_RAW, libc::EPERM),
    ] {
        let words = ["call", "socketpair", &unix, &kind.to_string(), "0", "0"];
        let words = words.map(str::to_owned);
        let made = run(&daemon, probe.hook("strict", &words)).await;
        assert_eq!(made.code, Some(expected), "{kind}");
    }
}

#[tokio::test]
async fn a_consent_under_a_profile_of_the_operators_grants_it_and_no_other_consent_does() {
    let daemon = Daemon::with(Setup {
        ask_for_consent: true,
        shipped: &["network"],
        ..Setup::default()
    })
    .await;
    let config = daemon.path().join("hookjail.toml");
    let consent = |words: &[&str]| {
        let words = [&["consent"], words, &["--", "/bin/sh", "-c", ":"]].concat();
        let mut command = hookjail(&config, &words);
        let output = command.env("HOME", daemon.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    let refused = async || {
        let refused = daemon.run(sh("network", ":")).await.unwrap_err();
        assert_eq!(reason(&refused), "NOT_ALLOWLISTED");
        let details = refused.get_error_details();
        details.error_info().unwrap().metadata["approve"].clone()
    };
    let allows = format!(
        "hookjail allow --config {} --profile network -- /bin/sh -c :",
        config.display()
    );
    assert_eq!(refused().await, allows);
    // One under another profile.
    consent(&["allow", "--profile", "pipeline"]);
    daemon.run(sh("pipeline", ":")).await.unwrap();
    assert_eq!(refused().await, allows);
    // An entry without a profile, as people and other programs write: valid for profiles that every caller can name.
    let list = daemon.path().join("state/allowlist.json");
    let mut entries: serde_json::Value = serde_json::from_slice(&fs::read(&list).unwrap()).unwrap();
    for entry in entries.as_array_mut().unwrap() {
        let entry = entry.as_object_mut().unwrap();
        entry.remove("profile").unwrap();
        entry.remove("profile_digest").unwrap();
    }
    fs::write(&list, entries.to_string()).unwrap();
    daemon.run(sh("pipeline", ":")).await.unwrap();
    assert_eq!(refused().await, allows);

    consent(&["allow", "--profile", "network"]);
    daemon.run(sh("network", ":")).await.unwrap();
    let other = daemon.run(sh("network", "true")).await.unwrap_err();
    assert_eq!(reason(&other), "NOT_ALLOWLISTED");
    consent(&["revoke"]);
    refused().await;
}

#[tokio::test]
async fn the_network_is_outbound_ipv4_and_ipv6_and_nothing_else() {
    let (probe, outside) = (Probe::build(), directory());
    let socket = outside.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).unwrap();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let port = server.local_addr().unwrap().port().to_string();
    let path = socket.display().to_string();
    let (denied, done) = (Some(libc::EPERM), Some(0));
    let attempts = [
        (vec!["udp", &port], done),
        (vec!["unix-stream", &path], denied),
        (vec!["unix-datagram", &path], denied),
        (vec!["pair-sendto", &path], denied),
        (vec!["tcp-listen"], denied),
        (vec!["tcp-bind"], denied),
        (vec!["netlink"], denied),
        (vec!["mptcp", &port], denied),
    ];
    let request = |words: &[&str]| {
        let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
        probe.hook("network", &words)
    };
    let commands = attempts
        .each_ref()
        .map(|(words, _)| request(words).hook.unwrap().argv);
    let daemon = granting_network(&commands).await;

    let mut codes = Vec::new();
    for (words, _) in &attempts {
        codes.push(run(&daemon, request(words)).await.code);
    }

    assert_eq!(codes, attempts.map(|(_, code)| code));
    assert!(server.recv(&mut [0; 64]).is_ok());
    assert!(listener.accept().is_err());
}

#[tokio::test]
async fn a_request_narrows_to_a_few_paths_of_which_each_takes_a_descriptor() {
    let daemon = Daemon::start().await;
    let workspace = daemon.workspace();
    let paths = (0..2000).map(|it| workspace.join(it.to_string()));
    let paths: Vec<_> = paths.collect();
    for path in &paths {
        fs::create_dir(path).unwrap();
        open_to_all(path);
    }
    let request = |count: usize| {
        let read = paths[..count].iter().map(|it| it.display().to_string());
        let mut request = hook(["/bin/sh", "-c", "read -r x"]);
        request.profile = "workspace-ro".to_owned();
        request.hook.as_mut().unwrap().workspace = workspace.display().to_string();
        request.narrow = Some(pb::Narrow {
            read: read.collect(),
            ..pb::Narrow::default()
        });
        request
    };

    let refusal = daemon.run(request(paths.len())).await;

    assert_eq!(reason(&refusal.unwrap_err()), "INVALID_REQUEST");
    daemon.run(request(32)).await.unwrap();
}

#[tokio::test]
async fn a_request_can_narrow_its_profile_and_never_widen_it() {
    let daemon = Daemon::start().await;
    let workspace = daemon.workspace();
    for name in ["a", "b"] {
        fs::create_dir(workspace.join(name)).unwrap();
        fs::write(workspace.join(name).join("file"), name).unwrap();
        open_to_all(&workspace.join(name));
    }
    let request = |narrow| {
        let root = workspace.display();
        let script = format!(
            "for f in {root}/a/file {root}/b/file; do read -r x < $f; echo $x; done; (:) && echo spawned"
        );
        let mut request = hook(["/bin/sh", "-c", &script]);
        request.narrow = Some(narrow);
        request
    };
    let narrowed = async |narrow| {
        let (_, stdout, _) =
            outcome(&daemon, request(narrow), "workspace-ro", Some(&workspace)).await;
        stdout
    };
    let path = |name: &str| workspace.join(name).display().to_string();

    assert_eq!(narrowed(pb::Narrow::default()).await, "a\nb\nspawned\n");
    let read = pb::Narrow {
        read: vec![path("a")],
        ..pb::Narrow::default()
    };
    assert_eq!(narrowed(read).await, "a\na\nspawned\n");
    let nothing_named = pb::Narrow {
        without_named_grants: true,
        ..pb::Narrow::default()
    };
    assert_eq!(narrowed(nothing_named).await, "\n\nspawned\n");
    let no_spawn = pb::Narrow {
        without_spawn: true,
        ..pb::Narrow::default()
    };
    assert_eq!(narrowed(no_spawn).await, "a\nb\n");

    let mut refusals = Vec::new();
    for narrow in [
        pb::Narrow {
            read: vec!["/etc".to_owned()],
            ..pb::Narrow::default()
        },
        pb::Narrow {
            write: vec![path("a")],
            ..pb::Narrow::default()
        },
        pb::Narrow {
            output_bytes: Some(1 << 40),
            ..pb::Narrow::default()
        },
    ] {
        let mut request = request(narrow);
        "workspace-ro".clone_into(&mut request.profile);
        request.hook.as_mut().unwrap().workspace = workspace.display().to_string();
        let status = daemon.run(request).await.unwrap_err();
        refusals.push((reason(&status), field(&status)));
    }
    let widened = |field: &str| ("PROFILE_WIDENED".to_owned(), field.to_owned());
    let expected = [
        widened("narrow.read[0]"),
        widened("narrow.write[0]"),
        widened("narrow.output_bytes"),
    ];
    assert_eq!(refusals, expected);
}

#[tokio::test]
async fn a_profile_that_grants_what_none_may_is_not_served() {
    let of_daemon = |below: &'static str| {
        let directory = directory();
        let path = directory.path().join(below).display().to_string();
        (directory, vec![(path, "read")])
    };
    let fixed = |grants: &[(&str, &'static str)]| {
        let grants = grants
            .iter()
            .map(|&(path, access)| (path.to_owned(), access));
        (directory(), grants.collect())
    };
    let cases: Vec<(_, Vec<(String, &str)>)> = vec![
        fixed(&[("/", "read")]),
        fixed(&[("/proc", "read")]),
        fixed(&[("/proc/1", "read")]),
        fixed(&[("/sys", "read")]),
        fixed(&[("/srv", "write"), ("/srv/kept", "read")]),
        of_daemon("state"),
        of_daemon("state/audit"),
        of_daemon("run"),
        of_daemon(""),
    ];

    for (directory, grants) in cases {
        let grants: Vec<_> = grants
            .iter()
            .map(|(path, access)| format!("{{ path = {path:?}, access = {access:?} }}"))
            .collect();
        let grants = grants.join(", ");
        let text =
            format!("description = \"x\"\nextends = \"strict\"\n[files]\nnamed = [{grants}]\n");
        let setup = Setup {
            profiles: vec![("greedy".to_owned(), text)],
            ..Setup::default()
        };
        let daemon = Daemon::in_directory(directory, setup).await.unwrap();
        let refused = daemon.run(sh("greedy", "true")).await.unwrap_err();
        assert_eq!(reason(&refused), "PROFILE_UNKNOWN", "{grants}");
        assert!(refused.message().contains("greedy.toml"), "{grants}");
        daemon.run(sh("strict", "true")).await.unwrap();
    }
}

#[tokio::test]
async fn a_profile_of_the_operators_is_served() {
    // The counterpart of the refusals: the same file with a harmless grant.
    let granted = directory();
    fs::write(granted.path().join("file"), "granted\n").unwrap();
    open_to_all(granted.path());
    let path: PathBuf = granted.path().canonicalize().unwrap();
    let text = format!(
        "description = \"x\"\nextends = \"strict\"\n[files]\nnamed = [{{ path = {path:?}, access = \"read\" }}]\n"
    );
    let daemon = Daemon::with(Setup {
        profiles: vec![("modest".to_owned(), text)],
        ..Setup::default()
    })
    .await;
    let script = format!("read -r x < {}/file; echo $x", path.display());

    let modest = outcome(&daemon, hook(["/bin/sh", "-c", &script]), "modest", None).await;

    assert_eq!(modest, success("granted\n"));
}

#[tokio::test]
async fn a_file_that_a_profile_has_made_where_it_is_absent_can_be_added_to() {
    let directory = directory();
    open_to_all(directory.path());
    let log = directory.path().canonicalize().unwrap().join("agent.log");
    let profile = format!(
        "description = \"x\"\nextends = \"strict\"\n[files]\nnamed = [{{ path = {log:?}, access = \"write-file\", create = true }}]\n"
    );
    let daemon = Daemon::with(Setup {
        profiles: vec![("logs".to_owned(), profile)],
        ..Setup::default()
    })
    .await;
    let script = format!("echo more >>{0}; echo x >{0}.other", log.display());

    // A preview makes no file.
    let preview = pb::PreviewRequest {
        request: Some(sh("logs", &script)),
    };
    let preview = daemon.client().preview(preview).await.unwrap().into_inner();
    assert_eq!((preview.refusal, log.exists()), (None, false));
    daemon.run(sh("logs", &script)).await.unwrap();
    let mode = fs::metadata(&log).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    // A hook with a uid of its own has no rights on the caller's file that others have not.
    fs::set_permissions(&log, Permissions::from_mode(0o666)).unwrap();
    fs::write(&log, "before\n").unwrap();
    daemon.run(sh("logs", &script)).await.unwrap();
    assert_eq!(fs::read_to_string(&log).unwrap(), "before\nmore\n");
    assert!(!log.with_extension("log.other").exists());

    // A file that another user may have put there is not written to.
    let away = log.with_file_name("away");
    fs::rename(&log, &away).unwrap();
    std::os::unix::fs::symlink(&away, &log).unwrap();
    let refused = daemon.run(sh("logs", &script)).await.unwrap_err();
    assert_eq!(reason(&refused), "GRANT_MISSING");
    fs::remove_file(&log).unwrap();
    nix::unistd::mkfifo(&log, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let refused = daemon.run(sh("logs", &script)).await.unwrap_err();
    assert_eq!(reason(&refused), "GRANT_MISSING");
    assert_eq!(fs::read_to_string(&away).unwrap(), "before\nmore\n");
}

#[tokio::test]
async fn a_granted_path_that_is_missing_or_behind_a_link_is_refused() {
    let directory = directory();
    let data = directory.path().canonicalize().unwrap().join("data");
    fs::create_dir(&data).unwrap();
    let profile = format!(
        "description = \"x\"\nextends = \"strict\"\n[files]\nnamed = [{{ path = {data:?}, access = \"read\" }}]\n"
    );
    let daemon = Daemon::with(Setup {
        profiles: vec![("data".to_owned(), profile)],
        ..Setup::default()
    })
    .await;
    let run = || daemon.run(sh("data", ":"));
    assert!(run().await.is_ok());

    let away = data.with_file_name("away");
    fs::rename(&data, &away).unwrap();
    assert_eq!(reason(&run().await.unwrap_err()), "GRANT_MISSING");
    std::os::unix::fs::symlink(&away, &data).unwrap();
    assert_eq!(reason(&run().await.unwrap_err()), "GRANT_MISSING");

    assert_eq!(daemon.records(), ["started", "ended", "refused", "refused"]);
}

#[tokio::test]
async fn a_workspace_that_is_swapped_for_a_link_meanwhile_never_leads_outside() {
    let daemon = Daemon::start().await;
    let (workspace, link) = (daemon.workspace().join("w"), daemon.workspace().join("l"));
    let outside = daemon.outside("elsewhere");
    for (directory, text) in [(&workspace, "inside"), (&outside, "outside")] {
        fs::create_dir(directory).unwrap();
        fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
        fs::write(directory.join("text"), text).unwrap();
    }
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    let swapping = Again::swap(workspace.clone(), link);

    let (mut inside, mut refused) = (0, 0);
    for _ in 0..1000 {
        let mut request = sh("workspace-ro", "read -r text <text; printf %s \"$text\"");
        request.hook.as_mut().unwrap().workspace = workspace.display().to_string();
        match daemon.run(request).await {
            Err(_) => refused += 1,
            Ok(response) => match &response.stdout[..] {
                b"inside" => inside += 1,
                // Between the grant and the start in it, it was swapped: nothing is read at all.
                b"" => {}
                other => panic!("{}", String::from_utf8_lossy(other)),
            },
        }
    }
    drop(swapping);

    assert!(
        inside > 0 && refused > 0,
        "{inside} inside, {refused} refused"
    );
}

mod as_root {
    use super::*;
    use crate::support::needs_root;

    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_file_of_another_user_is_not_added_to() {
        needs_root();
        let directory = directory();
        open_to_all(directory.path());
        let log = directory.path().canonicalize().unwrap().join("agent.log");
        fs::write(&log, "").unwrap();
        fs::set_permissions(&log, Permissions::from_mode(0o666)).unwrap();
        std::os::unix::fs::chown(&log, Some(12_345), None).unwrap();
        let profile = format!(
            "description = \"x\"\nextends = \"strict\"\n[files]\nnamed = [{{ path = {log:?}, access = \"write-file\", create = true }}]\n"
        );
        let setup = Setup {
            profiles: vec![("logs".to_owned(), profile)],
            ..Setup::default()
        };
        let daemon = Daemon::with(setup).await;
        let script = format!("echo more >>{}", log.display());

        let refused = daemon.run(sh("logs", &script)).await.unwrap_err();

        assert_eq!(reason(&refused), "GRANT_MISSING");
        let message = refused.message();
        assert!(message.contains("belongs to uid 12345"), "{message}");
        std::os::unix::fs::chown(&log, Some(0), None).unwrap();
        daemon.run(sh("logs", &script)).await.unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), "more\n");
    }
}

mod with_tools {
    use super::*;

    /// Where the shipped profiles look for programs.
    const PATH: [&str; 5] = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];

    /// Fails where a program is not installed that a test needs.
    #[track_caller]
    fn needs(program: &str) {
        let found = PATH
            .iter()
            .any(|directory| Path::new(directory).join(program).exists());
        assert!(found, "this test needs `{program}` in one of {PATH:?}");
    }

    #[tokio::test]
    #[ignore = "needs bash"]
    async fn bash_works_under_strict() {
        needs("bash");
        let daemon = Daemon::start().await;
        let script = r#"a=(one two); [[ ${a[1]} =~ ^t ]] && mapfile -t lines <<< $'x\ny'; echo "${a[@]^^} ${#lines[@]}""#;

        let bash = outcome(&daemon, hook(["bash", "-c", script]), "strict", None).await;

        assert_eq!(bash, success("ONE TWO 2\n"));
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn python_with_threads_json_and_sqlite_works_under_strict() {
        needs("python3");
        let daemon = Daemon::start().await;
        let script = "
import json, sqlite3, sys, tempfile, threading
event = json.load(sys.stdin)
sums = []
threads = [threading.Thread(target=lambda n=n: sums.append(n)) for n in event['numbers']]
[t.start() for t in threads]; [t.join() for t in threads]
with tempfile.NamedTemporaryFile() as file:
    db = sqlite3.connect(file.name)
    db.execute('create table t (n)')
    db.executemany('insert into t values (?)', [(n,) for n in sums])
    db.commit()
    print(json.dumps({'sum': db.execute('select sum(n) from t').fetchone()[0]}))
";
        let mut request = hook(["python3", "-c", script]);
        request.event = Some(pb::Event {
            json: br#"{"numbers":[1,2,3]}"#.to_vec().into(),
            ..pb::Event::default()
        });

        let python = outcome(&daemon, request, "strict", None).await;

        assert_eq!(python, success("{\"sum\": 6}\n"));
    }

    #[tokio::test]
    #[ignore = "needs jq"]
    async fn jq_works_under_strict() {
        needs("jq");
        let daemon = Daemon::start().await;
        let mut request = hook(["jq", "-c", "{name, n: (.list | length)}"]);
        request.event = Some(pb::Event {
            json: br#"{"name":"x","list":[1,2]}"#.to_vec().into(),
            ..pb::Event::default()
        });

        let jq = outcome(&daemon, request, "strict", None).await;

        assert_eq!(jq, success("{\"name\":\"x\",\"n\":2}\n"));
    }

    #[tokio::test]
    #[ignore = "needs node"]
    async fn node_works_under_strict() {
        needs("node");
        let daemon = Daemon::start().await;
        let script = "
let text = '';
process.stdin.on('data', part => text += part).on('end', async () => {
  const fs = require('fs/promises');
  await fs.writeFile('file', JSON.stringify({ got: JSON.parse(text).n + 1 }));
  console.log(await fs.readFile('file', 'utf8'));
});";
        let mut request = hook(["node", "-e", script]);
        request.event = Some(pb::Event {
            json: br#"{"n":41}"#.to_vec().into(),
            ..pb::Event::default()
        });

        let node = outcome(&daemon, request, "strict", None).await;

        assert_eq!(node, success("{\"got\":42}\n"));
    }

    #[tokio::test]
    #[ignore = "needs git"]
    async fn git_is_as_its_user_has_configured_it_under_develop() {
        needs("git");
        let home = home();
        for (path, text) in [
            (".gitconfig", "[user]\nname = Ada\n"),
            (".config/git/config", "[user]\nemail = ada@example.org\n"),
            (".config/git/ignore", "ignored\n"),
            (".config/git/attributes", "*.bin binary\n"),
        ] {
            let path = home.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let script = "git init -q -b main . && echo x >ignored && echo x >a.bin && git status --short && git add -A
            git commit -qm first && git log --format='%an %ae' && git check-attr binary a.bin && git config core.x y 2>/dev/null; echo $?";
        let bare = directory();
        let bare = Command::new("/bin/sh")
            .args(["-c", &format!("cd {}; {script}", bare.path().display())])
            .env("HOME", home.path())
            .env_remove("XDG_CONFIG_HOME")
            .output()
            .unwrap();
        let bare = String::from_utf8(bare.stdout).unwrap();
        assert_eq!(
            bare,
            "?? a.bin\nAda ada@example.org\na.bin: binary: set\n0\n"
        );

        let request = || hook(["/bin/sh", "-c", script]);
        let mut setup = granting("develop", &[request().hook.unwrap().argv]);
        setup.env = vec![("HOME".to_owned(), home.path().display().to_string())];
        let daemon = Daemon::with(setup).await;
        if nix::unistd::geteuid().is_root() || contained() {
            // Hooks have users of their own, or roots, and such a user has no home.
            return;
        }
        let workspace = daemon.workspace().join("project");
        fs::create_dir(&workspace).unwrap();
        let confined = outcome(&daemon, request(), "develop", Some(&workspace)).await;
        assert_eq!(confined, success(&bare));
    }

    #[tokio::test]
    #[ignore = "needs git"]
    async fn git_can_be_read_in_a_workspace() {
        needs("git");
        let daemon = Daemon::start().await;
        let workspace = daemon.workspace().join("repository");
        fs::create_dir(&workspace).unwrap();
        fs::write(workspace.join("file"), "one\n").unwrap();
        let git = |words: &[&str]| {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=a", "-c", "user.email=a@b"]);
            git.args(words).current_dir(&workspace);
            git.env("GIT_CONFIG_GLOBAL", "/dev/null");
            let output = git.env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
            assert!(output.status.success(), "{output:?}");
        };
        git(&["init", "-q", "-b", "main"]);
        git(&["add", "file"]);
        git(&["commit", "-q", "-m", "first"]);
        fs::write(workspace.join("file"), "two\n").unwrap();
        open_to_all(&workspace);

        let script = "git log --format=%s && git status --short && git diff --stat && git ls-files && git rev-parse --abbrev-ref HEAD";
        let request = hook(["/bin/sh", "-c", script]);
        let read = outcome(&daemon, request, "workspace-ro", Some(&workspace)).await;

        let expected = "first\n M file\n file | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\nfile\nmain\n";
        assert_eq!(read, success(expected));
    }
}
