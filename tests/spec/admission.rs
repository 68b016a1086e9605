//! Nothing runs that the operator has not allowed, as it was when it was allowed.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start the command line itself, never a hook"
)]

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::{FileExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use hookjail::pb::{self, OutcomeKind};
use tonic::{Code, Status};

use crate::{
    support::{Daemon, Setup, hook, reason},
    witness::{Again, end, hookjail, json},
};

async fn asking() -> Daemon {
    Daemon::with(Setup {
        ask_for_consent: true,
        ..Setup::default()
    })
    .await
}

/// Writes a script that prints its version.
fn script(daemon: &Daemon, version: &str) -> PathBuf {
    let path = daemon.outside("hook.sh");
    fs::write(&path, format!("#!/bin/sh\necho {version}\n")).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

fn run_script(path: &Path) -> pb::ExecuteRequest {
    hook([path.to_str().unwrap()])
}

fn command_line(daemon: &Daemon, words: &[&str]) -> Output {
    hookjail(&daemon.path().join("hookjail.toml"), words)
        .output()
        .unwrap()
}

fn allow(daemon: &Daemon, path: &Path) {
    let words = ["consent", "allow", "--", path.to_str().unwrap()];
    let output = command_line(daemon, &words);
    assert!(output.status.success(), "{output:?}");
}

fn metadata(status: &Status, name: &str) -> String {
    use tonic_types::StatusExt;
    let info = status.get_error_details().error_info().cloned().unwrap();
    info.metadata[name].clone()
}

async fn refused(daemon: &Daemon, path: &Path) -> (Code, String) {
    let refusal = daemon.run(run_script(path)).await.unwrap_err();
    (refusal.code(), reason(&refusal))
}

fn denied(reason: &str) -> (Code, String) {
    (Code::PermissionDenied, reason.to_owned())
}

#[tokio::test]
async fn a_hook_that_nobody_allowed_is_refused_with_the_command_that_allows_it() {
    let daemon = asking().await;
    let path = script(&daemon, "one");

    let refusal = daemon.run(run_script(&path)).await.unwrap_err();

    assert_eq!(
        (refusal.code(), reason(&refusal)),
        denied("CONSENT_REQUIRED")
    );
    assert_eq!(daemon.records(), ["refused"]);
    assert!(metadata(&refusal, "digests").contains(path.to_str().unwrap()));
    let approve = shlex::split(&metadata(&refusal, "approve")).unwrap();
    let words: Vec<_> = approve.iter().map(String::as_str).collect();
    assert_eq!(words[0], "hookjail");
    let output = command_line(&daemon, &words[1..]);
    assert!(output.status.success(), "{output:?}");

    let response = daemon.run(run_script(&path)).await.unwrap();
    assert_eq!(
        (end(&response), &response.stdout[..]),
        ((OutcomeKind::Exited, Some(0), None), b"one\n".as_slice())
    );
    assert_eq!(daemon.journal()[1]["consent"], "allowlist");
}

#[tokio::test]
async fn a_program_is_allowed_by_the_very_path_that_requests_name() {
    let daemon = asking().await;
    let refusal = daemon.run(hook(["/bin/true"])).await.unwrap_err();
    let approve = shlex::split(&metadata(&refusal, "approve")).unwrap();
    let words: Vec<_> = approve.iter().map(String::as_str).collect();

    let output = command_line(&daemon, &words[1..]);

    assert!(output.status.success(), "{output:?}");
    assert!(daemon.run(hook(["/bin/true"])).await.is_ok());
}

#[tokio::test]
async fn a_program_that_is_found_on_the_path_is_allowed_by_where_it_is() {
    let daemon = asking().await;
    let refusal = daemon.run(hook(["true"])).await.unwrap_err();
    let approve = shlex::split(&metadata(&refusal, "approve")).unwrap();
    let words: Vec<_> = approve.iter().map(String::as_str).collect();

    let output = command_line(&daemon, &words[1..]);

    assert!(output.status.success(), "{output:?}");
    assert!(daemon.run(hook(["true"])).await.is_ok());
}

#[tokio::test]
async fn a_daemon_does_not_start_with_a_list_that_it_cannot_use() {
    let daemon = asking().await;
    let list = daemon.path().join("state/allowlist.json");
    fs::write(&list, "no list").unwrap();
    fs::set_permissions(&list, Permissions::from_mode(0o600)).unwrap();

    let setup = Setup {
        ask_for_consent: true,
        ..Setup::default()
    };
    let error = Daemon::in_directory(daemon.kill(), setup)
        .await
        .unwrap_err();

    assert!(error.contains("is not a list of entries"), "{error}");
}

/// As root the daemon can open everything, but a caller who cannot must not learn what is there.
#[tokio::test]
async fn a_listed_caller_learns_nothing_about_files_it_cannot_reach() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: only root serves other users");
        return;
    }
    let daemon = Daemon::with(Setup {
        config: "[server]\nallowed_uids = [65534]\nsocket_mode = \"0660\"\n".to_owned(),
        ask_for_consent: true,
        ..Setup::default()
    })
    .await;
    let private = daemon.outside("private");
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, Permissions::from_mode(0o700)).unwrap();
    let script = private.join("script");
    fs::write(&script, "echo secret").unwrap();
    let digests = |path: &Path| {
        let output = run_as_nobody(&daemon, &["/bin/sh", path.to_str().unwrap()]);
        let error = json(&output)["error"].clone();
        assert_eq!(error["reason"], "CONSENT_REQUIRED", "{error}");
        error["metadata"]["digests"].clone()
    };

    assert_eq!(digests(&script), digests(&private.join("none")));

    // The control: where the caller can go, the script is among what is hashed.
    fs::set_permissions(&private, Permissions::from_mode(0o755)).unwrap();
    assert!(digests(&script).to_string().contains("script"));
}

#[tokio::test]
async fn a_script_that_changed_since_is_refused_whatever_its_time_says() {
    let daemon = asking().await;
    let path = script(&daemon, "one");
    let modified = path.metadata().unwrap().modified().unwrap();
    allow(&daemon, &path);
    assert!(daemon.run(run_script(&path)).await.is_ok());

    script(&daemon, "two");
    assert_eq!(refused(&daemon, &path).await, denied("DIGEST_MISMATCH"));

    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(modified).unwrap();
    assert_eq!(path.metadata().unwrap().modified().unwrap(), modified);
    assert_eq!(refused(&daemon, &path).await, denied("DIGEST_MISMATCH"));

    script(&daemon, "one");
    assert!(daemon.run(run_script(&path)).await.is_ok());
}

#[tokio::test]
async fn a_script_that_is_swapped_meanwhile_runs_as_it_was_allowed_or_not_at_all() {
    let daemon = asking().await;
    let path = script(&daemon, "one");
    allow(&daemon, &path);
    let other = path.with_extension("other");
    fs::write(&other, "#!/bin/sh\necho two\n").unwrap();
    fs::set_permissions(&other, Permissions::from_mode(0o755)).unwrap();

    let swapping = Again::swap(path.clone(), other);
    only_one_ran(&daemon, &path, 500).await;
    drop(swapping);
}

#[tokio::test]
async fn a_script_that_is_rewritten_meanwhile_runs_as_it_was_allowed_or_not_at_all() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: without root a hook's interpreter reads the script where it lies");
        return;
    }
    let daemon = asking().await;
    let path = script(&daemon, "one");
    allow(&daemon, &path);
    let file = File::options().write(true).open(&path).unwrap();
    let mut versions = ["two", "one"].iter().cycle();

    // In place: the same file of the same size, which a rename would not be.
    let rewriting = Again::and_again(move || {
        let version = versions.next().unwrap();
        file.write_at(version.as_bytes(), 15).unwrap();
    });
    only_one_ran(&daemon, &path, 500).await;
    drop(rewriting);
}

/// Runs a script over and over that changes between what was allowed and what was not.
async fn only_one_ran(daemon: &Daemon, path: &Path, rounds: usize) {
    let (mut ran, mut refused) = (0, 0);
    for _ in 0..rounds {
        match daemon.run(run_script(path)).await {
            Err(_) => refused += 1,
            Ok(response) => match &response.stdout[..] {
                b"one\n" => ran += 1,
                // The interpreter finds another file than the one that it is granted.
                b"" => {}
                other => assert_eq!(String::from_utf8_lossy(other), "one\n"),
            },
        }
    }
    assert!(ran > 0 && refused > 0, "{ran} ran, {refused} refused");
}

#[tokio::test]
async fn a_changed_script_is_refused_even_where_every_hook_is_accepted() {
    let daemon = Daemon::start().await;
    let path = script(&daemon, "one");
    assert!(daemon.run(run_script(&path)).await.is_ok());
    assert_eq!(daemon.journal()[0]["consent"], "environment");

    script(&daemon, "two");

    assert_eq!(refused(&daemon, &path).await, denied("DIGEST_MISMATCH"));
}

#[tokio::test]
async fn a_consent_holds_for_one_profile_only() {
    let daemon = asking().await;
    let path = script(&daemon, "one");
    allow(&daemon, &path);

    let request = pb::ExecuteRequest {
        profile: "pipeline".to_owned(),
        ..run_script(&path)
    };

    let refusal = daemon.run(request).await.unwrap_err();
    assert_eq!(reason(&refusal), "CONSENT_REQUIRED");
}

#[tokio::test]
async fn a_revoked_consent_counts_no_more() {
    let daemon = asking().await;
    let path = script(&daemon, "one");
    allow(&daemon, &path);
    assert!(daemon.run(run_script(&path)).await.is_ok());

    let words = ["--json", "consent", "revoke", path.to_str().unwrap()];
    let revoked = json(&command_line(&daemon, &words));

    assert_eq!(revoked["revoked"], 1);
    assert_eq!(refused(&daemon, &path).await, denied("CONSENT_REQUIRED"));
}

#[tokio::test]
async fn an_expired_consent_counts_no_more() {
    let daemon = asking().await;
    let path = script(&daemon, "one");
    let words = ["consent", "allow", "--until", "2020-01-31T12:00:00Z", "--"];
    let output = command_line(&daemon, &[&words[..], &[path.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{output:?}");

    assert_eq!(refused(&daemon, &path).await, denied("CONSENT_REQUIRED"));
}

#[tokio::test]
async fn a_list_that_others_could_have_written_allows_nothing() {
    let daemon = asking().await;
    let path = script(&daemon, "one");
    allow(&daemon, &path);
    let list = daemon.path().join("state/allowlist.json");

    fs::set_permissions(&list, Permissions::from_mode(0o620)).unwrap();
    assert_eq!(refused(&daemon, &path).await, denied("CONSENT_REQUIRED"));
    assert!(daemon.log().contains("others can write it"));

    fs::set_permissions(&list, Permissions::from_mode(0o600)).unwrap();
    let moved = daemon.path().join("elsewhere.json");
    fs::rename(&list, &moved).unwrap();
    symlink(&moved, &list).unwrap();
    assert_eq!(refused(&daemon, &path).await, denied("CONSENT_REQUIRED"));
    assert!(daemon.log().contains("it is a symbolic link"));
    assert_eq!(daemon.records(), ["refused", "refused"]);

    fs::rename(&moved, &list).unwrap();
    assert!(daemon.run(run_script(&path)).await.is_ok());
}

/// A user that is nobody else.
const NOBODY: u32 = 65_534;

/// Runs a command by this daemon as user 65534. Needs root.
fn run_as_nobody(daemon: &Daemon, hook: &[&str]) -> Output {
    ask_as(NOBODY, daemon, "run", &[&["--"], hook].concat())
}

/// Has a user ask this daemon for something. Needs root.
fn ask_as(user: u32, daemon: &Daemon, command: &str, words: &[&str]) -> Output {
    let socket = daemon.path().join("sock");
    chown(&socket, None, Some(user)).unwrap();
    fs::set_permissions(&socket, Permissions::from_mode(0o660)).unwrap();
    // The program may lie where that user cannot go.
    let program = daemon.path().join("hookjail");
    if !program.exists() {
        fs::copy(env!("CARGO_BIN_EXE_hookjail"), &program).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    }
    Command::new("setpriv")
        .args([format!("--reuid={user}"), format!("--regid={user}")])
        .arg("--clear-groups")
        .arg(program)
        .args([command, "--json", "--connect"])
        .arg(socket)
        .args(words)
        .stdin(std::process::Stdio::null())
        .env_remove("HOOKJAIL_ADDR")
        .output()
        .unwrap()
}

#[tokio::test]
async fn a_hook_that_reaches_the_daemon_is_refused_even_where_its_user_is_listed() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: only root can be the user of a hook");
        return;
    }
    // No shipped profile lets a hook come so far: somebody with a hook's uid stands in for one.
    let hook_user = 1_879_100_007;
    let daemon = Daemon::with(Setup {
        config: format!(
            "[server]\nallowed_uids = [{NOBODY}, {hook_user}]\nsocket_mode = \"0660\"\n"
        ),
        ..Setup::default()
    })
    .await;
    let control = ask_as(NOBODY, &daemon, "doctor", &["--profile", "strict"]);
    assert_eq!(control.status.code(), Some(0), "{control:?}");

    for (command, words) in [
        ("run", ["--", "/bin/true"]),
        ("doctor", ["--profile", "strict"]),
    ] {
        let output = ask_as(hook_user, &daemon, command, &words);
        assert_eq!(
            json(&output)["error"]["reason"],
            "CALLER_IS_A_HOOK",
            "{output:?}"
        );
    }
    assert_eq!(daemon.records(), ["refused"]);
}

#[tokio::test]
async fn another_user_is_refused_unless_the_operator_lists_it() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: only root can be another user");
        return;
    }
    let daemon = Daemon::start().await;
    let output = run_as_nobody(&daemon, &["/bin/true"]);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    let error = &json(&output)["error"];
    assert_eq!(
        (&error["code"], &error["reason"]),
        (&"PERMISSION_DENIED".into(), &"PEER_NOT_ALLOWED".into())
    );
    assert_eq!(daemon.records(), ["refused"]);
    assert_eq!(daemon.journal()[0]["peer"]["uid"], 65_534);
    let output = ask_as(NOBODY, &daemon, "doctor", &[]);
    assert_eq!(json(&output)["error"]["reason"], "PEER_NOT_ALLOWED");

    let daemon = Daemon::with(Setup {
        config: "[server]\nallowed_uids = [65534]\nsocket_mode = \"0660\"\n".to_owned(),
        ..Setup::default()
    })
    .await;
    let output = run_as_nobody(&daemon, &["/bin/true"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(daemon.records(), ["started", "ended"]);
    let output = ask_as(NOBODY, &daemon, "doctor", &["--profile", "strict"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}
