//! `hookjail serve`: the daemon.

use std::process::ExitCode;

use clap::Args;

use hookjail_client::Failure;

use super::Context;
use hookjail_daemon::daemon::{self, LogFormat};

/// Run the daemon.
///
/// Its log goes to stderr, with `--json` as lines of JSON. Under systemd and without `--json`, it goes to journald with
/// priorities and fields.

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Leave the session of the process that starts it, and go on when that ends
    #[arg(long, hide = true)]
    on_demand: bool,
    /// Serve only the process that starts this one, as a part of it
    ///
    /// Listens on one new socket, in a new directory that only this user can enter, and serves this user alone.
    /// Once it listens, one line of JSON is on stdout: {"address":"unix:///…/hookjail.sock","pid":123}.
    /// The daemon ends at the end of stdin, however its parent ends, and on SIGTERM or SIGINT.
    /// At its end running hooks are killed, and the directory is removed.
    /// At a terminal the daemon serves until Ctrl-D or Ctrl-C; where stdin is /dev/null, the daemon ends at once.
    /// Configuration, consent and journal are those of this user's daemon.
    #[arg(long)]
    private: bool,
}

impl ServeArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        if self.on_demand {
            nix::unistd::setsid()?;
        }
        let format = if context.call.json {
            LogFormat::Json
        } else {
            LogFormat::Text
        };
        if self.private {
            daemon::serve_privately(&context.source, format)?;
        } else {
            daemon::serve(&context.source, format)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
