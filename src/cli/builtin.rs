//! `hookjail builtin`: the confined program of built-in hooks that read the workspace.

use std::process::ExitCode;

use hookjail_client::{Failure, output};

use hookjail_daemon::hooks::builtin::findings;

/// Look at the current directory as a built-in hook
#[derive(Debug, clap::Args)]
pub(super) struct BuiltinArgs {
    /// The built-in hook
    name: String,
    /// Its arguments
    #[arg(trailing_var_arg = true)]
    args: Vec<String>,
}

impl BuiltinArgs {
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let findings = findings(&self.name, &self.args)?;
        output::raw(&serde_json::to_vec(&findings)?);
        Ok(ExitCode::SUCCESS)
    }
}
