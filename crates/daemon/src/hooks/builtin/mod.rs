//! Built-in hooks of a runtime that run here.
//!
//! Those that need the event alone are functions of it, and run in the daemon. The others are commands, in `query`, and go
//! through the pipeline like every command: git, or hookjail itself, which then prints its [`findings()`].

use jiff::Timestamp;

use hookjail_base::model::InvalidField;
use hookjail_contract::{Builtin, Members, Verdict};

use crate::hooks::ResultsOf;

mod add_date;
mod add_directory_listing;
mod add_environment_info;
mod add_prompt_files;
mod add_user_info;
mod commands;
mod findings;
mod limit_large_tool_results;
mod max_iterations;
pub(crate) mod query;
mod redact_secrets;
mod safer_shell;
mod secrets;

pub use self::findings::findings;

/// Context of a built-in hook beside the event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene<'a> {
    /// The store of tool results; `None` = there is none.
    pub results: Option<ResultsOf<'a>>,
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
    if !builtin.points().contains(&point) {
        return Ok(does_nothing(builtin.name()));
    }
    Ok(match builtin {
        Builtin::AddDate => add_date::verdict(scene.now),
        Builtin::AddUserInfo => add_user_info::verdict(scene.uid),
        Builtin::LimitLargeToolResults => {
            limit_large_tool_results::verdict(point, &event, scene.results)
        }
        Builtin::MaxIterations(limit) => max_iterations::verdict(*limit, &event),
        Builtin::RedactSecrets => redact_secrets::verdict(point, &event),
        Builtin::SaferShell => safer_shell::verdict(&event),
    })
}

/// Returns the warning for a built-in hook at a point without effect.
fn does_nothing(name: &str) -> Verdict {
    warning(format!("`{name}` does nothing here"))
}

fn warning(text: String) -> Verdict {
    Verdict {
        warnings: vec![text],
        ..Verdict::default()
    }
}

#[cfg(test)]
mod tests;
