//! Names of a workspace that hooks find closed: `files.hidden`.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use hookjail::pb;

use crate::support::{Daemon, Setup, hook, reason};

/// A workspace that can be written, with hidden names and without.
const PROFILES: [(&str, &str); 4] = [
    (
        "closed",
        r#"
description = "workspace-rw with hidden names"
extends = "workspace-rw"
[files]
hidden = [".env*", "*.pem", "vault"]
"#,
    ),
    (
        "plain",
        r#"
description = "workspace-rw with mounts of its own, and nothing hidden"
extends = "workspace-rw"
"#,
    ),
    (
        "calls",
        r#"
description = "reads the workspace, with a network"
extends = ["workspace-ro", "online"]
granted_by = "anyone"
"#,
    ),
    (
        "scans",
        r#"
description = "the same, with what scanners need"
extends = ["workspace-ro", "online", "project-secrets"]
granted_by = "anyone"
"#,
    ),
];

/// Ways to a file's content, from the workspace. `$W` is the workspace. Each prints it, or leaves it in `out`.
const WAYS: [(&str, &str); 16] = [
    ("read it", "cat .env"),
    ("read it by an absolute path", "cat $W/.env"),
    ("read it below directories", "cat a/b/.env.local"),
    ("read what lies in a directory", "cat vault/token"),
    ("read from within a directory", "cd vault && cat token"),
    ("read it as a program", "sh ./.env; . ./.env"),
    ("copy it", "cp .env out; cat out"),
    ("link it", "ln .env out && cat out"),
    ("make a symbolic link to it", "ln -s .env out; cat out"),
    ("move it", "mv .env out && cat out"),
    (
        "move the directory with it",
        "mv a out && cat out/b/.env.local",
    ),
    (
        "move the directory to where none are looked for",
        "mkdir node_modules; mv a node_modules/; cat node_modules/a/b/.env.local",
    ),
    ("change its mode", "chmod 644 .env; cat .env"),
    ("put another in its place", "rm -f .env; cat .env"),
    ("by the links of /proc", "cat /proc/self/cwd/.env"),
    ("by the root in /proc", "cat /proc/self/root$W/.env"),
];

const SECRET: &str = "a-secret-of-the-project";

async fn daemon() -> Daemon {
    let profiles = PROFILES.map(|(name, text)| (name.to_owned(), text.to_owned()));
    Daemon::with(Setup {
        profiles: profiles.to_vec(),
        ..Setup::default()
    })
    .await
}

/// Makes a workspace with files whose names are hidden, for every user to change.
fn workspace(daemon: &Daemon, name: &str) -> PathBuf {
    let path = daemon.workspace().join(name);
    for below in [".env", "a/b/.env.local", "vault/token", "open"] {
        let path = path.join(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, SECRET).unwrap();
    }
    open_to_all(&path);
    path
}

fn open_to_all(path: &Path) {
    let mode = if path.is_dir() { 0o777 } else { 0o666 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            open_to_all(&entry.unwrap().path());
        }
    }
}

/// Has a shell run a script in a workspace.
fn in_workspace(profile: &str, script: &str, workspace: &Path) -> pb::ExecuteRequest {
    let path = workspace.display();
    let mut request = hook(["/bin/sh", "-c", &format!("W={path}; {script}")]);
    profile.clone_into(&mut request.profile);
    request.hook.as_mut().unwrap().workspace = path.to_string();
    request
}

async fn run(daemon: &Daemon, request: pb::ExecuteRequest) -> pb::ExecuteResponse {
    let response = daemon.run(request).await.unwrap();
    assert!(response.confinement.as_ref().unwrap().confirmed);
    response
}

/// Everything that a hook printed.
fn printed(response: &pb::ExecuteResponse) -> String {
    let all = [&*response.stdout, &*response.stderr].concat();
    String::from_utf8_lossy(&all).into_owned()
}

/// Returns whether a secret lies in a workspace outside of the files that had it.
fn is_copied(workspace: &Path) -> bool {
    let out = workspace.join("out");
    let is_link = fs::symlink_metadata(&out).is_ok_and(|it| it.is_symlink());
    !is_link && fs::read_to_string(out).is_ok_and(|text| text == SECRET)
}

async fn no_way_leads_to_what_is_hidden() {
    let daemon = daemon().await;
    for (index, (what, script)) in WAYS.into_iter().enumerate() {
        // The positive control: where nothing is hidden, the content is had.
        let plain = workspace(&daemon, &format!("plain-{index}"));
        let response = run(&daemon, in_workspace("plain", script, &plain)).await;
        let is_had = printed(&response).contains(SECRET) || is_copied(&plain);
        // The link is not followed into a file that the hook removed.
        assert_eq!(
            is_had,
            what != "put another in its place",
            "{what}: {response:?}"
        );

        let closed = workspace(&daemon, &format!("closed-{index}"));
        let response = run(&daemon, in_workspace("closed", script, &closed)).await;
        assert!(!printed(&response).contains(SECRET), "{what}: {response:?}");
        assert!(!is_copied(&closed), "{what}");
        for below in [".env", "a/b/.env.local", "vault/token"] {
            let kept = fs::read_to_string(closed.join(below)).unwrap();
            assert_eq!(kept, SECRET, "{what}: {below}");
        }
        // The files that the hook left are no way for the next one either.
        let next = "cat out .env out/b/.env.local node_modules/a/b/.env.local";
        let response = run(&daemon, in_workspace("closed", next, &closed)).await;
        assert!(!printed(&response).contains(SECRET), "{what}: {response:?}");
    }
}

#[tokio::test]
async fn what_is_hidden_is_read_in_no_way() {
    no_way_leads_to_what_is_hidden().await;
}

#[tokio::test]
async fn everything_else_is_there_and_names_of_what_is_hidden_too() {
    let daemon = daemon().await;
    let workspace = workspace(&daemon, "w");
    symlink("a/b/.env.local", workspace.join(".env.linked")).unwrap();
    let script =
        "cat open && echo new > a/made && mv a/made a/b/moved && rm a/b/moved && ls -a . a/b";
    let response = run(&daemon, in_workspace("closed", script, &workspace)).await;
    let text = printed(&response);

    assert_eq!(response.outcome.unwrap().exit_code, Some(0), "{text}");
    for name in [SECRET, ".env\n", ".env.local\n", ".env.linked\n", "vault\n"] {
        assert!(text.contains(name), "{name}: {text}");
    }
}

#[tokio::test]
async fn a_hook_that_is_refused_a_hidden_file_has_a_warning_that_names_it() {
    let daemon = daemon().await;
    let workspace = workspace(&daemon, "w");
    let warnings = async |profile, script| {
        let response = run(&daemon, in_workspace(profile, script, &workspace)).await;
        response.verdict.unwrap_or_default().warnings.join("\n")
    };
    for script in [
        "cat .env",
        "cat $W/a/b/.env.local",
        "cat vault/token",
        ": < .env",
    ] {
        let seen = warnings("closed", script).await;
        assert!(
            seen.contains("`files.hidden` of profile `closed` has"),
            "{script}: {seen}"
        );
    }
    // The control: other names are not hidden.
    for (profile, script) in [("closed", "cat missing"), ("plain", "cat .env")] {
        let seen = warnings(profile, script).await;
        assert!(!seen.contains("hidden"), "{script}: {seen}");
    }
}

#[tokio::test]
async fn a_profile_with_a_network_hides_and_a_part_shows() {
    let daemon = daemon().await;
    let workspace = workspace(&daemon, "w");
    fs::write(workspace.join("server.key"), SECRET).unwrap();
    for name in [".env", "server.key"] {
        let script = format!("cat {name}");
        let read = async |profile| {
            printed(&run(&daemon, in_workspace(profile, &script, &workspace)).await)
        };
        let refused = read("calls").await;
        assert!(refused.contains("Permission denied"), "{name}: {refused}");
        assert_eq!(read("scans").await, SECRET, "{name}");
        assert_eq!(read("plain").await, SECRET, "{name}");
    }
}

#[tokio::test]
async fn what_cannot_be_hidden_is_refused_by_name() {
    type Break = fn(&Path);
    let cases: [(&str, Break); 2] = [
        (".env", |path| {
            fs::hard_link(path.join(".env"), path.join("other")).unwrap()
        }),
        (".env", |path| {
            fs::remove_file(path.join(".env")).unwrap();
            symlink("open", path.join(".env")).unwrap();
        }),
    ];
    let daemon = daemon().await;
    for (index, (name, broken)) in cases.into_iter().enumerate() {
        let workspace = workspace(&daemon, &format!("{index}"));
        let request = || in_workspace("closed", ":", &workspace);
        run(&daemon, request()).await;
        broken(&workspace);

        let status = daemon.run(request()).await.unwrap_err();

        assert_eq!(reason(&status), "POLICY_UNENFORCEABLE");
        let path = workspace.join(name).display().to_string();
        for words in [&*path, "project-secrets"] {
            assert!(status.message().contains(words), "{}", status.message());
        }
    }
}

mod as_root {
    use super::*;
    use crate::support::needs_root;

    #[tokio::test]
    #[ignore = "needs root"]
    async fn what_is_hidden_is_read_in_no_way() {
        needs_root();
        no_way_leads_to_what_is_hidden().await;
    }
}
