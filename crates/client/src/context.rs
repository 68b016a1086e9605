//! The context of a command: options of every subcommand, and the environment of this process.

use std::{fs::File, path::PathBuf};

use clap::Args;
use nix::sys::stat::{Mode, umask};

use hookjail_base::{
    model::variable::DEPTH,
    util::{
        trusted_file,
        user_paths::{UserPaths, variable},
    },
};

use crate::Failure;

/// Options of every subcommand.
#[derive(Debug, Default, Args)]
pub struct Everywhere {
    /// The configuration file [default: /etc/hookjail/hookjail.toml for root, else $XDG_CONFIG_HOME/hookjail/hookjail.toml]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print machine-readable JSON
    #[arg(long, global = true)]
    json: bool,
}

/// The context of a command.
#[derive(Clone, Debug)]
pub struct Context {
    /// The configuration file that the command line names.
    pub config: Option<PathBuf>,
    /// `HOOKJAIL_DEPTH`: 0 outside of every hook, the largest number where it cannot be read.
    pub depth: u32,
    /// Whether output is JSON.
    pub json: bool,
    /// The paths of the user's daemon and of its files.
    pub paths: UserPaths,
    /// The umask of this process as it was started.
    pub umask: u32,
}

impl Context {
    /// Reads the environment. To be called before any thread is started.
    pub fn new(everywhere: Everywhere) -> Self {
        Self {
            config: everywhere.config,
            depth: variable(DEPTH).map_or(0, |depth| {
                let depth = depth.to_str().and_then(|depth| depth.parse().ok());
                depth.unwrap_or(u32::MAX)
            }),
            json: everywhere.json,
            paths: UserPaths::read(),
            umask: own_umask(),
        }
    }

    /// Checks the configuration file that the command line names, which no call to a daemon reads.
    ///
    /// # Errors
    ///
    /// Fails where it cannot be read, or others can change it.
    pub fn check_config(&self) -> Result<(), Failure> {
        let Some(path) = &self.config else {
            return Ok(());
        };
        let opened = trusted_file::open_own_or_roots(path, File::options().read(true));
        opened.map(drop).map_err(|error| {
            let path = path.display();
            Failure::new(format!("cannot load the configuration `{path}`: {error}"))
        })
    }
}

/// Returns this process's umask. To be called before any thread is started: to be read it is set.
#[cfg_attr(
    target_os = "linux",
    expect(
        clippy::useless_conversion,
        reason = "the type differs between systems"
    )
)]
fn own_umask() -> u32 {
    let mask = umask(Mode::empty());
    umask(mask);
    u32::from(mask.bits())
}
