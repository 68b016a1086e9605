//! Traces of calls: where a call belongs in its caller's trace, and the spans of what was done, for a collector.
//!
//! A call takes note of when it reached each stage. Its spans are made of these times on the exporter's thread, after the end or the
//! refusal is recorded. A call that is not traced pays for one look, and one that is traced for a few times and one send.

mod context;
mod spans;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Instant, SystemTime},
};

use tokio::sync::mpsc;

use hookjail_base::refusal::cut;
use hookjail_contract::Decision;

use self::context::SpanId;
pub(crate) use self::{context::TraceContext, spans::request};

use crate::{metrics::Metrics, summary::RunSummary};

/// The longest problem of an export that is kept, bytes.
const MAX_PROBLEM: usize = 512;

/// The most calls whose spans wait for the exporter. More are dropped, and counted.
const MAX_QUEUED: usize = 2048;

/// The calls that ended, for the exporter.
pub(crate) type Queue = mpsc::Receiver<EndedCall>;

/// The last export, for those who ask how exports go.
#[derive(Debug, Default)]
pub(crate) struct LastExport(Mutex<Option<Export>>);

/// An export that ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Export {
    /// When it ended.
    pub(crate) at: SystemTime,
    /// Why the collector did not take all of it; `None` where it did.
    pub(crate) problem: Option<String>,
}

impl LastExport {
    /// Takes note of an export that ended now.
    pub(crate) fn ended(&self, problem: Option<&str>) {
        let time = SystemTime::now();
        let problem = problem.map(|problem| cut(problem, MAX_PROBLEM).into_owned());
        *self.lock() = Some(Export { at: time, problem });
    }

    /// Returns the last export; `None` before the first.
    pub(crate) fn get(&self) -> Option<Export> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Export>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Begins traces. Without an exporter it passes on those of callers.
#[derive(Debug, Default)]
pub(crate) struct Tracer(Option<Exporting>);

#[derive(Clone, Debug)]
struct Exporting {
    metrics: Arc<Metrics>,
    queue: mpsc::Sender<EndedCall>,
    ratio: f64,
}

/// The call that a span is of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Method {
    /// `Dispatch`.
    Dispatch,
    /// `Execute`, or a preview of it, which has no span.
    Execute,
    /// `ExecuteStream`.
    ExecuteStream,
    /// One hook of a dispatch.
    Hook,
}

/// A stage of a call, which begins where the one before ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stage {
    /// May the hook run? Begins at the arrival.
    Admission,
    /// The contract's verdict.
    Interpret,
    /// The operator is asked; a part of the admission.
    Question,
    /// The run waits for a place; a part of the admission.
    Queue,
    /// The end, or the refusal, is written to the journal.
    Record,
    /// From the release of the hook to its end.
    Run,
    /// Plan, start record, and the start of the hook.
    Setup,
}

/// The trace of a call.
#[derive(Debug)]
pub(crate) struct Trace {
    /// The position that the hook gets.
    context: TraceContext,
    /// Absent where nothing of it is exported.
    recording: Option<Recording>,
}

/// Notes of a call whose spans are exported.
#[derive(Debug)]
struct Recording {
    arrived: Instant,
    exporting: Exporting,
    method: Method,
    parent: Option<Parent>,
    /// The call's span. The context has that of its run.
    span: SpanId,
    stages: Mutex<Vec<(Stage, Instant)>>,
    /// The time at `arrived`.
    when: SystemTime,
}

/// The span above a call's.
#[derive(Clone, Copy, Debug)]
struct Parent {
    is_remote: bool,
    span: SpanId,
}

/// A call that ended, whose spans are to be exported.
#[derive(Debug)]
pub(crate) struct EndedCall {
    ended: Instant,
    facts: Facts,
    trace: Arc<Trace>,
}

/// The facts of a call that ended. None is a text of a hook's, and each that a caller chose is a name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// The contract's name; empty where none is known.
    pub(crate) contract: &'static str,
    /// The decision of a dispatch.
    pub(crate) dispatched: Option<Decision>,
    /// The reason of a refusal, or that of a fault.
    pub(crate) error: Option<&'static str>,
    /// The lifecycle point without secrets; may be empty.
    pub(crate) point: String,
    /// The profile, if one is known.
    pub(crate) profile: Option<String>,
    /// The summary of the hook's run, if it ran. Boxed: thousands of calls may wait for their records.
    pub(crate) run: Option<Box<RunSummary>>,
    /// The run's id.
    pub(crate) run_id: String,
}

impl Tracer {
    /// Makes a tracer that records a share of the traces it begins, and the queue of what it recorded.
    pub(crate) fn exporting(ratio: f64, metrics: Arc<Metrics>) -> (Self, Queue) {
        let (queue, calls) = mpsc::channel(MAX_QUEUED);
        let exporting = Exporting {
            metrics,
            queue,
            ratio,
        };
        (Self(Some(exporting)), calls)
    }

    /// Begins the trace of a call, in that of its caller if there is one.
    ///
    /// The caller's decision whether to record it is followed. Without an exporter the hook gets the caller's context as it is, and
    /// without either there is no trace.
    pub(crate) fn begin(
        &self,
        method: Method,
        arrived: Instant,
        caller: Option<TraceContext>,
    ) -> Option<Arc<Trace>> {
        let parent = caller.as_ref().map(|caller| Parent {
            is_remote: true,
            span: caller.span,
        });
        let context = match (caller, &self.0) {
            (None, None) => return None,
            (Some(caller), _) => caller,
            (None, Some(exporting)) => TraceContext::begin(exporting.ratio),
        };
        let exporting = self.0.clone().filter(|_| context.is_sampled());
        let Some(exporting) = exporting else {
            let recording = None;
            return Some(Arc::new(Trace { context, recording }));
        };
        Some(Trace::record(context, exporting, method, arrived, parent))
    }
}

impl Trace {
    fn record(
        above: TraceContext,
        exporting: Exporting,
        method: Method,
        arrived: Instant,
        parent: Option<Parent>,
    ) -> Arc<Self> {
        let late = arrived.elapsed();
        let recording = Recording {
            arrived,
            exporting,
            method,
            parent,
            span: SpanId::new(),
            stages: Mutex::new(vec![(Stage::Admission, arrived)]),
            when: SystemTime::now() - late,
        };
        Arc::new(Self {
            context: above.with_span(SpanId::new()),
            recording: Some(recording),
        })
    }

    /// Returns the trace of one hook of this dispatch.
    pub(crate) fn of_hook(self: &Arc<Self>, arrived: Instant) -> Arc<Self> {
        let Some(recording) = &self.recording else {
            return Arc::clone(self);
        };
        let parent = Parent {
            is_remote: false,
            span: recording.span,
        };
        Self::record(
            self.context.clone(),
            recording.exporting.clone(),
            Method::Hook,
            arrived,
            Some(parent),
        )
    }

    /// Returns the position that the hook gets: the span of its run, or where nothing is exported its caller's.
    pub(crate) const fn context(&self) -> &TraceContext {
        &self.context
    }

    /// Returns whether spans are exported.
    pub(crate) const fn is_recorded(&self) -> bool {
        self.recording.is_some()
    }

    /// Notes that a stage begins.
    pub(crate) fn reach(&self, stage: Stage) {
        if let Some(recording) = &self.recording {
            recording.stages().push((stage, Instant::now()));
        }
    }

    /// Passes the spans of a call that ended to the exporter. Where that is behind, they are dropped and counted.
    pub(crate) fn end(self: &Arc<Self>, facts: Facts) {
        let Some(recording) = &self.recording else {
            return;
        };
        let call = EndedCall {
            ended: Instant::now(),
            facts,
            trace: Arc::clone(self),
        };
        if let Err(not_sent) = recording.exporting.queue.try_send(call) {
            let spans = not_sent.into_inner().count();
            recording.exporting.metrics.spans_dropped(spans);
        }
    }
}

impl Recording {
    fn stages(&self) -> MutexGuard<'_, Vec<(Stage, Instant)>> {
        self.stages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EndedCall {
    fn recording(&self) -> Option<(&Recording, &TraceContext)> {
        let Trace { context, recording } = &*self.trace;
        recording.as_ref().map(|recording| (recording, context))
    }
}

/// Notes that a stage of a call begins, if it is traced.
pub(crate) fn reach(trace: Option<&Arc<Trace>>, stage: Stage) {
    if let Some(trace) = trace {
        trace.reach(stage);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end_one(tracer: &Tracer) {
        let trace = tracer.begin(Method::Execute, Instant::now(), None).unwrap();
        trace.reach(Stage::Record);
        trace.end(Facts::default());
    }

    #[test]
    fn a_queue_that_is_full_or_gone_costs_spans_that_are_counted() {
        let metrics = Arc::new(Metrics::new().unwrap());
        let (tracer, mut queue) = Tracer::exporting(1.0, Arc::clone(&metrics));
        for _ in 0..MAX_QUEUED {
            end_one(&tracer);
        }
        assert_eq!(metrics.dropped_spans(), 0);
        end_one(&tracer);
        // The call, its admission and its record.
        assert_eq!(metrics.dropped_spans(), 3);
        let call = queue.try_recv().unwrap();
        assert_eq!((call.count(), call.spans().len()), (3, 3));
        end_one(&tracer);
        assert_eq!(metrics.dropped_spans(), 3);
        drop(queue);
        end_one(&tracer);
        assert_eq!(metrics.dropped_spans(), 6);
    }

    #[test]
    fn without_an_exporter_or_a_caller_there_is_no_trace() {
        let tracer = Tracer::default();
        let begin = |caller| tracer.begin(Method::Execute, Instant::now(), caller);
        assert!(begin(None).is_none());
        let caller = TraceContext::begin(1.0);
        let trace = begin(Some(caller.clone())).unwrap();
        assert_eq!(trace.context(), &caller);
        assert!(!trace.is_recorded());
        assert!(Arc::ptr_eq(&trace, &trace.of_hook(Instant::now())));
    }
}
