//! Only commands that the operator has allowed run, and only with the content that was allowed.

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
    support::{Daemon, Setup, directory, hook, reason, sh},
    witness::{Again, NOBODY, a_hooks_uid, ask_as, end, hookjail, json},
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

fn hook_of<'a>(words: impl IntoIterator<Item = &'a str>) -> pb::ExecuteRequest {
    let mut request = hook([]);
    let argv = words.into_iter().map(str::to_owned).collect();
    request.hook.as_mut().unwrap().argv = argv;
    request
}

fn command_line(daemon: &Daemon, words: &[&str]) -> Output {
    hookjail(&daemon.path().join("hookjail.toml"), words)
        .output()
        .unwrap()
}

fn allow(daemon: &Daemon, path: &Path) {
    let words = ["allow", "--", path.to_str().unwrap()];
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
        let allowed = hookjail(&config, &[&["allow", "--"], &words[..]].concat())
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

/// Maximum number of rounds: a race that ends alike in all of them is none, which the scheduler alone cannot cause.
const MOST_ROUNDS: usize = 100_000;

/// Returns how many times a race is run; `HOOKJAIL_RACE_ROUNDS` raises the number.
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

/// Another hook may write where a script or a link to it lies: outside of all grants, in the run's own workspace, or in that of
/// another run.
#[tokio::test]
async fn a_script_that_is_swapped_runs_as_it_was_allowed_wherever_it_lies() {
    let daemon = asking().await;
    let workspace = daemon.workspace().join("own");
    let [outside, others] = [daemon.outside("hooks"), daemon.workspace().join("other")];
    for directory in [&workspace, &outside, &others] {
        fs::create_dir(directory).unwrap();
    }
    let write = |path: &Path, version: &str| {
        fs::write(path, format!("#!/bin/sh\necho {version}\n")).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    };
    let granted = workspace.join("granted.sh");
    write(&granted, "two");
    for directory in [&workspace, &outside, &others] {
        let [path, other] = ["hook.sh", "other.sh"].map(|name| directory.join(name));
        write(&path, "one");
        symlink(&granted, &other).unwrap();
        let named = path.to_str().unwrap();
        let mut commands = [
            vec![named],
            vec!["/bin/sh", named],
            vec!["/bin/sh", "-c", named],
        ];
        for command in &mut commands {
            let words = ["allow", "--profile", "workspace-ro", "--"];
            let allowed = command_line(&daemon, &[&words[..], command].concat());
            assert!(allowed.status.success(), "{allowed:?}");
        }
        let swapping = Again::swap(path.clone(), other);
        // The control: without hookjail, the other one runs sooner or later.
        let mut control = (0..10_000).map(|_| Command::new("/bin/sh").arg(&path).output());
        let other_ran = |output: std::io::Result<Output>| output.unwrap().stdout == b"two\n";
        assert!(control.any(other_ran), "{named}");
        for command in &commands {
            let (mut ran, mut refused) = (0, 0);
            // A file that is renamed while it is hashed is refused: of many attempts only some run.
            for _ in 0..MOST_ROUNDS {
                if ran >= 10 && refused > 0 {
                    break;
                }
                let mut request = pb::ExecuteRequest {
                    profile: "workspace-ro".to_owned(),
                    ..hook([""])
                };
                let hook = request.hook.as_mut().unwrap();
                hook.argv = command.iter().map(|word| (*word).to_owned()).collect();
                hook.workspace = workspace.display().to_string();
                match daemon.run(request).await {
                    Err(refusal) => {
                        assert_eq!(reason(&refusal), "DIGEST_MISMATCH", "{refusal:?}");
                        refused += 1;
                    }
                    Ok(response) => {
                        let stdout = String::from_utf8_lossy(&response.stdout);
                        let stderr = String::from_utf8_lossy(&response.stderr);
                        assert_eq!(stdout, "one\n", "{command:?} {stderr}");
                        ran += 1;
                    }
                }
            }
            assert!(
                ran > 0 && refused > 0,
                "{command:?}: {ran} ran, {refused} refused"
            );
        }
        drop(swapping);
    }
}

/// Every file that an interpreter reads by its arguments is part of the consent, wherever it stands among them.
#[tokio::test]
async fn whatever_an_interpreter_is_given_to_read_is_bound() {
    let daemon = asking().await;
    let workspace = daemon.workspace();
    let path = |name: &str| workspace.join(name).display().to_string();
    let [script, preset, line] = ["hook.sh", "preset.sh", "a line.sh"].map(path);
    let write = |path: &str, text: &str| {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    };
    let quoted = format!("A=b '{line}' x");
    let read = format!(". {script}");
    let commands: [(&[&str], &str); 9] = [
        (&["/bin/sh", "-e", &script], &script),
        (&["/bin/bash", "-e", &script], &script),
        (&["/bin/bash", "-m", &script], &script),
        (&["/bin/bash", "-euo", "pipefail", &script], &script),
        (&["/bin/bash", "--rcfile", &preset, &script], &script),
        (&["/bin/bash", "--rcfile", &preset, &script], &preset),
        (&["/bin/sh", "hook.sh"], &script),
        (&["/bin/sh", "-c", &read], &script),
        (&["/bin/sh", "-c", &quoted], &line),
    ];
    for (command, changed) in commands {
        write(&script, "echo one\n");
        write(&preset, "echo preset\n");
        write(&line, "#!/bin/sh -e\necho one\n");
        let words = ["allow", "--profile=workspace-ro", "--within"];
        let allowed = [&words[..], &[workspace.to_str().unwrap(), "--"], command].concat();
        let allowed = command_line(&daemon, &allowed);
        assert!(allowed.status.success(), "{allowed:?}");
        let mut request = pb::ExecuteRequest {
            profile: "workspace-ro".to_owned(),
            ..hook([""])
        };
        let hook = request.hook.as_mut().unwrap();
        hook.argv = command.iter().map(|word| (*word).to_owned()).collect();
        hook.workspace = workspace.display().to_string();
        let response = daemon.run(request.clone()).await.unwrap();
        let stderr = String::from_utf8_lossy(&response.stderr);
        assert_eq!(response.stdout, &b"one\n"[..], "{command:?} {stderr}");

        write(changed, "#!/bin/sh\necho two\n");

        let refusal = daemon.run(request.clone()).await.unwrap_err();
        assert_eq!(reason(&refusal), "DIGEST_MISMATCH", "{command:?}");
        // The command that allows it again keeps the bounds.
        let approve = shlex::split(&metadata(&refusal, "approve")).unwrap();
        let bounds = ["--within", workspace.to_str().unwrap()];
        assert!(approve.windows(2).any(|it| it == bounds), "{approve:?}");
        // And a missing file may be back a moment later: the daemon looks for the file, so it must exist now.
        fs::remove_file(changed).unwrap();
        let refusal = daemon.run(request).await.unwrap_err();
        assert_eq!(reason(&refusal), "INVALID_REQUEST", "{command:?}");
    }
}

/// A request names the directory where its hook starts. The consent covers the files there, whichever program reads them.
#[tokio::test]
async fn a_script_is_bound_whatever_starts_it_and_wherever_that_is() {
    let daemon = asking().await;
    let [one_place, other_place] = ["here", "there"].map(|name| daemon.workspace().join(name));
    for (directory, version) in [(&one_place, "one"), (&other_place, "two")] {
        fs::create_dir(directory).unwrap();
        for (name, text) in [
            ("hook", format!("echo {version}\n")),
            ("hook.awk", format!("BEGIN {{ print \"{version}\" }}\n")),
            ("tool", format!("#!/bin/sh\necho {version}\n")),
        ] {
            let path = directory.join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        }
    }
    let shell = daemon.outside("shell");
    symlink("/bin/sh", &shell).unwrap();
    let commands: [&[&str]; 6] = [
        &["/usr/bin/stdbuf", "-oL", "/bin/sh", "hook"],
        &["/usr/bin/stdbuf", "-oL", "./tool"],
        &["/usr/bin/awk", "-f", "hook.awk"],
        &["/bin/sh", "-c", "command ./tool"],
        &["/usr/bin/env", "-iu", "HOME", "/bin/sh", "hook"],
        &[shell.to_str().unwrap(), "hook"],
    ];
    for command in commands {
        let words = ["allow", "--profile=workspace-ro", "--"];
        let config = daemon.path().join("hookjail.toml");
        let mut allow = hookjail(&config, &[&words[..], command].concat());
        let allowed = allow.current_dir(&one_place).output().unwrap();
        assert!(allowed.status.success(), "{allowed:?}");
        let request = |directory: &Path| {
            let mut request = pb::ExecuteRequest {
                profile: "workspace-ro".to_owned(),
                ..hook_of(command.iter().copied())
            };
            let hook = request.hook.as_mut().unwrap();
            hook.working_dir = directory.display().to_string();
            hook.workspace = daemon.workspace().display().to_string();
            request
        };
        let response = daemon.run(request(&one_place)).await.unwrap();
        let stderr = String::from_utf8_lossy(&response.stderr);
        assert_eq!(response.stdout, &b"one\n"[..], "{command:?} {stderr}");

        let refusal = daemon.run(request(&other_place)).await.unwrap_err();

        assert_eq!(reason(&refusal), "DIGEST_MISMATCH", "{command:?}");
    }
}

/// Program that prints each file that its words, or parts of them, name.
const READER: &str = r##"#!/bin/sh
for word; do
    for name in "$word" "${word#@}" "${word#*=}" "${word%%:*}" "${word#*:}"; do
        [ -f "$name" ] && cat "$name"
    done
done
exit 0
"##;

/// Stand-ins for programs read what their words name, so that a test needs none of these programs.
async fn with_stand_ins(names: &str) -> (Daemon, PathBuf) {
    let daemon = asking().await;
    let workspace = daemon.workspace().to_owned();
    fs::create_dir(workspace.join("bin")).unwrap();
    fs::create_dir(workspace.join("lib")).unwrap();
    for name in names.split(' ') {
        let path = workspace.join("bin").join(name);
        fs::write(&path, READER).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }
    (daemon, workspace)
}

/// Allows a command in a workspace, and returns its request and what is not bound.
fn allowed_there(
    daemon: &Daemon,
    workspace: &Path,
    command: &str,
) -> (pb::ExecuteRequest, Vec<String>) {
    let mut words: Vec<String> = command.split(' ').map(str::to_owned).collect();
    if !words[0].starts_with('/') {
        words[0] = workspace.join("bin").join(&words[0]).display().to_string();
    }
    let place = workspace.to_str().unwrap();
    let allow = [
        "allow",
        "--json",
        "--profile=workspace-ro",
        "--within",
        place,
        "--",
    ];
    let rest = words.iter().map(String::as_str);
    let allow: Vec<_> = allow.into_iter().chain(rest).collect();
    let answer = command_line(daemon, &allow);
    assert!(answer.status.success(), "{command}: {answer:?}");
    // The command as it is typed stands last.
    let answer = String::from_utf8(answer.stdout).unwrap();
    let answer: serde_json::Value =
        serde_json::from_str(answer.lines().last().unwrap_or_default()).unwrap();
    let unbound = answer["unbound"].clone();
    let mut request = pb::ExecuteRequest {
        profile: "workspace-ro".to_owned(),
        ..hook_of(words.iter().map(String::as_str))
    };
    let hook = request.hook.as_mut().unwrap();
    hook.workspace = place.to_owned();
    hook.working_dir = place.to_owned();
    (request, serde_json::from_value(unbound).unwrap())
}

/// Each row is a command and the file that changes.
#[tokio::test]
async fn whatever_spelling_names_a_file_of_code_binds_it() {
    let names = "dotnet elixir expect go groovy java kotlin mawk node php runghc rustc sed";
    let (daemon, workspace) = with_stand_ins(names).await;
    let mut ran = Vec::new();
    for (command, changed) in [
        ("node --env-file=.env hook.js", ".env"),
        ("node --env-file .env hook.js", ".env"),
        ("node --env-file .env hook.js", "hook.js"),
        ("node --env-file .env code", "code"),
        ("node --new=code hook.js", "code"),
        ("sed --fil code", "code"),
        ("sed --fil=code", "code"),
        ("sed -n .env -f code", "code"),
        ("sed -e p -f code", "code"),
        ("mawk -Wexec code", "code"),
        ("mawk -W exec code", "code"),
        ("/bin/bash -posix code", "code"),
        ("/bin/bash -restricted code", "code"),
        ("php -d auto_prepend_file=code hook.js", "code"),
        ("java Hook.java", "Hook.java"),
        ("java @code Main", "code"),
        ("java -cp code:.env Main", "code"),
        ("java -cp code:.env Main", ".env"),
        ("expect -x code", "code"),
        ("go run hook.go", "hook.go"),
        ("kotlin hook.kts", "hook.kts"),
        ("groovy hook.groovy", "hook.groovy"),
        ("rustc hook.rs", "hook.rs"),
        ("dotnet run hook.cs", "hook.cs"),
        ("elixir hook.ex", "hook.ex"),
        ("runghc hook.hs", "hook.hs"),
        ("/usr/bin/timeout --sig KILL 5 /bin/sh code", "code"),
    ] {
        for word in [".env", "code", "hook.js"] {
            fs::write(workspace.join(word), "true\n").unwrap();
        }
        fs::write(workspace.join(changed), "echo good\n").unwrap();
        let (request, _) = allowed_there(&daemon, &workspace, command);
        let response = daemon.run(request.clone()).await.unwrap();
        let stdout = String::from_utf8_lossy(&response.stdout);
        assert!(stdout.contains("good"), "{command}: {stdout} {response:?}");

        fs::write(workspace.join(changed), "echo evil\n").unwrap();

        match daemon.run(request).await {
            Ok(_) => ran.push((command, changed)),
            Err(refusal) => assert_eq!(reason(&refusal), "DIGEST_MISMATCH", "{command}"),
        }
    }
    assert_eq!(ran, []);
}

/// A hook that is handed its own log would otherwise never be allowed twice.
#[tokio::test]
async fn data_may_change_from_run_to_run() {
    let (daemon, workspace) = with_stand_ins("awk jq node python3 sed tee").await;
    for command in [
        "python3 -u hook.py --config=data",
        "python3 hook.py data",
        "python3 -c 1 --config=data",
        "node --no-warnings hook.py data",
        "node --redirect-warnings=data hook.py",
        "awk 1 data",
        "awk -v x=data 1",
        "jq --slurpfile x data .",
        "jq -r . data",
        "sed -n p data",
        "tee -a data",
        "/bin/bash -eu hook.py data",
    ] {
        fs::write(workspace.join("hook.py"), "true\n").unwrap();
        fs::write(workspace.join("data"), "one\n").unwrap();
        let (request, _) = allowed_there(&daemon, &workspace, command);
        daemon.run(request.clone()).await.unwrap();

        fs::write(workspace.join("data"), "two\n").unwrap();

        let response = daemon.run(request).await;
        assert!(response.is_ok(), "{command}: {response:?}");
    }
}

#[tokio::test]
async fn directories_and_words_that_cannot_be_bound_are_named_when_a_command_is_allowed() {
    let (daemon, workspace) = with_stand_ins("hook.sh java perl").await;
    fs::copy("/bin/true", workspace.join("bin/git")).unwrap();
    for (command, named) in [
        ("perl -I lib -MFoo hook.pl", "files in the directory `lib`"),
        ("perl -Ilib -MFoo hook.pl", "files in the directory `lib`"),
        ("java -cp lib Main", "files in the directory `lib`"),
        ("java -cp lib Main", "the code that `Main` names"),
        ("git -c alias.x=!sh\tF x", "the words of"),
        (
            "/usr/bin/tar --checkpoint-action=exec=sh\tF -c hook.pl",
            "the words of",
        ),
    ] {
        fs::write(workspace.join("hook.pl"), "1;\n").unwrap();
        let (request, unbound) = allowed_there(&daemon, &workspace, command);
        let lines = unbound.iter().filter(|it| it.contains(named));
        assert_eq!(lines.count(), 1, "{command}: {unbound:?}");
        daemon.run(request).await.unwrap();
    }
    for command in ["perl hook.pl --x", "hook.sh --x", "git"] {
        let (_, unbound) = allowed_there(&daemon, &workspace, command);
        assert_eq!(unbound, [""; 0], "{command}");
    }
}

/// Between the check and the start, another file can take a script's name: the script that runs is a copy.
#[tokio::test]
async fn a_script_that_another_program_starts_runs_as_it_was_checked() {
    let (daemon, workspace) = with_stand_ins("reader").await;
    let path = workspace.join("tool");
    for text in ["#!/bin/sh -e\necho \"good $0\"\n", "echo \"good $0\"\n"] {
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        for command in ["/usr/bin/env", "/usr/bin/env -i A=b", "/usr/bin/timeout 5"] {
            let command = format!("{command} {} x", path.display());
            let (request, unbound) = allowed_there(&daemon, &workspace, &command);
            assert_eq!(unbound, [""; 0], "{command}");

            let response = daemon.run(request).await.unwrap();

            let stdout = String::from_utf8_lossy(&response.stdout);
            assert!(stdout.starts_with("good "), "{command}: {response:?}");
            assert!(
                !stdout.contains(path.to_str().unwrap()),
                "{command}: {stdout}"
            );
        }
    }
}

/// A caller names a command, allowed or not, and the command can be long.
#[tokio::test]
async fn a_command_of_many_words_and_files_harms_nobody() {
    let daemon = asking().await;
    let words = ["/usr/bin/env"]
        .into_iter()
        .chain(std::iter::repeat_n("env", 100_000));
    let refusal = daemon.run(hook_of(words)).await.unwrap_err();
    assert_eq!(reason(&refusal), "CONSENT_REQUIRED");
    let scripts = (0..500).map(|it| daemon.outside(&format!("{it}.sh")));
    let scripts: Vec<_> = scripts.collect();
    for script in &scripts {
        fs::write(script, "true\n").unwrap();
    }
    let scripts = scripts.iter().map(|it| it.to_str().unwrap());

    let refusal = daemon.run(hook_of(["/bin/true"].into_iter().chain(scripts)));

    // Each file would be open as long as the run, so no more than a few are, and the refusal has the digest of each.
    let digests = metadata(&refusal.await.unwrap_err(), "digests");
    assert!(digests.split(' ').count() <= 16, "{digests}");
    assert_eq!(daemon.records(), ["refused", "refused"]);
}

#[tokio::test]
async fn what_cannot_be_bound_is_said_when_it_is_allowed() {
    let daemon = asking().await;
    let path = script(&daemon, "one");
    let unbound = |command: &[&str]| {
        let words = [&["allow", "--json", "--"], command].concat();
        let allowed = json(&command_line(&daemon, &words));
        assert_eq!(allowed["profile_digest"].as_str().map(str::len), Some(64));
        allowed["unbound"].as_array().unwrap().len()
    };
    let path = path.to_str().unwrap();
    assert_eq!(unbound(&[path]), 0);
    assert_eq!(unbound(&["/bin/sh", "-c", path]), 0);
    assert_eq!(unbound(&["/bin/sh", "-c", &format!("{path} | cat")]), 1);
    assert_eq!(unbound(&["/usr/bin/env", "true"]), 1);
    assert_eq!(unbound(&["/bin/sh"]), 1);
    let preloaded = ["/usr/bin/env", "LD_PRELOAD=/usr/lib/x.so", "/bin/true"];
    assert_eq!(unbound(&preloaded), 1);
    let words = ["allow", "--", "/bin/sh", "-c", "true; true"];
    let allowed = command_line(&daemon, &words);
    let allowed = String::from_utf8(allowed.stdout).unwrap();
    assert!(allowed.contains("not bound"), "{allowed}");
}

#[tokio::test]
async fn a_script_that_asks_for_its_own_place_is_named_where_it_runs_as_a_copy() {
    let daemon = asking().await;
    let path = script(&daemon, "place");
    fs::write(&path, "#!/bin/sh\ncd \"$(dirname \"$0\")/..\"\n").unwrap();
    for (profile, is_named) in [("strict", true), ("workspace-rw", false)] {
        let words = ["allow", "--profile", profile, "--"];
        let allowed = command_line(&daemon, &[&words[..], &[path.to_str().unwrap()]].concat());
        let allowed = String::from_utf8(allowed.stdout).unwrap();
        let named = allowed.contains("looks for its own path");
        assert_eq!(named, is_named, "{profile}: {allowed}");
    }
}

#[tokio::test]
async fn what_gits_configuration_leads_to_is_named() {
    let home = directory();
    let home = home.path().canonicalize().unwrap();
    fs::write(
        home.join(".gitconfig"),
        "[core]\n\texcludesFile = ~/ignored\n",
    )
    .unwrap();
    let daemon = Daemon::with(Setup {
        profiles: vec![(
            "git".to_owned(),
            format!(
                "description = \"git\"\nextends = \"pipeline\"\n[files]\nsystem = [{{ path = \"{}/.gitconfig\", access = \"read\" }}]\n",
                home.display()
            ),
        )],
        ..Setup::default()
    })
    .await;
    let ignored = home.join("ignored").display().to_string();
    for (is_there, profile, is_named) in [
        (false, "git", false),
        (true, "git", true),
        (true, "pipeline", false),
    ] {
        if is_there {
            fs::write(&ignored, "*.log\n").unwrap();
        }
        let words = ["allow", "--profile", profile, "--", "/usr/bin/true"];
        let allowed = String::from_utf8(command_line(&daemon, &words).stdout).unwrap();
        let line = format!("git's configuration names {ignored}, which the hook can read");
        assert_eq!(allowed.contains(&line), is_named, "{profile}: {allowed}");
    }
}

#[tokio::test]
async fn a_consent_within_a_directory_bounds_the_workspace_too() {
    let daemon = asking().await;
    let inner = daemon.workspace().join("inner");
    fs::create_dir(&inner).unwrap();
    let words = ["allow", "--profile=workspace-rw", "--within"];
    let words = [&words[..], &[inner.to_str().unwrap(), "--", "/bin/true"]].concat();
    assert!(command_line(&daemon, &words).status.success());
    let request = |working_dir: &Path, workspace: &Path| {
        let mut request = pb::ExecuteRequest {
            profile: "workspace-rw".to_owned(),
            ..hook(["/bin/true"])
        };
        let hook = request.hook.as_mut().unwrap();
        hook.working_dir = working_dir.display().to_string();
        hook.workspace = workspace.display().to_string();
        request
    };
    daemon.run(request(&inner, &inner)).await.unwrap();
    for (working_dir, workspace) in [
        (&inner, &daemon.workspace()),
        (&daemon.workspace(), &daemon.workspace()),
    ] {
        let refusal = daemon.run(request(working_dir, workspace)).await;
        assert_eq!(reason(&refusal.unwrap_err()), "CONSENT_REQUIRED");
    }
}

#[tokio::test]
async fn the_line_that_a_refusal_names_allows_a_script_wherever_the_hook_starts() {
    let daemon = asking().await;
    let hooks = daemon.workspace().join("hooks");
    let deep = hooks.join("a directory");
    fs::create_dir_all(&deep).unwrap();
    for directory in [daemon.workspace(), hooks.clone(), deep.clone()] {
        let script = directory.join("summarize.sh");
        fs::write(
            &script,
            format!("#!/bin/sh\necho {}\n", directory.display()),
        )
        .unwrap();
        fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    }
    let workspace = daemon.workspace();
    let cases = [
        (None, "./summarize.sh", &workspace),
        (Some(&hooks), "./summarize.sh", &hooks),
        (Some(&deep), "./summarize.sh", &deep),
        (Some(&deep), "../summarize.sh", &hooks),
    ];
    let request = |working_dir: Option<&PathBuf>, word| {
        let mut request = pb::ExecuteRequest {
            profile: "workspace-ro".to_owned(),
            ..hook(["/bin/sh", "-c", word])
        };
        let hook = request.hook.as_mut().unwrap();
        hook.workspace = workspace.display().to_string();
        hook.working_dir = working_dir.map_or_else(String::new, |it| it.display().to_string());
        request
    };
    for (working_dir, word, _) in cases {
        let refusal = daemon.run(request(working_dir, word)).await.unwrap_err();
        let approve = shlex::split(&metadata(&refusal, "approve")).unwrap();
        let words: Vec<_> = approve.iter().skip(1).map(String::as_str).collect();
        // From anywhere.
        let mut allow = hookjail(&daemon.path().join("hookjail.toml"), &words);
        let output = allow.current_dir("/").output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
    }
    // A command that is allowed for one directory stays allowed when it is allowed for another.
    for (working_dir, word, ran_in) in cases {
        let response = daemon.run(request(working_dir, word)).await;
        let response = response.unwrap_or_else(|refusal| panic!("{working_dir:?}: {refusal:?}"));
        let printed = String::from_utf8_lossy(&response.stdout);
        assert_eq!(
            printed,
            format!("{}\n", ran_in.display()),
            "{working_dir:?}"
        );
    }
}

/// Makes a program of this size that takes no space on the disk.
fn large_program(daemon: &Daemon, name: &str, bytes: u64) -> PathBuf {
    let path = daemon.outside(name);
    fs::copy("/bin/true", &path).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(bytes).unwrap();
    path
}

#[tokio::test]
async fn a_file_that_is_renamed_while_it_is_hashed_is_refused_and_no_fault() {
    let daemon = asking().await;
    let path = large_program(&daemon, "program", 64 << 20);
    allow(&daemon, &path);
    let other = large_program(&daemon, "other", 64 << 20);
    let _swapping = Again::swap(path.clone(), other);
    let mut refused = 0;
    for _ in 0..5 {
        if let Err(refusal) = daemon.run(run_script(&path)).await {
            assert_eq!(reason(&refusal), "DIGEST_MISMATCH", "{refusal:?}");
            refused += 1;
        }
    }
    assert!(refused > 0);
    assert!(!daemon.log().contains("ERROR"), "{}", daemon.log());
}

#[tokio::test]
async fn a_large_program_is_hashed_for_who_may_run_it_and_keeps_nobody_else_waiting() {
    let daemon = asking().await;
    let large = large_program(&daemon, "large", 512 << 20);
    allow(&daemon, Path::new("/bin/true"));
    // Somebody has allowed it, with another content.
    let digest = pb::Digest {
        path: large.display().to_string(),
        role: "program".to_owned(),
        sha256: "0".repeat(64),
    };
    let allow = pb::AllowRequest {
        argv: vec![large.display().to_string()],
        digests: vec![digest],
        profile: "strict".to_owned(),
        ..pb::AllowRequest::default()
    };
    let mut operator = pb::consent_service_client::ConsentServiceClient::new(daemon.channel());
    operator.allow(allow).await.unwrap();
    let look = || {
        let mut client = daemon.client();
        let preview = pb::PreviewRequest {
            request: Some(run_script(&large)),
        };
        tokio::spawn(async move { client.preview(preview).await.unwrap().into_inner() })
    };
    let looking = [(); 6].map(|()| look());
    let running = pb::ExecuteRequest {
        timeout: Some(prost_types::Duration {
            seconds: 0,
            nanos: 50_000_000,
        }),
        ..run_script(&large)
    };

    let quick = daemon.run(hook(["/bin/true"])).await.unwrap();

    assert_eq!(end(&quick).1, Some(0));
    let waiting = looking.iter().filter(|it| !it.is_finished()).count();
    assert!(waiting > 4, "{waiting}");
    // And a deadline holds while others are hashing.
    let refusal = daemon.run(running).await.unwrap_err();
    assert_eq!(reason(&refusal), "DEADLINE");
    assert!(!looking[5].is_finished());
    for look in looking {
        assert_eq!(
            look.await.unwrap().refusal.unwrap().reason,
            "DIGEST_MISMATCH"
        );
    }
    // A file without a consent is hashed for no caller, nor is a larger one.
    let unallowed = large_program(&daemon, "unallowed", 512 << 20);
    let refusal = daemon.run(run_script(&unallowed)).await.unwrap_err();
    assert_eq!(reason(&refusal), "CONSENT_REQUIRED");
    assert!(refusal.message().contains("too large"), "{refusal:?}");
    File::options()
        .write(true)
        .open(&large)
        .unwrap()
        .set_len((512 << 20) + 1)
        .unwrap();
    let refusal = daemon.run(run_script(&large)).await.unwrap_err();
    assert_eq!(reason(&refusal), "INVALID_REQUEST", "{refusal:?}");
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
        // A file that root alone can write is taken as it is.
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
    for round in 0..MOST_ROUNDS {
        if round >= rounds() && ran > 0 && refused > 0 {
            break;
        }
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
    // And writers are no longer kept out once a run is over.
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

/// A script sees itself as a copy, since another user with write access could replace the original.
#[tokio::test]
async fn a_script_finds_its_own_name_and_a_directory_that_nobody_else_writes() {
    let daemon = Daemon::start().await;
    let path = daemon.outside("hook.sh");
    fs::write(&path, "#!/bin/sh\necho \"$0\"\n").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();

    let response = daemon.run(run_script(&path)).await.unwrap();

    let name = String::from_utf8(response.stdout.to_vec()).unwrap();
    let name = Path::new(name.trim_end());
    assert_eq!(name.file_name(), path.file_name());
    assert_ne!(name, path);
}

/// A script that runs as a copy finds what lies beside it and above it, as far as it is granted; and cannot change it by that
/// way.
#[tokio::test]
async fn a_script_finds_what_lies_around_it_as_far_as_it_is_granted() {
    let daemon = Daemon::start().await;
    let workspace = daemon.workspace();
    let hooks = workspace.join(".agent/hooks");
    fs::create_dir_all(&hooks).unwrap();
    fs::write(hooks.join("lib.sh"), "beside() { echo beside; }\n").unwrap();
    fs::write(workspace.join("above.txt"), "above\n").unwrap();
    let text = "#!/bin/sh\ncd \"$(dirname \"$0\")\"\n. ./lib.sh\nbeside\nread line < ../../above.txt\necho $line\n\
                for it in *; do echo $it; done\n(echo x > lib.sh) 2>/dev/null || echo kept\n\
                (echo x > new.sh) 2>/dev/null || echo none\n";
    let path = hooks.join("hook.sh");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let request = pb::ExecuteRequest {
        profile: "workspace-ro".to_owned(),
        ..run_script(&path)
    };
    let mut granted = request.clone();
    granted.hook.as_mut().unwrap().workspace = workspace.display().to_string();

    let granted = daemon.run(granted).await.unwrap();

    let stdout = String::from_utf8_lossy(&granted.stdout);
    let expected = "beside\nabove\nhook.sh\nlib.sh\nkept\nnone\n";
    assert_eq!(stdout, expected, "{granted:?}");
    // A file without a grant is not there either.
    let ungranted = pb::ExecuteRequest {
        profile: "pipeline".to_owned(),
        ..request
    };
    let ungranted = daemon.run(ungranted).await.unwrap();
    assert_eq!(ungranted.stdout, &b""[..], "{ungranted:?}");
    assert_eq!(end(&ungranted).1, Some(2), "{ungranted:?}");
}

/// As in `node_modules`: hundreds of packages, and links to their programs in one place. A shell looks where the link is,
/// Node.js and Python where it leads.
#[tokio::test]
async fn a_script_that_a_link_names_finds_what_lies_around_both() {
    let daemon = Daemon::start().await;
    let workspace = daemon.workspace();
    let packages = workspace.join("packages");
    for package in 0..600 {
        fs::create_dir_all(packages.join(format!("other-{package}"))).unwrap();
    }
    fs::write(packages.join("other-599/rule"), "rule\n").unwrap();
    fs::create_dir_all(packages.join("guard/bin")).unwrap();
    fs::write(packages.join("guard/package"), "package\n").unwrap();
    fs::create_dir_all(packages.join(".bin")).unwrap();
    fs::write(packages.join(".bin/near"), "near\n").unwrap();
    let text = "#!/bin/sh\nlink=$(dirname \"$0\")\nreal=$(dirname \"$(readlink -f \"$0\")\")\n\
                cat \"$link/near\" \"$real/../package\" \"$real/../../other-599/rule\"\n";
    let path = packages.join("guard/bin/guard.sh");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let link = packages.join(".bin/guard");
    symlink("../guard/bin/guard.sh", &link).unwrap();
    // The control.
    let bare = Command::new(&link).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&bare.stdout),
        "near\npackage\nrule\n"
    );

    let mut request = pb::ExecuteRequest {
        profile: "workspace-ro".to_owned(),
        ..run_script(&link)
    };
    request.hook.as_mut().unwrap().workspace = workspace.display().to_string();
    let response = daemon.run(request).await.unwrap();

    let stdout = String::from_utf8_lossy(&response.stdout);
    assert_eq!(stdout, "near\npackage\nrule\n", "{response:?}");
}

/// Runs a script over and over that changes between what was allowed and what was not.
async fn only_one_ran(daemon: &Daemon, path: &Path) {
    let (mut ran, mut refused) = (0, 0);
    for round in 0..MOST_ROUNDS {
        if round >= rounds() && ran > 0 && refused > 0 {
            break;
        }
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
    let words = ["allow", "--until", "2020-01-31T12:00:00Z", "--"];
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
    assert!(daemon.log().contains("the path is a symbolic link"));
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
            // The depth that a runtime started by the hook would find.
            Ok(response) => depth = String::from_utf8_lossy(&response.stdout).parse().unwrap(),
            Err(refusal) => break refusal,
        }
        assert!(depth < 100);
    };

    assert_eq!(depth, 4);
    let expected = (Code::ResourceExhausted, "RECURSION_LIMIT".to_owned());
    assert_eq!((refusal.code(), reason(&refusal)), expected);
    // The command line passes on the depth that it finds; an unreadable one counts as too deep.
    for (found, refused) in [("3", false), ("4", true), ("many", true)] {
        let mut run = crate::support::command(env!("CARGO_BIN_EXE_hookjail"));
        run.args(["run", "--connect"])
            .arg(daemon.path().join("sock"));
        let output = run
            .args(["--", "/bin/true"])
            .env("HOOKJAIL_DEPTH", found)
            .output();
        let output = output.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            stderr.contains("RECURSION_LIMIT"),
            refused,
            "{found}: {stderr}"
        );
        assert_eq!(output.status.success(), !refused, "{found}: {stderr}");
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
            config: "[server]\ncallers = [65534]\nsocket_mode = \"0660\"\n".to_owned(),
            ask_for_consent: true,
            ..Setup::default()
        })
        .await;
        let private = daemon.outside("private");
        fs::create_dir(&private).unwrap();
        fs::set_permissions(&private, Permissions::from_mode(0o700)).unwrap();
        let script = private.join("script");
        fs::write(&script, "echo secret").unwrap();
        let refusal_of = |path: &Path| {
            let output = run_as_nobody(&daemon, &["/bin/sh", path.to_str().unwrap()]);
            let error = json(&output)["error"].clone();
            let message = error["message"].as_str().unwrap();
            let message = message.replace(path.to_str().unwrap(), "it");
            (error["reason"].as_str().unwrap().to_owned(), message, error)
        };
        let [(reason, message, _), none] =
            [script.clone(), private.join("none")].map(|it| refusal_of(&it));

        assert_eq!((&*reason, &message), ("INVALID_REQUEST", &none.1));

        // The control: where the caller can go, the script is among what is hashed.
        fs::set_permissions(&private, Permissions::from_mode(0o755)).unwrap();
        let (reason, _, error) = refusal_of(&script);
        assert_eq!(reason, "CONSENT_REQUIRED");
        assert!(error["metadata"]["digests"].to_string().contains("script"));
        assert_eq!(refusal_of(&private.join("none")).0, "INVALID_REQUEST");
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
        let (hook_user, range) = a_hooks_uid();
        let caller = NOBODY;
        let daemon = Daemon::with(Setup {
            config: format!(
                "{range}[server]\ncallers = [{caller}, {hook_user}]\nsocket_mode = \"0660\"\n"
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
            config: "[server]\ncallers = [65534]\nsocket_mode = \"0660\"\n".to_owned(),
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

mod with_tools {
    use super::*;

    #[tokio::test]
    #[ignore = "needs bash"]
    async fn the_line_in_the_log_allows_what_was_refused_whatever_the_command_holds() {
        let daemon = asking().await;
        for script in [
            "echo one\necho two",
            "printf '%s\\n' \"it's\"\n\techo \"a\\\\b\" # 'x'\n",
            "echo \"$HOME\" 'single' `true`",
            "echo '\u{202e}\u{1b}[2J'",
        ] {
            let request = sh("strict", script);
            let before = daemon.log().len();
            let refusal = daemon.run(request.clone()).await.unwrap_err();
            assert_eq!(reason(&refusal), "CONSENT_REQUIRED");
            let log = daemon.log().split_off(before);
            let line = log.lines().find_map(|line| line.split_once(" approve="));
            let (_, line) = line.unwrap_or_else(|| panic!("{log}"));
            assert_eq!(line, metadata(&refusal, "approve"));

            let program = crate::support::program();
            let named = format!("hookjail() {{ '{}' \"$@\"; }}", program.display());
            let output = Command::new("bash")
                .args(["-c", &format!("{named}\n{line}")])
                .output()
                .unwrap();

            assert!(output.status.success(), "{line}: {output:?}");
            let response = daemon.run(request).await;
            assert!(response.is_ok(), "{line}: {response:?}");
        }
        let listed = command_line(&daemon, &["consent", "list"]).stdout;
        let listed = String::from_utf8(listed).unwrap();
        assert!(!listed.contains('\u{fffd}'), "{listed}");
        assert!(
            listed.contains(r"/bin/sh -c $'echo one\necho two'"),
            "{listed}"
        );
    }
}
