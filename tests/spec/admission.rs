//! Nothing runs that the operator has not allowed, as it was when it was allowed.

#![expect(
    clippy::disallowed_methods,
    clippy::panic,
    reason = "tests start the command line itself, never a hook, and fail by panicking"
)]

use std::{
    fs::{self, File, Permissions},
    io::Write,
    os::unix::fs::{FileExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::Duration,
};

use hookjail::pb::{self, OutcomeKind};
use tonic::{Code, Status};

use crate::{
    support::{Daemon, Setup, hook, reason, sh},
    witness::{Again, NOBODY, ask_as, end, hookjail, json},
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
async fn whatever_else_than_what_was_allowed_lies_there_is_refused() {
    let daemon = asking().await;
    let directory = daemon.outside("hooks");
    fs::create_dir(&directory).unwrap();
    let [interpreter, path, argument] =
        ["interpreter", "hook.sh", "argument.sh"].map(|name| directory.join(name));
    let write = |path: &Path, text: &str| {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    };
    // The shell is granted with its own path; a copy of it is not.
    fs::copy("/bin/sh", &interpreter).unwrap();
    write(&path, &format!("#!{}\necho one\n", interpreter.display()));
    write(&argument, "echo one\n");
    let mut by_argument = hook(["/bin/sh", argument.to_str().unwrap()]);
    for request in [&run_script(&path), &by_argument] {
        let argv = request.hook.as_ref().unwrap().argv.clone();
        let words: Vec<_> = argv.iter().map(String::as_str).collect();
        let config = daemon.path().join("hookjail.toml");
        let allowed = hookjail(&config, &[&["consent", "allow", "--"], &words[..]].concat())
            .env("HOME", daemon.path())
            .output();
        assert!(allowed.unwrap().status.success());
        assert_eq!(end(&daemon.run(request.clone()).await.unwrap()).1, Some(0));
    }
    let refused = async |request: &pb::ExecuteRequest| {
        reason(&daemon.run(request.clone()).await.unwrap_err())
    };

    // Another file behind a link in the interpreter's place.
    let kept = directory.join("kept");
    fs::rename(&interpreter, &kept).unwrap();
    symlink("/bin/cat", &interpreter).unwrap();
    assert_eq!(refused(&run_script(&path)).await, "DIGEST_MISMATCH");
    fs::rename(&kept, &interpreter).unwrap();
    assert!(daemon.run(run_script(&path)).await.is_ok());

    // A script that is an argument, and another argument.
    write(&argument, "echo two\n");
    assert_eq!(refused(&by_argument).await, "DIGEST_MISMATCH");
    write(&argument, "echo one\n");
    assert!(daemon.run(by_argument.clone()).await.is_ok());
    by_argument
        .hook
        .as_mut()
        .unwrap()
        .argv
        .push("two".to_owned());
    assert_eq!(refused(&by_argument).await, "CONSENT_REQUIRED");

    // Another directory under the name of the one that was allowed.
    fs::rename(&directory, daemon.outside("elsewhere")).unwrap();
    fs::create_dir(&directory).unwrap();
    fs::copy("/bin/sh", &interpreter).unwrap();
    write(&path, &format!("#!{}\necho two\n", interpreter.display()));
    assert_eq!(refused(&run_script(&path)).await, "DIGEST_MISMATCH");
    let moved = daemon.outside("elsewhere").join("hook.sh");
    assert_eq!(refused(&run_script(&moved)).await, "CONSENT_REQUIRED");
}

/// How many times a race is run; `HOOKJAIL_RACE_ROUNDS` asks for more.
fn rounds() -> usize {
    let named = std::env::var("HOOKJAIL_RACE_ROUNDS").ok();
    named.map_or(500, |rounds| rounds.parse().unwrap())
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
    only_one_ran(&daemon, &path).await;
    drop(swapping);
}

#[tokio::test]
async fn a_script_that_is_rewritten_meanwhile_runs_as_it_was_allowed_or_not_at_all() {
    let daemon = asking().await;
    let path = script(&daemon, "one");
    allow(&daemon, &path);
    let rewritten = path.clone();

    // In place: the same file of the same size, which a rename would not be.
    let mut pauses = [0, 1, 2, 5, 10, 50, 100].into_iter().cycle();
    let rewriting = Again::and_again(move || {
        let pause = Duration::from_millis(pauses.next().unwrap());
        for version in ["two", "one"] {
            let file = File::options().write(true).open(&rewritten).unwrap();
            file.write_at(version.as_bytes(), 15).unwrap();
            drop(file);
            thread::sleep(pause);
        }
    });
    only_one_ran(&daemon, &path).await;
    drop(rewriting);
}

#[tokio::test]
async fn a_program_that_is_rewritten_meanwhile_runs_as_it_was_allowed_or_not_at_all() {
    only_the_right_program_ran(&asking().await).await;
}

/// Runs a program over and over that is rewritten in place all the time.
async fn only_the_right_program_ran(daemon: &Daemon) {
    let path = daemon.outside("program");
    fs::copy("/bin/true", &path).unwrap();
    if nix::unistd::geteuid().is_root() {
        // What root alone can write is taken as it is.
        chown(&path, Some(NOBODY), None).unwrap();
    }
    allow(daemon, &path);
    let [right, wrong] = ["/bin/true", "/bin/false"].map(|path| fs::read(path).unwrap());
    assert_ne!(right, wrong);
    let rewritten = path.clone();
    // Quick at times, to meet every moment; slow at times, or nothing would ever come to run on a busy machine.
    let mut pauses = [0, 1, 2, 5, 10, 50, 100].into_iter().cycle();
    let rewriting = Again::and_again(move || {
        let pause = Duration::from_millis(pauses.next().unwrap());
        for version in [&wrong, &right] {
            // A program that runs cannot be opened for writing at all.
            if let Ok(mut file) = File::options().write(true).truncate(true).open(&rewritten) {
                file.write_all(version).unwrap();
            }
            thread::sleep(pause);
        }
    });

    let (mut ran, mut refused) = (0, 0);
    for _ in 0..rounds() {
        match daemon.run(hook([path.to_str().unwrap()])).await {
            Ok(response) => match end(&response) {
                (OutcomeKind::Exited, Some(0), None) => ran += 1,
                // A writer that is kept waiting counts as one already: the kernel does not execute the file (ETXTBSY).
                (OutcomeKind::ExecFailed, None, None) => refused += 1,
                other => panic!("{other:?}"),
            },
            Err(_) => refused += 1,
        }
    }

    assert!(ran > 0 && refused > 0, "{ran} ran, {refused} refused");
    drop(rewriting);
}

#[tokio::test]
async fn of_a_file_that_somebody_has_open_for_writing_a_copy_runs_if_it_is_still_the_same() {
    let daemon = asking().await;
    let path = daemon.outside("program");
    fs::copy("/bin/true", &path).unwrap();
    if nix::unistd::geteuid().is_root() {
        chown(&path, Some(NOBODY), None).unwrap();
    }
    allow(&daemon, &path);
    let request = || hook([path.to_str().unwrap()]);
    let mut writer = File::options().write(true).open(&path).unwrap();

    let response = daemon.run(request()).await.unwrap();

    assert_eq!(end(&response), (OutcomeKind::Exited, Some(0), None));
    writer.write_all(&fs::read("/bin/false").unwrap()).unwrap();
    let refusal = daemon.run(request()).await.unwrap_err();
    assert_eq!(reason(&refusal), "DIGEST_MISMATCH");
    // And nobody is kept from writing once a run is over.
    drop(writer);
    fs::copy("/bin/true", &path).unwrap();
    daemon.run(request()).await.unwrap();
    File::options().write(true).open(&path).unwrap();

    let path = script(&daemon, "one");
    allow(&daemon, &path);
    let _writer = File::options().write(true).open(&path).unwrap();
    let response = daemon.run(run_script(&path)).await.unwrap();
    assert_eq!(&response.stdout[..], b"one\n");
}

/// What a script sees of itself, as an ordinary user's daemon and as root's.
#[tokio::test]
async fn a_script_finds_its_own_name_and_under_an_ordinary_user_its_own_directory() {
    let daemon = Daemon::start().await;
    let path = daemon.outside("hook.sh");
    fs::write(&path, "#!/bin/sh\necho \"$0\"\n").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();

    let response = daemon.run(run_script(&path)).await.unwrap();

    let name = String::from_utf8(response.stdout.to_vec()).unwrap();
    let name = Path::new(name.trim_end());
    assert_eq!(name.file_name(), path.file_name());
    let copied = nix::unistd::geteuid().is_root();
    assert_eq!(name == path, !copied, "{name:?}");
}

/// Runs a script over and over that changes between what was allowed and what was not.
async fn only_one_ran(daemon: &Daemon, path: &Path) {
    let (mut ran, mut refused) = (0, 0);
    for _ in 0..rounds() {
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

/// Runs a command by this daemon as user 65534. Needs root.
fn run_as_nobody(daemon: &Daemon, hook: &[&str]) -> Output {
    ask_as(NOBODY, daemon, "sock", "run", &[&["--"], hook].concat())
}

/// A hook starts a runtime, whose hook starts a runtime, and so on.
#[tokio::test]
async fn hooks_that_lead_to_hooks_without_end_are_refused_at_some_depth() {
    let daemon = Daemon::start().await;
    let mut depth = 0;
    let refusal = loop {
        let mut request = sh("strict", "printf %s $HOOKJAIL_DEPTH");
        request.depth = depth;
        match daemon.run(request).await {
            // What a runtime that the hook starts would find.
            Ok(response) => depth = String::from_utf8_lossy(&response.stdout).parse().unwrap(),
            Err(refusal) => break refusal,
        }
        assert!(depth < 100);
    };

    assert_eq!(depth, 4);
    let expected = (Code::ResourceExhausted, "RECURSION_LIMIT".to_owned());
    assert_eq!((refusal.code(), reason(&refusal)), expected);
    // The command line passes on what it finds; what it cannot read is too deep.
    for (found, refused) in [("3", false), ("4", true), ("many", true)] {
        let mut run = Command::new(env!("CARGO_BIN_EXE_hookjail"));
        run.args(["run", "--connect"])
            .arg(daemon.path().join("sock"));
        let output = run
            .args(["--", "/bin/true"])
            .env("HOOKJAIL_DEPTH", found)
            .output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.contains("RECURSION_LIMIT"), refused, "{found}: {said}");
        assert_eq!(output.status.success(), !refused, "{found}: {said}");
    }
}

mod as_root {
    use super::*;
    use crate::support::needs_root;

    /// As root the daemon can open everything, but a caller who cannot must not learn what is there.
    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_listed_caller_learns_nothing_about_files_it_cannot_reach() {
        needs_root();
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
    #[ignore = "needs root"]
    async fn a_program_that_cannot_be_leased_is_copied_and_hashed_again() {
        needs_root();
        let wrapper = ["setpriv", "--bounding-set", "-lease"];
        let daemon = Daemon::with(Setup {
            ask_for_consent: true,
            wrapper: wrapper.map(str::to_owned).to_vec(),
            ..Setup::default()
        })
        .await;
        only_the_right_program_ran(&daemon).await;
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_hook_that_reaches_the_daemon_is_refused_even_where_its_user_is_listed() {
        needs_root();
        // No shipped profile lets a hook come so far: somebody with a hook's uid stands in for one.
        let hook_user = 1_879_100_007;
        let daemon = Daemon::with(Setup {
            config: format!(
                "[server]\nallowed_uids = [{NOBODY}, {hook_user}]\nsocket_mode = \"0660\"\n"
            ),
            ..Setup::default()
        })
        .await;
        let control = ask_as(NOBODY, &daemon, "sock", "doctor", &["--profile", "strict"]);
        assert_eq!(control.status.code(), Some(0), "{control:?}");

        for (command, words) in [
            ("run", ["--", "/bin/true"]),
            ("run", ["--dry-run", "/bin/true"]),
            ("doctor", ["--profile", "strict"]),
            ("audit query", ["--limit", "1"]),
            ("audit tail", ["--follow", "--lines=1"]),
        ] {
            let output = ask_as(hook_user, &daemon, "sock", command, &words);
            assert_eq!(
                json(&output)["error"]["reason"],
                "CALLER_IS_A_HOOK",
                "{output:?}"
            );
        }
        assert_eq!(daemon.records(), ["refused"]);
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn another_user_is_refused_unless_the_operator_lists_it() {
        needs_root();
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
        for (command, words) in [
            ("doctor", vec![]),
            ("run", vec!["--dry-run", "--", "/bin/true"]),
        ] {
            let output = ask_as(NOBODY, &daemon, "sock", command, &words);
            assert_eq!(json(&output)["error"]["reason"], "PEER_NOT_ALLOWED");
        }

        let daemon = Daemon::with(Setup {
            config: "[server]\nallowed_uids = [65534]\nsocket_mode = \"0660\"\n".to_owned(),
            ..Setup::default()
        })
        .await;
        let output = run_as_nobody(&daemon, &["/bin/true"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(daemon.records(), ["started", "ended"]);
        let output = ask_as(NOBODY, &daemon, "sock", "doctor", &["--profile", "strict"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
}
