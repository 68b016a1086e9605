//! The whole product on one screen.

use crate::{
    admission::{Call, Gate},
    audit::{About, Audit, Interpreted, Recorded},
    policy::Plan,
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
            Ok(interpreted) => self.audit.end(interpreted),
            Err(stop) => self.audit.refuse(about, stop),
        }
    }

    /// Answers a request that could not be understood.
    pub fn malformed(&self, call: &Call, request_id: &str, refusal: Refusal) -> Recorded {
        self.audit
            .refuse(About::malformed(call, request_id), refusal.into())
    }

    async fn execute(&self, call: Call, request: Request) -> Result<Interpreted, Stop> {
        let admitted = self.gate.admit(call, request, &self.sandbox).await?;
        let plan = Plan::resolve(admitted, &self.sandbox).await?;
        let announced = self.audit.start(plan)?;
        let confined = self.sandbox.confine(announced).await?;
        let ended = confined.run().await;
        Ok(Interpreted::of(ended))
    }
}
