//! The log reports the daemon's actions and refusals: on stderr as text or JSON, or in journald, without secrets.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, os::unix::net::UnixDatagram};

use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, getuid},
};
use regex::Regex;
use serde_json::Value;

use crate::{
    audit_failure::limit_files,
    support::{Daemon, Setup, directory, hook, reason, sh},
    witness::{until, writing},
};

/// Returns the lines of the log about refusals.
fn refusals(daemon: &Daemon) -> Vec<String> {
    let log = daemon.log();
    let lines = log.lines().filter(|line| line.contains("refused reason="));
    lines.map(str::to_owned).collect()
}

/// Ends the daemon, and returns what it logged.
async fn finished(mut daemon: Daemon) -> String {
    let pid = Pid::from_raw(i32::try_from(daemon.pid()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    until("the daemon's end", || {
        daemon.child().try_wait().unwrap().is_some()
    })
    .await;
    daemon.log()
}

#[tokio::test]
async fn each_refusal_is_a_line_with_reason_caller_profile_and_run() {
    let daemon = Daemon::with(Setup {
        ask_for_consent: true,
        ..Setup::default()
    })
    .await;
    let unknown = daemon.run(sh("nobodys", "echo hushed")).await.unwrap_err();
    assert_eq!(reason(&unknown), "PROFILE_UNKNOWN");
    let invalid = daemon.run(hook([])).await.unwrap_err();
    assert_eq!(reason(&invalid), "INVALID_REQUEST");
    let consent = daemon.run(sh("strict", "true")).await.unwrap_err();
    assert_eq!(reason(&consent), "CONSENT_REQUIRED");

    let journal = daemon.journal();
    let lines = refusals(&daemon);
    assert_eq!((journal.len(), lines.len()), (3, 3), "{lines:#?}");
    let uid = getuid();
    for ((record, line), (level, reason, profile)) in journal.iter().zip(&lines).zip([
        ("WARN", "PROFILE_UNKNOWN", " profile=\"nobodys\""),
        ("INFO", "INVALID_REQUEST", ""),
        ("WARN", "CONSENT_REQUIRED", " profile=\"strict\""),
    ]) {
        let (run, pid) = (record["run_id"].as_str().unwrap(), &record["peer"]["pid"]);
        let expected =
            format!("refused reason=\"{reason}\" uid={uid} pid={pid}{profile} run=\"{run}\"");
        assert!(line.contains(&expected), "{line}\n{expected}");
        assert!(line.contains(&format!(" {level} ")), "{line}");
    }
    // The operator reads the command that allows a hook here; no other line shows the hook's command.
    assert!(lines[2].contains(" approve=hookjail allow"));
    assert!(!daemon.log().contains("hushed"), "{}", daemon.log());
}

#[tokio::test]
async fn a_hook_that_ran_and_cannot_be_recorded_is_one_line() {
    let daemon = Daemon::start().await;
    let script = "echo >begun; until test -e go; do sleep 0.02; done";
    let request = writing(&daemon, script);
    let mut client = daemon.client();
    let call = tokio::spawn(async move { client.execute(request).await });
    until("the hook's begin", || {
        daemon.workspace().join("begun").exists()
    })
    .await;
    let journal = daemon.path().join("state/audit/journal.jsonl");
    let full = fs::metadata(journal).unwrap().len().try_into().unwrap();
    limit_files(&daemon, Some(full));
    fs::write(daemon.workspace().join("go"), "").unwrap();

    let refused = call.await.unwrap().unwrap_err();

    assert_eq!(reason(&refused), "AUDIT_UNAVAILABLE");
    let lines = refusals(&daemon);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    let run = daemon.journal()[0]["run_id"].to_string();
    assert!(lines[0].contains(" WARN ") && lines[0].contains(&format!(" run={run}")));
}

#[tokio::test]
async fn many_refusals_of_one_caller_are_few_lines_and_a_count() {
    let daemon = Daemon::start().await;
    for _ in 0..60 {
        let refused = daemon.run(sh("nobodys", "true")).await.unwrap_err();
        assert_eq!(reason(&refused), "PROFILE_UNKNOWN");
    }
    // Another reason has lines of its own.
    daemon.run(hook([])).await.unwrap_err();
    assert_eq!(daemon.journal().len(), 61);

    let log = finished(daemon).await;

    let lines_about = |reason: &str| {
        let begins = format!(" refused reason=\"{reason}\"");
        log.lines().filter(|line| line.contains(&begins)).count()
    };
    assert_eq!(lines_about("INVALID_REQUEST"), 1, "{log}");
    let summary = Regex::new("more refused reason=\"PROFILE_UNKNOWN\" uid=\\d+ count=(\\d+)");
    let counts = summary.unwrap();
    let counts = counts.captures_iter(&log);
    let counts: Vec<usize> = counts.map(|it| it[1].parse().unwrap()).collect();
    let lines = lines_about("PROFILE_UNKNOWN") - counts.len();
    assert_eq!(lines + counts.iter().sum::<usize>(), 60, "{log}");
    // Ten in each window, of which a slow machine sees several.
    assert!((1..=10 * (counts.len() + 1)).contains(&lines), "{log}");
    assert!(!counts.is_empty(), "{log}");
}

#[tokio::test]
async fn the_log_as_json_is_one_object_a_line_without_secrets() {
    let directory = directory();
    let file = directory.path().join("token");
    fs::write(&file, "pass\"word-of-nine\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let setup = Setup {
        config: format!("[[secret]]\nname = \"token\"\nfile = {file:?}\n"),
        env: vec![("HOOKJAIL_LOG".to_owned(), "trace".to_owned())],
        options: vec!["--json".to_owned()],
        ..Setup::default()
    };
    let daemon = Daemon::in_directory(directory, setup).await.unwrap();
    daemon.run(sh("nobodys", "true")).await.unwrap_err();
    let secret = sh("strict", "true # pass\"word-of-nine");
    daemon.run(secret).await.unwrap();

    let log = finished(daemon).await;
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let refused = |line: &&Value| line["message"] == "refused";
    let refused: Vec<_> = lines.iter().filter(refused).collect();
    assert_eq!(refused.len(), 1, "{log}");
    assert_eq!(refused[0]["level"], "WARN");
    assert_eq!(refused[0]["reason"], "PROFILE_UNKNOWN");
    assert_eq!(refused[0]["uid"], getuid().as_raw());
    assert!(refused[0]["timestamp"].is_string());
    assert!(lines.iter().any(|line| line["message"] == "serving"));
    let allowed = |line: &&Value| line["message"] == "hook allowed by HOOKJAIL_ACCEPT_HOOKS";
    let allowed = lines.iter().find(allowed).unwrap()["command"].as_str();
    assert!(allowed.unwrap().contains("[redacted:token]"), "{allowed:?}");
    assert!(!log.contains("word-of-"), "{log}");
}

mod as_root {
    use super::*;
    use crate::support::needs_root;

    /// Starts the daemon as systemd does: with stderr as a stream to journald, whose socket is in a directory.
    fn under_journald(directory: &str) -> Vec<String> {
        let script = "mount -t tmpfs none /run && mkdir /run/systemd && ln -s \"$1\" /run/systemd/journal || exit
            shift; JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec \"$@\"";
        ["unshare", "-m", "sh", "-c", script, "sh", directory]
            .map(str::to_owned)
            .to_vec()
    }

    /// Returns the fields of a datagram.
    fn fields(mut datagram: &[u8]) -> BTreeMap<String, String> {
        let mut fields = BTreeMap::new();
        while let Some(end) = datagram.iter().position(|byte| *byte == b'\n') {
            let name = String::from_utf8(datagram[..end].to_vec()).unwrap();
            let (length, rest) = datagram[end + 1..].split_first_chunk().unwrap();
            let (value, rest) = rest.split_at(u64::from_le_bytes(*length).try_into().unwrap());
            fields.insert(name, String::from_utf8(value.to_vec()).unwrap());
            datagram = &rest[1..];
        }
        fields
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn journald_gets_priorities_and_fields_and_stderr_nothing() {
        needs_root();
        let directory = directory();
        let journald = UnixDatagram::bind(directory.path().join("socket")).unwrap();
        journald.set_nonblocking(true).unwrap();
        let setup = Setup {
            wrapper: under_journald(directory.path().to_str().unwrap()),
            ..Setup::default()
        };
        let daemon = Daemon::in_directory(directory, setup).await.unwrap();
        daemon.run(sh("nobodys", "true")).await.unwrap_err();

        let mut entries = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length) = journald.recv(&mut buffer) {
            entries.push(fields(&buffer[..length]));
        }
        let entry = |message: &str| {
            let mut found = entries
                .iter()
                .filter(|it| it["MESSAGE"].starts_with(message));
            found.next().unwrap_or_else(|| panic!("{entries:#?}"))
        };
        let serving = entry("serving socket=");
        assert_eq!(serving["PRIORITY"], "6");
        assert!(serving["HOOKJAIL_SOCKET"].ends_with("/sock"));
        let refused = entry("refused reason=\"PROFILE_UNKNOWN\" uid=0 ");
        assert_eq!(refused["PRIORITY"], "4");
        assert_eq!(refused["HOOKJAIL_REASON"], "PROFILE_UNKNOWN");
        assert_eq!(refused["HOOKJAIL_UID"], "0");
        assert_eq!(refused["HOOKJAIL_PROFILE"], "nobodys");
        let record = &daemon.journal()[0];
        assert_eq!(refused["HOOKJAIL_RUN"], record["run_id"].as_str().unwrap());
        assert_eq!(daemon.log(), "");
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn without_journalds_socket_stderr_has_lines_with_priorities() {
        needs_root();
        let setup = Setup {
            wrapper: under_journald("/nonexistent"),
            ..Setup::default()
        };
        let daemon = Daemon::with(setup.clone()).await;
        daemon.run(sh("nobodys", "true")).await.unwrap_err();
        let log = daemon.log();
        let line = Regex::new("^<[3467]>[^<]").unwrap();
        assert!(log.lines().all(|it| line.is_match(it)), "{log}");
        assert!(log.contains("<6>serving socket="), "{log}");
        assert!(log.contains("<4>refused reason=\"PROFILE_UNKNOWN\""));

        // A reason that keeps the daemon from starting is an error.
        let setup = Setup {
            config: "[server]\nmode = \"no mode\"\n".to_owned(),
            ..setup
        };
        let log = Daemon::try_with(setup).await.unwrap_err();
        assert!(log.lines().count() > 1 && log.lines().all(|it| it.starts_with("<3>")));
        assert!(log.starts_with("<3>hookjail: cannot load"), "{log}");
    }
}
