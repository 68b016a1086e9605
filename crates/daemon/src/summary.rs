//! The summary of a run, which records, metrics, spans and replies read.

use std::time::{Duration, Instant};

use hookjail_base::model::ProfileName;
use hookjail_contract::{Decision, Mode};
use hookjail_journal::record::{OutcomeKind, Usage};
use hookjail_sandbox::{BackendName, ConnectionCounts};

/// Facts of a run that ended.
#[derive(Clone, Debug)]
pub(crate) struct RunSummary {
    /// The backend.
    pub(crate) backend: BackendName,
    /// The connections to other hosts that are described.
    pub(crate) connections: ConnectionCounts,
    /// Whether the administrator's files require the hook.
    pub(crate) is_required: bool,
    /// Whether nothing confined the hook.
    pub(crate) is_unconfined: bool,
    /// The contract.
    pub(crate) contract: Mode,
    /// The exit code, if the hook exited.
    pub(crate) exit_code: Option<i32>,
    /// The outcome.
    pub(crate) outcome: OutcomeKind,
    /// The profile, as configured.
    pub(crate) profile: ProfileName,
    /// When the hook was released.
    pub(crate) released: Instant,
    /// The times and resources used.
    pub(crate) usage: Usage,
    /// The verdict's decision.
    pub(crate) verdict: Decision,
}

impl RunSummary {
    /// Returns the time from release to end.
    pub(crate) const fn run_time(&self) -> Duration {
        Duration::from_micros(self.usage.run_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl RunSummary {
        /// Returns the summary of a test's run.
        pub(crate) fn for_test(profile: &str, outcome: OutcomeKind, run: Duration) -> Self {
            Self {
                backend: BackendName::LANDLOCK,
                connections: ConnectionCounts::default(),
                contract: Mode::ReynPush,
                exit_code: None,
                is_required: false,
                is_unconfined: profile == "open",
                outcome,
                profile: ProfileName::parse(profile).unwrap(),
                released: Instant::now(),
                usage: Usage {
                    run_us: u64::try_from(run.as_micros()).unwrap(),
                    setup_us: 200,
                    ..Usage::default()
                },
                verdict: Decision::None,
            }
        }
    }
}
