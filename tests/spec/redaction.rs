//! Registered secrets are in no record, no log and no error. Under a profile with redaction, they are in no reply either.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use hookjail::pb::{self, execute_stream_response::Part};
use prost::Message;
use serde_json::json;
use tempfile::TempDir;
use tonic::Status;

use crate::{
    support::{Daemon, Setup, directory, dispatch_at, hook, program, reason, sh},
    witness::{event, hookjail},
};

/// A value as no text has it by chance.
const MARKER: &str = "mk-7f/Q2\"z+Lw9\\xK0v";

/// Everything is kept, and everything is logged.
const KEEPING: &str = "[audit]\ncapture = [\"event\", \"stdout\", \"stderr\"]\n";

/// A profile that takes secrets out of replies.
fn quiet() -> Vec<(String, String)> {
    let text = "description = \"pipeline, without secrets\"\nextends = \"pipeline\"\n[output]\nredact = true\n";
    vec![("quiet".to_owned(), text.to_owned())]
}

/// Writes the marker into a file, and returns what registers it.
fn registered(directory: &TempDir) -> String {
    let file = directory.path().join("token");
    fs::write(&file, format!("{MARKER}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    format!("[[secret]]\nname = \"token\"\nfile = {file:?}\n")
}

async fn daemon(is_registered: bool, ask_for_consent: bool) -> Daemon {
    let directory = directory();
    let secret = registered(&directory);
    let secret = if is_registered { &*secret } else { "" };
    let setup = Setup {
        ask_for_consent,
        config: format!("{KEEPING}{secret}"),
        env: vec![("HOOKJAIL_LOG".to_owned(), "trace".to_owned())],
        profiles: quiet(),
        ..Setup::default()
    };
    Daemon::in_directory(directory, setup).await.unwrap()
}

/// Puts the marker wherever a request has room for it, and prints it in every listed form.
fn with_marker(profile: &str) -> pb::ExecuteRequest {
    let script = "cat; printf '%s\\n' \"$1\" \"$HOOK_TOKEN\"; printf %s \"x$1\" | base64 >&2";
    let mut request = pb::ExecuteRequest {
        profile: profile.to_owned(),
        ..hook(["/bin/sh", "-c", script, "sh", MARKER])
    };
    request.event = event(json!({ "text": MARKER }).to_string());
    let requested_hook = request.hook.as_mut().unwrap();
    requested_hook
        .env
        .insert("HOOK_TOKEN".to_owned(), MARKER.to_owned());
    request
}

/// Returns whether the bytes contain the marker, or a part of it that no escaping changes.
fn has_marker(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let encoded = STANDARD.encode(format!("x{MARKER}"));
    [MARKER, "mk-7f", "z+Lw9", "xK0v", &encoded[4..20]]
        .iter()
        .any(|part| text.contains(part))
}

fn journal(daemon: &Daemon) -> Vec<u8> {
    fs::read(daemon.path().join("state/audit/journal.jsonl")).unwrap()
}

/// Runs a hook of reyn's with the marker in its command, and returns the text about its event that people see.
#[expect(
    clippy::disallowed_methods,
    reason = "tests start the command line itself, never a hook"
)]
async fn events(daemon: &Daemon) -> Vec<u8> {
    let mut request = with_marker("pipeline");
    request.contract = pb::Contract::Reyn.into();
    request.mode = "shell_exec".to_owned();
    request.event = dispatch_at("turn_end", &json!({})).event;
    daemon.run(request).await.unwrap();
    let words = ["audit", "query", "--events"];
    let mut command = hookjail(&daemon.path().join("hookjail.toml"), &words);
    let shown = command.output().unwrap().stdout;
    assert!(shown.starts_with(b" ") && !shown.is_empty(), "{shown:?}");
    shown
}

fn error(status: &Status) -> Vec<u8> {
    [format!("{status:?}").as_bytes(), status.details()].concat()
}

#[tokio::test]
async fn a_registered_secret_is_in_no_record_log_or_error() {
    // The control: unregistered, all of them have it.
    for is_registered in [true, false] {
        let check = |what: &str, bytes: &[u8]| {
            assert_eq!(
                has_marker(bytes),
                !is_registered,
                "{what}: {}",
                String::from_utf8_lossy(bytes)
            );
        };
        let running = daemon(is_registered, false).await;
        let response = running.run(with_marker("pipeline")).await.unwrap();
        // Without `output.redact` a reply is the hook's own words.
        assert!(has_marker(&response.stdout) && has_marker(&response.stderr));
        let [started, ended] = &running.journal()[..] else {
            panic!("{:?}", running.records())
        };
        for part in [
            &started["command"],
            &started["event"],
            &ended["stdout"]["kept"],
            &ended["stderr"]["kept"],
        ] {
            check("record", part.to_string().as_bytes());
        }
        check("journal", &journal(&running));
        check("event for people", &events(&running).await);
        // A command that the environment allows is logged.
        check("log", running.log().as_bytes());

        let asking = daemon(is_registered, true).await;
        let refused = asking.run(with_marker("pipeline")).await.unwrap_err();
        assert_eq!(reason(&refused), "CONSENT_REQUIRED");
        check("error", &error(&refused));
        check("journal of refusals", &journal(&asking));
    }
}

#[tokio::test]
async fn digests_and_sizes_are_those_of_what_the_hook_wrote() {
    let [redacted, plain] = [daemon(true, false).await, daemon(false, false).await];
    let mut ends = Vec::new();
    for daemon in [&redacted, &plain] {
        daemon.run(with_marker("quiet")).await.unwrap();
        let mut ended = daemon.journal()[1].clone();
        for stream in ["stdout", "stderr"] {
            assert!(ended[stream]["kept"]["text"].is_string());
            ended[stream].as_object_mut().unwrap().remove("kept");
        }
        ends.push((ended["stdout"].clone(), ended["stderr"].clone()));
    }
    assert_eq!(ends[0], ends[1]);
}

#[tokio::test]
async fn a_reply_under_a_profile_that_redacts_holds_no_secret() {
    let daemon = daemon(true, false).await;
    let output = json!({
        "systemMessage": MARKER,
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "allow",
            "permissionDecisionReason": format!("no {MARKER}"),
            "additionalContext": MARKER,
            "updatedInput": { "nested": [MARKER], "big": 12_345_678_901_234_567_890_u64 },
        },
    });
    for profile in ["pipeline", "quiet"] {
        let mut request = sh(profile, "cat");
        request.contract = pb::Contract::ClaudeCode.into();
        request.event = Some(pb::Event {
            json: output.to_string().into(),
            point: "PreToolUse".to_owned(),
            raw: true,
        });
        let response = daemon.run(request).await.unwrap();
        let verdict = response.verdict.clone().unwrap();
        // The contract has read what the hook wrote.
        assert_eq!(verdict.decision(), pb::Decision::Allow);
        assert_eq!(has_marker(&response.encode_to_vec()), profile == "pipeline");
        if profile == "quiet" {
            assert_eq!(verdict.reason, "no [redacted:token]");
            assert_eq!(verdict.system_message, "[redacted:token]");
            let input = verdict.updated_input_json.unwrap();
            assert!(
                input.contains(r#""nested":["[redacted:token]"]"#),
                "{input}"
            );
            assert!(input.contains("12345678901234567890"), "{input}");
            assert_eq!(response.stdout_total_bytes, output.to_string().len() as u64);
            assert!(!response.stdout_truncated);
        }
    }
}

#[tokio::test]
async fn an_answer_of_many_hooks_under_a_profile_that_redacts_holds_no_secret() {
    let push = json!({ "push_when": true, "wake": true, "message": MARKER }).to_string();
    let script = format!("printf '%s' '{push}'");
    for profile in ["pipeline", "quiet"] {
        let directory = directory();
        let secret = registered(&directory);
        let quoted = toml::Value::from(vec!["/bin/sh", "-c", &script]);
        let config = format!(
            "{secret}[[hook]]\nname = \"tell\"\ncontract = \"reyn\"\nmode = \"shell_push\"\npoint = \"turn_end\"\n\
             profile = \"{profile}\"\ncommand = {quoted}\n"
        );
        let setup = Setup {
            config,
            profiles: quiet(),
            ..Setup::default()
        };
        let daemon = Daemon::in_directory(directory, setup).await.unwrap();
        let mut request = dispatch_at("turn_end", &json!({}));
        request.contract = pb::Contract::Reyn.into();
        let response = daemon.dispatch(request).await;
        assert_eq!(response.pushes.len(), 1, "{response:?}");
        assert_eq!(has_marker(&response.encode_to_vec()), profile == "pipeline");
    }
}

#[tokio::test]
async fn a_stream_under_a_profile_that_redacts_is_the_response_alone() {
    let daemon = daemon(true, false).await;
    for profile in ["pipeline", "quiet"] {
        let request = pb::ExecuteStreamRequest {
            request: Some(with_marker(profile)),
        };
        let stream = daemon.client().execute_stream(request).await.unwrap();
        let mut stream = stream.into_inner();
        let (mut pieces, mut bytes, mut stdout) = (0, Vec::new(), Vec::new());
        while let Some(message) = stream.message().await.unwrap() {
            bytes.extend(message.encode_to_vec());
            match message.part.unwrap() {
                Part::Response(response) => stdout = response.stdout.to_vec(),
                Part::Stderr(_) | Part::Stdout(_) => pieces += 1,
            }
        }
        let quiet = profile == "quiet";
        assert_eq!(pieces == 0, quiet);
        assert_eq!(has_marker(&bytes), !quiet);
        let shown = String::from_utf8(stdout).unwrap();
        assert_eq!(
            shown.matches("[redacted:token]").count(),
            if quiet { 3 } else { 0 }
        );
    }
}

#[tokio::test]
async fn what_is_kept_of_a_text_is_bounded_and_says_so() {
    let daemon = Daemon::with(Setup {
        config: "[audit]\ncapture = [\"stdout\", \"stderr\"]\ncapture_max = 300\n".to_owned(),
        ..Setup::default()
    })
    .await;
    let script = "printf '%01000d' 0; printf 'a\\377b' >&2";
    let mut request = sh("strict", script);
    request.event = event("\"not kept\"");

    daemon.run(request).await.unwrap();

    let [started, ended] = &daemon.journal()[..] else {
        panic!("{:?}", daemon.records())
    };
    assert_eq!(started.get("event"), None);
    assert_eq!(
        ended["stdout"]["kept"],
        json!({ "cut": true, "text": "0".repeat(300) })
    );
    assert_eq!(ended["stdout"]["total_bytes"], 1000);
    assert_eq!(
        ended["stderr"]["kept"],
        json!({ "lossy": true, "text": "a\u{fffd}b" })
    );
}

#[tokio::test]
async fn a_record_with_as_much_as_can_be_kept_can_be_written() {
    let daemon = Daemon::with(Setup {
        config:
            "[audit]\ncapture = [\"event\", \"stdout\", \"stderr\"]\ncapture_max = \"256KiB\"\n"
                .to_owned(),
        ..Setup::default()
    })
    .await;
    // Each byte is six in JSON.
    let mut request = sh("pipeline", "tee /dev/stderr");
    request.event = event(vec![1; 512 * 1024]);

    daemon.run(request).await.unwrap();

    let journal = daemon.journal();
    assert_eq!(
        journal[0]["event"]["text"].as_str().unwrap().len(),
        256 * 1024
    );
    assert_eq!(
        journal[1]["stdout"]["kept"]["text"].as_str().unwrap().len(),
        256 * 1024
    );
}

#[tokio::test]
async fn a_secret_comes_from_a_file_a_variable_or_a_credential_or_is_a_pattern() {
    let directory = directory();
    let credentials = directory.path().join("credentials");
    fs::create_dir(&credentials).unwrap();
    fs::write(credentials.join("api"), "credential-value").unwrap();
    let secret = registered(&directory);
    let config = format!(
        "{KEEPING}{secret}[[secret]]\nname = \"env\"\nenv = \"THE_TOKEN\"\n[[secret]]\nname = \"api\"\ncredential = \"api\"\n\
         [[secret]]\nname = \"ticket\"\npattern = \"TICKET-[0-9]+\"\n"
    );
    let env = [
        ("THE_TOKEN", "variable-value".to_owned()),
        ("CREDENTIALS_DIRECTORY", credentials.display().to_string()),
    ];
    let setup = Setup {
        config,
        env: env.map(|(name, value)| (name.to_owned(), value)).into(),
        ..Setup::default()
    };
    let daemon = Daemon::in_directory(directory, setup).await.unwrap();
    let script = "printf '%s ' \"$@\"";
    let words = [MARKER, "variable-value", "credential-value", "TICKET-77"];

    let mut request = hook(["/bin/sh", "-c", script, "sh"]);
    let argv = &mut request.hook.as_mut().unwrap().argv;
    argv.extend(words.map(str::to_owned));
    daemon.run(request).await.unwrap();

    let markers = "[redacted:token] [redacted:env] [redacted:api] [redacted:ticket]";
    let [started, ended] = &daemon.journal()[..] else {
        panic!("{:?}", daemon.records())
    };
    assert_eq!(ended["stdout"]["kept"]["text"], format!("{markers} "));
    let argv = started["command"]["argv"].as_array().unwrap();
    let argv: Vec<_> = argv[4..]
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect();
    assert_eq!(argv.join(" "), markers);
}

#[tokio::test]
async fn the_daemon_does_not_start_with_a_secret_that_cannot_be_used() {
    type Prepare = fn(&Path);
    let cases: [(&str, Prepare, &str); 6] = [
        ("env = \"NOT_SET_ANYWHERE\"", |_| (), "NOT_SET_ANYWHERE"),
        ("env = \"SHORT\"", |_| (), "use at least 8"),
        ("credential = \"x\"", |_| (), "CREDENTIALS_DIRECTORY"),
        ("file = \"FILE\"", |_| (), "No such file"),
        (
            "file = \"FILE\"",
            |file| {
                fs::write(file, MARKER).unwrap();
                fs::set_permissions(file, fs::Permissions::from_mode(0o620)).unwrap();
            },
            "others can write it",
        ),
        (
            "file = \"FILE\"",
            |file| {
                fs::write(file.with_extension("real"), MARKER).unwrap();
                std::os::unix::fs::symlink(file.with_extension("real"), file).unwrap();
            },
            "symbolic link",
        ),
    ];
    for (source, prepare, expected) in cases {
        let directory = directory();
        let file = directory.path().join("token");
        prepare(&file);
        let source = source.replace("FILE", &file.display().to_string());
        let setup = Setup {
            config: format!("[[secret]]\nname = \"the-name\"\n{source}\n"),
            env: vec![("SHORT".to_owned(), "s3cr3t!".to_owned())],
            ..Setup::default()
        };
        let log = Daemon::in_directory(directory, setup).await.unwrap_err();
        assert!(
            log.contains("`the-name`") && log.contains(expected),
            "{log}"
        );
        assert!(
            !log.contains("s3cr3t!") && !has_marker(log.as_bytes()),
            "{log}"
        );
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "tests start hookjail itself")]
fn no_command_that_reads_the_configuration_shows_a_secret() {
    let directory = directory();
    let secret = registered(&directory);
    let path = |name: &str| directory.path().join(name);
    let config = format!(
        "{secret}[[secret]]\nname = \"env\"\nenv = \"THE_TOKEN\"\n[paths]\nstate = {:?}\nruntime = {:?}\n",
        path("state"),
        path("run")
    );
    fs::write(path("hookjail.toml"), config).unwrap();
    fs::set_permissions(path("hookjail.toml"), fs::Permissions::from_mode(0o600)).unwrap();
    let config = path("hookjail.toml").display().to_string();
    let commands: [&[&str]; 5] = [
        &["doctor"],
        &["explain", "path", "read", "/etc/passwd"],
        &["profile", "show", "strict"],
        &["hooks", "list"],
        &["run", "--dry-run", "--json", "--", "/bin/true"],
    ];
    for words in commands {
        let output = crate::support::command(program())
            .args(["--config", &config])
            .args(words)
            .env("HOME", directory.path())
            .env("HOOKJAIL_LOG", "trace")
            .env("THE_TOKEN", MARKER)
            .output()
            .unwrap();
        let printed = [output.stdout, output.stderr].concat();
        assert!(!printed.is_empty(), "{words:?}");
        assert!(
            !has_marker(&printed),
            "{words:?}: {}",
            String::from_utf8_lossy(&printed)
        );
    }
}
