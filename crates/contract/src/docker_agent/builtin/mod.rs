//! docker-agent's supported built-in hooks that are no commands, by name and arguments, and the verdicts of those that are functions
//! of the event and the time.

mod add_date;
mod add_user_info;
mod commands;
mod large_result;
mod max_iterations;
mod redact_secrets;
mod safer_shell;
mod secrets;
#[cfg(test)]
mod tests;

use std::num::NonZeroU64;

use hookjail_base::model::InvalidField;
use jiff::Timestamp;

pub use self::{add_user_info::CallerNames, large_result::LargeResult};
use crate::{
    Action, Members, Supplied, Verdict,
    docker_agent::query::{Look, Query, without_arguments},
};

/// A built-in hook that needs no process, with its arguments.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Builtin {
    /// Adds the date to the model's context.
    AddDate,
    /// Adds the user's and the host's name to the model's context.
    AddUserInfo,
    /// Stops the agent after this number of calls of the model.
    MaxIterations(NonZeroU64),
    /// Redacts secrets in tool input, messages and tool output.
    RedactSecrets,
    /// Asks for approval of shell commands that are not known to be read-only.
    SaferShell,
}

/// Values beside the event that built-in hooks depend on.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The names of the caller and of this host.
    pub names: CallerNames,
    /// The time.
    pub now: Timestamp,
}

/// The names of the supported built-in hooks.
pub const SERVED: [&str; 12] = [
    "add_date",
    "add_directory_listing",
    "add_environment_info",
    "add_git_diff",
    "add_git_status",
    "add_prompt_files",
    "add_recent_commits",
    "add_user_info",
    "limit_large_tool_results",
    "max_iterations",
    "redact_secrets",
    "safer_shell",
];

/// The names of docker-agent's other built-in hooks, each with the reason why it is not supported.
pub const NOT_SERVED: [(&str, &str); 4] = [
    ("add_context", "renders Go templates"),
    ("http_post", "opens a connection"),
    ("snapshot", "writes files"),
    ("unload", "opens a connection"),
];

impl Builtin {
    /// Parses a built-in's name and arguments.
    ///
    /// # Errors
    ///
    /// Refuses a built-in that is not supported, with the reason, and arguments that it does not take.
    pub fn parse(name: &str, args: &[String]) -> Result<Self, InvalidField> {
        let builtin = match name {
            "add_date" => Self::AddDate,
            "add_user_info" => Self::AddUserInfo,
            "max_iterations" => return limit(args).map(Self::MaxIterations),
            "redact_secrets" => Self::RedactSecrets,
            "safer_shell" => Self::SaferShell,
            _ => return Err(not_served(name)),
        };
        without_arguments(builtin, name, args)
    }

    /// Returns its name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::AddDate => "add_date",
            Self::AddUserInfo => "add_user_info",
            Self::MaxIterations(_) => "max_iterations",
            Self::RedactSecrets => "redact_secrets",
            Self::SaferShell => "safer_shell",
        }
    }

    /// Returns its arguments.
    pub fn args(&self) -> Vec<String> {
        match self {
            Self::MaxIterations(limit) => vec![limit.to_string()],
            Self::AddDate | Self::AddUserInfo | Self::RedactSecrets | Self::SaferShell => {
                Vec::new()
            }
        }
    }

    /// Returns the points at which it has an effect.
    pub const fn points(&self) -> &'static [&'static str] {
        match self {
            Self::AddDate => &["turn_start"],
            Self::AddUserInfo => &["session_start"],
            Self::MaxIterations(_) => &["before_llm_call"],
            Self::RedactSecrets => &[
                "pre_tool_use",
                "before_llm_call",
                "tool_response_transform",
                "tool_input_transform",
            ],
            Self::SaferShell => &["pre_tool_use"],
        }
    }

    /// Returns its verdict. At other than its points it does nothing, and a warning reports that.
    pub fn verdict(&self, point: &str, event: &Members<'_>, scene: &Scene) -> Verdict {
        if !self.points().contains(&point) {
            return does_nothing(self.name());
        }
        match self {
            Self::AddDate => add_date::verdict(scene.now),
            Self::AddUserInfo => add_user_info::verdict(&scene.names),
            Self::MaxIterations(limit) => max_iterations::verdict(*limit, event),
            Self::RedactSecrets => redact_secrets::verdict(point, event),
            Self::SaferShell => safer_shell::verdict(event),
        }
    }

    /// Returns whether docker-agent runs it in the stage before the others, when nothing has been approved yet.
    pub const fn preempts(&self) -> bool {
        matches!(self, Self::SaferShell)
    }
}

/// Returns the verdict of a built-in hook at a point without effect.
pub fn does_nothing(name: &str) -> Verdict {
    Verdict::warning(format!("`{name}` does nothing here"))
}

/// Reads the arguments: the number of calls.
///
/// Unlike in docker-agent an invalid one is an error: an agent that seems capped must not run without a cap.
fn limit(args: &[String]) -> Result<NonZeroU64, InvalidField> {
    let limit = match args {
        [limit] => limit.parse().ok(),
        _ => None,
    };
    let problem =
        "must be one positive number: how many calls of the model `max_iterations` allows";
    limit.ok_or_else(|| InvalidField::new("args", problem))
}

/// Returns the hooks of an agent's or toolset's flag, each with its point; `None` without a supported hook.
///
/// The result limit, which is always on, has its own name, and comes after `redact_secrets`: each reads the rewrites of
/// the one before it.
pub fn shorthand(flag: &str) -> Option<Vec<(&'static str, Action)>> {
    let (action, points): (_, &[_]) = match flag {
        "add_date" => (Action::Builtin(Builtin::AddDate), &["turn_start"]),
        "add_environment_info" => (
            Action::Supplied(Supplied::Query(Query::Look(Look::Environment))),
            &["session_start"],
        ),
        "limit_large_tool_results" => (
            Action::Supplied(Supplied::Query(Query::Result)),
            &["tool_response_transform", "session_end"],
        ),
        "redact_secrets" => (
            Action::Builtin(Builtin::RedactSecrets),
            &["pre_tool_use", "before_llm_call", "tool_response_transform"],
        ),
        "safer" => (Action::Builtin(Builtin::SaferShell), &["pre_tool_use"]),
        _ => return None,
    };
    Some(
        points
            .iter()
            .map(|point| (*point, action.clone()))
            .collect(),
    )
}

fn not_served(name: &str) -> InvalidField {
    let why = NOT_SERVED.iter().find(|(known, _)| *known == name);
    let why = why.map_or_else(
        || "is unknown".to_owned(),
        |(_, why)| format!("is not served, as it {why}"),
    );
    let served = SERVED.join(", ");
    let problem = format!("`{name}` {why}; use one of {served}");
    InvalidField::new("builtin", problem)
}
