//! Checks workspaces against their roots.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use nix::unistd::geteuid;

use super::{located::Located, profile::references::never_of_home};

/// Directories below which workspaces are accepted.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct WorkspaceRoots {
    /// The spellings of the user's home, where the configuration names no roots. A workspace may be any directory in
    /// it, except those with keys and those whose files are later run unconfined. And any directory of the user's elsewhere, but for
    /// those of the system.
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
            None if self.is_users_own(workspace) => Ok(()),
            None => Err("lies below no root of `hooks.workspace_roots`".to_owned()),
            Some(below) => match never_of_home(below, false) {
                None => Ok(()),
                Some(why) => Err(format!(
                    "is no workspace unless `hooks.workspace_roots` names it: {why}"
                )),
            },
        }
    }

    /// Returns whether a directory beside the home belongs to the daemon's user, who is not root, and is neither the system's nor
    /// another path of the home.
    fn is_users_own(&self, workspace: &Path) -> bool {
        let own = geteuid();
        if own.is_root() || self.homes.is_empty() || self.homes_of_callers {
            return false;
        }
        let is_systems = SYSTEM.iter().any(|place| workspace.starts_with(place));
        let is_own = |path: &Path| {
            let found = fs::symlink_metadata(path);
            found.is_ok_and(|it| it.is_dir() && it.uid() == own.as_raw())
        };
        let is_home = |workspace: &Located| {
            let homes = self.homes.iter().map(|home| Located::find(home));
            let mut homes = homes.filter_map(Result::ok);
            homes.any(|home| home.holds(workspace) || workspace.holds(&home))
        };
        !is_systems
            && is_own(workspace)
            && Located::find(workspace)
                .is_ok_and(|found| found.path() == workspace && !is_home(&found))
    }
}

/// Where the system keeps its own, whoever owns it.
const SYSTEM: [&str; 12] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys",
    "/usr",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_the_users_beside_the_home_is_open_and_another_path_of_the_home_is_not() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        for name in ["home/project", "project"] {
            fs::create_dir_all(place.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(place.join("project"), place.join("link")).unwrap();
        let admits = |roots: &WorkspaceRoots, below: &str| roots.admit(&place.join(below)).is_ok();
        let roots = WorkspaceRoots {
            homes: vec![place.join("home")],
            ..WorkspaceRoots::default()
        };
        // Root's hooks have users of their own, and root owns nearly all.
        let is_user = !geteuid().is_root();
        assert_eq!(admits(&roots, "project"), is_user);
        assert!(admits(&roots, "home/project"));
        for refused in ["", "home", "link", "none"] {
            assert!(!admits(&roots, refused), "{refused}");
        }
        assert!(roots.admit(Path::new("/usr")).is_err());
        let named = WorkspaceRoots {
            named: vec!["/srv".into()],
            ..WorkspaceRoots::default()
        };
        assert!(!admits(&named, "project"));
    }

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
