//! Built-in hooks of a runtime that run here.
//!
//! Those that are functions of the event are in the contract. Of the others, two act in the daemon. The rest are commands, in `query`,
//! and go through the pipeline like every command: git, or hookjail itself.

use jiff::Timestamp;

use hookjail_base::model::InvalidField;
use hookjail_contract::{Act, Builtin, Members, Verdict};

use crate::hooks::ResultsOf;

mod add_user_info;
mod limit_large_tool_results;
pub(crate) mod query;

/// Context of a built-in hook beside the event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene<'a> {
    /// The store of tool results.
    pub results: ResultsOf<'a>,
    /// The time.
    pub now: Timestamp,
    /// The uid of the agent's user.
    pub uid: u32,
}

/// Runs a built-in hook on an event, a command hook's stdin. At other than its points it does nothing, and a
/// warning reports that.
///
/// # Errors
///
/// The event is not one JSON object.
pub(crate) fn run(
    builtin: &Builtin,
    point: &str,
    event: &[u8],
    scene: &Scene<'_>,
) -> Result<Verdict, InvalidField> {
    let event = Members::of_event(event)?;
    Ok(match builtin.verdict(point, &event, scene.now) {
        Ok(verdict) => verdict,
        Err(Act::KeepResult) => limit_large_tool_results::verdict(point, &event, scene.results),
        Err(Act::NameUser) => add_user_info::verdict(scene.uid),
    })
}
