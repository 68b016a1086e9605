//! On which backend a hook runs: the first of the operator's that is confirmed, and never one further down in silence.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start the command line itself, never a hook"
)]

use std::{fs, process::Output};

use hookjail::pb::{self, sandbox_service_client::SandboxServiceClient};
use serde_json::{Value, json};

use crate::{
    fail_closed::{FakeKernel, demanding_nothing},
    support::{Daemon, SHIPPED, Setup, hook, reason, sh},
    witness::hookjail,
};

/// Landlock where it can be had; no confinement at all where not.
const LANDLOCK_THEN_NOTHING: &str = "[backends]\norder = [\"landlock\", \"noop\"]\n";

/// Returns a profile that demands nothing, and one that extends it.
fn profiles() -> Vec<(String, String)> {
    let child = "extends = \"open\"\ndescription = \"As open as its parent.\"\n";
    vec![
        ("open".to_owned(), demanding_nothing()),
        ("child".to_owned(), child.to_owned()),
    ]
}

async fn configured(config: &str) -> Daemon {
    Daemon::with(Setup {
        config: config.to_owned(),
        profiles: profiles(),
        ..Setup::default()
    })
    .await
}

/// The same on a kernel without Landlock.
async fn without_landlock(kernel: &FakeKernel, config: &str) -> Daemon {
    Daemon::with(Setup {
        config: config.to_owned(),
        profiles: profiles(),
        wrapper: kernel.wrapper(&["--landlock", "enosys"]),
        ..Setup::default()
    })
    .await
}

/// Returns a request that does not insist on confinement.
fn anyhow(profile: &str, script: &str) -> pb::ExecuteRequest {
    pb::ExecuteRequest {
        require_confirmed: Some(false),
        ..sh(profile, script)
    }
}

/// Which backend a run was on, whether that was confirmed, and the backends that were passed over with their reasons.
type On = (String, bool, Vec<(String, String)>);

fn backend_of(response: pb::ExecuteResponse) -> On {
    let confinement = response.confinement.unwrap();
    assert_eq!(confinement.unconfined, !confinement.confirmed);
    let passed_over = confinement.passed_over.into_iter();
    let passed_over = passed_over.map(|it| (it.backend, it.reason)).collect();
    (confinement.backend, confinement.confirmed, passed_over)
}

fn landlock() -> On {
    ("landlock".to_owned(), true, Vec::new())
}

fn noop_after(passed_over: &[(&str, &str)]) -> On {
    let passed_over = passed_over.iter();
    let passed_over =
        passed_over.map(|(backend, reason)| (backend.to_string(), reason.to_string()));
    ("noop".to_owned(), false, passed_over.collect())
}

async fn status(daemon: &Daemon) -> pb::GetStatusResponse {
    let mut client = SandboxServiceClient::new(daemon.channel());
    let status = client.get_status(pb::GetStatusRequest {}).await;
    status.unwrap().into_inner()
}

async fn profile(daemon: &Daemon, name: &str) -> pb::ProfileStatus {
    let mut profiles = status(daemon).await.profiles.into_iter();
    profiles.find(|status| status.profile == name).unwrap()
}

fn command(daemon: &Daemon, words: &[&str]) -> Output {
    let mut command = hookjail(&daemon.path().join("hookjail.toml"), words);
    command.env("HOME", daemon.path()).output().unwrap()
}

#[tokio::test]
async fn a_run_is_on_the_first_backend_that_is_confirmed_and_says_why_on_none_before_it() {
    // The positive control: where Landlock is there, nothing is passed over.
    let daemon = configured(LANDLOCK_THEN_NOTHING).await;
    let witness = daemon.outside("witness");
    let touch = format!("echo ran > {}", witness.display());
    let response = daemon.run(anyhow("open", &touch)).await.unwrap();
    assert_eq!(backend_of(response), landlock());
    assert!(!witness.exists());
    let started = &daemon.journal()[0];
    assert_eq!(
        (started.get("passed_over"), started.get("unconfined")),
        (None, None)
    );

    let kernel = FakeKernel::build();
    let daemon = without_landlock(&kernel, LANDLOCK_THEN_NOTHING).await;
    let witness = daemon.outside("witness");
    let touch = format!("echo ran > {}", witness.display());
    let response = daemon.run(anyhow("open", &touch)).await.unwrap();

    assert!(witness.exists());
    let passed_over = &response.confinement.as_ref().unwrap().passed_over[0];
    let why = "this kernel has no Landlock";
    assert!(passed_over.message.contains(why), "{passed_over:?}");
    assert_eq!(
        backend_of(response),
        noop_after(&[("landlock", "BACKEND_UNCONFIRMED")])
    );
    let [started, ended] = daemon.journal().try_into().unwrap();
    assert_eq!(started["passed_over"][0]["backend"], "landlock");
    assert_eq!(started["passed_over"][0]["reason"], "BACKEND_UNCONFIRMED");
    let message = started["passed_over"][0]["message"].as_str().unwrap();
    assert!(message.contains(why), "{started}");
    assert_eq!(
        (&started["unconfined"], &ended["unconfined"]),
        (&json!(true), &json!(true))
    );
}

#[tokio::test]
async fn where_no_backend_of_the_order_serves_the_refusal_says_of_each_why() {
    let kernel = FakeKernel::build();
    let daemon = without_landlock(&kernel, LANDLOCK_THEN_NOTHING).await;
    let witness = daemon.outside("witness");
    let touch = format!("echo ran > {}", witness.display());

    // `strict` requires what `noop` does not do; `open` requires nothing, but the request does by default.
    for (request, nothing_else) in [
        (anyhow("strict", &touch), "cannot be enforced by `noop`"),
        (sh("open", &touch), "`require_confirmed`"),
    ] {
        let refusal = daemon.run(request).await.unwrap_err();

        assert_eq!(reason(&refusal), "BACKEND_UNCONFIRMED");
        let message = refusal.message();
        assert!(
            message.contains("backend `landlock` is not available"),
            "{message}"
        );
        assert!(message.contains(nothing_else), "{message}");
        let record = daemon.journal().pop().unwrap();
        assert_eq!(
            (&record["record"], &record["message"]),
            (&json!("refused"), &json!(message))
        );
    }
    assert!(!witness.exists());
}

#[tokio::test]
async fn a_backend_that_cannot_enforce_a_profile_is_passed_over_for_one_that_can() {
    let daemon = configured("[backends]\norder = [\"noop\", \"landlock\"]\n").await;

    let response = daemon.run(hook(["/bin/true"])).await.unwrap();

    let passed_over = vec![("noop".to_owned(), "POLICY_UNENFORCEABLE".to_owned())];
    assert_eq!(
        backend_of(response),
        ("landlock".to_owned(), true, passed_over)
    );
    let strict = profile(&daemon, "strict").await;
    assert_eq!(
        (&*strict.backend, strict.confirmed, strict.unconfined),
        ("landlock", true, false)
    );
    let [other] = strict.others.try_into().unwrap();
    assert_eq!(
        (&*other.backend, other.passed_over, other.confirmed),
        ("noop", true, false)
    );
    assert!(
        other.reason.starts_with("POLICY_UNENFORCEABLE: "),
        "{other:?}"
    );
    // `open` requires nothing, and takes the backend that the operator named first.
    let response = daemon.run(anyhow("open", "true")).await.unwrap();
    assert_eq!(backend_of(response), noop_after(&[]));
}

#[tokio::test]
async fn a_list_of_its_own_holds_for_a_profile_and_for_those_that_extend_it() {
    let daemon = configured("[backends.profiles]\nopen = [\"noop\"]\n").await;
    for name in ["open", "child"] {
        let response = daemon.run(anyhow(name, "true")).await.unwrap();
        assert_eq!(backend_of(response), noop_after(&[]), "{name}");
    }
    let response = daemon.run(anyhow("strict", "true")).await.unwrap();
    assert_eq!(backend_of(response), landlock());
    let backends = status(&daemon).await.backends;
    let backends = backends
        .iter()
        .map(|backend| (&*backend.backend, backend.confines));
    assert_eq!(
        backends.collect::<Vec<_>>(),
        [("landlock", true), ("noop", false)]
    );
    drop(daemon);

    // The nearest that is named decides.
    let lists = "[backends.profiles]\nopen = [\"noop\"]\nchild = [\"landlock\"]\n";
    let daemon = configured(lists).await;
    let response = daemon.run(anyhow("open", "true")).await.unwrap();
    assert_eq!(backend_of(response), noop_after(&[]));
    let response = daemon.run(anyhow("child", "true")).await.unwrap();
    assert_eq!(backend_of(response), landlock());
}

#[tokio::test]
async fn a_list_for_a_profile_that_is_not_there_is_an_error_at_start_and_at_reload() {
    let lists = "[backends.profiles]\nopne = [\"noop\"]\n";
    let log = Daemon::try_with(Setup {
        config: lists.to_owned(),
        profiles: profiles(),
        ..Setup::default()
    })
    .await
    .unwrap_err();
    assert!(log.contains("`backends.profiles` names `opne`"), "{log}");

    let daemon = Daemon::with(Setup {
        config: "[backends.profiles]\nchild = [\"noop\"]\n".to_owned(),
        profiles: profiles(),
        shipped: &SHIPPED,
        ..Setup::default()
    })
    .await;
    let reload = || async {
        let socket = daemon.path().join("sock-admin");
        let words = ["reload", "--json", "--connect", socket.to_str().unwrap()];
        let output = command(&daemon, &words);
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    assert_eq!(reload().await.get("error"), None);
    fs::remove_file(daemon.path().join("profiles/child.toml")).unwrap();
    let error = &reload().await["error"];
    assert_eq!(error["reason"], "RELOAD_REFUSED", "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("`backends.profiles` names `child`"),
        "{message}"
    );
    // The configuration in force stays in force.
    let response = daemon.run(anyhow("child", "true")).await.unwrap();
    assert_eq!(backend_of(response), noop_after(&[]));
}

#[tokio::test]
async fn a_backend_that_is_confirmed_no_more_shows_in_status_log_and_replies() {
    let daemon = configured(LANDLOCK_THEN_NOTHING).await;
    let open = profile(&daemon, "open").await;
    assert_eq!((&*open.backend, open.confirmed), ("landlock", true));
    let [other] = open.others.try_into().unwrap();
    assert_eq!((&*other.backend, other.passed_over), ("noop", false));
    let response = daemon.run(anyhow("open", "true")).await.unwrap();
    assert_eq!(backend_of(response), landlock());
    let test = || async {
        let mut client = SandboxServiceClient::new(daemon.channel());
        let tested = client.self_test(pb::SelfTestRequest::default()).await;
        tested.unwrap();
    };

    let closed = daemon.close_canary();
    test().await;

    let open = profile(&daemon, "open").await;
    assert_eq!(
        (&*open.backend, open.confirmed, open.unconfined),
        ("noop", false, true)
    );
    let [other] = open.others.try_into().unwrap();
    assert_eq!((&*other.backend, other.passed_over), ("landlock", true));
    let log = daemon.log();
    assert!(log.contains("backend is not confirmed any more"), "{log}");
    let response = daemon.run(anyhow("open", "true")).await.unwrap();
    assert_eq!(
        backend_of(response),
        noop_after(&[("landlock", "BACKEND_UNCONFIRMED")])
    );
    // A request that does not allow an unconfined run is refused, not moved.
    let refusal = daemon.run(sh("open", "true")).await.unwrap_err();
    assert_eq!(reason(&refusal), "BACKEND_UNCONFIRMED");

    closed.open();
    test().await;
    let response = daemon.run(anyhow("open", "true")).await.unwrap();
    assert_eq!(backend_of(response), landlock());
    assert!(daemon.log().contains("backend is confirmed again"));
}

#[tokio::test]
async fn whoever_looks_at_an_unconfined_run_reads_that_it_was_unconfined() {
    let daemon = configured(
        "[backends.profiles]\nopen = [\"noop\"]\n\
         [[hook]]\ncontract = \"reyn\"\nmode = \"shell_exec\"\npoint = \"turn_end\"\n\
         command = [\"/bin/true\"]\nprofile = \"open\"\n",
    )
    .await;
    let log = daemon.log();
    assert!(log.contains("hooks that it runs are UNCONFINED"), "{log}");
    assert!(
        log.contains("hooks under this profile run UNCONFINED"),
        "{log}"
    );
    let socket = daemon.path().join("sock");
    let connect = ["--connect", socket.to_str().unwrap()];
    let printed = |words: &[&str]| {
        let output = command(&daemon, words);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    };
    let run = |words: &[&str]| {
        let words = [&["run"], &connect[..], words, &["--", "/bin/true"]].concat();
        printed(&words)
    };

    let (stdout, stderr) = run(&["--profile", "open", "--allow-unconfirmed"]);
    assert!(
        stdout.contains("noop, profile open, UNCONFINED"),
        "{stdout}{stderr}"
    );
    assert!(stderr.contains("UNCONFINED"), "{stderr}");
    let (_, stderr) = run(&["--profile", "open", "--allow-unconfirmed", "--json"]);
    assert!(stderr.contains("UNCONFINED"), "{stderr}");
    let (stdout, _) = run(&["--profile", "open", "--allow-unconfirmed", "--dry-run"]);
    assert!(stdout.contains("UNCONFINED"), "{stdout}");
    assert!(daemon.log().contains("a hook runs UNCONFINED"));
    let workspace = daemon.workspace();
    let dispatch = [
        "dispatch",
        "--point",
        "turn_end",
        "--allow-unconfirmed",
        "--workspace",
    ];
    let words = [&dispatch[..], &[workspace.to_str().unwrap()], &connect].concat();
    let (stdout, stderr) = printed(&words);
    assert!(stdout.contains("exited 0, UNCONFINED"), "{stdout}{stderr}");
    assert!(stderr.contains("UNCONFINED"), "{stderr}");
    let (stdout, _) = printed(&["audit", "tail"]);
    // Of three runs, the start and the end.
    assert_eq!(stdout.matches("UNCONFINED").count(), 6, "{stdout}");
    let (stdout, _) = printed(&["doctor"]);
    let mut lines = stdout.lines().skip_while(|line| !line.starts_with("open "));
    let [Some(open), Some(next)] = [lines.next(), lines.next()] else {
        panic!("{stdout}")
    };
    assert!(open.contains("UNCONFINED"), "{stdout}");
    assert!(!next.contains("fix:"), "{stdout}");
    let (stdout, _) = printed(&["doctor", "--verbose"]);
    assert!(
        stdout.contains("profile open on noop: UNCONFINED"),
        "{stdout}"
    );
    assert!(stdout.contains("confines nothing: UNCONFINED"), "{stdout}");

    // Under `strict` beside it, none of that.
    let (stdout, stderr) = run(&["--profile", "strict"]);
    assert!(
        !stdout.contains("UNCONFINED") && !stderr.contains("UNCONFINED"),
        "{stdout}{stderr}"
    );
    assert!(stdout.contains("landlock"), "{stdout}{stderr}");
}

#[tokio::test]
async fn a_request_that_asks_for_a_backend_by_name_is_refused() {
    let daemon = configured("[backends.profiles]\nopen = [\"noop\"]\n").await;
    for name in ["noop", "landlock"] {
        let refusal = daemon.run(anyhow(name, "true")).await.unwrap_err();
        assert_eq!(reason(&refusal), "PROFILE_UNKNOWN");
        let message = refusal.message();
        assert!(message.contains("is a backend"), "{message}");
    }
    let output = command(&daemon, &["run", "--backend", "noop", "--", "/bin/true"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(daemon.records(), ["refused", "refused"]);
}
