//! Checks workspaces against their roots.

use std::path::{Path, PathBuf};

use super::profile::references::never_of_home;

/// Directories below which workspaces are accepted.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct WorkspaceRoots {
    /// The spellings of the user's home, where the configuration names no roots. A workspace may be any directory in
    /// it, except those with keys and those whose files are later run unconfined.
    pub homes: Vec<PathBuf>,
    /// Whether the home of each caller counts as one for that caller.
    pub homes_of_callers: bool,
    /// The operator's roots.
    pub named: Vec<PathBuf>,
}

impl WorkspaceRoots {
    /// Returns an error where a workspace may not be here, compared as text.
    ///
    /// # Errors
    ///
    /// Returns the reason, worded to follow the path, and the operator's fix.
    pub fn admit(&self, workspace: &Path) -> Result<(), String> {
        if self.named.iter().any(|root| workspace.starts_with(root)) {
            return Ok(());
        }
        let mut homes = self.homes.iter();
        match homes.find_map(|home| workspace.strip_prefix(home).ok()) {
            None => Err("lies below no root of `hooks.workspace_roots`".to_owned()),
            Some(below) => match never_of_home(below, false) {
                None => Ok(()),
                Some(why) => Err(format!(
                    "is no workspace unless `hooks.workspace_roots` names it: {why}"
                )),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_open_but_for_what_keeps_keys_or_is_run_later() {
        let roots = WorkspaceRoots {
            homes: vec!["/home/ada".into(), "/mnt/home/ada".into()],
            homes_of_callers: false,
            named: vec!["/srv".into(), "/home/ada/.config/nvim".into()],
        };
        for taken in [
            "/home/ada/project",
            "/mnt/home/ada/src/.claude/worktrees/one",
            "/srv",
            "/srv/x",
            "/home/ada/.config/nvim",
        ] {
            assert_eq!(roots.admit(Path::new(taken)), Ok(()), "{taken}");
        }
        for (refused, expected) in [
            ("/home/ada", "is no workspace"),
            ("/home/ada/.ssh", "keys, tokens"),
            ("/home/ada/.ssh/keys", "keys, tokens"),
            ("/home/ada/.config", "is no workspace"),
            ("/home/ada/.claude", "is no workspace"),
            ("/home/ada/.local/bin", "run or obey"),
            ("/home/eve", "lies below no root"),
            ("/home", "lies below no root"),
            ("/srvx", "lies below no root"),
        ] {
            let problem = roots.admit(Path::new(refused)).unwrap_err();
            assert!(problem.contains(expected), "{refused}: {problem}");
        }
    }
}
