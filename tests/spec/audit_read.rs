//! The journal is verified, queried, watched and exported; reading it steers no terminal and holds no writer up.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start the command line itself, never a hook"
)]

use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::Stdio,
};

use hookjail::pb::{self, audit_service_client::AuditServiceClient};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tonic::{Code, transport::Channel};

use crate::{
    support::{Daemon, Setup, dispatch_at, hook, inline, reason, sh},
    witness::{NOBODY, SOON, ask_as, event, hookjail, until},
};

#[tokio::test]
async fn the_command_line_verifies_a_whole_journal_and_says_what_it_cannot_know_of_a_file() {
    let daemon = three_runs().await;

    let (text, verified) = verify(&daemon, &[]);
    let head = daemon.journal()[5]["hash"].clone();
    let expected = json!({
        "files": 1, "first": 1, "head": head, "holds": true, "last": 6, "path": directory(&daemon),
        "reboots": [], "records": 6, "tail": "noted",
    });
    assert_eq!(
        (text.code, verified.code, verified.json()),
        (0, 0, expected)
    );
    let expected_text = format!(
        "the chain holds: records 1 to 6, files: 1, last hash {}\n",
        head.as_str().unwrap()
    );
    assert_eq!(text.stdout, expected_text);

    let copy = daemon.outside("copy.jsonl");
    fs::copy(live(&daemon), &copy).unwrap();
    let (text, verified) = verify(&daemon, &[copy.to_str().unwrap()]);
    assert_eq!(
        (text.code, verified.json()["tail"].clone()),
        (0, json!("unproven"))
    );
    assert!(text.stdout.contains("its end is unproven"), "{text:?}");
}

#[tokio::test]
async fn the_first_record_that_does_not_hold_is_named_as_text_and_as_json() {
    type Change = fn(&mut Vec<String>);
    let cases: [(&str, Change, u64, &str, &str); 6] = [
        (
            "an edited byte",
            |lines| lines[2] = lines[2].replace("/bin/true", "/bin/trve"),
            3,
            "EDITED",
            "was edited",
        ),
        (
            "a removed line",
            |lines| drop(lines.remove(3)),
            4,
            "MISPLACED",
            "is record 5 where record 4 belongs",
        ),
        (
            "a removed first line",
            |lines| drop(lines.remove(0)),
            1,
            "MISPLACED",
            "is record 2 where record 1 belongs",
        ),
        (
            "swapped lines",
            |lines| lines.swap(1, 2),
            2,
            "MISPLACED",
            "is record 3 where record 2 belongs",
        ),
        (
            "a cut tail",
            |lines| lines.truncate(4),
            5,
            "CUT",
            "record 5 and all up to record 6 are gone",
        ),
        (
            "an inserted line",
            |lines| lines.insert(2, "{}".to_owned()),
            3,
            "MALFORMED",
            "is not a record",
        ),
    ];
    for (what, change, record, reason, words) in cases {
        let daemon = three_runs().await;
        let mut lines: Vec<_> = fs::read_to_string(live(&daemon))
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
        change(&mut lines);
        fs::write(live(&daemon), lines.join("\n") + "\n").unwrap();

        let (text, verified) = verify(&daemon, &[]);

        assert_eq!((text.code, verified.code), (1, 1), "{what}");
        let verified = verified.json();
        let broken = &verified["broken"];
        assert_eq!(verified["holds"], false, "{what}");
        assert_eq!(
            (
                &broken["file"],
                &broken["line"],
                &broken["record"],
                &broken["reason"]
            ),
            (
                &json!(live(&daemon)),
                &json!(record),
                &json!(record),
                &json!(reason)
            ),
            "{what}"
        );
        assert!(
            text.stdout
                .starts_with(&format!("the chain does not hold: record {record}, ")),
            "{text:?}"
        );
        assert!(text.stdout.contains(words), "{what}: {text:?}");
    }
}

#[tokio::test]
async fn a_journal_of_several_files_is_read_and_verified_as_one() {
    let daemon = Daemon::with(Setup {
        config: "[audit]\nrotate_bytes = \"64KiB\"\nkeep_files = 1\nfsync = \"always\"\n"
            .to_owned(),
        ..Setup::default()
    })
    .await;
    // A refusal's record has the whole command.
    let long = "x".repeat(30_000);
    for _ in 0..5 {
        daemon.run(hook(["/bin/true", &long])).await.unwrap();
    }

    let (text, verified) = verify(&daemon, &[]);

    let verified = verified.json();
    let first = verified["first"].as_u64().unwrap();
    assert!(first > 1, "{verified}");
    assert_eq!(
        (&verified["last"], &verified["files"]),
        (&json!(10), &json!(2))
    );
    let removed = format!("records 1 to {} are absent", first - 1);
    assert!(text.stdout.contains(&removed), "{text:?}");
    let queried = sequences(&audit(&daemon, &["--json", "audit", "query"]));
    assert_eq!(queried, (first..=10).collect::<Vec<_>>());
}

#[tokio::test]
async fn records_that_are_young_stay_in_the_journal() {
    let daemon = Daemon::with(Setup {
        config: "[audit]\nrotate_bytes = \"64KiB\"\nkeep_files = 1\nkeep_days = 1\n".to_owned(),
        ..Setup::default()
    })
    .await;
    let long = "x".repeat(30_000);
    for _ in 0..8 {
        daemon.run(hook(["/bin/true", &long])).await.unwrap();
    }

    let (_, verified) = verify(&daemon, &[]);

    let verified = verified.json();
    assert_eq!(
        (&verified["first"], &verified["last"]),
        (&json!(1), &json!(16))
    );
    assert!(verified["files"].as_u64().unwrap() > 3, "{verified}");
    let log = daemon.log();
    let warnings = log.matches("the journal keeps more files than `audit.keep_files`");
    assert_eq!(warnings.count(), 1, "{log}");
}

#[tokio::test]
async fn queries_find_the_same_in_the_files_and_at_the_daemon() {
    let daemon = Daemon::start().await;
    let mut guard = sh("strict", "exit 3");
    guard.hook.as_mut().unwrap().name = "guard".to_owned();
    guard.session_id = "s-1".to_owned();
    daemon.run(guard.clone()).await.unwrap();
    daemon.run(hook(["/bin/true"])).await.unwrap();
    guard.profile = "nowhere".to_owned();
    daemon.run(guard).await.unwrap_err();
    let run = daemon.journal()[0]["run_id"].as_str().unwrap().to_owned();
    let uid = nix::unistd::geteuid().to_string();

    for (words, expected) in [
        (vec![], vec![1, 2, 3, 4, 5]),
        (vec!["--limit", "2"], vec![1, 2]),
        (vec!["--hook", "guard"], vec![1, 2, 5]),
        (vec!["--session", "s-1"], vec![1, 2, 5]),
        (vec!["--profile", "strict"], vec![1, 2, 3, 4]),
        (vec!["--run", &run], vec![1, 2]),
        (vec!["--uid", &uid], vec![1, 2, 3, 4, 5]),
        (vec!["--uid", "54321"], vec![]),
        (vec!["--end", "exited"], vec![2, 4]),
        (vec!["--end", "refused", "--hook", "guard"], vec![5]),
        (vec!["--since", "2099-01-01T00:00:00Z"], vec![]),
        (
            vec!["--until", "2099-01-01T00:00:00Z", "--hook", "guard"],
            vec![1, 2, 5],
        ),
    ] {
        let files = [vec!["--json", "audit", "query"], words.clone()].concat();
        let socket = daemon.path().join("sock").display().to_string();
        let by_daemon = [files.clone(), vec!["--connect", &socket]].concat();
        let files = audit(&daemon, &files);
        assert_eq!(sequences(&files), expected, "{words:?}");
        assert_eq!(files.stdout, audit(&daemon, &by_daemon).stdout, "{words:?}");
    }
    // The output is the journal's own line.
    let first = audit(&daemon, &["--json", "audit", "query", "--limit", "1"]).stdout;
    assert_eq!(
        first,
        fs::read_to_string(live(&daemon))
            .unwrap()
            .lines()
            .next()
            .unwrap()
            .to_owned()
            + "\n"
    );
    let wrong = audit(&daemon, &["audit", "query", "--end", "finished"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
}

#[tokio::test]
async fn records_are_found_by_the_session_that_only_the_event_tells() {
    let daemon = Daemon::start().await;
    let dispatch = |contract: pb::Contract, point: &str, event, named: &str| pb::DispatchRequest {
        contract: contract.into(),
        inline_hooks: vec![inline("guard", "true")],
        session_id: named.to_owned(),
        ..dispatch_at(point, &event)
    };
    for request in [
        dispatch(
            pb::Contract::DockerAgent,
            "turn_end",
            json!({"session_id": "a"}),
            "",
        ),
        dispatch(
            pb::Contract::Loom,
            "session.end",
            json!({"sessionId": "b"}),
            "",
        ),
        // The request's own value counts first.
        dispatch(
            pb::Contract::DockerAgent,
            "turn_end",
            json!({"session_id": "c"}),
            "d",
        ),
    ] {
        daemon.dispatch(request).await;
    }
    let mut run = sh("strict", "exit 0");
    run.contract = pb::Contract::ClaudeCode.into();
    run.event = event(json!({"session_id": "e"}).to_string());
    run.event.as_mut().unwrap().point = "Stop".to_owned();
    daemon.run(run).await.unwrap();

    for (session, expected) in [
        ("a", vec![1, 2]),
        ("b", vec![3, 4]),
        ("c", vec![]),
        ("d", vec![5, 6]),
        ("e", vec![7, 8]),
    ] {
        let found = audit(&daemon, &["--json", "audit", "query", "--session", session]);
        assert_eq!(sequences(&found), expected, "{session}: {found:?}");
    }
}

#[tokio::test]
async fn what_is_shown_of_a_record_does_not_steer_the_terminal() {
    let daemon = Daemon::start().await;
    daemon
        .run(hook(["/bin/true", "a\u{1b}[2Jb\nc\u{9b}"]))
        .await
        .unwrap();
    // The path that is not there is in the message of the refusal.
    daemon.run(hook(["/bin/true\u{1b}[2J"])).await.unwrap_err();

    let shown = [
        audit(&daemon, &["audit", "query"]).stdout,
        audit(&daemon, &["audit", "tail"]).stdout,
        audit(&daemon, &["audit", "export", "--format", "csv"]).stdout,
    ];
    for shown in shown {
        let steers = |c: char| c.is_control() && c != '\n';
        assert!(!shown.contains(steers), "{shown:?}");
        assert!(shown.contains("/bin/true"), "{shown:?}");
    }
}

#[tokio::test]
async fn tail_shows_the_last_records_and_follows_those_of_other_daemons() {
    let daemon = three_runs().await;
    let last = audit(&daemon, &["--json", "audit", "tail", "-n", "2"]);
    assert_eq!(sequences(&last), [5, 6]);

    let socket = daemon.path().join("sock").display().to_string();
    for words in [vec![], vec!["--connect", &socket]] {
        let before = daemon.journal().len() as u64;
        let words = [vec!["--json", "audit", "tail", "-f", "-n", "1"], words].concat();
        let mut command = hookjail(&daemon.path().join("hookjail.toml"), &words);
        let mut tail = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
        let mut next = || sequence(&lines.next().unwrap().unwrap());
        assert_eq!(next(), before);

        // The private daemon of a `run` in the same state is another writer.
        let config = daemon.path().join("hookjail.toml");
        let ran = hookjail(&config, &["run", "--", "/bin/true"])
            .output()
            .unwrap();
        assert!(ran.status.success(), "{ran:?}");
        assert_eq!([next(), next()], [before + 1, before + 2]);
        let journal = daemon.journal();
        assert_ne!(journal[0]["instance"], journal.last().unwrap()["instance"]);
        tail.kill().unwrap();
        tail.wait().unwrap();
    }
}

/// A start has the hook's event where the operator has events kept, as an end has the contract's own.
#[tokio::test]
async fn every_reader_has_the_records_with_captured_events() {
    let daemon = Daemon::with(Setup {
        config: "[audit]\ncapture = [\"event\", \"stdout\", \"stderr\"]\n".to_owned(),
        ..Setup::default()
    })
    .await;
    let mut watched = client_of(&daemon)
        .watch(pb::AuditServiceWatchRequest::default())
        .await
        .unwrap()
        .into_inner();
    for _ in 0..2 {
        let mut request = sh("strict", "cat; exit 3");
        request.hook.as_mut().unwrap().name = "guard".to_owned();
        daemon.run(request).await.unwrap();
    }
    let all = [1, 2, 3, 4];
    let kept = daemon.journal();
    assert_eq!(kept.len(), all.len());
    assert!(kept[0]["event"]["text"].is_string(), "{}", kept[0]);

    let socket = daemon.path().join("sock").display().to_string();
    let uid = nix::unistd::geteuid().to_string();
    let query = ["--json", "audit", "query"];
    for words in [
        &[][..],
        &["--connect", &socket],
        &["--profile", "strict"],
        &["--uid", &uid],
        &["--hook", "guard", "--connect", &socket],
    ] {
        let queried = audit(&daemon, &[&query, words].concat());
        assert_eq!(sequences(&queried), all, "{words:?}");
    }
    let export = audit(&daemon, &["audit", "export"]);
    assert_eq!(export.code, 0);
    assert_eq!(sequences(&export), [1, 2, 3, 4, 4]);
    let tail = audit(&daemon, &["--json", "audit", "tail", "--lines", "9"]);
    assert_eq!(sequences(&tail), all);
    let stats = audit(&daemon, &["--json", "audit", "stats"]);
    let whole: Value = serde_json::from_str(stats.stdout.lines().last().unwrap()).unwrap();
    let expected = json!({"records": 4, "unreadable": 0, "without_group": 0, "without_start": 0});
    assert_eq!(whole, expected);
    for expected in all {
        let next = tokio::time::timeout(SOON, watched.message()).await;
        let record = next.expect("a record").unwrap().unwrap().record.unwrap();
        assert_eq!(record.sequence, expected);
    }
}

/// A later version wrote them. Each is whole and hashed, and no reader may leave it out.
#[tokio::test]
async fn a_record_of_a_later_version_is_passed_on_as_it_is() {
    let daemon = three_runs().await;
    let text = fs::read_to_string(live(&daemon)).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let later = [
        lines[0].replacen("\"uid\":", "\"was_uid\":", 1),
        lines[1].replacen("\"outcome\":\"exited\"", "\"outcome\":{\"later\":1}", 1),
        lines[2].replacen("\"record\":\"started\"", "\"record\":\"later\"", 1),
    ];
    for (later, written) in later.iter().zip(&lines) {
        assert_ne!(later, written);
    }
    let text = later.join("\n") + "\n" + &lines[3..].join("\n") + "\n";
    fs::write(live(&daemon), text).unwrap();
    let query = audit(&daemon, &["--json", "audit", "query"]);
    assert_eq!(sequences(&query), [1, 2, 3, 4, 5, 6]);
    let export = audit(&daemon, &["audit", "export"]);
    let lines: Vec<_> = export.stdout.lines().take(3).collect();
    assert_eq!(
        (export.code, lines),
        (0, later.each_ref().map(String::as_str).to_vec())
    );
}

#[tokio::test]
async fn an_export_that_leaves_out_a_line_ends_with_1() {
    let daemon = three_runs().await;
    let text = fs::read_to_string(live(&daemon)).unwrap();
    fs::write(
        live(&daemon),
        text.replacen("{\"sequence\":3,", "\"sequence\":3,", 1),
    )
    .unwrap();
    let export = audit(&daemon, &["audit", "export"]);
    assert_eq!(sequences(&export), [1, 2, 4, 5, 6, 6]);
    assert_eq!(export.code, 1);
}

#[tokio::test]
async fn an_export_ends_with_the_hash_of_the_chains_end() {
    let daemon = three_runs().await;
    let head = daemon.journal()[5]["hash"].clone();

    let lines = audit(&daemon, &["audit", "export", "--end", "exited"]).stdout;
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let sequences: Vec<_> = lines
        .iter()
        .map(|line| line["sequence"].as_u64().unwrap())
        .collect();
    assert_eq!(sequences, [2, 4, 6, 6]);
    let end = json!({ "record": "export", "records": 3, "sequence": 6, "hash": head });
    assert_eq!(lines[3], end);

    let csv = audit(&daemon, &["audit", "export", "--format", "csv"]).stdout;
    let rows: Vec<Vec<_>> = csv.lines().map(|row| row.split(',').collect()).collect();
    assert_eq!((rows.len(), rows[0].len(), rows[0][13]), (8, 14, "hash"));
    assert_eq!(
        (rows[7][2], rows[7][13]),
        ("\"export\"", &*format!("{head}"))
    );
    assert_eq!(rows[2][9], "\"exited 0\"");
}

#[tokio::test]
async fn the_contracts_own_events_are_in_the_journal_without_what_the_hook_wrote() {
    let daemon = Daemon::start().await;
    let mut reyn = sh("strict", "echo OUTPUT-MARKER; exit 2");
    reyn.contract = pb::Contract::Reyn.into();
    reyn.mode = "shell_exec".to_owned();
    reyn.event = dispatch_at("turn_end", &json!({})).event;
    let pushed = daemon.run(reyn.clone()).await.unwrap();
    let mut infer = reyn;
    infer.contract = pb::Contract::Infer.into();
    infer.mode = String::new();
    infer.event = dispatch_at("post_session", &json!({})).event;
    let quoted = daemon.run(infer).await;
    let quoted = quoted.unwrap().events.remove(0);
    assert!(quoted.json.contains("OUTPUT-MARKER"), "{quoted:?}");

    let shown = audit(&daemon, &["--json", "audit", "query", "--events"]).stdout;

    let events: Vec<Value> = shown
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [first, second] = &events[..] else {
        panic!("{shown}")
    };
    let event = &pushed.events[0];
    let fields: Value = serde_json::from_str(&event.json).unwrap();
    assert_eq!(
        (&first["event"], &first["fields"]),
        (&json!("hook_shell_executed"), &fields)
    );
    assert_eq!(first["run_id"], pushed.audit.unwrap().run_id);
    assert_eq!(
        (&second["event"], &second["fields"]["exit_code"]),
        (&json!("hook_command"), &json!(2))
    );
    assert!(
        !fs::read_to_string(live(&daemon))
            .unwrap()
            .contains("OUTPUT-MARKER\\n")
    );
    assert_eq!(second["fields"].get("output"), None);
    let line = "shell_exec: /bin/sh -c 'echo OUTPUT-MARKER; exit 2' [rc=2]";
    assert_eq!((&*event.display, &first["display"]), (line, &json!(line)));
    assert_eq!((&*quoted.display, second.get("display")), ("", None));
}

#[tokio::test]
async fn statistics_are_of_all_records_and_name_what_was_not_read() {
    let says = |action: &str, category: &str, checks: u32| {
        let metadata =
            json!({"policyChecks": checks, "toolCategory": category, "note": "OUTPUT-MARKER"});
        let reply = json!({"action": action, "reason": "r", "additionalContext": ["c"], "warnings": ["w"], "metadata": metadata});
        format!("echo '{reply}'")
    };
    let hook = |point: &str, name: &str, script: &str| {
        format!(
            "[[hook]]\ncontract = \"basecoat\"\npoint = {point:?}\nname = {name:?}\ncommand = [\"/bin/sh\", \"-c\", {}]\n",
            json!(script)
        )
    };
    let config = [
        "[[secret]]\nname = \"token\"\npattern = \"tok-[0-9]+\"\n".to_owned(),
        hook("PreToolUse", "shell", &says("injectContext", "shell", 1)),
        hook("PreToolUse", "secret", &says("block", "tok-123", 4)),
        hook("OnError", "breaks", "exit 3"),
        "[[hook]]\ncontract = \"basecoat\"\npoint = \"OnError\"\nname = \"missing\"\ncommand = [\"/nowhere/hook\"]\n".to_owned(),
    ];
    let daemon = Daemon::with_hooks(&config.concat()).await;
    for point in ["PreToolUse", "PreToolUse", "OnError"] {
        let request = pb::DispatchRequest {
            contract: pb::Contract::Basecoat.into(),
            ..dispatch_at(point, &json!({}))
        };
        daemon.dispatch(request).await;
    }
    let statistics = |words: &[&str]| {
        let words = [&["--json", "audit", "stats"], words].concat();
        let printed = audit(&daemon, &words);
        assert_eq!(printed.code, 0, "{printed:?}");
        let lines = printed
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        lines.collect::<Vec<Value>>()
    };
    let records = daemon.journal();
    let [errors, calls, turn_ends] = &statistics(&[])[..] else {
        panic!("{:?}", statistics(&[]))
    };
    let counts = |group: &Value| {
        [
            "runs",
            "blocked",
            "warnings",
            "contexts",
            "rewrites",
            "failed",
            "timed_out",
            "refused",
            "interrupted",
        ]
        .map(|name| group[name].as_u64().unwrap())
    };
    assert_eq!(
        (&errors["contract"], &errors["point"], counts(errors)),
        (
            &json!("basecoat"),
            &json!("OnError"),
            [1, 0, 1, 0, 0, 1, 0, 1, 0]
        )
    );
    assert_eq!(
        (&calls["point"], counts(calls)),
        (&json!("PreToolUse"), [4, 2, 4, 4, 0, 0, 0, 0, 0])
    );
    let walls: Vec<_> = records
        .iter()
        .filter_map(|it| it["usage"]["wall_us"].as_u64())
        .collect();
    let latency = &calls["latency_us"];
    assert_eq!(latency["max"].as_u64(), walls[..4].iter().copied().max());
    assert!(
        latency["median"].as_u64() <= latency["p95"].as_u64(),
        "{latency}"
    );
    assert_eq!(
        calls["measures"],
        json!({
            "policyChecks": {"count": 4, "max": 4.0, "mean": 2.5, "min": 1.0},
            "toolCategory": {"words": {"[redacted:token]": 2, "shell": 2}},
        })
    );
    let whole =
        json!({"records": records.len(), "unreadable": 0, "without_group": 0, "without_start": 0});
    assert_eq!(*turn_ends, whole);
    // Of a hook's other output, nothing is kept.
    let ends: Vec<_> = records
        .iter()
        .filter(|it| it["record"] == "ended")
        .collect();
    assert_eq!(
        ends[0]["measures"],
        json!({"policyChecks": 1, "toolCategory": "shell"})
    );
    let kept = json!(ends).to_string();
    assert!(
        !kept.contains("OUTPUT-MARKER") && !kept.contains("tok-123"),
        "{kept}"
    );

    let names: Vec<_> = statistics(&["--by", "hook"])
        .iter()
        .map(|group| group["hook"].clone())
        .collect();
    assert_eq!(
        names,
        [
            json!("breaks"),
            json!("missing"),
            json!("secret"),
            json!("shell"),
            json!(null)
        ]
    );
    assert_eq!(statistics(&["--since", "2100-01-01T00:00:00Z"]), [whole]);
    let one = statistics(&["--by", "contract", "--hook", "shell"]);
    assert_eq!((one.len(), &one[0]["runs"]), (2, &json!(2)));
    let people = audit(&daemon, &["audit", "stats"]).stdout;
    for words in [
        "basecoat PreToolUse  runs 4, blocked 2, ",
        "policyChecks  4 times, 1 to 4, mean 2.500",
        "records\n",
    ] {
        assert!(people.contains(words), "{people}");
    }

    // A line that is no record, and an end without a start.
    let line = r#"{"sequence":99,"time":"2026-01-01T00:00:01Z","record":"ended","run_id":"z","outcome":"exited"}"#;
    let text = fs::read_to_string(live(&daemon)).unwrap();
    fs::write(live(&daemon), format!("{text}no record\n{line}\n")).unwrap();
    let last = statistics(&[]).pop().unwrap();
    assert_eq!(
        last,
        json!({"records": records.len() + 1, "unreadable": 1, "without_group": 0, "without_start": 1})
    );
    let people = audit(&daemon, &["audit", "stats"]).stdout;
    assert!(people.contains("1 lines that are no records"), "{people}");
}

#[tokio::test]
async fn people_are_shown_a_contracts_event_in_its_own_form() {
    let daemon = Daemon::start().await;
    let command = |mode: &str, script: &str| {
        let mut request = sh("strict", script);
        request.contract = pb::Contract::Reyn.into();
        request.mode = mode.to_owned();
        request.event = dispatch_at("turn_end", &json!({})).event;
        request
    };
    let mut infer = command("", "exit 3");
    infer.contract = pb::Contract::Infer.into();
    infer.event = dispatch_at("post_session", &json!({})).event;
    for request in [
        command("shell_exec", "exit 0"),
        infer,
        // Its event must not steer a terminal.
        command("shell_push", "printf '\u{1b}[2J'; exit 2"),
        hook(["/bin/true"]),
    ] {
        daemon.run(request).await.unwrap();
    }
    let of_daemon = daemon.path().join("sock").display().to_string();
    let shown = |words: &[&str]| {
        let from_files = audit(&daemon, &[&["audit"], words].concat()).stdout;
        let by_daemon = [&["audit"], words, &["--connect", &of_daemon]].concat();
        assert_eq!(audit(&daemon, &by_daemon).stdout, from_files, "{words:?}");
        // Without sequence and time.
        let lines = from_files
            .lines()
            .map(|line| line.trim_start().splitn(3, ' '));
        let forms = lines.map(|mut words| words.nth(2).unwrap().to_owned());
        forms.collect::<Vec<_>>()
    };

    let all = shown(&["query", "--events"]);

    let [first, second, third] = &all[..] else {
        panic!("{all:?}")
    };
    assert_eq!(first, "shell_exec: /bin/sh -c 'exit 0'");
    let object: Value = serde_json::from_str(second).unwrap();
    assert_eq!(
        (&object["type"], &object["exit_code"]),
        (&json!("hook_command"), &json!(3))
    );
    assert_eq!(
        third,
        "shell_push: /bin/sh -c 'printf '\"'\"'\u{fffd}[2J'\"'\"'; exit 2' [rc=2]"
    );
    // Records without an event do not count.
    assert_eq!(shown(&["query", "--events", "--limit", "2"]), all[..2]);
    assert_eq!(shown(&["tail", "--events", "-n", "1"]), all[2..]);
}

#[tokio::test]
async fn what_a_hook_rewrites_is_in_its_end_record_by_its_digest() {
    let daemon = Daemon::start().await;
    let reply = r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"command":"ls"}}}"#;
    let mut request = sh("strict", &format!("echo '{reply}'"));
    request.contract = pb::Contract::ClaudeCode.into();
    let event = json!({ "tool_name": "Bash", "tool_input": { "command": "rm" } });
    request.event = dispatch_at("PreToolUse", &event).event;

    let response = daemon.run(request).await.unwrap();

    let rewritten = response.verdict.unwrap().updated_input_json.unwrap();
    let verdict = &daemon.journal()[1]["verdict"];
    let digest = format!("{:x}", Sha256::digest(rewritten.as_bytes()));
    assert_eq!(verdict["updated_input_sha256"], digest);
    assert_eq!(verdict["decision"], "ALLOW");
    assert_eq!(verdict.get("updated_output_sha256"), None);
}

#[tokio::test]
async fn a_watcher_is_told_what_is_written_from_then_on_and_the_ends_of_what_had_begun() {
    let daemon = Daemon::start().await;
    daemon.run(hook(["/bin/true"])).await.unwrap();
    let mut request = crate::witness::writing(
        &daemon,
        "echo >begun; until test -e go; do sleep 0.02; done",
    );
    request.hook.as_mut().unwrap().name = "slow".to_owned();
    let mut client = daemon.client();
    let call = tokio::spawn(async move { client.execute(request).await });
    let workspace = daemon.workspace();
    until("the hook's begin", || workspace.join("begun").exists()).await;

    let watch = |filter| pb::AuditServiceWatchRequest {
        filter: Some(filter),
        ..pb::AuditServiceWatchRequest::default()
    };
    let named = pb::AuditFilter {
        hook: "slow".to_owned(),
        ..pb::AuditFilter::default()
    };
    let mut all = client_of(&daemon)
        .watch(watch(pb::AuditFilter::default()))
        .await
        .unwrap()
        .into_inner();
    let mut named = client_of(&daemon)
        .watch(watch(named))
        .await
        .unwrap()
        .into_inner();
    daemon.run(hook(["/bin/true"])).await.unwrap();
    fs::write(workspace.join("go"), "").unwrap();
    call.await.unwrap().unwrap();

    for expected in [4, 5, 6] {
        let next = tokio::time::timeout(SOON, all.message()).await;
        let record = next.expect("a record").unwrap().unwrap().record.unwrap();
        assert_eq!(record.sequence, expected);
        assert_eq!(sequence(&record.json), expected);
    }
    let end = tokio::time::timeout(SOON, named.message()).await;
    let record = end.expect("the end").unwrap().unwrap().record.unwrap();
    assert_eq!(record.sequence, 6);
}

#[tokio::test]
async fn a_record_longer_than_the_client_takes_ends_the_stream_by_name() {
    let daemon = Daemon::start().await;
    daemon.run(hook(["/bin/true"])).await.unwrap();
    let long = "x".repeat(100_000);
    daemon.run(hook(["/bin/true", &long])).await.unwrap();
    let ask = |max_reply_bytes| pb::QueryRequest {
        max_reply_bytes,
        ..pb::QueryRequest::default()
    };

    let mut records = client_of(&daemon)
        .query(ask(Some(50_000)))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        records
            .message()
            .await
            .unwrap()
            .unwrap()
            .record
            .unwrap()
            .sequence,
        1
    );
    assert_eq!(
        records
            .message()
            .await
            .unwrap()
            .unwrap()
            .record
            .unwrap()
            .sequence,
        2
    );
    let error = records.message().await.unwrap_err();
    assert_eq!(
        (reason(&error).as_str(), error.code()),
        ("RECORD_TOO_LARGE", Code::ResourceExhausted)
    );

    let mut records = client_of(&daemon)
        .query(ask(None))
        .await
        .unwrap()
        .into_inner();
    let mut count = 0;
    while records.message().await.unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 4);
}

#[tokio::test]
async fn watchers_that_are_gone_or_do_not_read_hold_neither_runs_nor_the_shutdown_up() {
    let mut daemon = Daemon::start().await;
    let watch = pb::AuditServiceWatchRequest::default;
    let gone = client_of(&daemon).watch(watch()).await.unwrap();
    drop(gone);
    let mut still = client_of(&daemon)
        .watch(watch())
        .await
        .unwrap()
        .into_inner();
    let _does_not_read = client_of(&daemon).watch(watch()).await.unwrap();
    let long = "x".repeat(100_000);
    for _ in 0..5 {
        daemon.run(hook(["/bin/true", &long])).await.unwrap();
    }

    let pid = nix::unistd::Pid::from_raw(daemon.pid().try_into().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let mut read = 0;
    let end = loop {
        match still.message().await {
            Ok(Some(_)) => read += 1,
            end => break end,
        }
    };

    assert!(read <= 10, "{read}");
    assert_eq!(reason(&end.unwrap_err()), "DRAINING");
    until("the daemon's end", || {
        daemon.child().try_wait().unwrap().is_some()
    })
    .await;
}

fn client_of(daemon: &Daemon) -> AuditServiceClient<Channel> {
    AuditServiceClient::new(daemon.channel())
}

async fn three_runs() -> Daemon {
    let daemon = Daemon::start().await;
    for _ in 0..3 {
        daemon.run(hook(["/bin/true"])).await.unwrap();
    }
    daemon
}

/// Output of a command.
#[derive(Debug)]
struct Said {
    code: i32,
    stdout: String,
}

impl Said {
    fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "{self:?}");
        serde_json::from_str(&self.stdout).unwrap()
    }
}

fn audit(daemon: &Daemon, words: &[&str]) -> Said {
    let output = hookjail(&daemon.path().join("hookjail.toml"), words)
        .output()
        .unwrap();
    Said {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
    }
}

/// Verifies as text and as JSON.
fn verify(daemon: &Daemon, words: &[&str]) -> (Said, Said) {
    let words = [&["audit", "verify"], words].concat();
    let text = audit(daemon, &words);
    (text, audit(daemon, &[&["--json"], &words[..]].concat()))
}

fn directory(daemon: &Daemon) -> PathBuf {
    daemon.path().join("state/audit")
}

fn live(daemon: &Daemon) -> PathBuf {
    directory(daemon).join("journal.jsonl")
}

fn sequences(output: &Said) -> Vec<u64> {
    output.stdout.lines().map(sequence).collect()
}

fn sequence(line: &str) -> u64 {
    let line: Value = serde_json::from_str(line).unwrap();
    line["sequence"].as_u64().unwrap()
}

mod as_root {
    use super::*;
    use crate::support::needs_root;

    #[tokio::test]
    #[ignore = "needs root"]
    async fn who_is_not_listed_reads_the_records_of_its_own_requests_alone() {
        needs_root();
        for (listed, uids) in [(false, vec![0, NOBODY]), (true, vec![0, NOBODY])] {
            let caller = NOBODY;
            let also = if listed { caller } else { 4711 };
            let daemon = Daemon::with(Setup {
                config: format!(
                    "[server]\ncallers = [{caller}]\nsocket_mode = \"0660\"\n[audit]\nreaders = [{also}]\n"
                ),
                ..Setup::default()
            })
            .await;
            daemon.run(hook(["/bin/true"])).await.unwrap();
            let ran = ask_as(NOBODY, &daemon, "sock", "run", &["--", "/bin/true"]);
            assert!(ran.status.success(), "{ran:?}");
            let ask = |words: &[&str]| ask_as(NOBODY, &daemon, "sock", "audit query", words);

            let output = ask(&[]);

            let text = String::from_utf8(output.stdout).unwrap();
            let records = text
                .lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap());
            let records: Vec<_> = records.collect();
            let mut askers: Vec<_> = records
                .iter()
                .filter_map(|record| record["peer"]["uid"].as_u64())
                .collect();
            askers.sort_unstable();
            let expected: Vec<u64> = if listed {
                uids.into_iter().map(u64::from).collect()
            } else {
                vec![NOBODY.into()]
            };
            assert_eq!(askers, expected, "{text}");
            assert_eq!(records.len(), 2 * expected.len(), "{text}");
            if !listed {
                let refused = crate::witness::json(&ask(&["--uid", "0"]));
                assert_eq!(refused["error"]["reason"], "PEER_NOT_ALLOWED");
            }
        }
    }
}
