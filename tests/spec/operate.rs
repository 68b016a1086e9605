//! An operator looks at a daemon that runs, and ends what it runs.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start the command line itself, never a hook"
)]

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    process::Output,
};

use hookjail::pb::{
    self, OutcomeKind, admin_service_client::AdminServiceClient,
    consent_service_client::ConsentServiceClient,
};
use nix::unistd::geteuid;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tonic::{Code, Status};

use crate::{
    audit_failure::limit_files,
    support::{Daemon, SHIPPED, Setup, dispatch_at, hook, inline, reason},
    witness::{
        NOBODY, a_hooks_uid, a_minute, ask_as, assert_verifies, end, hookjail, json,
        processes_with, until, writing,
    },
};

/// A hook that makes a file when it starts, and runs until the test lets it end.
const WAITS: &str = "touch runs; until test -e go; do sleep 0.02; done";

type Running = JoinHandle<Result<pb::ExecuteResponse, Status>>;

/// Has a hook run in the background.
fn begin(daemon: &Daemon, request: pb::ExecuteRequest) -> Running {
    let mut client = daemon.client();
    tokio::spawn(async move {
        client
            .execute(request)
            .await
            .map(tonic::Response::into_inner)
    })
}

/// Returns a line of the text that `status` prints.
pub(crate) fn status_line(daemon: &Daemon, name: &str) -> String {
    let text = String::from_utf8(command(daemon, &["status"]).stdout).unwrap();
    let line = text.lines().find_map(|line| line.trim().strip_prefix(name));
    assert!(line.is_some(), "{name}: {text}");
    line.unwrap().trim().to_owned()
}

pub(crate) fn command(daemon: &Daemon, words: &[&str]) -> Output {
    let mut command = hookjail(&daemon.path().join("hookjail.toml"), words);
    command.env("HOME", daemon.path()).output().unwrap()
}

/// Returns the runs in work, as `ps` has them.
fn runs(daemon: &Daemon) -> Vec<Value> {
    let listed = json(&command(daemon, &["ps", "--json"]));
    listed["runs"].as_array().cloned().unwrap_or_default()
}

/// Waits until there are runs in these states, the oldest first, and returns them.
pub(crate) async fn runs_in(daemon: &Daemon, states: &[&str]) -> Vec<Value> {
    let mut found = Vec::new();
    until("the runs", || {
        found = runs(daemon);
        let state = |run: &Value| run["state"].as_str().unwrap_or_default().to_owned();
        found.iter().map(state).eq(states.iter().copied())
    })
    .await;
    found
}

/// A request that waits for an operator's consent, once an operator listens.
fn unknown(daemon: &Daemon) -> pb::ExecuteRequest {
    let path = daemon.outside("unknown.sh");
    fs::write(&path, "#!/bin/sh\ntouch started\n").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    hook([path.to_str().unwrap()])
}

#[tokio::test]
async fn ps_shows_a_hook_that_runs_and_nothing_once_it_has_ended() {
    let daemon = Daemon::start().await;
    assert_eq!(runs(&daemon), [json!(null); 0]);
    let mut request = writing(&daemon, WAITS);
    request.hook.as_mut().unwrap().name = "guard".to_owned();
    request.session_id = "s1".to_owned();
    request.request_id = "r1".to_owned();
    let call = begin(&daemon, request);

    let run = runs_in(&daemon, &["RUN_STATE_RUNNING"]).await.remove(0);

    let started = &daemon.journal()[0];
    assert_eq!(run["runId"], started["run_id"]);
    for (name, expected) in [
        ("profile", json!("workspace-rw")),
        ("contract", json!("observe")),
        ("hook", json!("guard")),
        ("sessionId", json!("s1")),
        ("requestId", json!("r1")),
        ("argv", started["command"]["argv"].clone()),
        ("peerUid", json!(geteuid().as_raw())),
        ("peerPid", json!(std::process::id())),
    ] {
        assert_eq!(run[name], expected, "{name}: {run}");
    }
    let seconds = |name: &str| -> f64 {
        let text = run[name].as_str().unwrap().trim_end_matches('s');
        text.parse().unwrap()
    };
    let timeout = started["timeout_ms"].as_f64().unwrap() / 1e3;
    let whole = seconds("age") + seconds("left");
    assert!(
        seconds("age") > 0.0 && (whole - timeout).abs() < 0.1,
        "{run}"
    );
    let text = String::from_utf8(command(&daemon, &["ps"]).stdout).unwrap();
    let line = text.lines().nth(1).unwrap_or_default();
    for word in [run["runId"].as_str().unwrap(), "running", "guard: "] {
        assert!(line.contains(word), "{word}: {text}");
    }

    fs::write(daemon.workspace().join("go"), "").unwrap();
    let response = call.await.unwrap().unwrap();
    assert_eq!(end(&response), (OutcomeKind::Exited, Some(0), None));
    assert_eq!(runs(&daemon), [json!(null); 0]);
    let text = command(&daemon, &["ps"]).stdout;
    assert_eq!(text, b"no hook is in work\n");
}

#[tokio::test]
async fn ps_shows_what_waits_for_a_place_and_what_waits_for_a_consent() {
    let daemon = Daemon::with(Setup {
        config: "[hooks]\nmax_concurrent = 1\n".to_owned(),
        ask_for_consent: true,
        ..Setup::default()
    })
    .await;
    let mut operator = ConsentServiceClient::new(daemon.channel());
    let listener = operator.watch(pb::WatchRequest::default()).await.unwrap();
    let asking = begin(&daemon, unknown(&daemon));
    let run = runs_in(&daemon, &["RUN_STATE_ASKING"]).await.remove(0);
    assert_eq!(run["profile"], "strict", "the contract's own: {run}");
    let allowed = ["allow", "--profile", "workspace-rw", "--", "/bin/sh"];
    let script = [WAITS, "true"].map(|script| writing(&daemon, script));
    for request in &script {
        let argv = request.hook.as_ref().unwrap().argv.clone();
        let rest = argv[1..].iter().map(String::as_str);
        let words: Vec<_> = allowed.into_iter().chain(rest).collect();
        let output = command(&daemon, &words);
        assert!(output.status.success(), "{output:?}");
    }
    let [first, second] = script;
    let running = begin(&daemon, first);
    runs_in(&daemon, &["RUN_STATE_ASKING", "RUN_STATE_RUNNING"]).await;
    let queued = begin(&daemon, second);

    let states = ["RUN_STATE_ASKING", "RUN_STATE_RUNNING", "RUN_STATE_QUEUED"];
    let found = runs_in(&daemon, &states).await;

    assert!(found.iter().all(|run| run["left"].is_string()), "{found:?}");
    fs::write(daemon.workspace().join("go"), "").unwrap();
    running.await.unwrap().unwrap();
    queued.await.unwrap().unwrap();
    drop(listener);
    asking.abort();
    runs_in(&daemon, &[]).await;
}

#[tokio::test]
async fn ps_takes_registered_secrets_out_of_what_it_shows() {
    let daemon = Daemon::start().await;
    let file = daemon.path().join("secret");
    fs::write(&file, "a-secret-of-mine").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let config = daemon.path().join("hookjail.toml");
    let before = fs::read_to_string(&config).unwrap();
    let secret = format!("[[secret]]\nname = \"mine\"\nfile = {file:?}\n");
    fs::write(&config, format!("{before}\n{secret}")).unwrap();
    assert!(command(&daemon, &["reload"]).status.success());
    let mut request = writing(&daemon, &format!(": a-secret-of-mine; {WAITS}"));
    request.session_id = "of a-secret-of-mine".to_owned();
    let call = begin(&daemon, request);

    let run = runs_in(&daemon, &["RUN_STATE_RUNNING"]).await.remove(0);

    assert!(!run.to_string().contains("a-secret-of-mine"), "{run}");
    assert_eq!(run["sessionId"], "of [redacted:mine]");
    assert_eq!(run["argv"], daemon.journal()[0]["command"]["argv"]);
    fs::write(daemon.workspace().join("go"), "").unwrap();
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn runs_are_listed_at_the_admin_socket_alone() {
    let daemon = Daemon::start().await;
    let mut elsewhere = AdminServiceClient::new(daemon.channel());
    let status = elsewhere.list_runs(pb::ListRunsRequest {}).await;
    assert_eq!(status.unwrap_err().code(), Code::Unimplemented);
    // The control: they exist.
    assert_eq!(runs(&daemon), [json!(null); 0]);
}

/// Kills a run, and returns how it ended.
fn kill(daemon: &Daemon, run: &Value) -> Value {
    let id = run["runId"].as_str().unwrap();
    let killed = json(&command(daemon, &["kill", id, "--json"]));
    assert_eq!(killed["run"]["runId"], run["runId"], "{killed}");
    killed["end"].clone()
}

/// Asserts that a record names this test's user as the killer, and some process.
fn assert_killed_by_this_user(record: &Value) {
    let killer = &record["killed_by"];
    assert_eq!(killer["uid"], geteuid().as_raw(), "{record}");
    assert!(killer["pid"].is_u64(), "{record}");
}

#[tokio::test]
async fn a_killed_run_ends_with_its_whole_tree_and_says_who_did_it() {
    let daemon = Daemon::start().await;
    let markers = [a_minute(), a_minute()];
    let calls = markers.clone().map(|marker| {
        let script = format!("(sleep {marker} &) ; sleep {marker}");
        begin(&daemon, writing(&daemon, &script))
    });
    let [killed, lives] = calls;
    runs_in(&daemon, &["RUN_STATE_RUNNING"; 2]).await;
    for marker in &markers {
        until("both sleeps", || {
            let found = processes_with(&format!("sleep {marker}"));
            found
                .iter()
                .filter(|line| line.starts_with("sleep "))
                .count()
                == 2
        })
        .await;
    }
    let run_with = |marker: &str| {
        let found = runs(&daemon);
        let run = found
            .into_iter()
            .find(|run| run["argv"].to_string().contains(marker));
        run.unwrap()
    };
    let run = run_with(&markers[0]);

    assert_eq!(kill(&daemon, &run), "killed");

    assert_eq!(processes_with(&markers[0]), [""; 0]);
    let response = killed.await.unwrap().unwrap();
    assert_eq!(end(&response), (OutcomeKind::Killed, None, Some(15)));
    assert!(response.verdict.unwrap().failed);
    let last = daemon.journal().pop().unwrap();
    let recorded = ["record", "run_id", "outcome"].map(|name| last[name].clone());
    assert_eq!(
        recorded,
        [json!("ended"), run["runId"].clone(), json!("killed")]
    );
    assert_killed_by_this_user(&last);
    // The control: the other one has lived as long, and goes on.
    assert_ne!(processes_with(&markers[1]), [""; 0]);
    let left = runs_in(&daemon, &["RUN_STATE_RUNNING"]).await;
    // As much of an id as no other run has suffices.
    let id = left[0]["runId"].as_str().unwrap();
    let output = command(&daemon, &["kill", &id[..id.len() - 1]]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.starts_with(id) && text.ends_with(": killed\n"),
        "{text}"
    );
    let response = lives.await.unwrap().unwrap();
    assert_eq!(end(&response).0, OutcomeKind::Killed);
    assert_eq!(processes_with(&markers[1]), [""; 0]);
    assert_verifies(daemon.path());
}

#[tokio::test]
async fn a_guard_that_is_killed_denies() {
    let daemon = Daemon::start().await;
    // Loom denies after any failure, Claude Code does not: there it is hookjail that denies, as the guard gave no answer.
    for (contract, point, because) in [
        (pb::Contract::Loom, "tool.pre", "Hook aborted"),
        (
            pb::Contract::ClaudeCode,
            "PreToolUse",
            "the hook failed: an operator killed it",
        ),
    ] {
        let marker = a_minute();
        let guard = format!("sleep {marker}");
        let request = |hooks: Vec<pb::InlineHook>| pb::DispatchRequest {
            contract: contract.into(),
            inline_hooks: hooks,
            profile: "workspace-rw".to_owned(),
            workspace: daemon.workspace().display().to_string(),
            ..dispatch_at(point, &json!({"tool_name": "Bash", "tool_input": {}}))
        };
        let mut client = daemon.client();
        let dispatch = request(vec![inline("guard", &guard)]);
        let call = tokio::spawn(async move { client.dispatch(dispatch).await });
        let run = runs_in(&daemon, &["RUN_STATE_RUNNING"]).await.remove(0);
        assert_eq!(
            (&run["hook"], &run["point"]),
            (&json!("guard"), &json!(point))
        );

        assert_eq!(kill(&daemon, &run), "killed");

        let response = call.await.unwrap().unwrap().into_inner();
        let answer = response.answer.unwrap();
        assert_eq!(answer.decision(), pb::Decision::Deny, "{answer:?}");
        assert_eq!(
            (answer.reason.as_str(), answer.failed),
            (because, true),
            "{point}"
        );
        assert_eq!(response.blocked_by_hook, "guard");
        // The control: a hook that ends by itself denies nothing.
        let passed = daemon
            .dispatch(request(vec![inline("guard", "exit 0")]))
            .await;
        let answer = passed.answer.unwrap();
        assert_ne!(answer.decision(), pb::Decision::Deny, "{answer:?}");
    }
}

#[tokio::test]
async fn one_hook_of_a_dispatch_is_killed_and_the_others_go_on() {
    let daemon = Daemon::start().await;
    let marker = a_minute();
    let wait = "until test -e go; do sleep 0.02; done; echo over";
    let mut client = daemon.client();
    let request = pb::DispatchRequest {
        contract: pb::Contract::ClaudeCode.into(),
        inline_hooks: vec![
            inline("slow", &format!("sleep {marker}")),
            inline("other", wait),
        ],
        profile: "workspace-rw".to_owned(),
        workspace: daemon.workspace().display().to_string(),
        ..dispatch_at("PostToolUse", &json!({"tool_name": "Bash"}))
    };
    let call = tokio::spawn(async move { client.dispatch(request).await });
    let found = runs_in(&daemon, &["RUN_STATE_RUNNING"; 2]).await;
    let slow = found.iter().find(|run| run["hook"] == "slow").unwrap();

    assert_eq!(kill(&daemon, slow), "killed");

    let left = runs_in(&daemon, &["RUN_STATE_RUNNING"]).await;
    assert_eq!(left[0]["hook"], "other");
    fs::write(daemon.workspace().join("go"), "").unwrap();
    let response = call.await.unwrap().unwrap().into_inner();
    let kinds = response.hooks.into_iter().map(|hook| match hook.end {
        Some(pb::dispatched_hook::End::Ran(ran)) => end(&ran).0,
        _ => OutcomeKind::Unspecified,
    });
    assert_eq!(
        kinds.collect::<Vec<_>>(),
        [OutcomeKind::Killed, OutcomeKind::Exited]
    );
}

#[tokio::test]
async fn what_waits_for_a_place_or_a_consent_is_killed_before_it_starts() {
    let daemon = Daemon::with(Setup {
        config: "[hooks]\nmax_concurrent = 1\n".to_owned(),
        ask_for_consent: true,
        ..Setup::default()
    })
    .await;
    let allowed = ["allow", "--profile", "workspace-rw", "--", "/bin/sh", "-c"];
    for script in [WAITS, "touch started"] {
        let words: Vec<_> = allowed.into_iter().chain([script]).collect();
        assert!(command(&daemon, &words).status.success());
    }
    let mut operator = ConsentServiceClient::new(daemon.channel());
    let listener = operator.watch(pb::WatchRequest::default()).await.unwrap();
    let asking = begin(&daemon, unknown(&daemon));
    runs_in(&daemon, &["RUN_STATE_ASKING"]).await;
    let running = begin(&daemon, writing(&daemon, WAITS));
    runs_in(&daemon, &["RUN_STATE_ASKING", "RUN_STATE_RUNNING"]).await;
    let queued = begin(&daemon, writing(&daemon, "touch started"));
    let states = ["RUN_STATE_ASKING", "RUN_STATE_RUNNING", "RUN_STATE_QUEUED"];
    let found = runs_in(&daemon, &states).await;

    for (run, call) in [(&found[0], asking), (&found[2], queued)] {
        assert_eq!(kill(&daemon, run), "refused");
        let refusal = call.await.unwrap().unwrap_err();
        assert_eq!(
            (refusal.code(), reason(&refusal)),
            (Code::Aborted, "KILLED".to_owned())
        );
        let record = daemon.journal().pop().unwrap();
        let recorded = ["record", "run_id", "reason"].map(|name| record[name].clone());
        assert_eq!(
            recorded,
            [json!("refused"), run["runId"].clone(), json!("KILLED")]
        );
        assert_killed_by_this_user(&record);
    }

    // No question is pending any more, and the running hook goes on.
    let pending = pb::WatchRequest {
        pending_only: true,
        ..pb::WatchRequest::default()
    };
    let mut pending = operator.watch(pending).await.unwrap().into_inner();
    assert_eq!(pending.message().await.unwrap(), None);
    fs::write(daemon.workspace().join("go"), "").unwrap();
    let response = running.await.unwrap().unwrap();
    assert_eq!(end(&response), (OutcomeKind::Exited, Some(0), None));
    assert!(!daemon.workspace().join("started").exists());
    // The control: a hook that was not killed starts.
    daemon.run(writing(&daemon, "touch started")).await.unwrap();
    assert!(daemon.workspace().join("started").exists());
    drop(listener);
}

#[tokio::test]
async fn an_id_that_is_no_one_runs_kills_nothing_and_says_so() {
    let daemon = Daemon::start().await;
    let ended = daemon.run(hook(["/bin/true"])).await.unwrap();
    let ended = ended.audit.unwrap().run_id;
    let calls = [1, 2].map(|_| begin(&daemon, writing(&daemon, WAITS)));
    let found = runs_in(&daemon, &["RUN_STATE_RUNNING"; 2]).await;
    let id = |index: usize| found[index]["runId"].as_str().unwrap();
    for (wanted, expected) in [
        (ended.as_str(), "RUN_UNKNOWN"),
        ("none", "RUN_UNKNOWN"),
        ("", "INVALID_REQUEST"),
        // As all ids begin.
        (&id(0)[..1], "INVALID_REQUEST"),
        (&id(0)[..3], "INVALID_REQUEST"),
        // Both began so.
        (&id(0)[..4], "INVALID_REQUEST"),
    ] {
        let output = command(&daemon, &["kill", wanted, "--json"]);
        let error = &json(&output)["error"];
        assert_eq!(
            (&error["reason"], output.status.code()),
            (&json!(expected), Some(125)),
            "{wanted}: {error}"
        );
        let message = error["message"].as_str().unwrap();
        match expected {
            "RUN_UNKNOWN" => assert!(message.contains("hookjail ps"), "{message}"),
            _ if wanted.len() < 4 => {
                assert!(message.contains("at least 4 characters"), "{message}");
            }
            _ => assert!(
                message.contains(id(0)) && message.contains(id(1)),
                "{message}"
            ),
        }
    }
    let mut elsewhere = AdminServiceClient::new(daemon.channel());
    let request = pb::KillRunRequest {
        run_id: id(0).to_owned(),
    };
    let status = elsewhere.kill_run(request).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    fs::write(daemon.workspace().join("go"), "").unwrap();
    for call in calls {
        let response = call.await.unwrap().unwrap();
        assert_eq!(end(&response), (OutcomeKind::Exited, Some(0), None));
    }
}

/// Returns the exit code of `status`, and its report.
pub(crate) fn status(daemon: &Daemon) -> (Option<i32>, Value) {
    let output = command(daemon, &["status", "--json"]);
    (output.status.code(), json(&output))
}

#[tokio::test]
async fn status_says_that_the_daemon_serves_what_it_does_and_where() {
    let daemon = Daemon::with(Setup {
        config: "[metrics]\nlisten = \"127.0.0.1:0\"\n[hooks]\nmax_concurrent = 1\n".to_owned(),
        shipped: &SHIPPED,
        ..Setup::default()
    })
    .await;
    let first = begin(&daemon, writing(&daemon, WAITS));
    runs_in(&daemon, &["RUN_STATE_RUNNING"]).await;
    let calls = [first, begin(&daemon, writing(&daemon, WAITS))];
    runs_in(&daemon, &["RUN_STATE_RUNNING", "RUN_STATE_QUEUED"]).await;

    let (code, report) = status(&daemon);

    assert_eq!(code, Some(0));
    let path = |name: &str| json!(daemon.path().join(name));
    for (name, expected) in [
        ("serving", json!(true)),
        ("version", json!(env!("CARGO_PKG_VERSION"))),
        ("pid", json!(daemon.pid())),
        ("socket", path("sock")),
        ("adminSocket", path("sock-admin")),
        ("running", json!(1)),
        ("queued", json!(1)),
        ("questions", json!(null)),
        ("network", json!(null)),
        ("traces", json!(null)),
    ] {
        assert_eq!(report[name], expected, "{name}: {report}");
    }
    assert_eq!(report["journal"]["directory"], path("state/audit"));
    assert_eq!(report["journal"]["records"], "1");
    let log = daemon.log();
    let (_, metrics) = log.split_once("serving metrics address=").unwrap();
    assert_eq!(report["metrics"], metrics.lines().next().unwrap());
    let profiles = report["profiles"].as_array().unwrap();
    let names = profiles.iter().map(|it| it["name"].as_str().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), SHIPPED);
    assert!(
        profiles.iter().all(|it| it["confirmed"] == true),
        "{report}"
    );
    assert_eq!(report["backends"][0]["available"], true);

    let text = command(&daemon, &["status"]);
    assert_eq!(text.status.code(), Some(0));
    let text = String::from_utf8(text.stdout).unwrap();
    let first = format!("hookjail {}: serving, ", env!("CARGO_PKG_VERSION"));
    assert!(text.starts_with(&first), "{text}");
    for line in [
        "1 running, 1 queued, 0 questions",
        ": confirmed\n",
        "landlock",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    for name in ["network", "traces"] {
        assert_eq!(status_line(&daemon, name), "off");
    }
    fs::write(daemon.workspace().join("go"), "").unwrap();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let report_after = status(&daemon).1;
    assert_eq!(
        (&report_after["running"], &report_after["queued"]),
        (&json!(null), &json!(null))
    );
}

#[tokio::test]
async fn status_says_why_nothing_is_served_and_what_was_not_loaded() {
    let daemon = Daemon::start().await;
    let call = begin(&daemon, writing(&daemon, WAITS));
    runs_in(&daemon, &["RUN_STATE_RUNNING"]).await;
    let journal = daemon.path().join("state/audit/journal.jsonl");
    let full = fs::metadata(journal).unwrap().len().try_into().unwrap();
    limit_files(&daemon, Some(full));
    fs::write(daemon.workspace().join("go"), "").unwrap();
    let refused = call.await.unwrap().unwrap_err();
    assert_eq!(reason(&refused), "AUDIT_UNAVAILABLE");

    let (code, report) = status(&daemon);

    assert_eq!(
        (code, &report["serving"]),
        (Some(1), &json!(null)),
        "{report}"
    );
    let summary = report["summary"].as_str().unwrap();
    assert!(
        summary.starts_with("every request is refused: "),
        "{report}"
    );
    assert!(report["journal"]["problem"].is_string(), "{report}");
    assert!(report["journal"]["lastFailure"].is_string(), "{report}");
    limit_files(&daemon, None);
    until("the late records", || status(&daemon).0 == Some(0)).await;

    let file = daemon.path().join("hookjail.toml");
    let whole = fs::read_to_string(&file).unwrap();
    let restart = whole.replace("[paths]", "[metrics]\nlisten = \"127.0.0.1:0\"\n[paths]");
    fs::write(&file, restart).unwrap();
    assert_eq!(command(&daemon, &["reload"]).status.code(), Some(125));
    let configuration = |key: &str| status(&daemon).1["configuration"][key].clone();
    assert!(configuration("refused").is_string());
    let refusal = configuration("refusal").to_string();
    assert!(refusal.contains("metrics.listen changed"), "{refusal}");
    // The daemon serves nevertheless.
    assert_eq!(status(&daemon).0, Some(0));
    fs::write(&file, whole).unwrap();
    assert_eq!(command(&daemon, &["reload"]).status.code(), Some(0));
    assert_eq!(configuration("refused"), json!(null));
    assert!(configuration("loaded").is_string());
}

#[tokio::test]
async fn status_of_a_daemon_that_drains_or_is_gone_is_none_of_one_that_serves() {
    let mut daemon = Daemon::start().await;
    let call = begin(&daemon, writing(&daemon, WAITS));
    runs_in(&daemon, &["RUN_STATE_RUNNING"]).await;
    assert_eq!(status(&daemon).0, Some(0));

    assert_eq!(command(&daemon, &["drain"]).status.code(), Some(0));

    let (code, report) = status(&daemon);
    assert_eq!(code, Some(1), "{report}");
    assert_eq!(report["summary"], "draining, running hooks: 1");
    fs::write(daemon.workspace().join("go"), "").unwrap();
    call.await.unwrap().unwrap();
    until("the daemon's end", || {
        daemon.child().try_wait().unwrap().is_some()
    })
    .await;
    let output = command(&daemon, &["status"]);
    assert_eq!(output.status.code(), Some(125));
    let error = String::from_utf8(output.stderr).unwrap();
    let place = daemon.path().join("sock-admin");
    let expected = format!("cannot reach the daemon at `{}`", place.display());
    assert!(error.contains(&expected), "{error}");
    assert!(error.contains("hookjail serve"), "{error}");
}

mod as_root {
    use super::*;
    use crate::support::needs_root;

    #[tokio::test]
    #[ignore = "needs root"]
    async fn nobody_but_the_daemons_own_user_and_root_lists_its_runs_and_kills_them() {
        needs_root();
        let (a_hooks, config) = a_hooks_uid();
        let daemon = Daemon::with(Setup {
            config,
            ..Setup::default()
        })
        .await;
        // One that answers has made both sockets.
        daemon.run(hook(["/bin/true"])).await.unwrap();
        for (user, expected) in [(NOBODY, "PEER_NOT_ALLOWED"), (a_hooks, "CALLER_IS_A_HOOK")] {
            for words in [&["ps"][..], &["kill", "0"], &["status"]] {
                let output = ask_as(user, &daemon, "sock-admin", words[0], &words[1..]);
                assert_eq!(json(&output)["error"]["reason"], expected, "{output:?}");
            }
        }
        let output = ask_as(0, &daemon, "sock-admin", "ps", &[]);
        assert_eq!(json(&output), json!({}), "{output:?}");
    }
}
