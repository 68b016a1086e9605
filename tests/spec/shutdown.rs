//! However the daemon ends, no hook outlives it, and the journal records the end of each.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start the command line itself, never a hook"
)]

use std::{
    os::unix::{
        net::UnixDatagram,
        process::{CommandExt, ExitStatusExt},
    },
    process::{Child, Command, ExitStatus},
};

use hookjail::pb::{self, OutcomeKind};
use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, Uid},
};
use tonic::Code;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_types::StatusExt;

use crate::{
    fail_closed::FakeKernel,
    support::{Daemon, SHIPPED, Setup, hook, journal, reason, sh},
    witness::{
        CommandLine, a_minute, assert_verifies, end, hookjail, keeper_of, processes_with, until,
        until_gone, until_it, writing, zombies_of,
    },
};

/// Has the daemon end.
pub(crate) fn terminate(daemon: &Daemon) {
    let pid = Pid::from_raw(i32::try_from(daemon.pid()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
}

/// Waits for the daemon's end.
pub(crate) async fn exit_status(daemon: &mut Daemon) -> ExitStatus {
    let mut status = None;
    until("the daemon's end", || {
        status = daemon.child().try_wait().unwrap();
        status.is_some()
    })
    .await;
    status.unwrap()
}

async fn health(daemon: &Daemon, service: &str) -> ServingStatus {
    let request = HealthCheckRequest {
        service: service.to_owned(),
    };
    let response = HealthClient::new(daemon.channel()).check(request).await;
    response.unwrap().into_inner().status()
}

#[tokio::test]
async fn a_daemon_that_is_told_to_stop_lets_running_hooks_finish_and_takes_no_new_ones() {
    let mut daemon = Daemon::start().await;
    let workspace = daemon.workspace();
    let script = "echo >begun; until test -e go; do sleep 0.02; done; echo over";
    let request = writing(&daemon, script);
    let mut client = daemon.client();
    let call = tokio::spawn(async move { client.execute(request).await });
    until("the hook's begin", || workspace.join("begun").exists()).await;
    for service in ["", "hookjail.v1.HookService"] {
        assert_eq!(health(&daemon, service).await, ServingStatus::Serving);
    }

    terminate(&daemon);

    for service in ["hookjail.v1.HookService", ""] {
        until_it("the drain", async || {
            health(&daemon, service).await == ServingStatus::NotServing
        })
        .await;
    }
    let refusal = daemon.run(hook(["/bin/true"])).await.unwrap_err();
    assert_eq!(
        (refusal.code(), reason(&refusal)),
        (Code::Unavailable, "DRAINING".to_owned())
    );
    let details = refusal.get_error_details();
    assert!(details.retry_info().unwrap().retry_delay.is_some());
    std::fs::write(workspace.join("go"), "").unwrap();
    let response = call.await.unwrap().unwrap().into_inner();
    assert_eq!(
        (end(&response), &response.stdout[..]),
        ((OutcomeKind::Exited, Some(0), None), b"over\n".as_slice())
    );
    assert_eq!(exit_status(&mut daemon).await, ExitStatus::from_raw(0));
    assert_eq!(daemon.records(), ["started", "refused", "ended"]);
    assert!(!daemon.path().join("sock").exists());
    assert_verifies(daemon.path());
}

#[tokio::test]
async fn a_hook_that_is_not_done_by_the_drain_time_dies() {
    let mut daemon = Daemon::with(Setup {
        config: "[server]\ndrain = \"1s\"\n".to_owned(),
        ..Setup::default()
    })
    .await;
    let marker = a_minute();
    let begun = daemon.workspace().join("begun");
    let request = writing(
        &daemon,
        &format!("(sleep {marker} &) ; echo >begun; sleep {marker}"),
    );
    let mut client = daemon.client();
    let call = tokio::spawn(async move { client.execute(request).await });
    until("the hook's begin", || begun.exists()).await;

    terminate(&daemon);

    assert_eq!(exit_status(&mut daemon).await, ExitStatus::from_raw(0));
    assert_eq!(processes_with(&marker), [""; 0]);
    let response = call.await.unwrap().unwrap().into_inner();
    assert_eq!(end(&response).0, OutcomeKind::Canceled);
    assert_eq!(daemon.records(), ["started", "ended"]);
    assert_verifies(daemon.path());
}

#[tokio::test]
async fn a_daemon_that_is_told_twice_to_stop_does_not_wait_for_its_hooks() {
    let mut daemon = Daemon::start().await;
    let marker = a_minute();
    let begun = daemon.workspace().join("begun");
    let request = writing(&daemon, &format!("echo >begun; sleep {marker}"));
    let mut client = daemon.client();
    let call = tokio::spawn(async move { client.execute(request).await });
    until("the hook's begin", || begun.exists()).await;

    terminate(&daemon);
    until("the drain", || daemon.log().contains("draining")).await;
    // The control: the daemon waits.
    assert_ne!(processes_with(&marker), [""; 0]);
    terminate(&daemon);

    let response = call.await.unwrap().unwrap().into_inner();
    assert_eq!(end(&response).0, OutcomeKind::Canceled);
    assert_eq!(exit_status(&mut daemon).await, ExitStatus::from_raw(0));
    assert!(daemon.log().contains("second request to end"));
    assert_eq!(processes_with(&marker), [""; 0]);
    assert_eq!(daemon.records(), ["started", "ended"]);
}

#[tokio::test]
async fn a_daemon_whose_own_files_are_gone_lets_hooks_end_and_ends_itself() {
    for (what, is_directory) in [("sock", false), ("run", true)] {
        let mut daemon = Daemon::start().await;
        let workspace = daemon.workspace();
        let script = "echo >begun; until test -e go; do sleep 0.02; done; echo over";
        let mut client = daemon.client();
        let request = writing(&daemon, script);
        let call = tokio::spawn(async move { client.execute(request).await });
        until("the hook's begin", || workspace.join("begun").exists()).await;

        let path = daemon.path().join(what);
        if is_directory {
            std::fs::remove_dir_all(&path).unwrap();
        } else {
            std::fs::remove_file(&path).unwrap();
        }
        until("the drain", || daemon.log().contains("draining")).await;
        std::fs::write(workspace.join("go"), "").unwrap();

        let response = call.await.unwrap().unwrap().into_inner();
        assert_eq!(&response.stdout[..], b"over\n", "{what}");
        let status = exit_status(&mut daemon).await;
        assert_eq!(status.code(), Some(125), "{what}: {}", daemon.log());
        assert!(daemon.log().contains("was removed or replaced"), "{what}");
        assert_verifies(daemon.path());
    }
}

#[tokio::test]
async fn a_daemon_that_ends_leaves_the_socket_of_another_in_its_place() {
    let mut daemon = Daemon::start().await;
    let (socket, aside) = (daemon.path().join("sock"), daemon.path().join("aside"));
    std::fs::rename(&socket, &aside).unwrap();
    let newer = std::os::unix::net::UnixListener::bind(&socket).unwrap();

    assert_eq!(exit_status(&mut daemon).await.code(), Some(125));
    std::os::unix::net::UnixStream::connect(&socket).unwrap();
    drop(newer);
}

#[tokio::test]
async fn a_killed_daemon_takes_its_hooks_with_it_and_the_next_one_cleans_up() {
    let daemon = Daemon::start().await;
    let marker = a_minute();
    let begun = daemon.workspace().join("begun");
    let script =
        format!("(sleep {marker} &) ; echo litter >$TMPDIR/litter; echo >begun; sleep {marker}");
    let request = writing(&daemon, &script);
    let mut client = daemon.client();
    let call = tokio::spawn(async move { client.execute(request).await });
    until("the hook's begin", || begun.exists()).await;
    assert!(!processes_with(&marker).is_empty());
    assert_eq!(daemon.scratch_directories().len(), 1);

    let directory = daemon.kill();

    until_gone(&marker).await;
    assert!(call.await.unwrap().is_err());
    let started = journal(directory.path()).remove(0);
    let daemon = Daemon::in_directory(directory, Setup::default())
        .await
        .unwrap();
    // Directories of its own self-tests are removed in the background.
    until("no scratch directory", || {
        daemon.scratch_directories().is_empty()
    })
    .await;
    let response = daemon.run(hook(["/bin/true"])).await.unwrap();
    assert_eq!(end(&response), (OutcomeKind::Exited, Some(0), None));
    assert_eq!(
        daemon.records(),
        ["started", "interrupted", "started", "ended"]
    );
    let interrupted = daemon.journal().remove(1);
    assert_eq!(interrupted["run_id"], started["run_id"]);
    assert_verifies(daemon.path());
}

#[tokio::test]
async fn a_killed_keeper_is_replaced_by_one_that_knows_the_hooks_that_run() {
    let daemon = Daemon::start().await;
    let marker = a_minute();
    let begun = daemon.workspace().join("begun");
    let script = format!("(sleep {marker} &) ; echo >begun; sleep {marker}");
    let mut client = daemon.client();
    let request = writing(&daemon, &script);
    let call = tokio::spawn(async move { client.execute(request).await });
    until("the hook's begin", || begun.exists()).await;

    let first = keeper_of(&daemon).unwrap();
    kill(Pid::from_raw(first), Signal::SIGKILL).unwrap();
    let replaced = "the keeper was killed, and another has taken its place";
    until("another keeper", || daemon.log().contains(replaced)).await;
    // The keeper has its name a moment after its start.
    let mut next = None;
    until("its name", || {
        next = keeper_of(&daemon);
        next.is_some()
    })
    .await;
    assert_ne!(next, Some(first));
    until("the end of its remains", || {
        zombies_of(daemon.pid()).is_empty()
    })
    .await;

    drop(daemon.kill());
    until_gone(&marker).await;
    assert!(call.await.unwrap().is_err());
}

/// Kills a daemon and its keeper, neither of which can do anything any more about what runs.
fn kill_both(daemon: Daemon) -> tempfile::TempDir {
    let keeper = Pid::from_raw(keeper_of(&daemon).unwrap());
    let daemon_pid = Pid::from_raw(i32::try_from(daemon.pid()).unwrap());
    kill(daemon_pid, Signal::SIGSTOP).unwrap();
    kill(keeper, Signal::SIGKILL).unwrap();
    daemon.kill()
}

/// A daemon whose uids are no other test's: every daemon of root ends what it finds running under one of its own.
fn with_own_uids() -> Setup {
    let config = if Uid::effective().is_root() {
        "[hooks]\nuid_range = [1879300000, 1879300999]"
    } else {
        ""
    };
    Setup {
        config: config.to_owned(),
        ..Setup::default()
    }
}

/// A profile under which hooks may write and have no process tree of their own, which the kernel ends with the daemon.
const IN_ONE_GROUP: &str = "in-one-group";

fn in_one_group() -> Setup {
    let text = "description = \"x\"\nextends = \"workspace-rw\"\nview = \"machine\"\n";
    Setup {
        profiles: vec![(IN_ONE_GROUP.to_owned(), text.to_owned())],
        ..with_own_uids()
    }
}

#[tokio::test]
async fn a_tree_of_its_own_ends_with_its_daemon_and_the_keeper() {
    let daemon = Daemon::with(with_own_uids()).await;
    let marker = a_minute();
    let begun = daemon.workspace().join("begun");
    let script =
        format!("setsid sleep {marker} & (sleep {marker} &) ; echo >begun; sleep {marker}");
    let mut client = daemon.client();
    let request = writing(&daemon, &script);
    let call = tokio::spawn(async move { client.execute(request).await });
    until("the hook's begin", || begun.exists()).await;
    until("its processes", || processes_with(&marker).len() >= 3).await;
    let directory = kill_both(daemon);
    assert!(call.await.unwrap().is_err());
    until_gone(&marker).await;
    drop(directory);
}

#[tokio::test]
async fn what_a_daemon_left_that_was_killed_with_its_keeper_is_ended_before_the_next_one_serves() {
    for environment in ["", "env -i "] {
        let daemon = Daemon::with(in_one_group()).await;
        let marker = a_minute();
        let workspace = daemon.workspace();
        // One that is a child of a child, in the background, and one that goes on starting others.
        let script = format!(
            "({environment}sleep {marker} &) ; ({environment}sh -c 'for i in $(seq 6000); do sleep 0.01; : {marker}; done' &) ; \
             echo >begun; sleep {marker}"
        );
        let mut client = daemon.client();
        let mut request = writing(&daemon, &script);
        IN_ONE_GROUP.clone_into(&mut request.profile);
        let call = tokio::spawn(async move { client.execute(request).await });
        until("the hook's begin", || workspace.join("begun").exists()).await;
        // The control: a hook of a daemon that lives, with the same state and in the same session.
        let others = a_minute();
        let config = daemon.path().join("hookjail.toml");
        let mut other = hookjail(&config, &in_a_shell(&sleeping(&others)));
        let mut other = other.env("HOME", daemon.path()).spawn().unwrap();
        let hooks_of_other = || {
            let processes = processes_with(&others);
            processes
                .iter()
                .filter(|it| it.starts_with("sleep"))
                .count()
        };
        until("the other's hook", || hooks_of_other() == 2).await;

        let directory = kill_both(daemon);
        assert!(call.await.unwrap().is_err());
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        assert!(processes_with(&marker).len() >= 2, "nothing was left");
        let next = Daemon::in_directory(directory, in_one_group()).await;
        let next = next.unwrap();

        assert_eq!(processes_with(&marker), [""; 0], "{environment}");
        assert_eq!(hooks_of_other(), 2);
        let response = next.run(hook(["/bin/true"])).await.unwrap();
        assert_eq!(end(&response), (OutcomeKind::Exited, Some(0), None));
        other.kill().unwrap();
        other.wait().unwrap();
        until_gone(&others).await;
    }
}

#[tokio::test]
async fn whoever_only_has_the_number_of_a_group_that_was_left_is_not_ended() {
    let daemon = Daemon::start().await;
    let marker = a_minute();
    let begun = daemon.workspace().join("begun");
    let mut client = daemon.client();
    let request = writing(
        &daemon,
        &format!("(sleep {marker} &) ; echo >begun; sleep {marker}"),
    );
    let call = tokio::spawn(async move { client.execute(request).await });
    until("the hook's begin", || begun.exists()).await;
    let directory = kill_both(daemon);
    assert!(call.await.unwrap().is_err());
    // The system reports starts in hundredths of a second. Within one of them, the hook's first process and another look the
    // same.
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    // Others' processes: one that leads a group, one in a group whose leader is gone.
    let spawn = |command: &mut Command| command.process_group(0).spawn().unwrap();
    let mut leader = spawn(Command::new("/bin/sleep").arg("600"));
    let orphan = "/bin/sleep 600 >/dev/null 2>&1 & echo $!";
    let mut first = Command::new("/bin/sh");
    let first = first
        .args(["-c", orphan])
        .process_group(0)
        .output()
        .unwrap();
    let orphan: i32 = String::from_utf8_lossy(&first.stdout)
        .trim()
        .parse()
        .unwrap();
    let orphan = Pid::from_raw(orphan);
    let group = nix::unistd::getpgid(Some(orphan)).unwrap();
    assert_ne!(group, orphan);
    // As if their groups had the numbers that are written down.
    let groups = std::fs::read_dir(directory.path().join("run")).unwrap();
    let groups = groups.map(|entry| entry.unwrap().path().join("groups"));
    let groups = groups.filter(|path| path.exists()).collect::<Vec<_>>();
    let [groups] = &groups[..] else {
        panic!("{groups:?}")
    };
    let mut noted = std::fs::read(groups).unwrap();
    let written = noted[256..].chunks(24).find(|it| it[8..12] != [0; 4]);
    let written = written.expect("the hook's group is written down").to_vec();
    for number in [leader.id(), group.as_raw().cast_unsigned()] {
        let mut forged = written.clone();
        forged[8..12].copy_from_slice(&number.to_le_bytes());
        noted.extend(forged);
    }
    std::fs::write(groups, noted).unwrap();

    let next = Daemon::in_directory(directory, Setup::default()).await;

    next.unwrap();
    assert_eq!(processes_with(&marker), [""; 0]);
    assert!(leader.try_wait().unwrap().is_none());
    leader.kill().unwrap();
    leader.wait().unwrap();
    kill(orphan, Signal::SIGKILL).unwrap();
}

/// A service manager, as far as it receives messages of daemons.
pub(crate) struct Manager {
    _directory: tempfile::TempDir,
    messages: Vec<String>,
    path: String,
    socket: UnixDatagram,
}

impl Manager {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self {
            path: path.display().to_string(),
            _directory: directory,
            messages: Vec::new(),
            socket,
        }
    }

    pub(crate) fn env(&self) -> (String, String) {
        ("NOTIFY_SOCKET".to_owned(), self.path.clone())
    }

    /// Receives the messages since the last call, and returns them.
    fn receive(&mut self) -> Vec<String> {
        let mut message = [0; 1024];
        let mut received = Vec::new();
        while let Ok(length) = self.socket.recv(&mut message) {
            received.push(String::from_utf8_lossy(&message[..length]).into_owned());
        }
        self.messages.extend(received.iter().cloned());
        received
    }

    /// Waits for a message that has each of these lines, and drops it and all messages before it.
    pub(crate) async fn hears(&mut self, lines: &[&str]) {
        let mut position = None;
        until(&format!("{lines:?} to the manager"), || {
            self.receive();
            position = self.messages.iter().position(|message| {
                let has = |line: &&str| {
                    message
                        .lines()
                        .any(|message_line| message_line.starts_with(line))
                };
                lines.iter().all(has)
            });
            position.is_some()
        })
        .await;
        self.messages.drain(..=position.unwrap());
    }
}

#[tokio::test]
async fn a_daemon_tells_its_service_manager_that_it_is_alive_as_long_as_it_is() {
    let mut manager = Manager::new();
    let daemon = Daemon::with(Setup {
        env: vec![
            manager.env(),
            ("WATCHDOG_USEC".to_owned(), "600000".to_owned()),
        ],
        ..Setup::default()
    })
    .await;
    let mut count_signs = || {
        let received = manager.receive();
        let lines = received.iter().flat_map(|message| message.lines());
        lines.filter(|line| *line == "WATCHDOG=1").count()
    };
    let mut signs = 0;
    until("three signs of life", || {
        signs += count_signs();
        signs >= 3
    })
    .await;

    let pid = Pid::from_raw(i32::try_from(daemon.pid()).unwrap());
    kill(pid, Signal::SIGSTOP).unwrap();
    until("the last sign", || count_signs() == 0).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(count_signs(), 0);
    kill(pid, Signal::SIGCONT).unwrap();
    until("another sign", || count_signs() > 0).await;
}

#[tokio::test]
async fn a_daemon_tells_its_service_manager_what_it_does() {
    let mut manager = Manager::new();
    let mut daemon = Daemon::with(Setup {
        env: vec![manager.env()],
        shipped: &SHIPPED,
        ..Setup::default()
    })
    .await;
    let serving = "STATUS=serving, 9 profiles confirmed of 9";
    manager.hears(&["READY=1"]).await;
    manager.hears(&[serving]).await;

    // A reload ends as it began, whether it is refused or not.
    let pid = Pid::from_raw(i32::try_from(daemon.pid()).unwrap());
    let profile = daemon.path().join("profiles/modest.toml");
    for text in [
        "nonsense",
        "extends = \"strict\"\ndescription = \"Modest.\"\n",
    ] {
        std::fs::write(&profile, text).unwrap();
        kill(pid, Signal::SIGHUP).unwrap();
        manager
            .hears(&["RELOADING=1", "MONOTONIC_USEC=", "STATUS=reloading"])
            .await;
        let serving = match text {
            "nonsense" => serving,
            _ => "STATUS=serving, 10 profiles confirmed of 10",
        };
        manager.hears(&["READY=1", serving]).await;
    }

    let marker = a_minute();
    let mut client = daemon.client();
    let running = sh("pipeline", &format!("sleep {marker}"));
    let run = tokio::spawn(async move { client.execute(running).await });
    until("the hook", || !processes_with(&marker).is_empty()).await;
    terminate(&daemon);
    manager
        .hears(&["STOPPING=1", "STATUS=draining, running hooks: 1"])
        .await;
    terminate(&daemon);
    run.await.unwrap().ok();
    exit_status(&mut daemon).await;
    // From there nothing leads back.
    manager.receive();
    assert!(
        !manager
            .messages
            .iter()
            .any(|message| message.contains("serving"))
    );
}

#[tokio::test]
async fn a_daemon_that_refuses_everything_tells_its_service_manager_why() {
    let kernel = FakeKernel::build();
    let mut manager = Manager::new();
    let daemon = Daemon::with(Setup {
        env: vec![manager.env()],
        wrapper: kernel.wrapper(&["--landlock", "enosys"]),
        ..Setup::default()
    })
    .await;
    manager
        .hears(&[
            "READY=1",
            "STATUS=every request is refused: no profile is confirmed",
        ])
        .await;
    drop(daemon);
}

/// Starts a process that leads a group and has a certain id. Needs root.
fn process_with(id: i32) -> Child {
    for tries in 0.. {
        assert!(tries < 5000, "others are given the id {id} each time");
        std::fs::write("/proc/sys/kernel/ns_last_pid", (id - 1).to_string())
            .expect("root may choose the next process id");
        let mut command = Command::new("/bin/sleep");
        let mut child = command.arg("600").process_group(0).spawn().unwrap();
        if child.id().cast_signed() == id {
            return child;
        }
        // Another process has got it meanwhile.
        child.kill().unwrap();
        child.wait().unwrap();
    }
    unreachable!("the last try returns or fails")
}

/// A script that sleeps, as does its background job.
fn sleeping(seconds: &str) -> String {
    format!("(sleep {seconds} &) ; sleep {seconds}")
}

/// The words of `hookjail run` with a script.
fn in_a_shell(script: &str) -> [&str; 7] {
    [
        "run",
        "--profile",
        "pipeline",
        "--",
        "/bin/sh",
        "-c",
        script,
    ]
}

/// Starts `hookjail run` with a hook that sleeps, as does its background job; returns what all of them have among their
/// arguments.
async fn run_that_sleeps(line: &CommandLine) -> (Child, String) {
    let marker = a_minute();
    let run = line
        .command(&in_a_shell(&sleeping(&marker)))
        .spawn()
        .unwrap();
    // hookjail itself, its keeper, and the child, which may be at any step: no moment is too early.
    until("the hook's begin", || processes_with(&marker).len() >= 3).await;
    (run, marker)
}

#[tokio::test]
async fn a_killed_run_without_a_daemon_leaves_nothing_alive() {
    let line = CommandLine::new();
    let (mut run, marker) = run_that_sleeps(&line).await;

    run.kill().unwrap();
    run.wait().unwrap();

    until_gone(&marker).await;
}

#[tokio::test]
async fn an_interrupted_run_without_a_daemon_kills_its_hook_and_says_so() {
    let line = CommandLine::new();
    let (mut run, marker) = run_that_sleeps(&line).await;
    // Before its exec it would not be started at all.
    until("the hook's own processes", || {
        let processes = processes_with(&marker);
        processes.iter().any(|line| line.starts_with("sleep"))
    })
    .await;

    kill(
        Pid::from_raw(i32::try_from(run.id()).unwrap()),
        Signal::SIGTERM,
    )
    .unwrap();

    assert_eq!(run.wait().unwrap().code(), Some(128 + 15));
    // The keeper, a copy of the process, ends a moment after it.
    until_gone(&marker).await;
    let records: Vec<_> = journal(line.path())
        .into_iter()
        .map(|record| record["record"].clone())
        .collect();
    assert_eq!(records, ["started", "ended"]);
}

#[tokio::test]
async fn a_run_that_a_client_left_open_is_still_waited_for_at_shutdown() {
    let mut daemon = Daemon::start().await;
    let workspace = daemon.workspace();
    let mut request = writing(
        &daemon,
        "echo >begun; until test -e go; do sleep 0.02; done; echo >over",
    );
    request.on_disconnect = pb::OnDisconnect::Finish.into();
    let mut client = daemon.client();
    let call = tokio::spawn(async move { client.execute(request).await });
    until("the hook's begin", || workspace.join("begun").exists()).await;
    call.abort();
    terminate(&daemon);

    std::fs::write(workspace.join("go"), "").unwrap();

    assert_eq!(exit_status(&mut daemon).await, ExitStatus::from_raw(0));
    assert!(workspace.join("over").exists());
    assert_eq!(daemon.records(), ["started", "ended"]);
    let refusal = sh("strict", "true");
    assert!(daemon.run(refusal).await.is_err());
}

mod as_root {
    use super::*;
    use crate::support::needs_root;

    #[tokio::test]
    #[ignore = "needs root"]
    async fn whoever_gets_the_id_of_a_hook_that_is_over_is_left_alone() {
        needs_root();
        let daemon = Daemon::start().await;
        let response = daemon.run(sh("pipeline", "echo $$")).await.unwrap();
        let id: i32 = String::from_utf8_lossy(&response.stdout)
            .trim()
            .parse()
            .unwrap();
        let mut other = process_with(id);

        // No other run in between, which would take the place in the keeper's table, and hide an entry that was left there.
        let directory = daemon.kill();
        until_gone(&directory.path().display().to_string()).await;

        let status = other.try_wait().unwrap();
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(status, None);
    }
}
