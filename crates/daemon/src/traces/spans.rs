//! Makes OTLP spans of a call that ended.

use std::time::{Duration, Instant, SystemTime};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value},
    resource::v1::Resource,
    trace::v1::{ResourceSpans, ScopeSpans, Span, Status, span::SpanKind, status::StatusCode},
};

use hookjail_journal::record::OutcomeKind;
use hookjail_sandbox::ConnectionCounts;

use super::{EndedCall, Facts, Method, Recording, SpanId, Stage};
use crate::summary::RunSummary;

/// The flag of a span whose `IS_REMOTE` flag has a meaning.
const HAS_IS_REMOTE: u32 = 0x100;

/// The flag of a span whose parent is another service's.
const IS_REMOTE: u32 = 0x200;

/// The name that spans are published under.
const SCOPE: &str = "hookjail";

/// Makes the request that exports spans.
pub(crate) fn request(service: &str, spans: Vec<Span>) -> ExportTraceServiceRequest {
    let version = env!("CARGO_PKG_VERSION");
    let resource = Resource {
        attributes: vec![
            text("service.name", service),
            text("service.version", version),
        ],
        ..Resource::default()
    };
    let spans = ScopeSpans {
        scope: Some(InstrumentationScope {
            name: SCOPE.to_owned(),
            version: version.to_owned(),
            ..InstrumentationScope::default()
        }),
        spans,
        ..ScopeSpans::default()
    };
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource),
            scope_spans: vec![spans],
            ..ResourceSpans::default()
        }],
    }
}

impl Method {
    const fn is_served(self) -> bool {
        self.rpc().is_some()
    }

    const fn rpc(self) -> Option<&'static str> {
        match self {
            Self::Dispatch => Some("hookjail.v1.HookService/Dispatch"),
            Self::Execute => Some("hookjail.v1.HookService/Execute"),
            Self::ExecuteStream => Some("hookjail.v1.HookService/ExecuteStream"),
            Self::Hook => None,
        }
    }

    const fn span_name(self) -> &'static str {
        match self {
            Self::Dispatch => "hookjail.dispatch",
            Self::Execute | Self::ExecuteStream | Self::Hook => "hookjail.execute",
        }
    }
}

impl Stage {
    const fn span_name(self) -> &'static str {
        match self {
            Self::Admission => "hookjail.admission",
            Self::Interpret => "hookjail.interpret",
            Self::Question => "hookjail.question",
            Self::Queue => "hookjail.queue",
            Self::Record => "hookjail.record",
            Self::Run => "hookjail.run",
            Self::Setup => "hookjail.setup",
        }
    }

    const fn is_part_of_admission(self) -> bool {
        matches!(self, Self::Admission | Self::Question | Self::Queue)
    }
}

/// The time that a call spent in a stage.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Segment {
    began: Instant,
    ended: Instant,
    stage: Stage,
}

/// Returns the stages of a call that have a span, by when each began. The first is the whole admission, with its parts after it.
fn segments(stages: &[(Stage, Instant)], ended: Instant, facts: &Facts) -> Vec<Segment> {
    // The hook was released a little before its stage was noted, and its spans lie within that of its run.
    let exact = |stage, noted| match (&facts.run, stage) {
        (Some(run), Stage::Run) => run.released,
        (Some(run), Stage::Interpret) => run.released + run.run_time(),
        _ => noted,
    };
    let begins = stages
        .iter()
        .map(|(stage, noted)| (*stage, exact(*stage, *noted)));
    let begins: Vec<_> = begins.collect();
    let ends = begins
        .iter()
        .skip(1)
        .map(|(_, began)| *began)
        .chain([ended]);
    let mut segments: Vec<Segment> = Vec::with_capacity(begins.len());
    for ((stage, began), ended) in begins.iter().copied().zip(ends) {
        match segments.first_mut() {
            Some(admission) if stage.is_part_of_admission() => admission.ended = ended,
            _ => {}
        }
        if stage != Stage::Admission || segments.is_empty() {
            segments.push(Segment {
                began,
                ended,
                stage,
            });
        }
    }
    segments
}

impl EndedCall {
    /// Returns the number of its spans.
    pub(crate) fn count(&self) -> usize {
        self.recording()
            .map_or(0, |(recording, _)| 1 + self.segments(recording).len())
    }

    fn segments(&self, recording: &Recording) -> Vec<Segment> {
        if recording.method == Method::Dispatch {
            // Its parts are the calls of its hooks.
            return Vec::new();
        }
        segments(&recording.stages(), self.ended, &self.facts)
    }

    /// Returns its spans: the call, then its stages.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let Some((recording, context)) = self.recording() else {
            return Vec::new();
        };
        let Facts { error, run, .. } = &self.facts;
        let failed = match (error, run) {
            (Some(reason), _) => Some((*reason).to_owned()),
            (None, Some(run)) if run.outcome != OutcomeKind::Exited => {
                Some(run.outcome.to_string())
            }
            (None, _) => None,
        };
        let flags = u32::from(context.flags()) | HAS_IS_REMOTE;
        let span = |id: SpanId, parent: Option<SpanId>, name: &str, began, ended| Span {
            trace_id: context.trace.bytes().to_vec(),
            span_id: id.bytes().to_vec(),
            trace_state: context.state.clone(),
            parent_span_id: parent.map_or(Vec::new(), |parent| parent.bytes().to_vec()),
            flags,
            name: name.to_owned(),
            kind: SpanKind::Internal.into(),
            start_time_unix_nano: recording.nanoseconds(began),
            end_time_unix_nano: recording.nanoseconds(ended),
            ..Span::default()
        };
        let segments = self.segments(recording);
        let mut spans = Vec::with_capacity(1 + segments.len());
        let method = recording.method;
        let mut call = span(
            recording.span,
            recording.parent.map(|parent| parent.span),
            method.span_name(),
            recording.arrived,
            self.ended,
        );
        call.attributes = attributes(&self.facts, method);
        if method.is_served() {
            call.kind = SpanKind::Server.into();
        }
        if recording.parent.is_some_and(|parent| parent.is_remote) {
            call.flags |= IS_REMOTE;
        }
        fail(&mut call, failed.as_deref());
        spans.push(call);
        let admission = SpanId::new();
        let last = segments.iter().rfind(|it| it.stage != Stage::Record);
        let failed_stage = match (error, run) {
            // The hook ran, and its record could not be written.
            (Some(_), Some(_)) => Some(Stage::Record),
            (None, Some(_)) => Some(Stage::Run),
            (_, None) => last.map(|segment| segment.stage),
        };
        for Segment {
            began,
            ended,
            stage,
        } in segments
        {
            let (id, parent) = match stage {
                Stage::Admission => (admission, recording.span),
                Stage::Question | Stage::Queue => (SpanId::new(), admission),
                Stage::Run => (context.span, recording.span),
                Stage::Interpret | Stage::Record | Stage::Setup => (SpanId::new(), recording.span),
            };
            let mut span = span(id, Some(parent), stage.span_name(), began, ended);
            if stage == Stage::Run {
                span.attributes.extend(run.iter().flat_map(|it| of_run(it)));
            }
            if failed_stage == Some(stage) {
                fail(&mut span, failed.as_deref());
            }
            spans.push(span);
        }
        spans
    }
}

impl Recording {
    /// Returns a time since 1970, nanoseconds.
    fn nanoseconds(&self, time: Instant) -> u64 {
        let since = self.when.duration_since(SystemTime::UNIX_EPOCH);
        let since: Duration =
            since.unwrap_or_default() + time.saturating_duration_since(self.arrived);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Returns the attributes of a run's span. Hosts are no part of it: a hook chooses their names.
fn of_run(run: &RunSummary) -> Vec<KeyValue> {
    let ConnectionCounts {
        allowed,
        denied,
        failed,
        received,
        sent,
    } = run.connections;
    let counts = [
        ("hookjail.egress.allowed", allowed),
        ("hookjail.egress.denied", denied),
        ("hookjail.egress.failed", failed),
        ("hookjail.egress.received_bytes", received),
        ("hookjail.egress.sent_bytes", sent),
    ];
    let counted = counts.into_iter().filter(|(_, count)| *count > 0);
    let counted =
        counted.map(|(key, count)| integer(key, i64::try_from(count).unwrap_or(i64::MAX)));
    let code = run
        .exit_code
        .map(|code| integer("process.exit.code", code.into()));
    code.into_iter().chain(counted).collect()
}

/// Returns the attributes of a call.
fn attributes(facts: &Facts, method: Method) -> Vec<KeyValue> {
    let Facts {
        contract,
        dispatched,
        error: _,
        point,
        profile,
        run,
        run_id,
    } = facts;
    let outcome = run.as_ref().map(|run| run.outcome.to_string());
    let verdict = run.as_ref().map(|run| run.verdict).or(*dispatched);
    let is_required = run.as_ref().is_some_and(|run| run.is_required);
    let texts = [
        ("rpc.system.name", method.rpc().map(|_| "grpc")),
        ("rpc.method", method.rpc()),
        (
            "hookjail.backend",
            run.as_ref().map(|run| run.backend.as_str()),
        ),
        ("hookjail.contract", Some(*contract)),
        ("hookjail.outcome", outcome.as_deref()),
        ("hookjail.point", Some(point.as_str())),
        ("hookjail.profile", profile.as_deref()),
        ("hookjail.required", is_required.then_some("true")),
        ("hookjail.run_id", Some(run_id.as_str())),
        ("hookjail.verdict", verdict.map(|verdict| verdict.as_str())),
    ];
    let known = texts.into_iter().filter_map(|(key, value)| {
        let value = value.filter(|value| !value.is_empty())?;
        Some(text(key, value))
    });
    known.collect()
}

/// Marks a span as that of an error, if there is one.
fn fail(span: &mut Span, failed: Option<&str>) {
    if let Some(reason) = failed {
        span.attributes.push(text("error.type", reason));
        span.status = Some(Status {
            message: reason.to_owned(),
            code: StatusCode::Error.into(),
        });
    }
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

fn integer(key: &str, value: i64) -> KeyValue {
    attribute(key, Value::IntValue(value))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns stages that begin a millisecond after each other, and when the last ends.
    fn noted<const N: usize>(stages: [Stage; N]) -> (Vec<(Stage, Instant)>, Instant) {
        let arrived = Instant::now();
        let after = |count: usize| arrived + Duration::from_millis(count as u64);
        let noted = stages.into_iter().enumerate();
        let noted = noted.map(|(index, stage)| (stage, after(index)));
        (noted.collect(), after(N))
    }

    /// Returns each stage with the milliseconds after the arrival at which it begins and ends.
    fn shown(
        stages: &[(Stage, Instant)],
        ended: Instant,
        facts: &Facts,
    ) -> Vec<(Stage, u128, u128)> {
        let after = |time: Instant| time.duration_since(stages[0].1).as_millis();
        let segments = segments(stages, ended, facts).into_iter();
        let shown = segments.map(|it| (it.stage, after(it.began), after(it.ended)));
        shown.collect()
    }

    #[test]
    fn an_admission_is_one_and_has_the_queue_and_the_question_within() {
        use Stage::{Admission, Interpret, Question, Queue, Record, Run, Setup};
        let (stages, ended) = noted([
            Admission, Queue, Admission, Question, Queue, Admission, Setup, Run, Interpret, Record,
        ]);
        assert_eq!(
            shown(&stages, ended, &Facts::default()),
            [
                (Admission, 0, 6),
                (Queue, 1, 2),
                (Question, 3, 4),
                (Queue, 4, 5),
                (Setup, 6, 7),
                (Run, 7, 8),
                (Interpret, 8, 9),
                (Record, 9, 10),
            ]
        );
        let (stages, ended) = noted([Admission, Queue, Record]);
        assert_eq!(
            shown(&stages, ended, &Facts::default()),
            [(Admission, 0, 2), (Queue, 1, 2), (Record, 2, 3)]
        );
    }

    #[test]
    fn a_runs_span_counts_its_connections_where_it_made_any() {
        let mut run = RunSummary::for_test("strict", OutcomeKind::Exited, Duration::ZERO);
        run.exit_code = Some(3);
        assert_eq!(of_run(&run), [integer("process.exit.code", 3)]);
        run.connections = ConnectionCounts {
            allowed: 2,
            denied: 1,
            failed: 0,
            received: 40,
            sent: 7,
        };
        assert_eq!(
            of_run(&run)[1..],
            [
                integer("hookjail.egress.allowed", 2),
                integer("hookjail.egress.denied", 1),
                integer("hookjail.egress.received_bytes", 40),
                integer("hookjail.egress.sent_bytes", 7),
            ]
        );
    }

    #[test]
    fn the_run_of_a_required_hook_is_one() {
        let is_marked = |is_required| {
            let run = RunSummary {
                is_required,
                ..RunSummary::for_test("strict", OutcomeKind::Exited, Duration::ZERO)
            };
            let facts = Facts {
                run: Some(Box::new(run)),
                ..Facts::default()
            };
            attributes(&facts, Method::Hook).contains(&text("hookjail.required", "true"))
        };
        assert_eq!([true, false].map(is_marked), [true, false]);
    }

    #[test]
    fn a_run_begins_with_the_release_of_its_hook_and_ends_with_its_end() {
        use Stage::{Admission, Interpret, Record, Run, Setup};
        let arrived = Instant::now();
        let after = |count| arrived + Duration::from_millis(count);
        let noted = [
            (Admission, 0),
            (Setup, 10),
            (Run, 30),
            (Interpret, 60),
            (Record, 70),
        ];
        let stages = noted.map(|(stage, noted)| (stage, after(noted)));
        let facts = Facts {
            run: Some(Box::new(RunSummary {
                released: after(20),
                ..RunSummary::for_test("strict", OutcomeKind::TimedOut, Duration::from_millis(30))
            })),
            ..Facts::default()
        };
        assert_eq!(
            shown(&stages, after(80), &facts),
            [
                (Admission, 0, 10),
                (Setup, 10, 20),
                (Run, 20, 50),
                (Interpret, 50, 70),
                (Record, 70, 80),
            ]
        );
    }
}
