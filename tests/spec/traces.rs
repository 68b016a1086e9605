//! Calls belong to their callers' traces, hooks to the calls', and a collector gets a span of each stage. No collector can
//! cost a call.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use hookjail::pb;
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};
use serde_json::json;
use tokio::net::{TcpListener, TcpSocket};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, transport::Server};

use crate::{
    adopt::{CASES, ended, in_place, places, written},
    metrics::value as sample,
    operate::{status, status_line},
    shutdown::{exit_status, terminate},
    support::{Daemon, Setup, dispatch_at, hook, inline, journal, program, reason, sh},
    witness::{a_minute, end, until, until_it, wall_time},
};

/// The trace and the span of a caller.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

fn caller_parent() -> String {
    format!("00-{TRACE}-{CALLER}-01")
}

/// Requests that a collector received.
#[derive(Clone, Debug, Default)]
struct Received {
    requests: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    /// Whether the collector rejects every span.
    rejects: bool,
}

#[tonic::async_trait]
impl TraceService for Received {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let request = request.into_inner();
        let spans = spans_of(&request).count();
        self.requests.lock().unwrap().push(request);
        let partial = self.rejects.then(|| ExportTracePartialSuccess {
            rejected_spans: i64::try_from(spans).unwrap(),
            error_message: "no room".to_owned(),
        });
        Ok(Response::new(ExportTraceServiceResponse {
            partial_success: partial,
        }))
    }
}

fn spans_of(request: &ExportTraceServiceRequest) -> impl Iterator<Item = &Span> {
    let scopes = request.resource_spans.iter().flat_map(|it| &it.scope_spans);
    scopes.flat_map(|scope| &scope.spans)
}

impl Received {
    /// Returns the spans of the call with this id of its run, once they are there; by name.
    async fn of_run(&self, run_id: &str) -> BTreeMap<String, Span> {
        let with_run = |span: &Span| text(span, "hookjail.run_id").as_deref() == Some(run_id);
        until("the spans of a run", || self.all().iter().any(with_run)).await;
        let all = self.all();
        let call = all.iter().find(|span| with_run(span)).unwrap().clone();
        let below = all.iter().filter(|span| {
            let parent = all.iter().find(|it| it.span_id == span.parent_span_id);
            let above = parent.map(|parent| &parent.parent_span_id);
            span.parent_span_id == call.span_id || above == Some(&call.span_id)
        });
        let of_it = below.chain([&call]);
        of_it
            .map(|span| (span.name.clone(), span.clone()))
            .collect()
    }

    fn all(&self) -> Vec<Span> {
        let requests = self.requests.lock().unwrap();
        requests.iter().flat_map(spans_of).cloned().collect()
    }
}

/// Starts a collector.
async fn collector(received: &Received) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = TraceServiceServer::new(received.clone());
    let served = Server::builder().add_service(service);
    tokio::spawn(served.serve_with_incoming(TcpListenerStream::new(listener)));
    address
}

fn exporting(address: SocketAddr, more: &str) -> Setup {
    Setup {
        config: format!(
            "[traces]\nendpoint = \"http://{address}\"\n{more}\n[metrics]\nlisten = \"127.0.0.1:0\"\n"
        ),
        ..Setup::default()
    }
}

/// Starts a daemon that exports to a collector.
async fn traced() -> (Daemon, Received) {
    let received = Received::default();
    let address = collector(&received).await;
    (Daemon::with(exporting(address, "")).await, received)
}

fn value<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a Value> {
    let found = attributes.iter().find(|it| it.key == key)?;
    found.value.as_ref()?.value.as_ref()
}

fn text(span: &Span, key: &str) -> Option<String> {
    let value = value(&span.attributes, key)?;
    let Value::StringValue(text) = value else {
        unreachable!("{key} is no text: {value:?}")
    };
    Some(text.clone())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn failure(span: &Span) -> Option<&str> {
    let status = span.status.as_ref()?;
    assert_eq!(status.code(), StatusCode::Error);
    Some(&status.message)
}

fn with_metadata<T>(message: T, metadata: &[(&'static str, &str)]) -> Request<T> {
    let mut request = Request::new(message);
    for (name, value) in metadata {
        request.metadata_mut().append(*name, value.parse().unwrap());
    }
    request
}

/// Runs a hook that prints its variables of traces; returns these and the id of its run.
async fn variables(
    daemon: &Daemon,
    request: pb::ExecuteRequest,
    metadata: &[(&'static str, &str)],
) -> (String, String) {
    let mut client = daemon.client();
    let answer = client.execute(with_metadata(request, metadata));
    let answer = answer.await.unwrap().into_inner();
    let printed = String::from_utf8(answer.stdout.to_vec()).unwrap();
    (printed, run_id(daemon, &answer))
}

fn printing() -> pb::ExecuteRequest {
    sh("strict", "echo ${TRACEPARENT-none} ${TRACESTATE-none}")
}

#[tokio::test]
async fn a_call_is_in_its_callers_trace_and_its_hook_below_the_calls_run() {
    let (daemon, received) = traced().await;
    let metadata = [
        ("traceparent", &*caller_parent()),
        ("tracestate", "a=1"),
        ("tracestate", "b=2"),
    ];

    let (printed, run_id) = variables(&daemon, printing(), &metadata).await;

    let spans = received.of_run(&run_id).await;
    let names: BTreeSet<_> = spans.keys().map(String::as_str).collect();
    let expected = [
        "hookjail.admission",
        "hookjail.execute",
        "hookjail.interpret",
        "hookjail.queue",
        "hookjail.record",
        "hookjail.run",
        "hookjail.setup",
    ];
    assert_eq!(names, expected.into());
    let call = &spans["hookjail.execute"];
    assert_eq!(hex(&call.parent_span_id), CALLER);
    assert_eq!(call.kind(), SpanKind::Server);
    // Flags: sampled; the parent is known to be remote.
    assert_eq!(call.flags, 0x301);
    for (name, span) in &spans {
        assert_eq!(hex(&span.trace_id), TRACE, "{name}");
        assert_eq!(span.trace_state, "a=1,b=2", "{name}");
        assert_eq!(failure(span), None, "{name}");
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
        if name == "hookjail.execute" {
            continue;
        }
        let above = match name.as_str() {
            "hookjail.queue" => &spans["hookjail.admission"],
            _ => call,
        };
        assert_eq!(span.parent_span_id, above.span_id, "{name}");
        assert_eq!((span.kind(), span.flags), (SpanKind::Internal, 0x101));
        assert!(span.start_time_unix_nano >= above.start_time_unix_nano);
        assert!(span.end_time_unix_nano <= above.end_time_unix_nano);
    }
    let run = &spans["hookjail.run"];
    assert_eq!(
        printed,
        format!("00-{TRACE}-{}-01 a=1,b=2\n", hex(&run.span_id))
    );
    assert_eq!(
        value(&run.attributes, "process.exit.code"),
        Some(&Value::IntValue(0))
    );
    let stages = ["admission", "setup", "run", "interpret", "record"];
    for pair in stages.windows(2) {
        let [before, after] = [pair[0], pair[1]].map(|name| &spans[&format!("hookjail.{name}")]);
        assert_eq!(before.end_time_unix_nano, after.start_time_unix_nano);
    }
    let attributes: BTreeMap<_, _> = call
        .attributes
        .iter()
        .map(|it| (it.key.as_str(), text(call, &it.key).unwrap()))
        .collect();
    let expected = [
        ("hookjail.backend", backend(&daemon)),
        ("hookjail.contract", "observe".to_owned()),
        ("hookjail.outcome", "exited".to_owned()),
        ("hookjail.profile", "strict".to_owned()),
        ("hookjail.run_id", run_id.clone()),
        ("hookjail.verdict", "NONE".to_owned()),
        ("rpc.method", "hookjail.v1.HookService/Execute".to_owned()),
        ("rpc.system.name", "grpc".to_owned()),
    ];
    assert_eq!(attributes, expected.into());
    let requests = received.requests.lock().unwrap();
    let resource = requests[0].resource_spans[0].resource.as_ref().unwrap();
    assert_eq!(
        value(&resource.attributes, "service.name"),
        Some(&Value::StringValue("hookjail".to_owned()))
    );
    let records = journal(daemon.path());
    let started = records.iter().find(|it| it["record"] == "started").unwrap();
    assert_eq!(started["trace"], TRACE);
}

/// Returns the id of the run that a response is of.
fn run_id(daemon: &Daemon, response: &pb::ExecuteResponse) -> String {
    let records = journal(daemon.path());
    let started = records.iter().filter(|it| it["record"] == "started");
    let mut of_it = started.filter(|it| it["request_id"] == *response.request_id);
    of_it.next().unwrap()["run_id"].as_str().unwrap().to_owned()
}

fn backend(daemon: &Daemon) -> String {
    let records = journal(daemon.path());
    let started = records.iter().find(|it| it["record"] == "started").unwrap();
    started["backend"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn without_a_context_or_with_an_invalid_one_a_trace_begins() {
    let (daemon, received) = traced().await;
    let mut traces = BTreeSet::new();
    let twice = [
        ("traceparent", &*caller_parent()),
        ("traceparent", &*caller_parent()),
    ];
    let upper = caller_parent().to_uppercase();
    for metadata in [
        &[][..],
        &[("traceparent", "00-1-2-01")],
        &[("traceparent", &upper), ("tracestate", "a=1")],
        &[("tracestate", "a=1")],
        &twice,
    ] {
        let (printed, run_id) = variables(&daemon, printing(), metadata).await;
        let spans = received.of_run(&run_id).await;
        let call = &spans["hookjail.execute"];
        assert!(call.parent_span_id.is_empty(), "{metadata:?}");
        assert_eq!(call.trace_state, "");
        let trace = hex(&call.trace_id);
        let run = hex(&spans["hookjail.run"].span_id);
        assert_eq!(printed, format!("00-{trace}-{run}-01 none\n"));
        traces.insert(trace);
    }
    assert_eq!(traces.len(), 5);
    assert!(!traces.contains(TRACE));
    // The state alone was invalid.
    let metadata = [("traceparent", &*caller_parent()), ("tracestate", "a")];
    let (printed, _) = variables(&daemon, printing(), &metadata).await;
    assert!(printed.starts_with(&format!("00-{TRACE}-")), "{printed}");
    assert!(printed.ends_with("-01 none\n"), "{printed}");
}

#[tokio::test]
async fn without_a_collector_hooks_get_their_callers_context_as_it_is_and_else_none() {
    let daemon = Daemon::start().await;
    let own_parent = "00-11111111111111111111111111111111-2222222222222222-01";
    let mut offered = printing();
    let environment = &mut offered.hook.as_mut().unwrap().env;
    environment.insert("TRACEPARENT".to_owned(), own_parent.to_owned());
    environment.insert("TRACESTATE".to_owned(), "mine=1".to_owned());

    let parent = caller_parent();
    let metadata = [("traceparent", &*parent), ("tracestate", "a=1")];
    for (request, metadata, expected) in [
        (printing(), &[][..], "none none\n".to_owned()),
        (printing(), &metadata, format!("{parent} a=1\n")),
        (offered.clone(), &[], format!("{own_parent} mine=1\n")),
        // Two positions that contradict each other: the call's own counts, with its state.
        (offered.clone(), &metadata[..1], format!("{parent} none\n")),
    ] {
        let (printed, _) = variables(&daemon, request, metadata).await;
        assert_eq!(printed, expected);
    }
    let records = journal(daemon.path());
    let started = records.iter().filter(|it| it["record"] == "started");
    let traces: Vec<_> = started.map(|it| it["trace"].as_str()).collect();
    let own_trace = Some("11111111111111111111111111111111");
    assert_eq!(traces, [None, Some(TRACE), own_trace, Some(TRACE)]);
}

#[tokio::test]
async fn a_hooks_own_variable_is_the_context_of_a_call_without_metadata() {
    let (daemon, received) = traced().await;
    let mut request = printing();
    let environment = &mut request.hook.as_mut().unwrap().env;
    environment.insert("TRACEPARENT".to_owned(), caller_parent());

    let (printed, run_id) = variables(&daemon, request, &[]).await;

    let spans = received.of_run(&run_id).await;
    assert_eq!(hex(&spans["hookjail.execute"].parent_span_id), CALLER);
    let run = hex(&spans["hookjail.run"].span_id);
    assert_eq!(printed, format!("00-{TRACE}-{run}-01 none\n"));
}

#[tokio::test]
async fn a_profile_that_does_not_list_the_variables_keeps_them_from_its_hooks() {
    let received = Received::default();
    let address = collector(&received).await;
    let mut setup = exporting(address, "");
    let strict = include_str!("../../sandbox-profiles/strict.toml");
    let unlisted = strict.lines().filter(|line| !line.contains("\"TRACE"));
    let profile = unlisted.collect::<Vec<_>>().join("\n");
    setup.profiles = vec![("quiet".to_owned(), profile)];
    let daemon = Daemon::with(setup).await;
    let quiet = pb::ExecuteRequest {
        profile: "quiet".to_owned(),
        ..printing()
    };

    let (printed, run_id) = variables(&daemon, quiet, &[]).await;

    assert_eq!(printed, "none none\n");
    assert!(received.of_run(&run_id).await.contains_key("hookjail.run"));
}

#[tokio::test]
async fn a_refusal_and_a_late_hook_are_errors_and_a_hook_that_says_no_is_none() {
    let (daemon, received) = traced().await;
    let parent = caller_parent();
    let refused = daemon
        .client()
        .execute(with_metadata(
            sh("nobodys", "exit 0"),
            &[("traceparent", &parent)],
        ))
        .await
        .unwrap_err();
    assert_eq!(reason(&refused), "PROFILE_UNKNOWN");
    let records = journal(daemon.path());
    let record = records.iter().find(|it| it["record"] == "refused").unwrap();
    assert_eq!(record["trace"], TRACE);
    let spans = received.of_run(record["run_id"].as_str().unwrap()).await;
    let names: Vec<_> = spans.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["hookjail.admission", "hookjail.execute", "hookjail.record"]
    );
    for (name, failed) in [
        ("hookjail.execute", Some("PROFILE_UNKNOWN")),
        ("hookjail.admission", Some("PROFILE_UNKNOWN")),
        ("hookjail.record", None),
    ] {
        assert_eq!(failure(&spans[name]), failed, "{name}");
        assert_eq!(text(&spans[name], "error.type").as_deref(), failed);
    }
    let call = &spans["hookjail.execute"];
    assert_eq!(text(call, "hookjail.profile").as_deref(), Some("nobodys"));

    let malformed = daemon.run(hook([])).await.unwrap_err();
    assert_eq!(reason(&malformed), "INVALID_REQUEST");
    let is_malformed = |span: &Span| failure(span) == Some("INVALID_REQUEST");
    until("the span of a malformed request", || {
        received.all().iter().any(is_malformed)
    })
    .await;

    let late = pb::ExecuteRequest {
        timeout: wall_time(1),
        ..hook(["/bin/sleep", &a_minute()])
    };
    let late = daemon.run(late).await.unwrap();
    let spans = received.of_run(&run_id(&daemon, &late)).await;
    for (name, span) in &spans {
        let is_late = ["hookjail.execute", "hookjail.run"].contains(&name.as_str());
        assert_eq!(failure(span), is_late.then_some("timed_out"), "{name}");
    }
    let outcome = text(&spans["hookjail.execute"], "hookjail.outcome");
    assert_eq!(outcome.as_deref(), Some("timed_out"));

    let no = pb::ExecuteRequest {
        contract: pb::Contract::ClaudeCode.into(),
        event: dispatch_at("PreToolUse", &serde_json::json!({"tool_name": "Bash"})).event,
        ..sh("strict", "exit 2")
    };
    let no = daemon.run(no).await.unwrap();
    let spans = received.of_run(&run_id(&daemon, &no)).await;
    assert!(spans.values().all(|span| failure(span).is_none()));
    let call = &spans["hookjail.execute"];
    for (key, expected) in [
        ("hookjail.contract", "claude_code"),
        ("hookjail.outcome", "exited"),
        ("hookjail.point", "PreToolUse"),
        ("hookjail.verdict", "DENY"),
    ] {
        assert_eq!(text(call, key).as_deref(), Some(expected));
    }
    let code = value(&spans["hookjail.run"].attributes, "process.exit.code");
    assert_eq!(code, Some(&Value::IntValue(2)));
}

#[tokio::test]
async fn a_dispatch_is_above_the_calls_of_its_hooks() {
    let (daemon, received) = traced().await;
    let request = pb::DispatchRequest {
        contract: pb::Contract::Loom.into(),
        inline_hooks: vec![inline("one", "exit 0"), inline("two", "echo")],
        profile: "strict".to_owned(),
        workspace: daemon.workspace().display().to_string(),
        ..dispatch_at("tool.pre", &serde_json::json!({}))
    };
    let request = with_metadata(request, &[("traceparent", &*caller_parent())]);

    let answer = daemon.client().dispatch(request).await.unwrap();

    assert_eq!(answer.into_inner().hooks.len(), 2);
    let records = journal(daemon.path());
    let started = records.iter().filter(|it| it["record"] == "started");
    let run_ids = started.map(|it| it["run_id"].as_str().unwrap());
    let mut calls = Vec::new();
    for run_id in run_ids {
        let spans = received.of_run(run_id).await;
        assert!(spans.contains_key("hookjail.run"));
        calls.push(spans["hookjail.execute"].clone());
    }
    until("the span of the dispatch", || {
        let all = received.all();
        all.iter().any(|span| span.name == "hookjail.dispatch")
    })
    .await;
    let all = received.all();
    let dispatch = all.iter().find(|it| it.name == "hookjail.dispatch");
    let dispatch = dispatch.unwrap();
    assert_eq!(hex(&dispatch.parent_span_id), CALLER);
    assert_eq!(dispatch.kind(), SpanKind::Server);
    let decision = text(dispatch, "hookjail.verdict");
    assert_eq!(decision.as_deref(), Some("ALLOW"));
    assert_eq!(calls.len(), 2);
    for call in calls {
        assert_eq!(call.parent_span_id, dispatch.span_id);
        assert_eq!(hex(&call.trace_id), TRACE);
        assert_eq!((call.kind(), call.flags), (SpanKind::Internal, 0x101));
        assert_eq!(text(&call, "rpc.method"), None);
    }
}

/// The spans of a hook that ran: the call and its six stages.
const OF_ONE_RUN: f64 = 7.0;

const DROPPED: &str = "hookjail_spans_dropped_total";

async fn assert_run_and_dropped(daemon: &Daemon, calls: u32) {
    for _ in 0..calls {
        let answer = daemon.run(sh("strict", "exit 3")).await.unwrap();
        assert_eq!(end(&answer).1, Some(3));
    }
    until_it("the count of dropped spans", async || {
        sample(daemon, DROPPED) >= f64::from(calls) * OF_ONE_RUN
    })
    .await;
    assert_eq!(sample(daemon, DROPPED), f64::from(calls) * OF_ONE_RUN);
}

#[tokio::test]
async fn a_collector_that_is_away_or_takes_nothing_costs_spans_that_are_counted_and_no_call() {
    // The port is taken, so that no other test gets it, and no process listens there.
    let taken = TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let nobody = taken.local_addr().unwrap();
    let unwilling = Received {
        rejects: true,
        ..Received::default()
    };
    for (address, why) in [
        (nobody, "tcp connect error"),
        (collector(&unwilling).await, "no room"),
    ] {
        let daemon = Daemon::with(exporting(address, "")).await;
        assert_eq!(sample(&daemon, DROPPED), 0.0);

        assert_run_and_dropped(&daemon, 3).await;

        let log = daemon.log();
        let dropped_lines: Vec<_> = log
            .lines()
            .filter(|it| it.contains("spans were dropped"))
            .collect();
        // Of several exports that failed within a minute the first alone.
        assert_eq!(dropped_lines.len(), 1, "{log}");
        assert!(dropped_lines[0].contains(&address.to_string()), "{log}");
        assert!(dropped_lines[0].contains(why), "{log}");
    }
    // The control: one that takes all.
    let (daemon, received) = traced().await;
    let answer = daemon.run(sh("strict", "exit 3")).await.unwrap();
    received.of_run(&run_id(&daemon, &answer)).await;
    assert_eq!(sample(&daemon, DROPPED), 0.0);
}

#[tokio::test]
async fn status_says_where_traces_go_and_how_the_last_export_ended() {
    let unwilling = Received {
        rejects: true,
        ..Received::default()
    };
    for (received, problem, dropped) in [
        (Received::default(), None, None),
        (unwilling, Some("no room"), Some(OF_ONE_RUN)),
    ] {
        let endpoint = collector(&received).await;
        let daemon = Daemon::with(exporting(endpoint, "")).await;
        let of_traces = || status(&daemon).1["traces"].clone();
        let endpoint = format!("http://{endpoint}");
        assert_eq!(of_traces(), json!({"endpoint": endpoint}));
        let line = status_line(&daemon, "traces");
        let rest = ", 0 spans dropped, nothing exported yet";
        assert_eq!(line, format!("{endpoint}{rest}"));

        daemon.run(sh("strict", "exit 3")).await.unwrap();
        until("an export", || of_traces()["lastExport"].is_string()).await;

        let report = of_traces();
        assert_eq!(report["problem"], json!(problem));
        assert_eq!(report["dropped"], json!(dropped.map(|it| it.to_string())));
        let line = status_line(&daemon, "traces");
        let (end, dropped) = match problem {
            Some(problem) => (
                format!(": {problem}"),
                "7 spans dropped, last export failed ",
            ),
            None => ("Z".to_owned(), "0 spans dropped, last export 2"),
        };
        assert!(line.contains(dropped) && line.ends_with(&end), "{line}");
    }
}

#[tokio::test]
async fn a_collector_that_is_silent_costs_no_call_and_keeps_no_daemon_from_its_end() {
    // The kernel accepts, and no process reads.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let mut daemon = Daemon::with(exporting(address, "")).await;
    for _ in 0..3 {
        let answer = daemon.run(sh("strict", "exit 3")).await.unwrap();
        assert_eq!(end(&answer).1, Some(3));
    }

    terminate(&daemon);

    assert!(exit_status(&mut daemon).await.success());
    let log = daemon.log();
    assert!(log.contains("spans were dropped at shutdown"), "{log}");
    assert!(log.contains("spans=21"), "{log}");
}

#[tokio::test]
async fn what_is_not_exported_yet_is_exported_when_the_daemon_ends() {
    let (mut daemon, received) = traced().await;
    let answer = daemon.run(sh("strict", "exit 0")).await.unwrap();
    let run_id = run_id(&daemon, &answer);

    terminate(&daemon);

    assert!(exit_status(&mut daemon).await.success());
    let with_run = |span: &Span| text(span, "hookjail.run_id").as_deref() == Some(&run_id);
    assert!(received.all().iter().any(with_run));
}

#[tokio::test]
async fn a_trace_that_is_not_recorded_has_no_spans_and_its_hooks_are_told() {
    let received = Received::default();
    let address = collector(&received).await;
    let daemon = Daemon::with(exporting(address, "sample_ratio = 0")).await;
    let unsampled = caller_parent().replace("-01", "-00");

    let (printed, _) = variables(&daemon, printing(), &[("traceparent", &unsampled)]).await;
    assert_eq!(printed, format!("{unsampled} none\n"));
    let (printed, _) = variables(&daemon, printing(), &[]).await;
    assert!(printed.ends_with("-00 none\n"), "{printed}");

    // One that its caller records is, and comes after the others would.
    let metadata = [("traceparent", &*caller_parent())];
    let (_, run_id) = variables(&daemon, printing(), &metadata).await;
    assert_eq!(received.of_run(&run_id).await.len(), 7);
    assert_eq!(received.all().len(), 7);
}

#[tokio::test]
async fn an_answer_that_is_given_again_has_no_second_span() {
    let (daemon, received) = traced().await;
    let request = pb::ExecuteRequest {
        request_id: "once".to_owned(),
        ..sh("strict", "exit 0")
    };
    let first = daemon.run(request.clone()).await.unwrap();
    let again = daemon.run(request.clone()).await.unwrap();
    assert_eq!(end(&first), end(&again));
    let other = pb::ExecuteRequest {
        timeout: wall_time(7),
        ..request
    };
    let refused = daemon.run(other).await.unwrap_err();
    assert_eq!(reason(&refused), "REQUEST_ID_CONFLICT");

    // After the others.
    let last = daemon.run(sh("strict", "exit 0")).await.unwrap();
    received.of_run(&run_id(&daemon, &last)).await;

    let all = received.all();
    let calls = all.iter().filter(|it| it.name == "hookjail.execute");
    let failures: Vec<_> = calls.map(failure).collect();
    assert_eq!(failures, [None, Some("REQUEST_ID_CONFLICT"), None]);
}

#[tokio::test]
async fn no_span_has_what_a_hook_gets_or_says_nor_a_registered_secret() {
    let received = Received::default();
    let address = collector(&received).await;
    let mut setup = exporting(address, "");
    setup.config += "[[secret]]\nname = \"point\"\npattern = \"s3cr3t\"\n";
    let daemon = Daemon::with(setup).await;
    let mut request = pb::ExecuteRequest {
        event: Some(pb::Event {
            json: r#"{"prompt":"needle-event"}"#.into(),
            point: "at.s3cr3t.time".to_owned(),
            raw: false,
        }),
        request_id: "needle-request".to_owned(),
        session_id: "needle-session".to_owned(),
        ..sh("strict", "echo needle-output; echo needle-error >&2")
    };
    let hook = request.hook.as_mut().unwrap();
    hook.name = "needle-hook".to_owned();
    hook.env.insert("TZ".to_owned(), "needle-value".to_owned());
    hook.workspace = daemon.workspace().display().to_string();
    let answer = daemon.run(request).await.unwrap();
    assert_eq!(answer.stdout, "needle-output\n");

    let spans = received.of_run(&run_id(&daemon, &answer)).await;

    let call = &spans["hookjail.execute"];
    let point = text(call, "hookjail.point");
    assert_eq!(point.as_deref(), Some("at.[redacted:point].time"));
    let sent = format!("{:?}", received.requests.lock().unwrap());
    assert!(sent.contains("hookjail.run"));
    let directory = daemon.path().display().to_string();
    for absent in ["needle", "s3cr3t", "/bin/sh", &directory] {
        assert!(!sent.contains(absent), "{absent}: {sent}");
    }
}

#[tokio::test]
async fn the_command_line_passes_the_context_of_its_environment_on() {
    let daemon = Daemon::start().await;
    let (socket, directory) = places(&daemon);
    let program = program().display().to_string();
    let parent = format!("TRACEPARENT={}", caller_parent());
    let case = &CASES[0];
    let hook = written(&daemon, case.runtime, case.hook);
    let run = [&*program, "run", "--connect", &socket, "--", "/bin/true"];
    let stand_in = in_place(case.runtime, &socket, &[], hook.to_str().unwrap());
    let options = [
        "--contract",
        "loom",
        "--point",
        "tool.pre",
        "--profile",
        "strict",
    ];
    let dispatch = [&[&*program, "dispatch", "--connect", &socket], &options[..]];
    let dispatch = [&dispatch.concat()[..], &["--hook", "tool.pre=exit 0"]].concat();

    for words in [&run[..], &stand_in, &dispatch] {
        let before = journal(daemon.path()).len();
        for variables in [
            &["env", "-u", "TRACEPARENT"][..],
            &["env", &parent],
            &["env", "TRACEPARENT=x\ny"],
        ] {
            let words = [variables, words].concat();
            let output = ended(&directory, &words, case.harmless);
            assert_eq!(output.status.code(), Some(0), "{words:?} {output:?}");
        }
        let records = journal(daemon.path()).split_off(before);
        let started = records.iter().filter(|it| it["record"] == "started");
        let traces: Vec<_> = started.map(|it| it["trace"].as_str()).collect();
        assert_eq!(traces, [None, Some(TRACE), None], "{words:?}");
    }
}
