//! `hookjail serve`: the daemon.

use std::process::ExitCode;

use clap::Args;

use super::{Context, Failure};
use crate::daemon;

/// Runs the daemon.
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
        daemon::serve(&context.source)?;
        Ok(ExitCode::SUCCESS)
    }
}
