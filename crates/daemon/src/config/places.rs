//! Paths of the daemon's files and sockets, and of workspaces, where the file has none.

use std::path::PathBuf;

use hookjail_policy::WorkspaceRoots;
use hookjail_sandbox::RunAs;

use super::{
    ConfigProblem, ProcessEnv, admin_beside,
    file::{ConfigFile, HooksEntry},
};

/// Sets the paths of files, sockets and profiles that the file does not have.
///
/// # Errors
///
/// Names a path without a default, and two sockets at one path.
pub(super) fn complete(
    file: &mut ConfigFile,
    environment: &ProcessEnv,
) -> Result<(), ConfigProblem> {
    let paths = &mut file.paths;
    if paths.state.as_os_str().is_empty() {
        paths.state = environment.state()?;
    }
    if paths.runtime.as_os_str().is_empty() {
        paths.runtime = environment.runtime(&paths.state);
    }
    // Of any kind: a link is refused as it is read, and not passed over.
    let is_there = |path: &PathBuf| path.symlink_metadata().is_ok();
    let usual = || environment.paths.profiles().filter(is_there);
    file.profiles
        .dirs
        .get_or_insert_with(|| usual().into_iter().collect());
    let server = &mut file.server;
    let written = (server.socket.take(), server.admin_socket.take());
    (server.socket, server.admin_socket) = sockets(written, environment);
    if server.admin_socket.is_some() && server.admin_socket == server.socket {
        let problem = "is `server.socket`; name a different socket";
        return Err(ConfigProblem::key("server.admin_socket", problem));
    }
    Ok(())
}

/// Returns the paths of the callers' socket and of the operator's, with defaults.
pub(super) fn sockets(
    (socket, admin_socket): (Option<PathBuf>, Option<PathBuf>),
    environment: &ProcessEnv,
) -> (Option<PathBuf>, Option<PathBuf>) {
    let socket = socket.or_else(|| environment.paths.socket());
    let admin_socket = admin_socket.or_else(|| socket.as_deref().map(admin_beside));
    (socket, admin_socket)
}

/// Returns below which directories a workspace may lie.
pub(super) fn workspace_roots(hooks: &HooksEntry, environment: &ProcessEnv) -> WorkspaceRoots {
    match &hooks.workspace_roots {
        None => WorkspaceRoots {
            homes: environment.paths.homes(),
            homes_of_callers: hooks.users().values().any(|it| *it == RunAs::Caller),
            ..WorkspaceRoots::default()
        },
        Some(roots) => WorkspaceRoots {
            named: roots.clone(),
            only_named: true,
            ..WorkspaceRoots::default()
        },
    }
}
