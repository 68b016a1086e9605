//! `hookjail completions`: completions of this command line, for shells.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use clap_complete::{Shell, generate};

use hookjail_client::{Failure, output, thin::WHOLE};

use super::Arguments;

/// Print completions for a shell.
///
/// For bash: hookjail completions bash >~/.local/share/bash-completion/completions/hookjail
#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: Completed,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Completed {
    Bash,
    Fish,
    Zsh,
}

impl CompletionsArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let shell = match self.shell {
            Completed::Bash => Shell::Bash,
            Completed::Fish => Shell::Fish,
            Completed::Zsh => Shell::Zsh,
        };
        let mut text = Vec::new();
        generate(shell, &mut Arguments::whole(), WHOLE, &mut text);
        output::raw(&text);
        Ok(ExitCode::SUCCESS)
    }
}
