//! docker-agent's `worktree_create`: a new working tree is prepared from the one it was made of.

use std::{
    fs,
    io::Write,
    net::TcpListener,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Output, Stdio},
    thread,
};

use hookjail::pb::{self, dispatched_hook::End};
use serde_json::json;

use crate::{
    support::{Daemon, Setup, dispatch_at, sh},
    witness::{CommandLine, hookjail},
};

/// Command of an agent's file for a new working tree.
const COPY: &str = r#"SRC=$(sed 's/.*"worktree_source_dir":"\([^"]*\)".*/\1/'); [ -f "$SRC/.env" ] && cp "$SRC/.env" .env; true"#;

/// A source and a working tree, both where workspaces may lie.
struct Trees {
    source: PathBuf,
    tree: PathBuf,
}

impl Trees {
    fn below(root: &Path) -> Self {
        let trees = Self {
            source: root.join("source"),
            tree: root.join("tree"),
        };
        for directory in [&trees.source, &trees.tree] {
            fs::create_dir(directory).unwrap();
            fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
        }
        for name in [".env", "other"] {
            fs::write(trees.source.join(name), "KEY=1\n").unwrap();
        }
        trees
    }

    /// Returns the event of the new tree, as the runtime sends it.
    fn made(&self) -> pb::DispatchRequest {
        let event = json!({
            "worktree_path": self.tree,
            "worktree_branch": "b",
            "worktree_source_dir": self.source,
        });
        pb::DispatchRequest {
            contract: pb::Contract::DockerAgent.into(),
            cwd: self.tree.display().to_string(),
            workspace: self.tree.display().to_string(),
            ..dispatch_at("worktree_create", &event)
        }
    }

    fn copied(&self) -> Option<String> {
        fs::read_to_string(self.tree.join(".env")).ok()
    }
}

/// Runs all hooks that are due, in the new tree.
async fn dispatch(daemon: &Daemon, request: pb::DispatchRequest) -> pb::DispatchResponse {
    let response = daemon.client().dispatch(request).await;
    response.unwrap().into_inner()
}

/// Returns the configuration of an agent's file whose one hook at the point is this line, under a profile that a rule grants.
fn agent(directory: &Path, line: &str, rule: &str) -> String {
    let path = directory.join("agent.yaml");
    let hook = json!({"type": "command", "command": line, "timeout": 600});
    let file = json!({"agents": {"root": {"hooks": {"worktree_create": [hook]}}}});
    fs::write(&path, file.to_string()).unwrap();
    let rule = match rule {
        "" => String::new(),
        profile => {
            format!("[[hooks_file.rule]]\npoint = \"worktree_create\"\nprofile = {profile:?}\n")
        }
    };
    format!("[[hooks_file]]\ncontract = \"docker_agent\"\npath = {path:?}\n{rule}")
}

#[tokio::test]
async fn the_env_of_a_source_is_copied_under_a_profile_that_a_rule_grants() {
    for (rule, contract, copied) in [
        ("worktree", pb::Contract::DockerAgent, true),
        // The contract is then that of the hooks that are due.
        ("worktree", pb::Contract::Unspecified, true),
        ("workspace-rw", pb::Contract::DockerAgent, false),
        ("", pb::Contract::DockerAgent, false),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let daemon = Daemon::with_hooks(&agent(directory.path(), COPY, rule)).await;
        let trees = Trees::below(&daemon.workspace());
        let request = pb::DispatchRequest {
            contract: contract.into(),
            ..trees.made()
        };

        let response = dispatch(&daemon, request).await;

        let copied = copied.then(|| "KEY=1\n".to_owned());
        assert_eq!(trees.copied(), copied, "{rule}, {contract:?}: {response:?}");
    }
}

/// Types a dispatch at the point in a directory, with an event on stdin.
#[expect(
    clippy::disallowed_methods,
    reason = "the test starts the command line itself, never a hook"
)]
fn typed(config: &Path, directory: &Path, event: &serde_json::Value, words: &[&str]) -> Output {
    let words = [&["dispatch", "--point", "worktree_create"], words].concat();
    let mut command = hookjail(config, &words);
    command.current_dir(directory).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(event.to_string().as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap()
}

#[tokio::test]
async fn a_typed_dispatch_works_in_the_tree_of_its_event_wherever_it_is_typed() {
    let directory = tempfile::tempdir().unwrap();
    let line = "echo x >made; test -f made";
    let daemon = Daemon::with_hooks(&agent(directory.path(), line, "workspace-rw")).await;
    let trees = Trees::below(&daemon.workspace());
    let (config, socket) = (
        daemon.path().join("hookjail.toml"),
        daemon.path().join("sock"),
    );
    let by_daemon = ["--connect", socket.to_str().unwrap()];
    let named = [&by_daemon[..], &["--contract", "docker_agent"]].concat();
    let hook = format!("worktree_create={line}");
    let private = ["--private", "--contract", "docker_agent", "--hook", &hook];
    let private = [&private[..], &["--profile", "workspace-rw"]].concat();
    let alone = CommandLine::new();
    let alone = alone.path().join("hookjail.toml");
    let event_with_tree = json!({"cwd": trees.tree, "worktree_source_dir": trees.source});
    let elsewhere = [Path::new("/"), &trees.source];
    // An event without a tree, and a person who names another one, lead elsewhere.
    let event_without_tree = json!({"worktree_source_dir": trees.source});
    let empty = json!({"cwd": ""});
    let by_name = [&by_daemon[..], &["--workspace", "."]].concat();
    for (config, words) in [
        (&config, &by_daemon[..]),
        (&config, &named),
        (&alone, &private),
    ] {
        for directory in elsewhere {
            let output = typed(config, directory, &event_with_tree, words);
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            assert!(!trees.source.join("made").exists(), "{words:?}: {output:?}");
            fs::remove_file(trees.tree.join("made")).expect("a file in the tree");
        }
    }
    for (event, words) in [
        (&event_without_tree, &by_daemon[..]),
        (&empty, &by_daemon),
        (&event_with_tree, &by_name),
    ] {
        let output = typed(&config, &trees.source, event, words);
        assert!(!trees.tree.join("made").exists(), "{words:?}: {output:?}");
        fs::remove_file(trees.source.join("made")).expect("a file in the source");
    }
    // A tree that no caller may bind is none, and no other takes its place.
    let absent = json!({"cwd": trees.tree.join("absent")});
    let output = typed(&config, &trees.source, &absent, &by_daemon);
    assert!(!trees.source.join("made").exists(), "{output:?}");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("--workspace DIR"), "{output:?}");
}

#[tokio::test]
async fn a_request_cannot_give_itself_what_a_source_keeps() {
    let daemon = Daemon::offering(&["worktree"]).await;
    let trees = Trees::below(&daemon.workspace());
    let mut request = sh("worktree", "cp ../source/.env .env");
    let hook = request.hook.as_mut().unwrap();
    hook.source = trees.source.display().to_string();
    hook.workspace = trees.tree.display().to_string();

    let refused = daemon.run(request).await.unwrap_err();

    assert_eq!(crate::support::reason(&refused), "NOT_ALLOWLISTED");
    assert_eq!(trees.copied(), None);
}

#[tokio::test]
async fn of_a_source_nothing_else_is_read_and_nothing_written() {
    let directory = tempfile::tempdir().unwrap();
    let line = "S=../source; cp $S/.env a; cp $S/other b; echo x >>$S/.env; touch $S/made; true";
    let daemon = Daemon::with_hooks(&agent(directory.path(), line, "worktree")).await;
    let trees = Trees::below(&daemon.workspace());
    let env = trees.source.join(".env");
    for path in [&env, &trees.source.join("other")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
    }

    let response = dispatch(&daemon, trees.made()).await;

    let in_tree = |name: &str| trees.tree.join(name).exists();
    assert_eq!((in_tree("a"), in_tree("b")), (true, false), "{response:?}");
    assert_eq!(fs::read_to_string(env).unwrap(), "KEY=1\n");
    assert!(!trees.source.join("made").exists());
}

#[tokio::test]
async fn a_source_elsewhere_is_refused_where_a_request_names_it_and_left_alone_where_an_event_does()
{
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::with_hooks(&agent(directory.path(), COPY, "worktree")).await;
    let trees = Trees::below(&daemon.workspace());
    let outside = Trees {
        source: daemon.outside("source"),
        ..trees
    };
    fs::create_dir(&outside.source).unwrap();
    fs::write(outside.source.join(".env"), "KEY=2\n").unwrap();

    let by_event = dispatch(&daemon, outside.made()).await;
    let named = pb::DispatchRequest {
        source: outside.source.display().to_string(),
        ..outside.made()
    };
    let by_name = dispatch(&daemon, named).await;

    assert!(
        matches!(by_event.hooks[0].end, Some(End::Ran(_))),
        "{by_event:?}"
    );
    let Some(End::Refused(refusal)) = &by_name.hooks[0].end else {
        panic!("{by_name:?}")
    };
    assert!(refusal.message.contains("`hook.source`"), "{refusal:?}");
    assert_eq!(refusal.reason, "INVALID_REQUEST");
    assert_eq!(outside.copied(), None);
}

#[tokio::test]
async fn a_link_in_the_place_of_a_sources_env_leads_nowhere() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::with_hooks(&agent(directory.path(), COPY, "worktree")).await;
    let trees = Trees::below(&daemon.workspace());
    let secret = daemon.outside("secret");
    fs::write(&secret, "KEY=3\n").unwrap();
    let env = trees.source.join(".env");
    fs::remove_file(&env).unwrap();
    symlink(&secret, &env).unwrap();

    let response = dispatch(&daemon, trees.made()).await;

    let Some(End::Refused(refusal)) = &response.hooks[0].end else {
        panic!("{response:?}")
    };
    assert_eq!(refusal.reason, "GRANT_MISSING");
    assert_eq!(trees.copied(), None);
}

#[tokio::test]
async fn what_an_operator_puts_together_of_parts_installs_and_copies() {
    let profile = "description = \"Installs, and the source's .env\"\n\
                   extends = [\"develop-online\", \"source-env\"]\ngranted_by = \"operator\"\n";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Fetches, and writes into the tree, as a package manager does.
    let install = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port} && mkdir node_modules && cat <&3 >node_modules/package"
    );
    let line = format!("{COPY}; bash -c '{install}' || {{ echo failed >&2; exit 2; }}");
    let serve = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        client.write_all(b"fetched").unwrap();
    });
    let directory = tempfile::tempdir().unwrap();
    let setup = Setup {
        config: agent(directory.path(), &line, "prepare"),
        profiles: vec![("prepare".to_owned(), profile.to_owned())],
        ..Setup::default()
    };
    let daemon = Daemon::with(setup).await;
    let trees = Trees::below(&daemon.workspace());

    let response = dispatch(&daemon, trees.made()).await;

    let Some(End::Ran(ran)) = &response.hooks[0].end else {
        panic!("{response:?}")
    };
    assert_eq!(ran.outcome.unwrap().exit_code, Some(0), "{ran:?}");
    serve.join().unwrap();
    let package = fs::read_to_string(trees.tree.join("node_modules/package"));
    assert_eq!(package.unwrap(), "fetched");
    assert_eq!(trees.copied().as_deref(), Some("KEY=1\n"));
}

#[tokio::test]
async fn an_install_fails_without_network_and_what_it_says_to_the_user_is_not_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let line = format!(
        "bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}' || {{ echo '{{\"system_message\":\"the install failed\"}}'; exit 2; }}"
    );
    for (rule, decision) in [
        ("workspace-rw", pb::Decision::Block),
        ("develop-online", pb::Decision::None),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let daemon = Daemon::with_hooks(&agent(directory.path(), &line, rule)).await;
        let trees = Trees::below(&daemon.workspace());

        let response = dispatch(&daemon, trees.made()).await;

        let answer = response.answer.unwrap();
        let expected_message = (decision == pb::Decision::Block).then_some("the install failed");
        assert_eq!(
            (answer.decision(), &*answer.system_message),
            (decision, expected_message.unwrap_or_default()),
            "{rule}: {:?}",
            response.hooks
        );
    }
}
