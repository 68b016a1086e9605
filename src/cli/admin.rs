//! `hookjail reload` and `hookjail drain`: steer a running daemon.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use tonic::{Response, Status, transport::Channel};

use super::{Context, Failure, client, output, private_server::by_daemon, run::parse_span};
use crate::{
    config::admin_beside,
    pb::{self, admin_service_client::AdminServiceClient},
    wire::json,
};

/// Reload the daemon's configuration, profiles and hooks.
///
/// If anything is wrong with them, nothing of them takes effect and this exits with 125.
#[derive(Debug, Args)]
pub(super) struct ReloadArgs {
    /// The daemon's admin socket [default: that of the configuration]
    #[arg(long, value_name = "ADDR")]
    connect: Option<PathBuf>,
}

impl ReloadArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let socket = socket(context, self.connect.as_deref())?;
        let response = by_daemon(&socket, pb::ReloadRequest {}, async |channel, request| {
            answered(
                AdminServiceClient::<Channel>::new(channel)
                    .reload(request)
                    .await,
            )
        })?;
        if context.json {
            output::json_line(&json::render(&response, "hookjail.v1.ReloadResponse")?);
        } else {
            let text = format!(
                "reloaded: {} profiles, {} hooks at lifecycle points\n",
                response.profiles.len(),
                response.hooks
            );
            output::stdout(text.as_bytes());
            if !response.unconfirmed.is_empty() {
                output::stderr(&format!(
                    "hookjail: not confirmed on this host, so every run under them is refused: {}; see `hookjail doctor`",
                    response.unconfirmed.join(", ")
                ));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Stop the daemon gracefully: accept no more requests, and wait for running hooks.
#[derive(Debug, Args)]
pub(super) struct DrainArgs {
    /// The daemon's admin socket [default: that of the configuration]
    #[arg(long, value_name = "ADDR")]
    connect: Option<PathBuf>,
    /// How long running hooks get, for example 500ms, 10s, 2m [default: `server.drain`]
    #[arg(long, value_parser = parse_span)]
    within: Option<Duration>,
}

impl DrainArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let socket = socket(context, self.connect.as_deref())?;
        let within = self.within.map(prost_types::Duration::try_from);
        let request = pb::DrainRequest {
            within: within.transpose()?,
        };
        let response = by_daemon(&socket, request, async |channel, request| {
            answered(
                AdminServiceClient::<Channel>::new(channel)
                    .drain(request)
                    .await,
            )
        })?;
        if context.json {
            output::json_line(&json::render(&response, "hookjail.v1.DrainResponse")?);
        } else {
            output::stdout(
                format!("draining: {} hooks are running\n", response.running).as_bytes(),
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the message of an answer, or the failure that its status is.
pub(super) fn answered<T>(answer: Result<Response<T>, Status>) -> Result<T, Failure> {
    answer
        .map(Response::into_inner)
        .map_err(|status| client::refused(&status))
}

/// Returns the daemon's admin socket: that of `--connect`, else that of the configuration.
pub(super) fn socket(context: &Context, named: Option<&Path>) -> Result<PathBuf, Failure> {
    let environment = context.environment();
    let address = named.or(environment.address.as_deref());
    if let Some(url) = address.and_then(client::url) {
        let message = "is a daemon over the network, which is administered on its own host alone";
        return Err(Failure::new(format!("`{url}` {message}")));
    }
    let socket = match (named, &environment.address) {
        (Some(address), _) => client::socket(environment, address),
        (None, Some(_)) => environment
            .sockets()
            .first()
            .map(|socket| admin_beside(socket)),
        (None, None) => context.load()?.admin_socket,
    };
    socket.ok_or_else(|| {
        Failure::new(
            "there is no default admin socket without XDG_RUNTIME_DIR or /run/user/UID; name it with `--connect`",
        )
    })
}
