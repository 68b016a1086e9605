//! The built-in hooks that ask git: each is a command, which goes through the pipeline as every hook does.
//!
//! A workspace is not to be trusted with what its configuration starts: the profile allows no process beside git.

use std::{collections::BTreeMap, ffi::OsString, path::Path};

use super::{directory, does_nothing, sees_nothing};
use crate::{
    contract::{Members, Question, Report, Verdict},
    model::InvalidField,
    request::Request,
};

/// The profile where an entry names none: it allows reading the workspace, and no new process.
pub const PROFILE: &str = "strict";

/// How much of git's output the model is told, bytes.
const BYTES: usize = 4096;

impl Question {
    /// Has a request ask git, where the runtime works; what is returned is the whole answer, where there is nothing to ask.
    ///
    /// # Errors
    ///
    /// The event is not one JSON object.
    pub fn put(self, request: &mut Request) -> Result<Option<Verdict>, InvalidField> {
        let event = request.contract.stdin(&request.event, &request.envelope)?;
        let event = Members::of_event(&event)?;
        if request.event.point != self.point() {
            return Ok(Some(does_nothing(self.name())));
        }
        let hook = &request.hook;
        let directory = match directory(
            &event,
            hook.working_dir.as_deref(),
            hook.workspace.as_deref(),
        ) {
            Ok(directory) => directory,
            Err(elsewhere) => return Ok(Some(sees_nothing(self.name(), elsewhere))),
        };
        request.entry.report = Some(Report {
            bytes: BYTES,
            heading: match self {
                Self::Commits(_) => "Recent commits",
                Self::Diff => "Current working-tree diff",
                Self::DiffStat => "Current working-tree diff (stat)",
                Self::Status => "Current git status",
            },
        });
        request.hook.configured_env = environment(directory.workspace());
        request.hook.working_dir = Some(directory.path());
        Ok(None)
    }
}

/// Returns what git finds beside its profile's variables: no configuration but the repository's, and nothing above the
/// workspace or on another machine.
fn environment(workspace: &Path) -> BTreeMap<String, OsString> {
    let above = workspace.parent().unwrap_or(workspace);
    let variables = [
        ("GIT_ATTR_NOSYSTEM", "1".into()),
        ("GIT_CEILING_DIRECTORIES", above.into()),
        ("GIT_CONFIG_GLOBAL", "/dev/null".into()),
        ("GIT_CONFIG_NOSYSTEM", "1".into()),
        ("GIT_NO_LAZY_FETCH", "1".into()),
        ("GIT_TERMINAL_PROMPT", "0".into()),
    ];
    variables
        .map(|(name, value)| (name.to_owned(), value))
        .into()
}
