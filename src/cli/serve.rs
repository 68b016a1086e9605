//! `hookjail serve`: the daemon.

use std::process::ExitCode;

use clap::Args;

use super::{Context, Failure};
use crate::daemon::{self, LogFormat};

/// Run the daemon.
///
/// Its log goes to stderr, with `--json` as lines of JSON; under systemd, without `--json`, to journald with priorities and
/// fields.
#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Leave the session of whoever starts it, and go on when that ends
    #[arg(long, hide = true)]
    on_demand: bool,
}

impl ServeArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        if self.on_demand {
            nix::unistd::setsid()?;
        }
        let format = if context.json {
            LogFormat::Json
        } else {
            LogFormat::Text
        };
        daemon::serve(&context.source, format)?;
        Ok(ExitCode::SUCCESS)
    }
}
