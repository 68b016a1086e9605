//! A request under an id runs once, even if the daemon is killed or restarted.

use hookjail::pb;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::{
    support::{Daemon, Setup, dispatch_at, inline, reason, sh},
    witness::{end, until, writing},
};

/// A hook that leaves a file each time it is run, for it may have another uid each time, and exits with 3.
fn leaving(daemon: &Daemon, id: &str) -> pb::ExecuteRequest {
    pb::ExecuteRequest {
        request_id: id.to_owned(),
        ..writing(daemon, "echo >ran.$$; exit 3")
    }
}

fn runs(daemon: &Daemon) -> usize {
    let entries = std::fs::read_dir(daemon.workspace()).unwrap().flatten();
    let is_visible = |name: &std::ffi::OsStr| !name.as_encoded_bytes().starts_with(b".");
    entries.filter(|it| is_visible(&it.file_name())).count()
}

fn fact(status: &Status, name: &str) -> Option<String> {
    let details = status.get_error_details();
    details.error_info()?.metadata.get(name).cloned()
}

/// Ends a daemon as its service manager does.
async fn stop(mut daemon: Daemon) -> TempDir {
    let pid = Pid::from_raw(i32::try_from(daemon.pid()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    until("the daemon's end", || {
        daemon.child().try_wait().unwrap().is_some()
    })
    .await;
    daemon.kill()
}

async fn start(directory: TempDir) -> Daemon {
    let setup = Setup::default();
    Daemon::in_directory(directory, setup).await.unwrap()
}

#[tokio::test]
async fn what_ran_is_not_run_again_after_a_restart_or_a_kill() {
    let mut daemon = Daemon::start().await;
    let first = leaving(&daemon, "once");
    daemon.run(first.clone()).await.unwrap();
    let started = daemon.journal().remove(0);

    for clean in [true, false] {
        let directory = if clean {
            stop(daemon).await
        } else {
            daemon.kill()
        };
        daemon = start(directory).await;
        for _ in 0..2 {
            let refusal = daemon.run(first.clone()).await.unwrap_err();
            assert_eq!(
                (refusal.code(), &*reason(&refusal)),
                (Code::AlreadyExists, "ALREADY_RAN"),
                "clean: {clean}"
            );
            assert_eq!(fact(&refusal, "outcome").as_deref(), Some("exited"));
            assert_eq!(fact(&refusal, "exit_code").as_deref(), Some("3"));
            assert_eq!(fact(&refusal, "released").as_deref(), Some("true"));
            assert_eq!(fact(&refusal, "sequence").as_deref(), Some("1"));
            let run_id = fact(&refusal, "run_id").unwrap();
            assert_eq!(started["run_id"], run_id);
        }
        assert_eq!(runs(&daemon), 1);
        let mut other = first.clone();
        other.hook.as_mut().unwrap().name = "another".to_owned();
        let refusal = daemon.run(other).await.unwrap_err();
        assert_eq!(reason(&refusal), "REQUEST_ID_CONFLICT");
    }
    // The controls: another id, and none.
    let daemon = start(daemon.kill()).await;
    daemon.run(leaving(&daemon, "twice")).await.unwrap();
    daemon.run(leaving(&daemon, "")).await.unwrap();
    assert_eq!(runs(&daemon), 3);
    let last = daemon.journal().pop().unwrap();
    assert_eq!(last["record"], "ended");
}

#[tokio::test]
async fn what_a_killed_daemon_was_running_is_not_run_again() {
    let daemon = Daemon::start().await;
    let request = pb::ExecuteRequest {
        request_id: "once".to_owned(),
        ..writing(&daemon, "echo >ran.$$; sleep 600")
    };
    let mut client = daemon.client();
    let message = request.clone();
    let call = tokio::spawn(async move { client.execute(message).await });
    until("the hook's begin", || runs(&daemon) == 1).await;

    let daemon = start(daemon.kill()).await;
    assert!(call.await.unwrap().is_err());
    let refusal = daemon.run(request).await.unwrap_err();

    assert_eq!(reason(&refusal), "ALREADY_RAN");
    assert_eq!(fact(&refusal, "outcome").as_deref(), Some("interrupted"));
    assert_eq!(fact(&refusal, "released"), None);
    assert_eq!(runs(&daemon), 1);
    assert_eq!(daemon.records(), ["started", "interrupted", "refused"]);
}

#[tokio::test]
async fn what_was_refused_may_be_asked_for_again_after_a_restart() {
    let daemon = Daemon::with(Setup {
        ask_for_consent: true,
        ..Setup::default()
    })
    .await;
    let refused = daemon.run(leaving(&daemon, "again")).await.unwrap_err();
    assert_eq!(reason(&refused), "CONSENT_REQUIRED");

    let daemon = start(daemon.kill()).await;
    let response = daemon.run(leaving(&daemon, "again")).await.unwrap();

    assert_eq!(end(&response).1, Some(3));
    assert_eq!(runs(&daemon), 1);
}

#[tokio::test]
async fn a_dispatch_of_which_a_hook_was_started_is_not_made_again_after_a_restart() {
    let daemon = Daemon::start().await;
    let request = |daemon: &Daemon| pb::DispatchRequest {
        contract: pb::Contract::ClaudeCode.into(),
        request_id: "all".to_owned(),
        inline_hooks: vec![inline("one", "true"), inline("two", "exit 1")],
        workspace: daemon.workspace().display().to_string(),
        ..dispatch_at("PreToolUse", &serde_json::json!({}))
    };
    daemon.client().dispatch(request(&daemon)).await.unwrap();
    let before = daemon.records();
    assert_eq!(before.iter().filter(|it| *it == "started").count(), 2);

    let daemon = start(daemon.kill()).await;
    let refusal = daemon
        .client()
        .dispatch(request(&daemon))
        .await
        .unwrap_err();

    assert_eq!(reason(&refusal), "ALREADY_RAN");
    assert_eq!(fact(&refusal, "outcome").as_deref(), Some("exited"));
    assert_eq!(daemon.records()[before.len()..], ["refused"]);
}

#[tokio::test]
async fn values_of_the_environment_tell_two_requests_apart_in_memory_alone() {
    let daemon = Daemon::start().await;
    let request = |value: &str| {
        let mut request = sh("strict", "true");
        request.request_id = "once".to_owned();
        let hook = request.hook.as_mut().unwrap();
        hook.env = [("LC_ALL".to_owned(), value.to_owned())].into();
        request
    };
    daemon.run(request("C")).await.unwrap();
    let other = daemon.run(request("POSIX")).await.unwrap_err();
    assert_eq!(reason(&other), "REQUEST_ID_CONFLICT");

    let daemon = start(daemon.kill()).await;
    let other = daemon.run(request("POSIX")).await.unwrap_err();
    assert_eq!(reason(&other), "ALREADY_RAN");
}
