//! The command line: what is not the daemon's own work.

mod assemble;
mod client;
mod consent;
mod doctor;
mod output;
mod profile;
mod program;
mod run;
mod serve;
mod show;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

pub use self::assemble::{Assembly, AssemblyError};
use crate::{config::Surroundings, refusal::chain};

/// hookjail failed or refused.
const FAILED: u8 = 125;

/// Runs the hooks of AI-agent runtimes confined, on time, and says truthfully what happened.
#[derive(Debug, Parser)]
#[command(name = "hookjail", version, arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// The configuration file [default: /etc/hookjail/hookjail.toml for root, else $XDG_CONFIG_HOME/hookjail/hookjail.toml]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print machine-readable JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Allow commands, list and revoke what is allowed
    Consent(consent::Consent),
    /// Show what this host can enforce, axis by axis, with evidence
    Doctor(doctor::Doctor),
    /// List, show and validate profiles
    Profile(profile::Profile),
    /// Run one hook
    Run(Box<run::Run>),
    /// Run the daemon
    Serve(serve::Serve),
}

/// What every subcommand gets.
#[derive(Debug)]
struct Context {
    config: Option<PathBuf>,
    json: bool,
    surroundings: Surroundings,
}

impl Context {
    /// Loads the configuration: the file that was named, else the default one if there is one.
    fn load(&self) -> Result<crate::config::Config, crate::config::ConfigError> {
        let default = || {
            self.surroundings
                .config_file()
                .filter(|path| path.symlink_metadata().is_ok())
        };
        let path = self.config.clone().or_else(default);
        crate::config::Config::load(path.as_deref(), &self.surroundings)
    }
}

/// Runs the program and returns its exit code.
pub fn main(arguments: Arguments) -> ExitCode {
    let Arguments {
        command,
        config,
        json,
    } = arguments;
    let context = Context {
        config,
        json,
        surroundings: Surroundings::of_process(),
    };
    let done = match command {
        Command::Consent(consent) => consent.run(&context),
        Command::Doctor(doctor) => doctor.run(&context),
        Command::Profile(profile) => profile.run(&context),
        Command::Run(run) => run.run(&context),
        Command::Serve(serve) => serve.run(&context),
    };
    done.unwrap_or_else(|failure| {
        output::failure(&failure, json);
        ExitCode::from(failure.code)
    })
}

/// Why a subcommand failed, and with which code it exits.
#[derive(Debug)]
struct Failure {
    code: u8,
    message: String,
    metadata: std::collections::BTreeMap<String, String>,
    reason: Option<String>,
    status: &'static str,
}

impl Failure {
    fn new(message: impl Into<String>) -> Self {
        Self {
            code: FAILED,
            message: message.into(),
            metadata: std::collections::BTreeMap::new(),
            reason: None,
            status: "FAILED",
        }
    }

    fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(chain(&error))
    }
}
