//! The built-in hooks that query git, as commands in the pipeline.
//!
//! A workspace is not to be trusted with the programs that its configuration starts: the profile allows no process
//! beside git.

use std::{collections::BTreeMap, ffi::OsString, path::Path};

use super::{directory, does_nothing, sees_nothing};
use crate::{
    contract::{Members, Question, Report, Verdict},
    model::InvalidField,
    request::Request,
};

/// The default profile of these hooks. It allows reading the workspace, and no new process.
pub(crate) const PROFILE: &str = "strict";

/// The maximum length of git's output in the model's context, bytes.
const BYTES: usize = 4096;

impl Question {
    /// Sets a request's command to git, in the runtime's working directory. A returned verdict is the whole answer,
    /// where git need not run.
    ///
    /// # Errors
    ///
    /// The event is not one JSON object.
    pub(crate) fn put(self, request: &mut Request) -> Result<Option<Verdict>, InvalidField> {
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

/// Returns the environment of git beside its profile's variables. It excludes any configuration but the repository's,
/// and all above the workspace or on another machine.
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
