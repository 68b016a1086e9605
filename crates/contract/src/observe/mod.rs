//! `observe`: no rules. For callers that need the facts of a run without interpretation.

use super::{Facts, Skip, Stop, Verdict};

pub(super) const FACTS: Facts = Facts {
    other_points: Some(Stop::Nothing),
    // An event is not interpreted.
    session: &[],
    stdin: |_, event, _| Ok(event.json.clone()),
    ..Facts::new("observe", "observe/1", |end| {
        Verdict::skipped(end.kind.failure().unwrap_or(Skip::OutputIgnored))
    })
};
