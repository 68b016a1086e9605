//! `hookjail reload` and `hookjail drain`: steer a running daemon.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use tonic::{Response, Status, transport::Channel};

use hookjail_proto::{self as pb, admin_service_client::AdminServiceClient};

use hookjail_base::refusal::chain;
use hookjail_client::{Failure, arguments::parse_span, connect, output, server::by_daemon};

use super::Context;
use hookjail_daemon::{
    config::{ConfigError, admin_beside},
    daemon::Assembly,
    wire::json,
};

/// Reload the daemon's configuration, profiles and hooks.
///
/// The daemon reads them. On an error it reports the error and keeps what is in force. Exits with 125 then.
#[derive(Debug, Args)]
pub(super) struct ReloadArgs {
    /// The daemon's admin socket [default: that of the configuration]
    #[arg(long, value_name = "ADDR")]
    connect: Option<PathBuf>,
}

impl ReloadArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let named = self.connect.as_deref();
        let broken = match (named, &context.call.paths.address) {
            (None, None) => context.load().err(),
            _ => None,
        };
        let socket = socket_of_running(context, named)?;
        // Also with what is known to be broken: the daemon takes note of a reload that it refused.
        let answer = ask(&socket, async |client| {
            client.reload(pb::ReloadRequest {}).await
        });
        let response = match (answer, broken) {
            (Err(failure), Some(broken)) if failure.reason.is_none() => Err(broken.into()),
            (Ok(_), Some(broken)) => Err(Failure::new(format!(
                "{}, but the daemon at `{}` has another configuration and reloaded it",
                chain(&broken),
                socket.display()
            ))),
            (answer, _) => answer,
        }?;
        if context.call.json {
            output::json_line(&json::render(&response, "hookjail.v1.ReloadResponse")?);
        } else {
            let text = format!(
                "reloaded: {} profiles, {} hooks at lifecycle points\n",
                response.profiles.len(),
                response.hooks
            );
            output::text(&text);
            if named.is_none()
                && let Ok(registry) = Assembly::registry(&context.load()?)
            {
                for (name, why) in registry.broken() {
                    output::stderr(&format!("hookjail: profile `{name}` is broken: {why}"));
                }
            }
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
    /// The time that running hooks get, for example 500ms, 10s, 2m [default: `server.drain`]
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
        let response = ask(&socket, async |client| client.drain(request).await)?;
        if context.call.json {
            output::json_line(&json::render(&response, "hookjail.v1.DrainResponse")?);
        } else {
            output::text(&format!(
                "draining: {} hooks are running\n",
                response.running
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Asks a daemon for something that its operator may.
pub(super) fn ask<T>(
    socket: &Path,
    call: impl AsyncFnOnce(&mut AdminServiceClient<Channel>) -> Result<Response<T>, Status>,
) -> Result<T, Failure> {
    by_daemon(socket, (), async |channel, ()| {
        let client = AdminServiceClient::new(channel);
        // As long as the list of a daemon with many runs may be.
        let mut client = client.max_decoding_message_size(usize::MAX);
        let answer = call(&mut client).await.map_err(connect::refused)?;
        Ok(answer.into_inner())
    })
}

/// Returns the daemon's admin socket: that of `--connect`, else that of the configuration.
pub(super) fn socket(context: &Context, named: Option<&Path>) -> Result<PathBuf, Failure> {
    socket_or(context, named, || {
        Ok(context.load()?.server.admin_socket.clone())
    })
}

/// Returns the same where the configuration may be broken: a daemon that runs has what was in force before.
pub(super) fn socket_of_running(
    context: &Context,
    named: Option<&Path>,
) -> Result<PathBuf, Failure> {
    socket_or(context, named, || context.source.admin_socket_of_running())
}

fn socket_or(
    context: &Context,
    named: Option<&Path>,
    configured: impl FnOnce() -> Result<Option<PathBuf>, ConfigError>,
) -> Result<PathBuf, Failure> {
    let paths = &context.call.paths;
    let address = named.or(paths.address.as_deref());
    if let Some(url) = address.and_then(connect::url) {
        let message = "is a daemon over the network, which is administered on its own host alone";
        return Err(Failure::new(format!("`{url}` {message}")));
    }
    let socket = match (named, &paths.address) {
        (Some(address), _) => connect::socket(paths, address),
        (None, Some(_)) => paths.sockets().first().map(|socket| admin_beside(socket)),
        (None, None) => configured()?,
    };
    socket.ok_or_else(|| {
        Failure::new(
            "there is no default admin socket without XDG_RUNTIME_DIR or /run/user/UID; name it with `--connect`",
        )
    })
}
