//! A run ends on time, with everything it started, and its output so far comes back.

use std::{
    fs,
    time::{Duration, Instant},
};

use hookjail::pb::{self, OutcomeKind, sandbox_service_client::SandboxServiceClient};
use nix::{
    fcntl::{Flock, FlockArg},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::task::{JoinHandle, JoinSet};
use tonic::{Code, Request};
use tonic_types::StatusExt;

use crate::{
    operate::runs_in,
    support::{Daemon, contained, field, hook, reason, sh},
    witness::{
        SOON, a_minute, assert_verifies, end, event, processes_with, until, until_clean,
        until_gone, wall_time, writing, zombies_of,
    },
};

/// Runs a hook that would take a minute under a second, and returns its answer once nothing of it is left.
async fn cut_short(
    daemon: &Daemon,
    marker: &str,
    request: pb::ExecuteRequest,
) -> pb::ExecuteResponse {
    let begun = Instant::now();
    let response = daemon
        .run(pb::ExecuteRequest {
            timeout: request.timeout.or_else(|| wall_time(1)),
            ..request
        })
        .await
        .unwrap();
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert_eq!(processes_with(marker), [""; 0]);
    response
}

#[tokio::test]
async fn a_hook_that_takes_too_long_is_answered_as_timed_out() {
    let daemon = Daemon::start().await;
    let marker = a_minute();

    let response = cut_short(&daemon, &marker, hook(["/bin/sleep", &marker])).await;

    assert_eq!(end(&response).0, OutcomeKind::TimedOut);
    assert_eq!(daemon.journal()[1]["outcome"], "timed_out");
}

#[tokio::test]
async fn everything_that_a_late_hook_started_dies_with_it() {
    let daemon = Daemon::start().await;
    let marker = a_minute();
    let script = format!("echo begun; (sleep {marker} &) ; sleep {marker}");

    let response = cut_short(&daemon, &marker, sh("pipeline", &script)).await;

    assert_eq!(
        (end(&response).0, &response.stdout[..]),
        (OutcomeKind::TimedOut, b"begun\n".as_slice())
    );
}

#[tokio::test]
async fn a_hook_that_ignores_signals_or_stops_itself_ends_on_time() {
    let daemon = Daemon::start().await;
    for script in [
        "trap '' TERM INT HUP QUIT; while :; do :; done",
        "kill -STOP $$",
    ] {
        let marker = a_minute();
        // The marker is an argument of the shell itself, which must be gone.
        let request = hook(["/bin/sh", "-c", script, &marker]);

        let response = cut_short(&daemon, &marker, request).await;

        assert_eq!(end(&response).0, OutcomeKind::TimedOut, "{script}");
    }
}

#[tokio::test]
async fn a_double_fork_with_setsid_does_not_outlive_the_deadline() {
    let daemon = Daemon::start().await;
    let marker = a_minute();
    let script = r#"
import os, sys
def detach(step):
    try:
        step()
        print("detached", flush=True)
    except OSError:
        print("refused", flush=True)
child = os.fork()
if child == 0:
    detach(os.setsid)
    detach(lambda: os.setpgid(0, 0))
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", sys.argv[1]])
    os._exit(0)
os.waitpid(child, 0)
os.execvp("sleep", ["sleep", sys.argv[1]])
"#;
    let mut request = hook(["/usr/bin/python3", "-c", script, &marker]);
    request.profile = "pipeline".to_owned();
    // Time enough for the interpreter to start on a busy machine.
    request.timeout = wall_time(5);

    let response = cut_short(&daemon, &marker, request).await;

    assert_eq!(
        (end(&response).0, &response.stdout[..]),
        (OutcomeKind::TimedOut, b"refused\nrefused\n".as_slice())
    );
}

#[tokio::test]
async fn a_hook_that_drips_output_for_ever_ends_on_time_and_its_output_comes_back() {
    let daemon = Daemon::start().await;
    let request = pb::ExecuteRequest {
        timeout: wall_time(1),
        ..sh(
            "pipeline",
            "echo first; echo problem >&2; while :; do sleep 0.05; echo drop; done",
        )
    };

    let response = daemon.run(request).await.unwrap();

    assert_eq!(end(&response).0, OutcomeKind::TimedOut);
    assert!(response.stdout.starts_with(b"first\ndrop\n"));
    assert_eq!(&response.stderr[..], b"problem\n");
}

#[tokio::test]
async fn exit_codes_and_signals_that_look_like_a_timeout_are_none() {
    let daemon = Daemon::start().await;
    for (script, expected) in [
        ("exit 124", (OutcomeKind::Exited, Some(124), None)),
        ("exit 137", (OutcomeKind::Exited, Some(137), None)),
        ("exit 143", (OutcomeKind::Exited, Some(143), None)),
        ("kill -9 $$", (OutcomeKind::Signaled, None, Some(9))),
        ("kill -15 $$", (OutcomeKind::Signaled, None, Some(15))),
    ] {
        let response = daemon.run(sh("strict", script)).await.unwrap();
        assert_eq!(end(&response), expected, "{script}");
    }
}

#[tokio::test]
async fn a_background_job_that_holds_stdout_does_not_delay_the_answer_and_is_killed() {
    let daemon = Daemon::start().await;
    let marker = a_minute();
    let begun = Instant::now();

    let response = daemon
        .run(sh("pipeline", &format!("sleep {marker} & echo done")))
        .await
        .unwrap();

    assert_eq!(processes_with(&marker), [""; 0]);
    assert!(begun.elapsed() < SOON);
    assert_eq!(
        (end(&response), &response.stdout[..]),
        ((OutcomeKind::Exited, Some(0), None), b"done\n".as_slice())
    );
}

#[tokio::test]
async fn a_hook_that_closes_its_output_is_waited_for() {
    let daemon = Daemon::start().await;

    let response = daemon
        .run(sh("pipeline", "exec >&- 2>&-; sleep 0.2; exit 7"))
        .await
        .unwrap();

    assert_eq!(end(&response), (OutcomeKind::Exited, Some(7), None));
}

#[tokio::test]
async fn a_timeout_above_the_profiles_maximum_is_refused() {
    let daemon = Daemon::start().await;
    let request = pb::ExecuteRequest {
        timeout: wall_time(24 * 3600),
        ..hook(["/bin/true"])
    };

    let refusal = daemon.run(request).await.unwrap_err();

    assert_eq!(
        (refusal.code(), reason(&refusal), field(&refusal)),
        (
            Code::InvalidArgument,
            "INVALID_REQUEST".to_owned(),
            "timeout".to_owned()
        )
    );
    assert_eq!(daemon.records(), ["refused"]);
}

#[tokio::test]
async fn a_shorter_grpc_timeout_cuts_the_run_and_the_answer_still_arrives() {
    let daemon = Daemon::start().await;
    let marker = a_minute();
    let mut request = Request::new(pb::ExecuteStreamRequest {
        request: Some(hook(["/bin/sleep", &marker])),
    });
    request.set_timeout(Duration::from_secs(2));

    // A stream, for its client's own timer is over with the first bytes: the end that is read here is the daemon's.
    let stream = daemon.client().execute_stream(request).await.unwrap();
    let message = stream.into_inner().message().await.unwrap().unwrap();
    let Some(pb::execute_stream_response::Part::Response(response)) = message.part else {
        panic!("the hook writes nothing, so its end comes first: {message:?}");
    };

    assert_eq!(end(&response).0, OutcomeKind::TimedOut);
    assert_eq!(daemon.journal()[0]["timeout_ms"], 1750);
    assert_eq!(processes_with(&marker), [""; 0]);
}

#[tokio::test]
async fn a_client_that_goes_away_takes_its_hook_with_it() {
    let daemon = Daemon::start().await;
    let marker = a_minute();
    let begun = daemon.workspace().join("begun");
    let script = format!("(sleep {marker} &) ; echo >begun; sleep {marker}; echo >over");
    let mut client = daemon.client();
    let request = writing(&daemon, &script);
    let call = tokio::spawn(async move { client.execute(request).await });
    until("the hook's begin", || begun.exists()).await;
    assert!(!processes_with(&marker).is_empty());

    call.abort();

    until_gone(&marker).await;
    until("the end record", || daemon.records().len() == 2).await;
    assert_eq!(daemon.journal()[1]["outcome"], "canceled");
    assert!(!daemon.workspace().join("over").exists());
}

#[tokio::test]
async fn a_streaming_client_that_goes_away_takes_its_hook_with_it() {
    let daemon = Daemon::start().await;
    let marker = a_minute();
    let request = pb::ExecuteStreamRequest {
        request: Some(sh("pipeline", &format!("echo begun; sleep {marker}"))),
    };
    let mut stream = daemon
        .client()
        .execute_stream(request)
        .await
        .unwrap()
        .into_inner();
    let first = stream.message().await.unwrap().unwrap().part.unwrap();
    assert_eq!(
        first,
        pb::execute_stream_response::Part::Stdout(b"begun\n".as_slice().into())
    );

    drop(stream);

    until_gone(&marker).await;
    until("the end record", || daemon.records().len() == 2).await;
    assert_eq!(daemon.journal()[1]["outcome"], "canceled");
}

#[tokio::test]
async fn a_hook_at_the_end_of_a_turn_finishes_without_its_client() {
    let daemon = Daemon::start().await;
    let workspace = daemon.workspace();
    let script = "echo >begun; until test -e go; do sleep 0.02; done; echo >over";
    let mut request = writing(&daemon, script);
    request.event = Some(pb::Event {
        point: "turn_end".to_owned(),
        ..pb::Event::default()
    });
    let mut client = daemon.client();
    let call = tokio::spawn(async move { client.execute(request).await });
    until("the hook's begin", || workspace.join("begun").exists()).await;

    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    std::fs::write(workspace.join("go"), "").unwrap();

    until("the hook's end", || workspace.join("over").exists()).await;
    until("the end record", || daemon.records().len() == 2).await;
    let record = &daemon.journal()[1];
    assert_eq!(
        (&record["record"], &record["outcome"], &record["exit_code"]),
        (&"ended".into(), &"exited".into(), &0.into())
    );
    assert_verifies(daemon.path());
}

/// Keeps every process, the daemon among them, from writing to its journal, as a disk that hangs does.
fn hold_journal(daemon: &Daemon) -> Flock<fs::File> {
    let lock = daemon.path().join("state/audit/journal.lock");
    let lock = fs::File::options().write(true).open(lock).unwrap();
    Flock::lock(lock, FlockArg::LockExclusive).unwrap()
}

/// Calls a daemon with a request that needs no hook.
async fn an_answer(daemon: &Daemon) {
    let mut client = SandboxServiceClient::new(daemon.channel());
    let answer = client.list_profiles(pb::ListProfilesRequest::default());
    let answer = tokio::time::timeout(SOON, answer).await;
    answer.expect("an answer").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_that_never_let_their_output_run_dry_end_on_time_and_others_are_served() {
    let daemon = Daemon::start().await;
    // Without copying anything: the content of one pipe is put into stdout again and again.
    let script = "
import ctypes, os, threading
libc = ctypes.CDLL(None)
source, sink = os.pipe()
os.write(sink, bytes(1 << 16))
def fill():
    while True:
        libc.tee(source, 1, 1 << 20, 0)
for _ in range(48):
    threading.Thread(target=fill).start()
";
    let mut answers = 0;
    // Where the machine has much else to do, the hooks may end before anything else was asked.
    for seconds in [2, 4, 8, 16] {
        let begun = Instant::now();
        let call = || {
            let mut client = daemon.client();
            let request = pb::ExecuteRequest {
                timeout: wall_time(seconds),
                ..hook(["/usr/bin/python3", "-c", script])
            };
            tokio::spawn(async move { client.execute(request).await.unwrap().into_inner() })
        };
        // As many as the daemon has threads for requests, and more.
        let calls = [call(), call(), call(), call()];
        let go_on = || !calls.iter().any(JoinHandle::is_finished);
        while go_on() {
            // By then they write.
            let they_write = begun.elapsed() > Duration::from_secs(seconds.unsigned_abs()) / 2;
            an_answer(&daemon).await;
            answers += usize::from(they_write && go_on());
        }
        for call in calls {
            assert_eq!(end(&call.await.unwrap()).0, OutcomeKind::TimedOut);
        }
        if answers > 0 {
            break;
        }
    }
    assert!(answers > 0);
    assert_eq!(zombies_of(daemon.pid()), [""; 0]);
}

#[tokio::test]
async fn a_hook_that_ended_before_its_deadline_while_the_daemon_was_paused_is_no_timeout() {
    let daemon = Daemon::start().await;
    // A machine that takes longer than that shows nothing, and is given more time.
    for seconds in [2, 8, 32] {
        if ended_while_paused(&daemon, seconds).await {
            return;
        }
    }
    panic!("too slow a machine");
}

/// Has a hook end while the daemon is paused, which goes on once the hook's deadline is over. Returns whether the hook ended
/// before.
async fn ended_while_paused(daemon: &Daemon, seconds: u32) -> bool {
    let workspace = daemon.workspace();
    let marker = a_minute();
    let files = ["begun", "go"].map(|name| format!("{name}-{seconds}"));
    let [begun, go] = &files;
    let script =
        format!("echo >{begun}; until test -e {go}; do sleep 0.02; done; : {marker}; exit 3");
    let request = pb::ExecuteRequest {
        timeout: wall_time(seconds.into()),
        ..writing(daemon, &script)
    };
    let deadline = Instant::now() + Duration::from_secs(seconds.into());
    let mut client = daemon.client();
    let call = tokio::spawn(async move { client.execute(request).await });
    until("the hook's begin", || {
        workspace.join(begun).exists() || Instant::now() > deadline
    })
    .await;
    let pid = Pid::from_raw(i32::try_from(daemon.pid()).unwrap());
    // The control: as long as it runs it is found.
    let was_running = !processes_with(&marker).is_empty();

    kill(pid, Signal::SIGSTOP).unwrap();
    fs::write(workspace.join(go), "").unwrap();
    // Not by the daemon's children: the one that started a container may be dead already, or collected.
    until("the hook's end", || processes_with(&marker).is_empty()).await;
    let in_time = was_running && Instant::now() < deadline;
    tokio::time::sleep_until((deadline + Duration::from_secs(1)).into()).await;
    kill(pid, Signal::SIGCONT).unwrap();

    let response = call.await.unwrap();
    if in_time {
        let response = response.unwrap().into_inner();
        assert_eq!(end(&response), (OutcomeKind::Exited, Some(3), None));
    }
    in_time
}

#[tokio::test]
async fn a_workspace_that_another_program_locks_is_waited_for_until_the_deadline_or_two_seconds() {
    let daemon = Daemon::start().await;
    let shared = daemon.workspace().join(".hookjail-run");
    fs::create_dir(&shared).unwrap();
    let lock = fs::File::open(&shared).unwrap();
    let lock = Flock::lock(lock, FlockArg::LockExclusive).unwrap();
    let refused = async |timeout: i64| {
        let request = pb::ExecuteRequest {
            timeout: wall_time(timeout),
            ..writing(&daemon, "exit 3")
        };
        daemon.run(request).await.map_err(|status| reason(&status))
    };
    assert_eq!(refused(1).await.unwrap_err(), "DEADLINE");
    assert_eq!(refused(30).await.unwrap_err(), "POLICY_UNENFORCEABLE");
    // The control.
    drop(lock);
    assert_eq!(end(&refused(30).await.unwrap()).1, Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_at_any_moment_of_the_start_leaves_nothing_and_tells_whether_the_hook_ran() {
    let daemon = Daemon::start().await;
    let workspace = daemon.workspace();
    let script = r#"read -r i; : >"ran-$i"; sleep 60 & sleep 60 & sleep 60"#;
    let request = |number: String, timeout: Duration| pb::ExecuteRequest {
        event: event(format!("{number}\n")),
        timeout: Some(timeout.try_into().unwrap()),
        ..writing(&daemon, script)
    };
    // How long a start takes here.
    let response = daemon.run(request("first".to_owned(), Duration::from_secs(1)));
    let usage = response.await.unwrap().usage.unwrap();
    let start = Duration::try_from(usage.setup.unwrap()).unwrap();
    let mut calls = JoinSet::new();
    for lane in 0..8_u32 {
        let requests: Vec<_> = (0..50_u32)
            .map(|call| {
                // From a quarter of that to four times as much, in an order of its own in each lane.
                let part = (call * 7 + lane * 11) % 50 + 1;
                let number = format!("{lane}-{call}");
                (request(number.clone(), start * part * 4 / 50), number)
            })
            .collect();
        let (mut client, workspace) = (daemon.client(), workspace.clone());
        calls.spawn(async move {
            let mut false_deadlines = Vec::new();
            for (request, number) in requests {
                let ran = workspace.join(format!("ran-{number}"));
                match client.execute(request).await {
                    Ok(response) => {
                        let response = response.into_inner();
                        assert_eq!(end(&response).0, OutcomeKind::TimedOut);
                    }
                    // One that is killed right behind its hook's exec can no longer be looked at.
                    Err(refusal) if contained() && reason(&refusal) == "BACKEND_UNCONFIRMED" => {
                        let details = refusal.get_error_details();
                        let facts = &details.error_info().unwrap().metadata;
                        assert_eq!(facts["released"], "true", "{refusal}");
                    }
                    Err(refusal) => {
                        assert_eq!(reason(&refusal), "DEADLINE", "{refusal}");
                        if ran.exists() {
                            false_deadlines.push((number, refusal));
                        }
                    }
                }
            }
            false_deadlines
        });
    }

    while let Some(false_deadlines) = calls.join_next().await {
        let false_deadlines = false_deadlines.unwrap();
        assert!(false_deadlines.is_empty(), "{false_deadlines:?}");
    }
    until("the end of all zombies", || {
        zombies_of(daemon.pid()).is_empty()
    })
    .await;
    let outcomes: Vec<_> = daemon
        .journal()
        .iter()
        .map(|record| record["record"].clone())
        .collect();
    let count_of = |kind: &str| outcomes.iter().filter(|record| **record == kind).count();
    println!("{} ran, {} refused", count_of("ended"), count_of("refused"));
    assert_eq!(count_of("ended") + count_of("refused"), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_hangs_delays_no_deadline_and_no_answer_that_needs_no_record() {
    let daemon = Daemon::start().await;
    let marker = a_minute();
    let mut running = JoinSet::new();
    for _ in 0..3 {
        let mut client = daemon.client();
        let request = pb::ExecuteRequest {
            timeout: wall_time(2),
            ..hook(["/bin/sleep", &marker])
        };
        running.spawn(async move { client.execute(request).await.unwrap().into_inner() });
    }
    until("three hooks", || processes_with(&marker).len() == 3).await;

    let held = hold_journal(&daemon);
    let mut waiting = JoinSet::new();
    for _ in 0..4 {
        let mut client = daemon.client();
        waiting.spawn(async move { client.execute(hook(["/bin/true"])).await });
    }
    let late = pb::ExecuteRequest {
        timeout: wall_time(1),
        ..writing(&daemon, "echo >ran")
    };
    let mut client = daemon.client();
    let late = tokio::spawn(async move { client.execute(late).await });
    until_gone(&marker).await;
    an_answer(&daemon).await;
    // Its deadline is over, its start was not written: the hook must never run.
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(held);

    while let Some(response) = running.join_next().await {
        assert_eq!(end(&response.unwrap()).0, OutcomeKind::TimedOut);
    }
    while let Some(response) = waiting.join_next().await {
        let response = response.unwrap().unwrap().into_inner();
        assert_eq!(end(&response), (OutcomeKind::Exited, Some(0), None));
    }
    // Its record came more than a second after its deadline.
    assert_eq!(
        reason(&late.await.unwrap().unwrap_err()),
        "AUDIT_UNAVAILABLE"
    );
    let is_late = |record: &serde_json::Value| record["reason"] == "DEADLINE";
    until("the record of the late call", || {
        daemon.journal().iter().any(is_late)
    })
    .await;
    assert!(!daemon.workspace().join("ran").exists());
    assert_verifies(daemon.path());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_is_not_started_once_its_client_is_gone() {
    let daemon = Daemon::start().await;
    let request = writing(&daemon, "echo >ran");
    daemon.run(hook(["/bin/true"])).await.unwrap();
    let held = hold_journal(&daemon);
    let mut client = daemon.client();
    let call = tokio::spawn(async move { client.execute(request).await });
    runs_in(&daemon, &["RUN_STATE_STARTING"]).await;

    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    // On the same connection: the first answer shows that the daemon has read the end of the call. The task of the call then has the
    // time of the others to notice, also on a busy machine.
    for _ in 0..50 {
        an_answer(&daemon).await;
    }
    drop(held);

    until("the record of the call", || daemon.records().len() == 3).await;
    assert_eq!(daemon.records()[2], "refused");
    assert_eq!(daemon.journal()[2]["reason"], "CANCELED");
    assert!(!daemon.workspace().join("ran").exists());
    assert_verifies(daemon.path());
}

#[tokio::test]
async fn an_answer_does_not_wait_for_the_removal_of_what_the_hook_left() {
    let daemon = Daemon::start().await;
    let script = "
import os, sys
for number in range(int(sys.argv[1])):
    os.mkdir(os.environ['TMPDIR'] + f'/{number}')
print('done')
";
    let mut request = hook(["/usr/bin/python3", "-c", script, "4000"]);
    request.profile = "pipeline".to_owned();

    let response = daemon.run(request).await.unwrap();

    assert_eq!(
        (end(&response), &response.stdout[..]),
        ((OutcomeKind::Exited, Some(0), None), b"done\n".as_slice())
    );
    // Memory that a container holds goes with it, and is no work.
    if !contained() {
        assert_eq!(daemon.scratch_directories().len(), 1);
    }
    // Others neither.
    let response = daemon.run(hook(["/bin/true"])).await.unwrap();
    assert_eq!(end(&response), (OutcomeKind::Exited, Some(0), None));
    until_clean(&daemon).await;
}
