//! `observe`: no rules. For callers that need the facts of a run without interpretation.

use super::{Facts, Stop};

pub(super) const FACTS: Facts = Facts {
    contract: "observe",
    other_points: Some(Stop::Nothing),
    // An event is not interpreted.
    session: &[],
    stdin: |_, event, _| Ok(event.json.clone()),
    version: "observe/1",
    ..Facts::NONE
};
