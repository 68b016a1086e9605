//! A view of its own: scripts at their own paths, directories for temporary files, a process tree with its own `/proc`.
//!
//! Each success under confinement has a bare run beside it, and each failure a control that succeeds.

#![expect(
    clippy::disallowed_methods,
    reason = "the bare run starts the same script without hookjail"
)]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use hookjail::pb::{self, OutcomeKind};
use nix::{
    fcntl::OFlag,
    pty::{grantpt, posix_openpt, ptsname_r, unlockpt},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::task::JoinHandle;

use crate::{
    support::{Daemon, SHIPPED, Setup, hook, unshared_directory},
    witness::{a_minute, end, processes_that, until, until_gone, writing},
};

/// Returns a daemon in a directory that a view covers, as tests usually have, and one in a directory that none covers.
async fn daemons() -> Vec<Daemon> {
    let mut daemons = vec![Daemon::start().await];
    if let Some(directory) = unshared_directory() {
        daemons.push(
            Daemon::in_directory(directory, Setup::default())
                .await
                .unwrap(),
        );
    }
    daemons
}

fn script(workspace: &Path, name: &str, text: &str) -> PathBuf {
    let path = workspace.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Runs a command bare, and under `workspace-rw`. Returns exit code and stdout of both.
async fn both(daemon: &Daemon, argv: [&str; 2]) -> [(Option<i32>, String); 2] {
    let workspace = daemon.workspace();
    let bare = Command::new(argv[0])
        .args(argv.iter().skip(1).filter(|word| !word.is_empty()))
        .current_dir(&workspace)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let mut request = writing(daemon, "");
    let words = argv.iter().filter(|word| !word.is_empty());
    request.hook.as_mut().unwrap().argv = words.map(|&word| word.to_owned()).collect();
    let response = daemon.run(request).await.unwrap();
    let confined = String::from_utf8_lossy(&response.stdout).into_owned();
    [
        (
            bare.status.code(),
            String::from_utf8_lossy(&bare.stdout).into_owned(),
        ),
        (end(&response).1, confined),
    ]
}

#[tokio::test]
async fn a_script_finds_itself_its_neighbours_and_its_project_where_they_are() {
    if nix::unistd::geteuid().is_root() {
        // Hooks have a uid of their own, which may not reach the original: see `confinement`.
        return;
    }
    for daemon in daemons().await {
        let workspace = daemon.workspace();
        script(&workspace, ".hooks/rules.txt", "rules\n");
        for (name, text) in [
            (
                ".hooks/place.sh",
                "#!/bin/bash\ncd \"$(dirname \"${BASH_SOURCE[0]}\")/..\" && pwd -P && echo \"$0\" && cat .hooks/rules.txt\n",
            ),
            (
                ".hooks/place.py",
                "#!/usr/bin/env python3\nimport pathlib\nprint(__file__, pathlib.Path(__file__).resolve().parents[1])\n\
                 print(pathlib.Path(__file__).with_name('rules.txt').read_text())\n",
            ),
        ] {
            let path = script(&workspace, name, text).display().to_string();
            let [bare, confined] = both(&daemon, [&path, ""]).await;
            assert_eq!(bare.0, Some(0), "{name}");
            assert_eq!(bare, confined, "{name}");
        }
        // By a link, as package managers make them.
        std::os::unix::fs::symlink(workspace.join(".hooks/place.py"), workspace.join("link"))
            .unwrap();
        let path = workspace.join("link").display().to_string();
        let [bare, confined] = both(&daemon, [&path, ""]).await;
        assert_eq!(bare, confined);
        // A program by a link, as virtual environments have their interpreter.
        for (name, target) in [("bin/outside", "/bin/echo"), ("bin/inside", "../copy")] {
            let path = workspace.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::copy("/bin/echo", workspace.join("copy")).unwrap();
            std::os::unix::fs::symlink(target, &path).unwrap();
            let [bare, confined] = both(&daemon, [&path.display().to_string(), "word"]).await;
            assert_eq!((bare.0, &*bare.1), (Some(0), "word\n"), "{name}");
            assert_eq!(bare, confined, "{name}");
        }
    }
}

#[tokio::test]
async fn a_script_cannot_change_itself_and_its_project_it_can() {
    if nix::unistd::geteuid().is_root() {
        return;
    }
    for daemon in daemons().await {
        let workspace = daemon.workspace();
        let text = "#!/bin/sh\necho >beside.log\nif echo evil >>\"$0\"; then exit 3; fi 2>/dev/null\nif mv \"$0\" moved; then exit 4; fi 2>/dev/null\n\
                    if chmod 777 \"$0\"; then exit 5; fi 2>/dev/null\n";
        let path = script(&workspace, ".hooks/self.sh", text);
        let mut request = writing(&daemon, "");
        request.hook.as_mut().unwrap().argv = vec![path.display().to_string()];
        let response = daemon.run(request).await.unwrap();
        assert_eq!(end(&response), (OutcomeKind::Exited, Some(0), None));
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert!(workspace.join("beside.log").exists());
    }
}

#[tokio::test]
async fn temporary_files_by_name_are_the_runs_own_and_gone_with_it() {
    for daemon in daemons().await {
        for shared in ["/tmp", "/var/tmp", "/dev/shm"] {
            let marker = a_minute();
            let outside = Path::new(shared).join(format!("hookjail-outside-{marker}"));
            let inside = Path::new(shared).join(format!("hookjail-inside-{marker}"));
            fs::write(&outside, "the machine's").unwrap();
            let script = format!(
                "echo own >{i} && cat {i} && mkfifo {i}.fifo && cp /bin/true {i}.program && {i}.program && test ! -e {o} && ! echo x >>{o}.new/x",
                i = inside.display(),
                o = outside.display(),
            );
            let response = daemon.run(writing(&daemon, &script)).await.unwrap();
            let existing = (outside.exists(), inside.exists());
            fs::remove_file(&outside).unwrap();
            assert_eq!(
                end(&response),
                (OutcomeKind::Exited, Some(0), None),
                "{shared}: {response:?}"
            );
            assert_eq!(response.stdout, "own\n");
            assert_eq!(existing, (true, false), "{shared}");
        }
    }
}

#[tokio::test]
async fn sessions_groups_and_timeouts_work_and_all_of_them_end_with_the_run() {
    let daemon = Daemon::start().await;
    let marker = a_minute();
    let lines = [
        "timeout 0.2 sleep 5; echo $?",
        "setsid sh -c 'echo session'",
        "set -m; sleep 0.1 & wait $!; echo job",
        "python3 -c 'import subprocess; print(subprocess.run([\"true\"], start_new_session=True).returncode)'",
    ];
    for line in lines {
        let [bare, confined] = both_lines(&daemon, line).await;
        assert_eq!(bare.0, Some(0), "{line}");
        assert_eq!(bare, confined, "{line}");
    }
    let script = format!(
        "setsid sleep {marker} >/dev/null 2>&1 & (setsid sh -c 'sleep {marker}' &) ; sleep 0.1; echo started"
    );
    let response = daemon.run(writing(&daemon, &script)).await.unwrap();
    assert_eq!(response.stdout, "started\n");
    until_gone(&marker).await;
}

async fn both_lines(daemon: &Daemon, line: &str) -> [(Option<i32>, String); 2] {
    let name = format!("line-{}.sh", a_minute());
    let text = format!("#!/bin/bash\n{line}\n");
    let path = script(&daemon.workspace(), &name, &text);
    both(daemon, ["/bin/bash", &path.display().to_string()]).await
}

#[tokio::test]
async fn a_hook_sees_its_own_processes_and_reaches_no_others() {
    let daemon = Daemon::start().await;
    let marker = a_minute();
    let mut client = daemon.client();
    let other = writing(&daemon, &format!("sleep {marker}"));
    let other = tokio::spawn(async move { client.execute(other).await });
    let is_sleep = |line: &str| line.starts_with(&format!("sleep {marker}"));
    until("the other run", || {
        processes_that(is_sleep).next().is_some()
    })
    .await;
    let (outer, _) = processes_that(is_sleep).next().unwrap();
    // The control: the process exists, and can be signalled.
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(outer.cast_signed()), None).unwrap();

    let script = format!(
        "echo $$; ls /proc | grep -c '^[0-9]'; tr '\\0' '.' </proc/1/cmdline; echo; test -r /proc/self/maps && echo maps; \
         kill -9 {outer} && echo killed; kill -9 -1; ls /proc/{outer}/fd && echo seen; echo x >/proc/self/comm && echo written; true"
    );
    let response = daemon.run(writing(&daemon, &script)).await.unwrap();
    let text = String::from_utf8_lossy(&response.stdout);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        end(&response),
        (OutcomeKind::Exited, Some(0), None),
        "{response:?}"
    );
    // Its id is no small number that the next run has, too. The hook sees the first process, itself, and its children.
    assert!(lines[0].parse::<u32>().unwrap() > 2, "{lines:?}");
    assert!(lines[1].parse::<u32>().unwrap() <= 4, "{lines:?}");
    assert_eq!(&lines[2..], ["hookjail-init.", "maps"], "{response:?}");
    assert!(
        processes_that(is_sleep).next().is_some(),
        "the other run was ended"
    );
    other.abort();
}

#[tokio::test]
async fn pseudo_terminals_work_and_none_of_the_machines_is_reached() {
    let daemon = Daemon::start().await;
    let sized = "script -qec 'stty rows 7 cols 70; stty size; ls -1 /dev/pts | wc -l; test -t 0' /dev/null </dev/null";
    let [(code, bare), confined] = both_lines(&daemon, sized).await;
    assert_eq!((code, confined.0), (Some(0), Some(0)), "{}", confined.1);
    let size = |output: &str| output.lines().next().map(|line| line.trim().to_owned());
    assert_eq!(size(&bare).as_deref(), Some("7 70"), "{bare}");
    assert_eq!(size(&confined.1), size(&bare));
    // The one that `script` made, and the file that makes them.
    let counted = confined.1.lines().nth(1).map(str::trim);
    assert_eq!(counted, Some("2"), "{}", confined.1);

    let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let terminal = ptsname_r(&master).unwrap();
    let typed = format!("echo typed >{terminal}");
    let [bare, confined] = both_lines(&daemon, &typed).await;
    assert_eq!((bare.0, confined.0), (Some(0), Some(1)), "{}", confined.1);

    // The kernel's limit is for the whole machine.
    let many = "python3 -c '
import os
made = []
try:
    while len(made) < 80: made.append(os.openpty())
except OSError as error: print(error.errno)
print(len(made))'";
    let [(_, bare), (_, confined)] = both_lines(&daemon, many).await;
    assert_eq!(bare.trim(), "80");
    assert_eq!(confined.trim(), "28\n64");

    // Without a view there are none.
    let mut without = writing(&daemon, sized);
    without.profile = "pipeline".to_owned();
    let response = daemon.run(without).await.unwrap();
    assert_ne!(response.outcome.unwrap().exit_code, Some(0));
}

#[tokio::test]
async fn a_hook_is_asked_to_end_before_its_time_is_over() {
    let daemon = Daemon::start().await;
    let script = "trap 'echo asked >asked; exit 0' TERM; echo >begun; sleep 60 & wait";
    let mut request = writing(&daemon, script);
    request.timeout = Some(prost_types::Duration {
        seconds: 1,
        nanos: 0,
    });
    let response = daemon.run(request).await.unwrap();
    // An exit code of 0 after that is no consent.
    assert_eq!(
        response.outcome.unwrap().kind(),
        OutcomeKind::TimedOut,
        "{response:?}"
    );
    assert_eq!(
        fs::read_to_string(daemon.workspace().join("asked")).unwrap(),
        "asked\n"
    );
    // The control: one that does not listen is killed at its deadline.
    let mut request = writing(&daemon, "trap '' TERM; while :; do sleep 0.1; done");
    request.timeout = Some(prost_types::Duration {
        seconds: 1,
        nanos: 0,
    });
    let response = daemon.run(request).await.unwrap();
    assert_eq!(response.outcome.unwrap().kind(), OutcomeKind::TimedOut);
}

/// Runs hooks with a lock of their own, ends them, and returns those whose lock is left and that were ended, not done.
async fn locked_at_an_end(
    daemon: &mut Daemon,
    end: impl AsyncFnOnce(&mut Daemon, Vec<JoinHandle<()>>),
) {
    let scripts = [
        (
            "asked",
            "trap 'rm -f asked; exit 0' TERM; : >asked; sleep 60 & wait; echo done",
        ),
        ("deaf", "trap '' TERM; : >deaf; while :; do sleep 0.1; done"),
    ];
    let mut calls = Vec::new();
    for (lock, script) in scripts {
        let (request, mut client) = (writing(daemon, script), daemon.client());
        calls.push(tokio::spawn(async move {
            if let Ok(response) = client.execute(request).await {
                let outcome = response.into_inner().outcome.unwrap();
                assert_eq!(outcome.kind(), OutcomeKind::Canceled);
            }
        }));
        until("the lock", || daemon.workspace().join(lock).exists()).await;
    }
    let workspace = daemon.workspace();
    end(daemon, calls).await;
    // The one that does not listen is killed all the same.
    until("the end records", || daemon.records().len() == 4).await;
    let ended = |record: &&serde_json::Value| record["outcome"] == "canceled";
    assert_eq!(daemon.journal().iter().filter(ended).count(), 2);
    assert!(!workspace.join("asked").exists());
    assert!(workspace.join("deaf").exists());
}

#[tokio::test]
async fn a_hook_is_asked_to_end_when_its_caller_is_gone() {
    let mut daemon = Daemon::start().await;
    locked_at_an_end(&mut daemon, async |_, calls| {
        calls.iter().for_each(JoinHandle::abort)
    })
    .await;
}

#[tokio::test]
async fn a_hook_is_asked_to_end_when_the_drain_time_is_over() {
    let mut daemon = Daemon::with(Setup {
        config: "[server]\ndrain = \"1s\"\n".to_owned(),
        ..Setup::default()
    })
    .await;
    locked_at_an_end(&mut daemon, async |daemon, calls| {
        kill(Pid::from_raw(daemon.pid().cast_signed()), Signal::SIGTERM).unwrap();
        for call in calls {
            call.await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn evidence_names_the_view_and_the_tree() {
    let daemon = Daemon::with(Setup {
        shipped: &SHIPPED,
        ..Setup::default()
    })
    .await;
    let checks = |response: &pb::ExecuteResponse| -> Vec<String> {
        let evidence = &response.confinement.as_ref().unwrap().evidence;
        evidence.iter().map(|it| it.check.clone()).collect()
    };
    let with = daemon.run(writing(&daemon, "true")).await.unwrap();
    let without = daemon.run(hook(["/bin/true"])).await.unwrap();
    for check in ["view", "tree", "proc", "terminals"] {
        assert!(
            checks(&with).iter().any(|it| it == check),
            "{:?}",
            checks(&with)
        );
        assert!(!checks(&without).iter().any(|it| it == check));
    }
}
