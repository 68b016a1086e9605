//! `hookjail policy`: the administrator's files, as archives and as candidates.

mod apply;
mod archive;
mod check;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use hookjail_client::Failure;

use super::Context;

/// Apply the administrator's policies, and try them against the journal.
#[derive(Debug, Args)]
pub(super) struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    Apply(apply::ApplyArgs),
    Check(check::CheckArgs),
}

impl PolicyArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        match self.command {
            PolicyCommand::Apply(apply) => apply.run(context),
            PolicyCommand::Check(check) => check.run(context),
        }
    }
}
