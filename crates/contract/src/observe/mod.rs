//! `observe`: no rules. For callers that need the facts of a run without interpretation.

use bytes::Bytes;

use hookjail_base::model::{Event, InvalidField};

use super::{
    CommandStyle, Configured, Defaults, End, Envelope, Facts, Runtime, Skip, Stop, Verdict,
};
pub(super) struct Observe;

const FACTS: Facts = Facts {
    contract: "observe",
    other_points: Some(Stop::Nothing),
    // Returns none: an event is not interpreted.
    session: &[],
    version: "observe/1",
    ..Facts::NONE
};

impl Runtime for Observe {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn defaults(&self, _point: &str) -> Defaults {
        Defaults {
            command: CommandStyle::Argv,
            profile: "strict",
            timeout: None,
        }
    }

    fn stdin(&self, event: &Event, _envelope: &Envelope) -> Result<Bytes, InvalidField> {
        Ok(event.json.clone())
    }

    /// Interprets an end: anything but exit 0 is a failure, and nothing is ever decided.
    fn interpret(&self, end: &End<'_>) -> Verdict {
        Verdict::skipped(end.kind.failure().unwrap_or(Skip::OutputIgnored))
    }
}

impl Configured for Observe {}
