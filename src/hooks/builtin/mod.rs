//! docker-agent's built-in hooks that are served here.
//!
//! Most need no process: they are functions of the event, or look into the workspace. Those that ask git are commands, in
//! [`git`], and go the way of every command.

use std::{fmt::Display, num::NonZeroU64, path::Path};

use jiff::Timestamp;

use crate::{
    admission::Peer,
    contract::{Members, Verdict, text},
    request::InvalidField,
    workspace::{Directory, Elsewhere, Opened},
};

mod add_date;
mod add_directory_listing;
mod add_environment_info;
mod add_prompt_files;
mod commands;
pub mod git;
mod limit_large_tool_results;
mod max_iterations;
mod redact_secrets;
mod safer_shell;
mod secrets;

/// A built-in hook that needs no process, with its arguments.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Builtin {
    /// Tells the model the date.
    AddDate,
    /// Tells the model what lies in the working directory.
    AddDirectoryListing,
    /// Tells the model where it works.
    AddEnvironmentInfo,
    /// Tells the model what files say.
    AddPromptFiles(Vec<String>),
    /// Cuts what tools return where it is too long for a conversation.
    LimitLargeToolResults,
    /// Stops the agent after so many calls of the model.
    MaxIterations(NonZeroU64),
    /// Takes secrets out of tool input, messages and tool output.
    RedactSecrets,
    /// Has a human asked about shell commands that are not known to read only.
    SaferShell,
}

/// Those that are served, by their names.
const SERVED: [&str; 11] = [
    "add_date",
    "add_directory_listing",
    "add_environment_info",
    "add_git_diff",
    "add_git_status",
    "add_prompt_files",
    "add_recent_commits",
    "limit_large_tool_results",
    "max_iterations",
    "redact_secrets",
    "safer_shell",
];

/// Those that docker-agent has and that are not served, and why.
const NOT_SERVED: [(&str, &str); 5] = [
    ("add_context", "it renders Go templates"),
    // The daemon could ask its own system, and a runtime in a container would be told of the wrong one.
    (
        "add_user_info",
        "only the runtime's own system knows its user and host",
    ),
    ("http_post", "it opens a connection"),
    ("snapshot", "it writes files"),
    ("unload", "it opens a connection"),
];

/// What a built-in hook may go by beside the event.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The time.
    pub now: Timestamp,
    /// With whose rights it looks at files; `None` = the daemon's own.
    pub reader: Option<Peer>,
    /// The workspace, if one is bound.
    pub workspace: Option<&'a Path>,
}

impl Builtin {
    /// Parses its name and arguments.
    ///
    /// # Errors
    ///
    /// Names a built-in that is not served and says why, and arguments that it does not take.
    pub fn parse(name: &str, args: &[String]) -> Result<Self, InvalidField> {
        let builtin = match name {
            "add_date" => Self::AddDate,
            "add_directory_listing" => Self::AddDirectoryListing,
            "add_environment_info" => Self::AddEnvironmentInfo,
            "add_prompt_files" => return add_prompt_files::names(args).map(Self::AddPromptFiles),
            "limit_large_tool_results" => Self::LimitLargeToolResults,
            "max_iterations" => return max_iterations::limit(args).map(Self::MaxIterations),
            "redact_secrets" => Self::RedactSecrets,
            "safer_shell" => Self::SaferShell,
            _ => return Err(not_served(name)),
        };
        if args.is_empty() {
            return Ok(builtin);
        }
        let problem = format!("must be empty: `{name}` takes no arguments");
        Err(InvalidField::new("args", problem))
    }

    /// Returns its name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::AddDate => "add_date",
            Self::AddDirectoryListing => "add_directory_listing",
            Self::AddEnvironmentInfo => "add_environment_info",
            Self::AddPromptFiles(_) => "add_prompt_files",
            Self::LimitLargeToolResults => "limit_large_tool_results",
            Self::MaxIterations(_) => "max_iterations",
            Self::RedactSecrets => "redact_secrets",
            Self::SaferShell => "safer_shell",
        }
    }

    /// Returns its arguments.
    pub fn args(&self) -> Vec<String> {
        match self {
            Self::AddPromptFiles(names) => names.clone(),
            Self::MaxIterations(limit) => vec![limit.to_string()],
            Self::AddDate
            | Self::AddDirectoryListing
            | Self::AddEnvironmentInfo
            | Self::LimitLargeToolResults
            | Self::RedactSecrets
            | Self::SaferShell => Vec::new(),
        }
    }

    /// Returns the points at which it does something.
    pub const fn points(&self) -> &'static [&'static str] {
        match self {
            Self::AddDate | Self::AddPromptFiles(_) => &["turn_start"],
            Self::AddDirectoryListing | Self::AddEnvironmentInfo => &["session_start"],
            // Nothing is kept for a session, so there is nothing to remove at its end.
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

    /// Says whether docker-agent asks it in the stage before the others, where nothing has been approved yet.
    pub const fn preempts(&self) -> bool {
        matches!(self, Self::SaferShell)
    }

    /// Says what it makes of an event, which is the object that a command hook would read. At other than its points it does
    /// nothing, and a warning says so.
    ///
    /// # Errors
    ///
    /// The event is not one JSON object.
    pub fn run(
        &self,
        point: &str,
        event: &[u8],
        scene: &Scene<'_>,
    ) -> Result<Verdict, InvalidField> {
        let event = Members::of_event(event)?;
        if !self.points().contains(&point) {
            return Ok(does_nothing(self.name()));
        }
        Ok(match self {
            Self::AddDate => add_date::verdict(scene.now),
            Self::AddDirectoryListing => {
                self.looking(&event, scene, add_directory_listing::verdict)
            }
            Self::AddEnvironmentInfo => self.looking(&event, scene, add_environment_info::verdict),
            Self::AddPromptFiles(names) => self.looking(&event, scene, |directory| {
                add_prompt_files::verdict(names, directory)
            }),
            Self::LimitLargeToolResults => limit_large_tool_results::verdict(point, &event),
            Self::MaxIterations(limit) => max_iterations::verdict(*limit, &event),
            Self::RedactSecrets => redact_secrets::verdict(point, &event),
            Self::SaferShell => safer_shell::verdict(&event),
        })
    }

    /// Says whether it looks at files.
    pub const fn looks(&self) -> bool {
        matches!(
            self,
            Self::AddDirectoryListing | Self::AddEnvironmentInfo | Self::AddPromptFiles(_)
        )
    }

    fn looking(
        &self,
        event: &Members<'_>,
        scene: &Scene<'_>,
        verdict: impl FnOnce(&Opened) -> Verdict,
    ) -> Verdict {
        let directory = match directory(event, scene.workspace) {
            Ok(directory) => directory,
            Err(elsewhere) => return sees_nothing(self.name(), elsewhere),
        };
        match directory.open(scene.reader) {
            Ok(opened) => verdict(&opened),
            Err(error) => sees_nothing(
                self.name(),
                format_args!("the workspace cannot be opened: {error}"),
            ),
        }
    }
}

/// Returns where the runtime works, as its event says.
fn directory(event: &Members<'_>, workspace: Option<&Path>) -> Result<Directory, Elsewhere> {
    let cwd = event.last("cwd").and_then(text).unwrap_or_default();
    Directory::of(&cwd, workspace)
}

fn sees_nothing(name: &str, why: impl Display) -> Verdict {
    warning(format!("`{name}` sees nothing: {why}"))
}

/// Says that a built-in hook stands at a point that is none of its own.
fn does_nothing(name: &str) -> Verdict {
    warning(format!("`{name}` does nothing here"))
}

/// Returns the hooks that a flag of an agent or toolset stands for, each with its point; `None` of a flag that stands for
/// none that is served. The result limit, which is always on, goes by its own name, and comes after `redact_secrets`: each
/// sees what the one before it rewrote.
pub fn shorthand(flag: &str) -> Option<Vec<(&'static str, Builtin)>> {
    let (builtin, points): (_, &[_]) = match flag {
        "add_date" => (Builtin::AddDate, &["turn_start"]),
        "add_environment_info" => (Builtin::AddEnvironmentInfo, &["session_start"]),
        "limit_large_tool_results" => {
            (Builtin::LimitLargeToolResults, &["tool_response_transform"])
        }
        "redact_secrets" => (
            Builtin::RedactSecrets,
            &["pre_tool_use", "before_llm_call", "tool_response_transform"],
        ),
        "safer" => (Builtin::SaferShell, &["pre_tool_use"]),
        _ => return None,
    };
    Some(
        points
            .iter()
            .map(|point| (*point, builtin.clone()))
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

fn warning(text: String) -> Verdict {
    Verdict {
        warnings: vec![text],
        ..Verdict::default()
    }
}

#[cfg(test)]
mod tests;
