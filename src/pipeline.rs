//! The whole product on one screen.

use crate::{
    admission::{Call, Gate},
    audit::{About, Audit, Interpreted, Recorded},
    heavy,
    policy::Plan,
    preview::{Admission, Preview},
    refusal::{Refusal, Stop},
    request::Request,
    sandbox::Sandbox,
};

/// What every request goes through.
#[derive(Debug)]
pub struct Pipeline {
    /// Who may ask for what.
    pub gate: Gate,
    /// What is written down.
    pub audit: Audit,
    /// What confines.
    pub sandbox: Sandbox,
}

impl Pipeline {
    /// Takes one request to an audited answer.
    pub async fn handle(&self, call: Call, request: Request) -> Recorded {
        let about = About::request(&call, &request);
        match self.execute(call, request).await {
            Ok(interpreted) => self.audit.end(interpreted).await,
            Err(stop) => self.audit.refuse(about, stop).await,
        }
    }

    /// Takes one request as far as it goes without anything being announced, started or written down.
    pub async fn preview(&self, call: Call, request: Request) -> Preview {
        let (id, version) = (request.id.clone(), request.contract.version());
        let mut admission = None;
        let outlook = self.plan(call, request, &mut admission).await;
        Preview::new(id, version, admission, outlook.map(Box::new))
    }

    async fn plan(
        &self,
        call: Call,
        request: Request,
        admission: &mut Option<Admission>,
    ) -> Result<Plan, Stop> {
        let admitted = self.gate.admit(call, request, &self.sandbox).await?;
        *admission = Some(Admission::of(&admitted));
        let plan = Plan::resolve(admitted, &self.sandbox).await?;
        self.audit.ready()?;
        Ok(plan)
    }

    /// Answers a request that could not be understood.
    pub async fn malformed(&self, call: &Call, request_id: &str, refusal: Refusal) -> Recorded {
        self.audit
            .refuse(About::malformed(call, request_id), refusal.into())
            .await
    }

    /// Answers a request that is not run for a reason that lies outside of it.
    pub async fn refuse(&self, call: &Call, request: &Request, refusal: Refusal) -> Recorded {
        self.audit
            .refuse(About::request(call, request), refusal.into())
            .await
    }

    async fn execute(&self, call: Call, request: Request) -> Result<Box<Interpreted>, Stop> {
        let admitted = self.gate.admit(call, request, &self.sandbox).await?;
        let plan = Plan::resolve(admitted, &self.sandbox).await?;
        let announced = self.audit.start(plan).await?;
        let confined = self.sandbox.confine(announced).await?;
        let ended = confined.run().await?;
        let (bytes, uid) = (ended.output_bytes(), ended.uid());
        let redaction = self.audit.redaction().get();
        let read = move || Box::new(Interpreted::of(ended, redaction));
        Ok(heavy::sized(uid, bytes, read).await)
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    /// What is held for as long as a hook runs, or waits for its place: thousands may.
    #[test]
    fn a_request_in_work_is_small() {
        fn size<F>(_: impl FnOnce(&'static Pipeline, Call, Request) -> F) -> usize {
            size_of::<F>()
        }
        let bytes = size(Pipeline::handle);
        assert!(bytes <= 8 * 1024, "{bytes}");
    }
}
