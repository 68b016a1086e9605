//! docker-agent's built-in hooks that are served here.
//!
//! Most need no process: they are functions of the event, or look into the workspace. Those that ask git are commands, in
//! [`git`], and go the way of every command.

use std::{fmt::Display, num::NonZeroU64, path::Path};

use jiff::Timestamp;

use crate::{
    contract::{Members, Verdict, text},
    hooks::ResultsOf,
    model::{InvalidField, Peer},
    workspace::{Directory, Elsewhere, Opened},
};

mod add_date;
mod add_directory_listing;
mod add_environment_info;
mod add_prompt_files;
mod add_user_info;
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
    /// Tells the model whose agent it is, and on which host.
    AddUserInfo,
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
const SERVED: [&str; 12] = [
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

/// Those that docker-agent has and that are not served, and why.
const NOT_SERVED: [(&str, &str); 4] = [
    ("add_context", "it renders Go templates"),
    ("http_post", "it opens a connection"),
    ("snapshot", "it writes files"),
    ("unload", "it opens a connection"),
];

/// What a built-in hook may go by beside the event.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// What keeps results of tools; `None` = nothing does.
    pub results: Option<ResultsOf<'a>>,
    /// The time.
    pub now: Timestamp,
    /// With whose rights it looks at files; `None` = the daemon's own.
    pub reader: Option<Peer>,
    /// Whose agent it is.
    pub uid: u32,
    /// Where the hook's entry has it start, in the place of where the runtime works.
    pub working_dir: Option<&'a Path>,
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
            "add_user_info" => Self::AddUserInfo,
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
            Self::AddPromptFiles(names) => names.clone(),
            Self::MaxIterations(limit) => vec![limit.to_string()],
            Self::AddDate
            | Self::AddDirectoryListing
            | Self::AddEnvironmentInfo
            | Self::AddUserInfo
            | Self::LimitLargeToolResults
            | Self::RedactSecrets
            | Self::SaferShell => Vec::new(),
        }
    }

    /// Returns the points at which it does something.
    pub const fn points(&self) -> &'static [&'static str] {
        match self {
            Self::AddDate | Self::AddPromptFiles(_) => &["turn_start"],
            Self::AddDirectoryListing | Self::AddEnvironmentInfo | Self::AddUserInfo => {
                &["session_start"]
            }
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
            Self::AddUserInfo => add_user_info::verdict(scene.uid),
            Self::LimitLargeToolResults => {
                limit_large_tool_results::verdict(point, &event, scene.results)
            }
            Self::MaxIterations(limit) => max_iterations::verdict(*limit, &event),
            Self::RedactSecrets => redact_secrets::verdict(point, &event),
            Self::SaferShell => safer_shell::verdict(&event),
        })
    }

    /// Says whether it keeps files of its own.
    pub const fn keeps(&self) -> bool {
        matches!(self, Self::LimitLargeToolResults)
    }

    /// Says whether it looks at files, or asks the system, either of which may take its time.
    pub const fn looks(&self) -> bool {
        matches!(
            self,
            Self::AddDirectoryListing
                | Self::AddEnvironmentInfo
                | Self::AddPromptFiles(_)
                | Self::AddUserInfo
        )
    }

    fn looking(
        &self,
        event: &Members<'_>,
        scene: &Scene<'_>,
        verdict: impl FnOnce(&Opened) -> Verdict,
    ) -> Verdict {
        let directory = match directory(event, scene.working_dir, scene.workspace) {
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

/// Returns where a hook starts: where its entry says, else where the runtime works, as its event says.
fn directory(
    event: &Members<'_>,
    working_dir: Option<&Path>,
    workspace: Option<&Path>,
) -> Result<Directory, Elsewhere> {
    if let Some(working_dir) = working_dir {
        return Directory::of(working_dir, workspace);
    }
    let cwd = event.last("cwd").and_then(text).unwrap_or_default();
    Directory::of(Path::new(&cwd), workspace)
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
        "limit_large_tool_results" => (
            Builtin::LimitLargeToolResults,
            &["tool_response_transform", "session_end"],
        ),
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
