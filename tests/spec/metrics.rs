//! The metrics of the daemon: every local client can read them at a local address, and do nothing else there.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt,
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use hookjail::pb::{
    self, OutcomeKind, admin_service_client::AdminServiceClient,
    consent_service_client::ConsentServiceClient,
};
use regex::Regex;
use serde_json::json;

use crate::{
    audit_failure::limit_files,
    fail_closed::demanding_nothing,
    support::{Daemon, SHIPPED, Setup, dial, dispatch_at, endpoint, hook, inline, reason, sh},
    witness::{SOON, a_minute, end, until, until_it, wall_time, writing},
};

/// A listener at a port that is free, which the daemon's log names.
pub(crate) const LISTENER: &str = "[metrics]\nlisten = \"127.0.0.1:0\"\n";

async fn measured(config: &str) -> Daemon {
    Daemon::with(Setup {
        config: format!("{LISTENER}{config}"),
        ..Setup::default()
    })
    .await
}

fn address(daemon: &Daemon) -> SocketAddr {
    let log = daemon.log();
    let (_, after) = log.split_once("serving metrics address=").unwrap();
    after.lines().next().unwrap().parse().unwrap()
}

/// Sends bytes on a connection of their own, and reads until its end.
fn send(daemon: &Daemon, bytes: &[u8]) -> String {
    let mut stream = connect(daemon);
    stream.write_all(bytes).unwrap();
    let mut answer = String::new();
    // Where the daemon read less than was sent, the connection may end with a reset, after the answer.
    if let Err(error) = stream.read_to_string(&mut answer) {
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }
    answer
}

fn connect(daemon: &Daemon) -> TcpStream {
    let stream = TcpStream::connect(address(daemon)).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

fn scrape(daemon: &Daemon) -> String {
    let answer = send(daemon, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(
        head.contains("content-type: text/plain; version=0.0.4"),
        "{head}"
    );
    body.to_owned()
}

/// Returns the samples, by name and labels as they are written.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        })
        .collect()
}

/// Returns the value of a sample.
pub(crate) fn value(daemon: &Daemon, sample: &str) -> f64 {
    samples(&scrape(daemon))[sample]
}

/// Returns the samples of one metric that are not 0, without its name.
fn counted(daemon: &Daemon, metric: &str) -> BTreeMap<String, f64> {
    let of_metric = |(name, value): (String, f64)| {
        let labels = name.strip_prefix(metric)?.to_owned();
        (labels.is_empty() || labels.starts_with('{')).then_some((labels, value))
    };
    let all = samples(&scrape(daemon)).into_iter().filter_map(of_metric);
    all.filter(|(_, value)| *value != 0.0).collect()
}

fn expected<const N: usize>(samples: [(&str, f64); N]) -> BTreeMap<String, f64> {
    let owned = samples.map(|(labels, value)| (labels.to_owned(), value));
    owned.into()
}

fn run_labels(contract: &str, outcome: &str, profile: &str) -> String {
    format!("{{contract=\"{contract}\",outcome=\"{outcome}\",profile=\"{profile}\"}}")
}

#[tokio::test]
async fn each_end_and_each_refusal_is_counted_once_where_it_belongs() {
    let daemon = measured("").await;
    let nothing = samples(&scrape(&daemon));
    assert_eq!(nothing["hookjail_run_seconds_count"], 0.0);
    assert_eq!(counted(&daemon, "hookjail_runs_total"), expected([]));
    assert_eq!(counted(&daemon, "hookjail_refusals_total"), expected([]));

    for script in ["exit 0", "exit 3", "exit 0"] {
        daemon.run(sh("strict", script)).await.unwrap();
    }
    daemon
        .run(sh("pipeline", "/bin/true | /bin/true"))
        .await
        .unwrap();
    let killed = daemon.run(sh("strict", "kill -9 $$")).await.unwrap();
    assert_eq!(end(&killed).0, OutcomeKind::Signaled);
    let late = pb::ExecuteRequest {
        timeout: wall_time(1),
        ..hook(["/bin/sleep", &a_minute()])
    };
    let late = daemon.run(late).await.unwrap();
    assert_eq!(end(&late).0, OutcomeKind::TimedOut);
    let loom = pb::ExecuteRequest {
        contract: pb::Contract::Loom.into(),
        event: Some(pb::Event {
            json: "{}".into(),
            point: "tool.pre".to_owned(),
            raw: false,
        }),
        ..sh("strict", "exit 0")
    };
    daemon.run(loom).await.unwrap();
    for _ in 0..2 {
        let refused = daemon.run(sh("nobodys", "exit 0")).await.unwrap_err();
        assert_eq!(reason(&refused), "PROFILE_UNKNOWN");
    }
    let refused = daemon.run(hook([])).await.unwrap_err();
    assert_eq!(reason(&refused), "INVALID_REQUEST");

    let runs = BTreeMap::from([
        (run_labels("observe", "exited", "strict"), 3.0),
        (run_labels("observe", "exited", "pipeline"), 1.0),
        (run_labels("observe", "signaled", "strict"), 1.0),
        (run_labels("observe", "timed_out", "strict"), 1.0),
        (run_labels("loom", "exited", "strict"), 1.0),
    ]);
    assert_eq!(counted(&daemon, "hookjail_runs_total"), runs);
    assert_eq!(
        counted(&daemon, "hookjail_refusals_total"),
        expected([
            ("{reason=\"INVALID_REQUEST\"}", 1.0),
            ("{reason=\"PROFILE_UNKNOWN\"}", 2.0)
        ])
    );
    let all = samples(&scrape(&daemon));
    for histogram in ["queue", "run", "setup"] {
        assert_eq!(all[&format!("hookjail_{histogram}_seconds_count")], 7.0);
        let last = format!("hookjail_{histogram}_seconds_bucket{{le=\"+Inf\"}}");
        assert_eq!(all[&last], 7.0);
    }
    // The late one took the rest of a second.
    assert_eq!(all["hookjail_run_seconds_bucket{le=\"5\"}"], 7.0);
    assert!(all["hookjail_run_seconds_bucket{le=\"0.25\"}"] <= 6.0);
    let sum = all["hookjail_run_seconds_sum"];
    assert!((0.5..5.0).contains(&sum), "{sum}");
    assert_eq!(all["hookjail_unconfined_runs_total"], 0.0);
    assert_eq!(all["hookjail_faults_total"], 0.0);
    // A start and an end of each run, and each refusal.
    assert_eq!(all["hookjail_journal_records_total"], 17.0);
    assert_eq!(daemon.journal().len(), 17);
    assert_eq!(all["hookjail_journal_failures_total"], 0.0);
    assert_eq!(all["hookjail_journal_last_failure_timestamp_seconds"], 0.0);
    assert_eq!(all["hookjail_journal_writable"], 1.0);
}

#[tokio::test]
async fn denials_and_axes_are_counted_as_replies_report_them() {
    let daemon = measured("").await;
    let mut axes = BTreeMap::<String, f64>::new();
    let mut denials = BTreeMap::<String, f64>::new();
    for script in ["(true)", "exit 0", "(true); (true)"] {
        let response = daemon.run(sh("strict", script)).await.unwrap();
        for axis in &response.confinement.unwrap().axes {
            let name = axis.axis().as_str_name().replace("AXIS_", "");
            let coverage = axis.coverage().as_str_name().replace("COVERAGE_", "");
            let labels = format!("{{axis=\"{name}\",coverage=\"{coverage}\"}}");
            *axes.entry(labels.to_lowercase()).or_default() += 1.0;
        }
        for denial in response.denials.iter().filter(|it| !it.incidental) {
            let name = denial.axis().as_str_name().replace("AXIS_", "");
            let times: u32 = denial.times.try_into().unwrap();
            *denials
                .entry(format!("{{axis=\"{}\"}}", name.to_lowercase()))
                .or_default() += f64::from(times);
        }
    }

    assert_eq!(counted(&daemon, "hookjail_run_axes_total"), axes);
    assert_eq!(axes.values().sum::<f64>(), 3.0 * 14.0);
    assert_eq!(counted(&daemon, "hookjail_denials_total"), denials);
    assert!(denials["{axis=\"spawn\"}"] >= 2.0, "{denials:?}");
}

#[tokio::test]
async fn a_dispatch_is_counted_by_its_decision_and_each_of_its_hooks_as_a_run() {
    let daemon = measured("").await;
    let dispatch = async |scripts: &[&str]| {
        let hooks = scripts.iter().enumerate();
        let request = pb::DispatchRequest {
            contract: pb::Contract::Loom.into(),
            inline_hooks: hooks
                .map(|(index, script)| inline(&format!("h{index}"), script))
                .collect(),
            profile: "strict".to_owned(),
            ..dispatch_at("tool.pre", &json!({"tool_name": "x"}))
        };
        daemon.dispatch(request).await
    };
    dispatch(&[]).await;
    dispatch(&["exit 0", "exit 0"]).await;
    dispatch(&["echo no >&2; exit 1"]).await;

    let decisions = counted(&daemon, "hookjail_dispatches_total");
    assert_eq!(
        decisions,
        expected([
            ("{decision=\"ALLOW\"}", 1.0),
            ("{decision=\"DENY\"}", 1.0),
            ("{decision=\"NONE\"}", 1.0)
        ])
    );
    let runs = BTreeMap::from([(run_labels("loom", "exited", "strict"), 3.0)]);
    assert_eq!(counted(&daemon, "hookjail_runs_total"), runs);
}

#[tokio::test]
async fn a_run_that_nothing_confines_is_counted() {
    let daemon = Daemon::with(Setup {
        config: format!("{LISTENER}[backends.profiles]\nopen = [\"noop\"]\n"),
        profiles: vec![("open".to_owned(), demanding_nothing())],
        ..Setup::default()
    })
    .await;
    daemon.run(sh("strict", "exit 0")).await.unwrap();
    let open = pb::ExecuteRequest {
        require_confirmed: Some(false),
        ..sh("open", "exit 0")
    };
    daemon.run(open).await.unwrap();

    assert_eq!(value(&daemon, "hookjail_unconfined_runs_total"), 1.0);
    // A profile that the operator made is a value of the label.
    let runs = counted(&daemon, "hookjail_runs_total");
    assert_eq!(runs[&run_labels("observe", "exited", "open")], 1.0);
}

#[tokio::test]
async fn no_caller_adds_a_label_or_a_value() {
    let daemon = measured("").await;
    daemon.run(sh("strict", "exit 0")).await.unwrap();
    let names = |text: &str| samples(text).into_keys().collect::<BTreeSet<_>>();
    let before = scrape(&daemon);
    let secret = "zq7secret";

    for number in 0..50 {
        let odd = format!("{secret}{number}");
        let request = pb::ExecuteRequest {
            event: Some(pb::Event {
                json: json!({"session_id": odd}).to_string().into(),
                point: odd.clone(),
                raw: false,
            }),
            request_id: odd.clone(),
            session_id: odd.clone(),
            ..sh("strict", &format!("exit 0 # {odd}"))
        };
        let mut named = request.clone();
        named.hook.as_mut().unwrap().name = odd.clone();
        daemon.run(request.clone()).await.unwrap();
        named.request_id.clear();
        daemon.run(named).await.unwrap();
        let unknown = pb::ExecuteRequest {
            profile: odd.clone(),
            request_id: String::new(),
            ..request.clone()
        };
        assert_eq!(
            reason(&daemon.run(unknown).await.unwrap_err()),
            "PROFILE_UNKNOWN"
        );
        let quoted = pb::ExecuteRequest {
            profile: format!("strict\",{odd}=\""),
            request_id: String::new(),
            ..request
        };
        assert_eq!(
            reason(&daemon.run(quoted).await.unwrap_err()),
            "PROFILE_UNKNOWN"
        );
        let dispatch = pb::DispatchRequest {
            contract: pb::Contract::Loom.into(),
            inline_hooks: vec![inline(&odd, "exit 0")],
            profile: odd.clone(),
            ..dispatch_at("tool.pre", &json!({"session_id": odd}))
        };
        drop(daemon.dispatch(dispatch).await);
    }

    let after = scrape(&daemon);
    assert_eq!(names(&before), names(&after));
    assert!(!after.contains(secret), "{after}");
    assert_eq!(
        value(
            &daemon,
            "hookjail_refusals_total{reason=\"PROFILE_UNKNOWN\"}"
        ),
        150.0
    );
    for found in [daemon.path().to_str().unwrap(), "/bin/sh"] {
        assert!(!after.contains(found), "{after}");
    }
    closed(&after);
}

/// Checks that each label has a value of a list that callers cannot change.
fn closed(text: &str) {
    let label = Regex::new("([a-z]+)=\"([^\"]*)\"").unwrap();
    for found in label.captures_iter(text) {
        let (name, value) = (&found[1], &found[2]);
        let is_known = match name {
            "axis" => {
                value == "other"
                    || pb::Axis::from_str_name(&format!("AXIS_{}", value.to_uppercase())).is_some()
            }
            "contract" => {
                pb::Contract::from_str_name(&format!("CONTRACT_{}", value.to_uppercase())).is_some()
            }
            "coverage" => ["degraded", "enforced", "ignored"].contains(&value),
            "decision" => ["ALLOW", "ASK", "BLOCK", "DENY", "NONE"].contains(&value),
            "direction" => ["received", "sent"].contains(&value),
            "le" => value == "+Inf" || value.parse::<f64>().is_ok(),
            "outcome" => {
                let of_notices = ["failed", "limited", "shown", "unserved"];
                let of_connections = ["allowed", "denied", "failed", "unknown"];
                of_notices.contains(&value)
                    || of_connections.contains(&value)
                    || OutcomeKind::from_str_name(&format!("OUTCOME_KIND_{}", value.to_uppercase()))
                        .is_some()
            }
            "profile" => SHIPPED.contains(&value),
            "reason" => value
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte == b'_'),
            "state" => ["confirmed", "unconfirmed"].contains(&value),
            "version" => value == env!("CARGO_PKG_VERSION"),
            _ => false,
        };
        assert!(is_known, "{name}={value}");
    }
}

#[tokio::test]
async fn what_runs_what_waits_and_what_is_asked_are_seen_as_they_are() {
    let daemon = measured("[hooks]\nmax_concurrent = 1\n").await;
    let workspace = daemon.workspace();
    let waiting = || {
        let request = writing(&daemon, "until test -e go; do sleep 0.02; done");
        let mut client = daemon.client();
        tokio::spawn(async move { client.execute(request).await })
    };
    let levels = |daemon: &Daemon| {
        let all = samples(&scrape(daemon));
        ["runs_in_flight", "queued_requests", "pending_questions"]
            .map(|name| all[&format!("hookjail_{name}")])
    };
    assert_eq!(levels(&daemon), [0.0; 3]);

    let calls = [waiting(), waiting(), waiting()];
    until("one that runs and two that wait", || {
        levels(&daemon) == [1.0, 2.0, 0.0]
    })
    .await;
    fs::write(workspace.join("go"), "").unwrap();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    until("nobody", || levels(&daemon) == [0.0; 3]).await;

    let daemon = Daemon::with(Setup {
        ask_for_consent: true,
        config: LISTENER.to_owned(),
        ..Setup::default()
    })
    .await;
    let mut operator = ConsentServiceClient::new(daemon.channel());
    let news = operator.watch(pb::WatchRequest::default()).await.unwrap();
    let mut news = news.into_inner();
    let mut client = daemon.client();
    let call = tokio::spawn(async move { client.execute(hook(["/bin/true"])).await });
    let news_item = news.message().await.unwrap().unwrap().news.unwrap();
    let pb::watch_response::News::Pending(pending) = news_item else {
        unreachable!("{news_item:?}");
    };
    assert_eq!(levels(&daemon), [0.0, 0.0, 1.0]);
    let no = pb::DecideRequest {
        consent_id: pending.consent_id,
        decision: pb::ConsentDecision::No.into(),
    };
    operator.decide(no).await.unwrap();
    assert_eq!(
        reason(&call.await.unwrap().unwrap_err()),
        "CONSENT_REQUIRED"
    );
    assert_eq!(levels(&daemon), [0.0; 3]);
    assert_eq!(
        counted(&daemon, "hookjail_refusals_total"),
        expected([("{reason=\"CONSENT_REQUIRED\"}", 1.0)])
    );
}

async fn reload(daemon: &Daemon) -> Result<(), tonic::Status> {
    let socket = daemon.path().join("sock-admin");
    let connect = tower::service_fn(move |_| dial(socket.clone()));
    let channel = endpoint().connect_with_connector(connect).await.unwrap();
    let mut admin = AdminServiceClient::new(channel);
    admin.reload(pb::ReloadRequest {}).await.map(drop)
}

fn seconds() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap().as_secs_f64().floor()
}

#[tokio::test]
async fn a_reload_is_dated_and_one_that_is_refused_is_counted_and_leaves_the_date() {
    const RELOADED: &str = "hookjail_last_reload_timestamp_seconds";
    const SUCCESSFUL: &str = "hookjail_last_reload_successful";
    let before = seconds();
    let daemon = Daemon::with(Setup {
        config: LISTENER.to_owned(),
        shipped: &SHIPPED,
        ..Setup::default()
    })
    .await;
    let all = samples(&scrape(&daemon));
    let (started, first) = (all["hookjail_start_time_seconds"], all[RELOADED]);
    assert!((before..=seconds()).contains(&started) && (started..=seconds()).contains(&first));
    let shipped: f64 = u32::try_from(SHIPPED.len()).unwrap().into();
    let confirmed = || value(&daemon, "hookjail_profiles{state=\"confirmed\"}");
    assert_eq!(confirmed(), shipped);
    assert_eq!(
        value(&daemon, "hookjail_profiles{state=\"unconfirmed\"}"),
        0.0
    );
    let profile = daemon.path().join("profiles/modest.toml");
    fs::write(
        &profile,
        "extends = \"strict\"\ndescription = \"Modest.\"\n",
    )
    .unwrap();
    fs::set_permissions(&profile, fs::Permissions::from_mode(0o600)).unwrap();

    // The next second.
    until_it("a later date", async || {
        reload(&daemon).await.unwrap();
        value(&daemon, RELOADED) > first
    })
    .await;
    assert!(value(&daemon, RELOADED) <= seconds());
    assert_eq!(confirmed(), shipped + 1.0);
    assert_eq!(value(&daemon, "hookjail_reload_failures_total"), 0.0);
    assert_eq!(value(&daemon, SUCCESSFUL), 1.0);

    let second = value(&daemon, RELOADED);
    until("a later second", || seconds() > second).await;
    let file = daemon.path().join("hookjail.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("127.0.0.1:0", "127.0.0.1:1")).unwrap();
    let refused = reload(&daemon).await.unwrap_err();
    assert_eq!(reason(&refused), "RELOAD_REFUSED");
    assert!(refused.message().contains("metrics.listen"), "{refused}");
    assert_eq!(value(&daemon, "hookjail_reload_failures_total"), 1.0);
    assert_eq!(value(&daemon, SUCCESSFUL), 0.0);
    assert_eq!(value(&daemon, RELOADED), second);
    assert_eq!(value(&daemon, "hookjail_start_time_seconds"), started);

    fs::write(&file, text).unwrap();
    reload(&daemon).await.unwrap();
    assert_eq!(value(&daemon, SUCCESSFUL), 1.0);
}

#[tokio::test]
async fn a_journal_that_cannot_be_written_is_counted_and_dated() {
    const WRITABLE: &str = "hookjail_journal_writable";
    let daemon = measured("").await;
    let request = writing(
        &daemon,
        "echo >begun; until test -e go; do sleep 0.02; done",
    );
    let mut client = daemon.client();
    let call = tokio::spawn(async move { client.execute(request).await });
    until("the hook's begin", || {
        daemon.workspace().join("begun").exists()
    })
    .await;
    let before = seconds();
    let journal = daemon.path().join("state/audit/journal.jsonl");
    let length = fs::metadata(journal).unwrap().len();
    limit_files(&daemon, Some(length.try_into().unwrap()));

    fs::write(daemon.workspace().join("go"), "").unwrap();
    let refused = call.await.unwrap().unwrap_err();

    assert_eq!(reason(&refused), "AUDIT_UNAVAILABLE");
    let all = samples(&scrape(&daemon));
    assert_eq!(all[WRITABLE], 0.0);
    assert_eq!(all["hookjail_journal_records_total"], 1.0);
    assert!(all["hookjail_journal_failures_total"] >= 1.0);
    let last = all["hookjail_journal_last_failure_timestamp_seconds"];
    assert!((before..=seconds()).contains(&last), "{last}");
    // The hook ran, and its caller got an error because there is no record of it.
    let runs = run_labels("observe", "exited", "workspace-rw");
    assert_eq!(all[&format!("hookjail_runs_total{runs}")], 1.0);
    let refusals = "hookjail_refusals_total{reason=\"AUDIT_UNAVAILABLE\"}";
    assert_eq!(all[refusals], 1.0);

    limit_files(&daemon, None);
    until("the late records", || value(&daemon, WRITABLE) == 1.0).await;
    assert_eq!(daemon.records(), ["started", "ended"]);
    assert_eq!(value(&daemon, "hookjail_journal_records_total"), 2.0);
}

#[tokio::test]
async fn nothing_but_get_of_metrics_is_answered_and_no_body_is_read() {
    let daemon = measured("").await;
    let status = |request: &str| {
        let answer = send(&daemon, request.as_bytes());
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    let head = "HTTP/1.1\r\nHost: localhost\r\n";
    assert_eq!(status(&format!("GET /metrics {head}\r\n")), "200");
    assert_eq!(status("GET /metrics?debug=1 HTTP/1.0\r\n\r\n"), "200");
    for path in [
        "/",
        "/metrics/",
        "/-/reload",
        "/-/quit",
        "/debug/pprof",
        "/%6Detrics",
    ] {
        assert_eq!(status(&format!("GET {path} {head}\r\n")), "404", "{path}");
    }
    for method in [
        "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "ODD",
    ] {
        assert_eq!(
            status(&format!("{method} /metrics {head}\r\n")),
            "405",
            "{method}"
        );
    }
    // The daemon does not wait for a body that never comes.
    let long = format!("POST /metrics {head}Content-Length: 1000000000000\r\n\r\nx");
    let began = Instant::now();
    assert_eq!(status(&long), "405");
    assert_eq!(
        status(&format!("GET /metrics {head}Content-Length: 9\r\n\r\n")),
        "200"
    );
    assert!(began.elapsed() < Duration::from_secs(4));
    // The daemon rejects bytes that are not HTTP/1, and a head without end.
    for nonsense in [
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        "\0\0\0\0\n\n".to_owned(),
        format!(
            "GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n",
            "x".repeat(100_000)
        ),
        format!("GET /metrics HTTP/1.1\r\n{}\r\n", "X: x\r\n".repeat(1000)),
    ] {
        assert!(
            ["", "400", "431"].contains(&&*status(&nonsense)),
            "{nonsense:.20}"
        );
    }
    // One answer to a connection.
    let twice = format!("GET /metrics {head}\r\n").repeat(2);
    assert_eq!(
        send(&daemon, twice.as_bytes()).matches("HTTP/1.1 ").count(),
        1
    );
    assert_eq!(daemon.journal(), [serde_json::Value::Null; 0]);
    assert_eq!(status(&format!("GET /metrics {head}\r\n")), "200");
}

/// Returns the number of sockets of a process in this state that the kernel lists in a file of `/proc/net`.
fn sockets(pid: u32, file: &str, state: &str) -> usize {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = descriptors.filter_map(|it| fs::read_link(it.ok()?.path()).ok());
    let own_sockets: BTreeSet<_> = links.map(|link| link.display().to_string()).collect();
    let text = fs::read_to_string(Path::new("/proc/net").join(file)).unwrap_or_default();
    let rows = text
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let is_own =
        |row: &Vec<&str>| row[3] == state && own_sockets.contains(&format!("socket:[{}]", row[9]));
    rows.filter(is_own).count()
}

const ESTABLISHED: &str = "01";
const LISTENING: &str = "0A";

#[tokio::test]
async fn without_the_key_nothing_listens() {
    let (with, without) = (measured("").await, Daemon::start().await);
    let listening =
        |daemon: &Daemon| ["tcp", "tcp6"].map(|file| sockets(daemon.pid(), file, LISTENING));

    assert_eq!(listening(&with), [1, 0]);
    assert_eq!(listening(&without), [0, 0]);
    assert!(!without.log().contains("metrics"), "{}", without.log());
}

#[tokio::test]
async fn an_address_that_is_not_local_or_taken_keeps_the_daemon_from_starting() {
    let with = async |listen: &str| {
        let setup = Setup {
            config: format!("[metrics]\nlisten = \"{listen}\"\n"),
            ..Setup::default()
        };
        Daemon::try_with(setup).await.unwrap_err()
    };
    let log = with("0.0.0.0:0").await;
    assert!(log.contains("`metrics.listen` is `0.0.0.0:0`"), "{log}");
    assert!(log.contains("a local proxy or sidecar"), "{log}");

    let first = measured("").await;
    let taken = address(&first).to_string();
    let log = with(&taken).await;
    assert!(
        log.contains(&format!(
            "cannot serve metrics on {taken} (`metrics.listen`)"
        )),
        "{log}"
    );
    assert!(log.contains("its own address"), "{log}");
    assert!(!log.contains("serving socket"), "{log}");
    scrape(&first);
}

#[tokio::test]
async fn clients_that_are_many_or_slow_stop_neither_hooks_nor_scrapes() {
    let daemon = measured("").await;
    daemon.run(hook(["/bin/true"])).await.unwrap();
    let mut slow = Vec::new();
    for number in 0..200 {
        let mut stream = connect(&daemon);
        // Half a head, or nothing at all.
        if number % 2 == 0 {
            stream.write_all(b"GET /metrics HT").unwrap();
        }
        slow.push(stream);
    }
    until("their acceptance", || {
        sockets(daemon.pid(), "tcp", ESTABLISHED) == 16
    })
    .await;

    let began = Instant::now();
    for expected in 2..12 {
        daemon.run(hook(["/bin/true"])).await.unwrap();
        let count = value(&daemon, "hookjail_run_seconds_count");
        assert_eq!(count, f64::from(expected));
        // The scrape's own connection may be about to close.
        until("the limit", || {
            sockets(daemon.pid(), "tcp", ESTABLISHED) <= 16
        })
        .await;
    }
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    // The first ones have made room for others.
    let mut answer = Vec::new();
    let ended = slow[0].read_to_end(&mut answer);
    assert!(answer.is_empty(), "{ended:?}");
}

#[tokio::test]
async fn a_client_that_sends_or_reads_slowly_is_left_after_five_seconds() {
    let daemon = measured("").await;
    let began = Instant::now();
    let mut silent = connect(&daemon);
    let mut slow = connect(&daemon);
    slow.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
    let mut drip = slow.try_clone().unwrap();
    let dripping = std::thread::spawn(move || {
        // Until the daemon has closed: a byte at a time is no reason to wait longer.
        while drip.write_all(b"X: x\r\n").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });

    for stream in [&mut silent, &mut slow] {
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        let took = began.elapsed();
        assert!((Duration::from_secs(4)..SOON).contains(&took), "{took:?}");
        assert!(!answer.starts_with(b"HTTP/1.1 200"));
    }
    dripping.join().unwrap();
    assert_eq!(sockets(daemon.pid(), "tcp", ESTABLISHED), 0);
}
