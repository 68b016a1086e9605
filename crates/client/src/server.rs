//! The daemon of a call: its address, and the call itself.

use std::path::{Path, PathBuf};

use nix::{
    errno::Errno,
    unistd::{AccessFlags, access},
};
use tokio::signal::unix::{SignalKind, signal};
use tonic::{Response, Status, transport::Channel};

use crate::{Context, Failure, connect, output};

/// The offset of exit codes for signals.
pub const SIGNALED: u8 = 128;

/// Returns the daemon's socket: the named one, else the usual one. `None`: the call is served privately.
pub fn daemon(context: &Context, named: Option<&Path>) -> Option<PathBuf> {
    let paths = &context.paths;
    if let Some(address) = named {
        return connect::socket(paths, address);
    }
    let sockets = paths.sockets();
    if paths.address.is_some() {
        return sockets.into_iter().next();
    }
    sockets.into_iter().find(|socket| socket.exists())
}

/// Returns the daemon's address for a runtime's hook. One over the network is the named one: a project's settings may set variables.
///
/// # Errors
///
/// Fails where a variable names an address over the network.
pub fn daemon_of_runtime(
    context: &Context,
    named: Option<&Path>,
) -> Result<Option<PathBuf>, Failure> {
    let daemon = daemon(context, named);
    expect_configuration(context, named);
    match daemon.as_deref().and_then(connect::url) {
        Some(_) if named.is_none() => Err(Failure::new(
            "`HOOKJAIL_ADDR` is an address over the network; pass it to a runtime's hook by `--connect`",
        )),
        Some(_) | None => Ok(daemon),
    }
}

/// Returns the daemon's socket for a call; `None` if the call is served privately. That holds with `is_private`, or where this
/// user has no permission to connect to the daemon at the usual place.
pub fn of_call(context: &Context, named: Option<&Path>, is_private: bool) -> Option<PathBuf> {
    if is_private {
        return None;
    }
    let socket = daemon(context, named)?;
    let is_usual = named.is_none() && context.paths.address.is_none();
    if is_usual && access(&socket, AccessFlags::W_OK) == Err(Errno::EACCES) {
        output::stderr(&format!(
            "hookjail: no permission to connect to `{}`, so this call is served privately",
            socket.display()
        ));
        return None;
    }
    expect_configuration(context, named);
    Some(socket)
}

/// Has the daemon at the usual place refuse this call where it runs with another configuration than `--config` names.
///
/// A named daemon is used with any configuration.
pub fn expect_configuration(context: &Context, named: Option<&Path>) {
    let is_usual = named.is_none() && context.paths.address.is_none();
    if let Some(file) = context.config.as_ref().filter(|_| is_usual) {
        connect::expect_configuration(file);
    }
}

/// Describes the server of a call.
pub fn described(daemon: Option<&Path>) -> String {
    daemon.map_or_else(
        || "this process alone".to_owned(),
        |socket| format!("the daemon at {}", socket.display()),
    )
}

/// Calls a running daemon.
pub fn by_daemon<Q, T>(
    socket: &Path,
    request: Q,
    call: impl AsyncFnOnce(Channel, Q) -> Result<T, Failure>,
) -> Result<T, Failure> {
    connect::block_on(&connect::runtime()?, async {
        call(connect::connect(socket).await?, request).await
    })
}

/// Waits for an answer or a signal. The dropped call then ends its runs.
pub async fn until_interrupted<T>(
    answer: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Failure> {
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let interrupted = |number: u8| {
        Failure::new("interrupted, and the hook was killed").with_code(SIGNALED + number)
    };
    tokio::select! {
        answer = answer => answer.map(Response::into_inner).map_err(connect::refused),
        _ = terminate.recv() => Err(interrupted(15)),
        _ = interrupt.recv() => Err(interrupted(2)),
    }
}
