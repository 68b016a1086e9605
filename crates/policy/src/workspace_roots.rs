//! Checks workspaces against their roots.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsStr,
    fs,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
};

use nix::unistd::geteuid;

use super::{
    Access, GrantPlace, Registry,
    located::Located,
    profile::{grants::ungrantable, references::never_of_home},
};

/// Directories below which workspaces are accepted.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct WorkspaceRoots {
    /// Places whose files hooks of other workspaces run, and programs that others run, in every spelling.
    pub executed: Vec<PathBuf>,
    /// The spellings of the user's home, where the configuration names no roots. A workspace may be any directory in
    /// it, except those with keys and those whose files are later run unconfined. And any directory of the user's elsewhere, but for
    /// those of the system.
    pub homes: Vec<PathBuf>,
    /// Whether the home of each caller counts as one for that caller.
    pub homes_of_callers: bool,
    /// The operator's roots.
    pub named: Vec<PathBuf>,
    /// Names of directories whose files an agent obeys: no workspace is one, or lies in one.
    pub obeyed: BTreeSet<&'static str>,
    /// Whether the operator lists the roots. Otherwise a run of the daemon's own user, started elsewhere, has no workspace.
    pub only_named: bool,
}

/// Why a directory is no workspace.
enum NoWorkspace {
    /// The reason lies in the directory.
    Closed(String),
    /// The directory lies below no root.
    Elsewhere,
}

impl WorkspaceRoots {
    /// Returns the roots without what the profiles of registries, or the search path for programs, execute, and without
    /// directories that are obeyed.
    #[must_use]
    pub fn excluding<'a>(
        &self,
        registries: impl IntoIterator<Item = &'a Registry>,
        obeyed: BTreeSet<&'static str>,
    ) -> Self {
        let in_home = |path: &PathBuf| self.homes.iter().any(|home| path.starts_with(home));
        let policies = registries.into_iter().flat_map(Registry::iter);
        let granted =
            policies.flat_map(|policy| policy.files.system.iter().chain(&policy.files.named));
        let granted = granted.filter_map(|grant| match &grant.place {
            GrantPlace::Path(path) => Some((path, grant.access)),
            GrantPlace::Entries(_) | GrantPlace::Source { .. } | GrantPlace::Workspace { .. } => {
                None
            }
        });
        // In the home hooks run what they may read there, too: caches of packages.
        let granted = granted.filter(|(path, access)| *access == Access::Execute || in_home(path));
        let searched = env::var_os("PATH").unwrap_or_default();
        let granted = granted.map(|(path, _)| path.clone());
        let executed = self.executed_in(granted.chain(env::split_paths(&searched)));
        Self {
            executed,
            obeyed,
            ..self.clone()
        }
    }

    /// Returns directories in every spelling, and of a directory `bin` the installation that it is of.
    fn executed_in(&self, directories: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
        let spelled = directories.filter(|path| path.is_absolute() && !is_of_a_project(path));
        let spelled = spelled.flat_map(|path| [path.canonicalize().ok(), Some(path)]);
        let all = spelled.flatten().flat_map(|path| {
            let is_of_programs = path
                .file_name()
                .is_some_and(|it| it == "bin" || it == "sbin");
            let around = path.parent().filter(|_| is_of_programs).map(Path::to_owned);
            let holds_home = |around: &Path| self.homes.iter().any(|it| it.starts_with(around));
            let around = around.filter(|it| it.join("lib").is_dir() && !holds_home(it));
            [Some(path), around].into_iter().flatten()
        });
        let mut executed: Vec<_> = all.filter(|path| path.parent().is_some()).collect();
        executed.sort();
        executed.dedup();
        executed
    }

    /// Returns an error where a workspace may not be here, compared as text.
    ///
    /// # Errors
    ///
    /// Returns the reason, worded to follow the path, and the operator's fix.
    pub fn admit(&self, workspace: &Path) -> Result<(), String> {
        self.judge(workspace).map_err(|why| match why {
            NoWorkspace::Closed(why) => unless_named(&why),
            NoWorkspace::Elsewhere => "lies below no root of `hooks.workspace_roots`".to_owned(),
        })
    }

    /// Returns why a directory is no workspace, without the operator's fix; `None` where it may be one, compared as text.
    #[must_use]
    pub fn why_not(&self, workspace: &Path) -> Option<String> {
        match (self.judge(workspace), ungrantable(workspace)) {
            (Ok(()), why) => why.map(str::to_owned),
            (Err(NoWorkspace::Closed(why)), _) => Some(why),
            (Err(NoWorkspace::Elsewhere), _) => Some(
                "the directory lies neither in the home nor in another directory of this user's own"
                    .to_owned(),
            ),
        }
    }

    /// Adds a directory as a root for a process that serves one user's own command. Other roots, such as [`Self::excluding`]
    /// returns them, must have nothing against it by the rules for places of a home.
    ///
    /// # Errors
    ///
    /// Returns the reason, worded to follow the path, where it keeps keys, or others obey or execute what lies there.
    pub fn add(&mut self, workspace: &Path, homes: &[PathBuf], judge: &Self) -> Result<(), String> {
        let judge = Self {
            homes: homes.to_vec(),
            ..judge.clone()
        };
        match judge.judge(workspace) {
            Ok(()) | Err(NoWorkspace::Elsewhere) => {
                self.named.push(workspace.to_owned());
                Ok(())
            }
            Err(NoWorkspace::Closed(why)) => Err(unless_named(&why)),
        }
    }

    fn judge(&self, workspace: &Path) -> Result<(), NoWorkspace> {
        let mut named = self.named.iter();
        let mut homes = self.homes.iter();
        let closed = |why: &str| Err(NoWorkspace::Closed(why.to_owned()));
        if let Some(below) = named.find_map(|root| workspace.strip_prefix(root).ok()) {
            return match self.obeyed_in(below) {
                None => Ok(()),
                Some(why) => closed(&why),
            };
        }
        let meets = |one: &Path, other: &Path| one.starts_with(other) || other.starts_with(one);
        let mut executed = self.executed.iter().map(PathBuf::as_path);
        let executed = executed.find(|it| meets(it, workspace));
        let run_elsewhere = |executed: &Path| {
            let executed = executed.display();
            closed(&format!("programs of `{executed}` are run elsewhere"))
        };
        let Some(below) = homes.find_map(|home| workspace.strip_prefix(home).ok()) else {
            return match (self.obeyed_in(workspace), executed) {
                (Some(why), _) => closed(&why),
                (None, _) if !self.is_users_own(workspace) => Err(NoWorkspace::Elsewhere),
                (None, Some(executed)) => run_elsewhere(executed),
                (None, None) => Ok(()),
            };
        };
        let mut programs = PROGRAMS.iter().map(Path::new);
        let executed = executed.or(programs.find(|it| meets(it, below)));
        let tree = in_agents_trees(below);
        if let Some(why) = never_of_home(below, false).filter(|_| tree.is_none()) {
            closed(why)
        } else if let Some(why) = hidden_in(tree.as_deref().unwrap_or(below)) {
            closed(&why)
        } else if let Some(executed) = executed {
            run_elsewhere(executed)
        } else {
            Ok(())
        }
    }

    /// Returns an error where a directory of git's that belongs to a workspace may not be here: its repository has to be accepted.
    ///
    /// # Errors
    ///
    /// As [`WorkspaceRoots::admit`].
    pub fn admit_git(&self, directory: &Path) -> Result<(), String> {
        // `.git`, and what it is called where a repository has nothing else, such as `.bare`.
        let hidden = directory
            .ancestors()
            .filter(|it| it.file_name().is_some_and(is_dotted));
        let mut repositories = hidden.filter_map(Path::parent);
        let direct = self.admit(directory);
        match direct.is_err() && repositories.any(|repository| self.admit(repository).is_ok()) {
            true => Ok(()),
            false => direct,
        }
    }

    /// Returns why no project lies here: git, an agent or an editor obeys a directory on the way. Working trees that they make are
    /// projects.
    fn obeyed_in(&self, path: &Path) -> Option<String> {
        let names: Vec<&OsStr> = path.iter().collect();
        let obeyed = (0..names.len()).find(|&index| {
            let name = names[index].to_string_lossy().to_lowercase();
            let is_obeyed = OBEYED.contains(&&*name) || self.obeyed.contains(&*name);
            is_obeyed && !makes_trees(&names, index)
        })?;
        let name = names[obeyed].display();
        Some(format!(
            "git, an agent or an editor obeys files of `{name}`"
        ))
    }

    /// Returns whether a directory beside the home belongs to the daemon's user, who is not root, and is neither the system's nor
    /// another path of the home.
    fn is_users_own(&self, workspace: &Path) -> bool {
        let user = geteuid();
        if user.is_root() || self.homes.is_empty() || self.homes_of_callers {
            return false;
        }
        let is_systems = SYSTEM.iter().any(|place| workspace.starts_with(place));
        let is_own = |path: &Path| {
            let found = fs::symlink_metadata(path);
            found.is_ok_and(|it| it.is_dir() && it.uid() == user.as_raw())
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

/// Words the operator's fix, and why it is needed, to follow a path.
fn unless_named(why: &str) -> String {
    format!("is no workspace unless `hooks.workspace_roots` names it: {why}")
}

/// Directories whose files git, editors and tools around them obey, of any project.
const OBEYED: [&str; 5] = [".devcontainer", ".git", ".husky", ".idea", ".vscode"];

/// Directories of a home with programs that others run.
const PROGRAMS: [&str; 4] = ["bin", "go/bin", "sbin", "snap"];

fn is_dotted(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

/// Returns why no project lies here in a home: a name begins with a dot.
fn hidden_in(below: &Path) -> Option<String> {
    let names: Vec<&OsStr> = below.iter().collect();
    let hidden =
        (0..names.len()).find(|&index| is_dotted(names[index]) && !makes_trees(&names, index))?;
    let name = names[hidden].display();
    Some(format!("tools keep their own in places such as `{name}`"))
}

/// Returns the path of a working tree below the directory of a home in which its agent makes them: `.cursor/worktrees/PROJECT/NAME`.
///
/// No agent obeys what lies between.
fn in_agents_trees(below: &Path) -> Option<PathBuf> {
    let mut names = below.iter();
    let agent = names.next()?;
    let is_of_trees = AGENTS.iter().any(|it| agent == *it) && names.next()? == "worktrees";
    let tree: PathBuf = names.collect();
    (is_of_trees && tree.iter().count() >= 2).then_some(tree)
}

/// The directories of agents in a home in which they make working trees.
const AGENTS: [&str; 2] = [".codex", ".cursor"];

/// Returns whether a name is that of a project's directory in which tools make working trees: `.worktrees/NAME`, or `worktrees/NAME`
/// in another one that begins with a dot.
fn makes_trees(names: &[&OsStr], index: usize) -> bool {
    let is_projects = index > 0;
    let below: Vec<_> = names[index..]
        .iter()
        .map(|name| name.to_string_lossy())
        .collect();
    is_projects
        && match below.iter().map(|name| &**name).collect::<Vec<_>>()[..] {
            [".worktrees", _, ..] => true,
            [first, "worktrees", _, ..] => first != ".git",
            _ => false,
        }
}

/// Directories of the system, under any owner.
const SYSTEM: [&str; 12] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys",
    "/usr",
];

/// Returns whether a directory of programs is a project's own: of a virtual environment, or of its packages.
fn is_of_a_project(programs: &Path) -> bool {
    let mut names = programs.components().map(Component::as_os_str);
    let around = programs.parent();
    names.any(|name| name == "node_modules")
        || around.is_some_and(|around| around.join("pyvenv.cfg").is_file())
}

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
    fn a_place_of_keys_is_no_root_of_a_users_own_command_either() {
        let homes = ["/home/ada".into()];
        let roots = || WorkspaceRoots {
            named: vec!["/srv".into(), "/home/ada/.config/tool".into()],
            ..WorkspaceRoots::default()
        };
        for (path, is_added) in [
            ("/home/ada/project", true),
            ("/home/ada/.config/tool/x", true),
            ("/srv/project", true),
            ("/opt/project", true),
            ("/home/ada/.ssh", false),
            ("/home/ada/.config/other", false),
            ("/home/ada/bin", false),
            ("/opt/project/.git", false),
        ] {
            let mut roots = roots();
            let judge = roots.clone();
            let added = roots.add(Path::new(path), &homes, &judge);
            assert_eq!(added.is_ok(), is_added, "{path}: {added:?}");
            assert_eq!(roots.admit(Path::new(path)).is_ok(), is_added, "{path}");
        }
    }

    #[test]
    fn programs_beside_the_home_and_what_is_installed_with_them_are_no_workspace() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        for name in [
            "home/bin",
            "home/conda/bin",
            "home/conda/lib/x",
            "home/lib",
            "opt/bin",
            "opt/lib",
            "other",
            "plain/bin",
            "plain/x",
            "home/project/.venv/bin",
            "home/project/.venv/lib",
            "home/project/node_modules/.bin",
        ] {
            fs::create_dir_all(place.join(name)).unwrap();
        }
        fs::write(place.join("home/project/.venv/pyvenv.cfg"), "").unwrap();
        std::os::unix::fs::symlink(place.join("plain/bin"), place.join("searched")).unwrap();
        let homes = WorkspaceRoots {
            homes: vec![place.join("home")],
            ..WorkspaceRoots::default()
        };
        // The last two are those of a session in a project, which stays a workspace.
        let searched = [
            "home/bin",
            "home/conda/bin",
            "opt/bin",
            "searched",
            "home/project/.venv/bin",
            "home/project/node_modules/.bin",
        ];
        let searched = searched.map(|it| place.join(it)).into_iter();
        let searched = searched.chain([".".into(), "/".into()]);
        let roots = WorkspaceRoots {
            executed: homes.executed_in(searched),
            ..homes.clone()
        };
        // Root owns nearly all: beside its home no directory is its own.
        let elsewhere: &[(&str, bool)] = match geteuid().is_root() {
            true => &[],
            false => &[
                ("opt", true),
                ("opt/bin", true),
                ("opt/lib", true),
                ("other", false),
                ("plain", true),
                ("plain/bin", true),
                ("plain/x", false),
            ],
        };
        let at_home = [
            ("home/conda/lib", true),
            ("home/conda/lib/x", true),
            ("home/lib", false),
            ("home/project", false),
        ];
        for (below, is_executed) in at_home.iter().chain(elsewhere) {
            let path = place.join(below);
            assert_eq!(homes.admit(&path), Ok(()), "{below}");
            let problem = roots.admit(&path).err();
            let is_refused = problem
                .as_ref()
                .is_some_and(|it| it.contains("run elsewhere"));
            assert_eq!(
                (is_refused, problem.is_some()),
                (*is_executed, *is_executed),
                "{below}"
            );
        }
    }

    #[test]
    fn what_is_executed_elsewhere_or_obeyed_is_no_workspace_and_neither_are_places_of_tools() {
        let references = crate::References {
            cache: None,
            home: Some("/home/ada".into()),
        };
        let registry = Registry::load(&[], &[], &references).unwrap();
        let roots = WorkspaceRoots {
            homes: vec!["/home/ada".into()],
            named: vec!["/srv".into(), "/home/ada/p/.claude/hooks".into()],
            ..WorkspaceRoots::default()
        };
        let roots = roots.excluding([&registry], [".claude", ".github"].into());
        for taken in [
            "/home/ada/p",
            "/home/ada/go/src/example.com/p",
            "/home/ada/p/.worktrees/one",
            "/home/ada/p/.claude/worktrees/one",
            "/home/ada/p/.claude/worktrees/one/src",
            "/home/ada/.cursor/worktrees/p/one",
            "/home/ada/.codex/worktrees/ab12/p/src",
            "/home/ada/binary",
            "/srv/p",
            "/srv/p/.cache/x",
            "/home/ada/p/.claude/hooks",
        ] {
            assert_eq!(roots.admit(Path::new(taken)), Ok(()), "{taken}");
        }
        for (refused, why) in [
            // Beside the working trees of agents.
            ("/home/ada/.cursor/worktrees/p", "keys, tokens"),
            ("/home/ada/.cursor/worktrees/p/.git", "tools keep their own"),
            ("/home/ada/.cursor/extensions/p/one", "keys, tokens"),
            ("/home/ada/.codex/worktrees", "run or obey"),
            ("/home/ada/.codex/skills/p/one", "run or obey"),
            // Executed: by the profiles' own grants, and by searches for programs.
            ("/home/ada/go", "run elsewhere"),
            ("/home/ada/go/bin", "run elsewhere"),
            ("/home/ada/go/pkg", "run elsewhere"),
            ("/home/ada/go/pkg/mod/x", "run elsewhere"),
            ("/home/ada/bin", "run elsewhere"),
            ("/home/ada/bin/x", "run elsewhere"),
            // Of tools.
            ("/home/ada/.rbenv", "tools keep their own"),
            ("/home/ada/.config/kitty", "tools keep their own"),
            ("/home/ada/.vscode/extensions/x", "tools keep their own"),
            ("/home/ada/.worktrees/x", "tools keep their own"),
            ("/home/ada/p/.cache/x", "tools keep their own"),
            // Obeyed, wherever it lies.
            ("/home/ada/p/.git", "tools keep their own"),
            ("/home/ada/p/.claude", "tools keep their own"),
            ("/home/ada/p/.claude/worktrees", "tools keep their own"),
            ("/home/ada/p/.git/worktrees/one", "tools keep their own"),
            ("/srv/p/.git", "obeys"),
            ("/srv/p/.GIT/hooks", "obeys"),
            ("/srv/p/.claude/hooks", "obeys"),
            ("/srv/.github", "obeys"),
            ("/srv/p/.vscode", "obeys"),
            ("/srv/p/.Husky/_", "obeys"),
            ("/home/ada/p/.claude/hooks/.git", "obeys"),
        ] {
            let problem = roots.admit(Path::new(refused)).unwrap_err();
            assert!(problem.contains(why), "{refused}: {problem}");
        }
        // The directories of a repository are granted with its accepted working tree.
        for (git, is_accepted) in [
            ("/home/ada/p/.git", true),
            ("/home/ada/p/.git/worktrees/one", true),
            ("/home/ada/p/.bare", true),
            ("/home/ada/repositories/p.git", true),
            ("/srv/p/.git/modules/sub", true),
            ("/srv/.p/q/.git/modules/.sub", true),
            ("/srv/p/.claude/worktrees/one/.git", true),
            ("/home/ada/.git", false),
            ("/home/ada/.dotfiles/.git", false),
            ("/home/ada/go/.git", false),
            ("/elsewhere/.git", false),
        ] {
            assert_eq!(
                roots.admit_git(Path::new(git)).is_ok(),
                is_accepted,
                "{git}"
            );
        }
    }

    #[test]
    fn a_home_is_open_but_for_what_keeps_keys_or_is_run_later() {
        let roots = WorkspaceRoots {
            homes: vec!["/home/ada".into(), "/mnt/home/ada".into()],
            named: vec!["/srv".into(), "/home/ada/.config/nvim".into()],
            ..WorkspaceRoots::default()
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
