//! Reads the paths of the daemon's files and sockets, and of workspaces.

use std::path::PathBuf;

use hookjail_policy::WorkspaceRoots;

use super::{ConfigProblem, ProcessEnv, admin_beside, file::PathsEntry};

/// Paths of a configuration, each absolute.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) admin_socket: Option<PathBuf>,
    pub(super) profile_dirs: Vec<PathBuf>,
    pub(super) runtime: PathBuf,
    pub(super) socket: Option<PathBuf>,
    pub(super) state: PathBuf,
    pub(super) workspace_roots: WorkspaceRoots,
}

impl Places {
    /// Reads the paths; the environment has the defaults.
    ///
    /// `sockets` are the callers' and the operator's. Beside the roots is whether hooks run as their callers.
    pub(super) fn read(
        paths: PathsEntry,
        profile_dirs: Vec<PathBuf>,
        sockets: (Option<PathBuf>, Option<PathBuf>),
        (roots, as_callers): (Option<Vec<PathBuf>>, bool),
        environment: &ProcessEnv,
    ) -> Result<Self, ConfigProblem> {
        let state = match paths.state {
            Some(path) => absolute("paths.state", path)?,
            None => environment.state()?,
        };
        let runtime = match paths.runtime {
            Some(path) => absolute("paths.runtime", path)?,
            None => environment.runtime(&state),
        };
        let (socket, admin_socket) = self::sockets(sockets, environment)?;
        if admin_socket.is_some() && admin_socket == socket {
            let problem = "is `server.socket`; the two are different sockets";
            return Err(ConfigProblem::key("server.admin_socket", problem));
        }
        let all = |key, paths: Vec<PathBuf>| -> Result<Vec<PathBuf>, ConfigProblem> {
            paths.into_iter().map(|path| absolute(key, path)).collect()
        };
        let workspace_roots = match roots {
            None => WorkspaceRoots {
                homes: environment.paths.homes(),
                homes_of_callers: as_callers,
                ..WorkspaceRoots::default()
            },
            Some(roots) => WorkspaceRoots {
                named: all("hooks.workspace_roots", roots)?,
                ..WorkspaceRoots::default()
            },
        };
        Ok(Self {
            admin_socket,
            profile_dirs: all("profiles.dirs", profile_dirs)?,
            runtime,
            socket,
            state,
            workspace_roots,
        })
    }
}

/// Reads the paths of the callers' socket and of the operator's.
pub(super) fn sockets(
    (socket, admin_socket): (Option<PathBuf>, Option<PathBuf>),
    environment: &ProcessEnv,
) -> Result<(Option<PathBuf>, Option<PathBuf>), ConfigProblem> {
    let socket = match socket {
        Some(path) => Some(absolute("server.socket", path)?),
        None => environment.paths.socket(),
    };
    let admin_socket = match admin_socket {
        Some(path) => Some(absolute("server.admin_socket", path)?),
        None => socket.as_deref().map(admin_beside),
    };
    Ok((socket, admin_socket))
}

fn absolute(key: &'static str, path: PathBuf) -> Result<PathBuf, ConfigProblem> {
    match path.is_absolute() {
        true => Ok(path),
        false => {
            let problem = format!("`{}` is not an absolute path", path.display());
            Err(ConfigProblem::key(key, problem))
        }
    }
}
