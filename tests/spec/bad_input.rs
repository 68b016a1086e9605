//! An invalid request is refused with the field that is wrong, and nothing is started.

use std::{fs, os::unix::fs::symlink};

use hookjail::pb;
use tonic::Code;

use crate::{
    support::{Daemon, field, hook, reason},
    witness::{event, wall_time},
};

/// Returns a request that differs from a good one by a change of the table.
fn with(change: impl FnOnce(&mut pb::ExecuteRequest)) -> pb::ExecuteRequest {
    let mut request = hook(["/bin/true"]);
    change(&mut request);
    request
}

fn with_hook(change: impl FnOnce(&mut pb::Hook)) -> pb::ExecuteRequest {
    with(|request| change(request.hook.as_mut().unwrap()))
}

fn with_argv<const N: usize>(argv: [&str; N]) -> pb::ExecuteRequest {
    hook(argv)
}

fn with_env(name: &str, value: &str) -> pb::ExecuteRequest {
    with_hook(|hook| {
        hook.env.insert(name.to_owned(), value.to_owned());
    })
}

fn with_event(json: impl Into<Vec<u8>>) -> pb::ExecuteRequest {
    with(|request| {
        request.event = event(json).map(|event| pb::Event {
            raw: false,
            ..event
        });
    })
}

fn with_timeout(seconds: i64, nanos: i32) -> pb::ExecuteRequest {
    with(|request| request.timeout = Some(prost_types::Duration { seconds, nanos }))
}

fn with_working_dir(path: &str) -> pb::ExecuteRequest {
    with_hook(|hook| hook.working_dir = path.to_owned())
}

/// Asserts that each request is refused for `INVALID_REQUEST` with its field, and that nothing was started.
async fn assert_invalid<const N: usize>(
    daemon: &Daemon,
    table: [(&str, pb::ExecuteRequest, &str); N],
) {
    for (case, request, expected) in table {
        let refusal = daemon.run(request).await.expect_err(case);
        assert_eq!(
            (
                refusal.code(),
                reason(&refusal).as_str(),
                field(&refusal).as_str()
            ),
            (Code::InvalidArgument, "INVALID_REQUEST", expected),
            "{case}: {}",
            refusal.message()
        );
    }
    assert_nothing_ran(daemon, N);
    assert_eq!(daemon.scratch_directories().len(), 0);
}

/// Asserts that this number of requests was refused, and none announced.
fn assert_nothing_ran(daemon: &Daemon, requests: usize) {
    assert_eq!(daemon.records(), vec!["refused"; requests]);
}

#[tokio::test]
async fn commands_that_no_program_can_be_given_are_refused() {
    let daemon = Daemon::start().await;
    let long = "x".repeat(128 * 1024);
    let many = vec!["x".repeat(1000); 2000];
    let table = [
        ("no hook", with(|request| request.hook = None), "hook.argv"),
        ("no command", with_argv([]), "hook.argv"),
        ("empty program", with_argv([""]), "hook.argv[0]"),
        ("NUL", with_argv(["/bin/true", "a\0b"]), "hook.argv[1]"),
        ("long word", with_argv(["/bin/true", &long]), "hook.argv[1]"),
        (
            "too much in all",
            with_hook(|hook| hook.argv.extend(many)),
            "hook.argv",
        ),
        (
            "a hundred thousand words",
            with_hook(|hook| hook.argv.extend(vec!["x".repeat(20); 100_000])),
            "hook.argv",
        ),
        (
            "two commands",
            with_hook(|hook| hook.shell = Some(pb::Shell::default())),
            "hook.shell",
        ),
        (
            "blank line",
            with_hook(|hook| {
                hook.argv.clear();
                hook.shell = Some(pb::Shell {
                    script: " \n".to_owned(),
                    shell: String::new(),
                });
            }),
            "hook.shell.script",
        ),
        ("relative", with_argv(["./jq"]), "hook.argv[0]"),
        ("relative below", with_argv(["bin/jq"]), "hook.argv[0]"),
        ("dots", with_argv(["/bin/../bin/true"]), "hook.argv[0]"),
        ("dot", with_argv(["/bin/./true"]), "hook.argv[0]"),
        ("missing", with_argv(["/bin/no-such-thing"]), "hook.argv[0]"),
        ("not on PATH", with_argv(["no-such-thing"]), "hook.argv[0]"),
        ("a directory", with_argv(["/usr"]), "hook.argv[0]"),
        (
            "no umask",
            with_hook(|hook| hook.umask = Some(0o1000)),
            "hook.umask",
        ),
    ];
    assert_invalid(&daemon, table).await;
}

#[tokio::test]
async fn variables_that_are_none_or_steer_programs_are_refused() {
    let daemon = Daemon::start().await;
    let table = [
        ("no name", with_env("", "x"), "hook.env[]"),
        ("=", with_env("A=B", "x"), "hook.env[A=B]"),
        ("NUL in name", with_env("A\0", "x"), "hook.env[A\\0]"),
        ("NUL in value", with_env("CI", "a\0b"), "hook.env[CI]"),
    ];
    assert_invalid(&daemon, table).await;
}

#[tokio::test]
async fn variables_that_the_profile_does_not_let_in_are_refused_by_name() {
    let daemon = Daemon::start().await;
    let names = [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "GLIBC_TUNABLES",
        "GCONV_PATH",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "NODE_OPTIONS",
        "BASH_ENV",
        "ENV",
        "SHELLOPTS",
        "PS4",
        "IFS",
        "BASH_FUNC_ls%%",
        "PERL5LIB",
        "PERL5OPT",
        "RUBYOPT",
        "JAVA_TOOL_OPTIONS",
        "GIT_SSH_COMMAND",
        "SSH_AUTH_SOCK",
        "PATH",
        "HOME",
        "TMPDIR",
        "LOCPATH",
        "TERMINFO",
        "DYLD_INSERT_LIBRARIES",
        "ci",
        "SECRET",
    ];
    for name in names {
        let refusal = daemon.run(with_env(name, "x")).await.unwrap_err();
        assert_eq!(
            (refusal.code(), field(&refusal)),
            (Code::InvalidArgument, format!("hook.env[{name}]")),
            "{name}: {}",
            refusal.message()
        );
    }
    assert_nothing_ran(&daemon, names.len());
}

#[tokio::test]
async fn working_directories_outside_the_grants_are_refused() {
    let daemon = Daemon::start().await;
    let outside = daemon.outside("dir");
    fs::create_dir(&outside).unwrap();
    let file = daemon.outside("file");
    fs::write(&file, "").unwrap();
    let link = daemon.outside("link");
    symlink("/usr", &link).unwrap();
    let text = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let table = [
        ("relative", with_working_dir("usr"), "hook.working_dir"),
        ("dots", with_working_dir("/usr/../usr"), "hook.working_dir"),
        ("dot", with_working_dir("/usr/./lib"), "hook.working_dir"),
        ("NUL", with_working_dir("/usr\0"), "hook.working_dir"),
        (
            "missing",
            with_working_dir("/usr/no-such"),
            "hook.working_dir",
        ),
        (
            "ungranted",
            with_working_dir(&text(&outside)),
            "hook.working_dir",
        ),
        ("a file", with_working_dir(&text(&file)), "hook.working_dir"),
        ("a link", with_working_dir(&text(&link)), "hook.working_dir"),
        (
            "a leaked descriptor",
            with_working_dir("/proc/self/fd/3"),
            "hook.working_dir",
        ),
        (
            "a workspace elsewhere",
            with_hook(|hook| hook.workspace = text(&outside)),
            "hook.workspace",
        ),
    ];
    assert_invalid(&daemon, table).await;
}

#[tokio::test]
async fn times_that_are_none_are_refused() {
    let daemon = Daemon::start().await;
    let table = [
        ("zero", with_timeout(0, 0), "timeout"),
        ("negative", with_timeout(-1, 0), "timeout"),
        ("huge", with_timeout(i64::MAX, 999_999_999), "timeout"),
        ("mixed", with_timeout(i64::MIN, i32::MIN), "timeout"),
        (
            "above the maximum",
            with(|request| request.timeout = wall_time(1801)),
            "timeout",
        ),
    ];
    assert_invalid(&daemon, table).await;
}

#[tokio::test]
async fn events_that_are_no_json_document_are_refused() {
    let daemon = Daemon::start().await;
    let table = [
        ("no text", with_event(b"\"\xff\"".to_vec()), "event.json"),
        ("no JSON", with_event("{"), "event.json"),
        ("two documents", with_event("{} {}"), "event.json"),
        ("deep", with_event("[".repeat(100_000)), "event.json"),
        (
            "deep and whole",
            with_event("[".repeat(200) + &"]".repeat(200)),
            "event.json",
        ),
        ("a key twice", with_event(r#"{"a":1,"a":2}"#), "event.json"),
        (
            "control in the point",
            with(|request| {
                request.event = Some(pb::Event {
                    point: "a\nb".to_owned(),
                    ..pb::Event::default()
                });
            }),
            "event.point",
        ),
    ];
    assert_invalid(&daemon, table).await;
}

#[tokio::test]
async fn what_is_written_as_it_is_under_no_contract_need_be_no_json() {
    let daemon = Daemon::start().await;
    for (contract, point, code) in [
        (pb::Contract::Observe, "", None),
        (pb::Contract::Reyn, "turn_end", Some(Code::InvalidArgument)),
    ] {
        let request = pb::ExecuteRequest {
            contract: contract.into(),
            event: Some(pb::Event {
                json: b"\xff no JSON\n".as_slice().into(),
                point: point.to_owned(),
                raw: true,
            }),
            mode: if code.is_some() { "shell_exec" } else { "" }.to_owned(),
            ..hook(["/bin/cat"])
        };
        match (daemon.run(request).await, code) {
            (Ok(response), None) => assert_eq!(&response.stdout[..], b"\xff no JSON\n"),
            (Err(status), Some(code)) => assert_eq!(status.code(), code),
            (other, _) => panic!("{contract:?}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn names_and_numbers_that_are_not_known_are_refused() {
    let daemon = Daemon::start().await;
    let table = [
        (
            "contract",
            with(|request| request.contract = 99),
            "contract",
        ),
        (
            "negative contract",
            with(|request| request.contract = -1),
            "contract",
        ),
        (
            "mode",
            with(|request| request.mode = "shell_push".to_owned()),
            "mode",
        ),
        (
            "on_disconnect",
            with(|request| request.on_disconnect = 99),
            "on_disconnect",
        ),
        (
            "on_failure",
            with(|request| request.on_failure = 99),
            "on_failure",
        ),
        (
            "request id",
            with(|request| request.request_id = "a\nb".to_owned()),
            "request_id",
        ),
        (
            "long request id",
            with(|request| request.request_id = "x".repeat(257)),
            "request_id",
        ),
        (
            "session",
            with(|request| request.session_id = "\0".to_owned()),
            "session_id",
        ),
        (
            "hook's name",
            with_hook(|hook| hook.name = "\u{1b}[31m".to_owned()),
            "hook.name",
        ),
        (
            "narrowed path",
            with(|request| {
                request.narrow = Some(pb::Narrow {
                    read: vec!["usr".to_owned()],
                    ..pb::Narrow::default()
                });
            }),
            "narrow.read[0]",
        ),
    ];
    assert_invalid(&daemon, table).await;
}

#[tokio::test]
async fn profiles_that_do_not_exist_are_not_found() {
    let daemon = Daemon::start().await;
    let names = [
        "../strict",
        "/etc/passwd",
        "strict\0",
        "str\u{456}ct",
        "STRICT",
        "strict.toml",
        "no-such",
        ".",
    ];
    for name in names {
        let request = with(|request| request.profile = name.to_owned());
        let refusal = daemon.run(request).await.unwrap_err();
        assert_eq!(
            (refusal.code(), reason(&refusal).as_str()),
            (Code::NotFound, "PROFILE_UNKNOWN"),
            "{name:?}"
        );
    }
    assert_eq!(daemon.records(), ["refused"; 8]);
}

#[tokio::test]
async fn a_profile_that_only_the_operator_grants_cannot_be_asked_for() {
    let daemon = Daemon::offering(&["network"]).await;

    let request = with(|request| request.profile = "network".to_owned());
    let refusal = daemon.run(request).await.unwrap_err();

    assert_eq!(
        (refusal.code(), reason(&refusal).as_str()),
        (Code::PermissionDenied, "NOT_ALLOWLISTED")
    );
    assert_eq!(daemon.records(), ["refused"]);
}

#[tokio::test]
async fn a_message_that_is_larger_than_any_request_is_refused_with_the_limit() {
    let daemon = Daemon::start().await;

    let refusal = daemon
        .run(with_event("x".repeat(64 * 1024 * 1024)))
        .await
        .unwrap_err();

    assert_eq!(
        (
            refusal.code(),
            reason(&refusal).as_str(),
            field(&refusal).as_str()
        ),
        (Code::InvalidArgument, "EVENT_TOO_LARGE", "event.json")
    );
    assert!(
        refusal.message().contains(&(19 * 1024 * 1024).to_string()),
        "{refusal:?}"
    );
    assert_nothing_ran(&daemon, 1);
    assert!(daemon.run(hook(["/bin/true"])).await.is_ok());
}

#[tokio::test]
async fn a_message_that_is_none_is_refused() {
    let daemon = Daemon::start().await;
    for method in ["Execute", "ExecuteStream"] {
        let path = format!("/hookjail.v1.HookService/{method}");
        let mut client = tonic::client::Grpc::new(daemon.channel());
        client.ready().await.unwrap();
        // Field 1 as a number, which neither request has.
        let message = tonic::Request::new(prost_types::Timestamp {
            nanos: 0,
            seconds: 1,
        });
        let codec = tonic_prost::ProstCodec::<_, pb::ExecuteResponse>::default();

        let refusal = client
            .unary(message, path.parse().unwrap(), codec)
            .await
            .unwrap_err();

        assert_eq!(
            (refusal.code(), reason(&refusal).as_str()),
            (Code::InvalidArgument, "INVALID_REQUEST"),
            "{method}: {refusal:?}"
        );
    }
    assert_nothing_ran(&daemon, 2);
}

#[tokio::test]
async fn a_deadline_of_the_caller_that_is_none_is_refused() {
    let daemon = Daemon::start().await;
    for timeout in ["", "S", "1", "1s", "999999999S", "-1S", "1.5S"] {
        let mut request = tonic::Request::new(hook(["/bin/true"]));
        request
            .metadata_mut()
            .insert("grpc-timeout", timeout.parse().unwrap());

        let refusal = daemon.client().execute(request).await.unwrap_err();

        assert_eq!(
            (
                refusal.code(),
                reason(&refusal).as_str(),
                field(&refusal).as_str()
            ),
            (Code::InvalidArgument, "INVALID_REQUEST", "grpc-timeout"),
            "`{timeout}`"
        );
    }
    assert_nothing_ran(&daemon, 7);
}

#[tokio::test]
async fn what_a_shell_would_read_is_a_word_like_any_other() {
    let daemon = Daemon::start().await;
    let words = [";id", "$(id)", "`id`", "--bind", "-f", "*", "a b", "\n"];
    let mut argv = vec!["/usr/bin/printf".to_owned(), "%s|".to_owned()];
    argv.extend(words.map(str::to_owned));

    let response = daemon
        .run(with_hook(|hook| hook.argv = argv))
        .await
        .unwrap();

    assert_eq!(
        String::from_utf8_lossy(&response.stdout),
        words.join("|") + "|"
    );
}
