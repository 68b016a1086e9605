//! Previews of requests: the stages up to an announcement, without running anything.

use std::{ffi::OsString, time::Duration};

use hookjail_base::{model::Consent, refusal::Stop};
use hookjail_sandbox::program::Digest;

use super::{Admitted, Plan};

/// A request, previewed without announcement or start.
///
/// A preview can only be encoded, and cannot become a run.
#[derive(Debug)]
pub(crate) struct Preview {
    /// The admission; `None` where it was refused.
    pub admission: Option<Admission>,
    /// The contract's version.
    pub contract_version: &'static str,
    outlook: Result<Box<Plan>, Stop>,
    /// The request's id.
    pub request_id: String,
}

/// Admission of a request that may run.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    /// The program as resolved, and its arguments.
    pub argv: Vec<OsString>,
    /// The consent by which it may run.
    pub consent: Consent,
    /// The digests of the files that the consent is bound to.
    pub digests: Vec<Digest>,
    /// The profile's name.
    pub profile: String,
    /// The profile's digest.
    pub profile_digest: String,
    /// The wall time of the run.
    pub timeout: Duration,
}

impl Preview {
    pub(super) const fn new(
        request_id: String,
        contract_version: &'static str,
        admission: Option<Admission>,
        outlook: Result<Box<Plan>, Stop>,
    ) -> Self {
        Self {
            admission,
            contract_version,
            outlook,
            request_id,
        }
    }

    /// Returns the plan of the run, or the reason why the request would not run.
    pub(crate) fn outlook(&self) -> Result<&Plan, &Stop> {
        self.outlook.as_deref()
    }
}

impl Admission {
    pub(super) fn from_admitted(admitted: &Admitted) -> Self {
        Self {
            argv: admitted.program.argv.clone(),
            consent: admitted.consent,
            digests: admitted.program.digests.clone(),
            profile: admitted.policy.name.to_string(),
            profile_digest: admitted.policy.digest.clone(),
            timeout: admitted.timeout,
        }
    }
}
