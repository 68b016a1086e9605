//! An operator changes the configuration of a running daemon, or drains it.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start the command line itself, never a hook"
)]

use std::{fs, os::unix::fs::PermissionsExt, process::Output};

use hookjail::pb::{
    self, OutcomeKind, admin_service_client::AdminServiceClient,
    sandbox_service_client::SandboxServiceClient,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use tonic::Code;

use crate::{
    metrics::value,
    operate::status,
    support::{Daemon, SHIPPED, Setup, dispatch_at, hook, reached, reason, sh},
    witness::{
        NOBODY, a_hooks_uid, a_minute, ask_as, end, hookjail, json, processes_with, until, writing,
    },
};

/// A profile of the operator's, as the shipped `strict` but for its name.
const MODEST: &str = "extends = \"strict\"\ndescription = \"Modest.\"\n";

/// A hook at a lifecycle point.
const GREETING: &str = "[[hook]]\ncontract = \"reyn\"\nmode = \"shell_exec\"\npoint = \"turn_end\"\nname = \"greeting\"\n\
                        command = [\"/bin/echo\", \"hello\"]\n";

fn command(daemon: &Daemon, words: &[&str]) -> Output {
    let mut command = hookjail(&daemon.path().join("hookjail.toml"), words);
    command.env("HOME", daemon.path()).output().unwrap()
}

pub(crate) fn reload(daemon: &Daemon) -> Value {
    let socket = daemon.path().join("sock-admin");
    let words = ["reload", "--json", "--connect", socket.to_str().unwrap()];
    json(&command(daemon, &words))
}

/// Adds to the configuration of a daemon.
fn configure(daemon: &Daemon, text: &str) {
    let file = daemon.path().join("hookjail.toml");
    let before = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{before}\n{text}")).unwrap();
}

fn modest() -> pb::ExecuteRequest {
    pb::ExecuteRequest {
        profile: "modest".to_owned(),
        ..hook(["/bin/true"])
    }
}

/// Applies the fix of a refusal: its lines, in its file of the configuration.
fn follow(refusal: &tonic::Status) {
    use tonic_types::StatusExt;
    let facts = refusal
        .get_error_details()
        .error_info()
        .unwrap()
        .metadata
        .clone();
    let (file, lines) = (&facts["configuration"], &facts["configure"]);
    let (table, key) = lines.split_once('\n').unwrap();
    let before = fs::read_to_string(file).unwrap();
    // The table exists already, and so does its key: the lines of the fix replace it.
    let name = key.split_once(' ').unwrap().0;
    let kept = before.lines().filter(|line| !line.starts_with(name));
    let kept: Vec<_> = kept.collect();
    let after = kept.join("\n").replacen(table, lines, 1);
    assert_ne!(after, before);
    fs::write(file, after).unwrap();
}

async fn due(daemon: &Daemon) -> Vec<String> {
    let response = daemon.dispatch(dispatch_at("turn_end", &json!({}))).await;
    let names = reached(&response);
    names.into_iter().map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn a_reload_puts_profiles_and_hooks_in_force_that_were_not_there_before() {
    let daemon = Daemon::offering(&SHIPPED).await;
    let refusal = daemon.run(modest()).await.unwrap_err();
    assert_eq!(reason(&refusal), "PROFILE_UNKNOWN");
    assert_eq!(due(&daemon).await, [""; 0]);
    fs::write(daemon.path().join("profiles/modest.toml"), MODEST).unwrap();
    configure(&daemon, GREETING);
    assert_eq!(due(&daemon).await, [""; 0]);

    let reloaded = reload(&daemon);

    assert_eq!(reloaded["hooks"], 1, "{reloaded}");
    let profiles = reloaded["profiles"].as_array().unwrap();
    assert!(profiles.contains(&json!("modest")) && profiles.contains(&json!("strict")));
    assert_eq!(reloaded.get("unconfirmed"), None, "{reloaded}");
    daemon.run(modest()).await.unwrap();
    assert_eq!(due(&daemon).await, ["greeting"]);
    // And removes hooks that the file does not have any more.
    fs::remove_file(daemon.path().join("profiles/modest.toml")).unwrap();
    let file = daemon.path().join("hookjail.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("[hooks]", "[hooks]\ndisabled = true")).unwrap();
    assert_eq!(reload(&daemon).get("hooks"), None);
    assert_eq!(
        reason(&daemon.run(modest()).await.unwrap_err()),
        "PROFILE_UNKNOWN"
    );
    assert_eq!(due(&daemon).await, [""; 0]);
}

#[tokio::test]
async fn a_workspace_is_taken_once_the_lines_that_its_refusal_names_are_in_the_file_that_it_names()
{
    let daemon = Daemon::start().await;
    let elsewhere = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir();
    let elsewhere = elsewhere.unwrap();
    let request = || {
        let mut request = hook(["/bin/true"]);
        let path = elsewhere.path().canonicalize().unwrap();
        request.hook.get_or_insert_default().workspace = path.display().to_string();
        request
    };
    let refusal = daemon.run(request()).await.unwrap_err();
    assert_eq!(reason(&refusal), "INVALID_REQUEST");

    follow(&refusal);
    reload(&daemon);

    assert!(daemon.run(request()).await.is_ok());
}

#[tokio::test]
async fn a_reload_of_anything_broken_is_refused_and_changes_nothing() {
    let daemon = Daemon::with(Setup {
        config: GREETING.to_owned(),
        profiles: vec![("modest".to_owned(), MODEST.to_owned())],
        ..Setup::default()
    })
    .await;
    let hooks_file = daemon.path().join("hooks.yaml");
    fs::write(&hooks_file, "hooks: [").unwrap();
    fs::set_permissions(&hooks_file, fs::Permissions::from_mode(0o600)).unwrap();
    let names_it = format!("[[hooks_file]]\ncontract = \"reyn\"\npath = {hooks_file:?}\n");
    let greeting = GREETING.replace("greeting", "another");
    let (config, profile) = ("hookjail.toml", "profiles/modest.toml");
    let list = "state/allowlist.json";
    let before = |file: &str| fs::read_to_string(daemon.path().join(file)).unwrap_or_default();
    let [good, good_list] = [config, list].map(before);
    let with = |text: &str| format!("{good}\n{text}");
    for (file, text, named) in [
        (config, with("[[hook]]\ncommand = 7"), "hook[1].command"),
        (config, with("nonsense"), "hookjail.toml"),
        (config, with(&names_it), "hooks.yaml"),
        (
            config,
            good.replace("[hooks]", "[hooks]\nspawners = 7"),
            "hooks.spawners",
        ),
        (config, good.replace("/sock\"", "/other\""), "server.socket"),
        (profile, "extends = \"nobody\"".to_owned(), "modest"),
        (profile, format!("{MODEST}surprise = 1\n"), "surprise"),
        (list, "{".to_owned(), "allowlist.json"),
    ] {
        // A valid change beside a broken one takes no effect either.
        fs::write(daemon.path().join(config), with(&greeting)).unwrap();
        let path = daemon.path().join(file);
        fs::write(&path, &text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();

        let error = &reload(&daemon)["error"];

        let message = error["message"].as_str().unwrap_or_default();
        assert!(message.contains(named), "{file} {text}: {error}");
        assert_eq!(error["reason"], "RELOAD_REFUSED", "{file} {text}: {error}");
        let restored = [
            (config, &good),
            (profile, &MODEST.to_owned()),
            (list, &good_list),
        ];
        for (file, text) in restored {
            fs::write(daemon.path().join(file), text).unwrap();
        }
        fs::remove_file(daemon.path().join(list)).unwrap();
        daemon.run(modest()).await.unwrap();
        assert_eq!(due(&daemon).await, ["greeting"], "{file} {text}");
    }
    assert!(daemon.log().contains("reload refused"), "{}", daemon.log());
}

#[tokio::test]
async fn a_reload_of_a_broken_file_is_refused_by_the_daemon_which_says_so_from_then_on() {
    const SUCCESSFUL: &str = "hookjail_last_reload_successful";
    const FAILURES: &str = "hookjail_reload_failures_total";
    let config = format!("[metrics]\nlisten = \"127.0.0.1:0\"\n{GREETING}");
    let daemon = Daemon::with(Setup {
        config,
        ..Setup::default()
    })
    .await;
    let file = daemon.path().join("hookjail.toml");
    let good = fs::read_to_string(&file).unwrap();
    let counted = || [SUCCESSFUL, FAILURES].map(|name| value(&daemon, name));
    // The daemon is found by the file alone.
    assert!(command(&daemon, &["reload"]).status.success());
    assert_eq!(counted(), [1.0, 0.0]);
    for (failures, text, named) in [
        (
            1.0,
            format!("{good}\n[[hook]]\ncommand = 7"),
            "hook[1].command",
        ),
        (2.0, format!("nonsense\n{good}"), "nonsense"),
    ] {
        fs::write(&file, text).unwrap();

        let output = command(&daemon, &["reload"]);

        assert_eq!(output.status.code(), Some(125), "{output:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(named), "{stderr}");
        assert!(
            stderr.contains("the configuration in force stays"),
            "{stderr}"
        );
        assert_eq!(counted(), [0.0, failures]);
        let (code, report) = status(&daemon);
        assert_eq!(code, Some(0), "{report}");
        let refusal = report["configuration"]["refusal"].as_str().unwrap();
        assert!(refusal.contains(named), "{report}");
        assert_eq!(due(&daemon).await, ["greeting"]);
    }
    fs::write(&file, good).unwrap();
    assert!(command(&daemon, &["reload"]).status.success());
    assert_eq!(counted(), [1.0, 2.0]);
    assert_eq!(status(&daemon).1["configuration"]["refused"], json!(null));
}

#[tokio::test]
async fn a_reload_says_what_is_broken_where_no_daemon_of_that_file_hears_it() {
    let daemon = Daemon::start().await;
    let file = daemon.path().join("hookjail.toml");
    let good = fs::read_to_string(&file).unwrap();
    let broken = daemon.path().join("broken.toml");
    let reload = |text: String| {
        fs::write(&broken, text).unwrap();
        fs::set_permissions(&broken, fs::Permissions::from_mode(0o600)).unwrap();
        let mut command = hookjail(&broken, &["reload"]);
        let output = command.env("HOME", daemon.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    // No daemon is there.
    let stderr = reload(good.replace("/sock\"", "/nobody\"") + "\nnonsense");
    assert!(
        stderr.contains("broken.toml") && stderr.contains("nonsense"),
        "{stderr}"
    );
    // A daemon is there, with another file.
    let stderr = reload(format!("{good}\nnonsense"));
    assert!(
        stderr.contains("broken.toml") && stderr.contains("nonsense"),
        "{stderr}"
    );
    assert!(stderr.contains("another configuration"), "{stderr}");
}

#[tokio::test]
async fn a_hangup_reloads_and_proves_every_profile_anew() {
    let daemon = Daemon::start().await;
    let tested = async || {
        let mut client = SandboxServiceClient::new(daemon.channel());
        let status = client.get_status(pb::GetStatusRequest {}).await;
        let status = status.unwrap().into_inner();
        let times = status.profiles.iter();
        let times = times.map(|profile| profile.tested_at.unwrap());
        times.collect::<Vec<_>>()
    };
    let before = tested().await;
    assert_eq!(tested().await, before);
    configure(&daemon, GREETING);

    let pid = Pid::from_raw(i32::try_from(daemon.pid()).unwrap());
    kill(pid, Signal::SIGHUP).unwrap();

    until("the reload", || daemon.log().contains("reloaded")).await;
    assert_eq!(due(&daemon).await, ["greeting"]);
    let after = tested().await;
    let unchanged = before.iter().zip(&after).filter(|(old, new)| old == new);
    assert_eq!(unchanged.count(), 0, "{before:?} {after:?}");
}

#[tokio::test]
async fn a_secret_that_is_registered_by_a_reload_is_taken_out_from_then_on() {
    let daemon = Daemon::start().await;
    let file = daemon.path().join("secret");
    fs::write(&file, "a-secret-of-mine").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let request = || hook(["/bin/echo", "a-secret-of-mine"]);
    daemon.run(request()).await.unwrap();
    assert_eq!(
        daemon.journal()[0]["command"]["argv"][1],
        "a-secret-of-mine"
    );
    configure(
        &daemon,
        &format!("[[secret]]\nname = \"mine\"\nfile = {file:?}\n"),
    );

    reload(&daemon);

    daemon.run(request()).await.unwrap();
    assert_eq!(daemon.journal()[2]["command"]["argv"][1], "[redacted:mine]");
}

#[tokio::test]
async fn a_run_goes_on_under_the_profile_it_began_with() {
    let daemon = Daemon::with(Setup {
        profiles: vec![("modest".to_owned(), MODEST.to_owned())],
        ..Setup::default()
    })
    .await;
    let script = "echo >begun; until test -e go; do sleep 0.02; done; echo over";
    let request = writing(&daemon, script);
    let workspace = daemon.workspace();
    let mut client = daemon.client();
    let call = tokio::spawn(async move { client.execute(request).await });
    until("the hook's begin", || workspace.join("begun").exists()).await;

    reload(&daemon);

    fs::write(workspace.join("go"), "").unwrap();
    let response = call.await.unwrap().unwrap().into_inner();
    assert_eq!(end(&response), (OutcomeKind::Exited, Some(0), None));
}

#[tokio::test]
async fn a_drain_lets_running_hooks_end_within_the_time_it_gives_and_ends_the_daemon() {
    let mut daemon = Daemon::start().await;
    let marker = a_minute();
    let script = format!("echo >begun; sleep {marker}");
    let request = writing(&daemon, &script);
    let workspace = daemon.workspace();
    let mut client = daemon.client();
    let call = tokio::spawn(async move { client.execute(request).await });
    until("the hook's begin", || workspace.join("begun").exists()).await;

    let answer = json(&command(&daemon, &["drain", "--within", "0s", "--json"]));

    assert_eq!(answer, json!({"running": 1}));
    let response = call.await.unwrap().unwrap().into_inner();
    assert_eq!(end(&response).0, OutcomeKind::Canceled);
    assert_eq!(processes_with(&marker), [""; 0]);
    let mut status = None;
    until("the daemon's end", || {
        status = daemon.child().try_wait().unwrap();
        status.is_some()
    })
    .await;
    assert!(status.unwrap().success(), "{}", daemon.log());
    for socket in ["sock", "sock-admin"] {
        assert!(!daemon.path().join(socket).exists(), "{socket}");
    }
}

#[tokio::test]
async fn a_daemon_is_steered_at_the_admin_socket_alone_which_is_its_own_users() {
    let daemon = Daemon::start().await;
    let mut elsewhere = AdminServiceClient::new(daemon.channel());
    let status = elsewhere.reload(pb::ReloadRequest {}).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    let drained = elsewhere
        .drain(pb::DrainRequest::default())
        .await
        .unwrap_err();
    assert_eq!(drained.code(), Code::Unimplemented);
    // One that answers has made both sockets.
    let mode = fs::metadata(daemon.path().join("sock-admin"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(reload(&daemon).get("error").is_none());
}

mod as_root {
    use super::*;
    use crate::support::needs_root;

    #[tokio::test]
    #[ignore = "needs root"]
    async fn nobody_but_the_daemons_own_user_steers_it() {
        needs_root();
        let (a_hooks, config) = a_hooks_uid();
        let daemon = Daemon::with(Setup {
            config,
            ..Setup::default()
        })
        .await;
        // One that answers has made both sockets.
        daemon.run(sh("strict", "exit 0")).await.unwrap();
        for (user, expected) in [(NOBODY, "PEER_NOT_ALLOWED"), (a_hooks, "CALLER_IS_A_HOOK")] {
            for command in ["reload", "drain"] {
                let output = ask_as(user, &daemon, "sock-admin", command, &[]);
                assert_eq!(json(&output)["error"]["reason"], expected, "{output:?}");
            }
        }
        daemon.run(sh("strict", "exit 0")).await.unwrap();
    }
}
