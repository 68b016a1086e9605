//! A daemon serves before each profile is tested, and runs nothing under one that is not confirmed.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start the command line itself and a compiler, never a hook"
)]

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use hookjail::pb;
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    fail_closed::demanding_nothing,
    metrics::{LISTENER, value},
    shutdown::{Manager, exit_status, terminate},
    support::{Daemon, Setup, directory, reason, sh},
    witness::{compiled_once, hookjail, install, json, processes_with, until, writing},
};

/// A container runtime that makes no container, and ends once there is a file `go` beside it.
const WAITING_RUNTIME: &str = r#"
fn main() {
    let go = std::env::current_exe().unwrap().with_file_name("go");
    while !go.exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::process::exit(1);
}
"#;

/// A daemon whose survey waits: for the profiles `a-slow` and `b-slow`, which come before all but the default ones.
struct Held {
    daemon: Daemon,
    runtime: TempDir,
}

impl Held {
    async fn start(env: Vec<(String, String)>) -> Self {
        let runtime = directory();
        let program = runtime.path().join("crun");
        compiled_once("waiting runtime".to_owned(), &program, || {
            let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
            let mut command = Command::new(rustc);
            command.args(["--edition", "2021", "--crate-name", "crun", "-o"]);
            command.arg(&program).arg("-").stdin(Stdio::piped());
            let mut compiling = command.spawn().expect("rustc is installed");
            let mut stdin = compiling.stdin.take().unwrap();
            stdin.write_all(WAITING_RUNTIME.as_bytes()).unwrap();
            drop(stdin);
            assert!(compiling.wait().unwrap().success());
        });
        let slow = |name: &str| (name.to_owned(), demanding_nothing());
        let daemon = Daemon::with(Setup {
            config: format!(
                "{LISTENER}[container]\nruntime = {program:?}\n[backends.profiles]\na-slow = [\"container\"]\nb-slow = [\"container\"]\n"
            ),
            env,
            is_early: true,
            profiles: vec![slow("a-slow"), slow("b-slow")],
            ..Setup::default()
        })
        .await;
        Self { daemon, runtime }
    }

    /// Lets the survey go on.
    fn release(&self) {
        std::fs::write(self.runtime.path().join("go"), "").unwrap();
    }

    /// Begins a command of the command line.
    fn begin(&self, words: &[&str]) -> Child {
        let mut command = hookjail(&self.config(), words);
        command.env("HOME", self.daemon.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    fn config(&self) -> PathBuf {
        self.daemon.path().join("hookjail.toml")
    }

    fn is_over(&self) -> bool {
        self.daemon.log().contains("self-tests are over")
    }

    fn counts(&self) -> [f64; 2] {
        counts(&self.daemon)
    }
}

/// Returns how many profiles are confirmed, and how many are not, by the metrics.
fn counts(daemon: &Daemon) -> [f64; 2] {
    ["confirmed", "unconfirmed"].map(|state| {
        let sample = format!("hookjail_profiles{{state={state:?}}}");
        value(daemon, &sample)
    })
}

fn output(command: Child) -> Value {
    json(&command.wait_with_output().unwrap())
}

/// Returns the profiles of a status, by whether they are confirmed.
fn profiles(status: &Value, confirmed: bool) -> Vec<&str> {
    let profiles = status["profiles"].as_array().unwrap().iter();
    let of_kind = profiles.filter(|it| (it["confirmed"] == true) == confirmed);
    of_kind.map(|it| it["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_call_under_a_default_profile_is_served_while_others_are_still_tested() {
    let held = Held::start(Vec::new()).await;

    for profile in ["", "strict", "workspace-ro"] {
        let request = pb::ExecuteRequest {
            profile: profile.to_owned(),
            ..writing(&held.daemon, "echo ran")
        };
        let response = held.daemon.run(request).await.unwrap();
        assert_eq!(response.stdout, "ran\n");
        assert!(response.confinement.unwrap().confirmed);
    }

    assert!(!held.is_over());
    assert_eq!(held.counts(), [2.0, 0.0]);
    held.release();
    until("the end of the survey", || held.is_over()).await;
    assert_eq!(held.counts(), [4.0, 2.0]);
}

#[tokio::test]
async fn a_call_under_a_profile_that_is_not_yet_tested_is_confirmed_first_or_refused() {
    let held = Held::start(Vec::new()).await;
    let mut client = held.daemon.client();
    let refused = tokio::spawn(async move { client.execute(sh("a-slow", "true")).await });

    // The survey has not come to this profile: the call has it tested.
    let response = held.daemon.run(sh("pipeline", "echo ran")).await.unwrap();

    let confinement = response.confinement.unwrap();
    assert_eq!(response.stdout, "ran\n");
    assert!(confinement.confirmed && !confinement.unconfined);
    assert!(!held.is_over() && !refused.is_finished());
    assert_eq!(held.daemon.records(), ["started", "ended"]);
    held.release();
    let refusal = refused.await.unwrap().unwrap_err();
    assert_eq!(reason(&refusal), "BACKEND_UNCONFIRMED");
    assert_eq!(held.daemon.records(), ["started", "ended", "refused"]);
}

#[tokio::test]
async fn a_status_waits_for_the_survey_and_says_nothing_of_a_profile_that_is_not_yet_tested() {
    let held = Held::start(Vec::new()).await;

    let status = output(held.begin(&["status", "--json"]));

    // The wait is bounded.
    assert!(!held.is_over());
    assert_eq!(profiles(&status, true), ["strict", "workspace-ro"]);
    assert_eq!(profiles(&status, false), [""; 0]);
    let summary = "serving, 2 profiles confirmed of 6, 4 still to be tested";
    assert_eq!(status["summary"], summary);

    let mut waiting = held.begin(&["status", "--json"]);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(waiting.try_wait().unwrap().is_none());
    held.release();
    let status = output(waiting);

    let confirmed = ["pipeline", "strict", "workspace-ro", "workspace-rw"];
    assert_eq!(profiles(&status, true), confirmed);
    assert_eq!(profiles(&status, false), ["a-slow", "b-slow"]);
    let summary = "serving, 4 profiles confirmed of 6";
    assert_eq!(status["summary"], summary);
}

#[tokio::test]
async fn a_reload_waits_for_the_survey_and_its_numbers_stay() {
    let held = Held::start(Vec::new()).await;
    let config = std::fs::read_to_string(held.config()).unwrap();
    let fewer = config.replace("allow = [", "allow = [\"develop\", ");
    assert_ne!(fewer, config);
    std::fs::write(held.config(), fewer).unwrap();
    let socket = held.daemon.path().join("sock-admin");
    let words = ["reload", "--json", "--connect", socket.to_str().unwrap()];

    let mut reload = held.begin(&words);

    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(reload.try_wait().unwrap().is_none());
    assert_eq!(held.counts(), [2.0, 0.0]);
    held.release();
    let reloaded = output(reload);
    assert_eq!(
        reloaded["unconfirmed"],
        serde_json::json!(["a-slow", "b-slow"])
    );
    assert!(held.is_over());
    assert_eq!(held.counts(), [5.0, 2.0]);
}

#[tokio::test]
async fn the_service_manager_is_told_of_the_begin_and_the_end_of_the_survey() {
    let mut manager = Manager::new();
    let held = Held::start(vec![manager.env()]).await;
    let begun = "STATUS=serving, 2 profiles confirmed of 6, 4 still to be tested";
    manager.hears(&["READY=1", begun]).await;

    held.release();

    let finished = "STATUS=serving, 4 profiles confirmed of 6";
    manager.hears(&[finished]).await;
}

#[tokio::test]
async fn a_daemon_that_ends_during_the_survey_leaves_nothing() {
    let mut held = Held::start(Vec::new()).await;
    let marker = held.daemon.path().join("run").display().to_string();
    until("the runtime", || !processes_with(&marker).is_empty()).await;
    let ending = Instant::now();

    terminate(&held.daemon);

    let status = exit_status(&mut held.daemon).await;
    assert!(status.success(), "{status:?} {}", held.daemon.log());
    assert!(ending.elapsed() < Duration::from_secs(10));
    until("the end of the runtime", || {
        processes_with(&marker).is_empty()
    })
    .await;
    let left = std::fs::read_dir(&marker).unwrap();
    let names: Vec<_> = left.map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names, ["lock"], "{}", held.daemon.log());
}

#[tokio::test]
async fn where_no_default_profile_is_confirmed_all_others_are_tested_before_the_daemon_listens() {
    let runtime = directory();
    let program = runtime.path().join("crun");
    install(Path::new("/bin/false"), &program);
    let daemon = Daemon::with(Setup {
        config: format!(
            "{LISTENER}[container]\nruntime = {program:?}\n[backends.profiles]\nstrict = [\"container\"]\nworkspace-ro = [\"container\"]\n"
        ),
        is_early: true,
        profiles: vec![("open".to_owned(), demanding_nothing())],
        ..Setup::default()
    })
    .await;

    let [confirmed, unconfirmed] = counts(&daemon);

    assert!(confirmed >= 1.0 && unconfirmed >= 2.0, "{}", daemon.log());
    assert_eq!(confirmed + unconfirmed, 5.0);
    daemon.run(sh("open", "true")).await.unwrap();
    let refusal = daemon.run(sh("", "true")).await.unwrap_err();
    assert_eq!(reason(&refusal), "BACKEND_UNCONFIRMED");
}
