//! docker-agent's built-in hooks run in the daemon, beside commands and with answers like theirs.

use std::{
    fs::{self, File},
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
};

use hookjail::pb::{self, dispatched_hook::End};
use serde_json::{Value, json};

use crate::{
    support::{self, Daemon, Setup, directory, dispatch_at, hook, reason},
    witness::{NOBODY, ask_as, until},
};

async fn dispatch(daemon: &Daemon, point: &str, event: &Value) -> pb::DispatchResponse {
    let request = pb::DispatchRequest {
        timestamp: Some(prost_types::Timestamp {
            seconds: 1_700_000_000,
            nanos: 0,
        }),
        ..dispatch_at(point, event)
    };
    daemon.dispatch(request).await
}

/// Returns for each hook whether it was served in the daemon.
fn in_process(response: &pb::DispatchResponse) -> Vec<(&str, bool)> {
    let hooks = response.hooks.iter();
    hooks
        .map(|hook| (&*hook.name, matches!(hook.end, Some(End::InProcess(true)))))
        .collect()
}

#[tokio::test]
async fn built_ins_and_commands_come_to_one_answer() {
    let hooks = r#"
[[hook]]
name = "date"
contract = "docker_agent"
point = "turn_start"
builtin = "add_date"
[[hook]]
name = "notes"
contract = "docker_agent"
point = "turn_start"
command = "echo 'Mind the notes.'"
[[hook]]
name = "safer"
contract = "docker_agent"
point = "pre_tool_use"
builtin = "safer_shell"
[[hook]]
name = "approve"
contract = "docker_agent"
point = "pre_tool_use"
command = "echo '{\"hook_specific_output\":{\"permission_decision\":\"allow\"}}'"
"#;
    let daemon = Daemon::with_hooks(hooks).await;

    let turn = dispatch(&daemon, "turn_start", &json!({})).await;
    let call = |cmd: &str| json!({"tool_name": "shell", "tool_input": {"cmd": cmd}});
    let risky = dispatch(&daemon, "pre_tool_use", &call("git reset --hard")).await;
    let harmless = dispatch(&daemon, "pre_tool_use", &call("git status")).await;

    assert_eq!(in_process(&turn), [("date", true), ("notes", false)]);
    assert_eq!(
        turn.answer.unwrap().additional_context,
        ["Today's date: 2023-11-14\nMind the notes."]
    );
    assert_eq!(in_process(&risky), [("safer", true), ("approve", false)]);
    let answer = risky.answer.unwrap();
    assert_eq!(
        (answer.decision(), &*answer.reason),
        (
            pb::Decision::Ask,
            "Command matches destructive operation: git reset --hard"
        )
    );
    let metadata: Value = serde_json::from_str(answer.metadata_json.as_deref().unwrap()).unwrap();
    assert_eq!(
        (&metadata["blast_radius"], &metadata["category"]),
        (&json!("high"), &json!("git-discard"))
    );
    assert_eq!(harmless.answer.unwrap().decision(), pb::Decision::Allow);
    // Hooks that start nothing are not recorded; each command is.
    assert_eq!(daemon.records(), ["started", "ended"].repeat(3));
}

#[tokio::test]
async fn a_secret_is_gone_for_every_hook_behind_the_one_that_takes_it_out() {
    let hooks = r#"
[[hook]]
name = "redact"
contract = "docker_agent"
point = "tool_response_transform"
builtin = "redact_secrets"
[[hook]]
name = "limit"
contract = "docker_agent"
point = "tool_response_transform"
builtin = "limit_large_tool_results"
[[hook]]
name = "redact input"
contract = "docker_agent"
point = "pre_tool_use"
builtin = "redact_secrets"
[[hook]]
name = "look"
contract = "docker_agent"
point = "pre_tool_use"
command = "cat >&2"
"#;
    let daemon = Daemon::with_hooks(hooks).await;
    let key = format!("ghp_{}", "x".repeat(36));

    let response = format!("{}\n{key}\n", "line\n".repeat(2000));
    let event = json!({"tool_name": "shell", "tool_response": response});
    let output = dispatch(&daemon, "tool_response_transform", &event).await;
    let input = format!(r#"{{"tool_name":"t","tool_input":{{"n":1e999,"token":"{key}"}}}}"#);
    // Written as text: no value of Rust's has such a number.
    let event = pb::Event {
        json: input.into(),
        point: "pre_tool_use".to_owned(),
        raw: false,
    };
    let input = pb::DispatchRequest {
        event: Some(event),
        ..pb::DispatchRequest::default()
    };
    let input = daemon.dispatch(input).await;

    assert_eq!(in_process(&output), [("redact", true), ("limit", true)]);
    let text = output.answer.unwrap().updated_output_json.unwrap();
    let text: String = serde_json::from_str(&text).unwrap();
    assert!(text.starts_with("Tool call result was too large (10012 bytes in 2002 lines,"));
    assert!(
        text.ends_with("line\n\n[REDACTED]\n"),
        "{}",
        &text[text.len() - 99..]
    );
    let Some(End::Ran(look)) = &input.hooks[1].end else {
        panic!("{:?}", input.hooks[1])
    };
    let seen = String::from_utf8_lossy(&look.stderr);
    assert!(
        seen.contains(r#""tool_input":{"n":1e999,"token":"[REDACTED]"}"#),
        "{seen}"
    );
    let answer = input.answer.unwrap();
    assert_eq!(
        answer.updated_input_json.as_deref(),
        Some(r#"{"token":"[REDACTED]"}"#)
    );
}

#[tokio::test]
async fn a_built_in_that_stops_is_named_and_listed() {
    let hooks = r#"
[[hook]]
name = "redact"
contract = "docker_agent"
point = "pre_tool_use"
builtin = "redact_secrets"
[[hook]]
name = "cap"
contract = "docker_agent"
point = "before_llm_call"
builtin = "max_iterations"
args = ["2"]
"#;
    let daemon = Daemon::with_hooks(hooks).await;

    let third = dispatch(&daemon, "before_llm_call", &json!({"iteration": 3})).await;

    assert_eq!(third.blocked_by_hook, "cap");
    assert_eq!(third.answer.unwrap().decision(), pb::Decision::Block);
    let mut client = daemon.client();
    let listed = client.list_hooks(pb::ListHooksRequest::default()).await;
    let listed = listed.unwrap().into_inner().hooks;
    let commands: Vec<_> = listed.iter().map(|hook| &*hook.command).collect();
    assert_eq!(
        commands,
        ["builtin: redact_secrets", "builtin: max_iterations 2"]
    );
    assert_eq!(daemon.records(), Vec::<String>::new());
}

#[tokio::test]
async fn a_toolsets_flag_has_shell_commands_asked_about_in_the_stage_before_the_others() {
    let directory = support::directory();
    let file = directory.path().join("agent.yaml");
    fs::write(
        &file,
        "agents:\n  root:\n    toolsets: [{type: shell, safer: true}]\n",
    )
    .unwrap();
    let hooks = format!("[[hooks_file]]\ncontract = \"docker_agent\"\npath = {file:?}\n");
    let daemon = Daemon::with_hooks(&hooks).await;
    let event = json!({"tool_name": "shell", "tool_input": {"cmd": "rm -rf x"}});
    let before = pb::DispatchRequest {
        stage: pb::DispatchStage::Preempt.into(),
        ..dispatch_at("pre_tool_use", &event)
    };

    let before = daemon.dispatch(before).await;
    let after = daemon.dispatch(dispatch_at("pre_tool_use", &event)).await;

    assert_eq!(in_process(&before), [("safer", true)]);
    assert_eq!(before.answer.unwrap().decision(), pb::Decision::Ask);
    assert_eq!(after.hooks, []);
}

/// Returns the configuration of an agent's file in which a model judges calls of the shell, with these lines of the operator's.
fn judged(directory: &Path, lines: &str) -> String {
    let path = directory.join("agent.yaml");
    let text = "hooks: {pre_tool_use: [{matcher: shell, hooks: \
                [{type: model, model: small, prompt: Is it safe?, schema: pre_tool_use_decision}]}]}\n";
    fs::write(&path, text).unwrap();
    format!("[[hooks_file]]\ncontract = \"docker_agent\"\npath = {path:?}\n{lines}")
}

#[tokio::test]
async fn a_command_of_the_operators_judges_in_the_place_of_a_model() {
    let script = r#"[ "$HOOK_MODEL $HOOK_PROMPT" = "small Is it safe?" ] || exit 1
if grep -q '"cmd":"rm'; then echo '{"decision":"deny","reason":"it removes"}'; else echo '{"decision":"allow","reason":"it looks"}'; fi"#;
    let judge = |script: &str| format!("judge = [\"/bin/sh\", \"-c\", {script:?}]\n");
    let granted = "[[hooks_file.rule]]\npoint = \"pre_tool_use\"\nprofile = \"network\"\n";
    let chatty = r#"echo 'I think: {"decision":"allow","reason":"fine"}'"#;
    for (lines, cmd, decision, reason) in [
        (judge(script), "ls", pb::Decision::Allow, "it looks"),
        (judge(script), "rm -r x", pb::Decision::Deny, "it removes"),
        (
            judge(script) + granted,
            "ls",
            pb::Decision::Allow,
            "it looks",
        ),
        (judge(chatty), "ls", pb::Decision::Deny, "the hook failed"),
        (judge("exit 3"), "ls", pb::Decision::Deny, "the hook failed"),
        (
            String::new(),
            "ls",
            pb::Decision::Deny,
            "`judge` of the `[[hooks_file]]`",
        ),
    ] {
        let directory = support::directory();
        let daemon = Daemon::with_hooks(&judged(directory.path(), &lines)).await;
        let event = json!({"tool_name": "shell", "tool_input": {"cmd": cmd}});

        let response = dispatch(&daemon, "pre_tool_use", &event).await;

        let answer = response.answer.unwrap();
        assert_eq!(answer.decision(), decision, "{lines}: {:?}", response.hooks);
        assert!(answer.reason.contains(reason), "{lines}: {answer:?}");
        if let Some(End::Ran(ran)) = &response.hooks[0].end {
            let profile = &ran.confinement.as_ref().unwrap().profile;
            assert_eq!(profile == "network", lines.contains("rule"), "{profile}");
        }
    }
}

#[tokio::test]
async fn what_only_looks_on_and_is_the_runtimes_to_run_denies_nothing() {
    let directory = support::directory();
    let path = directory.path().join("agent.yaml");
    let text = "settings: {snapshot: true}\nhooks: {pre_tool_use: [{matcher: '*', hooks: \
                [{type: builtin, command: snapshot}]}], turn_start: [{type: builtin, command: snapshot}]}\n";
    fs::write(&path, text).unwrap();
    let config = format!("[[hooks_file]]\ncontract = \"docker_agent\"\npath = {path:?}\n");
    let daemon = Daemon::with_hooks(&config).await;

    let call = dispatch(&daemon, "pre_tool_use", &json!({"tool_name": "shell"})).await;
    let turn = dispatch(&daemon, "turn_start", &json!({})).await;

    assert_eq!((call.hooks, turn.hooks), (vec![], vec![]));
    let log = daemon.log();
    assert_eq!(
        log.matches("`snapshot` is left to the runtime").count(),
        1,
        "{log}"
    );
}

#[tokio::test]
async fn a_large_result_is_kept_in_its_profiles_cache_until_the_session_ends() {
    let directory = support::directory();
    let home = support::directory();
    let file = directory.path().join("agent.yaml");
    fs::write(&file, "agents:\n  root: {model: m}\n").unwrap();
    let value = directory.path().join("key");
    fs::write(&value, "key-of-the-registry").unwrap();
    fs::set_permissions(&value, fs::Permissions::from_mode(0o600)).unwrap();
    let cached = "description = \"a test's\"\nextends = [\"strict\", \"caches\"]\n";
    let daemon_with = async |profile: &str| {
        let config = format!(
            "[[hooks_file]]\ncontract = \"docker_agent\"\npath = {file:?}\n{profile}[[secret]]\nname = \"key\"\nfile = {value:?}\n"
        );
        let path = home.path().display();
        let variable = |name: &str, value: String| (name.to_owned(), value);
        Daemon::with(Setup {
            config,
            env: vec![
                variable("HOME", path.to_string()),
                variable("XDG_CACHE_HOME", format!("{path}/caches")),
            ],
            profiles: vec![("tool-results".to_owned(), cached.to_owned())],
            ..Setup::default()
        })
        .await
    };
    let response = format!("first key-of-the-registry\n{}", "line\n".repeat(3000));
    let event = json!({"tool_name": "shell", "tool_response": response, "session_id": "one"});
    let cut = async |daemon: &Daemon, without_process: bool| {
        let limited = dispatch(daemon, "tool_response_transform", &event).await;
        let served = [("limit_large_tool_results", without_process)];
        assert_eq!(in_process(&limited), served);
        let answer = limited.answer.unwrap();
        assert_eq!(answer.warnings, [""; 0]);
        let text: String = serde_json::from_str(&answer.updated_output_json.unwrap()).unwrap();
        assert!(text.starts_with("Tool call result was too large"), "{text}");
        text
    };

    let without_cache = daemon_with("").await;
    let daemon = daemon_with("profile = \"tool-results\"\n").await;

    assert!(cut(&without_cache, true).await.contains("is not stored"));
    let text = cut(&daemon, false).await;
    let short = json!({"tool_name": "shell", "tool_response": "x", "session_id": "one"});
    let short = dispatch(&daemon, "tool_response_transform", &short).await;
    assert_eq!(in_process(&short), [("limit_large_tool_results", true)]);
    if nix::unistd::geteuid().is_root() || support::contained() {
        // Such hooks have no cache.
        assert!(text.contains("is not stored"), "{text}");
        return;
    }
    let path = text.split('`').nth(1).unwrap();
    let kept = fs::read_to_string(path).unwrap();
    assert_eq!(
        kept,
        response.replace("key-of-the-registry", "[redacted:key]")
    );
    let mode = fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Hooks under other profiles do not read it.
    let other_file = daemon.workspace().join("beside");
    fs::write(&other_file, "x").unwrap();
    for (file, is_read) in [(path, false), (other_file.to_str().unwrap(), true)] {
        let mut request = support::sh("workspace-ro", &format!("cat '{file}'"));
        request.hook.as_mut().unwrap().workspace = daemon.workspace().display().to_string();
        let read = daemon.run(request).await.unwrap();
        assert_eq!(
            read.outcome.unwrap().exit_code == Some(0),
            is_read,
            "{file}: {read:?}"
        );
    }
    for (session, is_there) in [("other", true), ("one", false)] {
        dispatch(&daemon, "session_end", &json!({"session_id": session})).await;
        assert_eq!(Path::new(path).exists(), is_there, "{session}");
    }
}

/// Runs git as the author of a repository would: outside of any confinement.
#[expect(
    clippy::disallowed_methods,
    reason = "tests make repositories themselves, and never a hook"
)]
fn git<const N: usize>(workspace: &Path, args: [&str; N]) -> String {
    let mut command = Command::new("git");
    command.current_dir(workspace).args(args);
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_PAGER", "cat");
    for name in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{name}_NAME"), "A");
        command.env(format!("GIT_{name}_EMAIL"), "a@example.org");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Makes a repository with one commit and one change since.
fn repository(workspace: &Path) {
    git(workspace, ["init", "--quiet", "--initial-branch=main"]);
    fs::write(workspace.join("file"), "one\n").unwrap();
    git(workspace, ["add", "."]);
    git(
        workspace,
        ["commit", "--quiet", "--message=First \u{1b}[2Jword"],
    );
    fs::write(workspace.join("file"), "two\n").unwrap();
}

/// Gives the last commit an invalid signature.
fn sign(workspace: &Path) {
    let commit = git(workspace, ["cat-file", "commit", "HEAD"]);
    let signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----";
    let signed = commit.replacen("\n\n", &format!("\n{signature}\n\n"), 1);
    let file = workspace.join(".git/signed");
    fs::write(&file, signed).unwrap();
    let file = file.to_str().unwrap();
    let id = git(workspace, ["hash-object", "-t", "commit", "-w", file]);
    git(workspace, ["update-ref", "HEAD", id.trim()]);
}

/// Returns an entry of a configuration for a built-in hook.
fn entry(point: &str, builtin: &str, more: &str) -> String {
    format!(
        "[[hook]]\nname = {builtin:?}\ncontract = \"docker_agent\"\npoint = {point:?}\nbuiltin = {builtin:?}\n{more}\n"
    )
}

fn context(response: pb::DispatchResponse) -> String {
    response.answer.unwrap().additional_context.join("\n")
}

#[tokio::test]
async fn what_git_says_is_told_under_a_heading() {
    let hooks = [
        entry("turn_start", "add_git_status", ""),
        entry("turn_start", "add_git_diff", ""),
        entry("turn_start", "add_git_diff", "args = [\"full\"]"),
        entry("session_start", "add_recent_commits", "args = [\"1\"]"),
    ];
    let daemon = Daemon::with_hooks(&hooks.concat()).await;
    let workspace = daemon.workspace();
    repository(&workspace);
    fs::write(workspace.join("new\n## forged\u{1b}"), "").unwrap();

    let turn = dispatch(&daemon, "turn_start", &json!({})).await;
    let session = dispatch(&daemon, "session_start", &json!({})).await;

    let verdicts: Vec<_> = turn
        .hooks
        .iter()
        .map(|hook| hook.verdict.clone().unwrap())
        .collect();
    let verdicts: Vec<_> = verdicts
        .iter()
        .map(|verdict| &verdict.additional_context[..])
        .collect();
    assert_eq!(
        verdicts[0],
        ["Current git status:\n\n## main\n M file\n?? \"new\\n## forged\\033\""]
    );
    assert_eq!(
        verdicts[1],
        [
            "Current working-tree diff (stat):\n\n file | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)"
        ]
    );
    assert!(verdicts[2][0].starts_with("Current working-tree diff:\n\ndiff --git a/file b/file\n"));
    assert!(
        verdicts[2][0].ends_with("\n-one\n+two"),
        "{:?}",
        verdicts[2]
    );
    let commits = context(session);
    assert!(commits.starts_with("Recent commits:\n\n"), "{commits}");
    assert!(commits.ends_with(" First \\u{1b}[2Jword"), "{commits}");
    let Some(End::Ran(ran)) = &turn.hooks[0].end else {
        panic!("{:?}", turn.hooks[0])
    };
    assert_eq!(ran.confinement.as_ref().unwrap().profile, "strict");
    let mut records = daemon.records();
    records.sort();
    assert_eq!(records, [["ended"; 4], ["started"; 4]].concat());
}

#[tokio::test]
async fn long_output_of_git_is_cut_and_no_repository_is_nothing_to_tell() {
    let daemon = Daemon::with_hooks(&entry("turn_start", "add_git_status", "")).await;
    let workspace = daemon.workspace();

    let nothing = dispatch(&daemon, "turn_start", &json!({})).await;
    git(&workspace, ["init", "--quiet", "--initial-branch=main"]);
    for number in 0..1000 {
        fs::write(workspace.join(format!("file-{number:04}")), "").unwrap();
    }
    let long = dispatch(&daemon, "turn_start", &json!({})).await;

    let answer = nothing.answer.unwrap();
    assert_eq!(
        (answer.additional_context, answer.warnings),
        (vec![], vec![])
    );
    let long = context(long);
    assert!(long.ends_with("\n... (truncated)"), "{long}");
    assert!(long.len() < 4200, "{}", long.len());
}

#[tokio::test]
async fn what_a_repository_configures_is_not_run_when_git_is_asked() {
    // Here git could start processes and write: its options alone keep it from doing so.
    let more = "profile = \"workspace-rw\"";
    let hooks = [
        entry("turn_start", "add_git_status", more),
        entry(
            "turn_start",
            "add_git_diff",
            &format!("args = [\"full\"]\n{more}"),
        ),
        entry("session_start", "add_recent_commits", more),
    ];
    let daemon = Daemon::with_hooks(&hooks.concat()).await;
    let workspace = daemon.workspace();
    repository(&workspace);
    sign(&workspace);
    let marker = workspace.join("marker");
    let script = workspace.join("script");
    fs::write(
        &script,
        format!("#!/bin/sh\necho \"$0 $*\" >> {marker:?}\ncat\n"),
    )
    .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(workspace.join("hooks")).unwrap();
    symlink(&script, workspace.join("hooks/post-index-change")).unwrap();
    fs::write(workspace.join(".gitattributes"), "file diff=own\n").unwrap();
    let script = script.to_str().unwrap();
    for (key, value) in [
        ("core.fsmonitor", script),
        ("core.hooksPath", workspace.join("hooks").to_str().unwrap()),
        ("core.pager", script),
        ("diff.external", script),
        ("diff.own.command", script),
        ("diff.own.textconv", script),
        ("gpg.program", script),
        ("log.showSignature", "true"),
        ("pager.status", "true"),
        ("color.ui", "always"),
    ] {
        git(&workspace, ["config", key, value]);
    }
    fs::set_permissions(workspace.join(".git"), fs::Permissions::from_mode(0o777)).unwrap();
    // The repository's configuration is live: without those options each of these runs the script.
    let runs = |what: &str| assert!(fs::remove_file(&marker).is_ok(), "{what}");
    git(&workspace, ["status", "--short"]);
    runs("monitor");
    git(&workspace, ["-c", "core.fsmonitor=", "diff", "--ext-diff"]);
    runs("external diff");
    git(
        &workspace,
        ["-c", "core.fsmonitor=", "diff", "--no-ext-diff"],
    );
    runs("conversion");
    git(&workspace, ["log", "--oneline"]);
    runs("signature check");

    let turn = dispatch(&daemon, "turn_start", &json!({})).await;
    let session = dispatch(&daemon, "session_start", &json!({})).await;

    assert_eq!(fs::read_to_string(&marker).unwrap_or_default(), "");
    let turn = context(turn);
    assert!(turn.contains("## main\n M file\n"), "{turn}");
    assert!(turn.contains("-one\n+two"), "{turn}");
    assert!(context(session).ends_with(" First \\u{1b}[2Jword"));
}

#[tokio::test]
async fn git_starts_no_filter_of_a_repositorys_unless_its_profile_allows_processes() {
    let full = "args = [\"full\"]\n";
    let hooks = [
        entry("turn_start", "add_git_diff", full),
        entry(
            "turn_start",
            "add_git_diff",
            &format!("{full}profile = \"pipeline\""),
        ),
    ];
    let daemon = Daemon::with_hooks(&hooks.concat()).await;
    let workspace = daemon.workspace();
    repository(&workspace);
    fs::write(workspace.join(".gitattributes"), "file filter=own\n").unwrap();
    git(&workspace, ["config", "filter.own.clean", "tr a-z A-Z"]);

    let turn = dispatch(&daemon, "turn_start", &json!({})).await;

    let context = |index: usize| {
        let verdict = turn.hooks[index].verdict.as_ref().unwrap();
        verdict.additional_context.concat()
    };
    assert!(context(0).ends_with("\n-one\n+two"), "{}", context(0));
    assert!(context(1).ends_with("\n-one\n+TWO"), "{}", context(1));
}

#[tokio::test]
async fn git_is_a_command_that_takes_a_consent_unless_it_is_roots_alone_to_change() {
    let tools = directory();
    fs::copy("/usr/bin/git", tools.path().join("git")).unwrap();
    // Other users could have put files here.
    fs::set_permissions(tools.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let strict = include_str!("../../sandbox-profiles/strict.toml");
    let profile = strict.replace(
        "path = [\"/usr/local/bin\"",
        &format!("path = [{:?}", tools.path()),
    );
    let other_entry = entry("turn_start", "add_git_status", "profile = \"own-git\"\n");
    let setup = Setup {
        ask_for_consent: true,
        config: [entry("turn_start", "add_git_status", ""), other_entry].concat(),
        profiles: vec![("own-git".to_owned(), profile)],
        ..Setup::default()
    };
    let daemon = Daemon::with(setup).await;

    let response = dispatch(&daemon, "turn_start", &json!({})).await;

    assert!(
        matches!(&response.hooks[0].end, Some(End::Ran(_))),
        "{:?}",
        response.hooks[0]
    );
    let Some(End::Refused(refusal)) = &response.hooks[1].end else {
        panic!("{:?}", response.hooks[1])
    };
    assert_eq!(refusal.reason, "CONSENT_REQUIRED");
    let approve = &refusal.metadata["approve"];
    assert!(approve.contains("git --no-pager"), "{approve}");
    let of_kind = |kind: &str| {
        let mut journal = daemon.journal().into_iter();
        journal.find(|record| record["record"] == kind).unwrap()
    };
    assert_eq!(of_kind("started")["consent"], "builtin");

    // The same words from another source are a command like every other.
    let words = shlex::split(approve).unwrap();
    let git = words.iter().position(|word| word == "--").unwrap() + 1;
    let mut argv = words[git..].to_vec();
    argv[0] = "/usr/bin/git".to_owned();
    let mut request = hook([]);
    request.hook.as_mut().unwrap().argv = argv;
    let refused = daemon.run(request).await.unwrap_err();
    assert_eq!(reason(&refused), "CONSENT_REQUIRED");
}

#[tokio::test]
async fn a_built_in_hook_works_where_its_entry_says_and_tells_whose_agent_it_is() {
    let home = directory();
    let root = home.path().canonicalize().unwrap();
    let sub = root.join("workspace/sub");
    fs::create_dir_all(&sub).unwrap();
    let path = root.join("agent.yaml");
    let text = format!(
        "agents:\n  root:\n    add_date: true\n    hooks:\n      turn_start:\n      - {{type: builtin, command: add_date}}\n      session_start:\n      \
         - {{type: builtin, command: add_environment_info, working_dir: {sub:?}}}\n      - {{type: builtin, command: add_user_info}}\n"
    );
    fs::write(&path, text).unwrap();
    let setup = Setup {
        config: format!("[[hooks_file]]\ncontract = \"docker_agent\"\npath = {path:?}\n"),
        ..Setup::default()
    };
    let daemon = Daemon::in_directory(home, setup).await.unwrap();
    let event = json!({ "cwd": daemon.workspace() });
    let dispatched = async |point: &str| dispatch(&daemon, point, &event).await;

    let session = dispatched("session_start").await;
    let turn = dispatched("turn_start").await;

    let context = session.answer.unwrap().additional_context.concat();
    let expected = format!("Working directory: {}\n", sub.display());
    assert!(context.contains(&expected), "{context}");
    let uid = nix::unistd::getuid();
    // The user that runs the tests may have no name.
    let user = nix::unistd::User::from_uid(uid).unwrap();
    let named = user.map(|user| format!("User: {}\n", user.name));
    let is_told = named.is_none_or(|named| context.contains(&named));
    assert!(is_told, "{context}");
    assert!(context.contains("Hostname: "), "{context}");
    // A flag and an entry are one hook, and the log has a line about the two.
    assert_eq!(turn.hooks.len(), 1);
    assert!(
        daemon
            .log()
            .contains("`add_date` stands for a built-in hook"),
        "{}",
        daemon.log()
    );
}

#[tokio::test]
async fn a_session_is_told_of_its_directory_and_nothing_in_a_name_forges_a_line() {
    let hooks = [
        entry("session_start", "add_directory_listing", ""),
        entry("session_start", "add_environment_info", ""),
    ];
    let daemon = Daemon::with_hooks(&hooks.concat()).await;
    let workspace = daemon.workspace();
    let sub = workspace.join("sub");
    fs::create_dir_all(sub.join("dir")).unwrap();
    fs::create_dir(workspace.join(".git")).unwrap();
    symlink("/etc", sub.join("out")).unwrap();
    for name in [".hidden", "a\n- forged", "b\u{1b}[2J"] {
        fs::write(sub.join(name), "").unwrap();
    }

    let inside = dispatch(&daemon, "session_start", &json!({ "cwd": sub })).await;
    for number in 0..150 {
        fs::write(sub.join(format!("n{number:03}")), "").unwrap();
    }
    let many = dispatch(&daemon, "session_start", &json!({ "cwd": sub })).await;
    let above = json!({ "cwd": daemon.path() });
    let above = dispatch(&daemon, "session_start", &above).await;
    let out = dispatch(&daemon, "session_start", &json!({ "cwd": sub.join("out") })).await;

    assert_eq!(
        in_process(&inside),
        [
            ("add_directory_listing", false),
            ("add_environment_info", false)
        ]
    );
    let inside = context(inside);
    let listing = format!(
        "Top-level entries in {}:\n\n- a\\n- forged\n- b\\u{{1b}}[2J\n- dir/\n- out\n",
        sub.display()
    );
    assert!(inside.starts_with(&listing), "{inside}");
    let place = format!(
        "\t<env>\n\tWorking directory: {}\n\tIs directory a git repo: Yes\n\tOperating System: Linux\n",
        sub.display()
    );
    assert!(inside.contains(&place), "{inside}");
    let many = context(many);
    assert!(many.contains("- n096\n... and 54 more\n"), "{many}");
    for elsewhere in [&above, &out] {
        let answer = elsewhere.answer.clone().unwrap();
        assert_eq!(answer.additional_context, Vec::<String>::new());
    }
    assert_eq!(above.answer.unwrap().warnings.len(), 2);
    for hook in &out.hooks {
        let Some(End::Refused(refusal)) = &hook.end else {
            panic!("{hook:?}")
        };
        assert_eq!(refusal.reason, "INVALID_REQUEST");
    }
}

#[tokio::test]
async fn hookjail_itself_as_a_built_in_hook_takes_no_consent_and_as_anybody_elses_command_it_does()
{
    let hooks = entry("session_start", "add_directory_listing", "");
    let daemon = Daemon::with(Setup {
        config: hooks,
        ask_for_consent: true,
        ..Setup::default()
    })
    .await;
    fs::write(daemon.workspace().join("note"), "").unwrap();

    let session = dispatch(&daemon, "session_start", &json!({})).await;
    let program = support::program().canonicalize().unwrap();
    let words = [
        program.to_str().unwrap(),
        "builtin",
        "add_directory_listing",
    ];
    let refused = daemon.run(hook(words)).await.unwrap_err();

    assert!(context(session).contains("\n- note"));
    assert_eq!(reason(&refused), "CONSENT_REQUIRED");
}

#[tokio::test]
async fn prompt_files_are_the_nearest_of_their_names_inside_the_workspace() {
    let names = [
        "NEAR.md",
        "TOP.md",
        "OUT.md",
        "PIPE.md",
        "HUGE.md",
        "DEVICE.md",
        "ABOVE.md",
        "NONE.md",
    ];
    let args = format!("args = {names:?}");
    let daemon = Daemon::with_hooks(&entry("turn_start", "add_prompt_files", &args)).await;
    let workspace = daemon.workspace();
    let sub = workspace.join("sub");
    fs::create_dir(&sub).unwrap();
    fs::write(workspace.join("NEAR.md"), "far").unwrap();
    fs::write(sub.join("NEAR.md"), "near").unwrap();
    fs::write(workspace.join("TOP.md"), "top").unwrap();
    let outside = daemon.outside("secret");
    fs::write(&outside, "SECRET").unwrap();
    fs::write(daemon.path().join("ABOVE.md"), "SECRET").unwrap();
    symlink(&outside, sub.join("OUT.md")).unwrap();
    symlink("/dev/zero", sub.join("DEVICE.md")).unwrap();
    nix::unistd::mkfifo(&sub.join("PIPE.md"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let huge = File::create(sub.join("HUGE.md")).unwrap();
    huge.set_len(100 * 1024 * 1024).unwrap();

    let turn = dispatch(&daemon, "turn_start", &json!({ "cwd": sub })).await;

    let answer = turn.answer.unwrap();
    let expected = format!(
        "Instructions from: {}\nnear\n\nInstructions from: {}\ntop",
        sub.join("NEAR.md").display(),
        workspace.join("TOP.md").display()
    );
    assert_eq!(answer.additional_context, [expected]);
    let left_out = |name: &str, why: &str| {
        let path = sub.join(name);
        format!("`add_prompt_files` leaves out `{}`: {why}", path.display())
    };
    assert_eq!(
        answer.warnings,
        [
            left_out("OUT.md", "Permission denied (os error 13)"),
            left_out("PIPE.md", "not a regular file"),
            left_out("HUGE.md", "larger than 65536 bytes"),
            left_out("DEVICE.md", "not a regular file"),
        ]
    );
    assert_eq!(daemon.records(), ["started", "ended"]);
}

#[tokio::test]
async fn a_workspace_that_no_hook_may_have_is_not_looked_at() {
    let hooks = [
        entry("session_start", "add_directory_listing", ""),
        entry("session_start", "add_recent_commits", ""),
    ];
    let daemon = Daemon::with_hooks(&hooks.concat()).await;
    let elsewhere = support::directory();
    fs::write(elsewhere.path().join("SECRET"), "").unwrap();
    let bound = |workspace: &str| pb::DispatchRequest {
        workspace: workspace.to_owned(),
        ..dispatch_at("session_start", &json!({}))
    };

    let refused = daemon
        .client()
        .dispatch(bound(elsewhere.path().to_str().unwrap()))
        .await
        .unwrap()
        .into_inner();
    let unbound = daemon.client().dispatch(bound("")).await.unwrap();

    for hook in &refused.hooks {
        let Some(End::Refused(refusal)) = &hook.end else {
            panic!("{hook:?}")
        };
        assert_eq!(refusal.reason, "INVALID_REQUEST");
    }
    assert_eq!(
        refused.answer.unwrap().additional_context,
        Vec::<String>::new()
    );
    assert_eq!(daemon.records(), ["refused", "refused"]);
    let answer = unbound.into_inner().answer.unwrap();
    assert_eq!(
        answer.warnings,
        [
            "`add_directory_listing` sees nothing: the request binds no workspace",
            "`add_recent_commits` sees nothing: the request binds no workspace",
        ]
    );
}

#[tokio::test]
async fn a_built_in_at_another_point_does_nothing_and_says_so() {
    let directory = support::directory();
    let file = directory.path().join("agent.yaml");
    let hook = |name: &str| format!("  - {{type: builtin, command: {name}}}\n");
    let list = [hook("add_git_status"), hook("add_directory_listing")];
    fs::write(&file, format!("hooks:\n  stop:\n{}", list.concat())).unwrap();
    let hooks = format!("[[hooks_file]]\ncontract = \"docker_agent\"\npath = {file:?}\n");
    let daemon = Daemon::with_hooks(&hooks).await;
    repository(&daemon.workspace());

    let answer = dispatch(&daemon, "stop", &json!({})).await.answer.unwrap();

    assert_eq!(
        answer.warnings,
        [
            "`add_git_status` does nothing here",
            "`add_directory_listing` does nothing here",
        ]
    );
    assert_eq!(answer.additional_context, Vec::<String>::new());
    assert_eq!(daemon.records(), Vec::<String>::new());
}

#[tokio::test]
async fn looms_log_is_a_line_of_names_and_sizes() {
    let directory = support::directory();
    let file = directory.path().join("agent.json");
    let profile = json!({"hooks": {"onToolEnd": [{"action": "log", "level": "warn"}]}});
    fs::write(&file, profile.to_string()).unwrap();
    let hooks = format!("[[hooks_file]]\ncontract = \"loom\"\npath = {file:?}\n");
    let daemon = Daemon::with_hooks(&hooks).await;
    let event = json!({
        "toolName": "shell", "toolInput": {"cmd": "SECRET"}, "result": "SECRET", "isError": false,
    });

    let response = dispatch(&daemon, "tool.post", &event).await;

    assert_eq!(in_process(&response), [("hooks.onToolEnd[0]:log", true)]);
    let answer = response.answer.unwrap();
    assert_eq!(
        (answer.decision(), answer.failed),
        (pb::Decision::Allow, false)
    );
    let line = "tool.post toolName=shell isError=false resultChars=6";
    until("the line", || daemon.log().contains(line)).await;
    assert!(!daemon.log().contains("SECRET"), "{}", daemon.log());
    assert_eq!(daemon.records(), Vec::<String>::new());
}

#[tokio::test]
async fn looms_save_json_appends_events_where_its_profile_lets_it() {
    let directory = support::directory();
    let agent = directory.path().join("agent");
    fs::create_dir(&agent).unwrap();
    // Under a root daemon a hook is another user.
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o777)).unwrap();
    let file = agent.join("agent.json");
    let actions = json!({"name": "coder", "hooks": {"onToolEnd": [
        {"action": "save_json", "path": "events.jsonl"},
        {"action": "save_json", "path": "out/events.jsonl"},
    ]}});
    fs::write(&file, actions.to_string()).unwrap();
    let elsewhere = directory.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o777)).unwrap();
    std::os::unix::fs::symlink(&elsewhere, agent.join("out")).unwrap();
    let secret = directory.path().join("secret");
    fs::write(&secret, "a-secret-of-mine").unwrap();
    for path in [&file, &secret] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let grant = format!(
        "description = \"a test's\"\nextends = [\"strict\"]\n[files]\nnamed = [{{ path = {agent:?}, access = \"write\" }}]\n"
    );
    let daemon_with = async |profile: &str| {
        let config = format!(
            "[[hooks_file]]\ncontract = \"loom\"\npath = {file:?}\n{profile}[[secret]]\nname = \"mine\"\nfile = {secret:?}\n"
        );
        Daemon::with(Setup {
            config,
            profiles: vec![("events".to_owned(), grant.clone())],
            ..Setup::default()
        })
        .await
    };
    let event = json!({"toolName": "shell", "result": "it is\na-secret-of-mine", "isError": false});
    let saved = async |daemon: &Daemon, warned: [bool; 2]| {
        let response = dispatch(daemon, "tool.post", &event).await;
        let served = [
            ("hooks.onToolEnd[0]:save_json", false),
            ("hooks.onToolEnd[1]:save_json", false),
        ];
        assert_eq!(in_process(&response), served);
        let failed = response
            .hooks
            .iter()
            .map(|hook| hook.verdict.as_ref().unwrap().failed);
        assert_eq!(failed.collect::<Vec<_>>(), warned, "{response:?}");
        // A failure stops nothing.
        assert_eq!(response.blocked_by_hook, "", "{response:?}");
        let End::Ran(last) = response.hooks[1].end.as_ref().unwrap() else {
            panic!("{response:?}")
        };
        let stderr = String::from_utf8_lossy(&last.stderr).into_owned();
        assert!(
            stderr.contains("out/events.jsonl`: Permission denied"),
            "{stderr}"
        );
    };

    let ungranted = daemon_with("").await;
    saved(&ungranted, [true, true]).await;
    let daemon = daemon_with("profile = \"events\"\n").await;
    for _ in 0..2 {
        // The link leads where the profile does not let it.
        saved(&daemon, [false, true]).await;
    }

    let text = fs::read_to_string(agent.join("events.jsonl")).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    for line in lines.collect::<Vec<_>>() {
        // In Loom's own form.
        let form = (&line["v"], &line["profile"], &line["event"]);
        assert_eq!(form, (&json!(1), &json!("coder"), &json!("tool.post")));
        assert!(line["ts"].is_u64(), "{text}");
        assert_eq!(line["context"]["toolName"], "shell", "{text}");
        assert_eq!(
            line["context"]["result"], "it is\n[redacted:mine]",
            "{text}"
        );
    }
    assert_eq!(text.lines().count(), 2);
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

mod as_root {
    use super::*;
    use crate::support::needs_root;

    /// A root daemon could read everything, and reveals nothing to a caller that cannot read it.
    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_listed_caller_is_told_of_no_file_that_it_cannot_read() {
        needs_root();
        let hook = entry(
            "turn_start",
            "add_prompt_files",
            "args = [\"PRIVATE.md\", \"PUBLIC.md\"]",
        );
        let caller = NOBODY;
        let server = format!("[server]\ncallers = [{caller}]\nsocket_mode = \"0660\"\n");
        let run_as = "[hooks]\nrun_as = \"caller\"\n";
        let daemon = Daemon::with_hooks(&format!("{hook}{server}{run_as}")).await;
        let workspace = daemon.workspace();
        for (name, mode) in [("PRIVATE.md", 0o600), ("PUBLIC.md", 0o644)] {
            fs::write(workspace.join(name), name.to_lowercase()).unwrap();
            fs::set_permissions(workspace.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let ask = || {
            let words = ["--point", "turn_start", "--workspace"];
            let words = [&words[..], &[workspace.to_str().unwrap()]].concat();
            let output = ask_as(NOBODY, &daemon, "sock", "dispatch", &words);
            serde_json::from_slice::<Value>(&output.stdout).unwrap()
        };

        let answer = ask();
        std::os::unix::fs::chown(workspace.join("PRIVATE.md"), Some(NOBODY), None).unwrap();
        let control = ask();

        let context = answer["answer"]["additionalContext"].to_string();
        assert!(context.contains("public.md"), "{answer}");
        assert!(!answer.to_string().contains("private.md"), "{answer}");
        let context = control["answer"]["additionalContext"].to_string();
        assert!(context.contains("private.md"), "{control}");
    }
}
