//! An operator looks at a daemon that runs.

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
    support::{Daemon, Setup, hook},
    witness::{NOBODY, ask_as, end, hookjail, json, until, writing},
};

/// A hook that says when it runs, and goes on until it is let go.
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

fn command(daemon: &Daemon, words: &[&str]) -> Output {
    let mut command = hookjail(&daemon.path().join("hookjail.toml"), words);
    command.env("HOME", daemon.path()).output().unwrap()
}

/// Returns the runs in work, as `ps` has them.
fn runs(daemon: &Daemon) -> Vec<Value> {
    let listed = json(&command(daemon, &["ps", "--json"]));
    listed["runs"].as_array().cloned().unwrap_or_default()
}

/// Waits until there are runs in these states, the oldest first, and returns them.
async fn runs_in(daemon: &Daemon, states: &[&str]) -> Vec<Value> {
    let mut found = Vec::new();
    until("the runs", || {
        found = runs(daemon);
        let state = |run: &Value| run["state"].as_str().unwrap_or_default().to_owned();
        found.iter().map(state).eq(states.iter().copied())
    })
    .await;
    found
}

/// A request that waits for an operator's consent, once somebody listens.
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
    let allowed = [
        "consent",
        "allow",
        "--profile",
        "workspace-rw",
        "--",
        "/bin/sh",
    ];
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
    // The control: there they are.
    assert_eq!(runs(&daemon), [json!(null); 0]);
}

mod as_root {
    use super::*;
    use crate::support::needs_root;

    #[tokio::test]
    #[ignore = "needs root"]
    async fn nobody_but_the_daemons_own_user_and_root_lists_its_runs() {
        needs_root();
        let daemon = Daemon::start().await;
        // One that answers has made both sockets.
        daemon.run(hook(["/bin/true"])).await.unwrap();
        let a_hooks = 1_879_100_007;
        for (user, expected) in [(NOBODY, "PEER_NOT_ALLOWED"), (a_hooks, "CALLER_IS_A_HOOK")] {
            let output = ask_as(user, &daemon, "sock-admin", "ps", &[]);
            assert_eq!(json(&output)["error"]["reason"], expected, "{output:?}");
        }
        let output = ask_as(0, &daemon, "sock-admin", "ps", &[]);
        assert_eq!(json(&output), json!({}), "{output:?}");
    }
}
