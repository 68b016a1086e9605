//! Limits of a hook under the shipped profiles, each refusal beside a positive control; and what the hook finds.

#![expect(
    clippy::disallowed_methods,
    reason = "positive controls run the same program without hookjail"
)]

use std::{fs, os::unix::process::CommandExt, path::Path, process::Command};

use hookjail::pb;

use crate::{
    attempts::{Probe, Result, run},
    support::{self, Daemon, Setup, field, reason, sh},
    witness::{until, until_clean},
};

#[tokio::test]
async fn the_daemon_is_out_of_reach() {
    let (probe, daemon) = (Probe::build(), Daemon::start().await);
    let pid = daemon.pid().to_string();
    let limits = || fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let before = limits();

    let mut ended = Vec::new();
    for attempt in ["signal", "signal-thread", "limit", "nice", "read-proc"] {
        let result = probe.confined(&daemon, "strict", &[attempt, &pid]).await;
        ended.push((attempt, result.code, result.said));
    }
    let traced = probe.confined(&daemon, "strict", &["trace", &pid]).await;

    let refused = |attempt, errno| (attempt, Some(errno), String::new());
    let expected = [
        refused("signal", libc::EPERM),
        refused("signal-thread", libc::EPERM),
        refused("limit", libc::EPERM),
        refused("nice", libc::EPERM),
        refused("read-proc", libc::EACCES),
    ];
    assert_eq!(ended, expected);
    assert_eq!(traced.kind, pb::OutcomeKind::EscapeAttempt);
    assert_eq!(limits(), before);
}

#[tokio::test]
async fn flags_that_a_hook_changes_are_those_of_its_own_pipes() {
    let (probe, daemon) = (Probe::build(), Daemon::start().await);
    // The positive control: a flag of a shared pipe changes for all that share it.
    let (read, write) = nix::unistd::pipe().unwrap();
    let flags = |fd: &std::os::fd::OwnedFd| {
        let flags = nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_GETFL).unwrap();
        nix::fcntl::OFlag::from_bits_retain(flags).contains(nix::fcntl::OFlag::O_NONBLOCK)
    };
    let mut command = Command::new(probe.path());
    let shared = write.try_clone().unwrap();
    assert!(
        command
            .arg("unblock")
            .stdout(shared)
            .status()
            .unwrap()
            .success()
    );
    assert_eq!((flags(&read), flags(&write)), (false, true));
    let of_daemon = || {
        let entry = |fd: std::fs::DirEntry| {
            let info = fs::read_to_string(fd.path()).unwrap_or_default();
            let flags = info.lines().find(|line| line.starts_with("flags"));
            (fd.file_name(), flags.map(str::to_owned))
        };
        let all = fs::read_dir(format!("/proc/{}/fdinfo", daemon.pid())).unwrap();
        let mut all: Vec<_> = all.map(|fd| entry(fd.unwrap())).collect();
        all.sort();
        all
    };
    probe.confined(&daemon, "strict", &["say", "warm"]).await;
    let before = of_daemon();

    let changed = probe.confined(&daemon, "strict", &["unblock"]).await;

    assert_eq!(changed.said, "changed");
    let after = of_daemon();
    let differ: Vec<_> = before.iter().filter(|fd| !after.contains(fd)).collect();
    assert!(differ.is_empty(), "{differ:?}");
}

#[tokio::test]
async fn its_own_state_journal_and_socket_cannot_be_read_or_reached_by_a_hook() {
    let (probe, daemon) = (Probe::build(), Daemon::start().await);
    let path = |name: &str| daemon.path().join(name).display().to_string();
    // There must be something to read.
    probe.confined(&daemon, "strict", &["state"]).await;
    assert!(!daemon.records().is_empty());

    let mut codes = Vec::new();
    for [attempt, name] in [
        ["read", "state/audit/journal.jsonl"],
        ["write", "state/audit/journal.jsonl"],
        ["read", "state/allowlist.json"],
        ["write", "hookjail.toml"],
        ["list", "run"],
        ["unix-stream", "sock"],
    ] {
        let result = probe
            .confined(&daemon, "strict", &[attempt, &path(name)])
            .await;
        codes.push(result.code);
    }

    let (access, permission) = (Some(libc::EACCES), Some(libc::EPERM));
    assert_eq!(codes, [access, access, access, access, access, permission]);
}

#[tokio::test]
async fn a_sibling_hook_survives_a_signal_to_everybody() {
    let (probe, daemon) = (Probe::build(), Daemon::start().await);
    let ready = "ready".to_owned();
    // The hook blocks until the test sends the rest of its script through a FIFO in the workspace, which the hook can read.
    let fifo = daemon.workspace().join("gate");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o666)).unwrap();
    let mut sibling = sh(
        "strict",
        "printf ready; read -r word <\"$HOOK_GATE\"; printf %s \"$word\"",
    );
    let hook = sibling.hook.as_mut().unwrap();
    hook.workspace = daemon.workspace().display().to_string();
    hook.env
        .insert("HOOK_GATE".to_owned(), fifo.display().to_string());
    fs::set_permissions(&fifo, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();

    let everybody = async {
        // Opening for writing waits until the sibling reads.
        let path = fifo.clone();
        let gate = tokio::task::spawn_blocking(move || fs::File::options().write(true).open(path));
        let mut gate = gate.await.unwrap().unwrap();
        // Where the hook is the user who runs the tests, a failure must not end that user's session.
        let root = nix::unistd::geteuid().is_root();
        let attempt = if root {
            "signal-all-deadly"
        } else {
            "signal-all"
        };
        let result = probe.confined(&daemon, "strict", &[attempt]).await;
        std::io::Write::write_all(&mut gate, b" and alive\n").unwrap();
        result
    };
    let (sibling, killer) = tokio::join!(run(&daemon, sibling), everybody);

    assert_ne!(killer.code, Some(127));
    assert_eq!(
        (sibling.kind, sibling.said),
        (pb::OutcomeKind::Exited, format!("{ready}and alive"))
    );
}

#[tokio::test]
async fn a_hook_finds_itself_without_privileges_core_files_or_a_user_of_others() {
    let (probe, daemon) = (Probe::build(), Daemon::start().await);

    let state = probe.confined(&daemon, "strict", &["state"]).await;

    let root = nix::unistd::geteuid().is_root();
    let user = probe.user(&daemon).await;
    if root {
        assert!((1_879_100_000..=1_879_104_095).contains(&user), "{user}");
    } else {
        assert_eq!(user, nix::unistd::geteuid().as_raw());
    }
    let (group, others) = if root {
        (user, 0)
    } else {
        let groups = nix::unistd::getgroups().unwrap();
        (nix::unistd::getegid().as_raw(), groups.len())
    };
    let expected = format!(
        "uid {user} {user} {user}\ngid {group} {group} {group}, {others} others\nscratch 700 {user}\ncore 0 0\nfiles 256\nno_new_privs 1\nleader 1\numask 77\n"
    );
    assert_eq!(state.said, expected);
}

#[tokio::test]
async fn a_crash_leaves_no_core_file() {
    let (probe, daemon) = (Probe::build(), Daemon::start().await);

    let crash = probe.confined(&daemon, "strict", &["raise", "11"]).await;

    let expected = Result {
        code: None,
        kind: pb::OutcomeKind::Signaled,
        said: String::new(),
        signal: Some(libc::SIGSEGV),
    };
    assert_eq!(crash, expected);
    until_clean(&daemon).await;
}

#[tokio::test]
async fn only_the_standard_descriptors_are_open() {
    let (probe, daemon) = (Probe::build(), Daemon::start().await);

    let mut control = Command::new("/bin/sh");
    control.args(["-c", "exec 7</dev/null; exec \"$0\" descriptors"]);
    let control = control.arg0("sh").arg(probe.path()).output().unwrap();
    let confined = probe.confined(&daemon, "strict", &["descriptors"]).await;

    let control = String::from_utf8(control.stdout).unwrap();
    assert!(
        control.starts_with("0 1 2 ") && control.contains(" 7 "),
        "{control}"
    );
    assert_eq!(confined.said, "0 1 2 ");
}

#[tokio::test]
async fn the_environment_is_built_from_empty() {
    let probe = Probe::build();
    let inherited = [
        "HOOKJAIL_TEST_MARKER",
        "LD_LIBRARY_PATH",
        "SSH_AUTH_SOCK",
        "DOCKER_HOST",
        "XDG_RUNTIME_DIR",
        "HOOK_OF_THE_DAEMON",
    ];
    let env = inherited.map(|name| (name.to_owned(), "/inherited".to_owned()));
    let setup = Setup {
        env: env.to_vec(),
        ..Setup::default()
    };
    let daemon = Daemon::with(setup).await;
    let environ = fs::read(format!("/proc/{}/environ", daemon.pid())).unwrap();
    let environ = String::from_utf8(environ).unwrap();
    for name in inherited {
        assert!(environ.contains(&format!("{name}=/inherited")), "{name}");
    }

    let mut request = probe.hook("strict", &["environment".to_owned()]);
    let env = &mut request.hook.as_mut().unwrap().env;
    env.insert("HOOK_NAME".to_owned(), "mine".to_owned());
    let found = run(&daemon, request).await.said;

    let names: Vec<&str> = found
        .lines()
        .map(|line| line.split_once('=').unwrap().0)
        .collect();
    let expected = [
        "GIT_CONFIG_COUNT",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_KEY_0",
        "GIT_CONFIG_KEY_1",
        "GIT_CONFIG_KEY_2",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_CONFIG_VALUE_0",
        "GIT_CONFIG_VALUE_1",
        "GIT_CONFIG_VALUE_2",
        "GIT_OPTIONAL_LOCKS",
        "GIT_PAGER",
        "HOME",
        "HOOKJAIL_DEPTH",
        "HOOK_NAME",
        "LANG",
        "PATH",
        "TMPDIR",
    ];
    assert_eq!(names, expected);
    assert!(!found.contains("inherited"), "{found}");
}

#[tokio::test]
async fn variables_that_decide_what_code_runs_are_refused() {
    let daemon = Daemon::start().await;
    let witness = daemon.outside("witness");

    let mut refusals = Vec::new();
    let names = [
        "LD_PRELOAD",
        "LD_AUDIT",
        "BASH_ENV",
        "BASH_FUNC_x%%",
        "ENV",
        "PYTHONPATH",
        "NODE_OPTIONS",
        "GIT_SSH_COMMAND",
        "PATH",
        "HOME",
        "UNHEARD_OF",
    ];
    for name in names {
        let mut request = sh("strict", &format!(": > {}", witness.display()));
        let env = &mut request.hook.as_mut().unwrap().env;
        env.insert(name.to_owned(), "/tmp/x.so".to_owned());
        let status = daemon.run(request).await.unwrap_err();
        refusals.push((reason(&status), field(&status)));
    }

    let expected = names.map(|name| ("INVALID_REQUEST".to_owned(), format!("hook.env[{name}]")));
    assert_eq!(refusals, expected);
    assert!(!witness.exists());
}

#[tokio::test]
async fn the_scratch_directory_is_fresh_and_gone_afterwards() {
    let daemon = Daemon::start().await;
    let script =
        r#"pwd; printf '%s\n' "$HOME" "$TMPDIR"; printf '%s ' .* *; : > kept; : > .hidden"#;

    let mut directories = Vec::new();
    for _ in 0..2 {
        let printed = run(&daemon, sh("strict", script)).await.said;
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!((lines[0], lines[0]), (lines[1], lines[2]));
        // dash shows `.` and `..`, and the pattern itself where it finds nothing.
        assert_eq!(lines[3], ". .. * ");
        until("the directory's end", || !Path::new(lines[0]).exists()).await;
        directories.push(lines[0].to_owned());
    }

    assert_ne!(directories[0], directories[1]);
    until_clean(&daemon).await;
}

#[tokio::test]
async fn scratch_and_dev_null_can_be_written() {
    let daemon = Daemon::start().await;
    let script = "echo x > /dev/null && echo kept > file && read -r word < file && echo \"$word\"";

    let ended = run(&daemon, sh("strict", script)).await;

    assert_eq!((ended.code, ended.said.as_str()), (Some(0), "kept\n"));
}

#[tokio::test]
async fn text_that_names_no_interpreter_is_run_by_the_shell_and_nothing_else_is() {
    let daemon = Daemon::start().await;
    let written = |name: &str, content: &[u8]| {
        let path = daemon.outside(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        path.display().to_string()
    };

    for (name, text) in [
        ("plain", "echo ran $1\n"),
        ("marked", "\u{feff}#!/no/such\necho ran $1\n"),
    ] {
        let path = written(name, text.as_bytes());
        // The positive control: libc and shells do the same.
        let mut control = Command::new("/bin/sh");
        control.args(["-c", "exec \"$0\" one"]).arg(&path);
        assert_eq!(control.output().unwrap().stdout, b"ran one\n", "{text}");
        // In the marked text the first line is a command, for which a shell starts a process.
        let mut request = support::hook([&path, "one"]);
        "pipeline".clone_into(&mut request.profile);
        let response = daemon.run(request).await.unwrap();
        let outcome = response.outcome.unwrap();
        assert_eq!(outcome.exit_code, Some(0), "{text}");
        assert_eq!(&response.stdout[..], b"ran one\n", "{text}");
    }
    // Its consent names the shell beside the text.
    let started = daemon.journal().into_iter().rev();
    let mut started = started.filter(|record| record["record"] == "started");
    let digests = started.next().unwrap()["digests"].to_string();
    assert!(digests.contains("\"/bin/sh\""), "{digests}");

    let other = written("other", b"echo ran\0\n");
    let response = daemon.run(support::hook([&other])).await.unwrap();
    let outcome = response.outcome.unwrap();
    assert_eq!(
        (outcome.kind(), outcome.exec_errno, &response.stdout[..]),
        (pb::OutcomeKind::ExecFailed, Some(libc::ENOEXEC), &b""[..])
    );
    let problem = &response.exec_problem;
    assert!(problem.contains("no first line"), "{problem}");
}

/// As programs that select a version of an interpreter are.
#[tokio::test]
async fn a_script_whose_interpreter_is_a_script_runs_as_it_does_without_hookjail() {
    let daemon = Daemon::start().await;
    let written = |name: &str, text: &str| {
        let path = daemon.outside(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let shim = written(
        "python3",
        "#!/usr/bin/env -S sh -u\nexec /bin/sh -e \"$@\"\n",
    );
    let outer = written(
        "outer",
        &format!("#!{shim} -u\nshift; exec /bin/sh \"$@\"\n"),
    );
    for (name, interpreter) in [("one", shim), ("two", outer)] {
        let hook = written(name, &format!("#!{interpreter} -f\necho ran $1 $-\n"));
        let control = Command::new(&hook).arg("one").output().unwrap();
        assert!(!control.stdout.is_empty(), "{name}: {control:?}");
        let response = daemon.run(support::hook([&hook, "one"])).await.unwrap();
        let outcome = response.outcome.unwrap();
        assert_eq!(
            (&response.stdout[..], outcome.exit_code),
            (&control.stdout[..], control.status.code()),
            "{name}: {}",
            response.exec_problem
        );
    }
}

#[tokio::test]
async fn a_program_that_the_dynamic_loader_runs_has_no_more_rights() {
    let daemon = Daemon::start().await;
    let secret = daemon.outside("secret");
    fs::write(&secret, "secret\n").unwrap();
    let loader = "/lib64/ld-linux-x86-64.so.2";
    let script = format!(
        "cp /bin/sh own && ! ./own -c : 2>/dev/null; {loader} ./own -c 'echo ran; read -r x <{} && echo $x'",
        secret.display()
    );
    let directory = support::directory();
    let mut control = Command::new("/bin/sh");
    let control = control.args(["-c", &script]).current_dir(directory.path());

    let control = control.output().unwrap();
    let confined = daemon.run(sh("pipeline", &script)).await.unwrap();

    assert_eq!(control.stdout, b"ran\nsecret\n");
    assert_eq!(confined.stdout, b"ran\n".as_slice());
}

mod as_root {
    use std::{
        os::unix::fs::PermissionsExt,
        time::{Duration, Instant},
    };

    use super::*;
    use crate::{support::needs_root, witness::NOBODY};

    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_set_uid_program_gains_nothing() {
        needs_root();
        let (probe, directory) = (Probe::build(), support::directory());
        let program = directory.path().join("set-uid");
        fs::copy(probe.path(), &program).unwrap();
        fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
        let grant = format!(
            "description = \"pipeline and a program\"\nextends = \"pipeline\"\n[files]\nsystem = [{{ path = {:?}, access = \"execute\" }}]\n",
            directory.path()
        );
        let daemon = Daemon::with(Setup {
            profiles: vec![("with-program".to_owned(), grant)],
            ..Setup::default()
        })
        .await;
        let ids = |stdout: &[u8]| {
            let stdout = String::from_utf8_lossy(stdout);
            let line = stdout.lines().next().unwrap_or_default();
            line.split(' ')
                .skip(1)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };

        let mut control = Command::new(&program);
        let control = control
            .arg("state")
            .uid(65_534)
            .gid(65_534)
            .output()
            .unwrap();
        let mut request = support::hook([program.to_str().unwrap(), "state"]);
        request.profile = "with-program".to_owned();
        let confined = daemon.run(request).await.unwrap();

        assert_eq!(ids(&control.stdout), ["65534", "0", "0"]);
        let user = probe.user(&daemon).await.to_string();
        assert_eq!(ids(&confined.stdout), [&*user, &*user, &*user]);
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_granted_file_is_what_was_mounted_over_it_meanwhile() {
        needs_root();
        let directory = support::directory();
        fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let [file, replacement] = ["file", "over"].map(|name| {
            let path = directory.path().join(name);
            fs::write(&path, name).unwrap();
            path
        });
        let grant = format!(
            "description = \"strict and a file\"\nextends = \"strict\"\n[files]\nsystem = [{{ path = {file:?}, access = \"read\" }}]\n"
        );
        let daemon = Daemon::with(Setup {
            profiles: vec![("with-file".to_owned(), grant)],
            wrapper: ["unshare", "-m"].map(str::to_owned).to_vec(),
            ..Setup::default()
        })
        .await;
        let read = async || {
            let mut request = support::hook(["cat", file.to_str().unwrap()]);
            request.profile = "with-file".to_owned();
            daemon.run(request).await.unwrap().stdout
        };
        // Until its directory counts as unchanged.
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(200) {
            assert_eq!(&read().await[..], b"file");
        }

        let mut mount = Command::new("nsenter");
        let mount = mount.arg("-m").arg("-t").arg(daemon.pid().to_string());
        let mount = mount.args(["mount", "--bind"]).arg(replacement).arg(&file);
        assert!(mount.status().unwrap().success());

        assert_eq!(&read().await[..], b"over");
    }

    /// The arguments of a running hook show every user the place of the copy of its script.
    #[tokio::test]
    #[ignore = "needs root"]
    async fn what_is_copied_for_a_run_is_nobody_elses_to_read() {
        needs_root();
        let daemon = Daemon::start().await;
        let script = |directory: &str, mode| {
            let directory = daemon.outside(directory);
            fs::create_dir(&directory).unwrap();
            let script = directory.join("guard");
            fs::write(&script, "#!/bin/sh\necho private; exec sleep 20\n").unwrap();
            for path in [&script, &directory] {
                fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
            }
            script
        };
        let (private, open) = (script("private", 0o700), script("open", 0o755));
        let as_nobody = |path: &Path| {
            let mut command = Command::new("cat");
            let output = command.arg(path).uid(NOBODY).gid(NOBODY).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let mut request = support::hook([private.to_str().unwrap()]);
        request.profile = "pipeline".to_owned();
        let request = pb::ExecuteStreamRequest {
            request: Some(request),
        };
        let run = daemon.client().execute_stream(request).await.unwrap();
        let mut run = run.into_inner();
        run.message().await.unwrap();

        let copies: Vec<_> = daemon
            .scratch_directories()
            .iter()
            .map(|run| run.join("script/guard"))
            .collect();

        let [copy] = &*copies else {
            panic!("{copies:?}");
        };
        // The controls: the copy is there, the open file can be read, and the copied original cannot.
        assert_eq!(fs::read(copy).unwrap(), fs::read(&private).unwrap());
        assert!(as_nobody(&open).contains("private"));
        assert_eq!(as_nobody(&private), "");
        assert_eq!(as_nobody(copy), "");
    }
}
