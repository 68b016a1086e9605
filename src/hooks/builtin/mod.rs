//! Built-in hooks of a runtime that run here.
//!
//! Most need no process: they are functions of the event, or read the workspace. Those that query git are commands, in
//! [`git`], and go through the pipeline like every command.

use std::{fmt::Display, path::Path};

use jiff::Timestamp;

use crate::{
    contract::{Builtin, Members, Verdict, text},
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
pub(crate) mod git;
mod limit_large_tool_results;
mod max_iterations;
mod redact_secrets;
mod safer_shell;
mod secrets;

/// Context of a built-in hook beside the event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene<'a> {
    /// The store of tool results; `None` = there is none.
    pub results: Option<ResultsOf<'a>>,
    /// The time.
    pub now: Timestamp,
    /// The peer whose rights apply to file access; `None` = the daemon's own.
    pub reader: Option<Peer>,
    /// The uid of the agent's user.
    pub uid: u32,
    /// The entry's working directory, in place of the runtime's.
    pub working_dir: Option<&'a Path>,
    /// The workspace, if one is bound.
    pub workspace: Option<&'a Path>,
}

impl Builtin {
    /// Runs a built-in hook on an event, a command hook's stdin. At other than its points it does nothing, and a
    /// warning reports that.
    ///
    /// # Errors
    ///
    /// The event is not one JSON object.
    pub(crate) fn run(
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

/// Returns a hook's working directory: the entry's, else the event's.
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
