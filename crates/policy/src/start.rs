//! The start directory of a hook.

use std::path::Path;

use hookjail_base::model::Hook;

use super::{GrantPlace, Policy, WorkingDir};

/// Returns a hook's start directory; `None` = its scratch directory.
pub fn starts_in<'a>(policy: &Policy, hook: &'a Hook) -> Option<&'a Path> {
    let workspace = hook.workspace.as_deref();
    let is_granted = |workspace: &Path| {
        let mut named = policy.files.named.iter();
        named.any(|grant| match &grant.place {
            GrantPlace::Path(path) => workspace.starts_with(path),
            GrantPlace::Entries(_) | GrantPlace::Source { .. } => false,
            GrantPlace::Workspace { below, .. } => below.as_os_str().is_empty(),
        })
    };
    let workspace = workspace.filter(|workspace| {
        policy.working_dir == WorkingDir::Workspace || hook.at_workspace && is_granted(workspace)
    });
    hook.working_dir.as_deref().or(workspace)
}
