//! docker-agent's supported built-in hooks that are no commands, by name and arguments, and the verdicts of those that are functions
//! of the event and the time.

mod add_date;
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

pub use self::large_result::LargeResult;
use crate::{
    Action, Members, Verdict,
    docker_agent::query::{Look, Query, without_arguments},
};

/// A built-in hook that needs no process, with its arguments.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Builtin {
    /// Adds the date to the model's context.
    AddDate,
    /// Adds the user's and the host's name to the model's context.
    AddUserInfo,
    /// Truncates tool results that are too long for a conversation.
    LimitLargeToolResults,
    /// Stops the agent after so many calls of the model.
    MaxIterations(NonZeroU64),
    /// Redacts secrets in tool input, messages and tool output.
    RedactSecrets,
    /// Asks for approval of shell commands that are not known to be read-only.
    SaferShell,
}

/// The act of a built-in hook that is no function of the event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Act {
    /// Keeps a large result in a file, or removes a session's files.
    KeepResult,
    /// Looks up the names of the user and of the host.
    NameUser,
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
    ("add_context", "it renders Go templates"),
    ("http_post", "it opens a connection"),
    ("snapshot", "it writes files"),
    ("unload", "it opens a connection"),
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
            "limit_large_tool_results" => Self::LimitLargeToolResults,
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
            Self::LimitLargeToolResults => "limit_large_tool_results",
            Self::MaxIterations(_) => "max_iterations",
            Self::RedactSecrets => "redact_secrets",
            Self::SaferShell => "safer_shell",
        }
    }

    /// Returns its arguments.
    pub fn args(&self) -> Vec<String> {
        match self {
            Self::MaxIterations(limit) => vec![limit.to_string()],
            Self::AddDate
            | Self::AddUserInfo
            | Self::LimitLargeToolResults
            | Self::RedactSecrets
            | Self::SaferShell => Vec::new(),
        }
    }

    /// Returns the points at which it has an effect.
    pub const fn points(&self) -> &'static [&'static str] {
        match self {
            Self::AddDate => &["turn_start"],
            Self::AddUserInfo => &["session_start"],
            Self::LimitLargeToolResults => &["tool_response_transform", "session_end"],
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
    ///
    /// # Errors
    ///
    /// Returns the act of one that reads or writes more than the event.
    pub fn verdict(
        &self,
        point: &str,
        event: &Members<'_>,
        now: Timestamp,
    ) -> Result<Verdict, Act> {
        if !self.points().contains(&point) {
            return Ok(does_nothing(self.name()));
        }
        match self {
            Self::AddDate => Ok(add_date::verdict(now)),
            Self::AddUserInfo => Err(Act::NameUser),
            Self::LimitLargeToolResults => Err(Act::KeepResult),
            Self::MaxIterations(limit) => Ok(max_iterations::verdict(*limit, event)),
            Self::RedactSecrets => Ok(redact_secrets::verdict(point, event)),
            Self::SaferShell => Ok(safer_shell::verdict(event)),
        }
    }

    /// Returns whether docker-agent runs it in the stage before the others, when nothing has been approved yet.
    pub const fn preempts(&self) -> bool {
        matches!(self, Self::SaferShell)
    }

    /// Returns whether it waits for the system: for files of its own, or for the database of users.
    pub const fn waits(&self) -> bool {
        matches!(self, Self::AddUserInfo | Self::LimitLargeToolResults)
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
            Action::Query(Query::Look(Look::Environment)),
            &["session_start"],
        ),
        "limit_large_tool_results" => (
            Action::Builtin(Builtin::LimitLargeToolResults),
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
    let why = why.map_or("there is none of that name", |(_, why)| why);
    let served = SERVED.join(", ");
    let problem = format!("`{name}` is not served: {why}; served are {served}");
    InvalidField::new("builtin", problem)
}
