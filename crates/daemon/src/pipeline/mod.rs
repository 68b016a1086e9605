//! The request pipeline: all stages on one screen.

mod admit;
mod announce;
mod call;
mod closed;
mod interpret;
mod notify;
mod places;
mod plan;
mod preview;
mod rates;
mod readiness;
mod record;
mod refusal_log;
mod run;
mod runs;
mod untested;

use hookjail_base::{
    refusal::{Refusal, Stop},
    util::heavy,
};
use hookjail_journal::writer::StartRecorded;

pub(crate) use self::run::Ended;
pub(crate) use self::{
    admit::{Admitted, Configuration, Gate, GateParts, Homes, OperatorHook, Rules},
    call::{Call, Purpose},
    interpret::Redacted,
    notify::Notifier,
    plan::Run,
    preview::{Admission, Preview},
    rates::{RateLimits, Spent},
    readiness::Starts,
    record::{About, Answer},
    runs::{NotFound, RunStage, RunSummary, Runs},
    untested::Untested,
};
pub use self::{
    announce::Announced,
    interpret::Interpreted,
    plan::Plan,
    record::{Audit, Recorded},
    run::Confined,
};

use std::{path::PathBuf, sync::Arc};

use crate::{
    metrics::Metrics,
    request::Request,
    traces::{self, Stage, Tracer},
};

/// Starts hooks whose start is in the journal.
pub type Sandbox = hookjail_sandbox::Sandbox<StartRecorded>;

/// The stages of every request.
#[derive(Debug)]
pub struct Pipeline {
    /// The admission stage.
    pub(crate) gate: Gate,
    /// The audit journal.
    pub(crate) audit: Audit,
    /// The configuration file, if there is one.
    pub(crate) configuration: Option<PathBuf>,
    /// The steps of starts.
    pub(crate) starts: Starts,
    /// The counts of what was done.
    pub(crate) metrics: Arc<Metrics>,
    /// The notifier of hooks.
    pub(crate) notifier: Notifier,
    /// The runs in work.
    pub(crate) runs: Runs,
    /// The confinement backends.
    pub(crate) sandbox: Sandbox,
    /// The traces of calls.
    pub(crate) tracer: Tracer,
    /// The profiles that are still to be tested for the first time.
    pub(crate) untested: Untested,
}

impl Pipeline {
    /// Processes one request up to an audited answer.
    // This function and `execute` return a future instead of being `async`: an `async fn` keeps its arguments until its end.
    pub(crate) fn handle(
        &self,
        mut call: Call,
        request: Box<Request>,
    ) -> impl Future<Output = Recorded> + Send {
        let listed = self.runs.enter(&mut call, &request);
        let interpreted = Box::pin(self.execute(call, request));
        async move {
            let recorded = match interpreted.await {
                Ok(interpreted) => {
                    let (uid, cpu) = (interpreted.run.peer.uid, interpreted.cpu());
                    self.gate.spend(uid, Spent::Cpu(cpu));
                    self.started();
                    let recorded = self.audit.end(interpreted).await;
                    if let Answer::Outcome { at: position, .. } = recorded.answer() {
                        self.gate.spend(uid, Spent::Journal(position.bytes));
                    }
                    recorded
                }
                Err(stop) => {
                    self.doubt(&stop);
                    let (about, stop) = listed.stopped(stop);
                    Box::pin(self.audit.refuse(about, stop)).await
                }
            };
            listed.end(&recorded);
            recorded
        }
    }

    /// Previews one request: nothing is announced, started or recorded.
    pub(crate) async fn preview(&self, call: Call, request: Box<Request>) -> Preview {
        let (id, version) = (request.id.clone(), request.contract.facts().version);
        let mut admission = None;
        let outlook = self.plan(call, request, &mut admission).await;
        Preview::new(id, version, admission, outlook)
    }

    async fn plan(
        &self,
        call: Call,
        request: Box<Request>,
        admission: &mut Option<Admission>,
    ) -> Result<Box<Plan>, Stop> {
        let admitted = self.gate.admit(call, request, &self.sandbox).await?;
        *admission = Some(Admission::from_admitted(&admitted));
        let plan = Plan::resolve(admitted, &self.sandbox).await?;
        self.audit.ready()?;
        Ok(plan)
    }

    /// Refuses a request that could not be decoded.
    pub(crate) async fn malformed(&self, about: About, refusal: Refusal) -> Recorded {
        self.audit.refuse(about, refusal.into()).await
    }

    /// Refuses a decoded request before admission.
    pub(crate) async fn refuse(
        &self,
        call: &Call,
        request: &Request,
        refusal: Refusal,
    ) -> Recorded {
        self.audit
            .refuse(About::request(call, request), refusal.into())
            .await
    }

    fn execute(
        &self,
        call: Call,
        request: Box<Request>,
    ) -> impl Future<Output = Result<Box<Interpreted>, Stop>> + Send {
        // Boxed: the memory of the stages before the start is not held while the hook runs.
        let confined = Box::pin(self.confine(call, request));
        async {
            let ended = self.notified(confined.await?.run().await?);
            traces::reach(ended.run.trace.as_ref(), Stage::Interpret);
            let (bytes, uid) = (ended.hook.end.output_bytes(), ended.run.peer.uid);
            let redaction = self.audit.redaction().get();
            let read = move || Box::new(Interpreted::from_ended(ended, redaction));
            Ok(Box::pin(heavy::sized(uid, bytes, read)).await)
        }
    }

    /// Begins to show the notices of a run. By value: a borrowed run would be held while the end is interpreted.
    fn notified(&self, mut ended: Ended) -> Ended {
        let calls = std::mem::take(&mut ended.hook.notices);
        if !calls.is_empty() {
            let redaction = self.audit.redaction().get();
            (self.notifier).show(&ended.run, calls, &redaction.redactor);
        }
        ended
    }

    async fn confine(&self, call: Call, request: Box<Request>) -> Result<Confined, Stop> {
        // Boxed, too: many requests may wait for the journal and for a spawner at once.
        let admitted = Box::pin(self.gate.admit(call, request, &self.sandbox)).await?;
        traces::reach(admitted.call.trace.as_ref(), Stage::Setup);
        let plan = Box::pin(Plan::resolve(admitted, &self.sandbox)).await?;
        let uid = plan.run.peer.uid;
        let announced = self.audit.start(plan).await?;
        let bytes = announced.recorded().appended().bytes;
        self.gate.spend(uid, Spent::Journal(bytes));
        Confined::start(announced, &self.sandbox).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the size of what is held while a hook runs or queues: thousands may.
    #[test]
    fn a_request_in_work_is_small() {
        fn size<F>(_: impl FnOnce(&'static Pipeline, Call, Box<Request>) -> F) -> usize {
            size_of::<F>()
        }
        let runs = size(Pipeline::handle) + size(Pipeline::execute);
        assert!(runs <= 2 * 1024, "{runs}");
        let waits = size(Pipeline::confine);
        assert!(waits <= 4 * 1024, "{waits}");
    }
}
